"""Tables of scores: which of their columns are the scores of a class, which are something else, and
what the scores say.

The classes are the label values of the source. A column that is named as a class, or as a class
with something before or behind it that all share (`prob_cat`, `prob_dog`), holds its scores. Other
columns of numbers are left out by name, or refused where they may be a class that never occurs in
the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, counted, unknown
from crosswind.data.column_names import usual_labels
from crosswind.data.frames import frame_of
from crosswind.data.tabular import NAMES_ABOVE, NoValue, read_table, texts
from crosswind.data.written_numbers import WrittenNumbers, columns_beside, written_numbers
from crosswind.estimators.base import Answers, Labelled
from crosswind.evaluation.class_order import best_order
from crosswind.execution.output_order import check_order, option_value
from crosswind.models.given.class_scores import TOLERANCE, are_probabilities, refuse_percentages
from crosswind.unlabelled.number_tables import label_beside
from crosswind.unlabelled.score_columns import (
    UNNAMED,
    ScoreColumns,
    columns_of,
    extra_classes,
    is_score_name,
    probabilities_of,
)

if TYPE_CHECKING:
    from polars import DataFrame

Floats = NDArray[np.float64]

_SHOWN = 20
_MANY = 200
"""Classes of which each is tried as the one without a column."""


@dataclass(frozen=True)
class ScoredTables:
    """Scores of new rows and of labelled ones. `classes`: in the order of the columns; `notes`: how
    these were read."""

    name: str
    classes: tuple[str, ...]
    target: Answers
    labelled: Labelled | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _ScoreTable:
    """A table as it stands. `numbers`: its columns of numbers by name, float64, NaN where a cell is
    empty. `doubts`: of those whose commas may be either sign, column -> why nobody can tell."""

    field: str
    name: str
    frame: DataFrame
    numbers: Mapping[str, Floats]
    doubts: Mapping[str, str]

    def scores(self, columns: Sequence[str]) -> Floats:
        """The scores of some columns, float64 [n, k]. Raises `DataError` for a column that is not
        there or holds no numbers."""
        for column in columns:
            if column not in self.frame.columns:
                raise DataError(
                    f"{self.name} has no column of scores {column!r}, which the other table has"
                )
            if column not in self.numbers:
                raise DataError(f"{self.name} has a column {column!r} that holds no numbers")
            if column in self.doubts:
                raise DataError(f"{self.name}, column {column!r}: {self.doubts[column]}")
        return np.stack([self.numbers[column] for column in columns], axis=1)


def read_scored_tables(
    predictions: Any, source: Any, label: str | None, classes: Sequence[str] | None
) -> ScoredTables:
    """The scores of a table, and of a labelled one where `source` is not None.

    Each is the path of a CSV or Parquet file, a polars, pandas or Arrow frame, or a mapping from name to
    values. `label`: the column of labels of the source, by default one of a usual name. `classes`:
    of the columns of scores in their order in `predictions`; by default their names say it. Numbers
    that all lie in [0, 1] are probabilities, and every row must sum to 1; percentages are refused.
    Raises `InputError`, `DataError`.
    """
    new = _read(predictions, "predictions")
    if source is None:
        return _without_source(new, classes)
    source_table = _read(source, "source")
    column = _label_column(source_table, label)
    try:
        labels = tuple(texts(source_table.frame, column, source_table.name).to_list())
    except NoValue as error:
        raise DataError(f"{error}; fill it in, or leave rows without a label out") from None
    values = tuple(dict.fromkeys(labels))
    shared = [name for name in new.numbers if name in source_table.numbers and name != column]
    chosen = _with_unseen(_chosen(shared, classes, new, values), new, source_table, classes)
    _check_several(new, chosen)
    _check_labels(source_table, labels, chosen, new, shared)
    target = _answers(new, chosen.columns)
    source_answers = _answers(source_table, chosen.columns)
    code_of = {name: code for code, name in enumerate(chosen.classes)}
    label_codes = np.array([code_of[name] for name in labels], dtype=np.int64)
    labelled = Labelled(source_answers, label_codes, source_table.name)
    absent = _absent_note(chosen, values) if classes is None else ()
    note = (*_order_note(chosen, labelled, new, classes), *absent)
    notes = (*note, *_notes(new, chosen, column))
    return ScoredTables(new.name, chosen.classes, target, labelled, notes)


def tables_of_arrays(
    predictions: NDArray[Any], source: Any, classes: Sequence[str] | None
) -> tuple[dict[str, Any], dict[str, Any] | None, list[str]]:
    """Scores as arrays [n, k], and a pair of scores [m, k] and labels [m] or None, as tables with a
    column a class, and the classes. Labels stand under `label_beside` them.

    `classes`: in the order of the columns, by default their numbers from 0. Raises `InputError`.
    """
    if predictions.ndim != 2 or predictions.shape[1] < 2 or predictions.dtype.kind not in "biuf":
        remedy = ""
        if predictions.ndim == 1 and predictions.dtype.kind == "f":
            remedy = (
                "; of the probability p of one of two classes make np.stack([1 - p, p], axis=1)"
            )
        raise InputError(
            "predictions",
            f"must be scores [n, k], a column a class, not {predictions.dtype}"
            f" {list(predictions.shape)}{remedy}",
        )
    n_classes = predictions.shape[1]
    names = [str(name) for name in (range(n_classes) if classes is None else classes)]
    if len(names) != n_classes:
        raise InputError("classes", f"are {len(names)}, and predictions has {n_classes} columns")
    columns = {name: predictions[:, code] for code, name in enumerate(names)}
    if source is None:
        return columns, None, names
    scores, labels = _scores_and_labels(source, n_classes)
    if classes is None and set(labels) - set(names):
        raise InputError(
            "classes",
            f"are needed, in the order of the {n_classes} columns of predictions: the labels are"
            f" {', '.join(sorted(set(labels))[:10])}",
        )
    labelled: dict[str, Any] = {name: scores[:, code] for code, name in enumerate(names)}
    return columns, {**labelled, label_beside(names): labels}, names


def _scores_and_labels(source: Any, n_classes: int) -> tuple[NDArray[Any], list[str]]:
    """A pair of scores [m, k] and labels [m], these as texts. Raises `InputError`."""
    if not isinstance(source, tuple) or len(source) != 2:
        raise InputError(
            "source",
            f"must be a pair of scores [m, {n_classes}] and labels [m], as predictions are scores",
        )
    scores, labels = np.asarray(source[0]), np.asarray(source[1])
    if scores.shape[1:] != (n_classes,) or labels.shape != (len(scores),):
        raise InputError(
            "source",
            f"must be scores [m, {n_classes}] and labels [m], not {list(scores.shape)} and"
            f" {list(labels.shape)}",
        )
    return scores, [str(label) for label in labels.tolist()]


# -- columns ---------------------------------------------------------------------------------------


def _read(table_given: Any, field: str) -> _ScoreTable:
    if isinstance(table_given, str | Path):
        name = Path(table_given).name
        frame = read_table(str(table_given), field, remedy=NAMES_ABOVE, unnamed=UNNAMED)
    else:
        name = f"the {field} table"
        frame = frame_of(table_given, field)
    if not frame.height:
        raise DataError(f"{field} has no rows")
    numbers, doubts = {}, {}
    for column in frame.columns:
        written = _numbers(frame, column)
        if written is None:
            continue
        numbers[column] = written.numbers.fill_null(float("nan")).to_numpy()
        if written.doubt:
            doubts[column] = f"row {written.doubtful_row + 1}: {written.doubt}"
    return _ScoreTable(field, name, frame, numbers, doubts)


def _numbers(frame: DataFrame, name: str) -> WrittenNumbers | None:
    """A column of numbers as float64, None for any other."""
    import polars

    column = frame.get_column(name)
    if column.dtype.is_numeric():
        numbers = column.cast(polars.Float64)
        return WrittenNumbers(numbers, broken=numbers.is_null() & False)
    if column.dtype != polars.String:
        return None
    written = written_numbers(column, columns_beside(frame, name))
    if written.doubt:
        return written
    numbers = written.numbers
    # Truths are no scores, though a column of numbers may have them beside 1 and 0.
    of_digits = column.filter(numbers.is_not_null()).str.contains(r"\d|(?i)inf")
    is_empty = not (column.str.strip_chars() != "").any()
    if written.broken.any() or is_empty or not of_digits.all():
        return None
    return written


def _is_whole(values: Floats, numbers: Mapping[str, Floats]) -> bool:
    """Whether a column holds whole numbers alone where others hold fractions: a number of a row or
    a part, and no score."""
    fractions = any((column[np.isfinite(column)] % 1 != 0).any() for column in numbers.values())
    finite = values[np.isfinite(values)]
    outside = bool(((finite < 0) | (finite > 1)).any())
    return fractions and outside and not (finite % 1 != 0).any()


def _label_column(source_table: _ScoreTable, label: str | None) -> str:
    columns = source_table.frame.columns
    if label:
        if label not in columns:
            raise unknown("label", f"column of {source_table.name}", label, columns)
        return label
    usual = usual_labels(columns)
    words = [name for name in columns if name not in source_table.numbers]
    candidates = usual or words if len(words) == 1 else usual
    if not candidates:
        raise InputError(
            "label", f"is needed: which column of {source_table.name} holds the labels", columns
        )
    return candidates[0]


def _chosen(
    shared: Sequence[str],
    classes: Sequence[str] | None,
    new: _ScoreTable,
    values: Sequence[str] | None,
) -> ScoreColumns:
    """The columns of scores among `shared`, those of numbers: by the names of the classes, or as
    `classes` names them in order."""
    if classes is None:
        assert values is not None
        column_ways = columns_of(values, shared)
        if len(column_ways) > 1 and not _agree(column_ways, new):
            ways = " or ".join(f"{', '.join(each.columns[:3])}, ..." for each in column_ways[:3])
            raise DataError(
                f"{new.name} has several columns of scores a class ({ways}) that answer otherwise;"
                " leave one of them out"
            )
        if column_ways:
            return column_ways[0]
        return ScoreColumns((), ())
    names = tuple(classes)
    if len(set(names)) < len(names):
        raise InputError("classes", "names one class twice")
    by_name = next(iter(columns_of(names, shared)), None)
    if by_name is not None:
        columns = tuple(column for column in shared if column in by_name.columns)
        return ScoreColumns(columns, names)
    shared_names = [name for name in names if name in shared]
    if shared_names:
        missing = next(name for name in names if name not in shared)
        raise InputError(
            "classes",
            f"name {missing!r}, and no column of numbers of both tables has that name",
            shared,
        )
    scores = []
    for name in shared:
        if is_score_name(name) and not _is_whole(new.numbers[name], new.numbers):
            scores.append(name)
    if len(scores) != len(names):
        listed = ", ".join(scores[:_SHOWN])
        problem = f"are {len(names)}, and {new.name} has {len(scores)} columns of scores ({listed})"
        raise InputError("classes", problem)
    return ScoreColumns(tuple(scores), names)


def _agree(families: Sequence[ScoreColumns], new: _ScoreTable) -> bool:
    """Whether every family of columns answers alike for all rows, as logits and their probabilities
    do."""
    answers = []
    for family in families:
        class_order = np.argsort(np.array(family.classes))
        order = np.argsort(class_order)
        answers.append(order[new.scores(family.columns).argmax(axis=1)])
    return all(np.array_equal(answers[0], other_answers) for other_answers in answers[1:])


def _with_unseen(
    chosen: ScoreColumns, new: _ScoreTable, source_table: _ScoreTable, classes: Sequence[str] | None
) -> ScoreColumns:
    """The columns with those of classes that never occur in the source. Raises `DataError` where it
    cannot be told."""
    if classes is not None or not chosen.columns:
        return chosen
    shared = [name for name in new.numbers if name in source_table.numbers]
    numbers = {name: new.numbers[name] for name in shared}
    unseen, doubtful = extra_classes(chosen, numbers, source_table.frame.height)
    if doubtful:
        names = {
            **dict(zip(chosen.columns, chosen.classes, strict=True)),
            **{name: name for name in doubtful},
        }
        class_names = [names[name] for name in shared if name in names]
        every = option_value(class_names)
        problem = (
            f"are needed: column {doubtful[0]!r} of {new.name} may be a class that never occurs in"
            " the source, or none"
        )
        raise InputError(
            "classes",
            f"{problem}; {every} takes it for one, {option_value(chosen.classes)} leaves it out",
        )
    if not unseen:
        return chosen
    class_of = {**dict(zip(chosen.columns, chosen.classes, strict=True)), **unseen}
    columns = [name for name in new.numbers if name in class_of]
    return ScoreColumns(tuple(columns), tuple(class_of[name] for name in columns), chosen.how)


def _without_source(new: _ScoreTable, classes: Sequence[str] | None) -> ScoredTables:
    """The scores of a table beside which there are no labelled ones. Raises `DataError`."""
    named = [column for column in new.numbers if not _is_whole(new.numbers[column], new.numbers)]
    if len(named) < 2 or not probabilities_of({column: new.numbers[column] for column in named}):
        named = [column for column in named if is_score_name(column)]
    if classes is not None:
        chosen = _chosen(named, classes, new, None)
    else:
        chosen = ScoreColumns(tuple(named), tuple(named))
    _check_several(new, chosen)
    if not chosen.columns:
        raise DataError(
            f"{new.name} needs a column of scores for each class, two at least; of its columns of"
            f" numbers ({', '.join(list(new.numbers)[:_SHOWN])}) none is called as one: name the"
            " columns of scores by classes, in their order"
        )
    answers = _answers(new, chosen.columns)
    notes = _notes(new, chosen, "")
    if classes is None and not probabilities_of({name: new.numbers[name] for name in named}):
        listed = ", ".join(chosen.columns[:_SHOWN])
        words = f"Columns {listed} are no probabilities: they are read as logits of classes"
        notes = (f"{words} that are called so.", *notes)
    return ScoredTables(new.name, chosen.classes, answers, None, notes)


def _check_several(table: _ScoreTable, chosen: ScoreColumns) -> None:
    if chosen.columns and len(chosen.columns) < 2:
        raise DataError(
            f"{table.name} needs a column of scores for each class, two at least, and has"
            f" {len(chosen.columns)}"
        )
    if not chosen.columns and len(table.numbers) < 2:
        raise DataError(
            f"{table.name} needs a column of scores for each class, two at least, and has"
            f" {len(table.numbers)}"
        )


def _check_labels(
    source_table: _ScoreTable,
    labels: Sequence[str],
    chosen: ScoreColumns,
    new: _ScoreTable,
    shared: Sequence[str],
) -> None:
    """Refuse labels that no column of scores is named by, with the classes that the columns seem to
    be of."""
    values = list(dict.fromkeys(labels))
    strange = [name for name in values if name not in chosen.classes]
    if not strange:
        return
    if not chosen.columns and 2 < len(values) <= _MANY:
        _check_one_missing(source_table, values, shared)
    scores = [
        name
        for name in shared
        if is_score_name(name) and not _is_whole(new.numbers[name], new.numbers)
    ]
    listed = ", ".join((chosen.classes or tuple(scores))[:_SHOWN])
    if not listed:
        raise DataError(_nothing_shared(new, source_table))
    problem = (
        f"{source_table.name} has the label {strange[0]!r}, which is no class of the scores"
        f" ({listed})"
    )
    other_labels = ""
    if len(strange) > 1:
        other_labels = f" and {counted(len(strange) - 1, 'more such label')}"
    remedy = "; write it as its class is called" if chosen.classes else ""
    if len(strange) == len(values) == len(scores) and not chosen.columns:
        fit = _fitting_order(source_table, labels, values, scores)
        remedy = f"; name the classes of these columns in their order by classes{fit}"
    raise DataError(f"{problem}{other_labels}{remedy}", limit=100_000)


def _nothing_shared(new: _ScoreTable, source_table: _ScoreTable) -> str:
    """That two tables share no column of scores, with the columns of numbers of each."""
    columns = [", ".join(list(table.numbers)[:_SHOWN]) for table in (new, source_table)]
    return (
        f"{new.name} and {source_table.name} share no column of scores of a class"
        f" ({columns[0] or 'none'}; {columns[1] or 'none'}): give the scores of a class one name in"
        " both, such as that of the class"
    )


def _fitting_order(
    source_table: _ScoreTable, labels: Sequence[str], values: Sequence[str], scores: Sequence[str]
) -> str:
    """The order of the classes under which most labelled rows are right, as half a sentence."""
    order = sorted(
        values, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name)
    )
    code_of = {name: code for code, name in enumerate(order)}
    codes = np.array([code_of[name] for name in labels], dtype=np.int64)
    answer = np.nan_to_num(source_table.scores(scores), nan=-np.inf).argmax(axis=1)
    likely, right = best_order(answer, codes, order)
    return (
        f"; {option_value(likely)} fits the labelled rows best, {right:.1%} of which are then right"
    )


def _check_one_missing(
    source_table: _ScoreTable, values: Sequence[str], shared: Sequence[str]
) -> None:
    """Refuse the one label that has no column of scores where all others have one."""
    for name in values:
        other_values = [other_value for other_value in values if other_value != name]
        ways = columns_of(other_values, shared)
        if ways:
            listed = ", ".join(ways[0].columns[:_SHOWN])
            raise DataError(
                f"{source_table.name} has the label {name!r}, which is no class of the scores"
                f" ({listed})"
            )


def _order_note(
    chosen: ScoreColumns, labelled: Labelled, new: _ScoreTable, classes: Sequence[str] | None
) -> tuple[str, ...]:
    """Refuse columns that are named in another order than they stand; what to say of an order that
    is insisted on."""
    usual = None
    if classes is not None:
        in_table = next(iter(columns_of(chosen.classes, chosen.columns)), None)
        if in_table is not None:
            class_of = dict(zip(in_table.columns, in_table.classes, strict=True))
            usual = tuple(class_of[column] for column in chosen.columns)
    elif chosen.how != "numbers":
        usual = chosen.classes
    remedy = ""
    if classes is None:
        remedy = "give the second by classes, or the first to leave it as it is"
    evidence = check_order(
        "classes", new.name, labelled, chosen.classes, chosen.classes, usual, remedy
    )
    if usual is not None and chosen.classes != usual:
        as_named = _renamed(labelled, chosen.classes, usual)
        if as_named >= labelled.accuracy:
            shares = (
                f"{as_named:.1%} of {len(labelled.label):,} labelled rows are right by their names,"
                f" {labelled.accuracy:.1%} so"
            )
            problem = (
                f"name the columns of {new.name} in another order than they are named in,"
                f" {option_value(usual)}: {shares}"
            )
            raise InputError("classes", f"{problem}; leave them out", limit=100_000)
    if evidence:
        return (f"Warning: {evidence}; the first was asked for.",)
    return ()


def _renamed(labelled: Labelled, classes: Sequence[str], usual: Sequence[str]) -> float:
    """The share of labelled rows that is right where the outputs are `usual` and not `classes`."""
    code_of = {name: code for code, name in enumerate(classes)}
    output_numbers = np.array([code_of[name] for name in usual], dtype=np.int64)
    return float((output_numbers[labelled.answers.answer] == labelled.label).mean())


def _absent_note(chosen: ScoreColumns, values: Sequence[str]) -> tuple[str, ...]:
    """Which columns are taken for classes that no labelled row has."""
    absent = [name for name in chosen.classes if name not in values]
    if not absent:
        return ()
    listed = ", ".join(absent[:_SHOWN]) + (", ..." if len(absent) > _SHOWN else "")
    if len(absent) == 1:
        words = f"class {listed}; its column is"
    else:
        words = f"the classes {listed}; their columns are"
    return (
        (
            f"No labelled row is of {words} taken for scores all the same. Name the classes if that"
            " is wrong."
        ),
    )


def _notes(new: _ScoreTable, chosen: ScoreColumns, label: str) -> tuple[str, ...]:
    """The notes on the columns: which are left out, and which stand for a class by another name."""
    left = [name for name in new.numbers if name not in chosen.columns and name != label]
    notes = []
    renamed = []
    for column, name in zip(chosen.columns, chosen.classes, strict=True):
        if column != name:
            renamed.append(f"{column} ({name})")
    if renamed:
        more_words = ", ..." if len(renamed) > _SHOWN else ""
        notes.append(
            f"Columns of scores, with their classes: {', '.join(renamed[:_SHOWN])}{more_words}."
        )
    if left:
        reason_words = "no score by its name or its whole numbers"
        if label:
            reason_words = "no class of the source"
        if len(left) == 1:
            words = f"Column {left[0]} is"
        else:
            words = f"Columns {', '.join(left[:_SHOWN])} are"
        notes.append(f"{words} {reason_words}: left out.")
    return tuple(notes)


# -- scores ----------------------------------------------------------------------------------------


def _answers(table: _ScoreTable, columns: Sequence[str]) -> Answers:
    """The probabilities of the columns for every row, as logarithms. Raises `DataError` for numbers
    that are no scores."""
    scores = table.scores(columns)
    bad = ~np.isfinite(scores).all(axis=1)
    if bad.any():
        raise DataError(
            f"{table.name}, row {int(bad.argmax()) + 1}: a score is missing or not finite"
        )
    sums = scores.sum(axis=1)
    if are_probabilities(scores):
        with np.errstate(divide="ignore"):
            scores = np.log(np.maximum(scores, 0))
    elif ((scores >= 0) & (scores <= 1 + TOLERANCE)).all():
        row = int(np.abs(sums - 1).argmax())
        problem = f"{table.name}, row {row + 1}: probabilities sum to {sums[row]:.4g}, not to 1"
        raise DataError(problem)
    elif (scores >= 0).all() and len(sums) > 1 and np.ptp(sums) <= TOLERANCE * sums[0]:
        raise DataError(
            f"{table.name}, row 1: no score is negative and each row sums to {sums[0]:.4g};"
            " probabilities sum to 1: divide each row by its sum"
        )
    else:
        refuse_percentages(scores, table.name)
    return Answers(scores.argmax(axis=1).astype(np.int64), scores)
