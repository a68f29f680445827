"""MPI3D: one object on a robot's arm before a coloured ground, rendered simply, rendered realistically, and photographed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import PreparedSource, Reading

COMPLEX_COLORS = ("yellow", "green", "olive", "red")
COMPLEX_SHAPES = ("coffee-cup", "tennis-ball", "croissant", "beer-cup")


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

    card = card_of("mpi3d")

    def variants(self) -> tuple[str, ...]:
        """The archive of this rendering."""
        return (self.rendering,)

    def totals(self) -> Mapping[str, int]:
        """1,036,800 rows, or the 460,800 of the real things."""
        return {"all": math.prod(len(attribute) for attribute in self._attributes())}

    def read(self, folder: Path) -> Reading:
        """The archive's `images`, uint8 [n, 64, 64, 3]. Fewer rows than the grid has are its first ones."""
        from crosswind.data.archives.arrays import Expected, npz_rows

        path = folder / self.originals()[0].name
        rows = npz_rows(path, "images", Expected("uint8", (None, 64, 64, 3)))
        attributes, n = self._attributes(), rows.shape[0]
        counts = [len(attribute) for attribute in attributes]
        if n > math.prod(counts):
            raise DataError(f"{path} holds {n:,} pictures, more than the {math.prod(counts):,} of the grid")
        codes = np.unravel_index(np.arange(n), counts)
        table = AttributeTable(attributes, np.stack([part.astype(np.uint8) for part in codes]))
        return Reading(AttributedDataset("mpi3d", table, rows, InputSpec.image(64, 64, 3)), {"all": n})

    def _attributes(self) -> tuple[Attribute, ...]:
        values = dict(self.card.attributes)
        if self.rendering == "complex":
            values |= {"object_color": COMPLEX_COLORS, "object_shape": COMPLEX_SHAPES}
        return tuple(
            Attribute(name, tuple(map(str, range(found))) if isinstance(found, int) else found) for name, found in values.items()
        )
