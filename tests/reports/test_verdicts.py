"""What sentences, stars, frames and numbers of a report say of one comparison: the same, and with
the interval beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from crosswind.evaluation.multiplicity import percent
from crosswind.reports.claims.claim_tables import claim_number_table, claim_table
from crosswind.reports.claims.findings import find
from crosswind.reports.claims.judgements import judge
from crosswind.reports.claims.verdict_words import CANNOT_TELL, HOLDS, OPPOSITE
from crosswind.reports.claims.verdicts import MARGIN, Finding, by_place, judged
from crosswind.reports.scores import figures
from crosswind.reports.scores import tables as score_tables
from crosswind.reports.scores.families import change_table, families
from crosswind.reports.scores.family_figures import family_map
from crosswind.reports.scores.results import PlaceResults, arrange
from crosswind.reports.tables import ReportTable, ScoreCell

SHIFTS = {"none": [], "SC": {"type": "x"}, "UDS": {"type": "x"}}
NAMES = {
    "study": "s",
    "data": "d",
    "size": "",
    "model": "mlp",
    "status": "finished",
    "rule": "last",
    "set": "test",
}
METHODS = ("erm", "irm", "jtt", "mixup", "coral", "cos")


def rows(
    draw: np.random.Generator, seeds: int, splits: int = 1, spread: float = 0.01, **effects: float
) -> Iterator[dict[str, Any]]:
    """Results of a study; a method's effect on accuracy is drawn where it is not given."""
    for shift, level in (("none", 0.9), ("SC", 0.8), ("UDS", 0.7)):
        for method in METHODS:
            effect = (
                0.0
                if method == "erm"
                else effects.get(method, float(draw.choice([-0.1, -0.015, 0.0, 0.015, 0.1])))
            )
            for split in range(splits):
                for seed in range(seeds):
                    accuracy = level + effect + spread * float(draw.normal())
                    metrics = {
                        "accuracy": accuracy,
                        "worst_group": accuracy / 2 + spread * float(draw.normal()),
                        "role": "test",
                    }
                    metrics |= {
                        "worst_group_name": "y=0, ink=red",
                        "classes": 2,
                        "majority": 0.5,
                        "n": 100,
                    }
                    run = {
                        **NAMES,
                        "shift": shift,
                        "method": method,
                        "seed": seed,
                        "split_seed": split,
                    }
                    yield {**run, "metrics": metrics}


def about(multiplicity: str = "holm", **settings: Any) -> dict[str, Any]:
    sets = {"test": {"law": "uniform"}}
    study_settings = {
        "reference": "erm",
        "selection": ["last"],
        "shifts": SHIFTS,
        "sets": sets,
        "claims": [],
        "multiplicity": multiplicity,
    }
    return {**study_settings, **settings}


STUDIES = [
    (seed, n, splits)
    for seed, (n, splits) in enumerate([(2, 1), (3, 1), (5, 1), (16, 1), (3, 2), (4, 3)])
]


@pytest.mark.parametrize("multiplicity", ["holm", "fdr", "none"])
@pytest.mark.parametrize(("seed", "n", "splits"), STUDIES)
def test_an_interval_says_what_the_verdict_beside_it_says(
    seed: int, n: int, splits: int, multiplicity: str
) -> None:
    resolved = about(multiplicity)
    place_results = arrange(rows(np.random.default_rng(seed), n, splits)).shown(["last"])
    findings = find(place_results, resolved, [], [])
    assert findings is not None
    assert len(findings.items) == 2 * (2 + 15)
    for finding in findings.items:
        finding_json = json.loads(json.dumps(finding.to_json()))
        assert (finding_json["low"] > 0 or finding_json["high"] < 0) == finding_json["told"]
        inside = finding_json["low"] > -MARGIN and finding_json["high"] < MARGIN
        assert not finding_json["about_equal"] or inside
        assert finding_json["low"] <= finding_json["difference"] <= finding_json["high"]
        assert finding.level >= finding_json["alone"]["level"] == 0.95
    assert any(item.told for item in findings.items) or n == 2 or splits > 1
    tables = score_tables.place_tables(
        place_results[0], by_place(place_results, resolved)[place_results[0].place]
    )
    assert_stars(
        tables["difference"],
        {(item.method, item.shift): item for item in findings.items if item.metric == "accuracy"},
    )
    figure = figures.change_map(
        place_results[0], by_place(place_results, resolved)[place_results[0].place]
    )
    assert figure is not None
    for row in figure.spec["datasets"]["rows"]:
        low, high = row["i"].strip("[]").split(", ")
        assert row["x"] == ("*" in row["t"]) == (low[0] == high[0]), row
    assert_sentences(
        dict(findings.parts),
        place_results[0],
        {(item.method, item.shift): item for item in findings.items if item.told},
    )


def test_the_level_beside_an_interval_in_json_is_the_one_it_was_computed_at() -> None:
    """Of an equality that is the level of its two one-sided tests, which is another one."""
    place_results = arrange(
        rows(np.random.default_rng(3), 16, spread=0.003, jtt=-0.2, coral=0.0, cos=0.001)
    ).shown(["last"])
    findings = find(place_results, about(), [], [])
    assert findings is not None
    equal = [finding for finding in findings.items if finding.about_equal and not finding.told]
    assert equal
    for finding in equal:
        finding_json = finding.to_json()
        ends = finding.at_level(finding_json["level"])
        assert ends.low is not None
        assert ends.high is not None
        assert finding_json["low"] == min(0.0, ends.low)
        assert finding_json["high"] == max(0.0, ends.high)
    (lost,) = (
        finding
        for finding in findings.items
        if (finding.method, finding.shift, finding.metric) == ("jtt", "UDS", "accuracy")
    )
    assert lost.to_json()["level"] == lost.level != equal[0].to_json()["level"]


def assert_stars(table: ReportTable, verdicts: dict[tuple[str, str], Finding]) -> None:
    """Of every cell the star, the interval and the verdict agree, in text, JSON and LaTeX."""
    latex = table.to_latex()
    assert (
        latex.count(r"$^{*}$") == sum("*" in str(cell) for row in table.rows for cell in row) + 1
    ), "one in the note"
    for row in table.rows:
        for shift, cell in zip(table.columns[1:], row[1:], strict=True):
            assert isinstance(cell, ScoreCell)
            assert cell.half_width is not None
            verdict = verdicts[str(row[0]), shift].told
            assert (
                cell.to_json()["excludes_zero"]
                == ("*" in str(cell))
                == verdict
                == (abs(cell.mean) > cell.half_width)
            )


def assert_sentences(
    sections: dict[str, Any],
    place_results: PlaceResults,
    findings_by_key: dict[tuple[str, str], Finding],
) -> None:
    """No method is called about as accurate where it is starred."""
    (near_lines,) = [
        lines for heading, lines in sections.items() if heading.startswith("About as accurate")
    ] or [[]]
    for line in near_lines:
        method, _, sentence_end = line.partition(" under ")
        assert (method, sentence_end.split()[0]) not in {
            key for key, finding in findings_by_key.items() if finding.metric == "accuracy"
        }, line


def test_a_small_difference_is_told_as_worse_and_small_and_not_as_about_equal() -> None:
    """jtt loses one point in every seed, nearly: told, and told to be less than three."""
    draw = np.random.default_rng(3)
    place_results = arrange(
        rows(draw, 16, spread=0.003, jtt=-0.01, irm=-0.2, mixup=0.2, coral=0.0, cos=0.001)
    ).shown(["last"])
    findings = find(place_results, about(), [], [])
    assert findings is not None
    text = findings.to_text(1000)
    (finding,) = (
        one
        for one in findings.items
        if (one.method, one.shift, one.metric) == ("jtt", "UDS", "accuracy")
    )
    assert finding.told
    assert finding.about_equal
    lines = [line for _, lines_of_part in findings.parts for line in lines_of_part]
    (line,) = (line for line in lines if line.startswith("Under UDS jtt"))
    assert "], less than 3" in line
    assert not any(line.startswith("jtt under UDS [") for line in lines)
    assert any(line.startswith("coral under UDS [") for line in lines)
    heading = "About as accurate as erm: less than 3 points apart, p < 0.05 by Holm over 15; ["
    coral = next(item for item in findings.items if item.about_equal and not item.told)
    assert f"{heading}{percent(coral.equal_level)} interval]\n" in text


@pytest.mark.parametrize(("n", "shared"), [(3, 0.0), (5, 0.02), (16, 0.0)])
def test_of_ten_methods_at_the_margin_few_studies_call_any_about_as_accurate(
    n: int, shared: float
) -> None:
    """Uncorrected, any of ten is called so in 32 to 44% of studies; judged together in at most
    5%."""
    draw, studies, wrong, alone = np.random.default_rng(n), 120, 0, 0
    for _ in range(studies):
        rows_of_runs = []
        for seed in range(n):
            base = 0.7 + shared * float(draw.normal())
            for method in range(11):
                accuracy = base + (MARGIN if method else 0.0) + 0.006 * float(draw.normal())
                scored = {"metrics": {"accuracy": accuracy}, "seed": seed}
                rows_of_runs.append(
                    {**NAMES, "shift": "SC", "method": f"m{method}" if method else "erm", **scored}
                )
        findings = judged(arrange(rows_of_runs).shown(["last"]), {})
        wrong += any(finding.about_equal for finding in findings)
        alone += any(
            finding.adjusted_equal is not None and finding.at_level(0.9).high < MARGIN
            for finding in findings
        )  # type: ignore[operator]
    assert wrong / studies < 0.05 + 2.6 * (0.05 * 0.95 / studies) ** 0.5
    assert alone / studies > 0.2


def test_what_is_open_names_the_seeds_that_would_tell_it_in_this_study() -> None:
    draw = np.random.default_rng(0)
    place_results = arrange(rows(draw, 3, spread=0.03)).shown(["last"])
    for multiplicity in ("holm", "none"):
        findings = find(place_results, about(multiplicity), [], [])
        assert findings is not None
        for finding in findings.items:
            seeds = finding.to_json()["seeds_to_tell"]
            assert seeds is not None
            assert seeds[0] is not None
            assert seeds[0] < (seeds[1] or 10_000)
        if any(
            finding.kind == "effect" and not finding.told and not finding.about_equal
            for finding in findings.items
        ):
            text = "\n".join(line for _, lines in findings.parts for line in lines)
            seeds_line = next(line for line in text.splitlines() if "would tell" in line)
            assert " to " in seeds_line
            assert "seeds would tell 5 points" in seeds_line


def test_telling_it_needs_more_seeds_where_p_is_adjusted() -> None:
    place_results = arrange(rows(np.random.default_rng(0), 3, spread=0.03)).shown(["last"])
    alone, together = (
        [item.seeds for item in judged(place_results, about(adjustment))]
        for adjustment in ("none", "holm")
    )
    assert all(
        unadjusted and adjusted and unadjusted[0] < adjusted[0]
        for unadjusted, adjusted in zip(alone, together, strict=True)
    )  # type: ignore[operator]


def test_equal_differences_have_no_interval_that_could_be_read_as_a_verdict() -> None:
    """At every seed 5 points more: no spread, no test, and no [+5.0, +5.0] beside "could not be
    told"."""
    rows_of_runs = []
    for method, gain in (("erm", 0.0), ("irm", 0.05)):
        for seed in range(3):
            scored = {"metrics": {"accuracy": 0.5 + 0.01 * seed + gain}, "seed": seed}
            rows_of_runs.append({**NAMES, "shift": "SC", "method": method, **scored})
    place_results = arrange(rows_of_runs).shown(["last"])
    findings = find(place_results, about(), [], [])
    assert findings is not None
    assert findings.items[0].interval is None
    assert "irm under SC, accuracy: +5.0, the same at every seed." in findings.to_text()
    figure = figures.change_map(place_results[0])
    assert figure is not None
    assert figure.spec["datasets"]["rows"][0]["i"] == "the same at every seed, no interval"
    claim = dict.fromkeys(("data", "shift", "size", "model", "rule", "wins_back", "margin"))
    claim |= {
        "text": "it helps",
        "better": "irm",
        "than": "erm",
        "metric": "accuracy",
        "set": "test",
    }
    judgements = judge(arrange(rows_of_runs), about(claims=[claim]))
    table = claim_table("s", judgements)
    assert table is not None
    assert dict(zip(table.columns, table.rows[0], strict=True))["95% interval"] is None
    assert judgements[0].verdict == CANNOT_TELL


CLAIMED = [
    (0, 2, 1, "holm"),
    (1, 3, 1, "fdr"),
    (2, 5, 1, "holm"),
    (4, 3, 2, "holm"),
    (5, 4, 3, "none"),
]


def verdict_of(low: float, high: float, margin: float | None) -> str:
    """The verdict of an interval: beside 0, or inside or outside a margin."""
    if margin is None:
        is_held, is_opposite = low > 0, high < 0
    else:
        is_held = -margin < low and high < margin
        is_opposite = low > margin or high < -margin
    if is_held:
        return HOLDS
    return OPPOSITE if is_opposite else CANNOT_TELL


@pytest.mark.parametrize(("seed", "n", "splits", "multiplicity"), CLAIMED)
def test_a_claim_and_its_interval_agree(seed: int, n: int, splits: int, multiplicity: str) -> None:
    empty = dict.fromkeys(("data", "shift", "size", "model", "rule", "wins_back", "margin"))
    claims = [
        {
            **empty,
            "text": f"{method} {extra}",
            "better": method,
            "than": "erm",
            "metric": "accuracy",
            "set": "test",
            **extra,
        }
        for method in METHODS[1:]
        for extra in ({}, {"margin": 0.03}, {"shift": "SC", "wins_back": 0.3})
    ]
    judgements = judge(
        arrange(rows(np.random.default_rng(seed + 50), n, splits)),
        about(multiplicity, claims=claims),
    )
    assert len(judgements) == 5 * (3 + 3 + 1)
    for judgement in judgements:
        difference = judgement.difference
        assert difference is not None
        assert difference.low is not None
        assert difference.high is not None
        says = verdict_of(difference.low, difference.high, judgement.margin)
        assert judgement.verdict == says
    table, numbers = claim_table("s", judgements), claim_number_table("s", judgements)
    assert table is not None
    assert numbers is not None
    for row in (dict(zip(numbers.columns, row, strict=True)) for row in numbers.rows):
        low, high, margin = (row[name] for name in ("diff_low", "diff_high", "margin"))
        if margin is None:
            assert (low > 0 or high < 0) == (row["verdict"] in (HOLDS, OPPOSITE))  # type: ignore[operator]
    all_findings = find(
        arrange(rows(np.random.default_rng(1), 3)).shown(["last"]), about(), judgements, []
    )
    assert all_findings is not None
    assert len(dict(all_findings.parts)["Claims"]) == len(judgements)
    assert (
        f"Claims are a family of their own: p{', each alone' if multiplicity == 'none' else ' by '}"
        in all_findings.intro
    )


@pytest.mark.parametrize(("seed", "n", "splits"), STUDIES)
def test_changes_by_family_are_starred_where_their_interval_excludes_zero(
    seed: int, n: int, splits: int
) -> None:
    place_results = arrange(rows(np.random.default_rng(seed), n, splits)).shown(["last"])
    resolved = about(
        methods={
            "erm": {},
            "irm": {},
            "jtt": {},
            "mixup": {},
            "coral": {"method": "deepcoral"},
            "cos": {},
        }
    )
    views = families(place_results, resolved)
    assert views, "the methods are of several families"
    table, figure = change_table(views[0]), family_map(views[0])
    for row in table.rows:
        for cell in row[2:]:
            assert isinstance(cell, ScoreCell)
            assert cell.half_width is not None
            assert ("*" in str(cell)) == (abs(cell.mean) > cell.half_width)
    assert figure is not None
    for figure_row in figure.spec["datasets"]["rows"]:
        low, high = figure_row["i"].split(" to ")
        assert figure_row["x"] == ("*" in figure_row["t"]) == (low[0] == high[0]), figure_row
