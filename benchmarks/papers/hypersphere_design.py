"""Neighbourhood invariance against distance: the toy analysis of Ng et al. 2022, section 5.1 and
figure 3.

Points lie inside or outside the unit sphere. Networks learn that from a Gaussian cloud around a
pole of the sphere and are asked about clouds whose centres lie on the sphere, further and further
away. How well do two measures that read no label order the networks by accuracy there:
neighbourhood invariance, and the accuracy that ATC-MC estimates?

The paper gives no optimiser, activation, initial weights, kind of label noise or law of the
perturbations. Here: `Fit`, ReLU, those of `torch.nn.Linear`, a uniform draw over both labels (as
elsewhere in the paper), and uniform over all allowed ones. Every draw is a function of a seed and
its name, none depends on the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import kendalltau
from torch import Tensor, nn

from crosswind.core.errors import InputError
from crosswind.core.seeds import seed_of, stream, torch_seed
from crosswind.training.many_networks import Member, Stack, train_stack

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# What the hidden units of some networks say of some points stays in the processor's cache.
_NETWORKS, _COLUMNS = 25, 500  # asked at once, and the points
_TRAINED, _SEEN = (
    100,
    50_000,
)  # networks trained as one at most, and the rows that all of them see in a step


@dataclass(frozen=True)
class Design:
    """The design as published. `variance`: of each coordinate. `noise`: the highest share of labels
    drawn anew. `distances`: how many angles from 0 to pi. `centres`: clouds at each. `neighbours`:
    of each point, within the Euclidean distance `reach`.

    Not published: `near`, the law of the perturbations, see `perturbed`; `flips`: a noisy label is
    the other one, not a draw of both.
    """

    dimensions: int = 16
    variance: float = 0.005
    rows: int = 1000
    networks: int = 200
    hidden: int = 16
    noise: float = 0.3
    distances: int = 40
    centres: int = 5
    neighbours: int = 10
    reach: float = 0.01
    near: str = "cap"
    flips: bool = False

    @property
    def angles(self) -> Floats:
        """The distances of the centres from the pole, in radians, float64 [distances]."""
        return np.linspace(0, np.pi, self.distances)


@dataclass(frozen=True)
class Fit:
    """How the networks are trained; nothing of it is published. `batch` None: all rows at every
    step. `momentum`: of sgd."""

    optimiser: str = "adam"
    lr: float = 1e-3
    steps: int = 2000
    batch: int | None = 128
    momentum: float = 0.0
    weight_decay: float = 0.0


@dataclass(frozen=True, eq=False)
class Found:
    """The accuracies of M networks on C clouds at each of D distances, float64 [D, C, M].

    `accuracy`; `invariance`; `estimate`, the accuracy by ATC-MC; `said_inside`, the share of a
    cloud's points that the network calls inside: 0 or 1 where it is constant. `inside` [D, C]: the
    share of points that are. `held_out` [M]: accuracy on new points of the training cloud. `rates`
    [M]: the share of labels drawn anew. `loss` [M]: cross-entropy on the labels trained on, in
    nats.
    """

    accuracy: Floats
    invariance: Floats
    estimate: Floats
    said_inside: Floats
    inside: Floats
    held_out: Floats
    rates: Floats
    loss: Floats


@dataclass(frozen=True, eq=False)
class Trained:
    """The networks of one repetition, and of each, float64 [M], `rates` and `loss` as in
    `Found`."""

    stack: Stack
    rates: Floats
    loss: Floats


# -- points ----------------------------------------------------------------------------------------


def pole(dimensions: int) -> Floats:
    """The centre of the training cloud, float64 [dimensions]: a unit vector."""
    return np.eye(dimensions)[0]


def centres_at(angle: float, many: int, dimensions: int, rng: np.random.Generator) -> Floats:
    """Points of the unit sphere at `angle` radians from the pole, uniform on that circle, float64
    [many, dimensions]."""
    around = rng.standard_normal((many, dimensions))
    around[:, 0] = 0
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    return np.cos(angle) * pole(dimensions) + np.sin(angle) * around


def cloud(centre: Floats, rows: int, variance: float, rng: np.random.Generator) -> Floats:
    """Gaussian points around a centre, each coordinate with this variance, float64 [rows,
    dimensions]."""
    return centre + np.sqrt(variance) * rng.standard_normal((rows, len(centre)))


def inside(x: Floats) -> Ints:
    """1 for points in the unit sphere, 0 for those outside, int64 [...]; x float64 [...,
    dimensions]."""
    return np.asarray(np.linalg.norm(x, axis=-1) <= 1).astype(np.int64)


def perturbed(
    x: Floats, many: int, reach: float, rng: np.random.Generator, near: str = "cap"
) -> Floats:
    """Points near each point on the sphere about 0 that it lies on, float64 [rows, many,
    dimensions]: they have its label.

    At a Euclidean distance d <= `reach`, in a direction that is uniform. `near` "cap": uniform over
    all such points, so that d has the law reach * U^(1 / (dimensions - 1)), but for a share of
    about (reach / norm)^2 from the curvature: most lie near the rim. "distance": d uniform in [0,
    reach]. Raises `InputError` for another law.
    """
    if near not in ("cap", "distance"):
        raise InputError("near", f"{near!r} is no law of perturbations", ["cap", "distance"])
    n, dimensions = x.shape
    norm = np.linalg.norm(x, axis=1)[:, None, None]
    out = x[:, None] / norm
    along = rng.standard_normal((n, many, dimensions))
    along -= np.einsum("nmd,nd->nm", along, out[:, 0])[..., None] * out
    along /= np.sqrt(np.einsum("nmd,nmd->nm", along, along))[..., None]
    power = 1 / (dimensions - 1) if near == "cap" else 1.0
    length = rng.random((n, many, 1)) ** power
    chord = np.minimum(reach, 2 * norm) * length
    angle = 2 * np.arcsin(chord / (2 * norm))
    return norm * (np.cos(angle) * out + np.sin(angle) * along)


def noisy(y: Ints, rates: Floats, rng: np.random.Generator, flips: bool = False) -> Ints:
    """The labels of every network, int64 [M, n]: exactly round(rate * n) of y [n] drawn anew, or
    made the other one by `flips`."""
    out = np.tile(y, (len(rates), 1))
    for network, rate in enumerate(rates):
        chosen = rng.permutation(len(y))[: round(rate * len(y))]
        out[network, chosen] = 1 - y[chosen] if flips else rng.integers(0, 2, len(chosen))
    return out


# -- networks --------------------------------------------------------------------------------------


def trained(design: Design, fit: Fit, seed: int, threads: int = 1) -> Trained:
    """Train the networks of one repetition on one cloud at the pole, each on noisy labels of its
    own.

    They are trained in groups of a fixed size, `threads` at once: the result is the same for any
    number.
    """
    networks = []
    for network in range(design.networks):
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(torch_seed(seed, "hypersphere", "weights", network))
            layers = (
                nn.Linear(design.dimensions, design.hidden),
                nn.ReLU(),
                nn.Linear(design.hidden, 2),
            )
            networks.append(nn.Sequential(*layers))
    x = cloud(
        pole(design.dimensions),
        design.rows,
        design.variance,
        stream(seed, "hypersphere", "training"),
    )
    rates = design.noise * stream(seed, "hypersphere", "rates").random(design.networks)
    labels = noisy(inside(x), rates, stream(seed, "hypersphere", "noise"), design.flips)
    orders = [seed_of(seed, "hypersphere", "order", network) for network in range(design.networks)]
    members = [Member(lr=fit.lr, weight_decay=fit.weight_decay, seed=order) for order in orders]
    inputs = torch.from_numpy(x).float()
    group_size = max(1, min(_TRAINED, _SEEN // (fit.batch or design.rows)))

    def group(start: int) -> dict[str, Tensor]:
        in_group = slice(start, start + group_size)
        stack, group_labels = Stack(networks[in_group]), torch.from_numpy(labels[in_group])
        how: dict[str, Any] = {"optimiser": fit.optimiser, "momentum": fit.momentum}
        train_stack(
            stack, inputs, group_labels, members[in_group], steps=fit.steps, batch=fit.batch, **how
        )
        return stack.parameters

    with ThreadPoolExecutor(threads) as pool:
        groups = list(pool.map(group, range(0, design.networks, group_size)))
    stack = Stack(networks)
    stack.parameters = {
        name: torch.cat([group_weights[name] for group_weights in groups])
        for name in stack.parameters
    }
    side = np.where(labels == 1, 1, -1)
    signed = side * margins(stack, x).astype(np.float64)
    loss = np.logaddexp(0, -signed).mean(axis=1)
    return Trained(stack, rates, loss)


@torch.no_grad()
def margins(stack: Stack, x: Floats) -> NDArray[np.float32]:
    """The logit of inside less that of outside, of every network of two layers and point, float32
    [M, n]; x [n, dimensions].

    Its sign is the answer, and confidence grows with its size. One product serves all networks, the
    bias as one more column.
    """
    parameters = stack.parameters
    m, hidden, dimensions = parameters["0.weight"].shape
    with_offsets = torch.cat([parameters["0.weight"], parameters["0.bias"][:, :, None]], dim=2)
    first = with_offsets.view(m * hidden, dimensions + 1)
    last = parameters["2.weight"][:, 1:] - parameters["2.weight"][:, :1]
    offset = parameters["2.bias"][:, 1:] - parameters["2.bias"][:, :1]
    with_bias = torch.ones(dimensions + 1, len(x))
    with_bias[:-1] = torch.from_numpy(x.T)
    out = torch.empty(m, len(x))
    for left in range(0, len(x), _COLUMNS):
        points = with_bias[:, left : left + _COLUMNS].contiguous()
        for top in range(0, m, _NETWORKS):
            own_last = last[top : top + _NETWORKS]
            rows_of_networks = first[top * hidden : (top + _NETWORKS) * hidden]
            units = torch.mm(rows_of_networks, points).relu_()
            outputs = torch.bmm(own_last, units.view(len(own_last), hidden, -1))
            out[top : top + _NETWORKS, left : left + _COLUMNS] = outputs[:, 0]
    return out.add_(offset).numpy()


# -- measures --------------------------------------------------------------------------------------


def invariance(answers: NDArray[np.bool_]) -> Floats:
    """Neighbourhood invariance (equation 1): the mean over rows of the largest share of one answer,
    float64 [...] in [0.5, 1].

    `answers` bool [..., n, N + 1]: of the row itself and its N neighbours.
    """
    yes = np.count_nonzero(answers, axis=-1)
    copies = answers.shape[-1]
    return np.asarray(np.maximum(yes, copies - yes).mean(axis=-1) / copies)


def atc_fit(score: NDArray[np.floating], right: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Thresholds of ATC (Garg et al. 2022), float64 [M], such that as many of the source's rows
    pass as are right.

    `score` [M, n]: any number that orders rows as confidence does; `right` bool [M, n]. The
    threshold lies midway between the scores on either side. Rows on it, where there are ties, pass
    by the share that comes second, [M]: the estimate on the source is its accuracy.
    """
    n = score.shape[1]
    ordered = np.sort(score.astype(np.float64), axis=1)
    wrong = n - np.count_nonzero(right, axis=1)
    ends = np.full((len(score), 1), np.inf)
    ordered = np.concatenate([-ends, ordered, ends], axis=1)
    below = np.take_along_axis(ordered, wrong[:, None] + 0, axis=1)[:, 0]
    above = np.take_along_axis(ordered, wrong[:, None] + 1, axis=1)[:, 0]
    is_between = np.isfinite(below) & np.isfinite(above)
    at_an_end = np.where(wrong == 0, -np.inf, np.inf)
    threshold = np.where(is_between, below / 2 + above / 2, at_an_end)
    over = np.count_nonzero(score > threshold[:, None], axis=1)
    tied = np.count_nonzero(score == threshold[:, None], axis=1)
    return threshold, (n - wrong - over) / np.maximum(tied, 1)


def atc_estimate(fitted: tuple[Floats, Floats], score: NDArray[np.floating]) -> Floats:
    """The share of target rows that pass the threshold, float64 [M]; `fitted` from `atc_fit`,
    `score` [M, n]."""
    threshold, share = fitted
    above_it = (score > threshold[:, None]).mean(axis=1)
    at_it = (score == threshold[:, None]).mean(axis=1)
    return np.asarray(above_it + share * at_it)


def taus(measure: Floats, accuracy: Floats) -> Floats:
    """Kendall's tau-b of a measure with accuracy over networks, float64 [...]; both [..., M]. NaN
    where one of them is constant."""
    out = np.full(measure.shape[:-1], np.nan)
    for index in np.ndindex(out.shape):
        if np.ptp(measure[index]) > 0 and np.ptp(accuracy[index]) > 0:
            out[index] = kendalltau(measure[index], accuracy[index]).statistic
    return out


# -- the whole -------------------------------------------------------------------------------------


def measured(networks: Trained, design: Design, seed: int, threads: int = 1) -> Found:
    """Ask trained networks about every cloud and the neighbours of its points; the result is the
    same for any `threads`."""
    held_out = cloud(
        pole(design.dimensions),
        design.rows,
        design.variance,
        stream(seed, "hypersphere", "held out"),
    )
    held_out_margins = margins(networks.stack, held_out)
    right = (held_out_margins > 0) == inside(held_out)
    fitted = atc_fit(np.abs(held_out_margins), right)

    def at(step: int) -> list[list[Floats]]:
        angle = float(design.angles[step])
        rng = stream(seed, "hypersphere", "clouds", step)
        around = centres_at(angle, design.centres, design.dimensions, rng)
        return [_on_cloud(networks.stack, centre, design, fitted, rng) for centre in around]

    with ThreadPoolExecutor(threads) as pool:
        clouds = list(pool.map(at, range(design.distances)))
    accuracy, invariant, estimate, estimated, truth = (
        np.array([[cloud_numbers[k] for cloud_numbers in row] for row in clouds]) for k in range(5)
    )
    return Found(
        accuracy,
        invariant,
        estimate,
        estimated,
        truth,
        right.mean(axis=1),
        networks.rates,
        networks.loss,
    )


def _on_cloud(
    stack: Stack,
    centre: Floats,
    design: Design,
    fitted: tuple[Floats, Floats],
    rng: np.random.Generator,
) -> list[Floats]:
    x = cloud(centre, design.rows, design.variance, rng)
    neighbours = perturbed(x, design.neighbours, design.reach, rng, design.near)
    # Copies first, so that what is said of the points themselves lies together.
    copies = np.concatenate([x[None], neighbours.transpose(1, 0, 2)])
    margins_in_line = margins(stack, copies.reshape(-1, design.dimensions))
    margins_of_copies = margins_in_line.reshape(-1, *copies.shape[:2])
    y = inside(x)
    answers = margins_of_copies > 0
    own_margins = margins_of_copies[:, 0]
    own_answers = answers[:, 0]
    estimate = atc_estimate(fitted, np.abs(own_margins))
    return [
        (own_answers == y).mean(axis=1),
        invariance(answers.transpose(0, 2, 1)),
        estimate,
        own_answers.mean(axis=1),
        y.mean(),
    ]


def repeated(design: Design, fit: Fit, seeds: Sequence[int], threads: int = 1) -> list[Found]:
    """The whole, once for each seed, each with a training cloud, networks, noise and clouds of its
    own."""
    return [measured(trained(design, fit, seed, threads), design, seed, threads) for seed in seeds]
