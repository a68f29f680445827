"""The rows that a source's own column marks, such as its published test rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.shifts.base import Cells, NormalForm, Shift, codes_of, frozen

__all__ = ["Official"]


@register("official", kind="shift")
@final
@dataclass(frozen=True)
class Official(Shift):
    """Weight 1 on the rows whose split column has one of the named values, 0 on the others.

    A law of a set, not of training: which rows train is said by the roles. The column need not be an attribute of the study.
    """

    column: str = knob("split", doc="the column that holds the source's own split")
    values: Any = knob("test", doc="a value or a list of values of the column")
    version = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen(self.values))

    def normal_form(self, cells: Cells, field: str = "shift") -> NormalForm:
        """1 on the named values of the column."""
        axis = cells.axis(self.column, f"{field}.column")
        kept = np.zeros(cells.shape[axis])
        kept[codes_of(cells.axes[axis], self.values, f"{field}.values")] = 1.0
        return NormalForm(cells.shape, (cells.along([axis], kept),))

    def attributes(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)
