"""CIFAR-10.1: the npy files of both editions, and what is refused of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.data.cifar_files import CLASSES, pictures

from crosswind.core.errors import DataError, InputError
from crosswind.data.sources.cifar import Cifar101

IMAGES, LABELS = pictures(23, 0)


def write(
    folder: Path, edition: str = "v6", images: np.ndarray = IMAGES, labels: np.ndarray = LABELS
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"cifar10.1_{edition}_data.npy", images)
    np.save(
        folder / f"cifar10.1_{edition}_labels.npy",
        labels.astype(np.int32) if labels.dtype.kind == "i" else labels,
    )
    return folder


def test_the_layout_is_that_of_the_published_sizes(tmp_path: Path) -> None:
    """The files of v6 have 6,144,128 and 8,128 bytes: 2,000 x 3,072 and 2,000 x 4 after a header of
    128; v4 has 2,021 pictures."""
    folder = write(
        tmp_path, images=np.zeros((2000, 32, 32, 3), np.uint8), labels=np.zeros(2000, np.int32)
    )
    for edition, n in (("v6", 2000), ("v4", 2021)):
        data, labels = Cifar101(edition=edition).originals()
        assert (data.size, labels.size) == (128 + n * 3072, 128 + n * 4) and dict(
            Cifar101(edition=edition).totals()
        ) == {"test": n}
        if edition == "v6":
            assert [(folder / item.name).stat().st_size for item in (data, labels)] == [
                data.size,
                labels.size,
            ]


@pytest.mark.parametrize("edition", ["v6", "v4"])
def test_pictures_and_labels_are_those_of_the_files(edition: str, tmp_path: Path) -> None:
    write(tmp_path, edition)
    reading = Cifar101(edition=edition).read(tmp_path)
    assert dict(reading.parts) == {"test": 23}
    data = reading.dataset
    assert [(item.name, item.values) for item in data.schema] == [("class", tuple(CLASSES))]
    rows = np.array([22, 0, 5])
    assert (
        np.array_equal(data.inputs(rows), IMAGES[rows])
        and data.table.column("class").tolist() == LABELS.tolist()
    )
    with pytest.raises(DataError, match="there is no file .*cifar10.1_v"):
        Cifar101(edition="v4" if edition == "v6" else "v6").read(tmp_path)
    with pytest.raises(InputError, match="edition"):
        Cifar101(edition="v5")


def test_wrong_files_are_refused_by_name(tmp_path: Path) -> None:
    bad = LABELS.copy()
    bad[7] = 11
    wrong = [
        (
            {"images": IMAGES[:, :28]},
            r"_data.npy has shape \(23, 28, 32, 3\), not \(any, 32, 32, 3\)",
        ),
        ({"images": IMAGES.astype(np.float64)}, "_data.npy holds float64, not uint8"),
        (
            {"images": np.array([{}], dtype=object)},
            "_data.npy holds objects, which only unpickling could read",
        ),
        ({"labels": LABELS[:-1]}, "_labels.npy holds 22 labels for 23 pictures"),
        ({"labels": bad}, "_labels.npy: label is 11 in row 8, which is none of 0, 1"),
        ({"labels": -LABELS}, "_labels.npy: label is -"),
        ({"labels": LABELS.astype(np.float32)}, "_labels.npy holds float32, not integers"),
        ({"labels": LABELS[:, None]}, r"_labels.npy has shape \(23, 1\), not \(any\)"),
    ]
    for held, words in wrong:
        write(tmp_path, **held)
        with pytest.raises(DataError, match=words):
            Cifar101().read(tmp_path)
