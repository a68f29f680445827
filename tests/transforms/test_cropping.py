"""ImageNet's augmentation: the crop of `flip-crop`, then torchvision's jitter on Pillow images by the same draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.transforms.pictures import assert_same_bits, image, pictures, tensor
from torchvision.transforms import functional as theirs

from crosswind.core.errors import InputError
from crosswind.core.seeds import hash64
from crosswind.transforms.colour import jitter_draws
from crosswind.transforms.cropping import FlipCrop, ImageNet
from crosswind.transforms.draws import uniforms
from crosswind.transforms.geometry import CROP_DRAWS

KEYS = hash64(np.arange(32), 5)
THEIRS = (theirs.adjust_brightness, theirs.adjust_contrast, theirs.adjust_saturation, theirs.adjust_hue)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("hue", [0.0, 0.3])
def test_crop_then_jitter_to_the_level(channels: int, hue: float) -> None:
    x = pictures(channels)
    cropped, found = FlipCrop(0.3)(x, KEYS), ImageNet(0.3, hue=hue)(x, KEYS)
    amounts, order = jitter_draws(uniforms(KEYS, CROP_DRAWS + 9)[:, CROP_DRAWS + 1 :], (0.4, 0.4, 0.4, hue))
    for i in range(32):
        picture = image(cropped[i])
        for kind in order[i].tolist():
            if kind != 3 or hue:  # as ColorJitter leaves out what has no range: hue there and back loses levels
                picture = THEIRS[kind](picture, float(amounts[i, kind]))
        assert torch.equal(found[i], tensor(picture)), i
    assert torch.equal(ImageNet(0.3, jitter=0.0)(x, KEYS), cropped)


def test_the_matrix_is_another_model_of_the_same_draws() -> None:
    """Without hue both are the same four steps, but for levels that are rounded or cut on the way; with it they part."""
    x = pictures()[:27]
    exact, matrix = (ImageNet(hue_model=model)(x, KEYS[:27]) for model in ("exact", "matrix"))
    off = (exact.int() - matrix.int()).abs().double()
    assert float(off.mean()) < 4 and float(off.median()) <= 2
    exact, matrix = (ImageNet(hue=0.5, hue_model=model)(x, KEYS[:27]) for model in ("exact", "matrix"))
    assert float((exact.int() - matrix.int()).abs().double().mean()) > 8
    with pytest.raises(InputError, match="imagenet.hue"):
        ImageNet(hue=0.6)


@pytest.mark.parametrize("model", ["exact", "matrix"])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_same_bits_alone_in_a_batch_and_by_layout(channels: int, model: str) -> None:
    policy = ImageNet(hue=0.2, hue_model=model)
    assert_same_bits(lambda x, rows: policy(x, KEYS[rows]), pictures(channels))
