"""Advice on one problem: the methods in the order of their expected gain, what each needs and costs,
and the evidence behind it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from crosswind.advice.evidence import METRICS, evidence_path, origin_of, shipped_evidence
from crosswind.advice.gains import Gain, GainModel, observed_gains
from crosswind.advice.problem import KINDS, Problem
from crosswind.core.errors import CrosswindError
from crosswind.core.registry import facts, listing
from crosswind.reports.methods import COST_MODEL, cost_of

if TYPE_CHECKING:
    import polars

    from crosswind.core.knobs import Needs

__all__ = [
    "Advice",
    "Known",
    "MethodAdvice",
    "Validation",
    "advice_text",
    "advise",
    "model_lacks",
    "readers",
]

BALANCED: Final = " + balanced"
"""What the name of a method ends with where groups are drawn evenly."""


@dataclass(frozen=True)
class Known:
    """The knowledge at hand beside the labels.

    `groups`: whether it is known of which group (label and attribute) each training row is; without
    it no method that reads groups or environments can be trained. `model`: the registered name of
    the model that is to be trained, None where it is open; some methods ask something of it.
    """

    groups: bool = True
    model: str | None = None


@dataclass(frozen=True)
class Validation:
    """How the model of the gain did on data sets that it had not seen, from `python -m
    benchmarks.atlas --judge`.

    `coverage`: share of gains within their intervals of 90%, by metric. `widening`: what standard
    deviations are multiplied by, by metric. `parameters`: of the model, by metric. `over_plain`,
    `over_groupdro`: what its first choice gained over plain training and over groupdro, in points
    of accuracy. They have the bounds of the interval of 95% over data sets; empty where it was not
    judged. `by_data`: both by data set. `data`: the number of data sets.
    """

    data: int = 0
    coverage: Mapping[str, float] = field(default_factory=dict)
    widening: Mapping[str, float] = field(default_factory=dict)
    parameters: Mapping[str, Sequence[float]] = field(default_factory=dict)
    over_plain: Sequence[float] = ()
    over_groupdro: Sequence[float] = ()
    by_data: Mapping[str, Sequence[float | None]] = field(default_factory=dict)

    @property
    def beats_plain(self) -> bool:
        """Whether its first choice was better than plain training on data sets left out, beyond
        chance."""
        return len(self.over_plain) == 3 and self.over_plain[1] > 0

    @property
    def beats_groupdro(self) -> bool:
        """Whether its first choice was better than groupdro on data sets left out, beyond chance."""
        return len(self.over_groupdro) == 3 and self.over_groupdro[1] > 0

    @property
    def in_words(self) -> str:
        """The worth of the choice of the model, in one sentence."""
        if len(self.over_plain) != 3:
            return "How well this choice does on data sets that it has not seen was not measured."
        plain = _signed(self.over_plain)
        groupdro = _signed(self.over_groupdro)
        judged = f"On {self.data} data sets left out in turn, the first choice gained"
        if self.beats_plain and self.beats_groupdro:
            return f"{judged} {plain} over plain training and {groupdro} over groupdro."
        better = "better than plain training, but " if self.beats_plain else ""
        return (
            f"{judged} {plain} over plain training and {groupdro} over groupdro: it is {better}not shown"
            " to choose better than a rule of thumb, so read the evidence rather than the order."
        )


def _signed(bounds: Sequence[float]) -> str:
    mean, low, high = bounds
    return f"{mean:+.1f} points [{low:+.1f}, {high:+.1f}]"


@dataclass(frozen=True)
class MethodAdvice:
    """The expected gain of one method on a problem.

    `accuracy`, `worst_group`: gains over plain training in points, with intervals of 90%; None for
    a score that no evidence has. `problems`, `data`, `runs`: problems, data sets and runs of the
    evidence that tried it; `rows`: the fewest and the most training rows of these; `studies`: the
    studies that made it. `time`: of a run, or else of a step of resnet18, over one of plain training;
    None where unknown.
    `needs`: what it must be given, in words. `lacks`: why it cannot be used here, or nothing.
    """

    method: str
    accuracy: Gain | None
    worst_group: Gain | None
    problems: int
    data: int
    runs: int
    time: float | None
    needs: Sequence[str]
    lacks: str = ""
    rows: tuple[int, int] | None = None
    studies: Sequence[str] = ()

    @property
    def verdict(self) -> str:
        """`try` where a gain in accuracy or in the worst group is expected beyond chance and no loss
        in accuracy; `avoid` where a loss in accuracy is; else `cannot tell`."""
        if self.accuracy is not None and self.accuracy.high < 0:
            return "avoid"
        gains = [gain for gain in (self.accuracy, self.worst_group) if gain is not None]
        return "try" if any(gain.low > 0 for gain in gains) else "cannot tell"


@dataclass(frozen=True)
class Advice:
    """Advice on one problem: `methods` that can be used, the best expected accuracy first, and
    `unusable` ones with what they lack."""

    title: str
    problem: Problem
    methods: Sequence[MethodAdvice]
    unusable: Sequence[MethodAdvice]
    validation: Validation

    @property
    def first(self) -> MethodAdvice | None:
        """The method to try first; None where no gain is expected beyond chance."""
        return next((entry for entry in self.methods if entry.verdict == "try"), None)

    def to_text(self) -> str:
        """The printed text: the answer, a table, what to avoid and what the choice is worth."""
        return advice_text([self])

    def __str__(self) -> str:
        return self.to_text()

    @property
    def answer(self) -> str:
        """The advice in one or two sentences."""
        losing = [entry.method for entry in self.methods if entry.verdict == "avoid"]
        avoid = ""
        if losing:
            are = "it is" if len(losing) == 1 else "they are"
            avoid = f" Avoid {', '.join(losing)}: {are} expected to lose accuracy."
        if self.first is None:
            return (
                "Cannot tell: of no method does the evidence promise a gain over plain training (erm)"
                f" beyond chance here. Train erm, and look at its worst group.{avoid}"
            )
        first = self.first
        gained = []
        for words, gain in (("accuracy", first.accuracy), ("the worst group", first.worst_group)):
            if gain is not None and gain.low > 0:
                gained.append(
                    f"{gain.mean:.0f} points of {words} [{gain.low:.0f}, {gain.high:.0f}]"
                )
        return f"Try {first.method} first: {' and '.join(gained)} over plain training (erm).{avoid}"

    @property
    def lines(self) -> list[str]:
        """The problem, the answer, the table of methods and what cannot be used."""
        lines = [f"{self.title}: {self.problem.in_words}.", self.answer, "", *self._table()]
        if self.unusable:
            methods_by_reason: dict[str, list[str]] = {}
            for entry in self.unusable:
                methods_by_reason.setdefault(entry.lacks, []).append(entry.method)
            reasons = [
                f"{', '.join(names)}: {reason}" for reason, names in methods_by_reason.items()
            ]
            lines += ["", "Cannot be used here:", *(f"  {reason}" for reason in reasons)]
        return lines

    @property
    def in_short(self) -> str:
        """The answer in a few words."""
        names = [entry.method for entry in self.methods if entry.verdict == "avoid"]
        avoid = f"; avoid {', '.join(names)}" if names else ""
        return f"{f'try {self.first.method} first' if self.first else 'cannot tell'}{avoid}"

    def _table(self) -> list[str]:
        rows = [("method", "accuracy", "worst group", "verdict", "evidence", "time", "needs")]
        for entry in self.methods:
            accuracy, worst_group = _gain_words(entry.accuracy), _gain_words(entry.worst_group)
            behind = f"{entry.problems} problems of {entry.data} data sets, {entry.runs} runs"
            if entry.rows is not None:
                fewest, most = entry.rows
                behind += f", {most:,} rows" if fewest == most else f", {fewest:,} to {most:,} rows"
            time = "" if entry.time is None else f"x {entry.time:.1f}"
            needs = ", ".join(entry.needs) or "nothing"
            rows.append((entry.method, accuracy, worst_group, entry.verdict, behind, time, needs))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = []
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            lines.append("  ".join(cells).rstrip())
        return lines

    def to_json(self) -> dict[str, Any]:
        """The advice as plain values."""
        return {
            "title": self.title,
            "problem": asdict(self.problem),
            "answer": self.answer,
            "methods": [{**asdict(entry), "verdict": entry.verdict} for entry in self.methods],
            "unusable": [{"method": entry.method, "lacks": entry.lacks} for entry in self.unusable],
            "validation": asdict(self.validation),
        }


def advice_text(problem_advice: Sequence[Advice]) -> str:
    """The printed text of advice on one problem or several: each with its table, then all in short,
    and once for all of them the commands behind the evidence and what the choice is worth."""
    lines: list[str] = []
    for entry in problem_advice:
        lines += [*([""] if lines else []), *entry.lines]
    studies = {
        name for entry in problem_advice for method in entry.methods for name in method.studies
    }
    commands = dict.fromkeys(command_of(study) for study in sorted(studies))
    lines += ["", "The commands that made this evidence:", *(f"  {name}" for name in commands)]
    lines += ["", *dict.fromkeys(entry.validation.in_words for entry in problem_advice)]
    if len(problem_advice) > 1:
        lines += ["", "In short:"]
        lines += [f"  {entry.title}: {entry.in_short}" for entry in problem_advice]
    return "\n".join(lines)


def command_of(study: str) -> str:
    """The command that makes the evidence of a study: of the atlas (in a checkout of the project), of a
    shipped one, or of somebody's own."""
    from crosswind.studies.reading import shipped_studies

    room, _, name = study.partition("/")
    if room == "atlas" and name.startswith("tables-"):
        return "python -m benchmarks.atlas tables FOLDER"
    if room == "atlas":
        return f"python -m benchmarks.atlas run --study {name}"
    if study in shipped_studies():
        return f"crosswind run {study}"
    return f"crosswind run, of the study {study}"


def _gain_words(gain: Gain | None) -> str:
    return "" if gain is None else f"{gain.mean:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]"


def advise(
    problems: Mapping[str, Problem],
    known: Known | None = None,
    evidence: polars.DataFrame | None = None,
    methods: Sequence[str] | None = None,
    data: Mapping[str, str] | None = None,
) -> list[Advice]:
    """Advice on problems by title, from evidence (`COLUMNS`; default: what the package carries).

    `methods`: the names to advise on; default: those of the evidence. `data`: title -> the data set of
    the evidence that a problem is of; others are of new data. Raises `CrosswindError` where
    the evidence has no row.
    """
    known = known or Known()
    table = shipped_evidence() if evidence is None else evidence
    if table.is_empty():
        raise CrosswindError(
            "there is no evidence to advise from: name stores of finished studies with --evidence"
        )
    validation = shipped_validation()
    models: dict[str, GainModel] = {}
    for metric in METRICS:
        observed = observed_gains(table, metric)
        if not len(observed.points):
            continue
        # What the shipped evidence taught holds for a little more of it too, and takes no minutes.
        parameters = validation.parameters.get(metric)
        models[metric] = GainModel(observed, parameters, validation.widening.get(metric, 1.0))
    names = list(methods or dict.fromkeys(table["method"].to_list()))
    return [
        _advice(title, problem, names, models, table, known, validation, (data or {}).get(title))
        for title, problem in problems.items()
    ]


def shipped_validation() -> Validation:
    """How the shipped model of the gain was judged; empty where its file is missing."""
    path = evidence_path().with_name("validation.json")
    if not path.is_file():
        return Validation()
    return Validation(**json.loads(Path(path).read_text(encoding="utf-8")))


def _advice(
    title: str,
    problem: Problem,
    names: Sequence[str],
    models: Mapping[str, GainModel],
    table: polars.DataFrame,
    known: Known,
    validation: Validation,
    data: str | None,
) -> Advice:
    import polars

    gains = {metric: model.predict(problem, names, data) for metric, model in models.items()}
    usable: list[MethodAdvice] = []
    unusable: list[MethodAdvice] = []
    for name in names:
        tried = table.filter(polars.col("method") == name)
        times = tried["time"].drop_nulls()
        problems = tried.select("study", "data", "shift", "size", "model")
        accuracy = gains.get("accuracy", {}).get(name)
        worst_group = gains.get("worst_group", {}).get(name)
        entry = MethodAdvice(
            name,
            accuracy,
            worst_group,
            problems=problems.n_unique(),
            data=len({origin_of(name) for name in tried["data"]}),
            runs=int(tried["runs"].sum()),
            time=_time(name, times.to_list()),
            needs=_needs(name),
            lacks=_lacks(name, problem, known),
            rows=None if tried.is_empty() else (min(tried["rows"]), max(tried["rows"])),
            studies=sorted(set(tried["study"].to_list())),
        )
        (unusable if entry.lacks else usable).append(entry)
    usable.sort(key=lambda entry: -(entry.accuracy.mean if entry.accuracy else -math.inf))
    return Advice(title, problem, usable, unusable, validation)


def _time(name: str, times: Sequence[float]) -> float | None:
    """The time of a method beside plain training: the median of the evidence, else as it was measured
    for the method's card; None where neither is known."""
    if times:
        return float(_median(times))
    measured = cost_of(name.removesuffix(BALANCED)).get(COST_MODEL)
    return None if measured is None else float(measured["time"])


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def _needs(name: str) -> list[str]:
    if name.endswith(BALANCED):
        return ["groups"]
    try:
        needs = facts("methods", name).needs
    except CrosswindError:
        return []
    return [] if needs is None else needs.words()


def _lacks(name: str, problem: Problem, known: Known) -> str:
    """Why a method cannot be used on a problem; empty where it can."""
    if name.endswith(BALANCED):
        return "" if known.groups else _GROUPS
    try:
        needs = facts("methods", name).needs
    except CrosswindError:
        return "is not installed"
    if needs is None:
        return ""
    reasons = {
        # A sampler of equal shares draws by groups or environments too, though the method would
        # run, as plain training nearly, where all rows are of one.
        _GROUPS: (needs.groups or needs.sampler == "balanced") and not known.groups,
        "reads the environment of every training row": (
            needs.environments or needs.sampler == "per-environment"
        )
        and not known.groups,
        f"changes pictures, and these are {problem.kind}": (
            bool(needs.channels) and problem.kind != "pictures"
        ),
        "blends inputs, and texts cannot be blended": (
            bool(needs.numbers) and problem.kind == "texts"
        ),
    }
    for reason, applies in reasons.items():
        if applies:
            return reason
    if known.model is None:
        return _kind_lacks(needs, problem.kind)
    return model_lacks(needs, known.model)


def _kind_lacks(needs: Needs, kind: str) -> str:
    """Why no model that reads inputs of a kind can be trained by a method with these needs; empty
    where one can."""
    models = readers(kind)
    if not models or not all(model_lacks(needs, model) for model in models):
        return ""
    if needs.maps:
        return f"reads the feature maps of a convolutional model, and none reads {kind}"
    return f"needs {needs.norm or 'another'} norm, which no model that reads {kind} has"


def readers(kind: str) -> list[str]:
    """The names of the models that methods train on inputs of a kind, one of `KINDS`."""
    return [
        model_facts.name
        for model_facts in listing("models")
        if model_facts.built is not None
        and model_facts.built.trained is not False
        and (_INPUT_OF[kind] in model_facts.built.takes or model_facts.built.of)
    ]


_INPUT_OF: Final = dict(zip(KINDS, ("image", "text", "features"), strict=True))
_GROUPS: Final = "reads the group of every training row"


def model_lacks(needs: Needs, model: str) -> str:
    """Why a method with these needs cannot train the model at its defaults; empty where it can."""
    model_facts = facts("models", model)
    form = model_facts.built
    if form is None:
        return ""
    if needs.gradient and not form.gradient:
        return f"descends a gradient, and {model} is fitted at once"
    knobs = {knob.name: knob.default for knob in model_facts.knobs}
    norm = form.norm_of(knobs)
    if needs.norm and norm and norm != needs.norm:
        return f"needs {needs.norm} norm, which {model} has not"
    if needs.maps and form.has_maps() is False:
        return f"reads the feature maps of a convolutional model, which {model} is not"
    if needs.linear and form.linear is False:
        return f"changes linear layers, and {model} has none beside its head"
    return ""
