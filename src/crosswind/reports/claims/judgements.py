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

from crosswind.evaluation.compare import Difference, Seeds, Summary, over_runs, paired
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
from crosswind.reports.scores.results import LEVEL, Entry, Place, Results, Run
from crosswind.reports.tables import Cell, Table, picked, slug

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
        own = self.entry.values(metric)
        less = own if self.minus is None else self.minus.entry.values(metric)
        return (
            own
            if self.minus is None
            else {seed: value - less[seed] for seed, value in own.items() if seed in less}
        )

    def summary(self, metric: str) -> Summary | None:
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
        parts = [f" under {self.shift}" if shift else "", f" on {self.set}" if apart else ""]
        return self.method + "".join(parts) + less_words + (f", {self.model}" if model else "")


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
        whole, under = (side.entry.values(self.metric) for side in (self.unshifted, self.than))
        level = {
            seed: value + self.wins_back * (whole[seed] - value)
            for seed, value in under.items()
            if seed in whole
        }
        return paired(level, self.better.entry.values(self.metric), self.level)

    @property
    def tested(self) -> Difference | None:
        """What is compared with 0: the difference, or how far it is inside the margin."""
        found = self.difference
        if self.margin is None or found is None:
            return found
        sign = 1 if found.mean >= 0 else -1
        one, other = (side.values(self.metric) for side in (self.better, self.than))
        apart = {seed: sign * (value - other[seed]) for seed, value in one.items() if seed in other}
        return paired(apart, dict.fromkeys(apart, self.margin), self.level)

    @property
    def told_range(self) -> tuple[float, float] | None:
        """The true differences that these seeds tell from 0 with a power of 80%, of the least and
        of the largest likely spread.

        Of a margin the least that they show of sides that are equal. By the t-test at 0.05 /
        `family`, which is enough for Holm's correction whatever the other claims show. None with
        several split seeds, or without a spread.
        """
        found = None if self.waits else self.difference
        if found is None or not found.sd or found.splits != 1:
            return None
        level = hardest_level(self.multiplicity, self.family)
        return effects_told(
            found.sd, found.n, level, POWER if self.margin is None else (1 + POWER) / 2
        )

    @property
    def verdict(self) -> str:
        """`HOLDS` or, where it is below 0, `OPPOSITE` where the adjusted p is under 0.05; `NOT_RUN`
        until all runs have ended."""
        if self.waits:
            return NOT_RUN
        found = self.tested
        if found is None or self.adjusted is None or self.adjusted >= ALPHA:
            return CANNOT_TELL
        return HOLDS if found.mean > 0 else OPPOSITE


def judge(found: Results, resolved: Mapping[str, Any]) -> list[Judgement]:
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
    points: dict[Run, dict[str, None]] = {}
    states: dict[Run, Counter[str]] = {}
    for run, (status, _) in found.runs.items():
        where = run._replace(point="", seed=0, split_seed=0)
        points.setdefault(where, {})[run.point] = None
        states.setdefault(where, Counter())[status] += 1

    def less(where: Run, side: Side) -> Run:
        """The runs that a side of a claim is less of; `where` itself where it is no gap."""
        given = side.minus or side
        return where._replace(
            method=given.method, model=given.model or where.model, shift=given.shift or where.shift
        )

    def judged(where: Run, side: Side, rule: str) -> JudgedSide:
        at = found.places.get(
            Place(where.study, where.data, where.size, where.model, str(side.set), rule)
        )
        entry, count = at.entries.get((where.shift, where.method)) if at else None, states[where]
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
    asked = set(resolved.get("models") or {}) - set(resolved.get("methods") or {})
    out: list[Judgement] = []
    models = list(dict.fromkeys(where.model for where in points))
    for number, claim in enumerate(claims, 1):
        better, than = sides_of(claim, str(resolved["reference"]))
        rule = rule_of(claim, resolved["selection"])
        share = claim.get("wins_back")
        once: set[Run] = set()
        for where in points:
            if (
                where.method != better.method
                or better.model not in (None, where.model)
                or better.shift not in (None, where.shift)
            ):
                continue
            if any(claim[name] not in (None, getattr(where, name)) for name in ("data", "size")):
                continue
            if better.method in asked and better.model is None:
                again = (
                    where._replace(model="") in once
                    if than.model is None
                    else where.model != than.model
                )
                if again:
                    continue
                once |= {where._replace(model="")} if than.method in asked else set()
            beside = better.model is None or than.method in asked
            for model in (
                [than.model] if than.model is not None else [where.model] if beside else models
            ):
                other = where._replace(
                    method=than.method, model=model, shift=than.shift or where.shift
                )
                whole = other._replace(shift=str(unshifted(resolved["shifts"]))) if share else other
                apart = other != where or (better.set, better.minus) != (than.set, than.minus)
                needed = other, whole, less(where, better), less(other, than)
                if apart and all(run in points for run in needed) and (not share or whole != other):
                    place = Place(
                        where.study, where.data, where.size, where.model, str(claim["set"]), rule
                    )
                    sides = (judged(where, better, rule), judged(other, than, rule))
                    level = judged(whole, than, rule) if share else None
                    about = number, str(claim["text"]), place, where.shift, str(claim["metric"])
                    out.append(Judgement(*about, *sides, share, level, margin=claim.get("margin")))
    return _adjusted(out, str(resolved.get("multiplicity", "holm")))


def _adjusted(family: list[Judgement], multiplicity: str) -> list[Judgement]:
    """The judgements with their p-values adjusted for all of them.

    One that waits or has no p-value counts as 1: the family does not grow while runs end, and what
    holds before still does after.
    """
    known = [None if item.waits or item.tested is None else item.tested.p for item in family]
    family_of = judged_together(
        {i: 1.0 if p is None else p for i, p in enumerate(known)}, multiplicity
    )
    family = [
        replace(item, multiplicity=multiplicity, family=len(family), level=family_of.level)
        for item in family
    ]
    return [
        item if known[i] is None else replace(item, adjusted=family_of.adjusted[i])
        for i, item in enumerate(family)
    ]


def claim_table(study: str, found: list[Judgement]) -> Table | None:
    """A row a judgement, the claims' words below; what is the same in all rows stands in the title.
    None without claims."""
    if not found:
        return None
    abouts = [_about(item) for item in found]
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
    for item, about in zip(found, abouts, strict=True):
        difference = None if item.waits else item.difference
        adjusted = item.adjusted
        interval = (
            f"{difference.low:+.3f} to {difference.high:+.3f}"
            if difference and difference.sd
            else None
        )
        row: dict[str, Cell] = {
            # The verdict first: on a phone the rest is reached by scrolling.
            "claim": item.number,
            "verdict": with_mark(item.verdict, item.better.entry, item.than.entry),
            **{name: about[name] for name in varying},
            "difference": f"{difference.mean:+.3f}" if difference else None,
            f"{percent(item.level)} interval": interval,
            _ADJUSTED.get(item.multiplicity, ("p",))[0]: (
                None if adjusted is None else _p_value(adjusted)
            ),
            _runs_named(found): difference.n if difference else 0,
        }
        rows.append(row)
    claims = [
        f"Claim {number}: {text}"
        for number, text in dict.fromkeys((item.number, item.text) for item in found)
    ]
    title = f"Claims ({', '.join(filter(None, (study, *shared)))})"
    return Table.of(f"claims-{slug(study)}", title, rows, (*claims, *_notes(found)))


def _p_value(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "<0.001"


def claim_number_table(study: str, found: list[Judgement]) -> Table | None:
    """Every number of the judgements in one tidy table; None without claims."""
    rows = []
    for item in found:
        difference, sides = item.difference, (("better", item.better), ("than", item.than))
        row: dict[str, Any] = {
            "study": study,
            "claim": item.number,
            "text": item.text,
            "data": item.place.data,
            "shift": item.shift,
        }
        row |= {
            "size": item.place.size,
            "set": item.place.set,
            "metric": item.metric,
            "rule": item.place.rule,
        }
        for name, side in sides:
            row |= {name: side.method, f"{name}_model": side.model}
        for name, side in sides:
            row |= picked(side.summary(item.metric), **{f"{name}_mean": "mean"})
        row |= picked(
            difference, diff="mean", diff_low="low", diff_high="high", n="n", missing="missing"
        )
        row |= {f"{name}_points": side.tried for name, side in sides} | {"verdict": item.verdict}
        row |= {f"{name}_doubted": side.entry.doubted for name, side in sides} | picked(
            item.tested, p="p"
        )
        row |= {
            "p_adjusted": item.adjusted,
            "multiplicity": item.multiplicity,
            "family": item.family,
        }
        row |= picked(difference, splits="splits") | {
            "than_chance": at_chance(item.than.entry, item.metric)
        }
        about = _about(item)
        row |= {
            "better_side": about["better"],
            "than_side": about["than"],
            "margin": item.margin,
            "level": item.level,
        }
        rows.append(
            row | dict(zip(("told_low", "told_high"), item.told_range or (None, None), strict=True))
        )
    return (
        Table.of(f"claims-{slug(study)}", "Every number of the claims", rows, keys=2)
        if rows
        else None
    )


def _about(item: Judgement) -> dict[str, str | None]:
    place = item.place
    one = item.better.model == item.than.model
    apart = item.better.shift != item.than.shift
    better, than = (side.words(apart, not one, place.set) for side in item.sides[:2])
    if item.margin is not None:
        than += f" ± {item.margin:g}"
    if item.wins_back is not None:
        than += f" + {item.wins_back:g} of its cost"
    return {
        "data": place.data,
        "shift": None if apart else item.shift,
        "size": place.size,
        "model": item.better.model if one else None,
        "better": better,
        "than": than,
        "set": place.set,
        "score": METRICS[item.metric].words,
        "selection": place.rule,
    }


def _notes(found: list[Judgement]) -> list[str]:
    runs, multiplicity, family = _runs_named(found), found[0].multiplicity, found[0].family
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
            f" the level that this correction comes to, {percent(found[0].level)}: it excludes 0,"
            " or keeps to one side of a margin, where p is below 0.05."
        )
    elif family > 1:
        chance = f"{family * (1 - LEVEL) / 2:.2g} of {family}"
        notes.append(
            f"Each is judged for itself: where nothing differs, about {chance} would hold by"
            " chance."
        )
    if any(item.margin is not None for item in found):
        notes.append(
            f'Where the other side has a margin (±), "{HOLDS}": the sides differ by less, by two'
            " one-sided tests (Schuirmann 1987), each at half the level, so that the interval lies"
            f' inside; "{OPPOSITE}": they differ by more.'
        )
    if blind := [item for item in found if item.verdict == CANNOT_TELL and item.told_range]:
        could = "; ".join(f"claim {item.number} {_told_words(item)}" for item in blind)
        level = "0.05" if blind[0].multiplicity == "none" else f"0.05 / {family}"
        likely = "each from the least to the largest spread that these seeds make likely (95%)"
        notes.append(f"Power of {POWER:.0%} at p < {level} is had for: {could}; {likely}.")
    for item in found:
        if (
            not item.waits
            and item.than.minus is None
            and (guess := chance_words(item.than.entry, item.metric))
        ):
            notes.append(f"Claim {item.number} under {item.shift}: {item.than} is {guess}.")
    notes += dict.fromkeys(
        line
        for item in found
        if item.metric == "rho"
        for side in item.sides
        for line in rho_words(side.entry)
    )
    by_other = [
        str(item.number)
        for item in found
        if item.metric == "worst_group" and not item.place.rule.endswith("worst-group")
    ]
    if by_other:
        notes.append(
            f"Claim {', '.join(dict.fromkeys(by_other))}: of the worst group, while step and point"
            " are chosen by another score; a rule as best-id-worst-group chooses by it."
        )
    notes += dict.fromkeys(line for item in found for line in oracle_notes(item.place))
    uneven = dict.fromkeys(
        f"{item.better} {item.better.tried}, {item.than} {item.than.tried} (claim {item.number})"
        for item in found
        if item.better.tried != item.than.tried
    )
    if uneven:
        notes.append(
            f"WARNING: the sides did not try equally many points: {'; '.join(uneven)}. The best of"
            " more is higher by chance alone."
        )
    if waiting := sum(item.waits for item in found):
        notes.append(
            f"{NOT_RUN}: {waiting} of {len(found)} wait for runs of a side; no difference is shown"
            " before all have ended."
        )
    for item in found:
        for side in item.sides:
            for text, seeds in side.entry.doubts.items():
                of = f"{len(seeds)} of {len(side.entry.metrics)} runs"
                notes.append(
                    f"{MARK} Claim {item.number} under {item.shift}: {side}, {of}: {text}."
                )
    for item in (item for item in found if not item.waits):
        missing = item.difference.missing if item.difference is not None else 0
        lost = ", ".join(f"{side} {side.failed}" for side in item.sides if side.failed)
        words = [f"failed runs: {lost}"] if lost else []
        words += [f"{runs} without a partner, left out: {missing}"] if missing else []
        partial = [
            f"{side} (seed {', '.join(map(str, side.entry.partial))})"
            for side in item.sides
            if side.entry.partial
        ]
        lines = [
            *(["; ".join(words)] if words else []),
            *([_FEWER + "; ".join(partial)] if partial else []),
        ]
        notes += [f"Claim {item.number} under {item.shift}: {line}." for line in lines]
    return notes


def _told_words(item: Judgement) -> str:
    under = f"under {item.shift} " if item.better.shift == item.than.shift else ""
    sizes = " to ".join(f"{size:.3f}" for size in item.told_range or ())
    return (
        f"{under}a margin of {sizes}, if the sides are equal" if item.margin else f"{under}{sizes}"
    )


def _runs_named(found: list[Judgement]) -> str:
    """What the runs of a side are called: seeds, or pairs with split seeds."""
    keys = (key for item in found for side in item.sides for key in side.entry.metrics)
    return "runs" if any(isinstance(key, Seeds) for key in keys) else "seeds"
