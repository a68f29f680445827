"""A network on 19 corruptions x 5 severities, the making of the corruptions included, beside 95 plain passes and the naive way.

    python benchmarks/corrupted_evaluation.py [--images 256] [--stem small] [--every]

ResNet18 on pictures of 32 x 32, one thread, CPU time. *ours*: a derived attribute of 95 values is rendered in batches, as
evaluation does, then classified. *plain*: the same passes on pictures that are there. *naive*: one picture at a time is corrupted,
then the same pass. Prints both as multiples of plain; the goal is ours at most 1.3. A pass costs the same whatever the picture, so
the median of five passes is taken for all 95; --every makes all.
"""

from __future__ import annotations

import argparse
import time

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


def main() -> int:
    """Measure, print, and tell by the exit status whether the goal is reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--stem", default="small", choices=["small", "imagenet"])
    parser.add_argument("--every", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    pixels = np.random.default_rng(0).integers(0, 256, (chosen.images, 32, 32, 3), dtype=np.uint8)
    pixels = (pixels // 4 + np.arange(32, dtype=np.uint8)[:, None, None] * 4).astype(np.uint8)
    names = [item.name for item in listing("transforms") if ".corruptions." in item.module]
    values = {f"{name} {severity}": {"transform": name, "severity": severity} for name in names for severity in range(1, 6)}
    table = AttributeTable((Attribute("y", ("a", "b")),), np.zeros((1, len(pixels)), dtype=np.uint8))
    data = AttributedDataset("noise", table, lambda rows: pixels[rows], InputSpec.image(32, 32, 3))
    data = derive(data, DerivedAttribute("corruption", tuple(values), "", tuple(values.values())))
    network = build_model("resnet18", {"stem": chosen.stem}, data.check_inputs(), [str(digit) for digit in range(10)], 0).eval()
    rows, x = np.arange(len(pixels)), torch.from_numpy(pixels).permute(0, 3, 1, 2)

    @torch.no_grad()
    def passed(images: torch.Tensor) -> float:
        begin = time.process_time()
        for part in images.split(BATCH):
            network(normalised(part, torch.float32, True))
        return time.process_time() - begin

    passed(x[:32])
    plain, ours, naive = [], 0.0, 0.0
    for code, value in enumerate(values):
        keys = evaluation_keys(data.ids[rows], np.full(len(rows), code))
        begin = time.process_time()
        made = [render(data, x[start : start + BATCH], np.full(len(x[start : start + BATCH]), code), keys[start : start + BATCH])
                for start in range(0, len(x), BATCH)]  # fmt: skip
        ours += time.process_time() - begin
        transform = load("transforms", values[value]["transform"])(severity=values[value]["severity"])
        begin, some = time.process_time(), x[:32]
        for row in range(len(some)):
            transform(some[row : row + 1], keys[row : row + 1])
        naive += (time.process_time() - begin) * len(x) / len(some)
        if chosen.every or code % 19 == 0:
            plain.append(passed(torch.cat(made)))
    whole = float(np.median(plain)) * len(values)
    print(f"{len(values)} x {len(x):,} pictures, stem {chosen.stem}: plain passes {whole:.1f} s of CPU")
    print(f"ours {1 + ours / whole:.3f} x (making {ours:.1f} s); goal {GOAL} x")
    print(f"naive {1 + naive / whole:.3f} x (making {naive:.1f} s)")
    return int(1 + ours / whole > GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
