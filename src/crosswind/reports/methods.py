"""Facts of the methods, in words: for `crosswind list methods`, for the card of each and for its
page in docs/methods.

Facts come from the files of methods and models. What a step costs and where a method was seen to
help come from the records that `benchmarks/speed/method_cost.py` and `benchmarks/papers/effects.py`
wrote; they
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
        [
            *listing("methods"),
            *(known_facts for known_facts in listing("models") if known_facts.family),
        ],
        key=lambda known_facts: known_facts.name,
    )


def find_method(name: str, field: str = "NAME") -> Facts:
    """The facts of a method, an augmentation or an architecture; an unknown name is an `InputError`
    on `field`."""
    facts_by_name = {known_facts.name: known_facts for known_facts in listed_methods()}
    if name in facts_by_name:
        return facts_by_name[name]
    try:
        return facts(
            "methods", name, field
        )  # it also looks into the modules that the environment names
    except InputError:
        raise unknown(field, "method", name, facts_by_name) from None


def method_row(known_facts: Facts) -> dict[str, Any]:
    """The facts of a row as plain values: those of `Facts.describe`, `study`, how a study names it,
    `cost` and `effects`."""
    row_facts = {"kind": kind_of(known_facts), "study": {known_facts.room: [known_facts.name]}}
    return {
        **known_facts.describe(),
        **row_facts,
        "cost": cost_of(known_facts.name),
        "effects": effects_of(known_facts),
    }


def kind_of(known_facts: Facts) -> str:
    """`method`, `augmentation` or `architecture`."""
    return "architecture" if known_facts.room == "models" else known_facts.kind


def family_of(known_facts: Facts) -> str:
    """The family that each paper puts it in: `domain generalisation (wiles2022); ...`; empty where
    no paper does."""
    papers: dict[str, list[str]] = {}
    for paper, family in (known_facts.family or {}).items():
        papers.setdefault(str(family), []).append(str(paper))
    return "; ".join(
        f"{family} ({', '.join(family_papers)})" for family, family_papers in papers.items()
    )


def cost_of(name: str) -> dict[str, dict[str, Any]]:
    """Model -> what it costs beside ERM: `time` with `low` and `high`, `flops`, `memory`, and `of`
    what; empty where unmeasured.

    `of` is "step", or "run" where a run has more than one training, or "prediction" where only that
    differs.
    """
    cost_by_model = _record("method-cost.json").get("results", {}).get(name, {})
    return {str(model): dict(figures) for model, figures in cost_by_model.items()}


def short_cost(name: str) -> str:
    """The cost on `COST_MODEL` in a word: `1.04`, `1.51 run`; empty where unmeasured."""
    cost = cost_of(name).get(COST_MODEL)
    if cost is None:
        return ""
    time = f"{cost['time']:.2f}"
    return time if cost["of"] == "step" else f"{time} {cost['of']}"


def effects_of(known_facts: Facts) -> list[dict[str, Any]]:
    """The effects claimed of it and measured, of `benchmarks/effects`: a mapping a claim, `study`
    its file's name; empty where unmeasured.

    Of a method the claims of every study that has it beside the reference, of an architecture those
    that name it on one side only.
    """
    file = f"src/{known_facts.module.replace('.', '/')}.py"
    effects = []
    for name, record in _effects().items():
        for claim in record.get("claims", []) if file in record.get("files", {}) else ():
            models = {side["model"] for side in claim["sides"].values()}
            if known_facts.room == "methods" or (known_facts.name in models and len(models) > 1):
                effects.append({**claim, "study": name})
    return effects


def card_lines(known_facts: Facts) -> list[tuple[str, str]]:
    """The lines above the docstring on a card: (title, text), those that there is something for."""
    name, needs = known_facts.name, known_facts.needs
    wants = hooks = measured = ""
    if known_facts.room == "methods":
        action = action_of(name, known_facts.action, known_facts.limit, known_facts.defines)
        wants, measured = _wants(name), action.words()
        hooks = ", ".join(known_facts.defines) or "none"
    lines = [
        ("Family", family_of(known_facts)),
        ("In a study", f"{known_facts.room}: [{name}]"),
        ("Needs", "" if needs is None else "; ".join(needs.words())),
        ("Wants", wants),
        ("Hooks", hooks),
        ("Limit", _limit(known_facts)),
        ("Measured", measured),
        ("Cost", _cost_words(name)),
    ]
    for i, claim in enumerate(effects_of(known_facts)):
        lines.append(("" if i else "Seen", effect_words(claim)))
    return [(title, text) for title, text in lines if text]


def _cost_words(name: str) -> str:
    """The cost of it on every model that this was measured on; empty where unmeasured."""
    cost = cost_of(name)
    if not cost:
        return ""
    by_model = ", ".join(
        f"{model} {model_cost['time']:.2f} x ({model_cost['flops']:.2f} x its arithmetic)"
        for model, model_cost in cost.items()
    )
    first = next(iter(cost.values()))
    return f"time of a {first['of']} beside ERM's: {by_model}"


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
    """The names of the side claimed better and of the other one: by their methods, and by their
    models where these differ."""
    better, than = claim["sides"]["better"], claim["sides"]["than"]
    if better["model"] == than["model"]:
        return str(better["method"]), str(than["method"])
    return f"{better['method']} on {better['model']}", f"{than['method']} on {than['model']}"


def _wants(name: str) -> str:
    want = WANTED.get(name, Want())
    steps = f"{want.steps} steps or more, since {want.because}" if want.steps else ""
    return f"given weights: it {want.weights}" if want.weights else steps


def _limit(known_facts: Facts) -> str:
    limit = known_facts.limit
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
        record = json.loads((_records() / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _records() -> Path:
    package = Path(__file__).resolve().parents[1]
    inside = package / "_records"
    return inside if inside.is_dir() else package.parents[1] / "benchmarks" / "results"
