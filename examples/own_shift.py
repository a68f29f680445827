"""Your own shift, in one file: what training draws, cell by cell, and what `&` makes of it.

A shift gives every cell (a combination of label and attribute values) a weight; drawing rows,
composing it with other shifts, checking studies and reporting follow from that. The shift below
makes an attribute's values ever rarer, each a fixed factor rarer than the one before (a long tail).
Takes about 2 seconds; nothing is trained.

    python examples/own_shift.py
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

import crosswind as cw
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.shifts.base import Cells, NormalForm, Shift


@register("long-tail", kind="shift")
@dataclass(frozen=True)
class LongTail(Shift):
    """Value i of an attribute has the weight factor ** i, in every class."""

    attribute: str = knob(doc="the attribute whose later values are rarer")
    factor: float = knob(0.5, domain="(0, 1]", doc="how much rarer a value is than the one before")
    version = 1

    def normal_form(self, cells: Cells, field: str = "shift") -> NormalForm:
        """factor ** i along the attribute's axis, 1 along the others."""
        axis = cells.axis(self.attribute, f"{field}.attribute")
        weights = float(self.factor) ** np.arange(cells.shape[axis])
        return NormalForm(cells.shape, (cells.along([axis], weights),))

    def attributes(self) -> tuple[str, ...]:
        """The attribute."""
        return (self.attribute,)


def main() -> dict[str, dict[str, int]]:
    digits = cw.load("digits")
    found = {}
    for title, shift in {
        "long tail of ink": LongTail("ink", 0.5),
        "long tail of ink, large digits unseen": (
            LongTail("ink", 0.5) & cw.UnseenData("size", "large")
        ),
    }.items():
        split = cw.split(digits, "digit", ["ink", "size"], shift, draw={"total": 280}, test=4)
        rows = split.train.rows
        found[title] = {}
        print(f"{title}: {len(rows)} training rows")
        for name in ("ink", "size"):
            attribute = digits.attribute(name)
            counts = Counter(
                attribute.values[code] for code in digits.table.column(name)[rows].tolist()
            )
            print(
                f"  {name}: " + ", ".join(f"{value} {counts[value]}" for value in attribute.values)
            )
            found[title] |= {f"{name}={value}": counts[value] for value in attribute.values}
    return found


if __name__ == "__main__":
    main()
