"""The claims of a study, judged by its results: the difference of two sides paired by run, and one
of four verdicts.

A claim that leaves data, shift, size or model open is judged at each that both of its sides were
planned for. All judgements of a study are one family of tests: it is fixed by the plan, so that
another table, method or rule changes no verdict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from crosswind.evaluation.compare import Difference, DifferenceSummary, Seeds, over_runs, paired
from crosswind.evaluation.metrics import METRICS
from crosswind.evaluation.multiplicity import ALPHA, effects_told, hardest_level, judged_together
from crosswind.reports.claims.verdict_words import CANNOT_TELL, HOLDS, NOT_RUN, OPPOSITE, POWER
from crosswind.reports.scores.results import LEVEL, Entry, Place, Results, ScoredRun

if TYPE_CHECKING:
    from crosswind.reports.claims.pooled_judgements import PooledJudgement
    from crosswind.studies.claims import Side


@dataclass(frozen=True)
class JudgedSide:
    """One side of a judgement. `tried` points were planned; `waiting`, `failed` runs are pending or
    running, without a score.

    `entry` holds the scores by seed, of the chosen points, on the test set `set`; it is empty where
    no run has one. With `minus` the side is a gap, this score less that one.
    """

    method: str
    model: str
    shift: str
    tried: int
    waiting: int
    failed: int
    entry: Entry
    set: str = "test"
    minus: JudgedSide | None = None

    def __str__(self) -> str:
        return f"{self.method} on {self.model}"

    def values(self, metric: str) -> dict[int | Seeds, float]:
        """The score by seed, or the gap where both scores are there."""
        scores = self.entry.values(metric)
        if self.minus is None:
            return scores
        less = self.minus.entry.values(metric)
        return {seed: value - less[seed] for seed, value in scores.items() if seed in less}

    def summary(self, metric: str) -> DifferenceSummary | None:
        """Mean and interval of the score or gap; None where no run has it."""
        values = self.values(metric)
        return over_runs(values, LEVEL) if values else None

    def words(self, shift: bool, model: bool, scored: str) -> str:
        """The side for a table; `shift`, `model`: whether the sides differ in them; `scored`: the
        set that need not be said.

        Of what a gap is less of only that in which it differs.
        """
        less = self.minus
        on_other_set = self.set != scored or (less is not None and less.set != self.set)
        phrases = [self.method]
        if shift:
            phrases.append(f"under {self.shift}")
        if on_other_set:
            phrases.append(f"on {self.set}")
        if less is not None:
            phrases.append(f"less {self._differing_words(less)}")
        words = " ".join(phrases)
        return f"{words}, {self.model}" if model else words

    def _differing_words(self, less: JudgedSide) -> str:
        """That in which what the side is less of differs from it."""
        words: list[str] = []
        if less.method != self.method:
            words.append(less.method)
        if less.shift != self.shift:
            words.append(f"under {less.shift}")
        if less.model != self.model:
            words.append(f"with {less.model}")
        if less.set != self.set:
            words.append(less.set)
        return " ".join(words)


@dataclass(frozen=True)
class Judgement:
    """A claim at one data set, shift and size. `number` counts the study's claims from 1; `place`
    has the model of the better side.

    With `margin` the claim is that the sides are equal within it. Two one-sided tests (Schuirmann
    1987) are each at half the level, so that it holds where the interval lies inside the margin.
    With `wins_back` the other side counts as better by that share of what the shift costs it,
    beside itself `unshifted`. `adjusted` is the p-value among the `family` judgements of the study,
    by its `multiplicity` (holm, fdr or none); None where there is none. `level`: that of the
    interval, which excludes 0, or lies inside or outside of the margin, exactly where the verdict
    says so.
    """

    number: int
    text: str
    place: Place
    shift: str
    metric: str
    better: JudgedSide
    than: JudgedSide
    wins_back: float | None = None
    unshifted: JudgedSide | None = None
    multiplicity: str = "holm"
    family: int = 1
    adjusted: float | None = None
    margin: float | None = None
    level: float = LEVEL

    @property
    def sides(self) -> tuple[JudgedSide, ...]:
        """All sides, the better one first, then the other; last what they are less of."""
        all_of = (self.better, self.than, self.unshifted, self.better.minus, self.than.minus)
        return tuple(side for side in all_of if side is not None)

    @property
    def waits(self) -> bool:
        """Whether a run of a side has not ended: the difference is then not looked at."""
        return any(side.waiting for side in self.sides)

    @property
    def difference(self) -> Difference | None:
        """The better side minus the other, or what it wins back, paired by seed; None where they
        share no seed."""
        if self.better.minus is not None or self.than.minus is not None:
            than_gaps = self.than.values(self.metric)
            better_gaps = self.better.values(self.metric)
            return paired(than_gaps, better_gaps, self.level)
        if self.unshifted is None or self.wins_back is None:
            return self.better.entry.difference(self.than.entry, self.metric, self.level)
        unshifted_values = self.unshifted.entry.values(self.metric)
        under = self.than.entry.values(self.metric)
        level = {
            seed: value + self.wins_back * (unshifted_values[seed] - value)
            for seed, value in under.items()
            if seed in unshifted_values
        }
        return paired(level, self.better.entry.values(self.metric), self.level)

    @property
    def tested(self) -> Difference | None:
        """The quantity that is compared with 0: the difference, or how far it is inside the
        margin."""
        difference = self.difference
        if self.margin is None or difference is None:
            return difference
        sign = 1 if difference.mean >= 0 else -1
        better_values = self.better.values(self.metric)
        than_values = self.than.values(self.metric)
        apart = {
            seed: sign * (value - than_values[seed])
            for seed, value in better_values.items()
            if seed in than_values
        }
        return paired(apart, dict.fromkeys(apart, self.margin), self.level)

    @property
    def p(self) -> float | None:
        """The p-value of this judgement alone; None where it waits or has none."""
        if self.waits or self.tested is None:
            return None
        return self.tested.p

    @property
    def told_range(self) -> tuple[float, float] | None:
        """The true differences that these seeds tell from 0 with a power of 80%, of the least and
        of the largest likely spread.

        Of a margin the least that they show of sides that are equal. By the t-test at 0.05 /
        `family`, which is enough for Holm's correction whatever the other claims show. None with
        several split seeds, or without a spread.
        """
        difference = None if self.waits else self.difference
        if difference is None or not difference.sd or difference.splits != 1:
            return None
        level = hardest_level(self.multiplicity, self.family)
        # Of a margin, each of the two one-sided tests misses half of what may be missed.
        power = POWER if self.margin is None else (1 + POWER) / 2
        return effects_told(difference.sd, difference.n, level, power)

    @property
    def bound(self) -> float:
        """The largest difference that there can be between two shares; infinite where a side is no
        score of its own."""
        is_share = METRICS[self.metric].unit == "fraction"
        sides_alone = self.better.minus is None and self.wins_back is None
        return 1.0 if is_share and sides_alone else math.inf

    @property
    def verdict(self) -> str:
        """`HOLDS` or, where it is below 0, `OPPOSITE` where the adjusted p is under 0.05; `NOT_RUN`
        until all runs have ended."""
        if self.waits:
            return NOT_RUN
        tested = self.tested
        if tested is None or self.adjusted is None or self.adjusted >= ALPHA:
            return CANNOT_TELL
        return HOLDS if tested.mean > 0 else OPPOSITE


def judge(arranged: Results, resolved: Mapping[str, Any]) -> list[Judgement | PooledJudgement]:
    """Every claim of a study at every place that it is about, or over several cases together, in the
    order of the study; `resolved` is the study with defaults."""
    claims = resolved.get("claims") or []
    if not claims:
        return []
    # Reports of studies without claims need not load what judges them.
    from crosswind.reports.claims.pooled_judgements import CellScores, judge_pooled

    side_runs = _SideRuns(arranged, resolved)
    cell_scores = CellScores(arranged, resolved)
    judgements: list[Judgement | PooledJudgement] = []
    for number, claim in enumerate(claims, 1):
        if "test" in claim:
            judgements += judge_pooled(number, claim, cell_scores, resolved)
        else:
            judgements += _ClaimJudge(number, claim, side_runs, resolved).judgements()
    return _adjusted(judgements, str(resolved.get("multiplicity", "holm")))


class _SideRuns:
    """The runs of a study by what a side of a claim is about. The runs of one side differ in point
    and seeds only, and are named by a `ScoredRun` without these."""

    def __init__(self, arranged: Results, resolved: Mapping[str, Any]) -> None:
        self._places = arranged.places
        self._points: dict[ScoredRun, set[str]] = {}
        self._states: dict[ScoredRun, Counter[str]] = {}
        for run, (status, _) in arranged.runs.items():
            runs = run._replace(point="", seed=0, split_seed=0)
            self._points.setdefault(runs, set()).add(run.point)
            self._states.setdefault(runs, Counter())[status] += 1
        self.models = list(dict.fromkeys(runs.model for runs in self._points))
        models, methods = (set(resolved.get(name) or {}) for name in ("models", "methods"))
        # Each stands under its label beside every model that is trained, with the same answers.
        self.models_asked = models - methods

    def __iter__(self) -> Iterator[ScoredRun]:
        return iter(self._points)

    def __contains__(self, runs: ScoredRun) -> bool:
        return runs in self._points

    def judged(self, runs: ScoredRun, side: Side, rule: str) -> JudgedSide:
        """A side with the scores and the states of its runs."""
        setting = Place(runs.study, runs.data, runs.size, runs.model, str(side.set), rule)
        setting_results = self._places.get(setting)
        entry = None
        if setting_results:
            entry = setting_results.entries.get((runs.shift, runs.method))
        minus = None
        if side.minus is not None:
            minus = self.judged(_runs_of_less(runs, side), side.minus, rule)
        states = self._states[runs]
        return JudgedSide(
            method=runs.method,
            model=runs.model,
            shift=runs.shift,
            tried=len(self._points[runs]),
            waiting=states["pending"] + states["running"],
            failed=states["failed"],
            entry=entry or Entry(),
            set=str(side.set),
            minus=minus,
        )


def _runs_of_less(runs: ScoredRun, side: Side) -> ScoredRun:
    """The runs that a side of a claim is less of; `runs` themselves where it is no gap."""
    less = side.minus or side
    return runs._replace(
        method=less.method, model=less.model or runs.model, shift=less.shift or runs.shift
    )


class _ClaimJudge:
    """One claim of a study and the runs that it is about."""

    def __init__(
        self,
        number: int,
        claim: Mapping[str, Any],
        side_runs: _SideRuns,
        resolved: Mapping[str, Any],
    ) -> None:
        # Reports of studies without claims need not load what checks them.
        from crosswind.studies.claims import rule_of, sides_of, unshifted

        self._number = number
        self._claim = claim
        self._side_runs = side_runs
        self._better, self._than = sides_of(claim, str(resolved["reference"]))
        self._rule = rule_of(claim, resolved["selection"])
        self._wins_back = claim.get("wins_back")
        self._unshifted = str(unshifted(resolved["shifts"])) if self._wins_back else ""

    def judgements(self) -> list[Judgement]:
        """The claim at every place that it is about."""
        return [
            self._judgement(better_runs, than_runs)
            for better_runs in self._better_runs()
            for than_runs in self._than_runs(better_runs)
            if self._can_be_compared(better_runs, than_runs)
        ]

    def _better_runs(self) -> Iterator[ScoredRun]:
        """The runs of the better side, those of a model that is only asked once."""
        better, than = self._better, self._than
        asked_on_any_model = better.model is None and better.method in self._side_runs.models_asked
        judged_runs: set[ScoredRun] = set()
        for runs in self._side_runs:
            if not self._is_about(runs):
                continue
            if asked_on_any_model:
                of_any_model = runs._replace(model="")
                if than.model is not None and runs.model != than.model:
                    continue
                if than.model is None and of_any_model in judged_runs:
                    continue
                if than.method in self._side_runs.models_asked:
                    judged_runs.add(of_any_model)
            yield runs

    def _is_about(self, runs: ScoredRun) -> bool:
        """Whether runs are of the better side, at a place that the claim is about."""
        better = self._better
        of_better = (
            runs.method == better.method
            and better.model in (None, runs.model)
            and better.shift in (None, runs.shift)
        )
        return of_better and all(
            self._claim[name] in (None, getattr(runs, name)) for name in ("data", "size")
        )

    def _than_runs(self, better_runs: ScoredRun) -> list[ScoredRun]:
        """The runs of the other side that may stand beside some of the better one."""
        than = self._than
        models = self._side_runs.models
        if than.model is not None:
            models = [than.model]
        elif self._better.model is None or than.method in self._side_runs.models_asked:
            models = [better_runs.model]
        shift = than.shift or better_runs.shift
        return [
            better_runs._replace(method=than.method, model=model, shift=shift) for model in models
        ]

    def _unshifted_runs(self, than_runs: ScoredRun) -> ScoredRun:
        """The runs that tell what the shift costs the other side; its own where none is asked."""
        return than_runs._replace(shift=self._unshifted) if self._wins_back else than_runs

    def _can_be_compared(self, better_runs: ScoredRun, than_runs: ScoredRun) -> bool:
        """Whether the sides differ, and all runs that the claim needs were planned."""
        better, than = self._better, self._than
        unshifted_runs = self._unshifted_runs(than_runs)
        if self._wins_back and unshifted_runs == than_runs:
            return False
        needed_runs = (
            than_runs,
            unshifted_runs,
            _runs_of_less(better_runs, better),
            _runs_of_less(than_runs, than),
        )
        scored_otherwise = (better.set, better.minus) != (than.set, than.minus)
        sides_differ = than_runs != better_runs or scored_otherwise
        return sides_differ and all(runs in self._side_runs for runs in needed_runs)

    def _judgement(self, better_runs: ScoredRun, than_runs: ScoredRun) -> Judgement:
        """The claim at one place, before it is judged beside the others."""
        claim = self._claim
        judged = self._side_runs.judged
        unshifted = None
        if self._wins_back:
            unshifted = judged(self._unshifted_runs(than_runs), self._than, self._rule)
        return Judgement(
            number=self._number,
            text=str(claim["text"]),
            place=Place(
                study=better_runs.study,
                data=better_runs.data,
                size=better_runs.size,
                model=better_runs.model,
                set=str(claim["set"]),
                rule=self._rule,
            ),
            shift=better_runs.shift,
            metric=str(claim["metric"]),
            better=judged(better_runs, self._better, self._rule),
            than=judged(than_runs, self._than, self._rule),
            wins_back=self._wins_back,
            unshifted=unshifted,
            margin=claim.get("margin"),
        )


def _adjusted(
    family: list[Judgement | PooledJudgement], multiplicity: str
) -> list[Judgement | PooledJudgement]:
    """The judgements with their p-values adjusted for all of them.

    One that waits or has no p-value counts as 1: the family does not grow while runs end, and what
    holds before still does after.
    """
    p_values = [judgement.p for judgement in family]
    family_of = judged_together(
        {i: 1.0 if p is None else p for i, p in enumerate(p_values)}, multiplicity
    )
    judgements: list[Judgement | PooledJudgement] = []
    for i, judgement in enumerate(family):
        adjusted = judgement.adjusted if p_values[i] is None else family_of.adjusted[i]
        judgements.append(
            replace(
                judgement,
                multiplicity=multiplicity,
                family=len(family),
                level=family_of.level,
                adjusted=adjusted,
            )
        )
    return judgements
