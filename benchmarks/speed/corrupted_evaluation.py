"""A network on 19 corruptions x 5 severities, the making of the corruptions included, beside 95
plain passes and the naive way.

    python -m benchmarks.speed.corrupted_evaluation [--images 256] [--data FOLDER] [--passes 5] [--naive N]
        [--stem small] [--json FILE]

ResNet18 on pictures of 32 x 32, one thread, CPU time. *ours*: a derived attribute of 95 values is
rendered in batches, as evaluation does, then classified. *plain*: the same passes on pictures that
are there. *naive*: one picture at a time is corrupted, then the same pass. Prints both as multiples
of plain; the goal is ours at most 1.3.

All 95 values are made of all pictures by ours, of the first N by naive (default: all). A pass costs
the same whatever the picture: --passes of them, spread over the 95 values, stand for all, and the
range of the ratios is that of these passes (95: none is extrapolated). --data is a folder with
`cifar10_test.npz`; without it pictures are drawn, stripes with noise.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crosswind.core.registry import listing, load
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable, DerivedAttribute
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import derive, evaluation_keys, render
from crosswind.models.build import build_model, normalised

GOAL = 1.3
BATCH = 256


def pictures(folder: Path | None, n: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """uint8 [n, 32, 32, 3]: CIFAR-10's test pictures, or drawn ones. Raises `SystemExit` where the
    folder holds fewer."""
    if folder is None:
        drawn = np.random.default_rng(0).integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)
        return (drawn // 4 + np.arange(32, dtype=np.uint8)[:, None, None] * 4).astype(np.uint8)
    with np.load(folder / "cifar10_test.npz") as held:
        found: np.ndarray[Any, np.dtype[np.uint8]] = held["images"][:n]
    if len(found) < n:
        raise SystemExit(f"--images: {folder} holds {len(found)} pictures, not {n}")
    return found


def main() -> int:
    """Measure, print, and tell by the exit status whether the goal is reached with the first
    stem."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--passes", type=int, default=5, choices=range(1, 96), metavar="1..95")
    parser.add_argument("--naive", type=int)
    parser.add_argument(
        "--stem", nargs="+", default=["small", "imagenet"], choices=["small", "imagenet"]
    )
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    pixels = pictures(chosen.data, chosen.images)
    some = min(chosen.naive or len(pixels), len(pixels))
    names = [item.name for item in listing("transforms") if ".corruptions." in item.module]
    values = {
        f"{name} {severity}": {"transform": name, "severity": severity}
        for name in names
        for severity in range(1, 6)
    }
    table = AttributeTable(
        (Attribute("y", ("a", "b")),), np.zeros((1, len(pixels)), dtype=np.uint8)
    )
    data = AttributedDataset(
        "pictures", table, lambda rows: pixels[rows], InputSpec.image(32, 32, 3)
    )
    data = derive(data, DerivedAttribute("corruption", tuple(values), "", tuple(values.values())))
    classes = [str(digit) for digit in range(10)]
    networks = {
        stem: build_model("resnet18", {"stem": stem}, data.check_inputs(), classes, 0).eval()
        for stem in chosen.stem
    }
    rows, x = np.arange(len(pixels)), torch.from_numpy(pixels).permute(0, 3, 1, 2)

    @torch.no_grad()
    def passed(stem: str, images: torch.Tensor) -> float:
        begin = time.process_time()
        for part in images.split(BATCH):
            networks[stem](normalised(part, torch.float32, True))
        return time.process_time() - begin

    plain: dict[str, list[float]] = {stem: [] for stem in networks}
    ours, naive = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    measured = {int(code) for code in np.linspace(0, len(values) - 1, chosen.passes).round()}
    for stem in networks:
        passed(stem, x[:32])
    for code, (value, settings) in enumerate(values.items()):
        name = value.split()[0]
        keys = evaluation_keys(data.ids[rows], np.full(len(rows), code))
        begin = time.process_time()
        made = [
            render(
                data,
                x[start : start + BATCH],
                np.full(len(x[start : start + BATCH]), code),
                keys[start : start + BATCH],
            )
            for start in range(0, len(x), BATCH)
        ]
        ours[name] += time.process_time() - begin
        transform = load("transforms", name)(severity=settings["severity"])
        begin = time.process_time()
        for row in range(some):
            transform(x[row : row + 1], keys[row : row + 1])
        naive[name] += (time.process_time() - begin) * len(x) / some
        if code in measured:
            for stem in networks:
                plain[stem].append(passed(stem, torch.cat(made)))
    making, alone = sum(ours.values()), sum(naive.values())
    results: dict[str, Any] = {
        "images": len(x),
        "naive_images": some,
        "data": "cifar10_test" if chosen.data else "drawn",
    }
    results |= {
        "torch": torch.__version__,
        "machine": platform.machine(),
        "making_s": ours,
        "naive_making_s": naive,
        "stems": {},
    }
    for stem, seconds in plain.items():
        ratios = [
            sorted(1 + extra / (one * len(values)) for one in seconds) for extra in (making, alone)
        ]
        whole = [1 + extra / (float(np.median(seconds)) * len(values)) for extra in (making, alone)]
        results["stems"][stem] = {"passes_s": seconds, "ours": whole[0], "naive": whole[1]}
        print(
            f"{len(values)} x {len(x):,} pictures, stem {stem}: a plain pass"
            f" {np.median(seconds):.2f} s of CPU, the median of {len(seconds)} ({min(seconds):.2f}"
            f" to {max(seconds):.2f})"
        )
        for side, middle, ends in zip(("ours", "naive"), whole, ratios, strict=True):
            print(
                f"  {side} {middle:.3f} x ({ends[0]:.3f} to {ends[-1]:.3f}); goal of ours {GOAL} x"
            )
    print(
        f"making: ours {making:.1f} s, naive {alone:.1f} s ({alone / making:.1f} x), of {some:,}"
        " pictures a value"
    )
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return int(results["stems"][chosen.stem[0]]["ours"] > GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
