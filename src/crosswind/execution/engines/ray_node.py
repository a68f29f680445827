"""The program of a node of a Ray cluster. It runs one task, in the folder of the study where the
node sees it, else in a folder of the node's own, whose files go back to the driver."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import socket
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from crosswind.core.errors import one_line
from crosswind.data.budget import bounded, budget
from crosswind.execution.engines.worker import REPORT_SECONDS, TRAINS, perform
from crosswind.execution.failure_causes import cause_of

Files = dict[str, bytes]
"""The files of a folder by their paths in it."""


class Mailbox:
    """Where tasks tell how far they are, and their driver reads it. An actor of the cluster."""

    def __init__(self) -> None:
        self._messages: list[tuple[str, dict[str, Any]]] = []

    def put(self, key: str, message: dict[str, Any]) -> None:
        """Leave a message of the task `key`."""
        self._messages.append((key, message))

    def take(self) -> list[tuple[str, dict[str, Any]]]:
        """The messages since the last call, in their order."""
        messages, self._messages = self._messages, []
        return messages


def place_in_words() -> str:
    """This process as a store names it."""
    return f"node {socket.gethostname()} (process {os.getpid()})"


def perform_on_node(
    job: str,
    task: Mapping[str, Any],
    mark: str,
    memory: int | None,
    share: int,
    mailbox: Any,
    needed: Mapping[str, Any],
    copies: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Files]]:
    """The event of a task, see `perform`, and by key the files of what the driver cannot read.

    `mark`: a file that lies in the study's folder, so that a node which sees it shares that folder.
    `memory`: bytes of pixels that all tasks of a node may hold, None for half of the node's memory;
    `share`: how many tasks a node has at once. `needed`: by key the files of what the task needs.
    `copies`: by path the archives of what its specification names, references to objects of the
    cluster. Both are read only where nothing is shared.
    """
    if task["kind"] == "fit":  # before its time counts, which the first report begins
        with contextlib.suppress(ImportError):
            importlib.import_module(TRAINS)
    report = _reporter(mailbox, task["key"])
    tasks = [task, *task["following"]]
    with bounded((budget() if memory is None else memory) // share):
        if Path(mark).is_file():
            return perform(job, task, report), {}
        try:
            with tempfile.TemporaryDirectory(prefix="crosswind-") as name:
                local_folder = Path(name)
                local = _localised(task, local_folder, needed, copies)
                event = perform(job, local, report)
                own_files = {
                    each["key"]: read_files(local_folder / each["key"])
                    for each in tasks
                    if event["kind"] == "finished"
                }
                return event, own_files
        except OSError as error:  # of the node's own disk
            reason = one_line(f"its node cannot keep its files: {error}")
            cause = cause_of(error) or "system"
            return {"key": task["key"], "kind": "lost", "reason": reason, "cause": cause}, {}


def read_files(folder: Path) -> Files:
    """The files of a folder and of those in it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def write_files(folder: Path, files: Files) -> None:
    """Put files into a folder, which is made anew."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def packed(path: Path) -> bytes:
    """A file or a folder as an archive, the same bytes whenever it holds the same."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(path, arcname=path.name)
    return buffer.getvalue()


def _localised(
    task: Mapping[str, Any], folder: Path, needed: Mapping[str, Any], copies: Mapping[str, Any]
) -> dict[str, Any]:
    """A task whose folders lie in `folder`, with what it needs and what it reads brought there."""
    import ray

    paths = {path: str(_unpacked(reference, Path(path).name)) for path, reference in copies.items()}
    for key, reference in needed.items():
        write_files(folder / "needed" / key, ray.get(reference))

    def moved(each: Mapping[str, Any]) -> dict[str, Any]:
        key = each["key"]
        own_needs = {
            name: str(folder / (f"needed/{name}" if name in needed else name))
            for name in each["needed"]
        }
        return {
            **each,
            "spec": with_paths(each["spec"], paths),
            "folder": str(folder / key),
            "checkpoint": str(folder / "checkpoints" / key / "state.safetensors"),
            "needed": own_needs,
            "profile": None,
        }

    return {**moved(task), "following": [moved(each) for each in task["following"]]}


def with_paths(values: Any, paths: Mapping[str, str]) -> Any:
    """Plain values with some paths replaced wherever they stand, alone or before ":function"."""
    if isinstance(values, Mapping):
        return {with_paths(key, paths): with_paths(value, paths) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [with_paths(value, paths) for value in values]
    if not isinstance(values, str):
        return values
    if values in paths:
        return paths[values]
    file, colon, function = values.rpartition(":")
    return f"{paths[file]}:{function}" if colon and file in paths else values


def _unpacked(reference: Any, name: str) -> Path:
    """The contents of an archive of the cluster, unpacked once for all tasks of this node."""
    import ray

    folder = Path(tempfile.gettempdir()) / f"crosswind-{os.getuid()}-data" / reference.hex()
    if not (folder / name).exists():
        content = ray.get(reference)
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as staging:
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                archive.extractall(staging, filter="data")
            folder.mkdir(exist_ok=True)
            try:
                (Path(staging) / name).rename(folder / name)
            except OSError:  # another task of the node was there first
                if not (folder / name).exists():
                    raise
    return folder / name


def _reporter(mailbox: Any, key: str) -> Callable[[dict[str, Any]], None]:
    """The callback by which a run reports: at most four messages a second, which nothing waits
    for."""
    mailbox.put.remote(key, {"worker": place_in_words()})
    last_time = time.monotonic()

    def report(values: dict[str, Any]) -> None:
        nonlocal last_time
        now = time.monotonic()
        if now - last_time >= REPORT_SECONDS:
            last_time = now
            mailbox.put.remote(key, {"report": values})

    return report
