from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tests.methods.digits import finished
from tests.training.world import DATA, Sets, run, same_weights, split, with_train
from torch import Tensor

from crosswind.core.knobs import Base, Needs
from crosswind.core.types import InputSpec
from crosswind.data.derive import DerivedAttribute, derive
from crosswind.execution.jobs import _base_weights
from crosswind.methods.base import Batch, Loss, Method, Modules, Output, Stage, State
from crosswind.methods.erm import ERM
from crosswind.methods.jtt import JTT
from crosswind.training.loader import TrainingRows
from crosswind.training.settings import ModelSpec, TrainingSettings, base_settings

WILES = JTT(fit_at=None, first=0.5)


class BaseContext:
    """What `stage` needs of the loop: labels, and logits that the base network gives."""

    def __init__(self, answers: list[int], y: list[int]) -> None:
        self.y, self.state, self.said = (
            torch.tensor(y),
            {},
            torch.nn.functional.one_hot(torch.tensor(answers), 3).float(),
        )
        self.asked: list[bool] = []

    def predict(self, rows: Tensor | None = None, *, base: bool = False) -> Output:
        assert rows is None
        self.asked.append(base)
        return Output(logits=self.said)


def noisy(n: int = 60) -> Sets:
    """Every fifth label is the other class: rows that a network which learnt brightness gets
    wrong."""
    sets = split(n)
    flipped = np.arange(n) % 5 == 0
    return with_train(sets, label=np.where(flipped, 1 - sets.train.label, sets.train.label))


def test_wrong_rows_and_not_right_rows_stand_up_times_in_an_epoch() -> None:
    """Answers (0, 1, 2, 2, 0) to labels (0, 1, 1, 2, 2): rows 2 and 4 are wrong and stand 3 times,
    the others once."""
    context = BaseContext([0, 1, 2, 2, 0], [0, 1, 1, 2, 2])
    stage = JTT(up=3).stage(0, context)  # type: ignore[arg-type]
    assert isinstance(stage, Stage) and stage.copies is not None
    assert stage.copies.tolist() == [1, 1, 3, 1, 3]
    assert context.state["wrong"].tolist() == [
        False,
        False,
        True,
        False,
        True,
    ] and context.asked == [True]
    assert JTT().stage(1, context) is None  # type: ignore[arg-type]
    # An epoch of 5 rows of which one is wrong: 20 + 4 = 24 rows.
    loader = TrainingRows(
        replace(split().train, **first(5)), DATA, TrainingSettings(batch=24), 0, "epoch"
    )  # type: ignore[arg-type]
    stage = JTT(up=20).stage(0, BaseContext([0, 0, 0, 0, 1], [0, 0, 0, 0, 0]))  # type: ignore[arg-type]
    assert stage is not None
    loader.begin(stage)
    for step in range(3):
        assert torch.bincount(loader.batch(step, 3).ids).tolist() == [1, 1, 1, 1, 20]


def first(n: int) -> dict[str, Any]:
    train = split().train
    return {
        name: getattr(train, name)[:n]
        for name in ("rows", "label", "true_label", "group", "environment", "weight", "origin")
    }


def test_error_set_is_the_base_networks_by_the_labels_that_training_sees() -> None:
    """The base network's own answers, by a plain loop in evaluation mode, against noisy labels and
    not the true ones."""
    from crosswind.models.build import build_model, unnamed
    from crosswind.training.loop import fit

    sets = noisy()
    chosen = TrainingSettings.of(
        {"steps": 12, "batch": 16, "validate_every": 4, "evaluation_batch": 32}
    )
    model = ModelSpec("small-cnn", {})
    base = fit(ERM(), sets, {"tiny": DATA}, model, base_settings(chosen, JTT.needs, vars(WILES)), 0)  # type: ignore[arg-type]
    assert base.history[-1]["step"] == 6
    lossy = TrainingSettings.of({"steps": 12, "loss_at": 100.0, "stop_at": 0.1, "patience": 1})
    of_base = base_settings(lossy, JTT.needs, vars(WILES))
    assert (of_base.loss_at, of_base.stop_at, of_base.patience) == (None, None, None)
    net = build_model("small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(2), 0)
    net.load_state_dict(
        {key.removeprefix("model."): value for key, value in base.weights("last").items()}
    )
    net.eval()
    wrong = []
    for row in range(60):
        x = torch.from_numpy(DATA.inputs(np.array([row]))).permute(0, 3, 1, 2).float() / 127.5 - 1
        with torch.inference_mode():
            wrong.append(int(net(x).argmax()) != bool(sets.train.label[row]))
    trajectory = fit(WILES, sets, {"tiny": DATA}, model, chosen, 0)  # type: ignore[arg-type]
    assert trajectory.weights("last")["state/wrong"].tolist() == wrong
    assert 5 <= sum(wrong) <= 40
    true = [
        left != (right != truth)
        for left, right, truth in zip(wrong, sets.train.label, sets.train.true_label, strict=True)
    ]
    assert wrong != true  # by the true labels it would be another set


@pytest.mark.slow
def test_first_training_is_half_the_steps_is_not_stopped_and_hands_on_its_last_weights() -> None:
    settings_given = TrainingSettings.of(
        {"steps": 101, "epochs": 7.0, "patience": 3, "stop_at": 0.5, "lr": 0.01}
    )
    first = base_settings(settings_given, JTT.needs, vars(WILES))
    assert (first.steps, first.epochs, first.patience, first.stop_at, first.lr) == (
        51,
        3.5,
        None,
        None,
        0.01,
    )
    assert (
        first.fit_at is None and base_settings(settings_given, JTT.needs, vars(JTT())).fit_at == 0.9
    )
    assert (
        base_settings(replace(settings_given, epochs=None), JTT.needs, vars(WILES)).epochs is None
    )
    # The weights of the base run's best step are others, and give another error set.
    settings = {"steps": 40, "lr": 3e-2, "validate_every": 2, "patience": None}
    base = run(ERM(), noisy(), **{**settings, "steps": 20})
    assert base.selections["best-id"].step < 20
    alone = run(WILES, noisy(), **settings)
    assert same_weights(alone, run(WILES, noisy(), base=base.weights("last"), **settings))
    assert not same_weights(alone, run(WILES, noisy(), base=base.weights("best-id"), **settings))


@pytest.mark.parametrize(
    ("method", "equal"), [(JTT(up=1), True), (JTT(up=2), False)], ids=["limit", "twice"]
)
def test_its_limit_is_erm_where_values_are_drawn_at_every_visit_too(
    method: JTT, equal: bool
) -> None:
    noise = DerivedAttribute(
        "noise", ("clean", "noisy"), "gaussian-noise", (None, {"severity": 5}), "per-visit"
    )
    sets, law = noisy(), np.full((60, 2), 0.5)
    names = tuple(f"{name}, {value}" for name in sets.train.group_names for value in noise.values)
    sets = with_train(
        sets, visit_law=law, visit_step=(1, 0), group=sets.train.group * 2, group_names=names
    )
    sets = replace(sets, validation={}, evaluation={})
    data = derive(DATA, noise)
    left, right = (run(each, sets, data=data, steps=12).weights("last") for each in (ERM(), method))
    assert all(torch.equal(value, right[key]) for key, value in left.items()) == equal


BEGUN: dict[str, Tensor] = {}


@dataclass(frozen=True)
class FirstStepJTT(Method):
    """JTT whose first weights of the second training are looked at."""

    up: int = 20
    first: float = 0.5
    fit_at: float | None = None
    registered_name = "watched"
    needs = JTT.needs
    state, stage, doubts = JTT.state, JTT.stage, JTT.doubts

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        if batch.step == 0:
            BEGUN.update(
                {
                    key: value.detach().clone()
                    for key, value in modules["model"].state_dict().items()
                }
            )
        return super().loss(modules, batch, state)


@pytest.mark.parametrize("seed", [0, 3])
def test_second_training_starts_fresh_from_the_weights_and_batches_of_erm(seed: int) -> None:
    """Not from the first network, and not from those of seed 0."""
    from crosswind.models.build import build_model, unnamed

    trajectory = run(FirstStepJTT(), noisy(), seed=seed, model="small-cnn")
    fresh = build_model("small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(2), seed).state_dict()
    assert all(torch.equal(BEGUN[key], value) for key, value in fresh.items())
    assert {row["stage"] for row in trajectory.history} == {"main"} and trajectory.history[-1][
        "step"
    ] == 12


@pytest.mark.slow
def test_half_of_a_run_on_few_rows_leaves_no_error_set_and_the_default_does() -> None:
    """Where no row is left wrong the run is ERM and says so; the default's first training ends
    while some are."""
    few, settings = noisy(), {"steps": 600, "lr": 2e-2, "patience": None, "validate_every": 600}
    trajectory = run(WILES, few, **settings)
    assert int(trajectory.weights("last")["state/wrong"].sum()) == 0
    assert trajectory.warnings == [
        "jtt: the first network got no training row wrong, so this run is ERM; lower `fit_at` or"
        " `first`, or have an estimator fit less closely"
    ]
    trajectory = run(JTT(), few, **settings)
    assert (
        0 < int(trajectory.weights("last")["state/wrong"].sum()) <= 6 and trajectory.warnings == []
    )


def test_an_error_set_of_all_rows_is_told_of() -> None:
    state = {"wrong": torch.tensor([True, True]), "answered": torch.tensor(True)}
    assert JTT().doubts(state) == [
        "the first network got every training row wrong, so this run is ERM; raise `fit_at` or"
        " `first`, or have an estimator fit closer"
    ]


def test_a_first_network_that_diverged_is_told_of() -> None:
    """Its answers are not numbers, and a largest one of them is always the first class: half of the
    rows would seem right."""
    diverged = {
        key: value * float("nan") for key, value in run(ERM(), steps=2).weights("last").items()
    }
    trajectory = run(JTT(), base=diverged)
    assert 0 < int(trajectory.weights("last")["state/wrong"].sum()) < 60
    assert trajectory.warnings == [
        "jtt: the first network diverged, so the rows that it got wrong are no error set; lower the"
        " learning rate"
    ]


def test_a_base_run_is_named_by_its_share_and_rule() -> None:
    assert Base() == Base("erm", {}, {}, {}, "best-id")
    needs = Needs(base=Base(scaled={"steps": "first"}))
    assert base_settings(TrainingSettings(steps=7), needs, {"first": 0.1}).steps == 1


def test_a_study_hands_on_the_last_weights_too(tmp_path: Path) -> None:
    for rule, value in [("best-id", 1.0), ("last", 2.0)]:
        save_file({"model.w": torch.tensor([value])}, str(tmp_path / f"weights-{rule}.safetensors"))
    methods = (JTT(), SimpleNamespace(needs=Needs(base=Base())))
    settings_given = [_base_weights(method, [tmp_path]) for method in methods]  # type: ignore[arg-type]
    assert [float(trajectory["model.w"]) for trajectory in settings_given if trajectory] == [
        2.0,
        1.0,
    ]


@pytest.mark.slow
def test_end_to_end_on_digits(tmp_path: Path) -> None:
    """One base run of 10 of the 20 steps serves both values of `up`; at 1 the numbers are ERM's, at
    20 others."""
    rows = finished(tmp_path, {"jtt": {"up": [1, 20]}})
    scored = {
        (row["method"], row["point"]): row["metrics"]["nll"]
        for row in rows
        if (row["rule"], row["set"]) == ("last", "test")
    }
    assert set(scored) == {("erm", ""), ("jtt", "up=1"), ("jtt", "up=20")}
    assert scored["jtt", "up=1"] == scored["erm", ""] != scored["jtt", "up=20"]
