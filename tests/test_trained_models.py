"""What a program does with a model: it trains one and predicts, evaluates, saves and loads it; it
asks a fitted estimator of scikit-learn; and it proposes a study for a frame."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
import torch

import crosswind as cw
from crosswind.core.errors import CrosswindError, DataError, InputError
from crosswind.core.types import InputSpec


def patients(n: int = 360, seed: int = 0) -> polars.DataFrame:
    draw = np.random.default_rng(seed)
    ill = draw.integers(0, 2, n)
    mark = np.where(draw.random(n) < 0.8, ill, 1 - ill)
    return polars.DataFrame(
        {
            "ill": np.where(ill, "yes", "no"),
            "mark": np.where(mark, "on", "off"),
            "x": (ill * 2 + draw.normal(0, 1, n)).round(4),
            "z": draw.normal(0, 1, n).round(4),
        }
    )


@pytest.fixture(scope="module")
def trained() -> tuple[Any, Any, Any]:
    dataset = cw.from_frame(patients(), label="ill", numbers=["x", "z"], columns=["mark"])
    split = cw.split(dataset, "ill", ["mark"])
    model = {"name": "tabular", "layers": 1, "hidden": 16}
    return cw.train("erm", split, dataset, model=model, steps=40, validate_every=20), split, dataset


def test_a_model_takes_settings(trained: Any) -> None:
    model, split, dataset = trained
    assert model.weights()["model.layer1.0.weight"].shape == (16, 4)
    for wrong, words in (
        ({"name": "tabular", "layer": 1}, "model.layer: unknown setting of model 'tabular'"),
        ({"layers": 1}, "model: must be a name, or a mapping with a 'name'"),
        ({"name": "tabula"}, "unknown model 'tabula', did you mean 'tabular'"),
    ):
        with pytest.raises(InputError, match=words):
            cw.train("erm", split, dataset, model=wrong)


def test_batches_of_similar_length_are_refused_for_rows_without_a_length(trained: Any) -> None:
    _, split, dataset = trained
    with pytest.raises(
        InputError, match="^length_pool: puts texts of similar length together, and"
    ):
        cw.train("erm", split, dataset, model="tabular", steps=2, length_pool=4)


def test_it_shows_itself_on_one_screen(trained: Any) -> None:
    model, _, _ = trained
    text = repr(model)
    assert len(text) < 1000 and text.startswith("erm on tabular (features of 2 numbers; 2 classes:")
    assert "finished after 40 steps; best-id is step " in text and "worst group" in text
    assert "<table>" in model._repr_html_()
    of_test = model.evaluate()["test"]
    assert f"{of_test['worst_group_name']} ({of_test['worst_group_n']} rows)" in text


def test_it_predicts_evaluates_saves_and_loads(trained: Any, tmp_path: Path) -> None:
    model, split, dataset = trained
    probabilities = model.predict_proba(dataset)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    names = np.array(["no", "yes"])
    assert (model.predict(dataset) == names[probabilities.argmax(axis=1)]).all()
    rows = split.evaluation["test"]
    right = (probabilities.argmax(axis=1)[rows.rows] == rows.label).mean()
    assert (
        model.evaluate()["test"]["accuracy"]
        == right
        == cw.evaluate(model, split)["test"]["accuracy"]
    )
    other = cw.split(dataset, "ill", ["mark"], split_seed=3)
    with pytest.warns(UserWarning, match="was trained on"):
        of_other = model.evaluate(other)
    assert of_other["test"]["n"] == other.evaluation["test"].rows.size
    file = model.save(tmp_path / "deep" / "m.safetensors")
    loaded = cw.load_model(file)
    np.testing.assert_array_equal(loaded.predict_proba(dataset), probabilities)
    assert loaded.evaluate(other)["test"]["groups"] == of_other["test"]["groups"]
    arrays = dataset.inputs(np.arange(5))
    # Not to the bit: processors with AVX-512 multiply five rows by another kernel than many.
    of_five = loaded.predict_proba(arrays)
    np.testing.assert_allclose(of_five, loaded.predict_proba(dataset)[:5], rtol=1e-6)
    estimates = cw.estimate(str(file), dataset, dataset, label="ill")
    assert (
        estimates.source_accuracy == (model.predict(dataset) == patients()["ill"].to_numpy()).mean()
    )


REFUSED = [
    (np.zeros((3, 5), np.float32), "inputs: are float32 .3, 5., not features of 2 numbers"),
    (np.zeros((0, 2), np.float32), "inputs: have no rows"),
]


@pytest.mark.parametrize(("inputs", "words"), REFUSED)
def test_inputs_of_another_form_are_refused(trained: Any, inputs: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        trained[0].predict(inputs)


def test_sets_of_another_split_that_trained_the_model_are_told_of(trained: Any) -> None:
    """Their scores were given as any test set's: 36 of 40 rows may be ones that it has learnt."""
    model, split, dataset = trained
    other = cw.split(dataset, "ill", ["mark"], split_seed=3)
    trained_rows = set(split.train.rows.tolist())
    sentences = [
        f"set {name!r}: the model was trained on {len(trained_rows & set(rows.rows.tolist()))} of its"
        f" {len(rows)} rows"
        for name, rows in {**other.validation, **other.evaluation}.items()
    ]
    for evaluate in (model.evaluate, lambda rows: cw.evaluate(model, rows)):
        with pytest.warns(UserWarning) as warned:
            evaluate(other)
        assert [str(each.message).partition(",")[0] for each in warned] == sentences
    shifted = cw.split(dataset, "ill", ["mark"], cw.UnseenData("mark"))
    assert not trained_rows & set(shifted.evaluation["test"].rows.tolist())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "set 'validation'")
        model.evaluate(shifted)


def test_estimates_tell_of_labelled_rows_that_trained_the_model(trained: Any) -> None:
    """Training rows among them made the source, and so the estimates, too good without a word."""
    model, split, dataset = trained
    settings = {"label": "ill", "pool_rows": 0, "near_rows": 0, "estimators": ["cbpe"]}
    estimates = cw.estimate(model, dataset, dataset, **settings)
    n_trained = len(set(split.train.rows.tolist()))
    for field in ("labelled rows", "rows of data"):
        sentence = f"trained on {n_trained} of the {dataset.n_base} {field}"
        assert sum(sentence in note for note in estimates.notes) == 1
    fresh = cw.from_frame(patients(seed=3), label="ill", numbers=["x", "z"], columns=["mark"])
    assert "trained on" not in str(cw.estimate(model, fresh, fresh, **settings))


def test_files_that_hold_no_such_model_are_refused(trained: Any, tmp_path: Path) -> None:
    model, split, dataset = trained
    with pytest.raises(InputError, match=r"path: .*m.pt' must end in .safetensors"):
        model.save(tmp_path / "m.pt")
    with pytest.raises(InputError, match="there is no file"):
        cw.load_model(tmp_path / "none.safetensors")
    tuned = cw.train(
        "bn-adapt", *_pictures(), model="small-cnn", steps=2, validate_every=2, batch=8
    )
    with pytest.raises(InputError, match="a model of 'bn-adapt' answers in a way of its own"):
        tuned.save(tmp_path / "m.safetensors")


def _pictures() -> tuple[Any, Any]:
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (80, 8, 8, 3), dtype=np.uint8)
    dataset = cw.from_frame({"kind": ["a", "b"] * 40, "site": ["s", "s", "t", "t"] * 20}, images)
    return cw.split(dataset, "kind", ["site"]), dataset


def test_pictures_are_predicted_after_loading(tmp_path: Path) -> None:
    split, dataset = _pictures()
    model = cw.train("erm", split, dataset, model="small-cnn", steps=2, validate_every=2, batch=8)
    loaded = cw.load_model(model.save(tmp_path / "m.safetensors"))
    assert loaded.input == InputSpec.image(8, 8, 3)
    images = dataset.inputs(np.arange(7))
    np.testing.assert_allclose(loaded.predict_proba(images), model.predict_proba(images), atol=1e-6)


# -- estimators of scikit-learn --------------------------------------------------------------------


@pytest.fixture(scope="module")
def classifier() -> Any:
    from sklearn.linear_model import LogisticRegression

    table = patients(400, 1)
    return LogisticRegression().fit(table.select("x", "z").to_pandas(), table["ill"].to_list())


FORMS = {
    "pandas": lambda table: table.to_pandas(),
    "polars": lambda table: table,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_fitted_estimator_is_asked_on_frames(classifier: Any, form: str) -> None:
    columns = ["x", "z", "ill"]
    source, new = patients(300, 2).select(columns), patients(300, 3).select(columns)
    asked = cw.estimate(classifier, FORMS[form](new), FORMS[form](source), label="ill")
    right = classifier.predict(source.select("x", "z").to_pandas()) == source["ill"].to_numpy()
    assert asked.source_accuracy == pytest.approx(right.mean())
    truth = classifier.predict(new.select("x", "z").to_pandas()) == new["ill"].to_numpy()
    assert all(
        abs(row.estimate.accuracy - truth.mean()) < 0.1
        for row in asked.rows
        if "cot" not in row.estimator
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_arrays_and_data_sets_are_asked_too(classifier: Any) -> None:
    source, new = patients(300, 2), patients(300, 3)
    x = source.select("x", "z").to_numpy()
    asked = cw.estimate(classifier, new.select("x", "z").to_numpy(), (x, source["ill"].to_list()))
    frames = cw.estimate(
        classifier, new.select("x", "z"), source.select("x", "z", "ill"), label="ill"
    )
    assert [row.estimate for row in asked.rows] == [row.estimate for row in frames.rows]
    rows = [
        cw.from_frame(table, label="ill", numbers=["x", "z"], columns=[]) for table in (new, source)
    ]
    by_sets = cw.estimate(classifier, rows[0], rows[1], label="ill")
    assert (
        by_sets.source_accuracy == asked.source_accuracy and by_sets.model == "LogisticRegression"
    )


def test_what_a_program_gives_wrongly_is_one_sentence(classifier: Any) -> None:
    source, new = patients(60, 2), patients(60, 3).select("x", "z")
    cases: list[tuple[Any, Any, Any, dict[str, Any], str]] = [
        (classifier, new, source, {}, "label: is needed: the column of the source's labels"),
        (classifier, new, source, {"label": "il"}, "label: unknown column of the source 'il'"),
        (
            classifier,
            source.select("x"),
            None,
            {},
            "data: the frame of data lacks 1 of the 2 columns",
        ),
        ("m.onnx", new, source, {"label": "ill"}, "model: there is no file 'm.onnx'"),
        (classifier, new, [1], {"label": "ill"}, "source: must be a frame with a column of labels"),
        (lambda x: x, new, None, {}, "classes: are needed, in the order of the outputs"),
        (object(), new, None, {"classes": ["a", "b"]}, "model: object has no predict_proba"),
    ]
    for model, data, known, settings, words in cases:
        with pytest.raises(CrosswindError, match=words):
            cw.estimate(model, data, known, **settings)


def test_an_estimate_ends_in_what_it_cannot_see_and_how_to_look(classifier: Any) -> None:
    asked = cw.estimate(classifier, patients(5000, 3).select("x", "z").to_pandas())
    p = max((row.estimate.accuracy for row in asked.rows), key=lambda p: p * (1 - p))
    sample = 1.96**2 * max(p * (1 - p), 0.09) / 0.05**2
    assert asked.rows_to_check == math.ceil(sample / (1 + (sample - 1) / 5000))
    last = str(asked).splitlines()[-1]
    assert last.startswith("No estimate can see that inputs mean something else than they did")
    assert f"the labels of {asked.rows_to_check} of these 5,000 rows, drawn at random" in last
    few = cw.estimate(classifier, patients(20, 3).select("x", "z").to_pandas())
    assert few.rows_to_check <= 20


# -- a study for a frame ---------------------------------------------------------------------------


@pytest.mark.slow
def test_a_frame_is_proposed_a_study_and_run(tmp_path: Path) -> None:
    proposed = cw.init(patients(500, 4).to_pandas(), label="ill", out=tmp_path / "ill.yaml")
    assert "label 'ill': no " in str(proposed) and "'mark' goes with 'ill'" in str(proposed)
    assert "<li>" in proposed._repr_html_() and (tmp_path / "ill.parquet").is_file()
    settings = [
        "training.steps=4",
        "training.validate_every=2",
        "split_seeds=2",
        "methods={erm: {}}",
    ]
    results = cw.run_study(tmp_path / "ill.yaml", tmp_path / "out", settings=settings)
    assert results.summary.failed == 0 and len(results.rows) >= 4


@pytest.mark.slow
def test_a_frame_that_cannot_be_proposed_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="out: is needed for a frame"):
        cw.init(patients())
    with pytest.raises((InputError, DataError)):
        cw.init({"x": [1, 2, 3]}, out=tmp_path / "x.yaml")
    assert list(tmp_path.iterdir()) == []


CLASSIFIER = """
import numpy as np
from sklearn.linear_model import LogisticRegression

draw = np.random.default_rng(0)
size = np.repeat([2, 10], 100)
x = np.stack([size + draw.normal(0, 1, 200), draw.normal(0, 1, 200)], axis=1).astype("float32")
classifier = LogisticRegression().fit(x, size.astype(str))  # its classes are "10", "2"
"""


@pytest.mark.slow
def test_a_fitted_estimator_is_a_model_of_a_study(tmp_path: Path) -> None:
    """Its classes stand as texts do, those of the study as numbers do."""
    (tmp_path / "fitted.py").write_text(CLASSIFIER)
    draw = np.random.default_rng(1)
    size = np.repeat([2, 10], 80)
    columns = {
        "size": size,
        "site": ["s", "t"] * 80,
        "x": size + draw.normal(0, 1, 160),
        "z": draw.normal(0, 1, 160),
    }
    polars.DataFrame(columns).write_csv(tmp_path / "rows.csv")
    study = {
        "name": "fitted",
        "data": {
            "rows": {
                "source": "table",
                "options": {
                    "path": str(tmp_path / "rows.csv"),
                    "numbers": ["x", "z"],
                    "columns": ["size", "site"],
                },
                "label": "size",
                "attributes": ["site"],
            }
        },
        "shifts": {"none": []},
        "methods": {"erm": {}},
        "models": {
            "tabular": {},
            "fitted": {"model": "callable", "function": f"{tmp_path / 'fitted.py'}:classifier"},
        },
        "training": {"steps": 4, "validate_every": 2},
    }
    results = cw.run_study(study, tmp_path / "out")
    accuracy = {
        row["method"]: row["metrics"]["accuracy"] for row in results.rows if row["set"] == "test"
    }
    assert set(accuracy) == {"erm", "fitted"} and accuracy["fitted"] > 0.95


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            {"method": "groupdro", "eta": 0.1},
            "eta: is a setting of method 'groupdro'.*knobs={'eta': 0.1}",
        ),
        ({"hidden": 8}, "hidden: is a setting of model 'mlp'.*model={'name': 'mlp', 'hidden': 8}"),
        ({"eta": 0.1}, "eta: unknown setting of the training loop 'eta'"),
        ({"model": torch.nn.Linear(2, 2)}, "model: must be a name.*cw.evaluate scores a model of"),
        (
            {"model": {"model": "mlp"}},
            "model: must be a name, or a mapping with a 'name' and .*settings$",
        ),
    ],
)
def test_settings_in_another_argument_are_named_with_theirs(words: Any, sentence: str) -> None:
    split, dataset = _pictures()
    settings = {"method": "erm", "model": "mlp", "steps": 2, **words}
    with pytest.raises(InputError, match=sentence):
        cw.train(settings.pop("method"), split, dataset, **settings)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_without_finite_scores_are_refused(value: float, tmp_path: Path) -> None:
    """They were the first class, with probabilities NaN."""
    draw = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", draw.normal(size=(40, 3)))
    rows = polars.DataFrame({"kind": ["a", "b"] * 20, "site": ["s", "s", "t", "t"] * 10})
    rows.write_csv(tmp_path / "rows.csv")
    data = cw.load("features", path=str(tmp_path / "rows.csv"), features=str(tmp_path / "x.npy"))
    split = cw.split(data, "kind", ["site"], test=0.25)
    model = cw.train("erm", split, data, model="linear-probe", steps=2, validate_every=2)
    inputs = np.zeros((5, 3))
    assert len(model.predict(inputs)) == 5
    inputs[[1, 4], 2] = value
    for ask in (model.predict, model.predict_proba):
        with pytest.raises(InputError, match=r"no answer in row 2 \(1 more such row\).*holds NaN"):
            ask(inputs)
