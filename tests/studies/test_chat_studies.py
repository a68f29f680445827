"""A model behind an endpoint in a study: asked once for all shifts, killed and gone on with,
foreseen, and silent of its key."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.models.chat_server import MODEL, SECRET, ChatServer, error, gives, hangs_up, reply

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.execution.endpoint_costs import foreseen
from crosswind.execution.jobs import GIVEN
from crosswind.models import form
from crosswind.models.language import chat_client
from crosswind.storage.predictions_file import run_predictions
from crosswind.storage.store import Store
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

GPT = {
    "model": "chat-api",
    "name": MODEL,
    "prompt": "Which digit is it, {labels}?",
    "max_tokens": 5,
    "image_tokens": 20,
}
STUDY: dict[str, Any] = {
    "name": "asked",
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink", "size"],
            "roles": {"test": 1},
        }
    },
    "shifts": {
        "none": [],
        "sc": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2},
        "ud": {"type": "unseen-data", "attribute": "ink", "unseen": "blue"},
    },
    "sets": {"test": {"role": "test"}},
    "selection": ["last"],
    "models": {"gpt": GPT},
    "seeds": 2,
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with ChatServer(lambda content: "I see the digit 3.") as chat_server:
        monkeypatch.setenv("OPENAI_BASE_URL", chat_server.url)
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        monkeypatch.setenv("CROSSWIND_ANSWERS", str(tmp_path / "answers"))
        monkeypatch.setattr(chat_client, "FIRST_WAIT", 0.01)
        yield chat_server
        chat_server.shutdown()


def command(*words: str) -> list[str]:
    return [sys.executable, "-c", "from crosswind.cli.main import main; main()", *words]


def written(tmp_path: Path, **changes: Any) -> str:
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({**STUDY, **changes}), encoding="utf-8")
    return str(tmp_path / "study.yaml")


@pytest.mark.slow
def test_a_set_is_asked_once_for_all_shifts_and_seeds_and_the_plan_knew_it(
    tmp_path: Path, server: ChatServer
) -> None:
    priced = {**GPT, "input_price": 2.5, "output_price": 10.0}
    plan = make_plan(study_from({**STUDY, "models": {"gpt": priced}}))
    assert len(plan.runs) == 6
    assert len({job.key for job in plan.jobs if job.kind == "predict"}) == 1
    before = foreseen(plan)["gpt"]
    assert not server.asked
    assert server.lists == 0
    study_results = cw.run_study({**STUDY, "models": {"gpt": priced}}, tmp_path / "out")
    with Store.open(tmp_path / "out") as store:
        predictions = run_predictions(store, next(row["key"] for row in store.results("asked")))[
            GIVEN
        ]["test"]
    assert len(server.asked) == before["requests"] == len(predictions) > 20
    assert before["answered"] == 0
    tokens = len(predictions) * (
        20 + -(-len("Which digit is it, 0, 1, 2, 3, 4, 5, 6, 7, 8, or 9?") // 4)
    )
    assert (before["input_tokens"], before["output_tokens"]) == (
        tokens,
        5 * len(predictions),
    )
    assert not before["measured"]
    assert before["price"] == pytest.approx((2.5 * tokens + 10 * 5 * len(predictions)) / 1e6)
    accuracies = {row["metrics"]["accuracy"] for row in study_results.rows if row["set"] == "test"}
    assert (predictions.answer == 3).all()
    assert accuracies == {float((predictions.label == 3).mean())}
    after = foreseen(make_plan(study_from(STUDY)))["gpt"]
    assert after["answered"] == after["requests"] == before["requests"]
    assert after["input_tokens"] == 0
    assert after["measured"]
    again = foreseen(
        make_plan(study_from({**STUDY, "models": {"gpt": {**GPT, "temperature": 0.0}}}))
    )["gpt"]
    assert again["answered"] == 0
    assert not again["measured"]
    assert again["price"] is None
    cw.run_study(
        {**STUDY, "models": {"gpt": {**GPT, "parallel": 2, "timeout": 9.0}}}, tmp_path / "elsewhere"
    )
    assert len(server.asked) == len(predictions)


def test_how_it_is_asked_is_no_part_of_a_job(tmp_path: Path, server: ChatServer) -> None:
    def key(**changes: Any) -> str:
        return make_plan(study_from({**STUDY, "models": {"gpt": {**GPT, **changes}}})).jobs[0].key

    apart = {
        "parallel": 3,
        "tries": 2,
        "timeout": 5.0,
        "most_tokens": 9,
        "budget": "b",
        "input_price": 1.0,
        "output_price": 1.0,
    }
    apart |= {
        "served_name": "x",
        "url_variable": "A",
        "key_variable": "B",
        "image_tokens": 3,
        "reply_bytes": 5_000,
        "max_tokens_field": "max_completion_tokens",
    }
    from crosswind.models.language.chat_api import ChatApi

    assert set(apart) == set(ChatApi.built.apart)
    assert {key(**{name: value}) for name, value in apart.items()} == {key()}
    changed_knobs = {
        "name": "other",
        "prompt": "Is it {labels}?",
        "detail": "low",
        "temperature": 0.0,
        "top_p": 0.9,
        "max_tokens": 6,
        "seed": 3,
    }
    changed_knobs |= {"serving": "4-bit", "names": {"3": "three"}}
    assert len(
        {key(**{name: value}) for name, value in changed_knobs.items()} | {key()}
    ) == 1 + len(changed_knobs)


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_study_that_is_killed_asks_no_answered_image_again(
    tmp_path: Path, server: ChatServer
) -> None:
    study, parallel, first = written(tmp_path, models={"gpt": {**GPT, "parallel": 4}}), 4, 12
    server.hold_from = first
    # One job asks for all runs, so a second worker would have nothing to do.
    words = ["run", study, "--out", str(tmp_path / "out"), "--workers", "1"]
    process = subprocess.Popen(
        command(*words),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        answers, until = tmp_path / "answers" / "answers.sqlite", time.monotonic() + 600
        n_answers = 0
        while (
            (n_answers < first or len(server.asked) < first + parallel)
            and process.poll() is None
            and time.monotonic() < until
        ):
            time.sleep(0.05)
            if answers.exists() and server.answered.total() == first:
                with sqlite3.connect(f"file:{answers}?mode=ro", uri=True) as connection:
                    n_answers = connection.execute("SELECT count(*) FROM answers").fetchone()[0]
                connection.close()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert n_answers == first
    assert server.answered.total() == first
    assert len(server.asked) == first + parallel
    answered = set(server.answered)
    time.sleep(0.2)
    server.hold_from = None
    assert _status(words) == 0
    pictures_asked = [json.dumps(body["messages"][0]["content"]) for body in server.asked]
    counts = {question: pictures_asked.count(question) for question in pictures_asked}
    assert {
        question for question, number in counts.items() if number == 1
    } >= answered  # the server counts
    assert (
        sum(number - 1 for number in counts.values()) == parallel
    )  # those in flight at the kill, once more
    with Store.open(tmp_path / "out") as store:
        predictions = run_predictions(store, next(row["key"] for row in store.results("asked")))[
            GIVEN
        ]["test"]
    assert len(predictions) == len(counts)
    assert (predictions.answer == 3).all()


@pytest.mark.slow
def test_the_key_is_in_nothing_that_is_written(tmp_path: Path, server: ChatServer) -> None:
    """Not with the client's own log, not where the server says it in its answers, its errors and
    its headers."""
    server.says = lambda content: f"{SECRET} is no digit"
    server.script = [error(500), hangs_up, error(429, Retry_After="0")]
    log = "import logging; logging.basicConfig(level=logging.DEBUG, filename={!r}); ".format(
        str(tmp_path / "log")
    )
    run = [sys.executable, "-c", log + "from crosswind.cli.main import main; main()"]
    environment = {**os.environ, "OPENAI_LOG": "debug"}
    texts: list[bytes] = []

    def done(*words: str) -> int:
        completed = subprocess.run(
            [*run, *words], capture_output=True, env=environment, check=False
        )
        texts.extend([completed.stdout, completed.stderr])
        return completed.returncode

    out = str(tmp_path / "out")
    assert done("run", written(tmp_path), "--out", out, "--workers", "1", "--json") == 0
    assert done("report", out) == 0
    server.script = [*[error(500)] * len(server.asked), error(401, "Incorrect API key provided:")]
    failing = written(tmp_path, models={"gpt": {**GPT, "serving": "b"}})
    assert done("run", failing, "--out", out, "--workers", "1", "--set", "name=failing") == 1
    with Store.open(tmp_path / "out") as store:
        texts.append(repr([store.run(key["key"]) for key in store.results("asked")]).encode())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert any(path.name == "answers.jsonl" for path in files)
    texts += [path.read_bytes() for path in files]
    assert any(b"[key] is no digit" in text for text in texts)
    assert any(b"Incorrect API key provided: [key]" in text for text in texts)
    assert any(b"Request options" in text for text in texts), "the client wrote its log"
    for form_of in (SECRET.encode(), SECRET.encode("utf-16-le")):
        assert not [text[:200] for text in texts if form_of in text]


@pytest.mark.slow
def test_a_limit_stops_a_study_and_a_higher_one_goes_on(tmp_path: Path, server: ChatServer) -> None:
    limited = {**STUDY, "models": {"gpt": {**GPT, "parallel": 1, "most_tokens": 420}}}
    study_results = cw.run_study(limited, tmp_path / "out")
    before = len(server.asked)
    with Store.open(tmp_path / "out") as store:
        reasons = {
            store.run(job.key)["reason"]
            for job in make_plan(study_from(limited)).jobs
            if job.kind == "predict"
        }
    (reason,) = reasons
    assert study_results.summary.failed
    assert 9 <= before <= 10
    assert reason.startswith(f"{before} of ")
    assert "the limit of 420 tokens is reached" in reason
    assert "--retry-failed" in reason
    again = cw.run_study(
        {**STUDY, "models": {"gpt": {**GPT, "most_tokens": 10**6}}},
        tmp_path / "out",
        retry_failed=True,
    )
    messages_asked = [json.dumps(body["messages"]) for body in server.asked]
    assert not again.summary.failed
    assert len(messages_asked) == len(set(messages_asked)) > before


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert _status(words) == 2
    of_the_plan = ("warning: digits, sc", "warning: models.gpt: what answers at its endpoint")
    lines = [
        line
        for line in capsys.readouterr().err.strip().splitlines()
        if not line.startswith(of_the_plan)
    ]
    assert len(lines) == 1, lines
    return lines[0]


def test_what_is_missing_is_said_before_anything_is_written(
    tmp_path: Path,
    server: ChatServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["run", written(tmp_path), "--out", str(tmp_path / "out"), "--workers", "1"]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-1234")
    assert "OPENAI_API_KEY: 127.0.0.1:" in refused(words, capsys)
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "OPENAI_API_KEY: is not set" in refused(words, capsys)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert "OPENAI_BASE_URL: 127.0.0.1:9 cannot be reached" in refused(words, capsys)
    monkeypatch.setattr(form, "find_spec", lambda name: None)
    assert "pip install 'crosswind[chat]'" in refused(words, capsys)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "answers").exists()
    assert not server.asked


def test_plan_tells_requests_and_price(
    tmp_path: Path, server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    study = written(tmp_path, models={"gpt": {**GPT, "input_price": 1000.0, "output_price": 0.0}})
    assert _status(["plan", study]) == 0
    line = next(
        line for line in capsys.readouterr().out.splitlines() if line.startswith("model gpt: ")
    )
    number = int(line.split()[2])
    cost = f"{number * 33 * 1000 / 1e6:,.2f}"
    assert (
        line == f"model gpt: {number} requests, 0 of them answered already; the others take about"
        f" {number * 33:,} input tokens and at most {number * 5:,} output tokens, which cost"
        f" {cost}"
    )
    assert _status(["plan", study, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["asked"]["gpt"]["requests"] == number
    assert not server.asked
    assert not (tmp_path / "answers").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_broken_reply_is_one_row_of_a_run_and_told_with_host_and_row(
    tmp_path: Path, server: ChatServer, capsys: Any
) -> None:
    """It failed the run, was asked for again at every --retry-failed, and paid for each time."""
    study, out = (
        written(tmp_path, models={"gpt": {**GPT, "parallel": 1}}, shifts={"none": []}, seeds=1),
        str(tmp_path / "out"),
    )
    good, nested = gives(200, reply("I see the digit 3.")), gives(200, b"[" * 5_000)
    server.script = [good, gives(200, reply("\ud800 3")), good, nested]
    assert _status(["run", study, "--out", out, "--workers", "1"]) == 0
    requests = len(server.asked)
    host = server.url.split("/")[2]
    capsys.readouterr()
    assert _status(["report", out]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        f"{host} sent an answer with half a character in it for 1 of {requests} rows, id " in shown
    )
    assert f"{host} sent a reply that is nested too deeply for 1 of {requests} rows, id " in shown
    with Store.open(out) as store:
        row = next(iter(store.results("asked")))
        predictions = run_predictions(store, row["key"])[GIVEN]["test"]
    assert sorted(predictions.answer.tolist())[:3] == [-1, -1, 3]
    assert len(row["metrics"]["doubts"]) == 2
    assert _status(["run", study, "--out", out, "--workers", "1", "--retry-failed"]) == 0
    assert _status(["run", study, "--out", str(tmp_path / "again"), "--workers", "1"]) == 0
    assert len(server.asked) == requests
    capsys.readouterr()
