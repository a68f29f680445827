"""Many JSON objects with the same names held by column: a number takes eight bytes instead of an
object of its own, and a name is held once.

The scores of 100,000 runs are twenty million numbers. As a dictionary a result they take several
GiB; here they take what an array of numbers does, and read as the dictionaries did.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import itemgetter
from sys import intern
from typing import Any, NamedTuple

from pydantic_core import from_json

MOST_SHAPES = 200
"""Different sequences of names whose objects are held by column; objects of further ones are
dictionaries."""
_NO_ITEMS: list[Any] = []
_ARRAY_CODES = {float: "d", int: "q"}
_KINDS = {
    int: "number",
    float: "number",
    bool: "number",
    str: "text",
    list: "list",
    dict: "mapping",
}


def parsed(text: str) -> Any:
    """The value of a JSON text, several times faster than `json.loads` and equal to the bit. Raises
    what that raises."""
    try:
        return from_json(text)
    except (TypeError, ValueError):
        return json.loads(text)  # takes halves of surrogate pairs, and says what is wrong


class ColumnRow(Mapping[str, Any]):
    """One of the objects that a `JsonColumns` holds, in its order of names."""

    __slots__ = ("_columns", "_row")

    def __init__(self, columns: Mapping[str, Sequence[Any]], row: int) -> None:
        self._columns, self._row = columns, row

    def __getitem__(self, name: str) -> Any:
        return self._columns[name][self._row]

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name; that of `Mapping` is several times slower."""
        column = self._columns.get(name)
        return default if column is None else column[self._row]

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return repr(dict(self))


def columns_of(rows: Sequence[Mapping[str, Any]]) -> Callable[[str], Sequence[Any]]:
    """A function that gives the values of a name in all `rows`, in their order; None in those that do not have
    it."""
    numbers_by_shape: dict[int, tuple[Mapping[str, Sequence[Any]], list[int], list[int]]] = {}
    for place, row in enumerate(rows):
        if not isinstance(row, ColumnRow):
            return lambda name: [row.get(name) for row in rows]
        columns = row._columns
        _, places, numbers = numbers_by_shape.setdefault(id(columns), (columns, [], []))
        places.append(place)
        numbers.append(row._row)
    # One call for all rows of a shape; with one number alone it would give the value itself.
    shapes = [
        (columns, places, itemgetter(*numbers, numbers[0]))
        for columns, places, numbers in numbers_by_shape.values()
    ]

    def column(name: str) -> Sequence[Any]:
        if len(shapes) == 1 and name in shapes[0][0]:
            return shapes[0][2](shapes[0][0][name])[:-1]
        values: list[Any] = [None] * len(rows)
        for columns, places, chosen in shapes:
            if name in columns:
                for place, value in zip(places, chosen(columns[name]), strict=False):
                    values[place] = value
        return values

    return column


def names_in(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names that some of `rows` have, in the order of their first."""
    names: dict[str, None] = {}
    looked_at: set[int] = set()
    for row in rows:
        if isinstance(row, ColumnRow):
            if id(row._columns) in looked_at:
                continue
            looked_at.add(id(row._columns))
        names.update(dict.fromkeys(row))
    return list(names)


class NamedColumns(NamedTuple):
    """The columns of objects that have the same names: of each name the values, an array where all
    are numbers of one type, and their types."""

    names: tuple[str, ...]
    columns: list[tuple[Sequence[Any], list[type]]]


class ColumnBatch(NamedTuple):
    """Objects by column, as one process hands them to another: `shape_of_object` has for each
    object the index of its columns in `shapes`, which hold their objects in that order."""

    shape_of_object: list[int]
    shapes: list[NamedColumns]


def column_batch(objects: Iterable[dict[str, Any]], without: Sequence[str] = ()) -> ColumnBatch:
    """Objects by column; the names that are left out are taken from them."""
    indices: dict[tuple[str, ...], int] = {}
    values_of_shape: list[list[tuple[Any, ...]]] = []
    shape_of_object: list[int] = []
    for values in objects:
        for name in without:
            values.pop(name, None)
        index = indices.setdefault(tuple(values), len(indices))
        if index == len(values_of_shape):
            values_of_shape.append([])
        values_of_shape[index].append(tuple(values.values()))
        shape_of_object.append(index)
    shapes = [
        NamedColumns(names, [_packed(values) for values in zip(*rows, strict=True)])
        for names, rows in zip(indices, values_of_shape, strict=True)
    ]
    return ColumnBatch(shape_of_object, shapes)


def _packed(values: Sequence[Any]) -> tuple[Sequence[Any], list[type]]:
    types = list(dict.fromkeys(map(type, values)))
    return _extended([], values, types), types


class JsonColumns:
    """Collects objects and holds them by column.

    `without`: names that are left out. `differing`: the first name that is of one kind (number,
    text, list, mapping) in one object and of another in another, and both kinds; None where there
    is none.
    """

    def __init__(self, without: Sequence[str] = ()) -> None:
        self.without = tuple(without)
        self._shapes: dict[tuple[str, ...], _SameNames] = {}
        self._kinds: dict[str, str] = {}
        self.differing: tuple[str, str, str] | None = None

    def add_batch(self, batch: ColumnBatch) -> list[Mapping[str, Any]]:
        """The objects of a batch, from which names were left out already, held by column."""
        numbers = Counter(batch.shape_of_object)
        rows_of_shape = [
            self._add_columns(shape, numbers[index]) for index, shape in enumerate(batch.shapes)
        ]
        return [next(rows_of_shape[index]) for index in batch.shape_of_object]

    def _add_columns(self, batch: NamedColumns, n_objects: int) -> Iterator[Mapping[str, Any]]:
        """The objects that have the same names, in their order."""
        shape = self._shapes.get(batch.names)
        for name, (_, types) in zip(batch.names, batch.columns, strict=True):
            self._note_kinds(name, types)
        if shape is None and len(self._shapes) == MOST_SHAPES:
            columns = [values for values, _ in batch.columns]
            rows = zip(*columns, strict=True) if columns else repeat((), n_objects)
            return (dict(zip(batch.names, row, strict=True)) for row in rows)
        if shape is None:
            shape = self._shapes[batch.names] = _SameNames(batch.names)
        for name, (values, types) in zip(batch.names, batch.columns, strict=True):
            shape.columns[name] = _extended(shape.columns[name], values, types)
        first = shape.rows
        shape.rows += n_objects
        return map(partial(ColumnRow, shape.columns), range(first, shape.rows))

    def _note_kinds(self, name: str, types: Sequence[type]) -> None:
        for of_type in types:
            if of_type is type(None):
                continue
            kind = _KINDS[of_type]
            known = self._kinds.setdefault(name, kind)
            if known != kind and self.differing is None:
                self.differing = name, known, kind


class _SameNames:
    """The columns of all objects that have the same names in the same order."""

    def __init__(self, names: Sequence[str]) -> None:
        self.columns: dict[str, array[Any] | list[Any]] = {intern(name): [] for name in names}
        self.rows = 0


def _extended(
    column: array[Any] | list[Any], values: Sequence[Any], types: Sequence[type]
) -> array[Any] | list[Any]:
    """A column with further values: an array of numbers while all are of one type, else a list."""
    code = _ARRAY_CODES.get(types[0]) if len(types) == 1 else None
    if not column:
        column = array(code) if code is not None else []
    if isinstance(column, array):
        if column.typecode == code:
            try:
                column.extend(array(code, values))
                return column
            except OverflowError:  # a whole number of more than 64 bits
                pass
        column = column.tolist()
    # One object for all values that are equal, where that is known at once.
    column.extend(map(intern, values) if types == [str] else map(_shared, values))
    return column


def _shared(value: Any) -> Any:
    """The same value, one object for all that are equal where that is known at once."""
    if type(value) is str:
        return intern(value)
    if value == []:
        return _NO_ITEMS
    return value
