"""Fashion-MNIST: 70,000 articles of clothing in grey, in the layout of MNIST."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from crosswind.core.cards import card_of
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.attributes import Attribute
from crosswind.data.sources.base import PicturesInChannels, Reading, mnist_files


@register("fashion-mnist", kind="source")
@dataclass(frozen=True)
class FashionMnist(PicturesInChannels):
    """70,000 articles of clothing in grey, 60,000 to train on and 10,000 to test on, in the layout of MNIST.

    Attributes: `article` (T-shirt/top, Trouser, Pullover, Dress, Coat, Sandal, Shirt, Sneaker, Bag, Ankle boot), `split` (train,
    test). Debian's package dataset-fashion-mnist installs the same files, packed anew, in /usr/share/datasets/fashion-mnist.
    Reference: H. Xiao, K. Rasul, R. Vollgraf, Fashion-MNIST, arXiv:1708.07747, 2017.
    """

    size: int = knob(28, domain="[4, 512]", doc="side of the picture in pixels; the original's is 28")
    channels: int = knob(1, domain="{1, 3}", doc="1 for grey, 3 for grey in three equal channels")

    card = card_of("fashion-mnist")

    def read(self, folder: Path) -> Reading:
        """The four files of `folder`, each raw or gzip."""
        return mnist_files(folder, "fashion-mnist", Attribute("article", self.card.attributes["article"]), self.size)
