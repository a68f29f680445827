"""What is known of the methods, in words: for `crosswind list methods`, for the card of each and
for its page in docs/methods.

Facts come from the files of methods and models. What a step costs and where a method was seen to
help come from the records that `benchmarks/speed/method_cost.py` and `benchmarks/papers/effects.py` wrote; they
travel with the package. A method of another package has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from crosswind.core.actions import action_of
from crosswind.core.errors import InputError, unknown
from crosswind.core.registry import Facts, facts, listing
from crosswind.training.wants import WANTED, Want

COST_MODEL = "resnet18"
"""The model whose cost lists show; others are on the cards."""


def listed_methods() -> list[Facts]:
    """Every row of the papers' tables that is there: methods and augmentations, and the models that
    the papers compare, by name."""
    return sorted(
        [*listing("methods"), *(item for item in listing("models") if item.family)],
        key=lambda item: item.name,
    )


def find_method(name: str, field: str = "NAME") -> Facts:
    """The facts of a method, an augmentation or an architecture; an unknown name is an `InputError`
    on `field`."""
    known = {item.name: item for item in listed_methods()}
    if name in known:
        return known[name]
    try:
        return facts(
            "methods", name, field
        )  # it also looks into the modules that the environment names
    except InputError:
        raise unknown(field, "method", name, known) from None


def method_row(known: Facts) -> dict[str, Any]:
    """The facts of a row as plain values: those of `Facts.describe`, `study`, how a study names it,
    `cost` and `effects`."""
    more = {"kind": kind_of(known), "study": {known.room: [known.name]}}
    return {**known.describe(), **more, "cost": cost_of(known.name), "effects": effects_of(known)}


def kind_of(known: Facts) -> str:
    """`method`, `augmentation` or `architecture`."""
    return "architecture" if known.room == "models" else known.kind


def family_of(known: Facts) -> str:
    """The family that each paper puts it in: `domain generalisation (wiles2022); ...`; empty where
    no paper does."""
    papers: dict[str, list[str]] = {}
    for paper, family in (known.family or {}).items():
        papers.setdefault(str(family), []).append(str(paper))
    return "; ".join(f"{family} ({', '.join(some)})" for family, some in papers.items())


def cost_of(name: str) -> dict[str, dict[str, Any]]:
    """Model -> what it costs beside ERM: `time` with `low` and `high`, `flops`, `memory`, and `of`
    what; empty where unmeasured.

    `of` is "step", or "run" where a run has more than one training, or "prediction" where only that
    differs.
    """
    found = _record("method-cost.json").get("results", {}).get(name, {})
    return {str(model): dict(figures) for model, figures in found.items()}


def short_cost(name: str) -> str:
    """The cost on `COST_MODEL` in a word: `1.04`, `1.51 run`; empty where unmeasured."""
    found = cost_of(name).get(COST_MODEL)
    return (
        ""
        if found is None
        else f"{found['time']:.2f}" + ("" if found["of"] == "step" else f" {found['of']}")
    )


def effects_of(known: Facts) -> list[dict[str, Any]]:
    """What was claimed of it and seen, of `benchmarks/effects`: a mapping a claim, `study` its
    file's name; empty where unmeasured.

    Of a method the claims of every study that has it beside the reference, of an architecture those
    that name it on one side only.
    """
    file = f"src/{known.module.replace('.', '/')}.py"
    found = []
    for name, record in _effects().items():
        for claim in record.get("claims", []) if file in record.get("files", {}) else ():
            models = {side["model"] for side in claim["sides"].values()}
            if known.room == "methods" or (known.name in models and len(models) > 1):
                found.append({**claim, "study": name})
    return found


def card_lines(known: Facts) -> list[tuple[str, str]]:
    """What stands above the docstring on a card: (title, text), those that there is something
    for."""
    lines = [
        ("Family", family_of(known)),
        ("In a study", f"{known.room}: [{known.name}]"),
        ("Needs", "; ".join(known.needs.words()) if known.needs is not None else ""),
        ("Wants", _wants(known.name) if known.room == "methods" else ""),
        ("Hooks", (", ".join(known.defines) or "none") if known.room == "methods" else ""),
        ("Limit", _limit(known)),
        (
            "Measured",
            (
                action_of(known.name, known.action, known.limit, known.defines).words()
                if known.room == "methods"
                else ""
            ),
        ),
    ]
    if cost := cost_of(known.name):
        parts = [
            f"{model} {item['time']:.2f} x ({item['flops']:.2f} x its arithmetic)"
            for model, item in cost.items()
        ]
        lines.append(
            (
                "Cost",
                f"time of a {next(iter(cost.values()))['of']} beside ERM's: {', '.join(parts)}",
            )
        )
    lines += [
        ("" if i else "Seen", effect_words(claim)) for i, claim in enumerate(effects_of(known))
    ]
    return [(title, text) for title, text in lines if text]


def effect_words(claim: Mapping[str, Any]) -> str:
    """One claim and what was seen of it, in a sentence."""
    better, than = side_names(claim)
    interval = f"{claim['difference']:+.3f} [{claim['low']:+.3f}, {claim['high']:+.3f}]"
    score = str(claim["metric"]).replace("_", " ")
    return (
        f"{claim['verdict']}: {claim['text']} ({score} of {better} less {than}'s: {interval},"
        f" {claim['n']} seeds)"
    )


def side_names(claim: Mapping[str, Any]) -> tuple[str, str]:
    """What the side claimed better and the other one are called: by their methods, and by their
    models where these differ."""
    better, than = claim["sides"]["better"], claim["sides"]["than"]
    if better["model"] == than["model"]:
        return str(better["method"]), str(than["method"])
    return f"{better['method']} on {better['model']}", f"{than['method']} on {than['model']}"


def _wants(name: str) -> str:
    want = WANTED.get(name, Want())
    steps = f"{want.steps} steps or more, since {want.because}" if want.steps else ""
    return f"given weights: it {want.weights}" if want.weights else steps


def _limit(known: Facts) -> str:
    limit = known.limit
    if limit is None or not limit.equals:
        return f"none: {limit.reason}" if limit is not None else ""
    knobs = (
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in limit.knobs.items()
    )
    return f"at {' and '.join(knobs)} it is {limit.equals}"


@cache
def _effects() -> Mapping[str, Mapping[str, Any]]:
    return {
        path.stem: _record(f"effects/{path.name}")
        for path in sorted((_records() / "effects").glob("*.json"))
    }


@cache
def _record(name: str) -> Mapping[str, Any]:
    try:
        found = json.loads((_records() / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _records() -> Path:
    package = Path(__file__).resolve().parents[1]
    inside = package / "_records"
    return inside if inside.is_dir() else package.parents[1] / "benchmarks" / "results"
