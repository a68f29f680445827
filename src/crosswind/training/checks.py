"""What is refused before a run does any work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from crosswind.core.errors import DataError
from crosswind.data.dataset import AttributedDataset
from crosswind.methods.base import Info, Method, check_needs
from crosswind.training.device import check_device
from crosswind.training.settings import TrainingSettings, check_switches

if TYPE_CHECKING:
    from crosswind.shifts.split import Split

__all__ = ["check_run"]


def check_run(
    method: Method, split: Split, images: Mapping[str, AttributedDataset], settings: TrainingSettings, info: Info
) -> None:
    """Refuse what the method cannot be trained on: `NeedsError`, `InputError`, `DataError`, each naming what is wrong."""
    check_needs(method.registered_name, method.needs, info)  # type: ignore[attr-defined]
    check_switches(method.needs, vars(method), info.steps)
    own = images[split.train.source].image_shape
    for name, rows in {**split.validation, **split.evaluation}.items():
        shape = images[rows.source].image_shape
        if shape != own:
            raise DataError(
                f"set {name!r} has images of {shape} from {rows.source!r}, training has {own}: resize them to one shape"
            )
    check_device(settings.device)
    knob = method.needs.adapts
    if knob and getattr(method, knob) is not None:
        for rows in split.evaluation.values():
            images[rows.source].attribute(getattr(method, knob), f"method.{knob}")
