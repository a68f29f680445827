"""The page of the house names every room of the tree, and every file on its six ways is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "crosswind"
PAGE = (ROOT / "docs" / "reference" / "architecture.md").read_text(encoding="utf-8")


def test_the_rooms_are_those_of_the_tree() -> None:
    rooms = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")} - {"."}
    first = re.findall(r"^\| (`.+?`) \|", PAGE.partition("## Six ways")[0], flags=re.M)
    named = {name for cell in first for name in re.findall(r"`([^`]+)`", cell)}
    assert named - {"api.py"} == rooms and len(rooms) >= 20


def test_the_files_on_the_ways_are_there() -> None:
    ways = PAGE.partition("## Six ways")[2].partition("## One more")[0]
    files = [name for name in re.findall(r"`([\w/]+\.py)`", ways) if "NAME" not in name]
    assert len(files) >= 25
    assert [
        name for name in files if not (PACKAGE / name).is_file() and not (ROOT / name).is_file()
    ] == []


def test_each_way_is_short() -> None:
    ways = re.split(r"^\*\*A ", PAGE.partition("## One more")[0], flags=re.M)[1:]
    assert len(ways) == 6 and all(
        len(set(re.findall(r"`([\w/]+\.py)`", way))) <= 16 for way in ways
    )
