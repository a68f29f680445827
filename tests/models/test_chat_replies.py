"""Replies that are hostile or broken: each is one row's refusal, kept, bounded in bytes and
seconds, and told with its host."""

from __future__ import annotations

import gzip
import json
import re
import socket
import sqlite3
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.models.chat_server import MODEL, SECRET, ChatServer, error, gives, reply
from tests.models.test_chat_api import pictures, spent, texts

from crosswind.core.errors import DataError, InputError
from crosswind.models.given.outside import hearing_doubts
from crosswind.models.language import chat_client
from crosswind.models.language.chat_api import ChatApi
from crosswind.models.language.chat_cache import cache_file

Step = Callable[[Any], None]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with ChatServer() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        monkeypatch.setenv("CROSSWIND_ANSWERS", str(tmp_path / "answers"))
        monkeypatch.setattr(chat_client, "FIRST_WAIT", 0.01)
        yield running
        running.shutdown()


def asked(rows: int, **knobs: Any) -> tuple[list[int], list[str], list[str]]:
    """Classes, texts and doubts of so many pictures, asked one after the other."""
    row_set: Any = SimpleNamespace(rows=np.arange(rows))
    with hearing_doubts() as doubts:
        codes, _, texts_said = ChatApi(name=MODEL, **{"parallel": 1, **knobs}).answer(
            row_set, pictures(rows), ("no", "yes")
        )  # type: ignore[misc]
    return codes.tolist(), list(texts_said), doubts


def packed(body: bytes, packing: str, **headers: str) -> Step:
    return gives(200, body, {"Content-Encoding": packing, **headers})


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def twice(name: str, first: Any, second: Any) -> bytes:
    return f'{{"model": "{MODEL}", "{name}": {json.dumps(first)}, "{name}": {json.dumps(second)}}}'.encode()


def content(value: Any) -> Step:
    return gives(200, reply(value))


FINAL: dict[str, tuple[Step, str]] = {
    "half a character": (content("\ud800 yes"), "an answer with half a character in it"),
    "the other half": (content("yes \udfff"), "an answer with half a character in it"),
    "halves in the wrong order": (content("\udc00\ud800"), "an answer with half a character in it"),
    "half in a part": (
        content([{"type": "text", "text": "yes\ud83d"}]),
        "an answer with half a character in it",
    ),
    "half in a refusal": (
        gives(200, reply(None, refusal="\udcff")),
        "an answer with half a character in it",
    ),
    "half as bytes": (
        gives(200, json.dumps(reply("X")).encode().replace(b"X", b"\xed\xa0\x80")),
        "an answer with half a",
    ),
    "nested lists": (gives(200, nested(100_000)), "a reply that is nested too deeply"),
    "nested objects": (
        gives(200, b'{"a":' * 20_000 + b"1" + b"}" * 20_000),
        "a reply that is nested too deeply",
    ),
    "nested content": (
        gives(200, json.dumps(reply("X")).encode().replace(b'"X"', nested(20_000))),
        "nested too deeply",
    ),
    "nested, never closed": (gives(200, b"[" * 90_000), "nested too deeply"),
    "nested beside an answer": (
        gives(200, json.dumps(reply("yes"))[:-1].encode() + b', "x": ' + nested(9_000) + b"}"),
        "nested",
    ),
    "large": (content("yes " * 60_000), "a reply of more than 200,000 bytes"),
    "large in another field": (
        gives(200, {**reply("yes"), "logprobs": "x" * 300_000}),
        "a reply of more than 200,000 bytes",
    ),
    "large white space": (
        gives(200, b" " * 300_000 + json.dumps(reply("yes")).encode()),
        "a reply of more than 200,000 bytes",
    ),
    "gzip bomb": (
        packed(gzip.compress(bytes(9_000_000)), "gzip"),
        "a reply of more than 200,000 bytes",
    ),
    "gzip bomb of members": (
        packed(gzip.compress(bytes(150_000)) * 60, "x-gzip"),
        "a reply of more than 200,000 bytes",
    ),
    "deflate bomb": (
        packed(zlib.compress(bytes(9_000_000)), "deflate"),
        "a reply of more than 200,000 bytes",
    ),
    "bomb of an answer": (
        packed(gzip.compress(json.dumps(reply("yes " * 900_000)).encode()), "GZIP"),
        "more than 200,000 bytes",
    ),
}

AGAIN: dict[str, tuple[Step, str]] = {
    "not a number": (
        gives(200, json.dumps(reply("X")).encode().replace(b'"X"', b"NaN")),
        "a reply without an answer in it",
    ),
    "true": (content(True), "a reply without an answer in it"),
    "false": (content(False), "a reply without an answer in it"),
    "zero": (content(0), "a reply without an answer in it"),
    "an object": (content({}), "a reply without an answer in it"),
    "a part of another type": (content([{"text": {"a": 1}}]), "a reply without an answer in it"),
    "a part that is null": (content([None]), "a reply without an answer in it"),
    "parts in parts": (content([["yes"]]), "a reply without an answer in it"),
    "refusal a list": (gives(200, reply("yes", refusal=["no"])), "a reply without an answer in it"),
    "message a text": (
        gives(200, {"model": MODEL, "choices": [{"message": "yes"}]}),
        "a reply without an answer in it",
    ),
    "choices an object": (
        gives(200, {"model": MODEL, "choices": {"0": 1}}),
        "a reply without an answer in it",
    ),
    "model a number": (gives(200, {**reply("yes"), "model": 4}), "a reply without an answer in it"),
    "a text": (gives(200, "yes"), "a reply without an answer in it"),
    "a number": (gives(200, b"1e999"), "a reply without an answer in it"),
    "choices twice": (
        gives(200, twice("choices", reply("yes")["choices"], reply("no")["choices"])),
        "a reply without an answer in it",
    ),
    "refused inside": (
        gives(200, {"error": {"code": 403, "message": f"moderated {SECRET}"}}),
        "an error in the place of an answer",
    ),
    "error as a text": (gives(200, {"error": "\x1b[2Jno"}), "an error in the place of an answer"),
    "br, not asked for": (
        packed(b"\x0b\x02\x80yes\x03", "br"),
        "a reply packed as 'br', which was not asked for",
    ),
    "zstd, not asked for": (
        packed(b"\x28\xb5\x2f\xfd", "zstd"),
        "a reply packed as 'zstd', which was not asked for",
    ),
    "packed twice": (
        packed(gzip.compress(gzip.compress(b"{}")), "gzip, gzip"),
        "a reply packed as 'gzip, gzip'",
    ),
    "gzip, damaged": (
        packed(b"\x1f\x8b\x08\x00 what is this", "gzip"),
        "a reply whose packing is damaged",
    ),
    "gzip, cut": (
        packed(gzip.compress(json.dumps(reply("yes")).encode())[:-12], "gzip"),
        "a reply whose packing is cut short",
    ),
    "not packed": (
        packed(json.dumps(reply("yes")).encode(), "deflate"),
        "a reply whose packing is damaged",
    ),
    "page": (
        gives(200, b"<html>busy</html>", {"Content-Type": "text/html"}),
        "a reply that is no JSON",
    ),
    "empty": (gives(200, b""), "a reply that is no JSON"),
    "nothing": (gives(204, b""), "a reply that is no JSON"),
    "Latin-1": (gives(200, '{"choices": "é"}'.encode("latin-1")), "a reply that is no JSON"),
    "zeros": (gives(200, bytes(50)), "a reply that is no JSON"),
    "two replies": (gives(200, json.dumps(reply("yes")).encode() * 2), "a reply that is no JSON"),
    "a stream": (
        gives(200, b"data: {}\n\ndata: [DONE]\n\n", {"Content-Type": "text/event-stream"}),
        "a reply that is no JSON",
    ),
    "a number of 9,000 digits": (
        gives(200, b'{"choices": ' + b"9" * 9_000 + b"}"),
        "a reply that is no JSON",
    ),
}


@pytest.mark.slow
def test_a_bad_reply_is_one_rows_refusal_that_is_kept_and_told(server: ChatServer) -> None:
    """Every kind in one run: each is the refusal of its row, and the rows around it are
    answered."""
    kinds = FINAL | AGAIN
    good = gives(200, reply("yes"))
    tries = {way: 1 if way in FINAL else chat_client.BAD_REPLIES for way in kinds}
    server.script = [
        step for way, (bad, _) in kinds.items() for step in (good, *[bad] * tries[way])
    ]
    rows, requests = 2 * len(kinds) + 1, len(kinds) + sum(tries.values()) + 1
    codes, texts_said, doubts = asked(rows, reply_bytes=200_000)
    assert codes == [*[1, -1] * len(kinds), 1] and len(server.asked) == requests
    host = server.url.split("/")[2]
    for row, (way, (_, reason)) in enumerate(kinds.items()):
        refused = texts_said[2 * row + 1]
        assert refused.startswith("[no answer: ") and reason in refused, way
        (doubt,) = [
            text for text in doubts if text.startswith(f"{host} sent {refused[12:-1]} for ")
        ]
        assert f" of {rows} rows, id " in doubt and "counted as wrong and kept" in doubt, way
    assert all(text.isprintable() and SECRET not in text for text in doubts)
    assert asked(rows, reply_bytes=200_000) == (
        codes,
        texts_said,
        doubts,
    )  # and is told again, and not asked again
    assert len(server.asked) == requests


def test_the_rows_of_a_bad_reply_are_named(server: ChatServer) -> None:
    nest = FINAL["nested lists"][0]
    server.script = [
        gives(200, reply("yes")),
        nest,
        nest,
        gives(200, reply("yes")),
        content("\ud800"),
    ]
    _, _, doubts = asked(6)
    host = server.url.split("/")[2]
    sentence_end = "counted as wrong and kept (name another `serving` to ask again)"
    assert doubts == [
        f"{host} sent a reply that is nested too deeply for 2 of 6 rows, id 1, 2: {sentence_end}",
        f"{host} sent an answer with half a character in it for 1 of 6 rows, id 4: {sentence_end}",
    ]


def test_every_kind_was_tried() -> None:
    assert len(FINAL) == 18 and len(AGAIN) == 31


@pytest.mark.parametrize(
    "way",
    [
        "page",
        "gzip, cut",
        "choices twice",
        "an object",
        "empty",
        "refused inside",
        "zstd, not asked for",
    ],
)
def test_what_may_get_better_is_tried_again(server: ChatServer, way: str) -> None:
    server.script = [AGAIN[way][0]] * (chat_client.BAD_REPLIES - 1)
    assert asked(1) == ([1], ["yes"], []) and len(server.asked) == chat_client.BAD_REPLIES


GOOD: dict[str, Step] = {
    "gzip": packed(gzip.compress(json.dumps(reply("yes")).encode()), "gzip"),
    "deflate": packed(zlib.compress(json.dumps(reply("yes")).encode()), "deflate"),
    "deflate without its frame": packed(
        zlib.compress(json.dumps(reply("yes")).encode(), wbits=-15), "deflate"
    ),
    "members": packed(
        b"".join(gzip.compress(piece.encode()) for piece in json.dumps(reply("yes"))), "gzip"
    ),
    "UTF-16": gives(200, json.dumps(reply("yes")).encode("utf-16")),
    "a mark before it": gives(200, b"\xef\xbb\xbf" + json.dumps(reply("yes")).encode()),
    "a charset that unpacks": gives(
        200, reply("yes"), {"Content-Type": "application/json; charset=zlib"}
    ),
    "usage of another type": gives(200, {**reply("yes"), "usage": ["many"]}),
    "usage not a number": gives(
        200, json.dumps(reply("yes"))[:-1].encode() + b', "usage": {"prompt_tokens": NaN}}'
    ),
    "usage true": gives(
        200, {**reply("yes"), "usage": {"prompt_tokens": True, "completion_tokens": True}}
    ),
    "usage without bounds": gives(
        200, {**reply("yes"), "usage": {"prompt_tokens": 10**30, "completion_tokens": 1}}
    ),
    "a name twice, alike": gives(200, json.dumps(reply("yes"))[:-1].encode() + b', "id": "1"}'),
    "another name twice": gives(200, json.dumps(reply("yes"))[:-1].encode() + b', "x": 1, "x": 2}'),
    "a surrogate pair": gives(200, reply("yes", note="\U0001f600")),
    "error null": gives(200, {**reply("yes"), "error": None}),
    "nested a little": gives(200, {**reply("yes"), "x": [[[[[[[1]]]]]]]}),
}


@pytest.mark.parametrize("way", GOOD)
def test_what_is_odd_and_can_be_read_is_an_answer(server: ChatServer, way: str) -> None:
    server.usage = None
    server.script = [GOOD[way]]
    assert (
        asked(1, image_tokens=30, prompt="no yes") == ([1], ["yes"], []) and len(server.asked) == 1
    )
    assert spent() == 2 + 30 + 1


STEERING = ["\x1b[2Jyes", "\u202eyes", "yes\x00", "\x9b31myes", "yes\u2028no", "\x07" * 300]


def test_what_steers_a_terminal_is_kept_and_steers_none(server: ChatServer, tmp_path: Path) -> None:
    from crosswind.core.types import Predictions
    from crosswind.storage.predictions_file import TEXTS, read_texts, write_texts

    server.script = [gives(200, reply(text)) for text in STEERING]
    codes, texts_said, doubts = asked(len(STEERING))
    assert texts_said == STEERING and not doubts
    ids = np.arange(len(texts_said))
    shown = write_texts(
        tmp_path,
        {"given": {"test": Predictions(ids, ids, ids, np.array(codes), None, texts_said)}},
        ("no", "yes"),
    )
    written = (tmp_path / TEXTS).read_text(encoding="utf-8")
    assert all(line.isprintable() for line in written.splitlines()) and len(
        written.splitlines()
    ) == len(texts_said)
    assert [text_kept["text"] for text_kept in read_texts(tmp_path)] == texts_said
    assert "\x1b" not in str(shown) and "\u202e" not in str(shown)


def test_a_bomb_takes_no_memory(server: ChatServer) -> None:
    bomb = gzip.compress(bytes(1 << 20)) * 400  # 400 MiB
    server.script = [gives(200, reply("yes")), packed(bomb, "gzip")]
    asked(1)
    tracemalloc.start()
    try:
        assert asked(2)[0] == [1, -1]
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()


def test_an_error_with_a_large_or_nested_body_is_its_status(server: ChatServer) -> None:
    bomb = gzip.compress(bytes(20 << 20))
    server.script = [
        gives(500, b"x" * 3_000_000),
        gives(503, bomb, {"Content-Encoding": "gzip"}),
        gives(429, nested(30_000)),
        gives(500, b"{}", {"Content-Type": "text/plain; charset=bz2"}),
        gives(502, b"\x1b[2J" * 100),
    ]
    assert asked(1) == ([1], ["yes"], []) and len(server.asked) == 6
    server.script = [*server.script, error(500), gives(400, nested(30_000))]
    with pytest.raises(DataError, match=r"refuses the request \(400: ") as refused:
        asked(2)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 500


# -- seconds ---------------------------------------------------------------------------------------


def drips(
    body: bytes,
    head: bytes = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
    size: int = 1,
) -> Step:
    """A byte, or a few, every twentieth of a second."""

    def step(handler: Any) -> None:
        handler.close_connection = True
        pieces = head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
        try:
            for start in range(0, len(pieces), size):
                handler.wfile.write(pieces[start : start + size])
                handler.wfile.flush()
                time.sleep(0.05)
        except OSError:
            pass

    return step


def endless(chunk: bytes, pause: float) -> Step:
    """A body in chunks that never ends."""

    def step(handler: Any) -> None:
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                handler.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                handler.wfile.flush()
                time.sleep(pause)
        except OSError:
            pass

    return step


SLOW: dict[str, Step] = {
    "body": drips(json.dumps(reply("yes")).encode(), size=2),
    "body of a white space": drips(b" " * 500),
    "head": drips(b"{}", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 500 + b"\r\n"),
    "heads": drips(b"{}", b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 90, 8),
    "status": drips(b"{}", b"HTTP/1.1 200 " + b"OK" * 200 + b"\r\n"),
    "further heads": drips(
        b"{}", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 60 + b"HTTP/1.1 200 OK\r\n", 27
    ),
    "chunks": endless(b" ", 0.05),
    "error": drips(b" " * 500, b"HTTP/1.1 500 No\r\n"),
}


@pytest.mark.parametrize("way", SLOW)
def test_an_endpoint_that_drips_has_the_seconds_of_one_that_is_silent(
    server: ChatServer, way: str
) -> None:
    """A second between two bytes held a run of `timeout: 1` for as long as it liked. What passes
    with time is no refusal."""
    server.script = [SLOW[way]] * 2
    began = time.monotonic()
    with pytest.raises(
        DataError,
        match=r"did not answer in 2 tries, the last time for want of a whole answer in time",
    ):
        asked(1, timeout=0.4, tries=2)
    assert time.monotonic() - began < 4
    with sqlite3.connect(cache_file()) as connection:
        assert connection.execute("SELECT count(*) FROM refusals").fetchone() == (0,)
    connection.close()
    server.script = []
    assert asked(1, timeout=30.0) == ([1], ["yes"], [])


def test_chunks_without_end_are_left_when_they_are_too_many(server: ChatServer) -> None:
    server.script = [endless(b" " * 10_000, 0.0)]
    began = time.monotonic()
    assert asked(1, timeout=60.0)[1] == ["[no answer: a reply of more than 1,048,576 bytes]"]
    assert time.monotonic() - began < 20


@contextmanager
def accepting(speak: Callable[[socket.socket], None]) -> Iterator[str]:
    """The host and port of a server that accepts, and does what `speak` does with each
    connection."""
    connections: list[socket.socket] = []

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connections.append(connection)
            threading.Thread(target=speak, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)
    for connection in connections:
        connection.close()


def reads_slowly(connection: socket.socket) -> None:
    try:
        while connection.recv(1):
            time.sleep(0.05)
    except OSError:
        pass


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    "speak", [reads_slowly, lambda connection: None], ids=["reads slowly", "reads nothing"]
)
def test_a_server_that_does_not_listen_has_no_more_seconds(
    server: ChatServer,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    speak: Callable[[socket.socket], None],
) -> None:
    """A slow upload, and a greeting of TLS that does not end."""
    with accepting(speak) as host:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{scheme}://{host}/v1")
        long: Any = SimpleNamespace(rows=np.arange(1))
        began = time.monotonic()
        want = "a whole answer in time" if scheme == "http" else "a connection"
        with pytest.raises(
            DataError, match=f"did not answer in 1 tries, the last time for want of {want}"
        ):
            ChatApi(name=MODEL, timeout=1.0, tries=1, prompt="yes or no {text}").answer(
                long, texts(["x" * (12_000_000 if scheme == "http" else 1)]), ("no", "yes")
            )
        with pytest.raises(InputError, match="cannot be reached"):
            monkeypatch.setattr(chat_client, "READY_SECONDS", 1.0)
            ChatApi(name=MODEL).ready()
        assert time.monotonic() - began < 40


# -- addresses -------------------------------------------------------------------------------------


LOCATIONS = [
    (301, "http://localhost:{port}/v1/chat/completions", "http://localhost:{port}"),
    (302, "http://127.0.0.1:1/v1", "http://127.0.0.1:1"),
    (303, "https://127.0.0.1:{port}/v1", "https://127.0.0.1:{port}"),
    (307, "//[::1]:{port}/x?key=" + SECRET, r"http://[::1]:{port}"),
    (308, "http://user:word@127.0.0.1:2/" + "x" * 2_000, "http://127.0.0.1:2"),
    (307, "http://localhost:{port}/v1/chat/completions", "http://localhost:{port}"),
    (308, "/v2/chat/completions", "http://127.0.0.1:{port}"),
    (307, "file:///etc/hosts", "file://"),
    (300, "http://[", "an address that is none"),
]


@pytest.mark.parametrize(("status", "location", "named"), LOCATIONS)
def test_a_question_is_not_sent_on(
    server: ChatServer, status: int, location: str, named: str
) -> None:
    """The key was kept back, and the question was not."""
    port = server.server_address[1]
    server.script = [gives(status, b"", {"Location": location.format(port=port)})]
    with pytest.raises(DataError) as refused:
        asked(2)
    other_address = re.escape(named.format(port=port))
    sentence = (
        rf"127\.0\.0\.1:{port} sends on to {other_address} \(status {status}\), .* set OPENAI_BASE_URL to"
        r" its address$"
    )
    assert re.search(sentence, str(refused.value)) and SECRET not in str(refused.value)
    assert (
        len(server.asked) == 1 and server.lists == 0
    )  # and no try after it: it would be sent on again


def test_an_address_that_sends_on_is_told_before_anything_is_asked(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sends_on(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(
            b"HTTP/1.1 308 On\r\nLocation: "
            + server.url.encode()
            + b"/models\r\nContent-Length: 0\r\n\r\n"
        )

    with accepting(sends_on) as host:
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://{host}/v1")
        to = re.escape(server.url.removesuffix("/v1"))
        with pytest.raises(
            InputError,
            match=rf"^OPENAI_BASE_URL: {re.escape(host)} sends on to {to} \(status 308\)",
        ):
            ChatApi(name=MODEL).ready()
    assert server.lists == 0


@pytest.mark.slow
def test_an_address_that_answers_nothing_but_pages_is_taken_for_a_wrong_one(
    server: ChatServer,
) -> None:
    page = gives(200, b"<html>welcome</html>")
    server.script = [page] * 200
    sentence = (
        r"sent a reply that is no JSON to 20 questions and answered none; set OPENAI_BASE_URL to"
        r" the address"
    )
    with pytest.raises(DataError, match=sentence):
        asked(30)
    server.script = []
    assert asked(30)[0] == [1] * 30  # nothing of it was kept


def test_a_few_pages_are_kept_although_nothing_else_came(server: ChatServer) -> None:
    server.script = [gives(200, b"<html>welcome</html>")] * 9
    codes, _, doubts = asked(3)
    assert codes == [-1] * 3 and "for 3 of 3 rows, id 0, 1, 2: counted as wrong" in doubts[0]
    assert asked(3)[0] == [-1] * 3 and len(server.asked) == 9


def test_another_address_is_asked_anew(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken endpoint is no property of a question; an answer is."""
    server.script = [gives(200, reply("yes")), content("\ud800")]
    assert asked(2)[0] == [1, -1]
    with ChatServer() as other_server:
        monkeypatch.setenv("OPENAI_BASE_URL", other_server.url)
        assert asked(2) == ([1, 1], ["yes", "yes"], []) and len(other_server.asked) == 1
        other_server.shutdown()
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert asked(2)[0] == [1, 1] and len(server.asked) == 2


def test_what_was_too_large_is_asked_again_when_more_is_allowed(server: ChatServer) -> None:
    server.says = lambda question: "yes " + " " * 50_000
    codes, texts_said, doubts = asked(1, reply_bytes=10_000)
    assert (
        codes == [-1]
        and texts_said == ["[no answer: a reply of more than 10,000 bytes]"]
        and "raise reply_bytes" in doubts[0]
    )
    assert asked(1, reply_bytes=9_000)[0] == [-1] and len(server.asked) == 1
    codes, _, doubts = asked(1, reply_bytes=100_000)
    assert codes == [1] and not doubts and len(server.asked) == 2


@pytest.mark.parametrize("code", [429, 500, "503", 408])
def test_an_error_that_a_router_writes_into_a_reply_passes_as_its_status_does(
    server: ChatServer, code: int | str
) -> None:
    body = {"error": {"code": code, "message": "overloaded"}}
    server.script = [gives(200, body)] * 4
    assert asked(1, tries=5) == ([1], ["yes"], []) and len(server.asked) == 5
    server.script = [*server.script, gives(200, reply("yes")), *[gives(200, body)] * 4]
    with pytest.raises(
        DataError,
        match=r"did not answer in 2 tries, the last time for an error in the place of an answer",
    ):
        asked(2, tries=2)


def test_an_interrupt_lets_go_of_what_is_under_way(server: ChatServer) -> None:
    from crosswind.models.language.chat_http import ChatHttp

    server.hold_from = 0
    began = time.monotonic()
    with ChatHttp(SECRET, server.url, 60.0, 10_000) as http:

        def ask() -> None:
            with pytest.raises(CancelledError):
                http.ask({"model": MODEL, "messages": []})
            ended.append(True)

        ended: list[bool] = []
        thread = threading.Thread(target=ask)
        thread.start()
        while not server.together:
            time.sleep(0.01)
        http.stop()
        thread.join(10)
    assert ended == [True] and time.monotonic() - began < 10


DATES = [
    "nan",
    "-5",
    "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
    "Mon, 99 Foo 2024 99:99:99 GMT",
    "9" * 5_000 + "x",
    "1e-400",
]


@pytest.mark.parametrize("when", DATES, ids=lambda when: when[:12])
def test_a_time_to_wait_that_is_none_is_not_waited_for(server: ChatServer, when: str) -> None:
    server.script = [error(429, Retry_After=when)]
    assert asked(1) == ([1], ["yes"], []) and len(server.asked) == 2
