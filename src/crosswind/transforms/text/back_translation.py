"""Back-translation: a text is translated into another language and back (Sennrich et al. 2016, Xie
et al. 2019)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.seeds import hash64, seed_of
from crosswind.transforms.text.by_model import ByModel, batches, drawn, padded
from crosswind.transforms.text.draws import Draws
from crosswind.transforms.text.pretrained import device, loaded, positions

_MOST = 2048  # tokens in a batch
_LONGER = (
    2,
    16,
)  # a translation has at most so many tokens a token of the sentence, and so many more
_SENTENCES = re.compile(r"(?<=[.!?。！？])\s+")


@final
@register("back-translation", kind="text-transform")
@dataclass(frozen=True)
class BackTranslation(ByModel):
    """Translates a text into another language and back, token by token drawn at a temperature.

    A text is translated sentence by sentence, as the models were trained. It is divided at the
    white space after `.`, `!` and `?`, and a sentence of more tokens than a model has positions is
    halved at a space until it fits. A translation ends after twice the tokens of its sentence and
    16 more. A text of which nothing comes back stays as it is.

    Sennrich et al. 2016; Xie et al. 2019 draw the tokens. Ng et al. 2022, appendix A.5, has a
    temperature of at most 0.7 and names neither models nor pivot language. With `draw: uniform` the
    temperature is drawn from 0, where the likeliest token is taken, to `temperature`, one for a
    text and both ways, as for NI-BT.
    """

    models = (("there", "there_revision"), ("back", "back_revision"))
    version = 1

    there: str = knob(
        doc=(
            "The translation model into the other language: a folder with safetensors, or its name"
            " on the hub."
        )
    )
    back: str = knob(doc="The translation model back.")
    there_revision: str = knob("", doc="Of a model of the hub: its commit.")
    back_revision: str = knob("", doc="Of a model of the hub: its commit.")
    temperature: float = knob(
        0.7,
        domain="[0, inf)",
        source="ng2022 A.5",
        doc="By which the scores are divided before a draw.",
    )
    draw: str = knob(
        "fixed",
        domain="{fixed, uniform}",
        doc="Whether that is the temperature, or it is drawn from 0 to that.",
    )

    def check(self) -> None:
        """See `ByModel`; both models that are not there are named at once."""
        refusals = []
        for name, _ in self.models:
            try:
                self._model(name)
            except InputError as error:
                refusals.append(error)
        if len(refusals) == 2:
            first, second = refusals
            problem = f"{first.problem}, and back: {second.problem}"
            raise InputError(first.field, problem, first.choices)
        self._loaded()

    def _model(self, name: str) -> tuple[Any, Any]:
        """The network and the tokenizer of one of the two models."""
        revision = dict(self.models)[name]
        return loaded(
            "Seq2SeqLM", getattr(self, name), getattr(self, revision), f"{self.title}.{name}"
        )

    def _loaded(self) -> list[tuple[Any, Any]]:
        pair = []
        for name, _ in self.models:
            pair.append(self._model(name))
            if pair[-1][1].pad_token_id is None or pair[-1][1].eos_token_id is None:
                field = f"{self.title}.{name}"
                raise InputError(
                    field,
                    f"the tokenizer of {getattr(self, name)!r} has no token that pads, or ends",
                )
        source_langs, target_langs = (
            [getattr(tokenizer, f"{side}_lang", None) for side in ("source", "target")]
            for _, tokenizer in pair
        )
        if None not in (*source_langs, *target_langs) and source_langs != target_langs[::-1]:
            problem = (
                f"translates {target_langs[0]} to {target_langs[1]}; beside {source_langs[0]} to"
                f" {source_langs[1]} it must be {source_langs[1]} to {source_langs[0]}"
            )
            raise InputError(f"{self.title}.back", problem)
        return pair

    def changed(self, texts: Sequence[str], keys: NDArray[np.uint64]) -> list[str]:
        """See the class."""
        heat = []
        for key in keys:
            share = 1.0
            if self.draw == "uniform":
                share = Draws(int(key)).uniform()
            heat.append(self.temperature * share)
        out = list(texts)
        for way, (network, tokenizer) in zip(("there", "back"), self._loaded(), strict=True):
            out = _translated(
                network, tokenizer, out, heat, hash64(keys, seed_of(0, "translation", way))
            )
        return [
            translated if translated.strip() else text
            for translated, text in zip(out, texts, strict=True)
        ]


def _translated(
    network: Any,
    tokenizer: Any,
    texts: Sequence[str],
    heat: Sequence[float],
    keys: NDArray[np.uint64],
) -> list[str]:
    """Every text in the other language, sentence by sentence, each with a key of its own."""
    most_tokens = positions(network, tokenizer)
    rows: list[list[int]] = []
    whose = []
    row_keys = []
    for text, (words, key) in enumerate(zip(texts, keys, strict=True)):
        token_rows = [
            row
            for sentence in _SENTENCES.split(words.strip())
            for row in _fitting(tokenizer, sentence, most_tokens)
        ]
        rows += token_rows
        whose += [text] * len(token_rows)
        ids = np.arange(len(token_rows))
        row_keys += hash64(ids, int(key)).tolist()
    translations = [""] * len(rows)
    for batch in batches([len(row) for row in rows], _MOST):
        draws = [Draws(row_keys[row_number]) for row_number in batch]
        hot = [heat[whose[row_number]] for row_number in batch]
        numbers = _sampled(
            network, tokenizer, [rows[row_number] for row_number in batch], draws, hot, most_tokens
        )
        for row_number, text in zip(
            batch, tokenizer.batch_decode(numbers, skip_special_tokens=True), strict=True
        ):
            translations[row_number] = text.strip()
    out: list[list[str]] = [[] for _ in texts]
    for text, sentence in zip(whose, translations, strict=True):
        out[text] += [sentence] if sentence else []
    return [" ".join(sentences) for sentences in out]


def _fitting(tokenizer: Any, sentence: str, most_tokens: int) -> list[list[int]]:
    """The token numbers of a sentence, or of its parts that have so many tokens at most; none for
    an empty one."""
    if not sentence.strip():
        return []
    # A token holds a character at least on average; so long a sentence is not tokenized only to be
    # divided.
    row = None
    if len(sentence) <= 64 * most_tokens:
        row = tokenizer(sentence, verbose=False)["input_ids"]
    if row is not None and len(row) <= most_tokens:
        return [list(row)]
    middle = len(sentence) // 2
    if middle == 0:  # one character of more tokens than there are positions
        if row is None:
            return []
        return [list(row[:most_tokens])]
    cut = sentence.rfind(" ", 1, middle + 1)
    cut = cut if cut > 0 else middle
    return _fitting(tokenizer, sentence[:cut], most_tokens) + _fitting(
        tokenizer, sentence[cut:].lstrip(), most_tokens
    )


def _sampled(
    network: Any,
    tokenizer: Any,
    rows: list[list[int]],
    draws: Sequence[Draws],
    heat: Sequence[float],
    most_tokens: int,
) -> list[list[int]]:
    """Token numbers of a translation of each row: as many draws as tokens, whatever stands beside
    it."""
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    where = device()
    end = tokenizer.eos_token_id
    filler = tokenizer.pad_token_id
    ids, mask = (padded_row.to(where) for padded_row in padded(rows, filler))
    limits = [min(most_tokens - 1, _LONGER[0] * len(row) + _LONGER[1]) for row in rows]
    hot = torch.tensor(heat, dtype=torch.float64, device=where)
    out: list[list[int]] = [[] for _ in rows]
    going = [True] * len(rows)
    network = network.to(where)
    with torch.inference_mode(), torch.autocast(where.partition(":")[0], enabled=False):
        encoded = BaseModelOutput(
            network.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        )
        first = network.config.decoder_start_token_id
        last = torch.full((len(rows), 1), filler if first is None else first, device=where)
        # What is held between steps had another name before version 5 of the library.
        cache_name = "past_key_values"
        if "cache" in signature(network.forward).parameters:
            cache_name = "cache"
        past = None
        while any(going):
            arguments = {
                "encoder_outputs": encoded,
                "attention_mask": mask,
                "decoder_input_ids": last,
                cache_name: past,
            }
            outputs_now = network(**arguments, use_cache=True)
            past = getattr(outputs_now, cache_name)
            logits = outputs_now.logits[:, -1].clone()
            logits[:, filler] = -torch.inf
            uniform = torch.tensor(
                [padded_row.uniform() for padded_row in draws], dtype=torch.float64, device=where
            )
            next_tokens = drawn(logits, hot, uniform)
            for row, number in enumerate(next_tokens.tolist()):
                if going[row] and number != end:
                    out[row].append(number)
                going[row] = going[row] and number != end and len(out[row]) < limits[row]
            last = next_tokens[:, None]
    return out
