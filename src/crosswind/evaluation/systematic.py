"""Systematic robustness: what is learned of an environment on some classes, and how much of it the
other classes show.

Pure functions of answers. `rho` is equation 1 of Omran and Schiele 2022. `effective_robustness` is
what Taori et al. 2020 measure, named beside it: rho alone is 1 wherever nothing was learned of the
environment that the reference did not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosswind.core.seeds import stream
from crosswind.evaluation.binomial import exact_bounds

Right = NDArray[np.bool_]
_PART = 250  # replicates of the bootstrap that are made at a time


def rho(seen: float, unseen: float, reference: float = 0.0) -> float | None:
    """min(1, max(0, unseen - reference) / min(1, seen - reference)); None where the denominator is
    not positive.

    `seen`, `unseen`: accuracies in one environment on the classes that training showed there, and
    on the others. `reference`: that of the reference model on all classes there; 0 where there is
    none. Omran and Schiele 2022, equation 1.
    """
    below = min(1.0, seen - reference)
    if below > 0:
        return min(1.0, max(0.0, unseen - reference) / below)
    return None


@dataclass(frozen=True)
class SystematicScores:
    """One environment: accuracy on its seen and its unseen classes, rows of each, `reference`, and
    rho with its interval.

    `rho` is None where it is undefined, `low` and `high` are where more than 5% of the replicates
    of the bootstrap are: of `undefined`, a share of them.
    """

    seen: float
    unseen: float
    n_seen: int
    n_unseen: int
    reference: float
    rho: float | None
    low: float | None = None
    high: float | None = None
    undefined: float = 0.0


def systematic(
    right: Right,
    seen: Right,
    reference: Right | None = None,
    *,
    level: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
) -> SystematicScores:
    """Accuracies and rho in one environment, with the percentile interval of rho over test rows and
    over seeds.

    `right` bool [seeds, n]: whether each run answered each test row of the environment. `seen` bool
    [n]: whether training showed the row's class there; `reference` bool [models, n]: the same rows
    answered by a reference model, or several. A replicate draws seeds, and rows of seen and of
    unseen classes apart, with replacement; the reference's rows with them. One seed cannot be
    resampled: the interval is then over rows alone. Rows drawn anew hold no mistake where there is
    none, so that the interval holds what the exact bounds of the accuracies leave to rho, too.
    `replicates` 0: no interval. Raises `ValueError` without rows of either kind.
    """
    right = np.atleast_2d(right)
    row_sets = [np.flatnonzero(seen), np.flatnonzero(~seen)]
    if not len(row_sets[0]) or not len(row_sets[1]):
        raise ValueError(
            "an environment needs test rows of classes that training showed there, and of others"
        )
    reference_accuracy = None
    if reference is not None:
        reference_accuracy = np.atleast_2d(reference).mean(axis=0)
    accuracy = [float(right[:, rows].mean()) for rows in row_sets]
    base = 0.0 if reference_accuracy is None else float(reference_accuracy.mean())
    n_seen = len(row_sets[0])
    n_unseen = len(row_sets[1])
    scores = SystematicScores(
        accuracy[0], accuracy[1], n_seen, n_unseen, base, rho(accuracy[0], accuracy[1], base)
    )
    if not replicates:
        return scores
    drawn = _replicates(right.astype(np.float64), reference_accuracy, row_sets, replicates, seed)
    replicated_rho = np.array(
        [value for accuracies in drawn if (value := rho(*map(float, accuracies))) is not None]
    )
    undefined = 1 - len(replicated_rho) / replicates
    if undefined > 0.05 or scores.rho is None:
        return SystematicScores(**{**vars(scores), "undefined": undefined})
    low, high = np.quantile(replicated_rho, [(1 - level) / 2, (1 + level) / 2])
    sides = [right[:, rows] for rows in row_sets]
    least, most = _exact(sides, None if reference is None else np.atleast_2d(reference), level)
    ends = {"low": min(float(low), least), "high": max(float(high), most)}
    return SystematicScores(**{**vars(scores), **ends, "undefined": undefined})


def _exact(sides: Sequence[Right], reference: Right | None, level: float) -> tuple[float, float]:
    """The part of rho's interval that the exact bounds of the accuracies add: how far each moves it
    alone, in quadrature.

    `sides`: answers to seen and to unseen rows, [seeds, rows] each. A reference is known but for
    chance where it is right on all rows or on none. Elsewhere its rows are drawn with the others,
    and the bootstrap holds what it shares with them.
    """
    seen, unseen = (float(right.mean()) for right in sides)
    bounds = [exact_bounds(float(right.mean()), _rows_told(right), level) for right in sides]
    base = 0.0
    of_base = (0.0, 0.0)
    if reference is not None:
        base = float(reference.mean())
        known = base not in (0.0, 1.0)
        if known:
            of_base = (base, base)
        else:
            of_base = exact_bounds(base, reference.shape[1], level)

    def ratio(seen: float, unseen: float, reference: float) -> float:  # of equation 1, not cut
        gain = unseen - reference
        learned = seen - reference
        if learned > 0:
            return gain / learned
        return float(np.copysign(np.inf, gain))

    value = ratio(seen, unseen, base)
    by_seen = [ratio(end, unseen, base) - value for end in bounds[0]]
    by_unseen = [ratio(seen, end, base) - value for end in bounds[1]]
    by_base = [ratio(seen, unseen, end) - value for end in of_base]
    alone = [by_seen, by_unseen, by_base]
    below = np.hypot.reduce([max(0.0, -min(moved)) for moved in alone])
    above = np.hypot.reduce([max(0.0, *moved) for moved in alone])
    return float(np.clip(value - below, 0, 1)), float(np.clip(value + above, 0, 1))


def _rows_told(right: Right) -> float:
    """Of how many independent rows the mean over seeds and rows tells as much: the rows where all
    seeds answer alike, up to seeds x rows where they err apart.

    Two rows that all seeds answer alike, one right and one wrong, are counted too: few mistakes do
    not tell whether seeds share them.
    """
    by_row = np.append(right.mean(axis=0), [0.0, 1.0])
    share = float(by_row.mean())
    apart = share * (1 - share) / float(by_row.var())
    return right.shape[1] * float(np.clip(apart, 1, len(right)))


def _replicates(
    right: NDArray[np.float64],
    reference_accuracy: NDArray[np.float64] | None,
    row_sets: Sequence[NDArray[np.int64]],
    replicates: int,
    seed: int,
) -> NDArray[np.float64]:
    """Accuracy on seen and on unseen classes and of the reference in every replicate: float64
    [replicates, 3]."""
    generator = stream(seed, "bootstrap of rho")
    out = np.zeros((replicates, 3))
    runs = len(right)
    n = sum(map(len, row_sets))
    for start in range(0, replicates, _PART):
        size = min(_PART, replicates - start)
        of_runs = generator.multinomial(runs, np.full(runs, 1 / runs), size) / runs
        for side, rows in enumerate(row_sets):
            times = generator.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size)
            hits_of_runs = (times @ right[:, rows].T) * of_runs
            out[start : start + size, side] = hits_of_runs.sum(axis=1) / len(rows)
            if reference_accuracy is not None:
                out[start : start + size, 2] += times @ reference_accuracy[rows] / n
    return out


def by_environment(
    right: Right,
    group: NDArray[np.int64],
    seen: Sequence[bool],
    names: Sequence[str],
    class_names: Sequence[str],
    **options: Any,
) -> dict[str, SystematicScores]:
    """`systematic` of every environment of which training showed some classes and not others, by
    name.

    `right` bool [seeds, n]; `group` int64 [n]: numbers of `names`, the groups of label and
    environment, class after class; `seen`: which groups training showed. An environment without
    test rows of either kind is left out. `options`: as for `systematic`.
    """
    right = np.atleast_2d(right)
    by_name = {}
    reference_right = options.pop("reference", None)
    for name, rows, shown in kept_apart(group, seen, names, class_names):
        reference = None
        if reference_right is not None:
            reference = np.atleast_2d(reference_right)[:, rows]
        by_name[name] = systematic(right[:, rows], shown, reference, **options)
    return by_name


def kept_apart(
    group: NDArray[np.int64], seen: Sequence[bool], names: Sequence[str], class_names: Sequence[str]
) -> Iterator[tuple[str, NDArray[np.int64], Right]]:
    """Every environment of `by_environment`: its name, its test rows, and which of them training
    showed."""
    size = len(names) // len(class_names)
    for environment in range(size):
        rows = np.flatnonzero((group >= 0) & (group % size == environment))
        shown = np.asarray(seen, dtype=bool)[group[rows]]
        if len(np.unique(shown)) == 2:
            yield (
                names[environment].partition(f"={class_names[0]}, ")[2] or names[environment],
                rows,
                shown,
            )


def systematic_scores(by_name: Mapping[str, SystematicScores]) -> dict[str, Any]:
    """The scores of systematic robustness: means over the environments, and each of them as plain
    values.

    `seen_accuracy`, `unseen_accuracy`, `rho`: None without environments; rho also where it is
    undefined in one of them.
    """
    environments = list(by_name.values())
    ratios = [environment.rho for environment in environments if environment.rho is not None]
    seen_accuracy = None
    if environments:
        seen_accuracy = float(np.mean([environment.seen for environment in environments]))
    unseen_accuracy = None
    if environments:
        unseen_accuracy = float(np.mean([environment.unseen for environment in environments]))
    return {
        "seen_accuracy": seen_accuracy,
        "unseen_accuracy": unseen_accuracy,
        "rho": float(np.mean(ratios))
        if environments and len(ratios) == len(environments)
        else None,
        "environments": {name: vars(environment) for name, environment in by_name.items()},
    }


class Line(NamedTuple):
    """A line in logits of accuracy, from standard to shifted test rows, with the share of variance
    that it explains."""

    slope: float
    intercept: float
    r2: float
    n: int


def effective_robustness(
    standard: NDArray[np.float64], shifted: NDArray[np.float64], baseline: Right | None = None
) -> tuple[NDArray[np.float64], Line]:
    """How much higher each model's accuracy under shift is than the baseline models' line says:
    float64 [n], and that line.

    `standard`, `shifted` [n]: accuracies in (0, 1); a model with another number (or NaN) in either
    has NaN and is not in the fit. `baseline` bool [n]: the models that the line is fitted to, all
    by default; least squares on logits (Taori et al. 2020, section 3.1). Raises `ValueError` where
    these have fewer than two different standard accuracies.
    """
    usable = np.isfinite(standard) & (standard > 0) & (standard < 1)
    usable &= np.isfinite(shifted) & (shifted > 0) & (shifted < 1)
    chosen = usable if baseline is None else usable & baseline
    if len(np.unique(standard[chosen])) < 2:
        raise ValueError("a line needs baseline models of at least two different accuracies")
    x = np.log(standard[usable] / (1 - standard[usable]))
    y = np.log(shifted[usable] / (1 - shifted[usable]))
    of_fit = chosen[usable]
    slope, intercept = np.polyfit(x[of_fit], y[of_fit], 1)
    gap = np.full(len(standard), np.nan)
    gap[usable] = shifted[usable] - 1 / (1 + np.exp(-(slope * x + intercept)))
    r2 = float(np.corrcoef(x[of_fit], y[of_fit])[0, 1] ** 2)
    return gap, Line(float(slope), float(intercept), r2, int(of_fit.sum()))
