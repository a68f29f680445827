"""A study file for somebody's own table: its columns looked at, label and attributes proposed,
sizes that fit."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crosswind.core.errors import DataError, InputError, counted, escaped_bytes
from crosswind.data.sources.columns import blank_texts
from crosswind.data.table_inputs import lacks_value, numbers_of
from crosswind.data.tabular import is_blank, read_table
from crosswind.data.written_numbers import thousands_note
from crosswind.proposals.columns import (
    TableColumn,
    columns_of,
    n_unparted,
    roles_of,
    word_counts,
)
from crosswind.proposals.design import (
    LEAST,
    MOST_TEST,
    Attributes,
    ShiftDesign,
    attributes_of,
    chosen_designs,
    counts_of,
    derived_design,
    rows_of_classes,
    strengths_of,
)
from crosswind.proposals.inputs import Inputs, inputs_of, picture_side, refuse_unreadable
from crosswind.proposals.label import Label, label_of, one_hot_columns
from crosswind.proposals.spelling import OneSpelling, one_value_each
from crosswind.proposals.units import unit_of
from crosswind.proposals.writing import Draft, study_text

if TYPE_CHECKING:
    from polars import DataFrame

LENGTH = "length"
"""The attribute of texts that is proposed where there is no column for one."""
LIGHT = "light"
"""The attribute of pictures that is proposed where there is no column for one."""
BRIGHT = {"severity": 3}
LIT = (
    "no column beside the pictures is an attribute: 'light' makes some of them brighter, as another"
    " camera would, and the study ties that to the label"
)
NO_INPUTS = (
    "no column of paths of images (.jpg, .jpeg, .png, .bmp, ...) and none of texts: name the images in"
    " one; nor has it, beside its label, two columns of classes or one of numbers that a model could"
    " read instead"
)
"""What a table without inputs lacks."""
NO_FOREST = "pip install 'crosswind[skops]' lets a random forest answer beside the network"
_EXAMPLE = re.compile(r" \(row .*\)$|(?<=empty in) [\d,]+ of [\d,]+(?= rows)")
LISTED = 8
"""Columns that a note names."""
NOTHING = (-9, -99, -999, -9999, 99, 999, 9999, 99999)
"""Numbers that people write for a value that they lack."""
NO_WORDS = frozenset(("na", "n/a", "n.a.", "#n/a", "k.a.", "?", "??", "-", "--", ".", "missing"))
"""Words that rarely are a value, and mostly say that there is none; in lower case."""
UNPARTED = 4
"""Characters of scripts without blanks between words that make a text one of these."""
FEWEST_OFFICIAL = 5
"""Rows that an official split must leave in each cell of test and training."""


@dataclass(frozen=True)
class Note:
    """A sentence on what was seen of a table, without its full stop.

    `attribute`: the one that it is about and leaves the proposal with. `of_roles`: whether it says
    that the table's own roles are used.
    """

    sentence: str
    attribute: str | None = None
    of_roles: bool = False


@dataclass(frozen=True)
class Proposal:
    """A study file as `text`, and what was seen of the table in `remarks`, a sentence each.

    `draft`: what the text was written from.
    """

    text: str
    remarks: tuple[Note, ...]
    draft: Draft

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences of the remarks."""
        return tuple(remark.sentence for remark in self.remarks)

    def __str__(self) -> str:
        return self.text

    def with_repeats(self, repeats: int) -> Proposal:
        """The proposal with another number of repeats of every run."""
        draft = replace(self.draft, repeats=repeats)
        return Proposal(study_text(draft), self.remarks, draft)

    def with_less(self) -> Proposal | None:
        """The proposal with an attribute less, the last, or with a method less where there is one
        attribute; None where nothing is left to take.

        Few repeats of everything tell nothing; more of the strongest tie do.
        """
        draft, remarks = self.draft, list(self.remarks)
        if len(draft.designs) > 1:
            gone = draft.designs[-1].attribute
            draft = replace(
                draft,
                designs=draft.designs[:-1],
                further=(gone, *draft.further),
                strengths={name: by for name, by in draft.strengths.items() if name != gone},
            )
            remarks = [remark for remark in remarks if remark.attribute != gone]
            left_out = f"{gone} is left out: its runs would leave too little time for the others"
            remarks.append(Note(left_out))
        elif len(draft.methods) > 1:
            gone = draft.methods[-1]
            draft = replace(draft, methods=draft.methods[:-1])
            not_tried = f"{gone} is not tried: too few repeats would fit in a few minutes"
            remarks.append(Note(not_tried))
        else:
            return None
        return Proposal(study_text(draft), tuple(remarks), draft)

    def without_official(self, reason: str) -> Proposal:
        """The proposal in which the table's own roles are not used, and why."""
        draft = replace(self.draft, official=None)
        draft = replace(draft, test_of_cell=_test_of_cell(draft.unit, draft.designs))
        remarks = [remark for remark in self.remarks if not remark.of_roles]
        return Proposal(study_text(draft), (*remarks, Note(reason)), draft)


def _check_of_pictures(table: str, inputs: Inputs | None, options: Mapping[str, Any]) -> None:
    """Refuse an option of pictures where the study will read none. Raises `InputError`."""
    if inputs is not None and inputs.kind == "images":
        return
    kind = "no pictures" if inputs is None else "texts"
    for option, value in options.items():
        if value is not None:
            problem = f"is of pictures, and of {Path(table).name} the study reads {kind}"
            raise InputError(option, f"{problem}; leave it out")


def propose(
    table: str,
    images: str | None = None,
    label: str | None = None,
    size: int | None = None,
    text: Sequence[str] | None = None,
    header: Sequence[str] | None = None,
    study_folder: Path | None = None,
) -> Proposal:
    """A commented study for a CSV or Parquet table: of pictures by a column of paths, of texts, or
    of numbers and categories.

    `images`: the folder of the pictures; by default the table's own, or one beside it in which they
    lie. `label`: the column that is to be predicted; by default one of a usual name, else a guess
    (`label_of`). `text`: the columns of a text's parts, mostly one; by default, where there are no
    pictures, the one of most words. `size`: side of the pictures in pixels; by default
    `picture_side`. `header`: names of the columns of a table without any.
    `study_folder`: where the study will lie, by default here; relative paths are written from it.
    Raises `InputError`, `DataError`.
    """
    reading_notes: list[str] = []
    remedy = "name its columns, such as --header {names}"
    rows = read_table(table, "TABLE", header, remedy, notes=reading_notes)
    as_written = rows = _without_blank_rows(rows)
    written_columns = columns_of(rows)
    inputs = inputs_of(rows, written_columns, table, images, text)
    _check_of_pictures(table, inputs, {"--images": images, "--size": size})
    read_columns = () if inputs is None else inputs.columns
    spelled = one_value_each(rows, [name for name in rows.columns if name not in read_columns])
    rows = spelled.rows
    respelled = list(dict.fromkeys(name for name, _ in spelled.notes))
    all_columns = written_columns | columns_of(_of_columns(rows, respelled))
    columns = {name: column for name, column in all_columns.items() if name not in read_columns}
    chosen = _label(rows, columns, table, label, inputs)
    unit, unit_notes = unit_of(rows, columns, chosen.name)
    if unit is not None and columns[unit].n_empty:
        rows = rows.filter(~lacks_value(rows.get_column(unit)))
        columns = columns_of(_of_columns(rows, list(columns)))
    roles = next((column for column in columns.values() if column.kind == "roles"), None)
    taken = [name for name in (unit, roles.name if roles else None) if name is not None]
    attributes = attributes_of(rows, columns, chosen, taken, inputs is None)
    rule = None
    derive: dict[str, Any] | None = None
    rows_with_attributes = rows
    if not attributes.designs and inputs is not None and inputs.kind == "texts":
        rows_with_attributes, attributes, rule = _by_length(rows, inputs, chosen, attributes)
    elif not attributes.designs and inputs is not None and inputs.kind == "images":
        attributes, derive = _by_light(rows, chosen, attributes)
    if inputs is None:
        inputs = _own_columns(columns, chosen, attributes, taken)
    _check_proposal(table, inputs, chosen, attributes, rows.height)
    designs = chosen_designs(attributes.designs)
    further = [design for design in attributes.designs if design not in designs]
    official, official_test, role_note = _official(rows_with_attributes, roles, designs, chosen)
    options, blank_notes = _options(
        table, header, inputs, size, rows, chosen, designs, written_columns
    )
    options |= {} if unit is None else {"unit": unit}
    strengths, observed = strengths_of(designs)
    for name in ("path", "images"):
        if name in options:
            options[name] = _seen_from(study_folder, options[name])
    same, distinct = _used_spellings(spelled, chosen, designs)
    draft = Draft(
        options=options,
        kind=inputs.kind,
        label=chosen,
        designs=designs,
        further=tuple(design.attribute for design in further),
        unit=unit,
        official=official,
        test_of_cell=min(official_test, MOST_TEST) if official else _test_of_cell(unit, designs),
        strengths=strengths,
        observed=observed,
        rule=rule,
        derive=derive,
        same=same,
        distinct=distinct,
        forest=inputs.kind == "numbers" and _has_forest(),
    )
    _check_utf8("TABLE", table)
    _check_utf8("--images", inputs.folder)
    in_words = f"{as_written.height:,} rows; {inputs.in_words}"
    remarks = _remarks(in_words, *reading_notes, *chosen.notes)
    remarks += _remarks(*_label_notes(chosen, columns, rows), *_one_hot_notes(columns, rows))
    remarks += _remarks(*unit_notes)
    remarks += [Note(_design_note(design, chosen), design.attribute) for design in designs]
    remarks += _remarks(*_other_notes(attributes, further, chosen, rule, inputs))
    remarks += [Note(LIT)] if derive else []
    remarks += _spelling_remarks(spelled, chosen, designs)
    remarks += [Note(role_note, of_roles=official is not None)] if role_note else []
    remarks += _remarks(*blank_notes, *_more_texts(inputs, text), *_unparted(rows, inputs))
    remarks += _remarks(
        *_without_numbers(written_columns, options.get("numbers", []), as_written.height)
    )
    remarks += _remarks(*_codes_of_nothing(as_written, options.get("numbers", [])))
    remarks += _values_of_nothing(rows, chosen, designs)
    of_numbers = [*options.get("numbers", []), *([chosen.name] if chosen.cuts else [])]
    notes = [thousands_note(as_written, name) for name in of_numbers]
    remarks += _remarks(*(note for note in notes if note))
    if inputs.kind == "numbers" and not draft.forest:
        remarks.append(Note(NO_FOREST))
    return Proposal(study_text(draft), tuple(remarks), draft)


def _without_blank_rows(rows: DataFrame) -> DataFrame:
    """The rows of a table of several columns that hold anything: a study leaves the others out."""
    blank = is_blank(rows)
    if rows.width > 1 and blank.any() and not blank.all():
        return rows.filter(~blank)
    return rows


def _remarks(*sentences: str) -> list[Note]:
    """Remarks that stay in a proposal whatever leaves it."""
    return [Note(sentence) for sentence in sentences]


def _test_of_cell(unit: str | None, designs: Sequence[ShiftDesign]) -> int | None:
    """The rows of each cell that the test set draws where units are dealt whole, None for all rows
    that may test.

    A unit brings its rows of other cells along. A test set of all of them would be as tied as the
    table, and a model that leans on the tie would be right on it.
    """
    return None if unit is None else min(design.test for design in designs)


def _has_forest() -> bool:
    """Whether what keeps a fitted forest is installed."""
    return find_spec("skops") is not None


def _check_proposal(
    table: str, inputs: Inputs, chosen: Label, attributes: Attributes, n_rows: int
) -> None:
    """Refuse a table without inputs, or without an attribute that a shift may be of."""
    problems = []
    if not inputs.columns:
        reasons = [reason for reason in attributes.reasons if reason]
        problems.append(NO_INPUTS + (f" ({_first_of(reasons, '; ')})" if reasons else ""))
    if not attributes.designs:
        problems.append(f"{_no_attribute(chosen, attributes)}; the table has {n_rows:,} rows")
    if problems:
        raise DataError(f"{table} has {'; and it has '.join(problems)}")


def _used_spellings(
    spelled: OneSpelling, chosen: Label, designs: Sequence[ShiftDesign]
) -> tuple[dict[str, Any], list[str]]:
    """Of the columns that the study uses: spellings made one value, and columns whose values are
    apart."""
    same = {name: ways for name, ways in spelled.same.items() if _is_used(name, chosen, designs)}
    distinct = [name for name in spelled.distinct if _is_used(name, chosen, designs)]
    return same, distinct


# -- what is read and dealt ------------------------------------------------------------------------


def _label(
    rows: DataFrame,
    columns: Mapping[str, TableColumn],
    table: str,
    named: str | None,
    inputs: Inputs | None,
) -> Label:
    """The label of a table. Raises `InputError` for a column that is named and cannot be one,
    `DataError` for a table that has none, and says what else it lacks."""
    if (
        named is not None
        and inputs is not None
        and named in inputs.columns
        and named not in columns
    ):
        contents = {"images": "the paths of the pictures", "texts": "the texts"}.get(inputs.kind)
        raise InputError(
            "--label",
            f"{named!r} holds {contents or 'the numbers'} that a model reads, and cannot be predicted",
            columns,
        )
    try:
        label = label_of(rows, columns, table, named)
        problem = _no_label(columns, rows.height)
    except InputError as error:
        if named is not None:
            raise
        label = None
        problem = f"no label: {error.problem}"
    if label is not None:
        return label
    candidates = [column for column in columns.values() if column.kind in ("numbers", "classes")]
    no_inputs = inputs is None and not _enough_inputs(candidates, label_is_among=True)
    raise DataError(f"{table} has " + "; and it has ".join([NO_INPUTS] * no_inputs + [problem]))


def _own_columns(
    columns: Mapping[str, TableColumn], label: Label, attributes: Attributes, taken: Sequence[str]
) -> Inputs:
    """The columns of numbers and of classes as inputs, without those that tell the label; none of
    them where they are too few."""
    left_out = {label.name, *attributes.aliases, *taken}
    own_columns = []
    for name, column in columns.items():
        if column.kind in ("numbers", "classes") and name not in left_out:
            own_columns.append(column)
    return Inputs(
        "numbers",
        tuple(column.name for column in own_columns) if _enough_inputs(own_columns) else (),
    )


def _enough_inputs(columns: Sequence[TableColumn], label_is_among: bool = False) -> bool:
    """Whether columns are enough for a model to read: a column of numbers, or two."""
    are_numbers = any(column.kind == "numbers" for column in columns)
    return len(columns) >= (1 if are_numbers else 2) + label_is_among


def _by_length(
    rows: DataFrame, inputs: Inputs, label: Label, attributes: Attributes
) -> tuple[DataFrame, Attributes, int | None]:
    """The rows with the length of texts as the attribute, and the number of words that parts it; the
    attributes as they are where a column has its name."""
    if LENGTH in rows.columns:
        return rows, attributes, None
    counts = word_counts(rows, inputs.columns)
    cut = max(1, int(counts.median()) + 1)  # type: ignore[arg-type]
    # As `crosswind.data.rules` calls them.
    names = (f"0-{cut - 1}" if cut > 1 else "0", f"{cut}+")
    lengths = (counts >= cut).cast(int).replace_strict({0: names[0], 1: names[1]}).alias(LENGTH)
    with_lengths = rows.with_columns(lengths)
    column = TableColumn(LENGTH, "classes", names, 2)
    by_length = attributes_of(with_lengths, {LENGTH: column}, label, (), False)
    reasons = (*attributes.reasons, *by_length.reasons)
    return with_lengths, replace(by_length, reasons=reasons), cut


def _by_light(
    rows: DataFrame, label: Label, attributes: Attributes
) -> tuple[Attributes, dict[str, Any] | None]:
    """Pictures of a class as they are and made brighter, as the attribute, and how the study makes
    it. The attributes stay as they are where a column has its name, or a class has too few rows."""
    n_smallest = int(rows_of_classes(rows, label).min())
    if LIGHT in rows.columns or n_smallest // 2 < LEAST:
        return attributes, None
    values = ("plain", "bright")
    design = derived_design(LIGHT, values, label, rows_of_classes(rows, label))
    derive = {"name": LIGHT, "transform": "brightness", "values": {"plain": None, "bright": BRIGHT}}
    return replace(attributes, designs=(design,)), derive


def _official(
    rows: DataFrame, roles: TableColumn | None, designs: Sequence[ShiftDesign], label: Label
) -> tuple[dict[str, Any] | None, int, str]:
    """The roles that a column deals, as a study says them, the rows of each cell that its test rows
    have for every attribute, and what became of the column."""
    if roles is None:
        return None, 0, ""
    test_rows = []
    values = roles_of(
        roles.values or rows[roles.name].cast(str).str.strip_chars().unique().to_list()
    )
    named = ", ".join(f"{' '.join(names)} {role}s" for role, names in sorted(values.items()))
    for design in designs:
        for role in ("train", "test"):
            smallest = _smallest_of(rows, roles.name, values[role], design, label)
            if role == "test":
                test_rows.append(smallest)
            if smallest < FEWEST_OFFICIAL:
                unused = (
                    f"{roles.name!r} deals roles ({named}) and is not used: it leaves {counted(smallest, 'row')}"
                    f" to {role} in the smallest cell of {label.name!r} and {design.attribute!r}"
                )
                return None, 0, unused
    official = {"column": roles.name, **values}
    return official, min(test_rows), f"{roles.name!r} deals the roles: {named}"


def _smallest_of(
    rows: DataFrame, roles: str, values: Sequence[str], design: ShiftDesign, label: Label
) -> int:
    """Rows of the smallest cell among those of some roles."""
    in_role = rows.filter(rows[roles].cast(str).str.strip_chars().is_in(list(values)))
    if not in_role.height:
        return 0
    if design.attribute not in rows.columns:  # one that a transform makes, of every row
        return int(rows_of_classes(in_role, label).min()) // len(design.values)
    return int(counts_of(in_role, label, design).min())


def _options(
    table: str,
    header: Sequence[str] | None,
    inputs: Inputs,
    size: int | None,
    rows: DataFrame,
    label: Label,
    designs: Sequence[ShiftDesign],
    written_columns: Mapping[str, TableColumn],
) -> tuple[dict[str, Any], list[str]]:
    """The settings of the source `table` that all attributes share, and notes about them.

    `written_columns`: before spellings of a value were made one. A model reads them so.
    """
    options: dict[str, Any] = {"path": table}
    notes: list[str] = []
    if header is not None:
        options["header"] = list(header)
    if inputs.kind == "images":
        of_images, notes = _image_options(rows, inputs, size, table)
        options |= of_images
    elif inputs.kind == "texts":
        names = list(inputs.columns)
        options["text"] = names[0] if len(names) == 1 else names
        cells = [column.cast(str) for column in _of_columns(rows, names)]
        blank = int(np.any([blank_texts(column).to_numpy() for column in cells], axis=0).sum())
        if blank:
            options["blank"] = "leave-out"
            notes.append(f"{counted(blank, 'row')} without a text left out")
    else:
        for option, are_numbers in (("numbers", True), ("categories", False)):
            named = [
                name for name in inputs.columns if written_columns[name].is_number == are_numbers
            ]
            if named:
                options[option] = named
    cuts = _cuts(label, designs)
    if cuts:
        options["bins"] = cuts
    return options, notes


def _image_options(
    rows: DataFrame, inputs: Inputs, size: int | None, table: str
) -> tuple[dict[str, Any], list[str]]:
    """The settings of pictures, and how many rows have none."""
    column = inputs.columns[0]
    refuse_unreadable(rows, inputs, table)
    side = size or picture_side(rows, inputs, table)
    options: dict[str, Any] = {"images": inputs.folder, "path_column": column, "size": side}
    blank = int(lacks_value(rows.get_column(column)).sum())
    if not blank:
        return options, []
    return {**options, "blank": "leave-out"}, [
        f"{counted(blank, 'row')} without a picture left out"
    ]


def _of_columns(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Some columns of a table. By columns and not by names: polars takes "*" and "^...$" for
    patterns."""
    return rows.select([rows.get_column(name) for name in names])


def _cuts(label: Label, designs: Sequence[ShiftDesign]) -> dict[str, list[float]]:
    """The numbers that part columns of numbers into classes, by column."""
    cuts = {design.attribute: list(design.cuts) for design in designs if design.cuts}
    return cuts | ({label.name: list(label.cuts)} if label.cuts else {})


# -- what is said ----------------------------------------------------------------------------------


def _label_notes(label: Label, columns: Mapping[str, TableColumn], rows: DataFrame) -> list[str]:
    """The note on rows left out because they have no label."""
    n_empty = columns[label.name].n_empty
    if n_empty:
        return [f"{label.name}: empty in {n_empty:,} of {rows.height:,} rows, left out"]
    return []


def _one_hot_notes(columns: Mapping[str, TableColumn], rows: DataFrame) -> list[str]:
    """The note on columns that are the classes of one label."""
    names = one_hot_columns(rows, columns)
    if not names:
        return []
    return [
        f"{_first_of(names)} exclude one another, one of them is 1 in every row: where they are the"
        f" classes of one label write one column of their names, such as {names[0]} where"
        f" {names[0]!r} is 1, in place of them"
    ]


def _design_note(design: ShiftDesign, label: Label) -> str:
    cells = (
        f"attribute {design.attribute!r} ({len(design.values)} values); the smallest cell with"
        f" label {label.name!r} ({len(design.classes)} values) has {counted(design.smallest, 'row')}"
    )
    tied = design.tie.in_words if design.tie.matching else "the rows do not tie it to the label"
    left_out = ""
    if design.left_out:
        left_out = f"; left out for too few rows: {', '.join(design.left_out)}"
    return f"{cells}; {tied}{left_out}"


def _other_notes(
    attributes: Attributes,
    further: Sequence[ShiftDesign],
    label: Label,
    rule: int | None,
    inputs: Inputs,
) -> list[str]:
    notes = []
    if rule is not None:
        notes.append(
            f"no column beside them is an attribute: {LENGTH!r} tells texts of {rule} words and more"
        )
    if attributes.aliases:
        notes.append(
            f"left out, since they tell {label.name!r} entirely: {_first_of(attributes.aliases)}"
        )
    tied = [design.attribute for design in further if design.tie.matching]
    if tied:
        notes.append(f"tied to the label too, and not in the study: {_first_of(tied)}")
    untied = [design.attribute for design in further if not design.tie.matching]
    if untied:
        notes.append(f"attributes that the rows do not tie to the label: {_first_of(untied)}")
    if attributes.tied_numbers:
        numbers = [
            f"{design.attribute} ({design.values[-1]}: Cramér's V {design.tie.v.value:.2f})"
            for design in attributes.tied_numbers
        ]
        notes.append(
            f"numbers that go with {label.name!r} too, taken for what a model should lean on:"
            f" {_first_of(numbers)}; should it not, put one into classes (bins) and name it in attributes"
        )
    if attributes.reasons:
        notes.append(f"no attributes: {_first_of(_by_reason(attributes.reasons), '; ')}")
        if inputs.kind == "numbers" and len(attributes.reasons) > LISTED:
            unread = [
                name
                for name in (reason.partition(": ")[0] for reason in attributes.reasons)
                if name not in inputs.columns
            ]
            notes += [f"{counted(len(unread), 'column')} of these no model reads"] if unread else []
    return notes


def _by_reason(reasons: Sequence[str]) -> list[str]:
    """Why columns are no attributes, `NAME: reason` each; of many those with one reason together,
    without the number and the example of each."""
    if len(reasons) <= LISTED:
        return list(reasons)
    names: dict[str, list[str]] = {}
    for text in reasons:
        name, _, reason = text.partition(": ")
        names.setdefault(
            _EXAMPLE.sub(lambda match: "" if "(" in match[0] else " some", reason), []
        ).append(name)
    return [
        f"{', '.join(columns[:3])}{f' and {len(columns) - 3:,} more' if len(columns) > 3 else ''}: {reason}"
        for reason, columns in names.items()
    ]


def _first_of(texts: Sequence[str], between: str = ", ") -> str:
    """The first `LISTED` of some texts, and how many more there are."""
    more_words = ""
    if len(texts) > LISTED:
        more_words = f"{between}and {len(texts) - LISTED} more"
    return between.join(texts[:LISTED]) + more_words


def _spelling_remarks(
    spelled: OneSpelling, label: Label, designs: Sequence[ShiftDesign]
) -> list[Note]:
    """A remark for each spelling that was made one value, of the label and of attributes."""
    remarks = []
    for name, sentence in spelled.notes:
        if _is_used(name, label, designs):
            remarks.append(Note(sentence, None if name == label.name else name))
    return remarks


def _is_used(name: str, label: Label, designs: Sequence[ShiftDesign]) -> bool:
    return name == label.name or name in [design.attribute for design in designs]


def _without_numbers(
    columns: Mapping[str, TableColumn], numbers: Sequence[str], n_rows: int
) -> list[str]:
    """In how many rows a column of numbers that a model reads has none, and what stands there."""
    counts = []
    for name in numbers:
        column = columns[name]
        if column.n_empty:
            written = f" ({', '.join(repr(word) for word in column.no_values)})"
            counts.append(
                f"{name}: no number in {column.n_empty:,} of {n_rows:,} rows"
                f"{written if column.no_values else ''}"
            )
    if not counts:
        return []
    return [
        f"{_first_of(counts, '; ')}; the training rows' median is read there, and that it is one"
    ]


def _codes_of_nothing(rows: DataFrame, numbers: Sequence[str]) -> list[str]:
    """Numbers far from all others of a column, as people write them for a value that they lack."""
    notes = []
    for name in numbers:
        values = numbers_of(rows, name, "")
        values = values[~np.isnan(values)]
        for code in NOTHING:
            others = values[values != code]
            n_coded = len(values) - len(others)
            if n_coded < 2 or len(others) < 2:
                continue
            low, high = float(others.min()), float(others.max())
            if code < low - (high - low) or code > high + (high - low):
                notes.append(
                    f"{name}: {code} in {n_coded:,} rows, far from all other numbers: if it stands for"
                    " no value, leave these cells empty"
                )
    return notes


def _values_of_nothing(rows: DataFrame, label: Label, designs: Sequence[ShiftDesign]) -> list[Note]:
    """A remark on each class and value that may stand for none, such as NA among words."""
    columns: list[tuple[str, tuple[str, ...], str | None]]
    columns = [(label.name, label.classes, None)]
    columns += [(design.attribute, design.values, design.attribute) for design in designs]
    remarks = []
    for name, values, attribute in columns:
        for value in values:
            if value.lower() not in NO_WORDS:
                continue
            n_rows = int((rows[name].cast(str).str.strip_chars() == value).sum())
            sentence = (
                f"{name}: {value!r} is taken for a value, in {n_rows:,} rows: if it stands for none,"
                " leave these cells empty"
            )
            remarks.append(Note(sentence, attribute))
    return remarks


def _unparted(rows: DataFrame, inputs: Inputs) -> list[str]:
    """That the proposed model takes whole sentences for words, where a script parts none."""
    if inputs.kind != "texts":
        return []
    texts = rows.get_column(inputs.columns[0]).cast(str)
    if n_unparted(texts) < UNPARTED:
        return []
    return [
        "these texts part no words by blanks, and bag-of-words takes a sentence for a word: part"
        " them by blanks first, or name a transformer in models"
    ]


def _more_texts(inputs: Inputs, text: Sequence[str] | None) -> list[str]:
    if not inputs.more_texts or text:
        return []
    two_columns = f"{inputs.columns[0]},{inputs.more_texts}"
    return [
        f"{inputs.more_texts!r} holds texts too: --text {two_columns} reads both as one text of two parts"
    ]


def _no_label(columns: Mapping[str, TableColumn], n_rows: int) -> str:
    """The refusal of a table without a column that can be predicted."""
    texts = [column.why_unused(n_rows) for column in columns.values()]
    reasons = _first_of(texts, "; ")
    return (
        "no column of 2 to 20 values or of numbers that can be a label"
        f" ({reasons or 'no column beside what a model reads'})"
    )


def _no_attribute(label: Label, attributes: Attributes) -> str:
    """The refusal of a table without a column that can be shifted."""
    reasons = list(attributes.reasons)
    if attributes.aliases:
        reasons.append(f"{_first_of(attributes.aliases)}: tell {label.name!r} entirely")
    named = f" ({_first_of(reasons, '; ')})" if reasons else ""
    return (
        f"no attribute beside the label {label.name!r}: a shift needs a column of a few values, or of"
        f" numbers, with {LEAST} rows of each value in each class{named}; --label names another label"
    )


def _seen_from(folder: Path | None, name: str) -> str:
    """A path as a study in a folder must name it: relative paths are looked for beside the study
    first."""
    path = Path(name).expanduser()
    if folder is None or path.is_absolute() or folder.resolve() == Path.cwd():
        return name
    return os.path.relpath(path.resolve(), folder.resolve())


def _check_utf8(field: str, name: str) -> None:
    """Refuse a path that no study file can hold, by an `InputError`."""
    if escaped_bytes(name) != name:
        problem = f"the path {escaped_bytes(name)} is not UTF-8, and a study file is"
        raise InputError(
            field,
            f"{problem}; run this command from within that folder, with relative paths, or"
            " rename it",
        )
