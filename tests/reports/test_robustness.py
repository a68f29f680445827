"""rho beside the network that training began with: the printed numbers of the paper; results,
tables, claims and studies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.test_systematic import REFERENCE_3, TABLE_2, TABLE_3

from crosswind.reports.claims.claim_tables import claim_table
from crosswind.reports.claims.judgements import judge
from crosswind.reports.claims.robustness import (
    begins_from_weights,
    beside_network_before,
    network_before,
)
from crosswind.reports.claims.verdict_words import HOLDS
from crosswind.reports.scores.results import arrange
from crosswind.reports.scores.tables import place_tables
from crosswind.studies.reading import read_study_file
from crosswind.studies.spec import load_study

BEFORE = {"type": "erm", "training": {"steps": 0}}


def run(
    method: str,
    noise: tuple[float, float],
    rows: tuple[int, int],
    shift: str = "0.5",
    **fields: Any,
) -> dict[str, Any]:
    """The result of a run; accuracies under noise on seen and on unseen classes in percent, and the
    rows of each."""
    seen_accuracy, unseen = (value / 100 for value in noise)
    ratio = unseen / max(seen_accuracy, 0.01)
    noisy = {
        "seen": seen_accuracy,
        "unseen": unseen,
        "n_seen": rows[0],
        "n_unseen": rows[1],
        "rho": ratio,
    }
    metrics = {
        "accuracy": 0.5,
        "role": "test",
        "n": sum(rows),
        "rho": ratio,
        "environments": {"environment=noise": noisy},
    }
    names = {
        "study": "s",
        "data": "d",
        "shift": shift,
        "size": "",
        "model": "m",
        "method": method,
        "seed": 0,
        "status": "finished",
    }
    return {
        **names,
        "rule": "last",
        "set": "test",
        "metrics": metrics | fields.pop("metrics", {}),
        **fields,
    }


def rho_of(rows: list[dict[str, Any]], method: str, shift: str = "0.5") -> float | None:
    (method_row,) = (row for row in rows if (row["method"], row["shift"]) == (method, shift))
    value: float | None = method_row["metrics"]["rho"]
    return value


@pytest.mark.parametrize(
    "name",
    [name for name in TABLE_2 if name not in ("1000cls 0.25", "1000cls 0.5 no superclasses")],
)
def test_the_printed_rho_of_table_2(name: str) -> None:
    """At a share of 0.5: 64 seen, 57 unseen, 32 before: 25 / 32 = 0.78. Without the network before
    it would be 0.89."""
    before, seen_accuracy, unseen, printed = TABLE_2[name]
    rows_of_runs = [
        run("erm", (seen_accuracy, unseen), (500, 500)),
        run("pretrained", (before, before), (500, 500)),
    ]
    with_it = rho_of(list(beside_network_before(rows_of_runs, "pretrained", True)), "erm")
    assert (
        with_it
        == pytest.approx((unseen - before) / (seen_accuracy - before))
        == pytest.approx(printed, abs=0.011)
    )
    without = rho_of(list(beside_network_before(rows_of_runs, "", True)), "erm")
    assert without == pytest.approx(unseen / seen_accuracy) and abs(without - printed) > 0.09  # type: ignore[operator]


@pytest.mark.parametrize("row", ["none", "N B W D", "D, fourth"])
def test_the_printed_rho_of_table_3(row: str) -> None:
    """The network before is right on C1 and on C2 as printed; what is taken off is its accuracy on
    all classes."""
    for (seen_before, unseen_before), (seen_accuracy, unseen, printed) in zip(
        REFERENCE_3, TABLE_3[row], strict=True
    ):
        rows_of_runs = [
            run("cos", (seen_accuracy, unseen), (25, 75)),
            run("pretrained", (seen_before, unseen_before), (25, 75)),
        ]
        rho = rho_of(list(beside_network_before(rows_of_runs, "pretrained")), "cos")
        assert rho == pytest.approx(printed, abs=0.02)


def test_the_network_before_is_that_of_the_same_seed_shift_set_and_split() -> None:
    rows_of_runs = []
    for run_index, (seed, split, shift) in enumerate(
        [(0, 0, "0.5"), (1, 0, "0.5"), (0, 1, "0.5"), (0, 0, "0.25")]
    ):
        seeds = {"seed": seed, "split_seed": split}
        rows_of_runs += [
            run("erm", (80, 60), (50, 50), shift, **seeds),
            run("pretrained", (10 * run_index, 10 * run_index), (50, 50), shift, **seeds),
        ]
    rhos = [
        row["metrics"]["rho"]
        for row in beside_network_before(rows_of_runs, "pretrained")
        if row["method"] == "erm"
    ]
    assert rhos == [pytest.approx((60 - r) / (80 - r)) for r in (0, 10, 20, 30)]
    assert all(
        "environments" not in row["metrics"]
        for row in beside_network_before(rows_of_runs, "pretrained")
    )


def test_rho_is_undefined_where_nothing_was_learned_or_the_network_before_has_no_score() -> None:
    low = [run("erm", (30, 20), (50, 50)), run("pretrained", (32, 32), (50, 50))]
    assert rho_of(list(beside_network_before(low, "pretrained")), "erm") is None
    alone = [
        run("erm", (64, 57), (50, 50)),
        {**run("pretrained", (32, 32), (50, 50)), "rule": None, "metrics": None},
    ]
    assert rho_of(list(beside_network_before(alone, "pretrained")), "erm") is None
    plain = [run("erm", (64, 57), (50, 50), metrics={"rho": None, "environments": {}})]
    (row,) = beside_network_before(plain, "pretrained", True)
    assert row["metrics"]["rho"] is None and "rho_note" not in row["metrics"], (
        "no pair was kept apart"
    )


@pytest.mark.parametrize(
    ("resolved", "before"),
    [
        ({"reference": "pretrained", "methods": {"erm": {}, "pretrained": BEFORE}}, "pretrained"),
        ({"reference": "erm", "methods": {"erm": {}, "start": BEFORE}}, "start"),
        ({"reference": "b", "methods": {"a": BEFORE, "b": BEFORE}}, "b"),
        ({"reference": "erm", "methods": {"erm": {"training": {"lr": 0.1}}, "irm": None}}, ""),
        ({"reference": "erm", "methods": ["erm", "irm"]}, ""),
        ({"reference": "erm"}, ""),
    ],
)
def test_which_method_is_the_network_before(resolved: dict[str, Any], before: str) -> None:
    assert network_before(resolved) == before


def noted(rows_of_runs: list[dict[str, Any]], before: str, named_in_study: bool) -> list[str]:
    (place_results,) = arrange(
        list(beside_network_before(rows_of_runs, before, named_in_study)), before or "erm"
    ).shown()
    return list(place_tables(place_results)["rho"].notes)


def test_the_table_says_what_rho_is_beside_or_why_it_is_beside_nothing() -> None:
    chance = {"classes": 2, "majority": 0.5}
    rows_of_runs = [
        run("erm", (64, 57), (50, 50)),
        run("pretrained", (32, 32), (50, 50), metrics={"accuracy": 0.7, **chance}),
    ]
    notes = noted(rows_of_runs, "pretrained", True)
    assert any("r is the accuracy of pretrained, which took no step" in note for note in notes)
    assert not any("without a reference" in note or "guessing" in note for note in notes)
    assert any(
        "NOT taken off" in note and "steps: 0" in note for note in noted(rows_of_runs[:1], "", True)
    )
    scratch = noted(rows_of_runs[:1], "", False)
    assert any("without a reference network)." in note for note in scratch) and not any(
        "NOT" in note for note in scratch
    )
    rows_of_runs[1]["metrics"]["accuracy"] = 0.52
    assert any("head was made anew" in note for note in noted(rows_of_runs, "pretrained", True))


def test_a_claim_on_rho_is_judged_beside_the_network_before() -> None:
    """Without a reference a has the higher rho, 0.80 and 0.75; beside a network that is right on
    50% b has: 0.33 and 0.50."""
    rows_of_runs = []
    for seed in range(3):
        wobble = 0.1 * seed
        for method, noise in (
            ("a", (65 + wobble, 52)),
            ("b", (90 - wobble, 67.5)),
            ("pretrained", (50, 50)),
        ):
            rows_of_runs.append(run(method, noise, (50, 50), seed=seed))
    claim: dict[str, Any] = dict.fromkeys(
        ("data", "shift", "size", "model", "rule", "wins_back", "margin")
    )
    claim |= {"text": "b keeps more", "better": "b", "than": "a", "metric": "rho", "set": "test"}
    resolved = {"reference": "pretrained", "selection": ["last"], "claims": [claim]}
    (judged,) = judge(
        arrange(beside_network_before(rows_of_runs, "pretrained", True), "pretrained"), resolved
    )
    assert judged.verdict == HOLDS and judged.difference is not None
    assert judged.difference.mean == pytest.approx(17.5 / 40 - 2 / 15, abs=0.01)
    table = claim_table("s", [judged])
    assert table is not None and any(
        "r is the accuracy of pretrained" in note for note in table.notes
    )
    (alone,) = judge(arrange(beside_network_before(rows_of_runs, "", True), "pretrained"), resolved)
    assert alone.difference is not None and alone.difference.mean < 0


STUDIES = sorted((Path(__file__).parents[2] / "studies").rglob("*.yaml"))
APART = [
    f"{path.parent.name}/{path.stem}"
    for path in STUDIES
    if "type: systematic" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", APART)
def test_shipped_studies_that_begin_from_weights_have_the_network_before(name: str) -> None:
    """At every scale: where a model has given weights some method takes no step, and where none has
    it, it is not asked for."""
    assert len(APART) >= 7
    (path,) = (path for path in STUDIES if f"{path.parent.name}/{path.stem}" == name)
    for scale in read_study_file(path)["scales"]:
        resolved = load_study(name, scale, []).model_dump()
        trained = "start" not in scale
        if trained and begins_from_weights(resolved):
            assert network_before(resolved) and network_before(resolved) == resolved["reference"], (
                scale
            )
