"""Claims in reports: verdicts worked by hand, where a claim is judged, what stands below the table,
and the table on the page."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_fuzz_stores import whole_store

from crosswind.cli.main import _status
from crosswind.core.errors import StoreError
from crosswind.reports import page as page_module
from crosswind.reports.claims.claim_tables import claim_number_table, claim_table
from crosswind.reports.claims.findings import _claim
from crosswind.reports.claims.judgements import Judgement, judge
from crosswind.reports.claims.verdict_words import CANNOT_TELL, HOLDS, NOT_RUN, OPPOSITE
from crosswind.reports.gather import gather
from crosswind.reports.scores.results import arrange
from crosswind.reports.tables import ReportTable
from crosswind.storage.store import Store
from crosswind.studies.claims import rule_of
from crosswind.studies.spec import Claim


def claim(**fields: Any) -> dict[str, Any]:
    """A claim as a store keeps it, with every default."""
    return Claim(**{"text": "it helps", "better": "irm", **fields}).model_dump()


def run(
    method: str,
    seed: int,
    test: float,
    *,
    shift: str = "SC",
    model: str = "mlp",
    point: str = "",
    **fields: Any,
) -> list[Any]:
    base = {
        "study": "mini",
        "data": "digits",
        "shift": shift,
        "size": "few",
        "model": model,
        "method": method,
        "point": point,
    }
    base |= {"seed": seed, "status": fields.pop("status", "finished")}
    if base["status"] not in ("finished", "diverged"):
        return [{**base, "rule": None, "set": None, "metrics": None}]
    metrics = {
        "accuracy": test,
        "worst_group": test / 2,
        "balanced_accuracy": test,
        "n": 100,
        "role": "test",
    }
    validation = {**metrics, "accuracy": fields.pop("validation", 0.5), "role": "validation"}
    scored = [("best-id", "test", metrics), ("best-id", "validation", validation)]
    return [{**base, "rule": rule, "set": name, "metrics": values} for rule, name, values in scored]


def several(method: str, values: list[float], **fields: Any) -> list[Any]:
    return [row for seed, value in enumerate(values) for row in run(method, seed, value, **fields)]


def judged(rows: list[Any], *claims: dict[str, Any], **settings: Any) -> list[Judgement]:
    return judge(
        arrange(rows),
        {
            "name": "mini",
            "reference": "erm",
            "selection": ["best-id"],
            "claims": list(claims),
            **settings,
        },
    )


def tabled(judgements: list[Judgement]) -> ReportTable:
    table = claim_table("mini", judgements)
    assert table is not None
    return table


def numbered(judgements: list[Judgement]) -> list[dict[str, Any]]:
    """The rows of the table of numbers, by column."""
    table = claim_number_table("mini", judgements)
    assert table is not None
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


ERM = several("erm", [0.60, 0.62, 0.64])


@pytest.mark.parametrize(
    "irm,verdict",
    [
        (
            [0.70, 0.73, 0.73],
            HOLDS,
        ),  # 0.10, 0.11, 0.09: mean 0.1, sd 0.01, half-width 4.3027 * 0.01 / sqrt 3 = 0.0248
        ([0.50, 0.53, 0.53], OPPOSITE),  # the same below 0
        ([0.61, 0.64, 0.61], CANNOT_TELL),  # 0.01, 0.02, -0.03: mean 0
        (
            [0.62, 0.63, 0.67],
            CANNOT_TELL,
        ),  # 0.02, 0.01, 0.03: mean 0.02, half-width 0.0248: more in every seed, and 0 inside
        (
            [0.65, 0.67, 0.69],
            CANNOT_TELL,
        ),  # 0.05 at every seed: without a spread there is nothing to judge by
    ],
)
def test_verdicts_by_hand(irm: list[float], verdict: str) -> None:
    (judgement,) = judged(ERM + several("irm", irm), claim())
    assert judgement.verdict == verdict


def test_the_numbers_by_hand() -> None:
    """Differences 0.10, 0.11, 0.09: mean 0.1, interval 0.1 - 0.0248 to 0.1 + 0.0248; worst groups
    are half of each.

    t = 0.1 / (0.01 / sqrt 3) = 17.32; for 2 degrees of freedom p = 1 - t / sqrt(2 + t^2) = 1 -
    17.32 / sqrt 302 = 0.00332. Both claims have it: 0.00332 * 2 = 0.00664.
    """
    judgements = judged(
        ERM + several("irm", [0.70, 0.73, 0.73]), claim(), claim(metric="worst_group")
    )
    table = tabled(judgements)
    assert (
        table.title == "Claims (mini, digits, shift SC, size few, mlp, set test, selection best-id)"
    )
    assert table.columns == (
        "claim",
        "verdict",
        "better",
        "than",
        "score",
        "difference",
        "95% interval",
        "p, Holm",
        "seeds",
    )
    assert table.rows[0] == (
        1,
        HOLDS,
        "irm",
        "erm",
        "accuracy",
        "+0.100",
        "+0.075 to +0.125",
        "0.007",
        3,
    )
    assert table.rows[1] == (
        2,
        HOLDS,
        "irm",
        "erm",
        "worst group",
        "+0.050",
        "+0.038 to +0.062",
        "0.007",
        3,
    )
    assert table.notes[:2] == ("Claim 1: it helps", "Claim 2: it helps")
    assert any(
        "adjusted for the 2 judgements of this study together" in note for note in table.notes
    )
    assert judgements[0].adjusted == pytest.approx(0.00664, abs=1e-5)
    row, worst = numbered(judgements)
    assert (row["better_mean"], row["than_mean"]) == (pytest.approx(0.72), pytest.approx(0.62))
    assert (worst["better_mean"], worst["than_mean"]) == (pytest.approx(0.36), pytest.approx(0.31))
    assert (row["diff"], row["diff_low"], row["n"]) == (
        pytest.approx(0.1),
        pytest.approx(0.07516, abs=1e-5),
        3,
    )


def test_a_model_that_is_asked_counts_once_though_it_stands_beside_every_trained_one() -> None:
    rows = [
        row for model in ("mlp", "cnn") for row in several("erm", [0.6, 0.62, 0.64], model=model)
    ]
    rows += [
        row
        for model in ("mlp", "cnn")
        for name in ("llava", "phi")
        for row in several(name, [0.5] * 3, model=model)
    ]
    on = [{"method": "erm", "model": "cnn"}, {"method": "llava"}]
    claims = [
        (on[0], on[1]),
        (on[1], on[0]),
        (on[1], {"method": "phi"}),
        (on[1], {"method": "erm"}),
        ({"method": "erm"}, on[1]),
    ]
    study_models = {
        "models": {name: {} for name in ("mlp", "cnn", "llava", "phi")},
        "methods": {"erm": {}},
    }
    judgements = judged(
        rows, *(claim(better=better, than=than) for better, than in claims), **study_models
    )
    assert [
        (judgement.number, judgement.better.model, judgement.than.model) for judgement in judgements
    ] == [
        (1, "cnn", "cnn"),
        (2, "cnn", "cnn"),
        (3, "mlp", "mlp"),
        (4, "mlp", "mlp"),
        (4, "cnn", "cnn"),
        (5, "mlp", "mlp"),
        (5, "cnn", "cnn"),
    ]
    for row in rows:  # what is of the training rows differs by seed for a model that is asked, too
        row["metrics"] = {**row["metrics"], "selected_step": 0, "train_shared": row["seed"] / 10}
    (place_results,) = [at for at in arrange(rows).shown() if at.place.model == "cnn"]
    assert [
        place_results.entries["SC", name].summary("accuracy").n for name in ("erm", "llava")
    ] == [3, 1]  # type: ignore[union-attr]


def test_what_a_claim_leaves_open_is_judged_at_each() -> None:
    rows = ERM + several("irm", [0.70, 0.73, 0.73]) + several("erm", [0.5, 0.5, 0.6], shift="none")
    rows += several("irm", [0.4, 0.3, 0.5], shift="none", model="cnn") + several(
        "erm", [0.6, 0.5, 0.6], shift="none", model="cnn"
    )
    judgements = judged(
        rows,
        claim(),
        claim(better={"method": "erm", "model": "cnn"}, than={"method": "erm", "model": "mlp"}),
    )
    assert [
        (judgement.number, judgement.shift, judgement.better.model, judgement.than.model)
        for judgement in judgements
    ] == [
        (1, "SC", "mlp", "mlp"),
        (1, "none", "cnn", "cnn"),  # irm is not run on mlp there, and erm on cnn not under SC
        (2, "none", "cnn", "mlp"),
    ]
    table = tabled(judgements)
    cells = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["shift"], row["model"], row["better"]) for row in cells] == [
        ("SC", "mlp", "irm"),
        ("none", "cnn", "irm"),
        ("none", None, "erm, cnn"),
    ]
    assert judged(rows, claim(shift="SC", model="cnn")) == []
    judgements = judged(rows, claim(better={"method": "erm", "model": "cnn"}, than="erm"))
    assert [(judgement.better.model, judgement.than.model) for judgement in judgements] == [
        ("cnn", "mlp")
    ]  # and not cnn with itself


# 0.10, 0.11, 0.09 above erm: p 0.0033 (see above). 0.06, 0.11, 0.07: mean 0.08, sd 0.02646, t
# 5.237, p 0.0346. And nothing: p 1.
STRONG, WEAK, NOTHING = [0.70, 0.73, 0.73], [0.66, 0.73, 0.71], [0.61, 0.62, 0.63]
THREE = [claim(), claim(better="weak"), claim(better="nothing")]


def family(**fields: Any) -> list[Any]:
    return (
        ERM
        + several("irm", STRONG)
        + several("weak", WEAK, **fields)
        + several("nothing", NOTHING, **fields)
    )


@pytest.mark.parametrize(
    "multiplicity,adjusted,verdicts",
    [
        ("holm", [0.00997, 0.0692, 1.0], [HOLDS, CANNOT_TELL, CANNOT_TELL]),  # times 3, 2, 1
        (
            "fdr",
            [0.00997, 0.0519, 1.0],
            [HOLDS, CANNOT_TELL, CANNOT_TELL],
        ),  # times 3 / 1, 3 / 2, 3 / 3
        ("none", [0.00332, 0.0346, 1.0], [HOLDS, HOLDS, CANNOT_TELL]),
    ],
)
def test_verdicts_are_of_the_claims_together(
    multiplicity: str, adjusted: list[float], verdicts: list[str]
) -> None:
    judgements = judged(family(), *THREE, multiplicity=multiplicity)
    assert [judgement.adjusted for judgement in judgements] == pytest.approx(adjusted, abs=1e-4)
    assert [judgement.verdict for judgement in judgements] == verdicts
    table, cells = tabled(judgements), numbered(judgements)[1]
    # 0.08 -+ t(2) * 0.02646 / sqrt 3: t is 7.6488 at 1 - 0.05 / 3, where one of three is told, and
    # 4.3027 at 0.95.
    levels = {
        "holm": ("98.3%", "-0.037 to +0.197"),
        "fdr": ("98.3%", "-0.037 to +0.197"),
        "none": ("95%", "+0.014 to +0.146"),
    }
    assert (table.columns[-3], table.rows[1][-3]) == (
        f"{levels[multiplicity][0]} interval",
        levels[multiplicity][1],
    )
    assert any("Each is judged for itself" in note for note in table.notes) == (
        multiplicity == "none"
    )
    assert (cells["p"], cells["p_adjusted"]) == (
        pytest.approx(0.0346, abs=1e-4),
        pytest.approx(adjusted[1], abs=1e-4),
    )
    assert (cells["multiplicity"], cells["family"], cells["splits"]) == (multiplicity, 3, 1)


def test_another_method_or_rule_changes_no_verdict_and_another_claim_does() -> None:
    larger_family = (
        family()
        + several("other", [0.9, 0.91, 0.95])
        + several("irm", STRONG, shift="none")
        + several("erm", WEAK, shift="none")
    )
    two = [claim(shift="SC"), claim(better="weak", shift="SC")]
    first, second = judged(family(), *two), judged(larger_family, *two)
    assert [(judgement.verdict, judgement.adjusted) for judgement in first] == [
        (judgement.verdict, judgement.adjusted) for judgement in second
    ]
    assert first[1].verdict == HOLDS
    assert judged(family(), *THREE)[1].verdict == CANNOT_TELL


def test_the_family_is_the_declared_one_while_runs_are_missing() -> None:
    """Of three claims two wait: the p of the third is still that of three, and what holds now holds
    when all have run."""
    rows = (
        ERM + several("irm", STRONG) + several("weak", WEAK[:2]) + several("nothing", NOTHING[:2])
    )
    rows += run("weak", 2, 0.0, status="pending") + run("nothing", 2, 0.0, status="pending")
    judgements = judged(rows, *THREE)
    assert [judgement.family for judgement in judgements] == [3, 3, 3]
    assert [judgement.adjusted for judgement in judgements] == [
        pytest.approx(0.00997, abs=1e-4),
        None,
        None,
    ]
    assert [judgement.verdict for judgement in judgements] == [HOLDS, NOT_RUN, NOT_RUN]


def test_split_seeds_are_paired_with_seeds() -> None:
    """The differences of 2 split seeds x 2 seeds: 0.1 at every pair but one, whose erm has no
    score: its seed is left out."""
    rows = []
    for split in (0, 1):
        for seed in (0, 1, 2):
            lost = (split, seed) == (1, 2)
            rows += [
                {**row, "split_seed": split}
                for row in run("erm", seed, 0.6, status="failed" if lost else "finished")
            ]
            rows += [
                {**row, "split_seed": split}
                for row in run("irm", seed, 0.7 + 0.001 * split + 0.002 * seed)
            ]
    (judgement,) = judged(rows, claim())
    difference = judgement.difference
    assert difference is not None
    assert (difference.n, difference.splits, difference.missing) == (
        4,
        2,
        2,
    )
    assert difference.mean == pytest.approx(0.1 + 0.0005 + 0.001)
    table = tabled([judgement])
    assert table.columns[-1] == "runs"
    assert table.rows[0][-1] == 4
    assert any("at the same seed and split seed" in note for note in table.notes)
    assert (
        "Claim 1 under SC: failed runs: erm on mlp 1; runs without a partner, left out: 2."
        in table.notes
    )


def with_classes(rows: list[Any], classes: int, majority: float) -> list[Any]:
    return [
        {**row, "metrics": {**row["metrics"], "classes": classes, "majority": majority}}
        for row in rows
    ]


def test_a_baseline_no_better_than_guessing_is_said_to_be_so() -> None:
    """erm 0.60, 0.62, 0.64: interval 0.62 +- 0.0497, so 0.5703 to 0.6697. Its worst groups are
    half: 0.2852 to 0.3348."""
    rows = ERM + several("irm", STRONG)
    chance_note = "at chance here, as far as its interval tells (guessing reaches {})"
    below, worst = (
        "below chance here (guessing reaches {}): it is misled",
        "at chance here (the worst group of a guess has at most {})",
    )
    for classes, majority, metric, where, chance_words in [
        (2, 0.58, "accuracy", "at", chance_note.format("58.0%")),
        (2, 0.67, "accuracy", "below", below.format("67.0%")),
        (2, 0.57, "accuracy", "", ""),
        (3, 0.5, "worst_group", "at", worst.format("33.3%")),
        (2, 0.5, "worst_group", "at", worst.format("50.0%")),
        (4, 0.9, "worst_group", "", ""),
    ]:
        judgements = judged(with_classes(rows, classes, majority), claim(metric=metric))
        chance_notes = [note for note in tabled(judgements).notes if " chance here" in note]
        assert len(chance_notes) == bool(chance_words)
        assert all(
            note.startswith(f"Claim 1 under SC: erm on mlp is {chance_words}")
            for note in chance_notes
        )
        assert numbered(judgements)[0]["than_chance"] == where
    several_claims = judged(with_classes(rows, 2, 0.58), claim(), claim())
    notes = [note for note in tabled(several_claims).notes if " chance here" in note]
    assert len(notes) == 1 and notes[0].startswith("Claims 1, 2 under SC: erm on mlp is at chance")
    assert not any(
        "at chance" in note for note in tabled(judged(rows, claim())).notes
    )  # older stores do not name their classes


def test_a_claim_on_the_worst_group_says_by_what_its_step_was_chosen() -> None:
    rows = ERM + several("irm", STRONG)
    table = tabled(judged(rows, claim(metric="worst_group"), claim()))
    assert any(
        note.startswith("Claim 1: of the worst group, while step and point") for note in table.notes
    )
    table = tabled(judged(rows, claim()))
    assert not any("of the worst group, while" in note for note in table.notes)


@pytest.mark.parametrize("status", ["pending", "running"])
def test_nothing_is_said_before_all_runs_of_both_sides_have_ended(status: str) -> None:
    rows = ERM + several("irm", [0.70, 0.73]) + run("irm", 2, 0.0, status=status)
    judgements = judged(rows, claim())
    table = tabled(judgements)
    assert table.rows == ((1, NOT_RUN, "irm", "erm", None, None, None, 0),)
    assert any(note.startswith("not run yet: 1 of 1 wait") for note in table.notes)


def test_failed_runs_are_told_and_leave_their_seed_out() -> None:
    rows = ERM + several("irm", [0.70, 0.73]) + run("irm", 2, 0.0, status="failed")
    judgements = judged(
        rows, claim()
    )  # 0.10, 0.11: sd 0.00707, half-width 12.706 * 0.00707 / sqrt 2 = 0.0635
    table = tabled(judgements)
    assert table.rows == ((1, HOLDS, "irm", "erm", "+0.105", "+0.041 to +0.169", "0.030", 2),)
    assert (
        "Claim 1 under SC: failed runs: irm on mlp 1; seeds without a partner, left out: 1."
        in table.notes
    )


def test_grids_of_two_sizes_are_warned_of() -> None:
    irm = several("irm", [0.70, 0.73, 0.73], point="a", validation=0.9) + several(
        "irm", [0.5, 0.5, 0.5], point="b"
    )
    table = tabled(judged(ERM + irm, claim()))
    assert table.rows[0][1] == HOLDS
    warning = (
        "WARNING: the sides did not try equally many points: irm on mlp 2, erm on mlp 1 (claim 1)."
    )
    assert any(note.startswith(warning) for note in table.notes)
    erm = several("erm", [0.5, 0.5, 0.5], point="a") + several(
        "erm", [0.60, 0.62, 0.64], point="b", validation=0.9
    )
    even = tabled(judged(erm + irm, claim()))
    assert even.rows == table.rows
    assert not any("WARNING" in note for note in even.notes)


def test_no_claims_no_table() -> None:
    assert claim_table("mini", judged(ERM)) is None
    assert claim_number_table("mini", judged(ERM)) is None
    assert (
        judge(arrange(ERM), {"name": "mini", "reference": "erm"}) == []
    )  # a store of before there were claims


def test_a_claim_compares_two_shifts() -> None:
    erm = several("erm", [0.90, 0.93, 0.93], shift="none") + several("erm", [0.80, 0.82, 0.84])
    cost = claim(better={"method": "erm", "shift": "none"}, than={"method": "erm", "shift": "SC"})
    (judgement,) = judged(erm, cost, shifts={"none": [], "SC": {}})
    assert judgement.verdict == HOLDS
    assert judgement.difference is not None
    assert judgement.difference.mean == pytest.approx(0.1)  # 0.10, 0.11, 0.09
    table = tabled([judgement])
    assert dict(zip(table.columns, table.rows[0], strict=True))["better"] == "erm under none"
    assert dict(zip(table.columns, table.rows[0], strict=True))["than"] == "erm under SC"
    assert "shift" not in table.columns


def test_what_a_method_wins_back() -> None:
    # SC costs 0.30, 0.27 and 0.33 of 0.90, a third of which is 0.10, 0.09 and 0.11. irm wins 0.20
    # back: 0.10, 0.11, 0.09 more.
    rows = (
        several("erm", [0.90, 0.90, 0.90], shift="none")
        + several("erm", [0.60, 0.63, 0.57])
        + several("irm", [0.80, 0.83, 0.77])
    )
    shifts = {"none": [], "SC": {}}
    (judgement,) = judged(rows, claim(wins_back=1 / 3, shift="SC"), shifts=shifts)
    assert judgement.verdict == HOLDS
    assert judgement.difference is not None
    assert (judgement.difference.mean, judgement.difference.sd) == (
        pytest.approx(0.1),
        pytest.approx(0.01),
    )
    assert judgement.unshifted is not None
    assert judgement.unshifted.shift == "none"
    assert len(judgement.sides) == 3
    (judgement,) = judged(rows, claim(wins_back=1, shift="SC"), shifts=shifts)
    assert judgement.verdict == OPPOSITE
    assert judgement.difference is not None
    assert judgement.difference.mean == pytest.approx(-0.1)
    waiting = [*rows, *run("erm", 3, 0.0, shift="none", status="pending")]
    (judgement,) = judged(waiting, claim(wins_back=1 / 3, shift="SC"), shifts=shifts)
    assert judgement.verdict == NOT_RUN, "a run of the unshifted side has not ended"
    assert (
        tabled(judged(rows, claim(wins_back=0.5, shift="SC"), shifts=shifts)).rows[0][3]
        == "erm with 50% of SC's cost won back"
    )


@pytest.mark.parametrize(
    "irm,margin,p,verdict",
    [
        # Differences 0.01, 0.02, 0.00: mean 0.01, sd 0.01, standard error 0.005774, half-width
        # 0.0248.
        (
            [0.61, 0.64, 0.64],
            0.05,
            0.0202,
            HOLDS,
        ),  # t = 0.04 / 0.005774 = 6.928; p = 1 - 6.928 / sqrt(2 + 6.928^2) = 0.0202
        ([0.59, 0.60, 0.64], 0.05, 0.0202, HOLDS),  # the same below 0
        (
            [0.61, 0.64, 0.64],
            0.03,
            0.0742,
            CANNOT_TELL,
        ),  # t = 0.02 / 0.005774 = 3.464; the interval reaches 0.0348
        ([0.61, 0.64, 0.64], 0.01, 1.0, CANNOT_TELL),  # as far as the margin
        ([0.70, 0.73, 0.73], 0.05, 0.0131, OPPOSITE),  # 0.10, 0.11, 0.09: 0.05 beyond, t = 8.660
    ],
)
def test_a_claim_that_the_sides_are_equal(
    irm: list[float], margin: float, p: float, verdict: str
) -> None:
    (judgement,) = judged(ERM + several("irm", irm), claim(margin=margin))
    assert judgement.tested is not None
    assert judgement.tested.p == pytest.approx(p, abs=1e-4)
    assert (judgement.verdict, judgement.adjusted) == (verdict, judgement.tested.p)
    table = tabled([judgement])
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["than"] == f"erm ± {margin:g}"
    assert row["difference"] == f"{judgement.difference.mean:+.3f}"
    assert any("two one-sided tests" in note for note in table.notes)
    assert numbered([judgement])[0]["margin"] == margin


def sets(method: str, shift: str, easy: list[float], hard: list[float]) -> list[Any]:
    rows = several(method, hard, shift=shift)
    return several(method, easy, shift=shift) + [
        {**row, "set": "hard"} for row in rows if row["set"] == "test"
    ]


def test_two_gaps_are_compared() -> None:
    """Gaps of erm: 0.50, 0.52, 0.54 under SC and 0.40, 0.41, 0.45 under none: 0.10, 0.11, 0.09
    more."""
    rows = sets("erm", "SC", [0.9, 0.9, 0.9], [0.4, 0.38, 0.36]) + sets(
        "erm", "none", [0.9, 0.95, 0.85], [0.5, 0.54, 0.4]
    )
    better, than = (
        {"method": "erm", "shift": shift, "minus": {"set": "hard"}} for shift in ("SC", "none")
    )
    judgements = judged(rows, claim(better=better, than=than))
    (judgement,) = judgements
    assert judgement.verdict == HOLDS
    assert judgement.difference is not None
    assert len(judgement.sides) == 4
    assert (judgement.difference.mean, judgement.difference.sd) == (
        pytest.approx(0.1),
        pytest.approx(0.01),
    )
    row = dict(zip(tabled(judgements).columns, tabled(judgements).rows[0], strict=True))
    assert (row["better"], row["than"]) == (
        "erm under SC on test less hard",
        "erm under none on test less hard",
    )
    assert numbered(judgements)[0]["better_mean"] == pytest.approx(0.52)
    # What a set loses under SC, on both sides: 0.10, 0.16, 0.04 on hard, and 0.00, 0.05, -0.05 on
    # test.
    lost = [
        {"method": "erm", "shift": "none", "set": name, "minus": {"shift": "SC"}}
        for name in ("hard", "test")
    ]
    (judgement,) = judged(rows, claim(better=lost[0], than=lost[1]))
    assert judgement.difference is not None
    assert judgement.difference.mean == pytest.approx(0.1)
    assert judgement.better.words(False, False, "test") == "erm on hard less under SC"
    (judgement,) = judged(
        rows,
        claim(
            better={"method": "erm", "set": "test"},
            than={"method": "erm", "set": "hard"},
            shift="SC",
        ),
    )
    assert judgement.verdict == HOLDS
    assert judgement.difference is not None
    assert judgement.difference.mean == pytest.approx(0.52)
    waiting = rows + run("erm", 3, 0.0, shift="SC", status="pending")
    assert judged(waiting, claim(better=lost[0], than=lost[1]))[0].verdict == NOT_RUN, (
        "a run of what a side is less of is pending"
    )


def test_what_cannot_be_told_is_told_with_the_power() -> None:
    """Differences 0.02, 0.01, 0.03, sd 0.01, three seeds: at p < 0.05 a power of 80% takes a
    noncentrality of 5.65."""
    judgements = judged(ERM + several("irm", [0.62, 0.63, 0.67]), claim())
    # The spread that three seeds show as 0.01 is 0.0052 to 0.0628: sqrt(2 / chi2) at 7.378 and
    # 0.05064.
    assert judgements[0].verdict == CANNOT_TELL
    assert judgements[0].told_range == pytest.approx((0.0326 * 0.5207, 0.0326 * 6.285), rel=5e-3)
    (note_of_runs,) = (
        note
        for note in tabled(judgements).notes
        if note.startswith("Power of 80% at p < 0.05 / 1 is had for: claim 1 under SC")
    )
    assert note_of_runs.endswith(
        "claim 1 under SC 0.017 to 0.205; each from the least to the largest spread that these"
        " seeds make likely (95%)."
    )
    assert _claim(judgements[0], False).endswith(
        "; p = 0.074; 1.7 to 20.5 would have been told with a power of 80%)."
    )
    holds = judged(ERM + several("irm", STRONG), claim())
    assert not any(note.startswith("Power") for note in tabled(holds).notes)


@pytest.mark.parametrize(
    ("spread", "words"), [(0.1, "18.9 at best"), (9.0, "no difference, however large,")]
)
def test_no_difference_of_more_than_100_points_is_said_to_have_been_told(
    spread: float, words: str
) -> None:
    (judgement,) = judged(ERM + several("irm", [0.6, 0.6 + spread, 0.6 - spread]), claim())
    assert judgement.verdict == CANNOT_TELL
    assert f"; {words} would have been told with a power of 80%)." in _claim(judgement, False)
    (note,) = (note for note in tabled([judgement]).notes if note.startswith("Power of 80%"))
    assert words.replace("18.9", "0.189") in note


def test_notes_on_a_claim_at_several_places_name_the_place() -> None:
    runs = ERM + several("irm", [0.62, 0.63, 0.67])
    doubled = [*runs, *({**row, "model": "forest"} for row in runs)]
    (note,) = (
        note for note in tabled(judged(doubled, claim())).notes if note.startswith("Power of 80%")
    )
    assert "claim 1 in mlp under SC 0.024 to 0.291; claim 1 in forest under SC 0.024" in note


ASKED = [
    claim(text="GroupDRO <b>helps</b> & more", better="groupdro", rule="last"),
    claim(text="second", better="groupdro"),
]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small store, whole but for the runs of erm under SC."""
    monkeypatch.setattr(page_module, "runtime", lambda: "var vegaEmbed;")
    return whole_store(tmp_path / "out", claims=ASKED, statuses={9: "pending"})


def test_the_report_as_text_and_as_a_page_has_the_claims(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(["report", str(store), "--tables", "all"]) == 0
    text = capsys.readouterr().out
    assert "Claims (alpha, digits, size few, mlp, set test, accuracy)" in text
    assert text.index("Claims (") < text.index("\nRuns\n")
    html = (store / "report.html").read_text(encoding="utf-8")
    assert html.index(">Claims<a") < html.index(">Shifts<a")
    assert (
        '<th scope="row" class="t">GroupDRO &lt;b&gt;helps&lt;/b&gt; &amp; more (claim 1)</th>'
        in html
    )
    assert "<b>helps" not in html


def test_the_report_in_json_has_the_claims(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(["report", str(store), "--format", "json", "--no-page"]) == 0
    (study_entry,) = json.loads(capsys.readouterr().out)["studies"]
    assert study_entry["findings"]["sentences"]["Claims"][0].startswith(
        "GroupDRO <b>helps</b> & more (digits, none, few, mlp, last): "
    )
    tables = {table["name"]: table for table in study_entry["tables"]}
    named_rows = [
        dict(zip(tables["claims-alpha"]["columns"], row, strict=True))
        for row in tables["claims-alpha"]["rows"]
    ]
    assert [(row["shift"], row["selection"]) for row in named_rows] == [
        (x, y) for y in ("last", "best-id") for x in ("none", "SC")
    ]
    assert [row["verdict"] for row in named_rows].count(NOT_RUN) == 2


def test_the_report_in_latex_and_csv_has_the_claims(
    store: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert _status(["report", str(store), "--format", "latex"]) == 0
    assert r"\label{tab:claims-alpha}" in capsys.readouterr().out
    assert _status(["report", str(store), "--format", "csv"]) == 0
    assert "claim" not in capsys.readouterr().out  # one tidy table stays one
    assert _status(["report", str(store), "--format", "csv", "--out", str(tmp_path / "csv")]) == 0
    text = (tmp_path / "csv" / "claims-alpha.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["shift"] for row in rows] == ["none", "SC"] * 2
    assert rows[0]["text"].startswith("GroupDRO")


ODD: list[Any] = [
    [3],
    "claims",
    {"a": 1},
    [{}],
    [[]],
    *([{**ASKED[0], "better": odd}] for odd in ({}, [1], {"method": {}})),
]
ODD += [
    [{**ASKED[0], name: odd}]
    for name, odd in (("text", None), ("metric", "n"), ("set", {}), ("rule", 7), ("than", {}))
]


def test_damaged_claims_end_in_one_sentence_or_are_left_out(tmp_path: Path) -> None:
    from crosswind.storage.database import studies

    out = whole_store(tmp_path / "out", claims=[], seeds=1)
    refused = 0
    with Store.open(out, create=True) as store:
        resolved = store.study("alpha")["resolved"]
        for odd in ODD:
            with store.transaction() as connection:
                connection.execute(
                    studies.update().values(resolved=json.dumps({**resolved, "claims": odd}))
                )
            try:
                gather(store, "alpha", draws=False).text_tables()
            except StoreError as error:
                refused += 1
                assert "is damaged: the study 'alpha' cannot be put in tables" in str(error)
    assert refused == 8  # the others name what there is nothing of


def test_a_claim_about_runs_that_doubt_themselves_says_so() -> None:
    irm = several("irm", [0.70, 0.73, 0.73])
    for row in irm[:2]:
        row["metrics"]["doubts"] = ["irm: best-id took a step before the switch"]
    judgements = judged(ERM + irm, claim())
    table, (numbers,) = tabled(judgements), numbered(judgements)
    assert judgements[0].verdict == HOLDS
    assert table.rows[0][1] == f"{HOLDS} †"
    assert (
        "† Claim 1 under SC: irm on mlp, 1 of 3 runs: irm: best-id took a step before the switch."
        in table.notes
    )
    assert (numbers["verdict"], numbers["better_doubted"], numbers["than_doubted"]) == (HOLDS, 1, 0)


def test_a_claim_on_a_score_is_judged_by_the_rule_that_chooses_by_it() -> None:
    rules = ["best-id", "best-id-worst-group", "best-ood-worst-group"]
    assert rule_of(claim(metric="worst_group"), rules) == "best-id-worst-group"
    assert rule_of(claim(), rules) == rule_of(claim(metric="balanced_accuracy"), rules) == "best-id"
    assert rule_of(claim(metric="worst_group", rule="best-id"), rules) == "best-id"
    assert rule_of(claim(), ["last", "best-id"]) == "last"
    assert (
        rule_of(claim(metric="worst_group"), ["last", "best-id-worst-group"])
        == "best-id-worst-group"
    )
    assert rule_of(claim(metric="worst_group"), ["last", "best-id"]) == "last"
    rows = [
        {**row, "rule": rule}
        for rule in rules[:2]
        for row in ERM + several("irm", [0.7, 0.73, 0.73])
    ]
    study = {
        "name": "mini",
        "reference": "erm",
        "selection": rules[:2],
        "claims": [claim(metric="worst_group")],
    }
    (judgement,) = judge(arrange(rows), study)
    assert judgement.place.rule == "best-id-worst-group"
