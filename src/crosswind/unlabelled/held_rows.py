"""Rows of a program as data sets, for a model that says what it takes: texts of frames and lists,
and whatever stands beside labelled rows that are a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crosswind.core.errors import InputError, shown, unknown
from crosswind.core.types import InputSpec
from crosswind.data.dataset import AttributedDataset
from crosswind.data.frames import frame_of
from crosswind.data.in_memory import from_frame, of_inputs, texts_of
from crosswind.unlabelled.number_tables import LABEL, LABELLED_FORMS, has_column_names, is_frame
from crosswind.unlabelled.request import EstimateRequest

_TEXT = "text"
"""The column of texts where none is named."""


def with_data_sets(request: EstimateRequest) -> EstimateRequest:
    """The request with its frames, lists and arrays as data sets, where its model of a program says
    what it takes and they can be; else as it is. Raises `InputError`, `DataError`."""
    takes = getattr(request.model, "input", None)
    if not isinstance(takes, InputSpec):
        return request
    if takes.kind != "text":
        if not isinstance(request.source, AttributedDataset) or has_column_names(request.data):
            return request
        if is_frame(request.data):
            return replace(request, data=of_inputs(request.data, takes, "data"))
        return request
    names, label = request.text_columns, request.label
    data, source = request.data, request.source
    if is_frame(data):
        data, _ = texts_of_memory(data, "data", names, None)
    if is_frame(source) or isinstance(source, tuple):
        source, label = texts_of_memory(source, "source", names, label or "")
    return replace(request, data=data, source=source, label=label, text=None)


def texts_of_memory(
    rows: Any, field: str, names: Sequence[str] | None, label: str | None
) -> tuple[AttributedDataset, str | None]:
    """The texts of a frame, of a list, or of a pair of a list and labels, with the name of their
    column of labels.

    `names`: the columns of a frame's texts, or of their parts. `label`: its column of labels, ""
    where none is named, None where labels are not to be read. Raises `InputError`, `DataError`.
    """
    if isinstance(rows, tuple) and label is not None:
        return _of_pair(rows, field, label)
    if has_column_names(rows):
        return _of_frame(rows, field, names, label), label
    if label is not None:
        raise InputError(field, f"must be {LABELLED_FORMS}, not {shown(rows)}")
    return of_inputs(rows, InputSpec.text(), field), None


def pictures_of_memory(
    rows: Any, takes: InputSpec, field: str, label: str | None
) -> tuple[AttributedDataset, str | None]:
    """An array of pictures as a model takes them, or a pair of one and labels, with the name of
    their column of labels; `label` as in `texts_of_memory`. Raises `InputError`, `DataError`."""
    if not isinstance(rows, tuple):
        if label is not None:
            raise InputError(field, "must be a pair of pictures and labels, or name a folder")
        return of_inputs(rows, takes, field), None
    if len(rows) != 2 or label is None:
        raise InputError(field, "must be a pair of pictures and labels")
    pixels = of_inputs(rows[0], takes, field)
    labels = [str(value) for value in np.asarray(rows[1]).tolist()]
    if pixels.n_rows != len(labels):
        raise InputError(field, f"has {pixels.n_rows:,} pictures and {len(labels):,} labels")
    name = label or LABEL
    dataset = from_frame({name: labels}, pixels.inputs(np.arange(len(labels))), name=field)
    return dataset, name


def _of_frame(
    rows: Any, field: str, names: Sequence[str] | None, label: str | None
) -> AttributedDataset:
    """The texts of a frame, and its column of labels."""
    frame = frame_of(rows, field)
    if label == "":
        raise InputError("label", f"is needed: the column of the {field}'s labels", frame.columns)
    text = list(names or [_TEXT])
    for name in text:
        if name not in frame.columns:
            raise unknown("text", f"column of {field}", name, frame.columns)
    if label is not None and label not in frame.columns:
        raise unknown("label", f"column of the {field}", label, frame.columns)
    columns = {name: frame.get_column(name) for name in text}
    if label is None:
        # A data set has an attribute at least: a constant stands for all that is not looked at.
        constant = "rows" if "rows" not in text else "all"
        return from_frame(
            {**columns, constant: ["-"] * frame.height}, text=text, name=field, columns=[constant]
        )
    labelled = {**columns, label: frame.get_column(label)}
    return from_frame(labelled, text=text, name=field, label=label, columns=[label])


def _of_pair(rows: tuple[Any, ...], field: str, label: str) -> tuple[AttributedDataset, str]:
    """The data set of a pair of texts and labels, and the name of its column of labels."""
    if len(rows) != 2:
        raise InputError(field, f"must be {LABELLED_FORMS}")
    texts = texts_of(rows[0], field).tolist()
    labels = [str(value) for value in rows[1]]
    if len(texts) != len(labels):
        raise InputError(field, f"has {len(texts):,} texts and {len(labels):,} labels")
    name = label or LABEL
    dataset = from_frame({_TEXT: texts, name: labels}, text=_TEXT, name=field, label=name)
    return dataset, name
