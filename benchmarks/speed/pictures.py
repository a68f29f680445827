"""A source of any number of pictures, drawn when asked for and fast, for benchmarks of memory and
of many rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec, digest
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import Source

NAME = "random-pictures"


@register(NAME, kind="source")
@dataclass(frozen=True)
class RandomPictures(Source):
    """Random bytes that depend on the row alone, two classes and a tint of two values."""

    rows: int = knob(1000, domain="[8, inf)")
    size: int = knob(32, domain="[8, 512]", doc="side in pixels, a multiple of 8")

    def load(self) -> AttributedDataset:
        """The data set."""
        row = np.arange(self.rows)
        codes = np.stack([row % 2, row // 2 % 2]).astype(np.uint8)
        table = AttributeTable(
            (Attribute("label", ("a", "b")), Attribute("tint", ("red", "blue"))), codes
        )
        words = self.size * self.size * 3 // 8

        def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
            bits = rows.astype(np.uint64)[:, None] * np.uint64(words) + np.arange(
                words, dtype=np.uint64
            )
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
                bits ^= bits >> np.uint64(shift)
                bits *= np.uint64(factor)
            bits ^= bits >> np.uint64(31)
            return bits.view(np.uint8).reshape(len(rows), self.size, self.size, 3)

        told = digest({"source": NAME, "rows": self.rows, "size": self.size})
        return AttributedDataset(
            f"{NAME} {self.size}",
            table,
            images,
            InputSpec.image(self.size, self.size, 3),
            fingerprint=told,
        )
