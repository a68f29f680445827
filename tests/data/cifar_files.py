"""Files of CIFAR-10 and its relatives as their authors published them, written for tests."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
BATCHES = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
META = "\n".join([*CLASSES, "", ""]).encode()

Part = tuple[np.ndarray, np.ndarray]


def pictures(n: int, seed: int) -> Part:
    """Pictures uint8 [n, 32, 32, 3] of few colours, so that they pack well, and labels of all ten
    classes."""
    draw = np.random.default_rng(seed)
    return draw.integers(0, 8, (n, 32, 32, 3), dtype=np.uint8) * 32, draw.permutation(
        np.arange(n) % 10
    )


def records(part: Part) -> bytes:
    """A label and 3,072 pixels a picture: all of its red, then green, then blue, each row by row
    from the top."""
    images, labels = part
    planes = images.transpose(0, 3, 1, 2)
    return b"".join(
        bytes([label]) + plane.tobytes()
        for plane, label in zip(planes, labels.tolist(), strict=True)
    )


def binary_files(parts: list[Part]) -> dict[str, bytes]:
    """The files of the binary version, of six parts: five batches to train on and one to test
    on."""
    found = {name: records(part) for name, part in zip(BATCHES, parts, strict=True)}
    return {
        "batches.meta.txt": META,
        **found,
        "readme.html": b'<meta HTTP-EQUIV="REFRESH" content="0; url=...">\n',
    }


def tar_gz(path: Path, files: dict[str, bytes], top: str) -> Path:
    """A .tar.gz of files in one folder, in their order."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        folder = tarfile.TarInfo(top)
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(folder)
        for name, data in files.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(file.getvalue(), 1, mtime=0))
    return path


def unpacked(folder: Path, files: dict[str, bytes]) -> Path:
    """Files in a folder."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def python_files(part: Part) -> dict[str, bytes]:
    """The files of the Python version: pickles of protocol 2, with keys of bytes."""
    flat = part[0].transpose(0, 3, 1, 2).reshape(len(part[0]), -1)
    batch: dict[bytes, Any] = {
        b"batch_label": b"batch",
        b"labels": part[1].tolist(),
        b"data": flat,
        b"filenames": [b"a.png"],
    }
    names = {"label_names": CLASSES, "num_vis": 3072}
    files = {name.removesuffix(".bin"): pickle.dumps(batch, 2) for name in BATCHES}
    return {**files, "batches.meta": pickle.dumps(names, 2)}


def png(image: np.ndarray, mode: str = "RGB") -> bytes:
    """A picture as a PNG."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).convert(mode).save(file, "PNG")
    return file.getvalue()
