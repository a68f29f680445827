"""The processes of one run that is shared among several devices (`training.devices`).

The process that has the job is rank 0. It starts the others here as `python -m
crosswind.execution.rank_processes FOLDER RANK LIFELINE PARENT JOB`, where FOLDER holds `task.json`, and
`meeting`, the file by which they find each other. All read their data at the same time. They end
when rank 0 does, however that ends. A rank that dies ends the run: killed, it is tried again like a
worker that was killed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from crosswind.core.errors import CrosswindError, RunError, one_line
from crosswind.core.registry import import_named, outside_modules
from crosswind.execution.engines.worker import end_with, environment
from crosswind.execution.failure_causes import RankKilledError, cause_of_signal

if TYPE_CHECKING:
    from crosswind.studies.job_specs import FitSpec
    from crosswind.training.several_devices import RankGroup

__all__ = ["RankProcesses"]

END_SECONDS = 60.0
"""How long ranks may take to end once the run has."""
LOOK_SECONDS = 0.05
MEETING = "meeting"
"""The file by which ranks find each other."""


class _Rank(NamedTuple):
    """A process beside rank 0, and the file of what it says on standard error."""

    number: int
    process: subprocess.Popen[bytes]
    errors: Path

    def trouble(self, count: int) -> RunError | None:
        """Why it ended before its end, if it did."""
        status = self.process.poll()
        if not status:
            return None
        which = f"process {self.number + 1} of {count} (training.devices)"
        if status < 0:
            name = signal.Signals(-status).name
            if cause_of_signal(-status):
                return RankKilledError(f"{which} was ended by {name}")
            return RunError(f"{which} was ended by {name}")
        lines = self.errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last_line = one_line(lines[-1]) if lines else f"it ended with status {status}"
        return RunError(f"{which} failed: {last_line}")


class RankProcesses:
    """The processes of a fit beside this one, which is the first of them; a context manager, after
    which they are gone. None are started where a run has one device."""

    def __init__(self, job: str, spec: FitSpec, folders: Sequence[Path], checkpoint: Path) -> None:
        """`job`: the function that takes part in the fit, as `package.module:function`. `folders`:
        of the jobs that the fit needs."""
        self._job = job
        self.count = spec.devices
        self._task = {
            "spec": spec.stored(),
            "folders": [str(path) for path in folders],
            "checkpoint": str(checkpoint),
        }
        self._peers: list[_Rank] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if self.count == 1:
            return self
        # What is begun here ends here too where a process cannot be started.
        with contextlib.ExitStack() as stack:
            temporary = tempfile.TemporaryDirectory(prefix="crosswind-ranks-")
            self._folder = Path(stack.enter_context(temporary))
            stack.callback(self._end)
            (self._folder / "task.json").write_text(json.dumps(self._task), encoding="utf-8")
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def joined(self, device: str) -> Iterator[RankGroup | None]:
        """The ranks of the run, once all have read their data; None where it has one device.

        `device`: of this process. Raises `RunError` for another one's trouble.
        """
        if self.count == 1:
            yield None
            return
        from crosswind.training.several_devices import RankGroup, ranks_joined

        try:
            self._wait_until_ready()
            with ranks_joined(RankGroup(0, self.count), self._folder / MEETING, device) as ranks:
                yield ranks
            for peer in self._peers:
                peer.process.wait(END_SECONDS)
                self._refuse_trouble(peer)
        except Exception as error:
            # When a rank dies, the others hear only that it no longer answers.
            for peer in self._peers:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    peer.process.wait(1.0)
                if not isinstance(error, CrosswindError):
                    self._refuse_trouble(peer, error)
            raise

    def _start(self, stack: contextlib.ExitStack) -> None:
        lifeline, write_end = os.pipe()
        stack.callback(os.close, write_end)
        try:
            for number in range(1, self.count):
                errors = self._folder / f"errors-{number}.txt"
                with errors.open("wb") as stream:
                    process = subprocess.Popen(
                        [
                            *(sys.executable, "-P", "-m", "crosswind.execution.rank_processes"),
                            *(str(self._folder), str(number), str(lifeline), str(os.getpid())),
                            self._job,
                        ],
                        stdin=subprocess.DEVNULL,
                        stdout=stream,
                        stderr=stream,
                        pass_fds=[lifeline],
                        env=environment(outside_modules()),
                    )
                self._peers.append(_Rank(number, process, errors))
        finally:
            os.close(lifeline)

    def _wait_until_ready(self) -> None:
        """Return when every process is about to join: from there on one that dies is noticed by
        the others. Raises `RunError` for one that ends before."""
        waiting = list(self._peers)
        while waiting:
            for peer in waiting:
                self._refuse_trouble(peer)
            waiting = [peer for peer in waiting if not _ready(self._folder, peer.number).exists()]
            time.sleep(LOOK_SECONDS if waiting else 0)

    def _refuse_trouble(self, peer: _Rank, error: Exception | None = None) -> None:
        if trouble := peer.trouble(self.count):
            raise trouble from error

    def _end(self) -> None:
        for peer in self._peers:
            peer.process.kill()
            peer.process.wait()


def _ready(folder: Path, number: int) -> Path:
    """The file that a process makes when it is about to join."""
    return folder / f"ready-{number}"


def main(arguments: Sequence[str]) -> int:
    """Do the run as one rank; nothing of it is written."""
    folder, number = Path(arguments[0]), int(arguments[1])
    end_with(int(arguments[3]), int(arguments[2]))
    task: dict[str, Any] = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    import_named()
    module, _, function = arguments[4].partition(":")
    train_rank: Callable[..., None] = getattr(importlib.import_module(module), function)
    train_rank(
        task["spec"],
        [Path(path) for path in task["folders"]],
        Path(task["checkpoint"]),
        number,
        folder / MEETING,
        _ready(folder, number).touch,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
