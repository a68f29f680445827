"""Image changes in batches beside those of albumentations, a picture at a time. Its formulas are
cheaper ones: brightness there adds to a channel, and here is that of ImageNet-C, in HSV.

    python -m benchmarks.speed.image_changes [--side 224] [--batch 8] [--rounds 5] [--severity 3]
        [--only gaussian-blur,jpeg]

Needs albumentations 2 beside the test tools (`pip install --no-deps albumentations albucore simsimd
stringzilla`). Both sides take the same photographs (uint8, cut from scikit-learn's two) at the
amount of the severity, as far as the other side has it; they alternate in one process on one
thread. Prints CPU milliseconds a picture and the ratio ours / theirs: median and range over rounds.
Goal: at most 1.2.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import torch
from benchmarks.speed.corruptions import milliseconds, photographs

from crosswind.core.registry import load
from crosswind.core.seeds import hash64
from crosswind.training.memory import keep_freed_memory

AMOUNTS: dict[str, tuple[float, ...]] = {
    "gaussian-blur": (1, 2, 3, 4, 6),  # standard deviation in pixels
    "brightness": (0.1, 0.2, 0.3, 0.4, 0.5),  # added, of 1
    "contrast": (0.4, 0.3, 0.2, 0.1, 0.05),  # what is left of it
    "snow": (0.1, 0.2, 0.55, 0.55, 0.55),  # mean of its layer
    "jpeg": (25, 18, 15, 10, 7),  # quality
    "pixelate": (0.6, 0.5, 0.4, 0.3, 0.25),  # side of the small picture, of the whole
}
"""What the five severities of ImageNet-C do."""


def theirs(name: str, amount: float) -> Callable[[Any], Any]:
    """albumentations' change of one picture uint8 [h, w, 3] by an amount."""
    import albumentations

    pair = (amount, amount)
    if name == "gaussian-blur":
        change = albumentations.GaussianBlur(blur_limit=0, sigma_limit=pair, p=1)
    elif name == "brightness":
        change = albumentations.RandomBrightnessContrast(pair, (0, 0), p=1)
    elif name == "contrast":
        change = albumentations.RandomBrightnessContrast((0, 0), (amount - 1, amount - 1), p=1)
    elif name == "snow":
        change = albumentations.RandomSnow(snow_point_range=pair, p=1)
    elif name == "jpeg":
        change = albumentations.ImageCompression(quality_range=(int(amount), int(amount)), p=1)
    else:
        change = albumentations.Downscale(scale_range=pair, p=1)
    return lambda picture: change(image=picture)["image"]


def measured(name: str, side: int, batch: int, rounds: int, severity: int) -> list[list[float]]:
    """CPU milliseconds a picture, ours and theirs, of each round."""
    ours = load("transforms", name)(severity=severity, constants="imagenet")
    change = theirs(name, AMOUNTS[name][severity - 1])
    pixels = photographs(side, batch)
    x, keys = torch.from_numpy(pixels).permute(0, 3, 1, 2), hash64(np.arange(batch), 1)
    pairs = []
    for _ in range(rounds + 1):
        pairs.append(
            [
                milliseconds(lambda: ours(x, keys), batch),
                milliseconds(lambda: [change(picture) for picture in pixels], batch),
            ]
        )
    return pairs[1:]  # the first fills tables


def main() -> None:
    """Print a line a change."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--severity", type=int, default=3, choices=range(1, 6))
    parser.add_argument("--only", default=",".join(AMOUNTS), help="names with commas between")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    keep_freed_memory()
    warnings.simplefilter("ignore")  # the other library's
    for name in options.only.split(","):
        pairs = measured(name, options.side, options.batch, options.rounds, options.severity)
        ratios = [ours / other_side for ours, other_side in pairs]
        ours_ms, other_ms = (statistics.median(side) for side in zip(*pairs, strict=True))
        print(
            f"{name:<16} {ours_ms:8.3f} ms {other_ms:8.3f} ms  ratio"
            f" {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
