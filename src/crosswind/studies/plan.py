"""From a study to its runs and to the numbers that describe its splits, without training and without torch.

Everything that can be wrong with a study is found here, before any work starts: unknown names, values out of their domain,
attributes and values that the data does not have, shifts that empty the training set, needs that a method cannot have met.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from crosswind.core.errors import InputError, unknown
from crosswind.core.registry import facts, import_named, load
from crosswind.core.types import Job
from crosswind.data.attributes import spelled
from crosswind.data.dataset import AttributedDataset
from crosswind.models.form import check_form
from crosswind.shifts.base import Shift, plain_number
from crosswind.shifts.split import LAWS, parse_sampler, plan_counts
from crosswind.studies.axes import MethodEntry, Point, estimators_of, methods_of, models_of, points_of
from crosswind.studies.build import build_dataset, build_split_plan, data_values, law_parts, shift_parts
from crosswind.studies.claims import check_claims
from crosswind.studies.expand import check_distinct, jobs_of, source_set, without_paths
from crosswind.studies.spec import DataSpec, SetSpec, Study
from crosswind.studies.split_counts import DrawCounts, DrawReport
from crosswind.studies.store import ROWS
from crosswind.training.requirements import refuse, warnings_of
from crosswind.training.selection import RULES

FORMAT = 2
_FOLLOWING = 2  # the version of what sets take from training; in the keys of the runs that have such a set
DRAWS = ("equal", "all")


@dataclass(frozen=True)
class Plan:
    """A study's jobs, in the order in which they are started, and what its shifts draw."""

    study: Study
    jobs: tuple[Job, ...]
    draws: tuple[DrawReport, ...]
    warnings: tuple[str, ...] = field(default=())

    @property
    def runs(self) -> tuple[Job, ...]:
        """The runs, as a study counts them: the jobs that are rows of its tables."""
        return tuple(job for job in self.jobs if job.kind == ROWS)

    @property
    def validation(self) -> dict[str, str]:
        """The law of every validation set, as the study names it; one that has no name is "its own"."""
        sets = {name: item.law for name, item in self.study.sets.items() if item.role == "validation"}
        return {name: law if isinstance(law, str) else "its own" for name, law in sets.items()}

    def to_json(self) -> dict[str, Any]:
        """What `crosswind plan --json` prints."""
        return {
            "study": self.study.name,
            "validation": self.validation,
            "draws": [draw.to_json() for draw in self.draws],
            "runs": len(self.runs),
            "warnings": list(self.warnings),
        }


def make_plan(study: Study, folder: Path | None = None) -> Plan:
    """Plan a study; `folder` is the study file's, where relative data paths are looked for first.

    Raises `InputError`, `DataError` or `NeedsError` with one sentence.
    """
    import_named()  # a score's key names the metrics
    models = models_of(study, folder)
    trained = {label: model for label, model in models.items() if "files" not in model}
    methods, estimators = methods_of(study), estimators_of(study)
    both = next((label for label in models if label in methods and label not in trained), None)
    if both is not None:
        raise InputError(f"models.{both}", "has the name of a method of this study; give it another")
    parse_sampler(study.sampler)
    if study.reference not in methods:
        raise unknown("reference", "method of this study", study.reference, methods)
    if study.claims:
        as_given = {label: MethodEntry(label, facts("models", models[label]["name"]), (), {}) for label in models.keys() - trained}
        check_claims(study, list(points_of(study)), models, {**as_given, **methods})
    values = {name: data_values(spec, f"data.{name}", folder) for name, spec in study.data.items()}
    datasets = {name: build_dataset(value, f"data.{name}") for name, value in values.items()}
    for name, spec in study.data.items():
        _check_data(datasets[name], spec, f"data.{name}")
    fingerprints = {name: dataset.fingerprint for name, dataset in datasets.items()}
    keyed = {name: {**without_paths(value), "fingerprint": fingerprints[name]} for name, value in values.items()}

    draws: list[DrawReport] = []
    jobs: list[Job] = []
    warnings: dict[str, dict[str, None]] = {}  # text -> the draws it is about
    equal: dict[str, int] = {}
    # A run follows these only where its study asks for them, since each may keep one more step: they are part of it.
    others_than_accuracy = [rule for rule in RULES if rule in study.selection and RULES[rule].score != "accuracy"]
    for point, split_seed in product(points_of(study), study.split_seed_list):
        data = study.data[point.data]
        if isinstance(point.draw, str) and point.draw not in DRAWS:
            raise unknown(point.fields["draw"], "draw", point.draw, [*DRAWS, "a number of rows a cell", "{total: rows}"])
        if point.draw == "equal":
            if point.data not in equal:
                equal[point.data] = _equal_rows(study, point, datasets)
            point = replace(point, draw={"total": equal[point.data]})
        split, fields = _split_values(study, data, point, split_seed)
        others = {item["source"] for item in split["sets"].values() if item["source"] is not None}
        used = {name: datasets[name] for name in (point.data, *sorted(others))}
        with _named(fields, point):
            counts = DrawCounts(plan_counts(used, point.data, build_split_plan(split)))
        _spell_numbers(split)
        for name in counts.follow:
            split["sets"][name]["version"] = _FOLLOWING
        _check_selection(study, point, counts)
        if estimators and not counts.set_rows.get(source_set({name: item.role for name, item in study.sets.items()})):
            raise InputError(
                "estimators", f"learn from the labels of a set of role validation with rows, and there is none ({point.title})"
            )
        _check_inputs(used, point.data, trained)
        counts.check_sampler(study.sampler, f"sampler ({point.title})")
        if split_seed == study.split_seed_list[0]:  # the others draw by the same plan
            draws.append(counts.report((point.data, point.shift, point.size), split))
        for text in counts.warnings:
            warnings.setdefault(text, {})[point.title] = None
        here = {label: _adapting(method, data, used) for label, method in methods.items() if method.at(point)}
        own = {label: _overrides_of(method, data) for label, method in here.items()}
        for method in here.values():
            where = f"methods.{method.label} ({point.title})"
            if "sampler" in own[method.label]:
                counts.check_sampler(own[method.label]["sampler"], f"methods.{method.label}.sampler ({point.title})")
            run_with = [label for label in trained if method.on(label)]
            own_split = {**split, **own[method.label]}
            for pairing in counts.pairings(
                method, own_split, used[point.data].input, {label: trained[label] for label in run_with}
            ):
                refuse(pairing, f"{where}:", where)
                for text in warnings_of(pairing):
                    warnings.setdefault(f"{method.label} {text}", {})[point.title] = None
        common = {
            "format": FORMAT,
            "data": {name: values[name] for name in used},
            "main": point.data,
            "split": split,
            "threads": 1,
        }
        if others_than_accuracy:
            common["rules"] = others_than_accuracy
        common_key = {**common, "data": {name: keyed[name] for name in used}}
        if counts.pictures is not None:
            common_key["pictures"] = counts.pictures
        jobs += jobs_of(study, point, common, common_key, models, here, own, estimators)
    check_distinct(jobs)
    told = [
        f"{next(iter(titles))}{f' and {len(titles) - 1} more' if len(titles) > 1 else ''}: {text}"
        for text, titles in warnings.items()
    ]
    return Plan(study, tuple(jobs), tuple(draws), tuple(told))


def _equal_rows(study: Study, point: Point, datasets: Mapping[str, AttributedDataset]) -> int:
    """The most training rows that every shift and split seed leaves in a data set, so that sizes do not differ between them."""
    found = []
    for shift, split_seed in product(study.shifts, study.split_seed_list):
        under = replace(point, shift=shift, draw="all", rows=None)
        split, fields = _split_values(study, study.data[point.data], under, split_seed)
        with _named(fields, under):
            found.append(plan_counts(datasets, point.data, build_split_plan(split))["train_rows"])
    return int(min(found))


# -- splits -----------------------------------------------------------------------------------------------------------------


def _split_values(study: Study, data: DataSpec, point: Point, split_seed: int) -> tuple[dict[str, Any], dict[str, str]]:
    """The split as plain values, and what errors call its parts -> where the study file has them."""
    place = f"data.{point.data}"
    fields = {**point.fields, "shift": f"shifts.{point.shift}"}
    fields |= {"label": f"{place}.label", "attributes": f"{place}.attributes", "roles": f"{place}.roles"}
    shift = shift_parts(study.shifts, point.shift, data)
    fields |= {f"shift.{position}": path for position, (path, _) in enumerate(shift)}
    sets = {name: _set_values(study, data, item, name, fields) for name, item in study.sets.items()}
    # Sets for validation first: what is tested on is dealt after them, and never changes what a fit sees.
    sets = {name: item for role in ("validation", "test") for name, item in sets.items() if item["role"] == role}
    if not any(item["role"] == "test" for item in sets.values()):
        raise InputError("sets", "no set has the role 'test', so there is nothing to evaluate on")
    values = {
        "label": data.label,
        "attributes": data.attribute_names,
        "shift": [component for _, component in shift],
        "draw": point.draw,
        "roles": data.roles.model_dump(),
        "sets": sets,
        "groups": _named_attributes(study.groups, data, "groups"),
        "environments": _named_attributes(study.environments, data, "environments"),
        "label_noise": point.noise,
        "dataset_size": point.rows,
        "sampler": study.sampler,
        "split_seed": split_seed,
    }
    if study.overlap != "refused":  # else not named at all, so that the keys of other studies stay what they were
        values["overlap"] = study.overlap
    return values, fields


def _spell_numbers(split: dict[str, Any]) -> None:
    """Spell every number of a split in one way, so that runs that are the same have the same key."""
    split["roles"] |= {name: plain_number(split["roles"][name]) for name in ("test", "validation")}
    if isinstance(split["label_noise"], Mapping) and "rate" in split["label_noise"]:
        split["label_noise"] = {**split["label_noise"], "rate": plain_number(split["label_noise"]["rate"])}
    laws = [split["shift"], *(item["law"] for item in split["sets"].values() if isinstance(item["law"], list))]
    for component in (component for law in laws for component in law):
        kind: type[Shift] = load("shifts", component["type"])
        for name in component.keys() & set(kind.numbers):
            number = plain_number(component[name])
            component[name] = number if name == "counterexamples" else _whole(number)
    for place in (split, *split["sets"].values()):
        if isinstance(place["draw"], Mapping):
            place["draw"] = {mode: _whole(plain_number(value)) for mode, value in place["draw"].items()}
        else:
            place["draw"] = _whole(place["draw"])


def _whole(value: Any) -> Any:
    """3 for 3.0, where the two mean the same; counterexamples are rows for one and a share for the other."""
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _set_values(study: Study, data: DataSpec, item: SetSpec, name: str, fields: dict[str, str]) -> dict[str, Any]:
    law: Any = item.law
    path = f"sets.{name}"
    if item.source is not None and item.source not in study.data:
        raise unknown(f"{path}.source", "data set", item.source, study.data)
    if law != "train" and (not isinstance(law, str) or law not in LAWS or law in study.shifts):
        if law == "uniform" and "uniform" not in study.shifts:
            law = []
        elif isinstance(law, str):
            parts = shift_parts(study.shifts, law, data) if law in study.shifts else _law_error(study, name, law)
            law = [component for _, component in parts]
            fields |= {f"{path}.law.{position}": where for position, (where, _) in enumerate(parts)}
        else:
            parts = law_parts(law, study.shifts, data, f"{path}.law")
            law = [component for _, component in parts]
            fields |= {f"{path}.law.{position}": where for position, (where, _) in enumerate(parts)}
    labels = None if item.labels is None else {key: None if to is None else spelled(to) for key, to in item.labels.items()}
    return {"role": item.role, "law": law, "draw": item.draw, "source": item.source, "labels": labels}


def _law_error(study: Study, name: str, law: str) -> Any:
    raise unknown(f"sets.{name}.law", "law", law, [*LAWS, "uniform", *study.shifts])


def _named_attributes(names: Sequence[str] | None, data: DataSpec, path: str) -> list[str] | None:
    """The attributes that `groups` or `environments` name, slots resolved."""
    if names is None:
        return None
    found = []
    for name in names:
        attribute = data.slots.get(name, name)
        if attribute not in data.attribute_names:
            raise unknown(path, "attribute of this study", name, [*data.slots, *data.attribute_names])
        if attribute in found:
            raise InputError(path, f"names {name!r} twice")
        found.append(attribute)
    return found


def _overrides_of(method: MethodEntry, data: DataSpec) -> dict[str, Any]:
    """What a method's entry sets for itself, in the words of one data set."""
    own = dict(method.overrides)
    for key in ("groups", "environments"):
        if key in own:
            own[key] = _named_attributes(own[key], data, f"methods.{method.label}.{key}")
    return own


def _adapting(method: MethodEntry, data: DataSpec, datasets: Mapping[str, AttributedDataset]) -> MethodEntry:
    """The method with the attribute that it adapts by in the words of one data set; every set must have that attribute."""
    knob = "" if method.facts.needs is None else method.facts.needs.adapts
    if not knob:
        return method
    points = []
    for label, knobs, training in method.points:
        name = knobs[knob]
        if name is not None:
            name = data.slots.get(name, name)
            for dataset in datasets.values():
                dataset.attribute(name, f"methods.{method.label}.{knob}")
        points.append((label, {**knobs, knob: name}, training))
    return replace(method, points=tuple(points))


@contextmanager
def _named(fields: Mapping[str, str], point: Point) -> Iterator[None]:
    """Name fields as the study file does, and say which of the study's points an error is about."""
    try:
        yield
    except InputError as error:
        words = error.field.split(".")
        for end in range(len(words), 0, -1):
            head = ".".join(words[:end])
            if head in fields:
                place = ".".join([fields[head], *words[end:]])
                about = f" ({point.title})" if head in ("draw", "dataset_size") else ""
                raise InputError(place, error.problem + about, error.choices) from None
        if words[0] == "sets" and words[-1] == "law":  # one set serves all shifts, and may be empty under one of them
            raise InputError(error.field, f"{error.problem} ({point.title})", error.choices) from None
        raise


def _check_data(dataset: AttributedDataset, spec: DataSpec, path: str) -> None:
    names = [item.name for item in dataset.schema]
    if spec.label not in names:
        raise unknown(f"{path}.label", "attribute", spec.label, names)
    seen: set[str] = set()
    for name in spec.attribute_names:
        if name not in names:
            raise unknown(f"{path}.attributes", "attribute", name, names)
        if name == spec.label:
            raise InputError(f"{path}.attributes", f"{name!r} is the label, so it cannot be an attribute of a shift too")
        if name in seen:
            raise InputError(f"{path}.attributes", f"names {name!r} twice")
        seen.add(name)
    if len(dataset.attribute(spec.label, f"{path}.label").values) < 2:
        raise InputError(f"{path}.label", f"{spec.label!r} has one value, so there is nothing to classify")
    if spec.roles.official is not None and spec.roles.official.column not in names:
        raise unknown(f"{path}.roles.official.column", "attribute", spec.roles.official.column, names)


def _check_selection(study: Study, point: Point, counts: DrawCounts) -> None:
    """Refuse a rule whose validation set is not there: nothing would be scored."""
    for rule in study.selection:
        if rule == "last" or counts.set_rows.get(name := RULES[rule].set):
            continue
        if name not in study.sets or study.sets[name].role != "validation":
            raise InputError("selection", f"{rule} reads a set {name!r} of role validation, and 'sets' has none", ["last"])
        raise InputError("selection", f"{rule} reads the set {name!r}, which has no rows ({point.title})", ["last"])


def _check_inputs(used: Mapping[str, AttributedDataset], main: str, models: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse data sets whose inputs differ from those of `main`, and models that cannot take these."""
    ours = used[main].input
    for name, dataset in used.items():
        theirs = dataset.input
        if ours is None or theirs is None or theirs == ours:
            continue
        if (ours.kind, theirs.kind) != ("image", "image"):
            raise InputError(f"data.{name}", f"{theirs} cannot be tested by a model trained on the {ours} of {main!r}")
        if ours.shape[2] != theirs.shape[2]:
            channels = theirs.shape[2], ours.shape[2]
            raise InputError(
                f"data.{name}",
                f"images of {channels[0]} channels cannot be tested by a model trained on the {channels[1]} of {main!r}",
            )
        sizes = ["{} x {}".format(*item.shape[:2]) for item in (theirs, ours)]
        raise InputError(
            f"data.{name}.options.size", f"images of {sizes[0]} cannot be tested by a model trained on the {sizes[1]} of {main!r}"
        )
    derived = used[main].derived
    for label, model in models.items():
        form = facts("models", model["name"]).built
        try:
            check_form(form, model["knobs"], ours, f"models.{label}", model["name"])
        except InputError as error:
            raise InputError(error.field, f"{error.problem} (data.{main})", error.choices) from None
        if derived is not None and derived.mode != "fixed" and form is not None and form.of and model["knobs"][form.of]:
            problem = f"reads each row of data.{main} once, and its derived attribute is drawn at every visit"
            raise InputError(f"models.{label}", f"{problem}; make its mode fixed")
