"""From a run whose method did next to nothing to what a person reads: status, report, page,
rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.test_bad_inputs import GOOD
from tests.contract.test_methods import made, tried

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.registry import listing
from crosswind.training.wants import WANTED

SENTENCE = "deepcoral: its own term stayed below 1% of the loss"


def study(folder: Path) -> Path:
    values: dict[str, Any] = {**GOOD, "name": "it", "shifts": {"none": []}, "seeds": 2}
    values["methods"] = {
        "erm": {},
        "deepcoral": {"weight": 1e-9},
        "acts": {"method": "deepcoral", "weight": 10.0},
    }
    values["environments"] = values["data"]["digits"]["attributes"][:1]
    path = folder / "it.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_run_that_did_next_to_nothing_is_doubted_wherever_it_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    study_results = cw.run_study(study(tmp_path), out)
    for row in study_results.rows:
        doubts, action = row["metrics"]["doubts"], row["metrics"].get("action")
        assert any(SENTENCE in text for text in doubts) == (row["method"] == "deepcoral"), row[
            "method"
        ]
        assert (action is None) == (row["method"] == "erm")
        if action is not None:
            largest = max(action["share_of_loss"], action["share_of_gradient"])
            assert (largest < 0.01) == (row["method"] == "deepcoral")
    capsys.readouterr()
    assert _status(["status", str(out)]) == 0
    printed = capsys.readouterr().out
    assert f"warned of in 2: {SENTENCE}" in printed and "acts: its own" not in printed
    assert _status(["status", str(out), "--json"]) == 0
    (status,) = json.loads(capsys.readouterr().out)
    assert [warning["runs"] for warning in status["warnings"] if SENTENCE in warning["text"]] == [2]
    assert _status(["report", str(out), "--tables", "all"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "† deepcoral, 2 of 2 runs under none: deepcoral: its own term stayed below 1% of the loss"
        in printed
    )
    assert (
        "What methods did beside plain training" in printed
        and "own share of the gradient" in printed
    )
    page = (out / "report.html").read_text("utf-8")
    assert SENTENCE in page and "What methods did beside plain training" in page


def test_a_plan_says_what_random_weights_leave_of_lora(tmp_path: Path) -> None:
    values = yaml.safe_load(study(tmp_path).read_text("utf-8"))
    values |= {"models": ["mlp"], "methods": {"erm": {}, "lora": {}, "wise-ft": {}}}
    warnings = cw.plan(values).warnings
    assert any(
        "lora learns a change of low rank of the initial weights, and those of 'mlp' are random"
        in text
        for text in warnings
    )
    assert any(
        "wise-ft goes back towards the initial weights, and those of 'mlp' are random" in text
        for text in warnings
    )
    assert not any("erm" in text for text in warnings)


SHORT = [(name, want.steps, want.because) for name, want in WANTED.items() if want.steps]


def test_the_methods_that_want_a_long_run_say_what_to_raise() -> None:
    assert {name for name, _, _ in SHORT} == {"beta-vae", "cyclegan", "vicreg"}
    assert set(WANTED) <= {method.name for method in listing("methods")}
    assert all("raise" in short and steps >= 100 for _, steps, short in SHORT)


@pytest.mark.parametrize(("name", "steps", "short"), SHORT)
def test_a_plan_says_that_a_run_is_too_short_for_a_method_and_what_to_raise(
    name: str, steps: int, short: str
) -> None:
    values: dict[str, Any] = {**GOOD, "name": "it", "shifts": {"none": []}, "environments": ["ink"]}
    knobs = {"pairs": "class"} if name == "vicreg" else {}
    for training, warned in (
        ({"steps": steps - 1, "validate_every": 10}, True),
        ({"steps": steps, "validate_every": 10}, False),
        ({"steps": 10_000, "epochs": 1, "validate_every": 10}, True),  # a single step of 100 rows
        ({"steps": 10 * steps, "epochs": 100_000, "validate_every": 10}, False),
    ):
        warnings = cw.plan(
            {**values, "methods": {"erm": {}, name: knobs}, "training": training}
        ).warnings
        assert (
            any(
                f"below {steps} it was seen far behind plain training: {short}" in text
                for text in warnings
            )
            == warned
        ), training
    own_training = {"training": {"steps": steps}}
    warnings = cw.plan({**values, "methods": {"erm": {}, name: {**knobs, **own_training}}}).warnings
    assert not any(
        "far behind plain training" in text for text in warnings
    )  # steps of the method's own


def test_a_short_run_says_so_too_and_one_at_its_limit_does_not() -> None:
    (doubt,) = [text for text in tried("vicreg").doubts["last"] if "far behind" in text]
    assert doubt.startswith(
        "vicreg has 12 steps, and below 150 it was seen far behind plain training: "
    )
    assert not any(
        "far behind" in text for text in tried("vicreg", made("vicreg", weight=0.0)).doubts["last"]
    )
