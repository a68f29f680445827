"""Shapes3D: the grid, the drawing by its factors, and the original file read with care."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.data.factor_files import shapes3d_arrays, write_hdf5

from crosswind.core.errors import DataError, InputError
from crosswind.core.registry import facts
from crosswind.core.types import digest_arrays
from crosswind.data.dataset import AttributedDataset
from crosswind.data.prepared import prepare
from crosswind.data.sources.base import open_source
from crosswind.data.sources.factor_grids import Shapes3D

COUNTS = (10, 10, 10, 8, 4, 15)
NAMES = ["floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation"]


@pytest.fixture(scope="module")
def data() -> AttributedDataset:
    return Shapes3D().load()


def test_rows_are_the_full_grid_in_the_originals_order(data: AttributedDataset) -> None:
    """The first factor is slowest: steps of 48,000, 4,800, 480, 60, 15 and 1 rows."""
    assert data.n_rows == 480_000 and list(data.table.names) == NAMES
    codes = data.table.codes
    assert codes[:, -1].tolist() == [9, 9, 9, 7, 3, 14]
    for place, step in enumerate((48_000, 4_800, 480, 60, 15, 1)):
        assert codes[:, step].tolist() == [int(i == place) for i in range(6)]
    assert len(np.unique(np.ravel_multi_index(tuple(codes.astype(np.int64)), COUNTS))) == 480_000


def test_values_have_the_names_that_the_papers_use(data: AttributedDataset) -> None:
    assert [data.code_of("object_hue", value) for value in (0, 0.1, 0.2, 0.3)] == [0, 1, 2, 3]
    assert [data.code_of("scale", value) for value in (0.75, 0.964, 1.036, 1.179)] == [0, 3, 4, 6]
    assert [data.code_of("orientation", value) for value in (-30, 0, 30)] == [0, 7, 14]
    assert data.attribute("shape").values == ("cube", "cylinder", "sphere", "capsule")
    card = facts("sources", "shapes3d").card
    assert (
        card is not None and card.totals == {"all": data.n_rows} and list(card.attributes) == NAMES
    )
    assert card.attributes["scale"] == data.attribute("scale").values


def test_each_factor_changes_its_own_part_of_the_picture(data: AttributedDataset) -> None:
    base = np.array([2, 5, 8, 4, 0, 9])
    rows = [int(np.ravel_multi_index(tuple(base), COUNTS))]
    for factor in range(6):
        other = base.copy()
        other[factor] = (base[factor] + 1) % COUNTS[factor]
        rows.append(int(np.ravel_multi_index(tuple(other), COUNTS)))
    pictures = data.inputs(np.array(rows)).astype(int)
    floor, wall, solid, scale, shape, turned = (
        np.abs(picture - pictures[0]).max(axis=2) > 3 for picture in pictures[1:]
    )
    assert floor[-1].all() and not floor[:16].any()
    assert wall[16].any() and not wall[-20:].any()
    assert solid[32, 32] and not solid[[0, 0, -1, -1], [0, -1, 0, -1]].any()
    # Materials meet only along edges.
    assert ((floor & wall) | (floor & solid) | (wall & solid)).mean() < 0.1
    for part in (scale, shape):
        assert 0.005 < part.mean() < 0.25 and not part[:, :8].any()
    assert turned.mean() > 0.02 and turned[:, :8].any()
    assert all(not np.array_equal(pictures[0], picture) for picture in pictures[1:])


def test_rows_alone_and_among_others_are_the_same_on_every_machine(data: AttributedDataset) -> None:
    rows = np.random.default_rng(0).integers(0, 480_000, 24)
    together = data.inputs(rows)
    assert np.array_equal(
        together, np.concatenate([data.inputs(rows[i : i + 1]) for i in range(24)])
    )
    assert together.dtype == np.uint8 and together.shape == (24, 64, 64, 3)
    assert digest_arrays({"x": together}) == "6b512d7bf8618803bbea46467d6314fb"


def test_size_is_that_of_the_picture() -> None:
    small, large = Shapes3D(size=16).load(), Shapes3D(size=32).load()
    rows = np.arange(0, 480_000, 60_007)
    means = [data.inputs(rows).mean(axis=(1, 2)) for data in (small, large)]
    assert small.image_shape == (16, 16, 3) and np.abs(means[0] - means[1]).max() < 3
    assert len({small.fingerprint, large.fingerprint, Shapes3D().load().fingerprint}) == 3


def test_the_original_is_prepared_and_read(tmp_path: Path) -> None:
    rows = np.sort(np.random.default_rng(0).choice(480_000, 70, replace=False))
    arrays = shapes3d_arrays(rows)
    write_hdf5(tmp_path / "originals" / "shapes3d" / "3dshapes.h5", arrays)
    source = Shapes3D(root=str(tmp_path), original=True)
    with pytest.raises(
        DataError, match="no prepared copy of shapes3d in .*: crosswind prepare shapes3d"
    ):
        source.load()
    with pytest.raises(
        DataError, match="the originals hold all 70 rows, where all 480,000 are published"
    ):
        prepare(source)
    assert not (tmp_path / "shapes3d").exists()
    made = prepare(
        Shapes3D(root=str(tmp_path)), accept_totals=True
    ).copy  # drawn or not is no matter of the copy
    assert made.folder == tmp_path / "shapes3d"
    data = open_source("shapes3d", {"root": str(tmp_path), "original": True})
    assert np.array_equal(data.inputs(np.arange(70)), arrays["images"])
    drawn = Shapes3D().load()
    assert data.schema == drawn.schema
    assert np.array_equal(data.table.codes, drawn.table.codes[:, rows])
    assert data.fingerprint != drawn.fingerprint == Shapes3D(root=str(tmp_path)).load().fingerprint


def test_labels_that_are_none_of_the_factors_are_refused(tmp_path: Path) -> None:
    good = shapes3d_arrays(np.arange(20))
    for column, value, words in (
        (0, 0.55, "floor_hue in 'labels' is 0.55 in row 4, which is none of 0, 0.1, 0.2"),
        (4, 4.0, "shape in 'labels' is 4 in row 4, which is none of 0, 1, 2, 3"),
        (3, np.nan, "scale in 'labels' is nan"),
        (5, np.inf, "orientation in 'labels' is inf"),
    ):
        labels = good["labels"].copy()
        labels[3, column] = value
        write_hdf5(tmp_path / "3dshapes.h5", good | {"labels": labels})
        with pytest.raises(DataError, match=words):
            Shapes3D().read(tmp_path)
    write_hdf5(tmp_path / "3dshapes.h5", good | {"labels": good["labels"][[0] * 20]})
    with pytest.raises(DataError, match="two of its rows have the same factors"):
        Shapes3D().read(tmp_path)


def test_bad_settings_name_their_field(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"data\.size: the original's pictures have 64 pixels a side, not 32"
    ):
        open_source("shapes3d", {"size": 32, "original": True, "root": str(tmp_path)})
    with pytest.raises(InputError, match=r"data\.original: must be true or false"):
        open_source("shapes3d", {"original": "yes"})
