"""A store of many runs: nothing is read twice, and what is not looked at is still found by the check."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.speed.many_runs import build
from tests.execution.toys import planned

from crosswind.cli.main import _status
from crosswind.core.errors import StoreError
from crosswind.execution.done_before import ended_stamp, fingerprint, fingerprint_of_study
from crosswind.execution.running import run_plan
from crosswind.storage import store as store_module
from crosswind.storage.artifacts import (
    SharedTexts,
    artifact_folder,
    check_keys,
    plain_json,
    texts_of_labels,
    texts_of_names,
)
from crosswind.storage.database import WITH_FILES, insert_rows, runs
from crosswind.storage.leases import Driver
from crosswind.storage.run_recorder import RunRecorder
from crosswind.storage.store import Store
from crosswind.studies.plan import Plan, make_plan, plan_of
from crosswind.studies.spec import Study, load_study


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study of 40 runs, all done, and its store."""
    folder = tmp_path_factory.mktemp("many")
    build(folder, 40)
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_run_with_nothing_to_do_says_again_what_was_found(
    many: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ["run", str(many / "many.yaml"), "--out", str(many / "out"), "--workers", "1"]
    assert _status(run) == 0
    first = capsys.readouterr().out
    page = many / "out" / "report.html"
    written = page.stat().st_mtime_ns
    monkeypatch.setattr("crosswind.reports.gather.gather", None)  # would fail if it were called
    assert _status(run) == 0
    again = capsys.readouterr().out
    assert again.splitlines()[:-3] == first.splitlines()[:-3] and "0 runs in" in again
    assert page.stat().st_mtime_ns == written
    monkeypatch.undo()
    # Another result, another page, another specification: it is all said anew.
    key = next(job.key for job in plan_of(str(many / "many.yaml")).jobs if job.kind == "score")
    with Store.open(many / "out", create=True) as store:
        store.undo([key])
    assert _status(run) == 0 and "1 run in" in capsys.readouterr().out
    page.unlink()
    assert _status(run) == 0 and page.is_file()
    assert _status([*run, "--set", "reference='mixup 0.1'"]) == 0
    assert "What each shift costs mixup 0.1" in capsys.readouterr().out
    assert _status(run) == 0
    assert "What each shift costs erm" in capsys.readouterr().out
    shutil.rmtree(artifact_folder(many / "out", key))
    assert _status(run) == 0
    assert "files of 1 jobs are gone or damaged" in capsys.readouterr().err
    with Store.open(many / "out", create=True) as store:
        store.undo([key])
    assert _status(run) == 0


def test_a_run_with_nothing_to_do_plans_one_seed_and_opens_the_store_for_reading(
    many: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ["run", str(many / "many.yaml"), "--out", str(many / "out"), "--workers", "1"]
    assert _status(run) == 0
    first = capsys.readouterr()
    planned_seeds: list[list[int]] = []

    def noted(study: Study, folder: Path | None) -> Plan:
        planned_seeds.append(study.seed_list)
        return make_plan(study, folder)

    monkeypatch.setattr("crosswind.execution.done_before.make_plan", noted)
    monkeypatch.setattr("crosswind.studies.plan.plan_of", None)  # would fail if it were called
    written = (many / "out" / "store.sqlite").stat().st_mtime_ns
    assert _status(run) == 0
    again = capsys.readouterr()
    assert planned_seeds == [[0]]
    assert (many / "out" / "store.sqlite").stat().st_mtime_ns == written
    assert again.out.splitlines()[:-3] == first.out.splitlines()[:-3]
    assert again.out.splitlines()[-3:] == [
        "0 runs in 0 s.",
        f"Results: crosswind report {many / 'out'}",
        f"The page is {many / 'out' / 'report.html'}",
    ]
    assert again.err == first.err and "40 of 40 runs done" in again.err
    monkeypatch.undo()


def test_what_ended_before_is_told_by_one_seed_of_a_plan(many: Path) -> None:
    file = many / "many.yaml"
    whole = plan_of(str(file))
    one_seed = fingerprint_of_study(whole.study, many)
    assert fingerprint(whole.study, whole.jobs) == one_seed
    settings = (
        ["seeds=5"],
        ["seeds=[0, 1, 2, 4]"],
        ["training.steps=3"],
        ["training.batch=8"],
        ["sizes.small.total=50"],
        ["shifts.SC.strength=0.7"],
        ["selection=['last']"],
        ["data.digits.roles.test=11"],
        ["methods.erm.training={steps: 4}"],
        ["name=another"],
    )
    others = [fingerprint_of_study(load_study(str(file), None, words), many) for words in settings]
    assert len({one_seed, *others}) == 1 + len(settings)


def test_a_store_in_which_something_is_to_be_done_has_no_stamp(many: Path, tmp_path: Path) -> None:
    shutil.copytree(many / "out", tmp_path / "out")
    with Store.open(tmp_path / "out", create=True) as store:
        run_plan(plan_of(str(many / "many.yaml")), store)  # what other tests left undone
        stamp = ended_stamp(store, "many")
        assert stamp is not None and ended_stamp(store, "many") == stamp
        assert ended_stamp(store, "another") is None
        recorder = RunRecorder(store, Driver.current())
        recorder.enter()
        assert ended_stamp(store, "many") is None
        recorder.leave()
        assert ended_stamp(store, "many") == stamp
        key = store.runs("many")[0]["key"]
        store.undo([key])
        assert ended_stamp(store, "many") is None
        run_plan(plan_of(str(many / "many.yaml")), store)
        assert ended_stamp(store, "many") not in (None, stamp)
        stamp = ended_stamp(store, "many")
        store.add_plan("second", {}, {}, plan_of(str(many / "many.yaml"), None, ["seeds=1"]).jobs)
        assert ended_stamp(store, "many") not in (None, stamp)


def test_a_plan_that_the_store_holds_is_not_written_again(many: Path) -> None:
    planned = plan_of(str(many / "many.yaml"))
    values = planned.study.model_dump(exclude_unset=True), planned.study.model_dump()
    with Store.open(many / "out", create=True) as store:
        store.add_plan("many", *values, planned.jobs)
        changes = []
        store._engine.dispose()

        def statement(_: object, __: object, text: str, *___: object) -> None:
            changes.append(text.split()[0])

        import sqlalchemy as sa

        sa.event.listen(store._engine, "before_cursor_execute", statement)
        store.add_plan("many", *values, planned.jobs)
        assert set(changes) <= {"BEGIN", "SELECT"}
        store.add_plan("many", *values, planned.jobs[:-3])  # another plan is
        assert "INSERT" in changes
        assert len(store.runs("many")) in (39, 40)
        store.add_plan("many", *values, planned.jobs)
        assert len(store.runs("many")) == 40


def test_of_many_runs_the_newest_are_looked_at_and_the_folders_of_all(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    shutil.copytree(many / "out", out)
    keys = [job.key for job in plan_of(str(many / "many.yaml")).jobs if job.kind == "fit"]
    with Store.open(out) as store:
        assert not store.damaged() and len(store.files()) == 120
        shutil.rmtree(artifact_folder(out, keys[5]))
        short = artifact_folder(out, keys[6]) / "job.json"
        content = short.read_bytes()
        short.unlink()  # linked to those of other runs: not written into
        short.write_bytes(content + b" ")
        assert set(store.damaged()) == {keys[5], keys[6]}
        few = store.damaged(most=2)
        assert keys[5] in few and all(fault.endswith("is gone") for fault in few[keys[5]])
        assert store.damaged("many", most=2) == few
    assert store_module.MOST_LOOKED_AT >= 1000


def test_what_all_jobs_are_asked_is_answered_from_indexes(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(many / "out", out)
    file = out / "store.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("DROP INDEX ix_runs_state")
        database.execute("DROP INDEX ix_runs_files")

    def asked() -> list[Any]:
        with Store.open(out) as store:
            return [store.counts("many"), store.warnings("many"), store.damaged("many", most=2)]

    before = asked()  # a store of before, which is only read
    Store.open(out, create=True).close()
    with contextlib.closing(sqlite3.connect(file)) as database:
        for question, index in {
            f"SELECT group_concat(key) FROM runs WHERE {WITH_FILES}": "ix_runs_files",
            "SELECT status, driver, count(*) FROM runs WHERE kind = 'score' GROUP BY 1, 2": (
                "COVERING INDEX ix_runs_state"
            ),
            "SELECT key, status FROM runs": "COVERING INDEX ix_runs_state",
        }.items():
            steps = database.execute(f"EXPLAIN QUERY PLAN {question}").fetchall()
            assert index in steps[0][3]
    assert asked() == before and before[0]["total"] == 40


def test_jobs_that_a_study_does_not_list_are_not_counted_to_it(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(many / "out", out)
    planned = plan_of(str(many / "many.yaml"))
    values = planned.study.model_dump(exclude_unset=True), planned.study.model_dump()
    rows = [job for job in planned.jobs if job.kind == "score"]
    with Store.open(out, create=True) as store:
        of_all = store.counts("many")["finished"], dict(store.warnings("many"))
        # As many entries as there are jobs, of which one stands there twice.
        store.add_plan("many", *values, [*planned.jobs[:-1], planned.jobs[-2]])
        assert store.counts("many")["finished"] == of_all[0] - 1
        store.add_plan("many", *values, planned.jobs)
        store.add_plan("few", *values, rows[:3])
        assert store.counts("few")["finished"] == 3 and store.counts("many")["finished"] == 40
        assert sum(dict(store.warnings("few")).values()) <= 3
        assert dict(store.warnings("many")) == of_all[1]
        shutil.rmtree(artifact_folder(out, planned.jobs[0].key))
        assert not store.damaged("few", most=1) and store.damaged("many", most=1)


def test_statuses_of_many_keys_are_those_of_few(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [job.key for job in plan_of(str(many / "many.yaml")).jobs]
    with Store.open(many / "out") as store:
        by_parts = store.statuses([*keys[:30], "none such"])
        monkeypatch.setattr(store_module, "MOST_LOOKED_AT", 10)
        assert store.statuses([*keys[:30], "none such"]) == by_parts and len(by_parts) == 30


def test_jobs_that_all_wait_are_told_from_those_of_which_one_was_begun(tmp_path: Path) -> None:
    jobs = [planned(name) for name in "abc"]
    keys = [job.key for job in jobs]
    with Store.open(tmp_path, create=True) as store:
        assert store.all_pending([]) and not store.all_pending(keys)
        store.add_plan("first", {}, {}, jobs[:2])
        assert store.all_pending(keys[:2]) and not store.all_pending(keys)
        store.add_plan("second", {}, {}, jobs)
        recorder = RunRecorder(store, Driver.current())
        recorder.enter()
        assert store.all_pending(keys) and recorder.claim(keys[0])
        assert store.all_pending(keys[1:]) and not store.all_pending(keys)
        recorder.leave()
        assert store.all_pending(keys)
        odd = "INSERT INTO runs (key, spec, status) VALUES ('abcd', '{}', 'odd')"
        with pytest.raises(StoreError, match="status_known"), store.transaction() as connection:
            connection.exec_driver_sql(odd)


def test_rows_go_in_by_lots_and_none_is_lost_at_their_borders(tmp_path: Path) -> None:
    names = ("key", "kind", "spec", "needs")

    def rows(start: int, end: int, kind: str) -> Iterator[tuple[str, ...]]:
        return ((f"{number:04d}", kind, "{}", "[]") for number in range(start, end))

    with Store.open(tmp_path, create=True) as store:
        for n_rows in (0, 1, 99, 100, 101, 200, 257):
            with store.transaction() as connection:
                connection.exec_driver_sql("DELETE FROM runs")
                insert_rows(connection, runs, names, rows(0, n_rows, "fit"))
                numbers = connection.exec_driver_sql("SELECT key FROM runs ORDER BY key").all()
                assert [int(key) for (key,) in numbers] == list(range(n_rows))
        with store.transaction() as connection:
            insert_rows(connection, runs, names, rows(200, 400, "score"), skip_known=True)
            counts = connection.exec_driver_sql("SELECT kind, count(*) FROM runs GROUP BY kind")
            assert dict(map(tuple, counts.all())) == {"fit": 257, "score": 143}
        with pytest.raises(StoreError), store.transaction() as connection:
            insert_rows(connection, runs, names, rows(399, 700, "fit"))
        assert len(store.not_done()) == 400


def _pragma(file: Path, name: str) -> Any:
    with contextlib.closing(sqlite3.connect(file)) as database:
        return database.execute(f"PRAGMA {name}").fetchone()[0]


def _made_before(out: Path) -> Path:
    """The file of an empty store as it was made before: smaller pages, the states in a list."""
    Store.open(out, create=True).close()
    file, older = out / "store.sqlite", out / "older.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as database:
        tables = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    checks = (
        "status = 'pending' OR status = 'running' OR status = 'finished' OR status = 'diverged'"
    )
    checks += " OR status = 'failed'"
    listed = "status IN ('pending', 'running', 'finished', 'diverged', 'failed')"
    assert sum(checks in statement for (statement,) in tables) == 1
    with contextlib.closing(sqlite3.connect(older, isolation_level=None)) as database:
        database.execute("PRAGMA page_size=4096")
        for (statement,) in tables:
            database.execute(statement.replace(checks, listed))
        database.execute("INSERT INTO meta (name, value) VALUES ('schema', '3')")
    older.replace(file)
    return file


def test_a_store_that_was_made_before_is_gone_on_with_as_it_is(tmp_path: Path) -> None:
    file = _made_before(tmp_path / "before")
    Store.open(tmp_path / "now", create=True).close()
    assert _pragma(tmp_path / "now" / "store.sqlite", "page_size") == 8192
    jobs = [planned(f"job {number}", text="x" * 3000) for number in range(150)]
    for out in (file.parent, tmp_path / "now"):
        with Store.open(out, create=True) as store:
            store.add_plan("first", {"a": 1}, {}, jobs[:120])
            store.add_plan("second", {}, {}, jobs)
            recorder = RunRecorder(store, Driver.current())
            recorder.enter()
            assert recorder.claim(jobs[3].key)
            ending = {"status": "finished", "scores": [], "cost": {}}
            assert recorder.finished(jobs[3].key, ending, 1.0)
            recorder.leave()
        with Store.open(out) as store:
            assert store.counts("second") == {
                "pending": 149,
                "running": 0,
                "finished": 1,
                "diverged": 0,
                "failed": 0,
                "total": 150,
            }
            assert store.run(jobs[3].key)["spec"] == jobs[3].spec
    assert _pragma(file, "page_size") == 4096 and _pragma(file, "integrity_check") == "ok"


def _indexes(out: Path) -> list[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(out / "store.sqlite")) as database:
        return database.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        ).fetchall()


def test_a_plan_in_empty_tables_leaves_all_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(connection: Any, table: Any, *_: Any, **__: Any) -> None:
        indexed = {statement.split(" ON ")[1].split()[0] for _, statement in _indexes(tmp_path)}
        assert indexed == {"runs", "study_runs"}  # as others see it, who read meanwhile
        here = "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        assert connection.exec_driver_sql(here).scalar() == 0
        raise KeyboardInterrupt

    with Store.open(tmp_path, create=True) as store:
        made_with_store = sorted(_indexes(tmp_path))
        assert len(made_with_store) == 4
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(store_module, "insert_rows", interrupted)
            store.add_plan("first", {}, {}, [planned("a")])
        assert sorted(_indexes(tmp_path)) == made_with_store and not store.study_names()
        for study, names in {"first": "ab", "second": "bc"}.items():
            store.add_plan(study, {}, {}, [planned(name) for name in names])
            assert sorted(_indexes(tmp_path)) == made_with_store
        assert len(store.statuses(planned(name).key for name in "abcd")) == 3


def test_texts_of_shared_parts_are_those_of_whole_specifications(many: Path) -> None:
    texts = SharedTexts()
    jobs = plan_of(str(many / "many.yaml")).jobs
    assert len(jobs) == 120
    odd = [
        {},
        {"a": float("nan"), "b": [1, {"c": None}], "é\n": "ü", "t": (1, 2)},
        {1: 2, "x": True},
        {"50%": 1, "%s": "100%", "(x)": "%d"},
        {"b": 1.5, "a": None, "d": {"n": False}},
        {"numpy": np.float32(0.5), "path": Path("/a"), "deep": {"n": np.int64(3)}},
    ]
    for values in [*(job.spec for job in jobs), *(job.spec for job in jobs), *odd]:
        assert texts.of(values) == plain_json(values)
    with pytest.raises(TypeError, match="is not a plain value"):
        texts.of({"a": object()})


def test_texts_of_many_labels_are_those_of_each(many: Path) -> None:
    labels = [job.labels for job in plan_of(str(many / "many.yaml")).jobs]

    class Odd(dict[str, Any]):
        pass

    odd: list[dict[Any, Any]] = [
        {"a": 'b"\\\x08\x0c\n\r\t\x1f\0/</script>', 'c"': 2**70, "d": -1, "": ""},
        {"a": "ü"},
        {"ü": "a"},
        {"a": "\x7f"},
        {"a": "\ud800"},
        {"a": "\u2028\U0001f600"},
        {"a": True},
        {"a": None, "b": 1e-08, "c": float("inf"), "d": float("nan")},
        {1: 2, None: 3},
        {"a": np.float64(0.1), "b": [1, ("c",)], "d": Path("e")},
        {},
        Odd(a=1),
    ]
    for mappings in [labels, labels[:1], [], *([values] for values in odd), [*labels, *odd]]:
        assert texts_of_labels(mappings) == list(map(plain_json, mappings))
    with pytest.raises(TypeError, match="is not a plain value"):
        texts_of_labels([{"a": object()}])


def test_texts_of_many_lists_of_keys_are_those_of_each(many: Path) -> None:
    needs = [job.needs for job in plan_of(str(many / "many.yaml")).jobs]
    assert max(map(len, needs)) == 2
    for names in [*needs, (), ["é\n", 'a"b', "\ud800"], ["ü"], [""], ["", ""], ["a", ""]]:
        assert texts_of_names([*needs, names]) == [plain_json(each) for each in [*needs, names]]
        assert texts_of_names([names]) == [plain_json(names)]
    assert texts_of_names([]) == []


@pytest.mark.parametrize(
    "key", ["", "abc", "a" * 129, "abcD", "abc_", "abcé", "abcd\n", "a\ud800bc", "٣٣٣٣"]
)
def test_a_key_that_names_no_folder_is_refused_among_many(key: str) -> None:
    good_keys = ["abcd", "0123", "a" * 128]
    check_keys(good_keys)
    check_keys([])
    for keys in ([key], [*good_keys, key], [key, *good_keys]):
        with pytest.raises(StoreError, match="is not 4 to 128 lower-case letters and digits"):
            check_keys(keys)
