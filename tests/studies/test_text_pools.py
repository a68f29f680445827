"""The studies ng2022/sentiment, extreme, ablations and nli: pools of text classifiers, each trained
on one domain."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import polars
import pytest
from tests.data.sources.test_text_sources import MNLI, jsonl, nli, review
from tests.models.tiny_texts import write_encoder

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import CrosswindError
from crosswind.data.prepared import prepare
from crosswind.data.sources.reviews import FILES, AmazonReviews, Drugs
from crosswind.data.sources.sentence_pairs import RELATIONS, MedNLI, MultiNLI
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.spec import load_study
from crosswind.training.settings import TrainingSettings

TRAINED, ALONE = (
    ("fiction", "government", "slate", "telephone", "travel"),
    ("facetoface", "letters", "nineeleven", "oup", "verbatim"),
)
DOMAINS = (
    "kitchen_housewares",
    "dvd",
    "music",
    "sports_outdoors",
    "electronics",
    "toys_games",
    "imdb",
    "books",
)
WORDS = np.array(
    [
        "good",
        "great",
        "fine",
        "bad",
        "poor",
        "awful",
        "film",
        "book",
        "lamp",
        "shoe",
        "day",
        "box",
        "came",
        "was",
        "the",
        "it",
    ]
)


def texts(seed: int) -> Iterator[str]:
    """Texts of eight words and a number that no other has."""
    random, number = np.random.default_rng(seed), 0
    while True:
        number += 1
        yield f"{' '.join(random.choice(WORDS, 8))} {number}"


def table(path: Path, rows: int, **columns: tuple[object, ...]) -> None:
    """As many rows of every combination of values; of pairs of sentences where the labels are
    words."""
    text_stream, pairs = texts(0), isinstance(columns["label"][0], str)
    every = [
        dict(zip(columns, values, strict=True))
        for values in product(*columns.values())
        for _ in range(rows)
    ]
    text_rows = [
        {"premise": next(text_stream), "hypothesis": next(text_stream)}
        if pairs
        else {"text": next(text_stream)}
        for _ in every
    ]
    polars.DataFrame(
        [text_row | two for text_row, two in zip(text_rows, every, strict=True)]
    ).write_parquet(path)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the tables and the sentence encoder of --scale small."""
    (tmp_path / "texts").mkdir()
    table(tmp_path / "texts/fdu_mtl_12domains.parquet", 500, label=(0, 1), domain=DOMAINS)
    table(tmp_path / "texts/cad_imdb.parquet", 510, label=(0, 1), version=("original", "revised"))
    versions = ("original", "revised_premise", "revised_hypothesis")
    table(
        tmp_path / "texts/cad_nli.parquet",
        140,
        label=RELATIONS,
        version=versions,
        split=("train", "dev", "test"),
    )
    write_encoder(tmp_path / "minilm", max_position_embeddings=66)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def originals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with prepared copies of few reviews and pairs, and a small RoBERTa."""
    text_stream = texts(1)
    for source_name in ("amazon-reviews", "drugs.com", "mnli", "mednli"):
        (tmp_path / "originals" / source_name).mkdir(parents=True)
    for category, name in FILES.items():
        lines = [
            review(next(text_stream), stars, f"{category}{number}")
            for stars in (1, 2, 3, 4, 5)
            for number in range(20)
        ]
        (tmp_path / "originals/amazon-reviews" / name).write_bytes(gzip.compress(jsonl(*lines)))
    head = "\tdrugName\tcondition\treview\trating\tdate\tusefulCount\n"
    for part_name in ("Train", "Test"):
        rows = [
            f'{number}\tOne\tPain\t"""{next(text_stream)}"""\t{number % 10 + 1}\tMay 20, 2012\t1\n'
            for number in range(40)
        ]
        (tmp_path / f"originals/drugs.com/drugsCom{part_name}_raw.tsv").write_text(
            head + "".join(rows), encoding="utf-8"
        )
    genres_of = {"train": TRAINED, "dev_matched": TRAINED, "dev_mismatched": ALONE}
    (tmp_path / "originals/mnli/multinli_1.0").mkdir()
    for part_name, genres in genres_of.items():
        lines = [
            nli(
                label,
                next(text_stream),
                next(text_stream),
                f"{genre}{part_name}{label}{number}",
                genre,
            )
            for genre, label, number in product(genres, RELATIONS, range(8))
        ]
        (tmp_path / "originals/mnli" / MNLI.format(part_name)).write_bytes(jsonl(*lines))
    for part_name in ("train", "dev", "test"):
        lines = [
            nli(label, next(text_stream), next(text_stream))
            for label, _ in product(RELATIONS, range(6))
        ]
        (tmp_path / f"originals/mednli/mli_{part_name}_v1.jsonl").write_bytes(jsonl(*lines))
    for kind in (AmazonReviews, Drugs, MultiNLI, MedNLI):
        prepare(kind(root=str(tmp_path)), accept_totals=True)
    write_encoder(tmp_path / "roberta", max_position_embeddings=260)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CROSSWIND_DATA", str(tmp_path))
    return tmp_path


def planned(study: str, scale: str | None, *settings: str) -> Plan:
    """The plan, with all rows of the test sets at paper scale: there are few."""
    study_found = load_study(f"ng2022/{study}", scale, [])
    drawn = (
        []
        if scale
        else [
            f"sets.{name}.draw=all"
            for name, set_spec in study_found.sets.items()
            if set_spec.role == "test"
        ]
    )
    return make_plan(load_study(f"ng2022/{study}", scale, [*drawn, *settings]))


def pool(plan: Plan) -> Counter[str]:
    """Networks by what they are."""
    return Counter(run.labels["model"].split("-")[0] for run in plan.runs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "scale", "networks", "domains"),
    [
        ("sentiment", None, {"cnn": 10 * 3**5, "roberta": 10 * 54}, 10),
        ("sentiment", "tiny", {"cnn": 10}, 10),
        ("extreme", None, {"cnn": 10 * 3**5, "roberta": 10 * 54}, 1),
        ("extreme", "tiny", {"cnn": 10}, 1),
        ("ablations", None, {"cnn": 9 * 3**5}, 6),
        ("ablations", "tiny", {"cnn": 9}, 2),
        ("nli", None, {"cnn": 5 * 162, "roberta": 5 * 54}, 10),
        ("nli", "extreme", {"cnn": 5 * 162, "roberta": 5 * 54}, 1),
        ("nli", "tiny", {"cnn": 5}, 10),
    ],
)
def test_the_pools_have_the_grid_of_table_6(
    study: str, scale: str | None, networks: dict[str, int], domains: int, originals: Path
) -> None:
    """Reviews: 243 CNNs and 54 RoBERTas of each of ten categories; pairs: 162 and 54 of each of
    five genres."""
    rare = "estimators=[atc-mc]"  # thirty thousand jobs take seconds to plan
    plan = planned(study, scale, *([rare] if scale != "tiny" else []))
    assert pool(plan) == networks
    assert sum(set_spec.role == "test" for set_spec in plan.study.sets.values()) == domains
    if scale == "extreme":
        assert plan.draws[0].test_rows == 3 * 18, (
            "MedNLI's own split, which has other names, takes no row from the test"
        )
    noises = {
        run.labels["method"].rsplit("-", 1)[1]
        for run in plan.runs
        if run.labels["model"].startswith("roberta")
    }
    assert noises == ({"0.0", "0.2", "0.4"} if "roberta" in networks else set())


@pytest.mark.slow
def test_small_pools_are_of_domains_that_were_not_explored_and_serve_the_ablations_too(
    small: Path,
) -> None:
    plans = {
        study: planned(study, "small") for study in ("sentiment", "extreme", "ablations", "nli")
    }
    assert pool(plans["sentiment"]) == pool(plans["extreme"]) == {"cnn": 6 * 6, "minilm": 6 * 4}
    assert pool(plans["ablations"]) == {"cnn": 5 * 6} and pool(plans["nli"]) == {
        "cnn": 3 * 6,
        "minilm": 3 * 4,
    }
    fits = {
        study: {job.key for job in plan.jobs if job.kind == "fit"} for study, plan in plans.items()
    }
    assert fits["sentiment"] > fits["ablations"]
    sets = plans["sentiment"].study.sets
    assert set(sets) == {"validation", "home", "movies", "music", "sports", "tech", "toys", "imdb"}
    explored = {"apparel", "books", "camera_photo"}
    assert not explored & set(plans["sentiment"].study.data["reviews"].keep["domain"])


@pytest.mark.parametrize(
    ("study", "criteria"),
    [
        ("sentiment", {"cnn": 0.04, "roberta": 0.05}),
        ("extreme", {"cnn": 0.04, "roberta": 0.05}),
        ("ablations", {"cnn": 0.04}),
        ("nli", {"cnn": 0.03, "roberta": 0.03}),
    ],
)
def test_networks_of_the_paper_train_as_appendix_a_4_has_it(
    study: str, criteria: dict[str, float]
) -> None:
    """Adam's moments, the schedule, and the cross-entropy at which a network stops; what ran at
    `small` had none of it."""
    paper, small = load_study(f"ng2022/{study}"), load_study(f"ng2022/{study}", "small")
    assert isinstance(paper.methods, dict)
    for name, loss in criteria.items():
        of_method = [
            dict(settings or {}).get("training", {})
            for label, settings in paper.methods.items()
            if label.startswith(name)
        ]
        assert of_method
        for settings in of_method:
            training = TrainingSettings.of({**paper.training, **settings})
            assert training.loss_at == loss and training.fit_at is None
            assert (training.beta1, training.beta2, training.eps) == (0.9, 0.98, 1e-6)
            assert training.schedule == "inverse-sqrt"
            assert training.lr == (1e-3 if name == "cnn" else 1e-5)
    plain = TrainingSettings.of(small.training)
    assert (plain.beta2, plain.eps, plain.schedule, plain.loss_at) == (
        0.999,
        1e-8,
        "constant",
        None,
    )


@pytest.mark.parametrize("study", ["sentiment", "extreme", "nli"])
def test_the_four_neighbourhoods_of_texts_are_measured_in_both_forms(study: str) -> None:
    """Tables 2c, 2d, 3 and 8; `small` goes without the two that need models of languages."""
    paper, small = load_study(f"ng2022/{study}"), load_study(f"ng2022/{study}", "small")
    measures = {
        f"{form}-{name}"
        for form in ("ni", "ne")
        for name in ("ssmba", "eda", "backtranslation", "randomreplace")
    }
    assert set(paper.estimators) == measures | {"atc-mc", "atc-ne"}
    assert set(paper.estimators) - set(small.estimators) == {
        name for name in measures if name.endswith(("ssmba", "backtranslation"))
    }


@pytest.mark.parametrize(("study", "set"), [("sentiment", "amazon-reviews"), ("nli", "mnli")])
def test_without_the_data_the_plan_says_what_to_prepare(
    study: str, set: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSWIND_DATA", str(tmp_path))
    with pytest.raises(
        CrosswindError, match=rf"there is no prepared copy of {set} in .*: crosswind prepare {set}"
    ):
        planned(study, "tiny")


@pytest.mark.slow  # ten networks of four steps, and for each eleven answers a row of ten sets
@pytest.mark.usefixtures("in_this_process")
def test_a_tiny_pool_runs_and_its_estimators_are_judged(originals: Path) -> None:
    assert (
        _status(
            [
                "run",
                "ng2022/sentiment",
                "--scale",
                "tiny",
                "--out",
                str(originals / "out"),
                "--workers",
                "1",
            ]
        )
        == 0
    )
    (judged,) = cw.report(originals / "out").pools
    assert len(judged.pool.methods) == 10 and not judged.pool.missed
    points = judged.pool.values["ni-randomreplace"]
    assert len(points) == 100 and sum(p.training == p.test for p in points) == 10, (
        "each is in domain once"
    )
    assert judged.every["ni-eda"].micro_tau.cells + judged.every[
        "ni-eda"
    ].micro_tau.left_out == 10 and "pool-reviews-micro" in {
        table.name for table in judged.tables["domains"]
    }
