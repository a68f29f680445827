"""Image-text-to-text models of the library transformers: how one is loaded, and how it is spoken
to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from crosswind.core.errors import DataError, InputError, one_line
from crosswind.core.processor import has_bfloat16
from crosswind.models.folders import contents_hash, is_hub_name
from crosswind.models.networks.transformer import quiet

__all__ = ["Loaded", "load", "prepared"]

PLAIN_FORMAT = "USER:{image}\n{prompt} \nASSISTANT:"
"""Of a model without a chat template: Jeon et al. 2025, table 13."""


class Loaded(NamedTuple):
    """A model and what makes its inputs."""

    model: Any
    processor: Any
    device: str

    @property
    def tokenizer(self) -> Any:
        """The processor's tokenizer."""
        return getattr(self.processor, "tokenizer", self.processor)

    @property
    def marks(self) -> list[int]:
        """The tokens that stand for an image, which no answer has."""
        configs = (self.model.config, getattr(self.model.config, "vision_config", None))
        image_tokens = (
            getattr(config, name, None)
            for config in configs
            for name in ("image_token_id", "image_token_index")
        )
        return sorted({token for token in image_tokens if token is not None})

    def said(self, prompt: str, format: str | None) -> str:
        """The prompt with its image's place, as the model was taught to be spoken to."""
        prepends = hasattr(
            self.processor, "num_query_tokens"
        )  # BLIP's kin put the image before the text themselves
        mark = ""
        if not prepends:
            mark = str(getattr(self.processor, "image_token", None) or "<image>")
        if format is not None or not getattr(self.processor, "chat_template", None):
            return (format or PLAIN_FORMAT).replace("{image}", mark).replace("{prompt}", prompt)
        content = [{"type": "image"}, {"type": "text", "text": prompt}]
        text = str(
            self.processor.apply_chat_template(
                [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
            )
        )
        begin = self.tokenizer.bos_token
        adds = begin and self.tokenizer("a")["input_ids"][:1] == [self.tokenizer.bos_token_id]
        return text.removeprefix(begin) if adds else text  # not twice

    def encoded(self, texts: list[str], pictures: list[Any]) -> dict[str, Any]:
        """The inputs of the model for texts with a picture each."""
        try:
            model_inputs = self.processor(
                images=pictures, text=texts, return_tensors="pt", padding=True
            )
        except Exception as error:  # whatever a processor makes of a template that is not its own
            raise DataError(
                f"the model's processor does not take the prompt ({one_line(str(error), 200)})"
            ) from None
        placed = {}
        for name, value in model_inputs.items():
            if hasattr(value, "to"):
                placed[name] = value.to(self.device)
        floats = {
            name: value.to(self.model.dtype)
            for name, value in placed.items()
            if value.is_floating_point()
        }
        return {**placed, **floats}

    def tokens(self, text: str, pictures: list[Any]) -> Tensor:
        """The tokens of a text with one picture, int64 [length]."""
        token_row: Tensor = self.encoded([text], pictures[:1])["input_ids"][0]
        return token_row

    def with_word(self, text: str, word: str) -> str:
        """A prompt answered by a word."""
        return text + ("" if text[-1:].isspace() or text.endswith(">") else " ") + word

    def behind(self, text: str, word: str, pictures: list[Any]) -> tuple[int, Tensor]:
        """How many tokens a prompt shares with itself answered by a word, and the tokens behind
        these."""
        prompt = self.tokens(text, pictures)
        answered_prompt = self.tokens(self.with_word(text, word), pictures)
        shared = min(len(prompt), len(answered_prompt) - 1)
        same = int((prompt[:shared] == answered_prompt[:shared]).long().cumprod(0).sum())
        return same, answered_prompt[same:]

    def shared(self, text: str, words: Sequence[str], pictures: list[Any]) -> int:
        """How many tokens a prompt shares with itself answered by any of the words."""
        return min(self.behind(text, word, pictures)[0] for word in words)

    def too_long(self, text: str, pictures: list[Any], behind: int) -> str:
        """The objection to the length of a prompt with so many tokens behind it; empty for none."""
        model_inputs = self.encoded([text], pictures[:1])
        config = self.model.config
        inner = getattr(config, "text_config", config)
        for name, most_tokens, n_behind in (
            ("input_ids", getattr(inner, "max_position_embeddings", None), behind),
            (
                "qformer_input_ids",
                getattr(getattr(config, "qformer_config", None), "max_position_embeddings", None),
                0,
            ),
        ):
            n_tokens = 0
            if name in model_inputs:
                n_tokens = model_inputs[name].shape[1] + n_behind
            if most_tokens is not None and n_tokens > most_tokens:
                prompt_kind = "prompt" if name == "input_ids" else "prompt that its Q-Former reads"
                return (
                    f"the {prompt_kind} has {n_tokens:,} tokens with image and answer, and the"
                    f" model takes {most_tokens:,}"
                )
        return ""


@lru_cache(maxsize=1)
def load(
    path: str,
    sha256: str | None,
    revision: str | None,
    trust_code: bool,
    dtype: str,
    four_bit: bool,
    device: str,
) -> Loaded:
    """The model made ready: once for all sets and prompts that it is asked about. Raises
    `InputError`."""
    import transformers

    library: Any = transformers
    where, config, processor = prepared(path, sha256, revision, trust_code)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    loading_options = {
        "dtype": dtype if dtype == "auto" else getattr(torch, dtype),
        "use_safetensors": True,
        "local_files_only": True,
    }
    if four_bit:
        loading_options |= {
            "quantization_config": library.BitsAndBytesConfig(load_in_4bit=True),
            "device_map": device,
        }
    with _readable(path), quiet():
        kind = _kind(library, config, trust_code)
        model, report = kind.from_pretrained(
            where,
            config=config,
            output_loading_info=True,
            trust_remote_code=trust_code,
            **loading_options,
        )
    missing = sorted(
        [*report["missing_keys"], *(str(mismatched[0]) for mismatched in report["mismatched_keys"])]
    )
    if missing:
        raise InputError(
            "model.path",
            f"the weights in {path!r} do not fit its config.json: they lack {missing[0]!r}",
        )
    stored_low = dtype == "auto" and not four_bit and model.dtype == torch.bfloat16
    if stored_low and device == "cpu" and has_bfloat16() is False:
        model.float()  # several times as fast; every bfloat16 number is one of float32 too
    return Loaded(model.eval() if four_bit else model.eval().to(device), processor, device)


@lru_cache(maxsize=1)
def prepared(
    path: str, sha256: str | None, revision: str | None, trust_code: bool
) -> tuple[str, Any, Any]:
    """Where a model lies, its configuration and what makes its inputs. Raises `InputError`."""
    import transformers

    library: Any = transformers
    where = path
    if is_hub_name(path):
        where = _fetched(path, revision, trust_code)
    elif sha256 is not None and contents_hash(Path(path), "vision-language") != sha256:
        raise InputError(
            "model.path",
            f"the files in {path!r} have changed: they no longer hash to {sha256[:12]}...",
        )
    loading_options: dict[str, Any] = {"trust_remote_code": trust_code, "local_files_only": True}
    with _readable(path), quiet():
        config = library.AutoConfig.from_pretrained(where, **loading_options)
        if _kind(library, config, trust_code) is None:
            raise InputError(
                "model.path",
                f"{path!r} holds a {config.model_type!r}, which does not answer in words about"
                " images",
            )
        processor = library.AutoProcessor.from_pretrained(where, **loading_options)
    if not hasattr(processor, "image_processor"):
        raise InputError(
            "model.path", f"{path!r} has no preprocessor_config.json, by which images are read"
        )
    getattr(processor, "tokenizer", processor).padding_side = "left"
    return where, config, processor


def _kind(library: Any, config: Any, trust_code: bool) -> Any:
    """The library's class for such a model; None where it has none."""
    kinds = [
        library.AutoModelForImageTextToText,
        getattr(library, "AutoModelForMultimodalLM", None),
    ]
    kind = next(
        (
            kind_name
            for kind_name in kinds
            if kind_name is not None and type(config) in kind_name._model_mapping
        ),
        None,
    )
    if kind is None and trust_code:
        return library.AutoModelForCausalLM
    return kind


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # whatever a damaged or foreign folder makes the library raise
        problem = (
            f"{path!r} cannot be read as a vision-language model ({one_line(str(error), 200)})"
        )
        raise InputError("model.path", problem) from None


def _fetched(name: str, revision: str | None, trust_code: bool) -> str:
    """Where a model of the hub lies in its cache, fetched when it is not there."""
    from huggingface_hub import snapshot_download

    file_patterns = [
        "*.json",
        "*.txt",
        "*.model",
        "*.jinja",
        "*.safetensors",
        *(["*.py"] if trust_code else []),
    ]
    try:
        return str(snapshot_download(name, revision=revision, allow_patterns=file_patterns))
    except Exception as error:  # what the hub's client and all below it raise without a network
        problem = (
            f"{name!r} at revision {revision!r} is not in the hub's cache and cannot be downloaded"
        )
        raise InputError(
            "model.path", f"{problem} ({one_line(str(error), 200)}); name a folder with its files"
        ) from None
