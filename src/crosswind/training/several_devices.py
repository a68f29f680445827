"""One run on several devices: each process passes its share of a batch through the networks, and all
of them see the outputs of the whole batch.

Every process (a *rank*) does the whole run. It draws the same numbers, makes the same batches,
validates and stops alike, so nothing but the tensors of a step goes between ranks. In a step the
calls of a `Model` are split: of x [n, ...] each rank passes its own rows, and the outputs of all
ranks are put together again. Losses are thus of the whole batch, on every rank. A method that
compares rows, weighs groups or takes gradients of its own computes what it does on one device. What
is no part of a `Model`, such as a discriminator on features, is computed by every rank in full.

Gradients follow the tensors. A parameter is copied to the ranks on the way in, so its gradient is
summed over them. A gradient of the outputs is the same on every rank, so each takes its own rows of
it. One of the inputs is put together again. All four operations are differentiable, gradients of
gradients included (the conjugate pairs of Shoeybi et al. 2019, section 3). Batch norms take mean
and variance over the rows of all ranks.

Numbers: the same number of devices of one kind gives the same bits; another number differs by
rounding, since sums are taken in another order. A network that draws (dropout) draws for each rank
by itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.func import functional_call

from crosswind.methods.base import Batch, Loss, Method
from crosswind.models.build import Model
from crosswind.training.cuda_graphs import Steps
from crosswind.training.run_context import LoopContext

__all__ = ["RankGroup", "SplitSteps", "ranks_joined", "split_calls"]

TIMEOUT = timedelta(minutes=10)
"""How long a rank waits for the others, which do the same work as itself."""
_CALLS = ("forward", "features", "until", "after", "taps")
"""The ways into a `Model`, whose first argument has a row for each row of the batch."""
_LOOPBACK = "lo" if sys.platform == "linux" else "lo0"
_SEEDS = 2**62


@dataclass(frozen=True)
class RankGroup:
    """The processes of one run: this one is `rank`, in [0, `count`)."""

    rank: int
    count: int

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes checkpoints and reports."""
        return self.rank == 0

    def wait(self) -> None:
        """Return when every rank is here."""
        dist.all_reduce(torch.zeros(1, device=_device_of_group()))

    def bounds(self, n: int) -> tuple[int, int]:
        """The rows of n that are this rank's: first, and one past the last."""
        return n * self.rank // self.count, n * (self.rank + 1) // self.count


@contextmanager
def ranks_joined(ranks: RankGroup, meeting: Path, device: str) -> Iterator[RankGroup]:
    """Join the other ranks on this machine, through the file `meeting` that all of them name.

    `device`: of this rank; CUDA devices talk by NCCL, all else by Gloo.
    """
    kind = torch.device(device).type
    backend = "nccl" if kind == "cuda" and dist.is_nccl_available() else "gloo"
    if kind == "cuda":
        torch.cuda.set_device(device)
    with _variables(GLOO_SOCKET_IFNAME=_LOOPBACK, NCCL_SOCKET_IFNAME=_LOOPBACK):
        dist.init_process_group(
            backend,
            init_method=f"file://{meeting}",
            rank=ranks.rank,
            world_size=ranks.count,
            timeout=TIMEOUT,
        )
    try:
        yield ranks
    finally:
        dist.destroy_process_group()


@contextmanager
def _variables(**variables: str) -> Iterator[None]:
    """Environment variables that nobody has set, for a while."""
    absent = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(absent)
    try:
        yield
    finally:
        for name in absent:
            del os.environ[name]


def _device_of_group() -> str:
    return "cuda" if dist.get_backend() == "nccl" else "cpu"


class SplitSteps(Steps):
    """The steps of a stage in which models pass their share of a batch alone. Never recorded as
    graphs."""

    def __init__(
        self, method: Method, context: LoopContext, device: str, length: int, ranks: RankGroup
    ) -> None:
        super().__init__(method, context, device, length)
        self.why = "several devices"
        self._ranks = ranks

    def _ordinary(self, batch: Batch, number: int) -> Loss:
        models = [module for module in self._tools.modules.values() if isinstance(module, Model)]
        with split_calls(models, self._ranks):
            return super()._ordinary(batch, number)


# -- models that are split -------------------------------------------------------------------------


@dataclass
class _BatchShare:
    """The share of a call that is under way: `bounds` of the `rows` of the whole."""

    ranks: RankGroup
    rows: int = 0
    bounds: tuple[int, int] = (0, 0)
    calls: int = 0

    @property
    def within(self) -> bool:
        """Whether a split call is under way, so that further calls in it are not split again."""
        return self.rows > 0


_share: _BatchShare | None = None


@contextmanager
def split_calls(models: Sequence[Model], ranks: RankGroup) -> Iterator[None]:
    """Have models in training pass this rank's rows alone; the classes of their instances are what
    changes, and are put back."""
    global _share
    kinds: list[tuple[nn.Module, type[nn.Module]]] = []
    for model in models:
        kinds.append((model, type(model)))
        for submodule in model.modules():
            if isinstance(submodule, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
                kinds.append((submodule, type(submodule)))
    for module, kind in kinds:
        if issubclass(kind, Model):
            split_kind: type[nn.Module] = _split_model(kind)  # type: ignore[arg-type]
        else:
            split_kind = _split_norm(kind)  # type: ignore[arg-type]  # takes an instance's hash for its class's
        module.__class__ = split_kind
    _share = _BatchShare(ranks)
    try:
        yield
    finally:
        _share = None
        for module, kind in kinds:
            module.__class__ = kind


@cache
def _split_model(kind: type[Model]) -> type[Model]:
    """A class of models whose calls are split."""
    calls = {name: _split_call(kind, name) for name in _CALLS}
    split_kind: type[Model] = type(kind.__name__, (kind,), calls)
    return split_kind


def _split_call(kind: type[Model], name: str) -> Any:
    whole_call = getattr(kind, name)

    def call(model: Model, x: Tensor, *arguments: Any) -> Any:
        share = _share
        if share is None or share.within or not model.training or len(x) < share.ranks.count:
            return whole_call(model, x, *arguments)
        share.rows, share.bounds = len(x), share.ranks.bounds(len(x))
        share.calls += 1
        try:
            with _own_draws(share, x.device):
                copies = {
                    f"model.{key}": _Copied.apply(parameter)
                    for key, parameter in model.named_parameters()
                    if parameter.requires_grad
                }
                outputs = functional_call(
                    _Call(model, whole_call),
                    copies,
                    (_RankRows.apply(x, *share.bounds), *arguments),
                )
            if isinstance(outputs, Mapping):
                return {
                    key: _AllRows.apply(output, len(x), *share.bounds)
                    for key, output in outputs.items()
                }
            return _AllRows.apply(outputs, len(x), *share.bounds)
        finally:
            share.rows = 0

    return call


class _Call(nn.Module):
    """One way into a model, as a module of its own, for `functional_call`."""

    def __init__(self, model: Model, way: Any) -> None:
        super().__init__()
        self.model = model
        self._way = way

    def forward(self, *arguments: Any) -> Any:
        return self._way(self.model, *arguments)


@contextmanager
def _own_draws(share: _BatchShare, device: torch.device) -> Iterator[None]:
    """Random numbers of this rank's own; the generators are afterwards what they were, on every
    rank alike."""
    devices = [device] if device.type == "cuda" else []
    seed = torch.default_generator.initial_seed() + share.calls * share.ranks.count
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=devices))
        rank_seed = (seed + share.ranks.rank) % _SEEDS
        torch.default_generator.manual_seed(rank_seed)
        if devices:
            torch.cuda.manual_seed(rank_seed)
        yield


@cache
def _split_norm(kind: type[nn.Module]) -> type[nn.Module]:
    """A class of batch norms that normalise by the rows of all ranks within a split call."""
    return type(kind.__name__, (kind,), {"forward": _norm_of_all(kind)})


def _norm_of_all(kind: type[nn.Module]) -> Any:
    norm_of_rows = kind.forward

    def forward(norm: Any, x: Tensor) -> Tensor:
        share = _share
        by_rows = norm.training or norm.running_mean is None
        if share is None or not share.within or not by_rows:
            output: Tensor = norm_of_rows(norm, x)
            return output
        axes = [axis for axis in range(x.ndim) if axis != 1]
        values = x if x.dtype == torch.float64 else x.float()
        n = values[:1, 0].numel() * share.rows
        shape = [1, -1, *[1] * (x.ndim - 2)]
        mean = _of_all_ranks(values.sum(axes)) / n
        centred = values - mean.view(shape)
        variance = _of_all_ranks((centred * centred).sum(axes)) / n
        if norm.training and norm.track_running_stats:
            _follow(norm, mean.detach(), variance.detach() * (n / max(n - 1, 1)))
        scale = torch.rsqrt(variance + norm.eps)
        if norm.weight is not None:
            scale = scale * norm.weight
        normalised = centred * scale.view(shape)
        if norm.bias is not None:
            normalised = normalised + norm.bias.view(shape)
        return normalised.to(x.dtype)

    return forward


def _follow(norm: Any, mean: Tensor, variance: Tensor) -> None:
    """Move a batch norm's running statistics, as torch's own does."""
    with torch.no_grad():
        norm.num_batches_tracked.add_(1)
        share_of_new = norm.momentum
        if share_of_new is None:
            share_of_new = 1.0 / float(norm.num_batches_tracked)
        norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), share_of_new)
        norm.running_var.lerp_(variance.to(norm.running_var.dtype), share_of_new)


# -- tensors between ranks -------------------------------------------------------------------------


def _of_all_ranks(value: Tensor) -> Tensor:
    """The sum over ranks, for every rank to go on with on its own rows."""
    total: Tensor = _Copied.apply(_Summed.apply(value))
    return total


class _Copied(torch.autograd.Function):
    """One tensor that every rank uses on its own rows: gradients are summed."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        return _Summed.apply(slopes[0])


class _Summed(torch.autograd.Function):
    """The sum over ranks of what each has of its own rows."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        total = value.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        return _Copied.apply(slopes[0])


class _RankRows(torch.autograd.Function):
    """This rank's rows of a tensor that is the same on all ranks."""

    @staticmethod
    def forward(ctx: Any, batch: Tensor, first: int, end: int) -> Tensor:
        ctx.rows, ctx.bounds = len(batch), (first, end)
        return batch[first:end].clone()

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        return _AllRows.apply(slopes[0], ctx.rows, *ctx.bounds), None, None


class _AllRows(torch.autograd.Function):
    """The rows of all ranks as one tensor [rows, ...]."""

    @staticmethod
    def forward(ctx: Any, rank_rows: Tensor, rows: int, first: int, end: int) -> Tensor:
        ctx.bounds = first, end
        return _gathered(rank_rows.detach(), rows)

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        return _RankRows.apply(slopes[0], *ctx.bounds), None, None, None


def _gathered(rank_rows: Tensor, rows: int) -> Tensor:
    """The rows of all ranks in their order; as bytes, which every backend moves whatever the
    type."""
    count = dist.get_world_size()
    ends = [rows * (rank + 1) // count for rank in range(count)]
    sizes = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    as_nhwc = rank_rows.ndim == 4 and rank_rows.is_contiguous(memory_format=torch.channels_last)
    laid_out = rank_rows.permute(0, 2, 3, 1) if as_nhwc else rank_rows
    padded = laid_out.new_zeros((max(sizes), *laid_out.shape[1:]))
    padded[: len(rank_rows)] = laid_out
    buffers = [torch.empty_like(padded) for _ in range(count)]
    dist.all_gather(
        [buffer.view(-1).view(torch.uint8) for buffer in buffers], padded.view(-1).view(torch.uint8)
    )
    rows_of_all = torch.cat([buffer[:size] for buffer, size in zip(buffers, sizes, strict=True)])
    return rows_of_all.permute(0, 3, 1, 2) if as_nhwc else rows_of_all
