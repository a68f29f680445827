"""Exhibits: what a method leaves to be looked at is kept with its run, drawn by the page, and in no
number."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import crosswind as cw
from crosswind.core.exhibits import (
    FILE,
    Bars,
    Exhibit,
    Grid,
    Picture,
    read_exhibits,
    write_exhibits,
)
from crosswind.core.knobs import Limit
from crosswind.core.registry import forget, register
from crosswind.methods.base import Info, Method, State
from crosswind.reports.gather import gather
from crosswind.reports.page import study_page
from crosswind.storage.store import Store

STUDY: dict[str, Any] = {
    "name": "exhibits",
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 4},
        }
    },
    "shifts": {"none": []},
    "models": ["mlp"],
    "methods": ["erm", "groupdro"],
    "training": {"steps": 4, "validate_every": 4, "batch": 32},
    "seeds": 1,
}
GREY = np.arange(6, dtype=np.uint8).reshape(2, 3)
EVERY: dict[str, Exhibit] = {
    "exits": Bars({"first": 3, "last": 0.5}, "rows", "Where rows left."),
    "traversal": Picture.of(
        np.arange(24, dtype=np.uint8).reshape(2, 4, 3), "One factor at a time."
    ),
    "sheet": Picture.sheet(
        np.zeros((2, 3, 4, 4, 1), dtype=np.uint8),
        columns=["-1", "0", "+1"],
        rows=["<first>", "second"],
    ),
    "pairs": Grid(["name", "value"], [["a", 1], ["b", None]], "Two of them."),
}


def pixels_of(picture: Picture) -> np.ndarray:
    with Image.open(io.BytesIO(picture.png)) as image:
        return np.asarray(image)


def page_of(out: Path) -> str:
    with Store.open(out) as store:
        return study_page([gather(store, "exhibits")], "out")


def test_what_is_written_is_read_and_nothing_else(tmp_path: Path) -> None:
    write_exhibits(tmp_path, {})
    assert not list(tmp_path.iterdir()) and read_exhibits(tmp_path) == {}
    write_exhibits(tmp_path, EVERY)
    exhibits = read_exhibits(tmp_path)
    assert (
        list(exhibits) == list(EVERY)
        and exhibits["exits"] == EVERY["exits"]
        and exhibits["pairs"] == EVERY["pairs"]
    )
    assert exhibits["sheet"] == EVERY["sheet"]
    picture = exhibits["traversal"]
    assert isinstance(picture, Picture)
    for pixels, png in (
        (np.arange(24).reshape(2, 4, 3), picture.png),
        (np.arange(6).reshape(2, 3), Picture.of(GREY).png),
    ):
        with Image.open(io.BytesIO(png)) as image:
            assert np.array_equal(np.asarray(image), pixels)
    file_text = (tmp_path / FILE).read_text()
    for damaged in (
        "",
        "[]",
        '{"a": 1}',
        file_text[:-5],
        file_text.replace('"kind": "bars"', '"kind": "pie"'),
        file_text.replace("iVBOR", "AAAAA"),
    ):
        (tmp_path / FILE).write_text(damaged)
        with pytest.raises((ValueError, OSError)):
            read_exhibits(tmp_path)


def test_a_sheet_sets_images_side_by_side_and_enlarges_small_ones() -> None:
    images = np.arange(2 * 3 * 2 * 4 * 3, dtype=np.uint8).reshape(2, 3, 2, 4, 3)
    pixels = pixels_of(Picture.sheet(images, least=8))
    assert pixels.shape == (2 * 4 + 2, 3 * 8 + 2 * 2, 3)
    for row in range(2):
        for column in range(3):
            tile = pixels[6 * row : 6 * row + 4, 10 * column : 10 * column + 8]
            assert (tile == images[row, column].repeat(2, 0).repeat(2, 1)).all()
    assert (pixels[4:6] == 255).all() and (pixels[:, 8:10] == 255).all()
    assert pixels_of(Picture.sheet(images[..., :1], least=1)).shape == (2 * 2 + 2, 3 * 4 + 4)
    for names in ({"columns": ["a"]}, {"rows": ["a", "b", "c"]}):
        with pytest.raises(ValueError, match="2 x 3 images has so many names"):
            Picture.sheet(images, **names)  # type: ignore[arg-type]
    for wrong in (images[0], images.astype(np.float32), images[..., :2], images[:0]):
        with pytest.raises(ValueError, match="a sheet is uint8"):
            Picture.sheet(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bars({}, "rows"),
        lambda: Bars({"a": float("nan")}, "rows"),
        lambda: Picture.of(np.zeros((2, 2, 4), dtype=np.uint8)),
        lambda: Picture.of(np.zeros((2, 2), dtype=np.float32)),  # type: ignore[arg-type]
        lambda: Picture(b"GIF89a"),
        lambda: Grid(["a"], [[1, 2]]),
    ],
)
def test_what_cannot_be_drawn_is_no_exhibit(make: Any) -> None:
    with pytest.raises(ValueError):
        make()


@pytest.mark.slow
def test_the_weights_of_groups_are_on_the_page_and_in_no_number(tmp_path: Path) -> None:
    study_results = cw.run_study(STUDY, tmp_path / "out", workers=0)
    folders = {
        json.loads(path.read_text())["kind"]
        for path in (tmp_path / "out").rglob("job.json")
        if (path.parent / FILE).exists()
    }
    assert folders == {"fit", "score"} and len(list((tmp_path / "out").rglob(FILE))) == 2, (
        "of GroupDRO, and of no other"
    )
    assert not any("weight" in name for row in study_results.rows for name in row["metrics"])
    files = sorted((tmp_path / "out").rglob(FILE))
    weights = read_exhibits(files[0].parent)["group weights"]
    assert (
        isinstance(weights, Bars)
        and len(weights.values) == 30
        and sum(weights.values.values()) == pytest.approx(1)
    )
    page = page_of(tmp_path / "out")
    assert "groupdro under none, seed 0: group weights" in page and "digit=3, ink=red" in page
    for damaged in (
        "{".ljust(files[0].stat().st_size),
        "{",
    ):  # sizes are compared before a file is read
        for path in files:
            path.write_text(damaged)  # `crosswind check` names it, the page does without
        assert "group weights" not in page_of(tmp_path / "out")


def test_every_kind_is_drawn(tmp_path: Path) -> None:
    try:

        @register("shows-all", kind="method")
        @dataclass(frozen=True)
        class ShowsAll(Method):
            """ERM that shows."""

            limit = Limit.none("a test")

            def exhibits(self, info: Info, state: State) -> dict[str, Exhibit]:
                return EVERY

        cw.run_study({**STUDY, "methods": ["erm", "shows-all"]}, tmp_path / "out", workers=0)
        page = page_of(tmp_path / "out")
    finally:
        forget("methods", "shows-all")
    assert 'src="data:image/png;base64,' in page and "One factor at a time." in page
    assert "Where rows left." in page and "Two of them." in page
    for names in (
        "<span>-1</span><span>0</span><span>+1</span>",
        "<span>&lt;first&gt;</span><span>second</span>",
    ):
        assert names in page
