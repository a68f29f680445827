"""Networks trained on columns of a table, numbers and categories: asked about other tables by the
names of their columns, from a program, a file of weights and a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
import yaml

import crosswind as cw
from crosswind.core.errors import CrosswindError, DataError, InputError
from crosswind.data.table_inputs import input_array

FEW = {"estimators": ["atc-mc"], "pool_rows": 0, "label": "ill"}
SITES = ["1", "2", "3"]
INPUTS: dict[str, Any] = {
    "numbers": ["age"],
    "categories": ["sex", "site", "smokes"],
    "columns": ["ill", "ward"],
}


def patients(seed: int, n: int = 400) -> polars.DataFrame:
    """Ill is whoever is old or a man, as a rule; the site is a category that looks like a
    number."""
    draw = np.random.default_rng(seed)
    sex = draw.choice(["female", "male"], n)
    age = draw.normal(50, 10, n).round(1)
    ill = np.where(age + 12 * (sex == "male") + draw.normal(0, 4, n) > 56, "yes", "no")
    site = draw.choice(SITES, n).astype(int)
    smokes = draw.random(n) < 0.5
    ward = draw.choice(["a", "b"], n)
    columns = {"age": age, "sex": sex, "site": site, "smokes": smokes, "ill": ill, "ward": ward}
    return polars.DataFrame(columns)


NEW, KNOWN = patients(1), patients(2)


@pytest.fixture(scope="module")
def trained() -> Any:
    dataset = cw.from_frame(KNOWN, label="ill", **INPUTS)
    split = cw.split(dataset, "ill", ["ward"], [], draw={"total": 200}, test=20)
    return cw.train("erm", split, dataset, model="tabular", steps=60, validate_every=30, seed=0)


@pytest.fixture(scope="module")
def saved(trained: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(trained.save(tmp_path_factory.mktemp("saved") / "net.safetensors"))


def rewritten(column: str, **new: Any) -> polars.DataFrame:
    """The new rows with the values of a category written otherwise."""
    texts = NEW[column].cast(polars.String).to_list()
    return NEW.with_columns(polars.Series(column, [new.get(text, text) for text in texts]))


@pytest.mark.slow
def test_columns_stand_in_the_card_and_are_read_by_their_names(trained: Any, saved: str) -> None:
    card = yaml.safe_load(Path(saved).with_suffix(".yaml").read_text(encoding="utf-8"))
    assert card["width"] == 8
    assert list(card["columns"].items()) == [
        ("age", "number"),
        ("sex", ["female", "male"]),
        ("site", SITES),
        ("smokes", ["false", "true"]),
    ]
    rows = cw.from_frame(NEW, label="ill", **INPUTS)
    answers = trained.predict_proba(rows)
    assert len(set(map(tuple, answers.round(6).tolist()))) > 100
    backwards = NEW.select(NEW.columns[::-1])
    few = NEW.head(3)  # rows that lack some values of the categories
    for model in (trained, cw.load_model(saved)):
        np.testing.assert_array_equal(model.predict_proba(backwards), answers)
        np.testing.assert_array_equal(model.predict_proba(NEW.to_pandas()), answers)
        np.testing.assert_allclose(model.predict_proba(few), answers[:3], atol=1e-6)


@pytest.mark.parametrize(
    "frame",
    [
        NEW.with_columns(polars.col("site").cast(polars.Float64)),  # as beside a missing one
        rewritten("smokes", true="True", false="False"),  # as pandas writes them
        rewritten("sex", male=" Male "),
    ],
    ids=["fractions", "capitals", "spaces"],
)
def test_another_spelling_of_a_value_is_the_value(trained: Any, frame: polars.DataFrame) -> None:
    np.testing.assert_array_equal(trained.predict_proba(frame), trained.predict_proba(NEW))


def test_two_values_that_differ_in_capitals_alone_stay_apart() -> None:
    frame = KNOWN.with_columns(
        polars.Series("sex", ["m" if row % 3 else "M" for row in range(KNOWN.height)])
    )
    dataset = cw.from_frame(frame, label="ill", **INPUTS)
    assert dataset.input_columns[1].values == ("M", "m")
    inputs = dataset.inputs(np.arange(6))
    assert inputs[:, 1:3].tolist() == [[1, 0], [0, 1], [0, 1], [1, 0], [0, 1], [0, 1]]


def test_a_value_that_training_had_not_counts_as_missing_and_is_told(
    trained: Any, saved: str
) -> None:
    odd = rewritten("site", **{"2": "9"})
    missing = NEW.with_columns(
        polars.when(polars.col("site") == 2).then(None).otherwise(polars.col("site")).alias("site")
    )
    row = NEW["site"].to_list().index(2) + 1
    n = NEW["site"].to_list().count(2)
    with pytest.warns(UserWarning, match=rf"^In {n} of 400 rows .* 'site' .* '9' in row {row}:"):
        answers = trained.predict_proba(odd)
    np.testing.assert_array_equal(answers, trained.predict_proba(missing))
    estimates = cw.estimate(saved, odd, KNOWN, **FEW)
    assert any(note.startswith(f"In {n} of 400 rows of the frame") for note in estimates.notes)


def test_a_category_without_a_value_in_training_reads_nothing() -> None:
    empty = KNOWN.with_columns(polars.lit(None, dtype=polars.String).alias("sex"))
    columns = cw.from_frame(empty, label="ill", **INPUTS).input_columns
    assert columns[1].values == ()
    inputs, notes = input_array(NEW, columns, "new.csv")
    assert inputs.shape == (400, 6)
    assert notes[0].startswith("In 400 of 400 rows of new.csv 'sex' has a value that the model was")


def test_tables_that_do_not_fit_are_one_sentence(saved: str) -> None:
    cases = [
        (NEW.drop("sex"), InputError, "lacks 1 of the 4 columns that net.safetensors reads, 'sex'"),
        (
            rewritten("sex", female="F", male="M"),
            DataError,
            f"row 1: {'F' if NEW['sex'][0] == 'female' else 'M'!r} is none of the values that the"
            " model was trained on, and no other row has one; write them as there: 'female',"
            " 'male'",
        ),
        (rewritten("age", **{str(NEW["age"][4]): "old"}), DataError, "'age', row 5: 'old' is no"),
        (
            NEW.with_columns(polars.Series("sex", [[1]] * NEW.height)),
            DataError,
            "'sex' holds list(int64) values, and a category needs text",
        ),
    ]
    for frame, kind, words in cases:
        with pytest.raises(CrosswindError) as error:
            cw.estimate(saved, frame, KNOWN, **FEW)
        assert isinstance(error.value, kind)
        assert words in str(error.value) and "\n" not in str(error.value), str(error.value)
    with pytest.raises(InputError, match="names 2, and net.safetensors reads 4 columns"):
        cw.estimate(saved, NEW, KNOWN, columns=["age", "sex"], **FEW)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"age": "number"}, "has columns of 1 inputs, and the width 8"),
        (["age"], "must have its columns by name"),
        ({"age": "text"}, "each 'number' or the list of the values of a category"),
    ],
)
def test_a_card_that_does_not_fit_is_one_sentence(
    saved: str, tmp_path: Path, columns: Any, words: str
) -> None:
    old = Path(saved)
    file = tmp_path / "net.safetensors"
    file.write_bytes(old.read_bytes())
    card = yaml.safe_load(old.with_suffix(".yaml").read_text(encoding="utf-8"))
    file.with_suffix(".yaml").write_text(yaml.safe_dump({**card, "columns": columns}))
    with pytest.raises(InputError, match="card of net.safetensors") as error:
        cw.load_model(file)
    assert words in str(error.value)


@pytest.mark.slow
def test_a_run_of_a_table_with_categories_is_asked_about_a_new_file(tmp_path: Path) -> None:
    KNOWN.write_csv(tmp_path / "known.csv")
    NEW.drop("ill").write_csv(tmp_path / "new.csv")
    study = {
        "name": "kept",
        "data": {
            "patients": {
                "source": "table",
                "options": {"path": str(tmp_path / "known.csv"), **INPUTS},
                "label": "ill",
                "attributes": ["ward"],
                "roles": {"test": 20},
            }
        },
        "shifts": {"none": []},
        "models": ["tabular"],
        "training": {"steps": 60, "validate_every": 30},
        "seeds": 1,
        "keep": "selected",
    }
    store = tmp_path / "out"
    key = cw.run_study(study, str(store)).rows[0]["key"]
    estimates = cw.estimate(f"{store}#{key}", str(tmp_path / "new.csv"), estimators=["atc-mc"])
    assert estimates.notes == ("Of new.csv it does not read 'ward'.",)
    assert 0.75 < estimates.rows[0].estimate.accuracy < 1


@pytest.mark.parametrize(
    "inputs",
    [
        {"numbers": ["age", "ill"]},
        {"numbers": ["age"], "categories": ["ill", "site"]},
        {"numbers": ["age", "ill"], "columns": ["ill", "site"]},
    ],
)
def test_a_label_is_no_input(inputs: Any, tmp_path: Path) -> None:
    """A model that reads the answer is right on every row, whatever shifts."""
    draw = np.random.default_rng(0)
    ill = draw.integers(0, 2, 80).tolist()
    frame = {"ill": ill, "site": list("AB") * 40, "age": draw.normal(50, 9, 80).tolist()}
    settings = {"columns": ["site"], **inputs}
    with pytest.raises(InputError, match="label: 'ill' is an input of the frame 'frame' too, so"):
        cw.split(cw.from_frame(frame, label="ill", **settings), "ill", ["site"])
    polars.DataFrame(frame).write_csv(tmp_path / "t.csv")
    options = {"path": str(tmp_path / "t.csv"), "columns": ["ill", "site"], **inputs}
    entry = {"source": "table", "options": options, "label": "ill", "attributes": ["site"]}
    study = {"data": {"t": entry}, "shifts": {"none": []}, "models": ["tabular"]}
    with pytest.raises(InputError, match=r"data\.t\.label: 'ill' is an input of .* leave it out"):
        cw.plan(study)
