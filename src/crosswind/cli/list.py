"""`crosswind list KIND`: everything that is registered, with one line each."""

from __future__ import annotations

from typing import Annotated

import typer

from crosswind.cli.options import AsJson, Root, print_json

__all__ = ["list_command", "room_of"]

ROOMS = ("methods", "models", "sources", "shifts", "transforms", "text-transforms", "estimators", "studies")


def room_of(word: str) -> str:
    """The room that a kind names, in singular or plural; an unknown one is an `InputError`."""
    from crosswind.core.errors import unknown

    for room in ROOMS:
        if word in (room, room.removesuffix("s"), "study" if room == "studies" else room):
            return room
    raise unknown("KIND", "kind of thing", word, ROOMS)


def list_command(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND", help="methods, models, sources, shifts, transforms, text-transforms, estimators or studies."
        ),
    ] = None,
    as_json: AsJson = False,
    root: Root = None,
) -> None:
    """List what there is: methods, models, sources, shifts, transforms, text-transforms, estimators, studies.

    Of sources also which can be loaded here: always (drawn or built in), ready (prepared), in part (with other settings), no.
    """
    if kind is None:
        rows = [{"name": room, "count": len(_rows(room))} for room in ROOMS]
    else:
        rows = _rows(room_of(kind), root)
    if as_json:
        print_json(rows)
        return
    if not rows:
        typer.echo(f"no {kind} yet")
        return
    width = max(len(str(row["name"])) for row in rows)
    ready = max(len(str(row.get("ready", ""))) for row in rows)
    for row in rows:
        state = f"{row['ready']:<{ready}}  " if "ready" in row else ""
        typer.echo(f"{row['name']:<{width}}  {state}{row.get('summary', row.get('count', ''))}".rstrip())


def _rows(room: str, root: str | None = None) -> list[dict[str, object]]:
    if room == "studies":
        from crosswind.studies.reading import read_study_file, shipped_studies

        out: list[dict[str, object]] = []
        for name, path in shipped_studies().items():
            about = " ".join(str(read_study_file(path).get("about", "")).split())
            out.append({"name": name, "summary": about})
        return out
    from crosswind.core.registry import listing

    if room == "sources":
        from crosswind.data.prepared.places import root_folder
        from crosswind.data.prepared.ready import readiness

        known = listing(room)
        states = readiness(known, root_folder(root))
        return [
            {**item.describe(), "ready": states[item.name].text, "copies": [dict(copy) for copy in states[item.name].copies]}
            for item in known
        ]
    return [item.describe() for item in listing(room)]
