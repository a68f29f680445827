"""CIFAR-10: 60,000 small colour photographs of ten classes, from the binary version of its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.attributes import Attribute
from crosswind.data.sources.base import Piece, PreparedSource, Reading, checked_labels, in_parts

ARCHIVE, FOLDER, NAMES = "cifar-10-binary.tar.gz", "cifar-10-batches-bin", "batches.meta.txt"
PARTS = {"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)}
FILES = (*PARTS["train"], *PARTS["test"])
PICKLED = ("cifar-10-python.tar.gz", "cifar-10-batches-py", "data_batch_1", "test_batch", "batches.meta")
SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE


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

    card = card_of("cifar10")
    instead = (*FILES, FOLDER, *PICKLED)  # of the pickles `read` says what is wrong with them

    def read(self, folder: Path) -> Reading:
        """The six files of records, unpacked in `folder` or in cifar-10-batches-bin in it, else in the archive."""
        unpacked = (path for path in (folder, folder / FOLDER) if any((path / name).is_file() for name in FILES))
        place = next(unpacked, folder / ARCHIVE)
        if place != folder / ARCHIVE:
            files = {name: np.fromfile(place / name, np.uint8) for name in (*FILES, NAMES) if (place / name).is_file()}
        elif place.exists():
            files = self._in_archive(place)
        else:
            pickled = [folder / name for name in PICKLED if (folder / name).exists()]
            raise _refused(pickled[0]) if pickled else DataError(f"there is no {ARCHIVE} in {folder}, and no {FOLDER}")
        lacking = [name for name in FILES if name not in files]
        if lacking:
            raise DataError(f"{place} is not the binary version of CIFAR-10: it has no {', '.join(lacking)}")
        label = Attribute("class", self.card.attributes["class"])
        named = files.get(NAMES, np.empty(0, np.uint8)).tobytes().decode("ascii", "replace").split()
        if NAMES in files and tuple(named) != label.values:
            raise DataError(f"{place}, {NAMES} does not name CIFAR-10's classes but {shown(', '.join(named), 120)}")
        parts = {part: [_piece(files[name], f"{place}, {name}") for name in names] for part, names in PARTS.items()}
        return in_parts("cifar10", label, parts, self.size)

    def _in_archive(self, path: Path) -> dict[str, NDArray[np.uint8]]:
        from crosswind.data.archives.members import TarMembers, walked

        found = TarMembers(self.trusted(path, walked), lambda name: PurePosixPath(name).name in (*FILES, NAMES, "data_batch_1"))
        files = {PurePosixPath(name).name: found.view(place) for place, name in enumerate(found.names)}
        if "data_batch_1" in files:
            raise _refused(path)
        if len(files) < len(found):
            raise DataError(f"{path} is not the binary version of CIFAR-10: it has its files in two folders")
        return files


def _refused(path: Path) -> DataError:
    return DataError(
        f"{path} is of the Python version of CIFAR-10, whose files are pickles and never opened: get the binary one, {ARCHIVE}"
    )


def _piece(data: NDArray[np.uint8], place: str) -> Piece:
    """Labels and pictures of one file's bytes."""
    if not data.size or data.size % RECORD:
        raise DataError(f"{place} has {data.size:,} bytes, which is no number of CIFAR-10's records of {RECORD:,}")
    records = data.reshape(-1, RECORD)
    # Planes of red, green and blue, seen as pixels: nothing is copied before rows are asked for.
    pictures = records[:, 1:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    return checked_labels(records[:, 0], place, len(records)), lambda: pictures
