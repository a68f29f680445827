"""Tables from results: the stored report, and each part of it worked by hand.

The stored text is renewed by `RENEW_GOLDEN=1 python -m pytest tests/reports`; look at the
difference before it is committed.
"""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crosswind.reports.claims.verdicts import by_place
from crosswind.reports.runs.tables import run_table
from crosswind.reports.scores import figures
from crosswind.reports.scores import tables as score_tables
from crosswind.reports.scores.results import arrange
from crosswind.reports.tables import ReportTable, ScoreCell

GOLDEN = Path(__file__).with_name("golden")


def result_tables(
    rows: list[dict[str, Any]], reference: str = "erm", rules: list[str] | None = None
) -> list[ReportTable]:
    """The tables that a person reads."""
    arranged = arrange(rows, reference)
    return [
        *(
            table
            for place_results in arranged.shown(rules)
            for table in score_tables.place_tables(place_results).values()
        ),
        run_table(arranged),
    ]


def number_table(rows: list[dict[str, Any]]) -> ReportTable:
    """The tidy table of every number."""
    return score_tables.number_table(arrange(rows))


def _run(
    shift: str, method: str, seed: int, scores: dict[tuple[str, str], float], **fields: Any
) -> list[dict[str, Any]]:
    """The rows of one run; `scores` maps (rule, set) to accuracy."""
    base = {
        "study": "mini",
        "data": "digits",
        "shift": shift,
        "size": "small",
        "model": "mlp",
        "method": method,
        "point": "",
    }
    base |= {"seed": seed, "status": "finished", **fields}
    if not scores:
        return [{**base, "rule": None, "set": None, "metrics": None}]
    return [
        {**base, "rule": rule, "set": name, "metrics": _metrics(accuracy)}
        for (rule, name), accuracy in scores.items()
    ]


def _metrics(accuracy: float) -> dict[str, Any]:
    worst = {
        "worst_group": round(accuracy / 2, 6),
        "worst_group_name": "digit=3, ink=red",
        "worst_group_n": 4,
    }
    counts = {
        "n": 200,
        "balanced_accuracy": accuracy,
        "nll": 0.5,
        "ece": round((1 - accuracy) / 2, 6),
        "unparsed": 0,
        "ties": 1,
    }
    return {"accuracy": accuracy, **worst, **counts}


def _both(test: float, validation: float = 0.9) -> dict[tuple[str, str], float]:
    return {("best-id", "validation"): validation, ("best-id", "test"): test}


def _study() -> list[dict[str, Any]]:
    """Three seeds; erm one point; groupdro a grid of two; mixup fails once and diverges once."""
    rows: list[dict[str, Any]] = []
    for shift, erm, groupdro in (("none", 0.9, 0.9), ("SC", 0.6, 0.75)):
        for seed in range(3):
            step = 0.01 * (seed - 1)
            oracle = {
                ("best-target", "target-validation"): erm,
                ("best-target", "test"): round(erm + step + 0.02, 6),
            }
            rows += _run(shift, "erm", seed, {**_both(round(erm + step, 6)), **oracle})
            better = 0.95 if seed != 2 else 0.85  # seed 2 prefers the other point
            wobble = 0.02 * (seed == 0)
            rows += _run(
                shift,
                "groupdro",
                seed,
                _both(round(groupdro + step + wobble, 6), better),
                point="eta=0.01",
            )
            rows += _run(
                shift,
                "groupdro",
                seed,
                _both(round(groupdro - 0.1 + step, 6), 0.9),
                point="eta=0.1",
            )
            if (shift, seed) == ("SC", 1):
                rows += _run(
                    shift, "mixup", seed, {}, status="failed", reason="the worker died twice"
                )
            else:
                diverged = (shift, seed) == ("none", 2)
                changes = (
                    {"status": "diverged", "reason": "the loss was not finite at step 40"}
                    if diverged
                    else {}
                )
                rows += _run(
                    shift,
                    "mixup",
                    seed,
                    _both(0.1 if diverged else round(erm + 0.05 + step, 6)),
                    **changes,
                )
    return rows


def shown(table: ReportTable) -> tuple[tuple[Any, ...], ...]:
    """The rows with scores as a reader sees them."""
    return tuple(
        tuple(str(cell) if isinstance(cell, ScoreCell) else cell for cell in row)
        for row in table.rows
    )


def _by_name(tables: list[ReportTable]) -> dict[str, ReportTable]:
    return {table.name: table for table in tables}


@pytest.mark.parametrize("form", ["txt", "csv", "tex"])
def test_stored_report(form: str) -> None:
    tables = result_tables(_study())
    text = {
        "txt": lambda: "\n\n".join(table.to_text() for table in tables),
        "csv": lambda: number_table(_study()).to_csv(),
        "tex": lambda: "\n".join(table.to_latex() for table in tables),
    }[form]()
    stored = GOLDEN / f"report.{form}"
    if os.environ.get("RENEW_GOLDEN"):
        stored.write_text(text, encoding="utf-8")
        pytest.skip(f"{stored.name} was renewed")
    assert text == stored.read_text(encoding="utf-8")


def test_accuracy_cells_by_hand() -> None:
    """erm under SC: 0.59, 0.60, 0.61: mean 0.6, sd 0.01, half-width 4.3027 * 0.01 / sqrt 3 =
    0.0248."""
    table = _by_name(result_tables(_study()))["accuracy-mini-digits-small-mlp-test-best-id"]
    assert table.columns == ("method", "points", "none", "SC")
    assert shown(table)[0] == ("erm", 1, "0.900 ± 0.025", "0.600 ± 0.025")
    cell = table.to_json()["rows"][0][3]
    assert (cell["n"], cell["unit"], cell["doubted"]) == (3, "fraction", False)
    assert (round(cell["mean"], 6), round(cell["half_width"], 4)) == (0.6, 0.0248)
    assert [row[0] for row in table.rows] == ["erm", "groupdro", "mixup"]


def test_point_is_chosen_by_the_rules_own_validation_set() -> None:
    """groupdro under SC: seeds 0 and 1 choose eta=0.01 (validation 0.95 against 0.9): 0.75 - 0.01 +
    0.02, 0.75; seed 2 chooses eta=0.1 (0.85 against 0.9): 0.65 + 0.01. Mean of 0.76, 0.75, 0.66 is
    0.72333; the best test scores would give 0.75667.
    """
    row = _numbers(number_table(_study()), shift="SC", method="groupdro", set="test")
    assert float(row["mean"]) == pytest.approx((0.76 + 0.75 + 0.66) / 3)
    assert row["points"] == "2"


def test_reference_comes_first_wherever_it_was_planned() -> None:
    rows = (
        _run("SC", "mixup", 0, _both(0.5))
        + _run("SC", "erm", 0, _both(0.5))
        + _run("SC", "aaa", 0, _both(0.5))
    )
    assert [row[0] for row in result_tables(rows)[0].rows] == ["erm", "mixup", "aaa"]
    assert [row[0] for row in result_tables(rows, reference="aaa")[0].rows] == [
        "aaa",
        "mixup",
        "erm",
    ]
    absent = result_tables(rows, reference="irm")
    assert any("the reference irm is not among the methods" in note for note in absent[0].notes)
    assert not any(table.name.startswith("difference") for table in absent)


def test_oracle_chooses_by_target_validation_and_says_so() -> None:
    rows: list[dict[str, Any]] = []
    for point, id_accuracy, target, test in (("a", 0.9, 0.3, 0.4), ("b", 0.1, 0.8, 0.7)):
        sets = {
            ("best-target", "validation"): id_accuracy,
            ("best-target", "target-validation"): target,
        }
        rows += _run("SC", "erm", 0, {**sets, ("best-target", "test"): test}, point=point)
    row = _numbers(number_table(rows), set="test")
    assert (float(row["mean"]), row["oracle"]) == (0.7, "1")
    for table in result_tables(rows)[:-1]:
        assert "ORACLE" in " ".join(table.notes), table.name


def test_points_that_cannot_be_compared_are_named() -> None:
    rows = _run("SC", "erm", 0, {("best-id", "test"): 0.9}, point="a") + _run(
        "SC", "erm", 0, {("best-id", "test"): 0.5}, point="b"
    )
    table = result_tables(rows)[0]
    assert table.rows == (("erm", 2, None),)
    assert (
        "Left out, since the set validation that chooses the point was not scored: erm under SC"
        " (seed 0)." in table.notes
    )
    rows = _run("SC", "erm", 0, _both(0.5), point="a") + _run(
        "SC", "erm", 0, {}, point="b", status="failed", reason="x"
    )
    assert any(
        note.startswith("Chosen among fewer points") for note in result_tables(rows)[0].notes
    )


def test_a_larger_search_than_the_references_is_a_warning() -> None:
    notes = _by_name(result_tables(_study()))["difference-mini-digits-small-mlp-test-best-id"].notes
    assert any(
        note.startswith("WARNING") and "groupdro 2" in note and "mixup" not in note
        for note in notes
    )
    same = [row for row in _study() if row["point"] != "eta=0.1"]
    assert not any("WARNING" in note for table in result_tables(same) for note in table.notes)


def test_differences_are_paired_and_marked_only_without_zero() -> None:
    """Under SC mixup is erm + 0.05 at seeds 0 and 2, so there is no spread and no mark; groupdro
    differs by 0.17, 0.15, 0.05: mean 0.12333, sd 0.06429, zero inside. Six comparisons have a
    spread and none is told: t(2) at 1 - 0.05 / 6 is 10.886, so the half-width is 0.404. Against
    0.17, 0.15, 0.16 it would be outside; both comparisons are told, so that is at 95%.
    """
    table = _by_name(result_tables(_study()))["difference-mini-digits-small-mlp-test-best-id"]
    cells = {str(row[0]): str(row[2]).strip() for row in table.rows}
    assert cells == {"groupdro": "+0.123 ± 0.404", "mixup": "+0.050 ± 0.000"}
    assert "Seeds without a partner, left out: mixup under SC 1." in table.notes
    assert any(note.startswith("± 0.000") for note in table.notes)
    rows: list[dict[str, Any]] = []
    for seed, gain in enumerate((0.17, 0.15, 0.16)):
        rows += _run("SC", "erm", seed, _both(0.5)) + _run(
            "SC", "groupdro", seed, _both(0.5 + gain)
        )
    marked = result_tables(rows)[1]
    assert shown(marked) == (("groupdro", "+0.160 ± 0.025 *"),)
    assert any(
        "(1 of 1)" in note and "p < 0.05 by Holm over the 2 comparisons of this rule" in note
        for note in marked.notes
    )
    rows += [row for seed in range(3) for row in _run("SC", "mixup", seed, _both(0.5 + 0.1 * seed))]
    # Two of four are told: t(2) at 1 - 0.05 / 3 is 7.649.
    assert result_tables(rows)[1].cells[1] == [
        "mixup",
        "+0.100 ± 0.442  ",
    ], "means stand under means"


@pytest.mark.parametrize(
    ("seeds", "words"),
    [
        (1, "One seed"),
        (2, "to each side 9.0 standard deviations from 2 seeds. So few"),
        (5, "1.2 standard deviations from 5 seeds."),
    ],
)
def test_how_wide_the_interval_is_is_said(seeds: int, words: str) -> None:
    """t / sqrt n: 12.706 / 1.414 = 8.98 for 2 seeds, 2.776 / 2.236 = 1.24 for 5."""
    rows = [
        row for seed in range(seeds) for row in _run("SC", "erm", seed, _both(0.5 + 0.01 * seed))
    ]
    table = result_tables(rows)[0]
    assert any(words in note for note in table.notes)
    assert ("±" in str(table.rows[0][1])) == (seeds > 1)
    assert any("Seeds redraw" in note for note in table.notes) == (seeds > 1)
    mixed = result_tables([*rows, *_run("LDD", "erm", 0, _both(0.5))])[0]
    assert any("A value without ± has one seed, or the same" in note for note in mixed.notes) == (
        seeds > 1
    )


def test_worst_group_names_the_group_of_most_seeds() -> None:
    rows = [row for seed in range(3) for row in _run("SC", "erm", seed, _both(0.5))]
    rows[-1]["metrics"] = {**rows[-1]["metrics"], "worst_group_name": "digit=4, ink=blue"}
    table = next(table for table in result_tables(rows) if table.name.startswith("worst-group"))
    assert shown(table) == (("SC", "erm", "0.250 ± 0.000", "digit=3, ink=red", "2 of 3", 4),)
    assert any("one row moves it by 0.25" in note for note in table.notes)


def test_runs_are_counted_once_and_failures_carry_their_reason() -> None:
    """3 methods x 2 shifts x 3 seeds, groupdro twice for its grid: erm 6, groupdro 12, mixup 6
    runs."""
    table = _by_name(result_tables(_study()))["runs"]
    assert table.columns == ("data", "model", "method", "runs", "finished", "diverged", "failed")
    assert table.rows == (
        ("digits", "mlp", "erm", 6, 6, 0, 0),
        ("digits", "mlp", "groupdro", 12, 12, 0, 0),
        ("digits", "mlp", "mixup", 6, 4, 1, 1),
    )
    assert "failed: digits, SC, small, mlp, mixup: the worker died twice (seed 1)" in table.notes


def test_runs_that_are_not_done_are_named() -> None:
    rows = (
        _run("SC", "erm", 0, _both(0.5))
        + _run("SC", "erm", 1, {}, status="pending")
        + _run("SC", "erm", 2, {}, status="running")
    )
    table = result_tables(rows)[-1]
    assert (table.columns[-2:], table.rows) == (
        ("pending", "running"),
        (("digits", "mlp", "erm", 3, 1, 0, 0, 1, 1),),
    )
    assert "2 of 3 runs are not done: these tables are of what is there so far." in table.notes


def test_a_method_without_any_score_keeps_its_row() -> None:
    rows = _run("SC", "erm", 0, _both(0.5)) + _run(
        "SC", "mixup", 0, {}, status="failed", reason="x"
    )
    for row in rows[:-1]:
        row["metrics"]["ece"] = None
    assert not any(table.name.startswith("ece") for table in result_tables(rows))
    assert shown(result_tables(rows)[0]) == (("erm", "0.500"), ("mixup", None))
    assert "mixup       -" in result_tables(rows)[0].to_text().splitlines()


def test_two_results_for_one_thing_are_refused_and_none_is_an_empty_table() -> None:
    with pytest.raises(ValueError, match="two results"):
        result_tables(_run("SC", "erm", 0, _both(0.5)) * 2)
    assert [(table.name, table.rows) for table in result_tables([])] == [
        ("runs", ())
    ] and number_table([]).rows == ()


def test_text_keeps_to_its_width_and_repeats_the_keys() -> None:
    shifts = [f"shift-number-{i}" for i in range(19)]
    rows = [
        row
        for shift in shifts
        for seed in (0, 1)
        for row in _run(shift, "erm", seed, _both(0.5 + 0.01 * seed))
    ]
    table = result_tables(rows)[0]
    for width in (60, 100):
        text = table.to_text(width)
        lines = text.splitlines()
        assert max(map(len, lines)) <= width
        headers = [line.split() for line in lines if line.startswith("method")]
        assert len(headers) > 1
        assert [name for header in headers for name in header[1:]] == shifts
    assert len(text.splitlines()) > 20


def test_numbers_stand_to_the_right_and_means_under_means() -> None:
    rows = [
        row for seed in range(2) for row in _run("SC", "erm", seed, _both(0.5 + seed / 10))
    ] + _run("SC", "mixup", 0, _both(0.625))
    lines = result_tables(rows)[0].to_text().splitlines()
    erm, mixup = (
        next(line for line in lines if line.startswith(name)) for name in ("erm", "mixup")
    )
    assert erm.index("0.550") == mixup.index("0.625")
    assert ReportTable("x", "X", ("name", "n"), (("a", 5), ("b", 1000))).to_text().splitlines()[
        4:6
    ] == [
        "a        5",
        "b     1000",
    ]


def test_latex_escapes_everything_a_name_may_hold() -> None:
    table = ReportTable(
        "a_b c",
        "50% & more_",
        ("x_1", "#"),
        (("a&b\\c{d}~^$", -0.5), ("± *", None)),
        ("under_score",),
    )
    text = table.to_latex()
    assert r"\caption{50\% \& more\_}" in text
    assert r"\label{tab:a-b-c}" in text
    assert r"x\_1 & \# \\" in text
    assert r"a\&b\textbackslash{}c\{d\}\textasciitilde{}\textasciicircum{}\$ & $-$0.500 \\" in text
    assert r"$\pm$ $^{*}$ & -- \\" in text
    assert r"under\_score\par" in text
    assert text.count(r"\begin") == text.count(r"\end") == 2


def test_csv_is_read_back_and_json_is_plain() -> None:
    table = number_table(_study())
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert len(rows) == len(table.rows) == 2 * (3 * 2 + 2)
    for item in result_tables(_study()):
        assert json.loads(json.dumps(item.to_json(), allow_nan=False))["columns"] == list(
            item.columns
        )
    assert (
        ReportTable("x", "X", ("a",), (('with "quotes", and comma',), (None,))).to_csv()
        == 'a\n"with ""quotes"", and comma"\n""\n'
    )


def _numbers(table: ReportTable, **labels: str) -> dict[str, str]:
    rows = [
        row
        for row in csv.DictReader(io.StringIO(table.to_csv()))
        if all(row[key] == value for key, value in labels.items())
    ]
    assert len(rows) == 1
    return rows[0]


# -- points that tie, rules by other scores, runs that doubt themselves ----------------------------


def _points(rule: str, name: str, **points: dict[str, Any]) -> dict[int, str]:
    """The chosen point of the one seed; each point's `metrics` on the rule's own set."""
    rows = []
    for point, point_metrics in points.items():
        metrics = {
            "accuracy": 0.8,
            "worst_group": 0.4,
            "balanced_accuracy": 0.8,
            "nll": 0.5,
            "selected_step": 100,
            **point_metrics,
        }
        run = _run("SC", "irm", 0, {(rule, name): 0.0, (rule, "test"): 0.5}, point=point)
        run[0]["metrics"] = metrics
        rows += run
    ((place_key, place_results),) = [
        (place, at) for place, at in arrange(rows).places.items() if place.set == "test"
    ]
    assert place_key.rule == rule
    return place_results.entries["SC", "irm"].chosen


def test_tied_points_go_to_the_lower_loss_then_the_earlier_step_then_the_first() -> None:
    assert _points("best-id", "validation", a={}, b={"nll": 0.4, "selected_step": 900}) == {0: "b"}
    assert _points("best-id", "validation", a={"nll": None}, b={"nll": 9.0}) == {0: "b"}
    assert _points("best-id", "validation", a={}, b={"selected_step": 50}) == {0: "b"}
    assert _points("best-id", "validation", a={}, b={}) == {0: "a"}
    assert _points("last", "validation", a={}, b={"nll": 0.4}) == {0: "b"}
    assert _points("best-id", "validation", a={"accuracy": 0.81}, b={"nll": 0.0}) == {0: "a"}


def test_a_rule_chooses_points_by_its_own_score_on_its_own_set() -> None:
    fair, accurate = {"worst_group": 0.6, "accuracy": 0.7}, {"worst_group": 0.5, "accuracy": 0.9}
    assert _points("best-target-worst-group", "target-validation", a=accurate, b=fair) == {0: "b"}
    assert _points("best-target", "target-validation", a=accurate, b=fair) == {0: "a"}
    assert _points(
        "best-ood-balanced-accuracy", "ood-validation", a={}, b={"balanced_accuracy": 0.9}
    ) == {0: "b"}
    # Rows without a group: the score is their accuracy, as in training.
    none = {"worst_group": None, "accuracy": 0.3}
    assert _points("best-id-worst-group", "validation", a=none, b={"worst_group": 0.2}) == {0: "a"}


def test_rules_say_what_they_read() -> None:
    rows = _run(
        "SC",
        "erm",
        0,
        {
            ("best-target-worst-group", "target-validation"): 0.8,
            ("best-target-worst-group", "test"): 0.5,
        },
    )
    table, *_ = result_tables(rows)
    assert (
        "ORACLE: chosen by the accuracy of the worst group on the set target-validation, labelled"
        " rows of the distribution that is tested on." in table.notes
    )
    knows = "reads the groups of the validation rows, which not every method may know."
    assert f"The selection best-target-worst-group {knows}" in table.notes
    table, *_ = result_tables(
        _run(
            "SC",
            "erm",
            0,
            {("best-id-worst-group", "validation"): 0.8, ("best-id-worst-group", "test"): 0.5},
        )
    )
    assert (
        "The step is chosen by the accuracy of the worst group on the set validation."
        in table.notes
    )
    assert f"The selection best-id-worst-group {knows}" in table.notes
    assert (
        dict(zip(number_table(rows).columns, number_table(rows).rows[0], strict=True))["oracle"]
        == 1
    )


def _doubting(n: int = 2) -> list[dict[str, Any]]:
    """Three seeds of erm and jtt, of which `n` of jtt's say that they are ERM."""
    rows = []
    for seed in range(3):
        rows += _run("SC", "erm", seed, _both(0.6 + 0.01 * seed))
        rows_of_run = _run("SC", "jtt", seed, _both(0.6 + 0.02 * seed))
        for row in rows_of_run if seed < n else ():
            row["metrics"]["doubts"] = ["jtt: no row was wrong, so this run is ERM"]
        rows += rows_of_run
    return rows


def test_every_table_marks_numbers_whose_runs_doubt_them() -> None:
    doubt_note = "† jtt, 2 of 3 runs under SC: jtt: no row was wrong, so this run is ERM."
    tables = _by_name(result_tables(_doubting()))
    n_tables = 0
    for name, table in tables.items():
        if name == "runs":
            continue
        n_tables += 1
        assert doubt_note in table.notes, name
        for row in table.rows:
            cells = [str(cell) for cell in row if isinstance(cell, str | ScoreCell)]
            assert any("†" in cell for cell in cells) == ("jtt" in cells), name
        assert "†" in table.to_text() and r"\dag{}" in table.to_latex()
    assert n_tables == 4
    none = _doubting(0)
    assert not any("†" in table.to_text() for table in result_tables(none))
    assert not any(
        "†" in table.to_text()
        for table in result_tables(
            [{**row, "metrics": {**row["metrics"], "doubts": 3}} for row in none]
        )
    )
    numbers = number_table(_doubting())
    by_method = {
        row[numbers.columns.index("method")]: dict(zip(numbers.columns, row, strict=True))
        for row in numbers.rows
    }
    assert (by_method["jtt"]["doubted"], by_method["erm"]["doubted"]) == (2, 0)
    assert by_method["jtt"]["doubts"] == "jtt: no row was wrong, so this run is ERM."


def test_the_pages_own_tables_and_figures_mark_them_and_say_why() -> None:
    place_results = [*arrange(_doubting()).places.values()][-1]
    (ranking,) = score_tables.ranking([place_results])
    for table in (score_tables.seed_table(place_results), score_tables.rank_table(ranking)):
        assert [row for row in table.rows if "jtt †" in row] and not [
            row for row in table.rows if "erm †" in row
        ]
        assert any(note.startswith("† jtt, ") for note in table.notes)
    drawn_figures = [
        figures.change_map(place_results),
        figures.worst_map(place_results),
        figures.seed_strips(place_results),
    ]
    for figure in drawn_figures:
        assert (
            figure is not None
            and "† jtt, 2 of 3 runs under SC: jtt: no row was wrong, so this run is ERM."
            in figure.caption
        )
    for figure in drawn_figures[:2]:
        assert figure is not None and str(figure.spec).count("†") == 1


def _crossed() -> list[dict[str, Any]]:
    """2 split seeds x 3 seeds of erm, and of groupdro, 0.1 higher but for the split seed; classes
    of equal size, two of them."""
    rows = []
    for split in (4, 7):
        for seed in range(3):
            split_fields = {"split_seed": split}
            rows += _run(
                "SC",
                "erm",
                seed,
                _both(round(0.6 + 0.05 * (split == 7) + 0.01 * seed, 6)),
                **split_fields,
            )
            rows += _run(
                "SC",
                "groupdro",
                seed,
                _both(round(0.7 + 0.06 * (split == 7) + 0.02 * seed * seed, 6)),
                **split_fields,
            )
    for row in rows:
        row["metrics"] |= {"classes": 2, "majority": 0.5, "train_shared": 0.75}
    return rows


def test_split_seeds_crossed_with_seeds() -> None:
    """groupdro minus erm, a row a split seed: 0.10, 0.11, 0.16 and 0.11, 0.12, 0.17; mean 0.12833.

    MS by split 6 * 0.005^2 = 0.00015; by seed 2 (0.02333^2 + 0.01333^2 + 0.03667^2) / 2 =
    0.0020667; of the rest 0.
    h^2 = (161.4476 * 0.00015 + 18.5128 * 0.0020667) / 6, h = 0.10205.
    """
    tables = _by_name(result_tables(_crossed()))
    (place_results,) = arrange(_crossed(), "erm").shown()
    alone = score_tables.place_tables(
        place_results, by_place([place_results], {"multiplicity": "none"})[place_results.place]
    )["difference"]
    assert shown(alone) == (("groupdro", "+0.128 ± 0.102 *"),)
    notes = tables["accuracy-mini-digits-small-mlp-test-best-id"].notes
    assert any(
        "over 2 split seeds x 3 seeds: both are random effects, crossed" in note for note in notes
    )
    assert any(
        "6 runs each" in note and "two seeds are expected to have in common: 0.75" in note
        for note in notes
    )
    assert not any("does not cover their choice" in note for note in notes)
    numbers = number_table(_crossed())
    cells = dict(zip(numbers.columns, numbers.rows[0], strict=True))
    assert (cells["n"], cells["splits"], cells["train_shared"], cells["chance"]) == (
        6,
        2,
        0.75,
        0.5,
    )


def test_one_split_seed_has_the_numbers_it_had_and_says_what_its_interval_leaves_out() -> None:
    alone = [row for row in _crossed() if row["split_seed"] == 4]
    plain = [{name: value for name, value in row.items() if name != "split_seed"} for row in alone]
    assert [table.rows for table in result_tables(alone)] == [
        table.rows for table in result_tables(plain)
    ]
    notes = result_tables(alone)[0].notes
    assert any(
        "the interval does not cover their choice" in note and "in common: 0.75" in note
        for note in notes
    )


def test_a_missing_run_leaves_out_its_seed() -> None:
    rows = [
        row
        for row in _crossed()
        if (row["method"], row["split_seed"], row["seed"]) != ("erm", 7, 2)
    ]
    rows += _run("SC", "erm", 2, {}, status="failed", reason="no luck", split_seed=7)
    tables = _by_name(result_tables(rows))
    assert (
        "Runs without a partner, left out: groupdro under SC 2."
        in tables["difference-mini-digits-small-mlp-test-best-id"].notes
    )
    notes = tables["accuracy-mini-digits-small-mlp-test-best-id"].notes
    assert any(
        "Left out, since their split seed or seed lacks runs: erm under SC 1." in note
        for note in notes
    )
    assert any("no luck (seed 2 of split 7)" in note for note in tables["runs"].notes)


def test_a_reference_at_chance_is_said_to_be_so() -> None:
    """erm 0.55, 0.56, 0.57: interval 0.56 +- 0.0248. Always answering the most frequent class
    reaches 0.54, or 0.53."""
    for majority, is_noted in ((0.54, True), (0.53, False)):
        rows = []
        for seed in range(3):
            rows += _run("SC", "erm", seed, _both(0.55 + 0.01 * seed)) + _run(
                "SC", "groupdro", seed, _both(0.8 + 0.02 * seed)
            )
        for row in rows:
            row["metrics"] |= {"classes": 2, "majority": majority}
        table = _by_name(result_tables(rows))["difference-mini-digits-small-mlp-test-best-id"]
        chance_note = (
            "Under SC the reference erm is at chance here, as far as its interval tells (guessing"
            " reaches 54.0%): a gain over it may be one over guessing."
        )
        assert (chance_note in table.notes) == is_noted


# -- numbers of names ------------------------------------------------------------------------------


def test_numbers_in_names_are_as_short_as_tells_them_apart() -> None:
    from crosswind.reports.tables import short_numbers, shortened

    names = ["area under 12.345678901234567", "area under 12.345679999999999", "2.5", "v1.12345678"]
    short = short_numbers(names)
    assert [shortened(name, short) for name in names] == [
        "area under 12.345679",
        "area under 12.34568",
        "2.5",
        "v1.12345678",
    ]
    assert shortened(names[0], short_numbers(names[:1])) == "area under 12.346"


def test_a_page_has_long_names_whole_on_hover() -> None:
    from crosswind.reports.page import _table_body, _with_short_labels
    from crosswind.reports.tables import ReportTable

    table = ReportTable("t", "t", ("name", "n"), [["under 0.1234567890123456 & more", 0.5]])
    assert '<span title="under 0.1234567890123456 &amp; more">under 0.12346 &amp; more</span>' in (
        _table_body(table)
    )
    data = '{"v":"under 0.1234567890123456","x":0.1234567890123456}'
    assert _with_short_labels(data) == '{"v":"under 0.12346","x":0.1234567890123456}'


@pytest.mark.parametrize("number", [100, 1001])
def test_of_many_seeds_the_page_shows_how_they_spread(number: int) -> None:
    accuracies = np.random.default_rng(0).permutation(np.linspace(0.2, 0.8, number))
    rows = [
        row
        for seed, accuracy in enumerate(accuracies)
        for row in _run("none", "erm", seed, {("best-id", "test"): float(accuracy)})
    ]
    place_results = arrange(rows, "erm").shown()[0]
    table = score_tables.seed_table(place_results)
    figure = figures.seed_strips(place_results)
    assert figure is not None
    points = figure.spec["datasets"]["rows"]
    assert len(points) == 100
    # A page of many runs has no room for a mean in each of its points.
    means = [point["b"] for point in points if "b" in point]
    assert means == ([] if number == 100 else [0.5])
    assert [int(point["k"]) for point in points] != sorted(range(100)) or number == 100
    shown = {round(float(accuracies[int(point["k"])]), 6) for point in points}
    assert shown == {point["a"] for point in points} and {min(shown), max(shown)} == {0.2, 0.8}
    if number == 100:
        assert len(table.columns) == 102 and "every seed" in table.title
    else:
        assert table.columns[2:] == (
            *("seeds", "lowest", "quarter", "median", "three quarters", "highest"),
        )
        assert table.rows[0][2:] == pytest.approx((1001, 0.2, 0.35, 0.5, 0.65, 0.8))
        assert "of 1,001 the 100 at even steps of their order" in figure.caption
