"""HDF5 files: rows from chunks of any form, and nothing from outside the file."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.data.factor_files import write_hdf5

from crosswind.core.errors import DataError
from crosswind.data.archives import hdf5
from crosswind.data.archives.hdf5 import hdf5_rows, read_hdf5
from crosswind.data.archives.npz import Expected

h5py = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")

VALUES = np.random.default_rng(0).integers(0, 256, (90, 8, 8, 3), dtype=np.uint8)
PICTURES = Expected("uint8", (None, 8, 8, 3))


@pytest.mark.parametrize("chunks", [True, (50, 2, 4, 1), (1, 8, 8, 3), None])
def test_rows_are_those_of_the_whole_however_they_are_packed(
    tmp_path: Path, chunks: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    packing = {"compression": None, "compression_opts": None} if chunks is None else {}
    path = write_hdf5(tmp_path / "a.h5", {"images": VALUES}, chunks=chunks, **packing)
    monkeypatch.setattr(hdf5, "BLOCK", 20 * 192)
    rows = hdf5_rows(path, "images", PICTURES)
    assert rows.block == {True: rows.block, (50, 2, 4, 1): 50}.get(chunks, 20)  # type: ignore[call-overload]
    for asked in (np.arange(90), np.array([89, 0, 47, 47]), np.array([], dtype=np.int64)):
        assert np.array_equal(rows(asked), VALUES[asked])
    assert np.array_equal(read_hdf5(path, "images", PICTURES), VALUES)


def test_numbers_of_the_other_byte_order_are_turned(tmp_path: Path) -> None:
    path = write_hdf5(tmp_path / "a.h5", {"labels": np.arange(6.0).reshape(3, 2).astype(">f8")})
    found = read_hdf5(path, "labels", Expected("floats", (None, 2)))
    assert found.dtype.isnative and found.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_what_is_not_expected_is_refused(tmp_path: Path) -> None:
    path = write_hdf5(tmp_path / "a.h5", {"images": VALUES, "labels": np.zeros((90, 6))})
    with h5py.File(path, "a") as file:
        file.create_dataset("words", data=["a", "b"], dtype=h5py.string_dtype())
        file.create_dataset("single", data=1.0)
        file.create_group("group")
        file["soft"] = h5py.SoftLink("/images")
        file["away"] = h5py.ExternalLink("/etc/passwd", "/images")
        file.create_dataset("outside", (90, 8, 8, 3), "u1", external=[(str(tmp_path / "raw"), 0, 90 * 192)])
        layout = h5py.VirtualLayout((90, 8, 8, 3), "u1")
        layout[:] = h5py.VirtualSource(str(path), "images", (90, 8, 8, 3))
        file.create_virtual_dataset("virtual", layout)
    wrong = {
        "other": "has no 'other' but ",
        "labels": "'labels' holds float64, not uint8",
        "words": "'words' holds objects, which only unpickling could read, not uint8",
        "group": "'group' is not a data set",
        "soft": "'soft' is a link to another place, which is not followed",
        "away": "'away' is a link to another place, which is not followed",
        "outside": "'outside' has its values in other files, which are not read",
        "virtual": "'virtual' has its values in other files, which are not read",
    }
    for key, words in wrong.items():
        for reader in (hdf5_rows, read_hdf5):
            with pytest.raises(DataError, match=words):
                reader(path, key, PICTURES)
    with pytest.raises(DataError, match=r"has shape \(90, 8, 8, 3\), not \(any, 9, 8, 3\)"):
        hdf5_rows(path, "images", Expected("uint8", (None, 9, 8, 3)))
    with pytest.raises(DataError, match="'single' is a single value"):
        read_hdf5(path, "single", Expected("floats"))
    with pytest.raises(DataError, match="takes 17,280 bytes of memory, more than the 9,999 allowed"):
        read_hdf5(path, "images", PICTURES, limit=9_999)


def test_damage_is_one_sentence(tmp_path: Path) -> None:
    path = write_hdf5(tmp_path / "a.h5", {"images": VALUES}, chunks=(10, 8, 8, 3))
    whole = path.read_bytes()
    with h5py.File(path) as file:
        at = file["images"].id.get_chunk_info(4).byte_offset
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="is damaged or cut short"):
        hdf5_rows(path, "images", PICTURES)
    damaged = bytearray(whole)
    damaged[at : at + 40] = bytes(40)
    path.write_bytes(bytes(damaged))
    rows = hdf5_rows(path, "images", PICTURES)
    with pytest.raises(DataError, match=r"'images' is damaged or cut short in rows \d+ to \d+"):
        rows(np.arange(90))
    for data, words in (
        (b"<html>", "a web page"),
        (b"", "cut short at its beginning"),
        (b"PK\x03\x04" + bytes(99), "a file of zip"),
    ):
        path.write_bytes(data)
        with pytest.raises(DataError, match=f"is not an HDF5 file: it is {words}"):
            hdf5_rows(path, "images", PICTURES)
    with pytest.raises(DataError, match="there is no file"):
        hdf5_rows(tmp_path / "none.h5", "images", PICTURES)


def test_without_h5py_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_hdf5(tmp_path / "a.h5", {"images": VALUES})
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(DataError, match=r"needs the extra: pip install 'crosswind\[hdf5\]'"):
        hdf5_rows(path, "images", PICTURES)
