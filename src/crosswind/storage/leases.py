"""Who drives the runs of a store, and whether that process still lives.

A driver is the process that claims runs, hands them to workers and records what comes back. It is
known by machine, process number and the process's start time, so that a number given to another
program later is not taken for it.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

HEARTBEAT_SECONDS = 15.0
STALE_SECONDS = 60.0

_ACTIVE: set[str] = set()


@dataclass(frozen=True)
class Driver:
    """One driver. `id` is unique, also among the drivers of one process, and may name a folder."""

    id: str
    host: str
    pid: int
    start: str

    @classmethod
    def current(cls) -> Driver:
        """A new driver in this process. It counts as living until `end` is called or the process
        ends."""
        host = machine()
        pid = os.getpid()
        name = re.sub(r"[^A-Za-z0-9]+", "-", socket.gethostname())[:40].strip("-") or "host"
        driver = cls(f"{name}-{pid}-{secrets.token_hex(4)}", host, pid, process_start(pid) or "")
        _ACTIVE.add(driver.id)
        return driver

    def end(self) -> None:
        """Say that this driver drives no more, though its process goes on."""
        _ACTIVE.discard(self.id)

    def lives(self, heartbeat: float, now: float) -> bool:
        """Whether it still drives. On this machine the process decides, elsewhere a heartbeat under
        a minute old.

        `heartbeat`, `now`: seconds on the same clock.
        """
        if self.host != machine():
            return now - heartbeat <= STALE_SECONDS
        if self.pid == os.getpid():
            return self.id in _ACTIVE
        return process_start(self.pid) == self.start


def machine() -> str:
    """This machine as far as process numbers are valid: host name, boot and process name space (two
    containers differ)."""
    identifiers = [socket.gethostname()]
    try:
        identifiers += [
            Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            os.readlink("/proc/self/ns/pid"),
        ]
    except OSError:
        pass  # not Linux: the host name has to do
    return " ".join(identifiers)


def process_start(pid: int) -> str | None:
    """When the living process `pid` was started, as text to compare; None when there is no such
    process or only its zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except OSError:
        return None
    else:
        if fields[0] in "ZX":
            return None
        return fields[19]
    shown = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip() or None
