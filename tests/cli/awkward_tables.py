"""Tables as people have them, written without a look at the code that reads them: what is in each
file, and what a proposal must say of it."""

from __future__ import annotations

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
        "age: 44 different values, not all of them numbers, such as '40%'",
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
        "date: 84",
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
    "no such folder": (lambda row: f"photos/{row}.png", "lies neither beside"),
}


def write_pictures(folder: Path, name: Any) -> Path:
    """A table of moles with pictures in the folder `img`."""
    (folder / "img").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (N, 5, 5, 3), dtype=np.uint8)
    for row in range(N):
        Image.fromarray(pixels[row]).save(folder / "img" / f"{row:04}.png")
        if name(row).endswith(".heic"):
            (folder / "img" / f"{row:04}.heic").write_bytes(b"0")
    columns = {key: cells for key, cells in moles().items() if key in ("diagnosis", "ruler")}
    path = folder / "table.csv"
    path.write_text(csv({"file": [name(row) for row in range(N)], **columns}), encoding="utf-8")
    return path


def write_others(folder: Path) -> dict[str, tuple[Path, str]]:
    """What is no CSV table, and what must be said of each."""
    (folder / "sheet.xlsx").write_bytes(b"PK\x03\x04")
    (folder / "rows.json").write_text("[]")
    (folder / "damaged.parquet").write_bytes(b"PAR1xxxxPAR1")
    nested = {"label": ["a", "b"] * 60, "site": ["x", "x", "y", "y"] * 30, "v": [[1.0]] * 120}
    polars.DataFrame(nested).write_parquet(folder / "nested.parquet")
    (folder / "classes").mkdir()
    return {
        "a sheet": (folder / "sheet.xlsx", "save the sheet as CSV (UTF-8)"),
        "JSON": (folder / "rows.json", "is no table by its name"),
        "damaged Parquet": (folder / "damaged.parquet", "cannot be read as a PARQUET table"),
        "nested Parquet": (folder / "nested.parquet", "has no column of paths of images"),
        "a folder": (folder / "classes", "is a folder, and a table is needed"),
        "no file": (folder / "none.csv", "there is no file"),
    }
