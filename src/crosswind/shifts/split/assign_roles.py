"""Roles: which rows may train, validate and test. Dealt once per split seed, the same for all runs
of a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, InternalError
from crosswind.core.seeds import hash64, seed_of
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import Cells, codes_of
from crosswind.shifts.split.index import CellIndex, sorted_rows
from crosswind.shifts.split.pictures import FREE, apart, held, joined_units, roles_elsewhere, share
from crosswind.shifts.split.plan import ROLES, Roles, quota
from crosswind.shifts.split.rounding import controlled_rounding, rounded_up

_TEST, _VALIDATION, _TRAIN, _UNUSED = range(4)

Counts = NDArray[np.int64]
Turns = tuple[tuple[int, int | Fraction | None], ...]
"""The roles that rows are dealt to in turn, and how many of a cell each takes: all that is left
with None."""


@final
class Pool:
    """The rows of one role: those of base cell c are `order()[starts[c] : starts[c] +
    sizes[c]]`."""

    def __init__(
        self,
        cells: Cells,
        n_values: int,
        order: Callable[[], NDArray[np.int64]],
        starts: Counts,
        sizes: Counts,
    ) -> None:
        self.cells = cells
        self.n_values = n_values
        self.order = order
        self.starts = starts
        self.sizes = sizes

    @cached_property
    def total(self) -> int:
        """The number of base rows of the role."""
        return int(self.sizes.sum())

    def rows(self) -> NDArray[np.int64]:
        """All base rows of the role, cell after cell."""
        ends = np.cumsum(self.sizes)
        gaps = np.repeat(self.starts - ends + self.sizes, self.sizes)
        return self.order()[np.arange(self.total) + gaps]

    def under(self, index: CellIndex) -> Pool:
        """The same rows under other cells, for laws on attributes that are not the study's."""
        rows = self.rows()
        codes = index.codes[rows]
        order = rows[np.argsort(codes, kind="stable")]
        sizes = np.bincount(codes, minlength=index.n_cells)
        starts = np.cumsum(sizes) - sizes
        return Pool(index.cells, index.n_values, lambda: order, starts, sizes)


@final
class Deal:
    """All rows of a data set dealt to roles.

    `short` has, for each role, the cells with fewer rows than the role asked of each: base cell ->
    (wanted, got). `fills`: whether units were dealt that fill cells in which too few are at home.
    `units` int64 [n]: what is dealt, rows or units; rows that show one picture are
    of one unit. `elsewhere`: the role that each row's picture has in another data set
    (`roles_elsewhere`); such rows take it, or are left out. `official`: whether there is an
    official split, `left_out` bool [n] the rows that it gives no role.
    `torn`: how many units have a picture in two of its parts, which is an `InputError` unless
    `allowed`.
    """

    def __init__(
        self,
        index: CellIndex,
        dataset: AttributedDataset,
        roles: Roles,
        split_seed: int,
        reads: frozenset[str],
        allowed: bool = False,
        elsewhere: NDArray[np.uint8] | None = None,
    ) -> None:
        self.index = index
        self.seed = split_seed
        self.kept: dict[object, Any] = {}  # evaluation sets drawn from it
        self.short: dict[str, dict[int, tuple[int, int]]] = {role: {} for role in ROLES}
        self.fills = False
        # One part of the rows for each role of an official split and one for those left out;
        # otherwise a single part.
        self._part = _official_parts(dataset, roles, "train" in reads)
        self.official = self._part is not None
        if self._part is None:
            self.left_out = None
        else:
            self.left_out = self._part == _UNUSED
        turns = _turns(roles, reads, self.official)
        units = joined_units(dataset)
        self.torn = 0
        if self._part is not None:
            if dataset.units is not None:
                _refuse_torn(dataset, dataset.units, self._part)
            if units is not None:
                parts_read = _parts_read(turns, reads)
                units, self.torn = apart(units, dataset, self._part, parts_read)
                if self.torn and not allowed:
                    raise _overlap(dataset, "puts", self.torn, "in two parts")
        units = dataset.units if units is None else units
        if dataset.units is not None and units is not None and self._part is not None:
            # Rows of no role are dealt with nobody: their units, under numbers of their own, may
            # have other rows in a role.
            units = np.where(self._part == _UNUSED, -1 - units, units)
        self.units = dataset.ids if units is None else units
        self.starts = np.zeros((3, index.n_cells), dtype=np.int64)
        self.sizes = np.zeros((3, index.n_cells), dtype=np.int64)
        if units is None and elsewhere is None:
            self._deal_rows(turns)
        else:
            self._part = self._deal_units(turns, elsewhere)

    def pool(self, role: str) -> Pool:
        """The rows of a role."""
        role_code = ROLES.index(role)
        starts = self.starts[role_code]
        sizes = self.sizes[role_code]
        return Pool(self.index.cells, self.index.n_values, lambda: self.order, starts, sizes)

    @cached_property
    def roles(self) -> NDArray[np.uint8]:
        """The role of each base row as its place in `ROLES`, 3 for none: uint8 [n]."""
        out = np.full(len(self.index.codes), _UNUSED, dtype=np.uint8)
        for role_code, role in enumerate(ROLES):
            out[self.pool(role).rows()] = role_code
        return out

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Base rows by cell, part and hash: int64 [n]. Made when rows are asked for: 15 to 20 ms
        for 737,280 rows."""
        return sorted_rows(*self._codes(), hash64(self.units, seed_of(self.seed, "roles")))

    def _codes(self) -> tuple[NDArray[Any], int]:
        if self._part is None:
            return self.index.codes, self.index.n_cells
        return (
            self.index.codes.astype(np.uint64) * np.uint64(4) + self._part,
            4 * self.index.n_cells,
        )

    def _deal_rows(self, turns: Mapping[int, Turns]) -> None:
        codes, n_codes = self._codes()
        if self._part is None:
            counts = self.index.counts
        else:
            counts = np.bincount(codes.astype(np.int64), minlength=n_codes)
        begins = np.cumsum(counts) - counts
        for official_part, dealt in turns.items():
            if self._part is None:
                every = slice(None)
            else:
                every = slice(official_part, None, 4)
            left = counts[every].copy()
            begin = begins[every].copy()
            for role, role_quota in dealt:
                size = self._take(left, role, role_quota)
                self.starts[role], self.sizes[role] = begin, size
                left -= size
                begin += size

    def _take(self, left: Counts, role: int, role_quota: int | Fraction | None) -> Counts:
        if role_quota is None:
            return left.copy()
        if isinstance(role_quota, int):
            self._name_short(role, role_quota, left)
            return np.minimum(
                left, min(role_quota, int(left.max(initial=0)))
            )  # a quota may be more than 64 bits hold
        if role == _TEST:
            spread = left.reshape(self.index.base_shape).astype(np.float64) * float(role_quota)
            return controlled_rounding(spread, seed_of(self.seed, "test share")).ravel()
        # Rounded up, or a small cell would never be validated on; but one row stays for training.
        return np.minimum(rounded_up(left, role_quota), np.maximum(left - 1, 0))

    def _name_short(self, role: int, role_quota: int, sizes: Counts) -> None:
        for cell in np.flatnonzero(sizes < role_quota):
            self.short[ROLES[role]][int(cell)] = (role_quota, int(sizes[cell]))

    def _deal_units(
        self, turns: Mapping[int, Turns], elsewhere: NDArray[np.uint8] | None
    ) -> NDArray[np.uint8]:
        """Deal units: each goes with all its rows where its lowest cell's quotas send it; then, for
        a quota in rows, to cells that are still short of it. Returns the role of each row.

        Units that have a role `elsewhere` take it where their part of the rows may have it, and are
        left out where not.
        """
        n_cells = self.index.n_cells
        codes = self.index.codes.astype(np.int64)
        units, first, unit_of = np.unique(self.units, return_index=True, return_inverse=True)
        home = np.full(len(units), n_cells, dtype=np.int64)
        np.minimum.at(home, unit_of, codes)
        is_home = codes == home[unit_of]
        at_home = np.bincount(unit_of, weights=is_home, minlength=len(units)).astype(np.int64)
        if self._part is None:
            official_part = np.zeros(len(units), dtype=np.uint8)
        else:
            official_part = self._part[first]
        role_of = np.full(len(units), _UNUSED, dtype=np.uint8)
        if elsewhere is not None:
            role_elsewhere = elsewhere[first]
            may = np.zeros((4, 4), dtype=bool)
            for unit_part, dealt in turns.items():
                may[unit_part, [role for role, _ in dealt]] = True
            is_fixed = role_elsewhere != FREE
            takes_it = is_fixed & may[official_part, role_elsewhere % 4]
            role_of[takes_it] = role_elsewhere[takes_it]
            official_part = np.where(is_fixed, np.uint8(_UNUSED), official_part)
        hashes = hash64(units, seed_of(self.seed, "roles"))
        for unit_part, dealt in turns.items():
            queue = np.flatnonzero(official_part == unit_part)
            queue = queue[np.lexsort((hashes[queue], home[queue]))]
            for role, role_quota in dealt:
                counts = np.bincount(home[queue], minlength=n_cells)
                begin = np.cumsum(counts) - counts
                if isinstance(role_quota, int):
                    # Units are taken until the rows in their home cell reach the quota.
                    rows = np.cumsum(at_home[queue])
                    before_cell = np.concatenate([[0], rows])[begin]
                    taken = rows - at_home[queue] - before_cell[home[queue]] < role_quota
                else:
                    units_of_cell = self._take(counts, role, role_quota)
                    position_in_cell = np.arange(len(queue)) - begin[home[queue]]
                    taken = position_in_cell < units_of_cell[home[queue]]
                if isinstance(role_quota, int) and len(queue):
                    filling = self._filling(queue, taken, role_quota, unit_of, hashes)
                    self.fills = self.fills or bool(filling.any())
                    taken |= filling
                role_of[queue[taken]] = role
                queue = queue[~taken]
        roles = role_of[unit_of]
        counts = np.bincount(codes * 4 + roles, minlength=4 * n_cells)
        begins = np.cumsum(counts) - counts
        for role in (_TEST, _VALIDATION, _TRAIN):
            self.starts[role], self.sizes[role] = begins[role::4], counts[role::4]
        for dealt in turns.values():
            for role, role_quota in dealt:
                if isinstance(role_quota, int):
                    self._name_short(role, role_quota, self.sizes[role])
        return roles

    def _filling(
        self,
        queue: Counts,
        taken: NDArray[np.bool_],
        role_quota: int,
        unit_of: Counts,
        hashes: NDArray[np.uint64],
    ) -> NDArray[np.bool_]:
        """Which units of a queue fill the cells that those already taken leave short, bool [units in
        the queue].

        Few units, or none, are at home in a cell that mostly stands beside lower ones, as the
        second of two paired reviews does.
        """
        codes = self.index.codes.astype(np.int64)
        position = np.full(len(hashes), -1, dtype=np.int64)
        position[queue] = np.arange(len(queue))
        position_of_row = position[unit_of]
        row_is_taken = (position_of_row >= 0) & taken[position_of_row]
        sizes = np.bincount(codes[row_is_taken], minlength=self.index.n_cells)
        filling = np.zeros(len(queue), dtype=bool)
        for cell in np.flatnonzero(sizes < role_quota):
            in_cell = position_of_row[(codes == cell) & (position_of_row >= 0)]
            rows_in_cell = np.bincount(in_cell, minlength=len(queue))
            lacking = role_quota - int(rows_in_cell[taken | filling].sum())
            free = np.flatnonzero((rows_in_cell > 0) & ~taken & ~filling)
            free = free[np.argsort(hashes[queue[free]], kind="stable")]
            before_unit = np.cumsum(rows_in_cell[free]) - rows_in_cell[free]
            filling[free[before_unit < lacking]] = True
        return filling


def deal_of(
    index: CellIndex,
    dataset: AttributedDataset,
    roles: Roles,
    split_seed: int,
    reads: frozenset[str],
    allowed: bool = False,
) -> Deal:
    """The deal of an index, made once for each roles, split seed and roles that are read, and kept
    with the index."""
    key = ("deal", repr(roles), int(split_seed), reads, allowed)
    if key not in index.kept:
        new_deal = Deal(index, dataset, roles, split_seed, reads, allowed)
        if (new_deal.sizes < 0).any() or (new_deal.sizes.sum(axis=0) > index.counts).any():
            raise InternalError(
                "the deal of roles gives a cell more rows than it has, or fewer than none"
            )
        index.kept[key] = new_deal
    deal: Deal = index.kept[key]
    return deal


@final
@dataclass(frozen=True)
class Other:
    """The deal of a data set that does not train.

    `left_out`: rows that its sets lack because their pictures have another role in a data set dealt
    before. `overlap`: test rows whose pictures train or validate there, where that is allowed.
    `changed`: whether its roles are others than on its own.
    """

    deal: Deal
    left_out: int = 0
    overlap: int = 0
    changed: bool = False


def deal_others(
    main: tuple[AttributedDataset, Deal],
    others: Mapping[str, tuple[AttributedDataset, CellIndex, frozenset[str]]],
    roles: Roles,
    split_seed: int,
    allowed: bool,
) -> dict[str, Other]:
    """Deal data sets one after another: a picture keeps the role that it has in `main`, or in one
    of `others` dealt before.

    `others`: data set, index of cells and the roles that sets read of it. With `allowed` each is
    dealt as if it were alone. Raises `InputError` where an official split makes test rows of
    pictures that train or validate.
    """
    dealt_sets: dict[str, Other] = {}
    before = [main]
    later = dict(others)
    for name, (dataset, index, reads) in others.items():
        del later[name]
        alone = deal_of(index, dataset, roles, split_seed, reads, allowed)
        dealt = Other(alone)
        if allowed:
            trains = np.logical_or.reduce(
                [held(dataset, each, deal.roles) & 0b110 > 0 for each, deal in before]
            )
            overlap = int((trains & (alone.roles == _TEST)).sum())
            dealt = Other(alone, overlap=overlap)
        else:
            elsewhere = roles_elsewhere(dataset, ((each, deal.roles) for each, deal in before))
            _refuse_tested(dataset, alone, reads, elsewhere)
            # Pictures that a later data set shows too are dealt to all the roles that read either.
            wide = reads.union(
                *(
                    extra
                    for each, _, extra in later.values()
                    if not extra <= reads and share(dataset, each)
                )
            )
            if (elsewhere != FREE).any() or wide != reads:
                # What its own sets read has been judged where it was dealt alone.
                deal = Deal(
                    index, dataset, roles, split_seed, wide, allowed=True, elsewhere=elsewhere
                )
                dealt = _dealt_anew(alone, deal, reads)
        dealt_sets[name] = dealt
        before.append((dataset, dealt.deal))
    return dealt_sets


def _refuse_tested(
    dataset: AttributedDataset,
    alone: Deal,
    reads: frozenset[str],
    elsewhere: NDArray[np.uint8],
) -> None:
    """Raise `InputError` where an official split makes test rows of pictures that train or validate
    in a data set dealt before."""
    if not alone.official or "test" not in reads:
        return
    trains_elsewhere = (elsewhere != FREE) & (elsewhere != _TEST)
    clash = trains_elsewhere & (alone.roles == _TEST)
    if clash.any():
        pictures = len(np.unique(alone.units[clash]))
        raise _overlap(dataset, "tests on", pictures, "that train or validate in another data set")


def _dealt_anew(alone: Deal, deal: Deal, reads: frozenset[str]) -> Other:
    """A data set as it is dealt beside others, or `alone` where no role that its sets read
    changes."""
    roles_read = [code for code, role in enumerate(ROLES) if role in reads]
    then = np.where(np.isin(alone.roles, roles_read), alone.roles, _UNUSED)
    now = np.where(np.isin(deal.roles, roles_read), deal.roles, _UNUSED)
    if (then == now).all():
        return Other(alone)
    n_left_out = int(((then < _UNUSED) & (now == _UNUSED)).sum())
    return Other(deal, left_out=n_left_out, changed=True)


def _overlap(dataset: AttributedDataset, does: str, number: int, role_words: str) -> InputError:
    name = dataset.name
    counted_rows = f"{number:,} {dataset.shows}{'s' if number != 1 else ''}"
    way_out = "leave rows out (keep), or say overlap: allowed"
    problem = f"the official split of {name!r} {does} {counted_rows} {role_words}; {way_out}"
    return InputError("overlap", problem)


def _refuse_torn(
    dataset: AttributedDataset, units: NDArray[np.int64], official_part: NDArray[np.uint8]
) -> None:
    """Raises `InputError` for a unit with rows in two roles; rows of no role are nowhere, whatever
    their unit."""
    _, unit_of = np.unique(units, return_inverse=True)
    roles = np.zeros((int(unit_of.max()) + 1, _UNUSED + 1), dtype=bool)
    roles[unit_of, official_part] = True
    torn = np.flatnonzero(roles[:, :_UNUSED].sum(axis=1)[unit_of] > 1)
    if torn.size:
        first = int(torn[0])
        apart = (unit_of == unit_of[first]) & (official_part != official_part[first])
        second = int(np.flatnonzero(apart & (official_part < _UNUSED))[0])
        rows = " and ".join(f"{int(dataset.ids[row]) + 1:,}" for row in (first, second))
        problem = (
            f"unit {int(units[first])} of {dataset.name} is in two parts of the official split; a"
            " source whose option unit is none has no units, and in a study neither has data"
            f" without 'unit' (rows {rows} are of one unit)"
        )
        raise InputError("roles.official", problem)


def _parts_read(turns: Mapping[int, Turns], reads: frozenset[str]) -> list[int]:
    """The parts of an official split from which rows are dealt to a role that is read."""
    return [
        official_part
        for official_part, dealt in turns.items()
        if any(ROLES[role] in reads for role, _ in dealt)
    ]


def _turns(roles: Roles, reads: frozenset[str], official: bool) -> dict[int, Turns]:
    """The roles of the rows of each part of a data set, in turn."""
    test = None
    if roles.test is not None:
        test = quota(roles.test, "roles.test")
    validation = quota(roles.validation, "roles.validation")
    trains = "train" in reads
    if official:
        turns: dict[int, Turns] = {_TEST: ((_TEST, test if trains else None),)}
        if (roles.official or {}).get("validation") is not None:
            validation_part = validation if trains and isinstance(validation, int) else None
            turns[_VALIDATION] = ((_VALIDATION, validation_part),)
            turns[_TRAIN] = ((_TRAIN, None),)
        elif trains:
            turns[_TRAIN] = ((_VALIDATION, validation), (_TRAIN, None))
        else:
            turns[_TRAIN] = ((_VALIDATION, None),)
        return turns
    if trains:
        test_quota = Fraction(1, 5) if test is None else test
        return {0: ((_TEST, test_quota), (_VALIDATION, validation), (_TRAIN, None))}
    # Nothing trains on this source: its rows are for the roles that read it.
    if "validation" not in reads:
        return {0: ((_TEST, None),)}
    if "test" in reads:
        return {0: ((_VALIDATION, validation), (_TEST, None))}
    return {0: ((_VALIDATION, None),)}


def _official_parts(
    dataset: AttributedDataset, roles: Roles, needed: bool
) -> NDArray[np.uint8] | None:
    """The official role of each row (3: none), None where there is no official split.

    A data set on which nothing trains (`needed` is False) may have another split under the same
    name: it has none of this study's.
    """
    official = roles.official
    if official is None or (not needed and official["column"] not in dataset.table.names):
        return None
    field = "roles.official"
    column = dataset.table.column(official["column"], f"{field}.column")
    attribute = dataset.table.attribute(official["column"], f"{field}.column")
    role_of = np.full(len(attribute.values), _UNUSED, dtype=np.uint8)
    for role_code, role in enumerate(ROLES):
        if official.get(role) is None:
            continue
        try:
            codes = codes_of(attribute, official[role], f"{field}.{role}")
        except InputError:
            if needed:
                raise
            return None
        for code in codes:
            if role_of[code] != _UNUSED:
                problem = f"{attribute.values[code]!r} is also a value of {ROLES[role_of[code]]}"
                raise InputError(f"{field}.{role}", problem)
            role_of[code] = role_code
    return role_of[column]
