"""A tiny random CLIP with its tokenizer and processor, in a folder as the library transformers
keeps it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.models.tiny_texts import write_tokenizer

WORDS = (
    "a",
    "photo",
    "of",
    "the",
    "number",
    "digit",
    ".",
    *(str(code) for code in range(10)),
    "zero",
    "one",
    "two",
)


def write_clip(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """Two layers of width 32 in each half, pictures of 32 pixels in patches of 8, features of 16,
    12 positions for texts."""
    import torch
    from tokenizers import Tokenizer
    from transformers import (
        CLIPConfig,
        CLIPImageProcessor,
        CLIPModel,
        PreTrainedTokenizerFast,
        utils,
    )

    tokenizer: Any = PreTrainedTokenizerFast
    logging: Any = utils.logging
    many = write_tokenizer(folder, WORDS)
    made = Tokenizer.from_file(str(folder / "tokenizer.json"))
    told = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    tokenizer(tokenizer_object=made, **told).save_pretrained(folder)
    CLIPImageProcessor(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    ).save_pretrained(folder)
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "projection_dim": 16,
    }
    texts = {
        "vocab_size": many,
        "max_position_embeddings": 12,
        "bos_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
    }
    config = CLIPConfig(
        text_config={**sizes, **texts},
        vision_config={**sizes, "image_size": 32, "patch_size": 8},
        projection_dim=16,
        **changes,
    )
    logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        CLIPModel(config).save_pretrained(folder)
    return folder


@cache
def clip_folder() -> str:
    """One such folder for all tests of a process."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(write_clip(Path(folder)))
