"""Signs against an estimate of accuracy, in the answers themselves, each a number and a sentence.

None of them needs a label of the target. A finding without a warning is no proof that an estimate
holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.estimators.base import Answers, Labelled

ENTROPY = 0.1
"""Rise of the entropy in nats above which a neighbourhood is no measure of accuracy (Ng et al.
2022, section 5.4)."""

LOST = 0.1
"""Accuracy on labelled neighbours that may be lost. Ours."""

NEAR = 0.05
"""How near to the accuracy of guessing an estimate says nothing, as an accuracy. Ours."""

SATURATED = 0.5
"""Share of saturated confidences that may be. Ours."""

ROUNDED = 2.0**-25
"""The largest distance from 1 that single precision rounds to 1."""

UNSTEADY = 0.005
"""Share of rows that may get another answer the second time, by rounding in batches of another
size. Ours."""


@final
@dataclass(frozen=True)
class DiagnosisFinding:
    """One number and what it means. `warning` is a sentence, "" where there is nothing to warn
    of."""

    name: str
    value: float
    warning: str = ""


def diagnosed(
    source: Labelled, target: Answers, accuracy: float | None = None
) -> list[DiagnosisFinding]:
    """Every finding for which the answers are there, in a fixed order. `accuracy`: an estimate for
    the target, in [0, 1].

    Both sides have rows; without labelled rows of the source, `source` of no rows, only what the
    target alone shows is told.
    """
    findings = []
    if len(source.answers):
        findings += [
            few_labelled(source),
            mistakes(source),
            *neighbourhoods(source.answers, "source"),
            *lost_accuracy(source),
        ]
    findings += neighbourhoods(target, "target")
    if len(source.answers):
        findings += [
            *shifted_labels(source, target),
            chance_floor(source, source.accuracy, "source"),
        ]
        if accuracy is not None:
            findings += [chance_floor(source, accuracy, "target")]
    return [*findings, constant_answers(source, target), *saturated(target)]


def few_labelled(source: Labelled) -> DiagnosisFinding:
    """How many labelled rows the source has."""
    from crosswind.estimators.intervals import few_rows  # not at the top, see `shifted_labels`

    n = len(source.answers)
    return DiagnosisFinding("source-rows", n, " ".join(few_rows(n)))


def mistakes(source: Labelled) -> DiagnosisFinding:
    """How many answers on the source are wrong. It warns where none is: nothing can be learned of
    how a mistake looks."""
    wrong = int((~source.right).sum())
    words = (
        f"none of the {len(source.answers):,} answers on {source.name} is wrong, so that an"
        " estimate can only guess how confident a mistake would be; rows that the model was"
        " trained on are no source"
    )
    return DiagnosisFinding("source-mistakes", wrong, "" if wrong else words)


def neighbourhoods(answers: Answers, subject: str) -> list[DiagnosisFinding]:
    """By neighbourhood, two numbers. The first is by how many nats the mean entropy of the outputs
    for the neighbours exceeds that for the rows themselves (Ng et al. 2022, section 5.4). The
    second is the share of rows whose answer is another one when asked again, as a row and as its
    own first neighbour."""
    findings = []
    for name in answers.entropies:
        rise = answers.entropy_rise(name)
        if rise is None:
            continue
        words = (
            f"on the {subject} outputs for the neighbours ({name}) have {rise:.2f} nats more"
            " entropy than those for the rows"
        )
        why = (
            f"; above {ENTROPY:g} invariance no longer goes with accuracy, since such changes"
            " destroy the label"
        )
        findings.append(
            DiagnosisFinding(
                f"entropy-rise:{name}:{subject}", rise, words + why if rise > ENTROPY else ""
            )
        )
    for name, votes in answers.neighbours.items():
        changed_share = float((votes[:, 0] != answers.answer).mean())
        words = (
            f"on the {subject} {changed_share:.1%} of the rows got another answer when they were"
            f" asked again with their neighbours ({name})"
        )
        why = ", as from a model in training mode, whose answers depend on the rest of the batch"
        findings.append(
            DiagnosisFinding(
                f"unsteady:{name}:{subject}",
                changed_share,
                words + why if changed_share > UNSTEADY else "",
            )
        )
    return findings


def lost_accuracy(source: Labelled) -> list[DiagnosisFinding]:
    """By neighbourhood: accuracy on the labelled rows, less that on their neighbours with the same
    labels."""
    findings = []
    for name, votes in source.answers.neighbours.items():
        if votes.shape[1] < 2:
            continue
        right = votes == source.label[:, None]
        before = float(right[:, 0].mean())
        after = float(right[:, 1:].mean())
        words = (
            f"accuracy on {source.name} falls from {before:.3f} to {after:.3f} on the neighbours"
            f" ({name}), more than {LOST:g}: the change may destroy the label"
        )
        findings.append(
            DiagnosisFinding(
                f"lost-accuracy:{name}", before - after, words if before - after > LOST else ""
            )
        )
    return findings


def shifted_labels(source: Labelled, target: Answers) -> list[DiagnosisFinding]:
    """The share of the labels, in [0, 1], that would lie in other classes than on the source if
    nothing but their shares had changed. It warns where that explains the answers; nothing where it
    cannot be told."""
    from crosswind.estimators.label_shift import (
        TEXT,
        fitted_shares,
    )  # not at the top: reports load this module and start at once

    fit = fitted_shares(source, target)
    if fit is None:
        return []
    return [DiagnosisFinding("label-shift", fit.moved, TEXT if fit.told else "")]


def chance_floor(source: Labelled, accuracy: float, subject: str) -> DiagnosisFinding:
    """By how much an accuracy on the source or estimated for the target exceeds that of guessing:
    of always giving the commonest label of the source, and of 1/k."""
    common = float(_counts(source.label, source.answers.classes).max() / len(source.label))
    floor = max(common, 1 / source.answers.classes)
    over = accuracy - floor
    accuracy_name = "the accuracy" if subject == "source" else "the estimate"
    words = (
        f"{accuracy_name} of {accuracy:.3f} on the {subject} is no more than {NEAR:g} above the"
        f" {floor:.3f} of guessing the commonest class"
    )
    warning = words if over <= NEAR else ""
    return DiagnosisFinding(f"above-chance:{subject}", over, warning)


def constant_answers(source: Labelled, target: Answers) -> DiagnosisFinding:
    """The share of the commonest answer on the target. It warns where the answers that differ are
    less than a quarter of the labels that do. Those are of the source, or of equal shares where
    there is no source."""
    counts = _counts(target.answer, target.classes)
    share = float(counts.max() / len(target))
    commonest = int(counts.argmax())
    if len(source.label):
        labels = float(_counts(source.label, target.classes).max() / len(source.label))
    else:
        labels = 1 / target.classes
    class_name = f"class {commonest}" if commonest < target.classes else "no class"
    words = (
        f"{share:.1%} of the answers on the target are {class_name}: agreement and confidence are"
        " high for a constant answer too"
    )
    warning = ""
    if 1 - share < 0.25 * (1 - labels):
        warning = words
    return DiagnosisFinding("commonest-answer", share, warning)


def saturated(target: Answers) -> list[DiagnosisFinding]:
    """The share of confidences that are 1 in single precision; nothing where there are no
    logits."""
    if target.logits is None:
        return []
    share = float((-np.expm1(target.log_probabilities.max(axis=1)) <= ROUNDED).mean())
    words = (
        f"{share:.1%} of the confidences are 1 in single precision: they tell few of the rows apart"
    )
    return [DiagnosisFinding("saturated", share, words if share > SATURATED else "")]


def _counts(classes: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """How often each of 0 ... k - 1 and, last, -1 occurs, int64 [k + 1]."""
    return np.bincount(np.where(classes < 0, k, classes), minlength=k + 1)


__all__ = ["DiagnosisFinding", "diagnosed"]
