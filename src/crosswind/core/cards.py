"""The card of a data set: facts known before any of its files is there.

The cards of the package's own sources are data, in `data/sources/cards.toml`. The registry
evaluates `card = ...` of a source without running its file, so it may use only literals and the
words of this module.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

CARDS = Path(__file__).parents[1] / "data" / "sources" / "cards.toml"
"""The file with the cards of the package's own data sets."""


@dataclass(frozen=True)
class Original:
    """One file as its authors published it.

    `name`: what it is called in the folder of originals, a relative path. `url`: where it can be
    fetched; empty where the licence or the site does not allow it. `size` in bytes, 0 where it is
    not known. `sha256` and `md5`: hexadecimal, empty where they are not known; one is enough, and a
    file with neither is never fetched. `variant`: the value of the source's knob that it belongs
    to; empty: to all.
    """

    name: str
    url: str = ""
    size: int = 0
    sha256: str = ""
    md5: str = ""
    variant: str = ""


@dataclass(frozen=True)
class Card:
    """The card of a data set.

    `attributes`: name -> values, or their number, or a few words. `totals`: part (`"train"`,
    `"all"`) -> rows, as published; empty where the data are the user's own. `shape`: height x width
    x channels of the pictures, or what a text is, in words. `licence`, `citation`: as the authors
    give them. `used`: paper -> where and how. `layout`: the source for the layout of the files.
    `get`: one sentence on what to get and from where, for files that are not fetched. `files`: the
    originals. `drawn`: with its default settings the data set is drawn or lies in a library, so
    that no file is needed.
    """

    attributes: Mapping[str, Any]
    totals: Mapping[str, int] = dataclasses.field(default_factory=dict)
    shape: str = ""
    licence: str = ""
    citation: str = ""
    used: Mapping[str, str] = dataclasses.field(default_factory=dict)
    layout: str = ""
    get: str = ""
    files: tuple[Original, ...] = ()
    drawn: bool = False

    def describe(self) -> dict[str, Any]:
        """The card as plain values for JSON, empty entries left out."""
        description = {key: value for key, value in vars(self).items() if value and key != "files"}
        description["attributes"] = {
            name: list(values) if isinstance(values, tuple) else values
            for name, values in self.attributes.items()
        }
        if self.files:
            description["files"] = [
                {key: value for key, value in vars(file).items() if value} for file in self.files
            ]
        return description


def card_of(name: str) -> Card:
    """The card of one of the package's own sources. Raises `KeyError` for a name that has none."""
    facts = dict(_tables()[name])
    base = facts.pop("base", "")
    facts["attributes"] = {
        attribute: tuple(values) if isinstance(values, list) else values
        for attribute, values in facts["attributes"].items()
    }
    facts["files"] = tuple(_original(base, *row) for row in facts.get("files", ()))
    return Card(**facts)


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(CARDS.read_text(encoding="utf-8"))


def _original(
    base: str, name: str, address: str, size: int, digits: str, variant: str = ""
) -> Original:
    full_address = address if "://" in address else base + address
    if address == "none":
        url = ""
    elif full_address.endswith("/"):
        url = full_address + name
    else:
        url = full_address
    return Original(
        name, url, size, **{"md5" if len(digits) == 32 else "sha256": digits}, variant=variant
    )
