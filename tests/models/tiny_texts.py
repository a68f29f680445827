"""Tiny random encoders of texts and their tokenizers, in folders as the library transformers keeps
them."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

WORDS = (
    "the",
    "a",
    "film",
    "book",
    "plot",
    "was",
    "is",
    "good",
    "great",
    "fine",
    "bad",
    "poor",
    "dull",
    "it",
)
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")


def write_tokenizer(folder: Path, words: Sequence[str] = WORDS) -> int:
    """A tokenizer of whole words in the folder's tokenizer.json; how many tokens it has."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    folder.mkdir(parents=True, exist_ok=True)
    numbers = {word: number for number, word in enumerate([*SPECIAL, *words])}
    made = Tokenizer(models.WordLevel(numbers, unk_token="<unk>"))
    made.add_special_tokens(list(SPECIAL))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    made.save(str(folder / "tokenizer.json"))
    return len(numbers)


def write_folder(folder: Path, words: Sequence[str] = WORDS, **changes: Any) -> dict[str, Any]:
    """A tokenizer, config.json of RoBERTa with two layers of 32 numbers and 32 positions, and an
    empty file of weights."""
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
    }
    told = {
        "vocab_size": write_tokenizer(folder, words),
        "max_position_embeddings": 34,
        "type_vocab_size": 1,
        "pad_token_id": 1,
    }
    told = {**sizes, **told, **changes}
    (folder / "config.json").write_text(json.dumps({"model_type": "roberta", **told}))
    (folder / "model.safetensors").touch()
    return told


def write_encoder(
    folder: Path, words: Sequence[str] = WORDS, *, seed: int = 0, **changes: Any
) -> Path:
    """The same with random weights, as the library writes it."""
    import torch
    from transformers import RobertaConfig, RobertaModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        RobertaModel(
            RobertaConfig(**write_folder(folder, words, **changes)), add_pooling_layer=False
        ).save_pretrained(folder)
    return folder


@cache
def encoder_folder() -> str:
    """One such folder for all tests of a process."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(write_encoder(Path(folder)))
