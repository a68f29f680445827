from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import run, same_weights, split, with_train
from torch import Tensor, nn

from crosswind.core.errors import NeedsError
from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info
from crosswind.methods.deepcoral import DeepCORAL


class DeepcoralNetwork(nn.Module):
    """The inputs are the features."""

    def __init__(self, head: nn.Module | None = None) -> None:
        super().__init__()
        self.head = nn.Identity() if head is None else head

    def features(self, x: Tensor) -> Tensor:
        return x


def batch(x: Any, environment: Any) -> Batch:
    rows = torch.as_tensor(np.asarray(x), dtype=torch.float64).requires_grad_()
    zeros = torch.zeros(len(rows), dtype=torch.int64)
    return Batch(rows, zeros, torch.arange(len(rows)), zeros, torch.as_tensor(environment))


def alignment(
    form: str,
    aligned_batch: Batch,
    n_environments: int = 4,
    head: nn.Module | None = None,
    counts: tuple[int, ...] | None = None,
) -> float:
    method = DeepCORAL(form=form)
    counts = counts or (9,) * n_environments
    state = method.state(
        Info(
            InputSpec.image(8, 8, 3),
            2,
            n_environments,
            environment_names=("e",) * n_environments,
            environment_counts=counts,
        )
    )
    loss = method.loss({"model": DeepcoralNetwork(head)}, aligned_batch, state)
    assert loss.total.item() == pytest.approx(
        float(loss.terms["classification"] + loss.terms["alignment"])
    )
    return float(loss.terms["alignment"])


TWO = [[0, 0], [2, 0], [0, 0], [0, 4]]


def test_alignment_by_hand() -> None:
    """Environment 0: (0, 0), (2, 0): mean (1, 0), covariance diag(2, 0). Environment 1: (0, 0), (0,
    4): (0, 2), diag(0, 8).

    |C0 - C1|^2 = 4 + 64 = 68 and |m0 - m1|^2 = 1 + 4 = 5; d = 2. Paper: 68 / 16 = 4.25. With means: 68 / 4 + 5 / 2 = 19.5.
    """
    tried_batch = batch(TWO, [0, 0, 1, 1])
    assert alignment("covariance", tried_batch) == pytest.approx(4.25)
    assert alignment("mean-and-covariance", tried_batch) == pytest.approx(19.5)


def test_environment_of_one_row_compares_means_only() -> None:
    """A third environment with the row (3, 0): |m0 - m2|^2 = 4, |m1 - m2|^2 = 9 + 4 = 13, so the
    means' part is (5 + 4 + 13)/3/2 = 11/3. Only the pair (0, 1) has covariances: 68 / 4 = 17 and 68
    / 16 as before. Were a row's covariance 0, they would change.
    """
    tried_batch = batch([*TWO, [3, 0]], [0, 0, 1, 1, 3])
    assert alignment("covariance", tried_batch) == pytest.approx(4.25)
    assert alignment("mean-and-covariance", tried_batch) == pytest.approx(17 + 11 / 3)


def test_one_training_row_that_a_batch_repeats_is_an_environment_of_one_row() -> None:
    """The third environment of the test above, whose row the sampler has drawn three times: still
    it has no covariance.

    Taken as three rows it would have one of zeros, and the others would be drawn towards it: (68 +
    4 + 64) / 3 / 4 and not 17.
    """
    tried_batch = batch([*TWO, [3, 0], [3, 0], [3, 0]], [0, 0, 1, 1, 3, 3, 3])
    assert alignment("mean-and-covariance", tried_batch, counts=(9, 9, 9, 1)) == pytest.approx(
        17 + 11 / 3
    )
    assert alignment("mean-and-covariance", tried_batch, counts=(9, 9, 9, 2)) == pytest.approx(
        136 / 12 + 11 / 3
    )


@pytest.mark.parametrize("form", ["covariance", "mean-and-covariance"])
@pytest.mark.parametrize(
    "environment", [[0], [1, 1], [0, 1], [0, 1, 2, 3], [0, 0, 1], [2, 2, 2, 2]]
)
def test_small_and_absent_environments_give_numbers(form: str, environment: list[int]) -> None:
    tried_batch = batch(np.random.default_rng(0).normal(size=(len(environment), 3)), environment)
    loss = alignment(form, tried_batch)
    several = sum(environment.count(code) > 1 for code in set(environment))
    zero = several < 2 if form == "covariance" else len(set(environment)) < 2
    assert math.isfinite(loss) and (loss == 0.0) == zero
    method = DeepCORAL(form=form)
    state = method.state(Info(InputSpec.image(8, 8, 3), 3, 4, environment_counts=(1,) * 4))
    method.loss({"model": DeepcoralNetwork()}, tried_batch, state).total.backward()
    assert tried_batch.x.grad is not None and torch.isfinite(tried_batch.x.grad).all()


def slow(x: Any, environment: Any, form: str) -> float:
    """NumPy's covariances, pair by pair."""
    width = x.shape[1]
    parts_by_environment = [x[environment == code] for code in sorted(set(environment.tolist()))]
    means = [
        ((a.mean(0) - b.mean(0)) ** 2).sum()
        for a, b in itertools.combinations(parts_by_environment, 2)
    ]
    whole = [
        np.cov(environment_rows.T)
        for environment_rows in parts_by_environment
        if len(environment_rows) > 1
    ]
    covariances = [((a - b) ** 2).sum() for a, b in itertools.combinations(whole, 2)]
    if form == "covariance":
        return float(np.mean(covariances)) / (4 * width**2)
    return float(np.mean(means)) / width + float(np.mean(covariances)) / width**2


@pytest.mark.parametrize("form", ["covariance", "mean-and-covariance"])
def test_products_of_rows_give_numpys_covariances(form: str) -> None:
    for seed in range(5):
        random = np.random.default_rng(seed)
        x, environment = random.normal(3, 2, (30, 7)), random.integers(0, 9, 30)
        environment[environment == 4] = 5  # a code in the middle that no row has
        assert alignment(form, batch(x, environment), 12) == pytest.approx(
            slow(x, environment, form), rel=1e-10
        )


def test_gradient_is_that_of_the_definition() -> None:
    x = torch.randn(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    environment = torch.arange(12) % 3
    tried_batch = batch(x.numpy(), environment)
    method = DeepCORAL(form="covariance")
    state = method.state(Info(InputSpec.image(8, 8, 3), 3, 3, environment_counts=(4, 4, 4)))
    loss = method.loss({"model": DeepcoralNetwork()}, tried_batch, state)
    ours = torch.autograd.grad(
        loss.total - nn.functional.cross_entropy(tried_batch.x, tried_batch.y), tried_batch.x
    )[0]
    covariances = [torch.cov(tried_batch.x[environment == code].T) for code in range(3)]
    pairs = torch.stack([(a - b).square().sum() for a, b in itertools.combinations(covariances, 2)])
    assert torch.allclose(
        ours, torch.autograd.grad(pairs.mean() / 36, tried_batch.x)[0], atol=1e-14
    )


def test_features_are_aligned_and_not_logits() -> None:
    head = nn.Linear(2, 2).double()
    with torch.no_grad():
        head.weight.mul_(100.0)
    assert alignment("mean-and-covariance", batch(TWO, [0, 0, 1, 1]), head=head) == pytest.approx(
        19.5
    )


def test_same_features_in_both_environments_cost_nothing() -> None:
    x = np.random.default_rng(0).normal(size=(16, 5))
    assert (
        abs(alignment("mean-and-covariance", batch(np.concatenate([x, x]), [0] * 16 + [1] * 16)))
        < 1e-12
    )


def test_bf16_features_are_compared_in_float32() -> None:
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    environment = torch.arange(32) % 2
    zeros = torch.zeros(32, dtype=torch.int64)
    losses = {}
    for name, rows in {"coarse": x, "exact": x.double()}.items():
        tried_batch = Batch(rows, zeros, zeros, zeros, environment)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=name == "coarse"):
            losses[name] = alignment("covariance", tried_batch, 2)
    assert losses["coarse"] == pytest.approx(losses["exact"], rel=1e-4)


def test_one_environment_is_refused() -> None:
    single_environment = with_train(split(), environment=np.ones(60, dtype=np.int64))
    with pytest.raises(
        NeedsError,
        match="'deepcoral' needs at least two environments with training rows, and there is 1",
    ):
        run(DeepCORAL(), single_environment)


def test_both_forms_train_apart_from_each_other() -> None:
    assert not same_weights(
        run(DeepCORAL(form="covariance", weight=10.0)), run(DeepCORAL(weight=10.0))
    )
    assert not same_weights(
        run(DeepCORAL(form="covariance", weight=10.0)), run(DeepCORAL(weight=0.0))
    )


@pytest.mark.slow
def test_distance_is_brought_down() -> None:
    """The tint shifts the features of a plain run; aligned with weight 10 their distance ends at
    less than half of that."""
    ended = {
        weight: run(DeepCORAL(weight=weight), steps=100).history[-1]["train"]["alignment"]
        for weight in (0.0, 10.0)
    }
    assert ended[10.0] < ended[0.0] / 2
