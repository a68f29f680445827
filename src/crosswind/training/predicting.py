"""The answers of a trained method for rows, in evaluation mode, changing nothing."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from torch import Tensor, nn

from crosswind.core.types import Predictions
from crosswind.methods.base import Method, Modules, Output, State, Unlabelled
from crosswind.shifts.split.classes import allowed
from crosswind.training.batchnorm_folding import evaluated
from crosswind.training.loader import EvaluationRows
from crosswind.training.selection import Score
from crosswind.training.settings import TrainingSettings


def autocast(settings: TrainingSettings) -> AbstractContextManager[object]:
    """The arithmetic that the settings name, for forward passes."""
    if settings.precision == "bf16":
        return torch.autocast(torch.device(settings.device).type, dtype=torch.bfloat16)
    return nullcontext()


@contextmanager
def evaluation_mode(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Every part in evaluation mode and nothing recorded; the mode of each part is then what it
    was."""
    submodules = [submodule for module in modules for submodule in module.modules()]
    modes = [submodule.training for submodule in submodules]
    for submodule in submodules:
        submodule.training = False
    try:
        with torch.inference_mode():
            yield
    finally:
        for submodule, mode in zip(submodules, modes, strict=True):
            submodule.training = mode


def outputs(
    method: Method,
    modules: Modules,
    state: State,
    rows: EvaluationRows,
    settings: TrainingSettings,
    places: np.ndarray | None,
) -> list[Output]:
    """The answers of the method for the rows at `places` (None: all), a batch an entry, on the
    run's device.

    Call in evaluation mode and under `autocast`.
    """

    def run(built_modules: Modules) -> list[Output]:
        return [
            _cut(method.predict(built_modules, x, state), n)
            for x, n in rows.batches(places, padded=True)
        ]

    return evaluated(modules, settings.precision, run)


def predict(
    method: Method, modules: Modules, state: State, rows: EvaluationRows, settings: TrainingSettings
) -> Predictions:
    """The answers of the method for every row, in the order of the rows; logits float32."""
    with evaluation_mode(modules.values()), autocast(settings):
        order = rows.by_length()
        model_outputs = outputs(method, modules, state, rows, settings, order)
    return _predictions(rows, model_outputs, order)


def predict_adapted(
    method: Method, modules: Modules, state: State, rows: EvaluationRows, settings: TrainingSettings
) -> Predictions:
    """The answers of the method after `adapt` has seen the inputs, without labels, of each value of
    its attribute in turn."""
    name = getattr(method, method.needs.adapts)
    model_outputs: list[Output] = []
    order = []
    for value, positions in _parts(rows, name):

        def batches(batch_positions: np.ndarray = positions) -> Iterator[Tensor]:
            for x, _ in rows.batches(batch_positions, padded=False):
                yield x

        data = Unlabelled(len(positions), batches, name, value)
        copies = {key: copy.deepcopy(module) for key, module in modules.items()}
        with evaluation_mode(copies.values()), autocast(settings):
            state_copy = {key: tensor.clone() for key, tensor in state.items()}
            adapted, adapted_state = method.adapt(copies, state_copy, data)
            with evaluation_mode(adapted.values()):
                model_outputs += outputs(method, adapted, adapted_state, rows, settings, positions)
        order.append(positions)
    return _predictions(rows, model_outputs, np.concatenate(order))


def score(predictions: Predictions) -> Score:
    """Accuracies over rows, of the worst group and over classes, and mean cross-entropy in nats
    (NaN without logits), in float64.

    A row of group -1 is in no group; where all are, the worst group's accuracy is that of all rows.
    """
    right = predictions.answer == predictions.label
    if len(predictions):
        accuracy = float(right.mean())
    else:
        accuracy = float("nan")
    groups = _means(predictions.group, right)
    classes = _means(predictions.label, right)
    worst_group = float(groups.min()) if len(groups) else accuracy
    balanced_accuracy = float(classes.mean()) if len(classes) else accuracy
    accuracies = {"worst_group": worst_group, "balanced_accuracy": balanced_accuracy}
    if predictions.logits is None:
        return Score(accuracy, float("nan"), **accuracies)
    logits = predictions.logits.astype(np.float64)
    with np.errstate(all="ignore"):
        shifted = logits - logits.max(axis=1, keepdims=True)
        own_logit = shifted[np.arange(len(logits)), predictions.label]
        losses = np.log(np.exp(shifted).sum(axis=1)) - own_logit
        return Score(accuracy, float(losses.mean()), **accuracies)


def _means(codes: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The share that is right of the rows of each code from 0 on that has any."""
    inside = codes >= 0
    rows = np.bincount(codes[inside])
    weights = right[inside]
    return (np.bincount(codes[inside], weights=weights)[rows > 0]) / rows[rows > 0]


def _parts(rows: EvaluationRows, attribute: str | None) -> list[tuple[str | None, np.ndarray]]:
    if attribute is None:
        return [(None, np.arange(len(rows.rows.rows)))]
    codes, names = rows.values_of(attribute)
    return [(names[code], np.flatnonzero(codes == code)) for code in np.unique(codes)]


def _cut(output: Output, n: int) -> Output:
    # Left on the device, which need not be waited for at every batch.
    return Output(
        *(
            None if tensor is None else tensor[:n]
            for tensor in (output.logits, output.label, output.parsed)
        )
    )


def _predictions(
    rows: EvaluationRows, model_outputs: list[Output], order: np.ndarray
) -> Predictions:
    logits, label, parsed = (
        _joined([getattr(model_output, name) for model_output in model_outputs])
        for name in ("logits", "label", "parsed")
    )
    if label is not None:
        answer = label.numpy().astype(np.int64)
    elif logits is not None:
        answer = logits.argmax(1).numpy().astype(np.int64)
    else:
        raise ValueError("a method's Output needs logits or labels")
    if parsed is not None:
        answer = np.where(parsed.numpy(), answer, -1)
    row_numbers = rows.rows.rows[order]
    ids = rows.dataset.row_ids(row_numbers)
    truth = rows.rows.label[order]
    group = rows.rows.group[order]
    back = np.argsort(order, kind="stable")
    ordered_logits = None
    if logits is not None:
        ordered_logits = logits.float().numpy()[back]
    answer, ordered_logits = allowed(rows.rows.answers_as, answer[back], ordered_logits)
    ids = ids[back].astype(np.int64)
    truth = truth[back].astype(np.int64)
    group = group[back].astype(np.int64)
    return Predictions(ids, truth, group, answer, ordered_logits)


def _joined(parts: list[Tensor | None]) -> Tensor | None:
    tensors = [tensor for tensor in parts if tensor is not None]
    if tensors:
        return torch.cat(tensors).cpu()
    return None
