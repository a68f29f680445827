"""Fashion-MNIST: 70,000 articles of clothing in grey, in the layout of MNIST."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from crosswind.core.cards import Card, Original
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.archives.idx import idx_dataset, missing_idx
from crosswind.data.attributes import Attribute
from crosswind.data.dataset import AttributedDataset
from crosswind.data.resizing import in_channels
from crosswind.data.sources.base import PreparedSource, Reading

__all__ = ["FashionMnist"]


@register("fashion-mnist", kind="source")
@dataclass(frozen=True)
class FashionMnist(PreparedSource):
    """70,000 articles of clothing in grey, 60,000 to train on and 10,000 to test on, in the layout of MNIST.

    Attributes: `article` (T-shirt/top, Trouser, Pullover, Dress, Coat, Sandal, Shirt, Sneaker, Bag, Ankle boot), `split` (train,
    test). Debian's package dataset-fashion-mnist installs the same files, packed anew, in /usr/share/datasets/fashion-mnist.
    Reference: H. Xiao, K. Rasul, R. Vollgraf, Fashion-MNIST, arXiv:1708.07747, 2017.
    """

    size: int = knob(28, domain="[4, 512]", doc="side of the picture in pixels; the original's is 28")
    channels: int = knob(1, domain="{1, 3}", doc="1 for grey, 3 for grey in three equal channels")

    after = ("channels",)
    card = Card(
        attributes={
            "article": (
                "T-shirt/top",
                "Trouser",
                "Pullover",
                "Dress",
                "Coat",
                "Sandal",
                "Shirt",
                "Sneaker",
                "Bag",
                "Ankle boot",
            ),
            "split": ("train", "test"),
        },
        totals={"train": 60_000, "test": 10_000},
        shape="28 x 28 x 1",
        licence="MIT",
        citation="Xiao, Rasul, Vollgraf, Fashion-MNIST, arXiv:1708.07747, 2017",
        layout="github.com/zalandoresearch/fashion-mnist (the idx format of MNIST)",
        files=(
            Original(
                "train-images-idx3-ubyte.gz",
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-images-idx3-ubyte.gz",
                26_421_880,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            ),
            Original(
                "train-labels-idx1-ubyte.gz",
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-labels-idx1-ubyte.gz",
                29_515,
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                "25c81989df183df01b3e8a0aad5dffbe",
            ),
            Original(
                "t10k-images-idx3-ubyte.gz",
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-images-idx3-ubyte.gz",
                4_422_102,
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                "bef4ecab320f06d8554ea6380940ec79",
            ),
            Original(
                "t10k-labels-idx1-ubyte.gz",
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-labels-idx1-ubyte.gz",
                5_148,
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                "bb300cfdad3c16e7a12a480ee83cd310",
            ),
        ),
    )

    def read(self, folder: Path) -> Reading:
        """The four files of `folder`, each raw or gzip."""
        return Reading(
            *idx_dataset(folder, "fashion-mnist", Attribute("article", tuple(self.card.attributes["article"])), self.size)
        )

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """The originals that are in the folder neither packed nor unpacked."""
        return missing_idx(self.originals(), folder)

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy in as many channels as asked for."""
        return in_channels(dataset, self.channels)
