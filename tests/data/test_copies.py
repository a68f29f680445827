"""Changed copies of rows: those of a plain loop, the same whatever stands beside them, and texts
too."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import crosswind as cw
from crosswind.core.errors import InputError
from crosswind.core.registry import load
from crosswind.core.seeds import hash64, seed_of
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable, DerivedAttribute
from crosswind.data.copies import copies
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import derive, evaluation_inputs

NOISE = ("gaussian-noise", {"severity": 3})
MOVE = ("translate", {"horizontal": 0.2, "vertical": 0.2})
CHANGES = [(), (NOISE,), (NOISE, MOVE), (NOISE,)]


def pictures(n: int = 6) -> AttributedDataset:
    images = np.random.default_rng(0).integers(0, 256, size=(n, 8, 8, 3), dtype=np.uint8)
    return cw.from_frame({"label": [f"c{i % 2}" for i in range(n)]}, images, name="pictures")


def test_they_are_those_of_a_plain_loop() -> None:
    """Copy v of row i, one at a time, transform after transform, by keys of the row's id, v and the
    place in the chain."""
    dataset, rows = pictures(), np.array([4, 1, 3])
    made = copies(dataset, rows, CHANGES)
    found = made.inputs(np.arange(12))
    for i, row in enumerate(rows):
        for v, chain in enumerate(CHANGES):
            x = torch.from_numpy(dataset.inputs(np.array([row]))).permute(0, 3, 1, 2)
            for step, (name, knobs) in enumerate(chain):
                key = hash64(
                    hash64(np.array([row]), seed_of(0, "copies")), seed_of(0, "copies", v, step)
                )
                x = load("transforms", name)(**knobs)(x, key)
            assert np.array_equal(found[i * 4 + v], x.permute(0, 2, 3, 1).numpy()[0]), (row, v)
    assert not np.array_equal(found[1], found[3]), "the same transform at two places draws twice"
    assert (
        made.table.column("label").tolist()
        == np.repeat(dataset.table.column("label")[rows], 4).tolist()
    )
    order = np.array([7, 0, 11, 7])
    assert np.array_equal(made.inputs(order), found[order])
    assert np.array_equal(copies(dataset, rows[1:2], CHANGES).inputs(np.arange(4)), found[4:8])
    assert (
        made.fingerprint
        != copies(dataset, rows, CHANGES[:2]).fingerprint
        != copies(dataset, rows[:2], CHANGES[:2]).fingerprint
    )


def test_of_rows_that_are_changed_already() -> None:
    """A row with a derived attribute is changed as evaluation shows it."""
    turned = derive(
        pictures(),
        DerivedAttribute(
            "angle", ("0", "90"), "rotate", (None, {"degrees": 90.0, "draw": "fixed"})
        ),
    )
    rows = np.array([0, 1, 5])
    made = copies(turned, rows, [(), (MOVE,)])
    assert np.array_equal(made.inputs(np.array([0, 2, 4])), evaluation_inputs(turned, rows))


def test_vectors_are_those_of_a_plain_loop() -> None:
    """Copy v of row i alone, by the same keys as pictures; the first change leaves it as it is."""
    numbers = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    table = AttributeTable((Attribute("label", ("no", "yes")),), np.array([[1, 0, 1, 0, 1]]))
    dataset = AttributedDataset(
        "numbers", table, lambda rows: numbers[rows], InputSpec.features(3), ids=np.arange(5) + 70
    )
    chain = (("jitter", {"scale": 2.0}), ("along-sphere", {"reach": 0.3}))
    rows = np.array([3, 1])
    copied = copies(dataset, rows, [(), chain, chain])
    inputs = copied.inputs(np.arange(6))
    assert inputs.dtype == np.float32 and np.array_equal(inputs[[0, 3]], numbers[rows])
    for i, row in enumerate(rows):
        for v in (1, 2):
            x = torch.from_numpy(numbers[row][None])
            for step, (name, knobs) in enumerate(chain):
                key = hash64(
                    hash64(np.array([70 + row]), seed_of(0, "copies")),
                    seed_of(0, "copies", v, step),
                )
                x = load("vector-transforms", name)(**knobs)(x, key)
            assert np.array_equal(inputs[i * 3 + v], x[0].numpy())
    assert np.array_equal(copied.inputs(np.array([5, 1])), inputs[[5, 1]])
    assert not np.array_equal(inputs[1], inputs[2])


def test_texts_and_what_cannot_be_changed() -> None:
    words = np.array(["a good film, truly", "dull from start to end"], dtype=object)
    table = AttributeTable((Attribute("label", ("no", "yes")),), np.array([[1, 0]]))
    texts = AttributedDataset("texts", table, lambda rows: words[rows], InputSpec.text())
    made = copies(
        texts,
        np.array([1, 0]),
        [(), (("random-replacement", {"vocabulary": ["x", "y"], "rate": 0.9}),)],
    )
    found = made.inputs(np.arange(4))
    assert (
        found[[0, 2]].tolist() == words[[1, 0]].tolist()
        and found.dtype == object
        and found[1] != found[0]
    )
    tokens = AttributedDataset(
        "tokens", table, lambda rows: np.zeros((len(rows), 3), np.int64), InputSpec.tokens(3, 9)
    )
    with pytest.raises(
        InputError,
        match="data: .*tokens.* cannot be changed by a transform; images, texts and vectors of",
    ):
        copies(tokens, np.array([0]), [(), (NOISE,)])
    assert copies(tokens, np.array([0, 1]), [()]).n_base == 2
