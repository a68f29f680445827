"""Tiny random vision-language models with their processors, in folders as the library transformers
keeps them."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

SAID = """USER : ASSISTANT Classify the image into or Please provide only name of label . , Is it a yes no not zero one two three
four five six seven eight nine 0 1 2 3 4 5 6 7 8 9 digit Which"""
SPECIAL = (
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    "<image>",
    "<|user|>",
    "<|end|>",
    "<|assistant|>",
    "<|audio|>",
)
TEMPLATE = (
    "{% for m in messages %}<|user|>{% for c in m['content'] %}{% if c['type'] == 'image'"
    " %}<image>{% else %} {{ c['text'] }}{% endif %}{% endfor %}<|end|>{% endfor %}{% if"
    " add_generation_prompt %}<|assistant|>{% endif %}"
)
LANGUAGE = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
}
VISION = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 8,
}


def tokenizer(**told: Any) -> Any:
    """Whole words, with a beginning of text before each."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    numbers = {word: number for number, word in enumerate(dict.fromkeys([*SPECIAL, *SAID.split()]))}
    assert len(numbers) <= LANGUAGE["vocab_size"]
    made = Tokenizer(models.WordLevel(numbers, unk_token="<unk>"))
    made.add_special_tokens(list(SPECIAL))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        **told,
    )


def _saved(folder: Path, model: Any, processor: Any) -> Path:
    for parameter in model.parameters():
        parameter.data.mul_(4)  # so that the image matters
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = 2, 1
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def write_llava(folder: Path, *, template: bool = True, side: int = 16, **language: Any) -> Path:
    """LLaVA: CLIP's vision tower and Llama."""
    import torch
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
        text_config=LlamaConfig(**{**LANGUAGE, **language}),
        image_token_index=4,
        image_seq_length=(side // 8) ** 2,
    )
    images = CLIPImageProcessor(
        size={"shortest_edge": side}, crop_size={"height": side, "width": side}
    )
    made = LlavaProcessor(
        images,
        tokenizer(),
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE if template else None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlavaForConditionalGeneration(config)
    return _saved(folder, model, made)


def write_instructblip(folder: Path) -> Path:
    """InstructBLIP: its vision tower, a Q-Former and Llama in the place of Vicuna."""
    import torch
    from transformers import (
        BlipImageProcessor,
        InstructBlipConfig,
        InstructBlipForConditionalGeneration,
        InstructBlipProcessor,
        InstructBlipQFormerConfig,
        InstructBlipVisionConfig,
        LlamaConfig,
    )

    former = InstructBlipQFormerConfig(
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        encoder_hidden_size=16,
        max_position_embeddings=40,
        pad_token_id=1,
    )
    config = InstructBlipConfig(
        vision_config=InstructBlipVisionConfig(**VISION, initializer_range=0.5),
        qformer_config=former,
        text_config=LlamaConfig(**LANGUAGE),
        num_query_tokens=4,
        image_token_index=4,
    )
    images = BlipImageProcessor(size={"height": 16, "width": 16})
    made = InstructBlipProcessor(images, tokenizer(), tokenizer(), num_query_tokens=4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = InstructBlipForConditionalGeneration(config)
    return _saved(folder, model, made)


def write_phi(folder: Path) -> Path:
    """Phi-4-multimodal, the class that followed Phi-3.5-vision; 545 tokens an image, which its code
    fixes."""
    import torch
    from transformers import (
        Phi4MultimodalAudioConfig,
        Phi4MultimodalConfig,
        Phi4MultimodalFeatureExtractor,
        Phi4MultimodalForCausalLM,
        Phi4MultimodalImageProcessor,
        Phi4MultimodalProcessor,
        Phi4MultimodalVisionConfig,
    )

    audio = Phi4MultimodalAudioConfig(
        hidden_size=16,
        intermediate_size=16,
        num_blocks=1,
        num_attention_heads=2,
        ext_pw_out_channel=16,
        depthwise_separable_out_channel=16,
        nemo_conv_channels=16,
        audio_token_id=8,
    )
    vision = Phi4MultimodalVisionConfig(
        **{**VISION, "image_size": 448, "patch_size": 14, "num_hidden_layers": 3},
        crop_size=448,
        image_token_id=4,
    )
    config = Phi4MultimodalConfig(
        **{**LANGUAGE, "max_position_embeddings": 1024}, vision_config=vision, audio_config=audio
    )
    words = tokenizer(extra_special_tokens={"image_token": "<image>", "audio_token": "<|audio|>"})
    images = Phi4MultimodalImageProcessor(patch_size=14, dynamic_hd=1)
    made = Phi4MultimodalProcessor(
        images, Phi4MultimodalFeatureExtractor(), words, chat_template=TEMPLATE
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Phi4MultimodalForCausalLM(config)
    return _saved(folder, model, made)


MAKERS = {"llava": write_llava, "instructblip": write_instructblip, "phi": write_phi}


@cache
def llava_folder() -> str:
    """One such folder for all tests of a process."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(write_llava(Path(folder)))
