"""Measures of logits and features: values by hand, loops, sets of any size, the faults of public
code."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crosswind.estimators.base import Answers, Labelled, Measure
from crosswind.estimators.estimating import estimated
from crosswind.estimators.measures import (
    Dispersion,
    Energy,
    MaNo,
    MutualInformation,
    NuclearNorm,
    criterion,
    in_order,
    taylor,
)

SOFT, TAYLOR = MaNo(threshold=0), MaNo(threshold=math.inf)
ALL: dict[str, Measure] = {
    "nuclear-norm": NuclearNorm(),
    "mutual-information": MutualInformation(),
    "energy": Energy(),
    "energy at 2": Energy(temperature=2),
    "mano": MaNo(),
    "mano by softmax": SOFT,
    "mano by Taylor": TAYLOR,
    "dispersion": Dispersion(),
}


def answered(logits: np.ndarray, features: np.ndarray | None = None) -> Answers:
    return Answers(logits.argmax(1), logits, features=features)


def drawn(n: int, seed: int, k: int = 10) -> Answers:
    """Rows of k classes that are hard to a different degree."""
    random = np.random.default_rng(seed)
    label = random.integers(k, size=n)
    logits = random.normal(size=(n, k))
    logits[np.arange(n), label] += 3 * random.uniform(size=n)
    centres = np.random.default_rng(99).normal(size=(k, 6))
    return answered(logits, centres[label] + 0.5 * random.normal(size=(n, 6)))


Lists = list[list[float]]


def nuclear_norm(p: Lists) -> float:
    """The root of P'P has the singular values as its eigenvalues."""
    n, k = len(p), len(p[0])
    gram = [[sum(row[a] * row[b] for row in p) for b in range(k)] for a in range(k)]
    roots = np.sqrt(np.maximum(np.linalg.eigvalsh(np.array(gram)), 0))
    return float(roots.sum()) / math.sqrt(min(n, k) * n)


def mutual_information(p: Lists) -> float:
    n, k = len(p), len(p[0])
    mean = [sum(row[j] for row in p) / n for j in range(k)]
    entropy_of_mean = sum(-m * math.log(m) for m in mean)
    return entropy_of_mean - sum(-v * math.log(v) for row in p for v in row) / n


def energy(z: Lists, t: float) -> float:
    n = len(z)
    energies = [-t * math.log(sum(math.exp(value / t) for value in row)) for row in z]
    total = sum(math.exp(e) for e in energies)
    published = -sum(math.log(math.exp(e) / total) for e in energies) / n
    return math.log(published - math.log(n))


def dispersion(target: Answers) -> float:
    assert target.features is not None
    rows = [row.astype(np.float64) for row in target.features]
    spread, mean = 0.0, sum(rows) / len(rows)
    classes = set(target.answer.tolist())
    for j in classes:
        mine = [row for row, answer in zip(rows, target.answer, strict=True) if answer == j]
        spread += len(mine) * float(((sum(mine) / len(mine) - mean) ** 2).sum())
    return math.log(spread / (len(classes) - 1) / len(rows))


def mano_score(z: Lists, p: Lists, by_taylor: bool | None) -> float:
    """The fourth root of the mean fourth power; None: by the published criterion."""
    n, k = len(p), len(p[0])
    if by_taylor is None:
        by_taylor = -sum(math.log(value) for row in p for value in row) / n / k <= 5
    total = 0.0
    for logits, weights in zip(z, p, strict=True):
        if by_taylor:
            moved = [value - min(logits) for value in logits]
            grown = [1 + value + value**2 / 2 - 1 for value in moved]
            weights = [value / sum(grown) for value in grown]
        total += sum(value**4 for value in weights)
    return float((total / n / k) ** 0.25)


def by_loops(name: str, target: Answers) -> float:
    z = np.asarray(target.logits, dtype=np.float64).tolist()
    powers = [[math.exp(value) for value in row] for row in z]
    p = [[power / sum(row) for power in row] for row in powers]
    if name == "nuclear-norm":
        return nuclear_norm(p)
    if name == "mutual-information":
        return mutual_information(p)
    if name.startswith("energy"):
        return energy(z, 2.0 if name.endswith("2") else 1.0)
    if name == "dispersion":
        return dispersion(target)
    return mano_score(z, p, {"mano": None, "mano by Taylor": True}.get(name, False))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("scale", [1, 8])
@pytest.mark.parametrize(("n", "k"), [(60, 4), (5, 9)])
def test_loops_say_the_same(name: str, scale: int, n: int, k: int) -> None:
    base = drawn(n, 3, k)
    assert base.logits is not None
    target = answered(base.logits * scale, base.features)
    assert ALL[name].measure(target) == pytest.approx(by_loops(name, target), abs=1e-6)


def test_nuclear_norm_by_hand() -> None:
    """Certain answers, two of each of two classes: singular values sqrt 2 twice, over sqrt(2 x 4):
    1. All uniform: a matrix of rank 1 with sum of squares 4 x 1/2, sqrt 2 over sqrt 8: 1/2. Public
    code multiplies, or leaves out n: 8, 1.41, 2."""
    sure = np.array([[60.0, 0], [60, 0], [0, 60], [0, 60]])
    assert NuclearNorm().measure(answered(sure)) == pytest.approx(1)
    assert NuclearNorm().measure(answered(0 * sure)) == pytest.approx(0.5)
    # Certain answers of one class: sqrt 4 over sqrt 8.
    assert NuclearNorm().measure(answered(np.tile(sure[:1], (4, 1)))) == pytest.approx(0.5**0.5)


def test_mutual_information_by_hand() -> None:
    """Certain of both classes alike: log 2; the mean of (.8, .2) and (.2, .8) is (.5, .5): log 2 -
    .5004. Probabilities of 0 are no fault."""
    ruled_out = np.array([[0, -np.inf], [-np.inf, 0]])
    assert MutualInformation().measure(answered(ruled_out)) == pytest.approx(math.log(2))
    p = np.array([[0.8, 0.2], [0.2, 0.8]])
    assert MutualInformation().measure(answered(np.log(p))) == pytest.approx(
        math.log(2) - 0.5004024, abs=1e-6
    )
    assert MutualInformation().measure(answered(np.log(p[[0, 0]]))) == pytest.approx(0, abs=1e-12)


def test_energy_by_hand() -> None:
    """Logits (0, 0) and (log 3, log 3): energies -log 2 and -log 6, exp E of 1/2 and 1/6, log of
    their mean -log 3, mean of E -(log 12) / 2: log(log 12 / 2 - log 3) = log(log(2 / sqrt 3))."""
    target = answered(np.log(np.array([[1.0, 1], [3, 3]])))
    assert Energy().measure(target) == pytest.approx(math.log(math.log(2 / 3**0.5)))
    for same in (target.take(np.array([0])), target.take(np.array([1, 1, 1]))):
        assert Energy().measure(same) == -math.inf
    wide = answered(np.array([[60_000.0, 0], [30_000, 0]], dtype=np.float16))
    assert Energy().measure(wide) == pytest.approx(math.log(15_000), rel=1e-3), (
        "energies that no exponential holds"
    )


def test_mano_by_hand() -> None:
    """Logits (2, 0, 0), shifted as they are: 1 + z + z^2/2 is 5, 1, 1; less 1 and over the sum: (1,
    0, 0). Logits (2, 1, 0): 5, 2.5, 1, so (4, 1.5, 0) / 5.5. Mean of fourth powers over 6 numbers.
    """
    target = answered(np.array([[2.0, 0, 0], [2, 1, 0]]))
    expected = ((1 + (4**4 + 1.5**4) / 5.5**4) / 6) ** 0.25
    assert MaNo().measure(target) == pytest.approx(expected)
    assert MaNo(taylor="published").measure(target) == pytest.approx(expected), (
        "nothing below 0: nothing to shift"
    )
    assert MaNo(power=1).measure(target) == pytest.approx(1 / 3), "rows that sum to 1"
    flat = answered(np.full((2, 4), 7.0))
    assert TAYLOR.measure(flat) == SOFT.measure(flat) == pytest.approx(1 / 4), (
        "all logits equal: the uniform row"
    )


def test_mano_has_its_taylor_map_where_it_rises() -> None:
    """(2, -8, 1) by the published map: 5, 25, 2.5, less 2.5 and over 25: (.1, .9, 0)."""
    bad = np.array([[2.0, -8, 1]])
    assert taylor(bad)[0].tolist() == pytest.approx([0.1, 0.9, 0])
    assert not in_order(bad)
    assert in_order(bad + 8)
    assert taylor(bad + 8)[0].argmax() == 0
    assert math.isnan(MaNo(taylor="published").measure(answered(bad)))
    assert MaNo().measure(answered(bad)) == MaNo().measure(answered(bad + 30))
    # One such row among many is enough.
    rows = np.concatenate([np.tile([[2.0, 0, 1]], (50, 1)), bad])
    assert math.isnan(MaNo(taylor="published").measure(answered(rows)))
    good = answered(np.array([[2.0, -0.5, 1], [0, 3, 1]]))
    pool = [Labelled(good.take(np.array([i])), np.array([0]), f"set {i}") for i in range(2)]
    estimate = estimated(MaNo(taylor="published", threshold=100), pool[0], answered(bad), pool)
    assert estimate == "its measure is not finite for some rows"


def test_mano_decides_by_all_rows_and_anew_for_every_set() -> None:
    """Phi of (z, 0), z large: z / 2. Rows of 4, 4, 4, 4, 40 have 2, 2, 2, 2, 20, 5.6 in the mean:
    the softmax, in any order of the rows. Without the last row 2: the Taylor map, also after a set
    that took the softmax."""
    wide = np.array([[4.0, 0], [4, 0], [4, 0], [4, 0], [40, 0]])
    mano, target = MaNo(), answered(wide)
    assert criterion(target) == pytest.approx(5.6, abs=0.1)
    for rows in (np.arange(5), np.arange(5)[::-1], np.array([1, 4, 0, 2, 3])):
        assert (
            mano.measure(target.take(rows))
            == pytest.approx(SOFT.measure(target), abs=1e-12)
            != TAYLOR.measure(target)
        )
    first = target.take(np.arange(4))
    assert mano.measure(first) == TAYLOR.measure(first) != SOFT.measure(first)


def test_dispersion_by_hand() -> None:
    """Features 0, 2 of class 0 and 8 of class 1: means 1, 8 and 10/3; (2 x 49/9 + 196/9) / 3 over 1
    is 294/27."""
    features = np.array([[0.0], [2], [8]])
    target = Answers(np.array([0, 0, 1]), classes=3, features=features)
    assert Dispersion().measure(target) == pytest.approx(math.log(294 / 27))
    assert Dispersion().measure(
        Answers(np.array([0, 0, 2]), classes=3, features=features.astype(np.float16))
    ) == pytest.approx(math.log(294 / 27)), "classes that are not answered do not count"
    # An answer that names no class is left out, and is no class of its own.
    with_unreadable = Answers(
        np.array([0, -1, 0, 1]), classes=3, features=np.array([[0.0], [100], [2], [8]])
    )
    assert Dispersion().measure(with_unreadable) == pytest.approx(math.log(294 / 27))
    assert math.isnan(Dispersion().measure(target.take(np.array([0, 1])))), "one class"
    assert (
        Dispersion().measure(Answers(np.array([0, 1]), classes=2, features=np.ones((2, 3))))
        == -math.inf
    )


@pytest.mark.parametrize("name", ALL)
def test_neither_order_nor_repetition_of_rows_matters(name: str) -> None:
    """Every row twice is the same distribution: public code of energy and dispersion adds log 2, or
    nearly."""
    target, random = drawn(300, 5), np.random.default_rng(0)
    measured = ALL[name].measure(target)
    assert ALL[name].measure(target.take(random.permutation(300))) == pytest.approx(
        measured, abs=1e-9
    )
    assert ALL[name].measure(target.take(np.repeat(np.arange(300), 2))) == pytest.approx(
        measured, abs=1e-9
    )


@pytest.mark.parametrize("name", ALL)
def test_few_rows_and_many_of_one_distribution_measure_alike(name: str) -> None:
    """A hundred sets of 500 rows and all 50,000: the bias of the small ones is less than their
    scatter."""
    target = drawn(50_000, 6)
    of_all_rows = ALL[name].measure(target)
    of_parts = [ALL[name].measure(target.take(rows)) for rows in np.split(np.arange(50_000), 100)]
    scatter = float(np.std(of_parts))
    assert 0 < scatter < 0.1 * max(abs(of_all_rows), 0.5)
    assert abs(float(np.mean(of_parts)) - of_all_rows) < scatter
    assert abs(of_parts[0] - of_all_rows) < 4 * scatter


@pytest.mark.parametrize("name", ALL)
def test_a_constant_added_to_the_logits_changes_nothing(name: str) -> None:
    target, random = drawn(200, 7), np.random.default_rng(0)
    assert target.logits is not None
    measured = ALL[name].measure(target)
    for constant in (-40.0, 3.0):
        assert ALL[name].measure(
            answered(target.logits + constant, target.features)
        ) == pytest.approx(measured, abs=1e-8)
    with_constant = answered(target.logits + random.normal(size=(200, 1)), target.features)
    assert (ALL[name].measure(with_constant) == pytest.approx(measured, abs=1e-8)) == (
        not name.startswith("energy")
    )


@pytest.mark.parametrize("name", ["nuclear-norm", "mutual-information", "mano", "energy"])
def test_answers_that_are_right_more_often_measure_more(name: str) -> None:
    random = np.random.default_rng(8)
    measures = []
    for strength in (0.5, 2, 5, 9):
        label = random.integers(10, size=2000)
        logits = random.normal(size=(2000, 10))
        logits[np.arange(2000), label] += strength * random.uniform(size=2000)
        measures.append(ALL[name].measure(answered(logits)))
    assert measures == sorted(measures)


@pytest.mark.parametrize("name", ["nuclear-norm", "mutual-information", "mano", "energy"])
def test_half_precision_is_read_as_it_is(name: str) -> None:
    target = drawn(100, 9)
    assert target.logits is not None
    half = (20 * target.logits).astype(np.float16)
    assert ALL[name].measure(answered(half)) == pytest.approx(
        ALL[name].measure(answered(half.astype(np.float64))), abs=1e-12
    )
