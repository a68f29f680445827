"""Crosswind: a wind tunnel for classifiers.

Public names are imported when they are first asked for, so that `import crosswind` and the command
line start at once.
"""

from __future__ import annotations

import sys
from importlib import import_module

if sys.platform == "win32":  # locks, signals and shared memory of POSIX are used throughout
    _REFUSAL = (
        "Crosswind needs Linux or macOS; on Windows install it inside WSL 2, the Windows Subsystem"
        " for Linux"
    )
    _program = sys.argv[0].replace("\\", "/").rpartition("/")[2].lower()
    # The command imports this module before its own first line: here alone it can end in one
    # sentence. While `python -m crosswind` looks for its module, the program is `-m`.
    if _program == "-m" or _program.partition(".")[0] in ("crosswind", "crosswind-script"):
        print(f"error: {_REFUSAL}", file=sys.stderr)
        sys.exit(2)
    raise ImportError(_REFUSAL)

__all__ = [
    "AttributedDataset",
    "LowDataDrift",
    "Official",
    "Only",
    "SpuriousCorrelation",
    "StudyResults",
    "Systematic",
    "Uniform",
    "UnseenData",
    "__version__",
    "audit",
    "estimate",
    "evaluate",
    "from_frame",
    "from_torch",
    "init",
    "load",
    "load_model",
    "plan",
    "prepare",
    "report",
    "run_study",
    "split",
    "train",
    "with_clusters",
    "with_distinct",
    "with_same",
]

__version__ = "0.1.0"

# public name -> module that defines it; every name also belongs in __all__
_HOMES: dict[str, str] = {
    "AttributedDataset": "crosswind.data.dataset",
    "LowDataDrift": "crosswind.shifts.low_data_drift",
    "Official": "crosswind.shifts.only",
    "Only": "crosswind.shifts.only",
    "SpuriousCorrelation": "crosswind.shifts.spurious_correlation",
    "StudyResults": "crosswind.api",
    "Systematic": "crosswind.shifts.systematic",
    "Uniform": "crosswind.shifts.uniform",
    "UnseenData": "crosswind.shifts.unseen_data",
    "audit": "crosswind.api",
    "estimate": "crosswind.api",
    "evaluate": "crosswind.api",
    "from_frame": "crosswind.data.in_memory",
    "from_torch": "crosswind.data.in_memory",
    "init": "crosswind.api",
    "load": "crosswind.api",
    "load_model": "crosswind.api",
    "plan": "crosswind.api",
    "prepare": "crosswind.api",
    "report": "crosswind.api",
    "run_study": "crosswind.api",
    "split": "crosswind.api",
    "train": "crosswind.api",
    "with_clusters": "crosswind.data.clusters",
    "with_distinct": "crosswind.data.one_value",
    "with_same": "crosswind.data.one_value",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'crosswind' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
