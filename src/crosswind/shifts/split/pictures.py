"""Which rows show one picture, so that a picture has one role in a study, whichever data set shows
it.

Rows are compared by the names that data sets give to what they show (`origin`, `originals`,
`contents`), and by the bytes of their `files`; no pixel is decoded here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, counted
from crosswind.data.contents import names_of
from crosswind.data.dataset import AttributedDataset

FREE = 255
"""The role of a row whose picture no other data set holds."""
_TEST, _VALIDATION, _TRAIN, _UNUSED = range(4)

OF_FILES = (
    "rows are compared by the bytes of their files; equal pixels in files of different bytes cannot"
    " be hashed before planning, and are refused where they would train and test, before anything"
    " is trained"
)
"""What a plan says of files that are read as they are."""

Ints = NDArray[np.int64]
RoleOf = NDArray[np.uint8]


def joined_units(dataset: AttributedDataset) -> Ints | None:
    """Units int64 [n] that never hold a picture apart: the data set's own, those with a picture in
    common made one.

    None where no two of them have one, so that they (or rows) are dealt as they are. A joined unit
    has the number of its least. Found once for a data set, by a sort of its names.
    """
    key = "joined units"
    if key not in dataset.cache:
        names = [each for each in (dataset.originals, *held_by(dataset)) if each is not None]
        repeated = any(len(np.unique(each)) < len(each) for each in names)
        dataset.cache[key] = _joined(_own(dataset), names) if repeated else None
    joined: Ints | None = dataset.cache[key]
    return joined


def check_training_pool(dataset: AttributedDataset, rows: int) -> None:
    """Raises `InputError` where no row is left to train on, `rows` of them, because sets that are
    tested and validated on take all, or too many rows hold the same or are of one unit."""
    if rows:
        return
    joined = joined_units(dataset)
    if joined is None and dataset.units is not None:
        n_units = len(np.unique(dataset.units))
        problem = (
            f"leave no row to train on: the {len(dataset.units):,} rows of {dataset.name} are of"
            f" {counted(n_units, 'unit')}, and all rows of a unit have one role; give fewer rows to"
            " tests and validation, or a unit of more values"
        )
        raise InputError("roles", problem)
    if joined is None:
        raise InputError(
            "roles",
            f"leave no row to train on: test and validation take all {dataset.n_base:,} rows of"
            f" {dataset.name}; have them take fewer",
        )
    units = len(np.unique(joined))
    if units > 1:
        contents = f"are only {units:,} different {dataset.shows}s"
    else:
        contents = f"hold one and the same {dataset.shows}"
    problem = (
        f"leave no row to train on: the {len(joined):,} rows of {dataset.name} {contents}, and one"
        " that tests does not train"
    )
    raise InputError("roles", problem)


def held_by(dataset: AttributedDataset) -> list[NDArray[np.uint64]]:
    """Names of what each row holds, uint64 [n]: of its contents, and of the bytes of its file, as
    far as they are known."""
    names = [] if dataset.contents is None else [dataset.contents]
    if dataset.files is None:
        return names
    return [*names, dataset.files.names()]


class Shown(Protocol):
    """An object with a data set and its name in a study, such as a set."""

    @property
    def source(self) -> str:
        """The name."""

    @property
    def dataset(self) -> AttributedDataset:
        """The data set."""


def said_of_copies(sets: Iterable[Shown], label: str) -> list[str]:
    """Of each data set, how many rows hold what others hold, and where the labels of such rows
    contradict each other."""
    sentences = []
    for name, dataset in _by_name(sets).items():
        rows, different = copies_in(dataset)
        if not rows:
            continue
        row_name = "rows of numbers"
        if dataset.input is None or dataset.input.kind in ("image", "text"):
            row_name = f"{dataset.shows}s"
        sentences.append(
            f"{name}: {rows:,} rows hold {different:,} {row_name} that other rows hold too; each"
            " has one role"
        )
        contradiction = None
        if label in dataset.table.names:
            contradiction = contradicted(dataset, label)
        if contradiction is not None:
            number, pair = contradiction
            classes = dataset.table.attribute(label).values
            codes = dataset.table.column(label)
            shown = " and ".join(
                f"{dataset.ids[row] + 1:,} ({classes[codes[row]]})" for row in pair
            )
            sentences.append(
                f"{name}: {number:,} of these stand in rows of different labels, such as rows"
                f" {shown}"
            )
    return sentences


def said_of_rows(sets: Iterable[Shown], attributes: Sequence[str]) -> list[str]:
    """The statements of data sets on their rows and on some attributes, and what is not known of
    their rows before they are read."""
    return [
        text
        for name, dataset in _by_name(sets).items()
        for text in said_of_data(name, dataset, attributes)
    ]


def said_of_data(name: str, dataset: AttributedDataset, attributes: Sequence[str]) -> list[str]:
    """The same of one data set."""
    sentences = [f"{name}: {text}" for about, text in dataset.notes if about in ("", *attributes)]
    if dataset.files is None:
        return sentences
    return [*sentences, f"{name}: {OF_FILES}"]


def _by_name(sets: Iterable[Shown]) -> dict[str, AttributedDataset]:
    return {each.source: each.dataset for each in sets}


def copies_in(dataset: AttributedDataset) -> tuple[int, int]:
    """The rows that hold what another row of the data set holds, and how many different things that
    is."""
    key = "copies"
    if key not in dataset.cache:
        counts = [np.unique(names, return_counts=True)[1] for names in held_by(dataset)]
        repeated = [each[each > 1] for each in counts]
        dataset.cache[key] = max(
            ((int(each.sum()), len(each)) for each in repeated), default=(0, 0)
        )
    counted: tuple[int, int] = dataset.cache[key]
    return counted


def contradicted(dataset: AttributedDataset, label: str) -> tuple[int, tuple[int, int]] | None:
    """How many things are held by rows of different labels, and two such rows; None for none."""
    key = ("contradicted", label)
    if key not in dataset.cache:
        codes = dataset.table.column(label)
        dataset.cache[key] = next(
            filter(None, (_contradicted(names, codes) for names in held_by(dataset))), None
        )
    contradiction: tuple[int, tuple[int, int]] | None = dataset.cache[key]
    return contradiction


def _contradicted(
    names: NDArray[np.uint64], codes: NDArray[Any]
) -> tuple[int, tuple[int, int]] | None:
    order = np.argsort(names, kind="stable")
    same = names[order[1:]] == names[order[:-1]]
    contradicting = same & (codes[order[1:]] != codes[order[:-1]])
    positions = np.flatnonzero(contradicting)
    if not len(positions):
        return None
    return len(np.unique(names[order[positions]])), (
        int(order[positions[0]]),
        int(order[positions[0] + 1]),
    )


def apart(
    units: Ints, dataset: AttributedDataset, official_role: RoleOf, read: Sequence[int]
) -> tuple[Ints, int]:
    """Joined units cut by the parts of an official split, int64 [n], and how many of them that
    cuts.

    `official_role`: the official role of each row; `read`: those whose rows the study reads, which
    alone
    count.
    """
    _, unit_of = np.unique(units, return_inverse=True)
    bits = np.uint8(1) << official_role
    roles_of_unit = _in_any_row(unit_of, bits) & sum(1 << role for role in set(read))
    _, group = np.unique(unit_of * 4 + official_role, return_inverse=True)
    return _least(group, _own(dataset)), int(((roles_of_unit & (roles_of_unit - 1)) > 0).sum())


def share(one: AttributedDataset, other: AttributedDataset) -> bool:
    """Whether two data sets have a picture in common."""
    return any(np.isin(theirs, ours).any() for theirs, ours in _names(one, other))


def roles_elsewhere(
    dataset: AttributedDataset, dealt: Iterable[tuple[AttributedDataset, RoleOf]]
) -> RoleOf:
    """The role that each row's picture has in data sets that were dealt before: uint8 [n], `FREE`
    where none holds it.

    `dealt`: data sets and the role of each of their rows. A picture of a unit (see `joined_units`)
    counts for all its rows. A unit that trains, or validates in one data set and tests in another,
    is left out: role 3.
    """
    held_as = np.zeros(dataset.n_base, dtype=np.uint8)
    for other_dataset, roles in dealt:
        held_as |= held(dataset, other_dataset, roles)
    units = joined_units(dataset)
    units = dataset.units if units is None else units
    if units is not None:
        _, unit_of = np.unique(units, return_inverse=True)
        held_as = _in_any_row(unit_of, held_as)[unit_of]
    role_of = np.full(8, _UNUSED, dtype=np.uint8)
    role_of[0], role_of[1 << _TEST], role_of[1 << _VALIDATION] = FREE, _TEST, _VALIDATION
    return role_of[held_as]


def held(dataset: AttributedDataset, other: AttributedDataset, roles: RoleOf) -> RoleOf:
    """For each row the roles that its picture has in `other`, uint8 [n]: bit 0 test, 1 validation,
    2 training."""
    held_as = np.zeros(dataset.n_base, dtype=np.uint8)
    for ours, theirs in _names(dataset, other):
        for role in (_TEST, _VALIDATION, _TRAIN):
            held_as |= np.isin(ours, theirs[roles == role]).astype(np.uint8) << role
    return held_as


def rows_that_trained(
    dataset: AttributedDataset, rows: Ints, trained: AttributedDataset, train_rows: Ints
) -> int:
    """How many base rows of a data set show what base rows of another, or of the same, that trained
    a model show."""
    roles = np.full(trained.n_base, FREE, dtype=np.uint8)
    roles[train_rows] = _TRAIN
    return int((held(dataset, trained, roles)[rows] > 0).sum())


def _in_any_row(unit_of: Ints, bits: RoleOf) -> RoleOf:
    """The bits of all rows of each unit."""
    out = np.zeros(int(unit_of.max()) + 1, dtype=np.uint8)
    np.bitwise_or.at(out, unit_of, bits)
    return out


def _own(dataset: AttributedDataset) -> Ints:
    if dataset.units is None:
        return dataset.ids
    return dataset.units


def _names(
    one: AttributedDataset, other: AttributedDataset
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """The names of both by which their rows may be compared."""
    if one.origin == other.origin:
        ours = one.ids.astype(np.uint64) if one.originals is None else one.originals
        theirs = other.ids.astype(np.uint64) if other.originals is None else other.originals
        yield ours, theirs
    if one.contents is not None and other.contents is not None:
        yield one.contents, other.contents
    if one.files is not None and other.files is not None:
        sets = [one.files, other.files]
        ours, theirs = names_of(sets)
        yield ours, theirs


def _joined(units: Ints, names: list[NDArray[Any]]) -> Ints | None:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    # A graph of rows, units and names, in which a row is tied to its unit and to its names.
    n = len(units)
    size = len(units)
    ties = []
    for each in (units, *names):
        _, code_of = np.unique(each, return_inverse=True)
        ties.append(code_of.ravel() + size)
        size += int(code_of.max()) + 1
    rows = np.tile(np.arange(n), len(ties))
    shape = (size, size)
    graph = coo_array(
        (np.ones(len(rows), dtype=np.uint8), (rows, np.concatenate(ties))), shape=shape
    )
    group = connected_components(graph, directed=False)[1][:n].astype(np.int64)
    joined = _least(group, units)
    if (joined == units).all():
        return None
    return joined


def _least(group: Ints, units: Ints) -> Ints:
    """For each row the least unit of its group."""
    out = np.full(int(group.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(out, group, units)
    least: Ints = out[group]
    return least
