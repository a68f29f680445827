"""Prompts of one model side by side: accuracies, the best and other choices, fine-tuned runs, and
what a study may declare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.reports.test_score_tables import _both, _run

from crosswind.core.errors import InputError
from crosswind.reports.prompts.figures import prompt_map
from crosswind.reports.prompts.scores import (
    ORACLE,
    answer_table,
    asked_of,
    choice_table,
    prompt_table,
    tuned_table,
)
from crosswind.reports.scores.results import arrange
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

RESOLVED: dict[str, Any] = {
    "prompts": {
        "models": {
            "llava": {"General": "llava-1", "Tailored": ["llava-shapes", "llava-faces"]},
            "clip": {"General": "clip"},
        },
        "fixed": None,
        "tuned": {"llava": {"method": "lora", "model": "resnet18"}},
        "averages": {},
    }
}
# By label and data set; the same under both shifts and for both seeds.
ACCURACIES = {
    ("llava-1", "shapes"): 0.5,
    ("llava-shapes", "shapes"): 0.75,
    ("llava-1", "faces"): 0.875,
    ("llava-faces", "faces"): 0.625,
    ("clip", "shapes"): 0.25,
    ("clip", "faces"): 0.375,
}
# On validation rows, where the other prompt is better.
VALIDATION = {
    ("llava-1", "shapes"): 0.8,
    ("llava-shapes", "shapes"): 0.7,
    ("llava-1", "faces"): 0.6,
}


def results(model: str = "resnet18") -> Any:
    rows = [
        {**row, "data": data, "model": model}
        for (label, data), value in ACCURACIES.items()
        for shift in ("none", "SC")
        for seed in (0, 1)
        for row in _run(shift, label, seed, _both(value, VALIDATION.get((label, data), 0.9)))
    ]
    for data, values in (("shapes", (0.8, 0.9)), ("faces", (0.9, 1.0))):
        for shift, less in (("none", 0.0), ("SC", 0.2)):
            for seed, value in enumerate(values):
                rows += [
                    {**row, "data": data, "model": model}
                    for row in _run(shift, "lora", seed, _both(round(value - less, 6)))
                ]
    return arrange(rows)


def asked() -> Any:
    found = results()
    (item,) = asked_of(found.shown(), found.places, RESOLVED)
    return item


def test_table_5_has_a_row_a_model_and_prompt_and_marks_the_best() -> None:
    table = prompt_table(asked())
    assert table.columns == ("model", "prompt", "shapes", "faces")
    assert [list(row) for row in table.rows] == [
        ["llava", "General", "0.500  ", "0.875 ‹"],
        ["llava", "Tailored", "0.750 ‹", "0.625  "],
        ["clip", "General", "0.250  ", "0.375  "],
    ]


def test_the_best_prompt_stands_beside_a_fixed_and_a_validated_one_and_the_drop() -> None:
    """Means of two data sets by hand: (0.5 + 0.625) / 2 = 0.5625 of the prompts that were better on
    validation rows."""
    table = choice_table(asked())
    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    assert rows["llava", ORACLE] == (0.75, 0.875, 0.8125)
    assert rows["llava", "fixed: General"] == (0.5, 0.875, 0.6875)
    assert rows["llava", "by validation"] == (0.5, 0.625, 0.5625)
    assert rows["llava", "best - worst"] == (0.25, 0.25, None)
    assert rows["clip", ORACLE] == rows["clip", "fixed: General"] == (0.25, 0.375, 0.3125)
    assert ("clip", "best - worst") not in rows
    assert any("too high" in note for note in table.notes)


def test_table_14_has_the_same_model_without_and_with_fine_tuning() -> None:
    """Mean over the shifts at each seed: 0.7 and 0.8 on shapes, so 0.75."""
    table = tuned_table(asked())
    assert table is not None
    rows = {row[:2]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    shapes = rows["llava", "shapes"]
    assert shapes["with"] == pytest.approx(0.75) and shapes["runs"] == 2
    assert shapes[f"without, {ORACLE}"] == 0.75 and shapes["without, fixed: General"] == 0.5
    assert rows["llava", "faces"]["with"] == pytest.approx(0.85)


def test_answers_that_no_seed_changes_have_the_interval_of_their_rows() -> None:
    row = next(
        row for row in answer_table(asked()).rows if row[:3] == ("llava", "General", "shapes")
    )
    accuracy, low, high, rows = row[3:7]
    assert accuracy == 0.5 and rows and low is not None and high is not None
    assert 0 < low < 0.5 < high < 1 and low + high == pytest.approx(1)


def test_the_figure_frames_the_best_of_several() -> None:
    cells = prompt_map(asked()).spec["datasets"]["rows"]
    assert len(cells) == 6 and {(row["m"], row["s"]) for row in cells if row["x"]} == {
        ("llava, Tailored", "shapes"),
        ("llava, General", "faces"),
    }


def test_a_study_without_prompts_has_no_such_view() -> None:
    found = results()
    assert (
        asked_of(found.shown(), found.places, {"prompts": None})
        == asked_of(found.shown(), found.places, {})
        == []
    )


STUDY: dict[str, Any] = {
    "data": {
        name: {"source": "digits", "label": "digit", "attributes": ["ink"], "roles": {"test": 2}}
        for name in ("digits", "again")
    },
    "shifts": {"none": []},
    "methods": ["erm"],
    "seeds": 1,
}


def planned(tmp_path: Path, entries: dict[str, Any], prompts: dict[str, Any]) -> Any:
    code = "".join(f"def {name}(x):\n    return [0] * len(x)\n" for name in entries)
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    given = {
        name: {"model": "callable", "function": f"{tmp_path / 'mine.py'}:{name}", **more}
        for name, more in entries.items()
    }
    return make_plan(study_from({**STUDY, "models": {"mlp": {}, **given}, "prompts": prompts}))


def test_a_model_is_asked_about_its_own_data_alone(tmp_path: Path) -> None:
    models = {"a": {}, "b": {"data": ["digits"]}, "c": {"data": ["again"]}}
    plan = planned(tmp_path, models, {"models": {"m": {"General": "a", "Tailored": ["b", "c"]}}})
    runs = {(run.labels["method"], run.labels["data"]) for run in plan.runs}
    assert runs == {
        ("erm", "digits"),
        ("erm", "again"),
        ("a", "digits"),
        ("a", "again"),
        ("b", "digits"),
        ("c", "again"),
    }


@pytest.mark.parametrize(
    "models,prompts,told",
    [
        (
            {"a": {}},
            {"models": {"m": {"P": "b"}}},
            r"prompts\.models\.m\.P: unknown model of this study that is not trained 'b'",
        ),
        ({"a": {}}, {"models": {"m": {"P": "mlp"}}}, r"prompts\.models\.m\.P.*'mlp'"),
        (
            {"a": {}, "b": {}},
            {"models": {"m": {"P": ["a", "b"]}}},
            "'a' and 'b' are both asked about 'digits'",
        ),
        ({"a": {}}, {"models": {"m": {"P": []}}}, "must name an entry of 'models'"),
        ({"a": {}}, {"models": {"m": {"P": "a"}}, "fixed": "Q"}, r"prompts\.fixed.*'Q'"),
        (
            {"a": {}},
            {"models": {"m": {"P": "a"}}, "tuned": {"n": {"method": "erm", "model": "mlp"}}},
            r"prompts\.tuned.*'n'",
        ),
        (
            {"a": {}},
            {"models": {"m": {"P": "a"}}, "tuned": {"m": {"method": "erm", "model": "a"}}},
            r"prompts\.tuned\.m\.model.*'a'",
        ),
        (
            {"a": {}},
            {"models": {"m": {"P": "a"}}, "tuned": {"m": {"method": "no", "model": "mlp"}}},
            r"prompts\.tuned\.m\.method.*'no'",
        ),
        (
            {"a": {}},
            {"models": {"m": {"P": "a"}}, "averages": {"x": ["no"]}},
            r"prompts\.averages\.x.*'no'",
        ),
        ({"a": {"data": ["no"]}}, {"models": {"m": {"P": "a"}}}, r"models\.a\.data.*'no'"),
        (
            {"a": {"data": []}},
            {"models": {"m": {"P": "a"}}},
            r"models\.a\.data: must be a list of data sets",
        ),
    ],
)
def test_what_a_study_does_not_ask_is_refused(
    tmp_path: Path, models: Any, prompts: Any, told: str
) -> None:
    with pytest.raises(InputError, match=told):
        planned(tmp_path, models, prompts)
