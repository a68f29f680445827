"""Fog, frost and snow: exactly, given the random numbers, and by distribution."""

from __future__ import annotations

from pathlib import Path

import cv2
import imagecorruptions
import numpy as np
import pytest
import torch
from imagecorruptions import corruptions as package
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import zoom as stretched_by_scipy
from tests.transforms.corruptions.oracle import batch, numbers, photographs, pixels, theirs

from crosswind.core.errors import InputError
from crosswind.core.registry import facts, load
from crosswind.core.seeds import hash64
from crosswind.transforms.corruptions.frost_textures import procedural_ice, textures
from crosswind.transforms.corruptions.weather import plasma
from crosswind.transforms.draws import _quantiles, bits16, uniforms

KEYS = hash64(np.arange(64), 4)
FROST_OF_THE_PACKAGE = Path(imagecorruptions.__file__).parent / "frost"


def spectrum(planes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean power of square planes [n, h, h] in five rings of frequency, mean level left out."""
    power = (np.abs(np.fft.fft2(planes)) ** 2).mean(0)
    frequency = np.abs(np.fft.fftfreq(power.shape[0]))
    ring = np.digitize(np.hypot(frequency[:, None], frequency), [1e-9, 0.04, 0.1, 0.2, 0.35])
    return np.array([power[ring == k].mean() for k in range(1, 6)])


def alike(
    ours: NDArray[np.int64], expected_images: NDArray[np.int64], mean: float, ratio: float
) -> None:
    """Images [n, h, h, c] of two makers: mean and mean of the channels within `mean` levels, sd and
    power within a factor."""
    assert ours.mean((0, 1, 2)) == pytest.approx(expected_images.mean((0, 1, 2)), abs=mean)
    assert ours.std() == pytest.approx(expected_images.std(), rel=ratio - 1)
    logarithms = np.log(spectrum(ours.mean(3)) / spectrum(expected_images.mean(3)))
    assert np.abs(logarithms).max() < np.log(ratio), np.exp(logarithms)


@pytest.mark.parametrize("decay", [2.0, 1.4, 3.0])
def test_the_fractal_of_given_numbers(decay: float) -> None:
    """The package's plasma_fractal fed with the same uniform numbers in the same order, its floats
    100 * 100 times as large."""
    draws = uniforms(KEYS[:3], 64 * 64 - 1)
    fractals = plasma(draws, 64, decay).numpy()
    for row, ours in zip(draws.double().numpy(), fractals, strict=True):
        with numbers(uniform=row):
            assert ours == pytest.approx(package.plasma_fractal(64, decay), abs=2e-5)
        assert ours.min() == 0 and ours.max() == 1


def test_the_fractal_of_two_by_two_by_hand() -> None:
    """One point 0; the middle is 0 + u = 1/2; above: (1/2 + 1/2 + 0 + 0) / 4 + u = 1/4 - 1/4; left:
    1/4 + 3/4. From 0 to 1."""
    draws = torch.tensor([[0.75, 0.375, 0.875]])
    assert plasma(draws, 2, 2.0).tolist() == [[[0.0, 0.0], [1.0, 0.5]]]


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
def test_fog_of_given_numbers_is_the_packages(severity: int) -> None:
    """One level apart at most, where floats just miss a whole number, or tell two apart: 1% of the
    values."""
    images = photographs(3, 64, 51)
    foggy = pixels(load("transforms", "fog")(severity, "imagenet")(batch(images), KEYS[:3]))
    for i, image in enumerate(images):
        with numbers(uniform=uniforms(KEYS[i : i + 1], 64 * 64 - 1)[0].double().numpy()):
            off = foggy[i] - theirs("fog", image[None], severity)[0]
        assert np.abs(off).max() <= 1
        assert (off != 0).mean() < 0.01


def test_fog_of_the_small_table_by_its_formula() -> None:
    """floor((x + 255 c m) max / (max + 255 c)) with the fractal m of 32 x 32: severity 5 is c = 1.5
    and decay 1.75."""
    image = photographs(1, 32, 28)
    foggy = pixels(load("transforms", "fog")(5)(batch(image), KEYS[:1]))[0]
    fog = plasma(uniforms(KEYS[:1], 1023), 32, 1.75)[0, :32, :28, None].double().numpy()
    top = int(image.max())
    off = foggy - np.floor((image[0] + 255 * 1.5 * fog) * top / (top + 255 * 1.5))
    assert np.abs(off).max() <= 1 and (off != 0).mean() < 0.01


@pytest.mark.parametrize("severity", [1, 5])
@pytest.mark.parametrize(
    ("table", "image", "ice"),
    [("imagenet", (1, 0.6), (0.4, 0.75)), ("cifar", (1, 0.75), (0.2, 0.45))],
)
def test_frost_is_a_weighted_sum_with_a_piece_of_ice(
    tmp_path: Path, table: str, image: tuple[float, ...], ice: tuple[float, ...], severity: int
) -> None:
    """With ice of one colour, any piece is known: floor of the sum, cut at 255."""
    Image.new("RGB", (300, 250), (200, 100, 41)).save(tmp_path / "ice.png")
    x = photographs(2, 64, 48)
    frosted = pixels(
        load("transforms", "frost")(severity, table, pictures=str(tmp_path))(batch(x), KEYS[:2])
    )
    weights = (round(100 * (image[severity // 5])), round(100 * ice[severity // 5]))
    assert np.array_equal(
        frosted,
        np.minimum((x * np.int64(weights[0]) + np.array([200, 100, 41]) * weights[1]) // 100, 255),
    )


def test_frost_takes_pieces_from_everywhere_and_every_picture(tmp_path: Path) -> None:
    """Two pictures that hold the row and the column of each pixel: black images show where a piece
    was cut. Ice counts 0.4."""
    row, column = np.mgrid[0:100, 0:80]
    for blue in (0, 100):
        Image.fromarray(np.stack([row, column, np.full_like(row, blue)], 2).astype(np.uint8)).save(
            tmp_path / f"{blue}.png"
        )
    keys = hash64(np.arange(400), 8)
    frost = load("transforms", "frost")(1, "imagenet", pictures=str(tmp_path))
    frosted = pixels(frost(torch.zeros(400, 3, 50, 50, dtype=torch.uint8), keys))
    assert set(frosted[:, 0, 0, 2]) == {0, 40}
    assert (
        frosted[:, 0, 0, 0].min() == 0
        and frosted[:, 0, 0, 0].max() == 20
        and frosted[:, 0, 0, 1].max() == 12
    )
    assert frosted[:, 0, 0, 0].mean() == pytest.approx(9.6, abs=1.5)
    steps = frosted[:, 49, 49, 0] - frosted[:, 0, 0, 0]  # 49 rows in one piece
    assert set(steps) <= {19, 20}


@pytest.mark.slow
def test_frost_with_the_packages_pictures_is_distributed_as_the_packages() -> None:
    """The package draws all six and enlarges them by a tenth; the original drew five. Grey images
    and coloured ones."""
    images = np.repeat(photographs(1, 64, 64), 64, 0)
    np.random.seed(0)  # noqa: NPY002
    of_package = theirs("frost", images[:32], 3)
    frost = load("transforms", "frost")(3, pictures=str(FROST_OF_THE_PACKAGE))
    ours = pixels(frost(batch(images), KEYS))
    alike(ours, of_package, mean=20, ratio=2.0)
    grey = pixels(frost(batch(images[..., :1]), KEYS))
    assert grey.mean() == pytest.approx(ours.mean(), abs=25) and grey.shape[3] == 1


def test_procedural_ice_is_like_the_photographs_and_said_to_be_made() -> None:
    """Means of the channels to a level, spreads to two, and a spectrum that falls: not noise."""
    sheets = procedural_ice()
    assert len(sheets) == 5 and len({sheet.tobytes() for sheet in sheets}) == 5
    for sheet, name in zip(
        sheets, ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg"), strict=True
    ):
        with Image.open(FROST_OF_THE_PACKAGE / name) as picture:
            photograph = np.asarray(picture.convert("RGB"))
        assert sheet.mean((0, 1)) == pytest.approx(photograph.mean((0, 1)), abs=1.5)
        assert sheet.std((0, 1)) == pytest.approx(photograph.std((0, 1)), abs=2)
        power = spectrum(sheet.mean(2)[None])
        assert (power[:-1] > 2 * power[1:]).all()
    frost = load("transforms", "frost")
    assert "not the photographs" in frost.material and "procedural ice" in (frost.__doc__ or "")
    assert [knob.name for knob in facts("transforms", "frost").knobs][-1] == "pictures"


def test_small_pictures_are_enlarged_and_large_images_served() -> None:
    first, *_ = textures(None, 5, 32, 90)
    assert first.shape == (3, 90, 90)
    x = torch.zeros(1, 3, 400, 30, dtype=torch.uint8)
    assert load("transforms", "frost")(3)(x, KEYS[:1]).shape == x.shape


def test_folders_of_pictures_are_checked(tmp_path: Path) -> None:
    frost = load("transforms", "frost")
    with pytest.raises(InputError, match=r"frost.pictures: no folder"):
        frost(pictures=str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"frost.pictures: folder .* holds no picture"):
        frost(pictures=str(tmp_path))
    (tmp_path / "ice.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"frost.pictures: cannot read"):
        frost(pictures=str(tmp_path))(torch.zeros(1, 3, 64, 64, dtype=torch.uint8), KEYS[:1])


SNOW = {
    "imagenet": (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    "cifar": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
}


def snow(
    image: NDArray[np.uint8], key: NDArray[np.uint64], constants: tuple[float, ...]
) -> NDArray[np.int64]:
    """The original's steps in floats with our numbers; the smear is the package's."""
    mean, sd, zoom, threshold, radius, spread, share = constants
    (height, width), x = image.shape[:2], image.astype(np.float64) / 255
    size = (int(np.ceil(height / zoom)), int(np.ceil(width / zoom)))
    noise = mean + sd * _quantiles()[bits16(hash64(key, 2), size[0] * size[1]).numpy()].reshape(
        size
    )
    layer = stretched_by_scipy(noise, zoom, order=1)
    top, left = (layer.shape[0] - height) // 2, (layer.shape[1] - width) // 2
    layer = layer[top : top + height, left : left + width]
    layer = np.where(layer < threshold, 0, np.clip(layer, 0, 1))
    angle = -135 + 90 * float(uniforms(hash64(key, 1), 1))
    layer = package._motion_blur((layer * 255).astype(np.uint8) / 255.0, int(radius), spread, angle)
    layer = np.round(layer * 255) / 255
    grey = (
        cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2GRAY)[..., None]
        if image.shape[2] == 3
        else x
    )
    x = share * x + (1 - share) * np.maximum(x, grey * 1.5 + 0.5)
    return np.floor(np.clip(x + (layer + np.rot90(layer, 2))[..., None], 0, 1) * 255).astype(
        np.int64
    )


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("size", "table"),
    [((64, 64), "imagenet"), ((75, 96), "imagenet"), ((32, 32), "cifar"), ((33, 40), "cifar")],
)
def test_snow_by_the_originals_steps(size: tuple[int, int], table: str, severity: int) -> None:
    """Two levels apart (a flake of a level more or less, and its mirror image) where floats nearly
    are whole numbers, which the original cuts at three places: 4% of the values. More where noise
    just meets the threshold, and a streak of snow is there or not: 1.5% in images of 32 pixels.
    """
    images = photographs(3, *size)
    for pictures in (images, images[..., :1]):
        snowy = pixels(load("transforms", "snow")(severity, table)(batch(pictures), KEYS[:3]))
        off = snowy - np.stack(
            [
                snow(image, KEYS[i : i + 1], SNOW[table][severity - 1])
                for i, image in enumerate(pictures)
            ]
        )
        assert (np.abs(off) > 2).mean() < 0.015
        assert (off != 0).mean() < 0.04


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_snow_is_distributed_as_the_packages(severity: int) -> None:
    """On a photograph, 64 draws: means to 2.5 levels, sd and power within a factor of 1.25. The
    package does not cut flakes to grey levels before they are smeared, half a level of them."""
    images = np.repeat(photographs(1, 64, 64), 64, 0)
    np.random.seed(0)  # noqa: NPY002
    alike(
        pixels(load("transforms", "snow")(severity)(batch(images), KEYS)),
        theirs("snow", images, severity),
        mean=2.5,
        ratio=1.25,
    )
