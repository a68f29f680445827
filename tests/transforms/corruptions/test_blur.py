"""Blurs: the `imagecorruptions` package at 224-pixel constants, scipy at CIFAR's, plain loops for
maps and lines; the same bits."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import ndimage
from sklearn.datasets import load_sample_images

from crosswind.core.registry import load
from crosswind.core.seeds import hash64
from crosswind.transforms.corruptions import blur, filters
from crosswind.transforms.corruptions.blur import (
    BANK,
    DEFOCUS,
    GAUSSIAN,
    GLASS,
    MOTION,
    ZOOM,
    DefocusBlur,
    GaussianBlur,
    GlassBlur,
    MotionBlur,
    ZoomBlur,
    disk,
    glass_choices,
    glass_map,
    glass_maps,
    motion_paths,
    motion_weights,
    smear,
    zoom_line,
)
from crosswind.transforms.corruptions.filters import (
    gaussian_smooth,
    gaussian_weights,
    in_steps,
    mirrored,
)

SEVERITIES = (1, 2, 3, 4, 5)
TABLES = ("imagenet", "cifar")


@cache
def photos(height: int = 64, width: int = 64) -> NDArray[np.uint8]:
    """A part of each of scikit-learn's two photographs: uint8 [2, height, width, 3]."""
    photo_parts = np.stack(
        [image[100 : 100 + height, 200 : 200 + width] for image in load_sample_images().images]
    )
    assert photo_parts.shape == (2, height, width, 3) and photo_parts.std() > 20
    return photo_parts


def batch(pixels: NDArray[np.uint8]) -> torch.Tensor:
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def keys(n: int, seed: int = 1) -> NDArray[np.uint64]:
    return hash64(np.arange(n), seed)


def done(transform: Any, pixels: NDArray[np.uint8], seed: int = 1) -> NDArray[np.int64]:
    return (
        transform(batch(pixels), keys(len(pixels), seed))
        .permute(0, 2, 3, 1)
        .numpy()
        .astype(np.int64)
    )


def oracle() -> Any:
    return pytest.importorskip("imagecorruptions")


def only_where_whole(
    blurred: NDArray[np.int64], exact: NDArray[np.float64], tolerance: float
) -> None:
    """`found` is `exact` cut downwards, but where that is within `tolerance` of a whole number:
    there it is one off at most."""
    expected = np.floor(np.clip(exact, 0, 255)).astype(np.int64)
    differ = blurred != expected
    assert np.abs(blurred - expected).max() <= 1
    assert np.abs(exact - np.rint(exact))[differ].max(initial=0) < tolerance
    assert differ.mean() < 0.12 and blurred.std() > 1


@pytest.mark.parametrize("name", ["gaussian-blur", "defocus-blur", "zoom-blur"])
@pytest.mark.parametrize(
    "size", [(64, 64), (67, 91), pytest.param((150, 233), marks=pytest.mark.slow)]
)
def test_what_is_not_random_is_the_originals(name: str, size: tuple[int, int]) -> None:
    """Pixel by pixel, five severities: at most one level off, at less than 1 in 5,000 of values.

    Defocus at severity 1 is a mean of 29 pixels, one in 29 of them whole: the package's floats fall
    short of those.
    """
    theirs, pixels, compared = oracle(), photos(*size), 0
    for severity in SEVERITIES:
        blurred = done(load("transforms", name)(severity, "imagenet"), pixels)
        expected = np.stack(
            [theirs.corrupt(pixel, severity, name.replace("-", "_")) for pixel in pixels]
        ).astype(np.int64)
        assert np.abs(blurred - expected).max() <= 1
        if (name, severity) == ("defocus-blur", 1):
            assert (blurred >= expected).all() and (blurred != expected).mean() < 0.04
        else:
            assert (blurred != expected).mean() < 2e-4
        assert np.abs(blurred - pixels).mean() > 1
        compared += 1
    assert compared == 5


@pytest.mark.parametrize(("table", "sds"), list(zip(TABLES, GAUSSIAN, strict=True)))
def test_gaussian_blur_is_scipys(table: str, sds: tuple[float, ...]) -> None:
    """floor of scipy's filter in float64 (nearest, 4 sds), odd size; fixed-point weights cost less
    than 2e-3 of a level."""
    pixels = photos(33, 47)
    for severity, sd in zip(SEVERITIES, sds, strict=True):
        exact = ndimage.gaussian_filter(
            pixels.astype(np.float64), (0, sd, sd, 0), mode="nearest", truncate=4
        )
        only_where_whole(done(GaussianBlur(severity, table), pixels), exact, 2e-3)


def test_gaussian_weights_by_hand() -> None:
    """sd 0.4, radius 2: 1, exp(-3.125) = 0.0439369 and exp(-12.5) = 3.7267e-6 on either side, over
    their sum 1.0878813."""
    weights = gaussian_weights(0.4)
    assert weights.tolist()[2:] == pytest.approx([0.919218, 0.0403876, 3.4256e-6], abs=2e-7)
    assert weights.sum() == 1 and (weights * 2**22 % 1 == 0).all()
    assert gaussian_weights(0.05).tolist() == [
        1.0
    ]  # radius int(0.2 + 0.5) = 0: glass blur's first severity smooths nothing
    assert in_steps(np.array([1 / 3, 1 / 3, 1 / 3]), 2).tolist() == [0.5, 0.25, 0.25]


def test_smoothing_in_bands_is_smoothing_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = batch(photos(97, 70))
    at_once = gaussian_smooth(x, 2.0)
    for tile in (16, 33, 1000):
        monkeypatch.setattr(filters, "TILE", tile)
        assert torch.equal(gaussian_smooth(x, 2.0), at_once)


@pytest.mark.parametrize(("table", "sets"), list(zip(TABLES, DEFOCUS, strict=True)))
def test_defocus_blur_is_a_plain_correlation(
    table: str, sets: tuple[tuple[float, float], ...]
) -> None:
    """The disk by loops over its pixels, smoothed by the normal weights, and scipy's correlation
    (mirror) in float64."""
    pixels = photos(33, 47)
    for severity, (radius, sd) in zip(SEVERITIES, sets, strict=True):
        reach, half = (8, 1) if radius <= 8 else (int(radius), 2)
        square = np.array(
            [
                [float(x * x + y * y <= radius**2) for x in range(-reach, reach + 1)]
                for y in range(-reach, reach + 1)
            ]
        )
        normal = np.exp(-(np.arange(-half, half + 1.0) ** 2) / (2 * sd**2))
        normal /= normal.sum()
        kernel = ndimage.correlate(square / square.sum(), np.outer(normal, normal), mode="mirror")
        kernel_of_disk = disk(radius, sd)
        margin = (len(kernel) - len(kernel_of_disk)) // 2
        inner = slice(margin, len(kernel) - margin)
        assert (
            np.abs(kernel_of_disk - kernel[inner, inner]).max() < 1e-6
            and kernel.sum() - kernel[inner, inner].sum() < 1e-8
        )
        exact = ndimage.correlate(
            pixels.astype(np.float64), kernel[None, :, :, None], mode="mirror"
        )
        only_where_whole(done(DefocusBlur(severity, table), pixels), exact, 5e-5)


@pytest.mark.parametrize("count", [1, 2])
def test_defocus_blur_is_exact_for_odd_and_even_numbers_of_planes(count: int) -> None:
    """Planes are transformed in pairs; the sums of whole numbers below 2**53 are exact in scipy."""
    pixels = np.random.default_rng(0).integers(0, 256, (count, 97, 120, 3), dtype=np.uint8)
    for severity, constants in zip(SEVERITIES, DEFOCUS[0], strict=True):
        steps = disk(*constants) * 2.0**30
        sums = ndimage.convolve(pixels.astype(np.float64), steps[None, :, :, None], mode="mirror")
        exact = np.minimum(np.floor((sums + 2.0**14) / 2.0**30), 255).astype(np.uint8)
        assert np.array_equal(done(DefocusBlur(severity, "imagenet"), pixels), exact)


def test_two_disks_of_defocus_brighten() -> None:
    """Radius 8 on 17 and 10 on 21 pixels touch the edge of their squares, where mirroring counts
    what is next to it twice."""
    assert [round(disk(*disk_constants).sum(), 4) for disk_constants in DEFOCUS[0]] == [
        1,
        1,
        1,
        1.0130,
        1.0108,
    ]
    assert [disk(*disk_constants).sum() for disk_constants in DEFOCUS[1]] == [1] * 5
    assert [len(disk(*disk_constants)) for disk_constants in DEFOCUS[0]] == [7, 11, 15, 17, 21]


@pytest.mark.parametrize(("table", "ends"), list(zip(TABLES, ZOOM, strict=True)))
def test_zoom_blur_is_scipys_zoom(table: str, ends: tuple[tuple[float, float], ...]) -> None:
    """The mean of the image and scipy's enlargements of its middle (order 1), cut at the end, in
    float64; odd and not square."""
    pixels = photos(33, 46)
    numbers = []
    for severity, (end, step) in zip(SEVERITIES, ends, strict=True):
        factors = np.arange(1, end, step)
        numbers.append(len(factors))
        total = pixels.astype(np.float64)
        for factor in factors:
            cropped_sides = [int(np.ceil(side / factor)) for side in (33, 46)]
            first = [
                (side - cropped_side) // 2
                for side, cropped_side in zip((33, 46), cropped_sides, strict=True)
            ]
            middle = pixels[
                :, first[0] : first[0] + cropped_sides[0], first[1] : first[1] + cropped_sides[1]
            ].astype(np.float64)
            total = total + ndimage.zoom(middle, (1, factor, factor, 1), order=1)[:, :33, :46]
        only_where_whole(done(ZoomBlur(severity, table), pixels), total / (len(factors) + 1), 1e-6)
    assert numbers == ([12, 16, 11, 13, 11] if table == "imagenet" else [7, 12, 16, 21, 26])


def test_a_line_zoomed_by_hand() -> None:
    """4 pixels by 1.5: ceil(4 / 1.5) = 3 kept from the first on, 3 x 1.5 = 4.5 -> 4 wide: places 0,
    2/3, 4/3, 2."""
    expected = [[1, 0, 0, 0], [1 / 3, 2 / 3, 0, 0], [0, 2 / 3, 1 / 3, 0], [0, 0, 1, 0]]
    assert zoom_line(4, 1.5) == pytest.approx(np.array(expected))
    assert np.array_equal(zoom_line(7, 1.0), np.eye(7))


def test_motion_blur_along_an_angle_is_the_packages() -> None:
    """The package's inner function (a re-implementation of ImageMagick's) with the same angle, all
    severities.

    One level off at most, and only within 1e-3 of a whole number, which its float32 sums fall short
    of. 28 pixels with the largest radius: lines that leave the image. Angles down to -135 as well,
    so that each side of the image is continued.
    """
    theirs = oracle().corruptions
    angles = np.array([-45, -44, -30.5, -10, -0.3, 0, 7, 21, 33.3, 45, -135, -90, -60])
    compared = 0
    for size, sets in (((64, 64), MOTION[0]), ((28, 33), MOTION[1]), ((28, 33), MOTION[0])):
        pixels = photos(*size)[:1]
        for radius, sd in sets:
            x = batch(pixels).repeat(len(angles), 1, 1, 1)
            smeared = (
                smear(x, motion_paths(angles, radius), motion_weights(radius, sd))
                .permute(0, 2, 3, 1)
                .numpy()
            )
            for i, angle in enumerate(angles):
                blurred = theirs._motion_blur(pixels[0], radius, sd, angle)
                assert (smeared[i] != np.uint8(np.clip(blurred, 0, 255))).mean() < 0.04
                only_where_whole(smeared[i].astype(np.int64), blurred.astype(np.float64), 1e-3)
                compared += 1
    assert compared == 3 * 5 * 13


def test_a_line_of_motion_by_hand() -> None:
    """30 degrees, sin 1/2, cos 0.866: ceil(i / 2 - 1/2) = 0 0 1 1 2 down, ceil(0.866 i - 1/2) = 0 1
    2 3 3 right."""
    assert motion_paths(np.array([30.0]), 2)[0].tolist() == [[0, 0], [0, 1], [1, 2], [1, 3], [2, 3]]
    x = torch.tensor([0, 64, 128, 0], dtype=torch.uint8).view(1, 1, 1, 4)
    smeared = smear(x, motion_paths(np.array([0.0]), 1), np.array([0.5, 0.25, 0.25]))
    assert smeared.flatten().tolist() == [0 + 16 + 32, 32 + 32, 64, 0]
    assert motion_weights(1, 1.0).tolist() == pytest.approx(
        [0.574097, 0.348207, 0.0776954], abs=1e-5
    )  # 1, .606531, .135335 / 1.741866


def test_angles_of_motion_are_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 samples: in [-45, 45] degrees, chi-square of 18 bins, mean 17, sd 5.8; neighbours
    unlike."""
    drawn = []

    def watched(angles: NDArray[np.float64], radius: int) -> NDArray[np.int64]:
        drawn.append(angles)
        return motion_paths(angles, radius)

    monkeypatch.setattr(blur, "motion_paths", watched)
    MotionBlur(1, "cifar")(torch.zeros(20_000, 1, 1, 1, dtype=torch.uint8), keys(20_000))
    angles = np.concatenate(drawn)
    counts = np.histogram(angles, bins=18, range=(-45, 45))[0]
    assert (
        counts.sum() == 20_000
        and ((counts - 20_000 / 18) ** 2 / (20_000 / 18)).sum() < 17 + 5 * 5.8
    )
    assert abs(np.corrcoef(angles[1:], angles[:-1])[0, 1]) < 0.04


def test_motion_looked_up_is_motion_by_views(monkeypatch: pytest.MonkeyPatch) -> None:
    x = batch(photos(40, 53)).repeat(8, 1, 1, 1)
    blurred = MotionBlur(4, "imagenet")(x, keys(16))
    monkeypatch.setattr(blur, "_add_views", blur._add_gathered)
    assert torch.equal(MotionBlur(4, "imagenet")(x, keys(16)), blurred)


@pytest.mark.parametrize(
    "constants", sorted({glass_constants[1:] for glass_constants in GLASS[0] + GLASS[1]})
)
def test_maps_are_the_originals_loop(constants: tuple[int, int]) -> None:
    """An image of its own indices, three channels, through the original's loop with the same
    choices: "swaps" that copy rows."""
    reach, times = constants
    height, width = 19, 28
    pixels = np.repeat(np.arange(height * width).reshape(height, width, 1), 3, axis=2)
    choices = glass_choices(height, width, reach, times, 5)
    for turn in range(times):
        for h in range(height - reach, reach, -1):
            for w in range(width - reach, reach, -1):
                dy, dx = choices[turn, h, w]
                pixels[h, w], pixels[h + dy, w + dx] = pixels[h + dy, w + dx], pixels[h, w]
    assert np.array_equal(pixels[..., 0].ravel(), glass_map(height, width, reach, times, 5))
    # A swap would keep every index once; copies lose some.
    assert len(np.unique(pixels)) < height * width


def test_choices_are_uniform_in_their_range() -> None:
    """[-reach, reach) both ways, as numpy's randint: 240,000 choices; of 36 pairs each 6,667 times,
    sd 81."""
    choices = glass_choices(200, 200, 3, 6, 0).reshape(-1, 2) + 3
    counts = np.bincount(choices[:, 0] * 6 + choices[:, 1])
    assert len(counts) == 36 and np.abs(counts - 240_000 / 36).max() < 5 * 81


def test_a_bank_holds_256_maps_and_keys_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = glass_maps(28, 28, 1, 1, np.arange(BANK))
    assert BANK >= 256 and len(torch.unique(maps, dim=0)) == BANK
    pixels = np.repeat(photos(28, 28)[:1], 600, axis=0)
    assert (
        len(np.unique(done(GlassBlur(3), pixels).reshape(600, -1), axis=0)) > 200
    )  # 256 x (1 - exp(-600 / 256)) = 231
    again = done(GlassBlur(3), pixels[:5])
    monkeypatch.setattr(blur, "MEMORY", 3 * 28 * 28 * 2)
    glass_maps(28, 28, 2, 1, np.arange(3))
    assert (
        len(blur._banks[28, 28, 2, 1]) == 3 and (28, 28, 1, 1) not in blur._banks
    )  # the one used longest ago went
    glass_maps(28, 28, 2, 1, np.arange(4))
    assert not blur._banks
    assert np.array_equal(done(GlassBlur(3), pixels[:5]), again)


def test_glass_blur_is_smoothing_a_map_and_smoothing() -> None:
    """scipy's filter in float64, cut to levels, the map of the key, the filter again; both
    tables."""
    pixels = photos(40, 33)
    numbers = (hash64(keys(2), 0) % np.uint64(BANK)).tolist()
    for table, sets in zip(TABLES, GLASS, strict=True):
        for severity, (sd, reach, times) in zip(SEVERITIES, sets, strict=True):
            blurred = done(GlassBlur(severity, table), pixels)
            for i in range(2):
                first = (
                    ndimage.gaussian_filter(
                        pixels[i] / 255, (sd, sd, 0), mode="nearest", truncate=4
                    )
                    * 255
                )
                first = np.floor(first + 1e-9)
                moved = first.reshape(-1, 3)[glass_map(40, 33, reach, times, numbers[i])].reshape(
                    first.shape
                )
                exact = ndimage.gaussian_filter(moved, (sd, sd, 0), mode="nearest", truncate=4)
                expected = np.floor(exact + 1e-9)
                assert (
                    np.abs(blurred[i] - expected).max() <= 1
                    and (blurred[i] != expected).mean() < 2e-3
                )


@pytest.mark.slow  # numba compiles the package's loop for 15 seconds
@pytest.mark.parametrize("severity", [1, 3, 5])
def test_glass_blur_has_the_packages_distribution(
    severity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 draws of each for one photograph: mean and sd at every pixel, and what a pixel has in
    common with its neighbour.

    Means over the image: of the mean within 0.3 levels, of the sd within 5%. Pixel by pixel: within
    6 errors for 99.8% of values.
    """
    theirs, pixels, n = oracle(), photos(40, 40)[:1], 200
    ours = done(GlassBlur(severity, "imagenet"), np.repeat(pixels, n, axis=0)).astype(float)
    random = np.random.default_rng(0)
    monkeypatch.setattr(
        "numpy.random.default_rng", lambda: random
    )  # where the package takes the seeds of its shuffles from
    expected = np.stack(
        [theirs.corrupt(pixels[0], severity, "glass_blur") for _ in range(n)]
    ).astype(float)
    error = np.sqrt((ours.var(0) + expected.var(0)) / n + 0.02)
    assert (np.abs(ours.mean(0) - expected.mean(0)) < 6 * error).mean() > 0.998
    assert abs(ours.mean() - expected.mean()) < 0.3
    assert ours.std(0).mean() == pytest.approx(expected.std(0).mean(), rel=0.05)
    step = [np.abs(np.diff(blurred, axis=2)).mean() for blurred in (ours, expected)]
    assert step[0] == pytest.approx(step[1], rel=0.03)


def test_mirrored_by_hand() -> None:
    assert mirrored(3, 4).tolist() == [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2][:11]
    assert mirrored(1, 2).tolist() == [0] * 5


@pytest.mark.parametrize("kind", [GaussianBlur, DefocusBlur, ZoomBlur, GlassBlur, MotionBlur])
@pytest.mark.parametrize("table", TABLES)
def test_a_constant_image_stays(kind: Any, table: str) -> None:
    """Grey levels, but for the two disks that brighten; 50 pixels a side, since lines of motion
    that are cut darken."""
    levels = torch.arange(0, 256, 5, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 50, 50)
    for severity in SEVERITIES:
        if not (kind is DefocusBlur and table == "imagenet" and severity > 3):
            assert torch.equal(kind(severity, table)(levels, keys(52)), levels)
