"""CIFAR-10 and the sets that stand beside it, all with its ten classes: CIFAR-10.1, CIFAR-10.2 and
CINIC-10."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.data.attributes import AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.decoding import Refused, decoder
from crosswind.data.sources.base import Piece, PreparedSource, Reading, checked_labels, in_parts
from crosswind.data.trees import folder_tree

NAMES = "batches.meta.txt"
PARTS = {"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)}
FILES = (*PARTS["train"], *PARTS["test"])
SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE
_CINIC_PLACE = re.compile(
    r"(?:.*/)?([^/]+)/([^/]+)/(cifar-?10-(train|test)-\d+\.png|n\d{8}_\d+\.png)"
)


@register("cifar10", kind="source")
@dataclass(frozen=True)
class Cifar10(PreparedSource):
    """60,000 colour photographs of 32 x 32 pixels in ten classes, 50,000 to train on and 10,000 to
    test on.

    Attributes: `class` (airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck),
    `split` (train, test). Rows are in the order of the files, the five batches of training before
    the test. Classes have the same names in `cinic10`, `cifar10.1` and `cifar10.2`, so that each
    can be another's target; every picture of CIFAR-10 is in `cinic10` too. Of the versions that the
    author gives, the binary one is read: the Python version is a pickle.
    Reference: A. Krizhevsky, Learning multiple layers of features from tiny images, 2009.
    """

    size: int = knob(
        32, domain="[4, 512]", doc="side of the picture in pixels; the original's is 32"
    )

    card = card_of("cifar10")
    instead = (*FILES, "cifar-10-batches-bin")

    def read(self, folder: Path) -> Reading:
        """The six files of records, unpacked in `folder` or in cifar-10-batches-bin in it, else in
        the archive."""
        unpacked = (
            path
            for path in (folder, folder / "cifar-10-batches-bin")
            if any((path / name).is_file() for name in FILES)
        )
        archive = folder / self.card.files[0].name
        file_place = next(unpacked, archive)
        if file_place != archive:
            files = {
                name: np.fromfile(file_place / name, np.uint8)
                for name in (*FILES, NAMES)
                if (file_place / name).is_file()
            }
        else:
            from crosswind.data.archives.members import TarMembers, walked

            members = TarMembers(
                self.trusted(file_place, walked),
                lambda name: PurePosixPath(name).name in (*FILES, NAMES),
            )
            files = {
                PurePosixPath(name).name: members.view(i) for i, name in enumerate(members.names)
            }
        if lacking := [name for name in FILES if name not in files]:
            problem = (
                f"{file_place} is not the binary version of CIFAR-10, {archive.name} (the Python"
                f" version's pickles are never opened): it has no {', '.join(lacking)}"
            )
            raise DataError(problem)
        label = self.attributes()[0]
        named = files.get(NAMES, np.empty(0, np.uint8)).tobytes().decode("ascii", "replace").split()
        if NAMES in files and tuple(named) != label.values:
            raise DataError(
                f"{file_place}, {NAMES} does not name CIFAR-10's classes but"
                f" {shown(', '.join(named), 120)}"
            )
        pieces_of = {}
        for part_name, names in PARTS.items():
            pieces_of[part_name] = [
                _records(files[name], f"{file_place}, {name}") for name in names
            ]
        return in_parts("cifar10", label, pieces_of, self.size)


@register("cifar10.1", kind="source")
@dataclass(frozen=True)
class Cifar101(PreparedSource):
    """2,000 photographs (2,021 of `v4`) of CIFAR-10's ten classes that no network was developed on,
    for testing alone.

    Attribute: `class`, with CIFAR-10's names in its order; a study tests on all rows. `v6` is the
    edition that the authors recommend, with 200 pictures a class; `v4` is the first that they
    tested networks on, with classes of unequal sizes. Nine in ten pictures are in both.
    Reference: B. Recht, R. Roelofs, L. Schmidt, V. Shankar, Do CIFAR-10 classifiers generalize to
    CIFAR-10?, 2018.
    """

    edition: str = knob("v6", domain="{v6, v4}", doc="v6, of balanced classes, or v4, the first")
    size: int = knob(
        32, domain="[4, 512]", doc="side of the picture in pixels; the original's is 32"
    )

    card = card_of("cifar10.1")

    def variants(self) -> tuple[str, ...]:
        """The two files of the edition."""
        return (self.edition,)

    def totals(self) -> Mapping[str, int]:
        """The pictures of the edition."""
        if self.edition == "v4":
            return {"test": 2_021}
        return self.card.totals

    def read(self, folder: Path) -> Reading:
        """The edition's two npy files of `folder`."""
        from crosswind.data.archives.arrays import Expected, read_array

        data, named = (
            folder / f"cifar10.1_{self.edition}_{array_name}.npy"
            for array_name in ("data", "labels")
        )
        shape = (None, SIDE, SIDE, 3)
        pictures = read_array(data, Expected("uint8", shape))
        expected = Expected("integers", (None,))
        labels = checked_labels(read_array(named, expected), named, len(pictures))
        label = self.attributes()[0]
        test = [(labels, lambda: pictures)]
        return in_parts("cifar10.1", label, {"test": test}, self.size)


@register("cifar10.2", kind="source")
@dataclass(frozen=True)
class Cifar102(PreparedSource):
    """12,000 photographs of CIFAR-10's ten classes, 10,000 to train on and 2,000 to test on, each
    class as frequent as the others.

    Attributes: `class`, with CIFAR-10's names in its order, and `split` (train, test) unless `part`
    is test. Only the file of the test part has a published hash and is fetched; the other is to be
    downloaded by hand.
    Reference: S. Lu et al., Harder or different? A closer look at distribution shift in dataset
    reproduction, 2020.
    """

    part: str = knob("all", domain="{all, test}", doc="both parts, or the test part alone")
    size: int = knob(
        32, domain="[4, 512]", doc="side of the picture in pixels; the original's is 32"
    )

    card = card_of("cifar10.2")

    def variants(self) -> tuple[str, ...]:
        """The file of the training part, where it is asked for."""
        if self.part == "all":
            return ("train",)
        return ()

    def read(self, folder: Path) -> Reading:
        """The npz files of `folder`."""
        pieces_of = {}
        for part_name in self.totals():
            pieces_of[part_name] = [self._piece(folder / f"cifar102_{part_name}.npz")]
        return in_parts("cifar10.2", self.attributes()[0], pieces_of, self.size)

    def _piece(self, path: Path) -> Piece:
        from crosswind.data.archives.arrays import Expected, read_arrays, sums_of

        labels = Expected("integers", (None,))
        images = Expected("uint8", (None, SIDE, SIDE, 3))
        expected = {"labels": labels, "images": images}
        class_names = self.attributes()[0].values
        if "label_names" in sums_of(path):
            expected["label_names"] = Expected("text", (len(class_names),))
        arrays = read_arrays(path, expected)
        names = tuple(arrays.get("label_names", np.array(class_names)).astype(str).tolist())
        if names != class_names:
            problem = (
                f"{path} is not of CIFAR-10's classes: it names {shown(', '.join(names), 120)}"
            )
            raise DataError(problem)
        n_rows = len(arrays["images"])
        return checked_labels(arrays["labels"], path, n_rows), lambda: arrays["images"]


@register("cinic10", kind="source")
@dataclass(frozen=True)
class Cinic10(PreparedSource):
    """270,000 pictures of 32 x 32 pixels in CIFAR-10's ten classes: all of CIFAR-10, and 210,000 of
    ImageNet made small.

    Attributes: `class`, with CIFAR-10's names in its order; `split` (train, valid, test, of 90,000
    each); `origin` (cifar10-train, cifar10-test, imagenet), as the names of the files tell. The
    test part holds all test pictures of CIFAR-10 and 10,000 of those that it trains on: keep the
    rows of `imagenet` to test networks that were trained on CIFAR-10. ImageNet's labels were not
    looked at again, so that some are wrong. Rows are in the order of part, class and name of the
    file.
    Reference: L. Darlow, E. Crowley, A. Antoniou, A. Storkey, CINIC-10 is not ImageNet or CIFAR-10,
    2018.
    """

    size: int = knob(
        32, domain="[4, 512]", doc="side of the picture in pixels; the original's is 32"
    )

    card = card_of("cinic10")
    instead = ("train", "CINIC-10/train")

    def read(self, folder: Path) -> Reading:
        """The folders train, valid and test, in `folder` or in CINIC-10 in it, else the archive,
        which is unpacked aside once."""
        from crosswind.data.archives.members import TarMembers, walked

        tree_folder = next(
            (
                tree_folder
                for tree_folder in (folder, folder / "CINIC-10")
                if (tree_folder / "train").is_dir()
            ),
            None,
        )
        if tree_folder is not None:
            tree = folder_tree(tree_folder)
            names = [name for name in tree.sizes if _is_picture(name) and name.count("/") == 2]
            return self._reading(names, tree.read, str(tree_folder))
        archive = self.trusted(folder / self.card.files[0].name, walked)
        packed = TarMembers(archive, _is_picture)
        index = {name: i for i, name in enumerate(packed.names)}
        return self._reading(
            packed.names, lambda name: packed.view(index[name]).tobytes(), str(archive)
        )

    def _reading(self, names: Sequence[str], read: Callable[[str], bytes], where: str) -> Reading:
        classes, splits, origins = (attribute.values for attribute in self.attributes())
        pieces = []
        for name in names:
            match = _CINIC_PLACE.fullmatch(name)
            if match is None or match[1] not in splits or match[2] not in classes:
                raise DataError(
                    f"{where} is not CINIC-10: {shown(name)} is not PART/CLASS/FILE, or not named"
                    " as its pictures are"
                )
            origin = "imagenet"
            if match[4] is not None:
                origin = f"cifar10-{match[4]}"
            pieces.append(
                (
                    splits.index(match[1]),
                    classes.index(match[2]),
                    match[3],
                    origins.index(origin),
                    name,
                )
            )
        present = {row[:2] for row in pieces}
        for code, split in enumerate(splits):
            for label, name in enumerate(classes):
                if (code, label) not in present:
                    raise DataError(
                        f"{where} is not CINIC-10: it holds no picture of {split}/{name}"
                    )
        pieces.sort()
        codes = np.array(
            [(label, split, origin) for split, label, _, origin, _ in pieces], dtype=np.uint8
        ).T

        def opened(row: int) -> bytes:
            data = read(pieces[row][-1])
            # The header of a PNG: its mark, the length and name of the first chunk, width and
            # height.
            if data[:8] != b"\x89PNG\r\n\x1a\n" or data[16:24] != SIDE.to_bytes(4, "big") * 2:
                raise Refused("is not a PNG of 32 x 32 pixels")
            return data

        images = decoder(opened, self.size, lambda row: f"{where}: {pieces[row][-1]!r}")
        shape = InputSpec.image(self.size, self.size, 3)
        table = AttributeTable(self.attributes(), codes)
        dataset = AttributedDataset("cinic10", table, images, shape, from_files=True)
        rows_of = {split: int((codes[1] == i).sum()) for i, split in enumerate(splits)}
        return Reading(dataset, rows_of)


def _is_picture(name: str) -> bool:
    # Some systems pack a file of notes beside each file, under its name with two characters before.
    return name.lower().endswith(".png") and not name.rpartition("/")[2].startswith("._")


def _records(data: NDArray[np.uint8], location: str) -> Piece:
    """Labels and pictures of the bytes of one file of CIFAR-10."""
    if not data.size or data.size % RECORD:
        problem = (
            f"{location} has {data.size:,} bytes, which is no number of CIFAR-10's records of"
            f" {RECORD:,}"
        )
        raise DataError(problem)
    records = data.reshape(-1, RECORD)
    # Planes of red, green and blue, seen as pixels: nothing is copied before rows are asked for.
    pictures = records[:, 1:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    labels = records[:, 0]
    return checked_labels(labels, location, len(records)), lambda: pictures
