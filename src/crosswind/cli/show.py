"""`crosswind show KIND NAME`: the card of one thing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosswind.cli import completion
from crosswind.cli.completion import ROOMS, SHOWN
from crosswind.cli.list import room_of
from crosswind.cli.options import AsJson, Overrides, bytes_text, print_json, refuse_unheard
from crosswind.core.errors import InputError, unknown

if TYPE_CHECKING:
    from crosswind.core.knobs import Knob
    from crosswind.core.registry import Facts

Card = tuple[Any, str]
"""What `--json` prints, and the text."""


def show_command(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="method, model, source, shift, transform, study, run or training; a name alone will do.",
            autocompletion=completion.shown,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Its name; of a run, STORE#KEYPREFIX.",
            autocompletion=completion.named,
        ),
    ] = None,
    as_json: AsJson = False,
    image: Annotated[
        Path | None,
        typer.Option(
            "--image",
            metavar="FILE",
            help="Of a transform: the picture that a contact sheet is made of.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PNG", help="Where the contact sheet goes.")
    ] = None,
    settings: Overrides = None,
    size: Annotated[
        int | None,
        typer.Option(
            "--size",
            metavar="PX",
            help="Side of the picture, whose middle square is taken; default: 128.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", help="Another seed, other draws; default: 0."),
    ] = None,
) -> None:
    """Show one thing: what it does, its settings with their domains and defaults, its source.

    Of a transform also what it looks like, from weak to strong: show transform NAME --image FILE
    --out PNG [--set knob=value].
    """
    if image is not None or out is not None:
        if as_json:
            problem = "prints a card, and --image and --out draw a contact sheet; leave one out"
            raise InputError("--json", problem)
        side = 128 if size is None else size
        _draw_sheet(kind, name, image, out, settings or [], side, seed or 0)
        return
    refuse_unheard(
        {"--set": settings, "--size": size, "--seed": seed},
        "goes with --image and --out, for the contact sheet of a transform",
    )
    if name is None and kind != "training":
        kind, name = _of_any_kind(kind), kind
    cards = {"training": _training, "run": _run, "studies": _study, "methods": _method}
    room = kind if kind in ("training", "run") else room_of(kind)
    value, text = cards[room](name or "") if room in cards else _component(room, name or "")
    if as_json:
        print_json(value)
    else:
        typer.echo(text)


def _of_any_kind(word: str) -> str:
    """The kind of the one thing that is called so. Raises `InputError`."""
    from crosswind.core.registry import listing
    from crosswind.reports.methods import listed_methods
    from crosswind.studies.reading import shipped_studies

    if word in SHOWN:
        names = (
            "write STORE#KEYPREFIX"
            if word == "run"
            else f"crosswind list {room_of(word)} tells the names"
        )
        raise InputError("NAME", f"is missing; {names}")
    names_of: dict[str, Iterable[str]] = {"methods": [facts.name for facts in listed_methods()]}
    for room in ROOMS:
        if room not in ("methods", "studies"):
            names_of[room] = [facts.name for facts in listing(room)]
    names_of["studies"] = shipped_studies()
    kinds = [room for room, names in names_of.items() if word in names]
    if not kinds:
        raise unknown(
            "NAME", "name", word, sorted({name for names in names_of.values() for name in names})
        )
    if len(kinds) > 1 and kinds != ["methods", "models"]:  # an architecture is listed as both
        raise InputError("NAME", f"{word!r} is of several kinds; name one before it", kinds)
    return kinds[0]


def _draw_sheet(
    kind: str,
    name: str | None,
    image: Path | None,
    out: Path | None,
    settings: list[str],
    size: int,
    seed: int,
) -> None:
    from crosswind.studies.reading import apply_settings
    from crosswind.transforms.sheet import check_place, contact_sheet, read_picture, write_png

    if room_of(kind) != "transforms" or name is None:
        raise InputError(
            "--image", "draws a contact sheet: show transform NAME --image FILE --out PNG"
        )
    if image is None or out is None:
        raise InputError(
            "--out" if out is None else "--image",
            "is missing: a contact sheet needs --image FILE and --out PNG",
        )
    check_place(out)
    picture = read_picture(image, size)
    sheet = contact_sheet(name, picture, apply_settings({}, settings), seed)
    write_png(sheet, out)
    typer.echo(f"The contact sheet is {out}")


def _component(room: str, name: str) -> Card:
    from crosswind.core.registry import facts
    from crosswind.data.attributes import transform_facts

    # A study names all kinds of transform alike.
    if room == "transforms":
        component_facts = transform_facts(name, "NAME")
    else:
        component_facts = facts(room, name, "NAME")
    if component_facts.card is None:
        card = []
    else:
        card = [*_source_card(component_facts), ""]
    lines = [
        f"{component_facts.name}  ({component_facts.kind})",
        "",
        component_facts.doc,
        "",
        *card,
        *_knob_lines(component_facts.knobs),
    ]
    return {
        **component_facts.describe(),
        "doc": component_facts.doc,
        "module": component_facts.module,
    }, "\n".join(lines)


def _method(name: str) -> Card:
    from crosswind.reports.methods import card_lines, find_method, kind_of, method_row

    method_facts = find_method(name)
    lines = card_lines(method_facts)
    width = max(len(title) for title, _ in lines)
    card = [f"{title:<{width}}  {text}" for title, text in lines]
    text = [
        f"{method_facts.name}  ({kind_of(method_facts)})",
        "",
        *card,
        "",
        method_facts.doc,
        "",
        *_knob_lines(method_facts.knobs),
    ]
    return {
        **method_row(method_facts),
        "doc": method_facts.doc,
        "module": method_facts.module,
    }, "\n".join(text)


def _training(name: str) -> Card:
    from crosswind.core.knobs import knobs_of
    from crosswind.training.settings import TrainingSettings

    knobs = knobs_of(TrainingSettings)
    lines = ["training", "", (TrainingSettings.__doc__ or "").strip(), "", *_knob_lines(knobs)]
    if name:
        names = [knob.name for knob in knobs]
        if name not in names:
            raise unknown("NAME", "setting of the training loop", name, names)
        knobs = tuple(knob for knob in knobs if knob.name == name)
        lines = _knob_lines(knobs)
    return {"name": "training", "knobs": [knob.describe() for knob in knobs]}, "\n".join(lines)


def _study(name: str) -> Card:
    from crosswind.studies.reading import find_study, read_study_file

    path = find_study(name)[1]
    values = read_study_file(path)
    return values, path.read_text(encoding="utf-8").rstrip()


def _run(word: str) -> Card:
    from crosswind.cli.run_card import run_lines
    from crosswind.storage.predictions_file import TEXTS
    from crosswind.storage.store import Store, split_name

    store_name, prefix = split_name(word)
    with Store.open(store_name) as store:
        record = store.run(prefix)
        needed = [store.run(key) for key in record["needs"]]
    for job in needed:
        job["artifacts"] = None if job["artifacts"] is None else str(job["artifacts"])
    record["needs"] = [
        {name: job[name] for name in ("key", "kind", "status", "spec", "artifacts")}
        for job in needed
    ]
    texts = [Path(job["artifacts"]) / TEXTS for job in needed if job["artifacts"] is not None]
    record["answers"] = [str(path) for path in texts if path.is_file()]
    record["artifacts"] = None if record["artifacts"] is None else str(record["artifacts"])
    return record, "\n".join(run_lines(record))


def _source_card(source_facts: Facts) -> list[str]:
    from crosswind.core.files import root_folder
    from crosswind.data.prepared.paths import is_prepared, readiness

    card = source_facts.card
    assert card is not None
    state = readiness([source_facts], root_folder())[source_facts.name]
    fetched = bool(card.files) and all(
        file.url and (file.sha256 or file.md5) for file in card.files
    )
    counts_in_words = ", ".join(
        f"{part_name} {count:,}" for part_name, count in card.totals.items()
    )
    uses = "; ".join(f"{paper}: {where}" for paper, where in card.used.items())
    inputs_word = "Pictures"
    if (card.shape or "").startswith(("a text", "texts")):
        inputs_word = "Inputs"
    file_words = ", ".join(
        f"{file.name}{f' ({bytes_text(file.size)})' if file.size else ''}" for file in card.files
    )
    facts = {
        "Rows": counts_in_words,
        inputs_word: card.shape,
        "Files": file_words,
        "How to get it": (
            card.get
            or (f"crosswind prepare {source_facts.name} fetches the files" if fetched else "")
        ),
        "Ready here": (
            "\n    ".join([state.text, *(copy["folder"] for copy in state.copies)])
            if is_prepared(source_facts)
            else ""
        ),
        "Licence": card.licence,
        "Citation": card.citation,
        "Used in": uses,
        "Layout of the files": card.layout,
    }
    attributes = [f"  {name}: {_values(values)}" for name, values in card.attributes.items()]
    return [
        "Attributes",
        *attributes,
        *(f"{title}: {text}" for title, text in facts.items() if text),
    ]


def _values(values: Any) -> str:
    if isinstance(values, int):
        return f"{values:,} values"
    if isinstance(values, str):
        return values
    return ", ".join(map(str, values))


def _knob_lines(knobs: tuple[Knob, ...]) -> list[str]:
    lines = ["Settings"] if knobs else ["No settings."]
    for declared in knobs:
        description = declared.describe()
        default = "required" if description["required"] else f"default {description['default']!r}"
        domain = f" in {description['domain']}" if description["domain"] else ""
        source = f" [{description['source']}]" if description["source"] else ""
        if declared.search:
            tried = [f"search {declared.search.words()}"]
        else:
            tried = []
        for paper, values in (declared.grid or {}).items():
            tried.append(f"{paper}: {', '.join(map(str, values))}")
        lines.append(f"  {description['name']}: {description['type']}{domain}, {default}{source}")
        lines += [f"      {text}" for text in (description["doc"], "; ".join(tried)) if text]
    return lines
