"""Tiny random language models, written as the library transformers writes them: masked ones, and
translators."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

WORDS = [
    "the",
    "a",
    "film",
    "book",
    "story",
    "actor",
    "was",
    "is",
    "and",
    "but",
    "not",
    "very",
    "good",
    "bad",
    "great",
    "awful",
    "i",
    "hate",
    "love",
    "it",
    "this",
    "that",
    "so",
    "dull",
    "fun",
    "fine",
    "long",
    "short",
    "day",
    "night",
    "rain",
    "sun",
    "play",
    "##ing",
    "##s",
    "##ed",
    "##ly",
    ",",
    ".",
    "!",
    "?",
    ";",
    ":",
]


def masked(
    folder: Path,
    positions: int = 24,
    seed: int = 0,
    mask: bool = True,
    kind: str = "bert",
    head: bool = True,
) -> Path:
    """A masked language model with two layers: `bert` with word pieces, `roberta` with pieces of
    bytes."""
    import torch
    import transformers
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        trainers,
    )

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(["[MASK]"] if mask else [])]
    if kind == "bert":
        vocabulary = {
            word: place
            for place, word in enumerate([*special, *"abcdefghijklmnopqrstuvwxyz", *WORDS[3:]])
        }
        vocabulary |= {
            word: len(vocabulary) + place
            for place, word in enumerate(w for w in WORDS if w not in vocabulary)
        }
        inner = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        inner.normalizer = normalizers.BertNormalizer(lowercase=True)
        inner.pre_tokenizer, inner.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    else:
        inner = Tokenizer(models.BPE(unk_token="[UNK]"))
        inner.pre_tokenizer, inner.decoder = (
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            decoders.ByteLevel(),
        )
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
        inner.train_from_iterator([" ".join(WORDS)] * 20, trainer)
    ends = [(name, inner.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    names |= {"mask_token": "[MASK]"} if mask else {}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **names)
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    sizes |= {"vocab_size": inner.get_vocab_size(), "max_position_embeddings": positions}
    torch.manual_seed(seed)
    if kind == "bert":
        config = transformers.BertConfig(**sizes)
        network: Any = (transformers.BertForMaskedLM if head else transformers.BertModel)(config)
    else:
        config = transformers.RobertaConfig(
            **{**sizes, "max_position_embeddings": positions + 1}, pad_token_id=0
        )
        network = transformers.RobertaForMaskedLM(config)
    with torch.no_grad():  # random ones of the usual size make all tokens about as likely
        for part in network.parameters():
            part.mul_(4.0)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def translator(folder: Path, one: str, other: str, positions: int = 24, seed: int = 0) -> Path:
    """A Marian model of one layer from one language to the other, with pieces of a small corpus."""
    import sentencepiece
    import torch
    import transformers

    folder.mkdir(parents=True)
    corpus = [
        " ".join(WORDS[start : start + 9]).replace("##", "") for start in range(len(WORDS))
    ] * 4
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus),
        model_prefix=str(folder / "pieces"),
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "pieces.model"))
    found = [pieces.id_to_piece(number) for number in range(pieces.get_piece_size())]
    names = ["</s>", "<unk>", *(piece for piece in found if not piece.startswith("<")), "<pad>"]
    (folder / "vocab.json").write_text(
        json.dumps({name: place for place, name in enumerate(names)})
    )
    for side in ("source", "target"):
        shutil.copy(folder / "pieces.model", folder / f"{side}.spm")
    warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
    tokenizer = transformers.MarianTokenizer(
        vocab=str(folder / "vocab.json"),
        source_spm=str(folder / "source.spm"),
        target_spm=str(folder / "target.spm"),
        source_lang=one,
        target_lang=other,
    )
    torch.manual_seed(seed)
    sizes = {
        f"{side}_{name}": size
        for side in ("encoder", "decoder")
        for name, size in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 16))
    }
    network = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=len(names),
            d_model=16,
            max_position_embeddings=positions,
            pad_token_id=len(names) - 1,
            eos_token_id=0,
            decoder_start_token_id=len(names) - 1,
            **sizes,
        )
    )
    with torch.no_grad():
        for part in network.parameters():
            part.mul_(5.0)
        network.final_logits_bias[0, 0] = -4.0  # an end at once would leave nothing
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
