"""The way that a request for estimates takes: by tables of scores, by a classifier on frames, or by
a model on rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from crosswind.core.errors import InputError
from crosswind.data.dataset import AttributedDataset
from crosswind.unlabelled.answer import Estimates
from crosswind.unlabelled.estimate import ask
from crosswind.unlabelled.frames import ask_frames, is_frame
from crosswind.unlabelled.request import EstimateRequest
from crosswind.unlabelled.score_table_estimate import ask_table


def answer_request(request: EstimateRequest) -> Estimates:
    """The estimates of a request; see `crosswind.estimate`. Raises `InputError` and `DataError`."""
    if request.predictions is not None:
        return _of_scores(request)
    for field, value in (("model", request.model), ("data", request.data)):
        if value is None:
            raise InputError(field, "is needed, or a table of predictions")
    is_named = isinstance(request.model, str | Path)
    if not is_frame(request.data):
        return ask(replace(request, model=str(request.model)) if is_named else request)
    if is_named:
        raise InputError(
            "data",
            "is a frame, which only a model of this program can be given; name a table's file, or"
            " make a data set of it (cw.from_frame)",
        )
    return ask_frames(request)


def _of_scores(request: EstimateRequest) -> Estimates:
    """By a table of scores, in the place of models and data."""
    if request.model is not None or request.data is not None or request.beside:
        raise InputError("predictions", "stands in the place of models and data; leave them out")
    if isinstance(request.source, AttributedDataset):
        raise InputError(
            "source", "must be a table of scores with a column of labels, as predictions is one"
        )
    return ask_table(
        request.predictions, request.source, request.label, request.estimators, request.classes
    )
