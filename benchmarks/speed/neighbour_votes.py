"""The answers of models for pictures and for pictures near them, each picture made once for all
models.

For every row of a set, a transform draws so many neighbours with keys of their own. Row, number and
seed decide a neighbour, so the same ones come whatever the batches, the rows beside it and the
process. Memory is bounded by two batches, whatever the set's size. Estimators of accuracy read the
counts of labels (Ng et al. 2022, equation 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crosswind.core.errors import InputError
from crosswind.core.registry import load
from crosswind.core.seeds import seed_of
from crosswind.data.derive import training_keys
from crosswind.methods.base import Method, Modules, Output, State
from crosswind.models.build import normalised
from crosswind.training.batchnorm_folding import evaluated
from crosswind.training.loader import DTYPES, EvaluationRows
from crosswind.training.predicting import autocast, evaluation_mode
from crosswind.training.settings import TrainingSettings
from crosswind.transforms.base import Transform
from crosswind.transforms.neighbourhood import NEIGHBOURS, neighbourhood

Voter: TypeAlias = nn.Module | tuple[Method, Modules, State]
"""A module that gives logits [n, k], or a trained method with its modules and state."""


@dataclass(frozen=True)
class Said:
    """The answers of M models for n rows and their N neighbours.

    `labels` int64 [M, n, N + 1]: the row itself comes first; -1 where an answer could not be read.
    `logits` float32
    [M, n, N + 1, k] where they were asked for.
    """

    labels: NDArray[np.int64]
    logits: NDArray[np.float32] | None = None


def neighbour_labels(
    voters: Sequence[Voter],
    rows: EvaluationRows,
    transform: Transform,
    settings: TrainingSettings,
    *,
    neighbours: int = NEIGHBOURS,
    seed: int = 0,
    logits: bool = False,
) -> Said:
    """The answers of each of M models for every row of a set, in their order, and for `neighbours`
    pictures that `transform` makes of it.

    Neighbour j of a row is the same for every number of neighbours from j on. `logits` keeps them
    too, in memory for all pictures. Forward passes have `settings.evaluation_batch` pictures;
    weights are not changed. Raises `InputError` for no model, a negative number, a transform that
    does not take these images, or a method that gives labels only where logits are wanted.
    """
    if not voters:
        raise InputError("voters", "needs at least one model")
    if neighbours < 0:
        raise InputError("neighbours", f"must be 0 or more, not {neighbours}")
    methods = []
    for voter in voters:
        methods.append((Method(), {"model": voter}, {}) if isinstance(voter, nn.Module) else voter)
    n = len(rows.rows.rows)
    n_pictures = neighbours + 1
    if n == 0:
        if logits:
            raise InputError("rows", "there are none, so that logits have no width")
        return Said(np.zeros((len(methods), 0, n_pictures), dtype=np.int64))
    together = {}
    for number, (_, modules, _) in enumerate(methods):
        for name, module in modules.items():
            together[_name_of(number, name)] = module
    asking = _Asking(methods, rows, transform, settings, neighbours, seed, logits)
    with evaluation_mode(together.values()):
        labels, logits_of_models, order = evaluated(together, settings.precision, asking.ask)
        back = np.argsort(np.concatenate(order))
        all_labels = _stacked(labels, back, n_pictures).astype(np.int64)
        return Said(all_labels, _stacked(logits_of_models, back, n_pictures) if logits else None)


def _name_of(number: int, name: str) -> str:
    """The name of a module among those of all models."""
    return f"{number}/{name}"


def _stacked(
    tensors_of_models: Sequence[Sequence[Tensor]], back: NDArray[np.int64], n_pictures: int
) -> NDArray[Any]:
    """The batches of every model as one array, row by row: [M, n, N + 1, ...]."""
    arrays = [torch.cat(list(tensors)).cpu().numpy()[back] for tensors in tensors_of_models]
    stacked = np.stack(arrays)
    return stacked.reshape(len(arrays), -1, n_pictures, *stacked.shape[2:])


@dataclass(frozen=True)
class _Asking:
    """The questions to several models; `logits`: whether theirs are kept."""

    methods: Sequence[tuple[Method, Modules, State]]
    rows: EvaluationRows
    transform: Transform
    settings: TrainingSettings
    neighbours: int
    seed: int
    logits: bool

    def ask(
        self, built_modules: Modules
    ) -> tuple[list[list[Tensor]], list[list[Tensor]], list[NDArray[np.int64]]]:
        """Labels and logits of each model, batch by batch, and which pictures a batch has."""
        settings = self.settings
        modules_of_model = [
            {name: built_modules[_name_of(number, name)] for name in modules}
            for number, (_, modules, _) in enumerate(self.methods)
        ]
        labels, logits = ([list[Tensor]() for _ in self.methods] for _ in range(2))
        order = []
        for pictures, positions in _pictures(
            self.rows, self.transform, self.neighbours, self.seed, settings.evaluation_batch
        ):
            x = normalised(pictures, DTYPES[settings.precision], settings.channels_last)
            order.append(positions)
            for number, (method, _, state) in enumerate(self.methods):
                with autocast(settings):
                    output_of_model = method.predict(modules_of_model[number], x, state)
                labels[number].append(_label(output_of_model)[: len(positions)])
                if self.logits:
                    logits[number].append(_logits(output_of_model)[: len(positions)])
        return labels, logits, order


def label_counts(
    labels: NDArray[np.int64], n_classes: int, *, original: bool = True
) -> NDArray[np.int64]:
    """How many of a row's pictures are given each class: int64 [..., n, k] of labels [..., n, N +
    1] in [0, k); -1 counts nowhere.

    `original`: whether the picture itself is counted, as in the authors' code, or its neighbours
    only.
    """
    counted = labels if original else labels[..., 1:]
    flat = counted.reshape(-1, counted.shape[-1])
    if flat.size and int(flat.max()) >= n_classes:
        problem = f"label {int(flat.max())} is none of {n_classes} classes"
        raise ValueError(problem)
    # One place more, which takes what could not be read.
    first_codes = np.arange(len(flat))[:, None] * (n_classes + 1)
    flat_codes = first_codes + np.where(flat < 0, n_classes, flat)
    n_codes = len(flat) * (n_classes + 1)
    counts = np.bincount(flat_codes.ravel(), minlength=n_codes).reshape(len(flat), n_classes + 1)
    return counts[:, :n_classes].reshape(*labels.shape[:-1], n_classes).astype(np.int64)


def neighbour_transform(name: str, *, large: bool = False) -> Transform:
    """The transform of a neighbourhood of Ng et al. 2022, for small pictures or those of ImageNet's
    size. Raises `InputError`."""
    chosen = neighbourhood(name)
    transform: Transform = load("transforms", chosen.transform)(**chosen.knobs(large))
    return transform


def _pictures(
    rows: EvaluationRows, transform: Transform, neighbours: int, seed: int, size: int
) -> Iterator[tuple[Tensor, NDArray[np.int64]]]:
    """Batches of `size` pictures uint8, the last one filled up, and of which place among all [n x
    (N + 1)] each one before is."""
    n_pictures = neighbours + 1
    key = seed_of(seed, "neighbours")
    n = len(rows.rows.rows)
    pictures = torch.empty(0)
    whose = np.zeros(0, dtype=np.int64)
    for start in range(0, n, size):
        row_numbers = np.arange(start, min(start + size, n))
        itself = rows.images(row_numbers)
        ids = rows.dataset.row_ids(rows.rows.rows[row_numbers])
        for number in range(n_pictures):
            # Copy by copy, so that as many rows as a batch takes need not wait beside their
            # neighbours.
            if number == 0:
                changed = itself
            else:
                changed = transform(itself, training_keys(ids, number, key))
            if len(whose):
                pictures = torch.cat([pictures, changed])
            else:
                pictures = changed
            whose = np.concatenate([whose, row_numbers * n_pictures + number])
            if len(whose) >= size:
                yield pictures[:size], whose[:size]
                pictures = pictures[size:]
                whose = whose[size:]
    if len(whose):
        padding = pictures[-1:].expand(size - len(whose), -1, -1, -1)
        yield torch.cat([pictures, padding]), whose


def _label(model_output: Output) -> Tensor:
    if model_output.label is None and model_output.logits is None:
        raise ValueError("a method's Output needs logits or labels")
    if model_output.label is not None:
        label = model_output.label
    else:
        label = _logits(model_output).argmax(1)
    if model_output.parsed is None:
        return label
    return torch.where(model_output.parsed, label, -1)


def _logits(model_output: Output) -> Tensor:
    if model_output.logits is None:
        raise InputError("logits", "a method gives labels only")
    return model_output.logits.float()
