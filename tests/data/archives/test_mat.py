"""MATLAB 5 files: what SciPy writes is read back, and no byte of a damaged file leads further than to one sentence."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from crosswind.core.errors import DataError
from crosswind.data.archives.mat import NUMBERS, mat_variables

KINDS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]


def saved(path: Path, packed: bool = True, **content: Any) -> Path:
    scipy.io.savemat(path, content, format="5", do_compression=packed)
    return path


@pytest.mark.parametrize("packed", [True, False])
def test_every_type_of_number_is_read_as_scipy_reads_it(tmp_path: Path, packed: bool) -> None:
    content = {}
    for kind in KINDS:
        info = np.iinfo(kind) if np.dtype(kind).kind in "iu" else np.finfo(kind)
        content[kind] = np.array([[info.min, 0, 1], [2, 3, info.max]], dtype=kind)
        content[f"{kind}_4d"] = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5).astype(kind)
        content[f"{kind}_one"] = np.array([[7]], dtype=kind)  # two or four bytes stand in the tag itself
    content["nothing"] = np.zeros((0, 0))
    path = saved(tmp_path / "file.mat", packed, **content)
    found, known = mat_variables(path), scipy.io.loadmat(path)
    assert len(KINDS) == len(NUMBERS) == 10 and set(found) == set(content)
    for name, values in content.items():
        assert found[name].shape == values.shape == known[name].shape
        read = found[name].read()
        assert np.array_equal(read, values) and np.array_equal(read, known[name]) and read.dtype.isnative
    assert found["uint8"].kind == "uint8" and found["float64"].kind == "double" and found["float32"].kind == "single"


def big_endian() -> bytes:
    flags = struct.pack(">IIII", 6, 8, 6, 0)
    sizes = struct.pack(">IIii", 5, 8, 2, 2)
    name = struct.pack(">I4s", 1 << 16 | 1, b"A\0\0\0")  # one letter, in the short form
    numbers = struct.pack(">I4B", 4 << 16 | 2, 1, 3, 2, 4)
    body = flags + sizes + name + numbers
    return b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack(">H2s", 0x0100, b"MI") + struct.pack(">II", 14, len(body)) + body


def test_big_endian_files_and_small_storage(tmp_path: Path) -> None:
    """[1 2; 3 4] of class double as a big-endian MATLAB writes it: whole numbers are stored as bytes, by columns."""
    path = tmp_path / "file.mat"
    path.write_bytes(big_endian())
    found = mat_variables(path)["A"]
    assert found.kind == "double" and found.shape == (2, 2)
    assert found.read().tolist() == [[1, 2], [3, 4]] == scipy.io.loadmat(path)["A"].tolist()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.array([["a", "b"]], dtype=object), "cell"),
        ({"field": 1}, "struct"),
        ("words", "char"),
        (np.array([[1 + 2j]]), "double"),
        (scipy.sparse.eye(3), "sparse"),
    ],
)
def test_what_holds_no_real_numbers_is_told_by_its_kind(tmp_path: Path, value: Any, kind: str) -> None:
    found = mat_variables(saved(tmp_path / "file.mat", x=value, y=np.arange(3.0)))
    assert found["x"].kind == kind and found["y"].read().tolist() == [[0, 1, 2]]
    with pytest.raises(DataError, match=f"holds {kind} values in x, and real numbers are expected"):
        found["x"].read()


@pytest.mark.parametrize("packed", [True, False])
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, packed: bool) -> None:
    draw = np.random.default_rng(0)
    whole = saved(
        tmp_path / "whole.mat", packed, X=draw.integers(0, 256, (3, 4, 2), dtype=np.uint8), y=np.array([[3], [4]])
    ).read_bytes()
    path = tmp_path / "cut.mat"
    first = 128 + 8 + int.from_bytes(whole[132:136], "little")  # here the file is one of fewer variables
    for end in (end for end in range(len(whole)) if end not in (128, first)):
        path.write_bytes(whole[:end])
        with pytest.raises(DataError, match="is truncated|is no MATLAB 5 file") as caught:
            [variable.read() for variable in mat_variables(path).values()]
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert first < len(whole) and len(whole) > 250


@pytest.mark.parametrize("packed", [True, False])
def test_a_file_damaged_anywhere_is_refused_or_read(tmp_path: Path, packed: bool) -> None:
    """Every byte made another, two ways: SciPy's reader ends the process at some of them."""
    draw = np.random.default_rng(0)
    path = saved(tmp_path / "file.mat", packed, X=draw.integers(0, 256, (3, 4, 2), dtype=np.uint8), y=np.array([[3.0], [4.0]]))
    whole = path.read_bytes()
    refused = 0
    for place in range(124, len(whole)):
        for change in (0x01, 0xFF):
            data = bytearray(whole)
            data[place] ^= change
            path.write_bytes(data)
            try:
                for variable in mat_variables(path).values():
                    variable.read()
            except DataError as error:
                assert "\n" not in str(error)
                refused += 1
    total = 2 * (len(whole) - 124)
    assert refused > (0.95 if packed else 0.25) * total  # pixels that are not packed have no checksum


def matrix(length: int, shape: tuple[int, ...], numbers: bytes) -> bytes:
    """The body of a uint8 variable x that says that it has `length` bytes."""
    sizes = struct.pack(f"<II{len(shape)}i", 5, 4 * len(shape), *shape) + bytes(4 * (len(shape) % 2))
    body = struct.pack("<IIII", 6, 8, 9, 0) + sizes + struct.pack("<I4s", 1 << 16 | 1, b"x\0\0\0")
    return struct.pack("<II", 14, 0) + body + struct.pack("<II", 2, length) + numbers


def packed_file(path: Path, content: bytes) -> Path:
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H2s", 0x0100, b"IM")
    stream = zlib.compress(content, 9)
    path.write_bytes(head + struct.pack("<II", 15, len(stream)) + stream)
    return path


def test_promises_take_no_memory(tmp_path: Path) -> None:
    """2 GB promised and nothing there; 16 MB of zeros behind six numbers; dimensions beyond all bounds; lengths that do not fit."""
    path = tmp_path / "file.mat"
    assert mat_variables(packed_file(path, matrix(6, (2, 3), bytes(8))))["x"].read().shape == (2, 3)
    for content, said in [
        (matrix(2_000_000_000, (20_000, 100_000), b""), "is truncated: a variable ends in the middle"),
        (matrix(6, (2, 3), bytes(16 << 20)), "is corrupted: x goes on after its last value"),
        (matrix(6, (1 << 30, 1 << 30), bytes(8)), "promises 1,073,741,824 x 1,073,741,824 values, more than 4,294,967,296"),
        (matrix(6, (2, 4), bytes(8)), "is corrupted: x has 6 bytes for 2 x 4 values of 1"),
        (matrix(6, (-2, -3), bytes(8)), "is corrupted: a variable has no dimensions"),
        (matrix(6, (6,), bytes(8)), "is corrupted: a variable has no dimensions"),
        (matrix(6, (1,) * 40, bytes(8)), "is corrupted: a field of a variable's header has 160 bytes, more than 128"),
    ]:
        packed_file(path, content)
        del content
        tracemalloc.start()
        with pytest.raises(DataError) as caught:
            mat_variables(path)["x"].read()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert said in str(caught.value) and str(path) in str(caught.value)
        assert peak < 8 << 20


def test_a_stream_without_its_checksum_and_a_short_form_that_is_long_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.mat"
    whole = packed_file(path, matrix(6, (2, 3), bytes(8))).read_bytes()
    length = int.from_bytes(whole[132:136], "little")
    path.write_bytes(whole[:132] + struct.pack("<I", length - 4) + whole[136:-4])
    with pytest.raises(DataError, match="is truncated: x ends before its checksum"):
        mat_variables(path)["x"].read()
    content = matrix(6, (2, 3), bytes(8)).replace(struct.pack("<I", 1 << 16 | 1), struct.pack("<I", 7 << 16 | 1))
    with pytest.raises(DataError, match="is corrupted: a field in short form has more than four bytes"):
        mat_variables(packed_file(path, content))


def test_what_is_no_matlab_5_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.mat"
    with pytest.raises(DataError, match="there is no file file.mat in"):
        mat_variables(path)
    old = io.BytesIO()
    scipy.io.savemat(old, {"x": np.arange(300.0)}, format="4")
    for content, said in [
        (b"", "is no MATLAB 5 file, or is truncated in its header"),
        (old.getvalue(), "is no MATLAB 5 file"),
        (b"MATLAB 7.3 MAT-file, Platform".ljust(600), r"is a MATLAB 7\.3 \(HDF5\) file"),
        (b"\x89HDF\r\n\x1a\n".ljust(600), r"is a MATLAB 7\.3 \(HDF5\) file"),
        (big_endian()[:128] + struct.pack(">II", 9, 8) + bytes(8), "is corrupted: an element of type 9 stands where a variable"),
    ]:
        path.write_bytes(content)
        with pytest.raises(DataError, match=said):
            mat_variables(path)
