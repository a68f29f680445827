"""DeepFashion's benchmark of category and attribute prediction: clothes with attributes of six
kinds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.sources.base import Reading
from crosswind.data.sources.packed_trees import File, PackedTrees, listed_files
from crosswind.data.trees import Tree, counted_lines, folder_tree, lines_of

SPLITS, FINE = ("train", "val", "test"), "Anno_fine"
_PICTURE = re.compile(r"(?P<before>(?:.*/)?)img/[^/]+/[^/]+\.jpg")


@register("deepfashion", kind="source")
@dataclass(frozen=True)
class DeepFashion(PackedTrees):
    """DeepFashion, the 20,000 pictures of clothes with fine annotations of its benchmark of
    category and attribute prediction.

    Attributes: `category` (50, such as Dress), and six kinds of which a picture has one value each:
    `texture` (floral, ..., solid, lattice), `sleeve`, `length` (maxi_length, mini_length,
    no_dress), `neckline`, `fabric` and `fit`; `other` where the annotation has none or several.
    `split` (train, val, test). An item (a folder of pictures of it) is a unit; where the official
    lists cut items apart, a study that takes them says `unit: none`. Rows are in the order of the
    lists. Proportions are not kept. The coarse annotations (289,222 pictures, 1,000 attributes) are
    not read.
    Reference: Z. Liu, P. Luo, S. Qiu, X. Wang, X. Tang, DeepFashion: Powering Robust Clothes
    Recognition and Retrieval with Rich Annotations, CVPR 2016.
    """

    size: int = knob(
        128, domain="[4, 1024]", doc="side of the pictures in pixels; proportions are not kept"
    )
    unit: str = knob("item", domain="{item, none}", doc="what is never in two roles")

    card = card_of("deepfashion")

    def read(self, folder: Path) -> Reading:
        """The pictures of `img` that the lists of `Anno_fine` name, in the order of train, val and
        test."""
        tree = self.tree(folder)
        before = self.pictures(tree, _PICTURE)[0]["before"]
        lists, top = self._annotations(folder, tree)
        attributes = self.attributes()
        kinds = attributes[1:-1]
        words = _names(lists, f"{top}list_attr_cloth.txt")
        value_names = [value for kind in kinds for value in kind.values if value != "other"]
        if words != value_names:
            raise DataError(
                f"{lists.name}: {top}list_attr_cloth.txt does not name the 26 attributes of"
                " DeepFashion in their order"
            )
        categories = _names(lists, f"{top}list_category_cloth.txt")
        files: list[str] = []
        columns: list[NDArray[np.int64]] = []
        for code, split in enumerate(SPLITS):
            names = lines_of(lists, f"{top}{split}.txt")
            marks = _numbers((lists, f"{top}{split}_attr.txt"), len(names), len(words), (0, 1))
            category_numbers = range(1, len(categories) + 1)
            labels = (
                _numbers((lists, f"{top}{split}_cate.txt"), len(names), 1, category_numbers)[:, 0]
                - 1
            )
            files += listed_files(
                tree, (before + name for name in names), f"{lists.name}: {top}{split}.txt"
            )
            columns.append(np.stack([labels, *_kinds(marks, kinds), np.full(len(names), code)]))
        codes = np.concatenate(columns, axis=1)
        table = AttributeTable(
            (Attribute("category", tuple(categories)), *kinds, attributes[-1]), codes
        )
        _, item_codes = np.unique([name.rsplit("/", 2)[-2] for name in files], return_inverse=True)
        units = item_codes.astype(np.int64)
        dataset = self.of_files(table, tree, files, units)
        counts = np.bincount(codes[-1], minlength=3).tolist()
        return Reading(dataset, dict(zip(SPLITS, counts, strict=True)))

    def _annotations(self, folder: Path, tree: Tree) -> tuple[Tree, str]:
        """The tree that has the folder of fine annotations, and the name of that folder with
        `/`."""
        for lists in (tree, folder_tree(folder)):
            inside = []
            for name in lists.sizes:
                if f"/{name}".endswith(f"/{FINE}/list_attr_cloth.txt"):
                    inside.append(name)
            if len(inside) == 1:
                return lists, inside[0].removesuffix("list_attr_cloth.txt")
        problem = f"{folder} has no folder {FINE} with list_attr_cloth.txt ({self.card.get})"
        raise DataError(problem)


def _names(tree: Tree, name: str) -> list[str]:
    return [line.rpartition(" ")[0].strip() or line for line in counted_lines(tree, name)[1]]


def _numbers(
    file: File, rows: int, columns: int, known_numbers: range | tuple[int, ...]
) -> NDArray[np.int64]:
    """The whole numbers of a list of so many rows: int64 [rows, columns]. Raises `DataError`."""
    words = [line.split() for line in lines_of(*file)]
    if len(words) != rows:
        problem = (
            f"{file[0].name}: {file[1]} has {len(words):,} rows, and its list of pictures has"
            f" {rows:,}"
        )
        raise DataError(problem)
    texts = {str(number) for number in known_numbers}
    wrong = next(
        (
            row
            for row, line in enumerate(words, 1)
            if len(line) != columns or not texts >= set(line)
        ),
        0,
    )
    if wrong:
        raise DataError(
            f"{file[0].name}: {file[1]}, row {wrong:,} should have {columns} numbers of"
            f" {known_numbers[0]} to {known_numbers[-1]}"
        )
    return np.array([[int(word) for word in line] for line in words], dtype=np.int64)


def _kinds(marks: NDArray[np.int64], kinds: tuple[Attribute, ...]) -> list[NDArray[np.int64]]:
    """The value of each kind: the marked one, or the last, `other`, where none or several are
    marked."""
    out = []
    first = 0
    for kind in kinds:
        mine = marks[:, first : first + len(kind) - 1]
        out.append(np.where(mine.sum(axis=1) == 1, mine.argmax(axis=1), len(kind) - 1))
        first += len(kind) - 1
    return out
