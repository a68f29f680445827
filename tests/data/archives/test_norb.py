"""Matrices of NORB: the layout byte by byte, and what is not one."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from tests.data.factor_files import norb_bytes

from crosswind.core.errors import DataError
from crosswind.data.archives import norb
from crosswind.data.archives.norb import find_norb, open_norb


def test_the_layout_byte_by_byte(tmp_path: Path) -> None:
    """Integers 1, 2, 258 in one dimension: the type 54, then 1, then 3 x 1 x 1, then the values, each four bytes, lowest first."""
    path = tmp_path / "a.mat"
    path.write_bytes(bytes.fromhex("544c3d1e 01000000 03000000 01000000 01000000 01000000 02000000 02010000"))
    matrix = open_norb(path, "int32", (None,))
    assert matrix.shape == (3,) and matrix.read().tolist() == [1, 2, 258]
    # Bytes in four dimensions: the type 55, and no filling up.
    path.write_bytes(bytes.fromhex("554c3d1e 04000000 02000000 01000000 01000000 02000000 01020304"))
    assert open_norb(path, "uint8", (None, 1, 1, 2)).read().tolist() == [[[[1, 2]]], [[[3, 4]]]]
    path.write_bytes(bytes.fromhex("544c3d1e 02000000 01000000 02000000 01000000 07000000 ffffffff"))
    assert open_norb(path, "int32", (None, 2)).read().tolist() == [[7, -1]]


@pytest.mark.parametrize("packed", [False, True])
def test_rows_are_those_of_the_whole_in_any_order(tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).integers(0, 256, (50, 2, 6, 6), dtype=np.uint8)
    path = tmp_path / ("a.mat.gz" if packed else "a.mat")
    path.write_bytes(gzip.compress(norb_bytes(values), mtime=0) if packed else norb_bytes(values))
    monkeypatch.setattr(norb, "BLOCK", 72 * 7)
    matrix = open_norb(path, "uint8", (None, 2, 6, 6))
    assert np.array_equal(matrix.read(), values)
    rows = matrix.rows()
    assert rows.block == 7
    for asked in (np.arange(50), np.array([49, 0, 13, 13]), np.array([], dtype=np.int64)):
        assert np.array_equal(rows(asked), values[asked])


def test_a_file_that_a_browser_unpacked_is_taken_by_its_bytes(tmp_path: Path) -> None:
    data = norb_bytes(np.arange(4, dtype=np.int32))
    (tmp_path / "a.mat.gz").write_bytes(data)
    (tmp_path / "b.mat").write_bytes(gzip.compress(data, mtime=0))
    for name in ("a.mat", "b.mat"):
        assert open_norb(find_norb(tmp_path, name), "int32", (None,)).read().tolist() == [0, 1, 2, 3]
    with pytest.raises(DataError, match=r"there is no file c\.mat or c\.mat\.gz in "):
        find_norb(tmp_path, "c.mat")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", r"is cut short inside its header"),
        (b"\x55\x4c\x3d", "is cut short inside its header"),
        (norb_bytes(np.arange(4, dtype=np.int32))[:12], "is cut short inside its header"),
        (norb_bytes(np.arange(4, dtype=np.int32))[:-1], "is cut short: it declares 36 bytes and lacks 1"),
        (norb_bytes(np.arange(4, dtype=np.int32)) + b"\0", "holds more than the 36 bytes that it declares"),
        (gzip.compress(norb_bytes(np.arange(4, dtype=np.int32)), mtime=0)[:-9], "is damaged or cut short"),
        (b"\x1e\x3d\x4c\x54" + bytes(20), "is no matrix of NORB: it begins with 1e 3d 4c 54"),
        (struct.pack("<II", 0x1E3D4C54, 900), "its header names 900 dimensions"),
        (struct.pack("<II", 0x1E3D4C54, 0), "its header names 0 dimensions"),
        (norb_bytes(np.zeros((2, 2), np.int32)), r"holds int32 values of 2 x 2, and int32 of any are expected"),
        (norb_bytes(np.zeros(4, np.uint8)), "holds uint8 values of 4, and int32 of any are expected"),
        (struct.pack("<II3I", 0x1E3D4C54, 1, 1 << 31, 1, 1), "takes 8,589,934,592 bytes of memory, more than the"),
        (b"PK\x03\x04" + bytes(100), "is not a matrix of NORB: it is a file of zip"),
        (b"<!DOCTYPE html><html>", "is not a matrix of NORB: it is a web page"),
        (b"\x80\x04\x95" + bytes(8) + b"}", "is not a matrix of NORB: it is a pickle"),
    ],
)
def test_what_is_none_is_refused_in_one_sentence(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "a.mat"
    path.write_bytes(data)
    with pytest.raises(DataError, match=words) as error:
        open_norb(path, "int32", (None,)).read()
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


def test_damage_in_the_middle_of_a_packed_file_is_met_when_its_rows_are(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (50, 2, 6, 6), dtype=np.uint8)
    data = bytearray(gzip.compress(norb_bytes(values), mtime=0))
    data[len(data) // 2] ^= 255
    path = tmp_path / "a.mat.gz"
    path.write_bytes(bytes(data))
    rows = open_norb(path, "uint8", (None, 2, 6, 6)).rows()
    for _ in range(2):  # it does not pass on the second try
        with pytest.raises(DataError, match="is damaged or cut short"):
            rows(np.array([49]))
