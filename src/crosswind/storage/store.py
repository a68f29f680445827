"""Where studies, their jobs and their results live: a database and, beside it, the files of each
job.

A store is a folder with `store.sqlite` in it, or a PostgreSQL URL with a folder for the files. Jobs
of any kind are one table, whose messages call them runs. They are shared by the studies that list
them and are never deleted. A job is `pending`, `running`, `finished`, `diverged` (finished, and
scored as it is) or `failed` with the reason. Many processes may use one store; a job is done by the
one that claims it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from crosswind import __version__
from crosswind.core.collection import no_collection
from crosswind.core.errors import CrosswindError, InputError, StoreError, shown, unknown
from crosswind.core.types import ROWS, Job, digest
from crosswind.storage import artifacts
from crosswind.storage.artifacts import plain_json
from crosswind.storage.database import (
    WITH_FILES,
    drivers,
    indexed_afterwards,
    insert_rows,
    meta,
    now,
    open_database,
    runs,
    scores,
    sentences,
    studies,
    study_runs,
    text,
    without_password,
)
from crosswind.storage.folder_mark import mark_folder, refuse_marked
from crosswind.storage.json_columns import JsonColumns, column_batch, parsed
from crosswind.storage.json_processes import held_by_column
from crosswind.storage.leases import Driver

FILE_NAME = "store.sqlite"
STATUSES = ("pending", "running", "finished", "diverged", "failed")
DONE = ("finished", "diverged")
MOST_LOOKED_AT = 5_000
"""Runs whose files' sizes are looked at wherever a command says that some are damaged."""
_RUN_COLUMNS = (
    "kind",
    "status",
    "attempts",
    "reason",
    "cause",
    "driver",
    "worker",
    "started",
    "finished",
    "seconds",
)
_JSON_OF_RUN = (("labels", dict), ("cost", dict), ("warnings", list))
_NUMBERS_OF_RUN = ("attempts", "seconds", "started", "finished")
_NUMBER_OR_NONE = (int, float, type(None))


def split_name(name: str) -> tuple[str, str]:
    """`STORE#KEYPREFIX` as store and key prefix. Raises `StoreError`."""
    where, _, prefix = name.rpartition("#")
    if not where or not prefix:
        raise StoreError(
            f"{name!r} does not name a run; write STORE#KEY with the first digits of the run's key"
        )
    return where, prefix


def in_chunks(keys: Iterable[str], size: int = 500) -> Iterator[list[str]]:
    """`keys` in lists short enough for one statement (old versions of SQLite take 999 values)."""
    key_list = list(keys)
    return (key_list[start : start + size] for start in range(0, len(key_list), size))


class Store:
    """An open store. Use `Store.open`; it is a context manager. All methods may be called from
    several threads."""

    def __init__(self, name: str, out: Path | None, engine: sa.Engine) -> None:
        self.name, self._out, self._engine = name, out, engine
        self.close = engine.dispose

    @classmethod
    def open(cls, where: Path | str, out: Path | str | None = None, create: bool = False) -> Store:
        """The store in the folder (or file) `where`, or at the PostgreSQL URL `where` with its
        files in `out`.

        `create`: open for writing and make what is missing. Else what is there is opened for
        reading only, which changes nothing, waits for no writer, and works on a read-only disk.
        Raises `StoreError`.
        """
        if isinstance(where, str) and "://" in where:
            if create and out is None:
                raise StoreError(
                    "a store on PostgreSQL needs a folder for the files of its runs as well"
                )
            name = without_password(where)
            store = cls(
                name, None if out is None else Path(out), open_database(where, name, create)
            )
            if create:
                store._mark_folder()
            return store
        with sentences(str(where)):
            path = Path(where) if Path(where).is_file() else Path(where, FILE_NAME)
            if not path.exists():
                refuse_marked(path.parent, path, create)
        return cls(
            str(where),
            path.parent if out is None else Path(out),
            open_database(path, str(where), create),
        )

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def out(self) -> Path:
        """The folder of the runs' files. Raises `StoreError` for a PostgreSQL store opened without
        one."""
        if self._out is None:
            problem = f"{self.name} was opened without the folder of its runs' files"
            raise StoreError(f"{problem}; --out names it where a command has that option")
        return self._out

    # --- studies
    # ----------------------------------------------------------------------------------------------

    def add_plan(self, study: str, written: Any, resolved: Any, jobs: Sequence[Job]) -> None:
        """Put the study and its jobs in. A study of this name gets the new list; jobs that are
        there already keep their results.

        `written`: the specification as the user wrote it, `resolved`: with every default filled in;
        both plain values.
        """
        if not study or text(study) != study:
            raise StoreError(f"{study!r} cannot be the name of a study")
        entry = {"given": plain_json(written), "resolved": plain_json(resolved)}
        plan = digest([__version__, entry, [job.key for job in jobs]])
        if self._holds(study, entry, plan, len(jobs)):
            return
        with no_collection():
            self._put_in(study, entry, plan, _rows_of_runs(jobs), _rows_of_study(study, jobs))

    def _put_in(
        self,
        study: str,
        entry: Mapping[str, str],
        plan: str,
        entries: Iterable[tuple[Any, ...]],
        listed: Iterable[tuple[Any, ...]],
    ) -> None:
        """Put in a study, the rows `entries` of its jobs and `listed` of its list of them; all or
        nothing."""
        # A dialect takes as long to load as a small store to read.
        from sqlalchemy.dialects import postgresql, sqlite

        insert = postgresql.insert if self._engine.dialect.name == "postgresql" else sqlite.insert
        with self.transaction() as connection:
            # Drivers on PostgreSQL may add the same study at once: all but the first wait here for
            # its transaction to end.
            added = insert(studies).values(name=study, created=now(connection), **entry)
            connection.execute(added.on_conflict_do_update(index_elements=["name"], set_=entry))
            connection.execute(study_runs.delete().where(study_runs.c.study == study))
            with indexed_afterwards(connection, (runs, study_runs)):
                insert_rows(connection, runs, _PLANNED_COLUMNS, entries, skip_known=True)
                insert_rows(connection, study_runs, _LISTED_COLUMNS, listed)
            held = insert(meta).values(name=f"plan {study}", value=plan)
            connection.execute(
                held.on_conflict_do_update(index_elements=["name"], set_={"value": plan})
            )

    def _holds(self, study: str, entry: Mapping[str, str], plan: str, n_jobs: int) -> bool:
        """Whether the study stands in the store with just this plan: nothing is to be written."""
        with self.transaction() as connection:
            plans = sa.select(meta.c.value).where(meta.c.name == f"plan {study}")
            if connection.execute(plans).scalar() != plan:
                return False
            written = sa.select(studies.c.given, studies.c.resolved).where(studies.c.name == study)
            row = connection.execute(written).one_or_none()
            listed = sa.select(sa.func.count()).where(study_runs.c.study == study)
            return (
                row is not None
                and dict(row._mapping) == dict(entry)
                and connection.execute(listed).scalar() == n_jobs
            )

    def last_score(self) -> int | None:
        """A number that grows with every result that is recorded; None where the database keeps
        none (PostgreSQL)."""
        if self._engine.dialect.name != "sqlite":
            return None
        with self.transaction() as connection:
            return connection.execute(sa.text("SELECT max(rowid) FROM scores")).scalar() or 0

    def scores_state(self) -> list[Any]:
        """Plain values that differ wherever other scores are recorded."""
        last_score = self.last_score()
        if last_score is not None:
            return [last_score]
        # Both are read from indexes alone. Scores of a run that is done again have the same keys, and
        # the run another end.
        last_end = sa.select(sa.func.max(runs.c.finished)).where(sa.text("files != '{}'"))
        hashes = sa.func.hashtextextended(scores.c.key, scores.c.position)
        total = sa.cast(sa.func.coalesce(sa.func.sum(hashes), 0), sa.Text)
        with self.transaction() as connection:
            query = sa.select(sa.func.count(), total, last_end.scalar_subquery())
            return list(connection.execute(query.select_from(scores)).one())

    def study_names(self) -> list[str]:
        """The studies, oldest first."""
        return [
            row.name
            for row in self._rows(
                sa.select(studies.c.name).order_by(studies.c.created, studies.c.name)
            )
        ]

    def study_named(
        self, study: str | None, field: str = "--study", remedy: str = "; name one"
    ) -> str:
        """The name of a study that is here, or of the only one where none is named.

        Raises `StoreError` for an unknown one and where there is none yet, and `InputError` for
        `field` where there are several; `remedy` says how one is named.
        """
        if study is not None:
            return str(self.study(study)["name"])
        names = self.study_names()
        if not names:
            raise StoreError(f"{self.name} holds no study yet; crosswind run puts one in")
        if len(names) > 1:
            raise InputError(field, f"{self.name} holds {len(names)} studies{remedy}", names)
        return names[0]

    def study(self, study: str) -> dict[str, Any]:
        """The study's `name`, its specification as `given` and `resolved`, and when it was first
        `created` (seconds since 1970)."""
        rows = self._rows(sa.select(studies).where(studies.c.name == study))
        if not rows:
            raise StoreError(str(unknown(self.name, "study", study, self.study_names())))
        return {
            **rows[0]._mapping,
            "given": self._value(rows[0].given),
            "resolved": self._value(rows[0].resolved, dict),
        }

    def counts(self, study: str | None = None) -> dict[str, int]:
        """How many runs of the study (of all, without one) have each of `STATUSES`, and their
        `total`. Runs are rows of tables.

        A run whose driver died counts as pending: that is what the next driver makes of it.
        """
        query = sa.select(runs.c.status, runs.c.driver, sa.func.count()).where(runs.c.kind == ROWS)
        out = dict.fromkeys(STATUSES, 0)
        live = self.live_drivers()
        for status, driver, number in self._rows(
            self._of_study(query.group_by(runs.c.status, runs.c.driver), study)
        ):
            out[self._status(status, driver, live)] += number
        return {**out, "total": sum(out.values())}

    def jobs_at_work(
        self, study: str, *, with_runs: bool = False, live: set[str] | None = None
    ) -> int:
        """How many jobs of the study a living driver has at work: those that are no runs themselves,
        such as the training of a network, whose runs are pending until they end, and `with_runs` the
        runs too. `live`: the living drivers, where they were read already."""
        self.study(study)
        query = (
            sa.select(runs.c.driver, sa.func.count())
            .where(runs.c.status == "running", runs.c.key.in_(_keys_of(study)))
            .group_by(runs.c.driver)
        )
        by_driver = self._rows(query if with_runs else query.where(runs.c.kind != ROWS))
        alive = self.live_drivers() if live is None else live
        return sum(number for driver, number in by_driver if driver in alive)

    def runs(self, study: str) -> list[dict[str, Any]]:
        """The study's runs, jobs that are rows of tables, in the order of the plan, without their
        scores: key, kind, labels, status, reason, seconds, `cost` (read only), ...
        """
        self.study(study)
        columns = [runs.c[name] for name in (*_RUN_COLUMNS, "cost", "warnings")]
        names = ("key", "labels", *_RUN_COLUMNS, "cost", "warnings")
        costs = JsonColumns()
        query = sa.select(study_runs.c.key, study_runs.c.labels, *columns).join(
            runs, runs.c.key == study_runs.c.key
        )
        live, out = self.live_drivers(), []
        for lot in self._lots(
            query.where(study_runs.c.study == study, runs.c.kind == ROWS).order_by(
                study_runs.c.position
            )
        ):
            entries = [self._run_entry(names, row, live) for row in lot]
            costed = [entry for entry in entries if entry["cost"] is not None]
            run_costs = costs.add_batch(column_batch(entry["cost"] for entry in costed))
            for entry, cost in zip(costed, run_costs, strict=True):
                entry["cost"] = cost
            out += entries
        return out

    def _run_entry(self, names: Sequence[str], row: Any, live: set[str]) -> dict[str, Any]:
        """The values of a run by name, put together from its row."""
        entry = dict(zip(names, row, strict=True))
        for name, kind in _JSON_OF_RUN:
            if entry[name] is not None or name == "labels":
                entry[name] = self._value(entry[name], kind)
        for name in _NUMBERS_OF_RUN:
            if not isinstance(entry[name], _NUMBER_OR_NONE):
                raise self._damaged(f"{name} is not a number, but {shown(entry[name])}")
        entry["status"] = self._status(entry["status"], entry["driver"], live)
        return entry

    def results(
        self,
        study: str,
        unscored: bool = True,
        without: Sequence[str] = (),
        runs: Sequence[Mapping[str, Any]] | None = None,
    ) -> list[dict[str, Any]]:
        """One entry for each job, selection rule and set, in the order of the plan. It has the
        study's name, the labels of the job, `key`, `kind`, `rule`, `set`, `metrics`, `status`,
        `reason`, `seconds`, `attempts`.

        `metrics` are what the job said: by name a number, text, list or mapping, the same of these
        in every entry. Those named in `without` are left out. A job that is not done (pending,
        running, failed) has one entry with `rule` and `set` None and empty `metrics`, if
        `unscored`. One that is done and gave no scores has none. `runs`: what `runs` gave for the
        study, for whoever has it already. Raises `StoreError`.
        """
        rows = self.result_rows(study, unscored, without, runs)
        return [{**row, "metrics": dict(row["metrics"])} for row in rows]

    def result_rows(
        self,
        study: str,
        unscored: bool = True,
        without: Sequence[str] = (),
        runs: Sequence[Mapping[str, Any]] | None = None,
    ) -> ResultRows:
        """The entries of `results`, made anew whenever it is gone through, with `metrics` that are read
        only: scores are held by column, a tenth of what `results` of a large study takes."""
        query = sa.select(
            scores.c.key, scores.c.position, scores.c.rule, scores.c.set, scores.c.metrics
        )
        if not self._is_whole_store():
            query = query.where(scores.c.key.in_(_keys_of(study)))
        columns = JsonColumns(without)
        scored: dict[str, list[tuple[int, str, str, Mapping[str, Any]]]] = {}
        names: dict[str, str] = {}  # one text for all results of a rule, and of a set
        lots: deque[Sequence[Any]] = deque()
        objects = held_by_column(
            _texts_of(self._lots(query), lots), columns, lambda text: self._value(text, dict)
        )
        for lot_metrics in objects:
            for (key, position, rule, set_name), metrics in zip(
                lots.popleft(), lot_metrics, strict=True
            ):
                rule, set_name = names.setdefault(rule, rule), names.setdefault(set_name, set_name)
                scored.setdefault(key, []).append((position, rule, set_name, metrics))
        if columns.differing:
            name, kind, other = columns.differing
            raise self._damaged(f"{name} is a {kind} in one result and a {other} in another")
        return ResultRows(study, self.runs(study) if runs is None else runs, scored, unscored)

    def versions(self, study: str) -> list[tuple[dict[str, str], int]]:
        """The versions under which the study's runs were done, and of how many runs; the most
        frequent first."""
        query = sa.select(runs.c.versions, sa.func.count()).where(
            runs.c.kind == ROWS, runs.c.versions.is_not(None)
        )
        counts = [
            (self._value(content, dict), number)
            for content, number in self._rows(
                self._of_study(query.group_by(runs.c.versions), study)
            )
        ]
        return sorted(counts, key=lambda pair: -pair[1])

    def warnings(self, study: str) -> list[tuple[str, int]]:
        """The warnings of the study's runs, a sentence each, and how many runs had it; the most
        frequent first."""
        query = sa.select(runs.c.warnings, sa.func.count()).where(
            runs.c.kind == ROWS, runs.c.warnings.is_not(None)
        )
        counts: dict[str, int] = {}
        for content, number in self._rows(self._of_study(query.group_by(runs.c.warnings), study)):
            for sentence in dict.fromkeys(map(str, self._value(content, list))):
                counts[sentence] = counts.get(sentence, 0) + number
        return sorted(counts.items(), key=lambda pair: -pair[1])

    def job_seconds(self, study: str) -> dict[str, dict[str, float]]:
        """The `number` of the study's jobs that ended and their `seconds`, by kind."""
        query = sa.select(
            runs.c.kind,
            sa.func.count(runs.c.seconds),
            sa.func.coalesce(sa.func.sum(runs.c.seconds), 0.0),
        ).where(runs.c.seconds.is_not(None))
        return {
            str(kind): {"number": int(number), "seconds": float(seconds)}
            for kind, number, seconds in self._rows(
                self._of_study(query.group_by(runs.c.kind), study)
            )
        }

    # --- runs
    # ----------------------------------------------------------------------------------------------

    def run(self, prefix: str) -> dict[str, Any]:
        """Everything about the one run whose key begins with `prefix`. It has spec, status, reason,
        detail (a traceback, if there is one), versions, cost, warnings and `scores`. It has
        `studies` (name and labels in each) and `artifacts`, the folder of its files or None.

        Raises `StoreError` when no run or more than one begins so.
        """
        rows = self._rows(
            sa.select(runs).where(runs.c.key.startswith(prefix.lower(), autoescape=True)).limit(4)
        )
        rows = [row for row in rows if row.key == prefix] or rows
        if not rows:
            raise StoreError(f"{self.name} has no run whose key begins with {prefix!r}")
        if len(rows) > 1:
            examples = ", ".join(row.key[: len(prefix) + 6] for row in rows[:3])
            raise StoreError(
                f"{prefix!r} begins the key of more than one run in {self.name} ({examples}, ...);"
                " write more digits"
            )
        key, out = rows[0].key, dict(rows[0]._mapping)
        out |= {
            name: self._value(out[name])
            for name in ("spec", "versions", "cost", "warnings", "needs")
        }
        out["files"] = self._listed(out["files"])
        scored = self._rows(
            sa.select(scores).where(scores.c.key == key).order_by(scores.c.position)
        )
        out["scores"] = [
            {"rule": row.rule, "set": row.set, "metrics": self._value(row.metrics)}
            for row in scored
        ]
        listed = self._rows(
            sa.select(study_runs).where(study_runs.c.key == key).order_by(study_runs.c.study)
        )
        out["studies"] = [{"study": row.study, "labels": self._value(row.labels)} for row in listed]
        folder = (
            artifacts.artifact_folder(self._out, key)
            if self._out and out["status"] in DONE
            else None
        )
        return {**out, "artifacts": folder if folder and folder.is_dir() else None}

    def statuses(self, keys: Iterable[str]) -> dict[str, str]:
        """The status of those of `keys` that the store knows."""
        query = sa.select(runs.c.key, runs.c.status)
        wanted_keys = set(keys)
        if len(wanted_keys) > MOST_LOOKED_AT:  # one read of the table is faster than many of parts
            with self.transaction() as connection:
                pairs = connection.execute(query).all()
            return {key: status for key, status in pairs if key in wanted_keys}
        return {
            key: status
            for chunk in in_chunks(wanted_keys)
            for key, status in self._rows(query.where(runs.c.key.in_(chunk)))
        }

    def all_pending(self, keys: Iterable[str]) -> bool:
        """Whether the store knows all of `keys`, and none of them was begun: such is a study that is
        new here."""
        # What is joined to the status keeps SQLite from looking each of them up in the table.
        pending_keys = self._joined_keys(sa.text("status || '' = 'pending'"), None)
        return set(pending_keys).issuperset(keys)

    def not_done(self) -> set[str]:
        """The jobs of the store that are not done."""
        query = sa.select(runs.c.key).where(runs.c.status.not_in(DONE))
        return {row.key for row in self._rows(query)}

    def has_done(self) -> bool:
        """Whether a job of the store is done."""
        return bool(self._rows(sa.select(runs.c.key).where(runs.c.status.in_(DONE)).limit(1)))

    def still_needed(self) -> set[str]:
        """The jobs that some job which is not done needs."""
        query = sa.select(runs.c.needs).where(runs.c.status.not_in(DONE)).distinct()
        return {str(need) for row in self._rows(query) for need in self._value(row.needs, list)}

    def files(self, study: str | None = None) -> dict[str, dict[str, tuple[int, str]]]:
        """Of every run that is done (of the study; of all, without one) the files that it left,
        with their sizes and SHA-256 as `artifacts.listing` gives them.
        """
        query = (
            sa.select(runs.c.key, runs.c.files)
            .where(runs.c.status.in_(DONE))
            .order_by(runs.c.finished, runs.c.key)
        )
        return {
            row.key: self._listed(row.files) for row in self._rows(self._of_study(query, study))
        }

    def files_of(self, keys: Iterable[str]) -> dict[str, dict[str, tuple[int, str]]]:
        """`files` of those of `keys` that are done."""
        query = sa.select(runs.c.key, runs.c.files).where(runs.c.status.in_(DONE))
        return {
            row.key: self._listed(row.files)
            for chunk in in_chunks(keys)
            for row in self._rows(query.where(runs.c.key.in_(chunk)))
        }

    def keys_with_file(self, study: str, name: str) -> set[str]:
        """The runs of the study that are done and left a file of this name."""
        query = sa.select(runs.c.key).where(
            runs.c.status.in_(DONE), runs.c.files.contains(f'"{name}":', autoescape=True)
        )
        return {row.key for row in self._rows(self._of_study(query, study))}

    def left_behind(self, study: str, resolved: Any, keys: Collection[str]) -> int:
        """How many runs of the study that are done would be in it no more with this `resolved`
        specification and these `keys` of jobs; 0 for a study that is not here yet. Runs are rows of
        tables."""
        rows = self._rows(sa.select(studies.c.resolved).where(studies.c.name == study))
        if not rows or self._value(rows[0].resolved) == json.loads(plain_json(resolved)):
            return 0
        query = sa.select(runs.c.key).where(runs.c.kind == ROWS, runs.c.status.in_(DONE))
        rows = self._rows(query.where(runs.c.key.in_(_keys_of(study))))
        return sum(row.key not in keys for row in rows)

    def specs(self, study: str) -> dict[str, dict[str, Any]]:
        """The specification of every run of the study that is done, by key."""
        query = (
            sa.select(runs.c.key, runs.c.spec).where(runs.c.status.in_(DONE)).order_by(runs.c.key)
        )
        return {
            row.key: self._value(row.spec, dict) for row in self._rows(self._of_study(query, study))
        }

    def faults(self, key: str, files: Mapping[str, Any], read: bool) -> list[str]:
        """The faults of the files of the run `key`, which `files` gave, as `artifacts.faults` says
        it."""
        return artifacts.faults(artifacts.artifact_folder(self.out, key), files, read)

    def damaged(self, study: str | None = None, most: int = MOST_LOOKED_AT) -> dict[str, list[str]]:
        """The faults of the files of runs that are done, by run: nothing is read.

        Of the `most` runs that were done last the size of every file is looked at, of the others
        whether their folders are there. In a store of 100,000 runs there are a million files, and
        `crosswind check` reads them all. Empty for a store that was opened without the folder of
        its files.
        """
        if self._out is None:
            return {}
        newest = (
            sa.select(runs.c.key, runs.c.files)
            .where(WITH_FILES)
            .order_by(runs.c.finished.desc(), runs.c.key)
            .limit(most)
        )
        looked_at = {
            row.key: self._listed(row.files) for row in self._rows(self._of_study(newest, study))
        }
        if len(looked_at) == most:
            looked_at |= self._without_folder(study)
        return {
            key: faults
            for key, files in looked_at.items()
            if (faults := self.faults(key, files, read=False))
        }

    def _without_folder(self, study: str | None) -> dict[str, dict[str, tuple[int, str]]]:
        """The files of runs that are done and whose folder is not there, by run."""
        with_folder = artifacts.keys_with_folder(self.out)
        missing = set(self._joined_keys(WITH_FILES, study)) - with_folder
        listed = sa.select(runs.c.key, runs.c.files)
        return {
            row.key: self._listed(row.files)
            for chunk in in_chunks(sorted(missing))
            for row in self._rows(listed.where(runs.c.key.in_(chunk)))
        }

    def _joined_keys(self, chosen: sa.TextClause, study: str | None) -> list[str]:
        """The keys of the `chosen` runs (of the study; of all, without one)."""
        # One text of all keys: rows by the hundred thousand take ten times as long.
        if self._engine.dialect.name == "sqlite":
            joined: sa.ColumnElement[str] = sa.func.group_concat(runs.c.key)
        else:
            joined = sa.func.string_agg(runs.c.key, ",")
        query = self._of_study(sa.select(joined).where(chosen), study)
        with self.transaction() as connection:
            keys = str(connection.execute(query).scalar() or "")
        return keys.split(",")

    def undo(self, keys: Iterable[str]) -> int:
        """Make those of `keys` that are done pending again, without their scores; how many there
        were."""
        changed = 0
        with self.transaction() as connection:
            for chunk in in_chunks(keys):
                done = runs.c.key.in_(chunk) & runs.c.status.in_(DONE)
                connection.execute(
                    scores.delete().where(scores.c.key.in_(sa.select(runs.c.key).where(done)))
                )
                again = (
                    runs.update()
                    .where(done)
                    .values(status="pending", reason=None, files=None, attempts=0)
                )
                changed += connection.execute(again).rowcount
        return changed

    def known_drivers(self) -> list[tuple[Driver, bool]]:
        """The drivers that the store has heard of and not of their end, and whether each lives."""
        with self.transaction() as connection:
            rows, read_at = list(connection.execute(drivers.select())), now(connection)
        # Without a heartbeat that is a number (a damaged row) it was never heard.
        beats = [
            row.heartbeat if isinstance(row.heartbeat, int | float) else float("-inf")
            for row in rows
        ]
        driver_list = [Driver(row.id, row.host, row.pid, row.start) for row in rows]
        return [
            (driver, driver.lives(beat, read_at))
            for driver, beat in zip(driver_list, beats, strict=True)
        ]

    def live_drivers(self) -> set[str]:
        """The drivers whose process lives (on another machine: whose heartbeat is under a minute
        old)."""
        return {driver.id for driver, lives in self.known_drivers() if lives}

    def _mark_folder(self) -> None:
        try:
            with self.transaction() as connection:
                mark_folder(self.out, self.name, connection, FILE_NAME)
        except CrosswindError:
            self.close()
            raise

    # --- inside
    # ----------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """A connection whose changes are made together or not at all. Raises `StoreError`."""
        with sentences(self.name), self._engine.begin() as connection:
            yield connection

    def _rows(self, query: sa.Select[Any]) -> list[Any]:
        with self.transaction() as connection:
            return list(connection.execute(query))

    def _streamed(self, query: sa.Select[Any]) -> Iterator[Any]:
        """The rows of a query, a thousand in memory at a time."""
        for lot in self._lots(query):
            yield from lot

    def _lots(self, query: sa.Select[Any]) -> Iterator[Sequence[Any]]:
        """The rows of a query, a thousand at a time."""
        with self.transaction() as connection:
            yield from connection.execution_options(yield_per=1000).execute(query).partitions()

    def _of_study(self, query: sa.Select[Any], study: str | None) -> sa.Select[Any]:
        if study is None:
            return query
        self.study(study)
        if self._is_whole_store():
            return query
        return query.where(runs.c.key.in_(_keys_of(study)))

    def _is_whole_store(self) -> bool:
        """Whether there is one study and it lists every job of the store: then no job need be
        looked up in its list."""
        listed = sa.select(study_runs.c.key).distinct().subquery()
        n_listed, n_jobs, n_studies = (
            sa.select(sa.func.count()).select_from(table).scalar_subquery()
            for table in (listed, runs, studies)
        )
        with self.transaction() as connection:
            counts = connection.execute(sa.select(n_listed, n_jobs, n_studies)).one()
        return counts[2] == 1 and counts[0] == counts[1]

    def _damaged(self, problem: str) -> StoreError:
        return StoreError(f"{self.name} is damaged: {problem}")

    def _value(self, value: str | None, kind: Any = object) -> Any:
        try:
            out = None if value is None else parsed(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._damaged(f"an entry is not JSON ({error})") from error
        if not isinstance(out, kind):
            raise self._damaged(f"an entry is not what it should be, but {shown(out)}")
        return out

    def _listed(self, value: str | None) -> dict[str, tuple[int, str]]:
        listed = self._value(value, dict | None) or {}
        try:
            return {name: (int(size), str(digest)) for name, (size, digest) in listed.items()}
        except (TypeError, ValueError):
            raise self._damaged(f"the files of a run are {shown(listed)}") from None

    def _status(self, status: Any, driver: str | None, live: set[str]) -> str:
        if status not in STATUSES:
            raise self._damaged(f"{shown(status)} is not the status of a run")
        return "pending" if status == "running" and driver not in live else str(status)


_PLANNED_COLUMNS = ("key", "kind", "spec", "needs")
_LISTED_COLUMNS = ("study", "position", "key", "labels")


def _rows_of_runs(jobs: Sequence[Job]) -> Iterator[tuple[str, str, str, str]]:
    """The values of `_PLANNED_COLUMNS` of each job.

    In the order of their keys: studies that share jobs wait for each other's in the same order, never
    in a circle.
    """
    # What is read of a job is read in the order of the plan, in which jobs lie in memory: in the order
    # of keys it takes twice as long.
    texts = artifacts.SharedTexts()
    keys = [job.key for job in jobs]
    artifacts.check_keys(keys)
    kinds = [job.kind for job in jobs]
    specs = [texts.of(job.spec) for job in jobs]
    needs = artifacts.texts_of_names([job.needs for job in jobs])
    rows = dict(zip(keys, zip(keys, kinds, specs, needs, strict=True), strict=True))
    return map(rows.__getitem__, sorted(rows))


def _rows_of_study(study: str, jobs: Sequence[Job]) -> Iterator[tuple[str, int, str, str]]:
    """The values of `_LISTED_COLUMNS` of each entry in the list of a study's jobs."""
    keys = [job.key for job in jobs]
    labels = artifacts.texts_of_labels([job.labels for job in jobs])
    return zip(repeat(study), range(len(jobs)), keys, labels, strict=False)


def _texts_of(lots: Iterable[Sequence[Any]], settings: deque[Sequence[Any]]) -> Iterator[list[str]]:
    """The texts of scores of each lot of rows; all else of its rows is appended to `settings`."""
    for lot in lots:
        settings.append([row[:-1] for row in lot])
        yield [row[-1] for row in lot]


def _keys_of(study: str) -> sa.Select[Any]:
    return sa.select(study_runs.c.key).where(study_runs.c.study == study)


class ResultRows:
    """The results of a study, as `Store.result_rows` reads them: an iterable of entries."""

    def __init__(
        self,
        study: str,
        runs: Sequence[Mapping[str, Any]],
        scored: Mapping[str, list[tuple[int, str, str, Mapping[str, Any]]]],
        unscored: bool,
    ) -> None:
        self._study, self._runs, self._scored, self._unscored = study, runs, scored, unscored

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for run in self._runs:
            run_fields = {
                name: run[name]
                for name in ("key", "kind", "status", "reason", "seconds", "attempts")
            }
            named = {"study": self._study, **run["labels"], **run_fields}
            entries = self._scored.get(run["key"])
            if entries is None:
                if self._unscored and run["status"] not in DONE:
                    yield {**named, "rule": None, "set": None, "metrics": {}}
                continue
            for _, rule, set_name, metrics in sorted(entries, key=_position):
                yield {**named, "rule": rule, "set": set_name, "metrics": metrics}


def _position(entry: tuple[int, str, str, Mapping[str, Any]]) -> int:
    return entry[0]
