"""Elastic distortion against the original's steps with the same random numbers."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates
from skimage.filters import gaussian
from tests.transforms.corruptions.oracle import batch, photographs, pixels

from crosswind.core.registry import load
from crosswind.core.seeds import hash64
from crosswind.transforms.corruptions.elastic import affine_maps
from crosswind.transforms.draws import bits16

KEYS = hash64(np.arange(4), 9)
# Displacement, smoothing and corners, in sides.
TABLES = {
    "imagenet": (
        (2, 0.7, 0.1),
        (2, 0.08, 0.2),
        (0.05, 0.01, 0.02),
        (0.07, 0.01, 0.02),
        (0.12, 0.01, 0.02),
    ),
    "cifar": (
        (0, 0, 0.08),
        (0.05, 0.2, 0.07),
        (0.08, 0.06, 0.06),
        (0.1, 0.04, 0.05),
        (0.1, 0.03, 0.03),
    ),
}


def uniform(key: np.uint64, stream: int, *shape: int) -> NDArray[np.float64]:
    """Ours, in (-1, 1)."""
    bits = bits16(hash64(np.array([key]), stream), int(np.prod(shape))).numpy().reshape(shape)
    return (2 * bits - 65535) / 65536


def moved_points(
    key: np.uint64, height: int, width: int, corner: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    middle, third = np.float32([width // 2, height // 2]), min(height, width) // 3
    points = np.float32([middle + third, [middle[0] + third, middle[1] - third], middle - third])
    return points, points + (uniform(key, 1, 3, 2) * corner).astype(np.float32)


def original(
    image: NDArray[np.uint8], key: np.uint64, far: float, smooth: float, corner: float
) -> NDArray[np.int64]:
    """Affine map by OpenCV, displacement smoothed by skimage, bilinear values by SciPy, all in
    floats, truncated."""
    height, width, _ = image.shape
    x = image.astype(np.float32) / 255
    x = cv2.warpAffine(
        x,
        cv2.getAffineTransform(*moved_points(key, height, width, corner)),
        (width, height),
        borderMode=cv2.BORDER_REFLECT_101,
    )
    if far:
        moves = (
            gaussian(item, smooth, mode="reflect", truncate=3) * far
            for item in uniform(key, 2, 2, height, width)
        )
        down, across = (move.astype(np.float32)[..., None] for move in moves)
        rows, columns, channels = np.mgrid[:height, :width, :3]
        x = map_coordinates(x, (rows + down, columns + across, channels), order=1, mode="reflect")
    return (np.clip(x, 0, 1) * 255).astype(np.uint8).astype(np.int64)


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("size", "table"), [((96, 96), "imagenet"), ((32, 32), "cifar"), ((40, 61), "cifar")]
)
def test_the_same_image_as_the_original_steps(
    size: tuple[int, int], table: str, severity: int
) -> None:
    """At most one level apart, for 6% of the values: places have 8 bits below a pixel, values 3
    below a level between the two."""
    images = photographs(4, *size)
    unit = min(size) * (244 / 224 if table == "imagenet" else 1)
    far, smooth, corner = (part * unit for part in TABLES[table][severity - 1])
    found = pixels(load("transforms", "elastic")(severity, table)(batch(images), KEYS))
    expected = np.stack(
        [original(image, key, far, smooth, corner) for image, key in zip(images, KEYS, strict=True)]
    )
    assert np.abs(found - expected).max() <= 1
    assert (found != expected).mean() < 0.06
    assert np.abs(found - images).mean() > 5  # far from the image itself


def test_224_pixels_take_the_originals_constants() -> None:
    image = photographs(1, 224, 224)
    for severity in (2, 4):
        far, smooth, corner = (244 * part for part in TABLES["imagenet"][severity - 1])
        found = pixels(load("transforms", "elastic")(severity)(batch(image), KEYS[:1]))
        assert np.abs(found[0] - original(image[0], KEYS[0], far, smooth, corner)).max() <= 1


def test_the_map_takes_moved_points_back() -> None:
    maps = affine_maps(KEYS, 50, 70, 6.0)
    for key, matrix in zip(KEYS, maps, strict=True):
        points, moved = moved_points(key, 50, 70, 6.0)
        assert matrix @ np.vstack([moved.T, np.ones(3)]) == pytest.approx(points.T, abs=1e-4)


def test_corners_move_evenly_as_far_as_they_may() -> None:
    draws = (2 * bits16(hash64(hash64(np.arange(2000), 3), 1), 6).numpy() - 65535) / 65536
    assert abs(draws.mean()) < 5 * (1 / 3 / draws.size) ** 0.5
    assert np.histogram(draws, 10, (-1, 1))[0] == pytest.approx(
        np.full(10, 1200), abs=5 * 1200**0.5
    )


def test_a_level_stays_and_tiny_images_too() -> None:
    elastic = load("transforms", "elastic")
    for severity in range(1, 6):
        level = batch(np.full((4, 33, 33, 3), 201, dtype=np.uint8))
        assert (elastic(severity)(level, KEYS) == 201).all()
    tiny = batch(photographs(4, 2, 9))
    assert (elastic(2)(tiny, KEYS) == tiny).all()
