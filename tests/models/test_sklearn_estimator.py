"""Estimators of scikit-learn are trained under every shift by their own rule, as scikit-learn itself
trains them on the same rows, and kept in files without code."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
import torch
import yaml
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import ComplementNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import CrosswindError, InputError
from crosswind.core.types import InputSpec
from crosswind.data.derive import evaluation_inputs
from crosswind.models.build import build_model, make_backbone
from crosswind.models.networks.sklearn_estimator import (
    FittedClassifier,
    SklearnEstimator,
    _unpacked,
)

FOREST = "sklearn.ensemble.RandomForestClassifier"
LOGISTIC = "sklearn.linear_model.LogisticRegression"
BOOSTED = "sklearn.ensemble.HistGradientBoostingClassifier"
TREE = "sklearn.tree.DecisionTreeClassifier"


def patients(n: int = 600, missing: float = 0.0) -> cw.AttributedDataset:
    """An illness that goes with two numbers and nine times in ten with a site, which a third number
    tells."""
    draw = np.random.default_rng(0)
    ill = draw.integers(0, 2, n)
    site = np.where(draw.random(n) < 0.9, ill, 1 - ill)
    age = 40 + 10 * ill + draw.normal(0, 8, n)
    dose = 0.001 * ill + draw.normal(0, 0.001, n)
    age[draw.random(n) < missing] = np.nan
    frame = {
        "ill": np.array(["no", "yes"])[ill],
        "site": np.array(["east", "west"])[site],
        "age": age,
        "dose": dose,
        "room": site * 3 + draw.normal(0, 0.5, n),
    }
    return cw.from_frame(frame, label="ill", numbers=["age", "dose", "room"])


SC = cw.SpuriousCorrelation("site", strength=0.8)


def split_of(dataset: cw.AttributedDataset, **settings: Any) -> Any:
    return cw.split(dataset, "ill", ["site"], SC, test=15, **settings)


def inputs_of(dataset: cw.AttributedDataset, rows: Any) -> np.ndarray[Any, Any]:
    return evaluation_inputs(dataset, rows.rows)


def model_of(estimator: str, **settings: Any) -> dict[str, Any]:
    return {"name": "sklearn", "estimator": estimator, **settings}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "theirs"),
    [
        (LOGISTIC, make_pipeline(StandardScaler(), SimpleImputer(strategy="median", add_indicator=True), LogisticRegression())),
        (BOOSTED, make_pipeline(StandardScaler(), HistGradientBoostingClassifier())),
    ],
)  # fmt: skip
@pytest.mark.parametrize("sampler", ["uniform", "balanced"])
def test_it_answers_as_scikit_learn_does_on_the_same_rows(
    estimator: str, theirs: Any, sampler: str
) -> None:
    dataset = patients(missing=0.1)
    split = split_of(dataset, sampler=sampler)
    assert np.isnan(inputs_of(dataset, split.train)).any()
    trained = cw.train("erm", split, dataset, model=model_of(estimator))
    weights = np.asarray(split.train.weight, dtype=np.float64)
    last = theirs.steps[-1][0]
    weighted = {} if sampler == "uniform" else {f"{last}__sample_weight": weights / weights.mean()}
    assert (weights.std() > 1e-9) == (sampler == "balanced")
    theirs.fit(inputs_of(dataset, split.train), split.train.label, **weighted)
    test = inputs_of(dataset, split.evaluation["test"])
    ours = trained.predict_proba(test)
    np.testing.assert_allclose(ours, theirs.predict_proba(test), atol=2e-6)
    assert len(np.unique(ours)) > 20
    answers = np.array(["no", "yes"])[theirs.predict(test)]
    assert (trained.predict(test) == answers).all()
    right = theirs.predict(test) == split.evaluation["test"].label
    assert trained.evaluate()["test"]["accuracy"] == pytest.approx(right.mean())


@pytest.mark.parametrize("sampler", ["uniform", "balanced"])
def test_jtt_fits_twice_and_weighs_what_the_first_fit_got_wrong(sampler: str) -> None:
    dataset = patients()
    split = split_of(dataset, sampler=sampler)
    knobs = {"up": 3}
    trained = cw.train("jtt", split, dataset, model=model_of(LOGISTIC), knobs=knobs)
    x, label = inputs_of(dataset, split.train), split.train.label
    weights = np.asarray(split.train.weight, dtype=np.float64)
    theirs = make_pipeline(StandardScaler(), LogisticRegression())
    theirs.fit(x, label, logisticregression__sample_weight=weights / weights.mean())
    wrong = theirs.predict(x) != label
    assert 0 < wrong.sum() < len(label) / 2
    weights = weights * np.where(wrong, 3, 1)
    theirs.fit(x, label, logisticregression__sample_weight=weights / weights.mean())
    test = inputs_of(dataset, split.evaluation["test"])
    np.testing.assert_allclose(trained.predict_proba(test), theirs.predict_proba(test), atol=2e-6)
    plain = cw.train("erm", split, dataset, model=model_of(LOGISTIC))
    assert np.abs(trained.predict_proba(test) - plain.predict_proba(test)).max() > 0.02


@pytest.mark.slow
def test_jtt_with_a_forest_says_that_no_row_is_wrong() -> None:
    dataset = patients()
    trained = cw.train("jtt", split_of(dataset), dataset, model=model_of(FOREST))
    assert any("got no training row wrong, so this run is ERM" in text for text in trained.warnings)


@pytest.mark.slow
def test_seeds_are_the_run_s_and_weights_hold_the_estimator(tmp_path: Path) -> None:
    dataset = patients()
    split = split_of(dataset)
    test = inputs_of(dataset, split.evaluation["test"])
    settings = {"settings": {"n_estimators": 20}}
    answers = [
        cw.train("erm", split, dataset, model=model_of(FOREST, **settings), seed=seed)
        for seed in (0, 0, 1)
    ]
    first, again, other = (trained.predict_proba(test) for trained in answers)
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    file = answers[0].save(tmp_path / "forest.safetensors")
    loaded = cw.load_model(file)
    assert np.array_equal(loaded.predict_proba(test), first)
    assert loaded.classes_.tolist() == ["no", "yes"]


def test_a_class_that_training_lacks_is_never_answered() -> None:
    model = build_model("sklearn", {"estimator": TREE}, InputSpec.features(2), ("a", "b", "c"), 0)
    x = torch.tensor([[0.0, 1], [1, 0], [0, 2], [2, 0]])
    assert model(x).tolist() == [[0.0] * 3] * 4  # not fitted
    head: Any = model.head
    head.fit_rows_once(x, torch.tensor([0, 2, 0, 2]), None)
    assert model(x).argmax(1).tolist() == [0, 2, 0, 2]
    assert model(x)[:, 1].tolist() == pytest.approx([np.log(1e-12)] * 4)
    copy = build_model("sklearn", {"estimator": TREE}, InputSpec.features(2), ("a", "b", "c"), 0)
    copy.load_state_dict(model.state_dict())
    assert torch.equal(copy(x), model(x)) and copy.state_dict()["fc.classes"].tolist() == [0, 2]


@pytest.mark.parametrize(
    "estimator",
    [
        "sklearn.svm.LinearSVC",  # a decision function, two classes: one column
        "sklearn.linear_model.RidgeClassifier",
        "sklearn.linear_model.Perceptron",
        "sklearn.neighbors.KNeighborsClassifier",  # no weights of rows
        "sklearn.naive_bayes.GaussianNB",
        "sklearn.ensemble.ExtraTreesClassifier",
        "sklearn.discriminant_analysis.LinearDiscriminantAnalysis",
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_whatever_an_estimator_answers_by_the_largest_logit_is_its_class(
    estimator: str, n_classes: int
) -> None:
    draw = np.random.default_rng(0)
    labels = torch.from_numpy(draw.integers(0, n_classes, 90))
    x = (
        labels[:, None] * torch.tensor([2.0, -1.0]) + torch.from_numpy(draw.normal(0, 0.6, (90, 2)))
    ).float()
    names = tuple("abc"[:n_classes])
    model = build_model("sklearn", {"estimator": estimator}, InputSpec.features(2), names, 0)
    head: Any = model.head
    head.fit_rows_once(x, labels, None)
    logits = model(x)
    fitted = head._fitted()
    assert torch.isfinite(logits).all() and logits.shape == (90, n_classes)
    assert (logits.argmax(1).numpy() == fitted.predict(x.numpy())).all()
    assert (logits.argmax(1) == labels).float().mean() > 0.7
    if hasattr(fitted, "predict_proba"):
        torch.testing.assert_close(
            logits.softmax(1),
            torch.from_numpy(fitted.predict_proba(x.numpy())).float(),
            atol=1e-5,
            rtol=0,
        )


PROGRAM = """
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import ComplementNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

def squares():
    return make_pipeline(PolynomialFeatures(2), LogisticRegression(max_iter=500))
"""


def table_and_study(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    lines = ["age,dose,site,ill"]
    for _ in range(400):
        ill = draw.integers(0, 2)
        site = ill if draw.random() < 0.85 else 1 - ill
        age = "" if draw.random() < 0.05 else f"{40 + 9 * ill + draw.normal(0, 6):.1f}"
        lines.append(f"{age},{2 * site + draw.normal():.3f},{'ew'[site]},{['no', 'yes'][ill]}")
    (folder / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    (folder / "squares.py").write_text(PROGRAM, encoding="utf-8")
    study = {
        "data": {
            "p": {
                "source": "table",
                "options": {
                    "path": "t.csv",
                    "numbers": ["age", "dose"],
                    "columns": ["site", "ill"],
                },
                "label": "ill",
                "attributes": ["site"],
                "roles": {"test": 10, "validation": 0.2},
            }
        },
        "shifts": {
            "none": [],
            "SC": {"type": "spurious-correlation", "attribute": "site", "strength": 0.7},
        },
        "groups": ["site"],
        "models": {
            "tabular": {},
            "sklearn": {"settings": {"max_iter": 20}},
            "squares": {"model": "sklearn", "estimator": "squares", "file": "squares.py"},
        },
        "methods": {"erm": {}, "groupdro": {"models": ["tabular"]}},
        "training": {"steps": 20, "batch": 32, "validate_every": 10},
        "keep": "selected",
        "seeds": 1,
    }
    file = folder / "study.yaml"
    file.write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")
    return file


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_study_trains_estimators_beside_networks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = table_and_study(tmp_path)
    out = tmp_path / "out"
    run = ["run", str(file), "--out", str(out), "--workers", "1"]

    def runs_done() -> int:
        status = _status(run)
        outcome = capsys.readouterr()
        assert status == 0, outcome.err
        first_runs = re.search(r"^(\d+) runs in ", outcome.out, flags=re.M)
        return int(first_runs[1]) if first_runs else 0

    assert runs_done() == 8
    answers = str(cw.report(out))
    assert all(f"  {model}: " in answers for model in ("tabular", "sklearn", "squares"))
    assert runs_done() == 0
    # Another program is another model: its two runs are done, and no others.
    (tmp_path / "squares.py").write_text(PROGRAM.replace("(2)", "(3)"), encoding="utf-8")
    assert runs_done() == 2


NO = {
    "estimator": [
        ({"estimator": "os.system"}, "is no classifier"),
        ({"estimator": "subprocess.Popen"}, "is no classifier"),
        ({"estimator": "sklearn.linear_model.LinearRegression"}, "is no classifier"),
        ({"estimator": "sklearn.cluster.KMeans"}, "is no classifier"),
        ({"estimator": "RandomForestClassifier"}, "cannot be imported"),
        ({"estimator": "sklearn.ensemble.Forest"}, "cannot be imported"),
        ({"estimator": "no_such_package.Forest"}, "cannot be imported"),
        ({"estimator": "mine.py:make"}, "file: mine.py, estimator: make"),
        ({"estimator": "fitted.skops"}, r"skops: \{path: fitted.skops\}"),
        ({"estimator": "nothing", "file": "squares.py"}, "there is no function 'nothing'"),
    ],
    "settings.trees": [({"estimator": FOREST, "settings": {"trees": 3}}, "valid: bootstrap")],
    "settings": [({"estimator": FOREST, "settings": {"n_estimators": "x"}}, "must be an int")],
    "file": [({"estimator": "squares", "file": "elsewhere.py"}, "there is no file")],
}


@pytest.mark.parametrize(
    ("knob", "settings", "words"),
    [(knob, *case) for knob, cases in NO.items() for case in cases],
)
def test_what_is_no_classifier_is_refused_before_anything_runs(
    knob: str, settings: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "squares.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    dataset = patients(200)
    split = split_of(dataset)
    with pytest.raises(InputError, match=words) as refusal:
        cw.train("erm", split, dataset, model={"name": "sklearn", **settings})
    assert refusal.value.field == f"model.{knob}"


def test_methods_that_descend_and_estimators_without_weights_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = table_and_study(tmp_path)
    study = yaml.safe_load(file.read_text(encoding="utf-8"))
    nearest = {"model": "sklearn", "estimator": "sklearn.neighbors.KNeighborsClassifier"}
    for changes, words in (
        ({"methods": {"erm": {}, "irm": {}}}, "'sklearn' is fitted at once by a rule of its own"),
        (
            {"models": {"near": nearest}, "sampler": "balanced", "methods": ["erm"]},
            "takes no weights of rows",
        ),
        (
            {"methods": {"erm": {}, "groupdro": {}}},
            "erm, jtt; sampler: balanced weighs its groups)",
        ),
        ({"models": {"near": nearest}, "methods": {"erm": {}, "jtt": {}}}, "gives them some; name"),
        ({"models": {"near": {**nearest, "name": "sklearn"} | {"model": None}}}, "models.near"),
        ({"models": {"near": {"name": "sklearn"}}}, "is written near: {model: sklearn}"),
    ):
        file.write_text(yaml.safe_dump({**study, **changes}), encoding="utf-8")
        assert _status(["plan", str(file)]) == 2
        assert words in capsys.readouterr().err
    file.write_text(yaml.safe_dump({**study, "models": {"near": nearest}, "methods": ["erm"]}))
    assert _status(["plan", str(file)]) == 0


# -- texts -----------------------------------------------------------------------------------------


def reviews(n: int = 400) -> cw.AttributedDataset:
    """Good and bad reviews, with a word that nine of ten of a kind have, and one that only its row
    has; some with letters of more than one byte."""
    draw = np.random.default_rng(0)
    good = draw.integers(0, 2, n)
    shop = np.where(draw.random(n) < 0.9, good, 1 - good)
    texts = []
    for row in range(n):
        word = ("bad", "good")[good[row] if draw.random() < 0.8 else draw.integers(0, 2)]
        texts.append(f"row{row} a {word} café from the {('west', 'east')[shop[row]]} side")
    frame = {
        "opinion": np.array(["bad", "good"])[good],
        "shop": np.array(["west", "east"])[shop],
        "text": texts,
    }
    return cw.from_frame(frame, label="opinion", text="text")


@pytest.mark.parametrize(
    ("words", "theirs"),
    [(None, TfidfVectorizer()), ({"ngram_range": [1, 2]}, TfidfVectorizer(ngram_range=(1, 2)))],
)
def test_words_of_texts_are_those_of_the_training_rows(
    tmp_path: Path, words: dict[str, Any] | None, theirs: TfidfVectorizer
) -> None:
    dataset = reviews()
    split = cw.split(dataset, "opinion", ["shop"], cw.SpuriousCorrelation("shop", 0.8), test=10)
    trained = cw.train("erm", split, dataset, model=model_of(LOGISTIC, words=words))
    pipeline = make_pipeline(theirs, LogisticRegression())
    train, test = (inputs_of(dataset, rows) for rows in (split.train, split.evaluation["test"]))
    pipeline.fit(list(train), split.train.label)
    assert len(set(theirs.vocabulary_) & {f"row{row}" for row in range(400)}) == len(train)
    expected = pipeline.predict_proba(list(test))
    np.testing.assert_allclose(trained.predict_proba(test), expected, atol=2e-6)
    assert len(np.unique(expected)) > 4
    loaded = cw.load_model(trained.save(tmp_path / "words.safetensors"))
    assert np.array_equal(loaded.predict_proba(test), trained.predict_proba(test))


def test_texts_become_numbers_and_texts_again() -> None:
    texts = np.array(["", "one", "sevenby", "sevenby+", "caf\u00e9 \U0001f600 " * 9], dtype=object)
    encoder = SklearnEstimator(estimator=LOGISTIC, text_bytes=20).encoder(InputSpec.text(), 0)
    assert encoder is not None
    tokens = encoder.apply(texts)
    assert tokens.shape == (5, 3) and tokens.dtype == np.int64 and tokens.min() == 0
    assert tokens.max() < encoder.input.vocabulary and not tokens[0].any()
    assert _unpacked(tokens) == [
        *texts[:4],
        "caf\u00e9 \U0001f600 caf\u00e9 ",
    ]  # the last begins at byte 18


PIPELINE = """
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import ComplementNB
from sklearn.naive_bayes import ComplementNB
from sklearn.pipeline import make_pipeline

def counted():
    return make_pipeline(CountVectorizer(), ComplementNB())
"""


def test_a_pipeline_that_reads_texts_is_given_them(tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text(PIPELINE, encoding="utf-8")
    dataset = reviews()
    split = cw.split(dataset, "opinion", ["shop"], cw.SpuriousCorrelation("shop", 0.8), test=10)
    model = model_of("counted", file=str(tmp_path / "counted.py"))
    trained = cw.train("erm", split, dataset, model=model)
    test = inputs_of(dataset, split.evaluation["test"])
    theirs = make_pipeline(CountVectorizer(), ComplementNB())
    theirs.fit(list(inputs_of(dataset, split.train)), split.train.label)
    expected = theirs.predict_proba(list(test))
    np.testing.assert_allclose(trained.predict_proba(test), expected, atol=2e-6)


def test_an_estimator_that_reads_no_words_is_refused_by_name() -> None:
    dataset = reviews(200)
    split = cw.split(dataset, "opinion", ["shop"], cw.SpuriousCorrelation("shop", 0.8), test=5)
    refusals = (
        (
            "model.estimator",
            {"estimator": BOOSTED},
            "HistGradientBoostingClassifier takes no sparse",
        ),
        ("model.words.grams", {"estimator": LOGISTIC, "words": {"grams": 2}}, "valid: analyzer"),
        ("model.words", {"estimator": LOGISTIC, "words": {"max_df": -3}}, "TfidfVectorizer takes"),
    )
    for field, settings, words in refusals:
        with pytest.raises(InputError, match=words) as refusal:
            cw.train("erm", split, dataset, model={"name": "sklearn", **settings})
        assert refusal.value.field == field
    tokens = InputSpec.tokens(5, 100)
    with pytest.raises(InputError, match=r"reads words, and these are texts of 5 tokens"):
        make_backbone("sklearn", {"estimator": LOGISTIC}, tokens)


# -- fitted ones in files --------------------------------------------------------------------------


def fitted(dataset: cw.AttributedDataset) -> tuple[Any, np.ndarray[Any, Any]]:
    x = evaluation_inputs(dataset, np.arange(dataset.n_rows))
    names = np.array(dataset.attribute("ill").values)[dataset.table.column("ill")]
    return RandomForestClassifier(5, random_state=0).fit(x, names), x


def test_a_skops_file_answers_as_what_was_written(tmp_path: Path) -> None:
    from crosswind.models.given.skops_file import SkopsFile

    dataset = patients(300)
    forest, x = fitted(dataset)
    skops.io.dump(forest, tmp_path / "forest.skops")
    split = split_of(dataset)
    model = SkopsFile(str(tmp_path / "forest.skops"))
    model.fits(dataset.check_inputs(), ("no", "yes"))
    rows = split.evaluation["test"]
    answer, logits = model.answer(rows, dataset, ("no", "yes"))[:2]
    assert logits is not None
    assert (np.array(["no", "yes"])[answer] == forest.predict(x[rows.rows])).all()
    np.testing.assert_allclose(np.exp(logits), forest.predict_proba(x[rows.rows]), atol=1e-6)
    with pytest.raises(InputError, match="was fitted on 3 columns, and these rows have 2"):
        model.fits(InputSpec.features(2), ("no", "yes"))
    with pytest.raises(CrosswindError, match="has the classes"):
        model.fits(dataset.check_inputs(), ("no", "maybe"))


class Theirs(DecisionTreeClassifier):  # type: ignore[misc]
    """A class of somebody else's code."""


def test_files_that_could_run_code_are_refused(tmp_path: Path) -> None:
    from crosswind.models.given.skops_file import SkopsFile

    dataset = patients(100)
    spec = dataset.check_inputs()
    x = evaluation_inputs(dataset, np.arange(dataset.n_rows))
    labels = np.array(["no", "yes"])[np.arange(100) % 2]
    file = tmp_path / "theirs.skops"
    skops.io.dump(Theirs().fit(x, labels), file)
    with pytest.raises(InputError, match=r"could run code of others: tests\.models\S*Theirs"):
        SkopsFile(str(file)).fits(spec, ("no", "yes"))
    SkopsFile(str(file), trusted=["tests"]).fits(spec, ("no", "yes"))
    file.write_bytes(pickle.dumps(DecisionTreeClassifier().fit(x, labels)))
    with pytest.raises(InputError, match="is a pickle, which runs whatever code it holds"):
        SkopsFile(str(file)).fits(spec, ("no", "yes"))
    file.write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(InputError, match="cannot be read by skops"):
        SkopsFile(str(file)).fits(spec, ("no", "yes"))


def test_the_weights_of_a_run_are_read_without_code() -> None:
    head = FittedClassifier(
        {"estimator": TREE, "settings": None, "scale": True, "file": None}, 0, 2
    )
    x = np.random.default_rng(0).normal(size=(20, 2))
    theirs = Theirs().fit(x, np.arange(20) % 2)
    head.document = torch.frombuffer(bytearray(skops.io.dumps(theirs)), dtype=torch.uint8)
    head.classes = torch.arange(2)
    with pytest.raises(InputError, match="could run code of others"):
        head(torch.zeros(1, 2))
