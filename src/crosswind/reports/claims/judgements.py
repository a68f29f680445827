"""What a study claims, judged by its results: the difference of two sides paired by run, and one of
four verdicts.

A claim that leaves data, shift, size or model open is judged at each that both of its sides were
planned for. All judgements of a study are one family of tests: it is fixed by the plan, so that
another table, method or rule changes no verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from crosswind.evaluation.compare import Difference, DifferenceSummary, Seeds, over_runs, paired
from crosswind.evaluation.metrics import METRICS
from crosswind.evaluation.multiplicity import (
    ALPHA,
    effects_told,
    hardest_level,
    judged_together,
    percent,
)
from crosswind.reports.claims.robustness import rho_words
from crosswind.reports.scores.notes import MARK, at_chance, chance_words, oracle_notes, with_mark
from crosswind.reports.scores.results import LEVEL, Entry, Place, Results, ScoredRun
from crosswind.reports.tables import Cell, ReportTable, picked, slug

if TYPE_CHECKING:
    from crosswind.studies.claims import Side

HOLDS, OPPOSITE, CANNOT_TELL, NOT_RUN = "holds", "the opposite holds", "cannot tell", "not run yet"
POWER = 0.8
"""For which the difference is told that a claim without a verdict could have shown, see
`Judgement.told`."""
_FEWER = "chosen among fewer points than planned: "
_ADJUSTED = {
    "holm": ("p, Holm", "the chance of any false one among them at most 5% (Holm 1979)"),
    "fdr": (
        "p, FDR",
        "the expected share of false ones among them at most 5% (Benjamini and Hochberg 1995)",
    ),
}


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
        own_values = self.entry.values(metric)
        less = own_values if self.minus is None else self.minus.entry.values(metric)
        return (
            own_values
            if self.minus is None
            else {seed: value - less[seed] for seed, value in own_values.items() if seed in less}
        )

    def summary(self, metric: str) -> DifferenceSummary | None:
        """Mean and interval of the score or gap; None where no run has it."""
        values = self.values(metric)
        return over_runs(values, LEVEL) if values else None

    def words(self, shift: bool, model: bool, scored: str) -> str:
        """The side for a table; `shift`, `model`: whether the sides differ in them; `scored`: the
        set that need not be said.

        Of what a gap is less of only that in which it differs.
        """
        less, less_words, apart = self.minus, "", self.set != scored
        if less is not None:
            names = [
                less.method if less.method != self.method else "",
                f"under {less.shift}" if less.shift != self.shift else "",
            ]
            names += [
                f"with {less.model}" if less.model != self.model else "",
                less.set if less.set != self.set else "",
            ]
            less_words, apart = (
                f" less {' '.join(filter(None, names))}",
                apart or less.set != self.set,
            )
        phrases = [f" under {self.shift}" if shift else "", f" on {self.set}" if apart else ""]
        return self.method + "".join(phrases) + less_words + (f", {self.model}" if model else "")


@dataclass(frozen=True)
class Judgement:
    """A claim at one data set, shift and size. `number` counts the study's claims from 1; `place`
    has the model of the better side.

    With `margin` the claim is that the sides are equal within it: two one-sided tests (Schuirmann
    1987), each at half the level, so that it holds where the interval lies inside the margin. With
    `wins_back` the other side counts as
    better by that share of what the shift costs it, beside itself `unshifted`.
    `adjusted` is the p-value among the `family` judgements of the study, by its `multiplicity`
    (holm, fdr or none); None where there is none. `level`: that of the interval, which excludes 0,
    or lies inside or outside of the margin, exactly where the verdict says so.
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
            return paired(
                self.than.values(self.metric), self.better.values(self.metric), self.level
            )
        if self.unshifted is None or self.wins_back is None:
            return self.better.entry.difference(self.than.entry, self.metric, self.level)
        unshifted_values, under = (
            side.entry.values(self.metric) for side in (self.unshifted, self.than)
        )
        level = {
            seed: value + self.wins_back * (unshifted_values[seed] - value)
            for seed, value in under.items()
            if seed in unshifted_values
        }
        return paired(level, self.better.entry.values(self.metric), self.level)

    @property
    def tested(self) -> Difference | None:
        """What is compared with 0: the difference, or how far it is inside the margin."""
        difference = self.difference
        if self.margin is None or difference is None:
            return difference
        sign = 1 if difference.mean >= 0 else -1
        better_values, than_values = (side.values(self.metric) for side in (self.better, self.than))
        apart = {
            seed: sign * (value - than_values[seed])
            for seed, value in better_values.items()
            if seed in than_values
        }
        return paired(apart, dict.fromkeys(apart, self.margin), self.level)

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
        return effects_told(
            difference.sd, difference.n, level, POWER if self.margin is None else (1 + POWER) / 2
        )

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


def judge(arranged: Results, resolved: Mapping[str, Any]) -> list[Judgement]:
    """Every claim of a study at every place that it is about, in the order of the study; `resolved`
    is the study with defaults."""
    claims = resolved.get("claims") or []
    if not claims:
        return []
    # reports of studies without claims need not load what checks them
    from crosswind.studies.claims import (
        rule_of,
        sides_of,
        unshifted,
    )

    # Runs of one side differ in point and seeds only, which are left out of `where`.
    points: dict[ScoredRun, dict[str, None]] = {}
    states: dict[ScoredRun, Counter[str]] = {}
    for run, (status, _) in arranged.runs.items():
        where = run._replace(point="", seed=0, split_seed=0)
        points.setdefault(where, {})[run.point] = None
        states.setdefault(where, Counter())[status] += 1

    def less(where: ScoredRun, side: Side) -> ScoredRun:
        """The runs that a side of a claim is less of; `where` itself where it is no gap."""
        side_less = side.minus or side
        return where._replace(
            method=side_less.method,
            model=side_less.model or where.model,
            shift=side_less.shift or where.shift,
        )

    def judged(where: ScoredRun, side: Side, rule: str) -> JudgedSide:
        setting_results = arranged.places.get(
            Place(where.study, where.data, where.size, where.model, str(side.set), rule)
        )
        entry, count = (
            setting_results.entries.get((where.shift, where.method)) if setting_results else None,
            states[where],
        )
        minus = None if side.minus is None else judged(less(where, side), side.minus, rule)
        about = (
            where.method,
            where.model,
            where.shift,
            len(points[where]),
            count["pending"] + count["running"],
            count["failed"],
        )
        return JudgedSide(*about, entry or Entry(), str(side.set), minus)

    # A model that is only asked stands under its label beside every model that is trained, with the
    # same answers: it counts once.
    models_asked = set(resolved.get("models") or {}) - set(resolved.get("methods") or {})
    out: list[Judgement] = []
    models = list(dict.fromkeys(where.model for where in points))
    for number, claim in enumerate(claims, 1):
        better, than = sides_of(claim, str(resolved["reference"]))
        rule = rule_of(claim, resolved["selection"])
        share = claim.get("wins_back")
        once: set[ScoredRun] = set()
        for where in points:
            if (
                where.method != better.method
                or better.model not in (None, where.model)
                or better.shift not in (None, where.shift)
            ):
                continue
            if any(claim[name] not in (None, getattr(where, name)) for name in ("data", "size")):
                continue
            if better.method in models_asked and better.model is None:
                again = (
                    where._replace(model="") in once
                    if than.model is None
                    else where.model != than.model
                )
                if again:
                    continue
                once |= {where._replace(model="")} if than.method in models_asked else set()
            beside = better.model is None or than.method in models_asked
            for model in (
                [than.model] if than.model is not None else [where.model] if beside else models
            ):
                than_run = where._replace(
                    method=than.method, model=model, shift=than.shift or where.shift
                )
                unshifted_run = (
                    than_run._replace(shift=str(unshifted(resolved["shifts"])))
                    if share
                    else than_run
                )
                apart = than_run != where or (better.set, better.minus) != (than.set, than.minus)
                needed = than_run, unshifted_run, less(where, better), less(than_run, than)
                if (
                    apart
                    and all(run in points for run in needed)
                    and (not share or unshifted_run != than_run)
                ):
                    setting = Place(
                        where.study, where.data, where.size, where.model, str(claim["set"]), rule
                    )
                    sides = (judged(where, better, rule), judged(than_run, than, rule))
                    level = judged(unshifted_run, than, rule) if share else None
                    about = number, str(claim["text"]), setting, where.shift, str(claim["metric"])
                    out.append(Judgement(*about, *sides, share, level, margin=claim.get("margin")))
    return _adjusted(out, str(resolved.get("multiplicity", "holm")))


def _adjusted(family: list[Judgement], multiplicity: str) -> list[Judgement]:
    """The judgements with their p-values adjusted for all of them.

    One that waits or has no p-value counts as 1: the family does not grow while runs end, and what
    holds before still does after.
    """
    p_values = [
        None if judgement.waits or judgement.tested is None else judgement.tested.p
        for judgement in family
    ]
    family_of = judged_together(
        {i: 1.0 if p is None else p for i, p in enumerate(p_values)}, multiplicity
    )
    family = [
        replace(judgement, multiplicity=multiplicity, family=len(family), level=family_of.level)
        for judgement in family
    ]
    return [
        judgement if p_values[i] is None else replace(judgement, adjusted=family_of.adjusted[i])
        for i, judgement in enumerate(family)
    ]


def claim_table(study: str, judgements: list[Judgement]) -> ReportTable | None:
    """A row a judgement, the claims' words below; what is the same in all rows stands in the title.
    None without claims."""
    if not judgements:
        return None
    abouts = [_about(judgement) for judgement in judgements]
    varying = [
        name
        for name in abouts[0]
        if name in ("better", "than") or len({about[name] for about in abouts}) > 1
    ]
    shared = [
        f"{name} {value}" if name in ("shift", "size", "set", "selection") else value
        for name, value in abouts[0].items()
        if value and name not in varying
    ]
    rows: list[dict[str, Cell]] = []
    for judgement, about in zip(judgements, abouts, strict=True):
        difference = None if judgement.waits else judgement.difference
        adjusted = judgement.adjusted
        interval = (
            f"{difference.low:+.3f} to {difference.high:+.3f}"
            if difference and difference.sd
            else None
        )
        row: dict[str, Cell] = {
            # The verdict first: on a phone the rest is reached by scrolling.
            "claim": judgement.number,
            "verdict": with_mark(judgement.verdict, judgement.better.entry, judgement.than.entry),
            **{name: about[name] for name in varying},
            "difference": f"{difference.mean:+.3f}" if difference else None,
            f"{percent(judgement.level)} interval": interval,
            _ADJUSTED.get(judgement.multiplicity, ("p",))[0]: (
                None if adjusted is None else _p_value(adjusted)
            ),
            _runs_named(judgements): difference.n if difference else 0,
        }
        rows.append(row)
    claims = [
        f"Claim {number}: {text}"
        for number, text in dict.fromkeys(
            (judgement.number, judgement.text) for judgement in judgements
        )
    ]
    title = f"Claims ({', '.join(filter(None, (study, *shared)))})"
    return ReportTable.of(f"claims-{slug(study)}", title, rows, (*claims, *_notes(judgements)))


def _p_value(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "<0.001"


def claim_number_table(study: str, judgements: list[Judgement]) -> ReportTable | None:
    """Every number of the judgements in one tidy table; None without claims."""
    rows = []
    for judgement in judgements:
        difference, sides = (
            judgement.difference,
            (("better", judgement.better), ("than", judgement.than)),
        )
        row: dict[str, Any] = {
            "study": study,
            "claim": judgement.number,
            "text": judgement.text,
            "data": judgement.place.data,
            "shift": judgement.shift,
        }
        row |= {
            "size": judgement.place.size,
            "set": judgement.place.set,
            "metric": judgement.metric,
            "rule": judgement.place.rule,
        }
        for name, side in sides:
            row |= {name: side.method, f"{name}_model": side.model}
        for name, side in sides:
            row |= picked(side.summary(judgement.metric), **{f"{name}_mean": "mean"})
        row |= picked(
            difference, diff="mean", diff_low="low", diff_high="high", n="n", missing="missing"
        )
        row |= {f"{name}_points": side.tried for name, side in sides} | {
            "verdict": judgement.verdict
        }
        row |= {f"{name}_doubted": side.entry.doubted for name, side in sides} | picked(
            judgement.tested, p="p"
        )
        row |= {
            "p_adjusted": judgement.adjusted,
            "multiplicity": judgement.multiplicity,
            "family": judgement.family,
        }
        row |= picked(difference, splits="splits") | {
            "than_chance": at_chance(judgement.than.entry, judgement.metric)
        }
        about = _about(judgement)
        row |= {
            "better_side": about["better"],
            "than_side": about["than"],
            "margin": judgement.margin,
            "level": judgement.level,
        }
        rows.append(
            row
            | dict(
                zip(("told_low", "told_high"), judgement.told_range or (None, None), strict=True)
            )
        )
    return (
        ReportTable.of(f"claims-{slug(study)}", "Every number of the claims", rows, keys=2)
        if rows
        else None
    )


def _about(judgement: Judgement) -> dict[str, str | None]:
    setting = judgement.place
    is_one_model = judgement.better.model == judgement.than.model
    apart = judgement.better.shift != judgement.than.shift
    better, than = (
        side.words(apart, not is_one_model, setting.set) for side in judgement.sides[:2]
    )
    if judgement.margin is not None:
        than += f" ± {judgement.margin:g}"
    if judgement.wins_back is not None:
        than += f" + {judgement.wins_back:g} of its cost"
    return {
        "data": setting.data,
        "shift": None if apart else judgement.shift,
        "size": setting.size,
        "model": judgement.better.model if is_one_model else None,
        "better": better,
        "than": than,
        "set": setting.set,
        "score": METRICS[judgement.metric].words,
        "selection": setting.rule,
    }


def _notes(judgements: list[Judgement]) -> list[str]:
    runs, multiplicity, family = (
        _runs_named(judgements),
        judgements[0].multiplicity,
        judgements[0].family,
    )
    notes = [
        "The better side minus the other at the same"
        f" seed{' and split seed' if runs == 'runs' else ''}, then the mean over all. "
        f'"{HOLDS}": it is above 0, and p below 0.05; "{OPPOSITE}": below 0; "{CANNOT_TELL}": p is'
        " not, or there is none (one "
        "seed, or seeds without spread). That is no finding that the sides are equal."
    ]
    if family > 1 and multiplicity in _ADJUSTED:
        notes.append(
            f"p is two-sided and adjusted for the {family} judgements of this study together, which"
            f" keeps {_ADJUSTED[multiplicity][1]}; one that waits counts as p = 1. The interval has"
            f" the level that this correction comes to, {percent(judgements[0].level)}: it excludes"
            " 0, or keeps to one side of a margin, where p is below 0.05."
        )
    elif family > 1:
        chance = f"{family * (1 - LEVEL) / 2:.2g} of {family}"
        notes.append(
            f"Each is judged for itself: where nothing differs, about {chance} would hold by"
            " chance."
        )
    if any(judgement.margin is not None for judgement in judgements):
        notes.append(
            f'Where the other side has a margin (±), "{HOLDS}": the sides differ by less, by two'
            " one-sided tests (Schuirmann 1987), each at half the level, so that the interval lies"
            f' inside; "{OPPOSITE}": they differ by more.'
        )
    if blind := [
        judgement
        for judgement in judgements
        if judgement.verdict == CANNOT_TELL and judgement.told_range
    ]:
        could = "; ".join(
            f"claim {judgement.number} {_told_words(judgement)}" for judgement in blind
        )
        level = "0.05" if blind[0].multiplicity == "none" else f"0.05 / {family}"
        likely = "each from the least to the largest spread that these seeds make likely (95%)"
        notes.append(f"Power of {POWER:.0%} at p < {level} is had for: {could}; {likely}.")
    for judgement in judgements:
        if (
            not judgement.waits
            and judgement.than.minus is None
            and (guess := chance_words(judgement.than.entry, judgement.metric))
        ):
            notes.append(
                f"Claim {judgement.number} under {judgement.shift}: {judgement.than} is {guess}."
            )
    notes += dict.fromkeys(
        line
        for judgement in judgements
        if judgement.metric == "rho"
        for side in judgement.sides
        for line in rho_words(side.entry)
    )
    by_other = [
        str(judgement.number)
        for judgement in judgements
        if judgement.metric == "worst_group" and not judgement.place.rule.endswith("worst-group")
    ]
    if by_other:
        notes.append(
            f"Claim {', '.join(dict.fromkeys(by_other))}: of the worst group, while step and point"
            " are chosen by another score; a rule as best-id-worst-group chooses by it."
        )
    notes += dict.fromkeys(
        line for judgement in judgements for line in oracle_notes(judgement.place)
    )
    uneven = dict.fromkeys(
        f"{judgement.better} {judgement.better.tried}, {judgement.than} {judgement.than.tried}"
        f" (claim {judgement.number})"
        for judgement in judgements
        if judgement.better.tried != judgement.than.tried
    )
    if uneven:
        notes.append(
            f"WARNING: the sides did not try equally many points: {'; '.join(uneven)}. The best of"
            " more is higher by chance alone."
        )
    if waiting := sum(judgement.waits for judgement in judgements):
        notes.append(
            f"{NOT_RUN}: {waiting} of {len(judgements)} wait for runs of a side; no difference is"
            " shown before all have ended."
        )
    for judgement in judgements:
        for side in judgement.sides:
            for text, seeds in side.entry.doubts.items():
                counted_runs = f"{len(seeds)} of {len(side.entry.metrics)} runs"
                notes.append(
                    f"{MARK} Claim {judgement.number} under {judgement.shift}: {side},"
                    f" {counted_runs}: {text}."
                )
    for judgement in (judgement for judgement in judgements if not judgement.waits):
        missing = judgement.difference.missing if judgement.difference is not None else 0
        lost = ", ".join(f"{side} {side.failed}" for side in judgement.sides if side.failed)
        words = [f"failed runs: {lost}"] if lost else []
        words += [f"{runs} without a partner, left out: {missing}"] if missing else []
        partial = [
            f"{side} (seed {', '.join(map(str, side.entry.partial))})"
            for side in judgement.sides
            if side.entry.partial
        ]
        lines = [
            *(["; ".join(words)] if words else []),
            *([_FEWER + "; ".join(partial)] if partial else []),
        ]
        notes += [f"Claim {judgement.number} under {judgement.shift}: {line}." for line in lines]
    return notes


def _told_words(judgement: Judgement) -> str:
    under = f"under {judgement.shift} " if judgement.better.shift == judgement.than.shift else ""
    sizes = " to ".join(f"{size:.3f}" for size in judgement.told_range or ())
    return (
        f"{under}a margin of {sizes}, if the sides are equal"
        if judgement.margin
        else f"{under}{sizes}"
    )


def _runs_named(judgements: list[Judgement]) -> str:
    """What the runs of a side are called: seeds, or pairs with split seeds."""
    keys = (
        key for judgement in judgements for side in judgement.sides for key in side.entry.metrics
    )
    return "runs" if any(isinstance(key, Seeds) for key in keys) else "seeds"
