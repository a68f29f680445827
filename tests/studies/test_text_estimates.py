"""Every registered estimator on texts: a number, or one sentence when the study is planned; pairs
of texts; the changed copies."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
import yaml
from tests.data.digit_files import real_data
from tests.studies.plans import of_kind

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.core.registry import listing, load
from crosswind.core.types import PART_MARK, InputSpec, Predictions
from crosswind.data.attributes import DerivedAttribute
from crosswind.data.copies import copies
from crosswind.data.derive import derive, evaluation_inputs
from crosswind.execution import changed_copies as varying
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from
from crosswind.transforms import neighbourhood
from crosswind.transforms.neighbourhood import NEIGHBOURHOODS, TEXT_POOL

KNOWN = {estimator.name: estimator.access for estimator in listing("estimators")}
CHEAP = ["ni-eda", "ni-randomreplace"]
PRAISE, BLAME = (
    ["good", "great", "fine", "lovely", "fun"],
    ["bad", "poor", "awful", "dull", "broken"],
)


def review(rng: np.random.Generator, label: int, thing: str) -> str:
    words = [str(rng.choice(PRAISE if (rng.random() < 0.8) == label else BLAME)) for _ in range(7)]
    return (
        f"The {thing} was {', '.join(words)} and it came on day {rng.integers(9999)} as number"
        f" {rng.integers(9999)}."
    )


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("reviews")
    label, domain = np.arange(400) % 2, np.arange(400) // 2 % 2
    texts = [review(rng, int(label[row]), ("film", "book")[domain[row]]) for row in range(400)]
    table = polars.DataFrame(
        {"text": texts, "label": label, "domain": np.where(domain == 1, "books", "films")}
    )
    table.write_csv(folder / "reviews.csv")
    table.filter(domain == 1).select("text").write_csv(folder / "new.csv")
    table.filter(domain == 0).select("text", "label").write_csv(folder / "known.csv")
    return folder


def on_texts(folder: Path, **changes: Any) -> dict[str, Any]:
    data = {
        "source": "texts",
        "options": {"path": str(folder / "reviews.csv")},
        "label": "label",
        "attributes": ["domain"],
    }
    return {
        "name": "reviews",
        "data": {"reviews": {**data, "roles": {"test": 60, "validation": 0.3}}},
        "shifts": {"none": []},
        "models": {"bag-of-words": {"buckets": 2048, "words": 32}},
        "training": {"steps": 60, "validate_every": 30, "batch": 32, "lr": 0.02},
        "seeds": 1,
        "pool_rows": 30,
        **changes,
    }


def refusals(reviews: Path) -> dict[str, str]:
    """The problem of each estimator that a study of texts cannot have."""
    refused = {}
    for name in KNOWN:
        try:
            make_plan(study_from(on_texts(reviews, estimators=[name])))
        except InputError as error:
            assert f"{error.field}.".startswith(f"estimators.{name}."), name
            refused[name] = error.problem
    return refused


def test_estimators_that_need_images_are_refused_on_texts(reviews: Path) -> None:
    refused = refusals(reviews)
    names_given = [name for name in KNOWN if name not in refused]
    assert len(names_given) >= 12
    assert len(names_given) + len(refused) == len(KNOWN) >= 19
    assert set(CHEAP) <= set(names_given)
    of_images = {name for name, entry in NEIGHBOURHOODS.items() if entry.takes == "image"}
    assert of_images.isdisjoint(names_given)
    assert (
        "its neighbours are changed images, and data.reviews has texts" in refused["ni-translate"]
    )


def check_estimate(metrics: dict[str, Any], name: str) -> None:
    value, low, high = (metrics[f"estimate{ending}:{name}"] for ending in ("", "_low", "_high"))
    assert 0 <= value <= 1, name
    if name in (*CHEAP, "average-confidence"):  # which say why they have no interval
        assert low is None, name
    else:
        assert 0 <= low <= high <= 1, name
        assert high - low < 1, name


@pytest.mark.slow
def test_each_estimator_of_texts_gives_a_number(reviews: Path, tmp_path: Path) -> None:
    refused = refusals(reviews)
    names_given = [name for name in KNOWN if name not in refused]
    study_results = cw.run_study(
        on_texts(reviews, estimators=names_given), tmp_path / "out", workers=0
    )
    assert not study_results.summary.failed
    (metrics,) = [
        row["metrics"]
        for row in study_results.rows
        if row["set"] == "test" and row["rule"] == "best-id"
    ]
    written_text = " ".join(
        path.read_text("utf-8") for path in (tmp_path / "out").rglob("job.json")
    )
    numbers = 0
    for name in names_given:
        # Such as a measure that is one number for every set of the pool.
        if f"estimate:{name}" not in metrics:
            assert f"{name} has no estimate for test: its measure is " in written_text, name
            continue
        check_estimate(metrics, name)
        numbers += 1
    assert numbers >= 11
    assert _status(["report", str(tmp_path / "out"), "--page", str(tmp_path / "page.html")]) == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"estimators": ["ni-eda"], "pool_rows": 0},
            "estimators.ni-eda: learns from a pool of labelled, changed rows",
        ),
        (
            {"estimators": ["ni-erase"], "pool_rows": 0, "seeds": 5},
            "estimators.ni-erase: its neighbours are changed images, and",
        ),
    ],
)
def test_what_texts_cannot_be_asked(reviews: Path, change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make_plan(study_from(on_texts(reviews, **change)))


@pytest.mark.slow
def test_a_measure_has_as_many_votes_as_it_asks_for(reviews: Path, tmp_path: Path) -> None:
    """Of three votes on two classes the commonest has 2/3 or all; those of a larger count begin
    with those of a smaller one."""
    entries_asked = {
        "three": {"estimator": "ni-eda", "neighbours": 2},
        "six": {"estimator": "ni-eda", "neighbours": 5},
    }
    study_results = cw.run_study(
        on_texts(reviews, estimators=entries_asked, seeds=5, pool_rows=0),
        tmp_path / "out",
        workers=0,
    )
    rows = [
        row["metrics"]
        for row in study_results.rows
        if row["set"] == "test" and row["rule"] == "best-id"
    ]
    assert len(rows) == 5
    for row in rows:
        assert row["n"] * 3 * row["measure:three"] == pytest.approx(
            round(row["n"] * 3 * row["measure:three"]), abs=1e-6
        )
        assert row["n"] * 6 * row["measure:six"] == pytest.approx(
            round(row["n"] * 6 * row["measure:six"]), abs=1e-6
        )
        assert row["measure:three"] >= 2 / 3
        assert 1 / 2 <= row["measure:six"] < row["measure:three"] + 1e-9
    votes = [
        copies_archive["best-id/answer"]
        for copies_archive in map(np.load, sorted((tmp_path / "out").rglob("copies*.npz")))
    ]
    assert sorted({vote_array.shape[2] for vote_array in votes}) == [3, 6]


def test_images_are_refused_the_neighbours_of_texts() -> None:
    digits = {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 20, "validation": 0.2},
        }
    }
    study = {
        "data": digits,
        "shifts": {"none": []},
        "estimators": CHEAP,
        "pool_rows": 20,
        "seeds": 1,
        "models": ["mlp"],
    }
    with pytest.raises(
        InputError,
        match="estimators.ni-eda: its neighbours are changed texts, and data.digits has images of ",
    ):
        make_plan(study_from(study))


def test_changed_copies_are_asked_for_once_and_again_where_they_are_others(reviews: Path) -> None:
    def keys(**options: Any) -> dict[tuple[str, int, str], str]:
        jobs = of_kind(
            make_plan(study_from(on_texts(reviews, **{"estimators": CHEAP, **options}))), "vary"
        )
        return {(job.spec["near"], job.spec["pool"], job.labels["set"]): job.key for job in jobs}

    first = keys()
    assert len(first) == 1 + 2 * 3, (
        "the pool, and for each neighbourhood those of target, source and pool"
    )
    assert keys(estimators={"ni-eda": {"form": "entropy"}}).items() <= first.items()
    for other_entries in ({"ni-eda": {"neighbours": 3}}, {"ni-randomreplace": {"rate": 0.3}}):
        assert {
            key for (near_name, *_), key in keys(estimators=other_entries).items() if near_name
        } & set(first.values()) == set()
    assert not set(keys(pool_rows=20).values()) & {
        key for (_, pool, _), key in first.items() if pool
    }


def test_the_pool_of_texts_is_that_of_a_plain_loop(reviews: Path) -> None:
    data = cw.load("texts", path=str(reviews / "reviews.csv"))
    rows = cw.split(data, "label", ["domain"], test=12).evaluation["test"]

    def answers(sets: Any, datasets: Any) -> Any:
        out = {}
        for name, rows_of_set in sets.items():
            lengths = np.array(
                [len(text) for text in datasets[rows_of_set.source].inputs(rows_of_set.rows)],
                dtype=np.float32,
            )
            logits = np.stack([lengths / 100, 1 - lengths / 100], axis=1)
            out[name] = Predictions(
                rows_of_set.rows, rows_of_set.label, rows_of_set.group, logits.argmax(1), logits
            )
        return {"last": out}, []

    plain = varying.copy_answers(
        answers, rows, {"reviews": data, rows.source: data}, varying.Neighbours(), len(rows.rows)
    )["last"]
    assert plain.logits is not None
    assert plain.answer.shape == (66, len(rows.rows), 1)
    assert plain.logits.shape[0] == len(TEXT_POOL)
    for number in (0, 20, 65):
        change = ((TEXT_POOL[number].transform, TEXT_POOL[number].knobs),)
        copied = copies(data, rows.rows, [change] * (number + 1))
        texts = copied.inputs(np.arange(len(rows.rows)) * (number + 1) + number)
        assert plain.logits[number, :, 0] == pytest.approx([len(text) / 100 for text in texts])


@pytest.mark.slow
def test_a_model_is_asked_about_texts_without_labels(
    reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study_results = cw.run_study(
        on_texts(reviews, pool_rows=0, keep="selected"), tmp_path / "out", workers=0
    )
    key = study_results.rows[0]["key"]
    estimates = cw.estimate(
        f"{tmp_path / 'out'}#{key[:12]}", str(reviews / "new.csv"), pool_rows=20, near_rows=12
    )
    row_of = {row.estimator: row for row in estimates.rows}
    assert {"ni-eda", "atc-mc", "cott", "nuclear-norm", "dispersion"} <= set(row_of)
    assert "ni-randaugment" not in str(estimates)
    assert all(
        0 <= row.estimate.accuracy <= 1 and row.pool_error is not None for row in estimates.rows
    )
    assert len(estimates.doubtful) == 12
    assert all(doubtful.text and doubtful.picture is None for doubtful in estimates.doubtful)
    command = [
        "estimate",
        "--model",
        f"{tmp_path / 'out'}#{key[:12]}",
        "--data",
        str(reviews / "new.csv"),
    ]
    capsys.readouterr()
    page = tmp_path / "page.html"
    assert (
        _status(
            [
                *command,
                "--estimators",
                "ni-eda,ni-erase",
                "--pool-rows",
                "10",
                "--neighbour-rows",
                "5",
                "--out",
                str(page),
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "ni-eda" in out
    assert "Left out: ni-erase, since its neighbours are changed images." in out
    assert estimates.doubtful[0].text[:20] in page.read_text(
        "utf-8"
    ) or '<q dir="auto">' in page.read_text("utf-8")


@pytest.mark.slow
def test_the_parts_of_pairs_are_changed_by_themselves(tmp_path: Path) -> None:
    """As copies and as values of a derived attribute; real pairs of premise and hypothesis, where
    they are at hand."""
    table = polars.read_parquet(real_data("cad_nli.parquet")).head(40)
    pairs = [
        f"{premise}{PART_MARK}{two}"
        for premise, two in table.select("premise", "hypothesis").iter_rows()
    ]
    table.select("premise", "hypothesis", label=polars.int_range(40) % 2).write_parquet(
        tmp_path / "pairs.parquet"
    )
    data = cw.load("texts", path=str(tmp_path / "pairs.parquet"), text=["premise", "hypothesis"])
    assert data.check_inputs() == InputSpec.text()
    chains = [((change.transform, change.knobs),) for change in TEXT_POOL[1::3]]
    changed = copies(data, np.arange(40), chains).inputs(np.arange(40 * len(chains)))
    assert len(changed) == 40 * 22
    assert {text.count(PART_MARK) for text in changed} == {1}
    assert (
        sum(
            text.split(PART_MARK)[1] != pairs[row // 22].split(PART_MARK)[1]
            for row, text in enumerate(changed)
        )
        > 600
    )


@pytest.fixture(scope="module")
def little(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    from tests.transforms.text.little_models import masked, translator

    folder = tmp_path_factory.mktemp("models")
    masked(folder / "bert", positions=64)
    translator(folder / "there", "en", "de")
    translator(folder / "back", "de", "en", seed=1)
    return folder


@pytest.mark.slow
def test_neighbours_by_networks_are_made_once_for_all_models(
    reviews: Path,
    little: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a study's models the second reads what was made for the first, and so does another study,
    and `estimate`."""
    monkeypatch.setenv("CROSSWIND_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(neighbourhood, "TEXT_POOL", TEXT_POOL[::9])
    n_asked: dict[str, int] = {}
    for name in ("ssmba", "back-translation"):
        cls = load("text-transforms", name)

        def counted(
            self: Any, texts: Any, keys: Any, name: str = name, changed: Any = cls.changed
        ) -> Any:
            n_asked[name] = n_asked.get(name, 0) + len(texts)
            return changed(self, texts, keys)

        monkeypatch.setattr(cls, "changed", counted)
    dear = {
        "ni-ssmba": {"model": "bert"},
        "ni-backtranslation": {"there": "there", "back": "back", "temperature": 0.5},
    }
    data = on_texts(reviews)["data"]
    data["reviews"]["roles"] = {"test": 3, "validation": 0.1}
    study = on_texts(reviews, data=data, estimators=dear, pool_rows=2, keep="selected")
    (little / "study.yaml").write_text(yaml.safe_dump(study))
    study_results = cw.run_study(little / "study.yaml", tmp_path / "out", workers=0)
    (metrics,) = [
        row["metrics"]
        for row in study_results.rows
        if row["set"] == "test" and row["rule"] == "best-id"
    ]
    assert not study_results.summary.failed
    assert all(0 <= metrics[f"estimate:{name}"] <= 1 for name in dear)
    first = dict(n_asked)
    rows = sum(row["metrics"]["n"] for row in study_results.rows if row["rule"] == "best-id")
    assert first["ssmba"] == first["back-translation"] == 10 * (rows + 8 * 2)
    more_models = {
        "bag-of-words": {"buckets": 2048, "words": 32},
        "wider": {"model": "bag-of-words", "words": 32, "width": 16},
    }
    (little / "study.yaml").write_text(yaml.safe_dump({**study, "models": more_models}))
    again = cw.run_study(little / "study.yaml", tmp_path / "again", workers=0)
    assert len(again.rows) == 2 * len(study_results.rows)
    assert n_asked == first
    estimated = cw.estimate(
        f"{tmp_path / 'out'}#{study_results.rows[0]['key'][:12]}",
        str(reviews / "new.csv"),
        pool_rows=2,
        near_rows=2,
        estimators={"ni-ssmba": {"model": str(little / "bert"), "rate": 0.3}},
    )
    assert [row.estimator for row in estimated.rows] == ["ni-ssmba"]
    assert n_asked["ssmba"] > first["ssmba"]
    n_asked["ssmba"] = 0
    command = [
        "estimate",
        "--model",
        f"{tmp_path / 'out'}#{study_results.rows[0]['key'][:12]}",
        "--data",
        str(reviews / "new.csv"),
    ]
    command += ["--estimators", "ni-ssmba", "--pool-rows", "2", "--neighbour-rows", "2"]
    own_settings = ["--set", "ni-ssmba.rate=0.3", "--set"]
    assert _status([*command, *own_settings, f"ni-ssmba.model={little / 'bert'}"]) == 0
    assert n_asked["ssmba"] == 0
    capsys.readouterr()
    for words_given, sentence in (
        (["--set", "ni-ssmba.rate=0.3"], "model: must name a model"),
        ([*own_settings, "ni-ssmba.modl=x"], "did you mean"),
    ):
        assert _status([*command, *words_given]) == 2
        error_text = capsys.readouterr().err.strip()
        assert "--estimators.ni-ssmba" in error_text
        assert sentence in error_text
        assert "\n" not in error_text


def test_neighbours_by_networks_are_refused_when_planned(
    reviews: Path,
    little: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    cases: list[tuple[dict[str, Any], str]] = [
        (
            {"ni-ssmba": {}},
            "estimators.ni-ssmba.model: must name a model: a folder, or one of the hub",
        ),
        (
            {"mine": {"estimator": "ni-ssmba", "model": "nowhere/model"}},
            "estimators.mine.model: there is no folder 'nowhere/model'",
        ),
        (
            {"ni-ssmba": {"model": str(little / "there")}},
            "estimators.ni-ssmba.model: .* cannot be loaded as a masked language model",
        ),
        (
            {"ni-backtranslation": {"there": str(little / "there")}},
            "estimators.ni-backtranslation.back: must name a model",
        ),
        (
            {"ni-backtranslation": {"there": str(little / "there"), "back": str(little / "there")}},
            "back: translates en to de; beside",
        ),
    ]
    for estimators, sentence in cases:
        with pytest.raises(InputError, match=sentence):
            make_plan(study_from(on_texts(reviews, estimators=estimators)))
        (tmp_path / "study.yaml").write_text(
            yaml.safe_dump(on_texts(reviews, estimators=estimators))
        )
        assert _status(["plan", str(tmp_path / "study.yaml")]) == 2
        error_text = capsys.readouterr().err.strip()
        assert "\n" not in error_text
        assert "estimators." in error_text
    digits = {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 20, "validation": 0.2},
        }
    }
    with pytest.raises(
        InputError,
        match="estimators.ni-ssmba: its neighbours are changed texts, and data.digits has images",
    ):
        make_plan(
            study_from(
                on_texts(
                    reviews, data=digits, models=["mlp"], estimators={"ni-ssmba": {"model": "bert"}}
                )
            )
        )


def test_the_key_of_neighbours_is_of_the_files_and_settings(
    reviews: Path, little: Path, tmp_path: Path
) -> None:
    from tests.transforms.text.little_models import masked

    def keys(**knobs: Any) -> set[str]:
        study = on_texts(
            reviews, estimators={"ni-ssmba": {"model": str(little / "bert"), **knobs}}, pool_rows=5
        )
        return {
            job.key for job in of_kind(make_plan(study_from(study)), "vary") if job.spec["near"]
        }

    shutil.copytree(little / "bert", tmp_path / "moved")
    first = keys()
    assert len(first) == 3
    assert keys(model=str(tmp_path / "moved")) == first
    assert keys(form="entropy") == first
    assert not keys(rate=0.3) & first
    shutil.rmtree(tmp_path / "moved")
    masked(tmp_path / "moved", positions=64, seed=4)
    assert not keys(model=str(tmp_path / "moved")) & first


def test_a_derived_attribute_by_a_network(
    little: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSWIND_DATA", str(tmp_path / "data"))
    polars.DataFrame(
        {"text": ["the film was good", "i hate it"] * 4, "label": [0, 1] * 4}
    ).write_csv(tmp_path / "t.csv")
    plain = cw.load("texts", path=str(tmp_path / "t.csv"))
    edited = [
        derive(
            plain,
            DerivedAttribute(
                "by", ("no", "yes"), "ssmba", (None, {"model": str(little / "bert"), "rate": rate})
            ),
        )
        for rate in (0.5, 0.5, 0.6)
    ]
    assert edited[0].fingerprint == edited[1].fingerprint != edited[2].fingerprint
    texts = evaluation_inputs(edited[0], np.arange(16))
    assert texts[::2].tolist() == plain.inputs(np.arange(8)).tolist()
    assert sum(texts[1::2] != texts[::2]) >= 5
    with pytest.raises(InputError, match="by.settings.yes.model: there is no folder 'nowhere'"):
        derive(plain, DerivedAttribute("by", ("no", "yes"), "ssmba", (None, {"model": "nowhere"})))
