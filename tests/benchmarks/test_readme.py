"""The benchmarks' page names every program, says its goals, and shows what was measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks.speed.study_table import GOALS, table

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
ROOMS = (FOLDER / "speed", FOLDER / "papers", FOLDER.parent / "tools")
TEXT = (FOLDER / "README.md").read_text(encoding="utf-8")


def test_every_program_is_on_the_page() -> None:
    links = re.findall(r"\[`([\w.]+)`\]\(([\w./]+)\)", TEXT)
    programs = {
        path.name: path
        for room in ROOMS
        for path in room.glob("*.py")
        if not path.name.startswith("make_")
    }
    named = {name: (FOLDER / link).resolve() for name, link in links if name.endswith(".py")}
    assert len(programs) >= 45 and named == programs


def test_the_goals_of_the_study_are_the_table_s() -> None:
    row = next(line for line in TEXT.splitlines() if line.startswith("| [`study.py`]"))
    models = list(dict.fromkeys(model for model, _ in GOALS))
    fp32 = [f"{GOALS[model, 'fp32']:g}" for model in models]
    bf16 = [f"{GOALS[model, 'bf16']:g}" for model in models]
    assert (
        f"fp32: {models[0]} {fp32[0]} x, {models[1]} {fp32[1]}, {models[2]} {fp32[2]}; bf16:"
        f" {', '.join(bf16)};" in row
    )


def test_tables_are_those_of_the_results() -> None:
    for path in sorted((FOLDER / "results").glob("study*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        for line in filter(None, table(record).splitlines()):
            assert line in TEXT.splitlines(), f"the page lacks a line of {path.name}: {line}"
