"""The convolutional network on words: by hand, whatever stands beside a text, and of the sizes that
its authors give."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import torch
from torch.nn import functional

from crosswind.core.types import PART_MARK, InputSpec
from crosswind.models.build import build_model
from crosswind.models.networks.text_cnn import KERNELS, TextCNN

SMALL = {"words": 12, "embedding": 6, "width": 5, "hidden": 7, "buckets": 50}


def network(**knobs):
    settings = {**SMALL, **knobs}
    return build_model(
        "text-cnn",
        settings,
        InputSpec.tokens(settings["words"], settings["buckets"]),
        ("a", "b", "c"),
        0,
    ).eval()


def test_tokens_are_hashes_of_words_and_marks_and_the_mark_between_parts_is_one():
    encoder = TextCNN(**SMALL).encoder(InputSpec.text(), 0)
    rows = encoder.apply(
        np.array(["It isn't bad!", "", f"One.{PART_MARK}Two", "x " * 100], dtype=object)
    )
    codes = [
        [zlib.crc32(word.encode()) % 49 + 1 for word in row]
        for row in (["it", "isn't", "bad", "!"], [], ["one", ".", PART_MARK, "two"])
    ]
    assert encoder.input == InputSpec.tokens(12, 50) and rows.shape == (4, 12)
    assert (
        [row[row > 0].tolist() for row in rows[:3]] == codes
        and len(set(rows[3])) == 1
        and rows[3, 0] > 0
    )


@pytest.mark.parametrize("depth", [1, 3])
def test_logits_are_those_of_every_text_by_itself_unpadded(depth):
    """Each text alone, padded by no more than what a window needs: by convolutions written out, the
    maxima over its words."""
    model, drawn = network(depth=depth), np.random.default_rng(0)
    lengths = [0, 1, 2, 3, 7, 12]
    x = torch.zeros(len(lengths), 12, dtype=torch.int64)
    for row, length in enumerate(lengths):
        x[row, :length] = torch.from_numpy(drawn.integers(1, 50, length))
    weights, logits_by_hand = dict(model.named_parameters()), []
    for row, length in zip(x, lengths, strict=True):
        maxima = []
        for number, kernel in enumerate(KERNELS):
            hidden = weights["embedding.vectors.weight"][row[:length]].T
            for layer in range(depth):
                name = f"convolutions.branches.{number}.{layer}"
                if length:
                    padded = functional.pad(hidden, ((kernel - 1) // 2, kernel // 2))
                    hidden = functional.conv1d(
                        padded[None], weights[f"{name}.weight"], weights[f"{name}.bias"]
                    )[0].clamp(min=0)
            maxima.append(hidden.amax(1) if length else torch.zeros(5))
        wide = torch.relu(
            functional.linear(
                torch.cat(maxima), weights["hidden.1.weight"], weights["hidden.1.bias"]
            )
        )
        logits_by_hand.append(functional.linear(wide, weights["fc.weight"], weights["fc.bias"]))
    torch.testing.assert_close(model(x), torch.stack(logits_by_hand))
    torch.testing.assert_close(model(x[3:4, :3]), model(x)[3:4])


def test_sizes_are_those_of_the_paper():
    model = build_model("text-cnn", {}, InputSpec.tokens(256, 50263), ("1", "2", "3", "4", "5"), 0)
    convolutions = sum(512 * 256 * kernel + 256 for kernel in (3, 4, 5))
    assert (
        sum(parameter.numel() for parameter in model.parameters())
        == 50263 * 512 + convolutions + 3 * 256 * 512 + 512 + 512 * 5 + 5
    )
    assert model.stages == ("embedding", "convolutions", "hidden") and model.width == 512
