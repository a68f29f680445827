"""What a split is made of: the plan of a study's sets, as plain frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from crosswind.core.errors import InputError, unknown
from crosswind.shifts.base import All, Shift, exact, parse_shift
from crosswind.shifts.draw import ALL_ROWS, DatasetSize, Draw, parse_draw
from crosswind.shifts.noise import LabelNoise
from crosswind.shifts.split.deal import ROLES, Roles

__all__ = ["LAWS", "SetPlan", "SplitPlan", "default_sets", "parse_sampler", "parse_sets"]

LAWS = ("train", "without-supplements", "unseen")
"""What a set may name instead of a shift: the law of training, its weights alone, or the cells that training leaves out."""
OVERLAPS = ("refused", "allowed")
SAMPLERS = ("uniform", "reweight", "balanced", "mixture")


@final
@dataclass(frozen=True)
class SetPlan:
    """A named set to validate or evaluate on.

    `role`: whose rows, "validation", "test" or "train". `law`: a shift over them, or one of `LAWS`:

    * "train": as training. A number of rows in all is in the proportions of the training rows, supplements among them, up to
      rounding: of what training draws, not of what it asked where a cell or a supplement's region had too few rows. By weights
      these are expectations, before rounding put whole rows into some cells. Where all rows of a role or rows a cell are drawn, and
      in another data set, the weights of the training shift, and its supplements in the share that they have in training. A cell
      that cannot give its part is named in the warnings, and the others give it. Sets of role test follow what a run of the split
      seed trains on, so that they are the same for all runs.
    * "without-supplements": the weights of the training shift alone, as Jeon et al. 2025 validate.
    * "unseen": evenly the cells from which training draws no row, so that one plan of sets serves every shift that leaves something
      out.

    `draw`: how many; None is all of the role's rows in proportion to the law, and for a validation set of the first two laws their
    share in training and validation together. `source`: another data set, whose rows are all for the sets that read it,
    but for those whose pictures have another role where they are dealt first. `labels`: a map from its classes to ours, None to
    leave a class out; classes of equal names need no entry.
    """

    role: str
    law: Shift | str = field(default_factory=All)
    draw: Draw | None = None
    source: str | None = None
    labels: Mapping[str, Any] | None = None

    def describe(self) -> dict[str, Any]:
        """The set as plain values, which `parse_sets` reads back."""
        return {
            "role": self.role,
            "law": self.law if isinstance(self.law, str) else self.law.describe(),
            "draw": None if self.draw is None else self.draw.describe(),
            "source": self.source,
            "labels": None if self.labels is None else dict(self.labels),
        }


def default_sets() -> dict[str, SetPlan]:
    """In-distribution validation and a uniform test set."""
    return {"validation": SetPlan("validation", "train"), "test": SetPlan("test")}


@final
@dataclass(frozen=True)
class SplitPlan:
    """All that decides a split but the data and the run's seed.

    `label`: the attribute to predict. `attributes`: those that cut the cells with it. `shift` and `draw`: the training set. `roles`
    and `split_seed`: which rows may be in which set. `sets`: the others, by name. `groups`, `environments`: the attributes whose
    cells (with the label, without it) a method may see; None is the shift's attributes that have two values in training, else
    all. `label_noise`, `dataset_size`: conditions. `sampler`: "uniform", "reweight" (cells in the shares of the test law),
    "balanced" (each group the same) or {"mixture": p} (mass p on the supplements' rows). `overlap`: a picture that several rows
    show has one role, and what an official split puts in two is an `InputError`; "allowed" leaves the parts of official splits and
    the rows of other sources as they are. Raises `InputError` for another word.
    """

    label: str
    attributes: tuple[str, ...]
    shift: Shift = field(default_factory=All)
    draw: Draw = ALL_ROWS
    roles: Roles = field(default_factory=Roles)
    sets: Mapping[str, SetPlan] = field(default_factory=default_sets)
    groups: tuple[str, ...] | None = None
    environments: tuple[str, ...] | None = None
    label_noise: LabelNoise | None = None
    dataset_size: DatasetSize | None = None
    sampler: str | Mapping[str, Any] = "uniform"
    split_seed: int = 0
    overlap: str = "refused"

    def __post_init__(self) -> None:
        if self.overlap not in OVERLAPS:
            raise unknown("overlap", "overlap", self.overlap, OVERLAPS)

    def describe(self) -> dict[str, Any]:
        """The plan as plain values for JSON."""
        return {
            "label": self.label,
            "attributes": list(self.attributes),
            "shift": self.shift.describe(),
            "draw": self.draw.describe(),
            "roles": self.roles.describe(),
            "sets": {name: plan.describe() for name, plan in self.sets.items()},
            "groups": None if self.groups is None else list(self.groups),
            "environments": None if self.environments is None else list(self.environments),
            "label_noise": None if self.label_noise is None else self.label_noise.describe(),
            "dataset_size": None if self.dataset_size is None else self.dataset_size.rows,
            "sampler": self.sampler if isinstance(self.sampler, str) else dict(self.sampler),
            "split_seed": self.split_seed,
            "overlap": self.overlap,
        }


def parse_sets(spec: Any, field: str = "sets") -> dict[str, SetPlan]:
    """The sets that plain values name, {name: {"role", "law", "draw", "source", "labels"}}; null is the default.

    Raises `InputError`. A set named "validation" or "test" has that role where it names none.
    """
    if spec is None:
        return default_sets()
    if not isinstance(spec, Mapping):
        raise InputError(field, f"must be a map from name to set, not {spec!r}")
    return {str(name): _parse_set(str(name), given, f"{field}.{name}") for name, given in spec.items()}


def _parse_set(name: str, spec: Any, field: str) -> SetPlan:
    if isinstance(spec, SetPlan):
        return spec
    known = ["role", "law", "draw", "source", "labels"]
    if not isinstance(spec, Mapping):
        raise InputError(field, f"must be a map, not {spec!r}", known)
    for key in spec:
        if key not in known:
            raise unknown(f"{field}.{key}", "setting of a set", key, known)
    role = spec.get("role", name if name in ROLES else None)
    if role is None:
        role = next((candidate for candidate in ("validation", "test") if name.endswith(f"-{candidate}")), None)
    if role not in ROLES:
        raise unknown(f"{field}.role", "role", role, ROLES) if role else InputError(f"{field}.role", "a set needs its role", ROLES)
    law = spec.get("law", "train" if name == "validation" else None)
    if law not in LAWS:
        law = parse_shift(law, f"{field}.law")
    labels, source = spec.get("labels"), spec.get("source")
    if labels is not None and not isinstance(labels, Mapping):
        raise InputError(f"{field}.labels", f"must be a map from the source's classes to ours, not {labels!r}")
    if source is not None and not isinstance(source, str):
        raise InputError(f"{field}.source", f"must be the name of a data set, not {source!r}")
    draw = None if spec.get("draw") is None else parse_draw(spec["draw"], f"{field}.draw")
    return SetPlan(role, law, draw, source, labels)


def parse_sampler(spec: Any, field: str = "sampler") -> str | dict[str, float]:
    """The sampler that plain values name: "uniform", "reweight", "balanced" or {"mixture": p}. Raises `InputError`."""
    if spec is None:
        return "uniform"
    if isinstance(spec, str) and spec in SAMPLERS and spec != "mixture":
        return spec
    if isinstance(spec, Mapping) and list(spec) == ["mixture"]:
        return {"mixture": float(exact(spec["mixture"], f"{field}.mixture", 0, 1))}
    if spec == "mixture" or not isinstance(spec, str):
        raise InputError(field, f'must be a sampler, a mixture with its mass as {{"mixture": p}}, not {spec!r}', SAMPLERS)
    raise unknown(field, "sampler", spec, SAMPLERS)
