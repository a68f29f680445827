"""Prepared copies of data sets: originals read once, pixels in a memory map or as JPEG bytes, attributes beside them.

Public names are imported when they are first asked for: `crosswind list sources` looks at copies and needs no array library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crosswind.data.prepared.checking import check
    from crosswind.data.prepared.copies import open_copy
    from crosswind.data.prepared.making import Prepared, prepare

__all__ = ["Prepared", "check", "open_copy", "prepare"]

_HOMES = {
    "Prepared": "crosswind.data.prepared.making",
    "check": "crosswind.data.prepared.checking",
    "open_copy": "crosswind.data.prepared.copies",
    "prepare": "crosswind.data.prepared.making",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'crosswind.data.prepared' has no attribute {name!r}")
