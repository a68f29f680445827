"""What a training step of each method costs beside ERM's: time, memory, and the arithmetic that the
method's definition demands.

    python -m benchmarks.speed.method_cost [--rounds 1] [--models mlp,...] [--methods dann,...]
        [--out FILE] [--no-record] [--table FILE]

For each method and model a step of the loop (sampling, views, update, optimisers) and a step of
ERM's, on the same rows and initial weights, take turns in one process on one thread: the ratio of
their CPU times, median and range over rounds. For "jtt" a whole run of 500 steps over ERM's: the
first training, the prediction of every training row, and the second; for "ada" and "me-ada" too:
the steps, and a batch's ascent, taken once, times the number of batches that a run moves.
"bn-adapt" trains as ERM does:
its figure is that of predicting a test set. Memory: how much the peak of a process of its own rises
once libraries are there, over the same for ERM. Arithmetic: `method_demand.py`. Goal: time at most
1.15 x the arithmetic; the views of an augmentation are no products, so their time, measured by
themselves, comes off before. `--rounds` multiplies the default numbers of rounds.

The results are kept in `results/method-cost.json`, those of methods and models that are not asked
for as they were: `results[METHOD][MODEL]` = {"time": median ratio of CPU time, "low", "high": its
range, "flops": ratio of arithmetic, "memory": ratio of peaks, "views": time of an augmentation's
views over ERM's step, else 0, "of": "step", "run" or "prediction", what all this is of, "ms": ERM's
step or prediction}. "erm" is beside itself, and a model that a method cannot take is left out.
`files[METHOD]` is the hash of the code of the method when it was measured last.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import inspect
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from benchmarks.speed.method_demand import BATCH, CLASSES, ENVIRONMENTS, demand
from tools.code_hash import code_hash

from crosswind.core.registry import listing, load
from crosswind.core.seeds import torch_seed
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.methods.adversarial import Adversarial
from crosswind.methods.base import Info, Method
from crosswind.models.build import Model
from crosswind.training.cuda_graphs import Steps
from crosswind.training.loader import EvaluationRows, TrainingRows
from crosswind.training.memory import keep_freed_memory
from crosswind.training.predicting import predict, predict_adapted
from crosswind.training.run_context import ContextRows, LoopContext
from crosswind.training.settings import ModelSpec, TrainingSettings

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "benchmarks" / "results" / "method-cost.json"
# Pixels a side; rounds and steps in each of them.
MODELS = {
    "mlp": (32, 15, 12),
    "small-cnn": (32, 9, 4),
    "resnet-w16": (64, 7, 2),
    "resnet18": (64, 5, 1),
}
ROWS, RUN, GOAL = 1091, 500, 1.15
MMAP_THRESHOLD = -3  # glibc's malloc.h
WITHOUT_NORM = ("mlp",)
CONVOLUTIONAL = ("bn-adapt", "occamnets", "pnd", "sagnet", "ubnet")  # they need batch norm or maps
# A step of this method's translator, whose network is its own, takes as long as hundreds of ERM's:
# it is measured on one model, a step in each of two rounds.
ONLY = {
    "cyclegan": ("small-cnn",),
    "lora": ("mlp",),
}  # the other has no linear layer but its head in the rest
# By view they pair images with themselves, and the environments here are of other rows.
SETTINGS: dict[str, dict[str, Any]] = {
    name: {"pairs": "class"} for name in ("cos", "mmd-align", "vicreg")
}
WHOLE = {"ada": "run", "bn-adapt": "prediction", "jtt": "run", "me-ada": "run", "wise-ft": "run"}


class Rows:
    """The fields of a RowSet that training and prediction read; environments and groups are drawn
    evenly."""

    source, visit_law, visit_step, answers_as = "noise", None, (0, 0), None

    def __init__(self, label: np.ndarray, environment: np.ndarray) -> None:
        self.rows = np.arange(ROWS)
        self.label, self.environment, self.group = (
            label,
            environment,
            label * ENVIRONMENTS + environment,
        )
        self.weight = np.full(ROWS, 1 / ROWS)


class Side:
    """A method at work on a model: `step` takes a training step, `batch` makes its batch alone,
    `predict` says the rows."""

    def __init__(self, name: str, model: str) -> None:
        side = MODELS[model][0]
        data, rows = data_of(side)
        self.method: Method = load("methods", name)(**SETTINGS.get(name, {}))
        self.settings = TrainingSettings(batch=BATCH, steps=RUN)
        given: Any = rows
        self.rows = EvaluationRows(given, data, self.settings, resident=True)
        places = [rows.label, rows.group, rows.environment]
        classes, groups, environments = (
            tuple(int(n) for n in np.bincount(codes)) for codes in places
        )
        info = Info(
            InputSpec.image(side, side, 3),
            CLASSES,
            ROWS,
            group_names=tuple(map(str, groups)),
            group_counts=groups,
            environment_names=tuple(map(str, environments)),
            environment_counts=environments,
            class_counts=classes,
            steps=RUN,
            batch=BATCH,
        )
        how = self.method.needs.sampler, self.method.views(), self.method.partners(info)
        self.loader = TrainingRows(given, data, self.settings, 0, *how)
        spec, base = ModelSpec(model), None
        sets = ContextRows(self.loader, self.rows)
        if self.method.needs.base is not None:
            first = LoopContext(load("methods", "erm")(), info, spec, self.settings, 0, sets, None)
            base = {
                f"model.{key}": value for key, value in first.modules["model"].state_dict().items()
            }
        self.tools = LoopContext(self.method, info, spec, self.settings, 0, sets, base)
        self.tools.train(False)
        stage = self.method.stage(0, self.tools)
        assert stage is not None
        self.tools.begin(stage, fresh=False)
        self.loader.begin(stage)
        self.tools.train()
        self._steps = Steps(self.method, self.tools, "cpu", RUN)
        self.done = 0

    def step(self) -> None:
        """As the loop takes it; the numbers of batches go round within a run."""
        number = self.done % RUN
        batch = self.loader.batch(number, RUN)
        self._steps.take(batch, torch_seed(0, "step", batch.stage, number)).total.detach()
        self.done += 1

    def batch(self) -> None:
        """The batch of a step."""
        self.loader.batch(self.done % RUN, RUN)
        self.done += 1

    def predict(self) -> None:
        """Every row, adapted to where the method does so."""
        how = predict_adapted if self.method.needs.adapts else predict
        how(self.method, self.tools.modules, self.tools.state, self.rows, self.settings)

    def between(self) -> float:
        """CPU seconds that a run spends outside of its training steps: a batch's ascent times the
        batches; or a stage's making."""
        self.tools.train(False)
        if isinstance(self.method, Adversarial):
            rows, model = torch.arange(BATCH), cast(Model, self.tools.modules["model"])
            x, y = self.tools.inputs(rows), self.tools.y[rows]
            took = timed(lambda: self.method._ascended(model, x, y, BATCH), 1)  # type: ignore[attr-defined]
            took *= ROWS / BATCH * (2**self.method.phases - 1)
        else:
            took = timed(lambda: self.method.stage(0, self.tools), 1)
        self.tools.train()
        return took


def data_of(side: int) -> tuple[AttributedDataset, Rows]:
    """Smooth random images: operations of an augmentation see edges and flat parts."""
    generator = np.random.default_rng(0)
    coarse = generator.integers(0, 256, (ROWS, 8, 8, 3), dtype=np.uint8)
    kept = np.repeat(np.repeat(coarse, side // 8, 1), side // 8, 2)
    kept = kept // 2 + np.roll(kept, (side // 16, side // 16), (1, 2)) // 2
    label, environment = (
        generator.integers(0, CLASSES, ROWS),
        generator.integers(0, ENVIRONMENTS, ROWS),
    )
    parts = (
        Attribute("label", tuple("abc"[:CLASSES])),
        Attribute("environment", tuple("uvw"[:ENVIRONMENTS])),
    )
    table = AttributeTable(parts, np.stack([label, environment]).astype(np.uint8))
    return AttributedDataset(
        "noise", table, lambda asked: kept[asked], InputSpec.image(side, side, 3)
    ), Rows(label, environment)


def timed(work: Callable[[], None], times: int) -> float:
    """CPU seconds of one."""
    begun = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begun) / times


def ratios_of(
    name: str, model: str, erm: Side, rounds: int
) -> tuple[list[float], list[float], float]:
    """By round: the method's time over ERM's, and that of its views; and ERM's time in ms."""
    side = Side(name, model)
    adapts, augments = (
        bool(side.method.needs.adapts),
        any(view is not None for view in side.method.views()),
    )
    steps = 1 if adapts or name in ONLY else MODELS[model][2]
    found, views, plain = [], [], []
    for one in (erm, side):
        timed(one.predict if adapts else one.step, 1 if one is erm or name in ONLY else 3)
    for turn in range(2 if name in ONLY else rounds):
        # Each goes first every other time.
        order = (erm, side) if turn % 2 else (side, erm)
        took = {id(one): timed(one.predict if adapts else one.step, steps) for one in order}
        own, base = took[id(side)], took[id(erm)]
        plain.append(base)
        ratio = own / base
        if WHOLE.get(name) == "run":
            ratio += getattr(side.method, "first", 0.0) + side.between() / (RUN * base)
        found.append(ratio)
        views.append(
            (timed(side.batch, steps) - timed(erm.batch, steps)) / base if augments else 0.0
        )
    return found, views, 1000 * statistics.median(plain)


def rise(connection: Connection, name: str, model: str, predicts: bool) -> None:
    """In a process of its own: the bytes that its peak rises by in a few steps, or in a
    prediction."""
    torch.set_num_threads(1)
    # Freed memory goes back at once, where a run's process keeps it: what is held at the peak then,
    # and not how well it was reused.
    ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 2**16)
    before = _status("VmRSS")
    side = Side(name, model)
    for _ in range(1 if predicts else 3):
        (side.predict if predicts else side.step)()
    connection.send(_status("VmHWM") - before)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def peak_of(name: str, model: str, predicts: bool = False) -> int:
    """See `rise`; the process has the libraries already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["method_cost"])
    ours, theirs = context.Pipe()
    child = context.Process(target=rise, args=(theirs, name, model, predicts))
    child.start()
    theirs.close()
    found = int(ours.recv())
    child.join()
    return found


_peaks: dict[tuple[str, bool], int] = {}


def takes(name: str, model: str) -> bool:
    """Whether the method can be trained with the model, and whether it is to be measured with
    it."""
    return (name not in CONVOLUTIONAL or model not in WITHOUT_NORM) and model in ONLY.get(
        name, MODELS
    )


def measured(name: str, model: str, erm: Side, rounds: int) -> dict[str, Any]:
    """The entry of the results."""
    found, views, ms = ratios_of(name, model, erm, rounds)
    side, predicts = MODELS[model][0], WHOLE.get(name) == "prediction"
    key = (model, predicts)
    if key not in _peaks:
        _peaks[key] = peak_of("erm", *key)
    return {
        "time": round(statistics.median(found), 3),
        "low": round(min(found), 3),
        "high": round(max(found), 3),
        "flops": round(demand(load("methods", name)(), model, side, ROWS, RUN), 4),
        "memory": round(peak_of(name, *key) / _peaks[key], 3),
        "views": round(statistics.median(views), 3),
        "of": WHOLE.get(name, "step"),
        "ms": round(ms, 2),
    }


def over(entry: dict[str, Any]) -> float:
    """Time over arithmetic, without the views."""
    return (entry["time"] - entry["views"]) / entry["flops"]


def table(results: dict[str, Any]) -> str:
    """Of every method and model, in markdown."""
    lines = [
        (
            "| method | model | time (range) | arithmetic | views | time / arithmetic | within 1.15"
            " | memory |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, by_model in results["results"].items():
        for model, entry in by_model.items():
            shown = name if entry["of"] == "step" else f"{name}, a {entry['of']}"
            took = f"{entry['time']:.2f} ({entry['low']:.2f}-{entry['high']:.2f})"
            views = f"{entry['views']:.2f}" if entry["views"] else ""
            within = "yes" if over(entry) <= GOAL else "no"
            cells = (
                shown,
                model,
                took,
                f"{entry['flops']:.2f}",
                views,
                f"{over(entry):.2f}",
                within,
                f"{entry['memory']:.2f}",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def files_of(name: str) -> list[Path]:
    """The method's file, and those of what it shares with another method."""
    return [
        Path(inspect.getfile(cls))
        for cls in load("methods", name).__mro__
        if issubclass(cls, Method) and cls is not Method
    ]


def sha256_of(name: str, tree: Path | None = None) -> str:
    """A hash of the code of `files_of`, of those of the checkout `tree` where there is one. Raises
    `OSError`."""
    files = files_of(name)
    if tree is not None:
        files = [tree / file.relative_to(ROOT) for file in files]
    hashes = [code_hash(file) for file in files]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    every = [item.name for item in listing("methods")]
    parser.add_argument(
        "--rounds", type=float, default=1.0, help="times the default number of rounds"
    )
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--methods", default=",".join(every))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument(
        "--table", type=Path, help="print the table of such a file, and measure nothing"
    )
    parser.add_argument("--no-record", action="store_true", help="print alone")
    options = parser.parse_args()
    if options.table:
        print(table(json.loads(options.table.read_text(encoding="utf-8"))))
        return
    torch.set_num_threads(1)
    keep_freed_memory()
    kept = (
        json.loads(options.out.read_text(encoding="utf-8"))
        if options.out.exists()
        else {"files": {}, "results": {}}
    )
    found: dict[str, Any] = kept["results"]
    for model in options.models.split(","):
        erm = Side("erm", model)
        rounds = max(2, round(options.rounds * MODELS[model][1]))
        for name in options.methods.split(","):
            if not takes(name, model):
                continue
            entry = measured(name, model, erm, rounds)
            found.setdefault(name, {})[model] = entry
            kept["files"][name] = sha256_of(name)
            print(
                f"{model:11} {name:14} time {entry['time']:.3f}"
                f" ({entry['low']:.2f}-{entry['high']:.2f})  arithmetic {entry['flops']:.3f}  views"
                f" {entry['views']:.2f}  time / arithmetic {over(entry):.3f}"
                f" ({over(entry | {'time': entry['low']}):.3f}"
                f"-{over(entry | {'time': entry['high']}):.3f})  memory"
                f" {entry['memory']:.2f}  ERM {entry['ms']:.1f} ms",
                flush=True,
            )
        if options.no_record:
            continue
        keep(options.out, kept)  # a long measurement that is stopped has what it measured


def keep(path: Path, kept: dict[str, Any]) -> None:
    """Write the record, whole or not at all."""
    from benchmarks.speed.study import machine

    found = kept["results"]
    ordered = {
        name: {model: found[name][model] for model in MODELS if model in found[name]}
        for name in sorted(found)
    }
    whole = {
        "machine": machine(),
        "settings": {
            "batch": BATCH,
            "rows": ROWS,
            "run": RUN,
            "models": {model: MODELS[model][0] for model in MODELS},
        },
        "files": dict(sorted(kept["files"].items())),
        "results": ordered,
    }
    # What carry.py noted of hashes, of methods that were not measured since.
    if carried := [
        item
        for item in kept.get("carried", [])
        if set(item["new"].items()) & set(kept["files"].items())
    ]:
        whole["carried"] = carried
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_suffix(".part")
    staged.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    staged.replace(path)


if __name__ == "__main__":
    main()
