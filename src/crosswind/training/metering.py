"""The meters of a run: its seconds by what they went on, its images a second, and the most memory
that it held."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from crosswind.training.memory import forget_peak, peak_memory

PARTS = ("prepare", "data", "step", "evaluation", "waiting")
"""What seconds go on; those that none of these claims are `other`."""


class Meter:
    """The clock and the memory of one run, from when it is made; earlier tries of the run are added
    by `restore`.

    `prepare`: data set, split, model, rows, and what an earlier try left. `data`: making batches.
    `step`: forward, backward, optimiser, and what a method does between its stages; on an
    accelerator also what the device had still to do when the host had queued everything.
    `evaluation`: validations and the final predictions. `waiting`: the loop stood still, for a
    batch that was being made, for another worker that held the data, or for a checkpoint to reach
    the disk.
    """

    def __init__(self, *, inside: bool = False) -> None:
        """`inside`: of a training inside another run, which goes on with its own peak of memory."""
        self._started = time.perf_counter()
        self.seconds = dict.fromkeys((*PARTS, "validation"), 0.0)
        self.images = 0
        self._waited = 0.0
        self._inside = inside
        self._earlier: dict[str, float] = {}
        self._readers: list[Any] = []
        self._own_peak = not inside and forget_peak()
        self._cuda = ""

    def on(self, device: str) -> None:
        """The run is on this device: on CUDA it is the device's memory that counts."""
        import torch

        if torch.device(device).type == "cuda":
            self._cuda = device
            if not self._inside:
                torch.cuda.reset_peak_memory_stats(device)

    def watch(self, *readers: Any) -> None:
        """Rows that may wait, and whose `waited` says for how many seconds they have."""
        self._readers += readers

    @contextmanager
    def part(self, name: str, *within: str) -> Iterator[None]:
        """Count the seconds of the block as `name`, and as the parts `within` it; without those in
        which a reader waited."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            taken = time.perf_counter() - begun
            for part_name in (name, *within):
                self.seconds[part_name] += taken
            self.settle(name, *within)

    def settle(self, *parts: str) -> None:
        """Count the seconds that readers waited since the last time as waiting and no longer as
        these parts."""
        waited = math.fsum(reader.waited for reader in self._readers)
        since = waited - self._waited
        self._waited = waited
        moved = min([since, *(self.seconds[part_name] for part_name in parts)])
        for part_name in parts:
            self.seconds[part_name] -= moved
        self.seconds["waiting"] += moved

    def leave_out(self, seconds: float) -> None:
        """These seconds, which no part claimed, are none of the run's."""
        self._started += seconds

    def include(self, inner: Meter) -> None:
        """Add what a training inside this run took: the base that a method trains first."""
        for name, seconds in inner.seconds.items():
            self.seconds[name] += seconds
        # Replaced by `restore`: what this run saved holds it already.
        self._earlier = dict(inner._earlier)
        self.images += inner.images

    def total(self) -> float:
        """Seconds since the run began, in all its tries."""
        return time.perf_counter() - self._started + self._earlier.get("total", 0.0)

    def saved(self) -> dict[str, float]:
        """The state for `restore`."""
        return {**self._whole(), "total": self.total(), "peak": float(self._peak())}

    def restore(self, saved: Mapping[str, float]) -> None:
        """Go on from what an earlier try saved."""
        self._earlier = dict(saved)

    def cost(self) -> dict[str, float]:
        """`PART_seconds` of every part and of `other`, which add up to `total_seconds`;
        `validation_seconds` of the evaluation.

        `images_per_second`: `images` (steps x batch) by the seconds of data, step and waiting.
        `peak_memory_bytes`: the most that the process held during the run, whatever of it was there
        before, or the most that was allocated on a CUDA device. `peak_memory_of_run` is 0 where the
        system tells only the peak of the process's whole life.
        """
        seconds = self._whole()
        claimed = math.fsum(seconds[part_name] for part_name in PARTS)
        total = max(self.total(), claimed)
        busy = seconds["data"] + seconds["step"] + seconds["waiting"]
        images_per_second = self.images / busy if busy else 0.0
        peak_memory_bytes = float(self._peak())
        peak_memory_of_run = float(bool(self._cuda) or self._own_peak)
        images = float(self.images)
        other_seconds = total - claimed
        return {
            **{f"{name}_seconds": value for name, value in seconds.items()},
            "other_seconds": other_seconds,
            "total_seconds": total,
            "images": images,
            "images_per_second": images_per_second,
            "peak_memory_bytes": peak_memory_bytes,
            "peak_memory_of_run": peak_memory_of_run,
        }

    def _whole(self) -> dict[str, float]:
        return {name: value + self._earlier.get(name, 0.0) for name, value in self.seconds.items()}

    def _peak(self) -> float:
        if not self._cuda:
            return max(peak_memory(), self._earlier.get("peak", 0.0))
        import torch

        return max(torch.cuda.max_memory_allocated(self._cuda), self._earlier.get("peak", 0.0))


def finished_work(device: str) -> None:
    """Return when an accelerator has done all that was queued on it; on the processor that is so at
    once."""
    import torch

    if torch.device(device).type != "cpu":
        torch.accelerator.synchronize(torch.device(device))
