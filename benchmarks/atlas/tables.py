"""The atlas' studies of real tables: what `crosswind init` proposes of each, with the atlas' methods."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from crosswind.proposals.study_file import propose

__all__ = ["LABELS", "STUDIED", "table_study"]

STUDIED: Final = Path(__file__).resolve().parents[1] / "results" / "own-tables.json"
"""What whole studies of real tables found, from `python -m benchmarks.papers.own_tables`."""
SCREENED: Final = STUDIED.with_name("own-tables-screen.json")
"""Further real tables, with a label for each."""


def _labels(record: Path) -> Iterator[tuple[str, str]]:
    content = json.loads(record.read_text(encoding="utf-8"))
    for row in content if isinstance(content, list) else content["tables"]:
        if row.get("kind", "columns") == "columns":
            yield row["table"], row["label"]


LABELS: Final[Mapping[str, str]] = {
    table: label
    for record in (STUDIED, SCREENED)
    for table, label in _labels(record)
    if table not in ("reviews.csv", "imdb.csv", "digits.csv")
}
"""Tables of numbers and categories in `STUDIED` and `SCREENED` and what is told of each row; what is
left out are texts and pictures."""
METHODS: Final[Mapping[str, Mapping[str, Any]]] = {
    "erm": {},
    "erm-balanced": {"method": "erm", "sampler": "balanced"},
    "groupdro": {},
    "irm": {"anneal_steps": 0.3},
    "deepcoral": {},
    "mmd": {},
    "dann": {},
    "mixup": {},
    "jtt": {"first": 0.5},
}


def table_study(table: Path, split_seeds: int, attributes: int | None = None) -> dict[str, Any]:
    """The study of one table: attributes, roles and tie as `init` proposes them, a perceptron, and
    every method of `METHODS` under the tie with settings as many as plain training's, its defaults.
    `attributes`: the number of the first ones, all where None."""
    proposal = propose(str(table), label=LABELS[table.name], study_folder=table.parent)
    study: dict[str, Any] = yaml.safe_load(proposal.text)
    methods = {
        name: dict(entry) if name == "erm" else {**entry, "shifts": ["SC"]}
        for name, entry in METHODS.items()
    }
    study["data"] = dict(list(study["data"].items())[:attributes])
    for entry in study["data"].values():
        entry["options"]["path"] = str(table.resolve())
    for shift in study["shifts"].values():
        if isinstance((shift or {}).get("strength"), dict):
            shift["strength"] = {name: shift["strength"][name] for name in study["data"]}
    return {
        **study,
        "name": f"atlas/tables-{table.stem}",
        "models": {"tabular": {}},
        "methods": methods,
        "reference": "erm",
        "split_seeds": split_seeds,
        "seeds": 1,
    }
