"""dSprites: one shape on a plain ground, over the full grid of six latents, in the colours of the concurrent-shifts paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.seeds import hash64, seed_of
from crosswind.core.types import digest
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import Source
from crosswind.data.sprites import Archive, drawn_covers

__all__ = ["DSprites"]

SHAPES = ("square", "ellipse", "heart")
SCALES = ("0.5", "0.6", "0.7", "0.8", "0.9", "1.0")
COUNTS = (3, 6, 40, 32, 32)
ROWS = 737_280
OBJECT_COLORS = {"red": (255, 0, 0), "yellow": (255, 255, 0), "blue": (0, 0, 255)}
BACKGROUND_COLORS = {"orange": (255, 153, 51), "green": (0, 153, 0), "purple": (102, 0, 255)}

Covers = Callable[[NDArray[np.int64]], NDArray[np.uint8]]


@register("dsprites", kind="source")
@dataclass(frozen=True)
class DSprites(Source):
    """737,280 pictures of one square, ellipse or heart, drawn when asked for, or read from the original archive.

    Attributes: `shape`, `scale` (0.5 to 1.0), `orientation` (0-39, 40 angles from 0 to 2 pi, the last equal to the first), `x` and
    `y` (0-31), `object_color` (red, yellow, blue), `background_color` (orange, green, purple). A row is one of the archive's
    latents, in the archive's order. Its two colours are dealt by seed, evenly inside every shape and scale: the numbers of rows
    of the nine pairs of colours differ by at most one there. One latent is one row, so it never appears in two colours or roles.
    Drawn pixels are not the archive's: the shapes, their sizes and their places are like those of the archive, with smooth edges
    unless `antialias` is false. With `path`, the original dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz is read instead
    (377 MB of memory once images are asked for) and coloured the same way.
    References: Matthey et al., dSprites, 2017; colours: Jeon et al. 2025, appendix A.2.
    """

    path: str | None = knob(None, doc="the original npz; drawn where not given")
    size: int = knob(64, domain="[16, 512]", doc="side of the picture in pixels; 64 for the archive")
    seed: int = knob(0, domain="[0, inf)", doc="deals the two colours to the rows")
    antialias: bool = knob(True, doc="smooth edges of drawn shapes; the archive's are hard")

    def load(self) -> AttributedDataset:
        """The data set: 737,280 rows, images uint8 [size, size, 3]. Raises `InputError` and `DataError` for a bad archive."""
        told: dict[str, object] = {"source": "dsprites", "drawing": 1, "seed": self.seed, "size": self.size}
        if self.path is None:
            told["antialias"] = self.antialias
            covers: Covers = _drawn(self.size, self.antialias)
        else:
            if self.size != 64:
                raise InputError("dsprites.size", f"the archive's pictures have 64 pixels a side, not {self.size}")
            archive = Archive(_file(self.path))
            told["archive"] = archive.fingerprint
            covers = archive.covers
        objects, grounds = _dealt_colors(self.seed)
        codes = np.empty((7, ROWS), dtype=np.uint8)
        codes[:5] = np.indices(COUNTS, dtype=np.uint8).reshape(5, ROWS)
        codes[5], codes[6] = objects, grounds
        attributes = (
            Attribute("shape", SHAPES),
            Attribute("scale", SCALES),
            *(Attribute(name, tuple(map(str, range(n)))) for name, n in zip(("orientation", "x", "y"), COUNTS[2:], strict=True)),
            Attribute("object_color", tuple(OBJECT_COLORS)),
            Attribute("background_color", tuple(BACKGROUND_COLORS)),
        )
        return AttributedDataset(
            name="dsprites",
            table=AttributeTable(attributes, codes),
            images=_colored(covers, objects, grounds),
            image_shape=(self.size, self.size, 3),
            fingerprint=digest(told),
        )


def _file(path: str) -> Path:
    place = Path(path).expanduser()
    if not place.exists():
        raise InputError("dsprites.path", f"there is no file {path!r}")
    if not place.is_file():
        raise InputError("dsprites.path", f"{path!r} is not a file")
    return place


def _dealt_colors(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Object and background colour of every row: two uint8 [737280]."""
    blocks = COUNTS[0] * COUNTS[1]
    keys = (hash64(np.arange(ROWS), seed_of(seed, "dsprites", "colors")) >> np.uint64(48)).astype(np.uint16)
    # A stable sort of 16 bits is a radix sort: 737,280 rows take 10 ms, and equal keys fall in the order of the rows.
    order = np.argsort(keys.reshape(blocks, -1), axis=1, kind="stable")
    turn = (np.arange(order.shape[1]) % 9).astype(np.uint8)
    pairs = np.empty(order.shape, dtype=np.uint8)
    # Which pair begins differs by block, so that the pairs that get one row more are not the same ones everywhere.
    first = (hash64(np.arange(blocks), seed_of(seed, "dsprites", "first")) % np.uint64(9)).astype(np.uint8)
    np.put_along_axis(pairs, order, (turn[None] + first[:, None]) % 9, axis=1)
    objects, grounds = np.divmod(pairs.reshape(-1), np.uint8(3))
    return objects, grounds


def _drawn(size: int, antialias: bool) -> Covers:
    def covers(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        shape, scale, orientation, x, y = np.unravel_index(rows, COUNTS)
        factors = np.array([float(scale) for scale in SCALES])[scale]
        return drawn_covers(shape, factors, orientation, x, y, size, antialias)

    return covers


def _colored(
    covers: Covers, objects: NDArray[np.uint8], grounds: NDArray[np.uint8]
) -> Callable[[NDArray[np.int64]], NDArray[np.uint8]]:
    inks, papers = (np.array(list(table.values()), dtype=np.uint8) for table in (OBJECT_COLORS, BACKGROUND_COLORS))
    # One row of 256 mixtures for every pair of colours: colouring a picture is then one look-up a pixel.
    cover = np.arange(256)[:, None]
    mixed = (inks[:, None, None].astype(np.int64) * cover + papers[None, :, None].astype(np.int64) * (255 - cover) + 127) // 255
    table = np.zeros((9 * 256, 4), dtype=np.uint8)
    table[:, :3] = mixed.reshape(-1, 3)
    words = table.view(np.uint32)[:, 0]

    def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        out: NDArray[np.uint8] | None = None
        for start in range(0, len(rows), 64):
            part = rows[start : start + 64]
            cover = covers(part)
            if out is None:
                out = np.empty((len(rows), *cover.shape[1:], 3), dtype=np.uint8)
            first = (objects[part].astype(np.int64) * 3 + grounds[part]) * 256
            pixels = words.take(cover + first[:, None, None]).view(np.uint8).reshape(*cover.shape, 4)
            out[start : start + 64] = pixels[..., :3]
        return out if out is not None else np.empty((0, *covers(rows).shape[1:], 3), dtype=np.uint8)

    return images
