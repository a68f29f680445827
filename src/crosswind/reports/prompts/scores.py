"""Models asked with several prompts, side by side.

Accuracy by model, prompt and data set, what the choice of a prompt is worth, and the same models
fine-tuned.
Jeon et al. 2025, tables 5 and 14; their table 3 is the mean of the best prompts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crosswind.evaluation.compare import DifferenceSummary, over_runs
from crosswind.evaluation.metrics import HEADLINE
from crosswind.evaluation.prompts import (
    Choices,
    Scores,
    best_prompt,
    fixed_prompt,
    of_rows,
    over_data,
    spread,
)
from crosswind.reports.scores.results import LEVEL, Entry, Place, PlaceResults, choosing_rule
from crosswind.reports.tables import Cell, ReportTable, slug
from crosswind.studies.prompts import entries_of, fixed_of, labels_of

ORACLE = "best (ORACLE)"
_BOUNDS = (
    "low and high bound a 95% interval: over runs where these differ; where seeds give the same"
    " answers, as they do of a model that is only asked, over test rows drawn independently"
    " (Wilson's)."
)


@dataclass(frozen=True)
class AnswerScores:
    """The scores of one prompt on one data set: mean over shifts, by seed; `rows` of the test set,
    `unparsed` share of no answer."""

    values: Mapping[Any, float]
    rows: int
    unparsed: float

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return math.fsum(self.values.values()) / len(self.values)

    def bounds(self) -> tuple[float | None, float | None]:
        """The interval over runs where they differ, else over the test rows."""
        averaged: DifferenceSummary = over_runs(dict(self.values), LEVEL)
        if averaged.sd:
            return averaged.low, averaged.high
        return of_rows(self.mean, self.rows, LEVEL)


@dataclass(frozen=True)
class Asked:
    """The prompts of a study at one size, test set and selection rule. `validation`: accuracies on
    the rule's validation set.

    `averages`: name -> data sets. `tuned`: accuracies of the fine-tuned models by (model, data
    set).
    """

    place: Place
    said: Mapping[tuple[str, str, str], AnswerScores]
    validation: Scores
    fixed: str
    averages: Mapping[str, Sequence[str]]
    tuned: Mapping[tuple[str, str], AnswerScores]

    @property
    def scores(self) -> Scores:
        """Accuracy by model, prompt and data set."""
        return {key: score.mean for key, score in self.said.items()}

    @property
    def data(self) -> list[str]:
        """The data sets, in the order of the study."""
        return list(dict.fromkeys(data for _, _, data in self.said))

    @property
    def choices(self) -> dict[str, Choices]:
        """The prompts that each way of choosing chose."""
        ways = {
            ORACLE: best_prompt(self.scores),
            f"fixed: {self.fixed}": fixed_prompt(self.scores, self.fixed),
        }
        validated = best_prompt(self.scores, self.validation)
        return ways | ({"by validation": validated} if validated else {})


def asked_of(
    shown_results: Sequence[PlaceResults],
    every: Mapping[Place, PlaceResults],
    resolved: Mapping[str, Any],
) -> list[Asked]:
    """The prompts of a study, for every size, test set and rule of `shown_results`; `every`:
    validation
    sets too. Empty where none is."""
    prompts = resolved.get("prompts")
    if not prompts:
        return []
    comparisons: list[Asked] = []
    for about in dict.fromkeys(map(_about, shown_results)):
        test_results = [
            setting_results for setting_results in shown_results if _about(setting_results) == about
        ]
        scores = _said(test_results, prompts)
        if not scores:
            continue
        validation_setting = about._replace(set=choosing_rule(about.rule).set)
        validation_results = [
            setting_results
            for setting_results in every.values()
            if _about(setting_results) == validation_setting
        ]
        validation = _said(validation_results, prompts)
        data = list(dict.fromkeys(name for _, _, name in scores))
        averages = prompts["averages"] or ({"all": data} if len(data) > 1 else {})
        comparisons.append(
            Asked(
                place=about,
                said=scores,
                validation={key: score.mean for key, score in validation.items()},
                fixed=fixed_of(prompts),
                averages=averages,
                tuned=_tuned(test_results, prompts["tuned"]),
            )
        )
    return comparisons


def _about(setting_results: PlaceResults) -> Place:
    """The settings that prompts are compared at: the place without data set and model."""
    return setting_results.place._replace(data="", model="")


def _tuned(
    test_results: Sequence[PlaceResults], tuned_models: Mapping[str, Mapping[str, Any]]
) -> dict[tuple[str, str], AnswerScores]:
    """The scores of the models that were fine-tuned, by the model and the data set."""
    scores: dict[tuple[str, str], AnswerScores] = {}
    data_sets = dict.fromkeys(setting_results.place.data for setting_results in test_results)
    for model, tuned in tuned_models.items():
        labels = labels_of(tuned["model"])
        of_model = [
            setting_results
            for setting_results in test_results
            if setting_results.place.model in labels
        ]
        for data in data_sets:
            score = _over(of_model, data, tuned["method"])
            if score is not None:
                scores[model, data] = score
    return scores


def _said(
    shown_results: Sequence[PlaceResults], prompts: Mapping[str, Any]
) -> dict[tuple[str, str, str], AnswerScores]:
    """The scores of every prompt by model, prompt and data set, in the order of the study."""
    scores: dict[tuple[str, str, str], AnswerScores] = {}
    labels_by_prompt = entries_of(prompts)
    for data in dict.fromkeys(setting_results.place.data for setting_results in shown_results):
        for (model, prompt), labels in labels_by_prompt.items():
            for label in labels:
                score = _over(shown_results, data, label)
                if score is not None:
                    scores[model, prompt, data] = score
    order = list(labels_by_prompt)
    return dict(sorted(scores.items(), key=lambda score: order.index(score[0][:2])))


def _over(shown_results: Sequence[PlaceResults], data: str, method: str) -> AnswerScores | None:
    """The mean over shifts by seed, of the first model beside which the method stands."""
    for setting_results in shown_results:
        if setting_results.place.data != data:
            continue
        entries = [
            entry
            for (_, name), entry in setting_results.entries.items()
            if name == method and entry.values(HEADLINE.name)
        ]
        means = _means_by_seed([entry.values(HEADLINE.name) for entry in entries])
        if means:
            rows = min(entry.largest("n") or 0 for entry in entries)
            return AnswerScores(means, rows, _unparsed_share(entries))
    return None


def _means_by_seed(values: Sequence[Mapping[Any, float]]) -> dict[Any, float]:
    """The mean of several values of each seed that has all of them."""
    if not values:
        return {}
    return {
        seed: math.fsum(by_seed[seed] for by_seed in values) / len(values)
        for seed in values[0]
        if all(seed in by_seed for by_seed in values)
    }


def _unparsed_share(entries: Sequence[Entry]) -> float:
    """The share of rows without an answer, mean over runs."""
    shares = [
        float(run_scores.get("unparsed") or 0) / float(run_scores["n"])
        for entry in entries
        for run_scores in entry.metrics.values()
    ]
    return math.fsum(shares) / len(shares)


# -- tables and figure -----------------------------------------------------------------------------


def prompt_table(comparison: Asked) -> ReportTable:
    """Accuracy: a row a model and prompt, a column a data set. The best of a model and data set is
    marked (table 5)."""
    rows: list[list[Cell]] = []
    for model, prompt in dict.fromkeys(key[:2] for key in comparison.said):
        cells: list[Cell] = []
        for data in comparison.data:
            score = comparison.said.get((model, prompt, data))
            # Means stand under means.
            mark = " ‹" if is_best(comparison, model, prompt, data) else "  "
            cells.append(None if score is None else f"{score.mean:.3f}{mark}")
        rows.append([model, prompt, *cells])
    notes = ["‹ the best prompt of this model on these test rows."]
    return _table(
        "prompts",
        f"{HEADLINE.title} by prompt",
        comparison,
        ("model", "prompt", *comparison.data),
        rows,
        notes,
        2,
    )


def answer_table(comparison: Asked) -> ReportTable:
    """Every number: a row a model, prompt and data set, with its interval and the share of rows
    without an answer."""
    rows: list[list[Cell]] = []
    for (model, prompt, data), score in comparison.said.items():
        low, high = score.bounds()
        rows.append([model, prompt, data, score.mean, low, high, score.rows, score.unparsed])
    notes = [
        _BOUNDS,
        (
            "unparsed: the share of rows whose answer could not be read as a label; they count as"
            " wrong."
        ),
    ]
    columns = ("model", "prompt", "data", "accuracy", "low", "high", "rows", "unparsed")
    return _table(
        "answers",
        f"{HEADLINE.title} of every prompt with its interval",
        comparison,
        columns,
        rows,
        notes,
        3,
    )


def choice_table(comparison: Asked) -> ReportTable:
    """The worth of the choice of a prompt: a row a model and way of choosing, a column a data set
    and average; then the drop."""
    rows: list[list[Cell]] = []
    drops = spread(comparison.scores)
    for model in dict.fromkeys(key[0] for key in comparison.said):
        for way, chosen in comparison.choices.items():
            means = [over_data(chosen, data).get(model) for data in comparison.averages.values()]
            cells = [
                chosen[model, data].score if (model, data) in chosen else None
                for data in comparison.data
            ]
            rows.append([model, way, *cells, *means])
        if any(pair[0] == model for pair in drops):
            model_drops = [drops.get((model, data)) for data in comparison.data]
            no_means = [None] * len(comparison.averages)
            rows.append([model, "best - worst", *model_drops, *no_means])
    notes = [
        (
            f"{ORACLE}: chosen for each model and data set by the accuracy on these very test rows,"
            " so that it is too high, the more so the more prompts were tried."
        ),
        *(
            ["by validation: chosen by the accuracy on validation rows."]
            if "by validation" in comparison.choices
            else []
        ),
        f"fixed: {comparison.fixed} everywhere; of a model with one prompt alone, that.",
        (
            "best - worst: what a suboptimal prompt loses. It is above 0 by chance too; see the"
            " intervals of both."
        ),
        *(
            f"{name}: the mean over {', '.join(data)}."
            for name, data in comparison.averages.items()
        ),
    ]
    if any(drops.values()):
        (model, data), greatest = max(drops.items(), key=lambda pair: pair[1])
        notes.append(f"The largest drop: {greatest:.3f}, {model} on {data}.")
    columns = (
        "model",
        "prompt",
        *comparison.data,
        *(f"mean {name}" for name in comparison.averages),
    )
    return _table(
        "prompt choice",
        f"{HEADLINE.title} by how the prompt was chosen",
        comparison,
        columns,
        rows,
        notes,
        2,
    )


def tuned_table(comparison: Asked) -> ReportTable | None:
    """With and without fine-tuning: a row a model and data set (table 14). None where nothing was
    fine-tuned."""
    rows: list[list[Cell]] = []
    ways = comparison.choices
    for (model, data), tuned_pair in comparison.tuned.items():
        without = [
            chosen[model, data].score if (model, data) in chosen else None
            for chosen in ways.values()
        ]
        rows.append(
            [model, data, *without, tuned_pair.mean, *tuned_pair.bounds(), len(tuned_pair.values)]
        )
    columns = ("model", "data", *(f"without, {way}" for way in ways), "with", "low", "high", "runs")
    notes = [
        _BOUNDS,
        f"Without: asked as it is, its prompt chosen as told; {ORACLE} by these test rows.",
    ]
    return (
        _table(
            "fine-tuned",
            f"{HEADLINE.title} with and without fine-tuning",
            comparison,
            columns,
            rows,
            notes,
            2,
        )
        if rows
        else None
    )


def prompt_tables(comparison: Asked) -> list[ReportTable]:
    """All tables of the prompts."""
    tables = (
        prompt_table(comparison),
        choice_table(comparison),
        tuned_table(comparison),
        answer_table(comparison),
    )
    return [table for table in tables if table is not None]


def is_best(comparison: Asked, model: str, prompt: str, data: str) -> bool:
    """Whether no other prompt is better, and some are worse."""
    values = {
        key[1]: score.mean
        for key, score in comparison.said.items()
        if (key[0], key[2]) == (model, data)
    }
    return prompt in values and min(values.values()) < values[prompt] == max(values.values())


def _table(
    table_name: str,
    title: str,
    comparison: Asked,
    columns: Sequence[str],
    rows: list[list[Cell]],
    notes: Sequence[str],
    keys: int,
) -> ReportTable:
    setting = comparison.place
    return ReportTable(
        slug(table_name, *setting),
        f"{title} on {setting.set} ({setting.title_words})",
        tuple(columns),
        rows,
        notes,
        keys,
    )
