"""From a study to its runs and to the numbers that describe its splits, without training and
without torch.

Everything that can be wrong with a study is found here, before any work starts. Examples are
unknown names, values out of their domain, and attributes and values that the data does not have. So
are shifts that empty the training set, and needs that a method cannot have met.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from crosswind.core import html
from crosswind.core.collection import no_collection
from crosswind.core.errors import InputError, counted, unknown
from crosswind.core.registry import facts, import_named, load
from crosswind.core.types import ROWS, InputSpec, Job
from crosswind.data.aligned_columns import aligned, columns_as_values
from crosswind.data.dataset import AttributedDataset
from crosswind.data.one_value import refuse_doubts
from crosswind.models.form import check_form
from crosswind.models.language.prompts import question_of
from crosswind.shifts.base import NormalForm
from crosswind.shifts.split import SplitCounts, parse_sampler, plan_counts
from crosswind.shifts.split.pictures import said_of_data
from crosswind.shifts.ties import tie_of
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
    CLUSTERS_AS_BEFORE,
    build_dataset,
    build_split_plan,
    data_values,
    forget_changed_files,
    named_attributes,
    spell_numbers,
    split_values,
    without_paths,
)
from crosswind.studies.claims import check_claims
from crosswind.studies.estimates import check_changes, check_estimators, source_set
from crosswind.studies.expand import check_distinct, jobs_of
from crosswind.studies.halving import rungs_of
from crosswind.studies.job_specs import FitSpec
from crosswind.studies.observed_ties import match_observed
from crosswind.studies.obstacles import Obstacles, count_runs
from crosswind.studies.pooled_claims import check_pooled_claims
from crosswind.studies.prompts import check_prompts
from crosswind.studies.reading import find_study
from crosswind.studies.resources import parse_resources
from crosswind.studies.slow_settings import slow_settings
from crosswind.studies.spec import DataSpec, RolesSpec, Study, load_study
from crosswind.studies.split_counts import DrawCounts, DrawReport
from crosswind.training.requirements import check_has_lengths, refuse, warnings_of
from crosswind.training.selection import RULES

FORMAT = 2
_FOLLOWING = (
    2  # the version of what sets take from training; in the keys of the runs that have such a set
)
_FILLING = 2
"""The version of a deal of units that fills cells short of a quota; in the keys of its runs."""
DRAWS = ("equal", "balanced", "all")
UNHASHED = (
    "what its rows hold cannot be hashed before planning, as the program did not say it (contents):"
    " equal rows are not known"
)
"""What a plan says of a data set that a program made itself."""

MOST_RUNS = 1_000_000
"""Runs of one plan, of about 2.5 kB each in memory and 0.1 ms of a processor: ten times those of the
largest study that was published."""
UNEVEN = 2
"""How many times the rows of its smallest cell the largest cell of a test set may have before a plan
warns that units or a share of each cell made it so."""


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
    return make_plan(load_study(word, scale, settings), find_study(word)[1].parent)


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
                _check_data(dataset, spec, f"data.{name}")
                self.values[name], self.datasets[name] = values, dataset
        obstacles.refuse()
        self.data_of_models = data_of(study.models)
        self.trained = {
            label: model for label, model in self.models.items() if "files" not in model
        }
        self.methods = methods_of(study)
        _check_names(study, self.models, self.trained, self.methods)
        untrained = len(self.models) - len(self.trained)
        networks = len(self.trained) * len(self.methods) + untrained
        networks *= len(study.shifts) * len(study.seed_list) * len(study.split_seed_list)
        kinds = {dataset.input.kind for dataset in self.datasets.values() if dataset.input}
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
        other_labels = _other_labels(study, point, self.datasets)
        point = self._with_rows(point)
        split, counts = _counted(study, point, split_seed, self.datasets)
        spell_numbers(split)
        for name in counts.follow:
            split["sets"][name]["version"] = _FOLLOWING
        for name in counts.merge:  # as runs of before had one of several answers right alone
            split["sets"][name]["answers"] = "all"
        if counts.fills:
            split["deal"] = _FILLING
        values, used = self._in_columns_of(point, _sources(split, point))
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
            *_uneven_tests(study, point.data, counts, used[point.data]),
            *_single_rows(counts),
        ]
        for method in methods.values():
            warnings += _method_warnings(point, method, counts, split, inputs, trained)
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
        warnings = _unread(self.models)
        for text, titles in self.warnings.items():
            remainder = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
            warnings.append(f"{next(iter(titles))}{remainder}: {text}")
        warnings += slow_settings(self.jobs)
        warnings += misleading_sizes(self.study)
        if self.study.dataset_size is not None and len(self.study.sizes) > 1:
            warnings.append(
                "dataset_size says how many rows train, so that the sizes"
                f" {', '.join(self.study.sizes)} draw the same where they stand for the same data and"
                " shifts; leave out dataset_size, or all sizes but one"
            )
        for name, spec in self.study.data.items():
            warnings += _unused_columns(self.study, name, spec)
        notes = [
            *_device_notes(self.study, self.jobs),
            *_halving_notes(self.study, self.methods.values()),
        ]
        for name, spec in self.study.data.items():
            notes += _data_notes(name, spec, self.datasets[name])
            notes += _tie_notes(name, spec, self.datasets[name])
        return Plan(self.study, tuple(self.jobs), tuple(self.draws), tuple(warnings), tuple(notes))

    def _with_rows(self, point: StudyPoint) -> StudyPoint:
        """The point, with `equal` and `balanced` written as the numbers of rows that they stand
        for."""
        if isinstance(point.draw, str) and point.draw not in DRAWS:
            choices = [*DRAWS, "a number of rows a cell", "{total: rows}"]
            raise unknown(point.fields["draw"], "draw", point.draw, choices)
        if point.draw not in ("equal", "balanced"):
            return point
        key = (point.data, point.draw)
        if key not in self.shared_rows:
            rows_of = _equal_rows if point.draw == "equal" else _balanced_rows
            self.shared_rows[key] = rows_of(self.study, point, self.datasets)
        return replace(point, draw={"total": self.shared_rows[key]})

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
        _check_selection(study, point, counts, bool(self.estimators))
        _check_inputs(used, point.data, {**trained, **prompted})
        _check_lengths(dataset, self.methods.values())
        label_attribute = study.data[point.data].label
        for label, model in prompted.items():
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


def _method_warnings(
    point: StudyPoint,
    method: MethodEntry,
    counts: DrawCounts,
    split: Mapping[str, Any],
    inputs: InputSpec | None,
    trained: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """The warnings of a method at a point; refuses one whose needs the point does not meet."""
    where = f"methods.{method.label} ({point.title})"
    if "sampler" in method.overrides:
        field_name = f"methods.{method.label}.sampler ({point.title})"
        counts.check_sampler(method.overrides["sampler"], field_name)
    models = {label: model for label, model in trained.items() if method.on(label)}
    warnings: list[str] = []
    for pairing in counts.pairings(method, {**split, **method.overrides}, inputs, models):
        refuse(pairing, f"{where}:", where)
        warnings += [f"{method.label} {text}" for text in warnings_of(pairing)]
    return warnings


def _device_notes(study: Study, jobs: Sequence[Job]) -> list[str]:
    """On which device networks are trained, where the study leaves that to the machine."""
    devices = sorted({FitSpec.of(job.spec).device for job in jobs if job.kind == "fit"})
    if not devices or study.training.get("device", "auto") != "auto":
        return []
    return [f"training.device: auto, which is {' or '.join(devices)} on this machine"]


def _halving_notes(study: Study, methods: Iterable[MethodEntry]) -> list[str]:
    """How many points of a search that halves go on from each rung, and what that costs."""
    search = study.search
    if search is None or search.halving is None or search.points < 2:
        return []
    rungs = rungs_of(search.points, search.halving.factor, search.halving.rungs)
    lengths = {
        (training["steps"], training["epochs"], training["validate_every"])
        for method in methods
        for _, _, training in method.points
    }
    waiting = ""
    if len(lengths) == 1:
        steps, epochs, validate_every = lengths.pop()
        validated = rungs.at_validations(steps, validate_every)
        if epochs is None and not np.allclose(validated.shares, rungs.shares, rtol=0, atol=0.005):
            rungs = validated
            waiting = f", as validations are {counted(validate_every, 'step')} apart"
    going_on = [
        f"{promoted} after {share:.3g} of the steps"
        for share, promoted in zip(rungs.shares, rungs.promoted, strict=True)
    ]
    cost = f"{100 * rungs.cost(search.points):.0f}% of the steps of training all to the end"
    going = f"of {search.points} points of a method go on {', '.join(going_on)}{waiting}"
    return [f"search: {going}: {cost}"]


def _unused_columns(study: Study, name: str, spec: DataSpec) -> list[str]:
    """The attributes that a data set computes and nothing reads, a sentence each."""
    computed = dict.fromkeys(spec.rules or {}, "rules")
    if spec.clusters is not None:
        computed[spec.clusters.name] = "clusters"
    roles = spec.roles.official
    columns = {spec.label, *spec.attribute_names, *spec.keep, spec.unit}
    columns |= {*(study.groups or ()), *(study.environments or ())}
    columns |= set() if roles is None else {roles.column}
    if spec.clusters is not None:
        columns |= {spec.clusters.within, *spec.clusters.fit}
    laws = [study.shifts, *(set_spec.law for set_spec in study.sets.values())]
    spoken = {str(word) for law in laws for word in _words_of(law)}
    return [
        f"data.{name}.{field}: {column!r} is computed and read by nothing; name it in"
        f" data.{name}.attributes, or leave it out"
        for column, field in computed.items()
        if column not in columns | spoken
    ]


def _words_of(value: Any) -> Iterator[Any]:
    """All values in plain mappings and lists."""
    if isinstance(value, Mapping | list):
        for entry in value.values() if isinstance(value, Mapping) else value:
            yield from _words_of(entry)
    else:
        yield value


def _data_notes(name: str, spec: DataSpec, dataset: AttributedDataset) -> list[str]:
    """The notes on what is known of the rows of a data set, and what is not."""
    notes = said_of_data(name, dataset, (spec.label, *spec.attribute_names))
    if (
        spec.source == "memory"
        and dataset.read is not None
        and dataset.contents is None
        and not notes
    ):
        notes.append(f"{name}: {UNHASHED}")
    return notes


def _tie_notes(name: str, spec: DataSpec, dataset: AttributedDataset) -> list[str]:
    """Which attributes of a study go with the label in the rows of a data set, and how strongly."""
    attributes = [
        attribute for attribute in spec.attribute_names if attribute in dataset.table.names
    ]
    if spec.label not in dataset.table.names:
        return []
    ties = [
        tie_of(dataset, spec.label, attribute)
        for attribute in attributes
        if attribute != spec.label
    ]
    return [f"{name}: {tie.in_words}" for tie in ties if tie.matching]


def _other_labels(
    study: Study, point: StudyPoint, datasets: Mapping[str, AttributedDataset]
) -> list[str]:
    """That a set of another data set reads the attribute that this one predicts, and not the other's
    label. Raises `InputError` where the other has no such attribute."""
    label = study.data[point.data].label
    warnings = []
    for name, spec in study.sets.items():
        if spec.source not in study.data or study.data[spec.source].label == label:
            continue
        own_label = study.data[spec.source].label
        if label not in [attribute.name for attribute in datasets[spec.source].schema]:
            problem = (
                f"{spec.source!r} has no attribute {label!r}, which {point.data!r} predicts, and its"
                f" own label {own_label!r} has another name; give both columns one name, and say in"
                " 'labels' which class of the set is which"
            )
            raise InputError(f"sets.{name}.source", problem)
        warnings.append(
            f"set {name} reads {label!r} of {spec.source}, which {point.data} predicts, and not its"
            f" label {own_label!r}"
        )
    return warnings


def _uneven_tests(
    study: Study, data: str, counts: DrawCounts, dataset: AttributedDataset
) -> list[str]:
    """That a test set has far more rows of one cell than of another, because units bring their rows
    of other cells along or because a share of every cell is tested, and how to draw an even one.
    Official roles test on the rows that they name."""
    roles = study.data[data].roles
    if roles.official is not None:
        return []
    warnings = []
    for name, (_, cell_counts) in counts.test_counts.items():
        rows_of_cells = cell_counts[cell_counts > 0]
        if not len(rows_of_cells) or rows_of_cells.max() <= UNEVEN * rows_of_cells.min():
            continue
        n_fewest, n_largest = int(rows_of_cells.min()), int(rows_of_cells.max())
        numbers = f"test set {name} has {n_fewest:,} rows of one cell and {n_largest:,} of another, because"
        if dataset.units is not None:
            warnings.append(
                f"{numbers} a unit"
                " is dealt with all its rows, so that attributes tell of the label in it too and a cost"
                f" may not show; `sets: {{validation: {{role: validation, law: train}}, {name}: {{role:"
                f" test, draw: {{base: {n_fewest}}}}}}}` draws as many of each cell"
            )
        elif _tests_a_share(study, name, roles):
            warnings.append(
                f"{numbers} roles.test is a share of each cell, so that cells weigh in it as in the"
                " rows, and where an attribute goes with the label there a cost may not show; a whole"
                f" number, such as `roles: {{test: {n_fewest}}}`, is as many rows of each cell"
            )
    return warnings


def _tests_a_share(study: Study, name: str, roles: RolesSpec) -> bool:
    """Whether a set that is to have all cells alike takes a share of each."""
    spec = study.sets[name]
    is_share = not isinstance(roles.test, int)
    return is_share and spec.law in ("uniform", []) and spec.draw in (None, "all")


def _single_rows(counts: DrawCounts) -> list[str]:
    """That a cell has one row to test, whose answer would be an accuracy of 0 or 1."""
    warnings = []
    for name, (cells, cell_counts) in counts.test_counts.items():
        singles = np.argwhere(cell_counts == 1)
        if len(singles) and cell_counts.max() > 1:
            codes = singles[0].tolist()
            cell = ", ".join(
                f"{axis.name}={axis.values[code]}"
                for axis, code in zip(cells.axes, codes, strict=True)
            )
            more = f" and {len(singles) - 1:,} more" if len(singles) > 1 else ""
            warnings.append(
                f"test set {name} has 1 row of {cell}{more}: where that is the worst group nothing"
                " can be told of it; leave its value out (keep), join it with another, or test more"
                " of its rows"
            )
    return warnings


def _unread(models: Mapping[str, Any]) -> list[str]:
    """The dependencies of answers that no key knows, a sentence for each kind of model."""
    labels: dict[str, list[str]] = {}
    for label, model in models.items():
        if "files" in model and (unread := getattr(load("models", model["name"]), "unread", "")):
            labels.setdefault(unread, []).append(label)
    return [f"models.{', '.join(named)}: {unread}" for unread, named in labels.items()]


def _sources(split: Mapping[str, Any], point: StudyPoint) -> list[str]:
    """The data sets of a point: its own, then those that sets read."""
    return [
        point.data,
        *sorted(
            {set_values["source"] for set_values in split["sets"].values()} - {None, point.data}
        ),
    ]


def _counted(
    study: Study, point: StudyPoint, split_seed: int, datasets: Mapping[str, AttributedDataset]
) -> tuple[dict[str, Any], DrawCounts]:
    """The split of a point as plain values, and its counts; errors name fields as the study file
    does."""
    split, fields = split_values(study, point, split_seed)
    with _named(fields, point):
        match_observed(split, datasets[point.data])
        return split, DrawCounts(
            plan_counts(
                {name: datasets[name] for name in _sources(split, point)},
                point.data,
                build_split_plan(split),
            )
        )


def _equal_rows(study: Study, point: StudyPoint, datasets: Mapping[str, AttributedDataset]) -> int:
    """The most training rows that every shift and split seed leaves in a data set, so that sizes do
    not differ between them."""

    def counts_of(case: tuple[str, int], draw: Any) -> DrawCounts:
        shift, split_seed = case
        under = replace(point, shift=shift, draw=draw, rows=None)
        return _counted(study, under, split_seed, datasets)[1]

    cases = list(product(study.shifts, study.split_seed_list))
    counts = [counts_of(case, "all") for case in cases]
    most_rows = int(min([each.train_rows for each in counts]))
    # Rows on top that are a share of the others, and too few of them there: fewer others need fewer.
    lacking = [case for case, each in zip(cases, counts, strict=True) if each.lacks_share]

    def is_met(total: int) -> bool:
        return all(counts_of(case, {"total": total}).train_rows == total for case in lacking)

    low, high = 0, most_rows + 1
    middle = most_rows
    while high - low > 1:
        if is_met(middle):
            low = middle
        else:
            high = middle
        middle = (low + high) // 2
    return low or most_rows


def _balanced_rows(
    study: Study, point: StudyPoint, datasets: Mapping[str, AttributedDataset]
) -> int:
    """The most training rows of which no cell is short under any shift and split seed, so that each
    training set has the proportions that its shift asks for."""
    full = replace(point, draw="all", rows=None)
    row_counts = []
    for split_seed in study.split_seed_list:
        split, fields = split_values(study, full, split_seed)
        every_cell = {**split, "shift": []}
        with _named(fields, full):
            sources = {name: datasets[name] for name in _sources(split, full)}
            available = plan_counts(sources, full.data, build_split_plan(every_cell))
        for shift in study.shifts:
            under = replace(full, shift=shift)
            split, fields = split_values(study, under, split_seed)
            with _named(fields, under):
                match_observed(split, datasets[point.data])
                law = build_split_plan(split).shift.normal_form(available.study_cells)
                row_counts.append(_rows_in_proportion(law, available, under))
    return min(row_counts)


def _rows_in_proportion(law: NormalForm, available: SplitCounts, point: StudyPoint) -> int:
    """The most rows that a law draws, its supplements among them, without asking a cell for more
    training rows than it has."""
    weights, sizes = law.weights, available.train_counts
    if weights.shape != sizes.shape:
        problem = "is for attributes of the table, and a value is drawn here at every visit"
        raise InputError(point.fields["draw"], f"balanced {problem}; say equal", DRAWS)
    drawn = weights > 0
    cell_rows = sizes[drawn] * weights.sum() / weights[drawn]
    scarcest = int(np.flatnonzero(drawn)[int(cell_rows.argmin())])
    by_weights = int(np.floor(cell_rows.min() + 1e-9))
    if by_weights < 1:
        cell = available.study_cells.name_of(scarcest)
        problem = f"leaves no row under {point.shift}: no row of {cell} is left for training"
        raise InputError(point.fields["draw"], f"balanced {problem}", DRAWS)
    return by_weights + sum(supplement.asked(by_weights) for supplement in law.supplements)


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


@contextmanager
def _named(fields: Mapping[str, str], point: StudyPoint) -> Iterator[None]:
    """Name fields as the study file does, and say which of the study's points an error is about."""
    try:
        yield
    except InputError as error:
        words = error.field.split(".")
        heads = (".".join(words[:end]) for end in range(len(words), 0, -1))
        head = next((head for head in heads if head in fields), "")
        named_field = fields[head] + error.field[len(head) :] if head else error.field
        # One set serves all shifts, and may be empty under one of them.
        of_point = (
            head in ("draw", "dataset_size")
            or not head
            and words[0] == "sets"
            and words[-1] == "law"
        )
        raise InputError(
            named_field, error.problem + (f" ({point.title})" if of_point else ""), error.choices
        ) from None


# -- what is refused -------------------------------------------------------------------------------


def _check_names(
    study: Study,
    models: Mapping[str, Any],
    trained: Mapping[str, Any],
    methods: Mapping[str, MethodEntry],
) -> None:
    external = models.keys() - trained
    for label in models:
        if label in methods and label in external:
            raise InputError(
                f"models.{label}", "has the name of a method of this study; give it another"
            )
    parse_sampler(study.sampler)
    parse_resources(study.resources, "resources")
    points = list(points_of(study))
    _check_each_runs(study, points, models, trained, methods)
    if study.reference not in methods:
        raise unknown("reference", "method of this study", study.reference, methods)
    check_prompts(study, external, trained, methods)
    if study.claims:
        data_names = data_of(study.models)
        of_data = {label: {"data": names} for label, names in data_names.items()}
        external_entries = {
            label: MethodEntry(
                label, facts("models", models[label]["name"]), (), {}, of_data.get(label, {})
            )
            for label in external
        }
        check_claims(study, points, models, {**external_entries, **methods})
        check_pooled_claims(
            study, points, {name: data_names.get(name) for name in trained}, methods
        )


def _check_each_runs(
    study: Study,
    points: Sequence[StudyPoint],
    models: Iterable[str],
    trained: Iterable[str],
    methods: Mapping[str, MethodEntry],
) -> None:
    """Refuse a model and a method that no run of the study has, so that no table would show them."""
    names = data_of(study.models)
    data_of_model = {label: names.get(label, list(study.data)) for label in models}
    trained_on = {point.data for point in points}
    for label, of_model in data_of_model.items():
        if not trained_on & set(of_model):
            problem = f"is run on {', '.join(of_model)} alone, on which the study trains nothing"
            raise InputError(f"models.{label}.data", problem, sorted(trained_on))
    for label, method in methods.items() if trained else ():
        at_points = [point for point in points if method.at(point)]
        pairs = product(at_points, (model for model in trained if method.on(model)))
        if any(point.data in data_of_model[model] for point, model in pairs):
            continue
        conditions = [f"{key} ({', '.join(listed)})" for key, listed in method.only.items()]
        problem = (
            f"is run nowhere: with {' and '.join(conditions)} it has none of the runs that the study's"
            " sizes and the data of its models leave; widen one of them, or take it out"
        )
        raise InputError(f"methods.{label}", problem)


def _check_data(dataset: AttributedDataset, spec: DataSpec, path: str) -> None:
    names, listed = [attribute.name for attribute in dataset.schema], spec.attribute_names
    official = (
        []
        if spec.roles.official is None
        else [("roles.official.column", spec.roles.official.column)]
    )
    for where, name in [
        ("label", spec.label),
        *(("attributes", name) for name in listed),
        *official,
    ]:
        if where == "label":
            dataset.refuse_label_as_input(name, f"{path}.label")
        if name not in names:
            raise dataset.no_attribute(name, f"{path}.{where}")
    if spec.label in listed:
        raise InputError(
            f"{path}.attributes",
            f"{spec.label!r} is the label, so it cannot be an attribute of a shift too",
        )
    for position, name in enumerate(listed):
        if name in listed[:position]:
            raise InputError(f"{path}.attributes", f"names {name!r} twice")
    refuse_doubts(dataset, [spec.label, *listed, *(name for _, name in official)], path)
    if spec.clusters is not None and spec.clusters.max_k != CLUSTERS_AS_BEFORE["max_k"]:
        if spec.clusters.k != "silhouette":
            problem = f"belongs to k: silhouette, and k is {spec.clusters.k}; leave one of them out"
            raise InputError(f"{path}.clusters.max_k", problem)
    if len(dataset.attribute(spec.label, f"{path}.label").values) < 2:
        raise InputError(
            f"{path}.label", f"{spec.label!r} has one value, so there is nothing to classify"
        )


def _check_selection(study: Study, point: StudyPoint, counts: DrawCounts, estimates: bool) -> None:
    """Refuse a rule whose validation set is not there, so that nothing would be scored, and
    estimators without one."""
    for rule in study.selection:
        name = "" if rule == "last" else RULES[rule].set
        if not name or counts.set_rows.get(name):
            continue
        problem = f"{rule} reads a set {name!r} of role validation, and 'sets' has none"
        if name in study.sets and study.sets[name].role == "validation":
            start = f"set {name!r} has no rows"
            reasons = [
                text.removeprefix(start) for text in counts.warnings if text.startswith(start)
            ]
            why = reasons[0] if reasons else ""
            problem = f"{rule} reads the set {name!r}, which has no rows{why} ({point.title})"
        choices = [other for other, each in RULES.items() if counts.set_rows.get(each.set)]
        raise InputError("selection", problem, [*choices, "last"])
    if estimates and not counts.set_rows.get(
        source_set({name: set_spec.role for name, set_spec in study.sets.items()})
    ):
        problem = "learn from the labels of a set of role validation with rows, and there is none"
        raise InputError("estimators", f"{problem} ({point.title})")


def _check_lengths(data: AttributedDataset, methods: Iterable[MethodEntry]) -> None:
    if any(training["length_pool"] for method in methods for _, _, training in method.points):
        check_has_lengths(data, "training.length_pool")


def _check_inputs(
    used: Mapping[str, AttributedDataset], main: str, models: Mapping[str, Mapping[str, Any]]
) -> None:
    """Refuse data sets whose inputs differ from those of `main`, and models that cannot take
    these."""
    ours = used[main].input
    for name, dataset in used.items():
        theirs = dataset.input
        if ours is not None and theirs is not None and theirs != ours:
            sizes = ours.kind == theirs.kind == "image" and ours.shape[2] == theirs.shape[2]
            path = f"data.{name}.options.size" if sizes else f"data.{name}"
            raise InputError(
                path, f"{theirs} cannot be tested by a model trained on the {ours} of {main!r}"
            )
    derived = used[main].derived
    for label, model in models.items():
        form = facts("models", model["name"]).built
        try:
            check_form(form, model["knobs"], ours, f"models.{label}", model["name"])
        except InputError as error:
            raise InputError(error.field, f"{error.problem} (data.{main})", error.choices) from None
        reads_rows_once = form is not None and (
            not form.gradient or bool(form.of and model["knobs"][form.of])
        )
        if derived is not None and derived.mode != "fixed" and reads_rows_once:
            problem = (
                f"reads each row of data.{main} once, and its derived attribute is drawn at every"
                " visit"
            )
            raise InputError(f"models.{label}", f"{problem}; make its mode fixed")
