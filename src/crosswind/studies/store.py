"""Where studies, their jobs and their results live: a database and, beside it, the files of each job.

A store is a folder with `store.sqlite` in it, or a PostgreSQL URL with a folder for the files. Jobs of any kind are one table,
whose messages call them runs. They are shared by the studies that list them and are never deleted. A job is `pending`, `running`,
`finished`, `diverged` (finished, and scored as it is) or `failed` with the reason. Many processes may use one store; a job is done
by the one that claims it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosswind.core.errors import StoreError, shown, unknown
from crosswind.core.types import Job
from crosswind.studies import artifacts
from crosswind.studies.artifacts import plain_json
from crosswind.studies.drivers import Driver

if TYPE_CHECKING:
    import sqlalchemy as sa

__all__ = ["DONE", "FILE_NAME", "STATUSES", "Store", "in_parts", "split_name"]

FILE_NAME = "store.sqlite"
STATUSES = ("pending", "running", "finished", "diverged", "failed")
DONE = ("finished", "diverged")
ROWS = "score"
"""The kind of job that is a row of the tables: a run, as a study counts them."""
# What reports do arithmetic with.
NUMBERS = (
    *("n", "accuracy", "unparsed", "balanced_accuracy", "worst_group", "nll", "ece", "non_finite", "ties", "selected_step"),
    *("classes", "majority", "train_shared"),
)
_raw_decode = json.JSONDecoder().raw_decode
_KINDS = {int: "number", float: "number", bool: "number", str: "text", list: "list", dict: "mapping"}


def split_name(name: str) -> tuple[str, str]:
    """`STORE#KEYPREFIX` as store and key prefix. Raises `StoreError`."""
    where, mark, prefix = name.rpartition("#")
    if not mark or not where or not prefix:
        raise StoreError(f"{name!r} does not name a run; write STORE#KEY with the first digits of the run's key")
    return where, prefix


def in_parts(keys: Iterable[str], size: int = 500) -> Iterator[list[str]]:
    """`keys` in lists short enough for one statement (old versions of SQLite take 999 values)."""
    wanted = list(keys)
    for start in range(0, len(wanted), size):
        yield wanted[start : start + size]


class Store:
    """An open store. Use `Store.open`; it is a context manager. All methods may be called from several threads."""

    def __init__(self, name: str, out: Path | None, engine: sa.Engine) -> None:
        self.name, self._out, self._engine = name, out, engine

    @classmethod
    def open(cls, where: Path | str, out: Path | str | None = None, create: bool = False) -> Store:
        """The store in the folder (or file) `where`, or at the PostgreSQL URL `where` with its files in `out`.

        `create`: open for writing and make what is missing; else what is there is opened for reading only, which changes nothing,
        waits for no writer, and works on a read-only disk. Raises `StoreError`.
        """
        from crosswind.studies import database

        place: Path | str
        if isinstance(where, str) and "://" in where:
            name, place = _without_password(where), where
            folder = None if out is None else Path(out)
            if create and folder is None:
                raise StoreError("a store on PostgreSQL needs a folder for the files of its runs as well")
        else:
            with database.sentences(str(where)):
                place = Path(where) if Path(where).is_file() else Path(where, FILE_NAME)
            name, folder = str(where), place.parent if out is None else Path(out)
        engine = database.open_database(place, create)
        try:
            database.prepare(engine, name, create)
        except BaseException:
            engine.dispose()
            raise
        return cls(name, folder, engine)

    def close(self) -> None:
        """Close the database. The store cannot be used after it."""
        self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def out(self) -> Path:
        """The folder of the runs' files. Raises `StoreError` for a PostgreSQL store opened without one."""
        if self._out is None:
            raise StoreError(f"{self.name} was opened without the folder of its runs' files")
        return self._out

    # --- studies -----------------------------------------------------------------------------------------------------------

    def add_plan(self, study: str, given: Any, resolved: Any, runs: Sequence[Job]) -> None:
        """Put the study and its runs in. A study of this name gets the new list; runs that are there already keep their results.

        `given`: the specification as the user wrote it, `resolved`: with every default filled in; both plain values.
        """
        from crosswind.studies.database import now, studies, study_runs, text
        from crosswind.studies.database import runs as table

        new = {
            run.key: {
                "key": artifacts.check_key(run.key),
                "kind": run.kind,
                "spec": plain_json(run.spec),
                "needs": plain_json(run.needs),
            }
            for run in runs
        }
        listed = [
            {"study": study, "position": position, "key": run.key, "labels": plain_json(run.labels)}
            for position, run in enumerate(runs)
        ]
        if not study or text(study) != study:
            raise StoreError(f"{study!r} cannot be the name of a study")
        with self.transaction() as connection:
            entry = {"given": plain_json(given), "resolved": plain_json(resolved)}
            # Drivers on PostgreSQL may add the same study at once: all but the first wait here for its transaction to end.
            connection.execute(self._insert_new(studies).values(name=study, created=now(connection), **entry))
            connection.execute(studies.update().where(studies.c.name == study).values(entry))
            connection.execute(study_runs.delete().where(study_runs.c.study == study))
            if runs:
                # in the order of their keys: studies that share runs wait for each other's in the same order, never in a circle
                connection.execute(self._insert_new(table), [new[key] for key in sorted(new)])
                connection.execute(study_runs.insert(), listed)

    def study_names(self) -> list[str]:
        """The studies, oldest first."""
        from crosswind.studies.database import studies

        return [row.name for row in self._rows(lambda sa: sa.select(studies.c.name).order_by(studies.c.created, studies.c.name))]

    def study(self, study: str) -> dict[str, Any]:
        """The study's `name`, its specification as `given` and `resolved`, and when it was first `created` (seconds since 1970)."""
        from crosswind.studies.database import studies

        rows = self._rows(lambda sa: sa.select(studies).where(studies.c.name == study))
        if not rows:
            raise StoreError(str(unknown(self.name, "study", study, self.study_names())))
        row = rows[0]
        return {
            "name": row.name,
            "given": self._value(row.given),
            "resolved": self._value(row.resolved, dict),
            "created": row.created,
        }

    def counts(self, study: str | None = None) -> dict[str, int]:
        """How many runs of the study (of all, without one) have each of `STATUSES`, and their `total`. Runs are rows of tables.

        A run whose driver died counts as pending: that is what the next driver makes of it.
        """
        from crosswind.studies.database import runs, study_runs

        if study is not None:
            self.study(study)

        def query(sa: Any) -> Any:
            wanted = sa.select(runs.c.status, runs.c.driver, sa.func.count()).where(runs.c.kind == ROWS)
            wanted = wanted.group_by(runs.c.status, runs.c.driver)
            keys = sa.select(study_runs.c.key).where(study_runs.c.study == study)
            return wanted if study is None else wanted.where(runs.c.key.in_(keys))

        out = dict.fromkeys(STATUSES, 0)
        live = self.live_drivers()
        for status, driver, number in self._rows(query):
            out["pending" if status == "running" and driver not in live else self._status(status)] += number
        return {**out, "total": sum(out.values())}

    def runs(self, study: str) -> list[dict[str, Any]]:
        """The study's runs, jobs that are rows of tables, in the order of the plan, without their scores: key, labels, status,
        reason, cause, seconds, ...
        """
        from crosswind.studies.database import runs, study_runs

        self.study(study)
        wanted = ("kind", "status", "attempts", "reason", "cause", "driver", "worker", "started", "finished", "seconds")
        columns = [runs.c[name] for name in wanted]
        rows = self._rows(
            lambda sa: (
                sa.select(study_runs.c.key, study_runs.c.labels, *columns, runs.c.cost, runs.c.warnings)
                .join(runs, runs.c.key == study_runs.c.key)
                .where((study_runs.c.study == study) & (runs.c.kind == ROWS))
                .order_by(study_runs.c.position)
            )
        )
        live = self.live_drivers() if any(row.status == "running" for row in rows) else set()
        names = ("key", "labels", *(column.name for column in columns), "cost", "warnings")
        kinds: dict[str, Any] = {"labels": dict, "cost": (dict, type(None)), "warnings": (list, type(None))}
        out = []
        for row in rows:
            entry = dict(zip(names, row, strict=True))
            entry.update({name: self._value(entry[name], kind) for name, kind in kinds.items()})
            self._status(row.status)
            self._numbers(entry, ("attempts", "seconds", "started", "finished"))
            if row.status == "running" and row.driver not in live:
                entry["status"] = "pending"
            out.append(entry)
        return out

    def results(
        self, study: str, unscored: bool = True, without: Sequence[str] = (), runs: Sequence[Mapping[str, Any]] | None = None
    ) -> list[dict[str, Any]]:
        """One entry for each job, selection rule and set, in the order of the plan: the study's name, the labels of the job, `key`,
        `kind`, `rule`, `set`, `metrics`, `status`, `reason`, `seconds`, `attempts`.

        `metrics` are what the job said: by name a number, text, list or mapping, the same of these in every entry. Those named in
        `without` are left out; scores of single groups are most of what a large study takes to hold. A job that is not done
        (pending, running, failed) has one entry with `rule` and `set` None and empty `metrics`, if `unscored`; one that is done and
        gave no scores has none. `runs`: what `runs` gave for the study, for whoever has it already. Raises `StoreError`.
        """
        from crosswind.studies.database import scores, study_runs

        def wanted(sa: Any) -> Any:
            if not without or self._engine.dialect.name != "sqlite":
                return scores.c.metrics
            # SQLite cuts them out many times faster than they are read here; text that it cannot read (NaN) is read whole.
            cut = sa.func.json_remove(scores.c.metrics, *(f'$."{name}"' for name in without))
            return sa.case((sa.func.json_valid(scores.c.metrics) == 1, cut), else_=scores.c.metrics).label("metrics")

        scored = self._rows(
            lambda sa: (
                sa.select(scores.c.key, scores.c.rule, scores.c.set, wanted(sa))
                .where(scores.c.key.in_(sa.select(study_runs.c.key).where(study_runs.c.study == study)))
                .order_by(scores.c.key, scores.c.position)
            )
        )
        found: dict[str, list[dict[str, Any]]] = {}
        kinds: dict[str, str] = {}
        for key, rule, set_name, text in scored:
            metrics = {name: value for name, value in self._value(text, dict).items() if name not in without}
            self._check_kinds(metrics, kinds)
            found.setdefault(key, []).append({"rule": rule, "set": set_name, "metrics": metrics})
        out = []
        for run in self.runs(study) if runs is None else runs:
            told = {name: run[name] for name in ("key", "kind", "status", "reason", "seconds", "attempts")}
            common = {"study": study, **run["labels"], **told}
            nothing: dict[str, Any] = {"rule": None, "set": None, "metrics": {}}
            missing = unscored and run["status"] not in DONE
            out += [{**common, **entry} for entry in found.get(run["key"], [nothing] if missing else [])]
        return out

    def versions(self, study: str) -> list[tuple[dict[str, str], int]]:
        """The versions under which the study's runs were done, and of how many runs; the most frequent first."""
        from crosswind.studies.database import runs, study_runs

        rows = self._rows(
            lambda sa: (
                sa.select(runs.c.versions, sa.func.count())
                .where(runs.c.key.in_(sa.select(study_runs.c.key).where(study_runs.c.study == study)))
                .where(runs.c.versions.is_not(None) & (runs.c.kind == ROWS))
                .group_by(runs.c.versions)
            )
        )
        return sorted(((self._value(text, dict), number) for text, number in rows), key=lambda pair: -pair[1])

    # --- runs --------------------------------------------------------------------------------------------------------------

    def run(self, prefix: str) -> dict[str, Any]:
        """Everything about the one run whose key begins with `prefix`: spec, status, reason, detail (a traceback, if there is one),
        versions, cost, warnings, `scores`, `studies` (name and labels in each) and `artifacts`, the folder of its files or None.

        Raises `StoreError` when no run or more than one begins so.
        """
        from crosswind.studies.database import runs, scores, study_runs

        found = self._rows(lambda sa: sa.select(runs).where(runs.c.key.startswith(prefix.lower(), autoescape=True)).limit(4))
        found = [row for row in found if row.key == prefix] or found
        if not found:
            raise StoreError(f"{self.name} has no run whose key begins with {prefix!r}")
        if len(found) > 1:
            shown = ", ".join(row.key[: len(prefix) + 6] for row in found[:3])
            raise StoreError(f"{prefix!r} begins the key of more than one run in {self.name} ({shown}, ...); write more digits")
        key = found[0].key
        out = dict(found[0]._mapping)
        for name in ("spec", "versions", "cost", "warnings", "needs"):
            out[name] = self._value(out[name])
        out["files"] = self._listed(out["files"])
        scored = self._rows(lambda sa: sa.select(scores).where(scores.c.key == key).order_by(scores.c.position))
        out["scores"] = [{"rule": row.rule, "set": row.set, "metrics": self._value(row.metrics)} for row in scored]
        listed = self._rows(lambda sa: sa.select(study_runs).where(study_runs.c.key == key).order_by(study_runs.c.study))
        out["studies"] = [{"study": row.study, "labels": self._value(row.labels)} for row in listed]
        folder = None if self._out is None else artifacts.artifact_folder(self._out, key)
        out["artifacts"] = folder if folder is not None and out["status"] in DONE and folder.is_dir() else None
        return out

    def statuses(self, keys: Iterable[str]) -> dict[str, str]:
        """The status of those of `keys` that the store knows."""
        from crosswind.studies.database import runs

        out: dict[str, str] = {}
        with self.transaction() as connection:
            for some in in_parts(keys):
                chosen = runs.select().with_only_columns(runs.c.key, runs.c.status).where(runs.c.key.in_(some))
                out.update({row.key: row.status for row in connection.execute(chosen)})
        return out

    def files(self, study: str | None = None) -> dict[str, dict[str, tuple[int, str]] | None]:
        """Of every run that is done (of the study; of all, without one) the files that it left, with their sizes and SHA-256 as
        `artifacts.listing` gives them; None for one of before these were kept.
        """
        from crosswind.studies.database import runs, study_runs

        def query(sa: Any) -> Any:
            wanted = sa.select(runs.c.key, runs.c.files).where(runs.c.status.in_(DONE)).order_by(runs.c.finished, runs.c.key)
            keys = sa.select(study_runs.c.key).where(study_runs.c.study == study)
            return wanted if study is None else wanted.where(runs.c.key.in_(keys))

        if study is not None:
            self.study(study)
        return {row.key: self._listed(row.files) for row in self._rows(query)}

    def faults(self, key: str, files: Mapping[str, Any] | None, read: bool) -> list[str]:
        """What is wrong with the files of the run `key`, which `files` gave, as `artifacts.faults` says it."""
        return artifacts.faults(artifacts.artifact_folder(self.out, key), files, read)

    def damaged(self, study: str | None = None) -> dict[str, list[str]]:
        """What is wrong with the files of runs that are done, by run, as far as their sizes show it: nothing is read.

        Empty for a store that was opened without the folder of its files.
        """
        if self._out is None:
            return {}
        return {key: found for key, listed in self.files(study).items() if (found := self.faults(key, listed, read=False))}

    def undo(self, keys: Iterable[str]) -> int:
        """Make those of `keys` that are done pending again, without their scores; how many there were."""
        from crosswind.studies.database import runs, scores

        changed = 0
        values = {"status": "pending", "reason": None, "files": None, "attempts": 0}
        with self.transaction() as connection:
            for some in in_parts(keys):
                done = runs.c.key.in_(some) & runs.c.status.in_(DONE)
                connection.execute(scores.delete().where(scores.c.key.in_(runs.select().with_only_columns(runs.c.key).where(done))))
                changed += connection.execute(runs.update().where(done).values(values)).rowcount
        return changed

    def live_drivers(self) -> set[str]:
        """The drivers whose process lives (on another machine: whose heartbeat is under a minute old)."""
        return {driver.id for driver, lives in self.known_drivers() if lives}

    # --- inside ------------------------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """A connection whose changes are made together or not at all. Raises `StoreError`."""
        from crosswind.studies.database import sentences

        with sentences(self.name), self._engine.begin() as connection:
            yield connection

    def _rows(self, query: Callable[[Any], Any]) -> list[Any]:
        import sqlalchemy

        with self.transaction() as connection:
            return list(connection.execute(query(sqlalchemy)))

    def _value(self, value: str | None, kind: type | tuple[type, ...] = object) -> Any:
        try:
            out = None if value is None else _loads(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise StoreError(f"{self.name} is damaged: an entry is not JSON ({error})") from error
        if not isinstance(out, kind):
            raise StoreError(f"{self.name} is damaged: an entry is not what it should be, but {shown(out)}")
        return out

    def _listed(self, value: str | None) -> dict[str, tuple[int, str]] | None:
        found = self._value(value, (dict, type(None)))
        try:
            return found and {name: (int(size), str(digest)) for name, (size, digest) in found.items()}
        except (TypeError, ValueError):
            raise StoreError(f"{self.name} is damaged: the files of a run are {shown(found)}") from None

    def _check_kinds(self, metrics: Mapping[str, Any], kinds: dict[str, str]) -> None:
        """Refuse a metric of another kind than `kinds` says, which learns the kinds of those that it does not know."""
        for name, value in metrics.items():
            if value is not None and kinds.setdefault(name, kind := _KINDS[type(value)]) != kind:
                raise StoreError(f"{self.name} is damaged: {name} is a {kinds[name]} in one result and a {kind} in another")

    def _numbers(self, values: Mapping[str, Any], names: Sequence[str]) -> None:
        for name in names:
            if not isinstance(values[name], int | float | None):
                raise StoreError(f"{self.name} is damaged: {name} is not a number, but {shown(values[name])}")

    def _status(self, status: Any) -> str:
        if status not in STATUSES:
            raise StoreError(f"{self.name} is damaged: {shown(status)} is not the status of a run")
        return str(status)

    def _insert_new(self, table: Any) -> Any:
        if self._engine.dialect.name == "postgresql":
            from sqlalchemy.dialects import postgresql

            return postgresql.insert(table).on_conflict_do_nothing()
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table).on_conflict_do_nothing()

    def known_drivers(self) -> list[tuple[Driver, bool]]:
        """The drivers that the store has heard of and not of their end, and whether each lives."""
        from crosswind.studies.database import drivers, now

        with self.transaction() as connection:
            rows, at = list(connection.execute(drivers.select())), now(connection)
        # Without a heartbeat that is a number (a damaged row) it was never heard.
        beats = [row.heartbeat if isinstance(row.heartbeat, int | float) else float("-inf") for row in rows]
        known = [Driver(row.id, row.host, row.pid, row.start) for row in rows]
        return [(driver, driver.lives(beat, at)) for driver, beat in zip(known, beats, strict=True)]


def _loads(text: Any) -> Any:
    # What a store writes is text without spaces around it, which the reader inside `json.loads` takes in half the time.
    try:
        out, end = _raw_decode(text)
        if end == len(text):
            return out
    except (TypeError, ValueError):
        pass
    return json.loads(text)


def _without_password(url: str) -> str:
    head, mark, rest = url.partition("://")
    credentials, at, place = rest.rpartition("@")
    user = credentials.partition(":")[0]
    return f"{head}{mark}{user}{at}{place}"
