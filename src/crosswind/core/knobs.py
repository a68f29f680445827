"""Hyperparameters declared once, where they are used, and the other facts that a registered class
declares.

A *knob* is a dataclass field with its domain, its search range, the grids the papers used and the
source of its default. Lists, documentation, study files and search grids are all made from these
declarations. Nothing here needs torch: the registry evaluates the declarations of a file without
running the rest of it.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crosswind.core.errors import InputError, share_hint, shown, unknown

REQUIRED = dataclasses.MISSING
"""The default of a knob whose value the user must give."""


@dataclass(frozen=True)
class Log:
    """A search range from `low` to `high`, drawn evenly in the logarithm when `log`, else evenly in
    the value; or a set of `choices`."""

    low: float = 0.0
    high: float = 0.0
    log: bool = True
    choices: tuple[Any, ...] = ()

    def ends(self) -> tuple[Any, ...]:
        """The values at the two ends of the range; every choice, where there is a set."""
        return self.choices or (self.low, self.high)

    def words(self) -> str:
        """The range as a reader is told it: `0.01 to 10, evenly in the logarithm`, or `20, 50,
        100`."""
        values_in_words = [_value_in_words(value) for value in self.ends()]
        if self.choices:
            return ", ".join(values_in_words)
        return " to ".join(values_in_words) + ", evenly in the logarithm" * self.log


def _value_in_words(value: Any) -> str:
    """A value of a search range as a reader is told it."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str):
        return value
    return shown(value)


def log(low: float, high: float) -> Log:
    """A search range that is drawn evenly in the logarithm."""
    return Log(low, high)


def linear(low: float, high: float) -> Log:
    """A search range that is drawn evenly."""
    return Log(low, high, log=False)


def choose(*values: Any) -> Log:
    """A search over a set of values."""
    return Log(log=False, choices=values)


@dataclass(frozen=True)
class Knob:
    """One declared hyperparameter: the field `name` of its class.

    `default` is `REQUIRED` where the user must give a value. `doc`: a phrase on what it is.
    `source`: where the default was found. `search`: the range that searches draw from. `domain` is
    an interval `"[0, inf)"` for numbers, each one of a list, or a set `"{a, b}"` for words; empty
    means that the class itself checks. `annotation` is the text of the field's type. `grid` maps a
    paper's key to the values that it searched. `below`: the knob whose value this one must stay
    below. `younger`: declared after runs had keys, and left out of a key at its default.
    """

    name: str
    annotation: str
    default: Any
    domain: str = ""
    search: Log | None = None
    grid: Mapping[str, list[Any]] | None = None
    source: str = ""
    doc: str = ""
    below: str = ""
    younger: bool = False

    @property
    def required(self) -> bool:
        """Whether the user must give a value."""
        return self.default is REQUIRED

    def describe(self) -> dict[str, Any]:
        """The knob as plain values for JSON."""
        description = {}
        for name, value in vars(self).items():
            if name not in ("below", "younger") or value:
                description["type" if name == "annotation" else name] = value
        default = None if self.required else self.default
        search = None
        if self.search is not None:
            search = list(self.search.ends())
        grid = dict(self.grid or {})
        description |= {"default": default, "required": self.required, "grid": grid}
        return {**description, "search": search}


def knob(
    default: Any = REQUIRED,
    *,
    domain: str = "",
    search: Log | None = None,
    grid: Mapping[str, list[Any]] | None = None,
    source: str = "",
    doc: str = "",
    below: str = "",
    younger: bool = False,
) -> Any:
    """Declare a hyperparameter as a dataclass field. Without a default the user must give it."""
    metadata = {
        "knob": {
            "domain": domain,
            "search": search,
            "grid": grid,
            "source": source,
            "doc": doc,
            "below": below,
            "younger": younger,
        }
    }
    if isinstance(default, list | dict | set):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


NAMED_WHERE_GIVEN = ("header",)
"""Knobs that came after data sets had keys: left out of a key, and of the card of a copy, where
they have no value."""


def only_given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those of `NAMED_WHERE_GIVEN` that have no value."""
    return {
        name: value
        for name, value in settings.items()
        if value is not None or name not in NAMED_WHERE_GIVEN
    }


def keyed_knobs(knobs: Sequence[Knob], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those of younger knobs that have their default, so that keys stay."""
    left_out = {knob.name for knob in knobs if knob.younger and settings[knob.name] == knob.default}
    return {name: value for name, value in settings.items() if name not in left_out}


def knobs_of(cls: type) -> tuple[Knob, ...]:
    """The knobs of a dataclass, in the order of its fields."""
    fields = [field for field in dataclasses.fields(cls) if "knob" in field.metadata]
    return tuple(
        knob_of(field.name, str(getattr(field.type, "__name__", field.type)), field)
        for field in fields
    )


def knob_of(name: str, annotation: str, declared: Any) -> Knob:
    """The knob of the field that `knob` gave."""
    has_factory = declared.default_factory is not dataclasses.MISSING
    return Knob(
        name,
        annotation,
        declared.default_factory() if has_factory else declared.default,
        **declared.metadata["knob"],
    )


@dataclass(frozen=True)
class Access:
    """The inputs that an estimator of accuracy reads. Checked when a study is planned.

    `scores`: what it needs of every answer: `labels`, `probabilities` (softmax of the logits, so
    that logarithms of probabilities serve as well), or `logits` as the network gave them. `source`:
    labelled rows of the distribution that was trained on. `neighbourhood`: the name of the
    neighbourhood of each row that the model answers for too; `handed`: knobs of the estimator that
    are those of its transform. `pool`: labelled sets of other distributions, from which it learns
    how its measure and accuracy go together. `models`: how many models answer for the same rows.
    `weights`: the network itself, so that only a pool of networks can tell accuracies. `features`:
    what the head reads. `passes`: forward passes a target row.
    """

    scores: str = "probabilities"
    source: bool = True
    neighbourhood: str = ""
    handed: tuple[str, ...] = ()
    pool: bool = False
    models: int = 1
    weights: bool = False
    features: bool = False
    passes: int = 1


@dataclass(frozen=True)
class Base:
    """The run that a method starts from: an ordinary run of `method` on the same split, model and
    seed, planned and done once.

    `settings` are the training settings in which it differs from the method's own. `from_knobs`
    maps a training setting to the knob of the method that holds its value (`{"epochs":
    "base_epochs"}`); `scaled` maps one to the knob that it is multiplied by (`{"steps": "first"}`).
    `rule`: whose weights the method starts from, `"best-id"` (the last where nothing is validated)
    or `"last"`.
    """

    method: str = "erm"
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    from_knobs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    scaled: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rule: str = "best-id"


@dataclass(frozen=True)
class Holdout:
    """Rows of a validation set that a method reads with labels and groups, `RunContext.holdout`,
    and that no selection rule, score or estimator reads.

    `share`: the knob that says which share of the rows of each group, in (0, 1). `set`: the
    validation set, or the knob that names it.
    """

    share: str
    set: str = "validation"

    def set_of(self, knobs: Mapping[str, Any]) -> str:
        """The name of the set for a method with these knobs."""
        return str(knobs.get(self.set, self.set))


@dataclass(frozen=True)
class Needs:
    """The needs of a method; checked before any work starts.

    `groups`: a cell of label and attributes for every training row, at least two of them with rows.
    `environments`: at least two environments with rows. `sampler`: how batches are made, `"epoch"`
    (permutations), `"balanced"` (equal shares of groups) or `"per-environment"` (equal shares of
    environments in every batch). `pairs`: the knob that says how rows of two environments are
    paired (`"view"`, `"instance"` or `"class"`), see `Method.partners`. `taps`: names of the model
    stages whose features it reads. `base`: the run whose weights it starts from. `holdout`: rows of a
    validation set that are its own. `switches`: knobs
    that say where in a run the method changes, see `switch_steps`; a run must be longer than each.
    `adapts`: the knob that names the attribute by whose values evaluation rows are handed to
    `adapt`; a method with it is transductive. `norm`: what the model's layers must be normalised
    by, see `Form`. `maps`: whether the outputs of the model's stages must be maps [c, h, w].
    `channels`: the numbers of channels of the images that it can work on; empty: any. `rows`: the
    least rows that a batch must have. `spread`: knob -> its value with which the rows of one
    environment, or of one mixture of them, are compared with each other. A batch must then hold two
    of each. `numbers`: the knob above 0 with which it blends or moves inputs, which must then be
    numbers and no tokens. `given`: whether it means something only from given weights; a study
    warns of random ones. `linear`: whether the model must have linear layers beside its head.
    `gradient`: whether it descends a gradient of the model; one that only says how often rows are
    seen does not.
    """

    groups: bool = False
    environments: bool = False
    sampler: str = "epoch"
    pairs: str = ""
    taps: tuple[str, ...] = ()
    base: Base | None = None
    holdout: Holdout | None = None
    switches: tuple[str, ...] = ()
    adapts: str = ""
    norm: str = ""
    maps: bool = False
    channels: tuple[int, ...] = ()
    rows: int = 0
    numbers: str = ""
    spread: Mapping[str, str] = dataclasses.field(default_factory=dict)
    given: bool = False
    linear: bool = False
    gradient: bool = True

    def switch_steps(self, knobs: Mapping[str, Any], steps: int) -> dict[str, int]:
        """For each of `switches` the step of a stage at which it happens, for a method with these
        knobs in a run of `steps` steps.

        A whole number is that step. A number with a point below 1 is a share of the run's steps,
        rounded, which leaves at least one step. Null is no switch. Weights are from after a switch
        at step s once they have taken more than s steps.
        Raises `InputError` for a number of steps that is not whole.
        """
        switches = {}
        for name in self.switches:
            value = knobs[name]
            if value is not None:
                if value >= 1 and value != int(value):
                    raise InputError(
                        name,
                        "must be a whole number of steps, or a share of the run below 1, not"
                        f" {value}",
                    )
                share = isinstance(value, float) and value < 1
                switches[name] = (
                    min(round(value * steps), max(steps - 1, 0)) if share else int(value)
                )
        return switches

    def words(self) -> list[str]:
        """The needs, a phrase each; empty where there are none."""
        even = self.sampler == "per-environment"
        balanced = self.sampler == "balanced"
        base_method = self.base.method if self.base else ""
        channel_words = " or ".join(str(number) for number in self.channels)
        phrases = (
            ("two groups" + ", in equal shares" * balanced, self.groups),
            ("two environments" + ", in equal shares" * even, self.environments),
            ("environments in equal shares", even and not self.environments),
            ("groups in equal shares", balanced and not self.groups),
            ("rows in pairs of two environments", self.pairs),
            (f"stages {', '.join(self.taps)}", self.taps),
            (f"a run of {base_method} before it", self.base),
            ("labelled validation rows of its own", self.holdout),
            (f"more steps than {' and '.join(self.switches)}", self.switches),
            ("unlabelled test rows", self.adapts),
            ("linear layers beside the head", self.linear),
            (f"{self.norm} norm", self.norm),
            ("a convolutional model", self.maps),
            (f"{channel_words} channels", self.channels),
            (f"batches of at least {self.rows} rows", self.rows),
        )
        return [phrase for phrase, is_needed in phrases if is_needed]


@dataclass(frozen=True)
class Form:
    """The parts of a model and the inputs that it takes, known without building it; checked before
    any work starts.

    `norm`: what its layers are normalised by, `"batch"`, `"layer"` or `"none"`, or the knob that
    says so. `least`: the smallest side of an image in pixels. `patch`: the knob whose value must
    divide the sides of an image, which are then to be equal. `weights`: the names of published
    weights that its knob `weights` takes beside the path of a safetensors file. They are of images
    of 3 channels and of a model whose knobs are as in `weights_with`. `trained`: whether methods
    train it, or the knob that says so; else it answers as it is. `files` are its knobs that name
    files, whose contents are part of what it is. `apart` are those that say how it is asked and are
    no part of it. `takes`: the kinds of input, see `InputSpec`. `of`: the knob that names the model
    whose features it is trained on, and whose inputs it then takes; its knob `settings` holds that
    model's. `folders`: the knobs that name a folder or file whose contents are part of what it is,
    and what must be in it. That is `"tokenizer"`, `"encoder"`, `"clip"`, `"vision-language"` or
    `"program"`, a Python file; the hash is in the knob `NAME_sha256`. `maps`: whether its stages
    give maps [c, h, w]; None: as `has_maps` tells by the norm. `linear`: whether it has linear
    layers beside its head; None: not known. `gradient`: whether it is trained by steps down a
    gradient; else all at once by its own rule.
    """

    norm: str = ""
    least: int = 1
    patch: str = ""
    weights: tuple[str, ...] = ()
    weights_with: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    trained: bool | str = True
    files: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    takes: tuple[str, ...] = ("image",)
    of: str = ""
    folders: Mapping[str, str] = dataclasses.field(default_factory=dict)
    maps: bool | None = None
    linear: bool | None = None
    gradient: bool = True

    def has_maps(self) -> bool | None:
        """Whether its stages give maps; None: not known. Networks that are never normalised, or by
        layer, are not convolutional."""
        if self.maps is not None:
            return self.maps
        if self.norm:
            return self.norm not in ("none", "layer")
        return None

    def is_trained(self, knobs: Mapping[str, Any]) -> bool:
        """Whether methods train the model with these knobs."""
        if isinstance(self.trained, str):
            return bool(knobs[self.trained])
        return self.trained

    def is_given(self, knobs: Mapping[str, Any]) -> bool:
        """Whether the model with these knobs begins with weights made elsewhere, of a file, a
        folder or by name."""
        if self.of and knobs[self.of] is not None:
            return False  # its one layer is new
        if "weights" in knobs:
            return knobs["weights"] is not None
        return bool(self.folders)

    def norm_of(self, knobs: Mapping[str, Any]) -> str:
        """The normalisation of the layers of the model with these knobs."""
        return str(knobs.get(self.norm, self.norm))


@dataclass(frozen=True)
class Limit:
    """The values of `knobs` at which a method becomes another one: a free test.

    `equals` is a registered method or a reference, `"erm-group-mean"` or `"erm-environment-mean"`:
    the mean of the mean losses of all groups, or of the environments in a batch. `reason` says why
    there is none. `also`: further places, each knob -> the values at which, in any combination, it
    is the same.
    """

    knobs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    equals: str = "erm"
    reason: str = ""
    also: Sequence[Mapping[str, Sequence[Any]]] = ()

    def reached(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The knobs that make a method with these values its limit; empty where it is not there."""
        limits = [{name: [value] for name, value in self.knobs.items()}, *self.also]
        for limit in limits:
            if limit and all(values[name] in allowed for name, allowed in limit.items()):
                return {name: values[name] for name in limit}
        return {}

    @classmethod
    def none(cls, reason: str) -> Limit:
        """No limit exists; `reason` says why."""
        return cls({}, "", reason)


_INTERVAL = re.compile(r"^([\[(])\s*([^,]+?)\s*,\s*([^,]+?)\s*([\])])$")
_PLAIN = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "None": "null",
}


def resolve(
    knobs: tuple[Knob, ...], values: Mapping[str, Any], field: str, owner: str
) -> dict[str, Any]:
    """All knobs with the user's values put in, each checked against its type and domain.

    `field` is the dotted path that errors name; `owner` names the thing (`method 'groupdro'`).
    Raises `InputError`.
    """
    inside = f"{field}." if field else ""
    names = [declared.name for declared in knobs]
    for name in values:
        if name not in names:
            raise unknown(f"{inside}{name}", f"setting of {owner}", name, names)
    settings = {}
    for declared in knobs:
        name = declared.name
        path = f"{inside}{name}"
        if name in values:
            settings[name] = check(declared, values[name], path)
        elif declared.required:
            meaning = f" ({declared.doc})" if declared.doc else ""
            raise InputError(path, f"{owner} needs {name!r}{meaning}")
        else:
            settings[name] = declared.default
    for declared in knobs:
        name = declared.name
        bound = declared.below
        if bound and settings[name] >= settings[bound]:
            problem = f"must be below {bound}, which is {settings[bound]}, not {settings[name]}"
            raise InputError(f"{inside}{name}", problem)
    return settings


def check(declared: Knob, value: Any, path: str) -> Any:
    """`value` as the knob's type, or an `InputError` that names the path and the domain."""
    kinds = _kinds(declared)
    if value is None and "None" in kinds:
        return None
    if "list[float]" in kinds and isinstance(value, list) and value:
        number = dataclasses.replace(declared, annotation="float")
        return [check(number, member, path) for member in value]
    value = _of_its_kind(declared, value, path)
    if declared.domain.startswith("{"):
        words = [word.strip() for word in declared.domain.strip("{}").split(",")]
        if str(value) not in words:
            raise unknown(path, "value", value, words)
    if isinstance(value, int | float) and not _is_inside(value, declared.domain):
        problem = f"must be in {declared.domain}, not {value!r}"
        raise InputError(path, problem + _share_hint(declared, value))
    return value


def _of_its_kind(declared: Knob, value: Any, path: str) -> Any:
    """`value` as one of the knob's kinds; `InputError` where it is of none. Kinds that are not
    plain are checked by the class itself."""
    kinds = _kinds(declared)
    is_nan = isinstance(value, float) and math.isnan(value)
    is_allowed = value is not None and "list[float]" not in kinds
    if set(kinds) <= _PLAIN.keys():
        value = _converted(value, kinds)
        is_allowed = not is_nan and _kind_of(value) in kinds
    if not is_allowed:
        problem = f"must be {_expected(declared)}, not {'a NaN' if is_nan else shown(value)}"
        raise InputError(path, problem + _share_hint(declared, value))
    return value


def _share_hint(declared: Knob, value: Any) -> str:
    """How a percentage is written for a knob that is a share."""
    return share_hint(value) if declared.domain in ("[0, 1]", "(0, 1]") else ""


def _converted(value: Any, kinds: Sequence[str]) -> Any:
    """A whole number where only the other kind of number is meant: 1 as 1.0, or 1.0 as 1."""
    kind = _kind_of(value)
    if kind == "int" and "int" not in kinds and "float" in kinds:
        return float(value)
    if kind == "float" and "float" not in kinds and "int" in kinds and value.is_integer():
        return int(value)
    return value


def _kind_of(value: Any) -> str:
    """The name of the plain kind of a value; empty where it has none."""
    kinds = (bool, int, float, str)
    for kind in kinds:
        if isinstance(value, kind):
            return kind.__name__
    return ""


def _is_inside(number: float, domain: str) -> bool:
    """Whether a number lies in a domain; true where the domain is no interval."""
    match = _INTERVAL.match(domain)
    if match is None:
        return True
    opening = match[1]
    low = float(match[2])
    high = float(match[3])
    closing = match[4]
    is_below = number < low or (number == low and opening == "(")
    is_above = number > high or (number == high and closing == ")")
    return not is_below and not is_above


def _kinds(declared: Knob) -> list[str]:
    return [kind.strip() for kind in declared.annotation.split("|")]


def _expected(declared: Knob) -> str:
    kinds = _kinds(declared)
    if "Any" in kinds:
        return declared.doc or "given"  # what it is in words, since its type says nothing
    kind_names = " or ".join(_kind_in_words(kind) for kind in kinds)
    if declared.domain:
        return f"{kind_names} in {declared.domain}"
    return kind_names


def _kind_in_words(kind: str) -> str:
    """A kind as a reader is told it."""
    names = {**_PLAIN, "list[float]": "a list of numbers"}
    containers = {"dict": "a mapping", "list": "a list"}
    outer = kind.partition("[")[0]
    return names.get(kind, containers.get(outer, kind))
