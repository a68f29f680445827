"""One optimiser for all networks of a stack, each with numbers of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from crosswind.core.errors import InputError
from crosswind.training.stacked import Stack

__all__ = ["StackOptimiser"]


class StackOptimiser:
    """Adam, AdamW or SGD with momentum over a stack, each network with its own learning rate and weight decay.

    What it does to one network is what torch's optimiser of that kind does, within float error. `lr` in (0, inf) and
    `weight_decay` in [0, inf): one number, or one for each network.
    """

    def __init__(
        self,
        stack: Stack,
        kind: str,
        lr: float | Sequence[float],
        weight_decay: float | Sequence[float] = 0.0,
        momentum: float = 0.0,
    ) -> None:
        self._stack, self._kind = stack, kind
        rates, decays = _each("lr", lr, len(stack)), _each("weight_decay", weight_decay, len(stack))
        own = list(stack.parameters.values())
        # Numbers that differ: torch's optimiser makes steps of rate 1 on zeros, which are then scaled for each network.
        self._moves: list[Tensor] | None = None
        if len(set(rates)) > 1 or len(set(decays)) > 1:
            self._moves = [torch.zeros_like(value, requires_grad=False) for value in own]
            self._rates = torch.tensor(rates, dtype=own[0].dtype, device=own[0].device)
            self._decays = torch.tensor(decays, dtype=own[0].dtype, device=own[0].device)
            self._decayed = any(decays)
        self._rate, self._decay = (1.0, 0.0) if self._moves is not None else (rates[0], decays[0])
        self._momentum = momentum
        if kind not in ("adam", "adamw", "sgd"):
            raise InputError("optimiser", f"{kind!r} is none that is known", ["adam", "adamw", "sgd"])
        zeros = kind != "sgd"
        self._first: list[Tensor | None] = [torch.zeros_like(value, requires_grad=False) if zeros else None for value in own]
        self._second = [torch.zeros_like(value, requires_grad=False) for value in own] if zeros else []
        self._steps = [torch.zeros((), dtype=torch.float32, device=value.device) for value in own] if zeros else []

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """One step of every network down its gradients, in the order of the stack's parameters."""
        own, moves = list(self._stack.parameters.values()), self._moves
        # The fused kernels walk the memory of a value and its gradient side by side.
        gradients = [gradient.contiguous() for gradient in gradients]
        if moves is None:
            self._descend(own, gradients)
            return
        rates = [_beside(self._rates, value) for value in own]
        if self._decayed:
            decays = [_beside(self._decays, value) for value in own]
            if self._kind == "adamw":
                torch._foreach_mul_(own, [1 - rate * decay for rate, decay in zip(rates, decays, strict=True)])
            else:
                gradients = [g + decay * value for g, decay, value in zip(gradients, decays, own, strict=True)]
        self._descend(moves, gradients)
        torch._foreach_addcmul_(own, moves, [rate.expand_as(value) for rate, value in zip(rates, own, strict=True)])
        torch._foreach_zero_(moves)

    def _descend(self, values: list[Tensor], gradients: list[Tensor]) -> None:
        # Torch's arithmetic without its classes, which take longer to find their way than tiny networks to step.
        if self._kind == "sgd":
            sgd(
                values,
                gradients,
                self._first,
                weight_decay=self._decay,
                momentum=self._momentum,
                lr=self._rate,
                dampening=0.0,
                nesterov=False,
                maximize=False,
            )
            return
        adam(
            values,
            gradients,
            self._first,  # type: ignore[arg-type]
            self._second,
            [],
            self._steps,
            fused=True,
            decoupled_weight_decay=self._kind == "adamw",
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self._rate,
            weight_decay=self._decay,
            eps=1e-8,
            maximize=False,
        )

    def keep(self, places: Sequence[int]) -> None:
        """Go on with the networks at these places only; called after the stack's own `keep`."""
        own = list(self._stack.parameters.values())
        index = torch.tensor(list(places), dtype=torch.int64, device=own[0].device)
        self._first = [None if value is None else value[index] for value in self._first]
        self._second = [value[index] for value in self._second]
        if self._moves is not None:
            self._moves = [torch.zeros_like(value, requires_grad=False) for value in own]
            self._rates, self._decays = self._rates[index], self._decays[index]


def _each(name: str, value: float | Sequence[float], n: int) -> list[float]:
    """A number for every network."""
    found = [float(value)] * n if isinstance(value, int | float) else [float(one) for one in value]
    if len(found) != n:
        raise InputError(name, f"there are {len(found)} numbers for {n} networks")
    return found


def _beside(numbers: Tensor, value: Tensor) -> Tensor:
    """One number a network [N] in the shape that multiplies `value` [N, ...]."""
    return numbers.view(-1, *[1] * (value.ndim - 1))
