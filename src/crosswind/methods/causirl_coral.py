"""Invariant causal mechanisms, by means and covariances of two random mixtures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from crosswind.core.knobs import Limit, Needs, knob
from crosswind.core.registry import register
from crosswind.methods.functional import moment_distance
from crosswind.methods.random_mixtures import MixtureAlignment

__all__ = ["CausIRLCORAL"]


@final
@register("causirl-coral", kind="method")
@dataclass(frozen=True)
class CausIRLCORAL(MixtureAlignment):
    """CausIRL with CORAL: features whose mean and covariance are the same in two random mixtures of
    the environments.

    Objective: the mean cross-entropy plus weight x the distance of two mixtures P and Q, drawn anew
    at every step,
        mean-and-covariance   |m_P - m_Q|^2 / d + |C_P - C_Q|_F^2 / d^2
        covariance            |C_P - C_Q|_F^2 / (4 d^2)       (equation 1 of Sun and Saenko 2016)
    with m and C the mean and the covariance (over n - 1) of the d features of a mixture's rows, the
    head's input and not logits. A share for each environment is drawn evenly from [0, 1], and each
    of its rows goes to P with that chance, else to Q. So the mixtures differ in how they weigh
    environments.
    Assumes: training rows of several environments; each batch holds equal shares of them
        (`needs.sampler`), as in DomainBed. With a single one the mixtures are two random halves of
        the batch, as in the code of Jeon et al. 2025. Their distributions are the same whatever the
        features, so there is nothing to learn of an environment, and the run says so. A mixture of
        one row has no covariance: means only are compared. A batch all of whose rows go to one
        mixture has no penalty.
    Knobs: weight (the papers' gamma) 1, DomainBed's default, whose search is 0.1 to 10, and that of
        Jeon et al. 2025 for Shapes3D and real data. They take 0.5 for SmallNORB, 0.3 for dSprites,
        where their code has 0.1, and 0.1 for DeepFashion and CelebA. form "mean-and-covariance",
        that of the authors' code, which is DomainBed's, and to which these weights belong. The
        covariances' distance alone is 4 times smaller, and hardly moves a network of d = 512 at
        such weights.
    Limits: at weight = 0 it is ERM on the same batches.
    Deviations: the authors' code cuts each environment's rows in the order of the batch, and leaves
        the penalty out where a mixture has one row; here the means still count. The number of an
        environment's rows in P is, as there, any from none to all with equal chance.
    Reference:
        @article{chevalley2022invariant, title={Invariant Causal Mechanisms through Distribution
        Matching}, author={Chevalley, Mathieu and Bunne, Charlotte and Krause, Andreas and Bauer,
        Stefan}, journal={arXiv:2206.11646}, year={2022}} @inproceedings{sun2016deep, title={Deep
        {CORAL}: Correlation Alignment for Deep Domain Adaptation}, author={Sun, Baochen and Saenko,
        Kate}, booktitle={ECCV Workshops}, year={2016}}
    Checked against: hand-worked numbers; NumPy means and covariances; how often rows are drawn into
    a mixture.
    """

    form: str = knob(
        "mean-and-covariance",
        domain="{mean-and-covariance, covariance}",
        source="DomainBed; covariance: Sun and Saenko 2016, equation 1",
        doc="what is aligned, and by what it is divided",
    )

    needs = Needs(sampler="per-environment", rows=2, spread={"form": "covariance"})
    limit = Limit({"weight": 0.0}, equals="erm")
    version = 1
    family = {"jeon2025": "out-of-distribution generalisation"}

    def _distance(self, features: Tensor, mixture: Tensor) -> Tensor:
        """The distance of means and covariances, or of covariances alone."""
        width = features.shape[1]
        if self.form == "covariance":
            shares = (0.0, 1.0 / (4 * width**2))
        else:
            shares = (1.0 / width, 1.0 / width**2)
        return moment_distance(features, mixture, 2, *shares)
