"""Original files: downloaded over HTTP(S) alone, resumed where they broke off, and known by their
published hashes."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from crosswind.core.cards import Original
from crosswind.core.errors import DataError, shown
from crosswind.data.archives.checks import kind_of_file, reason, watched

Progress = Callable[[int, int], None]

BLOCK = 1 << 18
ATTEMPTS = 5
"""How often in a row nothing may come before a download is given up."""
TIMEOUT = 60.0
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_HANDLERS = (  # http and https alone, where a redirection leads elsewhere too
    urllib.request.ProxyHandler,
    urllib.request.UnknownHandler,
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPDefaultErrorHandler,
    urllib.request.HTTPRedirectHandler,
    urllib.request.HTTPErrorProcessor,
)


def verified(original: Original, path: Path) -> bool:
    """Whether a file is the published one, by its hash; False where it has another size, or where
    no hash is published.

    What was found is remembered beside the file, with its size and time of change, so that a file
    is hashed once. Raises `DataError` for a file of the published size with another hash: it is
    damaged.
    """
    published_hash, kind = (original.sha256, "sha256") if original.sha256 else (original.md5, "md5")
    try:
        state = path.stat()
        if not published_hash or original.size not in (0, state.st_size):
            return False
        verified_file = {
            "size": state.st_size,
            "changed": state.st_mtime_ns,
            kind: published_hash.lower(),
        }
        with contextlib.suppress(OSError, ValueError):
            if json.loads(_memo(path).read_text(encoding="utf-8")) == verified_file:
                return True
        with watched(path, "checking") as file:
            actual_hash = hashlib.file_digest(
                file, lambda: hashlib.new(kind, usedforsecurity=False)
            ).hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {reason(error)}") from None
    if actual_hash == published_hash.lower():
        with contextlib.suppress(
            OSError
        ):  # a folder that cannot be written is read without a memory
            _memo(path).write_text(json.dumps(verified_file), encoding="utf-8")
        return True
    if original.size:
        raise _wrong(path, f"has the {kind} {actual_hash}, not {published_hash}")
    return False


def fetch(
    original: Original,
    folder: Path,
    on_progress: Progress | None = None,
    *,
    timeout: float = TIMEOUT,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    """The path of an original file in `folder`, downloaded unless it is there.

    What has come lies in NAME.part until it is whole and its hash is right; a later call goes on
    where an earlier one broke off. `on_progress(done, all)` is told bytes; `all` is 0 where nobody
    knows. A server that does not answer within `timeout` seconds, breaks off or is busy is asked
    again after 1, 2, 4 and 8 seconds, or as many as it says. Raises `DataError` in one sentence for
    a file that is not there, a page in its place, another size or hash (the part is then removed),
    and a full disk.
    """
    path = folder / original.name
    if urlsplit(original.url).scheme not in ("http", "https"):
        raise DataError(
            f"{original.name} is fetched over http or https only, not from {shown(original.url)}"
        )
    if not (original.sha256 or original.md5):
        raise DataError(
            f"{original.name} is not fetched: nobody knows its hash, so what came could be anything"
        )
    if path.exists():
        _refuse_other(original, path)
        return path
    partial_file = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        resumed = partial_file.exists()
        while not (
            resumed and _is_right(original, partial_file)
        ):  # a part that is whole already is taken
            _finish(
                original, partial_file, on_progress or (lambda done, total: None), timeout, sleep
            )
            try:
                _refuse_other(original, partial_file)
                break
            except DataError:
                partial_file.unlink(missing_ok=True)
                if not resumed:
                    raise
                # the beginning was of an earlier download: the file may have changed since
                resumed = False
        os.replace(partial_file, path)
    except OSError as error:
        problem = f"{original.name} cannot be written to {folder}: {reason(error)}"
        raise DataError(problem) from None
    with contextlib.suppress(OSError):
        _memo(partial_file).replace(_memo(path))
    return path


def _memo(path: Path) -> Path:
    return path.with_name(f".{path.name}.hash")


def _wrong(path: Path, fault: str) -> DataError:
    problem = (
        f"{path.name.removesuffix('.part')} {fault} in {path.parent}: it is damaged, or not the"
        " published file"
    )
    return DataError(problem)


def _refuse_other(original: Original, path: Path) -> None:
    size = path.stat().st_size
    if original.size not in (0, size):
        raise _wrong(path, f"has {size:,} bytes, not {original.size:,}")
    if not verified(dataclasses.replace(original, size=size), path):
        raise _wrong(path, "is empty")


def _is_right(original: Original, path: Path) -> bool:
    try:
        _refuse_other(original, path)
    except DataError:
        return False
    return True


class _Again(Exception):
    """An error that may not come again after `wait` seconds at least."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        self.why = why
        self.wait = wait


def _finish(
    original: Original,
    partial_file: Path,
    on_progress: Progress,
    timeout: float,
    sleep: Callable[[float], None],
) -> None:
    """Fill the part to its end, over as many answers as it takes."""
    failures = 0
    while True:
        have = partial_file.stat().st_size if partial_file.exists() else 0
        if original.size and have >= original.size:
            return
        try:
            if _ask(original, partial_file, have, on_progress, timeout):
                return
            why, wait = "it broke off", 0.0
        except _Again as error:
            why = error.why
            wait = error.wait
        now = partial_file.stat().st_size if partial_file.exists() else 0
        failures = 0 if now > have else failures + 1
        if failures >= ATTEMPTS:
            kept_words = ""
            if now:
                kept_words = f"; {now:,} bytes are kept, and the next call goes on from there"
            problem = (
                f"{original.name} cannot be fetched from {original.url}: {why}, {failures} times in"
                f" a row{kept_words}"
            )
            raise DataError(problem)
        sleep(max(wait, float(2 ** max(0, failures - 1))))


def _ask(
    original: Original, partial_file: Path, have: int, on_progress: Progress, timeout: float
) -> bool:
    """Ask once for what follows the first `have` bytes and append what comes; whether that was all
    of it."""
    url = original.url
    failed = f"{original.name} cannot be fetched"
    request = urllib.request.Request(
        url, headers={"User-Agent": "crosswind", "Accept-Encoding": "identity"}
    )
    if have:
        request.add_header("Range", f"bytes={have}-")
    opener = urllib.request.OpenerDirector()
    for handler in _HANDLERS:
        opener.add_handler(handler())
    try:
        with opener.open(request, timeout=timeout) as answer:
            return _take(original, partial_file, have, answer, on_progress)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and have:  # the part is longer than the file
                partial_file.unlink()
                raise _Again("it has no such part") from None
            if error.code in _AGAIN:
                wait = str(error.headers.get("Retry-After")).strip()
                seconds = min(60.0, float(wait)) if wait.isdecimal() else 0.0
                raise _Again(f"the server says {error.code} {error.reason}", seconds) from None
            problem = f"{failed}: {url} says {error.code} {error.reason}"
            raise DataError(problem) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, socket.gaierror) and not have:
            raise DataError(
                f"{failed}: {urlsplit(url).hostname} is not found; is this machine online?"
            ) from None
        if isinstance(error.reason, ssl.SSLError) and not isinstance(
            error.reason, ssl.SSLEOFError | ssl.SSLZeroReturnError
        ):
            raise DataError(f"{failed}: {url} is not to be trusted: {error.reason}") from None
        if isinstance(error.reason, Exception):
            why = reason(error.reason)
        else:
            why = str(error.reason)
        raise _Again(why) from None
    except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise _Again(reason(error)) from None


def _take(
    original: Original, partial_file: Path, have: int, answer: Any, on_progress: Progress
) -> bool:
    goes_on = answer.status == 206
    if goes_on and not re.match(rf"\s*bytes\s+{have}-", answer.headers.get("Content-Range", "")):
        partial_file.unlink(missing_ok=True)
        raise _Again("it gave another part than asked for")
    start = done = have if goes_on else 0
    length = answer.length
    total = original.size or (done + length if length is not None else 0)
    page = DataError(
        f"{original.url} gives a web page and not {original.name}: it has moved, or asks for"
        " something first"
    )
    if "text/html" in answer.headers.get("Content-Type", "").lower():
        raise page
    if length is not None and done + length != total:
        problem = (
            f"{original.url} gives {done + length:,} bytes and not the {total:,} of {original.name}"
        )
        raise DataError(problem)
    if total and shutil.disk_usage(partial_file.parent).free < total - done:
        raise DataError(
            f"{original.name} needs {total - done:,} bytes in {partial_file.parent}, which has not"
            " so much left"
        )
    with partial_file.open("ab" if goes_on else "wb") as file:
        while block := _next(answer):
            file.write(block)
            done += len(block)
            if original.size and done > original.size:
                partial_file.unlink()
                raise DataError(
                    f"{original.url} gives more than the {original.size:,} bytes of {original.name}"
                )
            on_progress(done, total)
    if not start and kind_of_file(partial_file) == "page":
        partial_file.unlink()
        raise page
    if length is not None:
        return done - start == length
    return original.size in (0, done)


def _next(answer: Any) -> bytes:
    try:
        return bytes(answer.read(BLOCK))
    except http.client.IncompleteRead as error:
        return error.partial
    except (http.client.HTTPException, OSError):
        return b""  # what has come is kept, and what lacks is asked for again
