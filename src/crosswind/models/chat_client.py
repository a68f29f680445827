"""Questions to an endpoint that speaks OpenAI's protocol for chats, through the official client.

The key comes from the environment and stays in this process: every text that leaves this module has it blotted out.
"""

from __future__ import annotations

import json
import os
import random
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from crosswind.core.errors import DataError, InputError, one_line
from crosswind.models.chat_cache import AnswerCache, Paid

if TYPE_CHECKING:
    from openai import OpenAI

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds before the second try, twice as many before each further one, up to the longest."""

PATIENCE = 600.0
"""The longest wait, in seconds, that a server may ask for."""

READY_SECONDS = 10.0
LEAST_KEY = 12
"""Characters from which on a key is one, and not a word that stands for none."""

_FILTERED = ("content_filter", "content_policy_violation")
_AGAIN = "what was answered is kept: run again with --retry-failed"


@dataclass(frozen=True)
class Endpoint:
    """Where questions go, and the key that they carry; neither is ever written."""

    url: str = field(repr=False)
    key: str = field(repr=False)
    url_variable: str = "OPENAI_BASE_URL"
    key_variable: str = "OPENAI_API_KEY"

    @classmethod
    def of_environment(cls, url_variable: str, key_variable: str) -> Endpoint:
        """As two variables of the environment say; without an address it is OpenAI's. Raises `InputError`."""
        for knob, name in (("key_variable", key_variable), ("url_variable", url_variable)):
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):  # not shown: it may be the key itself
                raise InputError(
                    knob, "must be the name of a variable of the environment, such as OPENAI_API_KEY, and no key or address"
                )
        key, url = os.environ.get(key_variable, "").strip(), os.environ.get(url_variable, "").strip()
        if not key:
            problem = f"set it to the key of the endpoint (any word for a server that asks for none); {url_variable} is its address"
            raise InputError(key_variable, f"is not set: {problem}")
        if not key.isascii() or not key.isprintable() or " " in key:
            raise InputError(key_variable, "holds characters that no key has; set it again")
        url = url or "https://api.openai.com/v1"
        try:
            parts = urlsplit(url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        except ValueError:
            good = False
        if not good:
            raise InputError(url_variable, "must be an address such as http://127.0.0.1:8000/v1, without a user name or password")
        return cls(url, key, url_variable, key_variable)

    @property
    def host(self) -> str:
        """What errors call it: the name of the machine, with its port."""
        return self.hidden(urlsplit(self.url).netloc)

    def hidden(self, text: str) -> str:
        """A text without the key; a word for a server that asks for none is left in answers."""
        return text.replace(self.key, "[key]") if len(self.key) >= LEAST_KEY else text

    @contextmanager
    def client(self, seconds: float) -> Iterator[OpenAI]:
        """The official client, which tries once; an answer may take `seconds`."""
        from openai import OpenAI

        with OpenAI(api_key=self.key, base_url=self.url, timeout=seconds, max_retries=0) as client:
            yield client

    def check(self) -> None:
        """Ask for the list of models, which costs nothing. Raises `InputError` where nobody answers or the key is refused."""
        import openai

        with self.client(READY_SECONDS) as client:
            try:
                client.models.with_raw_response.list()
            except (openai.AuthenticationError, openai.PermissionDeniedError):
                raise InputError(self.key_variable, f"{self.host} refuses the key; set the key of this endpoint") from None
            except openai.APIStatusError:
                pass  # not every server has a list
            except openai.APIConnectionError:
                raise InputError(self.url_variable, f"{self.host} cannot be reached; set the address of a running server") from None


@dataclass
class Asker:
    """Asks with patience: `tries` for each question, and no more tokens than `most` in a budget.

    `model`: the name that is asked for; `served`: another name that answers may carry. Threads may ask at once.
    """

    endpoint: Endpoint
    client: OpenAI
    cache: AnswerCache
    model: str
    served: str | None = None
    tries: int = 8
    budget: str = ""
    most: int | None = None
    stopped: threading.Event = field(default_factory=threading.Event)
    _jitter: random.Random = field(default_factory=random.Random)  # decides no number

    def ask(self, name: str, family: str, request: Mapping[str, Any], read: int, written: int) -> str | None:
        """The answer to one question, committed to the cache; None where another question stopped all of them.

        `read`, `written`: input tokens as estimated and the most output tokens, counted before each try and put right after it.
        Raises `DataError`.
        """
        try:
            with self.cache.alone(name, self.stopped):
                return self._tried(name, family, request, read, written)
        except BaseException:
            self.stopped.set()  # at once: others would go on to spend
            raise

    def _tried(self, name: str, family: str, request: Mapping[str, Any], read: int, written: int) -> str | None:
        reason, tokens = "", read + written
        for attempt in range(self.tries):
            if self.stopped.is_set():
                return None
            known = self.cache.known([name])  # another process asked meanwhile
            if known:
                return known[name]
            if not self.cache.reserve(self.budget, tokens, self.most):
                raise DataError(
                    f"the limit of {self.most:,} tokens is reached: budget {self.budget!r} has spent "
                    f"{self.cache.spent(self.budget):,} and the next request may take {tokens:,}; raise most_tokens, "
                    f"or name another budget ({_AGAIN})"
                )
            try:
                paid = self._once(request)
            except _Passing as trouble:
                if not trouble.charged:
                    self.cache.give_back(self.budget, tokens)
                reason = str(trouble)
                if attempt + 1 < self.tries:
                    self.stopped.wait(self._seconds(attempt, trouble.after))
                continue
            except DataError:
                self.cache.give_back(self.budget, tokens)
                raise
            if paid.input_tokens < 0:  # the server does not say
                paid = paid._replace(input_tokens=read, output_tokens=min(written, rough(paid.text)))
            self._check_name(paid.model)  # what another model says is paid for, and is no answer to this question
            self.cache.keep(name, family, paid, self.budget, tokens)
            return paid.text
        raise DataError(f"{self.endpoint.host} did not answer in {self.tries} tries, the last time for {reason} ({_AGAIN})")

    def _once(self, request: Mapping[str, Any]) -> Paid:
        import openai

        try:
            # As it came: the client's own reading passes answers that are no answers.
            reply = self.client.chat.completions.with_raw_response.create(**request)
            paid = _read(reply.http_response.text)
        except openai.APIStatusError as error:
            if error.status_code == 400 and error.code in _FILTERED:  # of this row alone: an answer, as other refusals are
                return Paid(f"[{error.code}]", "", 0, 0)
            raise self._refused(error) from None
        except openai.APITimeoutError:
            raise _Passing("want of an answer in time", charged=True) from None
        except openai.APIConnectionError as error:
            unsent = type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout")
            raise _Passing("want of a connection" if unsent else "a cut connection", charged=not unsent) from None
        except openai.OpenAIError as error:
            raise DataError(f"{self.endpoint.host}: {self._quoted(str(error))}") from None
        return paid._replace(text=self.endpoint.hidden(paid.text), model=one_line(self.endpoint.hidden(paid.model), 200))

    def _refused(self, error: Any) -> Exception:
        status, told = int(error.status_code), self._quoted(error.message)
        where, set_ = self.endpoint.host, f"set {self.endpoint.key_variable}"
        if status in (401, 403):
            return DataError(f"{where} refuses the key or its rights ({status}: {told}); {set_} to a key of this endpoint")
        if status == 404:
            return DataError(
                f"{where} has no model {self.model!r} at this address (404: {told}); set the knob `name`, or "
                f"{self.endpoint.url_variable}"
            )
        if status == 429 and getattr(error, "code", None) == "insufficient_quota":
            return DataError(
                f"{where} says that the account has no tokens left ({told}); pay there, or {set_} to another ({_AGAIN})"
            )
        if status in (408, 409, 429) or status >= 500:
            after = _wanted(error.response.headers)
            if after is not None and after > PATIENCE:
                return DataError(f"{where} asks to wait {after:,.0f} seconds before the next request; do so ({_AGAIN})")
            return _Passing(f"status {status} ({told})", after)
        return DataError(f"{where} refuses the request ({status}: {told})")

    def _check_name(self, given: str) -> None:
        # A dated version is what such a name stands for.
        dated = given.startswith(f"{self.model}-") and given[len(self.model) :].replace("-", "").isdigit()
        if given and given not in (self.model, self.served) and not dated:
            raise DataError(
                f"asked for the model {self.model!r}, {self.endpoint.host} answered as {given!r}; "
                "set `name` to the model that is meant, or `served_name` to what the server calls it"
            )

    def _quoted(self, text: str) -> str:
        return one_line(self.endpoint.hidden(text), 200)

    def _seconds(self, attempt: int, after: float | None) -> float:
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0**attempt)
        return (after or 0.0) + wait * (0.1 if after is not None else 1.0) * self._jitter.uniform(0.5, 1.0)


def rough(text: str) -> int:
    """About the number of tokens of a text: one for four characters, as English has, rounded up."""
    return -(-len(text) // 4)


class _Passing(Exception):
    """What may go well next time: `after` seconds, if the server says so; `charged`: the server may have answered all the same."""

    def __init__(self, reason: str, after: float | None = None, *, charged: bool = False) -> None:
        super().__init__(reason)
        self.after, self.charged = after, charged


def _wanted(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait: a number, or a date."""
    given = headers.get("retry-after", "")
    try:
        return max(0.0, float(given))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(given) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _read(body: str) -> Paid:
    """The first choice of a reply. A refusal is an answer, and no content an empty one; both fit no class."""
    try:
        reply = json.loads(body)
        message = reply["choices"][0]["message"]
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(str(part.get("text") or part.get("refusal") or "") for part in content)
        text = content or message.get("refusal") or ""
        usage = reply.get("usage") or {}
        read, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
        model = reply.get("model") or ""
        if not isinstance(text, str) or not isinstance(model, str):
            raise TypeError
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise _Passing("an answer that is none: bad JSON, or without a choice", charged=True) from None
    good = all(isinstance(number, int) and 0 <= number < 2**40 for number in (read, written))
    return Paid(text, model, *((read, written) if good else (-1, -1)))
