"""Whether the CPU kernels that the loop asks for keep to their memory and to their values, on
processors of several kinds.

    python -m tools.kernel_safety [--share 0.05] [--levels default,avx2] [--kinds conv,ours] [--record FILE]

Every case is computed in a child process whose C library watches its heap (MALLOC_CHECK_, where
there is glibc) and fills what is not written yet with large numbers (MALLOC_PERTURB_), and is
compared with float64 in contiguous memory, which other kernels compute. A child that dies is
replaced; which case it died of is found by computing the last ones by themselves. Levels limit the
instructions that torch and oneDNN use (ATEN_CPU_CAPABILITY, ONEDNN_MAX_CPU_ISA), so that a newer
processor shows what an older one does; a level above the processor's is the processor's own. The
record holds every case, and a second run goes on where the first one ended.

`conv` is torch's own convolution over channels 1-17, kernels 1-7, strides 1-3, sides 1-33 in both
layouts, `ours` the same as `build_model` makes them; `low` those of
`build_model` in bfloat16, grouped and depthwise ones too; `odd` are grouped, depthwise, transposed
and bfloat16 ones of torch; `folded`, `optimiser`, `stack` and `fourier` what `batchnorm_folding`, `run_context`,
`many_networks` and `l2d` ask for. All but torch's own run with the memory settings of
`training/memory.py`.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

LEVELS = {
    "default": {},
    "avx512": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "ATEN_CPU_CAPABILITY": "avx512"},
    "avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
    "plain": {"ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default"},
}
WATCH = {
    "LD_PRELOAD": "libc_malloc_debug.so.0",
    "MALLOC_CHECK_": "3",
    "MALLOC_PERTURB_": "1",
    "OMP_NUM_THREADS": "1",
}
KINDS = ("conv", "ours", "low", "odd", "folded", "optimiser", "stack", "fourier")
WRONG = 1e-4
"""Of the largest value: float32 sums of up to a few thousand terms differ from float64 by less than
a tenth of it."""
WRONG_BF16 = 0.1
"""Of a few terms of eight bits each; memory that was not written is far beyond it."""
SUSPECTS, REPEATS = 10, 20
"""Cases before a death that are looked at, and how often each is then computed."""
ONE_OF = ", none by itself, one of "
"""In the outcome of a death, before the cases of which one has damaged the heap."""
BATCHES, OUTPUTS = (1, 2, 8), (1, 4, 8, 17)

Case = list[Any]


# -- which cases there are: plain values, so that the parent needs no torch ------------------------


def cases_of(kind: str) -> list[Case]:
    """Every case of a kind; what is not on the grid's axes goes round with them."""
    if kind in ("conv", "ours"):
        grid = product(range(1, 18), range(1, 8), range(1, 4), range(1, 34), ("last", "first"))
        return [[*case, BATCHES[i % 3], OUTPUTS[i // 3 % 4]] for i, case in enumerate(grid)]
    if kind == "low":
        axes = ("plain", "depthwise", "grouped"), range(1, 18), (1, 2, 3, 5), (1, 2, 3)
        return [list(case) for case in product(*axes, (1, 2, 3, 5, 8), ("last", "first"))]
    if kind == "odd":
        forms = ("depthwise", "grouped", "transposed", "bfloat16", "rectangle", "valid")
        return [
            list(case)
            for case in product(
                forms, range(1, 18), (1, 2, 3, 4), (1, 2, 3), (1, 2, 5, 8, 16), ("last", "first")
            )
        ]
    if kind == "folded":
        return [
            list(case) for case in product((1, 2), range(1, 18), (4, 8, 9, 16), ("last", "first"))
        ]
    if kind == "optimiser":
        return [
            list(case)
            for case in product(
                ("adam", "adamw", "sgd"), range(1, 18), (1, 2, 3), ("last", "first")
            )
        ]
    if kind == "stack":
        return [
            list(case) for case in product(("adam", "sgd"), range(1, 18), (1, 3, 8), (1, 5, 16))
        ]
    return [list(case) for case in product((1, 3), range(1, 8), range(7, 34), (1, 4))]


def sampled(kind: str, share: float, seed: int) -> list[Case]:
    """A share of the cases, drawn; strided convolutions of kernel 1 in channels-last memory are
    four times as likely."""
    draws = random.Random(f"{kind} {seed}")
    chosen = []
    for case in cases_of(kind):
        suspected = kind in ("conv", "ours") and case[1] == 1 and case[2] > 1 and case[4] == "last"
        if draws.random() < (4 * share if suspected else share):
            chosen.append(case)
    return chosen


# -- the child: one case at a time, its largest relative error printed -----------------------------


def child(kind: str) -> None:
    """Read cases, a line each, and print the error of each."""
    import torch

    from crosswind.core.errors import InputError

    torch.set_num_threads(1)
    if kind not in ("conv", "odd"):
        from crosswind.training.memory import keep_freed_memory

        keep_freed_memory()
    compute = globals()[f"_{kind}"]
    for line in sys.stdin:
        torch.manual_seed(0)
        try:
            error = compute(*json.loads(line))
        except (
            RuntimeError,
            InputError,
        ) as problem:  # such as a kernel larger than its padded input
            print(json.dumps(f"refused: {str(problem)[:60]}"), flush=True)
            continue
        print(json.dumps(error), flush=True)


def _errors(network: Any, x: Any, last: bool, low: bool = False) -> float:
    """The largest error of output, input gradient and parameter gradients, as shares of the largest
    value of each."""
    import torch

    memory = torch.channels_last if last else torch.contiguous_format
    exact_network, exact_x = copy.deepcopy(network).double(), x.double().requires_grad_()
    network.to(memory_format=memory)
    x = x.contiguous(memory_format=memory).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
        out = network(x)
    slope = torch.randn(out.shape).to(out.dtype)
    out.backward(slope.contiguous(memory_format=memory))
    exact = exact_network(exact_x)
    exact.backward(slope.double())
    pairs = [(out, exact), (x.grad, exact_x.grad)]
    pairs += [
        (p.grad, q.grad)
        for p, q in zip(network.parameters(), exact_network.parameters(), strict=True)
    ]
    return max(_share(value, true) for value, true in pairs)


def _share(value: Any, true: Any) -> float:
    if not value.isfinite().all():
        return float("inf")
    value, true = value.detach().double(), true.detach()
    return (
        float((value - true).abs().max() / true.abs().max().clamp(min=1e-6))
        if true.numel()
        else 0.0
    )


def _conv(
    channels: int, kernel: int, stride: int, side: int, layout: str, batch: int, outputs: int
) -> float:
    import torch

    network = torch.nn.Conv2d(channels, outputs, kernel, stride, kernel // 2)
    return _errors(network, torch.randn(batch, channels, side, side), layout == "last")


def _ours(
    channels: int, kernel: int, stride: int, side: int, layout: str, batch: int, outputs: int
) -> float:
    import torch

    from crosswind.models.networks.convolution import with_small_map_convolutions

    network = with_small_map_convolutions(
        torch.nn.Conv2d(channels, outputs, kernel, stride, kernel // 2)
    )
    return _errors(network, torch.randn(batch, channels, side, side), layout == "last")


def _low(form: str, channels: int, kernel: int, stride: int, side: int, layout: str) -> float:
    import torch

    from crosswind.models.networks.convolution import with_small_map_convolutions

    channels_in, groups = {
        "plain": (channels, 1),
        "depthwise": (channels, channels),
        "grouped": (2 * channels, 2),
    }[form]
    channels_out = channels if form == "depthwise" else 8
    layer = torch.nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, groups=groups)
    x = torch.randn(4, channels_in, side, side)
    return _errors(with_small_map_convolutions(layer), x, layout == "last", low=True)


def _odd(form: str, channels: int, kernel: int, stride: int, side: int, layout: str) -> float:
    import torch

    last, x = layout == "last", torch.randn(4, channels, side, side)
    if form == "depthwise":
        return _errors(
            torch.nn.Conv2d(channels, channels, kernel, stride, kernel // 2, groups=channels),
            x,
            last,
        )
    if form == "grouped":
        wider = torch.randn(4, 2 * channels, side, side)
        return _errors(
            torch.nn.Conv2d(2 * channels, 4 * channels, kernel, stride, kernel // 2, groups=2),
            wider,
            last,
        )
    if form == "transposed":
        return _errors(torch.nn.ConvTranspose2d(channels, 8, kernel, stride), x, last)
    if form == "rectangle":
        return _errors(
            torch.nn.Conv2d(channels, 8, (kernel, 1), (1, stride), (kernel // 2, 0)), x, last
        )
    network = torch.nn.Conv2d(channels, 8, kernel, stride, kernel // 2 if form == "bfloat16" else 0)
    return _errors(network, x, last, low=form == "bfloat16")


def _folded(stride: int, width: int, side: int, layout: str) -> float:
    import torch

    from crosswind.core.types import InputSpec
    from crosswind.models.build import build_model, unnamed
    from crosswind.training.batchnorm_folding import evaluated

    knobs = {"depth": 1, "width": width, "stride": stride}
    model = build_model("cifar-resnet", knobs, InputSpec.image(side, side, 3), unnamed(3), 0).eval()
    x = torch.randn(5, 3, side, side)
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, torch.nn.BatchNorm2d):
                part.running_mean.normal_()
                part.running_var.uniform_(0.5, 2)
        exact = copy.deepcopy(model).double()(x.double())
        memory = torch.channels_last if layout == "last" else torch.contiguous_format
        model.to(memory_format=memory)
        return _share(
            evaluated(
                {"m": model}, "fp32", lambda made: made["m"](x.contiguous(memory_format=memory))
            ),
            exact,
        )


def _optimiser(kind: str, channels: int, kernel: int, layout: str) -> float:
    import torch

    from crosswind.methods.base import Batch, OptimiserSpec
    from crosswind.training.run_context import Optimiser
    from crosswind.training.settings import TrainingSettings

    network = torch.nn.Conv2d(channels, 5, kernel)
    exact = copy.deepcopy(network).double()
    network.to(memory_format=torch.channels_last if layout == "last" else torch.contiguous_format)
    settings = TrainingSettings(
        optimiser=kind, lr=1e-2, weight_decay=1e-2, momentum=0.9 if kind == "sgd" else 0.0
    )
    x, none = torch.randn(3, channels, 6, 6), torch.zeros(0)
    for item in (network, exact):
        optimiser = Optimiser(OptimiserSpec(list(item.parameters())), settings, alone=True)
        given = x.to(next(item.parameters()).dtype)
        for step in range(3):
            optimiser.step(item(given).square().sum(), Batch(given, none, none, none, step=step))
    return max(
        _share(p.detach(), q.detach())
        for p, q in zip(network.parameters(), exact.parameters(), strict=True)
    )


def _stack(kind: str, width: int, networks: int, rows: int) -> float:
    import torch

    from crosswind.training.many_networks import Member, Stack, train_stack

    made = [
        torch.nn.Sequential(
            torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 3)
        )
        for _ in range(networks)
    ]
    x, y = torch.randn(rows, width), torch.randint(0, 3, (rows,))
    members = [Member(lr=1e-2, seed=seed) for seed in range(networks)]
    stacks = []
    for low in (True, False):
        stack = Stack(made if low else [network.double() for network in copy.deepcopy(made)])
        train_stack(stack, x if low else x.double(), y, members, steps=3, batch=4, optimiser=kind)
        stacks.append(stack)
    return max(
        _share(value, stacks[1].parameters[name]) for name, value in stacks[0].parameters.items()
    )


def _fourier(channels: int, kernel: int, side: int, batch: int) -> float:
    import torch

    from crosswind.methods.l2d import convolved, spread_out

    x, weight = torch.randn(batch, channels, side, side), torch.randn(4, channels, kernel, kernel)
    back, offset = torch.randn(4, channels, kernel, kernel), torch.randn(channels)
    found, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    made = spread_out(convolved(found, [weight])[0], back, offset)
    true = torch.nn.functional.conv_transpose2d(
        torch.conv2d(exact, weight.double()), back.double(), offset.double()
    )
    slope = torch.randn(made.shape)
    made.backward(slope)
    true.backward(slope.double())
    return max(_share(made, true), _share(found.grad, exact.grad))


# -- the parent ------------------------------------------------------------------------------------


def outcomes(kind: str, cases: Sequence[Case], level: str) -> Iterator[tuple[Case, float | str]]:
    """Each case with its error, or with how the child ended that computed it; where none of the
    last ones dies by itself, with these too, in JSON."""
    rest = list(cases)
    while rest:
        answers = _through_a_child(kind, rest, level)
        last = len(answers) - 1
        if _died(answers[last][1]):
            # What a case has written over may be found out by a later one.
            suspects = range(last, max(-1, last - SUSPECTS), -1)
            culprit = next(
                (place for place in suspects if _dies_alone(kind, rest[place], level)), None
            )
            if culprit is None:
                # Whether damage to the heap is noticed is chance: any of them may have done it.
                last_cases = json.dumps([rest[place] for place in suspects])
                answers[last] = (rest[last], f"{answers[last][1]}{ONE_OF}{last_cases}")
            else:
                answers[culprit] = (rest[culprit], answers[last][1])
            if culprit is not None and culprit < last:
                del answers[last]  # to be computed again
        yield from answers
        rest = rest[len(answers) :]


def culprits(case: str, outcome: str) -> str:
    """The case that a child died of, or the list of those of which one may be it, in JSON."""
    _, _, suspects = outcome.partition(ONE_OF)
    return suspects or case


def _died(outcome: float | str) -> bool:
    return isinstance(outcome, str) and outcome.startswith("died")


def _dies_alone(kind: str, case: Case, level: str) -> bool:
    return any(_died(outcome) for _, outcome in _through_a_child(kind, [case] * REPEATS, level))


def _through_a_child(
    kind: str, cases: Sequence[Case], level: str
) -> list[tuple[Case, float | str]]:
    command = [sys.executable, __file__, "--child", kind]
    told = "".join(f"{json.dumps(case)}\n" for case in cases)
    environment = {**os.environ, **WATCH, **LEVELS[level]}
    ended = subprocess.run(
        command, input=told, env=environment, capture_output=True, text=True, check=False
    )
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    if ended.returncode > 0:
        raise SystemExit(ended.stderr)
    if ended.returncode:
        # A heap that is found corrupted at the very end is some case's fault too.
        answers = [*answers[: len(cases) - 1], f"died of signal {-ended.returncode}"]
    return list(zip(cases, answers, strict=False))


def is_wrong(kind: str, case: Case, outcome: float | str) -> bool:
    """Whether a value is further from float64 than rounding explains."""
    low = kind == "low" or (kind == "odd" and case[0] == "bfloat16")
    limit = WRONG_BF16 if low else WRONG
    return not isinstance(outcome, str) and not outcome <= limit


def table(record: dict[str, dict[str, float | str]]) -> list[dict[str, Any]]:
    """A row of every level and kind: cases, and how many of them were refused, died and were wrong;
    the others' largest error."""
    rows = []
    for name, found in record.items():
        level, kind = name.split("/")
        cases = {text: json.loads(text) for text in found}
        died = [text for text, outcome in found.items() if _died(outcome)]
        wrong = [text for text, outcome in found.items() if is_wrong(kind, cases[text], outcome)]
        refused = [
            text
            for text, outcome in found.items()
            if isinstance(outcome, str) and outcome.startswith("refused")
        ]
        right = [
            outcome
            for text, outcome in found.items()
            if not isinstance(outcome, str) and text not in wrong
        ]
        counts = {
            "cases": len(found),
            "of the grid's": len(cases_of(kind)),
            "refused": len(refused),
            "died": len(died),
            "wrong": len(wrong),
        }
        rows.append(
            {
                "level": level,
                "kind": kind,
                **counts,
                "largest error": max(right, default=0.0),
                "of": [*(culprits(text, str(found[text])) for text in died), *wrong],
            }
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--levels", default="default,avx512,avx2,plain")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--share", type=float, default=0.05, help="of the cases, drawn; 1 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--record", type=Path, help="JSON file of all outcomes, gone on with where it is there"
    )
    parser.add_argument("--table", type=Path, help="JSON file of the table")
    parser.add_argument("--child", choices=KINDS)
    options = parser.parse_args(arguments)
    if options.child:
        child(options.child)
        return
    record: dict[str, dict[str, float | str]] = {}
    if options.record and options.record.exists():
        record = json.loads(options.record.read_text(encoding="utf-8"))
    for level, kind in product(options.levels.split(","), options.kinds.split(",")):
        done = record.setdefault(f"{level}/{kind}", {})
        rest = [
            case
            for case in sampled(kind, options.share, options.seed)
            if json.dumps(case) not in done
        ]
        for number, (case, outcome) in enumerate(outcomes(kind, rest, level)):
            done[json.dumps(case)] = outcome
            if options.record and number % 500 == 0:
                _write(options.record, record)
        if options.record:
            _write(options.record, record)
        row = table({f"{level}/{kind}": done})[0]
        print({name: value for name, value in row.items() if name != "of"}, flush=True)
    if options.table:
        about = {"processor": _processor(), "seed": options.seed, "rows": table(record)}
        _write(options.table, about)


def _write(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def _processor() -> str:
    import torch

    return (
        f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}, torch"
        f" {torch.__version__}"
    )


if __name__ == "__main__":
    main()
