"""Sixty tables and folders as programs and people leave them, each with what is expected of `init`.

They and what is expected of them were written before any of them was read and without a look at the
code that reads them. Each is read as it is meant, or one sentence names column or line, and the
remedy; a case with both words is right either way. Of the words, those were changed afterwards for
which a sentence names the same otherwise.
"""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars
from PIL import Image

N = 320
WORDS = ("river", "stone", "window", "quiet", "garden", "summer", "letter", "table", "music")
LABEL = "label 'outcome': no 160, yes 160"

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Case:
    """A file as it is left, and the words that must be said of it."""

    write: Callable[[Path], Path]
    """Writes into an empty folder; what `init` is given."""

    reads: tuple[str, ...] = ()
    """Words of the notes when it is read; empty: it must be refused."""

    refuses: tuple[str, ...] = ()
    """Words of the refusal; empty: it must be read."""

    mean: tuple[str, float] | None = None
    """A column that is read as numbers, and the mean of its values."""

    without: tuple[str, ...] = ()
    """Columns that may be neither input nor attribute."""

    label: str | None = None


def patients() -> Columns:
    """Rows of an illness: the site goes with the outcome in 85 of 100."""
    draw = np.random.default_rng(4)
    ill = np.arange(N) % 2
    site = np.where(draw.random(N) < 0.85, ill, 1 - ill)
    return {
        "age": (50 + 8 * ill + draw.normal(0, 9, N)).round(1).tolist(),
        "weight": (1070 + 5 * ill + draw.normal(0, 9, N)).round(2).tolist(),
        "site": ["AB"[one] for one in site],
        "outcome": [["no", "yes"][one] for one in ill],
    }


AGE = float(np.mean(patients()["age"]))
WEIGHT = float(np.mean(patients()["weight"]))


def text_of(columns: Columns, separator: str = ",", end: str = "\n", head: bool = True) -> str:
    lines = [separator.join(columns)] if head else []
    cells = zip(*columns.values(), strict=True)
    lines += [separator.join(str(cell) for cell in row) for row in cells]
    return end.join(lines) + end


def plain(content: str | bytes, name: str = "table.csv", encoding: str = "utf-8") -> Any:
    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return write


def with_cells(name: str, change: Callable[[int, Any], Any], **more: Any) -> Any:
    columns = patients()
    columns[name] = [change(row, cell) for row, cell in enumerate(columns[name])]
    return plain(text_of(columns), **more)


def with_column(name: str, cells: Callable[[int], Any], first: bool = False) -> Any:
    added = {name: [cells(row) for row in range(N)]}
    return plain(text_of({**added, **patients()} if first else {**patients(), **added}))


def with_lines(change: Callable[[list[str]], list[str]]) -> Any:
    return plain("\n".join(change(text_of(patients()).splitlines())) + "\n")


def renamed(names: dict[str, str], **more: Any) -> Any:
    return plain(text_of({names.get(k, k): v for k, v in patients().items()}), **more)


def frame(change: Callable[[polars.DataFrame], polars.DataFrame]) -> Any:
    def write(folder: Path) -> Path:
        change(polars.DataFrame(patients())).write_parquet(folder / "table.parquet")
        return folder / "table.parquet"

    return write


def archive(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "table.zip", "w") as opened:
        opened.writestr("table.csv", text_of(patients()))
    return folder / "table.zip"


def workbook(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "table.csv", "w") as opened:  # saved under a wrong ending
        opened.writestr("[Content_Types].xml", "<Types/>")
        opened.writestr("xl/workbook.xml", "<workbook/>")
        opened.writestr("xl/worksheets/sheet1.xml", "<worksheet/>")
    return folder / "table.csv"


def excel_rows(rows: list[str]) -> list[str]:
    return ["Study of 2021;;;", "", *(line.replace(",", ";") for line in rows)]


def unit_row(rows: list[str]) -> list[str]:
    return [rows[0], "years,kg,,", *rows[1:]]


def two_heads(rows: list[str]) -> list[str]:
    """What pandas writes of columns in two levels, with its row of index names."""
    body = [f"{row},{line}" for row, line in enumerate(rows[1:])]
    return [",body,body,place,answer", ",age,weight,site,outcome", "person,,,,", *body]


def pivot(rows: list[str]) -> list[str]:
    """A pivot table: the ward stands in its first row alone."""
    body = [f"{f'ward {row // 8}' if row % 8 == 0 else ''},{line}" for row, line in enumerate(rows)]
    return [f"ward,{rows[0]}", *body[1:]]


def reviews(texts: Callable[[int], str], title: bool = False) -> str:
    draw = np.random.default_rng(5)
    words = np.array(WORDS)
    lines = ["shop,title,body,stars" if title else "shop,body,stars"]
    for row in range(N):
        some = " ".join(draw.choice(words, 12))
        text = f"{some} {texts(row)} number {row}".replace('"', '""')
        head = f'"{" ".join(draw.choice(words, 5))} {row}",' if title else ""
        shop = "AB"[int(draw.random() < (0.85 if row % 2 else 0.15))]
        lines.append(f'{shop},{head}"{text}",{["bad", "good"][row % 2]}')
    return "\n".join(lines) + "\n"


def pictures(
    names: Callable[[int], str],
    cells: Callable[[int], str] | None = None,
    spoil: Callable[[Path], None] | None = None,
    mode: Callable[[int], str] = lambda row: "RGB",
    head: str = "file,scanner,outcome",
) -> Any:
    """Pictures in two kinds, light and dark, and their table."""

    def write(folder: Path) -> Path:
        draw = np.random.default_rng(6)
        lines = [head]
        for row in range(N):
            path = folder / names(row)
            path.parent.mkdir(parents=True, exist_ok=True)
            level = 90 if row % 2 else 150
            pixels = draw.integers(level - 60, level + 60, (12, 12, 3), dtype=np.uint8)
            ending = {".jpg": "JPEG", ".tif": "TIFF"}.get(path.suffix.lower(), "PNG")
            Image.fromarray(pixels).convert(mode(row)).save(path, ending)
            scanner = "AB"[int(draw.random() < (0.85 if row % 2 else 0.15))]
            cell = cells(row) if cells else names(row)
            lines.append(f"{cell},{scanner},{['no', 'yes'][row % 2]}")
        if spoil:
            spoil(folder)
        (folder / "table.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return folder / "table.csv"

    return write


def numbered(row: int) -> str:
    return f"photos/p{row:03}.png"


def strays(folder: Path) -> None:
    for name in (".DS_Store", "Thumbs.db", "notes.txt", "._p001.png"):
        (folder / "photos" / name).write_bytes(b"\x00\x05\x16\x07")


def broken(folder: Path) -> None:
    (folder / numbered(7)).write_bytes(b"")
    (folder / numbered(8)).write_bytes(b"")
    (folder / numbered(9)).unlink()


def missing(folder: Path) -> None:
    for row in (3, 5, 9, 11, 20):
        (folder / numbered(row)).unlink()


def class_folders(folder: Path, empty: bool = False) -> Path:
    pictures(lambda row: f"tree/{['cat', 'dog'][row % 2]}/p{row}.png")(folder)
    (folder / "table.csv").unlink()
    if empty:
        (folder / "tree" / "horse").mkdir()
    return folder / "tree"


def folder_with_table(folder: Path) -> Path:
    pictures(numbered)(folder)
    return folder


def nested(rows: polars.DataFrame) -> polars.DataFrame:
    lists = polars.Series("visits", [[row, row + 1] for row in range(N)])
    structs = polars.Series("address", [{"town": f"t{row}", "zip": row} for row in range(N)])
    return rows.with_columns(lists, structs)


def typed(rows: polars.DataFrame) -> polars.DataFrame:
    return rows.with_columns(
        polars.col("site").cast(polars.Categorical),
        polars.col("weight").cast(polars.Decimal(10, 2)),
        (polars.col("outcome") == "yes").alias("outcome"),
        polars.lit(1_600_000_000).cast(polars.Datetime(time_zone="UTC")).alias("seen"),
    )


def lines_of_json(folder: Path) -> Path:
    rows = polars.DataFrame(patients()).to_dicts()
    (folder / "table.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return folder / "table.jsonl"


def packed() -> bytes:
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb") as opened:
        opened.write(text_of(patients()).encode())
    return stream.getvalue()


TURKISH = {"age": "Yaş", "site": "Şube", "weight": "Ağırlık"}
EMPTY_HEAD = {"weight": ""}
DECIMAL_COMMA = text_of(patients(), ";").replace(".", ",")
THOUSANDS = text_of({**patients(), "weight": [f'"{w:,}"' for w in patients()["weight"]]})
IDS = [10**22 + row for row in range(N)]
UUIDS = [f"{row * 2654435761 % 2**32:08x}-{row:04x}" for row in range(N)]

CASES: dict[str, Case] = {
    # Encodings and endings
    "latin-1": Case(
        renamed({"site": "größe"}, encoding="latin-1"),
        (LABEL, "'größe'"),
        ("line 1", "save it as UTF-8"),
        mean=("age", AGE),
    ),
    "utf-16 with tabs, Excel's Unicode text": Case(
        plain(text_of(patients(), "\t", "\r\n"), "table.tsv", "utf-16"), (LABEL,), mean=("age", AGE)
    ),
    "a table of text by another ending": Case(
        plain(text_of(patients(), "\t"), "table.txt"), (LABEL,), ("table.txt", ".tsv")
    ),
    "a byte order mark before a quoted name": Case(
        plain(text_of(patients()).replace("age,", '"age",', 1), encoding="utf-8-sig"),
        (LABEL,),
        mean=("age", AGE),
    ),
    "lines end as on an old Mac": Case(
        plain(text_of(patients(), end="\r")), (LABEL,), mean=("weight", WEIGHT)
    ),
    "trailing separators and blank lines": Case(
        plain(text_of(patients()).replace("\n", ",\r\n") + "\r\n\r\n"), (LABEL,), mean=("age", AGE)
    ),
    "gzip": Case(plain(packed(), "table.csv.gz"), (LABEL,), ("gz", "unpack"), mean=("age", AGE)),
    "zip": Case(archive, (LABEL,), ("zip", "unpack"), mean=("age", AGE)),
    "a workbook called csv": Case(workbook, refuses=("table.csv", "Excel", "CSV")),
    "a page called csv": Case(
        plain("<html><table><tr><td>age</td></tr></table></html>\n"), refuses=("HTML", "CSV")
    ),
    "JSON lines": Case(lines_of_json, (LABEL,), ("jsonl", "CSV or Parquet"), mean=("age", AGE)),
    # Separators and quotes
    "semicolons and decimal commas": Case(plain(DECIMAL_COMMA), (LABEL,), mean=("age", AGE)),
    "commas between thousands": Case(
        plain(THOUSANDS),
        (LABEL, "weight: commas between thousands, '1,0"),
        mean=("weight", WEIGHT),
    ),
    "bars with spaces around": Case(
        plain(text_of(patients(), " | ")), (LABEL,), mean=("weight", WEIGHT)
    ),
    "single quotes": Case(
        plain("\n".join("'" + x.replace(",", "','") + "'" for x in text_of(patients()).split())),
        (LABEL,),
        mean=("age", AGE),
    ),
    "lines and quotes inside of texts": Case(
        plain(reviews(lambda row: 'she said "so,\nwell"')), ("320 rows", "stars': bad 160")
    ),
    "one row with a field too many": Case(
        with_lines(lambda rows: [*rows[:37], rows[37] + ",extra", *rows[38:]]),
        refuses=("table.csv, line 38", "quotes"),
    ),
    "one row with a field too few": Case(
        with_lines(lambda rows: [*rows[:37], rows[37].rsplit(",", 1)[0], *rows[38:]]),
        ("'outcome'", "1 of 320"),
        ("37",),
    ),
    # Headers
    "a row of units below the names": Case(
        with_lines(unit_row), (LABEL,), ("age", "row 1 has 'years'", "write numbers alone")
    ),
    "two rows of names from pandas": Case(
        with_lines(two_heads),
        (LABEL,),
        ("'body' twice", "row 1", "another name"),
        mean=("age", AGE),
    ),
    "titles above, as Excel exports": Case(with_lines(excel_rows), (LABEL,), mean=("age", AGE)),
    "a footer with a total": Case(
        with_lines(lambda rows: [*rows, "", "Total,343000.0,,"]), (LABEL,), ("Total", "'age'")
    ),
    "two columns of one name": Case(
        with_column("site", lambda row: row % 3), ("'site'",), ("'site'", "2")
    ),
    "names in other letters": Case(
        renamed(TURKISH, name="hasta tablosu ğ.csv"), (LABEL, "'Şube'"), mean=("Yaş", AGE)
    ),
    "a name left empty": Case(renamed(EMPTY_HEAD), (LABEL,), ("column 2",)),
    "no names, spaces after commas, ? for nothing": Case(
        plain("\n".join(x.replace(",", ", ") for x in text_of(patients(), head=False).split("\n"))),
        refuses=("no line of names", "--header"),
    ),
    "a name with a line break in it": Case(renamed({"age": '"age\n(years)"'}), (LABEL, "320 rows")),
    # Cells
    "? for nothing": Case(
        with_cells("age", lambda row, x: "?" if row % 40 == 0 else x),
        (LABEL, "age: no number in 8 of 320 rows ('?')"),
    ),
    "a dot for nothing, as SAS writes": Case(
        with_cells("age", lambda row, x: "." if row % 40 == 0 else x),
        (LABEL, "age: no number in 8 of 320 rows ('.')"),
    ),
    "-999 for nothing": Case(
        with_cells("age", lambda row, x: -999 if row % 40 == 0 else x),
        (LABEL, "age: -999 in 8 rows", "leave these cells empty"),
    ),
    "errors of a spreadsheet": Case(
        with_cells("age", lambda row, x: "#DIV/0!" if row == 4 else x),
        (LABEL, "age: a number in 319 of 320 rows", "row 5 has '#DIV/0!'", "empty"),
    ),
    "numbers with a unit": Case(
        with_cells("age", lambda row, x: f"{x} y"),
        reads=(LABEL, "age: numbers with", "row 1 has '52.4 y'", "write the numbers alone"),
    ),
    "per cent": Case(
        with_cells("age", lambda row, x: f"{x}%"),
        (LABEL, "age: numbers with", "row 1 has '52.4%'", "write the numbers alone"),
    ),
    "money": Case(
        with_cells("age", lambda row, x: f"${x}"),
        (LABEL, "age: numbers with", "row 1 has '$52.4'", "write the numbers alone"),
    ),
    "infinite": Case(
        with_cells("age", lambda row, x: "inf" if row == 4 else x),
        reads=(LABEL, "age: a number in 319 of 320 rows", "row 5 has 'inf'"),
    ),
    "spellings of one value": Case(
        with_cells("site", lambda row, x: [x, x.lower(), f"{x} "][row % 3]), (LABEL, "'a'", "'A'")
    ),
    "days of visits": Case(
        with_column("visit", lambda row: f"2021-{row % 12 + 1:02}-{row % 28 + 1:02}"),
        (LABEL, "visit: dates"),
        mean=("age", AGE),
        without=("visit",),
    ),
    "huge numbers of persons": Case(
        with_column("person", lambda row: IDS[row]), (LABEL,), without=("person",)
    ),
    "a running number first, rows sorted by label": Case(
        with_lines(
            lambda rows: [
                f"nr,{rows[0]}",
                *(f"{i},{x}" for i, x in enumerate(sorted(rows[1:], key=lambda x: x[-2:]), 1)),
            ]
        ),
        (LABEL, "nr: 320 values in 320 rows, an identifier"),
        without=("nr",),
    ),
    "random names of rows": Case(
        with_column("uuid", lambda row: UUIDS[row]),
        (LABEL, "uuid: 320 values in 320 rows, an identifier"),
        without=("uuid",),
    ),
    "a constant column": Case(
        with_column("country", lambda row: "NL"),
        (LABEL, "country: one value"),
        without=("country",),
    ),
    "a copy of the label in codes": Case(
        with_column("flag", lambda row: row % 2 + 1),
        (LABEL, "left out, since they tell 'outcome' entirely: flag"),
        without=("flag",),
    ),
    "a column that is nearly the label": Case(
        with_column("letter_sent", lambda row: (row % 2) ^ (row in (10, 50))),
        (LABEL, "'letter_sent'", "99"),
    ),
    "one attribute as two columns of 0 and 1": Case(
        with_column("site_B", lambda row: int(patients()["site"][row] == "B")),
        (LABEL, "'site_B'"),
    ),
    "two hundred columns": Case(
        plain(
            text_of(
                {f"x{k}": [(row * k) % 97 / 7 for row in range(N)] for k in range(1, 200)}
                | patients()
            )
        ),
        (LABEL,),
    ),
    "a town of eighty values": Case(
        with_column("town", lambda row: f"town {row * 7 % 80}"), (LABEL, "'site' (2 values)")
    ),
    "words for yes in capitals": Case(
        with_cells("outcome", lambda row, x: {"yes": "TRUE", "no": "FALSE"}[x]),
        ("'outcome'", "160"),
    ),
    # Labels
    "a label of codes 1 and 2 in the first column": Case(
        plain(
            text_of(
                {"target": [row % 2 + 1 for row in range(N)]}
                | {name: cells for name, cells in patients().items() if name != "outcome"}
            )
        ),
        ("label 'target': 1 160, 2 160",),
    ),
    "one class": Case(
        with_cells("outcome", lambda row, x: "yes"), ("'outcome' cannot be it (it has one value)",)
    ),
    "a class of two rows": Case(
        with_cells("outcome", lambda row, x: "perhaps" if row in (3, 9) else x),
        ("'outcome'", "perhaps", "2"),
    ),
    "a label without a value in a third of the rows": Case(
        with_cells("outcome", lambda row, x: "" if row % 3 == 0 else x),
        ("'outcome'", "107 of 320"),
        ("'outcome'", "107"),
    ),
    "a price as label": Case(
        with_column("price", lambda row: 100 + row * 37 % 211 + row / 1000),
        ("'price'", "160"),
        label="price",
    ),
    "twelve rows": Case(with_lines(lambda rows: rows[:13]), refuses=("12", "rows")),
    "names alone": Case(with_lines(lambda rows: rows[:1]), refuses=("table.csv", "row")),
    # Parquet
    "lists and structs in Parquet": Case(
        frame(nested), (LABEL, "visits: lists", "address: lists"), without=("visits", "address")
    ),
    "categories, decimals, times and truths in Parquet": Case(
        frame(typed), ("'outcome'", "160"), mean=("weight", WEIGHT), without=("seen",)
    ),
    # Pictures
    "paths of Windows": Case(
        pictures(numbered, lambda row: rf"C:\Users\me\photos\p{row:03}.png"), (LABEL,)
    ),
    "stray files beside pictures": Case(pictures(numbered, spoil=strays), (LABEL,)),
    "empty and missing pictures": Case(
        pictures(numbered, spoil=broken),
        refuses=(
            "row 8",
            "p007",
            "is empty",
            "1 more such row",
            "missing files in 1 row",
            "p009",
        ),
    ),
    "five pictures missing": Case(
        pictures(numbered, spoil=missing), (LABEL, "5", "p003"), ("5", "p003", "p005", "p009")
    ),
    "grey, palette and transparent pictures under one roof": Case(
        pictures(
            lambda row: f"photos/ward {row % 3}/Bild ä{row:03}.PNG",
            mode=lambda row: ["L", "P", "RGBA", "1", "LA"][row % 5],
        ),
        (LABEL,),
    ),
    "addresses of the web": Case(
        pictures(numbered, lambda row: f"https://example.org/p{row}.png"),
        refuses=("https://", "fetch the pictures first"),
    ),
    "a folder of class folders": Case(class_folders, ("cat 160", "dog 160"), ("tree", "table")),
    "a class folder without pictures": Case(
        lambda folder: class_folders(folder, empty=True), ("horse",), ("tree", "table")
    ),
    "the folder instead of its table": Case(folder_with_table, (LABEL,), ("table.csv",)),
}
"""The files by what is odd in them."""
