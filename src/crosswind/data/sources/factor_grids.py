"""Pictures over a full grid of factors: dSprites, Shapes3D and MPI3D."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from crosswind.data.dataset import AttributedDataset, Images
from crosswind.data.dsprites_renderer import drawn_covers
from crosswind.data.shapes3d_renderer import ORIENTATIONS, SCALES, SHAPES, drawn_rooms, hue_colors
from crosswind.data.sources.base import PreparedSource, Reading, check_known

COUNTS = (3, 6, 40, 32, 32)  # of dSprites' shape, scale, orientation, x and y
ROWS = 737_280
OBJECT_COLORS = {"red": (255, 0, 0), "yellow": (255, 255, 0), "blue": (0, 0, 255)}
BACKGROUND_COLORS = {"orange": (255, 153, 51), "green": (0, 153, 0), "purple": (102, 0, 255)}
PALETTES = {
    "on-colour": (OBJECT_COLORS, BACKGROUND_COLORS),
    "on-black": (
        {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)},
        {"black": (0, 0, 0)},
    ),
}

HUES = tuple(step / 10 for step in range(10))
# How the values of each factor are written in the labels of Shapes3D, in the order of its columns.
ROOM_FACTORS = {
    "floor_hue": HUES,
    "wall_hue": HUES,
    "object_hue": HUES,
    "scale": SCALES,
    "shape": tuple(map(float, range(len(SHAPES)))),
    "orientation": ORIENTATIONS,
}
ROOM_COUNTS = tuple(map(len, ROOM_FACTORS.values()))
SATURATION, VALUE = 0.7, 1.0

COMPLEX = {
    "object_color": ("yellow", "green", "olive", "red"),
    "object_shape": ("coffee-cup", "tennis-ball", "croissant", "beer-cup"),
}

Colors = tuple[NDArray[np.uint8], NDArray[np.uint8]]


@register("dsprites", kind="source")
@dataclass(frozen=True)
class DSprites(PreparedSource):
    """737,280 pictures of one square, ellipse or heart, drawn when asked for, or read from the
    original archive.

    Attributes: `shape`, `scale` (0.5 to 1.0), `orientation` (0-39, 40 angles from 0 to 2 pi, the
    last equal to the first), `x` and `y` (0-31), `object_color` (red, yellow, blue),
    `background_color` (orange, green, purple). A row is one of the archive's latents, in the
    archive's order. Its two colours are dealt by seed, evenly inside every shape and scale: the
    numbers of rows of the nine pairs of colours differ by at most one there. One latent is one row,
    so it never appears in two colours or roles. Drawn pixels are not the archive's: the shapes,
    their sizes and their places are like those of the archive, with smooth edges unless `antialias`
    is false. With `original`, the copy that `crosswind prepare dsprites` made of the archive (white
    on black, 3 GB) is read instead and coloured the same way. `path` names the archive itself and
    needs no copy: it is read into 377 MB of memory once images are asked for. With `palette`
    on-black, `object_color` is red, green or blue, and every ground black.
    References: Matthey et al., dSprites, 2017; colours: Jeon et al. 2025, appendix A.2; on black:
    Wiles et al. 2022, section 2.1.
    """

    path: str | None = knob(None, doc="the original npz, read without a prepared copy")
    size: int = knob(
        64, domain="[16, 512]", doc="side of the drawn picture in pixels; the archive's is 64"
    )
    seed: int = knob(0, domain="[0, inf)", doc="deals the two colours to the rows")
    antialias: bool = knob(True, doc="smooth edges of drawn shapes; the archive's are hard")
    original: bool = knob(
        False, doc="read the prepared copy of the original archive; drawn where false"
    )
    palette: str = knob(
        "on-colour",
        domain="{on-colour, on-black}",
        doc=(
            "red, yellow, blue on orange, green, purple (Jeon et al. 2025), or red, green, blue on"
            " black (Wiles et al. 2022)"
        ),
    )

    after = ("path", "size", "seed", "antialias", "original", "palette")
    card = card_of("dsprites")

    def attributes(self) -> tuple[Attribute, ...]:
        """Those of the card, with the colours of the palette."""
        colors = map(tuple, PALETTES[self.palette])
        return (
            *super().attributes()[: len(COUNTS)],
            *map(Attribute, ("object_color", "background_color"), colors),
        )

    def load(self) -> AttributedDataset:
        """The data set: 737,280 rows, images uint8 [size, size, 3].

        Raises `InputError` and `DataError` for a bad archive, and where the original is asked for
        and not prepared.
        """
        if self.original and self.path is not None:
            raise InputError(
                "dsprites.path",
                "is read as it is, and original reads the prepared copy: give one of them",
            )
        if self.size != 64 and (self.original or self.path is not None):
            raise InputError(
                "dsprites.size", f"the archive's pictures have 64 pixels a side, not {self.size}"
            )
        if self.original:
            return super().load()
        identity: dict[str, object] = {
            "source": "dsprites",
            "drawing": 1,
            "seed": self.seed,
            "size": self.size,
            **self._palette,
        }
        if self.path is None:
            identity["antialias"] = self.antialias
            covers: Images = self._drawn
        else:
            covers, identity["archive"] = _archive(self.path)
        codes = np.indices(COUNTS, dtype=np.uint8).reshape(len(COUNTS), ROWS)
        return self._colored(codes, self._dealt(), covers, digest(identity))

    def read(self, folder: Path) -> Reading:
        """The archive of `folder`: `imgs` uint8 [n, 64, 64], 0 or 1, and `latents_classes` [n, 6].
        Objects in it stay unread."""
        from crosswind.data.archives.arrays import Expected, npz_rows, read_arrays

        path = folder / self.card.files[0].name
        latents_classes = Expected("integers", (None, len(COUNTS) + 1))
        expected = {"latents_classes": latents_classes}
        latents = read_arrays(path, expected)["latents_classes"]
        for column, count in enumerate((1, *COUNTS)):
            value_words = f"{path}: column {column} of 'latents_classes'"
            check_known(latents[:, column], range(count), value_words)
        shape = (len(latents), 64, 64)
        rows = npz_rows(path, "imgs", Expected("uint8", shape))

        def images(row_numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
            return (_black_or_white(rows(row_numbers), path) * np.uint8(255))[..., None]

        factors = self.attributes()[: len(COUNTS)]
        return _reading("dsprites", factors, latents[:, 1:].T, images, 1, path)

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy's white shapes in the colours that the seed deals to their latents."""
        latents = dataset.table.codes
        objects, grounds = self._dealt()
        grid_numbers = np.ravel_multi_index(tuple(latents.astype(np.int64)), COUNTS)
        fingerprint = digest({"of": dataset.fingerprint, "seed": self.seed, **self._palette})
        colors = (objects[grid_numbers], grounds[grid_numbers])
        coloured = self._colored(
            latents, colors, lambda rows: dataset.inputs(rows)[..., 0], fingerprint
        )
        # A picture is named by its latents, as where it is drawn: turned by a quarter a square has
        # the same pixels.
        return replace(coloured, originals=grid_numbers.astype(np.uint64))

    @property
    def _palette(self) -> dict[str, object]:
        """The part of a fingerprint that is the palette's: nothing of the first, so that what is
        known of its pictures stays so."""
        if self.palette == "on-colour":
            return {}
        return {"palette": self.palette}

    def _dealt(self) -> Colors:
        objects, grounds = _dealt_colors(self.seed)
        return objects, np.minimum(grounds, len(PALETTES[self.palette][1]) - 1)

    def _drawn(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        shape, scale, orientation, x, y = np.unravel_index(rows, COUNTS)
        scales = np.array([float(scale) for scale in self.card.attributes["scale"]])
        return drawn_covers(shape, scales[scale], orientation, x, y, self.size, self.antialias)

    def _colored(
        self, latents: NDArray[np.integer[Any]], colors: Colors, covers: Images, fingerprint: str
    ) -> AttributedDataset:
        """The data set of rows with latents [5, n], the colours of object and ground, and how far
        the object covers the pixels."""
        codes = np.concatenate([latents, np.stack(colors)])
        table = AttributeTable(self.attributes(), codes)
        shape = InputSpec.image(self.size, self.size, 3)
        return AttributedDataset(
            "dsprites",
            table,
            _mixed(covers, *colors, self.size, self.palette),
            shape,
            fingerprint=fingerprint,
        )


@register("shapes3d", kind="source")
@dataclass(frozen=True)
class Shapes3D(PreparedSource):
    """480,000 pictures of a solid in a room, drawn when asked for, or read from the original file.

    Attributes: `floor_hue`, `wall_hue`, `object_hue` (0.0 to 0.9 of the circle of hues), `scale`
    (eight from 0.75 to 1.25), `shape` (cube, cylinder, sphere, capsule), `orientation` (15 from -30
    to 30 degrees). Every combination is one row, in the original's order: the first factor slowest.
    Drawn pixels are not the original's: the room, the solids and their colours are like its, cast
    with 16 rays a pixel in a light of our choice. With `original`, the copy that `crosswind prepare
    shapes3d` made of 3dshapes.h5 is read instead.
    Reference: C. Burgess, H. Kim, 3D Shapes Dataset, 2018.
    """

    original: bool = knob(
        False, doc="read the prepared copy of the original file; drawn where false"
    )
    size: int = knob(
        64, domain="[16, 512]", doc="side of the drawn picture in pixels; the original's is 64"
    )

    after = ("original", "size")
    card = card_of("shapes3d")

    def load(self) -> AttributedDataset:
        """The data set: 480,000 rows, images uint8 [size, size, 3]. Raises `DataError` where the
        original is not prepared."""
        if self.original:
            if self.size != 64:
                raise InputError(
                    "shapes3d.size",
                    f"the original's pictures have 64 pixels a side, not {self.size}",
                )
            return super().load()
        colors = hue_colors(SATURATION, VALUE, len(HUES))

        def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
            floor, wall, solid, *view = np.unravel_index(rows, ROOM_COUNTS)
            views = np.ravel_multi_index(tuple(view), ROOM_COUNTS[3:])
            return drawn_rooms(views, colors[floor], colors[wall], colors[solid], self.size)

        codes = np.indices(ROOM_COUNTS, dtype=np.uint8).reshape(len(ROOM_COUNTS), -1)
        table = AttributeTable(self.attributes(), codes)
        fingerprint = digest({"source": "shapes3d", "drawing": 1, "size": self.size})
        input_spec = InputSpec.image(self.size, self.size, 3)
        return AttributedDataset(
            name="shapes3d", table=table, read=images, input=input_spec, fingerprint=fingerprint
        )

    def read(self, folder: Path) -> Reading:
        """3dshapes.h5 of `folder`: `images` uint8 [n, 64, 64, 3] and `labels` [n, 6], the factors'
        values. Needs h5py."""
        from crosswind.data.archives.arrays import Expected, hdf5_rows, whole_hdf5

        path = self.trusted(folder / self.card.files[0].name, whole_hdf5)
        expected = Expected("floats", (None, len(ROOM_COUNTS)))
        labels = hdf5_rows(path, "labels", expected).all()
        shape = (len(labels), 64, 64, 3)
        pictures = hdf5_rows(path, "images", Expected("uint8", shape))
        codes = np.empty((len(ROOM_COUNTS), len(labels)), dtype=np.uint8)
        for code, factor_column, (name, values) in zip(
            codes, labels.T, ROOM_FACTORS.items(), strict=True
        ):
            is_near = np.abs(factor_column[:, None] - np.array(values)) < 1e-3
            value_words = f"{path}: {name} in 'labels'"
            check_known(np.where(is_near.any(axis=1), 0, factor_column), (0,), value_words, values)
            code[:] = is_near.argmax(axis=1)
        return _reading("shapes3d", self.attributes(), codes, pictures, 3, path)

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy, its pictures named by their factors as where they are drawn."""
        grid_numbers = np.ravel_multi_index(
            tuple(dataset.table.codes.astype(np.int64)), ROOM_COUNTS
        )
        return replace(dataset, originals=grid_numbers.astype(np.uint64))


@register("mpi3d", kind="source")
@dataclass(frozen=True)
class MPI3D(PreparedSource):
    """1,036,800 pictures of an object on a robot's arm; three renderings of one grid of seven
    factors, and one of real things.

    `rendering`: `toy` (simple), `realistic`, `real` (photographs of the same 36 objects), `complex`
    (460,800 photographs of cups, a tennis ball and a croissant). Attributes: `object_color`,
    `object_shape`, `object_size` (small, large), `camera_height` (top, center, bottom),
    `background_color` (purple, sea green, salmon), `horizontal_axis` and `vertical_axis` (0-39).
    Every combination is one row, the first factor slowest; the files hold no labels, so a row's
    factors are those of its number.
    A copy takes 12.7 GB (`complex` 5.7 GB). The archive is unpacked as a stream, in bounded memory
    and without a second copy. Reference: Gondal et al., On the Transfer of Inductive Bias from
    Simulation to the Real World, NeurIPS 2019.
    """

    rendering: str = knob(
        "toy", domain="{toy, realistic, real, complex}", doc="which of the four archives"
    )

    card = card_of("mpi3d")

    def variants(self) -> tuple[str, ...]:
        """The archive of this rendering."""
        return (self.rendering,)

    def totals(self) -> Mapping[str, int]:
        """1,036,800 rows, or the 460,800 of the real things."""
        return {"all": math.prod(map(len, self.attributes()))}

    def attributes(self) -> tuple[Attribute, ...]:
        """Those of the card, with other objects where they are real things."""
        complex_values = COMPLEX if self.rendering == "complex" else {}
        return tuple(
            Attribute(attribute.name, complex_values.get(attribute.name, attribute.values))
            for attribute in super().attributes()
        )

    def read(self, folder: Path) -> Reading:
        """The archive's `images`, uint8 [n, 64, 64, 3]. Fewer rows than the grid has are its first
        ones."""
        from crosswind.data.archives.arrays import Expected, npz_rows

        path = folder / self.originals()[0].name
        rows = npz_rows(path, "images", Expected("uint8", (None, 64, 64, 3)))
        n = rows.shape[0]
        n_published = self.totals()["all"]
        if n > n_published:
            problem = f"{path} holds {n:,} pictures, more than the {n_published:,} of the grid"
            raise DataError(problem)
        codes = np.unravel_index(np.arange(n), [len(attribute) for attribute in self.attributes()])
        code_columns = np.stack([code_column.astype(np.uint8) for code_column in codes])
        return _reading("mpi3d", self.attributes(), code_columns, rows, 3, path)


def _reading(
    name: str,
    attributes: Sequence[Attribute],
    codes: NDArray[np.integer[Any]],
    images: Images,
    channels: int,
    path: Path,
) -> Reading:
    """The rows of a file whose pictures have 64 pixels a side. Raises `DataError` where two rows
    have the same codes."""
    counts = [len(attribute) for attribute in attributes]
    if len(np.unique(np.ravel_multi_index(tuple(codes.astype(np.int64)), counts))) < codes.shape[1]:
        raise DataError(f"{path} is not the file of {name}: two of its rows have the same factors")
    table = AttributeTable(tuple(attributes), codes)
    dataset = AttributedDataset(name, table, images, InputSpec.image(64, 64, channels))
    return Reading(dataset, {"all": codes.shape[1]})


def _archive(archive_path: str) -> tuple[Images, str]:
    """The coverage of the shapes of dSprites' archive, uint8 [n, 64, 64], 0 or 255, and a
    fingerprint of its checksums.

    Read as a stream into one bit a pixel when pictures are first asked for.
    """
    from crosswind.data.archives.arrays import Expected, npz_rows, sums_of

    path = Path(archive_path).expanduser()
    if not path.is_file():
        raise InputError("dsprites.path", f"there is no file {archive_path!r}")
    expected = Expected("integers", (ROWS, len(COUNTS) + 1))
    latents = npz_rows(path, "latents_classes", expected)
    pictures = npz_rows(path, "imgs", Expected("uint8", (ROWS, 64, 64)))
    sums = sums_of(path)
    cover_blocks: list[NDArray[np.uint8]] = []

    def covers(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        if not cover_blocks:
            grid = np.stack(np.unravel_index(np.arange(ROWS), (1, *COUNTS)), axis=1)
            if not np.array_equal(latents.all(), grid):
                raise DataError(
                    f"{path} is not the dSprites archive: 'latents_classes' is not the full grid in"
                    " its order"
                )
            bits = np.empty((ROWS, 64 * 64 // 8), dtype=np.uint8)
            start = 0
            for block in pictures.blocks():
                bits[start : start + len(block)] = np.packbits(
                    _black_or_white(block, path).reshape(-1, 64 * 64), axis=1
                )
                start += len(block)
            cover_blocks.append(bits)
        return np.unpackbits(cover_blocks[0][rows], axis=1).reshape(-1, 64, 64) * np.uint8(255)

    return covers, digest({key: sums[key] for key in ("imgs", "latents_classes")})


def _black_or_white(pictures: NDArray[np.uint8], path: Path) -> NDArray[np.uint8]:
    if pictures.size and pictures.max() > 1:
        raise DataError(f"{path} is not the dSprites archive: pixels of 'imgs' are not all 0 or 1")
    return pictures


def _dealt_colors(seed: int) -> Colors:
    """Object and background colour of every row: two uint8 [737280]."""
    blocks = COUNTS[0] * COUNTS[1]
    ids = np.arange(ROWS)
    keys = (hash64(ids, seed_of(seed, "dsprites", "colors")) >> np.uint64(48)).astype(np.uint16)
    # A stable sort of 16 bits is a radix sort: 737,280 rows take 10 ms, and equal keys fall in the
    # order of the rows.
    order = np.argsort(keys.reshape(blocks, -1), axis=1, kind="stable")
    # Which pair begins differs by block, so that the pairs that get one row more are not the same
    # ones everywhere.
    first = (hash64(np.arange(blocks), seed_of(seed, "dsprites", "first")) % np.uint64(9)).astype(
        np.uint8
    )
    pairs = np.empty(order.shape, dtype=np.uint8)
    turn = (np.arange(order.shape[1]) % 9).astype(np.uint8)
    np.put_along_axis(pairs, order, (turn + first[:, None]) % 9, axis=1)
    objects, grounds = np.divmod(pairs.reshape(-1), np.uint8(3))
    return objects, grounds


def _mixed(
    covers: Images, objects: NDArray[np.uint8], grounds: NDArray[np.uint8], size: int, palette: str
) -> Images:
    inks, papers = (np.array(list(table.values()), dtype=np.uint8) for table in PALETTES[palette])
    # One row of 256 mixtures for every pair of colours: colouring a picture is then one look-up a
    # pixel.
    cover = np.arange(256)[:, None]
    of_ink = inks[:, None, None].astype(np.int64) * cover
    of_paper = papers[None, :, None].astype(np.int64) * (255 - cover)
    mixed = (of_ink + of_paper + 127) // 255
    table = np.zeros((len(inks) * len(papers) * 256, 4), dtype=np.uint8)
    table[:, :3] = mixed.reshape(-1, 3)
    words = table.view(np.uint32)[:, 0]

    def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        out = np.empty((len(rows), size, size, 3), dtype=np.uint8)
        for start in range(0, len(rows), 64):
            row_chunk = rows[start : start + 64]
            cover = covers(row_chunk)
            first = (objects[row_chunk].astype(np.int64) * len(papers) + grounds[row_chunk]) * 256
            pixels = (
                words.take(cover + first[:, None, None]).view(np.uint8).reshape(*cover.shape, 4)
            )
            out[start : start + 64] = pixels[..., :3]
        return out

    return images
