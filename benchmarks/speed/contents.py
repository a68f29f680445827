"""What it costs to know rows by what they hold: a first reading of files, features and arrays with
it and without, by turns.

    python -m benchmarks.speed.contents [--rows N] [--rounds K]

A first reading of pictures loads the table and decodes every file once, as `crosswind run` does
before it trains. Of it planning hashes the bytes of files, and the reading the pixels.
`photographs` are JPEG of 400 x 300, `icons` PNG of 28 x 28, which are so small that many have one
size, and `copies` the photographs, each of them twice. Prints one line of JSON a kind: the ratio of
the times with and without, on the clock and of the processor (where other work is running, that of
the processor tells), the middle one of the rounds and all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import numpy as np
import polars
from PIL import Image

import crosswind as cw
from crosswind.data.contents import FileContents
from crosswind.shifts.split.pictures import joined_units
from crosswind.studies.build import check_pixels

KINDS = {"photographs": (300, 400, "jpg"), "icons": (28, 28, "png"), "copies": (300, 400, "jpg")}


def written(folder: Path, kind: str, rows: int) -> Path:
    """A table over `rows` pictures, which are smooth noise so that their files are of natural
    sizes."""
    height, width, ending = KINDS[kind]
    draw = np.random.default_rng(0)
    names = [f"{row}.{ending}" for row in range(rows)]
    for row, name in enumerate(names):
        if kind == "copies" and row % 2:
            (folder / name).write_bytes((folder / names[row - 1]).read_bytes())
            continue
        coarse = Image.fromarray(
            draw.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
        )
        coarse.resize((width, height), Image.Resampling.BICUBIC).save(folder / name)
    frame = {
        "path": names,
        "bird": [("gull", "tern")[row % 2] for row in range(rows)],
        "place": ["sea"] * rows,
    }
    polars.DataFrame(frame).write_csv(folder / "rows.csv")
    return folder / "rows.csv"


def pictures(table: Path, known: bool) -> None:
    """A first reading of a table of pictures."""
    dataset = cw.load("table", path=str(table), images=str(table.parent), size=64)
    with ExitStack() as stack:
        if not known:
            unread = np.arange(dataset.n_base, dtype=np.uint64)
            stack.enter_context(patch.object(FileContents, "names", lambda _: unread))
            stack.enter_context(
                patch(
                    "crosswind.studies.build.picture_hashes",
                    lambda given: np.zeros(len(given), np.uint64),
                )
            )
        joined_units(dataset)
        check_pixels(dataset, 1)


def held(table: Path, known: bool, kind: str) -> None:
    """A reading of features, or of an array of pictures in memory."""
    name = {"features": "number_hashes", "arrays": "picture_hashes"}[kind]
    with ExitStack() as stack:
        if not known:
            none = np.zeros(0, np.uint64)
            stack.enter_context(
                patch(
                    f"crosswind.data.sources.columns.{name}",
                    lambda given: np.resize(none, len(given)),
                )
            )
        if kind == "features":
            cw.load("features", path=str(table), features=str(table.with_suffix(".npy")))
        else:
            cw.from_frame(polars.read_csv(table), np.load(table.with_suffix(".npy")))


def compared(read: Callable[[bool], None], rounds: int) -> dict[str, object]:
    """Ratios of the times with and without, the two by turns."""
    clocks = {"wall": time.perf_counter, "cpu": time.process_time}
    ratios: dict[str, list[float]] = {name: [] for name in clocks}
    for turn in range(rounds):
        taken = {}
        for known in (True, False) if turn % 2 else (False, True):
            begun = {name: clock() for name, clock in clocks.items()}
            read(known)
            taken[known] = {name: clock() - begun[name] for name, clock in clocks.items()}
        for name in clocks:
            ratios[name].append(round(taken[True][name] / taken[False][name], 3))
    return {
        name: {"ratio": statistics.median(found), "all": sorted(found)}
        for name, found in ratios.items()
    }


def main() -> None:
    """Write, read, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        for kind in KINDS:
            folder = Path(place) / kind
            folder.mkdir()
            table = written(folder, kind, given.rows)
            pictures(table, True)
            print(
                json.dumps(
                    {
                        "kind": kind,
                        "rows": given.rows,
                        **compared(lambda known, at=table: pictures(at, known), given.rounds),
                    }
                )
            )
        draw, rows = np.random.default_rng(0), given.rows * 10
        for kind, array in (
            ("features", draw.normal(size=(rows, 512)).astype(np.float32)),
            ("arrays", draw.integers(0, 256, (rows, 32, 32, 3), dtype=np.uint8)),
        ):
            table = Path(place) / f"{kind}.csv"
            polars.DataFrame(
                {"bird": ["gull", "tern"] * (rows // 2), "place": ["sea"] * rows}
            ).write_csv(table)
            np.save(table.with_suffix(".npy"), array)
            found = compared(lambda known, at=table, what=kind: held(at, known, what), given.rounds)
            print(json.dumps({"kind": kind, "rows": rows, **found}))


if __name__ == "__main__":
    main()
