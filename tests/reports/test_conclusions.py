"""What all rows together say: ranks over data sets and seeds, the variance bar, pairs, and tuning."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reports.test_claims import run, several

from crosswind.reports.scores.conclusions import (
    Conclusions,
    conclusions,
    critical_difference_diagram,
    variance_bar,
)
from crosswind.reports.scores.results import arrange

RESOLVED: dict[str, Any] = {
    "reference": "erm",
    "methods": dict.fromkeys(("erm", "irm", "groupdro"), {}),
}
LEVELS = {"erm": 0.5, "irm": 0.6, "groupdro": 0.7}


def steady(data: str = "digits", **fields: Any) -> list[Any]:
    """Each method above the one before it at every seed."""
    return [
        {**row, "data": data}
        for method, level in LEVELS.items()
        for row in several(method, [level, level + 0.02, level + 0.01], **fields)
    ]


def concluded(rows: list[Any], **resolved: Any) -> Conclusions:
    (conclusion,) = conclusions(arrange(rows).shown(["best-id"]), {**RESOLVED, **resolved})
    return conclusion


def tabled(conclusion: Conclusions) -> dict[str, Any]:
    return {table.name.split("-mini")[0]: table for table in conclusion.tables}


def test_blocks_are_data_sets_and_seeds_and_not_shifts() -> None:
    conclusion = concluded([*steady(), *steady(shift="none"), *steady("faces")])
    blocks = conclusion.view.blocks()
    assert len(blocks) == 6  # two data sets, three seeds
    assert blocks[0] == pytest.approx(LEVELS)
    table = tabled(conclusion)["rank-test"]
    assert [row[:2] for row in table.rows] == [("groupdro", 1.0), ("irm", 2.0), ("erm", 3.0)]
    assert "6 blocks" in table.notes[0] and "the methods differ" in table.notes[0]
    assert table.rows[0][2:] == (1, 0) and table.rows[2][2:] == (0, 1)  # 1 apart is not told


def test_a_row_that_lacks_a_data_set_is_left_out_and_named() -> None:
    rows = [*steady(), *[row for row in steady("faces") if row["method"] != "irm"]]
    conclusion = concluded(
        [*rows, *several("vrex", [0.4, 0.5, 0.4])], methods={**RESOLVED["methods"], "vrex": {}}
    )
    assert conclusion.view.shared_rows() == ["erm", "groupdro"]
    assert conclusion.ranks is None  # two rows are not ranked
    assert [row[0] for row in tabled(conclusion)["beats"].rows] == ["irm", "groupdro", "vrex"]


def test_shifts_that_lack_a_row_are_left_out_of_the_ranks_and_named() -> None:
    without_irm = [row for row in steady(shift="LDD") if row["method"] != "irm"]
    rows = [*steady(), *without_irm, *steady("faces")]
    table = tabled(concluded(rows))["rank-test"]
    assert table.notes[-1] == "Not with a result of every method on digits, left out: LDD."
    doubled = [*rows, *({**row, "data": "faces"} for row in without_irm)]
    note = "Not with a result of every method, left out: LDD."
    assert tabled(concluded(doubled))["rank-test"].notes[-1] == note


def test_the_reference_on_several_models_is_a_row_each() -> None:
    conclusion = concluded([*steady(), *several("erm", [0.3, 0.4, 0.5], model="cnn")])
    assert conclusion.view.reference == "mlp"
    assert conclusion.view.rows == ["mlp", "irm", "groupdro", "cnn"]


def test_models_that_are_only_asked_are_no_rows() -> None:
    rows = [*steady(), *several("clip", [0.9, 0.9, 0.9])]
    assert "clip" not in concluded(rows).view.rows
    assert conclusions([], RESOLVED) == []


def test_the_variance_is_shared_out_with_points_that_were_not_chosen() -> None:
    rows = [
        row
        for method, level in LEVELS.items()
        for point, more in (("lr=0.1", 0.0), ("lr=0.01", 0.1))
        for seed in range(3)
        for row in run(method, seed, level + more + 0.01 * seed, point=point, validation=more)
    ]
    conclusion = concluded(rows)
    assert conclusion.variance is not None and conclusion.variance.scores == 18
    shares = conclusion.variance.shares
    assert set(shares) == {"seed", "settings", "method"}
    # Of settings 0.1^2 / 2 less the noise of seeds, 0.0001 / 3; of methods 0.01 less half of both.
    components = conclusion.variance.components
    assert components["seed"] == pytest.approx(0.0001)
    assert components["settings"] == pytest.approx(0.005 - 0.0001 / 3)
    assert components["method"] == pytest.approx(0.01 - 0.005 / 2)
    figure = variance_bar(conclusion)
    assert figure is not None and "settings of a method 39" in figure.description
    assert tabled(conclusion)["variance"].rows[1][:2] == ("settings of a method", "39.5%")


def test_tuning_is_what_the_chosen_point_has_beyond_any() -> None:
    """erm is as good at both points; irm's second is 0.2 better and chosen."""
    rows = [
        row
        for seed in range(3)
        for method, point, level, validation in (
            ("erm", "a", 0.5, 0.4),
            ("erm", "b", 0.5, 0.3),
            ("irm", "a", 0.4 + 0.01 * seed, 0.3),
            ("irm", "b", 0.6 + 0.01 * seed, 0.5),
        )
        for row in run(method, seed, level, point=point, validation=validation)
    ]
    table = tabled(concluded(rows))["tuning"]
    cells = dict(zip(table.columns, table.rows[1], strict=True))
    assert (cells["method"], cells["points"], cells["chosen"], cells["any"]) == (
        "irm",
        2,
        "61.0",
        "51.0",
    )
    assert (cells["worst"], cells["best"]) == ("41.0", "61.0")
    assert str(cells["gain, chosen"]).startswith("+11.0 [") and str(cells["gain, any"]).startswith(
        "+1.0 ["
    )
    assert table.rows[0][-2:] == (None, None)
    assert "tuning" not in tabled(concluded(steady()))


def test_every_pair_of_rows_is_compared() -> None:
    table = tabled(concluded(steady()))["pairs"]
    assert table.rows == (
        ("erm", None, "0.00", "0.00"),
        ("irm", "1.00", None, "0.00"),
        ("groupdro", "1.00", "1.00", None),
    )


def test_the_diagram_says_its_numbers_in_words() -> None:
    figure = critical_difference_diagram(concluded([*steady(), *steady("faces")]))
    assert figure is not None and figure.description.startswith("Mean ranks over 6 blocks")
    assert "groupdro 1.00, irm 2.00, erm 3.00" in figure.description
    assert (
        critical_difference_diagram(concluded(several("erm", [0.5]) + several("irm", [0.6])))
        is None
    )


def test_tables_have_every_form() -> None:
    for table in concluded([*steady(), *steady(shift="none")]).tables:
        assert table.to_csv() and table.to_latex() and table.to_json() and table.to_text()
