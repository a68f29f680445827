"""Spatter: each step as OpenCV's, the whole as the package's of the same noise, and by
distribution."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch
from imagecorruptions import corruptions as package
from numpy.typing import NDArray
from PIL import Image
from skimage.filters import gaussian
from tests.transforms.corruptions.oracle import batch, numbers, photographs, pixels, theirs

from crosswind.core.registry import load
from crosswind.core.seeds import hash64
from crosswind.transforms.corruptions.filters import ONE, smoothed
from crosswind.transforms.corruptions.spatter import DISTANCE, distances, edges, equalised, relief
from crosswind.transforms.draws import _quantiles, bits16

KEYS = hash64(np.arange(48), 6)
SIZES = [(64, 64), (28, 45), (97, 80)]


def liquid(size: tuple[int, int], smooth: float, seed: int) -> NDArray[np.uint8]:
    layer = gaussian(np.random.default_rng(seed).normal(0.65, 0.3, size), sigma=smooth)
    return (np.where(layer < 0.68, 0, layer) * 255).astype(np.uint8)


@pytest.mark.parametrize("size", [(31, 45), (64, 28)])
@pytest.mark.parametrize("edge", ["nearest", "reflect"])
def test_smoothing_is_scipys(size: tuple[int, int], edge: str) -> None:
    """To 1e-5 of the field's range: weights of 18 bits. A constant stays, exactly."""
    field = np.random.default_rng(0).integers(-65535, 65536, (1, *size))
    for sd, reach in ((0.5, 4.0), (3.0, 3.0), (25.0, 3.0)):
        smooth = smoothed(torch.from_numpy(field), sd, edge, reach).numpy() / ONE
        for ours, row in zip(smooth, field, strict=True):
            assert ours == pytest.approx(
                gaussian(row.astype(float), sd, mode=edge, truncate=reach), abs=2.0
            )
        assert (smoothed(torch.full((1, *size), 7), sd, edge, reach) == 7 * ONE).all()


@pytest.mark.parametrize("size", SIZES)
def test_edges_distances_and_evened_levels_are_opencvs(size: tuple[int, int]) -> None:
    """Edges and levels to the pixel; distances to 2e-4, as OpenCV 5 has them in floats. Noise has
    edges of all strengths."""
    noise, n_edges = np.random.default_rng(1).integers(0, 70, size).astype(np.uint8), 0
    for levels in (
        liquid(size, 3.0, 0),
        liquid(size, 1.0, 1),
        noise,
        cv2.GaussianBlur(noise, (5, 5), 1.0),
    ):
        marked = edges(torch.from_numpy(levels)[None], 50, 150)
        theirs = cv2.Canny(levels, 50, 150)
        assert np.array_equal(marked[0].numpy(), theirs > 0)
        n_edges += int((theirs > 0).sum())
        far = np.minimum(cv2.distanceTransform(255 - theirs, cv2.DIST_L2, 5), 20)
        assert distances(marked, 20)[0].numpy() / DISTANCE == pytest.approx(far, abs=2e-4)
        assert np.array_equal(
            equalised(torch.from_numpy(levels)[None].long())[0].numpy(), cv2.equalizeHist(levels)
        )
    assert n_edges > 500


def test_no_edge_is_as_far_as_can_be_and_one_level_stays() -> None:
    none = torch.zeros(1, 30, 40, dtype=torch.bool)
    assert (distances(none, 20) == 20 * DISTANCE).all()
    level = torch.full((2, 9, 9), 17)
    assert torch.equal(equalised(level).long(), level)


@pytest.mark.parametrize("size", SIZES)
def test_the_relief_of_drops_is_opencvs(size: tuple[int, int]) -> None:
    """The eight steps of the original in a row, by OpenCV: within 1% of the largest value, and
    equal for 99.5% of the pixels."""
    for seed, smooth in enumerate((4.0, 3.0, 2.0, 1.0)):
        drops = liquid(size, smooth, seed)
        far = cv2.distanceTransform(255 - cv2.Canny(drops, 50, 150), cv2.DIST_L2, 5)
        far = cv2.blur(np.minimum(far, 20), (3, 3)).astype(np.uint8)
        lit = cv2.filter2D(
            cv2.equalizeHist(far), cv2.CV_8U, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
        )
        expected = cv2.blur(lit, (3, 3)).astype(np.float32) * drops
        heights = relief(torch.from_numpy(drops)[None])[0].numpy()
        assert expected.max() > 0
        assert (heights != expected).mean() < 0.005


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_same_image_as_the_packages_of_the_same_noise(channels: int, severity: int) -> None:
    """For 99% of the values to a level. A pixel at a threshold may fall to its other side, and move
    an outline: 0.2%."""
    images = photographs(4, 64, 80)[..., :channels]
    spattered = pixels(load("transforms", "spatter")(severity)(batch(images), KEYS[:4]))
    for i, image in enumerate(images):
        normal = _quantiles()[bits16(KEYS[i : i + 1], 64 * 80).numpy()].reshape(64, 80)
        with numbers(normal=normal):
            if channels == 3:
                expected = theirs("spatter", image[None], severity)[0]
            else:  # `corrupt` would make three channels of one
                expected = np.floor(
                    package.spatter(Image.fromarray(image[..., 0]), severity)
                ).astype(np.int64)[..., None]
        off = np.abs(spattered[i] - expected)
        assert (off > 1).mean() < 0.002
        assert (off > 0).mean() < 0.01
        assert (expected != image).mean() > 0.02


@pytest.mark.parametrize("severity", [1, 3, 4, 5])
def test_distributed_as_the_packages(severity: int) -> None:
    """On grey: how much is covered, the mean of each channel and the spread, over 48 draws."""
    images = np.full((48, 64, 64, 3), 120, dtype=np.uint8)
    np.random.seed(0)  # noqa: NPY002
    ours, of_package = (
        pixels(load("transforms", "spatter")(severity)(batch(images), KEYS)),
        theirs("spatter", images, severity),
    )
    assert (ours != 120).mean() == pytest.approx((of_package != 120).mean(), rel=0.15)
    assert ours.mean((0, 1, 2)) == pytest.approx(of_package.mean((0, 1, 2)), abs=2.0)
    assert ours.std() == pytest.approx(of_package.std(), rel=0.12)


SMALL = (
    (0.62, 0.1, 0.7, 0.7, 0.5),
    (0.65, 0.1, 0.8, 0.7, 0.5),
    (0.65, 0.3, 1, 0.69, 0.5),
    (0.65, 0.1, 0.7, 0.69, 0.6),
    (0.65, 0.1, 0.5, 0.68, 0.6),
)


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
def test_the_small_table_by_the_formula(severity: int) -> None:
    """32 pixels on black: water is its relief's share of the largest times the strength and (175,
    238, 238); mud (63, 42, 20) m."""
    mean, sd, smooth, threshold, last = SMALL[severity - 1]
    spattered = pixels(
        load("transforms", "spatter")(severity)(
            torch.zeros(8, 3, 32, 32, dtype=torch.uint8), KEYS[:8]
        )
    )
    covered = apart = far = 0.0
    for i, image in enumerate(spattered):
        noise = mean + sd * _quantiles()[bits16(KEYS[i : i + 1], 1024).numpy()].reshape(32, 32)
        layer = gaussian(noise, sigma=smooth)
        if severity < 4:
            drops = (np.where(layer < threshold, 0, layer) * 255).astype(np.uint8)
            light = relief(torch.from_numpy(drops)[None])[0].double().numpy()
            expected = light[..., None] / max(light.max(), 1) * last * np.array([175, 238, 238])
        else:
            cover = gaussian((layer > threshold).astype(float), sigma=last)
            expected = np.where(cover < 0.8, 0, cover)[..., None] * np.array([63, 42, 20])
        off = np.abs(image - np.floor(expected))
        covered, apart, far = (
            covered + (image > 0).mean() / 8,
            apart + (off > 0).mean() / 8,
            far + (off > 1).mean() / 8,
        )
    assert covered > 0.01
    assert (
        far < 0.005 and apart < 0.02
    )  # where noise meets the threshold or a whole level, drops have another outline


def test_without_liquid_the_image_stays() -> None:
    """Small noise, much smoothed: the least liquid of the small table is none in some images. Tiny
    images have no outline."""
    images = photographs(2, 28, 28)
    spatter = load("transforms", "spatter")(1)
    keys = hash64(np.arange(300), 2)
    spattered = spatter(batch(images[:1]).expand(300, -1, -1, -1), keys)
    dry = (spattered == batch(images[:1])).flatten(1).all(1)
    assert 0 <= int(dry.sum()) < 300
    assert (relief(torch.zeros(1, 9, 9, dtype=torch.uint8)) == 0).all()
    tiny = torch.zeros(2, 3, 1, 5, dtype=torch.uint8)
    assert torch.equal(spatter(tiny, KEYS[:2]), tiny)
