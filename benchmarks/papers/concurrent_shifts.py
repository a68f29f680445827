"""Figure 3 of Jeon et al. 2025 from the stores of two studies: tables, the figure, and the claims
that these runs can decide.

    crosswind run jeon2025/controlled --scale figure --workers 2 --out figure-out
    crosswind run jeon2025/equal-sizes --workers 2 --out equal-out
    python -m benchmarks.papers.concurrent_shifts figure-out --equal equal-out

Writes `benchmarks/results/concurrent-shifts/` (CSV) and `docs/results/concurrent-shifts.svg`, and
prints the claims. All claims are one family of tests: paired over seeds, or a rank correlation over
methods, adjusted together (Holm 1979).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crosswind.evaluation.compare import Difference, holm, paired
from crosswind.reports.charts import save
from crosswind.reports.gather import StudyRecord, gather
from crosswind.reports.runs.tables import costs, time_table
from crosswind.reports.scores.families import (
    Families,
    agreement_table,
    change_table,
    families,
    rank_by_seed_table,
    rank_correlation,
)
from crosswind.reports.scores.family_figures import family_map
from crosswind.reports.scores.tables import number_table
from crosswind.reports.tables import ReportTable
from crosswind.storage.store import Store

ROOT = Path(__file__).resolve().parents[2]
TABLES = ROOT / "benchmarks" / "results" / "concurrent-shifts"
PICTURES = ROOT / "docs" / "results"
SINGLE, PAIRS, TRIPLE = ["SC", "LDD", "UDS"], ["SC+LDD", "SC+UDS", "LDD+UDS"], ["SC+LDD+UDS"]
SHIFTED = [*SINGLE, *PAIRS, *TRIPLE]
GAPS = [
    ("one shift is harder than none, on average", ["uniform"], SINGLE),
    ("two concurrent shifts are harder than one, on average", SINGLE, PAIRS),
    ("SC is harder than UDS", ["UDS"], ["SC"]),
    ("UDS is harder than LDD", ["LDD"], ["UDS"]),
    ("SC is harder than LDD and UDS together", ["LDD+UDS"], ["SC"]),
]
"""What the two sizes are compared by: a claim, the easier shifts and the harder ones."""
AUGMENTATION = "heuristic augmentation"
POINTS = 0.03
"""A drop of accuracy below this is hardly any: the report's own margin for sides that are about as
accurate."""
PERCENT = 5.0
"""A gain below this, in percent of the baseline's accuracy, is a limited one. Ours: the paper gives
no number."""


class Tested(NamedTuple):
    """A claim, and what was found: `value` above 0 speaks for it; its interval, or none for a
    correlation; and p, two-sided."""

    claim: str
    text: str
    unit: str
    value: float | None
    low: float | None
    high: float | None
    p: float | None

    def verdict(self, adjusted: float) -> str:
        """As the report says it."""
        if self.value is None or adjusted >= 0.05:
            return "cannot tell"
        return "holds" if self.value > 0 else "the opposite holds"


def read(out: str, study: str) -> StudyRecord:
    """One study of a store. Refuses one with runs that are not done or failed."""
    with Store.open(out) as store:
        record = gather(store, study, draws=False)
    states = {status for status, _ in record.found.runs.values()}
    if not states <= {"finished", "diverged"}:
        raise SystemExit(f"{out}: some runs of {study} are not done or failed; run it first")
    return record


def less(
    one: Mapping[Any, float], other: Mapping[Any, float], by: float = 0.0
) -> Difference | None:
    """`one` minus `other` minus `by`, paired by seed."""
    return paired({seed: value + by for seed, value in other.items()}, one)


def told(claim: str, text: str, unit: str, found: Difference | None) -> Tested:
    """A paired difference as a tested claim."""
    if found is None:
        return Tested(claim, text, unit, None, None, None, None)
    return Tested(claim, text, unit, found.mean, found.low, found.high, found.p)


def claims(item: Families) -> list[Tested]:
    """The claims of Jeon et al. 2025 (takeaways 1 to 5) that trained networks on one data set can
    decide."""
    rows = list(item.family)
    augmentations = [row for row, family in item.family.items() if family == AUGMENTATION]
    algorithms = [row for row in item.methods if row not in augmentations]

    def mean(*shifts: str) -> Mapping[Any, float]:
        return item.accuracy(rows, shifts)

    out = [
        told(
            "1",
            "two concurrent shifts are harder than one, on average",
            "accuracy",
            less(mean(*SINGLE), mean(*PAIRS)),
        ),
        told(
            "1",
            "three are harder than two, on average",
            "accuracy",
            less(mean(*PAIRS), mean(*TRIPLE)),
        ),
        told("2", "SC is harder than UDS", "accuracy", less(mean("UDS"), mean("SC"))),
        told("2", "UDS is harder than LDD", "accuracy", less(mean("LDD"), mean("UDS"))),
        told(
            "2",
            "SC is harder than LDD and UDS together",
            "accuracy",
            less(mean("LDD+UDS"), mean("SC")),
        ),
        told(
            "2",
            f"SC dominates: with LDD or UDS it costs less than {100 * POINTS:g} points more",
            "accuracy",
            less(mean("SC+LDD", "SC+UDS"), mean("SC"), -POINTS),
        ),
    ]
    for one, other in (("SC", "LDD"), ("SC", "UDS"), ("LDD", "UDS")):
        sides = [
            [sum(v := item.accuracy([row], [shift]).values()) / len(v) for row in item.methods]
            for shift in (one, other)
        ]
        rho = rank_correlation(*sides)
        value, p = rho or (None, None)
        text = f"a method that helps under {one} helps under {other} ({len(item.methods)} methods)"
        out.append(Tested("3", text, "rank correlation", value, None, None, p))
    for row in augmentations:
        out.append(
            told(
                "4",
                f"{row} helps, over the seven shifts",
                "% of the baseline",
                item.change([row], SHIFTED),
            )
        )
    out.append(
        told(
            "4",
            "the four help without a shift",
            "% of the baseline",
            item.change(augmentations, ["uniform"]),
        )
    )
    changes = [item.changes(some, SHIFTED) for some in (augmentations, algorithms)]
    text = f"augmentations help more than the {len(algorithms)} generalisation algorithms"
    out.append(told("5", text, "% of the baseline", less(*changes)))
    text = f"the algorithms help by less than {PERCENT:g} % on average"
    out.append(
        told("5", text, "% of the baseline", less(dict.fromkeys(changes[1], PERCENT), changes[1]))
    )
    return out


def claim_table(name: str, tested: list[Tested]) -> ReportTable:
    """The claims with their verdicts."""
    adjusted = holm({i: 1.0 if found.p is None else found.p for i, found in enumerate(tested)})
    rows = [
        {
            "claim": found.claim,
            "text": found.text,
            "verdict": found.verdict(adjusted[i]),
            "value": found.value,
            "low": found.low,
            "high": found.high,
            "unit": found.unit,
            "p": found.p,
            "p_holm": adjusted[i],
            "family": len(tested),
        }
        for i, found in enumerate(tested)
    ]
    return ReportTable.of(name, "Claims of Jeon et al. 2025", rows, keys=2)


def as_markdown(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The rows of a CSV file of claims as the lines of the page's table."""
    lines = ["| claim | verdict | value | p, Holm |", "|---|---|---|---|"]
    for row in rows:
        points = row["unit"] == "accuracy"
        value, low, high = (
            (100 if points else 1) * float(row[name] or 0) for name in ("value", "low", "high")
        )
        shown = (
            f"{value:+.1f} [{low:+.1f}, {high:+.1f}] {'points' if points else '%'}"
            if row["low"]
            else f"{value:+.2f}"
        )
        lines.append(
            f"| {row['claim']}: {row['text']} | {row['verdict']} | {shown} |"
            f" {max(0.001, float(row['p_holm'])):.3f} |"
        )
    return lines


def size_claims(items: Mapping[str, Families]) -> list[Tested]:
    """The order of shifts with the paper's sizes (`table6`) and with equal ones, and by how much
    the sizes alone move each gap.

    One family. An order is turned where a claim holds with one size and the opposite holds with the
    other.
    """
    uneven, even = items["table6"], items["equal"]
    rows = list(even.family)
    out = []
    for text, easier, harder in GAPS:
        gaps = []
        for item in (uneven, even):
            one, other = item.accuracy(rows, easier), item.accuracy(rows, harder)
            gaps.append({seed: one[seed] - other[seed] for seed in one if seed in other})
        for size, gap in zip(("table6", "equal"), gaps, strict=True):
            out.append(told(size, text, "accuracy", less(gap, dict.fromkeys(gap, 0.0))))
        out.append(told("table6 - equal", text, "accuracy", less(gaps[0], gaps[1])))
    sides = [
        [sum(v := item.accuracy([row], SHIFTED).values()) / len(v) for row in even.methods]
        for item in (uneven, even)
    ]
    value, p = rank_correlation(*sides) or (None, None)
    text = (
        f"a method that helps with the paper's sizes helps with equal ones ({len(even.methods)}"
        " methods)"
    )
    return [*out, Tested("both", text, "rank correlation", value, None, None, p)]


def accuracy_table(items: Iterable[Families]) -> ReportTable:
    """Mean accuracy over seeds by size and shift, of the baseline and over all rows."""
    rows = []
    for item in items:
        for name, some in (
            (item.baseline, [item.baseline]),
            ("mean of all rows", list(item.family)),
        ):
            means = {shift: item.accuracy(some, [shift]) for shift in item.shifts}
            rows.append(
                {
                    "size": item.place.size,
                    "of": name,
                    **{shift: sum(v.values()) / len(v) for shift, v in means.items()},
                }
            )
    return ReportTable.of("accuracy", "Mean accuracy", rows, keys=2)


def main() -> None:
    """Write tables and figure, print the claims."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figure", help="the store of jeon2025/controlled at --scale figure")
    parser.add_argument("--equal", help="the store of jeon2025/equal-sizes")
    given = parser.parse_args()
    TABLES.mkdir(parents=True, exist_ok=True)
    record = read(given.figure, "jeon2025/controlled")
    (item,) = families(record.places, record.resolved)
    tested = claim_table("claims", claims(item))
    tables = {
        "changes": change_table(item),
        "ranks": rank_by_seed_table(item),
        "agreement": agreement_table(item),
        "claims": tested,
    }
    tables |= {
        "numbers": number_table(record.found, record.rules),
        "time": time_table(costs(record.runs)),
    }
    tables["accuracy"] = accuracy_table([item])
    shown = [tested, tables["accuracy"], tables["changes"], tables["agreement"], tables["time"]]
    figures = {"concurrent-shifts": item}
    if given.equal:
        equal = read(given.equal, "jeon2025/equal-sizes")
        items = {at.place.size: at for at in families(equal.places, equal.resolved)}
        figures["concurrent-shifts-equal"] = items["equal"]
        found = {
            "sizes": accuracy_table(items.values()),
            "size-claims": claim_table("size-claims", size_claims(items)),
        }
        found["equal-claims"] = claim_table("equal-claims", claims(items["equal"]))
        found |= {f"{size}-changes": change_table(at) for size, at in items.items()}
        shown += found.values()
        tables |= found | {f"{size}-ranks": rank_by_seed_table(at) for size, at in items.items()}
        tables |= {
            "equal-numbers": number_table(equal.found, equal.rules),
            "equal-time": time_table(costs(equal.runs)),
        }
    for name, table in tables.items():
        if table is not None:
            (TABLES / f"{name}.csv").write_text(table.to_csv(), encoding="utf-8")
    for name, at in figures.items():
        figure = family_map(at)
        assert figure is not None
        figure.name = name
        save(figure, PICTURES, ("svg",))
    print("\n".join(table.to_text(150) for table in shown if table is not None))


if __name__ == "__main__":
    main()
