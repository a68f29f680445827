"""A study's spurious correlation is the one of its rows; the plan says which and how strong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import crosswind as cw
from crosswind.cli.main import _status


def study_of(path: Path, shift: str) -> str:
    return f"""
data:
  moles: {{source: factors, options: {{path: {path}}}, label: kind, attributes: [ruler]}}
shifts:
  none: []
  SC: {shift}
models: [mlp]
methods: [erm]
"""


def table(path: Path, ruler_at_benign: int) -> Path:
    """100 moles of each kind, so many of the benign ones beside a ruler and the others the other
    way round."""
    lines = ["kind,ruler"]
    for kind, beside in (("benign", ruler_at_benign), ("melanoma", 100 - ruler_at_benign)):
        lines += [f"{kind},yes"] * beside + [f"{kind},no"] * (100 - beside)
    path.write_text("\n".join(lines))
    return path


def keys(path: Path, shift: str, folder: Path) -> list[str]:
    study = folder / "study.yaml"
    study.write_text(study_of(path, shift))
    return [job.key for job in cw.plan(study).jobs]


def test_the_plan_names_the_tie_and_what_is_matched(tmp_path: Path, capsys: Any) -> None:
    study = tmp_path / "study.yaml"
    path = table(tmp_path / "moles.csv", 92)
    study.write_text(study_of(path, "{type: spurious-correlation, attribute: ruler}"))
    (draw,) = [draw for draw in cw.plan(study).draws if draw.shift == "SC"]
    assert draw.matching == {"ruler": {"benign": ["yes"], "melanoma": ["no"]}}
    assert _status(["plan", str(study)]) == 0
    printed = capsys.readouterr().out
    assert "matched in moles, ruler: benign: yes, melanoma: no" in printed
    assert "'ruler' goes with 'kind' in the rows (benign with yes, melanoma with no: 92%" in printed
    assert "Cramér's V 0.84 [0.7" in printed


def test_keys_are_those_of_what_is_drawn(tmp_path: Path) -> None:
    tied, untied = table(tmp_path / "tied.csv", 92), table(tmp_path / "untied.csv", 50)
    unsaid = "{type: spurious-correlation, attribute: ruler}"
    auto = "{type: spurious-correlation, attribute: ruler, matching: auto}"
    observed = "{type: spurious-correlation, attribute: ruler, matching: observed}"
    assert keys(untied, unsaid, tmp_path) == keys(untied, auto, tmp_path)
    assert keys(untied, unsaid, tmp_path) == keys(untied, observed, tmp_path)
    assert keys(tied, unsaid, tmp_path) == keys(tied, observed, tmp_path)
    assert keys(tied, unsaid, tmp_path) != keys(tied, auto, tmp_path)
