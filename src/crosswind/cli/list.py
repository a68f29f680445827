"""`crosswind list KIND`: everything that is registered, with one line each."""

from __future__ import annotations

import itertools
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from crosswind.cli.completion import ROOMS, listed
from crosswind.cli.options import AsJson, Root, print_json, refuse_unheard
from crosswind.core.errors import unknown

WIDE, NARROW = 200, 130
"""Columns of text: where the width is not known, and below which a table would be all folds."""


def room_of(word: str) -> str:
    """The room that a kind names, in singular or plural; an unknown one is an `InputError`."""
    for room in ROOMS:
        if word in (room, room.removesuffix("s"), "study" if room == "studies" else room):
            return room
    raise unknown("KIND", "kind of thing", word, ROOMS)


def list_command(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help=(
                "methods, models, sources, shifts, transforms, text-transforms,"
                " vector-transforms, estimators or studies."
            ),
            autocompletion=listed,
        ),
    ] = None,
    as_json: AsJson = False,
    root: Root = None,
) -> None:
    """List what there is: methods, models, sources, shifts, transforms, text-transforms,
    vector-transforms, estimators, studies.

    Of methods also the kind, the family in each paper, what they need, the hooks that they use and
    what a training step costs beside plain training's. Architectures, which a study names in
    models, stand among them as in the papers' tables. Of sources also which can be loaded here:
    always (drawn or built in), ready (prepared), in part (with other settings), no.
    """
    room = None if kind is None else room_of(kind)
    if room != "sources":
        problem = "is where the data of sources lie: crosswind list sources --root DIR"
        refuse_unheard({"--root": root}, problem)
    if room:
        rows = _rows(room, root)
    else:
        rows = [{"name": name, "count": len(_rows(name))} for name in ROOMS]
    if as_json:
        print_json(rows)
    elif not rows:
        typer.echo(f"no {kind} yet")
    elif room == "methods":
        _print_methods()
    else:
        width = max(len(str(row["name"])) for row in rows)
        ready = max(len(str(row.get("ready", ""))) for row in rows)
        for row in rows:
            state = ""
            if "ready" in row:
                state = f"{row['ready']:<{ready}}  "
            summary = row.get("summary", row.get("count", ""))
            typer.echo(f"{row['name']:<{width}}  {state}{summary}".rstrip())


def _rows(room: str, root: str | None = None) -> list[dict[str, Any]]:
    if room == "studies":
        from crosswind.studies.reading import read_study_file, shipped_studies

        about = {
            name: str(read_study_file(path).get("about", ""))
            for name, path in shipped_studies().items()
        }
        return [{"name": name, "summary": " ".join(text.split())} for name, text in about.items()]
    from crosswind.core.registry import listing

    if room == "methods":
        from crosswind.reports.methods import listed_methods, method_row

        return [method_row(component) for component in listed_methods()]
    components = listing(room)
    if room == "sources":
        from crosswind.core.files import root_folder
        from crosswind.data.prepared.paths import readiness

        states = readiness(components, root_folder(root))
        ready = {}
        for name, state in states.items():
            copies = [dict(copy) for copy in state.copies]
            ready[name] = {"ready": state.text, "copies": copies}
        return [{**component.describe(), **ready[component.name]} for component in components]
    return [component.describe() for component in components]


def _print_methods() -> None:
    from crosswind.reports.methods import COST_MODEL, family_of, kind_of, listed_methods, short_cost

    rows = []
    for method in listed_methods():
        needs = ""
        if method.needs is not None:
            needs = "; ".join(method.needs.words())
        hooks = ""
        if method.room == "methods":
            hooks = ", ".join(method.defines)
        words = (
            short_cost(method.name),
            needs,
            hooks,
            family_of(method),
            method.summary.partition(": ")[2] or method.summary,
        )
        rows.append((method.name, kind_of(method), *(word or "-" for word in words)))
    # Where nothing says how wide the reader's screen is, wide enough.
    width = shutil.get_terminal_size((WIDE, 0)).columns
    titles = ("name", "kind", "cost", "needs", "hooks", "family (paper)", "what it does")
    for line in _columns(titles, rows, width) if width >= NARROW else _blocks(titles, rows, width):
        typer.echo(line)
    note = (
        f"cost: a training step's time beside erm's on {COST_MODEL}, or a run's or a prediction's"
        " where it says so. "
    )
    note += (
        "An architecture is named in `models` of a study. Pretraining is `weights` of an"
        " architecture."
    )
    typer.echo("\n" + textwrap.fill(note, max(20, width)))


def _columns(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """The first three columns as wide as they must be, the others folded into equal parts of the
    rest."""
    least = [max(len(row[column]) for row in [titles, *rows]) for column in range(3)]
    folded_width = (width - sum(least) - 2 * (len(titles) - 1)) // (len(titles) - 3)
    widths = [*least, *[folded_width] * (len(titles) - 3)]
    for row in [titles, *rows]:
        folded = [textwrap.wrap(text, size) for text, size in zip(row, widths, strict=True)]
        for line in itertools.zip_longest(*folded, fillvalue=""):
            yield "  ".join(
                f"{text:<{size}}" for text, size in zip(line, widths, strict=True)
            ).rstrip()


def _blocks(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """A few lines a row, for screens on which columns would be all folds."""
    for name, kind, cost, *texts, does in rows:
        yield f"{name}  {kind}  cost {cost}"
        facts = [
            f"{title.partition(' ')[0]}: {text}"
            for title, text in zip(titles[3:], texts, strict=False)
            if text != "-"
        ]
        for text in (does, *facts):
            yield textwrap.indent(textwrap.fill(text, max(20, width - 4)), "    ")
