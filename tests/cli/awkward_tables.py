"""Tables as people have them, written without a look at the code that reads them: what is in each
file, and what a proposal must say of it."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars
from PIL import Image

N = 240
READ = "label 'diagnosis': ben 120, mel 120"
"""What is said of a table that was read as it is meant."""

Columns = Mapping[str, Sequence[Any]]


def moles() -> dict[str, list[Any]]:
    """Half of the rows of each diagnosis; the ruler goes with it in four of five."""
    draw = np.random.default_rng(0)
    ill = np.arange(N) % 2
    ruler = np.where(draw.random(N) < 0.8, ill, 1 - ill)
    return {
        "diagnosis": ["mel" if one else "ben" for one in ill],
        "ruler": ["yes" if one else "no" for one in ruler],
        "age": (50 + 10 * ill + draw.normal(0, 8, N)).round(1).tolist(),
        "size": draw.normal(5, 1, N).round(2).tolist(),
    }


def csv(columns: Columns, separator: str = ",", header: bool = True) -> str:
    names = list(columns)
    lines = [separator.join(names)] if header else []
    lines += [
        separator.join(str(cell) for cell in row) for row in zip(*columns.values(), strict=True)
    ]
    return "\n".join(lines) + "\n"


def changed(name: str, change: Any) -> str:
    """The moles with a column changed cell by cell: `change(number, cell)`."""
    columns = moles()
    columns[name] = [change(row, cell) for row, cell in enumerate(columns[name])]
    return csv(columns)


def with_column(name: str, value: Any) -> str:
    """The moles with one more column, `value(row number)`."""
    return csv({**moles(), name: [value(row) for row in range(N)]})


def without_label(name: str, value: Any) -> str:
    columns = moles()
    del columns["diagnosis"]
    return csv({**columns, name: [value(row) for row in range(N)]})


def _rows() -> list[str]:
    return csv(moles()).splitlines()


COMMAS = {name: [str(cell).replace(".", ",") for cell in cells] for name, cells in moles().items()}
SPELLED = {"yes": ("True", "TRUE", "true"), "no": ("False", "FALSE", "false")}
PERSIAN = str.maketrans("0123456789.", "۰۱۲۳۴۵۶۷۸۹٫")
UNITS = {"diagnosis": "-", "ruler": "-", "age": "years", "size": "mm"}
TABLES: dict[str, tuple[str | bytes, str]] = {
    "semicolons and decimal commas": (csv(COMMAS, ";"), READ),
    "Latin-1": (changed("ruler", lambda row, cell: "größe").encode("latin-1"), "save it as UTF-8"),
    "UTF-16": (csv(moles()).encode("utf-16"), READ),
    "a mark of order": (csv(moles()).encode("utf-8-sig"), READ),
    "tabs in a CSV": (csv(moles(), "\t"), READ),
    "bars": (csv(moles(), "|"), READ),
    "ends of lines of Windows": (csv(moles()).replace("\n", "\r\n"), READ),
    "ends of lines of old Macs": (csv(moles()).replace("\n", "\r"), READ),
    "a comma at the end": (csv(moles()).replace("\n", ",\n"), "column5: no value in any row"),
    "spaces around cells": (csv({k: [f" {c} " for c in v] for k, v in moles().items()}), READ),
    "quotes": (csv({k: [f'"{c}"' for c in v] for k, v in moles().items()}), READ),
    "line breaks in texts": (
        with_column("note", lambda row: f'"line one {row}\nand a second line"'),
        "texts in column 'note'",
    ),
    "two tables joined": (csv(moles()) * 2, "row 241 holds the names of the columns once more"),
    "nothing": ("", "is empty"),
    "names alone": ("diagnosis,ruler,age\n", "has no rows"),
    "one row": ("diagnosis,ruler\nmel,yes\n", "no column of 2 to 20 values or of numbers"),
    "one column": ("diagnosis\n" + "mel\nben\n" * 60, "no column of paths of images"),
    "no names": (csv(moles(), header=False), "--header column1,label,column3,column4"),
    "a total at the end": (csv(moles()) + "Total,,,\n", "fewer than 6 rows are left out: Total 1"),
    "percent signs": (
        changed("age", lambda row, cell: f"{cell:.0f}%"),
        "age: numbers with signs or units: write the numbers alone (row 1 has ",
    ),
    "NA among numbers": (
        changed("age", lambda row, cell: cell if row % 9 else "NA"),
        "'ruler', 'age',",
    ),
    "NA in a few cells of an attribute": (
        changed("ruler", lambda row, cell: cell if row % 50 else "n/a"),
        "left out for too few rows: n/a",
    ),
    "a dash for no label": (
        changed("diagnosis", lambda row, cell: cell if row % 60 else "-"),
        "fewer than 6 rows are left out: - 4",
    ),
    "rows without a label": (
        changed("diagnosis", lambda row, cell: cell if row % 3 else ""),
        "diagnosis: empty in 80 of 240 rows, left out",
    ),
    "an attribute that is mostly empty": (
        changed("ruler", lambda row, cell: cell if row % 3 else ""),
        "ruler: empty in 80 of 240 rows",
    ),
    "true in three ways": (
        changed("ruler", lambda row, cell: SPELLED[cell][row % 3]),
        "'FALSE', 'False' and 'false' are one value",
    ),
    "yes in three ways": (
        changed(
            "ruler", lambda row, cell: ("yes", "Yes", "YES ")[row % 3] if cell == "yes" else cell
        ),
        "'YES ', 'Yes' and 'yes' are one value",
    ),
    "dates": (
        with_column("date", lambda row: f"2024-{1 + row % 12:02}-{1 + row % 28:02}"),
        "date: dates, which are not read as numbers (row 1 has '2024-01-01')",
    ),
    "times of a day": (
        with_column("seen", lambda row: f"{row % 24}:{row % 60:02}"),
        "seen: times, which are not read as numbers (row 1 has '0:00')",
    ),
    "thousands of Switzerland": (
        with_column("pay", lambda row: f"{40 + row}\u2019{row:03}.50"),
        "pay: numbers with a sign between thousands that is not read: write 1500 (row 1 has"
        " '40\u2019000.50')",
    ),
    "thousands of programs": (
        with_column("pay", lambda row: f"{40 + row}_{row:03}"),
        "pay: numbers with a sign between thousands that is not read: write 1500",
    ),
    "digits of another script": (
        with_column("dose", lambda row: f"{row}.5".translate(PERSIAN)),
        "dose: numbers in digits of another script: write them in 0 to 9",
    ),
    "names of rows": (
        with_column("uid", lambda row: f"{row * 7919:x}"),
        "uid: 240 values in 240 rows, an identifier",
    ),
    "one value": (with_column("version", lambda row: "1.0"), "version: one value"),
    "names that differ": (
        "\n".join(["diagnosis,ruler,age,age", *_rows()[1:]]),
        "names column 'age' twice, and the two differ (row 1)",
    ),
    "the label as a code": (
        with_column("code", lambda row: row % 2),
        "left out, since they tell 'diagnosis' entirely: code",
    ),
    "a subclass of the label": (
        with_column("subtype", lambda row: f"{row % 2}-{row // 2 % 3}"),
        "left out, since they tell 'diagnosis' entirely: subtype",
    ),
    "an attribute twice": (
        csv({**moles(), "beside": ["y" if cell == "yes" else "n" for cell in moles()["ruler"]]}),
        "beside: the same as ruler",
    ),
    "numbers alone": (
        csv(
            {
                "label": [r % 3 for r in range(N)],
                "x": moles()["age"],
                "site": [r // 3 % 2 for r in range(N)],
            }
        ),
        "label 'label': 0 80, 1 80, 2 80",
    ),
    "grades": (without_label("stars", lambda row: row % 4), "has 4 grades and is cut in two at 2"),
    "numbers as the label": (
        without_label("target", lambda row: 100 + row * 37 % 239 / 8),
        "numbers and is cut in two at",
    ),
    "a rare class": (
        changed("diagnosis", lambda row, cell: "rare" if row in (3, 9) else cell),
        "fewer than 6 rows are left out: rare 2",
    ),
    "many classes": (
        changed("diagnosis", lambda row, cell: f"c{row % 60}"),
        "'diagnosis' cannot be it (it has 60 values, more than 20, that are no numbers)",
    ),
    "few rows": (
        "\n".join(_rows()[:15]),
        "rows in the smallest cell with 'diagnosis', fewer than 6",
    ),
    "comments": ("# made by hand\n# 2024\n" + csv(moles()), READ),
    "a declared separator": ("sep=;\n" + csv(moles(), ";"), READ),
    "blank lines first": ("\n\n" + csv(moles()), READ),
    "an index without a name": (csv({"": list(range(N)), **moles()}), READ),
    "an index of pandas": (
        csv({"Unnamed: 0": list(range(N)), **moles()}),
        "Unnamed: 0: 240 values in 240 rows, an identifier",
    ),
    "a row too long": (
        csv(moles()) + "mel,yes,3,4,5\n",
        "line 242 has 5 cells, and the first line",
    ),
    "names in other scripts": (
        csv(dict(zip(("診断", "règle", "x", "Größe"), moles().values(), strict=True))),
        "label '診断': ben 120, mel 120",
    ),
    "names that YAML reads": (
        csv(dict(zip(("label", "a: b", "x{y}", "#n"), moles().values(), strict=True))),
        "'a: b' goes with 'label' in the rows",
    ),
    "values that YAML reads": (
        changed("ruler", lambda row, cell: "off" if cell == "no" else "~x"),
        "ben with off, mel with ~x",
    ),
    "leading zeros": (with_column("zip", lambda row: f"0{row // 3 % 3}"), READ),
    "minus one and one": (
        csv(
            {
                "Male": [1 if c == "yes" else -1 for c in moles()["ruler"]],
                "y": [row % 2 for row in range(N)],
                "x": moles()["size"],
            }
        ),
        "label 'y': 0 120, 1 120",
    ),
    "folds": (with_column("fold", lambda row: row % 5), "fold: folds, left alone"),
    "roles": (
        with_column("split", lambda row: "test" if row % 3 else "train"),
        "'split' deals the roles",
    ),
    "a group of things": (with_column("patient", lambda row: f"p{row // 2}"), READ),
    "UTF-16 without its mark": (csv(moles()).encode("utf-16-le"), "save it as UTF-8"),
    "a sheet named as CSV": (b"PK\x03\x04" + bytes(60), "a sheet of Excel or a ZIP archive"),
    "packed and named as CSV": (b"\x1f\x8b\x08" + bytes(60), "packed by gzip: unpack it first"),
    "a page of a server": ("<!DOCTYPE html>\n<p>404, not here</p>\n", "a page of HTML"),
    "a pointer of Git LFS": ("version https://git-lfs.github.com/spec/v1\noid x\n", "git lfs pull"),
    "JSON in lines": ('{"a": 1, "b": 2}\n' * 9, "JSON: write it as CSV or Parquet"),
    "null characters": (csv(moles()).encode()[:-40] + bytes(40), "line 239 holds null characters"),
    "a file cut off": (csv(moles())[:-9], "line 241, its last, has 3 cells, the first line has 4"),
    "a quote never closed": (
        changed("ruler", lambda row, cell: f'"{cell}' if row == 99 else cell),
        "a quote that is opened in the row of line 101 is never closed; close it, or double it",
    ),
    "a line of units": (
        csv({name: [unit, *moles()[name]] for name, unit in UNITS.items()}),
        "age: a number in 240 of 241 rows, but row 1 has 'years': write numbers alone",
    ),
    "below what can be measured": (
        with_column("crp", lambda row: "<5" if row % 4 == 0 else row),
        "crp: a number in 180 of 240 rows, but row 1 has '<5'",
    ),
    "prices": (
        with_column("price", lambda row: f"${row * 3 + 5}.50"),
        "price: numbers with signs or units: write the numbers alone (row 1 has '$5.50')",
    ),
    "points between thousands": (
        csv({**COMMAS, "pay": [f"{1 + row % 9}.{row * 7 % 1000:03},5" for row in range(N)]}, ";"),
        "pay: points between thousands, '1.000,5' is 1000.5",
    ),
    "commas between thousands": (
        with_column("pay", lambda row: f'"{900 + row * 37:,}"'),
        "pay: commas between thousands, '1,011' is 1011",
    ),
    "commas of which nobody can tell what they are": (
        csv(
            {
                "diagnosis": moles()["diagnosis"],
                "ruler": moles()["ruler"],
                "pay": [f"{1 + row % 9},{row + 100}" for row in range(N)],
            },
            ";",
        ),
        "pay: '1,100' may be 1100 or 1.100, and nothing in the table says which",
    ),
    "numbers with a spread": (
        with_column("hb", lambda row: f"{10 + row % 30} ± {row % 4}"),
        "columns 'ruler', 'age', 'size' are what a model reads",
    ),
    "pressures of blood": (
        with_column("bp", lambda row: f"{100 + row} / {60 + row % 40} mmHg"),
        "bp: numbers with signs or units: write the numbers alone (row 1 has '100 / 60 mmHg')",
    ),
    "true in four ways, two of them numbers": (
        with_column("smoker", lambda row: ("TRUE", "FALSE", "1", "0")[row // 2 % 4]),
        "columns 'ruler', 'age', 'size', 'smoker' are what a model reads",
    ),
    "yes in three ways, one of them a number": (
        with_column("smoker", lambda row: ("Yes", "No", "Y", "N", "1", "0")[row // 2 % 6]),
        "columns 'ruler', 'age', 'size', 'smoker' are what a model reads",
    ),
    "a fraction in two ways": (
        with_column("dose", lambda row: ('"1,5"', "1.5", "2", "3")[row // 2 % 4]),
        "columns 'ruler', 'age', 'size', 'dose' are what a model reads",
    ),
    "numbers of admission": (
        with_column("accession", lambda row: 9007199254740993 + row // 3 * 7),
        "accession: 80 whole numbers so long that a model, which reads float32, tells only 1 of",
    ),
    "numbers of districts": (
        with_column("zip", lambda row: f"{1000 + row // 2 % 40:05}"),
        "zip: codes with zeros in front, such as '01000': no numbers",
    ),
    "names that look like powers": (
        with_column("plate", lambda row: f"{40 + row // 4}E{row // 4 % 20}"),
        "plate: names such as '40E0', which only look like numbers",
    ),
    "dates alone": (
        csv(
            {
                "diagnosis": moles()["diagnosis"],
                "visit": [f"{1 + row % 28:02}/{1 + row % 12:02}/2023" for row in range(N)],
                "ruler": moles()["ruler"],
            }
        ),
        "visit: dates, which are not read as numbers (row 1 has '01/01/2023')",
    ),
    "a pattern for a name": (
        csv(dict(zip(("label", "^a.*$", "x", "age"), moles().values(), strict=True))),
        "column 2 is called '^a.*$', which is a pattern and no name; give it another",
    ),
    "a name of two lines": (
        csv(dict(zip(("label", '"ruler\nseen"', "x", "y"), moles().values(), strict=True))),
        "'ruler\\nseen' goes with 'label' in the rows",
    ),
    "an accent in two ways": (
        changed("ruler", lambda row, cell: ("u\u0308", "\xfc")[row % 2] if cell == "yes" else cell),
        "are one value",
    ),
    "yes as 1 and as true": (
        changed("diagnosis", lambda row, cell: (cell == "mel", int(cell == "mel"))[row // 2 % 2]),
        "may be one value: the study takes them as one",
    ),
    "NA among few numbers": (
        with_column("grade", lambda row: "NA" if row % 30 == 0 else row // 2 % 2),
        "attributes that the rows do not tie to the label: grade",
    ),
    "a label of numbers and NA": (
        changed("diagnosis", lambda row, cell: "NA" if row % 3 == 0 else int(cell == "mel")),
        "label 'diagnosis': 0 80, 1 80",
    ),
    "a number for no value": (
        changed("age", lambda row, cell: -999 if row % 12 == 0 else cell),
        "age: -999 in 20 rows, far from all other numbers",
    ),
    "texts without blanks": (
        csv(
            {
                "text": [
                    f"{'这是一个很好的产品' if r % 2 else '质量太差了不推荐'}{r}" for r in range(N)
                ],
                "label": [row % 2 for row in range(N)],
                "shop": [row // 2 % 2 for row in range(N)],
            }
        ),
        "these texts part no words by blanks, and bag-of-words takes a sentence for a word",
    ),
    "infinite numbers": (changed("age", lambda row, cell: "inf" if row == 3 else cell), "age: "),
    "a control character": (with_column("a\x01b", lambda row: row % 2), "240 rows"),
}
PATHS: dict[str, tuple[Any, str]] = {
    "paths": (lambda row: f"img/{row:04}.png", READ),
    "no endings": (lambda row: f"{row:04}", READ),
    "backslashes": (lambda row: f"img\\{row:04}.png", READ),
    "paths of another machine": (lambda row: f"/data/ann/img/{row:04}.png", READ),
    "paths of Windows": (lambda row: f"C:\\Users\\ann\\img\\{row:04}.png", READ),
    "endings in capitals": (lambda row: f"img/{row:04}.PNG", READ),
    "three files missing": (
        lambda row: f"img/{'x' * (row in (5, 6, 9))}{row:04}.png",
        "row 6: there is no file 'img/x0005.png' in '.' (2 more such rows, row 7: 'img/x0006.png'",
    ),
    "HEIC": (
        lambda row: f"img/{row:04}.heic",
        "is a picture in the format HEIC, which is not read",
    ),
    "addresses": (lambda row: f"https://x.org/{row}.png", "is an address and no file: fetch"),
    "accents as file systems write them": (lambda row: f"img/\xe9{row:04}.png", READ),
    "addresses of files": (lambda row: f"file:///data/ann/img/{row:04}.png", READ),
    "paths below a home": (lambda row: f"~/img/{row:04}.png", READ),
    "paths of a notebook": (lambda row: f"../input/moles/img/{row:04}.png", READ),
    "paths of a notebook, one of them missing": (
        lambda row: f"../input/moles/img/{'x' * (row == 5)}{row:04}.png",
        "row 6: there is no file '../input/moles/img/x0005.png' in '.'",
    ),
    "rows without a picture": (
        lambda row: "" if row % 40 == 3 else f"img/{row:04}.png",
        "6 rows without a picture left out",
    ),
    "most files missing": (
        lambda row: f"img/{row + 200:04}.png",
        "row 41: there is no file 'img/0240.png' in '.' (199 more such rows",
    ),
    "links to nothing": (
        lambda row: f"img/{'gone' if row == 7 else f'{row:04}'}.png",
        "row 8: 'img",
    ),
    "arrays": (lambda row: f"img/{row:04}.npy", "in the format NumPy array, which is not read"),
    "no such folder": (lambda row: f"photos/{row}.png", "lies neither beside"),
}


def write_pictures(folder: Path, name: Any, side: int = 5) -> Path:
    """A table of moles with pictures in the folder `img`."""
    (folder / "img").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (N, side, side, 3), dtype=np.uint8)
    for row in range(N):
        Image.fromarray(pixels[row]).save(folder / "img" / f"{row:04}.png")
        for ending in (".heic", ".npy"):
            if name(row).endswith(ending):
                (folder / "img" / f"{row:04}{ending}").write_bytes(b"0")
        if "\xe9" in name(row):
            os.rename(folder / "img" / f"{row:04}.png", folder / "img" / f"e\u0301{row:04}.png")
    (folder / "img" / "gone.png").symlink_to(folder / "nothing.png")
    columns = {key: cells for key, cells in moles().items() if key in ("diagnosis", "ruler")}
    path = folder / "table.csv"
    path.write_text(csv({"file": [name(row) for row in range(N)], **columns}), encoding="utf-8")
    return path


def write_folders(folder: Path) -> dict[str, tuple[Path, str]]:
    """Tables of pictures in more folders than one, and what must be said of each."""
    (folder / "packed").mkdir()
    (folder / "packed" / "img.zip").write_bytes(b"PK")
    (folder / "packed" / "t.csv").write_text(
        csv({"file": [f"{row}.png" for row in range(N)], **moles()})
    )
    for place, names in {
        "several": ("a/{}.png", "b/{}.png"),
        "endings": ("img/{}.png", "img/{}.jpg"),
        "above": ("img/{}.png",),
    }.items():
        for name in names:
            (folder / place / name).parent.mkdir(parents=True, exist_ok=True)
            for row in range(N):
                pixels = np.full((4, 4, 3), row, np.uint8)
                Image.fromarray(pixels).save(folder / place / name.format(row))
    (folder / "above" / "tables").mkdir()
    tables = {
        "packed": ("t.csv", "{}.png", "img.zip lies there: are they in it? Unpack it first"),
        "several": ("t.csv", "{}.png", "lie in several folders (valid: a, b)"),
        "endings": ("t.csv", "{}", "'0' may be one of several files in '.': img/0.jpg, img/0.png"),
        "above": ("tables/t.csv", "../img/{}.png", READ),
    }
    for place, (table, name, _) in tables.items():
        two = {key: moles()[key] for key in ("diagnosis", "ruler")}
        path = folder / place / table
        path.write_text(csv({"file": [name.format(row) for row in range(N)], **two}))
    return {place: (folder / place / table, said) for place, (table, _, said) in tables.items()}


def write_others(folder: Path) -> dict[str, tuple[Path, str]]:
    """What is no CSV table, and what must be said of each."""
    (folder / "sheet.xlsx").write_bytes(b"PK\x03\x04")
    (folder / "rows.json").write_text("[]")
    (folder / "damaged.parquet").write_bytes(b"PAR1xxxxPAR1")
    nested = {"label": ["a", "b"] * 60, "site": ["x", "x", "y", "y"] * 30, "v": [[1.0]] * 120}
    polars.DataFrame(nested).write_parquet(folder / "nested.parquet")
    (folder / "classes").mkdir()
    (folder / "rows.csv.gz").write_bytes(b"\x1f\x8b")
    columns = moles()
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=row % 40) for row in range(N)]
    kinds = polars.DataFrame(
        {
            "diagnosis": polars.Series(columns["diagnosis"], dtype=polars.Categorical),
            "ruler": [cell == "yes" for cell in columns["ruler"]],
            "visit": days,
            "stay": [datetime.timedelta(hours=row) for row in range(N)],
            "nothing": polars.Series([None] * N, dtype=polars.Null),
            "age": columns["age"],
        }
    )
    kinds.write_parquet(folder / "kinds.parquet")
    boolean = [None if row % 20 == 0 else row % 2 == 1 for row in range(N)]
    kinds.with_columns(polars.Series("diagnosis", boolean)).write_parquet(folder / "bool.parquet")
    return {
        "a sheet": (folder / "sheet.xlsx", "save the sheet as CSV (UTF-8)"),
        "JSON": (folder / "rows.json", "is no table by its name"),
        "damaged Parquet": (folder / "damaged.parquet", "cannot be read as a PARQUET table"),
        "nested Parquet": (folder / "nested.parquet", "has no column of paths of images"),
        "a packed table": (folder / "rows.csv.gz", "is no table by its name; unpack it first"),
        "categories and dates of Parquet": (folder / "kinds.parquet", READ),
        "a label of true and false": (
            folder / "bool.parquet",
            "label 'diagnosis': false 108, true 120",
        ),
        "a folder": (folder / "classes", "is a folder, and a table is needed"),
        "no file": (folder / "none.csv", "there is no file"),
    }
