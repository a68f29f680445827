"""The idx format: every type read back, and one sentence for each thing that can be wrong with a file."""

from __future__ import annotations

import gzip
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from tests.data.digit_files import CODES, MNIST_FILES, drawn_digits, idx_bytes, write_mnist

from crosswind.core.errors import DataError
from crosswind.data.archives.idx import TYPES, find_idx, idx_dataset, open_idx
from crosswind.data.attributes import Attribute

DIGIT = Attribute("digit", tuple("0123456789"))


def written(tmp_path: Path, data: bytes, packed: bool = False) -> Path:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    return path


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("packed", [False, True])
def test_every_type_is_read_in_the_order_of_this_machine(tmp_path: Path, kind: str, packed: bool) -> None:
    info = np.iinfo(kind) if np.dtype(kind).kind in "iu" else np.finfo(kind)
    values = np.array([[info.min, 1, 2], [3, 4, info.max]], dtype=kind)
    file = open_idx(written(tmp_path, idx_bytes(values), packed), kind, (None, 3))
    assert file.shape == (2, 3)
    assert np.array_equal(file.read(), values)
    assert file.read().dtype == values.dtype and file.read().dtype.isnative


def test_all_types_of_the_format_are_covered() -> None:
    assert sorted(CODES.values()) == sorted(TYPES) and len(TYPES) == 6


def test_header_is_that_of_the_published_files() -> None:
    """The first 16 bytes of train-images-idx3-ubyte: 00000803, 60,000, 28, 28."""
    head = idx_bytes(np.zeros((60_000, 28, 28), np.uint8))[:16]
    assert head == bytes.fromhex("00000803 0000ea60 0000001c 0000001c")


def bad_files() -> dict[str, tuple[bytes, str]]:
    good = idx_bytes(np.arange(60, dtype=np.uint8).reshape(5, 3, 4))
    packed = gzip.compress(good, mtime=0)
    return {
        "empty": (b"", "is truncated: it has 0 bytes"),
        "header cut": (good[:9], "is truncated: its header names 3 dimensions and ends before them"),
        "short": (good[:-7], r"is truncated: it has 53 of the 60 bytes"),
        "long": (good + b"\0", "goes on after the 60 bytes"),
        "magic": (b"\x01" + good[1:], "is no idx file: it begins with 01 00 08 03"),
        "type": (good[:2] + b"\x0a" + good[3:], "is no idx file: it begins with 00 00 0a 03"),
        "pickle": (pickle.dumps(np.zeros(3)), "is no idx file: it begins with 80 0"),
        "dimensions": (idx_bytes(np.zeros((5, 12), np.uint8)), "holds uint8 values of 5 x 12, and uint8 of any x 3 x 4"),
        "sides": (idx_bytes(np.zeros((5, 4, 3), np.uint8)), "holds uint8 values of 5 x 4 x 3, and uint8 of any x 3 x 4"),
        "values": (idx_bytes(np.zeros((5, 3, 4), np.int32)), "holds int32 values of 5 x 3 x 4, and uint8"),
        "none": (b"\0\0\x08\0" + b"\0", "holds uint8 values of no dimensions"),
        "gzip cut": (packed[:-9], "is truncated: its gzip stream ends"),
        "gzip damaged": (packed[:-6] + b"\0\1\2" + packed[-3:], "is corrupted"),
        "gzip of other things": (gzip.compress(b"words"), "is no idx file: it begins with 77 6f 72 64"),
        "gzip and more": (packed + b"more", "is corrupted"),
        "promises": (
            b"\0\0\x08\3" + (1 << 31).to_bytes(4, "big") + b"\0\0\0\3\0\0\0\4",
            "promises 25,769,803,776 bytes, more than",
        ),
    }


@pytest.mark.parametrize("name", bad_files())
def test_a_bad_file_is_one_sentence_that_names_it(tmp_path: Path, name: str) -> None:
    data, said = bad_files()[name]
    path = written(tmp_path, data)
    with pytest.raises(DataError, match=said) as caught:
        open_idx(path, "uint8", (None, 3, 4)).read()
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_of_nothing_that_promises_much_takes_no_memory(tmp_path: Path) -> None:
    """A header of 16 bytes for 3.9 GB, and a gzip of 64 MB of zeros behind a header for 60 bytes."""
    lying = b"\0\0\x08\3" + (5_000_000).to_bytes(4, "big") + (28).to_bytes(4, "big") * 2
    tracemalloc.start()
    with pytest.raises(DataError, match="is truncated: it has 0 of the 3,920,000,000 bytes"):
        open_idx(written(tmp_path, lying), "uint8", (None, 28, 28)).read()
    path = written(tmp_path, b"")
    with gzip.open(path, "wb", 1) as file:
        file.write(idx_bytes(np.zeros((5, 3, 4), np.uint8)))
        for _ in range(64):
            file.write(bytes(1 << 20))
    tracemalloc.reset_peak()
    with pytest.raises(DataError, match="goes on after the 60 bytes"):
        open_idx(path, "uint8", (None, 3, 4)).read()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_a_file_is_found_packed_or_not(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file a or a\.gz in "):
        find_idx(tmp_path, "a")
    (tmp_path / "a").mkdir()
    (tmp_path / "a.gz").write_bytes(b"")
    assert find_idx(tmp_path, "a") == tmp_path / "a.gz"


@pytest.mark.parametrize("packed", [False, True])
def test_four_files_are_one_data_set_in_their_order(tmp_path: Path, packed: bool) -> None:
    train, test = drawn_digits(23, 0), drawn_digits(11, 1)
    dataset, parts = idx_dataset(write_mnist(tmp_path, [train, test], packed), "x", DIGIT, 28)
    assert parts == {"train": 23, "test": 11}
    assert dataset.table.names == ("digit", "split")
    assert np.array_equal(dataset.table.column("digit"), np.concatenate([train[1], test[1]]))
    assert dataset.table.column("split").tolist() == [0] * 23 + [1] * 11
    rows = np.array([33, 0, 22, 23, 5, 33])
    assert np.array_equal(dataset.pixels(rows)[..., 0], np.concatenate([train[0], test[0]])[rows])
    assert dataset.pixels(np.array([], dtype=np.int64)).shape == (0, 28, 28, 1)


def test_files_that_do_not_agree_are_refused(tmp_path: Path) -> None:
    images, labels = drawn_digits(10, 0)
    write_mnist(tmp_path / "a", [(images, labels[:-1]), (images, labels)])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz holds 10 images and train-labels-idx1-ubyte\.gz 9 labels"):
        idx_dataset(tmp_path / "a", "x", DIGIT, 28)
    write_mnist(tmp_path / "b", [(images, labels), (images, labels + 1)])
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz, row 10 has label 10, and the classes are 0 to 9"):
        idx_dataset(tmp_path / "b", "x", DIGIT, 28)
    # A file under another's name.
    folder = write_mnist(tmp_path / "c", [(images, labels), (images, labels)])
    (folder / f"{MNIST_FILES[0]}.gz").replace(folder / f"{MNIST_FILES[1]}.gz")
    with pytest.raises(DataError, match=r"there is no file train-images-idx3-ubyte"):
        idx_dataset(folder, "x", DIGIT, 28)
    write_mnist(tmp_path / "d", [(images, labels), (images, labels)])
    (tmp_path / "d" / f"{MNIST_FILES[0]}.gz").replace(tmp_path / "d" / f"{MNIST_FILES[3]}.gz")
    (tmp_path / "d" / f"{MNIST_FILES[0]}.gz").write_bytes(idx_bytes(images))
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz holds uint8 values of 10 x 28 x 28, and uint8 of any are"):
        idx_dataset(tmp_path / "d", "x", DIGIT, 28)


def test_pictures_are_read_when_asked_for_and_damage_is_told_then(tmp_path: Path) -> None:
    images, labels = drawn_digits(10, 0)
    folder = write_mnist(tmp_path, [(images, labels), (images, labels)], packed=False)
    place = folder / MNIST_FILES[2]
    place.write_bytes(place.read_bytes()[:-1])
    dataset, _ = idx_dataset(folder, "x", DIGIT, 28)
    assert dataset.pixels(np.arange(10)).shape == (10, 28, 28, 1)
    with pytest.raises(DataError, match="t10k-images-idx3-ubyte is truncated: it has 7,839 of the 7,840 bytes"):
        dataset.pixels(np.array([10]))
