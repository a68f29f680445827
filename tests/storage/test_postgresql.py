"""The store on a real PostgreSQL server, started for the test as a user that is not root."""

import contextlib
import json
import re
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.execution.toys import JOB, graph, planned
from tests.live.test_live import STUDY
from tests.storage.postgres_server import PostgresServer, why_no_server

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import InputError, StoreError
from crosswind.execution.engines.pool import WorkerPool
from crosswind.execution.scheduler import drive
from crosswind.reports.gather import gather
from crosswind.reports.page import write_page
from crosswind.storage import database
from crosswind.storage.artifacts import artifact_folder
from crosswind.storage.store import Store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("psycopg")
    if problem := why_no_server():
        pytest.skip(problem)
    with PostgresServer() as started:
        yield started


@pytest.fixture
def url(server, request):
    return server.create(f"t{abs(hash(request.node.name))}")


def test_a_folder_has_the_files_of_one_store_alone(url, server, tmp_path):
    out = tmp_path / "out"
    for _ in range(2):
        Store.open(url, out, create=True).close()
    second, first = server.create("second"), re.escape(url)
    with pytest.raises(
        InputError, match=f"has the files of another store, {first}, which would be"
    ):
        Store.open(second, out, create=True)
    with pytest.raises(
        InputError, match=f"name another folder, or that store by --store '?{first}"
    ):
        Store.open(out, create=True)
    with pytest.raises(StoreError, match=f"has the files of the store {first}; name it by its URL"):
        Store.open(out)
    Store.open(tmp_path / "sqlite", create=True).close()
    with pytest.raises(InputError, match="--out: .*another store, .*store.sqlite, which would be"):
        Store.open(second, tmp_path / "sqlite", create=True)
    moved = out.rename(tmp_path / "moved")
    Store.open(url, moved, create=True).close()


def test_a_study_runs_and_is_read(url, tmp_path):
    log_file = tmp_path / "log"
    runs = [
        *graph(log_file, seconds=0.0),
        planned("bad", does="raise"),
        planned("dies", does="die"),
    ]
    with Store.open(url, tmp_path / "out", create=True) as store, WorkerPool(JOB, 2) as engine:
        store.add_plan("toys", {"a": 1}, {}, runs)
        summary = drive(store, runs, engine)
        assert (summary.finished, summary.failed) == (14, 2)
        assert (
            drive(store, runs, engine).executed == 1
        )  # of the failed ones, that whose worker was killed
    with Store.open(url) as store:
        assert len(store.results("toys", unscored=False)) == 28
        assert store.counts("toys")["failed"] == 2 and store.study("toys")["given"] == {"a": 1}
        assert store.run(runs[0].key[:9])["status"] == "finished"
        with pytest.raises(StoreError, match="without the folder"):
            _ = store.out
    assert (tmp_path / "out" / "artifacts").is_dir()


def test_files_are_checked(url, tmp_path, capsys):
    runs, out = [planned("a"), planned("b")], tmp_path / "out"
    with Store.open(url, out, create=True) as store, WorkerPool(JOB, 1) as engine:
        store.add_plan("toys", {}, {}, runs)
        assert drive(store, runs, engine).finished == 2
        (artifact_folder(out, runs[0].key) / "score.json").write_text("2.0")
        assert _status(["check", url, "--out", str(out), "--repair"]) == 1
        assert "1 job is pending again" in capsys.readouterr().out
        assert _status(["check", url]) == 2 and _status(["status", url]) == 0
        capsys.readouterr()


def test_three_drivers_share_the_work(url, tmp_path):
    log_file, code = (
        tmp_path / "log",
        (
            "import sys; from tests.execution import toys as t; from crosswind.execution.scheduler"
            " import drive\n"
        ),
    )
    code += (
        "from crosswind.storage.store import Store; from crosswind.execution.engines.pool import"
        " WorkerPool; from pathlib import Path\n"
    )
    code += "runs = t.graph(Path(sys.argv[3]))\n"
    code += (
        "with Store.open(sys.argv[1], sys.argv[2], create=True) as store, WorkerPool(t.JOB, 1) as"
        " engine:\n"
    )
    code += "    store.add_plan('toys', {}, {}, runs)\n    drive(store, runs, engine)\n"
    command = [sys.executable, "-c", code, url, str(tmp_path / "out"), str(log_file)]
    processes = [
        subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    for process in processes:
        _, error_text = process.communicate(timeout=600)
        assert process.returncode == 0, error_text.decode()
    counted = Counter(" ".join(line.split()[:2]) for line in log_file.read_text().splitlines())
    assert counted == Counter(
        {f"{word} {run.spec['name']}": 1 for word in ("start", "end") for run in graph(log_file)}
    )


def test_drivers_that_add_the_same_study_at_once_wait_for_each_other(url, tmp_path):
    runs = [planned(f"run{i}") for i in range(40)]
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(Store.open(url, tmp_path, create=True)) for _ in range(6)]
        for attempt in range(5):
            start = threading.Barrier(len(stores))

            def add(number, store, start=start, attempt=attempt):
                start.wait()
                store.add_plan(f"same{attempt}", {}, {}, runs)
                # studies with the same new runs in another order: no two wait for each other in a
                # circle
                shared = [planned(f"shared{attempt}-{i}") for i in range(2000)]
                store.add_plan(
                    f"other{attempt}-{number}",
                    {},
                    {},
                    shared[300 * number :] + shared[: 300 * number],
                )

            with ThreadPoolExecutor(len(stores)) as threads:
                list(threads.map(add, range(len(stores)), stores))
            assert stores[0].counts(f"other{attempt}-3")["total"] == 2000
            assert [run["key"] for run in stores[0].runs(f"same{attempt}")] == [
                run.key for run in runs
            ]


def test_what_is_no_store_is_one_sentence(url, server, tmp_path):
    with pytest.raises(StoreError, match="not a Crosswind store"):
        Store.open(url)
    with pytest.raises(StoreError, match="does not exist"):
        Store.open(server.url("nowhere"))
    Store.open(url, tmp_path, create=True).close()
    with Store.open(url) as store, store.transaction() as connection:
        connection.execute(database.meta.update().values(value="99"))
    with pytest.raises(StoreError, match="newer Crosswind") as caught:
        Store.open(url)
    assert "\n" not in str(caught.value)


def test_a_database_that_takes_no_changes_is_read_and_says_what_to_do(url, server, tmp_path):
    import psycopg

    name = url.partition("@/")[2].partition("?")[0]
    with Store.open(url, tmp_path, create=True) as store:
        store.add_plan("toys", {}, {}, [planned("alone")])
    with contextlib.closing(psycopg.connect(server.url("postgres"), autocommit=True)) as connection:
        connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    with Store.open(url, tmp_path) as store:
        assert store.counts("toys")["pending"] == 1
    with (
        pytest.raises(StoreError, match="read-only transaction; .* name the server that takes"),
        Store.open(url, tmp_path, create=True) as store,
    ):
        store.add_plan("toys", {}, {}, [planned("another")])


def test_a_server_that_goes_away_is_one_sentence(url, tmp_path):
    with Store.open(url, tmp_path, create=True) as store:
        store.add_plan("study", {}, {}, [])
        with (
            pytest.raises(StoreError, match="cannot be read or written"),
            store.transaction() as connection,
        ):
            connection.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")
        assert store.study_names() == ["study"]  # a new connection is made


def copied_to_postgresql(folder, url):
    """The rows of a store of SQLite, put into an empty database as they are."""
    # By a folder of its own: that of the first store has its files, which are only read.
    with (
        Store.open(folder) as source,
        Store.open(url, folder.with_name("copied"), create=True) as target,
        source.transaction() as reading,
        target.transaction() as writing,
    ):
        copied = 0
        for table in (database.studies, database.study_runs, database.runs, database.scores):
            rows = [dict(row) for row in reading.execute(table.select()).mappings()]
            writing.execute(table.insert(), rows[::-1])  # an order of rows that is not the plan's
            copied += len(rows)
    return copied


def report_bytes(where, out, page):
    """Everything that a report says: text, LaTeX, numbers, JSON and the page, but for the minute."""
    with Store.open(where, out) as store:
        record = gather(store, "live")
        tables = record.text_tables()
        write_page([record], "the store", page)
        html = re.sub(rb"Written [0-9: -]+ UTC", b"Written", page.read_bytes())
        return {
            "text": record.to_text(),
            "tables": [table.to_text() for table in tables],
            "latex": [table.to_latex() for table in tables],
            "csv": [table.to_csv() for table in record.number_tables(every=True)],
            "json": json.dumps(record.to_json()),
            "page": html,
        }


def test_reports_are_equal_to_the_byte_to_those_of_sqlite(url, tmp_path):
    out = tmp_path / "out"
    assert cw.run_study(STUDY, out).summary.finished == 8
    assert copied_to_postgresql(out, url) > 8 * 5
    of_sqlite = report_bytes(out, None, tmp_path / "sqlite.html")
    of_postgresql = report_bytes(url, out, tmp_path / "postgresql.html")
    assert len(of_sqlite["page"]) > 100_000 and len(of_sqlite["tables"]) > 5
    for name, content in of_sqlite.items():
        assert of_postgresql[name] == content, name


def test_rows_that_are_copied_are_those_of_the_plan(url, tmp_path):
    """Texts with what COPY escapes; a plan given again skips jobs that are there and keeps them."""
    runs = [planned("tab\tback\\slash\nnew \\N line"), planned("é ☃ 𝄞 \\."), planned("plain")]
    with Store.open(url, tmp_path / "out", create=True) as store:
        store.add_plan("toys", {"a": "\\"}, {}, runs[:2])
        store.add_plan("toys", {"a": "\\"}, {}, [runs[2], *runs])
        assert [run["key"] for run in store.runs("toys")] == [run.key for run in [runs[2], *runs]]
        for run in runs:
            stored = store.run(run.key)
            assert (stored["spec"], stored["status"]) == (dict(run.spec), "pending")


def test_a_copy_that_the_server_refuses_is_one_sentence_and_writes_nothing(url, tmp_path):
    with Store.open(url, tmp_path / "out", create=True) as store:
        with (
            pytest.raises(StoreError, match="cannot be read or written: .*NUL"),
            store.transaction() as connection,
        ):
            rows = [("toys", 0, "abcd", "{}"), ("toys", 1, "abcd", "\0")]
            names = ("study", "position", "key", "labels")
            database.insert_rows(connection, database.study_runs, names, rows)
        with store.transaction() as connection:
            count = "SELECT count(*) FROM study_runs"
            assert connection.exec_driver_sql(count).scalar() == 0


@pytest.mark.usefixtures("in_this_process")
def test_a_run_with_nothing_to_do_plans_one_seed(url, server, tmp_path, capsys, monkeypatch):
    study = tmp_path / "live.yaml"
    study.write_text(json.dumps({**STUDY, "seeds": 2}))
    run = ["run", str(study), "--out", str(tmp_path / "out"), "--store", url, "--workers", "1"]
    assert _status(run) == 0
    first = capsys.readouterr().out.splitlines()
    with monkeypatch.context() as patch:
        patch.setattr("crosswind.studies.plan.plan_of", None)  # would fail if it were called
        assert _status(run) == 0
    again = capsys.readouterr().out.splitlines()
    assert again[:-3] == first[:-3] and again[-3] == "0 runs in 0 s."
    assert again[-2:] == first[-2:]
    with Store.open(url, tmp_path / "out", create=True) as store:
        states = [store.scores_state()]
        key = next(run["key"] for run in store.runs("live") if run["kind"] == "score")
        store.undo([key])
        states.append(store.scores_state())
    assert _status(run) == 0 and "1 run in" in capsys.readouterr().out
    with Store.open(url) as store:
        states.append(store.scores_state())
    assert len({str(state) for state in states}) == 3
    # A database without a store, beside a folder with what was said: all is done anew, once the
    # folder is no longer that of the first one.
    run[run.index(url)] = server.create("empty")
    assert _status(run) == 2 and "has the files of another store" in capsys.readouterr().err
    (tmp_path / "out" / ".store").unlink()
    assert _status(run) == 0 and "8 runs in" in capsys.readouterr().out
