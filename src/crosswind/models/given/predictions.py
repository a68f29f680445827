"""Predictions that somebody else made, read from a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, counted, one_line
from crosswind.core.files import library_path
from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.data.archives.arrays import LIMIT, Expected, read_arrays, sums_of
from crosswind.data.attributes import MOST_ROWS
from crosswind.data.dataset import AttributedDataset
from crosswind.data.tabular import unquoted_names
from crosswind.models.given.class_labels import class_codes, is_number
from crosswind.models.given.outside import (
    Answers,
    Outside,
    answers_of_scores,
    output_classes,
)

if TYPE_CHECKING:
    from crosswind.core.types import InputSpec
    from crosswind.shifts.split import RowSet

MOST_LABEL_BYTES = 4096
"""Of one label in an npz file: a thousand letters."""


@register("predictions", kind="model")
@dataclass(frozen=True)
class PredictionsFile(Outside):
    """Predictions in a file: CSV or Parquet with a row for each example, or npz.

    The column `id` is the id of a row: for a table its number, from 0 on. Beside it stands either
    `label`, the predicted class by name (empty where there is no answer), or a column of logits for
    every class, named as the class. An npz file has arrays `id` int64 [n] and `label` [n], by name
    or number, or `logits` float [n, k] in the order of the classes. Rows that no set asks for may
    be there; a row that is asked for and missing is an error. Logits may be log-probabilities.
    """

    path: str = knob(doc="CSV, Parquet or npz file")
    classes: list[Any] | None = knob(
        None,
        doc="the classes that the file means by those of the study, in their order; default: those",
    )

    version = 2
    outputs_in_order = True
    built = Form(trained=False, files=("path",))

    def fits(self, input: InputSpec, class_names: Sequence[str]) -> None:
        """See `Outside.fits`: `classes` are those of the data."""
        output_classes(self, class_names)

    def answer(
        self, rows: RowSet, dataset: AttributedDataset, class_names: Sequence[str]
    ) -> Answers:
        """See `Outside.answer`."""
        name = Path(self.path).name
        ids, labels, logits = _read(Path(self.path), class_names)
        order = np.argsort(ids, kind="stable")
        if (np.diff(ids[order]) == 0).any():
            ordered_ids = ids[order]
            problem = (
                f"{name} has two rows for the id"
                f" {int(ordered_ids[:-1][np.diff(ordered_ids) == 0][0])}"
            )
            raise DataError(problem)
        _refuse_ids_from_one(ids, dataset, name)
        row_ids = dataset.row_ids(rows.rows)
        position = np.searchsorted(ids, row_ids, sorter=order)
        is_there = np.zeros(len(row_ids), dtype=bool)
        inside = position < len(ids)
        is_there[inside] = ids[order[position[inside]]] == row_ids[inside]
        if not is_there.all():
            raise DataError(
                f"{name} has no prediction for {(~is_there).sum():,} of {len(row_ids):,} rows, such"
                f" as id {row_ids[~is_there][0]}"
            )
        position = order[position]
        if logits is not None:
            _refuse_partial(logits[position], row_ids, class_names, name)
            return answers_of_scores(logits[position], name)
        assert labels is not None
        places = _places(labels[position], class_names)
        by_place = self.classes is not None
        return class_codes(places, class_names, name, by_place=by_place), None


def _places(labels: NDArray[Any], class_names: Sequence[str]) -> NDArray[Any]:
    """Labels of a table as whole numbers, the places of classes, where all are such as texts and no
    class is called by a number; an empty one is -1. Else the labels as they are."""
    if labels.dtype.kind != "O" or any(map(is_number, class_names)):
        return labels
    words = ["-1" if label == "" else str(label) for label in labels.tolist()]
    if not all(word.removeprefix("-").isdecimal() for word in words):
        return labels
    return np.array(words).astype(np.int64)


def _refuse_ids_from_one(ids: NDArray[np.int64], dataset: AttributedDataset, name: str) -> None:
    """Refuse ids that count the rows of a data set from 1: each would be that of the row after its
    own. Raises `DataError`."""
    last = int(dataset.row_ids(np.array([dataset.n_rows - 1]))[0])
    counts_rows = last == dataset.n_rows - 1 and len(ids) == dataset.n_rows
    if counts_rows and (int(ids.min()), int(ids.max())) == (1, dataset.n_rows):
        raise DataError(
            f"{name} has the ids 1 to {dataset.n_rows}, and the rows of {dataset.name} have 0 to"
            f" {last}: subtract 1"
        )


def _refuse_partial(
    scores: NDArray[Any], row_ids: NDArray[np.int64], class_names: Sequence[str], name: str
) -> None:
    """Refuse a row of scores [n, k] that lacks some of them. Raises `DataError`."""
    absent = np.isnan(scores.astype(np.float64))
    partial = absent.any(axis=1) & ~absent.all(axis=1)
    if partial.any():
        row = int(partial.argmax())
        class_name = class_names[int(absent[row].argmax())]
        more_rows = int(partial.sum()) - 1
        more_words = f" ({counted(more_rows, 'more such row')})" if more_rows else ""
        raise DataError(
            f"{name}, id {row_ids[row]}, has no score for the class {class_name!r}{more_words}; give"
            " all scores of a row, or none where there is no answer"
        )


Columns = tuple[NDArray[np.int64], NDArray[Any] | None, NDArray[Any] | None]


def _read(path: Path, class_names: Sequence[str]) -> Columns:
    """Ids, labels and logits of the file; one of the last two is None. What no answer needs is not
    read."""
    if path.suffix == ".npz":
        return _read_arrays(path, class_names)
    try:
        columns = _table(path, class_names)
    except DataError:
        raise
    except Exception as error:  # polars raises many kinds for what is no table
        raise DataError(
            f"{path.name} cannot be read as predictions ({one_line(str(error), 200)})"
        ) from None
    ids = columns.get("id")
    labels = columns.get("label")
    logits = None
    if labels is None:
        _check_classes(path, columns, class_names)
        logits = np.stack([columns[name] for name in class_names], axis=1)
    if ids is None or ids.dtype.kind not in "iu":
        raise DataError(f"{path.name} needs a column 'id' of whole numbers")
    if logits is not None and logits.dtype.kind not in "fiu":
        problem = (
            f"{path.name} has logits {logits.dtype} {logits.shape}, not numbers"
            f" {(len(ids), len(class_names))}"
        )
        raise DataError(problem)
    return ids.astype(np.int64), labels, logits


def _read_arrays(path: Path, class_names: Sequence[str]) -> Columns:
    """Of an npz file the arrays that are needed, each compared with what it may be before memory is
    taken for it."""
    try:
        declared = sums_of(path)
        if "logits" not in declared and "label" not in declared:
            _check_classes(path, declared, class_names)
        if "id" not in declared:
            raise DataError(f"{path.name} needs a column 'id' of whole numbers")
        expected = {"id": Expected("integers", (None,))}
        ids = read_arrays(path, expected, MOST_ROWS * 8)["id"].astype(np.int64)
        n = len(ids)
        if "logits" in declared:
            expected_numbers = Expected("numbers", (n, len(class_names)))
            return ids, None, read_arrays(path, {"logits": expected_numbers}, LIMIT)["logits"]
        if "label" in declared:
            limit = min(LIMIT, n * MOST_LABEL_BYTES)
            label = Expected("", (n,))
            return ids, read_arrays(path, {"label": label}, limit)["label"], None
        columns = read_arrays(path, dict.fromkeys(class_names, Expected("numbers", (n,))), LIMIT)
        return ids, None, np.stack([columns[name] for name in class_names], axis=1)
    except DataError as error:
        # By its name: a study may lie anywhere.
        problem = str(error).replace(str(path), path.name)
        raise DataError(problem) from None


def _check_classes(path: Path, columns: Collection[str], class_names: Sequence[str]) -> None:
    missing = next((name for name in class_names if name not in columns), None)
    if missing is not None:
        raise DataError(
            f"{path.name} has neither a column 'label' nor a column of logits for the class"
            f" {missing!r}"
        )


def _table(path: Path, class_names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """The columns of a table that an answer may need."""
    import polars

    needed = list(dict.fromkeys(("id", "label", *class_names)))
    file = library_path(path)
    if path.suffix == ".parquet":
        names = polars.read_parquet_schema(library_path(path))
        columns = [name for name in needed if name in names]
        frame = polars.read_parquet(file, columns=columns)
    else:
        # A class may be called 1: labels are compared as the text that stands there.
        frame = polars.read_csv(file, schema_overrides={"label": polars.String})
        frame = frame.rename(unquoted_names(frame.columns, path))
    if "label" in frame.columns:
        frame = frame.with_columns(polars.col("label").cast(polars.String).fill_null(""))
    return {name: frame[name].to_numpy() for name in needed if name in frame.columns}
