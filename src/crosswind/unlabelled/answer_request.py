"""The way that a request for estimates takes: by tables of scores, by a classifier on frames, or by
a model on rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from crosswind.core.errors import InputError
from crosswind.data.dataset import AttributedDataset
from crosswind.data.tabular import KINDS
from crosswind.unlabelled.answer import Estimates
from crosswind.unlabelled.estimate import ask
from crosswind.unlabelled.frames import ask_frames
from crosswind.unlabelled.held_rows import with_data_sets
from crosswind.unlabelled.model_under_test import estimator_of_word
from crosswind.unlabelled.number_tables import is_frame, label_beside
from crosswind.unlabelled.request import EstimateRequest
from crosswind.unlabelled.score_table_estimate import ask_table
from crosswind.unlabelled.score_tables import tables_of_arrays
from crosswind.unlabelled.unread_options import SCORES, refuse_unread


def answer_request(request: EstimateRequest) -> Estimates:
    """The estimates of a request; see `crosswind.estimate`. Raises `InputError` and `DataError`."""
    if request.predictions is not None:
        return _of_scores(request)
    for field, value in (("model", request.model), ("data", request.data)):
        if value is None:
            raise InputError(field, "is needed, or a table of predictions")
    is_named = isinstance(request.model, str | Path)
    request = with_data_sets(request)
    fitted = _fitted_on_a_frame(request)
    if fitted is not None:
        title = Path(request.model).name if is_named else type(fitted).__name__
        return ask_frames(replace(request, model=fitted), title)
    if is_named:
        return ask(replace(request, model=str(request.model)))
    if is_frame(request.data):
        return ask_frames(request, type(request.model).__name__)
    estimates = ask(request)
    return replace(estimates, notes=(*estimates.notes, *_of_training_rows(request)))


def _of_training_rows(request: EstimateRequest) -> list[str]:
    """A sentence on each data set that holds rows that the model was trained on, as far as the
    model knows them."""
    n_trained_on = getattr(request.model, "n_trained_on", None)
    sentences = []
    for field, dataset in (("labelled rows", request.source), ("rows of data", request.data)):
        if n_trained_on is None or not isinstance(dataset, AttributedDataset):
            continue
        n_trained = n_trained_on(dataset, np.arange(dataset.n_base))
        if n_trained:
            sentences.append(
                f"The model was trained on {n_trained:,} of the {dataset.n_base:,} {field}, on which"
                " it is right more often than on new ones: estimates may be too high."
            )
    return sentences


def _fitted_on_a_frame(request: EstimateRequest) -> Any:
    """The estimator that is asked, where it knows the columns of the frame that it was fitted on and
    is asked about a table; else None."""
    data = request.data
    is_file = isinstance(data, str | Path) and Path(data).suffix.lower() in KINDS
    if not is_file and not is_frame(data):
        return None
    estimator = request.model
    if isinstance(estimator, str | Path):
        estimator = estimator_of_word(str(estimator), request.settings or {})
    return estimator if hasattr(estimator, "feature_names_in_") else None


def _of_scores(request: EstimateRequest) -> Estimates:
    """By a table of scores, in the place of models and data."""
    if request.model is not None or request.data is not None or request.beside:
        raise InputError("predictions", "stands in the place of models and data; leave them out")
    if isinstance(request.source, AttributedDataset):
        raise InputError(
            "source", "must be a table of scores with a column of labels, as predictions is one"
        )
    refuse_unread(request, SCORES)
    predictions, source, label, classes = (
        request.predictions,
        request.source,
        request.label,
        request.classes,
    )
    if hasattr(predictions, "detach"):  # a tensor
        predictions = predictions.detach().cpu().numpy()
    if isinstance(predictions, np.ndarray) and not predictions.dtype.names:
        if label is not None:
            problem = (
                "names a column, and an array has none; its labels stand in the pair of source"
            )
            raise InputError("label", f"{problem}; leave it out")
        predictions, source, names = tables_of_arrays(predictions, source, classes)
        label = label_beside(names)
    return ask_table(predictions, source, label, request.estimators, classes)
