"""Features of rows as a file: those that the last layer reads, of a trained run and of a model as
it begins; clusters and UMAP."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.models.tiny_clip import clip_folder

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.storage.predictions_file import run_predictions
from crosswind.storage.store import Store
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from
from crosswind.unlabelled.features import FeatureTable, features_of

DIGITS = {"source": "digits", "label": "digit", "attributes": ["ink"], "roles": {"test": 3}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A store with a small network that was trained, CLIP that was asked, and a function; and the
    key of the run of each."""
    folder = tmp_path_factory.mktemp("features")
    (folder / "mine.py").write_text("def zeros(x):\n    return [0] * len(x)\n", encoding="utf-8")
    models = {
        "small-cnn": {},
        "asked": {"model": "clip", "path": clip_folder()},
        "function": {"model": "callable", "function": f"{folder / 'mine.py'}:zeros"},
    }
    study = {
        "name": "s",
        "data": {"digits": DIGITS},
        "shifts": {"none": []},
        "models": models,
        "methods": ["erm"],
        "seeds": 1,
    }
    training = {"steps": 4, "validate_every": 4, "batch": 16}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CROSSWIND_FEATURES", str(folder / "cache"))
        study_results = cw.run_study(
            {**study, "training": training, "keep": "selected"}, folder / "out"
        )
    return folder / "out", {row["method"]: row["key"] for row in study_results.rows}


@pytest.mark.slow
def test_the_features_of_a_run_are_what_its_last_layer_reads(
    store: tuple[Path, dict[str, str]],
) -> None:
    """Times the weights that were kept they are the logits that the store has, row by row."""
    out, keys = store
    table = features_of(f"{out}#{keys['erm']}")
    with Store.open(out) as opened:
        predictions = run_predictions(opened, keys["erm"])["best-id"]["test"]
        folder = next(
            path
            for key in opened.run(keys["erm"])["needs"]
            if (path := opened.run(key)["artifacts"]) and any(path.glob("*.safetensors"))
        )
    weights = load_file(folder / "weights-best-id.safetensors")
    head = next(
        name.removesuffix(".weight")
        for name, value in weights.items()
        if name.endswith(".weight") and value.shape[0] == 10
    )
    logits = table.features @ weights[f"{head}.weight"].T + weights[f"{head}.bias"]
    assert table.features.dtype == np.float32 and table.ids.tolist() == predictions.ids.tolist()
    assert np.abs(logits - predictions.logits).max() < 1e-4
    assert (
        table.by == ("digit", "ink")
        and [int(code) for code in table.columns["digit"]] == predictions.label.tolist()
    )


@pytest.mark.slow
def test_a_run_that_keeps_adapters_alone_has_features_and_estimates(tmp_path: Path) -> None:
    """Its network is built again, and what it kept put in."""
    models = {"clip": {"path": clip_folder(), "tuned": True}}
    study = {
        "name": "s",
        "data": {"digits": DIGITS},
        "shifts": {"none": []},
        "models": models,
        "seeds": 1,
        "keep": "selected",
    }
    study |= {"methods": {"erm": {}, "lora": {"rank": 2}}, "sizes": {"few": {"total": 40}}}
    study_results = cw.run_study(
        {**study, "training": {"steps": 3, "validate_every": 3, "batch": 8, "lr": 0.01}},
        tmp_path / "out",
    )
    run = f"{tmp_path / 'out'}#{next(row['key'] for row in study_results.rows if row['method'] == 'lora')}"
    table = features_of(run)
    with Store.open(tmp_path / "out") as opened:
        predictions = run_predictions(opened, run.partition("#")[2])["best-id"]["test"]
        needs = [opened.run(key)["artifacts"] for key in opened.run(run.partition("#")[2])["needs"]]
    weights = load_file(
        next(path for folder in needs for path in folder.glob("weights-best-id.safetensors"))
    )
    head = next(
        name
        for name, value in weights.items()
        if name.endswith("classes.weight") and value.shape[0] == 10
    )
    logits = table.features @ weights[head].T + weights[head.replace("weight", "bias")]
    assert np.abs(logits - predictions.logits).max() < 1e-3
    estimates = cw.estimate(
        run, "digits", estimators=["atc-mc", "dispersion"], pool_rows=0, near_rows=0
    )
    assert estimates.rows and estimates.n == 1797


@pytest.mark.slow
def test_a_validation_set_and_all_rows(store: tuple[Path, dict[str, str]]) -> None:
    out, keys = store
    run = f"{out}#{keys['erm']}"
    test, validation, every = (
        features_of(run, rows=name) for name in ("test", "validation", "all")
    )
    assert len(every.ids) == cw.load("digits").n_base and not set(test.ids.tolist()) & set(
        validation.ids.tolist()
    )
    positions = np.searchsorted(every.ids, test.ids)
    assert np.abs(every.features[positions] - test.features).max() < 1e-5


def test_a_model_that_is_only_asked_has_those_that_it_compares(
    store: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, keys = store
    monkeypatch.setenv("CROSSWIND_FEATURES", str(out.parent / "cache"))
    asked_features = features_of(f"{out}#{keys['asked']}")
    begun = features_of("clip", "digits", settings={"path": clip_folder()})
    assert asked_features.features.shape[1] == 16 and np.allclose(
        np.linalg.norm(asked_features.features, axis=1), 1, atol=1e-5
    )
    order = {row_id: position for position, row_id in enumerate(begun.ids.tolist())}
    # The study's pictures are as large as the source gives them in both.
    assert np.array_equal(
        begun.features[[order[row_id] for row_id in asked_features.ids.tolist()]],
        asked_features.features,
    )


@pytest.mark.parametrize(
    "model,more,told",
    [
        ("{run}", {"data": "digits"}, "data: .* has its own"),
        ("{run}", {"rows": "nowhere"}, "rows: unknown set of its study 'nowhere'"),
        ("{function}", {}, "'callable', which answers and shows no features"),
        ("small-cnn", {}, "data: is needed"),
        ("no-such-model", {"data": "digits"}, "model: unknown model 'no-such-model'"),
    ],
)
def test_what_has_no_features_is_refused(
    store: tuple[Path, dict[str, str]], model: str, more: dict[str, Any], told: str
) -> None:
    out, keys = store
    word = model.format(run=f"{out}#{keys['erm']}", function=f"{out}#{keys['function']}")
    with pytest.raises(InputError, match=told):
        features_of(word, **more)


@pytest.mark.slow
def test_features_of_random_weights_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--data", "digits", "--out", str(tmp_path / "features")]
    assert _status(["features", "small-cnn", *out]) == 0
    printed = capsys.readouterr().err
    assert printed.startswith("warning: small-cnn has the random weights of seed 0, so that its")
    assert _status(["features", "clip", "--set", f"path={clip_folder()}", *out]) == 0
    assert "warning" not in capsys.readouterr().err
    with pytest.raises(InputError, match="settings.widht: unknown setting of model 'small-cnn'"):
        features_of("small-cnn", "digits", settings={"widht": 3})


@pytest.mark.slow
def test_clusters_of_features_are_an_attribute_as_in_table_15(
    store: tuple[Path, dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six clusters; one group is trained on, here 1 and 4, and two that no training shows, 3 and 6,
    are tested on."""
    out, keys = store
    words = ["features", f"{out}#{keys['erm']}", "--rows", "all", "--out", str(tmp_path / "f")]
    assert _status(words) == 0 and "features.npy" in capsys.readouterr().out
    features = np.load(tmp_path / "f" / "features.npy")
    with (tmp_path / "f" / "rows.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(features) and set(rows[0]) >= {"id", "digit", "ink"}
    clusters = {"features": str(tmp_path / "f" / "features.npy"), "k": 6}
    data = {
        "digits": {
            **DIGITS,
            "attributes": ["cluster"],
            "roles": {"test": 0.5},
            "clusters": clusters,
        }
    }
    groups = {"group-1": [0, 3], "group-2": [1, 3], "group-3": [0, 4], "group-4": [1, 4]}
    shifts = {
        name: {"type": "only", "attribute": "cluster", "values": values}
        for name, values in groups.items()
    }
    sets = {
        "validation": {"role": "validation", "law": "train"},
        "test": {
            "role": "test",
            "law": {"type": "only", "attribute": "cluster", "values": [2, 5]},
            "draw": "all",
        },
    }
    study = {
        "data": data,
        "shifts": shifts,
        "sets": sets,
        "models": ["mlp"],
        "methods": ["erm"],
        "seeds": 1,
        "sizes": {"all": "all"},
    }
    plan = make_plan(study_from(study))
    for draw, values in zip(plan.draws, groups.values(), strict=True):
        trained = {cell.split("cluster=")[1][0] for cell, count in draw.cells.items() if count}
        assert trained == {str(value) for value in values}, draw


def heaps() -> FeatureTable:
    rng, heap = np.random.default_rng(0), np.repeat([0, 1], 30)
    features = (rng.normal(size=(60, 5)) + 30 * heap[:, None]).astype(np.float32)
    columns = {"heap": [str(heap_point) for heap_point in heap], "light": ["dark", "bright"] * 30}
    return FeatureTable("toy", features, np.arange(60), columns, ("heap", "light"))


@pytest.mark.slow  # numba compiles
def test_umap_is_steady_and_keeps_heaps_apart(tmp_path: Path) -> None:
    from crosswind.reports.rows.feature_map import laid_out, write_map

    table = heaps()
    coordinates = laid_out(table.features, seed=3)
    assert np.array_equal(coordinates, laid_out(table.features, seed=3)) and not np.array_equal(
        coordinates, laid_out(table.features, seed=4)
    )
    middles = [coordinates[:30].mean(0), coordinates[30:].mean(0)]
    inside = max(
        np.linalg.norm(coordinates[:30] - middles[0], axis=1).max(),
        np.linalg.norm(coordinates[30:] - middles[1], axis=1).max(),
    )
    assert np.linalg.norm(middles[0] - middles[1]) > inside
    paths = write_map(table, tmp_path, seed=3)
    assert [path.name for path in paths] == ["umap.json", "umap.svg", "umap.png"]
    written = json.loads((tmp_path / "umap.json").read_text())
    assert (
        written["seed"] == 3
        and len(written["points"]["x"]) == 60
        and written["points"]["attributes"]["light"][:2] == ["dark", "bright"]
    )
    with pytest.raises(InputError, match="by: unknown attribute 'colour'"):
        write_map(table, tmp_path, ["colour"])


def test_the_picture_has_a_panel_an_attribute() -> None:
    from crosswind.reports.rows.feature_map import map_figure

    table = heaps()
    figure = map_figure(table, table.features[:, :2], table.by)
    assert [view["title"] for view in figure.spec["concat"]] == ["heap", "light"]
    assert len(figure.spec["datasets"]["rows"]) == 60
