"""Convolutions onto small maps: torch's own against the matrix products of `models.convolution`,
pass by pass.

    python -m benchmarks.speed.convolution [--rounds 9] [--batch 128]

For the convolutions of ResNet18 and resnet-w16 at 64 pixels, in float32 and bfloat16,
channels-last, one thread: CPU time of the forward pass, and of both passes, alternately; the ratio
torch / ours of each round, median and range. `own` says which the model takes there; where it is
"torch", the ratio is 1 but for noise. The limits in the module come from here.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from crosswind.models.networks.convolution import with_small_map_convolutions
from crosswind.training.memory import keep_freed_memory

# in, out, side, kernel, stride, padding
SHAPES = [
    (512, 512, 2, 3, 1, 1),
    (256, 512, 4, 3, 2, 1),
    (256, 512, 4, 1, 2, 0),
    (256, 256, 4, 3, 1, 1),
    (128, 256, 8, 3, 2, 1),
    (128, 128, 8, 3, 1, 1),
    (128, 128, 4, 3, 1, 1),
    (64, 128, 8, 3, 2, 1),
    (64, 64, 8, 3, 1, 1),
]


def timed(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return 1000 * (time.process_time() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    columns = f"{'kind':6}{'in':>5}{'out':>5}{'side':>5}{'kernel':>7}{'stride':>7}"
    print(f"{columns}  own    forward: torch ms, ratio      both passes: torch ms, ratio")
    for kind in (torch.float32, torch.bfloat16):
        for before, after, side, kernel, stride, padding in SHAPES:
            theirs = (
                nn.Conv2d(before, after, kernel, stride, padding, bias=False)
                .to(kind)
                .to(memory_format=torch.channels_last)
            )
            ours = with_small_map_convolutions(copy.deepcopy(theirs))
            x = (
                torch.randn(options.batch, before, side, side)
                .to(kind)
                .to(memory_format=torch.channels_last)
                .requires_grad_()
            )
            errors = torch.randn_like(theirs(x))

            def forward(model: nn.Module, x: torch.Tensor = x) -> None:
                with torch.inference_mode():
                    model(x)

            def both(model: nn.Module, x: torch.Tensor = x, errors: torch.Tensor = errors) -> None:
                model.weight.grad = x.grad = None
                model(x).backward(errors)

            own = "ours" if type(ours(x).grad_fn).__name__ == "_ConvolutionBackward" else "torch"
            name = "bf16" if kind == torch.bfloat16 else "fp32"
            line = f"{name:6}{before:5}{after:5}{side:5}{kernel:7}{stride:7}  {own:5}"
            for passes in (forward, both):
                found = []
                for turn in range(options.rounds + 1):
                    pair = timed(partial(passes, theirs)), timed(partial(passes, ours))
                    if turn:
                        found.append(pair)
                ratios = [a / b for a, b in found]
                first = statistics.median(a for a, _ in found)
                line += (
                    f"{first:9.1f} {statistics.median(ratios):6.2f}"
                    f" ({min(ratios):.2f}-{max(ratios):.2f})"
                )
            print(line, flush=True)


if __name__ == "__main__":
    main()
