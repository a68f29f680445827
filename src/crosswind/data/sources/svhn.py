"""SVHN: digits cut out of photographs of house numbers, 32 x 32 in colour, in MATLAB files."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import Card, Original
from crosswind.core.errors import DataError, one_line
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.resizing import in_channels, of_parts
from crosswind.data.sources.base import PreparedSource, Reading

__all__ = ["Svhn"]

SIDE = 32
PICTURE = SIDE * SIDE * 3
HEADER = 128
MOST_ROWS = 1 << 20  # of one file; the largest has 531,131
_STEP = 1 << 20
_COMPRESSED = 15


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
        labels = {part: _labels(file) for part, file in files.items()}
        counts = {part: len(digits) for part, digits in labels.items()}
        split = np.repeat(np.arange(len(files), dtype=np.int64), list(counts.values()))
        attributes = (Attribute("digit", tuple("0123456789")), Attribute("split", tuple(files)))
        table = AttributeTable(attributes, np.stack([np.concatenate(list(labels.values())), split]))
        images = of_parts([_reader(files[part], counts[part]) for part in files], list(counts.values()), self.size)
        return Reading(AttributedDataset("svhn", table, images=images, image_shape=(self.size, self.size, 3)), counts)

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy in as many channels as asked for."""
        return in_channels(dataset, self.channels)


def _labels(place: Path) -> NDArray[np.int64]:
    """Digits int64 [n] of one file whose pictures fit them; `DataError` for any other file."""
    if not place.is_file():
        raise DataError(f"there is no file {place.name} in {place.parent}")
    found = _contents(place)
    rows = found["X"][-1] if len(found["X"]) == 4 else 1  # MATLAB drops a last dimension of one
    if found["X"][:3] != (SIDE, SIDE, 3) or not 3 <= len(found["X"]) <= 4:
        raise DataError(f"{place} holds X of {_product(found['X'])}, and 32 x 32 x 3 x n is expected")
    if math.prod(found["y"]) != rows or rows not in found["y"]:
        raise DataError(f"{place} holds {rows:,} pictures in X and {math.prod(found['y']):,} labels in y")
    if not 0 < rows <= MOST_ROWS:
        raise DataError(f"{place} promises {rows:,} pictures, and 1 to {MOST_ROWS:,} are expected")
    _refuse_bomb(place, rows * PICTURE)
    labels = np.asarray(_variable(place, "y")).ravel()
    wrong = np.flatnonzero(~np.isin(labels, np.arange(1, 11)))
    if wrong.size:
        raise DataError(f"{place}, row {wrong[0] + 1} has label {labels[wrong[0]]}, and labels are 1 to 10, which stands for 0")
    return labels.astype(np.int64) % 10


def _reader(place: Path, count: int) -> Callable[[], NDArray[np.uint8]]:
    def read() -> NDArray[np.uint8]:
        pictures = np.asarray(_variable(place, "X"))
        if pictures.dtype != np.uint8 or pictures.size != count * PICTURE:
            raise DataError(f"{place} holds {pictures.dtype} values of {_product(pictures.shape)} in X, not uint8")
        # In the file a picture is one run of bytes, so this view of it is read in order.
        return pictures.reshape(SIDE, SIDE, 3, count, order="F").transpose(3, 0, 1, 2)

    return read


def _product(shape: Sequence[int]) -> str:
    return " x ".join(f"{size:,}" for size in shape)


def _contents(place: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of X and y by the headers of their variables; `DataError` for a file that has not both or is no such file."""
    with place.open("rb") as file:
        start = file.read(HEADER)
    if b"MATLAB 7.3" in start[:20] or start[:4] == b"\x89HDF":
        raise DataError(f"{place} is a MATLAB 7.3 (HDF5) file, and the published ones are of MATLAB 5")
    if len(start) < HEADER or start[126:128] not in (b"IM", b"MI"):
        raise DataError(f"{place} is no MATLAB 5 file, or is truncated in its header")
    _refuse_truncated(place)
    import scipy.io

    try:
        found = {name: (shape, kind) for name, shape, kind in scipy.io.whosmat(place, appendmat=False)}
    except MemoryError:
        raise
    except Exception as error:  # the reader raises whatever damaged bytes lead it to
        raise DataError(f"{place} is truncated or corrupted: {_said(error)}") from None
    for name in ("X", "y"):
        if name not in found:
            others = ", ".join(map(repr, sorted(found))) or "none"
            raise DataError(f"{place} has no variable {name!r} (it has {others})")
        kind = found[name][1]
        if kind not in (("uint8",) if name == "X" else ("uint8", "double", "int8", "uint16", "int16", "int32", "uint32", "single")):
            raise DataError(f"{place} holds {kind} values in {name}, and {'uint8' if name == 'X' else 'numbers'} are expected")
    return {name: tuple(int(size) for size in found[name][0]) for name in ("X", "y")}


def _variable(place: Path, name: str) -> Any:
    import scipy.io

    try:
        return scipy.io.loadmat(place, appendmat=False, variable_names=[name])[name]
    except MemoryError:
        raise
    except Exception as error:  # the reader raises whatever damaged bytes lead it to
        raise DataError(f"{place} is truncated or corrupted: {_said(error)}") from None


def _said(error: Exception) -> str:
    return one_line(str(error), 200) or type(error).__name__


def _elements(place: Path) -> Iterator[tuple[int, int, int]]:
    """Type, place in the file and length of every element at the top of a MATLAB 5 file, as their tags say."""
    with place.open("rb") as file:
        order: Literal["little", "big"] = "little" if file.read(HEADER)[126:128] == b"IM" else "big"
        at = HEADER
        while len(tag := file.read(8)) == 8:
            kind, length = (int.from_bytes(tag[i : i + 4], order) for i in (0, 4))
            yield kind, at + 8, length
            at += 8 + length
            file.seek(at)
        if tag:
            yield 0, at + 8, 0


def _refuse_truncated(place: Path) -> None:
    size = place.stat().st_size
    for _, at, length in _elements(place):
        if at + length > size:
            raise DataError(f"{place} is truncated: a variable ends at byte {at + length:,}, and the file at {size:,}")


def _refuse_bomb(place: Path, size: int) -> None:
    """Refuse variables that unpack to more than pictures of `size` bytes need, before the reader gives them memory."""
    most = size + max(size // 64, 1 << 16)  # headers, labels and a few small variables beside
    unpacked = 0
    with place.open("rb") as file:
        for kind, at, length in _elements(place):
            if kind != _COMPRESSED:
                continue
            file.seek(at)
            unpacker = zlib.decompressobj()
            while length and not unpacker.eof and (packed := file.read(min(_STEP, length))):
                length -= len(packed)
                while packed and not unpacker.eof:
                    try:
                        unpacked += len(unpacker.decompress(packed, _STEP))
                    except zlib.error as error:
                        raise DataError(f"{place} is corrupted: {_said(error)}") from None
                    packed = unpacker.unconsumed_tail
                    if unpacked > most:
                        raise DataError(f"{place} unpacks to more than the {size:,} bytes of its pictures")
