"""The page on choosing a method says what the evidence of the atlas holds, in its picture too."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import polars
import pytest
from benchmarks.atlas import page
from benchmarks.atlas.__main__ import Part, widening_of
from benchmarks.atlas.own_advice import ADVISED, agreement, in_markdown, what_helped
from benchmarks.atlas.tables import STUDIED
from scipy import stats

from crosswind.advice.answer import Advice, MethodAdvice, Validation
from crosswind.advice.evidence import COLUMNS, empty_evidence, problem_of_row, shipped_evidence
from crosswind.advice.gains import Gain
from crosswind.core.errors import InputError
from crosswind.studies.spec import load_study


def row(data: str, gain: float, **changed: Any) -> dict[str, Any]:
    """A row of evidence of a tie, with a gain in points."""
    plain: dict[str, Any] = {
        "study": "s",
        "data": data,
        "shift": "SC",
        "size": "all",
        "model": "mlp",
        "rule": "best-id",
        "kind": "pictures",
        "classes": 2,
        "values": 2,
        "rows": 100,
        "tie": 0.9,
        "rarest": 1.0,
        "smallest": 5,
        "missing": 0.0,
        "pretrained": False,
        "method": "groupdro",
        "points": 1,
        "runs": 3,
        "plain_accuracy": 0.5,
        "accuracy": 0.5 + gain / 100,
        "plain_worst_group": 0.2,
        "worst_group": 0.3,
    }
    return {**plain, **changed}


def table(rows: list[dict[str, Any]]) -> polars.DataFrame:
    return polars.DataFrame(rows, schema=empty_evidence().schema)


def test_the_page_and_its_picture_are_those_of_the_evidence() -> None:
    evidence = shipped_evidence().select(list(COLUMNS))
    written = page.section(evidence)
    assert page.with_section(page.PAGE.read_text(encoding="utf-8"), written) == (
        page.PAGE.read_text(encoding="utf-8")
    ), "run: python -m benchmarks.atlas page"
    # Vega writes a minus sign, and numbers in full.
    drawn = page.PICTURE.read_text(encoding="utf-8").replace("\N{MINUS SIGN}", "-")
    shown = re.findall(
        r'aria-label="points over plain training: (-?[\d.e-]+); method: ([^;"]+); gain', drawn
    )
    summaries = page.summary(evidence)
    means = [
        (round(min(max(gain.mean, -page.REACH), page.REACH), 6), gain.method)
        for gain in summaries
        if gain.reach
    ]
    assert means
    assert sorted((round(float(value), 6), name) for value, name in shown) == sorted(means)
    methods = {(gain.shift, gain.method) for gain in summaries}
    assert written.count("](../methods/") + written.count("+ balanced") >= len(methods) > 50


def test_a_gain_is_a_mean_over_data_sets_and_its_interval_students_t() -> None:
    evidence = table(
        [
            row("a/x", 4.0),
            row("a/y", 8.0),  # of the origin of the first: one data set with mean 6
            row("b", 3.0),
            row("c", 9.0),
            row("c", 1.0, tie=0.0, rarest=0.0),
        ]
    )
    gains = {(gain.shift, gain.metric): gain for gain in page.summary(evidence)}
    tied = gains["tied", "accuracy"]
    assert tied.mean == pytest.approx(6.0)
    assert (tied.data, tied.problems, tied.runs) == (3, 4, 12)
    # Means 6, 3 and 9: their standard deviation is 3.
    assert tied.reach == pytest.approx(stats.t.ppf(0.975, 2) * 3 / 3**0.5)
    assert not tied.is_sure
    assert gains["unseen", "accuracy"].reach is None
    assert gains["tied", "worst_group"].mean == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("changed", "shift"),
    [
        ({"tie": 0.5}, "tied"),
        ({"tie": 0.49}, "even"),
        ({"tie": 0.1, "rarest": 0.49}, "scarce"),
        ({"tie": 0.1, "rarest": 0.0}, "unseen"),
        ({"tie": 0.9, "rarest": 0.0}, "tied"),
    ],
)
def test_a_kind_of_shift_is_what_the_training_rows_show(
    changed: dict[str, float], shift: str
) -> None:
    assert page.shift_of(row("a", 0.0, **changed)) == shift


def test_intervals_are_multiplied_until_they_hold_their_share_and_data_sets_weigh_alike() -> None:
    # 100 gains of one data set, 2 of another: nine tenths of the weight lie below the second's larger.
    many, few = np.linspace(0.01, 1.0, 100), np.array([0.5, 3.0])
    assert widening_of([many]) == pytest.approx(0.9 / stats.norm.ppf(0.95))
    assert widening_of([many, few]) == pytest.approx(3.0 / stats.norm.ppf(0.95))
    assert widening_of([-many]) == widening_of([many])


def test_a_part_of_a_study_leaves_methods_out_that_have_no_shift_in_it() -> None:
    study = load_study("benchmarks/atlas/pictures.yaml", None, [])
    assert Part().settings(study) == []
    settings = Part([], ["unseen"], seeds=2, rates=1).settings(study)
    assert settings[:2] == ["seeds=2", "training.lr=[0.003]"]
    assert "methods.irm=null" in settings and "shifts.tie-98=null" in settings
    assert not [word for word in settings if word.startswith("methods.groupdro")]
    part = load_study("benchmarks/atlas/pictures.yaml", None, settings)
    assert list(part.shifts) == ["unseen"] and "irm" not in part.methods
    with pytest.raises(InputError, match="--shifts: unknown name of the study 'tie'"):
        Part([], ["tie"]).settings(study)


@pytest.mark.parametrize(
    ("helped", "verdict", "word"),
    [
        ("groupdro", 8.0, "agrees"),
        ("groupdro", 0.0, "cannot tell"),
        ("groupdro", -8.0, "contradicts"),
        (None, 8.0, "contradicts"),
        (None, 0.0, "agrees"),
    ],
)
def test_advice_agrees_with_a_study_or_contradicts_it(
    helped: str | None, verdict: float, word: str
) -> None:
    problem = problem_of_row(row("a", 0.0))
    gain = Gain(verdict, verdict - 5, verdict + 5)
    entry = MethodAdvice("groupdro", gain, None, problems=1, data=1, runs=1, time=None, needs=[])
    advice = Advice("a", problem, [entry], [], Validation())
    answer = "What helps: groupdro wins 17 points of accuracy [16, 19]." if helped else "Nothing."
    found = what_helped(answer)
    assert (found and found["method"]) == helped
    if found:
        assert (found["metric"], found["points"], found["low"]) == ("accuracy", 17, 16)
    assert agreement(advice, found) == word


def test_the_tables_of_real_studies_beside_advice_are_those_of_the_record() -> None:
    record = json.loads(ADVISED.read_text(encoding="utf-8"))
    rows = record["tables"]
    readme = (page.ROOT / "benchmarks" / "atlas" / "README.md").read_text(encoding="utf-8")
    assert in_markdown(rows) in readme
    assert len({one["table"] for one in rows}) >= 8
    studied = {
        (one["table"], one["attribute"]): one["answer"]
        for one in json.loads(STUDIED.read_text(encoding="utf-8"))["tables"]
    }
    for one in rows:
        assert one["study"] == what_helped(studied[one["table"], one["attribute"]])
        assert one["agreement"] in ("agrees", "cannot tell")
