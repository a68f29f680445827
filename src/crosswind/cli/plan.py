"""`crosswind plan STUDY`: what a study would do, without training; `crosswind schema`: what a study
file may hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosswind.cli.options import AsJson, Overrides, Scale, StudyWord, print_json, written
from crosswind.core.errors import CrosswindError, counted
from crosswind.core.printing import duration

if TYPE_CHECKING:
    from crosswind.execution.run_costs import StudyCost
    from crosswind.studies.plan import Plan
    from crosswind.studies.split_counts import DrawReport

_LAWS = {
    "train": ", as training, supplements among them",
    "without-supplements": ", training without counterexamples and other supplements",
}
_CELLS = 4
"""Cells of a draw whose training rows are printed; --json has all."""
_LISTED_CLASSES = 6
"""Classes whose shares of matched rows are printed one by one; of more the range is."""
_COLUMNS = ("source", "shift", "size", "train", "validation", "test", "cells", "shared by seeds")


def plan_command(
    study: StudyWord,
    settings: Overrides = None,
    scale: Scale = None,
    time: Annotated[
        bool,
        typer.Option(
            "--time",
            help="Shortened runs of every method tell time and disk on this machine.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what a study would run: rows of every draw, matched values, runs, requests and their
    price. Without --time it trains nothing, and it asks nothing."""
    from crosswind.execution.endpoint_costs import foreseen, words
    from crosswind.studies.plan import plan_of

    try:
        planned = plan_of(study, scale, settings or ())
    except CrosswindError:
        n_runs = None if as_json else _runs_without_data(study, scale, settings)
        if n_runs is not None:
            typer.echo(f"study {study}: {counted(n_runs, 'run')}, which cannot be planned here")
        raise
    requests = foreseen(planned)
    cost = None
    if time:
        from crosswind.execution.run_costs import measure_costs

        cost = measure_costs(planned)
    if as_json:
        more: dict[str, Any] = {"asked": requests} if requests else {}
        if cost is not None:
            more["cost"] = cost.to_json()
        print_json(planned.to_json() | more)
        return
    typer.echo(f"study {planned.study.name}: {len(planned.runs)} runs")
    for line in _draw_lines(planned):
        typer.echo(line)
    for name, request_cost in requests.items():
        typer.echo(f"model {name}: {words(request_cost)}")
    for line in () if cost is None else _cost_lines(cost):
        typer.echo(line)
    for text in planned.notes:
        of_data = text.partition(":")[0] in planned.study.data
        typer.echo(f"data {text}" if of_data else text)
    for text in planned.warnings:
        typer.echo(f"warning: {text}", err=True)


def _draw_lines(planned: Plan) -> Iterator[str]:
    """The rows of every draw, the laws of validation sets, matched values, and the rows of cells."""
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for draw in planned.draws:
        counts = map(str, (draw.train_rows, draw.validation_rows, draw.test_rows, len(draw.cells)))
        rows.append((draw.source, draw.shift, draw.size, *counts, f"{draw.train_shared:.2f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:{'<' if i < 3 else '>'}{widths[i]}}" for i, cell in enumerate(row))
        yield "  " + "  ".join(cells)
    yield (
        "shared by seeds: the share of the training rows that two seeds are expected to have in"
        " common"
    )
    for name, law in planned.validation.items():
        yield f"validation set {name}: law {law}{_LAWS.get(law, '')}"
    matched = (
        f"matched in {draw.source}, {attribute}: "
        + ", ".join(f"{name}: {' '.join(values)}" for name, values in pairs.items())
        for draw in planned.draws
        for attribute, pairs in draw.matching.items()
    )
    yield from dict.fromkeys(matched)
    for draw in planned.draws:
        yield from _matched_shares(draw)
    for draw in planned.draws:
        yield from _cells(draw)
        yield from _environments(draw)


def _matched_shares(draw: DrawReport) -> Iterator[str]:
    """How much of each class's training rows shows a value that is matched with it."""
    for attribute, shares in draw.matched_shares.items():
        size = f", {draw.size}" if draw.size else ""
        where = f"rows that show {attribute} as matched, in {draw.source} under {draw.shift}{size}"
        if len(shares) <= _LISTED_CLASSES:
            yield f"{where}: " + ", ".join(
                f"{share:.0%} of {label}" for label, share in shares.items()
            )
        else:
            yield f"{where}: {min(shares.values()):.0%} to {max(shares.values()):.0%} of each class"


def _runs_without_data(study: str, scale: str | None, settings: list[str] | None) -> int | None:
    """The number of runs of a study that cannot be planned; None where its file is not one."""
    from crosswind.studies.obstacles import count_runs
    from crosswind.studies.spec import load_study

    try:
        return count_runs(load_study(study, scale, settings or ()))
    except CrosswindError:
        return None


def _cost_lines(cost: StudyCost) -> Iterator[str]:
    """Time and disk of a study, then a line for each method whose runs were measured."""
    measured = f"shortened runs measured in {duration(cost.measuring)}"
    yield f"time: at most {duration(cost.seconds)} of one worker on this machine, by {measured}"
    if cost.gpu_seconds:
        yield f"GPU hours: at most {cost.gpu_seconds / 3600:.1f}"
    yield f"disk: about {cost.bytes / 1e6:,.1f} MB"
    if cost.asked:
        yield f"models that are not trained here predict {cost.asked:,} sets, which is not in it"
    for fit in cost.fits:
        name = f"  {fit.data}, {fit.model}, {fit.method}"
        if fit.trouble:
            yield f"{name}: not measured: {fit.trouble}"
            continue
        step = f"{fit.steps:,} steps of {1000 * fit.step_seconds:.1f} ms"
        tests = f"tests {duration(fit.test_seconds)}"
        yield f"{name}: {fit.fits:,} x {duration(fit.fit_seconds)} ({step}), {tests}"


def _cells(draw: DrawReport) -> Iterator[str]:
    """The training rows of each cell, fewest first; of many cells the fewest alone."""
    rows = sorted(draw.cells.items(), key=lambda cell: cell[1])
    listed = ", ".join(f"{name}: {count:,}" for name, count in rows[:_CELLS])
    hidden = f" and {len(rows) - _CELLS:,} more cells" if len(rows) > _CELLS else ""
    size = f", {draw.size}" if draw.size else ""
    if listed:
        yield f"training rows in {draw.source} under {draw.shift}{size}: {listed}{hidden}"


def _environments(draw: DrawReport) -> Iterator[str]:
    """The table of a systematic shift, classes with the same row together; "." where training never
    shows the pair."""
    together: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for label, shares in draw.environments.items():
        together.setdefault(
            tuple((name, f"{share:.4f}") for name, share in shares.items()), []
        ).append(label)
    if not together:
        return
    names = list(next(iter(draw.environments.values())))
    yield (
        f"environments in {draw.source} under {draw.shift}: the share of training's visits that"
        " show each class there"
    )
    rows = [("classes", *names, "each class")]
    for pattern, labels in together.items():
        shown, remainder = (
            ", ".join(labels[:3]),
            f" and {len(labels) - 3} more" if len(labels) > 3 else "",
        )
        total = sum(draw.environments[labels[0]].values())
        rows.append(
            (
                f"{shown}{remainder}",
                *(text if float(text) else "." for _, text in pattern),
                f"{total:.4f}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(
            f"{cell:{'>' if i else '<'}{widths[i]}}" for i, cell in enumerate(row)
        )


def schema_command(
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write it there instead of printing it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of a study file (an editor that knows it completes and checks as you
    type)."""
    from crosswind.studies.spec import json_schema

    del as_json  # a schema is JSON either way
    if out is None:
        print_json(json_schema())
        return
    with written("--out", out):
        out.write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
    typer.echo(f"wrote {out}")
