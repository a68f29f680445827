"""Writes docs/papers/PAPER.md and docs/papers/README.md: every figure, table and claim of the four papers, and
the study or command that draws or judges it. Nothing in them is written by hand.

python -m tools.make_papers            # write them
python -m tools.make_papers --check    # say which differ from what would be written, and end with 1 if any does

What belongs to what stands in tools/papers.yaml; numbers of runs come from the studies, records from benchmarks/results.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from crosswind.studies.obstacles import count_runs
from crosswind.studies.spec import load_study

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "papers"
PAPERS = Path(__file__).with_name("papers.yaml")
WRITTEN = (
    "This page is written by `tools/make_papers.py` from `tools/papers.yaml`, the studies and the"
    " records."
)
SCALES = ("tiny", "small", "figure", "lite", "start", "base", "pretrained", "paper")


def papers() -> dict[str, dict[str, Any]]:
    """The papers by name, as the file has them."""
    values: dict[str, dict[str, Any]] = yaml.safe_load(PAPERS.read_text(encoding="utf-8"))
    return values


def pages() -> dict[str, str]:
    """File name -> text of every page."""
    return {"PAPER.md": _exhibits(), "README.md": _claims()}


# -- exhibits --------------------------------------------------------------------------------------


def _exhibits() -> str:
    lines = [
        "# Every figure and table",
        "",
        "What of the four papers is drawn by which study or command, how many runs that takes, the record of"
        " what ran here, and what differs. The claims are in [another table](README.md).",
        WRITTEN,
        "",
        "`crosswind plan STUDY --scale SCALE` says what a study lacks on your machine; `crosswind run` with the"
        " same words runs it. *Runs* are those of the file as it stands and of each of its scales. Commands"
        " and times stand at the head of each study.",
    ]
    for paper in papers().values():
        lines += [
            "",
            f"## {paper['title']}",
            "",
            "| item | shows | drawn by | runs | record here | differs or lacks |",
            "|---|---|---|---|---|---|",
        ]
        lines += [_exhibit_row(exhibit) for exhibit in paper["exhibits"]]
    return "\n".join(lines) + "\n"


def _exhibit_row(exhibit: Mapping[str, Any]) -> str:
    cells = [_items(exhibit["items"]), exhibit.get("shows", ""), _drawn_by(exhibit)]
    cells += [_runs(exhibit.get("study")), _record(exhibit.get("record"))]
    cells.append(exhibit.get("lacks") or exhibit.get("differs", ""))
    return f"| {' | '.join(cells)} |"


def _items(items: Sequence[str]) -> str:
    """Items with runs of numbers written short: figures 9 to 20."""
    kinds: dict[str, list[str]] = {}
    for item in items:
        kind, _, number = item.rpartition(" ")
        kinds.setdefault(kind, []).append(number)
    return "; ".join(
        f"{kind}{'s' if len(numbers) > 1 else ''} {_numbers(numbers)}"
        for kind, numbers in kinds.items()
    )


def _numbers(numbers: Sequence[str]) -> str:
    if not all(number.isdigit() for number in numbers):
        return ", ".join(numbers)
    spans: list[list[int]] = []
    for number in map(int, numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    words = []
    for span in spans:
        words += [f"{span[0]} to {span[-1]}"] if len(span) > 2 else map(str, span)
    return ", ".join(words)


def _drawn_by(exhibit: Mapping[str, Any]) -> str:
    kind = exhibit.get("is")
    if kind:
        return {
            "illustration": "an illustration, needs none",
            "settings": "settings, in the studies' headers",
        }[kind]
    if "study" in exhibit:
        scale = f" at `{exhibit['scale']}`" if "scale" in exhibit else ""
        return f"{_study_link(exhibit['study'])}{scale}"
    return f"`{exhibit['command']}`" if "command" in exhibit else "none"


def _study_link(study: str) -> str:
    return f"[{study}](../../studies/{study}.yaml)"


@cache
def _runs(study: str | None) -> str:
    """The runs of a study and of each of its scales, without its data and files."""
    if study is None:
        return ""
    fields = yaml.safe_load((ROOT / "studies" / f"{study}.yaml").read_text(encoding="utf-8"))
    counts = [f"{count_runs(load_study(study)):,}"]
    scales = sorted(
        fields.get("scales", {}), key=lambda scale: SCALES.index(scale) if scale in SCALES else 99
    )
    counts += [f"{scale} {count_runs(load_study(study, scale)):,}" for scale in scales]
    return ", ".join(counts)


def _record(record: str | None) -> str:
    """Where the numbers of what ran here are; nothing without any."""
    if record is None:
        return ""
    if (ROOT / "benchmarks" / "results" / record).is_dir():  # pages do not link to folders
        return f"`benchmarks/results/{record}`"
    return f"[{record}](../../benchmarks/results/{record})"


# -- claims ----------------------------------------------------------------------------------------


def _claims() -> str:
    claims = [claim for paper in papers().values() for claim in paper["claims"]]
    lines = [
        "# The claims of the four papers",
        "",
        f"{len(claims)} claims, the claims of studies that judge each on their report's page, and what the runs"
        " committed here say. Every figure and table is in [another one](PAPER.md).",
        WRITTEN,
        "",
        "*cannot tell* is no finding that a claim is false: the runs here are small. Verdicts are corrected for"
        " all claims of their study ([statistics](../reference/statistics.md#families-of-tests)).",
        "A pool of networks judges the claims of Ng et al. on every page that has one.",
    ]
    for paper in papers().values():
        lines += [
            "",
            f"## {paper['title']}",
            "",
            "| | claim | judged by | verdict here |",
            "|---|---|---|---|",
        ]
        for number, claim in enumerate(paper["claims"], 1):
            judged = "; ".join(_judged(study, names) for study, names in claim["judged"].items())
            note = f" ({claim['note']})" if "note" in claim else ""
            verdict = f"[{claim['verdict']}]({claim['page']}){note}"
            lines.append(f"| {number} | {claim['claim']} | {judged} | {verdict} |")
    return "\n".join(lines) + "\n"


def _judged(study: str, names: Sequence[str | int]) -> str:
    if not names:
        return f"{_study_link(study)}, its pool"
    if isinstance(names[0], int):
        return (
            f"{_study_link(study)}: {len(names)} claims"
            if len(names) > 1
            else f"{_study_link(study)}: claim {names[0]}"
        )
    return f"{_study_link(study)}: {', '.join(f'`{name}`' for name in names)}"


# -- completeness ----------------------------------------------------------------------------------


def problems() -> Iterator[str]:
    """What is missing or named wrongly: an item that stands nowhere or twice, a study, scale, claim, record or
    page that there is not."""
    for name, paper in papers().items():
        items = [item for exhibit in paper["exhibits"] for item in exhibit["items"]]
        wanted = [f"figure {number}" for number in range(1, paper["figures"] + 1)]
        wanted += [f"table {number}" for number in range(1, paper["tables"] + 1)]
        yield from (f"{name}: {item} is missing" for item in wanted if item not in items)
        yield from (
            f"{name}: {item} stands {items.count(item)} times"
            for item in dict.fromkeys(items)
            if items.count(item) > 1
        )
        yield from (
            f"{name}: there is no {item}"
            for item in items
            if re.match(r"(figure|table) \d+$", item) and item not in wanted
        )
        for exhibit in paper["exhibits"]:
            yield from _exhibit_problems(name, exhibit)
        for claim in paper["claims"]:
            yield from _claim_problems(name, claim)
    shown = {exhibit.get("study") for paper in papers().values() for exhibit in paper["exhibits"]}
    texts = PAPERS.read_text(encoding="utf-8")
    for path in sorted((ROOT / "studies").glob("*2*/*.yaml")):
        study = str(path.relative_to(ROOT / "studies").with_suffix(""))
        if study not in shown and study not in texts:
            yield f"{study} draws nothing that is listed"


def _exhibit_problems(name: str, exhibit: Mapping[str, Any]) -> Iterator[str]:
    items = ", ".join(exhibit["items"])
    ways = [way for way in ("is", "study", "command", "lacks") if way in exhibit]
    if len(ways) != 1:
        yield f"{name}: {items}: must have one of is, study, command and lacks, and has {ways}"
    if "study" in exhibit and not (ROOT / "studies" / f"{exhibit['study']}.yaml").is_file():
        yield f"{name}: {items}: there is no study {exhibit['study']}"
    elif "scale" in exhibit and exhibit["scale"] not in load_study(exhibit["study"]).scales:
        yield f"{name}: {items}: {exhibit['study']} has no scale {exhibit['scale']}"
    if "record" in exhibit and not (ROOT / "benchmarks" / "results" / exhibit["record"]).exists():
        yield f"{name}: {items}: there is no record {exhibit['record']}"


def _claim_problems(name: str, claim: Mapping[str, Any]) -> Iterator[str]:
    where = f"{name}: {claim['claim']}"
    if not (FOLDER / claim["page"]).is_file():
        yield f"{where}: there is no page {claim['page']}"
    for study, names in claim["judged"].items():
        path = ROOT / "studies" / f"{study}.yaml"
        if not path.is_file():
            yield f"{where}: there is no study {study}"
            continue
        declared = _declared_claims(yaml.safe_load(path.read_text(encoding="utf-8")))
        yield from (
            f"{where}: {study} has no claim {wanted}" for wanted in names if wanted not in declared
        )


def _declared_claims(study: Mapping[str, Any]) -> list[str | int]:
    """The names or numbers of a study's claims, and the names of those that a scale adds."""
    claims = study.get("claims", [])
    names = list(claims) if isinstance(claims, dict) else list(range(1, len(claims) + 1))
    for overlay in study.get("scales", {}).values():
        added = overlay.get("claims")
        if isinstance(added, dict):
            names += [name for name, claim in added.items() if claim is not None]
    return names


def main() -> int:
    """Write the pages or, with --check, name those that differ."""
    wrong = list(problems())
    for problem in wrong:
        print(problem, file=sys.stderr)
    differing = [
        name
        for name, text in pages().items()
        if not (FOLDER / name).is_file() or (FOLDER / name).read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv[1:]:
        for name in differing:
            print(f"docs/papers/{name} differs: python -m tools.make_papers", file=sys.stderr)
        return 1 if wrong or differing else 0
    for name in differing:
        (FOLDER / name).write_text(pages()[name], encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
