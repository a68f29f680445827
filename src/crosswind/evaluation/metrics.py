"""Scores of one model on one set: pure functions of Predictions. Nothing here knows a model, a
method or a seed.

Every metric declares itself in `METRICS`: reports, claims and selection read there what it is
called and which way is better. A new one is a function with the decorator `metric`; it arrives in
scores and tables under its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.core.types import Predictions
from crosswind.evaluation.systematic import by_environment, systematic_scores

ECE_BINS = 15

Measure = Callable[[Predictions, Sequence[str], Sequence[str]], float | None]
"""From predictions, names of groups and names of classes to a number, or None where it is not
defined."""


@dataclass(frozen=True)
class Metric:
    """One metric: what reports, claims and selection have to know of it.

    `unit`: "fraction", "nats", "rows", or "" for a bare number. `better`: which way, None where
    neither is. `needs`: what predictions must hold. `title`: how tables name it. `slug`: the name
    of the table that it gets; without one it is in the table of every number only. `chance`: the
    score of guessing, which is the share of the most frequent class ("majority") or 1 / classes
    ("classes"). `note`: a sentence below its table. `measure`: how it is computed; None for those
    that `scores` computes together. `version` is raised when `measure` gives other numbers.
    """

    name: str
    unit: str
    better: Literal["higher", "lower"] | None
    needs: str
    title: str
    slug: str = ""
    chance: Literal["majority", "classes"] | None = None
    note: str = ""
    measure: Measure | None = None
    version: int = 1

    @property
    def words(self) -> str:
        """The metric inside a sentence."""
        return self.name.replace("_", " ")


_PAIRS = (
    "Of environments that training shows with some classes and not with others, the mean over them;"
    " see Systematic robustness."
)
_ECE = (
    "Expected calibration error over 15 bins of equal width; 0 is best. Small sets have more than 0"
    " by chance alone."
)
METRICS = {
    standard_metric.name: standard_metric
    for standard_metric in (
        Metric("accuracy", "fraction", "higher", "labels", "Accuracy", "accuracy", "majority"),
        Metric(
            "worst_group",
            "fraction",
            "higher",
            "groups",
            "Worst group accuracy",
            "worst-group",
            "classes",
        ),
        Metric(
            "balanced_accuracy",
            "fraction",
            "higher",
            "labels",
            "Balanced accuracy",
            chance="classes",
        ),
        Metric("nll", "nats", "lower", "logits", "Negative log likelihood"),
        Metric("ece", "fraction", "lower", "logits", "Calibration error", "ece", note=_ECE),
        Metric(
            "seen_accuracy",
            "fraction",
            "higher",
            "pairs",
            "Accuracy on seen pairs",
            "seen",
            note=_PAIRS,
        ),
        Metric(
            "unseen_accuracy",
            "fraction",
            "higher",
            "pairs",
            "Accuracy on unseen pairs",
            "unseen",
            note=_PAIRS,
        ),
        Metric("rho", "", "higher", "pairs", "Systematic robustness rho", "rho", note=_PAIRS),
        Metric("unparsed", "rows", "lower", "answers", "Rows without an answer"),
    )
}
"""Every metric by name, in the order of the tables."""

ESTIMATE, ESTIMATE_ERROR, ESTIMATE_COVERS = "estimate:", "estimate_error:", "estimate_covers:"
ESTIMATE_LOW, ESTIMATE_HIGH = "estimate_low:", "estimate_high:"
MEASURE, ENTROPY_RISE = "measure:", "entropy_rise:"
"""How the metrics of an estimate of accuracy begin; the estimator's label ends them. A measure is a
number of its own unit."""

HEADLINE = METRICS["accuracy"]
"""The metric that methods are compared and ranked by."""


def metric(
    name: str,
    *,
    unit: str = "fraction",
    better: Literal["higher", "lower"] | None = "higher",
    needs: str = "labels",
    title: str = "",
    note: str = "",
    version: int = 1,
) -> Callable[[Measure], Measure]:
    """Declare a function as a metric with a table of its own, see `Metric`. Raises `ValueError` for
    a name that is taken."""

    def declare(measure: Measure) -> Measure:
        registered = METRICS.get(name)
        if (
            registered is not None
            and getattr(registered.measure, "__qualname__", None) != measure.__qualname__
        ):
            raise ValueError(f"there is a metric {name!r} already")
        heading = title or name.replace("_", " ").capitalize()
        slug = name.replace("_", "-")
        METRICS[name] = Metric(
            name, unit, better, needs, heading, slug, None, note, measure, version
        )
        return measure

    return declare


def scores(
    predictions: Predictions,
    group_names: Sequence[str],
    class_names: Sequence[str],
    min_rows: int = 1,
    seen: Sequence[bool] | None = None,
) -> dict[str, Any]:
    """Every score of one set of predictions, as plain values for JSON: what follows, and every
    metric that has a `measure`.

    `n` rows; `accuracy`; `unparsed` rows whose answer is -1 (they count as wrong);
    `balanced_accuracy`, the mean recall over the classes that have rows, of which there are
    `classes`; `majority`, the share of the rows that are of the most frequent one; `groups`, for
    each group with rows its `n` and `accuracy`; `worst_group`, the lowest accuracy of a group with
    at least `min_rows` rows, with `worst_group_name` and `worst_group_n` (of equal groups the
    first; all None where no group is that large); `groups_skipped`, the groups with rows but fewer
    than `min_rows`; `nll`, the mean negative log likelihood of the label in nats; `ece`, see
    `calibration_error`.

    `seen`: which groups training shows, of a systematic shift; without it `seen_accuracy`,
    `unseen_accuracy` and `rho` are None (`systematic_scores`).

    `nll` and `ece` are None without logits. `non_finite` counts rows with a NaN or +inf among their
    logits (None without logits); where there is one, both are None, and so is an `nll` that is
    infinite. A row of group -1 is in no group.
    Raises `DataError` where there are no rows, a row has no label (-1), or a label, group, answer
    or row of logits does not fit the names.
    """
    _check(predictions, len(group_names), len(class_names))
    label = predictions.label
    group = predictions.group
    right = predictions.answer == label
    unparsed = int((predictions.answer == -1).sum())
    balanced_accuracy = _balanced(label, right, len(class_names))
    majority = float(np.bincount(label).max() / len(label))
    accuracy = float(right.mean())
    n_classes = len(np.unique(label))
    out: dict[str, Any] = {
        "n": len(predictions),
        "accuracy": accuracy,
        "unparsed": unparsed,
        "balanced_accuracy": balanced_accuracy,
        "classes": n_classes,
        "majority": majority,
    }
    out.update(_by_group(group, right, group_names, min_rows))
    out.update({"nll": None, "ece": None, "non_finite": None})
    if predictions.logits is not None:
        logits = predictions.logits
        bad = int((np.isnan(logits) | np.isposinf(logits)).any(axis=1).sum())
        out["non_finite"] = bad
        if bad == 0:
            nll = -float(log_likelihoods(logits)[np.arange(len(label)), label].mean())
            out["nll"] = nll if math.isfinite(nll) else None
            out["ece"] = calibration_error(confidence(logits), right)
    if seen is None:
        shown = {}
    else:
        shown = by_environment(right[None], group, seen, group_names, class_names, replicates=0)
    out.update(systematic_scores(shown))
    for declared in METRICS.values():
        if declared.measure is not None:
            out[declared.name] = declared.measure(predictions, group_names, class_names)
    return out


def estimate_metrics(
    label: str, estimate: Mapping[str, float | None], accuracy: float
) -> dict[str, float | None]:
    """The scores of an estimated accuracy: itself, its interval, what it is above the accuracy, and
    whether the interval holds that (0, 1). Those of a measure also, or only, what it measured and
    by how many nats entropy rises near the rows.

    `estimate` has `accuracy`, and `low` and `high` or None for them, and `measure` and
    `entropy_rise`, as far as there are; names end with the estimator's label.
    """
    names = {}
    for start, name in ((MEASURE, "measure"), (ENTROPY_RISE, "entropy_rise")):
        if name in estimate:
            names[start] = estimate[name]
    value = estimate.get("accuracy")
    low = estimate.get("low")
    high = estimate.get("high")
    if value is not None:
        covers = None
        if low is not None and high is not None:
            covers = float(low <= accuracy <= high)
        names |= {
            ESTIMATE: value,
            ESTIMATE_LOW: low,
            ESTIMATE_HIGH: high,
            ESTIMATE_ERROR: value - accuracy,
            ESTIMATE_COVERS: covers,
        }
    return {f"{name}{label}": number for name, number in names.items()}


def log_likelihoods(logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Log-softmax of `logits` [n, k] in float64, stable for any finite values; -inf logits stay
    -inf."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def calibration_error(
    confidence: NDArray[np.floating[Any]], right: NDArray[np.bool_], bins: int = ECE_BINS
) -> float:
    """Expected calibration error: sum over bins of (rows in it / n) * |accuracy - mean confidence|
    (Guo et al. 2017, eq. 3).

    `confidence` [n] in [0, 1], the probability of the answer; `right` [n]; `bins` of equal width,
    bin m is
    ((m-1)/bins, m/bins], and a confidence of 0 belongs to the first. With few rows the estimate is
    biased upwards: a perfectly calibrated model has more than 0.
    """
    bin_numbers = np.ceil(confidence.astype(np.float64) * bins).astype(np.int64) - 1
    bin_of = np.clip(bin_numbers, 0, bins - 1)
    # Summed first, divided once: (n_m / n) * |hits / n_m - sum / n_m| = |hits - sum| / n.
    hits = np.bincount(bin_of, weights=right, minlength=bins)
    total = np.bincount(bin_of, weights=confidence, minlength=bins)
    return float(np.abs(hits - total).sum() / len(confidence))


def confidence(logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """The largest softmax probability of each row of `logits` [n, k], float64 [n] in (0, 1]."""
    return np.minimum(np.exp(log_likelihoods(logits).max(axis=1)), 1.0)


def _balanced(label: NDArray[np.int64], right: NDArray[np.bool_], n_classes: int) -> float:
    rows = np.bincount(label, minlength=n_classes)
    hits = np.bincount(label, weights=right, minlength=n_classes)
    present = rows > 0
    return float((hits[present] / rows[present]).mean())


def _by_group(
    group: NDArray[np.int64], right: NDArray[np.bool_], names: Sequence[str], min_rows: int
) -> dict[str, Any]:
    inside = group >= 0
    rows = np.bincount(group[inside], minlength=len(names))
    weights = right[inside]
    hits = np.bincount(group[inside], weights=weights, minlength=len(names))
    table = {
        name: {"n": int(rows[g]), "accuracy": float(hits[g] / rows[g])}
        for g, name in enumerate(names)
        if rows[g]
    }
    large = {
        name: group_scores for name, group_scores in table.items() if group_scores["n"] >= min_rows
    }
    worst = min(large, key=lambda name: large[name]["accuracy"], default=None)
    worst_group = None if worst is None else large[worst]["accuracy"]
    worst_group_n = None if worst is None else large[worst]["n"]
    groups_skipped = len(table) - len(large)
    return {
        "worst_group": worst_group,
        "worst_group_name": worst,
        "worst_group_n": worst_group_n,
        "groups_skipped": groups_skipped,
        "groups": table,
    }


def _check(predictions: Predictions, n_groups: int, n_classes: int) -> None:
    if len(predictions) == 0:
        raise DataError("there are no predictions to score")
    unlabelled = int((predictions.label == -1).sum())
    if unlabelled:
        raise DataError(
            f"{unlabelled} of {len(predictions)} rows have no label (-1): they cannot be scored"
        )
    for name, values, low, high in (
        ("label", predictions.label, 0, n_classes),
        ("answer", predictions.answer, -1, n_classes),
        ("group", predictions.group, -1, n_groups),
    ):
        out = (values < low) | (values >= high)
        if out.any():
            row_id = int(predictions.ids[out][0])
            problem = f"{name} {int(values[out][0])} of row {row_id} is not in [{low}, {high})"
            raise DataError(problem)
    if predictions.logits is not None and predictions.logits.shape[1] != n_classes:
        raise DataError(
            f"logits have {predictions.logits.shape[1]} columns for {n_classes} classes"
        )
