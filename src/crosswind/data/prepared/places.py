"""Where prepared copies lie and what they are called, told without opening any."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosswind.core.errors import DataError
from crosswind.core.knobs import knobs_of

if TYPE_CHECKING:
    from crosswind.data.sources.base import PreparedSource

__all__ = [
    "CARD",
    "FORMAT",
    "ROOT_VARIABLE",
    "command",
    "copies_under",
    "copy_folder",
    "copy_settings",
    "origin_of",
    "originals_folder",
    "owner",
    "read_card",
    "root_folder",
    "version_of",
]

ROOT_VARIABLE = "CROSSWIND_DATA"
"""The environment variable that names the folder of prepared data."""
CARD = "prepared.json"
FORMAT = 2
"""The version of the layout of prepared copies; a copy of another one is made anew. Copies of 1 had no hash of each picture."""
_LONGEST = 120


def root_folder(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder of prepared data: `root`, else what CROSSWIND_DATA names, else ~/.cache/crosswind/data; always absolute."""
    given = root or os.environ.get(ROOT_VARIABLE) or Path("~/.cache/crosswind/data")
    try:
        if "\0" in str(given):
            raise ValueError("its name holds a zero byte")
        return Path(os.path.abspath(Path(given).expanduser()))
    except (RuntimeError, ValueError) as error:  # no home
        raise DataError(f"{given} cannot be the folder of prepared data: {error}") from None


def owner(source: PreparedSource) -> str:
    """The name under which the copy of a source lies: its own, or that of the source it shares the copy with."""
    return type(source).copy or _name(source)


def copy_settings(source: PreparedSource) -> dict[str, Any]:
    """The knobs that decide what is in the copy, with their values; paths of the user's own files are absolute."""
    names = [item.name for item in knobs_of(type(source)) if item.name not in ("root", *type(source).after)]
    found = {name: getattr(source, name) for name in names}
    for name in type(source).own:
        if isinstance(found[name], str):
            found[name] = os.path.abspath(Path(found[name]).expanduser())
    return found


def copy_folder(source: PreparedSource, root: str | os.PathLike[str] | None = None) -> Path:
    """The folder of the source's copy: its name, with every setting that is not the default as `-knob=value`."""
    whole = "-".join([owner(source), *_told(source)])
    # A name of a file may not hold everything that a value may, and its length has an end.
    plain = re.sub(r"[^A-Za-z0-9._=-]", "-", whole)
    if plain != whole or len(plain) > _LONGEST:
        from crosswind.core.types import digest

        plain = f"{plain[:_LONGEST]}-{digest(copy_settings(source), 8)}"
    return root_folder(source.root if root is None else root) / plain


def originals_folder(source: PreparedSource, root: str | os.PathLike[str] | None = None) -> Path:
    """Where the original files of a source are looked for: all its settings share the folder."""
    return root_folder(source.root if root is None else root) / "originals" / owner(source)


def origin_of(source: PreparedSource) -> str:
    """The name of what a copy's rows are taken from: the same whatever the size of the pictures."""
    return "-".join([owner(source), *(setting for setting in _told(source) if not setting.startswith("size="))])


def version_of(source: PreparedSource) -> int:
    """The version of what the source reads; a copy of an older one is made anew."""
    from crosswind.core.registry import facts

    return facts("sources", owner(source)).version


def command(source: PreparedSource, root: str | os.PathLike[str] | None = None, *words: str) -> str:
    """The command that makes the source's copy, as errors name it."""
    place = root_folder(source.root if root is None else root)
    parts = ["crosswind", "prepare", _name(source), "--root", str(place)]
    for setting in _told(source):
        parts += ["--set", setting]
    return shlex.join([*parts, *words])


def read_card(folder: Path) -> dict[str, Any]:
    """The JSON card of a copy; `OSError` where there is none, `ValueError` for one that is no card."""
    try:
        values = json.loads((folder / CARD).read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(values, dict) or not isinstance(values.get("format"), int):
        raise ValueError("is not the card of a prepared copy")
    return values


def copies_under(root: Path) -> list[dict[str, Any]]:
    """The cards of all copies of this format in a folder, by folder; nothing for a folder that cannot be read."""
    found = []
    try:
        folders = sorted(place for place in root.iterdir() if not place.name.startswith("."))
    except OSError:
        return []
    for folder in folders:
        try:
            values = read_card(folder)
        except (OSError, ValueError):
            continue
        if values["format"] == FORMAT and isinstance(values.get("source"), str) and isinstance(values.get("settings"), Mapping):
            found.append({**values, "folder": str(folder)})
    return found


def _name(source: PreparedSource) -> str:
    return str(getattr(type(source), "registered_name", type(source).__name__))


def _told(source: PreparedSource) -> list[str]:
    """`knob=value` for every setting of the copy that is not the default."""
    from crosswind.core.types import canonical

    defaults = {item.name: item.default for item in knobs_of(type(source))}
    told = [(name, value) for name, value in copy_settings(source).items() if value != defaults[name]]
    return [f"{name}={value if isinstance(value, str) else canonical(value)}" for name, value in told]
