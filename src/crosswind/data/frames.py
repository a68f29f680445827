"""Tables of a running program as polars frames: of polars, pandas and Arrow, and mappings from name to
values."""

from __future__ import annotations

import contextlib
import datetime
import decimal
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crosswind.core.errors import DataError, InputError, shown

if TYPE_CHECKING:
    from polars import DataFrame, Series

FRAMES = ("a polars, pandas or Arrow frame", "a mapping from name to values")
"""What `frame_of` takes."""
_NESTED = (list, tuple, dict, set, frozenset, np.ndarray)
_FRACTIONS = {int, float, decimal.Decimal}
_BEYOND_INT64 = 2**62
"""Whole numbers from here on are names, such as identifiers, and are kept as text."""


def frame_of(table: Any, field: str, kinds: Sequence[str] = FRAMES) -> DataFrame:
    """A polars, pandas or Arrow frame, or a mapping from name to values, as a polars frame.

    Missing values are null. Numbers are numbers whatever holds them (objects, nullable columns,
    `Decimal`). Bytes that are UTF-8 are text, and so are columns of mixed values. A column without a
    name is called by its number. Named levels of an index of pandas whose values repeat are columns.

    `field` names the table in errors, `kinds` say what is taken. Raises `InputError` for something
    else, `DataError` for columns of other lengths and for two of one name.
    """
    import polars

    package = type(table).__module__.partition(".")[0]
    if isinstance(table, polars.DataFrame):
        return with_texts(_named(table))
    if package == "pyarrow" and hasattr(table, "schema"):
        _refuse_twice(table.schema.names, field)
        return with_texts(_named(polars.DataFrame(polars.from_arrow(table))))
    if isinstance(table, Mapping):
        return _framed({str(name): values for name, values in table.items()}, field)
    if package == "pandas" and hasattr(table, "columns"):
        _refuse_twice(map(str, table.columns), field)
        columns = {str(name): table[name] for name in table.columns}
        return _framed({**_levels(table.index, columns), **columns}, field)
    raise InputError(field, f"must be a table, not {shown(table)}{_remedy(table)}", kinds)


def _levels(index: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The levels of an index of pandas that are columns: those with a name of which values repeat. A
    level that tells all rows apart only names them."""
    levels = {}
    for position, name in enumerate(index.names):
        if name is None or str(name) in columns:
            continue
        values = index.get_level_values(position)
        if not values.is_unique:
            levels[str(name)] = values.to_series()
    return levels


def _remedy(table: Any) -> str:
    """How somebody makes a frame of what is nearly one; empty for other things."""
    name = type(table).__name__
    if name == "LazyFrame":
        return "; collect it first: .collect()"
    if name == "Series":
        return ", which is one column; .to_frame() makes a frame of it"
    if isinstance(table, np.ndarray) and table.dtype.names:
        return "; pandas.DataFrame.from_records(...) makes a frame of it"
    if isinstance(table, list | tuple) and table and isinstance(table[0], Mapping):
        return "; pandas.DataFrame(...) or polars.DataFrame(...) makes a frame of rows"
    return ""


def _refuse_twice(names: Iterable[str], field: str) -> None:
    """Raise `DataError` for two columns of one name."""
    for name, number in Counter(names).items():
        if number > 1:
            raise DataError(f"{_called(field)} names column {name!r} twice; rename or drop one")


def _called(field: str) -> str:
    """A table by the name of the argument that it is."""
    return f"the {field}" if field in ("frame", "table") else f"the {field} frame"


def _named(frame: DataFrame) -> DataFrame:
    """The frame with names for columns that have none, or white space alone."""
    names = {
        name: f"column{number}"
        for number, name in enumerate(frame.columns, start=1)
        if not name.strip()
    }
    return frame.rename(names) if names else frame


def with_texts(frame: DataFrame) -> DataFrame:
    """The frame with columns of bytes as text where all of it is UTF-8: some programs write texts
    so."""
    import polars

    columns = []
    for name, kind in frame.schema.items():
        if kind == polars.Binary:
            try:
                columns.append(frame.get_column(name).cast(polars.String))
            except polars.exceptions.PolarsError:
                continue
    return frame.with_columns(columns) if columns else frame


def _framed(columns: Mapping[str, Any], field: str) -> DataFrame:
    import polars

    series_of: dict[str, Series] = {}
    for name, values in columns.items():
        unordered = isinstance(values, set | frozenset | Mapping)
        if unordered or isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
            raise InputError(
                field,
                f"column {name!r} must be a list of values, a row each, not {shown(values)}",
            )
        series = values.alias(name) if isinstance(values, polars.Series) else _numbers(name, values)
        if series is None:
            listed = values.tolist() if hasattr(values, "tolist") else list(values)
            series = _series(name, listed)
        series_of[name] = series
        first = next(iter(series_of))
        if len(series_of[name]) != len(series_of[first]):
            n_first = len(series_of[first])
            problem = (
                f"column {name!r} of {_called(field)} has {len(series_of[name]):,} rows, and"
                f" {first!r} has {n_first:,}"
            )
            raise DataError(problem)
    return with_texts(_named(polars.DataFrame(series_of)))


def _numbers(name: str, values: Any) -> Series | None:
    """A column of numbers or truths that an array holds, taken as it is; None for any other."""
    import polars

    if not isinstance(values, np.ndarray) and not hasattr(values, "to_numpy"):
        return None
    if isinstance(values, np.ma.MaskedArray):  # which lists its masked cells as None
        return None
    array = values if isinstance(values, np.ndarray) else values.to_numpy()
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        return None
    if array.dtype.kind == "b":
        return polars.Series(name, array)
    if array.dtype.kind == "f":
        return polars.Series(name, array.astype(np.float64), nan_to_null=True)
    if array.size and max(int(array.max()), -int(array.min())) >= _BEYOND_INT64:
        return None
    return polars.Series(name, array.astype(np.int64))


def _series(name: str, values: Sequence[Any]) -> Series:
    """A column of Python's or NumPy's values, of the type that all of them have."""
    import polars

    cells = [_plain(value) for value in values]
    kinds = {type(value) for value in cells} - {type(None)}
    if any(issubclass(kind, _NESTED) for kind in kinds):
        return _nested(name, cells)
    if kinds in ({bool}, {bytes}):
        return polars.Series(name, cells)
    if kinds == {int} and max(map(abs, filter(None, cells)), default=0) < _BEYOND_INT64:
        return polars.Series(name, cells, dtype=polars.Int64)
    if kinds and kinds <= _FRACTIONS and kinds != {int}:
        return polars.Series(name, _each(float, cells), dtype=polars.Float64)
    if kinds and all(issubclass(kind, datetime.timedelta) for kind in kinds):
        return polars.Series(name, cells, dtype=polars.Duration("us"))
    # Columns of mixed values, such as text and numbers, are text.
    return polars.Series(name, _each(str, cells), dtype=polars.String)


def _each(kind: Callable[[Any], Any], cells: Sequence[Any]) -> list[Any]:
    """The cells as another type, missing ones as they are."""
    return [None if value is None else kind(value) for value in cells]


def _nested(name: str, cells: list[Any]) -> Series:
    """A column of lists or the like, as polars has it where all are of one kind."""
    import polars

    try:
        return polars.Series(name, cells)
    except (polars.exceptions.PolarsError, TypeError, ValueError):
        return polars.Series(name, cells, dtype=polars.Object)


def _plain(value: Any) -> Any:
    """A cell as Python has it: a scalar of NumPy as its value, UTF-8 as text, a missing value as
    None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        with contextlib.suppress(UnicodeDecodeError):
            return value.decode()
    return None if _lacks(value) else value


def _lacks(value: object) -> bool:
    """None, a NaN, and what pandas writes for a missing value or time."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float | decimal.Decimal) and value != value)
    )
