"""Base images as uint8 tensors on a run's device: out of memory where they are held, read ahead in a thread where they are not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.data.resident import ResidentRows
from crosswind.transforms.layout import on_device

__all__ = ["Pixels"]

DEVICE_SHARE = 4
"""A run's rows are copied to an accelerator if they take at most one in so many bytes of what is free there."""


class Pixels:
    """The images of some rows, asked for by place. `waited`: seconds spent so far on waiting for images that were not there."""

    def __init__(self, rows: ResidentRows, device: torch.device) -> None:
        self._rows, self._device = rows, device
        self._waited = 0.0
        self._copied: Tensor | None = None
        self._reader: ThreadPoolExecutor | None = None

    @property
    def waited(self) -> float:
        """Seconds."""
        return self._waited + self._rows.waited

    def copy_to_device(self) -> None:
        """Keep all rows on the accelerator, if this is one and they take a small part of it."""
        n, memory = len(self._rows.rows), self._rows.memory
        if self._device.type != "cuda" or memory is None or not n:
            return
        free, _ = torch.cuda.mem_get_info(self._device)
        if n * memory[0].size * DEVICE_SHARE > free:
            return
        self._copied = torch.empty((n, *memory.shape[1:]), dtype=torch.uint8, device=self._device)
        for part in np.array_split(np.arange(n), max(1, n * memory[0].size >> 26)):
            self._copied[part[0] : part[-1] + 1] = self._to_device(self._rows.take(part))

    def held(self, places: NDArray[np.int64] | None = None) -> bool:
        """Whether the rows at `places` (None: all) need no reading ahead."""
        return self._copied is not None or self._rows.held(places)

    def take(self, places: NDArray[np.int64]) -> Tensor:
        """The images at `places`: uint8 [m, h, w, c] on the device."""
        if self._copied is not None:
            return self._copied.index_select(0, on_device(places, self._device))
        memory = self._rows.memory
        if memory is None or not self._rows.held(places):
            return self._to_device(self._rows.take(places))
        # One gather, straight out of the memory that all processes share.
        found = torch.from_numpy(memory).index_select(0, torch.from_numpy(self._rows.slots[places]))
        return on_device(found, self._device)

    def ahead(self, places: NDArray[np.int64]) -> Future[NDArray[np.uint8]]:
        """Begin to read the images at `places` beside what this thread does; for `arrived`."""
        if self._reader is None:
            # A thread of its own has the number of torch's threads that it is told, not that of the thread that made it.
            threads = partial(torch.set_num_threads, torch.get_num_threads())
            self._reader = ThreadPoolExecutor(1, thread_name_prefix="pixels", initializer=threads)
        return self._reader.submit(self._rows.take, places)

    def arrived(self, coming: Future[NDArray[np.uint8]]) -> Tensor:
        """What `ahead` began to read, as `take` gives it."""
        begun = time.perf_counter()
        found = coming.result()
        self._waited += time.perf_counter() - begun
        return self._to_device(found)

    def each(self, parts: Sequence[NDArray[np.int64]]) -> Iterator[Tensor]:
        """`take` of each part, one part ahead where they are not held."""
        if all(self.held(part) for part in parts):
            yield from map(self.take, parts)
            return
        coming = self.ahead(parts[0])
        for later in parts[1:]:
            found, coming = coming, self.ahead(later)
            yield self.arrived(found)
        yield self.arrived(coming)

    def _to_device(self, found: NDArray[np.uint8]) -> Tensor:
        return on_device(found, self._device)
