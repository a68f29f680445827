"""Downloads of original files: over HTTP(S) alone, resumed where they broke off, and taken only when their hash is right."""

from __future__ import annotations

import contextlib
import email.message
import hashlib
import http.client
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
from typing import IO, Any
from urllib.parse import urlsplit

from crosswind.core.cards import Original
from crosswind.core.errors import DataError, shown
from crosswind.data.archives.parts import kind_of_file, safe_name

__all__ = ["check_original", "fetch"]

Progress = Callable[[int, int], None]

BLOCK = 1 << 18
ATTEMPTS = 5
"""How often in a row nothing may come before a download is given up."""
TIMEOUT = 60.0
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_BROKEN = (http.client.HTTPException, urllib.error.URLError, OSError)


def fetch(
    original: Original,
    folder: Path,
    on_progress: Progress | None = None,
    *,
    timeout: float = TIMEOUT,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    """The path of an original file in `folder`, downloaded unless it is there.

    What has come lies in NAME.part until it is whole and its hash is right; a later call goes on where an earlier one broke off.
    `on_progress(done, all)` is told bytes; `all` is 0 where nobody knows. A server that does not answer within `timeout` seconds,
    breaks off or is busy is asked again after 1, 2, 4 and 8 seconds, or as many as it says. Raises `DataError` in one sentence for
    a file that is not there, a page in its place, another size or hash (the part is then removed), and a full disk.
    """
    place = folder / safe_name(original.name, folder)
    _check_address(original, original.url)
    if not (original.sha256 or original.md5):
        raise DataError(f"{original.name} is not fetched: nobody knows its hash, so what came could be anything")
    if place.exists():
        check_original(original, place)
        return place
    part = place.with_name(f"{place.name}.part")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        resumed = _download(original, part, on_progress, timeout, sleep)
        try:
            check_original(original, part)
        except DataError:
            part.unlink(missing_ok=True)
            if not resumed:
                raise
            # The beginning was of an earlier download: the file may have changed since, and is fetched whole.
            _download(original, part, on_progress, timeout, sleep)
            _checked_or_removed(original, part)
        os.replace(part, place)
    except OSError as error:
        raise DataError(f"{original.name} cannot be written to {folder}: {error.strerror or error}") from None
    return place


def check_original(original: Original, path: Path) -> None:
    """Raises `DataError` where a file has not the size or the hash that its card says."""
    size = path.stat().st_size
    name = path.name.removesuffix(".part")
    if original.size and size != original.size:
        raise DataError(f"{name} has {size:,} bytes in {path.parent}, not {original.size:,}: it is not the file it should be")
    wanted, kind = (original.sha256, "sha256") if original.sha256 else (original.md5, "md5")
    if not wanted:
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
    if found != wanted.lower():
        raise DataError(
            f"{name} in {path.parent} has the {kind} {found}, not {wanted}: it is damaged, or not the file it should be"
        )


def _checked_or_removed(original: Original, part: Path) -> None:
    try:
        check_original(original, part)
    except DataError:
        part.unlink(missing_ok=True)
        raise


def _download(original: Original, part: Path, on_progress: Progress | None, timeout: float, sleep: Callable[[float], None]) -> bool:
    """Fills the part to its end, over as many answers as it takes; whether it had a beginning from an earlier call."""
    have = part.stat().st_size if part.exists() else 0
    if original.size and have > original.size:
        part.unlink()
        have = 0
    resumed, failures = have > 0, 0
    while not original.size or have < original.size:
        try:
            if _one_answer(original, part, have, on_progress, timeout):
                break
            reason, wait = "it broke off", 0.0
        except _Again as error:
            reason, wait = error.reason, error.wait
        before, have = have, part.stat().st_size if part.exists() else 0
        failures = 0 if have > before else failures + 1
        if failures >= ATTEMPTS:
            kept = f"; {have:,} bytes are kept, and the next call goes on from there" if have else ""
            raise DataError(f"{original.name} cannot be fetched from {original.url}: {reason}, {failures} times in a row{kept}")
        sleep(max(wait, float(2 ** max(0, failures - 1))))
    return resumed


class _Again(Exception):
    """What may work when it is tried again, after `wait` seconds at least."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        self.reason, self.wait = reason, wait


def _one_answer(original: Original, part: Path, have: int, on_progress: Progress | None, timeout: float) -> bool:
    """Asks once and takes what comes; whether that was all of it."""
    request = urllib.request.Request(original.url, headers={"User-Agent": "crosswind", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = _opener(original).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and have:  # there is nothing from there on: all is here, or it was of another file
                with contextlib.suppress(DataError):
                    check_original(original, part)
                    return True
                part.unlink(missing_ok=True)
                raise _Again("it has no such part") from None
            if error.code in _AGAIN:
                raise _Again(f"the server says {error.code} {error.reason}", _asked_to_wait(error.headers)) from None
            raise DataError(f"{original.name} cannot be fetched: {original.url} says {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, socket.gaierror) and not have:
            host = urlsplit(original.url).hostname
            raise DataError(f"{original.name} cannot be fetched: {host} is not found; is this machine online?") from None
        if isinstance(error.reason, ssl.SSLError) and not isinstance(error.reason, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            raise DataError(f"{original.name} cannot be fetched: {original.url} is not to be trusted: {error.reason}") from None
        raise _Again(_said(error.reason)) from None
    except _BROKEN as error:
        raise _Again(_said(error)) from None
    with answer:
        return _take(original, answer, part, have, on_progress)


def _take(original: Original, answer: Any, part: Path, have: int, on_progress: Progress | None) -> bool:
    goes_on = answer.status == 206 and _begins_at(answer.headers.get("Content-Range", "")) == have
    if answer.status == 206 and not goes_on:
        part.unlink(missing_ok=True)
        raise _Again("it gave another part than asked for")
    done = have if goes_on else 0
    length = _number(answer.headers.get("Content-Length"))
    whole = original.size or (done + length if length is not None else 0)
    if "text/html" in answer.headers.get("Content-Type", "").lower() and not original.name.endswith((".html", ".htm")):
        raise _page(original)
    if length is not None and done + length != whole and "Content-Encoding" not in answer.headers:
        raise DataError(f"{original.url} gives {done + length:,} bytes and not the {whole:,} of {original.name}")
    if whole and shutil.disk_usage(part.parent).free < whole - done:
        raise DataError(f"{original.name} needs {whole - done:,} bytes in {part.parent}, which has not so much left")
    taken = 0
    with part.open("ab" if goes_on else "wb") as file:
        while block := _next(answer):
            file.write(block)
            taken += len(block)
            if original.size and done + taken > original.size:
                file.close()
                part.unlink()
                raise DataError(f"{original.url} gives more than the {original.size:,} bytes of {original.name}")
            if on_progress is not None:
                on_progress(done + taken, whole)
    if not done and kind_of_file(part) == "page" and not original.name.endswith((".html", ".htm")):
        part.unlink()
        raise _page(original)
    return taken == length if length is not None else not original.size or done + taken == original.size


def _next(answer: IO[bytes]) -> bytes:
    try:
        return answer.read(BLOCK)
    except http.client.IncompleteRead as error:
        return error.partial
    except _BROKEN:
        return b""  # what has come is kept, and what lacks is asked for again


def _page(original: Original) -> DataError:
    return DataError(f"{original.url} gives a web page and not {original.name}: it has moved, or asks for something first")


def _check_address(original: Original, url: str) -> None:
    if urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"{original.name} is fetched over http or https only, not from {shown(url)}")


def _opener(original: Original) -> urllib.request.OpenerDirector:
    """What opens http and https and nothing else, wherever a server may send us."""

    class Redirects(urllib.request.HTTPRedirectHandler):
        def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
            # The library refuses other addresses here by an error that calls them what they are not: a failing server.
            target = headers.get("location") or headers.get("uri")
            if target is not None and urlsplit(target).scheme not in ("", "http", "https"):
                fp.close()
                _check_address(original, target)
            return super().http_error_302(req, fp, code, msg, headers)

        http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        Redirects(),
    ):
        opener.add_handler(handler)
    return opener


def _begins_at(text: str) -> int:
    found = re.match(r"\s*bytes\s+(\d+)-", text)
    return int(found[1]) if found else -1


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,19}", text.strip()) else None


def _asked_to_wait(headers: email.message.Message) -> float:
    return float(min(60, _number(headers.get("Retry-After")) or 0))


def _said(error: object) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
