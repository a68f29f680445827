"""Pairings of a method with rows, batches and settings that cannot work, or not as a reader would think.

What cannot work is refused, and what is doubtful is said in a sentence: a method must never be another one in silence. Planning
and runs ask the same questions, so nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import NeedsError
from crosswind.core.knobs import Limit, Needs
from crosswind.core.types import canonical

__all__ = ["Pairing", "doubts", "environments_are_classes", "lot_doubt", "refuse"]


@dataclass(frozen=True)
class Pairing:
    """A method at its settings, and what a run gives it.

    `environment_rows` and `group_rows`: training rows of each environment and of each group (cell of label and attributes), 0 where
    training shows none; those drawn at every visit as expected. `environments_tied`: see `environments_are_classes`. `groups_tied`:
    whether every class has training rows of one group at most. `sampler`: the study's, "uniform" where rows are drawn alike;
    `undrawn_environments` and `undrawn_groups`: names of those with training rows of which it never draws one.
    `lots`: the smallest number of test rows that it adapts to at once, and their name; None where it does not adapt.
    """

    needs: Needs
    limit: Limit | None
    knobs: Mapping[str, Any]
    batch: int
    rows: int
    environment_rows: Sequence[float]
    group_rows: Sequence[float]
    environments_tied: bool
    groups_tied: bool
    sampler: str = "uniform"
    undrawn_environments: Sequence[str] = ()
    undrawn_groups: Sequence[str] = ()
    lots: tuple[int, str] | None = None

    @property
    def environments(self) -> list[float]:
        """Training rows of the environments that have any."""
        return [count for count in self.environment_rows if count > 0]

    @property
    def even(self) -> bool:
        """Whether each batch holds equal shares of two environments or more."""
        return self.needs.sampler == "per-environment" and len(self.environments) > 1

    @property
    def spread(self) -> str:
        """The setting with which rows of one environment are compared with each other, `form = covariance`; empty where none."""
        return next((f"{name} = {value}" for name, value in self.needs.spread.items() if self.knobs.get(name) == value), "")


def refuse(pairing: Pairing, where: str) -> None:
    """Raise `NeedsError`, beginning with `where`, for batches and rows that leave the method nothing to do."""
    needs, batch, present = pairing.needs, pairing.batch, len(pairing.environments)
    if batch < needs.rows:
        raise NeedsError(f"{where} needs batches of at least {needs.rows} rows, and training.batch is {batch}")
    if needs.sampler == "per-environment" and pairing.undrawn_environments:
        raise NeedsError(
            f"{where} draws every environment in equal shares, and the sampler {pairing.sampler} never draws a row of "
            f"environment {_shown(pairing.undrawn_environments)}; choose another 'sampler' (valid: uniform, balanced, reweight "
            "to a test law that has them all, a mixture above 0 and below 1), or other 'environments'"
        )
    if not pairing.spread:
        return
    if not needs.environments:
        if batch < 4:
            raise NeedsError(f"{where} needs batches of at least 4 rows at {pairing.spread}, and training.batch is {batch}")
        return
    if batch < 2 * present:
        raise NeedsError(
            f"{where} compares rows of one environment at {pairing.spread}, so a batch must hold two of each of the {present}, and "
            f"training.batch is {batch}"
        )
    several = sum(count > 1 for count in pairing.environments)
    if several < 2:
        raise NeedsError(
            f"{where} needs two environments with at least two training rows at {pairing.spread}, and "
            f"{several if several else 'none'} of the {present} has them"
        )


def doubts(pairing: Pairing) -> list[str]:
    """What the method may do to its own end, in words that go on from its name, such as "weighs groups, but ..."."""
    needs = pairing.needs
    found = []
    if pairing.limit is not None and (place := pairing.limit.reached(pairing.knobs)):
        values = ", ".join(f"{name} = {value if isinstance(value, str) else canonical(value)}" for name, value in place.items())
        found.append(f"is {pairing.limit.equals} at {values}")
    if pairing.environments_tied and (needs.environments or pairing.even):
        found.append("aligns environments, but here they and the classes nearly tell each other, so aligning them erases the label")
    if pairing.even:
        found += _of_environments(pairing)
    if needs.groups:
        found += _of_groups(pairing)
    if pairing.sampler != "uniform" and (pairing.even or (needs.sampler == "balanced" and pairing.sampler != "balanced")):
        what = "environments" if pairing.even else "groups"
        found.append(f"draws {what} in equal shares, so the sampler {pairing.sampler} decides only among the rows of each")
    return [*found, *lot_doubt(pairing.lots)]


def lot_doubt(lot: tuple[int, str] | None) -> list[str]:
    """What is doubtful of the smallest number of test rows that are adapted to at once, and their name."""
    if lot is None or lot[0] > 1:
        return []
    return [f"adapts to {lot[1]}, which is a single test row, by the statistics of that row alone"]


def _of_environments(pairing: Pairing) -> list[str]:
    found = []
    present = len(pairing.environments)
    if pairing.needs.spread and pairing.needs.environments and pairing.batch < 2 * present:
        found.append(
            f"measures environments by their rows in a batch, and training.batch {pairing.batch} holds a single row of some of the "
            f"{present}"
        )
    single = sum(count == 1 for count in pairing.environments)
    if single:
        found.append(f"has {single} of {present} environments with a single training row, which each batch repeats")
    return found


def _of_groups(pairing: Pairing) -> list[str]:
    found = []
    # Without numbers, so that a plan says it once of all the shifts that it is so under; what is drawn has the numbers.
    undrawn = pairing.undrawn_groups
    absent = sum(not count > 0 for count in pairing.group_rows) - len(undrawn)
    if undrawn:
        found.append(f"cannot weigh groups of which the sampler {pairing.sampler} never draws a row: {_shown(undrawn)}")
    if absent:
        found.append("cannot weigh groups that training does not show")
    if any(count == 1 for count in pairing.group_rows):
        found.append("draws groups evenly, and some have a single training row, which is repeated")
    if pairing.groups_tied:
        found.append("weighs groups, but every class has training rows of one group only, so it weighs classes")
    return found


def _shown(names: Sequence[str]) -> str:
    return repr(names[0]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def environments_are_classes(*tables: NDArray[np.float64]) -> bool:
    """Whether environments nearly tell classes, or classes environments: then aligning environments erases the label.

    `tables`: training rows by class (axis 0) and by environment, or by one of the attributes that make environments (axis 1). It is
    so where one of Goodman and Kruskal's two lambdas is above 0.8 in one of them. With two even ones of each, 0.8 is nine rows in
    ten.
    """
    return any(max(_fewer_errors(rows), _fewer_errors(rows.T)) > 0.8 for rows in tables)


def _fewer_errors(rows: NDArray[np.float64]) -> float:
    """Goodman and Kruskal's lambda: the share of wrong guesses of axis 0 by its commonest that knowing axis 1 spares."""
    wrong = rows.sum() - rows.sum(axis=1).max()
    spared = rows.max(axis=0).sum() - rows.sum(axis=1).max()
    return float(spared / wrong) if wrong else 0.0
