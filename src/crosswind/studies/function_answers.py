"""A model that a program holds, such as a function: what it answers for every set of a split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, one_line, shown
from crosswind.core.types import Predictions
from crosswind.evaluation.metrics import scores
from crosswind.models.given.outside import asked
from crosswind.shifts.split import Split
from crosswind.shifts.split.classes import allowed

BATCH = 256
"""Inputs that a function is given at once."""
_SUM = 1e-3
"""How far the probabilities of a row may sum to something else than 1."""
_TAKEN = (
    "a trajectory of cw.train, a function from a batch of inputs to logits or labels, or an object"
    " with predict_proba or predict"
)
_MODULE = "lambda x: module(torch.from_numpy(x).permute(0, 3, 1, 2) / 255)"

Answering = Callable[[Any], Any]


def answering_function(model: Any, class_names: Sequence[str]) -> Answering:
    """The function by which `model` answers: itself, or its `predict_proba` or `predict`, as
    classifiers of scikit-learn have.

    Of an object with `classes_` the outputs are put in the order of `class_names`. Raises
    `InputError` for anything else, and for a module of torch, which takes tensors of a shape that
    only its author knows.
    """
    if isinstance(model, type):
        raise InputError("model", f"must be {_TAKEN}, not the class {model.__name__} itself")
    for name in ("predict_proba", "predict"):
        if callable(getattr(model, name, None)):
            return _in_order(getattr(model, name), getattr(model, "classes_", None), class_names)
    if hasattr(model, "state_dict"):
        raise InputError(
            "model",
            "is a module of torch, and inputs come as arrays; give a function that prepares them:"
            f" {_MODULE}",
        )
    if not callable(model):
        raise InputError("model", f"must be {_TAKEN}, not {type(model).__name__}")
    answering: Answering = model
    return answering


def _in_order(method: Answering, classes: Any, class_names: Sequence[str]) -> Answering:
    """The method of an object that knows its classes, answering by those of the split."""
    if classes is None:
        return method
    names = [str(name) for name in np.asarray(classes).tolist()]
    if names == [str(code) for code in range(len(class_names))] and set(names) != set(class_names):
        return method  # trained on the numbers of the classes
    if set(names) != set(class_names):
        class_list = ", ".join(class_names[:20])
        raise InputError(
            "model", f"has the classes {shown(names)} (classes_), and the split has {class_list}"
        )
    order = [names.index(name) for name in class_names]

    def answer(x: Any) -> Any:
        answers = np.asarray(method(x))
        return answers[:, order] if answers.ndim == 2 else answers.astype(str)

    return answer


def scores_by_set(model: Any, split: Split, rule: str) -> dict[str, dict[str, Any]]:
    """See `crosswind.evaluate`: the scores of a trajectory under a rule, or of a model that a
    program holds."""
    if not isinstance(split, Split):
        raise InputError("split", f"must be what cw.split returns, not {type(split).__name__}")
    if hasattr(model, "selections"):
        if rule not in model.predictions:
            raise InputError(
                "rule", f"this trajectory has no selection {rule!r}", model.predictions
            )
        by_set: Mapping[str, Predictions] = model.predictions[rule]
    else:
        by_set = answers_by_set(model, split)
    scored = {}
    for name, predictions in by_set.items():
        rows = split.validation[name] if name in split.validation else split.evaluation[name]
        scored[name] = scores(predictions, rows.group_names, split.class_names)
    return scored


def answers_by_set(model: Any, split: Split) -> dict[str, Predictions]:
    """The predictions of `model` for every validation and evaluation set, by name.

    It is given images as a numpy array uint8 [n, h, w, c], features as float32 [n, width], or texts
    as a list of n strings, and returns logits or probabilities [n, k] in the order of the split's
    classes, or labels [n] by number or by name. Raises `InputError`, and `DataError` for answers of
    another shape.
    """
    function = answering_function(model, split.class_names)
    name = getattr(model, "__name__", type(model).__name__)

    def ask(x: Any) -> Any:
        try:
            answers = function(x.tolist() if x.dtype == object else x)
            return answers if hasattr(answers, "detach") else np.asarray(answers)
        except Exception as error:  # whatever the code of somebody else does
            reason = f"{type(error).__name__}: {one_line(str(error), 200)}"
            raise DataError(f"{name} fails on inputs {x.dtype} {x.shape} ({reason})") from error

    predictions = {}
    for set_name, rows in {**split.validation, **split.evaluation}.items():
        dataset = split.parts[set_name].dataset
        answer, logits = asked(ask, rows, dataset, split.class_names, BATCH, name)[:2]
        if logits is not None and not np.isfinite(logits).all():
            raise DataError(f"{name} gives scores for {set_name} that are no finite numbers")
        answer, logits = allowed(rows.answers_as, answer, _as_logits(logits))
        predictions[set_name] = Predictions(
            dataset.row_ids(rows.rows), rows.label, rows.group, answer, logits
        )
    return predictions


def _as_logits(scores: NDArray[np.float32] | None) -> NDArray[np.float32] | None:
    """Probabilities as their logarithms, so that confidences are those that the model gives; other
    scores as they are."""
    if scores is None or (scores < 0).any() or (np.abs(scores.sum(axis=1) - 1) > _SUM).any():
        return scores
    return np.log(np.maximum(scores, np.finfo(np.float32).tiny))
