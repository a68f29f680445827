"""Charts as specifications: each is valid Vega-Lite by Altair's copy of its schema, and what is handed out twice is one."""

from __future__ import annotations

from typing import Any

import altair
import jsonschema
import pytest

from crosswind.reports import charts
from crosswind.reports.bundle import VEGA_LITE
from crosswind.reports.drawing import filled

WIDE = tuple(f"value {i}" for i in range(30))
CHARTS: dict[str, dict[str, Any]] = {
    "panels": charts.panels("digit", (("ink", ("0", "1"), ("red", "green")), ("background", ("0",), WIDE)), "small"),
    "large panels": charts.panels("digit", (("ink", WIDE, ("red",)),), "large"),
    "change": charts.grid(("none", "SC"), ("groupdro",), (("d", "change", "+.3f"), ("i", "95% interval", "")), True),
    "worst": charts.grid(WIDE, ("erm", "groupdro"), (("d", "worst group", ".3f"),), False),
    "strips": charts.strips(("none", "SC"), ("erm", "groupdro"), "accuracy on test"),
    "rules": charts.rule_points(("none",), ("erm",), ("best-id", "best-target (ORACLE)"), "accuracy on test"),
    "ranks": charts.rank_circles(("erm", "groupdro")),
    "time": charts.stacks(("erm", "groupdro"), ("data", "step", "other"), ("data", "step")),
}


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_valid_vega_lite(name: str) -> None:
    assert altair.Chart.from_dict(CHARTS[name], validate=True) is not None


def test_an_invalid_chart_is_found() -> None:
    wrong = {**CHARTS["time"], "mark": "column"}
    with pytest.raises(jsonschema.ValidationError):
        altair.Chart.from_dict(wrong, validate=True)


def test_charts_are_of_the_version_that_draws_them() -> None:
    import vl_convert

    assert VEGA_LITE in vl_convert.get_vegalite_versions()
    assert all(chart["$schema"].endswith(f"/v{VEGA_LITE.partition('.')[0]}.json") for chart in CHARTS.values())


def test_numbers_go_in_beside_the_chart() -> None:
    before = repr(CHARTS["change"])
    made = filled(CHARTS["change"], {"rows": [{"d": 0.1}]}, most=0.25)
    assert made["datasets"] == {"rows": [{"d": 0.1}]}
    assert {"name": "most", "value": 0.25} in made["params"]
    assert repr(CHARTS["change"]) == before
