"""Rows that somebody hands over to have a model's accuracy estimated: a folder, a table, a source,
or a table of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, unknown
from crosswind.core.printing import foreign_name
from crosswind.core.registry import facts, load
from crosswind.core.types import InputSpec
from crosswind.data.dataset import AttributedDataset
from crosswind.data.one_value import doubts_of
from crosswind.data.resizing import in_channels, resized
from crosswind.data.spellings import shown_apart
from crosswind.data.tabular import KINDS, NAMES_ABOVE, has_column, read_table
from crosswind.proposals.columns import LABELS
from crosswind.shifts.split import RowSet

if TYPE_CHECKING:
    from polars import DataFrame

SIZE = 64
"""Side of pictures of folders and tables in pixels, where nothing says what the model takes."""

Named: TypeAlias = tuple[str, AttributedDataset, Callable[[int], str]]


@dataclass(frozen=True)
class Rows:
    """A data set and how its rows are called. `labels`: of every row by name, None where none was
    asked for; `values`: which there are, in order."""

    name: str
    dataset: AttributedDataset
    names: Callable[[int], str]
    labels: tuple[str, ...] | None = None
    values: tuple[str, ...] = ()

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
) -> Rows:
    """The rows that `rows_given` names: a data set, a folder of pictures, a table with a column of
    paths
    or of texts, or a source.

    `takes`: what the model takes; pictures are brought to that shape. `label`: the column of
    labels, "" for one of a usual name or the only one, None where labels are not to be read.
    `images`: the folder of the pictures of a table; `text`: its columns of texts, or of a text's
    parts in order, by default one of a usual name. Raises `InputError`, `DataError`.
    """
    shape = None
    if takes is not None and takes.kind == "image":
        shape = takes.shape
    side = size or (shape[0] if shape is not None else None)
    if isinstance(rows_given, AttributedDataset):
        named_dataset: Named = (rows_given.name, rows_given, _numbers)
    else:
        named_dataset = _read(str(rows_given), field, side, images, label, text, takes)
    name, dataset, names = named_dataset
    dataset = _as_taken(dataset, takes, field)
    if dataset.n_rows == 0:
        raise DataError(f"{field} has no rows")
    if label is None:
        return Rows(name, dataset, names)
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
    return Rows(name, dataset, names, labels, values)


def _column(column_names: Sequence[str], field: str, label: str) -> str:
    """The column of labels: `label`, or for "" one of a usual name, or the only one."""
    if label:
        if label not in column_names:
            raise unknown("label", f"column of {field}", label, column_names)
        return label
    usual = [name for name in column_names if name.lower() in LABELS]
    candidates = usual or column_names if len(column_names) == 1 else usual
    if not candidates:
        raise InputError(
            "label", f"is needed: which column of {field} is what the model answers", column_names
        )
    return candidates[0]


def _numbers(row: int) -> str:
    return f"row {row}"


def _read(
    word: str,
    field: str,
    size: int | None,
    images: str | None,
    label: str | None,
    text: Sequence[str] | None,
    takes: InputSpec | None,
) -> Named:
    path = Path(word).expanduser()
    if path.is_dir():
        return _folder(path, field, size or SIZE, label is not None)
    if path.suffix.lower() in KINDS:
        return _table(
            path,
            field,
            size or SIZE,
            images,
            label,
            text,
            takes is not None and takes.kind == "text",
        )
    try:
        source_facts = facts("sources", word, field)
    except InputError as error:
        problem = f"{word!r} is no folder, no {' or '.join(KINDS)} file, and no source"
        raise InputError(field, problem, error.choices) from None
    sized = size is not None and "size" in {knob.name for knob in source_facts.knobs}
    dataset: AttributedDataset = load("sources", word)(**({"size": size} if sized else {})).load()
    return word, dataset, _numbers


def _folder(path: Path, field: str, size: int, labelled: bool) -> Named:
    from crosswind.data.decoding import IMAGE_ENDINGS
    from crosswind.data.in_memory import from_frame

    if labelled:
        dataset: AttributedDataset = load("sources", "image-folder")(
            path=str(path), size=size, others="skip"
        ).load()
        return path.name, dataset, _numbers
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
    return (
        path.name,
        from_frame(frame, str(path), name=path.name, size=size),
        lambda row: files[row],
    )


def _table(
    path: Path,
    field: str,
    size: int,
    images: str | None,
    label: str | None,
    text: Sequence[str] | None,
    reads_texts: bool,
) -> Named:
    """A table's pictures or texts, and its column of labels where one is wanted; no other column is
    looked at."""
    import polars

    from crosswind.data.in_memory import from_frame
    from crosswind.data.sources.columns import of_text_columns

    frame = read_table(str(path), field, remedy=NAMES_ABOVE)
    folder = path.parent if images is None else Path(images)
    words = [name for name in frame.columns if frame[name].dtype == polars.String]
    column = None
    if not reads_texts and text is None:
        column = _column_of_files(frame, words, folder)
    if text is None:
        inputs = [column or _column_of_texts(words, field, path, folder, reads_texts)]
    else:
        inputs = [has_column(frame, name, path.name, "text") for name in text]
    other_columns = [name for name in frame.columns if name not in inputs]
    label_column = None if label is None else _column(other_columns, field, label)
    if label_column is None:
        # A table of attributes has one at least: a constant stands for all that is not looked at.
        constant = polars.lit("-").alias("rows" if "rows" not in inputs else "all")
        rows = frame.select([frame.get_column(name) for name in inputs]).with_columns(constant)
    else:
        rows = frame.select([frame.get_column(name) for name in (*inputs, label_column)])
    if column is not None:
        paths = frame[column].to_list()
        dataset = from_frame(rows, str(folder), name=path.stem, path_column=column, size=size)
        return path.name, dataset, lambda row: str(paths[row])
    texts = of_text_columns(rows, field, path.name, inputs, None, None, "refuse")
    return path.name, texts, _numbers


def _column_of_files(frame: DataFrame, words: Sequence[str], folder: Path) -> str | None:
    """The first column of words whose first entry is a file in the folder."""
    for name in words:
        first_entry = frame[name][0]
        if first_entry and _is_file(folder, str(first_entry)):
            return name
    return None


def _column_of_texts(
    words: Sequence[str], field: str, path: Path, folder: Path, reads_texts: bool
) -> str:
    """The first column of words with a usual name. Raises `InputError` where there is none."""
    for name in words:
        if name.lower() in ("text", "texts", "sentence"):
            return name
    if reads_texts:
        problem = (
            f"{path.name} has no column text; name its column of texts, or those of their parts, by"
            " text"
        )
        raise InputError(field, problem, words)
    problem = (
        f"{path.name} has no column whose first entry is a file under {str(folder)!r}, and no"
        " column text"
    )
    raise InputError(field, f"{problem}; name the folder of the pictures by images")


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
