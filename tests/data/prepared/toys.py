"""Sources with small originals, for the tests of prepared copies; a process finds them by
CROSSWIND_MODULES.

What goes wrong is told by environment variables, so that it can happen in a process of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import Card, Original
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import forget, register
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.prepared import copies
from crosswind.data.sources.base import PreparedSource, Reading

MODULE = "tests.data.prepared.toys"
ENVIRONMENT = {
    **os.environ,
    "CROSSWIND_MODULES": MODULE,
    "PYTHONPATH": os.pathsep.join(
        [str(Path(__file__).resolve().parents[3]), os.environ.get("PYTHONPATH", "")]
    ),
}
COMMAND = [sys.executable, "-c", "from crosswind.cli.main import main; main()"]
ROWS, SIDE = 640, 32
CHUNK_BYTES = 1 << 18  # an eighth of what it is: the tests have few rows
CHUNK = CHUNK_BYTES // (SIDE * SIDE * 3)
CLASSES = ("cat", "dog", "owl")

if "pytest" not in sys.modules:
    copies.CHUNK_BYTES = CHUNK_BYTES


def write_originals(folder: Path, rows: int = ROWS, seed: int = 0) -> Path:
    """The two files of `toy`: smooth pictures, that JPEG keeps well, and labels."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = np.random.default_rng(seed)
    corners = drawn.integers(0, 256, (rows, 2, 2, 3))
    ramp = np.linspace(0, 1, SIDE)
    rowwise = corners[:, :1] * (1 - ramp[:, None, None]) + corners[:, 1:] * ramp[:, None, None]
    pictures = rowwise[:, :, :1] * (1 - ramp[:, None]) + rowwise[:, :, 1:] * ramp[:, None]
    np.save(folder / "pictures.npy", pictures.astype(np.uint8))
    np.save(folder / "labels.npy", drawn.integers(0, 3, rows).astype(np.uint8))
    return folder


@register("toy", kind="source")
@dataclass(frozen=True)
class Toy(PreparedSource):
    """Pictures of nothing, in two files."""

    flip: bool = knob(False, doc="upside down")
    words: str = knob("plain", doc="anything")
    tint: int = knob(0, doc="added after the copy")

    after = ("tint",)
    card = Card(
        attributes={"class": CLASSES, "half": "which half of the rows"},
        totals={"all": 640},
        shape="32 x 32 x 3",
        licence="public domain",
        citation="Nobody, Nothing, 2020",
        used={"nobody2020": "table 1"},
        layout="this file",
        get="write pictures.npy and labels.npy",
        files=(Original("pictures.npy"), Original("labels.npy", size=1_234)),
    )

    def read(self, folder: Path) -> Reading:
        """The two files."""
        try:
            pictures = np.load(folder / "pictures.npy", mmap_mode="r")
            labels = np.load(folder / "labels.npy")
        except ValueError as error:
            raise DataError(f"{folder}: {error}") from None
        n = len(labels)

        def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
            _go_wrong(rows)
            found = np.asarray(pictures[rows])
            return found[:, ::-1] if self.flip else found

        codes = np.stack([labels.astype(np.int64), np.arange(n) * 2 // n])
        table = AttributeTable(
            (Attribute("class", CLASSES), Attribute("half", ("first", "second"))), codes
        )
        dataset = AttributedDataset(
            "toy",
            table,
            images,
            InputSpec.image(SIDE, SIDE, 3),
            ids=np.arange(n) * 2,
            units=np.arange(n) // 5,
        )
        return Reading(dataset, {"all": n})

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy, tinted."""
        images = dataset.read
        assert images is not None
        dataset.cache["tint"] = self.tint
        return dataset


@register("toy-in-red", kind="source")
@dataclass(frozen=True)
class ToyInRed(Toy):
    """The toy's copy in another colour."""

    copy = "toy"
    card = Toy.card


def _go_wrong(rows: NDArray[np.int64]) -> None:
    if path := os.environ.get("TOY_LOG"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{rows[0]} {rows[-1]}\n")
    if os.environ.get("TOY_KILL_AT") and int(os.environ["TOY_KILL_AT"]) in rows:
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ.get("TOY_RAISE_AT") and int(os.environ["TOY_RAISE_AT"]) in rows:
        raise {
            "os": OSError(5, "Input/output error", "pictures.npy"),
            "value": ValueError("bad block"),
        }[os.environ["TOY_RAISES"]]


def content(folder: Path) -> Mapping[str, Any]:
    """Every file of a folder, by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """The toys are known by their names meanwhile: tests of everything that is registered never see
    them."""
    before, copies.CHUNK_BYTES = copies.CHUNK_BYTES, CHUNK_BYTES
    for name, cls in (("toy", Toy), ("toy-in-red", ToyInRed)):
        register(name, kind="source")(cls)
    try:
        yield
    finally:
        copies.CHUNK_BYTES = before
        for name in ("toy", "toy-in-red"):
            forget("sources", name)


def crosswind(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process that knows the toys."""
    words = [*COMMAND, *map(str, arguments)]
    return subprocess.run(
        words, env=ENVIRONMENT | variables, capture_output=True, text=True, check=False, timeout=600
    )


if "pytest" in sys.modules:
    for _name in ("toy", "toy-in-red"):
        forget("sources", _name)
