"""What one driver writes into a store: which runs it takes, and how each of them ended.

Every change is one transaction. A run belongs to the driver that claimed it until it is recorded or given back; a driver that was
taken for dead, and whose run another has claimed since, can no longer record it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosswind.core.errors import one_line
from crosswind.studies import artifacts
from crosswind.studies.artifacts import plain_json
from crosswind.studies.drivers import Driver
from crosswind.studies.store import DONE, Store, in_parts

if TYPE_CHECKING:
    import sqlalchemy as sa

__all__ = ["ATTEMPTS", "Ledger"]

ATTEMPTS = 2
"""How often one driver tries a run whose worker dies under it; where the machine ended it, the next one tries as often again."""


class Ledger:
    """The writing side of `store` for one `driver`. Methods may be called from several threads."""

    def __init__(self, store: Store, driver: Driver) -> None:
        self.store, self.driver = store, driver

    def enter(self) -> None:
        """Make the driver known and clear up after dead ones: their runs are pending again, their unfinished files go."""
        from crosswind.studies.database import drivers, now

        mine = {"id": self.driver.id, "host": self.driver.host, "pid": self.driver.pid, "start": self.driver.start}
        with self.store.transaction() as connection:
            connection.execute(drivers.insert().values(heartbeat=now(connection), **mine))
        self._clear_up()

    def leave(self) -> None:
        """Forget the driver: its runs are pending again at no cost of an attempt. Clear up after drivers that died since."""
        from crosswind.studies.database import drivers

        self.driver.end()
        with self.store.transaction() as connection:
            _give_back(connection, self.driver.id)
            connection.execute(drivers.delete().where(drivers.c.id == self.driver.id))
        shutil.rmtree(artifacts.staging_area(self.store.out, self.driver.id), ignore_errors=True)
        self._clear_up()

    def heartbeat(self) -> None:
        """Say that the driver lives, to drivers on other machines."""
        from crosswind.studies.database import drivers, now

        with self.store.transaction() as connection:
            mine = drivers.update().where(drivers.c.id == self.driver.id)
            connection.execute(mine.values(heartbeat=now(connection)))

    def reclaim(self) -> int:
        """Make the runs of dead drivers pending again, without costing them an attempt; how many there were."""
        from crosswind.studies.database import drivers

        dead = [driver.id for driver, lives in self.store.known_drivers() if not lives]
        if not dead:
            return 0
        with self.store.transaction() as connection:
            returned = sum(_give_back(connection, driver) for driver in dead)
            connection.execute(drivers.delete().where(drivers.c.id.in_(dead)))
        return returned

    def reopen(self, keys: Iterable[str], failed: bool) -> int:
        """Make pending again those of `keys` that the machine stopped, or that need a run which had failed; all failed ones, if
        `failed`.
        """
        from crosswind.studies.database import runs

        changed = 0
        values = {"status": "pending", "reason": None, "detail": None, "cause": None, "blocked_by": None, "attempts": 0}
        with self.store.transaction() as connection:
            for some in in_parts(keys):
                chosen = (runs.c.status == "failed") & runs.c.key.in_(some)
                if not failed:
                    chosen &= runs.c.blocked_by.is_not(None) | runs.c.cause.is_not(None)
                changed += connection.execute(runs.update().where(chosen).values(values)).rowcount
        return changed

    def claim(self, key: str) -> bool:
        """Take the run `key` if it is pending; False when another driver was first. Of several that ask, one gets it."""
        from crosswind.studies.database import now, runs

        pending = runs.update().where((runs.c.key == key) & (runs.c.status == "pending"))
        with self.store.transaction() as connection:
            values = {"status": "running", "driver": self.driver.id, "worker": None, "started": now(connection)}
            return connection.execute(pending.values(attempts=runs.c.attempts + 1, **values)).rowcount == 1

    def finished(self, key: str, result: Mapping[str, Any], seconds: float, staged: Path | None = None, worker: str = "") -> bool:
        """Record the result of a job and move its files from `staged` to their place, both or neither.

        `result`: `status` ("finished" or "diverged"), `scores` (entries of `rule`, `set`, `metrics`), `cost`, `warnings`,
        `versions`, `files` (what `artifacts.listing` says of `staged`), and the `reason` of one that diverged. `following` in it:
        results of the jobs that followed, by key, whose files lie beside; they are recorded with it, all or none. False, and
        nothing done, when the job is no longer this driver's.
        """
        with self.store.transaction() as connection:
            if not self._record(connection, key, self._mine(key), result, seconds, worker):
                return False
            for other, said in result.get("following", {}).items():
                # Nobody can have begun it, since it needs the one that is recorded here.
                self._record(connection, other, self._pending([other]), said, seconds, worker)
            # Last before the commit, under the database's lock: a kill in between leaves a job to be done again, whose
            # files replace these; never a finished job without files.
            for name in (key, *result.get("following", {})):
                folder = None if staged is None else staged.with_name(name)
                if folder is not None and folder.is_dir():
                    artifacts.publish(folder, artifacts.artifact_folder(self.store.out, name))
        for name in (key, *result.get("following", {})):
            shutil.rmtree(artifacts.checkpoint_folder(self.store.out, name), ignore_errors=True)
        return True

    def _record(
        self, connection: sa.Connection, key: str, whose: sa.Update, result: Mapping[str, Any], seconds: float, worker: str
    ) -> bool:
        from crosswind.studies.database import now, scores, text

        listed = [
            {
                "key": key,
                "position": position,
                "rule": text(entry["rule"]),
                "set": text(entry["set"]),
                "metrics": plain_json(entry["metrics"]),
            }
            for position, entry in enumerate(result["scores"])
        ]
        empty: dict[str, Any] = {"cost": {}, "warnings": [], "versions": {}, "files": {}}
        values = {name: plain_json(result.get(name, nothing)) for name, nothing in empty.items()}
        values |= {"status": result["status"], "worker": worker}
        reason = text(one_line(str(result["reason"]))) if result.get("reason") else None
        done = whose.values(reason=reason, detail=None, finished=now(connection), seconds=seconds, **values)
        if connection.execute(done).rowcount != 1:
            return False
        connection.execute(scores.delete().where(scores.c.key == key))
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
        """Record that the job failed, and those `following` it, with the reason in one sentence and the `cause` of an event. False
        when the job is no longer this driver's.
        """
        from crosswind.studies.database import now, text

        values: dict[str, Any] = {
            "status": "failed",
            "reason": text(one_line(reason)),
            "detail": text(detail),
            "cause": cause or None,
            "seconds": seconds,
            "worker": worker,
        }
        with self.store.transaction() as connection:
            values["finished"] = now(connection)
            if connection.execute(self._mine(key).values(values)).rowcount != 1:
                return False
            connection.execute(self._pending(following).values(values))
            return True

    def lost(
        self, key: str, reason: str, detail: str = "", worker: str = "", cause: str = "", following: Sequence[str] = ()
    ) -> bool:
        """Record that the job's worker died. True: the job is pending again; False: it was the last try, the job has failed, and
        those `following` it.
        """
        from crosswind.studies.database import now, runs, text

        why = text(one_line(reason))
        with self.store.transaction() as connection:
            again = (
                self._mine(key)
                .where(runs.c.attempts < ATTEMPTS)
                .values(status="pending", reason=why, detail=text(detail), worker=worker)
            )
            if connection.execute(again).rowcount == 1:
                return True
            tried = f"tried {ATTEMPTS} times: {why}"
            values: dict[str, Any] = {
                "status": "failed",
                "reason": tried,
                "detail": text(detail),
                "worker": worker,
                "cause": cause or None,
            }
            values["finished"] = now(connection)
            connection.execute(self._mine(key).values(values))
            connection.execute(self._pending(following).values(values))
            return False

    def blocked(self, keys: Sequence[str], needed: str, why: str = "which failed") -> None:
        """Record as failed the pending runs `keys`, which need, directly or through others, the run `needed`, and `why` they cannot
        have it.
        """
        from crosswind.studies.database import now, runs

        values = {"status": "failed", "reason": one_line(f"needs {needed[:12]}, {why}"), "blocked_by": needed}
        with self.store.transaction() as connection:
            for some in in_parts(keys):
                chosen = (runs.c.status == "pending") & runs.c.key.in_(some)
                connection.execute(runs.update().where(chosen).values(finished=now(connection), **values))

    def _clear_up(self) -> None:
        from crosswind.studies.database import sentences

        self.reclaim()
        with sentences(self.store.name):
            artifacts.sweep_staging(self.store.out, self.store.live_drivers)
            artifacts.sweep_checkpoints(self.store.out, self._done)

    def _done(self, keys: list[str]) -> list[str]:
        return [key for key, status in self.store.statuses(keys).items() if status in DONE]

    def _pending(self, keys: Sequence[str]) -> sa.Update:
        from crosswind.studies.database import runs

        return runs.update().where(runs.c.key.in_(list(keys)) & (runs.c.status == "pending"))

    def _mine(self, key: str) -> sa.Update:
        from crosswind.studies.database import runs

        return runs.update().where((runs.c.key == key) & (runs.c.driver == self.driver.id) & (runs.c.status == "running"))


def _give_back(connection: sa.Connection, driver: str) -> int:
    from crosswind.studies.database import runs

    left = runs.update().where((runs.c.driver == driver) & (runs.c.status == "running"))
    return connection.execute(left.values(status="pending", driver=None, attempts=runs.c.attempts - 1)).rowcount
