"""A classifier of a program, such as a fitted estimator of scikit-learn, asked for its accuracy on
frames and arrays that nobody labelled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, counted, one_line, shown, unknown
from crosswind.core.types import InputColumn
from crosswind.data.frames import frame_of
from crosswind.data.table_inputs import input_array, lacks_value
from crosswind.data.tabular import KINDS, NAMES_ABOVE, read_table, texts
from crosswind.models.given.answering import refuse_module
from crosswind.models.given.class_labels import answer_array
from crosswind.unlabelled.answer import Estimates
from crosswind.unlabelled.model_columns import (
    ModelColumns,
    all_numbers,
    fitted_columns,
    listed_columns,
    unnamed_columns,
)
from crosswind.unlabelled.number_tables import (
    LABELLED_FORMS,
    cells_of,
    has_column_names,
    label_beside,
    row_count,
    rows_of_program,
)
from crosswind.unlabelled.request import EstimateRequest
from crosswind.unlabelled.score_table_estimate import ask_table
from crosswind.unlabelled.unread_options import refuse_unread_of_frames

if TYPE_CHECKING:
    from polars import DataFrame


def ask_frames(request: EstimateRequest, title: str) -> Estimates:
    """The estimates of a classifier on a frame or an array of new rows, or on a table's file where
    the classifier was fitted on a frame. `title`: what errors call the classifier.

    `source` of the request: labelled rows, a frame with the column `label`, or a pair of inputs and
    labels. The classifier is given what it was fitted on: of frames the columns that it names, an
    array where it names none and tells their number, the texts of the column `text`, else all but
    the label. Raises `InputError`, `DataError`.
    """
    refuse_unread_of_frames(request)
    _check_answers(request.model, title)
    columns = getattr(request.model, "read_columns", None) or fitted_columns(request.model, title)
    fitted_names = columns.names
    columns = columns.with_chosen(request.columns, request.label)
    text = _text_column(request)
    names = _class_names(request, title)
    labelled: _ClassifierInputs | None = None
    labels: list[str] = []
    if request.source is not None:
        labelled_rows, label_values = _rows_and_labels(
            _opened(request.source, "source"), request.label
        )
        labels = _label_words(label_values, names or ())
        labelled = _inputs(labelled_rows, columns, columns.names, "source", text)
        columns = columns if columns.names else replace(columns, names=labelled.columns)
    names = names or _classes_of_labels(labels)
    source_table: dict[str, Any] | None = None
    label = None
    if labelled is not None:
        label = request.label or label_beside(names)
        if label in names:
            label = label_beside(names)
        scores = _scores(request.model, labelled, title, names, "source")
        source_table = {**scores, label: _labels_beside(scores, labels, title)}
    inputs = _inputs(_opened(request.data, "data"), columns, fitted_names, "data", text)
    predictions = _scores(request.model, inputs, title, names, "data")
    estimates = ask_table(predictions, source_table, label, request.estimators, names)
    notes = list(estimates.notes)
    if text is None:
        names_columns = fitted_names is not None or columns.chosen is not None
        table = "data" if request.source is None else "source"
        notes += _column_notes(inputs, "" if names_columns else table, title)
    data = Path(request.data).name if isinstance(request.data, str | Path) else "the rows of data"
    return replace(estimates, model=title, data=data, notes=tuple(notes))


def _column_notes(inputs: _ClassifierInputs, in_order_of: str, title: str) -> list[str]:
    """Notes on the columns that a classifier reads and those that it does not. `in_order_of`: the
    table whose order its columns have, "" where it names them."""
    notes = []
    if inputs.columns and in_order_of:
        notes.append(unnamed_columns(title, f"the frame of {in_order_of}", inputs.columns))
    if inputs.unread:
        notes.append(f"Of the frame of data it does not read {listed_columns(inputs.unread)}.")
    return notes


def _label_words(label_values: Sequence[Any], names: Sequence[str]) -> list[str]:
    """Labels as the classes are called. A number is the class of this number however either is
    written: 1 of a file, or beside a missing cell, is read as 1.0."""
    name_of: dict[float, str] = {}
    for name in names:
        try:
            name_of.setdefault(float(name), name)
        except ValueError:
            continue
    words = []
    for value in label_values:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_called = str(value) in names or not is_number
        word = f"{value:.15g}" if names and is_number else str(value)
        words.append(str(value) if is_called else name_of.get(float(value), word))
    return words


def _labels_beside(scores: dict[str, NDArray[Any]], labels: list[str], title: str) -> list[str]:
    """The labels, where there is one for each row of the scores. Raises `DataError`."""
    n_answers = len(next(iter(scores.values())))
    if len(labels) != n_answers:
        raise DataError(
            f"{title} answers {counted(n_answers, 'row')} of source, and there are"
            f" {counted(len(labels), 'label')}"
        )
    return labels


def _text_column(request: EstimateRequest) -> str | None:
    """The column of texts that the classifier is given, None for one of columns."""
    text_columns = request.text_columns
    if not text_columns or hasattr(request.model, "feature_names_in_"):
        return None
    if len(text_columns) > 1:
        problem = "names several columns, and a classifier of texts is given the one that it was fitted on"
        raise InputError("text", problem)
    return text_columns[0]


@dataclass(frozen=True, eq=False)
class _ClassifierInputs:
    """The rows as a classifier is given them; of a frame the columns that it reads, None for
    anything else, and those that it does not."""

    rows: Any
    columns: tuple[str, ...] | None = None
    unread: tuple[str, ...] = ()


def _opened(rows: Any, field: str) -> Any:
    """A table's file as a frame, whose columns are numbers where all cells of them are; a mapping
    and a table of Arrow as a frame too; anything else as it is."""
    if isinstance(rows, str | Path):
        if Path(rows).suffix.lower() not in KINDS:
            problem = f"{str(rows)!r} is no table, and the model was fitted on the columns of one"
            raise InputError(field, problem, KINDS)
        return _typed(read_table(str(rows), field, remedy=NAMES_ABOVE))
    if isinstance(rows, dict) or type(rows).__module__.startswith("pyarrow"):
        return frame_of(rows, field)
    return rows


def _typed(frame: DataFrame) -> Any:
    """The rows of a CSV file, in which all is text, with numbers where they are some; as a frame of
    pandas where that is installed, which most estimators are fitted on."""
    columns = {name: cells_of(frame, name) for name in frame.columns}
    try:
        from pandas import DataFrame as PandasFrame
    except ImportError:
        import polars

        return polars.DataFrame(columns)
    return PandasFrame(columns)


def _inputs(
    rows: Any,
    columns: ModelColumns,
    fitted_names: Sequence[str] | None,
    field: str,
    text: str | None,
) -> _ClassifierInputs:
    """The rows as the classifier is given them. `fitted_names`: the columns of the frame that it
    was fitted on; `text`: the column of texts that it reads."""
    if type(rows).__module__.partition(".")[0] not in ("pandas", "polars"):
        return _ClassifierInputs(rows_of_program(rows, field))
    frame = frame_of(rows, field)
    if text is not None:
        if text not in frame.columns:
            raise unknown("text", f"column of {field}", text, frame.columns)
        cells = texts(frame, text, f"the frame of {field}").to_list()
        return _ClassifierInputs(cells, (text,))
    table = f"the frame of {field}"
    inputs = [name for name in frame.columns if name != columns.label]
    says_columns = columns.chosen or columns.names or columns.count is not None
    read = columns.of(frame, table, field) if says_columns else inputs
    unread = tuple(name for name in inputs if name not in read)
    if fitted_names is None and columns.count is not None:
        numbers, _ = input_array(frame, [InputColumn(name) for name in read], table)
        return _ClassifierInputs(numbers, tuple(read), unread)
    return _ClassifierInputs(_selected(rows, read, fitted_names or read), tuple(read), unread)


def _selected(rows: Any, names: Sequence[str], new_names: Sequence[str]) -> Any:
    """Columns of a frame of polars or pandas under new names, and its other columns not."""
    every = [str(name) for name in rows.columns]
    positions = [every.index(name) for name in names]
    selected = rows[:, positions] if hasattr(rows, "get_columns") else rows.iloc[:, positions]
    selected.columns = list(new_names)
    return selected


def _check_answers(model: Any, title: str) -> None:
    """Refuse a model that gives no probabilities."""
    refuse_module(model)
    if hasattr(model, "predict_proba") or (callable(model) and not isinstance(model, type)):
        return
    remedy = ""
    if hasattr(model, "decision_function"):
        remedy = (
            "; sklearn.calibration.CalibratedClassifierCV makes some of its scores, fitted on rows"
            " beside those of training"
        )
    raise InputError(
        "model", f"{title} has no predict_proba, and estimates need probabilities{remedy}"
    )


def _class_names(request: EstimateRequest, title: str) -> list[str]:
    """The classes in the order of the outputs: those that are given, or the classifier's own; none
    where labelled rows say them."""
    if request.classes is not None:
        return [str(name) for name in request.classes]
    fitted_classes = getattr(request.model, "classes_", None)
    if fitted_classes is not None:
        return [str(name) for name in np.asarray(fitted_classes).tolist()]
    if request.source is not None and not hasattr(request.model, "fit"):
        return []
    fit_question = "; is it fitted?" if hasattr(request.model, "fit") else ""
    raise InputError(
        "classes",
        f"are needed, in the order of the outputs: {title} has no classes_{fit_question}",
    )


def _classes_of_labels(labels: Sequence[str]) -> list[str]:
    """The classes of labelled rows: numbers by their size, others as text."""
    try:
        return sorted(set(labels), key=float)
    except ValueError:
        return sorted(set(labels))


def _rows_and_labels(source: Any, label: str | None) -> tuple[Any, list[Any]]:
    """Labelled rows, and their labels."""
    if isinstance(source, tuple) and len(source) == 2:
        inputs, label_values = source
        labels = np.asarray(rows_of_program(label_values, "source"))
        if labels.ndim == 2 and labels.shape[1] == 1:  # a frame of one column
            labels = labels[:, 0]
        if labels.ndim != 1:
            problem = f"must be {LABELLED_FORMS}, not labels of the shape {list(labels.shape)}"
            raise InputError("source", problem)
        return inputs, list(labels.tolist())
    if not has_column_names(source):
        raise InputError("source", f"must be {LABELLED_FORMS}, not {shown(source)}")
    names = [str(name) for name in source.columns]
    if label is None:
        raise InputError("label", "is needed: the column of the source's labels", names)
    if label not in names:
        raise unknown("label", "column of the source", label, names)
    return source, list(source[label].to_list())


def _scores(
    model: Any, inputs: _ClassifierInputs, title: str, names: Sequence[str], field: str
) -> dict[str, NDArray[Any]]:
    """The probability of each class as columns. Raises `DataError` for what the model cannot do."""
    answering = getattr(model, "predict_proba", None) or model
    n_rows = row_count(inputs.rows)
    if n_rows == 0:
        raise InputError(field, "has no rows")
    try:
        answered = answering(inputs.rows)
    except Exception as error:  # whatever the code of somebody else does
        reason = f"{type(error).__name__}: {one_line(str(error), 200)}"
        problem = f"{title} fails on {field} ({reason}){_cause(inputs, field, reason)}"
        raise DataError(problem) from error
    scores = answer_array(answered, names, title)
    if scores.shape != (n_rows, len(names)) or scores.dtype.kind not in "fiu":
        listed_names = ", ".join(names[:10])
        kind = "" if scores.dtype.kind in "fiu" else f"{scores.dtype} "
        problem = (
            f"{title} answers the {counted(n_rows, 'row')} of {field} by {kind}"
            f"{list(scores.shape)}, and estimates need scores [{n_rows}, {len(names)}] of the"
            f" {len(names)} classes ({listed_names})"
        )
        raise DataError(problem)
    in_full = scores.astype(np.float64)
    return {name: in_full[:, code] for code, name in enumerate(names)}


def _cause(inputs: _ClassifierInputs, field: str, reason: str) -> str:
    """Which cell or columns a classifier may have failed on, as the end of a sentence."""
    if re.search("unknown categor", reason, re.IGNORECASE):
        return "; write it as in the rows that it was fitted on, or leave its rows out"
    causes = (_texts_among(inputs, field), _missing_among(inputs, field))
    of_texts = "could not convert" in reason
    first, second = causes if of_texts else causes[::-1]
    if not of_texts and re.search(r"\b(nan|missing|infinity)\b", reason, re.IGNORECASE):
        return first  # columns of texts may be its own
    return first or second


def _missing_among(inputs: _ClassifierInputs, field: str) -> str:
    """The first cell without a value of the columns that a classifier failed on, as the end of a
    sentence."""
    if inputs.columns is None or not hasattr(inputs.rows, "columns"):
        return ""
    frame = frame_of(inputs.rows, field)
    for name in frame.columns:
        empty_rows = np.flatnonzero(lacks_value(frame.get_column(name)))
        if empty_rows.size:
            n_others = empty_rows.size - 1
            more_words = f" ({counted(n_others, 'more such row')})" if n_others else ""
            return f"; column {name!r}, row {empty_rows[0] + 1} has no value{more_words}"
    return ""


def _texts_among(inputs: _ClassifierInputs, field: str) -> str:
    """Which of the columns that a classifier failed on hold no numbers, as the end of a sentence."""
    if inputs.columns is None:
        return ""
    if not hasattr(inputs.rows, "columns"):
        return ""
    frame = frame_of(inputs.rows, field)
    words = [name for name in frame.columns if not all_numbers(frame, name)]
    if not words:
        return ""
    holds = "holds" if len(words) == 1 else "hold"
    count = counted(len(inputs.columns), "column")
    return f"; of the {count} that it reads {listed_columns(words)} {holds} no numbers"
