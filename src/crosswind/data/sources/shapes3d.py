"""Shapes3D: one solid in the middle of a coloured room, over the full grid of six factors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError, InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec, digest
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.shapes3d_renderer import ORIENTATIONS, SCALES, SHAPES, drawn_rooms, hue_colors
from crosswind.data.sources.base import PreparedSource, Reading

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
    card = card_of("shapes3d")

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
            read=_painter(self.size),
            input=InputSpec.image(self.size, self.size, 3),
            fingerprint=digest({"source": "shapes3d", "drawing": 1, "size": self.size}),
        )

    def read(self, folder: Path) -> Reading:
        """3dshapes.h5 of `folder`: `images` uint8 [n, 64, 64, 3] and `labels` [n, 6], the factors' values. Needs h5py."""
        from crosswind.data.archives.arrays import Expected, hdf5_rows, whole_hdf5

        path = self.trusted(folder / FILE, whole_hdf5)
        labels = hdf5_rows(path, "labels", Expected("floats", (None, len(FACTORS)))).all()
        pictures = hdf5_rows(path, "images", Expected("uint8", (len(labels), 64, 64, 3)))
        codes = _codes(path, labels)
        if len(np.unique(np.ravel_multi_index(tuple(codes.astype(np.int64)), _counts()))) < len(labels):
            raise DataError(f"{path} is not the Shapes3D file: 'labels' has two rows alike")
        table = AttributeTable(_attributes(), codes)
        return Reading(AttributedDataset("shapes3d", table, pictures, InputSpec.image(64, 64, 3)), {"all": len(labels)})

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
