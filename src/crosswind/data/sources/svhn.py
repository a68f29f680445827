"""SVHN: digits cut out of photographs of house numbers, 32 x 32 in colour, in MATLAB files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.attributes import Attribute
from crosswind.data.sources.base import PicturesInChannels, Piece, Reading, checked_labels, in_parts, original_file

SIDE = 32


@register("svhn", kind="source")
@dataclass(frozen=True)
class Svhn(PicturesInChannels):
    """99,289 digits cut out of photographs of house numbers, in colour; with `extra` 630,420.

    Attributes: `digit` (0-9), `split` (train, test, and extra where asked for: easier ones to train on as well). Classes are named
    as those of `mnist`, `usps` and `digits`, so that each can be another's target; `size` and `channels` bring them to one shape.
    The files call the digit 0 ten. Neighbouring digits of the house number are still seen at the sides.
    Reference: Y. Netzer et al., Reading digits in natural images with unsupervised feature learning, 2011.
    """

    size: int = knob(32, domain="[4, 512]", doc="side of the picture in pixels; the original's is 32")
    channels: int = knob(3, domain="{1, 3}", doc="3 for colour, 1 for grey")
    extra: bool = knob(False, doc="with the 531,131 easier digits of the third file (1.3 GB)")

    card = card_of("svhn")

    def variants(self) -> tuple[str, ...]:
        """The third file, where it is asked for."""
        return ("extra",) if self.extra else ()

    def totals(self) -> Mapping[str, int]:
        """The digits of the parts that are asked for."""
        return {part: count for part, count in self.card.totals.items() if part != "extra" or self.extra}

    def read(self, folder: Path) -> Reading:
        """The MATLAB files of `folder`."""
        parts = {part: [self._piece(original_file(folder, f"{part}_32x32.mat"))] for part in self.totals()}
        return in_parts("svhn", Attribute("digit", tuple("0123456789")), parts, self.size)

    def _piece(self, path: Path) -> Piece:
        from crosswind.data.archives.arrays import mat_shapes, read_mat, whole_mat

        held = mat_shapes(self.trusted(path, whole_mat))
        if not {"X", "y"} <= set(held):
            raise DataError(f"{path} has not both of the variables 'X' and 'y' but {', '.join(map(repr, sorted(held))) or 'none'}")
        (shape, kind), (labels, _) = held["X"], held["y"]
        if kind != "uint8" or shape[:3] != (SIDE, SIDE, 3) or not 3 <= len(shape) <= 4:
            raise DataError(f"{path} holds {kind} values of {' x '.join(map(str, shape))} in X, not uint8 of 32 x 32 x 3 x n")
        rows = shape[3] if len(shape) == 4 else 1  # MATLAB drops a last dimension of one
        if math.prod(labels) != rows:
            raise DataError(f"{path} holds {rows:,} pictures in X and {math.prod(labels):,} labels in y")

        def pictures() -> NDArray[np.uint8]:
            # In the file a picture is one run of bytes, so this view of it is read in order.
            return read_mat(path, "X").reshape(SIDE, SIDE, 3, -1, order="F").transpose(3, 0, 1, 2)

        return checked_labels(read_mat(path, "y").ravel(), path, rows, 1, 10) % 10, pictures
