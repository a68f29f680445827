"""Data that a program has already: frames with a folder or an array of images, and data sets of
torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
import torch
from PIL import Image

import crosswind as cw
from crosswind.core.errors import DataError, InputError

N = 48
PIXELS = np.random.default_rng(0).integers(0, 256, (N, 8, 8, 3), dtype=np.uint8)
COLUMNS = {
    "kind": ["a", "b"] * (N // 2),
    "place": ["x", "x", "y", "y"] * (N // 4),
    "who": [i // 2 for i in range(N)],
}


class Items:
    """A map-style data set, as torch's are."""

    classes = ("cat", "dog")

    def __init__(self, form: str) -> None:
        self.form = form

    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> Any:
        image: Any = PIXELS[i]
        if self.form == "pil":
            image = Image.fromarray(PIXELS[i])
        elif self.form != "array":
            image = torch.from_numpy(PIXELS[i]).permute(2, 0, 1)
            image = image.float() / 255 if self.form == "float" else image
        return image, i % 2


def pandas_frame() -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(COLUMNS)


@pytest.mark.parametrize(
    "frame",
    [lambda: COLUMNS, lambda: polars.DataFrame(COLUMNS), pandas_frame],
    ids=["mapping", "polars", "pandas"],
)
def test_a_frame_and_an_array_are_split_and_learnt(frame: Any) -> None:
    data = cw.from_frame(frame(), PIXELS, unit="who")
    assert (
        [item.name for item in data.schema] == ["kind", "place"]
        and data.n_rows == N
        and data.units is not None
    )
    assert np.array_equal(data.inputs(np.arange(N)), PIXELS)
    assert data.fingerprint == cw.from_frame(COLUMNS, PIXELS, unit="who").fingerprint
    assert data.fingerprint != cw.from_frame(COLUMNS, 255 - PIXELS, unit="who").fingerprint
    split = cw.split(data, "kind", ["place"], cw.UnseenData("place", ["y"]), test=0.25)
    trained = cw.train("erm", split, data, model="mlp", steps=4, validate_every=2, batch=4)
    assert 0 <= cw.evaluate(trained, split)["test"]["accuracy"] <= 1


def test_a_frame_over_a_folder_is_the_source_table(tmp_path: Path) -> None:
    for i, pixels in enumerate(PIXELS):
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
    frame = polars.DataFrame({"path": [f"{i}.png" for i in range(N)], **COLUMNS})
    frame.write_csv(tmp_path / "birds.csv")
    data = cw.from_frame(frame, tmp_path, size=8, columns=["kind"])
    table = cw.load(
        "table", path=str(tmp_path / "birds.csv"), images=str(tmp_path), size=8, columns=["kind"]
    )
    assert (
        np.array_equal(data.inputs(np.arange(N)), table.inputs(np.arange(N)))
        and data.fingerprint == table.fingerprint
    )
    with pytest.raises(
        DataError, match=r"the frame 'frame', column 'path', row 1: there is no file 'none\.png'"
    ):
        cw.from_frame(frame.with_columns(path=polars.lit("none.png")), tmp_path)


@pytest.mark.parametrize("form", ["pil", "array", "uint8", "float"])
def test_a_data_set_of_torch(form: str) -> None:
    data = cw.from_torch(Items(form), {"place": COLUMNS["place"]})
    assert np.array_equal(data.inputs(np.arange(N)), PIXELS)
    assert {item.name: item.values for item in data.schema} == {
        "place": ("x", "y"),
        "label": ("cat", "dog"),
    }
    assert data.table.column("label").tolist() == [i % 2 for i in range(N)]
    assert [item.name for item in cw.from_torch(Items(form)).schema] == ["label"]
    own = cw.from_torch(Items(form), {"label": ["one"] * N})
    assert own.attribute("label").values == ("one",)


def test_what_is_no_data_is_one_sentence() -> None:
    with pytest.raises(DataError, match="'frame' has 47 images and 48 rows of attributes"):
        cw.from_frame(COLUMNS, PIXELS[1:])
    with pytest.raises(
        DataError,
        match=(
            r"images: must be uint8 \[h, w\] or uint8 \[h, w, 1\] or \[h, w, 3\] each, not float64"
        ),
    ):
        cw.from_frame(COLUMNS, PIXELS / 255)
    with pytest.raises(
        InputError, match=r"frame: must be a table, not 3 \(valid: a polars, pandas or Arrow frame"
    ):
        cw.from_frame(3, PIXELS)
    with pytest.raises(
        InputError, match=r"frame\.columns: unknown column of frame 'knd', did you mean 'kind'"
    ):
        cw.from_frame(COLUMNS, PIXELS, columns=["knd"])
    with pytest.raises(
        DataError, match="item 0 of 'torch' has values outside 0 to 1: leave a normalisation out"
    ):
        cw.from_torch([torch.full((3, 4, 4), -1.0)], {"a": [1]})
    with pytest.raises(DataError, match="the items of 'torch' have 2 sizes"):
        cw.from_torch([np.zeros((2, 2), np.uint8), np.zeros((3, 2), np.uint8)], {"a": [1, 2]})
    with pytest.raises(
        InputError, match="attributes: is needed: the items of 'torch' have no label"
    ):
        cw.from_torch([np.zeros((2, 2), np.uint8)])


def test_results_of_a_study_are_a_frame(tmp_path: Path) -> None:
    results = cw.run_study(
        "demo", tmp_path / "out", scale="tiny", settings=["methods={erm: {}}", "claims=[]"]
    )
    frame = results.frame()
    assert frame.height == len(results.rows) == 20 and {
        "shift",
        "method",
        "seed",
        "set",
        "accuracy",
        "worst_group",
    } <= set(frame.columns)
    assert frame.filter(polars.col("set") == "test")["accuracy"].is_between(0, 1).all()


def test_a_study_runs_on_a_data_set_of_the_program(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (160, 8, 8, 3), dtype=np.uint8)
    frame = {
        "kind": ["ab"[i % 2] for i in range(160)],
        "place": ["xy"[i // 2 % 2] for i in range(160)],
    }
    data = cw.from_frame(frame, pixels, name="own")
    study: dict[str, Any] = {
        "name": "held",
        "data": {"own": {"source": data, "label": "kind", "attributes": ["place"]}},
        "shifts": {
            "none": [],
            "SC": {"type": "spurious-correlation", "attribute": "place", "counterexamples": 0.1},
        },
        "models": {"mlp": {"layers": 1}},
        "methods": ["erm"],
        "training": {"steps": 4, "batch": 16, "validate_every": 4, "patience": None},
        "seeds": 1,
    }
    with pytest.raises(
        InputError, match="workers: must be 0: data.own is in the memory of this process"
    ):
        cw.run_study(study, tmp_path / "out", workers=2)
    assert not (tmp_path / "out").exists()
    found = cw.run_study(study, tmp_path / "out")
    assert (
        found.summary.finished == 2
        and "source" in study["data"]["own"]
        and study["data"]["own"]["source"] is data
    )
    assert cw.run_study(study, tmp_path / "out").summary.executed == 0, (
        "the same pixels, the same runs"
    )
    pixels = pixels.copy()
    pixels[0, 0, 0, 0] ^= 1
    study["data"]["own"]["source"] = cw.from_frame(frame, pixels, name="own")
    assert cw.run_study(study, tmp_path / "out").summary.executed > 0, "other pixels, other runs"
    code = "import crosswind as cw, sys; cw.load('memory', fingerprint=sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, data.fingerprint], capture_output=True, text=True, check=False
    )
    assert "in the memory of the program that runs its study" in done.stderr.splitlines()[-1]
