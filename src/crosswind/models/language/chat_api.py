"""A model behind an OpenAI-compatible endpoint, asked for each image or text."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.core.types import PART_MARK, digest
from crosswind.data.dataset import AttributedDataset
from crosswind.models.given.outside import Answers, doubt, inputs
from crosswind.models.language.chat_cache import AnswerCache, Refusal, cache_file
from crosswind.models.language.chat_client import Asker, Endpoint, address_of, rough
from crosswind.models.language.prompts import Prompted

if TYPE_CHECKING:
    from crosswind.shifts.split import RowSet

ROWS = 64
"""Rows whose images are held at once, beside those that are being asked about."""

SHOWN_ROWS = 10
"""Rows that a doubt names."""


class ChatQuestion(NamedTuple):
    """The question of one row: the name of its answer, the row's input, and its input tokens as
    estimated."""

    name: str
    x: Any
    tokens: int


class Foreseen(NamedTuple):
    """The questions that a set of rows would ask: the input tokens of each as estimated, by name,
    and the names of those that are answered. With enough answers known, also what answers to such
    questions took in the mean, input and output tokens."""

    tokens: dict[str, int]
    known: frozenset[str]
    usual: tuple[float, float] | None


class _Replies:
    """Questions that are being asked, and the answers so far by their names.

    `trouble`: the first error of an endpoint, after which nothing more is asked.
    """

    def __init__(self) -> None:
        self.answers = dict[str, str | Refusal]()
        self.pending: dict[Future[str | Refusal | None], str] = {}
        self.trouble: DataError | None = None

    def unasked(self, questions: Iterable[ChatQuestion]) -> Iterator[ChatQuestion]:
        """The questions that are neither answered nor being asked when their turn comes, until
        there is trouble."""
        for question in questions:
            if self.trouble is not None:
                return
            if question.name not in self.answers and question.name not in self.pending.values():
                yield question

    def collect(self, n_left: int) -> None:
        """Wait until at most so many questions are being asked."""
        while len(self.pending) > n_left:
            for future in wait(self.pending, return_when=FIRST_COMPLETED).done:
                name = self.pending.pop(future)
                try:
                    text = future.result()
                except DataError as error:
                    self.trouble = self.trouble or error
                else:
                    if text is not None:
                        self.answers[name] = text


@register("chat-api", kind="model")
@dataclass(frozen=True, kw_only=True)
class ChatApi(Prompted):
    """A model behind an endpoint that speaks OpenAI's protocol for chats: OpenAI's own, or a server
    as vLLM, Ollama, llama.cpp.

    Every row is one question, its image as a PNG beside the prompt, or its text within it. Address
    and key come from the environment. Answers are kept on this machine, so that the same question
    is paid for once.
    """

    name: str = knob(doc="the model, as the endpoint calls it")
    detail: str = knob(
        "auto",
        domain="{auto, low, high}",
        doc="how finely the model looks at an image, where it has a choice",
    )
    temperature: float | None = knob(
        1.0, domain="[0, 2]", source="Jeon et al. 2025, table 9", doc="null: not sent"
    )
    top_p: float | None = knob(
        1.0, domain="(0, 1]", source="Jeon et al. 2025, table 9", doc="null: not sent"
    )
    max_tokens: int = knob(200, domain="[1, inf)", doc="most tokens of an answer")
    max_tokens_field: str = knob(
        "max_tokens",
        domain="{max_tokens, max_completion_tokens}",
        doc="what the endpoint calls it; newer models of OpenAI want the second",
    )
    seed: int | None = knob(
        0,
        domain="[0, inf)",
        doc="of the drawing of answers, one for each question made from it; null: none is sent",
    )
    serving: str = knob(
        "", doc="a word of yours that tells two servings of one name apart, such as 4-bit"
    )
    served_name: str | None = knob(
        None, doc="another name by which the endpoint calls the model in its answers"
    )
    parallel: int = knob(8, domain="[1, 256]", doc="requests at once, of each worker process")
    tries: int = knob(8, domain="[1, 100]", doc="how often a request is made before the run fails")
    timeout: float = knob(
        120.0,
        domain="(0, inf)",
        doc="seconds that one try may take, from its first byte to the last of its reply",
    )
    reply_bytes: int = knob(
        1_048_576,
        domain="[1024, inf)",
        doc="the most bytes of a reply, unpacked; one that is larger is no answer",
    )
    most_tokens: int | None = knob(
        None,
        domain="[1, inf)",
        doc="the most tokens, read and written, that the budget may spend; null: no limit",
    )
    budget: str | None = knob(
        None, doc="the name under which tokens are counted; null: that of the model"
    )
    input_price: float | None = knob(
        None, domain="[0, inf)", doc="price of a million input tokens, for `crosswind plan`"
    )
    output_price: float | None = knob(
        None, domain="[0, inf)", doc="price of a million output tokens, for `crosswind plan`"
    )
    image_tokens: int | None = knob(
        None, domain="[0, inf)", doc="input tokens of an image; null: as GPT-4o counts them"
    )
    url_variable: str = knob(
        "OPENAI_BASE_URL", doc="the variable of the environment that holds the address"
    )
    key_variable: str = knob(
        "OPENAI_API_KEY", doc="the variable of the environment that holds the key"
    )

    unread = (
        "what answers at its endpoint is not part of a run's key; answers that are kept stay when"
        " it changes"
    )
    built = Form(
        trained=False,
        takes=("image", "text"),
        apart=(
            "max_tokens_field",
            "served_name",
            "parallel",
            "tries",
            "timeout",
            "reply_bytes",
            "most_tokens",
            "budget",
            "input_price",
            "output_price",
            "image_tokens",
            "url_variable",
            "key_variable",
        ),
    )
    extra = "chat"

    def ready(self) -> None:
        """See `Outside.ready`: there is a key, and somebody at the address who takes it."""
        self._endpoint().check()

    def answer(
        self, rows: RowSet, dataset: AttributedDataset, class_names: Sequence[str]
    ) -> Answers:
        """See `Outside.answer`."""
        input_spec = dataset.check_inputs()
        if input_spec.kind not in self.built.takes:
            raise DataError(
                f"chat-api takes images or texts, and the inputs of {dataset.name!r} are"
                f" {input_spec}"
            )
        question = self.question(class_names)
        texts = self.said(rows, dataset, question.text)
        return question.read(texts), None, texts

    def said(self, rows: RowSet, dataset: AttributedDataset, prompt: str) -> list[str]:
        """The texts that the model answers, in the order of the rows; what is not kept yet is
        asked. Raises `DataError`.

        Where a reply was no answer, a text says so in its place, and a doubt tells the rows.
        """
        family = self._family(prompt)
        names = list[str]()
        replies = _Replies()
        asker: Asker | None = None
        with AnswerCache(cache_file()) as cache, ExitStack() as stack:
            for questions in self.questions(rows, dataset, prompt):
                names_of_batch = [question.name for question in questions]
                names += names_of_batch
                unanswered = [name for name in names_of_batch if name not in replies.answers]
                replies.answers |= self._known(cache, unanswered)
                for question in replies.unasked(questions):
                    if asker is None:  # what is all known needs no key
                        asker = self._asker(cache, stack)
                        pool = stack.enter_context(ThreadPoolExecutor(self.parallel))
                        stack.callback(asker.stop)
                    reply = pool.submit(self._ask, asker, family, prompt, question)
                    replies.pending[reply] = question.name
                    replies.collect(2 * self.parallel)
                if replies.trouble is not None:
                    break
            replies.collect(0)
            if replies.trouble is None and asker is not None:
                asker.settle()
        answers_by_name = replies.answers
        trouble = replies.trouble
        if trouble is not None:
            done = sum(name in answers_by_name for name in names)
            problem = f"{done:,} of {len(rows.rows):,} rows are answered: {trouble}"
            raise DataError(problem) from None
        answers = [answers_by_name[name] for name in names]
        self._tell_refusals(answers, dataset.row_ids(rows.rows))
        return [answer.text if isinstance(answer, Refusal) else answer for answer in answers]

    def _known(self, cache: AnswerCache, names: Sequence[str]) -> dict[str, str | Refusal]:
        """The cached replies to these questions: answers, and what this endpoint sent in their
        place."""
        address = address_of(self.url_variable)
        return {**cache.refused(names, address, self.reply_bytes), **cache.known(names)}

    def _tell_refusals(self, answers: Sequence[str | Refusal], ids: NDArray[np.int64]) -> None:
        """A doubt for each kind of reply that was no answer, with the host and the rows."""
        rows: dict[Refusal, list[int]] = {}
        for answer, row in zip(answers, ids.tolist(), strict=True):
            if isinstance(answer, Refusal):
                rows.setdefault(answer, []).append(row)
        for refusal, refused in rows.items():
            remedy = "name another `serving` to ask again"
            if refusal.most_bytes:
                remedy = "raise reply_bytes to ask again"
            first = ", ".join(map(str, refused[:SHOWN_ROWS])) + (
                ", ..." if len(refused) > SHOWN_ROWS else ""
            )
            sentence = (
                f"{refusal.host} sent {refusal.reason} for {len(refused):,} of {len(answers):,}"
                f" rows, id {first}: counted as wrong and kept ({remedy})"
            )
            doubt(sentence)

    def foreseen(
        self, rows: RowSet, dataset: AttributedDataset, class_names: Sequence[str]
    ) -> Foreseen:
        """The questions of the rows, without asking them. Reads their inputs."""
        prompt = self.question(class_names).text
        tokens = {}
        for questions in self.questions(rows, dataset, prompt):
            for question in questions:
                tokens[question.name] = question.tokens
        path = cache_file()
        if not path.exists():
            return Foreseen(tokens, frozenset(), None)
        with AnswerCache(path) as cache:
            usual = cache.usual(self._family(prompt))
            return Foreseen(tokens, frozenset(self._known(cache, list(tokens))), usual)

    def questions(
        self, rows: RowSet, dataset: AttributedDataset, prompt: str
    ) -> Iterator[list[ChatQuestion]]:
        """The questions of the rows, in batches. Equal inputs are one question, whose answer they
        share."""
        family = self._family(prompt)
        tokens = rough(prompt)
        for x in inputs(rows, dataset, ROWS):
            yield [
                ChatQuestion(
                    digest([family, _content_hash(row_input)]),
                    row_input,
                    tokens
                    + (
                        rough(row_input)
                        if isinstance(row_input, str)
                        else self._image_tokens(row_input)
                    ),
                )
                for row_input in x
            ]

    def _endpoint(self) -> Endpoint:
        return Endpoint.of_environment(self.url_variable, self.key_variable)

    def _asker(self, cache: AnswerCache, stack: ExitStack) -> Asker:
        endpoint = self._endpoint()
        client = stack.enter_context(endpoint.client(self.timeout, self.reply_bytes))
        budget = self.name if self.budget is None else self.budget
        return Asker(
            endpoint,
            client,
            cache,
            self.name,
            self.served_name,
            self.tries,
            budget,
            self.most_tokens,
            self.reply_bytes,
        )

    def _ask(
        self, asker: Asker, family: str, prompt: str, question: ChatQuestion
    ) -> str | Refusal | None:
        if isinstance(question.x, str):
            template = prompt if "{text}" in prompt else f"{prompt}\n\n{{text}}"
            content: Any = template.replace("{text}", question.x.replace(PART_MARK, "\n"))
        else:
            image = {"url": _data_url(question.x), "detail": self.detail}
            content = [{"type": "text", "text": prompt}, {"type": "image_url", "image_url": image}]
        messages = [{"role": "user", "content": content}]
        request = {"model": self.name, "messages": messages, self.max_tokens_field: self.max_tokens}
        seed = None
        if self.seed is not None:
            seed = int(digest([question.name, self.seed], 7), 16)
        optional = {"temperature": self.temperature, "top_p": self.top_p, "seed": seed}
        request |= {key: value for key, value in optional.items() if value is not None}
        return asker.ask(question.name, family, request, question.tokens, self.max_tokens)

    def _family(self, prompt: str) -> str:
        """A digest of all that is asked but for the row."""
        settings = [
            self.temperature,
            self.top_p,
            self.max_tokens,
            self.seed,
            self.detail,
            self.serving,
        ]
        return digest([self.name, prompt, settings])

    def _image_tokens(self, image: NDArray[np.uint8]) -> int:
        """https://platform.openai.com/docs/guides/images-vision: 85, and 170 for each tile of 512
        pixels of a scaled image."""
        if self.image_tokens is not None:
            return self.image_tokens
        if self.detail == "low":
            return 85
        height, width = image.shape[:2]
        scale = min(1.0, 2048 / max(height, width))
        scale = min(scale, 768 / min(height, width))
        return 85 + 170 * int(np.ceil(height * scale / 512) * np.ceil(width * scale / 512))


def _content_hash(x: Any) -> str:
    if isinstance(x, str):
        return hashlib.sha256(x.encode()).hexdigest()
    return hashlib.sha256(f"{x.shape}".encode() + np.ascontiguousarray(x).tobytes()).hexdigest()


def _data_url(image: NDArray[np.uint8]) -> str:
    """An image uint8 [h, w, c] as PNG, without loss."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
