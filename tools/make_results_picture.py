"""Draws the picture of docs/papers/renditions.md, and prints its table, from the numbers that the study's
report wrote.

crosswind report pacs-out --no-page --format csv --out benchmarks/results/pacs-leave-one-out
python -m tools.make_results_picture
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import altair as alt

ROOT = Path(__file__).resolve().parents[1]
NUMBERS = ROOT / "benchmarks" / "results" / "pacs-leave-one-out" / "numbers.csv"
PICTURE = ROOT / "docs" / "results" / "pacs-leave-one-out.svg"
TARGETS = ("photo", "art_painting", "cartoon", "sketch")
# Images of the commonest class, and of all, in each rendition: what guessing it always would get
# right.
COMMONEST = {
    "photo": ("person", 432, 1670),
    "art_painting": ("person", 449, 2048),
    "cartoon": ("elephant", 457, 2344),
    "sketch": ("horse", 816, 3929),
}
SETS = {"target": "the rendition left out", "seen": "the three renditions trained on"}
COLOURS = {"target": "#08519c", "seen": "#a6bddb"}


def read() -> list[dict[str, Any]]:
    """Mean accuracy and its 95% interval over seeds, of each target, method and set."""
    with NUMBERS.open(encoding="utf-8", newline="") as file:
        rows = [
            row for row in csv.DictReader(file) if row["set"] in SETS and row["rule"] == "best-id"
        ]
    return [
        {
            "target": row["shift"],
            "method": row["method"],
            "set": SETS[row["set"]],
            "mean": float(row["mean"]),
            "low": max(0.0, float(row["low"])),
            "high": min(1.0, float(row["high"])),
        }
        for row in rows
    ]


def panel(rows: list[dict[str, Any]], target: str, named: bool) -> Any:
    """One rendition as the target: a mark and its interval for each method and set, and the line of
    guessing."""
    mine = [row for row in rows if row["target"] == target]
    methods = list(dict.fromkeys(row["method"] for row in mine))
    y = alt.Y(
        "method:N",
        sort=methods,
        title=None,
        axis=alt.Axis(labels=named, ticks=False, domain=False, grid=True),
    )
    x = {
        "scale": alt.Scale(domain=[0, 0.8]),
        "title": "accuracy",
        "axis": alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8], grid=False),
    }
    colour = alt.Color(
        "set:N",
        scale=alt.Scale(domain=list(SETS.values()), range=[COLOURS[name] for name in SETS]),
        legend=alt.Legend(title=None, orient="bottom", labelLimit=300),
    )
    base = alt.Chart(alt.Data(values=mine), title=target, width=170, height=130)
    guess = {"guess": COMMONEST[target][1] / COMMONEST[target][2]}
    line = (
        alt.Chart(alt.Data(values=[guess]))
        .mark_rule(strokeDash=[4, 3], color="#888")
        .encode(x="guess:Q")
    )
    intervals = base.mark_rule(strokeWidth=2, opacity=0.7).encode(
        y=y, x=alt.X("low:Q", **x), x2="high:Q", color=colour
    )
    return (
        line
        + intervals
        + base.mark_point(filled=True, size=50, opacity=1).encode(
            y=y, x=alt.X("mean:Q", **x), color=colour
        )
    )


def draw() -> str:
    """The picture as SVG."""
    import vl_convert

    rows = read()
    picture = alt.hconcat(
        *(panel(rows, target, place == 0) for place, target in enumerate(TARGETS))
    )
    text = picture.configure(background="white").configure_view(stroke=None).to_json()
    drawn: str = vl_convert.vegalite_to_svg(text)
    return drawn


def table() -> str:
    """Accuracy on the rendition left out and its difference to erm, with 95% intervals over seeds,
    as Markdown."""
    with NUMBERS.open(encoding="utf-8", newline="") as file:
        rows = {
            (row["method"], row["shift"]): row
            for row in csv.DictReader(file)
            if (row["set"], row["rule"]) == ("target", "best-id")
        }
    methods = list(dict.fromkeys(method for method, _ in rows))
    lines = [f"| method | {' | '.join(TARGETS)} |", "|---|" + "---|" * len(TARGETS)]
    for method in methods:
        cells = [_span(rows[method, target], "mean", "", "") for target in TARGETS]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    for method in methods[1:]:
        cells = [_span(rows[method, target], "diff", "diff_", "+") for target in TARGETS]
        lines.append(f"| {method} less erm | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _span(row: dict[str, str], name: str, ends: str, sign: str) -> str:
    mean, low, high = (float(row[key]) for key in (name, f"{ends}low", f"{ends}high"))
    marked = " *" if sign and (low > 0 or high < 0) else ""
    return f"{mean:{sign}.2f} [{low:{sign}.2f}, {high:{sign}.2f}]{marked}"


def main() -> None:
    """Write the picture."""
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(), encoding="utf-8")
    print(f"wrote docs/results/{PICTURE.name}, {PICTURE.stat().st_size:,} bytes\n\n{table()}")


if __name__ == "__main__":
    main()
