"""The cores, number formats and vector instructions of this machine's processor. Never imports
torch, so that a plan can say it."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from functools import cache
from pathlib import Path

__all__ = [
    "has_bfloat16",
    "processor_name",
    "slow_bfloat16",
    "told_by_linux",
    "usable_cores",
    "vector_level",
]

_FLAGS = {
    # The last only converts; torch computes in float32 there, and hardly slower.
    "x86_64": {"avx512_bf16", "amx_bf16", "avx_ne_convert"},
    "aarch64": {"bf16", "svebf16"},
}
"""What Linux calls the instructions."""
_WITHOUT = ("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX512_CORE", "AVX512_CORE_VNNI")
"""Values of ONEDNN_MAX_CPU_ISA under which torch's kernels use no bfloat16 instruction."""
_VECTORS = {
    "x86_64": {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sse2": "SSE2"},
    "aarch64": {"sve": "SVE", "asimd": "NEON"},
}
"""What Linux calls the instructions for vectors, the widest first, and what everybody does."""


def usable_cores() -> int:
    """The cores that this process may use; those of the machine where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def has_bfloat16() -> bool | None:
    """Whether torch computes bfloat16 by instructions of this processor; None where the system does
    not say."""
    if os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in _WITHOUT:
        return False
    return _instructions()


def slow_bfloat16() -> str:
    """The warning where bfloat16 is asked of this processor, going on from "asks for bfloat16";
    empty where there is no reason."""
    if has_bfloat16() is not False:
        return ""
    return (
        "and this processor has no instructions for it (avx512_bf16 or amx_bf16 of x86, bf16 of"
        " ARM): expect it to be slower than float32, 7 to 14 times where there is no AVX-512 either"
    )


@cache
def _instructions() -> bool | None:
    if sys.platform == "darwin":
        if platform.machine() == "arm64":
            return _told_by_darwin()
        return False
    return told_by_linux(_cpuinfo(), platform.machine())


def told_by_linux(text: str, machine: str) -> bool | None:
    """The same by the text of /proc/cpuinfo: all processors of a machine have what the first
    has."""
    flags = _field(text, "flags", "Features")
    if flags is None or machine not in _FLAGS:
        return None
    return not _FLAGS[machine].isdisjoint(flags.split())


def vector_level(text: str | None = None, machine: str = "") -> str | None:
    """The widest instructions for vectors, `AVX-512`, `AVX2`, `AVX`, `SSE2`, `SVE` or `NEON`; None
    where the system does not say. `text`: that of /proc/cpuinfo, else it is read."""
    machine = machine or platform.machine()
    if sys.platform == "darwin" and machine == "arm64":
        return "NEON"
    flags = _field(_cpuinfo() if text is None else text, "flags", "Features")
    if flags is None:
        return None
    levels = _VECTORS.get(machine, {})
    for flag, level in levels.items():
        if flag in flags.split():
            return level
    return None


def processor_name(text: str | None = None) -> str:
    """The name that the processor gives itself, else its architecture. `text`: as of
    `vector_level`."""
    model = _field(_cpuinfo() if text is None else text, "model name")
    return model or platform.processor() or platform.machine()


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        return ""


def _field(text: str, *names: str) -> str | None:
    """The value of the first line of /proc/cpuinfo that begins with one of these names."""
    line = next((line for line in text.splitlines() if line.startswith(names)), None)
    if line is None:
        return None
    return line.partition(":")[2].strip()


def _told_by_darwin() -> bool | None:
    value = ctypes.c_int(0)
    size = ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
    status = ctypes.CDLL(None).sysctlbyname(
        b"hw.optional.arm.FEAT_BF16", ctypes.byref(value), ctypes.byref(size), None, 0
    )
    if status == 0:
        return value.value == 1
    return None
