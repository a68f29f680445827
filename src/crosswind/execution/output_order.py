"""Models whose outputs stand in another order than their classes were read in: what is refused, and
in which words."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError
from crosswind.core.types import Predictions
from crosswind.estimators.base import Labelled
from crosswind.evaluation.class_order import BetterOrder, better_order

_LONGEST = 100_000
"""Of a sentence that holds an order to copy, in characters: a thousand classes have long names."""
_SHOWN_CLASSES = 5

Written = Callable[[Sequence[str]], str]
"""From classes to how they are written where a person gives them."""


def check_order(
    field: str,
    model: str,
    labelled: Labelled,
    class_names: Sequence[str],
    order: Sequence[str],
    usual: Sequence[str] | None,
    remedy: str,
) -> str:
    """Refuse, by an `InputError` on `field`, a model whose answers for labelled rows show that its
    outputs stand in another order.

    `labelled`: answers and labels by the numbers of `class_names`. `order`: the classes in the
    order in which the outputs were read. `usual`: the order that is taken where none is given, None
    where there is none. `remedy`: half a sentence, "" where a person gave the order: one who gave
    the usual one insists on it. Returns the warning for them, "" where none is due.
    """
    better = _better_order(labelled.answers.answer, labelled.label, class_names, order)
    if better is None:
        return ""
    evidence = _evidence(model, labelled.name, order, better, option_value)
    if not remedy and usual is not None and tuple(order) == tuple(usual):
        return evidence
    if not remedy:
        remedy = "give the second"
        if usual is not None and better.classes == tuple(usual):
            remedy = "leave them out"
    raise InputError(field, f"{evidence}; {remedy}", limit=_LONGEST)


def check_validation(
    model: str,
    stated_classes: Sequence[object] | None,
    class_names: Sequence[str],
    predictions: Predictions,
    name: str,
) -> None:
    """Refuse, by a `DataError`, a study's model whose answers for the labelled set `name` show
    another order of its outputs.

    `stated_classes`: its setting `classes`, None where it has none; one that is the order of `class_names`
    was set knowingly and is believed. `predictions`: its answers by the numbers of `class_names`.
    """
    if stated_classes is None:
        order = tuple(class_names)
    else:
        order = tuple(str(each) for each in stated_classes)
    if stated_classes is not None and order == tuple(class_names):
        return
    better = _better_order(predictions.answer, predictions.label, class_names, order)
    if better is None:
        return
    evidence = _evidence(model, f"the set {name}", order, better, study_value)
    remedy = "set its classes to the second, or to the first to leave it as it is"
    if stated_classes is not None:
        remedy = "set its classes to the second"
        if better.classes == tuple(class_names):
            remedy = "leave its classes out"
    raise DataError(f"{evidence}; {remedy}", limit=_LONGEST)


def order_doubt(model: str, class_names: Sequence[str], predictions: Predictions, name: str) -> str:
    """A sentence, without its end, on the better order of the outputs of a model of a program, as its
    answers for the labelled set `name` show it; empty where they show none."""
    better = _better_order(predictions.answer, predictions.label, class_names, class_names)
    if better is None:
        return ""
    return _evidence(model, f"the set {name}", class_names, better, study_value)


def _better_order(
    answer: NDArray[np.int64],
    label: NDArray[np.int64],
    class_names: Sequence[str],
    order: Sequence[str],
) -> BetterOrder | None:
    """The better order of outputs that were read as `order`, from answers and labels by the numbers
    of `class_names`."""
    output_of = {name: position for position, name in enumerate(order)}
    positions = np.array([output_of[name] for name in class_names], dtype=np.int64)
    return better_order(_numbered(answer, positions), _numbered(label, positions), order)


def _numbered(codes: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(codes >= 0, positions[codes], codes)


def _evidence(
    model: str, source: str, class_names: Sequence[str], better: BetterOrder, written: Written
) -> str:
    """The evidence for the other order, in a sentence without its end: both orders with their
    accuracies."""
    sorting = f", the classes {better.name}" if better.name else ""
    unseen = ", ".join(better.unseen[:_SHOWN_CLASSES])
    remainder = ""
    if len(better.unseen) > _SHOWN_CLASSES:
        remainder = f" and {len(better.unseen) - _SHOWN_CLASSES} more"
    doubt = f" (no labelled row shows the place of {unseen}{remainder})" if unseen else ""
    return (
        f"{model} seems to have its outputs in another order than its classes were read in: of"
        f" {better.rows:,} labelled rows of {source} {better.given:.1%} are right in the order"
        f" {written(class_names)} and {better.better:.1%} in the order"
        f" {written(better.classes)}{sorting}{doubt}"
    )


def option_value(class_names: Sequence[str]) -> str:
    """Classes as `--classes` takes them, ready for a shell: separated by commas, a name with a
    comma in it in quotation marks."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(class_names)
    return shlex.quote(line.getvalue())


def study_value(class_names: Sequence[str]) -> str:
    """Classes as a study file takes them: every one in quotation marks, so that YAML makes no
    number of 01 and no truth of yes."""
    return json.dumps(list(class_names), ensure_ascii=False)
