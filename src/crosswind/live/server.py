"""A page of a store on this machine alone: loopback, a token in the address, and nothing that
writes."""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from crosswind.core.errors import CrosswindError, InputError
from crosswind.live.prometheus import CONTENT_TYPE, exposition
from crosswind.live.state import LiveStudy
from crosswind.storage.store import FILE_NAME, Store

__all__ = ["HOST", "LiveServer"]

HOST = "127.0.0.1"
TOKEN_VARIABLE = "CROSSWIND_TOKEN"
"""The environment variable of a token that outlives the server."""
LEAST_TOKEN = 16
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")
FRESH_SECONDS = 1.0
"""A state is not made anew within this time, however many look."""
_PAGE = Path(__file__).with_name("page.html")
_HOSTS = ("127.0.0.1", "localhost")


class LiveServer(ThreadingHTTPServer):
    """Serves the page, `/state.json` and `/metrics` of a study until it is shut down.

    Every request needs `token`, as `?token=` or as a bearer; without it the answer is 403. `port` 0:
    one that is free. Raises `InputError` for a port that is taken and `StoreError` for what is no
    store or has no such study.
    """

    daemon_threads = True

    def __init__(self, where: str, out: Path | None, study: str | None, port: int = 0) -> None:
        self._where, self._out = where, out
        self._file = self._file_now()
        self._store = Store.open(where, out)
        try:
            names = self._store.study_names()
            if study is None and not names:
                raise InputError("STORE", f"{self._store.name} holds no study yet")
            self._study = study or names[-1]
            self._live = LiveStudy(self._store, self._study)
            self.token = _token()
            self._looking = threading.Lock()
            self._state: dict[str, Any] = {}
            self._looked_at = float("-inf")
            try:
                super().__init__((HOST, port), _Handler)
            except OSError as error:
                reason = error.strerror or error
                raise InputError("--port", f"cannot listen on {port}: {reason}") from None
        except BaseException:
            self._store.close()
            raise

    @property
    def address(self) -> str:
        """The address of the page, with its token."""
        return f"http://{HOST}:{self.server_address[1]}/?token={self.token}"

    def state(self) -> dict[str, Any]:
        """The state of the study, at most `FRESH_SECONDS` old. Raises `StoreError`."""
        with self._looking:
            if time.monotonic() - self._looked_at > FRESH_SECONDS:
                if self._file != self._file_now():
                    self._open_again()
                self._state = self._live.look()
                self._looked_at = time.monotonic()
            return self._state

    def _file_now(self) -> tuple[int, int, bool] | None:
        """Which file of this machine is the store now, and whether it is being written; None where
        there is none, as for a URL. One that a user may only read is opened as it stands while
        nobody writes it, and shows nothing of a run that begins then."""
        if "://" in self._where:
            return None
        path = Path(self._where)
        try:
            file = path if path.is_file() else path / FILE_NAME
            state = file.stat()
            is_written = (
                not os.access(file, os.W_OK) and file.with_name(f"{file.name}-wal").exists()
            )
        except OSError:
            return None
        return state.st_dev, state.st_ino, is_written

    def _open_again(self) -> None:
        """Open the store that is there now: a file that was moved or deleted can be read for as long
        as it is open, and says nothing of the one in its place. Raises `StoreError`."""
        file_now = self._file_now()
        store = Store.open(self._where, self._out)
        try:
            live = LiveStudy(store, self._study)
        except BaseException:
            store.close()
            raise
        self._store.close()
        self._store, self._live, self._file = store, live, file_now

    def server_close(self) -> None:
        """Let go of the port and the store."""
        super().server_close()
        self._store.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no error."""


def _token() -> str:
    """The token of this server: that of the environment, so that Prometheus may know it, else one
    that is drawn."""
    chosen = os.environ.get(TOKEN_VARIABLE, "")
    if chosen and (len(chosen) < LEAST_TOKEN or not _TOKEN.fullmatch(chosen)):
        problem = f"must be at least {LEAST_TOKEN} letters, digits, - and _"
        raise InputError(TOKEN_VARIABLE, problem)
    return chosen or secrets.token_urlsafe(16)


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    server_version = "Crosswind"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _refuse_method(self) -> None:
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n", allow="GET, HEAD")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refuse_method

    def _answer(self, with_body: bool) -> None:
        parts = urlsplit(self.path)
        if not self._is_allowed(parse_qs(parts.query)):
            self._send(HTTPStatus.FORBIDDEN, b"the address of this page holds a token\n", with_body)
            return
        try:
            if parts.path == "/":
                self._send(HTTPStatus.OK, _PAGE.read_bytes(), with_body, "text/html; charset=utf-8")
            elif parts.path == "/state.json":
                body = json.dumps(self.server.state(), allow_nan=False).encode()
                self._send(HTTPStatus.OK, body, with_body, "application/json")
            elif parts.path == "/metrics":
                body = exposition(self.server.state()).encode()
                self._send(HTTPStatus.OK, body, with_body, CONTENT_TYPE)
            else:
                self._send(HTTPStatus.NOT_FOUND, b"no such page\n", with_body)
        except CrosswindError as error:  # the store may be moved away or locked meanwhile
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n".encode(), with_body)

    def _is_allowed(self, query: dict[str, list[str]]) -> bool:
        # A page of another site may have a name of its own point here: it does not get past the
        # host's name.
        host = self.headers.get("Host", "").rpartition(":")[0]
        words = self.headers.get("Authorization", "").split()
        bearer = ""
        if len(words) == 2 and words[0].lower() == "bearer":
            bearer = words[1]
        token = query.get("token", [bearer])[0]
        is_token = hmac.compare_digest(token.encode(), self.server.token.encode())
        return host in _HOSTS and is_token

    def _send(
        self,
        status: HTTPStatus,
        body: bytes,
        with_body: bool = True,
        kind: str = "text/plain; charset=utf-8",
        allow: str = "",
    ) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": (
                "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline';"
                " connect-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
            ),
        }
        if allow:
            headers["Allow"] = allow
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Addresses hold the token: nothing is printed of them."""
