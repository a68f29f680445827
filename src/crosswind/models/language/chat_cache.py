"""Answers that were paid for, and the tokens that they cost: one SQLite file for all studies of a
user.

An answer is named by what was asked (the model, the messages, the settings, the pixels), never by
who asked or where, and is committed before its asker goes on. A reply that could not be read is
kept as well, for the address that sent it: it was paid for, and would come again. The file holds no
key and no image.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from crosswind.core.errors import DataError, one_line

FOLDER_VARIABLE = "CROSSWIND_ANSWERS"
BUSY_SECONDS = 60.0
POLL_SECONDS = 0.05
MEASURED = 20
"""Answers from which on their mean tells more about the next one than an estimate does."""

_TABLES = (
    (
        "CREATE TABLE IF NOT EXISTS answers (name TEXT PRIMARY KEY, family TEXT NOT NULL, text TEXT"
        " NOT NULL, model TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT"
        " NULL) WITHOUT ROWID"
    ),
    "CREATE INDEX IF NOT EXISTS families ON answers (family)",
    (
        "CREATE TABLE IF NOT EXISTS refusals (name TEXT NOT NULL, address TEXT NOT NULL, host TEXT"
        " NOT NULL, reason TEXT NOT NULL, most_bytes INTEGER NOT NULL, PRIMARY KEY (name, address))"
        " WITHOUT ROWID"
    ),
    (
        "CREATE TABLE IF NOT EXISTS budgets (name TEXT PRIMARY KEY, spent INTEGER NOT NULL) WITHOUT"
        " ROWID"
    ),
)


class Paid(NamedTuple):
    """An answer: its text, the model that the server named, and the tokens read and written."""

    text: str
    model: str
    input_tokens: int
    output_tokens: int


class Refusal(NamedTuple):
    """A reply that is no answer: the host that sent it, what was wrong with it, and the bytes that
    it was not to exceed; 0: any."""

    host: str
    reason: str
    most_bytes: int = 0

    @property
    def text(self) -> str:
        """The text that stands in the place of an answer; it is read as no class."""
        return f"[no answer: {self.reason}]"


def cache_file() -> Path:
    """`answers.sqlite` in the folder that CROSSWIND_ANSWERS names, else in ~/.cache/crosswind."""
    return (
        Path(os.environ.get(FOLDER_VARIABLE) or "~/.cache/crosswind").expanduser().absolute()
        / "answers.sqlite"
    )


class AnswerCache:
    """The file, opened for the threads of one process; other processes may have it open too. A
    context manager.

    Raises `DataError` where it cannot be opened, read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        with self._told():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._locks = path.with_suffix(".lock").open("ab")
            self._connection = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                self._connection.execute(
                    "PRAGMA synchronous=FULL"
                )  # what was paid for outlives a power cut
                for table in _TABLES:
                    self._connection.execute(table)
            except BaseException:
                self.__exit__()
                raise

    def __enter__(self) -> AnswerCache:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._locks.close()

    @contextmanager
    def alone(self, name: str, stopped: threading.Event) -> Iterator[None]:
        """Hold a question against other processes, whose two workers may come to one row together;
        waits for one that holds it.

        A process lets go when it ends, however it does. Goes on without the question where
        `stopped` is set.
        """
        lock_number = int(name[:12], 16)  # a byte of a file that has none
        while not stopped.is_set():
            try:
                fcntl.lockf(self._locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, lock_number)
                break
            except (
                OSError
            ):  # not waited for by the kernel, to which threads that wait look like a deadlock
                stopped.wait(POLL_SECONDS)
        try:
            yield
        finally:
            fcntl.lockf(self._locks, fcntl.LOCK_UN, 1, lock_number)

    def known(self, names: Sequence[str]) -> dict[str, str]:
        """The texts of those of the names that are answered."""
        with self._told():
            texts: dict[str, str] = {}
            for start in range(0, len(names), 500):
                chunk = names[start : start + 500]
                marks = ",".join("?" * len(chunk))
                texts |= dict(
                    self._connection.execute(
                        f"SELECT name, text FROM answers WHERE name IN ({marks})", chunk
                    ).fetchall()
                )
            return texts

    def answers_of(self, family: str) -> bool:
        """Whether any question of a family was ever answered."""
        with self._told():
            query = "SELECT 1 FROM answers WHERE family = ? LIMIT 1"
            return self._connection.execute(query, (family,)).fetchone() is not None

    def refused(self, names: Sequence[str], address: str, most_bytes: int) -> dict[str, Refusal]:
        """Those of the names to which an address sent what is no answer, but not what was too large
        under a lower limit."""
        refusals: dict[str, Refusal] = {}
        with self._told():
            for start in range(0, len(names), 500):
                portion = names[start : start + 500]
                marks = ",".join("?" * len(portion))
                query = (
                    f"SELECT name, host, reason, most_bytes FROM refusals WHERE name IN ({marks})"
                    " AND address = ? AND (most_bytes = 0 OR most_bytes >= ?)"
                )
                arguments = (*portion, address, most_bytes)
                rows = self._connection.execute(query, arguments).fetchall()
                refusals |= {name: Refusal(*columns) for name, *columns in rows}
        return refusals

    def refuse(self, name: str, address: str, refusal: Refusal) -> None:
        """Commit that a reply is no answer. What was reserved for it stays counted: the server may
        have counted it too."""
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO refusals VALUES (?, ?, ?, ?, ?)", (name, address, *refusal)
            )

    def keep(self, name: str, family: str, paid: Paid, budget: str, reserved: int) -> None:
        """Commit an answer, and count in the budget what it cost in the place of what was
        reserved."""
        cost = paid.input_tokens + paid.output_tokens
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)", (name, family, *paid)
            )
            self._connection.execute(
                "UPDATE budgets SET spent = spent + ? WHERE name = ?", (cost - reserved, budget)
            )

    def reserve(self, budget: str, tokens: int, most: int | None) -> bool:
        """Count tokens as spent before they are; False, and nothing is counted, where that would be
        more than `most`."""
        with self._transaction():
            self._connection.execute("INSERT OR IGNORE INTO budgets VALUES (?, 0)", (budget,))
            room = "" if most is None else " AND spent + ? <= ?"
            parameters = (tokens, budget) if most is None else (tokens, budget, tokens, most)
            return (
                self._connection.execute(
                    f"UPDATE budgets SET spent = spent + ? WHERE name = ?{room}", parameters
                ).rowcount
                == 1
            )

    def give_back(self, budget: str, tokens: int) -> None:
        """Tokens that were reserved and not used."""
        with self._transaction():
            self._connection.execute(
                "UPDATE budgets SET spent = spent - ? WHERE name = ?", (tokens, budget)
            )

    def spent(self, budget: str) -> int:
        """Tokens counted in a budget so far, those of requests in flight as they were estimated."""
        with self._told():
            budget_row = self._connection.execute(
                "SELECT spent FROM budgets WHERE name = ?", (budget,)
            ).fetchone()
            if budget_row is None:
                return 0
            return int(budget_row[0])

    def usual(self, family: str) -> tuple[float, float] | None:
        """The mean input and output tokens of a family's answers; None where there are fewer than
        `MEASURED`."""
        with self._told():
            query = (
                "SELECT count(*), avg(input_tokens), avg(output_tokens) FROM answers WHERE"
                " family = ?"
            )
            number, read, written = self._connection.execute(query, (family,)).fetchone()
            if number >= MEASURED:
                return (float(read), float(written))
            return None

    @contextmanager
    def _told(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except (sqlite3.Error, OSError) as error:
                text = getattr(error, "strerror", None) or str(error)
                reason = one_line(text, 200)
                problem = (
                    f"the file of answers {self.path} cannot be used ({reason}); {FOLDER_VARIABLE}"
                    " names its folder"
                )
                raise DataError(problem) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._told():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
