"""Optimal transport from the softmax outputs of n rows to one-hot labels with a given marginal,
exactly, as a k x n problem."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple, final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.core.seeds import stream
from crosswind.estimators.base import Answers, Estimate, Estimator, Floats, Labelled, order_of_rows
from crosswind.estimators.calibration import scaled_log_probabilities, temperature_of
from crosswind.estimators.thresholds import Threshold, fitted_threshold

LARGEST = 3_000_000
"""Of k x n: with more, rows are drawn, since the network simplex would take minutes."""

DIGITS = 12
"""To which costs are rounded, so that those of equal rows are equal."""


def marginal_of(label: NDArray[np.int64], classes: int) -> Floats:
    """The share of each class among the labels, float64 [k]."""
    return np.bincount(label, minlength=classes) / len(label)


def kept_rows(answers: Answers) -> NDArray[np.int64]:
    """The rows that are transported, int64 [m]: all, or as many as `LARGEST` allows, drawn with a
    fixed seed.

    They come in the order of their logits, so that neither which ones are drawn nor how ties are
    broken depends on the order in which they were given.
    """
    assert answers.logits is not None
    order = order_of_rows(answers.logits, answers.answer)
    row_limit = max(LARGEST // answers.logits.shape[1], 1)
    if len(order) <= row_limit:
        return order
    drawn = stream(0, "rows that are transported").choice(len(order), size=row_limit, replace=False)
    return order[np.sort(drawn)]


def told_if_drawn(answers: Answers, drawn_rows: NDArray[np.int64], subject: str) -> tuple[str, ...]:
    """The warning that only some rows were transported."""
    if len(drawn_rows) == len(answers):
        return ()
    return (
        (
            f"of the {len(answers)} rows of the {subject} {len(drawn_rows)} were drawn with a fixed"
            " seed, since all would take minutes"
        ),
    )


def transport_costs(answers: Answers, marginal: Floats, temperature: float) -> Floats:
    """The cost of each row in the cheapest transport of all rows to one-hot labels with this
    marginal, float64 [n] in [0, 1].

    A row with probabilities p costs ||e_y - p||_1 / 2 = 1 - p_y where it goes to label y (Lu et al.
    2023). `marginal`
    float64 [k] sums to 1. A row that is shared out among labels costs their mean. Needs POT; the
    solution is exact.
    """
    with warnings.catch_warnings():  # of its source text, when it is compiled
        warnings.simplefilter("ignore")
        import ot
    n = len(answers)
    used = np.flatnonzero(marginal)
    cost = -np.expm1(scaled_log_probabilities(answers, temperature)[:, used]).T
    masses = marginal[used] / marginal[used].sum() * n
    plan = ot.emd(masses, np.ones(n), np.ascontiguousarray(cost), numItermax=100_000_000)
    return np.asarray(np.round((plan * cost).sum(axis=0) / plan.sum(axis=0), DIGITS))


class Transported(NamedTuple):
    """The rows that were transported, int64 [m], and the cost of each, float64 [m]."""

    rows: NDArray[np.int64]
    costs: Floats


_transported: WeakKeyDictionary[Answers, dict[tuple[bytes, float], Transported]] = (
    WeakKeyDictionary()
)
"""By marginal and temperature, of answers that are there: `cot` and `cott` ask for the same."""


def transported(answers: Answers, marginal: Floats, temperature: float) -> Transported:
    """The transport of the rows that `kept_rows` keeps."""
    of_answers = _transported.setdefault(answers, {})
    key = (marginal.tobytes(), temperature)
    if key not in of_answers:
        rows = kept_rows(answers)
        costs = transport_costs(answers.take(rows), marginal, temperature)
        of_answers[key] = Transported(rows, costs)
    return of_answers[key]


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
        """1 less the cost of the transport."""
        temperature, marginal = fitted
        drawn_rows, costs = transported(target, marginal, temperature)
        return Estimate(1 - float(costs.mean()), warnings=told_if_drawn(target, drawn_rows, "set"))


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
        drawn_rows, costs = transported(target, fitted.marginal, fitted.temperature)
        return Estimate(
            fitted.threshold.share(-costs),
            warnings=(*fitted.warnings, *told_if_drawn(target, drawn_rows, "set")),
        )
