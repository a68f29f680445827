"""Calls of `crosswind` with what a program might hand over by mistake: one sentence, and never
numbers of other rows or columns."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import skops.io
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import crosswind as cw
from crosswind.core.errors import InputError
from crosswind.unlabelled.features import features_of

N = 240


def patients(seed: int = 0, n: int = N) -> Any:
    draw = np.random.default_rng(seed)
    ill = draw.integers(0, 2, n)
    site = np.where(draw.random(n) < 0.7, ill, 1 - ill)
    return pandas.DataFrame(
        {
            "ill": np.where(ill, "yes", "no"),
            "site": np.where(site, "A", "B"),
            "age": draw.normal(50 + 8 * ill, 10),
            "dose": draw.normal(1.5 * ill, 1),
        }
    )


FRAME = patients()


def dataset(frame: Any = FRAME, **settings: Any) -> Any:
    inputs = {"numbers": ["age", "dose"], "columns": ["site"], **settings}
    return cw.from_frame(frame, label="ill", **inputs)


DATA = dataset()
SPLIT = cw.split(DATA, "ill", "site", cw.SpuriousCorrelation("site"), test=0.3)
SETTINGS: dict[str, Any] = {"model": "tabular", "steps": 4, "validate_every": 2}


def test_a_name_alone_is_a_list_of_one() -> None:
    listed = cw.split(DATA, "ill", ["site"], cw.SpuriousCorrelation("site"), test=0.3)
    assert np.array_equal(listed.train.rows, SPLIT.train.rows)
    grouped = cw.split(DATA, "ill", "site", groups="site", environments="site", test=0.3)
    assert (
        grouped.train.group_names
        == cw.split(DATA, "ill", ["site"], groups=["site"], test=0.3).train.group_names
    )
    assert dataset(numbers="age").input == dataset(numbers=["age"]).input
    assert dataset(columns="site").schema == DATA.schema
    assert "site" in str(cw.audit(FRAME, FRAME, "ill", columns="site", names="site"))


@pytest.mark.parametrize(
    ("make_data", "difference"),
    [
        (lambda: dataset(FRAME[:200]), "it has 200 rows, and that has 240; split it anew"),
        (lambda: dataset(FRAME[::-1]), "it has the same number of rows, and other attributes or"),
        (
            lambda: {DATA.name: dataset(FRAME[::-1])},
            "is not the frame 'frame', which was split: it",
        ),
        (lambda: {"mine": DATA}, "lacks the frame 'frame', of which the split has rows; give a"),
        (lambda: FRAME, "must be the data set that was split, not ill site"),
        (lambda: SPLIT, "must be the data set that was split, not split into 2 classes"),
    ],
)
def test_a_model_is_trained_on_the_data_that_were_split(make_data: Any, difference: str) -> None:
    with pytest.raises(InputError) as refused:
        cw.train("erm", SPLIT, make_data(), **SETTINGS)
    assert refused.value.field == "dataset" and difference in str(refused.value)


def test_the_same_rows_with_other_inputs_are_no_others() -> None:
    """Such as features of pictures that were split by their attributes."""
    same = dataset(FRAME.copy())
    assert same is not DATA
    trained = cw.train("erm", SPLIT, same, **SETTINGS)
    again = cw.train("erm", SPLIT, {DATA.name: DATA}, **SETTINGS)
    assert trained.evaluate() == again.evaluate()
    fewer = dataset(FRAME, numbers=["age"])
    assert cw.train("erm", SPLIT, fewer, **SETTINGS).input.shape == (1,)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: cw.split(FRAME, "ill", ["site"]), "dataset: must be a data set, not "),
        (lambda: cw.split("digits", "ill", ["site"]), "cw.load opens a source"),
        (lambda: cw.train("erm", DATA, SPLIT), "split: must be what cw.split returns, not "),
        (lambda: cw.train(SPLIT, DATA, "erm"), "split: must be what cw.split returns, not "),
        (lambda: cw.train(None, SPLIT, DATA), "method: must be the name of a method, not null"),
        (
            lambda: cw.train("erm", SPLIT, DATA, seed=-1),
            "seed: must be a whole number in [0, 2^62)",
        ),
        (lambda: cw.train("erm", SPLIT, DATA, seed=True), "seed: must be a whole number"),
        (lambda: cw.evaluate(LogisticRegression(), DATA), "split: must be what cw.split returns"),
    ],
)
def test_arguments_in_another_order_are_refused_by_name(call: Any, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        call()
    assert sentence in str(refused.value)


def test_no_rows_have_no_predictions() -> None:
    trained = cw.train("erm", SPLIT, DATA, **SETTINGS)
    for nothing in (FRAME[:0], {"age": [], "dose": []}, np.zeros((0, 2), dtype=np.float32)):
        with pytest.raises(InputError, match="inputs: have no rows"):
            trained.predict(nothing)


# -- estimators that were fitted on frames ---------------------------------------------------------


def test_a_fitted_estimator_is_given_its_own_columns_whatever_their_order() -> None:
    """By their places it was asked about age as dose, with the number of columns it expects."""
    scores = []
    for names in (["age", "dose"], ["dose", "age"]):
        fitted = LogisticRegression(C=1e6, max_iter=1000).fit(FRAME[names], FRAME["ill"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scores.append(cw.evaluate(fitted, SPLIT)["test"]["accuracy"])
        test = FRAME.iloc[SPLIT.evaluation["test"].rows]
        assert scores[-1] == pytest.approx(fitted.score(test[names], test["ill"]))
    assert scores[0] == pytest.approx(scores[1], abs=0.02) and scores[0] > 0.7


def test_a_pipeline_that_was_fitted_on_texts_is_given_them() -> None:
    pre = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["site"]), ("passthrough", ["dose", "age"])
    )
    fitted = make_pipeline(pre, LogisticRegression(max_iter=1000))
    fitted.fit(FRAME[["site", "age", "dose"]], FRAME["ill"])
    gaps = FRAME.assign(site=FRAME["site"].mask(FRAME.index % 40 == 0))
    for frame in (FRAME, gaps):
        data = dataset(frame, categories="site", columns=["ill"])
        split = cw.split(data, "ill", [], test=0.3)
        test = frame.iloc[split.evaluation["test"].rows]
        expected = fitted.score(test[["site", "age", "dose"]], test["ill"])
        assert cw.evaluate(fitted, split)["test"]["accuracy"] == pytest.approx(expected)


def test_a_column_that_the_data_have_not_is_named() -> None:
    fitted = LogisticRegression().fit(FRAME[["age", "dose"]], FRAME["ill"])
    split = cw.split(dataset(numbers="age"), "ill", "site", test=0.3)
    with pytest.raises(
        InputError,
        match="model: LogisticRegression reads 'dose', and the inputs of these data are the columns",
    ):
        cw.evaluate(fitted, split)


# -- columns of tables, found by their names -------------------------------------------------------


@pytest.mark.slow
def test_a_model_reads_its_own_columns_of_any_data_set(tmp_path: Path) -> None:
    """In another order every one of these gave other numbers, and estimates of 100%."""
    trained = cw.train("erm", SPLIT, DATA, model="tabular", steps=40, validate_every=20)
    trained.save(tmp_path / "m.safetensors")
    loaded = cw.load_model(tmp_path / "m.safetensors")
    with_weight = FRAME.assign(weight=1.0)
    swapped = dataset(with_weight, numbers=["weight", "dose", "age"])
    other_split = cw.split(swapped, "ill", "site", cw.SpuriousCorrelation("site"), test=0.3)
    expected = trained.evaluate()["test"]["accuracy"]
    assert expected > 0.7
    for scores in (
        trained.evaluate(other_split),
        loaded.evaluate(other_split),
        cw.evaluate(trained, other_split),
        cw.evaluate(loaded, other_split),
    ):
        assert scores["test"]["accuracy"] == expected
    for model in (trained, loaded):
        assert list(model.predict(swapped)) == list(model.predict(DATA))
    file = str(tmp_path / "m.safetensors")
    for model in (trained, loaded, file):
        estimates = [
            cw.estimate(model, data, source, label="ill", pool_rows=0)
            for data, source in ((DATA, DATA), (swapped, DATA), (swapped, swapped))
        ]
        accuracies = [
            [(row.estimator, row.estimate.accuracy) for row in of_data.rows]
            for of_data in estimates
        ]
        assert len(accuracies[0]) > 5
        assert accuracies[1] == accuracies[0] == accuracies[2]


def test_categories_are_found_by_their_values() -> None:
    """A value that training had not counts as missing, and is told."""
    frame = FRAME.assign(ward=["p", "q", "r"] * (N // 3))
    data = dataset(frame, categories=["ward"], columns=["ill"])
    split = cw.split(data, "ill", [], test=0.3)
    trained = cw.train("erm", split, data, model="tabular", steps=20, validate_every=10)
    fewer = frame[frame["ward"] != "q"].reset_index(drop=True)
    answers = trained.predict(dataset(fewer, categories=["ward"], columns=["ill"]))
    assert list(answers) == list(trained.predict(fewer))
    renamed = frame.assign(ward=frame["ward"].replace("p", "z"))
    with pytest.warns(UserWarning, match="values that the model was not trained on, such as 'z'"):
        answers = trained.predict(dataset(renamed, categories=["ward"], columns=["ill"]))
    with pytest.warns(UserWarning, match="such as 'z' in row 1"):
        assert list(answers) == list(trained.predict(renamed))


@pytest.mark.parametrize(
    ("make_data", "sentence"),
    [
        (
            lambda: dataset(FRAME.rename(columns={"dose": "weight"}), numbers=["age", "weight"]),
            "lacks 1 of the 2 columns that the model reads, 'dose'; it has 'age', 'weight'",
        ),
        (
            lambda: dataset(
                FRAME.assign(dose=["low", "high"] * (N // 2)), numbers="age", categories="dose"
            ),
            "the model reads 'dose' as numbers, and in the frame 'frame' it is a category",
        ),
    ],
)
def test_other_columns_are_refused(make_data: Any, sentence: str) -> None:
    trained = cw.train("erm", SPLIT, DATA, **SETTINGS)
    split = cw.split(make_data(), "ill", "site", test=0.3)
    for ask in (lambda: trained.predict(make_data()), lambda: cw.evaluate(trained, split)):
        with pytest.raises(InputError) as refused:
            ask()
        assert sentence in str(refused.value)


@pytest.mark.slow
def test_columns_that_a_person_names_are_as_many_as_the_model_reads() -> None:
    trained = cw.train("erm", SPLIT, DATA, **SETTINGS)
    renamed = dataset(FRAME.rename(columns={"dose": "mg"}), numbers=["mg", "age"])

    def asked(data: Any, columns: Any) -> list[float]:
        estimates = cw.estimate(trained, data, data, label="ill", columns=columns, pool_rows=0)
        return [row.estimate.accuracy for row in estimates.rows]

    assert asked(renamed, ["age", "mg"]) == asked(DATA, None) != []
    for columns, sentence in (
        ("age", "columns: names 1, and the model reads 2 numbers"),
        (["age", "mgg"], "columns: unknown column of the frame 'frame': 'mgg', did you mean 'mg'"),
    ):
        with pytest.raises(InputError, match=sentence):
            asked(renamed, columns)


def test_a_study_refuses_a_classifier_whose_columns_its_table_lacks(tmp_path: Path) -> None:
    """Before anything runs, and by name; the number of columns is the same."""
    fitted = LogisticRegression().fit(FRAME[["age", "dose"]], FRAME["ill"])
    skops.io.dump(fitted, tmp_path / "m.skops")
    for dose, refused in (("dose", False), ("mg", True)):
        frame = FRAME.rename(columns={"dose": dose})
        frame.to_csv(tmp_path / "t.csv", index=False)
        options = {"numbers": [dose, "age"], "columns": ["ill", "site"]}
        values = study(
            {"t": (tmp_path / "t.csv", options)},
            sets={"test": {"role": "test"}},
            models={"given": {"model": "skops", "path": str(tmp_path / "m.skops")}},
            methods={"erm": {}},
            selection=["last"],
        )
        values["data"]["t"]["attributes"] = ["site"]
        if not refused:
            assert cw.run_study(values, tmp_path / dose).rows[0]["metrics"]["accuracy"] > 0.7
            continue
        with pytest.raises(InputError, match="LogisticRegression reads 'dose', and the inputs of"):
            cw.run_study(values, tmp_path / dose)
        assert not (tmp_path / dose / "store.sqlite").exists()


def test_a_split_of_other_classes_is_refused() -> None:
    trained = cw.train("erm", SPLIT, DATA, **SETTINGS)
    renamed = dataset(FRAME.assign(ill=FRAME["ill"].replace("yes", "ill")))
    split = cw.split(renamed, "ill", "site", test=0.3)
    with pytest.raises(InputError, match="split: has the classes ill, no, and the model no, yes"):
        cw.evaluate(trained, split)


@pytest.mark.slow
def test_models_beside_and_features_read_their_own_columns_too(tmp_path: Path) -> None:
    swapped = dataset(numbers=["dose", "age"])
    other_split = cw.split(swapped, "ill", "site", cw.SpuriousCorrelation("site"), test=0.3)
    settings: dict[str, Any] = {"model": "tabular", "steps": 40, "validate_every": 20}
    first = cw.train("erm", SPLIT, DATA, **settings)
    files = {}
    for name, split, data in (("a", SPLIT, DATA), ("b", other_split, swapped)):
        files[name] = str(tmp_path / f"{name}.safetensors")
        cw.train("erm", split, data, seed=1, **settings).save(files[name])
    by_name = {
        name: cw.estimate(
            first, DATA, DATA, beside=file, label="ill", pool_rows=0, estimators="disagreement"
        )
        for name, file in files.items()
    }
    agreements = [of_file.rows[0].estimate.accuracy for of_file in by_name.values()]
    assert agreements[0] > 0.6 and agreements[1] == pytest.approx(agreements[0], abs=0.1)
    features = [features_of(files["a"], data).features for data in (DATA, swapped)]
    assert np.array_equal(*features)


# -- studies that test on another table ------------------------------------------------------------


def study(tables: dict[str, Any], **settings: Any) -> dict[str, Any]:
    data = {}
    for name, (path, options) in tables.items():
        data[name] = {
            "source": "table",
            "options": {"path": str(path), "columns": ["ill", "ward"], **options},
            "label": "ill",
            "attributes": ["ward"],
            "roles": {"test": 0.4},
        }
    return {
        "data": data,
        "shifts": {"none": []},
        "sizes": {"all": {"total": 60}},
        "sets": {
            "validation": {"role": "validation"},
            "test": {"role": "test"},
            "other": {"role": "test", "source": "there"},
        },
        "models": ["tabular"],
        "methods": ["erm"],
        "training": {"steps": 40, "validate_every": 20},
        "seeds": 1,
        "overlap": "allowed",
        **settings,
    }


def accuracies(values: dict[str, Any], out: Path) -> dict[str, float]:
    """By set, of the networks that were trained on `here`."""
    study_results = cw.run_study(values, out)
    return {
        row["set"]: row["metrics"]["accuracy"]
        for row in study_results.rows
        if row["data"] == "here" and row["rule"] == "last"
    }


@pytest.mark.slow
def test_a_study_tests_on_another_table_in_the_columns_of_the_one_that_trains(
    tmp_path: Path,
) -> None:
    """By their places age was read as dose."""
    for seed, name in enumerate(("here", "there")):
        frame = patients(seed).assign(ward=["p", "q"] * (N // 2))
        if name == "there":
            frame = frame.assign(weight=1.0)
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    here_table = (tmp_path / "here.csv", {"numbers": ["age", "dose"], "categories": ["site"]})
    other_table = tmp_path / "there.csv"
    same_columns = (other_table, here_table[1])
    swapped_columns = (other_table, {"numbers": ["weight", "dose", "age"], "categories": ["site"]})
    expected = accuracies(study({"here": here_table, "there": same_columns}), tmp_path / "same")
    assert expected["other"] > 0.7
    assert (
        accuracies(study({"here": here_table, "there": swapped_columns}), tmp_path / "swapped")
        == expected
    )
    # Training is the same run, and what was asked of the other table by its places is not taken.
    keys = [
        {
            (job.kind, job.labels.get("set")): job.key
            for job in cw.plan(study({"here": here_table, "there": table})).jobs
            if job.labels["data"] == "here"
        }
        for table in (same_columns, swapped_columns)
    ]
    assert keys[0]["fit", None] == keys[1]["fit", None]
    assert keys[0]["predict", "test"] == keys[1]["predict", "test"]
    assert keys[0]["predict", "other"] != keys[1]["predict", "other"]


def test_what_the_other_table_has_not_is_told(tmp_path: Path) -> None:
    frame = patients().assign(ward=["p", "q"] * (N // 2))
    frame.to_csv(tmp_path / "here.csv", index=False)
    frame.assign(site=frame["site"].replace("B", "C")).to_csv(tmp_path / "there.csv", index=False)
    options = {"numbers": ["age", "dose"], "categories": ["site"]}
    here_table = (tmp_path / "here.csv", options)
    planned = cw.plan(study({"here": here_table, "there": (tmp_path / "there.csv", options)}))
    warnings_of_values = [
        text for text in planned.warnings if "values that a model of data.here" in text
    ]
    assert len(warnings_of_values) == 1
    assert "such as 'C': they count as missing" in warnings_of_values[0]
    fewer = (tmp_path / "there.csv", {**options, "numbers": ["age"]})
    with pytest.raises(
        InputError, match=r"data\.there: .* lacks 1 column that a model of data\.here reads: dose"
    ):
        cw.plan(study({"here": here_table, "there": fewer}))


def test_an_input_that_is_no_attribute_is_said_to_be_one(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "here.csv", index=False)
    settings = {"numbers": ["age"], "categories": ["site"], "columns": ["ill"]}
    sentence = "'site' is an input of {} alone; name it in 'columns' too \\(valid: ill\\)"
    with pytest.raises(InputError, match=sentence.format("the frame 'frame'")):
        cw.split(dataset(**settings), "ill", ["site"])
    values = study({"here": (tmp_path / "here.csv", settings)}, sets={"test": {"role": "test"}})
    values["data"]["here"]["attributes"] = ["site"]
    with pytest.raises(InputError, match=rf"data\.here\.attributes: {sentence.format('here')}"):
        cw.plan(values)


@pytest.mark.slow
def test_columns_that_are_called_by_numbers_are_found_by_them(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    ill = draw.integers(0, 2, N)
    columns = [draw.normal(ill, 1), draw.normal(size=N), draw.integers(0, 2, N), ill]
    frame = pandas.DataFrame(np.column_stack(columns))
    data = cw.from_frame(frame, label=3, numbers=[0, 1], columns=[2])
    assert [column.name for column in data.input_columns] == ["0", "1"]
    split = cw.split(data, 3, [2], cw.SpuriousCorrelation("2"), test=0.3)
    named = cw.split(data, "3", ["2"], cw.SpuriousCorrelation("2"), test=0.3)
    assert np.array_equal(split.train.rows, named.train.rows)
    assert str(cw.audit(frame, frame, 3, columns=2)) == str(
        cw.audit(frame, frame, "3", columns="2")
    )
    study = cw.init(frame, label=3, out=tmp_path / "ill.yaml")
    assert "label '3'" in " ".join(study.notes)


def test_numbers_of_numpy_are_settings_and_seeds() -> None:
    numbers = {"steps": np.int64(4), "validate_every": np.int32(2), "lr": np.float32(0.5)}
    of_numpy = cw.train(
        "mixup",
        SPLIT,
        DATA,
        model="tabular",
        seed=np.int64(3),
        knobs={"alpha": np.float64(0.2)},
        **numbers,
    )
    plain = {"steps": 4, "validate_every": 2, "lr": 0.5}
    trained = cw.train("mixup", SPLIT, DATA, model="tabular", seed=3, knobs={"alpha": 0.2}, **plain)
    assert of_numpy.history[-1]["train"] == trained.history[-1]["train"]
    by_seed = [cw.split(DATA, "ill", "site", seed=seed, test=0.3) for seed in (1, np.int64(1))]
    assert np.array_equal(by_seed[0].train.rows, by_seed[1].train.rows)


@pytest.mark.parametrize("seed", ["1", 1.5, -1, True, None])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(InputError, match=r"seed: must be a whole number in \[0, 2\^62\), not"):
        cw.split(DATA, "ill", "site", seed=seed)
    with pytest.raises(InputError, match=r"split_seed: must be a whole number in"):
        cw.split(DATA, "ill", "site", split_seed=seed)


@pytest.mark.parametrize("rows", [DATA, FRAME, [1, 2]])
def test_a_model_is_evaluated_on_a_split(rows: Any) -> None:
    trained = cw.train("erm", SPLIT, DATA, **SETTINGS)
    with pytest.raises(InputError, match="split: must be what cw.split returns; `predict` takes"):
        trained.evaluate(rows)


DIGITS: dict[str, Any] = {
    "source": "digits",
    "label": "digit",
    "attributes": ["ink"],
    "roles": {"test": 4},
}


def study_of(**changes: Any) -> dict[str, Any]:
    training = {"steps": 4, "validate_every": 2}
    usual = {"data": {"d": DIGITS}, "shifts": {"none": []}, "models": ["mlp"], "seeds": 1}
    return {**usual, "training": training, **changes}


@pytest.mark.parametrize(
    ("of_python", "of_a_file"),
    [
        ({"seeds": np.int64(2)}, {"seeds": 2}),
        ({"seeds": range(2, 4)}, {"seeds": [2, 3]}),
        ({"seeds": (0, 5)}, {"seeds": [0, 5]}),
        ({"seeds": np.arange(2)}, {"seeds": [0, 1]}),
        ({"methods": ("erm", "mixup")}, {"methods": ["erm", "mixup"]}),
        ({"label_noise": np.float64(0.25)}, {"label_noise": 0.25}),
        (
            {"shifts": {"SC": cw.SpuriousCorrelation("ink", counterexamples=0.2)}},
            {
                "shifts": {
                    "SC": {
                        "type": "spurious-correlation",
                        "attribute": "ink",
                        "counterexamples": 0.2,
                    }
                }
            },
        ),
        (
            {"shifts": {"SC": [cw.SpuriousCorrelation("ink")]}},
            {"shifts": {"SC": [{"type": "spurious-correlation", "attribute": "ink"}]}},
        ),
        (
            {"training": {"steps": np.int64(4), "validate_every": 2, "lr": np.array([0.5, 0.25])}},
            {"training": {"steps": 4, "validate_every": 2, "lr": [0.5, 0.25]}},
        ),
    ],
)
def test_a_study_of_a_program_is_that_of_a_file(of_python: Any, of_a_file: Any) -> None:
    keys = [job.key for job in cw.plan(study_of(**of_python)).jobs]
    assert keys == [job.key for job in cw.plan(study_of(**of_a_file)).jobs]


def test_settings_are_a_list_a_text_or_a_mapping() -> None:
    keys = {
        tuple(job.key for job in cw.plan(study_of(), settings=settings).jobs)
        for settings in (["training.lr=0.5"], "training.lr=0.5", {"training.lr": np.float32(0.5)})
    }
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: cw.plan(None), "study: must be a study file, the name of a study, or its fields"),  # type: ignore[arg-type]
        (lambda: cw.plan([study_of()]), "study: must be a study file, the name of a study, or its"),  # type: ignore[arg-type]
        (lambda: cw.run_study(study_of(), None), "out: must be the folder of a store, not null"),  # type: ignore[arg-type]
        (
            lambda: cw.plan(study_of(data={"d": DATA})),
            "data.d: must be a mapping with source, label",
        ),
        (
            lambda: cw.plan(study_of(data={"d": {**DIGITS, "source": FRAME}})),
            "data.d: must be a mapping with source, label and attributes; source may be a data set",
        ),
    ],
)
def test_what_is_no_study_is_told_what_one_is(call: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()


# -- options that would not be heard ---------------------------------------------------------------

ARRAY = np.array([[0.2, 0.8], [0.6, 0.4]])
SCORE_TABLE = {"y": [0.2, 0.6], "n": [0.8, 0.4]}
FITTED = LogisticRegression().fit(FRAME[["age", "dose"]], FRAME["ill"])
TWO_SETS = FRAME.assign(split=["train", "test"] * (N // 2))


def batch_scores(x: Any) -> Any:
    return np.stack([x[:, 1], 1 - x[:, 1]], axis=1)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        *(
            (
                lambda options=options: cw.estimate(predictions=SCORE_TABLE, **options),
                f"{next(iter(options))}: means ",
            )
            for options in (
                {"columns": ["y"]},
                {"size": 32},
                {"text": "note"},
                {"images": "pictures"},
                {"settings": {"scale": "unit"}},
                {"beside_classes": [["y", "n"]]},
            )
        ),
        (
            lambda: cw.estimate(predictions=SCORE_TABLE, pool_rows=50),
            "pool_rows: is of rows that a model is asked about, and scores have none; leave it out",
        ),
        (
            lambda: cw.estimate(predictions=ARRAY, label="ill", classes=["y", "n"]),
            "label: names a column, and an array has none; its labels stand in the pair of source",
        ),
        (
            lambda: cw.estimate(FITTED, FRAME, size=32),
            "size: means the side of pictures, and the rows are a table's; leave it out",
        ),
        (lambda: cw.estimate(FITTED, FRAME, images="p"), "images: means the folder of pictures"),
        (
            lambda: cw.estimate(FITTED, FRAME, beside=["a.onnx"]),
            "beside: is of models beside, which",
        ),
        (
            lambda: cw.estimate(batch_scores, DATA, size=32, classes=["no", "yes"]),
            "size: means the side of pictures, and the estimates are of numbers; leave it out",
        ),
        (
            lambda: cw.estimate(batch_scores, DATA, text="ill", classes=["no", "yes"]),
            "text: means the columns of texts of a table, and the estimates are of numbers",
        ),
        (
            lambda: cw.estimate(batch_scores, DATA, settings={"batch": 1}, classes=["no", "yes"]),
            "settings: are of a model that a word names, and this one is a program's; leave it out",
        ),
        (
            lambda: cw.evaluate(FITTED, SPLIT, "nonsense"),
            "rule: is 'nonsense', and a model that is no trajectory has no rule; leave it out",
        ),
        (
            lambda: cw.audit(FRAME, FRAME, "ill", header=["a", "b", "c", "d"]),
            "header: names the columns of a CSV file without names, and both tables have theirs",
        ),
        (
            lambda: cw.audit(SPLIT, "test", header=["a"]),
            "header: is of two tables, and a split has its classes already; leave it out",
        ),
        (lambda: cw.audit(SPLIT, same="site"), "same: is of two tables, and a split has"),
        (
            lambda: cw.audit(FRAME, label="ill"),
            "target: is needed: the second table, of the rows that a model is for",
        ),
        (
            lambda: cw.audit(TWO_SETS, label="ill"),
            "a model is for; 'split' of the training table has 'train', 'test': hand over the rows of",
        ),
        (lambda: cw.audit(FRAME, "test", "ill"), "target: 'test' is no table by its name"),
    ],
)
def test_an_option_that_would_not_be_heard_is_refused(call: Any, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        call()
    assert sentence in str(refused.value)


def test_the_target_of_a_split_is_its_test_set() -> None:
    assert str(cw.audit(SPLIT)) == str(cw.audit(SPLIT, "test"))
    scores = cw.evaluate(FITTED, SPLIT)
    assert scores == cw.evaluate(FITTED, SPLIT, "best-id")


def test_a_data_set_in_memory_takes_no_settings(tmp_path: Path) -> None:
    dataset = cw.load("digits", size=8)
    entry = {"source": dataset, "label": "half", "attributes": ["ink"], "options": {"size": 16}}
    study = {"data": {"digits": entry}, "shifts": {"none": []}, "models": ["mlp"]}
    with pytest.raises(
        InputError, match=r"^data\.digits\.options: belongs to a source that is read"
    ):
        cw.plan(study)
    assert cw.plan({**study, "data": {"digits": {**entry, "options": {}}}}).runs


def test_sets_of_a_split_may_be_written_as_in_a_study() -> None:
    digits = cw.load("digits", size=8, one_size=True)
    red = {"type": "only", "attribute": "ink", "values": ["red"]}
    sets = {
        "validation": {"role": "validation", "law": "train"},
        "test": {"role": "test"},
        "red": {"role": "test", "law": red, "draw": 3},
    }
    report = cw.split(digits, "half", ["ink"], test=10, sets=sets).report
    rows = {name: entry["rows"] for name, entry in report["sets"].items()}
    assert (rows["test"], rows["red"]) == (60, 6)
    assert set(report["sets"]["red"]["cells"]) == {"half=0-4, ink=red", "half=5-9, ink=red"}


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        ([1], "sets: must be a mapping from name to set"),
        ({"test": 3}, "sets.test: must be a mapping such as {role: test}, not 3"),
        ({"test": {}}, "sets.test.role: is missing (valid: validation, test)"),
        (
            {"test": {"rol": "test"}},
            "sets.test.rol: unknown field of a set 'rol', did you mean 'role'?",
        ),
        ({"test": {"role": "test", "draw": "x"}}, "sets.test.draw: must be rows a cell"),
    ],
)
def test_sets_of_a_split_that_are_none_are_refused_by_name(sets: Any, says: str) -> None:
    with pytest.raises(InputError) as error:
        cw.split(cw.load("digits", size=8), "half", ["ink"], test=10, sets=sets)
    assert str(error.value).startswith(says)


@pytest.mark.parametrize(
    "call",
    [
        lambda labels: cw.split(DATA, labels, ["site"]),
        lambda labels: cw.from_frame(FRAME, label=labels),
        lambda labels: cw.from_frame(FRAME, label="ill", unit=labels),
        lambda labels: cw.init(FRAME, label=labels, out="study.yaml"),
        lambda labels: cw.estimate(FITTED, FRAME, FRAME, label=labels),
        lambda labels: cw.audit(FRAME, FRAME, labels),
    ],
)
def test_labels_in_place_of_the_name_of_their_column_are_refused(call: Any) -> None:
    for labels in (FRAME["ill"], FRAME["ill"].to_numpy(), ["ill", "site"]):
        with pytest.raises(
            InputError, match=r"(label|unit): is the name of a column, not .*name it"
        ):
            call(labels)


def test_a_column_of_several_levels_is_a_label() -> None:
    levels = pandas.MultiIndex.from_tuples([("a", "ill"), ("a", "site"), ("b", "age"), ("b", "mg")])
    frame = FRAME.set_axis(levels, axis=1)
    assert cw.from_frame(frame, label=("a", "ill")).table.names == ("('a', 'ill')",)


def test_bins_are_an_array_too() -> None:
    cuts = {"age": np.array([45, 55])}
    binned = cw.from_frame(FRAME, label="ill", numbers=["dose"], columns=["age"], bins=cuts)
    assert set(binned.attribute("age").values) == {"< 45", "45 to < 55", ">= 55"}


def test_scores_in_another_order_than_the_classes_are_told() -> None:
    """The scores of a function have no names, and those of the wrong class are as well formed."""
    model = LogisticRegression().fit(FRAME[["age", "dose"]].to_numpy(), FRAME["ill"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        right = cw.evaluate(lambda x: model.predict_proba(x), SPLIT)
    with pytest.warns(UserWarning, match="seems to have its outputs in another order") as told:
        turned = cw.evaluate(lambda x: model.predict_proba(x)[:, ::-1], SPLIT)
    assert turned["test"]["accuracy"] == pytest.approx(1 - right["test"]["accuracy"])
    assert "its scores are those of the first" in str(told[0].message)
    assert told[0].filename == __file__
