"""`crosswind init`: a study for a table that nobody here wrote, planned and run as it is; what
cannot be proposed is a sentence."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
import yaml
from PIL import Image
from scipy import stats
from tests.cli.awkward_tables import csv, moles, write_pictures

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.proposals.design import largest_design
from crosswind.proposals.ready import ready_study
from crosswind.proposals.study_file import propose
from crosswind.proposals.timing import (
    TELLABLE,
    RunTime,
    nominal_time,
    repeats_needed,
    repeats_that_fit,
)
from crosswind.studies.plan import make_plan, plan_of
from crosswind.studies.reading import parse
from crosswind.studies.spec import study_from

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


SHORT = ["training.steps=2", "training.validate_every=1", "split_seeds=2", "methods={erm: {}}"]
SETTINGS = [word for setting in SHORT for word in ("--set", setting)]


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_the_study_that_is_written_is_planned_and_run(
    table: Path, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _status(["init", "birds.csv", "--size", "8"]) == 0
    printed = capsys.readouterr()
    assert re.fullmatch(
        r"wrote birds.yaml: \d+ runs, (under a minute|about (a minute|\d+ minutes)) with \d+ process(es)? on this"
        r" machine; crosswind run birds.yaml\n",
        printed.out,
    )
    assert printed.err.splitlines()[:6] == [
        "240 rows; images by column 'file' in pictures.",
        "label 'Species': gull 120, tern 120.",
        "rows of one photographer stay together: they never both train and test.",
        "attribute 'place' (3 values); the smallest cell with label 'Species' (2 values) has 40"
        " rows; the rows do not tie it to the label.",
        "no attributes: id: 240 values in 240 rows, an identifier; season: one value; rare: 0 rows"
        " in the smallest cell with 'Species', fewer than 6.",
        "place: every shift trains on 56 of 240 rows, validates on 10 and tests on 78.",
    ]
    planned = plan_of("birds.yaml", None, ())
    data = planned.study.data["place"]
    assert (data.label, data.attributes, data.roles.test) == ("Species", ["place"], 13)
    assert (data.options["unit"], data.options["images"]) == ("photographer", "pictures")
    assert _status(["run", "birds.yaml", "--workers", "1", "--out", "out", *SETTINGS]) == 0
    assert "What each shift costs erm" in capsys.readouterr().out
    assert _status(["init", "birds.csv"]) == 2
    assert "birds.yaml is there already; name another file, or --force" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_pictures_whose_attributes_are_tied_unlike_run_as_proposed(
    table: Path, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    frame = polars.read_csv(table)
    is_gull = (frame["Species"] == "gull").to_numpy()
    monkeypatch.setattr("crosswind.proposals.ready.run_time", lambda plan: RunTime(0.001, 0.0))
    for name, share in (("weather", 0.85), ("hour", 0.75)):
        follows = np.where(draw.random(N) < share, is_gull, ~is_gull)
        frame = frame.with_columns(polars.Series(name, np.where(follows, "early", "late")))
    frame.drop("photographer", "rare", "season", "place").write_csv(table)
    assert _status(["init", "birds.csv", "--size", "8"]) == 0
    study = yaml.safe_load((tmp_path / "birds.yaml").read_text(encoding="utf-8"))
    strengths = study["shifts"]["SC"]["strength"]
    assert set(strengths) == {"weather", "hour"} and strengths["weather"] > strengths["hour"]
    capsys.readouterr()
    assert _status(["run", "birds.yaml", "--workers", "1", "--out", "out", *SETTINGS]) == 0
    assert "8 runs in " in capsys.readouterr().out


def test_label_and_folder_can_be_named(table: Path) -> None:
    text = propose(str(table), str(table.parent / "pictures"), "place").text
    assert "    label: place\n    attributes: [Species]\n" in text


@pytest.mark.parametrize(
    ("change", "words", "says"),
    [
        (
            {"id": None, "file": None, "rare": None, "photographer": None},
            [],
            "has no column of paths of images (.jpg, .jpeg, .png, .bmp, ...) and none of texts: name"
            " the images in one; nor has it, beside its label, two columns of classes",
        ),
        ({}, ["--images", "nowhere"], "--images: 'nowhere' is no folder"),
        ({}, ["--text", "place,place"], "--text: names 'place' twice; name each column once"),
        ({}, ["--label", "specis"], "--label: unknown column of"),
        (
            {},
            ["--label", "season"],
            "--label: 'season' cannot be predicted (it has one value) (valid: Species, place, rare)",
        ),
    ],
)
def test_what_cannot_be_proposed_is_one_sentence(
    table: Path, change: dict[str, Any], words: list[str], says: str, capsys: Any
) -> None:
    polars.read_csv(table).drop(list(change)).write_csv(table)
    assert _status(["init", str(table), *words]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1 and not table.with_suffix(".yaml").exists()


@pytest.mark.parametrize("folder", [".", "..", "/"])
def test_a_folder_without_a_name_is_no_table(folder: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="is a folder, and a table is needed"):
        cw.init(folder, label="place")
    assert _status(["init", folder]) == 2 and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("left_out", "says"),
    [
        (
            ["place", "rare"],
            "has no attribute beside the label 'Species': a shift needs a column of a few values, or"
            " of numbers, with 6 rows of each value in each class (id: 240 values in 240 rows, an"
            " identifier; season: one value; light: one value); --label names another label",
        ),
        (["place"], "rare: 0 rows in the smallest cell with 'Species', fewer than 6"),
    ],
)
def test_a_table_without_attributes_whose_light_is_taken_is_refused(
    table: Path, left_out: list[str], says: str, capsys: Any
) -> None:
    rows = polars.read_csv(table).drop(left_out).with_columns(light=polars.lit("day"))
    rows.write_csv(table)
    assert _status(["init", str(table)]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1 and not table.with_suffix(".yaml").exists()


def test_one_refusal_says_all_that_stands_in_the_way(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "t.csv").write_text("kind,site\n" + "a,x\nb,y\n" * 3, encoding="utf-8")
    assert _status(["init", str(tmp_path / "t.csv")]) == 2
    error = capsys.readouterr().err
    assert "no column of paths of images" in error
    assert "and it has no label: 'kind' has 0 classes of 6 rows or more (a 3, b 3)" in error


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_text_and_a_label_alone_are_a_study_over_the_length(
    tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    """The rule's classes of length are the ones that the file names, so that it is planned and run
    as it is."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{'so ' * (row % 7)}good film;{'bad' if row % 2 else 'good'}" for row in range(300)]
    (tmp_path / "films.tsv").write_text("\n".join(["review;stars", *lines]), encoding="utf-8")
    assert _status(["init", "films.tsv"]) == 0
    printed = capsys.readouterr()
    assert (
        "no column beside them is an attribute: 'length' tells texts of 6 words and more."
        in printed.err
    )
    planned = plan_of("films.yaml", None, ())
    data = planned.study.data["length"]
    assert (data.label, data.attributes) == ("stars", ["length"])
    assert set(planned.study.shifts) == {"none", "SC"}
    assert _status(["run", "films.yaml", "--workers", "1", "--out", "out", *SETTINGS]) == 0


def test_the_surest_name_is_the_label(tmp_path: Path) -> None:
    lines = [f"a film that I saw,{('book', 'film')[row // 2 % 2]},{row % 2}" for row in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(["text,category,overall", *lines]), encoding="utf-8")
    notes = propose(str(tmp_path / "t.csv")).notes
    assert notes[1] == "label 'overall': 0 50, 1 50" and "attribute 'category'" in notes[2]


@pytest.mark.parametrize(
    ("columns", "label", "why"),
    [
        # Titanic: neither Sex nor Embarked, the columns of words.
        (
            "Survived:01 Pclass:123 Sex:mf Age:n Embarked:SCQ",
            "Survived",
            "it is called as an outcome is",
        ),
        (
            "gender:FM tenure:n Contract:ab Charges:n Churn:YN",
            "Churn",
            "it is called as an outcome is",
        ),
        (
            "workclass:pqr sex:FM hours:n race:BW pays:LH",
            "pays",
            "'workclass', 'sex', 'race' are called as attributes are",
        ),
        ("sex:FM city:abc age:n", "sex", None),  # all are: the first
        ("kind:ab site:xy size:n", "kind", None),
        ("colour:rb when:d size:n", "colour", None),
        ("Age:n Outcome:01 Smoker:YN", "Outcome", ""),
        ("возраст:n пол:МЖ диагноз:ДН город:КМ", "диагноз", ""),
    ],
)
def test_the_label_of_a_table_of_columns(
    columns: str, label: str, why: str | None, tmp_path: Path
) -> None:
    draw = np.random.default_rng(0)
    frame: dict[str, Any] = {}
    for name, values in (column.split(":") for column in columns.split()):
        dates = [f"2024-0{1 + row % 3}-01" for row in range(400)]
        numbers = draw.normal(40, 9, 400).round(3)
        frame[name] = {"n": numbers, "d": dates}.get(values, draw.choice(list(values), 400))
    polars.DataFrame(frame).write_csv(tmp_path / "t.csv")
    study, notes = study_of(tmp_path / "t.csv")
    assert {data["label"] for data in study["data"].values()} == {label}
    notes_of_guess = [note for note in notes if "is guessed" in note]
    assert len(notes_of_guess) == (why != "")
    beginning = f"label '{label}' is guessed, as no column has a usual name"
    if why:
        assert notes_of_guess[0].startswith(beginning) and why in notes_of_guess[0]
    if why is None:
        assert notes_of_guess[0].startswith(f"{beginning}: --label names another")


def test_an_outcome_beside_a_label_of_a_usual_name_is_told_of(tmp_path: Path) -> None:
    """Of Titanic's passengers `class` is how they travelled."""
    lines = [f"{row % 2},{'abc'[row % 3]},{'mf'[row // 2 % 2]},{row}" for row in range(120)]
    (tmp_path / "t.csv").write_text(
        "\n".join(["survived,class,sex,fare", *lines]), encoding="utf-8"
    )
    _, notes = study_of(tmp_path / "t.csv")
    assert notes[1].startswith("label 'class'")
    assert "'survived' may be the label too, by its name: --label names it" in notes
    _, notes = study_of(tmp_path / "t.csv", label="class")
    assert not any("may be the label too" in note for note in notes)


# -- what the table ties together ------------------------------------------------------------------


def patients(path: Path, n: int = 600, tie: float = 0.92, **columns: Any) -> Path:
    """Moles of two kinds, `tie` of the benign ones beside a ruler and as many of the others not; a
    measure that tells the kind, and a site that tells nothing."""
    draw = np.random.default_rng(1)
    benign = np.arange(n) % 2 == 0
    ruler = np.where(draw.random(n) < tie, benign, ~benign)
    frame = {
        "diagnosis": np.where(benign, "benign", "melanoma"),
        "ruler": np.where(ruler, "yes", "no"),
        "site": np.where(draw.random(n) < 0.5, "arm", "leg"),
        "width": (5 + 2 * benign + draw.normal(0, 1, n)).round(3),
        "depth": draw.normal(0, 1, n).round(3),
    }
    polars.DataFrame(frame | columns).write_csv(path)
    return path


def study_of(path: Path, **options: Any) -> tuple[dict[str, Any], list[str]]:
    proposal = propose(str(path), **options)
    return yaml.safe_load(proposal.text), list(proposal.notes)


def test_the_tie_of_the_table_is_the_shift_in_its_direction_and_strength(tmp_path: Path) -> None:
    path = patients(tmp_path / "moles.csv")
    study, notes = study_of(path)
    assert study["shifts"]["SC"]["attribute"] == "ruler" and list(study["data"]) == ["ruler"]
    table = polars.read_csv(path)
    matched = (table["diagnosis"] == "benign") == (table["ruler"] == "yes")
    share = table.with_columns(matched.alias("m")).group_by("diagnosis").mean()["m"].mean()
    assert study["shifts"]["SC"]["strength"] == pytest.approx(2 * share - 1, abs=0.006)
    assert any(
        "'ruler' goes with 'diagnosis' in the rows (benign with yes" in note for note in notes
    )
    assert "attributes that the rows do not tie to the label: site" in notes
    (tmp_path / "moles.yaml").write_text(propose(str(path)).text)
    draws = {draw.shift: draw for draw in plan_of(str(tmp_path / "moles.yaml"), None, ()).draws}
    assert draws["SC"].matching == {"ruler": {"benign": ["yes"], "melanoma": ["no"]}}
    for draw in draws.values():  # the shares of the classes are those without a shift
        benign = sum(rows for cell, rows in draw.cells.items() if "benign" in cell)
        assert abs(benign - draw.train_rows / 2) <= 1


@pytest.mark.parametrize("tie", [0.08, 0.63, 0.97])
def test_weak_strong_and_reversed_ties_are_told(tmp_path: Path, tie: float) -> None:
    study, notes = study_of(patients(tmp_path / "moles.csv", 3000, tie))
    strength = study["shifts"]["SC"]["strength"]
    assert strength == pytest.approx({0.08: 0.84, 0.63: 0.8, 0.97: 0.94}[tie], abs=0.03)
    value = "no" if tie < 0.5 else "yes"
    assert any(f"(benign with {value}, melanoma with" in note for note in notes)


def test_without_a_tie_the_study_says_so(tmp_path: Path) -> None:
    path = patients(tmp_path / "moles.csv", tie=0.5)
    study, _ = study_of(path)
    assert set(study["data"]) == {"ruler", "site"}
    assert study["shifts"]["SC"] == {
        "type": "spurious-correlation",
        "attribute": "tied",
        "strength": 0.8,
        "counterexamples": 0,
    }
    assert "though the rows do not: what would such a tie cost" in propose(str(path)).text


def test_columns_are_inputs_but_those_that_tell_the_label(tmp_path: Path) -> None:
    n = 600
    codes = {"benign": "B", "melanoma": "M"}
    kinds = ["benign", "melanoma"] * (n // 2)
    path = patients(
        tmp_path / "moles.csv",
        icd=[codes[kind] for kind in kinds],
        subtype=[f"{kind}-{i // 2 % 3}" for i, kind in enumerate(kinds)],
        email=[f"{i}@x.org" for i in range(n)],
        fold=[i % 5 for i in range(n)],
        mark=["yes" if i % 3 else "" for i in range(n)],
    )
    study, notes = study_of(path)
    options = study["data"]["ruler"]["options"]
    assert options["numbers"] == ["width", "depth"]
    assert options["categories"] == ["ruler", "site"]
    assert "left out, since they tell 'diagnosis' entirely: icd, subtype" in notes
    (reasons,) = [note for note in notes if note.startswith("no attributes")]
    assert "email: 600 values in 600 rows, an identifier" in reasons
    assert "fold: folds, left alone" in reasons and "mark: one value" in reasons


def test_grades_and_numbers_are_cut_with_counts_on_both_sides(tmp_path: Path) -> None:
    n = 800
    draw = np.random.default_rng(0)
    score = draw.choice([0.0, 0.333, 0.667, 1.0], n, p=[0.57, 0.11, 0.04, 0.28])
    frame = {"probability": score, "type": draw.choice(["mono", "poly"], n)}
    frame |= {f"x{i}": draw.normal(0, 1, n) for i in range(3)}
    polars.DataFrame(frame).write_csv(tmp_path / "cells.csv")
    study, notes = study_of(tmp_path / "cells.csv", label="probability")
    entry = study["data"]["type"]
    assert entry["options"]["bins"] == {"probability": [0.333]}
    below = int((score < 0.333).sum())
    assert (
        f"label 'probability' has 4 grades and is cut in two at 0.333 ({below} rows below 0.333,"
        f" {n - below} from it on; other cuts: 0.667 ({int((score < 0.667).sum())} below), 1"
        f" ({int((score < 1).sum())} below)): bins in the study says so"
    ) in notes
    study, notes = study_of(tmp_path / "cells.csv", label="x0")
    assert list(study["data"]["type"]["options"]["bins"]) == ["x0"]
    assert any("has 800 numbers and is cut in two at" in note for note in notes)


def test_classes_and_values_of_few_rows_are_left_out_and_named(tmp_path: Path) -> None:
    n = 1200
    draw = np.random.default_rng(0)
    kind = draw.choice(["a", "b", "c"], n, p=[0.5, 0.497, 0.003])
    site = draw.choice(["p", "q", "r", "s"], n, p=[0.4, 0.4, 0.19, 0.01])
    frame = {"label": kind, "site": site, "x": draw.normal(0, 1, n), "z": draw.normal(0, 1, n)}
    polars.DataFrame(frame).write_csv(tmp_path / "t.csv")
    study, notes = study_of(tmp_path / "t.csv")
    assert study["data"]["site"]["keep"] == {"label": ["a", "b"], "site": ["p", "q", "r"]}
    assert any("classes of 'label' with fewer than 6 rows are left out: c " in n for n in notes)
    assert any("left out for too few rows: s" in note for note in notes)
    (tmp_path / "t.yaml").write_text(propose(str(tmp_path / "t.csv")).text)
    assert plan_of(str(tmp_path / "t.yaml"), None, ()).runs


def test_a_strong_tie_is_asked_about_before_weak_ones_of_many_rows(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    denied = np.arange(2400) % 10 == 0

    def tied(share: float) -> list[str]:
        return np.where(draw.random(2400) < share, denied, ~denied).astype(str).tolist()

    weak = {name: tied(0.62) for name in ("credit", "single", "mortgage")}
    strong = np.where(np.arange(2400) // 10 % 20 < 19, denied, ~denied).astype(str).tolist()
    frame = {"deny": np.where(denied, "yes", "no").tolist(), **weak, "scanner": strong}
    polars.DataFrame(frame).write_csv(tmp_path / "loans.csv")
    study, notes = study_of(tmp_path / "loans.csv")
    assert list(study["data"]) == ["scanner"]
    assert any("too, and not in the study: " in note and "credit" in note for note in notes)
    assert any(
        "the smallest cell with label 'deny' (2 values) has 12 rows" in note for note in notes
    )


def test_many_classes_are_kept_where_their_cells_together_tell_enough(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    digit = np.arange(3000) % 10
    is_low = digit < 5
    scanner = np.where(np.where(np.arange(3000) // 10 % 20 < 19, is_low, ~is_low), "A", "B")
    frame = {
        "digit": [f"d{code}" for code in digit],
        "scanner": scanner.tolist(),
        "width": (digit + draw.normal(0, 6, 3000)).tolist(),
    }
    polars.DataFrame(frame).write_csv(tmp_path / "digits.csv")
    study, notes = study_of(tmp_path / "digits.csv")
    # Each cell off the tie has 15 rows: too few of two classes, enough of ten.
    assert "keep" not in study["data"]["scanner"] and study["data"]["scanner"]["roles"]["test"] == 5
    assert not [note for note in notes if "only large costs" in note or "left out" in note]
    two = polars.DataFrame(frame).filter(polars.col("digit").is_in(["d0", "d9"]))
    two.write_csv(tmp_path / "two.csv")
    ready = [
        note for note in study_of(tmp_path / "two.csv")[1] if note.startswith("attribute 'scanner'")
    ]
    assert len(ready) == 1 and "smallest cell with label 'digit' (2 values) has 15 rows" in ready[0]


ROLES = {
    "words": ["train", "val", "test"],
    "Waterbirds": ["0", "1", "2"],
    "WILDS": ["train", "id_val", "ood_test"],
    "two": ["Training", "Testing"],
}


@pytest.mark.parametrize("form", ROLES)
def test_a_column_of_roles_deals_them(tmp_path: Path, form: str) -> None:
    values = ROLES[form]
    split = [values[i // 2 % 6 % len(values)] for i in range(600)]
    path = patients(tmp_path / "moles.csv", tie=0.8, split=split)
    study, notes = study_of(path)
    official = study["data"]["ruler"]["roles"]["official"]
    assert official["column"] == "split" and official["train"] == [values[0]]
    assert official["test"] == [values[-1]] and ("validation" in official) == (len(values) == 3)
    assert any(note.startswith("'split' deals the roles: ") for note in notes)
    (tmp_path / "moles.yaml").write_text(propose(str(path)).text)
    planned = plan_of(str(tmp_path / "moles.yaml"), None, ())
    # The table's own test rows are as tied as the others: as many of each cell test.
    base = study["sets"]["test"]["draw"]["base"]
    assert base >= 5 and {draw.test_rows for draw in planned.draws} == {4 * base}


@pytest.mark.parametrize(
    ("name", "values", "is_left_alone"),
    [
        ("set", ["train", "dev", "quality control"], True),
        ("is_train", ["True", "False"], True),
        ("set", ["1", "3", "4"], False),
    ],
)
def test_roles_of_which_not_all_are_known_are_no_inputs(
    tmp_path: Path, name: str, values: list[str], is_left_alone: bool
) -> None:
    dealt = [values[i // 2 % len(values)] for i in range(600)]
    proposal = propose(str(patients(tmp_path / "moles.csv", **{name: dealt})))
    options = proposal.draft.options
    assert (name in [*options["categories"], *options["numbers"]]) is not is_left_alone
    assert any(f"{name}: says which rows" in note for note in proposal.notes) is is_left_alone


def test_numbers_of_a_strong_tie_are_told_beside_words(tmp_path: Path) -> None:
    """A mark that is measured, such as the frequency of a mains, is a tie as one of words is."""
    mains = [(50, 60)[i % 2 if i % 15 else 1 - i % 2] + i % 37 / 10 for i in range(600)]
    _, notes = study_of(patients(tmp_path / "moles.csv", mains=mains))
    (note,) = [note for note in notes if "mains" in note and "go with" in note]
    cells = [[280, 20], [20, 280]]
    v = math.sqrt(stats.chi2_contingency(cells, correction=False)[0] / 600)
    assert note.startswith("numbers that go with 'diagnosis' too") and abs(v - 0.87) < 0.005
    assert re.search(r"mains \(>= [\d.]+: Cramér's V 0\.87\)", note)


def test_a_held_out_set_tests(tmp_path: Path) -> None:
    split = [("train", "dev", "heldout")[i // 2 % 3] for i in range(600)]
    study, _ = study_of(patients(tmp_path / "moles.csv", split=split))
    assert study["data"]["ruler"]["roles"]["official"]["test"] == ["heldout"]


def test_roles_that_leave_a_cell_empty_are_not_used_and_it_is_said(tmp_path: Path) -> None:
    split = ["test" if i >= 590 else "train" for i in range(600)]
    study, notes = study_of(patients(tmp_path / "moles.csv", split=split))
    assert "official" not in study["data"]["ruler"]["roles"]
    assert any("is not used: it leaves 0 rows to test in the smallest cell" in n for n in notes)


def test_a_few_empty_cells_are_left_out_with_their_number(tmp_path: Path) -> None:
    path = patients(tmp_path / "moles.csv")
    table = polars.read_csv(path)
    few = table.with_columns(
        polars.when(polars.int_range(600) % 300 == 7).then(None).otherwise("ruler").alias("ruler")
    )
    few.write_csv(path)
    (tmp_path / "moles.yaml").write_text(propose(str(path)).text)
    planned = plan_of(str(tmp_path / "moles.yaml"), None, ())
    assert "ruler: ruler: empty in 2 of 600 rows, left out" in planned.notes
    many = table.with_columns(
        polars.when(polars.int_range(600) % 3 == 1).then(None).otherwise("ruler").alias("ruler")
    )
    many.write_csv(path)
    study, notes = study_of(path)
    assert list(study["data"]) == ["site"]
    assert any("ruler: empty in 200 of 600 rows" in note for note in notes)


@pytest.mark.slow
@pytest.mark.parametrize("absolute", [False, True])
def test_a_study_in_another_folder_names_its_table_from_there(
    table: Path, tmp_path: Path, monkeypatch: Any, capsys: Any, absolute: bool
) -> None:
    (tmp_path / "studies").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    named = str(table) if absolute else "birds.csv"
    assert _status(["init", named, "--size", "8", "--out", "studies/birds.yaml"]) == 0
    options = yaml.safe_load(Path("studies/birds.yaml").read_text())["data"]["place"]["options"]
    assert absolute or (options["path"], options["images"]) == ("../birds.csv", "../pictures")
    monkeypatch.chdir(tmp_path / "elsewhere")  # a study is run from anywhere
    assert plan_of("../studies/birds.yaml", None, ()).runs
    assert _status(["plan", "../studies/birds.yaml"]) == 0


def test_a_weak_tie_is_left_out_beside_a_strong_one(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    ill = np.arange(600) % 2
    columns = {"label": ill.tolist(), "x": draw.normal(size=600).tolist()}
    for name, share in (("strong", 0.9), ("weak", 0.62), ("middling", 0.75)):
        columns[name] = np.where(draw.random(600) < share, ill, 1 - ill).astype(str).tolist()
    polars.DataFrame(columns).write_csv(tmp_path / "t.csv")
    proposal = propose(str(tmp_path / "t.csv"))
    assert [design.attribute for design in proposal.draft.designs] == ["strong", "middling"]
    assert "tied to the label too, and not in the study: weak" in proposal.notes


def test_with_too_little_time_attributes_leave_and_then_methods(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    ill = np.arange(600) % 2
    columns = {"label": ill.tolist(), "x": draw.normal(size=600).tolist()}
    for name, share in (("strong", 0.9), ("middling", 0.75)):
        columns[name] = np.where(draw.random(600) < share, ill, 1 - ill).astype(str).tolist()
    polars.DataFrame(columns).write_csv(tmp_path / "t.csv")
    proposal = propose(str(tmp_path / "t.csv"))
    one = proposal.with_less()
    assert one is not None
    assert [design.attribute for design in one.draft.designs] == ["strong"]
    assert not any(note.startswith("attribute 'middling'") for note in one.notes)
    assert re.search(r"attribute: strong, strength: 0\.\d+, counterexamples: 0}", one.text)
    fewest = one.with_less()
    assert fewest is not None
    assert fewest.draft.methods == ("groupdro",) and "jtt" not in fewest.text
    assert fewest.with_less() is None
    assert make_plan(study_from(parse(fewest.text, "t.yaml"), name="t"), tmp_path).runs


def test_a_heavy_study_has_fewer_methods_and_never_fewer_than_ten_repeats(
    tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "t.csv").write_text(csv(moles()))
    monkeypatch.chdir(tmp_path)
    heavy = RunTime(1.0, 1.0)
    monkeypatch.setattr("crosswind.proposals.ready.nominal_time", lambda kind, side: heavy)
    study = ready_study("t.csv", tmp_path / "t.yaml")
    assert study.proposal.draft.methods == ("groupdro",)
    assert study.proposal.draft.repeats == 10 and "split_seeds: 10 " in study.proposal.text
    assert "jtt is not tried: too few repeats would fit in a few minutes" in study.notes


@pytest.mark.slow
def test_a_busy_machine_gets_the_same_proposal_and_another_time(
    tmp_path: Path, monkeypatch: Any
) -> None:
    pictures = write_pictures(tmp_path, lambda row: f"img/{row:04}.png", 32).name
    (tmp_path / "moles.csv").write_text(csv(moles()))
    monkeypatch.chdir(tmp_path)
    for table in ("moles.csv", pictures):
        texts, seconds = set(), []
        for times_slower in (1, 3, 30):
            measured = RunTime(0.03 * times_slower, 0.1 * times_slower)
            monkeypatch.setattr("crosswind.proposals.ready.run_time", lambda plan, m=measured: m)
            study = ready_study(table, tmp_path / "study.yaml")
            texts.add(study.proposal.text)
            seconds.append(study.seconds)
        assert len(texts) == 1
        assert seconds[1] / seconds[0] == pytest.approx(3)
        assert seconds[2] / seconds[0] == pytest.approx(30)


def test_steps_and_pixels_make_a_study_heavier() -> None:
    pictures = nominal_time("images", 64)
    assert pictures.step == 4 * nominal_time("images", 32).step
    assert pictures.step > nominal_time("texts", 64).step > nominal_time("numbers", 64).step


def test_classes_that_leave_keep_the_tie() -> None:
    # Without the last two classes every cell has 40 rows, and nothing goes with anything.
    counts = np.array([[60, 40], [60, 40], [7, 60], [8, 60]])
    classes, values = largest_design(counts)
    assert {2, 3} & set(classes) and values == [0, 1]


def test_a_forest_answers_beside_the_network_where_it_can_be_kept(
    tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "t.csv").write_text(csv(moles()))
    proposal = propose(str(tmp_path / "t.csv"))
    plan = make_plan(study_from(parse(proposal.text, "t.yaml"), name="t"), tmp_path)
    pairs = {
        (run.spec["model"]["name"], run.spec["method"]["name"])
        for run in plan.jobs
        if run.kind == "fit"
    }
    assert ("sklearn", "erm") in pairs and ("tabular", "jtt") in pairs
    assert ("sklearn", "jtt") not in pairs
    monkeypatch.setattr("crosswind.proposals.study_file.find_spec", lambda name: None)
    without = propose(str(tmp_path / "t.csv"))
    assert "sklearn" not in without.text
    assert (
        "pip install 'crosswind[skops]' lets a random forest answer beside the network"
        in without.notes
    )


@pytest.mark.slow
@pytest.mark.parametrize(("pixels", "side"), [(16, 16), (8, 16), (17, 32), (200, 32)])
def test_small_pictures_are_not_made_larger(tmp_path: Path, pixels: int, side: int) -> None:
    path = write_pictures(tmp_path, lambda row: f"img/{row:04}.png", pixels)
    proposal = propose(str(path))
    assert proposal.draft.options["size"] == side
    assert propose(str(path), size=24).draft.options["size"] == 24


@pytest.mark.parametrize("with_roles", [False, True])
def test_pictures_and_a_label_alone_are_a_study_over_their_light(
    tmp_path: Path, monkeypatch: Any, with_roles: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = polars.read_csv(write_pictures(tmp_path, lambda row: f"img/{row:04}.png"))
    rows = rows.select("file", "diagnosis")
    if with_roles:
        rows = rows.with_columns(split=polars.Series(["train", "train", "test", "test"] * 60))
    rows.write_csv("t.csv")
    proposal = propose("t.csv")
    data = yaml.safe_load(proposal.text)["data"]["light"]
    assert data["derive"]["values"] == {"plain": None, "bright": {"severity": 3}}
    assert ("official" in data["roles"]) == with_roles
    plan = make_plan(study_from(parse(proposal.text, "t.yaml"), name="t"), tmp_path)
    assert {draw.shift for draw in plan.draws} == {"none", "SC"}


def test_a_text_a_label_and_roles_are_a_study_over_the_length(tmp_path: Path) -> None:
    texts = ["word " * (2 + row * 7 % 20) for row in range(400)]
    table = {"text": texts, "label": [row % 2 for row in range(400)]}
    roles = [("train", "test")[row // 2 % 2] for row in range(400)]
    polars.DataFrame({**table, "split": roles}).write_csv(tmp_path / "t.csv")
    study, notes = study_of(tmp_path / "t.csv")
    assert "official" in study["data"]["length"]["roles"]
    assert any("'split' deals the roles" in note for note in notes)


def test_repeats_fit_minutes_and_those_that_are_needed_are_given_more_of_them() -> None:
    seconds_a_repeat = {5: 30, 14: 15, 20: 15, 25: 15, 40: 10, 60: 10, 90: 10}
    for seconds, repeats in seconds_a_repeat.items():
        assert repeats_that_fit(2.0 * seconds * 30, 30) == repeats, seconds
    assert repeats_that_fit(2.0 * 14 * 30, 30, needed=30) == 30
    assert repeats_that_fit(2.0 * 20 * 30, 30, needed=20) == 20


def test_few_test_rows_need_more_repeats() -> None:
    """The power of the number that is named is 80% by the noncentral t distribution, where any of
    those tried has it, and that of the number before is less."""
    needed = {12: 30, 70: 30, 90: 20, 100: 20, 130: 15, 400: 15}
    assert {rows: repeats_needed(rows) for rows in needed} == needed
    for rows, repeats, before in ((90, 20, 15), (100, 20, 15), (130, 15, None)):
        assert _power(rows, repeats) == pytest.approx(0.8, abs=0.07)
        assert before is None or _power(rows, before) < 0.8


def _power(rows: int, repeats: int) -> float:
    """How often a t test over so many repeats tells `TELLABLE` with so many test rows each."""
    shift = TELLABLE / math.sqrt(0.5 / rows) * math.sqrt(repeats)
    return float(stats.nct.sf(stats.t.ppf(0.975, repeats - 1), repeats - 1, shift))


def test_rows_of_units_test_evenly_though_they_bring_others_along(tmp_path: Path) -> None:
    """Reviews in pairs of one batch, the one good and the other bad; a mark tells which in 95%."""
    draw = np.random.default_rng(0)
    good = np.arange(1200) % 2
    mark = np.where(draw.random(1200) < 0.95, good, 1 - good)
    texts = [f"{row} of these words say {('bad', 'good')[row % 2]} things" for row in range(1200)]
    columns = {"batch_id": np.arange(1200) // 2 + 5000, "mark": mark, "label": good, "text": texts}
    polars.DataFrame(columns).write_csv(tmp_path / "t.csv")
    proposal = propose(str(tmp_path / "t.csv"), study_folder=tmp_path)
    assert proposal.draft.unit == "batch_id"
    n_cell = proposal.draft.designs[0].test
    plan = make_plan(study_from(parse(proposal.text, "t.yaml"), name="t"), tmp_path)
    assert {draw.test_rows for draw in plan.draws} == {4 * n_cell}
    assert len(plan.draws) >= 2 and not any("test" in warning for warning in plan.warnings)


def test_remarks_of_an_attribute_leave_with_it(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    ill = np.arange(600) % 2
    columns = {"label": ill.tolist(), "x": draw.normal(size=600).tolist()}
    for name, share in (("attribute", 0.9), ("site", 0.75)):
        follows = np.where(draw.random(600) < share, ill, 1 - ill)
        columns[name] = [
            ("north", "South", "SOUTH ")[n + n * (i % 9 == 0)] for i, n in enumerate(follows)
        ]
    polars.DataFrame(columns).write_csv(tmp_path / "t.csv")
    proposal = propose(str(tmp_path / "t.csv"))
    gone = proposal.draft.designs[-1].attribute
    of_gone = [remark for remark in proposal.remarks if remark.attribute == gone]
    assert gone == "site" and len(of_gone) == 2
    fewer = proposal.with_less()
    assert fewer is not None and not {remark.sentence for remark in of_gone} & set(fewer.notes)
    assert len(fewer.notes) == len(proposal.notes) - len(of_gone) + 1


@pytest.mark.parametrize("name", ["Patient ID", "patientId", "MRN", "Patientennummer", "case_no"])
@pytest.mark.parametrize("as_words", [False, True])
def test_rows_of_one_patient_stay_together(tmp_path: Path, name: str, as_words: bool) -> None:
    """Numbers of patients, a few rows each, are no inputs: a model would know them by heart."""
    draw = np.random.default_rng(0)
    numbers = np.sort(draw.integers(1000, 1200, 600))
    columns = {
        name: [f"p{number}" for number in numbers] if as_words else numbers,
        "Patient Age": draw.normal(60, 9, 600).round(1),
        "sex": draw.choice(["f", "m"], 600),
        "label": draw.choice(["ill", "well"], 600),
    }
    polars.DataFrame(columns).write_csv(tmp_path / "t.csv")
    proposal = propose(str(tmp_path / "t.csv"), study_folder=tmp_path)
    draft, notes = proposal.draft, proposal.notes
    assert draft.options["unit"] == draft.unit == name
    assert f"rows of one {name} stay together: they never both train and test" in notes
    assert draft.options["numbers"] == ["Patient Age"]
    assert name not in [*draft.options["categories"], *draft.further]
    assert [design.attribute for design in draft.designs] == ["sex"]
    with pytest.raises(InputError, match="its 1.. values number units, such as patients"):
        propose(str(tmp_path / "t.csv"), label=name, study_folder=tmp_path)


def test_numbers_of_patients_of_one_row_each_are_identifiers(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    columns = {
        "MRN": draw.choice(10**6, 300, replace=False),
        "age": draw.normal(60, 9, 300).round(1),
        "label": draw.choice(["ill", "well"], 300),
    }
    polars.DataFrame(columns).write_csv(tmp_path / "t.csv")
    draft = propose(str(tmp_path / "t.csv"), study_folder=tmp_path).draft
    assert draft.unit is None and draft.options["numbers"] == ["age"]


@pytest.mark.slow
def test_columns_are_looked_at_once_and_not_beside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 800 columns there are 320,000 pairs."""
    draw = np.random.default_rng(0)
    n_columns = 60
    columns = {f"x{i}": draw.normal(size=120) for i in range(n_columns)}
    columns["again"] = columns["x7"] * 2
    columns["label"] = draw.choice(["a", "b"], 120)
    polars.DataFrame(columns).write_csv(tmp_path / "t.csv")
    n_calls = 0
    unique = np.unique

    def counted_unique(*arguments: Any, **options: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        return unique(*arguments, **options)

    monkeypatch.setattr(np, "unique", counted_unique)
    proposal = propose(str(tmp_path / "t.csv"), study_folder=tmp_path)
    assert n_calls < 10 * n_columns
    assert any("again: the same as x7" in note for note in proposal.notes)


def lesions(n_rows: int = 600) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Rows of some 300 lesions of 150 patients: numbers of patients, of lesions, and the other columns
    of their table."""
    draw = np.random.default_rng(0)
    lesion = np.sort(draw.integers(0, 300, n_rows))
    columns = {
        "age": draw.normal(60, 9, n_rows).round(1),
        "sex": draw.choice(["f", "m"], n_rows),
        "label": draw.choice(["ill", "well"], n_rows),
    }
    return 5000 + lesion // 2, 80000 + lesion, columns


@pytest.mark.parametrize("others", [[], ["group_id"]])
def test_patients_are_kept_whole_before_their_lesions(tmp_path: Path, others: list[str]) -> None:
    """Whichever column comes first; what is torn by it is named."""
    patient, lesion, columns = lesions()
    group = np.random.default_rng(1).permutation(len(lesion)) // 2 + 100
    table = {"lesion_id": lesion, **dict.fromkeys(others, group), "patient_id": patient, **columns}
    polars.DataFrame(table).write_csv(tmp_path / "t.csv")
    proposal = propose(str(tmp_path / "t.csv"), study_folder=tmp_path)
    assert proposal.draft.unit == "patient_id"
    torn = [note for note in proposal.notes if "may lie on both sides" in note]
    assert len(torn) == len(others) and all("those of one group_id" in note for note in torn)


def test_rows_of_nobody_are_left_out_or_named(tmp_path: Path) -> None:
    """A few blank patients are left out; of many, patients are no unit, which is said."""
    patient, _, columns = lesions()
    for n_blank, unit, sentence in (
        (10, "patient_id", "patient_id: empty in 10 of 600 rows, left out"),
        (200, None, "patient_id: empty in 200 of 600 rows, so that rows of one value may lie on"),
    ):
        numbers = [None if row < n_blank else int(number) for row, number in enumerate(patient)]
        path = tmp_path / f"{n_blank}.csv"
        polars.DataFrame({"patient_id": numbers, **columns}).write_csv(path)
        proposal = propose(str(path), study_folder=tmp_path)
        assert proposal.draft.unit == unit
        assert any(note.startswith(sentence) for note in proposal.notes), proposal.notes
        assert proposal.notes[0].startswith("600 rows; ")
        plan = make_plan(study_from(parse(proposal.text, "t.yaml"), name="t"), tmp_path)
        assert plan.runs


@pytest.mark.slow
def test_cells_that_lack_rows_are_told_once_a_set(tmp_path: Path) -> None:
    """Under nearly every split seed another few rows are lacking where patients stay together."""
    path = patients(tmp_path / "moles.csv", tie=0.8, patient_id=[i // 4 for i in range(600)])
    study = ready_study(str(path), tmp_path / "moles.yaml")
    size_notes = [note for note in study.notes if "rows that were asked for" in note]
    in_plan = [text for text in study.plan.warnings if "rows that were asked for" in text]
    sets = {text.rpartition(": ")[0] for text in in_plan}
    assert 0 < len(size_notes) == len(sets) < len(in_plan)
    assert any(
        re.search(r"\(\d+ more such warnings?: crosswind plan\)$", note) for note in size_notes
    )


@pytest.mark.slow
def test_a_wide_table_says_how_many_inputs_there_are_and_which_columns_are_none(
    tmp_path: Path, capsys: Any
) -> None:
    rows = range(120)
    columns: dict[str, list[Any]] = {"kind": ["ab"[row % 2] for row in rows]}
    columns["site"] = ["xy"[(row // 2 + row % 2 * (row % 5 > 0)) % 2] for row in rows]
    columns |= {f"gene{n}": [(row * (n + 7)) % 101 + 0.5 for row in rows] for n in range(30)}
    columns |= {f"batch{n}": ["one"] * len(rows) for n in range(10)}
    columns |= {f"day{n}": [f"2020-01-{(row + n) % 28 + 1:02}" for row in rows] for n in range(10)}
    polars.DataFrame(columns).write_csv(tmp_path / "wide.csv")
    assert _status(["init", str(tmp_path / "wide.csv"), "--label", "kind"]) == 0
    text = "".join(capsys.readouterr())
    assert (
        "31 columns are what a model reads ('site', 'gene0', 'gene1', 'gene2', 'gene3' and 26"
        in text
    )
    assert "batch0, batch1, batch2 and 7 more: one value" in text
    assert "day0, day1, day2 and 7 more: dates, which are not read as numbers" in text
    assert "20 columns of these no model reads" in text
