from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from tests.training.world import run, same_weights, split, with_train
from torch import Tensor, nn

from crosswind.core.errors import NeedsError
from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info
from crosswind.methods.mixup import Mixup, _partners, _symmetric_beta


class MixupNetwork(nn.Module):
    """The inputs are the logits; what came in is kept."""

    def forward(self, x: Tensor) -> Tensor:
        self.came = x
        return x


def batch(
    x: Any, y: list[int], environment: list[int], dtype: torch.dtype = torch.float64
) -> Batch:
    rows = torch.as_tensor(np.asarray(x), dtype=dtype)
    return Batch(
        rows, torch.tensor(y), torch.arange(len(y)), torch.tensor(y), torch.tensor(environment)
    )


def fix(monkeypatch: pytest.MonkeyPatch, share: float, partner: list[int] | None = None) -> None:
    monkeypatch.setattr("crosswind.methods.mixup._symmetric_beta", lambda *_: torch.tensor(share))
    if partner is not None:
        monkeypatch.setattr("crosswind.methods.mixup._partners", lambda *_: torch.tensor(partner))


def loss_of(tried_batch: Batch, n_environments: int = 2, **knobs: Any) -> tuple[Tensor, Tensor]:
    """The loss, and what the model was given."""
    model, method = MixupNetwork(), Mixup(**knobs)
    state = method.state(
        Info(InputSpec.features(2), 2, 9, environment_counts=(3,) * n_environments)
    )
    return method.loss({"model": model}, tried_batch, state).total, model.came


def test_loss_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows (4 ln 3, 0) of label 0 and (0, 0) of label 1, partners of each other, lambda 3/4: (3 ln
    3, 0) and (ln 3, 0).

    Probabilities of label 0 are 27/28 and 3/4. Row 0: 3/4 ln(28/27) + 1/4 ln 28; row 1: 3/4 ln 4 +
    1/4 ln(4/3).
    """
    fix(monkeypatch, 0.75)
    total, came = loss_of(batch([[4 * math.log(3), 0], [0, 0]], [0, 1], [0, 1]))
    assert came[:, 0].tolist() == pytest.approx([3 * math.log(3), math.log(3)])
    first, second = (
        0.75 * math.log(28 / 27) + 0.25 * math.log(28),
        0.75 * math.log(4) + 0.25 * math.log(4 / 3),
    )
    assert total.item() == pytest.approx((first + second) / 2)


def test_labels_go_with_the_partners_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """With lambda 0 only the partners are left, images and labels: rows 2, 2, 0 with labels 1, 1,
    0."""
    fix(monkeypatch, 0.0, [2, 2, 0])
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0], [0.0, 7.0]])
    total, came = loss_of(batch(x, [0, 0, 1], [0, 0, 1], torch.float32))
    assert torch.equal(came, x[[2, 2, 0]])
    assert total.item() == pytest.approx(
        nn.functional.cross_entropy(x[[2, 2, 0]], torch.tensor([1, 1, 0])).item()
    )


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_blend_is_that_of_the_images_in_their_layout(
    monkeypatch: pytest.MonkeyPatch, layout: torch.memory_format
) -> None:
    class Flat(MixupNetwork):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).flatten(1)[:, :2]

    fix(monkeypatch, 0.25, [2, 2, 0])
    x = torch.randn(3, 3, 4, 4, generator=torch.Generator().manual_seed(0)).contiguous(
        memory_format=layout
    )
    model, zeros = Flat(), torch.zeros(3, dtype=torch.int64)
    tried_batch = Batch(x, zeros, zeros, zeros, zeros)
    Mixup().loss({"model": model}, tried_batch, {"environment_rows": torch.tensor([2, 1])})
    assert model.came.is_contiguous(memory_format=layout)
    assert torch.allclose(model.came, 0.25 * x + 0.75 * x[[2, 2, 0]])


def circle(partners: Tensor, environment: list[int]) -> dict[int, int]:
    """To which environment the rows of each are sent; it must be the same for all of them."""
    sent: dict[int, set[int]] = {}
    for row, code in enumerate(environment):
        sent.setdefault(code, set()).add(environment[int(partners[row])])
    assert all(len(codes) == 1 for codes in sent.values())
    return {code: codes.pop() for code, codes in sent.items()}


@pytest.mark.parametrize(
    "environment",
    [
        [0, 1],
        [0, 0, 1, 1],
        [3, 3, 3, 0, 1],
        [0, 1, 2, 3, 4, 4],
        [5, 0, 5, 0, 2, 5, 5, 2],
        [1] * 7 + [4],
    ],
)
def test_partners_are_those_of_a_plain_loop_over_the_circle(environment: list[int]) -> None:
    """Each environment is sent to one other; following that leads through all of them; no row
    serves more often than it must."""
    ids, circles = torch.arange(len(environment)) * 7, set()
    for seed in range(40):
        torch.manual_seed(seed)
        partners = _partners(ids, torch.tensor(environment), 7)
        sent = circle(partners, environment)
        environment_now, visited = environment[0], []
        for _ in sent:
            visited.append(environment_now)
            environment_now = sent[environment_now]
        assert sorted(visited) == sorted(sent) and environment_now == environment[0]
        for code, next_environment in sent.items():
            partners_of_code = [
                int(partners[place]) for place, mine in enumerate(environment) if mine == code
            ]
            rows = [place for place, mine in enumerate(environment) if mine == next_environment]
            served = [partners_of_code.count(row) for row in rows]
            assert sum(served) == len(partners_of_code) and max(served) - min(served) <= 1
        circles.add(tuple(sorted(sent.items())))
    assert len(circles) > 1 or len(set(environment)) == 2


@pytest.mark.slow
def test_any_pair_is_as_likely() -> None:
    """Four rows a side: each of 16 pairs of a row and a partner has chance 1/4, in 2000 draws 500
    +- 19.4."""
    torch.manual_seed(0)
    environment = torch.tensor([0, 1] * 4)
    counts = torch.zeros(8, 8)
    for _ in range(2000):
        counts[torch.arange(8), _partners(torch.arange(8), environment, 2)] += 1
    apart = environment[:, None] != environment
    assert (counts[apart] - 500).abs().max() < 5 * 19.4 and counts[~apart].sum() == 0


def test_single_environment_of_a_batch_is_its_own_next() -> None:
    assert set(_partners(torch.arange(5), torch.full((5,), 2), 4).tolist()) <= set(range(5))
    assert _partners(torch.tensor([3]), torch.tensor([0]), 1).tolist() == [0]


def test_partners_go_with_ids_and_not_with_places() -> None:
    ids, environment, order = (
        torch.tensor([5, 9, 2, 7, 1]),
        torch.tensor([0, 1, 0, 1, 1]),
        torch.tensor([3, 0, 4, 1, 2]),
    )
    torch.manual_seed(0)
    partner_ids = ids[_partners(ids, environment, 2)]
    torch.manual_seed(0)
    assert torch.equal(ids[order][_partners(ids[order], environment[order], 2)], partner_ids[order])


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 10.0])
def test_lambda_has_scipys_beta_distribution(alpha: float) -> None:
    """Kolmogorov and Smirnov's distance of 20000 draws below 1.95 / sqrt(20000), its 0.1 % point.

    Looked at away from the ends: under a small alpha much lies nearer to them than float32 can
    tell.
    """
    torch.manual_seed(0)
    draws = _symmetric_beta(alpha, (20000,), torch.device("cpu")).double().numpy()
    assert ((draws >= 0) & (draws <= 1)).all() and np.isfinite(draws).all()
    grid = np.linspace(1e-3, 1 - 1e-3, 999)
    apart = np.abs(
        np.searchsorted(np.sort(draws), grid) / len(draws) - stats.beta(alpha, alpha).cdf(grid)
    )
    assert apart.max() < 1.95 / math.sqrt(20000)


def test_one_lambda_a_batch_and_another_the_next() -> None:
    """Rows of environment 0 are all 0 and those of 1 all 1: a blend is 1 - lambda or lambda, the
    same for all rows."""
    tried_batch = batch([[0.0, 0.0]] * 4 + [[1.0, 1.0]] * 4, [0] * 8, [0] * 4 + [1] * 4)
    torch.manual_seed(0)
    lambdas = []
    for _ in range(20):
        came = loss_of(tried_batch, alpha=1.0)[1]
        assert len(set(came[:4].flatten().tolist())) == 1 and torch.allclose(came[4:], 1 - came[:4])
        lambdas.append(float(came[0, 0]))
    assert len(set(lambdas)) == 20
    torch.manual_seed(0)
    assert float(loss_of(tried_batch, alpha=1.0)[1][0, 0]) == lambdas[0]


def test_texts_are_refused() -> None:
    with pytest.raises(NeedsError, match="method 'mixup' blends inputs, and these are texts"):
        loss_of(batch([[3, 4], [5, 6]], [0, 1], [0, 1], torch.int64))


def test_one_environment_is_refused() -> None:
    single_environment = with_train(split(), environment=np.zeros(60, dtype=np.int64))
    with pytest.raises(
        NeedsError,
        match="'mixup' needs at least two environments with training rows, and there is 1",
    ):
        run(Mixup(), single_environment)


def test_validation_and_test_rows_are_not_blended() -> None:
    """A network that is not moved says the same of them under any alpha, and is scored alike."""
    blended, plain = (run(Mixup(alpha=alpha), lr=1e-30, optimiser="sgd") for alpha in (1.0, 0.0))
    assert np.array_equal(
        blended.predictions["last"]["test"].logits, plain.predictions["last"]["test"].logits
    )
    assert blended.history[-1]["validation"] == plain.history[-1]["validation"]
    assert blended.history[-1]["train"] != plain.history[-1]["train"]


def test_settings_make_other_runs_and_it_learns() -> None:
    trajectories = [run(Mixup(alpha=alpha)) for alpha in (0.2, 1.0)]
    assert not same_weights(*trajectories)
    assert (
        run(Mixup(), steps=100, patience=None).history[-1]["validation"]["validation"]["accuracy"]
        > 0.9
    )
