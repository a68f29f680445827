"""Clusters as attributes: what is alike stands together, the same way every time, and nothing
unclear is clustered."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import crosswind
from crosswind.core.errors import CrosswindError, DataError, InputError
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.clusters import ALGORITHMS, Clustering, with_clusters
from crosswind.data.dataset import AttributedDataset

CENTRES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])


def data(n: int = 400, seed: int = 0) -> tuple[AttributedDataset, np.ndarray, np.ndarray]:
    """Rows in four heaps of 40, 30, 20 and 10 in a hundred, a label and a split beside: data set,
    features [n, 2], heap [n]."""
    draw = np.random.default_rng(seed)
    heap = draw.permutation(
        np.repeat(np.arange(4), [n * 4 // 10, n * 3 // 10, n * 2 // 10, n // 10])
    )
    features = CENTRES[heap] + draw.normal(0, 0.5, (n, 2))
    table = AttributeTable(
        (Attribute("label", ("a", "b")), Attribute("split", ("train", "test"))),
        np.stack([draw.integers(0, 2, n), (np.arange(n) >= n // 2).astype(int)]),
    )
    return AttributedDataset("heaps", table), features, heap


def codes(dataset: AttributedDataset, name: str = "cluster") -> np.ndarray:
    return np.asarray(dataset.table.column(name)).astype(int)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int16"])
def test_heaps_are_found_and_numbered_by_size(algorithm: str, dtype: str) -> None:
    dataset, features, heap = data()
    clustered = with_clusters(
        dataset, (features * (10 if dtype == "int16" else 1)).astype(dtype), 4, algorithm=algorithm
    )
    assert clustered.attribute("cluster").values == ("0", "1", "2", "3")
    assert np.array_equal(codes(clustered), heap)
    assert clustered.table.names == ("label", "split", "cluster") and np.array_equal(
        clustered.table.codes[:2], dataset.table.codes
    )


def test_equal_sizes_are_numbered_by_their_first_row() -> None:
    features = np.array([[5.0], [0.0], [5.1], [9.0], [0.1], [9.1]])
    table = AttributeTable((Attribute("label", ("a",)),), np.zeros((1, 6), np.uint8))
    for seed in range(10):  # k-means finds them in another order each time
        clustered = with_clusters(AttributedDataset("six", table), features, 3, seed=seed)
        assert codes(clustered).tolist() == [0, 1, 0, 2, 1, 2]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_number_of_threads_changes_nothing(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise without heaps, where a sum in another order can move rows from one centre to the
    next."""
    from sklearn.cluster import KMeans, MiniBatchKMeans

    kind = {"kmeans": KMeans, "minibatch": MiniBatchKMeans}[algorithm]
    fit, used = kind.fit, []

    def watched(self: Any, *arguments: Any, **named: Any) -> Any:
        used.append(max(pool["num_threads"] for pool in threadpool_info()))
        return fit(self, *arguments, **named)

    monkeypatch.setattr(kind, "fit", watched)
    features = np.random.default_rng(0).random((6000, 24), dtype=np.float32)
    how = Clustering(16, algorithm, starts=1, scale="standard", components=20)
    codes_by_threads = []
    for threads in (1, 2, 3):
        with threadpool_limits(limits=threads):
            codes_by_threads.append(how.codes(features))
    assert np.array_equal(codes_by_threads[0], codes_by_threads[1]) and np.array_equal(
        codes_by_threads[0], codes_by_threads[2]
    )
    assert used == [1, 1, 1]  # results that differ are rare, so the cause is looked at too
    assert not np.array_equal(
        codes_by_threads[0],
        Clustering(16, algorithm, starts=1, scale="standard", components=20, seed=1).codes(
            features
        ),
    )


def test_within_a_value_only_its_rows_count() -> None:
    dataset, features, _ = data()
    label = codes(dataset, "label")
    features = features + 100 * label[:, None]
    apart = codes(with_clusters(dataset, features, 3, within="label"))
    for value in (0, 1):
        rows = np.flatnonzero(label == value)
        counts = np.bincount(apart[rows], minlength=3)
        assert (counts > 0).all() and list(counts) == sorted(counts, reverse=True)
    # Other rows of one label leave the clusters of the other as they were.
    moved = np.where(label[:, None] == 1, np.random.default_rng(1).random(features.shape), features)
    again = codes(with_clusters(dataset, moved, 3, within="label"))
    assert np.array_equal(apart[label == 0], again[label == 0]) and not np.array_equal(
        apart[label == 1], again[label == 1]
    )


def test_centres_are_those_of_the_rows_to_fit_on() -> None:
    """Two heaps in training; a third, in testing alone, makes no cluster of its own but goes to the
    nearer."""
    features = np.array([[0.0], [1.0], [10.0], [11.0], [100.0], [101.0], [0.5], [10.5]])
    split = Attribute("split", ("train", "test"))
    dataset = AttributedDataset(
        "lines", AttributeTable((split,), np.array([[0, 0, 0, 0, 1, 1, 1, 1]]))
    )
    all_rows = codes(with_clusters(dataset, features, 2))
    assert all_rows.tolist() == [0, 0, 0, 0, 1, 1, 0, 0]
    trained = codes(with_clusters(dataset, features, 2, fit={"split": ["train"]}))
    assert trained.tolist() == [1, 1, 0, 0, 0, 0, 1, 0]


@pytest.mark.parametrize("settings", [{"scale": "standard"}, {"components": 1}])
def test_scale_and_components_are_those_of_the_rows_to_fit_on(settings: dict[str, Any]) -> None:
    """In training the first feature varies and makes two heaps; in testing the second varies much
    more."""
    draw = np.random.default_rng(0)
    heap = np.tile([0, 1, 1], 40)
    test = np.repeat([0, 1], 60)
    features = np.stack(
        [10 * heap + draw.normal(0, 0.1, 120), 0.1 * draw.normal(0, 1, 120)], axis=1
    )
    features[test == 1, 1] *= 1000
    split = AttributeTable((Attribute("split", ("train", "test")),), test[None])
    cluster_codes = codes(
        with_clusters(
            AttributedDataset("two", split), features, 2, fit={"split": ["train"]}, **settings
        )
    )
    if "components" in settings:  # the first feature, in testing too
        assert np.array_equal(cluster_codes, 1 - heap)
    else:  # the second feature has the weight that it had in training, so in testing it decides
        assert np.array_equal(cluster_codes[:60], 1 - heap[:60]) and not np.array_equal(
            cluster_codes[60:], 1 - heap[60:]
        )


def test_scale_says_what_is_near() -> None:
    """Heaps in the first feature, noise a thousand times as wide in the second, which counts no
    more when both have variance 1."""
    draw = np.random.default_rng(0)
    heap = np.repeat([0, 1], [60, 40])
    features = np.stack([heap + draw.normal(0, 0.01, 100), draw.normal(0, 1000, 100)], axis=1)
    dataset = AttributedDataset(
        "wide", AttributeTable((Attribute("label", ("a",)),), np.zeros((1, 100), np.uint8))
    )
    plain, scaled = (
        codes(with_clusters(dataset, features, 2, scale=scale)) for scale in ("none", "standard")
    )
    assert (plain == heap).mean() < 0.7 and (scaled == heap).mean() > 0.8
    # Rows that point the same way are alike however long they are.
    angles = np.where(heap == 0, 0.1, 1.4)
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=1) * draw.uniform(0.01, 50, 100)[:, None]
    rays[0] = 0  # has no direction, and still a cluster
    assert np.array_equal(codes(with_clusters(dataset, rays, 2, scale="unit"))[1:], heap[1:])
    assert not np.array_equal(codes(with_clusters(dataset, rays, 2))[1:], heap[1:])


def test_fingerprint_tells_clusters_apart_and_not_where_features_lay(tmp_path: Path) -> None:
    dataset, features, _ = data()
    for name in ("one.npy", "two.npy"):
        np.save(tmp_path / name, features.astype(np.float32))
    first, second = (with_clusters(dataset, tmp_path / name, 4) for name in ("one.npy", "two.npy"))
    assert (
        first.fingerprint
        == second.fingerprint
        == with_clusters(dataset, features.astype(np.float32), 4).fingerprint
    )
    prints = {
        first.fingerprint,
        dataset.fingerprint,
        with_clusters(dataset, features, 3).fingerprint,
    }
    prints |= {
        with_clusters(dataset, features, 4, name="group").fingerprint,
        with_clusters(dataset, features[::-1], 4).fingerprint,
    }
    assert len(prints) == 5
    assert crosswind.with_clusters is with_clusters


def test_a_cluster_is_an_attribute_like_any_other() -> None:
    dataset, features, heap = data()
    clustered = crosswind.with_clusters(dataset, features, 4, name="group")
    assert clustered.keep({"group": [3, 0]}).n_base == (heap == 3).sum() + (heap == 0).sum()
    split = crosswind.split(
        clustered, "label", ["group"], crosswind.UnseenData("group", unseen=["3"]), test=2
    )
    rows = split.train.rows
    assert len(rows) and not (codes(clustered, "group")[rows] == 3).any()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "k of one": ({"k": 1}, r"clusters\.k: must be a whole number of at least 2, not 1"),
    "k above the rows": ({"k": 401}, r"clusters\.k: 401 clusters cannot be found in 400 rows"),
    "k above all values": (
        {"k": 70_000},
        r"clusters\.k: an attribute has at most 65,535 values, not 70,000",
    ),
    "k above the rows of a value": (
        {"k": 250, "within": "label"},
        r"clusters\.k: 250 clusters cannot be found in \d+ rows of 'a'",
    ),
    "another word for k": ({"k": "silhouete"}, r"clusters\.k: must be a whole number .* or silhou"),
    "one at most": (
        {"k": "silhouette", "max_k": 1},
        r"clusters\.max_k: must be a whole number of at least 2, not 1",
    ),
    "order": (
        {"order": "sizes"},
        r"clusters\.order: unknown order 'sizes', did you mean 'size'\?",
    ),
    "starts": ({"starts": 0}, r"clusters\.starts: must be a whole number of at least 1, not 0"),
    "components": (
        {"components": 3},
        r"clusters\.components: must be at most 2, the lesser of rows and features, not 3",
    ),
    "algorithm": (
        {"algorithm": "kmean"},
        r"clusters\.algorithm: unknown algorithm 'kmean', did you mean 'kmeans'\?",
    ),
    "scale": ({"scale": "std"}, r"clusters\.scale: unknown scale 'std'.*none, standard, unit"),
    "name": (
        {"name": "label"},
        r"clusters\.name: data set 'heaps' already has an attribute 'label'",
    ),
    "within": (
        {"within": "labl"},
        r"clusters\.within: unknown attribute 'labl', did you mean 'label'\?",
    ),
    "fit": (
        {"fit": {"splt": ["train"]}},
        r"clusters\.fit: unknown attribute 'splt', did you mean 'split'\?",
    ),
    "fit value": (
        {"fit": {"split": ["tran"]}},
        r"clusters\.fit\.split: unknown value of attribute 'split': 'tran', did you mean",
    ),
    "fit word": (
        {"fit": {"split": "train"}},
        r"clusters\.fit\.split: must be a list of values, not 'train' \(valid: train, test\)",
    ),
    "nothing to fit on": (
        {"fit": {"split": []}},
        r"clusters\.k: 4 clusters cannot be found in 0 rows",
    ),
    "a missing file": ({"features": "no.npy"}, r"clusters\.features: there is no file 'no\.npy'"),
    "a folder": ({"features": "."}, r"clusters\.features: '\.' is not a file"),
    "few rows": (
        {"features": np.zeros((399, 2))},
        r"clusters\.features: the array has 399 rows, and data set 'heaps' has 400",
    ),
    "one dimension": (
        {"features": np.zeros(400)},
        r"the array holds float64 values of shape \(400,\), and numbers of shape",
    ),
    "booleans": ({"features": np.zeros((400, 2), bool)}, r"the array holds bool values"),
    "equal rows": (
        {"features": np.repeat([[0.0, 1.0], [-0.0, 1.0], [2.0, 3.0]], [200, 100, 100], axis=0)},
        r"only 2 of 4 clusters have a row: take a smaller k",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_clustered_is_refused_in_one_sentence(name: str) -> None:
    settings, sentence = REFUSED[name]
    dataset, features, _ = data()
    with pytest.raises(InputError, match=sentence) as caught:
        with_clusters(dataset, **{"features": features, "k": 4, **settings})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [(np.nan, "nan, which is no number"), (-np.inf, "-inf, which"), (1e16, "too large")],
)
def test_a_number_that_is_none_is_named_by_row_and_feature(value: float, sentence: str) -> None:
    dataset, features, _ = data(8000)
    features[5432, 1] = value
    with pytest.raises(
        InputError, match=r"clusters\.features: the array, row 5433, feature 2 is .*" + sentence
    ):
        with_clusters(dataset, features, 4)


def npy(values: np.ndarray, allow_pickle: bool = False) -> bytes:
    out = io.BytesIO()
    np.save(out, values, allow_pickle=allow_pickle)
    return out.getvalue()


def files() -> dict[str, tuple[bytes, str]]:
    good = npy(np.random.default_rng(0).random((400, 2)))
    packed = io.BytesIO()
    np.savez(packed, features=np.zeros((400, 2)))
    missing = np.zeros((400, 2))
    missing[7, 0] = np.nan
    return {
        "objects": (
            npy(np.array([[object()] * 2] * 400, dtype=object), allow_pickle=True),
            "holds objects, which only unpickling",
        ),
        "pickle": (pickle.dumps(np.zeros((400, 2))), "is not an array of NumPy's"),
        "cut": (good[:-9], "is damaged or cut short"),
        "npz": (packed.getvalue(), "is not an array of NumPy's: it is a file of zip"),
        "rows": (npy(np.zeros((12, 2))), r"has 12 rows, and data set 'heaps' has 400"),
        "one dimension": (npy(np.zeros(400)), r"holds float64 values of shape \(400,\)"),
        "nan": (npy(missing), "row 8, feature 1 is nan, which is no number"),
    }


@pytest.mark.parametrize("name", files())
def test_a_bad_file_is_one_sentence_that_names_it(tmp_path: Path, name: str) -> None:
    content, sentence = files()[name]
    path = tmp_path / "features.npy"
    path.write_bytes(content)
    with pytest.raises(CrosswindError, match=sentence) as caught:
        with_clusters(data()[0], path, 4)
    assert isinstance(caught.value, DataError)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def on_a_line(sizes: tuple[int, ...] = (60, 90, 30)) -> tuple[AttributedDataset, np.ndarray]:
    """Heaps at 0, 10 and 40 on a line in the plane, of these sizes."""
    place = np.repeat([0.0, 10.0, 40.0], sizes)
    spread = np.random.default_rng(0).normal(0, 0.3, (len(place), 2))
    table = AttributeTable((Attribute("label", ("a",)),), np.zeros((1, len(place)), np.uint8))
    return AttributedDataset("line", table), np.stack([place, place], axis=1) + spread


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("order", "places"),
    [("size", [10, 0, 40]), ("distance", [10, 0, 40]), ("component", [0, 10, 40])],
)
def test_clusters_are_numbered_by_a_rule(order: str, places: list[int], sign: int) -> None:
    """The mean of the centres is at 16.7; along the component the end of 60 rows comes before that
    of 30, whichever way the features point."""
    dataset, features = on_a_line()
    found = codes(with_clusters(dataset, sign * features, 3, order=order))
    centres = [features[found == code].mean() for code in range(3)]
    assert np.round(centres).tolist() == places


@pytest.mark.parametrize("order", ["size", "distance", "component"])
def test_the_rule_and_not_the_beginnings_number_clusters(order: str) -> None:
    dataset, features = on_a_line((50, 50, 50))
    first = codes(with_clusters(dataset, features, 3, order=order))
    for seed in range(1, 6):
        assert np.array_equal(
            codes(with_clusters(dataset, features, 3, order=order, seed=seed)), first
        )


@pytest.mark.parametrize("heaps", [2, 3, 5])
def test_the_silhouette_finds_as_many_clusters_as_there_are_heaps(heaps: int) -> None:
    place = np.repeat(np.arange(heaps), 40)
    angle = 2 * np.pi * place / heaps
    features = 10 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    features += np.random.default_rng(1).normal(0, 0.3, features.shape)
    table = AttributeTable((Attribute("label", ("a",)),), np.zeros((1, len(place)), np.uint8))
    clustered = with_clusters(AttributedDataset("line", table), features, "silhouette", max_k=7)
    assert len(clustered.attribute("cluster").values) == heaps
    assert len(set(zip(place.tolist(), codes(clustered).tolist(), strict=True))) == heaps
    few = with_clusters(AttributedDataset("line", table), features, "silhouette", max_k=2)
    assert len(few.attribute("cluster").values) == 2


def test_pixels_are_features() -> None:
    digits = crosswind.load("digits", size=8)
    by_pixels = with_clusters(digits, "pixels", 3)
    pixels = digits.inputs(np.arange(digits.n_base)).reshape(digits.n_base, -1) / np.float32(255)
    assert np.array_equal(codes(by_pixels), codes(with_clusters(digits, pixels, 3)))
    table = AttributeTable((Attribute("label", ("a",)),), np.zeros((1, 4), np.uint8))
    with pytest.raises(
        InputError, match=r"clusters.features: 'pixels' are of images, and data set"
    ):
        with_clusters(AttributedDataset("line", table), "pixels", 2)
