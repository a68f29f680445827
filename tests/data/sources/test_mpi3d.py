"""MPI3D: rows by their number, four archives, read as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crosswind.core.errors import DataError, InputError
from crosswind.core.registry import facts
from crosswind.data.archives import arrays
from crosswind.data.prepared import prepare
from crosswind.data.sources.base import open_source
from crosswind.data.sources.factor_grids import MPI3D

FILES = {
    "toy": "mpi3d_toy.npz",
    "realistic": "mpi3d_realistic.npz",
    "real": "mpi3d_real.npz",
    "complex": "real3d_complicated_shapes_ordered.npz",
}
PICTURES = np.random.default_rng(0).integers(0, 256, (700, 64, 64, 3), dtype=np.uint8)


def write(folder: Path, rendering: str = "toy", packed: bool = True, **arrays: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (np.savez_compressed if packed else np.savez)(folder / FILES[rendering], **arrays)
    return folder


@pytest.mark.parametrize(
    ("rendering", "rows", "colors"),
    [("toy", 1_036_800, 6), ("real", 1_036_800, 6), ("complex", 460_800, 4)],
)
def test_totals_are_the_whole_grid(rendering: str, rows: int, colors: int) -> None:
    """6 x 6 x 2 x 3 x 3 x 40 x 40 = 1,036,800, and 4 x 4 for the real things: 460,800."""
    source = MPI3D(rendering=rendering)
    assert source.totals() == {"all": rows} and colors * colors * 28_800 == rows
    assert [original.name for original in source.originals()] == [FILES[rendering]]


@pytest.mark.parametrize("packed", [True, False])
def test_a_rows_factors_are_those_of_its_number(tmp_path: Path, packed: bool) -> None:
    """Row 57 is horizontal 1, vertical 17: 57 = 1 x 40 + 17."""
    reading = MPI3D().read(write(tmp_path, packed=packed, images=PICTURES[:60]))
    data = reading.dataset
    assert dict(reading.parts) == {"all": 60}
    assert data.table.names == (
        "object_color",
        "object_shape",
        "object_size",
        "camera_height",
        "background_color",
        "horizontal_axis",
        "vertical_axis",
    )
    assert data.table.codes[:, 57].tolist() == [0, 0, 0, 0, 0, 1, 17]
    assert np.array_equal(data.inputs(np.arange(60)), PICTURES[:60])
    card = facts("sources", "mpi3d").card
    assert card is not None
    for attribute in data.schema:
        told = card.attributes[attribute.name]
        assert told == (attribute.values if isinstance(told, tuple) else len(attribute))


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One position in place of 40 on both axes, and blocks of 50 rows."""
    card = MPI3D.card
    attributes = {**card.attributes, "horizontal_axis": 1, "vertical_axis": 1}
    monkeypatch.setattr(MPI3D, "card", replace(card, attributes=attributes))
    monkeypatch.setattr(arrays, "BLOCK", 50 * 64 * 64 * 3)


@pytest.mark.slow
def test_the_whole_grid_is_prepared_in_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The axes have 1 position in place of 40: 6 x 6 x 2 x 3 x 3 = 648 rows."""
    small(monkeypatch)
    begun = []
    real = arrays._array
    monkeypatch.setattr(arrays, "_array", lambda *told: (begun.append(told), real(*told))[1])
    folder = write(tmp_path / "files", "realistic", images=PICTURES[:648])
    source = MPI3D(root=str(tmp_path), rendering="realistic")
    made = prepare(source, originals=str(folder), workers=3).copy
    assert len(begun) == 2  # once for the header, once for the pictures
    assert made.folder == tmp_path / "mpi3d-rendering=realistic"
    data = source.load()
    assert np.array_equal(data.inputs(np.arange(648)), PICTURES[:648])
    assert data.table.codes[:, 107].tolist() == [
        0,
        5,
        1,
        2,
        2,
        0,
        0,
    ]  # 18 rows an object's shape: the last cell of the last one
    assert (
        data.attribute("object_shape").values[5] == "sphere"
        and data.attribute("background_color").values[2] == "salmon"
    )
    with pytest.raises(DataError, match="no prepared copy of mpi3d"):
        MPI3D(root=str(tmp_path)).load()
    write(folder, "realistic", images=PICTURES[:649])
    with pytest.raises(DataError, match="holds 649 pictures, more than the 648 of the grid"):
        source.read(folder)


def test_a_stream_that_breaks_off_is_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch)
    real = arrays._blocks

    def failing(*told: Any) -> Iterator[np.ndarray]:
        for number, block in enumerate(real(*told)):
            if number == 9:
                raise OSError(5, "Input/output error")
            yield block

    folder = write(tmp_path / "files", images=PICTURES[:648])
    source = MPI3D(root=str(tmp_path))
    monkeypatch.setattr(arrays, "_blocks", failing)
    with pytest.raises(DataError, match="mpi3d: cannot read the originals: Input/output error"):
        prepare(source, originals=str(folder), workers=1)
    assert not (tmp_path / "mpi3d").exists()
    monkeypatch.setattr(arrays, "_blocks", real)
    assert 0 < prepare(source, originals=str(folder), workers=1).rows_before <= 450
    assert np.array_equal(source.load().inputs(np.arange(648)), PICTURES[:648])


def test_real_things_have_their_own_names(tmp_path: Path) -> None:
    data = MPI3D(rendering="complex").read(write(tmp_path, "complex", images=PICTURES[:5])).dataset
    assert data.attribute("object_shape").values == (
        "coffee-cup",
        "tennis-ball",
        "croissant",
        "beer-cup",
    )
    assert data.attribute("object_color").values == ("yellow", "green", "olive", "red")


def test_bad_settings_and_missing_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"mpi3d\.rendering: unknown value 'reel', did you mean 'real'\?"
    ):
        MPI3D(rendering="reel")
    with pytest.raises(
        DataError,
        match=(
            "no prepared copy of mpi3d in .*: crosswind prepare mpi3d --root .* rendering=complex"
        ),
    ):
        open_source("mpi3d", {"root": str(tmp_path), "rendering": "complex"})
    # The archive of real things has no address and hash in its card, so it is asked for.
    with pytest.raises(
        DataError,
        match=r"mpi3d needs real3d_complicated_shapes_ordered\.npz in the folder .*Google Drive",
    ):
        prepare(MPI3D(root=str(tmp_path), rendering="complex"))
