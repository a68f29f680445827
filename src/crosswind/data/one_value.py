"""The settings of a study, or a program, for values that may be one: `same` makes them one,
`distinct` keeps them apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crosswind.core.errors import InputError, shown, unknown
from crosswind.core.types import digest
from crosswind.data.attributes import Attribute, AttributeTable, spelled
from crosswind.data.dataset import AttributedDataset
from crosswind.data.spellings import UnitDoubts, refusal, spellings_of


def doubts_of(dataset: AttributedDataset, attribute: str) -> tuple[tuple[str, ...], ...]:
    """The values of an attribute, or of the column of units, that may be one and of which nothing
    was said, in groups."""
    if dataset.distinct is None or attribute in dataset.distinct:
        return ()
    if dataset.unit_doubts is not None and dataset.unit_doubts.column == attribute:
        return dataset.unit_doubts.groups
    values_of = {
        table_attribute.name: table_attribute.values for table_attribute in dataset.table.attributes
    }
    key = ("doubts", attribute)
    if key not in dataset.cache:
        dataset.cache[key] = (
            spellings_of(values_of[attribute]).doubts if attribute in values_of else ()
        )
    doubts: tuple[tuple[str, ...], ...] = dataset.cache[key]
    return doubts


def refuse_doubts(
    dataset: AttributedDataset, attributes: Iterable[str], field: str, how: str = ""
) -> None:
    """Raises `InputError` on `field` for the first of some attributes, or the column of units, with
    values that may be one.

    `how`: where the two entries that the sentence names are given, if not in a study file.
    """
    columns = [*attributes, *([] if dataset.unit_doubts is None else [dataset.unit_doubts.column])]
    for name in dict.fromkeys(columns):
        if doubts := doubts_of(dataset, name):
            problem = refusal(doubts, name) + (f" ({how})" if how else "")
            raise InputError(field, problem)


def with_distinct(
    dataset: AttributedDataset, attributes: Sequence[str], field: str = "distinct"
) -> AttributedDataset:
    """The data set in which the values of some attributes, or of the column of units, differ as
    they are written."""
    _check_names(dataset, attributes, field)
    distinct = (dataset.distinct or frozenset()).union(attributes)
    return replace(dataset, distinct=distinct)


def with_same(
    dataset: AttributedDataset, same: Mapping[str, Mapping[str, Sequence[Any]]], field: str = "same"
) -> AttributedDataset:
    """The data set in which several values of an attribute are one: attribute -> its name -> the
    other ways it is written.

    The name may be one of the values or a new one. Of the column of units those can be named that
    may be one. Raises `InputError` for an unknown attribute or value, and for a value that is named
    twice.
    """
    _check_names(dataset, same, field)
    for column, groups in same.items():
        path = f"{field}.{column}"
        if not isinstance(groups, Mapping) or not groups:
            raise InputError(
                path,
                f"must map a value to the other ways in which it is written, not {shown(groups)}",
            )
        listed = {}
        for name, spellings in groups.items():
            listed[spelled(name)] = [spelled(name), *map(spelled, _listed(spellings, path))]
        doubts = dataset.unit_doubts
        if doubts is not None and doubts.column == column:
            dataset = _same_units(dataset, doubts, listed, path)
        if column in dataset.table.names:
            dataset = _same_values(dataset, column, listed, path)
    return dataset


def _check_names(dataset: AttributedDataset, names: Iterable[str], field: str) -> None:
    known_names = [
        *dataset.table.names,
        *([] if dataset.unit_doubts is None else [dataset.unit_doubts.column]),
    ]
    for name in names:
        if name not in known_names:
            raise unknown(field, f"attribute of {dataset.name}", name, known_names)


def _listed(spellings: Any, path: str) -> list[Any]:
    if isinstance(spellings, str) or not isinstance(spellings, Sequence):
        raise InputError(path, f"must be a list of values, not {shown(spellings)}")
    return list(spellings)


def _same_values(
    dataset: AttributedDataset, column: str, listed: Mapping[str, list[str]], path: str
) -> AttributedDataset:
    table = dataset.table
    values = table.attribute(column).values
    name_of = list(values)
    taken: dict[str, str] = {}
    for name, texts in listed.items():
        for text in texts:
            if text not in values and text != name:
                raise unknown(path, f"value of attribute {column!r}", text, values)
            if taken.setdefault(text, name) != name:
                problem = f"{text!r} is named twice, as {taken[text]!r} and as {name!r}"
                raise InputError(path, problem)
        for text in texts:
            if text in values:
                name_of[values.index(text)] = name
    remaining_values = tuple(dict.fromkeys(name_of))
    new_code = np.array([remaining_values.index(name) for name in name_of])
    column_number = table.names.index(column)
    codes = table.codes.astype(np.int64)
    codes[column_number] = new_code[codes[column_number]]
    attributes = []
    for attribute in table.attributes:
        attributes.append(
            Attribute(column, remaining_values) if attribute.name == column else attribute
        )
    same = {column: {name: sorted(texts) for name, texts in listed.items()}}
    fingerprint = digest({"of": dataset.fingerprint, "same": same})
    return replace(dataset, table=AttributeTable(tuple(attributes), codes), fingerprint=fingerprint)


def _same_units(
    dataset: AttributedDataset, doubts: UnitDoubts, listed: Mapping[str, list[str]], path: str
) -> AttributedDataset:
    assert dataset.units is not None
    units = dataset.units.copy()
    named = set()
    for name, texts in listed.items():
        strange = [text for text in texts if text not in doubts.units]
        if strange:
            raise unknown(
                path, f"value of {doubts.column!r} that may be another", strange[0], doubts.units
            )
        numbers = [doubts.units[text] for text in texts]
        units[np.isin(units, numbers)] = doubts.units[name]
        named |= set(texts)
    groups = tuple(group for group in doubts.groups if not named.issuperset(group))
    same = {doubts.column: {name: sorted(texts) for name, texts in listed.items()}}
    fingerprint = digest({"of": dataset.fingerprint, "same": same})
    unit_doubts = UnitDoubts(doubts.column, groups, doubts.units)
    return replace(dataset, units=units, unit_doubts=unit_doubts, fingerprint=fingerprint)
