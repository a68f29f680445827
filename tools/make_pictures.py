"""Draws the pictures of docs/guides/shifts.md: the share of training rows in each cell of label and
attribute, under each shift.

    python -m tools.make_pictures

The numbers are those of the shift algebra itself, for cells that hold equally many rows; nothing is
drawn by hand.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

import crosswind as cw
from crosswind.data.attributes import Attribute
from crosswind.shifts.base import Cells, Shift

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"
CELLS = Cells(
    Attribute("digit", tuple("0123456789")),
    (Attribute("ink", ("red", "green", "blue")), Attribute("size", ("small", "medium", "large"))),
)
SC = cw.SpuriousCorrelation("ink", counterexamples=0.2)
LDD = cw.LowDataDrift("size", low="large", ratio=0.1)
UDS = cw.UnseenData("size", unseen="large")

# picture -> panels: title, shift, the attribute that is shown
PICTURES: dict[str, list[tuple[str, Shift, str]]] = {
    "single": [
        ("none", cw.Uniform(), "ink"),
        ("SC: ink goes with digit", SC, "ink"),
        ("LDD: large is rare", LDD, "size"),
        ("UDS: large is never seen", UDS, "size"),
    ],
    "composed": [
        ("SC & UDS, by ink", SC & UDS, "ink"),
        ("SC & UDS, by size", SC & UDS, "size"),
        ("SC & LDD, by ink", SC & LDD, "ink"),
        ("SC & LDD, by size", SC & LDD, "size"),
    ],
}


def shares(shift: Shift) -> NDArray[np.float64]:
    """The expected share of training rows in each cell: by weights, and what the supplements add.
    Sums to 1."""
    form = shift.normal_form(CELLS)
    by_weights = np.broadcast_to(form.weights, CELLS.shape) / form.weights.sum()
    out = by_weights.astype(float).copy()
    for item in form.supplements:
        assert item.share is not None, "a count has no share without a number of rows"
        out += float(item.share) * item.region / item.region.sum()
    return out / out.sum()


def panel(shift: Shift, attribute: str) -> NDArray[np.float64]:
    """p(label, attribute) under a shift: [classes, values of the attribute]."""
    axis = CELLS.axis(attribute, "attribute")
    others = tuple(place for place in range(1, len(CELLS.shape)) if place != axis)
    return shares(shift).sum(axis=others)


def chart(title: str, shift: Shift, attribute: str) -> alt.Chart:
    """One heat map, label down, attribute across, each cell with its share in per cent."""
    table = panel(shift, attribute)
    values = CELLS.axes[CELLS.axis(attribute, "attribute")].values
    rows = [
        {"digit": label, attribute: value, "share": round(100 * float(table[i, j]), 4)}
        for i, label in enumerate(CELLS.label.values)
        for j, value in enumerate(values)
    ]
    base = alt.Chart(alt.Data(values=rows), title=title, width=150, height=230).encode(
        x=alt.X(f"{attribute}:N", sort=list(values), axis=alt.Axis(labelAngle=0, orient="bottom")),
        y=alt.Y("digit:O"),
    )
    colour = alt.Color(
        "share:Q", scale=alt.Scale(range=["#ffffff", "#08519c"], domain=[0, 10]), legend=None
    )
    text = alt.condition("datum.share > 5", alt.value("white"), alt.value("#333"))
    return base.mark_rect(stroke="#ddd").encode(color=colour) + base.mark_text(fontSize=10).encode(
        text=alt.Text("share:Q", format=".1f"), color=text
    )


def main() -> None:
    """Write one PNG a picture."""
    import vl_convert
    from PIL import Image

    FOLDER.mkdir(exist_ok=True)
    for name, panels in PICTURES.items():
        picture: Any = (
            alt.hconcat(*(chart(*item) for item in panels))
            .configure(background="white")
            .configure_view(stroke=None)
        )
        with Image.open(
            io.BytesIO(vl_convert.vegalite_to_png(picture.to_json(), ppi=110))
        ) as drawn:
            # A palette is a fifth of the size.
            drawn.convert("RGB").quantize(48).save(FOLDER / f"{name}.png", optimize=True)
        print(f"wrote docs/pictures/{name}.png, {(FOLDER / f'{name}.png').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
