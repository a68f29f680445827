"""Steps of training on a CUDA device, recorded once as a graph and then replayed: the host has next
to nothing left to do.

A step of a small network is a few hundred kernels of a few microseconds each, and telling the
device of each takes the host as long or longer. A recorded step does exactly what the step did from
which it was recorded, on whatever then lies in the same memory. So it may stand for later steps
only where nothing that the host decides differs between them. A method that reads a batch's step,
epoch or progress, or draws on the host, therefore keeps its ordinary steps. Of any other, two
replayed steps are compared with ordinary ones, bit by bit, before the graph is trusted. So graphs
change no number. `benchmarks/speed/accelerator.py` has what they save.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields
from functools import cache
from typing import Any

import torch
from torch import Tensor

from crosswind.methods.base import Batch, Loss, Method, Pair
from crosswind.training.run_context import LoopContext

__all__ = ["LEAST", "VARIABLE", "WARM_UP", "Steps"]

VARIABLE = "CROSSWIND_CUDA_GRAPHS"
"""The environment variable that forbids graphs where it is 0."""
WARM_UP = 3
"""Ordinary steps of a stage before one is recorded: moments are made in the first, and libraries
set themselves up."""
CHECKED = 2
"""Replayed steps that are compared with ordinary ones."""
LEAST = 40
"""Steps that must be left of a stage for a graph to pay."""
_DECIDED = ("step", "epoch", "progress")


class _DependsOnStep(Exception):
    """The method read what differs from step to step."""


class _FixedBatch(Batch):
    """The batch whose tensors a graph reads."""

    def __getattribute__(self, name: str) -> Any:
        if name in _DECIDED:
            raise _DependsOnStep
        return super().__getattribute__(name)


class Steps:
    """The steps of one stage, of a method on its context. `why`: why there is no graph; empty while
    there may be one."""

    def __init__(self, method: Method, context: LoopContext, device: str, length: int) -> None:
        self._method = method
        self._tools = context
        self._length = length
        self._device = torch.device(device)
        self._cuda = self._device.type == "cuda"
        self._taken = self._compared = 0
        self._fixed: Batch | None = None
        self._graph: Any = None
        self._loss: Loss | None = None
        self.why = "" if self._cuda else "not a CUDA device"
        if self._cuda and os.environ.get(VARIABLE, "") == "0":
            self.why = f"{VARIABLE} is 0"

    @property
    def replayed(self) -> bool:
        """Whether the next step of the stage will be a replay."""
        return self._graph is not None and self._compared >= CHECKED

    def beside(self) -> AbstractContextManager[None]:
        """Where what is no step of the stage is done, such as a look at gradients: on the stream of
        recorded steps, if any."""
        if self.why and self._graph is None:
            return nullcontext()
        return self._beside()

    def take(self, batch: Batch, number: int) -> Loss:
        """Train on a batch, with `number` as the seed of all that is drawn in the step."""
        if not self.why and self._graph is None:
            if self._length - batch.step < LEAST:
                self.why = "too few steps are left"
            elif self._taken == WARM_UP:
                self._record(batch, number)
        self._taken += 1
        if (
            self._graph is not None
            and self._fixed is not None
            and batch.x.shape != self._fixed.x.shape
        ):
            with self._beside():
                return self._ordinary(
                    batch, number
                )  # texts of another length than those of the recorded step
        if self._graph is not None:
            if self.replayed:
                return self._replay(batch, number)
            with self._beside():
                return self._compare(batch, number)
        if self.why:
            return self._ordinary(batch, number)
        with self._beside():
            if self._taken == WARM_UP:
                return self._watched(batch, number)
            return self._ordinary(batch, number)

    def _seed(self, number: int) -> None:
        torch.default_generator.manual_seed(number)
        if self._cuda:
            torch.cuda.manual_seed_all(number)  # of whichever the run is on

    def _ordinary(self, batch: Batch, number: int) -> Loss:
        self._seed(number)
        self._tools.batch = batch
        return self._method.update(self._tools, batch)

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """On the stream that steps are recorded on: what autograd keeps of a parameter belongs to
        the stream of its first use."""
        stream = _stream(str(self._device))
        with torch.cuda.device(self._device):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                yield
            torch.cuda.current_stream().wait_stream(stream)

    def _watched(self, batch: Batch, number: int) -> Loss:
        """An ordinary step, and whether it waits for the device: such a one cannot be recorded, and
        trying leaves traces."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                loss = self._ordinary(batch, number)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        for word in caught:
            if "synchronizing CUDA operation" in str(word.message):
                self.why = "the method waits for the device"
            elif "debug mode is a prototype" not in str(word.message):
                warnings.warn_explicit(word.message, word.category, word.filename, word.lineno)
        return loss

    # -- recording
    # ----------------------------------------------------------------------------------------------

    def _record(self, batch: Batch, number: int) -> None:
        """Record the step; nothing of it is done yet. Whatever goes wrong, ordinary steps go on."""
        fixed = _FixedBatch(
            **{field.name: _copied(getattr(batch, field.name)) for field in fields(Batch)}
        )
        context = self._tools
        state = dict(self._tools.state)
        gathered = context.gathered()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._device):
            torch.cuda.synchronize()
            self._seed(number)
            drawn = torch.default_generator.get_state()
            context.batch = fixed
            with torch.cuda.stream(_stream(str(self._device))), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of an empty graph, where the method stops at once
                # Other threads may go on with the device meanwhile: rows are read ahead in one.
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    loss = self._method.update(context, fixed)
                    for name, value in context.state.items():
                        if value is not state[name]:
                            state[name].copy_(value)
                except Exception as error:
                    if isinstance(error, _DependsOnStep):
                        self.why = "the method reads the step"
                    else:
                        self.why = f"{type(error).__name__}"
                finally:
                    context.state = state
                    try:
                        graph.capture_end()
                    except RuntimeError as error:  # what was recorded cannot be a graph
                        self.why = self.why or f"{type(error).__name__}"
                        # The device's generator still believes that it is being recorded.
                        generator = torch.cuda.default_generators[torch.cuda.current_device()]
                        generator.graphsafe_set_state(
                            torch.Generator(self._device).graphsafe_get_state()
                        )
            torch.cuda.synchronize()
        if context.gathered().keys() != gathered.keys():
            # Made in the recording, which fills nothing: an ordinary step would go on from whatever
            # lies there.
            context.load_gathered(gathered)
            self.why = self.why or "the optimiser has new parameters to move"
        if not self.why and not torch.equal(drawn, torch.default_generator.get_state()):
            self.why = "the method draws on the host"
        if not self.why:
            # Without what autograd keeps, which would tie the parameters to the stream of the
            # recording.
            terms = {name: term.detach() for name, term in loss.terms.items()}
            self._fixed = fixed
            self._graph = graph
            self._loss = Loss(loss.total.detach(), terms)

    def _replay(self, batch: Batch, number: int) -> Loss:
        assert self._fixed is not None and self._loss is not None
        for field in fields(Batch):
            if field.name not in _DECIDED:
                fixed = getattr(self._fixed, field.name)
                _fill(fixed, getattr(batch, field.name))
        self._seed(number)
        self._tools.batch = self._fixed
        self._graph.replay()
        # The next replay writes where these lie.
        loss = self._loss
        terms = {name: term.clone() for name, term in loss.terms.items()}
        return Loss(loss.total.clone(), terms)

    def _compare(self, batch: Batch, number: int) -> Loss:
        """An ordinary step, and the same one replayed; the graph is given up at the first bit that
        differs."""
        before = {name: value.clone() for name, value in self._all().items()}
        state = dict(self._tools.state)
        expected = self._ordinary(batch, number)
        after = {name: value.clone() for name, value in self._all().items()}
        self._tools.state = state
        with torch.no_grad():
            for name, value in self._all().items():
                value.copy_(before[name])
        replayed = self._replay(batch, number)
        same = torch.equal(replayed.total, expected.total.detach()) or bool(
            replayed.total.isnan() & expected.total.isnan()
        )
        same &= all(_same(value, after[name]) for name, value in self._all().items())
        self._compared += 1
        if not same:
            with torch.no_grad():
                for name, value in self._all().items():
                    value.copy_(after[name])
            self.why = "a replayed step differed from an ordinary one"
            self._graph = None
        return expected

    def _all(self) -> dict[str, Tensor]:
        return {**self._tools.weights(), **self._tools.gathered()}


@cache
def _stream(device: str) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _same(first: Tensor, second: Tensor) -> bool:
    if torch.equal(first, second):
        return True
    return first.is_floating_point() and bool(
        ((first == second) | (first.isnan() & second.isnan())).all()
    )


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, tuple):
        return tuple(_copied(member) for member in value)
    if isinstance(value, Pair):
        return Pair(*map(_copied, vars(value).values()))
    return value


def _fill(fixed: Any, value: Any) -> None:
    for fixed_tensor, new_tensor in _tensors(fixed, value):
        fixed_tensor.copy_(new_tensor)


def _tensors(fixed: Any, value: Any) -> Iterator[tuple[Tensor, Tensor]]:
    if isinstance(fixed, Tensor):
        yield fixed, value
    elif isinstance(fixed, tuple):
        for fixed_member, new_member in zip(fixed, value, strict=True):
            yield from _tensors(fixed_member, new_member)
    elif isinstance(fixed, Pair):
        yield from _tensors(tuple(vars(fixed).values()), tuple(vars(value).values()))
