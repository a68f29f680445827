"""Folders and archives of small pictures in the layouts of collections that come as image files."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

PACS_CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
PACS_RENDITIONS = ("photo", "art_painting", "cartoon", "sketch")


def encoded(colour: tuple[int, int, int] | np.ndarray, name: str) -> bytes:
    """A picture of 24 x 20 of one colour, or of an array, in the format that its name asks for."""
    image = (
        Image.new("RGB", (24, 20), colour) if isinstance(colour, tuple) else Image.fromarray(colour)
    )
    out = io.BytesIO()
    image.save(
        out,
        "PNG" if name.endswith(".png") else "JPEG",
        **({} if name.endswith(".png") else {"quality": 95, "subsampling": 0}),
    )
    return out.getvalue()


def pacs_files(each: int = 3) -> dict[str, bytes]:
    """Name -> bytes of `each` images a class and rendition and of the official lists; in each class
    the last is for crossval.

    Image i of class c and rendition r has the colour (60 r, 30 c, 20 i). Sketches are PNG, the
    others JPEG, as published.
    """
    files: dict[str, bytes] = {}
    lists: dict[str, list[str]] = {}
    for r, rendition in enumerate(PACS_RENDITIONS):
        for c, label in enumerate(PACS_CLASSES):
            for i in range(each):
                name = (
                    f"{rendition}/{label}/{i + 1}.png"
                    if rendition == "sketch"
                    else f"{rendition}/{label}/pic_{i + 1:03}.jpg"
                )
                files[f"kfold/{name}"] = encoded((60 * r, 30 * c, 20 * i), name)
                part = "crossval" if i == each - 1 else "train"
                for key in (part, "test"):
                    lists.setdefault(f"{rendition}_{key}_kfold.txt", []).append(f"{name} {c + 1}")
    return files | {name: "\n".join(lines).encode() + b"\n" for name, lines in lists.items()}


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    """The folder with the files in it."""
    for name, data in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return folder


def zipped(path: Path, files: Mapping[str, bytes]) -> Path:
    """The zip archive of the files; pictures are stored as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path
