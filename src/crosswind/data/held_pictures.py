"""Pictures that a program holds, as arrays of grey levels: PIL images, tensors and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, shown
from crosswind.core.types import InputSpec
from crosswind.data.decoding import BY_TRANSPARENCY, drawn_by_transparency

_LAST = "put the channels last, x.transpose(0, 2, 3, 1)"
_KINDS = "uint8 [h, w] or uint8 [h, w, 1] or [h, w, 3] each"


def picture_of(image: Any, image_words: str) -> NDArray[np.uint8]:
    """uint8 [h, w, c] of one image; `image_words` name it. Raises `DataError` for what is none."""
    if _is_pil(image):
        if image.mode.startswith("I") or image.mode == "F":
            raise DataError(
                f"{image_words} has pixels of more than 8 bits (mode {image.mode}), which must be"
                " made 8 bits first"
            )
        if drawn_by_transparency(image):
            raise DataError(f"{image_words} {BY_TRANSPARENCY}")
        mode = "L" if image.mode in ("1", "L") else "RGB"
        converted = np.asarray(image.convert(mode), dtype=np.uint8)
        return converted.reshape(image.height, image.width, -1)
    if isinstance(image, dict):
        names = ", ".join(map(repr, image))
        raise DataError(
            f"{image_words} is a mapping of {names}, and must be an image, or (image, label)"
        )
    array = np.asarray(image.detach().cpu() if hasattr(image, "detach") else image)
    if hasattr(image, "detach") and array.ndim == 3:
        array = array.transpose(1, 2, 0)
    if array.dtype.kind == "f":
        if not (array.min() >= 0 and array.max() <= 1):
            raise DataError(
                f"{image_words} has values outside 0 to 1: leave a normalisation out of the data"
                " set's transform"
            )
        array = np.round(array * 255).astype(np.uint8)
    return grey_levels(array[None], image_words)[0]


def pictures_of(images: Any) -> NDArray[np.uint8]:
    """uint8 [n, h, w, c] of an array of images, or of a list of arrays or PIL images. Raises
    `DataError` for images of several sizes, and for what is none."""
    if isinstance(images, list | tuple) and any(map(_is_pil, images)):
        images = [picture_of(image, f"image {number}") for number, image in enumerate(images)]
    try:
        array = np.asarray(images)
    except ValueError:
        shapes = sorted({str(list(np.shape(image))) for image in images})
        raise DataError(
            f"images: have {len(shapes)} sizes, such as {' and '.join(shapes[:2])}; make them of"
            " one size"
        ) from None
    return grey_levels(array)


def grey_levels(images: NDArray[Any], image_words: str = "images") -> NDArray[np.uint8]:
    """uint8 [n, h, w, c] with 1 or 3 channels. Raises `DataError` for other arrays."""
    if images.ndim == 3:
        images = images[..., None]
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3):
        raise DataError(
            f"{image_words}: must be {_KINDS}, not {images.dtype} {shown(list(images.shape[1:]))}"
            f"{how_to_make(images)}"
        )
    return images


def how_to_make(images: NDArray[Any], spec: InputSpec | None = None) -> str:
    """The end of a sentence on what makes pictures of an array that is nearly one; empty where
    nothing does. `spec`: what one picture is, where that is fixed."""
    of_shape = _of_any_shape(images.shape) if spec is None else _of_shape(images.shape, spec)
    remedies = [remedy for remedy in (of_shape, _of_kind(images.dtype)) if remedy]
    return f"; {', and '.join(remedies)}" if remedies else ""


def _of_any_shape(shape: tuple[int, ...]) -> str:
    """The remedy for the shape of a batch of pictures of any size."""
    if len(shape) != 4 or shape[3] in (1, 3):
        return ""
    if shape[1] in (1, 3):
        return _LAST
    return "leave the fourth channel out, x[..., :3]" if shape[3] == 4 else ""


def _of_shape(shape: tuple[int, ...], spec: InputSpec) -> str:
    """The remedy for the shape of a batch of pictures of one size."""
    height, width, channels = spec.shape
    if shape == spec.shape:
        return "a picture alone is a batch of one, x[None]"
    if shape[1:] == (channels, height, width):
        return _LAST
    if shape[1:] == (height, width, 4):
        return "leave the fourth channel out, x[..., :3]"
    if shape[1:] == (height, width):
        return f"give them {channels} channels, np.repeat(x[..., None], {channels}, axis=3)"
    return f"make them {height} x {width} pixels" if len(shape) == 4 else ""


def _of_kind(dtype: np.dtype[Any]) -> str:
    """The remedy for numbers that are no grey levels."""
    if dtype == np.uint8:
        return ""
    remedies = {
        "f": "make floats in [0, 1] grey levels, (255 * x).round().astype('uint8')",
        "b": "make them grey levels, 255 * x.astype('uint8')",
    }
    of_integers = "make them grey levels of 0 to 255, x.astype('uint8')"
    return remedies.get(dtype.kind, of_integers if dtype.kind in "iu" else "")


def _is_pil(image: Any) -> bool:
    return type(image).__module__.partition(".")[0] == "PIL"
