"""Tiny random models in the forms of CLIP, InstructBLIP and LLaVA, so that the studies of prompts
can be tried without a download.

    python examples/tiny_foundation_models.py FOLDER      (by default the working directory)
    crosswind run jeon2025/prompts --scale tiny --out out

Their answers mean nothing: the weights are drawn. Needs the extra `transformers`. Takes about 10
seconds, the study half a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

# Whole words: of the prompts of Jeon et al. 2025 and of the labels of the data that stand in for
# theirs.
_TEXT = """
USER : ASSISTANT a photo of the Classify image object animal building or land use in into Please provide only name label . , -
Choose that best describes Here is list labels to choose from What Is Yes yes No no square ellipse heart cube cylinder sphere
capsule normal tissue tumor small large answer if contains any and otherwise respond with single word analyze determine it not
present ' ? 0 1 2 3 4 5 6 7 8 9
"""
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<image>")
TEXT = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 8,
}
LLAMA = {**TEXT, "num_key_value_heads": 2, "max_position_embeddings": 256}
IMAGES: dict[str, Any] = {"size": {"shortest_edge": 16}, "crop_size": {"height": 16, "width": 16}}


def tokenizer() -> Any:
    """One token a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(
        models.WordLevel(
            {word: number for number, word in enumerate([*SPECIAL, *_TEXT.split()])},
            unk_token="<unk>",
        )
    )
    made.add_special_tokens(list(SPECIAL))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    told = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **told)


def write_clip(folder: Path) -> None:
    """CLIP: two transformers and their projections."""
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    text = {**TEXT, "max_position_embeddings": 24, "projection_dim": 16}
    config = CLIPConfig(
        text_config=text, vision_config={**VISION, "projection_dim": 16}, projection_dim=16
    )
    tokenizer().save_pretrained(folder)
    CLIPImageProcessor(**IMAGES).save_pretrained(folder)
    CLIPModel(config).save_pretrained(folder)


def write_llava(folder: Path) -> None:
    """LLaVA: CLIP's vision tower and Llama."""
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**VISION),
        text_config=LlamaConfig(**LLAMA),
        image_token_index=4,
        image_seq_length=4,
    )
    made = LlavaProcessor(
        CLIPImageProcessor(**IMAGES),
        tokenizer(),
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    _saved(folder, LlavaForConditionalGeneration(config), made)


def write_instructblip(folder: Path) -> None:
    """InstructBLIP: its vision tower, a Q-Former and Llama in the place of Vicuna."""
    from transformers import (
        BlipImageProcessor,
        InstructBlipConfig,
        InstructBlipForConditionalGeneration,
        InstructBlipProcessor,
        InstructBlipQFormerConfig,
        InstructBlipVisionConfig,
        LlamaConfig,
    )

    former = InstructBlipQFormerConfig(**TEXT, encoder_hidden_size=32, max_position_embeddings=256)
    config = InstructBlipConfig(
        vision_config=InstructBlipVisionConfig(**VISION),
        qformer_config=former,
        text_config=LlamaConfig(**LLAMA),
        num_query_tokens=4,
        image_token_index=4,
    )
    images = BlipImageProcessor(size={"height": 16, "width": 16})
    made = InstructBlipProcessor(images, tokenizer(), tokenizer(), num_query_tokens=4)
    _saved(folder, InstructBlipForConditionalGeneration(config), made)


def _saved(folder: Path, model: Any, processor: Any) -> None:
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = 2, 1
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


FOLDERS = {
    "clip-vit-base-patch32": write_clip,
    "clip-vit-large-patch14": write_clip,
    "clip-vit-large-patch14-336": write_clip,
    "instructblip-vicuna-7b": write_instructblip,
    "llava-1.5-7b-hf": write_llava,
}
"""From the folders that jeon2025/prompts and jeon2025/finetuned name to what writes a tiny model
there."""


def write_all(place: Path) -> None:
    """Write every folder, each with other weights. One that is there already is refused."""
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    for name in FOLDERS:
        if (place / name).exists():
            raise SystemExit(f"{place / name} is there already; name an empty folder")
    with torch.random.fork_rng(devices=[]):
        for seed, (name, write) in enumerate(FOLDERS.items()):
            torch.manual_seed(seed)
            write(place / name)
            print(f"wrote {place / name}")


if __name__ == "__main__":
    write_all(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("crosswind run jeon2025/prompts --scale tiny --out out")
