"""CIFAR-10.2: a second training and test set for CIFAR-10, collected years later by other people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from crosswind.core.cards import Card, Original
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.archives.npz import Expected, keys_of, read_arrays, rows_mapped
from crosswind.data.cifar import CLASSES, LABELS, PIXELS, Piece, checked_labels, checked_names, in_parts
from crosswind.data.sources.base import PreparedSource, Reading

__all__ = ["Cifar102"]


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

    card = Card(
        attributes={
            "class": ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
            "split": ("train", "test"),
        },
        totals={"train": 10_000, "test": 2_000},
        shape="32 x 32 x 3",
        licence="none stated; the pictures are of the withdrawn 80 Million Tiny Images",
        citation="Lu, Nott, Olson, Todeschini, Vahabi, Carmon, Schmidt, Harder or different?, ICML workshop UDL, 2020",
        used={"ng2022": "target of networks trained on cifar10 and cinic10 (tables 2b, 5, 11, 18, 25)"},
        layout="github.com/modestyachts/cifar-10.2 (npz files: images uint8 n x 32 x 32 x 3, labels int64 n, label_names)",
        get="download cifar102_train.npz and cifar102_test.npz at https://github.com/modestyachts/cifar-10.2, or set part to test",
        files=(
            Original("cifar102_train.npz", variant="all"),
            Original(
                "cifar102_test.npz",
                "https://github.com/modestyachts/cifar-10.2/raw/521467a52ad494b78ff9c70051099c0d9ba74d40/cifar102_test.npz",
                6_393_664,
                "e4fd6462bd5141ed293acd52ea570952f65d1bfd4ec9b068f87742f75a7a632e",
            ),
        ),
    )

    def originals(self) -> tuple[Original, ...]:
        """The files of the parts that are asked for."""
        return tuple(file for file in self.card.files if file.variant in ("", self.part))

    def totals(self) -> Mapping[str, int]:
        """The pictures of the parts that are asked for."""
        return {part: count for part, count in self.card.totals.items() if self.part in ("all", part)}

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """The npz files that are not there, unless the pickles of an earlier release are: `read` says what is wrong with these."""
        found = super().missing(folder)
        return () if any((folder / file.name).with_suffix(".npy").exists() for file in found) else found

    def read(self, folder: Path) -> Reading:
        """The npz files of `folder`."""
        parts = {part: [_piece(folder / f"cifar102_{part}.npz")] for part in self.totals()}
        return Reading(*in_parts("cifar10.2", parts, self.size))


def _piece(path: Path) -> Piece:
    if not path.exists() and path.with_suffix(".npy").exists():
        raise DataError(f"{path.with_suffix('.npy')} holds a pickle, which is never opened: get the later release, {path.name}")
    labels = read_arrays(path, {"labels": LABELS})["labels"]
    if "label_names" in keys_of(path):
        names = read_arrays(path, {"label_names": Expected("text", (len(CLASSES),))}, limit=100_000)["label_names"]
        checked_names(names.astype(str).tolist(), path)
    pictures = rows_mapped(path, "images", PIXELS)
    return checked_labels(labels, path, len(pictures)), lambda: pictures
