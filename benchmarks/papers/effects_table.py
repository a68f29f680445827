"""The records of benchmarks/papers/effects.py: which there are, which are stale, and the tables of their
claims."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.code_hash import code_hash

from crosswind.core.registry import facts
from crosswind.core.types import digest
from crosswind.studies.reading import read_study_file

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ROOT / "benchmarks" / "effects"
RECORDS = ROOT / "benchmarks" / "results" / "effects"
CONFIRMATIONS = ROOT / "benchmarks" / "results" / "effects-confirmations.json"
FIRST = ROOT / "benchmarks" / "results" / "effects-first.json"
NOTES = ROOT / "benchmarks" / "papers" / "effects-notes.yaml"
PAGE = STUDIES / "README.md"
MARK = "<!-- Below this line: what `python -m benchmarks.papers.effects --table` prints. -->"
UNTOLD = ("name", "about", "claims")
"""Fields of a study that change none of its numbers; comments do neither, so that they may say what
was found."""
SOURCE = "src/crosswind"
FILES = {
    # What these subjects are is not, or not only, in the file of a method.
    "ada": ["methods/adversarial.py"],
    "causirl-coral": ["methods/random_mixtures.py"],
    "causirl-mmd": ["methods/random_mixtures.py"],
    "cyclegan": ["methods/translation.py"],
    "deepcoral": ["methods/environment_distances.py"],
    "me-ada": ["methods/adversarial.py"],
    "mmd": ["methods/environment_distances.py"],
    "cos": ["methods/alignment.py", "training/pairs.py"],
    # Beside themselves they have their limit alone, the reference.
    "mmd-align": ["methods/mmd_align.py", "methods/alignment.py", "training/pairs.py"],
    "vicreg": ["methods/vicreg.py", "methods/alignment.py", "training/pairs.py"],
    "reweight": ["shifts/split/sampling.py"],
    "augmix": ["transforms/policies/augmix.py"],
    "randaugment": ["transforms/policies/randaugment.py"],
    "randaugment-parts": [
        "transforms/policies/randaugment.py",
        "transforms/policies/operations.py",
    ],
    "autoaugment": ["transforms/policies/autoaugment.py"],
    "pretraining": ["models/networks/pretrained.py"],
}


def study_names() -> list[str]:
    """The subjects that have a study."""
    return sorted(path.stem for path in STUDIES.glob("*.yaml"))


def records() -> dict[str, dict[str, Any]]:
    """Subject -> its record."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(RECORDS.glob("*.json"))
    }


def study_hashes(values: Mapping[str, Any]) -> dict[str, str]:
    """The SHA-256 of what a study runs and of what it claims, of its fields as the file gives
    them."""
    ran = {name: value for name, value in values.items() if name not in UNTOLD}
    return {"runs": digest(ran, 64), "claims": digest(values.get("claims", []), 64)}


def subject_files(name: str, values: Mapping[str, Any]) -> dict[str, str]:
    """Path in the repository -> hash of the code of the files that the subject of a study is in.

    They are those of its methods that are not the reference; of its models, where claims compare
    two; and `FILES`.
    """
    methods = _labelled(values.get("methods", ["erm"]), "method")
    models = _labelled(values.get("models", ["resnet-w16"]), "model")
    reference = methods.get(str(values.get("reference", "erm")))
    modules = [
        facts("methods", method).module
        for method in dict.fromkeys(methods.values())
        if method != reference
    ]
    if any(isinstance(claim.get("better"), Mapping) for claim in values.get("claims", [])):
        modules += [facts("models", model).module for model in models.values()]
    paths = [f"src/{module.replace('.', '/')}.py" for module in modules] + [
        f"{SOURCE}/{path}" for path in FILES.get(name, [])
    ]
    return {path: code_hash(ROOT / path) for path in dict.fromkeys(paths)}


def _labelled(given: Any, key: str) -> dict[str, str]:
    """Label -> registered name, of a study's methods or models."""
    if not isinstance(given, Mapping):
        return {str(name): str(name) for name in given}
    return {label: str((settings or {}).get(key, label)) for label, settings in given.items()}


def stale(name: str, record: Mapping[str, Any] | None) -> str:
    """Why the record of a subject does not count, in a few words; empty where it does."""
    path = STUDIES / f"{name}.yaml"
    if not path.exists():
        return "has no study file"
    if record is None:
        return "has no record"
    values = read_study_file(path)
    hashes = study_hashes(values)
    if record["study_sha256"]["runs"] != hashes["runs"]:
        return "its study changed"
    if record["study_sha256"]["claims"] != hashes["claims"]:
        return "its claims changed"
    files = subject_files(name, values)
    changed = sorted(
        path for path in {*files, *record["files"]} if files.get(path) != record["files"].get(path)
    )
    return f"{', '.join(changed)} changed" if changed else ""


def tables(found: Mapping[str, Mapping[str, Any]]) -> str:
    """All that stands on the page: the claims, why verdicts are not what they first were, and the
    tasks that were tried."""
    notes = read_study_file(NOTES)
    return (
        f"{table(found)}\n## Changed verdicts\n\n{_changes(found, notes)}\n## Tasks that were tried"
        f" and left\n\n{_tried(notes)}"
    )


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """A row a claim, in Markdown."""
    heads = [
        "subject",
        "where",
        "claim",
        "compared with",
        "claimed better",
        "difference [95% interval]",
        "adjusted p",
        "seeds",
        "points",
        "verdict",
        "first table",
    ]
    heads += ["form", "CPU minutes", "file"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for name, record in found.items():
        minutes = "" if record["cpu_seconds"] is None else f"{record['cpu_seconds'] / 60:.1f}"
        shas = ", ".join(sha[:12] for sha in record["files"].values())
        form = str(record["form"] or "explored")
        lines += [
            f"| {' | '.join(_cells(name, claim))} | {form} | {minutes} | {shas} |"
            for claim in record["claims"]
        ]
    return "\n".join(lines) + "\n"


def first_verdict(name: str, claim: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The same claim as the first table had it; None where it was not there. Its selection rule may
    have been another."""
    sides = {
        f"{side}{end}": claim["sides"][side][key]
        for side in ("better", "than")
        for end, key in (("", "method"), ("_model", "model"))
    }
    about = {key: claim[key] for key in ("text", "data", "shift", "size", "set", "metric")} | sides
    every = json.loads(FIRST.read_text(encoding="utf-8")).get(name, [])
    return next(
        (item for item in every if all(item[key] == value for key, value in about.items())), None
    )


def unexplained(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The claims whose verdict is not that of the first table, and of which the notes do not say
    why."""
    notes = read_study_file(NOTES)
    return [
        f"{name}: {claim['text']} ({claim['shift']})"
        for name, claim, _ in _changed(found)
        if _why(notes, name, claim) is None
    ]


def _changed(
    found: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    for name, record in found.items():
        for claim in record["claims"]:
            first = first_verdict(name, claim)
            if first is not None and first["verdict"] != claim["verdict"]:
                yield name, claim, first


def _why(notes: Mapping[str, Any], name: str, claim: Mapping[str, Any]) -> str | None:
    for item in (notes.get(name) or {}).get("changed", []):
        if item["claim"] == claim["text"] and item.get("shift") in (None, claim["shift"]):
            return str(item["why"])
    return None


def _changes(found: Mapping[str, Mapping[str, Any]], notes: Mapping[str, Any]) -> str:
    lines = []
    for name, claim, first in _changed(found):
        told = (
            f'* {name}, {_escaped(claim["text"])}: first "{first["verdict"]}", now'
            f' "{claim["verdict"]}".'
        )
        lines.append(f"{told} {_why(notes, name, claim) or ''}".rstrip())
    return "\n".join(lines or ["No verdict has changed."]) + "\n"


def _tried(notes: Mapping[str, Any]) -> str:
    lines = ["| subject | task | what was seen |", "|---|---|---|"]
    for name, about in notes.items():
        lines += [
            f"| {name} | {_escaped(item['task'])} | {_escaped(item['seen'])} |"
            for item in about.get("tried", [])
        ]
    return "\n".join(lines) + "\n"


def _cells(name: str, claim: Mapping[str, Any]) -> list[str]:
    where = f"{claim['data']}, {claim['shift']}, {claim['model']}, {claim['set']}, {claim['rule']}"
    better, than = (claim["sides"][side] for side in ("better", "than"))
    score = claim["metric"].replace("_", " ")
    first = first_verdict(name, claim)
    return [
        f"[{name}]({name}.yaml)",
        _escaped(where),
        _escaped(claim["text"]),
        _escaped(f"{_side(than, better)} {claim['than']:.3f}"),
        _escaped(
            f"{_side(better, than)} {claim['better']:.3f}"
            + ("" if score == "accuracy" else f" ({score})")
        ),
        f"{claim['difference']:+.3f} [{claim['low']:+.3f}, {claim['high']:+.3f}]",
        "" if claim["p_adjusted"] is None else f"{claim['p_adjusted']:.2g} of {claim['family']}",
        str(claim["n"]),
        str(better["points"]),
        claim["verdict"] + _marks(better, than),
        (
            ""
            if first is None
            else (
                f"{first['verdict']}: {first['difference']:+.3f} [{first['low']:+.3f},"
                f" {first['high']:+.3f}]"
            )
        ),
    ]


def _marks(better: Mapping[str, Any], than: Mapping[str, Any]) -> str:
    """What a verdict is to be read with: runs that doubt themselves, and a side compared with that
    is no better than guessing."""
    doubts = [
        f"{len(seeds)} runs: {text}"
        for side in (better, than)
        for text, seeds in side["doubts"].items()
    ]
    named = {"the side compared with": than["chance"], "the side claimed better": better["chance"]}
    chance = [f"{what} is {where} chance" for what, where in named.items() if where]
    told = "; ".join(_escaped(text) for text in [*doubts, *chance])
    return f" ({told})" if told else ""


def _side(side: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    same = side["method"] == other["method"]
    return (
        side["model"]
        if same
        else (
            side["method"]
            if side["model"] == other["model"]
            else f"{side['method']}, {side['model']}"
        )
    )


def _escaped(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def page(text: str, found: Mapping[str, Mapping[str, Any]]) -> str:
    """The page with its tables renewed."""
    head, mark, _ = text.partition(MARK)
    if not mark:
        raise SystemExit(f"{PAGE} has lost the line that its table comes after: {MARK}")
    return f"{head}{MARK}\n\n{tables(found)}"
