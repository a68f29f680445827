"""Batches from prepared pictures beside ImageFolder with a DataLoader, and what preparing 20,000
JPEG files takes.

    python -m benchmarks.speed.prepared [--files 20000] [--side 224] [--rounds 5] [--batches 100]
        [--only batches|preparing] [--keep DIR]

The originals are FILES JPEG pictures of SIDE pixels with noise, in folders of classes. Preparing,
wall and CPU time of processes of their own, alternately: by one thread and by one a core; CPU time
over wall time is the number of cores that were busy, and where other programs take them, the
threads that run or would (looked at every 20 ms) say how many it could use; and the peak of memory
less what the imports take. Then killed (SIGKILL) half-way and gone on: rows kept, and whether the
copy is the same.

Batches, alternately in one process on one thread: 128 random rows of 64 x 64 x 3 as a uint8 tensor.
From memory: a copy that was read before, CPU time, against 200,000 images/s a core. Not yet cached:
the file is dropped from the page cache and mapped anew, wall time, against 20,000/s. Beside them
torchvision's ImageFolder over the same pictures as JPEG files of 64 pixels with a DataLoader:
without workers (CPU time) and with two (wall time, files cached). Ratios of each round, median and
range. Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from crosswind.data.dataset import AttributedDataset
from crosswind.data.prepared import open_copy
from crosswind.data.sources.image_trees import ImageFolder

BATCH, SMALL = 128, 64
GOALS = {"memory": 200_000, "cold": 20_000}
PREPARE = """
import json, sys, time
from pathlib import Path
from crosswind.data.prepared import prepare
from crosswind.data.sources.image_trees import ImageFolder
import PIL.Image, PIL.JpegImagePlugin, polars

def peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024

def told(stage, done, total):
    print(done, flush=True)

before, wall, cpu = peak(), time.perf_counter(), time.process_time()
done = prepare(ImageFolder(path=sys.argv[1], root=sys.argv[2]), workers=int(sys.argv[3]), on_progress=told)
print(json.dumps({
    "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "before": done.rows_before, "memory": peak() - before,
    "fingerprint": done.copy.fingerprint, "megabytes": sum(done.copy.files.values()) / 1e6,
}))
"""


def write_pictures(folder: Path, number: int, side: int) -> None:
    """JPEG files with the sizes of photographs: a few shades and noise, quality 90."""
    drawn = np.random.default_rng(0)
    noise = drawn.normal(0, 12, (16, side, side, 3))
    for row in range(number):
        place = folder / f"class{row % 10}"
        place.mkdir(parents=True, exist_ok=True)
        shades = Image.fromarray(drawn.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize(
            (side, side), Image.Resampling.BICUBIC
        )
        picture = np.clip(np.asarray(shades) + noise[row % 16], 0, 255).astype(np.uint8)
        Image.fromarray(picture).save(place / f"{row:06d}.jpg", quality=90)


def started(originals: Path, root: Path, workers: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", PREPARE, str(originals), str(root), str(workers)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def prepared(originals: Path, root: Path, workers: int) -> dict[str, float | str]:
    process, ready, looks, lines = started(originals, root, workers), 0, 0, [""]
    assert process.stdout is not None
    reader = threading.Thread(target=lambda: lines.extend(process.stdout or ()))
    reader.start()
    while process.poll() is None:
        if len(lines) > 1:  # the imports are over
            ready, looks = ready + at_work(process.pid), looks + 1
        time.sleep(0.02)
    reader.join()
    found: dict[str, float | str] = json.loads(lines[-1])
    return {**found, "ready": ready / max(1, looks)}


def at_work(process: int) -> int:
    """The threads of a process that run now or would, had they a core."""
    number = 0
    for place in Path(f"/proc/{process}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # it may end meanwhile
            number += place.read_text().rpartition(")")[2].split()[0] == "R"
    return number


def middle(values: list[float], digits: int = 2) -> str:
    return (
        f"{statistics.median(values):.{digits}f}"
        f" ({min(values):.{digits}f}-{max(values):.{digits}f})"
    )


def preparing(originals: Path, folder: Path, rounds: int, files: int) -> Path:
    cores = len(os.sched_getaffinity(0))
    found: dict[int, list[dict[str, float | str]]] = {1: [], cores: []}
    for number in range(rounds):
        for workers in found:
            found[workers].append(prepared(originals, folder / f"copy-{workers}-{number}", workers))
    for workers, rows in found.items():
        wall, cpu, memory, ready = (
            [float(row[name]) for row in rows] for name in ("wall", "cpu", "memory", "ready")
        )
        busy = [one / other for one, other in zip(cpu, wall, strict=True)]
        rate = [files / one for one in wall]
        print(
            f"preparing, {workers} thread{'s' if workers > 1 else ''}: {middle(wall, 1)} s,"
            f" {middle(rate, 0)} files/s, {middle(busy)} of {cores} cores busy, {middle(ready)}"
            f" threads that run or would, peak memory {middle(memory, 0)} MB over that of the"
            " imports"
        )
    ratio = [
        float(one["wall"]) / float(other["wall"])
        for one, other in zip(found[1], found[cores], strict=True)
    ]
    print(
        f"{cores} threads beside 1: {middle(ratio)} x; the copy has"
        f" {float(found[1][0]['megabytes']):.0f} MB"
    )
    whole = found[1][0]["fingerprint"]
    process = started(originals, folder / "killed", cores)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) > files // 2:
            process.send_signal(signal.SIGKILL)
            break
    process.communicate()
    again = prepared(originals, folder / "killed", cores)
    same = again["fingerprint"] == whole
    print(
        f"killed at {files // 2:,} rows: {again['before']:,} were kept, the rest took"
        f" {again['wall']:.1f} s, same copy: {same}"
    )
    return folder / f"copy-{cores}-0"


def drop(path: Path) -> None:
    """Take a file that nobody maps out of the page cache."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def rate(batch: Callable[[int], torch.Tensor], batches: int, clock: Callable[[], float]) -> float:
    begun = clock()
    for number in range(batches):
        assert batch(number).shape[0] == BATCH
    return batches * BATCH / (clock() - begun)


def tensors(copy: AttributedDataset, order: NDArray[np.int64]) -> Callable[[int], torch.Tensor]:
    return lambda number: torch.from_numpy(copy.inputs(order[number]))


def batches(source: ImageFolder, small: Path, rounds: int, number: int) -> None:
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder as Folder
    from torchvision.transforms.functional import pil_to_tensor

    torch.set_num_threads(1)
    plain = Folder(str(small), transform=pil_to_tensor)
    copy = open_copy(source)
    path = next(Path(str(source.root)).glob("image-folder*")) / "pixels.npy"
    draw = np.random.default_rng(1)
    found: dict[str, list[float]] = {"memory": [], "cold": [], "loader": [], "workers": []}

    def loader(workers: int) -> float:
        feed = iter(DataLoader(plain, BATCH, shuffle=True, num_workers=workers, drop_last=True))
        next(feed)  # workers start with the first batch
        few = min(len(plain) // BATCH - 1, 40)
        return rate(
            lambda _: next(feed)[0], few, time.perf_counter if workers else time.process_time
        )

    for turn in range(rounds + 1):
        order = draw.permutation(copy.n_base)[: min(number, copy.n_base // BATCH) * BATCH].reshape(
            -1, BATCH
        )
        for rows in order:
            copy.inputs(rows)
        one = {"memory": rate(tensors(copy, order), len(order), time.process_time)}
        del copy
        drop(path)
        copy = open_copy(source)
        one["cold"] = rate(tensors(copy, order), len(order), time.perf_counter)
        one |= {"loader": loader(0), "workers": loader(2)}
        for name in found if turn else ():  # the first round warms up
            found[name].append(one[name])
    for name, words, beside in (
        ("memory", "from memory, a core", "loader"),
        ("cold", "from a map not yet cached", "workers"),
        ("loader", "ImageFolder, DataLoader, no workers, a core", None),
        ("workers", "ImageFolder, DataLoader, 2 workers", None),
    ):
        line = f"{words:46}{middle([value / 1000 for value in found[name]], 1)} thousand images/s"
        if beside:
            ratios = [
                ours / theirs for ours, theirs in zip(found[name], found[beside], strict=True)
            ]
            line += f", goal {GOALS[name] / 1000:.0f}; {middle(ratios, 0)} x the DataLoader"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--only", choices=["batches", "preparing"])
    parser.add_argument(
        "--keep", type=Path, help="a folder that keeps the originals, for another time"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, originals = (
            Path(name),
            (options.keep or Path(name)) / f"originals-{options.files}-{options.side}",
        )
        if not originals.exists():
            write_pictures(originals, options.files, options.side)
        if options.only != "batches":
            preparing(originals, folder, max(1, options.rounds // 2), options.files)
        if options.only != "preparing":
            source = ImageFolder(path=str(originals), root=str(folder / "batches"), size=SMALL)
            prepared(originals, folder / "batches", len(os.sched_getaffinity(0)))
            small = folder / "small"
            copy = open_copy(source)
            for row, label in enumerate(copy.table.codes[0].tolist()):
                place = small / str(label)
                place.mkdir(parents=True, exist_ok=True)
                Image.fromarray(copy.inputs(np.array([row]))[0]).save(
                    place / f"{row:06d}.jpg", quality=95
                )
            del copy
            batches(source, small, options.rounds, options.batches)


if __name__ == "__main__":
    main()
