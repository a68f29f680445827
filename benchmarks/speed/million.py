"""A prepared set of a million pictures: how long it takes to open, what memory it takes; and how
long ImageNet takes to prepare.

    python -m benchmarks.speed.million [--rows 1000000] [--side 224] [--rounds 5] [--batches 20]

Opening: a copy of ROWS pictures in 1,000 classes with a split, units and hashes, whose pixels are a
file with holes (150 GB of them at 224 pixels, of which next to nothing is on the disk). Each round
a new process imports the package, then opens the copy (wall time, and by how much its resident
memory grows), then takes BATCHES batches of 128 random rows, after which memory that is the
process's own (not mapped) is looked at again. Goals: under a second, and no copy of the pixels.

Preparing: the real JPEG files of CROSSWIND_TEST_DATA/imagenet_1000x160_jpeg.npz, one picture of
each class, are decoded and made 224 x 224 on one thread (CPU time): as they are (160 x 160), and as
JPEG files of 500 x 375, ImageNet's mean size, that are made of them by enlargement. The time for
1,281,167 + 50,000 files is extrapolated from the latter: the content is real, the size is made, and
reading from a disk is not in it.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.decoding import decoded
from crosswind.data.prepared.copies import (
    ATTRIBUTES,
    PIXELS,
    Copy,
    array_header,
    checksum,
    chunk_rows,
)
from crosswind.data.prepared.paths import CARD, copy_folder, copy_settings, owner, version_of
from crosswind.data.sources.image_trees import ImageFolder

IMAGENET = 1_281_167 + 50_000
OPEN = """
import json, sys, time
from pathlib import Path
import numpy as np
import crosswind.data.prepared.copies
from crosswind.data.sources.base import open_source
from crosswind.data.sources.image_trees import ImageFolder

def told(name):
    return int(Path("/proc/self/status").read_text().partition(name + ":")[2].split()[0]) / 1024

before, begun = told("VmRSS"), time.perf_counter()
data = open_source("image-folder", {"path": sys.argv[1], "root": sys.argv[2], "size": int(sys.argv[3])})
seconds, after = time.perf_counter() - begun, told("VmRSS")
draw, begun = np.random.default_rng(0), time.perf_counter()
for _ in range(int(sys.argv[4])):
    data.inputs(draw.integers(0, data.n_rows, 128))
print(json.dumps({"seconds": seconds, "opened": after - before, "own": told("RssAnon"), "rows": data.n_rows}))
"""


def write_copy(folder: Path, root: Path, rows: int, side: int) -> float:
    """A copy with a file of pixels that is all holes. Returns its size in GB."""
    source = ImageFolder(path=str(folder), root=str(root), size=side)
    target, shape = copy_folder(source), (side, side, 3)
    target.mkdir(parents=True)
    codes = np.stack([np.arange(rows) % 1000, np.arange(rows) * 10 // rows // 9])
    table = AttributeTable(
        (
            Attribute("class", tuple(f"n{i:08}" for i in range(1000))),
            Attribute("split", ("train", "val")),
        ),
        codes,
    )
    contents = np.random.default_rng(0).integers(0, 1 << 63, rows, dtype=np.uint64)
    np.savez(target / ATTRIBUTES, codes=table.codes, contents=contents, units=np.arange(rows) // 2)
    head = array_header(rows, shape)
    with (target / PIXELS["array"]).open("wb") as file:
        file.write(head)
        file.truncate(len(head) + rows * int(np.prod(shape)))
    chunk = chunk_rows(shape)
    files = {name: (target / name).stat().st_size for name in (ATTRIBUTES, PIXELS["array"])}
    copy = Copy(
        folder=target,
        source=owner(source),
        name="million",
        version=version_of(source),
        settings=copy_settings(source),
        store="array",
        n_rows=rows,
        image_shape=shape,
        attributes=[{"name": item.name, "values": list(item.values)} for item in table.attributes],
        parts={"all": rows},
        totals={},
        fingerprint="0" * 32,
        files=files,
        chunk_rows=chunk,
        file_checksums={ATTRIBUTES: checksum((target / ATTRIBUTES).read_bytes())},
        checksums=["0" * 32] * -(-rows // chunk),
    )
    (target / CARD).write_text(json.dumps(copy.to_json(), indent=1), encoding="utf-8")
    return sum(files.values()) / 1e9


def opening(rows: int, side: int, rounds: int, batches: int) -> None:
    """Prints how long opening takes and what memory it takes, as median and range."""
    with tempfile.TemporaryDirectory() as name:
        folder, root = Path(name) / "pictures", Path(name) / "root"
        folder.mkdir()
        size = write_copy(folder, root, rows, side)
        words = [sys.executable, "-c", OPEN, str(folder), str(root), str(side), str(batches)]
        found = [
            json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
            for _ in range(rounds)
        ]
    assert all(each["rows"] == rows for each in found)
    for key, what in (
        ("seconds", "s to open"),
        ("opened", "MB more when open"),
        ("own", "MB of its own after the batches"),
    ):
        values = sorted(each[key] for each in found)
        told = f"{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f}) {what}"
        print(f"{rows:,} pictures of {side} x {side} x 3, {size:,.0f} GB: {told}")


def decoding(path: Path, side: int) -> None:
    """Prints files a second on one thread, and what that makes of ImageNet."""
    with np.load(path) as arrays:
        data, offsets = arrays["jpeg"].tobytes(), arrays["offsets"].tolist()
    files = [data[start:end] for start, end in zip(offsets, offsets[1:], strict=False)]
    for word, pictures in (
        ("160 x 160, as they are", files),
        ("500 x 375, enlarged", [_enlarged(each) for each in files]),
    ):
        begun = time.process_time()
        for each in pictures:
            decoded(each, side)
        rate = len(pictures) / (time.process_time() - begun)
        size = sum(map(len, pictures)) / len(pictures) / 1e3
        told = f"{rate:,.0f}/s a core, so {IMAGENET / rate / 3600:.1f} core hours for {IMAGENET:,}"
        print(f"{len(pictures):,} JPEG files of {word}, {size:.0f} kB: {told}")


def _enlarged(data: bytes) -> bytes:
    out = io.BytesIO()
    with Image.open(io.BytesIO(data)) as picture:
        picture.convert("RGB").resize((500, 375), Image.Resampling.BICUBIC).save(
            out, "JPEG", quality=95
        )
    return out.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (("rows", 1_000_000), ("side", 224), ("rounds", 5), ("batches", 20)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    opening(given.rows, given.side, given.rounds, given.batches)
    path = (
        Path(os.environ.get("CROSSWIND_TEST_DATA", "../shared/data")) / "imagenet_1000x160_jpeg.npz"
    )
    if path.is_file():
        decoding(path, given.side)
    else:
        print(f"there is no {path}, so nothing is decoded (CROSSWIND_TEST_DATA names its folder)")


if __name__ == "__main__":
    main()
