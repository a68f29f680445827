"""Training on a CUDA device: the loop's steps beside a plain eager loop, a captured graph and a
compiled model; runs side by side.

    python -m benchmarks.speed.accelerator [--rounds 5] [--steps 60] [--models mlp,small-cnn,resnet-w16,resnet18] [--batch 128]

`plain`: contiguous fp32 as torch does it by default (TF32 in convolutions), pixels on the device,
torch's default Adam, `loss.item()` at each step. `fp32`, `bf16`: the loop's ordinary steps, in
which fp32 is float32 and whatever can repeats its bits. `.. graph`: the same, recorded and replayed
(`training.cuda_graphs`). `compiled`: torch.compile of the model in the ordinary bf16 step, its
compilation apart. Wall milliseconds a step, sides alternately, the device waited for at the end of
a chunk; ratio plain / side of each round: median and range. Then whole runs of 500 steps and 5
validations on digits, with graphs and without, alternately; then, for each number of processes on
one device, steps a second of all together.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.methods.base import Info
from crosswind.methods.erm import ERM
from crosswind.models.build import build_model, unnamed
from crosswind.training.cuda_graphs import VARIABLE, Steps
from crosswind.training.device import reproducible
from crosswind.training.loader import EvaluationRows, TrainingRows
from crosswind.training.run_context import ContextRows, LoopContext
from crosswind.training.settings import ModelSpec, TrainingSettings

ROWS, SIDE = 1091, 64
Step = Callable[[int], Any]


class Rows:
    """The fields of a RowSet that training reads."""

    def __init__(self) -> None:
        self.rows = np.arange(ROWS)
        self.label = self.group = np.arange(ROWS) % 3
        self.weight = np.full(ROWS, 1 / ROWS)
        self.environment, self.visit_law, self.visit_step = None, None, (0, 0)


def data_of() -> AttributedDataset:
    kept = np.random.default_rng(0).integers(0, 256, (ROWS, SIDE, SIDE, 3), dtype=np.uint8)
    table = AttributeTable(
        (Attribute("label", ("a", "b", "c")),), (np.arange(ROWS) % 3)[None].astype(np.uint8)
    )
    return AttributedDataset(
        "noise", table, lambda asked: kept[asked], InputSpec.image(SIDE, SIDE, 3)
    )


def loop(
    name: str, batch: int, precision: str, *, graph: bool = False, compiled: bool = False
) -> Step:
    settings = TrainingSettings(batch=batch, precision=precision, device="cuda")
    rows, data, method = Rows(), data_of(), ERM()
    loader = TrainingRows(rows, data, settings, 0, "epoch")  # type: ignore[arg-type]
    images = EvaluationRows(rows, data, settings, resident=False)  # type: ignore[arg-type]
    tools = LoopContext(
        method,
        Info(InputSpec.image(SIDE, SIDE, 3), 3, ROWS),
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
    if compiled:
        tools.modules["model"] = torch.compile(tools.modules["model"])  # type: ignore[assignment]

    steps = Steps(method, tools, "cuda", 1_000_000)
    if not graph:
        steps.why = "not asked for"

    def step(number: int) -> None:
        steps.take(loader.batch(number, 1_000_000), number)
        if graph and number == 20:
            assert steps.replayed, steps.why

    return step


def plain(name: str, batch: int) -> Step:
    model = build_model(name, {}, InputSpec.image(SIDE, SIDE, 3), unnamed(3), 0).train().cuda()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = data_of()
    pixels = torch.from_numpy(data.inputs(np.arange(ROWS))).permute(0, 3, 1, 2).contiguous().cuda()
    label = torch.from_numpy(Rows().label).cuda()

    def step(number: int) -> None:
        chosen = torch.randint(ROWS, (batch,), device="cuda")
        x = (pixels[chosen].float() / 255 - 0.5) / 0.5
        loss = torch.nn.functional.cross_entropy(model(x), label[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        loss.item()

    return step


def timed(step: Step, start: int, steps: int) -> float:
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for number in range(start, start + steps):
        step(number)
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / steps


def beside(names: list[str], rounds: int, steps: int, batch: int, with_compiled: bool) -> None:
    print(f"{'model':12}{'side':11}{'ms':>9}{'ratio':>8} range")
    for name in names:
        sides: dict[str, Step] = {"plain": plain(name, batch)}
        for precision in ("fp32", "bf16"):
            sides[precision] = loop(name, batch, precision)
            sides[f"{precision} graph"] = loop(name, batch, precision, graph=True)
        makers: dict[str, Callable[[], Step]] = {}
        if with_compiled:
            makers["compiled"] = lambda name=name: loop(name, batch, "bf16", compiled=True)
        for label, maker in makers.items():
            try:
                with reproducible(TrainingSettings(device="cuda")):
                    made = maker()
                    begun = time.perf_counter()
                    made(0)
                    torch.cuda.synchronize()
                print(
                    f"{name:12}{label:11} first step {time.perf_counter() - begun:.1f} s",
                    flush=True,
                )
                sides[label] = made
            except Exception as error:
                print(
                    f"{name:12}{label:11} cannot: {type(error).__name__}: {str(error)[:160]}",
                    flush=True,
                )
        taken: dict[str, list[float]] = {label: [] for label in sides}
        for label, step in sides.items():
            with (
                nullcontext() if label == "plain" else reproducible(TrainingSettings(device="cuda"))
            ):
                timed(step, 0, 22)
        for number in range(rounds):
            for label, step in sides.items():
                with (
                    nullcontext()
                    if label == "plain"
                    else reproducible(TrainingSettings(device="cuda"))
                ):
                    taken[label].append(timed(step, 22 + number * steps, steps))
        for label, seconds in taken.items():
            ratios = [one / other for one, other in zip(taken["plain"], seconds, strict=True)]
            middle = statistics.median(ratios)
            print(
                f"{name:12}{label:11}{statistics.median(seconds) * 1e3:9.3f}{middle:8.2f}"
                f" {min(ratios):.2f}-{max(ratios):.2f}",
                flush=True,
            )


def whole_runs(names: list[str], rounds: int, batch: int) -> None:
    print(
        f"\n{'model':12}{'precision':10}{'ordinary s':>11}{'graph s':>9}{'ratio':>8} range, whole"
        " runs of 500 steps"
    )
    import crosswind as cw

    digits = cw.load("digits", size=SIDE)
    split = cw.split(digits, "digit", ["ink"], draw="all", test=8, validation=0.1)
    for name in names:
        for precision in ("fp32", "bf16"):
            taken: dict[str, list[float]] = {"0": [], "1": []}
            for _ in range(rounds):
                for word, seconds in taken.items():
                    os.environ[VARIABLE] = word
                    settings = {
                        "steps": 500,
                        "batch": batch,
                        "validate_every": 100,
                        "patience": None,
                        "precision": precision,
                    }
                    found = cw.train("erm", split, digits, model=name, device="cuda", **settings)
                    seconds.append(found.cost["total_seconds"])
            ratios = [one / other for one, other in zip(taken["0"], taken["1"], strict=True)]
            without, with_ = (statistics.median(taken[word]) for word in ("0", "1"))
            spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
            print(
                f"{name:12}{precision:10}{without:11.2f}{with_:9.2f}{statistics.median(ratios):8.2f}"
                f" {spread}",
                flush=True,
            )
    del os.environ[VARIABLE]


def serve(
    name: str,
    batch: int,
    precision: str,
    graph: bool,
    seconds: float,
    ready: Any,
    begin: Any,
    out: Any,
) -> None:
    torch.set_num_threads(1)
    with reproducible(TrainingSettings(device="cuda")):
        step = loop(name, batch, precision, graph=graph)
        timed(step, 0, 22)
        ready.release()
        begin.wait()
        done, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            timed(step, 22 + done, 20)
            done += 20
        out.put(done / (time.perf_counter() - begun))


def side_by_side(names: list[str], batch: int, numbers: list[int], seconds: float) -> None:
    context = multiprocessing.get_context("spawn")
    print(
        f"\n{'model':12}{'precision':10}"
        + "".join(f"{number:>9}" for number in numbers)
        + "   steps/s of all processes on one device"
    )
    for name in names:
        for precision, graph in (("bf16", False), ("bf16", True)):
            found = []
            for number in numbers:
                ready, begin, out = context.Semaphore(0), context.Event(), context.Queue()
                workers = [
                    context.Process(
                        target=serve,
                        args=(name, batch, precision, graph, seconds, ready, begin, out),
                    )
                    for _ in range(number)
                ]
                for worker in workers:
                    worker.start()
                for _ in workers:
                    ready.acquire()
                begin.set()
                found.append(sum(out.get() for _ in workers))
                for worker in workers:
                    worker.join()
            label = f"{precision} graph" if graph else precision
            print(f"{name:12}{label:11}" + "".join(f"{speed:9.0f}" for speed in found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--models", default="mlp,small-cnn,resnet-w16,resnet18")
    parser.add_argument("--workers", default="1,2,4,8")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each number of processes")
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = options.models.split(",")
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, batch {options.batch}, {SIDE}"
        f" x {SIDE} pixels"
    )
    beside(names, options.rounds, options.steps, options.batch, not options.no_compile)
    whole_runs(names, max(3, options.rounds // 2), options.batch)
    side_by_side(
        names, options.batch, [int(word) for word in options.workers.split(",")], options.seconds
    )


if __name__ == "__main__":
    main()
