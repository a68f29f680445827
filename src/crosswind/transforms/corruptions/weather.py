"""Fog, frost and snow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.seeds import hash64
from crosswind.transforms.corruptions.base import Corruption
from crosswind.transforms.corruptions.blur import motion_paths, motion_weights, smear
from crosswind.transforms.corruptions.filters import ONE, stretched
from crosswind.transforms.corruptions.frost_textures import image_files, textures
from crosswind.transforms.draws import bits16, normal_quantiles, uniforms
from crosswind.transforms.layout import on_device, parts, put_cut

# How much fog, and by what its roughness falls from one scale to the next.
FOG = (
    ((1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4)),
    ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75)),
)
# Shares of the image and of the ice, in twentieths: a sum of them is a whole number, and is cut
# where the exact one would be.
FROST = (
    ((20, 8), (16, 12), (14, 14), (13, 14), (12, 15)),
    ((20, 4), (20, 6), (18, 8), (17, 8), (15, 9)),
)
# Mean and sd of the noise, its zoom, what is snow of it; radius and sd of the smear; the image's
# share, in twentieths.
SNOW = (
    (
        (0.1, 0.3, 3.0, 0.5, 10, 4.0, 16),
        (0.2, 0.3, 2.0, 0.5, 12, 4.0, 14),
        (0.55, 0.3, 4.0, 0.9, 12, 8.0, 14),
        (0.55, 0.3, 4.5, 0.85, 12, 8.0, 13),
        (0.55, 0.3, 2.5, 0.85, 12, 12.0, 11),
    ),
    (
        (0.1, 0.2, 1.0, 0.6, 8, 3.0, 19),
        (0.1, 0.2, 1.0, 0.5, 10, 4.0, 18),
        (0.15, 0.3, 1.75, 0.55, 10, 4.0, 18),
        (0.25, 0.3, 2.25, 0.6, 12, 6.0, 17),
        (0.3, 0.3, 1.25, 0.65, 14, 12.0, 16),
    ),
)


@register("fog", kind="transform")
@dataclass(frozen=True)
class Fog(Corruption):
    """A plasma fractal added to every channel, then all scaled so that the brightest value stays
    where it was.

    1.5, 2, 2.5, 2.5 or 3 times the fractal, whose roughness falls from scale to scale by the square
    of 2, 2, 1.7, 1.5 or 1.4 at severity 1 to 5 (`constants` imagenet), or 0.2, 0.5, 0.75, 1, 1.5
    times and 3, 3, 2.5, 2, 1.75 (cifar). The fractal is square, its side the next power of two (the
    original always took 256 or 32), and its upper left part is used. Values are cut to whole grey
    levels downwards.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019; Fournier, Fussell and Carpenter, Computer rendering of
    stochastic models, CACM 1982 (midpoint displacement).
    """

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        height, width = x.shape[2:]
        amount, decay = self.constant(FOG, x)
        side = 1 << (max(height, width) - 1).bit_length()
        top = x.amax((1, 2, 3), keepdim=True).double()
        # A grey level and a constant for each image: numbers of an image come from that image
        # alone.
        picture_share = (top / (top + 255 * amount)).float()
        out = torch.empty_like(x)
        for chunk in parts(x[:, :1]):
            draws = uniforms(keys[chunk], side * side - 1, x.device)
            fog = plasma(draws, side, decay)[:, None, :height, :width]
            # One operation at a time, each of them rounded: a fused one would round otherwise at
            # the end of a vector register.
            fog = fog.mul(255 * amount)
            levels = x[chunk].to(torch.float32).add_(fog).mul_(picture_share[chunk])
            put_cut(levels, out[chunk])
        return out


def plasma(draws: Tensor, side: int, decay: float) -> Tensor:
    """Square height maps by the diamond-square algorithm, each from 0 to 1: float32 [n, side,
    side].

    `draws`: uniform numbers in (0, 1), float32 [n, side * side - 1]. `side`: a power of two. The
    map goes round at its edges. At each scale, the middle of four points is their mean plus noise:
    first of squares, then of diamonds, above and on the left of those middles. Noise is uniform,
    and `decay` squared times smaller from scale to scale.
    """
    n = len(draws)
    noise = (draws * 2).sub_(1)
    grid = torch.zeros(n, 1, 1, device=draws.device)
    used = 0
    rough = 1.0
    cells = 1
    while cells < side:
        count = cells * cells
        middle, above, left = (
            noise[:, used + k * count : used + (k + 1) * count].reshape(n, cells, cells).mul(rough)
            for k in range(3)
        )
        used += 3 * count
        pair = grid + grid.roll(-1, 1)
        middle += (pair + pair.roll(-1, 2)).mul_(0.25)
        above += (middle + middle.roll(1, 1)).add_(grid).add_(grid.roll(-1, 2)).mul_(0.25)
        left += (middle + middle.roll(1, 2)).add_(pair).mul_(0.25)
        finer = torch.empty(n, cells, 2, cells, 2, device=draws.device)
        finer[:, :, 0, :, 0], finer[:, :, 0, :, 1] = grid, above
        finer[:, :, 1, :, 0], finer[:, :, 1, :, 1] = left, middle
        cells *= 2
        grid = finer.view(n, cells, cells)
        rough /= decay * decay
    low = grid.amin((1, 2), keepdim=True)
    high = grid.amax((1, 2), keepdim=True)
    return grid.sub_(low).div_((high - low).clamp_(min=1e-30))


@register("frost", kind="transform")
@dataclass(frozen=True)
class Frost(Corruption):
    """A weighted sum of the image and a random piece of a random picture of ice.

    The image counts 1, 0.8, 0.7, 0.65 or 0.6 and the ice 0.4, 0.6, 0.7, 0.7 or 0.75 at severity 1
    to 5 (`constants` imagenet), or 1, 1, 0.9, 0.85, 0.75 and 0.2, 0.3, 0.4, 0.4, 0.45 (cifar, where
    of the ice each fifth pixel is taken both ways). Values are cut at white and to whole grey
    levels downwards, as in ImageNet-C.
    Deviation: procedural ice, not the photographs of ImageNet-C: five pictures of needles, made by
    rule, whose channels have their means and spreads. `pictures` names a folder of your own (of
    ImageNet-C's, leave out frost6, which the original never drew). A picture that is smaller than
    the images is enlarged.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    pictures: str | None = knob(
        None, doc="a folder of pictures of ice (PNG, JPEG), null: ice made by rule"
    )

    material: ClassVar[str] = "procedural ice, not the photographs of ImageNet-C"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pictures is not None:
            image_files(self.pictures, f"{self.title}.pictures")

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        n, channels, height, width = x.shape
        image, ice = self.constant(FROST, x)
        files = None
        if self.pictures is not None:
            files = image_files(self.pictures, f"{self.title}.pictures")
        every = 5 if self._is_small(x) else 1
        sheets = textures(files, every, height, width)
        pieces = torch.empty(n, 3, height, width, dtype=torch.uint8)
        for piece, (texture_number, down, right) in zip(
            pieces, bits16(hash64(keys, 1), 3).tolist(), strict=True
        ):
            sheet = sheets[texture_number * len(sheets) >> 16]
            top = down * (sheet.shape[1] - height + 1) >> 16
            left = right * (sheet.shape[2] - width + 1) >> 16
            piece[:] = sheet[:, top : top + height, left : left + width]
        pieces = on_device(pieces, x.device)
        out = torch.empty_like(x)
        for chunk in parts(x[:, :1]):
            added = pieces[chunk].to(torch.int32)
            total = x[chunk].to(torch.int32)
            if channels == 1:
                # The original's grey, in ten thousandths.
                red = added[:, :1] * 2989
                green = added[:, 1:2] * 5870
                grey = red + green + added[:, 2:] * 1140
                out[chunk] = (
                    total.mul_(image * 10000)
                    .add_(grey, alpha=ice)
                    .div_(200000, rounding_mode="floor")
                    .clamp_(max=255)
                )
            else:
                total.mul_(image).add_(added, alpha=ice).clamp_(max=255 * 20)
                out[chunk] = total.mul_(52429).bitwise_right_shift_(
                    20
                )  # a twentieth, exact below 43,690
        return out


@register("snow", kind="transform")
@dataclass(frozen=True)
class Snow(Corruption):
    """Flakes that fell along a slanted line, on an image that is whitened a little.

    Normal noise is magnified, cleared below a threshold, and smeared along a line of a random
    angle, at most 45 degrees from upright. The image is mixed with the brighter of itself and 1.5
    times its luminance plus 0.5; the flakes, and the flakes turned by 180 degrees, are added. Mean,
    sd, magnification, threshold, radius and sd of the smear, and the image's share are, at severity
    1 to 5 (`constants` imagenet): (.1, .3, 3, .5, 10, 4, .8), (.2, .3, 2, .5, 12, 4, .7), (.55, .3,
    4, .9, 12, 8, .7), (.55, .3, 4.5, .85, 12, 8, .65), (.55, .3, 2.5, .85, 12, 12, .55); cifar:
    (.1, .2, 1, .6, 8, 3, .95), (.1, .2, 1, .5, 10, 4, .9), (.15, .3, 1.75, .55, 10, 4, .9), (.25,
    .3, 2.25, .6, 12, 6, .85), (.3, .3, 1.25, .65, 14, 12, .8). As in the original, flakes are cut
    to grey levels before they are smeared and rounded after. The PyPI package imagecorruptions does
    not cut them, and takes the upper left of the magnified noise, not the middle.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        n, channels, height, width = x.shape
        *_, radius, spread, share = self.constant(SNOW, x)
        angles = -135 + 90 * (bits16(hash64(keys, 1), 1).numpy()[:, 0] + 0.5) / 65536
        paths = motion_paths(angles, radius)
        weights = motion_weights(radius, spread)
        out = torch.empty_like(x)
        for chunk in parts(x[:, :1]):
            flakes = self._flakes(x[chunk], keys[chunk])
            flakes = smear(flakes[:, None], paths[chunk], weights, rounded=True).to(torch.int32)
            flakes += flakes.flip(2, 3)
            # All in parts of 40,000 to a level: luminance in thousandths, half of it, and
            # twentieths of both.
            pixels = x[chunk].to(torch.int32)
            if channels == 3:
                red = pixels[:, :1] * 897
                green = pixels[:, 1:2] * 1761
                bright = red + green + pixels[:, 2:] * 342
            else:
                bright = pixels * 3000
            pixels *= 2000
            white = torch.maximum(pixels, bright.add_(255_000)).mul_(20 - share)
            total = (
                pixels.mul_(share).add_(white).add_(flakes, alpha=40_000).clamp_(max=255 * 40_000)
            )
            # Below 2 to the 24th floats are exact, and a quotient that is no whole number keeps its
            # distance from one.
            put_cut(total.to(torch.float32).div_(40_000), out[chunk])
        return out

    def _flakes(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        """The flakes before they are smeared: uint8 [n, h, w]."""
        n, _, height, width = x.shape
        mean, sd, zoom, threshold, *_ = self.constant(SNOW, x)
        rows = math.ceil(height / zoom)
        columns = math.ceil(width / zoom)
        # In 1/256 of a grey level: with the weights below 2 to the 53rd.
        scale = sd * 255 * 256
        normal = on_device(normal_quantiles(scale), x.device)
        drawn = bits16(hash64(keys, 2), rows * columns, x.device).view(-1)
        noise = normal.index_select(0, drawn).add_(round(mean * 255 * 256))
        field = noise.view(n, rows, columns)
        size = (height, width)
        layer = stretched(field, size, zoom).mul_(1 / (256 * ONE))
        flakes = torch.empty(layer.shape, dtype=torch.uint8, device=x.device)
        put_cut(layer.mul_(layer >= threshold * 255).clamp_(0, 255), flakes)
        return flakes
