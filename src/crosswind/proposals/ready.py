"""A proposed study that was planned and timed, so that it can be run as it is."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosswind.core import html
from crosswind.core.errors import InputError, counted
from crosswind.core.files import write_atomically
from crosswind.data.frames import FRAMES, frame_of
from crosswind.proposals.design import enough_rows
from crosswind.proposals.study_file import Proposal, propose
from crosswind.proposals.timing import (
    SIDE,
    nominal_time,
    repeats_needed,
    repeats_that_fit,
    run_time,
)
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.reading import parse, study_name
from crosswind.studies.spec import study_from

if TYPE_CHECKING:
    from polars import DataFrame

    from crosswind.studies.split_counts import DrawReport

MOST_WORKERS = 8
"""Processes for which the time of a study is foreseen."""


@dataclass(frozen=True)
class ReadyStudy:
    """A proposal with its plan. `seconds`: that it takes on this machine, with `workers`
    processes."""

    proposal: Proposal
    plan: Plan
    seconds: float
    workers: int
    path: Path = Path("study.yaml")

    def __str__(self) -> str:
        lines = [f"{note}." for note in self.notes]
        return "\n".join([*lines, f"{self.path}: {self.runs_in_words}"])

    def _repr_html_(self) -> str:
        title = f"{self.path}: {self.runs_in_words}"
        sentences = [f"{note}." for note in self.notes]
        return html.points(title, sentences)

    def write(self) -> None:
        """Write the study's file. Raises `OSError`."""
        write_atomically(self.path, self.text_in_bytes)

    @property
    def text_in_bytes(self) -> bytes:
        """The study's file."""
        return self.proposal.text.encode()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the table, on what each shift draws and on what the plan warns of, a sentence
        without its full stop each."""
        return (*self.proposal.notes, *self._draws(), *_short_sets_once(self.plan.warnings))

    @property
    def runs_in_words(self) -> str:
        """The number of runs, and how long they take."""
        processes = "1 process" if self.workers == 1 else f"{self.workers} processes"
        minutes = max(1, round(self.seconds / 60))
        about = "about a minute" if minutes == 1 else f"about {minutes} minutes"
        time = "under a minute" if self.seconds < 60 else about
        return f"{len(self.plan.runs):,} runs, {time} with {processes} on this machine"

    def _draws(self) -> list[str]:
        """The training rows of each attribute, the same under every shift, and which are few."""
        draws: dict[str, DrawReport] = {}
        for draw in self.plan.draws:
            draws.setdefault(draw.source, draw)
        notes = []
        for design, draw in zip(self.proposal.draft.designs, draws.values(), strict=False):
            cells = len(design.values) * len(design.classes)
            few = ""
            if design.is_short:
                few = (
                    f"; the smallest of its {cells} cells has {counted(design.smallest, 'row')}, fewer than"
                    f" {enough_rows(cells)}: only large costs can be told"
                )
            notes.append(
                f"{design.attribute}: every shift trains on {draw.train_rows:,} of {design.n_rows:,} rows,"
                f" validates on {draw.validation_rows:,} and tests on {draw.test_rows:,}{few}"
            )
        return notes


def _short_sets_once(warnings: Sequence[str]) -> list[str]:
    """Warnings, of those on cells that lack rows the first of each set: with units nearly every
    split seed has its own."""
    by_set: dict[str, list[str]] = {}
    for warning in warnings:
        is_short = "rows that were asked for" in warning
        by_set.setdefault(warning.rpartition(": ")[0] if is_short else warning, []).append(warning)
    lines = []
    for first, *repeated in by_set.values():
        more = counted(len(repeated), "more such warning")
        lines.append(f"{first} ({more}: crosswind plan)" if repeated else first)
    return lines


def ready_study(
    table: str,
    path: Path,
    images: str | None = None,
    label: str | None = None,
    size: int | None = None,
    text: Sequence[str] | None = None,
    header: Sequence[str] | None = None,
) -> ReadyStudy:
    """The proposal of a table, see `propose`, with as many repeats as its question needs and as fit
    a few minutes, which the table alone decides; the time is this machine's. `path`: where the
    study will lie."""
    proposal = propose(table, images, label, size, text, header, path.parent)
    proposal, plan = _that_can_be_planned(proposal, path)
    draft = proposal.draft
    nominal = nominal_time(draft.kind, draft.options.get("size", SIDE))
    needed = repeats_needed(min(draw.test_rows for draw in plan.draws))
    fitting = repeats_that_fit(nominal.of_runs(plan), draft.repeats, needed)
    while fitting < needed and (smaller := proposal.with_less()) is not None:
        proposal = smaller
        plan = _planned(proposal, path)
        fitting = repeats_that_fit(nominal.of_runs(plan), draft.repeats, needed)
    if fitting != draft.repeats:
        proposal = proposal.with_repeats(fitting)
        plan = _planned(proposal, path)
    workers = min(os.cpu_count() or 1, MOST_WORKERS)
    seconds = run_time(plan).of_runs(plan) / workers
    return ReadyStudy(proposal, plan, seconds, workers, path)


def proposed(
    table: Any,
    out: Path | None,
    images: str | None,
    label: str | None,
    size: int | None,
    text: Sequence[str] | None,
    header: Sequence[str] | None,
    force: bool,
) -> ReadyStudy:
    """See `crosswind.init`."""
    if out is not None and out.is_dir():
        raise InputError(
            "out", f"{out} is a folder; name a file in it, such as {out / 'study.yaml'}"
        )
    if isinstance(table, str | Path):
        if out is None:
            path = study_beside(table)
        else:
            path = out
        study = ready_study(str(table), path, images, label, size, text, header)
        _write(study, force)
        return study
    frame = frame_of(table, "table", ("the path of a table", *FRAMES))
    if out is None:
        raise InputError("out", "is needed for a frame: the file of the study, such as moles.yaml")
    rows = out.with_suffix(".parquet")
    before = rows.read_bytes() if rows.exists() else None
    after = _parquet(frame)
    if before not in (None, after) and not force:
        raise InputError("out", _there(f"{rows}, where the frame would lie,"))
    write_atomically(rows, after)
    try:
        study = ready_study(str(rows), out, images, label, size, text, header)
        _write(study, force)
    except BaseException:
        if before is None:
            rows.unlink(missing_ok=True)
        else:
            write_atomically(rows, before)
        raise
    return study


def study_beside(table: str | Path) -> Path:
    """The file of a study of a table, by the table's name; of a folder without a name, such as `.`,
    which is refused as a table, a name that is never written."""
    path = Path(table)
    return path.with_suffix(".yaml") if path.name else path / "study.yaml"


def refuse_folder(path: Path, field: str) -> None:
    """Refuse a folder as a study's file. Raises `InputError`."""
    if path.is_dir():
        raise InputError(
            field, f"{path} is a folder; name a file in it, such as {path / 'study.yaml'}"
        )


def _write(study: ReadyStudy, force: bool) -> None:
    """Write a study's file. Raises `InputError` where another one is there, which somebody may have
    changed."""
    if not force and study.path.exists() and study.path.read_bytes() != study.text_in_bytes:
        raise InputError("out", _there(str(study.path)))
    study.path.parent.mkdir(parents=True, exist_ok=True)
    study.write()


def _there(path_words: str) -> str:
    return (
        f"{path_words} is there already and holds something else; name another file, or force=True"
    )


def _parquet(frame: DataFrame) -> bytes:
    """A frame as a file. Objects, such as sets, which Parquet has not, become empty lists, which no
    study reads either."""
    import polars

    empty = [
        polars.Series(name, [[]] * frame.height, dtype=polars.List(polars.Int64))
        for name, kind in frame.schema.items()
        if kind == polars.Object
    ]
    buffer = io.BytesIO()
    frame.with_columns(empty).write_parquet(buffer)
    return buffer.getvalue()


def _that_can_be_planned(proposal: Proposal, path: Path) -> tuple[Proposal, Plan]:
    """The proposal with its plan; without the table's own roles where these put rows of one content
    into two of them."""
    try:
        return proposal, _planned(proposal, path)
    except InputError as error:
        if error.field != "overlap" or proposal.draft.official is None:
            raise
        reason = f"{error.problem.partition(';')[0]}: rows are dealt anew, each content one role"
        dealt = proposal.without_official(reason)
        return dealt, _planned(dealt, path)


def _planned(proposal: Proposal, path: Path) -> Plan:
    """The plan of a proposal. Raises `InputError`, `DataError` for what the table's rows hold."""
    study = study_from(parse(proposal.text, str(path)), name=study_name(path))
    return make_plan(study, path.parent)
