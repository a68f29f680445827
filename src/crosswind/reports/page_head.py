"""The first screen of a study's page: the question, the answer, its picture and what to do next.
For studies that compare nothing, what they are about and what stands below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crosswind.core.errors import counted
from crosswind.evaluation.metrics import HEADLINE
from crosswind.reports.claims.answer_picture import (
    METHODS_A_SHIFT,
    ROWS,
    AnswerPicture,
    picture_of,
)
from crosswind.reports.rows.answers import Example, Strip
from crosswind.reports.scores.notes import MARK
from crosswind.reports.sections import address

if TYPE_CHECKING:
    from crosswind.reports.gather import StudyRecord

PICTURES = 8
"""Pictures of a strip beside a shift's name, spread over the classes."""
MOST_VERDICTS = 4
"""Claims whose verdicts are on the first screen of a study without another comparison."""


@dataclass(frozen=True)
class PictureStrip:
    """Rows of one set, by class: the addresses of their pictures and what is said of each."""

    title: str
    classes: Sequence[Sequence[tuple[str, str]]]


@dataclass(frozen=True)
class StudyHead:
    """The head of a page, read before anything else. `strips`: by shift, pictures of training and
    test rows."""

    question: str
    sentences: Sequence[str]
    certainty: str = ""
    next_step: str = ""
    command: str = ""
    picture: AnswerPicture | None = None
    caption: str = ""
    strips: Mapping[str, Sequence[PictureStrip]] = field(default_factory=dict)


def study_head(study: StudyRecord) -> StudyHead:
    """The first screen of a study."""
    findings = study.findings
    if findings is None:
        return _head_without_comparisons(study)
    answer = findings.answer
    picture = picture_of(
        answer.place,
        findings.items,
        study.resolved,
        most_rows=ROWS,
        most_methods=METHODS_A_SHIFT,
    )
    return StudyHead(
        answer.question,
        answer.sentences,
        answer.certainty,
        answer.next_step,
        answer.command,
        picture,
        "" if picture is None else _caption(picture),
        _strips(study.behind.strips, answer.place.data, answer.place.size),
    )


def _caption(picture: AnswerPicture) -> str:
    """How the picture is read: its line, a method's own number, and a hollow dot where one is."""
    reference = picture.reference
    strips = [strip for row in picture.rows for strip in row.strips if strip is not None]
    hollow = ""
    if any(strip.kind == "open" for strip in strips):
        hollow = " A hollow dot may be chance."
    if any(MARK in strip.words for strip in strips):
        hollow += f" {MARK}: runs told to doubt the number, for the reason that stands below."
    if not picture.is_of_costs:
        return (
            f"What each method wins (right) or loses (left) beside {reference}, the line, in points."
            f"{hollow}"
        )
    methods = ""
    if any(row.is_method for row in picture.rows):
        methods = (
            ", and below it what each method wins back of it: its bar begins where the shift ends"
        )
    return (
        f"What each shift costs {reference}, in points{methods}. The line is {reference} without a"
        f" shift: {picture.base} of test rows right.{hollow}"
    )


def _head_without_comparisons(study: StudyRecord) -> StudyHead:
    """The head of a study that has nothing to compare, or nothing yet."""
    question = str(study.resolved.get("about") or study.name)
    next_step = ""
    if _n_waiting(study):
        next_step = f"{_n_waiting(study):,} of {len(study.runs):,} runs are not done; finish them."
    elif _n_failed(study) == len(study.runs) > 0:
        next_step = "mend the reason and run the study again with --retry-failed."
    verdicts = study.verdicts_alone[:MOST_VERDICTS]
    left_out = len(study.verdicts_alone) - len(verdicts)
    if left_out:
        verb = "stands" if left_out == 1 else "stand"
        verdicts.append(f"{counted(left_out, 'more claim')} {verb} below.")
    return StudyHead(question, verdicts or _scores_told(study), next_step=next_step)


def _n_waiting(study: StudyRecord) -> int:
    return sum(run["status"] not in ("finished", "diverged", "failed") for run in study.runs)


def _n_failed(study: StudyRecord) -> int:
    return sum(run["status"] == "failed" for run in study.runs)


def _nothing_compared(study: StudyRecord) -> str:
    """Why a study has no comparison, as a sentence."""
    declared = [study.resolved.get(name) or () for name in ("methods", "shifts")]
    if max(map(len, declared)) < 2:
        return "This study compares no methods and no shifts."
    if _n_waiting(study):
        return "Nothing can be compared yet."
    failed = _n_failed(study)
    if failed:
        return f"Nothing can be compared: {failed:,} of {len(study.runs):,} runs failed."
    return (
        f"Nothing is compared: {study.reference} runs neither beside another method under one shift"
        " nor without a shift on an evenly drawn test set."
    )


def _scores_told(study: StudyRecord) -> list[str]:
    """The scores of the reference at the first place; why nothing is scored."""
    for at_place in study.places:
        for shift, method, entry in at_place.grid():
            summary = None if entry is None else entry.summary(HEADLINE.name)
            if summary is None:
                continue
            interval = ""
            if summary.low is not None and summary.high is not None:
                interval = f" [{summary.low:.1%}, {summary.high:.1%}]"
            return [
                f"{_nothing_compared(study)} {method} under {shift} is right on"
                f" {summary.mean:.1%}{interval} of the rows of {at_place.place.set}."
            ]
    return [study.reasons("failed") or "No run of this study has a score yet."]


# -- strips of pictures ----------------------------------------------------------------------------


def _strips(strips: Sequence[Strip], data: str, size: str) -> dict[str, Sequence[PictureStrip]]:
    """By shift, some pictures of training rows and of test rows; empty where rows are no pictures."""
    drawn: dict[str, Sequence[PictureStrip]] = {}
    for strip in strips:
        if (strip.data, strip.size) != (data, size):
            continue
        training = [of_class for _, of_class, _ in strip.classes]
        test = [of_class for _, _, of_class in strip.classes]
        pair = [_picture_strip("train", training), _picture_strip("test", test)]
        if all(picture.classes for picture in pair):
            drawn[strip.shift] = pair
    return drawn


def _picture_strip(title: str, classes: Sequence[Sequence[Example]]) -> PictureStrip:
    """A few pictures of the first classes."""
    few = classes[:PICTURES]
    each = max(1, PICTURES // max(1, len(few)))
    shown: list[list[tuple[str, str]]] = []
    for of_class in few:
        pictures = [
            (address(example.png), example.words) for example in of_class[:each] if example.png
        ]
        if pictures:
            shown.append(pictures)
    return PictureStrip(title, shown)
