"""Training sets of size `equal` have as many rows under every shift, also where counterexamples are
scarce."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars
import pytest

from crosswind.core.errors import InputError
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.spec import study_from

MATCHED, UNMATCHED = 100, 25  # rows of each cell where label and site go together, and do not
TESTED = 5


@pytest.fixture
def plan_with(tmp_path: Path, monkeypatch: Any) -> Any:
    monkeypatch.chdir(tmp_path)
    rows = [
        (label, site)
        for label in "ab"
        for site in "xy"
        for _ in range(MATCHED if label + site in ("ax", "by") else UNMATCHED)
    ]
    numbers = [float(row) for row in range(len(rows))]
    columns = {"label": [row[0] for row in rows], "site": [row[1] for row in rows]}
    polars.DataFrame({**columns, "x": numbers, "z": numbers[::-1]}).write_csv("sites.csv")

    def plan(counterexamples: Any, **fields: Any) -> Plan:
        tie = {"type": "spurious-correlation", "attribute": "site"}
        study = {
            "data": {
                "sites": {
                    "source": "features",
                    "options": {"path": "sites.csv", "numbers": ["x", "z"]},
                    "label": "label",
                    "attributes": ["site"],
                    "roles": {"test": TESTED, "validation": 0.5},
                }
            },
            "shifts": {"none": [], "SC": {**tie, "counterexamples": counterexamples}},
            "models": ["mlp"],
            "seeds": 1,
        }
        return make_plan(study_from({**study, **fields}))

    return plan


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 1.0])
def test_as_many_rows_under_every_shift_and_all_counterexamples_that_are_asked_for(
    plan_with: Any, share: float
) -> None:
    plan = plan_with(share)
    drawn = {draw.shift: draw for draw in plan.draws}
    assert drawn["none"].train_rows == drawn["SC"].train_rows
    assert not [text for text in plan.warnings if "counterexamples" in text]
    cells = drawn["SC"].cells
    matched = cells["label=a, site=x"] + cells["label=b, site=y"]
    counter = drawn["SC"].train_rows - matched
    # Of the rows that are not tested half validate; the last counterexample gives way to the total.
    n_matched, n_unmatched = MATCHED - TESTED - 48, UNMATCHED - TESTED - 10
    largest_size = max(
        n for n in range(1, 2 * n_matched + 1) if math.ceil(share * n) <= 2 * n_unmatched
    )
    assert 0 <= math.ceil(share * matched) - counter <= 1
    assert abs(matched - largest_size) <= 1


def test_a_number_of_counterexamples_that_are_not_there_leaves_the_sizes_equal(
    plan_with: Any,
) -> None:
    plan = plan_with(30)
    assert [draw.train_rows for draw in plan.draws] == [114, 114]
    text = "30 counterexamples of site are asked for, and 20 rows are left for them"
    assert [warning for warning in plan.warnings if text in warning]


def test_a_combination_without_counterexamples_is_as_large_as_the_other_shifts(
    plan_with: Any,
) -> None:
    strict = {"type": "spurious-correlation", "attribute": "site", "counterexamples": 0}
    tie = {**strict, "counterexamples": 0.2}
    plan = plan_with(0.2, shifts={"none": [], "SC": tie, "both": [tie, strict]})
    assert len({draw.train_rows for draw in plan.draws}) == 1


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"total": 5}, "sizes.total: is a size of the name 'total' that draws 5 rows of each cell"),
        ({"none": 6, "SC": 5}, "sizes: none, SC are names of shifts, and each of these sizes is"),
    ],
)
def test_a_size_whose_name_is_a_word_of_the_language_is_told_of(
    plan_with: Any, sizes: dict[str, Any], says: str
) -> None:
    assert any(warning.startswith(says) for warning in plan_with(0.1, sizes=sizes).warnings)
    assert not any(
        warning.startswith("sizes") for warning in plan_with(0.1, sizes={"few": 5}).warnings
    )


def test_sizes_by_shift_that_have_no_name_are_refused_with_how_they_are_written(
    plan_with: Any,
) -> None:
    with pytest.raises(InputError, match=r"`sizes: \{equal: \{sites: \{SC: \.\.\.\}\}\}`"):
        plan_with(0.1, sizes={"sites": {"SC": 5, "none": 5}})


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"sizes": "all"}, r"sizes: must be a mapping, not 'all' \(name -> equal, all, training"),
        ({"groups": "site"}, r"groups: must be a list, not 'site'; write \[site\]"),
    ],
)
def test_a_field_of_another_form_is_refused_with_how_it_is_written(
    plan_with: Any, fields: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        plan_with(0.1, **fields)


def test_a_strength_under_all_rows_is_told_as_it_is_there(plan_with: Any) -> None:
    shifts = {"tied": {"type": "spurious-correlation", "attribute": "site", "strength": 0.5}}
    plan = plan_with(0, shifts=shifts, sizes={"many": "all"})
    matched, unmatched = MATCHED - TESTED - 48, UNMATCHED - TESTED - 10
    drawn = matched / (matched + unmatched / 3)  # P(a|y) 0.75: a third beside a matched row
    [draw] = plan.draws
    assert draw.matched_shares["site"] == pytest.approx({"a": drawn, "b": drawn}, abs=0.02)
    [told] = [text for text in plan.warnings if "strength: 0.5" in text]
    assert "94% of a show site x, not the 75%" in told
    assert "strength" not in "".join(plan_with(0, shifts=shifts).warnings)


def test_a_number_of_rows_that_is_too_large_is_refused_at_the_shift_that_asks(
    plan_with: Any,
) -> None:
    rare = {"type": "low-data-drift", "attribute": "site", "low": "y", "count": 5000}
    with pytest.raises(InputError) as caught:
        plan_with(0.1, shifts={"none": [], "LDD": rare})
    assert str(caught.value).startswith(
        "shifts.LDD: asks for 5,000 rows of site y, and the training"
    )


@pytest.mark.parametrize(
    ("counterexamples", "says"),
    [
        (
            5.0,
            "counterexamples: 5.0 is a share, 500% of the matched rows, so that more rows contradict",
        ),
        (5.0, "than show it; write 5 for 5 rows or 0.05 for 5%"),
        (1.5, "than show it; write 0.015 for 1.5%"),
        (1, "counterexamples: 1 is a single row; write 1.0 for as many as matched rows"),
    ],
)
def test_counterexamples_that_may_be_meant_otherwise_are_told_of(
    plan_with: Any, counterexamples: Any, says: str
) -> None:
    assert any(says in warning for warning in plan_with(counterexamples).warnings)
    for plain in (0.2, 1.0, 5):
        warnings = plan_with(plain).warnings
        assert not any(warning.startswith("counterexamples") for warning in warnings)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"label_noise": 20}, "not 20.0; write 0.2 for 20%"),
        ({"sizes": {"half": 0.9}}, ""),
        ({"sampler": {"mixture": "50%"}}, "must be a number, not '50%'; write 0.5 for 50%"),
        ({"shifts": {"SC": {"strength": 80}}}, r"in \[0, 1\], not 80.0; write 0.8 for 80%"),
        ({"shifts": {"SC": {"counterexamples": "20%"}}}, "not '20%'; write 0.2 for 20%"),
        ({"shifts": {"SC": {"strength": 800}}}, r"in \[0, 1\], not 800.0$"),
    ],
)
def test_a_percentage_is_refused_with_the_share_that_it_stands_for(
    plan_with: Any, fields: dict[str, Any], says: str
) -> None:
    if "shifts" in fields:
        tie = {"type": "spurious-correlation", "attribute": "site", **fields["shifts"]["SC"]}
        fields = {"shifts": {"SC": tie}}
    if says:
        with pytest.raises(InputError, match=says):
            plan_with(0.1, **fields)
    else:
        plan = plan_with(0.1, **fields)
        assert any("0.9 is a part of one row of each cell" in text for text in plan.warnings)
