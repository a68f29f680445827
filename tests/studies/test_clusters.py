"""Clusters in a study file: features beside it, an attribute like any other, and a key that knows
what and not where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.studies.plans import of_kind

from crosswind.core.errors import CrosswindError
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.spec import load_study

ROWS = 240


def write(
    folder: Path,
    features: np.ndarray | None = None,
    clusters: dict[str, Any] | None = None,
    **data: Any,
) -> Path:
    """A study file over a grid of 2 x 3 x 40 rows, with features in heaps of 120, 80 and 40 beside
    it."""
    folder.mkdir(parents=True, exist_ok=True)
    if features is None:
        heap = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [120, 80, 40]))
        features = 10 * heap[:, None] + np.random.default_rng(1).random((ROWS, 2))
    np.save(folder / "features.npy", features)
    entry = {
        "source": "factors",
        "options": {"grid": {"label": ["a", "b"], "place": ["x", "y", "z"]}, "copies": 40},
        "label": "label",
        "attributes": ["cluster"],
        "roles": {"test": 2},
        "clusters": {"features": "features.npy", "k": 3, **(clusters or {})},
        **data,
    }
    study = {
        "data": {"d": entry},
        "shifts": {"unseen": {"type": "unseen-data", "attribute": "cluster", "unseen": [2]}},
        "seeds": 1,
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    return folder / "study.yaml"


def planned(path: Path) -> Plan:
    return make_plan(load_study(str(path)), path.parent)


def test_a_shift_acts_on_clusters(tmp_path: Path) -> None:
    (draw,) = planned(write(tmp_path)).draws
    cells = draw.cells
    assert (
        cells
        and all("cluster=2" not in cell for cell in cells)
        and {cell.split("cluster=")[1][0] for cell in cells} == {"0", "1"}
    )


def test_a_key_knows_the_features_and_not_their_place(tmp_path: Path) -> None:
    (first,) = of_kind(planned(write(tmp_path / "one")), "fit")
    (second,) = of_kind(planned(write(tmp_path / "two")), "fit")
    assert first.key == second.key
    assert first.spec["data"]["d"]["clusters"]["features"] == str(
        (tmp_path / "one" / "features.npy").resolve()
    )
    (other_run,) = planned(
        write(tmp_path / "three", np.random.default_rng(5).random((ROWS, 2)))
    ).runs
    (seeded,) = planned(write(tmp_path / "four", clusters={"seed": 1})).runs
    assert len({first.key, other_run.key, seeded.key}) == 3


def test_features_that_change_are_seen_by_the_next_plan(tmp_path: Path) -> None:
    path = write(tmp_path)
    before = planned(path).runs[0].key
    write(tmp_path, np.random.default_rng(5).random((ROWS, 2)))
    assert planned(path).runs[0].key != before


def test_rows_are_clustered_before_some_are_left_out(tmp_path: Path) -> None:
    """Features have a row for each of the source's, so a study may keep rows by their cluster."""
    path = write(
        tmp_path, keep={"cluster": [0, 1], "place": ["x", "y"]}, attributes=["place", "cluster"]
    )
    path.write_text(path.read_text().replace("unseen:\n    - 2", "unseen:\n    - 1"))
    (draw,) = planned(path).draws
    assert draw.train_rows > 0 and all("cluster=0" in cell for cell in draw.cells)


def test_a_study_without_clusters_has_the_keys_it_had(tmp_path: Path) -> None:
    path = write(tmp_path, attributes=["place"])
    study = yaml.safe_load(path.read_text())
    del study["data"]["d"]["clusters"]
    study["shifts"] = {"none": []}
    path.write_text(yaml.safe_dump(study))
    (run,) = of_kind(planned(path), "fit")
    assert "clusters" not in run.spec["data"]["d"]


@pytest.mark.parametrize(
    ("clusters", "said"),
    [
        ({"k": 1}, r"data\.d\.clusters\.k: must be at least 2 or 'silhouette', not 1"),
        ({"k": 500}, r"data\.d\.clusters\.k: 500 clusters cannot be found in 240 rows"),
        (
            {"kk": 3},
            (
                r"data\.d\.clusters\.kk: unknown field 'kk', did you mean 'k'\?.*features, k, max_k,"
                r" order, name, within"
            ),
        ),
        (
            {"algorithm": "kmean"},
            r"data\.d\.clusters\.algorithm: 'kmean' is not valid, did you mean 'kmeans'\?",
        ),
        ({"features": "none.npy"}, r"data\.d\.clusters\.features: there is no file 'none\.npy'"),
        ({"features": "study.yaml"}, r"data\.d\.clusters\.features: .*study\.yaml"),
        (
            {"name": "place"},
            r"data\.d\.clusters\.name: data set 'factors' already has an attribute 'place'",
        ),
        (
            {"within": "lable"},
            r"data\.d\.clusters\.within: unknown attribute 'lable', did you mean 'label'\?",
        ),
        (
            {"fit": {"place": ["w"]}},
            r"data\.d\.clusters\.fit\.place: unknown value of attribute 'place': 'w'",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_place_in_the_study(
    tmp_path: Path, clusters: dict[str, Any], said: str
) -> None:
    path = write(tmp_path, clusters=clusters)
    with pytest.raises(CrosswindError, match=said) as caught:
        planned(path)
    assert "\n" not in str(caught.value)


def test_features_of_another_number_of_rows_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, np.zeros((7, 2)))
    with pytest.raises(
        CrosswindError,
        match=(
            r"data\.d\.clusters\.features: .*features\.npy has 7 rows, and data set 'factors'"
            r" has 240"
        ),
    ):
        planned(path)


@pytest.mark.parametrize(("scale", "runs"), [("tiny", 32), ("digits", 60)])
def test_groups_of_clusters_are_tested_on_clusters_that_no_run_trained_on(
    scale: str, runs: int
) -> None:
    plan = make_plan(load_study("jeon2025/clusters", scale))
    assert len(plan.runs) == runs
    groups = {"group-1": "03", "group-2": "13", "group-3": "04", "group-4": "14"}
    drawn = {draw.shift: draw for draw in plan.draws}
    assert drawn.keys() == groups.keys()
    for shift, clusters in groups.items():
        trained = {cell.split("cluster=")[1][0] for cell in drawn[shift].cells}
        assert trained == set(clusters)
    (set_of_law,) = {str(plan.study.sets["test"].law)}
    assert "[2, 5]" in set_of_law or "2, 5" in set_of_law


def test_a_missing_copy_and_missing_features_are_named_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSWIND_DATA", str(tmp_path))
    with pytest.raises(
        CrosswindError,
        match=r"crosswind prepare celeba .*; data.celeba.clusters.features: there is no file"
        r" 'dinov2.npy' either",
    ):
        make_plan(load_study("jeon2025/clusters"))


def test_settings_of_clusters_that_are_newer_are_in_no_key_until_they_are_set(
    tmp_path: Path,
) -> None:
    (plain,) = of_kind(planned(write(tmp_path / "one")), "fit")
    values = plain.spec["data"]["d"]["clusters"]
    assert values.keys() & {"order", "max_k"} == set()
    same = {"order": "size", "max_k": 10}
    (written,) = of_kind(planned(write(tmp_path / "two", clusters=same)), "fit")
    assert written.key == plain.key
    (ordered,) = of_kind(planned(write(tmp_path / "three", clusters={"order": "distance"})), "fit")
    assert ordered.key != plain.key
