"""A run says how much of it was its method's own, moves nothing by looking, and doubts itself where
it was next to nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contract.test_methods import FACTS, NAMES, cls_of, made, tried
from tests.training.world import DATA, run, same_weights, split

from crosswind.core.actions import IDLE_SHARE, STILL, Action, action_of
from crosswind.core.knobs import Limit, Needs, knob
from crosswind.methods.base import Batch, Loss, Method, Modules, OptimiserSpec, RunContext, State
from crosswind.methods.deepcoral import DeepCORAL
from crosswind.methods.erm import ERM
from crosswind.methods.functional import row_losses
from crosswind.methods.groupdro import GroupDRO
from crosswind.methods.irm import IRM
from crosswind.methods.randaugment import RandAugmentTraining
from crosswind.training.action_numbers import number_doubts, numbers_of
from crosswind.training.own_action import OwnAction, declared_action, look_steps

TERM_METHODS = [name for name in NAMES if declared_action(cls_of(name)()).idle]


# -- every method states its measure ---------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_method_states_how_its_action_is_measured_or_why_it_is_not(name: str) -> None:
    action = declared_action(cls_of(name)())
    measured = bool(action.idle) or action.views or bool(action.tells)
    assert measured or (action.reason and action.reason != "its class declares no `action`")
    assert not (measured and action.reason)
    method_facts = next(known_method for known_method in FACTS if known_method.name == name)
    assert (
        action_of(name, method_facts.action, method_facts.limit, method_facts.defines) == action
    ), "read from the file as from the class"


def test_most_methods_are_measured_and_the_others_say_why() -> None:
    unmeasured = {name for name in NAMES if declared_action(cls_of(name)()).reason}
    assert len(NAMES) >= 27
    assert unmeasured == {"erm", "lora", "wise-ft", "bn-adapt"}


def test_a_method_of_another_package_without_a_declaration_says_so() -> None:
    assert action_of("", None, None, ["loss"]).reason == "its class declares no `action`"
    assert action_of("", None, Limit({"weight": 0.0}), ["loss"]) == Action(
        idle={"weight": 0.0}, anew=True
    )
    assert action_of("", None, Limit({"weight": 0.0}), ["stage"]).reason
    assert action_of("", None, Limit({"count": 0}), ["views"]) == Action(views=True)


# -- the doubt -------------------------------------------------------------------------------------

NEARLY_IDLE = [
    ("beta-vae", {"beta": 1e-9}),
    ("bpa", {"momentum": 1e-6}),
    ("causirl-coral", {"weight": 1e-7}),
    ("causirl-mmd", {"weight": 1e-7}),
    ("cos", {"weight": 1e-7}),
    ("dann", {"weight": 1e-7}),
    ("deepcoral", {"weight": 1e-7}),
    ("groupdro", {"eta": 1e-7}),
    ("irm", {"penalty_weight": 1e-7, "anneal_steps": 0}),
    ("mixup", {"alpha": 1e-9}),
    ("mmd", {"weight": 1e-7}),
    ("mmd-align", {"weight": 1e-7}),
    ("pnd", {"beta": 1e-9}),
    ("ubnet", {"weight": 1e-7}),
    ("vicreg", {"weight": 1e-9}),
]


@pytest.mark.parametrize(("name", "knobs"), NEARLY_IDLE)
def test_a_run_whose_own_term_is_next_to_nothing_says_so(name: str, knobs: dict[str, Any]) -> None:
    trajectory = tried(name, made(name, **knobs), steps=6)
    (sentence,) = [
        text
        for text in trajectory.doubts["last"]
        if "its own term stayed below 1% of the loss and of the gradient" in text
    ]
    assert (
        sentence.startswith(f"{name}: its own term")
        and trajectory.doubts["best-id"] == trajectory.doubts["last"]
    )
    assert (
        0 <= trajectory.action["share_of_loss"] < IDLE_SHARE
        and 0 <= trajectory.action["share_of_gradient"] < IDLE_SHARE
    )
    assert trajectory.action["looks"] >= 2


@pytest.mark.parametrize("name", [name for name in TERM_METHODS if name != "ubnet"])
def test_a_run_at_the_defaults_does_something_and_does_not_doubt_that(name: str) -> None:
    trajectory = tried(name)
    assert (
        max(trajectory.action["share_of_loss"], trajectory.action["share_of_gradient"])
        >= IDLE_SHARE
    )
    assert not any("own term" in text for text in trajectory.warnings)


@pytest.mark.parametrize(
    "name", [name for name in TERM_METHODS if name not in ("l2d", "occamnets", "sagnet")]
)
def test_where_the_term_is_gone_a_run_says_so(name: str) -> None:
    """At its limit by the name of what it is there, else by its shares; l2d and occamnets differ in
    their networks alone."""
    trajectory = tried(name, made(name, **declared_action(cls_of(name)()).idle), steps=4)
    assert (
        trajectory.doubts["last"]
        and trajectory.action["share_of_loss"] == 0
        and trajectory.action["share_of_gradient"] == 0
    )


def test_the_sentence_is_not_said_beside_one_that_knows_why() -> None:
    (sentence,) = tried("deepcoral", made("deepcoral", weight=0.0)).doubts["last"]
    assert sentence == "deepcoral is erm at weight = 0.0"


def test_an_augmentation_that_moves_nothing_is_doubted_and_the_distance_is_told() -> None:
    plain = run(ERM())
    assert plain.action == {} and plain.warnings == []
    shown = run(RandAugmentTraining())
    assert shown.action["moved_grey_levels"] > STILL and shown.warnings == []
    still = run(RandAugmentTraining(count=1, magnitude=0, operations="brightness"))
    assert still.action["moved_grey_levels"] < STILL and len(still.warnings) == 1


@pytest.mark.parametrize(("rate", "idle"), [(20.0, False), (0.5, True)])
@pytest.mark.parametrize("name", ["ada", "me-ada"])
def test_how_far_copies_were_moved_is_told(name: str, rate: float, idle: bool) -> None:
    trajectory = tried(name, made(name, rate=rate))
    assert (trajectory.action["moved_grey_levels"] < STILL) == idle
    assert any("moved pictures by" in text for text in trajectory.warnings) == idle


def test_copies_of_l2d_that_are_the_pictures_are_doubted() -> None:
    trajectory = tried("l2d", made("l2d", mix=0.0))
    assert (
        trajectory.action["moved_grey_levels"] == 0
        and "they are the pictures again" in trajectory.warnings[0]
    )
    assert tried("l2d").action["moved_grey_levels"] > STILL


def test_rows_that_hardly_stand_again_are_doubted() -> None:
    trajectory = tried("jtt")
    wrong = int(trajectory.weights("last")["state/wrong"].sum())
    assert trajectory.action["repeated_share"] == pytest.approx(19 * wrong / (60 + 19 * wrong))
    few = {"wrong": torch.arange(1000) < 3, "answered": torch.tensor(True)}
    sentence = [number_doubts(numbers_of(cls_of("jtt")(up=up), few), said=False) for up in (2, 20)]
    assert "nearly plain training" in sentence[0][0] and sentence[1] == []


def test_translations_of_another_class_are_doubted() -> None:
    for translated, doubted in ((0.2, True), (0.44, True), (0.46, False)):
        state = {"quality": torch.tensor([0.9, 0.8, 0.9, translated])}
        numbers = numbers_of(made("cyclegan"), state)
        assert numbers["taken_for_class"] == pytest.approx(translated) and numbers[
            "taken_for_environment"
        ] == pytest.approx(0.8)
        assert bool(number_doubts(numbers, said=False)) == doubted
    assert numbers_of(made("cyclegan"), {"quality": torch.full((4,), -1.0)}) == {}


# -- what is measured ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pulled(Method):
    """ERM and `weight` times the sum of the squares of the classifier's parameters."""

    weight: float = knob(0.1, domain="[0, inf)", source="a test", doc="weight")
    registered_name = "pulled"
    needs = Needs()
    limit = Limit({"weight": 0.0}, equals="erm")

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        plain = row_losses(modules["model"](batch.x), batch.y).mean()
        squares = torch.stack([p.square().sum() for p in modules["model"].parameters()]).sum()
        return Loss(plain + self.weight * squares)


def test_shares_are_those_of_losses_and_gradients_taken_by_hand() -> None:
    shares_seen: dict[str, Any] = {}

    @dataclass(frozen=True)
    class WatchedPull(Pulled):
        def update(self, context: RunContext, batch: Batch) -> Loss:
            if (
                batch.step == 2
                and "loss" not in shares_seen
                and isinstance(context.modules, dict)
                and hasattr(context, "build")
            ):
                parameters = list(context.modules["model"].parameters())
                losses = [
                    replace(self, weight=weight).loss(context.modules, batch, {}).total
                    for weight in (self.weight, 0.0)
                ]
                slopes = [
                    torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])
                    for loss in losses
                ]
                shares_seen["loss"] = float(((losses[0] - losses[1]) / losses[0]).detach())
                shares_seen["gradient"] = float(
                    (slopes[0] - slopes[1]).norm() / max(slopes[0].norm(), slopes[1].norm())
                )
            return super().update(context, batch)

    trajectory = run(WatchedPull(), steps=5, validate_every=3)
    assert trajectory.action["looks"] == 1  # one look was enough
    assert trajectory.action["share_of_loss"] == pytest.approx(shares_seen["loss"], rel=1e-5)
    assert trajectory.action["share_of_gradient"] == pytest.approx(
        shares_seen["gradient"], rel=1e-5
    )


@dataclass(frozen=True)
class Apart(Pulled):
    """The pull has an optimiser of its own."""

    registered_name = "apart"

    def optimisers(self, info: Any, modules: Modules, stage: str) -> dict[str, OptimiserSpec]:
        parameters = list(modules["model"].parameters())
        return {"main": OptimiserSpec(parameters), "pull": OptimiserSpec(parameters)}

    def update(self, context: RunContext, batch: Batch) -> Loss:
        model = context.modules["model"]
        trajectory = context.descend(
            "main", lambda: Loss(row_losses(model(batch.x), batch.y).mean())
        )
        context.descend(
            "pull",
            lambda: Loss(
                self.weight * torch.stack([p.square().sum() for p in model.parameters()]).sum()
            ),
        )
        return trajectory


def test_a_term_with_an_optimiser_of_its_own_counts_whatever_its_weight() -> None:
    assert (
        run(Apart(weight=1e-9)).action["share_of_gradient"] > 0.5
    )  # an adaptive optimiser takes whole steps
    assert "apart is erm at weight = 0.0" in run(Apart(weight=0.0)).warnings


def test_weights_that_groups_have_gathered_are_the_methods_own() -> None:
    """eta multiplies in every step, so that what the state holds and not the step itself is the
    action."""
    trajectory = run(GroupDRO(eta=0.003), steps=80, validate_every=40)
    assert trajectory.action["share_of_gradient"] >= IDLE_SHARE and trajectory.action["looks"] >= 1


def test_a_term_that_begins_after_a_switch_is_seen() -> None:
    trajectory = run(IRM(penalty_weight=1e5, anneal_steps=11), steps=12, batch=16)
    assert (
        max(trajectory.action["share_of_loss"], trajectory.action["share_of_gradient"])
        >= IDLE_SHARE
        and not trajectory.doubts["last"]
    )


# -- nothing is moved ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        *((name, "fp32") for name in ("sagnet", "mixup", "dann", "occamnets", "groupdro", "l2d")),
        ("mixup", "bf16"),
        ("irm", "fp64"),
    ],
)
def test_a_run_with_looks_has_the_bits_of_one_without(
    name: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_given: dict[str, Any] = {"steps": 6, "precision": precision, "model": "small-cnn"}
    monkeypatch.setattr(OwnAction, "settled", False)  # look as often as ever
    drawn = torch.default_generator.get_state()
    looked = tried(name, **settings_given)
    assert looked.action["looks"] >= 2 and torch.equal(drawn, torch.default_generator.get_state())
    monkeypatch.setattr(OwnAction, "due", lambda self, step: False)
    without = tried(name, **settings_given)
    assert without.action.keys().isdisjoint({"looks", "share_of_loss"})
    assert (
        same_weights(looked, without)
        and looked.history[-1]["train"] == without.history[-1]["train"]
    )
    assert np.array_equal(
        looked.predictions["last"]["test"].logits, without.predictions["last"]["test"].logits
    )


def test_a_stopped_run_tells_what_it_looked_at_before(tmp_path: Path) -> None:
    class StopHere(Exception):
        pass

    def stop(event: dict[str, Any]) -> None:
        raise StopHere

    method = DeepCORAL(weight=1e-7)
    uninterrupted = run(method)
    for _ in range(3):
        with pytest.raises(StopHere):
            run(method, checkpoint=tmp_path / "run", progress=stop)
    trajectory = run(method, checkpoint=tmp_path / "run", progress=stop)
    assert trajectory.doubts == uninterrupted.doubts and trajectory.doubts["last"]
    assert trajectory.action == uninterrupted.action


# -- what it costs ---------------------------------------------------------------------------------


def test_looks_are_few_and_the_first_comes_before_the_first_validation() -> None:
    assert look_steps(0, 100) == []
    assert look_steps(1, 100) == [0]
    assert look_steps(12, 4) == [3, 6, 11] and look_steps(12, 4, (2, 12)) == [2, 3, 6, 11]
    for length in (200, 1000, 5000, 10_000, 100_000):
        steps = look_steps(length, 100)
        assert steps[0] == 99 and steps[-1] == length - 1
        assert len(steps) <= max(3, min(9, length / 200 + 1))
    # Two gradients a look: under a hundredth of a run of 2,000 steps that does nothing, and of one
    # of 200 that does something.
    assert 2 * len(look_steps(2000, 100)) / 2000 < 0.01 and 2 / 200 <= 0.01


def test_one_look_is_enough_for_a_method_that_acts() -> None:
    assert run(DeepCORAL(), steps=40, validate_every=10).action["looks"] == 1
    assert run(DeepCORAL(weight=1e-7), steps=40, validate_every=10).action["looks"] == 3
    assert DATA and split()
