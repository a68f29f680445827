"""One trained model, data without labels: every estimate that applies, which to believe, and what
speaks against it.

The model answers for the target, for the labelled source, for neighbours of both, and for the
source under every change of the pool. A label of the target is never read, not even where the data
have one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import CrosswindError, DataError, InputError, one_line
from crosswind.core.knobs import Access
from crosswind.core.log import LOGGER
from crosswind.core.registry import Facts, facts, load
from crosswind.core.types import KINDS_OF_INPUTS, Predictions
from crosswind.estimators.base import Answers, Estimate, Labelled
from crosswind.estimators.diagnosis import diagnosed
from crosswind.estimators.estimating import PreparedEstimate, estimated_jointly
from crosswind.execution.changed_copies import (
    CopyAnswers,
    Neighbours,
    copy_answers,
    fewer_rows,
    labelled_pool,
    set_answers,
)
from crosswind.execution.output_order import check_order
from crosswind.shifts.split import RowSet
from crosswind.studies.estimates import kind_of_neighbours
from crosswind.transforms.neighbourhood import NEIGHBOURS, neighbourhood, pool_of_kind
from crosswind.unlabelled.answer import Doubtful, Estimates, Row
from crosswind.unlabelled.estimator_choice import estimator_settings, wanted_estimators
from crosswind.unlabelled.model_columns import listed_columns, unnamed_columns
from crosswind.unlabelled.model_under_test import AskedModel, Sets, asked_model, reordered
from crosswind.unlabelled.request import EstimateRequest
from crosswind.unlabelled.target_rows import Rows, codes_of, plain_rows, read_rows
from crosswind.unlabelled.unread_options import refuse_unread

_TWICE = 48
"""Rows that are asked for again, in another order and number."""
_UNSTEADY = 0.02
"""How far a probability may move when it is asked for again: by rounding in batches of another
size."""
_LARGEST = 65504.0
"""The largest number of half precision, which logits that overflow it are often cut to."""
_LETTERS = 300
"""Of a text that is kept to be looked at."""
_SHOWN = 24
"""Rows of which the neighbours disagree most that are kept to be looked at."""

_Answer = TypeVar("_Answer")
Tell: TypeAlias = Callable[[str], object]


def ask(request: EstimateRequest) -> Estimates:
    """The estimates of a model on rows; see `crosswind.estimate`. Raises `InputError` and
    `DataError`."""
    estimator_facts = wanted_estimators(request.estimators)
    subject = asked_model(request.model, request.settings or {})
    models_beside = _besides(request.beside, request.beside_classes)
    target, labelled_rows, column_notes = _read_both(request, subject)
    names = _class_names(subject, request.classes, labelled_rows)
    kind = target.dataset.check_inputs().kind
    refuse_unread(request, kind)
    settings_by_estimator = estimator_settings(estimator_facts, request.estimators, kind)
    first_model = _Questions(
        subject,
        names,
        target,
        labelled_rows,
        _read_features(estimator_facts),
        settings_by_estimator,
    )
    notes = column_notes + _order_notes(subject, first_model, request.classes, labelled_rows)
    companions = []
    for model_beside, order in models_beside:
        questions, order_note = _companion(model_beside, order, first_model, target, labelled_rows)
        companions.append(questions)
        notes += (_insisted(order_note),) if order_note else ()
    neighbourhoods = _neighbourhoods(estimator_facts)
    if request.estimators is None and pool_of_kind(kind):
        estimator_facts = [
            estimator
            for estimator in estimator_facts
            if estimator.name not in neighbourhoods or first_model.takes(estimator.name) == kind
        ]
    # Without labelled rows under changes a measure says nothing.
    neighbourhoods = [name for name in neighbourhoods if first_model.takes(name) == kind]
    targets, sources, pools = _changed_answers(first_model, neighbourhoods, kind, request)
    rows_of_one_model, left_out = estimates(
        estimator_facts, targets, sources, pools, kind, settings_by_estimator
    )
    joint, without = _jointly(estimator_facts, first_model, companions)
    rows_of_one_model = [*rows_of_one_model, *joint]
    first = first_model.target
    shown = next((targets[name] for name in neighbourhoods if name in targets), None)
    best = rows_of_one_model[0].estimate.accuracy if rows_of_one_model else None
    labelled_by_source = next(
        (sources[name] for name in neighbourhoods if sources.get(name)), first_model.labelled
    ) or _nothing(len(names))
    labelled = first_model.labelled
    findings = tuple(diagnosed(labelled_by_source, shown or first, best))
    near = _some(len(first), request.near_rows)
    doubtful = _doubtful(target, shown, names, neighbourhoods, near)
    source_accuracy = None if labelled is None else labelled.accuracy
    n_source = 0 if labelled is None else len(labelled.answers)
    return Estimates(
        subject.name,
        target.name,
        len(first),
        "" if labelled is None else labelled.name,
        source_accuracy,
        n_source,
        tuple(rows_of_one_model),
        (*left_out, *without),
        findings,
        doubtful,
        kind,
        notes,
    )


# -- what is asked ---------------------------------------------------------------------------------


def _read_both(
    request: EstimateRequest, subject: AskedModel
) -> tuple[Rows, Rows | None, tuple[str, ...]]:
    """The rows to estimate, the labelled rows where the request has any, and what is to be said of
    the columns that were taken of their tables."""
    takes = subject.input
    size = request.size
    folder = request.image_folder
    text = request.text_columns
    columns = subject.columns.with_chosen(request.columns, request.label)
    source = None
    if request.source is not None:
        label = request.label or ""
        source = read_rows(request.source, "source", takes, size, label, folder, text, columns)
        if source.columns and columns.names is None:
            columns = replace(columns, names=source.columns)
    target = read_rows(request.data, "data", takes, size, None, folder, text, columns)
    notes = []
    if target.columns and (subject.columns.names or columns.chosen) is None:
        order = target if source is None else source
        notes.append(unnamed_columns(subject.name, order.name, order.columns))
    for rows in (target, source):
        if rows is not None and rows.unread:
            notes.append(f"Of {rows.name} it does not read {listed_columns(rows.unread)}.")
        if rows is not None:
            notes += rows.notes
    return target, source, tuple(notes)


def _read_features(estimator_facts: Sequence[Facts]) -> bool:
    """Whether some estimator reads what the model's last layer reads."""
    accesses = [estimator.access for estimator in estimator_facts]
    return any(access is not None and access.features for access in accesses)


def _neighbourhoods(estimator_facts: Sequence[Facts]) -> list[str]:
    """The neighbourhoods in which estimators ask, in their order."""
    names = []
    for estimator in estimator_facts:
        if estimator.access is not None and estimator.access.neighbourhood:
            names.append(estimator.access.neighbourhood)
    return names


def _changed_answers(
    first_model: _Questions,
    neighbourhoods: Sequence[str],
    kind: str,
    request: EstimateRequest,
) -> tuple[dict[str, Answers], dict[str, Labelled | None], dict[str, list[Labelled]]]:
    """The answers of the model for the target, the source and the pool: under "" for the rows as
    they are, and by the name of each neighbourhood for neighbours."""
    targets = {"": first_model.target}
    sources = {"": first_model.labelled}
    pools = dict[str, list[Labelled]]()
    if not (pool_of_kind(kind) and first_model.labelled is not None and request.pool_rows):
        return targets, sources, pools
    pools[""] = first_model.pool("", request.pool_rows, request.tell)
    for name in dict.fromkeys(neighbourhoods) if request.near_rows else ():
        n_rows = min(request.near_rows, len(first_model.target))
        request.tell(f"asking for the neighbours ({name}) of {n_rows:,} rows")
        targets[name], sources[name] = first_model.near(name, request.near_rows)
        pools[name] = first_model.pool(name, max(1, request.pool_rows // 2), request.tell)
    return targets, sources, pools


def _class_names(
    model: AskedModel, asked_classes: Sequence[str] | None, source: Rows | None
) -> tuple[str, ...]:
    if asked_classes:
        names = tuple(asked_classes)
    else:
        names = model.classes or (source.values if source is not None else ())
    if not names:
        raise InputError(
            "classes",
            "are needed, in the order of the model's outputs, where no labelled source names them",
        )
    if model.classes is not None and names != model.classes:
        problem = (
            "must be those of the model in its order, or be left out:"
            f" {', '.join(model.classes[:20])}"
        )
        raise InputError("classes", problem)
    if len(set(names)) < len(names):
        raise InputError("classes", "names one class twice")
    if len(names) < 2:
        raise InputError("classes", "the model has one class, so that every answer is right")
    return names


def _order_notes(
    model: AskedModel,
    questions: _Questions,
    classes: Sequence[str] | None,
    labelled_rows: Rows | None,
) -> tuple[str, ...]:
    """Refuse a model whose outputs stand in another order than its classes; what to say of an order
    that is insisted on."""
    if model.trained_here or questions.labelled is None:
        return ()
    usual = model.classes or (None if labelled_rows is None else labelled_rows.values)
    remedy = "give the second, or the first to leave it as it is"
    if model.classes is not None:
        remedy = "write the second into its card as classes, or give the first to leave it as it is"
    order_note = check_order(
        "classes",
        model.name,
        questions.labelled,
        questions.names,
        questions.names,
        usual,
        remedy if classes is None else "",
    )
    return (_insisted(order_note),) if order_note else ()


def _insisted(order_note: str) -> str:
    """The warning of an order that a person insists on, from what speaks for another."""
    return f"Warning: {order_note}; the first was asked for."


class _Questions:
    """A model with its classes and the rows that it is asked about.

    `target`: what it says of the rows to estimate. `labelled`: what it says of labelled rows that
    were named, else of those that it was validated on; None without either. `reads`: whether
    features are asked for, where they can be had. `settings`: of estimators, by name.
    """

    def __init__(
        self,
        model: AskedModel,
        names: Sequence[str],
        target: Rows,
        labelled_rows: Rows | None,
        reads: bool = False,
        settings: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        self.model = model
        self.names = tuple(names)
        self._answers = model.answers(names)
        self._settings = settings
        self._features = model.features if reads else None
        label = np.full(len(target.rows), -1)
        self._rows = plain_rows("target", label)
        self._sets = {"target": target.dataset}
        self.target = self._said("data", self._rows, self._sets)
        if not model.steady:
            self._check_steady()
        self.labelled: Labelled | None = None
        self._pool: tuple[int, CopyAnswers] | None = None
        if labelled_rows is not None:
            self.told(
                plain_rows("source", codes_of(labelled_rows, names)),
                {"source": labelled_rows.dataset},
                labelled_rows.name,
            )
        elif model.source is not None:
            self.told(*model.source, "the run's validation set")

    def told(self, rows: RowSet, sets: Sets, name: str) -> None:
        """Have it answer for labelled rows."""
        self.rows = rows
        self.sets = sets
        answers = self._said("source", rows, sets)
        self.labelled = Labelled(answers, rows.label, name)

    def near(self, name: str, n_rows: int) -> tuple[Answers, Labelled]:
        """The answers for neighbours of at most so many rows of the target, and of the source."""
        assert self.labelled is not None
        target_numbers = _some(len(self.target), n_rows)
        source_numbers = _some(len(self.labelled.answers), n_rows)
        target_answers = self._near(name, self._rows, self._sets, target_numbers, self.target)
        beside = self._near(name, self.rows, self.sets, source_numbers, self.labelled.answers)
        label = self.labelled.label[source_numbers]
        return target_answers, replace(self.labelled, answers=beside, label=label)

    def pool(self, neighbourhood_name: str, n: int, tell: Tell) -> list[Labelled]:
        """The answers for n labelled rows under every change of the pool, and with a neighbourhood
        for the neighbours of each."""
        n = min(n, len(self.rows.rows))
        changes = pool_of_kind(self.sets[self.rows.source].check_inputs().kind)
        copies = len(changes) * n * (NEIGHBOURS + 1 if neighbourhood_name else 1)
        by_neighbours = f" ({neighbourhood_name})" if neighbourhood_name else ""
        tell(f"asking for {copies:,} changed copies of {n:,} labelled rows{by_neighbours}")
        rule = self.model.rule
        settings_handed = self._handed(neighbourhood_name)
        plain = self._plain_pool(n)
        beside = None
        if neighbourhood_name:
            beside = copy_answers(
                self._answers,
                self.rows,
                self.sets,
                # The diagnosis reads the entropies of the target and of the source.
                Neighbours(neighbourhood_name, NEIGHBOURS, settings_handed, entropies=False),
                n,
            )[rule]
        pool = labelled_pool(plain, neighbourhood_name, beside, changes)
        return [
            replace(labelled, answers=replace(labelled.answers, classes=len(self.names)))
            for labelled in pool
        ]

    def _plain_pool(self, n: int) -> CopyAnswers:
        """The answers for n rows under every change, without neighbours: asked for once, since the
        rows of a smaller pool are among those of a larger one."""
        if self._pool is None or self._pool[0] < n:
            copied = copy_answers(
                self._answers, self.rows, self.sets, Neighbours(), n, self._features
            )[self.model.rule]
            self._pool = (n, copied)
        n_asked, copied = self._pool
        if n_asked == n:
            return copied
        return fewer_rows(copied, self.rows, self.sets, n_asked, n)

    def _near(
        self,
        name: str,
        rows: RowSet,
        sets: Sets,
        row_numbers: NDArray[np.int64],
        answers_so_far: Answers,
    ) -> Answers:
        keys = ("rows", "label", "true_label", "group", "weight", "origin")
        columns: dict[str, Any] = {key: getattr(rows, key)[row_numbers] for key in keys}
        columns["visit_law"] = None if rows.visit_law is None else rows.visit_law[row_numbers]
        chosen = replace(rows, environment=None, **columns)
        handed = self._handed(name)
        copied_by_rule = copy_answers(
            self._answers, chosen, sets, Neighbours(name, NEIGHBOURS, handed), 0
        )
        copied = copied_by_rule[self.model.rule]
        answers_of_rows = answers_so_far.take(row_numbers)
        plain = Predictions(
            row_numbers,
            columns["label"],
            columns["group"],
            answers_of_rows.answer,
            answers_of_rows.logits,
        )
        return replace(set_answers(plain, name, copied), classes=answers_of_rows.classes)

    def takes(self, neighbourhood_name: str) -> str:
        """The kind of input that the neighbours of a neighbourhood are."""
        return neighbourhood(neighbourhood_name, self._handed(neighbourhood_name)).takes

    def _handed(self, neighbourhood_name: str) -> dict[str, Any]:
        """The settings of the estimator of a neighbourhood that are those of its transform."""
        access = (
            facts("estimators", neighbourhood_name).access if neighbourhood_name else None
        )  # it has the neighbourhood's name
        if access is None:
            return {}
        return {
            key: value
            for key, value in self._settings.get(neighbourhood_name, {}).items()
            if key in access.handed
        }

    def _said(self, field: str, rows: RowSet, sets: Sets) -> Answers:
        by_rule, _ = self._answers({"rows": rows}, sets)
        predictions: Predictions = by_rule[self.model.rule]["rows"]
        read = None
        if self._features is not None:
            read = self._features(rows, sets[rows.source])
        n_classes = len(self.names)
        answers = Answers(predictions.answer, predictions.logits, classes=n_classes, features=read)
        if predictions.logits is not None:
            _check_numbers(field, predictions.logits)
        return answers

    def _check_steady(self) -> None:
        """Refuse a model that answers otherwise when it is asked for some rows again, beside others
        and in another order."""
        again = _some(len(self.target), _TWICE)[::-1]
        label = np.full(len(again), -1)
        rows = replace(plain_rows("target", label), rows=self._rows.rows[again])
        second = self._said("data", rows, self._sets)
        first = self.target.take(again)
        moved = first.answer != second.answer
        if first.logits is not None and second.logits is not None:
            moved = np.abs(first.probabilities - second.probabilities).max(axis=1) > _UNSTEADY
        if moved.any():
            why = "as in training mode; put it in evaluation mode"
            problem = (
                f"the model answers {moved.sum()} of {len(again)} rows otherwise when it is asked"
                f" again, {why}"
            )
            raise DataError(problem)


def _besides(
    words: Sequence[str], orders: Sequence[Sequence[str]]
) -> list[tuple[AskedModel, Sequence[str] | None]]:
    """The further models, each with the order of its outputs, None where none was given: one order
    is of all."""
    if len(orders) not in (0, 1, len(words)):
        raise InputError(
            "beside_classes",
            f"are to be given once for all, or once for each of the {len(words)} models beside",
        )
    every: list[Sequence[str] | None] = [None] * len(words)
    if orders:
        if len(orders) == 1:
            every = [*orders] * len(words)
        else:
            every = [*orders]
    return [(_beside(word), order) for word, order in zip(words, every, strict=True)]


def _beside(word: str) -> AskedModel:
    try:
        return asked_model(word, {})
    except InputError as error:
        field = "beside" if error.field == "model" else error.field
        raise InputError(field, error.problem, error.choices) from None


def _companion(
    model: AskedModel,
    order: Sequence[str] | None,
    first_model: _Questions,
    target: Rows,
    labelled_rows: Rows | None,
) -> tuple[_Questions, str]:
    """A further model, asked about the same rows as the first, and what is to be said of the order
    of its outputs.

    `order`: the classes in the order of its outputs, None where they are in that of the first
    model's. A model that names its own classes is not asked in another.
    """
    order = order if model.classes is None else None
    if order is not None:
        if sorted(order) != sorted(first_model.names):
            raise InputError(
                "beside_classes", "must be the classes of the model", first_model.names
            )
        model = replace(model, answers=reordered(model.answers, order))
    questions = _asked_beside(model, first_model, target, labelled_rows)
    if model.trained_here or questions.labelled is None:
        return questions, ""
    remedy = "give the second, or the first to leave it as it is" if order is None else ""
    return questions, check_order(
        "beside_classes",
        model.name,
        questions.labelled,
        first_model.names,
        order or first_model.names,
        first_model.names,
        remedy,
    )


def _in_columns_of(model: AskedModel, rows: Rows) -> Rows:
    """Rows with the inputs of a table as a model beside the first one reads them."""
    return replace(rows, dataset=model.columns.aligned(rows.dataset, "beside")[0])


def _asked_beside(
    model: AskedModel, first_model: _Questions, target: Rows, labelled_rows: Rows | None
) -> _Questions:
    if model.classes is not None and model.classes != first_model.names:
        problem = (
            f"{model.name} has other classes than the model, or another order:"
            f" {', '.join(model.classes[:20])}"
        )
        raise InputError("beside", problem)
    target = _in_columns_of(model, target)
    labelled_rows = None if labelled_rows is None else _in_columns_of(model, labelled_rows)
    spec = target.dataset.check_inputs()
    if model.input is not None and model.input != spec:
        raise InputError("beside", f"{model.name} takes {model.input}, and the model {spec}")
    if labelled_rows is not None or first_model.labelled is None:
        return _Questions(replace(model, source=None), first_model.names, target, labelled_rows)
    mine = (first_model.rows, first_model.sets)
    theirs = model.source
    ids = [sets[rows.source].row_ids(rows.rows) for rows, sets in (mine, theirs or mine)]
    if theirs is None or not np.array_equal(ids[0], ids[1]):
        raise InputError(
            "source",
            f"is needed: {model.name} was not validated on the rows that {first_model.model.name} was",
        )
    return _Questions(model, first_model.names, target, None)


def _check_numbers(field: str, logits: NDArray[Any]) -> None:
    bad = ~np.isfinite(logits.max(axis=1)) | np.isnan(logits).any(axis=1)
    if bad.any():
        raise DataError(
            f"the model gave logits that are not finite for the rows of {field}, such as row"
            f" {int(bad.argmax())}"
        )
    cut = (np.abs(logits) == _LARGEST).any(axis=1)
    if cut.any():
        where = f"for the rows of {field}, such as row {int(cut.argmax())}"
        raise DataError(
            f"the model gave logits of {_LARGEST:g}, where half precision ends, {where}"
        )


def _some(n: int, largest: int) -> NDArray[np.int64]:
    """At most so many of n rows, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, largest)).round().astype(np.int64))


def _nothing(classes: int) -> Labelled:
    answers = Answers(np.empty(0, np.int64), classes=classes)
    return Labelled(answers, np.empty(0, np.int64))


# -- what is found ---------------------------------------------------------------------------------


def estimates(
    estimator_facts: Sequence[Facts],
    targets: Mapping[str, Answers],
    sources: Mapping[str, Labelled | None],
    pools: Mapping[str, list[Labelled]],
    kind: str,
    settings: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> tuple[list[Row], list[tuple[str, str]]]:
    """By one model alone: the estimates, the most believable first, and what was left out and why.
    `kind`: of rows, or table."""
    estimated = []
    left_out = []
    for estimator in estimator_facts:
        if estimator.access is not None and estimator.access.models > 1:
            continue
        access = estimator.access or Access()
        knobs = settings.get(estimator.name, {})
        takes = "" if kind == "table" else kind_of_neighbours(access, knobs)
        why = _not_asked(access, takes, targets, sources, pools, kind)
        if why:
            left_out.append((estimator.name, why))
            continue
        row_or_reason = _or_failure(
            estimator.name, partial(_row_of, estimator, knobs, targets, sources, pools)
        )
        if isinstance(row_or_reason, Row):
            estimated.append(row_or_reason)
        else:
            left_out.append((estimator.name, row_or_reason))
    return sorted(estimated, key=_least_error_first), left_out


def _not_asked(
    access: Access,
    takes: str,
    targets: Mapping[str, Answers],
    sources: Mapping[str, Labelled | None],
    pools: Mapping[str, list[Labelled]],
    kind: str,
) -> str:
    """Why an estimator with this access is not asked, in a sentence; "" where it is. `takes`: the
    kind of its neighbours, "" where they do not matter."""
    if access.source and sources[""] is None:
        return "no labelled rows of the source were given"
    if access.weights:
        return "it is one number whatever the data, so that it compares models and not sets"
    if access.features and targets[""].features is None:
        return "what this model's head reads is out of reach"
    if takes not in ("", kind):
        return f"its neighbours are changed {KINDS_OF_INPUTS[takes]}"
    if access.pool and not pools:
        return "it learns from changed copies of labelled rows" + _unchanged(kind)
    return ""


def _unchanged(kind: str) -> str:
    """Why there are no changed copies of rows of this kind; "" where there may be."""
    if pool_of_kind(kind):
        return ""
    if kind == "table":
        return ", and a table holds none"
    if kind == "features":
        return ", and vectors of numbers have no pool of changes; in a study it ranks networks"
    return f", and {KINDS_OF_INPUTS[kind]} are not changed"


def _or_failure(name: str, estimate: Callable[[], _Answer]) -> _Answer | str:
    """The answer of an estimator, or that its code fails, as a plug-in's may: that takes nothing
    from the others."""
    try:
        return estimate()
    except CrosswindError:
        raise
    except Exception as error:
        LOGGER.debug("estimator %s failed", name, exc_info=error)
        message = one_line(f"{type(error).__name__}: {error}", 200)
        return f"its code fails on these rows ({message})"


def _row_of(
    estimator: Facts,
    knobs: Mapping[str, Any],
    targets: Mapping[str, Answers],
    sources: Mapping[str, Labelled | None],
    pools: Mapping[str, list[Labelled]],
) -> Row | str:
    """One estimator's estimate, or why there is none."""
    neighbourhood_name = (estimator.access or Access()).neighbourhood
    source = sources.get(neighbourhood_name) or sources[""] or _nothing(0)
    pool = pools.get(neighbourhood_name, [])
    prepared = PreparedEstimate(load("estimators", estimator.name)(**knobs), source, pool)
    target = targets.get(neighbourhood_name, targets[""])
    estimate = prepared(target)
    if isinstance(estimate, str):
        return estimate
    pool_error = prepared.pool_error(target)
    has_shifted = prepared.shifted(target) is not None
    return Row(estimator.name, estimate, pool_error, has_shifted)


def _least_error_first(row: Row) -> tuple[bool, bool, float]:
    """The sort key of a row: the most believable estimate comes first."""
    return row.pool_error is None, row.estimate.low is None, row.pool_error or 0.0


def _jointly(
    estimator_facts: Sequence[Facts], first_model: _Questions, models_beside: Sequence[_Questions]
) -> tuple[list[Row], list[tuple[str, str]]]:
    """By several models, of which the first is the one that is asked about."""
    estimated = []
    left_out = []
    models = [first_model, *models_beside]
    sources = [entry.labelled for entry in models if entry.labelled is not None]
    for entry in estimator_facts:
        access = entry.access or Access()
        if access.models < 2:
            continue
        estimate_or_reason: list[Estimate] | str = (
            f"it compares {access.models} models or more, and has {len(models)}"
        )
        if access.source and not sources:
            estimate_or_reason = "no labelled rows of the source were given"
        elif len(models) >= access.models:
            estimator = load("estimators", entry.name)()
            targets = [each.target for each in models]
            estimate_or_reason = _or_failure(
                entry.name, partial(estimated_jointly, estimator, sources, targets)
            )
        if isinstance(estimate_or_reason, str):
            left_out.append((entry.name, estimate_or_reason))
        else:
            estimated.append(Row(entry.name, estimate_or_reason[0], None))
    return estimated, left_out


def _doubtful(
    target: Rows,
    answers: Answers | None,
    classes: Sequence[str],
    neighbourhoods: Sequence[str],
    row_numbers: NDArray[np.int64],
) -> tuple[Doubtful, ...]:
    if answers is None:
        return ()
    votes = answers.neighbours[next(name for name in neighbourhoods if name in answers.neighbours)]
    shares = np.stack([(votes == code).mean(axis=1) for code in range(len(classes))], axis=1)
    order = np.argsort(shares.max(axis=1), kind="stable")[:_SHOWN]
    rows = target.dataset.inputs(row_numbers[order])
    out = []
    for position, row in zip(order.tolist(), rows, strict=True):
        shares_sorted = sorted(
            ((float(shares[position, code]), -code) for code in np.flatnonzero(shares[position])),
            reverse=True,
        )
        votes_by_class = tuple((classes[-int(code)], share) for share, code in shares_sorted)
        answer = "no answer"
        if answers.answer[position] >= 0:
            answer = classes[int(answers.answer[position])]
        input_of_row: dict[str, Any]
        if isinstance(row, str):
            input_of_row = {"text": one_line(row, _LETTERS)}
        else:
            input_of_row = {"picture": row}
        row_name = target.names(int(row_numbers[position]))
        out.append(Doubtful(row_name, answer, votes_by_class, **input_of_row))
    return tuple(out)
