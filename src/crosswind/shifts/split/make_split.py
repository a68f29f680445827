"""From data sets and a plan to a split."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, unknown
from crosswind.core.seeds import seed_of
from crosswind.core.types import digest_arrays
from crosswind.data.attributes import Attribute
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import NormalForm, Shift
from crosswind.shifts.draw import ALL_ROWS, Draw
from crosswind.shifts.split.assign_roles import Deal, Other, Pool, deal_of, deal_others
from crosswind.shifts.split.cell_counts import Allotment, Fields, allot, followed, left_out
from crosswind.shifts.split.check import check_set
from crosswind.shifts.split.classes import answers_as, class_map
from crosswind.shifts.split.index import CellIndex, cell_index
from crosswind.shifts.split.pictures import (
    check_training_pool,
    joined_units,
    said_of_copies,
    said_of_rows,
)
from crosswind.shifts.split.plan import LAWS, ROLES, SetPlan, SplitPlan
from crosswind.shifts.split.rows import Drawn, Part, RowSet, Split, draw_rows, visit_law
from crosswind.shifts.split.sampling import (
    Environments,
    Grouping,
    default_attributes,
    grouping,
    sampling_weights,
)


def make_split(
    datasets: Mapping[str, AttributedDataset], main: str, plan: SplitPlan, seed: int
) -> Split:
    """The sets of a run. `main` names the data set that trains; `seed` is the run's: it chooses
    training and validation rows where the draw does not take all of their roles, and ties.

    The index of cells and the deal are kept with the data set: a further split of the same label,
    attributes and split seed costs about a millisecond. Every set is checked against the table
    before it is handed on. Raises `InputError` on what cannot be drawn, `InternalError` where a set
    is not what was planned.
    """
    study = _Study(datasets, main, plan)
    parts = study.parts(seed)
    fresh = [
        part for part in parts.values() if part.role != "test"
    ]  # test sets are kept with the deal
    drawn = {part.name: rows for part, rows in zip(fresh, draw_rows(fresh), strict=True)}
    flips: dict[str, int] = {}
    rows = {
        name: (
            study.row_set(part, drawn[name], seed, flips) if name in drawn else study.test_set(part)
        )
        for name, part in parts.items()
    }
    return Split(
        rows["train"],
        {name: rows[name] for name, part in parts.items() if part.role == "validation"},
        {
            name: rows[name]
            for name, part in parts.items()
            if part.role != "validation" and name != "train"
        },
        study.label.values,
        study.warnings(parts),
        (
            *plan.shift.notes(study.index.cells),
            *said_of_rows(parts.values(), (plan.label, *plan.attributes)),
        ),
        flips,
        parts,
    )


def plan_counts(
    datasets: Mapping[str, AttributedDataset], main: str, plan: SplitPlan, seed: int = 0
) -> dict[str, Any]:
    """The sizes of a split without drawing a row.

    `train_rows`; `validation_rows` and `test_rows` of all sets of these roles; `sets`: rows of each
    by name; `follow`: the sets that take their numbers from what training draws, not from the
    weights of a law alone; `cells`: cells of positive weight; `train_shared`: the share of its base
    rows that the training set of another seed is expected to have too;
    `short`: cells that cannot give what is asked, by set and name; `warnings`, `notes`;
    `study_cells`: all `Cells`; `train_cells`: the `Cells` that count the training set,
    `train_counts`: int64 of their shape; `train_visits`: float64 [1 + supplements, shape of
    `study_cells`], the rows by weights and of each supplement that one pass over the training set
    is expected to show; `groups`, `environments`: the attributes that make them by default;
    `test_cells`: over `study_cells`, the weights of the test law, None where no test set is cut so;
    `test_counts`: of every set of role test its `Cells`, and int64 of their shape; `pictures`:
    digits of the roles of rows that show one picture with others, None where none do; `shift`: the
    plan's.
    """
    study = _Study(datasets, main, plan)
    parts = study.parts(seed)
    rows = {name: part.allotment.total for name, part in parts.items()}
    by_cell = {
        name: part.allotment.counts.sum(axis=0).reshape(part.cells.shape)
        for name, part in parts.items()
    }
    train = parts["train"]
    return {
        "train_rows": rows["train"],
        "train_shared": train.shared,
        "validation_rows": sum(
            rows[name] for name, part in parts.items() if part.role == "validation"
        ),
        "test_rows": sum(rows[name] for name, part in parts.items() if part.role == "test"),
        "cells": int(study.form.support.sum()),
        "follow": sorted(name for name, part in parts.items() if part.follows),
        "sets": {name: number for name, number in rows.items() if name != "train"},
        "short": {name: part.short() for name, part in parts.items() if part.allotment.short},
        "warnings": list(study.warnings(parts)),
        "notes": list(plan.shift.notes(study.index.cells)),
        "study_cells": study.index.cells,
        "train_cells": train.cells,
        "train_counts": by_cell["train"],
        "train_visits": train.allotment.visits(),
        "groups": study.groups,
        "environments": study.environments,
        "test_cells": study.test_law(),
        "pictures": study.pictures(),
        "shift": plan.shift,
        "test_counts": {
            name: (part.cells, by_cell[name]) for name, part in parts.items() if part.role == "test"
        },
    }


class _Study:
    """A plan on its data sets."""

    def __init__(
        self, datasets: Mapping[str, AttributedDataset], main: str, plan: SplitPlan
    ) -> None:
        if main not in datasets:
            raise unknown("source", "data set", main, datasets)
        self.datasets, self.main, self.plan = datasets, main, plan
        if "train" in plan.sets:
            raise InputError("sets.train", "the name is that of the training set")
        self.dataset = datasets[main]
        self.index = _index(self.dataset, plan.label, plan.attributes, "attributes")
        self.label: Attribute = self.index.cells.label
        if plan.label_noise is not None:
            plan.label_noise.check(len(self.label.values), "label_noise")
        self.deal = deal_of(
            self.index,
            self.dataset,
            plan.roles,
            plan.split_seed,
            frozenset(ROLES),
            plan.overlap == "allowed",
        )
        # Another seed of the same shift finds its normal form ready.
        key = ("shift", repr(plan.shift))
        if key not in self.index.kept:
            form = plan.shift.normal_form(self.index.cells, "shift")
            self.index.kept[key] = (
                form,
                default_attributes(self.index.cells, form, plan.shift.attributes()),
            )
        self.form: NormalForm
        self.form, default = self.index.kept[key]
        self.groups = default if plan.groups is None else plan.groups
        self.environments = default if plan.environments is None else plan.environments
        self.missing: list[str] = []

    def parts(self, seed: int) -> dict[str, Part]:
        """All sets, the training set first, with the number of rows of each cell."""
        own = np.arange(len(self.label.values))
        pool, allotment = self.deal.pool("train"), self._training(seed)
        train = Part(
            "train",
            "train",
            self.main,
            self.dataset,
            pool,
            allotment,
            own,
            seed_of(seed, "train rows"),
        )
        parts = {"train": train}
        for name, item in self.plan.sets.items():
            part = self._part(name, item, train, seed)
            if part is not None:
                parts[name] = part
                continue
            why, share = " leaves none", self.plan.roles.validation_share
            if share is not None and self._deal(item.source or self.main).pool("validation").total:
                why = (
                    f", a share of {float(share):g} beside {allotment.total} training rows, is less"
                    " than half a row"
                )
            self.missing.append(f"set {name!r} has no rows: roles.validation{why}")
        return parts

    def _draw(self) -> Draw:
        return self.plan.draw if self.plan.dataset_size is None else self.plan.dataset_size.draw()

    def _training(self, seed: int) -> Allotment:
        """The numbers of training rows that a run of this seed draws."""
        fields = Fields("shift", "draw" if self.plan.dataset_size is None else "dataset_size")
        derived = self.dataset.derived
        mode = (
            "rows"
            if derived is None or self.index.n_values == 1
            else {"fixed": "fixed", "per-visit": "visits"}[derived.mode]
        )
        check_training_pool(self.dataset, self.deal.pool("train").total)
        return allot(
            self.form, self.deal.pool("train"), mode, self._draw(), seed_of(seed, "train"), fields
        )

    @cached_property
    def _reference(self) -> Allotment:
        """What a run of the split seed trains on: what sets of role test follow, as their rows must
        not depend on the run."""
        return self._training(self.plan.split_seed)

    def _part(self, name: str, item: SetPlan, train: Part, seed: int) -> Part | None:
        field = f"sets.{name}"
        if item.role not in ROLES:
            raise unknown(f"{field}.role", "role", item.role, ROLES)
        source = item.source or self.main
        if source not in self.datasets:
            raise unknown(f"{field}.source", "data set", source, self.datasets)
        if item.role == "train" and source != self.main:
            raise InputError(f"{field}.role", f"nothing trains on {source}", ["validation", "test"])
        if item.role != "test":
            return self._fresh(name, item, source, train, seed)
        # Test rows depend on the split seed alone, so every run of a study finds them ready.
        deal = self._deal(source)
        law = repr(self.plan.shift) if isinstance(item.law, str) else ""
        # How much training draws decides what there is of it to follow.
        key = (
            "part",
            name,
            source,
            repr(item),
            law,
            self._draw() if item.law == "train" else None,
            self.label,
        )
        if key not in deal.kept:
            deal.kept[key] = self._fresh(name, item, source, train, seed)
        part: Part | None = deal.kept[key]
        return part

    def _fresh(self, name: str, item: SetPlan, source: str, train: Part, seed: int) -> Part | None:
        field = f"sets.{name}"
        dataset = self.datasets[source]
        pool = self._pool(item, source, dataset, field)
        if item.role == "validation" and pool.total == 0:
            return None
        if item.role == "test" and pool.total == 0:
            gone = 0 if source == self.main else self._others()[source].left_out
            why = (
                f": all {gone:,} show {dataset.shows}s that have another role elsewhere in the"
                " study"
                if gone
                else ""
            )
            raise InputError(
                "roles.test" if source == self.main else f"data.{source}",
                f"leaves no test row for set {name!r}{why}",
            )
        matched = (pool.cells.label, self.label, item.labels, f"{field}.labels")
        classes, answerable = (
            class_map(*matched),
            None if item.answers == "all" else answers_as(*matched),
        )
        law = item.law if isinstance(item.law, Shift) else self.plan.shift
        if isinstance(item.law, str) and item.law not in LAWS:
            raise unknown(f"{field}.law", "law", item.law, LAWS)
        law_field = f"{field}.law" if item.law is law else "shift"
        known = item.law is not law and pool.cells is self.index.cells
        form = self.form if known else law.normal_form(pool.cells, law_field)
        draw, lenient = item.draw or ALL_ROWS, False
        share = self.plan.roles.validation_share
        as_training = item.law in ("train", "without-supplements")
        if item.draw is None and as_training and item.role == "validation" and share is not None:
            draw, lenient = (
                Draw("total", Fraction(round(share / (1 - share) * train.allotment.total))),
                True,
            )
            if draw.value == 0:
                return None
        follows = False
        if item.law == "train":
            training = self._reference if item.role == "test" else train.allotment
            form, follows = followed(
                training, form, pool, draw, exactly=pool.cells is self.index.cells
            )
        elif item.law == "without-supplements":
            form = form.without_supplements()
        elif item.law == "unseen":
            form = left_out(form, f"{field}.law")
        if (classes < 0).any():
            kept = pool.cells.along([0], (classes >= 0).astype(np.float64))
            form = form & NormalForm(pool.cells.shape, (kept,))
        same = (
            item.role == "train"
            and item.law == "train"
            and item.draw is None
            and train.allotment.mode != "visits"
        )
        mode = "rows" if pool.n_values == 1 else "fixed" if item.role == "validation" else "each"
        base = self.plan.split_seed if item.role == "test" else seed
        if same:
            allotment = train.allotment
        else:
            fields = Fields(law_field, f"{field}.draw", f"set {name!r}")
            allotment = allot(
                form, pool, mode, draw, seed_of(base, item.role, name), fields, lenient
            )
            if draw.mode == "all":
                self._name_short_quotas(allotment, item, source, pool)
        key = seed_of(base, f"{item.role} rows")
        return Part(
            name, item.role, source, dataset, pool, allotment, classes, key, follows, answerable
        )

    def _pool(self, item: SetPlan, source: str, dataset: AttributedDataset, field: str) -> Pool:
        deal = self._deal(source)
        pool = deal.pool(item.role)
        named = item.law.attributes() if isinstance(item.law, Shift) else ()
        extra = [name for name in named if name not in pool.cells.names]
        if not extra:
            return pool
        # The law speaks of attributes that do not cut the study's cells: the role's rows are
        # counted anew under both.
        names = (*pool.cells.names[1:], *extra)
        return pool.under(_index(dataset, self.plan.label, names, f"{field}.law"))

    def _deal(self, source: str) -> Deal:
        if source == self.main:
            return self.deal
        return self._others()[source].deal

    def _others(self) -> dict[str, Other]:
        """The deals of the other data sets that the sets name, in that order; kept with the deal of
        the one that trains."""
        reads: dict[str, frozenset[str]] = {}
        for item in self.plan.sets.values():
            if item.source not in (None, self.main) and item.source in self.datasets:
                reads[item.source] = reads.get(item.source, frozenset()) | {item.role}
        key = ("others", *((name, self.datasets[name], roles) for name, roles in reads.items()))
        if key not in self.deal.kept:
            others = {}
            for name, roles in reads.items():
                dataset = self.datasets[name]
                there = {attribute.name for attribute in dataset.schema}
                names = [attribute for attribute in self.plan.attributes if attribute in there]
                others[name] = (
                    dataset,
                    _index(dataset, self.plan.label, names, f"data.{name}"),
                    roles,
                )
            allowed = self.plan.overlap == "allowed"
            self.deal.kept[key] = deal_others(
                (self.dataset, self.deal), others, self.plan.roles, self.plan.split_seed, allowed
            )
        found: dict[str, Other] = self.deal.kept[key]
        return found

    def pictures(self) -> str | None:
        """What decides which rows have which role because they show one picture, as digits; None
        where nothing does."""
        units = joined_units(self.dataset)
        told: dict[str, NDArray[Any]] = {} if units is None else {"": units}
        told |= {name: other.deal.roles for name, other in self._others().items() if other.changed}
        return digest_arrays(told) if told else None

    def _name_short_quotas(
        self, allotment: Allotment, item: SetPlan, source: str, pool: Pool
    ) -> None:
        """Cells whose role got fewer rows than the quota, where the set would have used them."""
        deal = self._deal(source)
        if pool.sizes.shape != deal.index.counts.shape:
            return
        support = allotment.form.support.reshape(pool.sizes.size, -1)
        for cell, (wanted, got) in deal.short[item.role].items():
            for value in np.flatnonzero(support[cell]):
                allotment.short.setdefault(cell * support.shape[1] + int(value), (wanted, got))

    def row_set(self, part: Part, drawn: Drawn, seed: int, flips: dict[str, int]) -> RowSet:
        """The row set of drawn rows, with groups, environments, noise and sampling weights."""
        cells, mode, values = part.pool.cells, part.allotment.mode, part.pool.n_values
        full = drawn.cell * values if mode == "visits" else drawn.cell
        true = part.classes[drawn.cell // (part.cells.size // part.cells.shape[0])]
        label, noise = true, self.plan.label_noise
        if noise is not None and (
            part.name == "train" or (part.role == "validation" and noise.validation)
        ):
            label = noise.apply(
                true, part.dataset.ids[drawn.base], len(self.label.values), seed, "label_noise"
            )
            if part.name == "train":
                flips |= {
                    "chosen": noise.number(len(label)),
                    "changed": int((label != true).sum()),
                    "rows": len(label),
                }
        groups = self._grouping(part, self.groups, self.label, "groups")
        environments = self._grouping(part, self.environments, None, "environments")
        group = label * groups.size + groups.of_cell[full]
        law, step = None, (0, 0)
        rows = drawn.base
        if mode == "visits":
            law = visit_law(part.allotment.form, drawn, values)
            name = cells.names[-1]
            step = (int(name in self.groups), int(name in self.environments))
        elif values > 1:
            rows = drawn.base * values + drawn.cell % values
        weight, sampler = np.full(len(label), 1.0 / max(len(label), 1)), "uniform"
        if part.name == "train":
            sampler = (
                self.plan.sampler
                if isinstance(self.plan.sampler, str)
                else next(iter(self.plan.sampler))
            )
            named = sampler in ("environment", "image")
            of = (
                Environments.of(self.plan.shift, cells, full, 1 if law is None else values)
                if named
                else None
            )
            weight, law = sampling_weights(
                self.plan.sampler,
                drawn.cell,
                group,
                drawn.origin,
                self.test_law(),
                law,
                step[0],
                of,
            )
        made = RowSet(
            part.source,
            rows,
            label,
            true,
            group,
            environments.of_cell[full],
            weight,
            drawn.origin,
            groups.names,
            environments.names,
            law,
            step,
            environments.sizes,
            sampler,
            part.answers_as,
        )
        check_set(part, drawn, made, self._deal(part.source), groups, noisy=label is not true)
        return made

    def test_set(self, part: Part) -> RowSet:
        """The rows of a set of role test, kept with the deal."""
        deal = self._deal(part.source)
        drawn_key, key = (
            ("drawn", part),
            ("rows", part, tuple(self.groups), tuple(self.environments)),
        )
        if drawn_key not in deal.kept:
            deal.kept[drawn_key] = draw_rows([part])[0]
        if key not in deal.kept:
            deal.kept[key] = self.row_set(part, deal.kept[drawn_key], self.plan.split_seed, {})
        rows: RowSet = deal.kept[key]
        return rows

    def _grouping(
        self, part: Part, names: tuple[str, ...], label: Attribute | None, field: str
    ) -> Grouping:
        cells, derived = part.pool.cells, part.dataset.derived
        own = part.source == self.main
        # Another source is grouped by those attributes that it has. The derived one comes last: a
        # visit's value can then be added.
        names = tuple(name for name in names if own or name in cells.names)
        if derived is not None and derived.name in names:
            names = (*(name for name in names if name != derived.name), derived.name)
        kept = self.index.kept
        key = ("grouping", field, cells, names)
        if key not in kept:
            kept[key] = grouping(cells, names, label, field)
        found: Grouping = kept[key]
        return found

    def test_law(self) -> NDArray[np.float64] | None:
        """The weights of the test law over the study's cells; None where no test set is cut so.

        Of the law "train" its supplements are among them, as in the set; of a shift they are left
        out, for what they bring to a cell depends on the draw.
        """
        tests = [
            (name, item)
            for name, item in self.plan.sets.items()
            if item.role == "test" and item.source in (None, self.main)
        ]
        tests.sort(key=lambda pair: pair[0] != "test")
        for name, item in tests:
            if item.law == "unseen":
                continue  # no training row lies there
            law = item.law if isinstance(item.law, Shift) else self.plan.shift
            if item.law == "train" and self.form.supplements:
                return self._reference.law.ravel()
            if all(attribute in self.index.cells.names for attribute in law.attributes()):
                return law.normal_form(self.index.cells, f"sets.{name}.law").weights.ravel()
        return None

    def warnings(self, parts: Mapping[str, Part]) -> tuple[str, ...]:
        """Everything that is allowed but that a user should know of."""
        found = [
            *self.plan.shift.warnings(self.index.cells),
            *self.missing,
            *said_of_copies(parts.values(), self.plan.label),
        ]
        others = self._others()
        shown = {name: dataset.shows for name, dataset in self.datasets.items()}
        for name, deal in {
            self.main: self.deal,
            **{name: other.deal for name, other in others.items()},
        }.items():
            if deal.torn:
                found.append(
                    f"{name}: {deal.torn:,} {shown[name]}s are in two parts of the official split"
                    " (overlap: allowed)"
                )
        for name, other in others.items():
            if other.left_out:
                found.append(
                    f"{name}: {other.left_out:,} rows are left out, as their {shown[name]}s have"
                    " another role elsewhere"
                )
            if other.overlap:
                found.append(
                    f"{name}: {other.overlap:,} test rows show {shown[name]}s that train or"
                    " validate (overlap: allowed)"
                )
        for name, part in parts.items():
            found += [f"{name}: {warning}" for warning in part.warnings()]
            short = part.allotment.short
            if short:
                cell, (wanted, got) = next(iter(short.items()))
                more = f" and {len(short) - 1} more" if len(short) > 1 else ""
                found.append(
                    f"{name}: {part.cells.name_of(cell)} has {got} of {wanted:g} rows asked{more}"
                )
        return tuple(found)


def _index(dataset: AttributedDataset, label: str, attributes: Any, field: str) -> CellIndex:
    derived = dataset.derived
    if derived is not None and derived.name not in attributes:
        raise InputError(
            field,
            f"{dataset.name} has the derived attribute {derived.name!r}, which must be one of them",
            attributes,
        )
    return cell_index(dataset, label, attributes, field)
