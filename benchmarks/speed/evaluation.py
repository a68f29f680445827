"""Inference, and labels of neighbours, against the ordinary ways, alternately in one process, CPU
time of one thread.

    python -m benchmarks.speed.evaluation [--rounds 5] [--models mlp,small-cnn,resnet-w16,resnet18] [--only inference|neighbours]

Inference: the plain side is evaluation mode, no_grad, fp32, contiguous, batches of 256 indexed and
normalised from pictures in memory, torch's own convolutions; ours is `training.predicting.predict`
as validations call it, in fp32 and bf16. The last column is the largest difference of fp32 logits,
folded against not.

Neighbours: a row and the 10 pictures that RandAugment (one operation, level 15 of 30) makes of it,
microseconds a picture. The batch-1 loop takes torchvision's transform on a Pillow image, ToTensor,
Normalize, and a forward pass of one picture; the fairer one the same in batches of 256. Ours is
`neighbour_votes.neighbour_labels`, fp32 and bf16. Then three models at once: their time beside
three plain fp32 passes over as many ready pictures (`/ plain`), and beside as many passes of our
own (`/ own`).

Both sides keep freed memory (`training.memory`), which is ours; without it the plain sides are
slower.
Goals (85% of a figure counts): inference bf16 small-cnn 3.4, resnet-w16 2.8, resnet18 2.05;
neighbours fp32 against batch 1 small-cnn 4.5, resnet-w16 2.1, resnet18 8; three models / plain at
most 1.15.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from benchmarks.speed.neighbour_votes import neighbour_labels, neighbour_transform
from PIL import Image
from torch import Tensor, nn
from torchvision import transforms

from crosswind.core.processor import slow_bfloat16
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.methods.erm import ERM
from crosswind.models.build import build_model, unnamed
from crosswind.training.loader import EvaluationRows
from crosswind.training.memory import keep_freed_memory
from crosswind.training.predicting import evaluation_mode, predict
from crosswind.training.settings import TrainingSettings

SIDES = {"mlp": 32, "small-cnn": 32, "resnet-w16": 64, "resnet18": 64}
BATCH, CLASSES, NEIGHBOURS, MODELS = 256, 3, 10, 3


@dataclass(frozen=True)
class Rows:
    """The fields of a RowSet that evaluation reads."""

    rows: np.ndarray
    label: np.ndarray
    group: np.ndarray
    visit_law: None = None
    answers_as: None = None


class Bench:
    """Noise of a side, and networks whose norms have seen some of it."""

    def __init__(self, name: str, n: int) -> None:
        self.name, self.side, self.n = name, SIDES[name], n
        generator = np.random.default_rng(0)
        self.pixels = generator.integers(0, 256, (n, self.side, self.side, 3), dtype=np.uint8)
        label = generator.integers(0, CLASSES, n)
        table = AttributeTable((Attribute("label", ("a", "b", "c")),), label[None].astype(np.uint8))
        self.data = AttributedDataset(
            "noise",
            table,
            lambda asked: self.pixels[asked],
            InputSpec.image(self.side, self.side, 3),
        )
        self.rows = Rows(np.arange(n), label, label)

    def network(self, seed: int, *, ours: bool) -> nn.Module:
        model: nn.Module = build_model(
            self.name, {}, InputSpec.image(self.side, self.side, 3), unnamed(CLASSES), seed
        ).train()
        pictures = torch.from_numpy(self.pixels[:32]).permute(0, 3, 1, 2).float() / 127.5 - 1
        with torch.no_grad():
            for _ in range(20):
                model(pictures + 0.2)
        if ours:
            return model.eval().to(memory_format=torch.channels_last)
        for part in model.modules():
            if isinstance(part, nn.Conv2d):
                part.__class__ = nn.Conv2d
        return model.eval()

    def read(self, precision: str) -> tuple[EvaluationRows, TrainingSettings]:
        settings = TrainingSettings(evaluation_batch=BATCH, precision=precision)
        return EvaluationRows(self.rows, self.data, settings, resident=True), settings  # type: ignore[arg-type]


SLOW = slow_bfloat16()
"""Why bfloat16 is not measured on this processor, empty where it is."""
LACKING = "-".rjust(7).ljust(22)


def timed(run: Callable[[], object]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun


def rounds(sides: Sequence[Callable[[], object]], many: int) -> list[list[float]]:
    """Seconds of each side, round by round, after one that does not count."""
    for side in sides:
        side()
    found = [[timed(side) for side in sides] for _ in range(many)]
    return [list(column) for column in zip(*found, strict=True)]


def ratio(slow: Sequence[float], fast: Sequence[float]) -> str:
    each = [a / b for a, b in zip(slow, fast, strict=True)]
    return f"{statistics.median(each):7.2f} ({min(each):.2f}-{max(each):.2f})".ljust(22)


def plain_inference(model: nn.Module, pixels: np.ndarray) -> Tensor:
    """The ordinary way with the pictures in memory."""
    kept, out = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous(), []
    with torch.no_grad():
        for start in range(0, len(kept), BATCH):
            out.append(model((kept[start : start + BATCH].float() / 255 - 0.5) / 0.5))
    return torch.cat(out)


def inference(name: str, many: int) -> None:
    bench = Bench(name, 2 * BATCH)
    plain, own = bench.network(0, ours=False), bench.network(0, ours=True)
    pixels = bench.pixels

    def ours(precision: str) -> Callable[[], Any]:
        rows, settings = bench.read(precision)
        return lambda: predict(ERM(), {"model": own}, {}, rows, settings)

    full = ours("fp32")
    fast_sides = [full] if SLOW else [full, ours("bf16")]
    slow, *fast = rounds([lambda: plain_inference(plain, pixels), *fast_sides], many)
    apart = np.abs(full().logits - plain_inference(plain, pixels).numpy()).max()
    speed = bench.n / statistics.median(slow)
    print(
        f"{name:12}{bench.side:5}{speed:10.0f}/s"
        f" {''.join(ratio(slow, seconds) for seconds in fast)}{'' if fast[1:] else LACKING}{apart:9.1e}",
        flush=True,
    )


def one_by_one(model: nn.Module, pictures: Sequence[Image.Image], batch: int) -> np.ndarray:
    """What each picture and its neighbours are, every neighbour made by torchvision from the Pillow
    image."""
    change = transforms.RandAugment(num_ops=1, magnitude=15)
    ready = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)]
    )
    labels: list[int] = []
    waiting: list[Tensor] = []
    with torch.no_grad():
        for picture in pictures:
            for number in range(NEIGHBOURS + 1):
                x = ready(picture if number == 0 else change(picture))
                if batch == 1:
                    labels.append(model(x[None]).argmax(1).item())
                    continue
                waiting.append(x)
                if len(waiting) == batch:
                    labels += model(torch.stack(waiting)).argmax(1).tolist()
                    waiting = []
        if waiting:
            labels += model(torch.stack(waiting)).argmax(1).tolist()
    return np.array(labels).reshape(len(pictures), NEIGHBOURS + 1)


def neighbours(name: str, many: int) -> None:
    bench = Bench(name, 6 * BATCH // (NEIGHBOURS + 1))
    plain = bench.network(0, ours=False)
    own = [bench.network(seed, ours=True) for seed in range(MODELS)]
    pictures = [Image.fromarray(array) for array in bench.pixels]
    few = pictures[: 16 if name == "resnet18" else 48]
    transform, many_pictures = neighbour_transform("ni-randaugment"), NEIGHBOURS + 1

    def ours(precision: str, models: int = 1) -> Callable[[], Any]:
        rows, settings = bench.read(precision)
        return lambda: neighbour_labels(
            own[:models], rows, transform, settings, neighbours=NEIGHBOURS
        )

    copies = np.repeat(bench.pixels, many_pictures, axis=0)
    ready = Bench(name, len(copies))
    rows, settings = ready.read("fp32")
    sides: list[tuple[Callable[[], object], int]] = [
        (lambda: one_by_one(plain, few, 1), len(few) * many_pictures),
        (lambda: one_by_one(plain, few, BATCH), len(few) * many_pictures),
        (ours("fp32"), len(copies)),
        (ours("fp32", MODELS), len(copies) * MODELS),
        (lambda: plain_inference(plain, copies), len(copies)),
        (lambda: predict(ERM(), {"model": own[0]}, {}, rows, settings), len(copies)),
    ]
    if not SLOW:
        sides.append((ours("bf16"), len(copies)))
    with evaluation_mode([plain]):
        found = rounds([side for side, _ in sides], many)
    single, batched, full, several, passes, passed, *low = (
        [second / count for second in column]
        for column, (_, count) in zip(found, sides, strict=True)
    )
    line = f"{name:12}{bench.side:5}{1e6 * statistics.median(single):9.0f} us"
    for slow in (single, batched):
        line += ratio(slow, full) + (ratio(slow, low[0]) if low else LACKING)
    print(line + ratio(several, passes) + ratio(several, passed), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default="mlp,small-cnn,resnet-w16,resnet18")
    parser.add_argument("--only", choices=("inference", "neighbours"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    names = options.models.split(",")
    if options.only != "neighbours":
        print(f"{'inference':12}{'side':>5}{'plain':>12} {'fp32':22}{'bf16':22}difference")
        for name in names:
            inference(name, options.rounds)
    if options.only != "inference":
        columns = (
            "fp32 / batch 1",
            "bf16 / batch 1",
            "fp32 / batched",
            "bf16 / batched",
            "3 models / plain",
            "3 models / own",
        )
        print(
            f"{'neighbours':12}{'side':>5}{'batch 1':>12}"
            + "".join(f"{column:22}" for column in columns)
        )
        for name in names:
            neighbours(name, options.rounds)


if __name__ == "__main__":
    main()
