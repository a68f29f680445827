"""Where prepared copies lie, what they are called, and which sources can be loaded at once; no copy
is opened for it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosswind.core.errors import InputError
from crosswind.core.files import root_folder
from crosswind.core.knobs import knobs_of, only_given, resolve
from crosswind.core.registry import Facts, facts, listing, load

if TYPE_CHECKING:
    from crosswind.data.sources.base import PreparedSource

CARD = "prepared.json"
FORMAT = 2
"""The version of the layout of prepared copies; a copy of another one is made anew."""
LONGEST_NAME = 120
MOST_WORDS = 30


def prepared_source(name: str, settings: Mapping[str, Any], field: str) -> PreparedSource:
    """A registered source with its settings. Raises `InputError` on `field` for one that has no
    prepared copy."""
    known = facts("sources", name, field)
    if not is_prepared(known):
        valid = [item.name for item in listing("sources") if is_prepared(item)]
        raise InputError(field, f"{name!r} is always ready and has no prepared copy", valid)
    made: PreparedSource = load("sources", name)(
        **resolve(known.knobs, settings, "", f"source {name!r}")
    )
    return made


def owner(source: PreparedSource) -> str:
    """The name under which the copy of a source lies: its own, or that of the source it shares the
    copy with."""
    return source.copy or _name(source)


def copy_settings(source: PreparedSource) -> dict[str, Any]:
    """The knobs that decide what is in the copy, with their values; paths of the user's own files
    are absolute."""
    settings = {
        item.name: getattr(source, item.name)
        for item in knobs_of(type(source))
        if item.name not in ("root", *source.after)
    }
    for name in source.own:
        if isinstance(settings[name], str):
            settings[name] = os.path.abspath(Path(settings[name]).expanduser())
    return only_given(settings)


def copy_folder(source: PreparedSource, root: str | os.PathLike[str] | None = None) -> Path:
    """The folder of the source's copy: its name, with every setting that is not the default as
    `-knob=value`."""
    whole = "-".join([owner(source), *_changed(source)])
    # The name of a folder may not hold every character, and its length is limited.
    plain = re.sub(r"[^A-Za-z0-9._=-]", "-", whole)
    if plain != whole or len(plain) > LONGEST_NAME:
        from crosswind.core.types import digest

        plain = f"{plain[:LONGEST_NAME]}-{digest(copy_settings(source), 8)}"
    return root_folder(source.root if root is None else root) / plain


def origin_of(source: PreparedSource) -> str:
    """The name of the collection that a copy's rows are taken from: the same whatever the size of
    the pictures."""
    return "-".join(
        [
            owner(source),
            *(setting for setting in _changed(source) if not setting.startswith("size=")),
        ]
    )


def version_of(source: PreparedSource) -> int:
    """The version of what the source reads; a copy of an older one is made anew."""
    return facts("sources", owner(source)).version


def command(source: PreparedSource, root: str | os.PathLike[str] | None = None, *words: str) -> str:
    """The command that makes the source's copy, as errors name it."""
    parts = [
        "crosswind",
        "prepare",
        _name(source),
        "--root",
        str(root_folder(source.root if root is None else root)),
    ]
    for setting in _changed(source):
        parts += ["--set", setting]
    return shlex.join([*parts, *words])


def read_card(folder: Path) -> dict[str, Any]:
    """The JSON card of a copy; `OSError` where there is none, `ValueError` for one that is no
    card."""
    try:
        values = json.loads((folder / CARD).read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(values, dict) or not isinstance(values.get("format"), int):
        raise ValueError("is not the card of a prepared copy")
    return values


def copies_under(root: Path) -> list[dict[str, Any]]:
    """The cards, with `folder`, of all whole copies of this format in a folder; nothing for a
    folder that cannot be read."""
    found = []
    for path in sorted(root.glob(f"[!.]*/{CARD}")):
        folder = path.parent
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            card = read_card(folder)
            whole = all(
                (folder / name).stat().st_size == size for name, size in card["files"].items()
            )
            if (
                whole
                and card["format"] == FORMAT
                and isinstance(card["source"], str)
                and isinstance(card["settings"], dict)
            ):
                found.append({**card, "folder": str(folder)})
    return found


@dataclass(frozen=True)
class Readiness:
    """Whether a source can be loaded at once.

    `word`: `always` (drawn, built in, or of files that the user names), `ready` (its copy of
    default settings is there), `in part` (only copies with other settings) or `no`. `copies`:
    folder, settings and those `other` than the default of each copy.
    """

    word: str
    copies: tuple[Mapping[str, Any], ...] = ()

    @property
    def text(self) -> str:
        """The word, with the settings of the copies that are not the default ones; their number
        where that would be long."""
        others = [
            ", ".join(f"{name}={value}" for name, value in item["other"].items())
            for item in self.copies
            if item["other"]
        ]
        words = "; ".join(others)
        if len(words) > MOST_WORDS:
            words = f"{len(others)} with settings"
        return f"{self.word} ({words})" if others else self.word


def is_prepared(known: Facts) -> bool:
    """Whether a source is loaded from a prepared copy."""
    return any(item.name == "root" for item in known.knobs)


def readiness(sources: Sequence[Facts], root: Path) -> dict[str, Readiness]:
    """How ready each source is, by name. Reads the cards under `root` and the sizes of the copies'
    files."""
    there = copies_under(root)
    found = {}
    for known in sources:
        of = facts("sources", known.copy) if known.copy else known
        defaults = {item.name: item.default for item in of.knobs}
        copies = [
            {
                "folder": card["folder"],
                "settings": card["settings"],
                "other": {
                    name: value
                    for name, value in card["settings"].items()
                    if value != defaults.get(name)
                },
            }
            for card in there
            if is_prepared(known) and (card["source"], card.get("version")) == (of.name, of.version)
        ]
        word = (
            "ready" if any(not item["other"] for item in copies) else "in part" if copies else "no"
        )
        always = (
            not is_prepared(known) or known.own or (known.card is not None and known.card.drawn)
        )
        found[known.name] = Readiness("always" if always else word, tuple(copies))
    return found


def _name(source: PreparedSource) -> str:
    return str(getattr(type(source), "registered_name", type(source).__name__))


def _changed(source: PreparedSource) -> list[str]:
    """`knob=value` for every setting of the copy that is not the default."""
    from crosswind.core.types import canonical

    defaults = {item.name: item.default for item in knobs_of(type(source))}
    changed = [
        (name, value) for name, value in copy_settings(source).items() if value != defaults[name]
    ]
    return [
        f"{name}={value if isinstance(value, str) else canonical(value)}" for name, value in changed
    ]
