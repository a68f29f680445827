"""CINIC-10: CIFAR-10 and small ImageNet pictures of its ten classes, from the archive or from its folders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosswind.core.cards import Card, Original
from crosswind.core.errors import DataError, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.archives.members import open_archive
from crosswind.data.archives.spool import spooled
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.cifar import CLASSES, SIDE
from crosswind.data.dataset import AttributedDataset
from crosswind.data.decoding import Refused, decoder
from crosswind.data.sources.base import PreparedSource, Reading

__all__ = ["Cinic10"]

ARCHIVE, FOLDER = "CINIC-10.tar.gz", "CINIC-10"
SPLITS = ("train", "valid", "test")
ORIGINS = ("cifar10-train", "cifar10-test", "imagenet")
_CIFAR, _IMAGENET = re.compile(r"cifar-?10-(train|test)-\d+\.png"), re.compile(r"n\d{8}_\d+\.png")
_PNG = b"\x89PNG\r\n\x1a\n"

Opened = Callable[[int], bytes]


@register("cinic10", kind="source")
@dataclass(frozen=True)
class Cinic10(PreparedSource):
    """270,000 pictures of 32 x 32 pixels in CIFAR-10's ten classes: all of CIFAR-10, and 210,000 of ImageNet made small.

    Attributes: `class`, with CIFAR-10's names in its order; `split` (train, valid, test, of 90,000 each); `origin` (cifar10-train,
    cifar10-test, imagenet), as the names of the files tell. The test part holds all test pictures of CIFAR-10 and 10,000 of those
    that it trains on: keep the rows of `imagenet` to test networks that were trained on CIFAR-10. ImageNet's labels were not looked
    at again, so that some are wrong. Rows are in the order of part, class and name of the file.
    Reference: L. Darlow, E. Crowley, A. Antoniou, A. Storkey, CINIC-10 is not ImageNet or CIFAR-10, 2018.
    """

    size: int = knob(32, domain="[4, 512]", doc="side of the picture in pixels; the original's is 32")

    card = Card(
        attributes={
            "class": ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
            "split": ("train", "valid", "test"),
            "origin": ("cifar10-train", "cifar10-test", "imagenet"),
        },
        totals={"train": 90_000, "valid": 90_000, "test": 90_000},
        shape="32 x 32 x 3",
        licence="CC BY 4.0 for the collection; the pictures keep the terms of CIFAR-10 and ImageNet",
        citation="Darlow, Crowley, Antoniou, Storkey, CINIC-10 is not ImageNet or CIFAR-10, arXiv:1810.03505, 2018",
        used={"ng2022": "trained on, and target of networks trained on cifar10 (tables 1, 2b, 5, 11, 18, 25)"},
        layout="github.com/BayesWatch/cinic-10 (train, valid and test / class / cifar10-train-N.png or SYNSET_N.png)",
        files=(
            Original(
                "CINIC-10.tar.gz",
                "https://datashare.ed.ac.uk/server/api/core/bitstreams/e8e186cc-2688-48f1-aa5a-3fda1a43f8b6/content",
                687_544_992,
                md5="6ee4d0c996905fe93221de577967a372",
            ),
        ),
    )

    def read(self, folder: Path) -> Reading:
        """The folders train, valid and test, in `folder` or in CINIC-10 in it, else the archive, which is unpacked aside once."""
        place = _unpacked(folder)
        if place is not None:
            names, opened = _in_folders(place)
        elif (folder / ARCHIVE).exists():
            place = folder / ARCHIVE
            names, opened = _in_archive(place)
        else:
            raise DataError(f"there is no {ARCHIVE} in {folder}, and no folders {', '.join(SPLITS)}")
        return Reading(*_dataset(names, opened, str(place), self.size))

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """The archive, unless its folders are there."""
        return () if _unpacked(folder) is not None else super().missing(folder)


def _unpacked(folder: Path) -> Path | None:
    """The folder that holds the three parts, if there is one."""
    return next((place for place in (folder, folder / FOLDER) if (place / SPLITS[0]).is_dir()), None)


def _is_picture(name: str) -> bool:
    # Some systems pack a file of notes beside each file, under its name with two characters before.
    return name.lower().endswith(".png") and not name.rpartition("/")[2].startswith("._")


def _in_archive(path: Path) -> tuple[list[str], Opened]:
    """The pictures of the archive in the order of rows, and what gives the bytes of one."""
    with open_archive(path) as archive:
        packed = spooled(archive, _is_picture)
    order = sorted(range(len(packed)), key=lambda i: _key(packed.names[i], str(path)))
    return [packed.names[i] for i in order], lambda row: packed.bytes(order[row])


def _in_folders(place: Path) -> tuple[list[str], Opened]:
    """The pictures of the unpacked archive in the order of rows, and what gives the bytes of one."""
    names = []
    for folder in (f"{split}/{label}" for split in SPLITS for label in CLASSES):
        try:
            with os.scandir(place / folder) as entries:
                names += [f"{folder}/{name}" for name in sorted(entry.name for entry in entries if _is_picture(entry.name))]
        except OSError as error:
            raise DataError(f"{place / folder} cannot be read: {error.strerror or error}") from None

    def opened(row: int) -> bytes:
        try:
            return (place / names[row]).read_bytes()
        except OSError as error:
            raise Refused(f"cannot be read: {error.strerror or error}") from None

    return names, opened


def _key(name: str, where: str) -> tuple[int, int, str]:
    """Where a picture stands in the order of rows: part, class and name of its file."""
    *_, split, label, file = ("", "", *name.split("/"))
    if split not in SPLITS or label not in CLASSES:
        raise DataError(
            f"{where} is not CINIC-10: its picture {shown(name)} is not in a folder of a class in one of {', '.join(SPLITS)}"
        )
    return SPLITS.index(split), CLASSES.index(label), file


def _origin(file: str, where: str) -> int:
    cifar = _CIFAR.fullmatch(file)
    if cifar is None and _IMAGENET.fullmatch(file) is None:
        raise DataError(f"{where} is not CINIC-10: the name of {shown(file)} is neither of CIFAR-10 nor of ImageNet")
    return ORIGINS.index("imagenet") if cifar is None else ORIGINS.index(f"cifar10-{cifar[1]}")


def _dataset(names: Sequence[str], opened: Opened, where: str, size: int) -> tuple[AttributedDataset, dict[str, int]]:
    if not names:
        raise DataError(f"{where} is not CINIC-10: it holds no pictures")
    keys = [_key(name, where) for name in names]
    codes = np.array([(label, split, _origin(file, where)) for split, label, file in keys], dtype=np.uint8).T
    attributes = (Attribute("class", CLASSES), Attribute("split", SPLITS), Attribute("origin", ORIGINS))

    def small(row: int) -> bytes:
        data = opened(row)
        # The header of a PNG: its mark, the length and name of the first chunk, width and height.
        if data[:8] != _PNG or data[16:24] != SIDE.to_bytes(4, "big") * 2:
            raise Refused(f"is not a PNG of {SIDE} x {SIDE} pixels")
        return data

    images = decoder(small, size, lambda row: f"{where}: {names[row]!r}")
    data = AttributedDataset("cinic10", AttributeTable(attributes, codes), images, (size, size, 3), from_files=True)
    return data, {split: int((codes[1] == i).sum()) for i, split in enumerate(SPLITS)}
