"""A server on loopback that speaks OpenAI's protocol for chats, counts what it is asked, and
misbehaves as it is told."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "sk-loopback-0f3c9a71d5e84b26"
MODEL = "gpt-local"


class ChatServer(ThreadingHTTPServer):
    """`script`: what the first requests get, one each; all others are answered `says(content)`.
    `asked`: the body of every one."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, says: Callable[[Any], str] = lambda content: "yes") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.says = says
        self.script: list[Callable[[_Handler], None]] = []
        self.asked: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        self.answered: Counter[str] = Counter()
        self.lists = 0
        self.usage: dict[str, int] | None = {"prompt_tokens": 40, "completion_tokens": 2}
        self.lock = threading.Lock()
        self.hold_from: int | None = None
        self.together = self.most_together = 0
        threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no fault of the server."""


class _Handler(BaseHTTPRequestHandler):
    server: ChatServer
    protocol_version = "HTTP/1.1"
    body: dict[str, Any]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.server.lists += 1
        good = self.headers["Authorization"] == f"Bearer {SECRET}"
        self.send(
            200 if good else 401,
            (
                {"data": []}
                if good
                else {"error": {"message": f"no such key: {self.headers['Authorization']}"}}
            ),
        )

    def do_POST(self) -> None:
        self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            number = len(server.asked)
            server.asked.append(self.body)
            server.keys.add(self.headers["Authorization"])
            step = server.script[number] if number < len(server.script) else None
            server.together += 1
            server.most_together = max(server.most_together, server.together)
        try:
            if server.hold_from is not None and number >= server.hold_from:
                time.sleep(30)
            elif step is None:
                self.send(200, reply(server.says(self.content), usage=server.usage))
                with server.lock:
                    server.answered[json.dumps(self.content)] += 1
            else:
                step(self)
        finally:
            with server.lock:
                server.together -= 1

    @property
    def content(self) -> Any:
        return self.body["messages"][0]["content"]

    def send(
        self, status: int, body: Any, headers: dict[str, str] | None = None, cut: int = 0
    ) -> None:
        """`cut`: bytes that are promised and not sent."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(data) + cut),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        if cut:
            self.wfile.flush()
            self.close_connection = True


def reply(
    content: Any, *, model: str | None = MODEL, usage: dict[str, int] | None = None, **message: Any
) -> dict[str, Any]:
    """The body of an answer."""
    reply_message = {"role": "assistant", "content": content, **message}
    body: dict[str, Any] = {"id": "1", "object": "chat.completion", "created": 0, "model": model}
    body["choices"] = [{"index": 0, "finish_reason": "stop", "message": reply_message}]
    return body if usage is None else {**body, "usage": usage}


def gives(
    status: int, body: Any, headers: dict[str, str] | None = None, cut: int = 0
) -> Callable[[Any], None]:
    """A step of a script: this answer."""
    return lambda handler: handler.send(status, body, headers, cut)


def error(
    status: int, message: str = "no", code: str | None = None, **headers: str
) -> Callable[[Any], None]:
    """A step of a script: an error with the key in its text and in a header, as a careless server
    has."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"error": {"message": f"{message} {SECRET}", "code": code, "type": None, "param": None}}
    return gives(status, body, {**named, "X-Asked-With": SECRET})


def slow(seconds: float) -> Callable[[Any], None]:
    """A step of a script: nothing for a while, then an answer."""

    def step(handler: Any) -> None:
        time.sleep(seconds)
        handler.send(200, reply("late"))

    return step


def hangs_up(handler: Any) -> None:
    """A step of a script: the connection is cut without a word."""
    handler.close_connection = True
    handler.connection.shutdown(2)
