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
    family_map,
    rank_by_seed_table,
    rank_correlation,
)
from crosswind.reports.scores.results import arrange
from crosswind.reports.tables import ScoreCell

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
