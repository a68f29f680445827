"""SVHN: digits cut out of photographs of house numbers, 32 x 32 in colour, in MATLAB files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import Card, Original
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.archives.mat import MatVariable, mat_variables
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.resizing import in_channels, of_parts
from crosswind.data.sources.base import PreparedSource, Reading

__all__ = ["Svhn"]

SIDE = 32


@register("svhn", kind="source")
@dataclass(frozen=True)
class Svhn(PreparedSource):
    """99,289 digits cut out of photographs of house numbers, in colour; with `extra` 630,420.

    Attributes: `digit` (0-9), `split` (train, test, and extra where asked for: easier ones to train on as well). Classes are named
    as those of `mnist`, `usps` and `digits`, so that each can be another's target; `size` and `channels` bring them to one shape.
    The files call the digit 0 ten. Neighbouring digits of the house number are still seen at the sides.
    Reference: Y. Netzer et al., Reading digits in natural images with unsupervised feature learning, 2011.
    """

    size: int = knob(32, domain="[4, 512]", doc="side of the picture in pixels; the original's is 32")
    channels: int = knob(3, domain="{1, 3}", doc="3 for colour, 1 for grey")
    extra: bool = knob(False, doc="with the 531,131 easier digits of the third file (1.3 GB)")

    after = ("channels",)
    card = Card(
        attributes={"digit": 10, "split": ("train", "test", "extra")},
        totals={"train": 73_257, "test": 26_032, "extra": 531_131},
        shape="32 x 32 x 3",
        licence="for non-commercial use only",
        citation="Netzer, Wang, Coates, Bissacco, Wu, Ng, Reading digits in natural images, NIPS workshop 2011",
        used={"ng2022": "trained on, with mnist and colored-mnist as targets (tables 1, 2b, 10, 17, 25)"},
        layout="ufldl.stanford.edu/housenumbers (format 2: X 32 x 32 x 3 x n and y n x 1 in MATLAB 5 files, y 10 for the digit 0)",
        files=(
            Original(
                "train_32x32.mat",
                "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
                182_040_794,
                "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
                "e26dedcc434d2e4c54c9b2d4a06d8373",
            ),
            Original(
                "test_32x32.mat",
                "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
                64_275_384,
                "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
                "eb5a983be6a315427106f1b164d9cef3",
            ),
            Original(
                "extra_32x32.mat",
                "http://ufldl.stanford.edu/housenumbers/extra_32x32.mat",
                1_329_278_602,
                "a133a4beb38a00fcdda90c9489e0c04f900b660ce8a316a5e854838379a71eb3",
                "a93ce644f1a588dc4d68dda5feec44a7",
            ),
        ),
    )

    def originals(self) -> tuple[Original, ...]:
        """The files of the parts that are asked for."""
        return tuple(file for file in self.card.files if file.name.partition("_")[0] in self.totals())

    def totals(self) -> Mapping[str, int]:
        """The digits of the parts that are asked for."""
        return {part: count for part, count in self.card.totals.items() if part != "extra" or self.extra}

    def read(self, folder: Path) -> Reading:
        """The MATLAB files of `folder`."""
        files = {part: folder / f"{part}_32x32.mat" for part in self.totals()}
        parts = {part: _variables(file) for part, file in files.items()}
        labels = {part: _digits(y) for part, (_, y) in parts.items()}
        counts = {part: len(digits) for part, digits in labels.items()}
        split = np.repeat(np.arange(len(files), dtype=np.int64), list(counts.values()))
        attributes = (Attribute("digit", tuple("0123456789")), Attribute("split", tuple(files)))
        table = AttributeTable(attributes, np.stack([np.concatenate(list(labels.values())), split]))
        images = of_parts([_reader(x) for x, _ in parts.values()], list(counts.values()), self.size)
        return Reading(AttributedDataset("svhn", table, images=images, image_shape=(self.size, self.size, 3)), counts)

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy in as many channels as asked for."""
        return in_channels(dataset, self.channels)


def _variables(place: Path) -> tuple[MatVariable, MatVariable]:
    """X and y of one file, which fit each other by their headers; `DataError` for any other file."""
    found = mat_variables(place)
    for name in ("X", "y"):
        if name not in found:
            others = ", ".join(map(repr, sorted(found))) or "none"
            raise DataError(f"{place} has no variable {name!r} (it has {others})")
    pictures, labels = found["X"], found["y"]
    if pictures.kind != "uint8":
        raise DataError(f"{place} holds {pictures.kind} values in X, and uint8 are expected")
    if pictures.shape[:3] != (SIDE, SIDE, 3) or not 3 <= len(pictures.shape) <= 4:
        shown = " x ".join(map(str, pictures.shape))
        raise DataError(f"{place} holds X of {shown}, and 32 x 32 x 3 x n is expected")
    rows = pictures.shape[3] if len(pictures.shape) == 4 else 1  # MATLAB drops a last dimension of one
    if math.prod(labels.shape) != rows:
        raise DataError(f"{place} holds {rows:,} pictures in X and {math.prod(labels.shape):,} labels in y")
    return pictures, labels


def _digits(variable: MatVariable) -> NDArray[np.int64]:
    """The digits of y, in which 0 is ten: int64 [n]."""
    labels = variable.read().ravel()
    wrong = np.flatnonzero(~np.isin(labels, np.arange(1, 11)))
    if wrong.size:
        where = f"{variable.path}, row {wrong[0] + 1}"
        raise DataError(f"{where} has label {labels[wrong[0]]}, and labels are 1 to 10, which stands for 0")
    return labels.astype(np.int64) % 10


def _reader(variable: MatVariable) -> Callable[[], NDArray[np.uint8]]:
    def read() -> NDArray[np.uint8]:
        pictures = variable.read()
        if pictures.dtype != np.uint8:
            raise DataError(f"{variable.path} stores {pictures.dtype} values in X, and uint8 are expected")
        # In the file a picture is one run of bytes, so this view of it is read in order.
        return pictures.reshape(SIDE, SIDE, 3, -1, order="F").transpose(3, 0, 1, 2)

    return read
