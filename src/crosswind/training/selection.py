"""Which step of a trajectory each selection rule takes, and when training stops. Plain numbers, no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["RULES", "Score", "Selection", "Selector", "Stopper"]

# rule -> the validation set that it reads; best-target reads what a practitioner does not have: an oracle
RULES = {"best-id": "validation", "best-ood": "ood-validation", "best-target": "target-validation"}


@dataclass(frozen=True)
class Score:
    """One validation of one set: accuracy as a fraction, loss in nats (NaN where there are no logits)."""

    accuracy: float
    loss: float


@dataclass(frozen=True)
class Selection:
    """The step that a rule takes, how many validations share its accuracy (1: no tie), and the scores of every set there."""

    rule: str
    step: int
    ties: int
    scores: Mapping[str, Score]


class Selector:
    """Follows every rule along one trajectory: highest accuracy, ties by the lower loss, then the earliest.

    A loss that is not a number loses every tie.
    """

    def __init__(self, sets: Sequence[str]) -> None:
        self._rules = {rule: name for rule, name in RULES.items() if name in sets}
        self._best: dict[str, Selection] = {}

    def offer(self, step: int, scores: Mapping[str, Score]) -> None:
        """Take one validation into account; it becomes the last one."""
        for rule, name in self._rules.items():
            best = self._best.get(rule)
            if best is None or scores[name].accuracy > best.scores[name].accuracy:
                self._best[rule] = Selection(rule, step, 1, dict(scores))
            elif scores[name].accuracy == best.scores[name].accuracy:
                lower = _loss(scores[name]) < _loss(best.scores[name])
                self._best[rule] = Selection(
                    rule, step if lower else best.step, best.ties + 1, dict(scores) if lower else best.scores
                )
        self._best["last"] = Selection("last", step, 1, dict(scores))

    @property
    def selections(self) -> dict[str, Selection]:
        """What each rule takes so far."""
        return {rule: self._best[rule] for rule in (*RULES, "last") if rule in self._best}

    @property
    def steps(self) -> set[int]:
        """The distinct steps that some rule takes."""
        return {item.step for item in self._best.values()}

    def save(self) -> list[dict[str, Any]]:
        """The selector as plain values."""
        return [
            {
                "rule": item.rule,
                "step": item.step,
                "ties": item.ties,
                "scores": {name: [score.accuracy, score.loss] for name, score in item.scores.items()},
            }
            for item in self.selections.values()
        ]

    def restore(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Go on from what `save` gave."""
        self._best = {
            item["rule"]: Selection(
                item["rule"], item["step"], item["ties"], {name: Score(*pair) for name, pair in item["scores"].items()}
            )
            for item in saved
        }


class Stopper:
    """The stop rule: reads the in-distribution validation accuracy and nothing else.

    Training stops after `patience` validations in a row that do not beat the best, or at once when `stop_at` is reached. None
    means never.
    """

    def __init__(self, patience: int | None, stop_at: float | None) -> None:
        self._patience, self._stop_at = patience, stop_at
        self.best, self.waited = -math.inf, 0

    def offer(self, accuracy: float) -> bool:
        """Take one validation into account; whether to stop."""
        if accuracy > self.best:
            self.best, self.waited = accuracy, 0
        else:
            self.waited += 1
        reached = self._stop_at is not None and accuracy >= self._stop_at
        return reached or (self._patience is not None and self.waited >= self._patience)


def _loss(score: Score) -> float:
    return math.inf if math.isnan(score.loss) else score.loss
