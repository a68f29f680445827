"""Label noise: an exact number of rows, fixed by row and seed, on training rows alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shifts.worlds import plan, world

from crosswind.core.errors import InputError
from crosswind.shifts.noise import LabelNoise, parse_noise
from crosswind.shifts.split import make_split


@given(
    st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]),
    st.integers(1, 300),
    st.integers(2, 6),
    st.integers(0, 20),
)
def test_flips_are_exact_and_never_the_true_label(
    rate: float, n: int, classes: int, seed: int
) -> None:
    labels = np.arange(n) % classes
    ids = np.arange(n) * 7 + 3
    noisy = LabelNoise(rate, "flip").apply(labels, ids, classes, seed, "label_noise")
    assert (noisy != labels).sum() == round(rate * n)
    assert noisy.min() >= 0
    assert noisy.max() < classes
    order = np.random.default_rng(seed).permutation(n)
    assert (
        LabelNoise(rate, "flip").apply(labels[order], ids[order], classes, seed, "label_noise")
        == noisy[order]
    ).all()


def test_uniform_noise_draws_the_true_label_too() -> None:
    """4,000 rows, all redrawn over 4 classes: a quarter keep their label, standard deviation 27."""
    labels = np.zeros(4000, dtype=np.int64)
    noisy = LabelNoise(1.0).apply(labels, np.arange(4000), 4, 0, "label_noise")
    assert np.bincount(noisy, minlength=4) == pytest.approx([1000] * 4, abs=110)


def test_a_lower_rate_flips_rows_of_a_higher_one() -> None:
    labels = np.zeros(100, dtype=np.int64)
    low, high = (
        LabelNoise(rate, "flip").apply(labels, np.arange(100), 3, 5, "n") for rate in (0.1, 0.3)
    )
    assert ((low != 0) <= (high != 0)).all()
    assert (low[low != 0] == high[low != 0]).all()


def test_a_matrix_gives_the_law_of_each_class() -> None:
    noise = parse_noise({"matrix": [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]})
    assert noise is not None
    assert (noise.rate, noise.kind) == (1.0, "matrix")
    labels = np.repeat(np.arange(3), 1000)
    noisy = noise.apply(labels, np.arange(3000), 3, 0, "n")
    assert (noisy[:2000] == 1).all()
    assert np.bincount(noisy[2000:], minlength=3) == pytest.approx([500, 0, 500], abs=60)
    assert np.bincount(noisy[2000:], minlength=3)[1] == 0


def test_only_training_rows_are_noisy_and_the_flips_are_reported() -> None:
    data = world((3, 2), 60)
    study = plan(None, 20, 1, label_noise=LabelNoise(0.25, "flip"))
    split = make_split({"d": data}, "d", study, 0)
    changed = split.train.label != split.train.true_label
    assert split.report["flips"] == {"chosen": 30, "changed": 30, "rows": 120}
    assert changed.sum() == 30
    assert (split.train.true_label == data.table.column("y")[split.train.rows]).all()
    for rows in (split.validation["validation"], split.evaluation["test"]):
        assert (rows.label == rows.true_label).all()
    # A group is what a method sees: it goes with the noisy label.
    assert (split.train.group // 2 == split.train.label).all()
    assert (make_split({"d": data}, "d", study, 0).train.label == split.train.label).all()
    with_validation = plan(None, 20, 1, label_noise=LabelNoise(0.25, "flip", validation=True))
    validation = make_split({"d": data}, "d", with_validation, 0).validation["validation"]
    assert (validation.label != validation.true_label).sum() == round(0.25 * len(validation))
    clean = make_split({"d": data}, "d", plan(None, 20, 1), 0)
    assert (clean.train.rows == split.train.rows).all()
    assert clean.report["flips"] == {}


BAD: list[tuple[Any, str]] = [
    (1.5, "label_noise: must be a number in [0, 1]"),
    ("much", "label_noise: must be a number in [0, 1]"),
    ({}, "label_noise.rate: label noise needs its rate"),
    (
        {"rate": 0.1, "kind": "flop"},
        "label_noise.kind: unknown kind of label noise 'flop', did you mean 'flip'",
    ),
    (
        {"rate": 0.1, "knd": "flip"},
        "label_noise.knd: unknown setting of label noise 'knd', did you mean 'kind'",
    ),
    ({"rate": 0.1, "validation": "no"}, "label_noise.validation: must be true or false"),
    ({"rate": 0.1, "kind": "matrix"}, "label_noise.matrix: a matrix goes with kind"),
    ({"matrix": [[1, 0], [0.5, 0.4]]}, "label_noise.matrix: row 1 sums to 0.9, not to 1"),
    ({"matrix": [[1, 0]]}, "label_noise.matrix: must be a square table"),
    ({"matrix": [[1, 0], [1]]}, "label_noise.matrix: must be a square table"),
    ({"matrix": [[2, -1], [0, 1]]}, "label_noise.matrix: must be a square table"),
]


@pytest.mark.parametrize(("spec", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_noise_is_refused(spec: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_noise(spec)
    assert str(caught.value).startswith(message)


def test_a_matrix_of_the_wrong_size_is_refused_with_the_number_of_classes() -> None:
    noise = parse_noise({"matrix": [[1, 0], [0, 1]]})
    with pytest.raises(InputError, match="label_noise.matrix: must have 3 rows of 3 numbers"):
        make_split({"d": world((3, 2), 10)}, "d", plan(None, 2, 1, label_noise=noise), 0)
    assert parse_noise(None) is None
