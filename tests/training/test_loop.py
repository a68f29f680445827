from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import DATA, Sets, rows_of, run, same_weights, split, with_train

from crosswind.core.errors import DataError, InputError, NeedsError, RunError
from crosswind.core.knobs import Base, Limit, Needs, knob
from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Loss, Method, Modules, Output, RunContext, Stage, State
from crosswind.methods.erm import ERM
from crosswind.methods.functional import frozen, row_losses
from crosswind.methods.groupdro import GroupDRO
from crosswind.training.selection import RULES


@dataclass(frozen=True)
class UnregisteredERM(Method):
    """ERM that is not registered: the parent of the toys."""

    registered_name = "toy"
    limit = Limit.none("a toy")


# -- what a plain trajectory holds -----------------------------------------------------------------


def test_trajectory_holds_every_rule_and_set() -> None:
    trajectory = run(ERM())
    assert trajectory.status == "finished"
    assert set(trajectory.selections) == {"best-id", "best-ood", "last"}
    assert all(
        set(sets) == {"validation", "ood-validation", "test"}
        for sets in trajectory.predictions.values()
    )
    assert [row["step"] for row in trajectory.history] == [4, 8, 12]
    assert trajectory.predictions["last"]["test"].ids.tolist() == list(range(150, 195))
    assert (
        len(trajectory.predictions["last"]["test"].logits) == 45
    )  # the last batch, smaller than the evaluation batch, is kept
    assert trajectory.cost["steps"] == 12 and trajectory.cost["peak_memory_bytes"] > 1e6


def test_selected_scores_are_those_of_the_predictions() -> None:
    trajectory = run(ERM(), steps=24)
    for rule, name in {"best-id": "validation", "best-ood": "ood-validation"}.items():
        predictions = trajectory.predictions[rule][name]
        assert trajectory.selections[rule].scores[name].accuracy == np.mean(
            predictions.answer == predictions.label
        )
        curve = {row["step"]: row["validation"][name]["accuracy"] for row in trajectory.history}
        assert curve[trajectory.selections[rule].step] == max(curve.values())


def test_plain_loop_gives_the_same_numbers() -> None:
    """The loop against the ordinary way to write one: order, normalisation, Adam."""
    from crosswind.core.seeds import stream
    from crosswind.models.build import build_model, unnamed

    trajectory = run(ERM(), precision="fp64", steps=9)
    model = build_model(
        "mlp", {"hidden": 16, "layers": 2}, InputSpec.image(8, 8, 3), unnamed(2), 0
    ).double()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    order = np.concatenate(
        [stream(0, "order", "main", epoch).permutation(60) for epoch in range(3)]
    )
    for step in range(9):
        rows = order[step * 16 : step * 16 + 16]
        x = torch.from_numpy(DATA.inputs(rows)).permute(0, 3, 1, 2).double() / 127.5 - 1
        loss = torch.nn.functional.cross_entropy(model(x), torch.from_numpy(rows % 2))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    for key, value in model.state_dict().items():
        assert torch.allclose(value, trajectory.weights("last")[f"model.{key}"], atol=1e-10), key


def test_evaluation_does_not_depend_on_how_many_rows_there_are() -> None:
    sets = split()
    fewer_rows = replace(
        sets,
        evaluation={
            "test": rows_of(DATA, np.arange(150, 195)),
            "part": rows_of(DATA, np.arange(160, 163)),
        },
    )
    trajectory = run(ERM(), fewer_rows, model="small-cnn").predictions["last"]
    assert np.array_equal(trajectory["test"].logits[10:13], trajectory["part"].logits)


def test_evaluation_changes_nothing() -> None:
    from crosswind.models.build import build_model, unnamed
    from crosswind.training.loader import EvaluationRows
    from crosswind.training.predicting import predict
    from crosswind.training.settings import TrainingSettings

    model = build_model("small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(2), 0).train()
    model.block1.eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    modes = [submodule.training for submodule in model.modules()]
    settings = TrainingSettings(evaluation_batch=32)
    predict(
        ERM(),
        {"model": model},
        {},
        EvaluationRows(split().train, DATA, settings, resident=False),
        settings,
    )
    assert len([key for key in before if "running" in key]) == 6
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert modes == [submodule.training for submodule in model.modules()]


def test_how_often_one_validates_changes_no_weight() -> None:
    assert same_weights(
        run(ERM(), model="small-cnn", validate_every=3),
        run(ERM(), model="small-cnn", validate_every=12),
    )


def test_every_method_of_a_seed_starts_from_the_same_weights() -> None:
    erm, two, other_seed = (
        run(ERM(), steps=0),
        run(GroupDRO(), steps=0),
        run(ERM(), steps=0, seed=1),
    )
    assert all(
        torch.equal(value, two.weights("last")[key]) for key, value in erm.weights("last").items()
    )
    assert not same_weights(erm, other_seed)
    assert [row["step"] for row in erm.history] == [0]


def test_global_generator_is_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    run(ERM(), steps=2)
    assert torch.equal(torch.rand(1), expected)
    assert not torch.are_deterministic_algorithms_enabled()


def test_layout_is_speed_only() -> None:
    trajectory = run(ERM(), model="small-cnn", precision="fp64", channels_last=False)
    assert same_weights(trajectory, run(ERM(), model="small-cnn", precision="fp64"), tolerance=1e-8)


def test_bf16_is_another_arithmetic_that_learns_too() -> None:
    trajectory, plain = (
        run(ERM(), steps=60, lr=3e-3, precision=precision) for precision in ("bf16", "fp32")
    )
    assert (
        not same_weights(trajectory, plain)
        and plain.selections["best-id"].scores["validation"].accuracy > 0.9
    )
    assert trajectory.weights("last")["model.fc.weight"].dtype == torch.float32
    assert trajectory.selections["best-id"].scores["validation"].accuracy > 0.9


# -- the stop rule ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scripted(UnregisteredERM):
    """Answers so that validation accuracies follow a script, whatever is learned."""

    script: tuple[int, ...] = ()

    def state(self, info: Any) -> State:
        return {"step": torch.zeros(())}

    def update(self, context: RunContext, batch: Batch) -> Loss:
        out = super().update(context, batch)
        context.state["step"] = context.state["step"] + 1
        return out

    def predict(self, modules: Modules, x: torch.Tensor, state: State) -> Output:
        # The first rows get the right answer, the others the wrong one; the classes of the world
        # alternate.
        right = self.script[int(state["step"]) - 1]
        label = torch.arange(len(x)) % 2
        return Output(label=torch.where(torch.arange(len(x)) < right, label, 1 - label))


def test_patience_counts_validations_that_do_not_beat_the_best() -> None:
    """Right answers 5, 9, 9, 8, 9: the best comes second and is only equalled, so patience 3 ends
    it at the fifth validation."""
    trajectory = run(
        Scripted(script=(5, 9, 9, 8, 9, 30, 30)), steps=7, validate_every=1, patience=3
    )
    assert len(trajectory.history) == 5
    best = trajectory.selections["best-id"]
    assert (best.step, best.ties) == (2, 3)  # no losses here: the earliest
    assert best.scores["validation"].accuracy == 9 / 30
    assert math.isnan(best.scores["validation"].loss)


def test_patience_is_used_up_before_a_later_best() -> None:
    assert (
        len(run(Scripted(script=(5, 4, 4, 9)), steps=4, validate_every=1, patience=2).history) == 3
    )
    assert (
        len(run(Scripted(script=(5, 4, 6, 4, 9)), steps=5, validate_every=1, patience=2).history)
        == 5
    )
    assert (
        len(run(Scripted(script=(5, 4, 4, 4)), steps=4, validate_every=1, patience=None).history)
        == 4
    )


def test_stop_at_ends_at_once() -> None:
    trajectory = run(Scripted(script=(5, 30, 30)), steps=3, validate_every=1, stop_at=1.0)
    assert [row["step"] for row in trajectory.history] == [1, 2]


@pytest.mark.slow
def test_fit_at_ends_after_the_first_pass_that_leaves_so_many_training_rows_right() -> None:
    """60 rows in batches of 16: a pass has ended after 4, 8, 12 ... steps, and only then the rows
    are asked."""
    settings: dict[str, Any] = {"patience": None, "lr": 3e-3, "validate_every": 7}
    sets_asked = replace(split(), evaluation={"train": split().train})
    right = []
    for steps in range(4, 41, 4):
        predictions = run(ERM(), sets_asked, steps=steps, **settings).predictions["last"]["train"]
        right.append(float((predictions.answer == split().train.label).mean()))
    share_wanted = right[5]
    ends = 4 * (1 + next(number for number, share in enumerate(right) if share >= share_wanted))
    assert 4 < ends < 40 and right[0] < share_wanted
    trajectory = run(ERM(), steps=40, fit_at=share_wanted, **settings)
    assert trajectory.history[-1]["step"] == ends and trajectory.fitted is True
    assert same_weights(trajectory, run(ERM(), steps=ends, **settings))
    never = run(ERM(), steps=8, validate_every=8, lr=1e-9, fit_at=1.0)
    assert never.history[-1]["step"] == 8 and never.fitted is False
    # The last pass of all may be the one that makes it.
    assert (
        run(ERM(), steps=ends, fit_at=share_wanted, **settings).fitted is True
        and run(ERM(), steps=8).fitted is None
    )


def test_last_step_is_validated_though_no_multiple() -> None:
    assert [row["step"] for row in run(ERM(), steps=7, validate_every=4).history] == [4, 7]


def test_epochs_bound_the_steps() -> None:
    assert run(ERM(), epochs=2, steps=100).history[-1]["step"] == math.ceil(2 * 60 / 16)


# -- divergence ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exploding(UnregisteredERM):
    """The loss is not a number from step 5 on."""

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        plain = super().loss(modules, batch, state).total
        return Loss(plain * (math.nan if batch.step >= 5 else 1.0))


def test_divergence_ends_the_run_and_is_scored() -> None:
    trajectory = run(Exploding())
    assert trajectory.status == "diverged"
    assert [row["step"] for row in trajectory.history] == [4, 8]
    assert trajectory.history[-1]["train"]["loss"] is None
    assert trajectory.selections["last"].step == 8
    assert torch.isnan(trajectory.weights("last")["model.fc.weight"]).all()
    assert not torch.isnan(trajectory.weights("best-id")["model.fc.weight"]).any()
    assert len(trajectory.predictions["last"]["test"]) == 45


# -- going on --------------------------------------------------------------------------------------


class Stopped(Exception):
    """The simulated end of a process."""


@dataclass(frozen=True)
class Interrupted(GroupDRO):
    """GroupDRO whose process ends before a step, if told to; its name and knobs are those of
    GroupDRO."""

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        if batch.step == STOP["step"] and batch.stage == STOP["stage"]:
            raise Stopped
        return super().loss(modules, batch, state)


STOP: dict[str, Any] = {"step": None, "stage": "main"}


@pytest.fixture(autouse=True)
def _never_stop() -> None:
    STOP.update(step=None, stage="main")


def goes_on(method: Method, path: Path, step: int, stage: str = "main", **settings: Any) -> None:
    """A run that ends before a step goes on to what an undisturbed one gives."""
    uninterrupted = run(method, **settings)
    STOP.update(step=step, stage=stage)
    with pytest.raises(Stopped):
        run(method, checkpoint=path, **settings)
    STOP["step"] = None
    _same(uninterrupted, run(method, checkpoint=path, **settings))


@pytest.mark.parametrize("step", [0, 3, 4, 5, 11])
@pytest.mark.parametrize("model", ["mlp", "small-cnn"])
def test_stopped_run_goes_on_with_equal_bits(tmp_path: Path, step: int, model: str) -> None:
    done: list[int] = []
    goes_on(
        Interrupted(),
        tmp_path / "run",
        step,
        model=model,
        progress=lambda event: done.append(event["step"]),
    )
    again = [step_reached for step_reached in (4, 8, 12) if step_reached > step // 4 * 4]
    assert done == [
        4,
        8,
        12,
        *(step_reached for step_reached in (4, 8, 12) if step_reached not in again),
        *again,
    ]  # what was validated is not done again


@dataclass(frozen=True)
class Random(UnregisteredERM):
    """Adds noise to its inputs and rows to its loss by torch's own generator, in steps and before
    stages."""

    def stage(self, index: int, context: RunContext) -> Stage | None:
        return Stage(weights=torch.rand(context.info.n_rows)) if index == 0 else None

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        if batch.step == STOP["step"]:
            raise Stopped
        return super().loss(
            modules, replace(batch, x=batch.x + 0.1 * torch.randn_like(batch.x)), state
        )


@pytest.mark.parametrize("step", [2, 6])
def test_randomness_of_a_method_is_a_function_of_seed_and_step(tmp_path: Path, step: int) -> None:
    torch.manual_seed(1)
    uninterrupted = run(Random())
    torch.manual_seed(2)
    _same(uninterrupted, run(Random()))
    assert not same_weights(uninterrupted, run(Random(), seed=1))
    goes_on(Random(), tmp_path / "run", step)


def test_run_stopped_at_each_validation_goes_on_with_equal_bits(tmp_path: Path) -> None:
    uninterrupted = run(GroupDRO(), model="small-cnn", patience=2, steps=24)
    path = tmp_path / "run.safetensors"

    def stop(event: dict[str, Any]) -> None:
        raise Stopped

    for _ in uninterrupted.history:
        with pytest.raises(Stopped):
            run(GroupDRO(), model="small-cnn", patience=2, steps=24, checkpoint=path, progress=stop)
    trajectory = run(
        GroupDRO(), model="small-cnn", patience=2, steps=24, checkpoint=path, progress=stop
    )  # nothing is left to do
    _same(uninterrupted, trajectory)


def _same(first: Any, second: Any) -> None:
    def without_seconds(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in history]

    assert without_seconds(first.history) == without_seconds(second.history)
    assert {rule: selection.step for rule, selection in first.selections.items()} == {
        rule: selection.step for rule, selection in second.selections.items()
    }
    for rule in first.selections:
        assert same_weights(first, second, rule)
        for name, predictions in first.predictions[rule].items():
            assert np.array_equal(predictions.logits, second.predictions[rule][name].logits)


def test_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    run(ERM(), checkpoint=path)
    for changes in ({"seed": 1}, {"lr": 1e-2}, {"sets": split(48)}):
        with pytest.raises(RunError, match="belongs to another run"):
            run(ERM(), checkpoint=path, **changes)  # type: ignore[arg-type]
    with pytest.raises(RunError, match="belongs to another run"):
        run(GroupDRO(), checkpoint=path)
    with pytest.raises(RunError, match="belongs to another run"):
        run(ERM(), checkpoint=path, rules=("best-id-worst-group",))


def test_broken_checkpoint_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    for data in (b"", b"not a checkpoint", b"\x08\0\0\0\0\0\0\0{}      "):
        path.write_bytes(data)
        with pytest.raises(
            RunError,
            match=r"checkpoint 'run.safetensors' cannot be read \(.*\); remove it to begin again",
        ):
            run(ERM(), checkpoint=path)


# -- refusals --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Switching(UnregisteredERM):
    """Changes at a step."""

    at: int = knob(6)
    needs = Needs(switches=("at",))


def test_switch_beyond_the_last_step_is_refused() -> None:
    run(Switching(at=11))
    with pytest.raises(
        InputError, match="method.at: the switch at step 12 lies beyond the run's last step, 11"
    ):
        run(Switching(at=12))


def test_rules_choose_among_the_steps_after_the_last_switch() -> None:
    """Nothing is learned, so all steps are equal: the earliest that may be taken is the first from
    after the switch."""
    still = {"steps": 12, "validate_every": 1, "lr": 1e-30}
    trajectory = run(Switching(at=6), **still, patience=None)
    best, last = trajectory.selections["best-id"], trajectory.selections["last"]
    assert (best.step, best.ties, last.step) == (
        7,
        6,
        12,
    )  # weights at step 6 took steps 0 to 5, all from before it
    assert trajectory.warnings == []
    allowed = run(Switching(at=6), **still, patience=None, select_before_switch=True)
    assert allowed.selections["best-id"].step == 1 and allowed.selections["last"].step == 12
    sentence = (
        "toy: best-id took a step before the switch at step 6 (at), as"
        " training.select_before_switch allows"
    )
    assert allowed.doubts["best-id"] == [sentence] and allowed.doubts["last"] == []


@pytest.mark.parametrize(
    "rule", [{"patience": 2, "stop_at": None}, {"patience": None, "stop_at": 0.1}]
)
@pytest.mark.parametrize("select_before_switch", [False, True])
def test_stop_rule_looks_at_no_step_before_the_switch(
    rule: dict[str, Any], select_before_switch: bool
) -> None:
    settings = {
        "steps": 12,
        "validate_every": 1,
        "lr": 1e-30,
        "select_before_switch": select_before_switch,
        **rule,
    }
    assert run(ERM(), **settings).history[-1]["step"] == (3 if rule["patience"] else 1)
    assert run(Switching(at=6), **settings).history[-1]["step"] == (9 if rule["patience"] else 7)


@dataclass(frozen=True)
class SwitchingLater(Switching):
    """A first stage of four steps, shorter than the switch, then the study's."""

    def stage(self, index: int, context: RunContext) -> Stage | None:
        return None if index > 1 else Stage("first", steps=4) if index == 0 else Stage()


def test_switches_count_in_the_stage_that_they_lie_in() -> None:
    trajectory = run(SwitchingLater(at=6), steps=12, validate_every=1, lr=1e-30, patience=3)
    assert [row["step"] for row in trajectory.history if row["stage"] == "first"] == [1, 2, 3, 4]
    assert (
        trajectory.selections["best-id"].step == 4 + 7 and trajectory.history[-1]["step"] == 4 + 10
    )
    assert trajectory.warnings == []


def test_run_that_diverges_before_its_switch_says_so() -> None:
    @dataclass(frozen=True)
    class Diverging(Switching):
        def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
            trajectory = super().loss(modules, batch, state)
            return Loss(trajectory.total * math.nan)

    trajectory = run(Diverging(at=6), validate_every=3, steps=12)
    assert (trajectory.status, trajectory.history[-1]["step"]) == ("diverged", 3)
    for name in ("best-id", "last"):
        sentence = (
            f"toy: {name} took a step before the switch at step 6 (at), since the run ended there"
        )
        assert trajectory.doubts[name] == [sentence]


@pytest.mark.parametrize("stopped_at", [5, 6, 7, 8])
def test_a_run_stopped_around_its_switch_goes_on_with_selection_and_patience(
    tmp_path: Path, stopped_at: int
) -> None:
    settings = {"steps": 16, "validate_every": 1, "patience": 3, "lr": 1e-30}

    def stop(sentence: dict[str, Any]) -> None:
        if sentence["step"] == stopped_at:
            raise KeyboardInterrupt

    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(
            Switching(at=6),
            checkpoint=path,
            progress=stop,
            rules=("best-id-worst-group",),
            **settings,
        )
    trajectory = run(Switching(at=6), checkpoint=path, rules=("best-id-worst-group",), **settings)
    uninterrupted = run(Switching(at=6), rules=("best-id-worst-group",), **settings)
    assert (
        trajectory.selections == uninterrupted.selections
        and trajectory.selections["best-id"].step == 7
    )
    assert trajectory.history[-1]["step"] == uninterrupted.history[-1]["step"] == 10


def test_pictures_of_another_shape_and_absent_devices_are_refused() -> None:
    from crosswind.training.loop import fit
    from crosswind.training.settings import ModelSpec, TrainingSettings

    other_shape = replace(DATA, input=InputSpec.image(4, 4, 3))
    sets = split()
    far = replace(sets, evaluation={"far": replace(sets.evaluation["test"], source="other")})
    with pytest.raises(
        DataError,
        match=r"set 'far' has images of 4 x 4 x 3 from 'other', training has images of 8 x 8 x 3",
    ):
        fit(
            ERM(),
            far,
            {"tiny": DATA, "other": other_shape},
            ModelSpec("mlp"),
            TrainingSettings(),
            0,
        )  # type: ignore[arg-type]
    with pytest.raises(InputError, match="training.device: torch finds no device 'cuda:77' here"):
        run(ERM(), device="cuda:77")
    with pytest.raises(InputError, match="training.device: 'gpu' is no kind of device"):
        TrainingSettings.of({"device": "gpu"})


def test_single_group_is_refused() -> None:
    sets = split()
    single_group = with_train(sets, group=np.zeros_like(sets.train.group))
    with pytest.raises(
        NeedsError, match="'groupdro' needs at least two groups with training rows, and there is 1"
    ):
        run(GroupDRO(), single_group)


@dataclass(frozen=True)
class Environments(UnregisteredERM):
    """Wants environments, equally in each batch."""

    needs = Needs(environments=True, sampler="per-environment")

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        assert batch.environment is not None
        assert torch.bincount(batch.environment).tolist() == [8, 8]
        assert torch.equal(batch.environment, batch.group % 2)
        return super().loss(modules, batch, state)


def test_environments_share_every_batch_evenly_or_are_refused() -> None:
    sets = split()
    lopsided = rows_of(
        DATA,
        np.sort(np.concatenate([np.arange(0, 80, 4), np.arange(2, 8, 4), np.arange(1, 80, 4)])),
    )
    run(Environments(), replace(sets, train=lopsided))
    for environment in (None, np.zeros(60, dtype=np.int64)):
        with pytest.raises(NeedsError, match="'toy' needs at least two environments"):
            run(Environments(), with_train(sets, environment=environment))


# -- the hooks, each by a toy ----------------------------------------------------------------------


def _halved(step: int, epoch: int) -> float:
    return 0.5**epoch


@dataclass(frozen=True)
class Adversary(UnregisteredERM):
    """Two optimisers of their own lr and clip, two descents a step, a discriminator beside the
    model (as DANN)."""

    clip: float = 0.5
    discriminator_lr: float = 0.1

    def modules(self, info: Any, make_model: Any) -> Modules:
        model = make_model()
        return {"model": model, "discriminator": torch.nn.Linear(model.width, 2)}

    def optimisers(self, info: Any, modules: Modules, stage: str) -> Any:
        from crosswind.methods.base import OptimiserSpec

        return {
            "main": OptimiserSpec(list(modules["model"].parameters()), clip=self.clip),
            "discriminator": OptimiserSpec(
                list(modules["discriminator"].parameters()),
                kind="sgd",
                lr=self.discriminator_lr,
                schedule=lambda step, epoch: 0.5**epoch,
            ),
        }

    def update(self, context: RunContext, batch: Batch) -> Loss:
        model, critic = context.modules["model"], context.modules["discriminator"]
        before = [p.detach().clone() for p in model.parameters()]
        was = critic.weight.detach().clone()

        def domain() -> Loss:
            return Loss(row_losses(critic(model.features(batch.x)), batch.environment).mean())

        trajectory = context.descend("discriminator", domain)
        assert all(torch.equal(p, q) for p, q in zip(before, model.parameters(), strict=True))
        assert all(p.grad is None for p in model.parameters()) or batch.step > 0
        moved = critic.weight.detach() - was
        # Plain SGD: exactly lr x gradient, by the optimiser's own lr and schedule.
        assert torch.allclose(
            moved, -self.discriminator_lr * 0.5**batch.epoch * critic.weight.grad, atol=1e-7
        )
        main = context.descend(
            "main",
            lambda: Loss(
                100 * self.loss(context.modules, batch, context.state).total - domain().total
            ),
        )
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        assert norm <= self.clip * (1 + 1e-4)
        return Loss(main.total, {"domain": trajectory.total})


def test_two_optimisers_descend_apart() -> None:
    trajectory = run(Adversary())
    assert set(trajectory.history[0]["train"]) == {"loss", "domain"}
    assert "discriminator.weight" in trajectory.weights("last")
    assert not torch.equal(
        trajectory.weights("last")["discriminator.weight"],
        run(Adversary(), steps=0).weights("last")["discriminator.weight"],
    )


def test_optimisers_are_declared_for_each_stage() -> None:
    stages_asked: list[str] = []

    @dataclass(frozen=True)
    class Slower(TwoStages):
        def optimisers(self, info: Any, modules: Modules, stage: str) -> Any:
            stages_asked.append(stage)
            specs = super().optimisers(info, modules, stage)
            return {"main": replace(specs["main"], lr=1e-9)} if stage == "main" else specs

    trajectory = run(Slower(start="last"))
    assert stages_asked == ["identify", "main"]
    assert (trajectory.weights("last")["model.fc.weight"] - SEEN[-1][1]).abs().max() < 1e-6


def test_unknown_optimiser_is_named() -> None:
    @dataclass(frozen=True)
    class Wrong(UnregisteredERM):
        def update(self, context: RunContext, batch: Batch) -> Loss:
            return context.descend(
                "generator", lambda: self.loss(context.modules, batch, context.state)
            )

    with pytest.raises(RunError, match=r"declares no optimiser 'generator' \(declared: main\)"):
        run(Wrong())


@pytest.mark.parametrize("step", [5, 9])
def test_two_optimisers_go_on_with_equal_bits(tmp_path: Path, step: int) -> None:
    @dataclass(frozen=True)
    class Halting(Adversary):
        def update(self, context: RunContext, batch: Batch) -> Loss:
            if batch.step == STOP["step"]:
                raise Stopped
            return super().update(context, batch)

    goes_on(Halting(), tmp_path / "run", step)


def test_reset_forgets_what_adam_has_gathered() -> None:
    @dataclass(frozen=True)
    class Resetting(UnregisteredERM):
        at: int = 6

        def update(self, context: RunContext, batch: Batch) -> Loss:
            if batch.step == self.at:
                context.reset("main")
            return super().update(context, batch)

    assert same_weights(run(Resetting(at=99)), run(ERM()))
    assert same_weights(run(Resetting(at=0)), run(ERM()))
    assert not same_weights(run(Resetting()), run(ERM()))


@dataclass(frozen=True)
class TwoStages(UnregisteredERM):
    """Finds the rows it gets wrong, then trains on them more often in a fresh model (as JTT,
    without a base run)."""

    up: int = 5
    start: str = "fresh"
    end: str = "last"

    def stage(self, index: int, context: RunContext) -> Stage | None:
        if index == 0:
            return Stage("identify", steps=6, end=self.end)
        if index == 1:
            answer = context.predict().logits.argmax(1)
            wrong = answer != context.y.cpu()
            SEEN.append((wrong.clone(), context.modules["model"].fc.weight.detach().clone()))
            return Stage("main", start=self.start, copies=torch.where(wrong, self.up, 1))
        return None

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        if batch.step == STOP["step"] and batch.stage == STOP["stage"]:
            raise Stopped
        if batch.step == 0:
            STARTS[batch.stage] = modules["model"].fc.weight.detach().clone()
        return super().loss(modules, batch, state)


SEEN: list[Any] = []
STARTS: dict[str, torch.Tensor] = {}


def test_second_stage_is_fresh_and_at_its_limit_equals_erm() -> None:
    trajectory = run(TwoStages(up=1))
    assert torch.equal(STARTS["identify"], STARTS["main"])
    assert [row["step"] for row in trajectory.history] == [4, 6, 10, 14, 18]
    plain = run(ERM())
    assert all(
        torch.equal(value, trajectory.weights("last")[key])
        for key, value in plain.weights("last").items()
    )
    assert trajectory.selections["last"].step == 18 and trajectory.selections["best-id"].step > 6
    assert not same_weights(run(TwoStages()), plain)


def test_second_stage_can_start_from_the_last_or_the_best() -> None:
    run(TwoStages(start="last"))
    assert torch.equal(STARTS["main"], SEEN[-1][1])
    assert not torch.equal(STARTS["main"], STARTS["identify"])
    run(TwoStages(start="last", end="best"), lr=1.0)
    best = STARTS["main"]
    run(TwoStages(start="last", end="last"), lr=1.0)
    assert torch.equal(best, SEEN[-2][1]) and not torch.equal(best, STARTS["main"])


@pytest.mark.parametrize(
    ("stage", "step"), [("identify", 5), ("main", 0), ("main", 3), ("main", 9)]
)
def test_stages_go_on_with_equal_bits(tmp_path: Path, stage: str, step: int) -> None:
    goes_on(TwoStages(), tmp_path / "run", step, stage)


def test_state_written_before_a_fresh_stage_reaches_it() -> None:
    @dataclass(frozen=True)
    class Telling(TwoStages):
        def state(self, info: Any) -> State:
            return {"wrong": torch.zeros(info.n_rows)}

        def stage(self, index: int, context: RunContext) -> Stage | None:
            trajectory = super().stage(index, context)
            if index == 1:
                context.state["wrong"] = SEEN[-1][0].float()
            return trajectory

    trajectory = run(Telling())
    assert SEEN[-1][0].any() and torch.equal(
        trajectory.weights("last")["state/wrong"], SEEN[-1][0].float()
    )


def test_further_copies_of_the_model_begin_with_other_weights() -> None:
    @dataclass(frozen=True)
    class Two(UnregisteredERM):
        def modules(self, info: Any, make_model: Any) -> Modules:
            return {
                "model": make_model(),
                "other": make_model(),
                "wide": make_model(n_classes=5, hidden=8),
            }

    trained_weights = run(Two(), steps=0).weights("last")
    plain = run(ERM(), steps=0).weights("last")
    assert torch.equal(trained_weights["model.fc.weight"], plain["model.fc.weight"])
    assert not torch.equal(trained_weights["other.fc.weight"], trained_weights["model.fc.weight"])
    assert trained_weights["wide.fc.weight"].shape == (5, 8)


@dataclass(frozen=True)
class Growing(UnregisteredERM):
    """Appends negatives of its rows, twice (as ADA)."""

    def stage(self, index: int, context: RunContext) -> Stage | None:
        from crosswind.methods.base import Examples

        if index == 0:
            return Stage("one", steps=5)
        assert not context.modules["model"].training
        if index == 1:
            assert context.last is not None and context.last.name == "one"
            examples = Examples(
                -context.inputs(), context.y.clone() * 0 + 1, torch.arange(context.info.n_rows)
            )
            return Stage("two", extra=examples, steps=15)
        return None

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        if batch.step == STOP["step"] and batch.stage == STOP["stage"]:
            raise Stopped
        if batch.stage == "two":
            plain = torch.from_numpy(DATA.inputs(batch.ids.numpy())).permute(0, 3, 1, 2) / 127.5 - 1
            is_made = (batch.x + plain).abs().amax((1, 2, 3)) < 1e-5
            assert torch.equal(
                is_made | ((batch.x - plain).abs().amax((1, 2, 3)) < 1e-5),
                torch.ones(16, dtype=torch.bool),
            )
            assert torch.equal(batch.y, torch.where(is_made, 1, batch.ids % 2))
            assert torch.equal(batch.group, torch.from_numpy(split().train.group)[batch.ids])
            COUNTS.append((batch.epoch, int(is_made.sum())))
        return super().loss(modules, batch, state)


COUNTS: list[tuple[int, int]] = []


def test_extra_examples_join_the_epoch() -> None:
    """60 rows and 60 made of them in batches of 16: of the first 120 drawn, 60 are made."""
    COUNTS.clear()
    run(Growing())
    assert [epoch for epoch, _ in COUNTS] == [step * 16 // 120 for step in range(15)]
    assert sum(n_made for _, n_made in COUNTS) == 120  # 15 steps x 16 = two epochs


def test_extra_examples_go_on_with_equal_bits(tmp_path: Path) -> None:
    goes_on(Growing(), tmp_path / "run", 7, "two")


@dataclass(frozen=True)
class LossWeightedOnBase(UnregisteredERM):
    """Draws rows in proportion to the base run's loss, and keeps the base's network frozen beside
    its own (as BPA, UBNet)."""

    base_epochs: float = 3.0
    needs = Needs(
        base=Base("erm", settings={"validate_every": 2}, from_knobs={"epochs": "base_epochs"})
    )

    def modules(self, info: Any, make_model: Any) -> Modules:
        return {"model": make_model(), "base": frozen(make_model(base=True))}

    def stage(self, index: int, context: RunContext) -> Stage | None:
        if index:
            return None
        logits = context.predict(base=True).logits
        assert context.features(base=True).shape == (60, 16)
        assert torch.equal(context.modules["base"](context.inputs()), logits) or torch.allclose(
            context.modules["base"](context.inputs()), logits, atol=1e-5
        )
        return Stage(weights=row_losses(logits, context.y))

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        assert not modules["base"].training and modules["model"].training
        return super().loss(modules, batch, state)


def test_base_run_is_trained_or_given() -> None:
    heard: list[int] = []
    trajectory = run(LossWeightedOnBase(), progress=lambda event: heard.append(event["step"]))
    steps = math.ceil(3 * 60 / 16)
    assert heard == [*range(2, steps + 1, 2), *([steps] if steps % 2 else []), 4, 8, 12]
    base = run(ERM(), epochs=3.0, validate_every=2)
    assert same_weights(run(LossWeightedOnBase(), base=base.weights("best-id")), trajectory)
    trained_weights = trajectory.weights("last")
    assert all(
        torch.equal(value, trained_weights[key.replace("model.", "base.")])
        for key, value in base.weights("best-id").items()
    )
    assert not same_weights(
        run(LossWeightedOnBase(), base=run(ERM(), seed=5).weights("last")), trajectory
    )


def test_frozen_parameters_are_not_copied_or_saved(tmp_path: Path) -> None:
    base = run(ERM(), epochs=3.0, validate_every=2).weights("best-id")
    trajectory = run(LossWeightedOnBase(), base=base, checkpoint=tmp_path / "run")
    assert not [
        key
        for snapshot in trajectory.snapshots.values()
        for key in snapshot
        if key.startswith("module/base/")
    ]
    from crosswind.training.checkpoint import load

    tensors, _ = load(tmp_path / "run") or ({}, {})
    assert tensors and not [key for key in tensors if "module/base/" in key]
    _same(trajectory, run(LossWeightedOnBase(), base=base, checkpoint=tmp_path / "run"))


@dataclass(frozen=True)
class Memory(UnregisteredERM):
    """A running loss for every row (as PnD, BPA)."""

    def state(self, info: Any) -> State:
        return {"loss": torch.zeros(info.n_rows), "seen": torch.zeros(info.n_rows)}

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        each = row_losses(modules["model"](batch.x), batch.y)
        visits = state["seen"].index_add(0, batch.ids, torch.ones(len(batch.ids)))
        return Loss(
            each.mean(),
            state={"loss": state["loss"].index_copy(0, batch.ids, each), "seen": visits},
        )


def test_state_is_kept_with_every_selected_model() -> None:
    trajectory = run(Memory(), steps=15)
    assert (
        trajectory.weights("last")["state/seen"].tolist() == [4.0] * 60
    )  # 15 x 16 = 240 = four epochs of 60
    early = run(Memory(), steps=4).weights("last")["state/seen"]
    assert early.sum() == 64 and not trajectory.weights("last")["state/loss"].requires_grad


@dataclass(frozen=True)
class Adapting(UnregisteredERM):
    """Predicts the class by comparison with the mean brightness of the rows that share a value
    (transductive, as BN-Adapt)."""

    attribute: str | None = "tint"
    needs = Needs(adapts="attribute")

    def adapt(self, modules: Modules, state: State, data: Any) -> tuple[Modules, State]:
        assert not hasattr(data, "y") and not hasattr(data, "label") and not hasattr(data, "group")
        means = torch.cat([x.mean((1, 2, 3)) for x in data.batches()])
        assert len(means) == data.n
        HANDED.append((data.attribute, data.value, data.n))
        modules["model"].fc.weight.mul_(0)  # a copy: must not be seen outside
        return modules, {"mean": means.mean()}

    def predict(self, modules: Modules, x: torch.Tensor, state: State) -> Output:
        brighter = x.mean((1, 2, 3)) > state.get("mean", torch.tensor(9.0))
        return Output(label=brighter.long())


HANDED: list[Any] = []


def test_adapt_gets_unlabelled_rows_of_each_value() -> None:
    HANDED.clear()
    trajectory = run(Adapting())
    n = int((DATA.table.column("tint")[150:195] == 0).sum())
    assert HANDED[:2] == [("tint", "red", n), ("tint", "blue", 45 - n)]
    assert len(HANDED) == 2 * len({selection.step for selection in trajectory.selections.values()})
    predictions = trajectory.predictions["last"]["test"]
    assert predictions.ids.tolist() == list(range(150, 195))  # back in the order of the rows
    assert np.mean(predictions.answer == predictions.label) > 0.9
    assert set(trajectory.predictions["last"]["validation"].answer) == {
        0
    }  # validation is not adapted to
    assert trajectory.weights("last")["model.fc.weight"].abs().sum() > 0
    HANDED.clear()
    run(Adapting(attribute=None), steps=4)
    assert HANDED == [(None, None, 45)]


def test_stage_without_validation_hands_on_silently() -> None:
    @dataclass(frozen=True)
    class Encoder(UnregisteredERM):
        end: str = "last"

        def stage(self, index: int, context: RunContext) -> Stage | None:
            return [Stage("encode", steps=5, validate=False, end=self.end), Stage(steps=4), None][
                index
            ]

    trajectory = run(Encoder())
    assert [(row["stage"], set(row["validation"])) for row in trajectory.history] == [
        ("encode", set()),
        ("encode", set()),
        ("main", {"validation", "ood-validation"}),
    ]
    with pytest.raises(RunError, match="stage 'encode' ends with its best weights"):
        run(Encoder(end="best"))


# -- rules by other scores -------------------------------------------------------------------------


def mislabelled() -> Sets:
    """The world with every third row of the validation sets in another class, unevenly over groups,
    so that scores differ."""
    sets = split()
    wrong = {}
    for name, rows in sets.validation.items():
        turned = (np.arange(len(rows.rows)) % 3 == 0) & (rows.group % 2 == 0)
        wrong[name] = replace(rows, label=np.where(turned & (rows.label == 0), 1, rows.label))
    return replace(sets, validation=wrong)


def test_every_score_picks_the_step_where_the_metrics_of_the_set_are_highest() -> None:
    """The step that a rule takes has the highest of its score among all validations, as the scores
    of a set compute it."""
    from crosswind.evaluation.metrics import scores

    rules_wanted = ("best-id-worst-group", "best-id-balanced-accuracy", "best-ood-worst-group")
    settings = {"steps": 30, "validate_every": 3, "patience": None, "lr": 1e-3}
    sets = mislabelled()
    trajectory = run(ERM(), sets, rules=rules_wanted, **settings)
    assert list(trajectory.selections) == [
        "best-id",
        *rules_wanted[:2],
        "best-ood",
        rules_wanted[2],
        "last",
    ]
    ends = [
        run(ERM(), sets, **{**settings, "steps": step}).predictions["last"]
        for step in range(3, 31, 3)
    ]
    for rule, (name, score) in {
        rule: RULES[rule] for rule in trajectory.selections if rule != "last"
    }.items():
        rows = sets.validation[name]
        sentence = [scores(end[name], rows.group_names, sets.class_names) for end in ends]
        assert len({score_entry["worst_group"] for score_entry in sentence}) > 2 and any(
            score_entry["worst_group"] < score_entry["accuracy"] for score_entry in sentence
        )
        first = min(
            range(10),
            key=lambda position: (-sentence[position][score], sentence[position]["nll"], position),
        )
        assert trajectory.selections[rule].step == 3 * (first + 1), rule
        assert getattr(trajectory.selections[rule].scores[name], score) == sentence[first][score]
        assert trajectory.selections[rule].ties == sum(
            score_entry[score] == sentence[first][score] for score_entry in sentence
        )


def test_only_the_rules_asked_for_are_followed() -> None:
    assert set(run(ERM()).predictions) == {"best-id", "best-ood", "last"}
    with pytest.raises(
        InputError,
        match="rules: best-target-worst-group reads a set 'target-validation' of role validation",
    ):
        run(ERM(), rules=("best-target-worst-group",))
    with pytest.raises(
        InputError, match="rules: unknown selection rule 'best-id-wurst', did you mean"
    ):
        run(ERM(), rules=("best-id-wurst",))


def test_a_rule_by_groups_where_there_is_one_says_that_it_chose_by_accuracy() -> None:
    sets = split()
    rows = sets.validation["validation"]
    one_group = replace(
        sets, validation={"validation": replace(rows, group=np.zeros_like(rows.group))}
    )
    trajectory = run(
        ERM(),
        one_group,
        rules=("best-id-worst-group", "best-id-balanced-accuracy"),
        steps=24,
        lr=3e-3,
    )
    assert (
        trajectory.selections["best-id-worst-group"].step == trajectory.selections["best-id"].step
    )
    sentence = [
        "best-id-worst-group found no second group in the set validation, so it chose by accuracy"
    ]
    assert trajectory.doubts == {
        "best-id": [],
        "best-id-worst-group": sentence,
        "best-id-balanced-accuracy": [],
        "last": [],
    }


def test_checkpoints_are_written_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from crosswind.training import run as module

    path, now, written = tmp_path / "run", [0.0], []
    monkeypatch.setattr(
        module, "time", SimpleNamespace(monotonic=lambda: now[0], perf_counter=time.perf_counter)
    )
    monkeypatch.setattr(module.Run, "_write", lambda self, path: written.append(now[0]))

    def wait(event: dict[str, Any]) -> None:
        now[0] += 20

    run(
        ERM(), checkpoint=path, checkpoint_seconds=30, progress=wait, steps=40
    )  # ten validations, 20 s apart
    assert written == [40, 80, 120, 160, 200], "the last when training is over"
    written.clear()
    run(ERM(), checkpoint=path, checkpoint_seconds=30)
    assert written == [], "a run that is over sooner writes none"
