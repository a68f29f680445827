"""The neighbourhoods of images and texts: their magnitudes, and that each draws anew; the pools."""

from __future__ import annotations

from difflib import SequenceMatcher

import numpy as np
import pytest
import torch
from tests.transforms.pictures import pictures

from crosswind.core.errors import InputError
from crosswind.core.knobs import resolve
from crosswind.core.registry import facts, load
from crosswind.core.seeds import hash64
from crosswind.estimators.intervals import least_families
from crosswind.transforms.neighbourhood import (
    NEIGHBOURHOODS,
    NEIGHBOURS,
    POOL,
    TEXT_POOL,
    neighbourhood,
    pool_of_kind,
)
from crosswind.transforms.text.changing import changed_texts

IMAGES, TEXTS = (
    sorted(name for name, entry in NEIGHBOURHOODS.items() if entry.takes == kind)
    for kind in ("image", "text")
)


def test_the_four_are_registered_transforms_with_the_papers_magnitudes() -> None:
    assert NEIGHBOURS == 10 and IMAGES == [
        "ni-erase",
        "ni-flipcrop",
        "ni-randaugment",
        "ni-translate",
    ]
    assert {"ni-eda", "ni-randomreplace"} <= set(TEXTS)
    knobs_by_name = {name: entry.knobs() for name, entry in NEIGHBOURHOODS.items()}
    assert (
        knobs_by_name["ni-randaugment"]["magnitude"],
        knobs_by_name["ni-randaugment"]["bins"],
        knobs_by_name["ni-randaugment"]["count"],
    ) == (15, 31, 1)
    assert NEIGHBOURHOODS["ni-randaugment"].knobs(large=True)["count"] == 3
    assert knobs_by_name["ni-eda"] == dict.fromkeys(
        ["replace", "insert", "swap", "delete"], 0.1
    ) and knobs_by_name["ni-randomreplace"] == {"rate": 0.15}
    assert knobs_by_name["ni-translate"] == {"horizontal": 0.1, "vertical": 0.1, "draw": "uniform"}
    assert knobs_by_name["ni-erase"]["largest"] == 0.33 and knobs_by_name["ni-erase"][
        "tallest"
    ] == pytest.approx(10 / 3)
    assert 1 / knobs_by_name["ni-erase"]["widest"] == pytest.approx(1 / 3)
    assert knobs_by_name["ni-flipcrop"] == {
        "scale": 0.08,
        "flip": 0.5,
        "narrowest": 0.75,
        "widest": pytest.approx(4 / 3),
    }
    with pytest.raises(
        InputError, match="unknown neighbourhood 'ni-flip-crop', did you mean 'ni-flipcrop'"
    ):
        neighbourhood("ni-flip-crop")


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("large", [False, True])
def test_ten_neighbours_of_one_picture_differ(name: str, large: bool) -> None:
    entry = neighbourhood(name)
    resolve(facts("transforms", entry.transform).knobs, entry.knobs(large), name, name)
    x = pictures()[:1].expand(NEIGHBOURS, -1, -1, -1)
    neighbours = load("transforms", entry.transform)(**entry.knobs(large))(
        x, hash64(np.arange(NEIGHBOURS), 5)
    )
    assert len({row.numpy().tobytes() for row in neighbours}) >= 8


def test_levels_of_randaugment_are_drawn_up_to_the_magnitude() -> None:
    """Rotations by 0 to 15 of 30 levels, 30 degrees at the last: level k turns by k degrees to
    either side, so 31 angles."""
    entry = neighbourhood("ni-randaugment")
    transform = load("transforms", entry.transform)(**{**entry.knobs(), "operations": "rotate"})
    chains = transform.chains(hash64(np.arange(4000), 1), (32, 32))
    angles = np.unique(np.round(np.asarray(chains.magnitudes).ravel(), 3) + 0.0)
    assert angles.tolist() == list(range(-15, 16))
    x = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    assert transform(x, hash64(np.arange(2), 1)).shape == x.shape


REVIEW = (
    "The acting wasn't very good, but the story itself is a masterpiece of cinema; I would watch it"
    " again tomorrow."
)


@pytest.mark.parametrize("name", ["ni-eda", "ni-randomreplace"])
def test_ten_neighbours_of_one_text_differ(name: str) -> None:
    entry = neighbourhood(name)
    transform = load("text-transforms", entry.transform)(**entry.knobs())
    neighbours = changed_texts(transform, [REVIEW] * NEIGHBOURS, hash64(np.arange(NEIGHBOURS), 5))
    assert len(set(neighbours)) >= 8 and REVIEW not in neighbours


@pytest.mark.parametrize(("kind", "room"), [("image", "transforms"), ("text", "text-transforms")])
def test_a_pool_has_families_enough_and_each_change_is_one_of_its_own(kind: str, room: str) -> None:
    pool = pool_of_kind(kind)
    families = [change.family for change in pool]
    # One family more than a two-sided interval needs: an estimate on a known change learns from the
    # others.
    assert len(set(families)) > least_families(sides=2) and {
        families.count(family) for family in families
    } == {3}
    assert len({change.name for change in pool}) == len(pool) and pool in (POOL, TEXT_POOL)
    for change in pool:
        resolve(facts(room, change.transform).knobs, change.knobs, change.name, change.name)
    assert not pool_of_kind("features")


@pytest.mark.slow
def test_each_change_of_the_pool_of_texts_changes_one_the_more_the_stronger() -> None:
    keys, plain = (
        hash64(np.arange(40), 3),
        changed_texts(
            load("text-transforms", "typos")(rate=0.0), [REVIEW], hash64(np.arange(1), 3)
        ),
    )
    met = 0
    for number in range(0, len(TEXT_POOL), 3):
        far = []
        for change in TEXT_POOL[number : number + 3]:
            changed = changed_texts(
                load("text-transforms", change.transform)(**change.knobs),
                [REVIEW] * len(keys),
                keys,
            )
            assert all(changed)
            far.append(
                np.mean(
                    [
                        1 - SequenceMatcher(None, plain[0], text, autojunk=False).ratio()
                        for text in changed
                    ]
                )
            )
            met += 1
        assert 0 < far[0] <= far[1] <= far[2], change.family
        assert far[0] < far[2] or change.family == "no marks", change.family
    assert met == 66
