from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.methods.pairs import found, given

from crosswind.methods.functional import kernel_distance
from crosswind.methods.mmd_align import MMDAlign


def test_alignment_by_hand() -> None:
    """Two pairs: clean (0, 0) and (2, 0), noise (0, 1) and (2, 1). Squared distances: 4 within, 1
    to the partner, 5 to the other.

    Of six pairs of rows 1, 1, 4, 4, 5, 5 the lower median is 4: 2 w^2 = 8. With itself a row's
    kernel is 1, so
    MMD^2 = 2 (1 + e^(-4/8)) / 2 - 2 (e^(-1/8) + e^(-5/8)) / 2.
    """
    loss = found(MMDAlign(), given([[0, 0], [2, 1]], [[0, 1], [2, 0]], [0, 1], [1, 0]))
    expected = 1 + math.exp(-0.5) - math.exp(-1 / 8) - math.exp(-5 / 8)
    assert float(loss.terms["alignment"]) == pytest.approx(expected)


def slow(x: np.ndarray, group: np.ndarray, centre: int) -> float:
    """Loops over all pairs of rows, of every group with the centre."""
    squared = ((x[:, None] - x[None]) ** 2).sum(-1)
    median = np.sort(squared[np.triu_indices(len(x), 1)])[(len(x) * (len(x) - 1) // 2 - 1) // 2]

    def mean(a: int, b: int) -> float:
        return float(
            np.mean(
                [
                    [math.exp(-squared[i, j] / (2 * median)) for j in np.flatnonzero(group == b)]
                    for i in np.flatnonzero(group == a)
                ]
            )
        )

    other_codes = [code for code in sorted(set(group.tolist())) if code not in (-1, centre)]
    return float(
        np.mean(
            [
                mean(centre, centre) + mean(code, code) - 2 * mean(centre, code)
                for code in other_codes
            ]
        )
    )


@pytest.mark.parametrize("centre", [0, 2])
def test_environments_are_compared_with_the_clean_one_and_not_with_each_other(centre: int) -> None:
    for seed in range(4):
        random = np.random.default_rng(seed)
        x, group = random.normal(size=(24, 5)), random.integers(-1, 4, 24)
        group[:2] = centre, (centre + 1) % 4
        rows = torch.tensor(x, requires_grad=True)
        ours = kernel_distance(rows, torch.tensor(group), 6, centre=centre)
        assert ours.item() == pytest.approx(slow(x, group, centre), rel=1e-9)
        (slope,) = torch.autograd.grad(ours, rows)
        for pair in ((0, 0), (5, 3), (23, 4)):
            moved = [x.copy(), x.copy()]
            for sign, copy in zip((1e-6, -1e-6), moved, strict=True):
                copy[pair] += sign
            rise = (slow(moved[0], group, centre) - slow(moved[1], group, centre)) / 2e-6
            assert float(slope[pair]) == pytest.approx(rise, abs=1e-6)


def test_with_two_groups_the_centre_changes_nothing() -> None:
    x, group = torch.randn(12, 3, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 2
    for unbiased in (False, True):
        distances = [
            kernel_distance(x, group, 2, unbiased=unbiased, centre=centre)
            for centre in (None, 0, 1)
        ]
        assert torch.allclose(distances[0], distances[1]) and torch.allclose(
            distances[0], distances[2]
        )


def test_rows_of_pairs_that_are_not_aligned_are_in_the_width_alone() -> None:
    """The third pair, of blur, moves nothing but the median: with fixed widths the two values would
    be one."""
    pairs = [[0, 0], [2, 1], [5, 5]], [[0, 1], [2, 0], [6, 5]], [0, 1, 0], [1, 0, 2]
    alignment = float(found(MMDAlign(aligned=["noise"]), given(*pairs)).terms["alignment"])
    squared = [
        4.0,
        4,
        1,
        1,
        5,
        5,
        *(((a - 5) ** 2 + (b - 5) ** 2) for a, b in ((0, 0), (2, 1), (0, 1), (2, 0))),
        1.0,
    ]
    squared += [(a - 6) ** 2 + (b - 5) ** 2 for a, b in ((0, 0), (2, 1), (0, 1), (2, 0))]
    w = 2 * sorted(squared)[7]  # fifteen pairs of six rows
    assert alignment == pytest.approx(1 + math.exp(-4 / w) - math.exp(-1 / w) - math.exp(-5 / w))


def test_each_environment_is_compared_with_the_clean_one() -> None:
    """Noise and blur are aligned to clean, each by its own mean, and not to each other: a loop over
    the members of the pairs."""
    random = np.random.default_rng(3)
    first, second = random.normal(size=(9, 4)), random.normal(size=(9, 4))
    environments, partner_environments = [0, 0, 0, 0, 1, 1, 2, 2, 0], [1, 1, 2, 2, 0, 0, 0, 0, 0]
    ours = float(
        found(MMDAlign(), given(first, second, environments, partner_environments)).terms[
            "alignment"
        ]
    )
    group = np.array(
        [*environments[:8], -1, *partner_environments[:8], -1]
    )  # the last row has no partner
    assert ours == pytest.approx(slow(np.concatenate([first, second]), group, 0))
