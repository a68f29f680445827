"""Drawn pictures a second: Shapes3D coloured from kept views beside every picture cast anew, and
dSprites.

    python -m benchmarks.speed.drawing [--rounds 7] [--pictures 4096] [--size 64]

One process on one thread, CPU time, both sides alternately in every round, random rows in batches
of 128. Casting anew is what a plain ray caster does: 16 rays a pixel wherever the object or its
shadow can be, and one product with the colours. Prints images a second of each, and the ratio of
the two ways of Shapes3D: median and range. The goal: 2,000 images a second of Shapes3D. The first
picture of each of the 480 views is cast, which is timed by itself.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402  (after the variables above)
from numpy.typing import NDArray  # noqa: E402

from crosswind.data import shapes3d_renderer as rooms  # noqa: E402
from crosswind.data.sources.factor_grids import DSprites, Shapes3D  # noqa: E402

BATCH = 128


def timed(images: Callable[[NDArray[np.int64]], object], rows: NDArray[np.int64]) -> float:
    """Images a second of CPU time."""
    begun = time.process_time()
    for start in range(0, len(rows), BATCH):
        images(rows[start : start + BATCH])
    return len(rows) / (time.process_time() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pictures", type=int, default=4096)
    parser.add_argument("--size", type=int, default=64)
    options = parser.parse_args()
    shapes3d, dsprites = Shapes3D(size=options.size).load(), DSprites(size=options.size).load()
    begun = time.process_time()
    shapes3d.inputs(np.arange(480))
    print(
        f"the 480 views of Shapes3D at {options.size} pixels: {time.process_time() - begun:.1f} s"
    )

    def anew(rows: NDArray[np.int64]) -> None:
        scales, shapes, orientations = shapes3d.table.codes[3:][:, rows].tolist()
        colors = np.zeros((6, 3), dtype=np.float32)
        for scale, shape, orientation in zip(scales, shapes, orientations, strict=True):
            rooms._cast(
                rooms.SHAPES[shape], rooms.SCALES[scale], orientation, options.size
            ) @ colors

    draw = np.random.default_rng(0)
    found: dict[str, list[float]] = {
        "Shapes3D, kept views": [],
        "Shapes3D, cast anew": [],
        "dSprites": [],
    }
    for _ in range(options.rounds):
        rows = draw.integers(0, 480_000, options.pictures)
        found["Shapes3D, cast anew"].append(timed(anew, rows[: max(1, options.pictures // 32)]))
        found["Shapes3D, kept views"].append(timed(shapes3d.inputs, rows))
        found["dSprites"].append(
            timed(dsprites.inputs, draw.integers(0, 737_280, options.pictures))
        )
    for label, rates in found.items():
        print(
            f"{label:22}{statistics.median(rates):9,.0f} images/s"
            f" ({min(rates):,.0f}-{max(rates):,.0f})"
        )
    ratios = [
        kept / cast
        for kept, cast in zip(
            found["Shapes3D, kept views"], found["Shapes3D, cast anew"], strict=True
        )
    ]
    print(
        f"kept views / cast anew: {statistics.median(ratios):.0f} x"
        f" ({min(ratios):.0f}-{max(ratios):.0f})"
    )


if __name__ == "__main__":
    main()
