"""Texts and features go the way of images: shift, split, training, evaluation, report; and what
does not fit is one sentence."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from tests.data.digit_files import real_data
from tests.studies.plans import of_kind

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import CrosswindError, InputError, NeedsError
from crosswind.execution.jobs import GIVEN
from crosswind.storage.predictions_file import run_predictions
from crosswind.storage.store import Store
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

SETTINGS: dict[str, Any] = {
    "training": {"steps": 60, "validate_every": 20, "batch": 32, "lr": 0.02},
    "seeds": 1,
}
PRAISE, BLAME = ("good great fine lovely fun", "bad poor awful dull broken")


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 texts of two domains, whose words tell the label for four words in five."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("reviews")
    label, domain = np.arange(400) % 2, np.arange(400) // 2 % 2
    texts = []
    for row in range(400):
        words = [
            str(rng.choice((PRAISE if (rng.random() < 0.8) == label[row] else BLAME).split()))
            for _ in range(9)
        ]
        texts.append(
            f"The {'book' if domain[row] else 'film'} number {row} was {', '.join(words)}."
        )
    table = polars.DataFrame(
        {"text": texts, "label": label, "domain": np.where(domain == 1, "books", "films")}
    )
    table.write_parquet(folder / "reviews.parquet")
    return folder / "reviews.parquet"


def on_texts(path: Path, **changes: Any) -> dict[str, Any]:
    data = {
        "source": "texts",
        "options": {"path": str(path)},
        "label": "label",
        "attributes": ["domain"],
    }
    return {
        "name": "reviews",
        "data": {"reviews": {**data, "roles": {"test": 20, "validation": 0.2}}},
        "shifts": {
            "none": [],
            "sc": {"type": "spurious-correlation", "attribute": "domain", "counterexamples": 0.1},
        },
        "sizes": {"all": {"total": 120}},
        "models": {"bag-of-words": {"buckets": 2048, "words": 32}},
        "methods": ["erm", "groupdro", "irm"],
        **SETTINGS,
        **changes,
    }


def scores(study_results: Any, model: str) -> dict[tuple[str, str], float]:
    rows = [
        row
        for row in study_results.rows
        if row["set"] == "test" and row["rule"] == "best-id" and row["model"] == model
    ]
    return {(row["shift"], row["method"]): row["metrics"]["accuracy"] for row in rows}


@pytest.mark.slow
def test_texts_are_learnt_and_what_is_not_trained_reads_strings(
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "rules_of_words.py").write_text(
        "def praised(texts):\n    assert isinstance(texts, list) and all(isinstance(text, str) for"
        f" text in texts)\n    return [int(sum(w in t for w in {PRAISE.split()}) > sum(w in t for w"
        f" in {BLAME.split()})) for t in texts]\n"
    )
    models = {
        **on_texts(reviews)["models"],
        "rule": {"model": "callable", "function": "rules_of_words:praised"},
    }
    study_results = cw.run_study(on_texts(reviews, models=models), tmp_path / "out")
    assert study_results.summary.finished == 2 * 4 and not study_results.summary.failed
    accuracy = scores(study_results, "bag-of-words")
    assert (
        accuracy["none", "erm"] > 0.85
        and accuracy["none", "groupdro"] > 0.85
        and accuracy["none", "rule"] > 0.85
    )
    assert {method for _, method in accuracy} == {"erm", "groupdro", "irm", "rule"}
    assert _status(["report", str(tmp_path / "out"), "--page", str(tmp_path / "page.html")]) == 0
    again = cw.run_study(on_texts(reviews), tmp_path / "again")
    assert {key: value for key, value in accuracy.items() if key[1] != "rule"} == scores(
        again, "bag-of-words"
    )


@pytest.mark.slow
def test_reviews_of_twelve_domains_are_learnt_under_a_shift(tmp_path: Path) -> None:
    """Real reviews: the sentiment is learnt, and a correlation with the domain costs accuracy."""
    table = polars.read_parquet(real_data("fdu_mtl_12domains.parquet")).filter(
        polars.col("domain").is_in(["books", "dvd"])
    )
    table.drop("split").write_parquet(tmp_path / "reviews.parquet")
    study = on_texts(
        tmp_path / "reviews.parquet",
        models=["bag-of-words"],
        methods=["erm"],
        sizes={"all": {"total": 1400}},
    )
    study["shifts"]["sc"]["counterexamples"] = 0.01
    study["data"]["reviews"]["roles"] = {"test": 150, "validation": 0.15}
    study["training"] = {"steps": 150, "validate_every": 50, "batch": 64, "lr": 0.01}
    accuracy = scores(cw.run_study(study, tmp_path / "out"), "bag-of-words")
    assert accuracy["none", "erm"] > 0.7 > accuracy["sc", "erm"] + 0.02


@pytest.mark.slow
def test_edits_of_texts_are_values_of_an_attribute(reviews: Path, tmp_path: Path) -> None:
    study = on_texts(
        reviews,
        methods=["erm"],
        models={"bag-of-words": {}, "echo": {"model": "callable", "function": "echo:seen"}},
    )
    study["data"]["reviews"]["derive"] = {
        "name": "edited",
        "transform": "eda",
        "mode": "fixed",
        "values": {"no": None, "yes": {"delete": 0.5}},
    }
    study["data"]["reviews"]["attributes"] = ["edited"]
    study["shifts"] = {"edits": {"type": "unseen-data", "attribute": "edited", "unseen": ["yes"]}}
    (tmp_path / "echo.py").write_text(
        f"def seen(texts):\n    with open({str(tmp_path / 'seen')!r}, 'a') as file:\n"
        "        file.writelines(t + '\\n' for t in texts)\n    return [0] * len(texts)\n"
    )
    study["models"]["echo"]["function"] = f"{tmp_path / 'echo.py'}:seen"
    study_results = cw.run_study(study, tmp_path / "out")
    assert study_results.summary.finished == 2
    all_texts, shown = (
        set(polars.read_parquet(reviews)["text"]),
        set((tmp_path / "seen").read_text().splitlines()),
    )
    assert (
        shown & all_texts
        and shown - all_texts
        and scores(study_results, "bag-of-words")["edits", "erm"] > 0.6
    )


def features_of(folder: Path, width: int = 6) -> tuple[Path, np.ndarray]:
    """300 rows of three classes: a feature tells the class, another the site, which is where half
    of the rows are from."""
    rng = np.random.default_rng(1)
    label, site = np.arange(300) % 3, np.arange(300) // 3 % 2
    x = rng.normal(size=(300, width)).astype(np.float32)
    x[:, 0] += 3 * label
    x[:, 1] += 5 * site
    np.save(folder / "x.npy", x)
    polars.DataFrame({"class": label, "site": site}).write_csv(folder / "rows.csv")
    return folder / "rows.csv", x


def on_features(path: Path, **changes: Any) -> dict[str, Any]:
    options = {"path": str(path), "features": str(path.parent / "x.npy")}
    data = {
        "source": "features",
        "options": options,
        "label": "class",
        "attributes": ["site"],
        "roles": {"test": 10},
    }
    return {
        "name": "features",
        "data": {"table": data},
        "models": ["linear-probe", "mlp"],
        "methods": ["erm", "groupdro", "mixup", "deepcoral"],
        "shifts": {"none": []},
        "sizes": {"all": {"total": 120}},
        **SETTINGS,
        **changes,
    }


@pytest.mark.slow
def test_features_are_learnt_by_every_kind_of_method(tmp_path: Path) -> None:
    path, x = features_of(tmp_path)
    (tmp_path / "first.py").write_text(
        "def column(x):\n    assert x.dtype == 'float32' and x.shape[1] == 6\n"
        "    return (x[:, 0] / 3).round().clip(0, 2).astype(int)\n"
    )
    models = {
        "linear-probe": {},
        "mlp": {},
        "first": {"model": "callable", "function": f"{tmp_path / 'first.py'}:column"},
    }
    training = {**SETTINGS["training"], "steps": 200}
    study = on_features(
        path,
        models=models,
        methods=["erm", "groupdro", "deepcoral"],
        environments=["site"],
        training=training,
    )
    study_results = cw.run_study(study, tmp_path / "out")
    assert study_results.summary.finished == 2 * 3 + 1 and not study_results.summary.failed
    for model in ("linear-probe", "mlp"):
        assert min(value for (_, method), value in scores(study_results, model).items()) > 0.7
    with Store.open(tmp_path / "out") as store:
        rows = [
            row
            for row in store.results("features")
            if row["method"] == "first" and row["set"] == "test"
        ]
        predictions = run_predictions(store, rows[0]["key"])[GIVEN]["test"]
    assert np.array_equal(predictions.answer, (x[predictions.ids, 0] / 3).round().clip(0, 2))


@pytest.mark.slow
def test_a_probe_is_trained_on_another_models_features(tmp_path: Path) -> None:
    """Kept weights of a run of the same data: its probe is nearly as right, and random features are
    not."""
    digits = {
        "source": "digits",
        "options": {"size": 16},
        "label": "digit",
        "attributes": ["ink"],
        "roles": {"test": 5},
    }
    study: dict[str, Any] = {
        "name": "probe",
        "data": {"digits": digits},
        "shifts": {"none": []},
        "methods": ["erm"],
        **SETTINGS,
    }
    study |= {"models": ["small-cnn"], "keep": "selected", "sizes": {"all": {"total": 300}}}
    study["training"] = {"steps": 200, "validate_every": 50, "batch": 64, "lr": 0.01}
    first = cw.run_study(study, tmp_path / "out")
    (weights,) = (tmp_path / "out").rglob("weights-best-id.safetensors")
    probe = {"model": "linear-probe", "of": "small-cnn"}
    study |= {
        "models": {"probe": {**probe, "weights": str(weights)}, "random": probe},
        "methods": ["erm", "groupdro"],
    }
    study_results = cw.run_study(study, tmp_path / "out")
    assert study_results.summary.failed == 0
    own_score = scores(first, "small-cnn")["none", "erm"]
    assert (
        own_score > 0.5
        and scores(study_results, "probe")["none", "erm"]
        > own_score - 0.05
        > scores(study_results, "random")["none", "erm"]
    )


def derived(
    study: dict[str, Any], name: str, transform: str, mode: str = "fixed"
) -> dict[str, Any]:
    derived_study = deepcopy(study)
    derived_study["data"][name]["derive"] = {
        "name": "edit",
        "transform": transform,
        "values": {"no": None, "yes": {}},
        "mode": mode,
    }
    derived_study["data"][name]["attributes"] = ["edit"]
    return derived_study


@pytest.mark.slow
def test_what_does_not_fit_is_one_sentence_before_any_work(reviews: Path, tmp_path: Path) -> None:
    texts, table = on_texts(reviews), on_features(features_of(tmp_path)[0])
    digits = {"source": "digits", "label": "digit", "attributes": ["ink"], "roles": {"test": 5}}
    images: dict[str, Any] = {**table, "data": {"digits": digits}}
    probe = {"model": "linear-probe", "of": "resnet-w16"}
    np.save(tmp_path / "y.npy", np.zeros((40, 5)))
    polars.DataFrame({"label": [0, 1] * 20, "domain": ["books"] * 20 + ["films"] * 20}).write_csv(
        tmp_path / "y.csv"
    )
    options = {"path": str(tmp_path / "y.csv"), "features": str(tmp_path / "y.npy")}
    far = {**texts["data"]["reviews"], "source": "features", "options": options}
    sets = {"far": {"role": "test", "source": "far", "law": "uniform"}}
    two_datasets = {
        **texts,
        "data": {**texts["data"], "far": far},
        "sets": sets,
        "selection": ["last"],
    }
    cases: list[tuple[dict[str, Any], type[CrosswindError], str]] = [
        (
            {**texts, "methods": ["erm", "randaugment"]},
            NeedsError,
            "needs images of 1 or 3 channels, and is given texts",
        ),
        (
            {**table, "methods": ["erm", "augmix"]},
            NeedsError,
            "needs images of 1 or 3 channels, and is given features of 6 numbers",
        ),
        (
            {**texts, "methods": ["erm", "sagnet"]},
            NeedsError,
            (
                "needs a model with batch norm, and .* leave the method out: no model that takes"
                " texts has that$"
            ),
        ),
        (
            {**texts, "methods": ["erm", "pnd"]},
            NeedsError,
            "reads the feature maps .* no model that takes texts has that$",
        ),
        (
            {**texts, "methods": ["erm", "cos"]},
            NeedsError,
            "shows an image in two environments .* is given texts; set pairs to class$",
        ),
        (
            {**images, "models": ["mlp"], "methods": ["erm", "sagnet"]},
            NeedsError,
            "or take another one .valid: .*small-cnn",
        ),
        (
            {**texts, "models": ["mlp"]},
            InputError,
            "models.mlp: mlp takes images or features, and these are texts .*bag-of-words",
        ),
        (
            {**table, "models": ["resnet18"]},
            InputError,
            "resnet18 takes images, and these are features of 6 numbers",
        ),
        (
            {**images, "models": ["bag-of-words"]},
            InputError,
            "bag-of-words takes texts or tokens, and these are images of 32 x 32 x 3",
        ),
        (
            {**table, "models": {"p": probe}},
            InputError,
            "models.p: resnet-w16 takes images, and these are features",
        ),
        (
            {**images, "models": {"p": probe}, "methods": ["erm", "augmix"]},
            NeedsError,
            "needs images, and 'p' is trained on the fea",
        ),
        (
            {**images, "models": {"p": {**probe, "of": "callable"}}},
            InputError,
            "models.p.of: callable is no network with features",
        ),
        (
            {**images, "models": {"p": {**probe, "of": "resnet"}}},
            InputError,
            "models.p.of: unknown model 'resnet', did you mean",
        ),
        (
            {**images, "models": {"p": {**probe, "settings": {"side": 3}}}},
            InputError,
            "models.p.settings.side: unknown setting",
        ),
        (
            {**images, "models": {"p": {**probe, "weights": "V1"}}},
            InputError,
            "models.p.weights: unknown weights of model 'resnet-w16'",
        ),
        (
            {**images, "models": {"linear-probe": {"weights": "V1"}}},
            InputError,
            "weights: are those of the model that 'of' names",
        ),
        (
            derived(texts, "reviews", "rotate"),
            InputError,
            "data.reviews.derive.transform: 'rotate' changes images, and .* are texts",
        ),
        (
            derived(images, "digits", "eda"),
            InputError,
            "derive.transform: 'eda' changes texts, and .* are images of 32 x 32 x 3",
        ),
        (
            derived(table, "table", "eda"),
            InputError,
            "'eda' changes texts, and the inputs of 'rows' are features of 6 numbers",
        ),
        (
            derived(texts, "reviews", "eda", "per-visit"),
            InputError,
            "derive.mode: texts are changed once and not at every visit",
        ),
        (
            derived({**images, "models": {"p": probe}}, "digits", "rotate", "per-visit"),
            InputError,
            "reads each row .* once, and its",
        ),
        (
            two_datasets,
            InputError,
            "features of 5 numbers cannot be tested by a model trained on the texts",
        ),
    ]
    for study, kind, message in cases:
        with pytest.raises(kind, match=message):
            make_plan(study_from(study))


def test_inputs_that_cannot_be_blended_are_refused_before_any_work(
    reviews: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        NeedsError, match="changes inputs as numbers, and 'bag-of-words' reads texts"
    ):
        cw.run_study(
            on_texts(reviews, methods=["erm", "mixup"], shifts={"none": []}), tmp_path / "out"
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_data_set_that_moves_is_the_same_and_one_that_changes_is_not(
    reviews: Path, tmp_path: Path
) -> None:
    moved, changed = tmp_path / "elsewhere" / "reviews.parquet", tmp_path / "reviews.parquet"
    moved.parent.mkdir()
    moved.write_bytes(reviews.read_bytes())
    table = polars.read_parquet(reviews)
    table.with_columns(
        text=polars.when(polars.int_range(len(table)) == 7).then(polars.lit("x")).otherwise("text")
    ).write_parquet(changed)
    keys = [
        [job.key for job in of_kind(make_plan(study_from(on_texts(path))), "fit")]
        for path in (reviews, moved, changed)
    ]
    assert keys[0] == keys[1] and not set(keys[0]) & set(keys[2])


@pytest.mark.slow
def test_texts_are_estimated_without_a_pool(reviews: Path, tmp_path: Path) -> None:
    study = on_texts(
        reviews, methods=["erm"], shifts={"none": []}, estimators=["average-confidence", "atc-mc"]
    )
    study_results = cw.run_study(study, tmp_path / "out", workers=0)
    metrics = next(
        row["metrics"]
        for row in study_results.rows
        if row["set"] == "test" and row["rule"] == "best-id"
    )
    assert (
        0
        <= metrics["estimate_low:atc-mc"]
        <= metrics["estimate:atc-mc"]
        <= metrics["estimate_high:atc-mc"]
        <= 1
    )


def test_a_language_model_that_is_not_there_is_named_by_the_value_that_wants_it(
    reviews: Path,
) -> None:
    study = derived(on_texts(reviews), "reviews", "ssmba")
    study["data"]["reviews"]["derive"]["values"] = {"no": None, "yes": {"model": "nowhere"}}
    with pytest.raises(
        InputError,
        match=r"^data\.reviews\.derive\.values\.yes\.model: there is no folder 'nowhere'",
    ):
        make_plan(study_from(study))
