"""Prepared copies of data sets: originals read once, pixels in a memory map or as JPEG bytes,
attributes beside them.

Public names are imported on first use: `crosswind list sources` looks at copies and needs no array
library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crosswind.data.prepared.build import Prepared, prepare
    from crosswind.data.prepared.copies import check, open_copy

__all__ = ["Prepared", "check", "open_copy", "prepare"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'crosswind.data.prepared' has no attribute {name!r}")
    room = "build" if name in ("Prepared", "prepare") else "copies"
    return getattr(import_module(f"crosswind.data.prepared.{room}"), name)
