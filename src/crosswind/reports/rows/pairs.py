"""Accuracy by pairs of values, and of a systematic shift which pairs training kept apart and what
that cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosswind.evaluation.systematic import SystematicScores, by_environment, kept_apart

if TYPE_CHECKING:
    from crosswind.shifts.split import RowSet, Split

MOST_NAMES = 20
"""Classes, or values of an attribute, that a heat map has room for."""
Ints = NDArray[np.int64]
Column = tuple[Ints, tuple[str, ...]]
"""The codes of rows, and the names of the values."""


class Apart(NamedTuple):
    """Classes by environments: accuracy and rows of each pair, the pairs that training showed, and
    rho of each environment.

    Without `measures` training showed every pair of an environment, or none.
    Where there are more classes than a heat map has room for, those that are seen in the same
    environments stand together. `right` bool [seeds, n]: the answers, in an order of test rows that
    is the same for all methods under one shift. `groups`: the group of each, which of them training
    showed, their names and those of the classes.
    """

    label: str
    environment: str
    cells: Mapping[tuple[str, str], tuple[float, int]]
    seen: frozenset[tuple[str, str]]
    measures: Mapping[str, SystematicScores]
    right: NDArray[np.bool_]
    groups: tuple[Ints, list[bool], tuple[str, ...], tuple[str, ...]]

    def beside(self, reference: Apart) -> Mapping[str, SystematicScores]:
        """`measures` with the accuracy of a reference model, on all classes of an environment,
        taken off as equation 1 has it."""
        return by_environment(self.right, *self.groups, reference=reference.right)

    def sides(
        self, other_apart: Apart
    ) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64], str]]:
        """Of every environment in `measures` the accuracy of each seed of `other_apart`, on the
        pairs
        that are seen here and on the rest.

        With them which classes the training of `other_apart` showed there: every, no, or some.
        Empty
        where its test rows are others.
        """
        group, _, names, class_names = self.groups
        if other_apart.groups[2:] != (names, class_names) or not np.array_equal(
            group, other_apart.groups[0]
        ):
            return {}
        sides_of = {}
        for name, rows, shown in kept_apart(*self.groups):
            is_seen = np.asarray(other_apart.groups[1])[group[rows]]
            seen_words = "every" if is_seen.all() else "some" if is_seen.any() else "no"
            sides_of[name] = (
                other_apart.right[:, rows[shown]].mean(axis=1),
                other_apart.right[:, rows[~shown]].mean(axis=1),
                seen_words,
            )
        return sides_of


def by_pair(
    first_column: Column, second_column: Column, right: NDArray[np.bool_]
) -> dict[tuple[str, str], tuple[float, int]]:
    """Accuracy over the runs of `right` bool [seeds, n], and the number of rows, by the values of
    two attributes."""
    (codes, names), (other_codes, other_names) = first_column, second_column
    accuracy_of_pair = {}
    for code, value in sorted(set(zip(codes.tolist(), other_codes.tolist(), strict=True))):
        inside = (codes == code) & (other_codes == value)
        accuracy_of_pair[names[code], other_names[value]] = (
            float(right[:, inside].mean()),
            int(inside.sum()),
        )
    return accuracy_of_pair


def apart(
    names: tuple[str, str],
    values: Mapping[str, Column],
    right: NDArray[np.bool_],
    rows: RowSet,
    order: Ints,
    split: Split,
) -> Apart:
    """The pairs of the test rows at `order` of `rows`.

    `names`: of the label and of the attribute whose values are environments, both in `values`. They
    and `right` bool [seeds, n] are in that order.
    """
    label, environment = (values[name] for name in names)
    group, seen_groups = rows.group[order], np.asarray(split.seen(rows))
    groups = (group, seen_groups.tolist(), rows.group_names, split.class_names)
    measures = by_environment(right, *groups)
    # By the names of groups: training may show a pair that has no test row.
    size = len(seen_groups) // len(split.class_names)
    table = np.zeros((len(label[1]), len(environment[1])), dtype=bool)
    for group_number in np.flatnonzero(seen_groups):
        group_words = f", {rows.group_names[group_number]}, "
        table[group_number // size] |= [
            f", {names[1]}={value}, " in group_words for value in environment[1]
        ]
    if len(label[1]) > MOST_NAMES:
        label, table = _together(label, environment[1], table)
    pairs = zip(*np.nonzero(table), strict=True)
    return Apart(
        *names,
        by_pair(label, environment, right),
        frozenset((label[1][code], environment[1][value]) for code, value in pairs),
        measures,
        right,
        groups,
    )


def _together(
    label: Column, environments: tuple[str, ...], table: NDArray[np.bool_]
) -> tuple[Column, NDArray[np.bool_]]:
    """Classes that are seen in the same environments as one, named after those that not all classes
    are seen in."""
    patterns, of_class = np.unique(table, axis=0, return_inverse=True)
    always, of_class = patterns.all(axis=0), of_class.ravel()
    names = []
    for number, pattern in enumerate(patterns):
        environment_names = [environments[value] for value in np.flatnonzero(pattern & ~always)]
        names.append(
            f"{'+'.join(environment_names) or 'no other'} ({(of_class == number).sum()} classes)"
        )
    return (of_class[label[0]], tuple(names)), patterns
