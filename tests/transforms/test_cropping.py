"""Crops: torchvision's own resampling of one image at a time and the boxes' laws; ImageNet's jitter
of what is cropped."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.transforms.pictures import image, pictures, tensor
from torchvision.transforms import RandomResizedCrop
from torchvision.transforms import functional as theirs

from crosswind.core.errors import InputError
from crosswind.core.seeds import hash64
from crosswind.transforms.colour import jitter_draws
from crosswind.transforms.cropping import (
    BOX_DRAWS,
    FlipCrop,
    ImageNet,
    _by_batch,
    _by_image,
    crop_boxes,
    resized_crop,
)
from crosswind.transforms.draws import uniforms

RATIO = (3 / 4, 4 / 3)


KEYS = hash64(np.arange(32), 5)
THEIRS = (
    theirs.adjust_brightness,
    theirs.adjust_contrast,
    theirs.adjust_saturation,
    theirs.adjust_hue,
)


def boxes(
    n: int, size: tuple[int, int], scale: float = 0.08, ratio: tuple[float, float] = RATIO
) -> torch.Tensor:
    return crop_boxes(uniforms(hash64(np.arange(n), 5), BOX_DRAWS), size, (scale, 1.0), ratio)


def test_one_row_of_pixels_by_hand() -> None:
    """Pixels 0 8 16 24, the box 8 16, to 4 pixels: sources -1/4 -> 0, 1/4, 3/4, 5/4 -> 1 give 8 10
    14 16; mirrored 16 14 10 8."""
    x = torch.tensor([0, 8, 16, 24], dtype=torch.uint8).view(1, 1, 1, 4).repeat(2, 1, 1, 1)
    cropped = resized_crop(x, torch.tensor([[0, 1, 1, 2]] * 2), torch.tensor([False, True]))
    assert cropped.flatten(1).tolist() == [[8, 10, 14, 16], [16, 14, 10, 8]]
    assert torch.equal(
        _by_batch(x, torch.tensor([[0, 1, 1, 2]] * 2), torch.tensor([False, True])), cropped
    )


@pytest.mark.parametrize("size", [(28, 28), (31, 45), (64, 64), (45, 28)], ids=str)
@pytest.mark.parametrize("channels", [1, 3])
def test_crops_are_torchvisions(size: tuple[int, int], channels: int) -> None:
    """`resized_crop` and `hflip` of torchvision on Pillow images: in colour the levels at 64
    pixels, else but for 1 in 100.

    Grey images and other devices are rounded once: a quarter of the values may differ.
    """
    x = pictures(channels, *size, 48)[:43]
    drawn, flip = boxes(43, size), torch.arange(43) % 3 == 0
    drawn[0], drawn[1] = torch.tensor([0, 0, 1, 1]), torch.tensor([size[0] - 1, size[1] - 2, 1, 2])
    expected = []
    for i in range(43):
        cropped = theirs.resized_crop(image(x[i]), *drawn[i].tolist(), size=list(size))
        expected.append(tensor(theirs.hflip(cropped) if flip[i] else cropped))
    if channels == 1:
        assert torch.equal(resized_crop(x, drawn, flip), _by_batch(x, drawn, flip))
    difference = (_by_image(x, drawn, flip).int() - torch.stack(expected).int()).abs()
    assert difference.max() <= (0 if size == (64, 64) else 2)
    assert (difference > 0).double().mean() < 0.015 and (difference > 1).double().mean() < 1e-4
    difference = (_by_batch(x, drawn, flip).int() - torch.stack(expected).int()).abs()
    assert (
        difference.max() <= 2
        and (difference > 1).double().mean() < 1e-3
        and 0 < (difference > 0).double().mean() < 0.25
    )


def test_crops_of_a_batch_at_a_time_are_exact() -> None:
    """Whole numbers: weights in 1/256 on each side, so levels in 1/65536, half of which is added
    before the fraction is cut."""

    def taps(start: int, extent: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        position = np.floor(
            np.maximum((np.arange(size) + 0.5) * (extent / size) - 0.5, 0) * 256 + 0.5
        ).astype(np.int64)
        first = np.minimum(position // 256, extent - 1)
        return start + first, start + np.minimum(first + 1, extent - 1), position - 256 * first

    x, drawn = pictures(), boxes(32, (33, 29))
    crops = _by_batch(x, drawn, torch.zeros(32, dtype=torch.bool)).numpy()
    for i, (top, left, h, w) in enumerate(drawn.tolist()):
        levels = x[i].numpy().astype(np.int64)
        lower_pixels, far, share = taps(top, h, 33)
        levels = levels[:, lower_pixels] * (256 - share)[:, None] + levels[:, far] * share[:, None]
        lower_pixels, far, share = taps(left, w, 29)
        levels = levels[:, :, lower_pixels] * (256 - share) + levels[:, :, far] * share
        assert np.array_equal(crops[i], (levels + 32768) >> 16)


def test_a_box_that_is_the_whole_image_is_the_image() -> None:
    for x, crop in (
        (pictures(), resized_crop),
        (pictures(1), resized_crop),
        (pictures(), _by_batch),
    ):
        whole_image = torch.tensor([[0, 0, 33, 29]] * 32)
        assert torch.equal(crop(x, whole_image, torch.zeros(32, dtype=torch.bool)), x)
        assert torch.equal(crop(x, whole_image, torch.ones(32, dtype=torch.bool)), x.flip(3))
        assert torch.equal(
            crop(
                x.contiguous(memory_format=torch.channels_last),
                whole_image,
                torch.ones(32, dtype=torch.bool),
            ),
            x.flip(3),
        )


@pytest.mark.parametrize(("size", "scale"), [((32, 32), 0.08), ((64, 48), 0.3)])
def test_boxes_follow_torchvisions_law(size: tuple[int, int], scale: float) -> None:
    """4,000 boxes of each: means of area, shape and corner within 5 errors, and every box inside
    the image."""
    n = 4_000
    drawn = boxes(n, size, scale).numpy()
    torch.manual_seed(0)
    image = torch.zeros(1, *size)
    ours = []
    expected = np.array(
        [RandomResizedCrop.get_params(image, [scale, 1.0], list(RATIO)) for _ in range(n)]
    )
    for rows in (drawn, expected):
        top, left, h, w = rows.T
        assert (
            (top >= 0).all()
            and (left >= 0).all()
            and (top + h <= size[0]).all()
            and (left + w <= size[1]).all()
            and h.min() > 0
        )
        ours.append(
            np.stack(
                [
                    h * w / (size[0] * size[1]),
                    np.log(w / h),
                    top / size[0],
                    left / size[1],
                    (h * w) ** 2 / 1e6,
                ]
            )
        )
    error = np.sqrt(ours[0].var(1) / n + ours[1].var(1) / n)
    assert (np.abs(ours[0].mean(1) - ours[1].mean(1)) < 5 * error).all()
    share = drawn[:, 2] * drawn[:, 3] / (size[0] * size[1])
    assert (
        share.min() > scale - 0.05
        and share.max() <= 1
        and np.unique(drawn, axis=0).shape[0] > n / 4
    )


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((32, 32), [0, 0, 32, 32]),
        ((40, 30), [0, 0, 40, 30]),
        ((20, 60), [0, 16, 20, 27]),  # 20 x 4/3 = 26.67, in the middle of 60: (60 - 27) // 2
        ((60, 20), [16, 0, 27, 20]),
    ],
)
def test_boxes_that_never_fit_are_in_the_middle(size: tuple[int, int], expected: list[int]) -> None:
    """Area 1 with shapes that are not the image's: torchvision's fallback."""
    drawn_boxes = crop_boxes(uniforms(hash64(np.arange(50), 5), BOX_DRAWS), size, (1.0, 1.0), RATIO)
    fits = [math.isclose(size[0] * size[1], int(h) * int(w)) for _, _, h, w in drawn_boxes]
    assert sum(fits) <= 50 and expected in drawn_boxes.tolist()
    if size[0] == size[1]:
        assert drawn_boxes.tolist() == [expected] * 50


def test_crops_flip_half_of_the_time() -> None:
    x, keys = pictures(3, 28, 28, 9)[:1].expand(2000, -1, -1, -1), hash64(np.arange(2000), 2)
    flipped = FlipCrop(scale=1.0, narrowest=1.0, widest=1.0)(x, keys)
    mirrored = (flipped == x.flip(3)).flatten(1).all(1)
    assert (mirrored | (flipped == x).flatten(1).all(1)).all()
    assert abs(float(mirrored.double().mean()) - 0.5) < 5 * math.sqrt(1 / 8000)
    with pytest.raises(
        InputError, match=r"flip-crop.narrowest: must be at most 0.5 \(the widest\), not 0.75"
    ):
        FlipCrop(widest=0.5)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("hue", [0.0, 0.3])
def test_crop_then_jitter_to_the_level(channels: int, hue: float) -> None:
    x = pictures(channels)
    cropped, augmented = FlipCrop(0.3)(x, KEYS), ImageNet(0.3, hue=hue)(x, KEYS)
    amounts, order = jitter_draws(
        uniforms(KEYS, BOX_DRAWS + 9)[:, BOX_DRAWS + 1 :], (0.4, 0.4, 0.4, hue)
    )
    for i in range(32):
        picture = image(cropped[i])
        for kind in order[i].tolist():
            if (
                kind != 3 or hue
            ):  # as ColorJitter leaves out what has no range: hue there and back loses levels
                picture = THEIRS[kind](picture, float(amounts[i, kind]))
        assert torch.equal(augmented[i], tensor(picture)), i
    assert torch.equal(ImageNet(0.3, jitter=0.0)(x, KEYS), cropped)


def test_the_matrix_is_another_model_of_the_same_draws() -> None:
    """Without hue both are the same four steps, but for levels that are rounded or cut on the way;
    with it they part."""
    x = pictures()[:27]
    off = [
        (
            ImageNet(hue=hue)(x, KEYS[:27]).int()
            - ImageNet(hue=hue, hue_model="matrix")(x, KEYS[:27]).int()
        )
        .abs()
        .double()
        for hue in (0.0, 0.5)
    ]
    assert float(off[0].mean()) < 4 and float(off[0].median()) <= 2 and float(off[1].mean()) > 8
