"""The changed copies of images on which estimators of accuracy learn: neighbourhoods, and the pool.

A neighbourhood is a registered transform and values of its knobs. An estimator draws `NEIGHBOURS` images from it and adds the image
itself. Reference: Ng, Hulkund, Cho and Ghassemi, Predicting Out-of-Domain Generalization with Neighborhood Invariance, TMLR 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from crosswind.core.errors import unknown

NEIGHBOURS = 10
"""Images drawn for each, beside the image itself."""


@dataclass(frozen=True)
class Neighbourhood:
    """A registered transform and values of its knobs. `large` are the values that differ for images of ImageNet's size."""

    transform: str
    settings: Mapping[str, Any]
    large: Mapping[str, Any] = field(default_factory=dict)

    def knobs(self, large: bool = False) -> dict[str, Any]:
        """All values, for small images or for those of ImageNet's size."""
        return {**self.settings, **(self.large if large else {})}


NEIGHBOURHOODS: Mapping[str, Neighbourhood] = MappingProxyType(
    {
        # Each operation at a level drawn up to 15 of 30.
        "ni-randaugment": Neighbourhood("randaugment", {"count": 1, "magnitude": 15, "draw": "uniform", "bins": 31}, {"count": 3}),
        "ni-translate": Neighbourhood("translate", {"horizontal": 0.1, "vertical": 0.1, "draw": "uniform"}),
        "ni-erase": Neighbourhood("erase", {"largest": 0.33, "widest": 3.0, "tallest": 10 / 3, "probability": 1.0}),
        "ni-flipcrop": Neighbourhood("flip-crop", {"scale": 0.08, "flip": 0.5, "narrowest": 3 / 4, "widest": 4 / 3}),
    }
)


def neighbourhood(name: str, field: str = "neighbourhood") -> Neighbourhood:
    """The neighbourhood of that name; an unknown one is an `InputError` on `field` with the nearest names."""
    if name not in NEIGHBOURHOODS:
        raise unknown(field, "neighbourhood of images", name, NEIGHBOURHOODS)
    return NEIGHBOURHOODS[name]


@dataclass(frozen=True)
class Change:
    """A registered transform, values of its knobs, and the `family` of changes that go wrong alike: the transform's name."""

    family: str
    knobs: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Such as `fog (severity 3)`."""
        return f"{self.family} ({', '.join(f'{key} {value:g}' for key, value in self.knobs.items() if not isinstance(value, str))})"


_CORRUPTIONS = (
    *("gaussian-noise", "shot-noise", "impulse-noise", "speckle-noise", "defocus-blur", "glass-blur", "motion-blur", "zoom-blur"),
    *("gaussian-blur", "snow", "frost", "fog", "brightness", "contrast", "saturate", "spatter", "elastic", "pixelate", "jpeg"),
)

POOL: tuple[Change, ...] = (
    *(Change(name, {"severity": severity}) for name in _CORRUPTIONS for severity in (1, 3, 5)),
    *(Change("rotate", {"degrees": degrees}) for degrees in (10.0, 20.0, 40.0)),
    *(Change("translate", {"horizontal": share, "vertical": share}) for share in (0.05, 0.1, 0.2)),
    *(Change("shear", {"horizontal": degrees}) for degrees in (10.0, 20.0, 40.0)),
    *(Change("erase", {"largest": share, "probability": 1.0}) for share in (0.1, 0.2, 0.33)),
)
"""What makes a pool of labelled sets of the labelled source: every corruption of ImageNet-C, its four further ones, and four
changes of geometry, each at three strengths."""
