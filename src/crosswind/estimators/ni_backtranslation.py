"""Neighbourhood invariance: back-translation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.invariance import Invariance


@final
@register("ni-backtranslation", kind="estimator")
@dataclass(frozen=True)
class NIBackTranslation(Invariance):
    """Neighbourhood invariance, back-translation: the share of a row and its neighbours that get
    the commonest answer.

    Measures: 1/n sum_i mu(x_i), with mu as `form` says; equations 3 and 4 by default.
    Neighbours: translated into another language and back, tokens drawn at a temperature of up to
    0.7 (appendix A.5).
    Assumes: the change keeps the label. Short or colloquial texts come back as others.
    Reads: answers, of the row and of ten neighbours; no probability. An answer of -1 agrees with
    none.
    Deviations: the temperature of a copy is drawn evenly from 0 to the maximum, which the paper
    does not say; nor does it name the models. `agreement` is ours: its value for answers at random
    is 1/k for any number of neighbours.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 3.2.
    """

    no_pool_interval = "how often its interval holds on texts was not measured"
    version = 1
    extra = "transformers"
    access = Access(
        scores="labels",
        neighbourhood="ni-backtranslation",
        handed=("there", "back", "there_revision", "back_revision", "temperature"),
        pool=True,
        passes=11,
    )

    there: str = knob(
        "",
        doc=(
            "the model into the other language: a folder with safetensors, or its name on the hub;"
            " must be named"
        ),
    )
    back: str = knob("", doc="the model back; it must be named")
    there_revision: str = knob("", doc="of a model of the hub: its commit")
    back_revision: str = knob("", doc="of a model of the hub: its commit")
    temperature: float = knob(
        0.7, domain="[0, inf)", source="Ng et al. 2022, appendix A.5", doc="the highest temperature"
    )
