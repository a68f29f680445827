"""dSprites: one shape on a plain ground, over the full grid of six latents, in the colours of the concurrent-shifts paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError, InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.seeds import hash64, seed_of
from crosswind.core.types import InputSpec, digest
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.dsprites_renderer import Archive, drawn_covers
from crosswind.data.sources.base import PreparedSource, Reading

SHAPES = ("square", "ellipse", "heart")
SCALES = ("0.5", "0.6", "0.7", "0.8", "0.9", "1.0")
COUNTS = (3, 6, 40, 32, 32)
ROWS = 737_280
OBJECT_COLORS = {"red": (255, 0, 0), "yellow": (255, 255, 0), "blue": (0, 0, 255)}
BACKGROUND_COLORS = {"orange": (255, 153, 51), "green": (0, 153, 0), "purple": (102, 0, 255)}

FILE = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"

Colors = tuple[NDArray[np.uint8], NDArray[np.uint8]]
Covers = Callable[[NDArray[np.int64]], NDArray[np.uint8]]


@register("dsprites", kind="source")
@dataclass(frozen=True)
class DSprites(PreparedSource):
    """737,280 pictures of one square, ellipse or heart, drawn when asked for, or read from the original archive.

    Attributes: `shape`, `scale` (0.5 to 1.0), `orientation` (0-39, 40 angles from 0 to 2 pi, the last equal to the first), `x` and
    `y` (0-31), `object_color` (red, yellow, blue), `background_color` (orange, green, purple). A row is one of the archive's
    latents, in the archive's order. Its two colours are dealt by seed, evenly inside every shape and scale: the numbers of rows
    of the nine pairs of colours differ by at most one there. One latent is one row, so it never appears in two colours or roles.
    Drawn pixels are not the archive's: the shapes, their sizes and their places are like those of the archive, with smooth edges
    unless `antialias` is false. With `original`, the copy that `crosswind prepare dsprites` made of the archive (white on black,
    3 GB) is read instead and coloured the same way. `path` names the archive itself and needs no copy: it is read into 377 MB of
    memory once images are asked for.
    References: Matthey et al., dSprites, 2017; colours: Jeon et al. 2025, appendix A.2.
    """

    path: str | None = knob(None, doc="the original npz, read without a prepared copy")
    size: int = knob(64, domain="[16, 512]", doc="side of the drawn picture in pixels; the archive's is 64")
    seed: int = knob(0, domain="[0, inf)", doc="deals the two colours to the rows")
    antialias: bool = knob(True, doc="smooth edges of drawn shapes; the archive's are hard")
    original: bool = knob(False, doc="read the prepared copy of the original archive; drawn where false")

    after = ("path", "size", "seed", "antialias", "original")
    card = card_of("dsprites")

    def load(self) -> AttributedDataset:
        """The data set: 737,280 rows, images uint8 [size, size, 3].

        Raises `InputError` and `DataError` for a bad archive, and where the original is asked for and not prepared.
        """
        if self.original and self.path is not None:
            raise InputError("dsprites.path", "is read as it is, and original reads the prepared copy: give one of them")
        if self.size != 64 and (self.original or self.path is not None):
            raise InputError("dsprites.size", f"the archive's pictures have 64 pixels a side, not {self.size}")
        if self.original:
            return super().load()
        told: dict[str, object] = {"source": "dsprites", "drawing": 1, "seed": self.seed, "size": self.size}
        if self.path is None:
            told["antialias"] = self.antialias
            covers: Covers = _drawn(self.size, self.antialias)
        else:
            archive = Archive(_file(self.path))
            told["archive"] = archive.fingerprint
            covers = archive.covers
        codes = np.indices(COUNTS, dtype=np.uint8).reshape(len(COUNTS), ROWS)
        return _with_colors(codes, _dealt_colors(self.seed), covers, self.size, digest(told))

    def read(self, folder: Path) -> Reading:
        """The archive of `folder`: `imgs` uint8 [n, 64, 64], 0 or 1, and `latents_classes` [n, 6]. Objects in it stay unread."""
        from crosswind.data.archives.arrays import Expected, npz_rows, read_arrays

        path = folder / FILE
        latents = read_arrays(path, {"latents_classes": Expected("integers", (None, len(COUNTS) + 1))})["latents_classes"]
        for column, count in enumerate((1, *COUNTS)):
            if latents.size and not 0 <= latents[:, column].min() <= latents[:, column].max() < count:
                raise DataError(f"{path}: column {column} of 'latents_classes' is not whole numbers from 0 to {count - 1}")
        if len(np.unique(np.ravel_multi_index(tuple(latents[:, 1:].T), COUNTS))) < len(latents):
            raise DataError(f"{path} is not the dSprites archive: 'latents_classes' has two rows alike")
        rows = npz_rows(path, "imgs", Expected("uint8", (len(latents), 64, 64)))

        def images(asked: NDArray[np.int64]) -> NDArray[np.uint8]:
            found: NDArray[np.uint8] = rows(asked)
            if found.size and found.max() > 1:
                raise DataError(f"{path} is not the dSprites archive: pixels of 'imgs' are not all 0 or 1")
            return (found * np.uint8(255))[..., None]

        table = AttributeTable(_latents(), latents[:, 1:].T)
        return Reading(AttributedDataset("dsprites", table, images, InputSpec.image(64, 64, 1)), {"all": len(latents)})

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy's white shapes in the colours that the seed deals to their latents."""
        latents = dataset.table.codes
        objects, grounds = _dealt_colors(self.seed)
        places = np.ravel_multi_index(tuple(latents.astype(np.int64)), COUNTS)
        fingerprint = digest({"of": dataset.fingerprint, "seed": self.seed})
        made = _with_colors(latents, (objects[places], grounds[places]), lambda rows: dataset.inputs(rows)[..., 0], 64, fingerprint)
        # A picture is named by its latents, as where it is drawn: turned by a quarter a square has the same pixels.
        return replace(made, originals=places.astype(np.uint64))


def _latents() -> tuple[Attribute, ...]:
    places = zip(("orientation", "x", "y"), COUNTS[2:], strict=True)
    return (
        Attribute("shape", SHAPES),
        Attribute("scale", SCALES),
        *(Attribute(name, tuple(map(str, range(n)))) for name, n in places),
    )


def _with_colors(
    latents: NDArray[np.integer[Any]], colors: Colors, covers: Covers, size: int, fingerprint: str
) -> AttributedDataset:
    """The data set of rows with latents [5, n] and the colours of object and ground."""
    attributes = (
        *_latents(),
        Attribute("object_color", tuple(OBJECT_COLORS)),
        Attribute("background_color", tuple(BACKGROUND_COLORS)),
    )
    return AttributedDataset(
        name="dsprites",
        table=AttributeTable(attributes, np.concatenate([latents, np.stack(colors)])),
        read=_colored(covers, *colors),
        input=InputSpec.image(size, size, 3),
        fingerprint=fingerprint,
    )


def _file(path: str) -> Path:
    place = Path(path).expanduser()
    if not place.exists():
        raise InputError("dsprites.path", f"there is no file {path!r}")
    if not place.is_file():
        raise InputError("dsprites.path", f"{path!r} is not a file")
    return place


def _dealt_colors(seed: int) -> Colors:
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
