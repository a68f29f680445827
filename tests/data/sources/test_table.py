"""The user's own table and images: what is read, and every way in which it can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from PIL import Image, ImageFile

from crosswind.core.errors import CrosswindError, DataError, InputError
from crosswind.data.dataset import AttributedDataset
from crosswind.data.prepared import prepare
from crosswind.data.sources.base import open_source
from crosswind.data.sources.tables import Table

ROWS = "path,label,site,patient\na.png,10,north,p1\nsub/b.jpg,9,south,p2\nc.png,10,south,p1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images" / "sub").mkdir(parents=True)
    Image.new("RGB", (20, 10), (255, 0, 0)).save(tmp_path / "images" / "a.png")
    noise = np.random.default_rng(0).integers(0, 256, (48, 48, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "images" / "sub" / "b.jpg")
    Image.new("L", (8, 8), 77).save(tmp_path / "images" / "c.png")
    (tmp_path / "rows.csv").write_text(ROWS)
    return tmp_path


def opened(folder: Path, **settings: Any) -> AttributedDataset:
    given = {
        "path": str(folder / "rows.csv"),
        "images": str(folder / "images"),
        "size": 16,
    } | settings
    return open_source("table", given)


def test_columns_become_attributes_and_files_pictures(folder: Path) -> None:
    data = opened(folder)
    assert data.name == "rows"
    assert data.table.names == ("label", "site", "patient")
    assert data.attribute("label").values == ("9", "10")
    assert data.table.codes.tolist() == [[1, 0, 1], [0, 1, 1], [0, 1, 0]]
    x = data.inputs(np.array([2, 0, 1]))
    assert x.shape == (3, 16, 16, 3)
    assert (x[0] == 77).all() and (x[1] == (255, 0, 0)).all() and x[2].std() > 10
    assert data.units is None


def test_a_unit_column_is_no_attribute_unless_named(folder: Path) -> None:
    data = opened(folder, unit="patient")
    assert data.table.names == ("label", "site")
    assert data.units is not None and data.units.tolist() == [0, 1, 0]
    assert opened(folder, unit="patient", columns=["label", "patient"]).table.names == (
        "label",
        "patient",
    )
    assert (
        len({data.fingerprint, opened(folder).fingerprint, opened(folder, unit="site").fingerprint})
        == 3
    )


@pytest.mark.slow
def test_more_units_than_an_attribute_has_values_are_taken(folder: Path) -> None:
    n = 70_000
    rows = polars.DataFrame(
        {"path": ["a.png"] * n, "label": ["x"] * n, "scan": [f"s{i // 1}" for i in range(n)]}
    )
    rows.write_parquet(folder / "rows.parquet")
    data = opened(folder, path=str(folder / "rows.parquet"), unit="scan")
    assert data.units is not None and len(np.unique(data.units)) == n


def test_parquet_and_csv_of_the_same_rows_are_the_same_table(folder: Path) -> None:
    polars.read_csv(folder / "rows.csv").write_parquet(folder / "rows.parquet")
    assert (
        opened(folder, path=str(folder / "rows.parquet")).table.digest()
        == opened(folder).table.digest()
    )


def test_typed_columns_take_their_plain_names(folder: Path) -> None:
    rows = polars.DataFrame(
        {
            "path": ["a.png"] * 3,
            "on": [True, False, True],
            "dose": [0.5, 10.0, 2.0],
            "kind": polars.Series(["x", "y", "x"], dtype=polars.Categorical),
            "day": polars.Series(["2024-02-01", "2024-01-01", "2024-01-01"]).str.to_date(),
        }
    )
    rows.write_parquet(folder / "rows.parquet")
    data = opened(folder, path=str(folder / "rows.parquet"))
    assert [attribute.values for attribute in data.schema] == [
        ("false", "true"),
        ("0.5", "2.0", "10.0"),
        ("x", "y"),
        ("2024-01-01", "2024-02-01"),
    ]
    assert (data.code_of("dose", 2), data.code_of("on", True)) == (1, 1)


def test_the_fingerprint_sees_names_sizes_and_settings(folder: Path) -> None:
    first = opened(folder).fingerprint
    assert opened(folder).fingerprint == first
    assert opened(folder, size=17).fingerprint != first
    Image.new("RGB", (21, 11), (1, 2, 3)).save(folder / "images" / "a.png", compress_level=0)
    assert opened(folder).fingerprint != first


def write(text: str | bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / "rows.csv").write_bytes(
        text if isinstance(text, bytes) else text.encode()
    )


def drop(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "images" / name).unlink()


def empty(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "images" / name).write_bytes(b"")


def nothing(folder: Path) -> None:
    pass


def many(kind: Callable[[int], object], n: int) -> Callable[[Path], object]:
    return write("path,label\n" + "".join(f"a.png,{kind(i)}\n" for i in range(n)))


@pytest.mark.parametrize(
    "raw",
    [
        b"path,label\ra.png,x\rc.png,y\r",  # old Macs
        b"path,label\ra.png,x\rc.png,y\n",
        b"path,label\r\na.png,x\r\nc.png,y\r\n\r\n",
        b"path,label\na.png,x\nc.png,y\n\n\n",
        b'\xef\xbb\xbf"path","label"\n"a.png","x"\n"c.png","y"',
        b"path;label\na.png;x\nc.png;y\n",
        b'"path"\t"label"\r\na.png\tx\r\nc.png\t"y"\r\n',
        b"path|label\na.png|x\nc.png|y\n",
    ],
)
def test_other_line_ends_and_separators_are_read(folder: Path, raw: bytes) -> None:
    write(raw)(folder)
    data = opened(folder)
    assert data.attribute("label").values == ("x", "y") and data.n_base == 2


BAD: list[tuple[Callable[[Path], object], dict[str, Any], str]] = [
    (nothing, {"path": "none.csv"}, "data.path: there is no file 'none.csv'"),
    (
        nothing,
        {"path": "rows.xlsx"},
        r"data.path: 'rows.xlsx' is no table by its name; save the sheet as CSV \(UTF-8\) \(valid: .csv, .tsv, .parquet\)",
    ),
    (nothing, {"path": 3}, "data.path: must be text, not 3"),
    (nothing, {"images": "none"}, "data.images: 'none' is a folder that does not exist"),
    (nothing, {"images": __file__}, "data.images: .* is not a folder"),
    (
        nothing,
        {"path_column": "paths"},
        "data.path_column: unknown column of .* 'paths', did you mean 'path'",
    ),
    (
        nothing,
        {"unit": "patients"},
        "data.unit: unknown column of .* 'patients', did you mean 'patient'",
    ),
    (
        nothing,
        {"columns": ["labels"]},
        (
            "data.columns: unknown column of .* 'labels', did you mean 'label'.*valid: path, label,"
            " site"
        ),
    ),
    (nothing, {"columns": []}, "data.columns: must be a list of columns"),
    (nothing, {"columns": "label"}, "data.columns: must be a list of columns, not 'label'"),
    (nothing, {"columns": ["label", "label"]}, "data.columns: names 'label' twice"),
    (nothing, {"size": 1}, r"data.size: must be in \[4, 2048\]"),
    (write(""), {}, "rows.csv is empty"),
    (write("path,label\n"), {}, "rows.csv has no rows"),
    (
        write("path,label,label\na.png,x,y\n"),
        {},
        r"names column 'label' twice, and the two differ \(row 1\)",
    ),
    (write("path\na.png\n"), {}, "has no column of attributes"),
    (
        write("path;label\na.png;x;y\n"),
        {},
        "rows.csv, line 2 has 3 cells, and the first line has 2",
    ),
    (
        write("path,label\na.png,x,y\n"),
        {},
        "rows.csv, line 2 has 3 cells, and the first line has 2",
    ),
    (write(b"path,label\na.png,\xff\xfe\n"), {}, "rows.csv, line 2: byte 0xff is not UTF-8"),
    (write(bytes(range(256)) * 4), {}, "rows.csv"),
    (
        write("path,label\na.png,x\n".encode("utf-16")[:-1]),
        {},
        "rows.csv begins as UTF-16, and is damaged further on",
    ),
    (
        write("path,label\na.png,x\n".encode("utf-16-be")),
        {},
        "rows.csv is UTF-16 without its mark, UTF-32 or no text at all",
    ),
    (write("\n\r\n"), {}, "rows.csv is empty"),
    (
        write("\n# by hand\npath,label\na.png,x,y\n"),
        {},
        "rows.csv, line 4 has 3 cells, and the first line has 2",
    ),
    (
        write('path,label\n"a.png,x\n'),
        {},
        "rows.csv: a quote that is opened in the row of line 2 is never closed",
    ),
    (write('path,label\na.png,"x\ny"\n'), {}, "column 'label', row 1 has a line break"),
    (
        write("path,label\na.png,x\nc.png,\n"),
        {},
        "column 'label', row 2 has no value; fill it in, or say empty: leave-out$",
    ),
    (
        write("path,label\na.png,x\nc.png\n"),
        {},
        "column 'label', row 2 has no value; fill it in, or say empty: leave-out$",
    ),
    (
        write("path,label\na.png,\nc.png,\n"),
        {},
        r"column 'label', row 1 has no value \(1 more such row\)",
    ),
    (
        write("path,label\na.png,x\nc.png,NaN\n"),
        {},
        "column 'label', row 2 has the value 'NaN', which means no value",
    ),
    (write("path,label\n,x\n"), {}, "column 'path', row 1 has no value"),
    (write("path,label,who\na.png,x,\n"), {"unit": "who"}, "column 'who', row 1 has no value"),
    (
        write("path,label\n../rows.csv,x\n"),
        {},
        "column 'path', row 1: '../rows.csv' leads out of the folder of images",
    ),
    (
        write("path,label\na.png,x\nsub/../../rows.csv,x\n"),
        {},
        "row 2: 'sub/../../rows.csv' leads out of the folder",
    ),
    (write("path,label\n/etc/passwd,x\n"), {}, "row 1: '/etc/passwd' leads out of the folder"),
    (write("path,label\nsub,x\n"), {}, "row 1: 'sub' in .* is not a file"),
    (drop("c.png"), {}, "row 3: there is no file 'c.png' in"),
    (empty("c.png"), {}, "row 3: the file 'c.png' in .* is empty"),
    (
        many(lambda i: i + 0.5, 1500),
        {},
        "holds 1,500 different numbers in 1,500 rows, too many for an attribute: leave it out",
    ),
    (
        many(lambda i: f"x{i}", 65_536),
        {},
        "holds 65,536 different values, more than 65,535, too many for an attribute",
    ),
]


@pytest.mark.parametrize(("change", "settings", "words"), BAD)
def test_a_bad_table_is_one_sentence(
    folder: Path, change: Callable[[Path], object], settings: dict[str, Any], words: str
) -> None:
    change(folder)
    with pytest.raises(CrosswindError, match=words) as caught:
        opened(folder, **settings)
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_1500_whole_numbers_and_few_fractions_are_attributes(folder: Path) -> None:
    many(lambda i: i, 1500)(folder)
    assert len(opened(folder).attribute("label")) == 1500
    many(lambda i: i % 900 + 0.5, 1500)(folder)
    assert len(opened(folder).attribute("label")) == 900


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            polars.Series([1.0, float("nan"), 2.0]),
            "row 2 has the value 'NaN', which means no value",
        ),
        (polars.Series([1, None, None]), r"row 2 has no value \(1 more such row\)"),
        (polars.Series([[1], [2], [3]]), r"column 'label' holds list\(int64\) values"),
        (polars.Series([b"a", b"b", b"\xff"]), "column 'label' holds binary values"),
        (polars.Series([{"a": 1}] * 3), "column 'label' holds struct"),
    ],
)
def test_bad_typed_columns_are_refused(folder: Path, values: polars.Series, words: str) -> None:
    polars.DataFrame({"path": ["a.png"] * 3, "label": values}).write_parquet(
        folder / "rows.parquet"
    )
    with pytest.raises(DataError, match=words):
        opened(folder, path=str(folder / "rows.parquet"))


def test_a_damaged_parquet_is_refused(folder: Path) -> None:
    (folder / "rows.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match="cannot be read as a PARQUET table"):
        opened(folder, path=str(folder / "rows.parquet"))


def _truncated(place: Path) -> None:
    place.write_bytes(place.read_bytes()[: place.stat().st_size // 2])


def _deep(place: Path) -> None:
    Image.fromarray(np.full((8, 8), 40_000, dtype=np.uint16)).save(place.with_suffix(".png"))
    place.with_suffix(".png").rename(place)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_truncated, "cannot be read as a whole image: .*truncated"),
        (lambda place: place.write_text("not a picture"), "is not an image"),
        (lambda place: place.unlink(), "is no longer there"),
        (_deep, "has pixels of more than 8 bits"),
    ],
)
def test_a_file_that_is_no_whole_image_names_its_row(
    folder: Path, damage: Callable[[Path], object], words: str
) -> None:
    data = opened(folder)
    damage(folder / "images" / "sub" / "b.jpg")
    with pytest.raises(DataError, match=f"row 2: 'sub/b.jpg' {words}") as caught:
        data.inputs(np.array([0, 1, 2]))
    assert "\n" not in str(caught.value)
    assert data.inputs(np.array([0, 2])).shape == (2, 16, 16, 3)


def test_a_program_that_takes_cut_images_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(DataError, match="LOAD_TRUNCATED_IMAGES"):
        opened(folder).inputs(np.array([0]))


def test_paths_with_dots_inside_the_folder_are_fine(folder: Path) -> None:
    write("path,label\n./sub/../a.png,x\n")(folder)
    assert opened(folder).inputs(np.array([0])).shape == (1, 16, 16, 3)


def test_settings_that_must_be_given_are_named() -> None:
    with pytest.raises(InputError, match="data.path: source 'table' needs 'path'"):
        open_source("table", {"images": "x"})


def test_it_is_prepared_and_its_files_are_not_needed_after(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = opened(folder, unit="patient")
    pixels = direct.inputs(np.arange(3))
    root = str(folder / "root")
    with pytest.raises(
        DataError, match="there is no prepared copy of table in .*--set unit=patient"
    ):
        opened(folder, unit="patient", root=root)
    monkeypatch.chdir(folder)
    assert prepare(Table(path="rows.csv", images="images", unit="patient", size=16), root).made
    drop("c.png")(folder)
    copy = opened(folder, unit="patient", root=root)
    assert copy.name == "rows" and copy.table.digest() == direct.table.digest()
    assert (
        copy.units is not None
        and direct.units is not None
        and np.array_equal(copy.units, direct.units)
    )
    assert np.array_equal(copy.inputs(np.arange(3)), pixels)
    with pytest.raises(DataError, match="row 3: there is no file 'c.png'"):
        opened(folder, unit="patient")
