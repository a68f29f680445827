"""Augmentation of batches beside torchvision's, image by image.

    python -m benchmarks.speed.augmentations [--rounds 9] [--batch 128] [--size 64] [--only randaugment,augmix] [--no-kornia]

Theirs: a Pillow image in, torchvision's transform with the same settings, a Pillow image out, one
image after the other. Ours: the batch as uint8 in, uint8 out; measured for images that lie by
planes and for images with channels last, as the training loop has them. Pictures: crops of
scikit-learn's two photographs, and its digits (one channel), enlarged. Both sides alternate in one
process on one thread; CPU time. Prints microseconds an image (medians; little meaning on a shared
machine), the ratio theirs / ours of each round (median and range) and the goal, of which 85% counts
as reached. kornia is shown beside where it has the operation: it draws one operation for a whole
batch, and works on floats, here made from uint8 and turned back.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision import transforms as theirs

from crosswind.core.registry import load
from crosswind.core.seeds import hash64
from crosswind.training.memory import keep_freed_memory

PLANES, LAST = torch.contiguous_format, torch.channels_last
Work = Callable[[], object]


def photographs(count: int, size: int) -> list[Image.Image]:
    """Crops of scikit-learn's photographs, from places that do not change, at twice the size or as
    large as a photograph allows."""
    import sklearn.datasets

    folder = Path(sklearn.datasets.__file__).parent / "images"
    whole = [Image.open(folder / name).convert("RGB") for name in ("china.jpg", "flower.jpg")]
    generator = np.random.default_rng(0)
    crops = []
    for i in range(count):
        picture = whole[i % 2]
        side = min(2 * size, *picture.size)
        left, top = (int(generator.integers(0, max(1, n - side))) for n in picture.size)
        crop = picture.crop((left, top, left + side, top + side))
        crops.append(crop.resize((size, size), Image.Resampling.BILINEAR))
    return crops


def digits(count: int, size: int) -> list[Image.Image]:
    """scikit-learn's digits, of one channel, enlarged."""
    from sklearn.datasets import load_digits

    images = np.minimum(load_digits().images[:count] * 16, 255).astype(np.uint8)
    return [
        Image.fromarray(image).resize((size, size), Image.Resampling.BILINEAR) for image in images
    ]


def batch_of(pictures: list[Image.Image]) -> torch.Tensor:
    """The pictures as uint8 [n, c, h, w]."""
    return (
        torch.from_numpy(np.stack([np.asarray(p).reshape(p.height, p.width, -1) for p in pictures]))
        .permute(0, 3, 1, 2)
        .contiguous()
    )


def recipes() -> dict[str, tuple[float | None, object, str, dict[str, object]]]:
    """For each line: the goal, torchvision's transform, and our transform's name and settings."""
    crop = [theirs.RandomResizedCrop, theirs.RandomHorizontalFlip]

    def cropped(size: int, *more: torch.nn.Module) -> object:
        return theirs.Compose([crop[0](size, antialias=True), crop[1](), *more])

    jitter, hued = theirs.ColorJitter(0.4, 0.4, 0.4), theirs.ColorJitter(0.4, 0.4, 0.4, 0.1)
    return {
        "randaugment": (2.3, theirs.RandAugment(), "randaugment", {}),
        "trivialaugment": (3.4, theirs.TrivialAugmentWide(), "trivialaugment", {}),
        "autoaugment cifar10": (
            None,
            theirs.AutoAugment(theirs.AutoAugmentPolicy.CIFAR10),
            "autoaugment",
            {"policy": "cifar10"},
        ),
        "autoaugment imagenet": (None, theirs.AutoAugment(), "autoaugment", {"policy": "imagenet"}),
        "autoaugment svhn": (
            None,
            theirs.AutoAugment(theirs.AutoAugmentPolicy.SVHN),
            "autoaugment",
            {"policy": "svhn"},
        ),
        "augmix": (2.7, theirs.AugMix(), "augmix", {}),
        "augmix nearest": (
            None,
            theirs.AugMix(interpolation=theirs.InterpolationMode.NEAREST),
            "augmix",
            {"interpolation": "nearest"},
        ),
        "crop + flip": (2.0, cropped, "imagenet", {"jitter": 0.0, "hue": 0.0}),
        "crop + flip + jitter": (
            None,
            lambda size: cropped(size, jitter),
            "imagenet",
            {"hue": 0.0},
        ),
        "crop + flip + jitter (exact hue)": (
            2.2,
            lambda size: cropped(size, hued),
            "imagenet",
            {"hue": 0.1},
        ),
        "crop + flip + jitter (hue as matrix)": (
            5.0,
            lambda size: cropped(size, hued),
            "imagenet",
            {"hue": 0.1, "hue_model": "matrix"},
        ),
    }


def beside(name: str, size: int) -> object | None:
    """kornia's transform of that name, if it has one."""
    from kornia import augmentation as kornia

    crop = [kornia.RandomResizedCrop((size, size)), kornia.RandomHorizontalFlip()]
    known = {
        "randaugment": lambda: kornia.auto.RandAugment(n=2, m=9),
        "trivialaugment": kornia.auto.TrivialAugment,
        "autoaugment cifar10": lambda: kornia.auto.AutoAugment("cifar10"),
        "autoaugment imagenet": lambda: kornia.auto.AutoAugment("imagenet"),
        "autoaugment svhn": lambda: kornia.auto.AutoAugment("svhn"),
        "crop + flip": lambda: torch.nn.Sequential(*crop),
        "crop + flip + jitter (exact hue)": lambda: torch.nn.Sequential(
            *crop, kornia.ColorJitter(0.4, 0.4, 0.4, 0.1)
        ),
    }
    return known[name]() if name in known else None


def in_bytes(transform: object, x: torch.Tensor) -> torch.Tensor:
    """A transform of floats, from uint8 to uint8."""
    return transform(x.float() / 255).mul_(255).to(torch.uint8)  # type: ignore[operator]


def seconds(work: Work) -> float:
    """CPU time of this process, which has one thread."""
    started = time.process_time()
    work()
    return time.process_time() - started


def compared(
    name: str, kind: str, pictures: list[Image.Image], rounds: int, with_kornia: bool
) -> None:
    """Print one line: torchvision, ours in both layouts, kornia."""
    goal, transform, registered, settings = recipes()[name]
    size = pictures[0].height
    if callable(transform) and not isinstance(transform, torch.nn.Module):
        transform = transform(size)
    try:
        ours = load("transforms", registered)(**settings)
    except Exception as error:  # a transform that this version does not have
        print(f"{kind:12s} {name:36s} not measured: {error}")
        return
    x, n = batch_of(pictures), len(pictures)
    turn = 0

    def batched(given: torch.Tensor) -> Work:
        def work() -> object:
            nonlocal turn
            turn += 1
            return ours(given, hash64(np.arange(n), turn))

        return work

    sides: dict[str, Work] = {
        "torchvision": lambda: [transform(picture) for picture in pictures],  # type: ignore[operator]
        "planes": batched(x),
        "last": batched(x.contiguous(memory_format=LAST)),
    }
    other = beside(name, size) if with_kornia and x.shape[1] == 3 else None
    if other is not None:
        sides["kornia"] = lambda: in_bytes(other, x)
    found: dict[str, list[float]] = {side: [] for side in sides}
    for count in range(rounds + 1):
        for side, work in sides.items():
            taken = seconds(work)
            if count:  # the first round only warms up
                found[side].append(taken / n * 1e6)
    line = f"{kind:12s} {name:36s} {statistics.median(found['torchvision']):7.0f}"
    for side in list(sides)[1:]:
        ratios = [a / b for a, b in zip(found["torchvision"], found[side], strict=True)]
        middle = statistics.median(ratios)
        line += (
            f" | {side} {statistics.median(found[side]):6.0f} {middle:5.2f}x"
            f" ({min(ratios):.2f}-{max(ratios):.2f})"
        )
    print(line + (f" | goal {goal}" if goal else ""), flush=True)


def main() -> None:
    """Measure every line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--pictures", default="photographs,digits")
    parser.add_argument("--no-kornia", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # as the training loop does; it serves both sides
    warnings.simplefilter("ignore")
    print(
        f"{given.batch} images of {given.size} x {given.size}; microseconds an image, then"
        " torchvision's time over the other's"
    )
    print("kornia: one operation drawn for a whole batch")
    for kind in given.pictures.split(","):
        pictures = {"photographs": photographs, "digits": digits}[kind](given.batch, given.size)
        for name in given.only.split(",") if given.only else recipes():
            if kind == "digits" and "hue" in name:
                continue  # digits have none
            compared(name, kind, pictures, given.rounds, not given.no_kornia)


if __name__ == "__main__":
    main()
