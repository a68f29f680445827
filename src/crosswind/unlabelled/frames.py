"""A classifier of a program, such as a fitted estimator of scikit-learn, asked for its accuracy on
frames and arrays that nobody labelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, one_line, shown, unknown
from crosswind.data.tabular import frame_of
from crosswind.unlabelled.answer import Estimates
from crosswind.unlabelled.request import EstimateRequest
from crosswind.unlabelled.score_table_estimate import ask_table

_LABEL = "label"
_FORMS = "a frame with a column of labels, or a pair of inputs and labels"


def is_frame(rows: Any) -> bool:
    """Whether rows are a frame, a mapping or an array, which a model of a program takes as they
    stand."""
    room = type(rows).__module__.partition(".")[0]
    return room in ("polars", "pandas", "pyarrow", "numpy", "scipy") or isinstance(rows, dict)


def ask_frames(request: EstimateRequest) -> Estimates:
    """The estimates of a classifier on a frame or an array of new rows.

    `source` of the request: labelled rows, a frame with the column `label`, or a pair of inputs and labels. The
    classifier is given what it was fitted on: frames and arrays as they stand, without the column
    of labels. Raises `InputError`, `DataError`.
    """
    names = _class_names(request.model, request.classes)
    inputs = _without(request.data, request.label)
    predictions = _scores(request.model, inputs, names, "data")
    if request.source is None:
        return ask_table(predictions, None, None, request.estimators, names)
    labelled_inputs, labels = _inputs_and_labels(request.source, request.label)
    source_table: dict[str, Any] = _scores(request.model, labelled_inputs, names, "source")
    source_table = {**source_table, _LABEL: [str(value) for value in labels]}
    return ask_table(predictions, source_table, _LABEL, request.estimators, names)


def _class_names(model: Any, classes: Sequence[str] | None) -> list[str]:
    """The classes in the order of the outputs: those that are given, or the classifier's own."""
    if classes is not None:
        return [str(name) for name in classes]
    fitted_classes = getattr(model, "classes_", None)
    if fitted_classes is None:
        raise InputError(
            "classes", "are needed, in the order of the outputs: the model has no classes_"
        )
    return [str(name) for name in np.asarray(fitted_classes).tolist()]


def _inputs_and_labels(source: Any, label: str | None) -> tuple[Any, list[Any]]:
    """The inputs of labelled rows, and their labels."""
    if isinstance(source, tuple) and len(source) == 2:
        inputs, labels = source
        return inputs, list(np.asarray(labels).tolist())
    if not is_frame(source) or type(source).__module__.startswith("numpy"):
        raise InputError("source", f"must be {_FORMS}, not {shown(source)}")
    frame = frame_of(source, "source")
    if label is None:
        raise InputError("label", "is needed: the column of the source's labels", frame.columns)
    if label not in frame.columns:
        raise unknown("label", "column of the source", label, frame.columns)
    return _without(source, label), frame[label].to_list()


def _without(rows: Any, label: str | None) -> Any:
    """A frame without its column of labels, if it has that; anything else as it is."""
    room = type(rows).__module__.partition(".")[0]
    if (
        label is None
        or room in ("numpy", "scipy")
        or label not in list(getattr(rows, "columns", rows))
    ):
        return rows
    if room == "pandas":
        return rows.drop(columns=[label])
    if room in ("polars", "pyarrow"):
        if room == "polars":
            return rows.select([column for column in rows if column.name != label])
        return rows.drop_columns([label])
    return {name: values for name, values in rows.items() if name != label}


def _scores(model: Any, inputs: Any, names: Sequence[str], field: str) -> dict[str, NDArray[Any]]:
    """The probability of each class as columns. Raises `DataError` for what the model cannot do."""
    answering = getattr(model, "predict_proba", None) or (model if callable(model) else None)
    if answering is None:
        raise InputError("model", "has no predict_proba: estimates of a frame need probabilities")
    try:
        scores = np.asarray(answering(inputs), dtype=np.float64)
    except Exception as error:  # whatever the code of somebody else does
        reason = f"{type(error).__name__}: {one_line(str(error), 200)}"
        raise DataError(f"{type(model).__name__} fails on {field} ({reason})") from error
    if scores.ndim != 2 or scores.shape[1] != len(names):
        listed_names = ", ".join(names[:10])
        problem = (
            f"{type(model).__name__} answers {field} by scores of shape {list(scores.shape)}, and"
            f" there are {len(names)} classes ({listed_names})"
        )
        raise DataError(problem)
    return {name: scores[:, code] for code, name in enumerate(names)}
