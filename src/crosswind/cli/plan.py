"""`crosswind plan STUDY`: what a study would do, without training."""

from __future__ import annotations

import typer

from crosswind.cli.options import AsJson, Overrides, Scale, StudyWord, print_json

__all__ = ["plan_command"]

_LAWS = {
    "train": ", as training, supplements among them",
    "without-supplements": ", training without counterexamples and other supplements",
}


def plan_command(study: StudyWord, settings: Overrides = None, scale: Scale = None, as_json: AsJson = False) -> None:
    """Say what a study would run: rows of every draw, matched values, number of runs. Trains nothing."""
    from crosswind.studies.plan import make_plan
    from crosswind.studies.spec import load_study, study_path

    planned = make_plan(load_study(study, scale, settings or ()), study_path(study).parent)
    if as_json:
        print_json(planned.to_json())
        return
    typer.echo(f"study {planned.study.name}: {len(planned.runs)} runs")
    rows: list[tuple[str, ...]] = [("source", "shift", "size", "train", "validation", "test", "cells", "shared by seeds")]
    for draw in planned.draws:
        numbers = (draw.train_rows, draw.validation_rows, draw.test_rows, len(draw.cells))
        rows.append((draw.source, draw.shift, draw.size, *(str(number) for number in numbers), f"{draw.train_shared:.2f}"))
    widths = [max(len(row[column]) for row in rows) for column in range(8)]
    for row in rows:
        words = [f"{row[column]:<{widths[column]}}" if column < 3 else f"{row[column]:>{widths[column]}}" for column in range(8)]
        typer.echo("  " + "  ".join(words))
    typer.echo("shared by seeds: the share of the training rows that two seeds are expected to have in common")
    for name, law in planned.validation.items():
        typer.echo(f"validation set {name}: law {law}{_LAWS.get(law, '')}")
    printed = set()
    for draw in planned.draws:
        for attribute, pairs in draw.matching.items():
            line = f"matched in {draw.source}, {attribute}: " + ", ".join(
                f"{name}: {' '.join(values)}" for name, values in pairs.items()
            )
            if line not in printed:
                printed.add(line)
                typer.echo(line)
    for text in planned.warnings:
        typer.echo(f"warning: {text}", err=True)
