"""Downloads, from a real server on this machine: resumed, checked, and refused in one sentence."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crosswind.core.cards import Original
from crosswind.core.errors import DataError
from crosswind.data.archives import fetch as room
from crosswind.data.archives.fetch import fetch, verified

DATA = np.random.default_rng(0).bytes(1_000_000)
SHA = hashlib.sha256(DATA).hexdigest()
MD5 = hashlib.md5(DATA, usedforsecurity=False).hexdigest()

Answer = Callable[["ScriptedHandler", int], None]


class ScriptedHandler(BaseHTTPRequestHandler):
    """Answers each request with the next of the server's `answers`, the last for ever; keeps what
    was asked for."""

    def do_GET(self) -> None:
        server: Any = self.server
        begin = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-")
        server.asked.append((self.path, int(begin)))
        answers = server.answers
        (answers.pop(0) if len(answers) > 1 else answers[0])(self, int(begin))
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass

    def give(
        self, data: bytes, status: int = 200, declared: int | None = None, **headers: str
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if declared != -1:
            self.send_header("Content-Length", str(len(data) if declared is None else declared))
        self.end_headers()
        self.wfile.write(data)


def whole(handler: ScriptedHandler, begin: int) -> None:
    """A server that knows no Range."""
    handler.give(DATA)


def ranged(handler: ScriptedHandler, begin: int) -> None:
    if not begin:
        handler.give(DATA)
    elif begin >= len(DATA):
        handler.give(b"", 416)
    else:
        handler.give(DATA[begin:], 206, Content_Range=f"bytes {begin}-{len(DATA) - 1}/{len(DATA)}")


def broken(after: int) -> Answer:
    """A server that knows Range and breaks off after so many bytes."""

    def answer(handler: ScriptedHandler, begin: int) -> None:
        left_bytes = DATA[begin:]
        range_header = (
            {"Content_Range": f"bytes {begin}-{len(DATA) - 1}/{len(DATA)}"} if begin else {}
        )
        handler.give(left_bytes[:after], 206 if begin else 200, len(left_bytes), **range_header)

    return answer


def status(code: int, **headers: str) -> Answer:
    return lambda handler, begin: handler.give(b"no", code, **headers)


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Nothing: clients here go away before all has been sent to them."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    scripted_server: Any = Server(("127.0.0.1", 0), ScriptedHandler)
    scripted_server.asked, scripted_server.answers = [], [ranged]
    scripted_server.base = f"http://127.0.0.1:{scripted_server.server_address[1]}"
    thread = threading.Thread(target=scripted_server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield scripted_server
    scripted_server.shutdown()
    thread.join()
    scripted_server.server_close()


@pytest.fixture
def original(server: Any) -> Original:
    return Original("a/data.bin", f"{server.base}/data", len(DATA), SHA, MD5)


def get(original: Original, folder: Path, **options: Any) -> Path:
    return fetch(original, folder, sleep=lambda seconds: None, **options)


def kept(folder: Path) -> dict[str, int]:
    return {
        path.name: path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and path.name[0] != "."
    }


def test_a_file_is_fetched_once(server: Any, original: Original, tmp_path: Path) -> None:
    progress: list[tuple[int, int]] = []
    fetched = get(original, tmp_path, on_progress=lambda done, all_: progress.append((done, all_)))
    assert fetched == tmp_path / "a" / "data.bin" and fetched.read_bytes() == DATA
    assert progress[-1] == (len(DATA), len(DATA)) and [done for done, _ in progress] == sorted(
        {done for done, _ in progress}
    )
    assert get(original, tmp_path) == fetched and len(server.asked) == 1
    assert kept(tmp_path) == {"data.bin": len(DATA)}


@pytest.mark.parametrize(
    "facts", [{}, {"size": 0}, {"sha256": ""}, {"sha256": "", "size": 0}, {"sha256": SHA.upper()}]
)
def test_a_hash_is_enough(
    facts: dict[str, Any], server: Any, original: Original, tmp_path: Path
) -> None:
    assert get(replace(original, **facts), tmp_path).read_bytes() == DATA


def test_a_download_that_breaks_off_goes_on_from_there(
    server: Any, original: Original, tmp_path: Path
) -> None:
    server.answers = [broken(400_000), whole]  # a server without ranges gives the whole again
    assert get(original, tmp_path / "other").read_bytes() == DATA
    assert [begin for _, begin in server.asked] == [0, 400_000]
    server.asked, server.answers = (
        [],
        [broken(300_000), broken(0), status(503), broken(300_000), ranged],
    )
    waits: list[float] = []
    assert fetch(original, tmp_path, sleep=waits.append).read_bytes() == DATA
    assert [begin for _, begin in server.asked] == [0, 300_000, 300_000, 300_000, 600_000]
    assert waits == [1, 1, 2, 1]


def test_a_later_call_goes_on_where_an_earlier_one_gave_up(
    server: Any, original: Original, tmp_path: Path
) -> None:
    server.answers = [broken(400_000), broken(0)]
    with pytest.raises(
        DataError,
        match=r"it broke off, 5 times in a row; 400,000 bytes are kept, and the next call goes on",
    ):
        get(original, tmp_path)
    assert kept(tmp_path) == {"data.bin.part": 400_000}
    server.asked, server.answers = [], [ranged]
    progress: list[tuple[int, int]] = []
    assert (
        get(
            original, tmp_path, on_progress=lambda done, all_: progress.append((done, all_))
        ).read_bytes()
        == DATA
    )
    assert [begin for _, begin in server.asked] == [400_000]
    assert progress[0][0] > 400_000 and kept(tmp_path) == {"data.bin": len(DATA)}


def test_a_server_that_says_no_length_is_read_to_its_end(
    server: Any, original: Original, tmp_path: Path
) -> None:
    server.answers = [lambda handler, begin: handler.give(DATA, declared=-1)]
    assert get(replace(original, size=0), tmp_path).read_bytes() == DATA
    server.answers = [lambda handler, begin: handler.give(DATA[:1000], declared=-1), ranged]
    assert get(original, tmp_path / "other").read_bytes() == DATA


def test_a_part_that_is_whole_is_taken(server: Any, original: Original, tmp_path: Path) -> None:
    for name, sized_or_not in (("sized", original), ("not", replace(original, size=0))):
        (tmp_path / name / "a").mkdir(parents=True)
        (tmp_path / name / "a" / "data.bin.part").write_bytes(DATA)
        assert get(sized_or_not, tmp_path / name).read_bytes() == DATA
    assert server.asked == []


@pytest.mark.parametrize("beginning", [b"x" * 1000, b"x" * len(DATA), b"x" * (len(DATA) + 1)])
@pytest.mark.parametrize("size", [0, len(DATA)])
def test_a_part_of_another_file_is_fetched_afresh(
    beginning: bytes, size: int, server: Any, original: Original, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "data.bin.part").write_bytes(beginning)
    assert get(replace(original, size=size), tmp_path).read_bytes() == DATA
    assert kept(tmp_path) == {"data.bin": len(DATA)}


def test_a_range_other_than_asked_for_is_not_taken(
    server: Any, original: Original, tmp_path: Path
) -> None:
    server.answers = [
        broken(1000),
        lambda handler, begin: handler.give(
            DATA[5:], 206, Content_Range=f"bytes 5-{len(DATA) - 1}/{len(DATA)}"
        ),
        ranged,
    ]
    assert get(original, tmp_path).read_bytes() == DATA


@pytest.mark.parametrize(
    ("facts", "answer", "words"),
    [
        ({"sha256": "0" * 64}, ranged, f"data.bin has the sha256 {SHA}, not 000"),
        ({"sha256": "", "md5": "0" * 32}, ranged, f"has the md5 {MD5}, not 000"),
        ({"size": 999_999}, ranged, "gives 1,000,000 bytes and not the 999,999 of a/data.bin"),
        ({"size": 1_000_001}, ranged, "gives 1,000,000 bytes and not the 1,000,001 of a/data.bin"),
        (
            {"size": 999},
            lambda handler, begin: handler.give(DATA, declared=-1),
            "gives more than the 999 bytes",
        ),
        ({"size": 0}, lambda handler, begin: handler.give(b""), "data.bin is empty"),
        ({}, status(404), "/data says 404 Not Found"),
        ({}, status(403), "/data says 403 Forbidden"),
        ({}, status(503), "the server says 503 Service Unavailable, 5 times in a row"),
        (
            {},
            lambda handler, begin: handler.give(DATA, Content_Type="text/html; charset=utf-8"),
            "gives a web page and not a/data.bin",
        ),
        (
            {"size": 0},
            lambda handler, begin: handler.give(b"<!DOCTYPE html><p>Log in"),
            "gives a web page and not a/data.bin",
        ),
        (
            {"size": 0},
            lambda handler, begin: handler.give(DATA, declared=1 << 60),
            "needs 1,152,921,504,606,846,976 bytes in",
        ),
        (
            {},
            status(302, Location="file:///etc/passwd"),
            "says 302 .*Redirection to url 'file:///etc/passwd' is not allowed",
        ),
        ({}, status(301, Location="ftp://127.0.0.1/data"), "unknown url type: ftp"),
        ({}, status(302, Location="/data"), "says 302"),
    ],
)
def test_what_is_not_the_file_is_refused_and_nothing_is_kept(
    facts: dict[str, Any],
    answer: Answer,
    words: str,
    server: Any,
    original: Original,
    tmp_path: Path,
) -> None:
    server.answers = [answer]
    with pytest.raises(DataError, match=words) as caught:
        get(replace(original, **facts), tmp_path)
    assert "\n" not in str(caught.value) and kept(tmp_path) == {}


def test_redirections_are_followed_with_their_range(
    server: Any, original: Original, tmp_path: Path
) -> None:
    server.answers = [
        status(302, Location="/there"),
        broken(1000),
        status(307, Location=f"{server.base}/elsewhere"),
        ranged,
    ]
    assert get(original, tmp_path).read_bytes() == DATA
    assert server.asked == [("/data", 0), ("/there", 0), ("/data", 1000), ("/elsewhere", 1000)]


def test_a_busy_server_is_asked_after_the_time_it_says(
    server: Any, original: Original, tmp_path: Path
) -> None:
    server.answers = [
        status(429, Retry_After="7"),
        status(503, Retry_After="900"),
        status(503, Retry_After="tomorrow"),
        ranged,
    ]
    waits: list[float] = []
    assert fetch(original, tmp_path, sleep=waits.append).read_bytes() == DATA
    assert waits == [7, 60, 4]


def test_a_server_that_does_not_answer_is_given_up(
    original: Original, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "ATTEMPTS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slow = replace(original, url=f"http://127.0.0.1:{silent.getsockname()[1]}/data")
        with pytest.raises(DataError, match="timed out, 2 times in a row"):
            get(slow, tmp_path, timeout=0.05)
    with pytest.raises(DataError, match="Connection refused, 2 times in a row"):
        get(slow, tmp_path)

    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(DataError, match="data.example is not found; is this machine online"):
        get(replace(original, url="http://data.example/data"), tmp_path)


def test_a_server_without_its_certificate_is_asked_once(
    server: Any, original: Original, tmp_path: Path
) -> None:
    """A server that speaks no TLS where it should stands for one whose certificate is wrong."""
    waits: list[float] = []
    with pytest.raises(DataError, match="is not to be trusted: .*SSL"):
        fetch(
            replace(original, url=original.url.replace("http:", "https:")),
            tmp_path,
            sleep=waits.append,
        )
    assert waits == [] and kept(tmp_path) == {}


def test_what_may_not_be_fetched_is_not(original: Original, tmp_path: Path) -> None:
    for url in ("file:///etc/passwd", "ftp://127.0.0.1/a", "", "/etc/passwd", "data:text/plain,a"):
        with pytest.raises(DataError, match="a/data.bin is fetched over http or https only"):
            get(replace(original, url=url), tmp_path)
    with pytest.raises(DataError, match="is not fetched: nobody knows its hash"):
        get(replace(original, sha256="", md5=""), tmp_path)


def test_a_wrong_file_that_is_there_is_the_users_and_stays(
    server: Any, original: Original, tmp_path: Path
) -> None:
    file = tmp_path / "a" / "data.bin"
    file.parent.mkdir()
    for file_bytes, words in (
        (b"mine", "data.bin has 4 bytes, not 1,000,000"),
        (bytes(len(DATA)), "has the sha256 .* damaged, or not the published file"),
    ):
        file.write_bytes(file_bytes)
        with pytest.raises(DataError, match=words):
            get(original, tmp_path)
        assert file.read_bytes() == file_bytes and server.asked == []
    with pytest.raises(DataError, match="a/data.bin cannot be written to"):
        get(original, file)


def test_a_file_that_is_there_is_hashed_once(
    original: Original, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "data.bin"
    file.write_bytes(DATA)
    hashed: list[object] = []
    digest = hashlib.file_digest
    monkeypatch.setattr(
        hashlib,
        "file_digest",
        lambda *digest_arguments: (hashed.append(digest_arguments), digest(*digest_arguments))[1],
    )
    assert verified(original, file) and verified(original, file) and len(hashed) == 1
    assert (
        verified(replace(original, sha256=""), file) and len(hashed) == 2
    )  # another hash is another question
    file.write_bytes(DATA[:-1] + b"x")
    with pytest.raises(
        DataError, match="has the sha256 .* it is damaged, or not the published file"
    ):
        verified(original, file)
    assert not verified(replace(original, size=0), file) and not verified(
        replace(original, sha256="", md5=""), file
    )
    assert not verified(replace(original, size=5), file)  # another file: read as the user's own
    (tmp_path / ".data.bin.hash").write_text("[]")
    file.write_bytes(DATA)
    assert verified(original, file)
