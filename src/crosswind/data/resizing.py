"""Small pictures brought to one size and one number of channels, so that several data sets stand
side by side in a study."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from crosswind.core.types import InputSpec, digest
from crosswind.data.dataset import AttributedDataset, Images


def resized(pictures: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """The pictures at `size` x `size`: uint8 [m, h, w, c] with 1 or 3 channels -> [m, size, size,
    c].

    Bilinear, over all pixels that a smaller one covers (Pillow's filter); proportions are not kept.
    The same array is given back where nothing changes.
    """
    if pictures.shape[1:3] == (size, size):
        return pictures
    from PIL import Image

    channels = pictures.shape[3]
    out = np.empty((len(pictures), size, size, channels), dtype=np.uint8)
    for i, picture in enumerate(pictures):
        image = Image.fromarray(picture[..., 0] if channels == 1 else picture)
        out[i] = np.asarray(image.resize((size, size), Image.Resampling.BILINEAR)).reshape(
            size, size, channels
        )
    return out


def in_channels(dataset: AttributedDataset, channels: int) -> AttributedDataset:
    """The data set with pictures of 1 or 3 channels: grey repeated, or colours mixed as ITU-R
    BT.601 weighs them.

    The data set itself where nothing changes; a data set without images stays without. The weights
    are whole 65,536ths, so the pixels are the same everywhere.
    """
    images = dataset.read
    shape = dataset.image_shape
    if images is None or shape is None or shape[2] == channels:
        return dataset
    height, width, channels_there = shape

    def repeated(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        return np.repeat(images(rows), channels, axis=3)

    def mixed(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        weighed = images(rows).astype(np.uint32) @ np.array([19595, 38470, 7471], dtype=np.uint32)
        grey: NDArray[np.uint8] = ((weighed + 32768) >> 16).astype(np.uint8)[..., None]
        return grey

    fingerprint = digest({"of": dataset.fingerprint, "channels": channels})
    return dataclasses.replace(
        dataset,
        read=repeated if channels_there == 1 else mixed,
        input=InputSpec.image(height, width, channels),
        fingerprint=fingerprint,
    )


def of_parts(
    parts: Sequence[Callable[[], NDArray[np.uint8]]], counts: Sequence[int], size: int
) -> Images:
    """Pictures of rows that lie one part after the other, `resized`: uint8 [m, size, size, c].

    `parts`: each reads its pictures, uint8 [n, h, w, c], all parts of one shape; called once, when
    one of them is first asked for, whichever thread asks. `counts`: rows of each part. What is read
    is held as long as the answer is.
    """
    starts = np.cumsum([0, *counts])
    pictures_of: dict[int, NDArray[np.uint8]] = {}
    lock = threading.Lock()

    def part(part_number: int) -> NDArray[np.uint8]:
        with lock:
            if part_number not in pictures_of:
                pictures_of[part_number] = parts[part_number]()
            return pictures_of[part_number]

    def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        part_of_row = np.searchsorted(starts, rows, side="right") - 1
        part_numbers = np.unique(part_of_row).tolist()
        if len(part_numbers) == 1:
            return resized(part(part_numbers[0])[rows - starts[part_numbers[0]]], size)
        out = np.empty((len(rows), *part(0).shape[1:]), dtype=np.uint8)
        for part_number in part_numbers:
            out[part_of_row == part_number] = part(part_number)[
                rows[part_of_row == part_number] - starts[part_number]
            ]
        return resized(out, size)

    return images
