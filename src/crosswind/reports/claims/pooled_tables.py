"""The judgements of claims over several cases as tables and sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from crosswind.core.errors import counted
from crosswind.evaluation.metrics import METRICS
from crosswind.evaluation.multiplicity import percent
from crosswind.evaluation.pooled_tests import (
    AGREEMENT,
    BEST,
    MEAN,
    ORDER,
    RANKS,
    SHARE,
    NobodyBestTest,
    ShareTest,
    run_words,
)
from crosswind.reports.claims.pooled_judgements import PooledJudgement
from crosswind.reports.claims.verdict_words import (
    CANNOT_TELL,
    HOLDS,
    NOT_RUN,
    OPPOSITE,
    POWER,
    range_told,
)
from crosswind.reports.tables import Cell, ReportTable, slug

_COUNTED = {
    MEAN: "seeds",
    SHARE: "cases",
    ORDER: "blocks",
    AGREEMENT: "rows",
    BEST: "cases",
    RANKS: "blocks",
}
_TEST_NOTES = {
    MEAN: (
        "a mean is over the cases at each seed, data sets and sizes equally heavy, then over seeds"
        " (paired t-test); it is about these cases"
    ),
    SHARE: (
        "the exact binomial test over cases, each the mean over its seeds; cases count as"
        " independent draws from such cases, though they may share rows"
    ),
    ORDER: (
        "Page's test (1963) over blocks, a data set and seed each; the value is the mean rank"
        " correlation of scores with the stated order"
    ),
    AGREEMENT: "Kendall's tau-b of mean scores; rows count as draws from such rows",
    BEST: (
        "every row must be beaten by some other in some case (paired t-tests, one-sided, Bonferroni"
        " over cases and rows; the largest p of all rows, Berger 1982); the value is by how much even"
        " the row nearest to best everywhere is beaten somewhere"
    ),
    RANKS: "Friedman's test (1937) over blocks, a case and seed each; the value is Kendall's W",
}


def pooled_table(
    study: str, judgements: Sequence[PooledJudgement], on_page: bool = False
) -> ReportTable | None:
    """A row a judgement, what was tested below; None without one. `on_page`: the words of a claim
    stand in its row."""
    if not judgements:
        return None
    p_name = {"holm": "p, Holm", "fdr": "p, FDR"}.get(judgements[0].multiplicity, "p")
    rows: list[dict[str, Cell]] = []
    for judgement in judgements:
        name = f"{judgement.text} (claim {judgement.number})" if on_page else judgement.number
        row: dict[str, Cell] = {"claim": name, "verdict": _marked_verdict(judgement)}
        if any(other.only for other in judgements):
            row["at"] = ", ".join(judgement.only.values()) or None
        row["value"] = value_words(judgement)
        row[f"{percent(judgement.level)} interval"] = _interval_words(judgement)
        row[p_name] = _p_words(judgement.adjusted)
        row["over"] = _count_words(judgement)
        rows.append(row)
    notes = [] if on_page else _texts(judgements)
    notes += _notes(judgements)
    return ReportTable.of(
        f"claims-over-cases-{slug(study)}", f"Claims over cases ({study})", rows, notes
    )


def pooled_number_table(study: str, judgements: Sequence[PooledJudgement]) -> ReportTable | None:
    """Every number of the judgements in one tidy table; None without one."""
    if not judgements:
        return None
    rows = [_number_row(study, judgement) for judgement in judgements]
    title = "Every number of the claims over cases"
    return ReportTable.of(f"claims-over-cases-{slug(study)}", title, rows, keys=2)


def pooled_sentence(judgement: PooledJudgement) -> str:
    """The verdict on a claim in a sentence."""
    at = f" ({', '.join(judgement.only.values())})" if judgement.only else ""
    if judgement.value is None:
        return f"{judgement.text}{at}: {judgement.verdict}."
    numbers = value_words(judgement) or ""
    if judgement.interval is not None:
        numbers += f" [{_interval_words(judgement)}]"
    if judgement.adjusted is not None:
        numbers += f"; p {_p_words(judgement.adjusted, '= ')}"
    if judgement.verdict == CANNOT_TELL and judgement.detectable:
        sizes = _range_words(judgement, judgement.detectable)
        numbers += f"; {sizes} would have been told with a power of {POWER:.0%}"
    return f"{judgement.text}{at}: {judgement.verdict} ({numbers}; {_count_words(judgement)})."


def value_words(judgement: PooledJudgement) -> str | None:
    """The value of a test, in the unit of the test; None where there is nothing."""
    value, tested = judgement.value, judgement.tested
    if value is None:
        return None
    if isinstance(tested, ShareTest):
        return f"in {tested.positive} of {tested.n}"
    if isinstance(tested, NobodyBestTest):
        most = max(tested.firsts.values())
        beaten = _amount(judgement, value, sign="")
        return f"beaten by {beaten}; first in at most {most} of {tested.n}"
    if judgement.test == MEAN:
        # The value is what is left of the difference beyond the claimed one.
        limit = f" against the limit of {_amount(judgement, judgement.by)}" if judgement.by else ""
        return f"{_amount(judgement, value)}{limit}"
    names = {ORDER: "rank correlation", AGREEMENT: "tau", RANKS: "W"}
    return f"{names[judgement.test]} {value:{'' if judgement.test == RANKS else '+'}.2f}"


def _amount(judgement: PooledJudgement, number: float, sign: str = "+") -> str:
    """A difference of scores: percent of the reference, points of a share, or as it is."""
    if judgement.relative:
        return f"{number:{sign}.1f}%"
    if METRICS[judgement.metric].unit == "fraction":
        return f"{100 * number:{sign}.1f} points"
    return f"{number:{sign}.3f}"


def _is_difference(judgement: PooledJudgement) -> bool:
    """Whether the value is a difference of scores."""
    return judgement.test in (MEAN, BEST)


def _range_words(judgement: PooledJudgement, ends: tuple[float, float]) -> str:
    """The ends of a range of true values, from the least to the largest."""
    if judgement.test == BEST and METRICS[judgement.metric].unit == "fraction":
        bound = math.inf if judgement.relative else 1.0
        return range_told(*ends, lambda end: _amount(judgement, end, sign=""), bound)
    if _is_difference(judgement):
        texts = [_amount(judgement, end, sign="") for end in ends]
    elif judgement.test == SHARE:
        texts = [f"a share of {judgement.share + end:.0%}" for end in ends]
    else:
        names = {ORDER: "a rank correlation", AGREEMENT: "a tau", RANKS: "a W"}
        texts = [f"{names[judgement.test]} of {end:.2f}" for end in ends]
    return " to ".join(dict.fromkeys(texts))


def _interval_words(judgement: PooledJudgement) -> str | None:
    if judgement.interval is None:
        return None
    low, high = judgement.interval
    if judgement.test == SHARE:
        return f"{judgement.share + low:.0%} to {judgement.share + high:.0%}"
    if judgement.test == MEAN:
        unit = " points" if METRICS[judgement.metric].unit == "fraction" else ""
        first = _amount(judgement, low).removesuffix(unit or "%").removesuffix("%")
        return f"{first} to {_amount(judgement, high)}"
    return f"{low:+.2f} to {high:+.2f}"


def _p_words(p: float | None, equals: str = "") -> str | None:
    if p is None:
        return None
    return (
        f"{equals}{p:.3f}" if p >= 0.001 else f"{equals and '< '}{'0.001' if equals else '<0.001'}"
    )


def _count_words(judgement: PooledJudgement) -> str:
    """The words for the counts of a test, and for how many cases it goes over."""
    if judgement.waits or judgement.tested is None:
        return f"{judgement.cases} cases"
    counted = _COUNTED[judgement.test]
    if judgement.test == MEAN:
        differences = getattr(judgement.tested, "differences", {})
        counted = run_words(list(differences))
    words = f"{judgement.tested.n} {counted}"
    return words if counted in ("cases", "rows") else f"{words}, {judgement.cases} cases"


def _marked_verdict(judgement: PooledJudgement) -> str:
    return f"{judgement.verdict} †" if judgement.doubted else judgement.verdict


def _texts(judgements: Sequence[PooledJudgement]) -> list[str]:
    texts = dict.fromkeys((judgement.number, judgement.text) for judgement in judgements)
    return [f"Claim {number}: {text}" for number, text in texts]


def _notes(judgements: Sequence[PooledJudgement]) -> list[str]:
    """The notes below the table."""
    return [
        _verdict_note(judgements),
        *_hypothesis_notes(judgements),
        *_test_notes(judgements),
        *_power_notes(judgements),
        *_state_notes(judgements),
    ]


def _verdict_note(judgements: Sequence[PooledJudgement]) -> str:
    first = judgements[0]
    by = {"holm": "Holm 1979", "fdr": "Benjamini and Hochberg 1995"}.get(first.multiplicity)
    adjusted = f"adjusted for the {first.family} judgements of this study together ({by})"
    return (
        f'"{HOLDS}": p below 0.05 and the value above 0; "{OPPOSITE}": below 0; "{CANNOT_TELL}": p is'
        f" not, or there is none. p is two-sided, {adjusted if by else 'of each alone'}."
    )


def _hypothesis_notes(judgements: Sequence[PooledJudgement]) -> Iterator[str]:
    """The notes on the hypothesis that each claim is tested against."""
    for number, hypothesis in dict.fromkeys(
        (judgement.number, judgement.hypothesis) for judgement in judgements
    ):
        yield f"Claim {number} is tested against: {hypothesis}."


def _test_notes(judgements: Sequence[PooledJudgement]) -> Iterator[str]:
    """How each kind of claim is tested."""
    for test in dict.fromkeys(judgement.test for judgement in judgements):
        numbers = dict.fromkeys(
            str(judgement.number) for judgement in judgements if judgement.test == test
        )
        yield f"Test `{test}` (claim {', '.join(numbers)}): {_TEST_NOTES[test]}."


def _power_notes(judgements: Sequence[PooledJudgement]) -> Iterator[str]:
    """The note on what claims without a verdict could have shown."""
    could = [
        f"claim {judgement.number}{_only_words(judgement)}"
        f" {_range_words(judgement, judgement.detectable)}"
        for judgement in judgements
        if judgement.verdict == CANNOT_TELL and judgement.detectable
    ]
    if could:
        yield f"A power of {POWER:.0%} is had for: {'; '.join(could)}."


def _only_words(judgement: PooledJudgement) -> str:
    return f" at {', '.join(judgement.only.values())}" if judgement.only else ""


def _state_notes(judgements: Sequence[PooledJudgement]) -> Iterator[str]:
    """Runs that are missing or doubted."""
    waiting = sum(judgement.waits for judgement in judgements)
    if waiting:
        yield (
            f"{NOT_RUN}: {waiting} of {len(judgements)} wait for runs; nothing is looked at before all"
            " have ended."
        )
    for judgement in judgements:
        about = f"Claim {judgement.number}{_only_words(judgement)}"
        if judgement.failed:
            yield f"{about}: {counted(judgement.failed, 'run')} failed; their seeds are left out."
        if judgement.doubted:
            yield f"{about}: {counted(judgement.doubted, 'run')} told their reader to doubt them (†)."
        if isinstance(judgement.tested, NobodyBestTest) and not judgement.waits:
            firsts = sorted(judgement.tested.firsts.items(), key=lambda first: -first[1])
            words = ", ".join(f"{row} {count}" for row, count in firsts if count)
            yield f"{about}: the highest mean of {judgement.tested.n} cases is that of {words}."


def _number_row(study: str, judgement: PooledJudgement) -> dict[str, Any]:
    """Every number of one judgement."""
    about: dict[str, Any]
    scored: dict[str, Any]
    numbers: dict[str, Any]
    low, high = judgement.interval or (None, None)
    told_low, told_high = judgement.detectable or (None, None)
    tested = None if judgement.waits else judgement.tested
    about = {"study": study, "claim": judgement.number, "text": judgement.text}
    about |= {"test": judgement.test, "at": ", ".join(judgement.only.values())}
    about |= {"better": judgement.better, "than": judgement.than}
    about["along"] = ", ".join(judgement.along)
    scored = {"set": judgement.set, "metric": judgement.metric, "rule": judgement.rule}
    scored |= {"relative": judgement.relative, "by": judgement.by}
    scored["share"] = judgement.share if judgement.test == SHARE else None
    decided = {"hypothesis": judgement.hypothesis, "verdict": judgement.verdict}
    numbers = {"value": judgement.value, "low": low, "high": high, "level": judgement.level}
    numbers |= {"n": tested.n if tested else None, "cases": judgement.cases}
    numbers |= {"p": judgement.p, "p_adjusted": judgement.adjusted}
    family = {"multiplicity": judgement.multiplicity, "family": judgement.family}
    power = {"told_low": told_low, "told_high": told_high}
    states = {"failed": judgement.failed, "doubted": judgement.doubted}
    return {**about, **scored, **decided, **numbers, **family, **power, **states}
