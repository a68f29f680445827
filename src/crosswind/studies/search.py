"""Points of a random search, as many for every method of a study: none is tuned more than another.

What a study gives is kept, a list is a set of choices, and what it leaves out is drawn from the range that the setting declares
(`crosswind show method NAME`). Settings of the training loop are drawn alike for all methods: the i-th point of each has the same
learning rate. Bergstra and Bengio 2012, "Random search for hyper-parameter optimization", is why it is no grid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from crosswind.core.errors import InputError
from crosswind.core.knobs import Knob, Log, choose, knobs_of, resolve
from crosswind.core.seeds import stream
from crosswind.core.types import canonical
from crosswind.studies.spec import Search
from crosswind.training.settings import TrainingSettings

TRIES = 50
"""Draws a point before it is said that there are no more that differ."""


def searched_points(
    search: Search,
    knobs: tuple[Knob, ...],
    settings: Mapping[str, Any],
    training: Mapping[str, Any],
    paths: tuple[str, str],
    what: str,
) -> tuple[tuple[str, dict[str, Any], dict[str, Any]], ...]:
    """(label, knobs, training settings) of every point, all different; the label names what was drawn.

    `settings` and `training` are what the study gives for the method and the loop, `paths` where. Raises `InputError` where there
    are fewer points than asked for.
    """
    path, where = paths
    loop_knobs = knobs_of(TrainingSettings)
    own, loop = _ranges(knobs, settings, path), _ranges(loop_knobs, training, where)
    found: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {}
    # Without anything to draw every try is the same one, and 10,000 points would take ten seconds to refuse.
    for number in range(TRIES * search.points if own or loop else 1):
        values = {name: _drawn(item, stream(search.seed, "search", what, name, number)) for name, item in own.items()}
        shared = {name: _drawn(item, stream(search.seed, "search", name, number)) for name, item in loop.items()}
        key = canonical([values, shared])
        if key in found:
            continue
        label = ", ".join(f"{name}={point_value(value)}" for name, value in {**values, **shared}.items())
        train = resolve(loop_knobs, {**training, **shared}, where, "the training loop")
        TrainingSettings.of(train, where)
        found[key] = (label, resolve(knobs, {**settings, **values}, path, what), train)
        if len(found) == search.points:
            return tuple(found.values())
    number_told = "1 is" if len(found) == 1 else f"{len(found)} are"
    raise InputError(
        path,
        f"search asks for {search.points} points, and {number_told} all that differ: {what} draws "
        f"{', '.join([*own, *loop]) or 'nothing'}; leave out 'training.lr', or give it a list",
    )


def _ranges(knobs: tuple[Knob, ...], given: Mapping[str, Any], path: str) -> dict[str, tuple[Knob, Log]]:
    """What is drawn: settings given as a list of choices, and those left out that declare a range."""
    chosen = choices_of(knobs, given, path)
    drawn = {knob.name: (knob, choose(*chosen[knob.name])) for knob in knobs if knob.name in chosen}
    drawn |= {knob.name: (knob, knob.search) for knob in knobs if knob.name not in given and knob.search is not None}
    return {knob.name: drawn[knob.name] for knob in knobs if knob.name in drawn}


def choices_of(knobs: tuple[Knob, ...], given: Mapping[str, Any], path: str) -> dict[str, list[Any]]:
    """The settings that are given as a list of values to choose from, in their order."""
    listed = {knob.name for knob in knobs if "list" in knob.annotation or "tuple" in knob.annotation}
    found = {name: values for name, values in given.items() if isinstance(values, list) and name not in listed}
    for name, values in found.items():
        if not values:
            raise InputError(f"{path}.{name}", "is an empty list; give at least one value")
        if len({canonical(value) for value in values}) != len(values):
            raise InputError(f"{path}.{name}", "names a value twice")
    return found


def point_value(value: Any) -> str:
    """A setting as the label of a point spells it."""
    return format(value, "g") if isinstance(value, float) else str(value)


def _drawn(item: tuple[Knob, Log], generator: np.random.Generator) -> Any:
    knob, where = item
    if where.choices:
        return where.choices[int(generator.integers(len(where.choices)))]
    u = float(generator.random())
    value = where.low + u * (where.high - where.low)
    if where.log:
        value = math.exp(math.log(where.low) + u * (math.log(where.high) - math.log(where.low)))
    if "int" in knob.annotation and "float" not in knob.annotation:
        return min(int(where.high), max(int(where.low), round(value)))
    # Three digits: what a table shows is what was run.
    return min(where.high, max(where.low, float(f"{value:.3g}")))
