"""Jobs that take the place of training in the tests of the store, the engines and the driver."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from crosswind.core.errors import InternalError, RunError
from crosswind.core.types import Job, digest

ERRORS = {
    "no memory left to map": OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    "quota": OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
    "input": OSError(errno.EIO, os.strerror(errno.EIO)),
    "handles": OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
    "file size": OSError(errno.EFBIG, os.strerror(errno.EFBIG)),
    "no file": FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)),
}


def planned(name, needs=(), **spec):
    """A run of `execute`; `spec` says what it does. The log file is not in the key."""
    spec = {"name": name, **spec, "needs": list(needs)}
    return Job(digest({**spec, "log": ""}), spec, {"method": name, "seed": 0}, tuple(needs))


def raise_as_told(does):
    """Raise the error that a run is asked for, if it is one."""
    if does == "raise":
        raise ValueError("the toy is broken")
    if does == "refuse":
        raise RunError("the toy does not want to")
    if does == "contradict":
        raise InternalError("the toy contradicts itself")
    if does == "memory":
        raise MemoryError("no room for the toy")
    if does in ERRORS:
        raise ERRORS[does]
    if does == "wrapped":
        try:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            raise RunError("the toy cannot be written") from None
    if does == "safetensors":
        raise type("SafetensorError", (Exception,), {})(
            "I/O error: No space left on device (os error 28)"
        )


def end_process(does, checkpoint):
    """End this process in the way that a run is asked for, if it is one."""
    if does == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if does == "die once" and not checkpoint.exists():
        checkpoint.write_text('{"step": 0, "state": ""}')
        os.kill(os.getpid(), signal.SIGKILL)
    if does == "segfault":
        print("the toy is about to fall", file=sys.stderr, flush=True)
        import faulthandler

        faulthandler._sigsegv()
    if does == "exit":
        os._exit(7)


def wait_for_a_signal(does, spec, report):
    """Hang, with or without a signal or a child, if a run is asked to."""
    if does == "hang":
        for _ in range(1000):
            time.sleep(0.02)
            report({})
    if does == "term":
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    if does == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    if does == "spawn":
        child = subprocess.Popen(["sleep", "1000"])
        Path(spec["child"]).write_text(str(child.pid))
        time.sleep(1000)


def execute(_, spec, place):
    """Work in steps with a checkpoint after each; the score is a chain of digests over all steps
    and the scores of the bases.

    Each start and end is a line in the file `spec["log"]`, so that a test can count what was
    executed.
    """
    folder, checkpoint, report = place.folder, place.checkpoint, place.report
    log(spec, "start")
    does = spec.get("does", "work")
    raise_as_told(does)
    end_process(does, checkpoint)
    wait_for_a_signal(does, spec, report)
    if does == "fill":
        (folder / "big.bin").write_bytes(bytes(64_000_000))
    if does == "wrong":
        return {"status": "splendid"}
    state = {"step": 0, "state": ""}
    if checkpoint.exists():
        state = json.loads(checkpoint.read_text())
    above = [
        json.loads((path / "score.json").read_text()) for _, path in sorted(place.needed.items())
    ]
    steps = spec.get("steps", 3)
    for step in range(state["step"], steps):
        time.sleep(spec.get("seconds", 0.0) / steps)
        state = {"step": step + 1, "state": digest([state["state"], spec["name"], above, step])}
        partial = checkpoint.with_suffix(".partial")
        partial.write_text(json.dumps(state))
        os.replace(partial, checkpoint)
        report({"step": step + 1, "steps": steps})
    score = random.Random(state["state"]).random()
    (folder / "score.json").write_text(json.dumps(score))
    scores = [
        {"rule": rule, "set": "test", "metrics": {"accuracy": score}}
        for rule in ("best-id", "last")
    ]
    cost = {"pid": os.getpid(), "threads": os.environ.get("OMP_NUM_THREADS"), "path": sys.path[0]}
    log(spec, "end")
    return {
        "status": "diverged" if does == "diverge" else "finished",
        "scores": scores,
        "cost": cost,
        "warnings": ["a toy"],
    }


def healed(kind, spec, place):
    """Whatever the spec says, it works now."""
    return execute(kind, {**spec, "does": "work"}, place)


def log(spec, word):
    if "log" in spec:
        line = f"{word} {spec['name']} {os.getpid()}\n".encode()
        handle = os.open(spec["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line)  # one write: lines of several workers do not mix
        os.close(handle)


def graph(log_file, seconds=0.1):
    """Twelve runs: two bases, three runs on each, four alone, and two on three others."""
    bases = [planned(f"base{i}", log=str(log_file), seconds=seconds, steps=5) for i in range(2)]
    alone = [
        planned(f"alone{i}", log=str(log_file), seconds=seconds * (0.5 + 0.3 * i)) for i in range(4)
    ]
    on = [
        planned(f"on{i}", (bases[i % 2].key,), log=str(log_file), seconds=seconds) for i in range(6)
    ]
    top = [
        planned(
            f"top{i}", (on[i].key, on[i + 1].key, alone[0].key), log=str(log_file), seconds=seconds
        )
        for i in range(2)
    ]
    return [*top, *on, *alone, *bases]


JOB = "tests.execution.toys:execute"


def main(arguments):
    """`python -m tests.execution.toys OUT LOG WORKERS`: drive `graph` to its end, as a process that
    can be killed."""
    from crosswind.execution.engines.inline import Inline
    from crosswind.execution.engines.pool import WorkerPool
    from crosswind.execution.scheduler import drive
    from crosswind.storage.store import Store

    where, log_file, workers = arguments[0], Path(arguments[1]), int(arguments[2])
    runs = graph(log_file)
    engine = WorkerPool(JOB, workers) if workers else Inline(JOB)
    try:
        with Store.open(where, create=True) as store, engine:
            store.add_plan("toys", {}, {}, runs)
            drive(store, runs, engine)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
