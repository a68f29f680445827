"""Many small perceptrons trained as one: each parameter has a leading axis of networks.

A step of a tiny network costs hardly any arithmetic: nearly all of it is spent on calling
operations. Stacked, one call serves all networks. Every operation keeps networks apart, so no
number of one reaches another, not even a NaN. `benchmarks/speed/together.py` has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from crosswind.core.errors import InputError
from crosswind.training.memory import keep_freed_memory
from crosswind.training.samplers import Order

Inputs: TypeAlias = "tuple[Tensor, Tensor, Tensor | None]"
_CACHED = 2**21  # bytes of inputs at once
_AHEAD = 64  # steps whose rows are chosen at once


@dataclass(frozen=True)
class Member:
    """How one network of a stack is trained.

    `lr` in (0, inf), `weight_decay` in [0, inf). `seed`: of the order of rows, which is that of a
    run of the loop with this seed, and of a probe's initial weights. `rows` int64 [m]: the rows
    that it sees, repeats allowed; None: all. `weight` float [n], >= 0, by row of the whole:
    multiplies the row's loss.
    """

    lr: float = 1e-3
    weight_decay: float = 0.0
    seed: int = 0
    rows: NDArray[np.int64] | None = field(default=None, compare=False)
    weight: NDArray[np.float64] | None = field(default=None, compare=False)


class Stack:
    """N perceptrons of one shape: `nn.Linear`, or an `nn.Sequential` of linear layers, each but the
    last with or without a ReLU.

    `parameters[name]` is [N, ...] in the order of the networks given. Inputs are [S, b, d] where S
    divides N: the first N / S networks see the first batch, the next the second. S = 1 is one batch
    for all, S = N one for each. Activations are
    [N, width, b], so that rows, of which there are many, lie along the vector units. Derivatives
    are written out, since recording them costs as much as computing them at these sizes. Raises
    `InputError` for other networks.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        structures = []
        for network in networks:
            structures.append((_layers(network), [value.shape for value in network.parameters()]))
        if not structures or any(structure != structures[0] for structure in structures):
            raise InputError(
                "networks", "must be at least one, and all of the same layers, of the same shapes"
            )
        self._layers = structures[0][0]
        every = [dict(network.named_parameters()) for network in networks]
        self.parameters = {
            name: torch.stack([values_of_layer[name].detach() for values_of_layer in every])
            for name in every[0]
        }

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    def keep(self, positions: Sequence[int]) -> None:
        """Go on with the networks at these places, in this order."""
        self.parameters = {name: value[list(positions)] for name, value in self.parameters.items()}

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """The logits of every network for its inputs, [N, b, k]; x [S, b, d]."""
        return _forward(self._layers, self.parameters, x)[0].transpose(1, 2)

    @torch.no_grad()
    def gradients(
        self, x: Tensor, y: Tensor, weight: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """The cross-entropy of every network, float [N] in nats, and its gradients in the order of
        `parameters`.

        x [S, b, d]; y int64 [N, b]; the loss is sum(weight * losses) / b with `weight` float [N,
        b], None: 1.
        """
        return _gradients(self._layers, self.parameters, x, y, weight)

    @torch.no_grad()
    def gradients_by_parts(
        self, n_sets: int, size: int, given: Callable[[int, int], Inputs]
    ) -> tuple[Tensor, list[Tensor]]:
        """`gradients` of the inputs that `given(first, last)` makes of the sets from first to last,
        some sets at a time.

        `size`: bytes of one set's x. Made in parts, inputs are still in the processor's cache when
        they are read.
        """
        n_parts = max(1, _CACHED // max(size, 1))
        if n_parts >= n_sets:
            return self.gradients(*given(0, n_sets))
        share = len(self) // n_sets
        gradients_of_parts = []
        for first in range(0, n_sets, n_parts):
            last = min(first + n_parts, n_sets)
            part_parameters = {}
            for name, value in self.parameters.items():
                part_parameters[name] = value[first * share : last * share]
            gradients_of_parts.append(
                _gradients(self._layers, part_parameters, *given(first, last))
            )
        losses, gradients = zip(*gradients_of_parts, strict=True)
        return torch.cat(losses), [
            torch.cat(gradient_parts) for gradient_parts in zip(*gradients, strict=True)
        ]


class Descent:
    """Adam, AdamW or SGD with momentum over a stack, each network with a learning rate and weight
    decay of its own.

    What it does to one network is what torch's optimiser of that kind does, within float error.
    """

    def __init__(
        self,
        stack: Stack,
        kind: str,
        lr: Sequence[float],
        weight_decay: Sequence[float],
        momentum: float = 0.0,
    ) -> None:
        if kind not in ("adam", "adamw", "sgd"):
            raise InputError(
                "optimiser", f"{kind!r} is none that is known", ["adam", "adamw", "sgd"]
            )
        parameters = list(stack.parameters.values())
        self._stack = stack
        self._kind = kind
        self._momentum = momentum
        if len(set(lr)) == 1:
            self._rate = lr[0]
        else:
            self._rate = 1.0
        # Rates that differ: torch's optimiser makes steps of rate 1 on zeros, which are then scaled
        # for each network.
        if len(set(lr)) == 1:
            self._moves = None
        else:
            self._moves = [torch.zeros_like(value) for value in parameters]
        self._rates = [_beside(lr, value) for value in parameters]
        if any(weight_decay):
            self._decays = [_beside(weight_decay, value) for value in parameters]
        else:
            self._decays = []
        if kind == "adamw":
            self._decays = [
                1 - rate * decay for rate, decay in zip(self._rates, self._decays, strict=False)
            ]
        self._first = [torch.zeros_like(value) for value in parameters]
        self._second = [torch.zeros_like(value) for value in parameters]
        self._steps = [
            torch.zeros((), dtype=torch.float32, device=value.device) for value in parameters
        ]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """One step of every network down its gradients, in the order of the stack's parameters."""
        parameters = list(self._stack.parameters.values())
        moves = self._moves
        # The fused kernels walk the memory of a value and its gradient side by side.
        gradients = [gradient.contiguous() for gradient in gradients]
        if self._decays and self._kind == "adamw":
            torch._foreach_mul_(parameters, self._decays)
        elif self._decays:
            gradients = [
                g + decay * value
                for g, decay, value in zip(gradients, self._decays, parameters, strict=True)
            ]
        self._descend(parameters if moves is None else moves, gradients)
        if moves is not None:
            rates = [
                rate.expand_as(value) for rate, value in zip(self._rates, parameters, strict=True)
            ]
            torch._foreach_addcmul_(parameters, moves, rates)
            torch._foreach_zero_(moves)

    def _descend(self, values: list[Tensor], gradients: list[Tensor]) -> None:
        # Torch's arithmetic without its classes, which take longer to find their way than tiny
        # networks to step.
        shared: dict[str, Any] = {"lr": self._rate, "weight_decay": 0.0, "maximize": False}
        if self._kind == "sgd":
            sgd(
                values,
                gradients,
                list(self._first),
                momentum=self._momentum,
                dampening=0.0,
                nesterov=False,
                **shared,
            )
            return
        moments = self._first, self._second
        adam(
            values,
            gradients,
            *moments,
            [],
            self._steps,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            **shared,
        )


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
    """Train every network of a stack on the rows x float [n, d] with labels y int64 [n] or [N, n];
    the losses, float [steps, N].

    A step's loss is the mean over `batch` rows of weight * cross-entropy, in nats; `batch` None:
    over all rows of the network. The networks and x lie on one device. `optimiser`: adam, adamw or
    sgd with `momentum`. Raises `InputError`.
    """
    n = len(x)
    _check(len(stack), n, y, members, batch)
    keep_freed_memory()
    feed = None
    if batch is not None:
        feed = _Feed(members, n, batch, steps, x.device)
    if feed is None:
        order = list(range(len(stack)))
    else:
        order = feed.order
    stack.keep(order)
    chosen = [members[number] for number in order]
    lr = [member.lr for member in chosen]
    weight_decay = [member.weight_decay for member in chosen]
    descent = Descent(stack, optimiser, lr, weight_decay, momentum)
    labels = y.to(x.device).expand(len(stack), n)[order]
    weights = _weights(chosen, n, whole=batch is None)
    weights = None if weights is None else weights.to(x)
    size = x[:1].nbytes * (batch or 1)
    losses = torch.empty(steps, len(stack), dtype=x.dtype, device=x.device)
    for step in range(steps):
        if feed is None:
            losses[step], gradients = stack.gradients(x[None], labels, weights)
        else:
            terms_of_step = feed.given(step, x, labels, weights)
            losses[step], gradients = stack.gradients_by_parts(feed.sets, size, terms_of_step)
        descent.step(gradients)
    back = np.argsort(order)
    stack.keep(back.tolist())
    return losses[:, back]


def _layers(network: nn.Module) -> list[tuple[str, bool, bool]]:
    """Of every linear layer its name with a dot, whether it has a bias, and whether a ReLU
    follows."""
    if type(network) is nn.Linear:
        return [("", network.bias is not None, False)]
    children = list(network.named_children())
    kinds = [type(child) for _, child in children]
    ends = bool(kinds) and kinds[0] is kinds[-1] is nn.Linear
    if (
        type(network) is not nn.Sequential
        or not ends
        or len(children) != len(network)
        or set(kinds) - {nn.Linear, nn.ReLU}
    ):
        raise InputError(
            "networks",
            "must be sequences of distinct linear layers and ReLU that begin and end with a linear"
            " layer",
        )
    layers: list[tuple[str, bool, bool]] = []
    for number, (name, child) in enumerate(children):
        if isinstance(child, nn.Linear):
            has_relu = kinds[number + 1 : number + 2] == [nn.ReLU]
            layers.append((f"{name}.", child.bias is not None, has_relu))
    return layers


def _forward(
    layers: list[tuple[str, bool, bool]], parameters: dict[str, Tensor], x: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """Logits [N, k, b], and what every layer read: [S, d, b], then [N, width, b]."""
    below = x.transpose(1, 2)
    read = []
    for name, biased, rectified in layers:
        weight = parameters[f"{name}weight"]
        n, width, depth = weight.shape
        read.append(below)
        sets = len(below)
        weight = weight.reshape(sets, n // sets * width, depth)
        if biased:
            biases = parameters[f"{name}bias"].reshape(sets, -1, 1)
            below = torch.baddbmm(biases, weight, below).view(n, width, -1)
        else:
            below = torch.bmm(weight, below).view(n, width, -1)
        if rectified:
            below = below.relu_()
    return below, read


def _gradients(
    layers: list[tuple[str, bool, bool]],
    parameters: dict[str, Tensor],
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
) -> tuple[Tensor, list[Tensor]]:
    logits, read = _forward(layers, parameters, x)
    label_column = y[:, None]
    slope = torch.log_softmax(logits, 1)
    picked = slope.gather(1, label_column)
    losses = -picked[:, 0]
    # The derivative of a row's loss by its logits: probabilities, less 1 at the label.
    slope.exp_().scatter_(1, label_column, torch.expm1(picked))
    if weight is None:
        slope.mul_(1 / y.shape[1])
    else:
        losses = losses * weight
        slope.mul_((weight / y.shape[1])[:, None])
    gradients: dict[str, Tensor] = {}
    for number in reversed(range(len(layers))):
        name, biased, _ = layers[number]
        below = read[number]
        layer_weight = parameters[f"{name}weight"]
        sets, (n, width, _) = len(below), layer_weight.shape
        slope_by_network = slope.view(sets, n // sets * width, -1)
        gradient = torch.bmm(slope_by_network, below.transpose(1, 2))
        gradients[f"{name}weight"] = gradient.view(layer_weight.shape)
        if biased:
            gradients[f"{name}bias"] = slope.sum(2)
        if number:
            slope = torch.bmm(layer_weight.transpose(1, 2), slope)
            if layers[number - 1][2]:
                torch.ops.aten.threshold_backward.grad_input(slope, below, 0, grad_input=slope)
    return losses.mean(1), [gradients[name] for name in parameters]


def _beside(numbers: Sequence[float], value: Tensor) -> Tensor:
    """One number a network [N] in the shape that multiplies `value` [N, ...]."""
    return torch.tensor(numbers, dtype=value.dtype, device=value.device).view(
        -1, *[1] * (value.ndim - 1)
    )


class _Feed:
    """The rows of every step. Members with one seed and one set of rows see the same, which are
    then gathered once for all.

    `order`: the members so that those that see the same stand together. `sets`: how many batches a
    step gathers.
    """

    def __init__(
        self, members: Sequence[Member], n: int, batch: int, steps: int, device: torch.device
    ) -> None:
        alike: dict[tuple[int, bytes], list[int]] = {}
        shown = [np.arange(n) if member.rows is None else member.rows for member in members]
        for number, member in enumerate(members):
            alike.setdefault((member.seed, shown[number].tobytes()), []).append(number)
        self.order = [number for positions in alike.values() for number in positions]
        self._orders = [
            Order(shown[positions[0]], None, seed, "order", "main")
            for (seed, _), positions in alike.items()
        ]
        counts = [len(positions) for positions in alike.values()]
        self._shared = len(set(counts)) == 1
        if self._shared:
            self.sets = len(counts)
        else:
            self.sets = len(members)
        self._spread = torch.from_numpy(np.repeat(np.arange(len(counts)), counts)).to(device)
        self._batch = batch
        self._steps = steps
        self._block = torch.empty(0)

    def given(
        self, step: int, x: Tensor, y: Tensor, weights: Tensor | None
    ) -> Callable[[int, int], Inputs]:
        """The gatherer of the batches of a step; steps must be asked for in order from 0."""
        if step % _AHEAD == 0:
            n_steps = min(_AHEAD, self._steps - step)
            taken = []
            for order in self._orders:
                rows_taken = order.take(step * self._batch, n_steps * self._batch)
                taken.append(rows_taken.reshape(-1, self._batch))
            self._block = torch.from_numpy(np.stack(taken, axis=1)).to(x.device)
        block_rows = self._block[step % _AHEAD]
        if len(block_rows) == len(self._spread):
            batch_rows = block_rows
        else:
            batch_rows = block_rows[self._spread]
        shown = block_rows if self._shared else batch_rows
        share = len(batch_rows) // len(shown)

        def gathered(first: int, last: int) -> Inputs:
            shown_rows = shown[first:last].reshape(-1)
            rows = x.index_select(0, shown_rows).view(last - first, self._batch, *x.shape[1:])
            members = slice(first * share, last * share)
            batch_labels = y[members].gather(1, batch_rows[members])
            return (
                rows,
                batch_labels,
                None if weights is None else weights[members].gather(1, batch_rows[members]),
            )

        return gathered


def _weights(members: Sequence[Member], n: int, *, whole: bool) -> Tensor | None:
    """The weight of every row in every network's loss, float64 [N, n], None where all are 1.

    `whole`: all rows are shown to all networks, and the mean over them is to be that over each
    one's own.
    """
    if all(member.weight is None and (member.rows is None or not whole) for member in members):
        return None
    row_weights = np.ones((len(members), n))
    for number, member in enumerate(members):
        if member.weight is not None:
            row_weights[number] = member.weight
        if whole and member.rows is not None:
            row_weights[number] *= np.bincount(member.rows, minlength=n) * (n / len(member.rows))
    return torch.from_numpy(row_weights)


def _check(networks: int, n: int, y: Tensor, members: Sequence[Member], batch: int | None) -> None:
    if len(members) != networks:
        raise InputError("members", f"there are {len(members)} for {networks} networks")
    if tuple(y.shape) not in ((n,), (networks, n)):
        problem = f"has shape {tuple(y.shape)}, not ({n},) or ({networks}, {n})"
        raise InputError("y", problem)
    if batch is not None and batch < 1:
        raise InputError("batch", f"must be at least 1, not {batch}")
    for number, member in enumerate(members):
        if member.rows is not None and (
            len(member.rows) == 0 or member.rows.min() < 0 or member.rows.max() >= n
        ):
            raise InputError(
                "rows", f"those of member {number} must be at least one, each in [0, {n})"
            )
        if member.weight is not None and (
            len(member.weight) != n or not np.min(member.weight) >= 0
        ):
            raise InputError("weight", f"that of member {number} must be {n} numbers of at least 0")
