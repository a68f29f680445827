"""SSMBA: a text is corrupted and filled in again by a masked language model (Ng, Cho and Ghassemi
2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.text.by_model import ByModel, batches, drawn, padded
from crosswind.transforms.text.draws import Draws, edits
from crosswind.transforms.text.pretrained import device, loaded, positions

_MOST = 4096  # tokens in a batch


class _MaskedWords(NamedTuple):
    """A token that is corrupted: its place among those of the text, what stands there for the
    network, the number that fills it."""

    place: int
    shown: int
    uniform: float


@final
@register("ssmba", kind="text-transform")
@dataclass(frozen=True)
class SSMBA(ByModel):
    """Corrupts some tokens of a text, and draws what stands there from a masked language model.

    max(1, floor(share x length)) of the model's tokens are chosen, at random places. Each is
    masked, becomes a random token, or is left to the network as it is. What it then becomes is
    drawn from the network's distribution there, special tokens left out. All other characters of
    the text stay as they are. A text of more tokens than the network has positions is read in runs
    of as many, each by itself.

    Ng, Cho and Ghassemi 2020, "SSMBA: Self-Supervised Manifold Based Data Augmentation for
    Improving Out-of-Domain Robustness", section 3: corruption q(x'|x) and reconstruction r(x|x').
    Its code draws the number of tokens between floor and ceiling, chains its neighbours, and shows
    the network no mask of padding; here each copy starts from the text. With `draw: uniform` the
    share is drawn up to `rate`, as for NI-SSMBA (Ng et al. 2022, appendix A.5).
    """

    models = (("model", "revision"),)
    version = 1

    model: str = knob(
        doc="The masked language model: a folder with safetensors, or its name on the hub."
    )
    revision: str = knob("", doc="Of a model of the hub: its commit.")
    rate: float = knob(
        0.15, domain="[0, 1]", source="ng2022 A.5", doc="The share of tokens that is corrupted."
    )
    draw: str = knob(
        "fixed",
        domain="{fixed, uniform}",
        doc="Whether the share is the rate, or drawn from 0 to the rate.",
    )
    masked: float = knob(
        0.8,
        domain="[0, 1]",
        source="ng2022 A.5",
        doc="Of the corrupted tokens, the share that is masked.",
    )
    noise: float = knob(
        0.1,
        domain="[0, 1]",
        source="ng2022 A.5",
        doc="The share that becomes random; the rest is left unmasked.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.masked + self.noise > 1:
            problem = f"and masked are {self.masked + self.noise:g} together, more than 1"
            raise InputError(f"{self.title}.noise", problem)

    def check(self) -> None:
        """See `ByModel`."""
        self._loaded()

    def _loaded(self) -> tuple[Any, Any]:
        field = f"{self.title}.model"
        network, tokenizer = loaded("MaskedLM", self.model, self.revision, field)
        if tokenizer.mask_token_id is None:
            raise InputError(field, f"the tokenizer of {self.model!r} has no token that masks")
        if not tokenizer.is_fast:
            raise InputError(
                field,
                f"the tokenizer of {self.model!r} tells no places of its tokens; a file"
                " tokenizer.json is needed",
            )
        return network, tokenizer

    def changed(self, texts: Sequence[str], keys: NDArray[np.uint64]) -> list[str]:
        """See the class."""
        network, tokenizer = self._loaded()
        special = frozenset(tokenizer.all_special_ids)
        plain = _plain(tokenizer)
        tokenised = tokenizer(
            list(texts), add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        numbers = tokenised["input_ids"]
        spans = tokenised["offset_mapping"]
        chosen = [
            self._chosen(row, Draws(int(key)), tokenizer.mask_token_id, plain)
            for row, key in zip(numbers, keys, strict=True)
        ]
        before, after = _around(tokenizer)
        run = positions(network, tokenizer) - len(before) - len(after)
        jobs = []  # text, where its run begins, what the network reads, what is chosen there
        for text, (row, chosen_tokens) in enumerate(zip(numbers, chosen, strict=True)):
            for start in range(0, len(row), run):
                in_window = [token for token in chosen_tokens if start <= token.place < start + run]
                if in_window:
                    shown = list(row[start : start + run])
                    for token in in_window:
                        shown[token.place - start] = token.shown
                    jobs.append((text, start, [*before, *shown, *after], in_window))
        filled: list[dict[int, int]] = [{} for _ in texts]
        for batch in batches([len(job[2]) for job in jobs], _MOST):
            batch_jobs = [jobs[job_number] for job_number in batch]
            token_places = [
                (row, token.place - job[1] + len(before))
                for row, job in enumerate(batch_jobs)
                for token in job[3]
            ]
            uniform = [token.uniform for job in batch_jobs for token in job[3]]
            filled_tokens = _filled(
                network, tokenizer, [job[2] for job in batch_jobs], token_places, uniform, special
            )
            for (text, token), number in zip(
                ((job[0], token) for job in batch_jobs for token in job[3]),
                filled_tokens,
                strict=True,
            ):
                filled[text][token.place] = number
        return [
            _spliced(*token, tokenizer) for token in zip(texts, numbers, spans, filled, strict=True)
        ]

    def _chosen(
        self, row: Sequence[int], draws: Draws, mask: int, plain: Sequence[int]
    ) -> list[_MaskedWords]:
        rate = self.rate * (draws.uniform() if self.draw == "uniform" else 1.0)
        out = []
        for position in draws.distinct(edits(rate, len(row)), len(row)):
            kind = draws.uniform()
            random_token = plain[draws.below(len(plain))]
            uniform = draws.uniform()
            if kind < self.masked:
                shown = mask
            elif kind < self.masked + self.noise:
                shown = random_token
            else:
                shown = row[position]
            out.append(_MaskedWords(position, shown, uniform))
        return sorted(out)


def _filled(
    network: Any,
    tokenizer: Any,
    rows: list[list[int]],
    token_places: list[tuple[int, int]],
    uniform: list[float],
    special: frozenset[int],
) -> list[int]:
    """The tokens drawn at places (row, place) of a batch."""
    import torch

    where = device()
    ids, mask = padded(rows, tokenizer.pad_token_id or 0)
    indices = tuple(torch.tensor(token_places, device=where).T)
    # Of the scores for the whole vocabulary only those at the chosen places are computed: else they
    # cost as much as the rest.
    last = network.get_output_embeddings()
    hook = None
    if last is not None:
        hook = last.register_forward_pre_hook(lambda _, given: (given[0][indices],))
    try:
        with torch.inference_mode(), torch.autocast(where.partition(":")[0], enabled=False):
            input_ids = ids.to(where)
            attention_mask = mask.to(where)
            logits = network.to(where)(input_ids=input_ids, attention_mask=attention_mask).logits
            logits = (logits if logits.ndim == 2 else logits[indices]).clone()
            logits[:, [number for number in special if number < logits.shape[1]]] = -torch.inf
            numbers = torch.tensor(uniform, dtype=torch.float64, device=where)
            tokens_drawn: list[int] = drawn(logits, torch.ones_like(numbers), numbers).tolist()
    finally:
        if hook is not None:
            hook.remove()
    return tokens_drawn


def _around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens before and after a text."""
    probe = tokenizer("a", add_special_tokens=False)["input_ids"]
    numbers = tokenizer("a")["input_ids"]
    probe_start = next(
        start for start in range(len(numbers)) if numbers[start : start + len(probe)] == probe
    )
    return numbers[:probe_start], numbers[probe_start + len(probe) :]


@lru_cache(maxsize=4)
def _plain(tokenizer: Any) -> tuple[int, ...]:
    """The numbers of all tokens that are not special."""
    return tuple(sorted(set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids)))


def _spliced(
    text: str,
    row: Sequence[int],
    spans: Sequence[tuple[int, int]],
    filled: dict[int, int],
    tokenizer: Any,
) -> str:
    """The text with other tokens at some places; a token that goes on with a word follows what
    stands before it without a space."""
    out, end = "", 0
    for position, number in sorted(filled.items()):
        if number == row[position]:
            continue
        first, last = spans[position]
        out += text[end:first] if first > end else ""
        piece = _piece(tokenizer, number)
        if piece[:1].isspace():
            if out and not out[-1].isspace():
                out = f"{out} "
            piece = piece.strip()
        else:
            out = out.rstrip()
        out = out + piece
        end = max(end, last)
    out += text[end:]
    return out if out.strip() else text


@lru_cache(maxsize=1 << 17)
def _piece(tokenizer: Any, number: int) -> str:
    """A token as text, with a space before it where it begins a word; what is no character of its
    own is left out."""
    anchor = tokenizer("a", add_special_tokens=False)["input_ids"]
    alone = tokenizer.decode(anchor)
    joined = tokenizer.decode([*anchor, number], clean_up_tokenization_spaces=False)
    return joined.removeprefix(alone).replace("\ufffd", "")
