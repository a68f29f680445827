"""Successive halving of a search: the points of a method are trained a little, compared by their
validation scores, and only the best of them are trained on.

Every rung is a set of jobs. The fits of the points that are compared each go up to the same share
of their steps, then a job promotes the best of them. A fit of the next rung goes on from the state
in which the fit before it paused, with the same bits as a run that never paused. It ends at once
where its point was not promoted. Which points go on depends on their scores alone, so equal seeds
give equal numbers whatever machine was first. The state lies beside the store, in the folder
`rungs`, until the next rung has read it. Where it is not at hand the fit starts over and comes to
the same state.

Jamieson and Talwalkar 2016, *Non-stochastic Best Arm Identification and Hyperparameter
Optimization*, algorithm 1, with rungs of equal factors as in Li et al. 2018, *Hyperband*.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crosswind.core.errors import InputError
from crosswind.core.files import write_atomically
from crosswind.evaluation.metrics import scores
from crosswind.storage.artifacts import rung_folder
from crosswind.storage.predictions_file import read_predictions
from crosswind.training.selection import RULES, Rule

__all__ = [
    "Rungs",
    "continue_from_rung",
    "copy_fit",
    "drop_state",
    "is_promoted",
    "keep_state",
    "promote",
    "rungs_of",
]

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Rungs:
    """The rungs of a search: `shares` of a run's steps at which points are compared, ascending, each
    in (0, 1), and the number of points that are `promoted` from each."""

    shares: tuple[float, ...]
    promoted: tuple[int, ...]

    def at_validations(self, steps: int, validate_every: int) -> Rungs:
        """The rungs of a run of so many steps, with the share of them at which points are really
        compared: at the first validation at or after a share, the last of which is the end."""
        shares = []
        for share in self.shares:
            validations = math.ceil(math.ceil(share * steps) / validate_every)
            shares.append(min(validations * validate_every, steps) / max(steps, 1))
        return Rungs(tuple(shares), self.promoted)

    def cost(self, points: int) -> float:
        """The steps of all rungs over those of training every point to the end, in (0, 1]."""
        trained = points
        done = 0.0
        steps = 0.0
        for share, promoted in zip((*self.shares, 1.0), (*self.promoted, 0), strict=True):
            steps += trained * (share - done)
            trained = promoted
            done = share
        return steps / points


def rungs_of(points: int, factor: int, rungs: int | None) -> Rungs:
    """The rungs of `points`, of which one in `factor` goes on, rounded up; `rungs` None: as many as
    leave one point or more to promote.

    The last comparison comes at 1 / `factor` of the steps, the one before at 1 / `factor`² and so
    on. Raises `InputError` where a rung would have one point alone to compare.
    """
    most = 1
    while factor ** (most + 1) <= points:
        most += 1
    rungs = most if rungs is None else rungs
    if rungs > most:
        problem = f"leaves one point before the last rung: {points} points at one in {factor}"
        raise InputError("search.halving.rungs", f"{problem} have at most {most}")
    shares = tuple(float(factor) ** (rung - rungs) for rung in range(rungs))
    promoted = []
    left = points
    for _ in shares:
        left = math.ceil(left / factor)
        promoted.append(left)
    return Rungs(shares, tuple(promoted))


def promote(spec: Values, folders: Sequence[Path]) -> dict[str, Any]:
    """The positions of the fits in `folders` whose points go on, `spec["places"]` of them, and the
    validation `scores` of all by the rule `spec["rule"]`; None where a fit diverged.

    The highest scores go on, of equal ones those that come first. A fit that was not promoted before
    is not promoted later.
    """
    fit_scores = [_validation_score(folder, spec["rule"]) for folder in folders]

    def rank(position: int) -> tuple[bool, bool, float]:
        score = fit_scores[position]
        fit_folder = folders[position]
        return not _is_training(fit_folder), score is None, -(score or 0.0)

    order = sorted(range(len(folders)), key=rank)
    return {"promoted": sorted(order[: spec["places"]]), "scores": fit_scores}


def _is_training(fit_folder: Path) -> bool:
    """Whether the point of a fit was promoted from every rung before."""
    return "stopped" not in _report(fit_folder)


def _validation_score(fit_folder: Path, rule_name: str) -> float | None:
    """The score of a fit by a selection rule, in [0, 1], on the rule's own validation set."""
    report = _report(fit_folder)
    rule = RULES.get(rule_name, Rule("validation"))
    if report["status"] == "diverged":
        return None
    names = report["sets"][rule.set]
    predictions = read_predictions(fit_folder / "predictions.npz")[rule_name][rule.set]
    measured = scores(predictions, names["groups"], names["classes"])
    score = measured.get(rule.score)
    # Where no row is in a group the worst group is all rows, as in training.
    return float(measured["accuracy"] if score is None else score)


def is_promoted(promotion_folder: Path, position: int) -> bool:
    """Whether the promotion in a folder has the point at `position` go on."""
    return position in _report(promotion_folder)["promoted"]


def _report(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    return report


# -- the state of a paused run --------------------------------------------------------------------


def _state_file(checkpoint: Path, key: str) -> Path:
    """The file of the state of the fit `key`, in the store whose runs write `checkpoint`."""
    return rung_folder(checkpoint.parents[2]) / f"{key}.safetensors"


def keep_state(checkpoint: Path, key: str) -> None:
    """Put the checkpoint of the paused fit `key` where the next rung looks for it."""
    if checkpoint.exists():
        state = _state_file(checkpoint, key)
        state.parent.mkdir(parents=True, exist_ok=True)
        os.replace(checkpoint, state)


def continue_from_rung(checkpoint: Path, previous: str) -> None:
    """Have a fit that has no checkpoint of its own go on from the state of the fit `previous`; where
    that is gone it starts over."""
    state = _state_file(checkpoint, previous)
    if not checkpoint.exists() and state.exists():
        write_atomically(checkpoint, state.read_bytes())


def drop_state(checkpoint: Path, previous: str) -> None:
    """Remove the state of the fit `previous`, which nobody goes on from any more."""
    _state_file(checkpoint, previous).unlink(missing_ok=True)


def copy_fit(previous_folder: Path, folder: Path, with_weights: bool) -> None:
    """Copy the files of a fit that is not trained on; `job.json` is written anew."""
    hidden = ["job.json"] if with_weights else ["job.json", "weights-*", "exports-*"]
    ignore = shutil.ignore_patterns(*hidden)
    shutil.copytree(previous_folder, folder, ignore=ignore, dirs_exist_ok=True)
