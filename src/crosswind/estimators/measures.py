"""Measures of the outputs of a network for a set of rows: its probabilities (`nuclear-norm`,
`mutual-information`), its logits (`mano`, `energy`) and its features (`dispersion`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import entr, logsumexp

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Floats, Measure


@final
@register("nuclear-norm", kind="estimator")
@dataclass(frozen=True)
class NuclearNorm(Measure):
    """Nuclear norm: how confident the answers are and over how many classes they spread, in one
    number.

    Measures: ||P||_* / sqrt(min(n, k) n), the sum of the singular values of the n x k matrix of
    probabilities, in (0, 1]. It is 1 where every answer is certain and all classes are equally
    common.
    Assumes: classes are about equally common on every set.
    Reads: probabilities.
    Rows: its expectation falls with fewer rows, by (k - 1) / (8 n) for certain answers of equally
    common classes, and by much more where n < k.
    Deviations: none. Public code multiplies by the root, or leaves n out of it; the paper divides
    by sqrt(min(n, k) n).
    Reference: Deng et al. 2023, "Confidence and Dispersity Speak: Characterizing Prediction Matrix
    for Unsupervised Accuracy Estimation", ICML.
    """

    version = 1
    access = Access(pool=True)

    def measure(self, target: Answers) -> float:
        """The norm over its largest value."""
        p = target.probabilities
        n, k = p.shape
        return float(np.linalg.norm(p, ord="nuc") / np.sqrt(min(n, k) * n))


@final
@register("mutual-information", kind="estimator")
@dataclass(frozen=True)
class MutualInformation(Measure):
    """Mutual information: the entropy of the mean probabilities, less the mean entropy of the
    probabilities.

    Measures: H(1/n sum_i p_i) - 1/n sum_i H(p_i), in nats, in [0, log k].
    Assumes: classes are about equally common on every set.
    Reads: probabilities.
    Rows: its expectation falls with fewer rows, by at most (k - 1) / (2 n) nats to first order.
    Reference: Bridle et al. 1991, "Unsupervised Classifiers, Mutual Information and 'Phantom
    Targets'", NIPS; as an estimate of accuracy a baseline of Deng et al. 2023, "Confidence and
    Dispersity Speak", ICML.
    """

    version = 1
    access = Access(pool=True)

    def measure(self, target: Answers) -> float:
        """The difference of the two entropies."""
        p = target.probabilities
        return float(entr(p.mean(axis=0)).sum() - entr(p).sum(axis=1).mean())


@final
@register("mano", kind="estimator")
@dataclass(frozen=True)
class MaNo(Measure):
    """MaNo: the p-norm of the logits, each row made to sum to 1 by the softmax or by a Taylor map.

    Measures: (sum_ik v_ik^p / (n k))^(1/p). The criterion Phi = -1/(n k) sum_ik log softmax(z_i)_k
    decides for the set: above `threshold` v is the softmax, else w = 1 + z + z^2 / 2 less the row's
    smallest w, divided by the row's sum.
    Assumes: decision boundaries lie where rows are few, so that logits far from zero go with right
    answers. Sets of a pool on both sides of the threshold have scores on two scales, which one line
    does not fit: a threshold of 0 or infinity keeps to one map.
    Reads: logits.
    Deviations: Phi is the mean over all rows of the set, and anew for every set; public code takes
    it from one batch of the first. The Taylor map falls below z = -1: logits (2, -8, 1) get the
    weights (0.10, 0.90, 0). `shifted` applies it to z less the row's smallest, where it only rises,
    and where a constant added to the logits changes nothing. `published` applies it to z as it is,
    and gives no number, which is refused, where it turns the order of two logits of any row around.
    Reference: Xie et al. 2024, "MaNo: Exploiting Matrix Norm for Unsupervised Accuracy Estimation
    Under Distribution Shifts", NeurIPS.
    """

    power: float = knob(4.0, domain="[1, inf)", source="Xie et al. 2024", doc="p of the norm")
    threshold: float = knob(
        5.0,
        domain="[0, inf]",
        source="Xie et al. 2024",
        doc="criterion above which the softmax is taken",
    )
    taylor: str = knob(
        "shifted",
        domain="{shifted, published}",
        source="ours",
        doc="what the Taylor map is applied to",
    )
    version = 1
    access = Access(scores="logits", pool=True)

    def measure(self, target: Answers) -> float:
        """The norm, in [k^-1, k^(-1/p)]."""
        assert target.logits is not None
        if criterion(target) > self.threshold:
            weights = target.probabilities
        else:
            z = target.logits.astype(np.float64)
            if self.taylor == "shifted":
                z = z - z.min(axis=1, keepdims=True)
            if not in_order(z):
                return math.nan
            weights = taylor(z)
        return float((weights**self.power).mean() ** (1 / self.power))


def criterion(target: Answers) -> float:
    """Phi: the mean over rows and classes of minus the logarithm of the probability, in nats, log k
    at least."""
    return float(-target.log_probabilities.mean())


def taylor(z: Floats) -> Floats:
    """The weights [n, k] of logits [n, k] by the second-order Taylor map; 1/k each where a row's
    logits are equal."""
    grown = 1 + z + z**2 / 2
    grown = grown - grown.min(axis=1, keepdims=True)
    total = grown.sum(axis=1, keepdims=True)
    return np.where(total > 0, grown / np.where(total > 0, total, 1), 1 / z.shape[1])


def in_order(z: Floats) -> bool:
    """Whether the Taylor map keeps the order of the logits of every row, float64 [n, k]."""
    ranked = np.sort(z, axis=1)
    steps = np.diff(ranked + ranked**2 / 2, axis=1)
    return bool((steps >= 0).all())


@final
@register("energy", kind="estimator")
@dataclass(frozen=True)
class Energy(Measure):
    """Meta-distribution energy: by how much the energies of the rows differ, in the logarithm.

    Measures: log(log(1/n sum_i exp E_i) - 1/n sum_i E_i), with E_i = -T log sum_k exp(z_ik / T). It
    is minus infinity where all energies are equal, as they are for one row, and is refused then.
    Assumes: rows that the model knows have far lower energies than the others.
    Reads: logits as the network gave them. A constant added to all logits changes nothing; one for
    each row does.
    Rows: the mean of exp E is carried by its largest terms. Few rows hold few of them, which makes
    the measure smaller where the energies spread over several nats.
    Deviations: the published score is the logarithm of log sum_i exp E_i - mean E, which grows with
    log log n for the same distribution. Subtracting log n makes sets of different sizes comparable.
    The temperature is one for all sets.
    Reference: Peng et al. 2024, "Energy-based Automated Model Evaluation", ICLR.
    """

    temperature: float = knob(
        1.0, domain="(0, inf)", source="Peng et al. 2024", doc="temperature of the energies"
    )
    version = 1
    access = Access(scores="logits", pool=True)

    def measure(self, target: Answers) -> float:
        """The logarithm of the difference."""
        assert target.logits is not None
        energies = -self.temperature * logsumexp(
            target.logits.astype(np.float64) / self.temperature, axis=1
        )
        energies -= energies.max()
        spread = float(np.log(np.exp(energies).mean()) - energies.mean())
        if spread > 1e-12:
            return math.log(spread)
        return -math.inf


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
