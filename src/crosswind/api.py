"""The main job in Python: load, shift, split, train, evaluate.

Each function is one arrow of the path that studies take too; a study adds only the product of many and a store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crosswind.core.errors import InputError
from crosswind.core.knobs import resolve
from crosswind.core.registry import facts
from crosswind.core.registry import load as load_class
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import Shift, parse_shift
from crosswind.shifts.draw import parse_draw
from crosswind.shifts.noise import parse_noise
from crosswind.shifts.split import Roles, SetPlan, Split, SplitPlan, default_sets, make_split, parse_sampler

if TYPE_CHECKING:
    from crosswind.training.loop import Trajectory

__all__ = ["evaluate", "load", "split", "train"]


def load(source: str, **options: Any) -> AttributedDataset:
    """A data set by the name of its source, such as `load("digits")` or `load("table", path="birds.csv", images="birds")`.

    Raises `InputError` for an unknown source or option and `DataError` for files that are not what they should be.
    """
    known = facts("sources", source, "source")
    dataset: AttributedDataset = load_class("sources", source)(**resolve(known.knobs, options, "", f"source {source!r}")).load()
    return dataset


def split(
    dataset: AttributedDataset,
    label: str,
    attributes: Sequence[str],
    shift: Shift | list[Any] | None = None,
    *,
    draw: str | int | Mapping[str, int] = "all",
    test: int | float | None = None,
    validation: int | float = 0.2,
    sets: Mapping[str, SetPlan] | None = None,
    groups: Sequence[str] | None = None,
    environments: Sequence[str] | None = None,
    sampler: str | Mapping[str, float] = "uniform",
    label_noise: float = 0.0,
    seed: int = 0,
    split_seed: int = 0,
) -> Split:
    """Training, validation and evaluation rows of `dataset` under a shift (none: every cell alike).

    `test` and `validation`: rows of each cell (int) or a share in (0, 1); test None is a fifth. `draw`: "all", rows a cell, or
    {"total": n}. The evaluation set "test" is uniform over cells and depends on `split_seed` only; `seed` redraws training and
    validation rows.
    """
    law = parse_shift([] if shift is None else shift, "shift") if not isinstance(shift, Shift) else shift
    plan = SplitPlan(
        label=label,
        attributes=tuple(attributes),
        shift=law,
        draw=parse_draw(draw, "draw"),
        roles=Roles(test=test, validation=validation, official=None),
        sets=dict(sets) if sets is not None else default_sets(),
        groups=None if groups is None else tuple(groups),
        environments=None if environments is None else tuple(environments),
        label_noise=parse_noise(label_noise) if label_noise else None,
        dataset_size=None,
        sampler=parse_sampler(sampler),
        split_seed=split_seed,
    )
    return make_split({dataset.name: dataset}, dataset.name, plan, seed)


def train(
    method: str,
    split: Split,
    dataset: AttributedDataset | Mapping[str, AttributedDataset],
    *,
    model: str = "resnet-w16",
    seed: int = 0,
    knobs: Mapping[str, Any] | None = None,
    **training: Any,
) -> Trajectory:
    """Train a method by name on a split. `knobs` are the method's settings, other words the training loop's (`steps=300`).

    Returns the trajectory: history, the selected steps and the predictions of every selection rule on every set.
    """
    import torch

    from crosswind.training.loop import fit
    from crosswind.training.settings import ModelSpec, TrainingSettings

    torch.set_num_threads(1)  # numbers are the same however many cores there are; parallelise over runs
    known = facts("methods", method, "method")
    built = load_class("methods", method)(**resolve(known.knobs, knobs or {}, "knobs", f"method {method!r}"))
    model_facts = facts("models", model, "model")
    datasets = {dataset.name: dataset} if isinstance(dataset, AttributedDataset) else dict(dataset)
    return fit(
        built,
        split,
        datasets,
        ModelSpec(model, resolve(model_facts.knobs, {}, "model", f"model {model!r}")),
        TrainingSettings.of(training, ""),
        seed=seed,
    )


def evaluate(trajectory: Trajectory, split: Split, rule: str = "best-id") -> dict[str, dict[str, Any]]:
    """Scores of every set under a selection rule: accuracy, worst group, calibration error and more, as fractions."""
    from crosswind.evaluation.metrics import scores

    if rule not in trajectory.predictions:
        raise InputError("rule", f"this trajectory has no selection {rule!r}", trajectory.predictions)
    found = {}
    for name, predictions in trajectory.predictions[rule].items():
        rows = split.validation[name] if name in split.validation else split.evaluation[name]
        found[name] = scores(predictions, rows.group_names, split.class_names)
    return found
