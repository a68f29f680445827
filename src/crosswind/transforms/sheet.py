"""A contact sheet: what a transform makes of one picture, weak to strong, several draws side by
side."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.knobs import resolve
from crosswind.core.registry import facts, load
from crosswind.core.seeds import hash64, seed_of

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "DRAWS",
    "SIZES",
    "check_place",
    "contact_sheet",
    "draws_of",
    "read_picture",
    "write_png",
]

DRAWS = 4  # pictures in a row
SIZES = (8, 1024)  # pixels of a side that a picture may be shown with
SHOWN = 128  # smaller pictures are shown enlarged, to about so many pixels
GAP = 6
BACKGROUND = (250, 250, 250)
INK = (30, 30, 30)


def read_picture(path: Path, size: int) -> NDArray[np.uint8]:
    """The middle square of a picture as uint8 [size, size, c], c 1 for a grey one, else 3.

    Raises `InputError` for a file that is missing, or is no picture of 8 bits, and for a size
    outside `SIZES`.
    """
    from PIL import Image, ImageOps

    if not SIZES[0] <= size <= SIZES[1]:
        problem = f"must be in [{SIZES[0]}, {SIZES[1]}], not {size}"
        raise InputError("--size", problem)
    if path.is_dir():
        raise InputError("--image", f"{path} is a folder; name a picture")
    if path.exists() and not path.is_file():
        raise InputError("--image", f"{path} is neither a file nor a link to one; name a picture")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # Pillow's remarks on large or damaged files; what matters raises
            with Image.open(path) as file:
                if file.mode.startswith(("I", "F")):
                    raise InputError(
                        "--image", f"{path} does not have 8 bits a channel; convert it first"
                    )
                picture = ImageOps.exif_transpose(file).convert(
                    "L" if file.mode in ("1", "L", "LA", "La") else "RGB"
                )
    except FileNotFoundError:
        raise InputError("--image", f"there is no file {path}") from None
    except PermissionError as error:
        raise InputError("--image", f"cannot read {path}: {error.strerror}") from None
    except (
        OSError,
        ValueError,
        SyntaxError,
        EOFError,
        MemoryError,
        Image.DecompressionBombError,
    ) as error:
        raise InputError("--image", f"{path} cannot be read as a picture: {error}") from None
    fitted = np.asarray(ImageOps.fit(picture, (size, size), Image.Resampling.BICUBIC))
    return fitted.reshape(size, size, -1)


def draws_of(
    name: str, picture: NDArray[np.uint8], settings: Mapping[str, Any], seed: int
) -> dict[str, list[NDArray[np.uint8]]]:
    """For every strength of a transform, by its label: `DRAWS` pictures uint8 [h, w, c], or one
    where all would be the same.

    `settings`: values of knobs; the strengths are those that the transform declares, or the one
    that is set. Draw i has the same randomness in every row. Raises `InputError` for an unknown
    transform, knob or value.
    """
    import torch

    transform_facts = facts("transforms", name, "NAME")
    # Whatever is wrong is told by the name of the option that it came from.
    knob_values = {}
    for knob_name, value in resolve(
        transform_facts.knobs, settings, "--set", f"transform {name!r}"
    ).items():
        if knob_name in settings:
            knob_values[knob_name] = value
    transform = load("transforms", name)
    strengths: tuple[str, tuple[Any, ...]] | None = transform.strengths  # type: ignore[attr-defined]
    if strengths is None:
        rows: dict[str, dict[str, Any]] = {name: {}}
    elif strengths[0] in knob_values:
        rows = {f"{strengths[0]} {knob_values[strengths[0]]}": {}}
    else:
        rows = {f"{strengths[0]} {value}": {strengths[0]: value} for value in strengths[1]}
    x = torch.from_numpy(np.stack([picture] * DRAWS)).permute(0, 3, 1, 2)
    keys = hash64(np.arange(DRAWS), seed_of(seed, "contact sheet"))
    out = {}
    for label, pictures_of_label in rows.items():
        done = (
            transform(**{**knob_values, **pictures_of_label})(x, keys).permute(0, 2, 3, 1).numpy()
        )
        same = all(np.array_equal(drawn_picture, done[0]) for drawn_picture in done)
        out[label] = list(done[:1] if same else done)
    return out


def contact_sheet(
    name: str, picture: NDArray[np.uint8], settings: Mapping[str, Any], seed: int = 0
) -> Image.Image:
    """The picture (uint8 [h, w, c]) and what the transform makes of it at each strength, as
    `draws_of` has it; with labels."""
    from PIL import Image, ImageDraw, ImageFont

    rows = {"original": [picture], **draws_of(name, picture, settings, seed)}
    font = ImageFont.load_default(13)
    heading = ", ".join([name, *(f"{knob} {value}" for knob, value in settings.items())])
    enlarged = max(1, round(SHOWN / min(picture.shape[:2])))
    high = picture.shape[0] * enlarged
    wide = picture.shape[1] * enlarged
    margin = GAP * 2 + max(int(font.getlength(label)) for label in rows)
    columns = max(len(row) for row in rows.values())
    width = max(margin + columns * (wide + GAP), int(font.getlength(heading)) + 2 * GAP)
    top = 13 + 3 * GAP
    sheet = Image.new("RGB", (width, top + len(rows) * (high + GAP)), BACKGROUND)
    pen = ImageDraw.Draw(sheet)
    pen.text((GAP, GAP), heading, fill=INK, font=font)
    for line, (label, pictures) in enumerate(rows.items()):
        upper = top + line * (high + GAP)
        pen.text((GAP, upper + high // 2 - 8), label, fill=INK, font=font)
        for column, shown in enumerate(pictures):
            cell = Image.fromarray(shown if shown.shape[2] == 3 else shown[:, :, 0]).convert("RGB")
            sheet.paste(
                cell.resize((wide, high), Image.Resampling.NEAREST),
                (margin + column * (wide + GAP), upper),
            )
    return sheet


def write_png(sheet: Image.Image, path: Path) -> None:
    """Write a picture as PNG, whole or not at all. Raises `InputError` where that cannot be."""
    check_place(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            with temporary.open("xb") as file:
                sheet.save(file, "PNG")
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        problem = f"cannot write {path}: {error.strerror or error}"
        raise InputError("--out", problem) from None


def check_place(path: Path) -> None:
    """Raises `InputError` where no PNG can be written to `path`, as far as that can be told
    before."""
    if path.suffix.lower() != ".png":
        raise InputError("--out", f"{path} must end in .png")
    if path.is_dir():
        raise InputError("--out", f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise InputError("--out", f"there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise InputError("--out", f"cannot write to the folder {path.parent}")
