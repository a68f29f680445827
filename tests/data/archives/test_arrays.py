"""Arrays in files of others: the layouts byte by byte, what is expected, and what hostile and
damaged files end in."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from tests.data.digit_files import CODES, idx_bytes
from tests.data.factor_files import norb_bytes, write_hdf5
from tests.data.spoiled import refused, refused_or_the_same

from crosswind.data.archives import arrays, checks
from crosswind.data.archives.arrays import (
    IDX,
    Expected,
    StreamedRows,
    hdf5_rows,
    mat_shapes,
    npz_rows,
    open_matrix,
    read_array,
    read_arrays,
    read_mat,
    sums_of,
    whole_hdf5,
    whole_mat,
)
from crosswind.data.archives.checks import tried

IMAGES = np.random.default_rng(0).integers(0, 4, (700, 8, 8, 3), dtype=np.uint8)
LABELS = np.arange(700) % 10
WANTED = Expected("uint8", (None, 8, 8, 3))
PACKED = {"deflated": zipfile.ZIP_DEFLATED, "stored": zipfile.ZIP_STORED, "lzma": zipfile.ZIP_LZMA}


class PickledTrap:
    def __reduce__(self) -> tuple[object, ...]:
        return (pytest.fail, ("something was unpickled",))


def write(path: Path, packed: str = "deflated", **members: Any) -> Path:
    with zipfile.ZipFile(path, "w", PACKED[packed]) as archive:
        for key, value in members.items():
            file = io.BytesIO()
            if not isinstance(value, bytes):
                np.lib.format.write_array(file, value)
            archive.writestr(f"{key}.npy", value if isinstance(value, bytes) else file.getvalue())
    return path


def both(path: Path, words: str, key: str = "images", expected: Expected = WANTED) -> None:
    refused(path, words, lambda path: read_arrays(path, {key: expected}))
    refused(path, words, lambda path: npz_rows(path, key, expected).all())


@pytest.mark.parametrize("packed", PACKED)
def test_arrays_of_an_archive_are_read_whole_and_by_rows(
    packed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = np.array([PickledTrap()], dtype=object).dumps()
    archive = write(tmp_path / "a.npz", packed, images=IMAGES, labels=LABELS, metadata=trap)
    assert tuple(sums_of(archive)) == ("images", "labels", "metadata")
    arrays_read = read_arrays(archive, {"images": WANTED, "labels": Expected("integers", (700,))})
    assert np.array_equal(arrays_read["images"], IMAGES) and np.array_equal(
        arrays_read["labels"], LABELS
    )
    monkeypatch.setattr(arrays, "BLOCK", 192 * 33)
    rows = npz_rows(archive, "images", WANTED)
    assert rows.block == 33 and rows.shape == IMAGES.shape
    for wanted_rows in (np.arange(700), np.array([699, 0, 13, 13]), np.array([], dtype=np.int64)):
        assert np.array_equal(rows(wanted_rows), IMAGES[wanted_rows])


def test_an_npy_file_is_read_like_a_member(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    for values in (
        IMAGES,
        np.float32(3.5),
        np.empty((0, 8, 8, 3), np.uint8),
        np.array(["a", "bcd"]),
        np.asfortranarray(IMAGES[:, :, 0, 0]),
    ):
        np.save(path, values)
        assert np.array_equal(read_array(path), values) and read_array(path).dtype == values.dtype
    np.save(path, LABELS.astype(">i4"))
    assert read_array(path, Expected("int32")).dtype == np.int32 and np.array_equal(
        read_array(path), LABELS
    )
    assert npz_rows(write(tmp_path / "a.npz", images=IMAGES[:0]), "images", WANTED).all().shape == (
        0,
        8,
        8,
        3,
    )


def test_what_is_not_expected_is_refused(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.npz",
        images=IMAGES,
        wide=IMAGES.astype(np.float32),
        flat=IMAGES[..., 0],
        names=np.array(["a"]),
    )
    both(path, "has no 'pictures' but flat, images, names, wide", "pictures")
    both(path, "'wide' holds float32, not uint8", "wide")
    both(path, "'wide' holds float32, not integers", "wide", Expected("integers"))
    both(path, "'names' holds <U1, not numbers", "names", Expected("numbers"))
    both(path, r"'flat' has shape \(700, 8, 8\), not \(any, 8, 8, 3\)", "flat")
    both(
        path,
        r"'images' has shape \(700, 8, 8, 3\), not \(701, 8, 8, 3\)",
        "images",
        Expected("uint8", (701, 8, 8, 3)),
    )
    columns = write(tmp_path / "b.npz", images=np.asfortranarray(IMAGES), single=np.uint8(1))
    assert np.array_equal(read_arrays(columns, {"images": WANTED})["images"], IMAGES)
    refused(columns, "'images' is stored by columns", lambda path: npz_rows(path, "images", WANTED))
    refused(
        columns, "'single' is a single value", lambda path: npz_rows(path, "single", Expected())
    )
    words = "takes 134,400 bytes of memory, more than the 134,399 allowed"
    refused(path, words, lambda path: read_arrays(path, {"images": WANTED}, limit=134_399))
    np.save(tmp_path / "a.npy", IMAGES)
    refused(tmp_path / "a.npy", words, lambda path: read_array(path, limit=134_399))
    assert (
        sums_of(path)["images"]
        == sums_of(write(tmp_path / "c.npz", "stored", images=IMAGES))["images"]
    )


def test_objects_and_pickles_are_never_opened(tmp_path: Path) -> None:
    trap = np.array([PickledTrap()], dtype=object)
    path = tmp_path / "a.npz"
    np.savez(path, images=trap, labels=LABELS)
    both(path, "'images' holds objects, which only unpickling could read, not uint8")
    both(
        path,
        "'images' holds objects, which only unpickling could read, not numbers or text",
        expected=Expected(),
    )
    write(path, images=trap.dumps())
    both(path, "'images' is not a NumPy array")
    np.save(tmp_path / "a.npy", trap)
    refused(tmp_path / "a.npy", "holds objects", read_array)
    trap.dump(tmp_path / "b.npy")
    refused(tmp_path / "b.npy", "is not an array of NumPy's", read_array)
    np.save(tmp_path / "a.npy", np.zeros(3, dtype=[("a", object), ("b", int)]))
    refused(tmp_path / "a.npy", "holds objects", read_array)


def header(shape: str, kind: str = "|u1", version: bytes = b"\1\0", size: int = 118) -> bytes:
    text = (
        f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(
            size - 1
        )
        + b"\n"
    )
    return (
        b"\x93NUMPY" + version + len(text).to_bytes(2 if version == b"\1\0" else 4, "little") + text
    )


@pytest.mark.parametrize("version", [b"\1\0", b"\2\0"])
def test_headers_of_python_2_are_read_without_a_warning(tmp_path: Path, version: bytes) -> None:
    text = header("(700L, 8L, 8L, 3L)", version=version)
    (tmp_path / "a.npy").write_bytes(text + IMAGES.tobytes())
    assert np.array_equal(read_array(tmp_path / "a.npy", WANTED), IMAGES)
    assert np.array_equal(
        npz_rows(write(tmp_path / "b.npz", images=text + IMAGES.tobytes()), "images", WANTED).all(),
        IMAGES,
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"nothing", "is not a NumPy array"),
        (header("(2, 3)")[:60], "is not a NumPy array"),
        (header("(2, 3)") + bytes(5), r"its header says uint8 \(2, 3\), and 5 bytes follow"),
        (
            header("(1000000, 1000000, 1000000)") + bytes(5),
            "takes 1,000,000,000,000,000,000 bytes of memory",
        ),
        (header("(-2, -3)") + bytes(6), "its header says"),
        (header("2") + bytes(2), "is not a NumPy array"),
        (header("(" * 60 + "2" + ")" * 60, size=300) + bytes(2), "is not a NumPy array"),
        (header("(__import__('os').getpid(),)") + bytes(2), "is not a NumPy array"),
        (header("(2,)", kind="|V0") + bytes(2), "holds"),
        (header("(2,)", size=20_000) + bytes(2), "is not a NumPy array"),
    ],
)
def test_a_damaged_array_is_refused(data: bytes, words: str, tmp_path: Path) -> None:
    refused(
        write(tmp_path / "a.npz", images=data),
        words,
        lambda path: read_arrays(path, {"images": Expected()}),
    )
    if data.startswith(b"\x93NUMPY"):
        (tmp_path / "a.npy").write_bytes(data)
        refused(tmp_path / "a.npy", words, read_array)


def test_rows_of_a_large_member_take_the_memory_of_a_few_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """48 MB of an array by rows: a block is 4 MB, and no more than three of them are held at
    once."""
    monkeypatch.setattr(arrays, "WINDOW", 8 << 20)
    path = write(tmp_path / "a.npz", images=np.zeros((12_000, 4096), np.uint8))
    tracemalloc.start()
    rows = npz_rows(path, "images", Expected("uint8", (None, 4096)))
    assert (
        sum(len(rows(np.arange(start, start + 100))) for start in range(0, 12_000, 100)) == 12_000
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 24 << 20


@pytest.mark.parametrize("packed", PACKED)
def test_a_spoiled_archive_is_refused_or_read_as_it_was(packed: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", packed, images=IMAGES[:40], labels=LABELS)
    refused_or_the_same(
        path,
        lambda path: npz_rows(path, "images", WANTED).all(),
        lambda rows_read: np.array_equal(rows_read, IMAGES[:40]),
        35,  # type: ignore[arg-type]
    )
    for data, words in (
        (b"\x93NUMPY", "is not an npz archive: it is a file of npy"),
        (b"<html>", "it is a web page"),
    ):
        path.write_bytes(data)
        both(path, words)
    both(tmp_path / "none.npz", "there is no file")
    both(tmp_path, "cannot be read: it is a folder, not a file")


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("packed", [False, True])
def test_every_type_of_idx_is_read_in_the_order_of_this_machine(
    tmp_path: Path, kind: str, packed: bool
) -> None:
    assert sorted(CODES.values()) == sorted(IDX)
    info = np.iinfo(kind) if np.dtype(kind).kind in "iu" else np.finfo(kind)
    values = np.array([[info.min, 1, 2], [3, 4, info.max]], dtype=kind)
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(idx_bytes(values), 1) if packed else idx_bytes(values))
    matrix = open_matrix(path, Expected(kind, (None, 3)))
    assert matrix.shape == (2, 3) and np.array_equal(matrix.read(), values)
    assert matrix.read().dtype == values.dtype and matrix.read().dtype.isnative


def test_the_layouts_byte_by_byte(tmp_path: Path) -> None:
    """NORB's integers 1, 2, 258 in one dimension: type 54, 1, 3 x 1 x 1, then four bytes each,
    lowest first; and idx's 00000803."""
    path = tmp_path / "a.mat"
    for data, kind, shape, values in (
        (
            "544c3d1e 01000000 03000000 01000000 01000000 01000000 02000000 02010000",
            "int32",
            (None,),
            [1, 2, 258],
        ),
        (
            "554c3d1e 04000000 02000000 01000000 01000000 02000000 01020304",
            "uint8",
            (None, 1, 1, 2),
            [[[[1, 2]]], [[[3, 4]]]],
        ),
        (
            "544c3d1e 02000000 01000000 02000000 01000000 07000000 ffffffff",
            "int32",
            (None, 2),
            [[7, -1]],
        ),
        ("00000802 00000002 00000002 01020304", "uint8", (2, 2), [[1, 2], [3, 4]]),
    ):
        path.write_bytes(bytes.fromhex(data))
        assert open_matrix(path, Expected(kind, shape)).read().tolist() == values
    head = idx_bytes(np.zeros((60_000, 28, 28), np.uint8))[
        :16
    ]  # the first bytes of train-images-idx3-ubyte
    assert head == bytes.fromhex("00000803 0000ea60 0000001c 0000001c")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("layout", [idx_bytes, norb_bytes])
def test_rows_of_a_matrix_are_those_of_the_whole(
    tmp_path: Path,
    packed: bool,
    layout: Callable[[np.ndarray], bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.random.default_rng(0).integers(0, 256, (50, 2, 6, 6), dtype=np.uint8)
    path = (
        tmp_path / "a.mat.gz"
    )  # by its bytes and not by its name: browsers unpack a file and leave it its name
    path.write_bytes(gzip.compress(layout(values), mtime=0) if packed else layout(values))
    monkeypatch.setattr(arrays, "BLOCK", 72 * 7)
    matrix = open_matrix(path, Expected("uint8", (None, 2, 6, 6)))
    assert np.array_equal(matrix.read(), values) and np.array_equal(
        matrix.rows()(np.arange(50)[::-1]), values[::-1]
    )
    if packed:
        refused_or_the_same(
            path,
            lambda path: open_matrix(path, Expected("uint8", (None, 2, 6, 6))).rows().all(),
            lambda rows_read: np.array_equal(rows_read, values),  # type: ignore[arg-type]
            35,
        )


FOUR = norb_bytes(np.arange(4, dtype=np.int32))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is cut short: it begins with nothing"),
        (FOUR[:3], "is no matrix of MNIST or NORB, or is cut short"),
        (FOUR[:12], "in its header, is damaged or cut short"),
        (FOUR[:-1], "is cut short: 1 bytes of its values are missing"),
        (FOUR + b"\0", "goes on after its last value"),
        (gzip.compress(FOUR, mtime=0)[:-9], "is damaged or cut short"),
        (gzip.compress(FOUR, mtime=0) + b"more", "is damaged or cut short"),
        (b"\x1e\x3d\x4c\x54" + bytes(20), "it begins with 1e 3d 4c 54"),
        (b"\0\0\x0a\x01" + bytes(9), "it begins with 00 00 0a 01"),
        (struct.pack("<II", 0x1E3D4C54, 900), "its header names 900 dimensions"),
        (norb_bytes(np.zeros((2, 2), np.int32)), r"has shape \(2, 2\), not \(any\)"),
        (norb_bytes(np.zeros(4, np.uint8)), "holds uint8, not int32"),
        (
            struct.pack("<II3I", 0x1E3D4C54, 1, 1 << 31, 1, 1),
            "takes 8,589,934,592 bytes of memory, more than the",
        ),
        (b"<!DOCTYPE html><html>", "it is a web page"),
        (pickle.dumps({}), "is no matrix of MNIST or NORB"),
    ],
)
def test_what_is_no_matrix_is_refused_in_one_sentence(
    tmp_path: Path, data: bytes, words: str
) -> None:
    path = tmp_path / "a.mat"
    path.write_bytes(data)
    refused(path, words, lambda path: open_matrix(path, Expected("int32", (None,))).read())


def test_a_gzip_of_zeros_behind_a_short_matrix_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with gzip.open(path, "wb", 1) as file:
        file.write(idx_bytes(np.zeros((5, 3, 4), np.uint8)))
        for _ in range(64):
            file.write(bytes(1 << 20))
    tracemalloc.start()
    refused(
        path,
        "goes on after its last value",
        lambda path: open_matrix(path, Expected("uint8", (None, 3, 4))).read(),
    )
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("chunks", [True, (50, 2, 4, 1), (1, 8, 8, 3), None])
def test_rows_of_hdf5_are_those_of_the_whole_however_they_are_packed(
    tmp_path: Path, chunks: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    packing = {"compression": None, "compression_opts": None} if chunks is None else {}
    path = write_hdf5(
        tmp_path / "a.h5",
        {"images": IMAGES[:90], "labels": np.arange(6.0).astype(">f8")},
        **packing,
    )
    path = write_hdf5(tmp_path / "b.h5", {"images": IMAGES[:90]}, chunks=chunks, **packing)
    monkeypatch.setattr(arrays, "BLOCK", 20 * 192)
    rows = hdf5_rows(path, "images", WANTED)
    assert rows.block == {True: rows.block, (50, 2, 4, 1): 50}.get(chunks, 20)  # type: ignore[call-overload]
    for wanted_rows in (np.arange(90), np.array([89, 0, 47, 47]), np.array([], dtype=np.int64)):
        assert np.array_equal(rows(wanted_rows), IMAGES[wanted_rows])
    labels = hdf5_rows(tmp_path / "a.h5", "labels", Expected("floats", (None,))).all()
    assert labels.dtype.isnative and labels.tolist() == [0, 1, 2, 3, 4, 5]


def test_nothing_outside_an_hdf5_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    h5py = pytest.importorskip("h5py")
    path = write_hdf5(tmp_path / "a.h5", {"images": IMAGES[:90], "labels": np.zeros((90, 6))})
    with h5py.File(path, "a") as file:
        file.create_dataset("words", data=["a", "b"], dtype=h5py.string_dtype())
        file.create_dataset("single", data=1.0)
        file.create_group("group")
        file["soft"] = h5py.SoftLink("/images")
        file["away"] = h5py.ExternalLink("/etc/passwd", "/images")
        file.create_dataset(
            "outside", (90, 8, 8, 3), "u1", external=[(str(tmp_path / "raw"), 0, 90 * 192)]
        )
        layout = h5py.VirtualLayout((90, 8, 8, 3), "u1")
        layout[:] = h5py.VirtualSource(str(path), "images", (90, 8, 8, 3))
        file.create_virtual_dataset("virtual", layout)
    refused(path, "has no 'other' but ", lambda path: hdf5_rows(path, "other", WANTED))
    refused(
        path, "'labels' holds float64, not uint8", lambda path: hdf5_rows(path, "labels", WANTED)
    )
    refused(
        path,
        "'words' holds objects, which only unpickling could read",
        lambda path: hdf5_rows(path, "words", WANTED),
    )
    refused(
        path,
        r"not \(any, 9, 8, 3\)",
        lambda path: hdf5_rows(path, "images", Expected("uint8", (None, 9, 8, 3))),
    )
    for key in ("single", "group", "soft", "away", "outside", "virtual"):
        words = f"{key!r} is no data set with rows in this file; links to others are not followed"
        refused(path, words, lambda path, key=key: hdf5_rows(path, key, WANTED))
    monkeypatch.setitem(sys.modules, "h5py", None)
    refused(
        path,
        r"needs the extra: pip install 'crosswind\[hdf5\]'",
        lambda path: hdf5_rows(path, "images", WANTED),
    )


def test_damage_in_hdf5_is_one_sentence(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = write_hdf5(tmp_path / "a.h5", {"images": IMAGES[:90]}, chunks=(10, 8, 8, 3))
    file_bytes = path.read_bytes()
    with h5py.File(path) as file:
        chunk_offset = file["images"].id.get_chunk_info(4).byte_offset
    path.write_bytes(file_bytes[: len(file_bytes) // 2])
    refused(path, "is damaged or cut short", lambda path: hdf5_rows(path, "images", WANTED))
    path.write_bytes(file_bytes[:chunk_offset] + bytes(40) + file_bytes[chunk_offset + 40 :])
    refused(
        path,
        r"'images', in rows \d+ to \d+, ",
        lambda path: hdf5_rows(path, "images", WANTED).all(),
    )
    refused(path, r"'images', in rows \d+ to \d+, ", lambda path: tried(whole_hdf5, path))
    for data, words in (
        (b"<html>", "a web page"),
        (b"", "cut short at its beginning"),
        (b"PK\x03\x04", "a file of zip"),
    ):
        path.write_bytes(data)
        refused(
            path,
            f"is not an HDF5 file: it is {words}",
            lambda path: hdf5_rows(path, "images", WANTED),
        )


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_matlabs_numbers_are_read_and_a_spoiled_file_is_refused(
    tmp_path: Path, packed: bool
) -> None:
    path = tmp_path / "a.mat"
    matrices = {"X": IMAGES[:5].transpose(1, 2, 3, 0), "y": np.arange(5.0)[:, None]}
    scipy.io.savemat(
        path,
        {**matrices, "words": np.array(["a"]), "mixed": np.array([1, "a"], dtype=object)},
        do_compression=packed,
    )
    assert mat_shapes(path)["X"] == ((8, 8, 3, 5), "uint8") and mat_shapes(path)["y"] == (
        (5, 1),
        "double",
    )
    for name, values in matrices.items():
        assert np.array_equal(read_mat(path, name), values)
    refused(path, "holds no real numbers in mixed", lambda path: read_mat(path, "mixed"))
    scipy.io.savemat(path, matrices, do_compression=packed)
    tried(whole_mat, path)
    if packed:
        refused_or_the_same(
            path,
            lambda path: read_mat(path, "X"),
            lambda matrix_read: np.array_equal(matrix_read, matrices["X"]),
            20,
        )  # type: ignore[arg-type]


def kill(path: Path) -> None:
    """A reader in C at a damaged file."""
    import os

    os.kill(os.getpid(), 11)


def gluttony(path: Path) -> None:
    """A reader that believes a damaged header."""
    bytearray(16 << 30)


def endless(path: Path) -> None:
    while True:
        pass


def asleep(path: Path) -> None:
    """A reader that waits for a thread which got no memory."""
    import threading

    threading.Event().wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reader", "words"),
    [
        (kill, r"ended a process of 8,192 MB of memory \(signal 11\)"),
        (gluttony, r"ended a process of 8,192 MB of memory \(MemoryError\)"),
        (endless, "does not end"),
        (asleep, r"ended a process of 8,192 MB of memory \(it stood still\)"),
    ],
)
def test_a_reader_that_dies_is_one_sentence(
    tmp_path: Path, reader: Callable[[Path], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "STILL_SECONDS", 5.0)
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    refused(
        tmp_path / "a.h5",
        words,
        lambda path: tried(reader, path, seconds=3 if reader is endless else 60),
    )


VALUES = np.random.default_rng(0).integers(0, 256, (103, 3, 2), dtype=np.uint8)


class CountedBlocks:
    """Gives `VALUES` in blocks, and counts what was read; fails once at block `fails`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kept_blocks: int, fails: int = -1) -> None:
        monkeypatch.setattr(arrays, "BLOCK", 60)
        monkeypatch.setattr(arrays, "WINDOW", kept_blocks * 60)
        self.begun, self.read, self.fails = 0, [], fails
        self.rows = StreamedRows(self.blocks, VALUES.shape, VALUES.dtype)

    def blocks(self, count: int) -> Iterator[np.ndarray]:
        self.begun += 1
        for start in range(0, len(VALUES), count):
            if start // count == self.fails:
                self.fails = -1
                raise OSError("gone")
            self.read.append(start // count)
            yield VALUES[start : start + count]


def test_rows_about_in_order_are_read_once_by_several_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted, row_ranges = (
        CountedBlocks(monkeypatch, 4),
        [np.arange(start, min(start + 7, 103)) for start in range(0, 103, 7)],
    )
    for mapped in (map, ThreadPoolExecutor(4).map):
        assert np.array_equal(np.concatenate(list(mapped(counted.rows, row_ranges))), VALUES)
        assert counted.begun > 1 or counted.read == list(range(11))
    counted = CountedBlocks(monkeypatch, 3)
    for start in (20, 0, 30, 10, 40, 60, 50, 100, 90, 80):
        wanted_rows = np.arange(start, min(start + 10, 103))
        assert np.array_equal(counted.rows(wanted_rows), VALUES[wanted_rows])
    assert counted.begun == 1
    assert np.array_equal(
        counted.rows(np.array([5, 102])), VALUES[[5, 102]]
    )  # gone: the stream begins again
    assert counted.begun == 2 and len(counted.rows._held) == 3


def test_a_stream_that_failed_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = CountedBlocks(monkeypatch, 20, fails=3)
    with pytest.raises(OSError, match="gone"):
        counted.rows(np.array([50]))
    assert np.array_equal(counted.rows(np.arange(103)), VALUES)
