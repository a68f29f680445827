"""The rooms: rays against a slow reference, weights that are exact, and pictures that are what they
should be."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

from crosswind.core.types import digest_arrays
from crosswind.data import shapes3d_renderer as rooms
from crosswind.data.shapes3d_renderer import (
    FLOOR,
    OBJECT,
    SCALES,
    SHAPES,
    WALLS,
    drawn_rooms,
    hue_colors,
)


def number(shape: int, scale: int, orientation: int) -> int:
    return (scale * 4 + shape) * 15 + orientation


def weights(shape: int, scale: int, orientation: int, size: int = 32) -> np.ndarray:
    return rooms._cast(SHAPES[shape], SCALES[scale], orientation, size).reshape(size, size, 6)


def outside(shape: str, scale: float, point: np.ndarray) -> np.ndarray:
    """How far points [..., 3] lie outside the solid, in plain words of its shape."""
    x, y, z = np.moveaxis(point, -1, 0)
    beside = np.hypot(x, y)
    if shape == "sphere":
        radius = rooms.SPHERE * scale
        return np.hypot(beside, z - radius) - radius
    if shape == "cube":
        half = rooms.CUBE * scale
        return np.maximum(np.maximum(abs(x), abs(y)), abs(z - half)) - half
    if shape == "cylinder":
        radius, height = rooms.CYLINDER[0] * scale, rooms.CYLINDER[1] * scale
        return np.maximum(beside - radius, abs(z - height / 2) - height / 2)
    radius, height = rooms.CAPSULE[0] * scale, rooms.CAPSULE[1] * scale
    return np.hypot(beside, z - np.clip(z, radius, height - radius)) - radius


@pytest.mark.parametrize("shape", SHAPES)
def test_rays_meet_solids_where_walking_along_them_does(shape: str) -> None:
    """600 rays from the camera and from the floor: the first point of a walk in steps of 0.01 that
    lies inside."""
    draw = np.random.default_rng(0)
    scale, met = 1.1, 0
    walk = np.arange(0.01, 6, 0.01)
    for start in ((0.6, -3.1, 1.9), (-1.6, 0.4, 0.0)):
        aims = np.stack(
            [draw.uniform(-1, 1, 300), draw.uniform(-1, 1, 300), draw.uniform(0.05, 2.3, 300)],
            axis=1,
        )
        rays = aims - np.array(start)
        rays /= np.linalg.norm(rays, axis=1, keepdims=True)
        rays[::10] *= -1  # what lies behind is not met
        distance, normal = rooms._SOLIDS[shape](np.array(start)[:, None], rays.T, scale)
        inside = outside(shape, scale, np.array(start) + walk[None, :, None] * rays[:, None]) < 0
        hit = distance < np.inf
        met += int(hit.sum())
        assert (distance > 0).all()
        assert not inside[~hit].any()
        assert (
            np.abs(outside(shape, scale, np.array(start) + distance[hit, None] * rays[hit])).max()
            < 1e-9
        )
        walked = hit & inside.any(axis=1)  # a ray may graze between two steps
        assert walked.sum() > 0.9 * hit.sum()
        late = walk[inside[walked].argmax(axis=1)] - distance[walked]
        assert late.min() > -1e-9 and late.max() < 0.01 + 1e-9
        towards = normal.T[hit]
        assert (
            np.abs(np.linalg.norm(towards, axis=1) - 1).max() < 1e-9
            and (towards * rays[hit]).sum(axis=1).max() <= 0
        )
    assert 150 < met < 540


@pytest.mark.slow
@pytest.mark.parametrize("orientation", [0, 7, 11])
def test_only_the_window_of_a_view_has_the_object_or_its_shadow(
    orientation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = {
        (shape, scale): weights(shape, scale, orientation) for shape in range(4) for scale in (0, 7)
    }
    windows = [rooms._window(SCALES[scale], orientation, 32) for scale in (0, 7)]
    # Else nothing is tested.
    assert all(window_slice.stop - window_slice.start < 32 for window_slice in windows[0])
    monkeypatch.setattr(rooms, "_window", lambda *_: (slice(0, 32), slice(0, 32)))
    monkeypatch.setattr(rooms, "RAYS", 1)  # one row of pixels at a time
    for (shape, scale), window in views.items():
        assert np.array_equal(window, weights(shape, scale, orientation))


def test_weights_are_whole_4096ths_of_what_is_seen() -> None:
    for shape in range(4):
        view = weights(shape, 4, 3)
        assert np.array_equal(view * 4096, np.rint(view * 4096))
        assert (view[..., :5] >= 0).all()
        lit_share = view[..., :5].sum(axis=2)
        # The light is at most 0.45 + 0.38 + 0.15 = 0.98, at least 0.45; the sky is 1.
        assert lit_share.min() > 0.44 and lit_share.max() < 1.001
        assert (view[..., 5] == 0.5).all()


def test_pictures_are_the_exact_products_rounded() -> None:
    draw = np.random.default_rng(1)
    views = np.array(
        [number(shape, 5, orientation) for shape in range(4) for orientation in (0, 14)]
    )
    floors, walls, objects = draw.integers(0, 256, (3, len(views), 3), dtype=np.uint8)
    pictures = drawn_rooms(views, floors, walls, objects, 32)
    for i, view in enumerate(views.tolist()):
        products = np.rint(rooms._views(32)(view) * 4096).astype(np.int64)
        colors = np.stack(
            [floors[i], walls[i], objects[i], *(np.array(color) for color in rooms.SKY)]
        ).astype(np.int64)
        assert np.array_equal(pictures[i].reshape(-1, 3), (products[:, :5] @ colors + 2048) // 4096)


def test_a_view_is_the_same_alone_and_among_others() -> None:
    draw = np.random.default_rng(2)
    views = draw.integers(0, 480, 40)
    colors = draw.integers(0, 256, (3, 40, 3), dtype=np.uint8)
    together = drawn_rooms(views, *colors, 32)
    alone = [
        drawn_rooms(views[i : i + 1], *(color[i : i + 1] for color in colors), 32)
        for i in range(40)
    ]
    assert np.array_equal(together, np.concatenate(alone))
    assert drawn_rooms(views[:0], *(color[:0] for color in colors), 32).shape == (0, 32, 32, 3)


def test_views_are_the_same_on_every_machine() -> None:
    views = {f"{i}": weights(i % 4, i % 8, i % 15, 64) for i in range(0, 60, 7)}
    assert digest_arrays(views) == "46284caad7de9735ec775977d18c33e4"


@pytest.mark.parametrize("shape", range(4))
def test_turning_one_way_mirrors_turning_the_other(shape: int) -> None:
    """Room and solids are alike on both sides; the light is not, so only what is seen is
    compared."""
    for orientation in (0, 3, 7):
        turned, turned_back = (
            weights(shape, 5, turn) > 0 for turn in (orientation, 14 - orientation)
        )
        for kind in (FLOOR, WALLS, OBJECT):
            assert np.array_equal(turned[..., kind], turned_back[:, ::-1, kind])


@pytest.mark.parametrize("shape", range(4))
def test_solids_grow_and_stand_in_the_middle(shape: int) -> None:
    areas = []
    for scale in range(8):
        solid = weights(shape, scale, 7, 64)[..., OBJECT] > 0
        areas.append(int(solid.sum()))
        rows, columns = np.nonzero(solid)
        assert abs(columns.mean() - 31.5) < 0.01
        assert rows.max() < 56 and rows.min() > 6 and columns.min() > 10
    assert areas == sorted(set(areas))
    assert 1.9 < areas[-1] / areas[0] < 4.5  # near (1.25 / 0.75)^2 = 2.8; nearer parts grow more


def test_solids_throw_a_shadow_away_from_the_light() -> None:
    for shape in range(4):
        view, empty = weights(shape, 5, 7, 64), rooms._empty_room(7, 64).reshape(64, 64, 6)
        dark = (view[..., OBJECT] == 0) & (view[..., FLOOR] < empty[..., FLOOR] - 0.1)
        assert 20 < dark.sum() < 400
        solid = view[..., OBJECT] > 0
        assert (
            np.nonzero(dark)[1].mean() > np.nonzero(solid)[1].mean() + 5
        )  # the light stands on the left


def test_views_beyond_the_memory_for_them_are_cast_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cast: list[int] = []
    real = rooms._cast
    monkeypatch.setattr(
        rooms, "_cast", lambda *arguments: (cast.append(arguments[2]), real(*arguments))[1]
    )
    monkeypatch.setattr(rooms, "KEPT", 3 * 16 * 16 * 24)
    view = rooms._views.__wrapped__(16)
    first = [view(i).copy() for i in range(4)]
    assert cast == [0, 1, 2, 3]
    assert all(np.array_equal(view(i), first[i]) for i in (3, 2, 1))
    assert cast == [0, 1, 2, 3]
    assert np.array_equal(view(0), first[0]) and cast == [0, 1, 2, 3, 0]


def test_hues_are_those_of_the_circle() -> None:
    expected = [
        [round(255 * channel) for channel in colorsys.hsv_to_rgb(i / 10, 0.7, 0.9)]
        for i in range(10)
    ]
    assert hue_colors(0.7, 0.9).tolist() == expected
