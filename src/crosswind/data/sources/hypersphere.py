"""Clouds of points around places of a sphere, inside or outside it: distance as an angle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import card_of
from crosswind.core.errors import InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.seeds import stream
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import Source
from crosswind.data.sources.columns import with_inputs

SIDES = ("outside", "inside")
SPLITS = ("train", "validation", "test")
MOST_NUMBERS = 500_000_000
"""Of all rows together: two gigabytes."""


class _Cloud(NamedTuple):
    """Which rows a cloud is of: codes of its split, angle and number."""

    split: int
    angle: int
    number: int


@register("hypersphere", kind="source")
@dataclass(frozen=True)
class Hypersphere(Source):
    """Gaussian clouds around points of a sphere, drawn: is a point inside the sphere? The toy data
    of Ng et al. 2022, section 5.1.

    Attributes: `side` (outside, inside), `angle` (of the cloud's centre from the pole, as a share of
    pi), `cloud` (which of the centres at that angle), `split` (train, validation, test). One cloud
    around the pole trains and another validates, both at angle 0; at every one of `angles` there
    are `clouds` to test on, their centres uniform on the circle of that angle, at 0 the pole. A
    point on the sphere is inside. The points of a cloud are the first of those of a larger one, and
    depend on no other cloud.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 5.1.
    """

    dimensions: int = knob(
        16, domain="[2, 100000]", source="Ng et al. 2022", doc="numbers of a point"
    )
    radius: float = knob(1.0, domain="(0, inf)", source="Ng et al. 2022", doc="of the sphere")
    variance: float = knob(
        0.005, domain="(0, inf)", source="Ng et al. 2022", doc="of each number around its centre"
    )
    pole: int = knob(0, domain="[0, inf)", doc="the pole lies on this axis, counted from 0")
    angles: list[float] = knob(
        [0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0],
        domain="[0, 1]",
        doc="distances of the test clouds from the pole, as shares of pi",
    )
    clouds: int = knob(
        5, domain="[1, inf)", source="Ng et al. 2022", doc="test clouds at each angle"
    )
    rows: int = knob(1000, domain="[1, inf)", source="Ng et al. 2022", doc="points of a cloud")
    seed: int = knob(0, domain="[0, inf)", doc="of centres and points")

    card = card_of("hypersphere")

    def load(self) -> AttributedDataset:
        """The data set, features float32 [rows, dimensions]. Raises `InputError` for settings that
        do not fit."""
        angles = self._checked_angles()
        names = tuple(angles)
        clouds = [_Cloud(0, 0, 0), _Cloud(1, 0, 0)]
        for name, angle in angles.items():
            if angle in self.angles:
                clouds += [_Cloud(2, names.index(name), number) for number in range(self.clouds)]
        numbers = len(clouds) * self.rows * self.dimensions
        if numbers > MOST_NUMBERS:
            problem = f"makes {numbers:,} numbers in all, and {MOST_NUMBERS:,} are allowed"
            raise InputError("hypersphere.rows", problem)
        points = np.concatenate(list(self._points(clouds, list(angles.values()))))
        # Of the numbers as they are held, so that the label is a function of the input.
        length = np.sqrt((points.astype(np.float64) ** 2).sum(axis=1))
        side = length <= self.radius
        codes = np.repeat(np.array(clouds).T, self.rows, axis=1)
        attributes = (
            Attribute("side", SIDES),
            Attribute("angle", names),
            Attribute("cloud", tuple(str(number) for number in range(self.clouds))),
            Attribute("split", SPLITS),
        )
        table = AttributeTable(attributes, np.stack([side, codes[1], codes[2], codes[0]]))
        plain = AttributedDataset("hypersphere", table)
        return with_inputs(plain, "hypersphere", points, InputSpec.features(self.dimensions))

    def _checked_angles(self) -> dict[str, float]:
        """The angles by their names, that of the pole among them."""
        if self.pole >= self.dimensions:
            problem = f"must be below dimensions, which is {self.dimensions}, not {self.pole}"
            raise InputError("hypersphere.pole", problem)
        angles = {"0": 0.0}
        for position, angle in enumerate(self.angles):
            name = f"{angle:g}"
            if angle in self.angles[:position] or (angle and name in angles):
                raise InputError("hypersphere.angles", f"names the angle {name} twice")
            angles[name] = angle
        return angles

    def _points(self, clouds: list[_Cloud], angles: list[float]) -> Iterator[NDArray[np.float32]]:
        """The points of each cloud, float32 [rows, dimensions]."""
        for cloud in clouds:
            angle = angles[cloud.angle]
            draws = stream(self.seed, "hypersphere", SPLITS[cloud.split], angle, cloud.number)
            around = draws.standard_normal(self.dimensions)
            around[self.pole] = 0
            around /= np.linalg.norm(around)
            centre = self.radius * np.sin(np.pi * angle) * around
            centre[self.pole] = self.radius * np.cos(np.pi * angle)
            noise = draws.standard_normal((self.rows, self.dimensions))
            yield (centre + np.sqrt(self.variance) * noise).astype(np.float32)
