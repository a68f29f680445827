"""Changed texts that are dear to make, kept on disk: by what made them, the text and its key."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.core.files import root_folder

FOLDER = "changed-texts"
"""In the folder of prepared data. A file in it may be deleted at any time; what it held is made
again."""
MOST_PAGES = 1 << 20
"""Of 4,096 bytes: a file takes 4 GiB at most, and what comes after is not kept."""

_TABLE = (
    "CREATE TABLE IF NOT EXISTS texts (text BLOB, key INTEGER, changed BLOB, PRIMARY KEY (text,"
    " key)) WITHOUT ROWID"
)
_WAIT = 120.0  # seconds for another process to end its transaction
_ASKED = 400


class Kept:
    """The changed texts of one transform with one set of settings: a file of SQLite, named after
    both.

    Several processes may read and write at once. What a killed process had not yet put in is not
    there; nothing is half there. Raises `DataError` for a file that is damaged or cannot be
    written.
    """

    def __init__(self, name: str, identity: str) -> None:
        """`identity`: a hash of all that decides a changed text, but for the text and its key."""
        self.path = root_folder() / FOLDER / f"{name}-{identity}.sqlite"

    def get(self, texts: Sequence[str], keys: NDArray[np.uint64]) -> dict[int, str]:
        """Place in `texts` -> the changed text, where there is one."""
        if not self.path.is_file():
            return {}
        stored: dict[tuple[bytes, int], str] = {}
        lookups = list(zip(map(_hash, texts), keys.astype(np.int64).tolist(), strict=True))
        with self._opened() as connection:
            connection.execute(_TABLE)
            for start in range(0, len(lookups), _ASKED):
                chunk = lookups[start : start + _ASKED]
                placeholders = ", ".join(["(?, ?)"] * len(chunk))
                query = (
                    "SELECT text, key, changed FROM texts WHERE (text, key) IN (VALUES"
                    f" {placeholders})"
                )
                parameters = [x for lookup in chunk for x in lookup]
                for text, key, changed in connection.execute(query, parameters):
                    stored[(text, key)] = _text(changed)
        return {
            position: stored[lookup] for position, lookup in enumerate(lookups) if lookup in stored
        }

    def put(self, texts: Sequence[str], keys: NDArray[np.uint64], changed: Sequence[str]) -> None:
        """Keep changed texts. A full file takes no more."""
        rows = zip(
            map(_hash, texts), keys.astype(np.int64).tolist(), map(_bytes, changed), strict=True
        )
        with self._opened() as connection:
            connection.execute(f"PRAGMA max_page_count = {MOST_PAGES}")
            connection.execute(_TABLE)
            try:
                connection.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", rows)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                    raise

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        connection = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=_WAIT)
            with connection:  # a transaction
                yield connection
        except (sqlite3.Error, OSError) as error:
            why = getattr(error, "strerror", None) or error
            problem = (
                f"changed texts cannot be kept in {self.path} ({why}); delete it, or name another"
                " folder in CROSSWIND_DATA"
            )
            raise DataError(problem) from None
        finally:
            if connection is not None:
                connection.close()


def _hash(text: str) -> bytes:
    return hashlib.blake2b(_bytes(text), digest_size=16).digest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
