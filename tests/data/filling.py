"""A process that fills a region which it inherited, and may be told to die while it does.

`python -m tests.data.filling HANDLE LOG ROWS SECONDS FALLS GO`: when the file GO is there, holds
rows 0 to ROWS - 1 of `dataset()`, SECONDS a rendering; at its write number FALLS (0: never) it
writes half of it and is killed. Prints a digest of what it read.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from crosswind.core.types import InputSpec
from crosswind.data import resident
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset

N, SHAPE = 5000, (64, 64, 1)  # a page of memory a row


def picture(rows: np.ndarray) -> np.ndarray:
    """What each row shows: a function of the row alone."""
    grid = np.arange(np.prod(SHAPE), dtype=np.int64)
    return (
        ((rows[:, None] * 7919 + grid * (rows[:, None] % 13 + 1)) % 251)
        .astype(np.uint8)
        .reshape(-1, *SHAPE)
    )


def dataset(
    seen: Callable[[np.ndarray], object] = lambda rows: None, n: int = N
) -> AttributedDataset:
    """`n` rows; `seen` is called with those that are rendered."""

    def images(rows: np.ndarray) -> np.ndarray:
        seen(rows)
        return picture(rows)

    table = AttributeTable(
        (Attribute("half", ("first", "second")),), (np.arange(n) * 2 // n)[None].astype(np.uint8)
    )
    return AttributedDataset("pictures", table, images, InputSpec.image(*SHAPE))


def digest_of(pixels: np.ndarray) -> str:
    return hashlib.sha256(pixels.tobytes()).hexdigest()


def main(arguments: list[str]) -> None:
    handle, rows, falls = int(arguments[0]), int(arguments[2]), int(arguments[4])
    write, writes = os.pwrite, 0

    def falling(to: int, data: bytes, place: int) -> int:
        nonlocal writes
        writes += 1
        if writes == falls:
            write(to, memoryview(data)[: len(data) // 2], place)
            os.kill(os.getpid(), signal.SIGKILL)
        return write(to, data, place)

    def seen(asked: np.ndarray) -> None:
        with open(arguments[1], "a") as log:
            log.write("".join(f"{os.getpid()} {row}\n" for row in asked))
        time.sleep(float(arguments[3]))

    resident.share(handle)
    print("ready", flush=True)
    while not Path(arguments[5]).exists():
        time.sleep(0.005)
    os.pwrite = falling  # type: ignore[assignment]
    held = resident.ResidentRows(dataset(seen), np.arange(rows), evaluation=False)
    held.bring()
    print(digest_of(held.take(np.arange(rows))), held.held(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
