"""Problems of advice: counted rows in numbers that a model of the gain reads."""

from __future__ import annotations

import math

import pytest

from crosswind.advice.evidence import data_name, origin_of
from crosswind.advice.problem import Problem, counts_of, problem_of_counts, simple_counts
from crosswind.core.errors import InputError


def test_a_problem_is_what_the_rows_of_each_cell_say() -> None:
    """40 + 10 of one class and 10 + 40 of the other: chi2 = 36 of 100 rows, V = 0.6."""
    counts = {("a", "x"): 40, ("a", "y"): 10, ("b", "x"): 10, ("b", "y"): 40}
    problem = problem_of_counts({"place": counts}, "pictures")
    assert (problem.classes, problem.values, problem.rows) == (2, 2, 100)
    assert math.isclose(problem.tie, 0.6)
    assert (problem.rarest, problem.smallest, problem.missing) == (1.0, 10, 0.0)


def test_an_unseen_value_is_a_missing_group_and_a_rare_one_few_rows() -> None:
    unseen = simple_counts("UDS", 90, 2, 3, 0.95)
    problem = problem_of_counts({"place": unseen}, "texts")
    assert problem.rarest == 0 and math.isclose(problem.missing, 1 / 3) and problem.tie == 0
    rare = problem_of_counts({"place": simple_counts("LDD", 210, 2, 2, 0.95)}, "texts")
    # Weights 1 and 0.05: 10 rows of 210 have the rare value, of an even 105.
    assert math.isclose(rare.rarest, 10 / 105) and rare.smallest == 5


def test_a_described_tie_is_the_share_of_rows_that_follow_it() -> None:
    counts = simple_counts("SC", 1000, 2, 2, 0.9)
    assert counts["class 0", "value 0"] == 450 and counts["class 0", "value 1"] == 50
    assert math.isclose(problem_of_counts({"place": counts}, "pictures").tie, 0.8)


@pytest.mark.parametrize("shift", ["none", "SC", "LDD", "UDS"])
def test_a_described_problem_has_the_rows_that_were_said(shift: str) -> None:
    for rows in (6, 50, 101):
        assert sum(simple_counts(shift, rows, 2, 3, 0.9).values()) == rows
    with pytest.raises(
        InputError, match="--rows: must be at least 2,000, one for each of 1000 x 2"
    ):
        simple_counts(shift, 2, 1000, 2, 0.9)


def test_of_several_attributes_it_is_the_one_farthest_from_even() -> None:
    even = simple_counts("none", 100, 2, 2, 0.5)
    tied = simple_counts("SC", 100, 2, 2, 0.9)
    assert math.isclose(problem_of_counts({"even": even, "tied": tied}, "pictures").tie, 0.8)


def test_columns_are_counted_with_the_cells_that_have_no_row() -> None:
    counts = counts_of(["a", "a", "b"], ["x", "y", "x"])
    assert counts == {("a", "x"): 1, ("a", "y"): 1, ("b", "x"): 1, ("b", "y"): 0}


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({("a", "x"): 3, ("a", "y"): 2}, "label: has a single class"),
        ({("a", "x"): 3, ("b", "x"): 2}, "place: has a single value"),
    ],
)
def test_what_cannot_shift_is_refused(counts: dict[tuple[str, str], int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        problem_of_counts({"place": counts}, "pictures")


def test_features_are_nine_numbers_of_like_size() -> None:
    problem = Problem("texts", 2, 2, 1000, 0.9, 1.0, 25, 0.0)
    features = problem.features
    assert len(features) == 9 and all(abs(value) <= 3 for value in features)
    assert "2 classes, 1,000 rows" in problem.in_words and "0.90" in problem.in_words


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("churn/train.csv", "churn-train/left"),
        ("../loans/data/train.csv", "loans-data-train/left"),
        ("/srv/loans/Train.parquet", "loans-Train/left"),
        ("train.csv", "train/left"),
        ("data/train.csv", "data-train/left"),
        ("churn/patients.csv", "patients/left"),
        ("tables/penguins.csv", "penguins/left"),
    ],
)
def test_tables_of_one_common_name_are_two_data_sets(path: str, name: str) -> None:
    """Two projects that each have a train.csv are two witnesses, not one."""
    assert data_name({"source": "table", "options": {"path": path}}, "left") == name
    assert origin_of(name) == name.removesuffix("/left")


def test_a_source_without_a_file_is_called_by_its_name() -> None:
    assert data_name({"source": "dsprites"}, "shape") == "dsprites/shape"
    assert data_name({"source": "pacs"}, "pacs") == "pacs"
