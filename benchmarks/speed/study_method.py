"""ERM on RandAugment (2, 9), registered for benchmarks/speed/study.py; workers import this file for
it."""

from __future__ import annotations

from dataclasses import dataclass

from crosswind.core.knobs import Limit, Needs
from crosswind.core.registry import register
from crosswind.methods.base import Method
from crosswind.transforms.base import Transform
from crosswind.transforms.policies.randaugment import RandAugment

__all__ = ["StudyMethod"]


@register("benchmark-randaugment", kind="augmentation")
@dataclass(frozen=True)
class StudyMethod(Method):
    """Mean cross-entropy on images under two operations of magnitude 9, drawn anew at every visit.
    Cubuk et al. 2020."""

    needs = Needs(channels=(3,))
    limit = Limit.none("RandAugment draws two operations whatever its magnitude")
    version = 1

    def views(self) -> tuple[Transform | None, ...]:
        return (RandAugment(count=2, magnitude=9),)
