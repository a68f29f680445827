"""A plan says what a study will cost, from shortened runs of each method."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from crosswind.cli.main import _status
from crosswind.execution.run_costs import FitCost, StudyCost, measure_costs
from crosswind.storage.artifacts import artifact_folder
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

STUDY: dict[str, Any] = {
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 10, "validation": 10},
        }
    },
    "shifts": {"none": []},
    "sizes": {"equal": {"total": 300}},
    "models": {"mlp": {"layers": 1, "hidden": 16}},
    "training": {"steps": 30, "batch": 16, "validate_every": 10, "patience": None},
    "methods": ["erm"],
    "keep": "selected",
    "seeds": 2,
}


def test_the_sum_of_a_study_is_that_of_its_fits() -> None:
    cheap = FitCost("d", "m", "erm", 10, "cpu", 100, 0.01, 2.0, 0.5, 1000)
    halved = FitCost("d", "m", "jtt", 20, "cuda", 100, 0.01, 4.0, 0.5, 500, share=0.25)
    failing = FitCost("d", "m", "irm", 20, trouble="no groups")
    cost = StudyCost((cheap, halved, failing), asked=0, measuring=3.0)
    assert cost.seconds == 10 * 2.5 + 20 * (0.25 * 4.0 + 0.5)
    assert cost.gpu_seconds == 20 * 1.5
    assert cost.bytes == 10 * 1000 + 20 * 500
    shared = FitCost("d", "m", "erm", 10, "cuda", 100, 0.01, 2.0, 0.5, 1000, devices=4)
    assert (
        StudyCost((shared,), 0, 0.0).gpu_seconds == 4 * StudyCost((shared,), 0, 0.0).seconds == 100
    )


@pytest.mark.slow
def test_each_method_is_measured_and_its_steps_are_those_that_it_takes(tmp_path: Path) -> None:
    scheduled = {**STUDY["training"], "warmup": 10, "schedule": "step", "decay_every": 12}
    methods = {"erm": {}, "jtt": {"training": {"epochs": 1}}, "irm": {}}
    study = {**STUDY, "training": scheduled, "methods": methods}
    cost = measure_costs(make_plan(study_from(study)))
    by_method = {fit.method: fit for fit in cost.fits}
    assert list(by_method) == ["erm", "erm (base)", "jtt", "irm"]
    assert [fit.fits for fit in cost.fits] == [2, 2, 2, 2]
    assert by_method["erm"].steps == 30
    assert by_method["jtt"].steps == -(-300 // 16)  # one pass over 300 rows in batches of 16
    for fit in cost.fits:
        assert not fit.trouble and fit.device == "cpu"
        assert 0 < fit.step_seconds < fit.fit_seconds and fit.bytes > 0
        assert (fit.test_seconds > 0) == (fit.method != "erm (base)")
    assert cost.asked == 0 and cost.seconds > 0 and cost.gpu_seconds == 0


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_the_disk_is_what_runs_then_fill(tmp_path: Path) -> None:
    study = {**STUDY, "methods": ["erm", "jtt"]}
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(study), encoding="utf-8")
    plan = make_plan(study_from(study))
    cost = measure_costs(plan)
    assert _status(["run", str(file), "--out", str(tmp_path / "out"), "--workers", "1"]) == 0
    folders = {artifact_folder(tmp_path / "out", job.key) for job in plan.jobs}
    written = sum(
        path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file()
    )
    assert written * 0.9 < cost.bytes < written * 1.1


def test_the_command_prints_time_and_disk_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "study.yaml"
    search = {"points": 4, "halving": {"factor": 2}}
    file.write_text(yaml.safe_dump({**STUDY, "methods": ["erm"], "search": search}))
    assert _status(["plan", str(file), "--time"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("time: at most ") and "of one worker" in line for line in lines)
    assert any(line.startswith("disk: about ") for line in lines)
    assert any(line.startswith("  digits, mlp, erm: 8 x ") and "30 steps" in line for line in lines)
    assert not any(line.startswith("GPU hours") for line in lines)
    assert _status(["plan", str(file), "--time", "--json"]) == 0
    (fit,) = json.loads(capsys.readouterr().out)["cost"]["fits"]
    assert fit["share"] == pytest.approx((4 * 0.25 + 2 * 0.25 + 1 * 0.5) / 4)
    assert [path.name for path in tmp_path.iterdir()] == ["study.yaml"]
