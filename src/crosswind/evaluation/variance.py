"""The variance of a study's scores shared out between what its runs differ in.

A decomposition by analysis of variance, not a fitted mixed model: components are estimated by the
method of moments from mean squares (Henderson 1953, method I), those below 0 count as 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SEED, SPLIT, SETTING, METHOD, SHIFT, DATA, CONDITION, TOGETHER = (
    "seed",
    "split seed",
    "settings",
    "method",
    "shift",
    "data set",
    "data set and shift",
    "together",
)
"""What scores differ by. `CONDITION`: where not every shift is run on every data set. `TOGETHER`: what
methods, shifts and data sets do beyond each alone."""


class ScoreKey(NamedTuple):
    """The key of one score."""

    data: str
    shift: str
    method: str
    setting: str
    split: Hashable
    seed: Hashable


@dataclass(frozen=True)
class VarianceShares:
    """The variance by what scores differ by, in squares of the score. `scores` of them are used;
    `left_out` are of data sets and shifts that lack some."""

    components: Mapping[str, float]
    scores: int
    left_out: int

    @property
    def shares(self) -> dict[str, float]:
        """The components as shares of their sum, which add up to 1; 0 where nothing varies."""
        total = sum(self.components.values())
        return {name: value / total if total else 0.0 for name, value in self.components.items()}


def variance_shares(scores: Mapping[ScoreKey, float]) -> VarianceShares | None:
    """The variance of scores shared out; None without two seeds or split seeds at some data set and
    shift that has every score.

    With y = mean + data + shift + method + together + setting + split + seed, all random:

    * seed: the mean variance over the seeds of one split seed and setting;
    * split seed: that of means over seeds, less seed / seeds;
    * settings: that of a method's settings, of means over both, less what these leave;
    * data, shift, method: the mean squares of the means over settings, less that of what is left, over
      the number of scores a level; `together` is what is left, less what settings and runs leave.

    A level that there is one of has no component.
    """
    whole = _whole(scores)
    runs = {(key.split, key.seed) for key in whole}
    splits = {split for split, _ in runs}
    n_splits, n_seeds = len(splits), len(runs) // max(1, len(splits))
    if len(runs) < 2 or n_splits * n_seeds != len(runs):
        return None
    components: dict[str, float] = {}
    by_split = _grouped(whole, lambda key: key._replace(seed=0))
    if n_seeds > 1:
        components[SEED] = _mean_variance(by_split)
    noise = components.get(SEED, 0.0) / n_seeds
    split_means = _means(by_split)
    by_setting = _grouped(split_means, lambda key: key._replace(split=0))
    if n_splits > 1:
        components[SPLIT] = max(0.0, _mean_variance(by_setting) - noise)
    noise = (components.get(SPLIT, 0.0) + noise) / n_splits
    setting_means = _means(by_setting)
    by_method = _grouped(setting_means, lambda key: key._replace(setting=""))
    if any(len(values) > 1 for values in by_method.values()):
        components[SETTING] = max(0.0, _mean_variance(by_method) - noise)
    left = np.mean([(components.get(SETTING, 0.0) + noise) / len(v) for v in by_method.values()])
    components |= _crossed(_means(by_method), float(left))
    return VarianceShares(components, len(whole), len(scores) - len(whole))


def _whole(scores: Mapping[ScoreKey, float]) -> dict[ScoreKey, float]:
    """The scores of the data sets and shifts at which every method has every setting and run."""
    by_condition: dict[tuple[str, str], dict[ScoreKey, float]] = defaultdict(dict)
    for key, score in scores.items():
        by_condition[key.data, key.shift][key] = score
    wanted = {key[2:] for key in scores}
    whole: dict[ScoreKey, float] = {}
    for condition_scores in by_condition.values():
        if {key[2:] for key in condition_scores} == wanted:
            whole |= condition_scores
    return whole


def _grouped(scores: Mapping[ScoreKey, float], group: Any) -> dict[ScoreKey, list[float]]:
    groups: dict[ScoreKey, list[float]] = defaultdict(list)
    for key, score in scores.items():
        groups[group(key)].append(score)
    return groups


def _means(groups: Mapping[ScoreKey, Sequence[float]]) -> dict[ScoreKey, float]:
    return {key: float(np.mean(values)) for key, values in groups.items()}


def _mean_variance(groups: Mapping[ScoreKey, Sequence[float]]) -> float:
    """The mean variance of the groups that have two values or more, n - 1 in each denominator."""
    variances = [float(np.var(values, ddof=1)) for values in groups.values() if len(values) > 1]
    return float(np.mean(variances))


def _crossed(means: Mapping[ScoreKey, float], noise: float) -> dict[str, float]:
    """The components of data sets, shifts and methods from a table of means, each with the variance
    `noise` of what is below it."""
    factors, table = _table(means)
    rest = table - table.mean()
    effects = {axis: _main_effect(table, axis) for axis in range(3) if table.shape[axis] > 1}
    for effect in effects.values():
        rest = rest - effect
    free = table.size - 1 - sum(effect.size - 1 for effect in effects.values())
    of_rest = float((rest**2).sum()) / free if free else noise
    components: dict[str, float] = {}
    for axis, effect in effects.items():
        scores_a_level = table.size / effect.size
        mean_square = float((effect**2).sum()) * scores_a_level / (effect.size - 1)
        components[factors[axis]] = max(0.0, (mean_square - of_rest) / scores_a_level)
    if free:
        components[TOGETHER] = max(0.0, of_rest - noise)
    return components


def _table(means: Mapping[ScoreKey, float]) -> tuple[Sequence[str], Floats]:
    """The axes of a table of means, and the means by data set, shift and method. Where not every
    data set has every shift, both are the first axis."""
    conditions = list(dict.fromkeys((key.data, key.shift) for key in means))
    methods = list(dict.fromkeys(key.method for key in means))
    n_data = len({data for data, _ in conditions})
    n_shifts = len({shift for _, shift in conditions})
    by_cell = {(key.data, key.shift, key.method): mean for key, mean in means.items()}
    if len(conditions) == n_data * n_shifts:
        conditions.sort()
        factors, shape = (DATA, SHIFT, METHOD), (n_data, n_shifts, len(methods))
    else:
        factors, shape = (CONDITION, "", METHOD), (len(conditions), 1, len(methods))
    rows = [by_cell[data, shift, method] for data, shift in conditions for method in methods]
    return factors, np.array(rows).reshape(shape)


def _main_effect(table: Floats, axis: int) -> Floats:
    """The means of the levels of an axis less the mean of all, as a table of one entry a level."""
    others = tuple(other for other in range(3) if other != axis)
    return np.asarray(table.mean(axis=others, keepdims=True) - table.mean())
