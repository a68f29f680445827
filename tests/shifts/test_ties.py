"""The matching of a spurious correlation is the one that the rows show."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import chdtrc

import crosswind as cw
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import Cells
from crosswind.shifts.spurious_correlation import SpuriousCorrelation
from crosswind.shifts.ties import LEVEL, independence, matching_of, tie_of, upper_tail


def dataset_of(counts: list[list[int]]) -> AttributedDataset:
    """Rows with a label and a mark, counts[class][value] of each cell."""
    table = np.array(counts)
    cells = np.repeat(np.arange(table.size), table.ravel())
    label, mark = np.unravel_index(cells, table.shape)
    attributes = (
        Attribute("mole", tuple(f"c{i}" for i in range(table.shape[0]))),
        Attribute("mark", tuple(f"v{i}" for i in range(table.shape[1]))),
    )
    codes = np.stack([label, mark]).astype(np.uint8)
    return AttributedDataset("moles", AttributeTable(attributes, codes))


COUNTS = {
    "reverse": ([[8, 92], [92, 8]], {"c0": ["v1"], "c1": ["v0"]}, 0.92),
    "same": ([[92, 8], [8, 92]], {"c0": ["v0"], "c1": ["v1"]}, 0.92),
    "rare class": ([[80, 920], [30, 10]], {"c0": ["v1"], "c1": ["v0"]}, 0.835),
    "one frequent value": ([[990, 10], [900, 100]], {"c0": ["v0"], "c1": ["v1"]}, 0.545),
    "three values": (
        [[50, 200, 10], [40, 10, 200]],
        {"c0": ["v0", "v1"], "c1": ["v2"]},
        (250 / 260 + 200 / 250) / 2,
    ),
    "three classes": (
        [[90, 10], [20, 80], [85, 15]],
        {"c0": ["v0"], "c1": ["v1"], "c2": ["v0"]},
        (0.9 + 0.8 + 0.85) / 3,
    ),
    "cycle": (
        [[5, 90, 5], [5, 5, 90], [90, 5, 5]],
        {"c0": ["v1"], "c1": ["v2"], "c2": ["v0"]},
        0.9,
    ),
}


@pytest.mark.parametrize("case", COUNTS)
def test_the_tie_of_a_table_is_matched_in_its_direction(case: str) -> None:
    counts, matching, share = COUNTS[case]
    dataset = dataset_of(counts)
    tie = tie_of(dataset, "mole", "mark")
    assert {name: list(values) for name, values in tie.matching.items()} == matching
    assert tie.matched_share == pytest.approx(share)
    assert 0 < tie.v.low <= tie.v.value <= tie.v.high <= 1
    component = {"type": "spurious-correlation", "attribute": "mark"}
    assert SpuriousCorrelation.observed_settings(component, dataset, "mole")["matching"] == matching
    stated = {**component, "matching": "observed"}
    assert SpuriousCorrelation.observed_settings(stated, dataset, "mole")["matching"] == matching


@pytest.mark.parametrize(
    "counts", [[[50, 50], [50, 50]], [[52, 48], [47, 53]], [[10, 0], [90, 0]], [[3, 1], [1, 3]]]
)
def test_rows_without_a_tie_are_matched_in_order_and_keep_their_key(
    counts: list[list[int]],
) -> None:
    dataset = dataset_of(counts)
    component = {"type": "spurious-correlation", "attribute": "mark", "counterexamples": 0.1}
    assert tie_of(dataset, "mole", "mark").matching == {}
    assert SpuriousCorrelation.observed_settings(component, dataset, "mole") == component


def test_a_matching_that_is_named_stands_whatever_the_rows_show() -> None:
    dataset = dataset_of([[8, 92], [92, 8]])
    component = {"type": "spurious-correlation", "attribute": "mark"}
    assert (
        SpuriousCorrelation.observed_settings({**component, "matching": "auto"}, dataset, "mole")
        == component
    )
    stated = {**component, "matching": {"c0": "v0", "c1": "v1"}}
    assert SpuriousCorrelation.observed_settings(stated, dataset, "mole") == stated
    assert SpuriousCorrelation.observed_settings(
        {**component, "matching": "index"}, dataset, "mole"
    ) == {
        **component,
        "matching": "index",
    }


def test_classes_weigh_alike_under_the_tie_that_is_there() -> None:
    dataset = dataset_of([[50, 200, 10, 90], [90, 10, 200, 20]])
    settings = {"type": "spurious-correlation", "attribute": "mark", "strength": 0.8}
    settings = SpuriousCorrelation.observed_settings(settings, dataset, "mole")
    assert settings["matching"] == {"c0": ["v1", "v3"], "c1": ["v0", "v2"]}
    counts = [[50, 200, 10, 90], [90, 10, 200, 20], [10, 10, 10, 300]]
    dataset = dataset_of(counts)
    shift = SpuriousCorrelation("mark", strength=0.8).observed(dataset, "mole")
    weights = shift.normal_form(
        Cells(dataset.attribute("mole"), (dataset.attribute("mark"),))
    ).weights
    assert shift.matching["c1"] == ["v0", "v2"] and len(shift.matching["c0"]) == 1
    np.testing.assert_allclose(weights.sum(axis=1), weights.sum() / 3)
    assert "class_shares" not in SpuriousCorrelation("mark").describe()


def test_every_class_and_every_value_is_matched() -> None:
    generator = np.random.default_rng(3)
    for _ in range(200):
        shape = generator.integers(2, 7, size=2)
        matched = matching_of(generator.integers(0, 50, size=shape).astype(float))
        assert matched.any(axis=0).all() and matched.any(axis=1).all()
        assert matched.sum() == max(shape)


def test_a_split_in_python_asks_for_the_tie_that_is_there() -> None:
    dataset = dataset_of([[100, 300], [300, 100]])
    split = cw.split(dataset, "mole", ["mark"], cw.SpuriousCorrelation("mark", counterexamples=0))
    rows = split.train.rows
    label, mark = (dataset.table.column(name)[rows] for name in ("mole", "mark"))
    assert len(rows) > 200 and (label != mark).all()


def test_of_very_many_cells_no_tie_is_looked_for() -> None:
    n = 3000
    attributes = (
        Attribute("kind", tuple(map(str, range(n)))),
        Attribute("site", tuple(map(str, range(n)))),
    )
    codes = np.stack([np.arange(n), np.arange(n)]).astype(np.uint16)
    dataset = AttributedDataset("many", AttributeTable(attributes, codes))
    assert tie_of(dataset, "kind", "site").matching == {}


def test_the_upper_tail_of_chi_squared_is_scipys() -> None:
    """Of even and odd degrees of freedom, few and many, near the middle and far out."""
    n_checked = 0
    for freedom in (1, 2, 3, 4, 7, 10, 33, 999, 100_000):
        for statistic in (1e-9, 0.1, 1.0, *(freedom * np.array([0.5, 0.9, 1.0, 1.1, 2.0]))):
            expected = chdtrc(freedom, statistic)
            assert upper_tail(statistic, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-300)
            n_checked += 1
    assert n_checked == 72
    assert upper_tail(0.0, 3) == 1.0
    assert upper_tail(1e6, 3) == 0.0


def test_p_of_independence_by_hand() -> None:
    """60 and 40 of 100 beside 40 and 60 have Pearson's statistic 8, p 0.0047; 65 and 35 beside 35
    and 65 have 18, p 0.00002. A table of one row has nothing to test."""
    assert independence(np.array([[60.0, 40], [40, 60]])) == pytest.approx(0.004678, abs=1e-6)
    assert independence(np.array([[65.0, 35], [35, 65]])) < LEVEL
    assert independence(np.array([[65.0, 35], [0, 0]])) == 1.0


SHOWN_WITH = {
    "two classes of one value": ([[73, 13, 13], [73, 24, 3], [10, 60, 30]], {"c0": "v0"}),
    "a weaker share of its own": ([[60, 38, 2], [90, 5, 5], [10, 45, 45]], {}),
    "each its own": ([[8, 92], [92, 8]], {}),
    "more classes than values": ([[90, 10], [20, 80], [85, 15]], {}),
}


@pytest.mark.parametrize("case", SHOWN_WITH)
def test_a_class_that_is_matched_against_its_rows_is_told(case: str) -> None:
    """Each value goes with one class at least, so that of two that show one a single one has it."""
    counts, shown_with = SHOWN_WITH[case]
    tie = tie_of(dataset_of([[10 * count for count in row] for row in counts]), "mole", "mark")
    assert dict(tie.shown_with) == shown_with
    sentence = "the rows themselves show c0 with v0, a value that is matched to another class"
    assert (sentence in tie.in_words) == bool(shown_with)
