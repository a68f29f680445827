"""MNIST: 70,000 handwritten digits in grey."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from crosswind.core.cards import card_of
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.attributes import Attribute
from crosswind.data.sources.base import PicturesInChannels, Reading, mnist_files


@register("mnist", kind="source")
@dataclass(frozen=True)
class Mnist(PicturesInChannels):
    """70,000 handwritten digits in grey, 60,000 to train on and 10,000 to test on.

    Attributes: `digit` (0-9), `split` (train, test). The writers of the two parts are different people. Classes are named as those
    of `usps`, `svhn` and `digits`, so that each can be another's target; `size` and `channels` bring them to one shape.
    Reference: Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, Gradient-based learning applied to document recognition, 1998.
    """

    size: int = knob(28, domain="[4, 512]", doc="side of the picture in pixels; the original's is 28")
    channels: int = knob(1, domain="{1, 3}", doc="1 for grey, 3 for grey in three equal channels")

    card = card_of("mnist")

    def read(self, folder: Path) -> Reading:
        """The four files of `folder`, each raw or gzip."""
        return mnist_files(folder, "mnist", Attribute("digit", tuple("0123456789")), self.size)
