"""The resources that a run takes of its machine: processors, graphics cards and memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crosswind.core.errors import InputError, shown, unknown
from crosswind.data.budget import memory_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crosswind.core.types import Job
    from crosswind.studies.spec import Study

__all__ = ["Resources", "parse_resources", "resource_notes", "resources_of"]

_FIELDS = ("cpus", "gpus", "memory")


@dataclass(frozen=True)
class Resources:
    """The resources of one run: processors and graphics cards, which may be shares of one, and
    bytes of memory (None: not counted)."""

    cpus: float = 1.0
    gpus: float = 0.0
    memory: int | None = None

    def fitting(self, node: Mapping[str, float]) -> int:
        """How many such runs a machine has room for at once. `node`: its CPU, GPU and bytes of
        memory."""
        memory = float(self.memory or 0)
        amounts = {"CPU": self.cpus, "GPU": self.gpus, "memory": memory}
        rooms = [node.get(name, 0.0) / amount for name, amount in amounts.items() if amount]
        return int(min(rooms) + 1e-9)

    @property
    def in_words(self) -> str:
        """As a sentence has it."""
        words = [f"{self.cpus:g} CPU", f"{self.gpus:g} GPU" if self.gpus else ""]
        memory = (self.memory or 0) / 2**30
        amount = f"{memory:.3g}" if memory < 1000 else f"{memory:,.0f}"
        words.append(f"{amount} GiB of memory" if memory else "")
        return ", ".join(filter(None, words))


def parse_resources(values: Any, field: str) -> dict[str, Any]:
    """The fields of `resources:` that a study names, checked: `cpus` above 0, `gpus` of 0 or more,
    `memory` in bytes. Raises `InputError`."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise InputError(field, f"must be a mapping such as {{gpus: 0.5}}, not {shown(values)}")
    parsed: dict[str, Any] = {}
    for name, value in values.items():
        path = f"{field}.{name}"
        if name not in _FIELDS:
            raise unknown(path, "resource", name, _FIELDS)
        if name == "memory":
            parsed[name] = memory_bytes(value, path)
            if parsed[name] == 0:
                raise InputError(path, "must be above 0; left out, memory is not counted")
            continue
        parsed[name] = _number_of(value, path, may_be_zero=name != "cpus")
    return parsed


def _number_of(value: Any, field: str, may_be_zero: bool) -> float:
    """A number of processors or cards, or the share of one. Raises `InputError` on `field`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0 or not (value or may_be_zero):
        least = "of 0 or more" if may_be_zero else "above 0"
        raise InputError(field, f"must be a number {least}, not {shown(value)}")
    if value > 1 and value != int(value):
        raise InputError(field, f"must be a share below 1 or a whole number, not {shown(value)}")
    return float(value)


def resource_notes(study: Study) -> list[str]:
    """For each `resources` of a study and its methods a sentence that only Ray uses it."""
    methods = study.methods if isinstance(study.methods, Mapping) else {}
    fields = ["resources"] if study.resources else []
    for label, settings in methods.items():
        if isinstance(settings, Mapping) and settings.get("resources"):
            fields.append(f"methods.{label}.resources")
    return [
        f"{field}: only --engine ray uses it; without it --workers sets how many processes run, and"
        " training.device on which device"
        for field in fields
    ]


def resources_of(study: Study, jobs: Sequence[Job]) -> dict[str, Resources]:
    """By key what each job takes: what its method names, else its study. Where neither
    says, a run takes a processor for each of its devices, and on `cuda` a graphics card too."""
    by_study = parse_resources(study.resources, "resources")
    methods = study.methods if isinstance(study.methods, Mapping) else {}
    by_method = {}
    for label, settings in methods.items():
        if isinstance(settings, Mapping) and settings.get("resources") is not None:
            field = f"methods.{label}.resources"
            by_method[label] = parse_resources(settings["resources"], field)
    taken = {}
    for job in jobs:
        training: Mapping[str, Any] = job.spec.get("training", {})
        count = float(training.get("devices", 1))
        by_device = {"cpus": count}
        if str(training.get("device", "")).startswith("cuda"):
            by_device["gpus"] = count
        named = {**by_device, **by_study, **by_method.get(str(job.labels.get("method")), {})}
        taken[job.key] = Resources(**named)
    return taken
