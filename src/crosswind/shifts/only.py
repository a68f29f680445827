"""Only some values of an attribute: how seen and unseen cells, domains and left-out domains become sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.shifts.base import Cells, NormalForm, Shift, codes_of, frozen

__all__ = ["Only"]


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
        axis = cells.axis(self.attribute, f"{field}.attribute")
        kept = np.zeros(cells.shape[axis])
        kept[codes_of(cells.axes[axis], self.values, f"{field}.values")] = 1.0
        return NormalForm(cells.shape, (cells.along([axis], kept),))

    def attributes(self) -> tuple[str, ...]:
        """The attribute."""
        return (self.attribute,)
