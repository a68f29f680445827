"""Studies of real training: the number of workers, a stop and a kill change no number; base runs
are done once."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.drills import LONG
from tests.studies.plans import alone, of_kind

import crosswind as cw
from crosswind.core import registry
from crosswind.core.errors import InputError, NeedsError, StoreError
from crosswind.core.knobs import Base, Needs, knob
from crosswind.core.types import InputSpec
from crosswind.execution.engines.inline import Inline
from crosswind.execution.engines.pool import WorkerPool
from crosswind.execution.scheduler import drive
from crosswind.reports.scores.results import arrange
from crosswind.storage.artifacts import artifact_folder
from crosswind.storage.predictions_file import read_predictions
from crosswind.storage.store import Store
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.spec import json_schema, study_from
from crosswind.training.selection import RULES

JOB = "crosswind.execution.jobs:execute"
STUDY: dict[str, Any] = {
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink", "size"],
            "roles": {"test": 2, "validation": 0.15},
        }
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2},
    },
    "sizes": {"equal": {"total": 150}},
    "label_noise": [0.0, 0.2],
    "models": {"small": {"model": "mlp", "hidden": 32, "layers": 2}},
    "methods": {"erm": {}, "groupdro": {"eta": [0.01, 0.5]}},
    "training": {"steps": 20, "batch": 32, "validate_every": 5, "checkpoint_seconds": 0},
    "seeds": 2,
}


def planned(**changes: Any) -> Plan:
    return make_plan(study_from({**STUDY, **changes}, name="whole"))


def finish(out: Path, plan: Plan, engine: Any) -> list[dict[str, Any]]:
    with Store.open(out, create=True) as store, engine:
        store.add_plan(plan.study.name, {}, plan.study.model_dump(), plan.jobs)
        drive(store, plan.jobs, engine)
        return numbers(store)


def numbers(store: Store) -> list[dict[str, Any]]:
    """Everything that must not depend on how the study was executed."""
    compared_fields = (
        "key",
        "rule",
        "set",
        "metrics",
        "status",
        "seed",
        "method",
        "point",
        "shift",
        "size",
    )
    return [{name: row[name] for name in compared_fields} for row in store.results("whole")]


def artifacts(out: Path) -> dict[str, str]:
    """A digest of the arrays of every prediction file."""
    files_found = {}
    for path in sorted((out / "artifacts").rglob("predictions.npz")):
        total = hashlib.sha256()
        with np.load(path, allow_pickle=False) as arrays:
            for name in sorted(arrays.files):
                total.update(name.encode() + arrays[name].tobytes())
        files_found[path.parent.name] = total.hexdigest()
    return files_found


def test_the_plan_is_the_product_of_its_axes() -> None:
    plan = planned()
    assert len(plan.runs) == 2 * 2 * 2 * (1 + 2)  # shifts x noise x seeds x points
    assert len({run.key for run in plan.runs}) == len(plan.runs)
    assert [run.key for run in planned().runs] == [run.key for run in plan.runs]


DIGITS = {"source": "digits", "label": "digit", "attributes": ["ink"], "roles": {"test": 2}}
ONLY: dict[str, tuple[str, dict[str, Any], set[tuple[str, str]]]] = {
    "shifts": ("groupdro", {}, {("erm", "none"), ("erm", "SC"), ("groupdro", "SC")}),
    "data": (
        "autoaugment",
        {
            "data": {"one": DIGITS, "two": {**DIGITS, "attributes": ["ink", "size"]}},
            "shifts": {"none": []},
        },
        {("erm", "one"), ("erm", "two"), ("autoaugment", "two")},
    ),
    "models": (
        "bn-adapt",
        {"models": {"mlp": {}, "conv": {"model": "small-cnn"}}},
        {("erm", "mlp"), ("erm", "conv"), ("bn-adapt", "conv")},
    ),
}


@pytest.mark.parametrize("axis", ONLY)
def test_a_method_may_be_run_on_a_part_of_an_axis_only(axis: str) -> None:
    """A policy that was found for one data set need not be run on another."""
    method, changes, expected_pairs = ONLY[axis]
    (chosen,) = (name for label, name in expected_pairs if label == method)

    def plan_of(**settings: Any) -> Plan:
        return planned(**changes, label_noise=0.0, methods={"erm": {}, method: settings})

    plan = plan_of(**{axis: [chosen]})
    assert {
        (run.labels["method"], run.labels[axis.removesuffix("s")]) for run in plan.runs
    } == expected_pairs
    if axis != "models":  # with the perceptron it is refused
        assert {run.key for run in plan.runs} < {run.key for run in plan_of().runs}
    for wrong in (["nowhere"], [], chosen):
        with pytest.raises(InputError, match=rf"methods.{method}.{axis}.*{chosen}"):
            plan_of(**{axis: wrong})


def test_values_drawn_at_every_visit_are_environments_in_the_plan_as_in_the_run(
    tmp_path: Path,
) -> None:
    """Three inks and two noises are six environments; noise alone is two."""
    noise = {
        "name": "noise",
        "transform": "gaussian-noise",
        "values": {"clean": None, "noisy": {"severity": 3}},
        "mode": "per-visit",
    }
    digits = {**STUDY["data"]["digits"], "attributes": ["ink", "noise"], "derive": noise}

    def plan_of(names: list[str], batch: int) -> Plan:
        training = {**STUDY["training"], "steps": 4, "batch": batch}
        methods = {"erm": {}, "deepcoral": {"environments": names}}
        return planned(
            data={"digits": digits}, methods=methods, training=training, label_noise=0.0, seeds=1
        )

    for number, (names, batch) in enumerate(((["noise"], 2), (["ink", "noise"], 6))):
        run = next(
            run
            for run in of_kind(plan_of(names, batch), "fit")
            if run.labels["method"] == "deepcoral"
        )
        run_record = alone(run, tmp_path / str(number), tmp_path / f"checkpoint{number}")
        assert run_record["status"] == "finished"
    with pytest.raises(
        NeedsError, match="a row of each of the 6 environments in a batch, and training.batch is 5"
    ):
        plan_of(["ink", "noise"], 5)


def test_images_of_other_channels_are_refused_where_a_method_or_model_cannot_take_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from crosswind.data.dataset import AttributedDataset
    from crosswind.studies import plan as planning

    build_dataset = planning.build_dataset

    def grey(values: Any, field: str) -> AttributedDataset:
        return replace(build_dataset(values, field), input=InputSpec.image(32, 32, channels))

    monkeypatch.setattr(planning, "build_dataset", grey)
    channels, one_seed = 2, {"label_noise": 0.0, "seeds": 1}
    with pytest.raises(
        NeedsError,
        match=(
            r"methods.imagenet \(digits, none, equal\): needs images of 1 or 3 channels, .* x"
            r" 32 x 2"
        ),
    ):
        planned(methods={"erm": {}, "imagenet": {}}, **one_seed)
    assert planned(methods={"erm": {}}, **one_seed)
    channels = 1
    assert planned(methods={"erm": {}, "imagenet": {}}, **one_seed)
    with pytest.raises(
        InputError, match=r"models.resnet18.weights: published weights .* have 1 \(data.digits\)"
    ):
        planned(models={"resnet18": {"weights": "IMAGENET1K_V1"}}, **one_seed)


def test_what_decides_numbers_is_in_the_key_and_nothing_else() -> None:
    keys = [run.key for run in planned().runs]
    assert [
        run.key for run in planned(about="other words", selection=["last"], time_limit=9.0).runs
    ] == keys
    for change in (
        {"training": {**STUDY["training"], "lr": 0.01}},
        {"split_seed": 1},
        {"sampler": "balanced"},
    ):
        assert not set(keys) & {run.key for run in planned(**change).runs}, change


def test_label_noise_of_a_method_is_that_of_the_study_for_it_alone() -> None:
    """A study's noise and a method's own are one thing, so their runs are the same."""
    both_methods = planned(
        methods={"erm": {}, "noisy": {"method": "erm", "label_noise": 0.2}},
        label_noise=0.0,
        seeds=1,
    )
    keys_by_method = {
        method: {job.key for job in of_kind(both_methods, "fit") if job.labels["method"] == method}
        for method in ("erm", "noisy")
    }
    assert keys_by_method["erm"] and not keys_by_method["erm"] & keys_by_method["noisy"]
    for method, noise in (("erm", 0.0), ("noisy", 0.2)):
        assert keys_by_method[method] == {
            job.key for job in of_kind(planned(methods=["erm"], label_noise=noise, seeds=1), "fit")
        }


def test_what_a_fit_starts_from_is_in_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def keys() -> dict[str, str]:
        fits = of_kind(planned(methods=["erm", "jtt"], label_noise=0.0, seeds=1), "fit")
        return {job.labels["method"]: job.key for job in fits if job.labels["role"] == "fit"}

    before = keys()
    monkeypatch.setattr(
        "crosswind.studies.expand.facts", lambda *name: replace(registry.facts(*name), version=99)
    )
    assert keys()["erm"] == before["erm"] and keys()["jtt"] != before["jtt"]


@pytest.mark.slow
def test_one_and_two_workers_give_equal_numbers(tmp_path: Path) -> None:
    plan = planned(label_noise=0.2)
    of_one_worker = finish(tmp_path / "one", plan, WorkerPool(JOB, 1))
    of_two_workers = finish(tmp_path / "two", plan, WorkerPool(JOB, 2))
    of_this_process = finish(tmp_path / "here", plan, Inline(JOB))
    assert of_one_worker == of_two_workers == of_this_process
    assert len({row["key"] for row in of_one_worker}) == 12 and all(
        row["status"] == "finished" for row in of_one_worker
    )
    assert (
        artifacts(tmp_path / "one") == artifacts(tmp_path / "two") == artifacts(tmp_path / "here")
    )
    assert len(artifacts(tmp_path / "one")) == 24, "of twelve fits, and of the test set by each"


def test_a_stopped_run_goes_on_with_equal_bits(tmp_path: Path) -> None:
    run = of_kind(planned(), "fit")[-1]

    class StoppedRun(Exception):
        pass

    def stop_at_second(report: dict[str, Any]) -> None:
        reports.append(report)
        if len(reports) == 2:
            raise StoppedRun

    reports: list[dict[str, Any]] = []
    (tmp_path / "state").mkdir()
    unbroken = alone(run, tmp_path / "whole", tmp_path / "state" / "a")
    with pytest.raises(StoppedRun):
        alone(run, tmp_path / "part", tmp_path / "state" / "b", stop_at_second)
    steps: list[int] = []
    again = alone(
        run,
        tmp_path / "part",
        tmp_path / "state" / "b",
        lambda report: steps.append(report["step"]),
    )
    assert again["warnings"] == unbroken["warnings"]
    assert min(steps) > 5, "it went on and did not begin anew"
    first, second = (
        read_predictions(tmp_path / name / "predictions.npz") for name in ("whole", "part")
    )
    for rule, sets in first.items():
        for name, predictions in sets.items():
            assert predictions.logits is not None
            assert predictions.logits.tobytes() == second[rule][name].logits.tobytes()  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_base_run_is_done_once_and_handed_on(tmp_path: Path) -> None:
    from crosswind.methods.base import Batch, Loss, Method, Modules, State

    @registry.register("starts-from-erm", kind="method")
    @dataclass(frozen=True)
    class StartsFromERM(Method):
        """Plain training from the weights of a short ERM run."""

        base_steps: int = knob(5, domain="[1, inf)")
        bias: float = knob(0.0)
        needs = Needs(base=Base("erm", from_knobs={"steps": "base_steps"}))

        def modules(self, info: Any, make_model: Any) -> Any:
            return {"model": make_model(base=True)}

        def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
            import torch

            return Loss(torch.nn.functional.cross_entropy(modules["model"](batch.x), batch.y))

    try:
        plan = planned(
            methods={"erm": {}, "starts-from-erm": {"bias": [0.0, 1.0]}}, label_noise=0.0
        )
        bases = [job for job in plan.jobs if job.labels.get("role") == "base"]
        dependents = [job for job in of_kind(plan, "fit") if job.needs]
        assert len(bases) == 4 and len(dependents) == 8 and len(plan.runs) == 12
        assert {run.spec["training"]["steps"] for run in bases} == {5}
        assert all(run.needs[0] in {base.key for base in bases} for run in dependents)
        rows = finish(tmp_path / "out", plan, Inline(JOB))
        assert all(row["status"] == "finished" for row in rows)
        # The same base inside `fit`, trained there: equal numbers.
        run = dependents[0]
        (tmp_path / "state").mkdir()
        alone(run, tmp_path / "alone", tmp_path / "state" / "a")
        of_run_alone, handed = (
            read_predictions(folder / "predictions.npz")
            for folder in (tmp_path / "alone", artifact_folder(tmp_path / "out", run.key))
        )
        assert {
            rule: sets["validation"].logits.tobytes() for rule, sets in of_run_alone.items()
        } == {  # type: ignore[union-attr]
            rule: sets["validation"].logits.tobytes()  # type: ignore[union-attr]
            for rule, sets in handed.items()
        }
    finally:
        registry.forget("methods", "starts-from-erm")


def _crosswind(study: Path, out: Path) -> subprocess.Popen[bytes]:
    code = "from crosswind.cli.main import main; main()"
    command = [sys.executable, "-c", code, "run", str(study), "--workers", "2", "--out", str(out)]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def _workers_of(pid: int) -> list[int]:
    child_pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            if parent == pid:
                child_pids.append(int(entry.name))
    return child_pids


def _finished(out: Path) -> int:
    """How many runs of the study are finished by now."""
    try:
        with Store.open(out) as store:
            return store.counts("whole")["finished"]
    except StoreError:  # not there yet
        return 0


@pytest.mark.parametrize(
    "rounds",
    [pytest.param(4, marks=pytest.mark.slow), pytest.param(LONG, marks=pytest.mark.verify)],
)
@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(),
    reason="finds workers through /proc, which this system has not",
)
def test_kill_drill_with_real_training(rounds: int, tmp_path: Path) -> None:
    """Rounds of kill -9 on the main process or a worker at random moments of one study, then to the
    end.

    Nothing finished is lost or repeated, and the table equals that of an uninterrupted study."""
    import yaml

    seeds = max(2, 2 * rounds // 5)  # so that the study outlasts the rounds
    study = tmp_path / "whole.yaml"
    study.write_text(
        yaml.safe_dump(
            {
                **STUDY,
                "seeds": seeds,
                "training": {
                    "steps": 160,
                    "batch": 32,
                    "validate_every": 5,
                    "checkpoint_seconds": 0,
                },
            }
        )
    )
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    assert not cw.run_study(str(study), calm).summary.failed
    dice = random.Random(5)
    finished: dict[str, float] = {}
    kills = {"driver": 0, "worker": 0}

    def wait(driver: subprocess.Popen[bytes], seconds: float, enough: int) -> None:
        """For so long, or until so many runs are finished: a fast machine must not end the study
        before the drill."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and driver.poll() is None and _finished(rough) < enough:
            time.sleep(0.1)

    for left in range(rounds, 0, -1):
        enough = len(finished) + (2 * 2 * seeds * 3 - len(finished)) // (left + 1)
        driver = _crosswind(study, rough)
        wait(driver, dice.uniform(1.0, 4.0), enough)
        if dice.choice(["driver", "worker", "worker"]) == "worker":
            # A slow machine has none yet.
            until = time.monotonic() + 60
            while driver.poll() is None and not _workers_of(driver.pid):
                assert time.monotonic() < until, "no worker was started"
                time.sleep(0.1)
            for worker in _workers_of(driver.pid)[:1]:
                os.kill(worker, signal.SIGKILL)
                kills["worker"] += 1
            wait(driver, dice.uniform(0.1, 1.0), enough + 1)
        if driver.poll() is None:
            os.kill(driver.pid, signal.SIGKILL)
            kills["driver"] += 1
        driver.wait()
        if finished or _finished(rough):  # else it may have been killed before its plan was there
            with Store.open(rough) as store:
                now = {
                    run["key"]: run["finished"]
                    for run in store.runs("whole")
                    if run["status"] == "finished"
                }
            assert set(finished) <= set(now), "a finished run was lost"
            assert all(now[key] == when for key, when in finished.items()), (
                "a finished run was repeated"
            )
            finished = now
    assert kills["driver"] == rounds and kills["worker"] >= rounds // 3, (
        f"the study ended before the drill did: {kills}"
    )
    # A worker that was killed twice under one run is a failure of the machine's, and the run is
    # tried again.
    assert not cw.run_study(str(study), rough).summary.failed
    with Store.open(rough) as store, Store.open(calm) as calm_store:
        assert numbers(store) == numbers(calm_store)
        assert store.counts("whole")["finished"] == 2 * 2 * seeds * 3
    assert artifacts(rough) == artifacts(calm)


def test_a_file_of_weights_is_in_the_key_by_its_bytes_and_not_by_its_place(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    def keys(folder: Path, **knobs: Any) -> list[str]:
        models = {"pretrained": {"model": "resnet18", "weights": "w.safetensors", **knobs}}
        study = study_from({**STUDY, "methods": ["erm"], "models": models}, name="whole")
        return [run.key for run in make_plan(study, folder).runs]

    for name, value in (("a", 0.0), ("b", 0.0), ("c", 1.0)):
        (tmp_path / name).mkdir()
        save_file({"fc.bias": torch.full((10,), value)}, str(tmp_path / name / "w.safetensors"))
    assert keys(tmp_path / "a") == keys(tmp_path / "b")
    assert not set(keys(tmp_path / "a")) & set(keys(tmp_path / "c"))
    with pytest.raises(
        InputError, match=r"models.pretrained.weights: there is no file 'w.safetensors'"
    ):
        keys(tmp_path)
    with pytest.raises(InputError, match=r"models.pretrained.weights_sha256"):
        keys(tmp_path / "a", weights_sha256="0" * 64)


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_weights_that_do_not_fit_are_refused_before_anything_is_written(
    tmp_path: Path, capsys: Any
) -> None:
    """With status 2 and one sentence; weights whose head has other classes do fit."""
    from safetensors.torch import save_file

    from crosswind.cli.main import _status
    from crosswind.models.build import build_model, unnamed

    weights = build_model("vit-tiny", {}, InputSpec.image(32, 32, 3), unnamed(7), 0).state_dict()
    save_file(
        {key: value.contiguous() for key, value in weights.items()}, str(tmp_path / "w.safetensors")
    )
    for model, status in (("resnet18", 2), ("vit-tiny", 0)):
        study = {
            **STUDY,
            "methods": ["erm"],
            "models": {"given": {"model": model, "weights": "w.safetensors"}},
            "label_noise": 0.0,
            "seeds": 1,
        }
        study |= {"shifts": {"none": []}, "training": {"steps": 1, "validate_every": 1, "batch": 8}}
        (tmp_path / "study.yaml").write_text(json.dumps(study), encoding="utf-8")
        out = tmp_path / model
        assert _status(["run", str(tmp_path / "study.yaml"), "--out", str(out)]) == status
        errors = capsys.readouterr().err
        misfit = re.search(
            r"^error: model.weights: '.*w.safetensors' does not fit the model: .*$", errors, re.M
        )
        assert bool(misfit) == (status == 2) and out.exists() == (status == 0)


WORST = ["best-id", "best-id-worst-group", "best-id-balanced-accuracy"]


def test_only_rules_by_other_scores_change_what_a_run_is() -> None:
    """Rules by accuracy are followed anyway; the order in which rules are named means nothing."""

    def keys(**changes: Any) -> list[str]:
        return [run.key for run in planned(**changes).runs]

    assert (
        keys()
        == keys(selection=["best-id", "last"])
        == keys(training={**STUDY["training"], "select_before_switch": False})
    )
    assert not set(keys()) & set(keys(selection=WORST)) and keys(selection=WORST) == keys(
        selection=WORST[::-1]
    )
    assert (
        "rules" not in planned().jobs[0].spec
        and planned(selection=WORST).jobs[0].spec["rules"] == WORST[1:]
    )
    assert not set(keys()) & set(keys(training={**STUDY["training"], "select_before_switch": True}))


def test_rules_by_other_scores_need_their_set_and_are_known_by_name() -> None:
    with pytest.raises(
        InputError,
        match="selection: best-ood-worst-group reads a set 'ood-validation' of role validation",
    ):
        planned(selection=["best-ood-worst-group"])
    with pytest.raises(
        InputError,
        match=r"selection.0: 'best-id-worst' is not valid, did you mean 'best-id-worst-group'\?",
    ):
        planned(selection=["best-id-worst"])
    chosen = json_schema()["properties"]["selection"]["items"]["enum"]
    assert chosen == [*RULES, "last"] and len(chosen) == 10


@pytest.mark.slow
def test_a_study_scores_steps_by_the_worst_group(tmp_path: Path) -> None:
    """Step and point of a grid by one score, on one set; of the step the metrics of the set tell
    the same as training did."""
    small = {
        "shifts": {"SC": STUDY["shifts"]["SC"]},
        "label_noise": 0.0,
        "seeds": 1,
        "selection": WORST,
    }
    rows = finish(tmp_path / "out", planned(**small), Inline(JOB))
    assert {row["rule"] for row in rows} == {*WORST, "last"}
    for run in {row["key"] for row in rows}:
        validation = {
            row["rule"]: row["metrics"]
            for row in rows
            if row["key"] == run and row["set"] == "validation"
        }
        for score, rule in (
            ("accuracy", WORST[0]),
            ("worst_group", WORST[1]),
            ("balanced_accuracy", WORST[2]),
        ):
            assert validation[rule][score] == max(
                step_scores[score] for step_scores in validation.values()
            )
            assert not any("so it chose by accuracy" in text for text in validation[rule]["doubts"])
    points = {
        row["point"]: row["metrics"]
        for row in rows
        if (row["rule"], row["set"], row["method"]) == (WORST[1], "validation", "groupdro")
    }
    best = max(point_metrics["worst_group"] for point_metrics in points.values())
    for table_key, table in arrange(
        [{**row, "study": "whole", "data": "digits", "model": "small"} for row in rows]
    ).places.items():
        if (table_key.rule, table_key.set) == (WORST[1], "test"):
            assert points[table.entries["SC", "groupdro"].chosen[0]]["worst_group"] == best
