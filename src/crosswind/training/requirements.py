"""The requirements of a method on the rows, batches and settings of a run, and the warnings for its
reader.

A plan knows the rows by their counts, a run by the rows themselves. Both describe them as a
`Pairing` and ask `refuse` and `warnings_of`, so that each rule stands once. Nothing here imports
torch at the top: planning asks too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, NeedsError
from crosswind.core.knobs import Form, Limit, Needs
from crosswind.core.registry import facts, listing
from crosswind.core.types import InputSpec, canonical
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import training_keys
from crosswind.methods.base import Info, Method, aligned_codes
from crosswind.models.estimator_class import estimator_of, weight_argument
from crosswind.training.selection import RULES, Selection
from crosswind.training.settings import ModelSpec, TrainingSettings
from crosswind.training.wants import WANTED, Want

if TYPE_CHECKING:
    from torch import Tensor

    from crosswind.shifts.split import Split

LEAST_SIDE = 2
"""Pixels a side of a picture that a method can change or rebuild: a line of pixels has no
neighbourhood."""


@dataclass(frozen=True)
class Pairing:
    """A method at its settings, and what a run gives it.

    `steps`: the largest number of steps of the run. `environment_rows` and `group_rows`: training
    rows of each environment and of each group (cell of label and attributes), 0 where training
    shows none; those drawn at every visit as expected. `environment_tables`: training rows by class
    (axis 0) and by environment (axis 1), and by each attribute that makes environments;
    `group_table`: by class and group. `sampler`: the study's, "uniform" where rows are drawn alike;
    `undrawn_environments` and `undrawn_groups`: names of those with training rows of which it never
    draws one. `input`: a row as the method gets it, None where it is not known. `models`: those
    that it is run with, by label.
    `attributes`: the names that `groups` and `environments` may have. `lots`: the smallest number
    of test rows that the method adapts to at once, and their name; None where it does not adapt.
    `environment_names`: as `environment_rows`; `visited`: whether a row is seen in another
    environment at another visit. `name`: that of the method.
    """

    needs: Needs
    limit: Limit | None
    knobs: Mapping[str, Any]
    batch: int
    steps: int
    environment_rows: Sequence[float]
    group_rows: Sequence[float]
    environment_tables: Sequence[NDArray[np.float64]] = ()
    group_table: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    sampler: str = "uniform"
    undrawn_environments: Sequence[str] = ()
    undrawn_groups: Sequence[str] = ()
    input: InputSpec | None = None
    models: Mapping[str, ModelSpec] = field(default_factory=dict)
    attributes: Sequence[str] = ()
    lots: tuple[int, str] | None = None
    environment_names: Sequence[str] = ()
    visited: bool = False
    name: str = ""
    validation_rows: Mapping[str, int] = field(default_factory=dict)

    @property
    def environments(self) -> list[float]:
        """Training rows of the environments that have any."""
        return [count for count in self.environment_rows if count > 0]

    @property
    def even(self) -> bool:
        """Whether each batch holds equal shares of two environments or more."""
        return self.needs.sampler == "per-environment" and len(self.environments) > 1

    @property
    def spread(self) -> str:
        """The setting with which rows of one environment are compared with each other, `form =
        covariance`; empty where none."""
        for name, value in self.needs.spread.items():
            if self.knobs.get(name) == value:
                return f"{name} = {value}"
        return ""

    @property
    def environments_are_classes(self) -> bool:
        """Whether environments nearly tell classes, or classes environments: then aligning
        environments erases the label.

        It is so where one of Goodman and Kruskal's two lambdas is above 0.8 in one of the tables.
        With two even classes and environments, 0.8 is nine rows in ten.
        """
        return any(
            _fewer_errors(table) > 0.8
            for rows in self.environment_tables
            for table in (rows, rows.T)
        )


def _fewer_errors(rows: NDArray[np.float64]) -> float:
    """Goodman and Kruskal's lambda: the share of wrong guesses of axis 0 by its commonest that
    knowing axis 1 spares."""
    wrong = rows.sum() - rows.sum(axis=1).max()
    spared = rows.max(axis=0).sum() - rows.sum(axis=1).max()
    if wrong:
        return float(spared / wrong)
    return 0.0


# -- what is refused -------------------------------------------------------------------------------


def refuse(pairing: Pairing, where: str, path: str) -> None:
    """Refuse rows, models, batches and steps that leave the method nothing to do, or make it
    another one in silence.

    Raises `NeedsError` that begins with `where`, and `InputError` on a knob, named `path.knob`.
    """
    for problem in (*_single_class(pairing), *_problems(pairing)):
        raise NeedsError(f"{where} {problem}")
    if pairing.needs.pairs:
        _check_pairs(pairing, where, path)
    for name, switch_step in pairing.needs.switch_steps(pairing.knobs, pairing.steps).items():
        if switch_step >= pairing.steps > 0:
            raise InputError(
                f"{path}.{name}",
                f"the switch at step {switch_step} lies beyond the run's last step,"
                f" {pairing.steps - 1}",
            )


def _single_class(pairing: Pairing) -> Iterator[str]:
    """A model that sees one class answers with it always, and is right wherever the test rows are
    of it."""
    classes_shown = int((pairing.group_table.sum(axis=1) > 0).sum())
    if classes_shown == 1:
        yield (
            "trains on rows of a single class, so there is nothing to tell apart; change the shift,"
            " the draw or the label"
        )


def _check_pairs(pairing: Pairing, where: str, path: str) -> None:
    knobs = pairing.knobs
    names = pairing.environment_names
    rows = pairing.environment_rows
    clean, aligned = aligned_codes(names, rows, knobs.get("clean"), knobs.get("aligned"), path)
    if (
        knobs[pairing.needs.pairs] == "instance"
        and knobs.get("crop") == 1
        and knobs.get("flip") == 0
    ):
        raise InputError(
            f"{path}.crop",
            "pairs by instance are two crops of an image: must be below 1, or flip above 0",
        )
    table = pairing.environment_tables[0] > 0
    if not (table[:, clean] & table[:, aligned].any(axis=1)).any():
        aligned_names = _shown([names[code] for code in aligned])
        raise NeedsError(
            f"{where} finds no class with training rows both in environment {names[clean]!r} and in"
            f" {aligned_names}"
        )


@final
@dataclass(frozen=True)
class _RunModel:
    """A model that the method is run with, by its label in the study, and what it declares."""

    label: str
    spec: ModelSpec
    form: Form

    @property
    def reads_features(self) -> bool:
        """Whether it is trained on the features of another model."""
        return bool(self.form.of and self.spec.knobs[self.form.of])


def _problems(pairing: Pairing) -> Iterator[str]:
    """The problems that keep the method from being itself, a sentence each that goes on from its
    name."""
    yield from _kinds_of_rows_lacking(pairing)
    yield from _held_out_rows_lacking(pairing)
    yield from _batch_below_environments(pairing)
    yield from _unfit_images(pairing)
    for label, spec in pairing.models.items():
        form = facts("models", spec.name).built
        if form is not None:  # what a model does not declare is not held against it
            model = _RunModel(label, spec, form)
            yield from _gradient_lacking(pairing, model)
            yield from _weights_not_taken(pairing, model)
            yield from _inputs_unfit_for_model(pairing, model)
            yield from _layers_lacking(pairing, model)
    yield from _images_without_pairs(pairing)
    yield from _undrawn(pairing)
    yield from _rows_too_few_to_compare(pairing)


def _kinds_of_rows_lacking(pairing: Pairing) -> Iterator[str]:
    """Groups and environments of which fewer than two have training rows."""
    needs = pairing.needs
    attributes = pairing.attributes
    for is_needed, group_kind, rows in (
        (needs.groups, "groups", pairing.group_rows),
        (needs.environments, "environments", pairing.environment_rows),
    ):
        have = sum(count > 0 for count in rows)
        if is_needed and have < 2:
            valid = f" (valid: {', '.join(attributes)})" if attributes else ""
            yield (
                f"needs at least two {group_kind} with training rows, and there is {have}; change"
                f" '{group_kind}'{valid}"
            )


def _held_out_rows_lacking(pairing: Pairing) -> Iterator[str]:
    """Labelled validation rows for a method that holds some out, and for selection rules."""
    holdout = pairing.needs.holdout
    if holdout is None:
        return
    set_name = holdout.set_of(pairing.knobs)
    n_rows = pairing.validation_rows.get(set_name, 0)
    if n_rows < 2:
        sets = ", ".join(pairing.validation_rows) or "none"
        yield (
            f"holds out labelled rows of the validation set {set_name!r}, which has {n_rows}"
            f" (validation sets: {sets}); raise roles.validation, or name another set"
        )


def _batch_below_environments(pairing: Pairing) -> Iterator[str]:
    """A batch that cannot hold a row of each environment."""
    batch = pairing.batch
    present = len(pairing.environments)
    if pairing.needs.sampler == "per-environment" and batch < present:
        yield (
            f"needs a row of each of the {present} environments in a batch, and training.batch is"
            f" {batch}; make it larger, or change 'environments'"
        )


def _unfit_images(pairing: Pairing) -> Iterator[str]:
    """Inputs that are no images of the channels and sides that the method can change."""
    channels = pairing.needs.channels
    input_spec = pairing.input
    if not channels or input_spec is None:
        return
    if input_spec.kind != "image" or input_spec.shape[2] not in channels:
        numbers = " or ".join(map(str, channels))
        yield f"needs images of {numbers} channels, and is given {input_spec}"
    elif min(input_spec.shape[:2]) < LEAST_SIDE:
        yield f"needs images of at least {LEAST_SIDE} pixels a side, and is given {input_spec}"


def _inputs_unfit_for_model(pairing: Pairing, model: _RunModel) -> Iterator[str]:
    """The inputs that a model reads where the method changes images or numbers."""
    needs = pairing.needs
    input_spec = pairing.input
    if needs.channels and model.reads_features:
        yield f"needs images, and {model.label!r} is trained on the features of another model"
    has_texts = input_spec is not None and input_spec.kind in ("text", "tokens")
    reads_texts = has_texts and not model.reads_features
    if needs.numbers and pairing.knobs[needs.numbers] and reads_texts:
        yield (
            f"changes inputs as numbers, and {model.label!r} reads texts; name the models that it"
            " is run with in its 'models', such as a linear-probe 'of' another one"
        )


def _gradient_lacking(pairing: Pairing, model: _RunModel) -> Iterator[str]:
    """A method that descends a gradient, and a model that is fitted all at once."""
    if pairing.needs.gradient and not model.form.gradient:
        fitting = ", ".join(
            method_facts.name
            for method_facts in listing("methods")
            if method_facts.needs is not None and not method_facts.needs.gradient
        )
        yield (
            f"descends a gradient, and {model.label!r} is fitted at once by a rule of its own; name"
            f" the models that it is run with in its 'models' (methods that can have {model.label!r}:"
            f" {fitting}; sampler: balanced weighs its groups)"
        )


def _weights_not_taken(pairing: Pairing, model: _RunModel) -> Iterator[str]:
    """A sampler or a method that gives some rows more weight than others, and a model whose own rule
    takes no weights of rows."""
    weighs = pairing.needs.base is not None
    if model.form.gradient or (pairing.sampler == "uniform" and not weighs):
        return
    if weight_argument(estimator_of(model.spec.knobs, f"models.{model.label}")) is not None:
        return
    refused = f"trains {model.label!r}, whose fit takes no weights of rows (sample_weight), and"
    if weighs:
        yield f"{refused} gives them some; name its models in its 'models', or take another estimator"
    else:
        yield (
            f"{refused} the sampler {pairing.sampler} gives them some; set sampler: uniform, or take"
            " another estimator"
        )


def _layers_lacking(pairing: Pairing, model: _RunModel) -> Iterator[str]:
    """The layers that the method reads or changes and a model does not have."""
    needs = pairing.needs
    label = model.label
    form = model.form
    if needs.linear and form.linear is False:
        fitting = ", ".join(_models_with_linear_layers())
        yield (
            f"changes linear layers beside the head, and {label!r} has none; name the models"
            f" that it is run with in its 'models', or take another one (valid: {fitting})"
        )
    norm = form.norm_of(model.spec.knobs)
    if needs.norm and norm and norm != needs.norm:
        norm_in_words = "none" if norm == "none" else f"{norm} norm"
        other_model = _another(pairing.input, lambda built: built.norm == needs.norm)
        yield (
            f"needs a model with {needs.norm} norm, and {label!r} has {norm_in_words}; name the"
            f" models that it is run with in its 'models', or {other_model}"
        )
    if needs.maps and form.has_maps() is False:
        other_model = _another(pairing.input, lambda built: built.has_maps() is True)
        yield (
            f"reads the feature maps of a convolutional model, and {label!r} has none; name the"
            f" models that it is run with in its 'models', or {other_model}"
        )


def _models_with_linear_layers() -> list[str]:
    """The registered models that methods train and that may have linear layers beside the head."""
    models_with_linear_layers: list[str] = []
    for model_facts in listing("models"):
        if model_facts.built and model_facts.built.trained and model_facts.built.linear is None:
            models_with_linear_layers.append(model_facts.name)
    return models_with_linear_layers


def _images_without_pairs(pairing: Pairing) -> Iterator[str]:
    """Pairs of one image in two environments where no image is ever in a second one."""
    pairs_knob = pairing.needs.pairs
    input_spec = pairing.input
    if not pairs_knob or pairing.knobs[pairs_knob] == "class" or pairing.visited:
        return
    condition = f"in two environments at {pairs_knob} = {pairing.knobs[pairs_knob]}"
    if input_spec is not None and input_spec.kind != "image":
        yield f"shows an image {condition}, and is given {input_spec}; set {pairs_knob} to class"
    else:
        yield (
            f"shows an image {condition}, so one of 'environments' must be an attribute that is"
            f" derived at each visit (mode: per-visit); make one, or set {pairs_knob} to class"
        )


def _undrawn(pairing: Pairing) -> Iterator[str]:
    """Rows that a batch, or the sampler, cannot give."""
    needs = pairing.needs
    undrawn = pairing.undrawn_environments
    if pairing.batch < needs.rows:
        yield f"needs batches of at least {needs.rows} rows, and training.batch is {pairing.batch}"
    if needs.sampler == "per-environment" and undrawn:
        yield (
            f"draws every environment in equal shares, and the sampler {pairing.sampler} never"
            f" draws a row of environment {_shown(undrawn)}; choose another"
            " 'sampler' (valid: uniform, balanced, reweight to a test law that has them all, a"
            " mixture above 0 and below 1), or other 'environments'"
        )


def _rows_too_few_to_compare(pairing: Pairing) -> Iterator[str]:
    """Batches and environments without two rows that could be compared with each other."""
    setting = pairing.spread
    batch = pairing.batch
    environments = pairing.environments
    if not setting:
        return
    if not pairing.needs.environments:
        if batch < 4:
            yield f"needs batches of at least 4 rows at {setting}, and training.batch is {batch}"
        return
    present = len(environments)
    if batch < 2 * present:
        yield (
            f"compares rows of one environment at {setting}, so a batch must hold two of each of"
            f" the {present}, and training.batch is {batch}"
        )
    several = sum(count > 1 for count in environments)
    if several < 2:
        has = f"{several or 'none'} of the {present} has them"
        yield f"needs two environments with at least two training rows at {setting}, and {has}"


def _another(input_spec: InputSpec | None, fits: Callable[[Form], bool]) -> str:
    """The remedy where a model lacks what a method needs: take one that has it and reads what is
    given, if there is one."""
    fitting = []
    for model_facts in listing("models"):
        if (
            model_facts.built is not None
            and fits(model_facts.built)
            and (input_spec is None or input_spec.kind in model_facts.built.takes)
        ):
            fitting.append(model_facts.name)
    if not fitting:
        return f"leave the method out: no model that takes {input_spec} has that"
    return f"take another one (valid: {', '.join(fitting)})"


def check_run(
    method: Method,
    split: Split,
    images: Mapping[str, AttributedDataset],
    settings: TrainingSettings,
    pairing: Pairing,
) -> None:
    """Refuse what the method cannot be trained on: `NeedsError`, `InputError`, `DataError`, each
    naming what is wrong."""
    from crosswind.training.device import check_device

    refuse(pairing, f"method {_name(method)!r}", "method")
    training_input = images[split.train.source].input
    if settings.length_pool:
        check_has_lengths(images[split.train.source], "length_pool")
    for name, rows in {**split.validation, **split.evaluation}.items():
        set_input = images[rows.source].input
        if set_input != training_input:
            problem = (
                f"set {name!r} has {set_input} from {rows.source!r}, training has {training_input}:"
                " make them alike"
            )
            raise DataError(problem)
    check_device(settings.device)
    knob = method.needs.adapts
    if knob and getattr(method, knob) is not None:
        for rows in split.evaluation.values():
            images[rows.source].attribute(getattr(method, knob), f"method.{knob}")


def check_has_lengths(data: AttributedDataset, setting: str) -> None:
    """Refuse batches of rows of similar length where rows have no length: `InputError` on
    `setting`."""
    if data.input is not None and data.input.kind not in ("text", "tokens"):
        problem = "puts texts of similar length together, and the rows of"
        raise InputError(setting, f"{problem} {data.name!r} are {data.input}")


def check_stages(name: str, needs: Needs, stages: Sequence[str]) -> None:
    """Refuse a model without a stage whose features the method reads. Raises `NeedsError`."""
    for tap in needs.taps:
        if tap not in stages:
            raise NeedsError(
                f"method {name!r} reads the stage {tap!r}, the model has {', '.join(stages)}"
            )


# -- what is warned of -----------------------------------------------------------------------------


def warnings_of(pairing: Pairing) -> list[str]:
    """How the method may miss its own end, in words that go on from its name, such as "weighs
    groups, but ..."."""
    return [*_warnings(pairing), *_lot_warning(pairing.lots)]


def _warnings(pairing: Pairing) -> Iterator[str]:
    """The warnings by the rows, the models and the settings against the method, in words that go on
    from its name."""
    if pairing.needs.sampler == "per-environment" and len(pairing.environments) < 2:
        yield (
            "compares environments, but here all training rows are of one, so it compares parts"
            " of it"
        )
    yield from _limit_named(pairing)
    yield from _environments_that_tell_classes(pairing)
    yield from _single_rows(pairing)
    yield from _random_weights(pairing)
    yield from _too_few_steps(pairing)
    yield from _unweighed_groups(pairing)
    yield from _overruled_sampler(pairing)


def _limit_reached(pairing: Pairing) -> Mapping[str, Any]:
    """The knobs by which the method is another one; empty where it is itself."""
    if pairing.limit is None:
        return {}
    return pairing.limit.reached(pairing.knobs)


def _limit_named(pairing: Pairing) -> Iterator[str]:
    """Which method this one is at these settings."""
    limit_reached = _limit_reached(pairing)
    if pairing.limit is not None and limit_reached:
        settings = []
        for name, value in limit_reached.items():
            settings.append(f"{name} = {value if isinstance(value, str) else canonical(value)}")
        yield f"is {pairing.limit.equals} at {', '.join(settings)}"


def _environments_that_tell_classes(pairing: Pairing) -> Iterator[str]:
    """Environments that share hardly any class."""
    if pairing.even and pairing.environments_are_classes:
        yield (
            "aligns environments, but here they and the classes nearly tell each other, so aligning"
            " them erases the label"
        )
    elif pairing.needs.environments and pairing.environments_are_classes:
        yield (
            "shows a class under its other environments, but here they and the classes nearly tell"
            " each other, so there are few"
        )


def _single_rows(pairing: Pairing) -> Iterator[str]:
    """Environments of which a batch, or the training set, has a single row."""
    if not pairing.even:
        return
    needs = pairing.needs
    present = len(pairing.environments)
    if needs.spread and needs.environments and pairing.batch < 2 * present:
        few = f"training.batch {pairing.batch} holds a single row of some of the {present}"
        yield f"measures environments by their rows in a batch, and {few}"
    single = sum(count == 1 for count in pairing.environments)
    if single:
        yield (
            f"has {single} of {present} environments with a single training row, which each batch"
            " repeats"
        )


def _random_weights(pairing: Pairing) -> Iterator[str]:
    """Models with random weights, where the method means something from given ones only."""
    want = WANTED.get(pairing.name, Want())
    weights = "goes back towards the initial weights" if pairing.needs.given else want.weights
    if not weights:
        return
    for label, model in pairing.models.items():
        form = facts("models", model.name).built
        if form is not None and not form.is_given(model.knobs):
            yield (
                f"{weights}, and those of {label!r} are random; name weights, or take clip with"
                " tuned"
            )


def _too_few_steps(pairing: Pairing) -> Iterator[str]:
    """Fewer steps than the method was seen to need."""
    want = WANTED.get(pairing.name, Want())
    if 0 < pairing.steps < want.steps and not _limit_reached(pairing):
        yield (
            f"has {pairing.steps} steps, and below {want.steps} it was seen far behind plain"
            f" training: {want.because}"
        )


def _unweighed_groups(pairing: Pairing) -> Iterator[str]:
    """Groups that the method is to weigh and cannot, or draws again and again."""
    if not pairing.needs.groups:
        return
    # Groups without numbers, so that a plan says it once of all the shifts that it is so under;
    # what is drawn has the numbers.
    undrawn = pairing.undrawn_groups
    group_rows = pairing.group_rows
    if undrawn:
        yield (
            f"cannot weigh groups of which the sampler {pairing.sampler} never draws a row:"
            f" {_shown(undrawn)}"
        )
    if sum(not count > 0 for count in group_rows) > len(undrawn):
        yield "cannot weigh groups that training does not show"
    if any(count == 1 for count in group_rows):
        yield "draws groups evenly, and some have a single training row, which is repeated"
    groups_of_class = (pairing.group_table > 0).sum(axis=1)
    if (groups_of_class <= 1).all():
        yield (
            "weighs groups, but every class has training rows of one group only, so it weighs"
            " classes"
        )


def _overruled_sampler(pairing: Pairing) -> Iterator[str]:
    """The study's sampler where the method draws in equal shares itself."""
    sampler = pairing.sampler
    draws_groups = pairing.needs.sampler == "balanced" and sampler != "balanced"
    if sampler != "uniform" and (pairing.even or draws_groups):
        group_kind = "environments" if pairing.even else "groups"
        yield (
            f"draws {group_kind} in equal shares, so the sampler {sampler} decides only among the"
            " rows of each"
        )


def _lot_warning(lot: tuple[int, str] | None) -> list[str]:
    if lot is None or lot[0] > 1:
        return []
    return [f"adapts to {lot[1]}, which is a single test row, by the statistics of that row alone"]


def _shown(names: Sequence[str]) -> str:
    return repr(names[0]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def run_warnings(
    method: Method,
    split: Split,
    info: Info,
    pairing: Pairing,
    state: Mapping[str, Tensor],
    selections: Mapping[str, Selection],
    start: int,
    idle: Sequence[str] = (),
) -> dict[str, list[str]]:
    """The warnings for the reader of each selection rule's numbers, a sentence each: what the
    method found out itself, what its rows say, and what the rule took.

    `state` is that at the end; `start`: the first step from after the method's last switch, 0 where
    it has none. `idle`: that the method was measured and did next to nothing, which is told unless
    the method is at its limit by name.
    """
    name = _name(method)
    method_doubts = method.doubts(dict(state))
    row_warnings = warnings_of(pairing)
    if not any(text.startswith("is ") for text in row_warnings) and changes_nothing(
        method, info.input_shape
    ):
        row_warnings.append(
            "changes no picture of this size at these settings: tried on noise, all stayed as they"
            " were"
        )
    if method_doubts:
        # It knows better why it is another method.
        row_warnings = [
            text for text in row_warnings if not text.startswith(("is ", "compares environments"))
        ]
    if not any(text.startswith(("is ", "changes no picture")) for text in row_warnings):
        method_doubts = [*method_doubts, *idle]
    end = selections["last"].step
    if end == 0 and method.needs.base is None:  # with one, its training may be all there is
        row_warnings.append("took no step, so its networks are as they began")
    common = [
        *(f"{name}: {text}" for text in method_doubts),
        *(f"{name} {text}" for text in row_warnings),
    ]
    return {
        rule: [*common, *_rule_warnings(method, split, info, selection, end, start)]
        for rule, selection in selections.items()
    }


def changes_nothing(method: Method, shape: tuple[int, ...]) -> bool:
    """Whether the method augments pictures, and none of some noise of this shape (c, h, w) is
    changed by it.

    Of two kinds: levels over the whole range, which equalising the contrast leaves alone, and over
    half of it.
    """
    views = [view for view in method.views() if view is not None]
    if not views:
        return False
    import torch

    n_pictures = 16
    generator = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (n_pictures, *shape), generator=generator, dtype=torch.uint8)
    keys = training_keys(np.arange(n_pictures), 0, 0)
    return all(torch.equal(view(x, keys), x) for view in views for x in (noise, noise // 2 + 64))


def _rule_warnings(
    method: Method, split: Split, info: Info, selection: Selection, end: int, start: int
) -> list[str]:
    warnings = []
    if selection.step < start:
        switch_steps = method.needs.switch_steps(vars(method), info.steps)
        knob = max(switch_steps, key=lambda name: switch_steps[name])
        why = "since the run ended there"
        if end >= start:
            why = "as training.select_before_switch allows"
        warnings.append(
            f"{_name(method)}: {selection.rule} took a step before the switch at step"
            f" {switch_steps[knob]} ({knob}), {why}"
        )
    rule = RULES.get(selection.rule)
    if rule is not None and rule.score != "accuracy":
        rows = split.validation[rule.set]
        group_kind, codes = (
            ("group", rows.group) if rule.score == "worst_group" else ("class", rows.label)
        )
        if len(np.unique(codes[codes >= 0])) < 2:
            warnings.append(
                f"{selection.rule} found no second {group_kind} in the set {rule.set}, so it chose"
                " by accuracy"
            )
    return warnings


def lot_warnings(method: Method, lot: tuple[int, str] | None) -> list[str]:
    """The warnings for the reader of predictions about the smallest number of test rows that the
    method adapts to at once."""
    return [f"{_name(method)} {text}" for text in _lot_warning(lot)]


def _name(method: Method) -> str:
    return str(method.registered_name)  # type: ignore[attr-defined]
