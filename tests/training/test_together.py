from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import DATA, Sets, rows_of, split, with_train

from crosswind.core.errors import CrosswindError, DataError, InputError, NeedsError
from crosswind.core.knobs import Limit, Needs, knob
from crosswind.core.registry import listing, load
from crosswind.methods.base import Batch, Loss, Method, Modules, State
from crosswind.methods.deepcoral import DeepCORAL
from crosswind.methods.erm import ERM
from crosswind.methods.functional import row_losses
from crosswind.methods.groupdro import GroupDRO
from crosswind.training.loop import Trajectory, fit
from crosswind.training.settings import ModelSpec, TrainingSettings
from crosswind.training.side_by_side import OwnRows, SharedRows, feed_of
from crosswind.training.together import fit_together, why_not_together

MLP = ModelSpec("mlp", {"hidden": 16, "layers": 2})
IMAGES = {"tiny": DATA}


@dataclass(frozen=True)
class Toy(Method):
    """ERM that is not registered: the parent of the toys."""

    registered_name = "toy"
    limit = Limit.none("a toy")


@dataclass(frozen=True)
class Switching(Toy):
    """Changes at a step."""

    at: int = knob(6)
    needs = Needs(switches=("at",))


def settings(**values: Any) -> TrainingSettings:
    return TrainingSettings.of(
        {"steps": 12, "batch": 16, "validate_every": 4, "evaluation_batch": 32, "precision": "fp64", **values}
    )


def both(
    method: Method, runs: list[tuple[Sets, int]], model: ModelSpec = MLP, **values: Any
) -> list[tuple[Trajectory, Trajectory]]:
    chosen = settings(**values)
    found = fit_together(method, runs, IMAGES, model, chosen)  # type: ignore[arg-type]
    alone = [fit(method, sets, IMAGES, model, chosen, seed) for sets, seed in runs]  # type: ignore[arg-type]
    return list(zip(found, alone, strict=True))


def check_equal(one: Trajectory, alone: Trajectory, tolerance: float = 1e-4) -> None:
    """Every field of a trajectory but the seconds."""
    assert (one.status, one.doubts) == (alone.status, alone.doubts)
    assert one.cost.keys() == alone.cost.keys()
    assert (one.cost["steps"], one.cost["images"]) == (alone.cost["steps"], alone.cost["images"])
    assert len(one.history) == len(alone.history)
    for mine, theirs in zip(one.history, alone.history, strict=True):
        assert mine.keys() == theirs.keys()
        assert (mine["stage"], mine["step"]) == (theirs["stage"], theirs["step"])
        assert mine["train"] == pytest.approx(theirs["train"], abs=tolerance, nan_ok=True)
        for name, scores in theirs["validation"].items():
            assert mine["validation"][name] == pytest.approx(scores, abs=tolerance, nan_ok=True)
    assert {rule: (item.step, item.ties) for rule, item in one.selections.items()} == {
        rule: (item.step, item.ties) for rule, item in alone.selections.items()
    }
    for rule, sets in alone.predictions.items():
        for name, theirs in sets.items():
            said = one.predictions[rule][name]
            for key in ("ids", "label", "group", "answer"):
                assert np.array_equal(getattr(said, key), getattr(theirs, key)), (rule, name, key)
            assert said.logits is not None and theirs.logits is not None and said.logits.dtype == theirs.logits.dtype
            assert np.allclose(said.logits, theirs.logits, atol=tolerance, equal_nan=True)
        mine, own = one.weights(rule), alone.weights(rule)
        assert mine.keys() == own.keys()
        assert all(mine[key].dtype == own[key].dtype and mine[key].shape == own[key].shape for key in own)
        assert all(torch.allclose(mine[key], own[key], atol=tolerance, equal_nan=True) for key in own)


# -- equal to runs alone ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
@pytest.mark.parametrize(
    "optimiser", [{}, {"optimiser": "sgd", "momentum": 0.9, "lr": 0.05}, {"optimiser": "adamw", "weight_decay": 0.1}]
)
def test_runs_that_stop_at_different_steps_are_those_alone(precision: str, optimiser: dict[str, Any]) -> None:
    runs = [(split(60), seed) for seed in range(6)]
    pairs = both(ERM(), runs, precision=precision, steps=60, patience=3, **optimiser)
    for one, alone in pairs:
        check_equal(one, alone)
    assert len({one.history[-1]["step"] for one, _ in pairs}) > 2


@pytest.mark.parametrize("name", [item.name for item in listing("methods") if item.module.startswith("crosswind.")])
def test_every_registered_method_is_refused_or_gives_what_it_gives_alone(name: str) -> None:
    cls = load("methods", name)
    method = cls(**dict.fromkeys(cls.needs.switches, 2))
    runs = [(split(60), seed) for seed in range(4)]
    if why_not_together(method, settings()) is not None:
        with pytest.raises(NeedsError, match=f"method '{name}' is not trained as one"):
            fit_together(method, runs, IMAGES, MLP, settings())  # type: ignore[arg-type]
        return
    for one, alone in both(method, runs, steps=24, patience=3):
        check_equal(one, alone, 1e-10)


def test_some_methods_are_trained_as_one() -> None:
    """Lest the test above says nothing."""
    taken = {item.name for item in listing("methods") if why_not_together(load("methods", item.name)(), settings()) is None}
    assert {"erm", "groupdro", "deepcoral", "imagenet"} <= taken


@pytest.mark.parametrize("method", [ERM(), GroupDRO()])
def test_networks_that_are_no_chain(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crosswind.training.stacked._chain_of", lambda network: None)
    for one, alone in both(method, [(split(40), seed) for seed in range(3)]):
        check_equal(one, alone, 1e-10)


def test_runs_of_other_rows_and_lengths() -> None:
    """Training sets of different sizes, two epochs each, so that runs end between validations; other validation rows."""
    runs = []
    for seed in range(4):
        sets = split(40 + 10 * seed)
        moved = rows_of(DATA, np.arange(90 + seed, 120 - 2 * seed))
        runs.append((replace(sets, validation={**sets.validation, "validation": moved}), seed))
    pairs = both(ERM(), runs, steps=100, epochs=2.0, validate_every=3, evaluation_batch=8)
    for one, alone in pairs:
        check_equal(one, alone, 1e-10)
    assert [one.history[-1]["step"] for one, _ in pairs] == [5, 7, 8, 9]


def test_weighted_rows_are_drawn_alike() -> None:
    weight = np.random.default_rng(0).random(60)
    runs = [(with_train(split(60), weight=weight / weight.sum()), seed) for seed in range(3)]
    for method in (ERM(), GroupDRO()):
        for one, alone in both(method, runs):
            check_equal(one, alone, 1e-10)


def test_no_step_at_all() -> None:
    for one, alone in both(ERM(), [(split(), 0), (split(), 1)], steps=0):
        check_equal(one, alone, 1e-10)
        assert one.history[0]["train"] == {}


def test_a_run_that_diverges_leaves_the_others_alone() -> None:
    """Its loss is not a number where the batch shows group 3, which one run's rows never have."""

    @dataclass(frozen=True)
    class Breaking(Toy):
        def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
            loss = row_losses(modules["model"](batch.x), batch.y).mean()
            return Loss(loss * torch.where((batch.group == 3).any(), torch.nan, 1.0))

    spared = rows_of(DATA, np.flatnonzero(np.arange(80) % 4 != 3))
    broken = split(60)
    assert len(spared.rows) == len(broken.train.rows)
    runs = [(broken, 0), (replace(broken, train=spared), 1), (broken, 2)]
    pairs = both(Breaking(), runs)
    for one, alone in pairs:
        check_equal(one, alone, 1e-10)
    assert [one.status for one, _ in pairs] == ["diverged", "finished", "diverged"]


def test_order_and_company_change_nothing() -> None:
    runs = [(split(60), seed) for seed in range(5)]
    chosen = settings(steps=40, patience=2)
    whole = fit_together(ERM(), runs, IMAGES, MLP, chosen)  # type: ignore[arg-type]
    some = fit_together(ERM(), [runs[4], runs[1]], IMAGES, MLP, chosen)  # type: ignore[arg-type]
    check_equal(some[0], whole[4], 1e-12)
    check_equal(some[1], whole[1], 1e-12)


@pytest.mark.parametrize("held", ["floats", "bytes"])
@pytest.mark.parametrize("method", [GroupDRO(), DeepCORAL()])
def test_shared_pictures_give_the_batches_of_rows_of_their_own(method: Method, held: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if held == "bytes":
        monkeypatch.setattr("crosswind.training.side_by_side._FLOATS", 0)
    monkeypatch.setattr("crosswind.training.side_by_side._AHEAD", 3)
    runs = [(split(40 + 4 * seed), seed) for seed in range(3)]
    method = method if isinstance(method, GroupDRO) else ERM()
    shared = feed_of(method, runs, IMAGES, settings(), labels_only=False)  # type: ignore[arg-type]
    own = OwnRows(method, runs, IMAGES, settings())  # type: ignore[arg-type]
    assert isinstance(shared, SharedRows)
    for step in range(8):
        if step == 4:
            shared.keep([2, 0])
            own.keep([2, 0])
        one, two = shared.batch(step, 8), own.batch(step, 8)
        for key, value in vars(two).items():
            mine = getattr(one, key)
            assert torch.equal(mine, value) if isinstance(value, torch.Tensor) else mine == value, key


# -- what is refused ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawing(Toy):
    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        return Loss(row_losses(modules["model"](batch.x + torch.randn_like(batch.x)), batch.y).mean())


@dataclass(frozen=True)
class Judging(Toy):
    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        loss = row_losses(modules["model"](batch.x), batch.y).mean()
        return Loss(loss if loss > 0 else -loss)


@pytest.mark.parametrize(
    ("method", "model", "changes", "error", "words"),
    [
        (load("methods", "jtt")(), MLP, {}, NeedsError, "method 'jtt' is not trained as one: it has a 'stage' of its own"),
        (load("methods", "dann")(), MLP, {}, NeedsError, "has a 'modules' of its own"),
        (Drawing(), MLP, {}, NeedsError, "method 'toy' is not trained as one: torch cannot vectorise its loss .*random"),
        (Judging(), MLP, {}, NeedsError, "torch cannot vectorise its loss"),
        (ERM(), ModelSpec("small-cnn"), {}, NeedsError, "batch norm are not trained as one: block1.1 is a BatchNorm2d"),
        (ERM(), MLP, {"precision": "bf16"}, InputError, r"training.precision: .*valid: fp32, fp64"),
    ],
)
def test_what_is_not_trained_as_one(
    method: Method, model: ModelSpec, changes: dict[str, Any], error: type[CrosswindError], words: str
) -> None:
    runs = [(split(), 0), (split(), 1)]
    with pytest.raises(error, match=words):
        fit_together(method, runs, IMAGES, model, settings(**changes))  # type: ignore[arg-type]


def test_runs_that_are_too_different() -> None:
    def tried(method: Method, *sets: Sets) -> None:
        fit_together(method, [(one, 0) for one in sets], IMAGES, MLP, settings())  # type: ignore[arg-type]

    with pytest.raises(InputError, match="runs: there is none"):
        tried(ERM())
    with pytest.raises(NeedsError, match="only with as many training rows each: there are 60 and 40"):
        tried(GroupDRO(), split(60), split(40))
    with pytest.raises(InputError, match="sets of the same names"):
        tried(ERM(), split(), replace(split(), evaluation={}))
    with pytest.raises(DataError, match="as many classes"):
        tried(ERM(), split(), replace(split(), class_names=("a", "b", "c")))
    with pytest.raises(DataError, match="every training row has weight 0"):
        tried(ERM(), with_train(split(), weight=np.zeros(60)))


def test_rules_by_other_scores_are_followed_in_a_stack_too() -> None:
    runs = [(split(40), seed) for seed in range(3)]
    rules = ("best-id-worst-group", "best-ood-balanced-accuracy")
    made = {"steps": 24, "validate_every": 3, "patience": None, "precision": "fp64"}
    together = fit_together(ERM(), runs, IMAGES, MLP, settings(**made), rules)  # type: ignore[arg-type]
    for (sets, seed), one in zip(runs, together, strict=True):
        alone = fit(ERM(), sets, IMAGES, MLP, settings(**made), seed, rules=rules)  # type: ignore[arg-type]
        assert set(rules) < set(one.selections)
        check_equal(one, alone, 1e-9)


def test_a_switch_counts_in_a_stack_as_it_does_alone() -> None:
    found = fit_together(
        Switching(at=6),
        [(split(40), seed) for seed in range(2)],  # type: ignore[arg-type]
        IMAGES,
        MLP,
        settings(steps=12, validate_every=1, patience=2, lr=1e-30),
    )
    for one in found:
        assert (one.selections["best-id"].step, one.history[-1]["step"]) == (7, 9)
