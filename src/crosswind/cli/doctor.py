"""`crosswind doctor`: what is installed, what this machine is and where data lie; the text to paste
into a report of a fault.

It holds no secret: of the environment only the variables of `SHOWN_VARIABLES` are read, and the home
folder is `~`.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import typer

from crosswind.cli.options import AsJson, Root, print_json
from crosswind.core.errors import one_line
from crosswind.core.extras import EXTRAS, installed_version, missing_distributions

LIBRARIES = ("torch", "torchvision", "numpy", "polars", "scikit-learn", "pydantic", "sqlalchemy")
"""Distributions whose versions decide numbers or how files are read."""
SHOWN_VARIABLES = (
    "CROSSWIND_CUDA_GRAPHS",
    "CUDA_VISIBLE_DEVICES",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "ONEDNN_MAX_CPU_ISA",
    "OPENBLAS_CORETYPE",
    "PYTHONUTF8",
)
"""Variables of the environment that change numbers or speed and are never secret."""


def doctor_command(as_json: AsJson = False, root: Root = None) -> None:
    """Say what is installed, what this machine is and where data lie: the text to paste into a
    report of a fault.

    It holds no secret: no variable of the environment but a few that say how many threads or which
    device to use, and `~` for the home folder.
    """
    facts = installation(root)
    if as_json:
        print_json(facts)
        return
    for line in lines(facts):
        typer.echo(line)


def installation(root: str | None = None) -> dict[str, Any]:
    """The installation as plain values: `versions` by name, `platform`, `processor`, `vectors`,
    `cores`, `memory` in bytes, `device`, `missing_extras` (name -> what for, and the command),
    `plugins`, `folders`, `variables`. `root`: as of `crosswind prepare`.

    What cannot be looked at is said in words in its place; nothing here raises.
    """
    from importlib.metadata import entry_points

    from crosswind import __version__
    from crosswind.core.processor import processor_name, usable_cores, vector_level

    versions = {"crosswind": __version__, "python": platform.python_version()}
    versions |= {name: installed_version(name) or "not installed" for name in LIBRARIES}
    plugins = sorted(f"{point.name} = {point.value}" for point in entry_points(group="crosswind"))
    variables = {name: os.environ[name] for name in SHOWN_VARIABLES if name in os.environ}
    vectors = vector_level() or "unknown"
    return {
        "versions": versions,
        "platform": platform.platform(),
        "processor": processor_name(),
        "vectors": vectors,
        "cores": usable_cores(),
        "memory": _looked_at(_memory),
        "torch": _looked_at(_torch),
        "device": _looked_at(_device),
        "missing_extras": _missing_extras(),
        "plugins": plugins,
        "folders": _folders(root),
        "variables": variables,
    }


def lines(facts: dict[str, Any]) -> list[str]:
    """The facts of `installation` as text, one line each."""
    versions = dict(facts["versions"])
    memory = facts["memory"]
    if isinstance(memory, int):
        memory_words = f"{memory / 2**30:.1f} GiB"
    else:
        memory_words = memory
    text = [
        f"crosswind {versions.pop('crosswind')}, Python {versions.pop('python')}",
        "libraries: " + ", ".join(f"{name} {version}" for name, version in versions.items()),
        f"platform: {facts['platform']}",
        f"processor: {facts['processor']}, vectors {facts['vectors']}, {facts['cores']} cores",
        "memory: " + memory_words,
        f"torch: {facts['torch']}",
        f"device of `auto`: {facts['device']}",
    ]
    missing = facts["missing_extras"]
    text += [
        f"not installed: {name}, for {extra['purpose']} ({extra['command']})"
        for name, extra in missing.items()
    ] or ["every extra is installed"]
    text.append("plug-ins: " + (", ".join(facts["plugins"]) or "none"))
    text += [f"{name}: {folder}" for name, folder in facts["folders"].items()]
    named = ", ".join(f"{name}={value}" for name, value in facts["variables"].items())
    return [one_line(line) for line in [*text, f"variables: {named or 'none that matter'}"]]


def _looked_at(look: Callable[[], Any]) -> Any:
    """The value of `look`, or in words why it gives none: a broken library is what a doctor is
    for."""
    try:
        return look()
    except Exception as error:
        return (
            f"cannot be looked at, {type(error).__name__}: {one_line(_homeless(str(error)), 200)}"
        )


def _memory() -> int:
    from crosswind.data.budget import usable_memory

    return usable_memory()


def _torch() -> str:
    import torch

    built_for = "no CUDA"
    if torch.version.cuda:
        built_for = f"CUDA {torch.version.cuda}"
    level = torch.backends.cpu.get_cpu_capability()
    return f"built for {built_for}, computes with {level} in {torch.get_num_threads()} threads"


def _device() -> str:
    from crosswind.training.automatic_device import auto_device

    device = auto_device()
    if device != "cuda":
        return device
    import torch

    cards = [torch.cuda.get_device_name(card) for card in range(torch.cuda.device_count())]
    return f"cuda ({', '.join(cards)})"


def _missing_extras() -> dict[str, dict[str, Any]]:
    missing_extras: dict[str, dict[str, Any]] = {}
    for name, extra in EXTRAS.items():
        if missing_distributions(name):
            command = f"pip install 'crosswind[{name}]'"
            missing_extras[name] = {
                "purpose": extra.purpose,
                "packages": missing_distributions(name),
                "command": command,
            }
    return missing_extras


def _folders(root: str | None) -> dict[str, str]:
    from crosswind.core.files import root_folder
    from crosswind.data.decoded_files import decoded_folder
    from crosswind.models.language.chat_cache import cache_file as answers_file
    from crosswind.models.language.feature_cache import features_folder
    from crosswind.reports.charts import cache_file as script_file

    places: dict[str, Callable[[], Path | None]] = {
        "prepared data": lambda: root_folder(root),
        "decoded pictures": lambda: decoded_folder(root),
        "answers of endpoints": answers_file,
        "features of frozen networks": features_folder,
        "script of charts": script_file,
        "package": lambda: Path(__file__).parents[1],
        "python": lambda: Path(sys.executable),
    }
    return {name: _looked_at(partial(_place, look)) for name, look in places.items()}


def _place(look: Callable[[], Path | None]) -> str:
    path = look()
    if path is None:
        return "nowhere, since there is no home folder"
    return _homeless(str(path)) + ("" if path.exists() else " (not there yet)")


def _homeless(text: str) -> str:
    """`text` with `~` for the home folder: its name is a person's."""
    home = os.path.expanduser("~").rstrip("/\\")
    if home not in ("", "~"):
        return re.sub(re.escape(home) + r"(?![\w.-])", "~", text)
    return text
