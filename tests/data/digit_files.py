"""Files of digits and articles as their authors published them, written for tests."""

from __future__ import annotations

import bz2
import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest

CODES = {
    "uint8": 0x08,
    "int8": 0x09,
    "int16": 0x0B,
    "int32": 0x0C,
    "float32": 0x0D,
    "float64": 0x0E,
}
MNIST_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def real_data(name: str) -> Path:
    """A file of the real data, or a skip that says why."""
    folder = Path(
        os.environ.get(
            "CROSSWIND_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"
        )
    )
    if not (folder / name).is_file():
        pytest.skip(f"{folder / name} is not there (CROSSWIND_TEST_DATA)")
    return folder / name


def idx_bytes(values: np.ndarray) -> bytes:
    """An array in the idx format."""
    head = struct.pack(">BBBB", 0, 0, CODES[values.dtype.name], values.ndim)
    return (
        head
        + struct.pack(f">{values.ndim}I", *values.shape)
        + values.astype(values.dtype.newbyteorder(">")).tobytes()
    )


def write_mnist(
    folder: Path, parts: list[tuple[np.ndarray, np.ndarray]], packed: bool = True
) -> Path:
    """The four files of MNIST's layout: (images uint8 [n, 28, 28], labels [n]) for training and for
    testing."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = [array.astype(np.uint8) for part in parts for array in part]
    for name, array in zip(MNIST_FILES, arrays, strict=True):
        data = idx_bytes(array)
        (folder / (f"{name}.gz" if packed else name)).write_bytes(
            gzip.compress(data, 1, mtime=0) if packed else data
        )
    return folder


def drawn_digits(n: int, seed: int, side: int = 28) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of noise, a class of its own brightness, and labels that take turns: uint8 [n, side,
    side] and [n]."""
    draw = np.random.default_rng(seed)
    labels = np.arange(n) % 10
    pictures = draw.integers(0, 20, (n, side, side)) + 20 * labels[:, None, None]
    return pictures.astype(np.uint8), labels.astype(np.uint8)


def usps_text(pictures: np.ndarray, labels: np.ndarray) -> bytes:
    """Lines of LIBSVM's usps: the digit plus one, then 256 greys from -1 to 1."""
    greys = [f"{level / 127.5 - 1:.6g}" for level in range(256)]
    lines = []
    for picture, label in zip(
        pictures.reshape(len(pictures), -1).tolist(), labels.tolist(), strict=True
    ):
        lines.append(
            f"{label + 1} "
            + " ".join(f"{i}:{greys[level]}" for i, level in enumerate(picture, 1))
            + " \n"
        )
    return "".join(lines).encode()


def write_usps(
    folder: Path, parts: list[tuple[np.ndarray, np.ndarray]], packed: bool = True
) -> Path:
    """usps.bz2 and usps.t.bz2 of pictures uint8 [n, 16, 16] and digits."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in zip(("usps", "usps.t"), parts, strict=True):
        text = usps_text(*part)
        (folder / (f"{name}.bz2" if packed else name)).write_bytes(
            bz2.compress(text) if packed else text
        )
    return folder


def write_svhn(
    folder: Path, parts: dict[str, tuple[np.ndarray, np.ndarray]], packed: bool = True
) -> Path:
    """train_32x32.mat and so on, of pictures uint8 [n, 32, 32, 3] and digits, in which 0 is called
    10."""
    import scipy.io

    folder.mkdir(parents=True, exist_ok=True)
    for name, (pictures, digits) in parts.items():
        y = np.where(digits == 0, 10, digits).astype(np.uint8)[:, None]
        content = {"X": np.transpose(pictures, (1, 2, 3, 0)), "y": y}
        scipy.io.savemat(folder / f"{name}_32x32.mat", content, format="5", do_compression=packed)
    return folder
