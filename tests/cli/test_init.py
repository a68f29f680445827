"""`crosswind init`: a study for a table that nobody here wrote, planned and run as it is; what
cannot be proposed is a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from PIL import Image

from crosswind.cli.main import _status
from crosswind.proposals.study_file import propose
from crosswind.studies.plan import plan_of

N = 240


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """240 pictures of two kinds in three places by thirty people, with columns that fit nothing."""
    (tmp_path / "pictures").mkdir()
    draw = np.random.default_rng(0)
    for i in range(N):
        pixels = draw.integers(0, 256, (6, 5, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{i}.PNG")
    frame = polars.DataFrame(
        {
            "id": list(range(N)),
            "file": [f"{i}.PNG" for i in range(N)],
            "Species": [("gull", "tern")[i % 2] for i in range(N)],
            "place": [("sea", "land", "ice")[i // 2 % 3] for i in range(N)],
            "season": [("wet", None)[i % 2] for i in range(N)],
            "photographer": [f"p{i // 8}" for i in range(N)],
            "rare": ["x" if i else "y" for i in range(N)],
        }
    )
    frame.write_csv(tmp_path / "birds.csv")
    return tmp_path / "birds.csv"


def test_the_study_that_is_written_is_planned_and_run(
    table: Path, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _status(["init", "birds.csv", "--size", "8"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "wrote birds.yaml: 30 runs; crosswind run birds.yaml\n"
    assert (
        "label 'Species' (2 values), attribute 'place' (3 values); the smallest cell of both has 40"
        " rows." in printed.err
    )
    assert "not proposed (missing values, one value or more than 20): id, season." in printed.err
    planned = plan_of("birds.yaml", None, ())
    data = planned.study.data["own"]
    assert (data.label, data.attributes, data.roles.test) == ("Species", ["place"], 13)
    assert (
        data.options["unit"] == "photographer"
        and data.options["images"] == "pictures"
        and not planned.warnings[:0]
    )
    short = ["training.steps=2", "training.validate_every=1", "seeds=1", "methods={erm: {}}"]
    words = [word for setting in short for word in ("--set", setting)]
    assert _status(["run", "birds.yaml", "--workers", "1", "--out", "out", *words]) == 0
    assert "What each shift costs erm" in capsys.readouterr().out
    assert _status(["init", "birds.csv"]) == 2
    assert "birds.yaml is there already; name another file, or --force" in capsys.readouterr().err


def test_label_and_folder_can_be_named(table: Path) -> None:
    text = propose(str(table), str(table.parent / "pictures"), "place").text
    assert (
        "    label: place\n    attributes: [Species]\n" in text
        and "more attributes that fit: rare" in text
    )


@pytest.mark.parametrize(
    ("change", "words", "says"),
    [
        ({"file": None}, [], "has no column of paths of images"),
        ({}, ["--images", "nowhere"], "--images: 'nowhere' is no folder"),
        ({}, ["--label", "specis"], "--label: unknown column of"),
        (
            {},
            ["--label", "season"],
            (
                "--label: 'season' has missing values, one value, or more than 20 values (valid:"
                " Species, place"
            ),
        ),
        ({"place": None, "rare": None}, [], "needs two columns of 2 to 20 values"),
        ({"place": None}, [], "no attribute has 4 rows in each cell ('rare' comes nearest, 0)"),
    ],
)
def test_what_cannot_be_proposed_is_one_sentence(
    table: Path, change: dict[str, Any], words: list[str], says: str, capsys: Any
) -> None:
    polars.read_csv(table).drop(list(change)).write_csv(table)
    assert _status(["init", str(table), *words]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1 and not table.with_suffix(".yaml").exists()


def test_a_text_and_a_label_alone_are_a_study_over_the_length(
    tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    """The rule's classes of length are the ones that the file names, so that it is planned and run
    as it is."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{'so ' * (row % 7)}good film;{1 + row % 2}" for row in range(300)]
    (tmp_path / "films.tsv").write_text("\n".join(["review;stars", *lines]), encoding="utf-8")
    assert _status(["init", "films.tsv"]) == 0
    printed = capsys.readouterr()
    assert (
        "no column beside them is an attribute: 'length' tells texts of 6 words and more."
        in printed.err
    )
    planned = plan_of("films.yaml", None, ())
    data = planned.study.data["own"]
    assert (data.label, data.attributes) == ("stars", ["length"]) and set(planned.study.shifts) == {
        "none",
        "SC",
        "UDS",
    }
    assert planned.study.shifts["UDS"]["unseen"] == "6+"
    short = ["training.steps=2", "training.validate_every=1", "seeds=1", "methods={erm: {}}"]
    words = [word for setting in short for word in ("--set", setting)]
    assert _status(["run", "films.yaml", "--workers", "1", "--out", "out", *words]) == 0


def test_the_surest_name_is_the_label(tmp_path: Path) -> None:
    lines = [f"a film that I saw,{('book', 'film')[row // 2 % 2]},{row % 2}" for row in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(["text,category,overall", *lines]), encoding="utf-8")
    assert (
        "label 'overall' (2 values), attribute 'category'"
        in propose(str(tmp_path / "t.csv")).notes[1]
    )
