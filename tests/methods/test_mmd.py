from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import dataset, run, same_weights, split, with_train
from torch import Tensor, nn

from crosswind.core.errors import InputError, NeedsError
from crosswind.core.knobs import check, knobs_of
from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info
from crosswind.methods.mmd import MMD

HALVING = 1 / math.sqrt(
    2 * math.log(2)
)  # the width at which exp(-|a - b|^2 / (2 w^2)) is 2^(-|a - b|^2)
DOMAINBED = [math.sqrt(0.5 / factor) for factor in (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)]


class Cut(nn.Module):
    """Logits that pass no gradient on: what is left is the alignment's."""

    def forward(self, x: Tensor) -> Tensor:
        return x.detach()


class MmdNetwork(nn.Module):
    """The inputs are the features."""

    def __init__(self, head: nn.Module | None = None) -> None:
        super().__init__()
        self.head = Cut() if head is None else head

    def features(self, x: Tensor) -> Tensor:
        return x


def batch(x: Any, environment: Any) -> Batch:
    rows = torch.as_tensor(np.asarray(x), dtype=torch.float64).requires_grad_()
    zeros = torch.zeros(len(rows), dtype=torch.int64)
    return Batch(rows, zeros, torch.arange(len(rows)), zeros, torch.as_tensor(environment))


def alignment(
    tried_batch: Batch,
    n_environments: int = 4,
    head: nn.Module | None = None,
    rows: tuple[int, ...] | None = None,
    **knobs: Any,
) -> Tensor:
    """The alignment, with its gradient."""
    method = MMD(**knobs)
    state = method.state(
        Info(
            InputSpec.image(8, 8, 3),
            2,
            n_environments,
            environment_names=("e",) * n_environments,
            environment_counts=rows or (9,) * n_environments,
        )
    )
    loss = method.loss({"model": MmdNetwork(head)}, tried_batch, state)
    assert loss.total.item() == pytest.approx(
        float(loss.terms["classification"] + method.weight * loss.terms["alignment"])
    )
    return (loss.total - loss.terms["classification"]) / method.weight


FOUR = [[0.0], [1.0], [0.0], [2.0]]


@pytest.mark.parametrize(
    ("knobs", "expected"),
    [
        ({"widths": [HALVING]}, 1 / 4),
        ({"widths": [HALVING], "estimate": "unbiased"}, -15 / 32),
        ({}, (1 - math.exp(-0.5)) / 2),
        ({"widths": [1.0, HALVING]}, 1 / 4 + (1 - math.exp(-0.5)) / 2),
    ],
)
def test_alignment_by_hand(knobs: dict[str, Any], expected: float) -> None:
    """Environment 0 has 0 and 1, environment 1 has 0 and 2. Kernel 2^(-d^2): within, 1/2 and 1/16;
    between, 1, 1/16, 1/2, 1/2.

    Biased: (2 + 2/2)/4 + (2 + 2/16)/4 - 2 (33/16)/4 = 24/32 + 17/32 - 33/32 = 1/4; unbiased: 1/2 +
    1/16 - 33/32 = -15/32. Distances of all pairs are 0, 1, 1, 1, 2, 2 with the lower median 1. With
    a = exp(-1/2) and b = exp(-2) it is
    (1 + a)/2 + (1 + b)/2 - 2 (1 + b + 2 a)/4 = (1 - a)/2. Two widths: the sum of both.
    """
    assert alignment(batch(FOUR, [0, 0, 1, 1]), **knobs).item() == pytest.approx(
        expected, abs=1e-12
    )


def test_three_environments_are_the_mean_of_their_pairs() -> None:
    """A third one, the row 1 alone: with 0 and 1 it has 1 + 3/4 - 2 (1/2 + 1)/2 = 1/4, with 0 and 2
    1 + 17/32 - 2 (1/2 + 1/2)/2 = 17/32; biased, (1/4 + 1/4 + 17/32)/3 = 11/32. Unbiased it has no
    pair of rows, and only -15/32 is left.
    """
    tried_batch = batch([*FOUR, [1.0]], [0, 0, 1, 1, 3])
    assert alignment(tried_batch, widths=[HALVING]).item() == pytest.approx(11 / 32)
    assert alignment(tried_batch, widths=[HALVING], estimate="unbiased").item() == pytest.approx(
        -15 / 32
    )


@pytest.mark.parametrize("knobs", [{}, {"estimate": "unbiased"}, {"widths": DOMAINBED}])
@pytest.mark.parametrize(
    "environment", [[0], [1, 1], [0, 1], [0, 1, 2, 3], [0, 0, 1], [2, 2, 2, 2], [0, 0, 3, 3]]
)
def test_small_and_absent_environments_give_numbers(
    knobs: dict[str, Any], environment: list[int]
) -> None:
    tried_batch = batch(np.random.default_rng(0).normal(size=(len(environment), 3)), environment)
    distance = alignment(tried_batch, **knobs)
    usable = [code for code in set(environment) if environment.count(code) > ("estimate" in knobs)]
    assert math.isfinite(distance.item()) and (distance.item() == 0.0) == (len(usable) < 2)
    distance.backward()
    assert tried_batch.x.grad is not None and torch.isfinite(tried_batch.x.grad).all()


def test_one_training_row_that_a_batch_repeats_is_an_environment_of_one_row() -> None:
    tried_batch = batch([*FOUR, [5.0], [5.0], [5.0]], [0, 0, 1, 1, 3, 3, 3])
    alone = alignment(batch(FOUR, [0, 0, 1, 1]), estimate="unbiased", widths=[1.0]).item()
    assert alignment(
        tried_batch, rows=(9, 9, 9, 1), estimate="unbiased", widths=[1.0]
    ).item() == pytest.approx(alone)
    assert (
        abs(
            alignment(tried_batch, rows=(9, 9, 9, 2), estimate="unbiased", widths=[1.0]).item()
            - alone
        )
        > 0.1
    )


def slow(x: Tensor, environment: Any, widths: list[float] | None, unbiased: bool) -> Tensor:
    """Every kernel of two rows by itself, environment by environment; differentiable, the median's
    width too."""
    n = len(x)
    if widths is None:
        apart = sorted(
            ((x[i] - x[j]).square().sum() for i in range(n) for j in range(i)),
            key=lambda value: value.item(),
        )
        widths = [apart[(len(apart) - 1) // 2].sqrt()]  # type: ignore[list-item]
    rows = [
        [i for i in range(n) if environment[i] == code]
        for code in sorted(set(environment.tolist()))
    ]

    def kernel(i: int, j: int) -> Any:
        return sum(torch.exp(-(x[i] - x[j]).square().sum() / (2 * width**2)) for width in widths)

    def mean(first_rows: list[int], two: list[int], skip: bool) -> Any:
        kernel_values = [kernel(i, j) for i in first_rows for j in two if not (skip and i == j)]
        return sum(kernel_values) / len(kernel_values)

    distances = [
        mean(one, one, unbiased) + mean(two, two, unbiased) - 2 * mean(one, two, False)
        for one, two in itertools.combinations(
            [environment_rows for environment_rows in rows if len(environment_rows) > unbiased], 2
        )
    ]
    return sum(distances) / len(distances)  # type: ignore[return-value]


@pytest.mark.slow
@pytest.mark.parametrize("estimate", ["biased", "unbiased"])
@pytest.mark.parametrize("widths", [None, DOMAINBED])
def test_it_and_its_gradient_are_those_of_loops_over_pairs(
    widths: list[float] | None, estimate: str
) -> None:
    for seed in range(2):
        random = np.random.default_rng(seed)
        environment = random.integers(0, 6, 14)
        environment[environment == 2] = 3  # a code in the middle that no row has
        tried_batch = batch(random.normal(3, 2, (14, 5)), environment)
        ours, reference = (
            alignment(tried_batch, 8, widths=widths, estimate=estimate),
            slow(tried_batch.x, environment, widths, estimate[0] == "u"),
        )
        assert ours.item() == pytest.approx(reference.item(), rel=1e-10)
        (slope,), (expected,) = (
            torch.autograd.grad(value, tried_batch.x) for value in (ours, reference)
        )
        assert torch.allclose(slope, expected, atol=1e-12)


@pytest.mark.slow
def test_unbiased_is_zero_on_average_where_biased_is_not() -> None:
    """Both environments alike. Each biased mean is too large by (1 - k) / 4, so their sum by (1 -
    k) / 2, k the mean kernel."""
    random = np.random.default_rng(0)
    draws = [batch(random.normal(size=(8, 2)), [0, 0, 0, 0, 1, 1, 1, 1]) for _ in range(400)]
    values_by_estimate = {
        name: [alignment(tried_batch, widths=[1.0], estimate=name).item() for tried_batch in draws]
        for name in ("biased", "unbiased")
    }
    assert (
        abs(np.mean(values_by_estimate["unbiased"]))
        < 4 * np.std(values_by_estimate["unbiased"]) / 20
    )
    assert np.mean(values_by_estimate["biased"]) == pytest.approx(
        (1 - 1 / 3) / 2, abs=0.03
    )  # E exp(-|a - b|^2 / 2) is 1 / (1 + 2) in the plane


def test_median_width_follows_features_where_fixed_widths_have_no_slope() -> None:
    x, environment = np.random.default_rng(0).normal(size=(16, 4)), [0, 1] * 8
    slopes = {}
    for scale, widths in itertools.product((1.0, 1e4), (None, DOMAINBED)):
        tried_batch = batch(scale * x, environment)
        value = alignment(tried_batch, widths=widths)
        slopes[scale, widths is None] = (
            value.item(),
            scale * torch.autograd.grad(value, tried_batch.x)[0].norm().item(),
        )
    assert slopes[1e4, True] == pytest.approx(slopes[1.0, True])
    assert slopes[1e4, False][1] == 0.0 and slopes[1.0, False][1] > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("others", [0, 1, 4])
def test_rows_that_coincide_give_numbers(others: int, dtype: torch.dtype) -> None:
    """Most rows, or all, are the same one: the median is 0, or what rounding leaves. The width is
    then the mean distance's."""
    x = torch.randn(1, 8, generator=torch.Generator().manual_seed(0)).repeat(32, 1).to(dtype) * 10
    if others:
        x += 1e-5 * torch.randn(32, 8, generator=torch.Generator().manual_seed(2)).to(dtype)
    x[:others] += 5 * torch.randn(others, 8, generator=torch.Generator().manual_seed(1)).to(dtype)
    zeros = torch.zeros(32, dtype=torch.int64)
    tried_batch = Batch(x.requires_grad_(), zeros, zeros, zeros, torch.arange(32) % 2)
    value = alignment(tried_batch)
    (slope,) = torch.autograd.grad(value, tried_batch.x)
    assert abs(value.item()) <= 2 and torch.isfinite(slope).all() and slope.norm() < 1


def test_slopes_of_all_rows_cancel() -> None:
    """Distances do not know where the origin is. Of 16 rows of 256 features a matrix product may
    differ from its transpose in the last bit; the pair at the median was then found in one of its
    two places, and only one of its rows moved."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        tried_batch = batch(
            torch.randn(16, 256, dtype=torch.float64, generator=generator), [0, 1] * 8
        )
        (slopes,) = torch.autograd.grad(alignment(tried_batch), tried_batch.x)
        assert float(slopes.abs().max()) > 1e-4 and float(slopes.sum(0).abs().max()) < 1e-14


def test_features_gain_nothing_by_shrinking() -> None:
    """The median width shrinks with them: along the features the slope is 0. With the width held it
    is not, and they collapse."""
    tried_batch = batch(np.random.default_rng(0).normal(size=(16, 4)), [0, 1] * 8)
    (slope,) = torch.autograd.grad(alignment(tried_batch), tried_batch.x)
    assert slope.norm() > 0.05 and abs((slope * tried_batch.x).sum().item()) < 1e-12


@pytest.mark.slow
def test_biased_estimate_does_not_stop_the_classifier() -> None:
    """Under a heavy weight on batches of 8 rows an environment; with the width held the accuracy
    ends near 1/2."""
    for seed in range(2):
        history = run(MMD(), steps=200, patience=None, seed=seed).history
        assert history[-1]["validation"]["validation"]["accuracy"] > 0.9


def test_features_are_aligned_and_not_logits() -> None:
    head = nn.Linear(1, 2).double()
    with torch.no_grad():
        head.weight.mul_(100.0)
    assert alignment(
        batch(FOUR, [0, 0, 1, 1]), head=head, widths=[HALVING]
    ).item() == pytest.approx(1 / 4)


def test_same_features_in_both_environments_cost_nothing() -> None:
    x = np.random.default_rng(0).normal(size=(16, 5))
    assert abs(alignment(batch(np.concatenate([x, x]), [0] * 16 + [1] * 16)).item()) < 1e-12


def test_bf16_features_are_compared_in_float32() -> None:
    x = (torch.randn(32, 64, generator=torch.Generator().manual_seed(0)) + 3).bfloat16()
    zeros = torch.zeros(32, dtype=torch.int64)
    distances = {}
    for name, rows in {"coarse": x, "exact": x.double()}.items():
        tried_batch = Batch(rows, zeros, zeros, zeros, torch.arange(32) % 2)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=name == "coarse"):
            distances[name] = alignment(tried_batch, 2).item()
    assert distances["coarse"] == pytest.approx(distances["exact"], rel=1e-4)


def test_no_kernel_is_above_1_by_rounding() -> None:
    """Two far clusters of rows that are nearly the same: a squared distance below 0 would be blown
    up by a narrow width."""
    generator = torch.Generator().manual_seed(0)
    x = 1000 * torch.randn(2, 8, generator=generator).repeat(16, 1) + 1e-3 * torch.randn(
        32, 8, generator=generator
    )
    zeros = torch.zeros(32, dtype=torch.int64)
    assert (
        abs(
            alignment(
                Batch(x, zeros, zeros, zeros, torch.arange(32) // 2 % 2), 2, widths=DOMAINBED
            ).item()
        )
        < 2 * 7
    )


def test_features_far_from_the_origin_keep_their_digits() -> None:
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(0)) + 300
    zeros = torch.zeros(32, dtype=torch.int64)
    distances = [
        alignment(Batch(rows, zeros, zeros, zeros, torch.arange(32) % 2), 2).item()
        for rows in (x, x.double())
    ]
    assert distances[0] == pytest.approx(distances[1], rel=1e-4)


@pytest.mark.parametrize("value", [[], [1.0, -1.0], [0], 0.5, ["a"], [True], [math.inf]])
def test_widths_that_are_none_are_refused(value: Any) -> None:
    knob = next(knob for knob in knobs_of(MMD) if knob.name == "widths")
    with pytest.raises(InputError, match="widths: must be"):
        check(knob, value, "widths")
    assert check(knob, [1, 0.5], "widths") == [1.0, 0.5] and check(knob, None, "widths") is None


def test_one_environment_is_refused() -> None:
    single_environment = with_train(split(), environment=np.ones(60, dtype=np.int64))
    with pytest.raises(
        NeedsError, match="'mmd' needs at least two environments with training rows, and there is 1"
    ):
        run(MMD(), single_environment)


def test_every_knob_changes_the_run() -> None:
    ended = [
        run(MMD(**knobs))
        for knobs in ({}, {"weight": 0.0}, {"estimate": "unbiased"}, {"widths": DOMAINBED})
    ]
    assert all(not same_weights(first, two) for first, two in itertools.combinations(ended, 2))


@pytest.mark.slow
def test_distance_is_brought_down() -> None:
    """A strong tint shifts the features of a plain run; aligned, their distance ends at less than a
    third of that."""
    ended = {}
    for weight in (0.0, 1.0):
        history = run(
            MMD(weight=weight), steps=100, batch=48, patience=None, data=dataset(tint=100)
        ).history
        ended[weight] = np.mean([entry["train"]["alignment"] for entry in history[-5:]])
    assert ended[1.0] < ended[0.0] / 3
