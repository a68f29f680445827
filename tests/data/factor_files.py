"""The original files of the factor sets in their exact layouts, with few rows."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

NORB = {
    "train": "smallnorb-5x46789x9x18x6x2x96x96-training",
    "test": "smallnorb-5x01235x9x18x6x2x96x96-testing",
}
TOYS = {"train": (4, 6, 7, 8, 9), "test": (0, 1, 2, 3, 5)}
MAGIC = {"uint8": 0x1E3D4C55, "int32": 0x1E3D4C54}
DSPRITES = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"


def norb_bytes(values: np.ndarray) -> bytes:
    """A matrix of NORB: magic, number of dimensions, at least three dimensions, values;
    little-endian."""
    sizes = [*values.shape, *[1] * (3 - values.ndim)]
    head = struct.pack(f"<II{len(sizes)}I", MAGIC[values.dtype.name], values.ndim, *sizes)
    return head + values.astype(values.dtype.newbyteorder("<")).tobytes()


def norb_part(part: str, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """`cat`, `info` and `dat` of some rows: the toys of the part in turn, no two rows alike."""
    draw = np.random.default_rng([seed, len(part)])
    at = np.arange(rows)
    category, instance, rest = at % 5, np.array(TOYS[part])[at // 5 % 5], at // 25
    info = np.stack([instance, rest % 9, 2 * (at * 7 % 18), at % 6], axis=1)
    return {
        "cat": category.astype(np.int32),
        "info": info.astype(np.int32),
        "dat": draw.integers(0, 256, (rows, 2, 96, 96), dtype=np.uint8),
    }


def write_norb(folder: Path, parts: dict[str, dict[str, np.ndarray]], packed: bool = True) -> Path:
    """The six files, gzip or raw."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, arrays in parts.items():
        for kind, values in arrays.items():
            data = norb_bytes(values)
            name = f"{NORB[part]}-{kind}.mat"
            (folder / (f"{name}.gz" if packed else name)).write_bytes(
                gzip.compress(data, 1) if packed else data
            )
    return folder


def shapes3d_arrays(rows: np.ndarray, seed: int = 0) -> dict[str, np.ndarray]:
    """`images` and `labels` of some rows of the original: the factors' values as float64."""
    places = np.unravel_index(rows, (10, 10, 10, 8, 4, 15))
    values = (np.arange(10) / 10,) * 3 + (
        np.linspace(0.75, 1.25, 8),
        np.arange(4.0),
        np.linspace(-30, 30, 15),
    )
    labels = np.stack([value[place] for value, place in zip(values, places, strict=True)], axis=1)
    return {
        "images": (
            np.random.default_rng(seed).integers(0, 256, (len(rows), 64, 64, 3), dtype=np.uint8)
        ),
        "labels": labels,
    }


def write_hdf5(path: Path, arrays: dict[str, Any], **options: Any) -> Path:
    """An HDF5 file of arrays, packed in chunks that h5py chooses, as the original of Shapes3D
    is."""
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file.create_dataset(
                name, data=values, **({"compression": "gzip", "compression_opts": 1} | options)
            )
    return path


def dsprites_arrays(rows: np.ndarray, seed: int = 0) -> dict[str, np.ndarray]:
    """`imgs`, `latents_classes`, `latents_values` and the pickled `metadata` of some rows of the
    original."""
    classes = np.stack(np.unravel_index(rows, (1, 3, 6, 40, 32, 32)), axis=1)
    return {
        "imgs": np.random.default_rng(seed).integers(0, 2, (len(rows), 64, 64), dtype=np.uint8),
        "latents_classes": classes,
        "latents_values": classes.astype(np.float64),
        "metadata": np.array({"title": "dSprites dataset"}, dtype=object),
    }
