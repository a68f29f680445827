"""How an object of a program answers: a function, or an estimator with `predict_proba` or `predict`
and classes of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from crosswind.core.errors import InputError, shown

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
        if answers.ndim == 2:
            return answers[:, order]
        return answers.astype(str)

    return answer
