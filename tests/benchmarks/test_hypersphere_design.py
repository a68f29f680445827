from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.papers import hypersphere_design as hypersphere
from benchmarks.papers.hypersphere_design import (
    Design,
    Fit,
    atc_estimate,
    atc_fit,
    centres_at,
    cloud,
    inside,
    invariance,
    margins,
    measured,
    noisy,
    perturbed,
    pole,
    repeated,
    taus,
    trained,
)
from scipy.stats import kstest, ncx2, norm

from crosswind.core.errors import InputError
from crosswind.core.seeds import stream
from crosswind.training.many_networks import Stack

SMALL = Design(
    rows=60,
    networks=6,
    hidden=4,
    dimensions=5,
    variance=0.02,
    distances=3,
    centres=2,
    neighbours=3,
    reach=0.2,
)
FEW = Fit(lr=1e-2, steps=30, batch=16)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# -- points ----------------------------------------------------------------------------------------


def test_published_distances_and_centres_on_their_circles() -> None:
    angles = Design().angles
    assert (
        len(angles) == 40
        and angles[0] == 0
        and angles[-1] == np.pi
        and np.allclose(np.diff(angles), np.pi / 39)
    )
    for angle in angles:
        centres = centres_at(float(angle), 5, 16, rng())
        assert np.allclose(np.linalg.norm(centres, axis=1), 1)
        assert np.allclose(
            np.arctan2(np.linalg.norm(centres[:, 1:], axis=1), centres @ pole(16)), angle
        )
    many = centres_at(1.0, 4000, 16, rng())[:, 1:]
    assert np.abs(many.mean(0)).max() < 0.02, "the circle is not covered evenly"
    assert len(np.unique(many[:, 0])) == 4000


def test_clouds_have_the_variance_and_the_share_inside_of_a_shifted_chi_square() -> None:
    """|x|^2 / 0.005 is chi-square with 16 degrees of freedom and offset 1 / 0.005 = 200, and inside
    means at most 200. By a normal law: mean 216, variance 2 (16 + 2 * 200) = 832; (200 - 216) /
    28.8 = -0.555, below which 0.29 lies."""
    x = cloud(centres_at(1.0, 1, 16, rng())[0], 200_000, 0.005, rng(1))
    assert np.allclose(x.var(axis=0), 0.005, rtol=0.03)
    exact = float(ncx2.cdf(200, 16, 200))
    assert norm.cdf(-0.555) == pytest.approx(0.29, abs=0.001) and exact == pytest.approx(
        0.298, abs=0.002
    )
    assert inside(x).mean() == pytest.approx(exact, abs=0.005)
    assert inside(np.array([[0.6, 0.8], [0.6, 0.81], [0.0, 0.0]])).tolist() == [1, 0, 1]


@pytest.mark.parametrize("near", ["cap", "distance"])
def test_perturbations_keep_norm_and_label_and_follow_their_law(near: str) -> None:
    x = cloud(pole(16), 800, 0.005, rng())
    out = perturbed(x, 10, 0.01, rng(), near)
    assert out.shape == (800, 10, 16)
    assert np.allclose(np.linalg.norm(out, axis=2), np.linalg.norm(x, axis=1)[:, None], rtol=1e-12)
    assert (inside(out) == inside(x)[:, None]).all()
    far = np.linalg.norm(out - x[:, None], axis=2)
    assert far.min() > 0 and far.max() <= 0.01 + 1e-12
    law = (lambda d: (d / 0.01) ** 15) if near == "cap" else (lambda d: d / 0.01)
    assert kstest(far.ravel(), law).pvalue > 0.01
    along = (out - x[:, None])[:, :, 1:] / far[..., None]
    assert np.abs(along.mean(axis=(0, 1))).max() < 0.01, "directions are not even"


def test_a_cap_is_uniform_also_where_it_is_the_whole_sphere() -> None:
    """In three dimensions the area within a chord d is pi d^2 exactly, so the law of d holds for
    any reach: here the whole sphere, over which the mean of a uniform point is 0 and of each
    coordinate's square 1 / 3."""
    out = perturbed(np.tile([[0.0, 0.6, 0.8]], (4000, 1)), 5, 9.0, rng()).reshape(-1, 3)
    assert np.allclose(np.linalg.norm(out, axis=1), 1)
    assert np.abs(out.mean(axis=0)).max() < 0.02 and np.allclose(
        (out**2).mean(axis=0), 1 / 3, atol=0.01
    )
    with pytest.raises(InputError, match="near: 'far' is no law"):
        perturbed(np.ones((1, 3)), 1, 0.1, rng(), "far")


def test_noise_is_as_large_as_drawn() -> None:
    y = inside(cloud(pole(16), 1000, 0.005, rng()))
    rates = np.array([0.0, 0.1, 0.1236, 0.3])
    flipped = noisy(y, rates, rng(), flips=True)
    assert (flipped != y).sum(axis=1).tolist() == [0, 100, 124, 300]
    changed = np.array([(noisy(y, rates, rng(seed)) != y).sum(axis=1) for seed in range(50)])
    # A draw over both labels changes half of the rows drawn: 300 coins 50 times, standard error 8.7
    # / 7.1 = 1.2.
    assert changed[:, 0].max() == 0 and changed[:, 3].mean() == pytest.approx(150, abs=5)
    assert changed[:, 3].max() < 200


# -- measures --------------------------------------------------------------------------------------


def test_invariance_by_hand_and_by_a_loop() -> None:
    """Three rows of 1 + 3 copies with 4, 3 and 2 equal answers: (1 + 0.75 + 0.5) / 3 = 0.75."""
    answers = np.array([[0, 0, 0, 0], [1, 1, 0, 1], [0, 1, 1, 0]], dtype=bool)
    assert invariance(answers) == 0.75
    said = rng().random((7, 30, 11)) < 0.8
    slow = [
        np.mean([max(list(row).count(True), list(row).count(False)) / 11 for row in network])
        for network in said
    ]
    assert np.allclose(invariance(said), slow, atol=1e-12)


def slow_atc(score: list[float], right: list[bool], target: list[float]) -> float:
    errors = sum(not entry_of_row for entry_of_row in right)
    if errors in (0, len(score)):
        return float(errors == 0)
    ordered = sorted(score)
    threshold = (ordered[errors - 1] + ordered[errors]) / 2
    tied = sum(entry_of_row == threshold for entry_of_row in score)
    share = (
        (sum(right) - sum(entry_of_row > threshold for entry_of_row in score)) / tied
        if tied
        else 0.0
    )
    return sum(
        1.0 if entry_of_row > threshold else share if entry_of_row == threshold else 0.0
        for entry_of_row in target
    ) / len(target)


@pytest.mark.parametrize("ties", [False, True])
def test_atc_is_exact_on_its_source_and_equals_a_loop(ties: bool) -> None:
    score, target = rng().random((8, 50)), rng(1).random((8, 40))
    if ties:
        score, target = np.round(score * 4), np.round(target * 4)
    right = rng(2).random((8, 50)) < np.linspace(0.2, 0.9, 8)[:, None]
    right[0], right[1] = True, False
    fitted = atc_fit(score, right)
    assert np.allclose(atc_estimate(fitted, score), right.mean(axis=1), atol=1e-12)
    slow = [
        slow_atc(*network_row)
        for network_row in zip(score.tolist(), right.tolist(), target.tolist(), strict=True)
    ]
    assert np.allclose(atc_estimate(fitted, target), slow, atol=1e-12)
    assert slow[0] == 1 and slow[1] == 0


def test_atc_by_hand() -> None:
    """Scores 1 to 4, one error: the threshold is 1.5, so of the target's 1, 2, 3, 9 three pass."""
    fitted = atc_fit(np.array([[4.0, 1.0, 3.0, 2.0]]), np.array([[True, True, False, True]]))
    assert fitted[0].tolist() == [1.5]
    assert atc_estimate(fitted, np.array([[1.0, 2.0, 3.0, 9.0]])).tolist() == [0.75]


def test_tau_by_counting_pairs() -> None:
    """Of 1, 2, 3 and 1, 3, 2 two pairs agree and one does not: 1 / 3. Tied pairs enlarge the
    geometric mean below the line less."""
    assert taus(np.array([1.0, 2, 3]), np.array([1.0, 3, 2])) == pytest.approx(1 / 3)
    a, b = rng().integers(0, 6, (2, 3, 4, 15)).astype(float)
    taus_found = taus(a, b)
    for index in np.ndindex(3, 4):
        up = np.sign(np.subtract.outer(a[index], a[index]))
        across = np.sign(np.subtract.outer(b[index], b[index]))
        assert taus_found[index] == pytest.approx(
            (up * across).sum() / np.sqrt((up**2).sum() * (across**2).sum()), abs=1e-12
        )
    assert np.isnan(taus(np.ones((1, 4)), np.arange(4.0)[None])).all() and np.isnan(
        taus(np.arange(4.0), np.ones(4))
    )


# -- the whole -------------------------------------------------------------------------------------


def test_margins_are_the_difference_of_the_logits() -> None:
    stack = trained(
        replace(SMALL, networks=27), replace(FEW, steps=2), 0
    ).stack  # more than are asked at once
    x = rng().standard_normal((600, 5))  # more than are asked about at once
    logits = stack.logits(torch.from_numpy(x).float()[None])
    assert np.allclose(margins(stack, x), (logits[:, :, 1] - logits[:, :, 0]).numpy(), atol=1e-5)


def answers_of(stack: Stack, place: int, x: np.ndarray) -> np.ndarray:
    """What one network says, by the definition."""
    own_parameters = {
        name: value[place].double().numpy() for name, value in stack.parameters.items()
    }
    units = np.maximum(x @ own_parameters["0.weight"].T + own_parameters["0.bias"], 0)
    return units @ own_parameters["2.weight"].T + own_parameters["2.bias"]


def test_a_tiny_whole_equals_one_network_and_cloud_after_the_other() -> None:
    networks = trained(SMALL, FEW, 3)
    stack, figures = networks.stack, measured(networks, SMALL, 3)
    assert figures.accuracy.shape == figures.estimate.shape == figures.invariance.shape == (3, 2, 6)
    held_out = cloud(pole(5), 60, 0.02, stream(3, "hypersphere", "held out"))
    for step, angle in enumerate((0.0, np.pi / 2, np.pi)):
        draws = stream(3, "hypersphere", "clouds", step)
        for number, centre in enumerate(centres_at(angle, 2, 5, draws)):
            x = cloud(centre, 60, 0.02, draws)
            neighbours = perturbed(x, 3, 0.2, draws)
            y = np.array([float(np.sqrt((row**2).sum()) <= 1) for row in x])
            assert figures.inside[step, number] == y.mean()
            for network in range(6):
                logits = answers_of(stack, network, x)
                answer, confidence = logits.argmax(1), np.abs(logits[:, 1] - logits[:, 0])
                index = step, number, network
                assert figures.accuracy[index] == pytest.approx((answer == y).mean(), abs=1e-12)
                assert figures.said_inside[index] == pytest.approx(answer.mean(), abs=1e-12)
                shares = []
                for row in range(60):
                    answers = [
                        int(answer[row]),
                        *answers_of(stack, network, neighbours[row]).argmax(1).tolist(),
                    ]
                    shares.append(max(answers.count(0), answers.count(1)) / 4)
                assert figures.invariance[index] == pytest.approx(np.mean(shares), abs=1e-12)
                source = answers_of(stack, network, held_out)
                right = source.argmax(1) == inside(held_out)
                slow = slow_atc(
                    np.abs(source[:, 1] - source[:, 0]).tolist(),
                    right.tolist(),
                    confidence.tolist(),
                )
                assert figures.estimate[index] == pytest.approx(slow, abs=1e-12)
                assert figures.held_out[network] == right.mean()
    assert 0 < figures.said_inside.mean() < 1 and figures.invariance.min() < 1, (
        "nothing to tell apart"
    )


def test_loss_is_that_of_the_labels_trained_on() -> None:
    """With rate 0 the labels are the true ones."""
    networks = trained(replace(SMALL, noise=0.0), FEW, 5)
    x = cloud(pole(5), 60, 0.02, stream(5, "hypersphere", "training"))
    for network in range(6):
        logits = torch.from_numpy(answers_of(networks.stack, network, x))
        loss_by_hand = torch.nn.functional.cross_entropy(logits, torch.from_numpy(inside(x))).item()
        assert networks.loss[network] == pytest.approx(loss_by_hand, abs=1e-6)


def test_same_seed_same_numbers_whatever_the_threads_and_other_seeds_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        hypersphere, "_TRAINED", 3
    )  # two groups, so that threads have something to share
    first, second = repeated(SMALL, FEW, [0, 1])
    again = repeated(SMALL, FEW, [1], threads=2)[0]
    for name in vars(first):
        assert np.array_equal(getattr(second, name), getattr(again, name)), name
        assert not np.array_equal(getattr(first, name), getattr(second, name)), name
    # Another fit meets the same points and the same noise.
    slower = repeated(SMALL, replace(FEW, lr=1e-3), [0])[0]
    assert np.array_equal(slower.inside, first.inside) and np.array_equal(slower.rates, first.rates)
    assert not np.array_equal(slower.accuracy, first.accuracy)
    assert (first.rates < 0.3).all() and (first.rates >= 0).all() and len(set(first.rates)) == 6


def test_networks_learn_the_sphere_and_differ_by_their_noise() -> None:
    design = replace(SMALL, dimensions=2, rows=300, networks=10, hidden=16, variance=0.1)
    networks = trained(replace(design, noise=1.0), Fit(lr=2e-2, steps=250, batch=None), 0)
    held_out = measured(networks, design, 0).held_out
    clean = measured(
        trained(replace(design, noise=0.0), Fit(lr=2e-2, steps=250, batch=None), 0), design, 0
    ).held_out
    assert (
        clean.min() > 0.9
        and held_out[networks.rates > 0.9].max(initial=0) < clean.min()
        and held_out.mean() < clean.mean()
    )
