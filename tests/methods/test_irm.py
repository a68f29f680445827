from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import run, same_weights, split, with_train
from torch import Tensor, nn

from crosswind.core.errors import InputError, NeedsError
from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info
from crosswind.methods.irm import IRM

LOG3 = math.log(3.0)


def info(*rows: int) -> Info:
    return Info(
        InputSpec.image(8, 8, 3),
        2,
        sum(rows),
        environment_names=tuple("abcd"[: len(rows)]),
        environment_counts=rows,
    )


def batch(z: list[float], environment: list[int], step: int = 500) -> Batch:
    """Logits (z, 0), every label 0."""
    x = torch.tensor([[value, 0.0] for value in z], dtype=torch.float64, requires_grad=True)
    zeros = torch.zeros(len(z), dtype=torch.int64)
    return Batch(x, zeros, torch.arange(len(z)), zeros, torch.tensor(environment), step=step)


def squared(**knobs: Any) -> IRM:
    """With the square of the mean slope as its penalty, and the switch at step 500."""
    return IRM(**{"estimate": "squared", "anneal_steps": 500, **knobs})


def loss(method: IRM, tried_batch: Batch, n_environments: int = 3) -> dict[str, Any]:
    irm_loss = method.loss(
        {"model": nn.Identity()}, tried_batch, method.state(info(*[1] * n_environments))
    )
    return {
        "total": irm_loss.total,
        **{name: float(value) for name, value in irm_loss.terms.items()},
    }


def test_loss_by_hand() -> None:
    """p(label 0) is 3/4 at z = ln 3 and 1/4 at -ln 3, so the losses are ln(4/3) and ln 4; a row's
    slope is (p - 1) z.

    Slopes: -ln3/4 and 3 ln3/4. Environment 0 has both: R = (ln(4/3) + ln 4) / 2 = ln 4 - ln3/2,
    slope ln3/4. Environment 1 has the second row alone: R = ln 4, slope 3 ln3/4. Environment 2 is
    absent. Means over two: risk ln 4 - ln3/4 and penalty
    (1/16 + 9/16)/2 ln^2 3 = 5/16 ln^2 3. With weight 8 the total is ln 4 - ln3/4 + 5/2 ln^2 3, a
    step earlier with weight 1 it is ln 4 - ln3/4 + 5/16 ln^2 3.
    """
    tried_batch = batch([LOG3, -LOG3, -LOG3], [0, 0, 1])
    by_hand = loss(squared(penalty_weight=8.0), tried_batch)
    assert by_hand["risk"] == pytest.approx(math.log(4) - LOG3 / 4)
    assert by_hand["penalty"] == pytest.approx(5 / 16 * LOG3**2)
    assert by_hand["total"].item() == pytest.approx(math.log(4) - LOG3 / 4 + 5 / 2 * LOG3**2)
    earlier = loss(squared(penalty_weight=8.0), replace(tried_batch, step=499))
    assert earlier["total"].item() == pytest.approx(math.log(4) - LOG3 / 4 + 5 / 16 * LOG3**2)
    assert loss(squared(penalty_weight=8.0, rescale=True), tried_batch)[
        "total"
    ].item() == pytest.approx(by_hand["total"].item() / 8)
    assert loss(squared(penalty_weight=0.5, rescale=True), tried_batch)[
        "total"
    ].item() == pytest.approx(
        math.log(4) - LOG3 / 4 + 5 / 32 * LOG3**2  # a weight below 1 divides nothing
    )


def test_product_of_halves_by_hand() -> None:
    """Environment 0 has the slopes -ln3/4 | 3 ln3/4: the product is -3/16 ln^2 3, negative.
    Environment 1 has one row and no second half: the mean is over environment 0 alone. With a third
    row of slope -ln3/4, which joins the first half, it is the same.
    """
    method = IRM(estimate="halves")
    assert loss(method, batch([LOG3, -LOG3, -LOG3], [0, 0, 1]))["penalty"] == pytest.approx(
        -3 / 16 * LOG3**2
    )
    assert loss(method, batch([LOG3, -LOG3, -LOG3, LOG3], [0, 1, 0, 0]))[
        "penalty"
    ] == pytest.approx(-3 / 16 * LOG3**2)


def test_halves_are_right_on_average_and_the_square_is_not() -> None:
    """Slopes s of four rows, over all 24 orders: the product of two halves' means has the mean of
    s_i s_j over all i != j."""
    z = [LOG3, -LOG3, 2.0, 0.3]
    slopes = [(1 / (1 + math.exp(-value)) - 1) * value for value in z]
    unequal = np.mean([a * b for a, b in itertools.permutations(slopes, 2)])
    orders = list(itertools.permutations(z))
    mean_of_estimate = {
        estimate: np.mean(
            [
                loss(IRM(estimate=estimate), batch(list(order), [0] * 4))["penalty"]
                for order in orders
            ]
        )
        for estimate in ("halves", "squared")
    }
    assert mean_of_estimate["halves"] == pytest.approx(unequal)
    assert mean_of_estimate["squared"] == pytest.approx(np.mean(slopes) ** 2)
    assert mean_of_estimate["squared"] > mean_of_estimate["halves"] + 0.01


def slow(logits: Tensor, tried_batch: Batch, weight: float) -> Tensor:
    """The definition: for each environment its risk under a scale, differentiated by the scale."""
    assert tried_batch.environment is not None
    risks, penalties = [], []
    for code in tried_batch.environment.unique():
        rows = tried_batch.environment == code
        scale = torch.tensor(1.0, dtype=logits.dtype, requires_grad=True)
        risk = nn.functional.cross_entropy(logits[rows] * scale, tried_batch.y[rows])
        (slope,) = torch.autograd.grad(risk, scale, create_graph=True)
        risks.append(risk)
        penalties.append(slope**2)
    return torch.stack(risks).mean() + weight * torch.stack(penalties).mean()


def test_closed_form_is_the_scale_differentiated() -> None:
    generator = torch.Generator().manual_seed(0)
    for n in (1, 2, 40):
        x = (3 * torch.randn(n, 5, generator=generator, dtype=torch.float64)).requires_grad_()
        y, environment = (torch.randint(n_rows, (n,), generator=generator) for n_rows in (5, 4))
        tried_batch = Batch(x, y, torch.arange(n), y, environment, step=500)
        fast, reference = (
            loss(squared(penalty_weight=7.0), tried_batch, 4)["total"],
            slow(x, tried_batch, 7.0),
        )
        assert fast.item() == pytest.approx(reference.item(), rel=1e-12)
        gradients = [torch.autograd.grad(total, x)[0] for total in (fast, reference)]
        assert gradients[0].abs().max() > 1e-3 and torch.allclose(
            *gradients, rtol=1e-10, atol=1e-14
        )


@pytest.mark.parametrize("estimate", ["squared", "halves"])
@pytest.mark.parametrize("environment", [[0], [0, 1], [0, 1, 2], [0, 0, 1], [2, 2, 2]])
def test_environments_of_one_row_and_absent_ones_give_numbers(
    estimate: str, environment: list[int]
) -> None:
    tried_batch = batch([LOG3, -LOG3, 1.0][: len(environment)], environment)
    losses = loss(IRM(estimate=estimate), tried_batch)
    assert math.isfinite(losses["total"].item())
    losses["total"].backward()
    assert (
        tried_batch.x.grad is not None
        and torch.isfinite(tried_batch.x.grad).all()
        and tried_batch.x.grad.abs().sum() > 0
    )
    if estimate == "halves" and len(set(environment)) == len(environment):
        assert losses["penalty"] == 0.0


def test_huge_and_half_precision_logits_give_numbers() -> None:
    tried_batch = batch([1e4, -1e4], [0, 1])
    assert loss(squared(), tried_batch)["penalty"] == pytest.approx(1e8 / 2)
    coarse = replace(tried_batch, x=torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total = loss(squared(), coarse)["total"]
    exact = loss(squared(), replace(coarse, x=coarse.x.double()))["total"]
    assert total.dtype == torch.float32 and total.item() == pytest.approx(exact.item(), rel=1e-5)


# -- the switch ------------------------------------------------------------------------------------

SGD: dict[str, Any] = {"optimiser": "sgd", "lr": 0.1, "precision": "fp64"}


def test_weight_is_one_up_to_the_switch() -> None:
    late, never = (
        run(IRM(penalty_weight=weight, anneal_steps=6), steps=7, **SGD) for weight in (50.0, 1.0)
    )
    assert not same_weights(late, never)
    assert same_weights(late, never, tolerance=1.0)  # one step apart
    ended = [
        run(IRM(penalty_weight=weight, anneal_steps=5), steps=6, validate_every=5, **SGD)
        for weight in (50.0, 1.0)
    ]
    first = [entry_found.history[0]["train"] for entry_found in ended]
    assert first[0] == first[1] and ended[0].history[1]["train"] != ended[1].history[1]["train"]


def test_optimiser_begins_anew_at_the_switch_and_only_there() -> None:
    """With weight 1 on both sides of it, the switch is nothing but the reset."""
    with_switch = run(IRM(penalty_weight=1.0, anneal_steps=6))
    assert not same_weights(with_switch, run(IRM(penalty_weight=1.0, anneal_steps=6, reset=False)))
    plain = run(IRM(penalty_weight=1.0, anneal_steps=6, reset=False))
    assert same_weights(
        plain, run(IRM(penalty_weight=1.0, anneal_steps=0))
    )  # nothing gathered yet, nothing forgotten
    assert same_weights(
        *(
            run(IRM(penalty_weight=1.0, anneal_steps=6, reset=reset), **SGD)
            for reset in (True, False)
        )
    )


@pytest.mark.parametrize("at", [3, 4, 5])
def test_run_stopped_about_the_switch_goes_on_with_equal_bits(at: int, tmp_path: Any) -> None:
    class StopAtSwitch(Exception):
        pass

    def stop(event: dict[str, Any]) -> None:
        raise StopAtSwitch

    method = IRM(anneal_steps=at)
    with pytest.raises(StopAtSwitch):
        run(method, checkpoint=tmp_path / "run", progress=stop)  # after the validation at step 4
    assert same_weights(run(method), run(method, checkpoint=tmp_path / "run"))


@pytest.mark.slow
def test_a_switch_that_is_a_share_lies_there_in_a_run_of_any_length() -> None:
    """A tenth of 20 steps is step 2, of 30 step 3; a run of one step is over before any switch of
    it but one at 0."""
    for steps, at in ((20, 2), (30, 3), (40, 4)):
        settings = {"steps": steps, "validate_every": steps, "patience": None}
        assert same_weights(*(run(IRM(anneal_steps=switch), **settings) for switch in (0.1, at)))
        assert not same_weights(
            *(run(IRM(anneal_steps=switch), **settings) for switch in (0.1, at + 1))
        )


@pytest.mark.slow
def test_defaults_are_reached_in_short_runs_and_a_step_beyond_the_end_is_refused() -> None:
    """The switch of DomainBed, at step 500, would never come in a shorter run: it would end with
    weight 1 and be called IRM."""
    assert run(IRM(), steps=12).warnings == []
    for steps in (12, 500):
        with pytest.raises(
            InputError,
            match=(
                "method.anneal_steps: the switch at step 500 lies beyond the run's last step,"
                f" {steps - 1}"
            ),
        ):
            run(IRM(anneal_steps=500), steps=steps)
    assert run(IRM(anneal_steps=500), steps=501, validate_every=100, patience=None).warnings == []


def test_defaults_are_domainbeds() -> None:
    """Of its 5,001 steps the switch is at 500; the penalty is the product of halves, and Adam
    begins anew."""
    assert IRM() == IRM(
        penalty_weight=100.0, anneal_steps=0.1, estimate="halves", reset=True, rescale=False
    )
    assert IRM().switch_steps(5001) == (500,)


def test_no_stop_rule_makes_it_erm_in_silence() -> None:
    """Nothing is learned at this rate, so patience would end the run at once; stop_at would too."""
    for rule in ({"patience": 1}, {"patience": None, "stop_at": 0.01}):
        trajectory = run(IRM(anneal_steps=40), steps=50, validate_every=2, lr=1e-30, **rule)
        assert trajectory.history[-1]["step"] == (44 if rule["patience"] else 42)
        assert trajectory.selections["best-id"].step == 42
        assert trajectory.warnings == []


def test_one_environment_is_refused() -> None:
    single_environment = with_train(split(), environment=np.zeros(60, dtype=np.int64))
    with pytest.raises(
        NeedsError, match="'irm' needs at least two environments with training rows, and there is 1"
    ):
        run(IRM(anneal_steps=2), single_environment)


@pytest.mark.slow
def test_penalty_is_brought_down() -> None:
    """Half of the rows of one environment are told the other class, so no scale suits both: less
    than 1/50 of ERM's is left."""
    sets = split()
    wrong = (sets.train.environment == 0) & (np.arange(60) % 8 < 4)
    noisy = with_train(sets, label=np.where(wrong, 1 - sets.train.label, sets.train.label))
    ended = {
        weight: (
            run(
                squared(penalty_weight=weight, anneal_steps=0), noisy, steps=200, patience=None
            ).history[-1]["train"]["penalty"]
        )
        for weight in (0.0, 100.0)
    }
    assert ended[100.0] < ended[0.0] / 50
