"""What becomes of the values of pixels: brightness, contrast, saturation; a batch at a time, with parameters for every sample.

Images are float [n, c, h, w] in [0, 1], c 1 or 3, and factors float [n]: 1 leaves an image as it is, 0 takes all of what the name
says from it. The definitions are torchvision's, on floats.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["ADJUSTMENTS", "adjust_brightness", "adjust_contrast", "adjust_saturation", "grey", "jitter", "jitter_parameters"]

ADJUSTMENTS = ("brightness", "contrast", "saturation")
_GREY = (0.2989, 0.587, 0.114)  # ITU-R 601-2, in torchvision's digits


def grey(x: Tensor) -> Tensor:
    """The luminance [n, 1, h, w] of images."""
    if x.shape[1] == 1:
        return x
    red, green, blue = x[:, 0:1], x[:, 1:2], x[:, 2:3]
    return (red * _GREY[0]).add_(green, alpha=_GREY[1]).add_(blue, alpha=_GREY[2])


def adjust_brightness(x: Tensor, factor: Tensor) -> Tensor:
    """Between black (0) and the image (1), and beyond."""
    return _blend(x, torch.zeros_like(x[:, :1]), factor)


def adjust_contrast(x: Tensor, factor: Tensor) -> Tensor:
    """Between the image's mean luminance everywhere (0) and the image (1), and beyond."""
    return _blend(x, grey(x).mean((1, 2, 3), keepdim=True), factor)


def adjust_saturation(x: Tensor, factor: Tensor) -> Tensor:
    """Between the image's luminance (0) and the image (1), and beyond; a grey image stays as it is."""
    return x if x.shape[1] == 1 else _blend(x, grey(x), factor)


def jitter_parameters(draws: Tensor, strengths: tuple[float, float, float]) -> tuple[Tensor, Tensor]:
    """Factors [n, 3] of brightness, contrast and saturation, each uniform in [1 - strength, 1 + strength], and their order.

    `draws` [n, 6]: uniform numbers in (0, 1). The order, int64 [n, 3], holds places in `ADJUSTMENTS`: each of the six is as likely.
    """
    strength = torch.tensor(strengths, dtype=draws.dtype, device=draws.device)
    low = (1 - strength).clamp(min=0.0)
    return low + (1 + strength - low) * draws[:, :3], draws[:, 3:].argsort(stable=True, dim=1)


def jitter(x: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """The three adjustments of every image by its `factors` [n, 3], in its `order` [n, 3]."""
    factors = factors.to(x.dtype)
    layout = torch.channels_last if x.is_contiguous(memory_format=torch.channels_last) else torch.contiguous_format
    x = x.contiguous()  # what is blended with has one channel: plane by plane is several times as fast
    coloured = x.shape[1] == 3
    for turn in range(3):
        which = order[:, turn]
        kind = which.view(-1, 1, 1, 1)
        light = grey(x)
        # All three are one blend with another picture; samples differ in which, so one pass serves every order.
        other = torch.where(kind == 2, light, torch.where(kind == 1, light.mean((1, 2, 3), keepdim=True), 0.0))
        factor = factors.gather(1, which[:, None])[:, 0]
        if not coloured:
            factor = torch.where(which == 2, 1.0, factor)
        x = _blend(x, other, factor)
    return x.contiguous(memory_format=layout)


def _blend(x: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    share = factor.to(x.dtype).view(-1, 1, 1, 1)
    return torch.lerp(other, x, share).clamp_(0.0, 1.0)
