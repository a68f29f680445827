"""Confidence optimal transport with a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Estimate, Estimator, Floats, Labelled
from crosswind.estimators.temperature import temperature_of
from crosswind.estimators.thresholds import Threshold, fitted_threshold
from crosswind.estimators.transport import kept_rows, marginal_of, told_if_drawn, transport_costs


@final
@dataclass(frozen=True, eq=False)
class _Fitted:
    temperature: float
    marginal: Floats
    threshold: Threshold
    warnings: tuple[str, ...]


@final
@register("cott", kind="estimator")
@dataclass(frozen=True)
class Cott(Estimator):
    """Confidence optimal transport with a threshold (COTT): the share of target rows whose
    transport costs less than a threshold.

    Estimates: accuracy = 1/n sum_i [cost_i < t]. The cost of a row is what it pays in the transport
    of `cot`. The threshold is such that on the source this is the accuracy; rows that are tied at
    it count in part.
    Assumes: the same share of each label on source and target, and costs of wrong answers above t
    on both.
    Reads: probabilities; labels of the source. Needs the extra `transport`.
    Deviations: the public code draws n labels for the target and solves n x n. Here the k x n
    problem is solved, in which fewer than k rows are shared out among labels and pay the mean. No
    interval of rows is made, see `cot`.
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

    def fit(self, source: Labelled) -> _Fitted:
        """The temperature, the shares of the labels and the threshold of the costs."""
        temperature = temperature_of(self.temperature, source)
        drawn_rows = kept_rows(source.answers)
        drawn_source = source.take(drawn_rows)
        costs = transport_costs(
            drawn_source.answers,
            marginal_of(drawn_source.label, drawn_source.answers.classes),
            temperature,
        )
        drawn = told_if_drawn(source.answers, drawn_rows, "source")
        return _Fitted(
            temperature,
            marginal_of(source.label, drawn_source.answers.classes),
            fitted_threshold(-costs, drawn_source.right),
            drawn,
        )

    def estimate(self, fitted: _Fitted, target: Answers) -> Estimate:
        """The share that costs less than the threshold."""
        drawn_rows = kept_rows(target)
        costs = transport_costs(target.take(drawn_rows), fitted.marginal, fitted.temperature)
        return Estimate(
            fitted.threshold.share(-costs),
            warnings=(*fitted.warnings, *told_if_drawn(target, drawn_rows, "set")),
        )
