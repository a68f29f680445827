"""Estimates by what a program holds: fitted estimators, arrays and tensors of scores; what stands in
the way is one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import SVC, LinearSVC

import crosswind as cw
from crosswind.core.errors import CrosswindError, DataError, InputError
from crosswind.core.registry import load

N = 200


def rows(seed: int) -> Any:
    draw = np.random.default_rng(seed)
    ill = draw.integers(0, 2, N)
    return pandas.DataFrame(
        {
            "age": draw.normal(50 + 5 * ill, 10),
            "dose": draw.normal(ill, 1),
            "label": np.where(ill, "yes", "no"),
        }
    )


SOURCE, NEW = rows(0), rows(1)
INPUTS = ["age", "dose"]
MODEL = LogisticRegression().fit(SOURCE[INPUTS], SOURCE["label"])
SCORES = MODEL.predict_proba(NEW[INPUTS])
SOURCE_SCORES = MODEL.predict_proba(SOURCE[INPUTS])
CODES = (SOURCE["label"] == "yes").astype(int).to_numpy()


def accuracies(estimates: Any) -> dict[str, float]:
    return {row.estimator: row.estimate.accuracy for row in estimates.rows}


@pytest.mark.slow
def test_arrays_and_tensors_of_scores_are_taken_as_the_model_itself_is() -> None:
    by_model = cw.estimate(MODEL, NEW, SOURCE, label="label")
    assert str(by_model).startswith("LogisticRegression on the rows of data\n")
    labels = SOURCE["label"].to_numpy()
    by_arrays = cw.estimate(
        predictions=SCORES, source=(SOURCE_SCORES, labels), classes=["no", "yes"]
    )
    assert len(accuracies(by_model)) > 5 and accuracies(by_arrays) == accuracies(by_model)
    tensors = (torch.tensor(SOURCE_SCORES), torch.tensor(CODES))
    by_tensors = cw.estimate(predictions=torch.tensor(SCORES), source=tensors)
    assert accuracies(by_tensors) == accuracies(by_model)
    assert list(accuracies(cw.estimate(predictions=SCORES))) == ["average-confidence"]


@pytest.mark.parametrize(
    "classes", [[3, 8], np.array([3, 8]), ("3", "8"), [3.0, 8.0], [False, True]]
)
def test_classes_may_be_numbers_and_the_list_of_an_estimator(classes: Any) -> None:
    labels = np.array(list(classes))[CODES]
    estimates = cw.estimate(predictions=SCORES, source=(SOURCE_SCORES, labels), classes=classes)
    by_texts = cw.estimate(
        predictions=SCORES,
        source=(SOURCE_SCORES, SOURCE["label"].to_numpy()),
        classes=["no", "yes"],
    )
    assert accuracies(estimates) == accuracies(by_texts)


@pytest.mark.parametrize("classes", ["noyes", 2])
def test_classes_are_a_list(classes: Any) -> None:
    with pytest.raises(InputError, match="classes: must be a list of the classes in the order"):
        cw.estimate(predictions=SCORES, source=(SOURCE_SCORES, CODES), classes=classes)


def test_a_class_may_be_called_label() -> None:
    source = SOURCE.assign(label=np.where(CODES, "label", "no"))
    model = LogisticRegression().fit(source[INPUTS], source["label"])
    by_model = cw.estimate(model, NEW.drop(columns="label"), source, label="label")
    assert by_model.source_accuracy == pytest.approx(MODEL.score(SOURCE[INPUTS], SOURCE["label"]))
    by_arrays = cw.estimate(
        predictions=SCORES,
        source=(SOURCE_SCORES, np.where(CODES, "label", "no")),
        classes=["no", "label"],
    )
    assert by_arrays.source_accuracy == by_model.source_accuracy


def test_estimators_that_are_left_out_for_one_reason_stand_in_one_sentence() -> None:
    estimates = cw.estimate(predictions=SCORES)
    lines = [line for line in str(estimates).splitlines() if line.startswith("Left out: ")]
    reasons = {why for _, why in estimates.left_out}
    assert len(estimates.left_out) > 10 and len(lines) == len(reasons) < 4
    assert all(name in " ".join(lines) for name, _ in estimates.left_out)


def test_an_estimator_whose_code_fails_takes_nothing_from_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = accuracies(cw.estimate(predictions=SCORES, source=(SOURCE_SCORES, CODES)))

    def fails(*_: Any) -> None:
        raise np.linalg.LinAlgError("Singular\nmatrix")

    monkeypatch.setattr(load("estimators", "cbpe"), "estimate", fails)
    with caplog.at_level("DEBUG", "crosswind"):
        estimates = cw.estimate(predictions=SCORES, source=(SOURCE_SCORES, CODES))
    why = "its code fails on these rows (LinAlgError: Singular matrix)"
    assert dict(estimates.left_out)["cbpe"] == why and f"Left out: cbpe, since {why}." in str(
        estimates
    )
    assert accuracies(estimates) == {
        name: accuracy for name, accuracy in before.items() if name != "cbpe"
    }
    assert [record.exc_info is not None for record in caplog.records] == [True]


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: cw.estimate(SVC().fit(SOURCE[INPUTS], CODES), NEW, SOURCE), "model: SVC has no"),
        (
            lambda: cw.estimate(LinearSVC().fit(SOURCE[INPUTS], CODES), NEW, SOURCE),
            "estimates need probabilities; sklearn.calibration.CalibratedClassifierCV makes",
        ),
        (
            lambda: cw.estimate(LinearRegression().fit(SOURCE[INPUTS], CODES), NEW, SOURCE),
            "model: LinearRegression has no predict_proba, and estimates need probabilities",
        ),
        (
            lambda: cw.estimate(LogisticRegression(), NEW, SOURCE),
            "LogisticRegression has no classes_; is it fitted?",
        ),
        (lambda: cw.estimate(MODEL, NEW[:0], SOURCE, label="label"), "data: has no rows"),
        (lambda: cw.estimate(MODEL, NEW, SOURCE[:0], label="label"), "source: has no rows"),
        (
            lambda: cw.estimate(
                MODEL, NEW.assign(dose=NEW["dose"].mask(NEW.index == 3)), SOURCE, label="label"
            ),
            "; column 'dose', row 4 has no value",
        ),
        (
            lambda: cw.estimate(
                MODEL,
                NEW,
                SOURCE.assign(label=SOURCE["label"].mask(SOURCE.index == 3)),
                label="label",
            ),
            "row 4 has the value 'nan', which means no value; fill it in, or leave rows without a",
        ),
        (
            lambda: cw.estimate(predictions=SCORES[:, 1]),
            "not float64 [200]; of the probability p of one of two classes make np.stack([1 - p, p]",
        ),
        (
            lambda: cw.estimate(predictions=MODEL.predict(NEW[INPUTS])),
            "predictions: must be scores [n, k], a column a class, not",
        ),
        (
            lambda: cw.estimate(predictions=SCORES, source=SOURCE_SCORES),
            "source: must be a pair of scores [m, 2] and labels [m], as predictions are scores",
        ),
        (
            lambda: cw.estimate(predictions=SCORES, source=(SOURCE_SCORES, CODES[:5])),
            "source: must be scores [m, 2] and labels [m], not [200, 2] and [5]",
        ),
        (
            lambda: cw.estimate(predictions=SCORES, source=(SOURCE_SCORES, SOURCE["label"])),
            "classes: are needed, in the order of the 2 columns of predictions: the labels are no, y",
        ),
        (
            lambda: cw.estimate(predictions=SCORES, classes=["a", "b", "c"]),
            "classes: are 3, and predictions has 2 columns",
        ),
        (
            lambda: cw.estimate(predictions=SCORES, source=(SOURCE_SCORES, 1 - CODES)),
            "classes: the predictions table seems to have its outputs in another order",
        ),
    ],
)
def test_what_stands_in_the_way_is_one_sentence(ask: Any, sentence: str) -> None:
    with pytest.raises(CrosswindError) as refused:
        ask()
    assert sentence in str(refused.value) and "\n" not in str(refused.value)
    assert isinstance(refused.value, InputError) or "row" in sentence


@pytest.mark.parametrize("kind", ["int", "float", "str", "bool"])
def test_labels_of_a_file_are_the_classes_that_a_model_calls_by_numbers(
    kind: str, tmp_path: Path
) -> None:
    """In a file 0 and 1 are read as numbers, and a model's classes are 0 and 1, or texts."""
    labels = CODES.astype(bool if kind == "bool" else kind)
    model = LogisticRegression().fit(SOURCE[INPUTS], labels)
    SOURCE.assign(label=labels).to_csv(tmp_path / "source.csv", index=False)
    NEW.to_csv(tmp_path / "new.csv", index=False)
    of_files = cw.estimate(
        model, str(tmp_path / "new.csv"), str(tmp_path / "source.csv"), label="label"
    )
    assert f"{model.score(SOURCE[INPUTS], labels):.1%} of the answers are right" in str(of_files)


def test_labels_and_columns_of_no_class_are_told_with_the_way_out() -> None:
    scores = {"p_no": SCORES[:, 0], "p_yes": SCORES[:, 1]}
    named = {"no": SOURCE_SCORES[:, 0], "yes": SOURCE_SCORES[:, 1], "label": SOURCE["label"]}
    sentence = (
        r"share no column of scores of a class \(p_no, p_yes; no, yes\): give the scores of a"
    )
    with pytest.raises(DataError, match=sentence):
        cw.estimate(predictions=scores, source=named)
    strange = SOURCE.assign(label=CODES * 1.0 + 5)
    sentence = (
        r"label '[56]', which is no class of the scores \(no, yes\) and 1 more .*; write it as"
    )
    with pytest.raises(DataError, match=sentence):
        cw.estimate(MODEL, NEW, strange, label="label")
