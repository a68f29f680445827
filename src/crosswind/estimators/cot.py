"""Confidence optimal transport."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Estimate, Estimator, Floats, Labelled
from crosswind.estimators.temperature import temperature_of
from crosswind.estimators.transport import kept_rows, marginal_of, told_if_drawn, transport_costs


@final
@register("cot", kind="estimator")
@dataclass(frozen=True)
class Cot(Estimator):
    """Confidence optimal transport (COT): how far the softmax outputs are from one-hot labels with
    the shares of the source.

    Estimates: error = min over couplings of E ||e_y - p||_1 / 2, of labels y with the source's
    shares and target outputs p.
    Assumes: the same share of each label on source and target. With other shares it is too low,
    even where the model errs no more.
    Reads: probabilities; labels of the source. Needs the extra `transport`.
    Deviations: the public code draws n labels and solves n x n in batches of 10,000. Here the k x n
    problem is solved for all rows. No interval of rows is made: rows drawn by chance do not have
    the labels of the source in the same shares, which moves the estimate. Made by 50 draws, it held
    the accuracy on further rows of the source 29 times in 100, that of `cott` 51.
    Reference: Lu et al. 2023, "Characterizing Out-of-Distribution Error via Optimal Transport".
    """

    temperature: str = knob(
        "fit",
        domain="{none, fit}",
        doc="the temperature of the softmax: 1, or fitted on the source",
    )
    version = 1
    access = Access()
    extra = "transport"
    resamples = 0
    no_rows_interval = (
        "rows drawn by chance have other shares of labels, which a transport takes for errors; it"
        " needs a pool"
    )

    def fit(self, source: Labelled) -> tuple[float, Floats]:
        """The temperature and the shares of the labels."""
        return temperature_of(self.temperature, source), marginal_of(
            source.label, source.answers.classes
        )

    def estimate(self, fitted: tuple[float, Floats], target: Answers) -> Estimate:
        """What the transport leaves of 1."""
        temperature, marginal = fitted
        drawn_rows = kept_rows(target)
        costs = transport_costs(target.take(drawn_rows), marginal, temperature)
        return Estimate(1 - float(costs.mean()), warnings=told_if_drawn(target, drawn_rows, "set"))
