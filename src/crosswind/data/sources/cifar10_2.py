"""CIFAR-10.2: a second training and test set for CIFAR-10, collected years later by other people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.attributes import Attribute
from crosswind.data.sources.base import Piece, PreparedSource, Reading, checked_labels, in_parts


@register("cifar10.2", kind="source")
@dataclass(frozen=True)
class Cifar102(PreparedSource):
    """12,000 photographs of CIFAR-10's ten classes, 10,000 to train on and 2,000 to test on, each class as frequent as the others.

    Attributes: `class`, with CIFAR-10's names in its order, and `split` (train, test) unless `part` is test. Only the file of the
    test part has a published hash and is fetched; the other is to be downloaded by hand.
    Reference: S. Lu et al., Harder or different? A closer look at distribution shift in dataset reproduction, 2020.
    """

    part: str = knob("all", domain="{all, test}", doc="both parts, or the test part alone")
    size: int = knob(32, domain="[4, 512]", doc="side of the picture in pixels; the original's is 32")

    card = card_of("cifar10.2")
    instead = ("cifar102_train.npy", "cifar102_test.npy")  # pickles of an earlier release: `read` says what is wrong with them

    def variants(self) -> tuple[str, ...]:
        """The files of the parts that are asked for."""
        return (self.part,)

    def totals(self) -> Mapping[str, int]:
        """The pictures of the parts that are asked for."""
        return {part: count for part, count in self.card.totals.items() if self.part in ("all", part)}

    def read(self, folder: Path) -> Reading:
        """The npz files of `folder`."""
        label = Attribute("class", self.card.attributes["class"])
        parts = {part: [_piece(folder / f"cifar102_{part}.npz", label)] for part in self.totals()}
        return in_parts("cifar10.2", label, parts, self.size)


def _piece(path: Path, label: Attribute) -> Piece:
    from crosswind.data.archives.arrays import Expected, read_arrays, sums_of

    if not path.exists() and path.with_suffix(".npy").exists():
        raise DataError(f"{path.with_suffix('.npy')} holds a pickle, which is never opened: get the later release, {path.name}")
    wanted = {"labels": Expected("integers", (None,)), "images": Expected("uint8", (None, 32, 32, 3))}
    if "label_names" in sums_of(path):
        wanted["label_names"] = Expected("text", (len(label),))
    found = read_arrays(path, wanted)
    names = tuple(found.get("label_names", np.array(label.values)).astype(str).tolist())
    if names != label.values:
        raise DataError(f"{path} is not of CIFAR-10's classes: it names {shown(', '.join(names), 120)}")
    return checked_labels(found["labels"], path, len(found["images"])), lambda: found["images"]
