"""Erased boxes: torchvision's law, and squares that are cut at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torchvision.transforms import RandomErasing

from crosswind.core.errors import InputError
from crosswind.core.seeds import hash64
from crosswind.transforms.cropping import BOX_DRAWS, ratios
from crosswind.transforms.draws import uniforms
from crosswind.transforms.erasing import Cutout, Erase, centred_boxes, erase_boxes, painted


def drawn(n: int, count: int = BOX_DRAWS) -> torch.Tensor:
    return uniforms(hash64(np.arange(n), 3), count)


def test_boxes_follow_torchvisions_law() -> None:
    """4,000 boxes of each: means of area, shape and corner within 5 errors; every box inside the
    image and smaller than it."""
    n, size, scale, ratio = 4_000, (32, 40), (0.02, 0.33), (1 / 3, 10 / 3)
    ours = erase_boxes(drawn(n), size, scale, ratio).numpy()
    torch.manual_seed(0)
    image = torch.zeros(3, *size)
    theirs = np.array([RandomErasing.get_params(image, scale, ratio, [0.0])[:4] for _ in range(n)])
    told = []
    for top, left, h, w in (ours.T, theirs.T):
        assert (h < size[0]).all() and (w < size[1]).all() and (h > 0).all() and (w > 0).all()
        assert (
            (top >= 0).all()
            and (left >= 0).all()
            and (top + h <= size[0]).all()
            and (left + w <= size[1]).all()
        )
        told.append(
            np.stack(
                [h * w / 1280, np.log(h / w), top / size[0], left / size[1], (h * w / 1280) ** 2]
            )
        )
    error = np.sqrt(told[0].var(1) / n + told[1].var(1) / n)
    assert (np.abs(told[0].mean(1) - told[1].mean(1)) < 5 * error).all()


def test_boxes_that_never_fit_are_none() -> None:
    """The whole area of a square image with shape 1 is the image itself, which is not smaller than
    itself."""
    found = erase_boxes(drawn(50), (20, 20), (1.0, 1.0), (1.0, 1.0))
    assert (found[:, 2:] == 0).all()
    x = torch.ones(50, 1, 20, 20, dtype=torch.uint8)
    assert torch.equal(painted(x, found, 9), x)


def test_ratios_are_uniform_in_the_logarithm() -> None:
    found = torch.log(ratios(drawn(5000, 10), (0.25, 4.0)))
    assert (
        abs(float(found.mean())) < 0.02
        and abs(float(found.std()) - 2 * math.log(4) / math.sqrt(12)) < 0.01
    )
    assert math.isclose(float(found.max()), math.log(4), abs_tol=1e-3)


def test_squares_lie_about_any_pixel() -> None:
    """Side 4 in 6 x 9: the centre is uniform over 54 pixels; from 2 before it to 1 after, so 2 x 2
    at the upper left."""
    found = centred_boxes(drawn(30_000, 2), (6, 9), 4)
    expected = set()
    for y in range(6):
        for x in range(9):
            top, left = max(0, y - 2), max(0, x - 2)
            expected.add((top, left, min(6, y + 2) - top, min(9, x + 2) - left))
    assert {tuple(row) for row in found.tolist()} == expected
    corner = (found == torch.tensor([0, 0, 2, 2])).all(1).double().mean()
    assert abs(float(corner) - 1 / 54) < 5 * math.sqrt(1 / 54 / 30_000)


def test_painted_by_hand() -> None:
    x = torch.zeros(2, 3, 3, 4, dtype=torch.uint8)
    found = painted(x, torch.tensor([[1, 2, 2, 1], [0, 0, 1, 4]]), 8)
    assert found[0, 1].tolist() == [[0, 0, 0, 0], [0, 0, 8, 0], [0, 0, 8, 0]]
    assert found[1, 2].tolist() == [[8, 8, 8, 8], [0, 0, 0, 0], [0, 0, 0, 0]] and not x.any()


def test_erasing_paints_one_box_of_the_given_share() -> None:
    x, keys = torch.full((2000, 1, 40, 40), 255, dtype=torch.uint8), hash64(np.arange(2000), 2)
    share = (Erase(largest=0.33)(x, keys) == 0).double().mean((1, 2, 3))
    assert (
        float(share.min()) > 0.015
        and float(share.max()) < 0.345
        and abs(float(share.mean()) - 0.175) < 0.01
    )
    fixed = (Erase(largest=0.2, draw="fixed")(x, keys) == 0).double().mean((1, 2, 3))
    assert abs(float(fixed.mean()) - 0.2) < 0.002 and float(fixed.std()) < 0.01
    half = (Erase(probability=0.5, fill=1)(x, keys) == 1).flatten(1).any(1).double().mean()
    assert abs(float(half) - 0.5) < 0.06
    assert not (Erase(probability=0.0)(x[:9], keys[:9]) == 0).any()
    with pytest.raises(
        InputError, match=r"erase.smallest: must be at most 0.1 \(the largest\), not 0.2"
    ):
        Erase(largest=0.1, smallest=0.2)
    inner = (Cutout(share=0.5)(x, keys) == 0).sum((1, 2, 3))
    assert (
        int(inner.max()) == 400 and 100 <= int(inner.min()) < 130
    )  # 20 x 20, or about a quarter of it in a corner
