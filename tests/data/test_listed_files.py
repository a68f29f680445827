"""Files are found as people name them, where a name can be one file alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from crosswind.core.errors import DataError
from crosswind.data.listed_files import FileFolder

TREE = [
    "a.png",
    "raw/part_1/ISIC_1.jpg",
    "raw/part_2/ISIC_2.JPG",
    "x/same.png",
    "y/same.png",
    "photo.heic",
    "scans/scan 1.dcm",
    ".hidden/b.png",
    "sub.folder/c.png",
]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for file in TREE:
        path = tmp_path / "img" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"0")
    return tmp_path / "img"


def files_of(top: Path, names: Sequence[str]) -> list[str]:
    return FileFolder(top, "img").files_of(names, "file", "t.csv")


FOUND = [
    (["a.png"], ["a.png"]),
    (["./a.png", "x//same.png"], ["a.png", "x/same.png"]),
    (["x/../a.png"], ["a.png"]),
    (["raw\\part_1\\ISIC_1.jpg"], ["raw/part_1/ISIC_1.jpg"]),
    (["ISIC_1.jpg"], ["raw/part_1/ISIC_1.jpg"]),
    (["part_1/ISIC_1.jpg"], ["raw/part_1/ISIC_1.jpg"]),
    (["ISIC_1", "ISIC_2"], ["raw/part_1/ISIC_1.jpg", "raw/part_2/ISIC_2.JPG"]),
    (["ISIC_2.jpg", "isic_1.JPG"], ["raw/part_2/ISIC_2.JPG", "raw/part_1/ISIC_1.jpg"]),
    (["A.PNG"], ["a.png"]),
    (["/data/birds/img/a.png", "/data/birds/img/x/same.png"], ["a.png", "x/same.png"]),
    (["C:\\Users\\me\\img\\a.png", "C:\\Users\\me\\img\\y\\same.png"], ["a.png", "y/same.png"]),
    (["/mnt/raw/part_1/ISIC_1.jpg"], ["raw/part_1/ISIC_1.jpg"]),
    (["sub.folder/c"], ["sub.folder/c.png"]),
    (["x/same", "y/same"], ["x/same.png", "y/same.png"]),
    (["../input/set/x/same.png", "../input/set/a.png"], ["x/same.png", "a.png"]),
]


@pytest.mark.parametrize(("names", "files"), FOUND)
def test_a_name_is_the_file_that_it_can_only_be(
    top: Path, names: list[str], files: list[str]
) -> None:
    assert files_of(top, names) == files


def test_an_absolute_path_inside_the_folder_is_taken_from_it_on(top: Path) -> None:
    names = [str(top / "a.png"), str(top.resolve() / "raw" / "part_1" / "ISIC_1")]
    assert files_of(top, names) == ["a.png", "raw/part_1/ISIC_1.jpg"]


REFUSED = [
    (["a.png", "b.png"], "t.csv, column 'file', row 2: there is no file 'b.png' in 'img'$"),
    (
        ["q1.png", "a.png", "q2.png", "q3.png", "q4.png"],
        r"row 1: there is no file 'q1.png' in 'img' \(3 more such rows, row 3: 'q2.png', row 4: 'q3",
    ),
    (
        ["same.png"],
        "'same.png' may be one of several files in 'img': x/same.png, y/same.png; write",
    ),
    (["z/a.png"], "there is no file 'z/a.png'"),
    (["../secret.png"], "leads out of the folder of images"),
    (["raw\\..\\..\\secret.png"], "leads out of the folder of images"),
    (["/etc/passwd"], "'/etc/passwd' leads out of the folder of images"),
    (["photo.heic"], "'photo.heic' is a picture in the format HEIC, which is not read: convert it"),
    (["photo"], "in the format HEIC"),
    (["scan 1"], "in the format DICOM"),
    (["raw"], "'raw' in 'img' is not a file"),
    (["b.png"], "there is no file 'b.png'"),
]


@pytest.mark.parametrize(("names", "words"), REFUSED)
def test_what_is_no_file_or_several_is_named(top: Path, names: list[str], words: str) -> None:
    with pytest.raises(DataError, match=words):
        files_of(top, names)


def test_of_two_cases_the_one_as_written_is_taken(top: Path) -> None:
    (top / "x" / "Same.png").write_bytes(b"0")
    assert files_of(top, ["x/Same.png", "x/same.png"]) == ["x/Same.png", "x/same.png"]


def test_an_empty_file_is_named(top: Path) -> None:
    (top / "a.png").write_bytes(b"")
    for name in ("a.png", "a", "/data/img/a.png"):
        with pytest.raises(DataError, match="'img' is empty"):
            files_of(top, [name])
