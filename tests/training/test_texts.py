"""Texts in training: tokens made once, batches cut to their longest, evaluation by length, rows of
similar length together."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import Sets, rows_of, sets_of

import crosswind as cw
from crosswind.core.registry import load
from crosswind.core.types import InputSpec
from crosswind.data import resident
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.methods.base import Info, Stage
from crosswind.models.build import build_model
from crosswind.models.networks.bag_of_words import BagOfWords
from crosswind.models.networks.encoding import encoded
from crosswind.models.networks.text_cnn import TextCNN
from crosswind.models.networks.tokens import text_lengths
from crosswind.training.loader import EvaluationRows, TrainingRows
from crosswind.training.loop import fit
from crosswind.training.run_context import ContextRows, LoopContext
from crosswind.training.samplers import Lengths, Order
from crosswind.training.settings import ModelSpec, TrainingSettings, keyed

CNN = ModelSpec(
    "text-cnn",
    {"words": 40, "buckets": 60, "embedding": 8, "width": 6, "hidden": 8, "dropout": 0.0},
)


def reviews(n: int = 200) -> AttributedDataset:
    """Row i has i % 40 + 1 words, among them one that tells its label."""
    drawn = np.random.default_rng(0)
    codes = np.stack([np.arange(n) // 40 % 2, np.arange(n) // 2 % 2]).astype(np.uint8)
    table = AttributeTable(
        (Attribute("light", ("dark", "bright")), Attribute("tint", ("red", "blue"))), codes
    )
    texts = np.array(
        [
            " ".join(["no" if codes[0][row] else "yes", *drawn.choice(list("abcdefgh"), row % 40)])
            for row in range(n)
        ],
        dtype=object,
    )
    return AttributedDataset(
        "tiny", table, lambda rows: texts[rows], InputSpec.text(), fingerprint="reviews"
    )


def tokens(data: AttributedDataset) -> AttributedDataset:
    return encoded(data, CNN.name, CNN.knobs, 0, "cpu", "fp32")


def sets(data: AttributedDataset) -> Sets:
    return sets_of(
        rows_of(data, np.arange(100)),
        {"validation": rows_of(data, np.arange(100, 150))},
        {"test": rows_of(data, np.arange(150, 200))},
    )


def trained(data: AttributedDataset, method: str = "erm", **settings: Any) -> Any:
    settings_told = {
        "steps": 6,
        "batch": 16,
        "validate_every": 3,
        "evaluation_batch": 16,
        "lr": 0.01,
        **settings,
    }
    return fit(
        load("methods", method)(),
        sets(data),
        {"tiny": data},
        CNN,
        TrainingSettings.of(settings_told),
        0,
        None,
        None,
    )  # type: ignore[arg-type]


def test_batches_are_cut_to_their_longest_text_and_nothing_is_lost() -> None:
    data = tokens(reviews())
    rows = TrainingRows(rows_of(data, np.arange(100)), data, TrainingSettings(batch=4), 0, "epoch")  # type: ignore[arg-type]
    sizes = set()
    for step in range(25):
        x, ids = (getattr(rows.batch(step, 25), name).numpy() for name in ("x", "ids"))
        whole_texts = data.inputs(ids)
        assert (
            np.array_equal(x, whole_texts[:, : x.shape[1]])
            and not whole_texts[:, x.shape[1] :].any()
        )
        sizes.add(x.shape[1])
    assert sizes <= {8, 12, 16, 24, 32, 40} and len(sizes) > 1


@pytest.mark.parametrize("held", [True, False])
def test_a_text_is_answered_alike_whatever_stands_beside_it(held: bool) -> None:
    """Held rows are asked by length, others as they come: predictions are in the order of the rows,
    as of each text alone."""
    data = tokens(reviews())
    with cw.data.budget.bounded(None if held else 0):
        trajectory = trained(data)
    predictions = trajectory.predictions["last"]["test"]
    assert (
        predictions.ids.tolist() == data.ids[150:200].tolist()
        and predictions.label.tolist() == [1] * 10 + [0] * 40
    )
    network = build_model(CNN.name, CNN.knobs, data.check_inputs(), ("a", "b"), 1).eval()
    network.load_state_dict(
        {
            key.removeprefix("model."): value
            for key, value in trajectory.weights("last").items()
            if "model." in key
        }
    )
    with torch.no_grad():
        alone = torch.cat(
            [network(torch.from_numpy(data.inputs(np.array([row])))) for row in range(150, 200)]
        )
    torch.testing.assert_close(torch.from_numpy(predictions.logits), alone, atol=1e-6, rtol=0)


def test_evaluation_goes_by_length() -> None:
    data = tokens(reviews())
    rows = EvaluationRows(
        rows_of(data, np.arange(100)), data, TrainingSettings(evaluation_batch=10), resident=True
    )  # type: ignore[arg-type]
    order = rows.by_length()
    lengths = text_lengths(data.inputs(order))
    assert (np.diff(lengths) >= 0).all() and sorted(order) == list(range(100))
    sizes = [x.shape[1] for x, _ in rows.batches(order, padded=True)]
    assert sizes == sorted(sizes) and sizes[0] == 8 and sizes[-1] == 40
    assert {x.shape[1] for x, _ in rows.batches(order, padded=False)} == {40}
    some_positions = np.array([39, 0, 20, 0])
    assert rows.by_length(some_positions).tolist() == [1, 3, 2, 0]


def test_rows_of_similar_length_stand_together_and_an_epoch_has_every_row_once() -> None:
    """103 members, batches of 10, pools of 4 batches: the second epoch begins by filling the batch
    that the first began."""
    length = np.random.default_rng(1).integers(1, 100, 103)
    order = Order(np.arange(103), None, 0, "x", lengths=Lengths(length, 10, 4))
    plain = Order(np.arange(103), None, 0, "x")
    for epoch in range(3):
        assert sorted(order.take(103 * epoch, 103)) == list(range(103))
    assert np.array_equal(
        order.take(0, 300)[57:190],
        Order(np.arange(103), None, 0, "x", lengths=Lengths(length, 10, 4)).take(57, 133),
    )

    def spread(one: Order) -> float:
        batches = [length[one.take(10 * step, 10)] for step in range(30)]
        return float(np.mean([np.ptp(batch) for batch in batches]))

    assert spread(order) < spread(plain) / 2
    # Pools are cut from the same permutation, so what stands in one is what would have stood there.
    assert set(order.take(0, 40)) == set(plain.take(0, 40)) and set(order.take(110, 40)) == set(
        plain.take(110, 40)
    )


def test_a_pool_of_lengths_is_for_plain_epochs_and_another_run() -> None:
    data = tokens(reviews())

    def widths(sampler: str, pool: int, weights: torch.Tensor | None = None) -> float:
        settings = TrainingSettings(batch=10, length_pool=pool)
        rows = TrainingRows(rows_of(data, np.arange(100)), data, settings, 0, sampler)  # type: ignore[arg-type]
        rows.begin(Stage(weights=weights))
        return sum(rows.batch(step, 10).x.shape[1] for step in range(10))

    assert widths("epoch", 10) < 0.8 * widths("epoch", 0)
    assert widths("per-environment", 10) == widths("per-environment", 0)
    uneven = torch.linspace(0.1, 1, 100)
    assert widths("epoch", 10, uneven) == widths("epoch", 0, uneven)
    settings = vars(TrainingSettings())
    assert keyed({**settings, "length_pool": 0}) == keyed(
        {k: v for k, v in settings.items() if k != "length_pool"}
    )
    assert keyed({**settings, "length_pool": 5})["length_pool"] == 5
    assert (
        trained(data, length_pool=5).weights("last").keys() == trained(data).weights("last").keys()
    )


def test_texts_are_tokenised_once_for_all_runs_methods_and_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every text once: by a second run, another method and seed, and by another process on the same
    memory, not again."""
    texts_seen: list[str] = []
    for cls in (TextCNN, BagOfWords):
        own_tokens = cls._tokens
        monkeypatch.setattr(
            cls,
            "_tokens",
            lambda self, texts, own_tokens=own_tokens: (
                texts_seen.extend(texts),
                own_tokens(self, texts),
            )[1],
        )
    data = reviews()
    region = resident.Region.create(1 << 24)
    monkeypatch.setattr(resident, "_shared", [region])
    for method, seed in (("erm", 0), ("groupdro", 1)):
        encoded_texts = encoded(data, CNN.name, CNN.knobs, seed, "cpu", "fp32")
        settings_told = TrainingSettings.of({"steps": 2, "batch": 16, "validate_every": 1})
        fit(
            load("methods", method)(),
            sets(encoded_texts),
            {"tiny": data},
            CNN,
            settings_told,
            seed,
            None,
            None,
        )  # type: ignore[arg-type]
    assert sorted(texts_seen) == sorted(data.inputs(np.arange(200)))
    # What another process of the study has: the data set built anew, and the descriptor of the same
    # region.
    monkeypatch.setattr(resident, "_shared", [resident.Region.attach(os.dup(region.handle))])
    other_seed = encoded(reviews(), CNN.name, CNN.knobs, 2, "cpu", "fp32")
    rows = resident.ResidentRows(other_seed, np.arange(200), evaluation=False)
    rows.bring()
    assert rows.held() and len(texts_seen) == 200
    encoded(data, "bag-of-words", {"words": 8}, 0, "cpu", "fp32").inputs(np.arange(200))
    assert len(texts_seen) == 400


def test_a_method_is_answered_in_the_order_in_which_it_asks() -> None:
    data = tokens(reviews())
    settings, train, method = (
        TrainingSettings(batch=10, evaluation_batch=8),
        rows_of(data, np.arange(100)),
        load("methods", "erm")(),
    )
    loader = TrainingRows(train, data, settings, 0, "epoch")  # type: ignore[arg-type]
    images = EvaluationRows(train, data, settings, resident=True)  # type: ignore[arg-type]
    context = LoopContext(
        method,
        Info(data.check_inputs(), 2, 100),
        CNN,
        settings,
        0,
        ContextRows(loader, images),
        None,
    )
    model = context.modules["model"].eval()
    rows_asked = torch.tensor([70, 3, 3, 41, 99, 0, 12, 38, 5])
    with torch.no_grad():
        alone = torch.cat(
            [
                model.features(torch.from_numpy(data.inputs(np.array([row]))))
                for row in rows_asked.tolist()
            ]
        )  # type: ignore[operator]
        torch.testing.assert_close(context.features(rows_asked), alone, atol=1e-6, rtol=0)
        torch.testing.assert_close(
            context.predict(rows_asked).logits, model.head(alone), atol=1e-6, rtol=0
        )  # type: ignore[operator]
    assert torch.equal(
        context.inputs(rows_asked), torch.from_numpy(data.inputs(rows_asked.numpy()))
    )
    assert context.features().shape == (100, 8)
