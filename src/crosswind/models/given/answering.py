"""How an object of a program answers: a function, or an estimator with `predict_proba` or `predict`
and classes of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, shown
from crosswind.core.types import InputColumn
from crosswind.models.given.class_labels import class_order

_TAKEN = (
    "a trajectory of cw.train, a function from a batch of inputs to logits or labels, or an object"
    " with predict_proba or predict"
)
_ON_PICTURES = "lambda x: module(torch.from_numpy(x).permute(0, 3, 1, 2) / 255)"
_ON_NUMBERS = "lambda x: module(torch.from_numpy(x).float())"
_NO_CLASSIFIERS = {
    "regressor": "a regressor, which gives numbers",
    "clusterer": "a clusterer, whose numbers are no classes",
    "outlier_detector": "a detector of outliers, whose -1 and 1 are no classes",
}
"""What estimators of scikit-learn are by their tags, and are no classifiers."""

Answering = Callable[[Any], Any]


_OF_A_FILE = (
    "; cw.load_model reads a file of weights or a kept run, cw.estimate and the models of a study"
    " read ONNX files too"
)


def answering_function(
    model: Any, class_names: Sequence[str], columns: Sequence[InputColumn] = ()
) -> Answering:
    """The function by which `model` answers: itself, or its `predict_proba` or `predict`, as
    classifiers of scikit-learn have.

    Of an object with `classes_` the outputs are put in the order of `class_names`. One that was
    fitted on a frame is given a frame again, with its own columns in their order (`feature_names_in_`),
    where the inputs are `columns` of a table; any other takes the inputs as they are. Raises
    `InputError` for anything else, and for a module of torch, which takes tensors of a shape that
    only its author knows.
    """
    if isinstance(model, type):
        raise InputError("model", f"must be {_TAKEN}, not the class {model.__name__} itself")
    refuse_no_classifier(model)
    for name in ("predict_proba", "predict"):
        if callable(getattr(model, name, None)):
            answering = _on_its_columns(model, getattr(model, name), columns)
            return _in_order(answering, getattr(model, "classes_", None), class_names)
    refuse_module(model)
    if not callable(model):
        remedy = _OF_A_FILE if isinstance(model, str | Path) else ""
        raise InputError("model", f"must be {_TAKEN}, not {type(model).__name__}{remedy}")
    function: Answering = model
    return function


def refuse_module(model: Any) -> None:
    """Refuse a module of torch, which takes tensors. Raises `InputError`."""
    if hasattr(model, "state_dict") and hasattr(model, "forward"):
        raise InputError(
            "model",
            "is a module of torch, and inputs come as arrays; give a function that prepares them:"
            f" {_ON_NUMBERS} for numbers, {_ON_PICTURES} for pictures",
        )


def refuse_no_classifier(model: Any) -> None:
    """Refuse an estimator that says of itself that it is none of classes. Raises `InputError`."""
    try:
        kind = getattr(model.__sklearn_tags__(), "estimator_type", None)
    except Exception:  # of a version or an object without tags
        kind = getattr(model, "_estimator_type", None)
    if isinstance(kind, str) and kind in _NO_CLASSIFIERS:
        problem = (
            f"is {_NO_CLASSIFIERS[kind]}; give a classifier, or a function that returns classes by"
            " their names"
        )
        raise InputError("model", problem)


def check_columns(model: Any, columns: Sequence[InputColumn]) -> None:
    """Refuse columns of a table that lack one by whose name an estimator was fitted. Raises
    `InputError`."""
    column_names = [column.name for column in columns]
    fitted_names = getattr(model, "feature_names_in_", ())
    absent_names = [repr(str(name)) for name in fitted_names if str(name) not in column_names]
    if absent_names:
        raise InputError(
            "model",
            f"{type(model).__name__} reads {', '.join(absent_names[:8])}, and the inputs of these data"
            f" are the columns {', '.join(column_names[:20])}",
        )


def _on_its_columns(model: Any, method: Answering, columns: Sequence[InputColumn]) -> Answering:
    """The method of an estimator that was fitted on a frame, from inputs float32 [n, width] of
    `columns`. Raises `InputError` for a column that it reads and that is none of these."""
    fitted_names = getattr(model, "feature_names_in_", None)
    if fitted_names is None or not columns:
        return method
    check_columns(model, columns)
    names = [str(name) for name in fitted_names]

    def answer(x: NDArray[Any]) -> Any:
        cells = _cells(x, columns)
        return method(_frame({name: cells[name] for name in names}))

    return answer


def _cells(x: NDArray[Any], columns: Sequence[InputColumn]) -> dict[str, NDArray[Any]]:
    """The columns of a table that inputs were made of: numbers float64 [n], and of a category its
    values, None where a row has none of them."""
    cells: dict[str, NDArray[Any]] = {}
    first = 0
    for column in columns:
        inputs = x[:, first : first + column.width]
        first += column.width
        if column.values is None:
            cells[column.name] = _in_decimals(inputs[:, 0])
            continue
        values = np.array([*column.values, None], dtype=object)
        codes = inputs[:, 0].astype(np.int64) if column.coded else inputs.argmax(axis=1)
        absent = np.zeros(len(x), dtype=bool) if column.coded else inputs.max(axis=1) <= 0
        cells[column.name] = values[np.where(absent, len(column.values), codes)]
    return cells


def _in_decimals(numbers: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers of single precision as the shortest decimals that mean them: a table's 0.1 is 0.1
    again, and compares with the threshold of an estimator as it did in fitting."""
    distinct, positions = np.unique(numbers.astype(np.float32), return_inverse=True)
    in_full: NDArray[np.float64] = distinct.astype(str).astype(np.float64)
    return in_full[positions.reshape(-1)]


def _frame(cells: Mapping[str, NDArray[Any]]) -> Any:
    """A frame of pandas where that is installed, which most estimators are fitted on, else of
    polars."""
    try:
        from pandas import DataFrame
    except ImportError:
        import polars

        return polars.DataFrame({name: values.tolist() for name, values in cells.items()})
    return DataFrame(dict(cells))


def _in_order(method: Answering, classes: Any, class_names: Sequence[str]) -> Answering:
    """The method of an object that knows its classes, answering by those of the split."""
    if classes is None:
        return method
    words = np.asarray(classes).tolist()
    order = class_order(words, class_names)
    by_place = order is None and words == list(range(len(class_names)))
    if order is None and not by_place:
        class_list = ", ".join(class_names[:20])
        raise InputError(
            "model",
            f"has the classes {shown(list(map(str, words)))} (classes_), and the split has {class_list}",
        )

    def answer(x: Any) -> Any:
        answers = np.asarray(method(x))
        if answers.ndim == 2:
            return answers if order is None else answers[:, order]
        # By name: whole numbers could be names or places.
        return np.array(class_names)[answers.astype(np.int64)] if by_place else answers.astype(str)

    return answer
