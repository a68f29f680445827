"""Norms of weights: by hand, against torch, the operator of a convolution as a dense matrix, which
tensors count."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from crosswind.estimators.base import Answers, Estimate, Labelled
from crosswind.estimators.estimating import estimated
from crosswind.estimators.norms import (
    FrobeniusNorm,
    SpectralNorm,
    WeightNorm,
    frobenius_norm,
    layers,
    spectral_norm,
)

BOTH: list[Any] = [SpectralNorm, FrobeniusNorm]


def network(**weights: np.ndarray) -> Answers:
    named = {name.replace("_", ".", 1): tensor for name, tensor in weights.items()}
    return Answers(np.zeros(2, dtype=np.int64), classes=2, weights=named)


def dense(kernel: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """The periodic convolution as a matrix, by entries: output (o, r, c) reads input (a, r + i, c +
    j) by kernel[o, a, i, j]."""
    out, into, height, width = kernel.shape
    matrix = np.zeros((out, rows, columns, into, rows, columns))
    for o, a, r, c, i, j in np.ndindex(out, into, rows, columns, height, width):
        matrix[o, r, c, a, (r + i) % rows, (c + j) % columns] += kernel[o, a, i, j]
    return matrix.reshape(out * rows * columns, into * rows * columns)


def test_values_by_hand() -> None:
    """diag(3, 4): squared norms 16 and 25. The row (1, 2, 2): 9 and 9. Minus the sum of logs;
    biases and scales do not count."""
    target = network(
        a_weight=np.diag([3.0, -4.0]),
        b_weight=np.array([[1, 2, 2]], dtype=np.float16),
        a_bias=np.array([100.0, 100]),
        n_weight=np.array([50.0, 50]),
        n_running_mean=np.full((2, 2), 9.0),
        d_weight=np.ones((2, 2, 2)),
    )
    assert SpectralNorm().measure(target) == pytest.approx(-math.log(16 * 9))
    assert FrobeniusNorm().measure(target) == pytest.approx(-math.log(25 * 9))
    assert list(layers(target.weights or {})) == ["a.weight", "b.weight"]
    # Attention holds its three matrices in one.
    assert list(layers({"in_proj_weight": np.ones((6, 2)), "pos_embed": np.ones((6, 2))})) == [
        "in_proj_weight"
    ]


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 2, 3, 3), (2, 7, 1, 2), (6, 1, 5, 5)])
def test_torch_says_the_same_of_a_kernel(shape: tuple[int, ...]) -> None:
    weight = np.random.default_rng(0).normal(size=shape)
    matrix = torch.from_numpy(weight.reshape(shape[0], -1))
    assert spectral_norm(weight) == pytest.approx(
        float(torch.linalg.matrix_norm(matrix, 2)), abs=1e-9
    )
    assert frobenius_norm(weight) == pytest.approx(
        float(torch.linalg.matrix_norm(matrix, "fro")), abs=1e-9
    )


@pytest.mark.parametrize(
    "shape", [(2, 3, 3, 3), (3, 2, 2, 3), (1, 1, 1, 1), (2, 2, 5, 4), (2, 1, 3, 7)]
)
@pytest.mark.parametrize("size", [4, 5, 6])
def test_the_operator_is_the_dense_matrix_of_a_periodic_convolution(
    shape: tuple[int, ...], size: int
) -> None:
    weight = np.random.default_rng(1).normal(size=shape)
    matrix = dense(weight, max(size, shape[2]), max(size, shape[3]))
    assert spectral_norm(weight, "operator", size) == pytest.approx(
        float(np.linalg.norm(matrix, 2)), abs=1e-9
    )
    assert frobenius_norm(weight, "operator", size) == pytest.approx(
        float(np.linalg.norm(matrix)), abs=1e-9
    )


def test_the_dense_matrix_is_the_convolution_of_torch() -> None:
    random = np.random.default_rng(2)
    kernel, image = random.normal(size=(2, 3, 3, 3)), random.normal(size=(3, 5, 5))
    padded = torch.nn.functional.pad(torch.from_numpy(image)[None], (0, 2, 0, 2), mode="circular")
    expected = torch.nn.functional.conv2d(padded, torch.from_numpy(kernel))[0].numpy()
    assert (dense(kernel, 5, 5) @ image.reshape(-1)).reshape(2, 5, 5) == pytest.approx(expected)


def test_which_matrix_a_convolution_is_taken_as_is_a_knob() -> None:
    """A 3 x 3 kernel of ones on one channel: norm 3 as a row of nine; as an operator 9, on the
    constant image, of any size."""
    target = network(a_weight=np.ones((1, 1, 3, 3)), b_weight=np.eye(2) * 2)
    assert SpectralNorm().measure(target) == pytest.approx(-math.log(9 * 4))
    for size in (1, 3, 8):
        assert SpectralNorm(convolution="operator", size=size).measure(target) == pytest.approx(
            -math.log(81 * 4)
        )
    assert FrobeniusNorm().measure(target) == pytest.approx(-math.log(9 * 8))
    assert FrobeniusNorm(convolution="operator", size=8).measure(target) == pytest.approx(
        -math.log(9 * 64 * 8)
    )


@pytest.mark.parametrize("kind", BOTH)
def test_a_hundred_layers_do_not_overflow_and_their_order_does_not_matter(kind: Any) -> None:
    random = np.random.default_rng(3)
    weights = {f"{i}.weight": 1e4 * random.normal(size=(4, 4)) for i in range(100)}
    measure: WeightNorm = kind()
    measured = measure.measure(Answers(np.zeros(1, dtype=np.int64), classes=2, weights=weights))
    again = measure.measure(
        Answers(np.zeros(1, dtype=np.int64), classes=2, weights=dict(reversed(weights.items())))
    )
    assert -3000 < measured < -1842 and again == pytest.approx(measured), "100 log 1e8 is 1842"
    smaller = {name: weight / 2 for name, weight in weights.items()}
    assert measure.measure(
        Answers(np.zeros(1, dtype=np.int64), classes=2, weights=smaller)
    ) == pytest.approx(measured + 200 * math.log(2)), "smaller weights measure more"


@pytest.mark.parametrize("kind", BOTH)
def test_networks_are_told_apart_and_sets_are_not(kind: Any) -> None:
    def labelled(scale: float, name: str) -> Labelled:
        return Labelled(network(a_weight=scale * np.eye(2)), np.zeros(2, dtype=np.int64), name)

    pool = [labelled(scale, f"net {scale}") for scale in (1, 2, 3)]
    assert isinstance(estimated(kind(), pool[0], labelled(1.5, "target").answers, pool), Estimate)
    same = [labelled(2, name) for name in ("noise", "blur", "clean")]
    assert "the same number for every set" in str(estimated(kind(), same[2], same[2].answers, same))
    without = Answers(np.zeros(2, dtype=np.int64), classes=2)
    assert "weights of the network are not at hand" in str(
        estimated(kind(), pool[0], without, pool)
    )


@pytest.mark.parametrize("kind", BOTH)
def test_weights_that_have_no_norm_give_no_number(kind: Any) -> None:
    for weight in (
        np.zeros((2, 2)),
        np.array([[1, np.nan]]),
        np.array([[1, np.inf]]),
        np.ones(3),
        np.ones((0, 3)),
    ):
        assert math.isnan(kind().measure(network(a_weight=weight)))
