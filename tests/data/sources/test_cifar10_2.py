"""CIFAR-10.2: the two npz files, and what is refused of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.cifar_files import CLASSES, pictures

from crosswind.core.errors import DataError
from crosswind.data.prepared import prepare
from crosswind.data.sources.base import open_source
from crosswind.data.sources.cifar import Cifar102

TRAIN, TEST = pictures(23, 0), pictures(11, 1)


def arrays(part: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """The five arrays of a file, as published."""
    images, labels = part
    indices, keywords = np.arange(len(images)), np.array(["a_word"] * len(images))
    names = np.array(CLASSES)
    return {
        "images": images,
        "labels": labels.astype(np.int64),
        "label_names": names,
        "ti_indices": indices,
        "keywords": keywords,
    }


def write(folder: Path, packed: bool = False, **changed: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save = np.savez_compressed if packed else np.savez
    for name, part in (("train", TRAIN), ("test", TEST)):
        held = arrays(part) | (changed if name == "test" else {})
        save(
            folder / f"cifar102_{name}.npz",
            **{key: value for key, value in held.items() if value is not None},
        )
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_pictures_and_labels_are_those_of_the_files(packed: bool, tmp_path: Path) -> None:
    reading = Cifar102().read(write(tmp_path, packed))
    assert dict(reading.parts) == {"train": 23, "test": 11}
    data = reading.dataset
    assert [(item.name, item.values) for item in data.schema] == [
        ("class", tuple(CLASSES)),
        ("split", ("train", "test")),
    ]
    assert np.array_equal(data.inputs(np.arange(34)), np.concatenate([TRAIN[0], TEST[0]]))
    assert data.table.column("class").tolist() == [*TRAIN[1].tolist(), *TEST[1].tolist()]
    assert data.table.column("split").tolist() == [0] * 23 + [1] * 11
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cifar102_test.npz",
        "cifar102_train.npz",
    ]


def test_the_test_part_alone_needs_one_file_that_can_be_fetched(tmp_path: Path) -> None:
    (write(tmp_path / "files") / "cifar102_train.npz").unlink()
    source = Cifar102(root=str(tmp_path), part="test")
    (file,) = source.originals()
    assert file.name == "cifar102_test.npz" and file.url and file.sha256
    assert dict(source.totals()) == {"test": 2000}
    prepare(source, originals=str(tmp_path / "files"), accept_totals=True)
    data = open_source("cifar10.2", {"root": str(tmp_path), "part": "test"})
    assert [item.name for item in data.schema] == ["class"] and np.array_equal(
        data.inputs(np.arange(11)), TEST[0]
    )
    with pytest.raises(
        DataError,
        match="needs cifar102_train.npz in the folder .*: download cifar102_train.npz and",
    ):
        prepare(Cifar102(root=str(tmp_path)), originals=str(tmp_path / "files"))
    with pytest.raises(
        DataError, match="needs cifar102_train.npz in the folder"
    ):  # and nothing is fetched of what has no hash
        prepare(Cifar102(root=str(tmp_path)))


def test_wrong_files_are_refused_by_name(tmp_path: Path) -> None:
    images, labels = TEST
    bad = labels.copy()
    bad[0] = 10
    other = np.array([*CLASSES[:9], "lorry"])
    wrong = [
        ({"images": None}, "cifar102_test.npz has no 'images' but keywords, label_names, labels"),
        ({"labels": None}, "cifar102_test.npz has no 'labels' but"),
        (
            {"images": images[..., :1]},
            r"'images' has shape \(11, 32, 32, 1\), not \(any, 32, 32, 3\)",
        ),
        ({"images": images.astype(np.int16)}, "'images' holds int16, not uint8"),
        ({"labels": labels[:-2]}, "cifar102_test.npz holds 9 labels for 11 pictures"),
        ({"labels": bad}, "cifar102_test.npz: label is 10 in row 1, which is none of 0, 1"),
        (
            {"labels": labels.astype(object)},
            "'labels' holds objects, which only unpickling could read",
        ),
        (
            {"label_names": other},
            "cifar102_test.npz is not of CIFAR-10's classes: it names .*ship, lorry",
        ),
        ({"label_names": np.array(CLASSES, dtype=object)}, "'label_names' holds objects"),
    ]
    for held, words in wrong:
        with pytest.raises(DataError, match=words):
            Cifar102().read(write(tmp_path, **held))
    plain = Cifar102().read(write(tmp_path, label_names=None, keywords=None, ti_indices=None))
    assert dict(plain.parts) == {"train": 23, "test": 11}
