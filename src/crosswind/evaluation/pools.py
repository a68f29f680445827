"""How well a measure or an estimate tells the accuracies of a pool of networks: the numbers of Ng
et al. 2022, section 4.3.

A table of points goes in, one for each network and test domain. `judge` gives the rank correlations
and, for the lines that turn a measure into an accuracy, R2 and the mean absolute error on what a
line was not fitted on. `comparison` sets two estimators against each other. `coverage` counts how
often intervals hold the accuracy. All intervals are of 90% and take the points of one network as
one observation.

*Cells.* A pool is the networks of one architecture, or all of them. A cell of a pool is a training
domain i and a test domain o other than i. A number is computed in each cell, averaged over the
cells of a pool, then over pools.

*Lines.* `HELD` lists what a line is fitted on. Some use accuracies of other networks on the very
domain that is estimated, which nobody has in practice; `Fit.uses_target_labels` says so.
Predictions are not cut to [0, 1], as in the paper.

*Intervals* of `judge` and `comparison` are a bootstrap: whole networks are drawn with replacement,
and every line is fitted anew. The interval is the number +- t SE, with SE from the spread of the
draws and t of Student's distribution with one degree of freedom less than there are networks. It
does not end at the quantiles of the draws. Where a cell has few networks these can miss the number
itself, since networks repeat in a draw and a line fits it too well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from crosswind.evaluation.binomial import exact_bounds
from crosswind.evaluation.compare import Difference, t_quantile
from crosswind.evaluation.multiplicity import at_level, judged_together
from crosswind.evaluation.points import (
    HELD,
    LEAST,
    LEAST_FOR_INTERVAL,
    LEVEL,
    RESAMPLES,
    Cell,
    Columns,
    Floats,
    Found,
    Mask,
    Number,
    Point,
    Rows,
    Z,
    across,
    average,
    cell_tau,
    errors,
    mean_of,
    pairs,
    predicted,
    read,
    standard_error,
)


@final
@dataclass(frozen=True)
class LineFit:
    """How well accuracies are told, by a line fitted as `held` says, or by an estimate itself
    (`held` is "estimate").

    `r2`: the squared correlation of value and accuracy in a cell, whatever the line and its sign.
    `explained`: 1 - SSE/SST of the predictions, below 0 where the mean accuracy of the cell
    predicts better. `mae`, `bias`: mean absolute and mean signed error (prediction - accuracy), in
    percentage points. `uses_target_labels`: the line is fitted on accuracies on the domain that it
    predicts.
    """

    held: str
    uses_target_labels: bool
    r2: Number
    explained: Number
    mae: Number
    bias: Number


@final
@dataclass(frozen=True)
class PoolJudgement:
    """Every number of one measure or estimator. Kendall's tau is tau-b.

    `id_tau`: over the networks of a training domain, on that domain. `macro_tau`: over the networks
    of a cell. `micro_tau`: on one test domain, over the networks of a pool that were trained on any
    other. `arch_tau`: the same over the networks of all architectures. `across_tau`: over the test
    domains of one network (appendix B.2). `fits`: by what the line was fitted on.
    """

    networks: int
    points: int
    id_tau: Number
    macro_tau: Number
    micro_tau: Number
    arch_tau: Number
    across_tau: Number
    fits: Mapping[str, LineFit]


_ONE_DOMAIN = "the networks have one training domain"


class OnDomain(NamedTuple):
    """Of one test domain: macro tau and squared correlation, averaged over training domains, and
    micro tau."""

    tau: Number
    r2: Number
    micro: Number


@final
@dataclass(frozen=True)
class Comparison:
    """`second` less `first`, paired by network; None where undefined, with the reason in `why`.

    `n` of a difference is the number of networks, `sd` its standard error times the root of that.
    Without a spread there is no p. `mae` in percentage points: below 0 the second is better.
    `macro_tau`: above 0 the second is better. Of several comparisons p is adjusted by Holm's
    method; intervals, of `mae_level` and `tau_level`, exclude 0 where that is below 0.05.
    """

    mae: Difference | None
    macro_tau: Difference | None
    why: tuple[str, ...] = ()
    mae_holm: float | None = None
    macro_tau_holm: float | None = None
    mae_level: float = LEVEL
    tau_level: float = LEVEL


@final
@dataclass(frozen=True)
class Covered:
    """How many of some pairs of network and shift have an accuracy inside their interval.

    `kind`: "all", "natural" or "synthetic". `strength`: "all", "weak", "middle", "strong",
    "severity 3", ..., or "unknown". `pairs` have an interval, `without` have none. `share`: the
    share covered. `width`: the median of high - low. `drop`: the least and the largest fall of
    accuracy from the source. None where there are no such pairs.
    """

    kind: str
    strength: str
    pairs: int
    networks: int
    without: int
    share: Number
    width: float | None
    drop: tuple[float, float] | None


def judge(
    points: Sequence[Point],
    *,
    estimates: bool = False,
    by_architecture: bool = True,
    resamples: int = RESAMPLES,
) -> PoolJudgement:
    """Every number of one measure or estimator.

    `estimates`: the values are accuracies, and are judged as such too (the fit "estimate").
    `by_architecture`: each architecture is a pool, as in the paper; False takes all networks as
    one. Raises `ValueError` for a table that cannot be read.
    """
    columns = read(points, resamples, by_architecture)
    n_draws = columns.weights.shape[1]
    if estimates and not ((columns.value >= 0) & (columns.value <= 1)).all():
        raise ValueError("an estimate is not an accuracy in [0, 1]")
    in_domain = columns.training == columns.test

    def taus(groups: Sequence[tuple[int, Mask]]) -> Number:
        return average(
            [(pool, cell_tau(columns, np.flatnonzero(mask))) for pool, mask in groups],
            n_draws,
            -1,
            1,
        )

    shifted = [
        mask
        for test in np.unique(columns.test)
        if (mask := (columns.test == test) & ~in_domain).any()
    ]
    micro = [pool_mask for mask in shifted for pool_mask in _micro(columns, mask)]
    fits = {rule: _fit(columns, rule) for rule in (*HELD, *(["estimate"] if estimates else []))}
    one_kind = len(np.unique(columns.architecture)) == 1
    return PoolJudgement(
        networks=n_draws,
        points=len(points),
        id_tau=taus(
            [
                (pool, in_domain & (columns.pool == pool) & (columns.training == i))
                for pool, i in pairs(columns.pool, columns.training, in_domain)
            ]
        ),
        macro_tau=taus([(cell.pool, columns.of_cell(cell)) for cell in columns.cells]),
        micro_tau=taus(micro) if micro else Number(None, why=_ONE_DOMAIN),
        arch_tau=(
            Number(None, why="the networks have one architecture")
            if one_kind
            else taus([(0, mask) for mask in shifted])
        ),
        across_tau=average(across(columns, ~in_domain), n_draws, -1, 1),
        fits=fits,
    )


def by_domain(points: Sequence[Point], *, by_architecture: bool = True) -> dict[str, OnDomain]:
    """The measures on each test domain alone, in the order of the points.

    A domain on which networks were trained has the numbers of the networks trained elsewhere; in
    domain where there are none.
    """
    columns = read(points, RESAMPLES, by_architecture)
    domain_names = {p.training for p in points} | {p.test for p in points}
    codes = {name: code for code, name in enumerate(sorted(domain_names))}
    n_networks = columns.weights.shape[1]
    domains = {}
    for name in dict.fromkeys(p.test for p in points):
        on_domain = columns.test == codes[name]
        shifted = on_domain & (columns.training != columns.test)
        taus: list[tuple[int, Found]] = []
        squares: list[tuple[int, Found]] = []
        for pool, training in pairs(
            columns.pool, columns.training, shifted if shifted.any() else on_domain
        ):
            cell = Cell(pool, training, codes[name])
            rows = np.flatnonzero(columns.of_cell(cell))
            taus.append((pool, cell_tau(columns, rows)))
            squares.append((pool, errors(columns, cell, rows, "estimate")[0]))
        micro = [
            (pool, cell_tau(columns, np.flatnonzero(mask)))
            for pool, mask in _micro(columns, shifted)
        ]
        if micro:
            tau = average(micro, n_networks, -1, 1)
        else:
            tau = Number(None, why=_ONE_DOMAIN)
        r2 = average(squares, n_networks, 0, 1)
        domains[name] = OnDomain(average(taus, n_networks, -1, 1), r2, tau)
    return domains


def _micro(columns: Columns, mask: Mask) -> list[tuple[int, Mask]]:
    """The points of a mask by pool, of pools whose networks have several training domains."""
    several = []
    for pool in np.unique(columns.pool):
        if len(np.unique(columns.training[columns.pool == pool])) > 1:
            several.append(int(pool))
    return [(pool, inside) for pool in several if (inside := mask & (columns.pool == pool)).any()]


def predictions(
    points: Sequence[Point], held: str, *, by_architecture: bool = True
) -> list[float | None]:
    """The accuracy that the line predicts for each point; None where there is no line, and in
    domain. `held` is one of `HELD`."""
    if held not in HELD:
        raise ValueError(f"held is {held!r}: choose one of {', '.join(HELD)}")
    columns = read(points, 0, by_architecture)
    predicted_accuracies: list[float | None] = [None] * len(points)
    for cell in columns.cells:
        rows = np.flatnonzero(columns.of_cell(cell))
        for row, value in zip(rows, predicted(columns, cell, rows, held)[0], strict=True):
            predicted_accuracies[row] = None if math.isnan(value) else float(value)
    return predicted_accuracies


def comparison(
    first: Sequence[Point],
    second: Sequence[Point],
    *,
    held: str = "estimate",
    by_architecture: bool = True,
    resamples: int = RESAMPLES,
) -> Comparison:
    """Two estimators on the same points, with 90% intervals and p-values.

    `held`: whose errors are compared, one of `HELD` or "estimate" for those of the values
    themselves. A difference is averaged over the cells where both have a number; a draw of networks
    is the same for both. The interval excludes 0 where p < 0.1. Raises `ValueError` where the
    tables differ in more than values.
    """
    aligned = _aligned(first, second)
    if held not in (*HELD, "estimate"):
        raise ValueError(f"held is {held!r}: choose one of {', '.join(HELD)}, estimate")
    sides = [read(points, resamples, by_architecture) for points in aligned]
    n_networks = sides[0].weights.shape[1]
    why: list[str] = []
    differences: list[Difference | None] = []
    for name in ("MAE", "macro tau"):
        number_held = held if name == "MAE" else None
        cells = []
        for cell in sides[0].cells:
            cells.append((cell.pool, _cell_difference(sides[0], sides[1], cell, number_held)))
        draws, reason = mean_of(cells)
        interval = None if draws is None else difference(draws, n_networks)
        if interval is None or interval.low is None:
            too_few = f"fewer than {LEAST_FOR_INTERVAL} networks for an interval"
            why.append(f"{name}: {reason or too_few}")
        differences.append(interval)
    return Comparison(differences[0], differences[1], tuple(why))


def _aligned(first: Sequence[Point], second: Sequence[Point]) -> tuple[list[Point], list[Point]]:
    """The points of two estimators in one order. Raises `ValueError` where they differ in more than
    values."""

    def identity(point: Point) -> tuple[str, str, str, str, float]:
        return point.network, point.training, point.test, point.architecture, point.accuracy

    first_points = sorted(first, key=identity)
    second_points = sorted(second, key=identity)
    if list(map(identity, first_points)) != list(map(identity, second_points)):
        raise ValueError("two estimators are compared on points that are not the same")
    return first_points, second_points


def _cell_difference(first: Columns, second: Columns, cell: Cell, held: str | None) -> Found:
    """The second less the first in one cell: mean absolute errors by a line fitted as `held` says,
    or Kendall's tau without one."""
    rows = np.flatnonzero(first.of_cell(cell))
    first_number = cell_tau(first, rows) if held is None else errors(first, cell, rows, held)[2]
    second_number = cell_tau(second, rows) if held is None else errors(second, cell, rows, held)[2]
    if isinstance(first_number, str):
        return first_number
    if isinstance(second_number, str):
        return second_number
    return second_number - first_number


def comparisons(
    reference: Sequence[Point],
    others: Mapping[str, Sequence[Point]],
    *,
    held: str = "estimate",
    by_architecture: bool = True,
    resamples: int = RESAMPLES,
) -> dict[str, Comparison]:
    """Each of `others` against one reference, the p-values adjusted by Holm's method, those of each
    number for themselves."""
    compared = {
        name: comparison(
            reference, side, held=held, by_architecture=by_architecture, resamples=resamples
        )
        for name, side in others.items()
    }
    sides = []
    for number in ("mae", "macro_tau"):
        sides.append(
            {name: getattr(comparison_of, number) for name, comparison_of in compared.items()}
        )
    mae, tau = (
        judged_together({k: v.p for k, v in side.items() if v and v.p is not None}, "holm")
        for side in sides
    )
    for name, comparison_of in compared.items():
        adjusted = mae.adjusted.get(name), tau.adjusted.get(name), mae.level, tau.level
        macro_tau = at_level(comparison_of.macro_tau, tau.level)
        compared[name] = Comparison(
            at_level(comparison_of.mae, mae.level), macro_tau, comparison_of.why, *adjusted
        )
    return compared


def coverage(points: Sequence[Point], *, by: str = "drop") -> list[Covered]:
    """How often intervals hold the accuracy: for all pairs, natural and synthetic shifts apart,
    each by strength of the shift too.

    Points in domain are no shifts and are not counted. `by`: "drop" takes terciles, over all pairs,
    of the fall of accuracy from the source (`Point.source`, else the network's own point in
    domain); "severity" takes the severity given. A share's interval is that of Clopper and Pearson
    for as many independent pairs as give the variance between networks (Korn and Graubard 1998).
    Where all or none are covered, for as many as there are networks.
    """
    if by not in ("drop", "severity"):
        raise ValueError(f'by is {by!r}: choose "drop" or "severity"')
    shifted = [point for point in points if point.training != point.test]
    if not shifted:
        raise ValueError("there are no points of a test domain other than that of training")
    drops = _drops(points, shifted)
    if by == "severity":
        strengths = [_severity(point) for point in shifted]
    else:
        strengths = _terciles(drops)
    ranked_strengths = sorted(set(strengths), key=_strength_rank)
    natural = any(not point.synthetic for point in shifted)
    synthetic = any(point.synthetic for point in shifted)
    of_kind = {"all": True, "natural": natural, "synthetic": synthetic}
    covered: list[Covered] = []
    for kind in (name for name, present in of_kind.items() if present):
        for strength in ("all", *ranked_strengths):
            chosen = []
            for point, drop, own_strength in zip(shifted, drops, strengths, strict=True):
                if strength in ("all", own_strength) and kind in ("all", _kind(point)):
                    chosen.append((point, drop))
            covered.append(_covered(kind, strength, chosen))
    return covered


def _drops(points: Sequence[Point], shifted: Sequence[Point]) -> list[float | None]:
    """By how much accuracy falls from the source, for each shifted point; None where that is
    unknown."""
    in_domain = {point.network: point.accuracy for point in points if point.training == point.test}
    drops: list[float | None] = []
    for point in shifted:
        if point.source is None:
            source = in_domain.get(point.network)
        else:
            source = point.source
        drops.append(None if source is None else source - point.accuracy)
    return drops


_TERCILES = ("weak", "middle", "strong")


def _terciles(drops: Sequence[float | None]) -> list[str]:
    """The tercile of each drop among all that are known."""
    known_drops = [drop for drop in drops if drop is not None]
    if known_drops:
        edges = np.quantile(known_drops, [1 / 3, 2 / 3])
    else:
        edges = np.zeros(2)
    terciles: list[str] = []
    for drop in drops:
        terciles.append("unknown" if drop is None else _TERCILES[int(np.searchsorted(edges, drop))])
    return terciles


def _severity(point: Point) -> str:
    if point.severity is None:
        return "unknown"
    return f"severity {point.severity:g}"


def _strength_rank(name: str) -> tuple[bool, int, int, str]:
    """Terciles by strength, severities by their number, the unknown last."""
    return name == "unknown", [*_TERCILES, name].index(name), len(name), name


def _kind(point: Point) -> str:
    return "synthetic" if point.synthetic else "natural"


def _covered(kind: str, strength: str, chosen: Sequence[tuple[Point, float | None]]) -> Covered:
    ends = []
    for point, _ in chosen:
        if point.low is not None and point.high is not None:
            ends.append((point, point.low, point.high))
    drops = [drop for _, drop in chosen if drop is not None]
    names = sorted({point.network for point, _, _ in ends})
    is_inside = [low <= point.accuracy <= high for point, low, high in ends]
    network = np.array([names.index(point.network) for point, _, _ in ends], dtype=np.int64)
    without = len(chosen) - len(ends)
    share = _share(np.array(is_inside, dtype=np.float64), network, len(names))
    lengths = [high - low for _, low, high in ends]
    drop_range = (min(drops), max(drops)) if drops else None
    return Covered(
        kind,
        strength,
        len(ends),
        len(names),
        without,
        share,
        float(np.median(lengths)) if ends else None,
        drop_range,
    )


def _share(is_inside: Floats, network: Rows, n_networks: int) -> Number:
    """The share that is 1, its interval by `coverage`; `network` are codes in range(many)."""
    if not len(is_inside):
        return Number(None, why="there are no intervals")
    n = len(is_inside)
    share = float(is_inside.mean())
    if n_networks < LEAST:
        return Number(share, why=f"no interval from {n_networks} networks")
    weights = is_inside - share
    apart = np.bincount(network, weights=weights, minlength=n_networks)
    variance = n_networks / (n_networks - 1) * float((apart**2).sum()) / n**2
    independent = (
        n_networks
        if share in (0, 1)
        else min(n, share * (1 - share) / variance)
        if variance > 0
        else n
    )
    count = independent * (Z / t_quantile(n_networks - 1, LEVEL)) ** 2
    return Number(share, *exact_bounds(share, count, LEVEL))


def _fit(table: Columns, rule: str) -> LineFit:
    columns: list[list[tuple[int, Found]]] = [[], [], [], []]
    for cell in table.cells:
        for column, number in zip(
            columns, errors(table, cell, np.flatnonzero(table.of_cell(cell)), rule), strict=True
        ):
            column.append((cell.pool, number))
    bounds = (
        (0.0, 1.0),
        (-math.inf, 1.0),
        (0.0, 100.0 if rule == "estimate" else math.inf),
        (-math.inf, math.inf),
    )
    numbers = (
        average(column, table.weights.shape[1], *ends)
        for column, ends in zip(columns, bounds, strict=True)
    )
    uses_target_labels = rule in HELD and HELD[rule].uses_target_labels
    return LineFit(rule, uses_target_labels, *numbers)


def micro_difference(
    first: Sequence[Point],
    second: Sequence[Point],
    *,
    by_architecture: bool = True,
    resamples: int = RESAMPLES,
) -> Difference | None:
    """Micro tau of `second` less that of `first`, each averaged over its own test domains; None
    where one has none.

    The networks are the same, and a draw of them is: measures may differ, and so may the rows that
    they were taken on. Raises `ValueError` for other networks.
    """
    draws = []
    for points in (first, second):
        columns = read(points, resamples, by_architecture)
        shifted = []
        for test in np.unique(columns.test):
            shifted.append((columns.test == test) & (columns.training != columns.test))
        taus_of_cells = []
        for domain_masks in shifted:
            for pool, mask in _micro(columns, domain_masks):
                taus_of_cells.append((pool, cell_tau(columns, np.flatnonzero(mask))))
        difference_draws, _ = mean_of(taus_of_cells)
        draws.append(difference_draws)
    names = [sorted({point.network for point in points}) for points in (first, second)]
    if names[0] != names[1]:
        raise ValueError("two micro taus are compared over networks that are not the same")
    if draws[0] is None or draws[1] is None:
        return None
    return difference(draws[1] - draws[0], len(names[0]))


def difference(draws: Floats, networks: int) -> Difference:
    """The first of the draws, its interval by the others and its p-value; `n` is the number of
    networks."""
    mean = float(draws[0])
    error = standard_error(draws, networks)
    if error is None:
        return Difference(mean, None, networks, None, None)
    if error < 1e-12:
        return Difference(mean, 0.0, networks, mean, mean)
    from scipy.special import stdtr

    half = t_quantile(networks - 1, LEVEL) * error
    p = float(2 * stdtr(networks - 1, -abs(mean) / error))
    return Difference(mean, error * math.sqrt(networks), networks, mean - half, mean + half, p=p)
