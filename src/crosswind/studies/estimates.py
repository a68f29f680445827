"""The jobs by which a study estimates accuracies: what a model says near the rows of a set, what it
says of a pool, the estimates.

A `vary` job is what one model says of changed copies of a set's rows. They are their neighbours, as
some estimators read them, or the labelled source under every change of the pool. Each is keyed by
the model and the changes, so that several estimators share it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from crosswind.core.errors import InputError, shown
from crosswind.core.knobs import Access
from crosswind.core.registry import facts, load
from crosswind.core.types import KINDS_OF_INPUTS, InputColumn, InputSpec, Job, digest
from crosswind.data.attributes import transform_facts
from crosswind.evaluation.points import LEAST, LEAST_FOR_INTERVAL
from crosswind.studies.spec import Study
from crosswind.transforms.base import Transform
from crosswind.transforms.neighbourhood import (
    CHOSEN,
    NEIGHBOURS,
    POOL,
    ROOMS,
    TEXT_POOL,
    fitting_estimators,
    neighbourhood,
    pool_of_kind,
    transforms_of,
)

Values = Mapping[str, Any]
Vary = Callable[[str, Values | None, int], Job]
"""From a set, the estimator whose neighbourhood is asked for or None, and the rows of a pool or 0
to the job that answers for the copies."""


def source_set(roles: Mapping[str, str]) -> str:
    """The set whose labels estimators learn from: `validation`, else the first of that role; ""
    where there is none."""
    named = [name for name, role in roles.items() if role == "validation"]
    if "validation" in named:
        return "validation"
    return next(iter(named), "")


def access_of(estimator: Values) -> Access:
    """The access of an estimator of a study."""
    return facts("estimators", estimator["name"]).access or Access()


def check_estimators(
    study: Study, estimators: Mapping[str, Values], networks: int, kinds: Collection[str]
) -> None:
    """Refuse what an estimator of a study of so many networks cannot be given. `kinds`: of the
    inputs of its data. Raises `InputError`."""
    if study.pool_rows and not estimators:
        problem = (
            f"is {study.pool_rows}, and the study has no estimators that would learn from them"
        )
        raise InputError("pool_rows", f"{problem}; name some in 'estimators', or leave it out")
    tests = sum(set_spec.role == "test" for set_spec in study.sets.values())
    for label, estimator in estimators.items():
        access = access_of(estimator)
        path = f"estimators.{label}"
        if access.models > 1:
            raise InputError(
                path,
                f"reads what {access.models} models or more say of the same rows, and a study hands"
                " it one",
            )
        if access.features or access.weights:
            quantity = "the network's weights" if access.weights else "features"
            raise InputError(
                path, f"reads {quantity}, which the predictions of a study do not hold"
            )
        # Without a pool a measure tells no accuracy, but ranks networks on a set, and sets by a
        # network.
        if access.pool and not study.pool_rows and networks < LEAST_FOR_INTERVAL and tests < LEAST:
            if kinds and not any(map(pool_of_kind, kinds)):
                raise InputError(
                    path,
                    "is a measure, which becomes an accuracy by a pool, and"
                    f" {KINDS_OF_INPUTS[min(kinds)]} have none; train {LEAST_FOR_INTERVAL} networks"
                    f" or test on {LEAST} sets, which it then ranks",
                )
            passes = (
                f"each run then answers for up to {max(len(POOL), len(TEXT_POOL))} x"
                f" {access.passes} copies a row"
            )
            raise InputError(
                path,
                "learns from a pool of labelled, changed rows, and pool_rows is 0; try 300"
                f" ({passes})",
            )


def check_changes(
    study: Study,
    estimators: Mapping[str, Values],
    data: str,
    inputs: InputSpec | None,
    columns: Sequence[InputColumn] = (),
) -> None:
    """Refuse changed copies that inputs of this kind do not have. `columns`: of a table that the
    inputs are of. Raises `InputError`."""
    if inputs is None:
        return
    if estimators and study.pool_rows and not pool_of_kind(inputs.kind):
        raise InputError(
            "pool_rows",
            f"shows rows under changes of images or texts, and data.{data} has {inputs}; set it"
            " to 0",
        )
    for label, estimator in estimators.items():
        access, path = access_of(estimator), f"estimators.{label}"
        takes = kind_of_neighbours(access, estimator["knobs"])
        if takes not in ("", inputs.kind):
            problem = (
                f"its neighbours are changed {KINDS_OF_INPUTS[takes]}, and data.{data} has {inputs}"
            )
            # An estimator that names its transform is mended by another name there.
            if access.neighbourhood == CHOSEN and transforms_of(inputs.kind):
                problem += "; name a transform of these"
                raise InputError(f"{path}.transform", problem, transforms_of(inputs.kind))
            raise InputError(path, problem, fitting_estimators(inputs.kind))
        check_handed(path, access, estimator["knobs"], inputs.shape if takes else None)
        if takes == "features":
            _check_categories(path, access, estimator["knobs"], columns)


@dataclass(frozen=True)
class EstimateJobs:
    """The estimates of a point of a study. `roles`: of every set; `kind`: of the inputs."""

    estimators: Mapping[str, Values]
    pool_rows: int
    roles: Mapping[str, str]
    kind: str

    @property
    def source(self) -> str:
        """The set whose labels they learn from."""
        return source_set(self.roles)

    def jobs(
        self,
        labelled: Sequence[Job],
        predictions: Sequence[Job],
        rows: Values,
        follows: str,
        vary: Vary,
    ) -> list[Job]:
        """The estimates for the sets of `predictions`, each after the `vary` jobs that it needs.

        `labelled`: the jobs that hold the answers for the source; `rows`: the split that tells its
        labels, where these do not.
        """
        estimate_jobs: list[Job] = []
        for (label, estimator), prediction in product(self.estimators.items(), predictions):
            neighbourhood_name = access_of(estimator).neighbourhood
            if neighbourhood_name:
                reads = {"target": vary(prediction.spec["set"], estimator, 0)}
            else:
                reads = {}
            if neighbourhood_name and (
                self.pool_rows or not access_of(estimator).pool
            ):  # a measure alone reads no source
                reads["source"] = vary(self.source, estimator, 0)
            if self.pool_rows:
                reads["pool"] = vary(self.source, None, self.pool_rows)
                if neighbourhood_name:
                    reads["pool near"] = vary(self.source, estimator, self.pool_rows)
            needs = (
                *(job.key for job in labelled),
                prediction.key,
                *(job.key for job in reads.values()),
            )
            spec = {
                "estimator": estimator,
                "label": label,
                "source": self.source,
                "set": prediction.spec["set"],
                **rows,
            }
            identity = {
                "kind": "estimate",
                "version": VERSION,
                "needs": needs,
                **{k: v for k, v in spec.items() if k != "data"},
            }
            if access_of(estimator).handed:  # what they make is in the keys of what is needed
                keyed_knobs = {}
                for k, v in estimator["knobs"].items():
                    if k not in access_of(estimator).handed:
                        keyed_knobs[k] = v
                identity["estimator"] = {**estimator, "knobs": keyed_knobs}
            spec |= {"estimator_near": neighbourhood_name, "inputs": self.kind}
            spec["reads"] = {
                "predicted": prediction.key,
                **{name: job.key for name, job in reads.items()},
            }
            labels = {**prediction.labels, "role": "estimate", "estimator": label}
            estimate_jobs += [
                *reads.values(),
                Job(digest(identity), spec, labels, needs, "estimate", follows),
            ]
        return estimate_jobs


VERSION = 7
"""Of what an estimate writes: raised when the same answers give another interval, or more is
written."""


def _copy_request(estimator: Values | None, pool: int, kind: str) -> tuple[dict[str, Any], str]:
    """The request of a `vary` job, as it stands in its specification, and the hash of what makes
    its copies."""
    neighbourhood_name = "" if estimator is None else access_of(estimator).neighbourhood
    if estimator is not None and neighbourhood_name:
        count = estimator["knobs"].get("neighbours", NEIGHBOURS)
    else:
        count = NEIGHBOURS
    request: dict[str, Any] = {"near": neighbourhood_name, "pool": pool, "neighbours": count}
    if estimator is None or not access_of(estimator).handed:
        return request, _changes(neighbourhood_name, pool, kind)
    handed, transform = _handed(access_of(estimator), estimator["knobs"])
    if neighbourhood_name == CHOSEN:
        named = [transform.title, _version(transform.title)]
        identity = [_changes("", pool, kind), *named, transform.identity]
    else:
        identity = [_changes(neighbourhood_name, pool, kind), transform.identity]
    return {**request, "handed": handed}, digest(identity)


def _keyed(request: Values) -> dict[str, Any]:
    """Without what may name a place: the hash of the changes tells it by its contents."""
    return {name: value for name, value in request.items() if name != "handed"}


def check_handed(
    path: str, access: Access, knobs: Values, shape: tuple[int, ...] | None = None
) -> None:
    """Refuse, by an `InputError` on a field of `path`, an estimator whose neighbours cannot be
    made. `shape`: of a row, None where it is not known."""
    if access.handed:
        try:
            transform = _handed(access, knobs)[1]
            transform.check()
            if shape is not None:
                transform.check_shape(shape)
        except InputError as error:
            field = f"{path}.{error.field.partition('.')[2]}"
            raise InputError(field, error.problem, error.choices) from None


def _check_categories(
    path: str, access: Access, knobs: Values, columns: Sequence[InputColumn]
) -> None:
    """Refuse neighbours of which a category is between its values: a part of one, or several.
    Raises `InputError`."""
    if all(column.values is None for column in columns):
        return
    row: list[float] = []
    is_category: list[bool] = []
    for column in columns:
        row += [1.0, *[0.0] * (column.width - 1)]
        is_category += [column.values is not None] * column.width
    vector = np.array([row])
    is_moved = _handed(access, knobs)[1].apply(vector, np.array([1], dtype=np.uint64)) != vector
    ends = np.cumsum([column.width for column in columns])
    for column, end in zip(columns, ends, strict=True):
        if column.values is not None and is_moved[0, end - column.width : end].any():
            zeros = [0 if of_category else 1 for of_category in is_category]
            problem = (
                f"its neighbours are between the values of the category {column.name!r}; use jitter"
                f" with a deviation of 0 for inputs of categories (deviations: {shown(zeros)}, with"
                " each number's own in the place of 1)"
            )
            raise InputError(f"{path}.transform", problem)


def kind_of_neighbours(access: Access, knobs: Values) -> str:
    """The kind of input that the neighbours of an estimator with these knobs are; "" where it reads
    none."""
    if not access.neighbourhood:
        return ""
    return neighbourhood(access.neighbourhood, _handed_knobs(access, knobs)).takes


def _handed_knobs(access: Access, knobs: Values) -> dict[str, Any]:
    """The knobs of an estimator that are those of its neighbourhood's transform."""
    return {name: knobs[name] for name in access.handed if name in knobs}


def _handed(access: Access, knobs: Values) -> tuple[dict[str, Any], Transform]:
    """The knobs of an estimator that are those of its neighbourhood's transform, and the transform.
    Raises `InputError`."""
    handed_knobs = _handed_knobs(access, knobs)
    definition = neighbourhood(access.neighbourhood, handed_knobs)
    return handed_knobs, load(ROOMS[definition.takes], definition.transform)(**definition.knobs())


@cache
def _changes(neighbourhood_name: str, pool: int, kind: str) -> str:
    """Transforms with their versions and settings, so that answers for other copies are not taken
    for those for these."""
    identity: list[Any] = ["rows by family"] if pool else []
    for change in pool_of_kind(kind) if pool else ():
        version = _version(change.transform)
        identity.append(
            [change.transform, version, dict(change.knobs), *([change.family] if change.of else [])]
        )
    if neighbourhood_name:
        definition = neighbourhood(neighbourhood_name)
        identity.append(
            [
                definition.transform,
                _version(definition.transform),
                definition.knobs(),
                definition.knobs(large=True),
            ]
        )
    return digest(identity)


def _version(transform: str) -> int:
    return transform_facts(transform).version


def vary_of_fit(fit: Job, tests: Sequence[Job], labels: Values, kind: str) -> Vary:
    """The `vary` jobs of a model that a study trains. `tests`: its predictions for the test sets;
    `kind`: of the inputs."""

    def vary(name: str, estimator: Values | None, pool: int) -> Job:
        prediction = {job.spec["set"]: job for job in tests}.get(name)
        request, changes = _copy_request(estimator, pool, kind)
        identity = {
            "kind": "vary",
            "fit": fit.key,
            "set": name,
            **_keyed(request),
            "changes": changes,
            "of": None if prediction is None else prediction.key,
        }
        item_of_set = None if prediction is None else prediction.spec["item"]
        data_of_set = {} if prediction is None else prediction.spec["data"]
        spec = {"set": name, **request, "item": item_of_set, "data": data_of_set}
        needs = (fit.key, *fit.needs)
        return Job(
            digest(identity), spec, {**labels, "role": "vary", "set": name}, needs, "vary", fit.key
        )

    return vary


def vary_of_external(predictions: Sequence[Job], kind: str) -> Vary:
    """The `vary` jobs of a model that is not trained here. `predictions`: its jobs for every set;
    `kind`: of the inputs."""

    def vary(name: str, estimator: Values | None, pool: int) -> Job:
        prediction = next(job for job in predictions if job.spec["set"] == name)
        request, changes = _copy_request(estimator, pool, kind)
        identity = {"kind": "vary", "of": prediction.key, **_keyed(request), "changes": changes}
        spec = {**prediction.spec, **request}
        labels = {**prediction.labels, "role": "vary"}
        return Job(digest(identity), spec, labels, (), "vary")

    return vary
