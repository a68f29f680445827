"""How many rows a law asks for: the draw modes, and the condition that fixes the size of the
training set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from crosswind.core.errors import InputError, shown
from crosswind.shifts.base import exact

_MODES = ("base", "total", "all")


@final
@dataclass(frozen=True)
class Draw:
    """How many rows.

    `base`: weight x value rows a cell, supplements on top. `total`: value rows in all, supplements
    among them. `all`: every row of the cells of the heaviest weight, lighter cells in proportion,
    supplements on top.
    """

    mode: str
    value: Fraction | None = None


ALL_ROWS = Draw("all")


@final
@dataclass(frozen=True)
class DatasetSize:
    """A condition: `rows` training rows, supplements among them, whatever the study's draw says."""

    rows: int

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise InputError(
                "dataset_size", f"must be a whole number of rows of at least 1, not {self.rows!r}"
            )

    def draw(self) -> Draw:
        """The draw that gives that many rows."""
        return Draw("total", Fraction(self.rows))


def parse_draw(spec: Any, field: str = "draw") -> Draw:
    """The draw that plain values name: 40 or {"base": 40}, {"total": 1091}, "all". Raises
    `InputError`."""
    if isinstance(spec, Draw):
        return spec
    if spec == "all":
        return ALL_ROWS
    where = field
    if isinstance(spec, int | float) and not isinstance(spec, bool):
        spec = {"base": spec}
    elif isinstance(spec, Mapping) and len(spec) == 1:
        where = f"{field}.{next(iter(spec))}"
    if not isinstance(spec, Mapping) or len(spec) != 1 or next(iter(spec)) not in _MODES:
        raise InputError(
            field,
            "must be rows a cell, {base: rows a cell}, {total: rows} or all, not"
            f" {shown(spec)}",
        )
    mode, value = next(iter(spec.items()))
    if mode == "all":
        return ALL_ROWS
    number = exact(value, where)
    if number <= 0 or (mode == "total" and number.denominator != 1):
        allowed = "a number above 0" if mode == "base" else "a whole number of rows of at least 1"
        raise InputError(where, f"must be {allowed}, not {shown(value)}")
    return Draw(mode, number)


def parse_size(spec: Any, field: str = "dataset_size") -> DatasetSize | None:
    """The size that a number of rows names; null is no condition. Raises `InputError`."""
    if spec is None or isinstance(spec, DatasetSize):
        return spec
    if isinstance(spec, bool) or not isinstance(spec, int) or spec < 1:
        raise InputError(field, f"must be a whole number of rows of at least 1, not {shown(spec)}")
    return DatasetSize(spec)
