"""The device that `training.device: auto` is on this machine. It imports torch only where the
machine has a card or is a Mac, so that study files are checked at once elsewhere."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

__all__ = ["auto_device"]

_ACCELERATORS = ("/proc/driver/nvidia/version", "/dev/nvidia0", "/dev/kfd", "/dev/dxg")
"""Files of a machine whose kernel drives a graphics card that torch may compute on: NVIDIA's, AMD's,
and that of the Windows around a Linux."""


@cache
def auto_device(precision: str = "fp32") -> str:
    """The device that `auto` is on this machine: `cuda` where torch finds one, else `mps`, else `cpu`.

    `precision`: that of the training; MPS has no `fp64`. torch is imported only where the machine
    has a card or is a Mac.
    """
    is_mac = sys.platform == "darwin"
    if (
        not is_mac
        and sys.platform != "win32"
        and not any(Path(name).exists() for name in _ACCELERATORS)
    ):
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if torch.backends.mps.is_available() and precision != "fp64":
        return "mps"
    return "cpu"
