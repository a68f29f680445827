"""scikit-learn's 1,797 real handwritten digits, drawn in colour at three sizes."""

from __future__ import annotations

import gzip
import importlib.util
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.seeds import stream
from crosswind.core.types import InputSpec, digest, digest_arrays
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import Source

INKS = {"red": (220, 20, 40), "green": (0, 140, 60), "blue": (40, 70, 240)}
BACKGROUNDS = {"white": (255, 255, 255), "yellow": (255, 210, 60), "black": (0, 0, 0)}
SIZES = {"small": 16, "medium": 23, "large": 30}  # side of the drawn digit in 32nds of the picture
ROWS = 1797


@register("digits", kind="source")
@dataclass(frozen=True)
class Digits(Source):
    """1,797 real handwritten digits in colour, three inks, backgrounds and sizes, from
    scikit-learn's own files.

    Attributes: `digit` (0-9), `half` (0-4, 5-9), `ink` (red, green, blue), `background` (white,
    yellow, black), `size` (small, medium, large: 16, 23 or 30 of 32 pixels a side; large alone with
    `one_size`). Ink, background and size are dealt by seed. The numbers of rows of any two of the
    270 cells differ by at most one (6 or 7). Every value of one attribute is as frequent as the
    others for every digit. The 8 x 8 grey levels are enlarged bilinearly and mix ink with
    background; all in integers, so pixels are the same everywhere.
    Reference: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI 1998 (the test
    part, in scikit-learn).
    """

    size: int = knob(32, domain="[8, 512]", doc="side of the picture in pixels")
    seed: int = knob(0, domain="[0, inf)", doc="deals ink, background and size to the rows")
    one_size: bool = knob(False, doc="whether all digits are large, instead of three sizes")

    card = card_of("digits")

    def load(self) -> AttributedDataset:
        """The data set: 1,797 rows, images uint8 [size, size, 3]. Raises `DataError` where
        scikit-learn's file is not as it was."""
        grey, digit = _read()
        codes = np.vstack([digit[None], dealt(digit, 10, self.seed), digit[None] // 5])
        sizes = tuple(SIZES)
        if self.one_size:
            sizes, codes[3] = ("large",), 0
        values = {
            "digit": "0123456789",
            "ink": INKS,
            "background": BACKGROUNDS,
            "size": sizes,
            "half": ("0-4", "5-9"),
        }
        attributes = tuple(Attribute(name, tuple(names)) for name, names in values.items())
        file = digest_arrays({"grey": grey, "digit": digit})
        identity = {
            "source": "digits",
            "drawing": 1,
            "size": self.size,
            "seed": self.seed,
            "file": file,
        }
        identity |= {"one_size": True} if self.one_size else {}
        table = AttributeTable(attributes, codes)
        input_spec = InputSpec.image(self.size, self.size, 3)
        return AttributedDataset(
            name="digits",
            table=table,
            read=_painter(codes, self.size, sizes),
            input=input_spec,
            fingerprint=digest(identity),
        )


def dealt(label: NDArray[np.integer], n_labels: int, seed: int) -> NDArray[np.int64]:
    """Values of three attributes of three values each, dealt evenly inside every class: int64 [3,
    n].

    The rows of a class are put in random order and take the 27 combinations in turn. Any three that
    follow each other from a multiple of three show each value of each attribute once. So within a
    class the counts of the combinations differ by at most one, and those of the values of one
    attribute too.
    """
    turn = np.arange(27)
    first = turn % 3
    block = turn // 3 % 3
    layer = turn // 9
    combinations = np.stack([first, (first + block) % 3, (first + 2 * block + layer) % 3])
    out = np.empty((3, len(label)), dtype=np.int64)
    for value in range(n_labels):
        draw = stream(seed, "digits", "deal", value)
        rows = draw.permutation(np.flatnonzero(label == value))
        # New names for the values and a new order of the blocks: which combinations get one row
        # more is up to the seed.
        order = (draw.permutation(9)[:, None] * 3 + np.arange(3)).ravel()
        names = np.stack([draw.permutation(3) for _ in range(3)])
        mine = np.take_along_axis(names, combinations[:, order], axis=1)
        out[:, rows] = mine[:, np.arange(len(rows)) % 27]
    return out


@cache
def _read() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Grey levels uint8 [1797, 8, 8] in [0, 16] and digits int64 [1797]. Importing scikit-learn for
    this would cost a second."""
    sklearn_spec = importlib.util.find_spec("sklearn")
    if sklearn_spec is None or not sklearn_spec.submodule_search_locations:
        raise DataError(
            "source 'digits' reads scikit-learn's files and scikit-learn is not installed"
        )
    path = Path(sklearn_spec.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
    try:
        with gzip.open(path) as file:
            rows = np.loadtxt(
                io.TextIOWrapper(file, "ascii"), delimiter=",", dtype=np.int64, ndmin=2
            )
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"scikit-learn's digits at {path} cannot be read: {error}") from None
    if rows.shape != (ROWS, 65):
        problem = f"scikit-learn's digits at {path} have shape {rows.shape}, not ({ROWS}, 65)"
        raise DataError(problem)
    grey = rows[:, :64]
    digit = rows[:, 64]
    if grey.min() < 0 or grey.max() > 16 or set(digit.tolist()) != set(range(10)):
        raise DataError(
            f"scikit-learn's digits at {path} hold values outside grey levels 0 to 16 and digits 0"
            " to 9"
        )
    return grey.reshape(ROWS, 8, 8).astype(np.uint8), digit


def _painter(
    codes: NDArray[np.int64], size: int, sizes: tuple[str, ...]
) -> Callable[[NDArray[np.int64]], NDArray[np.uint8]]:
    inks, grounds = (
        np.array(list(table.values()), dtype=np.int32) for table in (INKS, BACKGROUNDS)
    )

    def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        cover = _covers(codes[3].tobytes(), size, sizes)[rows][..., None].astype(np.int32)
        ink, ground = (
            table[codes[i, rows]][:, None, None] for i, table in ((1, inks), (2, grounds))
        )
        mixed: NDArray[np.uint8] = ((ink * cover + ground * (255 - cover) + 127) // 255).astype(
            np.uint8
        )
        return mixed

    return images


@cache
def _covers(size_of_rows: bytes, size: int, sizes: tuple[str, ...]) -> NDArray[np.uint8]:
    """How far ink covers each pixel of each row, 0 to 255: uint8 [1797, size, size]. Made once, 40
    ms at 32 pixels."""
    grey, _ = _read()
    codes = np.frombuffer(size_of_rows, dtype=np.int64)
    out = np.zeros((ROWS, size, size), dtype=np.uint8)
    for code, name in enumerate(sizes):
        side = max(1, SIZES[name] * size // 32)
        weights = _bilinear(side)
        rows = np.flatnonzero(codes == code)
        drawn = np.einsum(
            "yi,nij,xj->nyx",
            weights,
            grey[rows].astype(np.int64),
            weights,
            optimize=["einsum_path", (0, 1), (0, 1)],
        )
        start = (size - side) // 2
        scaled = drawn * 255 + (8 << 18)
        out[rows, start : start + side, start : start + side] = scaled // (16 << 18)
    return out


def _bilinear(side: int) -> NDArray[np.int64]:
    """Weights of 8 grey levels on `side` pixels, in 512ths: int64 [side, 8]. Beyond the edge the
    paper is blank."""
    # Pixel centre in grey levels, in whole 512ths so that no rounding of floats enters.
    centre = (2 * np.arange(side) + 1) * 8 * 256 // side - 256
    distance = np.abs(centre[:, None] - 512 * np.arange(8))
    return np.asarray(np.maximum(0, 512 - distance), dtype=np.int64)
