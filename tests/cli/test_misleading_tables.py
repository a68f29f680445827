"""Tables that look as if they said something else: names that YAML reads, columns that are the
classes of one label, pictures that were cut off, paths of another machine, rows without anything."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from PIL import Image
from tests.cli.awkward_tables import READ, N, csv, moles
from tests.cli.test_awkward_tables import said_of

import crosswind as cw
from crosswind.core.errors import CrosswindError, DataError, InputError
from crosswind.data.tabular import read_table
from crosswind.proposals.ready import ready_study
from crosswind.proposals.study_file import propose
from crosswind.proposals.writing import word
from crosswind.studies.reading import parse

NAMES = ("Ort, PLZ", "a, b]", "('a', 'site')", "1e3", "yes", "null", "12:30", "#x", "- x", "~")
NAMES += ("key: value", "{x}", "%x", "@x", "&x", "!x", "[x", "x #y", "? x", "it's", '"x"', "0x1F")
NAMES += (".5", "true", "<<", "=", "2024-01-01", "x" * 150, "|", "> x", "tied", ".inf", "-1", "")
COLUMNS = {"attribute": "ruler", "label": "diagnosis", "number": "age"}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_itself_in_a_list_and_as_a_key(name: str) -> None:
    text = f"a: [{word(name)}, {word(name)}]\nb: {{{word(name)}: 1}}\nc: {word(name)}\n"
    assert parse(text, "t") == {"a": [name, name], "b": {name: 1}, "c": name}


@pytest.mark.parametrize("role", COLUMNS)
@pytest.mark.parametrize("name", ["Ort, PLZ", "a, b]", "1e3", "null", "#x"])
def test_a_study_of_odd_names_is_planned(
    name: str, role: str, tmp_path: Path, monkeypatch: Any
) -> None:
    names = {column: name if column == COLUMNS[role] else column for column in moles()}
    columns = {f'"{names[column]}"': cells for column, cells in moles().items()}
    (tmp_path / "t.csv").write_text(csv(columns))
    label = name if role == "label" else "diagnosis"
    assert f"label '{label}': ben 120, mel 120" in said_of(tmp_path / "t.csv", monkeypatch)


def test_attributes_of_names_that_are_nearly_one_have_their_own_entries(tmp_path: Path) -> None:
    columns = {**moles(), '"ruler, old"': moles()["ruler"][::-1], '"ruler; old"': []}
    columns['"ruler; old"'] = [
        "yes" if (cell == "mel") ^ (row % 7 == 0) else "no"
        for row, cell in enumerate(columns["diagnosis"])
    ]
    columns['"ruler, old"'] = [
        "yes" if (cell == "mel") ^ (row % 5 == 0) else "no"
        for row, cell in enumerate(columns["diagnosis"])
    ]
    (tmp_path / "t.csv").write_text(csv(columns))
    entries = parse(propose(str(tmp_path / "t.csv")).text, "t")["data"]
    assert {"ruler_ old", "ruler_ old_2"} <= entries.keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attribute", "name"),
    [
        ("医院", "attribute"),
        ("מקור", "attribute"),
        ("Größe", "Grosse"),
        ("âge", "age"),
        ("x#", "x_"),
    ],
)
def test_data_are_called_as_their_attribute_or_in_a_plain_word(
    attribute: str, name: str, tmp_path: Path
) -> None:
    """A name of two underscores in every table of a report says nothing."""
    columns = {attribute if key == "ruler" else key: cells for key, cells in moles().items()}
    polars.DataFrame(columns).write_csv(tmp_path / "t.csv")
    study = ready_study(str(tmp_path / "t.csv"), tmp_path / "t.yaml")
    assert list(study.plan.study.data) == [name]
    assert any(note.startswith(f"{attribute}: every shift trains on") for note in study.notes)


@pytest.mark.slow
def test_columns_that_are_the_classes_of_one_label_are_said(
    tmp_path: Path, monkeypatch: Any
) -> None:
    classes = ("MEL", "NV", "BCC")
    one_hot: dict[str, Any] = {
        name: [float(row % 3 == number) for row in range(N)] for number, name in enumerate(classes)
    }
    table = {"female": [row // 3 % 2 for row in range(N)], **one_hot, "ruler": moles()["ruler"]}
    (tmp_path / "t.csv").write_text(csv({**table, "age": moles()["age"]}))
    words = "MEL, NV, BCC exclude one another, one of them is 1 in every row"
    assert words in said_of(tmp_path / "t.csv", monkeypatch)
    table["NV"] = [0.0, *table["NV"][1:-1], 1.0 - table["NV"][-1]]
    (tmp_path / "t.csv").write_text(csv({**table, "age": moles()["age"]}))
    assert "exclude one another" not in said_of(tmp_path / "t.csv", monkeypatch)


def pictures(folder: Path, ending: str) -> list[str]:
    (folder / "img").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (N, 32, 32, 3), dtype=np.uint8)
    names = [f"{row:03}.{ending}" for row in range(N)]
    for name, picture in zip(names, pixels, strict=True):
        Image.fromarray(picture).save(folder / "img" / name)
    return names


def table_of(folder: Path, names: list[str]) -> Path:
    two = {key: moles()[key] for key in ("diagnosis", "ruler")}
    (folder / "t.csv").write_text(csv({"file": names, **two}))
    return folder / "t.csv"


@pytest.mark.parametrize("ending", ["jpg", "png"])
def test_pictures_that_were_cut_off_are_refused(
    ending: str, tmp_path: Path, monkeypatch: Any
) -> None:
    names = pictures(tmp_path, ending)
    path = table_of(tmp_path, names)
    (tmp_path / "img" / names[3]).write_bytes((tmp_path / "img" / names[3]).read_bytes() + b"more")
    assert READ in said_of(path, monkeypatch)
    for row in (100, 150):
        file = tmp_path / "img" / names[row]
        file.write_bytes(file.read_bytes()[:-300])
    said = said_of(path, monkeypatch)
    words = (
        rf"t\.csv, row 101: '100\.{ending}' cannot be read as a whole image: .*; fetch it again,"
    )
    assert re.match(words, said) and said.endswith(" (1 more such row)")


def test_pictures_that_are_not_there_are_counted_in_the_whole_table(
    tmp_path: Path, monkeypatch: Any
) -> None:
    names = pictures(tmp_path, "png")
    table_of(tmp_path, [f"../input/cats/x{name}" for name in names])
    monkeypatch.chdir(tmp_path)
    words = r"^t\.csv, column 'file', row 1: .* leads out of the folder.*\(239 more such rows"
    with pytest.raises(DataError, match=words):
        propose("t.csv", images="img")
    (tmp_path / "img" / "again").mkdir()
    for name in names:
        (tmp_path / "img" / name).rename(tmp_path / "img" / "again" / name)
        (tmp_path / "img" / "more").mkdir(exist_ok=True)
        (tmp_path / "img" / "more" / name).write_bytes(b"0")
    table_of(tmp_path, names)
    words = r"^t\.csv, column 'file', row 1: '000\.png' may be one of several .*\(239 more such"
    for images in ("img", None):
        with pytest.raises(DataError, match=words):
            propose("t.csv", images=images)


def test_the_folder_of_the_table_is_named_in_words(tmp_path: Path, monkeypatch: Any) -> None:
    path = table_of(tmp_path, [f"img/{name}" for name in pictures(tmp_path, "png")])
    assert "images by column 'file' in this folder" in said_of(path, monkeypatch)


def test_rows_without_anything_are_no_rows_of_a_proposal(tmp_path: Path, monkeypatch: Any) -> None:
    lines = csv(moles()).splitlines()
    (tmp_path / "t.csv").write_text("\n".join([*lines[:9], *[",,,"] * 20, *lines[9:], ",,,"]))
    said = said_of(tmp_path / "t.csv", monkeypatch)
    assert "240 rows; no images or texts" in said and "ruler: empty" not in said.split("\n")[2]
    assert "1 empty row at the end left out" in said


def test_few_values_are_a_label_before_those_that_only_repeat(tmp_path: Path) -> None:
    rows = [
        f"{row % 2 * 4},{row + 1467810369},Mon Apr {row % 28 + 1},NO_QUERY,user{row % 50},so sad {row}"
        for row in range(N)
    ]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    with pytest.raises(DataError, match=r"--header label,column2,column3,column4,column5,column6"):
        propose(str(tmp_path / "t.csv"))


def test_a_few_dates_are_no_label_beside_words_or_grades(tmp_path: Path) -> None:
    days = [f"2024-{1 + row % 12:02d}-01" for row in range(N)]
    table = {"wave": days, "grade_of": [row % 5 for row in range(N)], **moles()}
    del table["diagnosis"]
    polars.DataFrame(table).write_csv(tmp_path / "t.csv")
    assert propose(str(tmp_path / "t.csv")).draft.label.name == "ruler"
    polars.DataFrame(table).drop("ruler").write_csv(tmp_path / "t.csv")
    assert propose(str(tmp_path / "t.csv")).draft.label.name == "grade_of"


def test_texts_are_read_beside_addresses_of_pictures(tmp_path: Path) -> None:
    texts = [f"the mole number {row} looks {('dull', 'odd')[row % 2]} today" for row in range(N)]
    table = {"url": [f"https://x.org/{row}.jpg" for row in range(N)], "note": texts, **moles()}
    polars.DataFrame(table).write_csv(tmp_path / "t.csv")
    proposal = propose(str(tmp_path / "t.csv"))
    assert proposal.draft.options["text"] == "note"
    assert any("url: paths" in note for note in proposal.notes)


def test_a_class_that_may_be_no_value_is_told(tmp_path: Path) -> None:
    table = moles()
    table["diagnosis"] = [
        "NA" if row % 5 == 0 else cell for row, cell in enumerate(table["diagnosis"])
    ]
    polars.DataFrame(table).write_csv(tmp_path / "t.csv")
    notes = propose(str(tmp_path / "t.csv")).notes
    sentence = "diagnosis: 'NA' is taken for a value, in 48 rows: if it stands for none, leave"
    assert any(note.startswith(sentence) for note in notes)


def test_texts_in_files_are_to_be_put_into_the_table(tmp_path: Path) -> None:
    (tmp_path / "texts" / "mel").mkdir(parents=True)
    (tmp_path / "texts" / "mel" / "1.txt").write_text("a dull mole")
    with pytest.raises(
        InputError, match="a column of texts, as they stand in these files, and one"
    ):
        propose(str(tmp_path / "texts"))
    names = [f"mel/{row}.txt" for row in range(N)]
    polars.DataFrame({"diagnosis": moles()["diagnosis"], "text": names}).write_csv(
        tmp_path / "t.csv"
    )
    sentence = "text: paths of texts: put the texts themselves into the column"
    with pytest.raises(DataError, match=sentence):
        propose(str(tmp_path / "t.csv"))


def test_two_lines_of_names_are_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("patient,patient,lab\nage,sex,crp\n" + "40,f,1.5\n50,m,2\n" * 9)
    words = r"where row 1 holds a second line of names make one line of the two"
    with pytest.raises(DataError, match=words):
        read_table(str(tmp_path / "t.csv"), "path")


def test_a_frame_says_what_may_be_one_value_and_how_rows_are_left_out(tmp_path: Path) -> None:
    spelled = [("BENIGN", "benign", "mal")[row % 3] for row in range(60)]
    frame = {"y": spelled, "x": [row / 7 for row in range(60)]}
    dataset = cw.from_frame(frame, label="y")
    said = "y: 'BENIGN' and 'benign' may be one value and are taken as different ones: cw.with_same"
    assert any(name == "y" and said in sentence for name, sentence in dataset.notes)
    frame["y"] = [None, *frame["y"][1:]]  # type: ignore[list-item]
    with pytest.raises(
        DataError, match=r"row 1 has no value; fill it in, or say empty=\"leave-out"
    ):
        cw.from_frame(frame, label="y")
    assert cw.from_frame(frame, label="y", empty="leave-out").n_base == 59
    names: list[str | None] = [*pictures(tmp_path, "png")]
    names[4] = None
    of_pictures = polars.DataFrame({"path": names, "y": ["a", "b"] * (N // 2)})
    with pytest.raises(DataError, match=r"'path', row 5 has no value; .* empty=\"leave-out\""):
        cw.from_frame(of_pictures, images=tmp_path / "img", label="y", size=8)
    dataset = cw.from_frame(
        of_pictures, images=tmp_path / "img", label="y", size=8, empty="leave-out"
    )
    assert dataset.n_base == N - 1 and 4 not in dataset.ids


def test_a_table_says_how_rows_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("y,x\n,1\n" + "a,1\nb,2\n" * 9)
    with pytest.raises(CrosswindError, match=r"row 1 has no value; .* say empty: leave-out"):
        cw.load("table", path=str(tmp_path / "t.csv"), numbers=["x"], columns=["y"])
    with pytest.raises(InputError):
        cw.load("table", path=str(tmp_path / "t.csv"), numbers=["x"], columns=["z"])


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("html", "is not an image; fetch it again"),
        ("deep", r"has pixels of more than 8 bits \(mode I;16\)"),
        ("tiff", r"has pixels of more than 8 bits \(mode F\)"),
    ],
)
def test_files_that_are_no_pictures_of_8_bits_are_refused(
    ending: str, words: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """A study was written and failed when it came to such a row, since few are drawn to tell the
    time: only pictures that were cut off were looked for."""
    names = pictures(tmp_path, "png")
    path = table_of(tmp_path, names)
    assert READ in said_of(path, monkeypatch)
    file = tmp_path / "img" / names[100]
    grey = np.full((32, 32), 9)
    if ending == "html":
        file.write_text("<html>not found</html>")
    elif ending == "deep":
        Image.fromarray(grey.astype(np.uint16)).save(file)
    else:
        Image.fromarray(grey.astype(np.float32)).save(file, format="tiff")
    said = said_of(path, monkeypatch)
    assert re.match(rf"t\.csv, row 101: '100\.png' {words}", said)


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_a_shuffled_index_is_no_input(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """As `frame.sample(frac=1).to_csv()` writes it."""
    order = [str(number) for number in np.random.default_rng(0).permutation(3 * N)[:N]]
    (tmp_path / "t.csv").write_text(csv({f'"{name}"': order, **moles()}))
    sentence = said_of(tmp_path / "t.csv", monkeypatch)
    assert f"no attributes: {name or 'column1'}: {N} values in {N} rows, an identifier" in sentence
    for entry in parse(propose(str(tmp_path / "t.csv")).text, "t")["data"].values():
        assert entry["options"]["numbers"] == ["age", "size"]
