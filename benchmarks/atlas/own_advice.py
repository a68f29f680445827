"""Advice on real tables beside what whole studies of them found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import polars
import yaml
from benchmarks.atlas.tables import LABELS, STUDIED, table_study

from crosswind.advice.answer import Advice, advise
from crosswind.advice.evidence import METRICS, origin_of, problems_of_plan
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import load_study

__all__ = ["ADVISED", "agreement", "beside_studies", "in_markdown", "what_helped"]

ADVISED: Final = STUDIED.with_name("advice-tables.json")
WHAT_HELPS: Final = re.compile(
    r"What helps: (\S+) wins (\d+) points (of accuracy|in the worst group) \[(\d+), (\d+)\]"
)


def what_helped(answer: str) -> dict[str, Any] | None:
    """The method that a study's answer says to help, its points with their interval and of what; None
    where it names none."""
    found = WHAT_HELPS.search(answer)
    if found is None:
        return None
    method, points, of, low, high = found.groups()
    metric = "accuracy" if of == "of accuracy" else "worst_group"
    return {
        "method": method,
        "metric": metric,
        "points": int(points),
        "low": int(low),
        "high": int(high),
    }


def agreement(advice: Advice, helped: Mapping[str, Any] | None) -> str:
    """`agrees` where advice would try what helped, or nothing where nothing did; `cannot tell` where it
    says so of what helped; else `contradicts`."""
    verdicts = {entry.method: entry.verdict for entry in advice.methods}
    if helped is None:
        return "contradicts" if "try" in verdicts.values() else "agrees"
    verdict = verdicts.get(helped["method"], "cannot tell")
    return {"try": "agrees", "cannot tell": "cannot tell", "avoid": "contradicts"}[verdict]


def beside_studies(
    folder: Path, evidence: polars.DataFrame, work: Path
) -> Iterator[dict[str, Any]]:
    """For every attribute that a whole study of a table tied to its label, and that `init` proposes,
    the advice on that tie beside what the study found. Advice is from evidence without the table."""
    studied = json.loads(STUDIED.read_text(encoding="utf-8"))["tables"]
    for name in dict.fromkeys(row["table"] for row in studied if row["table"] in LABELS):
        if not (folder / name).is_file():
            print(f"left out: {name}: {folder} has no such file")
            continue
        path = work / f"{Path(name).stem}.yaml"
        path.write_text(yaml.safe_dump(table_study(folder / name, 1), sort_keys=False), "utf-8")
        plan = make_plan(load_study(str(path), None, []), path.parent)
        stem = Path(name).stem
        others = evidence.filter(
            [origin_of(data) != stem for data in evidence["data"]]  # bool [rows]
        )
        for (attribute, shift, _), problem in problems_of_plan(plan, path.parent).items():
            study = [
                row for row in studied if (row["table"], row["attribute"]) == (name, attribute)
            ]
            if shift != "SC" or not study:
                continue
            advice = advise({attribute: problem}, evidence=others)[0]
            helped = what_helped(study[0]["answer"])
            of_helped = [
                entry for entry in advice.methods if helped and entry.method == helped["method"]
            ]
            yield {
                "table": name,
                "label": study[0]["label"],
                "attribute": attribute,
                "study": helped,
                "expected": {
                    metric: [round(gain.mean, 1), round(gain.low, 1), round(gain.high, 1)]
                    for entry in of_helped
                    for metric in METRICS
                    if (gain := getattr(entry, metric)) is not None
                },
                "advice": advice.answer,
                "agreement": agreement(advice, helped),
            }


def in_markdown(rows: list[dict[str, Any]]) -> str:
    """The table of the atlas' README."""
    lines = [
        "| table, label with attribute | what the study found to help | expected accuracy of it |"
        " expected worst group | advice |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        helped = row["study"]
        found = "nothing"
        if helped:
            of = "accuracy" if helped["metric"] == "accuracy" else "the worst group"
            found = (
                f"{helped['method']}: {of} +{helped['points']} [{helped['low']}, {helped['high']}]"
            )
        cells = [f"{row['table']}, {row['label']} with {row['attribute']}", found]
        for metric in METRICS:
            bounds = row["expected"].get(metric)
            cells.append("{:+.1f} [{:+.1f}, {:+.1f}]".format(*bounds) if bounds else "")
        lines.append(f"| {' | '.join([*cells, row['agreement']])} |")
    return "\n".join(lines)
