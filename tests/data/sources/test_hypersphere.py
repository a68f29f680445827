"""The clouds of the hypersphere: centres at their angles, labels by length, each drawn alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crosswind.core.errors import InputError
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.hypersphere import Hypersphere
from crosswind.testing import check_source


def points(dataset: AttributedDataset, **values: str) -> np.ndarray:
    """The points of the rows that have these values, float64 [n, dimensions]."""
    chosen = np.ones(dataset.n_base, dtype=bool)
    for name, value in values.items():
        code = dataset.attribute(name).values.index(value)
        chosen &= dataset.table.column(name) == code
    return dataset.inputs(np.flatnonzero(chosen)).astype(np.float64)


def test_it_holds_the_contract_of_sources() -> None:
    check_source(Hypersphere, knobs={"rows": 40})


def test_one_cloud_trains_one_validates_and_every_angle_has_its_own() -> None:
    dataset = Hypersphere(rows=30, clouds=3, angles=[0, 0.25, 1]).load()
    assert dataset.n_base == 30 * (1 + 1 + 3 * 3) and str(dataset.input) == "features of 16 numbers"
    assert dataset.attribute("angle").values == ("0", "0.25", "1")
    for split, angle, rows in (("train", "0", 30), ("validation", "0", 30), ("test", "0", 90)):
        assert len(points(dataset, split=split, angle=angle)) == rows
    assert len(points(dataset, split="train")) == 30
    far = Hypersphere(rows=30, clouds=3, angles=[0.5]).load()
    assert far.attribute("angle").values == ("0", "0.5") and far.n_base == 30 * 5


def test_a_point_is_inside_by_its_length_and_three_in_ten_are() -> None:
    """|x|^2 / 0.005 is a noncentral chi-square with 16 degrees of freedom and offset 200: 0.30 of it
    lies below 200, whatever the angle."""
    dataset = Hypersphere(rows=4000, clouds=1, angles=[0, 0.5, 1]).load()
    inside = dataset.table.column("side") == dataset.attribute("side").values.index("inside")
    x = dataset.inputs(np.arange(dataset.n_base)).astype(np.float64)
    assert np.array_equal(inside, np.linalg.norm(x, axis=1) <= 1)
    for angle in range(3):
        share = inside[dataset.table.column("angle") == angle].mean()
        assert share == pytest.approx(0.30, abs=0.025)
    twice = Hypersphere(rows=4000, clouds=1, angles=[1], radius=2.0).load()
    centre = points(twice, split="train").mean(axis=0)
    assert np.linalg.norm(centre) == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize(("angle", "cosine"), [("0.25", 0.5**0.5), ("0.5", 0.0), ("1", -1.0)])
def test_centres_lie_on_the_sphere_at_their_angle_from_the_pole(angle: str, cosine: float) -> None:
    dataset = Hypersphere(angles=[0.25, 0.5, 1], variance=1e-6, rows=50, clouds=4, pole=3).load()
    centres = [
        points(dataset, split="test", angle=angle, cloud=str(number)).mean(axis=0)
        for number in range(4)
    ]
    assert np.linalg.norm(centres, axis=1) == pytest.approx(1, abs=1e-3)
    assert np.array(centres)[:, 3] == pytest.approx(cosine, abs=1e-3)
    assert np.allclose(centres[0], centres[1], atol=1e-3) == (angle == "1")
    assert points(dataset, split="train").mean(axis=0)[3] == pytest.approx(1, abs=1e-3)


def test_a_cloud_depends_on_no_other_and_begins_a_larger_one() -> None:
    few = Hypersphere(rows=20, clouds=2, angles=[0.5]).load()
    more = Hypersphere(rows=50, clouds=3, angles=[0.125, 0.5]).load()
    for values in (
        {"split": "train"},
        {"split": "validation"},
        *({"split": "test", "angle": "0.5", "cloud": str(number)} for number in range(2)),
    ):
        assert np.array_equal(points(few, **values), points(more, **values)[:20])
    other = Hypersphere(rows=20, clouds=2, angles=[0.5], seed=1).load()
    assert not np.isin(points(few), points(other)).any()
    assert not np.isin(points(few, split="train"), points(few, split="validation")).any()


@pytest.mark.parametrize(
    ("knobs", "sentence"),
    [
        ({"pole": 16}, "hypersphere.pole: must be below dimensions, which is 16, not 16"),
        ({"angles": [0.1, 0.1]}, "hypersphere.angles: names the angle 0.1 twice"),
        ({"angles": [0.1, 0.10000001]}, "hypersphere.angles: names the angle 0.1 twice"),
        ({"angles": [1.5]}, r"hypersphere.angles: must be in \[0, 1\], not 1.5"),
        ({"rows": 10**8}, "hypersphere.rows: makes 75,200,000,000 numbers in all, and 500"),
        ({"variance": 0}, "hypersphere.variance: must be in"),
    ],
)
def test_settings_that_do_not_fit_are_refused(knobs: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Hypersphere(**knobs).load()
