"""The model `chat-api` asks a server that misbehaves in every way, pays once, keeps to its limit,
and tells nobody its key."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.models.chat_server import MODEL, SECRET, ChatServer, error, gives, hangs_up, reply, slow

import crosswind as cw
from crosswind.core.errors import DataError, InputError
from crosswind.models.language import chat_client
from crosswind.models.language.chat_api import ChatApi
from crosswind.models.language.chat_cache import AnswerCache, cache_file

CLASSES = ("no", "yes")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with ChatServer() as raised:
        monkeypatch.setenv("OPENAI_BASE_URL", raised.url)
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        monkeypatch.setenv("CROSSWIND_ANSWERS", str(tmp_path / "answers"))
        monkeypatch.setattr(chat_client, "FIRST_WAIT", 0.01)
        yield raised
        raised.shutdown()


def pictures(n: int, *, equal: bool = False) -> cw.AttributedDataset:
    images = np.random.default_rng(0).integers(0, 256, (1 if equal else n, 8, 6, 3), dtype=np.uint8)
    frame = {"label": [CLASSES[i % 2] for i in range(n)]}
    return cw.from_frame(frame, np.repeat(images, n, axis=0) if equal else images)


def texts(said: list[str]) -> Any:
    from crosswind.core.types import InputSpec
    from crosswind.data.attributes import Attribute, AttributeTable

    table = AttributeTable(
        (Attribute("label", CLASSES),), np.arange(len(said), dtype=np.uint8)[None] % 2
    )
    return cw.AttributedDataset(
        "said",
        table,
        lambda rows: np.array(said, dtype=object)[rows],
        InputSpec.text(),
        fingerprint="said",
    )


def said(dataset: Any, n: int | None = None, **knobs: Any) -> list[str]:
    rows: Any = SimpleNamespace(rows=np.arange(dataset.n_base if n is None else n))
    codes, logits, texts = ChatApi(name=MODEL, **knobs).answer(rows, dataset, CLASSES)
    assert logits is None and [int(code) for code in codes] == [
        CLASSES.index(text) if text in CLASSES else -1 for text in texts
    ]
    return list(texts)


def spent(budget: str = MODEL) -> int:
    with AnswerCache(cache_file()) as cache:
        return cache.spent(budget)


@pytest.mark.slow
def test_an_image_arrives_without_loss_beside_the_prompt_and_the_settings_of_table_9(
    server: ChatServer,
) -> None:
    data = pictures(3)
    assert said(data, prompt="One of {labels}?", detail="low", max_tokens=7) == ["yes"] * 3
    assert len(server.asked) == 3 and server.keys == {f"Bearer {SECRET}"}
    pictures_seen = []
    for body in server.asked:
        (message,) = body.pop("messages")
        assert message["role"] == "user" and message["content"][0] == {
            "type": "text",
            "text": "One of no or yes?",
        }
        image = message["content"][1]["image_url"]
        assert image["detail"] == "low" and image["url"].startswith("data:image/png;base64,")
        pictures_seen.append(
            np.asarray(Image.open(io.BytesIO(base64.b64decode(image["url"].partition(",")[2]))))
        )
        assert isinstance(body.pop("seed"), int)
        assert body == {"model": MODEL, "temperature": 1.0, "top_p": 1.0, "max_tokens": 7}
    pictures_given = data.inputs(np.arange(3))
    assert all(
        any(np.array_equal(picture, image) for image in pictures_seen) for picture in pictures_given
    )


def test_settings_that_an_endpoint_refuses_can_be_left_out(server: ChatServer) -> None:
    said(
        pictures(1),
        temperature=None,
        top_p=None,
        seed=None,
        max_tokens_field="max_completion_tokens",
    )
    (body,) = server.asked
    assert set(body) == {"model", "messages", "max_completion_tokens"}


def test_texts_stand_in_the_prompt_and_parts_on_lines_of_their_own(server: ChatServer) -> None:
    said(texts(["a fine day", "rain {labels}", "one\x1ftwo"]), prompt="{list}: {text}", parallel=1)
    said(texts(["a fine day"]), prompt="Is it {labels}?")
    prompts_asked = [
        "no, yes: a fine day",
        "no, yes: rain {labels}",
        "no, yes: one\ntwo",
        "Is it no or yes?\n\na fine day",
    ]
    assert [body["messages"][0]["content"] for body in server.asked] == prompts_asked


@pytest.mark.slow
def test_equal_questions_are_asked_once_and_answers_are_kept_for_all_that_ask_alike(
    server: ChatServer,
) -> None:
    assert said(pictures(6, equal=True)) == ["yes"] * 6 and len(server.asked) == 1
    many_pictures = pictures(40)
    server.says = lambda content: time.sleep(0.02) or "yes"  # type: ignore[func-returns-value]
    said(many_pictures, 30, parallel=4)
    assert (
        len(server.asked) == 30 and 1 < server.most_together <= 4
    )  # the first picture is that of before
    said(many_pictures)
    assert len(server.asked) == 40 and spent() == 40 * 42
    said(many_pictures, parallel=1, tries=1, serving="")
    assert len(server.asked) == 40
    changes = [
        {"prompt": "Is it {labels}?"},
        {"temperature": 0.0},
        {"top_p": 0.5},
        {"max_tokens": 3},
        {"seed": 1},
        {"detail": "low"},
        {"serving": "b"},
    ]
    for number, change in enumerate(changes):
        said(many_pictures, 1, **change)
        assert len(server.asked) == 41 + number, change


def test_what_is_all_kept_needs_neither_key_nor_server(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(pictures(2))
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv(
        "OPENAI_BASE_URL", "http://127.0.0.1:9/v1"
    )  # the same model served elsewhere is the same model
    assert said(pictures(2)) == ["yes"] * 2
    with pytest.raises(
        InputError,
        match=r"^OPENAI_API_KEY: is not set: set it to the key .*OPENAI_BASE_URL is its address$",
    ):
        said(pictures(3))


PASSING: dict[str, Callable[[Any], None]] = {
    "429": error(429),
    "500": error(500),
    "503": error(503),
    "408": error(408),
    "slow": slow(1.0),
    "hung up": hangs_up,
    "cut": gives(200, b'{"choices": [', cut=50),
    "bad JSON": gives(200, b'{"choices": ['),
    "no JSON": gives(200, b"<html>busy</html>", {"Content-Type": "text/html"}),
    "null": gives(200, None),
    "no choices": gives(200, {"model": MODEL, "choices": []}),
    "choices null": gives(200, {"model": MODEL, "choices": None}),
    "no message": gives(200, {"model": MODEL, "choices": [{}]}),
    "content a number": gives(200, reply(3)),
}


@pytest.mark.parametrize("way", PASSING)
def test_what_passes_is_tried_again(server: ChatServer, way: str) -> None:
    server.script = [PASSING[way]]
    assert said(pictures(1), timeout=0.3) == ["yes"]
    assert len(server.asked) == 2


def test_all_ways_were_tried() -> None:
    assert len(PASSING) == 14


FAILING: dict[str, tuple[Callable[[Any], None], str]] = {
    "wrong key": (
        error(401, "Incorrect API key"),
        r"refuses the key or its rights \(401: .*\); set OPENAI_API_KEY",
    ),
    "no rights": (error(403), r"refuses the key or its rights \(403: .*\); set OPENAI_API_KEY"),
    "wrong model": (
        error(404),
        (
            r"has no model 'gpt-local' at this address \(404: .*\); set the knob `name`, or"
            r" OPENAI_BASE_URL"
        ),
    ),
    "bad request": (
        error(400, "seed is not supported"),
        r"refuses the request \(400: .*seed is not supported",
    ),
    "no quota": (
        error(429, code="insufficient_quota"),
        r"the account has no tokens left .*--retry-failed",
    ),
    "next day": (
        error(429, Retry_After="86400"),
        r"asks to wait 86,400 seconds before the next request; do so",
    ),
    "other model": (
        gives(200, reply("yes", model="gpt-other")),
        r"asked for the model 'gpt-local', .* answered as 'gpt-other'",
    ),
    "near model": (
        gives(200, reply("yes", model="gpt-local-mini")),
        r"answered as 'gpt-local-mini'.*`served_name`",
    ),
}


@pytest.mark.parametrize("way", FAILING)
def test_what_does_not_pass_fails_at_once_in_one_sentence(server: ChatServer, way: str) -> None:
    step, sentence = FAILING[way]
    server.script = [step]
    with pytest.raises(DataError, match=rf"^0 of 1 rows are answered: .*{sentence}") as raised:
        said(pictures(1))
    assert (
        len(server.asked) == 1 and SECRET not in str(raised.value) and "\n" not in str(raised.value)
    )


@pytest.mark.parametrize(
    "name", [MODEL, f"{MODEL}-2024-08-06", f"{MODEL}-0125", "", None, "ours/local"]
)
def test_a_dated_version_and_a_name_that_is_given_are_the_model(
    server: ChatServer, name: str | None
) -> None:
    server.script = [gives(200, reply("yes", model=name))]
    assert said(pictures(1), served_name="ours/local") == ["yes"]


def test_answers_of_several_forms_are_read(server: ChatServer) -> None:
    content_parts = [{"type": "text", "text": "ye"}, {"type": "text", "text": "s"}]
    forms = [
        reply(content_parts),
        reply(None, refusal="I cannot help with that."),
        reply(None),
        reply(""),
        reply([]),
    ]
    server.script = [gives(200, form) for form in forms]
    assert said(pictures(5), parallel=1) == ["yes", "I cannot help with that.", "", "", ""]
    assert said(pictures(5)) and len(server.asked) == 5  # a refusal is an answer, and is kept


def test_what_a_filter_stops_is_a_refusal_of_that_row(server: ChatServer) -> None:
    server.script = [error(400, code="content_filter"), error(400, code="content_policy_violation")]
    assert (
        said(pictures(3), parallel=1) == ["[content_filter]", "[content_policy_violation]", "yes"]
        and spent() == 42
    )


def test_a_word_in_the_place_of_a_key_is_left_in_answers(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "yes")
    assert said(pictures(1)) == ["yes"]


@pytest.mark.parametrize("knob", ["key_variable", "url_variable"])
def test_a_key_in_the_place_of_its_variable_is_refused_without_being_shown(
    server: ChatServer, knob: str
) -> None:
    with pytest.raises(InputError, match=f"^{knob}: must be the name of a variable") as raised:
        ChatApi(name=MODEL, **{knob: SECRET}).ready()
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_server_that_says_when_is_waited_for(server: ChatServer, form: str) -> None:
    server.script = [
        error(
            429, Retry_After="1" if form == "seconds" else formatdate(time.time() + 2, usegmt=True)
        )
    ]
    start = time.monotonic()
    assert said(pictures(1)) == ["yes"]
    assert time.monotonic() - start >= 0.9 and len(server.asked) == 2


def test_waits_grow_and_differ(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_client, "FIRST_WAIT", 1.0)
    asker = chat_client.Asker(chat_client.Endpoint(server.url, SECRET), None, None, MODEL)  # type: ignore[arg-type]
    bounds = [(asker._seconds(attempt, None), 2.0**attempt) for attempt in range(6)]
    assert (
        all(high / 2 <= seconds <= high for seconds, high in bounds)
        and asker._seconds(20, None) <= 60.0
    )
    assert (
        len({asker._seconds(3, None) for _ in range(5)}) == 5 and 3.0 < asker._seconds(0, 3.0) < 3.2
    )


def test_when_tries_end_what_was_answered_is_kept(server: ChatServer) -> None:
    data = pictures(8)
    server.script = [gives(200, reply("yes"))] * 3 + [error(500)] * 4
    with pytest.raises(
        DataError,
        match=r"^3 of 8 rows are answered: 127.0.0.1:\d+ did not answer in 4 tries, .*status 500",
    ) as raised:
        said(data, parallel=1, tries=4)
    assert len(server.asked) == 7 and SECRET not in str(raised.value)
    assert said(data, parallel=1) == ["yes"] * 8 and len(server.asked) == 12


def test_a_limit_of_tokens_stops_before_it_is_passed_and_loses_nothing(server: ChatServer) -> None:
    data, knobs = (
        pictures(10),
        {"parallel": 1, "max_tokens": 10, "image_tokens": 40, "prompt": "a yes or no"},
    )
    with pytest.raises(
        DataError,
        match=(
            r"^4 of 10 rows are answered: the limit of 200 tokens is reached: budget 'gpt-local'"
            r" has spent 168 "
        ),
    ) as raised:
        said(data, most_tokens=200, **knobs)
    assert "raise most_tokens" in str(raised.value) and len(server.asked) == 4 and spent() == 168
    with pytest.raises(DataError, match=r"^4 of 10 rows"):
        said(data, most_tokens=200, **knobs)
    assert len(server.asked) == 4
    assert (
        said(data, most_tokens=1000, **knobs) == ["yes"] * 10
        and len(server.asked) == 10
        and spent() == 420
    )
    assert said(pictures(12), budget="new", most_tokens=2 * 53, **knobs) and spent("new") == 84


def test_failed_requests_are_not_charged_and_those_that_may_have_been_answered_are(
    server: ChatServer,
) -> None:
    server.script = [error(500), error(429)]
    said(pictures(1))
    assert spent() == 42
    server.script = [slow(0.6)] * 4
    said(pictures(2), timeout=0.3, image_tokens=10, max_tokens=5, prompt="one or two?")
    assert spent() > 42 + 42 + 16


def test_a_server_that_does_not_tell_tokens_is_charged_as_estimated(server: ChatServer) -> None:
    server.usage = None
    said(pictures(1), prompt="no yes", image_tokens=30)
    assert spent() == 2 + 30 + 1


def test_several_processes_share_the_file(server: ChatServer) -> None:
    with AnswerCache(cache_file()) as first_cache, AnswerCache(cache_file()) as two:
        assert (
            first_cache.reserve("b", 60, 100)
            and not two.reserve("b", 50, 100)
            and two.reserve("b", 40, 100)
            and first_cache.spent("b") == 100
        )


@pytest.mark.slow
def test_processes_that_come_to_one_row_together_ask_once(
    server: ChatServer, tmp_path: Path
) -> None:
    server.says = lambda content: time.sleep(0.3) or "yes"  # type: ignore[func-returns-value]
    code = (
        "from types import SimpleNamespace; import numpy as np; import crosswind as cw\nfrom"
        " crosswind.models.language.chat_api import ChatApi\nimport openai, sys, pathlib, time\nimages ="
        " np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)\ndata ="
        " cw.from_frame({'label': ['no', 'yes'] * 3},"
        " images)\npathlib.Path(sys.argv[1]).touch()\nwhile not all(pathlib.Path(name).exists()"
        f" for name in sys.argv[2:]): time.sleep(0.01)\nChatApi(name={MODEL!r},"
        " parallel=2).answer(SimpleNamespace(rows=np.arange(6)), data, ('no', 'yes'))\n"
    )
    flags = [str(tmp_path / name) for name in ("a", "b")]
    processes = [
        subprocess.Popen([sys.executable, "-c", code, flag, *flags], cwd=tmp_path) for flag in flags
    ]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert len(server.asked) == 6


def test_a_file_of_answers_that_cannot_be_used_is_said(server: ChatServer, tmp_path: Path) -> None:
    (tmp_path / "answers").write_text("no folder")
    with pytest.raises(
        DataError,
        match="^the file of answers .* cannot be used .*CROSSWIND_ANSWERS names its folder$",
    ):
        said(pictures(1))


BAD_ADDRESSES = [
    "ftp://host/v1",
    "host",
    "http://",
    "http://me:word@host/v1",
    "http://host:99999/v1",
    "http://[::1/v1",
]


@pytest.mark.parametrize("url", BAD_ADDRESSES)
def test_a_bad_address_is_refused_without_being_shown(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(InputError, match="^OPENAI_BASE_URL: must be an address such as"):
        said(pictures(1))


@pytest.mark.parametrize("key", ["", "  ", "a b", "a\nb", "schlüssel"])
def test_a_key_that_is_none_is_refused_without_being_shown(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(
        InputError, match="^OPENAI_API_KEY: (is not set|holds characters)"
    ) as raised:
        said(pictures(1))
    assert not key.strip() or key not in str(raised.value)


def test_variables_may_have_other_names(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS_URL", server.url)
    monkeypatch.setenv("OURS_KEY", SECRET)
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert said(pictures(1), url_variable="OURS_URL", key_variable="OURS_KEY") == ["yes"]


def test_readiness_is_told_before_anything_is_asked(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ChatApi(name=MODEL).ready()
    assert server.lists == 1 and not server.asked
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-1234")
    with pytest.raises(
        InputError, match=r"^OPENAI_API_KEY: 127.0.0.1:\d+ refuses the key"
    ) as raised:
        ChatApi(name=MODEL).ready()
    assert "sk-wrong" not in str(raised.value)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(InputError, match="^OPENAI_BASE_URL: 127.0.0.1:9 cannot be reached"):
        ChatApi(name=MODEL).ready()
    assert not cache_file().exists()


def test_features_are_refused(server: ChatServer) -> None:
    from crosswind.core.types import InputSpec

    table = pictures(2).table
    data = cw.AttributedDataset(
        "f",
        table,
        lambda rows: np.zeros((len(rows), 3), np.float32),
        InputSpec.features(3),
        fingerprint="f",
    )
    with pytest.raises(
        DataError,
        match="^chat-api takes images or texts, and the inputs of 'f' are features of 3 numbers$",
    ):
        said(data)
    assert not server.asked


def test_the_command_tells_how_many_rows_are_answered(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """About a set that takes hours; where there is no terminal by a line at most every half
    minute."""
    from crosswind.cli import run as command
    from crosswind.execution.scheduler import Progress

    clock = iter([0.0, 1.0, 40.0, 40.0, 41.0, 80.0, 80.0])
    monkeypatch.setattr(command.time, "monotonic", lambda: next(clock))
    tell = command._teller("study", None)
    for done in (1000, 2000, 3000, 4000):
        tell(Progress(0, 1, 0, 2, None, "runs", "key", {"rows": done, "of": 42_791}))
    assert capsys.readouterr().err.splitlines() == [
        f"study: 0 of 2 runs done, 1 running, 0 failed; {rows} of 42,791 rows are answered"
        for rows in ("2,000", "4,000")
    ]
