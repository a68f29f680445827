"""The JavaScript that draws the figures of a page, kept in the user's folder of caches since making it takes seconds.

The folder is `$XDG_CACHE_HOME/crosswind` (without that `~/.cache/crosswind`; `%LOCALAPPDATA%\\crosswind` on Windows). Nothing
depends on it: where it cannot be read or written, or what lies there is damaged, the script is made anew.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["VEGA_LITE", "cache_file", "runtime"]

VEGA_LITE = "6.4"
"""The version of Vega-Lite that figures are described in and drawn with."""


@cache
def runtime() -> str:
    """The script, self-contained: Vega, Vega-Lite and Vega-Embed as vl-convert carries them."""
    path = cache_file()
    kept = _read(path) if path is not None else None
    if kept is not None:
        return kept
    import vl_convert

    library: Any = vl_convert  # its stub asks for a snippet; without one the bundle is the three libraries themselves
    text = str(library.javascript_bundle(vl_version=VEGA_LITE))
    if path is not None:
        _keep(path, text)
    return text


def cache_file() -> Path | None:
    """Where the script of the installed versions is kept; None where the user has no home."""
    from importlib.metadata import version

    given = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    try:
        folder = Path(given) if given and os.path.isabs(given) else Path.home() / ".cache"
    except RuntimeError:
        return None
    return folder / "crosswind" / f"vega-lite-{VEGA_LITE}-vl-convert-{version('vl-convert-python')}.js"


def _read(path: Path) -> str | None:
    # The first line is the hash of the rest: a file that was cut short or changed is as good as none.
    try:
        told, _, body = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return body.decode("utf-8") if told == _mark(body) else None


def _keep(path: Path, text: str) -> None:
    from crosswind.studies.artifacts import write_atomically

    body = text.encode("utf-8")
    try:
        write_atomically(path, _mark(body) + b"\n" + body)
    except OSError:
        pass  # a read-only home, a full disk: the next report makes the script again


def _mark(body: bytes) -> bytes:
    return b"// " + hashlib.sha256(body).hexdigest().encode()
