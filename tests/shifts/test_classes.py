"""Classes of a source as classes of the study, and the answers that a set allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crosswind.core.errors import InputError
from crosswind.data.attributes import Attribute
from crosswind.data.imagenet_classes import groups, synsets
from crosswind.shifts.split.classes import allowed, answers_as, class_map, merged_answers

LEAST = np.finfo(np.float32).min
ANIMALS = Attribute("class", ("cat", "dog", "wolf", "car"))


@pytest.mark.parametrize(
    ("names", "labels", "classes", "counted"),
    [
        (("dog", "cat"), None, [1, 0], [0, 1, -1, -1]),
        (("canine", "cat"), {"canine": ["dog", "wolf"]}, [1, 0], [0, 1, 1, -1]),
        (("canine", "cat"), {"canine": ["wolf", "dog"]}, [2, 0], [0, 2, 2, -1]),
        (("canine", "ship"), {"canine": "dog", "ship": None}, [1, -1], [-1, 1, -1, -1]),
        (("car", "lorry"), {"lorry": "car"}, [3, 3], [-1, -1, -1, 3]),
        (("cat", "dog", "wolf", "car"), None, [0, 1, 2, 3], [0, 1, 2, 3]),
    ],
)
def test_classes_of_a_source_stand_for_classes_of_the_study(
    names: tuple[str, ...], labels: Any, classes: list[int], counted: list[int]
) -> None:
    theirs = Attribute("class", names)
    assert class_map(theirs, ANIMALS, labels, "sets.s.labels").tolist() == classes
    assert answers_as(theirs, ANIMALS, labels, "sets.s.labels").tolist() == counted


@pytest.mark.parametrize(
    ("names", "labels", "counted"),
    [
        (("canine", "cat"), {"canine": ["dog", "wolf"]}, [0, 1, 1, 3]),
        (("canine",), {"canine": ["wolf", "dog", "cat"]}, [2, 2, 2, 3]),
        (("canine", "ship"), {"canine": "dog", "ship": None}, None),
        (("car", "lorry"), {"lorry": "car"}, None),
        (("cat", "dog", "wolf", "car"), None, None),
    ],
)
def test_where_all_may_be_answered_any_of_several_classes_is_right(
    names: tuple[str, ...], labels: Any, counted: list[int] | None
) -> None:
    merged = merged_answers(Attribute("class", names), ANIMALS, labels, "sets.s.labels")
    assert (None if merged is None else merged.tolist()) == counted


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (
            {"a": ["dog", "wolf"], "b": ["cat", "wolf"]},
            "'wolf' count as two classes, 'dog' and 'cat'",
        ),
        ({"a": [], "b": "cat"}, "sets.s.labels.a is an empty list"),
        ({"a": ["dog", "frog"], "b": "cat"}, "frog"),
        ({"a": "dog"}, "says nothing of class 'b'"),
    ],
)
def test_what_is_no_map_of_classes_is_named(labels: Any, sentence: str) -> None:
    with pytest.raises(InputError) as raised:
        answers_as(Attribute("class", ("a", "b")), ANIMALS, labels, "sets.s.labels")
    assert sentence in str(raised.value).replace(":", "", 1)


def test_kinds_of_things_stand_for_imagenets_classes_where_all_of_them_are_there() -> None:
    """A chair is three of ImageNet's classes. With two of the three in the study it is not known
    what a chair is."""
    kinds = Attribute("class", ("alarm_clock", "chair"))
    counted = answers_as(kinds, Attribute("class", synsets()), None, "sets.s.labels")
    expected = {
        code: codes[0]
        for name in kinds.values
        for codes in [groups("objectnet")[name]]
        for code in codes
    }
    assert {code: int(counted[code]) for code in np.flatnonzero(counted >= 0)} == expected and len(
        expected
    ) == 5
    few = Attribute("class", tuple(synsets()[code] for code in (409, 423, 530, 559)))
    with pytest.raises(InputError, match="says nothing of class 'chair'"):
        answers_as(kinds, few, None, "sets.s.labels")


def test_answers_are_the_largest_among_the_allowed() -> None:
    """Cat stands alone, dog and wolf are one class, car is not allowed.

    Row 0: car is largest, then wolf, which counts as dog. Row 1: dog. Row 2: not parsed, and stays
    so. Row 3: cat.
    """
    counted = np.array([0, 1, 1, -1])
    logits = np.array([[1, 2, 3, 9], [0, 5, 1, 2], [3, 2, 1, 0], [4, 1, 3, 2]], dtype=np.float32)
    answer, merged = allowed(counted, np.array([3, 1, -1, 0]), logits)
    assert answer.tolist() == [1, 1, -1, 0] and merged is not None
    assert merged.tolist() == [
        [1, 3, LEAST, LEAST],
        [0, 5, LEAST, LEAST],
        [3, 2, LEAST, LEAST],
        [4, 3, LEAST, LEAST],
    ]
    assert allowed(counted, np.array([3, 2, -1, 0]), None)[0].tolist() == [-1, 1, -1, 0]
    same, untouched = allowed(None, np.array([3]), logits[:1])
    assert same.tolist() == [3] and untouched is not None and untouched.base is logits
