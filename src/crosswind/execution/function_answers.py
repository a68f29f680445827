"""A model that a program holds, such as a function: what it answers for every set of a split."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from crosswind.core.errors import DataError, InputError, one_line, shown
from crosswind.core.types import Predictions
from crosswind.evaluation.metrics import scores
from crosswind.execution.output_order import order_doubt
from crosswind.models.given.answering import Answering, answering_function
from crosswind.models.given.outside import asked
from crosswind.shifts.split import Split
from crosswind.shifts.split.classes import allowed

BATCH = 256
"""Inputs that a function is given at once."""
_AS_NUMBERS = "cw.evaluate(lambda x: model.predict_proba(x.reshape(len(x), -1)), split)"
USUAL_RULE = "best-id"
"""The selection rule of `crosswind.evaluate` where none is named."""


def scores_by_set(model: Any, split: Split, rule: str) -> dict[str, dict[str, Any]]:
    """See `crosswind.evaluate`: the scores of a trajectory under a rule, or of a model that a
    program holds."""
    if not isinstance(split, Split):
        raise InputError("split", f"must be what cw.split returns, not {type(split).__name__}")
    trained_on = getattr(model, "split", None)
    if isinstance(trained_on, Split) and trained_on is not split:
        # A model that was trained on another split is asked anew about the rows of this one.
        by_other_split: dict[str, dict[str, Any]] = model.evaluate(split, rule)
        return by_other_split
    if hasattr(model, "in_its_columns"):
        split = model.in_its_columns(split)
    if hasattr(model, "selections"):
        if rule not in model.predictions:
            raise InputError(
                "rule", f"this trajectory has no selection {rule!r}", model.predictions
            )
        by_set: Mapping[str, Predictions] = model.predictions[rule]
    elif rule != USUAL_RULE:
        problem = f"is {shown(rule)}, and a model that is no trajectory has no rule; leave it out"
        raise InputError("rule", problem)
    else:
        by_set = answers_by_set(model, split)
    scored = {}
    for name, predictions in by_set.items():
        if name in split.validation:
            rows = split.validation[name]
        else:
            rows = split.evaluation[name]
        scored[name] = scores(predictions, rows.group_names, split.class_names)
    return scored


def answers_by_set(model: Any, split: Split) -> dict[str, Predictions]:
    """The predictions of `model` for every validation and evaluation set, by name.

    It is given images as a numpy array uint8 [n, h, w, c], features as float32 [n, width], or texts
    as a list of n strings. It returns logits or probabilities [n, k] in the order of the split's
    classes, or labels [n] by number or by name. Raises `InputError`, and `DataError` for answers of
    another shape.
    """
    name = getattr(model, "__name__", type(model).__name__)
    predictions = {}
    for set_name, rows in {**split.validation, **split.evaluation}.items():
        dataset = split.parts[set_name].dataset
        function = answering_function(model, split.class_names, dataset.input_columns)
        ask = _refusing_failures(function, name, hasattr(model, "fit"))
        answer, logits = asked(ask, rows, dataset, split.class_names, BATCH, name)[:2]
        if logits is not None and not np.isfinite(logits).all():
            raise DataError(f"{name} gives scores for {set_name} that are no finite numbers")
        answer, logits = allowed(rows.answers_as, answer, logits)
        ids = dataset.row_ids(rows.rows)
        predictions[set_name] = Predictions(ids, rows.label, rows.group, answer, logits)
        doubt = ""
        if set_name in split.validation:
            doubt = order_doubt(name, split.class_names, predictions[set_name], set_name)
        if doubt:
            warnings.warn(f"{doubt}; its scores are those of the first", stacklevel=4)
    return predictions


def _refusing_failures(function: Answering, name: str, is_estimator: bool) -> Answering:
    """The function on arrays, of which whatever it raises is a `DataError` that names it."""

    def ask(x: Any) -> Any:
        remedy = ""
        if is_estimator and x.ndim == 4:
            remedy = f"; of pictures as rows of numbers: {_AS_NUMBERS}"
        try:
            return function(x.tolist() if x.dtype == object else x)
        except Exception as error:  # whatever the code of somebody else does
            reason = f"{type(error).__name__}: {one_line(str(error), 200)}"
            problem = f"{name} fails on inputs {x.dtype} {x.shape} ({reason}){remedy}"
            raise DataError(problem) from error

    return ask
