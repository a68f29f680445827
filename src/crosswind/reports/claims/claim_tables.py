"""The judgements of a study's claims as tables, and the notes below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from crosswind.evaluation.compare import Difference, Seeds
from crosswind.evaluation.metrics import METRICS
from crosswind.evaluation.multiplicity import percent
from crosswind.reports.claims.judgements import JudgedSide, Judgement
from crosswind.reports.claims.pooled_judgements import PooledJudgement
from crosswind.reports.claims.pooled_tables import pooled_number_table, pooled_table
from crosswind.reports.claims.robustness import rho_words
from crosswind.reports.claims.verdict_words import (
    CANNOT_TELL,
    HOLDS,
    NOT_RUN,
    OPPOSITE,
    POWER,
    range_told,
)
from crosswind.reports.scores.notes import MARK, at_chance, chance_words, oracle_notes, with_mark
from crosswind.reports.scores.results import LEVEL
from crosswind.reports.tables import Cell, ReportTable, picked, slug

_FEWER = "chosen among fewer points than planned: "
_ADJUSTED = {
    "holm": ("p, Holm", "the chance of any false one among them at most 5% (Holm 1979)"),
    "fdr": (
        "p, FDR",
        "the expected share of false ones among them at most 5% (Benjamini and Hochberg 1995)",
    ),
}


def claim_tables(
    study: str, judgements: Sequence[Judgement | PooledJudgement], on_page: bool = False
) -> list[ReportTable]:
    """The table of the claims at single places, and that of the claims over cases, as far as there
    are any."""
    of_places, pooled = _by_kind(judgements)
    tables = [claim_table(study, of_places, on_page), pooled_table(study, pooled, on_page)]
    return [table for table in tables if table is not None]


def claim_number_tables(
    study: str, judgements: Sequence[Judgement | PooledJudgement]
) -> list[ReportTable]:
    """Every number of the judgements, in a tidy table of each kind."""
    of_places, pooled = _by_kind(judgements)
    tables = [claim_number_table(study, of_places), pooled_number_table(study, pooled)]
    return [table for table in tables if table is not None]


def _by_kind(
    judgements: Sequence[Judgement | PooledJudgement],
) -> tuple[list[Judgement], list[PooledJudgement]]:
    of_places = [judgement for judgement in judgements if isinstance(judgement, Judgement)]
    pooled = [judgement for judgement in judgements if isinstance(judgement, PooledJudgement)]
    return of_places, pooled


def claim_table(
    study: str, judgements: list[Judgement], on_page: bool = False
) -> ReportTable | None:
    """A row a judgement, the claims' words below; what is the same in all rows stands in the title.
    None without claims.

    `on_page`: the words of a claim stand in its row, and differences of shares are percentage
    points with their interval.
    """
    if not judgements:
        return None
    abouts = [_about(judgement) for judgement in judgements]
    varying = [name for name in abouts[0] if _is_column(name, abouts)]
    runs_name = _runs_name(judgements)
    rows: list[dict[str, Cell]] = []
    for judgement, about in zip(judgements, abouts, strict=True):
        varying_cells = {name: about[name] for name in varying}
        rows.append(_claim_row(judgement, varying_cells, runs_name, on_page))
    texts = dict.fromkeys((judgement.number, judgement.text) for judgement in judgements)
    claims = [] if on_page else [f"Claim {number}: {text}" for number, text in texts]
    subject = [study, *_shared_words(abouts[0], varying)]
    title = f"Claims ({', '.join(filter(None, subject))})"
    return ReportTable.of(f"claims-{slug(study)}", title, rows, (*claims, *_notes(judgements)))


def _is_column(name: str, abouts: Sequence[dict[str, str | None]]) -> bool:
    """Whether what judgements are about has a column for this: the sides, and what differs."""
    return name in ("better", "than") or len({about[name] for about in abouts}) > 1


def _shared_words(about: dict[str, str | None], varying: Sequence[str]) -> list[str]:
    """The settings that all judgements share, in words for the title."""
    words: list[str] = []
    for name, text in about.items():
        if text and name not in varying:
            titled = name in ("shift", "size", "set", "selection")
            words.append(f"{name} {text}" if titled else text)
    return words


def _claim_row(
    judgement: Judgement, varying_cells: dict[str, str | None], runs_name: str, on_page: bool
) -> dict[str, Cell]:
    """The row of one judgement; `varying_cells`: what it is about that others are not."""
    difference = None if judgement.waits else judgement.difference
    p_name = _ADJUSTED.get(judgement.multiplicity, ("p",))[0]
    verdict = with_mark(judgement.verdict, judgement.better.entry, judgement.than.entry)
    tested: dict[str, Cell] = {p_name: _p_cell(judgement.adjusted)}
    tested[runs_name] = difference.n if difference else 0
    # The verdict first: on a phone the rest is reached by scrolling.
    if on_page:
        claim = f"{judgement.text} (claim {judgement.number})"
        points = _points_cell(judgement, difference)
        sides = {"claim": claim, "verdict": verdict, "difference in points": points}
        return {**sides, **tested, **varying_cells}
    return {
        "claim": judgement.number,
        "verdict": verdict,
        **varying_cells,
        "difference": f"{difference.mean:+.3f}" if difference else None,
        f"{percent(judgement.level)} interval": _interval_cell(difference),
        **tested,
    }


def _points_cell(judgement: Judgement, difference: Difference | None) -> str | None:
    """A difference of shares in points with its interval; of another score as it is, named so."""
    if difference is None:
        return None
    if METRICS[judgement.metric].unit != "fraction":
        return f"{difference.mean:+.3f} {METRICS[judgement.metric].words}"
    mean = f"{100 * difference.mean:+.1f}"
    if not difference.sd or difference.low is None or difference.high is None:
        return mean
    return f"{mean} [{100 * difference.low:+.1f}, {100 * difference.high:+.1f}]"


def _interval_cell(difference: Difference | None) -> str | None:
    if difference is None or not difference.sd:
        return None
    return f"{difference.low:+.3f} to {difference.high:+.3f}"


def _p_cell(p: float | None) -> str | None:
    if p is None:
        return None
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def claim_number_table(study: str, judgements: list[Judgement]) -> ReportTable | None:
    """Every number of the judgements in one tidy table; None without claims."""
    if not judgements:
        return None
    rows = [_number_row(study, judgement) for judgement in judgements]
    return ReportTable.of(f"claims-{slug(study)}", "Every number of the claims", rows, keys=2)


def _number_row(study: str, judgement: Judgement) -> dict[str, Any]:
    """Every number of one judgement."""
    metric = judgement.metric
    difference = judgement.difference
    better, than = judgement.better, judgement.than
    about = _about(judgement)
    told_low, told_high = judgement.told_range or (None, None)
    return {
        "study": study,
        "claim": judgement.number,
        "text": judgement.text,
        "data": judgement.place.data,
        "shift": judgement.shift,
        "size": judgement.place.size,
        "set": judgement.place.set,
        "metric": metric,
        "rule": judgement.place.rule,
        "better": better.method,
        "better_model": better.model,
        "than": than.method,
        "than_model": than.model,
        **picked(better.summary(metric), better_mean="mean"),
        **picked(than.summary(metric), than_mean="mean"),
        **picked(
            difference, diff="mean", diff_low="low", diff_high="high", n="n", missing="missing"
        ),
        "better_points": better.tried,
        "than_points": than.tried,
        "verdict": judgement.verdict,
        "better_doubted": better.entry.doubted,
        "than_doubted": than.entry.doubted,
        **picked(judgement.tested, p="p"),
        "p_adjusted": judgement.adjusted,
        "multiplicity": judgement.multiplicity,
        "family": judgement.family,
        **picked(difference, splits="splits"),
        "than_chance": at_chance(than.entry, metric),
        "better_side": about["better"],
        "than_side": about["than"],
        "margin": judgement.margin,
        "level": judgement.level,
        "told_low": told_low,
        "told_high": told_high,
    }


def _about(judgement: Judgement) -> dict[str, str | None]:
    """The settings of a judgement, by the name of a column; None for what the sides differ in."""
    setting = judgement.place
    is_one_model = judgement.better.model == judgement.than.model
    is_one_shift = judgement.better.shift == judgement.than.shift
    better, than = (
        side.words(not is_one_shift, not is_one_model, setting.set)
        for side in (judgement.better, judgement.than)
    )
    if judgement.margin is not None:
        than += f" ± {judgement.margin:g}"
    if judgement.wins_back is not None:
        than += f" with {judgement.wins_back:.0%} of {judgement.shift}'s cost won back"
    return {
        "data": setting.data,
        "shift": judgement.shift if is_one_shift else None,
        "size": setting.size,
        "model": judgement.better.model if is_one_model else None,
        "better": better,
        "than": than,
        "set": setting.set,
        "score": METRICS[judgement.metric].words,
        "selection": setting.rule,
    }


def _runs_name(judgements: list[Judgement]) -> str:
    """The word for the runs of a side: seeds, or pairs with split seeds."""
    runs = (
        run for judgement in judgements for side in judgement.sides for run in side.entry.metrics
    )
    return "runs" if any(isinstance(run, Seeds) for run in runs) else "seeds"


# -- notes -----------------------------------------------------------------------------------------


def _notes(judgements: list[Judgement]) -> list[str]:
    """The notes below the table of the claims."""
    return [
        _verdict_note(judgements),
        *_multiplicity_note(judgements[0]),
        *_margin_note(judgements),
        *_power_note(judgements),
        *_chance_notes(judgements),
        *_rho_notes(judgements),
        *_choice_note(judgements),
        *_oracle_notes(judgements),
        *_points_note(judgements),
        *_waiting_note(judgements),
        *_doubt_notes(judgements),
        *_left_out_notes(judgements),
    ]


def _verdict_note(judgements: list[Judgement]) -> str:
    """The note on the difference and on the meaning of each verdict."""
    and_split_seed = " and split seed" if _runs_name(judgements) == "runs" else ""
    return (
        f"The better side minus the other at the same seed{and_split_seed}, then the mean over all."
        f' "{HOLDS}": it is above 0, and p below 0.05; "{OPPOSITE}": below 0; "{CANNOT_TELL}": p is'
        " not, or there is none (one seed, or seeds without spread). That is no finding that the"
        " sides are equal."
    )


def _multiplicity_note(first: Judgement) -> Iterator[str]:
    """The note on how the number of judgements changes p, which is the same for all."""
    family = first.family
    if family <= 1:
        return
    if first.multiplicity in _ADJUSTED:
        _, assurance = _ADJUSTED[first.multiplicity]
        yield (
            f"p is two-sided and adjusted for the {family} judgements of this study together, which"
            f" keeps {assurance}; one that waits counts as p = 1. The interval has"
            f" the level that this correction comes to, {percent(first.level)}: it excludes"
            " 0, or keeps to one side of a margin, where p is below 0.05."
        )
    else:
        by_chance = family * (1 - LEVEL) / 2
        yield (
            f"Each is judged for itself: where nothing differs, about {by_chance:.2g} of {family}"
            " would hold by chance."
        )


def _margin_note(judgements: list[Judgement]) -> Iterator[str]:
    """The note on the verdicts about a margin."""
    if any(judgement.margin is not None for judgement in judgements):
        yield (
            f'Where the other side has a margin (±), "{HOLDS}": the sides differ by less, by two'
            " one-sided tests (Schuirmann 1987), each at half the level, so that the interval lies"
            f' inside; "{OPPOSITE}": they differ by more.'
        )


def _power_note(judgements: list[Judgement]) -> Iterator[str]:
    """The note on what claims without a verdict could have shown."""
    without_verdict = [
        judgement
        for judgement in judgements
        if judgement.verdict == CANNOT_TELL and judgement.told_range
    ]
    if not without_verdict:
        return
    could = "; ".join(
        f"claim {judgement.number}{_place_words(judgement, judgements)} {_told_words(judgement)}"
        for judgement in without_verdict
    )
    adjusted = without_verdict[0].multiplicity != "none"
    level = f"0.05 / {judgements[0].family}" if adjusted else "0.05"
    likely = "each from the least to the largest spread that these seeds make likely (95%)"
    yield f"Power of {POWER:.0%} at p < {level} is had for: {could}; {likely}."


def _told_words(judgement: Judgement) -> str:
    is_one_shift = judgement.better.shift == judgement.than.shift
    under = f"under {judgement.shift} " if is_one_shift else ""
    least, largest = judgement.told_range or (0.0, 0.0)
    sizes = range_told(least, largest, "{:.3f}".format, judgement.bound)
    if judgement.margin:
        return f"{under}a margin of {sizes}, if the sides are equal"
    return f"{under}{sizes}"


def _place_words(judgement: Judgement, judgements: Sequence[Judgement]) -> str:
    """The place of a judgement among those of its claim, after " in "; empty where it is the only
    one."""
    places = [sibling.place for sibling in judgements if sibling.number == judgement.number]
    names = [
        str(getattr(judgement.place, name))
        for name in ("data", "size", "model", "set")
        if len({getattr(place, name) for place in places}) > 1
    ]
    return f" in {', '.join(names)}" if names else ""


def _claim_words(judgement: Judgement, judgements: Sequence[Judgement]) -> str:
    """Which judgement a note is of."""
    in_place = _place_words(judgement, judgements)
    return f"Claim {judgement.number}{in_place} under {judgement.shift}"


def _chance_notes(judgements: list[Judgement]) -> Iterator[str]:
    """Where the other side is no better than guessing, of all claims at once that share it."""
    numbers: dict[tuple[str, str], dict[str, None]] = {}
    for judgement in judgements:
        if judgement.waits or judgement.than.minus is not None:
            continue
        at_chance_words = chance_words(judgement.than.entry, judgement.metric)
        if at_chance_words:
            under = f"{_place_words(judgement, judgements)} under {judgement.shift}"
            note = under, f"{judgement.than} is {at_chance_words}."
            numbers.setdefault(note, {})[str(judgement.number)] = None
    for (under, sentence), of_note in numbers.items():
        yield f"{_claims_numbered(list(of_note))}{under}: {sentence}"


def _claims_numbered(numbers: Sequence[str]) -> str:
    """Claims by their numbers, as the beginning of a sentence."""
    return f"Claim{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def _rho_notes(judgements: list[Judgement]) -> list[str]:
    """The networks that a rho is beside."""
    lines: dict[str, None] = {}
    for judgement in judgements:
        if judgement.metric == "rho":
            for side in judgement.sides:
                lines |= dict.fromkeys(rho_words(side.entry))
    return list(lines)


def _choice_note(judgements: list[Judgement]) -> Iterator[str]:
    """Which claims are of the worst group, but of steps chosen by another score."""
    numbers = dict.fromkeys(
        str(judgement.number)
        for judgement in judgements
        if judgement.metric == "worst_group" and not judgement.place.rule.endswith("worst-group")
    )
    if numbers:
        yield (
            f"{_claims_numbered(list(numbers))}: of the worst group, while step and point"
            " are chosen by another score; a rule as best-id-worst-group chooses by it."
        )


def _oracle_notes(judgements: list[Judgement]) -> list[str]:
    """The notes on what the rules that chose know beyond validation rows."""
    lines = [line for judgement in judgements for line in oracle_notes(judgement.place)]
    return list(dict.fromkeys(lines))


def _points_note(judgements: list[Judgement]) -> Iterator[str]:
    """The claims of which one side tried more points than the other."""
    uneven: dict[str, None] = {}
    for judgement in judgements:
        better, than = judgement.better, judgement.than
        if better.tried != than.tried:
            points = f"{better} {better.tried}, {than} {than.tried}"
            uneven[f"{points} (claim {judgement.number})"] = None
    if uneven:
        yield (
            f"WARNING: the sides did not try equally many points: {'; '.join(uneven)}. The best of"
            " more is higher by chance alone."
        )


def _waiting_note(judgements: list[Judgement]) -> Iterator[str]:
    """How many judgements wait for runs."""
    waiting = sum(judgement.waits for judgement in judgements)
    if waiting:
        yield (
            f"{NOT_RUN}: {waiting} of {len(judgements)} wait for runs of a side; no difference is"
            " shown before all have ended."
        )


def _doubt_notes(judgements: list[Judgement]) -> Iterator[str]:
    """The notes on runs that reported doubts of their own scores."""
    for judgement in judgements:
        for side in judgement.sides:
            for text, seeds in side.entry.doubts.items():
                counted_runs = f"{len(seeds)} of {len(side.entry.metrics)} runs"
                about = _claim_words(judgement, judgements)
                yield f"{MARK} {about}: {side}, {counted_runs}: {text}."


def _left_out_notes(judgements: list[Judgement]) -> Iterator[str]:
    """The runs and points that judgements had to do without."""
    runs_name = _runs_name(judgements)
    for judgement in judgements:
        if judgement.waits:
            continue
        for line in (_lost_runs(judgement, runs_name), _lost_points(judgement)):
            if line:
                yield f"{_claim_words(judgement, judgements)}: {line}."


def _lost_runs(judgement: Judgement, runs_name: str) -> str:
    """How many runs of each side failed, and how many have no partner; empty without any."""
    words: list[str] = []
    failed = [f"{side} {side.failed}" for side in judgement.sides if side.failed]
    if failed:
        words.append(f"failed runs: {', '.join(failed)}")
    difference = judgement.difference
    if difference is not None and difference.missing:
        words.append(f"{runs_name} without a partner, left out: {difference.missing}")
    return "; ".join(words)


def _lost_points(judgement: Judgement) -> str:
    """The seeds that chose among fewer points than planned; empty without any."""
    partial = [_partial_words(side) for side in judgement.sides if side.entry.partial]
    return _FEWER + "; ".join(partial) if partial else ""


def _partial_words(side: JudgedSide) -> str:
    seeds = ", ".join(map(str, side.entry.partial))
    return f"{side} (seed {seeds})"
