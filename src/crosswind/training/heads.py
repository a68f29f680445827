"""Small networks on rows that lie in memory, trained as one: linear probes on fixed features, perceptrons on points.

Each network has a learning rate, weight decay, labels, rows, weights of rows and a seed of its own. The order of its rows is that
of a run of the loop with this seed, so it sees the batches that it would see alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crosswind.core.errors import InputError
from crosswind.core.seeds import torch_seed
from crosswind.training.memory import keep_freed_memory
from crosswind.training.orders import Order
from crosswind.training.stack_optimiser import StackOptimiser
from crosswind.training.stacked import Inputs, Stack

__all__ = ["Heads", "Member", "logistic_heads", "train_heads", "train_stack"]

_AHEAD = 64  # steps whose rows are chosen at once


@dataclass(frozen=True)
class Member:
    """How one network of a stack is trained.

    `lr` in (0, inf), `weight_decay` in [0, inf). `seed`: of the order of rows, and of a head's initial weights. `rows` int64 [m]:
    the rows that it sees, repeats allowed; None: all. `weight` float [n], >= 0, by row of the whole: multiplies the row's loss.
    """

    lr: float = 1e-3
    weight_decay: float = 0.0
    seed: int = 0
    rows: NDArray[np.int64] | None = field(default=None, compare=False)
    weight: NDArray[np.float64] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Heads:
    """N linear classifiers on features: `weight` float [N, k, d], `bias` float [N, k]."""

    weight: Tensor
    bias: Tensor

    def logits(self, features: Tensor) -> Tensor:
        """What every head says of features [n, d]: [N, n, k]."""
        n, k, d = self.weight.shape
        found = features.to(self.weight) @ self.weight.reshape(n * k, d).T
        return found.view(-1, n, k).transpose(0, 1) + self.bias[:, None]


def train_stack(
    stack: Stack,
    x: Tensor,
    y: Tensor,
    members: Sequence[Member],
    *,
    steps: int,
    batch: int | None = 128,
    optimiser: str = "adam",
    momentum: float = 0.0,
) -> Tensor:
    """Train every network of a stack on the rows x float [n, ...] with labels y int64 [n] or [N, n]; the losses, float [steps, N].

    A step's loss is the mean over `batch` rows of weight * cross-entropy, in nats; `batch` None: over all rows of the network. The
    networks and x lie on one device. `optimiser`: adam, adamw or sgd with `momentum`. Raises `InputError`.
    """
    n = len(x)
    _check(len(stack), n, y, members, batch)
    keep_freed_memory()
    feed = None if batch is None else _Feed(members, n, batch, steps, x.device)
    order = list(range(len(stack))) if feed is None else feed.order
    stack.keep(order)
    rates, decays = [members[place].lr for place in order], [members[place].weight_decay for place in order]
    descent = StackOptimiser(stack, optimiser, rates, decays, momentum)
    labels = y.to(x.device).expand(len(stack), n)[order]
    weights = _weights([members[place] for place in order], n, whole=batch is None)
    weights = None if weights is None else weights.to(x)
    size = x[:1].nbytes * (batch or 1)
    losses = torch.empty(steps, len(stack), dtype=x.dtype, device=x.device)
    for step in range(steps):
        if feed is None:
            losses[step], gradients = stack.gradients(x[None], labels, weights)
        else:
            losses[step], gradients = stack.gradients_by_parts(feed.sets, size, feed.given(step, x, labels, weights))
        descent.step(gradients)
    back = np.argsort(order)
    stack.keep(back.tolist())
    return losses[:, back]


def train_heads(
    features: Tensor,
    y: Tensor,
    n_classes: int,
    members: Sequence[Member],
    *,
    steps: int,
    batch: int | None = 128,
    optimiser: str = "adam",
    momentum: float = 0.0,
) -> Heads:
    """One linear classifier a member on fixed features float [n, d]; y int64 [n] or [N, n] in [0, n_classes).

    Initial weights are those of `torch.nn.Linear` under the member's seed. For the rest see `train_stack`.
    """
    if len(y) and not 0 <= int(y.min()) <= int(y.max()) < n_classes:
        raise InputError("y", f"labels must lie in [0, {n_classes})")
    heads = []
    for member in members:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(torch_seed(member.seed, "weights"))
            heads.append(nn.Linear(features.shape[1], n_classes).to(features))
    stack = Stack(heads)
    train_stack(stack, features, y, members, steps=steps, batch=batch, optimiser=optimiser, momentum=momentum)
    return Heads(stack.parameters["weight"].detach(), stack.parameters["bias"].detach())


def logistic_heads(features: Tensor, y: Tensor, n_classes: int, members: Sequence[Member], *, tolerance: float = 1e-6) -> Heads:
    """Logistic regressions at their optimum, one a member, by scikit-learn's L-BFGS in float64 on the CPU.

    Minimised is the mean over the member's rows of weight * cross-entropy, in nats, + weight_decay / 2 * |W|^2, the bias free.
    `lr` and `seed` are not read; `weight_decay` must be above 0, or the optimum may lie at infinity. A class that none of a
    member's rows has gets the bias -inf. Raises `InputError`.
    """
    from sklearn.linear_model import LogisticRegression

    n, d = features.shape
    given = features.detach().cpu().double().numpy()
    labels = y.cpu().expand(len(members), n).numpy()
    weight, bias = np.zeros((len(members), n_classes, d)), np.full((len(members), n_classes), -np.inf)
    for place, member in enumerate(members):
        if not member.weight_decay > 0:
            raise InputError("weight_decay", f"a logistic regression needs one above 0, member {place} has {member.weight_decay}")
        rows = np.arange(n) if member.rows is None else member.rows
        seen = np.ones(len(rows)) if member.weight is None else np.asarray(member.weight, dtype=np.float64)[rows]
        classes = np.unique(labels[place][rows][seen > 0])
        if len(classes) < 2:
            raise InputError("rows", f"a logistic regression needs rows of two classes, member {place} has those of {len(classes)}")
        # Its objective is |W|^2 / 2 + C * sum of weight * loss. For two classes it has one vector w, which stands for the pair
        # (-w / 2, w / 2); the decay of that pair is half that of w.
        two = len(classes) == 2
        solver = LogisticRegression(C=(2 if two else 1) / (member.weight_decay * len(rows)), tol=tolerance, max_iter=10_000)
        solver.fit(given[rows], labels[place][rows], sample_weight=seen)
        vectors, offsets = solver.coef_, solver.intercept_
        if two:
            vectors, offsets = np.concatenate([-vectors, vectors]) / 2, np.concatenate([-offsets, offsets]) / 2
        weight[place, classes], bias[place, classes] = vectors, offsets
    return Heads(torch.from_numpy(weight), torch.from_numpy(bias))


class _Feed:
    """The rows of every step. Members with one seed and one set of rows see the same, which are then gathered once for all.

    `order`: the members so that those that see the same stand together.
    """

    def __init__(self, members: Sequence[Member], n: int, batch: int, steps: int, device: torch.device) -> None:
        alike: dict[tuple[int, bytes | None], list[int]] = {}
        for place, member in enumerate(members):
            alike.setdefault((member.seed, None if member.rows is None else member.rows.tobytes()), []).append(place)
        self.order = [place for places in alike.values() for place in places]
        self._orders = [
            Order(np.arange(n) if rows is None else rows, None, seed, "order", "main")
            for rows, seed in ((members[first].rows, members[first].seed) for first, *_ in alike.values())
        ]
        counts = [len(places) for places in alike.values()]
        self._shared = len(set(counts)) == 1
        self._spread = torch.from_numpy(np.repeat(np.arange(len(counts)), counts)).to(device)
        self._batch, self._steps, self._device = batch, steps, device
        self._block = torch.empty(0)

    @property
    def sets(self) -> int:
        """How many batches a step gathers."""
        return len(self._orders) if self._shared else len(self._spread)

    def given(self, step: int, x: Tensor, y: Tensor, weights: Tensor | None) -> Callable[[int, int], Inputs]:
        """What gathers the batches of a step; steps must be asked for in order from 0."""
        place = step % _AHEAD
        if place == 0:
            many = min(_AHEAD, self._steps - step)
            taken = [order.take(step * self._batch, many * self._batch).reshape(-1, self._batch) for order in self._orders]
            self._block = torch.from_numpy(np.stack(taken, axis=1)).to(self._device)
        found = self._block[place]
        seen = found if len(found) == len(self._spread) else found[self._spread]
        shown = found if self._shared else seen
        share = len(seen) // len(shown)

        def gathered(first: int, last: int) -> Inputs:
            rows = x.index_select(0, shown[first:last].reshape(-1)).view(last - first, self._batch, *x.shape[1:])
            own = slice(first * share, last * share)
            told = y[own].gather(1, seen[own])
            return rows, told, None if weights is None else weights[own].gather(1, seen[own])

        return gathered


def _weights(members: Sequence[Member], n: int, *, whole: bool) -> Tensor | None:
    """The weight of every row in every network's loss, float64 [N, n], None where all are 1.

    `whole`: all rows are shown to all networks, and the mean over them is to be that over each one's own.
    """
    if all(member.weight is None and (member.rows is None or not whole) for member in members):
        return None
    found = np.ones((len(members), n))
    for place, member in enumerate(members):
        if member.weight is not None:
            found[place] = member.weight
        if whole and member.rows is not None:
            found[place] *= np.bincount(member.rows, minlength=n) * (n / len(member.rows))
    return torch.from_numpy(found)


def _check(networks: int, n: int, y: Tensor, members: Sequence[Member], batch: int | None) -> None:
    if len(members) != networks:
        raise InputError("members", f"there are {len(members)} for {networks} networks")
    if tuple(y.shape) not in ((n,), (networks, n)):
        raise InputError("y", f"has shape {tuple(y.shape)}, not ({n},) or ({networks}, {n})")
    if batch is not None and batch < 1:
        raise InputError("batch", f"must be at least 1, not {batch}")
    for place, member in enumerate(members):
        if member.rows is not None and (len(member.rows) == 0 or member.rows.min() < 0 or member.rows.max() >= n):
            raise InputError("rows", f"those of member {place} must be at least one, each in [0, {n})")
        if member.weight is not None and (len(member.weight) != n or not np.min(member.weight) >= 0):
            raise InputError("weight", f"that of member {place} must be {n} numbers of at least 0")
