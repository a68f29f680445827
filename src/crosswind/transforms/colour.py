"""Jitter of brightness, contrast, saturation and hue of uint8 images, with parameters for every
sample.

There are two models of hue. `hue` turns the angle of the hue-saturation-value model, as Pillow and
torchvision do. `hue_rotation` turns the plane of colour differences of the YIQ model. It is linear,
so that a whole jitter is one 3 x 3 matrix and one offset a sample; it keeps luminance where the
other keeps value, and looks different.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.transforms import photometry
from crosswind.transforms.layout import in_groups, laid_out_as, on_device, parts, planes

JITTER = ("brightness", "contrast", "saturation", "hue")
JITTER_DRAWS = 2 * len(JITTER)  # uniform numbers that one sample's jitter takes
TURN = 65025.0  # 255 squared: saturation and a share of a sextant, each in 1/255
_LUMINANCE = np.array([0.299, 0.587, 0.114])


def jitter_draws(
    draws: Tensor, strengths: tuple[float, float, float, float]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The amounts of a jitter and their order, as torchvision's ColorJitter draws them: float64 and
    int64 [n, 4].

    `draws` [n, JITTER_DRAWS]: uniform numbers in (0, 1). `strengths`: of brightness, contrast,
    saturation (each factor uniform from 1 - strength, at least 0, to 1 + strength) and hue (a share
    of a full turn, uniform from -strength to strength, at most 0.5). The order holds places in
    `JITTER`; all 24 are as likely.
    """
    drawn = draws.cpu().numpy().astype(np.float64)
    strength = np.array(strengths)
    low = np.where(np.arange(4) < 3, np.maximum(0.0, 1.0 - strength), -strength)
    high = np.where(np.arange(4) < 3, 1.0 + strength, strength)
    levels = low + (high - low) * drawn[:, :4]
    return levels, np.argsort(drawn[:, 4:], axis=1, kind="stable")


def jitter(
    x: Tensor, amounts: NDArray[np.float64], order: NDArray[np.int64], hue: str = "exact"
) -> Tensor:
    """uint8 images [n, c, h, w] with brightness, contrast, saturation and hue changed by `amounts`
    [n, 4] in each sample's `order`.

    `hue` "exact": the four one after the other, each rounded to whole levels; torchvision's
    ColorJitter of Pillow images, to the level. A step that changes nothing (factor 1, hue 0) is
    passed over. "matrix": hue as `hue_rotation`; all four are composed into one matrix and one
    offset a sample and rounded once. Nothing is cut to 0 to 255 in between, and the mean that
    contrast keeps is that of the steps before it, not rounded. A grey image stays grey.
    """
    if hue == "matrix":
        return _linear(x, *_composed(amounts, order))
    idle = np.where(np.arange(4) < 3, 1.0, 0.0)
    turns = np.where(np.take_along_axis(amounts == idle, order, axis=1), -1, order)

    def change(step: int, group: int, images: Tensor, rows: NDArray[np.int64]) -> Tensor:
        return _ADJUSTED[group](images, torch.from_numpy(amounts[rows, group]))

    return in_groups(x, turns, change, none=-1)


def hue(x: Tensor, turn: Tensor) -> Tensor:
    """uint8 images with their hue turned by `turn` [n] of a full circle, -0.5 to 0.5: torchvision's
    adjust_hue of Pillow images.

    To the level: hue, saturation and value are whole numbers of 1/255 in between, as Pillow's. A
    grey image stays as it is.
    """
    if x.shape[1] == 1:
        return x.clone()
    x, like = planes(x), x
    out = torch.empty_like(x)
    hues, saturations = (on_device(table, x.device) for table in _hsv_tables())
    turned = on_device(turn, x.device).to(torch.float64) * 255
    shift = turned.trunc().to(torch.int32).view(-1, 1, 1, 1)
    # A channel is full within a sextant of its own angle, and gone from two sextants on; in 1/255
    # of a sextant.
    shape = on_device(
        torch.tensor([[765.0, 510.0, 1020.0], [-1.0, 1.0, 1.0], [510.0, -255.0, -255.0]]), x.device
    )
    sextants, sides, starts = shape.view(3, 1, 3, 1, 1)
    for chunk in parts(x, 2):
        red, green, blue = (x[chunk, channel : channel + 1] for channel in range(3))
        value = torch.maximum(torch.maximum(red, green), blue)
        spread = (value - torch.minimum(torch.minimum(red, green), blue)).to(torch.int32)
        # Which channel is the largest, the first of equals, as bytes 1 and 0: comparisons are many
        # times as slow.
        of_red = 1 - (value - red).clamp_(max=1)
        of_green = 1 - (value - green).clamp_(max=1)
        of_green.mul_(1 - of_red)
        of_blue = 1 - of_red - of_green
        red = red.to(torch.int16)
        green = green.to(torch.int16)
        blue = blue.to(torch.int16)
        ahead = (
            (green - blue)
            .mul_(of_red)
            .add_((blue - red).mul_(of_green))
            .add_((red - green).mul_(of_blue))
        )
        index = (
            of_blue.mul_(2)
            .add_(of_green)
            .to(torch.int32)
            .mul_(256)
            .add_(spread)
            .mul_(512)
            .add_(ahead)
            .add_(256)
        )
        angle = hues.index_select(0, index.view(-1)).view(index.shape)
        angle = (
            angle.to(torch.int32).add_(shift[chunk]).bitwise_and_(255).to(torch.float32).mul_(6.0)
        )
        vivid = saturations.index_select(0, spread.mul_(256).add_(value).view(-1)).view(
            spread.shape
        )
        # Whole numbers below 2^24 up to the division: exact; it is clear of halves by more than its
        # error (all cases tried).
        lost = (angle - sextants).abs_().mul_(sides).add_(starts).clamp_(0.0, 255.0)
        lost.mul_(vivid.to(torch.float32).neg_()).add_(TURN).mul_(value.to(torch.float32)).mul_(
            1.0 / TURN
        ).add_(0.5)
        out[chunk] = lost.to(torch.int32)
    return laid_out_as(out, like)


def hue_rotation(turn: NDArray[np.float64]) -> NDArray[np.float64]:
    """The matrices of red, green and blue [n, 3, 3] that turn the colour differences of YIQ by
    `turn` [n] of a full circle.

    Positive numbers turn red towards yellow, as with `hue`. Rows add up to 1: greys stay.
    """
    # (Y, I, Q) of (R, G, B), FCC 1953.
    yiq = np.array([[0.299, 0.587, 0.114], [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]])
    back = np.linalg.inv(yiq)
    # Each angle on its own: the last bit of a vectorised cosine may depend on where it stands.
    cosine = np.array([math.cos(2 * math.pi * value) for value in turn.tolist()])[:, None, None]
    sine = np.array([math.sin(2 * math.pi * value) for value in turn.tolist()])[:, None, None]
    still = np.outer(back[:, 0], yiq[0])
    same_down = np.outer(back[:, 1], yiq[1])
    same_right = np.outer(back[:, 2], yiq[2])
    same = same_down + same_right
    across_down = np.outer(back[:, 2], yiq[1])
    across_right = np.outer(back[:, 1], yiq[2])
    across = across_down - across_right
    return still + cosine * same - sine * across


def _composed(
    amounts: NDArray[np.float64], order: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A jitter as one map: matrices [n, 3, 3] of every pixel, and what the mean pixel [n, 3, 3]
    adds to all of them."""
    n = len(amounts)
    linear = np.tile(np.eye(3), (n, 1, 1))
    ground = np.zeros((n, 3, 3))
    grey = np.tile(_LUMINANCE, (3, 1))
    turned = hue_rotation(amounts[:, 3])
    for step in range(order.shape[1]):
        for kind in range(4):
            rows = np.flatnonzero(order[:, step] == kind)
            share = amounts[rows, kind][:, None, None]
            if kind == 0:
                linear[rows] *= share
                ground[rows] *= share
            elif kind == 1:
                # The mean of the picture so far is that of the first one by the same map.
                right = linear[rows] + ground[rows]
                mean = _product(np.broadcast_to(grey, (len(rows), 3, 3)), right)
                linear[rows] *= share
                ground[rows] = share * ground[rows] + (1 - share) * mean
            else:
                if kind == 2:
                    matrix = share * np.eye(3) + (1 - share) * grey
                else:
                    matrix = turned[rows]
                linear[rows], ground[rows] = (
                    _product(matrix, linear[rows]),
                    _product(matrix, ground[rows]),
                )
    return linear, ground


def _product(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    # Written out: the order of sums inside a product of matrices may depend on how many there are.
    first_term = left[:, :, 0:1] * right[:, 0:1]
    second_term = left[:, :, 1:2] * right[:, 1:2]
    third_term = left[:, :, 2:3] * right[:, 2:3]
    return first_term + second_term + third_term


def _linear(x: Tensor, matrices: NDArray[np.float64], grounds: NDArray[np.float64]) -> Tensor:
    """matrices @ pixel + grounds @ mean pixel for all pixels of uint8 images, cut and rounded to
    whole levels.

    Numbers are rounded to so many bits that every product and sum is exact in single precision: the
    same bits in any order.
    """
    channels = x.shape[1]
    if channels == 1:
        # Three equal channels stay equal under every map of a jitter: a row's sum is what becomes
        # of one.
        matrices = matrices[:, :1].sum(2, keepdims=True)
        grounds = grounds[:, :1].sum(2, keepdims=True)
    largest_of_matrix = np.abs(matrices).sum(2).max(1)
    largest_of_ground = np.abs(grounds).sum(2).max(1)
    reach = 255 * (largest_of_matrix + largest_of_ground) + 1
    step = np.ldexp(1.0, np.frexp(reach)[1] - 24)
    weights = np.rint(matrices / step[:, None, None]) * step[:, None, None]
    x, like = planes(x), x
    out = torch.empty_like(x)
    for chunk in parts(x):
        levels = x[chunk].to(torch.float32)
        # The sum of a line is exact in single precision, that of an image is not.
        means = (levels.sum(3).double().sum(2) / (x.shape[2] * x.shape[3])).cpu().numpy()
        offset = (
            sum(
                grounds[chunk, :, other_channel] * means[:, other_channel : other_channel + 1]
                for other_channel in range(channels)
            )
            + 0.5
        )
        offset = np.rint(offset / step[chunk, None]) * step[chunk, None]
        matrix = on_device(weights[chunk].astype(np.float32), x.device)[:, :, :, None, None]
        first = on_device(offset.astype(np.float32), x.device)[:, :, None, None]
        for channel in range(channels):
            mixed = torch.addcmul(first[:, channel], levels[:, 0], matrix[:, channel, 0])
            for other_channel in range(1, channels):
                mixed.addcmul_(levels[:, other_channel], matrix[:, channel, other_channel])
            out[chunk, channel] = mixed.clamp_(0, 255).to(torch.int32)
    return laid_out_as(out, like)


@cache
def _hsv_tables() -> tuple[Tensor, Tensor]:
    """Pillow's hue by largest channel, spread and lead of the next channel over the third; its
    saturation by spread and value."""
    spread = np.arange(256, dtype=np.float32)[:, None]
    lead = np.arange(-256, 256, dtype=np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        # In the precision of each of its steps: how far each of the two other channels lies below
        # the largest.
        third = np.where(lead >= 0, np.float32(1), (spread + lead) / spread)
        following = np.where(lead >= 0, (spread - lead) / spread, np.float32(1))
        sextants = [
            third - following,
            *(2.0 * i + third.astype(np.float64) - following for i in (1, 2)),
        ]
        angle = np.stack([np.float64(chunk.astype(np.float32)) for chunk in sextants])
        hues = np.fmod(angle / 6.0 + 1.0, 1.0).astype(np.float32) * 255.0
        saturation = (spread / np.arange(256, dtype=np.float32)).astype(np.float64) * 255.0
    possible = (np.abs(lead) <= spread) & (spread > 0)
    hues = np.where(possible, hues.astype(np.float64), 0.0).astype(np.uint8)
    saturation = np.where(spread <= np.arange(256), np.nan_to_num(saturation, posinf=0.0), 0.0)
    return torch.from_numpy(hues.reshape(-1)), torch.from_numpy(
        saturation.astype(np.uint8).reshape(-1)
    )


_ADJUSTED = (photometry.brightness, photometry.contrast, photometry.saturation, hue)
