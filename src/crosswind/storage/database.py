"""The tables of a store and how its database is opened: SQLite in a folder, or PostgreSQL by
URL."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from crosswind.core.errors import StoreError, one_line
from crosswind.core.files import check_file, network_file_system, permit_as_folder
from crosswind.core.printing import utf8

SCHEMA = 3
"""The version of the tables below, kept in `meta`."""

BUSY_SECONDS = 30.0

PASSWORD_REMEDY = (
    "a password is better left out of it: PGPASSWORD, or a line"
    " HOST:PORT:DATABASE:USER:PASSWORD of ~/.pgpass, holds one"
)
"""Where the password of a database belongs, for sentences on a store's URL."""
_PAGE_BYTES = 8192
"""Of an SQLite file that is made. Of SQLite's default, 4,096, three trainings of a plan leave a tenth
empty, and twice as many pages are written; stores of before have it and keep it."""

_MOST_VALUES = 400
"""Values of one statement; old versions of SQLite take 999."""

_METADATA = sa.MetaData()


def _columns(kind: Any, *names: str, **options: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, **{"nullable": False, **options}) for name in names]


_key = partial(_columns, primary_key=True)
_maybe = partial(_columns, nullable=True)
_text, _number = partial(_columns, sa.Text), partial(_columns, sa.Double)

meta = sa.Table("meta", _METADATA, *_key(sa.Text, "name"), *_text("value"))

drivers = sa.Table(
    "drivers",
    _METADATA,
    *_key(sa.Text, "id"),
    *_text("host"),
    *_columns(sa.Integer, "pid"),
    *_text("start"),
    *_number("heartbeat"),
)

studies = sa.Table(
    "studies", _METADATA, *_key(sa.Text, "name"), *_text("given", "resolved"), *_number("created")
)

study_runs = sa.Table(
    "study_runs",
    _METADATA,
    *_key(sa.Text, "study"),
    *_key(sa.Integer, "position"),
    *_text("key", index=True),
    *_text("labels"),
)

# The jobs of all studies. `driver` and `worker` stay after the end, as a record of who did it.
# `blocked_by` is the failed job that this one needs, `cause` what of the machine stopped a failed
# one. `files`: size and SHA-256 of each file of a finished one.
runs = sa.Table(
    "runs",
    _METADATA,
    *_key(sa.Text, "key"),
    *_text("spec"),
    *_text("status", server_default="pending", index=True),
    *_columns(sa.Integer, "attempts", server_default="0"),
    *_maybe(sa.Text, "reason", "detail", "blocked_by", "driver", "worker"),
    *_maybe(sa.Double, "started", "finished", "seconds"),
    *_maybe(sa.Text, "versions", "cost", "warnings", "cause", "files"),
    *_text("kind", server_default="score"),
    *_text("needs", server_default="[]"),
    # One by one, since SQLite makes a table of a list of more than two in every statement.
    sa.CheckConstraint(
        "status = 'pending' OR status = 'running' OR status = 'finished' OR status = 'diverged'"
        " OR status = 'failed'",
        name="status_known",
    ),
)

WITH_FILES = sa.text("files != '{}' AND status || '' IN ('finished', 'diverged')")
"""Jobs that are done and left files. What is joined to the status keeps SQLite from looking them up
by it, one by one, in place of in the index below."""

# What `status`, and a run with nothing to do, ask of all jobs is answered from indexes: the rows of
# 100,000 runs are a GiB. Stores of before get them when they are next opened for writing.
_INDEXES = {
    # PostgreSQL takes no long texts, such as warnings, into an index.
    "ix_runs_state": {
        "sqlite": 'runs (kind, status, driver, "key", warnings)',
        "postgresql": 'runs (kind, status, driver, "key")',
    },
    "ix_runs_files": dict.fromkeys(
        ("sqlite", "postgresql"), "runs (finished, \"key\", status) WHERE files != '{}'"
    ),
}

scores = sa.Table(
    "scores",
    _METADATA,
    *_key(sa.Text, "key"),
    *_key(sa.Integer, "position"),
    *_text("rule", "set", "metrics"),
)


def open_database(where: Path | str, name: str, create: bool) -> sa.Engine:
    """An engine for the SQLite file or the PostgreSQL URL `where`, for reading only unless
    `create`; `name` is what errors say.

    The tables are there and of this version; with `create` they are made. Raises `StoreError`.
    """
    engine = _postgresql(where) if isinstance(where, str) else _sqlite(where, create)

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        # SQLite takes the write lock at once: a transaction that reads first and locks later fails
        # when another came between.
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE" if create else "BEGIN")

    try:
        with sentences(name), engine.begin() as connection:
            _check_tables(connection, name, create)
    except BaseException:
        engine.dispose()
        raise
    return engine


def _check_tables(connection: sa.Connection, name: str, create: bool) -> None:
    if create and connection.dialect.name == "postgresql":
        connection.execute(
            sa.text("SELECT pg_advisory_xact_lock(7239847523)")
        )  # two may make the tables at once
    present = set(sa.inspect(connection).get_table_names())
    if not present and create:
        _METADATA.create_all(connection)
        connection.execute(meta.insert().values(name="schema", value=str(SCHEMA)))
        _add_indexes(connection)
        return
    if not present:  # or its tables are being made
        raise StoreError(f"{name} is empty, so not a Crosswind store")
    schema = sa.select(meta.c.value).where(meta.c.name == "schema")
    version = connection.execute(schema).scalar() if "meta" in present else None
    if version is None or not str(version).isdecimal():
        raise StoreError(f"{name} is a database, but not a Crosswind store")
    if int(version) > SCHEMA:
        raise StoreError(
            f"{name} was written by a newer Crosswind (schema {version}, here {SCHEMA}); update"
            " Crosswind"
        )
    if int(version) < SCHEMA:
        raise StoreError(
            f"{name} has schema {version}, which this Crosswind (schema {SCHEMA}) cannot read; use a"
            " new folder"
        )
    if create:
        _add_indexes(connection)


def _add_indexes(connection: sa.Connection) -> None:
    present = {index["name"] for index in sa.inspect(connection).get_indexes("runs")}
    for name, words in _INDEXES.items():
        if name not in present:
            connection.exec_driver_sql(f"CREATE INDEX {name} ON {words[connection.dialect.name]}")


def insert_rows(
    connection: sa.Connection,
    table: sa.Table,
    names: Sequence[str],
    rows: Iterable[tuple[Any, ...]],
    *,
    skip_known: bool = False,
) -> None:
    """Insert many rows, tuples of the values of the columns `names`, in this order.

    `skip_known`: rows whose key is in the table stay as they are; else such a key is an error of
    the database. The rows go to the driver as they are: a statement of SQLAlchemy makes a dictionary
    of each. SQLite takes many rows a statement twice as fast as one, and PostgreSQL a copied stream
    several times as fast as statements.
    """
    columns = ", ".join(f'"{name}"' for name in names)
    do_nothing = " ON CONFLICT DO NOTHING" if skip_known else ""
    into = f"INSERT INTO {table.name} ({columns})"
    if connection.dialect.name == "sqlite":
        marks = f"({', '.join('?' * len(names))})"
        for n_values, lots in groupby(_lots(rows, len(names)), key=len):
            marks_of_lot = ", ".join([marks] * (n_values // len(names)))
            connection.exec_driver_sql(f"{into} VALUES {marks_of_lot}{do_nothing}", list(lots))
        return
    connection.exec_driver_sql(
        f"CREATE TEMPORARY TABLE inserted_rows ON COMMIT DROP AS"
        f" SELECT 0::bigint AS row_number, {columns} FROM {table.name} WITH NO DATA"
    )
    driver: Any = connection.connection.driver_connection
    statement = f"COPY inserted_rows (row_number, {columns}) FROM STDIN"
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row_number, row in enumerate(rows):
                copy.write_row((row_number, *row))
    except connection.dialect.loaded_dbapi.Error as error:
        raise sa.exc.DBAPIError(statement, None, error) from error
    # In the order of the rows: two that insert the same keys wait for each other in one order.
    connection.exec_driver_sql(
        f"{into} SELECT {columns} FROM inserted_rows ORDER BY row_number{do_nothing}"
    )
    connection.exec_driver_sql("DROP TABLE inserted_rows")


def _lots(rows: Iterable[tuple[Any, ...]], width: int) -> Iterator[tuple[Any, ...]]:
    """The values of `rows`, each of `width` values, by as many rows as one statement takes."""
    remaining = iter(rows)
    size = max(1, _MOST_VALUES // width)
    while lot := tuple(chain.from_iterable(islice(remaining, size))):
        yield lot


@contextlib.contextmanager
def indexed_afterwards(connection: sa.Connection, tables: Sequence[sa.Table]) -> Iterator[None]:
    """Within it, empty tables of SQLite are without their indexes: these are made at the end, from
    all rows at once, which takes half as long. Tables with rows keep theirs.

    The transaction of `connection` has to be rolled back where this raises.
    """
    statements: list[str] = []
    if connection.dialect.name == "sqlite":
        for table in tables:
            if connection.execute(sa.select(sa.exists().select_from(table))).scalar():
                continue
            indexes = connection.exec_driver_sql(
                "SELECT name, sql FROM sqlite_master"
                " WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL",
                (table.name,),
            )
            for name, statement in indexes.all():
                connection.exec_driver_sql(f'DROP INDEX "{name}"')
                statements.append(statement)
    yield
    for statement in statements:
        connection.exec_driver_sql(statement)


@contextlib.contextmanager
def sentences(name: str) -> Iterator[None]:
    """Turn what the database or the file system raises into one `StoreError` sentence about the
    store `name`."""
    try:
        yield
    except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
        raise StoreError(f"{name} {_why(error)}") from error
    except UnicodeDecodeError as error:  # sqlite3 raises it for a damaged name in the schema
        raise StoreError(
            f"{name} is damaged and cannot be read (text that is not UTF-8)"
        ) from error
    except OSError as error:
        file_note = f" ({error.filename})" if error.filename else ""
        raise StoreError(
            f"{name} cannot be read or written: {error.strerror or error}{file_note}"
        ) from error


def _why(error: Exception) -> str:
    # the first line of PostgreSQL's text is the message, the rest says where it stands in the
    # statement
    text = one_line(str(getattr(error, "orig", None) or error).strip().partition("\n")[0], 300)
    for fragment, sentence in {
        "not a database": "is not an SQLite database",
        "malformed": "is damaged and cannot be read (database disk image is malformed)",
        "could not decode": "is damaged and cannot be read (text that is not UTF-8)",
        "no such column": "is damaged or no Crosswind store: a table lacks a column",
        "disk is full": "cannot be written: the disk is full",
        "is locked": f"is locked by another program for more than {BUSY_SECONDS:.0f} seconds",
        "readonly": "cannot be written: it is read-only here",
        "unable to open": "cannot be opened: no permission, or its folder is gone",
        "disk I/O": "cannot be read or written: the disk reports an error",
    }.items():
        if fragment.casefold() in text.casefold():
            return sentence
    remedy = next((remedy for words, remedy in _REMEDIES.items() if words in text), "")
    return f"cannot be read or written: {text}{remedy}"


_REMEDIES = {
    "no password supplied": "; PGPASSWORD, or a line HOST:PORT:DATABASE:USER:PASSWORD of"
    " ~/.pgpass (readable by you alone), holds it",
    "password authentication failed": "; PGPASSWORD and ~/.pgpass hold one as well as the URL does",
    "does not exist": "; `createdb` makes a database, `createuser` a role",
    "permission denied": "; who owns the database may GRANT it to this role",
    "read-only transaction": "; the server is a copy that follows another, or the database is closed to"
    " changes: name the server that takes them, or set default_transaction_read_only off",
    "no schema has been selected": "; `CREATE SCHEMA` makes one, search_path names it",
}
"""What helps, by words of PostgreSQL's messages."""


def without_password(url: str) -> str:
    """The URL of a store as commands, errors and pages show it: no password, neither before the host
    nor among the options."""
    head, mark, address = re.sub(r"(?i)(?<=[?&])[^=&]*password=[^&]*&?", "", url).partition("://")
    credentials, separator, host = address.rstrip("?&").rpartition("@")
    return f"{head}{mark}{credentials.partition(':')[0]}{separator}{host}"


def has_password(url: str) -> bool:
    """Whether the URL of a store holds a password. Raises `StoreError` for what is no such URL."""
    parsed = check_url(url)
    return parsed.password is not None or any("password" in key.lower() for key in parsed.query)


def check_url(url: str) -> sa.URL:
    """The parts of the URL of a store on PostgreSQL. Raises `StoreError` for what is none; no server
    is asked."""
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        parsed = None
    # An @ of a password ends it too early: its rest would be looked up, and shown, as a host.
    if parsed is None or "@" in f"{parsed.host}{parsed.database}":
        raise StoreError(
            "the store's URL cannot be read; it should be like postgresql://user@host/database,"
            f" where an @ of a password is %40; {PASSWORD_REMEDY}"
        )
    if parsed.get_backend_name() not in ("postgresql", "postgres"):
        raise StoreError(
            f"a store is a folder or a postgresql:// URL, not {parsed.get_backend_name()}://"
        )
    return parsed


def check_server(url: str) -> None:
    """Refuse, before any work, a URL whose server does not answer or does not let this user into the
    database. Raises `StoreError`."""
    engine = _postgresql(url)
    try:
        with sentences(without_password(url)), engine.connect():
            pass
    finally:
        engine.dispose()


def _postgresql(url: str) -> sa.Engine:
    parsed = check_url(url)
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise StoreError(
            "a store on PostgreSQL needs the extra: pip install 'crosswind[postgresql]'"
        ) from None
    return sa.create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        pool_pre_ping=True,
        connect_args={"connect_timeout": 20},
    )


def _instead_of(path: Path) -> str:
    """The remedy where a path is no store: the folder that a run wrote, or how one is made."""
    if not path.exists():
        return f"`crosswind run STUDY --out {shlex.quote(str(path.parent))}` makes one"
    study = shlex.quote(str(path)) if path.suffix in (".yaml", ".yml") else "STUDY"
    return f"name the folder that `crosswind run {study} --out FOLDER` writes"


def _sqlite(path: Path, create: bool) -> sa.Engine:
    with sentences(str(path)):
        if path.is_dir():
            raise StoreError(f"{path} is a folder where the store's file should be")
        head = b""
        if path.exists():
            check_file(path)
            with path.open("rb") as file:
                head = file.read(16)
            if (head or not create) and head != b"SQLite format 3\0":
                raise StoreError(
                    f"{path} is {'not an SQLite database' if head else 'empty'}, so not a Crosswind"
                    f" store; {_instead_of(path)}"
                )
        elif not create:
            raise StoreError(f"there is no store at {path}; {_instead_of(path)}")
        if not create:
            return _reading(path)
        _refuse_network(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            on_a_disk = os.statvfs(path.parent).f_flag & os.ST_RDONLY
            raise StoreError(
                f"{path} cannot be written:"
                f" {'its disk is read-only here' if on_a_disk else 'no permission'}"
            )
        if not path.exists():
            _make(path)
        # Before it is opened: SQLite would leave files beside it that lock its owner out.
        if not os.access(path, os.W_OK):
            problem = f"{path} cannot be written: no permission"
            raise StoreError(
                f"{problem}; its owner lets a group write by `chmod g+w`, on {path.parent} too"
            )
        _sweep(path)
        if head:
            _refuse_foreign(path)
        _writing(
            path
        ).close()  # tried here, so that what is wrong with the file is known before any table is read
    return _engine(partial(_writing, path))


def _engine(
    connect: Callable[[], sqlite3.Connection], pool: type[sa.Pool] = sa.QueuePool
) -> sa.Engine:
    return sa.create_engine("sqlite+pysqlite://", creator=connect, poolclass=pool)


def _make(path: Path) -> None:
    """Make the file with its tables under another name first, so that a kill or a full disk leaves
    a whole store or none.

    Not in WAL mode: a commit is then in the file itself. From a WAL it gets there at the close,
    which says nothing when the disk is full. The name that the store is given is not the one that
    the WAL belongs to.
    """
    staged = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        engine = _engine(lambda: _connect(staged, "mode=rwc"), sa.StaticPool)
        with engine.begin() as connection:
            connection.exec_driver_sql(f"PRAGMA page_size={_PAGE_BYTES}")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            _check_tables(connection, str(path), True)
        engine.dispose()
        permit_as_folder(staged)
        try:
            os.link(staged, path)
        except FileExistsError:
            pass  # another driver was first
        except OSError:
            os.replace(staged, path)  # a file system without links
    finally:
        for left in path.parent.glob(f"{staged.name}*"):
            left.unlink(missing_ok=True)


def _sweep(path: Path) -> None:
    """Remove what a kill in `_make` left: a second name of the store, or what nobody has touched
    for an hour."""
    for left in path.parent.glob(f".{path.name}.*.partial*"):
        with contextlib.suppress(FileNotFoundError):  # another driver sweeps too
            state = left.stat()
            if state.st_nlink > 1 or time.time() - state.st_mtime > 3600:
                left.unlink()


def _refuse_network(path: Path) -> None:
    """Refuse to write an SQLite file that other machines may have open. Its locks and its shared
    memory do not reach them, and the file would be corrupted sooner or later."""
    if kind := network_file_system(path):
        raise StoreError(
            f"{path} lies on a network drive ({kind}), where SQLite would be corrupted; name a folder"
            " of a local disk by --out, or keep results in PostgreSQL: --store"
            " postgresql://HOST/NAME, with --out on this drive"
        )


def _refuse_foreign(path: Path) -> None:
    """Leave a database that is not ours untouched: already the change to WAL would be written into
    it."""
    with contextlib.closing(_connect(path, "mode=rw")) as connection:
        tables = {
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
    if tables and not {"meta", "runs"} <= tables:
        raise StoreError(f"{path} is a database, but not a Crosswind store; {_instead_of(path)}")


def _writing(path: Path) -> sqlite3.Connection:
    connection = _connect(path, "mode=rwc")
    # WAL: readers and the writer do not wait for each other. FULL: a commit reaches the disk before
    # it returns, so a power cut takes back no finished run; it costs one fsync a commit (0.1 to 10
    # ms), a run takes seconds.
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def _reading(path: Path) -> sa.Engine:
    """Reads a store that others may write, in a folder that may not be writable."""
    beside = path.with_name(path.name + "-wal")
    index = path.with_name(path.name + "-shm")
    tried: list[str] = []
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        tried.append(
            "mode=rw"
        )  # SQLite's index of the WAL is made beside the file, and taken away at the end; only "rw" does both
    elif not beside.exists() and not index.exists():
        # Nobody writes. "ro" would make both, leave them, and they would lock the owner out.
        tried.append("mode=ro&immutable=1")
    tried.append("mode=ro")
    if not beside.exists() or beside.stat().st_size == 0:
        tried.append(
            "mode=ro&immutable=1"
        )  # no room for that index, and no WAL either: the file is all there is
    failed = sqlite3.OperationalError()
    for options in tried:
        try:
            _connect(path, options).close()
        except sqlite3.OperationalError as error:
            # No room for the index: in a folder that is read-only, or (an I/O error) on a disk that
            # is full to the last block.
            if not any(
                words in str(error)
                for words in ("unable to open", "readonly", "disk I/O error", "disk is full")
            ):
                raise
            failed = error
        else:
            engine = _engine(partial(_connect, path, options))
            if options.endswith("immutable=1"):
                _refuse_changes(engine, path)
            return engine
    if not os.access(path, os.R_OK):
        raise StoreError(f"{path} cannot be opened: no permission to read it")
    if tried[-1].endswith("immutable=1"):
        raise failed
    # A WAL with content but no room for its index: a copy of both is read, in memory, which lives
    # as long as its one connection.
    memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    with tempfile.TemporaryDirectory(prefix="crosswind-store-") as folder:
        for file in (path, beside):
            shutil.copyfile(file, Path(folder, file.name))
        with contextlib.closing(_connect(Path(folder, path.name), "mode=rw")) as connection:
            connection.backup(memory)
    return _engine(lambda: memory, sa.StaticPool)


def _refuse_changes(engine: sa.Engine, path: Path) -> None:
    """Let a transaction fail in which the file was written: SQLite was told that nobody does, and may
    have read half of the old and half of the new."""
    before = path.stat()

    @sa.event.listens_for(engine, "commit")
    def commit(connection: sa.Connection) -> None:
        after = path.stat()
        if (after.st_mtime_ns, after.st_size) != (before.st_mtime_ns, before.st_size):
            raise StoreError(f"{path} was written while it was read; give the command again")


def _connect(path: Path, options: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path.absolute()))}?{options}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,  # transactions begin where `open_database` says
        check_same_thread=False,
    )
    try:
        if options != "mode=rwc":
            connection.execute("PRAGMA query_only=ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def now(connection: sa.Connection) -> float:
    """Seconds since 1970 on the clock that all drivers of this store share."""
    if connection.dialect.name == "postgresql":
        return float(
            connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one()
        )
    return time.time()


def text(value: Any) -> str | None:
    """`value` as text that both databases take: no NUL, nothing that is not UTF-8."""
    return None if value is None else utf8(str(value).replace("\0", "")).decode()
