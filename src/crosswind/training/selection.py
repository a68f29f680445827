"""Which step of a trajectory each selection rule takes, and when training stops. Plain numbers, no
torch."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from crosswind.core.errors import InputError, unknown


class Rule(NamedTuple):
    """The validation set that a rule reads, and the score that it takes the highest of, as `scores`
    of a set names it."""

    set: str
    score: str = "accuracy"

    @property
    def words(self) -> str:
        """The score as a sentence names it."""
        return {"worst_group": "the accuracy of the worst group"}.get(
            self.score, self.score.replace("_", " ")
        )


_SETS = {"best-id": "validation", "best-ood": "ood-validation", "best-target": "target-validation"}
_SCORES = {"accuracy": "", "worst_group": "-worst-group", "balanced_accuracy": "-balanced-accuracy"}
RULES = {
    f"{rule}{ending}": Rule(name, score)
    for rule, name in _SETS.items()
    for score, ending in _SCORES.items()
}
"""Every rule but `last`, which reads nothing."""
ORACLES = tuple(rule for rule, (name, _) in RULES.items() if name == "target-validation")
"""The rules that read what a practitioner does not have: labelled rows of the distribution that is
tested on."""


@dataclass(frozen=True)
class Score:
    """One validation of one set: accuracies as fractions, loss in nats (NaN where there are no
    logits).

    `worst_group`: the lowest accuracy of a group with rows. `balanced_accuracy`: the mean over
    classes with rows.
    """

    accuracy: float
    loss: float
    worst_group: float = math.nan
    balanced_accuracy: float = math.nan


@dataclass(frozen=True)
class Selection:
    """The step that a rule takes, how many validations share its score (1: no tie), and the scores
    of every set there."""

    rule: str
    step: int
    ties: int
    scores: Mapping[str, Score]


class Selector:
    """Follows rules along one trajectory: highest score, ties by the lower loss, then the earliest.

    Followed are the rules by accuracy on each of `sets`, and of the `others` named those whose set
    is among them. Steps before `start` count only until there is one from it on: see `start_of`. A
    loss that is not a number loses every tie.
    """

    def __init__(self, sets: Sequence[str], others: Sequence[str] = (), start: int = 0) -> None:
        self._start = start
        self._rules = {
            name: rule
            for name, rule in RULES.items()
            if rule.set in sets and (rule.score == "accuracy" or name in others)
        }
        self._best: dict[str, Selection] = {}

    def offer(self, step: int, scores: Mapping[str, Score]) -> None:
        """Take one validation into account; it becomes the last one."""
        for rule, (name, score) in self._rules.items():
            best = self._best.get(rule)
            ties = 1
            if best is not None and not best.step < self._start <= step:
                now = getattr(scores[name], score)
                then = getattr(best.scores[name], score)
                if now < then:
                    continue
                ties = best.ties + 1 if now == then else 1
                if now == then and not _loss(scores[name]) < _loss(best.scores[name]):
                    self._best[rule] = replace(best, ties=ties)
                    continue
            self._best[rule] = Selection(rule, step, ties, dict(scores))
        self._best["last"] = Selection("last", step, 1, dict(scores))

    def complete(self, sets: Sequence[str], others: Sequence[str]) -> None:
        """Have every rule that these sets and others give, and that never chose, take the last
        step.

        A run that diverged in a stage without validations is scored as it is under every rule.
        """
        last = self._best["last"]
        for rule in Selector(sets, others)._rules:
            self._best.setdefault(rule, replace(last, rule=rule))

    @property
    def selections(self) -> dict[str, Selection]:
        """The selection of each rule so far."""
        return {rule: self._best[rule] for rule in (*RULES, "last") if rule in self._best}

    @property
    def steps(self) -> set[int]:
        """The distinct steps that some rule takes."""
        return {selection.step for selection in self._best.values()}

    def save(self) -> list[dict[str, Any]]:
        """The selector as plain values."""
        return [
            {
                **vars(selection),
                "scores": {
                    name: list(vars(score).values()) for name, score in selection.scores.items()
                },
            }
            for selection in self.selections.values()
        ]

    def restore(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Go on from what `save` gave."""
        for saved_selection in saved:
            scores = {name: Score(*values) for name, values in saved_selection["scores"].items()}
            self._best[saved_selection["rule"]] = Selection(**{**saved_selection, "scores": scores})


class Stopper:
    """The stop rule: reads the in-distribution validation accuracy and nothing else.

    Training stops after `patience` validations in a row that do not beat the best, or at once when
    `stop_at` is reached. None means never. Validations before `start` are not looked at: until its
    last switch a method is another one, which must not end the run.
    """

    def __init__(self, patience: int | None, stop_at: float | None, start: int = 0) -> None:
        self._patience = patience
        self._stop_at = stop_at
        self._start = start
        self.best = -math.inf
        self.waited = 0

    def offer(self, step: int, accuracy: float) -> bool:
        """Take one validation into account; whether to stop."""
        if step < self._start:
            return False
        if accuracy > self.best:
            self.best = accuracy
            self.waited = 0
        else:
            self.waited += 1
        reached = self._stop_at is not None and accuracy >= self._stop_at
        return reached or (self._patience is not None and self.waited >= self._patience)


def check_rules(rules: Sequence[str], sets: Collection[str]) -> None:
    """Refuse a rule that is none, or whose validation set is not among `sets`. Raises `InputError`
    on `rules`."""
    for name in rules:
        if name != "last" and name not in RULES:
            raise unknown("rules", "selection rule", name, [*RULES, "last"])
        if name != "last" and RULES[name].set not in sets:
            problem = (
                f"{name} reads a set {RULES[name].set!r} of role validation, and there is none"
            )
            raise InputError("rules", problem, ["last"])


def start_of(switches: Sequence[int], length: int) -> int:
    """The first step of a stage of `length` steps whose weights are from after the last of its
    switches; 0 where there is none.

    Weights at step s took the steps 0 to s - 1, so those at a switch's own step are from before it.
    A stage that a switch does not lie in has none.
    """
    last = max(switches, default=0)
    if 0 < last < length:
        return last + 1
    return 0


def _loss(score: Score) -> float:
    if math.isnan(score.loss):
        return math.inf
    return score.loss
