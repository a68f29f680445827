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
from typing import Any

from crosswind.core.errors import InputError
from crosswind.core.files import root_folder
from crosswind.core.knobs import knobs_of, only_given, resolve
from crosswind.core.registry import Facts, facts, listing, load
from crosswind.data.prepared.originals import OriginalFiles

CARD = "prepared.json"
FORMAT = 2
"""The version of the layout of prepared copies; a copy of another one is made anew."""
LONGEST_NAME = 120
MOST_WORDS = 30


def prepared_source(name: str, settings: Mapping[str, Any], field: str) -> OriginalFiles:
    """A registered source with its settings. Raises `InputError` on `field` for one that has no
    prepared copy."""
    source_facts = facts("sources", name, field)
    if not is_prepared(source_facts):
        valid = [
            source_known.name for source_known in listing("sources") if is_prepared(source_known)
        ]
        raise InputError(field, f"{name!r} is always ready and has no prepared copy", valid)
    source: OriginalFiles = load("sources", name)(
        **resolve(source_facts.knobs, settings, "", f"source {name!r}")
    )
    return source


def owner(source: OriginalFiles) -> str:
    """The name under which the copy of a source lies: its own, or that of the source it shares the
    copy with."""
    return source.copy or _name(source)


def copy_settings(source: OriginalFiles) -> dict[str, Any]:
    """The knobs that decide what is in the copy, with their values; paths of the user's own files
    are absolute."""
    settings = {}
    for knob in knobs_of(type(source)):
        if knob.name not in ("root", *source.after):
            settings[knob.name] = getattr(source, knob.name)
    for name in source.own:
        if isinstance(settings[name], str):
            settings[name] = os.path.abspath(Path(settings[name]).expanduser())
    return only_given(settings)


def copy_folder(source: OriginalFiles, root: str | os.PathLike[str] | None = None) -> Path:
    """The folder of the source's copy: its name, with every setting that is not the default as
    `-knob=value`."""
    full_name = "-".join([owner(source), *_changed(source)])
    # The name of a folder may not hold every character, and its length is limited.
    plain = re.sub(r"[^A-Za-z0-9._=-]", "-", full_name)
    if plain != full_name or len(plain) > LONGEST_NAME:
        from crosswind.core.types import digest

        plain = f"{plain[:LONGEST_NAME]}-{digest(copy_settings(source), 8)}"
    return root_folder(source.root if root is None else root) / plain


def origin_of(source: OriginalFiles) -> str:
    """The name of the collection that a copy's rows are taken from: the same whatever the size of
    the pictures."""
    return "-".join(
        [
            owner(source),
            *(setting for setting in _changed(source) if not setting.startswith("size=")),
        ]
    )


def version_of(source: OriginalFiles) -> int:
    """The version of what the source reads; a copy of an older one is made anew."""
    return facts("sources", owner(source)).version


def command(source: OriginalFiles, root: str | os.PathLike[str] | None = None, *words: str) -> str:
    """The command that makes the source's copy, as errors name it."""
    command_words = [
        "crosswind",
        "prepare",
        _name(source),
        "--root",
        str(root_folder(source.root if root is None else root)),
    ]
    for setting in _changed(source):
        command_words += ["--set", setting]
    return shlex.join([*command_words, *words])


def original_size(source: OriginalFiles) -> str:
    """How much there is to fetch or get for a source, as "10 GB"; empty where that is not known."""
    if source.own:
        return ""
    sizes = [file.size for file in source.originals()]
    if sizes and all(sizes):
        if sum(sizes) >= 1e9:
            return f"{sum(sizes) / 1e9:.1f} GB"
        return f"{sum(sizes) / 1e6:.0f} MB"
    written = re.search(r"\d[\d.,]* [KMGT]B", source.card.get)
    return written[0] if written else ""


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
    cards = []
    for path in sorted(root.glob(f"[!.]*/{CARD}")):
        folder = path.parent
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            card = read_card(folder)
            is_whole = all(
                (folder / name).stat().st_size == size for name, size in card["files"].items()
            )
            if (
                is_whole
                and card["format"] == FORMAT
                and isinstance(card["source"], str)
                and isinstance(card["settings"], dict)
            ):
                cards.append({**card, "folder": str(folder)})
    return cards


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
        other_settings = []
        for copy_card in self.copies:
            if copy_card["other"]:
                other_settings.append(
                    ", ".join(f"{name}={value}" for name, value in copy_card["other"].items())
                )
        words = "; ".join(other_settings)
        if len(words) > MOST_WORDS:
            words = f"{len(other_settings)} with settings"
        if other_settings:
            return f"{self.word} ({words})"
        return self.word


def is_prepared(source_facts: Facts) -> bool:
    """Whether a source is loaded from a prepared copy."""
    return any(knob.name == "root" for knob in source_facts.knobs)


def readiness(sources: Sequence[Facts], root: Path) -> dict[str, Readiness]:
    """How ready each source is, by name. Reads the cards under `root` and the sizes of the copies'
    files."""
    copies_there = copies_under(root)
    readiness_of = {}
    for source_facts in sources:
        copy_facts = facts("sources", source_facts.copy) if source_facts.copy else source_facts
        defaults = {known_item.name: known_item.default for known_item in copy_facts.knobs}
        copies = []
        for card in copies_there:
            if is_prepared(source_facts) and (card["source"], card.get("version")) == (
                copy_facts.name,
                copy_facts.version,
            ):
                copies.append(
                    {
                        "folder": card["folder"],
                        "settings": card["settings"],
                        "other": {
                            name: value
                            for name, value in card["settings"].items()
                            if value != defaults.get(name)
                        },
                    }
                )
        if any(not known_item["other"] for known_item in copies):
            word = "ready"
        elif copies:
            word = "in part"
        else:
            word = "no"
        always = (
            not is_prepared(source_facts)
            or source_facts.own
            or (source_facts.card is not None and source_facts.card.drawn)
        )
        readiness_of[source_facts.name] = Readiness("always" if always else word, tuple(copies))
    return readiness_of


def _name(source: OriginalFiles) -> str:
    return str(getattr(type(source), "registered_name", type(source).__name__))


def _changed(source: OriginalFiles) -> list[str]:
    """`knob=value` for every setting of the copy that is not the default."""
    from crosswind.core.types import canonical

    defaults = {knob.name: knob.default for knob in knobs_of(type(source))}
    changed = []
    for name, value in copy_settings(source).items():
        if value != defaults[name]:
            changed.append((name, value))
    return [
        f"{name}={value if isinstance(value, str) else canonical(value)}" for name, value in changed
    ]
