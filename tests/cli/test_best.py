"""`crosswind best`: what validation chose is frozen, and run again on seeds that chose nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.models.test_sklearn_estimator import table_and_study

from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.studies.best_settings import best_points
from crosswind.studies.plan import plan_of
from crosswind.studies.spec import study_from


def searched(folder: Path, **changes: Any) -> Path:
    """A study of two methods whose learning rates and weights are a grid."""
    file = table_and_study(folder)
    study = yaml.safe_load(file.read_text(encoding="utf-8"))
    study |= {"models": ["tabular"], "seeds": [3, 4], "name": "searched"}
    study["training"] = {"steps": 30, "batch": 32, "validate_every": 10, "lr": [1e-6, 0.01]}
    study["methods"] = {"erm": {}, "mixup": {"alpha": [0.2, 0.4]}}
    file.write_text(yaml.safe_dump(study | changes, sort_keys=False), encoding="utf-8")
    return file


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_the_best_point_of_each_method_is_frozen_on_fresh_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out, to = searched(tmp_path), str(tmp_path / "out"), tmp_path / "best.yaml"
    assert _status(["run", str(file), "--out", out, "--workers", "1"]) == 0
    capsys.readouterr()
    assert _status(["best", out, "--to", str(to), "--seeds", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("erm: lr=0.01 of 2 points, ")
    assert "over 4 runs" in lines[0]
    assert "of 4 points" in lines[1]
    assert ", lr=0.01 " in lines[1]
    assert lines[2] == f"wrote {to}: crosswind run {to}"
    frozen = yaml.safe_load(to.read_text(encoding="utf-8"))
    assert frozen["name"] == "searched-best"
    assert frozen["seeds"] == [5, 6, 7]
    assert frozen["methods"]["erm"] == {"training": {"lr": 0.01}}
    assert frozen["methods"]["mixup"]["training"] == {"lr": 0.01}
    assert frozen["methods"]["mixup"]["alpha"] in (0.2, 0.4)
    assert "lr" not in frozen["training"]
    runs = plan_of(str(to)).runs
    assert len(runs) == 2 * 2 * 3  # shifts, methods, seeds
    keys = {run.key for run in plan_of(str(file)).runs}
    assert not keys & {run.key for run in runs}
    same_seed = plan_of(str(to), settings=["seeds=[3]"]).runs
    assert {run.key for run in same_seed} <= keys  # the chosen settings are those that were run
    assert _status(["best", out, "--to", str(to)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert _status(["best", out, "--by-score"]) == 2
    sentence = (
        "--by-score: is of a search by halving, and the study searched has none; leave it out"
    )
    assert sentence in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_search_is_frozen_too_and_printed_where_no_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = searched(
        tmp_path,
        search={"points": 2},
        methods={"erm": {}, "irm": {}},
        training={"steps": 20, "batch": 32, "validate_every": 10},
        environments=["site"],
        seeds=1,
    )
    out = str(tmp_path / "out")
    assert _status(["run", str(file), "--out", out, "--workers", "1"]) == 0
    capsys.readouterr()
    assert _status(["best", out]) == 0
    printed = capsys.readouterr()
    frozen = yaml.safe_load(printed.out)
    assert "search" not in frozen
    assert frozen["seeds"] == [1, 2, 3, 4, 5]
    assert set(frozen["methods"]["erm"]["training"]) == {"lr"}
    assert "penalty_weight" in frozen["methods"]["irm"] or len(frozen["methods"]["irm"]) > 1
    again = tmp_path / "again.yaml"
    again.write_text(printed.out, encoding="utf-8")
    keys = {run.key for run in plan_of(str(file)).runs}
    assert {run.key for run in plan_of(str(again), settings=["seeds=[0]"]).runs} <= keys


def test_points_are_compared_by_the_mean_of_the_rule_over_the_same_runs(tmp_path: Path) -> None:
    study = study_from(yaml.safe_load(searched(tmp_path).read_text(encoding="utf-8")))

    def results(worst: dict[str, list[float]]) -> list[dict[str, Any]]:
        rule = {"rule": "best-id-worst-group", "set": "validation", "method": "erm"}
        return [
            {**rule, "point": point, "metrics": {"accuracy": 1 - value, "worst_group": value}}
            for point, values in worst.items()
            for value in values
        ]

    mixup = [
        {**entry, "method": "mixup", "point": f"alpha={alpha}, {entry['point']}"}
        for alpha in (0.2, 0.4)
        for entry in results({"lr=1e-06": [0.5], "lr=0.01": [0.5]})
    ]
    rows = [*results({"lr=1e-06": [0.2, 0.5], "lr=0.01": [0.6, 0.0]}), *mixup]
    best = best_points(study, rows, "best-id-worst-group")
    assert (best["erm"].point, best["erm"].score, best["erm"].second) == ("lr=1e-06", 0.35, 0.3)
    assert best["mixup"].point == "alpha=0.2, lr=1e-06"  # of equal ones the first
    with pytest.raises(
        InputError, match="from 1 to 2 runs of the points of erm that best-id-worst"
    ):
        best_points(study, rows[1:], "best-id-worst-group")
    with pytest.raises(InputError, match="from 0 to 0 runs of the points of erm"):
        best_points(study, [], "best-id")
    with pytest.raises(InputError, match="unknown selection rule 'best'"):
        best_points(study, rows, "best")


@pytest.mark.usefixtures("in_this_process")
def test_a_study_without_a_choice_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = searched(tmp_path, methods=["erm"], seeds=1, training={"steps": 2, "validate_every": 1})
    out = str(tmp_path / "out")
    assert _status(["run", str(file), "--out", out, "--workers", "1"]) == 0
    capsys.readouterr()
    assert _status(["best", out, "--to", str(tmp_path / "b.yaml")]) == 2
    assert "has no method with several settings" in capsys.readouterr().err
    assert not (tmp_path / "b.yaml").exists()


@pytest.mark.usefixtures("in_this_process")
def test_a_rule_that_no_run_followed_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said "once all of their runs are done", and they were."""
    out = str(tmp_path / "out")
    changes = {"methods": {"erm": {}}, "seeds": [3], "shifts": {"none": []}}
    assert _status(["run", str(searched(tmp_path, **changes)), "--out", out, "--workers", "1"]) == 0
    for rule, reason in (
        ("best-ood", "chooses on the set ood-validation, which study searched has not"),
        ("best-id-worst-group", "was followed by no run of study searched, whose selection does"),
    ):
        capsys.readouterr()
        assert _status(["best", out, "--rule", rule]) == 2
        assert f"error: --rule: '{rule}' {reason}" in capsys.readouterr().err
    assert _status(["best", out, "--rule", "last"]) == 0, "every run follows it"


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_the_score_and_the_set_that_chose_are_named_and_an_oracle_is_called_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = searched(
        tmp_path,
        methods=["erm"],
        seeds=1,
        selection=["best-target-worst-group"],
        sets={
            "validation": {"role": "validation", "law": "train"},
            "target-validation": {"role": "validation"},
            "test": {"role": "test"},
        },
    )
    out = str(tmp_path / "out")
    assert _status(["run", str(file), "--out", out, "--workers", "1"]) == 0
    capsys.readouterr()
    assert _status(["best", out, "--to", str(tmp_path / "b.yaml")]) == 0
    oracle, erm, _ = capsys.readouterr().out.splitlines()
    assert oracle.startswith("best-target-worst-group is an ORACLE")
    assert "of 2 points, the accuracy of the worst group " in erm
    assert "% on target-validation over 2 runs" in erm
    assert _status(["best", out, "--rule", "best-id"]) == 0
    assert "% on validation over 2 runs" in capsys.readouterr().err
