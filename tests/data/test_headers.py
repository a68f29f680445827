"""Tables without a line of names are refused with a remedy that works; tables with one are read as
ever, however odd the names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import DataError, InputError
from crosswind.data.prepared.paths import copy_settings, prepared_source
from crosswind.data.tabular import read_table
from crosswind.studies.build import data_values
from crosswind.studies.plan import plan_of
from crosswind.studies.spec import DataSpec

WITHOUT = {
    "pictures": ["img/{i}.jpg,{bird},{place}"],
    "pictures and numbers": ["{i:02}.png,{code}"],
    "elpv: spaces": [
        "images/cell{i:04}.png  {half}        mono",
        "images/cell{i:04}.png  {half}        poly",
    ],
    "spaces, numbers first": ["{code} {i}.JPG"],
    "semicolons": ["{bird};b/{i}.jpeg;{place}"],
    "tabs": ["{i}.webp\t{bird}"],
    "iris": ["5.{i},3.5,1.{code},0.2,Iris-setosa", "5.{i},3.1,4.{code},1.2,Iris-virginica"],
    "wine": ["{code},14.{i},1.71,{i}"],
    "adult": ["{i}, State-gov, 775{i}, Bachelors", "{i}, Private, 2155{i}, HS-grad"],
    "poker": ["{code},1{i},{code},{i}"],
    "words": ["{bird},{place}"],
    "texts": ["the film number {i} was a joy,{bird}"],
    "ids without ending": ["ISIC_00{i}08,{bird}"],
    "hashes": ["{hash},{bird}"],
    "a picture and its mask": ["{i}.png,{i}_mask.png"],
    "a number after words": ["{bird},{code}"],
    "dates": ["2020-01-{i:02},{place}"],
    "probabilities": ["0.{i:02},0.5,0.2"],
}


def lines_of(patterns: list[str], rows: int = 60) -> list[str]:
    birds, places = ("gull", "tern"), ("sea", "land", "ice")
    values = [
        {
            "i": i + 11,
            "bird": birds[i % 2],
            "place": places[i // 2 % 3],
            "code": (7, 4, 9)[i % 3],
            "half": i % 4 / 2,
            "hash": f"{(i + 1) * 2654435761 % 2**32:08x}{(i + 7) * 40503 % 2**16:04x}",
        }
        for i in range(rows)
    ]
    return [patterns[i % len(patterns)].format(**cells) for i, cells in enumerate(values)]


def written(folder: Path, lines: list[str]) -> str:
    place = folder / "rows.csv"
    place.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(place)


@pytest.mark.parametrize("kind", WITHOUT)
def test_a_table_without_names_is_refused_and_read_under_given_ones(
    kind: str, tmp_path: Path
) -> None:
    lines = lines_of(WITHOUT[kind])
    path = written(tmp_path, lines)
    with pytest.raises(
        DataError, match=r"rows\.csv has no line of names: its first line is a row \(.*header: \["
    ) as refused:
        read_table(path, "path")
    proposed = str(refused.value).rpartition("[")[2].removesuffix("]").split(",")
    rows = read_table(path, "path", proposed)
    assert rows.height == len(lines) and rows.columns == proposed


def test_names_that_are_there_are_no_row(tmp_path: Path) -> None:
    path = written(tmp_path, ["file,bird", *lines_of(["{i}.jpg,{bird}"])])
    assert (
        read_table(path, "path", ["file", "bird"]).height == read_table(path, "path").height == 60
    )


def test_names_of_another_number_of_columns_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, lines_of(["{i}.jpg,{bird}"]))
    with pytest.raises(
        InputError, match=r"table\.header: names 3 columns, and the first line of \S+ has 2 cells"
    ):
        read_table(path, "table.path", ["a", "b", "c"])


def test_a_false_alarm_is_ended_by_the_names_themselves(tmp_path: Path) -> None:
    path = written(tmp_path, ["dog,cat", *(["dog,none", "none,cat"] * 20)])
    with pytest.raises(DataError, match="no line of names"):
        read_table(path, "path")
    assert read_table(path, "path", ["dog", "cat"]).height == 40


WITH = {
    "scores by number": ["0,1,2", ["0.{i},0.1,0.2"]],
    "scores by number from 1": ["1,2,3", ["0.{i},0.1,0.2"]],
    "scores in the order of strings": [
        "0,1,10,11,2,3,4,5,6,7,8,9",
        ["0.{i},0,0,0,0,0,0,0,0,0,1,0"],
    ],
    "some classes": ["3,5,8", ["0.{i},0.1,0.2"]],
    "scores without a gap": ["0,1", ["0,1", "1,0"]],
    "an index and numbers": ["id,0,1", ["{i},0,1"]],
    "years": ["2018,2020,2021", ["{i},{code},{i}"]],
    "doses": ["0.5,1.0,1.5", ["{i},{code},{i}"]],
    "one hot": ["path,cat,dog", ["{i}.jpg,0,1", "{i}.jpg,1,0"]],
    "a value named as its column": [
        "path,label,fog",
        ["{i}.jpg,{bird},fog", "{i}.jpg,{bird},clear"],
    ],
    "words, one of which is a value": ["species,fog", ["gull,fog", "tern,clear"]],
    "words alone": ["kind,sea", ["{bird},{place}"]],
    "a class called label": ["text,label", ["what is number {i},label", "no {i},value"]],
    "numbers of a class": ["picture,7", ["{i}.jpg,{code}"]],
    "a series of pandas": ["bird,0", ["{bird},{code}"]],
    "one column": ["bird", ["{bird}"]],
    "one column of numbers": ["score", ["0.{i}"]],
    "texts": ["review,stars", ["the film number {i} was a joy,{code}"]],
    "texts of the heading's word": ["text,tone", ["text,{bird}", "other {i},{bird}"]],
    "few rows": ["path,label", ["a.jpg,gull"]],
    "ids alike": ["sample_id,breed", ["ISIC_00{i}08,{bird}"]],
    "dates across": ["2020-01-01,2020-01-02", ["{i},{code}"]],
    "missing cells": ["path,age", ["{i}.jpg,", "{i}.jpg,{i}"]],
    "quoted": ['"file","bird"', ['"{i}.jpg","{bird}"']],
    "spaces in names": ["file name,bird kind", ["{i}.jpg,{bird}"]],
    "pixels": ["pixel0,pixel1,label", ["{i},{code},{code}"]],
    "texts with spaces": ["words", ["the film {i}.jpg", "no film at all {i}"]],
}


@pytest.mark.parametrize("kind", WITH)
def test_honest_names_are_read_as_names(kind: str, tmp_path: Path) -> None:
    header, patterns = WITH[kind]
    assert isinstance(header, str) and isinstance(patterns, list)
    rows = read_table(
        written(tmp_path, [header, *lines_of(patterns, 1 if kind == "few rows" else 60)]), "path"
    )
    assert rows.columns == [name.strip('"') for name in header.split(",")]


def test_two_tables_that_were_joined_are_told_by_the_second_line_of_names(tmp_path: Path) -> None:
    part = ["path,label", *lines_of(["{i}.jpg,{bird}"], 5)]
    with pytest.raises(
        DataError, match="row 6 holds the names of the columns once more: were two tables joined"
    ):
        read_table(written(tmp_path, [*part, *part]), "path")


def test_spaces_part_cells_under_names_too(tmp_path: Path) -> None:
    rows = read_table(
        written(tmp_path, ["path   wear  kind", *lines_of(["images/{i}.png  {half}    mono"])]),
        "path",
    )
    assert rows.columns == ["path", "wear", "kind"] and rows["wear"].unique().sort().to_list() == [
        "0.0",
        "0.5",
        "1.0",
        "1.5",
    ]


def birds(folder: Path) -> str:
    draw = np.random.default_rng(0)
    (folder / "img").mkdir()
    for row in range(60):
        Image.fromarray(draw.integers(0, 256, (6, 6, 3), dtype=np.uint8)).save(
            folder / "img" / f"{row + 11}.jpg"
        )
    return written(folder, lines_of(["img/{i}.jpg,{bird},{place}"]))


@pytest.mark.slow
def test_init_takes_the_names_and_writes_them_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = birds(tmp_path)
    assert _status(["init", path]) == 2
    remedy = capsys.readouterr().err.rpartition("such as ")[2].strip()
    assert remedy == "--header path,column2,label" and not (tmp_path / "rows.yaml").exists()
    for option in ("--header", "--columns"):
        assert _status(["init", path, option, "path,bird,place", "--force"]) == 0
        plan = plan_of(str(tmp_path / "rows.yaml"))
        assert len(next(draw for draw in plan.draws if draw.shift == "none").cells) == 6
        assert (
            cw.load(
                "table", path=path, images=str(tmp_path), header=["path", "bird", "place"]
            ).n_rows
            == 60
        )
    assert plan.study.data["place"].label == "bird" and plan.study.data["place"].options[
        "header"
    ] == [
        "path",
        "bird",
        "place",
    ]


def test_a_study_and_an_audit_refuse_a_table_without_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = birds(tmp_path)
    own = {
        "source": "table",
        "options": {"path": path, "images": str(tmp_path)},
        "label": "bird",
        "attributes": ["place"],
    }
    with pytest.raises(DataError, match="data.own: .* has no line of names"):
        cw.plan({"data": {"own": own}, "shifts": {"none": []}, "models": ["mlp"]})
    assert _status(["audit", "--train", path, "--target", path, "--label", "bird"]) == 2
    assert "--header path,column2,label" in capsys.readouterr().err
    (tmp_path / "named.csv").write_text(
        "bird,place,more\ngull,sea,x\ntern,land,y\n" * 1 + "gull,land,x\n" * 20
    )
    named = [
        "audit",
        "--train",
        path,
        "--target",
        str(tmp_path / "named.csv"),
        "--label",
        "bird",
        "--header",
        "path,bird,place",
    ]
    assert _status(named) == 0
    assert capsys.readouterr().out.startswith("60 training and 22 target rows, label 'bird'")


def test_names_that_are_not_given_leave_keys_and_cards_as_they_were() -> None:
    source = prepared_source("table", {"path": "a.csv", "images": "b"}, "source")
    assert "header" not in copy_settings(source)
    spec = DataSpec.model_validate(
        {"source": "table", "options": {"path": "a.csv"}, "label": "y", "attributes": []}
    )
    assert "header" not in data_values(spec, "data.own", None)["options"]
