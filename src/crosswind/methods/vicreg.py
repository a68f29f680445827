"""Embeddings of paired rows aligned by VICReg: invariance, variance and covariance of what an
expander makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from crosswind.core.knobs import Limit, Needs, choose, knob
from crosswind.core.registry import register
from crosswind.methods.alignment import AlignedPairs, Alignment
from crosswind.methods.base import Info, MakeModel, Modules
from crosswind.methods.functional import wide, without_autocast

__all__ = ["VICReg", "vicreg_terms"]

FLOOR = 1.0  # standard deviation of a feature below which it is penalised
EPSILON = 1e-4  # added to a variance, so that the slope of its root is finite


@final
@register("vicreg", kind="method")
@dataclass(frozen=True)
class VICReg(Alignment):
    """VICReg: the embeddings of a pair of rows of two environments are expanded to vectors that
    agree, vary and are uncorrelated.

    Objective: the mean cross-entropy of both members of every pair plus weight x
        invariance |Z - Z'|_F^2 / (n d) + variance (v(Z) + v(Z')) / 2 + covariance (c(Z) + c(Z'))
        v(Z) = mean_j max(0, 1 - sqrt(Var(Z_j) + 1e-4)),   c(Z) = sum_(i != j) Cov(Z)_ij^2 / d
    with Z and Z' [n, d] the expanded features of the clean and of the other members of the n
    aligned pairs, variances over n - 1.
        The expander is three linear layers of `width` with batch norm and ReLU between, on the
        head's input. Pairs, and which of them are aligned, are those of "cos".
    Assumes: what "cos" does. With a single aligned pair there is no variance, and only the
    invariance is left.
    Knobs: invariance 25, variance 25, covariance 1, Bardes et al. 2022's and, by its name alone,
        those of Omran and Schiele 2022. weight 1, ours, multiplies all three: exploring the study
        of its effect, unseen combinations were told in 0.53, 0.53 and 0.66 at 0.04, 0.2 and 1.
        width 512, ours; Bardes et al. expand 2,048 features to 8,192, which is 138 million weights
        on ResNet18. pairs, clean, aligned, crop and flip as for "cos".
    Limits: at weight = 0 it is ERM on the rows and their partners, "erm-of-pairs".
    Deviations: the mean over n and d of the invariance and the half of the variance are of the
        authors' code, to which 25, 25 and 1 belong; their equations 1 and 5 have neither. Batch
        norm in the expander is over both members and all pairs. Others as of "cos".
    Reference:
        @inproceedings{bardes2022vicreg, title={{VICReg}: Variance-Invariance-Covariance
        Regularization for Self-Supervised Learning}, author={Bardes, Adrien and Ponce, Jean and
        LeCun, Yann}, booktitle={ICLR}, year={2022}} @misc{omran2022appropriate, title={Are We
        Viewing the Problem of Robust Generalisation through the Appropriate Lens?}, author={Omran,
        Mohamed and Schiele, Bernt}, year={2022}}
    Checked against: hand-worked numbers; NumPy's covariances.
    """

    invariance: float = knob(
        25.0, domain="[0, inf)", source="Bardes et al. 2022", doc="weight of the pairs' distance"
    )
    variance: float = knob(
        25.0,
        domain="[0, inf)",
        source="Bardes et al. 2022",
        doc="weight of what deviations lack of 1",
    )
    covariance: float = knob(
        1.0, domain="[0, inf)", source="Bardes et al. 2022", doc="weight of the covariances"
    )
    width: int = knob(
        512,
        domain="[1, inf)",
        search=choose(128, 512, 2048),
        source="ours; 8192: Bardes et al. 2022",
        doc="width of the expander",
    )

    needs = Needs(environments=True, pairs="pairs")
    limit = Limit({"weight": 0.0}, equals="erm-of-pairs")
    version = 1

    def modules(self, info: Info, make_model: MakeModel) -> Modules:
        """The model, and the expander of its features."""
        model = make_model()
        layers: list[nn.Module] = []
        for width_in in (model.width, self.width):
            layers += [
                nn.Linear(width_in, self.width),
                nn.BatchNorm1d(self.width),
                nn.ReLU(),
            ]
        layers.append(nn.Linear(self.width, self.width, bias=False))
        return {"model": model, "expander": nn.Sequential(*layers)}

    def _distance(self, modules: Modules, pairs: AlignedPairs) -> tuple[Tensor, dict[str, Tensor]]:
        members = torch.cat([pairs.clean, pairs.partner])
        clean, partner = modules["expander"](members).chunk(2)
        invariance, variance, covariance = vicreg_terms(clean, partner, pairs.counts)
        weighted = [
            self.invariance * invariance,
            self.variance * variance,
            self.covariance * covariance,
        ]
        terms = {"invariance": invariance, "variance": variance, "covariance": covariance}
        return torch.stack(weighted).sum(), terms


def vicreg_terms(first: Tensor, second: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Invariance, variance and covariance of the rows of two matrices [n, d] that count (bool [n]),
    scalars of at least float32; see `VICReg` for what each is.

    The first is 0 where no row counts, the others where fewer than two do.
    """
    with without_autocast(first):
        first, second = wide(first), wide(second)
        counted = counts.to(first.dtype)
        n_counted = counted.sum()
        squares = (first - second).square().mean(1)
        invariance = torch.where(counts, squares, 0.0).sum() / n_counted.clamp(min=1.0)
        first_lack, first_correlation = _spread_terms(first, counted)
        second_lack, second_correlation = _spread_terms(second, counted)
        zero = torch.zeros_like(invariance)
        has_variance = n_counted > 1
        variance = torch.where(has_variance, (first_lack + second_lack) / 2.0, zero)
        covariance = torch.where(has_variance, first_correlation + second_correlation, zero)
        return invariance, variance, covariance


def _spread_terms(rows: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """v and c of `VICReg` for rows [n, d], of which those count that have 1 and not 0 in `counted`
    [n]: the mean lack of standard deviation, and the squared covariances of two features, by d."""
    width = rows.shape[1]
    n_counted = counted.sum()
    freedom = (n_counted - 1.0).clamp(min=1.0)
    mean = counted @ rows / n_counted.clamp(min=1.0)
    centred = (rows - mean) * counted[:, None]
    variances = centred.square().sum(0) / freedom
    lack = (FLOOR - (variances + EPSILON).sqrt()).relu().mean()
    # The squares of all covariances add up to those of the rows' products, of which there are fewer
    # where there are fewer rows than features.
    products = centred @ centred.T if len(rows) < width else centred.T @ centred
    all_squares = products.square().sum() / freedom.square()
    return lack, (all_squares - variances.square().sum()) / width
