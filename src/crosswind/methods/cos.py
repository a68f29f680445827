"""Embeddings of paired rows aligned by their cosine similarity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from crosswind.core.knobs import Limit, Needs
from crosswind.core.registry import register
from crosswind.methods.alignment import AlignedPairs, Alignment
from crosswind.methods.base import Modules
from crosswind.methods.functional import wide, without_autocast

__all__ = ["Cos", "cosine_distances"]


@final
@register("cos", kind="method")
@dataclass(frozen=True)
class Cos(Alignment):
    """COS: the embeddings of a pair of rows of two environments point the same way.

    Objective: the mean cross-entropy of both members of every pair plus weight x the mean over
    aligned pairs (a, b) of
        1 - <a, b> / (|a| |b|)
    with a and b the d features of the members, the head's input and not logits. Every row of a
    batch has a partner (`pairs`): one
        of the two is seen in the environment `clean`, the other is not. The pair is aligned where
        that environment is one of `aligned`; where it is not, and where a row has no partner, its
        members are classified only.
    Assumes: an environment changes what is seen and not the class. Pairs by view and instance need
        environments that a derived attribute of mode per-visit makes; pairs by class do with any.
        No class is shown in an environment in which training never shows it: what it is to do there
        it has to learn from other classes.
    Knobs: weight 1, ours: Omran and Schiele 2022 print none; exploring on clothes in noise, unseen
        combinations were told in 0.61 at 1 and 0.72 at 10. pairs "view", in their figure 6 the only
        ones that help. aligned null, all; lists of them are the rows of their table 3. crop and
        flip 1 and 0, the image as it is; they crop and flip, at sizes that they do not print. Pairs
        by instance are refused without either, for then they are by view.
    Limits: at weight = 0 it is ERM on the rows and their partners, "erm-of-pairs", which is their
    CLS on the same images.
    Deviations: they do not say which members are classified: here both are, so that images cost as
        much at weight 0. Slopes go to both members. An embedding of zeros has no direction: its
        pair counts as at right angles and is not moved.
    Reference:
        @misc{omran2022appropriate, title={Are We Viewing the Problem of Robust Generalisation
        through the Appropriate Lens?}, author={Omran, Mohamed and Schiele, Bernt}, year={2022}}
        Appendix A.3.
    Checked against: hand-worked numbers; a loop over pairs.
    """

    needs = Needs(environments=True, pairs="pairs")
    limit = Limit({"weight": 0.0}, equals="erm-of-pairs")
    version = 1

    def _distance(self, modules: Modules, pairs: AlignedPairs) -> tuple[Tensor, dict[str, Tensor]]:
        return pairs.mean(cosine_distances(pairs.clean, pairs.partner)), {}


def cosine_distances(first: Tensor, second: Tensor) -> Tensor:
    """1 - the cosine of the angle between rows of two matrices [n, d]: at least float32 [n]; 1
    where a row is all zeros."""
    with without_autocast(first):
        first, second = wide(first), wide(second)
        first_square, second_square = first.square().sum(1), second.square().sum(1)
        both_nonzero = (first_square > 0) & (second_square > 0)
        # Where a row has no length the slope of its inverse would be infinite, and a mask after it
        # NaN.
        first_inverse = torch.where(both_nonzero, first_square, 1.0).rsqrt()
        second_inverse = torch.where(both_nonzero, second_square, 1.0).rsqrt()
        products = torch.where(both_nonzero, (first * second).sum(1), 0.0)
        return 1.0 - products * first_inverse * second_inverse
