"""The data set: what stays true of rows when others are left out or attributes are added."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import crosswind as cw
from crosswind.core.errors import DataError, InputError
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import DerivedAttribute, derive

NOISE = DerivedAttribute(
    "noise", ("clean", "weak", "strong"), "gaussian-noise", (None, {"severity": 1}, {"severity": 5})
)


def small(**changes: Any) -> AttributedDataset:
    """Six rows: colour r g b r g b, toy 0 0 1 1 2 2; the picture of row i is i everywhere."""

    def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        return np.broadcast_to(rows[:, None, None, None], (len(rows), 2, 2, 3)).astype(np.uint8)

    table = AttributeTable(
        (Attribute("color", ("red", "green", "blue")), Attribute("toy", ("a", "b", "c"))),
        np.array([[0, 1, 2, 0, 1, 2], [0, 0, 1, 1, 2, 2]]),
    )
    return dataclasses.replace(
        AttributedDataset("small", table, images, InputSpec.image(2, 2, 3)), **changes
    )


def test_what_is_printed_of_a_data_set_and_a_split_is_a_few_lines() -> None:
    patients = small()
    assert (
        repr(patients) == "small: 6 rows of images of 2 x 2 x 3; color (3 values), toy (3 values)"
    )
    split = cw.split(cw.load("digits"), "digit", ["ink"], cw.SpuriousCorrelation("ink"), test=4)
    lines = repr(split).splitlines()
    assert lines[0] == "split into 10 classes: 0, 1, 2, 3, 4, 5, 6, 7, ..."
    assert [line.split(":")[0] for line in lines[1:]] == ["  train", "  validation", "  test"]
    assert len(repr(split)) < 400


def test_keep_restricts_rows_and_orders_values() -> None:
    kept = (
        small(ids=np.array([10, 11, 12, 13, 14, 15]))
        .with_units("toy")
        .keep({"color": ["blue", "red"]})
    )
    assert kept.attribute("color").values == ("blue", "red")
    assert kept.table.column("color").tolist() == [1, 0, 1, 0]
    assert kept.table.column("toy").tolist() == [0, 1, 1, 2]
    assert kept.ids.tolist() == [10, 12, 13, 15]
    assert kept.units is not None and kept.units.tolist() == [0, 1, 1, 2]
    assert (
        kept.inputs(np.array([1, 3]))[:, 0, 0, 0].tolist() == [2, 5]
        and kept.cache is not small().cache
    )
    twice, once = kept.keep({"toy": ["b"]}), small().keep({"color": ["blue", "red"], "toy": ["b"]})
    assert twice.table.digest() == once.table.digest() and once.ids.tolist() == [2, 3]
    assert np.array_equal(twice.inputs(np.arange(2)), once.inputs(np.arange(2)))


def test_keep_on_a_derived_attribute_keeps_its_settings() -> None:
    kept = derive(small(), NOISE).keep({"noise": ["strong", "clean"], "color": ["red"]})
    assert kept.derived is not None
    assert kept.derived.values == ("strong", "clean")
    assert kept.derived.settings == (
        {"severity": 5, "constants": "auto", "jpeg_quality": None},
        None,
    )
    assert (kept.n_base, kept.n_rows) == (2, 4)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"colour": ["red"]},
            "keep.colour: unknown attribute of small 'colour', did you mean 'color'",
        ),
        (
            {"color": ["rod"]},
            "keep.color: unknown value of attribute 'color': 'rod', did you mean 'red'",
        ),
        ({"color": "red"}, "keep.color: must be a list of values"),
        ({"color": []}, "keep.color: must be a list of values"),
        ({"color": ["red", "red"]}, "keep.color: a value is named twice"),
        ({"color": ["red"], "toy": ["c"]}, "keep: no row of small"),
    ],
)
def test_keep_refuses_in_one_sentence(values: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        small().keep(values)


def test_with_attribute_adds_codes_at_the_end() -> None:
    more = small().with_attribute("cluster", ["0", "1"], np.array([1, 1, 0, 0, 1, 0]))
    assert more.table.names == ("color", "toy", "cluster")
    assert more.table.column("cluster").tolist() == [1, 1, 0, 0, 1, 0]
    assert (
        more.fingerprint
        != small().with_attribute("cluster", ["0", "1"], np.zeros(6, dtype=np.int64)).fingerprint
    )
    with pytest.raises(InputError, match="already has an attribute of this name"):
        more.with_attribute("toy", ["x"], np.zeros(6, dtype=np.int64))
    with pytest.raises(DataError, match="needs 6 whole numbers"):
        small().with_attribute("cluster", ["x"], np.zeros(5, dtype=np.int64))
    with pytest.raises(DataError, match="row 0 has code 300 of attribute 'cluster'"):
        small().with_attribute("cluster", ["x"], np.full(6, 300))


def test_fingerprint_changes_with_whatever_decides_table_or_units() -> None:
    base = small()
    made = [
        base,
        base.keep({"color": ["red", "green"]}),
        base.keep({"color": ["green", "red"]}),
        base.with_units("toy"),
        base.with_units("color"),
        derive(base, NOISE),
        derive(base, dataclasses.replace(NOISE, mode="per-visit")),
        derive(
            base,
            DerivedAttribute(
                "noise",
                ("clean", "strong", "weak"),
                "gaussian-noise",
                (None, {"severity": 5}, {"severity": 1}),
            ),
        ),
    ]
    assert len({item.fingerprint for item in made}) == len(made)
    assert base.fingerprint == small().fingerprint
    assert base.keep({"toy": ["a"]}).fingerprint == small().keep({"toy": ["a"]}).fingerprint


def test_virtual_rows_have_ids_of_their_own_and_the_unit_of_their_base_row() -> None:
    noisy = derive(small(ids=np.array([5, 6, 7, 8, 9, 10])), NOISE)
    rows = np.arange(noisy.n_rows)
    assert noisy.n_rows == 18
    assert noisy.row_ids(np.array([0, 1, 2, 3])).tolist() == [15, 16, 17, 18]
    assert len(np.unique(noisy.row_ids(rows))) == 18
    assert noisy.row_units(np.array([0, 1, 2, 3])).tolist() == [5, 5, 5, 6]
    assert (
        derive(small().with_units("toy"), NOISE).row_units(rows).tolist()
        == np.repeat([0, 0, 1, 1, 2, 2], 3).tolist()
    )


def test_ids_that_repeat_are_refused_wherever_they_lie() -> None:
    for field in ("ids", "units"):
        with pytest.raises(DataError, match=f"6 rows and {field} of .*5"):
            small(**{field: np.arange(5)})
    with pytest.raises(DataError, match="one id to two rows"):
        small(ids=np.array([3, 1, 2, 3, 4, 5]))
    assert small(ids=np.array([3, 1, 2, 9, 4, 5])).ids.tolist() == [3, 1, 2, 9, 4, 5]


def test_pixels_outside_and_of_the_wrong_kind_are_refused() -> None:
    for rows, words in (([0, 6], "0 to 6"), ([0, -1], "-1 to 0")):
        with pytest.raises(DataError, match=f"has rows 0 to 5, not {words}"):
            small().inputs(np.array(rows))
    with pytest.raises(DataError, match="gave images of float64"):
        small(read=lambda rows: np.zeros((len(rows), 2, 2, 3))).inputs(np.array([0]))
    with pytest.raises(DataError, match="has attributes but no inputs"):
        small(read=None).inputs(np.array([0]))


def test_describe_counts_virtual_rows_and_goes_to_json() -> None:
    told = derive(small().with_units("toy"), NOISE).describe()
    assert json.loads(json.dumps(told)) == told
    assert told["rows"] == 18 and told["units"] == 3
    assert told["attributes"] == [
        {"name": "color", "values": ["red", "green", "blue"], "counts": [6, 6, 6]},
        {"name": "toy", "values": ["a", "b", "c"], "counts": [6, 6, 6]},
        {"name": "noise", "values": ["clean", "weak", "strong"], "counts": [6, 6, 6]},
    ]
    assert [attribute.name for attribute in derive(small(), NOISE).schema] == [
        "color",
        "toy",
        "noise",
    ]
    assert derive(small(), NOISE).code_of("noise", "strong") == 2
