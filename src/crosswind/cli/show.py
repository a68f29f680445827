"""`crosswind show KIND NAME`: the card of one thing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosswind.cli.options import AsJson, Overrides, bytes_text, print_json

if TYPE_CHECKING:
    from crosswind.core.knobs import Knob
    from crosswind.core.registry import Facts

__all__ = ["show_command"]


def show_command(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="method, model, source, shift, transform, study, run or training.")],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Its name; of a run, STORE#KEYPREFIX.")] = None,
    as_json: AsJson = False,
    image: Annotated[
        Path | None, typer.Option("--image", metavar="FILE", help="Of a transform: the picture that a contact sheet is made of.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="PNG", help="Where the contact sheet goes.")] = None,
    settings: Overrides = None,
    size: Annotated[int, typer.Option("--size", metavar="PX", help="Side of the picture, whose middle square is taken.")] = 128,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Another seed, other draws.")] = 0,
) -> None:
    """Show one thing: what it does, its settings with their domains and defaults, its source.

    Of a transform also what it looks like, from weak to strong: show transform NAME --image FILE --out PNG [--set knob=value].
    """
    from crosswind.core.errors import InputError

    if image is not None or out is not None:
        _draw_sheet(kind, name, image, out, settings or [], size, seed)
        return
    if settings:
        raise InputError("--set", "goes with --image and --out, for the contact sheet of a transform")
    if kind == "training":
        _show_training(as_json)
        return
    if name is None:
        raise InputError("NAME", f"is missing; crosswind list {kind} tells the names")
    if kind == "run":
        _show_run(name, as_json)
        return
    from crosswind.cli.list import room_of

    room = room_of(kind)
    if room == "studies":
        _show_study(name, as_json)
        return
    from crosswind.core.registry import facts

    if room == "methods":
        _show_method(name, as_json)
        return
    known = facts(room, name, "NAME")
    if as_json:
        print_json({**known.describe(), "doc": known.doc, "module": known.module})
        return
    typer.echo(f"{known.name}  ({known.kind})\n\n{known.doc}\n")
    if known.card is not None:
        _print_card(known)
    _print_knobs(known.knobs)


def _show_method(name: str, as_json: bool) -> None:
    from crosswind.reports.methods import card_lines, find_method, kind_of, method_row

    known = find_method(name)
    if as_json:
        print_json({**method_row(known), "doc": known.doc, "module": known.module})
        return
    typer.echo(f"{known.name}  ({kind_of(known)})\n")
    lines = card_lines(known)
    width = max(len(title) for title, _ in lines)
    for title, text in lines:
        typer.echo(f"{title:<{width}}  {text}")
    typer.echo(f"\n{known.doc}\n")
    _print_knobs(known.knobs)


def _draw_sheet(
    kind: str, name: str | None, image: Path | None, out: Path | None, settings: list[str], size: int, seed: int
) -> None:
    from crosswind.cli.list import room_of
    from crosswind.core.errors import InputError
    from crosswind.studies.reading import apply_settings
    from crosswind.transforms.sheet import check_place, contact_sheet, read_picture, write_png

    if room_of(kind) != "transforms" or name is None:
        raise InputError("--image", "draws a contact sheet: show transform NAME --image FILE --out PNG")
    if image is None or out is None:
        raise InputError("--out" if out is None else "--image", "is missing: a contact sheet needs --image FILE and --out PNG")
    check_place(out)
    picture = read_picture(image, size)
    write_png(contact_sheet(name, picture, apply_settings({}, settings), seed), out)
    typer.echo(f"The contact sheet is {out}")


def _print_card(known: Facts) -> None:
    from crosswind.data.prepared.paths import is_prepared, readiness, root_folder

    card = known.card
    assert card is not None
    typer.echo("Attributes")
    for name, values in card.attributes.items():
        typer.echo(f"  {name}: {_values(values)}")
    parts = ", ".join(f"{part} {count:,}" for part, count in card.totals.items())
    used = "; ".join(f"{paper}: {where}" for paper, where in card.used.items())
    files = ", ".join(f"{item.name}{f' ({bytes_text(item.size)})' if item.size else ''}" for item in card.files)
    state = readiness([known], root_folder())[known.name]
    fetched = bool(card.files) and all(item.url and (item.sha256 or item.md5) for item in card.files)
    get = card.get or (f"crosswind prepare {known.name} fetches the files" if fetched else "")
    ready = state.text + "".join(f"\n    {copy['folder']}" for copy in state.copies)
    for title, text in (
        ("Rows", parts),
        ("Pictures", card.shape),
        ("Files", files),
        ("How to get it", get),
        ("Ready here", ready if is_prepared(known) else ""),
        ("Licence", card.licence),
        ("Citation", card.citation),
        ("Used in", used),
        ("Layout of the files", card.layout),
    ):
        if text:
            typer.echo(f"{title}: {text}")
    typer.echo()


def _values(values: Any) -> str:
    if isinstance(values, int):
        return f"{values:,} values"
    return values if isinstance(values, str) else ", ".join(str(value) for value in values)


def _print_knobs(knobs: Sequence[Knob]) -> None:
    if not knobs:
        typer.echo("No settings.")
        return
    typer.echo("Settings")
    for declared in knobs:
        item = declared.describe()
        default = "required" if item["required"] else f"default {item['default']!r}"
        domain = f" in {item['domain']}" if item["domain"] else ""
        source = f" [{item['source']}]" if item["source"] else ""
        typer.echo(f"  {item['name']}: {item['type']}{domain}, {default}{source}")
        if item["doc"]:
            typer.echo(f"      {item['doc']}")
        tried = [f"search {declared.search.words()}"] if declared.search else []
        tried += [f"{paper}: {', '.join(str(value) for value in values)}" for paper, values in (declared.grid or {}).items()]
        if tried:
            typer.echo(f"      {'; '.join(tried)}")


def _show_training(as_json: bool) -> None:
    from crosswind.core.knobs import knobs_of
    from crosswind.training.settings import TrainingSettings

    knobs = knobs_of(TrainingSettings)
    if as_json:
        print_json({"name": "training", "knobs": [item.describe() for item in knobs]})
        return
    typer.echo(f"training\n\n{(TrainingSettings.__doc__ or '').strip()}\n")
    _print_knobs(knobs)


def _show_study(name: str, as_json: bool) -> None:
    from crosswind.studies.reading import find_study, read_study_file

    path = find_study(name)[1]
    values = read_study_file(path)
    if as_json:
        print_json(values)
    else:
        typer.echo(path.read_text(encoding="utf-8").rstrip())


def _show_run(word: str, as_json: bool) -> None:
    from crosswind.studies.store import Store, split_name

    place, prefix = split_name(word)
    with Store.open(place) as store:
        record = store.run(prefix)
    record["artifacts"] = None if record["artifacts"] is None else str(record["artifacts"])
    if as_json:
        print_json(record)
        return
    for key, value in record.items():
        typer.echo(f"{key}: {value}")
