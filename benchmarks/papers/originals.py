"""Files of MNIST, USPS and CIFAR-10 in the layout of their originals, from arrays: for where the
originals are out of reach.

    python -m benchmarks.papers.originals --data DIR --root ROOT
    for set in "mnist --set size=28" "usps --set size=28" cifar10; do crosswind prepare $set --root
    ROOT --accept-totals; done

`--data` holds mnist.npz, usps_test.npz, cifar10_train10k.npz and cifar10_test.npz. CIFAR-10's are
20,000 JPEG copies, of which 10,000 train: the test rows are of the same distribution. Of USPS there
are the 2,007 test rows; the first 507 stand in the file of training rows.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import struct
from pathlib import Path

import numpy as np

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def mnist(arrays: Path, folder: Path) -> None:
    """Four gzip files of the idx format."""
    held = np.load(arrays, allow_pickle=False)
    for part, stem in (("train", "train"), ("test", "t10k")):
        for key, name, array in (
            ("images", "images-idx3", held[f"{part}_images"]),
            ("label", "labels-idx1", held[f"{part}_label"]),
        ):
            head = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(
                f">{array.ndim}I", *array.shape
            )
            assert array.dtype == np.uint8, key
            (folder / f"{stem}-{name}-ubyte.gz").write_bytes(
                gzip.compress(head + array.tobytes(), 1, mtime=0)
            )


def usps(arrays: Path, folder: Path) -> None:
    """Two bzip2 files of LIBSVM's lines: the digit plus one, then 256 greys from -1 to 1."""
    held = np.load(arrays, allow_pickle=False)
    greys = [f"{level / 127.5 - 1:.6g}" for level in range(256)]
    rows = zip(
        held["label"].tolist(),
        held["images"].reshape(len(held["label"]), 256).tolist(),
        strict=True,
    )
    lines = [
        f"{digit + 1} {' '.join(f'{i}:{greys[level]}' for i, level in enumerate(row, 1))}\n"
        for digit, row in rows
    ]
    for name, some in (("usps.bz2", lines[:507]), ("usps.t.bz2", lines[507:])):
        (folder / name).write_bytes(bz2.compress("".join(some).encode()))


def cifar10(train: Path, test: Path, folder: Path) -> None:
    """The six files of the binary version: a label and 3,072 pixels a picture, all of its red
    first."""

    def records(path: Path) -> np.ndarray:
        held = np.load(path, allow_pickle=False)
        assert tuple(held["label_names"].tolist()) == CLASSES
        planes = held["images"].transpose(0, 3, 1, 2).reshape(len(held["label"]), -1)
        return np.concatenate([held["label"][:, None].astype(np.uint8), planes], axis=1)

    for i, part in enumerate(np.array_split(records(train), 5), 1):
        (folder / f"data_batch_{i}.bin").write_bytes(part.tobytes())
    (folder / "test_batch.bin").write_bytes(records(test).tobytes())
    (folder / "batches.meta.txt").write_text("\n".join([*CLASSES, "", ""]))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--root", type=Path, required=True)
    options = parser.parse_args()
    folders = {name: options.root / "originals" / name for name in ("mnist", "usps", "cifar10")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    mnist(options.data / "mnist.npz", folders["mnist"])
    usps(options.data / "usps_test.npz", folders["usps"])
    cifar10(
        options.data / "cifar10_train10k.npz", options.data / "cifar10_test.npz", folders["cifar10"]
    )


if __name__ == "__main__":
    main()
