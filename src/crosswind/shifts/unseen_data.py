"""Unseen data shift: values of an attribute that training never shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from crosswind.core.errors import InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.shifts.base import Cells, NormalForm, Shift, codes_of, frozen


@register("unseen-data", kind="shift")
@final
@dataclass(frozen=True)
class UnseenData(Shift):
    """Weight 0 on the unseen values of an attribute, 1 on the others.

    Wiles et al. 2022 (equation 2) ask for more than one seen value; Jeon et al. 2025 also train on
    one. One is allowed and warned of; none is an error.
    """

    attribute: str = knob(doc="the attribute some of whose values are unseen")
    unseen: Any = knob(
        "last", doc='a value or a list of values; "first" and "last" name the ends of the list'
    )
    version = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "unseen", frozen(self.unseen))

    def normal_form(self, cells: Cells, field: str = "shift") -> NormalForm:
        """0 on the unseen values."""
        axis = cells.axis(self.attribute, f"{field}.attribute")
        weights = np.ones(cells.shape[axis])
        weights[codes_of(cells.axes[axis], self.unseen, f"{field}.unseen")] = 0.0
        if not weights.any():
            raise InputError(
                f"{field}.unseen", f"leaves no value of {self.attribute!r} to train on"
            )
        factors = (cells.along([axis], weights),)
        return NormalForm(cells.shape, factors)

    def attributes(self) -> tuple[str, ...]:
        """The attribute."""
        return (self.attribute,)

    def warnings(self, cells: Cells) -> tuple[str, ...]:
        """A warning where a single value is left."""
        attribute = cells.axes[cells.axis(self.attribute, "shift.attribute")]
        hidden = set(codes_of(attribute, self.unseen, "shift.unseen"))
        left = [value for code, value in enumerate(attribute.values) if code not in hidden]
        if len(left) > 1:
            return ()
        return (f"unseen-data leaves a single value of {self.attribute!r} in training: {left[0]}",)
