"""A tiny world that trains in milliseconds: two classes told by brightness, an attribute that tints
the picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.split import RowSet, Split
from crosswind.training.loop import fit
from crosswind.training.settings import ModelSpec, TrainingSettings
from crosswind.training.trajectory import Trajectory

__all__ = [
    "DATA",
    "GROUPS",
    "SIDE",
    "dataset",
    "rows_of",
    "run",
    "same_weights",
    "split",
    "with_train",
]

SIDE = 8
"""Of its pictures, in pixels."""
GROUPS = ("dark, red", "dark, blue", "bright, red", "bright, blue")


def dataset(n: int = 200, tint: float = 30) -> AttributedDataset:
    """Row i has class i % 2 and tint (i // 2) % 2, of `tint` grey levels; pixels are noise around
    both."""
    codes = np.stack([np.arange(n) % 2, np.arange(n) // 2 % 2]).astype(np.uint8)
    table = AttributeTable(
        (Attribute("light", ("dark", "bright")), Attribute("tint", ("red", "blue"))), codes
    )
    noise = np.random.default_rng(7).normal(0, 40, (n, SIDE, SIDE, 3))
    pixels = 110 + 36 * codes[0][:, None, None, None] + noise
    pixels[np.arange(n), :, :, np.where(codes[1], 2, 0)] += tint
    pictures = pixels.clip(0, 255).astype(np.uint8)
    return AttributedDataset(
        "tiny", table, lambda rows: pictures[rows], InputSpec.image(SIDE, SIDE, 3)
    )


def rows_of(data: AttributedDataset, rows: NDArray[np.int64]) -> RowSet:
    """A set of these rows, each with its class, its group and its tint as the environment."""
    label, tint = (data.table.column(name)[rows].astype(np.int64) for name in ("light", "tint"))
    n = len(rows)
    return RowSet(
        "tiny",
        rows,
        label,
        label,
        2 * label + tint,
        tint,
        np.full(n, 1.0 / max(n, 1)),
        np.zeros(n, dtype=np.int8),
        GROUPS,
        ("red", "blue"),
        environment_sizes=(2,),
    )


DATA = dataset()


def split(n_train: int = 60, data: AttributedDataset = DATA) -> Split:
    """Rows 0.. train; 30 validation rows, 30 OOD validation rows, 45 test rows."""
    role_ranges = {"validation": (90, 120), "ood-validation": (120, 150), "test": (150, 195)}
    sets = {name: rows_of(data, np.arange(*role_range)) for name, role_range in role_ranges.items()}
    return Split(
        rows_of(data, np.arange(n_train)),
        {key: sets[key] for key in ("validation", "ood-validation")},
        {"test": sets["test"]},
        ("dark", "bright"),
        warnings=(),
        notes=(),
        flips={},
        parts={},
    )


def with_train(sets: Split, **changes: Any) -> Split:
    """The split with fields of its training rows changed."""
    return replace(sets, train=replace(sets.train, **changes))


def run(  # noqa: PLR0913 - settings by name
    method: Any,
    sets: Split | None = None,
    *,
    model: str = "mlp",
    seed: int = 0,
    data: AttributedDataset = DATA,
    checkpoint: Any = None,
    progress: Callable[[dict[str, Any]], object] | None = None,
    base: Any = None,
    meter: Any = None,
    profile: Any = None,
    rules: tuple[str, ...] = (),
    ranks: Any = None,
    **settings: Any,
) -> Trajectory:
    """A short fit; two hidden layers of 16 where the model is the perceptron."""
    knobs = {"hidden": 16, "layers": 2} if model == "mlp" else {}
    chosen = TrainingSettings.of(
        {
            "steps": 12,
            "batch": 16,
            "validate_every": 4,
            "evaluation_batch": 32,
            "checkpoint_seconds": 0,
            **settings,
        }
    )
    sets = split() if sets is None else sets
    model_spec = ModelSpec(model, knobs)
    return fit(
        method,
        sets,
        {"tiny": data},
        model_spec,
        chosen,
        seed,
        checkpoint,
        progress,
        base=base,
        rules=rules,
        meter=meter,
        profile=profile,
        ranks=ranks,
    )


def same_weights(
    left: Trajectory, right: Trajectory, rule: str = "last", tolerance: float = 0.0
) -> bool:
    """Whether two trajectories end with equal networks and state, bit for bit where the tolerance
    is 0."""
    left_weights, right_weights = left.weights(rule), right.weights(rule)
    assert left_weights.keys() == right_weights.keys()
    if tolerance:
        return all(
            bool(
                (left_weights[key].double() - right_weights[key].double()).abs().max() <= tolerance
            )
            for key in left_weights
        )
    return all(bool((left_weights[key] == right_weights[key]).all()) for key in left_weights)
