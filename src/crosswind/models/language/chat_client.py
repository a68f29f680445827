"""Questions to an endpoint that speaks OpenAI's protocol for chats, through the official client.

The key comes from the environment and stays in this process: every text that leaves this module has
it blotted out.
"""

from __future__ import annotations

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
from crosswind.core.types import digest
from crosswind.models.language.chat_cache import AnswerCache, Paid, Refusal
from crosswind.models.language.chat_reply import BadReply, ErrorInside, read_reply

if TYPE_CHECKING:
    from crosswind.models.language.chat_http import ChatHttp, SentOn

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds before the second try, twice as many before each further one, up to the longest."""

PATIENCE = 600.0
"""The longest wait, in seconds, that a server may ask for."""

READY_SECONDS = 10.0
REPLY_BYTES = 1 << 20
BAD_REPLIES = 3
"""Tries after which a reply that may get better is what the endpoint says."""

WRONG_ADDRESS = 20
"""Questions to which an endpoint that never answered sends what is no JSON, until its address is
taken for a wrong one."""

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
        """As two variables of the environment say; without an address it is OpenAI's. Raises
        `InputError`."""
        for knob, name in (("key_variable", key_variable), ("url_variable", url_variable)):
            if not re.fullmatch(
                r"[A-Za-z_][A-Za-z0-9_]*", name
            ):  # not shown: it may be the key itself
                raise InputError(
                    knob,
                    "must be the name of a variable of the environment, such as OPENAI_API_KEY, and"
                    " no key or address",
                )
        key = os.environ.get(key_variable, "").strip()
        url = _url_in(url_variable)
        if not key:
            problem = (
                "set it to the key of the endpoint (any word for a server that asks for none);"
                f" {url_variable} is its address"
            )
            raise InputError(key_variable, f"is not set: {problem}")
        if not key.isascii() or not key.isprintable() or " " in key:
            raise InputError(key_variable, "holds characters that no key has; set it again")
        try:
            url_parts = urlsplit(url)
            good = (
                url_parts.scheme in ("http", "https")
                and bool(url_parts.hostname)
                and url_parts.port != 0
                and "@" not in url_parts.netloc
            )
        except ValueError:
            good = False
        if not good:
            raise InputError(
                url_variable,
                "must be an address such as http://127.0.0.1:8000/v1, without a user name or"
                " password",
            )
        return cls(url, key, url_variable, key_variable)

    @property
    def host(self) -> str:
        """The endpoint's name in errors: that of the machine, with its port."""
        return self.hidden(urlsplit(self.url).netloc)

    def hidden(self, text: str) -> str:
        """A text without the key; a word for a server that asks for none is left in answers."""
        if len(self.key) >= LEAST_KEY:
            return text.replace(self.key, "[key]")
        return text

    @contextmanager
    def client(self, seconds: float, most_bytes: int = REPLY_BYTES) -> Iterator[ChatHttp]:
        """The client, which makes each request once; an answer may take `seconds` in all and
        `most_bytes`."""
        from crosswind.models.language.chat_http import ChatHttp

        with ChatHttp(self.key, self.url, seconds, most_bytes) as client:
            yield client

    def check(self) -> None:
        """Ask for the list of models, which costs nothing. Raises `InputError` where nobody answers
        or the key is refused."""
        import openai

        from crosswind.models.language.chat_http import SentOn

        with self.client(READY_SECONDS) as client:
            try:
                client.models()
            except (openai.AuthenticationError, openai.PermissionDeniedError):
                raise InputError(
                    self.key_variable, f"{self.host} refuses the key; set the key of this endpoint"
                ) from None
            except openai.APIStatusError:
                pass  # not every server has a list
            except BadReply:
                pass  # nor one that is short
            except SentOn as redirect:
                raise InputError(self.url_variable, self.sent_on(redirect)) from None
            except (openai.APIConnectionError, TimeoutError):
                raise InputError(
                    self.url_variable,
                    f"{self.host} cannot be reached; set the address of a running server",
                ) from None

    def sent_on(self, redirect: SentOn) -> str:
        """The sentence about an endpoint that names another address; neither key nor question goes
        there."""
        other_host = self.hidden(redirect.host)
        return (
            f"{self.host} sends on to {other_host} (status {redirect.status}), which gets neither"
            " the question nor the key; if that is the endpoint that is meant, set"
            f" {self.url_variable} to its address"
        )


def address_of(url_variable: str) -> str:
    """A digest of the address that a variable of the environment names: by it what is no answer is
    kept."""
    return digest([_url_in(url_variable)])


def _url_in(variable: str) -> str:
    return os.environ.get(variable, "").strip() or "https://api.openai.com/v1"


@dataclass
class Asker:
    """Asks with patience: `tries` for each question, and no more tokens than `most` in a budget.

    `model`: the name that is asked for; `served`: another name that answers may carry. Threads may
    ask at once.
    """

    endpoint: Endpoint
    client: ChatHttp
    cache: AnswerCache
    model: str
    served: str | None = None
    tries: int = 8
    budget: str = ""
    most: int | None = None
    most_bytes: int = REPLY_BYTES
    stopped: threading.Event = field(default_factory=threading.Event)
    _jitter: random.Random = field(default_factory=random.Random)  # decides no number
    _pages: _Pages = field(default_factory=lambda: _Pages())

    def stop(self) -> None:
        """Ask nothing more, and let go of what is under way."""
        self.stopped.set()
        self.client.stop()

    def ask(
        self, name: str, family: str, request: Mapping[str, Any], read: int, written: int
    ) -> str | Refusal | None:
        """The answer to one question, or why there is none, committed to the cache; None where
        another question stopped all.

        `read`, `written`: input tokens as estimated and the most output tokens, counted before each
        try and put right after it. Raises `DataError`.
        """
        try:
            with self.cache.alone(name, self.stopped):
                return self._tried(name, family, request, read, written)
        except BaseException:
            self.stopped.set()  # at once: others would go on to spend
            raise

    def _tried(
        self, name: str, family: str, request: Mapping[str, Any], read: int, written: int
    ) -> str | Refusal | None:
        reason = ""
        tokens = read + written
        address = address_of(self.endpoint.url_variable)
        bad_replies = 0
        for attempt in range(self.tries):
            if self.stopped.is_set():
                return None
            cached = self.cache.known([name])  # another process asked meanwhile
            if cached:
                return cached[name]
            refused = self.cache.refused([name], address, self.most_bytes)
            if refused:
                return refused[name]
            if not self.cache.reserve(self.budget, tokens, self.most):
                raise DataError(
                    f"the limit of {self.most:,} tokens is reached: budget {self.budget!r} has"
                    f" spent {self.cache.spent(self.budget):,} and the next request may take"
                    f" {tokens:,}; raise most_tokens, or name another budget ({_AGAIN})"
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
            except BadReply as fault:
                bad_replies += 1
                if not fault.again or bad_replies == min(BAD_REPLIES, self.tries):
                    return self._refuse(name, family, fault)
                self.stopped.wait(self._seconds(attempt, None))
                continue
            except DataError:
                self.cache.give_back(self.budget, tokens)
                raise
            if paid.input_tokens < 0:  # the server does not say
                output_tokens = min(written, rough(paid.text))
                paid = paid._replace(input_tokens=read, output_tokens=output_tokens)
            self._check_name(
                paid.model
            )  # what another model says is paid for, and is no answer to this question
            self.cache.keep(name, family, paid, self.budget, tokens)
            self._pages.answered(self.cache)
            return paid.text
        problem = (
            f"{self.endpoint.host} did not answer in {self.tries} tries, the last time for {reason}"
            f" ({_AGAIN})"
        )
        raise DataError(problem)

    def _refuse(self, name: str, family: str, fault: BadReply) -> Refusal:
        """Keep a reply that is no answer as what this row has, so that it is not paid for again."""
        reason = self.endpoint.hidden(fault.reason)
        refusal = Refusal(self.endpoint.host, reason, fault.limit)
        address = address_of(self.endpoint.url_variable)
        if not fault.page or self.cache.answers_of(family):
            self.cache.refuse(name, address, refusal)
        elif self._pages.seen(self.cache, name, address, refusal) >= WRONG_ADDRESS:
            problem = (
                f"{refusal.host} sent {refusal.reason} to {WRONG_ADDRESS} questions and answered"
                f" none; set {self.endpoint.url_variable} to the address of an endpoint, which"
                " often ends in /v1"
            )
            raise DataError(problem)
        return refusal

    def settle(self) -> None:
        """Keep what is no JSON although the endpoint answered nothing else: its questions were few,
        and all are asked."""
        self._pages.answered(self.cache)

    def _once(self, request: Mapping[str, Any]) -> Paid:
        import openai

        from crosswind.models.language.chat_http import SentOn

        try:
            # As it came: the client's own reading passes answers that are no answers.
            paid = read_reply(self.client.ask(request))
        except SentOn as redirect:
            raise DataError(self.endpoint.sent_on(redirect)) from None
        except openai.APIStatusError as error:
            if (
                error.status_code == 400 and error.code in _FILTERED
            ):  # of this row alone: an answer, as other refusals are
                return Paid(f"[{error.code}]", "", 0, 0)
            raise self._refused(error) from None
        except TimeoutError:
            raise _Passing("want of a whole answer in time", charged=True) from None
        except openai.APIConnectionError as error:
            unsent = type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout")
            raise _Passing(
                "want of a connection" if unsent else "a cut connection", charged=not unsent
            ) from None
        except openai.OpenAIError as error:
            problem = f"{self.endpoint.host}: {self._quoted(str(error))}"
            raise DataError(problem) from None
        if isinstance(paid, ErrorInside):
            quoted = self._quoted(f"{paid.code}: {paid.message}" if paid.code else paid.message)
            if paid.passes:
                raise _Passing(f"an error in the place of an answer ({quoted})")
            raise BadReply(f"an error in the place of an answer ({quoted})", again=True)
        text = self.endpoint.hidden(paid.text)
        model = one_line(self.endpoint.hidden(paid.model), 200)
        return paid._replace(text=text, model=model)

    def _refused(self, error: Any) -> Exception:
        status = int(error.status_code)
        message = self._quoted(error.message)
        where = self.endpoint.host
        set_ = f"set {self.endpoint.key_variable}"
        if status in (401, 403):
            return DataError(
                f"{where} refuses the key or its rights ({status}: {message}); {set_} to a key of"
                " this endpoint"
            )
        if status == 404:
            problem = (
                f"{where} has no model {self.model!r} at this address (404: {message}); set the"
                f" knob `name`, or {self.endpoint.url_variable}"
            )
            return DataError(problem)
        if status == 429 and getattr(error, "code", None) == "insufficient_quota":
            return DataError(
                f"{where} says that the account has no tokens left ({message}); pay there, or"
                f" {set_} to another ({_AGAIN})"
            )
        if status in (408, 409, 429) or status >= 500:
            after = _wanted(error.response.headers)
            if after is not None and after > PATIENCE:
                return DataError(
                    f"{where} asks to wait {after:,.0f} seconds before the next request; do so"
                    f" ({_AGAIN})"
                )
            return _Passing(f"status {status} ({message})", after)
        return DataError(f"{where} refuses the request ({status}: {message})")

    def _check_name(self, model_name: str) -> None:
        # A dated version is what such a name stands for.
        dated = (
            model_name.startswith(f"{self.model}-")
            and model_name[len(self.model) :].replace("-", "").isdigit()
        )
        if model_name and model_name not in (self.model, self.served) and not dated:
            problem = (
                f"asked for the model {self.model!r}, {self.endpoint.host} answered as"
                f" {model_name!r}; set `name` to the model that is meant, or `served_name` to what"
                " the server calls it"
            )
            raise DataError(problem)

    def _quoted(self, text: str) -> str:
        return one_line(self.endpoint.hidden(text), 200)

    def _seconds(self, attempt: int, after: float | None) -> float:
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0**attempt)
        return (after or 0.0) + wait * (0.1 if after is not None else 1.0) * self._jitter.uniform(
            0.5, 1.0
        )


def rough(text: str) -> int:
    """About the number of tokens of a text: one for four characters, as English has, rounded up."""
    return -(-len(text) // 4)


class _Passing(Exception):
    """An error that may not come next time: `after` seconds, if the server says so; `charged`: the
    server may have answered all the same."""

    def __init__(self, reason: str, after: float | None = None, *, charged: bool = False) -> None:
        super().__init__(reason)
        self.after = after
        self.charged = charged


def _wanted(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait: a number, or a date."""
    header = headers.get("retry-after", "")
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


class _Pages:
    """A reply other than JSON from an endpoint that has not answered yet: it may be of a wrong
    address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answered = False
        self._waiting: list[tuple[str, str, Refusal]] = []

    def seen(self, cache: AnswerCache, name: str, address: str, refusal: Refusal) -> int:
        """Take one in; returns how many wait. It is kept at once where the endpoint has
        answered."""
        with self._lock:
            self._waiting.append((name, address, refusal))
            self._commit(cache)
            return len(self._waiting)

    def answered(self, cache: AnswerCache) -> None:
        """The endpoint has answered something: what waits is kept."""
        with self._lock:
            self._answered = True
            self._commit(cache)

    def _commit(self, cache: AnswerCache) -> None:
        while self._answered and self._waiting:
            cache.refuse(*self._waiting.pop())
