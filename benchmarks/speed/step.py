"""Training steps of Crosswind's loop against a plain eager fp32 loop on the same rows, alternately.

    python -m benchmarks.speed.step [--rounds 7] [--steps 10] [--models mlp,small-cnn,resnet-w16,resnet18]

The plain side is the ordinary way with the pictures already in memory: contiguous fp32, indexing,
normalisation, torch's default Adam, `loss.item()` at each step, the C library's allocator as it is.
It lives in a process of its own, because the allocator that keeps freed memory, which is part of
our side, is a process's. The two take turns: while one does its steps the other waits. Prints CPU
milliseconds a step (one thread) and the ratio plain / ours of each round: median and range.
`--same-allocator` gives the plain side our allocator, `--plain-convolutions` takes
`models.convolution` away from our side.
Goals (85% of a figure counts): fp32 mlp 1.4, small-cnn 1.35, resnet-w16 1.5, resnet18 1.2; bf16
3.4, 2.3, 3.9, 1.7.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from crosswind.core.processor import slow_bfloat16
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.methods.base import Info
from crosswind.methods.erm import ERM
from crosswind.models.build import build_model, unnamed
from crosswind.models.networks.convolution import SmallMapConv2d
from crosswind.training.loader import EvaluationRows, TrainingRows
from crosswind.training.memory import keep_freed_memory
from crosswind.training.run_context import ContextRows, LoopContext
from crosswind.training.settings import ModelSpec, TrainingSettings

SIDES = {"mlp": 32, "small-cnn": 32, "resnet-w16": 64, "resnet18": 64}
ROWS, BATCH = 1091, 128


@dataclass(frozen=True)
class Rows:
    """The fields of a RowSet that training reads."""

    rows: np.ndarray
    label: np.ndarray
    group: np.ndarray
    weight: np.ndarray
    environment: None = None
    visit_law: None = None
    visit_step: tuple[int, int] = (0, 0)


def loop_of(
    name: str, data: AttributedDataset, rows: Rows, precision: str = "fp32"
) -> tuple[Callable[[int], None], LoopContext]:
    """A step of the loop, and what it works on."""
    settings = TrainingSettings(batch=BATCH, precision=precision)
    loader = TrainingRows(rows, data, settings, 0, "epoch")  # type: ignore[arg-type]
    side = SIDES[name]
    method = ERM()
    images = EvaluationRows(rows, data, settings, resident=False)  # type: ignore[arg-type]
    tools = LoopContext(
        method,
        Info(InputSpec.image(side, side, 3), 3, ROWS),
        ModelSpec(name),
        settings,
        0,
        ContextRows(loader, images),
        None,
    )
    stage = method.stage(0, tools)
    assert stage is not None
    tools.begin(stage, fresh=False)
    tools.train()
    logged = []

    def step(number: int) -> None:
        tools.batch = loader.batch(number, 10_000)
        torch.default_generator.manual_seed(number)
        logged.append(method.update(tools, tools.batch).total.detach())

    return step, tools


def plain(name: str, data: AttributedDataset, rows: Rows) -> Callable[[int], None]:
    side = SIDES[name]
    model = build_model(name, {}, InputSpec.image(side, side, 3), unnamed(3), 0).train()
    for part in model.modules():
        if type(part) is SmallMapConv2d:
            part.__class__ = torch.nn.Conv2d
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    pixels = torch.from_numpy(data.inputs(rows.rows)).permute(0, 3, 1, 2).contiguous()
    label = torch.from_numpy(rows.label)
    generator = torch.Generator().manual_seed(0)

    def step(number: int) -> None:
        chosen = torch.randint(ROWS, (BATCH,), generator=generator)
        x = (pixels[chosen].float() / 255 - 0.5) / 0.5
        loss = torch.nn.functional.cross_entropy(model(x), label[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        loss.item()

    return step


def timed(step: Callable[[int], None], start: int, steps: int) -> float:
    begun = time.process_time()
    for number in range(start, start + steps):
        step(number)
    return (time.process_time() - begun) / steps


def data_of(side: int) -> tuple[AttributedDataset, Rows]:
    generator = np.random.default_rng(0)
    kept = generator.integers(0, 256, (ROWS, side, side, 3), dtype=np.uint8)
    label = generator.integers(0, 3, ROWS)
    table = AttributeTable((Attribute("label", ("a", "b", "c")),), label[None].astype(np.uint8))
    data = AttributedDataset(
        "noise", table, lambda asked: kept[asked], InputSpec.image(side, side, 3)
    )
    return data, Rows(np.arange(ROWS), label, label, np.full(ROWS, 1 / ROWS))


def serve(
    connection: Connection, name: str, kinds: list[str], keep: bool, own_convolutions: bool
) -> None:
    """In a process of its own: do as many steps of a kind as asked, answer with CPU seconds a
    step."""
    torch.set_num_threads(1)
    if keep:
        keep_freed_memory()
    made = data_of(SIDES[name])
    steps = {}
    for kind in kinds:
        if kind == "plain":
            steps[kind] = plain(name, *made)
            continue
        steps[kind], tools = loop_of(name, *made, kind)
        for part in tools.modules["model"].modules():
            if type(part) is SmallMapConv2d and not own_convolutions:
                part.__class__ = torch.nn.Conv2d
    done = dict.fromkeys(kinds, 0)
    while True:
        try:
            kind, count = connection.recv()
        except EOFError:
            return
        connection.send(timed(steps[kind], done[kind], count))
        done[kind] += count


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--models", default="mlp,small-cnn,resnet-w16,resnet18")
    parser.add_argument(
        "--same-allocator", action="store_true", help="the plain side keeps freed memory too"
    )
    parser.add_argument(
        "--plain-convolutions", action="store_true", help="our side without models.convolution"
    )
    parser.add_argument(
        "--precisions",
        default="fp32" if slow_bfloat16() else "fp32,bf16",
        help="arithmetic of our side; bf16 only where the processor has it, by default",
    )
    options = parser.parse_args()
    precisions = options.precisions.split(",")
    heads = [f"{precision + ' ms':>9}{'ratio':>8} {'range':14}" for precision in precisions]
    print(f"{'model':12}{'side':>6}{'plain ms':>10}" + "".join(heads))
    context = multiprocessing.get_context("spawn")
    for name in options.models.split(","):
        ends, children = {}, []
        for kinds, keep in ((["plain"], options.same_allocator), (precisions, True)):
            ours, theirs = context.Pipe()
            child = context.Process(
                target=serve, args=(theirs, name, kinds, keep, not options.plain_convolutions)
            )
            child.start()
            theirs.close()
            children.append(child)
            ends |= dict.fromkeys(kinds, ours)

        def ask(kind: str, count: int, ends: dict[str, Any] = ends) -> float:
            ends[kind].send((kind, count))
            return float(ends[kind].recv())

        for kind in ends:
            ask(kind, 3)
        rounds = [
            [ask(kind, options.steps) for kind in ("plain", *precisions)]
            for _ in range(options.rounds)
        ]
        for end in set(ends.values()):
            end.close()
        for child in children:
            child.join()
        first, *others = ([1000 * found[i] for found in rounds] for i in range(1 + len(precisions)))
        line = f"{name:12}{SIDES[name]:6}{statistics.median(first):10.1f}"
        for other in others:
            ratios = [a / b for a, b in zip(first, other, strict=True)]
            spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
            line += f"{statistics.median(other):9.1f}{statistics.median(ratios):8.2f} {spread:14}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
