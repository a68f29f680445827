"""Empirical risk minimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Limit, Needs
from crosswind.core.registry import register
from crosswind.methods.base import Method

__all__ = ["ERM"]


@final
@register("erm", kind="method")
@dataclass(frozen=True)
class ERM(Method):
    """Empirical risk minimisation: the mean cross-entropy of the training rows, and the baseline of
    every table.

    Objective: min over theta of 1/n sum_i -log p_theta(y_i | x_i), each batch's mean in its place.
    Assumes: nothing beyond labels; no group or environment is read.
    Knobs: none; the optimiser, its learning rate and the length of training are the study's.
    Limits: it is itself the limit of others.
    Deviations: none.
    Reference:
        @book{vapnik1998statistical, title={Statistical Learning Theory}, author={Vapnik, Vladimir
        N.}, publisher={Wiley}, year={1998}}
    Checked against: hand-worked cross-entropy.
    """

    needs = Needs(gradient=False)
    limit = Limit.none("the baseline that other methods are compared with")
    version = 1
    family = {"wiles2022": "architecture", "jeon2025": "architecture"}
