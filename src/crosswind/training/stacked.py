"""Many small networks of one architecture held as one: each parameter with a leading axis of networks.

A step of a tiny network costs hardly any arithmetic: nearly all of it is spent on calling operations. Stacked, one call serves all
networks. Every operation here keeps networks apart, so no number of one reaches another, not even a NaN.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
import torch.fx
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from crosswind.core.errors import InputError, NeedsError
from crosswind.methods.functional import row_losses
from crosswind.models.backbones import FlattenChannelsLast

__all__ = ["Inputs", "Stack", "check_stackable"]


_CACHED = 2**21  # bytes of inputs at once
Inputs: TypeAlias = "tuple[Tensor, Tensor, Tensor | None]"


class Stack:
    """N networks of one architecture. `parameters[name]` is [N, ...] in the order of the networks given.

    Inputs are [S, b, ...] where S divides N: the first N / S networks see the first batch, the next the second. S = 1 is one batch
    for all, S = N one for each. Chains of linear layers and ReLU are computed by batched matrix products, anything else by
    `torch.func.vmap`.
    Raises `NeedsError` for networks that cannot be stacked: see `check_stackable`.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        if not networks:
            raise InputError("networks", "there is none to stack")
        for network in networks:
            check_stackable(network)
        shapes = [{name: value.shape for name, value in network.named_parameters()} for network in networks]
        if any(own != shapes[0] for own in shapes):
            raise InputError(
                "networks", "only networks of one architecture are stacked, these have other parameters than the first"
            )
        stacked, _ = stack_module_state(list(networks))
        self.parameters: dict[str, Tensor] = {name: value.detach().requires_grad_() for name, value in stacked.items()}
        self._applied = _Applied(networks[0])
        self._chain = _chain_of(networks[0])

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    @property
    def chained(self) -> bool:
        """Whether the networks are computed by batched matrix products."""
        return self._chain is not None

    def part(self, places: Sequence[int]) -> Stack:
        """The networks at these places as a stack of their own."""
        found = copy.copy(self)
        found.parameters = dict(self.parameters)
        found.keep(places)
        return found

    def weights(self, place: int) -> dict[str, Tensor]:
        """A copy of one network's parameters, on the CPU."""
        return {name: value.detach()[place].to("cpu", copy=True) for name, value in self.parameters.items()}

    def load(self, weights: Sequence[Mapping[str, Tensor]]) -> None:
        """Become the networks with these parameters, as many as are given."""
        for name, value in self.parameters.items():
            found = torch.stack([one[name] for one in weights])
            self.parameters[name] = found.to(device=value.device, dtype=value.dtype).requires_grad_()

    def keep(self, places: Sequence[int]) -> None:
        """Go on with the networks at these places only."""
        index = torch.tensor(list(places), dtype=torch.int64)
        for name, value in self.parameters.items():
            self.parameters[name] = value.detach().index_select(0, index.to(value.device)).requires_grad_()

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """What every network says of its inputs, [N, b, k]; x [S, b, ...]."""
        if self._chain is not None:
            return self._chain.forward(self.parameters, x)[0].transpose(1, 2)
        found, _ = self._vmapped(lambda model, inputs: (model(inputs), {}), (self._spread(x),))
        return found

    def gradients(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
        """The cross-entropy of every network, float [N] in nats, and its gradients in the order of `parameters`.

        x [S, b, ...]; y int64 [N, b]; the loss is sum(weight * losses) / b with `weight` float [N, b], None: 1.
        """
        if self._chain is not None:
            return self._chain.gradients(self.parameters, x, y, weight)
        given = (self._spread(x), y, torch.ones((), dtype=x.dtype, device=x.device).expand(y.shape) if weight is None else weight)
        found, _, gradients = self.gradients_of(_weighted_loss, given)
        return found, gradients

    def gradients_by_parts(self, n_sets: int, size: int, given: Callable[[int, int], Inputs]) -> tuple[Tensor, list[Tensor]]:
        """`gradients` of the inputs that `given(first, last)` makes of the sets from first to last, some sets at a time.

        `size`: bytes of one set's x. Made in parts, inputs are still in the processor's cache when they are read.
        """
        many = max(1, _CACHED // max(size, 1))
        if self._chain is None or many >= n_sets:
            return self.gradients(*given(0, n_sets))
        share, found = len(self) // n_sets, []
        for first in range(0, n_sets, many):
            last = min(first + many, n_sets)
            with torch.no_grad():
                own = {name: value[first * share : last * share] for name, value in self.parameters.items()}
            found.append(self._chain.gradients(own, *given(first, last)))
        losses, gradients = zip(*found, strict=True)
        return torch.cat(losses), [torch.cat(parts) for parts in zip(*gradients, strict=True)]

    def gradients_of(self, loss: Callable[..., tuple[Tensor, Any]], given: tuple[Any, ...]) -> tuple[Tensor, Any, list[Tensor]]:
        """Losses [N], whatever else `loss` gives, and gradients, for any `loss(model, *given of one network)`.

        `given`: tensors, or dictionaries of tensors, with a leading axis of networks. A loss that draws random numbers, or that
        decides by a tensor's value, is a `RuntimeError` of torch's.
        """
        total, others = self._vmapped(loss, given)
        return total.detach(), others, list(torch.autograd.grad(total.sum(), list(self.parameters.values())))

    def _vmapped(self, function: Callable[..., tuple[Tensor, Any]], given: tuple[Any, ...]) -> tuple[Tensor, Any]:
        def one(parameters: dict[str, Tensor], *arguments: Any) -> Any:
            return functional_call(self._applied, parameters, (function, *arguments))

        named = {f"model.{name}": value for name, value in self.parameters.items()}
        return vmap(one, randomness="error")(named, *given)

    def _spread(self, x: Tensor) -> Tensor:
        return x if len(x) == len(self) else x.repeat_interleave(len(self) // len(x), dim=0)


def _weighted_loss(model: nn.Module, x: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    return (row_losses(model(x), y) * weight).mean(), {}


def check_stackable(network: nn.Module) -> None:
    """Refuse a network whose training is not a function of its parameters and one batch alone. Raises `NeedsError`."""
    for name, part in network.named_modules():
        what = type(part).__name__
        if isinstance(part, nn.modules.batchnorm._NormBase):
            raise NeedsError(f"networks with batch norm are not trained as one: {name or 'the network'} is a {what}")
        rate = part.p if isinstance(part, nn.modules.dropout._DropoutNd) else getattr(part, "dropout", 0.0)
        if isinstance(part, nn.RReLU) or (isinstance(rate, float) and rate > 0):
            raise NeedsError(f"networks that draw random numbers are not trained as one: {name or 'the network'} is a {what}")
    for name, _ in network.named_buffers():
        raise NeedsError(f"networks that keep tensors beside their parameters are not trained as one: there is {name!r}")
    for name, parameter in network.named_parameters():
        if not parameter.requires_grad:
            raise NeedsError(f"networks with frozen parameters are not trained as one: {name!r} is frozen")


class _Applied(nn.Module):
    """Lets any function of a model run under other parameters by `functional_call`, which swaps those of a module's call."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, function: Callable[..., Any], *given: Any) -> Any:
        return function(self.model, *given)


class _Chain:
    """Linear layers with or without a ReLU behind each, after parts that only reshape one row.

    Activations are [N, width, b]: the rows, of which there are many, lie along the vector units, and weights serve as torch holds
    them. Derivatives are written out, since recording them costs as much as computing them at these sizes.
    """

    def __init__(self, shapers: list[nn.Module], layers: list[tuple[str, bool, bool]]) -> None:
        self._shapers, self._layers = shapers, layers  # (name, has bias, has ReLU)

    def forward(self, parameters: Mapping[str, Tensor], x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Logits [N, k, b], and what every layer read: [S, d, b], then [N, width, b]."""
        below = self._flat(x).transpose(1, 2)
        read = []
        for name, biased, rectified in self._layers:
            weight = parameters[_joined(name, "weight")]
            n, width, depth = weight.shape
            read.append(below)
            sets = len(below)
            weight = weight.reshape(sets, n // sets * width, depth)
            if biased:
                above = torch.baddbmm(parameters[_joined(name, "bias")].reshape(sets, -1, 1), weight, below)
            else:
                above = torch.bmm(weight, below)
            below = above.view(n, width, -1)
            if rectified:
                below = below.relu_()
        return below, read

    @torch.no_grad()
    def gradients(
        self, parameters: Mapping[str, Tensor], x: Tensor, y: Tensor, weight: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        """See `Stack.gradients`."""
        logits, read = self.forward(parameters, x)
        told = y[:, None]
        slope = torch.log_softmax(logits, 1)
        picked = slope.gather(1, told)
        losses = -picked[:, 0]
        # The derivative of a row's loss by its logits: probabilities, less 1 at the label.
        slope.exp_().scatter_(1, told, torch.expm1(picked))
        if weight is None:
            slope.mul_(1 / y.shape[1])
        else:
            losses = losses * weight
            slope.mul_((weight / y.shape[1])[:, None])
        found: dict[str, Tensor] = {}
        for place in reversed(range(len(self._layers))):
            name, biased, _ = self._layers[place]
            below, own = read[place], parameters[_joined(name, "weight")]
            sets, (n, width, _) = len(below), own.shape
            found[_joined(name, "weight")] = torch.bmm(slope.view(sets, n // sets * width, -1), below.transpose(1, 2)).view(
                own.shape
            )
            if biased:
                found[_joined(name, "bias")] = slope.sum(2)
            if place:
                slope = torch.bmm(own.transpose(1, 2), slope)
                if self._layers[place - 1][2]:
                    torch.ops.aten.threshold_backward.grad_input(slope, below, 0, grad_input=slope)
        return losses.mean(1), [found[name] for name in parameters]

    def _flat(self, x: Tensor) -> Tensor:
        sets, rows = x.shape[:2]
        if self._shapers:
            x = x.flatten(0, 1)
            for part in self._shapers:
                x = part(x)
            x = x.view(sets, rows, *x.shape[1:])
        return x


def _chain_of(network: nn.Module) -> _Chain | None:
    """The network as a chain of linear layers, None where it is something else."""
    parts = _sequence_of(network)
    shapers: list[nn.Module] = []
    layers: list[tuple[str, bool, bool]] = []
    for name, part in parts:
        if type(part) is nn.Linear:
            layers.append((name, part.bias is not None, False))
        elif type(part) is nn.ReLU and layers:
            layers[-1] = (*layers[-1][:2], True)
        elif not layers and type(part) in (nn.Flatten, FlattenChannelsLast):
            shapers.append(part)
        elif type(part) is not nn.Identity:
            return None
    known = [_joined(name, kind) for name, biased, _ in layers for kind in (("weight", "bias") if biased else ("weight",))]
    # A layer that is used twice, or not at all, has gradients of another form.
    whole = sorted(known) == sorted(name for name, _ in network.named_parameters())
    return _Chain(shapers, layers) if layers and not layers[-1][2] and whole else None


def _joined(part: str, name: str) -> str:
    return f"{part}.{name}" if part else name


class _Leaves(torch.fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return next(m.children(), None) is None


def _sequence_of(network: nn.Module) -> list[tuple[str, nn.Module]]:
    """The parts that a network calls, by name, if each reads what the one before gave and nothing else happens; else none."""
    around = nn.Sequential(network)  # a root is never a leaf, and the network may be a single layer
    try:
        nodes = list(_Leaves().trace(around).nodes)
    except Exception:  # what torch.fx meets in code that depends on values is of no one class
        return []
    found = []
    for before, node in itertools.pairwise(nodes):
        if node.args[:1] != (before,) or node.op not in ("call_module", "output"):
            return []
        if node.op == "call_module":
            name = str(node.target)
            found.append((name.removeprefix("0").removeprefix("."), around.get_submodule(name)))
    return found
