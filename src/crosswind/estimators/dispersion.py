"""Dispersion of features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from crosswind.core.knobs import Access
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Measure


@final
@register("dispersion", kind="estimator")
@dataclass(frozen=True)
class Dispersion(Measure):
    """Dispersion: how far apart in feature space the rows with different answers lie, in the
    logarithm.

    Measures: log(sum_j (n_j / n) ||mu_j - mu||^2 / (c - 1)), over the c classes j that are
    answered, n_j rows each; mu_j their mean features and mu that of all. It is not a number where
    fewer than two classes are answered, and is refused then. Rows whose answer names no class, -1,
    are left out.
    Assumes: features of right answers lie in clusters. Features of different scales, as of
    different networks, are not comparable.
    Reads: features and answers.
    Rows: the means of few rows scatter, which adds about c v / n to the sum, v the variance of the
    features inside a class.
    Deviations: the published score has n_j where n_j / n stands here, and so grows with log n for
    the same distribution.
    Reference: Xie et al. 2023, "On the Importance of Feature Separability in Predicting
    Out-Of-Distribution Error", NeurIPS.
    """

    version = 1
    access = Access(scores="labels", pool=True, features=True)

    def measure(self, target: Answers) -> float:
        """The logarithm of the scatter between answers."""
        assert target.features is not None
        named = target.answer >= 0
        features = target.features[named].reshape(int(named.sum()), -1).astype(np.float64)
        classes, inverse, counts = np.unique(
            target.answer[named], return_inverse=True, return_counts=True
        )
        if len(classes) < 2:
            return math.nan
        sums = np.zeros((len(classes), features.shape[1]))
        np.add.at(sums, inverse, features)
        apart = ((sums / counts[:, None] - features.mean(axis=0)) ** 2).sum(axis=1)
        between = float((counts * apart).sum() / counts.sum() / (len(classes) - 1))
        if between > 0:
            return math.log(between)
        return -math.inf
