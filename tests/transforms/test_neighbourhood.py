"""The four neighbourhoods of images: their magnitudes, and that each draws anew."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.transforms.pictures import pictures

from crosswind.core.errors import InputError
from crosswind.core.knobs import resolve
from crosswind.core.registry import facts, load
from crosswind.core.seeds import hash64
from crosswind.transforms.neighbourhood import NEIGHBOURHOODS, NEIGHBOURS, neighbourhood


def test_the_four_are_registered_transforms_with_the_papers_magnitudes() -> None:
    assert NEIGHBOURS == 10 and sorted(NEIGHBOURHOODS) == ["ni-erase", "ni-flipcrop", "ni-randaugment", "ni-translate"]
    told = {name: item.knobs() for name, item in NEIGHBOURHOODS.items()}
    assert (told["ni-randaugment"]["magnitude"], told["ni-randaugment"]["bins"], told["ni-randaugment"]["count"]) == (15, 31, 1)
    assert NEIGHBOURHOODS["ni-randaugment"].knobs(large=True)["count"] == 3
    assert told["ni-translate"] == {"horizontal": 0.1, "vertical": 0.1, "draw": "uniform"}
    assert told["ni-erase"]["largest"] == 0.33 and told["ni-erase"]["tallest"] == pytest.approx(10 / 3)
    assert 1 / told["ni-erase"]["widest"] == pytest.approx(1 / 3)
    assert told["ni-flipcrop"] == {"scale": 0.08, "flip": 0.5, "narrowest": 0.75, "widest": pytest.approx(4 / 3)}
    with pytest.raises(InputError, match="unknown neighbourhood of images 'ni-flip-crop', did you mean 'ni-flipcrop'"):
        neighbourhood("ni-flip-crop")


@pytest.mark.parametrize("name", sorted(NEIGHBOURHOODS))
@pytest.mark.parametrize("large", [False, True])
def test_ten_neighbours_of_one_picture_differ(name: str, large: bool) -> None:
    item = neighbourhood(name)
    resolve(facts("transforms", item.transform).knobs, item.knobs(large), name, name)
    x = pictures()[:1].expand(NEIGHBOURS, -1, -1, -1)
    found = load("transforms", item.transform)(**item.knobs(large))(x, hash64(np.arange(NEIGHBOURS), 5))
    assert len({row.numpy().tobytes() for row in found}) >= 8


def test_levels_of_randaugment_are_drawn_up_to_the_magnitude() -> None:
    """Rotations by 0 to 15 of 30 levels, 30 degrees at the last: level k turns by k degrees to either side, so 31 angles."""
    item = neighbourhood("ni-randaugment")
    transform = load("transforms", item.transform)(**{**item.knobs(), "operations": "rotate"})
    chains = transform.chains(hash64(np.arange(4000), 1), (32, 32))
    angles = np.unique(np.round(np.asarray(chains.magnitudes).ravel(), 3) + 0.0)
    assert angles.tolist() == list(range(-15, 16))
    x = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    assert transform(x, hash64(np.arange(2), 1)).shape == x.shape
