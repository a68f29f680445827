"""What every registered method must hold, whoever wrote it.

A method that cannot be tested on the tiny world's perceptron says in `SETTINGS` on what it is.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tests.training.world import GROUPS, QUICK, Sets, run, same_weights, split, with_train

from crosswind.core.errors import InputError, NeedsError
from crosswind.core.knobs import Limit, Needs, knobs_of
from crosswind.core.registry import listing, load
from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info, Loss, Method, Modules, Pair, Partners, State
from crosswind.methods.erm import ERM
from crosswind.models.build import build_model, unnamed

FACTS = [item for item in listing("methods") if item.module.startswith("crosswind.")]
NAMES = [item.name for item in FACTS]
LIMITED = [item.name for item in FACTS if item.limit is not None and item.limit.equals]
# name -> what `world.run` is called with, where the perceptron or twelve steps do not serve; the
# reason beside it
SETTINGS: dict[str, dict[str, Any]] = {
    "bn-adapt": {"model": "small-cnn"},  # with batch norm, which it adapts
    "lora": {"model": "mlp"},  # with linear layers, which it adapts
    "occamnets": {"model": "small-cnn"},  # with maps, which it reads
    "pnd": {"model": "small-cnn"},  # with maps, which it reads
    "sagnet": {"model": "small-cnn"},  # with batch norm, which its adversary moves
    "ubnet": {"model": "small-cnn"},  # with maps, which it reads
    "irm": {
        "batch": 15
    },  # 8 rows of one environment and 7 of the other: the mean of their means is not the batch's mean
}


def cls_of(name: str) -> type[Method]:
    return load("methods", name)


def made(name: str, **knobs: Any) -> Method:
    """The method at its defaults, but for switches, which come at step 2 so that a short run passes
    them."""
    cls = cls_of(name)
    return cls(**{**QUICK.get(name, {}), **dict.fromkeys(cls.needs.switches, 2), **knobs})


def tried(name: str, method: Method | None = None, **changes: Any) -> Any:
    return run(made(name) if method is None else method, **{**SETTINGS.get(name, {}), **changes})


def info() -> Info:
    return Info(
        InputSpec.image(8, 8, 3),
        2,
        60,
        GROUPS,
        (15, 15, 15, 15),
        ("red", "blue"),
        (30, 30),
        (30, 30),
        12,
        16,
    )


def synthetic() -> Batch:
    """Each row's partner is the row of its class in the other environment."""
    generator = torch.Generator().manual_seed(0)
    group = torch.arange(16) % 4
    x = torch.rand(16, 3, 8, 8, generator=generator, dtype=torch.float64) * 2 - 1
    partner = torch.arange(16) ^ 1
    return Batch(
        x,
        group // 2,
        torch.arange(16),
        group,
        group % 2,
        Pair(x[partner], partner, group[partner] % 2),
    )


def test_the_sweep_finds_the_methods() -> None:
    assert len(NAMES) >= 5 and {"erm", "groupdro", "irm", "deepcoral", "dann"} <= set(NAMES)
    assert (
        sum(not known.limit.equals for known in FACTS if known.limit) <= 9
    )  # lora: its base is frozen; wise-ft: its base is the best of a run


@pytest.mark.parametrize("name", NAMES)
def test_docstring_has_its_parts_in_order(name: str) -> None:
    doc = cls_of(name).__doc__ or ""
    titles = [
        "Objective:",
        "Assumes:",
        "Knobs:",
        "Limits:",
        "Deviations:",
        "Reference:",
        "title={",
        "Checked against:",
    ]
    positions = [doc.find(title) for title in titles]
    assert -1 not in positions and positions == sorted(positions), dict(
        zip(titles, positions, strict=True)
    )


@pytest.mark.parametrize("name", NAMES)
def test_builds_with_defaults(name: str) -> None:
    cls = cls_of(name)
    method = cls()
    assert dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert {knob.name for knob in dataclasses.fields(cls)} == {
        knob.name for knob in knobs_of(cls)
    }, "every field is a knob"
    assert method == cls()
    assert hash(method) == hash(cls())


@pytest.mark.parametrize("name", NAMES)
def test_no_setting_takes_the_place_of_a_hook(name: str) -> None:
    hooks = {key for key in vars(Method) if not key.startswith("_")}
    assert len(hooks) > 8 and not hooks & {knob.name for knob in knobs_of(cls_of(name))}


@pytest.mark.parametrize("name", NAMES)
def test_default_and_search_lie_in_the_domain(name: str) -> None:
    from crosswind.core.knobs import check

    for knob in knobs_of(cls_of(name)):
        grids = [value for values in (knob.grid or {}).values() for value in values]
        for value in [knob.default, *(knob.search.ends() if knob.search else ()), *grids]:
            assert check(knob, value, knob.name) == value


@pytest.mark.parametrize("name", NAMES)
def test_unmet_needs_are_refused(name: str) -> None:
    needs = cls_of(name).needs
    sets = split()
    zeros = np.zeros(len(sets.train.rows), dtype=np.int64)
    cases: list[Sets] = []
    if needs.groups:
        cases += [
            with_train(sets, group=zeros),
            with_train(sets, group=zeros, group_names=("all",)),
        ]
    if needs.environments:
        cases += [with_train(sets, environment=zeros), with_train(sets, environment=None)]
    for case in cases:
        with pytest.raises(NeedsError, match=f"method '{name}' needs"):
            tried(name, sets=case)


@pytest.mark.parametrize(
    "name", [declared.name for declared in FACTS if declared.needs and declared.needs.switches]
)
def test_switch_beyond_the_last_step_is_refused(name: str) -> None:
    cls = cls_of(name)
    for knob in cls.needs.switches:
        assert knob in {declared.name for declared in knobs_of(cls)}
        with pytest.raises(InputError, match=f"method.{knob}: the switch at step 12 lies beyond"):
            tried(name, made(name, **{knob: 12}))


def test_a_switch_is_a_step_or_a_share_of_the_run() -> None:
    needs = Needs(switches=("at", "then"))
    assert needs.switch_steps({"at": 40, "then": 0.25}, 80) == {"at": 40, "then": 20}
    assert needs.switch_steps({"at": 0, "then": None}, 80) == {"at": 0}
    assert needs.switch_steps({"at": 0.29, "then": 0.0}, 100) == {
        "at": 29,
        "then": 0,
    }  # 0.29 * 100 is a little below 29
    # A share never reaches the end of the run: a step is left after it.
    assert needs.switch_steps({"at": 0.99, "then": 0.5}, 10) == {"at": 9, "then": 5}
    assert needs.switch_steps({"at": 0.99, "then": 0.5}, 1) == {"at": 0, "then": 0}
    assert made("irm", anneal_steps=7).switch_steps(100) == (7,)
    assert made("erm").switch_steps(100) == ()


@pytest.mark.parametrize("name", NAMES)
def test_loss_and_gradient_are_finite_and_the_order_of_rows_does_not_matter(name: str) -> None:
    method, batch = cls_of(name)(), synthetic()
    model = SETTINGS.get(name, {}).get("model", "mlp")

    def make_model(**changes: Any) -> Any:
        return build_model(model, {}, InputSpec.image(8, 8, 3), unnamed(2), 0).double()

    losses = []
    for order in (torch.arange(16), torch.arange(16).flip(0)):
        torch.manual_seed(0)
        modules = {
            key: module.double() for key, module in method.modules(info(), make_model).items()
        }
        pair = Pair(*(value[order] for value in vars(batch.pair).values()))
        permuted_batch = Batch(
            *(getattr(batch, key)[order] for key in ("x", "y", "ids", "group", "environment")), pair
        )
        torch.manual_seed(0)
        loss = method.loss(modules, permuted_batch, method.state(info()))
        loss.total.backward()
        gradients = [
            p.grad for module in modules.values() for p in module.parameters() if p.grad is not None
        ]
        assert loss.total.ndim == 0 and torch.isfinite(loss.total)
        assert gradients and all(torch.isfinite(g).all() for g in gradients)
        assert sum(g.abs().sum() for g in gradients) > 0
        losses.append(loss.total.item())
    assert losses[0] == pytest.approx(losses[1], abs=1e-12)


@dataclass(frozen=True)
class GroupMean(Method):
    """The reference `erm-group-mean`: the mean over groups with training rows of each one's mean
    loss, by a plain loop."""

    registered_name = "erm-group-mean"
    limit = Limit.none("a reference")

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        logits = modules["model"](batch.x)
        total = logits.sum() * 0
        for code in range(4):
            rows = [i for i in range(len(batch.y)) if int(batch.group[i]) == code]
            if rows:
                total = total + torch.nn.functional.cross_entropy(logits[rows], batch.y[rows]) / 4
        return Loss(total)


@dataclass(frozen=True)
class EnvironmentMean(Method):
    """The reference `erm-environment-mean`: the mean over environments in the batch of each one's
    mean loss, by a plain loop."""

    registered_name = "erm-environment-mean"
    limit = Limit.none("a reference")

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        logits = modules["model"](batch.x)
        assert batch.environment is not None
        environment = batch.environment.tolist()
        risks = []
        for code in sorted(set(environment)):
            rows = [
                i for i, other_environment in enumerate(environment) if other_environment == code
            ]
            risks.append(torch.nn.functional.cross_entropy(logits[rows], batch.y[rows]))
        return Loss(torch.stack(risks).mean())


@dataclass(frozen=True)
class OfPairs(Method):
    """The reference `erm-of-pairs`: the mean loss of the rows and of their partners, in one
    pass."""

    registered_name = "erm-of-pairs"
    limit = Limit.none("a reference")
    base: ClassVar[Method]

    def partners(self, info: Info) -> Partners | None:
        return self.base.partners(info)

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        assert batch.pair is not None
        logits = modules["model"](torch.cat([batch.x, batch.pair.x]))
        rows = [
            torch.nn.functional.cross_entropy(logits[i : i + 1], batch.y[i % len(batch.y)].view(1))
            for i in range(len(logits))
        ]
        return Loss(torch.stack(rows).mean())


REFERENCES = {
    "erm-of-pairs": OfPairs,
    "erm": ERM,
    "erm-group-mean": GroupMean,
    "erm-environment-mean": EnvironmentMean,
}


def _reference(name: str) -> Method:
    declared = cls_of(name).limit.equals
    parent: Any = REFERENCES.get(declared) or cls_of(declared)
    # Its sampler and not the reference's own: the limit is of the loss, and both must see the same
    # batches.
    needs = replace(parent.needs, sampler=cls_of(name).needs.sampler)
    return type(
        "Reference", (parent,), {"needs": needs, "__doc__": "A reference.", "base": made(name)}
    )()


@pytest.mark.parametrize("name", LIMITED)
def test_at_its_limit_it_equals_what_it_names_and_at_defaults_it_differs(name: str) -> None:
    changes: dict[str, Any] = {"precision": "fp64", "steps": 12}
    at_limit = tried(name, made(name, **cls_of(name).limit.knobs), **changes)
    reference, defaults = tried(name, _reference(name), **changes), tried(name, **changes)
    names = [key for key in reference.weights("last") if key.startswith("model.")]

    def apart(trajectory: Any) -> float:
        differences = [
            float((trajectory.weights("last")[key] - reference.weights("last")[key]).abs().max())
            for key in names
        ]
        if cls_of(
            name
        ).needs.adapts:  # what it does to the weights is done for each test set, and thrown away
            left, right = (
                run.predictions["last"]["test"].logits for run in (trajectory, reference)
            )
            differences.append(float(np.abs(left - right).max()))
        return max(differences)

    assert len(names) > 1
    assert apart(at_limit) < 1e-10
    assert apart(defaults) > 1e-6


FEWER = {"cyclegan": 6}
"""Steps of methods whose published networks take most of a second a step."""
INTRICATE = [
    "ada",
    "beta-vae",
    "bpa",
    "cyclegan",
    "l2d",
    "lora",
    "me-ada",
    "occamnets",
    "pnd",
    "ubnet",
    "wise-ft",
]


@pytest.mark.parametrize("name", INTRICATE)
def test_30_steps_at_the_defaults_are_not_erm(name: str) -> None:
    """Every setting as it is declared; most of these have no limit, so the test above does not see
    them."""
    steps = FEWER.get(name, 30)
    trajectory, plain = (
        tried(name, method, steps=steps, validate_every=steps) for method in (cls_of(name)(), ERM())
    )
    assert {name for name in NAMES if cls_of(name).limit.equals is None} <= set(INTRICATE) | {"erm"}
    apart = np.abs(
        trajectory.predictions["last"]["test"].logits - plain.predictions["last"]["test"].logits
    )
    assert apart.max() > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_predict_changes_nothing(name: str) -> None:
    method = cls_of(name)()
    model = SETTINGS.get(name, {}).get(
        "model", "small-cnn"
    )  # with batch norm, where the method allows any

    def make_model(**changes: Any) -> Any:
        return build_model(model, {}, InputSpec.image(8, 8, 3), unnamed(2), 0)

    modules, state = method.modules(info(), make_model), method.state(info())
    before = {
        f"{key}.{tensor_name}": value.clone()
        for key, module in modules.items()
        for tensor_name, value in module.state_dict().items()
    }
    state_before = {key: value.clone() for key, value in state.items()}
    for module in modules.values():
        module.eval()
    with torch.inference_mode():
        first, two = (method.predict(modules, synthetic().x.float(), state) for _ in range(2))
    for module_name, module in modules.items():
        assert all(
            torch.equal(before[f"{module_name}.{tensor_name}"], value)
            for tensor_name, value in module.state_dict().items()
        )
    assert all(torch.equal(state_before[key], value) for key, value in state.items())
    assert (first.logits is None) == (two.logits is None) and (
        first.logits is None or torch.equal(first.logits, two.logits)
    )


@pytest.mark.parametrize("name", NAMES)
def test_saved_loaded_and_continued_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    class StopHere(Exception):
        pass

    def stop(event: dict[str, Any]) -> None:
        raise StopHere

    validations: list[Any] = []  # the base run's too, where there is one
    uninterrupted = tried(name, progress=validations.append)
    for _ in validations:
        with pytest.raises(StopHere):
            tried(name, checkpoint=tmp_path / "run", progress=stop)
    resumed = tried(name, checkpoint=tmp_path / "run", progress=stop)
    assert same_weights(uninterrupted, resumed) and same_weights(uninterrupted, resumed, "best-id")
    assert np.array_equal(
        uninterrupted.predictions["last"]["test"].logits, resumed.predictions["last"]["test"].logits
    )


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_bits_and_another_seed_others(name: str) -> None:
    assert same_weights(tried(name, steps=4), tried(name, steps=4))
    assert not same_weights(tried(name, steps=4), tried(name, steps=4, seed=1))


KNOBS = [
    (item.name, knob.name, value)
    for item in FACTS
    for knob in item.knobs
    if knob.search
    for value in knob.search.ends()
]


def test_the_sweep_finds_the_knobs() -> None:
    assert len(KNOBS) >= 8


@pytest.mark.parametrize(("name", "knob", "value"), KNOBS)
def test_both_ends_of_every_search_run(name: str, knob: str, value: Any) -> None:
    trajectory = tried(name, made(name, **{knob: value}), steps=4)
    assert trajectory.status == "finished"
    assert all(
        torch.isfinite(tensor).all()
        for key, tensor in trajectory.weights("last").items()
        if not key.startswith("state/")
    )


@pytest.mark.parametrize("name", NAMES)
def test_bf16_runs(name: str) -> None:
    assert tried(name, steps=4, precision="bf16").status == "finished"


# -- no run is another method in silence -----------------------------------------------------------


def _said(trajectory: Any) -> Any:
    return trajectory.predictions["last"]["test"].logits


def _settings(cls: type[Method]) -> list[dict[str, Any]]:
    """Where the method declares its limit, and each setting at each word of its domain, true and
    false, and its closed ends."""
    settings = [{name: values[0] for name, values in limit.items()} for limit in cls.limit.also]
    settings += [dict(cls.limit.knobs)] if cls.limit.knobs else []
    for knob in knobs_of(cls):
        ends = [knob.domain[1:].partition(",")[0]] if knob.domain.startswith("[") else []
        words = (
            [word.strip() for word in knob.domain.strip("{}").split(",")]
            if knob.domain.startswith("{")
            else []
        )
        is_whole = knob.annotation.startswith("int")
        values: list[Any] = (
            [True, False]
            if knob.annotation == "bool"
            else [*words, *(int(x) if is_whole else float(x) for x in ends)]
        )
        settings += [{knob.name: value} for value in values]
    return settings


@pytest.mark.parametrize("name", LIMITED)
def test_a_run_that_gives_what_its_limit_gives_doubts_itself(name: str) -> None:
    """At every setting, and in a run of one step: a method that did nothing never ends in a row
    that does not say so."""
    cls = cls_of(name)
    silent = []
    # A discriminator of one hidden unit may be dead from its start, whatever its settings.
    own_settings = [knobs for knobs in _settings(cls) if (name, *knobs) != ("dann", "width")]
    cases = [*((knobs, 6) for knobs in own_settings), (dict.fromkeys(cls.needs.switches, 0), 1)]
    limits = {steps: tried(name, made(name, **cls.limit.knobs), steps=steps) for steps in (1, 6)}
    assert all(limits[steps].doubts["last"] and limits[steps].doubts["best-id"] for steps in limits)
    for knobs, steps in cases:
        try:
            trajectory = tried(name, made(name, **knobs), steps=steps)
        # what is refused is not silent: pairs of an image with itself, which these rows do not
        # allow
        except NeedsError:
            assert set(knobs) == {cls.needs.pairs}
            continue
        if (
            np.abs(_said(trajectory) - _said(limits[steps])).max() < 1e-7
            and not trajectory.doubts["best-id"]
        ):
            silent.append((knobs, steps))
    assert not silent


def test_an_untrained_network_says_so() -> None:
    assert run(ERM(), steps=0).warnings == ["erm took no step, so its networks are as they began"]
