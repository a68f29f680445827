"""What a model that was not trained here answers with: labels of every kind, scores in columns of every
order. A wrong class is never read in silence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import polars
import pytest
import torch

import crosswind as cw
from crosswind.core.errors import DataError, InputError
from crosswind.models.given.class_labels import (
    AmbiguousLabelsError,
    answer_array,
    class_codes,
    class_order,
)

CODES: list[tuple[list[str], Any, list[int]]] = [
    (["a", "b"], ["b", "", "a"], [1, -1, 0]),
    (["a", "b"], [1, -1, 0], [1, -1, 0]),
    (["a", "b"], [1.0, 0.0], [1, 0]),
    (["a", "b"], [True, False], [1, 0]),
    (["0", "1", "2"], [2, 0, -1], [2, 0, -1]),
    (["1", "2"], [1, 2], [0, 1]),
    (["1", "2"], [0, 1], [0, 1]),
    (["1", "2", "3"], [3, 1, -1], [2, 0, -1]),
    (["-1", "1"], [-1, 1], [0, 1]),
    (["-1", "1"], [1, 1], [1, 1]),
    (["-1", "1"], [-1], [0]),
    (["-1", "0", "1"], [-1, 0, 1], [0, 1, 2]),
    (["-1", "1"], [0, 1], [0, 1]),
    (["3", "8"], [8, 3], [1, 0]),
    (["3", "8"], [0, 1], [0, 1]),
    (["9", "10", "100"], [100, 9, 10], [2, 0, 1]),
    (["0", "1", "10", "2"], [3, 0], [3, 0]),
    (["0.5", "1.5"], [1.5, 0.5], [1, 0]),
    (["0.0", "1.0"], [1, 0], [1, 0]),
    (["0.0", "1.0"], ["1", "0"], [1, 0]),
    (["0", "1"], ["1.0", "0.0"], [1, 0]),
    (["false", "true"], [True, False], [1, 0]),
    (["false", "true"], ["True", "False"], [1, 0]),
    (["false", "true"], [0, 1], [0, 1]),
    (["1", "01"], ["01", "1"], [1, 0]),
]


@pytest.mark.parametrize(("class_names", "labels", "codes"), CODES)
def test_labels_are_names_numbers_or_places(
    class_names: list[str], labels: Any, codes: list[int]
) -> None:
    assert class_codes(np.asarray(labels), class_names, "net").tolist() == codes


@pytest.mark.parametrize(
    ("class_names", "labels", "sentence"),
    [
        (["a", "b"], [2], "net gave the label 2, which is no class"),
        (["a", "b"], [0.5], "net gave the label 0.5, which is no class"),
        (["a", "b"], [float("nan")], "net gave the label nan, which is no class"),
        (["a", "b"], ["c"], "net gave the label 'c', which is no class .valid: a, b"),
        (["1", "2"], [3], "net gave the label 3, which is no class .valid: 1, 2"),
        (["-1", "1"], [-1, 0], "net gave the label 0, which is no class"),
        (["0.5", "1.5"], [2.5], "net gave the label 2.5, which is no class"),
    ],
)
def test_labels_that_are_no_class_are_refused(
    class_names: list[str], labels: Any, sentence: str
) -> None:
    with pytest.raises(DataError, match=sentence):
        class_codes(np.asarray(labels), class_names, "net")


@pytest.mark.parametrize(
    ("class_names", "labels"),
    [(["1", "2"], [1, 1]), (["1", "2", "3"], [1, 2]), (["1", "2", "4"], [2])],
)
def test_numbers_that_mean_two_classes_are_refused(class_names: list[str], labels: Any) -> None:
    with pytest.raises(AmbiguousLabelsError, match="by its name and another one by its place"):
        class_codes(np.asarray(labels), class_names, "net")


def test_numbers_are_places_where_the_order_was_named() -> None:
    codes = class_codes(np.array([1, 1]), ["1", "2"], "net", by_place=True)
    assert codes.tolist() == [1, 1]


def test_order_of_names() -> None:
    assert class_order(["b", "a"], ["a", "b"]) == [1, 0]
    assert class_order([False, True], ["false", "true"]) == [0, 1]
    assert class_order([1.0, 0.0], ["0", "1"]) == [1, 0]
    assert class_order(["a", "a"], ["a", "b"]) is None
    assert class_order(["a"], ["a", "b"]) is None


SCORES = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
MOVED = SCORES[:, [2, 0, 1]]


@pytest.mark.parametrize(
    "answer",
    [
        SCORES,
        SCORES.tolist(),
        torch.from_numpy(SCORES).requires_grad_(),
        pandas.DataFrame(SCORES),
        pandas.DataFrame(MOVED, columns=["c", "a", "b"]),
        polars.DataFrame(MOVED, schema=["c", "a", "b"]),
        polars.DataFrame(SCORES),
        {"c": SCORES[:, 2], "a": SCORES[:, 0], "b": SCORES[:, 1]},
        {"logits": torch.from_numpy(SCORES)},
        SimpleNamespace(logits=torch.from_numpy(SCORES)),
    ],
)
def test_scores_are_put_in_the_order_of_the_classes(answer: Any) -> None:
    np.testing.assert_allclose(answer_array(answer, ["a", "b", "c"], "net"), SCORES)


def test_bfloat16_is_read() -> None:
    scores = answer_array(torch.from_numpy(SCORES).bfloat16(), ["a", "b", "c"], "net")
    np.testing.assert_allclose(scores, SCORES, rtol=1e-2)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (pandas.DataFrame(SCORES, columns=["x", "y", "z"]), "by the columns .*'x', 'y', 'z'"),
        (pandas.DataFrame(SCORES, columns=["a", "b", "b"]), "by the columns"),
        ({"a": SCORES[:, 0], "b": SCORES[:, 1]}, "by the columns"),
        ((SCORES.argmax(1), SCORES), "by a tuple of 2 arrays; it must give one array"),
        ({}, "by a mapping of 0 values"),
    ],
)
def test_what_cannot_be_told_is_refused(answer: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        answer_array(answer, ["a", "b", "c"], "net")


def frame_of(values: list[Any], n: int = 300) -> tuple[Any, Any]:
    """A split whose label follows the sign of the first number, but for a tenth of the rows."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(n, 2))
    positive = (x[:, 0] > 0) ^ (draw.random(n) < 0.1)
    columns = {"u": x[:, 0], "v": x[:, 1], "site": draw.choice(["p", "q"], n)}
    label = [values[int(is_positive)] for is_positive in positive]
    data = cw.from_frame(pandas.DataFrame({**columns, "y": label}), label="y", numbers=["u", "v"])
    return data, cw.split(data, "y", ["site"], test=20)


@pytest.mark.parametrize("values", [[-1, 1], [1, 2], [0, 1], [3, 8], [False, True], ["n", "y"]])
def test_a_function_and_an_estimator_are_scored_alike(values: list[Any]) -> None:
    from sklearn.linear_model import LogisticRegression

    data, split = frame_of(values)

    def rule(x: Any) -> Any:
        return np.array([values[int(is_positive)] for is_positive in x[:, 0] > 0])

    x = data.read(split.train.rows)
    y = np.array(values)[split.train.label]
    accuracies = [
        cw.evaluate(model, split)["test"]["accuracy"]
        for model in (rule, LogisticRegression().fit(x, y))
    ]
    assert min(accuracies) > 0.8
    by_place = cw.evaluate(lambda x: (x[:, 0] > 0).astype(int), split)["test"]["accuracy"]
    assert by_place == accuracies[0]


def test_an_estimator_of_other_classes_is_refused() -> None:
    from sklearn.linear_model import LogisticRegression

    data, split = frame_of(["n", "y"])
    x = data.read(split.train.rows)
    strange = LogisticRegression().fit(x, np.array(["u", "w"])[split.train.label])
    with pytest.raises(InputError, match="has the classes .*'u', 'w'.* and the split has n, y"):
        cw.evaluate(strange, split)
