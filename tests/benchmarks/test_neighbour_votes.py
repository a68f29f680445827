"""Labels of neighbours: the same whatever the batches, and those of a slow plain loop."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.speed.neighbour_votes import label_counts, neighbour_labels, neighbour_transform
from tests.training.test_batchnorm_folding import worn
from tests.training.world import DATA, rows_of
from torch import Tensor, nn

from crosswind.core.errors import InputError
from crosswind.core.seeds import seed_of
from crosswind.core.types import InputSpec
from crosswind.data.derive import training_keys
from crosswind.methods.base import Method, Output
from crosswind.methods.erm import ERM
from crosswind.models.build import build_model, unnamed
from crosswind.training.loader import EvaluationRows
from crosswind.training.settings import TrainingSettings
from crosswind.transforms.neighbourhood import NEIGHBOURHOODS

SETTINGS = TrainingSettings(evaluation_batch=16)
ROWS = np.arange(20, 61)  # 41: two whole batches and nine rows


def rows(which: np.ndarray = ROWS, settings: TrainingSettings = SETTINGS) -> EvaluationRows:
    return EvaluationRows(rows_of(DATA, which), DATA, settings, resident=False)  # type: ignore[arg-type]


def network(seed: int = 0) -> nn.Module:
    model_made = worn(
        build_model("small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(3), seed), 0.6, seed
    )
    # A head that gives every class to some rows.
    nn.init.normal_(model_made.fc.weight, std=3.0, generator=torch.Generator().manual_seed(seed))  # type: ignore[union-attr,arg-type]
    x = torch.from_numpy(DATA.inputs(ROWS)).permute(0, 3, 1, 2) / 255 * 2 - 1
    with torch.no_grad():
        model_made.fc.bias -= copy.deepcopy(model_made).eval()(x).mean(0)  # type: ignore[union-attr,operator]
    return model_made.to(memory_format=torch.channels_last)


def test_they_are_those_of_a_plain_loop() -> None:
    """One picture at a time, unfolded, in float32."""
    model, transform, labels_by_hand = network(), neighbour_transform("ni-randaugment"), []
    for row in ROWS:
        picture = torch.from_numpy(DATA.inputs(np.array([row]))).permute(0, 3, 1, 2).contiguous()
        keys = [
            training_keys(np.array([row]), number, seed_of(3, "neighbours"))
            for number in range(1, 5)
        ]
        pictures = torch.cat([picture, *(transform(picture, key) for key in keys)])
        with torch.no_grad():
            labels_by_hand.append(copy.deepcopy(model).eval()(pictures / 255 * 2 - 1))
    slow = torch.stack(labels_by_hand).numpy()
    votes = neighbour_labels(
        [model], rows(), transform, SETTINGS, neighbours=4, seed=3, logits=True
    )
    assert (
        votes.logits is not None
        and votes.logits.shape == (1, 41, 5, 3)
        and votes.logits.dtype == np.float32
    )
    assert np.abs(votes.logits[0] - slow).max() < 1e-4
    assert votes.labels.dtype == np.int64 and np.array_equal(votes.labels[0], slow.argmax(-1))
    assert (
        len(np.unique(votes.labels)) > 1
        and (votes.labels[:, :, 1:] != votes.labels[:, :, :1]).any()
    )
    counts = label_counts(votes.labels, 3)
    for row, row_counts in zip(votes.labels[0], counts[0], strict=True):
        assert row_counts.tolist() == [sum(label == k for label in row) for k in range(3)]
    assert model.training


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, neighbourhood_of in NEIGHBOURHOODS.items()
        if neighbourhood_of.takes == "image"
    ],
)
def test_a_row_gets_the_same_bits_in_any_set(name: str) -> None:
    """Alone, in part of the set, in another order, and with more neighbours."""
    model, transform = network(), neighbour_transform(name)

    def logits(which: np.ndarray, neighbours: int = 3) -> np.ndarray:
        votes = neighbour_labels(
            [model], rows(which), transform, SETTINGS, neighbours=neighbours, logits=True
        ).logits
        assert votes is not None
        return votes[0]

    all_logits = logits(ROWS)
    order = np.random.default_rng(0).permutation(len(ROWS))
    assert np.array_equal(logits(ROWS[order]), all_logits[order])
    assert np.array_equal(logits(ROWS[7:8]), all_logits[7:8])
    assert np.array_equal(logits(ROWS[30:]), all_logits[30:])
    assert np.array_equal(logits(ROWS, 5)[:, :4], all_logits)
    assert np.array_equal(logits(ROWS, 0), all_logits[:, :1])


@dataclass(frozen=True)
class Doubtful(Method):
    """Labels of its own, not all of which can be read."""

    def predict(self, modules: dict[str, nn.Module], x: Tensor, state: dict[str, Tensor]) -> Output:
        label = modules["model"](x).argmin(1)
        return Output(label=label, parsed=label != state["never"])


def test_many_models_say_what_each_says_alone_of_pictures_made_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transform = neighbour_transform("ni-translate")
    voters: list[Any] = [
        network(0),
        (ERM(), {"model": network(1)}, {}),
        (Doubtful(), {"model": network(2)}, {"never": torch.tensor(1)}),
    ]
    alone = [
        neighbour_labels([voter], rows(), transform, SETTINGS, neighbours=3).labels[0]
        for voter in voters
    ]
    batches_made: list[int] = []
    plain = type(transform).apply
    monkeypatch.setattr(
        type(transform),
        "apply",
        lambda self, x, keys: batches_made.append(len(x)) or plain(self, x, keys),
    )
    votes = neighbour_labels(voters, rows(), transform, SETTINGS, neighbours=3)
    assert votes.logits is None and np.array_equal(votes.labels, np.stack(alone))
    assert sum(batches_made) == 3 * len(ROWS)
    assert (
        set(np.unique(votes.labels[2])) == {-1, 0, 2}
        and len({label_part.tobytes() for label_part in votes.labels}) == 3
    )
    with pytest.raises(InputError, match="logits: a method gives labels only"):
        neighbour_labels(voters, rows(), transform, SETTINGS, logits=True)


def test_batches_are_of_one_size_and_few_are_held() -> None:
    """41 rows with 3 neighbours are 164 pictures: 10 batches of 16 and one of 4, filled up."""
    sizes: list[int] = []

    class RecordingNetwork(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            sizes.append(len(x))
            return x.flatten(1)[:, :3]

    neighbour_labels(
        [RecordingNetwork()], rows(), neighbour_transform("ni-erase"), SETTINGS, neighbours=3
    )
    assert sizes == [16] * 11


def test_bfloat16_and_seeds() -> None:
    model, transform = network(), neighbour_transform("ni-flipcrop")
    low = replace(SETTINGS, precision="bf16")
    full, half, other_seed = (
        neighbour_labels([model], rows(settings=chosen), transform, chosen, seed=seed, logits=True)
        for chosen, seed in ((SETTINGS, 0), (low, 0), (SETTINGS, 1))
    )
    assert full.logits is not None and half.logits is not None and other_seed.logits is not None
    assert half.logits.dtype == np.float32 and not np.array_equal(half.logits, full.logits)
    assert (
        np.abs(half.logits - full.logits).max() < 0.4
    )  # of sums of some 20, which the bias centres
    assert np.array_equal(other_seed.logits[:, :, 0], full.logits[:, :, 0])
    assert (other_seed.logits[:, :, 1:] == full.logits[:, :, 1:]).all(
        -1
    ).mean() < 0.2  # small pictures have few crops


def test_counts_by_hand() -> None:
    """Three pictures of two rows: labels 2, 0, 0 and 1, -1, 1."""
    labels = np.array([[[2, 0, 0], [1, -1, 1]]])
    assert label_counts(labels, 3).tolist() == [[[2, 0, 1], [0, 2, 0]]]
    assert label_counts(labels, 3, original=False).tolist() == [[[2, 0, 0], [0, 1, 0]]]
    with pytest.raises(ValueError, match="label 2 is none of 2 classes"):
        label_counts(labels, 2)


def test_empty_sets_and_bad_input() -> None:
    transform, none = neighbour_transform("ni-erase"), rows(ROWS[:0])
    assert neighbour_labels([network()], none, transform, SETTINGS).labels.shape == (1, 0, 11)
    assert label_counts(np.zeros((1, 0, 11), dtype=np.int64), 3).shape == (1, 0, 3)
    for field, voters, count in (("voters", [], 1), ("neighbours", [network()], -1)):
        with pytest.raises(InputError, match=f"^{field}: "):
            neighbour_labels(voters, rows(), transform, SETTINGS, neighbours=count)
    with pytest.raises(InputError, match="^rows: "):
        neighbour_labels([network()], none, transform, SETTINGS, logits=True)
    with pytest.raises(InputError, match="unknown neighbourhood"):
        neighbour_transform("ni-nothing")
