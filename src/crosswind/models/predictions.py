"""Predictions that somebody else made, read from a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, one_line
from crosswind.core.files import library_path
from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.data.dataset import AttributedDataset
from crosswind.models.outside import Answers, Outside, codes

if TYPE_CHECKING:
    from crosswind.shifts.split import RowSet


@register("predictions", kind="model")
@dataclass(frozen=True)
class PredictionsFile(Outside):
    """Predictions in a file: CSV or Parquet with a row for each example, or npz.

    The column `id` is the id of a row: for a table its number, from 0 on. Beside it stands either `label`, the predicted class by
    name (empty where there is no answer), or a column of logits for every class, named as the class. An npz file has arrays `id`
    int64 [n] and `label` [n], by name or number, or `logits` float [n, k] in the order of the classes. Rows that no set asks for
    may be there; a row that is asked for and missing is an error. Logits may be log-probabilities.
    """

    path: str = knob(doc="CSV, Parquet or npz file")

    built = Form(trained=False, files=("path",))

    def answer(self, rows: RowSet, dataset: AttributedDataset, class_names: Sequence[str]) -> Answers:
        """See `Outside.answer`."""
        name = Path(self.path).name
        ids, labels, logits = _read(Path(self.path), class_names)
        order = np.argsort(ids, kind="stable")
        if (np.diff(ids[order]) == 0).any():
            raise DataError(f"{name} has two rows for the id {int(ids[order][:-1][np.diff(ids[order]) == 0][0])}")
        wanted = dataset.row_ids(rows.rows)
        place = np.searchsorted(ids, wanted, sorter=order)
        there = np.zeros(len(wanted), dtype=bool)
        inside = place < len(ids)
        there[inside] = ids[order[place[inside]]] == wanted[inside]
        if not there.all():
            raise DataError(
                f"{name} has no prediction for {(~there).sum():,} of {len(wanted):,} rows, such as id {wanted[~there][0]}"
            )
        place = order[place]
        if logits is not None:
            found = logits[place].astype(np.float32)
            return found.argmax(1).astype(np.int64), found
        assert labels is not None
        return codes(labels[place], class_names, name), None


Columns = tuple[NDArray[np.int64], NDArray[Any] | None, NDArray[Any] | None]


def _read(path: Path, class_names: Sequence[str]) -> Columns:
    """Ids, labels and logits of the file; one of the last two is None."""
    try:
        columns = dict(np.load(path, allow_pickle=False)) if path.suffix == ".npz" else _table(path)
    except Exception as error:  # polars and numpy raise many kinds for what is no table
        raise DataError(f"{path.name} cannot be read as predictions ({one_line(str(error), 200)})") from None
    ids, labels, logits = columns.get("id"), columns.get("label"), columns.get("logits")
    if logits is None and labels is None:
        missing = [name for name in class_names if name not in columns]
        if missing:
            raise DataError(f"{path.name} has neither a column 'label' nor a column of logits for the class {missing[0]!r}")
        logits = np.stack([columns[name] for name in class_names], axis=1)
    if ids is None or ids.dtype.kind not in "iu" or ids.ndim != 1:
        raise DataError(f"{path.name} needs a column 'id' of whole numbers")
    if logits is not None and (logits.dtype.kind not in "fiu" or logits.shape != (len(ids), len(class_names))):
        raise DataError(f"{path.name} has logits {logits.dtype} {logits.shape}, not numbers {(len(ids), len(class_names))}")
    if labels is not None and labels.shape != ids.shape:
        raise DataError(f"{path.name} has {len(ids)} ids and labels of shape {labels.shape}")
    return ids.astype(np.int64), None if logits is not None else labels, logits


def _table(path: Path) -> dict[str, NDArray[Any]]:
    import polars

    # A class may be called 1: labels are compared as the text that stands there.
    file = library_path(path)
    if path.suffix == ".parquet":
        frame = polars.read_parquet(file)
    else:
        frame = polars.read_csv(file, schema_overrides={"label": polars.String})
    texts = frame.with_columns(polars.col("label").cast(polars.String).fill_null("")) if "label" in frame.columns else frame
    return {name: texts[name].to_numpy() for name in texts.columns}
