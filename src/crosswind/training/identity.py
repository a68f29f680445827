"""What a run is, told before it starts: to its method, and to a checkpoint that may or may not be its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.knobs import knobs_of
from crosswind.core.types import digest, digest_arrays
from crosswind.data.dataset import AttributedDataset
from crosswind.methods.base import Info, Method
from crosswind.training.settings import ModelSpec, TrainingSettings

if TYPE_CHECKING:
    from torch import Tensor

    from crosswind.shifts.split import Split

__all__ = ["identity", "info_of"]


def info_of(split: Split, images: Mapping[str, AttributedDataset], settings: TrainingSettings) -> Info:
    """What the method may know of a run."""
    rows = split.train
    shape = images[rows.source].image_shape or (0, 0, 0)
    environment = rows.environment
    return Info(
        input_shape=(shape[2], shape[0], shape[1]),
        n_classes=len(split.class_names),
        n_rows=len(rows.rows),
        class_names=tuple(split.class_names),
        group_names=tuple(rows.group_names),
        group_counts=_counts(rows.group, len(rows.group_names)),
        environment_names=() if environment is None else tuple(rows.environment_names or ()),
        environment_counts=() if environment is None else _counts(environment, len(rows.environment_names or ())),
        class_counts=_counts(rows.label, len(split.class_names)),
        steps=settings.longest(len(rows.rows)),
        batch=settings.batch,
        lr=settings.lr,
    )


def identity(
    method: Method, split: Split, model: ModelSpec, settings: TrainingSettings, seed: int, base: Mapping[str, Tensor] | None
) -> str:
    """A digest of all that decides a run's numbers: what a checkpoint belongs to."""
    rows = split.train
    arrays = {"rows": rows.rows, "label": rows.label, "group": rows.group, "weight": rows.weight}
    arrays |= {f"validation/{name}": item.rows for name, item in split.validation.items()}
    told = {name: value for name, value in vars(settings).items() if name != "checkpoint_every"}
    return digest(
        {
            "method": method.registered_name,  # type: ignore[attr-defined]
            "version": method.version,
            "knobs": {item.name: getattr(method, item.name) for item in knobs_of(type(method))},
            "model": [model.name, dict(model.knobs)],
            "settings": told,
            "seed": seed,
            "rows": digest_arrays({name: np.asarray(array) for name, array in arrays.items()}),
            "base": None if base is None else digest_arrays({name: value.numpy() for name, value in base.items()}),
        }
    )


def _counts(codes: NDArray[np.integer[Any]], size: int) -> tuple[int, ...]:
    return tuple(int(count) for count in np.bincount(codes, minlength=size))
