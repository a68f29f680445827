"""Exhibits of a job: bars, pictures and tables by name. They are kept as JSON, and reports draw
them.

An exhibit decides no number: it is in no key and in no score.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FILE = "exhibits.json"
"""The file of a job's folder that holds its exhibits."""


@dataclass(frozen=True)
class Bars:
    """Numbers by name, such as a histogram's counts by bin.

    `values`: finite, drawn in their order. `unit`: what they are. `caption`: a sentence below.
    """

    values: Mapping[str, float]
    unit: str
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.values or not all(math.isfinite(value) for value in self.values.values()):
            raise ValueError("bars need at least one number, all finite")


@dataclass(frozen=True)
class Picture:
    """An image as a PNG file; `Picture.of` makes one of pixels, `Picture.sheet` one of images.

    `png`: the bytes of the file. `caption`: a sentence below. `columns` and `rows`: what is written
    over the columns of a sheet and beside its rows, evenly.
    """

    png: bytes = field(repr=False)
    caption: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not (self.png.startswith(_PNG) and self.png.endswith(_END)):
            raise ValueError("a picture is a whole PNG file")

    @classmethod
    def of(cls, pixels: NDArray[np.uint8], caption: str = "") -> Picture:
        """A picture of uint8 [h, w, 3], or [h, w] for grey."""
        shape = pixels.shape
        if (
            pixels.dtype != np.uint8
            or len(shape) not in (2, 3)
            or len(shape) == 3
            and shape[2] != 3
            or 0 in shape
        ):
            raise ValueError(f"a picture is uint8 [h, w, 3] or [h, w], not {pixels.dtype} {shape}")
        # PNG by its specification: 8 bits a channel, each line behind a byte that says "not
        # filtered". Imaging libraries are not loaded by rooms that report.
        head = struct.pack(">IIBBBBB", shape[1], shape[0], 8, 2 if len(shape) == 3 else 0, 0, 0, 0)
        lines = np.pad(pixels.reshape(shape[0], -1), ((0, 0), (1, 0))).tobytes()
        return cls(
            _PNG + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(lines)) + _END, caption
        )

    @classmethod
    def sheet(
        cls,
        images: NDArray[np.uint8],
        caption: str = "",
        least: int = 96,
        *,
        columns: Sequence[str] = (),
        rows: Sequence[str] = (),
    ) -> Picture:
        """One picture of rows and columns of images, uint8 [rows, columns, h, w, c] with c 1 or 3,
        two white pixels apart.

        Images smaller than `least` pixels a side are enlarged by a whole number, without smoothing.
        """
        if (
            images.dtype != np.uint8
            or images.ndim != 5
            or images.shape[4] not in (1, 3)
            or 0 in images.shape
        ):
            raise ValueError(
                f"a sheet is uint8 [rows, columns, h, w, 1 or 3], not {images.dtype} {images.shape}"
            )
        down, across, height, width, channels = images.shape
        if len(columns) not in (0, across) or len(rows) not in (0, down):
            problem = (
                f"a sheet of {down} x {across} images has so many names, not {len(rows)} and"
                f" {len(columns)}"
            )
            raise ValueError(problem)
        times = max(1, -(-least // max(height, width)))
        large = images.repeat(times, axis=2).repeat(times, axis=3)
        framed = np.pad(large, ((0, 0), (0, 0), (0, 2), (0, 2), (0, 0)), constant_values=255)
        height_of_all = down * framed.shape[2]
        width_of_all = across * framed.shape[3]
        in_order = framed.transpose(0, 2, 1, 3, 4)
        tiled = in_order.reshape(height_of_all, width_of_all, channels)[:-2, :-2]
        if channels != 3:
            tiled = tiled[..., 0]
        picture = cls.of(np.ascontiguousarray(tiled), caption)
        return replace(picture, columns=tuple(columns), rows=tuple(rows))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_PNG, _END = b"\x89PNG\r\n\x1a\n", _chunk(b"IEND", b"")


@dataclass(frozen=True)
class Grid:
    """A table: `columns` by name, and `rows` of texts, numbers or None. `caption`: a sentence
    below."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | int | None]]
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.columns or any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(
                "every row of a grid has a value for each of its columns, of which there is one at"
                " least"
            )


Exhibit = Bars | Picture | Grid
"""Whatever a report can draw."""


def write_exhibits(folder: Path, exhibits: Mapping[str, Exhibit]) -> None:
    """Write them into a job's folder; nothing where there are none."""
    if exhibits:
        plain = {name: _plain(exhibit) for name, exhibit in exhibits.items()}
        (folder / FILE).write_text(json.dumps(plain, allow_nan=False), encoding="utf-8")


def read_exhibits(folder: Path) -> dict[str, Exhibit]:
    """The exhibits that `write_exhibits` wrote there; empty without a file. Raises `ValueError` for
    a file that holds something else."""
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        return {
            str(name): _read(plain)
            for name, plain in json.loads(path.read_text(encoding="utf-8")).items()
        }
    except (AttributeError, KeyError, TypeError, OSError, RecursionError) as error:
        raise ValueError(f"{FILE} holds no exhibits") from error


def _plain(exhibit: Exhibit) -> dict[str, Any]:
    if isinstance(exhibit, Bars):
        values = {name: float(value) for name, value in exhibit.values.items()}
        return {"kind": "bars", "values": values, "unit": exhibit.unit, "caption": exhibit.caption}
    if isinstance(exhibit, Grid):
        rows = [list(row) for row in exhibit.rows]
        return {
            "kind": "grid",
            "columns": list(exhibit.columns),
            "rows": rows,
            "caption": exhibit.caption,
        }
    columns = list(exhibit.columns)
    named = {"columns": columns, "rows": list(exhibit.rows)}
    png = base64.b64encode(exhibit.png).decode("ascii")
    return {"kind": "picture", "png": png, "caption": exhibit.caption, **named}


def _read(plain: Mapping[str, Any]) -> Exhibit:
    caption = str(plain["caption"])
    if plain["kind"] == "bars":
        unit = str(plain["unit"])
        values = {str(name): float(value) for name, value in plain["values"].items()}
        return Bars(values, unit, caption)
    if plain["kind"] == "grid":
        rows = []
        for row in plain["rows"]:
            rows.append(
                [
                    value if isinstance(value, str | int | float | None) else str(value)
                    for value in row
                ]
            )
        columns = [str(name) for name in plain["columns"]]
        return Grid(columns, rows, caption)
    if plain["kind"] != "picture":
        raise KeyError(plain["kind"])
    over, beside = (tuple(str(name) for name in plain.get(key, [])) for key in ("columns", "rows"))
    png = base64.b64decode(plain["png"], validate=True)
    return Picture(png, caption, over, beside)
