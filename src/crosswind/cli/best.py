"""`crosswind best STORE --to FILE`: the settings that validation chose, frozen for fresh seeds."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosswind.cli.options import DEFAULT_OUT, StoreWord, StudyName, check_study_place, written
from crosswind.core.errors import InputError

if TYPE_CHECKING:
    from crosswind.studies.best_settings import BestPoint
    from crosswind.studies.spec import Study


def best_command(
    where: StoreWord = DEFAULT_OUT,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="The study file to write.")
    ] = None,
    study_name: StudyName = None,
    rule: Annotated[
        str | None,
        typer.Option("--rule", metavar="RULE", help="Selection rule; default: the study's first."),
    ] = None,
    by_score: Annotated[
        bool,
        typer.Option(
            "--by-score",
            help="Of a search by halving, choose also among points that were stopped.",
        ),
    ] = False,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, max=1000, help="Fresh seeds.")
    ] = 5,
) -> None:
    """Choose one point of every method's grid or search by validation, over all its runs, and write
    a study of these alone, on seeds that chose nothing.

    What was chosen on some seeds looks better on them than it is: the frozen study says how good.
    """
    import yaml

    from crosswind.storage.store import Store
    from crosswind.studies.best_settings import best_points, frozen_study
    from crosswind.studies.spec import study_from
    from crosswind.training.selection import ORACLES, RULES, Rule

    if to is not None:
        check_study_place(to)
    with Store.open(where) as store:
        name = store.study_named(study_name)
        entry = store.study(name)
        study = study_from({**entry["given"], "name": name}, where=f"study {name}")
        _check_by_score(study, by_score)
        rule_name = rule or study.selection[0]
        best = best_points(study, store.results(name), rule_name, by_score)
        fields = frozen_study(entry["given"], study, best, seeds)
    chosen_by = RULES.get(rule_name, Rule("validation"))
    scored = "" if chosen_by.score == "accuracy" else f"{chosen_by.words} "
    lines = []
    if rule_name in ORACLES:
        lines.append(
            f"{rule_name} is an ORACLE: it chooses on labelled rows like those of the test, which"
            " nobody has in practice"
        )
    for point in best.values():
        next_best = ""
        if point.second is not None:
            next_best = f" (the next one {point.second:.1%})"
        lines.append(
            f"{point.method}: {point.point} of {point.tried} points, {scored}{point.score:.1%} on"
            f" {chosen_by.set} over {point.runs} runs{_ended_words(point)}{next_best}"
        )
    if study.search is not None and study.search.halving is not None:
        preferred = (
            "points are compared by score alone (--by-score)"
            if by_score
            else "points that were trained to the end in most runs come first"
        )
        lines.append(
            "the search halved: a point that was stopped in some of its runs counts there with its"
            f" score at that step; {preferred}"
        )
    text = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100)
    head = "".join(f"# {line}\n" for line in lines)
    for line in lines:
        typer.echo(line, err=to is None)
    if to is None:
        typer.echo(head + text, nl=False)
        return
    with written("--to", to):
        to.write_text(head + text, encoding="utf-8")
    typer.echo(f"wrote {to}: crosswind run {shlex.quote(str(to))}")


def _check_by_score(study: Study, by_score: bool) -> None:
    """Refuse `--by-score` of a study in which no point is stopped. Raises `InputError`."""
    if by_score and (study.search is None or study.search.halving is None):
        problem = f"is of a search by halving, and the study {study.name} has none; leave it out"
        raise InputError("--by-score", problem)


def _ended_words(point: BestPoint) -> str:
    """In how many of its runs a search that halves trained a point to the end."""
    if point.ended == point.runs:
        return ""
    return f", in {point.ended} of them trained to the end"
