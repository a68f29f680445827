"""The columns of a table that a model of numbers reads, found by their names or by their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from crosswind.core.errors import DataError, InputError, counted, shown, unknown
from crosswind.core.types import InputColumn
from crosswind.data.aligned_columns import aligned
from crosswind.data.column_names import label_rank
from crosswind.data.dataset import AttributedDataset
from crosswind.data.table_inputs import numbers_of
from crosswind.models.given.onnx_values import exported_name

if TYPE_CHECKING:
    from polars import DataFrame

_LISTED = 8
"""Columns that a sentence names; of more it says how many there are."""
NUMBER = "number"
"""What a card has for a column of numbers, where it lists the values of a category."""


@dataclass(frozen=True)
class ModelColumns:
    """The columns of a table that a model reads, in the order of its inputs.

    `model`: what errors call it. `count`: how many columns it reads, None where it takes any.
    `names`: None where neither the model nor its labelled rows name them. `categories`: of each
    column the values of its category, None for one of numbers; () where all are numbers. `texts`:
    of a network with an input for each of `names` those that it takes as the texts that stand in a
    table, None of any other model. `chosen`: those that a person names, which count before all
    else. `label`: the column of labels, which is never read.
    """

    model: str
    count: int | None = None
    names: tuple[str, ...] | None = None
    categories: tuple[tuple[str, ...] | None, ...] = ()
    texts: tuple[str, ...] | None = None
    chosen: tuple[str, ...] | None = None
    label: str | None = None

    @classmethod
    def trained(cls, model: str, columns: Sequence[InputColumn]) -> ModelColumns:
        """Those of a model that was trained on columns of a table."""
        names = tuple(column.name for column in columns)
        return cls(model, len(names), names, tuple(column.values for column in columns))

    def inputs(self, names: Sequence[str]) -> list[InputColumn]:
        """The columns of a table, in the order of `of`, as inputs."""
        categories = self.categories or (None,) * len(names)
        return [InputColumn(*column) for column in zip(names, categories, strict=True)]

    def with_chosen(self, chosen: Sequence[str] | None, label: str | None) -> ModelColumns:
        """These columns, but for those that a person chooses and the column of labels."""
        return replace(self, chosen=None if chosen is None else tuple(chosen), label=label)

    def of(self, frame: DataFrame, table: str, field: str) -> list[str]:
        """The columns of `frame` that the model reads, in its order.

        `table`: what errors call the frame. Raises `InputError` on `field` for columns that are
        missing or of another number, on `columns` for chosen ones that cannot be.
        """
        if self.chosen is not None:
            return self._chosen_among(frame.columns, table)
        if self.names is not None:
            return self.named(frame.columns, table, field)
        return self._all_numbers(frame, table, field)

    def _chosen_among(self, columns: Sequence[str], table: str) -> list[str]:
        """The chosen columns. Raises `InputError` for one that the table has not, and for another
        number than the model reads."""
        names = list(self.chosen or ())
        for name in names:
            if name not in columns:
                raise unknown("columns", f"column of {table}", name, columns)
        if self.names is not None and sorted(names) == sorted(self.names):
            return list(self.names)  # by name: the order of the model is its own
        if self.count not in (None, len(names)):
            problem = f"names {len(names)}, and {self.model} reads {self.count} {self._what}"
            raise InputError("columns", problem)
        return names

    def reads(self, frame: DataFrame) -> bool:
        """Whether the model says which columns it reads, or all columns but the label hold some."""
        if (self.count, self.names, self.chosen) != (None, None, None):
            return True
        inputs = [name for name in frame.columns if name != self.label]
        return bool(inputs) and all(all_numbers(frame, name) for name in inputs)

    def named(self, columns: Sequence[str], table: str, field: str) -> list[str]:
        """Of a table's columns those under the model's names, or under what an export makes of
        them, in the model's order. Raises `InputError` on `field` for missing ones."""
        names = self.names or ()
        matched = []
        missing = []
        for name in names:
            candidates = [name] if name in columns else _alike(name, columns)
            if len(candidates) > 1:
                problem = (
                    f"{self.model} reads {name!r}, and {table} has {listed_columns(candidates)}:"
                    " rename one, or name those that the model reads by columns, in its order"
                )
                raise InputError(field, problem)
            if candidates:
                matched.append(candidates[0])
            else:
                missing.append(name)
        if missing:
            problem = (
                f"{table} lacks {len(missing)} of the {counted(len(names), 'column')} that"
                f" {self.model} reads, {listed_columns(missing)}; it has"
                f" {listed_columns(columns)}: rename them, or name them by columns in the order of"
                " the model"
            )
            raise InputError(field, problem)
        return matched

    def aligned(
        self, dataset: AttributedDataset, field: str
    ) -> tuple[AttributedDataset, tuple[str, ...]]:
        """A data set with the inputs that the model reads, found by the names of its columns and in
        the model's order, and a sentence for each category that has values which the model has not.

        A data set whose inputs are no columns of a table, and a model that does not name its own,
        are left as they are. Raises `InputError` on `field` for a column that is missing or of
        another kind.
        """
        column_of = {column.name: column for column in dataset.input_columns}
        if not column_of or self.names is None or self.texts is not None:
            return dataset, ()
        if self.chosen is not None:
            names = self._chosen_among(list(column_of), dataset.name)
        else:
            names = self.named(list(column_of), dataset.name, field)
        inputs = self.inputs(names) if self.categories else [column_of[name] for name in names]
        return aligned(dataset, inputs, self.model, field)

    @property
    def _what(self) -> str:
        return "columns" if self.texts or any(self.categories) else "numbers"

    def _all_numbers(self, frame: DataFrame, table: str, field: str) -> list[str]:
        """All columns of numbers but the label, where there are as many as the model reads."""
        inputs = [name for name in frame.columns if name != self.label]
        numbers = [name for name in inputs if all_numbers(frame, name)]
        if len(numbers) == (len(inputs) if self.count is None else self.count) > 0:
            return numbers
        without_labels = [name for name in numbers if label_rank(name) is None]
        if self.label is None and len(without_labels) == self.count:
            return without_labels
        texts = [name for name in inputs if name not in numbers]
        raise InputError(field, self._not_these(frame, table, numbers, texts))

    def _not_these(
        self, frame: DataFrame, table: str, numbers: Sequence[str], texts: Sequence[str]
    ) -> str:
        """Why the columns of a table cannot be those that the model reads, and what to do."""
        reads = f"{self.model} reads {self.count} numbers, and " if self.count else ""
        beside = " beside its label" if self.label in frame.columns else ""
        columns = f"{counted(len(numbers), 'column')} of numbers{beside}{_in_brackets(numbers)}"
        reason = ""
        if texts and (self.count is None or len(numbers) < self.count):
            why = _no_numbers(frame, texts[0], table)
            reason = f"; no numbers are in {listed_columns(texts)} ({why})"
        return (
            f"{reads}{table} has {columns}{reason}; name those that the model reads by columns,"
            " in its order"
        )


def _in_brackets(names: Sequence[str]) -> str:
    return f" ({listed_columns(names)})" if names else ""


def fitted_columns(estimator: Any, name: str) -> ModelColumns:
    """The columns that an estimator was fitted on, as those of scikit-learn say it: the names of a
    frame's, else their number. `name`: what errors call it."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        names = tuple(str(column) for column in names)
        return ModelColumns(name, len(names), names)
    count = getattr(estimator, "n_features_in_", None)
    return ModelColumns(name, None if count is None else int(count))


def column_card(columns: Sequence[InputColumn]) -> dict[str, Any]:
    """Columns of a table as a card has them: by name `number`, or the values of a category."""
    return {
        column.name: NUMBER if column.values is None else list(column.values) for column in columns
    }


def columns_of_card(card: Mapping[str, Any], file: str) -> ModelColumns:
    """The columns of a table that the card of a network of numbers names. `file`: what errors call
    the file of weights. Raises `InputError`."""
    width = card.get("width")
    on_card = card.get("columns")
    if on_card is None:
        return ModelColumns(file, width)
    if not isinstance(on_card, dict) or not all(
        kind == NUMBER or isinstance(kind, list) for kind in on_card.values()
    ):
        problem = (
            f"the card of {file} must have its columns by name, each {NUMBER!r} or the list of"
            f" the values of a category, not {shown(on_card)}"
        )
        raise InputError("model", problem)
    columns = []
    for name, kind in on_card.items():
        values = None if kind == NUMBER else tuple(str(value) for value in kind)
        columns.append(InputColumn(str(name), values))
    n_inputs = sum(column.width for column in columns)
    if n_inputs != width:
        problem = f"the card of {file} has columns of {n_inputs} inputs, and the width {width}"
        raise InputError("model", problem)
    return ModelColumns.trained(file, columns)


def _alike(name: str, columns: Sequence[str]) -> list[str]:
    """The columns that an export calls as it calls `name`."""
    return [column for column in columns if exported_name(column) == exported_name(name)]


def listed_columns(names: Sequence[str]) -> str:
    """The first names in quotes, and how many there are beside."""
    listed = ", ".join(shown(name) for name in names[:_LISTED])
    more = len(names) - _LISTED
    return f"{listed} and {more} more" if more > 0 else listed


def unnamed_columns(model: str, table: str, names: Sequence[str]) -> str:
    """The note on columns that a model does not name and is given in the order of a table."""
    return (
        f"{model} does not name the columns that it reads: it was given those of {table} in their"
        f" order, {listed_columns(names)}."
    )


def all_numbers(frame: DataFrame, name: str) -> bool:
    """Whether the cells of a column are numbers, or missing."""
    return not _no_numbers(frame, name, "")


def _no_numbers(frame: DataFrame, name: str, table: str) -> str:
    """Why a column holds no numbers, "" where it does."""
    try:
        numbers_of(frame, name, table)
    except DataError as error:
        return str(error).removeprefix(f"{table}, ")
    return ""
