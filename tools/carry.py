"""Carry the records of effects and costs over to method files that were edited or moved and give
the same figures.

    python -m tools.carry --why TEXT [SUBJECT ...]     default: every record whose files changed
    python -m tools.carry                              say which records are stale; nothing is computed or written

A record holds the hash of the files that its subject is in, so that any edit makes it stale, a word
of a docstring too. Here the parts of golden.py that run the subject are computed with the present
code. Where every figure is that of golden/record.json, to the last digit, the hashes in the record
become those of the present files, and `carried` in it says what they were and why. Nothing else of
the record is changed. A record that was stale when the golden record was made cannot be carried. A
subject with one other figure, also one that golden/changes.yaml lists, is left stale and named: it
is to be run again (`effects.py --confirm`, `method_cost.py`). How many sentences runs say of
themselves is no figure of what was measured: where only that differs, a record is carried, and its
`doubts` stay those of the runs that it is of. A file that moved is found by the registry, or by
`FILES` in effects_table.py. Exit status 1 where a record is still stale.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.papers import effects_table as effects
from tools import golden
from tools.golden_parts import METHODS

from crosswind.core.files import write_atomically
from crosswind.core.registry import listing
from crosswind.core.types import digest
from crosswind.studies.reading import read_study_file

COSTS = effects.ROOT / "benchmarks" / "results" / "method-cost.json"
PARTS_OF = {
    "reweight": ["samplers"],
    "architectures": ["models", "models-large"],
    "pretraining": ["models"],
    "augmix": ["transforms"],
    "autoaugment": ["transforms"],
    "randaugment": ["transforms"],
    "randaugment-parts": ["transforms"],
}
"""Subject -> the parts of golden.py that run it, beside `method-NAME` of every method whose file
its record names."""
Files = dict[str, str]
Equal = Callable[[str], str]


class Stale(NamedTuple):
    """A record that is not of the present files: why, what it is of, what was carried before, and
    the present files (none: the subject itself changed).
    """

    why: str
    old: Files
    carried: Sequence[Mapping[str, Any]]
    new: Files


def parts_of(subject: str, files: Files) -> list[str]:
    """The parts of golden.py that run a subject, a method or one whose present files these are."""
    own = [
        item.name
        for item in listing("methods")
        if f"src/{item.module.replace('.', '/')}.py" in files or item.name in files
    ]
    return [*(f"method-{name}" for name in own), *PARTS_OF.get(subject, [])]


def figures(subject: str, files: Files) -> str:
    """A hash of what the golden record has of a subject."""
    kept = golden.read_record()["parts"]
    return str(digest({part: kept.get(part) for part in parts_of(subject, files)}))


def note(subject: str, old: Files, new: Files, why: str) -> dict[str, Any]:
    """What is kept of hashes that were carried: those that changed, as they were and as they are,
    and by which golden figures."""
    changed = {path for path in {*old, *new} if old.get(path) != new.get(path)}
    before, after = (
        {path: sha for path, sha in files.items() if path in changed} for files in (old, new)
    )
    told = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "why": why,
        "golden": figures(subject, new),
    }
    return {**told, "old": before, "new": after}


def of_golden_code(subject: str, item: Stale) -> bool:
    """Whether the golden figures of a subject are those of the files that its record is of."""
    record = golden.read_record()
    known = set(record["files"].values())
    for part in parts_of(subject, item.new):
        known |= set(record.get("later", {}).get(part, {}).values())
    for told in item.carried:
        if told["golden"] == figures(
            subject, item.new
        ):  # these files were seen to give the same figures
            known |= set(told["new"].values())
    return set(item.old.values()) <= known


def refusal(subject: str, item: Stale, equal: Equal) -> str:
    """Why the record of a subject may not be carried; empty where it may."""
    if not item.new:
        return item.why
    if not of_golden_code(subject, item):
        return "its record is of other files than the golden record, whose figures may be others"
    # Of a method whose file is the same, such as one compared with, nothing is asked.
    parts = parts_of(
        subject, {path: sha for path, sha in item.new.items() if item.old.get(path) != sha}
    )
    return (
        "; ".join(reason for part in parts if (reason := equal(part)))
        if parts
        else "no part of golden.py runs it"
    )


def golden_is_equal(part: str) -> str:
    """Compute a part of the golden record with the present code: empty where it is equal, else the
    first difference."""
    kept = golden.read_record()["parts"]
    if part not in kept:
        return f"the golden record has no part {part!r}"
    if part not in _COMPARED:
        found, told = golden.compare(part, kept[part])
        found = [item for item in found if not _counts_sentences(item)]
        print(f"  golden {part}: {told}", flush=True)
        skipped = told.startswith("skipped")
        _COMPARED[part] = (
            f"{part}: {len(found)} figures differ, first {found[0]}"
            if found
            else told
            if skipped
            else ""
        )
    return _COMPARED[part]


_COMPARED: dict[str, str] = {}


def _counts_sentences(item: golden.Difference) -> bool:
    """Whether a difference is the number of sentences that runs or plans say of themselves, and no
    figure of what they did."""
    return item.figure == "doubts" or (
        item.figure == "count" and item.subject.endswith(": warnings")
    )


def stale_effects() -> dict[str, Stale]:
    """The stale records of effects, by subject."""
    found = {}
    for name, record in effects.records().items():
        if why := effects.stale(name, record):
            values = read_study_file(effects.STUDIES / f"{name}.yaml")
            same = record["study_sha256"] == effects.study_hashes(values)
            new = effects.subject_files(name, values) if same else {}
            found[name] = Stale(why, record["files"], record.get("carried", []), new)
    return found


def stale_costs() -> dict[str, Stale]:
    """The methods whose costs are stale."""
    from benchmarks.speed.method_cost import sha256_of  # loads torch

    record = json.loads(COSTS.read_text(encoding="utf-8"))
    known = {item.name for item in listing("methods")}
    found = {}
    for name, sha in record["files"].items():
        new = {name: sha256_of(name)} if name in known else {}
        carried = [item for item in record.get("carried", []) if name in item["new"]]
        if new != {name: sha}:
            found[name] = Stale(
                "its file changed" if new else "there is no such method", {name: sha}, carried, new
            )
    return found


def carry_effect(name: str, files: Files, why: str) -> None:
    """Rewrite the hashes of a record, and of the form that it was confirmed as; the page shows
    them."""
    path = effects.RECORDS / f"{name}.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record.setdefault("carried", []).append(note(name, record["files"], files, why))
    began = json.loads(effects.CONFIRMATIONS.read_text(encoding="utf-8"))
    for form in began.get(name, []):
        if form["form"] == record["form"]:
            form["files"] = files
    record["files"] = files
    write_atomically(
        effects.CONFIRMATIONS, (json.dumps(began, indent=1, sort_keys=True) + "\n").encode()
    )
    write_atomically(path, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())
    write_atomically(
        effects.PAGE,
        effects.page(effects.PAGE.read_text(encoding="utf-8"), effects.records()).encode(),
    )


def carry_cost(name: str, files: Files, why: str) -> None:
    """Rewrite the hash of a method in the record of costs."""
    record = json.loads(COSTS.read_text(encoding="utf-8"))
    record.setdefault("carried", []).append(note(name, {name: record["files"][name]}, files, why))
    record["files"] |= files
    write_atomically(COSTS, (json.dumps(record, indent=1) + "\n").encode())


def carry(
    stale: Mapping[str, Stale],
    write: Callable[[str, Files, str], None],
    what: str,
    why: str,
    equal: Equal,
) -> int:
    """Carry what can be carried; how many records stay stale. Without a reason `why` nothing is
    computed or written."""
    left = 0
    for name, item in stale.items():
        refused = refusal(name, item, equal) if why else item.why
        if why and not refused:
            write(name, item.new, why)
            print(f"{what} {name}: carried ({item.why})", flush=True)
        else:
            left += 1
            print(
                f"{what} {name}: stale, {'to be run again: ' if why else ''}{refused}", flush=True
            )
    return left


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "subjects", nargs="*", metavar="SUBJECT", help="these records; default: all that are stale"
    )
    parser.add_argument("--why", default="", help="what was done to the files; kept in the record")
    options = parser.parse_args()
    import crosswind

    if not Path(crosswind.__file__).is_relative_to(effects.ROOT / "src"):
        parser.error(
            f"crosswind is loaded from {Path(crosswind.__file__).parent}, not from this checkout;"
            " set PYTHONPATH to its src"
        )
    unknown = set(options.subjects) - {*effects.records(), *METHODS}
    if unknown:
        parser.error(f"there is no record of {', '.join(sorted(unknown))}")

    def wanted(stale: dict[str, Stale]) -> dict[str, Stale]:
        return {
            name: item
            for name, item in stale.items()
            if not options.subjects or name in options.subjects
        }

    left = carry(wanted(stale_effects()), carry_effect, "effects of", options.why, golden_is_equal)
    left += carry(wanted(stale_costs()), carry_cost, "costs of", options.why, golden_is_equal)
    print(f"{left} records are stale")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
