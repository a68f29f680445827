"""Packages from outside: a folder that looks as `pip install` leaves it, and the command line with
it on its path."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

METHOD = '''
"""A method of somebody else."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy

from crosswind.core.knobs import Limit, Needs, knob
from crosswind.core.registry import register
from crosswind.methods.base import Batch, Loss, Method, Modules, State


@register("smoothed", kind="method")
@dataclass(frozen=True)
class Smoothed(Method):
    """Cross-entropy with smoothed labels, from another package."""

    amount: float = knob(0.1, domain="[0, 1)", source="Szegedy et al. 2016", doc="share of the label spread over all classes")
    needs = Needs()
    limit = Limit({"amount": 0.0})

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        return Loss(cross_entropy(modules["model"](batch.x), batch.y, label_smoothing=self.amount))
'''


def install(
    folder: Path, files: Mapping[str, str], points: Mapping[str, str], name: str = "acme"
) -> Path:
    """Write a distribution `name` with `files` and entry points of the group `crosswind`; gives the
    folder for the path."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    facts = folder / f"{name}-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8"
    )
    lines = "".join(f"{point} = {module}\n" for point, module in points.items())
    (facts / "entry_points.txt").write_text(f"[crosswind]\n{lines}", encoding="utf-8")
    return folder


def command() -> list[str]:
    """The command line as a program of this interpreter."""
    return [sys.executable, "-c", "from crosswind.cli.main import main; main()"]


def environment(folder: Path | None) -> dict[str, str]:
    """The environment of a program that has `folder` on its path."""
    return os.environ if folder is None else {**os.environ, "PYTHONPATH": str(folder)}  # type: ignore[return-value]


def crosswind(
    *arguments: object, path: Path | None = None, timeout: float = 240.0
) -> subprocess.CompletedProcess[str]:
    """Run `crosswind ARGUMENTS` to its end, with `path` on the path of Python."""
    words = [*command(), *map(str, arguments)]
    return subprocess.run(
        words, env=environment(path), capture_output=True, text=True, check=False, timeout=timeout
    )
