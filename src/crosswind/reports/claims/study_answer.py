"""The first lines of a report: what was asked, in plain words, and the answer in a sentence or two,
with intervals in percentage points. They also say how sure it is, and what to do next.

They say what the findings below them say, no more: a cost or a gain is named only where it is told.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from crosswind.core.errors import InputError, plain
from crosswind.evaluation.compare import Difference
from crosswind.evaluation.metrics import HEADLINE
from crosswind.evaluation.multiplicity import ADJUST, percent
from crosswind.evaluation.pooled_tests import MEAN
from crosswind.reports.claims.judgements import Judgement
from crosswind.reports.claims.pooled_judgements import PooledJudgement
from crosswind.reports.claims.questions import idle_reason, power_words, unshifted_entry
from crosswind.reports.claims.shift_words import is_combination, joined, shift_clause
from crosswind.reports.claims.verdict_words import CANNOT_TELL, HOLDS, NOT_RUN, OPPOSITE
from crosswind.reports.claims.verdicts import COST, EFFECT, EFFECT_OF, Finding, end_in_points
from crosswind.reports.scores.notes import MARK, at_chance, is_above_chance_on_rows
from crosswind.reports.scores.results import Place, PlaceResults
from crosswind.studies.pooled_claims import listed, side_of
from crosswind.training.selection import ORACLES

CLAUSES = 4
"""Shifts that the question puts into words; of more it names as many and counts the others."""
SEEDS_AT_LEAST = 5
"""Seeds that are asked for where there is no spread to reckon with."""
SEEDS_OF_SPREAD = 10
"""Seeds that tell how far runs spread to within a factor of two: of fewer, the upper end of how many
more are wanted is hundreds."""
MOST_SEEDS = 50
"""Seeds beyond which a study is rather changed than repeated."""
LISTING = "crosswind list methods"
"""The command that names the methods which could be tried."""
WORST = "worst_group"
_SETTING_WORDS = {
    "data": ("on", "data set"),
    "size": ("at", "size"),
    "model": ("with", "model"),
    "set": ("on", "test set"),
}
"""The fields in which settings of a study may differ, with a preposition and a noun."""
_CLAIM_VERBS = {
    HOLDS: ("holds", "hold"),
    OPPOSITE: ("is the other way round", "are the other way round"),
    CANNOT_TELL: ("cannot be told", "cannot be told"),
    NOT_RUN: ("is not run yet", "are not run yet"),
}
"""The verdict on one claim and on several, as the end of a sentence."""


@dataclass(frozen=True)
class StudyAnswer:
    """The question of a study and its answer, for a reader who has no time.

    `question` and `next_step` are a sentence each; `command` is what to type for the next step, or
    empty; `sentences` are the answer, `certainty` says how sure it is. `place` is the setting that
    the answer is about, the one with the largest difference that is told.
    """

    question: str
    sentences: Sequence[str]
    certainty: str
    next_step: str
    command: str
    place: Place

    def __post_init__(self) -> None:
        # Names come from a store, which may hold anything; sentences go to terminals.
        words = {
            name: plain(getattr(self, name))
            for name in ("question", "certainty", "next_step", "command")
        }
        vars(self).update(words, sentences=list(map(plain, self.sentences)))

    @property
    def lines(self) -> list[str]:
        """The answer as sentences, in the order of reading."""
        following = self.next_step
        if self.command:
            following = f"{following.removesuffix('.')}: {self.command}"
        return [*self.sentences, self.certainty, f"Next: {following}"]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "question": self.question,
            "sentences": list(self.sentences),
            "certainty": self.certainty,
            "next_step": self.next_step,
            "command": self.command,
            "setting": self.place._asdict(),
        }


def answer_of(
    rule_results: Sequence[PlaceResults],
    findings: Sequence[Finding],
    resolved: Mapping[str, Any],
    runs: Sequence[Mapping[str, Any]],
    written: Mapping[str, Any],
    verdicts: Sequence[str] = (),
    claimed: Sequence[Judgement | PooledJudgement] = (),
) -> StudyAnswer:
    """The answer of a study from its findings, of which there is one at least.

    `rule_results`: the places of one selection rule, `resolved`: the study with every default,
    `runs`: each with its `status` and `labels`, `written`: the study as its file and scale have it,
    `verdicts`: on its claims. `claimed`: these claims, of which those that hold and are of a cost are
    named where no comparison tells one.
    """
    idle = {at_place.place: _idle_at(at_place, resolved) for at_place in rule_results}
    with_methods = {finding.place for finding in findings if finding.kind == EFFECT_OF}

    def answers(place: Place) -> tuple[bool, bool]:
        """How much of the question a setting answers: of one that only guesses nothing is told, and
        of one without methods not what helps."""
        return not idle[place], place in with_methods

    told = [finding for finding in findings if finding.told]
    # Where none is told apart from chance, the largest says nothing of its setting: the first one of
    # the study that answers most stands for it.
    first = max(dict.fromkeys(finding.place for finding in findings), key=answers)
    at_first = [finding for finding in findings if finding.place == first]
    main = max(told or at_first, key=lambda finding: (answers(finding.place), _size(finding)))
    here = next(places for places in rule_results if places.place == main.place)
    study = _AskedStudy(here, findings, resolved, runs, written, claimed, idle)
    next_step, command = study.next_step()
    return StudyAnswer(
        study.question(),
        study.sentences(),
        f"{study.certainty()}{_failed_words(runs)}{_claim_words(verdicts)}",
        next_step,
        command,
        here.place,
    )


def _idle_at(at_place: PlaceResults, resolved: Mapping[str, Any]) -> str:
    """Why nothing can be told at a setting; empty where it can."""
    unshifted = unshifted_entry(at_place, resolved)
    return "" if unshifted is None else idle_reason(at_place, unshifted)


def _size(finding: Finding) -> tuple[bool, float]:
    """How much a difference says: costs before gains, the larger before the smaller."""
    return finding.kind == COST, abs(finding.difference.mean)


class _AskedStudy:
    """A study at the place that its answer is about."""

    def __init__(
        self,
        at_place: PlaceResults,
        findings: Sequence[Finding],
        resolved: Mapping[str, Any],
        runs: Sequence[Mapping[str, Any]],
        written: Mapping[str, Any],
        claimed: Sequence[Judgement | PooledJudgement],
        idle: Mapping[Place, str],
    ) -> None:
        self.at_place = at_place
        self.all_findings = findings
        self.findings = [finding for finding in findings if finding.place == at_place.place]
        self.resolved = resolved
        self.runs = runs
        self.written = written
        self.settings = list(dict.fromkeys(finding.place for finding in findings))
        self.costs = self._of(COST, HEADLINE.name)
        self.worst_costs = {finding.shift: finding for finding in self._of(COST, WORST)}
        self.effects = self._of(EFFECT_OF, HEADLINE.name)
        self.worst_effects = self._of(EFFECT_OF, WORST)
        self.claimed_costs = _claimed_costs(claimed, at_place, _unshifted_shifts(resolved))
        self.idle = idle[at_place.place]
        self.all_idle = all(idle[place] for place in self.settings)

    def _of(self, kind: str, metric: str) -> list[Finding]:
        """The comparisons of a kind on a score at the place, the largest loss first."""
        chosen = [
            finding
            for finding in self.findings
            if finding.kind == kind and finding.metric == metric
        ]
        return sorted(chosen, key=lambda finding: finding.difference.mean)

    # -- what was asked --------------------------------------------------------------------------

    def question(self) -> str:
        """The question of the study, in plain words."""
        plain_training = _called(self.at_place.reference)
        shifts = self._asked_shifts()
        methods = list(dict.fromkeys(finding.method for finding in self.effects))
        when = self._when(shifts)
        if self.costs:
            more = ", and does any method win it back" if methods else ""
            return f"How much accuracy does {plain_training} lose{when}{more}?"
        if len(methods) == 1:
            return f"Does {methods[0]} do better than {plain_training}{when}?"
        return f"Does any of {len(methods)} methods do better than {plain_training}{when}?"

    def _asked_shifts(self) -> list[str]:
        """The shifts that the comparisons are about, in the order of the study."""
        declared = self.resolved.get("shifts", {})
        return [shift for shift in self.at_place.shifts if declared.get(shift, True) != []]

    def _when(self, shifts: Sequence[str]) -> str:
        """The effect of the shifts on training, as the end of a question."""
        if not shifts:
            return ""
        data = self.at_place.place.data
        clauses = [(shift, shift_clause(shift, self.resolved, data)) for shift in shifts]
        if len(shifts) > CLAUSES or not any(clause for _, clause in clauses):
            named = ", ".join(shifts[:CLAUSES])
            rest = f" and {len(shifts) - CLAUSES} more" if len(shifts) > CLAUSES else ""
            return f" when training rows are drawn unlike test rows ({named}{rest})"
        alone = [pair for pair in clauses if not is_combination(pair[0], self.resolved)]
        if not alone and len(clauses) == 1:
            return f" when, in training, {self._together(shifts[0])}"
        words = [f"{clause} ({shift})" if clause else shift for shift, clause in alone or clauses]
        if alone and len(alone) < len(clauses):
            words.append("several of these come together")
        return f" when, in training, {joined(words, 'or')}"

    def _together(self, shift: str) -> str:
        """The parts of a combination in words, where the study has no shift of one part alone."""
        data = self.at_place.place.data
        words: list[str] = []
        for part in self.resolved["shifts"][shift]:
            clause = shift_clause(part, self.resolved, data)
            words.append(f"{clause} ({part})" if clause else str(part))
        return f"{joined(words, 'and')}, all at once ({shift})"

    # -- the answer ------------------------------------------------------------------------------

    def sentences(self) -> list[str]:
        """The harms and the remedies, a sentence each."""
        where, number = "", len(self.settings)
        if number > 1:
            _, noun = self._setting_words()
            name = self._where(self.at_place.place)
            where = f"{name} (one of {number} {noun}s, all stand below): "
        if self.idle:
            every = ""
            if number > 1 and self.all_idle:
                where, every = f"{name}: ", f" for any of {number} {noun}s"
            idle_sentences = [f"No answer yet{every}: {where}{self.idle}"]
            worst = self._worst_loss()
            if worst is not None and -worst.difference.mean >= EFFECT:
                # What is tied or rare moves it all the same, and the picture shows that.
                idle_sentences.append(
                    f"Even so {worst.shift} takes {points_with_interval(worst)} off its worst group."
                )
            return idle_sentences
        answers = (self._what_hurts(), self._what_helps(), self._guess_words())
        answer_sentences = [sentence for sentence in answers if sentence]
        if not answer_sentences:
            return []
        first, *further = answer_sentences
        return [f"{where}{first}", *further, *self._elsewhere()]

    def _where(self, place: Place) -> str:
        """The words that tell a place from the others of a study."""
        setting = place._asdict()
        return ", ".join(str(setting[name]) for name in self._varying())

    def _varying(self) -> list[str]:
        """The fields of a place in which the settings of the study differ."""
        return [
            name
            for name in _SETTING_WORDS
            if len({getattr(place, name) for place in self.settings}) > 1
        ]

    def _setting_words(self) -> tuple[str, str]:
        """The preposition and the noun for a setting of the study: with a model, on a data set."""
        varying = self._varying()
        return _SETTING_WORDS[varying[0]] if len(varying) == 1 else ("in", "setting")

    def _guess_words(self) -> str:
        """The shifts under which the reference only guesses, as a sentence, where no run without a
        shift says whether it learns the task; empty elsewhere."""
        guessed = self._guessed_shifts()
        if not guessed or unshifted_entry(self.at_place, self.resolved) is not None:
            return ""
        return (
            f"{self.at_place.reference} is no better than guessing under {joined(guessed)}, and no run"
            " without a shift says whether it learns the task at all."
        )

    def _guessed_shifts(self) -> list[str]:
        """The shifts under which the reference is no better than guessing."""
        entries = self.at_place.entries
        return [
            shift
            for shift in self.at_place.shifts
            if (entry := entries.get((shift, self.at_place.reference))) is not None
            and at_chance(entry, HEADLINE.name)
            and not is_above_chance_on_rows(entry)
        ]

    def _elsewhere(self) -> list[str]:
        """The costs in the other settings of a study, as a sentence; none where it has one setting
        or asks for no cost."""
        costs = [
            finding
            for finding in self.all_findings
            if (finding.kind, finding.metric) == (COST, HEADLINE.name)
            and finding.place != self.at_place.place
        ]
        if not costs:
            return []
        losses = sorted(filter(_is_told_loss, costs), key=lambda finding: finding.difference.mean)
        number = len({finding.place for finding in costs})
        preposition, noun = self._setting_words()
        alone = f"{preposition.capitalize()} the other {noun}, {self._where(costs[0].place)},"
        if not losses:
            where = alone
            if number > 1:
                where = f"{preposition.capitalize()} the {number} other {noun}s"
            return [f"{where} no shift is shown to cost accuracy."]
        most = losses[0]
        cost = f"{most.shift} costs {points_with_interval(most)} of accuracy"
        if number == 1:
            return [f"{alone} {cost}."]
        lossy = len({finding.place for finding in losses})
        return [
            f"{preposition.capitalize()} {lossy} of {number} other {noun}s a shift costs accuracy;"
            f" {preposition} {self._where(most.place)}, the most in these runs, {cost}."
        ]

    def _what_hurts(self) -> str:
        """The shift that costs most, how many cost anything; or that none is told to."""
        if not self.costs:
            return ""
        told = [finding for finding in self.costs if _is_told_loss(finding)]
        if told:
            most = told[0]
            counted = _counted_costs(len(told), len(self.costs)) if len(self.costs) > 1 else ""
            largest = ", the largest cost in these runs," if len(told) > 1 else ""
            return (
                f"{counted}{most.shift}{largest} takes {points_with_interval(most)} off the"
                f" {most.base:.1%} of test rows that {_called(most.method)} is right on"
                f"{self._worst_words(most.shift)}."
            )
        worst = self._worst_loss()
        if self._are_single_runs():
            first = self.costs[0]
            gain = "neither a cost nor a gain" if self.effects else "no cost"
            lost = ""
            if first.difference.mean < 0:
                points = points_with_interval(first)
                lost = f"; the largest loss is {points}, under {first.shift}"
            return f"Each number is of a single run, which tells {gain} from chance{lost}."
        widest = max(self.costs, key=lambda finding: finding.difference.sd or 0.0)
        power = power_words(widest)
        would = f" ({power})" if power else ""
        subject = "No shift is" if len(self.costs) > 1 else f"{self.costs[0].shift} is not"
        if worst is None:
            return f"{subject} shown to cost accuracy{would}{self._claimed_words()}."
        return (
            f"{subject} shown to cost accuracy over all rows{would}{self._claimed_words()}, but"
            f" {worst.shift} costs {points_with_interval(worst)} in the worst group."
        )

    def _are_single_runs(self) -> bool:
        """Whether every comparison is of one run with another."""
        return all(finding.difference.n == 1 for finding in self.findings)

    def _claimed_words(self) -> str:
        """The costs that claims hold, as the inside of a sentence; empty without any."""
        if not self.claimed_costs:
            return ""
        costs = joined([f"{shift} {points}" for shift, points in self.claimed_costs.items()], "and")
        number = len(self.all_findings)
        return (
            f" by all {number} comparisons together; by the study's claims, judged apart: {costs}"
        )

    def _worst_loss(self) -> Finding | None:
        """The largest cost for the worst group that is told; None where none is."""
        return min(
            filter(_is_told_loss, self.worst_costs.values()),
            key=lambda finding: finding.difference.mean,
            default=None,
        )

    def _worst_words(self, shift: str) -> str:
        """The cost of a shift for the worst group, as the end of a sentence; empty where it is not
        told."""
        cost = self.worst_costs.get(shift)
        if cost is None or not _is_told_loss(cost):
            return ""
        return f", and {points_with_interval(cost)} off its worst group"

    def _what_helps(self) -> str:
        """The methods that win most back under the shift that costs most, or that none does."""
        if not self.effects:
            return ""
        tried = len({finding.method for finding in self.effects})
        wins = self._wins(self.effects)
        if not wins and self._are_single_runs():
            alone = "Each number is of a single run, which tells no gain from chance."
            return "" if self.costs else alone
        if not wins:
            return self._no_gain(tried)
        shift = self._main_shift(wins)
        of_shift = [finding for finding in wins if finding.shift == shift]
        tried_here = sum(finding.shift == shift for finding in self.effects)
        lost = any(finding.shift == shift and _is_told_loss(finding) for finding in self.costs)
        does = _does(len(of_shift), lost)
        under = f" under {shift}" if shift else ""
        best = of_shift[0]
        if tried_here == 1:
            return f"{best.method} {does}{under}: {self._gain(best)}."
        count = (
            f"All {tried_here}"
            if len(of_shift) == tried_here
            else f"{len(of_shift)} of {tried_here}"
        )
        largest = "with the largest gain in these runs, " if len(of_shift) > 1 else ""
        return f"{count} methods {does}{under}; {best.method}, {largest}{self._gain(best)}."

    def _gain(self, best: Finding) -> str:
        """The gain of a method, in the worst group too where that is told."""
        worst = next(
            (
                finding
                for finding in self._wins(self.worst_effects)
                if (finding.shift, finding.method) == (best.shift, best.method)
            ),
            None,
        )
        beside = "" if worst is None else f", and {points_with_interval(worst)} in the worst group"
        return f"{points_with_interval(best)}{beside}"

    def _wins(self, effects: Sequence[Finding]) -> list[Finding]:
        """The gains that are told, the largest first."""
        wins = [finding for finding in effects if finding.told and finding.difference.mean > 0]
        return sorted(wins, key=lambda finding: -finding.difference.mean)

    def _main_shift(self, wins: Sequence[Finding]) -> str:
        """The shift that costs most of those under which some method wins."""
        winning = {finding.shift for finding in wins}
        for finding in self.costs:
            if finding.shift in winning:
                return finding.shift
        return wins[0].shift

    def _no_gain(self, tried: int) -> str:
        """That no method is told to win accuracy; a gain of the worst group is named."""
        wins = self._wins(self.worst_effects)
        none = f"None of {tried} methods is" if tried > 1 else f"{self.effects[0].method} is not"
        if wins:
            best = wins[0]
            return (
                f"{none} shown to win accuracy over all rows, but under {best.shift}"
                f" {_gain_words(best)} in the worst group."
            )
        does = "win any of it back" if any(map(_is_told_loss, self.costs)) else "do better"
        return f"{none} shown to {does}{self._harm()}."

    def _harm(self) -> str:
        """How many methods are told to lose, as the end of a sentence; empty where none is."""
        lost = [finding for finding in self.effects if _is_told_loss(finding)]
        if not lost:
            return ""
        worst, number = lost[0], len({finding.method for finding in lost})
        more = f", {number} methods do worse," if number > 1 else ""
        return (
            f";{more.removeprefix(',')} {worst.method} loses {points_with_interval(worst)} under"
            f" {worst.shift}"
        )

    # -- how sure, and what next -----------------------------------------------------------------

    def certainty(self) -> str:
        """How many runs stand behind it, and what the brackets are."""
        first = self.all_findings[0]
        seeds = _seed_words([finding.difference.n for finding in self.findings])
        told = sum(finding.told for finding in self.all_findings)
        corrected = first.multiplicity in ADJUST
        by = f" after {ADJUST[first.multiplicity][0]}'s correction" if corrected else ""
        oracle = ""
        if self.at_place.place.rule in ORACLES:
            oracle = (
                " Steps were chosen on labelled rows like those of the test (ORACLE), which nobody"
                " has in practice."
            )
        brackets = "; of single runs there is no interval"
        if any(finding.guesses for finding in self.all_findings):
            brackets = "; where neither side is told from guessing there is no interval"
        elif any(finding.difference.n > 1 for finding in self.all_findings):
            brackets = "; where every seed gives the same difference there is no interval"
        if any(finding.interval is not None for finding in self.all_findings):
            brackets = f"; brackets hold {percent(first.level)} intervals"
        return (
            f"How sure: {seeds} behind each number; {told} of {len(self.all_findings)} comparisons"
            f" are told apart from chance (p < 0.05{by}){brackets}.{oracle}"
        )

    def next_step(self) -> tuple[str, str]:
        """The next step, and the command for it; the command is empty where there is none."""
        waiting = sum(run["status"] not in ("finished", "diverged", "failed") for run in self.runs)
        if waiting:
            return f"{waiting:,} of {len(self.runs):,} runs are not done; finish them.", self._run()
        if self.idle:
            return "have the network learn the task without any shift, as said above.", ""
        wins = [*self._wins(self.effects), *self._wins(self.worst_effects)]
        if wins:
            method = self._best(wins)
            return (
                f"train with {method}{self._changed_words(method)}{self._loss_words(method)}; see first"
                " what it needs and what it costs.",
                f"crosswind show method {self._registered(method)}",
            )
        if self._guess_words() and len(self._guessed_shifts()) == len(self.at_place.shifts):
            return (
                "add a shift that is [] to the study: its runs say whether"
                f" {self.at_place.reference} learns the task.",
                "",
            )
        return self._step_without_gain()

    def _step_without_gain(self) -> tuple[str, str]:
        """The next step where nothing is told to win."""
        undecided = [finding for finding in self.findings if not finding.told]
        if undecided and all(finding.guesses for finding in undecided):
            return self._beyond_guessing(undecided)
        if undecided and not all(finding.about_equal for finding in undecided):
            return self._more_seeds(undecided)
        if self.costs and not self.effects and any(map(_is_told_loss, self.costs)):
            return "try methods against it.", LISTING
        return "nothing here is left open.", ""

    def _beyond_guessing(self, guesses: Sequence[Finding]) -> tuple[str, str]:
        """The next step where all that is left open are differences of two guesses."""
        shifts = joined(list(dict.fromkeys(finding.shift for finding in guesses)))
        return f"nothing tried under {shifts} is told from guessing; try other methods.", LISTING

    def _best(self, wins: Sequence[Finding]) -> str:
        """The method with the largest gain under the shift that the answer names."""
        shift = self._main_shift(wins)
        return next(finding.method for finding in wins if finding.shift == shift)

    def _loss_words(self, method: str) -> str:
        """The largest loss of a method under another shift, as the inside of a sentence; empty where
        none is told."""
        losses = [
            finding
            for finding in self.effects
            if finding.method == method and _is_told_loss(finding)
        ]
        if not losses:
            return ""
        return f", which loses {points_with_interval(losses[0])} under {losses[0].shift}"

    def _changed_words(self, method: str) -> str:
        """The listed method and the settings that a name of the study's own stands for, in brackets;
        empty where the method is called by its listed name."""
        if self._registered(method) == method:
            return ""
        settings = self.resolved["methods"][method]
        words = [
            f"{name} {value}"
            for name, value in settings.items()
            if name not in ("method", "shifts", "models") and value is not None
        ]
        with_settings = f" with {', '.join(words)}" if words else ""
        return f" ({self._registered(method)}{with_settings})"

    def _registered(self, method: str) -> str:
        """The name under which the method of a label is listed."""
        methods = self.resolved.get("methods")
        settings = methods.get(method) if isinstance(methods, Mapping) else {}
        return str(settings.get("method", method)) if isinstance(settings, Mapping) else method

    def _more_seeds(self, undecided: Sequence[Finding]) -> tuple[str, str]:
        """How many seeds, or split seeds where a study repeats by them, would tell `EFFECT`."""
        compared = _decisive(undecided)
        repeated = any(finding.difference.splits > 1 for finding in compared)
        name = "split seeds" if repeated else "seeds"
        needed = [finding.repeats if repeated else finding.seeds for finding in compared]
        ranges = list(filter(None, needed))
        ends = sorted(most for _, most in ranges if most is not None)
        size = f"{EFFECT * 100:.0f} points"
        runs = max(finding.difference.n for finding in compared)
        if ranges and not ends:
            return f"more {name} would not tell {size}: the spread between them is too wide.", ""
        if not ends:
            return self._more_runs(compared, runs)
        # The larger end of half of the comparisons: that of all may be one that nobody can pay.
        number = ends[len(ends) // 2]
        half = " in half of the comparisons that are left open" if len(ends) > 1 else ""
        if number <= runs:
            # They were enough, and told nothing: what is there is smaller.
            return f"{size} would have been told{half}; what is left open is likely smaller.", ""
        if number <= MOST_SEEDS:
            return f"to tell {size}{half}, run {number:,} {name}.", self._run(number, repeated)
        return self._seeds_beyond_reach(number, runs, f"{size}{half}", repeated)

    def _seeds_beyond_reach(
        self, number: int, runs: int, aim: str, repeated: bool
    ) -> tuple[str, str]:
        """The next step where more seeds would tell `EFFECT` than anybody runs. `aim`: what they
        would tell, in words; `repeated`: by split seeds."""
        name = "split seeds" if repeated else "seeds"
        if runs < SEEDS_OF_SPREAD:
            return (
                f"{runs} {name} leave open how far runs spread: run {SEEDS_OF_SPREAD}, which say how"
                f" many would tell {EFFECT * 100:.0f} points.",
                self._run(SEEDS_OF_SPREAD, repeated),
            )
        reach = 100 * EFFECT * math.sqrt(number / MOST_SEEDS)
        return (
            f"runs spread too far to tell {aim}, which would take {number:,} {name};"
            f" {MOST_SEEDS} would tell {reach:.0f} points. More rows or longer training steady them.",
            "" if runs >= MOST_SEEDS else self._run(MOST_SEEDS, repeated),
        )

    def _more_runs(self, compared: Sequence[Finding], runs: int) -> tuple[str, str]:
        """The next step where no number of seeds can be reckoned: too few for a spread, no spread at
        all, or seeds crossed with split seeds."""
        if runs < SEEDS_AT_LEAST:
            return (
                f"too few seeds to tell anything from chance; run {SEEDS_AT_LEAST} at least.",
                self._run(SEEDS_AT_LEAST),
            )
        if not any(finding.difference.sd for finding in compared):
            return "every run gave the same difference: more of them would tell nothing.", ""
        splits = max(finding.difference.splits for finding in compared)
        return (
            "what these runs would have told is not reckoned where seeds are crossed with split seeds;"
            " for smaller differences run more split seeds.",
            self._run(2 * splits, True),
        )

    def _repeated(self, field: str, number: int) -> str:
        """So many seeds or split seeds, as a setting: those that were run stay among them."""
        done = self.resolved.get(field)
        if not isinstance(done, list) or done == list(range(len(done))):
            return str(number)
        if not all(isinstance(seed, int) for seed in done):  # of a store that holds anything
            return str(number)
        fresh = range(max(done) + 1, max(done) + 1 + number - len(done))
        return f"[{','.join(map(str, [*done, *fresh]))}]"

    def _run(self, seeds: int | None = None, split: bool = False) -> str:
        """The command that runs the study as it was run, again or with more seeds or split seeds;
        `STUDY` is its file."""
        # Reports of most studies need not load what reads study files.
        from crosswind.studies.reading import shipped_file_of

        shipped = shipped_file_of(self.at_place.place.study)
        words = [shipped or "STUDY"]
        repeats = ("split_seed", "split_seeds") if split else ("seeds",)
        settings = [f"{repeats[-1]}={self._repeated(repeats[-1], seeds)}"] if seeds else []
        if split and "split_seed" in self.written:  # beside which split seeds are refused
            settings.insert(0, "split_seed=null")
        if shipped or self.written.get("scales"):
            from crosswind.studies.spec import scale_of, settings_of

            with suppress(InputError):  # of a store that holds something else there
                scale = scale_of(self.written)
                words += [f"--scale {scale}"] if scale else []
                settings += settings_of(self.written, scale, repeats if seeds else ())
        words += [f"--set {shlex.quote(setting)}" for setting in settings]
        return f"crosswind run {' '.join(words)}"


# -- words -----------------------------------------------------------------------------------------


def _unshifted_shifts(resolved: Mapping[str, Any]) -> list[str]:
    """The shifts of a study that are none."""
    return [str(name) for name, parts in (resolved.get("shifts") or {}).items() if parts == []]


def _claimed_costs(
    claimed: Sequence[Judgement | PooledJudgement], at_place: PlaceResults, without: Sequence[str]
) -> dict[str, str]:
    """Shifts in words -> the accuracy in points that they cost the reference, with the interval of
    the verdict: of one at a place, of several on average; by claims that hold."""
    costs: dict[str, str] = {}
    for claim in claimed:
        if isinstance(claim, PooledJudgement):
            costs |= _mean_cost(claim, at_place, without)
            continue
        if claim.verdict != HOLDS or claim.difference is None:
            continue
        better, than = claim.better, claim.than
        is_cost = better.shift in without and than.shift not in without
        is_plain = not any((claim.margin, claim.wins_back, better.minus, than.minus))
        of_reference = better.method == than.method == at_place.reference
        is_here = claim.place._replace(rule="") == at_place.place._replace(rule="")
        if claim.metric == HEADLINE.name and is_cost and is_plain and of_reference and is_here:
            difference = claim.difference
            points = _points_at_level(difference.mean, _ends_of(difference), claim.level)
            costs[than.shift] = f"costs {points}"
    return costs


def _ends_of(difference: Difference) -> list[float]:
    return [end for end in (difference.low, difference.high) if end is not None]


def _mean_cost(
    claim: PooledJudgement, at_place: PlaceResults, without: Sequence[str]
) -> dict[str, str]:
    """The shifts of a claim over cases -> what they cost on average; empty where it does not hold,
    or is about anything else."""
    shifts = _shifts_of_cost(claim, at_place, without)
    if claim.verdict != HOLDS or not shifts:
        return {}
    verb, end = ("costs", "") if len(shifts) == 1 else ("cost", " on average")
    interval = [value + claim.by for value in claim.interval or ()]
    points = _points_at_level((claim.value or 0.0) + claim.by, interval, claim.level)
    return {joined(shifts, "and"): f"{verb} {points}{end}"}


def _shifts_of_cost(
    claim: PooledJudgement, at_place: PlaceResults, without: Sequence[str]
) -> list[str]:
    """The shifts whose mean cost in accuracy to the reference a claim over cases is about; empty
    where it is about anything else."""
    if claim.test != MEAN or claim.metric != HEADLINE.name or claim.relative:
        return []
    better, than = (side_of(claim.claim[name]) for name in ("better", "than"))
    of_reference = all(
        listed(side.get("methods")) == [at_place.reference] for side in (better, than)
    )
    is_plain = not any(side.get(name) for side in (better, than) for name in ("minus", "set"))
    free, shifts = listed(better.get("shift")), listed(than.get("shift"))
    is_cost = bool(free) and set(free) <= set(without) and not set(shifts) & set(without)
    return shifts if of_reference and is_plain and is_cost else []


def _points_at_level(size: float, interval: Sequence[float], level: float) -> str:
    """A cost in points with its interval, whose level is named: claims have one of their own."""
    ends = ", ".join(end_in_points(value, at_margin=False) for value in sorted(interval))
    return f"{100 * size:.1f} points{f' [{ends}; {percent(level)} interval]' if ends else ''}"


def _failed_words(runs: Sequence[Mapping[str, Any]]) -> str:
    """How many runs failed, and of which data, sizes, networks, methods and shifts all did, as a
    sentence; empty where none did."""
    failed = [run for run in runs if run["status"] == "failed"]
    if not failed:
        return ""
    lost: list[str] = []
    for name in ("data", "size", "model", "method", "shift"):
        ended_badly: dict[str, bool] = {}
        for run in runs:
            value = str(run.get("labels", {}).get(name) or "")
            ended_badly[value] = ended_badly.get(value, True) and run["status"] == "failed"
        lost += [value for value, all_failed in ended_badly.items() if value and all_failed]
    among = f", among them all of {joined(lost, 'and')}" if lost else ""
    return f" {len(failed):,} of {len(runs):,} runs failed and have no number{among}."


def _claim_words(verdicts: Sequence[str]) -> str:
    """How many claims have which verdict, as a sentence; empty without claims."""
    if not verdicts:
        return ""
    counts = Counter(verdicts)
    phrases = [
        f"{counts[verdict]:,} {verbs[counts[verdict] > 1]}"
        for verdict, verbs in _CLAIM_VERBS.items()
        if counts[verdict]
    ]
    number, (verdict, *more_verdicts) = len(verdicts), counts
    if more_verdicts:
        return f" Of the study's {number:,} claims, judged apart from these: {joined(phrases)}."
    subject = "The study's claim" if number == 1 else f"All {number:,} claims of the study"
    return f" {subject} {_CLAIM_VERBS[verdict][number > 1]}, judged apart from these."


def points_with_interval(finding: Finding) -> str:
    """How large a difference is, in percentage points, with the interval of its verdict: "18.0
    points [13.8, 22.3]"."""
    size = f"{abs(finding.difference.mean) * 100:.1f} points"
    sizes = sorted(abs(end) for end in finding.interval or ())
    ends = [end_in_points(size, finding.about_equal) for size in sizes]
    interval = f" [{', '.join(ends)}]" if ends else ""
    return f"{size}{interval}{f' {MARK}' if finding.doubted else ''}"


def _decisive(undecided: Sequence[Finding]) -> Sequence[Finding]:
    """Of comparisons that are left open those by which the number of seeds is chosen: no guesses, and
    accuracies where there are some."""
    learnt = [finding for finding in undecided if not finding.guesses]
    return [finding for finding in learnt if finding.metric == HEADLINE.name] or learnt


def _is_told_loss(finding: Finding) -> bool:
    return finding.told and finding.difference.mean < 0


def _gain_words(finding: Finding) -> str:
    return f"{finding.method} {points_with_interval(finding)}"


def _does(n_winning: int, lost: bool) -> str:
    """The verb phrase for methods, such as "wins some of it back"."""
    verb = "win" if lost else "do"
    third_person = {"win": "wins", "do": "does"}[verb] if n_winning == 1 else verb
    return f"{third_person} {'some of it back' if lost else 'better'}"


def _counted_costs(told: int, tried: int) -> str:
    if told == tried:
        return f"All {tried} shifts cost accuracy. "
    return f"{told} of {tried} shifts {'costs' if told == 1 else 'cost'} accuracy. "


def _called(reference: str) -> str:
    """The reference as a reader of another field would call it."""
    return f"plain training ({reference})" if reference == "erm" else reference


def _seed_words(counts: Sequence[int]) -> str:
    fewest, most = min(counts), max(counts)
    number = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return f"{number} run{'s' if most > 1 else ''}"
