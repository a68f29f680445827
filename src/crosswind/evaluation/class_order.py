"""Whether a model's outputs stand in another order than its classes are named in: told from rows
whose labels are known.

A network that is given in another order than we read it is wrong in a pattern. Its answers go over
into the labels by a matching of outputs to classes. `better_order` finds such a matching, and tells
it from honest confusion by two conditions:

* The matching is *far better*: over the classes that it moves it is right `FAR` times as often as
  the given order, classes alike, or `FAR_FROM_MANY` times where it is right on less than half.
  Classes count alike because a network that always gives one answer would else be explained by the
  order in which that answer is the commonest class.
* Chance does not explain that. Under the hypothesis that the given order is at least as good, a row
  on which one of the two orders is right is a coin that shows the other order at most half of the
  time. `_chance` bounds the probability of a surplus as large. `LEVEL` is divided among three ways
  of finding an order. Usual ones (sorted as text, turned round, shifted by one) are tried on all
  rows. The matching that half of the rows of each class show is tried on the other half, so that
  its choice costs nothing: many classes of few rows need that. The matching that all rows show is
  tried on all of them. Its level is divided by the number of matchings that move as many classes:
  two classes changed about need that.

`benchmarks/papers/class_orders.py` measures how often honest networks are taken for ones of another
order,
and how often others are found.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.005
"""How often an honest model may be taken for one of another order by chance, over all orders that
are tried."""
FAR_OF_TWO, FAR, FAR_FROM_MANY = 2.0, 3.0, 4.0
"""How many times as often as the given order a matching must be right: of two classes; of more,
where it is right on half of the rows of the classes that it moves; and where it is right on fewer.
"""
_MOST = 3000
"""Classes of which a matching is looked for: the table of answers and labels grows with their
square."""
_MANY = 20
_USUAL, _USUAL_OF_MANY = 0.3, 0.15
_CLEAR, _CLEAR_OF_MANY = 0.6, 0.4
"""On which share of the rows of the classes that it moves a usual order must be right at least, and
a matching that only the rows show; with at most `_MANY` classes, and with more. A network that is
shown its pictures turned, mirrored or inverted confuses classes in a pattern as well: ours of
digits on up to 0.5 of the rows."""
_SACRIFICED = 0.15
"""The share of the classes that an order moves which may be explained worse by it: the best
matching for a network that confuses classes gains on some of them by giving others up, and where
outputs stand in another order nearly all gain."""
_NEAR = 0.9
"""The share of what the matching that the rows show explains that a usual order must explain to be
named instead."""
_BONUS = 0.5
"""Rows that the given order has in advance for each class, so that a class with little evidence is
not moved."""

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BetterOrder:
    """An order of the outputs that explains labelled rows far better than the given one.

    `classes`: the names in that order. `name`: what the order is, such as "sorted as text", empty
    for one that only the rows show. `given`, `better`: shares of the `rows` that are right in the
    given order and in this one. `unseen`: classes without a labelled row, whose place the rows do
    not tell.
    """

    classes: tuple[str, ...]
    name: str
    given: float
    better: float
    rows: int
    unseen: tuple[str, ...] = ()


def better_order(answer: Codes, label: Codes, class_names: Sequence[str]) -> BetterOrder | None:
    """The order that explains the rows far better than `class_names`, or None where there is none.

    `answer` int64 [n], the number of the output that a model answered by, -1 for no answer. `label`
    int64 [n], of the class of each row, in the order of `class_names`; rows are in the order of the
    source.
    """
    n_classes = len(class_names)
    labelled = (label >= 0) & (label < n_classes)
    answer = answer[labelled]
    label = label[labelled]
    if n_classes < 2 or n_classes > _MOST or not len(label):
        return None
    counts = _counts(answer, label, n_classes)
    usual = _usual_orders(class_names, label)
    level = LEVEL / (len(usual) + 2)
    at_least = _USUAL if n_classes <= _MANY else _USUAL_OF_MANY
    candidates = [
        (name, output_of)
        for name, output_of in usual.items()
        if _is_far_better(output_of, counts, level, at_least)
    ]
    matched = _best_matching(counts)
    moved = int((matched != np.arange(n_classes)).sum())
    searched = level / _matchings(moved, n_classes)
    if _is_far_better(matched, counts, searched, _clear(n_classes)) or _holds_on_other_half(
        answer, label, n_classes, level
    ):
        candidates.append(("", matched))
    if not candidates:
        return None
    explained = [_recalls(output_of, counts).sum() for _, output_of in candidates]
    enough = _NEAR * max(explained)
    name, output_of = next(
        candidate
        for candidate, recall in zip(candidates, explained, strict=True)
        if recall >= enough
    )
    rows_of = counts.sum(axis=1)
    unseen = tuple(class_names[code] for code in range(n_classes) if not rows_of[code])
    right = float((output_of[label] == answer).mean())
    classes = _names_of(output_of, class_names)
    return BetterOrder(classes, name, float((answer == label).mean()), right, len(label), unseen)


def best_order(
    answer: Codes, label: Codes, class_names: Sequence[str]
) -> tuple[tuple[str, ...], float]:
    """The order of the outputs that fits labelled rows best, however little they tell, and the
    share of them that is then right.

    `answer` and `label` as in `better_order`.
    """
    output_of = _best_matching(_counts(answer, label, len(class_names)))
    return _names_of(output_of, class_names), float((output_of[label] == answer).mean())


def _names_of(output_of: Codes, class_names: Sequence[str]) -> tuple[str, ...]:
    """The classes in the order of the outputs, from the output of every class."""
    return tuple(class_names[code] for code in np.argsort(output_of))


# -- orders that people use ------------------------------------------------------------------------


def _numbers_in(name: str) -> list[tuple[int, float, str]]:
    """A key that sorts `class2` before `class10`."""
    pieces = re.split(r"(\d+)", name.casefold())
    return [
        (0, float(piece), "") if piece.isdigit() else (1, 0.0, piece) for piece in pieces if piece
    ]


def _letters_of(name: str) -> str:
    """A key that sorts as a dictionary does: by letters and digits, whatever their case and
    accents."""
    plain = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in plain if letter.isalnum())


_SORTS: dict[str, Callable[[str], object]] = {
    "sorted as text": str,
    "sorted by the numbers in them": _numbers_in,
    "sorted without regard to case": str.casefold,
    "sorted as in a dictionary": _letters_of,
}


def _usual_orders(class_names: Sequence[str], label: Codes) -> dict[str, Codes]:
    """Orders that programs give outputs, as the output of every class, int64 [k]; the given one is
    left out, and so are repeats."""
    n_classes = len(class_names)
    codes = list(range(n_classes))
    orders: dict[str, list[int]] = {}
    for name, key in _SORTS.items():
        orders[name] = sorted(codes, key=lambda code: key(class_names[code]))  # type: ignore[arg-type, return-value]
    present, first = np.unique(label, return_index=True)
    counts = np.bincount(label, minlength=n_classes)
    if len(present) == n_classes:
        orders["in the order of their first rows"] = present[np.argsort(first)].tolist()
        orders["the most frequent first"] = np.argsort(-counts, kind="stable").tolist()
    orders["turned round"] = codes[::-1]
    orders["shifted by one"] = [*codes[-1:], *codes[:-1]]
    orders["shifted by one, the other way"] = [*codes[1:], *codes[:1]]
    distinct: dict[str, Codes] = {}
    tried = {tuple(codes)}
    for name, order in orders.items():
        if tuple(order) not in tried:
            tried.add(tuple(order))
            distinct[name] = np.argsort(np.array(order, dtype=np.int64))
    return distinct


# -- what the rows show ----------------------------------------------------------------------------


def _counts(answer: Codes, label: Codes, n_classes: int) -> Floats:
    """How often each output was the answer for rows of each class, float64 [k, k + 1]; the last
    column is of no answer."""
    column = np.where((answer >= 0) & (answer < n_classes), answer, n_classes)
    flat = np.bincount(label * (n_classes + 1) + column, minlength=n_classes * (n_classes + 1))
    return flat.reshape(n_classes, n_classes + 1).astype(np.float64)


def _best_matching(counts: Floats) -> Codes:
    """The output of every class, int64 [k], so that the mean recall of the classes is largest."""
    from scipy.optimize import linear_sum_assignment

    n_classes = len(counts)
    rows_of = counts.sum(axis=1, keepdims=True)
    recall = (counts[:, :n_classes] + _BONUS * np.eye(n_classes)) / (rows_of + _BONUS)
    return np.asarray(linear_sum_assignment(recall, maximize=True)[1], dtype=np.int64)


def _recalls(output_of: Codes, counts: Floats) -> Floats:
    """The share of each class's rows that is right with these `output_of`, float64 [k]; 0 for a
    class
    without rows."""
    rows_of = counts.sum(axis=1)
    return counts[np.arange(len(counts)), output_of] / np.maximum(rows_of, 1)


def _is_far_better(output_of: Codes, counts: Floats, level: float, at_least: float) -> bool:
    """Whether the matching is far better than the given order, and not by chance, and right on a
    share of `at_least`."""
    codes = np.arange(len(counts))
    moved = output_of != codes
    if not moved.any():
        return False
    rows_of = counts.sum(axis=1)[moved]
    right_other = counts[codes, output_of][moved]
    right_as_read = counts[codes, codes][moved]
    # Nothing is known of a class without rows: all of it may be right in the given order.
    unseen = rows_of == 0
    right_as_read = np.where(unseen, 1.0, right_as_read)
    rows_of = np.where(unseen, 1.0, rows_of)
    explained = float((right_other / rows_of).mean())
    as_given = float((right_as_read / rows_of).mean())
    if ((right_as_read > right_other) & ~unseen).sum() > _SACRIFICED * moved.sum():
        return False
    if len(counts) == 2:
        factor = FAR_OF_TWO
    elif explained > 0.5:
        factor = FAR
    else:
        factor = FAR_FROM_MANY
    return (
        explained >= max(factor * as_given, at_least)
        and _chance(right_other, right_as_read, rows_of) <= level
    )


def _chance(right_other: Floats, right_as_read: Floats, rows_of: Floats) -> float:
    """A bound on the probability that coins show the other order as often as they did, each class
    counting alike.

    `right_other`, `right_as_read`: rows of each class on which the other order is right, and the
    given one,
    float64 [m]; `rows_of`: all its rows. Chernoff's bound, which is exact where the given order is
    never right.
    """
    coins = right_other + right_as_read
    weight = 1 / rows_of
    surplus = float((right_other * weight).sum())
    if surplus <= float((coins * weight).sum()) / 2:
        return 1.0
    # The bound holds for every tilt; a grid of tilts is near enough to the best one.
    tilts = np.geomspace(1e-2, 1e4, 200)
    moments = (np.logaddexp(0.0, tilts[:, None] * weight) - np.log(2)) @ coins
    return float(np.exp(min(0.0, (moments - tilts * surplus).min())))


def _matchings(moved: int, n_classes: int) -> float:
    """A number above that of the matchings that move so many classes, times 2, 6, 12, ... for 2, 3,
    4, ... moved ones.

    The reciprocals of the factors sum to 1, so that the levels of all matchings sum to the one that
    is divided.
    """
    if moved < 2:
        return 1.0
    logarithm = math.lgamma(n_classes + 1) - math.lgamma(n_classes - moved + 1) - math.log(2)
    return moved * (moved - 1) * math.exp(min(logarithm, 700.0))


def _holds_on_other_half(answer: Codes, label: Codes, n_classes: int, level: float) -> bool:
    """Whether the matching that half of the rows of each class show is far better on the other
    half."""
    order = np.argsort(label, kind="stable")
    sizes = np.bincount(label, minlength=n_classes)
    position = np.arange(len(label)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chooses = order[position % 2 == 0]
    tries = order[position % 2 == 1]
    matched = _best_matching(_counts(answer[chooses], label[chooses], n_classes))
    counts = _counts(answer[tries], label[tries], n_classes)
    return _is_far_better(matched, counts, level, _clear(n_classes))


def _clear(n_classes: int) -> float:
    """The share on which a matching that only the rows show must be right."""
    return _CLEAR if n_classes <= _MANY else _CLEAR_OF_MANY
