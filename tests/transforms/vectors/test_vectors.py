"""Neighbours of vectors: noise of the deviations that were asked for, and moves along a sphere, by
hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crosswind.core.errors import InputError
from crosswind.core.registry import load
from crosswind.core.seeds import hash64
from crosswind.transforms.base import Transform

ROWS = 20_000
KEYS = hash64(np.arange(ROWS), 3)


def transform(name: str, **knobs: Any) -> Transform:
    return load("vector-transforms", name)(**knobs)  # type: ignore[no-any-return]


def copies_of(row: list[float], name: str, **knobs: Any) -> np.ndarray:
    """The copies of one row under as many keys, float64 [ROWS, width]."""
    same_rows = torch.tensor([row], dtype=torch.float64).repeat(ROWS, 1)
    return transform(name, **knobs)(same_rows, KEYS).numpy()


def test_jitter_has_the_scale_times_the_deviation_of_each_column() -> None:
    """0.5 of (2, 0, 10) is (1, 0, 5): the column of deviation 0 stays as it is."""
    noise = copies_of([3.0, 1.0, -7.0], "jitter", scale=0.5, deviations=[2, 0, 10]) - [3, 1, -7]
    assert noise.std(axis=0) == pytest.approx([1, 0, 5], rel=0.03)
    assert noise.mean(axis=0) == pytest.approx([0, 0, 0], abs=0.15)
    assert abs(np.corrcoef(noise[:, 0], noise[:, 2])[0, 1]) < 0.03
    assert (copies_of([0.0, 0.0], "jitter", scale=0.5).std(axis=0)) == pytest.approx(0.5, rel=0.03)


def test_on_a_circle_a_chord_ends_where_it_must() -> None:
    """From (3, 4) on the circle of 25, a chord c ends at a y with x.y = 25 - c^2 / 2; by `even` c is
    even in [0, 2], and goes either way."""
    x = np.array([3.0, 4.0])
    y = copies_of([3.0, 4.0], "along-sphere", reach=2, distances="even")
    chords = np.linalg.norm(y - x, axis=1)
    assert np.linalg.norm(y, axis=1) == pytest.approx(5)
    assert y @ x == pytest.approx(25 - chords**2 / 2)
    assert chords.max() < 2 and np.quantile(chords, [0.25, 0.5, 0.75]) == pytest.approx(
        [0.5, 1, 1.5], abs=0.03
    )
    sideways = np.sign(y @ [-4, 3])
    assert abs(sideways.mean()) < 0.03


def test_in_16_numbers_most_of_a_cap_lies_near_its_rim() -> None:
    """c / reach is U^(1/15): its 15th power is even in [0, 1], its mean 15/16. The directions are
    even: they cancel, and each number off the row's axis has a 15th of the square."""
    row = [2.0] + [0.0] * 15
    moves = copies_of(row, "along-sphere", reach=0.01) - row
    shares = np.linalg.norm(moves, axis=1) / 0.01
    assert shares.mean() == pytest.approx(15 / 16, abs=0.002)
    assert np.quantile(shares**15, [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.02)
    around = moves[:, 1:] / np.linalg.norm(moves[:, 1:], axis=1, keepdims=True)
    assert np.abs(around.mean(axis=0)).max() < 0.01
    assert (around**2).mean(axis=0) == pytest.approx(np.full(15, 1 / 15), rel=0.05)
    # Along the row's own axis the chord goes back by c^2 / 2r.
    assert moves[:, 0] == pytest.approx(-((shares * 0.01) ** 2) / 4, abs=1e-12)


def test_no_chord_is_longer_than_the_diameter() -> None:
    y = copies_of([0.0, 0.5, 0.0], "along-sphere", reach=100)
    assert np.linalg.norm(y, axis=1) == pytest.approx(0.5)
    # Even over the whole sphere in three numbers: every number is even in [-r, r] (Archimedes).
    assert np.quantile(y[:, 1], [0.1, 0.5, 0.9]) == pytest.approx([-0.4, 0, 0.4], abs=0.02)


@pytest.mark.parametrize("name", ["jitter", "along-sphere"])
def test_missing_numbers_stay_missing_and_the_others_move(name: str) -> None:
    x = torch.tensor([[3.0, torch.nan, 4.0], [torch.nan, torch.nan, 2.0], [0.0, 0.0, 0.0]])
    y = transform(name)(x, KEYS[:3])
    assert torch.equal(x.isnan(), y.isnan()) and not torch.equal(y[0, [0, 2]], x[0, [0, 2]])
    if name == "along-sphere":
        assert y[0, [0, 2]].norm().item() == pytest.approx(5)
        # One number has no direction along its sphere, and no length no sphere.
        assert y[1, 2] == 2 and torch.equal(y[2], x[2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_the_type_stays_and_no_rows_give_none(dtype: torch.dtype) -> None:
    x = torch.linspace(0.1, 1, 12, dtype=torch.float64).reshape(3, 4).to(dtype)
    for name in ("jitter", "along-sphere"):
        change = transform(name)
        y = change(x, KEYS[:3])
        assert y.dtype == dtype and y.shape == x.shape
        assert torch.equal(change(x.double(), KEYS[:3]).to(dtype), y)
        assert change(x[:0], KEYS[:0]).shape == (0, 4)


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (torch.zeros(3), r"needs a tensor of floats \[n, width\], not float32 \[3\]"),
        (torch.zeros(3, 2, dtype=torch.int64), r"not int64 \[3, 2\]"),
        ([[1.0]], r"not \[\[1.0\]\]"),
        (torch.tensor([[1.0, 2], [1, torch.inf]]), "finite or missing numbers; row 1 has"),
        (torch.zeros(3, 2), "one key for each of 3 numbers, not 2"),
    ],
)
def test_other_inputs_are_refused(x: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=f"^vector transform 'jitter': .*{sentence}"):
        transform("jitter")(x, KEYS[:2])


def test_settings_that_rows_of_a_width_do_not_fit_are_refused() -> None:
    with pytest.raises(
        InputError,
        match="jitter.deviations: needs a number for each of the 3 columns of a row, not 2",
    ):
        transform("jitter", deviations=[1, 1])(torch.zeros(1, 3), KEYS[:1])
    with pytest.raises(InputError, match="rows of two numbers or more .* these have one"):
        transform("along-sphere")(torch.zeros(1, 1), KEYS[:1])
    for name, knobs, field in (
        ("jitter", {"scale": 0}, "jitter.scale"),
        ("jitter", {"deviations": [1, -1]}, "jitter.deviations"),
        ("along-sphere", {"reach": -1}, "along-sphere.reach"),
        ("along-sphere", {"distances": "uniform"}, "along-sphere.distances"),
    ):
        with pytest.raises(InputError, match=f"^{field}: "):
            transform(name, **knobs)
