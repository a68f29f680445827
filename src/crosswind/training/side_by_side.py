"""The batches of many runs, step by step, stacked: [N, batch, ...], each run's exactly those of `TrainingRows` for it alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.errors import DataError
from crosswind.core.types import Predictions
from crosswind.data.dataset import AttributedDataset
from crosswind.data.resident import ResidentRows
from crosswind.methods.base import Batch, Method
from crosswind.training.loader import DTYPES, EvaluationRows, TrainingRows, normalised
from crosswind.training.orders import Order, row_weights
from crosswind.training.settings import TrainingSettings
from crosswind.training.stacked import Inputs, Stack

if TYPE_CHECKING:
    from crosswind.shifts.split import RowSet, Split

__all__ = ["EvaluationSets", "OwnRows", "SharedRows", "feed_of"]

_AT_ONCE = 32  # networks that predict rows of their own at once: their inputs are in memory together
_AHEAD = 64  # steps whose rows are chosen at once
_FLOATS = 2**25  # values of inputs that are held as floats; more of them stay bytes until a batch is made


class OwnRows:
    """Every run with training rows of its own: whatever derived attributes, views and samplers there are."""

    def __init__(
        self, method: Method, runs: Sequence[tuple[Split, int]], images: Mapping[str, AttributedDataset], settings: TrainingSettings
    ) -> None:
        self._rows = [
            TrainingRows(split.train, images[split.train.source], settings, seed, method.needs.sampler, method.views())
            for split, seed in runs
        ]

    def keep(self, places: Sequence[int]) -> None:
        """Go on with the runs at these places."""
        self._rows = [self._rows[place] for place in places]

    def batch(self, step: int, length: int) -> Batch:
        """One batch whose tensors are stacked; its plain numbers are those of the first run."""
        found = [rows.batch(step, length) for rows in self._rows]
        first = found[0]
        environment = (
            None if first.environment is None else torch.stack([b.environment for b in found if b.environment is not None])
        )
        return Batch(
            torch.stack([b.x for b in found]),
            torch.stack([b.y for b in found]),
            torch.stack([b.ids for b in found]),
            torch.stack([b.group for b in found]),
            environment,
            views=tuple(torch.stack(views) for views in zip(*(b.views for b in found), strict=True)),
            step=step,
            epoch=first.epoch,
            progress=first.progress,
            stage=first.stage,
            steps=length,
        )


class SharedRows:
    """Runs whose training rows are plain pictures of one source: each picture is held once, and one gather makes a step's batches.

    `labels_only`: `ids`, `group` and `environment` of a batch are left empty, for a loss that reads none of them. `size`: bytes of
    one run's inputs at a step.
    """

    def __init__(
        self,
        method: Method,
        runs: Sequence[tuple[Split, int]],
        images: Mapping[str, AttributedDataset],
        settings: TrainingSettings,
        *,
        labels_only: bool,
    ) -> None:
        rows = [split.train for split, _ in runs]
        for one in rows:
            if not np.asarray(one.weight).sum() > 0:
                raise DataError("every training row has weight 0" if len(one.rows) else "the training set has no rows")
        distinct, place = np.unique(np.concatenate([one.rows for one in rows]), return_inverse=True)
        # Rendered once for all that train on the source in this process, as those of `TrainingRows` are.
        held = ResidentRows(images[rows[0].source], distinct, evaluation=False)
        held.bring()
        pixels = torch.from_numpy(held.take(np.arange(len(distinct)))).to(settings.device)
        self._dtype, self._channels_last = DTYPES[settings.precision], settings.channels_last
        if pixels.numel() <= _FLOATS:
            pixels = normalised(pixels.permute(0, 3, 1, 2), self._dtype, True).permute(0, 2, 3, 1)
        self._pixels, self._batch = pixels, settings.batch
        self.size = settings.batch * pixels[0].numel() * torch.empty(0, dtype=self._dtype).element_size()
        ends = np.cumsum([len(one.rows) for one in rows])
        self._orders, self._columns = [], []
        for (split, seed), where in zip(runs, np.split(place, ends[:-1]), strict=True):
            one = split.train
            weights = row_weights(one.weight, one.group, method.needs.sampler)
            self._orders.append(Order(np.arange(len(one.rows)), weights, seed, "order", "main"))
            own = {"place": where, "y": one.label}
            if not labels_only:
                own |= {"ids": np.arange(len(one.rows)), "group": one.group}
                own |= {} if one.environment is None else {"environment": one.environment}
            self._columns.append(own)
        self._block: dict[str, Tensor] = {}

    def keep(self, places: Sequence[int]) -> None:
        """Go on with the runs at these places."""
        self._orders, self._columns = [self._orders[place] for place in places], [self._columns[place] for place in places]
        self._block = {name: found[:, list(places)] for name, found in self._block.items()}

    def batch(self, step: int, length: int) -> Batch:
        """See `OwnRows.batch`; steps must be asked for in order from 0."""
        if step % _AHEAD == 0:
            self._make(step, min(_AHEAD, length - step))
        found = {name: block[step % _AHEAD] for name, block in self._block.items()}
        none = torch.empty(0, dtype=torch.int64)
        return Batch(
            self._inputs(found["place"]),
            found["y"],
            found.get("ids", none),
            found.get("group", none),
            found.get("environment"),
            step=step,
            epoch=step * self._batch // self._orders[0].size,
            progress=step / max(length, 1),
            steps=length,
        )

    def given(self, step: int, length: int) -> Callable[[int, int], Inputs]:
        """Inputs and labels of a part of the runs at a step; steps must be asked for in order from 0."""
        if step % _AHEAD == 0:
            self._make(step, min(_AHEAD, length - step))
        place, y = (self._block[name][step % _AHEAD] for name in ("place", "y"))
        return lambda first, last: (self._inputs(place[first:last]), y[first:last], None)

    def _inputs(self, place: Tensor) -> Tensor:
        x = self._pixels.index_select(0, place.reshape(-1)).permute(0, 3, 1, 2)
        if x.dtype != self._dtype:
            x = normalised(x, self._dtype, self._channels_last)
        return x.view(*place.shape, *x.shape[1:])

    def _make(self, step: int, many: int) -> None:
        block = {name: np.empty((many, len(self._orders), self._batch), dtype=np.int64) for name in self._columns[0]}
        for run, (order, own) in enumerate(zip(self._orders, self._columns, strict=True)):
            taken = order.take(step * self._batch, many * self._batch)
            for name, column in own.items():
                block[name][:, run] = column[taken].reshape(many, self._batch)
        self._block = {name: torch.from_numpy(found).to(self._pixels.device) for name, found in block.items()}


def feed_of(
    method: Method,
    runs: Sequence[tuple[Split, int]],
    images: Mapping[str, AttributedDataset],
    settings: TrainingSettings,
    *,
    labels_only: bool,
) -> OwnRows | SharedRows:
    """The quicker way to make the batches of these runs; both give the same."""
    rows = [split.train for split, _ in runs]
    source = images[rows[0].source]
    plain = all(one.source == rows[0].source and one.visit_law is None for one in rows) and source.derived is None
    drawn = method.needs.sampler == "per-environment" and any(one.environment is not None for one in rows)
    if plain and not drawn and method.views() == (None,):
        return SharedRows(method, runs, images, settings, labels_only=labels_only)
    return OwnRows(method, runs, images, settings)


class EvaluationSets:
    """One named set of every run. Its inputs are read once for all where the runs have the same rows there."""

    def __init__(
        self, rows: Sequence[RowSet], images: Mapping[str, AttributedDataset], settings: TrainingSettings, *, resident: bool
    ) -> None:
        first = rows[0]
        self._same = all(
            one is first
            or (one.source == first.source and one.visit_law is first.visit_law is None and np.array_equal(one.rows, first.rows))
            for one in rows
        )
        self._rows = rows
        read = rows[:1] if self._same else rows
        self._inputs = [EvaluationRows(one, images[one.source], settings, resident=resident) for one in read]
        self._ids = [images[one.source].row_ids(one.rows).astype(np.int64) for one in read]

    def predictions(self, stack: Stack, runs: Sequence[int]) -> list[Predictions]:
        """What the n-th network of the stack says of the set of run `runs[n]`."""
        if self._same:
            batches = self._inputs[0].batches(padded=True)
            parts = [_said(stack.logits(x[None])[:, :n]) for x, n in batches]
            logits, answer = (torch.cat(found, 1).numpy() for found in zip(*parts, strict=True))
            return [self._of(run, logits[place], answer[place]) for place, run in enumerate(runs)]
        found = []
        for start in range(0, len(runs), _AT_ONCE):
            chosen = runs[start : start + _AT_ONCE]
            found += self._own(stack.part(range(start, start + len(chosen))), chosen)
        return found

    def _own(self, stack: Stack, runs: Sequence[int]) -> list[Predictions]:
        said: list[list[tuple[Tensor, Tensor]]] = [[] for _ in runs]
        for given in itertools.zip_longest(*(self._inputs[run].batches(padded=True) for run in runs)):
            some = next(one[0] for one in given if one is not None)
            x = torch.stack([torch.zeros_like(some) if one is None else one[0] for one in given])
            logits, answer = _said(stack.logits(x))
            for place, one in enumerate(given):
                if one is not None:
                    said[place].append((logits[place, : one[1]], answer[place, : one[1]]))
        parts = [[torch.cat(found).numpy() for found in zip(*own, strict=True)] for own in said]
        return [self._of(run, *own) for run, own in zip(runs, parts, strict=True)]

    def _of(self, run: int, logits: NDArray[np.float32], answer: NDArray[np.int64]) -> Predictions:
        rows = self._rows[run]
        ids = self._ids[0 if self._same else run]
        return Predictions(ids, rows.label.astype(np.int64), rows.group.astype(np.int64), answer, np.ascontiguousarray(logits))


def _said(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Logits as they are kept, float32 on the CPU, and the answers, which the unrounded ones decide."""
    return logits.float().cpu(), logits.argmax(2).cpu()
