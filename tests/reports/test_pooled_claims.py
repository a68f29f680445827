"""Claims over several cases in reports: verdicts worked by hand, one family with the other claims, what
stands below the table, sentences, and numbers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reports.test_claims import ERM, STRONG, claim, run, several

from crosswind.reports.claims.claim_tables import claim_number_tables, claim_tables
from crosswind.reports.claims.findings import _claim
from crosswind.reports.claims.judgements import judge
from crosswind.reports.claims.pooled_judgements import PooledJudgement
from crosswind.reports.claims.verdict_words import CANNOT_TELL, HOLDS, NOT_RUN, OPPOSITE
from crosswind.reports.scores.results import arrange
from crosswind.studies.spec import PooledClaim

METHODS = ("erm", "irm", "groupdro", "augmix", "randaugment")
HARD = [0.40, 0.43, 0.41]


def over(test: str = "mean", **fields: Any) -> dict[str, Any]:
    """A claim over cases as a store keeps it, with every default."""
    return PooledClaim(**{"text": "it helps", "test": test, **fields}).model_dump()


def judged(rows: list[Any], *claims: dict[str, Any], **settings: Any) -> list[Any]:
    resolved = {
        "name": "mini",
        "reference": "erm",
        "selection": ["best-id"],
        "methods": dict.fromkeys(METHODS, {}),
        "claims": list(claims),
        **settings,
    }
    return judge(arrange(rows), resolved)


# irm is above erm by 0.10, 0.11, 0.09 under SC and by 0.02, 0.01, 0.03 without.
TWO = [
    *ERM,
    *several("irm", STRONG),
    *several("erm", [0.60, 0.62, 0.64], shift="none"),
    *several("irm", [0.62, 0.63, 0.67], shift="none"),
]


def test_a_mean_is_over_shifts_and_paired_by_seed() -> None:
    """0.06, 0.06, 0.06 has no spread; without a third of the last: 0.06, 0.06, 0.05."""
    (constant,) = judged(TWO, over(better="irm"))
    assert constant.value == pytest.approx(0.06) and constant.verdict == CANNOT_TELL
    rows = [*TWO[:-2], *run("irm", 2, 0.65, shift="none")]
    (judgement,) = judged(rows, over(better="irm"))
    assert judgement.tested.differences == pytest.approx({0: 0.06, 1: 0.06, 2: 0.05})
    assert judgement.verdict == HOLDS and judgement.cases == 2
    assert judged(rows, over(better="irm", by=0.1))[0].verdict == OPPOSITE
    assert judged(rows, over(better="irm", by=0.056))[0].verdict == CANNOT_TELL


def test_each_is_judged_one_by_one() -> None:
    judgements = judged(TWO, over(better="irm", each=["shift"]))
    assert [(item.only, round(item.value, 6)) for item in judgements] == [
        ({"shift": "SC"}, 0.1),
        ({"shift": "none"}, 0.02),
    ]
    assert [item.family for item in judgements] == [2, 2]
    assert [item.verdict for item in judgements] == [HOLDS, CANNOT_TELL]  # p 0.0066 and 0.074


def test_sides_may_be_shifts_of_the_same_rows() -> None:
    rows = [*TWO, *several("erm", HARD, shift="both"), *several("irm", HARD, shift="both")]
    harder = {"methods": "all", "shift": "both"}
    easier = {"methods": "all", "shift": ["SC", "none"]}
    (judgement,) = judged(rows, over(better=easier, than=harder))
    first = (0.60 + 0.70 + 0.60 + 0.62) / 4 - 0.40
    assert judgement.tested.differences[0] == pytest.approx(first)
    assert judgement.better == "all 2 rows under SC, none" and judgement.cases == 4


def test_gaps_are_compared_as_differences_of_differences() -> None:
    """SC costs erm nothing and irm -0.08, -0.10, -0.06: worked by hand, seed by seed."""
    cost = {"shift": "none", "minus": {"shift": "SC"}}
    claimed = over(better={"methods": "erm", **cost}, than={"methods": "irm", **cost})
    (judgement,) = judged(TWO, claimed)
    expected = {0: 0.08, 1: 0.10, 2: 0.06}
    assert judgement.tested.differences == pytest.approx(expected)
    assert judgement.better == "erm under none less erm under SC"
    assert judgement.hypothesis == (
        "the mean of erm under none less erm under SC is not above that of irm under none less irm"
        " under SC"
    )
    # Written the other way round, as gains of irm under either shift.
    gain = {"methods": "irm", "minus": {"methods": "erm"}}
    turned = over(better={**gain, "shift": "SC"}, than={**gain, "shift": "none"})
    assert judged(TWO, turned)[0].tested.differences == pytest.approx(expected)
    (beyond,) = judged(TWO, over(better=claimed["better"], than=claimed["than"], by=0.05))
    assert beyond.value == pytest.approx(judgement.value - 0.05)


def test_a_gap_of_which_one_part_was_not_run_has_no_verdict() -> None:
    cost = {"shift": "none", "minus": {"shift": "SC"}}
    claimed = over(better={"methods": "erm", **cost}, than={"methods": "irm", **cost})
    waits = [*TWO[:-2], *run("irm", 2, 0.0, shift="none", status="pending")]
    (judgement,) = judged(waits, claimed)
    assert judgement.waits and judgement.verdict == NOT_RUN and judgement.value is None
    (judgement,) = judged(TWO[:-2], claimed)
    assert sorted(judgement.tested.differences) == [0, 1], "the seed without a part is left out"


def test_changes_are_in_percent_of_the_reference_of_the_same_case() -> None:
    (judgement,) = judged(TWO, over(better="irm", relative=True, shift="SC"))
    assert judgement.tested.differences[0] == pytest.approx(100 * (0.70 / 0.60 - 1))
    (table,) = claim_tables("mini", [judgement])
    assert table.cells[0][2] == "+16.2%"  # 16.67, 17.74 and 14.06


def test_families_are_compared() -> None:
    rows = [
        *TWO,
        *several("augmix", [0.8, 0.81, 0.83]),
        *several("randaugment", [0.6, 0.63, 0.65]),
    ]
    sides = {"better": {"family": "heuristic augmentation"}, "than": "irm"}
    (judgement,) = judged(rows, over(**sides))
    assert judgement.tested.differences == pytest.approx({0: 0.0, 1: -0.01, 2: 0.01})
    assert judgement.better == "heuristic augmentation (2 rows)"
    assert judgement.cases == 2  # only under SC: the other shift has no such rows


def test_a_share_of_cases_counts_means_over_seeds() -> None:
    rows = [
        row
        for number in range(8)
        for method, value in (("erm", 0.5), ("irm", 0.6 if number else 0.4))
        for row in several(method, [value, value + 0.01], shift=f"s{number}")
    ]
    (judgement,) = judged(rows, over("share", better="irm"))
    assert (judgement.tested.positive, judgement.tested.n) == (7, 8)
    assert judgement.p == pytest.approx(2 * 9 / 256) and judgement.verdict == CANNOT_TELL
    assert judged(rows, over("share", better="irm", share=0.3))[0].verdict == HOLDS
    assert "in 7 of 8" in _claim(judgement, False) and "8 cases" in _claim(judgement, False)
    # Above by at least 0.2 in none.
    assert judged(rows, over("share", better="irm", by=0.2))[0].verdict == OPPOSITE


def test_a_share_of_rows_compares_each_with_itself() -> None:
    """erm loses 0.1 and irm gains 0.1: beside the mean of both, irm would be above in any case."""
    rows = [
        *several("erm", [0.5, 0.51]),
        *several("irm", [0.9, 0.91]),
        *several("erm", [0.6, 0.61], shift="none"),
        *several("irm", [0.8, 0.81], shift="none"),
    ]
    sides = {"better": {"shift": "SC"}, "than": {"shift": "none"}}
    (judgement,) = judged(rows, over("share", **sides))
    assert (judgement.tested.positive, judgement.tested.n) == (1, 2)
    sides = {"better": {"shift": "SC", "methods": "irm"}, "than": {"shift": "none"}}
    assert judged(rows, over("share", **sides))[0].tested.positive == 1


def test_an_order_of_shifts() -> None:
    rows = [
        row
        for shift, level in (("UDS", 0.7), ("SC", 0.5), ("LDD", 0.9))
        for row in several("erm", [level, level + 0.01, level - 0.01], shift=shift)
    ]
    rising = over("order", better="erm", along={"shift": ["SC", "UDS", "LDD"]})
    (judgement,) = judged(rows, rising)
    assert judgement.value == pytest.approx(1.0) and judgement.p == pytest.approx(2 / 216)
    assert judgement.verdict == HOLDS
    falling = over("order", better="erm", along={"shift": ["LDD", "UDS", "SC"]})
    assert judged(rows, falling)[0].verdict == OPPOSITE
    (table,) = claim_tables("mini", [judgement])
    assert "rank correlation +1.00" in table.cells[0]
    assert "3 blocks, 3 cases" in table.cells[0]


def test_a_gain_that_grows_along_sizes() -> None:
    """irm less erm at three sizes: 0, 0.1, 0.2; both fall."""
    rows = [
        {**row, "size": f"n={number}"}
        for number in (1, 2, 3)
        for method in ("erm", "irm")
        for row in several(
            method,
            [0.9 - 0.2 * number + 0.1 * number * (method == "irm") + 0.01 * s for s in range(3)],
        )
    ]
    grows = over("order", better="irm", than="erm", along={"size": ["n=1", "n=2", "n=3"]})
    (judgement,) = judged(rows, grows)
    assert judgement.value == pytest.approx(1.0) and judgement.verdict == HOLDS


def test_shifts_agree_on_methods() -> None:
    accuracies = {"erm": 0.5, "irm": 0.6, "groupdro": 0.7, "augmix": 0.8, "randaugment": 0.9}
    rows = [
        row
        for shift, sign in (("SC", 1), ("LDD", 1), ("UDS", -1))
        for method, value in accuracies.items()
        for row in several(method, [0.5 + sign * (value - 0.5) / 2], shift=shift)
    ]
    alike = over("agreement", along={"shift": ["SC", "LDD"]})
    turned = over("agreement", along={"shift": ["SC", "UDS"]})
    first, second = judged(rows, alike, turned)
    assert first.value == pytest.approx(1.0) and first.p == pytest.approx(2 / 120)
    assert (first.verdict, second.verdict) == (HOLDS, OPPOSITE)
    assert first.tested.n == 5


def test_nobody_is_best_and_ranks() -> None:
    rows = [
        *ERM,
        *several("irm", STRONG),
        *several("groupdro", [0.3, 0.31, 0.3]),
        *several("erm", STRONG, shift="none"),
        *several("irm", [0.60, 0.62, 0.64], shift="none"),
        *several("groupdro", [0.3, 0.31, 0.3], shift="none"),
    ]
    best, ranks = judged(rows, over("nobody-best"), over("ranks"))
    # One-sided 0.00166, times 4 tests a row, twice: 0.0133, and times 2 by Holm.
    assert best.p == pytest.approx(8 * 0.00166, abs=2e-4) and best.verdict == HOLDS
    assert ranks.tested.n == 6 and ranks.value == pytest.approx(0.75)
    (table,) = claim_tables("mini", [best, ranks])
    assert any(
        "highest mean of 2 cases is that of erm on mlp 1, irm on mlp 1" in note
        for note in table.notes
    )


def test_one_family_with_the_claims_of_single_places() -> None:
    rows = [*TWO[:-2], *run("irm", 2, 0.65, shift="none")]
    single, pooled = judged(rows, claim(shift="SC"), over(better="irm"))
    assert (single.family, pooled.family) == (2, 2)
    assert (
        single.adjusted == pytest.approx(2 * min(single.p, pooled.p)) or single.adjusted > single.p
    )
    tables = claim_tables("mini", [single, pooled])
    assert [table.name for table in tables] == ["claims-mini", "claims-over-cases-mini"]
    single_alone, pooled_alone = judged(
        rows, claim(shift="SC"), over(better="irm"), multiplicity="none"
    )
    assert single_alone.adjusted == single_alone.p and pooled_alone.adjusted == pooled_alone.p


def test_a_claim_that_waits_says_nothing() -> None:
    rows = [*TWO[:-2], *run("irm", 2, 0.0, shift="none", status="pending")]
    (judgement,) = judged(rows, over(better="irm"))
    assert judgement.verdict == NOT_RUN and judgement.value is None and judgement.adjusted is None
    assert _claim(judgement, False) == f"it helps: {NOT_RUN}."
    (table,) = claim_tables("mini", [judgement])
    assert any("1 of 1 wait for runs" in note for note in table.notes)
    # A run of another shift is none of the claim's.
    assert judged(rows, over(better="irm", shift="SC"))[0].verdict == HOLDS


def test_seeds_that_lack_a_score_are_left_out_and_counted() -> None:
    rows = [*TWO[:-2], *run("irm", 2, 0.0, shift="none", status="failed")]
    (judgement,) = judged(rows, over(better="irm"))
    assert set(judgement.tested.differences) == {0, 1} and judgement.failed == 1
    (table,) = claim_tables("mini", [judgement])
    assert "Claim 1: 1 run failed; their seeds are left out." in table.notes


def test_hypothesis_and_power_stand_below_the_table() -> None:
    (judgement,) = judged(TWO, over(better="irm", shift="none", by=0.01, text="by a point"))
    assert judgement.verdict == CANNOT_TELL
    (table,) = claim_tables("mini", [judgement])
    assert (
        "Claim 1 is tested against: the mean of irm is not above that of erm on mlp by no more than 1 point."
        in table.notes
    )
    assert any(note.startswith("A power of 80% is had for: claim 1 ") for note in table.notes)
    assert "would have been told with a power of 80%" in _claim(judgement, False)


def test_a_value_beyond_a_claimed_difference_names_that_limit() -> None:
    """What is printed is the difference less the claimed one, which alone would read as the
    difference."""
    (plain,) = judged(TWO, over(better="irm", shift="none"))
    (limited,) = judged(TWO, over(better="irm", shift="none", by=-0.05))
    assert limited.value == pytest.approx(plain.value + 0.05)
    assert " points against the limit of -5.0 points [" in _claim(limited, False)
    assert "limit" not in _claim(plain, False)


def test_numbers_are_in_one_tidy_table() -> None:
    judgements = judged(TWO, claim(shift="SC"), over(better="irm", shift="SC"))
    tables = claim_number_tables("mini", judgements)
    assert len(tables) == 2
    row = dict(zip(tables[1].columns, tables[1].rows[0], strict=True))
    assert (row["test"], row["n"], row["cases"], row["verdict"]) == ("mean", 3, 1, HOLDS)
    assert row["value"] == pytest.approx(0.1) and row["low"] < 0.1 < row["high"]
    assert isinstance(judgements[1], PooledJudgement)
    assert "\\begin" in tables[1].to_latex()


def test_one_that_leads_everywhere_turns_the_claim_that_nobody_does() -> None:
    rows = [*several("erm", STRONG), *several("irm", [0.60, 0.62, 0.64])]
    rows += [
        *several("erm", STRONG, shift="none"),
        *several("irm", [0.60, 0.62, 0.64], shift="none"),
    ]
    (judgement,) = judged(rows, over("nobody-best"))
    assert judgement.verdict == OPPOSITE and judgement.value == 0
