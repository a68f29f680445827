"""References at a method's limit beside a registered method: mean losses by plain loops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from crosswind.core import registry
from crosswind.core.knobs import Limit
from crosswind.methods.base import Batch, Info, Loss, Method, Modules, Partners, State

__all__ = ["reference_of"]

_loss = nn.functional.cross_entropy


@dataclass(frozen=True)
class ErmOfRows(Method):
    """The reference `erm`: the mean loss of the rows."""

    limit = Limit.none("a reference")


@dataclass(frozen=True)
class GroupMean(Method):
    """The reference `erm-group-mean`: the mean over groups with training rows of each one's mean
    loss, by a plain loop."""

    limit = Limit.none("a reference")

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """A quarter of each group's mean loss, 0 for a group that the batch lacks."""
        logits = modules["model"](batch.x)
        total = logits.sum() * 0
        for code in range(4):
            rows = [i for i in range(len(batch.y)) if int(batch.group[i]) == code]
            if rows:
                total = total + _loss(logits[rows], batch.y[rows]) / 4
        return Loss(total)


@dataclass(frozen=True)
class EnvironmentMean(Method):
    """The reference `erm-environment-mean`: the mean over environments in the batch of each one's
    mean loss, by a plain loop."""

    limit = Limit.none("a reference")

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """The mean of the environments' mean losses."""
        logits = modules["model"](batch.x)
        assert batch.environment is not None
        environment = batch.environment.tolist()
        risks: list[Tensor] = []
        for code in sorted(set(environment)):
            rows = [i for i, code_of_row in enumerate(environment) if code_of_row == code]
            risks.append(_loss(logits[rows], batch.y[rows]))
        return Loss(torch.stack(risks).mean())


@dataclass(frozen=True)
class OfPairs(Method):
    """The reference `erm-of-pairs`: the mean loss of the rows and of their partners, in one
    pass."""

    limit = Limit.none("a reference")
    base: ClassVar[Method]

    def partners(self, info: Info) -> Partners | None:
        """Those of the method whose limit it is."""
        return self.base.partners(info)

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """The mean loss of twice as many rows."""
        assert batch.pair is not None
        logits = modules["model"](torch.cat([batch.x, batch.pair.x]))
        rows = [
            _loss(logits[i : i + 1], batch.y[i % len(batch.y)].view(1)) for i in range(len(logits))
        ]
        return Loss(torch.stack(rows).mean())


_REFERENCES: dict[str, type[Method]] = {
    "erm": ErmOfRows,
    "erm-of-pairs": OfPairs,
    "erm-group-mean": GroupMean,
    "erm-environment-mean": EnvironmentMean,
}


def reference_of(method: Method) -> Method:
    """The reference that a method declares to equal at its limit, with the method's own sampler:
    the limit is of the loss, and both must see the same batches."""
    equals = method.limit.equals
    assert equals is not None
    parent: Any = _REFERENCES.get(equals) or registry.load("methods", equals)
    needs = replace(parent.needs, sampler=method.needs.sampler)
    members = {"needs": needs, "__doc__": "A reference.", "base": method}
    members["registered_name"] = f"the reference {equals}"
    reference: Method = type("Reference", (parent,), members)()
    return reference
