"""Rows that somebody hands over to have a model's accuracy estimated: a folder, a table, a source,
or a table of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, unknown
from crosswind.core.printing import foreign_name
from crosswind.core.registry import facts, load
from crosswind.core.types import InputSpec
from crosswind.data.column_names import label_rank
from crosswind.data.dataset import AttributedDataset
from crosswind.data.one_value import doubts_of
from crosswind.data.resizing import in_channels, resized
from crosswind.data.sources.columns import of_text_columns
from crosswind.data.spellings import shown_apart
from crosswind.data.tabular import KINDS, NAMES_ABOVE, has_column, read_table
from crosswind.shifts.split import RowSet
from crosswind.unlabelled.held_rows import pictures_of_memory, texts_of_memory
from crosswind.unlabelled.model_columns import ModelColumns
from crosswind.unlabelled.number_tables import (
    has_column_names,
    is_frame,
    number_table,
    table_of_memory,
)

if TYPE_CHECKING:
    from polars import DataFrame

SIZE = 64
"""Side of pictures of folders and tables in pixels, where nothing says what the model takes."""


@dataclass(frozen=True)
class Named:
    """A data set under a name, what its rows are called, and of a table of numbers the columns that
    are read and those that are not, and sentences about values that the model does not know."""

    name: str
    dataset: AttributedDataset
    names: Callable[[int], str]
    columns: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rows:
    """A data set and how its rows are called. `labels`: of every row by name, None where none was
    asked for; `values`: which there are, in order; `columns`: those of a table of numbers that the
    model reads, and `unread` those that it does not; `notes`: sentences about values that it does
    not know."""

    name: str
    dataset: AttributedDataset
    names: Callable[[int], str]
    labels: tuple[str, ...] | None = None
    values: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> NDArray[np.int64]:
        """Their numbers."""
        return np.arange(self.dataset.n_rows)


def read_rows(
    rows_given: Any,
    field: str,
    takes: InputSpec | None,
    size: int | None,
    label: str | None,
    images: str | None,
    text: Sequence[str] | None = None,
    columns: ModelColumns | None = None,
) -> Rows:
    """The rows that `rows_given` names: a data set, a folder of pictures, a table with a column of
    paths or of texts or with columns of numbers, or a source; or that it is: a frame, an array.

    `takes`: what the model takes; pictures are brought to that shape. `label`: the column of
    labels, "" for one of a usual name or the only one, None where labels are not to be read.
    `images`: the folder of the pictures of a table; `text`: its columns of texts, or of a text's
    parts in order, by default one of a usual name; `columns`: those of numbers that the model
    reads. Raises `InputError`, `DataError`.
    """
    columns = columns or ModelColumns("the model")
    if isinstance(rows_given, AttributedDataset):
        in_order, notes = columns.aligned(rows_given, field)
        named = Named(rows_given.name, in_order, _numbers, notes=notes)
    elif is_frame(rows_given) or isinstance(rows_given, tuple):
        named, label = _of_memory(rows_given, field, takes, label, text, columns)
    else:
        side = size or (takes.shape[0] if takes is not None and takes.kind == "image" else None)
        named = _read(str(rows_given), field, side, images, label, text, takes, columns)
    dataset = _as_taken(named.dataset, takes, field)
    if dataset.n_rows == 0:
        raise DataError(f"{field} has no rows")
    rows = Rows(
        named.name,
        dataset,
        named.names,
        columns=named.columns,
        unread=named.unread,
        notes=named.notes,
    )
    if label is None:
        return rows
    label = _column([attribute.name for attribute in dataset.table.attributes], field, label)
    if doubts := doubts_of(dataset, label):
        way_out = (
            "write them alike, or give cw.estimate a data set of which cw.with_distinct says that"
            " they differ"
        )
        problem = f"{' and '.join(shown_apart(doubts[0]))} of {label!r} may be one class: {way_out}"
        raise InputError(field, problem)
    values = tuple(str(value) for value in dataset.attribute(label).values)
    codes = np.repeat(dataset.table.column(label), dataset.n_derived)
    labels = tuple(values[code] for code in codes.tolist())
    return replace(rows, labels=labels, values=values)


def _of_memory(
    rows_given: Any,
    field: str,
    takes: InputSpec | None,
    label: str | None,
    text: Sequence[str] | None,
    columns: ModelColumns,
) -> tuple[Named, str | None]:
    """The rows of a frame, an array, or a pair of one of these and labels, and the name of their
    column of labels."""
    if takes is not None and takes.kind == "text":
        of_texts, label = texts_of_memory(rows_given, field, text, label)
        return Named(of_texts.name, of_texts, _numbers), label
    if takes is not None and takes.kind == "image" and not has_column_names(rows_given):
        pictures, label = pictures_of_memory(rows_given, takes, field, label)
        return Named(f"the pictures of {field}", pictures, _numbers), label
    if takes is not None and takes.kind != "features":
        raise InputError(
            field,
            f"is a frame of numbers, and {columns.model} takes {takes}; name a folder or a table of"
            " them",
        )
    frame, label = table_of_memory(rows_given, field, label, columns)
    return _of_numbers(frame, f"the frame of {field}", field, label, columns), label


def _column(column_names: Sequence[str], field: str, label: str) -> str:
    """The column of labels: `label`, or for "" one of a usual name, or the only one."""
    if label:
        if label not in column_names:
            raise unknown("label", f"column of {field}", label, column_names)
        return label
    usual = [name for name in column_names if label_rank(name) is not None]
    candidates = usual or column_names if len(column_names) == 1 else usual
    if not candidates:
        raise InputError(
            "label", f"is needed: which column of {field} is what the model answers", column_names
        )
    return candidates[0]


def _numbers(row: int) -> str:
    return f"row {row}"


def _of_numbers(
    frame: DataFrame, name: str, field: str, label: str | None, columns: ModelColumns
) -> Named:
    """A table's numbers, and its column of labels where one is wanted."""
    label_column = None if label is None else _column(frame.columns, field, label)
    table = number_table(frame, name, field, label_column, columns)
    return Named(name, table.dataset, _numbers, table.columns, table.unread, table.notes)


def _read(
    word: str,
    field: str,
    size: int | None,
    images: str | None,
    label: str | None,
    text: Sequence[str] | None,
    takes: InputSpec | None,
    columns: ModelColumns,
) -> Named:
    path = Path(word).expanduser()
    if path.is_dir():
        return _folder(path, field, size or SIZE, label is not None)
    if path.suffix.lower() in KINDS:
        frame = read_table(str(path), field, remedy=NAMES_ABOVE)
        folder = path.parent if images is None else Path(images)
        inputs = _input_columns(frame, path.name, field, folder, text, takes)
        if inputs is None and columns.reads(frame):
            return _of_numbers(frame, path.name, field, label, columns)
        if inputs is None:
            raise _no_inputs(frame, path.name, field, folder, takes)
        return _table(frame, path, field, size or SIZE, folder, label, inputs)
    try:
        source_facts = facts("sources", word, field)
    except InputError as error:
        problem = f"{word!r} is no folder, no {' or '.join(KINDS)} file, and no source"
        raise InputError(field, problem, error.choices) from None
    sized = size is not None and "size" in {knob.name for knob in source_facts.knobs}
    dataset: AttributedDataset = load("sources", word)(**({"size": size} if sized else {})).load()
    in_order, notes = columns.aligned(dataset, field)
    return Named(word, in_order, _numbers, notes=notes)


def _folder(path: Path, field: str, size: int, labelled: bool) -> Named:
    from crosswind.data.decoding import IMAGE_ENDINGS
    from crosswind.data.in_memory import from_frame

    if labelled:
        dataset: AttributedDataset = load("sources", "image-folder")(
            path=str(path), size=size, others="skip"
        ).load()
        return Named(path.name, dataset, _numbers)
    files = []
    for file in path.rglob("*"):
        is_hidden = any(folder_or_file.startswith(".") for folder_or_file in file.parts[-2:])
        if file.suffix.lower() in IMAGE_ENDINGS and file.is_file() and not is_hidden:
            files.append(str(file.relative_to(path)))
    files.sort()
    if not files:
        raise DataError(f"{field}: the folder {str(path)!r} holds no images")
    for name in files:
        if (problem := foreign_name(name)) is not None:
            raise DataError(f"{field}: {problem}")
    frame = {"path": files, "rows": ["unlabelled"] * len(files)}
    dataset = from_frame(frame, str(path), name=path.name, size=size)
    return Named(path.name, dataset, lambda row: files[row])


def _table(
    frame: DataFrame,
    path: Path,
    field: str,
    size: int,
    folder: Path,
    label: str | None,
    inputs: TableInputs,
) -> Named:
    """A table's pictures or texts, and its column of labels where one is wanted; no other column is
    looked at."""
    import polars

    from crosswind.data.in_memory import from_frame

    other_columns = [name for name in frame.columns if name not in inputs.columns]
    label_column = None if label is None else _column(other_columns, field, label)
    if label_column is None:
        # A table of attributes has one at least: a constant stands for all that is not looked at.
        constant = polars.lit("-").alias("rows" if "rows" not in inputs.columns else "all")
        rows = frame.select(inputs.columns).with_columns(constant)
    else:
        rows = frame.select([*inputs.columns, label_column])
    if inputs.are_files:
        column = inputs.columns[0]
        paths = frame[column].to_list()
        dataset = from_frame(rows, str(folder), name=path.stem, path_column=column, size=size)
        return Named(path.name, dataset, lambda row: str(paths[row]))
    texts = of_text_columns(rows, field, path.name, list(inputs.columns), None, None, "refuse")
    return Named(path.name, texts, _numbers)


@dataclass(frozen=True)
class TableInputs:
    """The columns of a table that hold its inputs: the paths of files, or texts."""

    columns: tuple[str, ...]
    are_files: bool


def _input_columns(
    frame: DataFrame,
    table: str,
    field: str,
    folder: Path,
    text: Sequence[str] | None,
    takes: InputSpec | None,
) -> TableInputs | None:
    """The column of files or those of texts; None where a table has neither, or the model reads
    numbers."""
    import polars

    if text is not None:
        return TableInputs(tuple(has_column(frame, name, table, "text") for name in text), False)
    if takes is not None and takes.kind == "features":
        return None
    words = [name for name in frame.columns if frame[name].dtype == polars.String]
    if takes is None or takes.kind != "text":
        for name in words:
            first_entry = frame[name][0]
            if first_entry and _is_file(folder, str(first_entry)):
                return TableInputs((name,), True)
    usual = [name for name in words if name.lower() in ("text", "texts", "sentence")]
    return TableInputs((usual[0],), False) if usual else None


def _no_inputs(
    frame: DataFrame, table: str, field: str, folder: Path, takes: InputSpec | None
) -> InputError:
    """The refusal of a table without a column that a model could read."""
    if takes is not None and takes.kind == "text":
        problem = f"{table} has no column text; name its column of texts, or those of their parts, by text"
        return InputError(field, problem, frame.columns)
    problem = (
        f"{table} has no column whose first entry is a file under {str(folder)!r}, and no column"
        " text; name the folder of the pictures by images"
    )
    if takes is None:
        problem += ", or the columns of numbers that the model reads by columns"
    return InputError(field, problem)


def _is_file(folder: Path, name: str) -> bool:
    try:
        return (folder / name).is_file()
    except (OSError, ValueError):  # a text may be longer than a name of a file can be
        return False


def _as_taken(dataset: AttributedDataset, takes: InputSpec | None, field: str) -> AttributedDataset:
    spec = dataset.check_inputs()
    if takes is None or spec == takes:
        return dataset
    if spec.kind != takes.kind or spec.kind != "image":
        raise InputError(field, f"has {spec}, and the model takes {takes}")
    import dataclasses

    height, width, channels = takes.shape
    if height != width:
        raise InputError(field, f"has {spec}, and the model takes {takes}")
    read = dataset.read
    assert read is not None
    sized = dataclasses.replace(
        dataset,
        read=lambda rows: resized(read(rows), height),
        input=InputSpec.image(height, width, spec.shape[2]),
        fingerprint=f"{dataset.fingerprint}@{height}",
    )
    return in_channels(sized, channels)


def plain_rows(source: str, label: NDArray[np.int64]) -> RowSet:
    """The first rows of a data set, one a label, all in one group and each as heavy."""
    n = len(label)
    none = np.zeros(n, dtype=np.int64)
    weight = np.full(n, 1 / max(n, 1))
    origin = none.astype(np.int8)
    rows = np.arange(n)
    return RowSet(source, rows, label, label, none, None, weight, origin, ("all",), ())


def codes_of(rows: Rows, classes: Sequence[str]) -> NDArray[np.int64]:
    """The class of every row's label. Raises `DataError` for one that is none of the model's."""
    code_of = {name: code for code, name in enumerate(classes)}
    assert rows.labels is not None
    strange = [name for name in dict.fromkeys(rows.labels) if name not in code_of]
    if strange:
        problem = (
            f"{rows.name} has the label {strange[0]!r}, which is no class of the model"
            f" ({', '.join(classes[:20])})"
        )
        raise DataError(problem)
    return np.array([code_of[name] for name in rows.labels], dtype=np.int64)
