"""The first lines of a report: what was asked, in words of no field, and the answer; what makes the
question idle comes first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from crosswind.reports.claims.findings import Findings, find
from crosswind.reports.claims.questions import HEADING, power_words
from crosswind.reports.scores.results import arrange

GROUPS = {
    "kind=benign, ruler=no": 0.4,
    "kind=benign, ruler=yes": -0.1,
    "kind=melanoma, ruler=no": -0.2,
    "kind=melanoma, ruler=yes": 0.0,
}
"""What each group has more or less than the accuracy under the tie."""


def scored_rows(
    accuracy: Mapping[tuple[str, str], float],
    n: int = 8,
    spread: float = 0.02,
    groups: Mapping[str, float] | None = None,
    single: str = "",
) -> Iterator[dict[str, Any]]:
    """Results of `n` seeds by (shift, method). `single`: a group of one row, which is wrong."""
    draw = np.random.default_rng(0)
    for (shift, method), mean in accuracy.items():
        for seed in range(n):
            value = mean + spread * float(draw.normal())
            offsets = GROUPS if groups is None else groups
            table = {name: {"n": 10, "accuracy": value + less} for name, less in offsets.items()}
            if single:
                table[single] = {"n": 1, "accuracy": 0.0}
            worst = min(table, key=lambda name: table[name]["accuracy"])
            metrics = {
                "accuracy": value,
                "worst_group": table[worst]["accuracy"],
                "worst_group_name": worst,
                "worst_group_n": table[worst]["n"],
                "groups": table,
                "classes": 2,
                "majority": 0.5,
                "role": "test",
                "n": 40,
            }
            yield {
                "study": "s",
                "data": "moles",
                "shift": shift,
                "size": "",
                "model": "m",
                "method": method,
                "seed": seed,
                "status": "finished",
                "rule": "last",
                "set": "test",
                "metrics": metrics,
            }


TIE = {"type": "spurious-correlation", "attribute": "ruler", "strength": 0.84, "counterexamples": 0}


def answers(
    rows: Iterator[dict[str, Any]], tie: Any = TIE, options: Any = None, **resolved: Any
) -> list[str]:
    """The sentences under the first heading."""
    about = {
        "reference": "erm",
        "selection": ["last"],
        "shifts": {"none": [], "SC": tie},
        "data": {
            "moles": {
                "source": "table",
                "options": options or {"images": "img"},
                "label": "kind",
                "attributes": ["ruler"],
            }
        },
        "sets": {"test": {"law": "uniform"}},
        "claims": [],
    }
    findings = find(arrange(rows).shown(["last"]), {**about, **resolved}, [], [])
    assert isinstance(findings, Findings)
    heading, sentences = findings.parts[0]
    return list(sentences) if heading == HEADING else []


COST = {("none", "erm"): 0.83, ("SC", "erm"): 0.71, ("SC", "groupdro"): 0.79}


def test_what_a_tie_costs_for_whom_and_what_helps() -> None:
    (answer,) = answers(
        scored_rows(COST, spread=0.005, groups={**GROUPS, "kind=benign, ruler=no": -0.4})
    )
    assert answer.startswith(
        "With ruler tied to kind in 92% of the training pictures (SC), plain training (erm) is right"
        " on 71% of new pictures, in which ruler tells nothing, 1"
    )
    assert (
        "points [" in answer
        and "] fewer than without the tie; worst for kind benign with ruler no: 3" in answer
    )
    assert "What helps: groupdro wins " in answer


@pytest.mark.parametrize(
    ("tie", "share"),
    [
        ({**TIE, "strength": 0.5}, " in 75% of the training pictures"),
        ({**TIE, "strength": 1.0, "counterexamples": 0.25}, " in 80% of the training pictures"),
        ({**TIE, "strength": 1, "counterexamples": 12}, ""),
        ([TIE], " in 92% of the training pictures"),
    ],
)
def test_the_share_of_training_is_that_of_the_shift(tie: Any, share: str) -> None:
    (answer,) = answers(scored_rows(COST), tie)
    assert answer.startswith(f"With ruler tied to kind{share} (SC), plain")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"text": "text"}, "new texts"),
        ({"numbers": ["x"]}, "new rows"),
        ({"images": "i"}, "new pictures"),
    ],
)
def test_rows_are_called_what_they_are(options: dict[str, Any], words: str) -> None:
    (answer,) = answers(scored_rows(COST), options=options)
    assert words in answer


def found(rows: Iterator[dict[str, Any]]) -> Findings:
    about = {
        "reference": "erm",
        "selection": ["last"],
        "shifts": {"none": [], "SC": TIE},
        "sets": {"test": {"law": "uniform"}},
        "claims": [],
    }
    findings = find(arrange(rows).shown(["last"]), about, [], [])
    assert isinstance(findings, Findings)
    return findings


def test_a_worst_group_of_one_row_is_no_finding() -> None:
    """It is named with its single row and what to do; of other groups the rows are said."""
    single = "kind=melanoma, ruler=pink"
    findings = found(scored_rows(COST, spread=0.005, single=single))
    assert {finding.metric for finding in findings.items} == {"accuracy"}
    parts = dict(findings.parts)
    assert parts["No finding on the worst group"] == [
        f"{single} has 1 test row and is the worst group of erm under none, erm under SC, groupdro"
        " under SC: one row is no group. Leave its value out (keep), join it with another, or test"
        " more of its rows."
    ]
    assert answers(scored_rows(COST, spread=0.005, single=single)) == []  # no even test set
    (answer,) = answers(scored_rows(COST, spread=0.005))
    assert "worst for kind melanoma with ruler no: 51% of its 10 test rows a run" in answer
    plain = found(scored_rows(COST, spread=0.005))
    assert "No finding on the worst group" not in dict(plain.parts)
    assert {finding.metric for finding in plain.items} == {"accuracy", "worst_group"}


def test_a_group_of_several_attributes_is_named_as_a_list() -> None:
    several = "kind=benign, ruler=no, skin=dark, lamp=on"
    groups = {several: -0.5, several.replace("benign", "melanoma"): 0.0}
    (answer,) = answers(scored_rows(COST, spread=0.005, groups=groups))
    assert "worst for kind benign with ruler no, skin dark and lamp on: " in answer


def test_classes_whose_names_hold_commas_and_equals_signs_are_named_whole() -> None:
    groups = {
        "kind=moss, dry, ruler=no": -0.1,
        "kind=moss, wet, ruler=no": 0.0,
        "kind=moss, dry, ruler=yes": 0.1,
        "kind=moss, wet, ruler=yes": 0.1,
        "kind=a, b=c, ruler=no": 0.1,
        "kind=a, b=c, ruler=yes": 0.1,
    }
    (answer,) = answers(scored_rows(COST, groups=groups))
    assert "; worst for kind moss, dry with ruler no: 59% of its 10 test rows a run" in answer
    # By chance a tie of 0.84 shows a matched value of three classes in 0.84 + 0.16 / 2.
    assert answer.startswith("With ruler tied to kind in 92% of the training pictures (SC)")
    never = {**groups, "kind=moss, dry, ruler=no": -0.9, "kind=moss, dry, ruler=yes": -0.9}
    (doubt,) = answers(scored_rows(COST, groups=never))
    assert doubt.startswith("nobody learns kind=moss, dry: erm is right on less than 5%")


def test_of_many_methods_that_do_not_help_the_number_is_said() -> None:
    methods = {("SC", f"method {number}"): 0.6 for number in range(7)}
    (answer,) = answers(scored_rows({**COST, **methods, ("SC", "groupdro"): 0.6}))
    assert answer.endswith(" No method was told to help (8 were tried).")


def test_a_cost_that_is_the_same_at_every_seed_is_not_said_to_be_of_one_run() -> None:
    (answer,) = answers(scored_rows(COST, n=3, spread=0.0))
    assert "12 points fewer than without the tie, the same at every seed, which may be" in answer


def test_what_could_not_have_been_told_is_not_called_no_cost() -> None:
    means = {("none", "erm"): 0.75, ("SC", "erm"): 0.72}
    (answer,) = answers(scored_rows(means, n=3, spread=0.08))
    assert re.search(
        r"5 points fewer \[10 fewer to 0\.7 more\] than without the tie, which may be chance, ",
        answer,
    )
    assert "points would have been told with a power of 80%; worst for" in answer
    findings = find(
        arrange(scored_rows(means, n=3, spread=0.08)).shown(["last"]),
        {
            "reference": "erm",
            "selection": ["last"],
            "shifts": {"none": [], "SC": TIE},
            "sets": {"test": {"law": "uniform"}},
            "claims": [],
        },
        [],
        [],
    )
    assert findings is not None
    (cost,) = next(lines for heading, lines in findings.parts if heading.startswith("What each"))
    assert cost.startswith("No cost could be told; a cost of ") and "power of 80%" in cost


def test_a_network_at_chance_is_said_before_anything_else() -> None:
    (answer,) = answers(scored_rows({("none", "erm"): 0.5, ("SC", "erm"): 0.5}))
    assert answer.startswith("erm learns nothing: it is right on 50")
    assert "more steps, another learning rate, a larger network or more rows" in answer


def test_two_seeds_of_a_network_that_learns_are_not_said_to_guess() -> None:
    """Their interval reaches from 25% to 121%; 73% of 450 rows is no guess all the same."""
    rows = list(scored_rows({("none", "erm"): 0.73, ("SC", "erm"): 0.52}, n=2, spread=0.0))
    for row in rows:
        row["metrics"]["n"] = 450
        row["metrics"]["accuracy"] += 0.04 * (-1) ** row["seed"]
    (answer,) = answers(iter(rows))
    assert answer.startswith("With ruler tied to kind in 92%") and "may be chance" in answer
    for row in rows:
        row["metrics"]["n"] = 8
    (answer,) = answers(iter(rows))
    assert answer.startswith("erm learns nothing"), "of so few rows that many are right by chance"


def _guesses(accuracy: Mapping[tuple[str, str], float], n_rows: int = 200) -> Findings:
    """The findings of 30 seeds whose means are told apart, of runs of so many test rows."""
    rows = list(scored_rows(accuracy, n=30, spread=0.01))
    for row in rows:
        row["metrics"]["n"] = n_rows
    return found(iter(rows))


def test_a_difference_of_two_guesses_is_no_finding() -> None:
    """49% and 47% of 200 rows: 30 seeds tell them apart, and neither from guessing."""
    means = {("none", "erm"): 0.49, ("SC", "erm"): 0.47, ("SC", "jtt"): 0.49}
    findings = _guesses(means)
    cost, gain = (finding for finding in findings.items if finding.metric == "accuracy")
    assert cost.difference.p is not None and cost.difference.p < 0.001
    assert cost.guesses and gain.guesses
    assert not cost.told and not gain.told and not gain.about_equal
    text = findings.to_text()
    assert "SC for erm, accuracy: -1.6; neither is told from guessing." in text
    assert "points of accuracy" not in text
    assert "No answer yet: erm learns nothing" in text
    assert findings.to_json()["comparisons"][0]["guesses"] is True


def test_two_guesses_count_in_the_family_of_what_is_judged() -> None:
    """Else a difference beside them would be told the more easily the less was learnt."""
    findings = _guesses({("none", "erm"): 0.49, ("SC", "erm"): 0.47})
    assert [finding.guesses for finding in findings.items] == [True, False]
    assert [finding.family for finding in findings.items] == [2, 2]


@pytest.mark.parametrize(
    ("shifted", "method", "n_rows"),
    [
        (0.30, 0.49, 200),  # misled: it reads the tie where it is the other way round
        (0.49, 0.70, 200),  # the method learns what plain training does not
        (0.49, 0.47, 20_000),  # so many rows tell 47% from guessing
    ],
)
def test_what_one_side_has_learnt_is_judged(shifted: float, method: float, n_rows: int) -> None:
    means = {("none", "erm"): 0.49, ("SC", "erm"): shifted, ("SC", "jtt"): method}
    (gain,) = (
        finding
        for finding in _guesses(means, n_rows).items
        if finding.method == "jtt" and finding.metric == "accuracy"
    )
    assert gain.told and not gain.guesses


def test_a_class_that_nobody_learns_is_said_before_anything_else() -> None:
    groups = {**GROUPS, "kind=melanoma, ruler=no": -0.7, "kind=melanoma, ruler=yes": -0.69}
    (answer,) = answers(scored_rows({("none", "erm"): 0.7, ("SC", "erm"): 0.65}, groups=groups))
    assert answer.startswith(
        "nobody learns kind=melanoma: erm is right on less than 5% of its rows"
    )


def test_a_test_set_that_is_tied_itself_answers_nothing() -> None:
    """Of all rows of an official test role as many are tied as in the table."""
    rows = list(scored_rows(COST))
    assert answers(iter(rows))
    for row in rows:
        row["metrics"]["groups"]["kind=benign, ruler=no"]["n"] = 16
    assert answers(iter(rows)) == []


def test_only_ties_beside_no_shift_on_even_rows_are_asked_about() -> None:
    assert answers(scored_rows(COST), {"type": "unseen-data", "attribute": "ruler"}) == []
    assert answers(scored_rows(COST), sets={"test": {"law": "train"}}) == []
    assert answers(scored_rows(COST), shifts={"none": [{"type": "x"}], "SC": TIE}) == []


@pytest.mark.parametrize(
    ("spread", "words"),
    [
        (0.02, r"^a cost of [\d.]+ to [\d.]+ points would have been told with a power of 80%$"),
        (0.5, "^at best a cost of 33 points would have been told with a power of 80%$"),
        (3.0, "^no cost, however large, would have been told with a power of 80%$"),
    ],
)
def test_a_cost_that_would_have_been_told_is_at_most_all_points(spread: float, words: str) -> None:
    findings = found(scored_rows(COST, n=3, spread=spread)).items
    finding = next(
        finding for finding in findings if finding.kind == "cost" and finding.metric == "accuracy"
    )
    assert re.search(words, power_words(finding)), power_words(finding)


def test_no_power_is_told_where_seeds_are_crossed_with_split_seeds() -> None:
    """That of the t-test over all runs promised to tell 4 points where the interval was 115 wide."""
    means = {("none", "erm"): 0.75, ("SC", "erm"): 0.72}
    words = []
    for seeds in (3, 1):
        rows = list(scored_rows(means, n=6, spread=0.05))
        for row in rows:
            row["split_seed"], row["seed"] = divmod(row["seed"], seeds)
        findings = found(iter(rows)).items
        words += [power_words(finding) for finding in findings if finding.metric == "accuracy"]
    crossed, one_seed_each = words
    assert crossed == "" and "with a power of 80%" in one_seed_each


def test_a_single_run_has_no_interval() -> None:
    means = {("none", "erm"): 0.75, ("SC", "erm"): 0.72}
    (answer,) = answers(scored_rows(means, n=1, spread=0.0))
    assert "3 points fewer than without the tie, of a single run, which may be chance" in answer
    assert "[" not in answer


def test_equal_runs_without_an_interval_are_not_called_a_single_one() -> None:
    means = {("none", "erm"): 0.75, ("SC", "erm"): 0.72}
    (answer,) = answers(scored_rows(means, n=2, spread=0.0))
    assert "than without the tie, the same at every seed, which may be chance" in answer
