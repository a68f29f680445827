"""MPI3D: one object on a robot's arm before a coloured ground, rendered simply, rendered realistically, and photographed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosswind.core.cards import Card, Original
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.archives.npz import Expected, header_of, rows_of_member
from crosswind.data.archives.rows import StreamedRows
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import PreparedSource, Reading

__all__ = ["MPI3D"]

COLORS = ("white", "green", "red", "blue", "brown", "olive")
SHAPES = ("cone", "cube", "cylinder", "hexagonal", "pyramid", "sphere")
COMPLEX_COLORS = ("yellow", "green", "olive", "red")
COMPLEX_SHAPES = ("coffee-cup", "tennis-ball", "croissant", "beer-cup")
SIZES = ("small", "large")
HEIGHTS = ("top", "center", "bottom")
GROUNDS = ("purple", "sea green", "salmon")
POSITIONS = 40
BLOCK = 256  # rows that are unpacked at once


@register("mpi3d", kind="source")
@dataclass(frozen=True)
class MPI3D(PreparedSource):
    """1,036,800 pictures of an object on a robot's arm; three renderings of one grid of seven factors, and one of real things.

    `rendering`: `toy` (simple), `realistic`, `real` (photographs of the same 36 objects), `complex` (460,800 photographs of cups,
    a tennis ball and a croissant). Attributes: `object_color`, `object_shape`, `object_size` (small, large), `camera_height`
    (top, center, bottom), `background_color` (purple, sea green, salmon), `horizontal_axis` and `vertical_axis` (0-39). Every
    combination is one row, the first factor slowest; the files hold no labels, so a row's factors are those of its number.
    A copy takes 12.7 GB (`complex` 5.7 GB). The archive is unpacked as a stream, in bounded memory and without a second copy.
    Reference: Gondal et al., On the Transfer of Inductive Bias from Simulation to the Real World, NeurIPS 2019.
    """

    rendering: str = knob("toy", domain="{toy, realistic, real, complex}", doc="which of the four archives")

    card = Card(
        attributes={
            "object_color": ("white", "green", "red", "blue", "brown", "olive"),
            "object_shape": ("cone", "cube", "cylinder", "hexagonal", "pyramid", "sphere"),
            "object_size": ("small", "large"),
            "camera_height": ("top", "center", "bottom"),
            "background_color": ("purple", "sea green", "salmon"),
            "horizontal_axis": 40,
            "vertical_axis": 40,
        },
        totals={"all": 1_036_800},
        shape="64 x 64 x 3",
        licence="CC BY 4.0",
        citation=(
            "Gondal, Wuthrich, Miladinovic, Locatello, Breidt, Volchkov, Akpo, Bachem, Schoelkopf, Bauer, On the Transfer of "
            "Inductive Bias from Simulation to the Real World: a New Disentanglement Dataset, NeurIPS 2019"
        ),
        used={"wiles2022": "label shape (our reading); colour (figures 2-7)"},
        layout="github.com/rr-learning/disentanglement_dataset (README)",
        get=(
            "crosswind prepare fetches the first three; that of real things, real3d_complicated_shapes_ordered.npz, lies on Google "
            "Drive, linked from github.com/rr-learning/disentanglement_dataset"
        ),
        files=(
            Original(
                "mpi3d_toy.npz",
                "https://huggingface.co/datasets/waleedgondal/mpi3d/resolve/main/mpi3d_toy.npz",
                md5="55889cb7c7dfc655d6e0277beee88868",
                variant="toy",
            ),
            Original(
                "mpi3d_realistic.npz",
                "https://huggingface.co/datasets/waleedgondal/mpi3d/resolve/main/mpi3d_realistic.npz",
                md5="59a6225b88b635365f70c91b3e52f70f",
                variant="realistic",
            ),
            Original(
                "mpi3d_real.npz",
                "https://huggingface.co/datasets/waleedgondal/mpi3d/resolve/main/mpi3d_real.npz",
                md5="0f33f609918fb5c97996692f91129802",
                variant="real",
            ),
            Original("real3d_complicated_shapes_ordered.npz", variant="complex"),
        ),
    )

    def originals(self) -> tuple[Original, ...]:
        """The archive of this rendering."""
        return tuple(item for item in self.card.files if item.variant == self.rendering)

    def totals(self) -> Mapping[str, int]:
        """1,036,800 rows, or the 460,800 of the real things."""
        return {"all": math.prod(len(attribute) for attribute in self._attributes())}

    def read(self, folder: Path) -> Reading:
        """The archive's `images`, uint8 [n, 64, 64, 3]. Fewer rows than the grid has are its first ones."""
        path = folder / self.originals()[0].name
        header = header_of(path, "images", Expected("uint8", (None, 64, 64, 3)))
        expected = Expected("uint8", header.shape)
        rows = StreamedRows(lambda: rows_of_member(path, "images", expected, BLOCK), header.shape, header.dtype, BLOCK)
        attributes = self._attributes()
        counts = [len(attribute) for attribute in attributes]
        if header.shape[0] > math.prod(counts):
            raise DataError(f"{path} holds {header.shape[0]:,} pictures, more than the {math.prod(counts):,} of the grid")
        codes = np.unravel_index(np.arange(header.shape[0]), counts)
        table = AttributeTable(attributes, np.stack([part.astype(np.uint8) for part in codes]))
        return Reading(AttributedDataset("mpi3d", table, rows, (64, 64, 3)), {"all": header.shape[0]})

    def _attributes(self) -> tuple[Attribute, ...]:
        real = self.rendering == "complex"
        return (
            Attribute("object_color", COMPLEX_COLORS if real else COLORS),
            Attribute("object_shape", COMPLEX_SHAPES if real else SHAPES),
            Attribute("object_size", SIZES),
            Attribute("camera_height", HEIGHTS),
            Attribute("background_color", GROUNDS),
            Attribute("horizontal_axis", tuple(map(str, range(POSITIONS)))),
            Attribute("vertical_axis", tuple(map(str, range(POSITIONS)))),
        )
