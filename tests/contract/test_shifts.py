"""What every registered shift must hold: the checks that shifts of others are told to pass."""

from __future__ import annotations

from typing import Any

import pytest

from crosswind.core.registry import listing, load
from crosswind.data.attributes import Attribute
from crosswind.shifts.base import Cells
from crosswind.testing import Check, shift_checks
from crosswind.testing.shifts import CELLS

SPLIT = Cells(CELLS.label, (*CELLS.attributes, Attribute("split", ("train", "test"))))
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "low-data-drift": [
        {"knobs": {"ratio": "1/3"}},
        {"knobs": {"count": 5, "attribute": "size"}},
        {"knobs": {"ratio": {"heart": 0.25, "default": 1}}},
    ],
    "official": [{"knobs": {"column": "split"}, "cells": SPLIT}],
    "only": [{"knobs": {"values": ["red", "blue"]}}],
    "spurious-correlation": [
        {},
        {"knobs": {"strength": 0.7}},
        {"knobs": {"counterexamples": 3, "attribute": "size", "matching": "auto"}},
    ],
    "systematic": [
        {"knobs": {"environment": "tint", "classes": {"red": "all", "blue": ["heart"]}}}
    ],
    "uniform": [{}],
    "unseen-data": [{}, {"knobs": {"unseen": ["red", "last"]}}],
}
SKIPPED = {("uniform", "changes-the-weights")}
"""The shift that is none."""
CASES = [
    pytest.param(check, id=f"{name}-{number}-{check}")
    for name, settings in SETTINGS.items()
    for number, options in enumerate(settings)
    for check in shift_checks(load("shifts", name), **options)
    if (name, check.name) not in SKIPPED
]


def test_the_sweep_finds_the_shifts() -> None:
    assert set(SETTINGS) == {item.name for item in listing("shifts")}
    assert len(CASES) >= 150


@pytest.mark.parametrize("check", CASES)
def test_the_contract_holds(check: Check) -> None:
    check()
