"""A program's own model is scored on the sets of a split, or refused in a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import crosswind as cw
from crosswind.core.errors import CrosswindError, DataError, InputError
from crosswind.data.dataset import AttributedDataset

NAMES = ("2", "10", "tern")
"""As a split orders them; as text they sort otherwise."""


def pictures(names: tuple[str, ...] = ("b", "a", "c"), side: int = 4) -> AttributedDataset:
    """90 pictures whose first pixel is the number of their class among `names`; no two are the
    same, or one could not test."""
    codes = np.arange(90) % len(names)
    frame = {
        "label": [names[code] for code in codes],
        "site": [f"s{i // len(names) % 2}" for i in range(90)],
    }
    x = np.zeros((90, side, side, 3), dtype=np.uint8)
    x[:, 0, 0, 0] = codes
    x[:, 0, 0, 1] = np.arange(90)
    return cw.from_frame(frame, x)


def split_of(dataset: AttributedDataset) -> Any:
    return cw.split(dataset, "label", ["site"], test=4, validation=0.2)


class Knower:
    """A classifier like scikit-learn's that is right: `written` are the classes by the pictures'
    numbers."""

    def __init__(self, written: list[Any], probabilities: bool) -> None:
        self.written, self.classes_ = np.array(written), np.unique(np.array(written))
        if probabilities:
            self.predict_proba = self._probabilities

    def predict(self, x: Any) -> Any:
        return self.written[x[:, 0, 0, 0].astype(int)]

    def _probabilities(self, x: Any) -> Any:
        return np.where(
            self.predict(x)[:, None] == self.classes_, 0.8, 0.2 / (len(self.classes_) - 1)
        )


def by_number(x: Any, order: list[int]) -> Any:
    return np.eye(len(order))[np.array(order)[x[:, 0, 0, 0].astype(int)]] * 5 - 1


@pytest.mark.parametrize(
    "answer", ["logits", "tensor", "numbers", "names", "list", "probabilities", "predict"]
)
def test_a_model_that_is_right_is_told_that_it_is(answer: str) -> None:
    names = ("b", "a", "c")
    dataset = pictures(names)
    split = split_of(dataset)
    order = [split.class_names.index(name) for name in names]
    model: Any = {
        "logits": lambda x: by_number(x, order),
        "tensor": lambda x: torch.tensor(by_number(x, order), requires_grad=True),
        "numbers": lambda x: np.array(order)[x[:, 0, 0, 0]],
        "names": lambda x: np.array(names)[x[:, 0, 0, 0]],
        "list": lambda x: [names[code] for code in x[:, 0, 0, 0]],
        "probabilities": Knower(list(names), True),
        "predict": Knower(list(names), False),
    }[answer]
    scores_by_set = cw.evaluate(model, split)
    assert set(scores_by_set) == {*split.validation, *split.evaluation}
    assert all(scores["accuracy"] == 1 for scores in scores_by_set.values())
    if answer == "probabilities":
        assert scores_by_set["test"]["ece"] == pytest.approx(
            0.2, abs=1e-4
        )  # sure to 80%, and always right


@pytest.mark.parametrize("probabilities", [True, False])
def test_classes_that_sort_otherwise_are_matched_by_name(probabilities: bool) -> None:
    split = split_of(pictures(("10", "2", "1")))
    assert split.class_names == ("1", "2", "10")
    for written in ([10, 2, 1], ["10", "2", "1"]):
        assert cw.evaluate(Knower(written, probabilities), split)["test"]["accuracy"] == 1


class PlainModel:
    pass


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (None, "not NoneType"),
        ("erm", "not str; cw.load_model reads a file of weights"),
        (np.zeros((9, 3)), "not ndarray"),
        ({"test": np.zeros(9)}, "not dict"),
        (PlainModel(), "not Plain"),
        (Knower, "not the class Knower itself"),
        (torch.nn.Linear(2, 2), "is a module of torch"),
        (Knower(["x", "y", "z"], True), "has the classes"),
    ],
    ids=["None", "str", "array", "dict", "object", "class", "module", "other classes"],
)
def test_what_does_not_answer_is_refused_in_a_sentence(model: Any, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        cw.evaluate(model, split_of(pictures()))
    assert caught.value.field == "model"


@pytest.mark.parametrize(
    "model",
    [
        lambda x: 1 / 0,
        lambda: None,
        lambda x: None,
        lambda x: np.zeros((len(x), 7)),
        lambda x: np.zeros((2, len(x))),
        lambda x: ["gull"] * len(x),
        lambda x: np.full(len(x), 9),
        lambda x: np.full((len(x), 3), np.nan),
        lambda x: {"logits": x},
    ],
    ids=[
        "raises",
        "takes nothing",
        "None",
        "too many",
        "turned",
        "no class",
        "no number",
        "nan",
        "dict",
    ],
)
def test_a_function_that_answers_otherwise_is_refused_in_a_sentence(model: Any) -> None:
    with pytest.raises(DataError):
        cw.evaluate(model, split_of(pictures()))


def test_an_estimator_of_numbers_says_how_it_is_asked_about_pictures() -> None:
    dataset = pictures()
    split = split_of(dataset)
    rows = dataset.inputs(split.train.rows).reshape(len(split.train), -1)
    model = LogisticRegression(max_iter=5000).fit(rows, np.arange(len(rows)) % 3)
    with pytest.raises(DataError, match="of pictures as rows of numbers: cw.evaluate.*reshape"):
        cw.evaluate(model, split)
    scores = cw.evaluate(lambda x: model.predict_proba(x.reshape(len(x), -1)), split)
    assert 0 <= scores["test"]["accuracy"] <= 1


@pytest.mark.parametrize("split", [None, "test", {"test": 1}])
def test_a_split_is_asked_for(split: Any) -> None:
    with pytest.raises(InputError, match="must be what cw.split returns"):
        cw.evaluate(lambda x: x, split)


@pytest.mark.parametrize("method", ["beta-vae", "erm", "jtt"])
def test_a_run_that_diverges_is_scored_under_every_rule(method: str) -> None:
    dataset = pictures(side=8)
    split = split_of(dataset)
    trajectory = cw.train(
        method,
        split,
        dataset,
        model="mlp",
        steps=4,
        batch=8,
        validate_every=2,
        lr=1e8 if method == "beta-vae" else 1e30,
    )
    assert trajectory.status == "diverged"
    for rule in ("best-id", "last"):
        assert set(cw.evaluate(trajectory, split, rule)) == {*split.validation, *split.evaluation}


@pytest.mark.parametrize("method", ["beta-vae", "l2d", "cyclegan", "randaugment", "erm"])
@pytest.mark.parametrize("side", [(1, 1), (1, 2), (2, 1), (2, 2)], ids=str)
def test_the_smallest_pictures_train_or_are_refused_in_a_sentence(
    method: str, side: tuple[int, int]
) -> None:
    x = np.random.default_rng(0).integers(0, 256, (48, *side, 3), dtype=np.uint8)
    frame = {"label": ["a", "b"] * 24, "site": ["s", "s", "t", "t"] * 12}
    dataset = cw.from_frame(frame, x)
    split = cw.split(dataset, "label", ["site"], test=2, validation=0.25, environments=["site"])
    try:
        cw.evaluate(
            cw.train(method, split, dataset, model="mlp", steps=2, batch=8, validate_every=2), split
        )
    except CrosswindError as error:
        assert method != "erm"
        assert "pixels a side" in str(error)
    else:
        assert method == "erm" or side == (2, 2)
