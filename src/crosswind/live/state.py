"""The state of a study in a store, from the store alone: progress, failures, workers, scores so far
and learning curves.

What grows with the study is read once and then only what is new: labels when the plan changes,
scores after the last one that was seen (SQLite). What a look takes: docs/guides/cluster.md.
"""

from __future__ import annotations

import json
import math
import struct
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from crosswind.core.errors import StoreError
from crosswind.core.types import ROWS
from crosswind.storage.artifacts import artifact_folder, checkpoint_folder
from crosswind.storage.database import now, runs, scores, study_runs
from crosswind.storage.failure_reasons import root_reason, shared_reason
from crosswind.storage.store import DONE, STATUSES, Store

__all__ = ["LiveStudy"]

METRICS = ("accuracy", "worst_group")
"""Scores of the heat maps, each a share of the rows of the first test set."""
RATE_SECONDS = 900.0
"""The time over which the rate of finished runs and the load of workers are taken."""
FAILURES, CURVES, RUNNING = 20, 6, 40
"""The most of each that are shown."""
CURVE_POINTS = 200
SCORE_SECONDS = 30.0
"""Between two looks at the scores of a database that does not number them (PostgreSQL)."""

ENDED_SECONDS = 10.0
"""Between two looks at which fits ended last, and at the seconds of all jobs."""

Pair = tuple[str, str]
"""A method and a shift."""


class LiveStudy:
    """One study of an open store, looked at again and again. Not for several threads at once."""

    def __init__(self, store: Store, study: str) -> None:
        """Raises `StoreError` for a study that the store does not have."""
        self._store = store
        self._study = study
        resolved = store.study(study)["resolved"]
        self._rule = str((resolved.get("selection") or ["last"])[0])
        sets: Mapping[str, Any] = resolved.get("sets") or {}
        tests = [name for name, spec in sets.items() if (spec or {}).get("role") == "test"]
        self._set = tests[0] if tests else "test"
        self._pairs: dict[str, list[Pair]] = {}
        self._listed = -1
        self._scored_row = 0
        self._scored_at = -math.inf
        self._ended_at = -math.inf
        self._last_ended: list[str] = []
        self._seconds_at = -math.inf
        self._job_seconds: dict[str, dict[str, float]] = {}
        self._forget_scores()

    def look(self) -> dict[str, Any]:
        """The state as plain values, see `docs/guides/cluster.md`; times are seconds since 1970."""
        self._read_labels()
        self._read_scores()
        with self._store.transaction() as connection:
            read_at = now(connection)
        live = self._store.live_drivers()
        by_key, by_pair = self._counts(live)
        counts = Counter(by_key)
        total = counts.total()
        done = counts["finished"] + counts["diverged"]
        if len(self._by_run["accuracy"]) > done:  # results were taken back
            self._scored_row = 0
            self._read_scores()
        ended = self._ended(read_at)
        rate = self._rate(read_at)
        remaining = total - done - counts["failed"]
        failures = self._failures()
        return {
            "study": self._study,
            "time": read_at,
            "total": total,
            "counts": {status: counts[status] for status in STATUSES},
            "seconds_left": remaining / rate
            if rate and remaining
            else 0.0
            if not remaining
            else None,
            "runs_per_hour": 3600 * rate,
            "methods": _by_label(by_pair, 0),
            "shifts": _by_label(by_pair, 1),
            "job_seconds": self._seconds_by_kind(),
            "failures": failures[:FAILURES],
            "failed_by_cause": _by_cause(failures),
            "jobs_running": self._store.jobs_at_work(self._study, with_runs=True, live=live),
            "workers": self._workers(live, read_at, ended),
            "running": self._running(live, read_at),
            "heat": self._heat(),
            "curves": self._curves(live),
            "unfinished": remaining > 0,
        }

    # -- what is read once, or what is new --------------------------------------------------------

    def _read_labels(self) -> None:
        """The method and the shift of every run, read again when the study lists other runs."""
        listed = sa.select(sa.func.count()).where(study_runs.c.study == self._study)
        with self._store.transaction() as connection:
            number = connection.execute(listed).scalar_one()
        if number == self._listed:
            return
        query = (
            sa.select(study_runs.c.key, study_runs.c.labels)
            .join(runs, runs.c.key == study_runs.c.key)
            .where(study_runs.c.study == self._study, runs.c.kind == ROWS)
            .order_by(study_runs.c.position)
        )
        pairs: dict[str, list[Pair]] = defaultdict(list)
        for key, text in self._read(query):
            labels = self._mapping(text)
            pairs[key].append((str(labels.get("method")), str(labels.get("shift"))))
        self._pairs = dict(pairs)
        self._listed = number
        self._scored_row = 0

    def _read_scores(self) -> None:
        """The metrics of the first test set under the first selection rule, of results that are
        new."""
        last = self._store.last_score()
        if last is None:
            if time.monotonic() - self._scored_at < SCORE_SECONDS:
                return
            self._scored_row = 0
            self._scored_at = time.monotonic()
        elif last < self._scored_row:
            self._scored_row = 0
        query = sa.select(scores.c.key, scores.c.metrics).where(
            scores.c.rule == self._rule, scores.c.set == self._set
        )
        if last is not None:
            query = query.where(sa.text("scores.rowid > :seen")).params(seen=self._scored_row)
        if self._scored_row == 0:
            self._forget_scores()
        for key, text in self._read(query):
            measured = self._mapping(text)
            for name in METRICS:
                score = measured.get(name)
                if isinstance(score, int | float) and math.isfinite(score):
                    self._add_score(name, key, float(score))
        self._scored_row = last or 0

    def _forget_scores(self) -> None:
        self._by_run: dict[str, dict[str, float]] = {name: {} for name in METRICS}
        self._sums: dict[str, dict[Pair, float]] = {name: defaultdict(float) for name in METRICS}
        self._numbers: dict[str, Counter[Pair]] = {name: Counter() for name in METRICS}

    def _add_score(self, name: str, key: str, score: float) -> None:
        """Take a score into the means of its method and shift, in the place of an earlier one."""
        if key not in self._pairs:
            return
        earlier = self._by_run[name].get(key)
        for pair in self._pairs[key]:
            self._sums[name][pair] += score - (earlier or 0.0)
            self._numbers[name][pair] += earlier is None
        self._by_run[name][key] = score

    def _counts(self, live: set[str]) -> tuple[Counter[str], dict[Pair, Counter[str]]]:
        """Runs of the study by status, in all and for each method and shift; one whose driver died is
        pending."""
        query = sa.select(runs.c.key, runs.c.status, runs.c.driver).where(runs.c.kind == ROWS)
        in_all: Counter[str] = Counter()
        by_pair: dict[Pair, Counter[str]] = {
            pair: Counter() for pairs in self._pairs.values() for pair in pairs
        }
        with self._store.transaction() as connection:
            # As the client of the database gives them: rows of sqlalchemy take twice as long.
            cursor = connection.execute(query).cursor
            statuses = [] if cursor is None else cursor.fetchall()
        for key, status, driver in statuses:
            pairs = self._pairs.get(key)
            if pairs is None:
                continue
            if status == "running" and driver not in live:
                status = "pending"
            in_all[status] += 1
            for pair in pairs:
                by_pair[pair][status] += 1
        return in_all, by_pair

    # -- what is shown ----------------------------------------------------------------------------

    def _failures(self) -> list[dict[str, Any]]:
        """Failed runs by reason and cause, the most frequent first, with the first key of each."""
        query = (
            sa.select(runs.c.key, runs.c.reason, runs.c.cause)
            .where(runs.c.status == "failed", runs.c.kind == ROWS)
            .order_by(runs.c.finished, runs.c.key)
        )
        grouped: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for key, recorded, cause in self._read(query):
            if key in self._pairs:
                reason = recorded or "no reason recorded"
                group = grouped.setdefault((root_reason(reason), cause or ""), [])
                group.append((key, reason))
        ordered = sorted(grouped.items(), key=lambda failure: -len(failure[1]))
        return [
            {
                "reason": shared_reason(reason for _, reason in group),
                "cause": cause,
                "runs": len(group),
                "key": group[0][0],
            }
            for (_, cause), group in ordered
        ]

    def _workers(
        self, live: set[str], read_at: float, ended: Sequence[Any]
    ) -> list[dict[str, Any]]:
        """The drivers of the store: where they are, since when they were heard, what they have, and
        the share of the last minutes in which their workers were at work."""
        with self._store.transaction() as connection:
            known = list(
                connection.execute(sa.text("SELECT id, host, pid, heartbeat FROM drivers"))
            )
            active = sa.select(runs.c.driver, sa.func.count()).where(
                runs.c.status == "running", runs.c.driver.is_not(None)
            )
            by_driver = connection.execute(active.group_by(runs.c.driver)).all()
            running = {driver: int(number) for driver, number in by_driver}
        load: dict[str, list[float]] = defaultdict(list)
        for job in ended:
            if job.kind == "fit" and job.lately:
                load[job.driver].append(min(1.0, float(job.late_seconds) / RATE_SECONDS))
        return [
            {
                "driver": row.id,
                "host": row.host,
                "pid": row.pid,
                "alive": row.id in live,
                "heard_seconds_ago": max(0.0, read_at - float(row.heartbeat or 0.0)),
                "running": running.get(row.id, 0),
                "load": load.get(row.id, []),
            }
            for row in known
        ]

    def _running(self, live: set[str], read_at: float) -> list[dict[str, Any]]:
        """The jobs that are at work, the longest first."""
        query = (
            sa.select(runs.c.key, runs.c.kind, runs.c.driver, runs.c.worker, runs.c.started)
            .where(runs.c.status == "running")
            .order_by(runs.c.started, runs.c.key)
        )
        rows = [row for row in self._read(query) if row.driver in live]
        titles = self._titles([row.key for row in rows[:RUNNING]])
        return [
            {
                "key": row.key,
                "kind": row.kind,
                "title": titles.get(row.key, row.key[:12]),
                "seconds": max(0.0, read_at - float(row.started or read_at)),
            }
            for row in rows[:RUNNING]
        ]

    def _ended(self, read_at: float) -> Sequence[Any]:
        """Jobs of the store that ended in the last minutes, by kind, driver and worker: how many, and
        their seconds."""
        query = sa.select(
            runs.c.kind,
            runs.c.driver,
            runs.c.worker,
            sa.func.count().label("lately"),
            sa.func.coalesce(sa.func.sum(runs.c.seconds), 0.0).label("late_seconds"),
        ).where(runs.c.finished > read_at - RATE_SECONDS)
        return list(self._read(query.group_by(runs.c.kind, runs.c.driver, runs.c.worker)))

    def _seconds_by_kind(self) -> dict[str, dict[str, float]]:
        """The number and the seconds of the jobs of the study that ended, by kind, at most
        `ENDED_SECONDS` old: they are read in one pass over the table, which a look takes longest
        for."""
        if time.monotonic() - self._seconds_at >= ENDED_SECONDS:
            self._job_seconds = self._store.job_seconds(self._study)
            self._seconds_at = time.monotonic()
        return self._job_seconds

    def _rate(self, read_at: float) -> float:
        """Runs of the study a second, of those that ended in the last minutes."""
        since = read_at - RATE_SECONDS
        query = sa.select(runs.c.key, runs.c.started).where(
            runs.c.kind == ROWS, runs.c.status.in_(DONE), runs.c.finished > since
        )
        late = [started for key, started in self._read(query) if key in self._pairs]
        if not late:
            return 0.0
        starts = [float(started) for started in late if started is not None]
        begun = max(since, min(starts, default=since))
        return len(late) / max(1.0, read_at - begun)

    def _heat(self) -> dict[str, Any]:
        """The mean score of the runs of each method under each shift so far, by metric."""
        methods: dict[str, None] = {}
        shifts: dict[str, None] = {}
        for pairs in self._pairs.values():
            for method, shift in pairs:
                methods[method] = shifts[shift] = None
        cells = {}
        for name in METRICS:
            cells[name] = [
                [self._mean(name, (method, shift)) for shift in shifts] for method in methods
            ]
        numbers = self._numbers["accuracy"]
        return {
            "rule": self._rule,
            "set": self._set,
            "methods": list(methods),
            "shifts": list(shifts),
            "runs": [[numbers[method, shift] for shift in shifts] for method in methods],
            **cells,
        }

    def _mean(self, name: str, pair: Pair) -> float | None:
        number = self._numbers[name][pair]
        if number:
            return self._sums[name][pair] / number
        return None

    def _curves(self, live: set[str]) -> list[dict[str, Any]]:
        """Validation accuracy by step, of fits that run and have a checkpoint, then of the last that
        ended."""
        running = sa.select(runs.c.key, runs.c.driver).where(
            runs.c.kind == "fit", runs.c.status == "running"
        )
        last_ended = (
            sa.select(runs.c.key)
            .where(runs.c.kind == "fit", runs.c.status.in_(DONE))
            .order_by(runs.c.finished.desc(), runs.c.key)
            .limit(CURVES)
        )
        if time.monotonic() - self._ended_at >= ENDED_SECONDS:
            self._last_ended = [row.key for row in self._read(last_ended)]
            self._ended_at = time.monotonic()
        out = self._store.out
        files = []
        for row in self._read(running):
            if row.driver in live:
                files.append((row.key, checkpoint_folder(out, row.key) / "state.safetensors"))
        files += [(key, artifact_folder(out, key) / "history.json") for key in self._last_ended]
        histories = [(key, history) for key, file in files if (history := _history(file))]
        titles = self._titles([key for key, _ in histories[:CURVES]])
        return [
            {"title": titles.get(key, key[:12]), "key": key, **_curve(history)}
            for key, history in histories[:CURVES]
        ]

    # -- reading ----------------------------------------------------------------------------------

    def _titles(self, keys: Sequence[str]) -> dict[str, str]:
        """The names of jobs: their method, shift, point and seed."""
        if not keys:
            return {}
        query = sa.select(study_runs.c.key, study_runs.c.labels).where(
            study_runs.c.study == self._study, study_runs.c.key.in_(keys)
        )
        names = ("data", "shift", "size", "model", "method", "point")
        titles = {}
        for key, text in self._read(query):
            labels = self._mapping(text)
            words = [str(labels[name]) for name in names if labels.get(name)]
            titles[key] = ", ".join([*words, f"seed {labels.get('seed')}"])
        return titles

    def _read(self, query: sa.Select[Any]) -> Iterable[Any]:
        with self._store.transaction() as connection:
            return list(connection.execute(query))

    def _mapping(self, text: Any) -> dict[str, Any]:
        try:
            value = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"{self._store.name} is damaged: an entry is not JSON ({error})"
            raise StoreError(problem) from error
        return value if isinstance(value, dict) else {}


def _by_label(by_pair: Mapping[Pair, Counter[str]], place: int) -> list[dict[str, Any]]:
    """Runs by status for each method (`place` 0) or shift (1), in the order of the study."""
    counts: dict[str, Counter[str]] = {}
    for pair, tally in by_pair.items():
        counts.setdefault(pair[place], Counter()).update(tally)
    return [
        {"name": name, "total": tally.total(), **{status: tally[status] for status in STATUSES}}
        for name, tally in counts.items()
    ]


def _by_cause(failures: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The failed runs by what of the machine stopped them; empty: the run itself."""
    tally: Counter[str] = Counter()
    for failure in failures:
        tally[failure["cause"]] += failure["runs"]
    return dict(tally)


def _history(file: Path) -> list[dict[str, Any]]:
    """The validations of a fit, from its file of them or from the header of its checkpoint; empty
    where there is none, or it is being replaced."""
    try:
        if file.suffix == ".json":
            history = json.loads(file.read_text(encoding="utf-8"))
        else:
            with file.open("rb") as checkpoint:
                (length,) = struct.unpack("<Q", checkpoint.read(8))
                header = json.loads(checkpoint.read(min(length, 1 << 26)))
            history = json.loads(header["__metadata__"]["crosswind"])["history"]
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return []
    return history if isinstance(history, list) else []


def _curve(history: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The steps and the accuracy on the first validation set, of many validations every k-th."""
    every = max(1, math.ceil(len(history) / CURVE_POINTS))
    chosen = [*history[::every], *([] if (len(history) - 1) % every == 0 else [history[-1]])]
    steps = []
    accuracies = []
    for entry in chosen:
        scored = list((entry.get("validation") or {}).values())
        if scored and scored[0].get("accuracy") is not None:
            steps.append(entry.get("step"))
            accuracies.append(scored[0]["accuracy"])
    return {"steps": steps, "accuracy": accuracies}
