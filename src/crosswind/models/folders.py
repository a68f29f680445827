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
_OF_IMAGES = ("vision_config", "vq_config", "image_token_id", "image_token_index")
"""What only the config.json of a model that sees images has."""
_NO_WORDS = ("align", "altclip", "chinese_clip", "clip", "clipseg", "siglip", "siglip2")
"""Kinds of models that see images and do not answer in words."""
_CLIP_FILES = (
    (("*.safetensors",), "weights in safetensors"),
    ((TOKENIZER, "vocab.json"), f"{TOKENIZER} or vocab.json, by which prompts become tokens"),
    (
        ("preprocessor_config.json", "processor_config.json"),
        "preprocessor_config.json, by which images are resized",
    ),
)
"""Names of files of which CLIP needs one, and what is missing without them."""


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
    file_lines = []
    for file in inside:
        if file.suffix in read and file.is_file():
            file_lines.append(f"{file.relative_to(path).as_posix()} {hash_once(file)}")
    return hashlib.sha256("\n".join(file_lines).encode()).hexdigest()


def check_tokenizer(path: str, field: str) -> None:
    """Refuse what holds no tokenizer of the library tokenizers, by an `InputError` on `field`."""
    if Path(path).is_dir():
        file = Path(path) / TOKENIZER
    else:
        file = Path(path)
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
    path = str(knobs["path"])
    path_field = f"{field}.path"
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
    _check_loading(knobs, field)
    _check_prompting(knobs, field)
    if knobs["tuned"]:
        _check_tuning(knobs, field)
    folder = _own_folder(knobs, field)
    if folder is None:
        return
    path = str(knobs["path"])
    path_field = f"{field}.path"
    config = _vision_language_config(folder, path, path_field)
    if _reads_prompts_by_encoder(config):
        for name in ("by", "fallback"):
            if knobs[name] not in ("generate", None):
                problem = (
                    f"scores labels behind a prompt, and {path!r} reads prompts by an encoder; ask"
                    " it with by: generate"
                )
                raise InputError(f"{field}.{name}", problem)
    if not any(folder.glob("*.safetensors")):
        problem = f"{path!r} has no weights in safetensors, the only form that is read"
        raise InputError(path_field, problem)


def _check_loading(knobs: Mapping[str, Any], field: str) -> None:
    """Refuse code of a model that is not pinned, and four bits without their package."""
    revision = str(knobs["revision"] or "")
    is_pinned = is_hub_name(str(knobs["path"])) and _COMMIT.fullmatch(revision)
    if knobs["trust_code"] and not is_pinned:
        problem = (
            "runs code of a model of the hub, so it needs path: owner/name and revision: the 40"
            " digits of the commit that you read"
        )
        raise InputError(f"{field}.trust_code", problem)
    if knobs["four_bit"] and find_spec("bitsandbytes") is None:
        problem = "needs the package bitsandbytes: pip install bitsandbytes"
        raise InputError(f"{field}.four_bit", problem)


def _check_prompting(knobs: Mapping[str, Any], field: str) -> None:
    """Refuse settings of search, fallback and format that do not go together."""
    if knobs["beams"] > 1 and knobs["temperature"] > 0:
        problem = "must be 0 with several beams, which are searched, not drawn"
        raise InputError(f"{field}.temperature", problem)
    fallback = str(knobs["fallback"] or "")
    if "{labels}" in fallback or "{list}" in fallback:
        problem = (
            "must be a prompt without {labels} and {list}: it stands in for one that is too long"
        )
        raise InputError(f"{field}.fallback", problem)
    form = knobs["format"]
    if form is not None and not ("{image}" in form and "{prompt}" in form):
        problem = f"must hold {{image}} and {{prompt}}, and is {shown(form)}"
        raise InputError(f"{field}.format", problem)


def _check_tuning(knobs: Mapping[str, Any], field: str) -> None:
    """Refuse settings of a model that is tuned which training cannot follow."""
    if knobs["by"] != "score":
        problem = "must be score with tuned: what is trained are the likelihoods of the labels"
        raise InputError(f"{field}.by", problem)
    if knobs["fallback"] is not None:
        problem = "is for models that are not tuned; make the prompt one without {labels}"
        raise InputError(f"{field}.fallback", problem)
    if knobs["four_bit"]:
        problem = "cannot be with tuned; dtype: bfloat16 halves the memory"
        raise InputError(f"{field}.four_bit", problem)
    if knobs["dtype"] == "float16":
        problem = "must be auto, float32 or bfloat16 with tuned: float16 overflows in training"
        raise InputError(f"{field}.dtype", problem)


def _vision_language_config(folder: Path, path: str, field: str) -> dict[str, Any]:
    """The config.json of a model that answers in words about images. Raises `InputError` on
    `field` for any other."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        sees_images = any(name in config for name in _OF_IMAGES)
    except (OSError, ValueError, TypeError):
        problem = f"{path!r} has no config.json of a vision-language model"
        raise InputError(field, problem) from None
    if not sees_images or config.get("model_type") in _NO_WORDS:
        problem = (
            f"{path!r} holds a model of kind {config.get('model_type')!r}, which does not answer in"
            " words about images"
        )
        raise InputError(field, problem)
    return config


def _reads_prompts_by_encoder(config: Mapping[str, Any]) -> bool:
    """Whether the prompt goes to an encoder, so that no label can stand behind it."""
    is_decoder_only = config.get("use_decoder_only_language_model")
    return bool(config.get("is_encoder_decoder") or is_decoder_only is False)


def check_clip(knobs: Mapping[str, Any], field: str) -> None:
    """Refuse prompts that name no class, and what is no folder of CLIP, by an `InputError` on one
    of the knobs."""
    _check_prompts(knobs["prompts"], f"{field}.prompts")
    _check_class_texts(knobs["names"] or {}, f"{field}.names")
    folder = _own_folder(knobs, field)
    if folder is None:
        return
    path_field = f"{field}.path"
    try:
        kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(path_field, f"{str(folder)!r} has no config.json of CLIP") from None
    if kind != "clip":
        raise unknown(path_field, f"kind of model in {str(folder)!r}", kind, ["clip"])
    for files, missing in _CLIP_FILES:
        if not any(file for name in files for file in folder.glob(name)):
            raise InputError(path_field, f"{str(folder)!r} has no {missing}")


def _check_prompts(prompts: object, field: str) -> None:
    """Refuse what is not a list of texts that name the class, at least one."""
    if isinstance(prompts, list) and prompts:
        if all(isinstance(prompt, str) and LABEL in prompt for prompt in prompts):
            return
    raise InputError(field, f"must be a list of texts with {LABEL} in each, not {shown(prompts)}")


def _check_class_texts(names: object, field: str) -> None:
    """Refuse what is not a mapping of texts to texts."""
    if isinstance(names, dict):
        if all(isinstance(word, str) for pair in names.items() for word in pair):
            return
    raise InputError(field, f"must be texts by the names of classes, not {shown(names)}")


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
    if config["model_type"] == "bert":
        return most_tokens
    return most_tokens - int(config["pad_token_id"]) - 1


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
