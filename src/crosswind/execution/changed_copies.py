"""The answers of a model for changed copies of rows: for their neighbours, or for the pool of a
labelled source.

The copies of a pool are rows of the source under every change for their kind; with a neighbourhood,
the neighbours of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import CrosswindError, DataError, one_line
from crosswind.core.seeds import hash64, seed_of
from crosswind.core.types import Predictions
from crosswind.data.copies import Chain, copies
from crosswind.data.dataset import AttributedDataset
from crosswind.estimators.base import Answers, Labelled
from crosswind.models.given.outside import hearing_doubts, in_order, output_classes
from crosswind.shifts.split.classes import allowed
from crosswind.transforms.neighbourhood import Change, neighbourhood, pool_of_kind

if TYPE_CHECKING:
    from crosswind.models.given.outside import Outside
    from crosswind.shifts.split import RowSet
    from crosswind.training.trajectory import Answer

Features: TypeAlias = "Callable[[RowSet, AttributedDataset], NDArray[np.float32]]"
"""What a network's head reads for every row of a set, float32 [n, d]."""

LARGE = 64
"""Pixels a side from which a neighbourhood takes its values for pictures of ImageNet's size."""


class Neighbours(NamedTuple):
    """The neighbours that are made of each row: of which neighbourhood, "" for none, how many, and
    the knobs of its transform that its estimator hands over. `entropies`: whether those of their
    answers are computed."""

    name: str = ""
    number: int = 0
    handed: Mapping[str, Any] | None = None
    entropies: bool = True


@dataclass(frozen=True, eq=False)
class CopyAnswers:
    """Answers for n rows under each of C changes, or for the rows and their neighbours.

    `label` int64 [C, n]. `answer` int64 [C, n, N + 1], the row itself first. `entropy` float32 of
    the same shape, in nats, None where there are labels only. `logits` float32 [C, n, k] of the
    rows themselves, where no neighbours were asked for. So are `features` float32 [C, n, d], which
    no file holds.
    """

    label: NDArray[np.int64]
    answer: NDArray[np.int64]
    entropy: NDArray[np.float32] | None = None
    logits: NDArray[np.float32] | None = None
    features: NDArray[np.float32] | None = None


def copy_answers(
    answers: Answer,
    rows: RowSet,
    datasets: Mapping[str, AttributedDataset],
    neighbours: Neighbours,
    pool: int,
    features: Features | None = None,
) -> dict[str, CopyAnswers]:
    """The answers of a model for rows and their neighbours, by selection rule. `pool`: rows of the
    pool, 0: the rows as they are.

    A family of changes is shown rows of its own draw. Were they the same for all, the chance by
    which they are easier than others would stand in every accuracy of the pool alike. An interval
    would not cover it.

    `answers`: from sets and data sets to predictions by rule and set, and doubts. `features` are
    asked for where given.
    """
    dataset = datasets[rows.source]
    virtual_rows = _virtual_rows(rows, dataset)
    changes, families = _pool_changes(dataset) if pool else ([()], [""])
    beside: list[Chain] = [()]
    if neighbours.name:
        chain = _neighbour_chain(neighbours.name, dataset, neighbours.handed)
        beside += [chain] * neighbours.number
    copies_per_row = len(beside)
    name = "copies"
    ids = dataset.row_ids(virtual_rows)
    drawn = {family: _drawn(ids, family, pool or len(rows.rows)) for family in families}
    # Of a source of a million rows a table of all copies has 759 million.
    used = np.unique(np.concatenate(list(drawn.values())))
    chains = [(*change, *neighbour_chain) for change in changes for neighbour_chain in beside]
    copied = copies(dataset, virtual_rows[used], chains)
    out: dict[str, list[Any]] = {}
    for family_index, family in enumerate(families):
        chosen = drawn[family]
        first_copies = np.searchsorted(used, chosen)[:, None] * len(chains)
        copies_of_family = family_index * copies_per_row + np.arange(copies_per_row)
        virtual = first_copies + copies_of_family
        copied_rows = _rows_of_copies(rows, chosen, virtual, name)
        answered, _ = answers({name: copied_rows}, {**datasets, name: copied})
        for rule, sets in answered.items():
            read = None
            if features is not None and not neighbours.name:
                read = features(copied_rows, copied)
            with_entropies = neighbours.entropies and bool(neighbours.name)
            of_copies = _read(sets[name], len(chosen), copies_per_row, with_entropies)
            out.setdefault(rule, []).append((*of_copies, read))
    label = np.stack([rows.label[drawn[family]] for family in families])
    return {
        rule: _joined(label, family_answers, bool(neighbours.name))
        for rule, family_answers in out.items()
    }


def _pool_changes(dataset: AttributedDataset) -> tuple[list[Chain], list[str]]:
    """The changes of the pool for inputs of this kind, and the family of each; of kinds without a
    pool, no change."""
    pool_changes = pool_of_kind(dataset.check_inputs().kind)
    changes: list[Chain] = [((change.transform, change.knobs),) for change in pool_changes]
    families = [change.family for change in pool_changes]
    return changes or [()], families or [""]


def _virtual_rows(rows: RowSet, dataset: AttributedDataset) -> NDArray[np.int64]:
    """The rows of the data set with its derived ones, each in its most usual form; int64 [n]."""
    law = rows.visit_law
    if law is None:
        return rows.rows
    return rows.rows * dataset.n_derived + law.argmax(axis=1)


def _neighbour_chain(
    neighbourhood_name: str, dataset: AttributedDataset, handed: Mapping[str, Any] | None
) -> Chain:
    """The change that makes a neighbour, by the size of the pictures if there are any."""
    height = 0
    if dataset.image_shape is not None:
        height = min(dataset.image_shape[:2])
    definition = neighbourhood(neighbourhood_name, handed)
    return ((definition.transform, definition.knobs(height >= LARGE)),)


def _rows_of_copies(
    rows: RowSet, chosen: NDArray[np.int64], virtual: NDArray[np.int64], name: str
) -> RowSet:
    """The set of the copies `virtual` [n, copies of a row] of the rows `chosen` [n]."""
    copies_per_row = virtual.shape[1]
    columns: dict[str, Any] = {}
    for key in ("label", "true_label", "group", "weight", "origin"):
        columns[key] = np.repeat(getattr(rows, key)[chosen], copies_per_row)
    return replace(
        rows, source=name, rows=virtual.ravel(), visit_law=None, environment=None, **columns
    )


def _drawn(ids: NDArray[np.int64], family: str, limit: int) -> NDArray[np.int64]:
    """At most so many of the rows, in order: the same ones whatever stands beside them."""
    if limit >= len(ids):
        return np.arange(len(ids))
    order = np.argsort(hash64(ids, seed_of(0, "rows of the pool", family)), kind="stable")
    return np.sort(order[:limit])


def fewer_rows(
    copied: CopyAnswers,
    rows: RowSet,
    datasets: Mapping[str, AttributedDataset],
    pool: int,
    fewer: int,
) -> CopyAnswers:
    """Of what was said of a pool of so many rows, what `copy_answers` would say of one of fewer."""
    dataset = datasets[rows.source]
    ids = dataset.row_ids(_virtual_rows(rows, dataset))
    positions = []
    for family in _pool_changes(dataset)[1]:
        drawn = _drawn(ids, family, pool)
        positions.append(np.searchsorted(drawn, _drawn(ids, family, fewer)))
    index = (np.arange(len(positions))[:, None], np.stack(positions))
    return CopyAnswers(
        copied.label[index],
        copied.answer[index],
        None if copied.entropy is None else copied.entropy[index],
        None if copied.logits is None else copied.logits[index],
        None if copied.features is None else copied.features[index],
    )


def _read(
    predictions: Predictions, n: int, copies_per_row: int, entropies: bool
) -> tuple[Any, ...]:
    answer = predictions.answer.reshape(n, copies_per_row)
    if predictions.logits is None:
        return answer, None, None
    logits_of_rows = predictions.logits.reshape(n, copies_per_row, -1)[:, 0]
    if not entropies:
        return answer, None, logits_of_rows
    spread = Answers(predictions.answer, predictions.logits)
    p = spread.log_probabilities
    finite_logs = np.where(np.isfinite(p), p, 0.0)
    entropy = -(np.exp(p) * finite_logs).sum(axis=1)
    entropy_of_copies = entropy.astype(np.float32).reshape(n, copies_per_row)
    return (answer, entropy_of_copies, logits_of_rows)


def _joined(
    label: NDArray[np.int64], family_answers: Sequence[tuple[Any, ...]], with_neighbours: bool
) -> CopyAnswers:
    answer, entropy, logits, read = (
        None if arrays[0] is None else np.stack(arrays)
        for arrays in zip(*family_answers, strict=True)
    )
    assert answer is not None
    return CopyAnswers(
        label,
        answer,
        entropy if with_neighbours else None,
        None if with_neighbours else logits,
        read,
    )


def external_answers(model: Outside, class_names: Sequence[str], rule: str) -> Answer:
    """From sets and data sets to what a model says that is not trained here, under the name
    `rule`."""

    def answers(sets: Mapping[str, RowSet], datasets: Mapping[str, AttributedDataset]) -> Any:
        out = {}
        doubts: list[str] = []
        for name, rows in sets.items():
            dataset = datasets[rows.source]
            order = output_classes(model, class_names)
            try:
                with hearing_doubts() as heard:
                    ordered = in_order(model.answer(rows, dataset, class_names), order, class_names)
                doubts += heard
            except CrosswindError:
                raise
            except Exception as error:  # whatever the code of somebody else does
                cause = f"{type(error).__name__}: {one_line(str(error), 200)}"
                problem = f"the model failed on {len(rows.rows):,} inputs ({cause})"
                raise DataError(problem) from error
            answer, logits, *texts = ordered  # texts only of a model that answers in words
            answer, logits = allowed(rows.answers_as, answer, logits)
            ids = dataset.row_ids(rows.rows)
            out[name] = Predictions(ids, rows.label, rows.group, answer, logits, *texts)
        return {rule: out}, doubts

    return answers


def write_copy_answers(path: Path, answers_by_rule: Mapping[str, CopyAnswers]) -> None:
    """One compressed npz: `RULE/PART`."""
    arrays = {
        f"{rule}/{array_name}": array
        for rule, answers in answers_by_rule.items()
        for array_name in ("label", "answer", "entropy", "logits")
        if (array := getattr(answers, array_name)) is not None
    }
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def read_copy_answers(path: Path) -> dict[str, CopyAnswers]:
    """The answers that `write_copy_answers` wrote, by rule. Nothing is unpickled."""
    out: dict[str, dict[str, Any]] = {}
    with np.load(path, allow_pickle=False) as arrays:
        for key in arrays.files:
            rule, array_name = key.rsplit("/", 1)
            out.setdefault(rule, {})[array_name] = arrays[key]
    return {rule: CopyAnswers(**by_name) for rule, by_name in out.items()}


def set_answers(
    predictions: Predictions, neighbourhood_name: str, copied: CopyAnswers | None
) -> Answers:
    """The answers known for a set: its predictions, and the answers for the neighbours of its
    rows."""
    plain = Answers(predictions.answer, predictions.logits)
    if copied is None:
        return plain
    return _with_neighbours(plain, neighbourhood_name, copied, 0)


def labelled_pool(
    plain: CopyAnswers | None,
    neighbourhood_name: str,
    copied: CopyAnswers | None,
    changes: Sequence[Change],
) -> list[Labelled]:
    """The labelled sets of the pool, one of each of its `changes`; empty where there is none."""
    if plain is None:
        return []
    sets = []
    for change_index, change in enumerate(changes):
        logits = None if plain.logits is None else plain.logits[change_index]
        read = None if plain.features is None else plain.features[change_index]
        answer = plain.answer[change_index, :, 0]
        answers = Answers(answer, logits, features=read)
        if copied is not None:
            answers = _with_neighbours(answers, neighbourhood_name, copied, change_index)
        sets.append(Labelled(answers, plain.label[change_index], change.name, change.family))
    return sets


def _with_neighbours(
    plain: Answers, neighbourhood_name: str, copied: CopyAnswers, change_index: int
) -> Answers:
    if copied.entropy is None:
        entropies = {}
    else:
        entropies = {neighbourhood_name: copied.entropy[change_index]}
    neighbours = {neighbourhood_name: copied.answer[change_index]}
    return replace(plain, neighbours=neighbours, entropies=entropies)
