"""A plan says when units or a share of each cell make a test set as tied as the rows, and its remedy
draws an even one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
import yaml

from crosswind.studies.plan import make_plan
from crosswind.studies.reading import parse
from crosswind.studies.spec import study_from

N = 1200
UNEVEN = "a unit is dealt with all its rows"


@pytest.fixture
def study(tmp_path: Path, monkeypatch: Any) -> dict[str, Any]:
    """Six visits of each person, the ward with the illness in nine of ten."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    ill = draw.integers(0, 2, N)
    ward = np.where(draw.random(N) < 0.9, ill, 1 - ill)
    polars.DataFrame(
        {
            "who": [f"p{row // 6}" for row in range(N)],
            "x": (ill + draw.normal(0, 1, N)).tolist(),
            "ward": ["AB"[one] for one in ward],
            "ill": [["no", "yes"][one] for one in ill],
            "part": [["train", "test"][row // 6 % 2] for row in range(N)],
        }
    ).write_csv("visits.csv")
    options = {"path": "visits.csv", "numbers": ["x"], "columns": ["ill", "ward", "part"]}
    entry = {
        "source": "table",
        "options": {**options, "unit": "who"},
        "label": "ill",
        "attributes": ["ward"],
        "roles": {"test": 15, "validation": 0.15},
    }
    return {
        "data": {"visits": entry},
        "shifts": {"none": []},
        "models": ["tabular"],
        "methods": ["erm"],
    }


def warnings_of(study: dict[str, Any]) -> list[str]:
    plan = make_plan(study_from(parse(yaml.safe_dump(study), "study.yaml"), name="study"))
    assert plan.runs
    return [text for text in plan.warnings if UNEVEN in text]


def test_units_that_make_a_test_set_uneven_are_warned_of(study: dict[str, Any]) -> None:
    (text,) = warnings_of(study)
    fewest, most = map(int, re.findall(r"(\d+) rows of one cell and (\d+) of another", text)[0])
    assert fewest == 15
    assert most > 2 * fewest


def test_a_cell_with_one_row_to_test_is_warned_of(study: dict[str, Any]) -> None:
    rows = polars.read_csv("visits.csv")
    lone = (rows["part"] == "test") & (rows["ill"] == "yes") & (rows["ward"] == "A")
    first = int(lone.arg_true()[0])
    kept = ~lone | (polars.Series(range(rows.height)) == first)
    rows.filter(kept).write_csv("visits.csv")
    entry = study["data"]["visits"]
    del entry["options"]["unit"]
    official = {"column": "part", "test": ["test"], "train": ["train"]}
    dealt = {**study, "data": {"visits": {**entry, "roles": {"official": official}}}}
    plan = make_plan(study_from(parse(yaml.safe_dump(dealt), "study.yaml"), name="study"))
    (text,) = [text for text in plan.warnings if "nothing can be told of it" in text]
    assert "test set test has 1 row of ill=yes, ward=A: where that is the worst group" in text


def test_the_remedy_draws_an_even_test_set(study: dict[str, Any]) -> None:
    (text,) = warnings_of(study)
    remedy = yaml.safe_load(text.split("`")[1])
    even = {**study, **remedy}
    assert warnings_of(even) == []
    plan = make_plan(study_from(parse(yaml.safe_dump(even), "study.yaml"), name="study"))
    assert plan.draws[0].test_rows == 4 * 15


def test_rows_without_units_are_dealt_evenly(study: dict[str, Any]) -> None:
    del study["data"]["visits"]["options"]["unit"]
    assert warnings_of(study) == []


def test_official_roles_are_taken_as_they_are(study: dict[str, Any]) -> None:
    official = {"column": "part", "train": ["train"], "test": ["test"]}
    study["data"]["visits"]["roles"] = {"official": official, "validation": 0.15}
    assert warnings_of(study) == []


SHARE = "roles.test is a share of each cell"


@pytest.mark.parametrize("roles", [{}, {"test": 0.2}, {"test": "1/5"}])
def test_a_share_of_uneven_cells_is_warned_of_and_the_number_that_is_named_evens_it(
    study: dict[str, Any], roles: dict[str, Any]
) -> None:
    entry = study["data"]["visits"]
    del entry["options"]["unit"]
    entry["roles"] = roles

    def plan_with(**fields: Any) -> Any:
        text = yaml.safe_dump({**study, **fields})
        return make_plan(study_from(parse(text, "study.yaml"), name="study"))

    (text,) = [text for text in plan_with().warnings if SHARE in text]
    fewest, most = map(int, re.findall(r"(\d+) rows of one cell and (\d+) of another", text)[0])
    rows = polars.read_csv("visits.csv").group_by("ill", "ward").len()["len"].to_list()
    assert (fewest, most) == (round(min(rows) / 5), round(max(rows) / 5))
    validation = {"role": "validation", "law": "train"}
    as_trained = {"validation": validation, "as-trained": {"role": "test", "law": "train"}}
    assert not [text for text in plan_with(sets=as_trained).warnings if SHARE in text]
    entry["roles"] = yaml.safe_load(re.findall(r"`roles: ({.*?})`", text)[0])
    evened = plan_with()
    assert not [text for text in evened.warnings if SHARE in text]
    assert evened.draws[0].test_rows == 4 * fewest


def test_an_official_validation_part_that_is_smaller_than_asked_is_told_of(
    study: dict[str, Any],
) -> None:
    rows = polars.read_csv("visits.csv")
    part = ["validation" if row % 10 == 0 else "train" if row % 2 else "test" for row in range(N)]
    rows.with_columns(part=polars.Series(part)).write_csv("visits.csv")
    entry = study["data"]["visits"]
    del entry["options"]["unit"]
    official = {
        "column": "part",
        "train": ["train"],
        "test": ["test"],
        "validation": ["validation"],
    }

    def told(**roles: Any) -> list[str]:
        entry["roles"] = {"official": official, **roles}
        plan = make_plan(study_from(parse(yaml.safe_dump(study), "study.yaml"), name="study"))
        return [
            text for text in plan.warnings if "the official validation part has no more" in text
        ]

    (text,) = told(validation=0.5)
    assert (
        "set validation has 120 of the " in text and "that roles.validation: 0.5 asks for" in text
    )
    assert told() == told(validation=0.1) == told(validation=4) == []
