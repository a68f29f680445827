"""Requests to one endpoint, each bounded in its seconds and in the bytes of its reply, and never
sent on to another address.

The official client makes the requests. This module gives it an HTTP client for what it cannot do.
Seconds are counted from the first byte of a request to the last one of its reply, however slowly
either side speaks. A reply is unpacked piece by piece and left where it grows too large. Threads
may ask at once.
"""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx
import openai

from crosswind.core.errors import one_line
from crosswind.models.language.chat_reply import BadReply

MOST_OF_AN_ERROR = 1 << 16
"""Bytes of the body of an error status that are looked at."""
CLOSE_SECONDS = 5.0
CONNECT_SHARE = 0.5
"""Of the seconds of a request."""
PACKED = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
"""Packings that are undone, with what zlib calls them; a request asks for none."""

T = TypeVar("T")


class SentOn(Exception):
    """An endpoint that sends on to another address: `status`, and `host`, the other one's, with its
    port and scheme."""

    def __init__(self, status: int, host: str) -> None:
        super().__init__(host)
        self.status = status
        self.host = host


class ChatHttp:
    """The requests. A context manager; `seconds` and `most_bytes` are of each.

    Raises `openai.OpenAIError` as the official client does, `TimeoutError`, `BadReply` and
    `SentOn`.
    """

    def __init__(self, key: str, url: str, seconds: float, most_bytes: int) -> None:
        self._seconds = seconds
        self._http = _BoundedClient(seconds, most_bytes)
        self._client = openai.AsyncOpenAI(
            api_key=key, base_url=url, http_client=self._http, max_retries=0
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="requests", daemon=True)
        self._thread.start()

    def __enter__(self) -> ChatHttp:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        closed = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        with suppress(Exception):  # what does not close is left
            closed.result(CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    async def _close(self) -> None:
        await self._http.aclose()
        for _ in range(10):
            await asyncio.sleep(
                0.01
            )  # sockets that were left in the middle of something close in turns of the loop

    def ask(self, request: Mapping[str, Any]) -> bytes:
        """The reply to one question, as it came but unpacked."""
        create = (
            self._client.chat.completions.with_raw_response.create
        )  # what loads modules counts no seconds
        reply: Any = self._within(lambda: create(**request))
        return bytes(reply.http_response.content)

    def models(self) -> None:
        """Ask for the list of models."""
        self._within(lambda: self._client.get("/models", cast_to=httpx.Response))

    def stop(self) -> None:
        """End what is under way; who waits for it hears a `CancelledError`."""
        ended = asyncio.run_coroutine_threadsafe(_end_all(), self._loop)
        with suppress(TimeoutError):
            ended.result(CLOSE_SECONDS)

    def _within(self, ask: Callable[[], Awaitable[T]]) -> T:
        async def asked() -> T:
            async with asyncio.timeout(self._seconds):
                return await ask()

        request = asyncio.run_coroutine_threadsafe(asked(), self._loop)
        try:
            return request.result()
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, BadReply | SentOn):
                raise error.__cause__ from None
            raise
        except BaseException:
            request.cancel()  # of an interrupt: nobody waits for it any more
            raise


async def _end_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _BoundedClient(openai.DefaultAsyncHttpxClient):
    """The HTTP client: follows no redirect, and reads no more of a reply than `most_bytes`, packed
    or unpacked."""

    def __init__(self, seconds: float, most_bytes: int) -> None:
        super().__init__(
            follow_redirects=False,
            # The whole request has its time. A connection, with the greeting of TLS, has a share:
            # without one nothing was sent.
            timeout=httpx.Timeout(None, connect=CONNECT_SHARE * seconds),
            event_hooks={"response": [_refuse_sending_on]},
        )
        self._most_bytes = most_bytes

    async def send(
        self, request: httpx.Request, *, stream: bool = False, **settings: Any
    ) -> httpx.Response:
        """See httpx. The reply is read, whether it was asked for as a stream or not."""
        request.headers["Accept-Encoding"] = "identity"
        reply = await super().send(request, stream=True, **{**settings, "follow_redirects": False})
        try:
            body = await self._body(reply)
        finally:
            await reply.aclose()
        # Of what the reply says about its body nothing is left to be believed: a charset may be a
        # way to unpack.
        headers = {}
        for name, value in reply.headers.items():
            if not name.startswith(("content-", "transfer-")):
                headers[name] = value
        return httpx.Response(
            reply.status_code,
            headers={**headers, "content-type": "application/json"},
            content=body,
            request=request,
        )

    async def _body(self, reply: httpx.Response) -> bytes:
        if reply.is_success:
            return await _read(reply, self._most_bytes)
        try:
            return await _read(reply, MOST_OF_AN_ERROR)
        except BadReply as fault:
            return fault.reason.encode()  # its status says enough


async def _refuse_sending_on(reply: httpx.Response) -> None:
    where = reply.headers.get("location")
    if 300 <= reply.status_code < 400 and where is not None:
        host = _address(str(reply.request.url), where)
        raise SentOn(reply.status_code, host)


def _address(url_asked: str, location: str) -> str:
    """The scheme and host of a redirect, without a user's name, a path or a query, which may hold
    anything."""
    try:
        address = urlsplit(urljoin(url_asked, location))
        host = address.netloc.rpartition("@")[2]
        return one_line(f"{address.scheme}://{host}", 200)
    except ValueError:
        return "an address that is none"


async def _read(reply: httpx.Response, byte_limit: int) -> bytes:
    """The unpacked body. Raises `BadReply` for one of more than `byte_limit` bytes, packed or
    unpacked,
    and for a packing not known."""
    length = reply.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > byte_limit:
        raise _too_large(byte_limit)
    packing = reply.headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("identity", *PACKED):
        raise BadReply(
            f"a reply packed as {one_line(packing, 40)!r}, which was not asked for", again=True
        )
    body = bytearray()
    chunks = _bounded(reply.aiter_raw(), byte_limit)
    async for piece in chunks if packing == "identity" else _unpacked(chunks, packing, byte_limit):
        body += piece
        if len(body) > byte_limit:
            raise _too_large(byte_limit)
    return bytes(body)


async def _bounded(chunks: AsyncIterator[bytes], byte_limit: int) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > byte_limit:
            raise _too_large(byte_limit)
        yield chunk


async def _unpacked(
    chunks: AsyncIterator[bytes], packing: str, byte_limit: int
) -> AsyncIterator[bytes]:
    """Each chunk unpacked to no more than `byte_limit` bytes and one, so that a few bytes never
    become
    many."""
    unpacker = zlib.decompressobj(PACKED[packing])
    size = 0
    async for chunk in chunks:
        while chunk:
            try:
                piece = unpacker.decompress(chunk, byte_limit + 1)
            except zlib.error:
                if packing != "deflate" or size:
                    raise BadReply("a reply whose packing is damaged", again=True) from None
                # Many servers leave the frame of zlib away, which the standard wants.
                packing = "deflate without its frame"
                unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
                continue
            size += len(piece)
            yield piece
            chunk = unpacker.unconsumed_tail
            if unpacker.eof:
                chunk = unpacker.unused_data  # further members of a gzip file
                if chunk:
                    unpacker = zlib.decompressobj(PACKED.get(packing, -zlib.MAX_WBITS))
    if not unpacker.eof:
        raise BadReply("a reply whose packing is cut short", again=True)


def _too_large(byte_limit: int) -> BadReply:
    return BadReply(f"a reply of more than {byte_limit:,} bytes", limit=byte_limit)
