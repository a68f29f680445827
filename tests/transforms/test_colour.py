"""Hue and jitter of uint8 images: torchvision's on Pillow images to the level; hue as a matrix
against its own definition."""

from __future__ import annotations

import colorsys
from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image
from tests.transforms.pictures import image, pictures, tensor
from torchvision.transforms import functional as theirs

from crosswind.core.seeds import hash64
from crosswind.transforms import colour
from crosswind.transforms.draws import uniforms

THEIRS = (
    theirs.adjust_brightness,
    theirs.adjust_contrast,
    theirs.adjust_saturation,
    theirs.adjust_hue,
)
STRENGTHS = (0.4, 0.4, 0.4, 0.3)


def drawn(
    n: int = 32, strengths: tuple[float, float, float, float] = STRENGTHS
) -> tuple[np.ndarray, np.ndarray]:
    return colour.jitter_draws(uniforms(hash64(np.arange(n), 7), colour.JITTER_DRAWS), strengths)


def colours(red: range, step: int) -> torch.Tensor:
    """All colours with these reds and every `step`th green and blue: uint8 [n, 3, h, w], one image
    a red."""
    rest = torch.arange(0, 256, step, dtype=torch.uint8)
    green, blue = torch.meshgrid(rest, rest, indexing="ij")
    return torch.stack([torch.stack([torch.full_like(green, level), green, blue]) for level in red])


def agree_on(x: torch.Tensor) -> None:
    turns = torch.linspace(-0.5, 0.5, len(x), dtype=torch.float64)
    found = colour.hue(x, turns)
    for i, turn in enumerate(turns.tolist()):
        assert torch.equal(found[i], tensor(theirs.adjust_hue(image(x[i]), turn))), turn


def test_hue_is_pillows_to_the_level() -> None:
    agree_on(colours(range(0, 256, 5), 5))
    agree_on(pictures())


@pytest.mark.slow
def test_hue_is_pillows_for_every_colour() -> None:
    for start in range(0, 256, 16):
        agree_on(colours(range(start, start + 16), 1))


@pytest.mark.slow
def test_every_hue_saturation_and_value_comes_back_as_pillows() -> None:
    """The step from hue to red, green and blue, at all 2^24 places: single precision is clear of
    halves everywhere."""
    saturation, value = np.meshgrid(np.arange(256), np.arange(256), indexing="ij")
    for hue in range(256):
        given = np.stack([np.full_like(saturation, hue), saturation, value], axis=2).astype(
            np.uint8
        )
        wanted = np.asarray(Image.frombytes("HSV", (256, 256), given.tobytes()).convert("RGB"))
        for channel, (sextant, side) in enumerate(((765, -1), (510, 1), (1020, 1))):
            lost = np.clip(side * abs(6 * hue - sextant) + (-255 if side > 0 else 510), 0, 255)
            whole = (value * (65025 - saturation * lost)).astype(np.float32)
            assert np.array_equal(
                np.floor(whole * np.float32(1 / 65025) + np.float32(0.5)), wanted[:, :, channel]
            )


@pytest.mark.parametrize("channels", [1, 3])
def test_jitter_is_torchvisions_on_pillow_images_to_the_level(channels: int) -> None:
    """All four in each sample's order; 32 samples take most of the 24 orders."""
    x, (amounts, order) = pictures(channels), drawn()
    found = colour.jitter(x, amounts, order)
    assert len({tuple(row) for row in order.tolist()}) > 12
    for i in range(len(x)):
        picture = image(x[i])
        for kind in order[i].tolist():
            picture = THEIRS[kind](picture, float(amounts[i, kind]))
        assert torch.equal(found[i], tensor(picture)), i
    assert float((found != x).double().mean()) > 0.5


@pytest.mark.parametrize("channels", [1, 3])
def test_jitter_as_a_matrix_is_the_four_steps_in_floats(channels: int) -> None:
    """Against the steps one by one in double precision, cut at the end: half a level, and 0.02 for
    weights of 24 bits."""
    x, (amounts, order) = pictures(channels), drawn()
    found = colour.jitter(x, amounts, order, "matrix")
    light = torch.tensor([0.299, 0.587, 0.114], dtype=torch.float64)
    for i in range(len(x)):
        y = x[i].double().expand(3, -1, -1)
        for kind in order[i].tolist():
            amount, grey = amounts[i, kind], torch.einsum("c,chw->hw", light, y)
            if kind == 3:
                y = torch.einsum(
                    "dc,chw->dhw", torch.from_numpy(colour.hue_rotation(amounts[i, 3:])[0]), y
                )
            else:
                y = amount * y + (1 - amount) * (0.0, grey.mean(), grey)[kind]
        assert float((found[i] - y[:channels].clamp(0, 255)).abs().max()) < 0.52, i


def test_hue_as_a_matrix_keeps_luminance_and_turns_as_hue_does() -> None:
    """Greys stay, a full turn is nothing; luminance within rounding; red goes towards yellow as in
    the other model."""
    matrices = colour.hue_rotation(np.array([0.0, 1.0, 0.25, -0.4]))
    assert np.allclose(matrices[:2], np.eye(3), atol=1e-3)
    assert np.allclose(matrices.sum(2), 1, atol=1e-3)
    assert np.allclose(
        np.array([0.299, 0.587, 0.114]) @ matrices, [0.299, 0.587, 0.114], atol=1e-12
    )
    turned = matrices[2] @ [200, 60, 60]
    wanted = colorsys.hsv_to_rgb(0.25, 0.7, 200 / 255)
    assert turned[1] > turned[2] and wanted[1] > wanted[2]
    grey = torch.full((1, 3, 4, 4), 77, dtype=torch.uint8)
    assert torch.equal(colour.hue(grey, torch.tensor([0.3])), grey)
    still, order = np.array([[1.0, 1.0, 1.0, 0.3]]), np.arange(4)[None]
    assert torch.equal(colour.jitter(grey, still, order, "matrix"), grey)


def test_draws_are_uniform_and_in_every_order() -> None:
    """48,000 samples: each of 24 orders 2,000 times, sd 44; factors on [0.6, 1.4] have sd 0.2309; 1
    - 1.2 is cut to 0."""
    amounts, order = drawn(48_000, (0.4, 0.2, 1.2, 0.1))
    counts = Counter(map(tuple, order.tolist()))
    assert len(counts) == 24 and max(abs(count - 2_000) for count in counts.values()) < 220
    assert amounts.min(0) == pytest.approx([0.6, 0.8, 0.0, -0.1], abs=1e-3)
    assert amounts.max(0) == pytest.approx([1.4, 1.2, 2.2, 0.1], abs=1e-3)
    assert amounts[:, 0].std() == pytest.approx(0.2309, abs=0.003)
    assert abs(np.corrcoef(amounts.T)[0, 1]) < 0.02
