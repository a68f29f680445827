"""The settings of shifts that the rows of a data set decide, written into a split before it is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crosswind.core.errors import InputError
from crosswind.core.registry import listing, load
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import Shift


def match_observed(split: dict[str, Any], dataset: AttributedDataset) -> None:
    """Write the matching that the rows of the data set show into every spurious correlation of a
    split that asks for it."""
    for owner, name in [
        (split, "shift"),
        *((set_values, "law") for set_values in split["sets"].values()),
    ]:
        if isinstance(owner[name], list):
            owner[name] = [
                _observed(component, dataset, split["label"], f"{name}.{number}")
                for number, component in enumerate(owner[name])
            ]


def _observed(
    component: Mapping[str, Any], dataset: AttributedDataset, label: str, field_name: str
) -> dict[str, Any]:
    """A shift as plain values with the settings that it takes from the rows."""
    name = component.get("type")
    if name not in [shift.name for shift in listing("shifts")]:
        return dict(component)  # refused where the shift is made
    cls: type[Shift] = load("shifts", str(name))
    try:
        return cls.observed_settings(component, dataset, label)
    except InputError as error:
        setting = error.field.replace("shift", field_name, 1)
        raise InputError(setting, error.problem, error.choices) from None
