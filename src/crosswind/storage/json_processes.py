"""Many JSON texts put into columns by several processes: of what a report of 100,000 runs takes, half
is spent on parsing its scores.

A process beside this one takes a pickled list of texts from its standard input and answers with
their columns, or with None where a text is no JSON object. The batch is then parsed here, where
the error is raised; so it is where a process cannot be started or dies.
"""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import local
from typing import IO, Any

from crosswind.core.processor import usable_cores
from crosswind.storage.json_columns import ColumnBatch, JsonColumns, column_batch, parsed

BATCHES_ALONE = 40
"""Batches of a thousand texts that are parsed before processes are started: fewer take less time
than the start."""
_MOST_PROCESSES = 4
_PIPE_BYTES = 2**20
_WAITING = 2  # batches that wait for each process, so that none is idle


def held_by_column(
    batches: Iterable[Sequence[str]], columns: JsonColumns, parse: Callable[[str], dict[str, Any]]
) -> Iterator[list[Mapping[str, Any]]]:
    """The objects of each batch of JSON texts, in their order, held by `columns`. `parse` is asked
    for the objects of batches that no further process parses, and raises what is wrong with them."""
    processes: _Processes | None = None
    waiting: deque[tuple[Sequence[str], Future[ColumnBatch | None] | None]] = deque()
    objects_parsed: deque[list[Mapping[str, Any]]] = deque()

    def parse_here(texts: Sequence[str]) -> list[Mapping[str, Any]]:
        return columns.add_batch(column_batch(map(parse, texts), columns.without))

    def first_waiting() -> list[Mapping[str, Any]]:
        texts, future = waiting.popleft()
        if future is None:
            return objects_parsed.popleft()
        batch = future.result()
        return parse_here(texts) if batch is None else columns.add_batch(batch)

    try:
        for number, texts in enumerate(batches):
            if number == BATCHES_ALONE and usable_cores() > 1:
                processes = _Processes(min(usable_cores() - 1, _MOST_PROCESSES), columns.without)
            if processes is None:
                yield parse_here(texts)
                continue
            future = processes.parse(texts)
            waiting.append((texts, future))
            if future is None:
                objects_parsed.append(parse_here(texts))
            while waiting and (waiting[0][1] is None or waiting[0][1].done()):
                yield first_waiting()
        while waiting:
            yield first_waiting()
    finally:
        if processes is not None:
            processes.close()


class _Processes:
    """Processes that parse, each asked by a thread of its own."""

    def __init__(self, number: int, without: Sequence[str]) -> None:
        self._without, self._most_waiting = tuple(without), number * (1 + _WAITING)
        self._started: list[subprocess.Popen[bytes]] = []
        self._of_thread = local()
        self._threads = ThreadPoolExecutor(number, initializer=self._start)
        self._futures: deque[Future[ColumnBatch | None]] = deque()

    def parse(self, texts: Sequence[str]) -> Future[ColumnBatch | None] | None:
        """The columns of a batch, to come; None where enough batches wait already."""
        while self._futures and self._futures[0].done():
            self._futures.popleft()
        if len(self._futures) >= self._most_waiting:
            return None
        future = self._threads.submit(self._ask, list(texts))
        self._futures.append(future)
        return future

    def close(self) -> None:
        """End the processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._started:
            process.kill()
        self._threads.shutdown(wait=True)
        for process in self._started:
            with suppress(OSError):  # what a killed process did not take any more
                process.communicate()

    def _start(self) -> None:
        self._of_thread.process = None
        command = [sys.executable, "-P", "-m", __name__]
        with suppress(OSError):
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pipesize=_PIPE_BYTES,
            )
            self._started.append(process)
            self._of_thread.process = process

    def _ask(self, texts: list[str]) -> ColumnBatch | None:
        process: subprocess.Popen[bytes] | None = self._of_thread.process
        if process is None:
            return None
        assert process.stdin is not None and process.stdout is not None
        try:
            _send((texts, self._without), process.stdin)
            batch: ColumnBatch | None = _received(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError, ValueError):
            self._of_thread.process = None  # it died: this thread asks it no more
            return None
        return batch


def _send(value: Any, stream: IO[bytes]) -> None:
    content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    stream.write(len(content).to_bytes(8, "little"))
    stream.write(content)
    stream.flush()


def _received(stream: IO[bytes]) -> Any:
    """The next value; raises `EOFError` at the end of the stream."""
    # In one call: between calls a thread waits until another lets go of the interpreter.
    n_bytes = int.from_bytes(_read_all(stream, 8), "little")
    return pickle.loads(_read_all(stream, n_bytes))


def _read_all(stream: IO[bytes], n_bytes: int) -> bytes:
    content = stream.read(n_bytes)
    if len(content) < n_bytes:
        raise EOFError
    return content


def _objects(texts: Sequence[str]) -> Iterator[dict[str, Any]]:
    for text in texts:
        values = parsed(text)
        if not isinstance(values, dict):
            raise TypeError(type(values))
        yield values


def _answer(texts_in: IO[bytes], columns_out: IO[bytes]) -> None:
    """Answer with the columns of each batch of texts, until there is none."""
    gc.disable()  # no value refers to itself, and looking for garbage takes as long as parsing
    while True:
        try:
            texts, without = _received(texts_in)
        except EOFError:
            return
        try:
            batch = column_batch(_objects(texts), without)
        except (TypeError, ValueError, RecursionError):
            batch = None
        _send(batch, columns_out)


if __name__ == "__main__":
    _answer(sys.stdin.buffer, sys.stdout.buffer)
