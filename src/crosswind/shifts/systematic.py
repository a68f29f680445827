"""Systematic shift: which classes are seen in which environments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from crosswind.core.errors import InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.shifts.base import Cells, NormalForm, Shift, code_of, codes_of


@register("systematic", kind="shift")
@final
@dataclass(frozen=True)
class Systematic(Shift):
    """Weight 1 where an environment's list names the class, 0 elsewhere; an environment that is not named is unseen.

    Omran and Schiele 2022: some classes are seen in some environments, and robustness is measured on the pairs kept apart.
    """

    environment: str = knob(doc="the attribute whose values are the environments")
    classes: Any = knob(doc='a map from environment to its list of classes, or to "all"')
    version = 1

    def normal_form(self, cells: Cells, field: str = "shift") -> NormalForm:
        """1 on the named pairs of class and environment."""
        axis = cells.axis(self.environment, f"{field}.environment")
        if axis == 0:
            raise InputError(f"{field}.environment", f"{self.environment!r} is the label", cells.names[1:])
        if not isinstance(self.classes, Mapping) or not self.classes:
            raise InputError(f"{field}.classes", "must be a map from environment to its list of classes", cells.axes[axis].values)
        together = np.zeros((cells.shape[0], cells.shape[axis]))
        for value, classes in self.classes.items():
            path = f"{field}.classes.{value}"
            code = code_of(cells.axes[axis], value, f"{field}.classes")
            if classes == "all" and "all" not in cells.label.values:
                together[:, code] = 1.0
            else:
                together[codes_of(cells.label, classes, path), code] = 1.0
        return NormalForm(cells.shape, (cells.along([0, axis], together),))

    def attributes(self) -> tuple[str, ...]:
        """The environment."""
        return (self.environment,)

    def warnings(self, cells: Cells) -> tuple[str, ...]:
        """A warning that names the classes that no environment shows."""
        seen = self.normal_form(cells).weights.reshape(cells.shape[0], -1).max(axis=1) > 0
        never = [value for value, shown in zip(cells.label.values, seen, strict=True) if not shown]
        return (f"systematic shows no environment of {cells.label.name} {', '.join(never)}",) if never else ()
