"""DomainNet: 345 classes in six renditions, in the cleaned version of its authors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosswind.core.cards import Original, card_of
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import digest_arrays
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.sources.base import PreparedSource, Reading, from_files, names_chosen
from crosswind.data.trees import Tree, folder_tree, listed, zip_tree

SPLITS = ("train", "test")


@register("domainnet", kind="source")
@dataclass(frozen=True)
class DomainNet(PreparedSource):
    """DomainNet: 586,575 images of 345 classes as clipart, infograph, painting, quickdraw, real and sketch (cleaned version).

    Attributes: `class` (aircraft_carrier, airplane, ..., zigzag, in the order of the official numbers), `rendition`, `split`
    (train, test, as the official lists have them). Rows are those of the lists, by rendition, split and line; images that the lists
    leave out (duplicates, which the zips still hold) are not read. Originals are the zips as they come, or the same folders
    unpacked (`clipart/airplane/...`), and the lists. `renditions` prepares some of them; classes are chosen in a study (`keep`).
    586,575 pictures of 64 x 64 take 7.2 GB as an array; at 224 use `--store jpeg`.
    Reference: X. Peng, Q. Bai, X. Xia, Z. Huang, K. Saenko, B. Wang, Moment Matching for Multi-Source Domain Adaptation, ICCV 2019.
    """

    size: int = knob(64, domain="[4, 1024]", doc="side of the pictures in pixels; proportions are not kept")
    renditions: list[str] | None = knob(None, doc="which renditions are read; all six by default")

    card = card_of("domainnet")

    def __post_init__(self) -> None:
        super().__post_init__()
        known = self.card.attributes["rendition"]
        if self.renditions is not None:
            given = names_chosen(self.renditions, "domainnet.renditions", "rendition", known)
            # One order, so that the same choice is the same copy; None, so that all six are.
            chosen = [name for name in known if name in given]
            object.__setattr__(self, "renditions", None if len(chosen) == len(known) else chosen)

    def variants(self) -> tuple[str, ...]:
        """The renditions that are read: each has a zip and two lists."""
        return self.card.attributes["rendition"] if self.renditions is None else tuple(self.renditions)

    def totals(self) -> Mapping[str, int]:
        """The rows of both parts of each rendition that is read."""
        return {part: rows for part, rows in self.card.totals.items() if part.split()[0] in self.variants()}

    def places(self, folder: Path) -> tuple[Path, ...]:
        """The zips, or the unpacked folders, and the lists."""
        unpacked = (folder / name for name in self.variants())
        return (*(place for place in unpacked if place.is_dir()), *(folder / item.name for item in self.originals()))

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """Originals that are not there; an unpacked folder serves for a zip."""
        gone = super().missing(folder)
        return tuple(item for item in gone if not (item.name.endswith(".zip") and (folder / item.variant).is_dir()))

    def read(self, folder: Path) -> Reading:
        """The rows of the official lists, and their images in zips or folders."""
        lists = folder_tree(folder, only=[f"{name}_{part}.txt" for name in self.variants() for part in SPLITS])
        names: dict[int, str] = {}
        rows: list[tuple[Tree, str]] = []
        codes: list[tuple[int, int, int]] = []
        parts: dict[str, int] = {}
        for code, rendition in enumerate(self.variants()):
            # The zip is what is published; a folder may be anything, so it is read only where there is no zip.
            archive = folder / f"{rendition}.zip"
            images = zip_tree(archive) if archive.exists() else _unpacked(folder, rendition)
            seen: set[str] = set()
            for split, part in enumerate(SPLITS):
                found = _rows(lists, f"{rendition}_{part}.txt", rendition, images, names, seen)
                parts[f"{rendition} {part}"] = len(found)
                rows += [(images, path) for path, _ in found]
                codes += [(number, code, split) for _, number in found]
        twice = [name for name in names.values() if list(names.values()).count(name) > 1]
        if twice:
            raise DataError(f"{folder}: the lists give the class {twice[0]!r} two numbers")
        numbers = sorted(names)
        columns = np.array(codes).T
        columns[0] = np.searchsorted(numbers, columns[0])
        classes = Attribute("class", tuple(names[number] for number in numbers))
        table = AttributeTable((classes, Attribute("rendition", self.variants()), Attribute("split", SPLITS)), columns)
        told = {"source": "domainnet", "bytes": digest_arrays({"bytes": np.array([tree.sizes[file] for tree, file in rows])})}

        def named(row: int) -> str:
            return f"{rows[row][0].name}: {rows[row][1]!r}"

        dataset = from_files("domainnet", table, lambda row: rows[row][0].opened(rows[row][1]), named, self.size, told=told)
        return Reading(dataset, parts)


def _unpacked(folder: Path, rendition: str) -> Tree:
    """The images of a folder, by the names that they have in the zip."""
    inside, before = folder_tree(folder / rendition), f"{rendition}/"
    sizes = {before + name: size for name, size in inside.sizes.items()}
    return Tree(str(folder), sizes, lambda name: inside.opened(name.removeprefix(before)))


def _rows(lists: Tree, name: str, rendition: str, images: Tree, names: dict[int, str], seen: set[str]) -> list[tuple[str, int]]:
    """The paths and class numbers of one list, checked against the images; `names` gathers the name of each number."""
    if name not in lists.sizes:
        raise DataError(f"{lists.name} has no official list {name}")
    rows = listed(lists, name)
    absent = [path for path, _ in rows if path not in images.sizes]
    if absent:
        more = f" and {len(absent) - 1:,} more" if len(absent) > 1 else ""
        raise DataError(f"{lists.name}: {name} lists {absent[0]!r}{more}, which {images.name} does not hold")
    for path, number in rows:
        parts = path.split("/")
        problem = ""
        if len(parts) != 3 or parts[0] != rendition:
            problem = f"which should be {rendition}/CLASS/FILE"
        elif names.setdefault(number, parts[1]) != parts[1]:
            problem = f"with the number {number}, which is that of {names[number]!r} elsewhere"
        elif path in seen:
            problem = "which is in the other list too"
        elif not images.sizes[path]:
            problem = "which is empty"
        if problem:
            raise DataError(f"{lists.name}: {name} lists {path!r}, {problem}")
        seen.add(path)
    return rows
