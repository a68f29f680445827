"""From the classes of a source to those of a study, and from a model's answers to those that a set
allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.data.attributes import Attribute
from crosswind.data.imagenet_classes import outputs_of, synsets
from crosswind.data.spellings import look_of

Answered = tuple[NDArray[np.int64], NDArray[np.float32] | None]


def class_map(
    theirs: Attribute, ours: Attribute, labels: Mapping[str, Any] | None, field: str
) -> NDArray[np.int64]:
    """Our class of each class of a source, -1 for those left out; of several that count as it the
    first."""
    return np.array(
        [classes[0] if classes else -1 for classes in _counted(theirs, ours, labels, field)],
        dtype=np.int64,
    )


def merged_answers(
    theirs: Attribute, ours: Attribute, labels: Mapping[str, Any] | None, field: str
) -> NDArray[np.int64] | None:
    """The class that an answer of each class of ours counts as, int64 [ours], where all of ours may
    be answered; None where each counts as itself. Raises `InputError` as `answers_as` does."""
    if all(len(classes) < 2 for classes in _counted(theirs, ours, labels, field)):
        return None
    counted = answers_as(theirs, ours, labels, field)
    return np.where(counted < 0, np.arange(len(counted)), counted)


def answers_as(
    theirs: Attribute, ours: Attribute, labels: Mapping[str, Any] | None, field: str
) -> NDArray[np.int64]:
    """The class that an answer of each class of ours counts as, int64 [ours]; -1 where no class of
    the source stands for it.

    Raises `InputError` where one of ours is to count as two classes.
    """
    counted = np.full(len(ours.values), -1, dtype=np.int64)
    for classes in _counted(theirs, ours, labels, field):
        for code in classes:
            if counted[code] not in (-1, classes[0]):
                names = [ours.values[int(first)] for first in (code, counted[code], classes[0])]
                problem = f"has {names[0]!r} count as two classes, {names[1]!r} and {names[2]!r}"
                raise InputError(field, problem)
            counted[code] = classes[0]
    return counted


def _counted(
    theirs: Attribute, ours: Attribute, labels: Mapping[str, Any] | None, field: str
) -> list[tuple[int, ...]]:
    """The codes of our classes that count as each class of a source, none for those left out."""
    if labels is None and theirs.values == ours.values:
        return [(code,) for code in range(len(ours.values))]
    mapped = {theirs.code_of(name, field): ours_of for name, ours_of in (labels or {}).items()}
    counted = []
    for code, name in enumerate(theirs.values):
        if code in mapped:
            names = _mapped_names(mapped[code], ours, f"{field}.{name}")
        else:
            names = _names_alike(name, ours, field)
        counted.append(tuple(ours.code_of(ours_of, f"{field}.{name}") for ours_of in names))
    return counted


def _mapped_names(ours_of: Any, ours: Attribute, path: str) -> list[Any]:
    """Our classes that an entry of a map names; none where it is null."""
    if ours_of is None:
        return []
    if ours_of == []:
        raise InputError(path, "is an empty list; null leaves the class out", ours.values)
    if isinstance(ours_of, list):
        return ours_of
    return [ours_of]


def _names_alike(name: str, ours: Attribute, field: str) -> list[str]:
    """Our classes that a class of a source is without being mapped: that of its name, or those of
    ImageNet that it stands for. Raises `InputError` where there is none."""
    if name in ours.values or look_of(name) in map(look_of, ours.values):
        return [name]
    names = _of_imagenet(name, ours)
    if not names:
        raise InputError(
            field,
            f"says nothing of class {name!r}, which is not one of ours; map it to one or to null",
            ours.values,
        )
    return names


def _of_imagenet(name: str, ours: Attribute) -> list[str]:
    """The synsets that count as a class of ObjectNet, ImageNet-Vid-Robust or YTBB-Robust, where all
    of them are ours."""
    outputs_of_name = outputs_of([name])
    if outputs_of_name:
        names = [synsets()[synset] for synset in outputs_of_name[0]]
    else:
        names = []
    if set(names) <= set(ours.values):
        return names
    return []


def allowed(
    answers_as: NDArray[np.int64] | None,
    answer: NDArray[np.int64],
    logits: NDArray[np.float32] | None,
) -> Answered:
    """Answers int64 [n] and logits float32 [n, classes] of a model, among the classes that a set
    allows (see `RowSet.answers_as`).

    A class takes the largest logit of those that count as it, and the logit of any other is the
    least number of float32. An answer that is not allowed becomes the allowed class of the largest
    logit; without logits it is -1, which is never right.
    """
    if answers_as is None:
        return answer, logits
    counted = np.where(answer >= 0, answers_as[answer], -1)
    if logits is None:
        return counted, None
    merged = np.full_like(logits, np.finfo(np.float32).min)
    for code, target in enumerate(answers_as):
        if target >= 0:
            np.maximum(merged[:, target], logits[:, code], out=merged[:, target])
    refused = (answer >= 0) & (counted < 0)
    counted[refused] = merged[refused].argmax(axis=1)
    return counted, merged
