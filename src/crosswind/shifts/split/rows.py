"""Rows drawn by the numbers of each cell, and the values that a split is handed on as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core import html
from crosswind.core.seeds import hash64, permuted
from crosswind.data.dataset import SHOWN, AttributedDataset
from crosswind.shifts.base import Cells, NormalForm
from crosswind.shifts.split.assign_roles import Pool
from crosswind.shifts.split.cell_counts import Allotment, visit_laws

Ints = NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class RowSet:
    """The rows of one set, with all that training and evaluation may know of them.

    `rows` int64 [n]: rows of data set `source`; virtual ones (base row x V + value) where it has a
    derived attribute, base rows where `visit_law` is given. `label` int64 [n]: classes of the
    study, after noise; `true_label`: before. `group`, `environment` int64 [n] number `group_names`
    and `environment_names`. `weight` float64 [n]: the probabilities of `sampler`, sum 1. `origin`
    int8 [n]: 0 by weights, i by the i-th supplement. `visit_law` float64 [n, V]: at each visit the
    value of the derived attribute is drawn by it. `visit_step` times the value is to be added to
    the group and to the environment. `environment_sizes`: how many values each attribute has that
    makes environments, the last one's running fastest. `answers_as` int64 [classes of the study]:
    the class that an answer of each class counts as, -1 for one that a model may not answer with;
    None: each as itself.
    """

    source: str
    rows: Ints
    label: Ints
    true_label: Ints
    group: Ints
    environment: Ints | None
    weight: NDArray[np.float64]
    origin: NDArray[np.int8]
    group_names: tuple[str, ...]
    environment_names: tuple[str, ...]
    visit_law: NDArray[np.float64] | None = None
    visit_step: tuple[int, int] = (0, 0)
    environment_sizes: tuple[int, ...] = ()
    sampler: str = "uniform"
    answers_as: Ints | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def base_rows(self, dataset: AttributedDataset) -> Ints:
        """The base rows of its data set, int64 [n]."""
        return self.rows if self.visit_law is not None else self.rows // dataset.n_derived

    def __repr__(self) -> str:
        return f"{len(self):,} rows of {self.source} in {len(self.group_names):,} groups"


@final
@dataclass(frozen=True, eq=False)
class Part:
    """One set on its way: where its rows are and how many each cell gives.

    `classes` int64 [classes of the source]: our class of each, -1 where it is left out. `key`
    permutes the cells' rows. `follows`: whether it takes its numbers from what training draws, not
    from the weights of a law alone. `answers_as`: as of a `RowSet`.
    """

    name: str
    role: str
    source: str
    dataset: AttributedDataset
    pool: Pool
    allotment: Allotment
    classes: Ints
    key: int
    follows: bool = False
    answers_as: Ints | None = None

    def account(self) -> dict[str, Any]:
        """Planned and realised numbers of rows, cell by cell, as plain values."""
        allotment = self.allotment
        names = self.cells.cell_names
        realised = allotment.counts.sum(axis=0)
        listed = {}
        for cell in np.flatnonzero((allotment.planned > 0) | (realised > 0)):
            planned = float(allotment.planned[cell])
            plain = int(planned) if planned.is_integer() else round(planned, 4)
            listed[names[cell]] = {"planned": plain, "realised": int(realised[cell])}
        drawn = allotment.counts[1:].sum(axis=1)
        return {
            "source": self.source,
            "rows": allotment.total,
            "cells": listed,
            "supplements": [
                {"asked": n_asked, "drawn": int(n)}
                for n_asked, n in zip(allotment.asked, drawn, strict=True)
            ],
            "short": self.short(),
        }

    @cached_property
    def cells(self) -> Cells:
        """The cells that the allotment counts: the pool's, without a derived attribute that is
        drawn at every visit."""
        cells = self.pool.cells
        if self.allotment.mode == "visits":
            return Cells(cells.label, cells.attributes[:-1])
        return cells

    @property
    def shared(self) -> float:
        """The share of its base rows that a set drawn anew with another key is expected to have
        too; 1 where it takes all.

        Each cell gives n of its pool's N rows at random, of which n / N come again: the sum of n^2
        / N over the sum of n.
        """
        drawn = (
            self.allotment.counts.sum(axis=0)
            .reshape(len(self.pool.sizes), -1)
            .sum(axis=1)
            .astype(np.float64)
        )
        has_rows = drawn > 0
        if has_rows.any():
            return float((drawn[has_rows] ** 2 / self.pool.sizes[has_rows]).sum() / drawn.sum())
        return 1.0

    def warnings(self) -> list[str]:
        """Warnings of the set for the user, without its name."""
        return [*self.allotment.warnings, *self._single_class()]

    def _single_class(self) -> list[str]:
        """That all rows of the set are of one class, in which its accuracy is something else than
        it seems."""
        rows = (
            self.allotment.counts.sum(axis=0).reshape(len(self.cells.label.values), -1).sum(axis=1)
        )
        present = np.flatnonzero(rows)
        if len(present) != 1:
            return []
        only = (
            f"all {int(rows.sum()):,} rows are of the class {self.cells.label.values[present[0]]}"
        )
        if self.role == "train":
            return [f"{only}, so a model learns to answer with it whatever it sees"]
        return [
            f"{only}, so its accuracy says how often a model answers with that class, not how well"
            " it tells classes apart"
        ]

    def short(self) -> dict[str, dict[str, float]]:
        """The cells that had fewer rows than asked, by name."""
        return {
            self.cells.name_of(cell): {"wanted": n_asked, "got": got}
            for cell, (n_asked, got) in self.allotment.short.items()
        }


@final
@dataclass(frozen=True, eq=False)
class Split:
    """A training set, validation sets and evaluation sets, by name; `report` says what was planned
    and what came of it."""

    train: RowSet
    validation: dict[str, RowSet]
    evaluation: dict[str, RowSet]
    class_names: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    flips: dict[str, int]
    parts: Mapping[str, Part]

    def __repr__(self) -> str:
        sets = [("train", self.train), *self.validation.items(), *self.evaluation.items()]
        more = ", ..." if len(self.class_names) > SHOWN else ""
        names = ", ".join(self.class_names[:SHOWN]) + more
        lines = [f"split into {len(self.class_names)} classes: {names}"]
        return "\n".join([*lines, *(f"  {name}: {row_set!r}" for name, row_set in sets)])

    def seen(self, rows: RowSet) -> list[bool]:
        """Which groups of a set training shows, by their names; what label noise makes of a row is
        not what it shows."""
        train = self.train
        step = self.train.visit_step[0]
        size = len(train.group_names) // len(self.class_names)
        group = train.group + (train.true_label - train.label) * size
        if train.visit_law is None:
            law = np.ones((len(group), 1))
        else:
            law = train.visit_law
        cell_of = group[:, None] + step * np.arange(law.shape[1])
        shown = {
            train.group_names[code]
            for code in np.unique(cell_of[(law > 0) & (train.weight > 0)[:, None]])
        }
        return [name in shown for name in rows.group_names]

    @cached_property
    def report(self) -> dict[str, Any]:
        """Plain values for JSON: each set cell by cell, short cells by name, labels flipped,
        warnings. Made when asked for."""
        sets = {name: planned_set.account() for name, planned_set in self.parts.items()}
        short = {name: account["short"] for name, account in sets.items() if account["short"]}
        notes = [*self.notes, *self._label_note()]
        train_shared = round(self.parts["train"].shared, 4)
        flips = dict(self.flips)
        warnings = list(self.warnings)
        return {
            "sets": sets,
            "short": short,
            "flips": flips,
            "warnings": warnings,
            "notes": notes,
            "train_shared": train_shared,
        }

    def _label_note(self) -> list[str]:
        """How often training shows each class, where its sampler is by environments."""
        if self.train.sampler not in ("environment", "image"):
            return []
        share = np.bincount(
            self.train.true_label, self.train.weight, minlength=len(self.class_names)
        )
        low = int(share.argmin())
        high = int(share.argmax())
        shares_in_words = []
        for code in dict.fromkeys([low, high]):
            shares_in_words.append(
                f"{self.class_names[code]} is {share[code]:.4g} of the visits of training"
            )
        return [
            f"sampler {self.train.sampler}: of {len(share)} classes {', '.join(shares_in_words)}"
            f" (even: {1 / len(share):.4g})"
        ]

    def _repr_html_(self) -> str:
        """The view of a notebook: the rows of every cell in every set, and what the split has to
        say."""
        sets = self.report["sets"]
        cells = {cell: None for account in sets.values() for cell in account["cells"]}
        none = {"realised": 0}
        rows = []
        for cell in cells:
            rows.append(
                (cell, *(account["cells"].get(cell, none)["realised"] for account in sets.values()))
            )
        counts = [("all", *(account["rows"] for account in sets.values()))]
        shown = html.table(
            f"Rows of a split, {len(self.class_names)} classes", ("cell", *sets), [*counts, *rows]
        )
        return shown + html.points("Notes", self.notes) + html.points("Warnings", self.warnings)


@final
@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Rows drawn for one part: base row, its cell (as the allotment counts cells) and origin, all
    [n]."""

    base: Ints
    cell: Ints
    origin: NDArray[np.int8]


def draw_rows(parts: Sequence[Part]) -> list[DrawnRows]:
    """The rows of several parts. Each cell's pool is permuted by the part's key and read from its
    start, so no row comes twice.

    Parts are drawn together because a keyed permutation costs more by the call than by the row.
    """
    entries = [_entries(planned_set) for planned_set in parts]
    spans = [np.repeat(np.arange(len(cell)), count) for _, cell, count, _, _ in entries]
    positions = []
    sizes = []
    keys = []
    moved = []
    for planned_set, (_, cell, count, offset, home), span in zip(
        parts, entries, spans, strict=True
    ):
        size = planned_set.pool.sizes[home]
        position = np.arange(len(span)) + np.repeat(offset - np.cumsum(count) + count, count)
        positions.append(position)
        takes_all = (count == size) & (
            offset == 0
        )  # all rows of a cell in one piece: their order says nothing
        moved.append(~takes_all[span])
        cell_of = cell if planned_set.allotment.mode == "each" else home
        sizes.append(size[span])
        keys.append(hash64(cell_of, planned_set.key)[span])
    position = np.concatenate(positions)
    move = np.concatenate(moved)
    if move.any():
        position[move] = permuted(
            position[move], np.concatenate(sizes)[move], np.concatenate(keys)[move]
        )
    out = []
    start = 0
    for planned_set, (origin, cell, _, _, home), span in zip(parts, entries, spans, strict=True):
        base = planned_set.pool.order()[
            planned_set.pool.starts[home][span] + position[start : start + len(span)]
        ]
        out.append(DrawnRows(base, cell[span], origin.astype(np.int8)[span]))
        start += len(span)
    return out


def _entries(planned_set: Part) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Every cell and origin that gives rows: origin, cell, count, where in the base cell's permuted
    rows it starts, base cell."""
    counts = planned_set.allotment.counts
    mode = planned_set.allotment.mode
    values = planned_set.pool.n_values
    if mode == "fixed":
        # All values of a base cell share its rows, one stretch after another.
        stacked = (
            counts.reshape(len(counts), -1, values)
            .transpose(1, 0, 2)
            .reshape(-1, len(counts) * values)
        )
        before = (
            (np.cumsum(stacked, axis=1) - stacked)
            .reshape(-1, len(counts), values)
            .transpose(1, 0, 2)
            .reshape(counts.shape)
        )
    else:
        before = np.cumsum(counts, axis=0) - counts
    origin, cell = np.nonzero(counts)
    home = cell // values if mode in ("fixed", "each") else cell
    return origin, cell, counts[origin, cell], before[origin, cell], home


def visit_law(form: NormalForm, drawn: DrawnRows, values: int) -> NDArray[np.float64]:
    """The probability of each value of the derived attribute at a visit of each row, float64 [n,
    values]."""
    law = visit_laws(form).reshape(1 + len(form.supplements), -1, values)[drawn.origin, drawn.cell]
    return law / law.sum(axis=1, keepdims=True)
