"""Folders and files that a model is made from, such as a tokenizer or an encoder of texts: what they hash to, and what they lack.

Planning asks before any work, so nothing here needs torch or transformers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from crosswind.core.errors import InputError, unknown
from crosswind.core.types import file_hash

__all__ = ["ENCODERS", "check_encoder", "check_tokenizer", "contents_hash", "is_hub_name", "positions"]

ENCODERS = ("bert", "camembert", "roberta", "xlm-roberta")
"""The kinds of encoder, as config.json names them, that are taken apart into layers."""
TOKENIZER = "tokenizer.json"
_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_READ = (".json", ".model", ".safetensors", ".txt")


def is_hub_name(path: str) -> bool:
    """Whether `path` is no folder that is there, and could be a model's name on the hub (`owner/name`)."""
    return _HUB.fullmatch(path) is not None and not Path(path).exists()


def contents_hash(path: Path, kind: str) -> str:
    """The SHA-256 of a tokenizer's file, or of a folder's files that are read and their names."""
    if kind == "tokenizer":
        return file_hash(path / TOKENIZER if path.is_dir() else path)
    told = [f"{file.name} {file_hash(file)}" for file in sorted(path.iterdir()) if file.suffix in _READ and file.is_file()]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def check_tokenizer(path: str, field: str) -> None:
    """Refuse what holds no tokenizer of the library tokenizers, by an `InputError` on `field`."""
    file = Path(path) / TOKENIZER if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise InputError(field, f"there is no tokenizer {str(file)!r}; name a {TOKENIZER} of the library tokenizers, or its folder")
    _largest(str(file), file.stat().st_mtime_ns, field)


def check_encoder(knobs: Mapping[str, Any], field: str) -> None:
    """Refuse an encoder of texts that cannot be built with these knobs, by an `InputError` on one of them."""
    path, place = str(knobs["path"]), f"{field}.path"
    if is_hub_name(path):
        if not knobs["revision"]:
            raise InputError(f"{field}.revision", f"{path!r} is on the hub, where a name moves; give the commit that is meant")
        return
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(place, f"there is no folder {path!r}; name one with config.json, or a model of the hub as owner/name")
    config = _config(folder, place)
    if config.get("model_type") not in ENCODERS:
        raise unknown(place, f"kind of encoder in {path!r}", config.get("model_type"), ENCODERS)
    if knobs["weights"] == "published" and not any(folder.glob("*.safetensors")):
        problem = f"{path!r} has no weights in safetensors; add them, or set {field}.weights to null to train from scratch"
        raise InputError(place, problem)
    if not (folder / TOKENIZER).is_file():
        raise InputError(place, f"{path!r} has no {TOKENIZER}, by which texts become tokens")
    if knobs["tokens"] > (most := positions(config)):
        raise InputError(
            f"{field}.tokens", f"the model in {path!r} has {most} positions, and texts are to have {knobs['tokens']} tokens"
        )
    largest = _largest(str(folder / TOKENIZER), (folder / TOKENIZER).stat().st_mtime_ns, place)
    if largest >= config["vocab_size"]:
        problem = f"the tokenizer has tokens up to {largest}, and the model in {path!r} has vectors for {config['vocab_size']}"
        raise InputError(place, f"{problem}, so they are not of one model")


def positions(config: Mapping[str, Any]) -> int:
    """The tokens that an encoder has positions for: those of RoBERTa's kin begin after the number of padding."""
    most = int(config["max_position_embeddings"])
    return most if config["model_type"] == "bert" else most - int(config["pad_token_id"]) - 1


def _config(folder: Path, field: str) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        _ = {name: int(config[name]) for name in ("vocab_size", "max_position_embeddings")}
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(field, f"{str(folder)!r} has no config.json of an encoder of texts") from None
    return {"pad_token_id": 0 if config.get("model_type") == "bert" else 1, **config}


@lru_cache(64)
def _largest(file: str, changed: int, field: str) -> int:
    """The largest number of a token in a tokenizer's file."""
    try:
        told = json.loads(Path(file).read_text(encoding="utf-8"))
        vocabulary = told["model"]["vocab"]
        numbers = vocabulary.values() if isinstance(vocabulary, dict) else [len(vocabulary) - 1]
        return max([*numbers, *(item["id"] for item in told.get("added_tokens", []))])
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(field, f"{file!r} cannot be read as a tokenizer of the library tokenizers") from None
