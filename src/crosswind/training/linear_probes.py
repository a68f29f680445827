"""Linear classifiers on fixed features: by gradient descent, many as one, or at the optimum by
scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from crosswind.core.errors import InputError
from crosswind.core.seeds import torch_seed
from crosswind.training.many_networks import Member, Stack, train_stack


@dataclass(frozen=True)
class Probes:
    """N linear classifiers on features: `weight` float [N, k, d], `bias` float [N, k]."""

    weight: Tensor
    bias: Tensor

    def logits(self, features: Tensor) -> Tensor:
        """The logits of every probe for features [n, d]: [N, n, k]."""
        return features.to(self.weight) @ self.weight.transpose(1, 2) + self.bias[:, None]


def train_probes(
    features: Tensor,
    y: Tensor,
    n_classes: int,
    members: Sequence[Member],
    *,
    steps: int,
    batch: int | None = 128,
    optimiser: str = "adam",
    momentum: float = 0.0,
) -> Probes:
    """One probe a member on features float [n, d]; y int64 [n] or [N, n] in [0, n_classes).

    Initial weights are those of `torch.nn.Linear` under the member's seed. For the rest see
    `many_networks.train_stack`.
    """
    if len(y) and not 0 <= int(y.min()) <= int(y.max()) < n_classes:
        raise InputError("y", f"labels must lie in [0, {n_classes})")
    probes = []
    for member in members:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(torch_seed(member.seed, "weights"))
            probes.append(nn.Linear(features.shape[1], n_classes).to(features))
    stack = Stack(probes)
    train_stack(
        stack,
        features,
        y,
        members,
        steps=steps,
        batch=batch,
        optimiser=optimiser,
        momentum=momentum,
    )
    return Probes(stack.parameters["weight"], stack.parameters["bias"])


def logistic_probes(
    features: Tensor,
    y: Tensor,
    n_classes: int,
    members: Sequence[Member],
    *,
    tolerance: float = 1e-6,
) -> Probes:
    """Logistic regressions at their optimum, one a member, by scikit-learn's L-BFGS in float64 on
    the CPU.

    Minimised is the mean over the member's rows of weight * cross-entropy, in nats, + weight_decay
    / 2 * |W|^2, the bias free. `lr` and `seed` are not read; `weight_decay` must be above 0, or the
    optimum may lie at infinity. A class that none of a member's rows has gets the bias -inf. Raises
    `InputError`.
    """
    from sklearn.linear_model import LogisticRegression

    n, d = features.shape
    features_float64 = features.detach().cpu().double().numpy()
    labels = y.cpu().expand(len(members), n).numpy()
    weight = np.zeros((len(members), n_classes, d))
    bias = np.full((len(members), n_classes), -np.inf)
    for number, member in enumerate(members):
        if not member.weight_decay > 0:
            raise InputError(
                "weight_decay",
                f"a logistic regression needs one above 0, member {number} has"
                f" {member.weight_decay}",
            )
        if member.rows is None:
            rows = np.arange(n)
        else:
            rows = member.rows
        if member.weight is None:
            row_weights = np.ones(len(rows))
        else:
            row_weights = np.asarray(member.weight, dtype=np.float64)[rows]
        classes = np.unique(labels[number][rows][row_weights > 0])
        if len(classes) < 2:
            raise InputError(
                "rows",
                f"a logistic regression needs rows of two classes, member {number} has those of"
                f" {len(classes)}",
            )
        # Its objective is |W|^2 / 2 + C * sum of weight * loss. For two classes it has one vector
        # w, which stands for the pair (-w / 2, w / 2); the decay of that pair is half that of w.
        two = len(classes) == 2
        solver = LogisticRegression(
            C=(2 if two else 1) / (member.weight_decay * len(rows)), tol=tolerance, max_iter=10_000
        )
        solver.fit(features_float64[rows], labels[number][rows], sample_weight=row_weights)
        vectors = solver.coef_
        offsets = solver.intercept_
        if two:
            vectors = np.concatenate([-vectors, vectors]) / 2
            offsets = np.concatenate([-offsets, offsets]) / 2
        weight[number, classes], bias[number, classes] = vectors, offsets
    return Probes(torch.from_numpy(weight), torch.from_numpy(bias))
