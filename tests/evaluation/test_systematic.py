"""rho by hand, in the tables of the paper, and by bootstrap; effective robustness on a real table
of 338 networks."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.special import expit, logit
from scipy.stats import linregress

from crosswind.core.types import Predictions
from crosswind.evaluation.metrics import METRICS, scores
from crosswind.evaluation.systematic import (
    by_environment,
    effective_robustness,
    rho,
    systematic,
    systematic_scores,
)

DATA = Path(os.environ.get("CROSSWIND_TEST_DATA", "../shared/data"))
_POINT = 0.005  # printed accuracies are whole points: each may be half a point off


def test_equation_1_by_hand() -> None:
    assert rho(0.8, 0.6) == pytest.approx(0.75)
    assert rho(0.8, 0.6, 0.4) == pytest.approx(0.5)
    assert rho(0.8, 0.3, 0.4) == 0.0  # below the reference
    assert rho(0.5, 0.9, 0.4) == 1.0
    assert (
        rho(0.4, 0.6, 0.4) is None and rho(0.3, 0.6, 0.4) is None
    )  # nothing was learned: undefined
    assert rho(0.0, 0.0) is None


TABLE_2 = {  # reference (T_N x C of the first row), seen, unseen, printed rho
    "150det 0.5": (29, 70, 53, 0.59),
    "200adv 0.5": (40, 79, 66, 0.66),
    "1000cls 0.1": (32, 69, 49, 0.46),
    "1000cls 0.25": (32, 66, 54, 0.69),
    "1000cls 0.5": (32, 64, 57, 0.78),
    "1000cls 0.5 all superclasses": (32, 68, 52, 0.56),
    "1000cls 0.5 no superclasses": (32, 57, 63, 0.81),
}
# Noise, blur, digital, weather: the pretrained network on C1, a quarter of the classes as in table
# 1, and on C2, the others.
REFERENCE_3 = ((29, 26), (43, 44), (32, 25), (32, 31))
TABLE_3 = {
    "none": ((72, 42, 0.34), (68, 45, 0.05), (76, 32, 0.10), (75, 48, 0.37)),
    "N B W D": ((67, 60, 0.81), (64, 57, 0.65), (72, 52, 0.56), (71, 64, 0.81)),
    "N": ((70, 61, 0.80), (63, 39, 0.00), (72, 24, 0.00), (69, 29, 0.00)),
    "B": ((70, 37, 0.23), (66, 56, 0.54), (74, 26, 0.00), (72, 35, 0.10)),
    "W, third": ((68, 29, 0.04), (65, 39, 0.00), (76, 54, 0.56), (72, 35, 0.09)),
    "D, fourth": ((70, 33, 0.13), (66, 37, 0.00), (73, 27, 0.00), (76, 70, 0.87)),
    "N B W": ((68, 60, 0.81), (64, 56, 0.61), (73, 22, 0.00), (72, 64, 0.82)),
    "N B D": ((68, 59, 0.79), (63, 55, 0.61), (73, 52, 0.54), (70, 31, 0.00)),
    "N W D": ((68, 60, 0.80), (64, 37, 0.00), (73, 54, 0.58), (72, 65, 0.83)),
    "B W D": ((68, 25, 0.00), (64, 56, 0.59), (74, 52, 0.54), (72, 65, 0.82)),
}
SWAPPED = {"W, third", "D, fourth"}
"""Their numbers fit equation 1, but they align weather and digital images and are printed as if
they had aligned the other."""


def agrees(reference: float, seen_rows: float, unseen: float, printed: float, slack: float) -> bool:
    """Whether accuracies within `slack` of those printed give the printed rho, which is rounded to
    0.01."""
    seen_rows, unseen, reference = seen_rows / 100, unseen / 100, reference / 100
    low = rho(seen_rows + slack, unseen - slack, reference + slack) or 0.0
    high = rho(seen_rows - slack, unseen + slack, reference - slack)
    return low - 0.005 <= printed <= (1.0 if high is None else high) + 0.005


def test_rows_of_table_2_follow_from_equation_1_and_two_do_not() -> None:
    wrong = {name for name, row in TABLE_2.items() if not agrees(*row, _POINT)}
    assert wrong == {"1000cls 0.25", "1000cls 0.5 no superclasses"}
    assert rho(0.66, 0.54, 0.32) == pytest.approx(0.647, abs=1e-3)  # 0.69 is printed
    assert rho(0.57, 0.63, 0.32) == 1.0  # 0.81 is printed: what the two accuracies swapped give
    assert rho(0.63, 0.57, 0.32) == pytest.approx(0.81, abs=5e-3)


def test_rows_of_table_3_follow_from_equation_1() -> None:
    checked, wrong = 0, set()
    for name, row in TABLE_3.items():
        for (single_seed, unseen_reference), (seen_rows, unseen, printed) in zip(
            REFERENCE_3, row, strict=True
        ):
            checked += 1
            if not agrees(
                (single_seed + 3 * unseen_reference) / 4, seen_rows, unseen, printed, _POINT
            ):
                wrong.add((name, seen_rows, unseen, printed))
    assert checked == 40
    assert wrong == set(), wrong


@pytest.mark.slow
def test_the_interval_covers_over_rows_and_seeds() -> None:
    """Runs whose true accuracies vary; 95% intervals hold the true rho, 0.5 / 0.8, in 90% of 200
    trials or more."""
    generator = np.random.default_rng(0)
    seen_rows = np.arange(400) < 100
    covered = 0
    for trial in range(200):
        chance = np.where(seen_rows, 0.8, 0.5)
        right = generator.random((8, 400)) < np.clip(
            chance + 0.05 * generator.standard_normal((8, 1)), 0, 1
        )
        systematic_scores = systematic(right, seen_rows, replicates=300, seed=trial)
        assert (
            systematic_scores.low is not None
            and systematic_scores.high is not None
            and systematic_scores.rho is not None
            and systematic_scores.low <= systematic_scores.rho <= systematic_scores.high
        )
        covered += systematic_scores.low <= 0.5 / 0.8 <= systematic_scores.high
    assert covered >= 180, covered


def test_an_interval_repeats_is_wider_over_seeds_and_is_none_where_rho_is_often_undefined() -> None:
    generator = np.random.default_rng(1)
    seen_rows = np.arange(300) < 150
    single_seed = generator.random((1, 300)) < 0.7
    assert systematic(single_seed, seen_rows) == systematic(single_seed, seen_rows)
    spread = np.stack(
        [generator.random(300) < np.where(seen_rows, 0.9, p) for p in (0.2, 0.5, 0.8)]
    )
    same = np.repeat(spread[1:2], 3, axis=0)
    wide, narrow = systematic(spread, seen_rows), systematic(same, seen_rows)
    assert (
        wide.low is not None
        and wide.high is not None
        and narrow.low is not None
        and narrow.high is not None
    )
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    near_reference = systematic(single_seed, seen_rows, single_seed)
    assert near_reference.low is None and near_reference.undefined > 0.05
    assert near_reference.reference == pytest.approx(float(single_seed.mean()))
    with pytest.raises(ValueError, match="of classes that training showed there, and of others"):
        systematic(single_seed, np.ones(300, bool))


def test_an_interval_of_rho_does_not_collapse_where_no_row_is_wrong_by_hand() -> None:
    """Of n right answers the chance is p^n = .025 at the lower end: 100 unseen rows reach down to
    .025^(1/100) of the seen accuracy."""
    seen_rows = np.arange(150) < 50
    systematic_scores = systematic(np.ones((1, 150), bool), seen_rows)
    assert systematic_scores.rho == 1
    assert (systematic_scores.low, systematic_scores.high) == (
        pytest.approx(0.025 ** (1 / 100)),
        1.0,
    )
    again = systematic(np.ones((5, 150), bool), seen_rows)
    assert (again.low, again.high) == (systematic_scores.low, systematic_scores.high), (
        "seeds that answer alike tell no more"
    )
    single_seed = systematic(np.ones((1, 51), bool), np.arange(51) < 50)
    assert single_seed.low == pytest.approx(0.025), "one unseen row"


def test_an_interval_of_rho_does_not_collapse_where_every_unseen_row_is_wrong_by_hand() -> None:
    """rho = 0 / .5; of 20 wrong answers (1 - u)^20 = .025 at the upper end u, and rho ends there at
    u / .5."""
    seen_rows = np.arange(60) < 40
    right = np.zeros((1, 60), bool)
    right[0, :20] = True
    systematic_scores = systematic(right, seen_rows)
    assert systematic_scores.rho == systematic_scores.low == 0
    assert systematic_scores.high == pytest.approx((1 - 0.025 ** (1 / 20)) / 0.5)
    low = systematic(right[:, ::2], seen_rows[::2])
    assert (
        low.high is not None
        and systematic_scores.high is not None
        and low.high > systematic_scores.high
    ), "half the rows"


def test_an_interval_of_rho_holds_the_bounds_of_seen_and_unseen_rows_by_hand() -> None:
    """No mistake of the 30 seen rows, none of the 10 unseen right, and a reference that is right on
    none: above rho = 0 reaches u = 1 - .025^(1/10) alone, whatever the seen accuracy."""
    seen_rows = np.arange(40) < 30
    systematic_scores = systematic(seen_rows[None], seen_rows, np.zeros((1, 40), bool))
    assert systematic_scores.rho == systematic_scores.low == 0
    assert systematic_scores.high == pytest.approx(1 - 0.025 ** (1 / 10))
    # Seen 30 of 30, unseen 6 of 12: below, u = 1 - CP; above, u and s = .025^(1/30) in quadrature.
    right = np.concatenate([np.ones(30, bool), np.arange(12) < 6])
    half = systematic(right[None], np.arange(42) < 30)
    above = 0.2891  # the exact bounds of 6 of 12 are .2109 and .7891, as printed in tables
    by_seen = 0.5 / 0.025 ** (1 / 30) - 0.5
    assert half.low is not None and half.low <= 0.5 - above + 1e-4
    assert half.high is not None and half.high >= 0.5 + np.hypot(above, by_seen) - 1e-4


def test_an_interval_of_rho_widens_by_a_reference_that_is_right_on_no_row_by_hand() -> None:
    """20 of 20 seen rows, 10 of 20 unseen ones, and a reference 0 of 40, which may be r = 1 -
    .025^(1/40): rho falls from .5 to (.5 - r) / (1 - r)."""
    seen_rows = np.arange(40) < 20
    right = (np.arange(40) < 30)[None]
    bare, systematic_scores = (
        systematic(right, seen_rows),
        systematic(right, seen_rows, np.zeros((1, 40), bool)),
    )
    r = 1 - 0.025 ** (1 / 40)
    below = 0.5 - 0.2720  # the exact bounds of 10 of 20 are .2720 and .7280
    assert bare.rho == systematic_scores.rho == 0.5
    assert bare.low == pytest.approx(0.5 - below, abs=1e-4)
    assert systematic_scores.low == pytest.approx(
        0.5 - np.hypot(below, 0.5 - (0.5 - r) / (1 - r)), abs=1e-4
    )


def test_bounds_that_reach_the_reference_leave_rho_open_above() -> None:
    """One seen row that is right: its accuracy may be .025, and rho whatever."""
    seen_rows = np.arange(21) < 1
    systematic_scores = systematic(np.arange(21)[None] < 6, seen_rows)
    assert systematic_scores.rho == pytest.approx(0.25) and systematic_scores.high == 1
    assert systematic_scores.low is not None and systematic_scores.low < 0.1


def test_seeds_that_err_on_other_rows_count_as_more_rows() -> None:
    """Eight runs, right on 70% of 200 rows: the same ones each time, or others."""
    generator = np.random.default_rng(0)
    seen_rows = np.arange(200) < 100
    alike = np.repeat(generator.random((1, 200)) < 0.7, 8, axis=0)
    other_right = generator.random((8, 200)) < 0.7
    ends = [systematic(right, seen_rows) for right in (alike, other_right)]
    widths = [
        interval_end.high - interval_end.low
        for interval_end in ends
        if interval_end.high is not None and interval_end.low is not None
    ]
    assert len(widths) == 2 and widths[0] > 1.5 * widths[1]
    once = other_right.copy()
    once[:, 100:] = True
    several = systematic(once, seen_rows)
    once[0, 150] = False
    mistake = systematic(once, seen_rows)
    assert several.low is not None and mistake.low is not None
    assert mistake.low <= several.low + 0.01, "a mistake in 800 answers tells hardly more than none"


def test_scores_tell_seen_and_unseen_pairs_of_every_environment_that_has_both() -> None:
    """Two classes, clean and noise; noise is seen of class a alone: 3 of 4 right there, 1 of 2 of
    class b. Clean is of both."""
    names = ["y=a, e=clean", "y=a, e=noise", "y=b, e=clean", "y=b, e=noise"]
    group = np.array([0, 1, 1, 1, 1, 2, 3, 3])
    label = group // 2
    answer = np.where([1, 1, 1, 1, 0, 1, 1, 0], label, 1 - label)
    predictions = Predictions(np.arange(8), label, group, answer, None)
    told = scores(predictions, names, ["a", "b"], seen=[True, True, True, False])
    assert (told["seen_accuracy"], told["unseen_accuracy"]) == (0.75, 0.5)
    assert told["rho"] == pytest.approx(2 / 3)
    assert (
        set(told["environments"]) == {"e=noise"}
        and told["environments"]["e=noise"]["n_unseen"] == 2
    )
    assert scores(predictions, names, ["a", "b"])["rho"] is None
    assert all(name in METRICS for name in ("seen_accuracy", "unseen_accuracy", "rho"))
    nothing = by_environment(
        (answer == label)[None], group, [True] * 4, names, ["a", "b"], replicates=0
    )
    assert systematic_scores(nothing) == {
        "seen_accuracy": None,
        "unseen_accuracy": None,
        "rho": None,
        "environments": {},
    }
    assert (
        systematic_scores(
            by_environment(
                np.zeros((1, 8), bool), group, [True, True, True, False], names, ["a", "b"]
            )
        )["rho"]
        is None
    )


def test_effective_robustness_by_hand() -> None:
    """Three baseline models on logit(y) = 2 logit(x) - 1, and one that is 0.1 above the line."""
    x = np.array([0.5, 0.6, 0.8, 0.7, np.nan, 1.0])
    y = expit(2 * logit(np.where(np.isfinite(x) & (x < 1), x, 0.5)) - 1) + np.array(
        [0, 0, 0, 0.1, 0, 0]
    )
    gap, line = effective_robustness(x, y, np.array([True, True, True, False, True, True]))
    assert (
        line.slope == pytest.approx(2)
        and line.intercept == pytest.approx(-1)
        and line.r2 == pytest.approx(1)
        and line.n == 3
    )
    assert np.allclose(gap[:4], [0, 0, 0, 0.1]) and np.isnan(gap[4:]).all()
    with pytest.raises(ValueError, match="at least two different accuracies"):
        effective_robustness(np.array([0.5, 0.5]), np.array([0.3, 0.4]))


@pytest.mark.skipif(
    not (DATA / "imagenet_testbed_top1.csv").exists(),
    reason="CROSSWIND_TEST_DATA has no imagenet_testbed_top1.csv",
)
def test_effective_robustness_of_338_published_networks() -> None:
    """As another least squares has it; V2 is on a line, and two networks that ImageNet did not
    train lie above every other line."""
    table = pl.read_csv(DATA / "imagenet_testbed_top1.csv")
    assert table.shape == (338, 214)
    names = np.array(table["model"].to_list())
    top = {name: table[name].to_numpy() / 100 for name in table.columns if name != "model"}
    robustness = {}
    for shifted in (
        "imagenetv2-matched-frequency",
        "imagenet-sketch",
        "imagenet-r",
        "objectnet-1.0-beta",
    ):
        gap, line = effective_robustness(top["val"], top[shifted])
        usable = np.isfinite(gap)
        other_line = linregress(logit(top["val"][usable]), logit(top[shifted][usable]))
        assert np.allclose(
            (line.slope, line.intercept, line.r2),
            (other_line.slope, other_line.intercept, other_line.rvalue**2),
        )
        robustness[shifted] = (gap, line)
    assert (
        robustness["imagenetv2-matched-frequency"][1].r2
        > 0.999
        > 0.98
        > robustness["imagenet-sketch"][1].r2
    )
    for gap, _ in robustness.values():
        assert set(names[np.argsort(-np.where(np.isfinite(gap), gap, -1))[:2]]) == {
            "vit_b_32_clip_zeroshot",
            "resnet50_clip_zeroshot",
        }
