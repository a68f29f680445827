"""Arrays of others: whole, by rows and mapped, never as objects, and compared with what is expected."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crosswind.core.errors import DataError
from crosswind.data.archives.npz import Expected, header_of, keys_of, read_array, read_arrays, rows_mapped, rows_of_member, sums_of
from crosswind.data.archives.spool import temporary_file

IMAGES = np.random.default_rng(0).integers(0, 4, (700, 8, 8, 3), dtype=np.uint8)
LABELS = np.arange(700) % 10
WANTED = Expected("uint8", (None, 8, 8, 3))
PACKED = {"deflated": zipfile.ZIP_DEFLATED, "stored": zipfile.ZIP_STORED, "lzma": zipfile.ZIP_LZMA}


def npy(array: np.ndarray, **how: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **how)
    return file.getvalue()


def write(path: Path, packed: str = "deflated", **members: Any) -> Path:
    with zipfile.ZipFile(path, "w", PACKED[packed]) as archive:
        for key, value in members.items():
            archive.writestr(f"{key}.npy", value if isinstance(value, bytes) else npy(value))
    return path


@pytest.fixture(params=list(PACKED))
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write(tmp_path / "a.npz", request.param, images=IMAGES, labels=LABELS, metadata=np.array([{}], dtype=object).dumps())


def refused(path: Path, words: str, key: str = "images", expected: Expected = WANTED) -> None:
    for way in (
        lambda: read_arrays(path, {key: expected}),
        lambda: list(rows_of_member(path, key, expected)),
        lambda: rows_mapped(path, key, expected),
    ):
        with pytest.raises(DataError, match=words) as caught:
            way()
        assert str(path) in str(caught.value)


def test_arrays_are_read_whole_by_rows_and_mapped(archive: Path, tmp_path: Path) -> None:
    assert keys_of(archive) == ("images", "labels", "metadata")
    assert header_of(archive, "images").shape == IMAGES.shape and header_of(archive, "images").row == 192
    found = read_arrays(archive, {"images": WANTED, "labels": Expected("integers", (700,))})
    assert np.array_equal(found["images"], IMAGES) and np.array_equal(found["labels"], LABELS)
    for block in (1, 699, 700, 701, 0):
        parts = list(rows_of_member(archive, "images", WANTED, block))
        assert np.array_equal(np.concatenate(parts), IMAGES)
        assert {len(part) for part in parts[:-1]} <= {block}
    told: list[tuple[int, int]] = []
    mapped = rows_mapped(archive, "images", WANTED, tmp_path, lambda done, whole: told.append((done, whole)))
    assert isinstance(mapped, np.memmap) and np.array_equal(mapped, IMAGES) and told[-1] == (IMAGES.nbytes, IMAGES.nbytes)
    with pytest.raises(ValueError, match="read-only"):
        mapped[0] = 0
    assert [place.name for place in tmp_path.iterdir()] == ["a.npz"]


def test_an_npy_file_is_read_like_a_member(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, IMAGES)
    assert np.array_equal(read_array(path, WANTED), IMAGES)
    assert np.array_equal(np.concatenate(list(rows_of_member(path, None, WANTED, 33))), IMAGES)
    assert np.array_equal(rows_mapped(path, None, WANTED), IMAGES)
    for values in (
        np.float32(3.5),
        np.empty((0, 8, 8, 3), np.uint8),
        np.array(["a", "bcd"]),
        np.asfortranarray(IMAGES[:, :, 0, 0]),
    ):
        np.save(path, values)
        assert np.array_equal(read_array(path), values) and read_array(path).dtype == values.dtype
    np.save(path, LABELS.astype(">i4"))
    assert read_array(path, Expected("int32")).dtype == np.int32 and np.array_equal(read_array(path), LABELS)
    assert np.array_equal(rows_mapped(path, None, Expected("int32")), LABELS)


def test_no_rows_are_an_array_of_none(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", images=IMAGES[:0])
    assert list(rows_of_member(path, "images", WANTED)) == []
    assert rows_mapped(path, "images", WANTED).shape == (0, 8, 8, 3)


def test_what_is_not_expected_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", images=IMAGES, wide=IMAGES.astype(np.float32), flat=IMAGES[..., 0], names=np.array(["a"]))
    refused(path, "has no 'pictures' but flat, images, names, wide", "pictures")
    refused(path, "'wide' holds float32, not uint8", "wide")
    refused(path, "'wide' holds float32, not integers", "wide", Expected("integers"))
    refused(path, "'names' holds <U1, not numbers", "names", Expected("numbers"))
    refused(path, r"'flat' has shape \(700, 8, 8\), not \(any, 8, 8, 3\)", "flat")
    refused(path, r"'images' has shape \(700, 8, 8, 3\), not \(701, 8, 8, 3\)", "images", Expected("uint8", (701, 8, 8, 3)))
    columns = write(tmp_path / "b.npz", images=np.asfortranarray(IMAGES), single=np.uint8(1))
    assert np.array_equal(read_arrays(columns, {"images": WANTED})["images"], IMAGES)
    with pytest.raises(DataError, match="'images' is stored by columns and cannot be read by rows"):
        rows_mapped(columns, "images", WANTED)
    with pytest.raises(DataError, match="'single' is a single value"):
        list(rows_of_member(columns, "single", Expected()))


class Trap:
    def __reduce__(self) -> tuple[object, ...]:
        return (pytest.fail, ("something was unpickled",))


def test_objects_and_pickles_are_never_opened(tmp_path: Path) -> None:
    trap = np.array([Trap()], dtype=object)
    path = tmp_path / "a.npz"
    np.savez(path, images=trap, labels=LABELS)
    refused(path, "'images' holds objects, which only unpickling could read, not uint8")
    refused(path, "'images' holds objects, which only unpickling could read, not numbers or text", expected=Expected())
    assert np.array_equal(read_arrays(path, {"labels": Expected("integers")})["labels"], LABELS)
    write(path, images=trap.dumps())
    refused(path, "'images' is a pickle, whatever its name says")
    np.save(tmp_path / "a.npy", trap)
    with pytest.raises(DataError, match="a.npy holds objects"):
        read_array(tmp_path / "a.npy")
    trap.dump(tmp_path / "b.npy")
    with pytest.raises(DataError, match="b.npy is not an array of NumPy's: it is a pickle"):
        read_array(tmp_path / "b.npy")
    fields = np.zeros(3, dtype=[("a", object), ("b", int)])
    np.save(tmp_path / "a.npy", fields)
    with pytest.raises(DataError, match="a.npy holds objects"):
        read_array(tmp_path / "a.npy")


def header(shape: str, kind: str = "|u1", version: bytes = b"\1\0", size: int = 118) -> bytes:
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(size - 1) + b"\n"
    return b"\x93NUMPY" + version + len(text).to_bytes(2 if version == b"\1\0" else 4, "little") + text


@pytest.mark.parametrize("version", [b"\1\0", b"\2\0"])
def test_headers_of_python_2_are_read_without_a_warning(tmp_path: Path, version: bytes) -> None:
    text = header("(700L, 8L, 8L, 3L)", version=version)
    (tmp_path / "a.npy").write_bytes(text + IMAGES.tobytes())
    assert np.array_equal(read_array(tmp_path / "a.npy", WANTED), IMAGES)
    assert np.array_equal(rows_mapped(tmp_path / "a.npy", None, WANTED), IMAGES)
    path = write(tmp_path / "b.npz", images=text + IMAGES.tobytes())
    assert np.array_equal(np.concatenate(list(rows_of_member(path, "images", WANTED, 100))), IMAGES)


@pytest.mark.parametrize(
    ("bytes_", "words"),
    [
        (b"nothing", "is not a NumPy array"),
        (b"", "is not a NumPy array"),
        (header("(2, 3)")[:60], "is not a NumPy array"),
        (header("(2, 3)", version=b"\3\0") + bytes(6), "of a version that is not read here"),
        (header("(2, 3)", version=b"\2\0") + bytes(7), r"damaged: its header says uint8 \(2, 3\), 6 bytes, and 7 follow"),
        (header("(2, 3)") + bytes(5), r"damaged: its header says uint8 \(2, 3\), 6 bytes, and 5 follow"),
        (header("(1000000, 1000000, 1000000)") + bytes(5), "1,000,000,000,000,000,000 bytes, and 5 follow"),
        (header("(-2, -3)") + bytes(6), "damaged: its header says"),
        (header("2") + bytes(2), "is not a NumPy array"),
        (header("(" * 60 + "2" + ")" * 60, size=300) + bytes(2), "is not a NumPy array"),
        (header("(__import__('os').getpid(),)") + bytes(2), "is not a NumPy array"),
        (header("(2,)", kind="|V0") + bytes(2), "holds"),
        (header("(2,)", kind="nonsense") + bytes(2), "is not a NumPy array"),
        (header("(2,)", size=20_000) + bytes(2), "is not a NumPy array"),
    ],
)
def test_a_damaged_array_is_refused(bytes_: bytes, words: str, tmp_path: Path) -> None:
    refused(write(tmp_path / "a.npz", images=bytes_), words, expected=Expected())
    if bytes_.startswith(b"\x93NUMPY"):
        (tmp_path / "a.npy").write_bytes(bytes_)
        with pytest.raises(DataError, match=words):
            read_array(tmp_path / "a.npy")


def test_more_memory_than_is_allowed_is_never_taken(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", images=IMAGES)
    with pytest.raises(DataError, match="takes 134,400 bytes of memory, more than the 134,399 allowed"):
        read_arrays(path, {"images": WANTED}, limit=134_399)
    np.save(tmp_path / "a.npy", IMAGES)
    with pytest.raises(DataError, match="takes 134,400 bytes of memory, more than the 134,399 allowed"):
        read_array(tmp_path / "a.npy", limit=134_399)


def test_rows_of_a_large_member_take_the_memory_of_a_block(tmp_path: Path) -> None:
    """48 MB of an array by rows: a block is 4 MB, and no more than three of them are held at once."""
    path = write(tmp_path / "a.npz", images=np.zeros((12_000, 4096), np.uint8))
    expected = Expected("uint8", (None, 4096))
    for way in (
        lambda: sum(len(part) for part in rows_of_member(path, "images", expected)),
        lambda: rows_mapped(path, "images", expected),
    ):
        tracemalloc.start()
        way()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 14 << 20


@pytest.mark.parametrize("packed", ["deflated", "lzma", "stored"])
def test_a_truncated_or_damaged_archive_is_refused(packed: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", packed, images=IMAGES, labels=LABELS)
    whole = path.read_bytes()
    for cut in (0, 3, 40, 1000, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        refused(path, "cut short|not a whole zip archive")
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        at = archive.getinfo("images.npy").header_offset
    for place in (500, 2000, 9000):
        path.write_bytes(whole[: at + place] + bytes(40) + whole[at + place + 40 :])
        refused(path, "'images'.* is damaged or cut short|'images'.* is not a NumPy array")


def test_other_files_are_named_for_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(npy(IMAGES))
    refused(path, "is not an npz archive: it is a file of npy")
    path.write_bytes(b"<html>not found</html>")
    refused(path, "is not an npz archive: it is a web page")
    write(tmp_path / "a.npy", images=IMAGES)
    with pytest.raises(DataError, match="is not an array of NumPy's: it is a file of zip"):
        read_array(tmp_path / "a.npy")
    refused(tmp_path / "none.npz", "there is no file")


def test_sums_change_with_the_bytes(tmp_path: Path) -> None:
    one = sums_of(write(tmp_path / "a.npz", images=IMAGES, labels=LABELS))
    other = sums_of(write(tmp_path / "b.npz", "stored", images=IMAGES, labels=LABELS + 1))
    assert one["images"] == other["images"] and one["labels"] != other["labels"] and len(one) == 2


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a.npz needs 1,152,921,504,606,846,976 bytes of disk to be unpacked"):
        temporary_file(tmp_path, 1 << 60, "a.npz")
    with temporary_file(tmp_path / "missing", 1, "a.npz") as file:  # the folder of temporary files is there
        file.write(b"1")
