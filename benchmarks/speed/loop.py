"""What the training loop costs beside forward, backward and optimiser; what RandAugment costs;
batches beside a DataLoader's.

    python -m benchmarks.speed.loop [--rounds 7] [--steps 10] [--models small-cnn,resnet18]

For each model, alternately in one process on one thread, CPU time: a step of the loop (ERM); the
bare step, which is forward pass, cross-entropy, backward pass and the same fused optimiser on one
batch that lies ready; and the loader's batch without and with RandAugment (2, 9). Overhead: loop /
bare - 1. Share of RandAugment: the difference of the two batches / (loop + that). Then batches of
128 normalised images of 32 pixels: the loop's loader beside torch's DataLoader over Pillow images
with ToTensor and Normalize, both in this process. Medians and ranges.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from benchmarks.speed.step import BATCH, ROWS, SIDES, Rows, loop_of
from PIL import Image
from torchvision import transforms

from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.training.loader import TrainingRows
from crosswind.training.memory import keep_freed_memory
from crosswind.training.settings import TrainingSettings
from crosswind.transforms.policies.randaugment import RandAugment

GOALS = {"small-cnn": (0.10, 0.18), "resnet18": (0.03, 0.03)}
Step = Callable[[int], object]


def data_of(side: int) -> tuple[AttributedDataset, Rows]:
    """Smooth random images: operations of a policy see pictures with edges and flat parts."""
    generator = np.random.default_rng(0)
    coarse = generator.integers(0, 256, (ROWS, 8, 8, 3), dtype=np.uint8)
    kept = np.stack(
        [
            np.asarray(Image.fromarray(one).resize((side, side), Image.Resampling.BICUBIC))
            for one in coarse
        ]
    )
    label = generator.integers(0, 3, ROWS)
    table = AttributeTable((Attribute("label", ("a", "b", "c")),), label[None].astype(np.uint8))
    data = AttributedDataset(
        "smooth noise", table, lambda asked: kept[asked], InputSpec.image(side, side, 3)
    )
    return data, Rows(np.arange(ROWS), label, label, np.full(ROWS, 1 / ROWS))


def bare_of(name: str) -> Step:
    """Forward, backward and optimiser alone."""
    step, context = loop_of(name, *data_of(SIDES[name]))
    step(0)
    assert context.batch is not None
    model, x, y = context.modules["model"], context.batch.x, context.batch.y
    parameters = list(model.parameters())
    optimiser = torch.optim.Adam(parameters, lr=1e-3, fused=True)

    def bare(_: int) -> None:
        for parameter in parameters:
            parameter.grad = None
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()

    return bare


def batch_of(name: str, augmented: bool) -> Step:
    """A batch as the model of this name takes it."""
    data, rows = data_of(SIDES[name])
    views = (RandAugment(),) if augmented else (None,)
    loader = TrainingRows(rows, data, TrainingSettings(batch=BATCH), 0, "epoch", views)  # type: ignore[arg-type]
    return lambda number: loader.batch(number, 10_000)


def batches_of() -> tuple[Step, Step]:
    """One batch of our loader, and one of a DataLoader."""
    data, rows = data_of(32)
    loader = TrainingRows(rows, data, TrainingSettings(batch=BATCH), 0, "epoch")  # type: ignore[arg-type]
    kept = data.inputs(np.arange(ROWS))
    prepared = transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.5, 0.5)])

    class Pictures(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return ROWS

        def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
            return prepared(Image.fromarray(kept[row])), int(rows.label[row])

    theirs = torch.utils.data.DataLoader(Pictures(), BATCH, shuffle=True, drop_last=True)
    given = iter(theirs)

    def plain(_: int) -> object:
        nonlocal given
        try:
            return next(given)
        except StopIteration:
            given = iter(theirs)
            return next(given)

    return lambda number: loader.batch(number, 10_000), plain


def timed(step: Step, start: int, steps: int) -> float:
    begun = time.process_time()
    for number in range(start, start + steps):
        step(number)
    return (time.process_time() - begun) / steps


def rounds_of(sides: list[Step], rounds: int, steps: int) -> list[list[float]]:
    """Seconds a step: one list of rounds for each side."""
    for step in sides:
        timed(step, 1, 3)
    found = [[timed(step, 4 + turn * steps, steps) for step in sides] for turn in range(rounds)]
    return [list(times) for times in zip(*found, strict=True)]


def said(values: list[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--models", default="small-cnn,resnet18")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    for name in options.models.split(","):
        sides = [
            loop_of(name, *data_of(SIDES[name]))[0],
            bare_of(name),
            batch_of(name, False),
            batch_of(name, True),
        ]
        loop, bare, batch, augmented = rounds_of(sides, options.rounds, options.steps)
        over = [a / b - 1 for a, b in zip(loop, bare, strict=True)]
        share = [
            (b - a) / (whole + b - a) for whole, a, b in zip(loop, batch, augmented, strict=True)
        ]
        first, second = (f"goal {goal:.0%}" for goal in GOALS[name]) if name in GOALS else ("", "")
        print(
            f"{name:10} {SIDES[name]} px  bare step {1000 * statistics.median(bare):.1f} ms "
            f" overhead of the loop {said(over, '.1%')} {first}  RandAugment's share"
            f" {said(share, '.1%')} {second}",
            flush=True,
        )
    ours, plain = rounds_of(list(batches_of()), options.rounds, 5 * options.steps)
    rate = BATCH / statistics.median(ours)
    ratios = [b / a for a, b in zip(ours, plain, strict=True)]
    print(
        f"batches at 32 px: {rate:,.0f} images/s, {said(ratios, '.1f')} x a DataLoader's, goal 10"
    )


if __name__ == "__main__":
    main()
