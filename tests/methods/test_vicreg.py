from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.methods.pairs import Plain, info

from crosswind.methods.vicreg import VICReg, vicreg_terms


def terms(one: object, other: object, counts: list[bool]) -> list[float]:
    rows = [torch.as_tensor(np.asarray(part, dtype=np.float64)) for part in (one, other)]
    return [float(term) for term in vicreg_terms(rows[0], rows[1], torch.tensor(counts))]


ONE, OTHER = [[0, 0], [2, 1]], [[0, 0.5], [0, 0.5]]


def test_terms_by_hand() -> None:
    """n = d = 2. Invariance: differences (0, -0.5) and (2, 0.5), (0.25 + 4 + 0.25) / 4 = 1.125.

    Variances (2, 0.5) of the first and (0, 0) of the second: deviations sqrt(2.0001), which lacks
    nothing, and sqrt(0.5001); twice sqrt(0.0001) = 0.01. So ((1 - sqrt(0.5001)) / 2 + 0.99) / 2.
    Covariance of the first: (-1)(-0.5) + (1)(0.5) = 1 over n - 1 = 1, twice off the diagonal: 2 x 1
    / d = 1; of the second 0.
    """
    found = terms(ONE, OTHER, [True, True])
    assert found == pytest.approx([1.125, ((1 - 0.5001**0.5) / 2 + 0.99) / 2, 1.0])
    total = (
        VICReg().invariance * found[0]
        + VICReg().variance * found[1]
        + VICReg().covariance * found[2]
    )
    assert total == pytest.approx(25 * 1.125 + 25 * 0.5682055 + 1, abs=1e-4)


def test_rows_that_do_not_count_change_nothing() -> None:
    more = [[[9, 9], *ONE, [-7, 3]], [[1, 5], *OTHER, [4, 4]]]
    assert terms(*more, [False, True, True, False]) == pytest.approx(
        terms(ONE, OTHER, [True, True])
    )


def test_one_pair_has_no_variance_and_none_has_nothing() -> None:
    """(0.25 + 0) / 2 of the first alone."""
    assert terms(ONE, OTHER, [True, False]) == pytest.approx([0.125, 0, 0])
    assert terms(ONE, OTHER, [False, False]) == [0, 0, 0]


@pytest.mark.parametrize(("n", "d"), [(20, 5), (6, 30)])
def test_terms_are_those_of_numpys_covariances(n: int, d: int) -> None:
    """With fewer rows than columns, whose products are then of rows, and with more."""
    random = np.random.default_rng(0)
    one, other, counts = (
        random.normal(size=(n, d)),
        random.normal(1, 2, size=(n, d)),
        random.random(n) < 0.7,
    )
    a, b = one[counts], other[counts]
    variance = correlation = 0.0
    for rows in (a, b):
        matrix = np.cov(rows.T)
        variance += sum(max(0.0, 1 - (matrix[j, j] + 1e-4) ** 0.5) for j in range(d)) / d / 2
        correlation += sum(matrix[i, j] ** 2 for i in range(d) for j in range(d) if i != j) / d
    assert counts.sum() > 2
    assert terms(one, other, counts.tolist()) == pytest.approx(
        [((a - b) ** 2).mean(), variance, correlation]
    )


def test_expander_is_three_layers_of_the_width_and_sees_both_members_at_once() -> None:
    modules = VICReg(width=6).modules(info(), lambda **_: Plain())  # type: ignore[arg-type]
    kinds = [type(part).__name__ for part in modules["expander"]]  # type: ignore[arg-type]
    assert kinds == ["Linear", "BatchNorm1d", "ReLU", "Linear", "BatchNorm1d", "ReLU", "Linear"]
    shapes = [tuple(p.shape) for p in modules["expander"].parameters() if p.ndim == 2]
    assert shapes == [(6, 2), (6, 6), (6, 6)]
