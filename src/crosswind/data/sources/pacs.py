"""PACS: photos, art paintings, cartoons and sketches of seven classes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import Original, card_of
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import digest_arrays
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.sources.base import PreparedSource, Reading, from_files, positions
from crosswind.data.trees import Tree, folder_tree, joined, listed, zip_tree

CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
RENDITIONS = ("photo", "art_painting", "cartoon", "sketch")
SPLITS = ("train", "crossval")
ARCHIVES = ("PACS.zip", "pacs.zip", "kfold.zip")
_PLACE = re.compile(rf"(?P<before>(?:.*/)?)(?P<place>(?:{'|'.join(RENDITIONS)})/(?P<class>[^/]+)/[^/]+\.(?i:jpe?g|png))")


@register("pacs", kind="source")
@dataclass(frozen=True)
class Pacs(PreparedSource):
    """PACS: 9,991 images of seven classes as photos, art paintings, cartoons and sketches.

    Attributes: `class` (dog, elephant, giraffe, guitar, horse, house, person), `rendition` (photo, art_painting, cartoon, sketch)
    and, from the official lists, `split` (train, crossval; the lists called `test` hold both). Rows are in the order of rendition,
    class and file. Classes are not balanced, and not alike in the renditions: 80 of 3,929 sketches are houses. One sketch of a dog,
    n02103406_4068-1.png, shows the word ERROR and is one of the 9,991. Leave-one-rendition-out: `studies/pacs/leave-one-out.yaml`.
    Reference: D. Li, Y. Yang, Y.-Z. Song, T. Hospedales, Deeper, Broader and Artier Domain Generalization, ICCV 2017.
    """

    size: int = knob(64, domain="[4, 512]", doc="side of the pictures in pixels; the original's is 227")
    lists: bool = knob(True, doc="whether the official lists are read for the attribute split; false where they are not at hand")

    card = card_of("pacs")

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """The archive, where there is not even a folder to look into."""
        return () if folder.is_dir() else (Original(ARCHIVES[0]),)

    def read(self, folder: Path) -> Reading:
        """The images RENDITION/CLASS/FILE, at any depth of `folder` or in a zip archive there, and the lists beside them."""
        tree = _tree(folder)
        prefix, files = _images(tree, folder)
        rendition = positions((file.split("/")[0] for file in files), RENDITIONS)
        codes = [positions((file.split("/")[1] for file in files), CLASSES), rendition]
        attributes = [Attribute("class", CLASSES), Attribute("rendition", RENDITIONS)]
        if self.lists:
            attributes.append(Attribute("split", SPLITS))
            codes.append(_split(tree, folder, {file: row for row, file in enumerate(files)}))
        table = AttributeTable(tuple(attributes), np.stack(codes))
        bytes_of = np.array([tree.sizes[prefix + file] for file in files])
        dataset = from_files(
            "pacs",
            table,
            lambda row: tree.opened(prefix + files[row]),
            lambda row: f"{tree.name}: {prefix}{files[row]}",
            self.size,
            told={"source": "pacs", "bytes": digest_arrays({"bytes": bytes_of})},
        )
        return Reading(dataset, {name: int((rendition == code).sum()) for code, name in enumerate(RENDITIONS)})


def _tree(folder: Path) -> Tree:
    """The files of the folder, and of the archive that it may hold, unless its images lie unpacked beside it."""
    here = folder_tree(folder)
    unpacked = any(_PLACE.fullmatch(name) for name in here.sizes)
    archives = [name for name in here.sizes if not unpacked and name.rpartition("/")[2] in ARCHIVES]
    return joined([here, *(zip_tree(folder / name) for name in archives)], str(folder))


def _images(tree: Tree, folder: Path) -> tuple[str, list[str]]:
    """What stands before RENDITION/CLASS/FILE in the names of all images, and these, in the order of the rows."""
    found: dict[str, list[str]] = {}
    for match in filter(None, map(_PLACE.fullmatch, tree.sizes)):
        if match["class"] not in CLASSES:
            raise DataError(f"{tree.name}: {match[0]!r} lies in a folder that is no class of PACS ({', '.join(CLASSES)})")
        if not tree.sizes[match[0]]:
            raise DataError(f"{tree.name}: {match[0]!r} is empty")
        found.setdefault(match["before"], []).append(match["place"])
    if not found:
        raise DataError(f"{folder} holds no images of PACS: there should be folders like photo/dog, or {' or '.join(ARCHIVES)}")
    if len(found) > 1:
        first, second = list(found)[:2]
        raise DataError(f"{folder} holds images of PACS in two places: in {first or '.'!r} and in {second or '.'!r}")
    ((before, places),) = found.items()
    return before, sorted(places, key=lambda place: (RENDITIONS.index(place.split("/")[0]), place))


def _split(tree: Tree, folder: Path, rows: Mapping[str, int]) -> NDArray[np.int64]:
    """The official part of each row: 0 train, 1 crossval."""
    split = np.full(len(rows), -1)
    present = {place.split("/")[0] for place in rows}
    for rendition in (name for name in RENDITIONS if name in present):
        for code, part in enumerate(SPLITS):
            name = _list_of(tree, folder, f"{rendition}_{part}_kfold.txt")
            for path, number in listed(tree, name):
                row = rows.get(path)
                if row is None or path.split("/")[0] != rendition:
                    raise DataError(f"{tree.name}: {name} lists {path!r}, and there is no such image of {rendition!r}")
                if path.split("/")[1] not in CLASSES[number - 1 : number]:
                    raise DataError(f"{tree.name}: {name} says that {path!r} is of class {number}, not what its folder says")
                if split[row] >= 0:
                    raise DataError(f"{tree.name}: {name} lists {path!r}, which the list of {SPLITS[split[row]]!r} has too")
                split[row] = code
    left = np.flatnonzero(split < 0)
    if left.size:
        more = f" and {left.size - 1:,} more" if left.size > 1 else ""
        raise DataError(f"{tree.name}: the official lists leave out {list(rows)[int(left[0])]!r}{more}")
    return split


def _list_of(tree: Tree, folder: Path, wanted: str) -> str:
    """The name in the tree of an official list."""
    found = [name for name in tree.sizes if name.rpartition("/")[2] == wanted]
    if len(found) != 1:
        many = f"twice: {found[0]!r} and {found[1]!r}" if found else "nowhere"
        advice = "; put it there, or set lists=false to go without the attribute split"
        raise DataError(f"{folder} has the official list {wanted} {many}{'' if found else advice}")
    return found[0]
