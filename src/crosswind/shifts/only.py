"""Only some values of an attribute, or of a source's own split column: seen and unseen cells,
domains, published test rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.shifts.base import Cells, NormalForm, Shift, codes_of, frozen


@register("only", kind="shift")
@final
@dataclass(frozen=True)
class Only(Shift):
    """Weight 1 on the named values of an attribute (or classes of the label), 0 on the others."""

    attribute: str = knob(doc="the attribute, or the label")
    values: Any = knob(doc="a value or a list of values that stay")
    version = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen(self.values))

    def normal_form(self, cells: Cells, field: str = "shift") -> NormalForm:
        """1 on the named values."""
        return _kept(cells, self.attribute, self.values, f"{field}.attribute", f"{field}.values")

    def attributes(self) -> tuple[str, ...]:
        """The attribute."""
        return (self.attribute,)


@register("official", kind="shift")
@final
@dataclass(frozen=True)
class Official(Shift):
    """Weight 1 on the rows whose split column has one of the named values, 0 on the others.

    A law of a set, not of training: which rows train is said by the roles. The column need not be
    an attribute of the study.
    """

    column: str = knob("split", doc="the column that holds the source's own split")
    values: Any = knob("test", doc="a value or a list of values of the column")
    version = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen(self.values))

    def normal_form(self, cells: Cells, field: str = "shift") -> NormalForm:
        """1 on the named values of the column."""
        return _kept(cells, self.column, self.values, f"{field}.column", f"{field}.values")

    def attributes(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)


def _kept(cells: Cells, name: str, values: Any, axis_field: str, values_field: str) -> NormalForm:
    axis = cells.axis(name, axis_field)
    weights = np.zeros(cells.shape[axis])
    weights[codes_of(cells.axes[axis], values, values_field)] = 1.0
    factors = (cells.along([axis], weights),)
    return NormalForm(cells.shape, factors)
