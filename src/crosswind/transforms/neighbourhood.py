"""The neighbourhoods of images in which a classifier's answers are compared.

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
