"""Folders and files that a model is made from, such as a tokenizer or an encoder of texts: what
they hash to, and what they lack.

Planning asks before any work, so nothing here needs torch or transformers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from crosswind.core.errors import InputError, shown, unknown
from crosswind.core.types import file_hash

__all__ = [
    "ENCODERS",
    "LABEL",
    "check_clip",
    "check_encoder",
    "check_tokenizer",
    "check_vision_language",
    "contents_hash",
    "hash_once",
    "is_hub_name",
    "positions",
]

ENCODERS = ("bert", "camembert", "roberta", "xlm-roberta")
"""The kinds of encoder, as config.json names them, that are taken apart into layers."""
TOKENIZER = "tokenizer.json"
LABEL = "{label}"
"""Where a prompt names the class."""
_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_READ = (".bpe", ".json", ".model", ".safetensors", ".spm", ".tiktoken", ".txt", ".vocab")
_COMMIT = re.compile("[0-9a-f]{40}")


def is_hub_name(path: str) -> bool:
    """Whether `path` is no folder that is there, and could be a model's name on the hub
    (`owner/name`)."""
    return _HUB.fullmatch(path) is not None and not Path(path).exists()


def contents_hash(path: Path, kind: str) -> str:
    """The SHA-256 of a tokenizer's file or a program, or of a folder's files that are read and their
    names."""
    if kind == "program":
        return file_hash(path)
    if kind == "tokenizer":
        return file_hash(path / TOKENIZER if path.is_dir() else path)
    inside = (
        sorted(path.rglob("*")) if kind == "vision-language" else sorted(path.iterdir())
    )  # a second tokenizer has its own folder
    read = (*_READ, ".jinja") if kind == "vision-language" else _READ
    file_lines = [
        f"{file.relative_to(path).as_posix()} {hash_once(file)}"
        for file in inside
        if file.suffix in read and file.is_file()
    ]
    return hashlib.sha256("\n".join(file_lines).encode()).hexdigest()


def check_tokenizer(path: str, field: str) -> None:
    """Refuse what holds no tokenizer of the library tokenizers, by an `InputError` on `field`."""
    file = Path(path) / TOKENIZER if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise InputError(
            field,
            f"there is no tokenizer {str(file)!r}; name a {TOKENIZER} of the library tokenizers, or"
            " its folder",
        )
    _largest(str(file), file.stat().st_mtime_ns, field)


def check_encoder(knobs: Mapping[str, Any], field: str) -> None:
    """Refuse an encoder of texts that cannot be built with these knobs, by an `InputError` on one
    of them."""
    path, path_field = str(knobs["path"]), f"{field}.path"
    folder = _own_folder(knobs, field)
    if folder is None:
        return
    config = _config(folder, path_field)
    if config.get("model_type") not in ENCODERS:
        raise unknown(
            path_field, f"kind of encoder in {path!r}", config.get("model_type"), ENCODERS
        )
    if knobs["weights"] == "published" and not any(folder.glob("*.safetensors")):
        problem = (
            f"{path!r} has no weights in safetensors; add them, or set {field}.weights to null to"
            " train from scratch"
        )
        raise InputError(path_field, problem)
    if not (folder / TOKENIZER).is_file():
        raise InputError(path_field, f"{path!r} has no {TOKENIZER}, by which texts become tokens")
    if knobs["tokens"] > (most_tokens := positions(config)):
        raise InputError(
            f"{field}.tokens",
            f"the model in {path!r} has {most_tokens} positions, and texts are to have"
            f" {knobs['tokens']} tokens",
        )
    largest = _largest(str(folder / TOKENIZER), (folder / TOKENIZER).stat().st_mtime_ns, path_field)
    if largest >= config["vocab_size"]:
        problem = (
            f"the tokenizer has tokens up to {largest}, and the model in {path!r} has vectors for"
            f" {config['vocab_size']}"
        )
        raise InputError(path_field, f"{problem}, so they are not of one model")


def check_vision_language(knobs: Mapping[str, Any], field: str) -> None:
    """Refuse what is no vision-language model with weights, or asks for code or bits that it may
    not have, by an `InputError`."""
    path, path_field, revision = str(knobs["path"]), f"{field}.path", str(knobs["revision"] or "")
    if knobs["trust_code"] and not (is_hub_name(path) and _COMMIT.fullmatch(revision)):
        problem = (
            "runs code of a model of the hub, so it needs path: owner/name and revision: the 40"
            " digits of the commit that you read"
        )
        raise InputError(f"{field}.trust_code", problem)
    if knobs["four_bit"] and find_spec("bitsandbytes") is None:
        raise InputError(
            f"{field}.four_bit", "needs the package bitsandbytes: pip install bitsandbytes"
        )
    if knobs["beams"] > 1 and knobs["temperature"] > 0:
        raise InputError(
            f"{field}.temperature", "must be 0 with several beams, which are searched, not drawn"
        )
    fallback, form = str(knobs["fallback"] or ""), knobs["format"]
    if "{labels}" in fallback or "{list}" in fallback:
        raise InputError(
            f"{field}.fallback",
            "must be a prompt without {labels} and {list}: it stands in for one that is too long",
        )
    if form is not None and not ("{image}" in form and "{prompt}" in form):
        raise InputError(
            f"{field}.format", f"must hold {{image}} and {{prompt}}, and is {shown(form)}"
        )
    if knobs["tuned"]:
        for name, fits, problem in (
            (
                "by",
                knobs["by"] == "score",
                "must be score with tuned: what is trained are the likelihoods of the labels",
            ),
            (
                "fallback",
                knobs["fallback"] is None,
                "is for models that are not tuned; make the prompt one without {labels}",
            ),
            (
                "four_bit",
                not knobs["four_bit"],
                "cannot be with tuned; dtype: bfloat16 halves the memory",
            ),
            (
                "dtype",
                knobs["dtype"] != "float16",
                "must be auto, float32 or bfloat16 with tuned: float16 overflows in training",
            ),
        ):
            if not fits:
                raise InputError(f"{field}.{name}", problem)
    folder = _own_folder(knobs, field)
    if folder is None:
        return
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        sees = any(
            name in config
            for name in ("vision_config", "vq_config", "image_token_id", "image_token_index")
        )
    except (OSError, ValueError, TypeError):
        raise InputError(
            path_field, f"{path!r} has no config.json of a vision-language model"
        ) from None
    if not sees or config.get("model_type") in _NO_WORDS:
        raise InputError(
            path_field,
            f"{path!r} holds a model of kind {config.get('model_type')!r}, which does not answer in"
            " words about images",
        )
    encodes = (
        config.get("is_encoder_decoder") or config.get("use_decoder_only_language_model") is False
    )
    for name in ("by", "fallback") if encodes else ():
        if knobs[name] not in ("generate", None):
            problem = (
                f"scores labels behind a prompt, and {path!r} reads prompts by an encoder; ask it"
                " with by: generate"
            )
            raise InputError(f"{field}.{name}", problem)
    if not any(folder.glob("*.safetensors")):
        raise InputError(
            path_field, f"{path!r} has no weights in safetensors, the only form that is read"
        )


def check_clip(knobs: Mapping[str, Any], field: str) -> None:
    """Refuse prompts that name no class, and what is no folder of CLIP, by an `InputError` on one
    of the knobs."""
    prompts, names = knobs["prompts"], knobs["names"] or {}
    if (
        not isinstance(prompts, list)
        or not prompts
        or not all(isinstance(prompt_part, str) and LABEL in prompt_part for prompt_part in prompts)
    ):
        raise InputError(
            f"{field}.prompts",
            f"must be a list of texts with {LABEL} in each, not {shown(prompts)}",
        )
    if not isinstance(names, dict) or not all(
        isinstance(prompt_part, str) for pair in names.items() for prompt_part in pair
    ):
        raise InputError(
            f"{field}.names", f"must be texts by the names of classes, not {shown(names)}"
        )
    folder = _own_folder(knobs, field)
    if folder is None:
        return
    try:
        kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{field}.path", f"{str(folder)!r} has no config.json of CLIP") from None
    if kind != "clip":
        raise unknown(f"{field}.path", f"kind of model in {str(folder)!r}", kind, ["clip"])
    for files, missing in (
        (("*.safetensors",), "weights in safetensors"),
        ((TOKENIZER, "vocab.json"), f"{TOKENIZER} or vocab.json, by which prompts become tokens"),
        (
            ("preprocessor_config.json", "processor_config.json"),
            "preprocessor_config.json, by which images are resized",
        ),
    ):
        if not any(file for name in files for file in folder.glob(name)):
            raise InputError(f"{field}.path", f"{str(folder)!r} has no {missing}")


def _own_folder(knobs: Mapping[str, Any], field: str) -> Path | None:
    """The folder that `path` names; None for a model of the hub, which must be pinned."""
    path = str(knobs["path"])
    if is_hub_name(path):
        if not knobs["revision"]:
            raise InputError(
                f"{field}.revision",
                f"{path!r} is on the hub, where a name moves; give the commit that is meant",
            )
        return None
    if not Path(path).is_dir():
        problem = (
            f"there is no folder {path!r}; name one with config.json, or a model of the hub as"
            " owner/name"
        )
        raise InputError(f"{field}.path", problem)
    return Path(path)


def positions(config: Mapping[str, Any]) -> int:
    """The tokens that an encoder has positions for: those of RoBERTa's kin begin after the number
    of padding."""
    most_tokens = int(config["max_position_embeddings"])
    return (
        most_tokens
        if config["model_type"] == "bert"
        else most_tokens - int(config["pad_token_id"]) - 1
    )


_NO_WORDS = ("align", "altclip", "chinese_clip", "clip", "clipseg", "siglip", "siglip2")


def hash_once(file: Path) -> str:
    """The hash of a file, which is read again when its size or time has changed: weights of 15 GB
    take ten seconds."""
    file_status = file.stat()
    return _known_hash(str(file.resolve()), file_status.st_size, file_status.st_mtime_ns)


@lru_cache(4096)
def _known_hash(file: str, size: int, changed: int) -> str:
    return file_hash(Path(file))


def _config(folder: Path, field: str) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        _ = {name: int(config[name]) for name in ("vocab_size", "max_position_embeddings")}
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            field, f"{str(folder)!r} has no config.json of an encoder of texts"
        ) from None
    return {"pad_token_id": 0 if config.get("model_type") == "bert" else 1, **config}


@lru_cache(64)
def _largest(file: str, changed: int, field: str) -> int:
    """The largest number of a token in a tokenizer's file."""
    try:
        tokenizer_file = json.loads(Path(file).read_text(encoding="utf-8"))
        vocabulary = tokenizer_file["model"]["vocab"]
        numbers = vocabulary.values() if isinstance(vocabulary, dict) else [len(vocabulary) - 1]
        return max([*numbers, *(token["id"] for token in tokenizer_file.get("added_tokens", []))])
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            field, f"{file!r} cannot be read as a tokenizer of the library tokenizers"
        ) from None
