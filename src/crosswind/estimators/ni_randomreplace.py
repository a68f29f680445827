"""Neighbourhood invariance: random replacement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.invariance import Invariance


@final
@register("ni-randomreplace", kind="estimator")
@dataclass(frozen=True)
class NIRandomReplace(Invariance):
    """Neighbourhood invariance, random replacement: the share of a row and its neighbours that get
    the commonest answer.

    Measures: 1/n sum_i mu(x_i), with mu as `form` says; equations 3 and 4 by default.
    Neighbours: 15% of the tokens become random words of a bundled list of everyday English
    (appendix A.5).
    Assumes: the change keeps the label. In a short text one word may carry it.
    Reads: answers, of the row and of ten neighbours; no probability. An answer of -1 agrees with
    none.
    Deviations: the list, where the paper draws from the word pieces of its networks. `agreement` is
    ours: its value for answers at random is 1/k for any number of neighbours.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 3.2.
    """

    rate: float = knob(
        0.15,
        domain="[0, 1]",
        source="Ng et al. 2022, appendix A.5",
        doc="the share of tokens that is replaced",
    )
    no_pool_interval = "how often its interval holds on texts was not measured"
    version = 1
    access = Access(
        scores="labels", neighbourhood="ni-randomreplace", handed=("rate",), pool=True, passes=11
    )
