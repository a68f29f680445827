"""USPS: 9,298 handwritten digits from envelopes, 16 x 16, in the text files of the LIBSVM collection."""

from __future__ import annotations

import bz2
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import Card, Original
from crosswind.core.errors import DataError, one_line
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.resizing import in_channels, resized
from crosswind.data.sources.base import PreparedSource, Reading

__all__ = ["Usps"]

FILES = {"train": "usps", "test": "usps.t"}
SIDE = 16
MOST_BYTES = 256 << 20  # of one file unpacked; the larger of the two has about 20 MB
MOST_LINES = 100_000  # a line of two bytes would take 2 kB of memory


@register("usps", kind="source")
@dataclass(frozen=True)
class Usps(PreparedSource):
    """9,298 handwritten digits from envelopes in grey, 7,291 to train on and 2,007 to test on.

    Attributes: `digit` (0-9), `split` (train, test). Classes are named as those of `mnist`, `svhn` and `digits`, so that each can
    be another's target; `size` and `channels` bring them to one shape. The files hold grey as numbers from -1 (paper) to 1 (ink)
    and labels from 1 to 10, a digit plus one; a grey x becomes the level nearest to 127.5 (x + 1).
    Reference: J. Hull, A database for handwritten text recognition research, 1994.
    """

    size: int = knob(16, domain="[4, 512]", doc="side of the picture in pixels; the original's is 16")
    channels: int = knob(1, domain="{1, 3}", doc="1 for grey, 3 for grey in three equal channels")

    after = ("channels",)
    card = Card(
        attributes={"digit": 10, "split": ("train", "test")},
        totals={"train": 7_291, "test": 2_007},
        shape="16 x 16 x 1",
        licence="none stated; for research",
        citation="Hull, A database for handwritten text recognition research, IEEE PAMI 16, 1994",
        layout="www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html (label index:value ..., bzip2)",
        files=(
            Original(
                "usps.bz2",
                "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/usps.bz2",
                md5="ec16c51db3855ca6c91edd34d0e9b197",
            ),
            Original(
                "usps.t.bz2",
                "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/usps.t.bz2",
                md5="8ea070ee2aca1ac39742fdd1ef5ed118",
            ),
        ),
    )

    def read(self, folder: Path) -> Reading:
        """The two files of `folder`, each bzip2 or plain text."""
        parts = {part: _part(folder, name) for part, name in FILES.items()}
        counts = {part: len(digits) for part, (_, digits) in parts.items()}
        pictures = np.concatenate([grey for grey, _ in parts.values()])
        split = np.repeat(np.arange(len(parts), dtype=np.int64), list(counts.values()))
        size = self.size

        def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
            return resized(pictures[rows], size)

        attributes = (Attribute("digit", tuple("0123456789")), Attribute("split", tuple(FILES)))
        table = AttributeTable(attributes, np.stack([np.concatenate([digits for _, digits in parts.values()]), split]))
        return Reading(AttributedDataset("usps", table, images=images, image_shape=(size, size, 1)), counts)

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """The originals that are in the folder neither packed nor unpacked."""
        forms = {item: (folder / item.name, folder / item.name.removesuffix(".bz2")) for item in self.originals()}
        return tuple(item for item, places in forms.items() if not any(place.is_file() for place in places))

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy in as many channels as asked for."""
        return in_channels(dataset, self.channels)


def _part(folder: Path, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Grey levels uint8 [n, 16, 16, 1] and digits int64 [n] of one file."""
    place = next((place for place in (folder / f"{name}.bz2", folder / name) if place.is_file()), None)
    if place is None:
        raise DataError(f"there is no file {name}.bz2 or {name} in {folder}")
    return _levels(_unpacked(place), place)


def _levels(text: bytes, place: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    if (lines := text.count(b"\n")) > MOST_LINES:
        raise DataError(f"{place} has {lines:,} lines, more than {MOST_LINES:,}")
    from sklearn.datasets import load_svmlight_file

    try:
        values, labels = load_svmlight_file(io.BytesIO(text), n_features=SIDE * SIDE, zero_based=False)
    except (ValueError, OverflowError, IndexError) as error:
        raise DataError(f"{place} is not a text of lines 'label index:value ...': {one_line(str(error), 200)}") from None
    grey = values.toarray()  # a value that a line leaves out is 0, in the middle of the greys
    if not len(grey):
        raise DataError(f"{place} is empty")
    wrong = np.flatnonzero(~((labels >= 1) & (labels <= 10) & (labels == np.floor(labels))))
    if wrong.size:
        raise DataError(f"{place}, line {wrong[0] + 1} has label {labels[wrong[0]]:g}, and labels are 1 to 10, a digit plus one")
    outside = ~(np.abs(grey) <= 1)
    if outside.any():
        row, column = (int(found[0]) for found in np.nonzero(outside))
        value = grey[row, column]
        shown = f"{value:g}" if math.isfinite(value) else "no number"
        raise DataError(f"{place}, line {row + 1} has {shown} at index {column + 1}, and greys lie between -1 and 1")
    levels = np.rint((grey + 1) * 127.5).astype(np.uint8)
    return levels.reshape(-1, SIDE, SIDE, 1), labels.astype(np.int64) - 1


def _unpacked(place: Path) -> bytes:
    with place.open("rb") as file:
        packed = file.read(3) == b"BZh"
    try:
        with bz2.open(place) if packed else place.open("rb") as stream:
            text = stream.read(MOST_BYTES + 1)
    except EOFError:
        raise DataError(f"{place} is truncated: its bzip2 stream ends before its end mark") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{place} is corrupted: {one_line(str(error), 200)}") from None
    if len(text) > MOST_BYTES:
        raise DataError(f"{place} unpacks to more than {MOST_BYTES:,} bytes")
    if text and not text.endswith(b"\n"):
        raise DataError(f"{place} is truncated: its last line has no end")
    return text
