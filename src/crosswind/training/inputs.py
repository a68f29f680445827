"""Inputs of rows as tensors on a run's device: gathered from shared memory if they are held there,
else read ahead in a thread."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.data.resident import ResidentRows
from crosswind.models.networks.tokens import text_lengths, trimmed
from crosswind.transforms.layout import on_device

DEVICE_SHARE = 4
"""A run's rows are copied to an accelerator if they take at most one part in this many of its free
memory."""


class RowInputs:
    """The inputs of some rows, by place. `waited`: seconds spent so far on waiting for inputs that
    were not yet read.

    Texts are cut to the longest that is asked for at once, see `trimmed`, unless they are to be
    `whole`.
    """

    def __init__(self, rows: ResidentRows, device: torch.device) -> None:
        self._rows = rows
        self._device = device
        self._waited = 0.0
        self._copied: Tensor | None = None
        self._lengths: NDArray[np.int64] | None = None
        self._reader: ThreadPoolExecutor | None = None

    @property
    def waited(self) -> float:
        """Seconds."""
        return self._waited + self._rows.waited

    def copy_to_device(self) -> None:
        """Copy all rows to the accelerator, if the device is one and they take a small share of
        it."""
        n = len(self._rows.rows)
        memory = self._rows.memory
        if self._device.type != "cuda" or memory is None or not n:
            return
        size = n * memory[0].nbytes
        if size * DEVICE_SHARE > torch.cuda.mem_get_info(self._device)[0]:
            return
        dtype = torch.from_numpy(memory).dtype
        self._copied = torch.empty((n, *memory.shape[1:]), dtype=dtype, device=self._device)
        for rows_of_part in np.array_split(np.arange(n), max(1, size >> 26)):
            arrived_rows = on_device(self._rows.take(rows_of_part), self._device)
            self._copied[rows_of_part[0] : rows_of_part[-1] + 1] = arrived_rows

    def lengths(self) -> NDArray[np.int64] | None:
        """How many tokens each row has, int64 [n]; None where rows are no texts, or are read at
        each asking."""
        memory = self._rows.memory
        if (
            self._lengths is None
            and memory is not None
            and memory.dtype == np.int64
            and self._rows.held()
        ):
            self._lengths = text_lengths(memory[self._rows.rows])
        return self._lengths

    def held(self, places: NDArray[np.int64] | None = None) -> bool:
        """Whether the rows at `places` (None: all) can be gathered at once."""
        return self._copied is not None or self._rows.held(places)

    def take(self, places: NDArray[np.int64], *, whole: bool = False) -> Tensor:
        """The inputs at `places` on the device, as `InputSpec` says: images uint8 [m, h, w, c]."""
        inputs = self._gathered(places)
        lengths = None if whole else self.lengths()
        if whole:
            return inputs
        longest = None
        if lengths is not None:
            longest = int(lengths[places].max(initial=0))
        return trimmed(inputs, longest)

    def _gathered(self, places: NDArray[np.int64]) -> Tensor:
        if self._copied is not None:
            return self._copied.index_select(0, on_device(places, self._device))
        memory = self._rows.memory
        if memory is None or not self._rows.held(places):
            return on_device(self._rows.take(places), self._device)
        # One gather from the memory that all processes share.
        gathered = torch.from_numpy(memory).index_select(
            0, torch.from_numpy(self._rows.rows[places])
        )
        return on_device(gathered, self._device)

    def ahead(self, places: NDArray[np.int64]) -> Future[NDArray[Any]]:
        """Start reading the inputs at `places` in a thread; `arrived` takes the answer."""
        if self._reader is None:
            # A new thread does not inherit the number of torch's threads.
            threads = partial(torch.set_num_threads, torch.get_num_threads())
            self._reader = ThreadPoolExecutor(1, thread_name_prefix="inputs", initializer=threads)
        return self._reader.submit(self._rows.take, places)

    def arrived(self, coming: Future[NDArray[Any]], *, whole: bool = False) -> Tensor:
        """The inputs whose reading `ahead` started, as `take` gives them."""
        begun = time.perf_counter()
        arrived_inputs = coming.result()
        self._waited += time.perf_counter() - begun
        is_whole = whole or arrived_inputs.dtype != np.int64
        return on_device(
            arrived_inputs if is_whole else trimmed(torch.from_numpy(arrived_inputs)).numpy(),
            self._device,
        )

    def each(self, parts: Sequence[NDArray[np.int64]], *, whole: bool = False) -> Iterator[Tensor]:
        """`take` of each part, one part ahead where they are not held."""
        if all(self.held(positions) for positions in parts):
            yield from (self.take(positions, whole=whole) for positions in parts)
            return
        coming = self.ahead(parts[0])
        for later in [*parts[1:], None]:
            current = coming
            coming = coming if later is None else self.ahead(later)
            yield self.arrived(current, whole=whole)
