"""The actions of methods without a term of their own, read from the state that they end with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from crosswind.core.actions import IDLE_SHARE, STILL
from crosswind.methods.base import Method, State

__all__ = ["number_doubts", "numbers_of"]

LEVELS = 127.5
"""Grey levels in a unit of inputs in (-1, 1)."""
Numbers = Mapping[str, float]


def numbers_of(method: Method, state: State) -> dict[str, float]:
    """The action of the method in numbers, by name and unit: what it measures itself, and what is
    read here of ours; empty where nothing is."""
    read = _READERS.get(str(getattr(method, "registered_name", "")))
    return {**method.measured(state), **({} if read is None else read(method, state))}


def number_doubts(numbers: Numbers, said: bool) -> list[str]:
    """The doubts about numbers of methods that did next to nothing; `said`: the method tells it in
    its own words."""
    doubts = []
    if numbers.get("moved_grey_levels", STILL) < STILL and not said:
        doubts.append(
            f"it moved training pictures by less than {STILL} grey levels at the mean, so they are"
            " the pictures again"
        )
    if 0 < numbers.get("repeated_share", 0.0) < IDLE_SHARE:
        doubts.append(
            f"rows that stand in an epoch again are less than {IDLE_SHARE:.0%} of it: this run is"
            " nearly plain training"
        )
    if numbers.get("taken_for_class", 1.0) < numbers.get("pictures_taken_for_class", 0.0) / 2:
        doubts.append(
            "the nearest training picture of a translation is of its class less than half as often"
            " as that of a real picture, so translations are noise to the classifier; train the"
            " translator longer (`first`, training.steps)"
        )
    return doubts


def _copies_moved(method: Any, state: State) -> Numbers:
    """Of the last adversarial copies, at the mean; not before there are any."""
    moved = float(state["moved"])
    if moved < 0:
        return {}
    if "shown" in state:
        return {"moved_grey_levels": moved * LEVELS}
    return {"moved_units": moved}


def _restyled(method: Any, state: State) -> Numbers:
    """Of pictures of the last step and their copies."""
    is_shown = state["shown"].ne(0).flatten(1).any(1)  # a batch may have fewer than are shown
    if bool(is_shown.any()):
        moved_grey_levels = float(state["shown"][is_shown].float().diff(dim=1).abs().mean())
        return {"moved_grey_levels": moved_grey_levels}
    return {}


def _repeated(method: Any, state: State) -> Numbers:
    """The share of an epoch that is rows which stand there again, where those that are wrong stand
    `up` times."""
    wrong: Tensor = state["wrong"]
    extra_rows = (method.up - 1) * int(wrong.sum())
    return {"repeated_share": extra_rows / (len(wrong) + extra_rows)}


def _translated(method: Any, state: State) -> Numbers:
    """How often the nearest training picture has the value meant and the class, of translations and
    of pictures."""
    if "quality" not in state or bool((state["quality"] < 0).any()):
        return {}
    _, environment, pictures, translations = (float(value) for value in state["quality"])
    return {
        "taken_for_environment": environment,
        "taken_for_class": translations,
        "pictures_taken_for_class": pictures,
    }


_READERS: dict[str, Callable[[Any, State], Numbers]] = {
    "ada": _copies_moved,
    "me-ada": _copies_moved,
    "cyclegan": _translated,
    "jtt": _repeated,
    "l2d": _restyled,
}
