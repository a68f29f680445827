"""Printing and writing that never fail on a name.

The name of a file is bytes. Python holds those that are not UTF-8 as half characters (U+DC80 to
U+DCFF), which no encoding takes, and a terminal of an old locale takes little but ASCII. Both are
written as escapes: `M\\xfcnchen` for Latin-1's `ü`.
"""

from __future__ import annotations

import codecs
import json
import sys
from typing import Any, TextIO

from crosswind.core.errors import escaped_bytes

ESCAPES = "crosswind-escapes"
"""How an encoder treats what it has no bytes for: the word for `errors` of `str.encode` and `open`.
"""


LOCALE_REMEDY = "set PYTHONUTF8=1, or a locale of UTF-8 such as LC_ALL=C.UTF-8"


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    unencodable = escaped_bytes(text)
    return unencodable.encode("ascii", "backslashreplace").decode("ascii"), error.end


codecs.register_error(ESCAPES, _escape)


def utf8(text: str) -> bytes:
    """`text` in UTF-8, whatever it holds: half characters become escapes."""
    return text.encode("utf-8", ESCAPES)


def foreign_name(name: str) -> str | None:
    """The fault of a file's name that the file system's encoding cannot tell, and the remedy; None
    for any other name."""
    readable = escaped_bytes(name)
    if readable == name:
        return None
    encoding = sys.getfilesystemencoding()
    if encoding == "utf-8":
        return f"the name {readable} is not UTF-8; rename it"
    return f"the name {readable} is not {encoding}, the encoding of this locale; {LOCALE_REMEDY}"


def duration(seconds: float) -> str:
    """A length of time for a reader: "3.2 s", "4 min 05 s", "2 h 07 min", "3.1 days"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    if hours >= 48:
        return f"{seconds / 86400:.1f} days"
    if hours:
        return f"{hours} h {minutes_left:02d} min"
    return f"{minutes} min {rest:02d} s"


def json_text(value: Any, stream: TextIO, indent: int | None = 2) -> str:
    """`value` as JSON that `stream` can show: in letters where its encoding has them all, else in
    JSON's own escapes."""
    letters = json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=False)
    try:
        letters.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=True)
    return letters


def escape_output() -> None:
    """Have standard output and standard error write escapes for what their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(
            stream, "reconfigure", None
        )  # a stream that a program put there may have none
        if reconfigure is not None:
            reconfigure(errors=ESCAPES)
