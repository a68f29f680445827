"""A vision-language model as a network that methods train: its logits are the log-likelihoods of
the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crosswind.models.build import WHOLE, Model

__all__ = ["LabelNetwork", "Sheet", "by_word", "of_classes"]


class Sheet(NamedTuple):
    """A prompt and the words that may answer it, as one text in which no word sees another.

    `tokens` int64 [s]: those that all words share, then each word's but its last, which predicts
    nothing. `places` int64 [s]: where each stands, as if its word alone were behind the prompt.
    `seen` bool [s, s]: which tokens each one reads. The t tokens that are told: `told` int64 [t],
    the token before each `before` int64 [t], counted from the last shared one, and its word `word`
    int64 [t]. `first`: the place of that last shared token.
    """

    tokens: Tensor
    places: Tensor
    seen: Tensor
    told: Tensor
    before: Tensor
    word: Tensor
    first: int

    @classmethod
    def of(cls, shared: Tensor, words: Sequence[Tensor]) -> Sheet:
        """Of the tokens that all share, int64 [m], and what each word adds, int64 [at least 1]."""
        tokens = [shared]
        places = [torch.arange(len(shared))]
        owner = [torch.full_like(shared, -1)]
        told = []
        before = []
        word = []
        end = len(shared)
        for number, added in enumerate(words):
            inner = len(added) - 1
            tokens.append(added[:-1])
            places.append(len(shared) + torch.arange(inner))
            owner.append(torch.full((inner,), number))
            told.append(added)
            inner_places = end - len(shared) + 1 + torch.arange(inner)
            before.append(torch.cat([torch.zeros(1, dtype=torch.int64), inner_places]))
            word.append(torch.full((len(added),), number))
            end += inner
        mine = torch.cat(owner)
        is_shared_or_own = (mine[None] == -1) | (mine[None] == mine[:, None])
        seen = torch.ones(end, end, dtype=torch.bool).tril() & is_shared_or_own
        spread = {"tokens": tokens, "places": places, "told": told, "before": before, "word": word}
        first = len(shared) - 1
        return cls(
            **{name: torch.cat(tensors) for name, tensors in spread.items()}, seen=seen, first=first
        )

    def to(self, device: str) -> Sheet:
        """The same on a device."""
        moved_fields: dict[str, Any] = {}
        for name, field in self._asdict().items():
            moved_fields[name] = field.to(device) if isinstance(field, Tensor) else field
        return Sheet(**moved_fields)


def by_word(network: Any, sheet: Sheet, shown: Mapping[str, Tensor], n: int, mean: bool) -> Tensor:
    """The log-likelihood of every word behind the prompt, [n, w], in nats. `mean`: over a word's
    tokens, not the sum.

    `network`: a model of the library transformers; `shown`: its inputs beside the text, of n
    images.
    """
    kind = sheet.seen.device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
    else:
        dtype = network.dtype
    hidden = torch.zeros(sheet.seen.shape, dtype=dtype, device=sheet.seen.device)
    hidden.masked_fill_(~sheet.seen, torch.finfo(dtype).min)
    input_ids = sheet.tokens.expand(n, -1)
    attention_mask = hidden.expand(n, 1, -1, -1)
    logits_to_keep = len(sheet.tokens) - sheet.first
    position_ids = sheet.places.expand(n, -1)
    logits = network(
        input_ids=input_ids,
        position_ids=position_ids,
        attention_mask=attention_mask,
        use_cache=False,
        logits_to_keep=logits_to_keep,
        **shown,
    ).logits
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_likelihood = logits[:, sheet.before, sheet.told] - logits.logsumexp(-1)[:, sheet.before]
    lengths = sheet.word.bincount()
    out = log_likelihood.new_zeros(n, len(lengths)).index_add(1, sheet.word, log_likelihood)
    return out / lengths if mean else out


def of_classes(by_word: Tensor, classes: Tensor, n_classes: int) -> Tensor:
    """The log-likelihood of every class, [n, many], that one of its words is said; `classes` int64
    [w]."""
    return torch.stack([by_word[:, classes == code].logsumexp(1) for code in range(n_classes)], 1)


class LabelNetwork(Model):
    """A vision-language model of the library transformers that is asked one prompt; logits [n, k],
    in nats.

    The logit of a class is the log-likelihood of its words behind the prompt, as in `by: score`. It
    is what the one stage, `words`, gives, and the head adds nothing. All words are read in one
    pass. `given`: further inputs of the network that are the same for every image, [1, ...] each.
    `classes` int64 [w]: what each word stands for, of `many` in all. `mean`: see `by_word`.
    """

    def __init__(
        self,
        network: nn.Module,
        preprocess: nn.Module,
        sheet: Sheet,
        fixed_inputs: Mapping[str, Tensor],
        classes: NDArray[np.int64],
        n_classes: int,
        mean: bool,
    ) -> None:
        children = {"preprocess": preprocess, WHOLE: network, "labels": nn.Identity()}
        stages = {"words": ("preprocess", WHOLE)}
        super().__init__(children, stages=stages, pool=(), head="labels", width=n_classes)
        self.first = sheet.first
        self.mean = mean
        self.given = tuple(fixed_inputs)
        tensors = {name: value for name, value in sheet._asdict().items() if name != "first"}
        for name, value in {
            **tensors,
            "classes": torch.from_numpy(classes),
            **fixed_inputs,
        }.items():
            self.register_buffer(f"fixed_{name}", value, persistent=False)

    def by_word(self, pixels: Tensor) -> Tensor:
        """The log-likelihood of every word, [n, w], of images as the network reads them."""
        network: Any = self.get_submodule(WHOLE)
        sheet = Sheet(
            **{name: self._fixed(name) for name in Sheet._fields if name != "first"},
            first=self.first,
        )
        same = {}
        for name in self.given:
            same[name] = self._fixed(name).expand(len(pixels), *self._fixed(name).shape[1:])
        pixel_values = pixels.to(network.dtype)
        return by_word(
            network, sheet, {"pixel_values": pixel_values, **same}, len(pixels), self.mean
        )

    def _run(self, stage_parts: tuple[str, ...], x: Tensor) -> Tensor:
        for stage_part in stage_parts:
            if stage_part == WHOLE:
                classes = self._fixed("classes")
                x = of_classes(self.by_word(x), classes, self.width)
            else:
                x = self.get_submodule(stage_part)(x)
        return x

    def _fixed(self, name: str) -> Tensor:
        return self.get_buffer(f"fixed_{name}")
