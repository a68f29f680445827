"""The reply of an endpoint in the place of an answer: read as one, or refused for the reason that
stands in it.

A reply is of somebody else. Whatever it holds, reading it ends in an answer, in a refusal of that
one row, or in another try.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from crosswind.core.errors import one_line
from crosswind.models.language.chat_cache import Paid

MOST_TOKENS = 2**40
"""Beyond it a count of tokens is none."""

_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


class BadReply(Exception):
    """A whole reply with which nothing can be done: a fault of its own, which no network and no
    machine made.

    `again`: whether another try may bring a better one; `page`: it is no JSON, as what a wrong
    address or a proxy sends. `limit`: of a reply that was too large, the bytes that were allowed; 0
    for another fault.
    """

    def __init__(
        self, reason: str, *, again: bool = False, page: bool = False, limit: int = 0
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.again = again
        self.page = page
        self.limit = limit


class ErrorInside(NamedTuple):
    """The error that a server that ought to send a status wrote into a reply of status 200: a code,
    0 where it is no number, and words."""

    code: int
    message: str

    @property
    def passes(self) -> bool:
        """Whether it may go well next time."""
        return self.code in (408, 409, 429) or self.code >= 500


def read_reply(body: bytes) -> Paid | ErrorInside:
    """The first choice of a reply. A refusal of the model is an answer, and no content an empty
    one; both fit no class.

    Raises `BadReply`.
    """
    try:
        reply = json.loads(body, object_pairs_hook=_object)
    except RecursionError:
        raise BadReply("a reply that is nested too deeply") from None
    except ValueError:
        raise BadReply("a reply that is no JSON", again=True, page=True) from None
    if isinstance(reply, dict) and reply.get("error") and not reply.get("choices"):
        return _error_inside(reply["error"])
    try:
        message = reply["choices"][0]["message"]
        text = _text(message)
        model = reply.get("model") or ""
        if not isinstance(model, str):
            raise TypeError
    except (KeyError, IndexError, TypeError, AttributeError):
        raise BadReply("a reply without an answer in it", again=True) from None
    if _HALF_CHARACTER.search(text):
        raise BadReply("an answer with half a character in it")
    return Paid(text, model, *_tokens(reply.get("usage")))


class _Twice:
    """Stands for a value whose name occurs twice in one object with two values: which is meant,
    nobody knows."""


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        values[name] = _Twice() if name in values and not _same(values[name], value) else value
    return values


def _same(first: object, second: object) -> bool:
    # By what they are: 1 and true are equal to Python.
    return type(first) is type(second) and first == second


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    refusal = message.get("refusal")
    if isinstance(content, list):
        pieces = [_piece(content_piece) for content_piece in content]
        content = "".join(pieces)
    if not isinstance(content, str | None) or not isinstance(refusal, str | None):
        raise TypeError
    return content or refusal or ""


def _piece(content_piece: Mapping[str, Any]) -> str:
    text = content_piece.get("text") or content_piece.get("refusal") or ""
    if not isinstance(text, str):
        raise TypeError
    return text


def _tokens(usage: object) -> tuple[int, int]:
    """Tokens read and written; -1 for both where the server does not say."""
    if not isinstance(usage, dict):
        return -1, -1
    read = usage.get("prompt_tokens")
    written = usage.get("completion_tokens")
    if _is_count(read) and _is_count(written):
        return read, written
    return -1, -1


def _is_count(number: Any) -> TypeGuard[int]:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < MOST_TOKENS


def _error_inside(error: Any) -> ErrorInside:
    if not isinstance(error, dict):
        return ErrorInside(0, one_line(error, 200) if isinstance(error, str) else "")
    code = str(error.get("code"))
    message = error.get("message")
    number = 0
    if len(code) == 3 and code.isascii() and code.isdigit():
        number = int(code)
    return ErrorInside(number, one_line(message, 200) if isinstance(message, str) else "")
