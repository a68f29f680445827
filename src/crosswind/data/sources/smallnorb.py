"""Small NORB: fifty toys photographed by two cameras, at 9 elevations, 18 azimuths and in 6
lightings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError, InputError, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec, digest
from crosswind.data.attributes import AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.resizing import in_channels, resized
from crosswind.data.sources.base import PreparedSource, Reading, check_known, original_file

STEP = 20  # degrees of azimuth between two pictures of a toy
SIDE = 96
# Part -> how its files begin, and the instances of each category that it shows.
PARTS = {
    "train": ("smallnorb-5x46789x9x18x6x2x96x96-training", (4, 6, 7, 8, 9)),
    "test": ("smallnorb-5x01235x9x18x6x2x96x96-testing", (0, 1, 2, 3, 5)),
}


@register("smallnorb", kind="source")
@dataclass(frozen=True)
class SmallNORB(PreparedSource):
    """48,600 pairs of grey pictures of 50 toys in 5 categories; half of the toys to train on, half
    to test on.

    Attributes: `category` (animal, human, airplane, truck, car), `instance` (0-9, the toy in its
    category), `elevation` (30 to 70 degrees by 5), `azimuth` (0 to 340 degrees by 20, which the
    files store as 0 to 34 by 2), `lighting` (0-5), `camera` (left, right), `split` (train: toys 4,
    6, 7, 8, 9; test: toys 0, 1, 2, 3, 5). Units are toys: none straddles two roles.
    Each toy's azimuth 0 is where it happened to be put. Jeon et al. 2025 turned the origins of the
    animals by hand until they agreed with the other categories, and published no numbers.
    `azimuth_offsets` adds degrees to the azimuth of a category, or of single toys, around the
    circle: `{animal: {0: 40, 1: -20}, human: 180}`. None are given here: any offsets are the user's
    own. There is no drawn stand-in for these photographs.
    Reference: LeCun, Huang, Bottou, Learning methods for generic object recognition with invariance
    to pose and lighting, 2004.
    """

    camera: str = knob(
        "left",
        domain="{left, right, both}",
        doc="whose pictures; both: two rows a pair, attribute camera",
    )
    azimuth_offsets: dict[str, Any] | None = knob(
        None,
        doc=(
            "category -> degrees, or category -> {instance -> degrees}, multiples of 20 that are"
            " added to the azimuth"
        ),
    )
    size: int = knob(
        96, domain="[8, 512]", doc="side of the picture in pixels; the original's is 96"
    )
    channels: int = knob(1, domain="{1, 3}", doc="1 for grey, 3 for grey in three equal channels")

    after = ("camera", "azimuth_offsets", "channels")
    card = card_of("smallnorb")

    def load(self) -> AttributedDataset:
        """The data set of the prepared copy. Raises `InputError` for offsets that are none,
        `DataError` where there is no copy."""
        self._offsets()
        return super().load()

    def read(self, folder: Path) -> Reading:
        """The six matrices of `folder`, each raw or gzip: two rows a pair, the left camera's first;
        the training part first."""
        parts_read = [self._part(folder, stem, instances) for stem, instances in PARTS.values()]
        counts = [codes.shape[1] for codes, _ in parts_read]
        starts = np.cumsum([0, *counts])
        pairs = np.concatenate([codes for codes, _ in parts_read], axis=1)
        cameras = np.tile([0, 1], pairs.shape[1])
        splits = np.repeat([0, 1], np.multiply(counts, 2))
        codes = np.vstack([np.repeat(pairs, 2, axis=1), cameras, splits])

        def images(row_numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
            pair, camera = np.divmod(row_numbers, 2)
            out = np.empty((len(row_numbers), SIDE, SIDE, 1), dtype=np.uint8)
            for part_number, (_, rows) in enumerate(parts_read):
                mine = (starts[part_number] <= pair) & (pair < starts[part_number + 1])
                if mine.any():
                    image_pairs = rows(pair[mine] - starts[part_number])
                    out[mine, ..., 0] = image_pairs[np.arange(len(image_pairs)), camera[mine]]
            return resized(out, self.size)

        table = AttributeTable(self.attributes(), codes)
        shape = InputSpec.image(self.size, self.size, 1)
        toys = codes[0] * len(table.attribute("instance")) + codes[1]
        dataset = AttributedDataset("smallnorb", table, images, shape, units=toys)
        return Reading(dataset, dict(zip(PARTS, counts, strict=True)))

    def _part(
        self, folder: Path, stem: str, instances: Sequence[int]
    ) -> tuple[NDArray[np.int64], Callable[..., Any]]:
        """Codes of category, instance, elevation, azimuth and lighting of one part, int64 [5, n],
        and its pairs by row."""
        from crosswind.data.archives.arrays import Expected, open_matrix

        file, info_file, pictures_file = (
            original_file(folder, f"{stem}-{kind}.mat") for kind in ("cat", "info", "dat")
        )
        category = open_matrix(file, Expected("int32", (None,))).read()
        info = open_matrix(info_file, Expected("int32", (len(category), 4))).read()
        expected = Expected("uint8", (len(category), 2, SIDE, SIDE))
        pictures = open_matrix(pictures_file, expected, most_bytes=1 << 40)
        codes = np.vstack([category, info.T]).astype(np.int64)
        known_values = [range(len(attribute)) for attribute in self.attributes()[:5]]
        known_values[3] = range(0, 2 * len(known_values[3]), 2)
        for location, attribute, code, values in zip(
            (file, *[info_file] * 4), self.attributes(), codes, known_values, strict=False
        ):
            value_words = f"{location}: {attribute.name}"
            check_known(code, instances if attribute.name == "instance" else values, value_words)
        codes[3] //= 2
        if np.unique(codes, axis=1).shape[1] < len(category):
            raise DataError(
                f"{info_file} and {file.name} have two rows alike: the same toy, elevation, azimuth"
                " and lighting"
            )
        return codes, pictures.rows()

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy's rows of the cameras asked for, their azimuths turned, in as many channels as
        asked for."""
        if self.camera != "both":
            dataset = dataset.keep({"camera": [self.camera]})
        offsets = self._offsets()
        if offsets.any():
            codes = dataset.table.codes.astype(np.int64)
            codes[3] = (codes[3] + offsets[codes[0], codes[1]]) % (360 // STEP)
            table = AttributeTable(dataset.table.attributes, codes)
            fingerprint = digest({"of": dataset.fingerprint, "azimuths": table.digest()})
            dataset = replace(dataset, table=table, fingerprint=fingerprint)
        return in_channels(dataset, self.channels)

    def _offsets(self) -> NDArray[np.int64]:
        """Steps of azimuth by category and instance: int64 [5, 10]."""
        if not isinstance(self.azimuth_offsets, Mapping | None):
            raise InputError(
                "smallnorb.azimuth_offsets",
                f"must map categories to degrees, not {shown(self.azimuth_offsets)}",
            )
        categories, instances, *_ = self.attributes()
        out = np.zeros((len(categories), len(instances)), dtype=np.int64)
        for category, category_offsets in (self.azimuth_offsets or {}).items():
            field = f"smallnorb.azimuth_offsets.{category}"
            if isinstance(category_offsets, Mapping):
                each = category_offsets
            else:
                each = dict.fromkeys(instances.values, category_offsets)
            for instance, degrees in each.items():
                if isinstance(category_offsets, Mapping):
                    offset_field = f"{field}.{instance}"
                else:
                    offset_field = field
                if (
                    isinstance(degrees, bool)
                    or not isinstance(degrees, int | float)
                    or degrees % STEP
                ):
                    raise InputError(
                        offset_field, f"must be a multiple of {STEP} degrees, not {shown(degrees)}"
                    )
                out[
                    categories.code_of(category, field), instances.code_of(instance, offset_field)
                ] = degrees // STEP % (360 // STEP)
        return out
