"""The plan of a split: roles of rows, the named sets, and the conditions, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, final

from crosswind.core.errors import InputError, unknown
from crosswind.shifts.base import All, Shift, exact
from crosswind.shifts.draw import ALL_ROWS, DatasetSize, Draw
from crosswind.shifts.noise import LabelNoise

ROLES = ("test", "validation", "train")
LAWS = ("train", "without-supplements", "unseen")
"""What a set may name instead of a shift: the law of training, its weights alone, or the cells that
training leaves out."""
OVERLAPS = ("refused", "allowed")
SAMPLERS = ("uniform", "reweight", "balanced", "mixture", "environment", "image")


@final
@dataclass(frozen=True)
class Roles:
    """Which rows may test, validate and train, in each finest cell of label and attributes, by
    hash(unit id, split seed).

    `test` rows come first: a whole number of rows a cell, or a share in (0, 1) of all rows, spread
    so that its total is right. None is a fifth, or every official test row. Then `validation`: rows
    a cell, or a share of what remains, rounded up in each cell as long as one row stays for
    training. The rest may train. Shares are exact: "1/3" is a third, 0.3333333333333333 a little
    less. `official`: the source's own split instead, {"column": name, "train": values, "test":
    values, "validation": values}. Without validation values, validation rows are taken from the
    training rows; `test` and `validation` then take a part of each. Raises `InputError` on `roles`.
    """

    test: int | float | str | None = None
    validation: int | float | str = 0.2
    official: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.test is not None:
            quota(self.test, "roles.test")
        quota(self.validation, "roles.validation")
        if self.official is None:
            return
        known_keys = ["column", "train", "validation", "test"]
        if not isinstance(self.official, Mapping):
            raise InputError("roles.official", f"must be a map, not {self.official!r}", known_keys)
        for name in self.official:
            if name not in known_keys:
                raise unknown(
                    f"roles.official.{name}", "setting of the official split", name, known_keys
                )
        for name in ("column", "train", "test"):
            if self.official.get(name) is None:
                raise InputError(
                    f"roles.official.{name}",
                    "an official split needs its column, train values and test values",
                )

    @property
    def validation_share(self) -> Fraction | None:
        """The share of validation rows in training and validation together, where it is a share."""
        share = quota(self.validation, "roles.validation")
        return share if isinstance(share, Fraction) else None


def quota(value: object, field: str) -> int | Fraction:
    """A whole number of rows a cell, or an exact share in (0, 1). Raises `InputError`."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise InputError(field, f"must be at least 0 rows a cell, not {value}")
        return value
    share = exact(value, field, 0, 1)
    if not 0 < share < 1:
        raise InputError(
            field,
            f"must be a whole number of rows a cell or a share between 0 and 1, not {value!r}",
        )
    return share


@final
@dataclass(frozen=True)
class SetPlan:
    """A named set to validate or evaluate on.

    `role`: whose rows, "validation", "test" or "train". `law`: a shift over them, or one of `LAWS`:

    * "train": as training. A number of rows in all is in the proportions of the training rows,
      supplements among them, up to rounding: of what training draws, not of what it asked where a
      cell or a supplement's region had too few rows. By weights these are expectations, before
      rounding put whole rows into some cells. In another data set, and where all rows of a role or
      rows a cell are drawn, it has the weights of the training shift. Its supplements have the
      share that they have in training. A cell that cannot give its part is named in the warnings,
      and the others give it. Sets of role test follow what a run of the split seed trains on, so
      that they are the same for all runs.
    * "without-supplements": the weights of the training shift alone, as Jeon et al. 2025 validate.
    * "unseen": evenly the cells from which training draws no row, so that one plan of sets serves
      every shift that leaves something out.

    `draw`: how many. None is all of the role's rows in proportion to the law, and for a validation
    set of the first two laws their share in training and validation together. `source`: another
    data set, whose rows are all for the sets that read it, but for those whose pictures have
    another role where they are dealt first.

    `labels`: a map from the classes of the source to ours, or to lists of ours that all count as
    the class; None leaves a class out. Classes of equal names need no entry. Nor do classes of
    ObjectNet and its like, beside all of ImageNet's that they stand for. `answers`: the classes
    that a model may answer with: "all" of ours, or "present", those that the set's classes stand
    for.
    """

    role: str
    law: Shift | str = field(default_factory=All)
    draw: Draw | None = None
    source: str | None = None
    labels: Mapping[str, Any] | None = None
    answers: str = "all"


def default_sets() -> dict[str, SetPlan]:
    """In-distribution validation and a uniform test set."""
    return {"validation": SetPlan("validation", "train"), "test": SetPlan("test")}


@final
@dataclass(frozen=True)
class SplitPlan:
    """All that decides a split but the data and the run's seed.

    `label`: the attribute to predict. `attributes`: those that cut the cells with it. `shift` and
    `draw`: the training set. `roles` and `split_seed`: which rows may be in which set. `sets`: the
    others, by name. `groups`, `environments`: the attributes whose cells (with the label, without
    it) a method may see; None is the shift's attributes that have two values in training, else all.
    `label_noise`, `dataset_size`: conditions. `sampler`: "uniform", "reweight" (cells in the shares
    of the test law), "balanced" (each group the same) or {"mixture": p} (mass p on the supplements'
    rows). Of a systematic shift it may be {"environment": p} or {"image": p}, see
    `Environments.shares`. `overlap`: a picture that several rows show has one role, and what an
    official split puts in two is an `InputError`. "allowed" leaves the parts of official splits and
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


def parse_sampler(spec: Any, field: str = "sampler") -> str | dict[str, float]:
    """The sampler that plain values name: "uniform", "reweight", "balanced", or one of the others
    with its probability as {"mixture": p}. Raises `InputError`."""
    if spec is None:
        return "uniform"
    if isinstance(spec, str) and spec in SAMPLERS[:3]:
        return spec
    if isinstance(spec, Mapping) and len(spec) == 1 and next(iter(spec)) in SAMPLERS[3:]:
        name = str(next(iter(spec)))
        return {name: float(exact(spec[name], f"{field}.{name}", 0, 1))}
    if not isinstance(spec, str) or spec in SAMPLERS:
        raise InputError(
            field,
            f'must be a sampler, a mixture with its mass as {{"mixture": p}}, not {spec!r}',
            SAMPLERS,
        )
    raise unknown(field, "sampler", spec, SAMPLERS)
