"""Neighbourhood invariance: flips and crops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access
from crosswind.core.registry import register
from crosswind.estimators.invariance import Invariance


@final
@register("ni-flipcrop", kind="estimator")
@dataclass(frozen=True)
class NIFlipCrop(Invariance):
    """Neighbourhood invariance, flips and crops: the share of a row and its neighbours that get the
    commonest answer.

    Measures: 1/n sum_i mu(x_i), with mu as `form` says; equations 3 and 4 by default.
    Neighbours: a crop of 8% of the area or more, of aspect 3/4 to 4/3, flipped half the time.
    Assumes: the change keeps the label. It does not on digits (the paper's section 5.4).
    Reads: answers, of the row and of ten neighbours; no probability. An answer of -1 agrees with
    none.
    Deviations: `agreement` is ours. Its value for answers at random is 1/k for any number of
    neighbours.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 3.2.
    """

    version = 1
    access = Access(scores="labels", neighbourhood="ni-flipcrop", pool=True, passes=11)
