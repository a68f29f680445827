"""Methods and architectures side by side by family: the rows, changes worked by hand, ranks, and
whether shifts agree."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reports.test_score_tables import _both, _run

from crosswind.reports.scores.families import (
    agreement_table,
    change_table,
    families,
    rank_by_seed_table,
    rank_correlation,
)
from crosswind.reports.scores.family_figures import family_map, shift_count_figure
from crosswind.reports.scores.results import arrange
from crosswind.reports.scores.shift_counts import shift_count_tables, shifts_by_count
from crosswind.reports.tables import ScoreCell
from crosswind.studies.claims import component_counts
from crosswind.studies.spec import load_study

RESOLVED: dict[str, Any] = {
    "shifts": {"none": [], "SC": [{"type": "spurious-correlation"}]},
    "methods": {
        "erm": {},
        "irm": {},
        "groupdro": {},
        "drawn": {"method": "randaugment"},
        "ours": {"method": "not-a-method"},
    },
}
# Accuracy of seeds 0 and 1 under none and under SC; erm has 0.5, 0.4 and 0.4, 0.2.
ACCURACIES = {
    ("erm", "mlp"): ((0.5, 0.4), (0.4, 0.2)),
    ("erm", "resnet18"): ((0.6, 0.4), (0.4, 0.3)),
    ("irm", "mlp"): ((0.5, 0.5), (0.2, 0.3)),
    ("groupdro", "mlp"): ((0.4, 0.4), (0.5, 0.3)),
    ("drawn", "mlp"): ((0.7, 0.7), (0.6, 0.6)),
    ("ours", "mlp"): ((0.3, 0.3), (0.3, 0.3)),
}


def rows(data: str = "digits", less: float = 0.0) -> list[dict[str, Any]]:
    return [
        {**row, "data": data, "model": model}
        for (method, model), shifts in ACCURACIES.items()
        for shift, values in zip(("none", "SC"), shifts, strict=True)
        for seed, value in enumerate(values)
        for row in _run(shift, method, seed, _both(round(value - less, 6)))
    ]


def view(added_rows: list[dict[str, Any]] | None = None) -> Any:
    (family_view,) = families(arrange([*rows(), *(added_rows or [])]).shown(), RESOLVED)
    return family_view


def test_rows_are_methods_on_the_main_model_and_the_reference_on_others() -> None:
    family_view = view()
    assert family_view.baseline == "mlp"
    assert list(family_view.family.items()) == [
        ("mlp", "architecture"),
        ("resnet18", "architecture"),
        ("irm", "out-of-distribution generalisation"),
        ("groupdro", "worst case"),
        ("randaugment", "heuristic augmentation"),
        ("not-a-method", "other"),
    ]
    assert family_view.methods == ["irm", "groupdro", "randaugment", "not-a-method"]
    assert family_view.shifted == ["SC"]


def test_changes_are_percentages_of_the_baseline_at_the_same_seed() -> None:
    """resnet18 under none: 0.6 / 0.5 and 0.4 / 0.4, so +20 and 0; irm under SC: 0.2 / 0.4 and 0.3 /
    0.2, so -50 and +50."""
    table = change_table(view())
    cells = {row[1]: row[2:] for row in table.rows}
    assert list(cells) == ["resnet18", "irm", "groupdro", "randaugment", "not-a-method"]
    assert [
        cell.mean for cell in cells["resnet18"] if isinstance(cell, ScoreCell)
    ] == pytest.approx([10, 25])
    assert [cell.mean for cell in cells["irm"] if isinstance(cell, ScoreCell)] == pytest.approx(
        [12.5, 0]
    )


def test_data_sets_are_averaged_before_seeds() -> None:
    """A second data set 0.1 lower: resnet18 under none 0.5 / 0.4 and 0.3 / 0.3, +25 and 0; with the
    first +22.5 and 0 by seed."""
    family_view = view(rows("letters", less=0.1))
    change = family_view.change(["resnet18"], ["none"])
    assert change is not None
    assert (change.mean, change.n) == (pytest.approx(11.25), 2)
    assert family_view.accuracy(["irm", "groupdro"], ["none", "SC"])[0] == pytest.approx(
        (0.5 + 0.2 + 0.4 + 0.5) / 4 - 0.05
    )


def test_a_label_is_called_as_its_method_unless_both_run_on_one_data_set() -> None:
    resolved = {
        **RESOLVED,
        "methods": {**RESOLVED["methods"], "drawn-2": {"method": "randaugment"}},
    }
    letter_rows = [
        {**row, "method": "drawn-2" if row["method"] == "drawn" else row["method"]}
        for row in rows("letters")
    ]
    (family_view,) = families(arrange([*rows(), *letter_rows]).shown(), resolved)
    assert (
        "randaugment" in family_view.family and len(family_view.entries("SC", "randaugment")) == 2
    )
    doubled_rows = [{**row, "method": "drawn-2"} for row in rows() if row["method"] == "drawn"]
    (family_view,) = families(arrange([*rows(), *doubled_rows]).shown(), resolved)
    assert {"drawn", "drawn-2"} <= set(family_view.family)


def test_ranks_are_means_over_shifts_by_data_set_and_seed() -> None:
    """Seed 0: under none mlp is third of six, tied with irm (3.5); under SC third and tied with
    resnet18 (3.5)."""
    table = rank_by_seed_table(view())
    assert table is not None and table.columns[2:] == ("digits seed 0", "digits seed 1")
    ranks = {row[1]: row[2] for row in table.rows}
    assert (ranks["randaugment"], ranks["mlp"]) == (1.0, 3.5)


def test_agreement_is_the_rank_correlation_of_methods_without_architectures() -> None:
    """Means of irm, groupdro, randaugment, ours: 0.5 0.4 0.7 0.3 under none, 0.25 0.4 0.6 0.3 under
    SC: ranks 2 3 1 4, 4 2 1 3."""
    table = agreement_table(view())
    assert table is not None and list(table.rows) == [("none", "+0.40")]
    rho = rank_correlation([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    assert rho == (pytest.approx(0.8), pytest.approx(0.10409, abs=1e-5))
    assert rank_correlation([1, 1, 1], [1, 2, 3]) is None


def test_the_figure_has_a_panel_a_family_and_a_cell_a_row_and_shift() -> None:
    figure = family_map(view())
    assert figure is not None
    cells = figure.spec["datasets"]["rows"]
    assert len(cells) == 5 * 2 and {cell["f"] for cell in cells} == set(view().family.values())
    assert "5 methods and architectures in 5 families" in figure.description


def test_a_study_of_two_families_has_no_such_view() -> None:
    few = [row for row in rows() if row["method"] in ("erm", "irm")]
    assert families(arrange(few).shown(), RESOLVED) == []


CONCURRENT: dict[str, Any] = {
    **RESOLVED,
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.1},
        "UDS": {"type": "unseen-data", "attribute": "size"},
        "SC+UDS": ["SC", "UDS"],
    },
}


def concurrent_view(only_none: str = "") -> Any:
    """Under UDS as under none, under both 0.1 below SC; `only_none`: a method without a run under
    UDS."""
    uds = [
        {**row, "shift": "UDS"}
        for row in rows()
        if row["shift"] == "none" and row["method"] != only_none
    ]
    both = [{**row, "shift": "SC+UDS"} for row in rows(less=0.1) if row["shift"] == "SC"]
    (family_view,) = families(arrange([*rows(), *uds, *both]).shown(), CONCURRENT)
    return family_view


def test_accuracy_by_the_number_of_concurrent_shifts_is_a_mean_over_rows_and_shifts() -> None:
    """One shift is SC and UDS. irm at seed 0: (0.2 + 0.5) / 2 = 0.35, at seed 1: (0.3 + 0.5) / 2 =
    0.4; under both 0.1 and 0.2."""
    assert shifts_by_count(concurrent_view()) == {0: ["none"], 1: ["SC", "UDS"], 2: ["SC+UDS"]}
    by_shift, by_count = shift_count_tables(concurrent_view())
    assert by_shift.columns == ("family", "rows", "none", "SC", "UDS", "SC+UDS")
    assert by_count.columns == ("family", "rows", "no shift", "one shift", "2 shifts")
    cells = {str(row[0]): row for row in by_count.rows}
    assert [(row[0], row[1]) for row in by_count.rows][:3] == [
        ("all rows", 6),
        ("architecture", 2),
        ("out-of-distribution generalisation", 1),
    ]
    irm = cells["out-of-distribution generalisation"][2:]
    assert [cell.mean for cell in irm if isinstance(cell, ScoreCell)] == pytest.approx(
        [50, 37.5, 15]
    )
    # All six under none: 0.5 0.6 0.5 0.4 0.7 0.3 at seed 0 and 0.4 0.4 0.5 0.4 0.7 0.3 at seed 1.
    (all_under_none,) = [cell for cell in cells["all rows"][2:3] if isinstance(cell, ScoreCell)]
    assert all_under_none.mean == pytest.approx(100 * (3.0 + 2.7) / 12)
    assert all_under_none.n == 2 and all_under_none.half_width is not None
    assert "2 shifts: SC+UDS" in by_count.notes[1]


def test_a_row_without_a_result_under_every_shift_is_left_out_of_all_numbers() -> None:
    by_shift, _ = shift_count_tables(concurrent_view(only_none="irm"))
    assert [row[0] for row in by_shift.rows] == [
        "all rows",
        "architecture",
        "worst case",
        "heuristic augmentation",
        "other",
    ]
    assert by_shift.rows[0][1] == 5
    assert "1 row without a result under every shift is left out" in by_shift.notes[0]


def test_without_concurrent_shifts_nothing_is_said_of_their_number() -> None:
    assert shift_count_tables(view()) == [] and shift_count_figure(view()) is None


def test_the_figure_has_a_panel_a_family_and_the_mean_of_all_in_each() -> None:
    figure = shift_count_figure(concurrent_view())
    assert figure is not None and figure.panels == 5
    points = figure.spec["datasets"]["rows"]
    assert len(points) == 5 * 3
    assert {point["all"] for point in points if point["n"] == "0"} == {0.475}
    (irm,) = [
        point
        for point in points
        if point["f"] == "out-of-distribution generalisation" and point["n"] == "1"
    ]
    assert irm["a"] == 0.375 and irm["low"] < 0.375 < irm["high"]


def test_components_are_counted_as_studies_declare_them() -> None:
    shifts = load_study("jeon2025/controlled").shifts
    assert component_counts(shifts) == {
        "uniform": 0,
        **dict.fromkeys(("SC", "LDD", "UDS"), 1),
        **dict.fromkeys(("SC+LDD", "SC+UDS", "LDD+UDS"), 2),
        "SC+LDD+UDS": 3,
    }
    nested = {
        "a": {"type": "unseen-data", "attribute": "x", "unseen": "last"},
        "two": ["a", {"type": "label-noise", "share": 0.1}],
        "three": ["two", [{"type": "unseen-data"}]],
        "itself": ["itself", "a"],
        "gone": ["nowhere"],
    }
    assert component_counts(nested) == {"a": 1, "two": 2, "three": 3, "itself": 2, "gone": 1}
