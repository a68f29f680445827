"""The device a run is trained on: whether it is here, and how it is made to repeat its numbers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from crosswind.core.errors import InputError
from crosswind.core.processor import slow_bfloat16, usable_cores
from crosswind.training.settings import WORKER_VARIABLE, TrainingSettings


def check_device(device: str) -> None:
    """Refuse a device that is not here: an `InputError` on `training.device`."""
    try:
        torch.empty(0, device=device)
    except (
        RuntimeError,
        AssertionError,
    ):  # what torch raises for a word it does not know, and for a device that is not there
        raise InputError("training.device", f"torch finds no device {device!r} here") from None


def check_devices(device: str, count: int) -> None:
    """Refuse a run on more devices of a kind than are here: an `InputError` on
    `training.devices`."""
    check_device(device)
    available = torch.cuda.device_count() if device == "cuda" else usable_cores()
    if count > available:
        kind = "graphics cards" if device == "cuda" else "processors"
        raise InputError("training.devices", f"is {count}, and this machine has {available} {kind}")


def slow_precision(precision: str, device: str) -> str:
    """The warning where this precision is asked of a device that only imitates it, going on from
    "asks for ..."; else empty."""
    if precision != "bf16":
        return ""
    kind = torch.device(device).type
    if kind == "cpu":
        return slow_bfloat16()
    if kind != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False):
        return ""
    return "and this GPU only imitates it: expect it to be slower than fp32"


def own_device(device: str, rank: int = 0, count: int = 1) -> str:
    """The device of this process where a study names only its kind: worker i of a pool takes GPU i
    modulo their number. Of a run on `count` devices rank r takes GPU i x count + r.

    By its index and not as torch's current device, which every thread of a process has for itself.
    """
    worker = os.environ.get(WORKER_VARIABLE, "")
    if device != "cuda" or not (worker.isdecimal() or count > 1):
        return device
    first = int(worker) * count if worker.isdecimal() else 0
    return f"cuda:{(first + rank) % max(1, torch.cuda.device_count())}"


@contextmanager
def reproducible(settings: TrainingSettings) -> Iterator[None]:
    """Deterministic algorithms and the arithmetic that the settings name; torch's generator is
    afterwards what it was.

    On CUDA `fp32` is float32: torch's own default is TF32, with 10 bits, in convolutions.
    """
    cuda = torch.device(settings.device).type == "cuda"
    if cuda:
        # Without it cuBLAS may choose another algorithm at each call; it is read when the first
        # handle is made.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    filling = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    _deterministic(True, warn_only=cuda)  # some operations have no deterministic form on CUDA
    # It would write NaN into every new tensor, at a price.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    generator = torch.default_generator.get_state()
    switches = _cuda_switches(settings.precision == "tf32") if cuda else []
    saved_switches = [(switch, read()) for read, switch, _ in switches]
    for _, switch, value in switches:
        switch(value)
    try:
        yield
    finally:
        for switch, value in saved_switches:
            switch(value)
        torch.default_generator.set_state(generator)
        _deterministic(before[0], warn_only=before[1])
        torch.utils.deterministic.fill_uninitialized_memory = filling  # type: ignore[attr-defined]


def _cuda_switches(tf32: bool) -> list[tuple[Callable[[], bool], Callable[[bool], None], bool]]:
    """The reader of a switch, its setter, and the value that it is to have."""
    attention = torch.backends.cuda
    return [
        (
            lambda: torch.backends.cudnn.allow_tf32,
            lambda on: setattr(torch.backends.cudnn, "allow_tf32", on),
            tf32,
        ),
        (
            lambda: attention.matmul.allow_tf32,
            lambda on: setattr(attention.matmul, "allow_tf32", on),
            tf32,
        ),
        # These kernels of attention add up in whatever order their blocks end.
        (attention.mem_efficient_sdp_enabled, attention.enable_mem_efficient_sdp, False),
        (attention.cudnn_sdp_enabled, attention.enable_cudnn_sdp, False),
    ]


def _deterministic(mode: bool, *, warn_only: bool) -> None:
    if "torch._inductor" in sys.modules:
        torch.use_deterministic_algorithms(mode, warn_only=warn_only)
    else:
        # What the public function does but for telling the compiler, which it would import: a
        # second and more of every process.
        torch._C._set_deterministic_algorithms(mode, warn_only=warn_only)
