"""Crosswind: a wind tunnel for classifiers.

Public names are imported when they are first asked for, so that `import crosswind` and the command line start at once.
"""

from __future__ import annotations

from importlib import import_module

__all__ = ["__version__"]

__version__ = "0.1.0"

# public name -> module that defines it; every name also belongs in __all__
_HOMES: dict[str, str] = {}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'crosswind' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
