"""Which store on PostgreSQL a folder of files belongs to: the folder keeps a mark of it, since two
stores in one folder would write over each other's files."""

from __future__ import annotations

import secrets
import shlex
from pathlib import Path

import sqlalchemy as sa

from crosswind.core.errors import InputError, StoreError
from crosswind.storage.database import meta, sentences

MARK = ".store"
"""The file of a folder that has the identity and the URL of the store whose files lie there."""
_IDENTITY = "identity"


def mark_folder(out: Path, name: str, connection: sa.Connection, store_file: str) -> None:
    """Mark `out` as the folder of the files of the store `name`, whose tables `connection` reads.

    Raises `InputError` on `--out` where it has the files of another store: one on PostgreSQL, or an
    SQLite file `store_file`. Raises `StoreError` where the folder cannot be written.
    """
    identity = _identity_of(connection)
    with sentences(str(out)):
        marked = marked_store(out)
        if marked is not None:
            if marked[0] != identity:
                gone = f", or remove {out / MARK} where that database is gone"
                raise _refusal(out, marked[1], gone)
            return
        if (out / store_file).exists():
            raise _refusal(out, str(out / store_file))
        out.mkdir(parents=True, exist_ok=True)
        (out / MARK).write_text(f"{identity} {name}\n", encoding="utf-8")


def refuse_marked(out: Path, path: Path, create: bool) -> None:
    """Refuse an SQLite store that is not there in a folder with the files of one on PostgreSQL.

    Raises `InputError` on `--out` where it would be made (`create`), `StoreError` where it is looked
    for at `path`.
    """
    marked = marked_store(out)
    if marked is None:
        return
    if create:
        raise _refusal(out, marked[1], f", or that store by --store {shlex.quote(marked[1])}")
    problem = f"there is no store at {path}, and {out} has the files of the store {marked[1]}"
    raise StoreError(f"{problem}; name it by its URL")


def marked_store(out: Path) -> tuple[str, str] | None:
    """The identity and the URL of the store whose files `out` has by its mark; None without one."""
    try:
        identity, _, name = (out / MARK).read_text(encoding="utf-8").strip().partition(" ")
    except (OSError, UnicodeDecodeError):
        return None
    return (identity, name) if identity and name else None


def _identity_of(connection: sa.Connection) -> str:
    """A text that this database alone has, made when it is first asked for."""
    from sqlalchemy.dialects import postgresql

    insert = postgresql.insert(meta).values(name=_IDENTITY, value=secrets.token_hex(16))
    connection.execute(insert.on_conflict_do_nothing())
    query = sa.select(meta.c.value).where(meta.c.name == _IDENTITY)
    return str(connection.execute(query).scalar_one())


def _refusal(out: Path, name: str, remedy: str = "") -> InputError:
    problem = f"{out} has the files of another store, {name}, which would be written over"
    return InputError("--out", f"{problem}; name another folder{remedy}")
