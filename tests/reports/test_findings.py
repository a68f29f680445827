"""Findings: every sentence computed again from the scores, by other code; what is compared and what
is not."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

from crosswind.evaluation.compare import seeds_to_tell
from crosswind.reports.claims.findings import LISTED, Findings, find
from crosswind.reports.scores.results import arrange

SHIFTS = {"none": [], "SC": {"type": "x"}, "LDD": {"type": "x"}, "UDS": {"type": "x"}}
METHODS = ("erm", "groupdro", "jtt")
# The mean of accuracy and worst group by shift and method, and the spread of the seeds.
LEVELS = {
    ("none", "erm"): (0.9, 0.8),
    ("SC", "erm"): (0.7, 0.2),
    ("SC", "groupdro"): (0.8, 0.5),
    ("SC", "jtt"): (0.72, 0.45),
    ("LDD", "erm"): (0.895, 0.79),
    ("LDD", "groupdro"): (0.894, 0.7),
    ("UDS", "erm"): (0.8, 0.6),
    ("UDS", "jtt"): (0.7, 0.6),
}
ORDER = (("accuracy", "accuracy"), ("worst_group", "the worst group"))


def scores(
    n: int = 6, spread: float = 0.02, seed: int = 0
) -> dict[tuple[str, str, str], list[float]]:
    """By shift, method and metric, the values of `n` seeds."""
    draw = np.random.default_rng(seed)
    return {
        (shift, method, metric): [level + spread * float(draw.normal()) for _ in range(n)]
        for (shift, method), levels in LEVELS.items()
        for metric, level in zip(("accuracy", "worst_group"), levels, strict=True)
    }


def rows(
    values: dict[tuple[str, str, str], list[float]], **extra_metrics: Any
) -> Iterator[dict[str, Any]]:
    for shift, method in dict.fromkeys((shift, method) for shift, method, _ in values):
        for seed in range(len(values[shift, method, "accuracy"])):
            metrics = {
                metric: values[shift, method, metric][seed]
                for metric in ("accuracy", "worst_group")
            }
            names = {
                "study": "s",
                "data": "d",
                "shift": shift,
                "size": "",
                "model": "mlp",
                "method": method,
                "seed": seed,
            }
            group_metrics = {
                "worst_group_name": "y=0, ink=red",
                "classes": 2,
                "majority": 0.5,
                "role": "test",
                "n": 100,
            }
            yield {
                **names,
                "status": "finished",
                "rule": "last",
                "set": "test",
                "metrics": {**group_metrics, **metrics, **extra_metrics},
            }


def found(
    rows_of_runs: Any, shifts: Any = SHIFTS, law: str = "uniform", **resolved: Any
) -> Findings | None:
    about = {
        "reference": "erm",
        "selection": ["last"],
        "shifts": shifts,
        "sets": {"test": {"law": law}},
        "claims": [],
    }
    return find(arrange(rows_of_runs).shown(["last"]), {**about, **resolved}, [], [])


def sentences(findings: Findings) -> str:
    return "\n".join(line for _, lines in findings.parts for line in lines)


# -- every sentence again --------------------------------------------------------------------------


class Again(NamedTuple):
    """A comparison in points, computed here; `low` and `high` belong to the verdicts."""

    mean: float
    low: float
    high: float
    p: float
    near: bool


def end(value: float, is_near: bool, sign: str = "") -> str:
    """With more digits where one would put it on 0, or on the margin."""
    for digits in (1, 2, 3):
        if round(abs(value), digits) != 0 and not (is_near and round(abs(value), digits) == 3):
            return f"{value:{sign}.{digits}f}"
    return f"{value:{sign}.1f}"


def holm_again(p_values: dict[Any, float]) -> tuple[dict[Any, float], float]:
    """Adjusted p-values, and the unadjusted one below which a test is told."""
    ranked = sorted(p_values, key=lambda key: p_values[key])
    adjusted, largest = {}, 0.0
    for i, key in enumerate(ranked):
        largest = adjusted[key] = max(largest, min(1.0, p_values[key] * (len(ranked) - i)))
    n_significant = sum(p < 0.05 for p in adjusted.values())
    return adjusted, 0.05 / (len(ranked) - max(n_significant, 1) + 1)


def again(
    values: dict[tuple[str, str, str], list[float]],
) -> dict[tuple[str, str, str, str], Again]:
    """(kind, shift, method, metric) -> the comparison and its verdicts."""
    pairs, different, equal = {}, {}, {}
    for shift, method, metric in values:
        kind, base = ("effect", (shift, "erm")) if method != "erm" else ("cost", ("none", "erm"))
        if (shift, method) != base:
            key = kind, shift, method, metric
            differences = [
                100 * (score - base_score)
                for score, base_score in zip(
                    values[shift, method, metric], values[*base, metric], strict=True
                )
            ]
            pairs[key], different[key] = differences, stats.ttest_1samp(differences, 0).pvalue
            if kind == "effect" and metric == "accuracy":
                sides = (
                    stats.ttest_1samp(differences, 3, alternative="less"),
                    stats.ttest_1samp(differences, -3, alternative="greater"),
                )
                equal[key] = max(side.pvalue for side in sides)
    (p, threshold), (p_equal, threshold_equal) = holm_again(different), holm_again(equal)
    comparisons = {}
    for key, differences in pairs.items():
        mean, error = fmean(differences), stdev(differences) / math.sqrt(len(differences))
        low, high = stats.t.interval(1 - threshold, len(differences) - 1, mean, error)
        is_near = p_equal.get(key, 1.0) < 0.05
        inner = stats.t.interval(1 - 2 * threshold_equal, len(differences) - 1, mean, error)
        if is_near and p[key] < 0.05:
            low, high = (low, inner[1]) if mean > 0 else (inner[0], high)
        elif is_near:
            low, high = min(0.0, inner[0]), max(0.0, inner[1])
        comparisons[key] = Again(mean, low, high, p[key], is_near)
    return comparisons


# In 13, 2 and 32 a method is told to lose less than 3 points; in 2 and 32 a difference is told by a
# later step of Holm's.
STUDIES = [(0, 6, 0.02), (2, 5, 0.02), (13, 12, 0.01), (2, 16, 0.01), (32, 16, 0.015)]


VERBS = {
    ("cost", True): "costs",
    ("cost", False): "gives",
    ("effect", True): "loses",
    ("effect", False): "wins",
}


def sentence_of(kind: str, significant: list[tuple[str, Again]]) -> str:
    """The metrics of a method that are told, from the verb on and without a full stop."""
    sentence = ""
    for number, (words, comparison) in enumerate(significant):
        verb = f"{VERBS[kind, comparison.mean < 0]} "
        if verb in sentence:
            verb = ""
        unit = "points " if number == 0 else ""
        preposition = "of" if words == "accuracy" else "in"
        sizes = sorted((abs(comparison.low), abs(comparison.high)))
        ends = ", ".join(end(value, comparison.near) for value in sizes)
        if number > 0:
            sentence += " and "
        sentence += f"{verb}{abs(comparison.mean):.1f} {unit}{preposition} {words} [{ends}]"
        if comparison.near:
            sentence += ", less than 3"
            if number + 1 < len(significant):
                sentence += ","
    return sentence


def lines_of(expected: dict[tuple[str, str, str, str], Again]) -> dict[str, list[str]]:
    """The expected lines of each section: costs, effects, about equal ones and open ones."""
    lines: dict[str, list[str]] = {"cost": [], "effect": [], "near": [], "open": []}
    for kind, shift, method in dict.fromkeys(key[:3] for key in expected):
        of_method = [(words, expected[kind, shift, method, metric]) for metric, words in ORDER]
        significant = [
            (words, comparison) for words, comparison in of_method if comparison.p < 0.05
        ]
        if significant:
            subject = shift if kind == "cost" else f"Under {shift} {method}"
            lines[kind].append(f"{subject} {sentence_of(kind, significant)}.")
    for (kind, shift, method, metric), comparison in expected.items():
        if comparison.p < 0.05:
            continue
        ends = ", ".join(
            end(value, comparison.near, "+") for value in (comparison.low, comparison.high)
        )
        if comparison.near:
            lines["near"].append(f"{method} under {shift} [{ends}]")
        else:
            subject = f"{shift} for erm" if kind == "cost" else f"{method} under {shift}"
            words = metric.replace("_", " ")
            lines["open"].append(f"{subject}, {words}: {comparison.mean:+.1f} [{ends}]")
    return lines


@pytest.mark.parametrize(("seed", "n", "spread"), STUDIES)
def test_every_sentence_of_the_findings(seed: int, n: int, spread: float) -> None:
    values = scores(n, spread, seed)
    findings = found(rows(values))
    assert findings is not None
    assert "by Holm over 14 comparisons" in findings.intro
    expected = again(values)
    assert len(expected) == 14
    expected_lines = lines_of(expected)
    sections = [lines for _, lines in findings.parts]
    headings = [heading for heading, _ in findings.parts]
    assert (
        headings[0]
        == f"What each shift costs erm (right on {fmean(values['none', 'erm', 'accuracy']):.1%}"
        " without a shift)"
    )
    assert sorted(sections[0]) == sorted(expected_lines["cost"])
    assert sorted(sections[1]) == sorted(expected_lines["effect"])
    near_sections = {heading.split()[0]: lines for heading, lines in findings.parts[2:]}
    assert near_sections.get("About", []) == expected_lines["near"]
    assert sorted(
        line.partition(";")[0].rstrip(".") for line in near_sections.get("What", [])
    ) == sorted(expected_lines["open"])
    sizes = [
        max(float(number) for number in re.findall(r"([\d.]+) (?:points|in the)", line))
        for line in sections[0]
    ]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) >= 2, "the largest first"
    assert len(findings.items) == 14
    assert all(
        math.isclose(
            one.adjusted or 0, expected[one.kind, one.shift, one.method, one.metric].p, rel_tol=1e-9
        )
        for one in findings.items
    )


def test_nothing_is_told_of_noise() -> None:
    level = dict.fromkeys(LEVELS, (0.8, 0.6))
    draw = np.random.default_rng(1)
    values = {
        (*key, metric): [value + 0.05 * float(draw.normal()) for _ in range(5)]
        for key, pair in level.items()
        for metric, value in zip(("accuracy", "worst_group"), pair, strict=True)
    }
    findings = found(rows(values))
    assert findings is not None
    assert [lines for _, lines in findings.parts[:2]] == [
        ["No cost could be told."],
        ["No difference could be told."],
    ]
    assert not any(comparison.told for comparison in findings.items)
    assert "What could not be told (14 of 14)" in findings.to_text()


# -- what is compared ------------------------------------------------------------------------------


def test_a_cost_needs_a_shift_without_parts_and_equal_test_rows() -> None:
    values = scores()
    for findings in (
        found(rows(values), {**SHIFTS, "none": {"type": "x"}}),
        found(rows(values), law="unseen"),
    ):
        assert findings is not None
        assert {comparison.kind for comparison in findings.items} == {"effect"}
        assert "costs" not in sentences(findings)
    assert found([]) is None


def test_worst_groups_of_other_attributes_are_not_compared() -> None:
    values = scores()
    rows_of_runs = [
        (
            {**row, "metrics": {**row["metrics"], "worst_group_name": "y=0, size=small"}}
            if row["shift"] == "none"
            else row
        )
        for row in rows(values)
    ]
    findings = found(rows_of_runs)
    assert findings is not None
    assert {comparison.metric for comparison in findings.items if comparison.kind == "cost"} == {
        "accuracy"
    }
    assert {comparison.metric for comparison in findings.items if comparison.kind == "effect"} == {
        "accuracy",
        "worst_group",
    }


def test_doubts_of_one_setting_of_several_name_it() -> None:
    def doubting(model: str, doubts: list[str]) -> Iterator[dict[str, Any]]:
        for row in rows(scores()):
            yield {**row, "model": model, "metrics": {**row["metrics"], "doubts": doubts}}

    about = {"reference": "erm", "selection": ["last"], "shifts": {}, "sets": {}}
    some = [*doubting("mlp", ["it did nothing"]), *doubting("forest", ["it did nothing", "late"])]
    findings = find(arrange(some).shown(["last"]), about, [], [])
    assert findings is not None
    heading, sentences = findings.parts[-1]
    assert heading == "Runs to be read with care"
    jtt = [sentence for sentence in sentences if "jtt" in sentence]
    counts = "6 of 6 runs under SC, 6 of 6 runs under UDS"
    assert jtt == [f"† jtt, {counts}: it did nothing.", f"† forest: jtt, {counts}: late."]


def test_doubts_and_guessing_are_told() -> None:
    values = scores()
    values["SC", "erm", "accuracy"] = [0.5 + 0.01 * i for i in (-1, 1, -2, 2, 0, 1)]
    findings = found(
        [
            (
                {**row, "metrics": {**row["metrics"], "doubts": ["it did nothing"]}}
                if row["method"] == "jtt"
                else row
            )
            for row in rows(values)
        ]
    )
    assert findings is not None
    text = sentences(findings)
    assert "erm is then no better than guessing." in text
    assert "† jtt" in text
    assert re.search(r"Under SC jtt wins .* †$", text, re.M)
    assert "groupdro wins" in text
    assert "groupdro wins 0 †" not in text


def test_shares_of_two_data_sets_are_in_the_order_of_numbers() -> None:
    """As text "100.0%" comes before "90.0%"."""
    values = scores()
    easy = {**values, ("none", "erm", "accuracy"): [1.0] * 6}
    hard = {**values, ("none", "erm", "accuracy"): [0.9] * 6}
    both = [*rows(easy), *({**row, "data": "e"} for row in rows(hard))]
    findings = found(both)
    assert findings is not None
    assert "(right on 90.0% to 100.0% without a shift)" in findings.to_text()


def test_one_seed_tells_nothing() -> None:
    findings = found(rows({key: values[:1] for key, values in scores().items()}))
    assert findings is not None
    assert not any(comparison.told for comparison in findings.items)
    assert findings.intro.startswith(
        "Findings of s (1 seed; points are percentage points; no p and no interval: a comparison"
        " needs runs of two seeds)."
    )
    assert " over 0" not in findings.to_text()


def test_a_terminal_shows_few_lines_of_80_columns() -> None:
    values = scores()
    many_scores = {
        (shift, f"{method}{i}" if method != "erm" else "erm", metric): value
        for (shift, method, metric), value in values.items()
        for i in range(8)
    }
    findings = found(rows(many_scores))
    assert findings is not None
    lines = findings.to_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert any(re.fullmatch(r"  and \d+ more on the page", line) for line in lines)
    assert all(
        len(section_lines) <= LISTED or any("more on the page" in line for line in lines)
        for _, section_lines in findings.parts
    )
    findings_json = findings.to_json()
    assert len(findings_json["comparisons"]) == len(findings.items)
    assert findings_json["sentences"].keys() == {heading for heading, _ in findings.parts}
    first_comparison = findings_json["comparisons"][0]
    assert first_comparison["n"] == 6
    assert first_comparison["unit"] == "fraction"
    assert first_comparison["low"] < first_comparison["difference"] < first_comparison["high"]


@pytest.mark.parametrize("sd", [0.001, 0.01, 0.05, 0.2])
def test_the_number_of_seeds_has_the_power(sd: float) -> None:
    def power(n: int) -> float:
        t, shift = stats.t.ppf(0.975, n - 1), 0.05 / sd * math.sqrt(n)
        return float(stats.nct.sf(t, n - 1, shift) + stats.nct.cdf(-t, n - 1, shift))

    n = seeds_to_tell(sd, 0.05)
    assert n is not None
    assert n >= 2
    assert n == 2 or power(n - 1) < 0.8
    assert shift_is_large(sd, n) or power(n) >= 0.8


def shift_is_large(sd: float, n: int) -> bool:
    return 0.05 / sd * math.sqrt(n) > 30


def test_no_end_of_an_interval_is_beyond_100_points() -> None:
    """Two runs of a method spread so far that t would have their mean anywhere."""
    findings = found(rows(scores(2, 0.3, 3)))
    assert findings is not None
    text = " ".join(line for _, lines in findings.parts for line in lines)
    ends = [
        float(end)
        for pair in re.findall(r"\[([+-][\d.]+, [+-][\d.]+)\]", text)
        for end in pair.split(", ")
    ]
    assert len(ends) >= 10 and max(map(abs, ends)) == 100.0
