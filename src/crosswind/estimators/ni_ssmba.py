"""Neighbourhood invariance: SSMBA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.invariance import Invariance


@final
@register("ni-ssmba", kind="estimator")
@dataclass(frozen=True)
class NISSMBA(Invariance):
    """Neighbourhood invariance, SSMBA: the share of a row and its neighbours that get the commonest
    answer.

    Measures: 1/n sum_i mu(x_i), with mu as `form` says; equations 3 and 4 by default.
    Neighbours: up to 15% of the tokens corrupted, of which 80% are masked, 10% random and 10%
    unmasked, and filled in by a masked language model (appendix A.5).
    Assumes: the change keeps the label. A masked "not" may come back as another word.
    Reads: answers, of the row and of ten neighbours; no probability. An answer of -1 agrees with
    none.
    Deviations: the share of a copy is drawn evenly from 0 to the maximum, which the paper does not
    say. `agreement` is ours: its value for answers at random is 1/k for any number of neighbours.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 3.2.
    """

    no_pool_interval = "how often its interval holds on texts was not measured"
    version = 1
    extra = "transformers"
    access = Access(
        scores="labels",
        neighbourhood="ni-ssmba",
        handed=("model", "revision", "rate"),
        pool=True,
        passes=11,
    )

    model: str = knob(
        "",
        doc=(
            "the masked language model: a folder with safetensors, or its name on the hub; it must"
            " be named"
        ),
    )
    revision: str = knob("", doc="of a model of the hub: its commit")
    rate: float = knob(
        0.15,
        domain="[0, 1]",
        source="Ng et al. 2022, appendix A.5",
        doc="the largest share of tokens corrupted",
    )
