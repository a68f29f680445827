"""CIFAR-10.1: a second test set for CIFAR-10, collected years later in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from crosswind.core.cards import card_of
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.attributes import Attribute
from crosswind.data.sources.base import PreparedSource, Reading, checked_labels, in_parts


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

    card = card_of("cifar10.1")

    def variants(self) -> tuple[str, ...]:
        """The two files of the edition."""
        return (self.edition,)

    def totals(self) -> Mapping[str, int]:
        """The pictures of the edition."""
        return {"test": 2_021} if self.edition == "v4" else self.card.totals

    def read(self, folder: Path) -> Reading:
        """The edition's two npy files of `folder`."""
        from crosswind.data.archives.arrays import Expected, read_array

        data, named = (folder / f"cifar10.1_{self.edition}_{what}.npy" for what in ("data", "labels"))
        pictures = read_array(data, Expected("uint8", (None, 32, 32, 3)))
        labels = checked_labels(read_array(named, Expected("integers", (None,))), named, len(pictures))
        label = Attribute("class", self.card.attributes["class"])
        return in_parts("cifar10.1", label, {"test": [(labels, lambda: pictures)]}, self.size)
