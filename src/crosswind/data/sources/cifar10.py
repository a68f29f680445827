"""CIFAR-10: 60,000 small colour photographs of ten classes, from the binary version of its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import Card, Original
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.archives.members import open_archive
from crosswind.data.archives.parts import kind_of_file
from crosswind.data.archives.spool import spooled
from crosswind.data.cifar import SIDE, Piece, checked_labels, checked_names, in_parts
from crosswind.data.sources.base import PreparedSource, Reading

__all__ = ["Cifar10"]

ARCHIVE, FOLDER, NAMES = "cifar-10-binary.tar.gz", "cifar-10-batches-bin", "batches.meta.txt"
TRAIN, TEST = tuple(f"data_batch_{i}.bin" for i in range(1, 6)), ("test_batch.bin",)
RECORD = 1 + 3 * SIDE * SIDE
_LONGEST_NAMES = 10_000  # bytes of the file with ten names; the original's has 61


@register("cifar10", kind="source")
@dataclass(frozen=True)
class Cifar10(PreparedSource):
    """60,000 colour photographs of 32 x 32 pixels in ten classes, 50,000 to train on and 10,000 to test on.

    Attributes: `class` (airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck), `split` (train, test). Rows are in
    the order of the files, the five batches of training before the test. Classes have the same names in `cinic10`, `cifar10.1` and
    `cifar10.2`, so that each can be another's target; every picture of CIFAR-10 is in `cinic10` too. Of the versions that the
    author gives, the binary one is read: the Python version is a pickle.
    Reference: A. Krizhevsky, Learning multiple layers of features from tiny images, 2009.
    """

    size: int = knob(32, domain="[4, 512]", doc="side of the picture in pixels; the original's is 32")

    card = Card(
        attributes={
            "class": ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
            "split": ("train", "test"),
        },
        totals={"train": 50_000, "test": 10_000},
        shape="32 x 32 x 3",
        licence="none stated; the pictures are of the withdrawn 80 Million Tiny Images",
        citation="Krizhevsky, Learning multiple layers of features from tiny images, technical report, 2009",
        used={"ng2022": "trained on and target of networks trained on cinic10 (tables 1, 2b, 5, 11, 18, 25)"},
        layout="www.cs.toronto.edu/~kriz/cifar.html (records of a label and 3,072 pixels, planes of red, green, blue)",
        files=(
            Original(
                "cifar-10-binary.tar.gz",
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                170_052_171,
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                "c32a1d4ab5d03f1284b67883e8d87530",
            ),
        ),
    )

    def read(self, folder: Path) -> Reading:
        """The six files of records, unpacked in `folder` or in cifar-10-batches-bin in it, else in the archive."""
        place = _unpacked(folder)
        if place is not None:
            files = _in_folder(place)
        elif (folder / ARCHIVE).exists():
            files = _in_archive(folder / ARCHIVE)
        elif (pickled := _of_python(folder)) is not None:
            raise _refused(pickled)
        else:
            raise DataError(f"there is no {ARCHIVE} in {folder}, and no {FOLDER}")
        parts = {part: [files[name] for name in names] for part, names in (("train", TRAIN), ("test", TEST))}
        return Reading(*in_parts("cifar10", parts, self.size))

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """The archive, unless its files or those of the Python version are there: `read` says what is wrong with these."""
        found = _unpacked(folder) or _of_python(folder)
        return () if found else super().missing(folder)


def _unpacked(folder: Path) -> Path | None:
    """The folder with files of the binary version, if there is one."""
    places = (folder, folder / FOLDER)
    return next((place for place in places if any((place / name).is_file() for name in (*TRAIN, *TEST))), None)


def _of_python(folder: Path) -> Path | None:
    """The first of the Python version's files and folders that lies in a folder, packed or unpacked."""
    names = ("cifar-10-python.tar.gz", "cifar-10-batches-py", "data_batch_1", "test_batch", "batches.meta")
    return next((folder / name for name in names if (folder / name).exists()), None)


def _refused(place: Path | str) -> DataError:
    return DataError(
        f"{place} is of the Python version of CIFAR-10, whose files are pickles and never opened: get the binary one, {ARCHIVE}"
    )


def _in_folder(place: Path) -> dict[str, Piece]:
    lacking = [name for name in (*TRAIN, *TEST) if not (place / name).is_file()]
    if lacking:
        raise DataError(f"there is no file {', '.join(lacking)} in {place}")
    if (place / NAMES).is_file():
        with (place / NAMES).open("rb") as file:
            _check_names(file.read(_LONGEST_NAMES), str(place / NAMES))
    found = {}
    for name in (*TRAIN, *TEST):
        if kind_of_file(place / name) == "pickle":
            raise _refused(place / name)
        size = (place / name).stat().st_size
        found[name] = _piece(np.memmap(place / name, np.uint8, "r") if size else np.empty(0, np.uint8), str(place / name))
    return found


def _in_archive(path: Path) -> dict[str, Piece]:
    seen = []

    def wanted(name: str) -> bool:
        seen.append(name)
        return PurePosixPath(name).name in (*TRAIN, *TEST, NAMES)

    with open_archive(path) as archive:
        packed = spooled(archive, wanted)
    if any(name.endswith("/data_batch_1") for name in seen):
        raise _refused(path)
    places = {PurePosixPath(name).name: i for i, name in enumerate(packed.names)}
    lacking = [name for name in (*TRAIN, *TEST) if name not in places]
    if lacking or len(places) < len(packed):
        what = f"has no {', '.join(lacking)}" if lacking else "has its files in two folders"
        raise DataError(f"{path} is not the binary version of CIFAR-10: it {what}")
    if NAMES in places:
        _check_names(packed.bytes(places[NAMES])[:_LONGEST_NAMES], f"{path}, member {NAMES!r},")
    return {name: _piece(packed.view(places[name]), f"{path}, member {name!r}") for name in (*TRAIN, *TEST)}


def _check_names(text: bytes, place: str) -> None:
    checked_names(text.decode("ascii", "replace").split(), place)


def _piece(data: NDArray[np.uint8], place: str) -> Piece:
    """Labels and pictures of one file's bytes."""
    if not data.size or data.size % RECORD:
        raise DataError(f"{place} has {data.size:,} bytes, which is no number of CIFAR-10's records of {RECORD:,}")
    records = data.reshape(-1, RECORD)
    labels = checked_labels(records[:, 0], place)
    # Planes of red, green and blue, seen as pixels: nothing is copied before rows are asked for.
    pictures = records[:, 1:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    return labels, lambda: pictures
