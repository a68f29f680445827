"""Neighbourhood invariance: EDA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access
from crosswind.core.registry import register
from crosswind.estimators.invariance import Invariance


@final
@register("ni-eda", kind="estimator")
@dataclass(frozen=True)
class NIEDA(Invariance):
    """Neighbourhood invariance, EDA: the share of a row and its neighbours that get the commonest
    answer.

    Measures: 1/n sum_i mu(x_i), with mu as `form` says; equations 3 and 4 by default.
    Neighbours: synonyms, insertions, swaps or deletions of words, one kind a neighbour, each at a
    rate of 10% (appendix A.5).
    Assumes: the change keeps the label. A "not" that goes turns it; the diagnosis tells the
    accuracy lost on labelled rows.
    Reads: answers, of the row and of ten neighbours; no probability. An answer of -1 agrees with
    none.
    Deviations: `agreement` is ours. Its value for answers at random is 1/k for any number of
    neighbours.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 3.2.
    """

    no_pool_interval = "how often its interval holds on texts was not measured"
    version = 1
    access = Access(scores="labels", neighbourhood="ni-eda", pool=True, passes=11)
