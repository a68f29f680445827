"""Vision-language models of the library transformers: asked about an image in words. Needs the
extra `transformers`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.errors import DataError, InputError
from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.core.seeds import stream
from crosswind.core.types import InputSpec
from crosswind.data.dataset import AttributedDataset
from crosswind.models.build import Backbone, Model, normalised
from crosswind.models.given.outside import Answers, inputs, usable
from crosswind.models.language.image_text import Loaded, load, prepared
from crosswind.models.language.label_network import LabelNetwork, Sheet, by_word, of_classes
from crosswind.models.language.preprocess import Preprocess
from crosswind.models.language.prompts import Prompted, Question, question_of
from crosswind.models.networks.transformer import quiet

if TYPE_CHECKING:
    from crosswind.shifts.split import RowSet


_CLOSE = {torch.float32: 1e-3, torch.bfloat16: 0.15, torch.float16: 0.05}
"""Nats that rounding may be worth for a word."""


@register("vision-language", kind="model")
@dataclass(frozen=True, kw_only=True)
class VisionLanguage(Prompted, Backbone):
    """A vision-language model of the library transformers, such as LLaVA, InstructBLIP or
    Phi-4-multimodal.

    Any that follows the library's image-text-to-text interface works by its folder or name. Weights
    are read from safetensors. It is asked `prompt` about each image in its chat template, or as
    `format` says. `by: generate` lets it write an answer, which is read by the rule of
    `crosswind.models.language.answers`. `by: score` gives each class the log-likelihood of its
    words behind
    the prompt: it never fails, and gives logits. All words are read in one pass where the network
    then says what it says in a pass for each word, which is tried on noise first. InstructBLIP's
    Q-Former reads the prompt alone, as its authors' does. With `tuned` methods train the network,
    whose logits are those of `by: score`: one stage, words, [n, k]. At a temperature above 0 the
    noise of each token is drawn by seed and row, so that a row's answer does not depend on its
    batch. Liu et al. 2023, "Visual instruction tuning"; the settings of Jeon et al. 2025 are in
    table 9.
    """

    path: str = knob(doc="a folder, or owner/name on the hub")
    path_sha256: str | None = knob(None, doc="what the folder's files must hash to")
    revision: str | None = knob(None, doc="the commit of a model of the hub")
    trust_code: bool = knob(
        False, doc="run the code beside the weights; only of the hub, at a revision of 40 digits"
    )
    tuned: bool = knob(False, doc="methods train it, on the likelihoods of the labels (by: score)")
    by: str = knob(
        "generate",
        domain="{generate, score}",
        doc="an answer in words, or the likelihood of each label",
    )
    score: str = knob(
        "sum",
        domain="{sum, mean}",
        doc="of by: score, over the log-probabilities of a label's tokens",
    )
    format: str | None = knob(
        None,
        doc=(
            "text with {prompt} and {image}; null: the chat template, else that of jeon2025,"
            " table 13"
        ),
    )
    fallback: str | None = knob(
        None,
        doc=(
            "prompt without {labels} whose labels are scored where prompt is longer than the model"
            " takes; null: refused"
        ),
    )
    max_new_tokens: int = knob(
        20, domain="[1, inf)", grid={"jeon2025": [20, 200]}, doc="tokens of an answer at most"
    )
    temperature: float = knob(
        0.0,
        domain="[0, inf)",
        grid={"jeon2025": [0.0, 0.2]},
        doc="0: the likeliest token each time",
    )
    top_p: float = knob(
        1.0,
        domain="(0, 1]",
        grid={"jeon2025": [0.9, 1.0]},
        doc="share of the likeliest tokens that are drawn from",
    )
    beams: int = knob(1, domain="[1, inf)", grid={"jeon2025": [1, 5]}, doc="beams of the search")
    repetition_penalty: float = knob(
        1.0, domain="(0, inf)", grid={"jeon2025": [1.0, 1.5]}, doc="above 1: less repetition"
    )
    length_penalty: float = knob(1.0, doc="of several beams: above 0 favours long answers")
    seed: int = knob(0, domain="[0, inf)", doc="of the draws at a temperature above 0")
    dtype: str = knob(
        "auto",
        domain="{auto, float32, bfloat16, float16}",
        doc=(
            "of the weights; auto: as they are stored, but float32 where tuned and on a processor"
            " without bfloat16"
        ),
    )
    four_bit: bool = knob(False, doc="weights in 4 bits, by the package bitsandbytes")
    device: str = knob(
        "auto",
        domain="{auto, cpu, cuda, mps, xpu}",
        doc="auto: cuda where there is one; tuned: the study's",
    )
    batch: int = knob(8, domain="[1, inf)", doc="images at once, where it is not tuned")

    built = Form(norm="layer", maps=False, trained="tuned", folders={"path": "vision-language"})
    extra = "transformers"
    version = 2

    def answer(
        self, rows: RowSet, dataset: AttributedDataset, class_names: Sequence[str]
    ) -> Answers:
        """See `Outside.answer`."""
        if dataset.check_inputs().kind != "image":
            raise DataError(
                "a vision-language model is asked about images, and these are"
                f" {dataset.check_inputs()}"
            )
        loaded = self._loaded()
        ids = dataset.row_ids(rows.rows)
        text, question, by = self._asked(loaded, dataset.check_inputs(), class_names)
        if by == "score":
            scorer = self._scorer(loaded, text, question, dataset.check_inputs())
            logits = np.concatenate(
                [scorer(_pictures(x)).numpy() for x in inputs(rows, dataset, self.batch)]
            )
            return logits.argmax(1).astype(np.int64), logits
        texts: list[str] = []
        for x in inputs(rows, dataset, self.batch):
            texts += self._generated(
                loaded, text, _pictures(x), ids[len(texts) : len(texts) + len(x)]
            )
        return question.read(texts), None, texts

    def fits(self, input: InputSpec, class_names: Sequence[str]) -> None:
        """See `Outside.fits`: all but the weights is looked at."""
        usable(self.device if self.device != "auto" else "cpu")
        _, config, processor = prepared(self.path, self.path_sha256, self.revision, self.trust_code)
        model = SimpleNamespace(config=config, dtype=torch.float32)
        self._asked(Loaded(model, processor, "cpu"), input, class_names)

    def _asked(
        self, loaded: Loaded, spec: InputSpec, class_names: Sequence[str]
    ) -> tuple[str, Question, str]:
        """The text that is asked, the question in it, and by what it is answered. Raises
        `DataError` where it is too long."""
        question = self.question(class_names)
        by = self.by
        first = _pictures(_noise(spec)[:1])
        text = loaded.said(question.text, self.format)
        if by == "score":
            behind = max(len(loaded.behind(text, word, first)[1]) for word in question.words)
        else:
            behind = self.max_new_tokens
        problem = loaded.too_long(text, first, behind)
        if problem and self.fallback is not None:
            question = question_of({**vars(self), "prompt": self.fallback}, class_names)
            by = "score"
            text = loaded.said(question.text, self.format)
            problem = loaded.too_long(
                text,
                first,
                max(len(loaded.behind(text, word, first)[1]) for word in question.words),
            )
        if problem:
            advice = ", or set fallback to one without {labels}, whose labels are scored"
            if self.tuned:
                advice = ""
            raise DataError(f"{self._name}: {problem}; ask a shorter prompt{advice}")
        return text, question, by

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`; nothing is drawn. Raises `InputError` where the network cannot be
        asked for all labels at once."""
        # Its own copy, read anew: another one of several billions of weights would be kept beside
        # it.
        dtype = "float32" if self.dtype == "auto" else self.dtype
        loaded = load.__wrapped__(
            self.path, self.path_sha256, self.revision, self.trust_code, dtype, False, "cpu"
        )
        text, question, _ = self._asked(loaded, input, class_names)
        noise = _noise(input)
        pictures = _pictures(noise)
        blank = _pictures(np.zeros_like(noise))
        inputs_shown = loaded.encoded([text] * 2, pictures)
        inputs_blank = loaded.encoded([text] * 2, blank)
        pixels = inputs_shown.pop("pixel_values", torch.empty(0))
        if pixels.ndim != 4 or any(
            len(value) != 2 or not value.equal(inputs_blank[name])
            for name, value in inputs_shown.items()
        ):
            problem = (
                f"a {loaded.model.config.model_type!r}, whose processor does not make one picture"
                " of one size of each image"
            )
            raise InputError(
                "model.tuned", f"{self.path!r} holds {problem}; LLaVA-1.5 and InstructBLIP do"
            )
        preprocess = Preprocess.of(loaded.processor.image_processor.to_dict())
        x = preprocess(
            normalised(
                torch.from_numpy(noise).permute(0, 3, 1, 2), torch.float32, channels_last=False
            )
        )
        if x.shape != pixels.shape or float((x - pixels).abs().max()) > 0.05:
            problem = "does more to images than resizing, cropping, mean and sd"
            raise InputError("model.tuned", f"the processor in {self.path!r} {problem}")
        sheet = self._sheet(loaded, text, question.words, noise)
        if sheet is None:
            problem = (
                f"a {loaded.model.config.model_type!r}, which does not read labels side by side as"
                " it reads each alone"
            )
            problem += (
                ""
                if self.dtype != "bfloat16"
                else " (in bfloat16, which rounds; dtype: float32 is exact)"
            )
            raise InputError("model.tuned", f"{self.path!r} holds {problem}")
        fixed = {}
        for name, value in inputs_shown.items():
            if name not in ("input_ids", "attention_mask"):
                fixed[name] = value[:1]
        mean = self.score == "mean"
        label_network = LabelNetwork(
            loaded.model, preprocess, sheet, fixed, question.classes, len(class_names), mean
        )
        return label_network

    @property
    def _name(self) -> str:
        return Path(self.path).name

    def _loaded(self) -> Loaded:
        return load(
            self.path,
            self.path_sha256,
            self.revision,
            self.trust_code,
            self.dtype,
            self.four_bit,
            self.device,
        )

    def _generated(
        self, loaded: Loaded, text: str, pictures: list[Any], ids: NDArray[np.int64]
    ) -> list[str]:
        model_inputs = loaded.encoded([text] * len(pictures), pictures)
        generation_options: dict[str, Any] = {
            "max_new_tokens": self.max_new_tokens,
            "num_beams": self.beams,
            "do_sample": False,
        }
        generation_options |= {
            "repetition_penalty": self.repetition_penalty,
            "suppress_tokens": loaded.marks or None,
        }
        generation_options |= {"length_penalty": self.length_penalty} if self.beams > 1 else {}
        if self.temperature > 0:
            generation_options["logits_processor"] = [
                _Drawn(ids, self.seed, self.temperature, self.top_p)
            ]
        tokenizer = loaded.tokenizer
        if tokenizer.pad_token_id is None:
            generation_options["pad_token_id"] = tokenizer.eos_token_id
        with torch.inference_mode(), quiet():
            out = loaded.model.generate(
                **model_inputs, **generation_options, temperature=None, top_p=None, top_k=None
            )
        before = model_inputs["input_ids"]
        if out.shape[1] >= before.shape[1] and torch.equal(out[:, : before.shape[1]], before):
            out = out[:, before.shape[1] :]
        return [str(decoded) for decoded in tokenizer.batch_decode(out, skip_special_tokens=True)]

    def _scorer(
        self, loaded: Loaded, text: str, question: Question, spec: InputSpec
    ) -> Callable[[list[Any]], Tensor]:
        """From n pictures to the log-likelihood of every class, float32 [n, k]: of one of its
        words, where several stand for it."""
        sheet = self._sheet(loaded, text, question.words, _noise(spec))
        cut = loaded.shared(text, question.words, _pictures(_noise(spec)))
        classes, n_classes = torch.from_numpy(question.classes), int(question.classes.max()) + 1

        def score(pictures: list[Any]) -> Tensor:
            if sheet is None:
                return of_classes(
                    self._alone(loaded, text, question.words, cut, pictures), classes, n_classes
                )
            return of_classes(self._together(loaded, text, sheet, pictures), classes, n_classes)

        return score

    def _sheet(
        self, loaded: Loaded, text: str, words: Sequence[str], noise: NDArray[np.uint8]
    ) -> Sheet | None:
        """All words behind the prompt side by side; None for a network that cannot read them so,
        which is tried on noise.

        It must say of the last word of several tokens what it says of it alone, up to rounding. It
        must say the same whatever the other words are, and something else at other places. The last
        two hold to the digit in any precision.
        """
        pictures = _pictures(noise[:1])
        cut = loaded.shared(text, words, pictures)
        shared = loaded.tokens(text, pictures)[:cut].cpu()
        added = []
        for word in words:
            added.append(loaded.tokens(loaded.with_word(text, word), pictures)[cut:].cpu())
        sheet = Sheet.of(shared, added)
        last = max(
            (number for number, word_tokens in enumerate(added) if len(word_tokens) > 1),
            default=0,
        )
        replaced = []
        for number, word_tokens in enumerate(added):
            replaced.append(
                word_tokens if number == last else added[last][:1].expand(len(word_tokens))
            )
        begin = cut + sum(len(word_tokens) - 1 for word_tokens in added[:last])
        inner = len(added[last]) - 1
        moved = sheet.places.clone()
        moved[begin : begin + inner] = 0  # a place that every network has
        tried = (sheet, Sheet.of(shared, replaced), sheet._replace(places=moved))
        try:
            own_scores, beside, elsewhere = (
                self._together(loaded, text, word_tokens, pictures)[:, last]
                for word_tokens in tried
            )
        except Exception:  # whatever a network makes of a mask or of places that it does not know
            return None
        alone = self._alone(loaded, text, [words[last]], cut, pictures)[:, 0]
        fits = not float((own_scores - alone).abs()) > _CLOSE.get(loaded.model.dtype, torch.inf)
        fits = fits and torch.allclose(own_scores, beside, rtol=1e-6, atol=1e-6)
        if fits and (not inner or not torch.equal(own_scores, elsewhere)):
            return sheet
        return None

    def _together(self, loaded: Loaded, text: str, sheet: Sheet, pictures: list[Any]) -> Tensor:
        """The log-likelihood of each word of the sheet by one pass, float32 [n, w]."""
        model_inputs = loaded.encoded([text] * len(pictures), pictures)
        shown = {}
        for name, value in model_inputs.items():
            if name not in ("input_ids", "attention_mask"):
                shown[name] = value
        with torch.inference_mode(), quiet():
            return (
                by_word(
                    loaded.model,
                    sheet.to(loaded.device),
                    shown,
                    len(pictures),
                    self.score == "mean",
                )
                .float()
                .cpu()
            )

    def _alone(
        self, loaded: Loaded, text: str, words: Sequence[str], cut: int, pictures: list[Any]
    ) -> Tensor:
        """The same by one pass a word, which shares `cut` tokens with the prompt."""
        prompt = loaded.encoded([text] * len(pictures), pictures)
        instruction = {name: value for name, value in prompt.items() if name.startswith("qformer")}
        columns = []
        for word in words:
            model_inputs = (
                loaded.encoded([loaded.with_word(text, word)] * len(pictures), pictures)
                | instruction
            )
            n_tokens = model_inputs["input_ids"].shape[1] - cut
            with torch.inference_mode(), quiet():
                logits = loaded.model(**model_inputs).logits[:, -n_tokens - 1 : -1].float()
            answer_ids = model_inputs["input_ids"][:, -n_tokens:, None]
            token_scores = logits.log_softmax(-1).gather(2, answer_ids)[..., 0]
            columns.append(token_scores.sum(1) if self.score == "sum" else token_scores.mean(1))
        return torch.stack(columns, 1).cpu()


class _Drawn:
    """Adds to the scores of each token the noise with which the largest is a draw (Gumbel), keyed
    by seed, row and step."""

    def __init__(self, ids: NDArray[np.int64], seed: int, temperature: float, top_p: float) -> None:
        self.ids = ids
        self.seed = seed
        self.temperature = temperature
        self.top_p = top_p
        self.step = 0

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        p, order = (scores.double() / self.temperature).log_softmax(1).sort(1, descending=True)
        p = p.masked_fill(p.exp().cumsum(1) - p.exp() >= self.top_p, -torch.inf)
        p = torch.full_like(p, -torch.inf).scatter(1, order, p)
        noise = np.stack(
            [
                stream(self.seed, "answer", int(row), self.step).gumbel(size=p.shape[1])
                for row in self.ids
            ]
        )
        self.step += 1
        return (p + torch.from_numpy(noise).to(p.device)).to(torch.float32)


def _noise(spec: InputSpec) -> NDArray[np.uint8]:
    """Two pictures on which ways to ask a model are compared, uint8 [2, h, w, c]."""
    return stream(0, "noise").integers(0, 256, (2, *spec.shape), dtype=np.uint8)


def _pictures(x: NDArray[np.uint8]) -> list[Any]:
    from PIL import Image

    pictures: list[Any] = []
    for picture in x:
        pictures.append(
            Image.fromarray(picture[..., 0] if picture.shape[2] == 1 else picture).convert("RGB")
        )
    return pictures
