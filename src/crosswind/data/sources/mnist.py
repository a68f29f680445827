"""MNIST: 70,000 handwritten digits in grey."""

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

__all__ = ["Mnist"]


@register("mnist", kind="source")
@dataclass(frozen=True)
class Mnist(PreparedSource):
    """70,000 handwritten digits in grey, 60,000 to train on and 10,000 to test on.

    Attributes: `digit` (0-9), `split` (train, test). The writers of the two parts are different people. Classes are named as those
    of `usps`, `svhn` and `digits`, so that each can be another's target; `size` and `channels` bring them to one shape.
    Reference: Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, Gradient-based learning applied to document recognition, 1998.
    """

    size: int = knob(28, domain="[4, 512]", doc="side of the picture in pixels; the original's is 28")
    channels: int = knob(1, domain="{1, 3}", doc="1 for grey, 3 for grey in three equal channels")

    after = ("channels",)
    card = Card(
        attributes={"digit": 10, "split": ("train", "test")},
        totals={"train": 60_000, "test": 10_000},
        shape="28 x 28 x 1",
        licence="CC BY-SA 3.0",
        citation="LeCun, Bottou, Bengio, Haffner, Gradient-based learning applied to document recognition, Proc. IEEE 86, 1998",
        used={"ng2022": "target of networks trained on svhn (tables 2b, 10, 17, 25); ablations (figures 4, 5)"},
        layout="yann.lecun.com/exdb/mnist (the idx format)",
        files=(
            Original(
                "train-images-idx3-ubyte.gz",
                "https://storage.googleapis.com/cvdf-datasets/mnist/train-images-idx3-ubyte.gz",
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            ),
            Original(
                "train-labels-idx1-ubyte.gz",
                "https://storage.googleapis.com/cvdf-datasets/mnist/train-labels-idx1-ubyte.gz",
                28_881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "d53e105ee54ea40749a09fcbcd1e9432",
            ),
            Original(
                "t10k-images-idx3-ubyte.gz",
                "https://storage.googleapis.com/cvdf-datasets/mnist/t10k-images-idx3-ubyte.gz",
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "9fb629c4189551a2d022fa330f9573f3",
            ),
            Original(
                "t10k-labels-idx1-ubyte.gz",
                "https://storage.googleapis.com/cvdf-datasets/mnist/t10k-labels-idx1-ubyte.gz",
                4_542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                "ec29112dd5afa0611ce80d1b7f02629c",
            ),
        ),
    )

    def read(self, folder: Path) -> Reading:
        """The four files of `folder`, each raw or gzip."""
        return Reading(*idx_dataset(folder, "mnist", Attribute("digit", tuple("0123456789")), self.size))

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """The originals that are in the folder neither packed nor unpacked."""
        return missing_idx(self.originals(), folder)

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy in as many channels as asked for."""
        return in_channels(dataset, self.channels)
