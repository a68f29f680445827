"""A hierarchical model of the gain over plain training: by method, problem and data set, by Gaussian
processes of scikit-learn.

The gain of method m on problem x of data set d is the sum of independent parts, each a Gaussian
process with mean 0: what all methods gain on a problem like x; what m gains anywhere; what m gains
on problems like x; what m gains on d whatever the problem; what all gain on this one problem, since
they share its plain training; and a rest. Variances and the one length scale are those of the
highest marginal likelihood. Without evidence a gain is 0, give or take the variance of gains.
Rasmussen and Williams 2006, equations 2.23 to 2.26 and 5.8; sums of kernels by groups are random
effects (section 2.7).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from crosswind.advice.evidence import METRICS, origin_of, problem_of_row
from crosswind.advice.problem import Problem

if TYPE_CHECKING:
    import polars
    from sklearn.gaussian_process import GaussianProcessRegressor

__all__ = ["Gain", "GainModel", "Observed", "observed_gains"]

LEVEL: Final = 0.90
"""The level of the intervals of gains."""
_LEAST_SPREAD: Final = 0.5
"""Points: no mean over seeds is taken for surer than this."""
_PROBLEM: Final = ("study", "data", "shift", "size", "model")


@dataclass(frozen=True)
class Observed:
    """Gains that were seen: one entry a method and problem, means over seeds.

    `points`: gain in points (hundredths), float64 [n]. `spread`: standard error in points, float64
    [n]. `methods`, `data`, `contexts`: names, [n]; `data` are origins (`origin_of`), a context is one
    problem of one study.
    `problems`: [n].
    """

    points: NDArray[np.float64]
    spread: NDArray[np.float64]
    methods: Sequence[str]
    data: Sequence[str]
    contexts: Sequence[str]
    problems: Sequence[Problem]

    def rows(self, chosen: NDArray[np.bool_]) -> Observed:
        """The entries where `chosen`, bool [n]."""
        places = np.flatnonzero(chosen).tolist()
        return Observed(
            self.points[places],
            self.spread[places],
            [self.methods[i] for i in places],
            [self.data[i] for i in places],
            [self.contexts[i] for i in places],
            [self.problems[i] for i in places],
        )


@dataclass(frozen=True)
class Gain:
    """A predicted gain over plain training, in points: its mean and the bounds of its interval."""

    mean: float
    low: float
    high: float


def observed_gains(evidence: polars.DataFrame, metric: str) -> Observed:
    """The gains of every method and problem in the evidence, by one of `METRICS`.

    The standard error of a mean is that of all methods and problems pooled: four seeds tell too
    little of their own.
    """
    import polars

    assert metric in METRICS
    known = evidence.filter(polars.col(metric).is_not_null())
    rows = known.to_dicts()
    variances = [
        (100 * row[f"{metric}_error"]) ** 2 * row["runs"]
        for row in rows
        if row[f"{metric}_error"] is not None
    ]
    pooled = float(np.mean(variances)) if variances else 25.0
    spread = np.array([np.sqrt(pooled / row["runs"]) for row in rows], dtype=np.float64)
    gains = [100 * (row[metric] - row[f"plain_{metric}"]) for row in rows]
    return Observed(
        points=np.array(gains, dtype=np.float64),
        spread=np.maximum(spread, _LEAST_SPREAD),
        methods=[row["method"] for row in rows],
        data=[origin_of(row["data"]) for row in rows],
        contexts=["\t".join(str(row[name]) for name in _PROBLEM) for row in rows],
        problems=[problem_of_row(row) for row in rows],
    )


_NEW: Final = -1.0
"""The number of a method, data set or problem that no row of the evidence has."""


class GainModel:
    """Predicts gains over plain training, in points, from gains that were observed.

    `parameters`: logarithms of the variances and the length scales, which are then kept; None finds
    them, from `start` on where that is given. `widening`: what standard deviations are multiplied by, so that
    intervals hold on data sets that were left out.
    """

    def __init__(
        self,
        observed: Observed,
        parameters: Sequence[float] | None = None,
        widening: float = 1.0,
        start: Sequence[float] | None = None,
    ) -> None:
        if not len(observed.points):
            raise ValueError("there is no gain to learn from")
        self.observed = observed
        self.widening = widening
        self._method_numbers = _numbers(observed.methods)
        self._data_numbers = _numbers(observed.data)
        self._context_numbers = _numbers(observed.contexts)
        self._process = self._fit(parameters, start)

    @property
    def parameters(self) -> list[float]:
        """The logarithms of the model's variances (squared points) and length scale."""
        return [float(value) for value in self._process.kernel_.theta]

    def predict(
        self, problem: Problem, methods: Sequence[str], data: str | None = None
    ) -> dict[str, Gain]:
        """The gain of each method on a problem, with its interval at `LEVEL`. It is the mean over
        many seeds, on a data set that is new unless `data` names one of the evidence."""
        data_number = self._data_numbers.get(origin_of(data or ""), _NEW)
        features = problem.features
        inputs = []
        for i, name in enumerate(methods):
            method_number = self._method_numbers.get(name, _NEW - i)
            inputs.append([*features, method_number, data_number, _NEW])
        with warnings.catch_warnings():
            # Of a variance that rounding made negative: it is set to 0.
            warnings.simplefilter("ignore", UserWarning)
            means, deviations = self._process.predict(np.array(inputs), return_std=True)
        reach = norm.ppf(0.5 + LEVEL / 2) * self.widening * deviations
        gains = {}
        for name, mean, width in zip(methods, means, reach, strict=True):
            gains[name] = Gain(float(mean), float(mean - width), float(mean + width))
        return gains

    def _fit(
        self, parameters: Sequence[float] | None, start: Sequence[float] | None
    ) -> GaussianProcessRegressor:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor

        observed = self.observed
        rows = []
        for i, problem in enumerate(observed.problems):
            method_number = self._method_numbers[observed.methods[i]]
            data_number = self._data_numbers[observed.data[i]]
            context_number = self._context_numbers[observed.contexts[i]]
            rows.append([*problem.features, method_number, data_number, context_number])
        inputs = np.array(rows)
        kernel = gain_kernel(inputs.shape[1] - 3)
        first = start if parameters is None else parameters
        if first is not None:
            kernel = kernel.clone_with_theta(np.asarray(first, dtype=np.float64))
        process = GaussianProcessRegressor(
            kernel,
            alpha=observed.spread**2,
            optimizer="fmin_l_bfgs_b" if parameters is None else None,
        )
        with warnings.catch_warnings():
            # A part that the evidence does not show ends at the bound of its variance.
            warnings.simplefilter("ignore", ConvergenceWarning)
            process.fit(inputs, observed.points)
        return process


def gain_kernel(features: int) -> Any:
    """The sum of the parts of a gain as a kernel of scikit-learn, on rows of `features` numbers and
    the numbers of method, data set and problem."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    from crosswind.advice.kernels import Alike, On

    method, data, context = features, features + 1, features + 2
    problems = On(RBF(1.5, (0.3, 10.0)), tuple(range(features)))

    def variance(points: float) -> Any:
        return ConstantKernel(points**2, (1e-4, 1e3))

    return (
        variance(1) * problems
        + variance(2) * Alike((method,))
        + variance(4) * Alike((method,)) * problems
        + variance(2) * Alike((method, data))
        + variance(1) * Alike((context,))
        + variance(2) * Alike((method, context))
    )


def _numbers(names: Sequence[str]) -> Mapping[str, float]:
    return {name: float(i) for i, name in enumerate(dict.fromkeys(names))}
