"""SmallNORB: six matrices, toys as units, cameras, and azimuths that can be turned."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.factor_files import NORB, TOYS, norb_part, write_norb

from crosswind.core.errors import DataError, InputError
from crosswind.core.registry import facts
from crosswind.data.prepared import prepare
from crosswind.data.sources import smallnorb
from crosswind.data.sources.base import open_source
from crosswind.data.sources.smallnorb import SmallNORB
from crosswind.shifts.base import parse_shift
from crosswind.shifts.draw import parse_draw
from crosswind.shifts.split import Roles, SplitPlan, make_split

PARTS = {"train": norb_part("train", 60), "test": norb_part("test", 40)}


def prepared(tmp_path: Path, **settings: Any) -> str:
    folder = write_norb(tmp_path / "files", PARTS)
    prepare(SmallNORB(root=str(tmp_path), **settings), originals=str(folder), accept_totals=True)
    return str(tmp_path)


@pytest.mark.parametrize("packed", [True, False])
def test_pairs_are_two_rows_with_the_names_of_their_values(tmp_path: Path, packed: bool) -> None:
    reading = SmallNORB().read(write_norb(tmp_path, PARTS, packed))
    data = reading.dataset
    assert dict(reading.parts) == {"train": 60, "test": 40} and data.n_base == 200
    assert [len(attribute) for attribute in data.schema] == [5, 10, 9, 18, 6, 2, 2]
    assert data.attribute("category").values == ("animal", "human", "airplane", "truck", "car")
    assert (
        data.attribute("azimuth").values[:3] == ("0", "20", "40")
        and data.attribute("azimuth").values[-1] == "340"
    )
    assert data.attribute("elevation").values == (
        "30",
        "35",
        "40",
        "45",
        "50",
        "55",
        "60",
        "65",
        "70",
    )
    all_pictures = np.concatenate([PARTS["train"]["dat"], PARTS["test"]["dat"]]).reshape(
        200, 96, 96, 1
    )
    assert np.array_equal(data.inputs(np.arange(200)), all_pictures)
    rows = np.array([199, 0, 121, 7])
    assert np.array_equal(data.inputs(rows), all_pictures[rows])
    info = np.concatenate([PARTS["train"]["info"], PARTS["test"]["info"]]).repeat(2, axis=0)
    codes = dict(zip(data.table.names, data.table.codes, strict=True))
    assert np.array_equal(codes["instance"], info[:, 0]) and np.array_equal(
        codes["elevation"], info[:, 1]
    )
    assert np.array_equal(codes["azimuth"] * 2, info[:, 2]) and np.array_equal(
        codes["lighting"], info[:, 3]
    )
    assert (
        codes["camera"].tolist() == [0, 1] * 100 and codes["split"].tolist() == [0] * 120 + [1] * 80
    )


def test_units_are_toys_and_none_is_in_both_parts(tmp_path: Path) -> None:
    data = SmallNORB().read(write_norb(tmp_path, PARTS)).dataset
    assert data.units is not None
    toys = data.table.column("category").astype(int) * 10 + data.table.column("instance")
    assert np.array_equal(data.units, toys) and len(np.unique(toys)) == 50
    split = data.table.column("split")
    assert not set(data.units[split == 0].tolist()) & set(data.units[split == 1].tolist())


def test_one_copy_serves_both_cameras_and_both_numbers_of_channels(tmp_path: Path) -> None:
    root = prepared(tmp_path)
    left, right, stereo = (
        open_source("smallnorb", {"root": root, "camera": camera})
        for camera in ("left", "right", "both")
    )
    assert (left.n_base, right.n_base, stereo.n_base) == (100, 100, 200)
    pairs = np.concatenate([PARTS["train"]["dat"], PARTS["test"]["dat"]])
    for camera_number, data in enumerate((left, right)):
        assert np.array_equal(data.inputs(np.arange(100))[..., 0], pairs[:, camera_number])
        assert data.attribute("camera").values == (("left", "right")[camera_number],)
    assert len({left.fingerprint, right.fingerprint, stereo.fingerprint}) == 3
    grey = open_source("smallnorb", {"root": root, "channels": 3})
    assert np.array_equal(
        grey.inputs(np.arange(9)), np.repeat(left.inputs(np.arange(9)), 3, axis=3)
    )
    card = facts("sources", "smallnorb").card
    assert card is not None and card.totals == {"train": 24_300, "test": 24_300} and not card.drawn
    assert list(card.attributes) == list(stereo.table.names)


def test_offsets_turn_the_azimuths_of_their_toys_only(tmp_path: Path) -> None:
    """40 degrees are two steps of 20, and 340 + 40 is 20; -20 degrees are 17 steps of 18."""
    root = prepared(tmp_path)
    plain = SmallNORB(root=root).load()
    offsets = {"animal": {0: 40, "7": -20}, "car": 360}
    turned = open_source("smallnorb", {"root": root, "azimuth_offsets": offsets})
    category, instance, azimuth = (
        plain.table.column(name).astype(int) for name in ("category", "instance", "azimuth")
    )
    steps = np.where(
        (category == 0) & (instance == 0), 2, np.where((category == 0) & (instance == 7), 17, 0)
    )
    assert set(steps.tolist()) == {0, 2, 17} and (azimuth + steps).max() >= 18
    assert np.array_equal(turned.table.column("azimuth"), (azimuth + steps) % 18)
    assert np.array_equal(
        np.delete(turned.table.codes, 3, axis=0), np.delete(plain.table.codes, 3, axis=0)
    )
    assert turned.fingerprint != plain.fingerprint
    assert np.array_equal(turned.inputs(np.arange(5)), plain.inputs(np.arange(5)))
    round_the_circle = open_source(
        "smallnorb", {"root": root, "azimuth_offsets": {"human": 100 - 360 * 10**30}}
    )
    human = category == 1
    assert np.array_equal(
        round_the_circle.table.column("azimuth")[human], (azimuth[human] + 5) % 18
    )
    assert (
        open_source("smallnorb", {"root": root, "azimuth_offsets": {"human": 0}}).fingerprint
        == plain.fingerprint
    )


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        (
            {"horse": 20},
            (
                r"data\.azimuth_offsets\.horse: unknown value of attribute 'category':"
                r" 'horse'.*animal, human"
            ),
        ),
        (
            {"animal": 30},
            r"data\.azimuth_offsets\.animal: must be a multiple of 20 degrees, not 30",
        ),
        (
            {"animal": {10: 20}},
            r"data\.azimuth_offsets\.animal\.10: unknown value of attribute 'instance'",
        ),
        (
            {"animal": {1: "left"}},
            r"data\.azimuth_offsets\.animal\.1: must be a multiple of 20 degrees, not 'left'",
        ),
        ({"animal": True}, "must be a multiple of 20 degrees, not true"),
        ({"animal": float("nan")}, "must be a multiple of 20 degrees, not nan"),
        ({"animal": float("inf")}, "must be a multiple of 20 degrees, not inf"),
        ([20], r"data\.azimuth_offsets: must map categories to degrees, not \[20\]"),
    ],
)
def test_offsets_that_are_none_name_their_place(tmp_path: Path, offsets: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        open_source("smallnorb", {"root": str(tmp_path), "azimuth_offsets": offsets})


def test_parts_under_each_others_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"training-info\.mat\.gz: instance is 0 in row 1, which is none of 4, 6, 7, 8, 9",
    ):
        SmallNORB().read(write_norb(tmp_path, {"train": PARTS["test"], "test": PARTS["train"]}))


def test_values_that_are_none_are_refused(tmp_path: Path) -> None:
    for kind, column, value, words in (
        ("cat", None, 5, "training-cat.mat.gz: category is 5 in row 4"),
        ("info", 1, 9, "elevation is 9 in row 4"),
        ("info", 2, 7, "azimuth is 7 in row 4, which is none of 0, 2, 4"),
        ("info", 2, 36, "azimuth is 36 in row 4"),
        ("info", 3, -1, "lighting is -1 in row 4"),
    ):
        train_arrays = {name: values.copy() for name, values in PARTS["train"].items()}
        train_arrays[kind][3 if column is None else (3, column)] = value
        with pytest.raises(DataError, match=words):
            SmallNORB().read(write_norb(tmp_path, {"train": train_arrays}))
    train_arrays = {name: values.copy() for name, values in PARTS["train"].items()}
    train_arrays["cat"][30], train_arrays["info"][30] = (
        train_arrays["cat"][3],
        train_arrays["info"][3],
    )
    with pytest.raises(DataError, match="have two rows alike"):
        SmallNORB().read(write_norb(tmp_path, {"train": train_arrays}))


def test_files_may_be_packed_or_not_each(tmp_path: Path) -> None:
    folder = write_norb(tmp_path, PARTS)
    for name in (f"{NORB['train']}-cat.mat", f"{NORB['test']}-dat.mat"):
        (folder / name).write_bytes(gzip.decompress((folder / f"{name}.gz").read_bytes()))
        (folder / f"{name}.gz").unlink()
    source = SmallNORB()
    assert source.missing(folder) == () and len(source.places(folder)) == 6
    assert source.read(folder).dataset.n_base == 200
    (folder / f"{NORB['train']}-cat.mat").unlink()
    assert [missing_file.name for missing_file in source.missing(folder)] == [
        f"{NORB['train']}-cat.mat.gz"
    ]


def test_the_whole_set_gives_the_papers_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All 24,300 x 2 pairs, 8 x 8 pixels each, prepared without being told to accept anything;
    table 6 of Jeon et al. 2025.

    5 values of azimuth, lighting and elevation, 5 categories and 10 toys: 3,125 pairs a part, 5
    toys a cell. Units are toys, so the validation rows are those of other toys than the training
    rows.
    """
    monkeypatch.setattr(smallnorb, "SIDE", 8)
    arrays_of_part = {}
    for part_name, toys in TOYS.items():
        grid = np.array(
            list(itertools.product(range(5), toys, range(9), range(0, 36, 2), range(6))),
            dtype=np.int32,
        )
        pictures = np.zeros((len(grid), 2, 8, 8), np.uint8)
        number = np.arange(len(grid), dtype="<u4") + len(arrays_of_part) * len(
            grid
        )  # equal pictures would be one picture
        pictures[:, 0, 0, :4] = number.view(np.uint8).reshape(-1, 4)
        arrays_of_part[part_name] = {"cat": grid[:, 0], "info": grid[:, 1:], "dat": pictures}
    prepare(
        SmallNORB(root=str(tmp_path), size=8),
        originals=str(write_norb(tmp_path / "files", arrays_of_part)),
    )
    data = open_source("smallnorb", {"root": str(tmp_path), "size": 8})
    assert data.n_base == 48_600
    keep = {
        "azimuth": [0, 80, 160, 240, 320],
        "lighting": list(range(5)),
        "elevation": [30, 40, 50, 60, 70],
    }
    sources = {"smallnorb": data.keep(keep)}
    shifts: dict[str, list[dict[str, Any]]] = {
        "SC": [{"type": "spurious-correlation", "attribute": "azimuth", "counterexamples": 0.01}],
        "LDD": [
            {
                "type": "low-data-drift",
                "attribute": "lighting",
                "low": "last",
                "high": 3,
                "ratio": {"default": "1/3", "last": 0},
            }
        ],
        "UDS": [{"type": "unseen-data", "attribute": "elevation", "unseen": "last"}],
    }
    roles = Roles(None, 0.2, {"column": "split", "train": "train", "test": "test"})
    for names, rows in (
        ("SC", 127),
        ("LDD", 1600),
        ("UDS", 500),
        ("SC+LDD", 324),
        ("SC+UDS", 101),
        ("LDD+UDS", 1280),
    ):
        shift = parse_shift([step for name in names.split("+") for step in shifts[name]])
        plan = SplitPlan(
            "category", ("azimuth", "lighting", "elevation"), shift, parse_draw(1), roles
        )
        split = make_split(sources, "smallnorb", plan, seed=0)
        assert (len(split.train), len(split.evaluation["test"])) == (rows, 3125), names
        assert split.report["short"] == {}
        toys = [
            set(sources["smallnorb"].row_units(split_rows.rows).tolist())
            for split_rows in (split.train, split.validation["validation"])
        ]
        assert toys[0] and toys[1] and not toys[0] & toys[1]
