"""Preparing JPEG files beside decoding them alone, by each reader that is installed.

    python -m benchmarks.speed.preparing [--files 1000] [--side 224] [--rounds 5]

The files are those of `prepared.py`: folders of classes, pictures of SIDE pixels with noise. In each
round the copy is made anew by one thread, and each reader (PIL, OpenCV, torchvision) decodes all
files to RGB, one after the other in one process; the order is turned from round to round. Prints CPU
milliseconds a file, and the time of the fastest reader over that of preparing: median and range;
and the same of what preparing calls for each file, which decodes, turns and resizes it by PIL, beside
all that it does. Goal: 0.9 of the fastest reader.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
from benchmarks.speed.prepared import write_pictures
from PIL import Image

from crosswind.data.decoding import decoded
from crosswind.data.prepared import prepare
from crosswind.data.sources.image_trees import ImageFolder


def by_pil(file: Path) -> object:
    with Image.open(file) as opened:
        return np.asarray(opened.convert("RGB"))


def by_opencv(file: Path) -> object:
    pixels = cv2.imdecode(np.fromfile(file, np.uint8), cv2.IMREAD_COLOR)
    assert pixels is not None
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)


def by_torchvision(file: Path) -> object:
    from torchvision.io import ImageReadMode, decode_jpeg, read_file

    return decode_jpeg(read_file(str(file)), ImageReadMode.RGB)


def by_preparing(file: Path) -> object:
    return decoded(file, SIZE)


SIZE = 64
"""Side of the pictures of the copy, in pixels."""
RESIZED = "PIL, resized"
READERS: dict[str, Callable[[Path], object]] = {
    "PIL": by_pil,
    "OpenCV": by_opencv,
    "torchvision": by_torchvision,
}


def decoding(reader: Callable[[Path], object], files: Sequence[Path]) -> float:
    """CPU seconds to decode all files."""
    begun = time.process_time()
    for file in files:
        reader(file)
    return time.process_time() - begun


def preparing(originals: Path) -> float:
    """CPU seconds to make a copy that is thrown away."""
    with tempfile.TemporaryDirectory() as root:
        begun = time.process_time()
        prepare(ImageFolder(path=str(originals), root=root, size=SIZE), workers=1)
        return time.process_time() - begun


def main() -> None:
    """Print a line a reader, and the ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    seconds: dict[str, list[float]] = {name: [] for name in ("preparing", RESIZED, *READERS)}
    with tempfile.TemporaryDirectory() as folder:
        originals = Path(folder)
        write_pictures(originals, options.files, options.side)
        files = sorted(originals.rglob("*.jpg"))
        actions = {"preparing": lambda: preparing(originals)}
        for name, reader in (READERS | {RESIZED: by_preparing}).items():
            actions[name] = lambda reader=reader: decoding(reader, files)
        for turn in range(options.rounds + 1):  # the first loads libraries
            names = list(actions) if turn % 2 else list(reversed(actions))
            for name in names:
                took = actions[name]()
                if turn:
                    seconds[name].append(took)
    for name, values in seconds.items():
        per_file = [1000 * value / len(files) for value in values]
        print(
            f"{name:<12} {statistics.median(per_file):.2f} ms a file"
            f" ({min(per_file):.2f}-{max(per_file):.2f})"
        )
    fastest = min(READERS, key=lambda name: statistics.median(seconds[name]))
    for title, name in ((f"the fastest reader, {fastest}", fastest), (RESIZED, RESIZED)):
        pairs = zip(seconds[name], seconds["preparing"], strict=True)
        ratios = [alone / preparing_too for alone, preparing_too in pairs]
        print(
            f"preparing beside {title}: {statistics.median(ratios):.2f}"
            f" ({min(ratios):.2f}-{max(ratios):.2f}) x as fast"
        )


if __name__ == "__main__":
    main()
