"""Motion blur: images smeared along a line, each along its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.registry import register
from crosswind.transforms.corruptions.base import Corruption
from crosswind.transforms.draws import uniforms

# radius, sd along the line
MOTION = (
    ((10, 3.0), (15, 5.0), (15, 8.0), (15, 12.0), (20, 15.0)),
    ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5)),
)
ANGLE = 45.0
BITS = 22  # of a weight: 255 times their sum fits 31 bits
CHUNK = 1 << 19  # numbers at a time: what is added again and again stays in the cache


@register("motion-blur", kind="transform")
@dataclass(frozen=True)
class MotionBlur(Corruption):
    """Moved while the shutter was open: smeared along a line whose angle is uniform in [-45, 45] degrees, drawn for each sample.

    The line has 2 r + 1 places, r 10, 15, 15, 15 or 20 at severity 1 to 5, weighted by half a normal density whose standard
    deviation is 3, 5, 8, 12 or 15 pixels; with `constants` cifar 6, 6, 6, 8, 9 and 1, 1.5, 2, 2, 2.5. Edges are continued, and the
    angle is one of 65,536. ImageNet-C called ImageMagick; line, places and weights are as in the `imagecorruptions` package, which
    follows ImageMagick's source. Values are cut to whole grey levels downwards.
    Reference: Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR 2019.
    """

    def _corrupted(self, x: Tensor, keys: NDArray[np.uint64]) -> Tensor:
        radius, sd = self.constant(MOTION, x)
        angles = (uniforms(keys, 1)[:, 0].numpy().astype(np.float64) * 2 - 1) * ANGLE
        return smear(x, motion_paths(angles, radius), motion_weights(radius, sd))


def motion_weights(radius: int, sd: float) -> NDArray[np.float64]:
    """How much each of the 2 `radius` + 1 places along the line counts: half a normal density, sum 1: float64 [2 radius + 1]."""
    weights = np.exp(-(np.arange(2 * radius + 1) ** 2) / (2 * sd**2))
    return weights / weights.sum()


def motion_paths(angles: NDArray[np.float64], radius: int) -> NDArray[np.int64]:
    """Where along the line each picture is looked up: int64 [n, 2 radius + 1, 2], down and to the right of a pixel.

    `angles` [n], degrees. Place i is i pixels along the line, rounded to whole ones, halves downwards, as ImageMagick's MotionBlur
    does.
    """
    turned = np.deg2rad(np.asarray(angles, np.float64))
    along = np.arange(2 * radius + 1)[None, :, None]
    line = np.stack([np.sin(turned), np.cos(turned)], -1)[:, None, :]
    return np.ceil(along * line - 0.5).astype(np.int64)


def smear(x: Tensor, paths: NDArray[np.int64], weights: NDArray[np.float64], rounded: bool = False) -> Tensor:
    """The weighted sum of every picture's shifted copies: uint8, cut downwards or `rounded`, of `x` uint8 [n, c, h, w].

    `paths` int64 [n, k, 2] as from `motion_paths`; `weights` [k], at least 0 with sum 1, rounded to steps of 2**-22. Edges are
    continued. From the first copy on that is moved by a whole height or width, none counts, as in the `imagecorruptions` package.
    """
    n, channels, height, width = x.shape
    steps = np.rint(weights * 2.0**BITS).astype(np.int64)
    steps[0] += (1 << BITS) - steps.sum()  # a constant image stays as it is
    inside = (np.abs(paths) < (height, width)).all(2)  # and once outside, for ever
    used = inside * steps
    top, left = (int(side) for side in np.maximum(0, -paths[inside].min(0)))
    bottom, right = (int(side) for side in np.maximum(0, paths[inside].max(0)))
    rows = torch.arange(-top, height + bottom, device=x.device).clamp_(0, height - 1)
    columns = torch.arange(-left, width + right, device=x.device).clamp_(0, width - 1)
    line = len(columns)
    starts = np.where(inside, (paths[..., 0] + top) * line + paths[..., 1] + left, 0)
    out = torch.empty(n, channels, height, width, dtype=torch.uint8, device=x.device)
    add = _add_views if x.device.type == "cpu" else _add_gathered
    step = max(1, CHUNK // (channels * len(rows) * line))
    for start in range(0, n, step):
        part = slice(start, start + step)
        wide = x[part].contiguous().index_select(2, rows).index_select(3, columns).to(torch.int32)
        total = torch.zeros(out[part].shape, dtype=torch.int32, device=x.device)
        add(total, wide, starts[part], used[part])
        if rounded:
            total += 1 << (BITS - 1)
        out[part] = total.bitwise_right_shift_(BITS)
    return out


def _add_views(total: Tensor, wide: Tensor, starts: NDArray[np.int64], used: NDArray[np.int64]) -> None:
    # A shifted copy is a view: picture by picture, adding them takes a third of the time of looking up indices for all at once.
    n, channels, height, width = total.shape
    line, area = wide.shape[3], wide.shape[2] * wide.shape[3]
    for i in range(n):
        picture, first = total[i], i * channels * area
        for start, step in zip(starts[i].tolist(), used[i].tolist(), strict=True):
            if step:
                picture.add_(wide.as_strided((channels, height, width), (area, line, 1), first + start), alpha=step)


def _add_gathered(total: Tensor, wide: Tensor, starts: NDArray[np.int64], used: NDArray[np.int64]) -> None:
    # On an accelerator a call costs more than its work: one for each place along the line, whatever the number of pictures.
    n, channels, height, width = total.shape
    line = wide.shape[3]
    lines, sums = wide.view(n, channels, -1), total.view(n, channels, -1)
    pixels = (torch.arange(height, device=total.device)[:, None] * line + torch.arange(width, device=total.device)).view(1, 1, -1)
    begins = torch.from_numpy(starts).to(total.device)
    shares = torch.from_numpy(used.astype(np.int32)).to(total.device)
    for place in range(starts.shape[1]):
        where = (pixels + begins[:, place].view(n, 1, 1)).expand(n, channels, -1)
        sums.add_(lines.gather(2, where).mul_(shares[:, place].view(n, 1, 1)))
