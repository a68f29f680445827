"""The subject of advice: a table, a study, a finished store, or a shift that is described. It
becomes problems by title, with the study that methods would be put into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from crosswind.advice.answer import model_lacks
from crosswind.advice.evidence import data_name, evidence_of, problems_of_plan, problems_of_record
from crosswind.advice.problem import KINDS, Problem, problem_of_counts, simple_counts
from crosswind.core.errors import InputError, unknown
from crosswind.core.registry import facts

if TYPE_CHECKING:
    import polars

    from crosswind.advice.answer import Advice

__all__ = [
    "ROWS",
    "SHIFTS",
    "Subject",
    "described",
    "of_store",
    "of_study",
    "of_table",
    "of_two_tables",
    "study_with",
]

SHIFTS: Final = ("none", "SC", "LDD", "UDS")
"""Shifts that can be described: none, spurious correlation, low-data drift, unseen data."""
ROWS: Final[Mapping[str, int]] = {"small": 300, "medium": 3_000, "large": 30_000}
"""Words for a number of training rows that is only described."""
TABLES: Final = (".csv", ".tsv", ".txt", ".parquet", ".pq")
"""How the name of a table ends."""
MOST_METHODS: Final = 3
"""Methods that a written study tries beside plain training."""


@dataclass(frozen=True)
class Subject:
    """Problems by title. `study`: fields of a study on them, None where there are no data; `evidence`:
    of their own, where they were run; `data`: title -> the data set of that evidence."""

    problems: Mapping[str, Problem]
    study: Mapping[str, Any] | None = None
    evidence: Sequence[polars.DataFrame] = field(default_factory=tuple)
    data: Mapping[str, str] = field(default_factory=dict)

    @property
    def models(self) -> dict[str, str]:
        """The study's models: label -> registered name; empty without a study."""
        models = (self.study or {}).get("models") or []
        entries = models if isinstance(models, Mapping) else dict.fromkeys(models)
        return {
            str(label): str((entry or {}).get("model", label)) for label, entry in entries.items()
        }

    @property
    def model(self) -> str | None:
        """The registered name of the study's first model; None without a study."""
        return next(iter(self.models.values()), None)


def of_table(table: str, label: str | None, attribute: str | None, study_folder: Path) -> Subject:
    """A table's problems as its rows stand, one an attribute that may shift; label and attributes are
    those that `crosswind init` proposes unless they are named.

    Raises `InputError`, `DataError` for a table that cannot be read or has no such columns.
    """
    import yaml

    from crosswind.proposals.study_file import propose

    proposal = propose(table, label=label, study_folder=study_folder)
    draft = proposal.draft
    designs = {design.attribute: design for design in draft.designs}
    if attribute is not None and attribute not in designs:
        problem = (
            f"{attribute!r} is no column that may shift beside the label {draft.label.name!r},"
            " which --label names"
        )
        raise InputError("--attribute", problem, list(designs))
    kind = "pictures" if draft.kind == "images" else draft.kind
    problems = {}
    for name, design in designs.items():
        if attribute in (None, name):
            counts = {
                (class_name, value): int(count)
                for class_name, row in zip(design.classes, design.tie.counts, strict=False)
                for value, count in zip(design.values, row, strict=False)
            }
            label_words = _with_classes(draft.label.name, draft.label.classes, draft.label.cuts)
            title = f"{table}, {label_words} with {_with_classes(name, design.values, design.cuts)}"
            problems[title] = problem_of_counts({name: counts}, kind)
    return Subject(problems, yaml.safe_load(proposal.text))


def _with_classes(name: str, classes: Sequence[str], cuts: Sequence[float]) -> str:
    """A column's name, of numbers with the classes into which they were put."""
    return f"{name} ({', '.join(classes)})" if cuts else name


def of_two_tables(train: str, target: str, label: str | None, attribute: str | None) -> Subject:
    """The problems of training on one table for the rows of another: an attribute each that shifts
    between them by an audit, or `attribute`. A group that only the target has is missing in training.

    Raises `InputError`, `DataError` for a table that cannot be read, a target without the label, and
    two tables between which nothing shifts.
    """
    from crosswind.proposals.study_file import propose
    from crosswind.shifts.audit.tables import read_tables
    from crosswind.shifts.audit.verdicts import judge

    draft = propose(train, label=label).draft
    tables = read_tables(train, target, draft.label.name)
    if not tables.labelled:
        raise InputError("TARGET", f"{target} has no label {draft.label.name!r}")
    label_column, *columns = tables.columns
    names = [column.name for column in columns]
    if attribute is not None and attribute not in names:
        raise unknown("--attribute", "column of both tables", attribute, names)
    audits = judge(tables.columns)[0][1:]
    shifting = [
        audit.name for audit in audits if any(kind.status == "shift" for kind in audit.verdicts)
    ]
    chosen = shifting if attribute is None else [attribute]
    if not chosen:
        problem = (
            f"by an audit no column shifts from {train} to {target}, so there is nothing to choose a"
            " method for; name a column by --attribute to ask all the same"
        )
        raise InputError("TARGET", problem)
    problems = {}
    for column in columns:
        if column.name not in chosen:
            continue
        # Only groups that are met: those of the target, and those of training.
        counts: dict[tuple[str, str], int] = {}
        for codes, step in (
            (zip(label_column.target, column.target, strict=True), 0),
            (zip(label_column.train, column.train, strict=True), 1),
        ):
            for class_code, value_code in codes:
                group = (label_column.values[class_code], column.values[value_code])
                counts[group] = counts.get(group, 0) + step
        title = f"{train} to {target}, {draft.label.name} with {column.name}"
        kind = "pictures" if draft.kind == "images" else draft.kind
        problems[title] = problem_of_counts({column.name: counts}, kind)
    return Subject(problems)


def of_study(word: str, scale: str | None, settings: Sequence[str]) -> Subject:
    """The problems of a study file or a shipped study, by data set, shift and size. Raises what
    planning raises."""
    from crosswind.studies.plan import make_plan
    from crosswind.studies.reading import find_study
    from crosswind.studies.spec import load_study

    study = load_study(word, scale, settings)
    folder = find_study(word)[1].parent
    plan = make_plan(study, folder)
    problems = problems_of_plan(plan, folder)
    titles = _titles(problems)
    return Subject(
        {titles[point]: problem for point, problem in problems.items()}, study.model_dump()
    )


def of_store(address: str, study: str | None) -> Subject:
    """The problems of a study that was run, whose results are evidence too. Raises `StoreError`."""
    from crosswind.reports.gather import gather
    from crosswind.storage.store import Store

    with Store.open(address) as store:
        name = store.study_named(study)
        record = gather(store, name)
        own = evidence_of(store, name)
        if not record.draws:
            problem = (
                f"the runs of study {name} left no files here that tell how their training rows were"
                " drawn; name the study itself, by its file, in place of its store"
            )
            raise InputError(str(address), problem)
        problems = problems_of_record(record)
        titles = _titles(problems)
        return Subject(
            {titles[point]: problem for point, problem in problems.items()},
            dict(record.given),
            [own],
            {
                title: data_name(record.resolved["data"][data], data)
                for (data, _, _), title in titles.items()
            },
        )


def _titles(problems: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str, str], str]:
    coordinates = list(problems)
    several = len({size for _, _, size in coordinates}) > 1
    return {
        (data, shift, size): f"{data}, {shift}" + (f", {size}" if several else "")
        for data, shift, size in coordinates
    }


def described(
    shift: str,
    *,
    kind: str = "pictures",
    rows: int = 1000,
    classes: int = 2,
    values: int = 2,
    tie: float = 0.95,
    pretrained: bool = False,
) -> Subject:
    """A problem without data. `tie`: share of the rows that follow the shift, in [0, 1]. Raises
    `InputError`."""
    if shift not in SHIFTS:
        raise unknown("--shift", "shift", shift, SHIFTS)
    if kind not in KINDS:
        raise unknown("--kind", "kind of inputs", kind, KINDS)
    counts = simple_counts(shift, rows, classes, values, tie)
    return Subject({shift: problem_of_counts({"attribute": counts}, kind, pretrained)})


def study_with(subject: Subject, advice: Sequence[Advice]) -> dict[str, Any]:
    """The subject's study with plain training and the methods that advice would try, at most
    `MOST_METHODS`: those that promise a gain, then those of the highest expected accuracy.

    Raises `InputError` where there is no study.
    """
    if subject.study is None:
        raise InputError("--to", "needs a table, a study or a store: a described shift has no data")
    entries = [entry for problem_advice in advice for entry in problem_advice.methods]
    promising = [entry.method for entry in entries if entry.verdict == "try"]
    others = [entry.method for entry in entries if entry.verdict == "cannot tell"]
    methods: dict[str, dict[str, Any]] = {"erm": {}}
    for name in dict.fromkeys([*promising, *others]):
        if len(methods) > MOST_METHODS:
            break
        base, balanced, _ = name.partition(" + balanced")
        entry: dict[str, Any] = {}
        if balanced:
            entry = {"method": base, "sampler": "balanced"}
        trainable = _trained_by(base, subject.models)
        if not trainable:
            continue
        if len(trainable) < len(subject.models):
            entry["models"] = trainable
        methods[f"{base}-balanced" if balanced else base] = entry
    fields = {name: value for name, value in subject.study.items() if name != "scales"}
    # Claims may name methods that are no longer there.
    fields.pop("claims", None)
    if fields.get("name"):
        # Run into the same folder, a study of the same name would take the place of the first.
        fields["name"] = f"{fields['name']}-advised"
    return {**fields, "methods": methods, "reference": "erm"}


def _trained_by(method: str, models: Mapping[str, str]) -> list[str]:
    """The labels of the models that a method can train."""
    needs = facts("methods", method).needs
    if needs is None:
        return list(models)
    return [label for label, model in models.items() if not model_lacks(needs, model)]
