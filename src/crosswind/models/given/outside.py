"""Models that answer without being trained here: what one is asked, and how its file is found.
Imports no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError
from crosswind.core.knobs import Form
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import evaluation_inputs
from crosswind.data.imagenet_classes import onto_classes
from crosswind.models.given.class_labels import (
    BOTH_SCORES,
    NO_CLASS,
    AmbiguousLabelsError,
    answer_array,
    class_codes,
)
from crosswind.models.given.class_scores import log_scores

if TYPE_CHECKING:
    from crosswind.core.types import InputSpec
    from crosswind.shifts.split import RowSet

Answers = (
    tuple[NDArray[np.int64], NDArray[np.float32] | None]
    | tuple[NDArray[np.int64], NDArray[np.float32] | None, Sequence[str]]
)
"""Predicted classes int64 [n], -1 for an answer that is none of them; logits float32 [n, k], or
None where there are none; and of a model that answers in words the n texts as it gave them."""


class Outside(ABC):
    """A registered model that is not trained here; subclasses are frozen dataclasses whose fields
    are knobs.

    `built` declares `trained=False`, and in `files` the knobs that name files, whose hashes are
    part of a job's key. `outputs_in_order`: whether it answers by outputs that stand in an order of
    classes, which is then that of its knob `classes`; else by names. `unread`: what its answers
    depend on beside its files and no key can know, as the plan says it.
    """

    built: ClassVar[Form] = Form(trained=False)
    outputs_in_order: ClassVar[bool] = False
    unread: ClassVar[str] = ""

    def ready(self) -> None:
        """Refuse, by an `InputError`, to be asked from here: looked at before a study writes
        anything."""
        return None

    def fits(self, input: InputSpec, class_names: Sequence[str]) -> None:
        """Refuse such inputs and classes, by a `CrosswindError`: looked at before a study writes
        anything."""
        return None

    @abstractmethod
    def answer(
        self, rows: RowSet, dataset: AttributedDataset, class_names: Sequence[str]
    ) -> Answers:
        """The model's answers for all rows, in their order. `dataset` holds the rows. Raises
        `DataError`."""


def usable(device: str) -> None:
    """Refuse a device that is not here, by an `InputError` on `model.device`."""
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):  # what torch raises for a device that is not there
        raise InputError("model.device", f"torch finds no device {device!r} here") from None


def output_classes(model: Outside, class_names: Sequence[str]) -> tuple[str, ...]:
    """The classes in the order of the model's outputs: those of its knob `classes`, else
    `class_names` as they are.

    Raises `InputError` for a knob that does not hold the same classes.
    """
    named = getattr(model, "classes", None) if model.outputs_in_order else None
    if named is None:
        return tuple(class_names)
    if isinstance(named, list | tuple):
        order = tuple(str(name) for name in named)
    else:
        order = ()
    if sorted(order) != sorted(class_names):
        names_in_words = ", ".join(class_names[:20]) + (", ..." if len(class_names) > 20 else "")
        raise InputError(
            "model.classes",
            f"must be a list of the {len(class_names)} classes in the order of its outputs:"
            f" {names_in_words}",
        )
    return order


def in_order(answers: Answers, order: Sequence[str], class_names: Sequence[str]) -> Answers:
    """Answers read as if the outputs stood as `class_names`, where they stand in `order`, as
    numbers of `class_names`."""
    if tuple(order) == tuple(class_names):
        return answers
    answer = answers[0]
    logits = answers[1]
    code_of = {name: code for code, name in enumerate(class_names)}
    codes_of_outputs = np.array([code_of[name] for name in order], dtype=np.int64)
    renamed = np.where(answer >= 0, codes_of_outputs[answer], answer)
    moved = None
    if logits is not None:
        moved = logits[:, np.argsort(codes_of_outputs)]
    if len(answers) == 3:
        return (renamed, moved, answers[2])
    return (renamed, moved)


Told = Callable[[int, int], None]
"""What is told how many rows are answered, and of how many."""
_TOLD: ContextVar[Told | None] = ContextVar("told", default=None)


@contextmanager
def telling(listener: Told) -> Iterator[None]:
    """Inside, `listener` hears how far the answers for a set are."""
    token = _TOLD.set(listener)
    try:
        yield
    finally:
        _TOLD.reset(token)


def tell(done: int, total: int) -> None:
    """So many rows of a set are answered."""
    if (listener := _TOLD.get()) is not None:
        listener(done, total)


_DOUBTS: ContextVar[list[str] | None] = ContextVar("doubts", default=None)


@contextmanager
def hearing_doubts() -> Iterator[list[str]]:
    """Inside, what a model tells of its answers by `doubt` comes into this list, and into that of
    whoever listens outside."""
    outer = _DOUBTS.get()
    doubts = list[str]()
    token = _DOUBTS.set(doubts)
    try:
        yield doubts
    finally:
        _DOUBTS.reset(token)
        if outer is not None:
            outer += doubts


def doubt(sentence: str) -> None:
    """Tell, without a full stop, why the answers for a set are to be doubted."""
    doubts = _DOUBTS.get()
    if doubts is not None:
        doubts.append(sentence)


def inputs(rows: RowSet, dataset: AttributedDataset, size: int) -> Iterator[NDArray[Any]]:
    """The inputs of the rows in batches of at most `size`, see `InputSpec`, as in every
    evaluation."""
    for start in range(0, len(rows.rows), size):
        yield evaluation_inputs(dataset, rows.rows[start : start + size])
        tell(
            min(start + size, len(rows.rows)), len(rows.rows)
        )  # who asks for the next batch is done with this one


def answers_of_scores(scores: NDArray[Any], name: str) -> Answers:
    """The classes of the largest of scores [n, k], -1 for a row with NaN, and the scores as logits.
    Raises `DataError`, see `log_scores`. `name`: the model, in errors."""
    logits = log_scores(scores, name)
    answer = logits.argmax(axis=1).astype(np.int64)
    answer[np.isnan(logits).any(axis=1)] = NO_CLASS
    return answer, logits


def asked(
    model: Callable[[NDArray[Any]], Any],
    rows: RowSet,
    dataset: AttributedDataset,
    class_names: Sequence[str],
    size: int,
    name: str,
    *,
    by_place: bool = False,
) -> Answers:
    """The answers of a function from inputs to logits [m, k] or to labels [m], asked for `size`
    rows at a time.

    Where the classes are ImageNet's, or those of a set beside it, a network may give ImageNet's
    1,000 outputs. The logit of a class is then the largest of those that count as it. `name` is
    what errors call the model. `by_place`: labels that are numbers are places of classes, as where
    their order was named. Raises `DataError` for an answer of another shape and for a label
    that is no class.
    """
    labels: list[NDArray[Any]] = []
    logits = []
    for x in inputs(rows, dataset, size):
        array = answer_array(model(x), class_names, name)
        if (
            array.shape == (len(x), 1000) != (len(x), len(class_names))
            and array.dtype.kind in "fiu"
        ):
            merged = onto_classes(array, class_names)
            array = array if merged is None else merged
        if array.shape == (len(x), len(class_names)) and array.dtype.kind in "fiu":
            logits.append(array.astype(np.float32))
        elif array.shape == (len(x),):
            labels.append(array)
            with suppress(AmbiguousLabelsError):  # other batches may tell
                class_codes(array, class_names, name, by_place=by_place)
        else:
            kind = (
                type(array.item()).__name__ if array.shape == () else f"{array.dtype} {array.shape}"
            )
            problem = (
                f"{name} answered {len(x)} inputs by {kind}; it must give"
                f" logits [{len(x)}, {len(class_names)}] or labels [{len(x)}]"
            )
            one_score = array.shape == (len(x), 1) and len(class_names) == 2
            raise DataError(problem + (BOTH_SCORES if one_score else ""))
    if logits and labels:
        raise DataError(f"{name} gave logits for some batches and labels for others")
    if logits:
        return answers_of_scores(np.concatenate(logits), name)
    if len({array.dtype.kind for array in labels}) > 1:
        labels = [array.astype(object) for array in labels]
    return class_codes(np.concatenate(labels), class_names, name, by_place=by_place), None
