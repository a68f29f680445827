"""From data sets and a plan to a split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from crosswind.shifts.base import Cells, NormalForm, Shift
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
from crosswind.shifts.split.rows import DrawnRows, Part, RowSet, Split, draw_rows, visit_law
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
    study = _SplitStudy(datasets, main, plan)
    planned_sets = study.parts(seed)
    fresh = [
        planned_set for planned_set in planned_sets.values() if planned_set.role != "test"
    ]  # test sets are kept with the deal
    drawn = {
        planned_set.name: rows for planned_set, rows in zip(fresh, draw_rows(fresh), strict=True)
    }
    flips: dict[str, int] = {}
    rows = {
        name: (
            study.row_set(planned_set, drawn[name], seed, flips)
            if name in drawn
            else study.test_set(planned_set)
        )
        for name, planned_set in planned_sets.items()
    }
    return Split(
        rows["train"],
        {
            name: rows[name]
            for name, planned_set in planned_sets.items()
            if planned_set.role == "validation"
        },
        {
            name: rows[name]
            for name, planned_set in planned_sets.items()
            if planned_set.role != "validation" and name != "train"
        },
        study.label.values,
        study.warnings(planned_sets),
        (
            *plan.shift.notes(study.index.cells),
            *said_of_rows(planned_sets.values(), (plan.label, *plan.attributes)),
        ),
        flips,
        planned_sets,
    )


@dataclass(frozen=True, eq=False)
class SplitCounts:
    """The sizes of a split of which no row is drawn.

    `cells`: the number of cells of positive weight. `train_shared`: the share of its base rows that
    the training set of another seed is expected to have too, 0 to 1. `set_rows`: rows by name of
    the set. `follow`: the sets that take their numbers from what training draws, not from the
    weights of a law alone. `short`: cells that cannot give what is asked, by set and name.
    `train_counts`: int64 of the shape of `train_cells`, the cells that count the training set.
    `train_visits`: float64 [1 + supplements, shape of `study_cells`], the rows by weights and of
    each supplement that one pass over the training set is expected to show. `groups`,
    `environments`: the attributes that make them by default. `test_cells`: float64 over
    `study_cells`, the weights of the test law; None where no test set is cut so. `test_counts`: the
    `Cells` of every set of role test, and int64 of their shape. `pictures`: a digest of the roles
    of rows that show one picture with others; None where none do.
    """

    train_rows: int
    train_shared: float
    validation_rows: int
    test_rows: int
    cells: int
    follow: list[str]
    set_rows: dict[str, int]
    short: dict[str, dict[str, dict[str, float]]]
    warnings: list[str]
    notes: list[str]
    study_cells: Cells
    train_cells: Cells
    train_counts: NDArray[np.int64]
    train_visits: NDArray[np.float64]
    groups: Sequence[str]
    environments: Sequence[str]
    test_cells: NDArray[np.float64] | None
    test_counts: dict[str, tuple[Cells, NDArray[np.int64]]]
    pictures: str | None
    shift: Shift


def plan_counts(
    datasets: Mapping[str, AttributedDataset], main: str, plan: SplitPlan, seed: int = 0
) -> SplitCounts:
    """The sizes of a split without drawing a row."""
    study = _SplitStudy(datasets, main, plan)
    planned_sets = study.parts(seed)
    rows = {name: planned_set.allotment.total for name, planned_set in planned_sets.items()}
    by_cell = {
        name: planned_set.allotment.counts.sum(axis=0).reshape(planned_set.cells.shape)
        for name, planned_set in planned_sets.items()
    }
    train = planned_sets["train"]
    validation_sets = [
        name for name, planned_set in planned_sets.items() if planned_set.role == "validation"
    ]
    test_sets = [name for name, planned_set in planned_sets.items() if planned_set.role == "test"]
    return SplitCounts(
        train_rows=rows["train"],
        train_shared=train.shared,
        validation_rows=sum(rows[name] for name in validation_sets),
        test_rows=sum(rows[name] for name in test_sets),
        cells=int(study.form.support.sum()),
        follow=sorted(name for name, planned_set in planned_sets.items() if planned_set.follows),
        set_rows={name: number for name, number in rows.items() if name != "train"},
        short={
            name: planned_set.short()
            for name, planned_set in planned_sets.items()
            if planned_set.allotment.short
        },
        warnings=list(study.warnings(planned_sets)),
        notes=list(plan.shift.notes(study.index.cells)),
        study_cells=study.index.cells,
        train_cells=train.cells,
        train_counts=by_cell["train"],
        train_visits=train.allotment.visits(),
        groups=study.groups,
        environments=study.environments,
        test_cells=study.test_law(),
        test_counts={name: (planned_sets[name].cells, by_cell[name]) for name in test_sets},
        pictures=study.pictures(),
        shift=plan.shift,
    )


class _SplitStudy:
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
        all_classes = np.arange(len(self.label.values))
        pool, allotment = self.deal.pool("train"), self._training(seed)
        train = Part(
            "train",
            "train",
            self.main,
            self.dataset,
            pool,
            allotment,
            all_classes,
            seed_of(seed, "train rows"),
        )
        planned_sets = {"train": train}
        for name, set_plan in self.plan.sets.items():
            planned_set = self._part(name, set_plan, train, seed)
            if planned_set is not None:
                planned_sets[name] = planned_set
                continue
            why, share = " leaves none", self.plan.roles.validation_share
            if (
                share is not None
                and self._deal(set_plan.source or self.main).pool("validation").total
            ):
                why = (
                    f", a share of {float(share):g} beside {allotment.total} training rows, is less"
                    " than half a row"
                )
            self.missing.append(f"set {name!r} has no rows: roles.validation{why}")
        return planned_sets

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

    def _part(self, name: str, set_plan: SetPlan, train: Part, seed: int) -> Part | None:
        field = f"sets.{name}"
        if set_plan.role not in ROLES:
            raise unknown(f"{field}.role", "role", set_plan.role, ROLES)
        source = set_plan.source or self.main
        if source not in self.datasets:
            raise unknown(f"{field}.source", "data set", source, self.datasets)
        if set_plan.role == "train" and source != self.main:
            raise InputError(f"{field}.role", f"nothing trains on {source}", ["validation", "test"])
        if set_plan.role != "test":
            return self._fresh(name, set_plan, source, train, seed)
        # Test rows depend on the split seed alone, so every run of a study finds them ready.
        deal = self._deal(source)
        law = repr(self.plan.shift) if isinstance(set_plan.law, str) else ""
        # How much training draws decides what there is of it to follow.
        key = (
            "part",
            name,
            source,
            repr(set_plan),
            law,
            self._draw() if set_plan.law == "train" else None,
            self.label,
        )
        if key not in deal.kept:
            deal.kept[key] = self._fresh(name, set_plan, source, train, seed)
        planned_set: Part | None = deal.kept[key]
        return planned_set

    def _fresh(
        self, name: str, set_plan: SetPlan, source: str, train: Part, seed: int
    ) -> Part | None:
        field = f"sets.{name}"
        dataset = self.datasets[source]
        pool = self._pool(set_plan, source, dataset, field)
        if set_plan.role == "validation" and pool.total == 0:
            return None
        if set_plan.role == "test" and pool.total == 0:
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
        matched = (pool.cells.label, self.label, set_plan.labels, f"{field}.labels")
        classes, answerable = (
            class_map(*matched),
            None if set_plan.answers == "all" else answers_as(*matched),
        )
        law = set_plan.law if isinstance(set_plan.law, Shift) else self.plan.shift
        if isinstance(set_plan.law, str) and set_plan.law not in LAWS:
            raise unknown(f"{field}.law", "law", set_plan.law, LAWS)
        law_field = f"{field}.law" if set_plan.law is law else "shift"
        is_known = set_plan.law is not law and pool.cells is self.index.cells
        form = self.form if is_known else law.normal_form(pool.cells, law_field)
        draw, lenient = set_plan.draw or ALL_ROWS, False
        share = self.plan.roles.validation_share
        as_training = set_plan.law in ("train", "without-supplements")
        if (
            set_plan.draw is None
            and as_training
            and set_plan.role == "validation"
            and share is not None
        ):
            draw, lenient = (
                Draw("total", Fraction(round(share / (1 - share) * train.allotment.total))),
                True,
            )
            if draw.value == 0:
                return None
        follows = False
        if set_plan.law == "train":
            training = self._reference if set_plan.role == "test" else train.allotment
            form, follows = followed(
                training, form, pool, draw, exactly=pool.cells is self.index.cells
            )
        elif set_plan.law == "without-supplements":
            form = form.without_supplements()
        elif set_plan.law == "unseen":
            form = left_out(form, f"{field}.law")
        if (classes < 0).any():
            in_classes = pool.cells.along([0], (classes >= 0).astype(np.float64))
            form = form & NormalForm(pool.cells.shape, (in_classes,))
        same = (
            set_plan.role == "train"
            and set_plan.law == "train"
            and set_plan.draw is None
            and train.allotment.mode != "visits"
        )
        mode = (
            "rows" if pool.n_values == 1 else "fixed" if set_plan.role == "validation" else "each"
        )
        base = self.plan.split_seed if set_plan.role == "test" else seed
        if same:
            allotment = train.allotment
        else:
            fields = Fields(law_field, f"{field}.draw", f"set {name!r}")
            allotment = allot(
                form, pool, mode, draw, seed_of(base, set_plan.role, name), fields, lenient
            )
            if draw.mode == "all":
                self._name_short_quotas(allotment, set_plan, source, pool)
        key = seed_of(base, f"{set_plan.role} rows")
        return Part(
            name, set_plan.role, source, dataset, pool, allotment, classes, key, follows, answerable
        )

    def _pool(self, set_plan: SetPlan, source: str, dataset: AttributedDataset, field: str) -> Pool:
        deal = self._deal(source)
        pool = deal.pool(set_plan.role)
        named = set_plan.law.attributes() if isinstance(set_plan.law, Shift) else ()
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
        for set_plan in self.plan.sets.values():
            if set_plan.source not in (None, self.main) and set_plan.source in self.datasets:
                reads[set_plan.source] = reads.get(set_plan.source, frozenset()) | {set_plan.role}
        key = ("others", *((name, self.datasets[name], roles) for name, roles in reads.items()))
        if key not in self.deal.kept:
            other_datasets = {}
            for name, roles in reads.items():
                dataset = self.datasets[name]
                attribute_names = {attribute.name for attribute in dataset.schema}
                names = [
                    attribute for attribute in self.plan.attributes if attribute in attribute_names
                ]
                other_datasets[name] = (
                    dataset,
                    _index(dataset, self.plan.label, names, f"data.{name}"),
                    roles,
                )
            allowed = self.plan.overlap == "allowed"
            self.deal.kept[key] = deal_others(
                (self.dataset, self.deal),
                other_datasets,
                self.plan.roles,
                self.plan.split_seed,
                allowed,
            )
        other_deals: dict[str, Other] = self.deal.kept[key]
        return other_deals

    def pictures(self) -> str | None:
        """What decides which rows have which role because they show one picture, as digits; None
        where nothing does."""
        units = joined_units(self.dataset)
        roles_by_picture: dict[str, NDArray[Any]] = {} if units is None else {"": units}
        roles_by_picture |= {
            name: other_deal.deal.roles
            for name, other_deal in self._others().items()
            if other_deal.changed
        }
        return digest_arrays(roles_by_picture) if roles_by_picture else None

    def _name_short_quotas(
        self, allotment: Allotment, set_plan: SetPlan, source: str, pool: Pool
    ) -> None:
        """Cells whose role got fewer rows than the quota, where the set would have used them."""
        deal = self._deal(source)
        if pool.sizes.shape != deal.index.counts.shape:
            return
        support = allotment.form.support.reshape(pool.sizes.size, -1)
        for cell, (quota, got) in deal.short[set_plan.role].items():
            for value in np.flatnonzero(support[cell]):
                allotment.short.setdefault(cell * support.shape[1] + int(value), (quota, got))

    def row_set(
        self, planned_set: Part, drawn: DrawnRows, seed: int, flips: dict[str, int]
    ) -> RowSet:
        """The row set of drawn rows, with groups, environments, noise and sampling weights."""
        cells, mode, values = (
            planned_set.pool.cells,
            planned_set.allotment.mode,
            planned_set.pool.n_values,
        )
        full = drawn.cell * values if mode == "visits" else drawn.cell
        true = planned_set.classes[
            drawn.cell // (planned_set.cells.size // planned_set.cells.shape[0])
        ]
        label, noise = true, self.plan.label_noise
        if noise is not None and (
            planned_set.name == "train" or (planned_set.role == "validation" and noise.validation)
        ):
            label = noise.apply(
                true,
                planned_set.dataset.ids[drawn.base],
                len(self.label.values),
                seed,
                "label_noise",
            )
            if planned_set.name == "train":
                flips |= {
                    "chosen": noise.number(len(label)),
                    "changed": int((label != true).sum()),
                    "rows": len(label),
                }
        groups = self._grouping(planned_set, self.groups, self.label, "groups")
        environments = self._grouping(planned_set, self.environments, None, "environments")
        group = label * groups.size + groups.of_cell[full]
        law, step = None, (0, 0)
        rows = drawn.base
        if mode == "visits":
            law = visit_law(planned_set.allotment.form, drawn, values)
            name = cells.names[-1]
            step = (int(name in self.groups), int(name in self.environments))
        elif values > 1:
            rows = drawn.base * values + drawn.cell % values
        weight, sampler = np.full(len(label), 1.0 / max(len(label), 1)), "uniform"
        if planned_set.name == "train":
            sampler = (
                self.plan.sampler
                if isinstance(self.plan.sampler, str)
                else next(iter(self.plan.sampler))
            )
            named = sampler in ("environment", "image")
            environments_of = (
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
                environments_of,
            )
        drawn_set = RowSet(
            planned_set.source,
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
            planned_set.answers_as,
        )
        check_set(
            planned_set,
            drawn,
            drawn_set,
            self._deal(planned_set.source),
            groups,
            noisy=label is not true,
        )
        return drawn_set

    def test_set(self, planned_set: Part) -> RowSet:
        """The rows of a set of role test, kept with the deal."""
        deal = self._deal(planned_set.source)
        drawn_key, key = (
            ("drawn", planned_set),
            ("rows", planned_set, tuple(self.groups), tuple(self.environments)),
        )
        if drawn_key not in deal.kept:
            deal.kept[drawn_key] = draw_rows([planned_set])[0]
        if key not in deal.kept:
            deal.kept[key] = self.row_set(
                planned_set, deal.kept[drawn_key], self.plan.split_seed, {}
            )
        rows: RowSet = deal.kept[key]
        return rows

    def _grouping(
        self, planned_set: Part, names: tuple[str, ...], label: Attribute | None, field: str
    ) -> Grouping:
        cells, derived = planned_set.pool.cells, planned_set.dataset.derived
        is_main = planned_set.source == self.main
        # Another source is grouped by those attributes that it has. The derived one comes last: a
        # visit's value can then be added.
        names = tuple(name for name in names if is_main or name in cells.names)
        if derived is not None and derived.name in names:
            names = (*(name for name in names if name != derived.name), derived.name)
        index_cache = self.index.kept
        key = ("grouping", field, cells, names)
        if key not in index_cache:
            index_cache[key] = grouping(cells, names, label, field)
        cached_grouping: Grouping = index_cache[key]
        return cached_grouping

    def test_law(self) -> NDArray[np.float64] | None:
        """The weights of the test law over the study's cells; None where no test set is cut so.

        Of the law "train" its supplements are among them, as in the set; of a shift they are left
        out, for what they bring to a cell depends on the draw.
        """
        tests = [
            (name, set_plan)
            for name, set_plan in self.plan.sets.items()
            if set_plan.role == "test" and set_plan.source in (None, self.main)
        ]
        tests.sort(key=lambda pair: pair[0] != "test")
        for name, set_plan in tests:
            if set_plan.law == "unseen":
                continue  # no training row lies there
            law = set_plan.law if isinstance(set_plan.law, Shift) else self.plan.shift
            if set_plan.law == "train" and self.form.supplements:
                return self._reference.law.ravel()
            if all(attribute in self.index.cells.names for attribute in law.attributes()):
                return law.normal_form(self.index.cells, f"sets.{name}.law").weights.ravel()
        return None

    def warnings(self, planned_sets: Mapping[str, Part]) -> tuple[str, ...]:
        """Everything that is allowed but that a user should know of."""
        notes = [
            *self.plan.shift.warnings(self.index.cells),
            *self.missing,
            *said_of_copies(planned_sets.values(), self.plan.label),
        ]
        other_deals = self._others()
        shown = {name: dataset.shows for name, dataset in self.datasets.items()}
        for name, deal in {
            self.main: self.deal,
            **{name: other_deal.deal for name, other_deal in other_deals.items()},
        }.items():
            if deal.torn:
                notes.append(
                    f"{name}: {deal.torn:,} {shown[name]}s are in two parts of the official split"
                    " (overlap: allowed)"
                )
        for name, other_deal in other_deals.items():
            if other_deal.left_out:
                notes.append(
                    f"{name}: {other_deal.left_out:,} rows are left out, as their {shown[name]}s"
                    " have another role elsewhere"
                )
            if other_deal.overlap:
                notes.append(
                    f"{name}: {other_deal.overlap:,} test rows show {shown[name]}s that train or"
                    " validate (overlap: allowed)"
                )
        for name, planned_set in planned_sets.items():
            notes += [f"{name}: {warning}" for warning in planned_set.warnings()]
            short = planned_set.allotment.short
            if short:
                cell, (asked_rows, got) = next(iter(short.items()))
                more_cells = f" and {len(short) - 1} more" if len(short) > 1 else ""
                notes.append(
                    f"{name}: {planned_set.cells.name_of(cell)} has {got} of {asked_rows:g} rows"
                    f" asked{more_cells}"
                )
        return tuple(notes)


def _index(dataset: AttributedDataset, label: str, attributes: Any, field: str) -> CellIndex:
    derived = dataset.derived
    if derived is not None and derived.name not in attributes:
        raise InputError(
            field,
            f"{dataset.name} has the derived attribute {derived.name!r}, which must be one of them",
            attributes,
        )
    return cell_index(dataset, label, attributes, field)
