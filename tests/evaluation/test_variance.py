"""Variance shared out: components by hand, components of drawn scores, and what cannot be shared out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from crosswind.evaluation.variance import (
    CONDITION,
    DATA,
    METHOD,
    SEED,
    SETTING,
    SHIFT,
    SPLIT,
    TOGETHER,
    ScoreKey,
    variance_shares,
)


def key(
    data: str = "d",
    shift: str = "s",
    method: str = "m",
    setting: str = "",
    split: int = 0,
    seed: int = 0,
) -> ScoreKey:
    return ScoreKey(data, shift, method, setting, split, seed)


def test_components_by_hand() -> None:
    """Two methods, two seeds: variances within 0.02 and 0.02; means 0.5 and 0.7, of which the variance
    is 0.02 and that of their noise 0.01."""
    scores = {
        key(method=method, seed=seed): mean + (0.1 if seed else -0.1)
        for method, mean in (("a", 0.5), ("b", 0.7))
        for seed in (0, 1)
    }
    shared = variance_shares(scores)
    assert shared is not None
    assert shared.components == pytest.approx({SEED: 0.02, METHOD: 0.01})
    assert shared.shares == pytest.approx({SEED: 2 / 3, METHOD: 1 / 3})
    assert (shared.scores, shared.left_out) == (4, 0)


def test_what_only_methods_differ_by_is_of_methods() -> None:
    scores = {
        key(shift=shift, method=method, seed=seed): 0.1 * number
        for shift, (number, method), seed in product("xy", enumerate("abc"), (0, 1))
    }
    shared = variance_shares(scores)
    assert shared is not None
    assert shared.shares == pytest.approx({SEED: 0, SHIFT: 0, METHOD: 1, TOGETHER: 0})


@pytest.mark.slow
def test_drawn_scores_have_the_components_that_they_were_drawn_with() -> None:
    rng = np.random.default_rng(0)
    wanted = {
        SEED: 0.02,
        SPLIT: 0.015,
        SETTING: 0.01,
        METHOD: 0.03,
        SHIFT: 0.08,
        DATA: 0.05,
        TOGETHER: 0.02,
    }
    squares: dict[str, list[float]] = {name: [] for name in wanted}
    for _ in range(60):
        of_data, of_shift = rng.normal(0, wanted[DATA], 4), rng.normal(0, wanted[SHIFT], 5)
        of_method = rng.normal(0, wanted[METHOD], 6)
        scores = {}
        for data, shift, method in product(range(4), range(5), range(6)):
            cell = of_data[data] + of_shift[shift] + of_method[method]
            cell += rng.normal(0, wanted[TOGETHER])
            for setting in range(3):
                at_setting = cell + rng.normal(0, wanted[SETTING])
                for split in range(2):
                    at_split = at_setting + rng.normal(0, wanted[SPLIT])
                    for seed in range(3):
                        name = key(str(data), str(shift), str(method), str(setting), split, seed)
                        scores[name] = at_split + rng.normal(0, wanted[SEED])
        shared = variance_shares(scores)
        assert shared is not None
        for part, component in shared.components.items():
            squares[part].append(component)
    spreads = {part: float(np.sqrt(np.mean(values))) for part, values in squares.items()}
    assert spreads == pytest.approx(wanted, rel=0.12)


def test_data_sets_with_shifts_of_their_own_are_one_factor() -> None:
    scores = {
        key(data, f"SC-{data}", method, seed=seed): level + 0.01 * seed
        for (data, level), method, seed in product((("x", 0.4), ("y", 0.8)), "ab", (0, 1))
    }
    shared = variance_shares(scores)
    assert shared is not None and shared.shares[CONDITION] > 0.99
    assert DATA not in shared.components and SHIFT not in shared.components


def test_conditions_that_lack_scores_are_left_out() -> None:
    scores = {
        key(shift=shift, method=method, seed=seed): 0.5 + 0.1 * seed
        for shift, method, seed in product("xy", "ab", (0, 1))
    }
    scores[key(shift="z", method="a")] = 0.9
    shared = variance_shares(scores)
    assert shared is not None and (shared.scores, shared.left_out) == (8, 1)


def test_a_single_run_has_no_variance_to_share() -> None:
    assert variance_shares({key(method=method): 0.5 for method in "ab"}) is None
    assert variance_shares({}) is None
    alone = variance_shares({key(seed=seed): 0.1 * seed for seed in (0, 1)})
    assert alone is not None and alone.shares == {SEED: 1.0}
