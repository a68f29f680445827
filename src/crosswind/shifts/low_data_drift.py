"""Low data drift: some values of an attribute are rare in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.shifts.base import (
    Cells,
    NormalForm,
    Shift,
    Supplement,
    code_of,
    codes_of,
    exact,
    frozen,
)


@register("low-data-drift", kind="shift")
@final
@dataclass(frozen=True)
class LowDataDrift(Shift):
    """A small weight on the low values of an attribute, or a fixed number of rows from them.

    With `ratio` the low values weigh `high` x ratio and the others `high`; a ratio may differ by
    class. With `count` the low values weigh 0 and that many rows are drawn from them on top (Wiles
    et al. 2022). Jeon et al. 2025: low "last", high 3, ratio {default: 1/3, last: 0}.
    """

    attribute: str = knob(doc="the attribute some of whose values are rare")
    low: Any = knob(
        "last", doc='a value or a list of values; "first" and "last" name the ends of the list'
    )
    ratio: Any | None = knob(
        None,
        doc='a number in [0, 1], text such as "1/3", or a map from class (or "default") to these',
    )
    count: int | None = knob(None, domain="[0, inf)", doc="rows drawn from the low values")
    high: float = knob(1.0, domain="(0, inf)", doc="the weight of the other values")
    version = 1
    numbers = ("ratio", "high")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "low", frozen(self.low))

    def normal_form(self, cells: Cells, field: str = "shift") -> NormalForm:
        """`high` on the other values; on the low ones `high` x ratio, or 0 and a supplement."""
        axis = cells.axis(self.attribute, f"{field}.attribute")
        if axis == 0 and isinstance(self.ratio, Mapping):
            raise InputError(
                f"{field}.ratio", "a ratio cannot differ by class where the label itself is rare"
            )
        low = codes_of(cells.axes[axis], self.low, f"{field}.low")
        if len(low) == cells.shape[axis]:
            problem = f"leaves no other value of {self.attribute!r}"
            raise InputError(f"{field}.low", problem, cells.axes[axis].values)
        if (self.ratio is None) == (self.count is None):
            raise InputError(f"{field}.ratio", "give either ratio or count, one of them")
        high = exact(self.high, f"{field}.high")
        if high == 0:
            raise InputError(f"{field}.high", "must be above 0")
        is_low = np.zeros(cells.shape[axis], dtype=bool)
        is_low[low] = True
        if self.count is not None:
            if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 0:
                raise InputError(
                    f"{field}.count", f"must be a whole number of rows, not {self.count!r}"
                )
            weights = np.where(is_low, 0.0, float(high))
            region = np.broadcast_to(cells.along([axis], is_low), cells.shape).copy()
            values = ", ".join(str(cells.axes[axis].values[code]) for code in low)
            rare_rows = Supplement(
                region,
                count=self.count,
                content=f"rows of {self.attribute} {values}",
                effect=f": training never shows {self.attribute} {values}",
            )
            supplements = (rare_rows,) if self.count else ()
            return NormalForm(cells.shape, (cells.along([axis], weights),), supplements)
        if not isinstance(self.ratio, Mapping):
            weight = float(high * exact(self.ratio, f"{field}.ratio", 0, 1))
            factors = (cells.along([axis], np.where(is_low, weight, float(high))),)
            return NormalForm(cells.shape, factors)
        by_class = self._by_class(cells, self.ratio, high, f"{field}.ratio")
        weights = np.where(is_low[None, :], by_class[:, None], float(high))
        return NormalForm(cells.shape, (cells.along([0, axis], weights),))

    def attributes(self) -> tuple[str, ...]:
        """The attribute."""
        return (self.attribute,)

    def _by_class(
        self, cells: Cells, by_class: Mapping[str, Any], high: Fraction, field: str
    ) -> NDArray[np.float64]:
        ratios = dict(by_class)
        default = None
        if "default" not in cells.label.values:
            default = ratios.pop("default", None)
        ratio_of_class = {
            code_of(cells.label, name, field): exact(ratio, f"{field}.{name}", 0, 1)
            for name, ratio in ratios.items()
        }
        out = np.empty(len(cells.label.values))
        for code, name in enumerate(cells.label.values):
            if code not in ratio_of_class and default is None:
                problem = f"names neither {cells.label.name} {name!r} nor a default"
                raise InputError(field, problem)
            if code in ratio_of_class:
                ratio = ratio_of_class[code]
            else:
                ratio = exact(default, f"{field}.default", 0, 1)
            out[code] = float(high * ratio)
        return out
