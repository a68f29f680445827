"""CelebA: faces of celebrities with forty attributes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.attributes import AttributeTable
from crosswind.data.sources.base import Reading
from crosswind.data.sources.packed_trees import File, PackedTrees
from crosswind.data.trees import counted_lines, lines_of

ATTRIBUTES, PARTITION, IDENTITIES = (
    "list_attr_celeba.txt",
    "list_eval_partition.txt",
    "identity_CelebA.txt",
)
_PICTURE = re.compile(r"(?P<before>(?:.*/)?)img_align_celeba/(?P<name>\d{6}\.(?:jpg|png))")


@register("celeba", kind="source")
@dataclass(frozen=True)
class CelebA(PackedTrees):
    """CelebA: 202,599 aligned faces of 10,177 people with forty attributes.

    Attributes: the forty under their own names (`Male`: female, male; `Smiling` and the others: no,
    yes) and `split` (train, valid, test), in which people are apart. A person is a unit. Rows are
    in the order of the lists. The published pictures are of 178 x 218 pixels; proportions are not
    kept.
    Reference: Z. Liu, P. Luo, X. Wang, X. Tang, Deep Learning Face Attributes in the Wild, ICCV
    2015.
    """

    size: int = knob(
        128, domain="[4, 512]", doc="side of the pictures in pixels; proportions are not kept"
    )
    unit: str = knob("identity", domain="{identity, none}", doc="what is never in two roles")

    card = card_of("celeba")

    def read(self, folder: Path) -> Reading:
        """The pictures of `img_align_celeba` with the three lists, which may lie in folders as on
        the data set's site."""
        tree = self.tree(folder)
        lists = self.lists(folder, tree, (ATTRIBUTES, PARTITION, IDENTITIES))
        place_of = {match["name"]: match[0] for match in self.pictures(tree, _PICTURE)}
        attributes = self.attributes()
        names, lines = counted_lines(*lists[ATTRIBUTES])
        attribute_names = [attribute.name for attribute in attributes[:-1]]
        if names != attribute_names:
            problem = (
                f"{ATTRIBUTES} should name CelebA's forty attributes in their order, not"
                f" {shown(' '.join(names), 200)}"
            )
            raise DataError(problem)
        files: list[str] = []
        codes = np.empty((len(attribute_names), len(lines)), dtype=np.uint8)
        for row, line in enumerate(lines):
            name, *marks = line.split()
            if len(marks) != len(attribute_names) or not {"-1", "1"}.issuperset(marks):
                raise DataError(
                    f"{ATTRIBUTES} has not 1 or -1 for each of {len(attribute_names)} attributes of"
                    f" {name!r}"
                )
            files.append(name)
            codes[:, row] = [mark == "1" for mark in marks]
        known_numbers = range(len(attributes[-1]))
        split = numbered(lists[PARTITION], files, known_numbers)
        people = numbered(lists[IDENTITIES], files)
        lacking = next((name for name in files if name not in place_of), None)
        if lacking is not None:
            raise DataError(f"{ATTRIBUTES} lists {lacking!r}, which {tree.name} does not hold")
        counts = np.bincount(split, minlength=len(attributes[-1])).tolist()
        table = AttributeTable(attributes, np.concatenate([codes, split[None]]))
        dataset = self.of_files(table, tree, [place_of[name] for name in files], people)
        return Reading(dataset, dict(zip(attributes[-1].values, counts, strict=True)))


def numbered(file: File, names: list[str], known_numbers: range | None = None) -> NDArray[np.int64]:
    """The number that a list of `name number` lines has for each of the names: int64 [n]. Raises
    `DataError`."""
    pairs = [line.split() for line in lines_of(*file)]
    strange = next(
        (
            pair
            for pair in pairs
            if len(pair) != 2 or not pair[1].isascii() or not pair[1].isdigit()
        ),
        None,
    )
    if strange is not None:
        problem = (
            f"{file[0].name}: {file[1]} should have a picture and a number a line, not"
            f" {shown(' '.join(strange), 80)}"
        )
        raise DataError(problem)
    number_of = {name: int(word[:15]) for name, word in pairs}
    lacking = next(
        (
            name
            for name in names
            if number_of.get(name) is None
            or (known_numbers and number_of[name] not in known_numbers)
        ),
        None,
    )
    if lacking is not None:
        raise DataError(
            f"{file[0].name}: {file[1]} has no number of {lacking!r}"
            + (f" of 0 to {known_numbers[-1]}" if known_numbers else "")
        )
    return np.array([number_of[name] for name in names], dtype=np.int64)
