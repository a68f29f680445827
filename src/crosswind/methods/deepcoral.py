"""Correlation alignment of deep features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from crosswind.core.knobs import Limit, Needs, knob, log
from crosswind.core.registry import register
from crosswind.methods.environment_distances import EnvironmentAlignment
from crosswind.methods.functional import moment_distance

__all__ = ["DeepCORAL"]


@final
@register("deepcoral", kind="method")
@dataclass(frozen=True)
class DeepCORAL(EnvironmentAlignment):
    """DeepCORAL: features whose mean and covariance are the same in every environment.

    Objective: the mean cross-entropy plus weight x the mean over pairs of environments (i, j) in
    the batch of
        mean-and-covariance   |m_i - m_j|^2 / d + |C_i - C_j|_F^2 / d^2
        covariance            |C_i - C_j|_F^2 / (4 d^2)       (their equation 1)
    with m_e and C_e the mean and the covariance (over n_e - 1) of the d features of e's rows, the
    head's input and not logits.
    Assumes: at least two environments with training rows; refused otherwise, since one leaves no
        pair and so ERM. Each batch holds equal shares of them (`needs.sampler`), as in DomainBed.
        An environment with one row in a batch, or one training row that a batch repeats, has no
        covariance. Pairs with it compare means only, and the mean over pairs is over those that can
        be compared. Where form "covariance" would find none it is refused.
    Knobs: weight 1, DomainBed's default, whose search is 0.1 to 10; Wiles et al. 2022 searched 0.01
        to 10. form "mean-and-covariance", the loss of DomainBed and WILDS, to which these weights
        belong. The paper's own is 4 times smaller in the covariance, without the means. At d = 512
        weights of this size hardly move it, so it wants far larger ones. The authors choose the
        weight such that both losses are equal at the end of training.
    Limits: at weight = 0 it is ERM on the same batches.
    Deviations: the paper has one labelled and one unlabelled environment; here all are labelled and
    every pair counts.
    Reference:
        @inproceedings{sun2016deep, title={Deep {CORAL}: Correlation Alignment for Deep Domain
        Adaptation}, author={Sun, Baochen and Saenko, Kate}, booktitle={ECCV Workshops},
        year={2016}}
    Checked against: hand-worked numbers; NumPy covariances in a loop over pairs.
    """

    weight: float = knob(
        1.0,
        domain="[0, inf)",
        search=log(1e-2, 10.0),
        grid={"wiles2022": [0.01, 0.1, 1.0, 10.0]},
        source="DomainBed",
        doc="weight of the alignment",
    )
    form: str = knob(
        "mean-and-covariance",
        domain="{mean-and-covariance, covariance}",
        source="DomainBed, WILDS; covariance: Sun and Saenko 2016, equation 1",
        doc="what is aligned, and by what it is divided",
    )

    needs = Needs(environments=True, sampler="per-environment", spread={"form": "covariance"})
    limit = Limit({"weight": 0.0}, equals="erm")
    version = 2
    family = {"wiles2022": "domain generalisation"}

    def _distance(self, features: Tensor, environment: Tensor, rows: Tensor) -> Tensor:
        """The distance of their covariances, and of their means where `form` says so."""
        width = features.shape[1]
        if self.form == "covariance":
            shares = (0.0, 1.0 / (4 * width**2))
        else:
            shares = (1.0 / width, 1.0 / width**2)
        return moment_distance(features, environment, len(rows), *shares, rows)
