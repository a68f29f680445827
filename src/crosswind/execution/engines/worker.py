"""A worker process: takes tasks from its driver, one at a time, executes them and sends back what
came out.

Started by `crosswind.execution.engines.pool` as `python -m crosswind.execution.engines.worker SOCKET
LIFELINE PARENT PIXELS JOB`, where SOCKET, LIFELINE and PIXELS are descriptors. Messages are JSON. A
worker ends when its driver does, however that ends: the kernel kills it (Linux), and a thread
watches a pipe that only the driver holds open. `perform` is also what the inline engine calls, so a
run is the same function everywhere.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import functools
import importlib
import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from crosswind.core.errors import CrosswindError, InternalError, RunError, one_line
from crosswind.core.registry import MODULES_VARIABLE, import_named
from crosswind.data.resident import share
from crosswind.execution.engines import Workspace
from crosswind.execution.failure_causes import cause_of
from crosswind.storage.artifacts import listing, plain_json, sync_tree

_LIBRARIES = ("OMP_NUM", "MKL_NUM", "OPENBLAS_NUM", "NUMEXPR_NUM", "VECLIB_MAXIMUM", "POLARS_MAX")
ONE_THREAD = {f"{library}_THREADS": "1" for library in _LIBRARIES}
"""The environment that makes libraries use one thread when they are imported."""

REPORT_SECONDS = 0.25
DETAIL_CHARACTERS = 8000
TRAINS = "crosswind.training.run"
"""The module that loads what trains."""


def environment(modules: Sequence[str]) -> dict[str, str]:
    """The environment of a process beside this one, which finds what this one finds: `modules` are
    what it imports first."""
    # The path of this process, without what `-m` would put before it: the folder that the user
    # happens to be in.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    named = ",".join([*filter(None, [os.environ.get(MODULES_VARIABLE)]), *modules])
    return {**os.environ, **ONE_THREAD, MODULES_VARIABLE: named, "PYTHONPATH": path}


def _nothing() -> None:
    """Nothing, where nobody looks at a moment."""


def perform(
    job: str,
    task: Mapping[str, Any],
    report: Callable[[dict[str, Any]], None],
    loaded: Callable[[], None] = _nothing,
) -> dict[str, Any]:
    """Execute one task and return its event as plain values; never raises an `Exception`.

    The function is called as `job(kind, spec, place)`. Its folder is new and empty. Its checkpoint
    is the path of a file in a folder of its own, which keeps what an earlier try left. Jobs that
    follow are done after it; if one fails, all have failed. `loaded` is called when the libraries
    that it needs are there, which takes seconds once in a process.
    """
    started = time.perf_counter()
    out: dict[str, Any] = {"key": task["key"]}
    handover: dict[str, Any] = {}
    try:
        with one_thread():
            import_named()
            call = _function(job)
            if task["kind"] == "fit":
                importlib.import_module(TRAINS)
            loaded()
            outcome = _done(call, task, report, handover)
            followed = {
                follower["key"]: _done(call, follower, report, handover)
                for follower in task["following"]
            }
        out |= {"kind": "finished", "result": {**outcome, "following": followed}}
    except InternalError as error:
        out |= {
            "kind": "fault",
            "reason": str(error),
            "detail": traceback.format_exc()[-DETAIL_CHARACTERS:],
        }
    except Exception as error:
        # Out of memory, or one of the processes of the run killed: what else ran at the time decides,
        # so another try is worth it. Everything else would happen again.
        cause = cause_of(error)
        out |= {
            "kind": "lost" if cause in ("memory", "killed") else "failed",
            "reason": _reason(error, cause),
            "cause": cause,
        }
        if not isinstance(error, CrosswindError):
            out["detail"] = traceback.format_exc()[-DETAIL_CHARACTERS:]
    except SystemExit as error:
        out |= {"kind": "failed", "reason": f"the run called exit ({error.code})"}
    return out | {"seconds": time.perf_counter() - started}


def _done(
    call: Callable[..., Any],
    task: Mapping[str, Any],
    report: Callable[[dict[str, Any]], None],
    handover: dict[str, Any],
) -> dict[str, Any]:
    """The result of one job, whose files are on the disk, with their checksums."""
    folder, checkpoint = Path(task["folder"]), Path(task["checkpoint"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    needed = {key: Path(path) for key, path in task["needed"].items()}
    profile = None if task["profile"] is None else Path(task["profile"])
    outcome = call(
        task["kind"],
        task["spec"],
        Workspace(
            task["key"], tuple(needed), folder, checkpoint, report, needed, profile, handover
        ),
    )
    # Read back while they are in memory still: it is what was written that the checksums are of.
    checked = {**_checked(outcome), "files": listing(folder)}
    sync_tree(folder)
    return checked


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Numbers may depend on the number of threads, so a run has one, whatever this process had.

    torch's setting is put back at the end. Where torch comes with the run, it is the environment
    that sets it.
    """
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch is not None else 0
    os.environ.update(ONE_THREAD)
    if torch is not None:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if torch is not None:
            torch.set_num_threads(threads)


def main(arguments: list[str]) -> int:
    """Serve tasks until the driver closes the socket."""
    socket, lifeline, parent, pixels = map(int, arguments[:4])
    job = arguments[4]
    for handle in (socket, lifeline, pixels):
        os.set_inheritable(handle, False)  # a program that a run starts must not keep them open
    end_with(parent, lifeline)
    faulthandler.enable()
    connection = Connection(socket)
    share(pixels)
    connection.send_bytes(b'{"kind":"ready"}')
    while True:
        try:
            task = json.loads(connection.recv_bytes())
        except (EOFError, OSError):
            return 0  # the driver has closed the socket
        loaded = functools.partial(connection.send_bytes, b'{"kind":"loaded"}')
        event = perform(job, task, _reporter(connection, task["key"]), loaded)
        sys.stdout.flush()
        connection.send_bytes(json.dumps(event).encode())


def _reporter(connection: Connection, key: str) -> Callable[[dict[str, Any]], None]:
    last = 0.0

    def report(values: dict[str, Any]) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= REPORT_SECONDS:
            last = now
            plain = json.loads(json.dumps(values, default=str))
            connection.send_bytes(
                json.dumps({"kind": "progress", "key": key, "result": plain}).encode()
            )

    return report


def _function(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise RunError(f"the job {name} cannot be loaded: {error}") from error


def _checked(outcome: Any) -> dict[str, Any]:
    """The job's result as plain values, or `RunError` saying what is wrong with it."""
    try:
        plain = json.loads(plain_json(outcome))
        if plain["status"] not in ("finished", "diverged"):
            raise ValueError("its status is neither finished nor diverged")
        if not all(
            isinstance(entry["metrics"], dict) and entry["rule"] and entry["set"]
            for entry in plain["scores"]
        ):
            raise ValueError("a score needs a rule, a set and metrics")
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"the job's result is not as it should be: {type(error).__name__}: {error}"
        ) from error
    return plain


def _reason(error: Exception, cause: str) -> str:
    if isinstance(error, CrosswindError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    location = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    if cause == "memory":
        return one_line(f"out of memory: {error}{location}")
    return one_line(f"{type(error).__name__}: {error}{location}")


def end_with(parent: int, lifeline: int) -> None:
    """See that this process, and what it started, ends when `parent` does, which alone holds the other
    end of the pipe `lifeline` open."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    def watch() -> None:
        with contextlib.suppress(OSError):
            os.read(lifeline, 1)  # nobody writes: it returns when the other end is closed
        os.killpg(os.getpgid(0), signal.SIGKILL) if os.getpgid(0) == os.getpid() else os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
