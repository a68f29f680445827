"""A source that writes down which rows it draws, and a job that only looks at pixels; both work in
processes of a pool."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import Source
from crosswind.execution.engines import Workspace

MODULE = "tests.execution.counted"
LOG = "CROSSWIND_TESTS_LOG"
SHAPE = (16, 16, 3)
NAME = "counted-pictures"


@register(NAME, kind="source")
@dataclass(frozen=True)
class CountedPictures(Source):
    """Noise around a brightness that tells the class; every drawing of a row is a line in the file
    that LOG names."""

    rows: int = knob(3000, domain="[8, inf)")

    def load(self) -> AttributedDataset:
        codes = np.stack([np.arange(self.rows) % 2, np.arange(self.rows) // 2 % 2]).astype(np.uint8)
        table = AttributeTable(
            (Attribute("light", ("dark", "bright")), Attribute("tint", ("red", "blue"))), codes
        )
        return AttributedDataset(f"counted-{self.rows}", table, drawn, InputSpec.image(*SHAPE))


def drawn(rows: np.ndarray) -> np.ndarray:
    text = "".join(f"{os.getpid()} {row}\n" for row in rows).encode()
    log = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, text)
    os.close(log)
    time.sleep(0.01)
    return picture(rows)


def picture(rows: np.ndarray) -> np.ndarray:
    noise = (rows[:, None] * 7919 + np.arange(np.prod(SHAPE)) * (rows[:, None] % 17 + 3)) % 120
    return (noise + 100 * (rows[:, None] % 2)).astype(np.uint8).reshape(-1, *SHAPE)


def execute(kind: str, spec: Mapping[str, Any], workspace: Workspace) -> dict[str, Any]:
    """Hold `spec["rows"]` rows and tell a digest of them; with `dies`, the first try ends as the
    first rows are drawn."""
    from crosswind.core.registry import load
    from crosswind.core.types import digest_arrays
    from crosswind.data.resident import ResidentRows

    data = load("sources", NAME)().load()
    if spec.get("dies") and not workspace.checkpoint.exists():
        workspace.checkpoint.write_text("tried")

        def falls(rows: np.ndarray) -> np.ndarray:
            os.kill(os.getpid(), signal.SIGKILL)
            return drawn(rows)

        object.__setattr__(data, "read", falls)
    rows = np.arange(spec["rows"])
    resident = ResidentRows(data, rows, evaluation=False)
    resident.bring()
    pixels_digest = digest_arrays({"pixels": resident.take(rows)})
    handles = [os.path.realpath(f"/proc/self/fd/{entry}") for entry in os.listdir("/proc/self/fd")]
    return {
        "status": "finished",
        "scores": [],
        "cost": {
            "held": resident.held(),
            "digest": pixels_digest,
            "regions": sum("crosswind-pixels" in name for name in handles),
        },
    }
