"""From a study to its runs and to the numbers that describe its splits, without training and
without torch.

Everything that can be wrong with a study is found here, before any work starts. Examples are
unknown names, values out of their domain, and attributes and values that the data does not have. So
are shifts that empty the training set, and needs that a method cannot have met.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from crosswind.core import html
from crosswind.core.collection import no_collection
from crosswind.core.errors import InputError, counted, unknown
from crosswind.core.registry import import_named
from crosswind.core.types import ROWS, Job
from crosswind.data.aligned_columns import aligned, columns_as_values
from crosswind.data.dataset import AttributedDataset
from crosswind.studies.axes import (
    MethodEntry,
    StudyPoint,
    data_of,
    estimators_of,
    methods_of,
    misleading_sizes,
    models_of,
    points_of,
)
from crosswind.studies.build import (
    build_dataset,
    data_values,
    forget_changed_files,
    named_attributes,
    spell_numbers,
    without_paths,
)
from crosswind.studies.draw_sizes import (
    DRAWS,
    balanced_rows,
    counted_draw,
    draw_that_gives,
    equal_rows,
    sources_of,
)
from crosswind.studies.estimates import (
    access_of,
    check_changes,
    check_estimators,
    check_handed,
    kind_of_neighbours,
)
from crosswind.studies.expand import check_distinct, jobs_of
from crosswind.studies.given_files import NO_FILE
from crosswind.studies.obstacles import Obstacles, count_runs
from crosswind.studies.plan_checks import (
    check_data,
    check_inputs,
    check_lengths,
    check_names,
    check_selection,
)
from crosswind.studies.plan_warnings import (
    data_notes,
    device_notes,
    halving_notes,
    idle_switch_setting,
    method_warnings,
    sets_with_another_label,
    short_validation,
    single_rows,
    tie_notes,
    uneven_tests,
    unread_settings,
    unused_columns,
)
from crosswind.studies.reading import find_study, shipped_studies
from crosswind.studies.resources import resource_notes
from crosswind.studies.slow_settings import slow_settings
from crosswind.studies.spec import DataSpec, Study, load_study
from crosswind.studies.split_counts import DrawCounts, DrawReport
from crosswind.training.selection import RULES

FORMAT = 2
_FOLLOWING = (
    2  # the version of what sets take from training; in the keys of the runs that have such a set
)
_FILLING = 2
"""The version of a deal of units that fills cells short of a quota; in the keys of its runs."""

MOST_RUNS = 1_000_000
"""Runs of one plan, of about 2.5 kB each in memory and 0.1 ms of a processor: ten times those of the
largest study that was published."""


@dataclass(frozen=True)
class Plan:
    """A study's jobs, in the order in which they are started, and what its shifts draw."""

    study: Study
    jobs: tuple[Job, ...]
    draws: tuple[DrawReport, ...]
    warnings: tuple[str, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())

    @property
    def runs(self) -> tuple[Job, ...]:
        """The runs, as a study counts them: the jobs that are rows of its tables."""
        return tuple(job for job in self.jobs if job.kind == ROWS)

    @property
    def validation(self) -> dict[str, str]:
        """The law of every validation set, as the study names it; one that has no name is "its
        own"."""
        sets = {
            name: set_spec.law
            for name, set_spec in self.study.sets.items()
            if set_spec.role == "validation"
        }
        return {name: law if isinstance(law, str) else "its own" for name, law in sets.items()}

    def _repr_html_(self) -> str:
        """The view of a notebook: the number of runs, and the rows of every draw."""
        counts = [
            (
                draw.source,
                draw.shift,
                draw.size,
                draw.train_rows,
                draw.validation_rows,
                draw.test_rows,
                len(draw.cells),
            )
            for draw in self.draws
        ]
        columns = ("source", "shift", "size", "train", "validation", "test", "cells")
        shown = html.table(f"Study {self.study.name}: {len(self.runs):,} runs", columns, counts)
        return shown + html.points("Warnings", self.warnings)

    def to_json(self) -> dict[str, Any]:
        """The output of `crosswind plan --json`."""
        return {
            "study": self.study.name,
            "validation": self.validation,
            "draws": [draw.to_json() for draw in self.draws],
            "runs": len(self.runs),
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }


def plan_of(word: str, scale: str | None = None, settings: Sequence[str] = ()) -> Plan:
    """Plan a study that is given by its file or shipped name, with an overlay and `key=value`
    settings; see `make_plan`."""
    name, path = find_study(word)
    study = load_study(word, scale, settings)
    try:
        return make_plan(study, path.parent)
    except InputError as error:
        lacking = re.findall(rf"{NO_FILE} '([^']+)'", error.problem)
        # Not of a file that the user's own settings name.
        text = path.read_text("utf-8") if path == shipped_studies().get(name) else ""
        if not any(file in text for file in lacking):
            raise
        where = f"crosswind show {name} says where its files come from"
        raise InputError(
            error.field, f"{error.problem}; {where}", error.choices, error.limit + len(where)
        ) from None


def make_plan(study: Study, folder: Path | None = None) -> Plan:
    """Plan a study; `folder` is the study file's, where relative data paths are looked for first.

    Raises `InputError`, `DataError` or `NeedsError` with one sentence.
    """
    import_named()  # a score's key names the metrics
    forget_changed_files()
    with no_collection():
        planner = _Planner(study, folder)
        _check_size(study)
        for point, split_seed in product(points_of(study), study.split_seed_list):
            planner.add_point(point, split_seed)
        return planner.plan()


def _check_size(study: Study) -> None:
    """Refuse a study of more runs than a plan holds, before any of them is made."""
    n_runs = count_runs(study)
    if n_runs <= MOST_RUNS:
        return
    seeds, split_seeds = len(study.seed_list), len(study.split_seed_list)
    repeats = "split_seeds" if split_seeds > seeds else "seeds"
    problem = (
        f"{counted(seeds, 'seed')} x {counted(split_seeds, 'split seed')} x"
        f" {n_runs // (seeds * split_seeds):,} combinations of the other axes are {n_runs:,} runs,"
        f" and a plan holds {MOST_RUNS:,}; lower them, or divide the study"
    )
    raise InputError(repeats, problem)


class _Planner:
    """The values that all points of a study share, and the jobs, draws and warnings of the points
    so far."""

    def __init__(self, study: Study, folder: Path | None) -> None:
        self.study = study
        obstacles = Obstacles(study)
        self.models = obstacles.gather(
            study.models, lambda only: models_of(study.model_copy(update={"models": only}), folder)
        )
        self.estimators = obstacles.gather(
            study.estimators,
            lambda only: estimators_of(study.model_copy(update={"estimators": only}), folder),
        )
        self.values: dict[str, dict[str, Any]] = {}
        self.datasets: dict[str, AttributedDataset] = {}
        for name, spec in study.data.items():
            with obstacles.noted():
                values = data_values(spec, f"data.{name}", folder)
                dataset = build_dataset(values, f"data.{name}")
                check_data(dataset, spec, f"data.{name}")
                self.values[name], self.datasets[name] = values, dataset
        kinds = {dataset.input.kind for dataset in self.datasets.values() if dataset.input}
        for label, estimator in self.estimators.items():
            access = access_of(estimator)
            # Of data that are all there and of another kind, `check_changes` says so.
            if kind_of_neighbours(access, estimator["knobs"]) in kinds or set(study.data) - set(
                self.datasets
            ):
                with obstacles.noted():
                    check_handed(f"estimators.{label}", access, estimator["knobs"])
        obstacles.refuse()
        self.data_of_models = data_of(study.models)
        self.trained = {
            label: model for label, model in self.models.items() if "files" not in model
        }
        self.methods = methods_of(study)
        check_names(study, self.models, self.trained, self.methods)
        untrained = len(self.models) - len(self.trained)
        networks = len(self.trained) * len(self.methods) + untrained
        networks *= len(study.shifts) * len(study.seed_list) * len(study.split_seed_list)
        check_estimators(study, self.estimators, networks, kinds)
        # A run follows these only where its study asks for them, since each may keep one more
        # step: they are part of it.
        self.rules = [
            rule for rule in RULES if rule in study.selection and RULES[rule].score != "accuracy"
        ]
        self.shared_rows: dict[tuple[str, str], int] = {}
        self.jobs: list[Job] = []
        self.draws: list[DrawReport] = []
        self.warnings: dict[str, dict[str, None]] = {}  # text -> the titles of its points

    def add_point(self, point: StudyPoint, split_seed: int) -> None:
        """Check a point under a split seed, and add its jobs, its draw and its warnings."""
        study = self.study
        other_labels = sets_with_another_label(study, point, self.datasets)
        point, split, counts = self._counted(point, split_seed)
        spell_numbers(split)
        for name in counts.follow:
            split["sets"][name]["version"] = _FOLLOWING
        for name in counts.merge:  # as runs of before had one of several answers right alone
            split["sets"][name]["answers"] = "all"
        if counts.fills:
            split["deal"] = _FILLING
        values, used = self._in_columns_of(point, sources_of(split, point))
        models = {
            label: model
            for label, model in self.models.items()
            if point.data in self.data_of_models.get(label, [point.data])
        }
        self._check_point(point, counts, used, models)
        if split_seed == study.split_seed_list[0]:  # the others draw by the same plan
            self.draws.append(counts.report((point.data, point.shift, point.size), split))
        methods = {
            label: _with_data_attributes(study.data[point.data], method, used)
            for label, method in self.methods.items()
            if method.at(point)
        }
        trained = {label: model for label, model in models.items() if label in self.trained}
        inputs = used[point.data].input
        warnings = [
            *counts.warnings,
            *other_labels,
            *uneven_tests(study, point.data, counts, used[point.data]),
            *single_rows(counts),
            *short_validation(study, point.data, counts),
            *counts.shares_asked_otherwise(split),
        ]
        for method in methods.values():
            warnings += method_warnings(point, method, counts, split, inputs, trained)
        for text in warnings:
            self.warnings.setdefault(text, {})[point.title] = None
        common = self._common(point, split, values)
        common_key = {
            **common,
            "data": {
                name: {**without_paths(values[name]), "fingerprint": dataset.fingerprint}
                for name, dataset in used.items()
            },
        }
        if counts.pictures is not None:
            common_key["pictures"] = counts.pictures
        kind = "image" if inputs is None else inputs.kind
        self.jobs += jobs_of(
            study, point, common, common_key, models, methods, self.estimators, kind
        )

    def _counted(
        self, point: StudyPoint, split_seed: int
    ) -> tuple[StudyPoint, dict[str, Any], DrawCounts]:
        """The point with its draw as numbers, its split as plain values and its counts."""
        shared_rows, point = self._with_rows(point)
        split, counts = counted_draw(self.study, point, split_seed, self.datasets)
        if shared_rows is not None and point.rows is None and counts.train_rows < shared_rows:
            draw = draw_that_gives(self.study, point, split_seed, self.datasets, shared_rows)
            point = replace(point, draw=draw)
            split, counts = counted_draw(self.study, point, split_seed, self.datasets)
        return point, split, counts

    def _in_columns_of(
        self, point: StudyPoint, sources: Iterable[str]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, AttributedDataset]]:
        """The values and the data sets of a point's sources. Of tables whose columns are inputs all
        but the one that trains give its columns, in its order: those of a model."""
        values = {name: self.values[name] for name in sources}
        used = {name: self.datasets[name] for name in values}
        columns = used[point.data].input_columns
        for name, dataset in used.items():
            if not columns or dataset.input_columns in ((), columns):
                continue
            reader = f"a model of data.{point.data}"
            for note in aligned(dataset, columns, reader, f"data.{name}")[1]:
                self.warnings.setdefault(note, {})[point.title] = None
            of_main = {"data": point.data, "of": columns_as_values(columns)}
            values[name] = {**values[name], "input_columns": of_main}
            used[name] = build_dataset(values[name], f"data.{name}")
        return values, used

    def plan(self) -> Plan:
        """The plan of all points that were added."""
        check_distinct(self.jobs)
        warnings = unread_settings(self.models)
        for text, titles in self.warnings.items():
            remainder = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
            warnings.append(f"{next(iter(titles))}{remainder}: {text}")
        warnings += slow_settings(self.jobs)
        warnings += idle_switch_setting(self.methods.values(), self.jobs)
        warnings += misleading_sizes(self.study)
        if self.study.dataset_size is not None and len(self.study.sizes) > 1:
            warnings.append(
                "dataset_size says how many rows train, so that the sizes"
                f" {', '.join(self.study.sizes)} draw the same where they stand for the same data and"
                " shifts; leave out dataset_size, or all sizes but one"
            )
        for name, spec in self.study.data.items():
            warnings += unused_columns(self.study, name, spec)
        notes = [
            *device_notes(self.study, self.jobs),
            *resource_notes(self.study),
            *halving_notes(self.study, self.methods.values()),
        ]
        for name, spec in self.study.data.items():
            notes += data_notes(name, spec, self.datasets[name])
            notes += tie_notes(name, spec, self.datasets[name])
        return Plan(self.study, tuple(self.jobs), tuple(self.draws), tuple(warnings), tuple(notes))

    def _with_rows(self, point: StudyPoint) -> tuple[int | None, StudyPoint]:
        """The point, with `equal` and `balanced` written as the numbers of rows that they stand
        for, after that number; None for another draw."""
        if isinstance(point.draw, str) and point.draw not in DRAWS:
            choices = [*DRAWS, "a number of rows a cell", "{total: rows}"]
            raise unknown(point.fields["draw"], "draw", point.draw, choices)
        if point.draw not in ("equal", "balanced"):
            return None, point
        key = (point.data, point.draw)
        if key not in self.shared_rows:
            rows_of = equal_rows if point.draw == "equal" else balanced_rows
            self.shared_rows[key] = rows_of(self.study, point, self.datasets)
        return self.shared_rows[key], replace(point, draw={"total": self.shared_rows[key]})

    def _check_point(
        self,
        point: StudyPoint,
        counts: DrawCounts,
        used: Mapping[str, AttributedDataset],
        models: Mapping[str, Mapping[str, Any]],
    ) -> None:
        """Refuse what the models, the estimators and the sampler cannot have at a point."""
        study, dataset = self.study, used[point.data]
        trained = {label: model for label, model in models.items() if label in self.trained}
        prompted = {label: model for label, model in models.items() if "prompt" in model["knobs"]}
        check_selection(study, point, counts, bool(self.estimators))
        check_inputs(used, point.data, {**trained, **prompted})
        check_lengths(dataset, self.methods.values())
        label_attribute = study.data[point.data].label
        for label, model in prompted.items():
            # Not loaded by the plans of other studies: it compiles the patterns of answers.
            from crosswind.models.language.prompts import question_of

            classes = [str(value) for value in dataset.attribute(label_attribute).values]
            question_of(model["knobs"], classes, f"models.{label}")
        check_changes(study, self.estimators, point.data, dataset.input, dataset.input_columns)
        counts.check_sampler(study.sampler, f"sampler ({point.title})")

    def _common(
        self, point: StudyPoint, split: dict[str, Any], data: Mapping[str, dict[str, Any]]
    ) -> dict[str, Any]:
        """The part that the specifications of all jobs of a point have in common."""
        common: dict[str, Any] = {
            "format": FORMAT,
            "data": dict(data),
            "main": point.data,
            "split": split,
            "threads": 1,
        }
        if self.rules:
            common["rules"] = self.rules
        return common


def _with_data_attributes(
    data: DataSpec, method: MethodEntry, datasets: Mapping[str, AttributedDataset]
) -> MethodEntry:
    """The method with its attributes in the words of one data set; all data sets must have the one
    that it adapts by."""
    overrides = {
        key: (
            named_attributes(value, data, f"methods.{method.label}.{key}")
            if key in ("groups", "environments")
            else value
        )
        for key, value in method.overrides.items()
    }
    knob = "" if method.facts.needs is None else method.facts.needs.adapts
    points = []
    for label, knobs, training in method.points:
        if knob and knobs[knob] is not None:
            knobs = {**knobs, knob: data.slots.get(knobs[knob], knobs[knob])}
            for dataset in datasets.values():
                dataset.attribute(knobs[knob], f"methods.{method.label}.{knob}")
        points.append((label, knobs, training))
    return replace(method, overrides=overrides, points=tuple(points))


# -- what is refused -------------------------------------------------------------------------------
