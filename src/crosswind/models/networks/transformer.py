"""Encoders of texts like BERT and RoBERTa, out of the library transformers, in stages. Needs the
extra `transformers`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from crosswind.core.errors import InputError, one_line
from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.models.build import Backbone, Encoder, Model
from crosswind.models.folders import check_encoder, contents_hash, is_hub_name
from crosswind.models.networks.pretrained import read_weights, take_weights
from crosswind.models.networks.tokens import given_tokenizer, special_tokens

__all__ = ["Transformer", "hub_folder", "quiet"]

_PATTERNS = ["*.json", "*.txt", "*.model", "*.safetensors"]


@register("transformer", kind="model")
@dataclass(frozen=True)
class Transformer(Backbone):
    """An encoder of texts of the library transformers (BERT, RoBERTa and their kin), fine-tuned or
    from scratch.

    `path` is a folder with config.json, tokenizer.json and weights as safetensors, or a model of
    the hub at a pinned `revision`, which comes from its cache or the network. Code that lies beside
    them is never run. The parts of a text become a pair, and what is longer than `tokens` is cut
    off. Attention sees no padding, so it changes no row; a text without tokens has zeros. Stages
    embedding, layer1, layer2, ... and hidden, where there is one; maps of tokens [n, length, d +
    1], whose last number is 1 where there is a token. Liu et al. 2019, "RoBERTa"; the head with a
    hidden layer of 512 is Ng et al. 2022's (appendix A.2).
    """

    path: str = knob(doc="a folder, or owner/name on the hub")
    path_sha256: str | None = knob(None, doc="what the folder's files must hash to")
    revision: str | None = knob(None, doc="the commit of a model of the hub")
    weights: str | None = knob(
        "published",
        doc=(
            "published: those of path; the path of a safetensors file that a run kept; null:"
            " random, config.json alone"
        ),
    )
    weights_sha256: str | None = knob(None, doc="what the file of weights must hash to")
    tokens: int = knob(
        128,
        domain="[2, inf)",
        doc="tokens that are read of a text, special ones included; the rest is cut off",
    )
    pooling: str = knob(
        "cls", domain="{cls, mean}", doc="the features: of the first token, or the mean over all"
    )
    hidden: int | None = knob(
        None,
        domain="[1, inf)",
        doc="units of a hidden layer before the last (512 in Ng et al. 2022); null: none",
    )
    normalise: bool = knob(
        False, doc="features are scaled to length 1, as those of sentence encoders are"
    )
    dropout: float | None = knob(
        None,
        domain="[0, 1)",
        grid={"ng2022": [0.0, 0.1]},
        doc="share of values that are dropped everywhere; null: as config.json says",
    )

    built = Form(
        norm="layer",
        takes=("text", "tokens"),
        maps=False,
        weights=("published",),
        folders={"path": "encoder"},
    )
    extra = "transformers"
    family = {"ng2022": "architecture"}

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        config, folder = self._config()
        if input.shape[0] > self.tokens:
            tokens = input.shape[0]
            knobs = {**vars(self), "path": str(folder), "tokens": tokens}
            check_encoder(knobs, "model")
        net = self._net(config, folder)
        kinds = int(getattr(config, "type_vocab_size", 1) or 1)
        embedding = _TokenEmbedding(net.embeddings, config.vocab_size, kinds, config.pad_token_id)
        children: dict[str, nn.Module] = {"embedding": embedding}
        for number, layer in enumerate(net.encoder.layer, 1):
            children[f"layer{number}"] = _Layer(layer)
        pooled = _PooledTokens(self.pooling, self.normalise)
        width = int(config.hidden_size)
        stages: dict[str, Sequence[str]] = {name: (name,) for name in children}
        pool: tuple[str, ...] = ("pooled",)
        children["pooled"] = pooled
        if self.hidden is not None:
            share = config.hidden_dropout_prob
            layers = [
                nn.Dropout(share),
                nn.Linear(width, self.hidden),
                nn.Tanh(),
                nn.Dropout(share),
            ]
            children["hidden"], stages["hidden"], pool, width = (
                nn.Sequential(*layers),
                ("pooled", "hidden"),
                (),
                self.hidden,
            )
        children["fc"] = nn.Linear(width, len(class_names))
        model = _TokenisedTexts(children, stages=stages, pool=pool, head="fc", width=width)
        if self.weights not in (None, "published"):
            tensors = read_weights(Path(str(self.weights)), self.weights_sha256)
            take_weights(model, tensors, str(self.weights))
        return model

    def encoder(self, input: InputSpec, seed: int, device: str = "cpu") -> Encoder | None:
        """Texts as numbers of their tokens, each with its kind: int64 [n, tokens], 0 after the
        end."""
        if input.kind != "text":
            return None
        config, folder = self._config()
        vocabulary = int(config.vocab_size)
        kinds = int(getattr(config, "type_vocab_size", 1) or 1)
        tokenizer = given_tokenizer(str(folder), None, "model.path")
        tokenise = partial(
            special_tokens,
            tokenizer=tokenizer,
            length=self.tokens,
            vocabulary=vocabulary,
            kinds=kinds,
        )
        return Encoder(InputSpec.tokens(self.tokens, 1 + vocabulary * kinds), tokenise)

    def _config(self) -> tuple[Any, Path]:
        """The configuration in config.json, at this dropout, and the folder."""
        from transformers import AutoConfig

        if is_hub_name(self.path):
            folder = hub_folder(self.path, self.revision)
        else:
            folder = Path(self.path)
        check_encoder({**vars(self), "path": str(folder)}, "model")
        if self.path_sha256 is not None and contents_hash(folder, "encoder") != self.path_sha256:
            problem = (
                f"the files in {str(folder)!r} have changed: they no longer hash to"
                f" {self.path_sha256[:12]}..."
            )
            raise InputError("model.path", problem)
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        if self.dropout is not None:
            config.hidden_dropout_prob = config.attention_probs_dropout_prob = self.dropout
        return config, folder

    def _net(self, config: Any, folder: Path) -> Any:
        """The encoder without what stands on it, with its weights."""
        import transformers

        library: Any = transformers.AutoModel
        if self.weights != "published":
            return library.from_config(config, trust_remote_code=False, add_pooling_layer=False)
        loading_options = {
            "trust_remote_code": False,
            "local_files_only": True,
            "use_safetensors": True,
            "add_pooling_layer": False,
        }
        try:
            with quiet():
                net, report = library.from_pretrained(
                    folder,
                    config=config,
                    dtype=torch.float32,
                    output_loading_info=True,
                    **loading_options,
                )
        except Exception as error:  # whatever a damaged file makes the library raise
            problem = f"the weights in {str(folder)!r} cannot be read ({one_line(str(error), 200)})"
            raise InputError("model.path", problem) from None
        missing = sorted(
            [
                *report["missing_keys"],
                *(str(mismatched[0]) for mismatched in report["mismatched_keys"]),
            ]
        )
        if missing:
            raise InputError(
                "model.path",
                f"the weights in {str(folder)!r} do not fit its config.json: they lack"
                f" {missing[0]!r}",
            )
        return net


@contextmanager
def quiet() -> Iterator[None]:
    """No bars and reports of the library: what is missing is told by what is raised."""
    import transformers

    logging: Any = transformers.utils.logging
    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@cache
def hub_folder(name: str, revision: str | None) -> Path:
    """Where a model of the hub lies in its cache, fetched when it is not there."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=_PATTERNS))
    except Exception as error:  # what the hub's client and all below it raise without a network
        problem = (
            f"{name!r} at revision {revision!r} is not in the hub's cache and cannot be downloaded"
        )
        raise InputError(
            "model.path", f"{problem} ({one_line(str(error), 200)}); name a folder with its files"
        ) from None


# -- parts -----------------------------------------------------------------------------------------


class _TokenisedTexts(Model):
    """Runs its layers on [n, length, d] where nobody looks at a stage: without joining which tokens
    there are to every output."""

    def features(self, x: Tensor) -> Tensor:
        """See `Model.features`."""
        embedding, *layers = (getattr(self, name) for name in self.stages if name != "hidden")
        is_token = x != 0
        hidden = embedding.vectors(x, is_token)
        mask = _mask(is_token)
        for layer in layers:
            hidden = layer.run(hidden, mask)
        pooled_features: Tensor = self.pooled.of(hidden, is_token[..., None].to(hidden.dtype))  # type: ignore[operator,union-attr]
        return self.hidden(pooled_features) if "hidden" in self.stages else pooled_features  # type: ignore[operator]


class _TokenEmbedding(nn.Module):
    """Tokens int64 [n, length] as `special_tokens` gives them -> their vectors, and 1 where there
    is one: [n, length, d + 1]."""

    def __init__(self, embeddings: nn.Module, vocabulary: int, kinds: int, padding: int) -> None:
        super().__init__()
        self.embeddings = embeddings
        self.vocabulary = vocabulary
        self.kinds = kinds
        self.padding = padding

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        is_token = x != 0
        return _marked(self.vectors(x, is_token), is_token[..., None])

    def vectors(self, x: Tensor, is_token: Tensor) -> Tensor:
        """[n, length, d]; `is_token` bool [n, length]."""
        numbers = torch.where(is_token, (x - 1) % self.vocabulary, self.padding)
        if self.kinds > 1:
            token_type_ids = ((x - 1) // self.vocabulary).clamp(min=0)
            kinds = {"token_type_ids": token_type_ids}
        else:
            kinds = {}
        embedded: Tensor = self.embeddings(input_ids=numbers, **kinds)
        return embedded


class _Layer(nn.Module):
    """A layer of the encoder on [n, length, d + 1]; attention sees the tokens that there are."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        is_token = x[..., -1]
        return _marked(self.run(x[..., :-1], _mask(is_token)), x[..., -1:])

    def run(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """[n, length, d]."""
        layer_output: Any = self.layer(hidden, attention_mask=mask)
        if isinstance(layer_output, tuple):
            return layer_output[0]
        return layer_output


class _PooledTokens(nn.Module):
    """[n, length, d + 1] -> features [n, d]."""

    def __init__(self, pooling: str, normalise: bool) -> None:
        super().__init__()
        self.pooling = pooling
        self.normalise = normalise

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        return self.of(x[..., :-1], x[..., -1:])

    def of(self, hidden: Tensor, is_token: Tensor) -> Tensor:
        """[n, d] of [n, length, d] and [n, length, 1]."""
        if self.pooling == "cls":
            pooled = hidden[:, 0] * is_token[:, 0]
        else:
            pooled = (hidden * is_token).sum(1) / is_token.sum(1).clamp(min=1)
        if self.normalise:
            return nn.functional.normalize(pooled, dim=1)
        return pooled


def _mask(is_token: Tensor) -> Tensor:
    """The mask that is added to attention, [n, 1, 1, length]: finite, so that a text without tokens
    is no division by zero."""
    return (is_token[:, None, None].float() - 1) * 1e30


def _marked(hidden: Tensor, is_token: Tensor) -> Tensor:
    return torch.cat([hidden, is_token.to(hidden.dtype)], 2)
