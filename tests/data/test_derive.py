"""Derived attributes: virtual rows, draws by visit, and noise that is a function of the row."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from crosswind.core.errors import InputError
from crosswind.core.registry import listing, load
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import (
    DerivedAttribute,
    derive,
    evaluation_inputs,
    evaluation_keys,
    render,
    split_rows,
    training_keys,
    visit_values,
)
from crosswind.data.sources.digits import Digits

NOISE = DerivedAttribute(
    "noise", ("clean", "weak", "strong"), "gaussian-noise", (None, {"severity": 1}, {"severity": 5})
)


@pytest.fixture(scope="module")
def noisy() -> AttributedDataset:
    return derive(Digits().load(), NOISE)


def test_a_virtual_row_is_base_row_times_values_plus_value(noisy: AttributedDataset) -> None:
    base, values = split_rows(noisy, np.array([0, 1, 2, 3, 7]))
    assert base.tolist() == [0, 0, 0, 1, 2]
    assert values.tolist() == [0, 1, 2, 0, 1]
    base, values = split_rows(Digits().load(), np.array([3, 4]))
    assert (base.tolist(), values.tolist()) == ([3, 4], [0, 0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("noise", ("a", "b"), "gausian-noise", (None, None)),
            "noise.transform: unknown transform 'gausian-noise', did you mean",
        ),
        (
            ("noise", ("a", "b"), "gaussian-noise", (None,)),
            "noise.settings: needs one entry for each of 2 values",
        ),
        (("noise", ("a", "b"), "gaussian-noise", {"a": None}), "value 'b' has no settings"),
        (
            ("noise", ("a", "b"), "gaussian-noise", {"a": None, "b": None, "c": None}),
            "noise.settings: unknown value 'c'",
        ),
        (
            ("noise", ("a", "b"), "gaussian-noise", (None, {"severty": 1})),
            "noise.settings.b.severty: unknown setting",
        ),
        (
            ("noise", ("a", "b"), "gaussian-noise", (None, None), "by-visit"),
            "noise.mode: unknown mode 'by-visit', did you mean 'per-visit'",
        ),
    ],
)
def test_bad_derived_attributes_are_refused(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        DerivedAttribute(*arguments)


def test_a_mapping_of_settings_is_filled_in_and_derived_once(noisy: AttributedDataset) -> None:
    by_name = DerivedAttribute("noise", ("off", "on"), "gaussian-noise", {"on": {}, "off": None})  # type: ignore[arg-type]
    assert by_name.settings == (None, {"severity": 3, "constants": "auto", "jpeg_quality": None})
    with pytest.raises(InputError, match="already has the derived attribute 'noise'"):
        derive(noisy, NOISE)
    with pytest.raises(InputError, match="already has an attribute of this name"):
        derive(Digits().load(), DerivedAttribute("ink", ("a",), "gaussian-noise", (None,)))


def test_untouched_values_are_the_base_images_and_others_are_not(noisy: AttributedDataset) -> None:
    base = np.arange(20)
    plain = noisy.inputs(base)
    assert np.array_equal(evaluation_inputs(noisy, base * 3), plain)
    weak, strong = (
        evaluation_inputs(noisy, base * 3 + value).astype(int) - plain for value in (1, 2)
    )
    assert 0 < np.abs(weak).mean() < np.abs(strong).mean()


def test_evaluation_noise_differs_by_row_and_by_value() -> None:
    ids = np.arange(100)
    keys = np.concatenate([evaluation_keys(ids, np.full(100, value)) for value in range(3)])
    assert len(np.unique(keys)) == 300


def test_training_noise_differs_by_row_visit_and_seed_and_repeats() -> None:
    ids = np.arange(100)
    made = [training_keys(ids, visit, seed) for visit in range(5) for seed in (0, 1)]
    assert len(np.unique(np.concatenate(made))) == 1000
    assert np.array_equal(training_keys(ids, np.full(100, 3), 1), training_keys(ids, 3, 1))
    assert np.array_equal(training_keys(ids[40:41], 3, 1), training_keys(ids, 3, 1)[40:41])


def test_render_leaves_its_input_and_mixes_values_in_a_batch(noisy: AttributedDataset) -> None:
    x = torch.from_numpy(noisy.inputs(np.arange(6))).permute(0, 3, 1, 2)
    before = x.clone()
    values, keys = np.array([0, 1, 2, 0, 1, 2]), training_keys(np.arange(6), 0, 0)
    out = render(noisy, x, values, keys)
    assert torch.equal(x, before)
    changed = (out != x).flatten(1).any(1).tolist()
    assert changed == [False, True, True, False, True, True]
    for i in range(6):
        assert torch.equal(
            out[i : i + 1], render(noisy, x[i : i + 1], values[i : i + 1], keys[i : i + 1])
        )


def test_visit_values_follow_their_law() -> None:
    """20,000 rows at probabilities 0.5, 0.3, 0, 0.2: each share within 5 sd, sd =
    sqrt(p(1-p)/20000) <= 0.0036; never the third."""
    law = np.tile([0.5, 0.3, 0.0, 0.2], (20_000, 1))
    drawn = visit_values(law, np.arange(20_000), 7, seed=3)
    share = np.bincount(drawn, minlength=4) / 20_000
    assert share[2] == 0
    assert np.abs(share - law[0]).max() < 5 * 0.0036


def test_visits_of_one_row_follow_its_law_too_and_rows_are_independent() -> None:
    """One row at 20,000 visits, p = 1/4: sd 0.0031. Two rows agree with probability 10/16 under
    (3/4, 1/4): sd 0.0034."""
    law = np.tile([3.0, 1.0], (20_000, 1))  # need not be normalised
    one, two = (visit_values(law, np.full(20_000, row), np.arange(20_000), 0) for row in (0, 1))
    assert abs(one.mean() - 0.25) < 5 * 0.0031
    assert abs((one == two).mean() - 10 / 16) < 5 * 0.0034


def test_visit_values_do_not_depend_on_the_batch() -> None:
    law = np.random.default_rng(0).random((50, 5))
    ids = np.arange(50)
    drawn = visit_values(law, ids, 2, 9)
    assert [
        int(visit_values(law[i : i + 1], ids[i : i + 1], 2, 9)[0]) for i in range(50)
    ] == drawn.tolist()
    assert drawn.tolist() != visit_values(law, ids, 3, 9).tolist()
    assert drawn.tolist() != visit_values(law, ids, 2, 8).tolist()


def test_a_certain_value_is_always_drawn_and_no_mass_is_refused() -> None:
    assert set(
        visit_values(np.tile([0.0, 0.0, 0.1], (1000, 1)), np.arange(1000), 0, 0).tolist()
    ) == {2}
    assert set(
        visit_values(np.tile([0.1, 0.0, 0.0], (1000, 1)), np.arange(1000), 0, 0).tolist()
    ) == {0}
    for law in ([[0.0, 0.0]], [[0.5, -0.5]], [[1.5, -0.5]]):
        with pytest.raises(ValueError, match="positive sum"):
            visit_values(np.array(law), np.arange(1), 0, 0)


TRANSFORMS = [transform.name for transform in listing("transforms")]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_transform_makes_values_of_an_attribute(name: str) -> None:
    """Untouched, by default and at its strongest: each row has the same bits alone, in a batch and
    again; described as JSON."""
    knob, strengths = load("transforms", name).strengths or ("", ())  # type: ignore[attr-defined]
    settings = (None, {}, {knob: strengths[-1]} if strengths else {})
    derived = DerivedAttribute("change", ("none", "some", "much"), name, settings)
    dataset = derive(Digits().load(), derived)
    json.dumps(derived.describe())
    rows = np.arange(24)
    found = evaluation_inputs(dataset, rows)
    base = dataset.inputs(rows // 3)
    assert found.shape == base.shape and found.dtype == np.uint8
    assert np.array_equal(found[::3], base[::3])
    assert any(not np.array_equal(found[row], base[row]) for row in rows[rows % 3 > 0])
    for part in ([1], [23, 2, 14], [17, 17]):
        assert np.array_equal(evaluation_inputs(dataset, np.array(part)), found[part])


def test_a_value_may_name_its_own_transform_and_draw_one_of_several_settings() -> None:
    """1,797 rows draw one of five severities: 359 each, standard deviation 17; every image is that
    of its severity alone."""
    values = {
        "clean": None,
        "noise": {"transform": "gaussian-noise", "severity": [1, 2, 3, 4, 5]},
        "turned": [
            {"transform": "rotate", "draw": "fixed", "degrees": [18, 90]},
            {"transform": "brightness"},
        ],
    }
    mixed = DerivedAttribute("environment", tuple(values), "", tuple(values.values()))
    assert mixed.transforms == ("gaussian-noise", "rotate", "brightness")
    assert [len(option) for option in mixed.options] == [1, 5, 3]
    data = derive(Digits().load(), mixed)
    rows = np.arange(data.n_base)
    keys, plain = evaluation_keys(data.ids[rows], np.ones(len(rows), int)), data.inputs(rows)
    noisy = evaluation_inputs(data, rows * 3 + 1)
    x = torch.from_numpy(plain).permute(0, 3, 1, 2)
    each = [
        load("transforms", "gaussian-noise")(severity=level)(x, keys).permute(0, 2, 3, 1).numpy()
        for level in range(1, 6)
    ]
    alike = np.stack([(one == noisy).all(axis=(1, 2, 3)) for one in each])
    assert (alike.sum(axis=0) == 1).all()
    assert (np.abs(alike.sum(axis=1) - 359) < 4 * 17).all()
    # Alone, in another order, beside rows of other values: the same bits.
    some = np.array([7, 5, 1700])
    beside = evaluation_inputs(data, np.concatenate([some * 3 + 2, some * 3 + 1, some * 3]))
    assert np.array_equal(beside[3:6], noisy[some])
    assert np.array_equal(beside[6:], plain[some])
    assert np.array_equal(
        beside[:3],
        np.concatenate([evaluation_inputs(data, np.array([row * 3 + 2])) for row in some]),
    )
    kept = mixed.keep([1])
    assert kept.settings == mixed.settings[1:2]
    assert json.loads(json.dumps(mixed.describe()))["values"]["noise"][4]["severity"] == 5


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (
            {"transform": "gaussian-noise", "severity": [1, 6]},
            r"e.settings.on.severity: must be .*\[1, 5\], not 6",
        ),
        (
            {"severity": 1},
            (
                "e.settings.on.transform: names no transform, and the attribute has none for all"
                " its values"
            ),
        ),
        (
            {"transform": "gaussian-noise", "severity": [3, 3]},
            "e.settings.on: names the same settings twice",
        ),
        ({"transform": "gaussian-noise", "severity": []}, "e.settings.on: has no settings"),
        (
            [{"transform": "fog"}, {"transform": "fogg"}],
            "e.settings.on.1.transform: unknown transform 'fogg', did you mean 'fog'",
        ),
        (7, "e.settings.on: must be settings of a transform or null, not 7"),
    ],
)
def test_bad_settings_of_a_mixed_value_are_refused(entry: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        DerivedAttribute("e", ("on",), "", (entry,))
