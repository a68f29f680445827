"""The estimate of a model's accuracy by tables of scores, without the model: what needs the model
is left out by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crosswind.estimators.base import Answers, Labelled
from crosswind.estimators.diagnosis import diagnosed
from crosswind.unlabelled.answer import Estimates
from crosswind.unlabelled.estimate import estimates
from crosswind.unlabelled.estimator_choice import Asked, wanted_estimators
from crosswind.unlabelled.score_tables import read_scored_tables


def ask_table(
    predictions: Any,
    source: Any,
    label: str | None,
    estimators: Asked,
    classes: Sequence[str] | None = None,
) -> Estimates:
    """See `crosswind.estimate`, whose `predictions` and `source` are tables of scores here."""
    tables = read_scored_tables(predictions, source, label, classes)
    target = tables.target
    labelled = tables.labelled
    rows, left_out = estimates(
        wanted_estimators(estimators), {"": target}, {"": labelled}, {}, "table"
    )
    answer = np.empty(0, np.int64)
    n_classes = len(tables.classes)
    answers = Answers(answer, classes=n_classes)
    unlabelled = Labelled(answers, np.empty(0, np.int64))
    best = rows[0].estimate.accuracy if rows else None
    findings = diagnosed(labelled or unlabelled, target, best)
    source_accuracy = None if labelled is None else labelled.accuracy
    n_source = 0 if labelled is None else len(labelled.answers)
    return Estimates(
        "a table of scores",
        tables.name,
        len(target),
        "" if labelled is None else labelled.name,
        source_accuracy,
        n_source,
        tuple(rows),
        tuple(left_out),
        tuple(findings),
        (),
        "table",
        tables.notes,
    )
