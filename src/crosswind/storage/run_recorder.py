"""The record of one driver in a store: which runs it takes, and how each of them ended.

Every change is one transaction. A run belongs to the driver that claimed it until it is recorded or
given back. A driver that was taken for dead can no longer record a run that another has claimed
since.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from crosswind.core.errors import StoreError, one_line
from crosswind.storage import artifacts
from crosswind.storage.artifacts import plain_json
from crosswind.storage.database import drivers, now, runs, scores, sentences, text
from crosswind.storage.failure_reasons import handed_on
from crosswind.storage.leases import HEARTBEAT_SECONDS, Driver
from crosswind.storage.store import DONE, Store, in_chunks

ATTEMPTS = 2
"""How often one driver tries a run whose worker dies under it; where the machine ended it, the next
one tries as often again."""
NODES = 10
"""Tries of a job whose nodes were lost or taken away, which it had no part in."""


class RunRecorder:
    """The writing side of `store` for one `driver`. Methods may be called from several threads."""

    def __init__(self, store: Store, driver: Driver) -> None:
        self.store = store
        self.driver = driver

    def enter(self) -> None:
        """Make the driver known and clear up after dead ones: their runs are pending again, their
        unfinished files go."""
        with self.store.transaction() as connection:
            connection.execute(
                drivers.insert().values(heartbeat=now(connection), **vars(self.driver))
            )
        self._clear_up()

    def leave(self) -> None:
        """Forget the driver: its runs are pending again at no cost of an attempt. Clear up after
        drivers that died since."""
        self.driver.end()
        self._forget([self.driver.id])
        shutil.rmtree(artifacts.staging_area(self.store.out, self.driver.id), ignore_errors=True)
        self._clear_up()

    @contextlib.contextmanager
    def beating(self) -> Iterator[None]:
        """Say inside, to drivers on other machines, that the driver lives; from a thread, since a
        run here may take hours."""
        over = threading.Event()

        def beat() -> None:
            mine = drivers.update().where(drivers.c.id == self.driver.id)
            while not over.wait(HEARTBEAT_SECONDS):
                # A store that cannot be written stops the driver when it next records something,
                # with the reason.
                with contextlib.suppress(StoreError), self.store.transaction() as connection:
                    connection.execute(mine.values(heartbeat=now(connection)))

        thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def reclaim(self) -> int:
        """Make the runs of dead drivers pending again, without costing them an attempt; how many
        there were."""
        dead = [driver.id for driver, lives in self.store.known_drivers() if not lives]
        return self._forget(dead) if dead else 0

    def reopen(self, keys: Iterable[str], failed: bool) -> int:
        """Make pending again those of `keys` that the machine stopped, or that need a run which had
        failed; all failed ones, if `failed`.
        """
        chosen = runs.c.status == "failed"
        if not failed:
            chosen &= runs.c.blocked_by.is_not(None) | runs.c.cause.is_not(None)
        cleared = dict.fromkeys(("reason", "detail", "cause", "blocked_by"))
        return self._update(keys, chosen, status="pending", attempts=0, **cleared)

    def claim(self, key: str) -> bool:
        """Take the run `key` if it is pending; False when another driver was first. Of several that
        ask, one gets it."""
        pending = runs.update().where(runs.c.key == key, runs.c.status == "pending")
        with self.store.transaction() as connection:
            values = {
                "status": "running",
                "driver": self.driver.id,
                "worker": None,
                "started": now(connection),
            }
            attempts = runs.c.attempts + 1
            return connection.execute(pending.values(attempts=attempts, **values)).rowcount == 1

    def finished(
        self,
        key: str,
        outcome: Mapping[str, Any],
        seconds: float,
        staged: Path | None = None,
        worker: str = "",
    ) -> bool:
        """Record the result of a job and move its files from `staged` to their place, both or
        neither.

        `outcome`: `status` ("finished" or "diverged"), `scores` (entries of `rule`, `set`,
        `metrics`), `cost`, `warnings`, `versions`, `files` (what `artifacts.listing` says of
        `staged`), and the `reason` of one that diverged. `following` in it: results of the jobs
        that followed, by key, whose files lie beside; they are recorded with it, all or none.
        False, and nothing done, when the job is no longer this driver's.
        """
        following = outcome.get("following", {})
        with self.store.transaction() as connection:
            if not self._record_outcome(connection, key, outcome, seconds, worker, self._mine(key)):
                return False
            for (
                follower,
                follower_outcome,
            ) in (
                following.items()
            ):  # nobody can have begun it, since it needs the one that is recorded here
                whose = self._after(connection, key, [follower])
                self._record_outcome(connection, follower, follower_outcome, seconds, worker, whose)
            # Last before the commit, under the database's lock: a kill in between leaves a job to
            # be done again, whose
            # files replace these; never a finished job without files.
            for name in (key, *following):
                if staged is not None and (folder := staged.with_name(name)).is_dir():
                    final = artifacts.artifact_folder(self.store.out, name)
                    artifacts.publish(folder, final)
        for name in (key, *following):
            shutil.rmtree(artifacts.checkpoint_folder(self.store.out, name), ignore_errors=True)
        return True

    def _record_outcome(
        self,
        connection: sa.Connection,
        key: str,
        outcome: Mapping[str, Any],
        seconds: float,
        worker: str,
        whose: sa.Update,
    ) -> bool:
        empty: dict[str, Any] = {"cost": {}, "warnings": [], "versions": {}, "files": {}}
        values: dict[str, Any] = {}
        for name, nothing in empty.items():
            values[name] = plain_json(outcome.get(name, nothing))
        reason = outcome.get("reason")
        values |= {
            "status": outcome["status"],
            "worker": worker,
            "seconds": seconds,
            "reason": reason,
            "detail": "",
        }
        if not _end(connection, whose, **values):
            return False
        connection.execute(scores.delete().where(scores.c.key == key))
        listed = []
        for position, entry in enumerate(outcome["scores"]):
            listed.append(
                {
                    "key": key,
                    "position": position,
                    "rule": text(entry["rule"]),
                    "set": text(entry["set"]),
                }
                | {"metrics": plain_json(entry["metrics"])}
            )
        if listed:
            connection.execute(scores.insert(), listed)
        return True

    def failed(
        self,
        key: str,
        reason: str,
        detail: str = "",
        seconds: float | None = None,
        worker: str = "",
        cause: str = "",
        following: Sequence[str] = (),
    ) -> bool:
        """Record that the job failed, and those `following` it, with the reason in one sentence and
        the `cause` of an event. False when the job is no longer this driver's.
        """
        failure = {
            "reason": reason,
            "detail": detail,
            "cause": cause or None,
            "seconds": seconds,
            "worker": worker,
        }
        with self.store.transaction() as connection:
            return self._fail(connection, key, following, failure)

    def lost(
        self,
        key: str,
        reason: str,
        detail: str = "",
        worker: str = "",
        cause: str = "",
        following: Sequence[str] = (),
    ) -> bool:
        """Record that the job's worker died. True: it is pending again; False: it was the last try,
        it has failed, and those `following` it.
        """
        ending = {"detail": detail, "worker": worker}
        with self.store.transaction() as connection:
            attempts = NODES if cause == "node" else ATTEMPTS
            left = runs.c.attempts < attempts
            if _end(
                connection, self._mine(key).where(left), status="pending", reason=reason, **ending
            ):
                return True
            self._fail(
                connection,
                key,
                following,
                {**ending, "reason": f"tried {attempts} times: {reason}", "cause": cause or None},
            )
            return False

    def _fail(
        self,
        connection: sa.Connection,
        key: str,
        following: Sequence[str],
        failure: Mapping[str, Any],
    ) -> bool:
        if not _end(connection, self._mine(key), status="failed", **failure):
            return False
        whose = self._after(connection, key, following)
        _end(connection, whose, status="failed", **failure)
        return True

    def blocked(self, keys: Sequence[str], needed: str, why: str = "") -> None:
        """Record as failed the pending runs `keys`, which need, directly or through others, the run
        `needed`, and `why` they cannot have it; by default that it failed, and its reason.

        They have the cause of that run too, since what the machine stopped runs again. A run that
        is blocked itself hands on what blocks it: the first of a chain is what has to be mended.
        """
        with self.store.transaction() as connection:
            finished_at = now(connection)
            columns = runs.c.reason, runs.c.cause, runs.c.blocked_by
            failure = connection.execute(sa.select(*columns).where(runs.c.key == needed)).first()
        values: dict[str, Any] = {"reason": handed_on(needed, why), "blocked_by": needed}
        if failure is not None and not why:
            if failure.blocked_by:
                values = failure._asdict()
            else:
                values["reason"] = handed_on(needed, reason=failure.reason)
                values["cause"] = failure.cause
        values["reason"] = one_line(values["reason"])
        chosen = runs.c.status == "pending"
        self._update(keys, chosen, status="failed", finished=finished_at, **values)

    def _clear_up(self) -> None:
        def done(keys: list[str]) -> list[str]:
            return [key for key, status in self.store.statuses(keys).items() if status in DONE]

        self.reclaim()
        with sentences(self.store.name):
            artifacts.sweep_staging(self.store.out, self.store.live_drivers)
            artifacts.sweep_checkpoints(self.store.out, done)
            artifacts.sweep_rungs(self.store.out, self.store.still_needed)

    def _forget(self, ids: Sequence[str]) -> int:
        left = runs.update().where(runs.c.driver.in_(ids), runs.c.status == "running")
        with self.store.transaction() as connection:
            attempts = runs.c.attempts - 1
            returned = connection.execute(
                left.values(status="pending", driver=None, attempts=attempts)
            ).rowcount
            connection.execute(drivers.delete().where(drivers.c.id.in_(ids)))
        return returned

    def _update(self, keys: Iterable[str], chosen: sa.ColumnElement[bool], **values: Any) -> int:
        with self.store.transaction() as connection:
            statements = []
            for chunk in in_chunks(keys):
                statements.append(runs.update().where(runs.c.key.in_(chunk), chosen).values(values))
            return sum(connection.execute(statement).rowcount for statement in statements)

    def _mine(self, key: str) -> sa.Update:
        return runs.update().where(
            runs.c.key == key, runs.c.driver == self.driver.id, runs.c.status == "running"
        )

    def _after(self, connection: sa.Connection, key: str, following: Sequence[str]) -> sa.Update:
        """The pending jobs that follow `key`; they are begun when it was, by the same driver, and
        as often."""
        begun = connection.execute(
            sa.select(runs.c.attempts, runs.c.started, runs.c.driver).where(runs.c.key == key)
        ).one()
        return (
            runs.update()
            .where(runs.c.key.in_(list(following)), runs.c.status == "pending")
            .values(begun._asdict())
        )


def _end(
    connection: sa.Connection, whose: sa.Update, *, reason: str | None, detail: str, **values: Any
) -> bool:
    """Write how jobs ended; False where none of `whose` is there any more."""
    values |= {
        "reason": one_line(reason) if reason else None,
        "detail": text(detail) or None,
        "finished": now(connection),
    }
    return connection.execute(whose.values(values)).rowcount > 0
