"""No shift: every cell weighs the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.registry import register
from crosswind.shifts.base import Cells, NormalForm, Shift


@register("uniform", kind="shift")
@final
@dataclass(frozen=True)
class Uniform(Shift):
    """No shift: weight 1 on every cell."""

    version = 1

    def normal_form(self, cells: Cells, field: str = "shift") -> NormalForm:
        """Weight 1 everywhere."""
        return NormalForm(cells.shape)

    def attributes(self) -> tuple[str, ...]:
        """None."""
        return ()
