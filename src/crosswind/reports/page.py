"""One self-contained web page of a store's studies: figures, the tables that stand behind them,
what was run and how.

The page holds everything that it shows: no file beside it, no network. Its tables are those that
`crosswind report` prints.
A section is one function of a `StudyRecord`, listed in `_SECTIONS`; the template shows whatever
figures, tables and texts it holds.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosswind.core.collection import no_collection
from crosswind.core.exhibits import Bars, Grid
from crosswind.core.printing import utf8
from crosswind.evaluation.metrics import HEADLINE
from crosswind.evaluation.multiplicity import ADJUST, percent
from crosswind.reports.charts import THEMES, Figure, runtime, templates
from crosswind.reports.claims.answer_picture import (
    ALL_ROWS,
    METHODS_A_SHIFT,
    ROWS,
    picture_of,
    picture_of_findings,
)
from crosswind.reports.claims.claim_tables import claim_tables
from crosswind.reports.claims.findings import CLAIMS, Findings, place_words
from crosswind.reports.claims.verdicts import MARGIN, Finding
from crosswind.reports.gather import (
    SetDraw,
    ShiftDraw,
    StudyRecord,
    cell_tables,
    damage_named,
)
from crosswind.reports.glossary import glossary_of
from crosswind.reports.page_head import study_head
from crosswind.reports.pools import estimate_sections
from crosswind.reports.prompts.figures import prompt_map
from crosswind.reports.prompts.scores import prompt_tables
from crosswind.reports.rows import sections as row_sections
from crosswind.reports.runs.tables import (
    each_run_table,
    largest_part,
    run_table,
    time_table,
    trouble_table,
    warning_table,
)
from crosswind.reports.scores import figures as draw
from crosswind.reports.scores.conclusions import (
    critical_difference_diagram,
    variance_bar,
)
from crosswind.reports.scores.family_figures import family_map, shift_count_figure
from crosswind.reports.scores.results import Place
from crosswind.reports.scores.setting_curves import setting_figure
from crosswind.reports.scores.tables import rank_table, ranking, rule_table, seed_table
from crosswind.reports.sections import OPEN_PLACES, Group, Section, address, heading_of
from crosswind.reports.tables import (
    LONG_NUMBER,
    ReportTable,
    distinct,
    on_page,
    short_numbers,
    shortened,
    slug,
)

if TYPE_CHECKING:
    from markupsafe import Markup

MAX_PLACES = 6
"""Settings that have a picture of their own."""
LEAST_ROWS = 24
"""Rows of the picture of a setting, of however many."""
_OPEN_SENTENCES = 12
_VALUES_SHOWN = 24
_OPEN_EXHIBITS = 12
_SPECIAL = re.compile(r"""[&<>'"]""")


def write_page(studies: Sequence[StudyRecord], store: str, path: Path) -> None:
    """Write the page of `studies`, of the store called `store`, to `path`. Raises `OSError` where
    it cannot be written."""
    from crosswind.core.files import write_atomically

    with no_collection():
        text = study_page(studies, store)
    write_atomically(path, utf8(text))


def study_figures(studies: Iterable[StudyRecord]) -> list[Figure]:
    """Every figure of the page, in its order, with names that differ and are fit for files."""
    return _named_figures([section for study in studies for section in _sections(study)])


def study_page(studies: Sequence[StudyRecord], store: str) -> str:
    """The page as text; `store` is the name that it gives the store."""
    from markupsafe import Markup

    from crosswind import __version__

    views = []
    for position, study in enumerate(studies, 1):
        with damage_named(store, study.name):
            views.append(_view(study, f"study-{position}"))
    figures = _named_figures([section for view in views for section in view["sections"]])
    specs = {
        figure.name: {name: getattr(figure, name) for name in ("spec", "fit", "panels", "names")}
        for figure in figures
    }
    shown = {"themes": THEMES, "figures": specs}
    plain_data = _with_short_labels(json.dumps(shown, separators=(",", ":"), allow_nan=False))
    # Inside a script element only "<" can end it or begin a comment; JSON may write it as an
    # escape.
    data = plain_data.replace("<", "\\u003c")
    page = templates().get_template("page.html.j2")
    rendered: str = page.render(
        title=studies[0].name if len(studies) == 1 else f"{len(studies)} studies",
        studies=views,
        store=store,
        version=__version__,
        written=_moment(time.time()),
        runtime=Markup(runtime()),
        figures=Markup(data),
        body=_table_body,
        on_page=on_page,
        short=lambda text: shortened(text, short_numbers([text])),
        seen=set,
    )
    return rendered


def _named_figures(sections: Iterable[Section]) -> list[Figure]:
    figures: list[Figure] = []
    for section in sections:
        for group in section.groups:
            figures += [figure for figure, _ in group.figures]
    names = distinct(_file_name(figure.name) for figure in figures)
    for figure, name in zip(figures, names, strict=True):
        figure.name = name
    return figures


def _file_name(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "figure"


_LONG_LABEL = re.compile(r'"[^"\\]*\d\.\d{7,}[^"\\]*"')


def _with_short_labels(data: str) -> str:
    """Figures as JSON whose labels have numbers of a length that can be read, alike in all of them;
    values that are numbers stay."""
    short = short_numbers(_LONG_LABEL.findall(data))
    return _LONG_LABEL.sub(lambda match: shortened(match[0], short), data) if short else data


def _table_body(table: ReportTable) -> Markup:
    # Made here and not in the template: of a large study these are hundreds of thousands of cells.
    from markupsafe import Markup, escape

    marks = ["" if numeric else ' class="t"' for numeric in table.numeric]
    heads = "".join(
        f'<th scope="col"{mark}>{escape(name)}</th>'
        for mark, name in zip(marks, table.columns, strict=True)
    )
    key, other_cells = ('<th scope="row"{}>', "</th>"), ("<td{}>", "</td>")
    tags = [key if i < table.keys else other_cells for i in range(len(marks))]
    # Cells are padded in text so that means stand under means; digits are of one width here, so
    # that serves here too.
    columns = [
        (start.format(mark), end, mark != "")
        for (start, end), mark in zip(tags, marks, strict=True)
    ]
    lines = []
    short = short_numbers("\n".join(row) for row in table.cells)
    for row in table.cells:
        # Most rows have nothing to escape, and to look costs less than to escape each cell.
        whole_row = "".join(row)
        safe: Any = escape if _SPECIAL.search(whole_row) else str
        if LONG_NUMBER.search(whole_row):
            safe = partial(_short_cell, short)
        cells = [
            f"{start}{safe(cell.strip() if words else cell)}{end}"
            for (start, end, words), cell in zip(columns, row, strict=True)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return Markup("<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>").format(
        Markup(heads), Markup("\n".join(lines))
    )


def _short_cell(short: Mapping[str, str], cell: str) -> Markup:
    """A cell whose long numbers are written short, with the whole of it on hover."""
    from markupsafe import Markup, escape

    text = shortened(cell, short)
    if text == cell:
        return escape(cell)
    return Markup('<span title="{}">{}</span>').format(cell, text)


# -- the head of a study ---------------------------------------------------------------------------


def _view(study: StudyRecord, key: str) -> dict[str, Any]:
    """The view of a study that the template gets."""
    # By key: a model that is asked stands beside every one that is trained.
    states = {run["key"]: str(run["status"]) for run in study.runs}
    counts = Counter(states.values())
    other_states = [
        (f"{counts[state]:,}", state)
        for state in ("diverged", "failed", "running", "pending")
        if counts[state]
    ]
    return {
        "id": key,
        "name": study.name,
        "about": str(study.resolved.get("about") or ""),
        "head": study_head(study),
        "glossary": glossary_of(key, study.resolved, *_classes_and_values(study.draws)),
        "shifts": json.dumps(list(study.resolved.get("shifts") or {})),
        "tiles": [(f"{counts['finished']:,}", f"of {len(states):,} runs finished"), *other_states],
        "facts": _facts(study),
        "remarks": _remarks(study),
        "sections": _sections(study),
    }


def _classes_and_values(
    draws: Sequence[ShiftDraw],
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Label -> its classes, and attribute -> its values, as the rows of some draws show them."""
    classes: dict[str, dict[str, None]] = {}
    values: dict[str, dict[str, None]] = {}
    for shift_draw in draws:
        # Test rows first: they show a value that no training row has, in its place.
        for rows in filter(None, (shift_draw.test, shift_draw.train)):
            for attribute, cells in rows.tables.items():
                for label, value in cells:
                    classes.setdefault(shift_draw.label, {})[label] = None
                    values.setdefault(attribute, {})[value] = None
    return (
        {label: list(names) for label, names in classes.items()},
        {attribute: list(names) for attribute, names in values.items()},
    )


def _facts(study: StudyRecord) -> list[tuple[str, str]]:
    axes: dict[str, dict[str, None]] = {}
    for run in study.runs:
        for name, value in run["labels"].items():
            axes.setdefault(name, {})[str(value)] = None

    def listed(name: str, many: bool = True) -> str:
        values = [value for value in axes.get(name, {}) if value]
        words = ", ".join(values[:_VALUES_SHOWN])
        if many and len(values) > _VALUES_SHOWN:
            words += f" and {len(values) - _VALUES_SHOWN} more"
        return words

    named = (
        ("Data", "data"),
        ("Shifts", "shift"),
        ("Sizes", "size"),
        ("Models", "model"),
        ("Methods", "method"),
    )
    several_splits = len(axes.get("split_seed", {})) > 1
    facts = [
        *((title, listed(name)) for title, name in named),
        ("Seeds", listed("seed", many=False)),
        ("Split seeds", listed("split_seed", many=False) if several_splits else ""),
        ("Compared with", study.reference),
        ("Selection", ", ".join(study.rules)),
        ("First planned", _moment(study.created)),
    ]
    return [(title, value) for title, value in facts if value]


def _moment(seconds: float) -> str:
    """Seconds since 1970 as a date and time; nothing for what is none, as a damaged store may
    hold."""
    try:
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
    except (OSError, OverflowError, TypeError, ValueError):
        return ""


def _remarks(study: StudyRecord) -> list[str]:
    waiting = sum(run["status"] not in ("finished", "diverged", "failed") for run in study.runs)
    if not waiting:
        return []
    return [
        f"{waiting:,} of {len(study.runs):,} runs are not done: this page shows what is there"
        " so far."
    ]


# -- sections --------------------------------------------------------------------------------------


def _findings(study: StudyRecord) -> Section:
    findings = study.findings
    if findings is None:
        return Section("", [], [])
    where = place_words([setting_results.place for setting_results in study.places])
    groups = [Group(heading, lists=[("", lines)]) for heading, lines in findings.question]
    for heading, sentences in findings.comparisons:
        if heading == CLAIMS:  # they stand in a section of their own, each with its verdict
            continue
        group = Group(heading, lists=[("", sentences)], open=len(sentences) <= _OPEN_SENTENCES)
        charted = findings.charted.get(heading, ())
        margin = MARGIN if all(map(_is_only_about_equal, charted)) else 0.0
        group.chart = picture_of_findings(charted, where, margin)
        group.chart_words = _CHART_WORDS
        groups.append(group)
    groups += _place_pictures(study, findings)
    return Section("Findings", [_how_judged(findings)], groups)


def _how_judged(findings: Findings) -> str:
    """How a comparison is made and what its numbers are, in plain words."""
    first = findings.items[0]
    by = ""
    if first.multiplicity in ADJUST and first.family:
        by = f" after {ADJUST[first.multiplicity][0]}'s correction for all {first.family} of them"
    return (
        "Every comparison is a mean difference between runs of the same seeds, in percentage points."
        f" It is told apart from chance where p < 0.05{by}; the brackets hold the interval that goes"
        f" with that, of {percent(first.level)}: it excludes 0 just where a difference is told."
    )


_CHART_WORDS = (
    "A dot is the mean difference, the line through it the interval of its verdict. Orange is a"
    " loss, blue a gain; a hollow dot is not told apart from no difference."
)


def _is_only_about_equal(finding: Finding) -> bool:
    return finding.about_equal and not finding.told


def _place_pictures(study: StudyRecord, findings: Findings) -> list[Group]:
    """Every setting in one picture, where the head of the page has no room for all of it."""
    groups: list[Group] = []
    places = list(dict.fromkeys(finding.place for finding in findings.items))[:MAX_PLACES]
    most_rows = max(ALL_ROWS // len(places), LEAST_ROWS)
    for place in places:
        whole = picture_of(place, findings.items, study.resolved, most_rows=most_rows)
        head = picture_of(
            place,
            findings.items,
            study.resolved,
            most_rows=ROWS,
            most_methods=METHODS_A_SHIFT,
        )
        is_at_head = place == findings.answer.place and head is not None and not head.hidden
        if whole is not None and not is_at_head:
            heading = ": ".join(
                filter(None, ("Every shift and method", _place_heading(study, place)))
            )
            groups.append(Group(heading, chart=whole, chart_words=_CHART_WORDS, open=False))
    return groups


def _claims(study: StudyRecord) -> Section:
    tables = claim_tables(study.name, study.claims, on_page=True)
    return Section("Claims", [], [Group(tables=tables)] if tables else [])


def _shifts(study: StudyRecord) -> Section:
    by_size: dict[tuple[str, str], list[ShiftDraw]] = {}
    for shift_draw in study.draws:
        by_size.setdefault((shift_draw.data, shift_draw.size), []).append(shift_draw)
    groups: list[Group] = []
    for (data, size), size_draws in by_size.items():
        heading = heading_of(_places_of(study), data=data, size=size)
        group = Group(heading, layout="cards", open=not groups)
        group.figures = _draw_figures(size_draws)
        remarks: dict[str, list[str]] = {}
        for shift_draw in size_draws:
            for line in (*shift_draw.notes, *shift_draw.warnings):
                remarks.setdefault(line, []).append(shift_draw.shift)
        group.intro = [f"{', '.join(names)}: {line}." for line, names in remarks.items()]
        groups.append(group)
    intro = [
        "Training rows by the label and each attribute, one pair of panels an attribute. Planned is"
        " what the shift's weights ask for, realised what was drawn; rows of a supplement, such as"
        " counterexamples, come on top of the weights and stand in realised only. One seed is"
        " shown; another draws by the same plan, and other rows as far as there are more than it"
        " takes."
    ]
    if study.draws_left_out:
        intro.append(
            f"{study.draws_left_out} draws are not shown: no run of them is done, their files are"
            " not here, or they are too many."
        )
    return Section("Shifts", intro, groups)


def _draw_figures(size_draws: Sequence[ShiftDraw]) -> list[tuple[Figure, list[ReportTable]]]:
    """The training rows of every shift of one data set and size, and the test rows where all share
    them."""
    greatest = max(1.0, *(_largest_cell(shift_draw.train) for shift_draw in size_draws))
    figures = [
        (
            draw.draw_map(shift_draw, shift_draw.train, greatest),
            cell_tables(shift_draw.train, shift_draw.label),
        )
        for shift_draw in size_draws
    ]
    first = size_draws[0]
    held_out = first.test
    if held_out is not None and all(shift_draw.test == held_out for shift_draw in size_draws):
        # A set that is even all over looks even, not full: its colour is the middle of the scale.
        scale_end = max(1.0, 2 * _largest_cell(held_out))
        figure = draw.draw_map(first, held_out, scale_end, "test rows")
        figures.append((figure, cell_tables(held_out, first.label)))
    return figures


def _largest_cell(drawn: SetDraw) -> float:
    """The most rows, planned or realised, of any label and value."""
    return max(max(counts) for cells in drawn.tables.values() for counts in cells.values())


def _scores(study: StudyRecord) -> Section:
    groups: list[Group] = []
    for setting_results in study.places:
        other_tables = dict(study.tables[setting_results.place])
        heading = _place_heading(study, setting_results.place)
        group = Group(heading, open=len(groups) < OPEN_PLACES)
        for figure, name, more_tables in (
            (
                draw.change_map(setting_results, study.verdicts[setting_results.place]),
                "difference",
                [],
            ),
            (draw.seed_strips(setting_results), HEADLINE.slug, [seed_table(setting_results)]),
            (draw.worst_map(setting_results), "worst-group", []),
        ):
            behind = [other_tables.pop(name)] if name in other_tables else []
            if figure is not None:
                group.figures.append((figure, [*behind, *more_tables]))
        group.tables = list(other_tables.values())  # of metrics that have no figure
        groups.append(group)
    return Section("Accuracy", [], groups)


def _prompts(study: StudyRecord) -> Section:
    groups: list[Group] = []
    for comparison in study.prompts:
        answers, *other_tables = reversed(prompt_tables(comparison))
        group = Group(
            heading_of(
                _places_of(study),
                size=comparison.place.size,
                set=comparison.place.set,
                rule=comparison.place.rule,
            ),
            open=not groups,
        )
        group.figures, group.tables = [(prompt_map(comparison), [answers])], other_tables[::-1]
        groups.append(group)
    intro = [
        "Models that are only asked, by the prompt that they were asked with. All shifts with the"
        " same test rows share answers."
    ]
    return Section("Prompts", intro, groups)


def _exhibits(study: StudyRecord) -> Section:
    groups: dict[str, Group] = {}
    for method_exhibit in study.exhibits:
        heading = heading_of(
            _places_of(study),
            f"{method_exhibit.method} under {method_exhibit.shift}, seed {method_exhibit.seed}",
            data=method_exhibit.data,
            size=method_exhibit.size,
            model=method_exhibit.model,
        )
        group = groups.setdefault(
            heading, Group(heading, layout="cards", open=len(groups) < _OPEN_EXHIBITS)
        )
        for name, exhibit in method_exhibit.exhibits.items():
            title = (
                f"{method_exhibit.method} under {method_exhibit.shift}, seed {method_exhibit.seed}:"
                f" {name}"
            )
            if isinstance(exhibit, Bars):
                numbers = ReportTable(
                    slug(title), title, ("name", exhibit.unit), list(exhibit.values.items())
                )
                group.figures.append((draw.bars(title, exhibit), [numbers]))
            elif isinstance(exhibit, Grid):
                notes = (exhibit.caption,) if exhibit.caption else ()
                group.tables.append(
                    ReportTable(slug(title), title, exhibit.columns, exhibit.rows, notes)
                )
            else:
                group.pictures.append(
                    (title, exhibit.caption, address(exhibit.png), exhibit.columns, exhibit.rows)
                )
    intro = ["What methods left to be looked at, of the first seed of each method and shift."]
    return Section("Inside the methods", intro, list(groups.values()))


def _ranks(study: StudyRecord) -> Section:
    figures = [(draw.rank_dots(ranked), [rank_table(ranked)]) for ranked in ranking(study.places)]
    return Section("Ranks", [], [Group(figures=figures)] if figures else [])


MOST_CONCLUDED = 2
"""Settings of which the page shows what all rows say together; text, CSV and JSON have all."""
MOST_PAIRED = 12
"""Rows of which the page shows how often each beats each other."""


def _conclusions(study: StudyRecord) -> Section:
    groups: list[Group] = []
    for concluded in study.conclusions[:MOST_CONCLUDED]:
        tables = list(concluded.tables)
        group = Group(_place_heading(study, concluded.place), open=not groups)
        curves = [(setting_figure(curve), f"by-{curve.setting}-") for curve in concluded.curves]
        for figure, kind in (
            (critical_difference_diagram(concluded), "rank-test-"),
            (variance_bar(concluded), "variance-"),
            *curves,
        ):
            table = next((table for table in tables if table.name.startswith(kind)), None)
            if figure is not None and table is not None:
                group.figures.append((figure, [table]))
                tables.remove(table)
        # Nobody reads a square of hundreds of numbers; text and CSV have it.
        group.tables = [
            table
            for table in tables
            if not table.name.startswith("pairs-") or len(table.rows) <= MOST_PAIRED
        ]
        if group.figures or group.tables:
            groups.append(group)
    intro = [
        "All methods and architectures side by side: whether they differ in rank over data sets and"
        " seeds, what the variance of accuracies is of, how often one beats another, how much of a"
        " gain is tuning, and how accuracy follows a setting."
    ]
    if len({setting_results.place.model for setting_results in study.places}) > 1:
        intro.append(f"The name of a network stands for {study.reference} on it.")
    left_out = len(study.conclusions) - MOST_CONCLUDED
    if left_out > 0:
        intro.append(f"{left_out} more settings are in crosswind report --tables all.")
    return Section("Ranks, variance and settings", intro, groups)


def _families(study: StudyRecord) -> Section:
    groups: list[Group] = []
    for family_view in study.families:
        tables = dict(family_view.tables)
        group = Group(_place_heading(study, family_view.place), open=not groups)
        if (figure := family_map(family_view)) is not None:
            group.figures = [(figure, [tables.pop("changes")])]
        if (figure := shift_count_figure(family_view)) is not None:
            group.figures.append((figure, study.shift_counts[family_view.place]))
        group.tables = list(tables.values())
        if len(family_view.places[0].methods) > len(
            study.places[0].methods
        ):  # rows of several models: elsewhere they are not ranked together
            group.figures += [
                (draw.rank_dots(ranks), [rank_table(ranks)])
                for ranks in ranking(family_view.places)
            ]
        groups.append(group)
    intro = [
        "Methods and architectures side by side, by the families of the paper that places most of"
        " them; data sets averaged."
    ]
    return Section("Families", intro, groups)


def _rules(study: StudyRecord) -> Section:
    groups: list[Group] = []
    for anywhere in dict.fromkeys(
        setting_results.place._replace(rule="") for setting_results in study.places
    ):
        # Under every rule that the store has scores of, oracles last.
        rule_results = [
            setting_results
            for setting, setting_results in study.found.places.items()
            if setting._replace(rule="") == anywhere
        ]
        figure = draw.rule_dots(rule_results) if len(rule_results) > 1 else None
        if figure is not None:
            groups.append(
                Group(
                    _place_heading(study, anywhere),
                    figures=[(figure, [rule_table(rule_results)])],
                    open=not groups,
                )
            )
    intro = [
        f"The study reports {', '.join(study.rules)}. Every rule that the store has scores of is"
        " set beside it here, to show how much hangs on the choice; choosing a rule after seeing"
        " this is choosing by the test rows."
    ]
    return Section("Selection rules", intro, groups)


def _time(study: StudyRecord) -> Section:
    run_costs = study.run_costs
    figure = draw.time_bars(run_costs)
    table = time_table(run_costs, sentence=False)
    sentence = largest_part(run_costs)
    figures = [(figure, list[ReportTable]())] if figure else []
    return Section(
        "Where the time went",
        [sentence] if sentence else [],
        [Group(figures=figures, tables=[table])] if table else [],
    )


def _runs(study: StudyRecord) -> Section:
    trouble = trouble_table(study.runs)
    # The reasons stand in a table of their own here, not in the notes.
    tables = [
        run_table(study.found, reasons=False),
        trouble,
        warning_table(study.runs),
        study.actions,
    ]
    intro = [] if trouble else ["No run failed and none diverged."]
    groups = [Group(tables=[table for table in tables if table is not None])]
    each_run = each_run_table(study.runs, _accuracies(study))
    if each_run is not None:
        groups.append(Group("Every run", tables=[each_run], open=False))
    return Section("Runs", intro, groups)


def _accuracies(study: StudyRecord) -> dict[tuple[str, ...], float]:
    """The accuracy of each run, where it is one of a single split seed, by the first set and rule of
    its place."""
    accuracies: dict[tuple[str, ...], float] = {}
    for setting_results in study.places:
        place = setting_results.place
        for (shift, method), entry in setting_results.entries.items():
            names = (place.data, place.size, place.model, shift, method)
            for seed, accuracy in entry.values(HEADLINE.name).items():
                if isinstance(seed, int):
                    accuracies.setdefault((*names, str(seed)), accuracy)
    return accuracies


def _specification(study: StudyRecord) -> Section:
    versions: list[str] = []
    for named, runs in study.versions:
        packages = ", ".join(f"{name} {value}" for name, value in named.items())
        versions.append(f"{packages}  ({runs:,} run{'s' if runs != 1 else ''})")
    texts = [
        ("The study as given", _yaml(study.given)),
        ("The study with every default", _yaml(study.resolved)),
        ("Versions", "\n".join(versions) or "no run is done yet"),
    ]
    return Section("Specification and versions", [], [Group(texts=texts)])


_SECTIONS = (
    *(
        _findings,
        _claims,
        _prompts,
        row_sections.examples,
        _shifts,
        _scores,
        row_sections.systematic,
    ),
    *(
        row_sections.mistakes,
        row_sections.learning_curves,
        estimate_sections.pools,
        estimate_sections.estimates,
    ),
    *(_exhibits, _families, _conclusions, _ranks, _rules, _time, _runs, _specification),
)


def _sections(study: StudyRecord) -> list[Section]:
    return [section for make in _SECTIONS if (section := make(study)).groups]


def _yaml(value: Any) -> str:
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)).rstrip()


def _places_of(study: StudyRecord) -> list[Place]:
    """The places that headings must tell apart."""
    return [setting_results.place for setting_results in study.places]


def _place_heading(study: StudyRecord, setting: Place) -> str:
    return heading_of(_places_of(study), **setting._asdict())
