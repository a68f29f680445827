"""A PostgreSQL server of the tests' own: started as a user that is not root, killed, started again."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

START_TRIES = 40


def why_no_server() -> str:
    """Why no server can be started here, a sentence; empty where one can."""
    if not sorted(Path("/usr/lib/postgresql").glob("*/bin")):
        return "no PostgreSQL server below /usr/lib/postgresql"
    is_root = os.geteuid() == 0
    lacks_user = subprocess.run(["id", "postgres"], capture_output=True, check=False).returncode
    if is_root and (not shutil.which("runuser") or lacks_user):
        return "root cannot start PostgreSQL without a user postgres"
    return ""


class PostgresServer:
    """A server that listens on a socket of its own folder; a context manager."""

    def __init__(self) -> None:
        self._programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        # Short: the path of a socket has at most 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        self.folder.chmod(0o777)

    def __enter__(self) -> PostgresServer:
        try:
            initialise = ["-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync"]
            self._call("initdb", *initialise, check=True)
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._call("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str) -> str:
        """The URL of a database of this server."""
        return f"postgresql://tester@/{database}?host={self.folder}"

    def create(self, database: str) -> str:
        """Create an empty database; its URL."""
        import psycopg

        with contextlib.closing(
            psycopg.connect(self.url("postgres"), autocommit=True)
        ) as connection:
            connection.execute(f'CREATE DATABASE "{database}"')
        return self.url(database)

    def start(self) -> None:
        """Start the server. One that was killed can start once the last of its processes has
        ended."""
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off"
        log_file = str(self.folder / "log")
        for _ in range(START_TRIES):
            if self._call("pg_ctl", "-o", options, "-l", log_file, "-w", "start") == 0:
                return
            time.sleep(0.25)
        raise RuntimeError((self.folder / "log").read_text(encoding="utf-8")[-2000:])

    def kill(self) -> None:
        """Kill the first process of the server, as a machine that fails does; the others end with
        it."""
        first_line = (self.folder / "data" / "postmaster.pid").read_text().splitlines()[0]
        os.kill(int(first_line), signal.SIGKILL)

    def _call(self, program: str, *words: str, check: bool = False) -> int:
        # PostgreSQL refuses to run as root.
        as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        command = [*as_user, str(self._programs / program), "-D", str(self.folder / "data"), *words]
        # No pipes: the server would hold them open.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.run(command, check=check, cwd=self.folder, **quiet).returncode
