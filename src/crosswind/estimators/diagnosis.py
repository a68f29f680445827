"""What speaks against an estimate of accuracy: signs in the answers themselves, each a number and a sentence.

None of them needs a label of the target. A finding without a warning is no proof that an estimate holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.estimators.base import Answers, Floats, Labelled

ENTROPY = 0.1
"""Rise of the entropy in nats above which a neighbourhood is no measure of accuracy (Ng et al. 2022, section 5.4)."""

LOST = 0.1
"""Accuracy on labelled neighbours that may be lost. Ours."""

LEVEL = 0.01
"""P-value below which shares of classes are said to differ. Ours."""

MOVED = 0.05
"""Share of the labels that may lie in other classes than on the source. Ours."""

NEAR = 0.05
"""How near to the accuracy of guessing an estimate says nothing, as an accuracy. Ours."""

SATURATED = 0.5
"""Share of saturated confidences that may be. Ours."""

ROUNDED = 2.0**-25
"""The largest distance from 1 that single precision rounds to 1."""

UNSTEADY = 0.005
"""Share of rows that may get another answer the second time, by rounding in batches of another size. Ours."""

EXPECTED = 5.0
"""The fewest rows that the chi-square test should expect in a cell; rarer classes are counted as one (Cochran 1954)."""


@final
@dataclass(frozen=True)
class Finding:
    """One number and what it means. `warning` is a sentence, "" where there is nothing to warn of."""

    name: str
    value: float
    warning: str = ""


def diagnosed(source: Labelled, target: Answers, accuracy: float | None = None) -> list[Finding]:
    """Every finding for which the answers are there, in a fixed order. `accuracy`: an estimate for the target, in [0, 1].

    Both sides have rows; without labelled rows of the source, `source` of no rows, only what the target alone shows is told.
    """
    found = []
    if len(source.answers):
        found += neighbourhoods(source.answers, "source") + lost_accuracy(source)
    found += neighbourhoods(target, "target")
    if len(source.answers):
        found += [label_shift(source, target), marginal_shift(source, target), chance_floor(source, source.accuracy, "source")]
        found += [chance_floor(source, accuracy, "target")] if accuracy is not None else []
    return [*found, constant_answers(source, target), *saturated(target)]


def neighbourhoods(answers: Answers, what: str) -> list[Finding]:
    """By neighbourhood: by how many nats the mean entropy of the outputs for the neighbours exceeds that for the rows themselves
    (Ng et al. 2022, section 5.4), and the share of rows whose answer is another one when asked again, as a row and as its own
    first neighbour."""
    found = []
    for name in answers.entropies:
        rise = answers.entropy_rise(name)
        if rise is None:
            continue
        words = f"on the {what} outputs for the neighbours ({name}) have {rise:.2f} nats more entropy than those for the rows"
        why = f"; above {ENTROPY:g} invariance no longer goes with accuracy, since such changes destroy the label"
        found.append(Finding(f"entropy-rise:{name}:{what}", rise, words + why if rise > ENTROPY else ""))
    for name, votes in answers.neighbours.items():
        other = float((votes[:, 0] != answers.answer).mean())
        words = (
            f"on the {what} {other:.1%} of the rows got another answer when they were asked again with their neighbours ({name})"
        )
        why = ", as from a model in training mode, whose answers depend on the rest of the batch"
        found.append(Finding(f"unsteady:{name}:{what}", other, words + why if other > UNSTEADY else ""))
    return found


def lost_accuracy(source: Labelled) -> list[Finding]:
    """By neighbourhood: accuracy on the labelled rows, less that on their neighbours with the same labels."""
    found = []
    for name, votes in source.answers.neighbours.items():
        if votes.shape[1] < 2:
            continue
        right = votes == source.label[:, None]
        before, after = float(right[:, 0].mean()), float(right[:, 1:].mean())
        words = (
            f"accuracy on {source.name} falls from {before:.3f} to {after:.3f} on the neighbours ({name}), more than {LOST:g}:"
            " the change may destroy the label"
        )
        found.append(Finding(f"lost-accuracy:{name}", before - after, words if before - after > LOST else ""))
    return found


def label_shift(source: Labelled, target: Answers) -> Finding:
    """The p-value of the chi-square test that answers are as common on the target as on the source.

    A shift of the labels makes them differ, and so do errors that the source does not have.
    """
    table = np.stack([_counts(source.answers.answer, target.classes), _counts(target.answer, target.classes)]).astype(float)
    expected = table.sum(axis=0) * table.sum(axis=1).min() / table.sum()
    order = np.argsort(expected, kind="stable")
    enough = int(np.searchsorted(np.cumsum(expected[order]), EXPECTED)) + 1
    rare = order[: max(enough, int((expected < EXPECTED).sum()))]
    table = np.concatenate([np.delete(table, rare, axis=1), table[:, rare].sum(axis=1, keepdims=True)], axis=1)
    if table.shape[1] < 2:
        return Finding("label-shift", 1.0)
    from scipy.stats import chi2_contingency  # not at the top: reports load this module and start at once

    result = chi2_contingency(table, correction=False)
    statistic, p, freedom = float(result.statistic), float(result.pvalue), int(result.dof)
    shares = [_counts(rows, target.classes) / len(rows) for rows in (source.answers.answer, target.answer)]
    most = int(np.abs(shares[1] - shares[0]).argmax())
    which = f"class {most}" if most < target.classes else "no class"
    words = (
        f"answers are not as common as on the source (chi-square {statistic:.1f}, {freedom} degrees of freedom, p = {p:.2g}), most"
        f" of all {which} with {shares[1][most]:.1%} after {shares[0][most]:.1%}; estimates that take over the class shares of the"
        " source are off if the labels have shifted"
    )
    return Finding("label-shift", p, words if p < LEVEL else "")


def target_marginals(source: Labelled, target: Answers) -> Floats:
    """The shares of the labels on the target, float64 [k] that sum to 1, if nothing but these shares has changed.

    Black box shift estimation (Lipton et al. 2018, "Detecting and Correcting for Label Shift with Black Box Predictors"): the
    weights w of the labels solve C w = m, C_ij = P_source(answer i, label j), m_i = P_target(answer i), by least squares. Weights
    below 0, which few rows make, are taken as 0.
    """
    k = target.classes
    joint = np.zeros((k + 1, k))
    answer = np.where(source.answers.answer < 0, k, source.answers.answer)
    np.add.at(joint, (answer, source.label), 1 / len(answer))
    weights = np.linalg.lstsq(joint, _counts(target.answer, k) / len(target))[0]
    shares = np.asarray(np.maximum(weights, 0) * joint.sum(axis=0), dtype=np.float64)
    total = float(shares.sum())
    return shares / total if total > 0 else np.asarray(joint.sum(axis=0))


def marginal_shift(source: Labelled, target: Answers) -> Finding:
    """The total variation distance, in [0, 1], between the label shares of the source and the estimated ones of the target.

    It warns where the test of `label_shift` does: without a difference of the answers the distance is chance.
    """
    before, after = _counts(source.label, target.classes)[:-1] / len(source.label), target_marginals(source, target)
    distance, most = 0.5 * float(np.abs(after - before).sum()), int(np.abs(after - before).argmax())
    words = (
        f"if nothing but the shares of the labels had changed since the source, {distance:.1%} of them would lie in other classes"
        f" than there, most of all class {most} with {after[most]:.1%} after {before[most]:.1%}"
    )
    return Finding("marginal-shift", distance, words if distance > MOVED and label_shift(source, target).warning else "")


def chance_floor(source: Labelled, accuracy: float, what: str) -> Finding:
    """By how much an accuracy on the source or estimated for the target exceeds that of guessing: of always giving the commonest
    label of the source, and of 1/k."""
    common = float(_counts(source.label, source.answers.classes).max() / len(source.label))
    floor = max(common, 1 / source.answers.classes)
    over = accuracy - floor
    told = "the accuracy" if what == "source" else "the estimate"
    words = f"{told} of {accuracy:.3f} on the {what} is no more than {NEAR:g} above the {floor:.3f} of guessing the commonest class"
    return Finding(f"above-chance:{what}", over, words if over <= NEAR else "")


def constant_answers(source: Labelled, target: Answers) -> Finding:
    """The share of the commonest answer on the target. It warns where the answers that differ are less than a quarter of the labels
    that do: of those of the source, or of equal shares where there is no source."""
    counts = _counts(target.answer, target.classes)
    share, which = float(counts.max() / len(target)), int(counts.argmax())
    labels = float(_counts(source.label, target.classes).max() / len(source.label)) if len(source.label) else 1 / target.classes
    told = f"class {which}" if which < target.classes else "no class"
    words = f"{share:.1%} of the answers on the target are {told}: agreement and confidence are high for a constant answer too"
    return Finding("commonest-answer", share, words if 1 - share < 0.25 * (1 - labels) else "")


def saturated(target: Answers) -> list[Finding]:
    """The share of confidences that are 1 in single precision; nothing where there are no logits."""
    if target.logits is None:
        return []
    share = float((-np.expm1(target.log_probabilities.max(axis=1)) <= ROUNDED).mean())
    words = f"{share:.1%} of the confidences are 1 in single precision: they tell few of the rows apart"
    return [Finding("saturated", share, words if share > SATURATED else "")]


def _counts(classes: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """How often each of 0 ... k - 1 and, last, -1 occurs, int64 [k + 1]."""
    return np.bincount(np.where(classes < 0, k, classes), minlength=k + 1)


__all__ = ["Finding", "diagnosed", "target_marginals"]
