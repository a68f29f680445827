"""What programs hand over as models, rows and answers to `cw.evaluate` and `cw.estimate`: read
rightly, or refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, IsolationForest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import crosswind as cw
from crosswind.core.errors import CrosswindError, DataError, InputError

RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.normal(size=(300, 2)).astype(np.float32).astype(np.float64)
ILL = np.where(INPUTS[:, 0] + 0.5 * RANDOM.normal(size=300) > 0, "yes", "no")
FRAME = pd.DataFrame(
    {"age": INPUTS[:, 0], "bp": INPUTS[:, 1], "site": RANDOM.choice(["a", "b"], 300), "ill": ILL}
)
ON_ARRAYS = LogisticRegression().fit(INPUTS, ILL)
ON_FRAMES = LogisticRegression().fit(FRAME[["age", "bp"]], ILL)
ACCURACY = float(ON_ARRAYS.score(INPUTS, ILL))


DATASET = cw.from_frame(FRAME, label="ill", numbers=["age", "bp"], columns="site")


@pytest.fixture(scope="module")
def split() -> Any:
    return cw.split(DATASET, "ill", "site")


def probabilities(x: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(ON_ARRAYS.predict_proba(x))


@pytest.mark.parametrize(
    "answers",
    [
        lambda x: pd.DataFrame(probabilities(x)[:, ::-1], columns=["yes", "no"]),
        lambda x: {"yes": probabilities(x)[:, 1], "no": probabilities(x)[:, 0]},
        lambda x: torch.tensor(probabilities(x), requires_grad=True),
        lambda x: probabilities(x).tolist(),
    ],
    ids=["a frame", "a mapping", "a tensor with a gradient", "a list"],
)
def test_answers_of_a_function_on_an_array_are_by_name(answers: Callable[[Any], Any]) -> None:
    estimates = cw.estimate(answers, INPUTS, (INPUTS, ILL), classes=["no", "yes"])
    assert estimates.source_accuracy == pytest.approx(ACCURACY)


@pytest.mark.parametrize(
    "rows",
    [INPUTS.tolist(), torch.tensor(INPUTS), scipy.sparse.csr_matrix(INPUTS)],
    ids=["a list", "a tensor", "a sparse array"],
)
def test_rows_of_any_kind_of_array(rows: Any) -> None:
    estimates = cw.estimate(ON_ARRAYS, rows, (rows, ILL))
    assert estimates.source_accuracy == pytest.approx(ACCURACY) and estimates.n == 300


def test_labels_may_be_a_frame_of_one_column() -> None:
    labels = FRAME[["ill"]]
    estimates = cw.estimate(ON_FRAMES, FRAME[["age", "bp"]], (FRAME[["age", "bp"]], labels))
    assert estimates.source_accuracy == pytest.approx(ACCURACY, abs=0.01)


def test_classes_of_a_function_are_by_default_those_of_the_source() -> None:
    estimates = cw.estimate(probabilities, INPUTS, (INPUTS, ILL))
    assert estimates.source_accuracy == pytest.approx(ACCURACY)


def test_a_pipeline_of_texts_is_given_the_texts_of_a_frame() -> None:
    texts, labels = ["good film", "bad film"] * 50, ["pos", "neg"] * 50
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, labels)
    frame = pd.DataFrame({"text": texts, "y": labels})
    estimates = cw.estimate(pipeline, frame[["text"]], frame, label="y", text="text")
    assert (estimates.n, estimates.source_accuracy) == (100, 1.0)
    confidence = pipeline.predict_proba(texts).max(axis=1).mean()
    alone = cw.estimate(pipeline, frame[["text"]], text="text")
    assert f"{confidence:.1%}" in alone.sentence
    with pytest.raises(InputError, match="text: unknown column of data 'txt'"):
        cw.estimate(pipeline, frame[["text"]], text="txt")


def test_columns_that_are_the_models_own_are_given_in_its_order() -> None:
    estimates = cw.estimate(
        ON_FRAMES, FRAME[["age", "bp"]], FRAME, label="ill", columns=["bp", "age"]
    )
    assert estimates.source_accuracy == pytest.approx(ACCURACY, abs=0.01)


def test_a_trained_model_reads_its_own_columns_of_a_frame(split: Any) -> None:
    trained = cw.train("erm", split, DATASET, model="mlp", steps=20)
    without_site = FRAME.drop(columns=["site", "ill"])
    estimates = cw.estimate(trained, without_site, FRAME, label="ill")
    expected = (trained.predict(FRAME[["age", "bp"]]) == ILL).mean()
    assert estimates.source_accuracy == pytest.approx(expected)
    assert not any("does not name" in note for note in estimates.notes)


@pytest.mark.parametrize("decimals", [2, 3])
def test_rounded_probabilities_have_the_scores_of_unrounded_ones(split: Any, decimals: int) -> None:
    in_full = cw.evaluate(probabilities, split)["test"]
    rounded = cw.evaluate(lambda x: probabilities(x).round(decimals), split)["test"]
    assert rounded["nll"] == pytest.approx(in_full["nll"], abs=0.02)


def _below_zero(x: NDArray[Any]) -> NDArray[np.float64]:
    scores = probabilities(x)
    scores[0] = [1 + 1e-12, -1e-12]
    return scores


def test_a_probability_just_below_zero_does_not_turn_all_into_logits(split: Any) -> None:
    in_full = cw.evaluate(probabilities, split)["test"]
    assert cw.evaluate(_below_zero, split)["test"]["ece"] == pytest.approx(in_full["ece"], abs=0.03)
    assert _below_zero(INPUTS)[0, 1] < 0


def _regressor() -> Any:
    return DummyRegressor(strategy="constant", constant=1.0).fit(INPUTS, np.ones(300))


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (lambda x: 100 * probabilities(x), "gives percentages: .* divide each row by its sum"),
        (lambda x: np.where(x[:, 0] > 0, 1, -1), "gave the labels -1 and 1 and no 0: -1 means"),
        (KMeans(2, n_init=1).fit(INPUTS), "model: is a clusterer"),
        (IsolationForest(n_estimators=5).fit(INPUTS), "model: is a detector of outliers"),
        (_regressor(), "model: is a regressor, which gives numbers; give a classifier"),
        (
            torch.nn.Linear(2, 2),
            r"is a module of torch, .*module\(torch.from_numpy\(x\).float\(\)\) for numbers",
        ),
    ],
)
def test_what_is_no_answer_is_refused(split: Any, model: Any, problem: str) -> None:
    with pytest.raises(CrosswindError, match=problem):
        cw.evaluate(model, split)


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        (lambda x: probabilities(x)[:-1], r"answers the 300 rows of source by \[299, 2\], and"),
        (lambda x: np.where(x[:, 0] > 0, "yes", "no"), r"by <U3 \[300\], and estimates need"),
        (torch.nn.Linear(2, 2), "model: is a module of torch"),
    ],
)
def test_answers_of_another_shape_are_one_sentence(answers: Any, problem: str) -> None:
    with pytest.raises(CrosswindError, match=problem):
        cw.estimate(answers, INPUTS, (INPUTS, ILL), classes=["no", "yes"])


def test_a_missing_number_is_named_and_no_column_of_texts() -> None:
    transformer = make_column_transformer(
        (StandardScaler(), ["age", "bp"]), (OneHotEncoder(), ["site"])
    )
    pipeline = make_pipeline(transformer, LogisticRegression()).fit(FRAME.drop(columns="ill"), ILL)
    holed = FRAME.drop(columns="ill")
    holed.loc[6, "age"] = np.nan
    with pytest.raises(DataError, match="column 'age', row 7 has no value$"):
        cw.estimate(pipeline, holed, FRAME, label="ill")


def test_numbers_whose_differences_are_lost_are_refused() -> None:
    account = 16_777_216 + np.arange(300) % 2
    frame = FRAME.assign(account=account)
    with pytest.raises(DataError, match=r"column 'account' has numbers such as 16777217, whose"):
        cw.from_frame(frame, label="ill", numbers=["account", "age"])
    read = cw.from_frame(frame.assign(account=account - 16_777_216), label="ill", numbers="account")
    assert set(np.unique(read.read(np.arange(300)))) == {0.0, 1.0}


def test_an_estimator_is_given_the_decimals_of_the_table() -> None:
    doses = np.round(RANDOM.random(300), 1)
    frame = FRAME.assign(dose=doses, ill=np.where(doses > 0.3, "yes", "no"))
    doses_of_calls: list[NDArray[np.float64]] = []

    class Recording(HistGradientBoostingClassifier):  # type: ignore[misc]
        def predict_proba(self, X: Any) -> Any:
            doses_of_calls.append(np.asarray(X["dose"]))
            return super().predict_proba(X)

    model = Recording(max_iter=5).fit(frame[["dose"]], frame["ill"])
    dataset = cw.from_frame(frame, label="ill", numbers="dose", columns="site")
    cw.evaluate(model, cw.split(dataset, "ill", "site"))
    cells = np.concatenate(doses_of_calls)
    assert cells.size > 100 and set(cells) <= set(doses)
