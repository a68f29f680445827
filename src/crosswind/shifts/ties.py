"""The tie of an attribute with the label in a table of rows, and the matching that it shows.

A spurious correlation that names no matching takes the one that the rows show, so that a study
asks for the correlation that is there. Rows without a tie give none.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.association import Interval, cramers_v, redrawn

LEVEL: Final = 0.001
"""A tie is one whose test of independence has a smaller p."""
MOST_CELLS: Final = 50_000
"""Classes times values of which a tie is looked for: redrawing more takes gigabytes, and cells of so
few rows tell none."""
_SEED: Final = 0


@dataclass(frozen=True)
class Tie:
    """How strongly an attribute goes with the label in the rows of a table.

    `v`: Cramér's V, corrected for bias, with its 95% interval. `matching`: class -> the values that
    go with it; empty where the test of independence does not tell a tie. `matched_share`: the share
    of rows that show a matched value, each class counted alike; 0 without a tie. `counts`: rows of
    each class and value, int64 [classes, values]. `shown_with`: class -> the value that it shows
    most beyond the other classes, of classes whose matched values show less than half of that
    excess, since another class shows the value still more.
    """

    label: str
    attribute: str
    v: Interval
    matching: Mapping[str, tuple[str, ...]]
    matched_share: float
    counts: NDArray[np.int64] = dataclasses.field(repr=False, compare=False)
    shown_with: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def in_words(self) -> str:
        """The tie as one sentence without its full stop."""
        pairs = ", ".join(
            f"{name} with {' or '.join(values)}" for name, values in self.matching.items()
        )
        strength = f"Cramér's V {self.v.value:.2f} [{self.v.low:.2f}, {self.v.high:.2f}]"
        sentence = (
            f"{self.attribute!r} goes with {self.label!r} in the rows ({pairs}: {self.matched_share:.0%}"
            f" of each class on average; {strength})"
        )
        if not self.shown_with:
            return sentence
        shown = ", ".join(f"{name} with {value}" for name, value in self.shown_with.items())
        return (
            f"{sentence}; the rows themselves show {shown}, a value that is matched to another class:"
            " name the shift's 'matching' to choose another"
        )


def tie_of(dataset: AttributedDataset, label: str, attribute: str) -> Tie:
    """The tie of an attribute with the label over all base rows of a data set."""
    key = ("tie", label, attribute)
    if key not in dataset.cache:
        axes = [dataset.table.attribute(name) for name in (label, attribute)]
        shape = (len(axes[0]), len(axes[1]))
        if shape[0] * shape[1] > MOST_CELLS:
            none = np.zeros((0, 0), dtype=np.int64)
            return Tie(label, attribute, Interval(0.0, 0.0, 0.0), {}, 0.0, none)
        codes = [dataset.table.column(name).astype(np.int64) for name in (label, attribute)]
        cells = np.ravel_multi_index((codes[0], codes[1]), shape)
        counts = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
        names = [tuple(map(str, axis.values)) for axis in axes]
        dataset.cache[key] = tie_of_counts(counts, label, attribute, names[0], names[1])
    tie: Tie = dataset.cache[key]
    return tie


def tie_of_counts(
    counts: NDArray[np.int64],
    label: str,
    attribute: str,
    classes: tuple[str, ...],
    values: tuple[str, ...],
) -> Tie:
    """The tie that counts [classes, values] show."""
    table = counts.astype(np.float64)
    strength = float(cramers_v(table))
    if independence(table) >= LEVEL:
        return Tie(label, attribute, Interval(strength, 0.0, strength), {}, 0.0, counts)
    draws = cramers_v(redrawn(table, np.random.default_rng(_SEED)), 2.0)
    low, high = (float(bound) for bound in np.quantile(draws, [0.025, 0.975]))
    matched = matching_of(table)
    matching = {}
    for name, row in zip(classes, matched, strict=True):
        matching[name] = tuple(value for value, goes in zip(values, row, strict=True) if goes)
    in_class = table.sum(axis=1)
    shares = (table * matched).sum(axis=1)[in_class > 0] / in_class[in_class > 0]
    interval = Interval(strength, min(low, strength), max(high, strength))
    matched_share = float(shares.mean())
    excess = _excess(table)
    greatest = excess.argmax(axis=1)
    shown_with = {
        classes[code]: values[greatest[code]]
        for code in np.flatnonzero(in_class)
        if not matched[code, greatest[code]]
        and 2 * excess[code][matched[code]].sum() < excess[code].max()
    }
    return Tie(label, attribute, interval, matching, matched_share, counts, shown_with)


def independence(table: NDArray[np.float64]) -> float:
    """p in [0, 1] of Pearson's test that rows and columns of counts are independent; 1 where there
    is nothing to test."""
    rows = table.sum(axis=1)
    columns = table.sum(axis=0)
    table = table[rows > 0][:, columns > 0]
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    if freedom < 1:
        return 1.0
    expected = table.sum(axis=1)[:, None] * table.sum(axis=0)[None] / table.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    return upper_tail(statistic, freedom)


def upper_tail(statistic: float, freedom: int) -> float:
    """The probability in [0, 1] that chi-squared with `freedom` >= 1 exceeds `statistic` >= 0, by
    its finite sum (Abramowitz & Stegun 1964, 26.4.4 and 26.4.5).

    SciPy has it, too, and would be half of what planning a small study imports.
    """
    half = statistic / 2
    if half <= 0:
        return 1.0
    orders = np.arange(freedom % 2 / 2, freedom / 2)
    # Terms of many degrees of freedom overflow before they are divided.
    log_factorials = np.array([math.lgamma(order + 1) for order in orders])
    total = float(np.exp(orders * math.log(half) - half - log_factorials).sum())
    if freedom % 2:
        # One degree of freedom is a squared normal number.
        total += math.erfc(math.sqrt(half))
    return min(total, 1.0)


def matching_of(table: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values go with which class in counts [classes, values]: bool of that shape.

    As many pairs as the shorter side is long are chosen so that each class and value is in one at
    most. The values exceed what independence of each class leads one to expect by most rows in all,
    classes weighing alike. A class or value that is left over goes with the one it exceeds that by
    most.
    """
    from scipy.optimize import linear_sum_assignment

    excess = _excess(table)
    matched = np.zeros(table.shape, dtype=bool)
    matched[linear_sum_assignment(excess, maximize=True)] = True
    for class_code in np.flatnonzero(~matched.any(axis=1)):
        matched[class_code, int(excess[class_code].argmax())] = True
    for value_code in np.flatnonzero(~matched.any(axis=0)):
        matched[int(excess[:, value_code].argmax()), value_code] = True
    return matched


def _excess(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(value | class) of counts [classes, values] beyond its mean over the classes."""
    share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    return share - share.mean(axis=0, keepdims=True)


def observed_matching(
    dataset: AttributedDataset, label: str, attribute: str
) -> dict[str, list[str]]:
    """Class -> values that go with it in the rows; empty without a tie, and for an attribute that
    is not a column of the table."""
    names = dataset.table.names
    if attribute not in names or label not in names or attribute == label:
        return {}
    return {
        name: list(values) for name, values in tie_of(dataset, label, attribute).matching.items()
    }
