"""What a model says of changed copies of rows: of their neighbours, or of the pool of a labelled
source.

The copies of a pool are rows of the source under every change for their kind; with a neighbourhood,
the neighbours of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

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


@dataclass(frozen=True, eq=False)
class Said:
    """Of n rows under each of C changes, or of them all and their neighbours.

    `label` int64 [C, n]; `answer` int64 [C, n, N + 1], the row itself first; `entropy` float32 of
    the same shape, in nats, None where there are labels only; `logits` float32 [C, n, k] of the
    rows themselves, where no neighbours were asked for; so are `features` float32 [C, n, d], which
    no file holds.
    """

    label: NDArray[np.int64]
    answer: NDArray[np.int64]
    entropy: NDArray[np.float32] | None = None
    logits: NDArray[np.float32] | None = None
    features: NDArray[np.float32] | None = None


def said_of_copies(
    answers: Answer,
    rows: RowSet,
    datasets: Mapping[str, AttributedDataset],
    near: str,
    neighbours: int,
    pool: int,
    features: Features | None = None,
    handed: Mapping[str, Any] | None = None,
) -> dict[str, Said]:
    """What a model says by selection rule. `near`: a neighbourhood or ""; `pool`: rows of the pool,
    0: the rows as they are. `handed`: knobs of the transform of `near`, by its estimator.

    A family of changes is shown rows of its own draw: were they the same for all, the chance by
    which they are easier than others would stand in every accuracy of the pool alike, and an
    interval would not cover it.

    `answers`: from sets and data sets to predictions by rule and set, and doubts. `features` are
    asked for where given.
    """
    dataset = datasets[rows.source]
    law, n = rows.visit_law, len(rows.rows)
    given = rows.rows if law is None else rows.rows * dataset.n_derived + law.argmax(axis=1)
    height = 0 if dataset.image_shape is None else min(dataset.image_shape[:2])
    under = pool_of_kind(dataset.check_inputs().kind) if pool else ()
    changes: list[Chain] = [((change.transform, change.knobs),) for change in under] or [()]
    beside: list[Chain] = [()]
    if near:
        own = neighbourhood(near)
        beside += [
            ((own.transform, {**own.knobs(height >= LARGE), **(handed or {})}),)
        ] * neighbours
    many, name = len(beside), "copies"
    families = [change.family for change in under] or [""]
    drawn = {family: _drawn(dataset.row_ids(given), family, pool or n) for family in families}
    used = np.unique(
        np.concatenate(list(drawn.values()))
    )  # of a source of a million rows a table of all copies has 759 million
    made = copies(
        dataset, given[used], [(*change, *other) for change in changes for other in beside]
    )
    out: dict[str, list[Any]] = {}
    for place, family in enumerate(families):
        chosen = drawn[family]
        virtual = (
            np.searchsorted(used, chosen)[:, None] * (len(changes) * many)
            + place * many
            + np.arange(many)
        )
        again: dict[str, Any] = {
            key: np.repeat(getattr(rows, key)[chosen], many)
            for key in ("label", "true_label", "group", "weight", "origin")
        }
        asked = replace(
            rows, source=name, rows=virtual.ravel(), visit_law=None, environment=None, **again
        )
        found, _ = answers({name: asked}, {**datasets, name: made})
        for rule, sets in found.items():
            read = features(asked, made) if features is not None and not near else None
            out.setdefault(rule, []).append((*_read(sets[name], len(chosen), many), read))
    label = np.stack([rows.label[drawn[family]] for family in families])
    return {rule: _joined(label, parts, bool(near)) for rule, parts in out.items()}


def _drawn(ids: NDArray[np.int64], family: str, most: int) -> NDArray[np.int64]:
    """At most so many of the rows, in order: the same ones whatever stands beside them."""
    if most >= len(ids):
        return np.arange(len(ids))
    order = np.argsort(hash64(ids, seed_of(0, "rows of the pool", family)), kind="stable")
    return np.sort(order[:most])


def _read(said: Predictions, n: int, many: int) -> tuple[Any, ...]:
    answer = said.answer.reshape(n, many)
    if said.logits is None:
        return answer, None, None
    spread = Answers(said.answer, said.logits)
    p = spread.log_probabilities
    entropy = -(np.exp(p) * np.where(np.isfinite(p), p, 0.0)).sum(axis=1)
    return (
        answer,
        entropy.astype(np.float32).reshape(n, many),
        said.logits.reshape(n, many, -1)[:, 0],
    )


def _joined(label: NDArray[np.int64], parts: Sequence[tuple[Any, ...]], near: bool) -> Said:
    answer, entropy, logits, read = (
        None if found[0] is None else np.stack(found) for found in zip(*parts, strict=True)
    )
    assert answer is not None
    return Said(label, answer, entropy if near else None, None if near else logits, read)


def answers_of_given(model: Outside, class_names: Sequence[str], rule: str) -> Answer:
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
                    said = in_order(model.answer(rows, dataset, class_names), order, class_names)
                doubts += heard
            except CrosswindError:
                raise
            except Exception as error:  # whatever the code of somebody else does
                told = f"{type(error).__name__}: {one_line(str(error), 200)}"
                raise DataError(
                    f"the model failed on {len(rows.rows):,} inputs ({told})"
                ) from error
            answer, logits, *texts = said  # texts only of a model that answers in words
            answer, logits = allowed(rows.answers_as, answer, logits)
            out[name] = Predictions(
                dataset.row_ids(rows.rows), rows.label, rows.group, answer, logits, *texts
            )
        return {rule: out}, doubts

    return answers


def write_said(path: Path, said: Mapping[str, Said]) -> None:
    """One compressed npz: `RULE/PART`."""
    arrays = {
        f"{rule}/{part}": array
        for rule, item in said.items()
        for part in ("label", "answer", "entropy", "logits")
        if (array := getattr(item, part)) is not None
    }
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def read_said(path: Path) -> dict[str, Said]:
    """What `write_said` wrote, by rule. Nothing is unpickled."""
    out: dict[str, dict[str, Any]] = {}
    with np.load(path, allow_pickle=False) as arrays:
        for key in arrays.files:
            rule, part = key.rsplit("/", 1)
            out.setdefault(rule, {})[part] = arrays[key]
    return {rule: Said(**parts) for rule, parts in out.items()}


def answers_of(said: Predictions, near: str, copied: Said | None) -> Answers:
    """What is known of a set: its predictions, and the answers for the neighbours of its rows."""
    plain = Answers(said.answer, said.logits)
    return plain if copied is None else _near(plain, near, copied, 0)


def pool_of(
    plain: Said | None, near: str, copied: Said | None, changes: Sequence[Change]
) -> list[Labelled]:
    """The labelled sets of the pool, one of each of its `changes`; empty where there is none."""
    if plain is None:
        return []
    sets = []
    for place, change in enumerate(changes):
        logits, read = (
            None if part is None else part[place] for part in (plain.logits, plain.features)
        )
        answers = Answers(plain.answer[place, :, 0], logits, features=read)
        answers = answers if copied is None else _near(answers, near, copied, place)
        sets.append(Labelled(answers, plain.label[place], change.name, change.family))
    return sets


def _near(plain: Answers, near: str, copied: Said, place: int) -> Answers:
    entropies = {} if copied.entropy is None else {near: copied.entropy[place]}
    return replace(plain, neighbours={near: copied.answer[place]}, entropies=entropies)
