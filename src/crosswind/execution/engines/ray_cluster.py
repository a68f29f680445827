"""Runs tasks on a Ray cluster, or on this machine as one: each is a Ray task with the processors,
graphics cards and memory that it asks for.

Ray places tasks on nodes and starts processes; retries stay the driver's, so that the store counts
them. A node that dies costs the runs it had, which go on from their checkpoints where the folder is
shared. Needs the extra `ray`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from crosswind.core.errors import CrosswindError, InputError, RunError, one_line
from crosswind.core.registry import MODULES_VARIABLE
from crosswind.execution.engines import Engine, Event, Task
from crosswind.execution.engines.ray_node import (
    Mailbox,
    packed,
    perform_on_node,
    read_files,
    write_files,
)
from crosswind.execution.engines.worker import ONE_THREAD
from crosswind.storage.artifacts import plain_json
from crosswind.storage.database import sentences
from crosswind.studies.resources import Resources

LOOK_SECONDS = 5.0
"""Between two looks at what nodes the cluster has."""
AHEAD = 2
"""Tasks that are submitted beyond those that the cluster has room for."""
MOST_BYTES = 2**31
"""Of one file or folder that is sent to nodes which do not see it."""


ANSWER_SECONDS = 10.0
"""How long a head of a cluster may take to accept a connection. Ray itself would wait for minutes."""
_HOST_AND_PORT = r"(?:\[([^\]]+)\]|([^:/\s]+)):(\d{1,5})"
_START_ONE = "start one by `ray start --head`, or leave --address out for this machine"
_TOKEN_REMEDY = (
    "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH, a file with its token, let this user in"
)
_NO_TOKEN = f"is a cluster with a token, which this user lacks or has another of; {_TOKEN_REMEDY}"


def check_address(address: str | None) -> None:
    """Refuse at once an address of a cluster at which nothing answers; None is this machine.

    Raises `InputError`, and `NeedsError` where Ray is not installed.
    """
    _ray()
    parts = re.fullmatch(rf"(?:ray://)?{_HOST_AND_PORT}", address or "")
    if parts is not None:
        host, port = parts[1] or parts[2], int(parts[3])
        try:
            socket.create_connection((host, port), ANSWER_SECONDS).close()
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            problem = f"{address!r} is no cluster that answers ({reason})"
            raise InputError("--address", f"{problem}; {_START_ONE}") from None
    elif address not in (None, "auto", "local") and "://" not in str(address):
        problem = f"{address!r} is no address of a cluster: auto, HOST:PORT or ray://HOST:PORT"
        raise InputError("--address", f"{problem}; {_START_ONE}")


@dataclasses.dataclass
class _Flight:
    """A task on its way: since when it runs, None while it waits for room, and where."""

    task: Task
    since: float | None = None
    worker: str = "a Ray task"


@final
class RayCluster(Engine):
    """An engine of the nodes of a Ray cluster, those that join later included."""

    interruptible = True

    def __init__(
        self,
        job: str,
        out: Path,
        *,
        address: str | None = None,
        workers: int = 1,
        modules: Sequence[str] = (),
        memory: int | None = None,
        resources: Mapping[str, Resources] | None = None,
        shared: bool | None = None,
    ) -> None:
        """`job`: the function that executes a run, as `package.module:function`; `out`: the store's
        folder. `address`: of the cluster, `auto` or `ray://HOST:PORT`; None starts one on this
        machine with `workers` processors. `modules`: what nodes import to find classes. `memory`:
        bytes of pixels that the tasks of a node may hold. `resources`: by key of a job, 1 CPU for others.
        `shared`: whether every node sees `out`; None asks them.

        Raises `InputError` for an address without a cluster, `StoreError` for a folder that cannot be
        written.
        """
        self._ray = _ray()
        self._job, self._memory, self._resources = job, memory, resources or {}
        self._flights: dict[Any, _Flight] = {}  # by reference of what comes back
        self._looked, self.workers, self._share = 0.0, 1, 1
        self._sent: dict[str, Any] = {}  # path or key -> reference of its archive
        self._own = self._connect(address, workers)
        self._address = address
        try:
            self._look()  # refuses, before anything is written, what no node has room for
            with sentences(str(out)):
                out.mkdir(parents=True, exist_ok=True)
                self._mark = out.resolve() / f".seen-by-nodes-{secrets.token_hex(8)}"
                self._mark.touch()
        except CrosswindError:
            self._ray.shutdown()
            raise
        environment = {
            **ONE_THREAD,
            MODULES_VARIABLE: ",".join(
                [*filter(None, [os.environ.get(MODULES_VARIABLE)]), *modules]
            ),
            "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path),
        }
        self._run = self._ray.remote(
            num_cpus=1, max_retries=0, runtime_env={"env_vars": environment}
        )(perform_on_node)
        self._mailbox = self._ray.remote(num_cpus=0, max_restarts=-1)(Mailbox).remote()
        self._shared = self._is_shared() if shared is None else shared
        if not self._shared:
            self._mark.unlink(missing_ok=True)

    # -- the contract of an engine -----------------------------------------------------------------

    def idle(self) -> int:
        """How many more tasks can be submitted now: what the cluster has room for, and two."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._look()
        return max(0, self.workers + AHEAD - len(self._flights))

    def submit(self, task: Task) -> None:
        """Give `task` to Ray, which places it."""
        asked = self._resources.get(task.key, Resources())
        options: dict[str, Any] = {"num_cpus": asked.cpus, "num_gpus": asked.gpus}
        if asked.memory:
            options["memory"] = asked.memory
        plain_task = json.loads(plain_json(dataclasses.asdict(task)))
        needed = {} if self._shared else self._needed_files(task)
        copies = {} if self._shared else self._copies(plain_task)
        # References in a mapping are not resolved before the task begins: it asks for what it lacks.
        reference = self._run.options(**options).remote(
            self._job,
            plain_task,
            str(self._mark),
            self._memory,
            self._share,
            self._mailbox,
            needed,
            copies,
        )
        self._flights[reference] = _Flight(task)

    def wait(self, seconds: float) -> list[Event]:
        """The events, as soon as a task has ended, at the latest after half a second."""
        if not self._flights:
            return []
        try:
            ready, _ = self._ray.wait(
                list(self._flights), timeout=min(seconds, 0.5), fetch_local=False
            )
            if ready:
                ready, _ = self._ray.wait(
                    list(self._flights),
                    num_returns=len(self._flights),
                    timeout=0,
                    fetch_local=False,
                )
            events = self._progress()
            return [*events, *(self._ended(reference) for reference in ready), *self._overdue()]
        except (ConnectionError, self._ray.exceptions.RaySystemError) as error:
            reason = one_line(str(error), 200)
            raise RunError(
                f"the Ray cluster no longer answers ({reason}); give the command again once it is"
                " back"
            ) from error

    def cancel(self) -> None:
        """Kill all tasks and forget them."""
        for reference in self._flights:
            self._kill(reference)
        self._flights = {}

    def close(self) -> None:
        """Kill all tasks, and end the cluster if it was started here."""
        try:
            self.cancel()
        finally:
            self._mark.unlink(missing_ok=True)
            self._sent.clear()
            self._ray.shutdown()

    # -- the cluster ------------------------------------------------------------------------------

    def _connect(self, address: str | None, workers: int) -> bool:
        """Connect to a cluster; whether it was started here."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            with _standard_error_closed():
                if address is None:
                    _ensure_token()
                    self._ray.init("local", num_cpus=workers, include_dashboard=False, **quiet)
                else:
                    _check_head(address)
                    self._ray.init(address=address, **quiet)
            self._silence()
        except getattr(self._ray.exceptions, "AuthenticationError", ()):  # not in old versions
            raise InputError("--address", f"{address!r} {_NO_TOKEN}") from None
        except (ConnectionError, RuntimeError, ValueError) as error:
            reason = one_line(str(error), 200)
            problem = f"{address!r} is no cluster that answers ({reason})"
            token = f"; one with tokens answers no stranger: {_TOKEN_REMEDY}"
            ending = token if "://" in str(address) else ""
            raise InputError("--address", f"{problem}; {_START_ONE}{ending}") from None
        except OSError as error:
            file_note = f" ({error.filename})" if error.filename else ""
            problem = f"Ray cannot start on this machine: {error.strerror or error}{file_note}"
            remedy = "RAY_TMPDIR names a folder that this user may write"
            raise InputError("--engine", f"{problem}; {remedy}") from None
        return address is None

    def _silence(self) -> None:
        """Keep what Ray prints of dead workers off standard output, which is for results; the store
        has their reasons."""
        from ray._private import worker

        if hasattr(worker, "print_to_stdstream"):
            worker.print_to_stdstream = lambda *_, **__: None

    def _look(self) -> None:
        """See how many tasks the nodes that are there have room for."""
        self._looked = time.monotonic()
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        kinds = set(self._resources.values()) or {Resources()}
        rooms = [sum(kind.fitting(node) for node in nodes) for kind in kinds]
        self.workers = max(1, *rooms)
        self._share = max(1, *(kind.fitting(node) for kind in kinds for node in nodes))
        missing = [kind for kind, room in zip(kinds, rooms, strict=True) if room == 0]
        if missing and self._own:
            raise InputError(
                "resources",
                f"a run asks for {missing[0].in_words}, and this machine has not so much for one;"
                " lower them, or name a cluster by --address",
            )
        self.notes = [
            f"resources: no node of the cluster has room for {words}, which one run asks for; such runs"
            " wait for a node that joins"
            for words in sorted(kind.in_words for kind in missing)
        ]

    def _is_shared(self) -> bool:
        """Whether every node that answers sees the study's folder."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        exists = self._ray.remote(num_cpus=0, max_retries=0)(os.path.isfile)
        answers = [
            exists.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ).remote(str(self._mark))
            for node in self._ray.nodes()
            if node["Alive"]
        ]
        seen = []
        for answer in answers:
            # Ray lists a node for a while after it died, and no task can be sent there.
            with contextlib.suppress(self._ray.exceptions.RayError):
                seen.append(self._ray.get(answer))
        return bool(seen) and all(seen)

    # -- what comes back --------------------------------------------------------------------------

    def _progress(self) -> list[Event]:
        """The progress of running tasks since the last look."""
        try:
            messages = self._ray.get(self._mailbox.take.remote(), timeout=5.0)
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.GetTimeoutError):
            return []  # its node died: it is made anew, and what it held was progress alone
        flights = {flight.task.key: flight for flight in self._flights.values()}
        events = []
        for key, message in messages:
            flight = flights.get(key)
            if flight is None:
                continue
            if "worker" in message:
                flight.since, flight.worker = time.monotonic(), message["worker"]
            else:
                events.append(Event(key, "progress", message["report"], worker=flight.worker))
        return events

    def _ended(self, reference: Any) -> Event:
        """The event of a task that has ended, its files in their place."""
        flight = self._flights.pop(reference)
        key = flight.task.key
        try:
            plain_event, files = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return self._lost(flight, error)
        try:
            for each in (flight.task, *flight.task.following):
                if each.key in files:
                    write_files(Path(each.folder), files[each.key])
        except OSError as error:
            reason = one_line(f"its files could not be written: {error}")
            return Event(key, "failed", reason=reason, worker=flight.worker, cause="system")
        return Event(**plain_event, worker=flight.worker)

    def _lost(self, flight: _Flight, error: Exception) -> Event:
        """Why a task did not come back, in one sentence, and what of the machine it was."""
        kinds = self._ray.exceptions
        if isinstance(error, kinds.OutOfMemoryError):
            reason, cause = "Ray ended it, as its node ran out of memory", "memory"
        elif isinstance(error, kinds.WorkerCrashedError):
            reason, cause = "its process died (out of memory?)", "killed"
        elif isinstance(error, kinds.RayTaskError):
            reason, cause = one_line(f"its node failed: {error.cause}", 300), "system"
        else:
            reason, cause = "its node was lost", "node"
        seconds = 0.0 if flight.since is None else time.monotonic() - flight.since
        detail = str(error)[-8000:]
        return Event(flight.task.key, "lost", {}, reason, detail, seconds, flight.worker, cause)

    def _overdue(self) -> Iterator[Event]:
        now = time.monotonic()
        for reference, flight in list(self._flights.items()):
            limit = flight.task.limit
            if limit is not None and flight.since is not None and now - flight.since > limit:
                del self._flights[reference]
                self._kill(reference)
                reason = f"time limit: the run took more than {limit:g} seconds"
                key, seconds = flight.task.key, now - flight.since
                yield Event(key, "failed", {}, reason, "", seconds, flight.worker)

    def _kill(self, reference: Any) -> None:
        try:
            self._ray.cancel(reference, force=True)
        except (ValueError, ConnectionError, self._ray.exceptions.RayError):
            pass  # it has ended, or its node has

    # -- what is sent where nothing is shared -----------------------------------------------------

    def _needed_files(self, task: Task) -> dict[str, Any]:
        """By key a reference to the files of each job that the task needs and that is done."""
        fresh = {each.key for each in (task, *task.following)}
        folders = {
            key: folder
            for each in (task, *task.following)
            for key, folder in each.needed.items()
            if key not in fresh
        }
        for key, folder in folders.items():
            if key not in self._sent:
                self._sent[key] = self._ray.put(read_files(Path(folder)))
        return {key: self._sent[key] for key in folders}

    def _copies(self, plain_task: Mapping[str, Any]) -> dict[str, Any]:
        """By path a reference to the archive of each file and folder that the task's specification
        names: each is sent once, and unpacked once a node."""
        specs = [plain_task["spec"], *(each["spec"] for each in plain_task["following"])]
        paths = {path for spec in specs for path in named_paths(spec)}
        for path in sorted(paths - self._sent.keys()):
            size = sum(file.stat().st_size for file in _files_of(Path(path)))
            if size > MOST_BYTES:
                problem = f"{path} has {size / 2**30:.1f} GiB, and some nodes do not see it"
                raise InputError(
                    "data", f"{problem}; put it and --out on a drive that all nodes have"
                )
            self._sent[path] = self._ray.put(packed(Path(path)))
        return {path: self._sent[path] for path in paths}


def _check_head(address: str) -> None:
    """Refuse what is no head of a cluster, or one that another token opens: `ray.init` waits at both
    for minutes, hears no signal, and says nothing.

    Raises `InputError`, and Ray's `AuthenticationError`.
    """
    if re.fullmatch(_HOST_AND_PORT, address) is None:
        return
    import ray.exceptions

    try:
        raylet: Any = importlib.import_module("ray._raylet")
        client, tokens = raylet.GcsClient, raylet.AuthenticationTokenLoader.instance()
    except (ImportError, AttributeError):  # Ray does not promise to keep them
        return
    needs_token = os.environ.get("RAY_AUTH_MODE", "").lower() == "token"
    if needs_token and not tokens.has_token(ignore_auth_mode=True):
        raise ray.exceptions.AuthenticationError("no token")  # the client would end the process
    try:
        client(address=address)
    except ray.exceptions.AuthenticationError:
        raise
    except ray.exceptions.RayError as error:
        problem = f"{address!r} is no head of a Ray cluster ({one_line(str(error), 200)})"
        remedy = "name the port of `ray start --head` (6379), or its port for clients as ray://HOST:10001"
        raise InputError("--address", f"{problem}; {remedy}") from None


def _ensure_token() -> None:
    """Draw the token of a cluster of this machine where the home, in which Ray would keep one, cannot
    be written."""
    if os.environ.keys() & {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}:
        return
    folder = Path(os.path.expanduser("~")) / ".ray"
    try:
        if not (folder / "auth_token").exists():
            folder.mkdir(parents=True, exist_ok=True)
        usable = os.access(folder / "auth_token", os.R_OK) or os.access(folder, os.W_OK)
    except OSError:
        usable = False
    if not usable:
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


@contextlib.contextmanager
def _standard_error_closed() -> Iterator[None]:
    """Inside, nothing reaches standard error: compiled code of Ray writes a line for every second
    that it waits for a cluster."""
    sys.stderr.flush()
    original = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)


def named_paths(values: Any) -> Iterator[str]:
    """The absolute paths of files and folders in plain values, also before ":function"."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield from named_paths(key)
            yield from named_paths(value)
    elif isinstance(values, list | tuple):
        for value in values:
            yield from named_paths(value)
    elif isinstance(values, str):
        for path in (values, values.rpartition(":")[0]):
            if path.startswith(os.sep) and len(path) > 1 and Path(path).exists():
                yield path


def _files_of(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def _ray() -> Any:
    """The package. Raises `InputError` where it is not installed."""
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise InputError("--engine", "ray needs the extra: pip install 'crosswind[ray]'") from None
    return ray
