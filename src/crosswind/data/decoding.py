"""Image files as pixels: what sources that read files of pictures share.

A picture is turned as its EXIF data say, made RGB (transparency is dropped, and a picture that is
drawn by it alone is refused) and resized to a square without keeping its proportions, bilinearly
with PIL's own filter. What is no whole image is refused in one sentence that names it.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.data.dataset import Images

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
"""The endings, in lower case, by which a file in a folder is taken for an image."""


_REMEDY = "fetch it again, or leave it out"
# Of the many formats that PIL knows, those that hold pictures: PIL hands PostScript, for one, to a
# program outside.
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP", "JPEG2000")


_ENDS = {b"\xff\xd8\xff": b"\xff\xd9", b"\x89PNG": b"IEND"}
"""How files of pictures begin, and what stands at their end."""
_DEPTH, _GREY_OF_16_BITS = slice(24, 26), b"\x10\x00"
"""Where a PNG file says its bits a channel and its kind, and what it says of 16 bits and grey."""
_TRANSPARENT_KINDS = (4, 6)
"""The kinds of PNG files whose pixels have transparency: grey and RGB."""
BY_TRANSPARENCY = (
    "is drawn by its transparency alone, which is dropped, so that every pixel is of one colour; put"
    " it on a background first (such as mogrify -background white -alpha remove FILE)"
)
"""Why a picture of one colour that is transparent in places is no picture here."""
_TAIL = 256  # bytes, of which some programs append a few to a picture


class Refused(Exception):
    """Why bytes are not taken as an image, as the end of a sentence; which file it is about is
    added where it is known."""


def unreadable(file: Path) -> str:
    """Why a file is no whole picture of 8 bits, as the end of a sentence; empty for one.

    The beginning and the end of a JPEG or PNG file are looked at, of others the beginning alone,
    which takes no decoding; only a file that is not as usual there is decoded.
    """
    with file.open("rb") as opened:
        head = opened.read(_DEPTH.stop)
        end = next((end for begin, end in _ENDS.items() if head.startswith(begin)), None)
        if end is not None:
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(0, size - _TAIL))
            is_png = head.startswith(b"\x89PNG") and len(head) == _DEPTH.stop
            is_doubtful = is_png and (
                head[_DEPTH] == _GREY_OF_16_BITS or head[_DEPTH][1] in _TRANSPARENT_KINDS
            )
            if end in opened.read() and not is_doubtful:
                return ""
        elif _begins_as_picture(file):
            return ""
    try:
        decoded(file, 1)
    except Refused as error:
        return str(error)
    return ""


def _begins_as_picture(file: Path) -> bool:
    """Whether the beginning of a file says that it is a picture of 8 bits."""
    from PIL import Image

    try:
        with Image.open(file, formats=_FORMATS) as opened:
            return not _is_deep(opened.mode)
    except Exception:  # whatever a decoder raises; the sentence is that of decoding
        return False


def _is_deep(mode: str) -> bool:
    """Whether pixels of a mode of PIL have more than 8 bits."""
    return mode.startswith("I") or mode == "F"


def drawn_by_transparency(picture: Any) -> bool:
    """Whether a picture of PIL has one colour and is transparent in places alone, so that nothing of
    what it shows is in its colours."""
    if not picture.has_transparency_data:
        return False
    *colours, (clearest, densest) = picture.convert("RGBA").getextrema()
    return clearest != densest and all(low == high for low, high in colours)


def decoder(
    opened: Callable[[int], Path | bytes], size: int, named: Callable[[int], str], border: int = 0
) -> Images:
    """The `images` of a data set whose row i is the image in the file or the bytes `opened(i)`,
    uint8 [m, size, size, 3].

    They may be asked for by several threads at once if `opened` may. The first file that is no
    whole image is a `DataError` that begins with `named(i)`; `opened` may raise `Refused` too.
    `border`: pixels that are cut off at each side first.
    """

    def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        out = np.empty((len(rows), size, size, 3), dtype=np.uint8)
        for i, row in enumerate(rows.tolist()):
            try:
                out[i] = decoded(opened(row), size, border)
            except Refused as error:
                raise DataError(f"{named(row)} {error}") from None
        return out

    return images


def named_files(folder: Path, files: Sequence[str]) -> dict[str, Any]:
    """`origin` and `originals` of a data set of files below a folder: a file is one picture,
    whichever table or folder lists it."""
    top = os.path.realpath(folder)
    names = b"".join(
        hashlib.blake2b(f"{top}/{file}".encode("utf-8", "surrogateescape"), digest_size=8).digest()
        for file in files
    )
    return {"origin": "files", "originals": np.frombuffer(names, dtype=np.uint64)}


def decoded(file: Path | bytes, size: int, border: int = 0) -> NDArray[np.uint8]:
    """One image file as uint8 [size, size, 3]. Raises `Refused` for what is no whole image of 8
    bits."""
    from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise Refused(
            "cannot be checked: PIL's LOAD_TRUNCATED_IMAGES is switched on in this program"
        )
    try:
        with Image.open(
            io.BytesIO(file) if isinstance(file, bytes) else file, formats=_FORMATS
        ) as opened:
            # PIL only warns of these; filters of warnings belong to the whole program, and its
            # other threads.
            if (
                Image.MAX_IMAGE_PIXELS is not None
                and opened.width * opened.height > Image.MAX_IMAGE_PIXELS
            ):
                raise Image.DecompressionBombError
            if _is_deep(opened.mode):
                raise Refused(
                    f"has pixels of more than 8 bits (mode {opened.mode}), which must be made 8"
                    " bits first"
                )
            if drawn_by_transparency(opened):
                raise Refused(BY_TRANSPARENCY)
            upright = ImageOps.exif_transpose(opened)
            if min(upright.size) <= 2 * border:
                raise Refused(f"is no larger than its border of {border} pixels")
            picture = ImageOps.crop(upright, border) if border else upright
            picture = picture.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
    except (Refused, MemoryError):
        raise
    except UnidentifiedImageError:
        raise Refused(f"is not an image; {_REMEDY}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Refused("has more pixels than an image of a data set should have") from None
    except FileNotFoundError:
        raise Refused("is no longer there") from None
    except (
        Exception
    ) as error:  # decoders raise OSError, SyntaxError, struct.error and others for damaged files
        raise Refused(f"cannot be read as a whole image: {error}; {_REMEDY}") from None
    return np.asarray(picture, dtype=np.uint8)
