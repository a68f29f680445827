"""The report on a model's accuracy on rows without labels: the answer in a sentence, the estimates,
the reasons."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import counted
from crosswind.estimators.base import Estimate
from crosswind.estimators.diagnosis import DiagnosisFinding
from crosswind.estimators.intervals import DOUBT
from crosswind.transforms.neighbourhood import pool_of_kind

WIDTH = 100
"""Of the text, in characters."""


@dataclass(frozen=True)
class Row:
    """An estimator's answer. `pool_error`: its mean absolute error on the pool, kinds of change
    alike, None without one. `shifted`: whether the labels look shifted, so that it learned from a
    pool with shifted labels."""

    estimator: str
    estimate: Estimate
    pool_error: float | None
    shifted: bool = False


@dataclass(frozen=True)
class Doubtful:
    """A row whose neighbours are given many answers. `shares`: of the classes that were given, most
    often first.

    `picture` or `text`: the row itself.
    """

    name: str
    answer: str
    shares: tuple[tuple[str, float], ...]
    picture: NDArray[np.uint8] | None = field(default=None, repr=False, compare=False)
    text: str = ""


CHECKED = 0.05
"""How near labelled rows are to bring the estimate to the truth."""
SUREST = 0.9
"""The accuracy nearest to 0 or 1 that is believed when rows are counted that would check it."""


@dataclass(frozen=True)
class Estimates:
    """The estimates of a model's accuracy on rows without labels. `str` of it is the text of
    `crosswind estimate`.

    `rows`: one an estimator, the most believable first. `left_out`: the others, and why.
    `findings`: what the answers show, with a sentence where it speaks against the estimates.
    `doubtful`: the rows on which the neighbours disagree most. `kind`: of the inputs, or table.
    `notes`: how what was given was read, in sentences.
    """

    model: str
    data: str
    n: int
    source: str
    source_accuracy: float | None
    source_n: int
    rows: tuple[Row, ...]
    left_out: tuple[tuple[str, str], ...]
    findings: tuple[DiagnosisFinding, ...]
    doubtful: tuple[Doubtful, ...] = field(repr=False)
    kind: str
    notes: tuple[str, ...] = ()

    @property
    def believed(self) -> Row | None:
        """The estimate to believe first: of those with an interval the smallest error on the pool.
        None where none was checked."""
        first = self.rows[0] if self.rows else None
        if first is not None and first.pool_error is not None and first.estimate.low is not None:
            return first
        return None

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        counted_answers = counted(self.n, "answer")
        best = self.believed
        if best is not None:
            believed_estimate = best.estimate
            assert believed_estimate.low is not None and believed_estimate.high is not None
            ends = f"90% interval {believed_estimate.low:.1%} to {believed_estimate.high:.1%}"
            doubt = ""
            if any(text.startswith(DOUBT) for text in believed_estimate.warnings):
                doubt = "; this is doubtful"
            return (
                f"About {believed_estimate.accuracy:.1%} of these {counted_answers} are right"
                f" ({ends}), by {best.estimator}{doubt}."
            )
        if not self.rows:
            return f"Nothing can be told of these {counted_answers}."
        if self.source and self.rows[0].pool_error is not None:
            first_accuracy = self.rows[0].estimate.accuracy
            name = self.rows[0].estimator
            return (
                f"About {first_accuracy:.1%} of these {counted_answers} are right, by {name}; no"
                " interval could be made that holds."
            )
        if self.source:
            values = [row.estimate.accuracy for row in self.rows]
            ends = f"{min(values):.1%} to {max(values):.1%}"
            return (
                f"Estimates for these {counted_answers} lie at {ends}; none could be checked on"
                " shifted rows, so none is to be believed more."
            )
        first = self.rows[0].estimate.accuracy
        return (
            f"The mean confidence of these {counted_answers} is {first:.1%}; without labelled rows"
            " nothing says how far it is too high."
        )

    @property
    def rows_to_check(self) -> int:
        """How many of the rows, labelled, check the estimate to within `CHECKED` points: the size of
        a simple random sample whose 95% interval is so wide (Cochran 1977, equation 4.2)."""
        accuracies = [self.believed.estimate.accuracy] if self.believed else []
        accuracies = accuracies or [row.estimate.accuracy for row in self.rows] or [0.5]
        # The estimate may err: an accuracy nearer to a half needs more rows.
        variance = max(max(p * (1 - p) for p in accuracies), SUREST * (1 - SUREST))
        sample = 1.96**2 * variance / CHECKED**2
        return max(1, math.ceil(sample / (1 + (sample - 1) / max(self.n, 1))))

    @property
    def check(self) -> str:
        """The check for what no estimate can see, and how to look."""
        rows = "the label of 1"
        if self.rows_to_check != 1:
            rows = f"the labels of {self.rows_to_check:,}"
        return (
            "No estimate can see that inputs mean something else than they did (the same input,"
            f" another right answer): {rows} of these {self.n:,} rows, drawn at random, would check it"
            f" to within {CHECKED * 100:.0f} points."
        )

    @property
    def reasons(self) -> list[str]:
        """Why, in sentences: which estimate is believed, what speaks against it, what was left
        out."""
        best = self.believed
        sentences = []
        if self.source:
            assert self.source_accuracy is not None
            sentences.append(
                f"On {self.source_n:,} labelled rows of {self.source} {self.source_accuracy:.1%} of"
                " the answers are right."
            )
        if best is not None:
            kinds = len({change.family for change in pool_of_kind(self.kind)})
            points = 100 * (best.pool_error or 0)
            shifted_words = ""
            if best.shifted:
                shifted_words = ", drawn so that their labels shift as those of the answers seem to"
            sentences.append(
                f"{best.estimator} erred least of those with an interval: by {points:.1f} points on"
                f" average over {kinds} kinds of change of the labelled rows{shifted_words}, none"
                " of which it had learned from."
            )
            sentences.append(
                "Its interval holds for shifts that mislead it no more than those changes do;"
                " others may."
            )
        for text in dict.fromkeys(self._warnings()):
            sentences.append(f"Warning: {text[0].upper()}{text[1:]}.")
        bare: dict[str, list[str]] = {}
        for row in self.rows:
            if row.estimate.no_interval:
                bare.setdefault(row.estimate.no_interval, []).append(row.estimator)
        for why, names in bare.items():
            sentences.append(f"No interval: {', '.join(names)}, since {why}.")
        sentences += self.notes
        names_by_reason: dict[str, list[str]] = {}
        for name, why in self.left_out:
            names_by_reason.setdefault(why, []).append(name)
        for why, names in names_by_reason.items():
            sentences.append(f"Left out: {', '.join(names)}, since {why}.")
        return sentences

    def _warnings(self) -> list[str]:
        first_warnings = [text for row in self.rows[:1] for text in row.estimate.warnings]
        return first_warnings + [finding.warning for finding in self.findings if finding.warning]

    def table(self) -> list[tuple[str, str, str, str]]:
        """Estimator, estimate, interval and error on the pool, as text."""
        out = []
        for row in self.rows:
            low = row.estimate.low
            high = row.estimate.high
            note = "" if row.estimate.basis != "rows" else " (rows only)"
            ends = "-"
            if low is not None and high is not None:
                ends = f"{low:.1%} to {high:.1%}{note}"
            error = "-"
            if row.pool_error is not None:
                error = f"{100 * row.pool_error:.1f} points"
            out.append((row.estimator, f"{row.estimate.accuracy:.1%}", ends, error))
        return out

    def __str__(self) -> str:
        lines = [f"{self.model} on {self.data}", "", textwrap.fill(self.sentence, WIDTH)]
        if self.rows:
            head = ("estimator", "accuracy", "90% interval", "error on the pool")
            cells = [head, *self.table()]
            widths = [max(len(row[i]) for row in cells) for i in range(4)]
            lines.append("")
            for row in cells:
                padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
                lines.append("  ".join(padded).rstrip())
        return "\n".join([*lines, "", *self.reasons, self.check])

    def to_json(self) -> dict[str, Any]:
        """Everything but the pictures, as plain values for JSON."""
        rows = []
        for row in self.rows:
            rows.append(
                {
                    "estimator": row.estimator,
                    "accuracy": row.estimate.accuracy,
                    "low": row.estimate.low,
                    "high": row.estimate.high,
                    "basis": row.estimate.basis,
                    "no_interval": row.estimate.no_interval,
                    "pool_error": row.pool_error,
                    "warnings": list(row.estimate.warnings),
                }
            )
        best = self.believed
        check = {"rows": self.rows_to_check, "within": CHECKED, "sentence": self.check}
        findings = [vars(entry) for entry in self.findings]
        doubtful = []
        for entry in self.doubtful:
            doubtful.append(
                {"row": entry.name, "answer": entry.answer, "shares": dict(entry.shares)}
            )
        source = self.source or None
        believed = None if best is None else best.estimator
        left_out = dict(self.left_out)
        notes = list(self.notes)
        return {
            "model": self.model,
            "data": self.data,
            "rows": self.n,
            "source": source,
            "source_rows": self.source_n,
            "source_accuracy": self.source_accuracy,
            "sentence": self.sentence,
            "believed": believed,
            "estimates": rows,
            "left_out": left_out,
            "notes": notes,
            "check": check,
            "findings": findings,
            "doubtful": doubtful,
        }

    def frame(self) -> Any:
        """The estimates as a polars frame, a row an estimator."""
        from polars import DataFrame

        rows = [
            {**row, "warnings": " ".join(row["warnings"])} for row in self.to_json()["estimates"]
        ]
        return DataFrame(rows)

    def _repr_html_(self) -> str:
        from crosswind.core import html

        table = html.table(
            self.sentence,
            ("estimator", "accuracy", "90% interval", "error on the pool"),
            self.table(),
        )
        sentences = [*self.reasons, self.check]
        return table + html.points("Why", sentences)
