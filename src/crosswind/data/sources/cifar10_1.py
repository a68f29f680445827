"""CIFAR-10.1: a second test set for CIFAR-10, collected years later in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from crosswind.core.cards import Card, Original
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.archives.npz import read_array, rows_mapped
from crosswind.data.cifar import LABELS, PIXELS, checked_labels, in_parts
from crosswind.data.sources.base import PreparedSource, Reading

__all__ = ["Cifar101"]


@register("cifar10.1", kind="source")
@dataclass(frozen=True)
class Cifar101(PreparedSource):
    """2,000 photographs (2,021 of `v4`) of CIFAR-10's ten classes that no network was developed on, for testing alone.

    Attribute: `class`, with CIFAR-10's names in its order; a study tests on all rows. `v6` is the edition that the authors
    recommend, with 200 pictures a class; `v4` is the first that they tested networks on, with classes of unequal sizes. Nine in ten
    pictures are in both.
    Reference: B. Recht, R. Roelofs, L. Schmidt, V. Shankar, Do CIFAR-10 classifiers generalize to CIFAR-10?, 2018.
    """

    edition: str = knob("v6", domain="{v6, v4}", doc="v6, of balanced classes, or v4, the first")
    size: int = knob(32, domain="[4, 512]", doc="side of the picture in pixels; the original's is 32")

    card = Card(
        attributes={"class": ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")},
        totals={"test": 2_000},
        shape="32 x 32 x 3",
        licence="that of 80 Million Tiny Images, which is withdrawn; the authors' code is MIT",
        citation="Recht, Roelofs, Schmidt, Shankar, Do CIFAR-10 classifiers generalize to CIFAR-10?, arXiv:1806.00451, 2018",
        used={"ng2022": "target of networks trained on cifar10 and cinic10 (tables 2b, 5, 11, 18, 25)"},
        layout="github.com/modestyachts/CIFAR-10.1 (uint8 n x 32 x 32 x 3 and int32 n, in npy files)",
        files=(
            Original(
                "cifar10.1_v6_data.npy",
                "https://github.com/modestyachts/CIFAR-10.1/raw/master/datasets/cifar10.1_v6_data.npy",
                6_144_128,
                "2997188e5816f5bd545dc77771b6227828c28146049fcecf3fa10775474cacc6",
                variant="v6",
            ),
            Original(
                "cifar10.1_v6_labels.npy",
                "https://github.com/modestyachts/CIFAR-10.1/raw/master/datasets/cifar10.1_v6_labels.npy",
                8_128,
                "ae40beda001693674edc94d925ee8268cfe68905f8f9aff800c8dcdfcd6c9448",
                variant="v6",
            ),
            Original(
                "cifar10.1_v4_data.npy",
                "https://github.com/modestyachts/CIFAR-10.1/raw/master/datasets/cifar10.1_v4_data.npy",
                6_208_640,
                "5aaedc268df8f4cffca2ac0cf9e608ae1897a8cddb630c7a850a2ea8f6558e75",
                variant="v4",
            ),
            Original(
                "cifar10.1_v4_labels.npy",
                "https://github.com/modestyachts/CIFAR-10.1/raw/master/datasets/cifar10.1_v4_labels.npy",
                8_212,
                "1f9544300ded199539b6662364ce7fe6c2e1ea9f87408f06db4b1a6184cffb18",
                variant="v4",
            ),
        ),
    )

    def originals(self) -> tuple[Original, ...]:
        """The two files of the edition."""
        return tuple(file for file in self.card.files if file.variant == self.edition)

    def totals(self) -> Mapping[str, int]:
        """The pictures of the edition."""
        return {"test": 2_021} if self.edition == "v4" else self.card.totals

    def read(self, folder: Path) -> Reading:
        """The edition's two npy files of `folder`."""
        data, named = (folder / f"cifar10.1_{self.edition}_{what}.npy" for what in ("data", "labels"))
        pictures = rows_mapped(data, None, PIXELS)
        labels = checked_labels(read_array(named, LABELS), named, len(pictures))
        return Reading(*in_parts("cifar10.1", {"test": [(labels, lambda: pictures)]}, self.size))
