"""Inputs and outputs of a network in an ONNX file: kinds of numbers, batches of a fixed size,
outputs of many forms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, shown
from crosswind.core.types import InputColumn

_KINDS: dict[str, type[np.generic]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
    "tensor(int16)": np.int16,
    "tensor(uint16)": np.uint16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
}
"""From how ONNX Runtime names the kind of an input to numpy's; others, as texts, are given as they
are."""
_OF_SCORES = re.compile(r"logit|prob|score|softmax|pred|output|class", re.IGNORECASE)
"""In the name of an output that holds scores of classes, where another has their shape too, such as
features of as many numbers."""


def as_input(x: NDArray[Any], kind: str, scale: str | None, name: str) -> NDArray[Any]:
    """Inputs in the kind of numbers that the network takes. `scale`: of pictures, None for other
    numbers. Raises `DataError` for fractions where it takes whole numbers."""
    wanted_kind = _KINDS.get(kind)
    if wanted_kind is None and x.dtype.kind == "f":
        raise DataError(
            f"{name} takes texts ({kind}), and it is given numbers; give cw.estimate a function"
            " that asks it, or a table of its scores (predictions)"
        )
    if wanted_kind is None or x.dtype == object:
        return x
    if wanted_kind is np.bool_:
        others = x[(x != 0) & (x != 1)]  # one that is missing is neither
        if others.size:
            raise DataError(f"{name} takes true or false ({kind}), and {others[0]:g} is neither")
    if np.issubdtype(wanted_kind, np.integer) and not np.issubdtype(x.dtype, np.integer):
        if scale is not None:
            raise DataError(
                f"{name} takes whole numbers ({kind}), and scale {scale!r} gives fractions; set its"
                " scale to bytes"
            )
        fractions = x[x != np.floor(x)]  # one that is missing is none either
        if fractions.size:
            raise DataError(f"{name} takes whole numbers ({kind}), and {fractions[0]:g} is none")
    if wanted_kind is np.int8 and scale is not None:
        raise DataError(f"{name} takes numbers of -128 to 127 ({kind}), which no scale gives")
    return x.astype(wanted_kind, copy=False)


def column_names(graph_inputs: Sequence[Any]) -> tuple[str, ...] | None:
    """The names of the inputs where each is one column of numbers or texts, as converters write a
    pipeline that was fitted on a frame; None where they are something else.

    `graph_inputs`: as ONNX Runtime gives them, with `name`, `type` and `shape`.
    """
    if len(graph_inputs) < 2 or any(list(entry.shape[1:]) != [1] for entry in graph_inputs):
        return None
    return tuple(entry.name for entry in graph_inputs)


def exported_name(name: str) -> str:
    """A column's name as converters to ONNX write it: letters, digits and underscores, of which the
    first is no digit."""
    plain = re.sub(r"\W", "_", name)
    return f"_{plain}" if plain[:1].isdigit() else plain


def text_columns(graph_inputs: Sequence[Any]) -> tuple[str, ...]:
    """The names of the inputs that are texts."""
    return tuple(entry.name for entry in graph_inputs if entry.type == "tensor(string)")


def named_inputs(
    x: NDArray[Any],
    graph_inputs: Sequence[Any],
    scale: str | None,
    name: str,
    columns: Sequence[InputColumn] = (),
) -> dict[str, NDArray[Any]]:
    """A batch under the names of the network's inputs: whole where it has one, a column each where
    it has as many as the rows have numbers.

    `columns`: of the table that the rows are of, () where it has none. A category reaches its
    input as text, or as the number that its text is. Raises `DataError`.
    """
    first = graph_inputs[0]
    if len(graph_inputs) == 1:
        is_column = x.dtype == object and list(first.shape[1:]) == [1]
        return {first.name: as_input(x[:, None] if is_column else x, first.type, scale, name)}
    names = [entry.name for entry in graph_inputs]
    if columns and column_names(graph_inputs) is not None and len(columns) == len(names):
        return _by_column(x, graph_inputs, columns, name)
    if column_names(graph_inputs) is None or x.ndim != 2 or x.shape[1] != len(names):
        form = "texts" if x.dtype == object else "x".join(map(str, x.shape[1:]))
        raise DataError(
            f"{name} reads {len(names)} inputs ({', '.join(names[:8])}), and a row here is one"
            f" ({form}); export it with that input alone, the others as constants"
        )
    by_name = {}
    for position, entry in enumerate(graph_inputs):
        column = x[:, position : position + 1]
        by_name[entry.name] = as_input(column, entry.type, scale, f"{name}, input {entry.name!r},")
    return by_name


def _by_column(
    x: NDArray[Any], graph_inputs: Sequence[Any], columns: Sequence[InputColumn], name: str
) -> dict[str, NDArray[Any]]:
    """A batch of a table's rows under the names of the network's inputs, by the names of the
    columns where all inputs have one of them, else in their order."""
    starts = np.cumsum([0, *(column.width for column in columns)])
    positions = {exported_name(column.name): code for code, column in enumerate(columns)}
    by_order = {exported_name(entry.name) for entry in graph_inputs} != set(positions)
    by_name = {}
    for order, entry in enumerate(graph_inputs):
        position = order if by_order else positions[exported_name(entry.name)]
        column = columns[position]
        inputs = x[:, starts[position] : starts[position + 1]]
        input_name = f"{name}, input {entry.name!r},"
        if column.values is not None:
            inputs = _texts_of(inputs, column, input_name)
            if entry.type != "tensor(string)":
                inputs = _numbers_of(inputs, column, entry.type, input_name)
        by_name[entry.name] = as_input(inputs, entry.type, None, input_name)
    return by_name


def _texts_of(inputs: NDArray[Any], column: InputColumn, name: str) -> NDArray[np.object_]:
    """The values of a category, an object array [n, 1]. Raises `DataError` for a row that has
    none."""
    values = np.array([*(column.values or ()), ""], dtype=object)
    if column.coded:
        codes = np.nan_to_num(inputs[:, 0], nan=-1).astype(np.int64)
        has_value = (codes == inputs[:, 0]) & (codes >= 0) & (codes < len(values) - 1)
    else:
        codes = inputs.argmax(axis=1)
        has_value = (inputs.sum(axis=1) == 1) & (inputs.max(axis=1, initial=0) == 1)
    if not has_value.all():
        problem = (
            f"{name} needs a value, and a row here has none of column {column.name!r}; leave such"
            " rows out, or fill them"
        )
        raise DataError(problem)
    return values[codes][:, None]


def _numbers_of(
    texts: NDArray[np.object_], column: InputColumn, kind: str, name: str
) -> NDArray[np.float64]:
    """The numbers that the values of a category are, 1 and 0 for true and false. Raises `DataError`
    for another text."""
    truths = {"true": "1", "false": "0"}
    words = [truths.get(text.lower(), text) for text in texts[:, 0]]
    try:
        return np.array(words, dtype=np.float64)[:, None]
    except ValueError:
        problem = (
            f"{name} takes numbers ({kind}), and column {column.name!r} holds"
            f" {shown(str(texts[0, 0]))}; order the columns as the network has its inputs, or give"
            " them its names"
        )
        raise DataError(problem) from None


def layout_of(shape: Sequence[Any]) -> str | None:
    """The order of the axes of an input of pictures, `nchw` or `nhwc`, where one of them alone has 1
    or 3 channels; else None."""
    if len(shape) != 4:
        return None
    first, last = (shape[axis] in (1, 3) for axis in (1, 3))
    if first == last:
        return None
    return "nchw" if first else "nhwc"


def usual_settings(graph_input: Any) -> dict[str, str]:
    """The settings of the model `onnx` that the shape and the kind of a network's input leave no
    choice of: `layout` of axes that say it, and `scale: bytes` of whole numbers."""
    settings = {}
    layout = layout_of(graph_input.shape)
    if layout is not None:
        settings["layout"] = layout
    if layout is not None and np.issubdtype(_KINDS.get(graph_input.type, np.float32), np.integer):
        settings["scale"] = "bytes"
    return settings


def check_sides(batch: Sequence[int], shape: Sequence[Any], layout: str, name: str) -> None:
    """Refuse a batch of pictures of other sides than the network takes. Raises `DataError`."""
    sides = list(shape[1:])
    if not shape:  # not known
        return
    if len(batch) == len(shape) and all(
        fixed_side in (side, None) or isinstance(fixed_side, str)
        for side, fixed_side in zip(batch[1:], sides, strict=True)
    ):
        return
    axes = " x ".join(str(side) for side in sides)
    layout_there = layout_of(shape)
    advice = "give it pictures of its size"
    if layout_there not in (None, layout):
        advice = f"set its layout to {layout_there}"
    raise DataError(
        f"{name} takes {axes} numbers a row, and a picture here is"
        f" {' x '.join(map(str, batch[1:]))} ({layout}); {advice}"
    )


def fixed_rows(shape: Sequence[Any]) -> int | None:
    """The rows that the network takes at once, None where it takes any number."""
    if len(shape) > 1 and isinstance(shape[0], int) and shape[0] > 0:
        return int(shape[0])
    return None


def filled(x: NDArray[Any], rows: int) -> NDArray[Any]:
    """A batch with its last row repeated until it has so many."""
    if len(x) >= rows:
        return x
    return np.concatenate([x, np.repeat(x[-1:], rows - len(x), axis=0)])


def read_outputs(
    arrays: Mapping[str, Any],
    n: int,
    class_names: Sequence[str],
    output_name: str | None,
    name: str,
) -> NDArray[Any]:
    """The scores [n, k] among a network's outputs, else its labels [n]. `output_name`: the output
    to
    read, None for the one that fits.

    Outputs may be the labels and probabilities of a classifier of scikit-learn, also as a mapping
    from class to probability for each row. Raises `DataError` for an output that there is not and
    where several may be the scores.
    """
    if output_name is not None and output_name not in arrays:
        problem = f"{name} has no output {output_name!r} (valid: {', '.join(arrays)})"
        raise DataError(problem)
    values = {}
    for key, value in arrays.items():
        if output_name in (None, key):
            values[key] = _as_array(value, class_names)
    if len(values) == 1:
        return next(iter(values.values()))[:n]
    scores = {key: value for key, value in values.items() if _holds_scores(value, len(class_names))}
    if len(scores) > 1:
        named = {key: value for key, value in scores.items() if _OF_SCORES.search(key)}
        if len(named) == 1 or _answer_alike(named, n):
            scores = named
    if len(scores) > 1 and not _answer_alike(scores, n):
        listed = ", ".join(scores)
        raise DataError(
            f"several outputs of {name} may hold the scores of the classes; set its output to one"
            f" of them: {listed}"
        )
    if scores:
        return next(iter(scores.values()))[:n]
    labels = [value for value in values.values() if value.ndim == 1 and value.dtype.kind in "iuUSO"]
    return (labels or list(values.values()))[0][:n]


def _as_array(value: Any, class_names: Sequence[str]) -> NDArray[Any]:
    """An output as an array; a list of mappings from class to probability as a column a class, in
    the order of `class_names`."""
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping):
        return np.asarray(value)
    keys = list(value[0])
    order = {str(key): key for key in keys}
    if sorted(order) == sorted(class_names):  # by name, whatever their order
        keys = [order[name] for name in class_names]
    return np.array([[row[key] for key in keys] for row in value], dtype=np.float32)


def _holds_scores(value: NDArray[Any], n_classes: int) -> bool:
    return value.ndim == 2 and value.dtype.kind == "f" and value.shape[1] in (n_classes, 1000)


def _answer_alike(scores: Mapping[str, NDArray[Any]], n: int) -> bool:
    """Whether all of them answer alike, as logits and their softmax do."""
    answers = [value[:n].argmax(axis=1) for value in scores.values()]
    return bool(answers) and all(
        np.array_equal(answers[0], other_answer) for other_answer in answers
    )
