"""How fast texts are changed: EDA and random replacement beside plain Python, SSMBA in batches
beside one text at a time.

    python -m benchmarks.speed.text_changes --data DIR [--rounds N]

The texts are reviews of `DIR/fdu_mtl_12domains.parquet`. The plain EDA does the same four edits
with the module `random` and the same lexicon, one text after the other. SSMBA works on a masked
language model of the size of MiniLM (6 layers of 384), whose weights are random, which costs what
trained ones cost; it is asked about 64 reviews of at most 80 words, first in one call, then one by
one, and a third time from the disk. Times are CPU seconds of one thread, alternated; medians over
rounds, with the smallest and largest.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars
import torch

from crosswind.core.registry import load
from crosswind.core.seeds import hash64
from crosswind.transforms.text.changing import WORDS, changed_texts
from crosswind.transforms.text.synonyms import Bundled, bundled_words, is_stop_word


def plain_eda(words: list[str], lexicon: Bundled) -> list[str]:
    """One of the four edits at a rate of 0.1."""
    words, n = list(words), max(1, int(0.1 * len(words)))
    kind = random.choice(["replace", "insert", "swap", "delete"])
    known = [word for word in words if not is_stop_word(word) and lexicon.of(word.lower())]
    if kind == "replace":
        for word in random.sample(known, min(n, len(known))):
            words[words.index(word)] = random.choice(lexicon.of(word.lower()))
    elif kind == "insert" and known:
        for _ in range(n):
            words.insert(
                random.randrange(len(words) + 1),
                random.choice(lexicon.of(random.choice(known).lower())),
            )
    elif kind == "swap" and len(words) > 1:
        for _ in range(n):
            one, other = random.sample(range(len(words)), 2)
            words[one], words[other] = words[other], words[one]
    elif kind == "delete":
        words = [word for word in words if random.random() >= 0.1] or words[:1]
    return words


def plain_replacement(words: list[str], vocabulary: tuple[str, ...]) -> list[str]:
    """15% of the words by others."""
    words = list(words)
    for place in random.sample(range(len(words)), min(len(words), max(1, int(0.15 * len(words))))):
        words[place] = random.choice(vocabulary)
    return words


def little_model(folder: Path, texts: list[str]) -> Path:
    """A masked language model of MiniLM's size with random weights, and word pieces of the
    texts."""
    import transformers
    from tokenizers import BertWordPieceTokenizer

    inner = BertWordPieceTokenizer(lowercase=True)
    inner.train_from_iterator(texts, vocab_size=20_000, show_progress=False)
    inner.save_model(str(folder))
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"))
    sizes = {
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    }
    transformers.BertForMaskedLM(
        transformers.BertConfig(vocab_size=len(tokenizer), **sizes)
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def measured(rounds: int, sides: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """CPU seconds of each side, round by round."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            began = time.process_time()
            side()
            found[name].append(time.process_time() - began)
    return found


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    every = polars.read_parquet(options.data / "fdu_mtl_12domains.parquet")["text"].to_list()
    texts, lexicon, vocabulary = every[:2000], Bundled(), bundled_words()
    keys = hash64(np.arange(len(texts)), 1)
    for name, plain in (
        ("eda", lambda: [" ".join(plain_eda(WORDS.findall(text), lexicon)) for text in texts]),
        (
            "random-replacement",
            lambda: [
                " ".join(plain_replacement(WORDS.findall(text), vocabulary)) for text in texts
            ],
        ),
    ):
        transform = load("text-transforms", name)()
        told(
            f"{name}, {len(texts):,} reviews",
            measured(
                options.rounds,
                {"ours": lambda t=transform: changed_texts(t, texts, keys), "plain": plain},
            ),
            len(texts),
        )
    few = [text for text in every if 5 < len(text.split()) <= 80][:64]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CROSSWIND_DATA"] = f"{folder}/data"
        transform = load("text-transforms", "ssmba")(
            model=str(little_model(Path(folder), every[:5000]))
        )
        transform.check()
        numbers = iter(range(10**9))

        def at_once() -> None:
            changed_texts(transform, few, hash64(np.arange(len(few)), next(numbers)))

        def one_by_one() -> None:
            for text, key in zip(few, hash64(np.arange(len(few)), next(numbers)), strict=True):
                changed_texts(transform, [text], np.array([key]))

        def from_disk() -> None:
            changed_texts(transform, few, hash64(np.arange(len(few)), 0))

        sides = {"ours": at_once, "one by one": one_by_one, "from the disk": from_disk}
        told(f"ssmba, {len(few)} reviews", measured(options.rounds, sides), len(few))


def told(what: str, seconds: dict[str, list[float]], texts: int) -> None:
    """A line a side: microseconds a text, and its time in that of ours."""
    print(what)
    for name, own in seconds.items():
        ratios = [one / ours for one, ours in zip(own, seconds["ours"], strict=True)]
        ends = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"  {name:14} {1e6 * statistics.median(own) / texts:10.1f} us a text, {ends} of ours")


if __name__ == "__main__":
    main()
