"""Settings of a study that are slow on this machine, told before it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from crosswind.core.processor import slow_bfloat16
from crosswind.core.types import Job

_BFLOAT16 = ("bf16", "bfloat16")
_NVIDIA = Path("/dev/nvidiactl")
"""There where a CUDA device may be, on which a model whose device is "auto" is run."""


def slow_settings(jobs: Iterable[Job]) -> list[str]:
    """A sentence for each setting by which jobs ask this processor for bfloat16, where it has none;
    other devices need torch."""
    slow = slow_bfloat16()
    if not slow:
        return []
    # By identity: the jobs of a plan share their settings, and a large one has 100,000 of them.
    jobs_of_settings: dict[tuple[int, int], Job] = {}
    for job in jobs:
        settings = id(job.spec.get("training")), id(job.spec.get("model"))
        jobs_of_settings.setdefault(settings, job)
    asking = [text for job in jobs_of_settings.values() for text in _asking(job)]
    return [f"{text} asks for bfloat16, {slow}" for text in dict.fromkeys(asking)]


def _asking(job: Job) -> Iterator[str]:
    """The settings of a job that ask the processor for bfloat16."""
    training: Mapping[str, Any] = job.spec.get("training") or {}
    if training.get("precision") in _BFLOAT16 and training["device"] == "cpu":
        yield f"training.precision = {training['precision']}"
    model: Mapping[str, Any] = job.spec.get("model") or {}
    knobs = model.get("knobs", {})
    if knobs.get("tuned"):
        device = training.get("device", "cpu")
    else:
        device = knobs.get("device", "cpu")
    on_processor = device == "cpu" or (device == "auto" and not _NVIDIA.exists())
    for name in ("precision", "dtype"):
        if knobs.get(name) in _BFLOAT16 and on_processor:
            yield f"{name} = {knobs[name]} of the model {model['name']!r}"
