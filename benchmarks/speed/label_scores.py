"""The likelihoods of all labels by one pass of a vision-language model, beside one pass a label.

    python -m benchmarks.speed.label_scores [--rounds 7] [--labels 2,10,60]

A random LLaVA: vision tower of 6 layers of 192 with 64 patches, language model of 6 layers of 256;
8 pictures, labels of one to three tokens, one thread, CPU time, both sides in turn in one process.
Prints the largest difference of the log-likelihoods, and the ratio of a pass a label to one pass:
median and range over rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
os.environ["HF_HUB_OFFLINE"] = "1"


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--labels", default="2,10,60")
    told = parser.parse_args()
    torch.set_num_threads(1)
    from tests.models import tiny_vision

    from crosswind.models.language.vision_language import VisionLanguage, _pictures

    tiny_vision.VISION.update(
        hidden_size=192, intermediate_size=384, num_hidden_layers=6, image_size=64
    )
    sizes = {
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 6,
        "max_position_embeddings": 512,
    }
    words = tiny_vision.SAID.split()
    with tempfile.TemporaryDirectory() as place:
        folder = tiny_vision.write_llava(Path(place) / "llava", side=64, **sizes)
        model = VisionLanguage(path=str(folder), by="score", prompt="Which is it")
        loaded, text = model._loaded(), model._loaded().said("Which is it", None)
        noise = np.random.default_rng(0).integers(0, 256, (8, 64, 64, 3), dtype=np.uint8)
        pictures = _pictures(noise)
        for many in map(int, told.labels.split(",")):
            labels = [
                " ".join(words[place % 40 : place % 40 + 1 + place % 3]) for place in range(many)
            ]
            sheet, cut = (
                model._sheet(loaded, text, labels, noise[:2]),
                loaded.shared(text, labels, pictures),
            )
            assert sheet is not None
            ratios, apart = [], 0.0
            for _ in range(told.rounds):
                start = time.process_time()
                alone = model._alone(loaded, text, labels, cut, pictures)
                middle = time.process_time()
                together = model._together(loaded, text, sheet, pictures)
                ratios.append((middle - start) / (time.process_time() - middle))
                apart = max(apart, float((alone - together).abs().max()))
            found = {
                "labels": many,
                "ratio": statistics.median(ratios),
                "range": [min(ratios), max(ratios)],
                "apart": apart,
            }
            print(
                json.dumps(
                    {
                        name: round(value, 6) if isinstance(value, float) else value
                        for name, value in found.items()
                    }
                )
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
