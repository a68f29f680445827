"""A store is looked at while it fills: its state, its metrics, who may ask, and the page in a real
browser beside a real run."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from crosswind.cli.main import _status
from crosswind.core.errors import InputError, StoreError
from crosswind.core.types import Job
from crosswind.live.prometheus import exposition
from crosswind.live.server import LiveServer
from crosswind.live.state import LiveStudy
from crosswind.storage.database import runs, scores, studies, study_runs
from crosswind.storage.leases import Driver
from crosswind.storage.run_recorder import RunRecorder
from crosswind.storage.store import Store

BROWSER = next(
    (path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no chromium on the PATH")
STUDY: dict[str, Any] = {
    "name": "live",
    "data": {
        "digits": {
            "source": "digits",
            "label": "half",
            "attributes": ["ink"],
            "roles": {"test": 10, "validation": 0.2},
        }
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "strength": 0.8},
    },
    "sizes": {"small": {"total": 90}},
    "models": {"mlp": {"hidden": 8, "layers": 1}},
    "methods": ["erm", "groupdro"],
    "training": {"steps": 6, "batch": 16, "validate_every": 2},
    "seeds": 2,
}
LINE = re.compile(
    r'[a-z_]+\{[a-z_]+="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\[\\"n])*")*\}'
    r" -?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
)
"""A sample of Prometheus' text format."""


@pytest.fixture(scope="module")
def store_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("live")
    (folder / "study.yaml").write_text(yaml.safe_dump(STUDY, sort_keys=False), encoding="utf-8")
    command = ["run", str(folder / "study.yaml"), "--out", str(folder / "out"), "--workers", "1"]
    assert _status(command) == 0
    return folder / "out"


@pytest.fixture
def mixed(store_folder: Path, tmp_path: Path) -> Path:
    """The store with a run that failed, one that waits and one that was left by a dead driver."""
    out = tmp_path / "out"
    shutil.copytree(store_folder, out)
    with Store.open(out, create=True) as store:
        keys = {
            (run["labels"]["shift"], run["labels"]["method"], run["labels"]["seed"]): run["key"]
            for run in store.runs("live")
        }
        failed, waiting, left = (keys["SC", "groupdro", seed] for seed in (0, 1)), None, None
        failed_keys = list(failed)
        waiting, left = keys["none", "groupdro", 0], keys["none", "groupdro", 1]
        with store.transaction() as connection:
            for key in (*failed_keys, waiting, left):
                connection.execute(scores.delete().where(scores.c.key == key))
            failure = {"status": "failed", "reason": 'disk "full"', "cause": "disk"}
            update = runs.update()
            connection.execute(update.where(runs.c.key.in_(failed_keys)).values(failure))
            connection.execute(update.where(runs.c.key == waiting).values(status="pending"))
            abandoned = {"status": "running", "driver": "nobody"}
            connection.execute(update.where(runs.c.key == left).values(abandoned))
    return out


@pytest.mark.slow
def test_a_state_says_what_the_store_holds(mixed: Path) -> None:
    with Store.open(mixed) as store:
        state = LiveStudy(store, "live").look()
        counts = {name: number for name, number in store.counts("live").items() if name != "total"}
    assert state["counts"] == counts == {**counts, "finished": 4, "failed": 2, "pending": 2}
    assert (state["total"], state["unfinished"]) == (8, True)
    by_method = {row["name"]: row for row in state["methods"]}
    assert by_method["erm"]["finished"] == 4
    assert by_method["groupdro"]["failed"] == 2
    by_shift = {row["name"]: (row["finished"], row["pending"]) for row in state["shifts"]}
    assert by_shift == {"none": (2, 2), "SC": (2, 0)}
    (failure,) = state["failures"]
    assert (failure["reason"], failure["cause"], failure["runs"]) == ('disk "full"', "disk", 2)


def test_a_state_has_the_means_of_methods_under_shifts(mixed: Path) -> None:
    with Store.open(mixed) as store:
        state = LiveStudy(store, "live").look()
        results = store.results("live")
    heat = state["heat"]
    assert (heat["methods"], heat["shifts"]) == (["erm", "groupdro"], ["none", "SC"])
    for name in ("accuracy", "worst_group"):
        for column, shift in enumerate(heat["shifts"]):
            measured = [
                entry["metrics"][name]
                for entry in results
                if (entry["method"], entry["shift"]) == ("erm", shift)
                and (entry["rule"], entry["set"]) == ("best-id", "test")
            ]
            assert len(measured) == 2 == heat["runs"][0][column]
            assert heat[name][0][column] == pytest.approx(sum(measured) / 2)
            assert heat[name][1][column] is None
            assert heat["runs"][1][column] == 0


def test_a_state_has_the_curves_and_is_small(mixed: Path) -> None:
    with Store.open(mixed) as store:
        state = LiveStudy(store, "live").look()
    assert [curve["steps"] for curve in state["curves"]] == [[2, 4, 6]] * 6
    assert "erm" in state["curves"][0]["title"] or "groupdro" in state["curves"][0]["title"]
    assert len(json.dumps(state, allow_nan=False)) < 20_000


def test_a_second_look_sees_what_is_new_and_what_was_taken_back(mixed: Path) -> None:
    with Store.open(mixed) as reading, Store.open(mixed, create=True) as writing:
        live = LiveStudy(reading, "live")
        before = live.look()
        keys = [run["key"] for run in writing.runs("live") if run["status"] == "pending"]
        with writing.transaction() as connection:
            values = {"status": "finished", "finished": time.time(), "started": time.time() - 5}
            connection.execute(runs.update().where(runs.c.key == keys[0]).values(values))
            entry = {"key": keys[0], "position": 0, "rule": "best-id", "set": "test"}
            metrics = '{"accuracy": 0.25, "worst_group": NaN}'
            connection.execute(scores.insert(), [{**entry, "metrics": metrics}])
        after = live.look()
        assert after["counts"]["finished"] == before["counts"]["finished"] + 1
        assert after["heat"]["accuracy"][1][0] == 0.25
        assert after["heat"]["worst_group"][1][0] is None
        assert after["seconds_left"] is not None
        assert after["runs_per_hour"] > 0
        writing.undo(keys[:1])
        again = live.look()
        assert again["counts"] == before["counts"]
        assert again["heat"] == before["heat"]
        first = next(run["key"] for run in writing.runs("live") if run["status"] == "finished")
        writing.undo([first])  # results after it stay
        fewer = live.look()["heat"]
        assert sum(map(sum, fewer["runs"])) == sum(map(sum, before["heat"]["runs"])) - 1


def test_the_rate_is_that_of_the_study_and_not_of_others_in_its_store(mixed: Path) -> None:
    with Store.open(mixed, create=True) as store:
        ended = {"finished": time.time() - 10, "started": time.time() - 100}
        with store.transaction() as connection:
            connection.execute(runs.update().values(ended))
        alone = LiveStudy(store, "live").look()
        finished = [run["key"] for run in store.runs("live") if run["status"] == "finished"]
        with store.transaction() as connection:
            listed = connection.execute(sa.text("SELECT * FROM study_runs")).mappings().all()
            other = [{**row, "study": "other"} for row in listed if row["key"] != finished[0]]
            connection.execute(study_runs.delete().where(study_runs.c.key == finished[1]))
            connection.execute(study_runs.insert(), other)
        fewer = LiveStudy(store, "live").look()
    assert alone["runs_per_hour"] == pytest.approx(3600 * 4 / 100, rel=0.05)
    assert fewer["runs_per_hour"] == pytest.approx(3600 * 3 / 100, rel=0.05)


def test_metrics_are_in_prometheus_own_form(mixed: Path) -> None:
    with Store.open(mixed) as store:
        text = exposition(LiveStudy(store, "live").look())
    lines = text.splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert len(samples) > 20
    assert all(LINE.fullmatch(line) for line in samples)
    assert 'crosswind_runs{study="live",status="finished"} 4.0' in lines
    assert 'crosswind_failed_runs{study="live",cause="disk"} 2.0' in lines
    assert 'crosswind_method_runs{study="live",method="erm",status="finished"} 4.0' in lines
    with Store.open(mixed) as store, store.transaction() as connection:
        of_fits = sa.select(sa.func.sum(runs.c.seconds), sa.func.count(runs.c.seconds))
        seconds, number = connection.execute(of_fits.where(runs.c.kind == "fit")).one()
    assert number == 8
    assert seconds > 0
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in samples}
    of_fits_labels = '{study="live",kind="fit"}'
    assert values[f"crosswind_job_seconds_sum{of_fits_labels}"] == pytest.approx(seconds)
    assert values[f"crosswind_job_seconds_count{of_fits_labels}"] == number
    assert "# TYPE crosswind_job_seconds summary" in lines


def test_seconds_of_jobs_are_those_of_the_study_that_is_looked_at(mixed: Path) -> None:
    with Store.open(mixed, create=True) as store:
        with store.transaction() as connection:
            fits = sa.select(runs.c.key, runs.c.seconds).where(runs.c.kind == "fit")
            key, seconds = connection.execute(fits.order_by(runs.c.key)).first() or ("", 0.0)
            labels = {"method": "erm", "shift": "none", "seed": 0}
            other = {"study": "other", "position": 0, "key": key, "labels": json.dumps(labels)}
            connection.execute(study_runs.insert(), [other])
            resolved = connection.execute(sa.text("SELECT * FROM studies")).mappings().one()
            connection.execute(studies.insert(), [{**resolved, "name": "other"}])
        of_other = LiveStudy(store, "other").look()["job_seconds"]
        of_live = LiveStudy(store, "live").look()["job_seconds"]
    assert of_other == {"fit": {"number": 1, "seconds": pytest.approx(seconds)}}
    assert of_live["fit"]["number"] == 8


def test_jobs_at_work_are_those_of_the_study_and_of_drivers_that_live(mixed: Path) -> None:
    with Store.open(mixed, create=True) as store:
        recorder = RunRecorder(store, Driver.current())
        recorder.enter()
        driver = recorder.driver.id
        with store.transaction() as connection:
            fits = connection.execute(sa.select(runs.c.key).where(runs.c.kind == "fit")).scalars()
            at_work, abandoned, foreign = list(fits)[:3]
            for key, name in ((at_work, driver), (abandoned, "nobody"), (foreign, driver)):
                update = runs.update().where(runs.c.key == key)
                connection.execute(update.values(status="running", driver=name))
            connection.execute(study_runs.delete().where(study_runs.c.key == foreign))
        lines = exposition(LiveStudy(store, "live").look()).splitlines()
    assert 'crosswind_jobs_running{study="live"} 1.0' in lines
    assert 'crosswind_runs{study="live",status="running"} 0.0' in lines
    assert any("pending until the network is trained" in line for line in lines)


def test_a_job_that_stands_twice_in_a_study_is_at_work_once(mixed: Path) -> None:
    with Store.open(mixed, create=True) as store:
        recorder = RunRecorder(store, Driver.current())
        recorder.enter()
        with store.transaction() as connection:
            row = connection.execute(sa.select(study_runs)).mappings().first()
            assert row is not None
            connection.execute(study_runs.insert(), [{**row, "position": 10_000}])
            at_work = runs.update().where(runs.c.key == row["key"])
            connection.execute(at_work.values(status="running", driver=recorder.driver.id))
        assert LiveStudy(store, "live").look()["jobs_running"] == 1
        recorder.leave()


def test_failed_runs_by_cause_count_every_reason(mixed: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("crosswind.live.state.FAILURES", 3)
    with Store.open(mixed, create=True) as store:
        keys = [run["key"] for run in store.runs("live")]
        with store.transaction() as connection:
            for number, key in enumerate(keys):
                failure = {"status": "failed", "reason": f"fault {'abcdefgh'[number]}", "cause": ""}
                connection.execute(runs.update().where(runs.c.key == key).values(failure))
        state = LiveStudy(store, "live").look()
    assert sum(failure["runs"] for failure in state["failures"]) < len(keys) == 8
    assert 'crosswind_failed_runs{study="live",cause=""} 8.0' in exposition(state).splitlines()


def test_every_metric_has_a_type_and_help_and_stands_once(mixed: Path) -> None:
    with Store.open(mixed) as store:
        lines = exposition(LiveStudy(store, "live").look()).splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    for name in {line.split("{")[0] for line in samples}:
        if name in ("crosswind_job_seconds_sum", "crosswind_job_seconds_count"):
            continue
        assert f"# TYPE {name} gauge" in lines
        assert any(line.startswith(f"# HELP {name} ") for line in lines)
    assert len(samples) == len({line.rpartition(" ")[0] for line in samples})


@contextmanager
def serving(out: Path) -> Iterator[LiveServer]:
    server = LiveServer(str(out), None, None)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def asked(
    server: LiveServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, bytes, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def test_who_has_no_token_or_another_name_for_this_machine_gets_nothing(mixed: Path) -> None:
    with serving(mixed) as server:
        token = f"?token={server.token}"
        for path in ("/", "/state.json", "/metrics", "/?token=", "/?token=wrong"):
            status, body, _ = asked(server, path)
            assert status == 403
            assert b"live" not in body.replace(b"alive", b"")
        assert asked(server, f"/{token}", Host="elsewhere.example:80")[0] == 403
        assert asked(server, f"/{token}")[0] == 200
        assert asked(server, "/metrics", Authorization=f"Bearer {server.token}")[0] == 200
        assert asked(server, f"/secrets{token}")[0] == 404
        status, body, headers = asked(server, f"/state.json{token}", "HEAD")
        assert (status, body) == (200, b"")
        assert int(headers["Content-Length"]) > 500
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            status, _, headers = asked(server, f"/{token}", method)
            assert status == 405
            assert headers["Allow"] == "GET, HEAD"
        assert server.server_address[0] == "127.0.0.1"


def test_looking_writes_nothing(mixed: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in mixed.rglob("*") if path.is_file()}
    with serving(mixed) as server:
        for path in ("/", "/state.json", "/metrics"):
            assert asked(server, f"{path}?token={server.token}")[0] == 200
    after = {path: path.stat().st_mtime_ns for path in mixed.rglob("*") if path.is_file()}
    assert after == before


def test_a_store_in_the_place_of_another_is_the_one_that_is_served(
    mixed: Path, store_folder: Path
) -> None:
    with serving(mixed) as server:
        assert server.state()["counts"]["failed"]
        server._looked_at = float("-inf")
        (mixed / "store.sqlite").rename(mixed / "moved.sqlite")
        with pytest.raises(StoreError, match="there is no store at"):
            server.state()
        shutil.copy(store_folder / "store.sqlite", mixed / "store.sqlite")
        assert not server.state()["counts"]["failed"]


def test_a_store_that_may_only_be_read_is_followed_from_before_its_run_begins(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and allowed(path, mode))
    monkeypatch.setattr("crosswind.live.server.FRESH_SECONDS", -1.0)
    server = LiveServer(str(mixed), None, None)
    try:
        total = server.state()["total"]
        monkeypatch.setattr(os, "access", allowed)
        with Store.open(mixed, create=True) as store:
            study = server.state()["study"]
            store.add_plan(study, {}, {}, [Job("fresh", {}, {"method": "erm", "shift": "none"})])
            monkeypatch.setattr(
                os, "access", lambda path, mode: mode != os.W_OK and allowed(path, mode)
            )
            assert server.state()["total"] != total
    finally:
        server.server_close()


def test_a_damaged_store_is_told_of_in_a_sentence_and_again_served_once_mended(mixed: Path) -> None:
    with Store.open(mixed, create=True) as store, store.transaction() as connection:
        broken = {"key": "x", "position": 0, "rule": "best-id", "set": "test", "metrics": "{"}
        connection.execute(scores.insert(), [broken])
    with serving(mixed) as server:
        for path in ("/state.json", "/metrics"):
            status, body, _ = asked(server, f"{path}?token={server.token}")
            assert status == 503
            assert b"is damaged: an entry is not JSON" in body
            assert body.count(b"\n") == 1
        with Store.open(mixed, create=True) as store, store.transaction() as connection:
            connection.execute(scores.delete().where(scores.c.key == "x"))
        assert asked(server, f"/state.json?token={server.token}")[0] == 200


def test_what_cannot_be_served_is_one_sentence(
    mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"--port: cannot listen on {port}: "):
            LiveServer(str(mixed), None, None, port)
    for words, sentence in (
        ([str(tmp_path / "nowhere")], "there is no store at "),
        ([str(mixed), "--study", "lives"], "unknown study 'lives', did you mean 'live'"),
        ([str(mixed), "--port", "99999"], "--port"),
    ):
        assert _status(["serve", *words]) == 2
        printed = capsys.readouterr()
        assert sentence in printed.err
        assert printed.err.count("\n") == 1
        assert not printed.out
    with pytest.raises(StoreError):
        LiveServer(str(mixed), None, "lives")


def test_a_token_may_be_chosen_but_not_a_weak_one(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSWIND_TOKEN", "short")
    with pytest.raises(InputError, match="CROSSWIND_TOKEN: must be at least 16 letters"):
        LiveServer(str(mixed), None, None)
    monkeypatch.setenv("CROSSWIND_TOKEN", "a-token-of-my-own-1234")
    with serving(mixed) as server:
        assert asked(server, "/metrics?token=a-token-of-my-own-1234")[0] == 200
        assert asked(server, "/metrics?token=a-token-of-my-own-1235")[0] == 403


@pytest.mark.slow
@needs_browser
def test_the_page_follows_a_run_in_a_browser(tmp_path: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    study = {**STUDY, "seeds": 6, "training": {**STUDY["training"], "steps": 60}}
    file, out = tmp_path / "study.yaml", tmp_path / "out"
    file.write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")
    with Store.open(out, create=True) as store:
        from crosswind.studies.plan import plan_of

        plan = plan_of(str(file))
        store.add_plan("live", study, plan.study.model_dump(), plan.jobs)
    program = [sys.executable, "-c", "from crosswind.cli.main import main; main()"]
    serve = subprocess.Popen(
        [*program, "serve", str(out)], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert serve.stdout is not None
    address = serve.stdout.readline().split()[0]
    run = None
    try:
        with sync_playwright() as play:
            chromium = play.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
            page = chromium.new_context(
                viewport={"width": 390, "height": 900}, color_scheme="dark", bypass_csp=True
            ).new_page()
            page.set_default_timeout(120_000)
            messages: list[str] = []
            page.on("console", lambda message: messages.append(message.text))
            page.on("pageerror", lambda error: messages.append(str(error)))
            page.goto(address)
            page.wait_for_function("document.title.startsWith('0/24')")
            assert page.locator("#unfinished").is_visible()
            command = [*program, "run", str(file), "--out", str(out), "--workers", "1"]
            run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            seen = "const n = parseInt(document.title); return n > 0 && n < 24;"
            page.wait_for_function(f"(() => {{ {seen} }})()")
            assert "at work" in page.locator("#workers").inner_text()
            page.wait_for_function("document.title.startsWith('24/24')")
            page.wait_for_function("document.querySelectorAll('#curves li').length === 6")
            assert page.locator("#summary").inner_text().startswith("24 of 24 runs done")
            assert page.locator("#unfinished").is_hidden()
            cells = page.locator("#heat-accuracy tbody td").all_inner_texts()
            assert len(cells) == 4
            assert all(cell.endswith("(6)") for cell in cells)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            assert run.wait(60) == 0
            # More seeds, each of whose runs is ended by the limit: failures appear on the same page.
            more = ["--set", "seeds=7", "--set", "time_limit=0.0001"]
            run = subprocess.Popen(
                [*command, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            page.wait_for_function(
                "document.getElementById('summary').textContent.includes('4 failed')"
            )
            (row,) = page.locator("#failures tbody tr").all_inner_texts()
            assert row.startswith("4")
            assert "time limit" in row
            assert page.locator("#no-failures").is_hidden()
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            assert messages == []
            violations = Axe().run(page).response["violations"]
            assert [(rule["id"], rule["nodes"][0]["html"][:100]) for rule in violations] == []
            chromium.close()
        assert run.wait(60) == 1  # some runs failed
    finally:
        if run is not None and run.poll() is None:
            run.kill()
        serve.send_signal(signal.SIGINT)
        assert serve.wait(20) == 0
        serve.stdout.close()
