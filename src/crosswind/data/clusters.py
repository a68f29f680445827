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
ORDERS = ("size", "component", "distance")
SILHOUETTE = "silhouette"
"""In the place of a number of clusters: the one with the highest mean silhouette."""
PIXELS = "pixels"
"""In the place of a file of features: the pixels of the images, in [0, 1]."""
_SAMPLED = 2000  # rows that a silhouette is taken over: it takes the distances of all pairs
_MOST_NUMBERS = 1 << 28  # of pixels held at once: a gigabyte as 32-bit floats
LARGEST = 1e15  # a sum of squares of larger numbers would leave the range of 32-bit floats


@dataclass(frozen=True)
class Clustering:
    """How rows are clustered.

    `k`: clusters, at least 2, or `silhouette`: of 2 to `max_k` the number with the highest mean
    silhouette (Rousseeuw 1987) over at most 2,000 of the rows that centres are found on, the least
    of equal ones. `order`: how clusters are numbered. `size`: the largest of all rows first, of
    equal ones that of the earlier row. `component`: along the first principal component of the
    centres, from the end at which the larger cluster lies. `distance`: the centre nearest to the
    mean of all centres first. `algorithm`: `kmeans` (Lloyd, from `starts` k-means++ beginnings, the
    best by inertia) or `minibatch`, faster on many rows. `scale`: `standard` gives every feature
    mean 0 and variance 1, `unit` every row length 1, so that k-means goes by the cosine.
    `components`: of a principal component analysis after that, None for none. Scaling and
    components are those of the rows that centres are found on. `seed`: of the beginnings. Raises
    `InputError`, which names the setting after `field`.
    """

    k: int | str
    algorithm: str = "kmeans"
    scale: str = "none"
    components: int | None = None
    starts: int = 3
    seed: int = 0
    field: str = "clusters"
    order: str = "size"
    max_k: int = 10

    def __post_init__(self) -> None:
        least = {
            **({} if self.k == SILHOUETTE else {"k": 2}),
            "max_k": 2,
            "starts": 1,
            "seed": 0,
            **({} if self.components is None else {"components": 1}),
        }
        for name, low in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
                field = f"{self.field}.{name}"
                rule = f" or {SILHOUETTE}" if name == "k" and isinstance(value, str) else ""
                raise InputError(
                    field, f"must be a whole number of at least {low}{rule}, not {shown(value)}"
                )
        for name in ("k", "max_k"):
            number = getattr(self, name)
            if number != SILHOUETTE and number > MOST_VALUES:
                problem = f"an attribute has at most {MOST_VALUES:,} values, not {number:,}"
                raise InputError(f"{self.field}.{name}", problem)
        choices_by_name = {"algorithm": ALGORITHMS, "scale": SCALES, "order": ORDERS}
        for name, choices in choices_by_name.items():
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
        """The cluster of every row: int64 [n], each in [0, k), numbered by `order`.

        `features`: numbers [n, d], all finite. `within`: codes [n] of an attribute (`names` its
        values), whose values are clustered apart and numbered apart. `fitted`: bool [n], the rows
        that centres are found on, default all; the others go to the nearest. Raises `InputError`
        where there are fewer rows, or fewer different ones, than clusters.
        """
        from threadpoolctl import threadpool_limits

        codes = np.zeros(len(features), dtype=np.int64)
        if fitted is None:
            fitted = np.ones(len(features), dtype=bool)
        self._refuse_few(fitted, "", 2 if isinstance(self.k, str) else self.k)
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
        k = self._number(points[fitted], value) if isinstance(self.k, str) else self.k
        self._refuse_few(fitted, value, k)
        fit = self._fit(points[fitted], k)
        codes = fit.predict(points)
        counts = np.bincount(codes, minlength=k)
        if not counts.all():
            advice = "take a smaller k, or kmeans"
            if self.algorithm == "kmeans":
                advice = "take a smaller k"
            problem = f"only {(counts > 0).sum()} of {k} clusters have a row{_of(value)}: {advice}"
            raise InputError(f"{self.field}.k", problem)
        first = np.unique(codes, return_index=True)[1]
        rank = np.empty(k, dtype=np.int64)
        rank[self._numbered(fit.cluster_centers_, counts, first)] = np.arange(k)
        return rank[codes]

    def _fit(self, points: NDArray[Any], k: int) -> Any:
        from sklearn.cluster import KMeans, MiniBatchKMeans
        from sklearn.exceptions import ConvergenceWarning

        kind = KMeans if self.algorithm == "kmeans" else MiniBatchKMeans
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # of fewer different rows than clusters, which is refused
            random_state = self._state("centres")
            return kind(k, n_init=self.starts, random_state=random_state).fit(points)

    def _numbered(
        self, centres: NDArray[Any], counts: NDArray[np.int64], first: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The clusters in the order in which they are numbered."""
        by_size = np.lexsort((first, -counts))
        if self.order == "size":
            return by_size
        apart = centres - centres.mean(axis=0)
        # Rounded, so that clusters that are as far by the last bits keep the order of their sizes.
        if self.order == "distance":
            positions = np.linalg.norm(apart, axis=1)
        else:
            _, _, axes = np.linalg.svd(apart, full_matrices=False)
            positions = apart @ axes[0]
            # Equal ends in the order of their sizes, then of their rows.
            ends = (int(positions.argmin()), int(positions.argmax()))
            if next(int(code) for code in by_size if code in ends) == ends[1]:
                positions = -positions
        scale = float(np.abs(positions).max()) or 1.0
        rounded = np.round(positions[by_size] / scale, 6)
        return np.asarray(by_size[np.argsort(rounded, kind="stable")])

    def _number(self, points: NDArray[Any], value: str) -> int:
        """The number of clusters by the silhouette."""
        from sklearn.metrics import silhouette_score

        rows = np.arange(len(points))
        if len(points) > _SAMPLED:
            random = np.random.default_rng(self._state("silhouette"))
            rows = np.sort(random.choice(len(points), _SAMPLED, replace=False))
        scores = {}
        for k in range(2, min(self.max_k, len(points) - 1) + 1):
            codes = self._fit(points, k).predict(points[rows])
            if 2 <= len(np.unique(codes)) < len(rows):
                scores[k] = round(float(silhouette_score(points[rows], codes)), 6)
        if not scores:
            problem = f"has no number of clusters for {len(points):,} rows{_of(value)}: give one"
            raise InputError(f"{self.field}.k", problem)
        return max(scores, key=lambda k: scores[k])

    def _refuse_few(self, fitted: NDArray[np.bool_], value: str, k: int) -> None:
        if fitted.sum() < k:
            problem = f"{k:,} clusters cannot be found in {fitted.sum():,} rows{_of(value)}"
            raise InputError(f"{self.field}.k", problem)

    def _state(self, stage: str) -> int:
        return seed_of(self.seed, "clusters", stage) % (1 << 32)


def with_clusters(  # noqa: PLR0913 - settings by name
    dataset: AttributedDataset,
    features: ArrayLike | str | Path,
    k: int | str,
    *,
    name: str = "cluster",
    within: str | None = None,
    fit: Mapping[str, Sequence[Any]] | None = None,
    algorithm: str = "kmeans",
    scale: str = "none",
    components: int | None = None,
    starts: int = 3,
    seed: int = 0,
    order: str = "size",
    max_k: int = 10,
    field: str = "clusters",
) -> AttributedDataset:
    """The data set with one more attribute, `name`, whose values 0 to k-1 are clusters of
    `features`, numbered by `order`.

    `features`: numbers [rows, d] in the order of the data set's rows, as an array or an npy file;
    or "pixels", those of its images.
    `within`: an attribute whose values are clustered apart, such as the label (George, Sohoni et
    al. 2020): cluster 0 of one has nothing to do with cluster 0 of another. `fit`: attribute ->
    values, such as `{"split": ["train"]}`: the rows that centres are found on; the others go to the
    nearest. The rest as in `Clustering`. Raises `InputError` (`field` and the setting) and
    `DataError` for a file.
    """
    how = Clustering(k, algorithm, scale, components, starts, seed, field, order, max_k)
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
    if isinstance(features, str) and features == PIXELS:
        points = _pixels(dataset, path)
    elif isinstance(features, str | Path):
        points = read_features(features, dataset, path)
    else:
        points = np.asarray(features)
        if problem := _problem(points, dataset, "the array"):
            raise InputError(path, problem)
    codes = how.codes(points, groups, fitted, names)
    return dataset.with_attribute(name, range(int(codes.max()) + 1), codes)


def _pixels(dataset: AttributedDataset, field: str) -> NDArray[np.float32]:
    """The pixels of every image in [0, 1], float32 [rows, h w c]. Raises `InputError` where rows
    are no images, or too many to be held."""
    shape = dataset.image_shape
    if shape is None:
        raise InputError(
            field, f"'{PIXELS}' are of images, and data set {dataset.name!r} has none; name a file"
        )
    width = int(np.prod(shape))
    if dataset.n_base * width > _MOST_NUMBERS:
        raise InputError(
            field,
            f"the pixels of {dataset.n_base:,} images of {width:,} numbers are too many to be held;"
            " make smaller features (crosswind features) and name their file",
        )
    points = np.empty((dataset.n_base, width), dtype=np.float32)
    for start in range(0, dataset.n_base, 4096):
        rows = np.arange(start, min(start + 4096, dataset.n_base))
        points[rows] = dataset.inputs(rows * dataset.n_derived).reshape(len(rows), -1)
    points /= 255
    return points


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
