"""PACS: photos, art paintings, cartoons and sketches of seven classes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import Card, Original
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import digest, digest_arrays
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.decoding import IMAGE_ENDINGS, decoder
from crosswind.data.sources.base import PreparedSource, Reading
from crosswind.data.trees import Tree, folder_tree, joined, listed, zip_tree

__all__ = ["Pacs"]

CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
RENDITIONS = ("photo", "art_painting", "cartoon", "sketch")
SPLITS = ("train", "crossval")
ARCHIVES = ("PACS.zip", "pacs.zip", "kfold.zip")
_ENDINGS = "|".join(ending.removeprefix(".") for ending in IMAGE_ENDINGS)
_PLACE = re.compile(rf"(?P<before>(?:.*/)?)(?P<place>(?:{'|'.join(RENDITIONS)})/(?P<class>[^/]+)/[^/]+\.(?i:{_ENDINGS}))")


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

    card = Card(
        attributes={
            "class": ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person"),
            "rendition": ("photo", "art_painting", "cartoon", "sketch"),
            "split": ("train", "crossval"),
        },
        totals={"photo": 1_670, "art_painting": 2_048, "cartoon": 2_344, "sketch": 3_929},
        shape="227 x 227 x 3",
        licence="for research; its images are of Caltech-256, Sketchy, TU-Berlin and Google Images, each with its own terms",
        citation="Li, Yang, Song, Hospedales, Deeper, Broader and Artier Domain Generalization, ICCV 2017",
        used={
            "omran2022": "renditions as environments at small scale (section 3.3 uses DomainNet)",
            "jeon2025": "named as the benchmark of one shift at a time (section 1)",
        },
        layout="what the loaders of DomainBed, Dassl and JiGen read: RENDITION/CLASS/FILE and RENDITION_PART_kfold.txt",
        get="get PACS (its folder kfold, or PACS.zip) and its official lists *_kfold.txt, linked from "
        "https://domaingeneralization.github.io, and put them there as they are",
    )

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """The archive, where there is not even a folder to look into."""
        return () if folder.is_dir() else (Original(ARCHIVES[0]),)

    def read(self, folder: Path) -> Reading:
        """The images RENDITION/CLASS/FILE, at any depth of `folder` or in a zip archive there, and the lists beside them."""
        tree = _tree(folder)
        prefix, files = _images(tree, folder)
        codes = [np.array([CLASSES.index(place.split("/")[1]) for place in files])]
        rendition = np.array([RENDITIONS.index(place.split("/")[0]) for place in files])
        attributes = [Attribute("class", CLASSES), Attribute("rendition", RENDITIONS)]
        codes.append(rendition)
        if self.lists:
            attributes.append(Attribute("split", SPLITS))
            codes.append(_split(tree, folder, {place: row for row, place in enumerate(files)}))
        table = AttributeTable(tuple(attributes), np.stack(codes))
        bytes_of = np.array([tree.sizes[prefix + place] for place in files])
        told = {"source": "pacs", "size": self.size, "table": table.digest(), "bytes": digest_arrays({"bytes": bytes_of})}
        dataset = AttributedDataset(
            name="pacs",
            table=table,
            images=decoder(
                lambda row: tree.opened(prefix + files[row]), self.size, lambda row: f"{tree.name}: {prefix}{files[row]}"
            ),
            image_shape=(self.size, self.size, 3),
            fingerprint=digest(told),
            from_files=True,
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
    for name in tree.sizes:
        match = _PLACE.fullmatch(name)
        if match is None:
            continue
        if match["class"] not in CLASSES:
            raise DataError(f"{tree.name}: {name!r} lies in a folder that is no class of PACS ({', '.join(CLASSES)})")
        if not tree.sizes[name]:
            raise DataError(f"{tree.name}: {name!r} is empty")
        found.setdefault(match["before"], []).append(match["place"])
    if not found:
        raise DataError(f"{folder} holds no images of PACS: there should be folders like photo/dog, or {' or '.join(ARCHIVES)}")
    if len(found) > 1:
        first, second = list(found)[:2]
        raise DataError(f"{folder} holds images of PACS in two places: in {first or '.'!r} and in {second or '.'!r}")
    ((before, places),) = found.items()
    rank = {rendition: place for place, rendition in enumerate(RENDITIONS)}
    return before, sorted(places, key=lambda place: (rank[place.split("/")[0]], place))


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
                if not 1 <= number <= len(CLASSES) or CLASSES[number - 1] != path.split("/")[1]:
                    raise DataError(f"{tree.name}: {name} says that {path!r} is of class {number}, not what its folder says")
                if split[row] >= 0:
                    raise DataError(f"{tree.name}: {name} lists {path!r}, which the list of {SPLITS[split[row]]!r} has too")
                split[row] = code
    if (split < 0).any():
        path = list(rows)[int((split < 0).argmax())]
        many = int((split < 0).sum())
        raise DataError(f"{tree.name}: the official lists leave out {path!r}{f' and {many - 1:,} more' if many > 1 else ''}")
    return split


def _list_of(tree: Tree, folder: Path, wanted: str) -> str:
    """The name in the tree of an official list."""
    found = [name for name in tree.sizes if name.rpartition("/")[2] == wanted]
    if not found:
        raise DataError(
            f"{folder} has no official list {wanted}; put it there, or set lists=false to go without the attribute split"
        )
    if len(found) > 1:
        raise DataError(f"{folder} has the official list {wanted} twice: {found[0]!r} and {found[1]!r}")
    return found[0]
