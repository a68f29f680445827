"""Specifications of jobs as values with named fields.

A job, its row in a store and its `job.json` have the specification as a plain mapping. What reads
one reads it by `of` of these classes. The order of the fields is part of what is stored, and keys of
runs are hashed from the same values, so neither may change: `of(mapping).stored()` is the mapping
again, byte for byte. Fits are planned by the ten thousand and share parts of their mappings, so
`crosswind.studies.expand` writes those itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from crosswind.core.registry import load

Values = Mapping[str, Any]


@dataclass(frozen=True)
class ClassSpec:
    """A registered class with its settings; `version`: of a method."""

    name: str
    knobs: Values
    version: int | None = None

    @classmethod
    def of(cls, values: Values) -> ClassSpec:
        """Read what `stored` gives."""
        return cls(values["name"], values["knobs"], values.get("version"))

    def stored(self) -> dict[str, Any]:
        """As a plain mapping."""
        version = {} if self.version is None else {"version": self.version}
        return {"name": self.name, **version, "knobs": self.knobs}

    def make(self, room: str) -> Any:
        """An object of the class, which is registered in `room`, such as "methods"."""
        return load(room, self.name)(**self.knobs)


@dataclass(frozen=True)
class SplitSpec:
    """The data, split and seed that decide the rows of every set of a job.

    `data`: the data sets that are read, by name, as `build_dataset` takes them; `main`: the one that
    is trained on; `split`: as `build_split_plan` takes it, with its `sets` by name; `seed`: of the
    run.
    """

    data: Values
    main: str
    split: Values
    seed: int

    @classmethod
    def of(cls, values: Values) -> SplitSpec:
        """Read these fields of any specification that has them."""
        return cls(values["data"], values["main"], values["split"], values["seed"])

    @property
    def sets(self) -> Values:
        """The sets of the split by name, as a split plan takes them."""
        sets: Values = self.split["sets"]
        return sets

    def with_set(self, prediction: PredictSpec) -> SplitSpec:
        """With the set that a prediction is of, where it is a test set, which the fit did not
        know."""
        sets = dict(self.sets)
        if prediction.plan is not None:
            sets[prediction.set_name] = prediction.plan
        data = {**self.data, **prediction.data}
        return replace(self, data=data, split={**self.split, "sets": sets})


@dataclass(frozen=True)
class FitSpec:
    """The training of a model by a method.

    `format`: of the specification; `threads`: of torch; `rules`: that weights are selected by, where
    the study follows others than all; `keep`: which weights, none, selected or all; `training`: the
    settings of `TrainingSettings`; `rung`: see `crosswind.studies.halving`, None outside of a search
    that halves.
    """

    rows: SplitSpec
    method: ClassSpec
    model: ClassSpec
    training: Values
    keep: str
    format: int
    threads: int = 1
    rules: Sequence[str] | None = None
    rung: Values | None = None

    @classmethod
    def of(cls, values: Values) -> FitSpec:
        """Read what `stored` gives."""
        return cls(
            SplitSpec.of(values),
            ClassSpec.of(values["method"]),
            ClassSpec.of(values["model"]),
            values["training"],
            values["keep"],
            values["format"],
            values["threads"],
            values.get("rules"),
            values.get("rung"),
        )

    def stored(self) -> dict[str, Any]:
        """As a plain mapping."""
        rules = {} if self.rules is None else {"rules": self.rules}
        rung = {} if self.rung is None else {"rung": self.rung}
        return {
            "format": self.format,
            "data": self.rows.data,
            "main": self.rows.main,
            "split": self.rows.split,
            "threads": self.threads,
            **rules,
            "keep": self.keep,
            "method": self.method.stored(),
            "model": self.model.stored(),
            "training": self.training,
            "seed": self.rows.seed,
            **rung,
        }

    @property
    def device(self) -> str:
        """The device that it is trained on, as the settings name it."""
        return str(self.training["device"])

    @property
    def devices(self) -> int:
        """How many devices it is shared among."""
        return int(self.training.get("devices", 1))


@dataclass(frozen=True)
class PredictSpec:
    """The answers of a fit for one set.

    `plan`: of the set, as a split plan takes it, None for a set of validation, which the fit knows;
    `data`: the data sets that the fit did not read.
    """

    set_name: str
    plan: Values | None
    data: Values

    @classmethod
    def of(cls, values: Values) -> PredictSpec:
        """Read what `stored` gives, or what a `vary` job has of it."""
        return cls(values["set"], values["item"], values["data"])

    def stored(self) -> dict[str, Any]:
        """As a plain mapping."""
        return {"set": self.set_name, "item": self.plan, "data": self.data}


@dataclass(frozen=True)
class OutsidePredictSpec:
    """The answers for one set of a model that is not trained here.

    `read`: the files that the model reads, path -> SHA-256; `shows_order`: whether the set can show
    that the model's outputs stand in another order than its classes.
    """

    set_name: str
    model: ClassSpec
    read: Values
    rows: SplitSpec
    shows_order: bool = False

    @classmethod
    def of(cls, values: Values) -> OutsidePredictSpec:
        """Read what `stored` gives, or what a `vary` job has of it."""
        return cls(
            values["set"],
            ClassSpec.of(values["model"]),
            values.get("read", {}),
            SplitSpec.of(values),
            values.get("shows_order", False),
        )

    def stored(self) -> dict[str, Any]:
        """As a plain mapping."""
        return {
            "set": self.set_name,
            "main": self.rows.main,
            "model": self.model.stored(),
            "read": self.read,
            "data": self.rows.data,
            "split": self.rows.split,
            "seed": self.rows.seed,
            "shows_order": self.shows_order,
        }


def predict_spec(values: Values) -> PredictSpec | OutsidePredictSpec:
    """Read the specification of a `predict` or `vary` job."""
    return OutsidePredictSpec.of(values) if "model" in values else PredictSpec.of(values)


@dataclass(frozen=True)
class CopiesSpec:
    """The answers for changed copies of the rows of a set, a `vary` job: `neighbourhood`: by whose
    neighbours, "" for none; `neighbours`: so many a row; `pool`: so many rows under every change of
    the pool; `handed`: settings of the neighbourhood's transform."""

    answering: PredictSpec | OutsidePredictSpec
    neighbourhood: str
    neighbours: int
    pool: int
    handed: Values = field(default_factory=dict)

    @classmethod
    def of(cls, values: Values) -> CopiesSpec:
        """Read what a `vary` job has."""
        return cls(
            predict_spec(values),
            values["near"],
            values["neighbours"],
            values["pool"],
            values.get("handed", {}),
        )


@dataclass(frozen=True)
class EstimateSpec:
    """An estimator's accuracy for one set.

    `label`: of the estimator in the study; `source`: the labelled set; `neighbourhood`: whose
    neighbours it reads, "" for none; `inputs`: their kind; `reads`: the keys of the jobs whose
    answers it reads, by what they are of; `rows`: the split that has the labels of the source, where
    the model is not trained here.
    """

    estimator: ClassSpec
    label: str
    source: str
    set_name: str
    neighbourhood: str
    inputs: str
    reads: Mapping[str, str]
    rows: SplitSpec | None

    @classmethod
    def of(cls, values: Values) -> EstimateSpec:
        """Read what an `estimate` job has."""
        return cls(
            ClassSpec.of(values["estimator"]),
            values["label"],
            values["source"],
            values["set"],
            values["estimator_near"],
            values["inputs"],
            values["reads"],
            SplitSpec.of(values) if "split" in values else None,
        )
