"""CINIC-10: CIFAR-10 and small ImageNet pictures of its ten classes, from the archive or from its folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.decoding import Refused, decoder
from crosswind.data.sources.base import PreparedSource, Reading
from crosswind.data.trees import folder_tree

ARCHIVE = "CINIC-10.tar.gz"
_ORIGIN = re.compile(r"cifar-?10-(train|test)-\d+\.png|n\d{8}_\d+\.png")


@register("cinic10", kind="source")
@dataclass(frozen=True)
class Cinic10(PreparedSource):
    """270,000 pictures of 32 x 32 pixels in CIFAR-10's ten classes: all of CIFAR-10, and 210,000 of ImageNet made small.

    Attributes: `class`, with CIFAR-10's names in its order; `split` (train, valid, test, of 90,000 each); `origin` (cifar10-train,
    cifar10-test, imagenet), as the names of the files tell. The test part holds all test pictures of CIFAR-10 and 10,000 of those
    that it trains on: keep the rows of `imagenet` to test networks that were trained on CIFAR-10. ImageNet's labels were not looked
    at again, so that some are wrong. Rows are in the order of part, class and name of the file.
    Reference: L. Darlow, E. Crowley, A. Antoniou, A. Storkey, CINIC-10 is not ImageNet or CIFAR-10, 2018.
    """

    size: int = knob(32, domain="[4, 512]", doc="side of the picture in pixels; the original's is 32")

    card = card_of("cinic10")
    instead = ("train", "CINIC-10/train")

    def read(self, folder: Path) -> Reading:
        """The folders train, valid and test, in `folder` or in CINIC-10 in it, else the archive, which is unpacked aside once."""
        from crosswind.data.archives.members import TarMembers, walked

        unpacked = next((place for place in (folder, folder / "CINIC-10") if (place / "train").is_dir()), None)
        place = folder / ARCHIVE if unpacked is None else unpacked
        if unpacked is not None:
            tree = folder_tree(unpacked)
            names = [name for name in tree.sizes if _is_picture(name) and name.count("/") == 2]
            opened: Callable[[str], Path | bytes] = tree.opened
        elif place.exists():
            packed = TarMembers(self.trusted(place, walked), _is_picture)
            index = {name: i for i, name in enumerate(packed.names)}
            names, opened = packed.names, lambda name: packed.view(index[name]).tobytes()
        else:
            raise DataError(f"there is no {ARCHIVE} in {folder}, and no folders {', '.join(self.card.totals)}")
        return self._reading(names, opened, str(place))

    def _reading(self, names: Sequence[str], opened: Callable[[str], Path | bytes], where: str) -> Reading:
        attributes = tuple(Attribute(name, values) for name, values in self.card.attributes.items())
        classes, splits, origins = (attribute.values for attribute in attributes)
        found = []
        for name in names:
            *_, split, label, file = ("", "", *name.split("/"))
            origin = _ORIGIN.fullmatch(file)
            if split not in splits or label not in classes or origin is None:
                raise DataError(f"{where} is not CINIC-10: {shown(name)} is not PART/CLASS/FILE, or not named as its pictures are")
            code = origins.index("imagenet" if origin[1] is None else f"cifar10-{origin[1]}")
            found.append((splits.index(split), classes.index(label), file, code, name))
        present = {"/".join(name.split("/")[-3:-1]) for name in names}
        lacking = [f"{part}/{kind}" for part in splits for kind in classes if f"{part}/{kind}" not in present]
        if lacking:
            raise DataError(f"{where} is not CINIC-10: it holds no picture of {lacking[0]}")
        found.sort()
        codes = np.array([(label, split, origin) for split, label, _, origin, _ in found], dtype=np.uint8).T

        def small(row: int) -> bytes:
            data = opened(found[row][-1])
            data = data if isinstance(data, bytes) else read_picture(data)
            # The header of a PNG: its mark, the length and name of the first chunk, width and height.
            if data[:8] != b"\x89PNG\r\n\x1a\n" or data[16:24] != (32).to_bytes(4, "big") * 2:
                raise Refused("is not a PNG of 32 x 32 pixels")
            return data

        images = decoder(small, self.size, lambda row: f"{where}: {found[row][-1]!r}")
        shape = InputSpec.image(self.size, self.size, 3)
        dataset = AttributedDataset("cinic10", AttributeTable(attributes, codes), images, shape, from_files=True)
        return Reading(dataset, {split: int((codes[1] == i).sum()) for i, split in enumerate(splits)})


def _is_picture(name: str) -> bool:
    # Some systems pack a file of notes beside each file, under its name with two characters before.
    return name.lower().endswith(".png") and not name.rpartition("/")[2].startswith("._")


def read_picture(path: Path) -> bytes:
    """The bytes of a picture's file. Raises `Refused` where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused(f"cannot be read: {error.strerror or error}") from None
