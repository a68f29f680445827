"""USPS: 9,298 handwritten digits from envelopes, 16 x 16, in the text files of the LIBSVM collection."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError, one_line
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.attributes import Attribute
from crosswind.data.sources.base import PicturesInChannels, Piece, Reading, checked_labels, in_parts, original_file

SIDE = 16
MOST_BYTES = 256 << 20  # of one file unpacked; the larger of the two has about 20 MB
MOST_LINES = 100_000  # a line of two bytes would take 2 kB of memory


@register("usps", kind="source")
@dataclass(frozen=True)
class Usps(PicturesInChannels):
    """9,298 handwritten digits from envelopes in grey, 7,291 to train on and 2,007 to test on.

    Attributes: `digit` (0-9), `split` (train, test). Classes are named as those of `mnist`, `svhn` and `digits`, so that each can
    be another's target; `size` and `channels` bring them to one shape. The files hold grey as numbers from -1 (paper) to 1 (ink)
    and labels from 1 to 10, a digit plus one; a grey x becomes the level nearest to 127.5 (x + 1).
    Reference: J. Hull, A database for handwritten text recognition research, 1994.
    """

    size: int = knob(16, domain="[4, 512]", doc="side of the picture in pixels; the original's is 16")
    channels: int = knob(1, domain="{1, 3}", doc="1 for grey, 3 for grey in three equal channels")

    card = card_of("usps")

    def read(self, folder: Path) -> Reading:
        """The two files of `folder`, each bzip2 or plain text."""
        parts = {part: [_piece(original_file(folder, name))] for part, name in (("train", "usps.bz2"), ("test", "usps.t.bz2"))}
        return in_parts("usps", Attribute("digit", tuple("0123456789")), parts, self.size, 1)


def _piece(path: Path) -> Piece:
    from sklearn.datasets import load_svmlight_file

    from crosswind.data.archives.checks import PACKED, damage, kind_of_file

    with damage(path), PACKED["bzip2"](path) if kind_of_file(path) == "bzip2" else path.open("rb") as file:
        text = file.read(MOST_BYTES + 1)
    lines = text.count(b"\n")
    if len(text) > MOST_BYTES or lines > MOST_LINES:
        raise DataError(f"{path} unpacks to more than {MOST_BYTES:,} bytes or {MOST_LINES:,} lines")
    if not text.endswith(b"\n"):
        raise DataError(f"{path} is empty, or its last line is cut short")
    try:
        values, labels = load_svmlight_file(io.BytesIO(text), n_features=SIDE * SIDE, zero_based=False)
    except (ValueError, OverflowError, IndexError) as error:
        raise DataError(f"{path} is not a text of lines 'label index:value ...': {one_line(str(error), 200)}") from None
    grey = values.toarray()  # a value that a line leaves out is 0, in the middle of the greys
    digits = checked_labels(labels, path, len(grey), 1, 10) - 1
    outside = np.argwhere(~(np.abs(grey) <= 1))
    if len(outside):
        row, column = outside[0]
        raise DataError(f"{path}, row {row + 1} has {grey[row, column]:g} at index {column + 1}, and greys lie between -1 and 1")
    levels = np.rint((grey + 1) * 127.5).astype(np.uint8).reshape(-1, SIDE, SIDE, 1)
    return digits, lambda: levels
