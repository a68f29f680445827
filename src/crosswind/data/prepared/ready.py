"""Which sources can be loaded here at once, told from their declarations and the cards of the copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crosswind.core.registry import Facts, facts
from crosswind.data.prepared.places import copies_under

__all__ = ["Readiness", "is_prepared", "readiness"]

ALWAYS, MOST_WORDS = "always", 30


@dataclass(frozen=True)
class Readiness:
    """Whether a source can be loaded at once.

    `word`: `always` (drawn, built in, or of files that the user names), `ready` (its copy of default settings is there), `in part`
    (only copies with other settings) or `no`. `copies`: folder and settings of each copy that is there.
    """

    word: str
    copies: tuple[Mapping[str, Any], ...] = ()

    @property
    def text(self) -> str:
        """The word, with the settings of the copies that are not the default ones; their number where that would be long."""
        others = [", ".join(f"{name}={value}" for name, value in item["other"].items()) for item in self.copies if item["other"]]
        words = "; ".join(others)
        if len(words) > MOST_WORDS:
            words = f"{len(others)} with settings"
        return f"{self.word} ({words})" if others else self.word


def is_prepared(known: Facts) -> bool:
    """Whether a source is loaded from a prepared copy."""
    return any(item.name == "root" for item in known.knobs)


def readiness(sources: Sequence[Facts], root: Path) -> dict[str, Readiness]:
    """How ready each source is, by name. Reads the cards under `root` and the sizes of the copies' files."""
    there = [copy for copy in copies_under(root) if _whole(copy)]
    found = {}
    for known in sources:
        always = not is_prepared(known) or bool(known.own) or (known.card is not None and known.card.drawn)
        copies = _copies(known, there) if is_prepared(known) else ()
        default = any(not item["other"] for item in copies)
        found[known.name] = Readiness(ALWAYS if always else "ready" if default else "in part" if copies else "no", copies)
    return found


def _copies(known: Facts, there: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    owner = facts("sources", known.copy) if known.copy else known
    defaults = {item.name: item.default for item in owner.knobs}
    found = []
    for copy in there:
        if copy["source"] == owner.name and copy.get("version") == owner.version:
            other = {name: value for name, value in copy["settings"].items() if value != defaults.get(name)}
            found.append({"folder": copy["folder"], "settings": copy["settings"], "other": other})
    return tuple(found)


def _whole(copy: Mapping[str, Any]) -> bool:
    try:
        return all(Path(copy["folder"], name).stat().st_size == size for name, size in copy["files"].items())
    except (OSError, KeyError, TypeError, AttributeError):
        return False
