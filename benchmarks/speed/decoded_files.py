"""A table of JPEG files that is read where it lies: the first reading, which decodes every file, and
a second opening, which takes the pictures that were kept.

    python -m benchmarks.speed.decoded_files [--files 2000] [--side 256] [--size 64] [--rounds 5]

Three sides take turns in one process on one thread: reading with nothing kept, first reading that
keeps, and opening again. Prints pictures a second of each and the ratio of its time to reading with
nothing kept, median and range of CPU time. Goal: opening again at most 0.1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from crosswind.data.decoded_files import decoded_folder
from crosswind.data.sources.base import open_source

PATCH = 8


def write_table(folder: Path, n_files: int, side: int) -> Path:
    """A table of JPEG files of coarse random patches."""
    draws = np.random.default_rng(0)
    pictures = folder / "pictures"
    pictures.mkdir()
    lines = ["path,kind"]
    for number in range(n_files):
        coarse = draws.integers(0, 256, (side // PATCH, side // PATCH, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((side, side)).save(pictures / f"{number}.jpg", quality=90)
        lines.append(f"{number}.jpg,{number % 2}")
    table = folder / "table.csv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return table


def seconds(table: Path, size: int, limit: str) -> float:
    """CPU seconds of opening the table and reading every picture once."""
    os.environ["CROSSWIND_DECODED_GIB"] = limit
    begun = time.process_time()
    images = str(table.parent / "pictures")
    dataset = open_source("table", {"path": str(table), "images": images, "size": size})
    for rows in np.array_split(np.arange(dataset.n_base), max(1, dataset.n_base // 500)):
        dataset.inputs(rows)
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CROSSWIND_DATA"] = f"{folder}/kept"
        table = write_table(Path(folder), options.files, options.side)
        sides: dict[str, list[float]] = {"nothing kept": [], "first reading": [], "again": []}
        for _ in range(options.rounds):
            shutil.rmtree(decoded_folder(), ignore_errors=True)
            sides["nothing kept"].append(seconds(table, options.size, "0"))
            sides["first reading"].append(seconds(table, options.size, "10"))
            sides["again"].append(seconds(table, options.size, "10"))
    print(f"{options.files:,} JPEG files of {options.side} px at {options.size} px")
    for name, times in sides.items():
        ratios = [side / plain for side, plain in zip(times, sides["nothing kept"], strict=True)]
        print(
            f"{name:14} {options.files / statistics.median(times):9,.0f} pictures/s"
            f"  ratio {statistics.median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f})"
        )


if __name__ == "__main__":
    main()
