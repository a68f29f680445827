"""Carry the records of effects and costs over to method files that were edited or moved and give
the same figures.

    python -m tools.carry --why TEXT [SUBJECT ...]     default: every record whose files changed
    python -m tools.carry --beside COMMIT --why TEXT [SUBJECT ...]
                                                       compare with the code of a commit, not with golden figures
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

With `--beside` the study of each subject is run by the package of COMMIT and by the present one, and
a record is carried where all scores, losses, predictions and weights have the same bits; see
beside.py. COMMIT must have the very code that the record is of. That is how a record is carried
whose method is in no part of golden.py, or that is of other code than the golden figures.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.papers import effects_table as effects
from tools import golden
from tools.beside import Beside
from tools.code_hash import code_hash
from tools.golden_parts import METHODS, PARTS

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
Evidence = dict[str, Any]
"""What a note says of how old and new code were compared: `golden`, a hash of the golden figures, or
`beside`, what was run on both sides."""


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


def _method_files() -> set[str]:
    """The names of methods, and the files that they are in."""
    methods = listing("methods")
    paths = {f"src/{item.module.replace('.', '/')}.py" for item in methods}
    return paths | {item.name for item in methods}


def figures(subject: str, files: Files) -> str:
    """A hash of what the golden record has of a subject."""
    kept = golden.read_record()["parts"]
    return str(digest({part: kept.get(part) for part in parts_of(subject, files)}))


def note(old: Files, new: Files, why: str, evidence: Evidence) -> dict[str, Any]:
    """What is kept of hashes that were carried: those that changed, as they were and as they are,
    and by which evidence."""
    changed = {path for path in {*old, *new} if old.get(path) != new.get(path)}
    before, after = (
        {path: sha for path, sha in files.items() if path in changed} for files in (old, new)
    )
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return {"date": date, "why": why, **evidence, "old": before, "new": after}


def of_golden_code(subject: str, item: Stale) -> bool:
    """Whether the golden figures of a subject are those of the files that its record is of."""
    record = golden.read_record()
    known = set(record["files"].values())
    for part in parts_of(subject, item.new):
        known |= set(record.get("later", {}).get(part, {}).values())
    for earlier in item.carried:
        # These files were seen to give the same figures.
        if earlier.get("golden") == figures(subject, item.new):
            known |= set(earlier["new"].values())
    return set(item.old.values()) <= known


@dataclass(frozen=True)
class GoldenJudge:
    """Carries what gives the golden figures. `equal` computes a part of the golden record: a
    sentence of what differs, empty where nothing does."""

    equal: Callable[[str], str]

    def __call__(self, subject: str, item: Stale) -> tuple[str, Evidence]:
        """Why the record of a subject may not be carried, empty where it may; and by which
        evidence."""
        if not item.new:
            return item.why, {}
        if not of_golden_code(subject, item):
            reason = "its record is of other files than the golden record, whose figures may differ"
            return reason, {}
        changed = changed_files(item)
        # Of a method whose file is the same, such as one compared with, nothing is asked, unless a
        # file changed that several methods share.
        has_shared = subject not in PARTS_OF and not changed.keys() <= _method_files()
        parts = parts_of(subject, item.new if has_shared else changed)
        if not parts:
            return "no part of golden.py runs it", {}
        reasons = [reason for part in parts if (reason := self.equal(part))]
        return "; ".join(reasons), {"golden": figures(subject, item.new)}


@dataclass(frozen=True)
class BesideJudge:
    """Carries what leaves the same bits as the code that the record is of, beside it; see
    `Beside`."""

    beside: Beside

    def __call__(self, subject: str, item: Stale) -> tuple[str, Evidence]:
        """See `GoldenJudge`."""
        if not item.new:
            return item.why, {}
        for path, recorded in changed_files(item, item.old).items():
            if self._old_hash(path) != recorded:
                return f"its record is of another {path} than commit {self.beside.commit[:12]}", {}
        # Costs are of no study: all settings of the method that golden.py runs are compared.
        part = f"method-{subject}"
        if subject in item.new and part in PARTS:
            reason, evidence = self.beside.compare_part(part)
        else:
            reason, evidence = self.beside.compare(subject)
        return reason, {"beside": evidence}

    def _old_hash(self, name: str) -> str | None:
        """The hash of a file of the commit by its path in the repository, or of the method of that
        name; None where it has none."""
        from benchmarks.speed.method_cost import sha256_of  # loads torch

        is_method = name in {item.name for item in listing("methods")}
        try:
            return (
                sha256_of(name, self.beside.tree)
                if is_method
                else code_hash(self.beside.tree / name)
            )
        except OSError:
            return None


Judge = GoldenJudge | BesideJudge


def changed_files(item: Stale, files: Files | None = None) -> Files:
    """Those of `files`, by default the present ones, that are not the same in the record and
    now."""
    files = item.new if files is None else files
    return {path: sha for path, sha in files.items() if item.old.get(path) != item.new.get(path)}


def golden_is_equal(part: str) -> str:
    """Compute a part of the golden record with the present code: empty where it is equal, else the
    first difference."""
    recorded = golden.read_record()["parts"]
    if part not in recorded:
        return f"the golden record has no part {part!r}"
    if part not in _COMPARED:
        differing, sentence = golden.compare(part, recorded[part])
        differing = [item for item in differing if not _counts_sentences(item)]
        print(f"  golden {part}: {sentence}", flush=True)
        if differing:
            _COMPARED[part] = f"{part}: {len(differing)} figures differ, first {differing[0]}"
        else:
            _COMPARED[part] = sentence if sentence.startswith("skipped") else ""
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


def carry_effect(name: str, files: Files, why: str, evidence: Evidence) -> None:
    """Rewrite the hashes of a record, and of the form that it was confirmed as; the page shows
    them."""
    path = effects.RECORDS / f"{name}.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record.setdefault("carried", []).append(note(record["files"], files, why, evidence))
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


def carry_cost(name: str, files: Files, why: str, evidence: Evidence) -> None:
    """Rewrite the hash of a method in the record of costs."""
    record = json.loads(COSTS.read_text(encoding="utf-8"))
    old = {name: record["files"][name]}
    record.setdefault("carried", []).append(note(old, files, why, evidence))
    record["files"] |= files
    write_atomically(COSTS, (json.dumps(record, indent=1) + "\n").encode())


def carry(
    stale: Mapping[str, Stale],
    write: Callable[[str, Files, str, Evidence], None],
    what: str,
    why: str,
    judge: Judge,
) -> int:
    """Carry what can be carried; how many records stay stale. Without a reason `why` nothing is
    computed or written."""
    left = 0
    for name, item in stale.items():
        if not why:
            left += 1
            print(f"{what} {name}: stale, {item.why}", flush=True)
            continue
        refused, evidence = judge(name, item)
        if refused:
            left += 1
            print(f"{what} {name}: stale, to be run again: {refused}", flush=True)
        else:
            write(name, item.new, why, evidence)
            print(f"{what} {name}: carried ({item.why})", flush=True)
    return left


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "subjects", nargs="*", metavar="SUBJECT", help="these records; default: all that are stale"
    )
    parser.add_argument("--why", default="", help="what was done to the files; kept in the record")
    parser.add_argument(
        "--beside", metavar="COMMIT", help="compare with the code of this commit, by running both"
    )
    parser.add_argument(
        "--steps",
        type=int,
        metavar="N",
        help="with --beside: cap every training at N steps; default: as the study says",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="with --beside: keep what the old side leaves"
    )
    options = parser.parse_args()
    if options.beside is None and (options.steps or options.keep):
        parser.error("--steps and --keep are of --beside, which is not given")
    if options.steps is not None and options.steps < 1:
        parser.error(f"--steps must be at least 1, not {options.steps}")
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

    with ExitStack() as stack:
        judge: Judge = GoldenJudge(golden_is_equal)
        if options.beside is not None:
            beside = Beside(options.beside, steps=options.steps, kept=options.keep)
            judge = BesideJudge(stack.enter_context(beside))
        left = carry(wanted(stale_effects()), carry_effect, "effects of", options.why, judge)
        left += carry(wanted(stale_costs()), carry_cost, "costs of", options.why, judge)
    print(f"{left} records are stale")
    return 1 if left else 0


if __name__ == "__main__":
    # Two sides on one machine need no other machine's digits.
    if not any(word.startswith("--beside") for word in sys.argv[1:]):
        golden.use_instructions_of_record("tools.carry")
    sys.exit(main())
