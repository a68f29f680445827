"""`list methods` and `show method`: what a reader learns of each row of the papers' tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crosswind.cli.main import _status
from crosswind.core.knobs import Base, Needs, choose, linear, log
from crosswind.core.registry import listing
from crosswind.reports import methods

PAPERS = {
    "erm",
    "mlp",
    "resnet18",
    "resnet50",
    "resnet101",
    "vit-b-16",
}  # the rows of the papers' tables that train plainly
COLUMNS = ["name", "kind", "cost", "needs", "hooks", "family", "(paper)", "what", "it", "does"]


def said(arguments: list[str], capsys: Any) -> str:
    assert _status(arguments) == 0
    return capsys.readouterr().out


def test_every_row_of_the_papers_tables_is_listed_with_its_facts(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = said(["list", "methods"], capsys)
    rows = json.loads(said(["list", "methods", "--json"], capsys))
    names = {row["name"] for row in rows}
    assert len(rows) >= 21 and names >= PAPERS | {method.name for method in listing("methods")}
    assert {row["kind"] for row in rows} == {"method", "augmentation", "architecture"}
    lines = text.splitlines()
    assert lines[0].split() == COLUMNS and max(map(len, lines)) <= 200
    for row in rows:
        (line,) = (line for line in lines if line.split(" ")[0] == row["name"])
        assert line.split()[1] == row["kind"]
        assert row["study"] == {
            "models" if row["kind"] == "architecture" else "methods": [row["name"]]
        }
    assert (
        sum(bool(row.get("family")) for row in rows) >= 20
    )  # all but mmd, which no paper's table has
    irm = " ".join(
        line for line in lines[lines.index(next(x for x in lines if x.startswith("irm "))) :][:4]
    )
    for words in (
        "two environments, in equal shares",
        "state, update, loss",
        "domain generalisation",
    ):
        assert words in irm


PLAIN = {"resnet18", "resnet50", "resnet101", "vit-b-16", "mlp"}
AUGMENTATIONS = {"imagenet", "augmix", "randaugment", "autoaugment"}
# By family, as in their sections 3 and 2.3; beside them a row of theirs, "pretraining", which is
# weights of an architecture.
WILES = {
    "architecture": PLAIN,
    "heuristic augmentation": AUGMENTATIONS,
    "learned augmentation": {"cyclegan"},
    "domain generalisation": {"irm", "deepcoral", "mixup", "dann", "sagnet"},
    "adaptive": {"jtt", "bn-adapt"},
    "representation": {"beta-vae"},
}
JEON = {
    "architecture": PLAIN,
    "heuristic augmentation": AUGMENTATIONS,
    "de-biasing": {"ubnet", "pnd", "occamnets"},
    "worst case": {"groupdro", "bpa"},
    "single-domain generalisation": {"ada", "me-ada", "sagnet", "l2d"},
    "out-of-distribution generalisation": {"irm", "causirl-mmd", "causirl-coral"},
}


@pytest.mark.parametrize(
    ("paper", "families", "least"), [("wiles2022", WILES, 18), ("jeon2025", JEON, 21)]
)
def test_every_trained_method_of_a_paper_is_listed_with_its_kind(
    paper: str, families: dict[str, set[str]], least: int, capsys: Any
) -> None:
    """Wiles et al. train 19 and Jeon et al. 21. `erm` is their baseline, with whichever
    architecture."""
    rows = {row["name"]: row for row in json.loads(said(["list", "methods", "--json"], capsys))}
    names_by_kind: dict[str, set[str]] = {}
    for name, row in rows.items():
        if paper in row.get("family", {}) and name != "erm":
            names_by_kind.setdefault(row["family"][paper], set()).add(name)
    assert names_by_kind == families and sum(map(len, names_by_kind.values())) == least
    kinds = {name: rows[name]["kind"] for names in families.values() for name in names}
    assert {name for name, kind in kinds.items() if kind == "architecture"} == PLAIN
    assert {name for name, kind in kinds.items() if kind == "augmentation"} == AUGMENTATIONS
    assert all(
        "weights" in {knob["name"] for knob in rows[name]["knobs"]} for name in PLAIN - {"mlp"}
    )
    assert "Pretraining is `weights` of an architecture" in " ".join(
        said(["list", "methods"], capsys).split()
    )


def test_a_narrow_screen_gets_blocks_that_fit(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = said(["list", "methods"], capsys).splitlines()
    heads = [line for line in lines[: lines.index("")] if not line.startswith(" ")]
    assert len(heads) >= 21 and all(" cost " in line for line in heads)
    assert max(map(len, lines)) <= 60


def test_a_card_says_what_a_user_must_know(capsys: Any) -> None:
    card = said(["show", "method", "irm"], capsys)
    for words in (
        (
            "Family      domain generalisation (wiles2022); out-of-distribution generalisation"
            " (jeon2025)"
        ),
        "In a study  methods: [irm]",
        "more steps than anneal_steps",
        "Hooks       state, update, loss",
        "it is erm-environment-mean",
        (
            "search 0.1 to 100000, evenly in the logarithm; wiles2022: 0.01, 0.1, 1.0, 10.0;"
            " jeon2025: 100.0"
        ),
    ):
        assert words in card, words
    assert "resnet50  (architecture)" in said(["show", "method", "resnet50"], capsys)
    assert "models: [resnet50]" in said(["show", "method", "resnet50"], capsys)
    assert _status(["show", "method", "resnet5"]) == 2
    assert "unknown method 'resnet5', did you mean 'resnet50'?" in capsys.readouterr().err


def test_needs_and_ranges_in_words() -> None:
    assert Needs().words() == []
    assert Needs(groups=True, sampler="balanced").words() == ["two groups, in equal shares"]
    assert Needs(pairs="by").words() == ["rows in pairs of two environments"]
    assert Needs(sampler="balanced", base=Base("erm")).words() == [
        "groups in equal shares",
        "a run of erm before it",
    ]
    assert Needs(pairs="by", taps=("layer2",), norm="batch").words()[1:] == [
        "stages layer2",
        "batch norm",
    ]
    assert (log(0.01, 10).words(), linear(0, 1).words()) == (
        "0.01 to 10, evenly in the logarithm",
        "0 to 1",
    )
    assert choose(1, 0.5, "a", None).words() == "1, 0.5, a, null"


def test_measured_costs_and_effects_are_shown(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    sides = {"better": {"method": "irm", "model": "mlp"}, "than": {"method": "erm", "model": "mlp"}}
    claim = {
        "text": "it helps",
        "verdict": "holds",
        "metric": "worst_group",
        "difference": 0.1,
        "low": 0.05,
        "high": 0.15,
        "n": 10,
    }
    cost = {"time": 1.04, "low": 1.0, "high": 1.1, "flops": 1.0, "memory": 1.0}
    costs = {
        "irm": {"resnet18": {**cost, "of": "step"}},
        "jtt": {"resnet18": {**cost, "of": "run"}},
    }
    records = {"method-cost.json": {"results": costs}}
    effects = {
        "other-name": {
            "files": {"src/crosswind/methods/irm.py": "0"},
            "claims": [{**claim, "sides": sides}],
        }
    }
    monkeypatch.setattr(methods, "_record", lambda name: records.get(name, {}))
    monkeypatch.setattr(methods, "_effects", lambda: effects)
    monkeypatch.setenv("COLUMNS", "200")
    lines = {
        line.split()[0]: line.split()
        for line in said(["list", "methods"], capsys).splitlines()
        if line[:1].strip()
    }
    assert lines["irm"][1:4] == ["method", "1.04", "two"] and lines["jtt"][2:4] == ["1.04", "run"]
    card = said(["show", "method", "irm"], capsys)
    assert "time of a step beside ERM's: resnet18 1.04 x (1.00 x its arithmetic)" in card
    assert (
        "holds: it helps (worst group of irm less erm's: +0.100 [+0.050, +0.150], 10 seeds)" in card
    )
    sides["than"]["model"] = "resnet18"
    assert "of irm on mlp less erm on resnet18's:" in said(["show", "method", "irm"], capsys)
