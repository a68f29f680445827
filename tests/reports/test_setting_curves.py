"""Accuracy against a setting that is a number: which settings have a curve, and that its means are
over the same data sets, shifts and runs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reports.test_claims import run
from tests.reports.test_conclusions import concluded

from crosswind.reports.scores.setting_curves import (
    SettingCurve,
    point_values,
    setting_figure,
    setting_table,
)


def points(method: str, levels: dict[str, float], **fields: Any) -> list[Any]:
    """Two seeds of every point, the second 0.02 above."""
    return [
        row
        for point, level in levels.items()
        for seed in range(2)
        for row in run(method, seed, level + 0.02 * seed, point=point, validation=0.5, **fields)
    ]


ERM = points("erm", {"lr=0.1": 0.5, "lr=0.01": 0.7, "lr=0.001": 0.6})
IRM = points(
    "irm",
    {
        "penalty_weight=1, lr=0.1": 0.4,
        "penalty_weight=1, lr=0.01": 0.6,
        "penalty_weight=10, lr=0.1": 0.2,
        "penalty_weight=10, lr=0.01": 0.3,
    },
)


def means(curve: SettingCurve) -> dict[str, dict[float, float]]:
    return {
        row: {value: sum(runs.values()) / len(runs) for value, runs in by_value.items()}
        for row, by_value in curve.levels.items()
    }


def test_a_curve_a_setting_and_of_the_others_the_mean() -> None:
    by_rate, by_weight = concluded([*ERM, *IRM]).curves
    assert (by_rate.setting, by_weight.setting) == ("lr", "penalty_weight")
    rates = means(by_rate)
    assert list(rates["erm"]) == [0.001, 0.01, 0.1], "in the order of the numbers"
    assert rates["erm"] == pytest.approx({0.001: 0.61, 0.01: 0.71, 0.1: 0.51})
    assert rates["irm"] == pytest.approx({0.01: 0.46, 0.1: 0.31})
    assert means(by_weight)["irm"] == pytest.approx({1.0: 0.51, 10.0: 0.26})
    assert "erm" not in by_weight.levels
    assert by_rate.is_logarithmic
    assert not by_weight.is_logarithmic


def test_points_that_were_not_chosen_count_and_values_that_a_shift_lacks_do_not() -> None:
    elsewhere = points("erm", {"lr=0.1": 0.1, "lr=0.01": 0.3}, shift="none")
    (curve,) = concluded([*ERM, *points("irm", {"": 0.5}), *elsewhere]).curves
    assert means(curve) == {"erm": pytest.approx({0.01: 0.51, 0.1: 0.31})}


def test_settings_that_are_no_numbers_or_one_number_have_no_curve() -> None:
    rows = [
        *points("erm", {"policy=cifar10": 0.5, "policy=svhn": 0.6}),
        *points("irm", {"lr=0.1, norm=batch": 0.5, "lr=0.1, norm=none": 0.6}),
    ]
    assert concluded(rows).curves == []


@pytest.mark.parametrize(
    ("point", "values"),
    [
        ("", {}),
        ("lr=0.01", {"lr": 0.01}),
        ("lr=1e-05, penalty_weight=1", {"lr": 1e-05, "penalty_weight": 1.0}),
        ("policy=cifar10, lr=0.1", {"lr": 0.1}),
        ("a", {}),
        ("7", {}),
        ("weight=nan, rate=inf", {}),
    ],
)
def test_the_numbers_of_a_point(point: str, values: dict[str, float]) -> None:
    assert point_values(point) == values


def test_table_and_figure_have_the_same_numbers_in_every_form() -> None:
    conclusion = concluded([*ERM, *IRM])
    curve = conclusion.curves[0]
    table = setting_table(curve)
    assert table.name.startswith("by-lr-") and table in conclusion.tables
    assert [row[:3] for row in table.rows] == [
        ("erm", "0.001", "61.0"),
        ("erm", "0.01", "71.0"),
        ("erm", "0.1", "51.0"),
        ("irm", "0.01", "46.0"),
        ("irm", "0.1", "31.0"),
    ]
    assert all(row[-1] == 2 for row in table.rows)
    assert table.to_csv() and table.to_latex() and table.to_json() and table.to_text()
    figure = setting_figure(curve)
    drawn = [(point["m"], f"{point['v']:g}", f"{100 * point['a']:.1f}")
             for point in figure.spec["datasets"]["points"]]  # fmt: skip
    assert drawn == [row[:3] for row in table.rows]
    assert figure.spec["layer"][0]["encoding"]["x"]["scale"] == {"type": "log"}
    assert "highest at: erm 0.01, irm 0.01" in figure.description
