"""Folders and archives as names: what is seen of them, and lists of files."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest
from tests.data.picture_files import written, zipped

from crosswind.core.errors import DataError
from crosswind.data.trees import folder_tree, in_order, joined, listed, zip_tree

FILES = {
    "b/1.txt": b"one",
    "a.txt": b"four",
    "b/c/2.txt": b"",
    ".git/x": b"x",
    "b/.x": b"x",
    "Thumbs.db": b"x",
    "__MACOSX/a.txt": b"x",
}


def test_a_folder_and_a_zip_show_the_same_files(tmp_path: Path) -> None:
    folder = folder_tree(written(tmp_path / "folder", FILES))
    archive = zip_tree(zipped(tmp_path / "x.zip", FILES))
    assert list(folder.sizes) == list(archive.sizes) == ["a.txt", "b/1.txt", "b/c/2.txt"]
    assert list(folder.sizes.values()) == list(archive.sizes.values()) == [4, 3, 0]
    assert folder.folders == ("b", "b/c")
    assert folder.read("a.txt") == archive.read("a.txt") == b"four"
    for tree in (folder, archive):
        with pytest.raises(DataError, match="'a.txt' has 4 bytes, more than the 3 that it may"):
            tree.read("a.txt", limit=3)
    assert list(folder_tree(tmp_path / "folder", only=["a.txt"]).sizes) == ["a.txt"]


def test_two_trees_have_no_file_in_common(tmp_path: Path) -> None:
    first, second = (
        zip_tree(zipped(tmp_path / f"{name}.zip", {"a": b"1", name: b"22"})) for name in "xy"
    )
    with pytest.raises(DataError, match="all holds 'a' twice: in x.zip and in y.zip"):
        joined([first, second], "all")
    third = zip_tree(zipped(tmp_path / "z.zip", {"z": b"333"}))
    tree = joined([third, first], "all")
    assert (
        dict(tree.sizes) == {"a": 1, "x": 2, "z": 3}
        and tree.read("z") == b"333"
        and tree.read("x") == b"22"
    )


def test_a_deep_folder_is_no_matter(tmp_path: Path) -> None:
    depth = 300
    (tmp_path / ("d/" * depth)).mkdir(parents=True)
    (tmp_path / ("d/" * depth) / "x.txt").write_bytes(b"deep")
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + depth // 2)
    try:
        found = folder_tree(tmp_path)
    finally:
        sys.setrecursionlimit(before)
    assert list(found.sizes) == ["d/" * depth + "x.txt"]


def test_lists_keep_their_order_and_spaces_in_names(tmp_path: Path) -> None:
    tree = folder_tree(written(tmp_path, {"l.txt": b"b/hot dog.jpg 12\r\n\r\n  a.jpg 0 \n"}))
    assert listed(tree, "l.txt") == [("b/hot dog.jpg", 12), ("a.jpg", 0)]


@pytest.mark.parametrize(
    "line", ["a.jpg", "a.jpg -1", "a.jpg 1.5", "a.jpg x", " 3", "a.jpg ²", "a.jpg 12345678901"]
)
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    tree = folder_tree(written(tmp_path, {"l.txt": f"b.jpg 1\n{line}\n".encode()}), "here")
    with pytest.raises(
        DataError, match="here: l.txt, line 2 should be a file and the number of its class, not "
    ):
        listed(tree, "l.txt")


def test_names_of_values_are_in_numeric_order_where_all_are_numbers() -> None:
    assert in_order(["10", "9", "9", "010"]) == ["9", "010", "10"]
    assert in_order(["10", "9", "x"]) == ["10", "9", "x"]
    assert in_order(["²", "10", "9"]) == ["10", "9", "²"]
