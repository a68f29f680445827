"""A program that plans or runs again after its pictures were edited, as a notebook does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import crosswind as cw
from crosswind.studies import build


def put(folder: Path, rows: range, seed: int) -> None:
    """Pictures of two classes at two sites, of many sizes in bytes."""
    draw = np.random.default_rng(seed)
    for row in rows:
        place = folder / ("s", "t")[row // 2 % 2] / ("a", "b")[row % 2]
        place.mkdir(parents=True, exist_ok=True)
        pixels = draw.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        pixels[: draw.integers(1, 8)] = 0
        Image.fromarray(pixels).save(place / f"{row}.png")


def back(folder: Path) -> None:
    """All files and folders as if they were written a minute ago."""
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (path.stat().st_atime - 60, path.stat().st_mtime - 60))


def study(folder: Path) -> dict[str, Any]:
    options = {"path": str(folder), "levels": ["site", "class"], "size": 8}
    data = {"source": "image-folder", "options": options, "label": "class", "attributes": ["site"]}
    return {
        "data": {"pictures": {**data, "roles": {"test": 3, "validation": 0.2}}},
        "shifts": {"none": []},
        "models": ["mlp"],
        "methods": ["erm"],
        "training": {"steps": 2, "validate_every": 2, "batch": 8},
        "seeds": 1,
    }


@pytest.mark.slow
def test_edited_and_added_pictures_are_seen(tmp_path: Path) -> None:
    """The first data set was kept: the scores of before stood as those of the new pictures."""
    folder = tmp_path / "pictures"
    put(folder, range(40), 0)
    back(folder)
    out = tmp_path / "out"
    assert cw.run_study(study(folder), out).summary.executed == 1
    assert cw.run_study(study(folder), out).summary.executed == 0
    put(folder, range(40), 1)
    assert cw.run_study(study(folder), out).summary.executed == 1
    assert cw.run_study(study(folder), out).summary.executed == 0
    rows = cw.plan(study(folder)).draws[0].train_rows
    put(folder, range(40, 60), 2)
    assert cw.plan(study(folder)).draws[0].train_rows > rows
    next(folder.rglob("59.png")).unlink()
    assert cw.plan(study(folder)).draws[0].train_rows > rows


def test_data_sets_whose_files_are_as_they_were_are_not_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "pictures"
    put(folder, range(40), 0)
    back(folder)
    opened: list[str] = []
    usual = build._opened
    monkeypatch.setattr(
        build, "_opened", lambda values, field: (opened.append(field), usual(values, field))[1]
    )
    for _ in range(3):
        cw.plan(study(folder))
    assert len(opened) == 1
