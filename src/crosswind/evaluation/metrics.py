"""Scores of one model on one set: pure functions of Predictions. Nothing here knows a model, a method or a seed.

Accuracies and calibration errors are fractions in [0, 1], losses are nats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.core.types import Predictions

__all__ = ["ECE_BINS", "calibration_error", "log_likelihoods", "scores"]

ECE_BINS = 15


def scores(predictions: Predictions, group_names: Sequence[str], class_names: Sequence[str], min_rows: int = 1) -> dict[str, Any]:
    """Every score of one set of predictions, as plain values for JSON.

    `n` rows; `accuracy`; `unparsed` rows whose answer is -1 (they count as wrong); `balanced_accuracy`, the mean recall over
    the classes that have rows, of which there are `classes`; `majority`, the share of the rows that are of the most frequent one;
    `groups`, for each group with rows its `n` and `accuracy`; `worst_group`, the lowest accuracy of a
    group with at least `min_rows` rows, with `worst_group_name` and `worst_group_n` (of equal groups the first; all None where
    no group is that large); `groups_skipped`, the groups with rows but fewer than `min_rows`; `nll`, the mean negative log
    likelihood of the label in nats; `ece`, see `calibration_error`.

    `nll` and `ece` are None without logits. `non_finite` counts rows with a NaN or +inf among their logits (None without
    logits); where there is one, both are None, and so is an `nll` that is infinite. A row of group -1 is in no group.
    Raises `DataError` where there are no rows, a row has no label (-1), or a label, group, answer or row of logits does not
    fit the names.
    """
    _check(predictions, len(group_names), len(class_names))
    label, group = predictions.label, predictions.group
    right = predictions.answer == label
    out: dict[str, Any] = {
        "n": len(predictions),
        "accuracy": float(right.mean()),
        "unparsed": int((predictions.answer == -1).sum()),
        "balanced_accuracy": _balanced(label, right, len(class_names)),
        "classes": len(np.unique(label)),
        "majority": float(np.bincount(label).max() / len(label)),
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
            out["ece"] = calibration_error(_confidence(logits), right)
    return out


def log_likelihoods(logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Log-softmax of `logits` [n, k] in float64, stable for any finite values; -inf logits stay -inf."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def calibration_error(
    confidence: NDArray[np.floating[Any]], right: NDArray[np.bool_] | NDArray[np.integer[Any]], bins: int = ECE_BINS
) -> float:
    """Expected calibration error: sum over bins of (rows in it / n) * |accuracy - mean confidence| (Guo et al. 2017, eq. 3).

    `confidence` [n] in [0, 1], the probability of the answer; `right` [n]; `bins` of equal width, bin m is
    ((m-1)/bins, m/bins], and a confidence of 0 belongs to the first. With few rows the estimate is biased upwards: a perfectly
    calibrated model has more than 0.
    """
    if len(confidence) == 0:
        raise DataError("the calibration error of no rows is not defined")
    which = np.clip(np.ceil(confidence.astype(np.float64) * bins).astype(np.int64) - 1, 0, bins - 1)
    # Summed first, divided once: (n_m / n) * |hits / n_m - sum / n_m| = |hits - sum| / n.
    hits = np.bincount(which, weights=right.astype(np.float64), minlength=bins)
    total = np.bincount(which, weights=confidence.astype(np.float64), minlength=bins)
    return float(np.abs(hits - total).sum() / len(confidence))


def _confidence(logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    return np.minimum(np.exp(log_likelihoods(logits).max(axis=1)), 1.0)


def _balanced(label: NDArray[np.int64], right: NDArray[np.bool_], n_classes: int) -> float:
    rows = np.bincount(label, minlength=n_classes)
    hits = np.bincount(label, weights=right, minlength=n_classes)
    present = rows > 0
    return float((hits[present] / rows[present]).mean())


def _by_group(group: NDArray[np.int64], right: NDArray[np.bool_], names: Sequence[str], min_rows: int) -> dict[str, Any]:
    inside = group >= 0
    rows = np.bincount(group[inside], minlength=len(names))
    hits = np.bincount(group[inside], weights=right[inside], minlength=len(names))
    table = {name: {"n": int(rows[g]), "accuracy": float(hits[g] / rows[g])} for g, name in enumerate(names) if rows[g]}
    large = {name: item for name, item in table.items() if item["n"] >= min_rows}
    worst = min(large, key=lambda name: large[name]["accuracy"], default=None)
    return {
        "worst_group": None if worst is None else large[worst]["accuracy"],
        "worst_group_name": worst,
        "worst_group_n": None if worst is None else large[worst]["n"],
        "groups_skipped": len(table) - len(large),
        "groups": table,
    }


def _check(predictions: Predictions, n_groups: int, n_classes: int) -> None:
    if len(predictions) == 0:
        raise DataError("there are no predictions to score")
    unlabelled = int((predictions.label == -1).sum())
    if unlabelled:
        raise DataError(f"{unlabelled} of {len(predictions)} rows have no label (-1): they cannot be scored")
    for name, values, low, high in (
        ("label", predictions.label, 0, n_classes),
        ("answer", predictions.answer, -1, n_classes),
        ("group", predictions.group, -1, n_groups),
    ):
        out = (values < low) | (values >= high)
        if out.any():
            raise DataError(f"{name} {int(values[out][0])} of row {int(predictions.ids[out][0])} is not in [{low}, {high})")
    if predictions.logits is not None and predictions.logits.shape[1] != n_classes:
        raise DataError(f"logits have {predictions.logits.shape[1]} columns for {n_classes} classes")
