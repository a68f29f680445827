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

FLOOR, EPSILON = 1.0, 1e-4  # the standard deviation that is wanted, and what keeps its slope finite


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
        sizes = [model.width, self.width, self.width]
        layers = [
            layer
            for n, m in zip(sizes, sizes[1:], strict=False)
            for layer in (nn.Linear(n, m), nn.BatchNorm1d(m), nn.ReLU())
        ]
        return {
            "model": model,
            "expander": nn.Sequential(*layers, nn.Linear(self.width, self.width, bias=False)),
        }

    def _apart(self, modules: Modules, pairs: AlignedPairs) -> tuple[Tensor, dict[str, Tensor]]:
        clean, partner = modules["expander"](torch.cat([pairs.clean, pairs.other])).chunk(2)
        terms = vicreg_terms(clean, partner, pairs.counts)
        weights = self.invariance, self.variance, self.covariance
        total = torch.stack(
            [weight * term for weight, term in zip(weights, terms, strict=True)]
        ).sum()
        return total, dict(zip(("invariance", "variance", "covariance"), terms, strict=True))


def vicreg_terms(first: Tensor, second: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Invariance, variance and covariance of the rows of two matrices [n, d] that count (bool [n]),
    each at least float32.

    The first is 0 where no row counts, the others where fewer than two do.
    """
    with without_autocast(first):
        first, second = wide(first), wide(second)
        counted = counts.to(first.dtype)
        n, d = counted.sum(), first.shape[1]
        several, freedom = n > 1, (n - 1.0).clamp(min=1.0)
        apart = torch.where(counts, (first - second).square().mean(1), 0.0).sum() / n.clamp(min=1.0)
        lacking, correlated = [], []
        for rows in (first, second):
            centred = (rows - counted @ rows / n.clamp(min=1.0)) * counted[:, None]
            variances = centred.square().sum(0) / freedom
            lacking.append((FLOOR - (variances + EPSILON).sqrt()).relu().mean())
            # All squares of a covariance are those of the rows' products, of which there are fewer
            # if rows are.
            products = centred @ centred.T if len(rows) < d else centred.T @ centred
            correlated.append(
                (products.square().sum() / freedom.square() - variances.square().sum()) / d
            )
        zero = torch.zeros_like(apart)
        return (
            apart,
            torch.where(several, sum(lacking) / 2.0, zero),
            torch.where(several, sum(correlated), zero),
        )
