"""The effect of a shift on the training rows, in words of no field: "ink gives the label away",
from the study that declares it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

_VALUES_SHOWN = 3
"""Values of an attribute that are named before the others are counted."""

Settings = Mapping[str, Any]


def shift_clause(shift: str, resolved: Settings, data: str = "") -> str:
    """The look of training under a shift, as a clause without an end; empty where nothing can be
    said, as of a shift of another package.

    `resolved`: the study with every default; `data`: the data set whose names of attributes are
    meant.
    """
    parts = _parts(resolved.get("shifts", {}).get(shift, ()))
    if is_combination(shift, resolved):
        return f"{joined(list(map(str, parts)))} come together"
    entry = resolved.get("data", {}).get(data)
    entry = entry if isinstance(entry, Mapping) else {}
    clauses = [_clause(part, resolved, entry, data) for part in parts]
    return joined(clauses) if all(clauses) else ""


def is_combination(shift: str, resolved: Settings) -> bool:
    """Whether a shift is several others of the study at once."""
    parts = _parts(resolved.get("shifts", {}).get(shift, ()))
    return len(parts) > 1 and all(isinstance(part, str) for part in parts)


def _parts(declared: Any) -> Sequence[Any]:
    """The shifts that a declared one is made of, each a name or its settings."""
    return declared if isinstance(declared, list | tuple) else [declared]


def _clause(part: Any, resolved: Settings, entry: Settings, data: str) -> str:
    """One shift of those that come together."""
    if isinstance(part, str):
        return shift_clause(part, resolved, data)
    if not isinstance(part, Mapping):
        return ""
    words = _WORDS.get(str(part.get("type")))
    return "" if words is None else words(part, entry)


def _attribute(name: Any, entry: Settings) -> str:
    """An attribute as the data set calls it; studies of several data sets give it a name of their
    own."""
    attributes = entry.get("attributes")
    called = attributes.get(name, name) if isinstance(attributes, Mapping) else name
    return str(called)


def _label(entry: Settings) -> str:
    """The label with its name, where the data set is known and the name says more."""
    name = entry.get("label")
    return f"the label ({name})" if name and str(name).lower() != "label" else "the label"


def _spurious(part: Settings, entry: Settings) -> str:
    return f"{_attribute(part.get('attribute'), entry)} gives {_label(entry)} away"


def _rare(part: Settings, entry: Settings) -> str:
    attribute = _attribute(part.get("attribute"), entry)
    return f"{_valued(attribute, part.get('low'))} rare"


def _unseen(part: Settings, entry: Settings) -> str:
    attribute = _attribute(part.get("attribute"), entry)
    return f"{_valued(attribute, part.get('unseen'))} never seen"


def _apart(part: Settings, entry: Settings) -> str:
    environment = _attribute(part.get("environment"), entry)
    return f"some values of {_label(entry)} are never seen with some of {environment}"


def _official(part: Settings, entry: Settings) -> str:
    return "training rows are those of the data set's own split"


def _only(part: Settings, entry: Settings) -> str:
    attribute = _attribute(part.get("attribute"), entry)
    values = _listed(part.get("values"))
    return f"{attribute} is {_counted(values)} only" if values else f"{attribute} has few values"


_WORDS: Mapping[str, Callable[[Settings, Settings], str]] = {
    "spurious-correlation": _spurious,
    "low-data-drift": _rare,
    "unseen-data": _unseen,
    "systematic": _apart,
    "official": _official,
    "only": _only,
}


def _valued(attribute: str, values: Any) -> str:
    """The subject of a sentence on some values of an attribute, with its verb."""
    named = _listed(values)
    if not named:
        return f"some values of {attribute} are"
    if named in (["first"], ["last"]):
        return f"the {named[0]} value of {attribute} is"
    return f"{attribute} {_counted(named)} is"


def _listed(values: Any) -> list[str]:
    """The values of an attribute that a study names; empty where they differ by class or are drawn."""
    if isinstance(values, str):
        return [values]
    if isinstance(values, list | tuple):
        return [str(value) for value in values]
    return []


def _counted(names: Sequence[str]) -> str:
    shown, hidden = list(names[:_VALUES_SHOWN]), len(names) - _VALUES_SHOWN
    return joined([*shown, f"{hidden} more"] if hidden > 0 else shown, "or")


def joined(words: Sequence[str], last: str = "and") -> str:
    """Words as a list in a sentence."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
