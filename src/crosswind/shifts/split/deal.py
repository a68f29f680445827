"""Roles: which rows may train, validate and test. Dealt once per split seed, the same for all runs of a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, InternalError, unknown
from crosswind.core.seeds import hash64, seed_of
from crosswind.core.types import canonical
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import Cells, codes_of, exact, plain_number
from crosswind.shifts.split.index import CellIndex, sorted_rows
from crosswind.shifts.split.pictures import FREE, apart, joined_units, refused
from crosswind.shifts.split.rounding import controlled_rounding, rounded_up

__all__ = ["ROLES", "Deal", "Pool", "Roles", "deal_of", "parse_roles", "regrouped"]

ROLES = ("test", "validation", "train")
_TEST, _VALIDATION, _TRAIN, _UNUSED = range(4)

Counts = NDArray[np.int64]
Quota = int | Fraction


@final
@dataclass(frozen=True)
class Roles:
    """How rows are dealt in each finest cell of label and attributes, in the order of hash(unit id, split seed).

    `test` rows first: a whole number of rows a cell, or a share in (0, 1) of the rows, spread so that its total is right; None is a
    fifth, or every official test row. Then `validation`: rows a cell, or a share of what remains, rounded up in each cell as
    long as one row stays for training. The rest may train. Shares are exact: "1/3" is a third, 0.3333333333333333 a little less.
    `official`: the source's own split instead, {"column": name, "train": values, "test": values, "validation": values}; without
    validation values, validation rows are dealt from the training rows. There `test` and `validation` take a part of them.
    """

    test: int | float | str | None = None
    validation: int | float | str = 0.2
    official: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _check(self.test, self.validation, self.official, "roles")
        for name in ("test", "validation"):
            object.__setattr__(self, name, plain_number(getattr(self, name)))

    @property
    def validation_share(self) -> Fraction | None:
        """The share of validation rows in training and validation together, where it is a share."""
        share = _quota(self.validation, "roles.validation")
        return share if isinstance(share, Fraction) else None

    def describe(self) -> dict[str, Any]:
        """The roles as plain values, which `parse_roles` reads back."""
        official = None
        if self.official is not None:
            official = {key: list(value) if isinstance(value, list | tuple) else value for key, value in self.official.items()}
        return {"test": self.test, "validation": self.validation, "official": official}


def parse_roles(spec: Any, field: str = "roles") -> Roles:
    """The roles that plain values name, {"test", "validation", "official"}; null is the default. Raises `InputError`."""
    if isinstance(spec, Roles):
        return spec
    if spec is not None and not isinstance(spec, Mapping):
        raise InputError(field, f"must be a map, not {spec!r}", ["test", "validation", "official"])
    values = dict(spec or {})
    for name in values:
        if name not in ("test", "validation", "official"):
            raise unknown(f"{field}.{name}", "setting of roles", name, ["test", "validation", "official"])
    test, validation, official = values.get("test"), values.get("validation", 0.2), values.get("official")
    _check(test, validation, official, field)
    return Roles(test, 0 if validation is None else validation, official)


def _check(test: object, validation: object, official: object, field: str) -> None:
    if test is not None:
        _quota(test, f"{field}.test")
    _quota(0 if validation is None else validation, f"{field}.validation")
    if official is None:
        return
    known = ["column", "train", "validation", "test"]
    if not isinstance(official, Mapping):
        raise InputError(f"{field}.official", f"must be a map, not {official!r}", known)
    for name in official:
        if name not in known:
            raise unknown(f"{field}.official.{name}", "setting of the official split", name, known)
    for name in ("column", "train", "test"):
        if official.get(name) is None:
            raise InputError(f"{field}.official.{name}", "an official split needs its column, train values and test values")


def _quota(value: object, field: str) -> Quota:
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise InputError(field, f"must be at least 0 rows a cell, not {value}")
        return value
    share = exact(value, field, 0, 1)
    if not 0 < share < 1:
        raise InputError(field, f"must be a whole number of rows a cell or a share between 0 and 1, not {value!r}")
    return share


@final
class Pool:
    """The rows of one role: those of base cell c are `order()[starts[c] : starts[c] + sizes[c]]`."""

    def __init__(self, cells: Cells, n_values: int, order: Callable[[], NDArray[np.int64]], starts: Counts, sizes: Counts) -> None:
        self.cells, self.n_values, self.order, self.starts, self.sizes = cells, n_values, order, starts, sizes

    @cached_property
    def total(self) -> int:
        """The number of base rows of the role."""
        return int(self.sizes.sum())

    def rows(self) -> NDArray[np.int64]:
        """All base rows of the role, cell after cell."""
        ends = np.cumsum(self.sizes)
        return self.order()[np.arange(self.total) + np.repeat(self.starts - ends + self.sizes, self.sizes)]


@dataclass(frozen=True)
class _Chain:
    """Rows of one part of a data set, dealt to roles in turn. A quota of None takes all that is left."""

    part: int
    turns: tuple[tuple[int, Quota | None], ...]


@final
class Deal:
    """All rows of a data set dealt to roles.

    `short` has, for each role, the cells that have fewer rows than the role asked of each: base cell -> (wanted, got). `units`
    int64 [n]: what is dealt, rows or units; rows that show one picture are of one. `elsewhere`: the role that each row's picture
    has in another data set, as `roles_elsewhere` gives it; those rows take it, or are left out. `official`: whether there is an
    official split. `torn`: units with a picture in two of its parts, which is an `InputError` unless `allowed`.
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
        self.index, self.seed = index, split_seed
        self.kept: dict[object, Any] = {}  # evaluation sets drawn from it
        self.short: dict[str, dict[int, tuple[int, int]]] = {role: {} for role in ROLES}
        # One part of the rows for each role of an official split and one for those left out; otherwise a single part.
        self._part, has_validation = _official_parts(dataset, roles, "train" in reads)
        self.official = self._part is not None
        chains = _chains(roles, reads, self.official, has_validation)
        if dataset.units is not None and self._part is not None:
            _refuse_torn(dataset, dataset.units, self._part)
        units, self.torn = joined_units(dataset), 0
        if units is None:
            units = dataset.units
        elif self._part is not None:
            read = [chain.part for chain in chains if any(ROLES[role] in reads for role, _ in chain.turns)]
            units, self.torn = apart(units, dataset, self._part, read)
            if self.torn and not allowed:
                raise refused(dataset.name, "puts", self.torn, "in two parts")
        self.units = dataset.ids if units is None else units
        self.starts = np.zeros((3, index.n_cells), dtype=np.int64)
        self.sizes = np.zeros((3, index.n_cells), dtype=np.int64)
        if units is None and elsewhere is None:
            self._deal_rows(chains)
        else:
            self._part = self._deal_units(chains, elsewhere)

    def pool(self, role: str) -> Pool:
        """The rows of a role."""
        place = ROLES.index(role)
        return Pool(self.index.cells, self.index.n_values, lambda: self.order, self.starts[place], self.sizes[place])

    @cached_property
    def roles(self) -> NDArray[np.uint8]:
        """The role of each base row as its place in `ROLES`, 3 for none: uint8 [n]."""
        out = np.full(len(self.index.codes), _UNUSED, dtype=np.uint8)
        for place, role in enumerate(ROLES):
            out[self.pool(role).rows()] = place
        return out

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Base rows by cell, part and hash: int64 [n]. Made when rows are asked for: 15 to 20 ms for 737,280 rows."""
        hashes = hash64(self.units, seed_of(self.seed, "roles"))
        return sorted_rows(*self._codes(), hashes)

    def _codes(self) -> tuple[NDArray[Any], int]:
        if self._part is None:
            return self.index.codes, self.index.n_cells
        return self.index.codes.astype(np.uint64) * np.uint64(4) + self._part, 4 * self.index.n_cells

    def _deal_rows(self, chains: list[_Chain]) -> None:
        codes, n_codes = self._codes()
        counts = self.index.counts if self._part is None else np.bincount(codes.astype(np.int64), minlength=n_codes)
        begins = np.cumsum(counts) - counts
        for chain in chains:
            every = slice(None) if self._part is None else slice(chain.part, None, 4)
            left, begin = counts[every].copy(), begins[every].copy()
            for role, quota in chain.turns:
                size = self._take(left, role, quota)
                self.starts[role], self.sizes[role] = begin, size
                left -= size
                begin += size

    def _take(self, left: Counts, role: int, quota: Quota | None) -> Counts:
        if quota is None:
            return left.copy()
        if isinstance(quota, int):
            for cell in np.flatnonzero(left < quota):
                self.short[ROLES[role]][int(cell)] = (quota, int(left[cell]))
            return np.minimum(left, min(quota, int(left.max(initial=0))))  # a quota may be more than 64 bits hold
        if role == _TEST:
            spread = left.reshape(self.index.base_shape).astype(np.float64) * float(quota)
            return controlled_rounding(spread, seed_of(self.seed, "test share")).ravel()
        # Rounded up, or a small cell would never be validated on; but one row stays for training.
        return np.minimum(rounded_up(left, quota), np.maximum(left - 1, 0))

    def _deal_units(self, chains: list[_Chain], elsewhere: NDArray[np.uint8] | None) -> NDArray[np.uint8]:
        """Deal units: each goes with all its rows where its lowest cell's quotas send it. Returns the role of each row.

        Units that have a role `elsewhere` take it where their part of the rows may have it, and are left out where not.
        """
        codes = self.index.codes.astype(np.int64)
        units, first, unit_of = np.unique(self.units, return_index=True, return_inverse=True)
        home = np.full(len(units), self.index.n_cells, dtype=np.int64)
        np.minimum.at(home, unit_of, codes)
        at_home = np.bincount(unit_of, weights=codes == home[unit_of], minlength=len(units)).astype(np.int64)
        part = np.zeros(len(units), dtype=np.uint8)
        if self._part is not None:
            part = self._part[first]
        role_of = np.full(len(units), _UNUSED, dtype=np.uint8)
        if elsewhere is not None:
            given = elsewhere[first]
            taken = given != FREE
            may = np.zeros((4, 4), dtype=bool)
            for chain in chains:
                may[chain.part, [role for role, _ in chain.turns]] = True
            taken_as = np.where(taken & may[part, given % 4], given, _UNUSED).astype(np.uint8)
            part = np.where(taken, np.uint8(_UNUSED), part)
            role_of[taken] = taken_as[taken]
        hashes = hash64(units, seed_of(self.seed, "roles"))
        for chain in chains:
            queue = np.flatnonzero(part == chain.part)
            queue = queue[np.lexsort((hashes[queue], home[queue]))]
            for role, quota in chain.turns:
                counts = np.bincount(home[queue], minlength=self.index.n_cells)
                if quota is None:
                    taken = np.ones(len(queue), dtype=bool)
                elif isinstance(quota, int):
                    # Units are taken until the rows in their home cell reach the quota.
                    rows = np.cumsum(at_home[queue])
                    before_cell = np.concatenate([[0], rows])[np.cumsum(counts) - counts]
                    taken = rows - at_home[queue] - before_cell[home[queue]] < quota
                else:
                    begin = np.cumsum(counts) - counts
                    taken = np.arange(len(queue)) - begin[home[queue]] < self._take(counts, role, quota)[home[queue]]
                role_of[queue[taken]] = role
                queue = queue[~taken]
        roles = role_of[unit_of]
        counts = np.bincount(codes * 4 + roles, minlength=4 * self.index.n_cells)
        begins = np.cumsum(counts) - counts
        for role in (_TEST, _VALIDATION, _TRAIN):
            self.starts[role], self.sizes[role] = begins[role::4], counts[role::4]
        for chain in chains:
            for role, quota in chain.turns:
                if isinstance(quota, int):
                    for cell in np.flatnonzero(self.sizes[role] < quota):
                        self.short[ROLES[role]][int(cell)] = (quota, int(self.sizes[role][cell]))
        return roles


def deal_of(
    index: CellIndex, dataset: AttributedDataset, roles: Roles, split_seed: int, reads: frozenset[str], allowed: bool = False
) -> Deal:
    """The deal of an index, made once for each roles, split seed and roles that are read, and kept with the index."""
    key = ("deal", canonical(roles.describe()), int(split_seed), reads, allowed)
    if key not in index.kept:
        made = Deal(index, dataset, roles, split_seed, reads, allowed)
        if (made.sizes < 0).any() or (made.sizes.sum(axis=0) > index.counts).any():
            raise InternalError("the deal of roles gives a cell more rows than it has, or fewer than none")
        index.kept[key] = made
    deal: Deal = index.kept[key]
    return deal


def _refuse_torn(dataset: AttributedDataset, units: NDArray[np.int64], part: NDArray[np.uint8]) -> None:
    _, first, unit_of = np.unique(units, return_index=True, return_inverse=True)
    torn = np.flatnonzero(part[first][unit_of] != part)
    if torn.size:
        raise InputError("roles.official", f"unit {int(units[torn[0]])} of {dataset.name} is in two parts of the official split")


def regrouped(pool: Pool, dataset: AttributedDataset, index: CellIndex) -> Pool:
    """The rows of a pool under other cells, those of `index`, for laws on attributes that are not the study's."""
    rows = pool.rows()
    codes = index.codes[rows]
    order = rows[np.argsort(codes, kind="stable")]
    sizes = np.bincount(codes, minlength=index.n_cells)
    return Pool(index.cells, index.n_values, lambda: order, np.cumsum(sizes) - sizes, sizes)


def _chains(roles: Roles, reads: frozenset[str], official: bool, has_validation: bool) -> list[_Chain]:
    test = None if roles.test is None else _quota(roles.test, "roles.test")
    validation = _quota(roles.validation, "roles.validation")
    trains = "train" in reads
    if official:
        chains = [_Chain(_TEST, ((_TEST, test if trains else None),))]
        if has_validation:
            part = validation if trains and isinstance(validation, int) else None
            return [*chains, _Chain(_VALIDATION, ((_VALIDATION, part),)), _Chain(_TRAIN, ((_TRAIN, None),))]
        if trains:
            return [*chains, _Chain(_TRAIN, ((_VALIDATION, validation), (_TRAIN, None)))]
        return [*chains, _Chain(_TRAIN, ((_VALIDATION, None),))]
    if trains:
        return [_Chain(0, ((_TEST, Fraction(1, 5) if test is None else test), (_VALIDATION, validation), (_TRAIN, None)))]
    # Nothing trains on this source: its rows are for the roles that read it.
    if "validation" not in reads:
        return [_Chain(0, ((_TEST, None),))]
    return [_Chain(0, ((_VALIDATION, validation), (_TEST, None)) if "test" in reads else ((_VALIDATION, None),))]


def _official_parts(dataset: AttributedDataset, roles: Roles, needed: bool) -> tuple[NDArray[np.uint8] | None, bool]:
    """The official role of each row (3: none), None where there is no official split; whether it has validation rows."""
    official = roles.official
    if official is None or (not needed and official["column"] not in dataset.table.names):
        return None, False
    field = "roles.official"
    column = dataset.table.column(official["column"], f"{field}.column")
    attribute = dataset.table.attribute(official["column"], f"{field}.column")
    role_of = np.full(len(attribute.values), _UNUSED, dtype=np.uint8)
    for place, role in enumerate(ROLES):
        if official.get(role) is None:
            continue
        for code in codes_of(attribute, official[role], f"{field}.{role}"):
            if role_of[code] != _UNUSED:
                raise InputError(f"{field}.{role}", f"{attribute.values[code]!r} is also a value of {ROLES[role_of[code]]}")
            role_of[code] = place
    return role_of[column], official.get("validation") is not None
