"""From data sets and a plan to a split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, counted, unknown
from crosswind.core.seeds import seed_of
from crosswind.core.types import digest_arrays
from crosswind.data.attributes import Attribute
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import Cells, NormalForm, Shift
from crosswind.shifts.draw import ALL_ROWS, Draw
from crosswind.shifts.split.assign_roles import Deal, Other, Pool, deal_of, deal_others
from crosswind.shifts.split.cell_counts import Allotment, Fields, allot, followed, left_out
from crosswind.shifts.split.check import check_set
from crosswind.shifts.split.classes import answers_as, class_map, merged_answers
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
    # Test sets are kept with the deal.
    fresh = [planned_set for planned_set in planned_sets.values() if planned_set.role != "test"]
    fresh_names = [planned_set.name for planned_set in fresh]
    drawn = dict(zip(fresh_names, draw_rows(fresh), strict=True))
    flips: dict[str, int] = {}
    rows = {}
    for name, planned_set in planned_sets.items():
        rows[name] = (
            study.row_set(planned_set, drawn[name], seed, flips)
            if name in drawn
            else study.test_set(planned_set)
        )
    train = rows.pop("train")
    validation_names = [name for name in rows if planned_sets[name].role == "validation"]
    validation = {name: rows.pop(name) for name in validation_names}
    warnings = study.warnings(planned_sets)
    attributes = (plan.label, *plan.attributes)
    notes = (
        *plan.shift.notes(study.index.cells),
        *said_of_rows(planned_sets.values(), attributes),
    )
    return Split(train, validation, rows, study.label.values, warnings, notes, flips, planned_sets)


@dataclass(frozen=True, eq=False)
class SplitCounts:
    """The sizes of a split of which no row is drawn.

    `cells`: the number of cells of positive weight. `train_shared`: the share of its base rows that
    the training set of another seed is expected to have too, 0 to 1. `set_rows`: rows by name of
    the set. `follow`: the sets that take their numbers from what training draws, not from the
    weights of a law alone. `merge`: the sets of which several answers count as one class, though all
    may be given. `fills`: whether units fill cells in which too few are at home.
    `short`: cells that cannot give what is asked, by set and name. `lacks_share`: whether a share of
    the training rows that is drawn on top, such as counterexamples, has fewer rows than asked for.
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
    merge: list[str]
    fills: bool
    set_rows: dict[str, int]
    short: dict[str, dict[str, dict[str, float]]]
    lacks_share: bool
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
    rows = {}
    by_cell = {}
    follow = []
    merge = []
    short = {}
    for name, planned_set in planned_sets.items():
        allotment = planned_set.allotment
        rows[name] = allotment.total
        by_cell[name] = allotment.counts.sum(axis=0).reshape(planned_set.cells.shape)
        if planned_set.follows:
            follow.append(name)
        if planned_set.answers_as is not None and plan.sets[name].answers == "all":
            merge.append(name)
        if allotment.short:
            short[name] = planned_set.short()
    train = planned_sets["train"]
    rows_of_role = dict.fromkeys(ROLES, 0)
    for name, planned_set in planned_sets.items():
        rows_of_role[planned_set.role] += rows[name]
    test_sets = [name for name, planned_set in planned_sets.items() if planned_set.role == "test"]
    test_counts = {name: (planned_sets[name].cells, by_cell[name]) for name in test_sets}
    cells = int(study.form.support.sum())
    set_rows = {name: number for name, number in rows.items() if name != "train"}
    notes = list(plan.shift.notes(study.index.cells))
    warnings = list(study.warnings(planned_sets))
    train_visits = train.allotment.visits()
    return SplitCounts(
        train_rows=rows["train"],
        train_shared=train.shared,
        validation_rows=rows_of_role["validation"],
        test_rows=rows_of_role["test"],
        cells=cells,
        follow=sorted(follow),
        merge=merge,
        fills=study.fills(),
        set_rows=set_rows,
        short=short,
        lacks_share=train.allotment.lacks_share,
        warnings=warnings,
        notes=notes,
        study_cells=study.index.cells,
        train_cells=train.cells,
        train_counts=by_cell["train"],
        train_visits=train_visits,
        groups=study.groups,
        environments=study.environments,
        test_cells=study.test_law(),
        test_counts=test_counts,
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
        self.datasets = datasets
        self.main = main
        self.plan = plan
        if "train" in plan.sets:
            raise InputError("sets.train", "the name is that of the training set")
        self.dataset = datasets[main]
        self.index = _index(self.dataset, plan.label, plan.attributes, "attributes")
        self.label: Attribute = self.index.cells.label
        if plan.label_noise is not None:
            plan.label_noise.check(len(self.label.values), "label_noise")
        allowed = plan.overlap == "allowed"
        self.deal = deal_of(
            self.index, self.dataset, plan.roles, plan.split_seed, frozenset(ROLES), allowed
        )
        # Another seed of the same shift finds its normal form ready.
        key = ("shift", repr(plan.shift))
        if key not in self.index.kept:
            form = plan.shift.normal_form(self.index.cells, "shift")
            shifted = plan.shift.attributes()
            self.index.kept[key] = (form, default_attributes(self.index.cells, form, shifted))
        self.form: NormalForm
        self.form, default = self.index.kept[key]
        self.groups = default if plan.groups is None else plan.groups
        self.environments = default if plan.environments is None else plan.environments
        self.missing: list[str] = []

    def parts(self, seed: int) -> dict[str, Part]:
        """All sets, the training set first, with the number of rows of each cell."""
        all_classes = np.arange(len(self.label.values))
        pool = self.deal.pool("train")
        allotment = self._training(seed)
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
            source = set_plan.source or self.main
            why = self._why_none(source, allotment.total)
            self.missing.append(f"set {name!r} has no rows: roles.validation{why}")
        return planned_sets

    def _why_none(self, source: str, n_train: int) -> str:
        """Why a validation set has no rows beside so many training rows, in words that go on from
        `roles.validation`."""
        share = self.plan.roles.validation_share
        if share is None or not self._deal(source).pool("validation").total:
            units = self.datasets[source].units
            if units is None:
                return " leaves none"
            n_units = counted(len(np.unique(units)), "unit")
            return f" leaves none of its {n_units}, of which each has one role with all its rows"
        return (
            f", a share of {float(share):g} beside {n_train} training rows, is less than half a row"
        )

    def _draw(self) -> Draw:
        if self.plan.dataset_size is None:
            return self.plan.draw
        return self.plan.dataset_size.draw()

    def _training(self, seed: int) -> Allotment:
        """The numbers of training rows that a run of this seed draws."""
        fields = Fields("shift", "draw" if self.plan.dataset_size is None else "dataset_size")
        derived = self.dataset.derived
        mode = "rows"
        if derived is not None and self.index.n_values != 1:
            mode = {"fixed": "fixed", "per-visit": "visits"}[derived.mode]
        check_training_pool(self.dataset, self.deal.pool("train").total)
        pool = self.deal.pool("train")
        return allot(self.form, pool, mode, self._draw(), seed_of(seed, "train"), fields)

    @cached_property
    def _reference(self) -> Allotment:
        """The training set of a run of the split seed: what sets of role test follow, as their rows
        must not depend on the run."""
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
        law = ""
        if isinstance(set_plan.law, str):
            law = repr(self.plan.shift)
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
        """The set as it is planned, with the number of rows of each cell; None for a validation set
        that would have none."""
        field = f"sets.{name}"
        role = set_plan.role
        dataset = self.datasets[source]
        pool = self._pool(set_plan, source, dataset, field)
        if pool.total == 0 and role == "validation":
            return None
        if pool.total == 0 and role == "test":
            raise self._no_test_row(name, source)
        matched = (pool.cells.label, self.label, set_plan.labels, f"{field}.labels")
        classes = class_map(*matched)
        is_open = set_plan.answers == "all"
        answerable = merged_answers(*matched) if is_open else answers_as(*matched)
        law_field = f"{field}.law" if isinstance(set_plan.law, Shift) else "shift"
        form = self._form_of_law(set_plan.law, pool, field)
        draw = set_plan.draw or ALL_ROWS
        is_share = self._is_a_share_of_training(set_plan)
        if is_share:
            draw = self._validation_draw(train.allotment.total)
            if draw.value == 0:
                return None
        form, follows = self._form_of_rows(form, set_plan, pool, draw, train, field)
        form = _within_classes(form, pool, classes)
        row_seed = self.plan.split_seed if role == "test" else seed
        allotment = train.allotment
        if not _is_training_again(set_plan, train):
            fields = Fields(law_field, f"{field}.draw", f"set {name!r}")
            cells_seed = seed_of(row_seed, role, name)
            mode = _row_mode(role, pool)
            allotment = allot(form, pool, mode, draw, cells_seed, fields, lenient=is_share)
            if draw.mode == "all":
                self._name_short_quotas(allotment, set_plan, source, pool)
        key = seed_of(row_seed, f"{role} rows")
        return Part(name, role, source, dataset, pool, allotment, classes, key, follows, answerable)

    def _no_test_row(self, name: str, source: str) -> InputError:
        """The error for a test set of a source whose roles leave it no row."""
        field, why = "roles.test", ""
        units = self.datasets[source].units
        if units is not None:
            n_units = counted(len(np.unique(units)), "unit")
            why = f": it has {n_units}, of which each has one role with all its rows"
        if source != self.main:
            field = f"data.{source}"
            n_left_out = self._others()[source].left_out
            if n_left_out:
                why = (
                    f": all {n_left_out:,} show {self.datasets[source].shows}s that have another"
                    " role elsewhere in the study"
                )
        return InputError(field, f"leaves no test row for set {name!r}{why}")

    def _form_of_law(self, law: Shift | str, pool: Pool, field: str) -> NormalForm:
        """The normal form of a set's own shift, or of training's, on the cells of a pool."""
        if isinstance(law, Shift):
            return law.normal_form(pool.cells, f"{field}.law")
        if law not in LAWS:
            raise unknown(f"{field}.law", "law", law, LAWS)
        if pool.cells is self.index.cells:
            return self.form
        return self.plan.shift.normal_form(pool.cells, "shift")

    def _is_a_share_of_training(self, set_plan: SetPlan) -> bool:
        """Whether a set validates by its share of the rows that training and it draw together."""
        return (
            set_plan.draw is None
            and set_plan.law in ("train", "without-supplements")
            and set_plan.role == "validation"
            and self.plan.roles.validation_share is not None
        )

    def _validation_draw(self, n_train: int) -> Draw:
        """The draw of a validation set beside so many training rows."""
        share = self.plan.roles.validation_share
        assert share is not None
        return Draw("total", Fraction(round(share / (1 - share) * n_train)))

    def _form_of_rows(
        self,
        form: NormalForm,
        set_plan: SetPlan,
        pool: Pool,
        draw: Draw,
        train: Part,
        field: str,
    ) -> tuple[NormalForm, bool]:
        """The form that a set draws by, from that of its shift, and whether it follows what
        training draws."""
        if set_plan.law == "train":
            training = self._reference if set_plan.role == "test" else train.allotment
            is_exact = pool.cells is self.index.cells
            return followed(training, form, pool, draw, exactly=is_exact)
        if set_plan.law == "without-supplements":
            return form.without_supplements(), False
        if set_plan.law == "unseen":
            return left_out(form, f"{field}.law"), False
        return form, False

    def _pool(self, set_plan: SetPlan, source: str, dataset: AttributedDataset, field: str) -> Pool:
        deal = self._deal(source)
        pool = deal.pool(set_plan.role)
        if isinstance(set_plan.law, Shift):
            named = set_plan.law.attributes()
        else:
            named = ()
        extra = [name for name in named if name not in pool.cells.names]
        if not extra:
            return pool
        # The law speaks of attributes that do not cut the study's cells: the role's rows are
        # counted anew under both.
        names = (*pool.cells.names[1:], *extra)
        index = _index(dataset, self.plan.label, names, f"{field}.law")
        return pool.under(index)

    def fills(self) -> bool:
        """Whether units fill cells that are short of a quota, in any of the data sets."""
        deals = [self.deal, *(other.deal for other in self._others().values())]
        return any(deal.fills for deal in deals)

    def _deal(self, source: str) -> Deal:
        if source == self.main:
            return self.deal
        return self._others()[source].deal

    def _others(self) -> dict[str, Other]:
        """The deals of the other data sets that the sets name, in that order; kept with the deal of
        the one that trains."""
        reads: dict[str, frozenset[str]] = {}
        for set_plan in self.plan.sets.values():
            source = set_plan.source
            if source not in (None, self.main) and source in self.datasets:
                reads[source] = reads.get(source, frozenset()) | {set_plan.role}
        key = ("others", *((name, self.datasets[name], roles) for name, roles in reads.items()))
        if key not in self.deal.kept:
            other_datasets = {}
            for name, roles in reads.items():
                other_datasets[name] = (self.datasets[name], self._own_index(name), roles)
            allowed = self.plan.overlap == "allowed"
            main = (self.dataset, self.deal)
            self.deal.kept[key] = deal_others(
                main, other_datasets, self.plan.roles, self.plan.split_seed, allowed
            )
        other_deals: dict[str, Other] = self.deal.kept[key]
        return other_deals

    def _own_index(self, source: str) -> CellIndex:
        """The index of a data set that does not train, by those of the study's attributes that it
        has."""
        dataset = self.datasets[source]
        attribute_names = {attribute.name for attribute in dataset.schema}
        names = [name for name in self.plan.attributes if name in attribute_names]
        return _index(dataset, self.plan.label, names, f"data.{source}")

    def pictures(self) -> str | None:
        """The digest of the pictures that decide which rows have which role, as digits; None where
        nothing does."""
        units = joined_units(self.dataset)
        roles_by_picture: dict[str, NDArray[Any]]
        if units is None:
            roles_by_picture = {}
        else:
            roles_by_picture = {"": units}
        for name, other_deal in self._others().items():
            if other_deal.changed:
                roles_by_picture[name] = other_deal.deal.roles
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
        cells = planned_set.pool.cells
        mode = planned_set.allotment.mode
        values = planned_set.pool.n_values
        if mode == "visits":
            full = drawn.cell * values
        else:
            full = drawn.cell
        cells_of_class = planned_set.cells.size // planned_set.cells.shape[0]
        true = planned_set.classes[drawn.cell // cells_of_class]
        label = self._noisy_label(true, planned_set, drawn, seed, flips)
        groups = self._grouping(planned_set, self.groups, self.label, "groups")
        environments = self._grouping(planned_set, self.environments, None, "environments")
        group = label * groups.size + groups.of_cell[full]
        law = None
        step = (0, 0)
        rows = drawn.base
        if mode == "visits":
            law = visit_law(planned_set.allotment.form, drawn, values)
            name = cells.names[-1]
            step = (int(name in self.groups), int(name in self.environments))
        elif values > 1:
            rows = drawn.base * values + drawn.cell % values
        weight = np.full(len(label), 1.0 / max(len(label), 1))
        sampler = "uniform"
        if planned_set.name == "train":
            sampler = self._sampler_name()
            environments_of = None
            if sampler in ("environment", "image"):
                n_visit_values = 1 if law is None else values
                environments_of = Environments.of(self.plan.shift, cells, full, n_visit_values)
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
        deal = self._deal(planned_set.source)
        is_noisy = label is not true
        check_set(planned_set, drawn, drawn_set, deal, groups, is_noisy)
        return drawn_set

    def _sampler_name(self) -> str:
        sampler = self.plan.sampler
        if isinstance(sampler, str):
            return sampler
        return next(iter(sampler))

    def _noisy_label(
        self,
        true: NDArray[np.int64],
        planned_set: Part,
        drawn: DrawnRows,
        seed: int,
        flips: dict[str, int],
    ) -> NDArray[np.int64]:
        """The labels that a set shows, the true ones themselves where it has no noise; `flips`
        takes the numbers of training's."""
        noise = self.plan.label_noise
        is_train = planned_set.name == "train"
        if noise is None:
            return true
        if not is_train and not (planned_set.role == "validation" and noise.validation):
            return true
        ids = planned_set.dataset.ids[drawn.base]
        label = noise.apply(true, ids, len(self.label.values), seed, "label_noise")
        if is_train:
            changed = int((label != true).sum())
            chosen = noise.number(len(label))
            flips |= {"chosen": chosen, "changed": changed, "rows": len(label)}
        return label

    def test_set(self, planned_set: Part) -> RowSet:
        """The rows of a set of role test, kept with the deal."""
        deal = self._deal(planned_set.source)
        drawn_key = ("drawn", planned_set)
        key = ("rows", planned_set, tuple(self.groups), tuple(self.environments))
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
        cells = planned_set.pool.cells
        derived = planned_set.dataset.derived
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

        Of the law "train" its supplements are among them, as in the set. Of a shift they are left
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
            if isinstance(set_plan.law, Shift):
                law = set_plan.law
            else:
                law = self.plan.shift
            if set_plan.law == "train" and self.form.supplements:
                return self._reference.law.ravel()
            if all(attribute in self.index.cells.names for attribute in law.attributes()):
                field = f"sets.{name}.law"
                return law.normal_form(self.index.cells, field).weights.ravel()
        return None

    def warnings(self, planned_sets: Mapping[str, Part]) -> tuple[str, ...]:
        """Everything that is allowed but that a user should know of."""
        other_deals = self._others()
        deals = {self.main: self.deal}
        deals |= {name: other_deal.deal for name, other_deal in other_deals.items()}
        notes = [
            *self.plan.shift.warnings(self.index.cells),
            *self.missing,
            *said_of_copies(planned_sets.values(), self.plan.label),
        ]
        for name, deal in deals.items():
            if deal.torn:
                notes.append(
                    f"{name}: {deal.torn:,} {self.datasets[name].shows}s are in two parts of the"
                    " official split (overlap: allowed)"
                )
        for name, other_deal in other_deals.items():
            shown = self.datasets[name].shows
            if other_deal.left_out:
                notes.append(
                    f"{name}: {other_deal.left_out:,} rows are left out, as their {shown}s"
                    " have another role elsewhere"
                )
            if other_deal.overlap:
                notes.append(
                    f"{name}: {other_deal.overlap:,} test rows show {shown}s that train or"
                    " validate (overlap: allowed)"
                )
        for name, planned_set in planned_sets.items():
            notes += [f"{name}: {warning}" for warning in planned_set.warnings()]
            if short := _lacking(planned_set):
                notes.append(f"{name}: {_first_short_cell(planned_set, short)}")
        return tuple(notes)


def _within_classes(form: NormalForm, pool: Pool, classes: NDArray[np.int64]) -> NormalForm:
    """A form without the cells of classes that are left out, which are -1 in `classes`."""
    if (classes >= 0).all():
        return form
    in_classes = pool.cells.along([0], (classes >= 0).astype(np.float64))
    return form & NormalForm(pool.cells.shape, (in_classes,))


def _is_training_again(set_plan: SetPlan, train: Part) -> bool:
    """Whether a set has just the rows that train."""
    return (
        set_plan.role == "train"
        and set_plan.law == "train"
        and set_plan.draw is None
        and train.allotment.mode != "visits"
    )


def _lacking(planned_set: Part) -> dict[int, tuple[float, int]]:
    """The cells that lack rows, to one decimal: 29 of 29.01 lack none."""
    short = planned_set.allotment.short
    return {cell: pair for cell, pair in short.items() if round(pair[0], 1) > pair[1]}


def _first_short_cell(planned_set: Part, short: Mapping[int, tuple[float, int]]) -> str:
    """The first cell that gives fewer rows than it was asked for, and how many more there are."""
    cell, (asked_rows, got) = next(iter(short.items()))
    # Shares of rows need not be whole; one decimal is as much as anybody reads.
    asked_text = f"{asked_rows:.1f}".removesuffix(".0") if asked_rows >= 1 else f"{asked_rows:.2g}"
    n_more = len(short) - 1
    more_cells = ""
    if n_more:
        more_cells = f"; {n_more} more cell{'s lack' if n_more > 1 else ' lacks'} rows"
    name = planned_set.cells.name_of(cell)
    return f"{name} has {got} of the {asked_text} rows that were asked for{more_cells}"


def _row_mode(role: str, pool: Pool) -> str:
    """The mode of a row of a set that does not train, see `Allotment.mode`."""
    if pool.n_values == 1:
        return "rows"
    return "fixed" if role == "validation" else "each"


def _index(dataset: AttributedDataset, label: str, attributes: Any, field: str) -> CellIndex:
    derived = dataset.derived
    if derived is not None and derived.name not in attributes:
        problem = (
            f"{dataset.name} has the derived attribute {derived.name!r}, which must be one of them"
        )
        raise InputError(field, problem, attributes)
    return cell_index(dataset, label, attributes, field)
