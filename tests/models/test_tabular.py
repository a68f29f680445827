"""The model of tables scales by its training rows, says what is missing, and takes its scale along
with its weights."""

from __future__ import annotations

import numpy as np
import torch

import crosswind as cw
from crosswind.core.types import InputSpec
from crosswind.models.build import build_model
from crosswind.models.networks.tabular import Standardise


def test_numbers_are_scaled_by_median_and_quartiles() -> None:
    nan = float("nan")
    rows = torch.tensor(
        [
            [0.0, 1, 5, 0, nan],
            [1, 0, 5, 0, nan],
            [2, nan, 5, 0, nan],
            [3, 1, 5, 8, nan],
            [4, 0, 5, 0, nan],
        ]
    )
    layer = Standardise(5)
    layer.fit_rows(rows)
    # 0..4: median 2, quartiles 1 and 3; 0 and 1 as they are; one value: scale 1; quartiles alike:
    # half the range.
    assert layer.centre.tolist() == [2, 0, 5, 0, 0]
    assert layer.scale.tolist() == [2, 1, 1, 4, 1]
    x = torch.tensor([[4.0, 1, 6, 4, nan], [nan, nan, 5, -8, 2]])
    drawn_in = [1 / np.sqrt(1 + 1 / 9), 1 / np.sqrt(1 + 1 / 9), 1 / np.sqrt(1 + 1 / 9)]
    first = [drawn_in[0], drawn_in[1], drawn_in[2], drawn_in[0], 0, 0, 0, 0, 0, 1]
    second = [0, 0, 0, -2 / np.sqrt(1 + 4 / 9), 2 / np.sqrt(1 + 4 / 9), 1, 1, 0, 0, 0]
    torch.testing.assert_close(layer(x), torch.tensor([first, second], dtype=torch.float32))


def test_without_hidden_layers_it_is_a_linear_classifier() -> None:
    model = build_model("tabular", {"layers": 0}, InputSpec.features(3), ("a", "b"), 0)
    assert [tuple(p.shape) for p in model.parameters()] == [(2, 6), (2,)]


def patients(n: int = 400, seed: int = 0) -> cw.AttributedDataset:
    """An illness that goes with a number of the size of a salary, which is missing in one row of
    ten, and a mark."""
    draw = np.random.default_rng(seed)
    ill = draw.integers(0, 2, n)
    income = 50_000 + 20_000 * (ill * 2 - 1) + draw.normal(0, 10_000, n)
    income[draw.random(n) < 0.1] = np.nan
    mark = np.where(draw.random(n) < 0.5, "on", "off")
    frame = {"ill": ill, "income": income, "mark": mark}
    return cw.from_frame(
        frame, label="ill", numbers=["income"], categories=["mark"], columns=["mark"]
    )


def test_it_learns_numbers_of_any_size_and_goes_on_with_its_scale() -> None:
    dataset = patients()
    split = cw.split(dataset, "ill", ["mark"])
    trajectory = cw.train("erm", split, dataset, model="tabular", steps=120, validate_every=40)
    assert cw.evaluate(trajectory, split)["test"]["accuracy"] > 0.85
    weights = trajectory.weights("last")
    rows = dataset.inputs(split.train.rows)
    centre = weights["model.standardise.centre"].numpy()
    assert centre[0] == np.float32(np.nanmedian(rows[:, 0].astype(np.float64)))
    all_rows = dataset.inputs(np.arange(dataset.n_base))
    assert centre[0] != np.float32(np.nanmedian(all_rows[:, 0].astype(np.float64)))
