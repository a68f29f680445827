"""Estimators judged on pools of networks: every number by hand and by loops, what is held out,
clusters, and what is undefined."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from crosswind.evaluation.compare import holm
from crosswind.evaluation.points import (
    HELD,
    LEVEL,
    Number,
    cell_tau,
    errors,
    predicted,
    read,
    standard_error,
)
from crosswind.evaluation.pools import (
    Covered,
    Point,
    comparison,
    comparisons,
    coverage,
    judge,
    micro_difference,
    predictions,
)

Rule = Callable[[Point, Point], bool]


def made(
    networks: int = 4,
    training: Sequence[str] = ("A", "B", "C"),
    tests: Sequence[str] = ("A", "B", "C", "D"),
    kinds: Sequence[str] = ("x", "y"),
    seed: int = 0,
    noise: float = 0.1,
) -> list[Point]:
    """So many networks for each architecture and training domain, on every test domain; accuracies
    rounded, so that some tie."""
    random, points = np.random.default_rng(seed), []
    for kind, domain, number in itertools.product(kinds, training, range(networks)):
        skill = random.normal(0, 0.15)
        for test in tests:
            accuracy = float(np.clip(np.round(0.6 + skill + random.normal(0, 0.1), 2), 0, 1))
            value = float(np.clip(np.round(accuracy + random.normal(0.05, noise), 2), 0, 1))
            points.append(Point(f"{kind}{domain}{number}", domain, test, value, accuracy, kind))
    return points


def as_number(value: float) -> object:
    return pytest.approx(value, abs=1e-6)


# -- by hand ---------------------------------------------------------------------------------------

A_ON_C = [
    Point(f"a{i}", "A", "C", value, accuracy)
    for i, (value, accuracy) in enumerate([(1, 0.2), (2, 0.6), (3, 0.4)])
]
B_ON_C = [
    Point(f"b{i}", "B", "C", value, accuracy)
    for i, (value, accuracy) in enumerate([(0, 0.1), (1, 0.3), (2, 0.5)])
]


def test_every_number_by_hand() -> None:
    """Trained on A, values 1 2 3 and accuracies .2 .6 .4: tau (2 - 1) / 3; squared correlation .2^2
    / (2 x .08) = .25. Trained on B, values 0 1 2 and accuracies .1 .3 .5: tau 1, squared
    correlation 1. Macro tau is 2/3, R2 .625.

    The line of B is .2 v + .1: it predicts .3 .5 .7 for A. Errors .1 -.1 .3: MAE 16.667, bias 10, 1
    - .11 / .08 = -.375.
    The line of A is .1 v + .2: it predicts .2 .3 .4 for B. Errors .1 0 -.1: MAE 6.667, bias 0, 1 -
    .02 / .08 = .75.

    Micro: of 15 pairs 2 are tied in value. Inside A 1, inside B 3, between them six up and one
    down: 9 / sqrt(13 x 15).
    """
    judged = judge([*A_ON_C, *B_ON_C])
    assert (judged.networks, judged.points) == (6, 6)
    assert judged.macro_tau.value == as_number(2 / 3)
    assert judged.macro_tau.cells == 2
    assert judged.micro_tau.value == as_number(9 / math.sqrt(13 * 15))
    assert judged.micro_tau.cells == 1
    fitted = judged.fits["training"]
    assert fitted.uses_target_labels
    assert fitted.held == "training"
    assert [number.value for number in (fitted.r2, fitted.explained, fitted.mae, fitted.bias)] == [
        as_number(0.625),
        as_number((0.75 - 0.375) / 2),
        as_number((50 / 3 + 20 / 3) / 2),
        as_number(5.0),
    ]
    # In sample the residuals of A are -.1 .2 -.1, those of B 0: MAE half of 13.333, and 1 - SSE/SST
    # is the squared correlation.
    in_sample = judged.fits["in-sample"]
    assert in_sample.uses_target_labels
    assert in_sample.mae.value == as_number(20 / 3)
    assert in_sample.explained.value == as_number(0.625)
    assert in_sample.bias.value == as_number(0)


def test_an_estimate_is_judged_as_it_is() -> None:
    """Estimates .3 .5 .7 of .2 .6 .4: errors .1 -.1 .3, MAE 16.667, bias 10, 1 - .11 / .08; tau 1/3
    as a score."""
    points = [
        replace(point_or_number, value=value)
        for point_or_number, value in zip(A_ON_C, (0.3, 0.5, 0.7), strict=True)
    ]
    judged = judge(points, estimates=True)
    of_estimate = judged.fits["estimate"]
    assert not of_estimate.uses_target_labels
    assert "estimate" not in judge(points).fits
    assert [
        point_or_number.value
        for point_or_number in (of_estimate.mae, of_estimate.bias, of_estimate.explained)
    ] == [
        as_number(50 / 3),
        as_number(10),
        as_number(-0.375),
    ]
    assert judged.macro_tau.value == as_number(1 / 3)
    with pytest.raises(ValueError, match="not an accuracy"):
        judge(A_ON_C, estimates=True)


def test_micro_and_macro_disagree_where_domains_differ_more_than_networks() -> None:
    """Inside each training domain the larger value has the lower accuracy; the domain with the
    larger values is the better one."""
    points = [
        Point(f"{domain}{i}", domain, "C", base + i, (base - i) / 100)
        for domain, base in (("A", 20), ("B", 60))
        for i in range(5)
    ]
    judged = judge(points)
    assert judged.macro_tau.value == as_number(-1)
    # 25 pairs between domains up, 20 inside them down, of 45
    assert judged.micro_tau.value == as_number(5 / 45)


def test_two_micro_taus_are_compared_by_hand() -> None:
    """9 / sqrt(13 x 15) as above; accuracies as values, on other rows, have 1. Over the same draws
    equal ones differ by 0."""
    points = [*A_ON_C, *B_ON_C]
    exact = [replace(point, value=point.accuracy, test="D") for point in points]
    difference = micro_difference(points, exact)
    assert difference is not None
    assert difference.mean == as_number(1 - 9 / math.sqrt(13 * 15))
    assert difference.n == 6
    assert difference.low is not None
    assert difference.low < difference.mean
    same = micro_difference(points, [replace(point, value=2 * point.value) for point in points])
    assert same is not None
    assert (same.mean, same.low, same.high) == (0, 0, 0)
    assert micro_difference(A_ON_C, A_ON_C) is None, "one training domain"
    with pytest.raises(ValueError, match="not the same"):
        micro_difference(points, points[1:])


def test_one_network_over_domains_by_hand() -> None:
    """Values 1 2 3 on three domains: accuracies .1 .2 .3 have tau 1, .3 .2 .1 tau -1, .1 .3 .2 tau
    1/3. The mean is 1/9."""
    table = {"a": (0.1, 0.2, 0.3), "b": (0.3, 0.2, 0.1), "c": (0.1, 0.3, 0.2)}
    points = [
        Point(name, "S", f"t{i}", i, a) for name, row in table.items() for i, a in enumerate(row, 1)
    ]
    assert judge(points).across_tau.value == as_number(1 / 9)
    assert judge([point for point in points if point.test != "t3"]).across_tau.value is None


# -- by loops --------------------------------------------------------------------------------------

RULES: dict[str, Rule] = {
    "training": lambda p, q: (
        q.test == p.test
        and q.training not in (p.training, p.test)
        and q.architecture == p.architecture
    ),
    "test": lambda p, q: (
        q.training == p.training and q.test != p.test and q.architecture == p.architecture
    ),
    "in-sample": lambda p, q: (
        (q.training, q.test, q.architecture) == (p.training, p.test, p.architecture)
    ),
    "architecture": lambda p, q: (
        q.architecture != p.architecture and q.test == p.test and q.training != p.test
    ),
    "architecture and test": lambda p, q: q.architecture != p.architecture and q.test != p.test,
}


def line(points: Sequence[Point]) -> tuple[float, float]:
    slope, intercept = np.polyfit([p.value for p in points], [p.accuracy for p in points], 1)
    return float(slope), float(intercept)


def tau(points: Sequence[Point]) -> float:
    return float(
        stats.kendalltau([p.value for p in points], [p.accuracy for p in points]).statistic
    )


def tau_in(points: Sequence[Point], training: Sequence[str], test: str) -> float:
    """tau over the points of one test domain of networks trained on any of some domains."""
    return tau([p for p in points if p.test == test and p.training in training])


def test_taus_equal_loops_over_the_definitions() -> None:
    points = made()
    judged = judge(points, resamples=10)
    kinds, training, tests = (
        sorted({getattr(p, name) for p in points}) for name in ("architecture", "training", "test")
    )
    cells = [(i, o) for i in training for o in tests if i != o]
    elsewhere = {o: [i for i in training if i != o] for o in tests}
    macro, micro, own_taus = [], [], []
    for kind in kinds:
        inside = [p for p in points if p.architecture == kind]
        macro.append(np.mean([tau_in(inside, [i], o) for i, o in cells]))
        micro.append(np.mean([tau_in(inside, elsewhere[o], o) for o in tests]))
        own_taus.append(np.mean([tau_in(inside, [i], i) for i in training]))
    arch = [tau_in(points, elsewhere[o], o) for o in tests]
    for number, taus, n_cells in (
        (judged.macro_tau, macro, 18),
        (judged.micro_tau, micro, 8),
        (judged.id_tau, own_taus, 6),
        (judged.arch_tau, arch, 4),
    ):
        assert (number.value, number.cells) == (as_number(np.mean(taus)), n_cells)
    # All networks as one pool: each cell has both architectures.
    as_one = judge(points, by_architecture=False, resamples=10)
    assert as_one.macro_tau.value == as_number(np.mean([tau_in(points, [i], o) for i, o in cells]))
    assert as_one.arch_tau.value == judged.arch_tau.value


def test_tau_of_a_network_over_its_test_domains_equals_a_loop() -> None:
    points = made()
    shifted: dict[str, list[Point]] = {}
    for p in points:
        if p.test != p.training:
            shifted.setdefault(p.network, []).append(p)
    expected = np.mean([tau(of_network) for of_network in shifted.values()])
    assert judge(points, resamples=10).across_tau.value == as_number(expected)


def test_a_pool_counts_once_however_many_cells_it_has() -> None:
    points = [p for p in made() if p.architecture == "x" or (p.training, p.test) == ("A", "B")]
    taus_of_x = [
        tau([p for p in points if (p.architecture, p.training, p.test) == ("x", i, o)])
        for i in "ABC"
        for o in "ABCD"
        if i != o
    ]
    tau_of_y = tau([p for p in points if p.architecture == "y"])
    macro_tau = judge(points, resamples=10).macro_tau
    assert macro_tau.value == as_number((np.mean(taus_of_x) + tau_of_y) / 2)
    assert macro_tau.cells == 10
    assert macro_tau.value != as_number(np.mean([*taus_of_x, tau_of_y]))


@pytest.mark.parametrize("held", RULES)
def test_lines_equal_loops_over_the_definitions(held: str) -> None:
    points = made()
    predicted = predictions(points, held)
    expected = []
    for p in points:
        slope, intercept = line([q for q in points if RULES[held](p, q)])
        expected.append(None if p.training == p.test else slope * p.value + intercept)
    assert [value is None for value in predicted] == [value is None for value in expected]
    assert predicted == [value if value is None else as_number(value) for value in expected]
    columns: list[list[float]] = [[], [], [], []]
    for _, rows in itertools.groupby(
        sorted(
            range(len(points)),
            key=lambda i: (points[i].architecture, points[i].training, points[i].test),
        ),
        key=lambda i: (points[i].architecture, points[i].training, points[i].test),
    ):
        cell = list(rows)
        if points[cell[0]].training == points[cell[0]].test:
            continue
        x, y, z = (
            np.array(side)
            for side in zip(
                *((points[i].value, points[i].accuracy, expected[i]) for i in cell), strict=True
            )
        )
        columns[0].append(np.corrcoef(x, y)[0, 1] ** 2)
        columns[1].append(1 - ((z - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())
        columns[2].append(100 * np.abs(z - y).mean())
        columns[3].append(100 * (z - y).mean())
    fitted = judge(points, resamples=10).fits[held]
    assert [value.value for value in (fitted.r2, fitted.explained, fitted.mae, fitted.bias)] == [
        as_number(np.mean(column)) for column in columns
    ]
    assert fitted.mae.cells == 18
    assert fitted.uses_target_labels == HELD[held].uses_target_labels


def repeated(points: Sequence[Point], times: Mapping[str, int]) -> list[Point]:
    """Each point as often as its network is taken."""
    return [p for p in points for _ in range(times[p.network])]


def test_a_draw_is_the_table_with_its_networks_repeated() -> None:
    """Each draw of networks as a table in which rows stand as often as the draw takes their
    network: scipy and polyfit on that."""
    points = made(6, seed=3)
    table = read(points, 40, True)
    names = sorted({p.network for p in points})
    cell = table.cells[-1]
    rows = np.flatnonzero(table.of_cell(cell))
    inside = [points[i] for i in rows]
    taus, (r2, explained, mae, bias) = cell_tau(table, rows), errors(table, cell, rows, "training")
    compared = 0
    for draw, weights in enumerate(table.weights):
        times = dict(zip(names, weights.astype(int), strict=True))
        mine = repeated(inside, times)
        other_points = repeated([q for q in points if RULES["training"](inside[0], q)], times)
        spreads = (
            {p.value for p in mine},
            {p.accuracy for p in mine},
            {q.value for q in other_points},
        )
        if min(map(len, spreads)) < 2:
            continue
        slope, intercept = line(other_points)
        y = np.array([p.accuracy for p in mine])
        error = np.array([slope * p.value + intercept for p in mine]) - y
        assert taus[draw] == as_number(tau(mine))
        assert mae[draw] == as_number(100 * np.abs(error).mean())
        assert bias[draw] == as_number(100 * error.mean())
        assert explained[draw] == as_number(1 - (error**2).sum() / ((y - y.mean()) ** 2).sum())
        assert r2[draw] == as_number(np.corrcoef([p.value for p in mine], y)[0, 1] ** 2)
        compared += 1
    assert compared >= 30
    assert table.weights[0].tolist() == [1] * len(names)
    assert (table.weights.sum(axis=1) == len(names)).all()


# -- what is held out ------------------------------------------------------------------------------

# What may not be read for the prediction of p: accuracies of these points.
FORBIDDEN: dict[str, Rule] = {
    "training": lambda p, q: q.training == p.training,
    "test": lambda p, q: q.test == p.test,
    "architecture": lambda p, q: q.architecture == p.architecture,
    "architecture and test": lambda p, q: q.architecture == p.architecture or q.test == p.test,
}


@pytest.mark.parametrize("held", FORBIDDEN)
def test_no_accuracy_of_what_is_held_out_changes_a_prediction(held: str) -> None:
    points = made(seed=1)
    chosen = next(i for i, p in enumerate(points) if p.training == "B" and p.test == "C")
    before = predictions(points, held)[chosen]

    def moved(rule: Rule) -> float | None:
        changed = [
            replace(q, accuracy=1 - q.accuracy**2) if rule(points[chosen], q) else q for q in points
        ]
        return predictions(changed, held)[chosen]

    assert before is not None
    assert moved(FORBIDDEN[held]) == before
    assert moved(lambda p, q: not FORBIDDEN[held](p, q)) != as_number(before)
    reads_target = moved(lambda p, q: q.test == p.test) != as_number(before)
    assert reads_target == HELD[held].uses_target_labels, (
        "what a result says of the labels that its line used"
    )


# -- intervals -------------------------------------------------------------------------------------


def width(number: Number) -> float:
    assert number.low is not None
    assert number.high is not None
    assert number.value is not None
    assert number.low <= number.value <= number.high
    return number.high - number.low


def test_rows_of_one_network_are_one_observation() -> None:
    points = made(12, ("A",), ("B", "C", "D"), ("x",), noise=0.2)
    twice = [*points, *points]
    as_others = [*points, *(replace(p, network=f"{p.network} again") for p in points)]
    first, rows, clusters = (judge(table, estimates=True) for table in (points, twice, as_others))
    assert rows.macro_tau == first.macro_tau
    assert (rows.networks, rows.points) == (12, 72)
    for pick in (
        lambda f: f.macro_tau,
        lambda f: f.fits["estimate"].mae,
        lambda f: f.fits["estimate"].bias,
    ):
        assert width(pick(rows)) == as_number(width(pick(first)))
        # Twice the networks: about the width over the root of two, and a smaller t.
        assert 0.5 * width(pick(first)) < width(pick(clusters)) < 0.85 * width(pick(first))


def test_every_number_has_an_interval_that_holds_it() -> None:
    judged = judge(made(8), estimates=True)
    numbers = [
        judged.id_tau,
        judged.macro_tau,
        judged.micro_tau,
        judged.arch_tau,
        judged.across_tau,
    ]
    for fit in judged.fits.values():
        numbers += [fit.r2, fit.explained, fit.mae, fit.bias]
    assert len(numbers) == 29
    assert all(
        width(number) > 0 for number in numbers if number is not judged.fits["in-sample"].bias
    )
    assert all(number.high <= 1 for number in numbers[:5] if number.high is not None)
    again = judge(made(8), estimates=True)
    assert again == judged


def test_the_standard_error_by_hand() -> None:
    """Draws 0, 1, ..., 100: quantiles 5 and 95, so that one standard error is 90 / (2 x 1.644854),
    times sqrt(5 / 4) for 5."""
    draws = np.concatenate([[7.0], np.arange(101.0), np.full(101, np.nan)])
    assert standard_error(draws, 5) == as_number(90 / 3.289708 * math.sqrt(1.25))
    assert standard_error(draws, 4) is None
    assert standard_error(np.append(draws, np.nan), 5) is None


def test_the_interval_of_a_mean_error_is_about_that_of_students_t() -> None:
    """One cell: the mean signed error is a mean over networks, and the bootstrap has the interval
    of Student's t within a tenth."""
    points = made(20, ("A",), ("B",), ("x",), noise=0.1)
    error = np.array([100 * (p.value - p.accuracy) for p in points])
    exact = stats.t.interval(LEVEL, 19, error.mean(), error.std(ddof=1) / math.sqrt(20))
    bias = judge(points, estimates=True).fits["estimate"].bias
    assert bias.value == as_number(error.mean())
    assert width(bias) == pytest.approx(exact[1] - exact[0], rel=0.1)


# -- undefined -------------------------------------------------------------------------------------


def test_what_is_undefined_has_a_reason_and_no_number() -> None:
    single_architecture = judge(made(5, ("A",), ("B", "C"), ("x",)), resamples=50)
    assert (single_architecture.micro_tau.value, single_architecture.micro_tau.why) == (
        None,
        "the networks have one training domain",
    )
    assert (single_architecture.arch_tau.value, single_architecture.arch_tau.why) == (
        None,
        "the networks have one architecture",
    )
    assert (single_architecture.id_tau.value, single_architecture.id_tau.why) == (
        None,
        "there are no points of this kind",
    )
    assert single_architecture.fits["training"].mae == Number(
        None, left_out=2, why="there is nothing to fit the line on"
    )
    assert single_architecture.fits["architecture"].r2.value is None
    assert single_architecture.across_tau.value is None
    assert single_architecture.fits["test"].mae.value is not None
    few = judge(made(2, ("A",), ("B", "C"), ("x",)))
    assert few.macro_tau == Number(None, left_out=2, why="fewer than 3 networks")
    three = judge(made(3, ("A",), ("B", "C"), ("x",)))
    assert three.macro_tau.value is not None
    assert three.macro_tau.low is None
    assert three.macro_tau.why == "no interval from 3 networks"


def test_pools_without_spread_have_no_tau_and_say_why() -> None:
    points = made(6, ("A",), ("B", "C"), ("x",))
    flat = judge([replace(p, value=0.5) if p.test == "B" else p for p in points], resamples=50)
    assert (flat.macro_tau.cells, flat.macro_tau.left_out, flat.macro_tau.why) == (
        1,
        1,
        "all networks have the same value",
    )
    assert flat.macro_tau.value == as_number(tau([p for p in points if p.test == "C"]))
    assert flat.fits["in-sample"].mae.left_out == 1
    assert flat.fits["test"].mae.why == "there is nothing to fit the line on"
    equal = judge([replace(p, accuracy=0.5) for p in points], resamples=50)
    assert equal.macro_tau == Number(None, left_out=2, why="all networks have the same accuracy")
    assert equal.fits["test"].r2.value is None
    assert equal.fits["test"].explained.value is None
    assert equal.fits["test"].mae.value == as_number(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": math.nan}, "a value of the points is not finite"),
        ({"accuracy": 61.0}, "an accuracy of the points is not in"),
        ({"accuracy": math.nan}, "an accuracy of the points is not in"),
        ({"training": "B"}, "network 'xA0' has two training domains"),
        ({"architecture": "y"}, "network 'xA0' has two training domains or architectures"),
    ],
)
def test_bad_tables_are_refused(change: dict[str, float], message: str) -> None:
    points = made(5, ("A",), ("B", "C"), ("x",))
    with pytest.raises(ValueError, match=message):
        judge([replace(points[0], **change), *points[1:]])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no points"):
        judge([])
    with pytest.raises(ValueError, match="choose one of training, test"):
        predictions(points, "domain")


# -- comparisons -----------------------------------------------------------------------------------


def noisier(points: Sequence[Point], noise: float, seed: int) -> list[Point]:
    random = np.random.default_rng(seed)
    return [
        replace(p, value=float(np.clip(p.accuracy + random.normal(0, noise), 0, 1))) for p in points
    ]


def test_two_estimators_are_compared_by_network() -> None:
    base = made(10, ("A",), ("B", "C", "D"), ("x", "y"))
    good, bad = noisier(base, 0.02, 1), noisier(base, 0.15, 2)
    compared, back = comparison(bad, good[::-1]), comparison(good, bad)
    first, second = judge(bad, estimates=True), judge(good, estimates=True)
    assert compared.mae is not None
    assert compared.macro_tau is not None
    assert back.mae is not None
    assert second.fits["estimate"].mae.value is not None
    assert first.fits["estimate"].mae.value is not None
    assert compared.mae.mean == as_number(
        second.fits["estimate"].mae.value - first.fits["estimate"].mae.value
    )
    assert compared.macro_tau.mean == as_number(
        (second.macro_tau.value or 0) - (first.macro_tau.value or 0)
    )
    assert compared.mae.n == 20
    assert compared.mae.p is not None
    assert compared.mae.p < 1e-4
    assert compared.mae.excludes_zero
    assert (back.mae.mean, back.mae.p) == (as_number(-compared.mae.mean), as_number(compared.mae.p))
    assert compared.macro_tau.low is not None
    assert 0 < compared.macro_tau.low < compared.macro_tau.mean
    # A held-out line of a measure instead of the values themselves.
    held_out = comparison(bad, good, held="test")
    assert held_out.mae is not None
    assert held_out.mae.mean == as_number(
        (second.fits["test"].mae.value or 0) - (first.fits["test"].mae.value or 0)
    )


def test_equal_estimators_have_no_p_and_few_networks_no_interval() -> None:
    base = made(10, ("A",), ("B", "C"), ("x",))
    same = comparison(base, base)
    assert same.mae is not None
    assert (same.mae.mean, same.mae.p, same.mae.excludes_zero) == (
        0,
        None,
        False,
    )
    few = comparison(base[:8], noisier(base[:8], 0.1, 1))
    assert few.mae is not None
    assert few.mae.low is None
    assert few.why[0] == "MAE: fewer than 5 networks for an interval"
    flat = comparison(base, [replace(p, value=0.5) for p in base])
    assert flat.macro_tau is None
    assert flat.why == ("macro tau: all networks have the same value",)
    assert flat.mae is not None
    with pytest.raises(ValueError, match="not the same"):
        comparison(base, base[1:])
    with pytest.raises(ValueError, match="not the same"):
        comparison(base, [replace(base[0], accuracy=0.123), *base[1:]])
    with pytest.raises(ValueError, match="choose one of"):
        comparison(base, base, held="domain")


def test_several_comparisons_are_adjusted_by_holm() -> None:
    base = made(10, ("A",), ("B", "C"), ("x",))
    reference = noisier(base, 0.1, 0)
    other_points = {f"e{i}": noisier(base, 0.1 - 0.02 * i, i + 1) for i in range(4)} | {
        "same": reference
    }
    compared = comparisons(reference, other_points, resamples=300)
    plain = {
        name: comparison_of.mae.p
        for name, comparison_of in compared.items()
        if comparison_of.mae is not None and comparison_of.mae.p is not None
    }
    assert len(plain) == 4
    assert {name: compared[name].mae_holm for name in plain} == holm(plain)
    assert compared["same"].mae_holm is None
    assert compared["e3"].macro_tau_holm is not None
    adjusted_mae, plain_mae = (
        compared["e3"].mae,
        comparison(reference, other_points["e3"], resamples=300).mae,
    )
    assert adjusted_mae is not None
    assert plain_mae is not None
    assert (adjusted_mae.mean, adjusted_mae.sd, adjusted_mae.p) == (
        plain_mae.mean,
        plain_mae.sd,
        plain_mae.p,
    )
    for comparison_of in (compared[name] for name in plain):
        mae, tau = comparison_of.mae, comparison_of.macro_tau
        assert mae is not None
        assert mae.excludes_zero == (
            comparison_of.mae_holm is not None and comparison_of.mae_holm < 0.05
        )
        assert tau is not None
        assert tau.excludes_zero == (
            comparison_of.macro_tau_holm is not None and comparison_of.macro_tau_holm < 0.05
        )


def test_equally_good_estimators_are_rarely_told_apart() -> None:
    """Of 120 pairs of equal estimators at 15 networks, 12 are expected below .1; 22 is three
    standard deviations above."""
    n_told = [0, 0]
    for seed in range(120):
        base = made(15, ("A",), ("B", "C"), ("x",), seed=seed)
        compared = comparison(
            noisier(base, 0.1, 2 * seed), noisier(base, 0.1, 2 * seed + 1), resamples=200
        )
        for i, difference in enumerate((compared.mae, compared.macro_tau)):
            assert difference is not None
            assert difference.p is not None
            assert difference.low is not None
            assert difference.high is not None
            assert (difference.p < 1 - LEVEL) == (difference.low > 0 or difference.high < 0)
            n_told[i] += difference.p < 0.1
    assert max(n_told) <= 22
    assert min(n_told) >= 2


# -- coverage --------------------------------------------------------------------------------------


def with_intervals(networks: int = 6, seed: int = 0) -> list[Point]:
    random, points = np.random.default_rng(seed), []
    for i in range(networks):
        for j in range(6):
            accuracy, middle = (
                0.9 - 0.1 * j + random.normal(0, 0.01),
                0.9 - 0.1 * j + random.normal(0, 0.05),
            )
            low, high = (
                (None, None) if (i, j) == (0, 5) else (middle - 0.06, middle + 0.06 + 0.01 * j)
            )
            options = {"severity": float(j), "synthetic": j < 4}
            points.append(
                Point(
                    f"n{i}",
                    "S",
                    f"t{j}",
                    middle,
                    accuracy,
                    low=low,
                    high=high,
                    source=0.95,
                    **options,
                )
            )  # type: ignore[arg-type]
    return points


def strength_of(drop: float, first: float, second: float) -> str:
    if drop <= first:
        return "weak"
    return "middle" if drop <= second else "strong"


def check_coverage(covered: Covered, points: Sequence[Point]) -> None:
    """Compare the coverage of some points with a loop over them."""
    ends = [p for p in points if p.low is not None]
    assert (covered.pairs, covered.without) == (len(ends), len(points) - len(ends))
    if not ends:
        assert covered.share == Number(None, why="there are no intervals")
        assert covered.width is None
        return
    held = sum(p.low <= p.accuracy <= p.high for p in ends)  # type: ignore[operator]
    widths = [p.high - p.low for p in ends]  # type: ignore[operator]
    assert covered.share.value == as_number(held / len(ends))
    assert covered.width == as_number(float(np.median(widths)))
    assert covered.networks == len({p.network for p in ends})


def test_coverage_equals_loops() -> None:
    points = with_intervals()
    covered_of = {(covered.kind, covered.strength): covered for covered in coverage(points)}
    kinds, strengths = ("all", "natural", "synthetic"), ("all", "weak", "middle", "strong")
    assert list(covered_of) == list(itertools.product(kinds, strengths))
    drops = [0.95 - p.accuracy for p in points]
    first, second = np.quantile(drops, [1 / 3, 2 / 3])
    labelled = [
        (p, "synthetic" if p.synthetic else "natural", strength_of(drop, first, second))
        for p, drop in zip(points, drops, strict=True)
    ]
    for (kind, strength), covered in covered_of.items():
        inside = [
            p
            for p, of_kind, of_strength in labelled
            if kind in ("all", of_kind) and strength in ("all", of_strength)
        ]
        check_coverage(covered, inside)
    assert covered_of["natural", "weak"].pairs == 0
    assert covered_of["all", "all"].without == 1


def test_coverage_by_severity_and_without_a_source() -> None:
    points = with_intervals()
    severities = [
        covered.strength for covered in coverage(points, by="severity") if covered.kind == "all"
    ]
    assert severities == ["all", *(f"severity {j}" for j in range(6))]
    # Without a source the network's own point in domain is the source; that point is no shift.
    unsourced = [replace(p, source=None) for p in points]
    inside = [Point(f"n{i}", "S", "S", 0.5, 0.95) for i in range(6)]
    assert coverage([*unsourced, *inside]) == coverage(points)
    strengths = [covered.strength for covered in coverage(unsourced)]
    assert strengths[:2] == ["all", "unknown"]


def pair(network: int, test: int, held: bool) -> Point:
    return Point(
        f"n{network}", "S", f"t{test}", 0.5, 0.5, low=0.4 if held else 0.6, high=0.7, source=0.6
    )


def whole(points: Sequence[Point]) -> Covered:
    return coverage(points)[0]


def test_the_interval_of_a_share_by_hand() -> None:
    """Three networks cover 2, 1 and 1 of 2: share 2/3. Sums of covered less share are 2/3, -1/3,
    -1/3; variance 1.5 x (2/3) / 36. Independent pairs: (2/9) x 36 = 8, of which there are 6 at
    most. t for 2 degrees of freedom is 2.919986, so that they count as 6 (1.644854 / 2.919986)^2 =
    1.903901 pairs, 1.269267 of them covered. All covered: three, counting as 0.951951 pairs.
    """
    covered = whole(
        [
            pair(0, 0, True),
            pair(0, 1, True),
            pair(1, 0, True),
            pair(1, 1, False),
            pair(2, 0, False),
            pair(2, 1, True),
        ]
    )
    count = 6 * (1.644854 / 2.919986) ** 2
    right = count * 2 / 3
    assert count == pytest.approx(1.903901, abs=1e-6)
    assert covered.share.low == as_number(stats.beta.ppf(0.05, right, count - right + 1))
    assert covered.share.high == as_number(stats.beta.ppf(0.95, right + 1, count - right))
    every = whole([pair(i, j, True) for i in range(3) for j in range(2)]).share
    assert (every.value, every.high) == (1, 1)
    assert every.low == as_number(0.05 ** (1 / (count / 2)))
    none = whole([pair(i, j, False) for i in range(3) for j in range(2)]).share
    assert (none.value, none.low) == (0, 0)
    assert none.high == as_number(1 - 0.05 ** (1 / (count / 2)))
    assert whole([pair(i, 0, True) for i in range(2)]).share == Number(
        1.0, why="no interval from 2 networks"
    )


def test_a_share_is_as_sure_as_its_networks_are_many() -> None:
    """Networks of which each covers all or nothing: ten shifts tell no more than one."""
    single_networks, ten = (
        [pair(i, j, i % 4 > 0) for i in range(20) for j in range(n_networks)]
        for n_networks in (1, 10)
    )
    apart = [replace(p, network=f"{p.network}/{p.test}") for p in ten]
    widths = [width(whole(points).share) for points in (single_networks, ten, apart)]
    assert widths[1] == pytest.approx(widths[0], rel=0.1)
    assert widths[2] < 0.5 * widths[0]


def test_coverage_needs_shifts() -> None:
    with pytest.raises(ValueError, match="no points of a test domain"):
        coverage([Point("a", "S", "S", 0.5, 0.5)])
    with pytest.raises(ValueError, match='choose "drop" or "severity"'):
        coverage([pair(0, 0, True)], by="strength")


def test_predictions_of_a_cell_have_a_row_a_draw() -> None:
    table = read(made(5), 7, True)
    rows = np.flatnonzero(table.of_cell(table.cells[0]))
    assert predicted(table, table.cells[0], rows, "training").shape == (8, 5)
