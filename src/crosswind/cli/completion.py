"""Completions for a shell: kinds, names of things, studies. Files it completes by itself where
nothing else fits."""

from __future__ import annotations

from collections.abc import Iterable

import typer

ROOMS = (
    "methods",
    "models",
    "sources",
    "shifts",
    "transforms",
    "text-transforms",
    "vector-transforms",
    "estimators",
    "studies",
)
"""What can be listed."""
SHOWN = (
    *(
        room.removesuffix("s") if room != "studies" else "study"
        for room in ROOMS
        if room not in ("text-transforms", "vector-transforms")
    ),
    "run",
    "training",
)
"""What can be shown."""
FORMATS = ("text", "csv", "latex", "json")
"""How a report's tables can be written."""


def listed(incomplete: str) -> list[str]:
    """Kinds that begin so, for `list`."""
    return _beginning(ROOMS, incomplete)


def shown(incomplete: str) -> list[str]:
    """Kinds that begin so, for `show`."""
    return _beginning(SHOWN, incomplete)


def named(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of the kind that was written before."""
    kind = str(ctx.params.get("kind") or "")
    room = next(
        (room for room in ROOMS if kind in (room, room.removesuffix("s"))),
        "studies" if kind == "study" else "",
    )
    if room == "studies":
        return studies(incomplete)
    if not room:
        return []
    from crosswind.core.registry import listing

    return _beginning((component.name for component in listing(room)), incomplete)


def studies(incomplete: str) -> list[str]:
    """Shipped studies that begin so."""
    from crosswind.studies.reading import shipped_studies

    return _beginning(shipped_studies(), incomplete)


def formats(incomplete: str) -> list[str]:
    """Formats of a report that begin so."""
    return _beginning(FORMATS, incomplete)


def targets(incomplete: str) -> list[str]:
    """Targets of `export` that begin so."""
    from crosswind.reports.export import TARGETS

    return _beginning(TARGETS, incomplete)


def tools(incomplete: str) -> list[str]:
    """Tools of `run --log` that begin so."""
    from crosswind.live.trackers import TRACKERS

    return _beginning(TRACKERS, incomplete)


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
