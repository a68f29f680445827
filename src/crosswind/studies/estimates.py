"""The jobs by which a study estimates accuracies: what a model says near the rows of a set, what it
says of a pool, the estimates.

A `vary` job is what one model says of changed copies of a set's rows: of their neighbours, as some
estimators read them, or of the labelled source under every change of the pool. Each is keyed by the
model and the changes, so that several estimators share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

from crosswind.core.errors import InputError
from crosswind.core.knobs import Access
from crosswind.core.registry import facts, load
from crosswind.core.types import InputSpec, Job, digest
from crosswind.data.attributes import transform_facts
from crosswind.evaluation.points import LEAST, LEAST_FOR_INTERVAL
from crosswind.studies.spec import Study
from crosswind.transforms.base import Transform
from crosswind.transforms.neighbourhood import (
    NEIGHBOURHOODS,
    NEIGHBOURS,
    POOL,
    TEXT_POOL,
    neighbourhood,
    pool_of_kind,
)

Values = Mapping[str, Any]
Vary = Callable[[str, Values | None, int], Job]
"""From a set, the estimator whose neighbourhood is asked for or None, and the rows of a pool or 0
to the job that answers for the copies."""


def source_set(roles: Mapping[str, str]) -> str:
    """The set whose labels estimators learn from: `validation`, else the first of that role; ""
    where there is none."""
    named = [name for name, role in roles.items() if role == "validation"]
    return "validation" if "validation" in named else next(iter(named), "")


def access_of(estimator: Values) -> Access:
    """What an estimator of a study reads."""
    return facts("estimators", estimator["name"]).access or Access()


def check_estimators(study: Study, estimators: Mapping[str, Values], networks: int) -> None:
    """Refuse what an estimator of a study of so many networks cannot be given. Raises
    `InputError`."""
    tests = sum(item.role == "test" for item in study.sets.values())
    for label, estimator in estimators.items():
        access, path = access_of(estimator), f"estimators.{label}"
        if access.models > 1:
            raise InputError(
                path,
                f"reads what {access.models} models or more say of the same rows, and a study hands"
                " it one",
            )
        if access.features or access.weights:
            what = "the network's weights" if access.weights else "features"
            raise InputError(path, f"reads {what}, which the predictions of a study do not hold")
        # Without a pool a measure tells no accuracy, but ranks networks on a set, and sets by a
        # network.
        if access.pool and not study.pool_rows and networks < LEAST_FOR_INTERVAL and tests < LEAST:
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
    study: Study, estimators: Mapping[str, Values], data: str, inputs: InputSpec | None
) -> None:
    """Refuse changed copies that inputs of this kind do not have. Raises `InputError`."""
    if inputs is None:
        return
    if estimators and study.pool_rows and not pool_of_kind(inputs.kind):
        raise InputError(
            "pool_rows",
            f"shows rows under changes of images or texts, and data.{data} has {inputs}; set it"
            " to 0",
        )
    for label, estimator in estimators.items():
        near = access_of(estimator).neighbourhood
        if near and neighbourhood(near).takes != inputs.kind:
            fitting = [name for name, item in NEIGHBOURHOODS.items() if item.takes == inputs.kind]
            problem = (
                f"its neighbours are changed {neighbourhood(near).takes}s, and data.{data} has"
                f" {inputs}"
            )
            raise InputError(f"estimators.{label}", problem, fitting)
        check_handed(f"estimators.{label}", access_of(estimator), estimator["knobs"])


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
        made: list[Job] = []
        for (label, estimator), prediction in product(self.estimators.items(), predictions):
            near = access_of(estimator).neighbourhood
            reads = {"target": vary(prediction.spec["set"], estimator, 0)} if near else {}
            if near and (
                self.pool_rows or not access_of(estimator).pool
            ):  # a measure alone reads no source
                reads["source"] = vary(self.source, estimator, 0)
            if self.pool_rows:
                reads["pool"] = vary(self.source, None, self.pool_rows)
                if near:
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
            told = {
                "kind": "estimate",
                "version": VERSION,
                "needs": needs,
                **{k: v for k, v in spec.items() if k != "data"},
            }
            if access_of(estimator).handed:  # what they make is in the keys of what is needed
                own = {
                    k: v
                    for k, v in estimator["knobs"].items()
                    if k not in access_of(estimator).handed
                }
                told["estimator"] = {**estimator, "knobs": own}
            spec |= {"estimator_near": near, "inputs": self.kind}
            spec["reads"] = {
                "predicted": prediction.key,
                **{name: job.key for name, job in reads.items()},
            }
            labels = {**prediction.labels, "role": "estimate", "estimator": label}
            made += [*reads.values(), Job(digest(told), spec, labels, needs, "estimate", follows)]
        return made


VERSION = 6
"""Of what an estimate writes: raised when the same answers give another interval, or more is
written."""


def _said(estimator: Values | None, pool: int, kind: str) -> tuple[dict[str, Any], str]:
    """What a `vary` job does, as it stands in its specification, and the hash of what makes its
    copies."""
    near = "" if estimator is None else access_of(estimator).neighbourhood
    count = (
        estimator["knobs"].get("neighbours", NEIGHBOURS)
        if estimator is not None and near
        else NEIGHBOURS
    )
    said: dict[str, Any] = {"near": near, "pool": pool, "neighbours": count}
    if estimator is None or not access_of(estimator).handed:
        return said, _changes(near, pool, kind)
    own, transform = _handed(access_of(estimator), estimator["knobs"])
    return {**said, "handed": own}, digest([_changes(near, pool, kind), transform.identity])


def _keyed(said: Values) -> dict[str, Any]:
    """Without what may name a place: the hash of the changes tells it by its contents."""
    return {name: value for name, value in said.items() if name != "handed"}


def check_handed(path: str, access: Access, knobs: Values) -> None:
    """Refuse, by an `InputError` on a field of `path`, an estimator whose neighbours cannot be
    made."""
    if access.handed:
        try:
            _handed(access, knobs)[1].check()
        except InputError as error:
            raise InputError(
                f"{path}.{error.field.partition('.')[2]}", error.problem, error.choices
            ) from None


def _handed(access: Access, knobs: Values) -> tuple[dict[str, Any], Transform]:
    """The knobs of an estimator that are those of its neighbourhood's transform, and the transform.
    Raises `InputError`."""
    own, near = {name: knobs[name] for name in access.handed}, neighbourhood(access.neighbourhood)
    known = transform_facts(near.transform)
    return own, load(known.room, near.transform)(**{**near.knobs(), **own})


@cache
def _changes(near: str, pool: int, kind: str) -> str:
    """Transforms with their versions and settings, so that answers for other copies are not taken
    for those for these."""
    told: list[Any] = ["rows by family"] if pool else []
    for item in pool_of_kind(kind) if pool else ():
        told.append(
            [
                item.transform,
                _version(item.transform),
                dict(item.knobs),
                *([item.family] if item.of else []),
            ]
        )
    if near:
        own = neighbourhood(near)
        told.append([own.transform, _version(own.transform), own.knobs(), own.knobs(large=True)])
    return digest(told)


def _version(transform: str) -> int:
    return transform_facts(transform).version


def vary_of_fit(fit: Job, tests: Sequence[Job], labels: Values, kind: str) -> Vary:
    """The `vary` jobs of a model that a study trains. `tests`: its predictions for the test sets;
    `kind`: of the inputs."""

    def vary(name: str, estimator: Values | None, pool: int) -> Job:
        of = {job.spec["set"]: job for job in tests}.get(name)
        said, changes = _said(estimator, pool, kind)
        told = {
            "kind": "vary",
            "fit": fit.key,
            "set": name,
            **_keyed(said),
            "changes": changes,
            "of": None if of is None else of.key,
        }
        spec = {
            "set": name,
            **said,
            "item": None if of is None else of.spec["item"],
            "data": {} if of is None else of.spec["data"],
        }
        needs = (fit.key, *fit.needs)
        return Job(
            digest(told), spec, {**labels, "role": "vary", "set": name}, needs, "vary", fit.key
        )

    return vary


def vary_of_given(predictions: Sequence[Job], kind: str) -> Vary:
    """The `vary` jobs of a model that is not trained here. `predictions`: its jobs for every set;
    `kind`: of the inputs."""

    def vary(name: str, estimator: Values | None, pool: int) -> Job:
        of = next(job for job in predictions if job.spec["set"] == name)
        said, changes = _said(estimator, pool, kind)
        told = {"kind": "vary", "of": of.key, **_keyed(said), "changes": changes}
        return Job(digest(told), {**of.spec, **said}, {**of.labels, "role": "vary"}, (), "vary")

    return vary
