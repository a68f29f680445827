"""CIFAR-10: the binary version's records read as they are, from the archive and unpacked, and what
is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.data.cifar_files import (
    BATCHES,
    CLASSES,
    META,
    Part,
    binary_files,
    pictures,
    python_files,
    tar_gz,
    unpacked,
)
from tests.data.digit_files import real_data

from crosswind.core.errors import DataError
from crosswind.data.prepared import prepare
from crosswind.data.sources.base import open_source
from crosswind.data.sources.cifar import Cifar10

PARTS = [pictures(n, n) for n in (13, 10, 11, 10, 12, 17)]
ARCHIVE, FOLDER = "cifar-10-binary.tar.gz", "cifar-10-batches-bin"

Write = Callable[[Path, dict[str, bytes]], Path]


def packed(folder: Path, files: dict[str, bytes]) -> Path:
    return tar_gz(folder / ARCHIVE, files, FOLDER).parent


WAYS: dict[str, Write] = {
    "archive": packed,
    "folder": unpacked,
    "folder in a folder": lambda folder, files: unpacked(folder / FOLDER, files).parent,
}


@pytest.fixture(params=list(WAYS))
def write(request: pytest.FixtureRequest) -> Write:
    return WAYS[request.param]


def joined(parts: list[Part]) -> Part:
    images, labels = zip(*parts, strict=True)
    return np.concatenate(images), np.concatenate(labels)


def test_pictures_labels_and_parts_are_those_of_the_files(write: Write, tmp_path: Path) -> None:
    reading = Cifar10().read(write(tmp_path, binary_files(PARTS)))
    assert dict(reading.parts) == {"train": 56, "test": 17}
    data, (images, labels) = reading.dataset, joined(PARTS)
    assert [(item.name, item.values) for item in data.schema] == [
        ("class", tuple(CLASSES)),
        ("split", ("train", "test")),
    ]
    assert data.table.column("class").tolist() == labels.tolist()
    assert data.table.column("split").tolist() == [0] * 56 + [1] * 17
    assert np.array_equal(data.inputs(np.arange(73)), images)
    rows = np.array([72, 0, 56, 55, 12, 13])
    assert np.array_equal(data.inputs(rows), images[rows])
    assert sorted(path.name for path in tmp_path.iterdir()) in (
        [ARCHIVE],
        [FOLDER],
        sorted(binary_files(PARTS)),
    )


def test_a_record_by_hand(tmp_path: Path) -> None:
    """Label 6; red 10 in the first pixel, green 20 in the last, blue 30 in the second of the first
    row: bytes 1, 2048 and 2050."""
    record = bytearray(3073)
    record[0], record[1], record[2048], record[2050] = 6, 10, 20, 30
    files = {name: bytes(record) for name in BATCHES}
    data = Cifar10().read(unpacked(tmp_path, files)).dataset
    picture = data.inputs(np.array([0]))[0]
    assert (
        picture[0, 0].tolist() == [10, 0, 0]
        and picture[31, 31].tolist() == [0, 20, 0]
        and picture[0, 1].tolist() == [0, 0, 30]
    )
    assert (
        int(picture.sum()) == 60
        and data.table.attribute("class").values[data.table.column("class")[0]] == "frog"
    )


def changed(files: dict[str, bytes], name: str, data: bytes | None) -> dict[str, bytes]:
    return {key: value for key, value in files.items() if key != name} | (
        {} if data is None else {name: data}
    )


def test_wrong_files_are_refused_by_name(write: Write, tmp_path: Path) -> None:
    good = binary_files(PARTS)
    batch = good["data_batch_3.bin"]
    coarse = b"".join(
        b"\1" + batch[i : i + 3073] for i in range(0, len(batch), 3073)
    )  # CIFAR-100 has a label more
    bad = bytearray(batch)
    bad[3073 * 4] = 10
    wrong = [
        ("data_batch_3.bin", None, "no.* data_batch_3.bin"),
        (
            "data_batch_3.bin",
            batch[:-1],
            (
                "data_batch_3.bin.* has 33,802 bytes, which is no number of CIFAR-10's records of"
                " 3,073"
            ),
        ),
        ("data_batch_3.bin", b"", "data_batch_3.bin.* has 0 bytes"),
        ("data_batch_3.bin", coarse, "data_batch_3.bin.* has 33,814 bytes"),
        (
            "data_batch_3.bin",
            bytes(bad),
            "data_batch_3.bin.*label is 10 in row 5, which is none of 0, 1",
        ),
        ("test_batch.bin", python_files(PARTS[0])["test_batch"], "no number of CIFAR-10's records"),
        (
            "batches.meta.txt",
            META.replace(b"bird", b"plane"),
            "batches.meta.txt does not name .*airplane, automobile, plane, cat",
        ),
    ]
    for i, (name, data, words) in enumerate(wrong):
        folder = write(tmp_path / str(i), changed(good, name, data))
        with pytest.raises(DataError, match=words) as caught:
            Cifar10().read(folder)
        assert str(tmp_path / str(i)) in str(caught.value) and "\n" not in str(caught.value)
        with pytest.raises(DataError, match=words):
            prepare(Cifar10(root=str(tmp_path / "root")), originals=str(folder))
        assert not list((tmp_path / "root").glob("cifar10*"))
    folder = write(tmp_path / "without names", changed(good, "batches.meta.txt", None))
    assert dict(Cifar10().read(folder).parts) == {"train": 56, "test": 17}


def test_the_python_version_is_refused_and_the_binary_one_named(tmp_path: Path) -> None:
    tar_gz(tmp_path / ARCHIVE, python_files(PARTS[0]), "cifar-10-batches-py")
    with pytest.raises(DataError, match="pickles are never opened.*: it has no data_batch_1.bin"):
        Cifar10().read(tmp_path)


@pytest.mark.slow
def test_real_pictures_survive_the_original_layout(tmp_path: Path) -> None:
    """20,000 pictures (JPEG copies) as five batches and a test batch, packed as the author packed
    them, prepared and read back."""
    train, test = (np.load(real_data(f"cifar10_{part}.npz")) for part in ("train10k", "test"))
    images, labels = train["images"], train["label"]
    parts = [(images[i : i + 2000], labels[i : i + 2000]) for i in range(0, 10_000, 2000)]
    parts.append((test["images"], test["label"]))
    assert train["label_names"].tolist() == CLASSES
    packed(tmp_path / "originals" / "cifar10", binary_files(parts))
    prepare(Cifar10(root=str(tmp_path)), accept_totals=True)
    data = open_source("cifar10", {"root": str(tmp_path)})
    assert np.array_equal(data.inputs(np.arange(10_000)), images)
    assert np.array_equal(data.inputs(np.arange(10_000, 20_000)), test["images"])
    assert np.array_equal(data.table.column("class"), np.concatenate([labels, test["label"]]))
    lossless = test["lossless_test_index"]
    assert np.array_equal(data.table.column("class")[10_000 + lossless], test["lossless_label"])
