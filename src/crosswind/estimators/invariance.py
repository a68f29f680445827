"""Neighbourhood invariance: how far the answers for a row and for the rows made near it agree.

Reference: Ng, Hulkund, Cho & Ghassemi 2022, "Predicting Out-of-Domain Generalization with
Neighborhood Invariance", TMLR 2023, equations 3 and 4 and appendix B.3. The answers for a row and
its neighbours are V votes among k classes. Class j has m_j of them, the share f_j = m_j / V.

    largest     max_j f_j                             in [1/V, 1]       equations 3 and 4
    entropy     sum_j f_j log f_j, in nats            in [-log V, 0]    appendix B.3, table 8
    agreement   sum_j m_j (m_j - 1) / (V (V - 1))     in [0, 1]         ours: the share of pairs of votes that are equal

Votes drawn at random from k classes give an agreement of 1/k whatever V. Their largest share is
0.36 for 5 votes, 0.27 for 10 and 0.17 for 50 with ten classes, so that it compares only where V and
k are equal.

An answer that names no class, -1, agrees with no other, not even with another -1: a model that
gives no readable answer is not invariant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.estimators.base import Answers, Floats, Measure


def invariances(votes: NDArray[np.int64], form: str = "largest") -> Floats:
    """The measure of each row, float64 [n], from its answers, int64 [n, V]; `form` as in the list
    above.

    Raises `DataError` for no answers, and for an agreement of fewer than two.
    """
    least = 2 if form == "agreement" else 1
    if votes.ndim != 2 or votes.shape[1] < least:
        raise DataError(
            f"the invariance of a row needs {least} or more answers, and they have shape"
            f" {votes.shape}"
        )
    count = votes.shape[1]
    # Sums over classes become means over votes: a class with m votes is met m times. The time does
    # not grow with k.
    equal = np.stack([(votes == votes[:, [i]]).sum(axis=1) for i in range(count)], axis=1)
    sizes = np.where(votes < 0, 1, equal)
    if form == "largest":
        return np.asarray(sizes.max(axis=1) / count)
    if form == "entropy":
        return np.asarray(np.log(sizes / count).mean(axis=1))
    return np.asarray((sizes - 1).mean(axis=1) / (count - 1))


@dataclass(frozen=True)
class Invariance(Measure):
    """Invariance in the neighbourhood that a subclass names in `access`: the mean over rows.
    Answers are all it reads."""

    form: str = knob(
        "largest",
        domain="{largest, entropy, agreement}",
        source="Ng et al. 2022, equation 3",
        doc=(
            "share of the commonest answer, negative entropy of the shares, or share of equal pairs"
        ),
    )
    no_pool_interval = (
        "of those measured fewer than 85% held the accuracy under strong shifts (22 of 26) and"
        " natural ones (6 of 8)"
    )
    original: bool = knob(
        True,
        source="Ng et al. 2022, section 3.2",
        doc="whether the row itself is among the answers",
    )
    neighbours: int = knob(
        10,
        domain="[1, 1000]",
        source="Ng et al. 2022, section 4.4",
        doc="changed copies of a row that a study asks for",
    )

    def measure(self, target: Answers) -> float:
        """The mean invariance of the rows."""
        votes = target.neighbours[self.access.neighbourhood]
        if votes.ndim != 2 or len(votes) != len(target):
            raise DataError(
                f"the answers for the neighbours of {len(target)} rows have shape {votes.shape}"
            )
        return float(invariances(votes if self.original else votes[:, 1:], self.form).mean())
