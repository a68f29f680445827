"""The nineteen corruptions of ImageNet-C, a batch at a time, against the `imagecorruptions-imaug`
package, an image at a time.

    .venv/bin/python -m benchmarks.speed.corruptions [--side 64] [--rounds 7] [--batch 32] [--only
    glass-blur,zoom-blur] [--no-kornia]

Both sides take the same photographs (uint8, cut from scikit-learn's two) at the package's only
constants, those for 224 pixels, all five severities in turn; they alternate in one process on one
thread. Printed are CPU milliseconds an image, and package / ours: median and range over the rounds
of the five severities together, then the median of the severity that comes off worst.

The package's glass blur is compiled by numba; in the original's plain Python it is the line
`glass-blur (plain)`. kornia 0.9 is shown where it has the operation, at parameters near those of
the severities: floats in and out, the conversion not counted, and sizes of kernels and the choice
whether to act drawn once a batch. Its motion blur has no falling weights, its snow no flakes.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import imagecorruptions
import numpy as np
import torch
from sklearn.datasets import load_sample_images

from crosswind.core.registry import listing, load
from crosswind.core.seeds import hash64
from crosswind.training.memory import keep_freed_memory

PLAIN = "glass-blur (plain)"
GOALS = {
    "gaussian-noise": 4,
    "shot-noise": 0.7,
    "impulse-noise": 0.7,
    "speckle-noise": 0.7,
    "defocus-blur": 0.7,
    "glass-blur": 0.7,
    PLAIN: 50,
    "motion-blur": 5,
    "zoom-blur": 5,
    "gaussian-blur": 4,
    "snow": 5,
    "frost": 0.7,
    "fog": 5,
    "brightness": 20,
    "contrast": 5,
    "saturate": 20,
    "spatter": 0.7,
    "elastic": 5,
    "pixelate": 0.7,
    "jpeg": 0.7,
}
"""At 64 pixels; all 19, and the original's own glass blur."""
THEIRS = {PLAIN: "glass_blur", "elastic": "elastic_transform", "jpeg": "jpeg_compression"}
SEVERITIES = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Found:
    """CPU milliseconds an image: ours and theirs [rounds][severity], and kornia's median, where it
    has the operation."""

    ours: list[list[float]]
    theirs: list[list[float]]
    kornia: float | None

    def ratio(self) -> tuple[float, float, float]:
        """Median, least and largest ratio of the rounds."""
        found = [sum(slow) / sum(fast) for slow, fast in zip(self.theirs, self.ours, strict=True)]
        return statistics.median(found), min(found), max(found)

    def worst(self) -> float:
        """The median ratio of the severity at which it is least."""
        rounds = list(zip(self.theirs, self.ours, strict=True))
        return min(
            statistics.median(slow[at] / fast[at] for slow, fast in rounds)
            for at in range(len(SEVERITIES))
        )


def photographs(side: int, n: int) -> np.ndarray:
    """uint8 [n, side, side, 3], cut from the two photographs at places along a grid."""
    whole = load_sample_images().images
    high, wide = whole[0].shape[0] - side, whole[0].shape[1] - side
    return np.stack(
        [whole[i % 2][high * i // n :, wide * (i * 7 % n) // n :][:side, :side] for i in range(n)]
    )


def milliseconds(action: Callable[[], object], images: int) -> float:
    """CPU time of the process, an image."""
    started = time.process_time()
    action()
    return (time.process_time() - started) / images * 1e3


def package(name: str) -> Callable[[np.ndarray, int], object]:
    """The package's function of an image and a severity."""
    called = THEIRS.get(name, name.replace("-", "_"))
    if name != PLAIN:
        return lambda image, severity: imagecorruptions.corrupt(image, severity, called)
    compiled = imagecorruptions.corruptions._shuffle_pixels_njit_glass_blur

    def plain(image: np.ndarray, severity: int) -> object:
        imagecorruptions.corruptions._shuffle_pixels_njit_glass_blur = compiled.py_func
        try:
            return imagecorruptions.corrupt(image, severity, called, seed=severity)
        finally:
            imagecorruptions.corruptions._shuffle_pixels_njit_glass_blur = compiled

    return plain


def kornias(name: str, severity: int) -> Any:
    """kornia's operation at parameters near those of a severity, or None."""
    import kornia.augmentation as known

    at = severity - 1
    if name == "gaussian-noise":
        return known.RandomGaussianNoise(std=(0.08, 0.12, 0.18, 0.26, 0.38)[at], p=1.0)
    if name == "impulse-noise":
        amount = (0.03, 0.06, 0.09, 0.17, 0.27)[at]
        return known.RandomSaltAndPepperNoise(
            amount=(amount, amount), salt_vs_pepper=(0.5, 0.5), p=1.0
        )
    if name == "gaussian-blur":
        sd = (1, 2, 3, 4, 6)[at]
        return known.RandomGaussianBlur(
            (8 * sd + 1, 8 * sd + 1), (float(sd), float(sd)), border_type="replicate", p=1.0
        )
    if name == "motion-blur":
        return known.RandomMotionBlur(
            2 * (10, 15, 15, 15, 20)[at] + 1, 45.0, 1.0, border_type="replicate", p=1.0
        )
    if name == "brightness":
        amount = 1 + (0.1, 0.2, 0.3, 0.4, 0.5)[at]
        return known.RandomBrightness((amount, amount))
    if name == "contrast":
        amount = (0.4, 0.3, 0.2, 0.1, 0.05)[at]
        return known.RandomContrast((amount, amount))
    if name == "saturate":
        amount = (0.3, 0.1, 2.0, 5.0, 20.0)[at]
        return known.RandomSaturation((amount, amount))
    if name == "snow":
        return known.RandomSnow()
    if name == "elastic":
        return known.RandomElasticTransform(p=1.0)
    if name == "jpeg":
        quality = (25, 18, 15, 10, 7)[at]
        return known.RandomJPEG((quality, quality))
    return None


def measured(name: str, side: int, rounds: int, batch: int, with_kornia: bool) -> Found:
    """Both sides alternately, each severity of each round."""
    kind, theirs = load("transforms", name.split()[0]), package(name)
    pixels = photographs(side, batch)
    x, keys = torch.from_numpy(pixels).permute(0, 3, 1, 2), hash64(np.arange(batch), 1)
    # About as much time for both sides.
    few = min(batch, 1 if name == PLAIN else max(1, round(4 * (64 / side) ** 2)))
    fast: list[list[float]] = []
    slow: list[list[float]] = []
    for turn in range(rounds + 1):  # the first fills tables and compiles, and is not counted
        fast.append([])
        slow.append([])
        for severity in SEVERITIES:
            ours = kind(severity=severity, constants="imagenet")
            fast[-1].append(milliseconds(lambda ours=ours: ours(x, keys), batch))
            chosen = [pixels[(turn * few + i) % batch] for i in range(few)]
            slow[-1].append(
                milliseconds(
                    lambda chosen=chosen, severity=severity: [
                        theirs(one, severity) for one in chosen
                    ],
                    few,
                )
            )
    beside = None
    if with_kornia and kornias(name, 1) is not None:
        floats = x.contiguous().float().div(255)
        operations = [kornias(name, severity) for severity in SEVERITIES]
        times = [
            [milliseconds(lambda one=one: one(floats), batch) for one in operations]
            for _ in range(3)
        ]
        beside = statistics.median(sum(one) for one in times) / len(SEVERITIES)
    return Found(fast[1:], slow[1:], beside)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--side", type=int, default=64, help="pixels; the package takes 32 or more")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--only", default="", help="names with commas between")
    parser.add_argument("--no-kornia", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    keep_freed_memory()  # as the workers of a study do; both sides gain
    warnings.simplefilter("ignore")  # the other libraries'
    registered = {item.name for item in listing("transforms")}
    names = [name for name in GOALS if not given.only or name in given.only.split(",")]
    goal_title = "goal" if given.side == 64 else ""
    print(
        f"{given.side} px, batch {given.batch}, CPU ms an image, mean of five severities; package /"
        f" ours, {given.rounds} rounds"
    )
    print(
        f"{'':<20}{'ours':>8}{'package':>9}   {'ratio':<20}{'worst':>7} "
        f" {goal_title:<6}{'kornia':>8}{'kornia / ours':>15}"
    )
    ratios = {}
    for name in names:
        if name.split()[0] not in registered:
            print(f"{name:<20} not registered")
            continue
        found = measured(name, given.side, given.rounds, given.batch, not given.no_kornia)
        middle, low, high = found.ratio()
        ours, theirs = (
            statistics.median(sum(one) / len(one) for one in side)
            for side in (found.ours, found.theirs)
        )
        line = (
            f"{name:<20}{ours:>8.3f}{theirs:>9.3f}  "
            f" {f'{middle:.1f} ({low:.1f}-{high:.1f})':<20}{found.worst():>7.1f}"
        )
        line += f"  {GOALS[name] if goal_title else '':<6}"
        if found.kornia is not None:
            line += f"{found.kornia:>8.3f}{found.kornia / ours:>15.1f}"
        print(line, flush=True)
        if name != PLAIN:
            ratios[name] = middle
    if ratios:
        mean = math.exp(statistics.fmean(math.log(one) for one in ratios.values()))
        print(f"geometric mean of {len(ratios)}: {mean:.1f}")


if __name__ == "__main__":
    main()
