"""What every registered method must hold, whoever wrote it.

A method that cannot be tested on the tiny world's perceptron says in `SETTINGS` on what it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.training.world import QUICK, run

from crosswind.core.errors import InputError, NeedsError
from crosswind.core.knobs import Needs, knobs_of
from crosswind.core.registry import listing, load
from crosswind.methods.base import Method
from crosswind.methods.erm import ERM
from crosswind.testing import Check, method_checks

FACTS = [item for item in listing("methods") if item.module.startswith("crosswind.")]
NAMES = [fact.name for fact in FACTS]
LIMITED = [fact.name for fact in FACTS if fact.limit is not None and fact.limit.equals]
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


def test_the_sweep_finds_the_methods() -> None:
    assert len(NAMES) >= 5 and {"erm", "groupdro", "irm", "deepcoral", "dann"} <= set(NAMES)
    assert (
        sum(not fact.limit.equals for fact in FACTS if fact.limit) <= 9
    )  # lora: its base is frozen; wise-ft: its base is the best of a run


def checks_of(name: str) -> list[Check]:
    """The checks that every method outside the package gets too."""
    return method_checks(cls_of(name), knobs=QUICK.get(name), **SETTINGS.get(name, {}))


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, id=f"{name}-{check}")
        for name in NAMES
        for check in checks_of(name)
    ],
)
def test_the_contract_holds(name: str, check: Check) -> None:
    check()


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


@pytest.mark.slow
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
