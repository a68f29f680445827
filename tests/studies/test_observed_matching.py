"""A study's spurious correlation is the one of its rows; the plan says which and how strong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import InputError


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


def test_balanced_sizes_leave_no_cell_short(tmp_path: Path) -> None:
    """Of 100 rows of each kind 8 are beside the other value; a fifth tests and a fifth of the rest
    validates: under one split seed 4 of such a cell train. Without a shift that is 4 x 4 rows."""
    study = tmp_path / "study.yaml"
    shift = "{type: spurious-correlation, attribute: ruler, strength: 0.5, counterexamples: 0}"
    text = study_of(table(tmp_path / "moles.csv", 92), shift)
    study.write_text(text + "sizes: {balanced: balanced}\nsplit_seeds: 3\n")
    draws = {draw.shift: draw for draw in cw.plan(study).draws}
    assert {draw.train_rows for draw in draws.values()} == {16}
    assert set(draws["none"].cells.values()) == {4}
    shares = sorted(draws["SC"].cells.values())  # a quarter of the rows are counterexamples
    assert sum(shares[:2]) == 4 and sum(shares[2:]) == 12
    assert not any("asked" in text for text in cw.plan(study).warnings)
    study.write_text(text)  # by default as many rows as there are, in the table's own proportions
    (none,) = [draw for draw in cw.plan(study).draws if draw.shift == "none"]
    assert none.cells["kind=benign, ruler=yes"] > 10 * none.cells["kind=benign, ruler=no"]


def test_balanced_sizes_name_the_cell_that_has_no_row(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    path = table(tmp_path / "moles.csv", 100)
    text = study_of(path, "{type: spurious-correlation, attribute: ruler, strength: 0.5}")
    study.write_text(text + "sizes: {balanced: balanced}\n")
    with pytest.raises(
        InputError,
        match="sizes.balanced: balanced leaves no row under none: no row of kind=benign, ruler=no is left",
    ):
        cw.plan(study)


def test_each_attribute_has_its_own_strength(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    path = table(tmp_path / "moles.csv", 50)
    of_one, of_map = "strength: 0.5", "strength: {ruler: 0.5, hair: 0.9}"
    keys_of = [
        keys(path, f"{{type: spurious-correlation, attribute: ruler, {words}}}", tmp_path)
        for words in (of_one, of_map)
    ]
    assert keys_of[0] == keys_of[1]
    shift = "{type: spurious-correlation, attribute: ruler, strength: {hair: 0.9}}"
    study.write_text(study_of(path, shift))
    words = "shifts.SC.strength: names no strength of 'ruler' .valid: hair."
    with pytest.raises(InputError, match=words):
        cw.plan(study)
