"""Neighbourhood invariance: RandAugment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access
from crosswind.core.registry import register
from crosswind.estimators.invariance import Invariance


@final
@register("ni-randaugment", kind="estimator")
@dataclass(frozen=True)
class NIRandAugment(Invariance):
    """Neighbourhood invariance, RandAugment: the share of a row and its neighbours that get the
    commonest answer.

    Measures: 1/n sum_i mu(x_i), with mu as `form` says; equations 3 and 4 by default.
    Neighbours: one operation at a level up to 15 of 30, three for images of ImageNet's size.
    Assumes: the change keeps the label. The diagnosis tells the accuracy lost on labelled rows.
    Reads: answers, of the row and of ten neighbours; no probability. An answer of -1 agrees with
    none.
    Deviations: `agreement` is ours. Its value for answers at random is 1/k for any number of
    neighbours.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 3.2.
    """

    version = 1
    access = Access(scores="labels", neighbourhood="ni-randaugment", pool=True, passes=11)
