"""Takeaway 7 of Wiles et al. 2022 from two stores: does every method generalise to an unseen shape
where the colour is the label?

    crosswind run wiles2022/label-is-color --scale small --out colour-out
    crosswind run wiles2022/unseen --scale small --out shape-out
    python -m benchmarks.papers.label_is_color colour-out shape-out

Writes `benchmarks/results/wiles2022-label-is-color/` (CSV). Two questions to each method, all one
family of tests (Holm 1979): does the unseen shape cost less than `POINTS` of what erm has where
every shape is seen (paired by seed), and is the method more accurate than where the shape is the
label and a colour unseen (Welch's test: the studies share no rows)? Networks, steps, rates and
numbers of rows of the two are the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.papers.concurrent_shifts import POINTS, less, read, told

from crosswind.evaluation.compare import holm, summary, unpaired
from crosswind.reports.gather import StudyRecord
from crosswind.reports.scores.families import Families, families
from crosswind.reports.scores.tables import number_table
from crosswind.reports.tables import ReportTable

TABLES = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "wiles2022-label-is-color"
DATA, RULE = "dsprites", "best-target"


def view(record: StudyRecord) -> Families:
    """All methods and architectures on dSprites, step and point chosen on the test distribution."""
    found = families(
        [at for at in record.places if at.place.data == DATA and at.place.rule == RULE],
        record.resolved,
    )
    (item,) = found
    return item


def takeaway_table(colour: Families, shape: Families) -> ReportTable:
    """A row a method: its accuracy under an unseen shape, whether it generalises, and its gain over
    the shape as label."""
    (unseen,), (other,) = colour.shifted, shape.shifted or shape.shifts
    whole = colour.accuracy([colour.baseline], [str(colour.plain)])
    found: list[tuple[str, Mapping[Any, float], Mapping[Any, float]]] = []
    for row in colour.family:
        found.append(
            (
                row.partition(" on ")[0],
                colour.accuracy([row], [unseen]),
                shape.accuracy([row], [other]),
            )
        )
    tested = [told("margin", name, "accuracy", less(one, whole, -POINTS)) for name, one, _ in found]
    tested += [
        told("label", name, "accuracy", unpaired(list(two.values()), list(one.values())))
        for name, one, two in found
    ]
    adjusted = holm({i: 1.0 if item.p is None else item.p for i, item in enumerate(tested)})
    rows = []
    for i, (name, one, two) in enumerate(found):
        own = summary(list(one.values()))
        row: dict[str, Any] = {
            "method": name,
            "accuracy": own.mean,
            "low": own.low,
            "high": own.high,
            "n": own.n,
        }
        for at, what in ((i, "margin"), (len(found) + i, "gain")):
            item = tested[at]
            row |= {
                what: item.value,
                f"{what}_low": item.low,
                f"{what}_high": item.high,
                f"{what}_p_holm": adjusted[at],
            }
            row[f"{what}_verdict"] = item.verdict(adjusted[at])
        rows.append(
            row
            | {
                "accuracy_label_is_shape": summary(list(two.values())).mean,
                "family": len(tested),
            }
        )
    return ReportTable.of("takeaway", "Takeaway 7 of Wiles et al. 2022", rows, keys=1)


def as_markdown(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The rows of the CSV file as the lines of the page's table."""
    lines = [
        "| method | accuracy | it generalises, p | above its accuracy with the shape as label, p |",
        "|---|---|---|---|",
    ]
    for row in rows:
        spread = row["low"] != row["high"]
        accuracy = f"{float(row['accuracy']):.3f}" + (
            f" [{float(row['low']):.3f}, {float(row['high']):.3f}]" if spread else ""
        )
        p_values = {
            what: f"{max(0.001, float(row[f'{what}_p_holm'])):.3f}" for what in ("margin", "gain")
        }
        margin = (
            f"{row['margin_verdict']}, {p_values['margin']}"
            if spread
            else f"the same in all {row['n']} seeds: no test"
        )
        gain = f"{row['gain_verdict']}, {p_values['gain']}"
        lines.append(
            f"| {row['method']} | {accuracy} | {margin} | {float(row['gain']):+.3f}, {gain} |"
        )
    return lines


def main() -> None:
    """Write the tables and print the takeaway."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("colour", help="the store of wiles2022/label-is-color at --scale small")
    parser.add_argument("shape", help="the store of wiles2022/unseen at --scale small")
    given = parser.parse_args()
    TABLES.mkdir(parents=True, exist_ok=True)
    record = read(given.colour, "wiles2022/label-is-color")
    table = takeaway_table(view(record), view(read(given.shape, "wiles2022/unseen")))
    numbers = number_table(record.found, record.rules)
    for name, item in {"takeaway": table, "numbers": numbers}.items():
        if item is not None:
            (TABLES / f"{name}.csv").write_text(item.to_csv(), encoding="utf-8")
    print(table.to_text(200))


if __name__ == "__main__":
    main()
