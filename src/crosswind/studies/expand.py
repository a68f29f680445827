"""The jobs of one point of a study: their specifications, keys, labels and needs.

A row of the study's tables is a `score`. It needs predictions for every test set, and those need a `fit`, or a model that nobody
trains here. An `estimate` of accuracy needs the predictions for a labelled validation set and for one test set. Each job is keyed
by what it reads and by nothing else: a fit does not know the test sets, and the predictions of a model that is not trained are made
once for all shifts and seeds whose set has the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from crosswind.core.errors import InputError
from crosswind.core.knobs import resolve
from crosswind.core.registry import facts
from crosswind.core.types import Job, digest
from crosswind.evaluation.metrics import METRICS
from crosswind.shifts.split import LAWS
from crosswind.studies.axes import MethodEntry, Point
from crosswind.studies.build import PATH_KNOBS
from crosswind.studies.spec import Study
from crosswind.training.settings import ModelSpec, TrainingSettings, base_settings, keyed

SCORES = 1
"""The version of what a score writes: raised when one of our metrics changes, so that scores, and nothing else, are made anew."""

Values = Mapping[str, Any]


def jobs_of(
    study: Study,
    point: Point,
    common: Values,
    common_key: Values,
    models: Mapping[str, Values],
    methods: Mapping[str, MethodEntry],
    own: Mapping[str, Values],
    estimators: Mapping[str, Values],
) -> Iterator[Job]:
    """The jobs of one point, each after those that it needs.

    `common` is what the jobs of the point share, `common_key` the same as it stands in keys, `own` what each method sets for
    itself.
    """
    trained = {label: model for label, model in models.items() if "files" not in model}
    heads = {label: _Head(common, common_key, own[label], study.keep) for label in methods}
    base_head = _Head(common, common_key, {}, "all" if study.keep == "all" else "selected")
    place = {"data": point.data, "shift": point.shift, "size": point.size}
    split_seed = {"split_seed": common["split"]["split_seed"]}
    source = source_set({name: item["role"] for name, item in common["split"]["sets"].items()})
    told: set[str] = set()
    for seed, (model_label, model), method in product(study.seed_list, trained.items(), methods.values()):
        if not method.on(model_label):
            continue
        head = heads[method.label]
        for point_label, knobs, training in method.points:
            labels = {**place, "model": model_label, "method": method.label, "point": point_label, "seed": seed, **split_seed}
            needed: list[str] = []
            if method.facts.needs is not None and method.facts.needs.base is not None:
                base = _base_fit(method, knobs, training, base_head, model, {**labels, "point": ""})
                needed = [base.key]
                if base.key not in told:
                    told.add(base.key)
                    yield base
            named = {"name": method.facts.name, "version": method.facts.version, "knobs": knobs}
            fit = _fit(head, {"method": named, "model": model, "training": training, "seed": seed}, labels, needed)
            if fit.key not in told:
                told.add(fit.key)
                yield fit
            predictions = list(head.predictions(fit, labels))
            estimates = [_estimate(*pair, source, [fit], {}, fit.key) for pair in product(estimators.items(), predictions)]
            yield from (job for job in (*predictions, *estimates) if job.key not in told)
            told.update(job.key for job in (*predictions, *estimates))
            yield _score([fit, *predictions, *estimates], {}, labels, fit.key)
    given = {label: model for label, model in models.items() if "files" in model}
    for seed, (label, model) in product(study.seed_list, given.items()):
        labels = {**place, "method": label, "point": "", "seed": seed, **split_seed}
        predictions = list(_of_given(common, common_key, model, seed, {**labels, "model": label}))
        rows = {"data": common["data"], "main": common["main"], "split": common["split"], "seed": seed}
        labelled = [job for job in predictions if job.spec["set"] == source]
        tested = [job for job in predictions if common["split"]["sets"][job.spec["set"]]["role"] == "test"]
        estimates = [_estimate(*pair, source, labelled, dict(rows), "") for pair in product(estimators.items(), tested)]
        yield from (job for job in (*predictions, *estimates) if job.key not in told)
        told.update(job.key for job in (*predictions, *estimates))
        rows["rules"] = list(study.selection)
        # Beside the methods of every trained model, so that each table has it; one score serves them all.
        for beside in trained or [label]:
            yield _score([*predictions, *estimates], rows, {**labels, "model": beside}, "")


def source_set(roles: Mapping[str, str]) -> str:
    """The set whose labels estimators learn from: `validation`, else the first of that role; "" where there is none."""
    named = [name for name, role in roles.items() if role == "validation"]
    return "validation" if "validation" in named else next(iter(named), "")


class _Head:
    """What the fits of one method share at a point, and the predictions from them.

    Hashed once: planning 10,000 rows stays well under two seconds.
    """

    def __init__(self, common: Values, common_key: Values, overrides: Values, keep: str) -> None:
        split = {**common["split"], **overrides}
        sets = split["sets"]
        reads_tests = split["sampler"] == "reweight"  # to the test law
        fitted = {name: item for name, item in sets.items() if item["role"] != "test" or reads_tests}
        self.spec = {**common, "data": _used(common, fitted), "split": {**split, "sets": fitted}, "keep": keep}
        own = {**common_key, "data": _used(common_key, fitted, common["main"])}
        self.key = digest({**own, "split": self.spec["split"], "keep": keep})
        self._tests = []
        for name, item in sets.items():
            if item["role"] == "test":
                data = {source: common["data"][source] for source in _used(common, {name: item}) if source not in self.spec["data"]}
                keyed = {source: common_key["data"][source] for source in data}
                self._tests.append((name, {"set": name, "item": item, "data": data}, {"set": name, "item": item, "data": keyed}))

    def predictions(self, fit: Job, labels: Values) -> Iterator[Job]:
        """What the fitted model says of every test set."""
        for name, spec, told in self._tests:
            key = digest({"kind": "predict", "fit": fit.key, **told})
            yield Job(key, spec, {**labels, "role": "predict", "set": name}, (fit.key, *fit.needs), "predict", fit.key)


def _used(common: Values, sets: Values, main: str = "") -> dict[str, Any]:
    """The data sets that training and the sets read."""
    names = {main or common["main"], *(item["source"] for item in sets.values() if item["source"] is not None)}
    return {name: values for name, values in common["data"].items() if name in names}


def _fit(head: _Head, tail: Values, labels: Values, needs: Sequence[str], role: str = "fit") -> Job:
    # What a fit starts from decides its numbers as much as its own settings do.
    told = {"head": head.key, **tail, "training": keyed(tail["training"]), "model": ModelSpec(**tail["model"]).identity()}
    if needs:
        told["needs"] = list(needs)
    return Job(digest(told), {**head.spec, **tail}, {**labels, "role": role}, tuple(needs), "fit")


def _base_fit(method: MethodEntry, knobs: Values, training: Values, head: _Head, model: Values, labels: Values) -> Job:
    needs = method.facts.needs
    assert needs is not None and needs.base is not None
    known = facts("methods", needs.base.method)
    settings = base_settings(TrainingSettings(**training), needs, knobs, f"methods.{method.label}")
    defaults = resolve(known.knobs, {}, "", f"method {known.name!r}")
    named = {"name": known.name, "version": known.version, "knobs": defaults}
    tail = {"method": named, "model": model, "training": dict(vars(settings)), "seed": labels["seed"]}
    return _fit(head, tail, {**labels, "method": f"{known.name} (base)"}, [], "base")


def _score(needs: Sequence[Job], spec: Values, labels: Values, follows: str) -> Job:
    keys = [job.key for job in needs]
    told = {name: value for name, value in spec.items() if name != "data"}
    metrics = [[item.name, item.version] for item in METRICS.values() if item.measure is not None]
    return Job(
        digest({"kind": "score", "version": [SCORES, *metrics], "needs": keys, **told}), spec, labels, tuple(keys), "score", follows
    )


def _estimate(named: tuple[str, Values], prediction: Job, source: str, labelled: Sequence[Job], rows: Values, follows: str) -> Job:
    """An estimator's accuracy for the set of `prediction`, from it and from the `labelled` predictions of the set `source`."""
    label, estimator = named
    needs = (*(job.key for job in labelled), prediction.key)
    spec = {"estimator": estimator, "label": label, "source": source, "set": prediction.spec["set"], **rows}
    told = {name: value for name, value in spec.items() if name != "data"}
    labels = {**prediction.labels, "role": "estimate", "estimator": label}
    return Job(digest({"kind": "estimate", "needs": needs, **told}), spec, labels, needs, "estimate", follows)


def _of_given(common: Values, common_key: Values, model: Values, seed: int, labels: Values) -> Iterator[Job]:
    """The predictions of a model that is not trained here, for every set of a point."""
    identity = {"name": model["name"], "version": model["version"], "knobs": model["keyed"], "files": model["files"]}
    asked = {"name": model["name"], "knobs": model["knobs"]}
    for name, item in common["split"]["sets"].items():
        split = {**common["split"], "sets": {name: item}}
        data = _used(common, {name: item})
        spec = {"set": name, "model": asked, "data": data, "main": common["main"], "split": split, "seed": seed}
        told = {"set": name, "data": {source: common_key["data"][source] for source in data}, "main": common["main"]}
        told["split"] = _deciding(split, item)
        if item["role"] != "test":
            told["seed"] = seed
        if "pictures" in common_key:
            told["pictures"] = common_key["pictures"]
        key = digest({"kind": "predict", "model": identity, **told})
        yield Job(key, spec, {**labels, "role": "predict", "set": name}, (), "predict")


def _deciding(split: Values, item: Values) -> dict[str, Any]:
    """Of a split what decides the rows of one of its sets, but not their groups."""
    names = ["label", "attributes", "roles", "sets", "split_seed", "overlap"]
    if item["law"] in LAWS or item["role"] != "test":
        names += ["shift", "draw", "dataset_size"]
    return {name: split[name] for name in names if name in split}


def check_distinct(jobs: Sequence[Job]) -> None:
    """Refuse two methods of a study that are one: a table would compare a row with itself."""
    seen: dict[str, Job] = {}
    for job in jobs:
        if job.kind != "score":
            continue
        other = seen.setdefault(job.key, job)
        if other is not job:
            first, second = (
                f"{item.labels['data']}/{item.labels['shift']}/{item.labels['size']}/{item.labels['method']}"
                for item in (other, job)
            )
            if (other.labels["data"], other.labels["method"]) == (job.labels["data"], job.labels["method"]):
                continue  # two shifts or sizes that draw alike: one score serves both rows of the table
            raise InputError("methods", f"{first} and {second} describe the same run; remove one")


def without_paths(values: Values) -> dict[str, Any]:
    """A data set's values without the places where its files lie: a key says what the data is, not where."""
    options = {name: value for name, value in values["options"].items() if name not in PATH_KNOBS}
    told = {**values, "options": options}
    if "clusters" in values:
        told["clusters"] = {name: value for name, value in values["clusters"].items() if name != "features"}
    return told
