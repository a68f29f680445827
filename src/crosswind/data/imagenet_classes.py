"""ImageNet's 1,000 classes, subsets of them, and which of a network's 1,000 outputs stand for a
class of another data set."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError
from crosswind.core.types import digest
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset


@cache
def synsets() -> tuple[str, ...]:
    """The 1,000 synsets in the order of a network's outputs."""
    return tuple(_facts()["synsets"].split())


def subset(name: str) -> tuple[str, ...]:
    """The 200 synsets of `imagenet-a` or of `imagenet-r`, in the order of the 1,000."""
    return tuple(synsets()[position] for position in _places(_facts()["subsets"][name]))


def groups(name: str) -> dict[str, tuple[int, ...]]:
    """The classes of `objectnet`, `imagenet-vid` or `ytbb`, and the outputs that count as each,
    none for what ImageNet has not."""
    return {
        label: _places(output_ranges) for label, output_ranges in _facts()["groups"][name].items()
    }


def outputs_of(class_names: Sequence[str]) -> list[tuple[int, ...]] | None:
    """The outputs that count as each class, by its name; None where a name is of none of these
    sets."""
    outputs_by_name = _known()
    if all(name in outputs_by_name for name in class_names):
        return [outputs_by_name[name] for name in class_names]
    return None


def onto_classes(
    imagenet_outputs: NDArray[Any], class_names: Sequence[str]
) -> NDArray[np.float32] | None:
    """Outputs [n, 1000] as logits [n, k] of other classes: the largest of the outputs that count as
    a class.

    A class that ImageNet has not is never answered: its logit is the least number of float32. None
    where a class is not known.
    """
    outputs_by_class = outputs_of(class_names)
    if outputs_by_class is None:
        return None
    least = np.finfo(np.float32).min
    logits = np.full((len(imagenet_outputs), len(outputs_by_class)), least, dtype=np.float32)
    for code, output_numbers in enumerate(outputs_by_class):
        if output_numbers:
            logits[:, code] = imagenet_outputs[:, list(output_numbers)].max(axis=1)
    return logits


def in_classes(dataset: AttributedDataset, classes: str) -> AttributedDataset:
    """The data set with its classes as they are (`present`), all 1,000 in ImageNet's order, or
    those of a subset that it has.

    Raises `DataError` where it has none of them, `InputError` where its classes are not ImageNet's.
    """
    if classes == "present":
        return dataset
    label = dataset.attribute("class")
    if not set(label.values) <= set(synsets()):
        raise InputError(
            f"{dataset.name}.classes",
            "takes the classes of ImageNet, and this set has its own",
            ["present"],
        )
    if classes != "all":
        names = [name for name in subset(classes) if name in label.values]
        if not names:
            raise DataError(f"{dataset.name} has no picture of a class of {classes}")
        return dataset.keep({"class": names})
    column_number = dataset.table.names.index("class")
    codes = dataset.table.codes.astype(np.int64)
    synset_numbers = np.array([synsets().index(name) for name in label.values])
    codes[column_number] = synset_numbers[codes[column_number]]
    attributes = tuple(
        Attribute("class", synsets()) if i == column_number else attribute
        for i, attribute in enumerate(dataset.table.attributes)
    )
    fingerprint = digest({"of": dataset.fingerprint, "classes": "all"})
    return replace(dataset, table=AttributeTable(attributes, codes), fingerprint=fingerprint)


@cache
def _facts() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@cache
def _known() -> dict[str, tuple[int, ...]]:
    # A name that two of the sets have means the same outputs in both: a test holds them to it.
    outputs_by_name = {}
    for group in _facts()["groups"]:
        for name, output_numbers in groups(group).items():
            outputs_by_name[name] = output_numbers
    return outputs_by_name | {
        name: (output_number,) for output_number, name in enumerate(synsets())
    }


def _places(ranges: str) -> tuple[int, ...]:
    """`3 7-9` as (3, 7, 8, 9)."""
    runs = [word.partition("-") for word in ranges.split()]
    return tuple(
        number for first, _, last in runs for number in range(int(first), int(last or first) + 1)
    )
