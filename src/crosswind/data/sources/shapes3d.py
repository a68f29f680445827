"""Shapes3D: one solid in the middle of a coloured room, over the full grid of six factors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import Card, Original
from crosswind.core.errors import DataError, InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import digest
from crosswind.data.archives.npz import Expected
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.rooms import ORIENTATIONS, SCALES, SHAPES, drawn_rooms, hue_colors
from crosswind.data.sources.base import PreparedSource, Reading

__all__ = ["Shapes3D"]

HUES = tuple(step / 10 for step in range(10))
# How each factor's values are written in the file's labels, in the order of its columns.
FACTORS: dict[str, tuple[float, ...]] = {
    "floor_hue": HUES,
    "wall_hue": HUES,
    "object_hue": HUES,
    "scale": SCALES,
    "shape": (0, 1, 2, 3),
    "orientation": ORIENTATIONS,
}
SATURATION, VALUE = 0.7, 1.0
FILE = "3dshapes.h5"


@register("shapes3d", kind="source")
@dataclass(frozen=True)
class Shapes3D(PreparedSource):
    """480,000 pictures of a solid in a room, drawn when asked for, or read from the original file.

    Attributes: `floor_hue`, `wall_hue`, `object_hue` (0.0 to 0.9 of the circle of hues), `scale` (eight from 0.75 to 1.25),
    `shape` (cube, cylinder, sphere, capsule), `orientation` (15 from -30 to 30 degrees). Every combination is one row, in the
    original's order: the first factor slowest. Drawn pixels are not the original's: the room, the solids and their colours are
    like its, cast with 16 rays a pixel in a light of our choice. With `original`, the copy that `crosswind prepare shapes3d` made
    of 3dshapes.h5 is read instead.
    Reference: C. Burgess, H. Kim, 3D Shapes Dataset, 2018.
    """

    original: bool = knob(False, doc="read the prepared copy of the original file; drawn where false")
    size: int = knob(64, domain="[16, 512]", doc="side of the drawn picture in pixels; the original's is 64")

    after = ("original", "size")
    card = Card(
        attributes={
            "floor_hue": 10,
            "wall_hue": 10,
            "object_hue": 10,
            "scale": ("0.75", "0.821", "0.893", "0.964", "1.036", "1.107", "1.179", "1.25"),
            "shape": ("cube", "cylinder", "sphere", "capsule"),
            "orientation": "15, -30 to 30 degrees",
        },
        totals={"all": 480_000},
        shape="64 x 64 x 3",
        licence="Apache-2.0",
        citation="Burgess, Kim, 3D Shapes Dataset, 2018; used first in Kim, Mnih, Disentangling by Factorising, ICML 2018",
        used={
            "jeon2025": "label shape; object hue, wall hue, scale (tables 3, 6, 10; figures 3, 6, 9-14)",
            "wiles2022": "label shape; colour (figures 2-7)",
        },
        layout="github.com/google-deepmind/3d-shapes (README and loading example)",
        files=(
            Original(
                "3dshapes.h5",
                "https://storage.googleapis.com/3d-shapes/3dshapes.h5",
                267_573_662,
                "0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
            ),
        ),
        drawn=True,
    )

    def load(self) -> AttributedDataset:
        """The data set: 480,000 rows, images uint8 [size, size, 3]. Raises `DataError` where the original is not prepared."""
        if self.original:
            if self.size != 64:
                raise InputError("shapes3d.size", f"the original's pictures have 64 pixels a side, not {self.size}")
            return super().load()
        codes = np.indices(_counts(), dtype=np.uint8).reshape(len(FACTORS), -1)
        return AttributedDataset(
            name="shapes3d",
            table=AttributeTable(_attributes(), codes),
            images=_painter(self.size),
            image_shape=(self.size, self.size, 3),
            fingerprint=digest({"source": "shapes3d", "drawing": 1, "size": self.size}),
        )

    def read(self, folder: Path) -> Reading:
        """3dshapes.h5 of `folder`: `images` uint8 [n, 64, 64, 3] and `labels` [n, 6], the factors' values. Needs h5py."""
        from crosswind.data.archives.hdf5 import hdf5_rows, read_hdf5

        path = folder / FILE
        labels = read_hdf5(path, "labels", Expected("floats", (None, len(FACTORS))))
        pictures = hdf5_rows(path, "images", Expected("uint8", (len(labels), 64, 64, 3)))
        codes = _codes(path, labels)
        if len(np.unique(np.ravel_multi_index(tuple(codes.astype(np.int64)), _counts()))) < len(labels):
            raise DataError(f"{path} is not the Shapes3D file: 'labels' has two rows alike")
        table = AttributeTable(_attributes(), codes)
        return Reading(AttributedDataset("shapes3d", table, pictures, (64, 64, 3)), {"all": len(labels)})

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy, its pictures named by their factors as where they are drawn."""
        places = np.ravel_multi_index(tuple(dataset.table.codes.astype(np.int64)), _counts())
        return replace(dataset, originals=places.astype(np.uint64))


def _attributes() -> tuple[Attribute, ...]:
    names = {
        **{name: tuple(map(str, HUES)) for name in ("floor_hue", "wall_hue", "object_hue")},
        "scale": tuple(f"{scale:.3f}".rstrip("0") for scale in SCALES),
        "shape": SHAPES,
        "orientation": tuple(f"{degrees:.1f}" for degrees in ORIENTATIONS),
    }
    return tuple(Attribute(name, names[name]) for name in FACTORS)


def _counts() -> tuple[int, ...]:
    return tuple(len(values) for values in FACTORS.values())


def _codes(path: Path, labels: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The places of the labels' values among those of the factors: uint8 [6, n]."""
    codes = np.empty((len(FACTORS), len(labels)), dtype=np.uint8)
    for column, (name, values) in enumerate(FACTORS.items()):
        wanted = np.array(values, dtype=np.float64)
        nearest = np.abs(np.nan_to_num(labels[:, column, None], nan=np.inf) - wanted).argmin(axis=1)
        off = ~(np.abs(labels[:, column] - wanted[nearest]) < 1e-3)
        if off.any():
            row = int(np.argmax(off))
            raise DataError(
                f"{path}: row {row} of 'labels' has {name} {labels[row, column]:g}, which is none of its {len(values)} values"
            )
        codes[column] = nearest
    return codes


def _painter(size: int) -> Callable[[NDArray[np.int64]], NDArray[np.uint8]]:
    colors = hue_colors(SATURATION, VALUE, len(HUES))
    counts = _counts()

    def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        floor, wall, solid, *view = np.unravel_index(rows, counts)
        return drawn_rooms(np.ravel_multi_index(tuple(view), counts[3:]), colors[floor], colors[wall], colors[solid], size)

    return images
