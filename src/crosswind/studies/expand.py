"""The jobs of one point of a study: their specifications, keys, labels and needs.

A row of the study's tables is a `score`. It needs predictions for every test set, and those need a
`fit`, or a model that nobody trains here. An `estimate` of accuracy needs the predictions for a
labelled validation set and for one test set. Each job is keyed by what it reads and by nothing
else. A fit does not know the test sets. The predictions of a model that is not trained are made
once for all shifts and seeds whose set has the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import product
from typing import Any

from crosswind.core.errors import InputError
from crosswind.core.knobs import resolve
from crosswind.core.registry import facts
from crosswind.core.types import DigestPattern, Job, canonical, canonical_values, digest
from crosswind.evaluation.metrics import METRICS
from crosswind.shifts.split import LAWS
from crosswind.studies.axes import MethodEntry, StudyPoint
from crosswind.studies.estimates import EstimateJobs, vary_of_external, vary_of_fit
from crosswind.studies.halving import rungs_of
from crosswind.studies.job_specs import PredictSpec
from crosswind.studies.spec import Study
from crosswind.training.settings import ModelSpec, TrainingSettings, base_settings, keyed

PROMOTIONS = 1
"""The version of the rule by which points of a search go on."""
SCORES = 2
"""The version of what a score writes: raised when one of our metrics changes, so that scores, and
nothing else, are made anew."""

Values = Mapping[str, Any]


def jobs_of(
    study: Study,
    point: StudyPoint,
    common: Values,
    common_key: Values,
    models: Mapping[str, Values],
    methods: Mapping[str, MethodEntry],
    estimators: Mapping[str, Values],
    kind: str,
) -> Iterator[Job]:
    """The jobs of one point, each after those that it needs.

    `common` is what the jobs of the point share, `common_key` the same as it stands in keys.
    `kind`: of the inputs.
    """
    trained = {label: model for label, model in models.items() if "files" not in model}
    heads = {
        label: _Head(common, common_key, method.overrides, study.keep)
        for label, method in methods.items()
    }
    kept = "all" if study.keep == "all" else "selected"
    base_head = _Head(common, common_key, {}, kept)
    rung_heads = {
        label: _Head(common, common_key, method.overrides, kept)
        for label, method in (methods.items() if _halves(study) else ())
    }
    sets, split_seed = common["split"]["sets"], common["split"]["split_seed"]
    point_labels = {"data": point.data, "shift": point.shift, "size": point.size}
    settings_of = cache(lambda model, method: _settings_of(methods[method], model, trained[model]))
    score_pattern = _score_pattern({})
    estimate_jobs = EstimateJobs(
        estimators,
        study.pool_rows,
        {name: set_values["role"] for name, set_values in sets.items()},
        kind,
    )
    yielded: set[str] = set()

    def new(*jobs: Job) -> Iterator[Job]:
        for job in jobs:
            if job.key not in yielded:
                yielded.add(job.key)
                yield job

    for seed, model_label, label in product(study.seed_list, trained, methods):
        trials: list[_Trial] = []
        for point_label, settings, base_settings_of_point in settings_of(model_label, label):
            labels = {
                **point_labels,
                "model": model_label,
                "method": label,
                "point": point_label,
                "seed": seed,
                "split_seed": split_seed,
            }
            bases = []
            if base_settings_of_point is not None:
                base_name = f"{base_settings_of_point.method['name']} (base)"
                base_labels = {**labels, "method": base_name, "point": ""}
                bases.append(base_head.fit(_Trial(base_settings_of_point, base_labels, ()), "base"))
            trials.append(_Trial(settings, labels, bases))
        fits, steps = _fits(study, heads[label], rung_heads.get(label), trials)
        if steps:
            yield from new(*(base for trial in trials for base in trial.bases), *steps)
        for trial, fit in zip(trials, fits, strict=True):
            predictions = heads[label].predictions(fit, trial.labels, trial.bases)
            vary = vary_of_fit(fit, predictions, trial.labels, kind)
            estimates = estimate_jobs.jobs([fit], predictions, {}, fit.key, vary)
            yield from new(*trial.bases, fit, *predictions, *estimates)
            needs = [fit, *predictions, *estimates]
            yield _score(needs, {}, trial.labels, fit.key, score_pattern)
    for seed, (label, model) in product(
        study.seed_list, ((label, models[label]) for label in models if label not in trained)
    ):
        labels = {
            **point_labels,
            "model": label,
            "method": label,
            "point": "",
            "seed": seed,
            "split_seed": split_seed,
        }
        predictions = [
            _external_prediction(common, common_key, model, name, labels) for name in sets
        ]
        rows = {
            "data": common["data"],
            "main": common["main"],
            "split": common["split"],
            "seed": seed,
        }
        labelled = [job for job in predictions if job.spec["set"] == estimate_jobs.source]
        tested = [job for job in predictions if sets[job.spec["set"]]["role"] == "test"]
        estimates = estimate_jobs.jobs(
            labelled, tested, rows, "", vary_of_external(predictions, kind)
        )
        yield from new(*predictions, *estimates)
        needs = [*predictions, *estimates]
        spec = {**rows, "rules": list(study.selection)}
        pattern = _score_pattern(spec)
        # Beside the methods of every trained model, so that each table has it; one score serves
        # them all.
        for beside in trained or [label]:
            yield _score(needs, spec, {**labels, "model": beside}, "", pattern)


@dataclass(frozen=True, eq=False)
class _FitSettings:
    """The settings of a fit at a point of a method's grid or search, whatever its seed."""

    method: Values
    model: Values
    training: dict[str, Any]

    @cached_property
    def key_texts(self) -> dict[str, str]:
        """The settings that decide the numbers of a fit, as they stand in keys."""
        return canonical_values(
            {
                "method": self.method,
                "model": ModelSpec(**self.model).identity(),
                "training": keyed(self.training),
            }
        )


@dataclass(frozen=True)
class _Trial:
    """One point of a method's grid or search with one seed, and what it starts from."""

    settings: _FitSettings
    labels: Values
    bases: Sequence[Job]


def _settings_of(
    method: MethodEntry, model_label: str, model: Values
) -> list[tuple[str, _FitSettings, _FitSettings | None]]:
    """The settings of each point of a method by its label, and those of the run that it starts
    from; none where the method is not run with the model."""
    settings: list[tuple[str, _FitSettings, _FitSettings | None]] = []
    # A model that is trained at once has no steps that several devices could share.
    devices = {"devices": 1} if _is_trained_at_once(model) else {}
    for point_label, knobs, training_settings in method.points if method.on(model_label) else ():
        training = {**training_settings, **devices}
        values = _method_values(method.facts, knobs)
        base = _base_settings(method, knobs, model, training)
        settings.append((point_label, _FitSettings(values, model, training), base))
    return settings


def _base_settings(
    method: MethodEntry, knobs: Values, model: Values, training: Values
) -> _FitSettings | None:
    """The base run that a method starts from, or None; the same for all points whose base is alike."""
    needs = method.facts.needs
    if needs is None or needs.base is None:
        return None
    base_facts = facts("methods", needs.base.method)
    settings = base_settings(TrainingSettings(**training), needs, knobs, f"methods.{method.label}")
    defaults = resolve(base_facts.knobs, {}, "", f"method {base_facts.name!r}")
    return _FitSettings(_method_values(base_facts, defaults), model, dict(vars(settings)))


def _halves(study: Study) -> bool:
    return study.search is not None and study.search.halving is not None


def _is_trained_at_once(model: Values) -> bool:
    form = facts("models", model["name"]).built
    return form is not None and not form.gradient


def _fits(
    study: Study, head: _Head, rung_head: _Head | None, trials: Sequence[_Trial]
) -> tuple[list[Job], list[Job]]:
    """The fit of each trial, and before them the jobs of the rungs of a search that halves.

    Points that are trained at once, and a point alone, are not compared at rungs.
    """
    if rung_head is None or len(trials) < 2 or _is_trained_at_once(trials[0].settings.model):
        return [head.fit(trial, "fit", trial.bases) for trial in trials], []
    assert study.search is not None and study.search.halving is not None
    rungs = rungs_of(len(trials), study.search.halving.factor, study.search.halving.rungs)
    steps: list[Job] = []
    previous: list[Job] = []
    promotion: list[Job] = []
    for share, promoted in zip(rungs.shares, rungs.promoted, strict=True):
        previous = [
            rung_head.fit(
                trial,
                "rung",
                [*promotion, *previous[position : position + 1], *trial.bases],
                {"share": share, **({"promotion": position} if promotion else {})},
            )
            for position, trial in enumerate(trials)
        ]
        promotion = [_promotion(study.selection[0], promoted, previous)]
        steps += [*previous, *promotion]
    return [
        head.fit(
            trial,
            "fit",
            [*promotion, previous[position], *trial.bases],
            {"promotion": position},
        )
        for position, trial in enumerate(trials)
    ], steps


def _promotion(rule: str, places: int, fits: Sequence[Job]) -> Job:
    """The choice of the fits of a rung that go on."""
    keys = tuple(fit.key for fit in fits)
    spec = {"rule": rule, "places": places}
    key = digest({"kind": "promote", "version": PROMOTIONS, "needs": keys, **spec})
    labels = {**fits[0].labels, "point": "", "role": "promote"}
    return Job(key, spec, labels, keys, "promote")


class _Head:
    """The values that the fits of one method share at a point, and the predictions from them.

    Hashed once: planning 10,000 rows stays well under two seconds.
    """

    def __init__(self, common: Values, common_key: Values, overrides: Values, keep: str) -> None:
        split = {**common["split"], **overrides}
        sets = split["sets"]
        reads_tests = split["sampler"] == "reweight"  # to the test law
        fitted = {
            name: set_values
            for name, set_values in sets.items()
            if set_values["role"] != "test" or reads_tests
        }
        self.spec = {
            **common,
            "data": _data_of_sets(common, fitted),
            "split": {**split, "sets": fitted},
            "keep": keep,
        }
        self.key = digest(
            {
                **common_key,
                "data": _data_of_sets(common_key, fitted),
                "split": self.spec["split"],
                "keep": keep,
            }
        )
        self._patterns: dict[tuple[_FitSettings, tuple[str, ...]], DigestPattern] = {}
        self._tests = []
        for name, set_values in sets.items():
            if set_values["role"] == "test":
                data = {
                    key: value
                    for key, value in _data_of_sets(common, {name: set_values}).items()
                    if key not in self.spec["data"]
                }
                spec = PredictSpec(name, set_values, data).stored()
                keyed_data = {key: common_key["data"][key] for key in data}
                identity = {"kind": "predict", **spec, "data": keyed_data}
                self._tests.append((spec, DigestPattern(canonical_values(identity), ["fit"])))

    def fit(
        self, trial: _Trial, role: str, needs: Sequence[Job] = (), rung: Values | None = None
    ) -> Job:
        """The training of a model; what it starts from decides its numbers as much as its own
        settings do.

        `rung`: the `share` of the steps after which it pauses, and its position among those of the
        `promotion` that it needs first, before the fit that it goes on from.
        """
        settings, seed = trial.settings, trial.labels["seed"]
        spec = {
            **self.spec,
            "method": settings.method,
            "model": settings.model,
            "training": settings.training,
            "seed": seed,
        }
        keys = tuple([job.key for job in needs])
        varied = {"seed": _text_of_seed(seed)}
        if rung is not None:
            spec["rung"] = dict(rung)
            varied = {"rung": canonical(spec["rung"]), **varied}
        if needs:
            varied = {"needs": _text_of_keys(keys), **varied}
        key = self._pattern(settings, tuple(varied)).of(*varied.values())
        return Job(key, spec, {**trial.labels, "role": role}, keys, "fit")

    def _pattern(self, settings: _FitSettings, varied: tuple[str, ...]) -> DigestPattern:
        """The keys of fits with these settings, but for the names that are `varied`."""
        pattern = self._patterns.get((settings, varied))
        if pattern is None:
            texts = {**settings.key_texts, "head": canonical(self.key)}
            pattern = self._patterns[settings, varied] = DigestPattern(texts, varied)
        return pattern

    def predictions(self, fit: Job, labels: Values, bases: Sequence[Job]) -> list[Job]:
        """The answers of the fitted model for every test set."""
        keys = (fit.key, *[base.key for base in bases])
        fit_text = canonical(fit.key)
        return [
            Job(
                pattern.of(fit_text),
                spec,
                {**labels, "role": "predict", "set": spec["set"]},
                keys,
                "predict",
                fit.key,
            )
            for spec, pattern in self._tests
        ]


@lru_cache(typed=True)
def _text_of_seed(seed: Any) -> str:
    return canonical(seed)


def _text_of_keys(keys: Sequence[str]) -> str:
    """The `canonical` text of keys, which are hexadecimal digits."""
    return '["' + '","'.join(keys) + '"]' if keys else "[]"


def _data_of_sets(common: Values, sets: Values) -> dict[str, Any]:
    """The data sets that training and the sets read."""
    names = {common["main"], *(set_values["source"] for set_values in sets.values())}
    return {name: values for name, values in common["data"].items() if name in names}


def _method_values(method_facts: Any, knobs: Values) -> dict[str, Any]:
    return {"name": method_facts.name, "version": method_facts.version, "knobs": knobs}


def _score_pattern(spec: Values) -> DigestPattern:
    """The keys of scores with this specification, but for what they need."""
    metrics = [
        [metric.name, metric.version] for metric in METRICS.values() if metric.measure is not None
    ]
    # Data count by what is predicted of them.
    identity = {"kind": "score", "version": [SCORES, *metrics]} | {
        name: value for name, value in spec.items() if name != "data"
    }
    return DigestPattern(canonical_values(identity), ["needs"])


def _score(
    needs: Sequence[Job], spec: Values, labels: Values, follows: str, pattern: DigestPattern
) -> Job:
    keys = tuple([job.key for job in needs if job.kind != "vary"])
    return Job(pattern.of(_text_of_keys(keys)), spec, labels, keys, "score", follows)


def _external_prediction(
    common: Values, common_key: Values, model: Values, name: str, labels: Values
) -> Job:
    """The predictions of a model that is not trained here for a set; keyed by what decides its
    rows, but not their groups."""
    sets, seed = common["split"]["sets"], labels["seed"]
    set_values = sets[name]
    validated = any(each["role"] != "test" for each in sets.values())
    split = {**common["split"], "sets": {name: set_values}}
    shared = {"set": name, "main": common["main"]}
    spec = {
        **shared,
        "model": {"name": model["name"], "knobs": model["knobs"]},
        "read": model["read"],
        "data": _data_of_sets(common, {name: set_values}),
        "split": split,
        "seed": seed,
        # Rows as those of training show the order of the model's outputs; where there are none,
        # those of the tests do.
        "shows_order": set_values["role"] != "test" or not validated,
    }
    deciding = ["label", "attributes", "roles", "sets", "split_seed", "overlap", "deal"]
    if set_values["law"] in LAWS or set_values["role"] != "test":
        deciding += ["shift", "draw", "dataset_size"]
    identity = {
        **shared,
        "kind": "predict",
        "model": {
            "name": model["name"],
            "version": model["version"],
            "knobs": model["keyed"],
            "files": model["files"],
        },
        "data": {key: common_key["data"][key] for key in spec["data"]},
        "split": {key: split[key] for key in deciding if key in split},
    }
    if set_values["role"] != "test":
        identity["seed"] = seed
    if "pictures" in common_key:
        identity["pictures"] = common_key["pictures"]
    return Job(digest(identity), spec, {**labels, "role": "predict", "set": name}, (), "predict")


def check_distinct(jobs: Sequence[Job]) -> None:
    """Refuse two methods of a study that are one: a table would compare a row with itself."""
    labels_by_key: dict[str, Values] = {}
    for job in jobs:
        if job.kind == "score":
            first_labels = labels_by_key.setdefault(job.key, job.labels)
            # Two shifts or sizes may draw alike: one score then serves both rows of the table.
            if (first_labels["data"], first_labels["method"]) != (
                job.labels["data"],
                job.labels["method"],
            ):
                first, second = (
                    "/".join(labels[key] for key in ("data", "shift", "size", "method"))
                    for labels in (first_labels, job.labels)
                )
                raise InputError(
                    "methods", f"{first} and {second} describe the same run; remove one"
                )
