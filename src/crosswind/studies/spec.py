"""The study file: its fields, their types and meanings.

A study says which data, shifts, sizes, models, methods and seeds; their product are its runs. It is
read here and checked as far as that goes without touching data; `crosswind.studies.plan` checks the
rest and makes the runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    field_validator,
)
from pydantic_core import PydanticCustomError

from crosswind.core.errors import InputError
from crosswind.studies.combinations import written_out
from crosswind.studies.reading import (
    apply_settings,
    field_error,
    find_study,
    merge,
    read_study_file,
    shipped_studies,
)
from crosswind.training.selection import RULES

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.+:/@ -]+$")]
Fractional = Annotated[
    str, Field(pattern=r"^[0-9]+/[0-9]+$", description="a share as a fraction, such as 1/3")
]
Rows = Annotated[int, Field(ge=0)] | Annotated[float, Field(gt=0, lt=1)] | Fractional
Seed = Annotated[int, Field(ge=0, lt=2**62)]
Value = str | int | float | bool
# A folded YAML text ends with a line break, which tables would show as a sign for what cannot be
# printed.
Line = Annotated[
    str, BeforeValidator(lambda value: " ".join(value.split()) if isinstance(value, str) else value)
]
Named = list[str] | dict[Name, dict[str, Any] | None]
if TYPE_CHECKING:
    RuleName = str
else:
    RuleName = Literal[(*RULES, "last")]


def _is(default: Any, meaning: str, **bounds: Any) -> Any:
    """A field with what it means; a default of `...` is none."""
    return Field(default, description=meaning, **bounds)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class OfficialSpec(_Strict):
    """Roles given by a column of the source instead of dealt."""

    column: str = _is(..., "the attribute that holds each row's official role")
    train: list[Value] = _is(..., "its values whose rows are for training")
    test: list[Value] = _is(..., "its values whose rows are for testing")
    validation: list[Value] | None = _is(
        None, "its values for validation; left out: dealt from the training rows"
    )


class RolesSpec(_Strict):
    """How the rows of each finest cell are dealt to test, validation and training."""

    test: Rows | None = _is(
        None,
        "rows of each cell for testing, or a share below 1; left out: a fifth, or all official test"
        " rows",
    )
    validation: Rows = _is(0.2, "rows a cell, or the share of training and validation together")
    official: OfficialSpec | None = _is(None, "the source's own split, which wins over dealing")


class DeriveSpec(_Strict):
    """An attribute made by a transform: every base row under every value."""

    name: Name = _is(..., "the name of the new attribute")
    transform: str = _is(
        "", "a transform (crosswind list transforms); left out: every value names its own"
    )
    values: dict[Name, dict[str, Any] | list[dict[str, Any]] | None] = _is(
        ...,
        "value name -> settings of the transform, or of the one that they name; of several (a list,"
        " or lists of values) each row draws one; null leaves the image as it is",
        min_length=1,
    )
    mode: Literal["fixed", "per-visit"] = _is(
        "fixed", "fixed: one value a row; per-visit: drawn anew each time training visits the row"
    )


class ClustersSpec(_Strict):
    """An attribute made by clustering given features of the rows, such as a network's: values 0 to
    k-1, the largest first or by `order`."""

    features: str = _is(
        ...,
        "npy file of numbers [rows, d], a row for each of the source's, in its order; or `pixels`,"
        " those of the images",
    )
    k: Annotated[int, Field(ge=2)] | Literal["silhouette"] = _is(
        ...,
        "the number of clusters; silhouette: of 2 to `max_k` the one that tells rows apart best",
    )
    max_k: int = _is(10, "silhouette: the largest number of clusters that is tried", ge=2)
    order: Literal["size", "component", "distance"] = _is(
        "size",
        "how clusters are numbered: size, the largest first; component, along the first principal"
        " component of the centres; distance, the nearest to the mean of the centres first",
    )
    name: Name = _is("cluster", "the name of the new attribute")
    within: str | None = _is(None, "attribute whose values are clustered apart, such as the label")
    fit: dict[str, list[Value]] = _is(
        {}, "attribute -> values of the rows to find centres on; left out: all rows"
    )
    algorithm: Literal["kmeans", "minibatch"] = _is("kmeans", "minibatch is faster on many rows")
    scale: Literal["none", "standard", "unit"] = _is(
        "none", "standard: every feature has mean 0, variance 1; unit: every row has length 1"
    )
    components: Annotated[int, Field(ge=1)] | None = _is(
        None, "principal components to cluster; left out: the features themselves"
    )
    starts: int = _is(3, "beginnings, of which the best is taken", ge=1)
    seed: int = _is(0, "of the beginnings", ge=0)


class RuleSpec(_Strict):
    """An attribute computed from the text of every row, by one of these rules."""

    words: list[int] | None = _is(
        None,
        "increasing numbers of words; the values are the lengths between them: 0-49, 50-99, 100+",
    )
    contains: str | list[str] | None = _is(
        None, "words or phrases; yes where one stands in the text, whole and in any case; else no"
    )
    matches: str | None = _is(None, "a regular expression that is searched for: yes or no")


class DataSpec(_Strict):
    """One data set of a study."""

    source: str = _is(..., "a source (crosswind list sources)")
    options: dict[str, Any] = _is({}, "settings of the source (crosswind show source NAME)")
    label: str = _is(..., "the attribute that is to be predicted")
    attributes: list[str] | dict[Name, str] = _is(
        ..., "what shifts act on; or slot -> attribute, so that one shift serves several data sets"
    )
    clusters: ClustersSpec | None = None
    rules: dict[Name, RuleSpec] = _is(
        {}, "new attribute -> how it is computed from each row's text"
    )
    same: dict[str, dict[str, list[Value]]] = _is(
        {}, "attribute -> value -> other ways in which it is written"
    )
    distinct: list[str] = _is([], "attributes whose values differ though they look alike")
    keep: dict[str, list[Value]] = _is(
        {}, "attribute -> the values to keep; other rows are left out"
    )
    roles: RolesSpec = RolesSpec.model_validate({})
    unit: str | None = _is(
        None, "attribute whose rows may never straddle roles (a patient, a video)"
    )
    derive: DeriveSpec | list[DeriveSpec] | None = _is(
        None,
        "an attribute made by a transform, or a list of them, each on top of those before; all but"
        " the last are of mode fixed",
    )

    @property
    def slots(self) -> dict[str, str]:
        """Slot -> attribute; empty where attributes are a plain list."""
        return dict(self.attributes) if isinstance(self.attributes, dict) else {}

    @property
    def attribute_names(self) -> list[str]:
        """The attributes in order, slots resolved."""
        return list(self.slots.values() or self.attributes)


class SetSpec(_Strict):
    """A named set of rows to validate or to evaluate on."""

    role: Literal["validation", "test"] = _is(..., "which role's rows it draws from")
    law: str | dict[str, Any] | list[Any] = _is(
        "uniform",
        "'train' (as training), 'without-supplements' (training, but for its counterexamples and"
        " the like), 'unseen' (what training leaves out), 'uniform', a shift or the name of one of"
        " ours",
    )
    draw: Any = _is(
        None,
        "all, {total: rows} or {base: rows a cell}; left out: all, for validation as training its"
        " share",
    )
    source: str | None = _is(None, "another data set of this study")
    labels: dict[str, Value | list[Value] | None] | None = _is(
        None,
        "that data set's classes -> ours, or a list of ours that all count as it; null leaves a"
        " class out",
    )
    answers: Literal["all", "present"] = _is(
        "all",
        "the classes that a model may answer with: all of ours, or present: those that the set's"
        " classes stand for",
    )


class HalvingSpec(_Strict):
    """Successive halving: points are compared at rungs by the first rule of `selection`, each seed
    by itself."""

    factor: int = _is(3, "one in so many points goes on from each rung, rounded up", ge=2, le=100)
    rungs: int | None = _is(
        None,
        "comparisons: the last at 1 / factor of the steps, the one before at 1 / factor² ...; left"
        " out: as many as leave one point",
        ge=1,
        le=10,
    )


class Search(_Strict):
    """How many points of its settings every method tries, drawn at random."""

    points: int = _is(..., "points of every method", ge=1, le=10_000)
    seed: Seed = _is(0, "of the draws")
    halving: HalvingSpec | None = _is(
        None, "train all points a little and only the best of them on; left out: all to the end"
    )


class MinusSpec(_Strict):
    """The subtrahend of a side: another score at the same seed. What it leaves out is as on its
    side."""

    method: str | None = _is(None, "a method of this study, by its label; left out: the side's")
    model: str | None = _is(None, "a model of this study, by its label; left out: the side's")
    shift: str | None = _is(None, "a shift of this study; left out: the side's")
    set: str | None = _is(None, "a set of role test; left out: the side's")


class SideSpec(_Strict):
    """One side of a claim that names its model, shift or set too, so that two of them, or two gaps,
    can be compared."""

    method: str = _is(..., "a method of this study, by its label")
    model: str | None = _is(None, "a model of this study, by its label; left out: the claim's")
    shift: str | None = _is(None, "a shift of this study; left out: the claim's")
    set: str | None = _is(None, "a set of role test; left out: the claim's")
    minus: MinusSpec | None = _is(
        None, "the side is a gap: its score less this one's, {method, model, shift, set}"
    )


class Claim(_Strict):
    """One claim. What it leaves open (data, shift, size, model) it makes of each that both sides
    are run at."""

    text: Line = _is(..., "the claim in words, and whose it is", min_length=1, max_length=500)
    better: str | SideSpec = _is(
        ..., "the method that is claimed to be better, or {method, model, shift, set, minus}"
    )
    than: str | SideSpec | None = _is(None, "the other side; left out: the reference of the study")
    data: str | None = _is(None, "the data set; left out: each")
    shift: str | None = _is(None, "the shift; left out: each")
    size: str | None = _is(None, "the size, as tables name it; left out: each")
    model: str | None = _is(None, "the model of sides that name none; left out: each")
    set: str = _is("test", "the set of role test that is scored")
    metric: Literal[
        "accuracy", "worst_group", "balanced_accuracy", "seen_accuracy", "unseen_accuracy", "rho"
    ] = _is("accuracy", "the score")
    rule: str | None = _is(
        None,
        "the rule of 'selection' that picks step and point; left out: its first by the metric, or"
        " its first",
    )
    wins_back: float | None = _is(
        None,
        "the share of the shift's cost, beside a shift that is [], of which the better side wins"
        " back more",
        gt=0,
        le=1,
    )
    margin: float | None = _is(
        None, "the claim is that the sides are equal: they differ by less than this", gt=0, le=1
    )


Several = str | list[str]


class PlainRowsSpec(_Strict):
    """Some rows of a claim over several cases: methods by label or family, and where they are
    scored."""

    methods: Several | None = _is(
        None,
        "methods of this study, by their labels, or `all`; left out: all, or those of `family`",
    )
    family: Several | None = _is(
        None, "families of methods, as the report's view by families names them"
    )
    model: Several | None = _is(
        None,
        "models of this study; left out: the one that most methods run on, of `all` and"
        " families every one",
    )
    data: Several | None = _is(None, "data sets; left out: the claim's")
    shift: Several | None = _is(None, "shifts; left out: the claim's")
    size: Several | None = _is(None, "sizes, as tables name them; left out: the claim's")
    set: str | None = _is(None, "a set of role test; left out: the claim's")


class RowsSpec(PlainRowsSpec):
    """The rows of a side of a claim over several cases."""

    minus: PlainRowsSpec | None = _is(
        None,
        "mean: the side is a gap, its mean less that of these rows; what they leave out is as on the"
        " side",
    )


class PooledClaim(_Strict):
    """One claim over several cases: data sets, shifts, sizes and rows, a row being a method on a
    model. What it leaves open it is about all of."""

    text: Line = _is(..., "the claim in words, and whose it is", min_length=1, max_length=500)
    test: Literal["mean", "share", "order", "agreement", "nobody-best", "ranks"] = _is(
        ...,
        "mean: a mean over cases is above another; share: in more than this share of cases; order:"
        " scores rise along conditions; agreement: two conditions order methods alike; nobody-best:"
        " no row is best in every case; ranks: rows differ in rank",
    )
    better: str | RowsSpec | None = _is(
        None,
        "mean, share, order: a method, or {methods, family, model, data, shift, size, set, minus}",
    )
    than: str | RowsSpec | None = _is(
        None, "mean, share: the other side; left out: the reference; order: what is taken off"
    )
    rows: RowsSpec | None = _is(
        None, "agreement, nobody-best, ranks: the methods that are compared; left out: all"
    )
    along: dict[Literal["data", "shift", "size"], list[str]] | None = _is(
        None,
        "order: the conditions in the order in which scores rise; agreement: the two conditions;"
        " {shift: [LDD, UDS, SC]}",
    )
    each: list[Literal["data", "shift", "size"]] = _is(
        [], "what is judged one by one rather than together"
    )
    data: Several | None = _is(None, "data sets; left out: all")
    shift: Several | None = _is(None, "shifts; left out: all")
    size: Several | None = _is(None, "sizes, as tables name them; left out: all")
    set: str = _is("test", "the set of role test that is scored")
    metric: Literal[
        "accuracy", "worst_group", "balanced_accuracy", "seen_accuracy", "unseen_accuracy", "rho"
    ] = _is("accuracy", "the score")
    rule: str | None = _is(
        None,
        "the rule of 'selection' that picks step and point; left out: its first by the metric, or"
        " its first",
    )
    relative: bool = _is(
        False,
        "scores count as changes in percent of the reference's at the same data set, shift, size"
        " and seed",
    )
    by: float | None = _is(
        None,
        "mean, share: by how much the better side is above the other (below 0: it falls short by"
        " less)",
        ge=-1000,
        le=1000,
    )
    share: float | None = _is(
        None, "share: the share of cases that is exceeded; left out: a half", gt=0, lt=1
    )


def _claim_kind(claim: Any) -> str:
    """Which of the two kinds of claim some values are."""
    pooled = "test" in claim if isinstance(claim, Mapping) else isinstance(claim, PooledClaim)
    return "PooledClaim" if pooled else "Claim"


AnyClaim = Annotated[
    Annotated[Claim, Tag("Claim")] | Annotated[PooledClaim, Tag("PooledClaim")],
    Discriminator(_claim_kind),
]


class TunedSpec(_Strict):
    """The runs in which a model that is also asked with prompts was fine-tuned."""

    method: str = _is(..., "a method of this study, by its label")
    model: str | list[str] = _is(
        ..., "the model that it trains, by its label, or several of different data sets"
    )


class PromptsSpec(_Strict):
    """Which entries of `models` are one model with other prompts. The report compares them."""

    models: dict[Name, dict[Name, str | list[str]]] = _is(
        ...,
        "model -> prompt -> its entry of 'models', or several of different data sets",
        min_length=1,
    )
    fixed: str | None = _is(
        None,
        "the prompt beside which the best ones stand; left out: the first of the first model with"
        " several",
    )
    tuned: dict[Name, TunedSpec] = _is(
        {}, "model -> {method, model}: the runs in which it was fine-tuned"
    )
    averages: dict[Name, list[str]] = _is(
        {}, "name -> data sets that are averaged; left out: all of them"
    )


class Study(_Strict):
    """A study: the product of its data, shifts, sizes, label noise, models, methods, grids and
    seeds."""

    name: Name = _is("study", "the name under which the store keeps it; the file's name by default")
    about: str = _is("", "what the study shows, its expected time and numbers")
    data: dict[Name, DataSpec] = _is(..., "name -> data set", min_length=1)
    shifts: dict[Name, Any] = _is(
        ...,
        "name -> a shift, a list of shifts that act together, or names of other shifts; [] is none",
        min_length=1,
    )
    sizes: dict[Name, Any] = _is(
        {"equal": "equal"},
        "name -> equal, all, training rows a cell, {total: rows}, or data -> shift -> one of these",
        min_length=1,
    )
    sets: dict[Name, SetSpec] = _is(
        {
            role: SetSpec.model_validate({"role": role, "law": law})
            for role, law in (("validation", "train"), ("test", "uniform"))
        },
        "validation and evaluation sets; 'validation' (as training) and 'test' (uniform) by"
        " default",
    )
    groups: list[str] | None = _is(
        None, "attributes that make groups with the label; default: the shift's"
    )
    environments: list[str] | None = _is(
        None, "attributes that make environments; default: the shift's"
    )
    sampler: str | dict[str, float] = _is(
        "uniform", "uniform, reweight, balanced or {mixture: share of the supplements}"
    )
    label_noise: float | list[float | dict[str, Any]] | dict[str, Any] = _is(
        0.0,
        "share of training labels drawn anew, {rate, kind: uniform or flip}, or {matrix}; each of a"
        " list is a point",
    )
    dataset_size: int | list[int] | None = _is(
        None, "training rows in all, by the shift's weights; each of a list is a point"
    )
    models: Named = _is(
        ["resnet-w16"], "models, with settings if any; data too: the data sets that it is run on"
    )
    methods: Named = _is(
        ["erm"],
        "methods, with settings; a list of values is a grid; training, sampler, data, shifts,"
        " models, method too",
    )
    estimators: Named = _is(
        [], "estimators of accuracy without labels, with settings if any; asked for every test set"
    )
    pool_rows: int = _is(
        0,
        "labelled rows of the source, shown under every change of a pool, by which estimators learn"
        " how far they err; 0: none",
        ge=0,
    )
    training: dict[str, Any] = _is(
        {}, "settings of the training loop (crosswind show training); a list of values is a grid"
    )
    search: Search | None = _is(
        None, "points of its settings and of the loop's that every method tries, drawn at random"
    )
    selection: list[RuleName] = _is(
        ["best-id"],
        "which step is scored: the highest accuracy (or what the name ends with) on a validation"
        " set, or last",
        min_length=1,
    )
    reference: str = _is("erm", "the method that others are compared with")
    prompts: PromptsSpec | None = _is(
        None, "which models are one model with other prompts, so that the report compares prompts"
    )
    claims: list[AnyClaim] | dict[Name, AnyClaim] = _is(
        [], "what the study claims, a list or by name; its report judges all together"
    )
    seeds: Annotated[int, Field(ge=1, le=100_000)] | list[Seed] = _is(
        3,
        "a number of seeds (0, 1, ...) or a list of them; each starts the network and orders"
        " batches anew",
    )
    split_seed: Seed = _is(0, "deals rows to roles, test rows too; the same for all runs")
    split_seeds: Annotated[int, Field(ge=1, le=1_000)] | list[Seed] | None = _is(
        None,
        "several split seeds, a number of them (0, 1, ...) or a list: each is run with every seed",
    )
    multiplicity: Literal["holm", "fdr", "none"] = _is(
        "holm",
        "what verdicts over several claims keep small: holm (the chance of any false one), fdr"
        " (their share), none",
    )
    overlap: Literal["refused", "allowed"] = _is(
        "refused",
        "pictures or texts that train and that an official split or another data set tests on:"
        " refused, or kept in the test",
    )
    keep: Literal["none", "selected", "all"] = _is("none", "which weights are kept")
    time_limit: float | None = _is(
        None, "seconds that one run may take, once its worker has loaded its libraries", gt=0
    )
    resources: dict[str, Any] | None = _is(
        None,
        "what one run takes of a cluster's node: cpus (1), gpus (a share of one too), memory; a method"
        " may name its own",
    )
    scales: dict[Name, dict[str, Any]] = _is(
        {},
        "overlays chosen by --scale, such as tiny, small, paper; null takes a key out, and `over`"
        " names another that is laid before",
    )

    @field_validator("seeds", "split_seeds")
    @classmethod
    def _distinct(cls, value: int | list[int] | None) -> int | list[int] | None:
        if isinstance(value, list) and (not value or len(set(value)) != len(value)):
            raise ValueError("must name at least one seed, each once")
        return value

    @field_validator("claims")
    @classmethod
    def _in_order(cls, value: Any) -> Any:
        # Names are for overlays, which take a claim out by null; a report counts claims.
        return list(value.values()) if isinstance(value, dict) else value

    @field_validator(
        "selection", "models", "methods", "estimators", "label_noise", "dataset_size", "claims"
    )
    @classmethod
    def _each_once(cls, value: Any) -> Any:
        # A second entry would be the same runs again, or vanish without a word.
        if isinstance(value, list) and any(
            entry in value[:position] for position, entry in enumerate(value)
        ):
            raise ValueError("must name each entry once")
        return value

    @field_validator("models", "methods", "label_noise", "dataset_size")
    @classmethod
    def _at_least_one(cls, value: Any) -> Any:
        if value in ([], {}):
            raise PydanticCustomError("too_short", "must not be empty")
        return value

    @property
    def seed_list(self) -> list[int]:
        """The seeds, written out."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)

    @property
    def split_seed_list(self) -> list[int]:
        """The split seeds, written out."""
        several = [self.split_seed] if self.split_seeds is None else self.split_seeds
        return list(range(several)) if isinstance(several, int) else list(several)


UNSCALED = ("seeds", "split_seed", "split_seeds", "claims")
"""Fields that leave a scale what it is: how often a study repeats itself, and what it asks of its
runs, which is written out."""


def load_study(word: str, scale: str | None = None, settings: Sequence[str] = ()) -> Study:
    """A study by file or shipped name, with an overlay and `key=value` settings laid over it.

    Raises `DataError` for an unreadable file and `InputError` for a wrong field.
    """
    name, path = find_study(word)
    return study_from(
        read_study_file(path), name=name, where=str(path), scale=scale, settings=settings
    )


def study_from(
    values: Mapping[str, Any],
    *,
    name: str = "study",
    where: str = "study",
    scale: str | None = None,
    settings: Sequence[str] = (),
) -> Study:
    """A study from plain values. `where` names the file in errors."""
    merged = dict(values)
    if scale is not None:
        overlays = merged.get("scales")
        scale_overlays = overlays if isinstance(overlays, Mapping) else {}
        if scale not in scale_overlays:
            raise InputError("--scale", f"study {name!r} has no overlay {scale!r}", scale_overlays)
        merged = _with_scale(merged, scale_overlays, scale, where)
    merged = {"name": name, **apply_settings(merged, settings, values)}
    study = _validated(merged, where)
    for scale_name in study.scales:
        # A slip in an overlay should not wait for the day when it is used. It lies on the file, not
        # on the scale chosen today: two that leave different shifts out would leave none.
        laid_over = _with_scale({"name": name, **values}, study.scales, scale_name, where)
        _validated(laid_over, where, f"scales.{scale_name}.")
    return study


def _with_scale(
    values: Mapping[str, Any], overlays: Mapping[str, Any], scale: str, where: str
) -> dict[str, Any]:
    """A study's fields with a scale laid over them, and before it the one that its `over` names."""
    laid: list[str] = []
    while scale:
        field = f"{where}: scales.{scale}"
        overlay = overlays.get(scale)
        if not isinstance(overlay, Mapping):
            raise InputError(field, "must be a mapping of the fields that this scale changes")
        laid.append(scale)
        scale = overlay.get("over", "")
        others = [name for name in overlays if name not in laid]
        if scale in laid:
            circle = " -> ".join([*laid, scale])
            raise InputError(f"{field}.over", f"goes in a circle: {circle}", others)
        if scale and scale not in overlays:
            raise InputError(f"{field}.over", f"names no scale of this study: {scale!r}", others)
    merged = dict(values)
    for name in reversed(laid):
        merged = merge(merged, {key: of for key, of in overlays[name].items() if key != "over"})
    return merged


def scale_of(written: Mapping[str, Any]) -> str | None:
    """The scale that has been laid over a study, whatever its seeds and claims; None for its file as
    it stands.

    `written`: its fields as a store has them, which have no word for it. Of a shipped study that
    was run with other settings, the scale from which the fewest settings lead to it. Raises `InputError` for
    scales that are none.
    """
    path = shipped_studies().get(str(written.get("name")))
    if path is None:
        return _scale_laid(written)
    values = read_study_file(path)
    fields = _scaled(written)
    differing = {}
    for scale in (None, *(values.get("scales") or {})):
        study = study_from(values, name=str(written["name"]), scale=scale)
        of_scale = _scaled(study.model_dump(mode="json", exclude_unset=True))
        differing[scale] = len([*_settings_between(of_scale, fields)])
    return min(differing, key=lambda scale: differing[scale])


def settings_of(
    written: Mapping[str, Any], scale: str | None, without: Sequence[str] = ()
) -> list[str]:
    """The `key=value` settings that a shipped study was run with beside its scale.

    `written`: its fields as a store has them. `without`: fields that are left out, because the next
    command sets them. Empty for a study of one's own, whose file nobody knows here, and where no
    settings lead from the file to these fields.
    """
    path = shipped_studies().get(str(written.get("name")))
    if path is None:
        return []
    values = read_study_file(path)

    def fields(settings: Sequence[str]) -> dict[str, Any]:
        study = study_from(values, name=str(written["name"]), scale=scale, settings=settings)
        dumped: dict[str, Any] = study.model_dump(mode="json", exclude_unset=True)
        return {name: value for name, value in dumped.items() if name not in without}

    run_fields = json.loads(
        json.dumps({name: value for name, value in written.items() if name not in without})
    )
    of_file = fields(())
    whole_fields = [
        f"{name}={_flow(run_fields.get(name))}"
        for name in {**of_file, **run_fields}
        if of_file.get(name) != run_fields.get(name)
    ]
    # Settings lie on the file, of which fields may be written otherwise than they are read.
    for settings in (list(_settings_between(of_file, run_fields)), whole_fields):
        with suppress(InputError):
            if fields(settings) == run_fields:
                return settings
    return []


def _settings_between(
    before: Mapping[str, Any], after: Mapping[str, Any], path: str = ""
) -> Iterator[str]:
    """The settings of the innermost fields that turn one mapping into another; None and left out
    are one."""
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict) and new:
            yield from _settings_between(old, new, f"{path}{name}.")
        else:
            yield f"{path}{name}={_flow(new)}"


def _flow(value: Any) -> str:
    """A value of JSON in one line, as a setting is read."""
    if isinstance(value, str) and _reads_as(value, value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _reads_as(text: str, value: Any) -> bool:
    try:
        return bool(apply_settings({}, [f"read={text}"]) == {"read": value})
    except InputError:
        return False


def _scale_laid(written: Mapping[str, Any]) -> str | None:
    """The scale that changes nothing when it is laid over a study's fields once more. Raises
    `InputError` for scales that are none."""
    overlays = written.get("scales")
    if not isinstance(overlays, Mapping):
        return None
    sizes: dict[str, int] = {}
    for name, overlay in overlays.items():
        if (
            isinstance(overlay, Mapping)
            and overlay
            and _scaled(_with_scale(written, overlays, name, "study")) == _scaled(written)
        ):
            sizes[name] = len(str(overlay)) + len(str(overlays.get(overlay.get("over"), "")))
    # A scale over another one changes nothing of it either, and holds more.
    return max(sizes, key=lambda name: sizes[name], default=None)


def _scaled(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that make a scale what it is, as JSON has them."""
    plain_fields: dict[str, Any] = json.loads(json.dumps(dict(fields)))
    return {name: value for name, value in plain_fields.items() if name not in UNSCALED}


def _validated(values: Mapping[str, Any], where: str, inside: str = "") -> Study:
    if values.get("split_seeds") is not None and "split_seed" in values:
        choices = ["split_seed", "split_seeds"]
        raise InputError(
            f"{where}: {inside}split_seeds", "stands beside 'split_seed'; give one of them", choices
        )
    values = written_out(values, f"{where}: {inside.removesuffix('.')}" if inside else where)
    try:
        return Study.model_validate(values)
    except ValidationError as error:
        raise field_error(error, Study, where, inside) from None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a study file, for editors."""
    schema = Study.model_json_schema()
    return {
        **schema,
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Crosswind study",
    }
