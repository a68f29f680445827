"""Writes docs/methods: a page for each method, augmentation and architecture, and their table.
Nothing in them is written by hand.

python -m tools.make_methods            # write them
python -m tools.make_methods --check    # say which differ from what would be written, and end with 1 if any does

Facts come from the files of methods and models, figures from the records in benchmarks/results,
tasks that were tried from benchmarks/papers/effects-notes.yaml.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from crosswind.core.registry import Facts
from crosswind.reports.methods import (
    COST_MODEL,
    card_lines,
    cost_of,
    effects_of,
    family_of,
    kind_of,
    listed_methods,
    short_cost,
    side_names,
)

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "methods"
NOTES = ROOT / "benchmarks" / "papers" / "effects-notes.yaml"
SECTION = re.compile(r"^([A-Z][A-Za-z ]{2,24}): ?(.*)$")
CARD = ("Family", "In a study", "Needs", "Wants", "Hooks", "Limit", "Measured")


def pages() -> dict[str, str]:
    """File name -> text of every page."""
    known = listed_methods()
    return {"README.md": _index(known), **{f"{item.name}.md": _page(item) for item in known}}


def _index(known: Sequence[Facts]) -> str:
    lines = [
        "# Methods",
        "",
        (
            "Every row of the papers' tables that Crosswind has: methods, augmentations and"
            " architectures, as `crosswind list methods`"
        ),
        "shows them. This folder is written by `tools/make_methods.py`. Which to take when:",
        (
            "[choosing a method](../guides/choosing-a-method.md). What was measured, and how:"
            " [effects](../../benchmarks/effects/README.md),"
        ),
        (
            "[benchmarks](../../benchmarks/README.md). Pretraining is no method of its own: a model"
            " takes weights from a file or by a"
        ),
        "published name.",
        "",
        (
            f"Cost is a training step's time beside `erm`'s on {COST_MODEL}, or a run's or a"
            " prediction's where it says so; helped is"
        ),
        "how many of the claims made of it held where they were measured, of how many.",
        "",
        *_table(
            ("name", "kind", "family (paper)", "needs", "hooks", "cost", "helped"),
            [
                (
                    f"[`{item.name}`]({item.name}.md)",
                    kind_of(item),
                    family_of(item),
                    "; ".join(item.needs.words()) if item.needs is not None else "",
                    ", ".join(item.defines) if item.room == "methods" else "",
                    short_cost(item.name),
                    _helped(item),
                )
                for item in known
            ],
        ),
    ]
    return "\n".join(lines) + "\n"


def _helped(item: Facts) -> str:
    seen = [claim["verdict"] == "holds" for claim in effects_of(item)]
    return f"{sum(seen)} of {len(seen)}" if seen else ""


def _page(item: Facts) -> str:
    lines = [f"# {item.name}", "", f"{kind_of(item).capitalize()}. {_escaped(item.summary)}", ""]
    told = {title: text for title, text in card_lines(item) if title in CARD}
    lines += [
        *_table(("", ""), [(title.lower(), _escaped(text)) for title, text in told.items()]),
        "",
    ]
    for title, block in _sections(item.doc):
        lead, rest = (
            (f"**{title}:** {block[0]}", block[1:])
            if title and title != "Reference"
            else (f"**{title}:**" if title else "", block)
        )
        lines += [*([lead] if lead else []), *([""] if title == "Reference" else []), *rest, ""]
    if item.knobs:
        rows = []
        for knob in item.knobs:
            default = (
                "required"
                if knob.required
                else "null"
                if knob.default is None
                else f"{knob.default}"
            )
            tried = [knob.search.words()] if knob.search else []
            tried += [
                f"{paper}: {', '.join(map(str, values))}"
                for paper, values in (knob.grid or {}).items()
            ]
            cells = (
                f"`{knob.name}`",
                knob.doc,
                default,
                knob.domain or knob.annotation,
                "; ".join(tried),
                knob.source,
            )
            rows.append(
                tuple(_escaped(cell) if place else cell for place, cell in enumerate(cells))
            )
        lines += [
            "## Settings",
            "",
            *_table(
                ("name", "meaning", "default", "values", "search; published", "default found in"),
                rows,
            ),
            "",
        ]
    if effects_of(item):
        rows = [
            (
                _escaped(claim["text"]),
                _escaped(", ".join(str(claim[part]) for part in ("data", "shift", "set", "model"))),
                claim["metric"].replace("_", " "),
                *(
                    f"{name} {claim[side]:.3f}"
                    for name, side in zip(
                        reversed(side_names(claim)), ("than", "better"), strict=True
                    )
                ),
                f"{claim['difference']:+.3f} [{claim['low']:+.3f}, {claim['high']:+.3f}]",
                str(claim["n"]),
                claim["verdict"],
            )
            for claim in effects_of(item)
        ]
        names = dict.fromkeys(str(claim["study"]) for claim in effects_of(item))
        studies = ", ".join(
            f"[`{name}.yaml`](../../benchmarks/effects/{name}.yaml)" for name in names
        )
        about = (
            "Paired by seed. Intervals are of 95%, each of its claim alone; verdicts are corrected"
            " for all claims of their study. Both sides tuned over equally many points. In"
            f" {studies}."
        )
        titles = (
            "claim",
            "data, shift, set, model",
            "score",
            "compared with",
            "claimed better",
            "difference",
            "seeds",
            "verdict",
        )
        lines += ["## What was seen", "", about, "", *_table(titles, rows), ""]
        lines += _tried(item, list(names))
    if cost_of(item.name):
        rows = [
            (
                model,
                f"{one['time']:.2f} [{one['low']:.2f}, {one['high']:.2f}]",
                f"{one['flops']:.2f}",
                f"{one['memory']:.2f}",
            )
            for model, one in cost_of(item.name).items()
        ]
        what = next(iter(cost_of(item.name).values()))["of"]
        lines += ["## Cost", "", f"A {what} beside `erm`'s: median of rounds and their range.", ""]
        lines += [
            *_table(
                ("model", "time", "arithmetic that the definition demands", "peak memory"), rows
            ),
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def _tried(item: Facts, studies: Sequence[str]) -> list[str]:
    """That no claim held, where none did, and by what search; and the tasks that were tried and
    left."""
    claims = effects_of(item)
    notes = yaml.safe_load(NOTES.read_text(encoding="utf-8"))
    left = [
        (_escaped(one["task"]), _escaped(one["seen"]))
        for name in studies
        for one in (notes.get(name) or {}).get("tried", [])
    ]
    lines: list[str] = []
    if not any(claim["verdict"] == "holds" for claim in claims):
        rules = dict.fromkeys(f"`{claim['rule']}`" for claim in claims)
        about = {
            (claim["data"], claim["sides"]["better"]["points"], claim["n"]) for claim in claims
        }
        told = "; ".join(
            f"`{data}`, {points} points a side, {n} seeds" for data, points, n in sorted(about)
        )
        lines = [
            (
                "**Not shown.** No claim was seen to hold on any task within reach. Above, on rows"
                f" and seeds that no exploration saw: {told}, points chosen by"
                f" {' or '.join(rules)}."
            ),
            "",
        ]
    return [
        *lines,
        *(["Tried, and left:", "", *_table(("task", "what was seen"), left), ""] if left else []),
    ]


def _sections(doc: str) -> Iterator[tuple[str, list[str]]]:
    """The parts of a docstring after its summary: title, empty before the first one, and its
    Markdown."""
    title, body = "", list[str]()
    for line in doc.strip().partition("\n\n")[2].splitlines():
        match = SECTION.match(line)
        if match is None:
            body.append(line)
            continue
        if any(map(str.strip, body)):
            yield title, _markdown(title, body)
        title, body = match[1], [match[2]]
    if any(map(str.strip, body)):
        yield title, _markdown(title, body)


def _markdown(title: str, body: Sequence[str]) -> list[str]:
    """Prose joined, what is set in deeper (formulas, lists) as it stands. References are BibTeX."""
    if title == "Reference":
        entry = "\n".join(line.strip() for line in body if line.strip())
        return ["```bibtex", *entry.splitlines(), "```"]
    # Prose goes on at the margin where a formula has been set in, else under its title, by four.
    first, *rest = body
    margin = 0 if any(line and not line.startswith(" ") for line in rest) else 4
    out: list[str] = []
    prose, inset = [first], list[str]()

    def flush() -> None:
        if any(prose):
            out.extend(["", _escaped(" ".join(line.strip() for line in prose if line.strip()))])
        if inset:
            out.extend(["", "```text", *inset, "```"])
        prose.clear()
        inset.clear()

    for line in rest:
        deeper = line.strip() and len(line) - len(line.lstrip()) > margin
        # A formula is led in by a comma or a colon: until then the first sentence goes on.
        if deeper and (out or inset or prose[-1].rstrip().endswith((",", ":"))):
            inset.append(line[margin:].removeprefix("    "))
        else:
            if inset or not line.strip():
                flush()
            prose.append(line)
    flush()
    return out[1:]


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(titles)} |",
        f"|{'---|' * len(titles)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _escaped(text: str) -> str:
    """Text in which Markdown finds nothing to set: formulas are full of its signs."""
    return re.sub(r"([\\*<|\[\]])", r"\\\1", re.sub(r"\s+", " ", text))


def main() -> int:
    """Write the pages, or with --check compare."""
    made = pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    differ = sorted(name for name in {*made, *there} if made.get(name) != there.get(name))
    if "--check" in sys.argv[1:]:
        print(
            "\n".join(
                f"docs/methods/{name} is not what tools/make_methods.py writes" for name in differ
            )
            or "docs/methods is up to date"
        )
        return int(bool(differ))
    FOLDER.mkdir(exist_ok=True)
    for name in differ:
        if name in made:
            (FOLDER / name).write_text(made[name], encoding="utf-8")
        else:
            (FOLDER / name).unlink()
    print(f"{len(differ)} of {len(made)} pages written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
