"""A study file for somebody's own table: its columns looked at, label and attributes proposed,
sizes that fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from crosswind.core.errors import DataError, InputError, escaped_bytes, unknown
from crosswind.data.decoding import IMAGE_ENDINGS
from crosswind.data.rules import WORD
from crosswind.data.spellings import shown_apart, spellings_of
from crosswind.data.tabular import MISSING, has_column, read_table

if TYPE_CHECKING:
    from polars import DataFrame, Series

MOST_VALUES = 20
"""A column of more different values is not proposed as label or attribute."""
LABELS = (
    "label",
    "gold_label",
    "class",
    "target",
    "y",
    "sentiment",
    "stars",
    "rating",
    "overall",
    "category",
    "species",
    "diagnosis",
    "answer",
)
"""Usual names of the column that is to be told, the surest first."""
UNITS = (
    "patient",
    "subject",
    "person",
    "user",
    "photographer",
    "author",
    "video",
    "site_id",
    "unit",
    "group_id",
    "pair",
    "pair_id",
    "batch_id",
)
LENGTH = "length"
"""The attribute of texts that is proposed where there is no column for one."""
LEAST, MOST_TEST = 4, 25
"""Rows of the smallest cell that a study needs, and the most rows of a cell that test."""
MOST_SPELLINGS = 200
"""A column of more different texts is not looked through for values that are written in several
ways."""
SPLITS = ("split", "fold", "partition", "subset")
"""A column of such a name says which rows trained elsewhere: an attribute only where there is no
other."""


@dataclass(frozen=True)
class Proposal:
    """A study file as `text`, and what was seen of the table in `notes`, a sentence each."""

    text: str
    notes: tuple[str, ...]


def propose(
    table: str,
    images: str | None = None,
    label: str | None = None,
    size: int = 32,
    text: Sequence[str] | None = None,
    header: Sequence[str] | None = None,
) -> Proposal:
    """A commented study for a CSV or Parquet table with a column of paths of images, or of texts.

    `images`: their folder; by default the table's own, or one beside it in which the first image
    lies. `label`: the column that is to be told; by default one of a usual name, else the first
    that fits. `text`: the columns of a text's parts, mostly one; by default, where there are no
    paths, the one of most words. `header`: names of the columns of a table without any.
    Raises `InputError`, `DataError`.
    """
    rows = read_table(table, "TABLE", header, "name its columns, such as --header {names}")
    for name in text or ():
        has_column(rows, name, table, "--text")
    path_column = None if text else _paths(rows)
    image_column = path_column or (None if text else _longest(rows))
    columns = list(text or ([] if image_column is None else [image_column]))
    if not columns:
        endings = ", ".join(IMAGE_ENDINGS[:4])
        raise DataError(
            f"{table} has no column of paths of images ({endings}, ...) and none of texts: name the"
            " images in one"
        )
    folder = (
        None if path_column is None else _folder(Path(table), images, str(rows[path_column][0]))
    )
    rows, spelled, spelling_notes = _one_value_each(
        rows, [name for name in rows.columns if name not in columns]
    )
    fits = {
        name: values
        for name in rows.columns
        if name not in columns and (values := _values(rows, name)) is not None
    }
    if label is not None and label not in rows.columns:
        raise unknown("--label", f"column of {table}", label, rows.columns)
    if label is not None and label not in fits:
        raise InputError(
            "--label",
            f"{label!r} has missing values, one value, or more than {MOST_VALUES} values",
            list(fits),
        )
    named = sorted(
        (name for name in fits if name.lower() in LABELS),
        key=lambda name: LABELS.index(name.lower()),
    )
    chosen = label or (named or list(fits) or [""])[0]
    attributes, rule = [name for name in fits if name != chosen], None
    if not attributes and fits and not path_column and LENGTH not in rows.columns:
        cut = max(1, int(_counts(rows, columns).median()) + 1)  # type: ignore[arg-type]
        rows = rows.with_columns((_counts(rows, columns) >= cut).cast(int).alias(LENGTH))
        attributes, rule = [LENGTH], cut
        fits[LENGTH] = [
            f"0-{cut - 1}" if cut > 1 else "0",
            f"{cut}+",
        ]  # as `crosswind.data.rules` calls them
    if not attributes:
        raise DataError(
            f"{table} needs two columns of 2 to {MOST_VALUES} values without missing ones: a label"
            " and an attribute"
        )
    smallest = {name: _smallest(rows, chosen, name) for name in attributes}
    attribute = max(
        attributes,
        key=lambda name: (smallest[name] >= LEAST and name.lower() not in SPLITS, smallest[name]),
    )
    if smallest[attribute] < LEAST:
        raise DataError(
            f"{table}: with the label {chosen!r} no attribute has {LEAST} rows in each cell"
            f" ({attribute!r} comes nearest, {smallest[attribute]}): a shift needs rows of every"
            " combination"
        )
    unit = next(
        (
            name
            for name in rows.columns
            if name.lower() in UNITS and name != chosen and name not in fits
        ),
        None,
    )
    test = max(1, min(MOST_TEST, smallest[attribute] // 3))
    counts = rows[attribute].cast(str).str.strip_chars().value_counts(sort=True)
    rare = str(counts[attribute][-1])
    rare = rare if rule is None else fits[LENGTH][int(rare)]
    other_attributes = [name for name in attributes if name != attribute]
    several = "columns" if len(columns) > 1 else "column"
    where = (
        f"texts in {several} {', '.join(map(repr, columns))}"
        if folder is None
        else f"images by column {image_column!r} in {folder}"
    )
    notes = [
        f"{rows.height:,} rows; {where}",
        *(
            []
            if rule is None
            else [
                f"no column beside them is an attribute: {LENGTH!r} tells texts of {rule} words and"
                " more"
            ]
        ),
        (
            f"label {chosen!r} ({len(fits[chosen])} values), attribute {attribute!r}"
            f" ({len(fits[attribute])} values); the smallest cell of both has {smallest[attribute]}"
            " rows"
        ),
    ]
    used = (chosen, *attributes)
    notes += [text for name, text in spelling_notes if name in used]
    left = [name for name in rows.columns if name not in (*columns, chosen, *attributes, unit)]
    notes += (
        [f"not proposed (missing values, one value or more than {MOST_VALUES}): {', '.join(left)}"]
        if left
        else []
    )
    options: dict[str, object] = {"path": table} | (
        {} if header is None else {"header": list(header)}
    )
    if folder is not None:
        options |= {"images": folder, "path_column": image_column, "size": size}
    else:
        options |= {"text": columns[0] if len(columns) == 1 else columns}
        words_column = next((name for name in left if not text and _words(rows, name) >= 3), None)
        notes += (
            [
                f"{words_column!r} holds texts too: --text {columns[0]},{words_column} reads both"
                " as one text of two parts"
            ]
            if words_column
            else []
        )
        blank = sum(
            not all(str(cell or "").strip() for cell in row)
            for row in rows.select(columns).iter_rows()
        )
        if blank:
            options["blank"] = "leave-out"
            notes.append(f"{blank:,} rows without a text are left out")
    for field, name in (("TABLE", table), ("--images", folder or "")):
        _check_utf8(field, name)
    spelled = {
        key: {name: entry for name, entry in entries.items() if name in used}
        for key, entries in spelled.items()
    }
    trained = _PICTURES if folder is not None else _TEXTS
    study_text = _text(
        options, chosen, attribute, other_attributes, unit, test, rare, rule, spelled, trained
    )
    return Proposal(study_text, tuple(notes))


def _check_utf8(field: str, name: str) -> None:
    """Refuse a path that no study file can hold, by an `InputError`."""
    if escaped_bytes(name) != name:
        problem = f"the path {escaped_bytes(name)} is not UTF-8, and a study file is"
        raise InputError(
            field,
            f"{problem}; run this command from within that folder, with relative paths, or"
            " rename it",
        )


_PICTURES = """\
models: [small-cnn]        # crosswind list models; resnet18 is what papers use, and slower
methods: {erm: {}, groupdro: {shifts: [SC]}, jtt: {shifts: [SC]}, randaugment: {shifts: [UDS]}}
training: {steps: 160, batch: 64, lr: 0.001, validate_every: 40, patience: null}
"""
_TEXTS = """\
models: [bag-of-words]     # seconds a run; text-cnn and transformer read the order of words, and are slower
methods: {erm: {}, groupdro: {shifts: [SC]}, jtt: {shifts: [SC]}}
training: {steps: 200, batch: 64, lr: 0.01, validate_every: 20, patience: null}
"""


def _one_value_each(
    rows: DataFrame, columns: Sequence[str]
) -> tuple[DataFrame, dict[str, dict[str, object]], list[tuple[str, str]]]:
    """The rows with each value of some columns written in one way, what a study says of it, and a
    sentence of each by column.

    What is surely one is made one, as a study does by itself. What may be one is proposed as one,
    by `same`: a person who reads the study can say otherwise. Where a single value would be left
    the values are proposed as `distinct`.
    """
    import polars

    entries: dict[str, dict[str, object]] = {"same": {}, "distinct": {}}
    notes = []
    for name in columns:
        if rows[name].dtype.is_nested() or rows[name].dtype in (polars.Binary, polars.Object):
            continue
        raw = rows[name].cast(polars.String, strict=False)
        if raw.n_unique() > MOST_SPELLINGS:
            continue
        spellings = spellings_of(raw.drop_nulls().unique().sort().to_list())
        names = dict(spellings.names)
        if spellings.names:
            notes.append((name, spellings.said(name)))
        shown = raw.replace(names).str.strip_chars()
        groups = [[value.strip() for value in group] for group in spellings.doubts]
        if groups and shown.n_unique() - sum(len(group) - 1 for group in groups) < 2:
            entries["distinct"][name] = True
            notes.append(
                (name, f"values of {name!r} that look alike are taken as different ones (distinct)")
            )
        elif groups:
            counts = dict(shown.value_counts().iter_rows())
            chosen = {max(group, key=lambda value: counts[value]): group for group in groups}
            entries["same"][name] = {
                value: [spelling for spelling in group if spelling != value]
                for value, group in chosen.items()
            }
            shown = shown.replace(
                {spelling: value for value, group in chosen.items() for spelling in group}
            )
            notes.append(
                (
                    name,
                    (
                        f"{_alike(groups)} of {name!r} may be one value: the study takes them as"
                        " one (same)"
                    ),
                )
            )
        if spellings.names or groups:
            rows = rows.with_columns(shown.alias(name))
    return rows, entries, notes


def _alike(groups: Sequence[Sequence[str]]) -> str:
    more_pairs = f" and {len(groups) - 1} more such pairs" if len(groups) > 1 else ""
    return " and ".join(shown_apart(groups[0])) + more_pairs


def _paths(rows: DataFrame) -> str | None:
    import polars

    texts = [name for name in rows.columns if rows[name].dtype == polars.String and rows[name][0]]
    return next(
        (name for name in texts if str(rows[name][0]).lower().endswith(IMAGE_ENDINGS)), None
    )


def _counts(rows: DataFrame, columns: Sequence[str]) -> Series:
    """The words of every text, of all its parts."""
    import polars

    joined_texts = polars.concat_str(
        [polars.col(name).cast(polars.String).fill_null("") for name in columns], separator=" "
    )
    return rows.select(joined_texts.str.count_matches(WORD.pattern)).to_series()


def _longest(rows: DataFrame) -> str | None:
    """The column of texts of most words on average, three at least."""
    best = max(rows.columns, key=lambda name: _words(rows, name), default=None)
    return best if best is not None and _words(rows, best) >= 3 else None


def _words(rows: DataFrame, name: str) -> float:
    """Words of a cell on average, 0 for what is no column of texts."""
    import polars

    if rows[name].dtype != polars.String:
        return 0.0
    return float(rows[name].str.count_matches(r"\S+").mean() or 0)  # type: ignore[arg-type]


def _folder(table: Path, images: str | None, first: str) -> str:
    if images is not None:
        if not Path(images).is_dir():
            raise InputError("--images", f"{images!r} is no folder")
        return images
    below = sorted(path for path in table.parent.iterdir() if path.is_dir())
    for folder in (table.parent, *below):
        if (folder / first).is_file():
            return str(folder)
    raise InputError(
        "--images",
        f"is needed: {first!r} lies neither beside {table.name} nor in a folder beside it",
    )


def _values(rows: DataFrame, name: str) -> list[str] | None:
    """The values of a column that can be a label or an attribute: 2 to `MOST_VALUES`, none
    missing."""
    import polars

    if rows[name].dtype.is_nested() or rows[name].dtype in (polars.Binary, polars.Object):
        return None
    texts = rows[name].cast(polars.String, strict=False).str.strip_chars()
    distinct = texts.unique().to_list()
    lacking = any(value is None or value.lower() in MISSING for value in distinct)
    return sorted(distinct) if 2 <= len(distinct) <= MOST_VALUES and not lacking else None


def _smallest(rows: DataFrame, label: str, attribute: str) -> int:
    """Rows of the smallest cell of label and attribute, 0 where one is empty."""
    codes = [
        np.unique(rows[name].cast(str).str.strip_chars().to_numpy(), return_inverse=True)
        for name in (label, attribute)
    ]
    shape = [len(values) for values, _ in codes]
    return int(
        np.bincount(
            np.ravel_multi_index([code for _, code in codes], shape), minlength=shape[0] * shape[1]
        ).min()
    )


def _text(
    source_options: dict[str, object],
    label: str,
    attribute: str,
    other_attributes: Sequence[str],
    unit: str | None,
    test: int,
    rare: str,
    rule: int | None,
    spelled: Mapping[str, Mapping[str, object]],
    trained: str,
) -> str:
    import yaml

    def word(value: object) -> str:
        return (
            str(yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=1000))
            .removesuffix("...\n")
            .strip()
        )

    options = word(
        {
            **source_options,
            "columns": [label, *([attribute, *other_attributes] if rule is None else [])],
        }
    )
    grouped = (
        f"    unit: {word(unit)}    # rows of one {unit} are never in both training and test\n"
        if unit
        else ""
    )
    grouped = (
        grouped
        or "    # unit: COLUMN   # rows of one value, such as a patient, are never in both training and test\n"
    )
    more_lines = (
        f"    # more attributes that fit: {', '.join(other_attributes)}\n"
        if other_attributes
        else ""
    )
    more_lines += (
        ""
        if rule is None
        else (
            f"    rules: {{{attribute}: {{words: [{rule}]}}}}    # shorter texts, and those of so"
            " many words and more\n"
        )
    )
    if spelled["same"]:
        more_lines += (
            f"    same: {word(dict(spelled['same']))}    # other ways in which a value is written\n"
        )
    if spelled["distinct"]:
        more_lines += (
            f"    distinct: {word(list(spelled['distinct']))}    # values that differ though they"
            " look alike\n"
        )
    if unit:
        options = options.replace("}", f", unit: {word(unit)}}}")
        grouped = ""
    return f"""# What does each shift cost a classifier of {label}, and which method helps?
#   crosswind plan FILE      says what would run; trains nothing
#   crosswind run FILE       runs it and writes a page of what was found
data:
  own:
    source: table
    options: {options}
    label: {word(label)}
    attributes: [{word(attribute)}]
{more_lines}{grouped}    roles: {{test: {test}, validation: 0.15}}    # test rows of each cell; a share of the others validates
shifts:
  none: []
  # the attribute goes with the label in training, but for 10% counterexamples
  SC: {{type: spurious-correlation, attribute: {word(attribute)}, counterexamples: 0.1}}
  # the rarest value is never seen in training
  UDS: {{type: unseen-data, attribute: {word(attribute)}, unseen: {word(rare)}}}
# sizes: {{equal: equal}}   # by default every shift draws as many rows as the narrowest leaves
groups: [{word(attribute)}]
{trained}seeds: 5
"""
