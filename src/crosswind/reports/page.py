"""One self-contained web page of a store's studies: figures, the tables that stand behind them, what was run and how.

The page holds everything that it shows: no file beside it, no network. Its tables are those that `crosswind report` prints.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosswind.reports import figures as draw
from crosswind.reports import overviews
from crosswind.reports.bundle import runtime
from crosswind.reports.claims import claim_table
from crosswind.reports.costs import costs, said_of, time_table
from crosswind.reports.drawing import THEMES, Figure, unique_names
from crosswind.reports.gather import ShiftDraw, StudyRecord, damage_named, no_collection
from crosswind.reports.layout import is_numeric, shown
from crosswind.reports.results import LEVEL, Place
from crosswind.reports.tables import Table, run_table

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

__all__ = ["study_figures", "study_page", "write_page"]

_OPEN_PLACES = 3
_SPECIAL = re.compile(r"""[&<>'"]""")


@dataclass
class _Group:
    """What is shown together. With a `title` it can be folded; `cards` stand side by side."""

    title: str = ""
    intro: list[str] = field(default_factory=list)
    figures: list[tuple[Figure, list[Table]]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    open: bool = True
    cards: bool = False


@dataclass
class _Section:
    title: str
    intro: list[str]
    groups: list[_Group]


def write_page(studies: Sequence[StudyRecord], store: str, path: Path) -> None:
    """Write the page of `studies`, of the store called `store`, to `path`. Raises `OSError` where it cannot be written."""
    from crosswind.studies.artifacts import write_atomically

    with no_collection():
        text = study_page(studies, store)
    # Half of a surrogate pair, which JSON can hold and UTF-8 cannot, becomes a question mark.
    write_atomically(path, text.encode("utf-8", "replace"))


def study_figures(studies: Iterable[StudyRecord]) -> list[Figure]:
    """Every figure of the page, in its order, with names that differ."""
    found = [figure for study in studies for section in _sections(study) for group in section.groups for figure, _ in group.figures]
    return unique_names(found)


def study_page(studies: Sequence[StudyRecord], store: str) -> str:
    """The page as text; `store` is the name that it gives the store."""
    from markupsafe import Markup

    from crosswind import __version__

    laid = []
    for study in studies:
        with damage_named(store, study.name):
            laid.append((study, _sections(study)))
    figures = [figure for _, sections in laid for section in sections for group in section.groups for figure, _ in group.figures]
    named = iter(unique_names(figures))
    specs: dict[str, Any] = {}
    entries = []
    for position, (study, sections) in enumerate(laid):
        with damage_named(store, study.name):
            entries.append(_study_entry(study, sections, position, named, specs))
    template, css, js = _template()
    return template.render(
        title=studies[0].name if len(studies) == 1 else f"{len(studies)} studies",
        studies=entries,
        store=store,
        version=__version__,
        written=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        css=Markup(css),
        js=Markup(js),
        runtime=Markup(runtime()),
        figures=Markup(_script_json({"themes": THEMES, "figures": specs})),
    )


@cache
def _template() -> tuple[Template, str, str]:
    """The page without what it shows, its style and its script."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    source = PackageLoader("crosswind.reports", "template")
    environment = Environment(loader=source, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    css, js = (source.get_source(environment, name)[0] for name in ("page.css", "page.js"))
    return environment.get_template("page.html.j2"), css, js


def _script_json(value: Any) -> str:
    # Inside a script element only "<" can end it or begin a comment; JSON may write it as an escape.
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


# -- what the template is given -----------------------------------------------------------------------------------------------


def _study_entry(
    study: StudyRecord, sections: Sequence[_Section], position: int, named: Any, specs: dict[str, Any]
) -> dict[str, Any]:
    key = f"study-{position + 1}"
    listed = []
    for section in sections:
        name = f"{key}-{re.sub('[^a-z]+', '-', section.title.lower())}"
        groups = []
        for group in section.groups:
            drawn = []
            for _, tables in group.figures:
                figure = next(named)
                specs[figure.name] = {"spec": figure.spec, "fit": figure.fit, "panels": figure.panels, "names": figure.names}
                drawn.append({**_plain(figure), "tables": [_table_entry(table) for table in tables]})
            texts = [
                {"title": title, "content": content, "id": f"{name}-{number + 1}"}
                for number, (title, content) in enumerate(group.texts)
            ]
            groups.append(
                {
                    "title": group.title,
                    "intro": group.intro,
                    "open": group.open,
                    "cards": group.cards,
                    "figures": drawn,
                    "tables": [_table_entry(table) for table in group.tables],
                    "texts": texts,
                }
            )
        listed.append({"id": name, "title": section.title, "intro": section.intro, "groups": groups})
    about = str(study.resolved.get("about") or "")
    return {
        "id": key,
        "name": study.name,
        "about": about,
        "tiles": _tiles(study),
        "facts": _facts(study),
        "remarks": _remarks(study),
        "sections": listed,
    }


def _plain(figure: Figure) -> dict[str, str]:
    return {name: getattr(figure, name) for name in ("name", "title", "caption", "description", "fit")}


def _table_entry(table: Table) -> dict[str, Any]:
    return {"name": table.name, "title": table.title, "notes": table.notes, "body": _table_body(table)}


def _table_body(table: Table) -> Markup:
    # Made here and not in the template: of a large study these are hundreds of thousands of cells.
    from markupsafe import Markup, escape

    cells = [[shown(cell) for cell in row] for row in table.rows]
    right = [is_numeric([row[i] for row in cells]) for i in range(len(table.columns))]
    marks = ["" if numeric else ' class="t"' for numeric in right]
    heads = "".join(f'<th scope="col"{mark}>{escape(name)}</th>' for mark, name in zip(marks, table.columns, strict=True))
    starts = [f'<th scope="row"{mark}>' if i < table.keys else f"<td{mark}>" for i, mark in enumerate(marks)]
    ends = ["</th>" if i < table.keys else "</td>" for i in range(len(marks))]
    lines = []
    for row in cells:
        # Most rows have nothing to escape, and to look costs less than to escape each cell.
        safe: Any = escape if _SPECIAL.search("".join(row)) else str
        # Cells are padded in text so that means stand under means; digits are of one width here, so that serves here too.
        parts = [
            f"{start}{safe(cell if numeric else cell.strip())}{end}"
            for start, cell, numeric, end in zip(starts, row, right, ends, strict=True)
        ]
        lines.append(f"<tr>{''.join(parts)}</tr>")
    return Markup("<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>").format(Markup(heads), Markup("\n".join(lines)))


def _tiles(study: StudyRecord) -> list[dict[str, Any]]:
    counts = Counter(str(run["status"]) for run in study.runs)
    tiles = [{"value": f"{counts['finished']:,}", "words": f"of {len(study.runs):,} runs finished"}]
    tiles += [
        {"value": f"{counts[state]:,}", "words": state} for state in ("diverged", "failed", "running", "pending") if counts[state]
    ]
    return tiles


def _facts(study: StudyRecord) -> list[tuple[str, str]]:
    axes: dict[str, dict[str, None]] = {}
    for run in study.runs:
        for name, value in run["labels"].items():
            axes.setdefault(name, {})[str(value)] = None
    out = []
    for name, title in (("data", "Data"), ("shift", "Shifts"), ("size", "Sizes"), ("model", "Models"), ("method", "Methods")):
        values = [value for value in axes.get(name, {}) if value]
        out.append((title, ", ".join(values[:24]) + (f" and {len(values) - 24} more" if len(values) > 24 else "")))
    out.append(("Seeds", ", ".join(list(axes.get("seed", {}))[:24])))
    if len(splits := list(axes.get("split_seed", {}))) > 1:
        out.append(("Split seeds", ", ".join(splits[:24])))
    out.append(("Compared with", study.reference))
    out.append(("Selection", ", ".join(study.rules)))
    out.append(("First planned", _moment(study.created)))
    return [(title, value) for title, value in out if value]


def _moment(seconds: float) -> str:
    """Seconds since 1970 as a date and time; nothing for what is none, as a damaged store may hold."""
    try:
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
    except (OSError, OverflowError, TypeError, ValueError):
        return ""


def _remarks(study: StudyRecord) -> list[str]:
    compared = marked = 0
    for place in list(study.tables):
        for (shift, method), entry in study.found.at(place).items():
            base = study.found.at(place).get((shift, study.reference))
            difference = entry.difference(base, "accuracy", LEVEL) if base is not None and method != study.reference else None
            if difference is not None and difference.n > 1:
                compared += 1
                marked += difference.excludes_zero
    lines = []
    if compared:
        lines.append(
            f"{marked} of {compared} differences to {study.reference} in accuracy have a 95% interval that excludes 0; where "
            f"nothing differs, about {compared * (1 - LEVEL):.2g} would by chance. An interval that holds 0 does not show that "
            "nothing differs."
        )
    waiting = sum(run["status"] not in ("finished", "diverged", "failed") for run in study.runs)
    if waiting:
        lines.append(f"{waiting:,} of {len(study.runs):,} runs are not done: this page shows what is there so far.")
    return lines


# -- sections -----------------------------------------------------------------------------------------------------------------


def _sections(study: StudyRecord) -> list[_Section]:
    places = list(study.tables)
    made = [
        _claims(study),
        _shifts(study),
        _results(study, places),
        _ranks(study, places),
        _rules(study, places),
        _time(study),
        _runs(study),
    ]
    return [*(section for section in made if section is not None and section.groups), _specification(study)]


def _claims(study: StudyRecord) -> _Section | None:
    table = claim_table(study.name, study.claims)
    return None if table is None else _Section("Claims", [], [_Group(tables=[table])])


def _shifts(study: StudyRecord) -> _Section | None:
    together: dict[tuple[str, str], list[ShiftDraw]] = {}
    for item in study.draws:
        together.setdefault((item.data, item.size), []).append(item)
    groups: list[_Group] = []
    for (data, size), some in together.items():
        cells = [cell for item in some for table in item.train.tables.values() for cell in table]
        most = max([1.0, *(max(cell.planned, cell.realised) for cell in cells)])
        group = _Group(", ".join(part for part in (data, size and f"size {size}") if part), cards=True, open=not groups)
        group.figures = [(draw.draw_map(item, item.train, most), overviews.cell_tables(item.train, item.label)) for item in some]
        held = some[0].test
        if held is not None and all(item.test == held for item in some):
            peak = max(max(cell.planned, cell.realised) for table in held.tables.values() for cell in table)
            # A set that is even all over looks even, not full: its colour is the middle of the scale.
            figure = draw.draw_map(some[0], held, max(1.0, 2 * peak), "test rows")
            group.figures.append((figure, overviews.cell_tables(held, some[0].label)))
        told: dict[str, list[str]] = {}
        for item in some:
            for line in (*item.notes, *item.warnings):
                told.setdefault(line, []).append(item.shift)
        group.intro = [f"{', '.join(names)}: {line}." for line, names in told.items()]
        groups.append(group)
    intro = [
        "Training rows by the label and each attribute, one pair of panels an attribute. Planned is what the shift's weights ask "
        "for, realised what was drawn; rows of a supplement, such as counterexamples, come on top of the weights and stand in "
        "realised only. One seed is shown; another draws by the same plan, and other rows as far as there are more than it takes."
    ]
    if study.draws_left_out:
        intro.append(
            f"{study.draws_left_out} draws are not shown: no run of them is done, their files are not here, or they are too many."
        )
    return _Section("Shifts", intro, groups) if groups else None


def _results(study: StudyRecord, places: Sequence[Place]) -> _Section | None:
    groups: list[_Group] = []
    for place in places:
        tables = study.tables[place]
        group = _Group(_heading(place), open=len(groups) < _OPEN_PLACES)
        change = draw.change_map(study.found, place, study.reference)
        if change is not None:
            group.figures.append((change, [tables["difference"]]))
        strips = draw.seed_strips(study.found, place, study.reference)
        if strips is not None:
            group.figures.append((strips, [tables["accuracy"], overviews.seed_table(study.found, place, study.reference)]))
        worst = draw.worst_map(study.found, place, study.reference)
        if worst is not None:
            group.figures.append((worst, [tables["worst-group"]]))
        if "calibration" in tables:
            group.tables.append(tables["calibration"])
        groups.append(group)
    return _Section("Accuracy", [], groups)


def _ranks(study: StudyRecord, places: Sequence[Place]) -> _Section | None:
    found = overviews.ranking(study.found, places)
    group = _Group(figures=[(draw.rank_dots(item), [overviews.rank_table(item)]) for item in found])
    return _Section("Ranks", [], [group]) if found else None


def _rules(study: StudyRecord, places: Sequence[Place]) -> _Section | None:
    groups: list[_Group] = []
    for place in dict.fromkeys(place._replace(rule="") for place in places):
        some = overviews.rules_at(study.found, place)
        table = overviews.rule_table(study.found, place, study.reference)
        figure = draw.rule_dots(study.found, some, study.reference)
        if table is not None and figure is not None:
            groups.append(_Group(_heading(place), figures=[(figure, [table])], open=not groups))
    intro = [
        f"The study reports {', '.join(study.rules)}. Every rule that the store has scores of is set beside it here, to show how "
        "much hangs on the choice; choosing a rule after seeing this is choosing by the test rows."
    ]
    return _Section("Selection rules", intro, groups)


def _time(study: StudyRecord) -> _Section | None:
    items = costs(study.runs)
    figure, said = draw.time_bars(items), said_of(items)
    if figure is None:
        return None
    group = _Group(figures=[(figure, [])], tables=[time_table(items, sentence=False)])
    return _Section("Where the time went", [said] if said else [], [group])


def _runs(study: StudyRecord) -> _Section:
    states = run_table(study.found)
    trouble, warnings = overviews.trouble_table(study.runs), overviews.warning_table(study.runs)
    # The reasons stand in a table of their own here, not in the notes.
    kept = tuple(note for note in states.notes if not note.startswith(("failed: ", "diverged: ", "and ")))
    tables = [Table(states.name, states.title, states.columns, states.rows, kept, states.keys)]
    tables += [table for table in (trouble, warnings) if table is not None]
    intro = [] if trouble else ["No run failed and none diverged."]
    return _Section("Runs", intro, [_Group(tables=tables)])


def _specification(study: StudyRecord) -> _Section:
    texts = [("The study as given", _yaml(study.given)), ("The study with every default", _yaml(study.resolved))]
    texts.append(
        ("Versions", "\n".join(_versions(versions, number) for versions, number in study.versions) or "no run is done yet")
    )
    return _Section("Specification and versions", [], [_Group(texts=texts)])


def _versions(versions: Mapping[str, str], runs: int) -> str:
    return ", ".join(f"{name} {value}" for name, value in versions.items()) + f"  ({runs:,} run{'s' if runs != 1 else ''})"


def _yaml(value: Any) -> str:
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)).rstrip()


def _heading(place: Place) -> str:
    parts = [
        place.data,
        place.size and f"size {place.size}",
        place.model,
        f"set {place.set}",
        place.rule and f"selection {place.rule}",
    ]
    return ", ".join(part for part in parts if part)
