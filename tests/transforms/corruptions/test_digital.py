"""Brightness, contrast, saturation, pixelation and compression, pixel by pixel."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
import skimage.color
import torch
from numpy.typing import NDArray
from PIL import Image
from tests.transforms.corruptions.oracle import batch, photographs, pixels, theirs

from crosswind.core.registry import load

NONE = np.zeros(64, dtype=np.uint64)  # keys: nothing here is random
TABLES = {
    ("brightness", "imagenet"): (0.1, 0.2, 0.3, 0.4, 0.5),
    ("brightness", "cifar"): (0.05, 0.1, 0.15, 0.2, 0.3),
    ("contrast", "imagenet"): (0.4, 0.3, 0.2, 0.1, 0.05),
    ("contrast", "cifar"): (0.75, 0.5, 0.4, 0.3, 0.15),
    ("saturate", "imagenet"): ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
    ("saturate", "cifar"): ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
    ("pixelate", "imagenet"): (0.6, 0.5, 0.4, 0.3, 0.25),
    ("pixelate", "cifar"): (0.95, 0.9, 0.85, 0.75, 0.65),
    ("jpeg", "imagenet"): (25, 18, 15, 10, 7),
    ("jpeg", "cifar"): (80, 65, 58, 50, 40),
}


def samples() -> NDArray[np.uint8]:
    """Photographs, noise, noise of few dark levels, one level, and black: uint8 [6, 48, 40, 3]."""
    random = np.random.default_rng(0)
    noise, dark = random.integers(0, 256, (48, 40, 3)), random.integers(0, 3, (48, 40, 3))
    rest = [noise, dark, np.full((48, 40, 3), 77), np.zeros((48, 40, 3))]
    return np.concatenate([photographs(2, 48, 40), np.stack(rest).astype(np.uint8)])


def brightness(x: NDArray[np.float64], constant: float) -> NDArray[np.float64]:
    hsv = skimage.color.rgb2hsv(x)
    hsv[..., 2] = np.clip(hsv[..., 2] + constant, 0, 1)
    return skimage.color.hsv2rgb(hsv)


def saturate(x: NDArray[np.float64], constant: tuple[float, float]) -> NDArray[np.float64]:
    hsv = skimage.color.rgb2hsv(x)
    hsv[..., 1] = np.clip(hsv[..., 1] * constant[0] + constant[1], 0, 1)
    return skimage.color.hsv2rgb(hsv)


def contrast(x: NDArray[np.float64], constant: float) -> NDArray[np.float64]:
    mean = x.mean((0, 1))
    return (x - mean) * constant + mean


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("table", ["imagenet", "cifar"])
@pytest.mark.parametrize("definition", [brightness, saturate, contrast])
def test_colours_by_the_definition_in_floats(
    definition: Callable[..., NDArray[np.float64]], table: str, severity: int
) -> None:
    """Truncated floats of skimage's HSV: different only within 1e-4 of a whole number, and then by
    one level up."""
    name = definition.__name__
    images = samples()
    found = pixels(load("transforms", name)(severity, table)(batch(images), NONE[:6]))
    exact = np.stack(
        [
            np.clip(definition(image / 255.0, TABLES[name, table][severity - 1]), 0, 1) * 255
            for image in images
        ]
    )
    off = found - np.floor(exact).astype(np.int64)
    assert set(np.unique(off)) <= {0, 1}
    assert np.abs(exact - np.rint(exact))[off != 0].max(initial=0) < 1e-4
    assert (found - images).any()


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("name", "share"),
    [("brightness", 0.04), ("contrast", 0.04), ("saturate", 0.15), ("pixelate", 0), ("jpeg", 0)],
)
def test_as_the_package_has_it(name: str, share: float, severity: int) -> None:
    """Photographs of 64 pixels: at most `share` of the values differ, by one level, where floats
    just miss a whole number."""
    images = photographs(4, 64, 64)
    off = pixels(load("transforms", name)(severity)(batch(images), NONE[:4])) - theirs(
        name, images, severity
    )
    assert set(np.unique(off)) <= {0, 1}
    assert (off != 0).mean() <= share


def test_brightness_by_hand() -> None:
    """Severity 1 adds 25.5 to V = 100 of (100, 50, 0): times 1.255, (125.5, 62.75, 0). Black
    becomes (25.5,) * 3. White stays.

    (200, 250, 100) would have V = 275.5: times 255 / 250 instead, (204, 255, 102).
    """
    given = [(100, 50, 0), (0, 0, 0), (255, 255, 255), (200, 250, 100)]
    x = torch.tensor(given, dtype=torch.uint8).T.reshape(1, 3, 1, 4)
    done = load("transforms", "brightness")(1, "imagenet")(x, NONE[:1])
    assert done.view(3, 4).T.tolist() == [
        [125, 62, 0],
        [25, 25, 25],
        [255, 255, 255],
        [204, 255, 102],
    ]


def test_contrast_by_hand() -> None:
    """Half of the pixels 100 and half 200, mean 150, 0.75 left of the distance 50: 112.5 and 187.5,
    cut. One level stays."""
    x = torch.tensor([100, 200, 100, 200], dtype=torch.uint8).view(1, 1, 2, 2)
    contrast = load("transforms", "contrast")
    assert contrast(1, "cifar")(x, NONE[:1]).flatten().tolist() == [112, 187, 112, 187]
    levels = torch.arange(256, dtype=torch.uint8).view(256, 1, 1, 1).expand(256, 3, 5, 7)
    keys = np.zeros(256, dtype=np.uint64)
    assert all(
        torch.equal(contrast(severity, table)(levels, keys), levels)
        for severity in range(1, 6)
        for table in ("cifar", "imagenet")
    )


def test_saturate_by_hand() -> None:
    """(200, 100, 50) has S = 0.75. Twice that is cut at 1: distances from 200 times 4/3, (200,
    66.67, 0). 0.3 S: times 0.3, (200, 170, 155). Grey 100 with S = 5 * 0 + 0.1 has the hue of red:
    (100, 90, 90).
    """
    x = torch.tensor([(200, 100, 50), (100, 100, 100)], dtype=torch.uint8).T.reshape(1, 3, 1, 2)

    def done(severity: int) -> list[list[int]]:
        return (
            load("transforms", "saturate")(severity, "imagenet")(x, NONE[:1]).view(3, 2).T.tolist()
        )

    assert done(3)[0] == [200, 66, 0]
    assert done(1) == [[200, 170, 155], [100, 100, 100]]
    assert done(4)[1] == [100, 90, 90]


def test_grey_images_stay_grey() -> None:
    """One channel: what becomes of three equal ones, but that no hue is not made red. The same as
    the package has."""
    images = photographs(2, 64, 64)[..., 1:2]
    x = batch(images)
    for name in ("brightness", "contrast"):
        one, three = (
            load("transforms", name)(4)(x, NONE[:2]),
            load("transforms", name)(4)(x.expand(-1, 3, -1, -1), NONE[:2]),
        )
        assert torch.equal(one.expand_as(three), three)
        off = pixels(one)[..., 0] - theirs(name, images[..., 0], 4)[..., 0]
        assert set(np.unique(off)) <= {0, 1}
    assert torch.equal(load("transforms", "saturate")(5)(x, NONE[:2]), x)


@pytest.mark.parametrize("table", ["imagenet", "cifar"])
@pytest.mark.parametrize("size", [(28, 28), (61, 83), (64, 64), (97, 255), (100, 101), (224, 224)])
def test_pixelation_as_pillow_resizes(size: tuple[int, int], table: str) -> None:
    images = np.random.default_rng(0).integers(0, 256, (2, *size, 3), dtype=np.uint8)
    for severity in range(1, 6):
        found = pixels(load("transforms", "pixelate")(severity, table)(batch(images), NONE[:2]))
        scale = TABLES["pixelate", table][severity - 1]
        small = (int(size[1] * scale), int(size[0] * scale))
        for image, done in zip(images, found, strict=True):
            picture = (
                Image.fromarray(image)
                .resize(small, Image.Resampling.BOX)
                .resize(size[::-1], Image.Resampling.BOX)
            )
            assert np.array_equal(np.asarray(picture), done)


def test_pixelation_of_tall_images_differs_by_a_level() -> None:
    """Pillow takes the columns of a tall image first: rounding in another order."""
    images = np.random.default_rng(0).integers(0, 256, (1, 256, 64, 1), dtype=np.uint8)
    found = pixels(load("transforms", "pixelate")(2, "imagenet")(batch(images), NONE[:1]))[
        0, ..., 0
    ]
    picture = (
        Image.fromarray(images[0, ..., 0])
        .resize((32, 128), Image.Resampling.BOX)
        .resize((64, 256), Image.Resampling.BOX)
    )
    assert np.abs(np.asarray(picture).astype(int) - found).max() <= 1


@pytest.mark.parametrize("table", ["imagenet", "cifar"])
@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
def test_compression_is_pillows(table: str, severity: int) -> None:
    for images in (photographs(1, 45, 64), photographs(1, 45, 64)[..., :1]):
        found = load("transforms", "jpeg")(severity, table)(batch(images), NONE[:1])
        file = io.BytesIO()
        Image.fromarray(images[0].squeeze()).save(
            file, "JPEG", quality=TABLES["jpeg", table][severity - 1]
        )
        assert np.array_equal(pixels(found)[0].squeeze(), np.asarray(Image.open(file)).astype(int))


@pytest.mark.parametrize("channels", [1, 3])
def test_compression_does_not_depend_on_the_layout(channels: int) -> None:
    x = batch(photographs(2, 45, 61)[..., :channels])
    jpeg = load("transforms", "jpeg")(4, "imagenet")
    for layout in (torch.contiguous_format, torch.channels_last):
        laid_out = x.contiguous(memory_format=layout)
        before = laid_out.clone()
        compressed = jpeg(laid_out, NONE[:2])
        assert compressed.is_contiguous(memory_format=layout)
        assert torch.equal(compressed, jpeg(x, NONE[:2]))
        assert torch.equal(laid_out, before)
