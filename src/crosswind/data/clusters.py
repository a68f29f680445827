"""Clusters of given features as an attribute. The same features and settings give the same
clusters: k-means runs on one thread."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosswind.core.errors import DataError, InputError, shown, unknown
from crosswind.core.seeds import seed_of
from crosswind.data.archives.arrays import Expected, read_array
from crosswind.data.attributes import MOST_VALUES
from crosswind.data.dataset import AttributedDataset

ALGORITHMS = ("kmeans", "minibatch")
SCALES = ("none", "standard", "unit")
LARGEST = 1e15  # a sum of squares of larger numbers would leave the range of 32-bit floats


@dataclass(frozen=True)
class Clustering:
    """How rows are clustered.

    `k`: clusters, at least 2. `algorithm`: `kmeans` (Lloyd, from `starts` k-means++ beginnings, the
    best by inertia) or `minibatch`, faster on many rows. `scale`: `standard` gives every feature
    mean 0 and variance 1, `unit` every row length 1, so that k-means goes by the cosine.
    `components`: of a principal component analysis after that, None for none. Scaling and
    components are those of the rows that centres are found on. `seed`: of the beginnings. Raises
    `InputError`, which names the setting after `field`.
    """

    k: int
    algorithm: str = "kmeans"
    scale: str = "none"
    components: int | None = None
    starts: int = 3
    seed: int = 0
    field: str = "clusters"

    def __post_init__(self) -> None:
        least = {
            "k": 2,
            "starts": 1,
            "seed": 0,
            **({} if self.components is None else {"components": 1}),
        }
        for name, low in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
                field = f"{self.field}.{name}"
                raise InputError(
                    field, f"must be a whole number of at least {low}, not {shown(value)}"
                )
        if self.k > MOST_VALUES:
            problem = f"an attribute has at most {MOST_VALUES:,} values, not {self.k:,}"
            raise InputError(f"{self.field}.k", problem)
        for name, choices in (("algorithm", ALGORITHMS), ("scale", SCALES)):
            if getattr(self, name) not in choices:
                word = getattr(self, name)
                raise unknown(f"{self.field}.{name}", name, word, choices)

    def codes(
        self,
        features: NDArray[Any],
        within: NDArray[np.integer[Any]] | None = None,
        fitted: NDArray[np.bool_] | None = None,
        names: Sequence[str] = (),
    ) -> NDArray[np.int64]:
        """The cluster of every row: int64 [n], each in [0, k); 0 is the largest of all rows, then
        by size, then by first row.

        `features`: numbers [n, d], all finite. `within`: codes [n] of an attribute (`names` its
        values), whose values are clustered apart and numbered apart. `fitted`: bool [n], the rows
        that centres are found on, default all; the others go to the nearest. Raises `InputError`
        where there are fewer rows, or fewer different ones, than clusters.
        """
        from threadpoolctl import threadpool_limits

        codes = np.zeros(len(features), dtype=np.int64)
        if fitted is None:
            fitted = np.ones(len(features), dtype=bool)
        self._refuse_few(fitted, "")
        # Several threads add up in no fixed order, which now and then moves a row between two
        # centres.
        with threadpool_limits(limits=1):
            points = self._prepared(
                np.asarray(features, dtype=np.result_type(features.dtype, np.float32)), fitted
            )
            if within is None:
                return self._clustered(points, fitted, "")
            for value in np.unique(within).tolist():
                rows = np.flatnonzero(within == value)
                value_name = names[value] if value < len(names) else str(value)
                codes[rows] = self._clustered(points[rows], fitted[rows], value_name)
        return codes

    def _prepared(self, points: NDArray[Any], fitted: NDArray[np.bool_]) -> NDArray[Any]:
        if self.scale == "standard":
            from sklearn.preprocessing import StandardScaler

            points = StandardScaler().fit(points[fitted]).transform(points)
        elif self.scale == "unit":
            length = np.linalg.norm(points, axis=1, keepdims=True)
            points = points / np.where(length > 0, length, 1)
        if self.components is None:
            return points
        n_components = min(int(fitted.sum()), points.shape[1])
        if self.components > n_components:
            problem = (
                f"must be at most {n_components:,}, the lesser of rows and features, not"
                f" {self.components:,}"
            )
            raise InputError(f"{self.field}.components", problem)
        from sklearn.decomposition import PCA

        random_state = self._state("components")
        return PCA(self.components, random_state=random_state).fit(points[fitted]).transform(points)

    def _clustered(
        self, points: NDArray[Any], fitted: NDArray[np.bool_], value: str
    ) -> NDArray[np.int64]:
        from sklearn.cluster import KMeans, MiniBatchKMeans
        from sklearn.exceptions import ConvergenceWarning

        self._refuse_few(fitted, value)
        kind = KMeans if self.algorithm == "kmeans" else MiniBatchKMeans
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # of fewer different rows than clusters, which ends below
            random_state = self._state("centres")
            fit = kind(self.k, n_init=self.starts, random_state=random_state).fit(points[fitted])
        codes = fit.predict(points)
        counts = np.bincount(codes, minlength=self.k)
        if not counts.all():
            advice = "take a smaller k, or kmeans"
            if self.algorithm == "kmeans":
                advice = "take a smaller k"
            problem = (
                f"only {(counts > 0).sum()} of {self.k} clusters have a row{_of(value)}: {advice}"
            )
            raise InputError(f"{self.field}.k", problem)
        first = np.unique(codes, return_index=True)[1]
        rank = np.empty(self.k, dtype=np.int64)
        rank[np.lexsort((first, -counts))] = np.arange(self.k)
        return rank[codes]

    def _refuse_few(self, fitted: NDArray[np.bool_], value: str) -> None:
        if fitted.sum() < self.k:
            problem = f"{self.k:,} clusters cannot be found in {fitted.sum():,} rows{_of(value)}"
            raise InputError(f"{self.field}.k", problem)

    def _state(self, stage: str) -> int:
        return seed_of(self.seed, "clusters", stage) % (1 << 32)


def with_clusters(  # noqa: PLR0913 - settings by name
    dataset: AttributedDataset,
    features: ArrayLike | str | Path,
    k: int,
    *,
    name: str = "cluster",
    within: str | None = None,
    fit: Mapping[str, Sequence[Any]] | None = None,
    algorithm: str = "kmeans",
    scale: str = "none",
    components: int | None = None,
    starts: int = 3,
    seed: int = 0,
    field: str = "clusters",
) -> AttributedDataset:
    """The data set with one more attribute, `name`, whose values 0 to k-1 are clusters of
    `features`, the largest first.

    `features`: numbers [rows, d] in the order of the data set's rows, as an array or an npy file.
    `within`: an attribute whose values are clustered apart, such as the label (George, Sohoni et
    al. 2020): cluster 0 of one has nothing to do with cluster 0 of another. `fit`: attribute ->
    values, such as `{"split": ["train"]}`: the rows that centres are found on; the others go to the
    nearest. The rest as in `Clustering`. Raises `InputError` (`field` and the setting) and
    `DataError` for a file.
    """
    how = Clustering(k, algorithm, scale, components, starts, seed, field)
    if name in [attribute.name for attribute in dataset.schema]:
        raise InputError(
            f"{field}.name", f"data set {dataset.name!r} already has an attribute {name!r}"
        )
    table = dataset.table
    groups = None
    if within is not None:
        groups = table.column(within, f"{field}.within")
    names = () if within is None else table.attribute(within).values
    fitted = np.ones(table.n_rows, dtype=bool)
    for attribute, values in (fit or {}).items():
        path = f"{field}.fit.{attribute}"
        column = table.column(attribute, f"{field}.fit")
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise InputError(
                path,
                f"must be a list of values, not {shown(values)}",
                table.attribute(attribute).values,
            )
        fitted &= np.isin(
            column, [table.attribute(attribute).code_of(value, path) for value in values]
        )
    path = f"{field}.features"
    if isinstance(features, str | Path):
        points = read_features(features, dataset, path)
    else:
        points = np.asarray(features)
        if problem := _problem(points, dataset, "the array"):
            raise InputError(path, problem)
    codes = how.codes(points, groups, fitted, names)
    return dataset.with_attribute(name, range(k), codes)


def read_features(path: str | Path, dataset: AttributedDataset, field: str) -> NDArray[Any]:
    """The features of a data set's rows in an npy file: numbers [rows, d], all finite.

    Raises `InputError` on `field` for a path that is no file, `DataError` for a file that is
    damaged, holds objects, numbers that are not finite, or another number of rows.
    """
    features_path = Path(path).expanduser()
    if not features_path.is_file():
        raise InputError(
            field,
            f"{str(path)!r} is not a file"
            if features_path.exists()
            else f"there is no file {str(path)!r}",
        )
    points = read_array(features_path, Expected("numbers"), 1 << 50)
    if problem := _problem(points, dataset, str(path)):
        raise DataError(problem)
    return points


def _problem(points: NDArray[Any], dataset: AttributedDataset, called: str) -> str:
    if points.ndim != 2 or not points.shape[1] or points.dtype.kind not in "iuf":
        shape = f"{points.dtype} values of shape {points.shape}"
        return f"{called} holds {shape}, and numbers of shape (rows, features) are expected"
    if len(points) != dataset.n_base:
        return (
            f"{called} has {len(points):,} rows, and data set {dataset.name!r} has"
            f" {dataset.n_base:,}"
        )
    for start in range(0, len(points), 4096):
        bad = np.argwhere(~(np.abs(points[start : start + 4096].astype(np.float64)) <= LARGEST))
        if len(bad):
            row = start + int(bad[0, 0])
            column = int(bad[0, 1])
            value = float(points[row, column])
            problem = "which is too large" if np.isfinite(value) else "which is no number"
            return f"{called}, row {row + 1}, feature {column + 1} is {value:g}, {problem}"
    return ""


def _of(value: str) -> str:
    return f" of {value!r}" if value else ""
