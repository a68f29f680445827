"""Tables are read below what people and programs write above them."""

from __future__ import annotations

from pathlib import Path

import pytest

from crosswind.core.errors import DataError
from crosswind.data.tabular import read_table

PLAIN = {"path": ["a.png", "b.png"], "kind": ["x", "y"]}
BODY = "path,kind\na.png,x\nb.png,y\n"
WRITTEN = {
    "plain": BODY,
    "sep": "sep=;\n" + BODY.replace(",", ";"),
    "quoted sep": '"sep=,"\n' + BODY,
    "sep of tabs": "SEP=\t\r\n" + BODY.replace(",", "\t"),
    "blank lines": "\n \n\t\n" + BODY,
    "empty cells": ",,\n,\n" + BODY,
    "a comment": "# made by hand, 2024\n" + BODY,
    "comments and blank lines": "# one\n\n# two, three, four\n\n" + BODY,
    "names in a comment": "# birds\n#path,kind\na.png,x\nb.png,y\n",
    "a mark of order": "\ufeff# birds\n" + BODY,
    "the number of rows": "2\n" + BODY,
    "CelebA": "2\nkind\na.png x\nb.png y\n",
    "a list with spaces": "path kind\na.png  x\nb.png y\n",
    "an index": ",path,kind\n0,a.png,x\n1,b.png,y\n",
    "an index from one": ",path,kind\n1,a.png,x\n2,b.png,y\n",
    "an index at the end": "path,kind,\na.png,x,0\nb.png,y,1\n",
    "a column twice": "path,kind,kind\na.png,x,x\nb.png,y,y\n",
}


@pytest.mark.parametrize("form", WRITTEN)
def test_every_form_is_the_same_table(tmp_path: Path, form: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(WRITTEN[form], encoding="utf-8", newline="")
    assert read_table(str(path), "TABLE").to_dict(as_series=False) == PLAIN
    assert len(WRITTEN) == 17


OTHERS = {
    "signs of CelebA": (
        "2\nMale Young\n1.jpg -1  1\n2.jpg  1 -1\n",
        {"path": ["1.jpg", "2.jpg"], "Male": ["-1", "1"], "Young": ["1", "-1"]},
    ),
    "names without an index": (
        ",kind\na.png,x\nb.png,y\n",
        {"column1": ["a.png", "b.png"], "kind": ["x", "y"]},
    ),
    "an index with a name stays": (
        "id,kind\n0,x\n1,y\n",
        {"id": ["0", "1"], "kind": ["x", "y"]},
    ),
    "years as names": (
        "1990,1991\n0.5,0.1\n1.5,2.5\n",
        {"1990": ["0.5", "1.5"], "1991": ["0.1", "2.5"]},
    ),
    "a number sign in a cell": (
        "tag,kind\n#one,x\n#two,y\n",
        {"tag": ["#one", "#two"], "kind": ["x", "y"]},
    ),
}


@pytest.mark.parametrize("form", OTHERS)
def test_other_tables_are_read_as_they_stand(tmp_path: Path, form: str) -> None:
    text, columns = OTHERS[form]
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert read_table(str(path), "TABLE").to_dict(as_series=False) == columns


def test_lines_are_counted_from_the_top_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("# birds\n\nsep=;\n\npath;kind\na.png;x\nb.png;y;z\n")
    with pytest.raises(DataError, match="line 7 has 3 cells, and the first line has 2"):
        read_table(str(path), "TABLE")
