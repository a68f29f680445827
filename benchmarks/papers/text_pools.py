"""What networks answer on reviews, on those of other domains, and on changed ones: what
`benchmarks/papers/interval_coverage.py` reads.

    python -m benchmarks.papers.text_pools --data DIR --out OUT [--networks FIRST:LAST] [--near ni-eda]

`DIR/fdu_mtl_12domains.parquet` has 2,000 reviews of each of 12 domains, half of them positive.
Network i is trained on those of domain i modulo 12. Of what it has not seen 300 are its source and
300 are tested, as they are and under every change of the pool of texts; the source is shown in
draws of 250 for each family. 300 reviews of each other domain are natural shifts. Networks are bags
of words that differ in size, steps, learning rate, decay and label noise. `OUT/reviews/NUMBER.npz`
is as `benchmarks/papers/pools.py` writes it.
Nothing about intervals was chosen on them: all are for confirming, and are numbered so.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars
import torch
from benchmarks.papers.pools import NEAR

import crosswind as cw
from crosswind.core.knobs import resolve
from crosswind.core.registry import facts, load
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.copies import Chain, copies
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.split import RowSet
from crosswind.training.loop import fit
from crosswind.training.settings import ModelSpec, TrainingSettings
from crosswind.transforms.neighbourhood import TEXT_POOL, neighbourhood

SIZES = {"source": (300, 100), "pool": (250, 60), "test": (300, 60), "natural": (300, 100)}
"""By role: rows of a block, and how many of them have neighbours."""


def texts_of(name: str, texts: np.ndarray, label: np.ndarray) -> AttributedDataset:
    """A data set of texts in memory, with two classes."""
    table = AttributeTable((Attribute("label", ("0", "1")),), label[None])
    return AttributedDataset(
        name,
        table,
        lambda rows: texts[rows],
        InputSpec.text(),
        fingerprint=f"{name} {time.monotonic_ns()}",
    )


def settings_of(number: int) -> dict[str, Any]:
    """How network `number` is made and trained: every factor varies against the others."""
    random = np.random.default_rng([number, 7])
    return {
        "width": int(random.choice([16, 64, 256])),
        "words": int(random.choice([64, 256])),
        "steps": int(random.choice([60, 200, 600])),
        "lr": float(random.choice([3e-3, 1e-2, 3e-2])),
        "weight_decay": float(random.choice([0.0, 1e-4, 1e-3])),
        "label_noise": float(random.choice([0.0, 0.0, 0.2])),
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--networks", default="0:24", help="FIRST:LAST, the last not included")
    parser.add_argument(
        "--near", default="", help="the neighbourhood of which neighbours are asked for, too"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    out = options.out / "reviews"
    out.mkdir(parents=True, exist_ok=True)
    table = polars.read_parquet(options.data / "fdu_mtl_12domains.parquet").sort("domain", "text")
    domains = sorted(set(table["domain"]))
    for number in range(*map(int, options.networks.split(":"))):
        path = out / f"{46 + number // 2 * 3 + number % 2:03}.npz"  # above 44 and no multiple of 3
        if path.exists():
            continue
        began, random, told = (
            time.monotonic(),
            np.random.default_rng([number, 1]),
            settings_of(number),
        )
        parts = {}
        for domain in domains:
            own = table.filter(polars.col("domain") == domain)
            order = random.permutation(len(own))
            parts[domain] = (
                own["text"].to_numpy().astype(object)[order],
                own["label"].to_numpy().astype(np.int64)[order],
            )
        x, y = parts.pop(domains[number % 12])
        run = trained(x[600:], y[600:], told, number)
        blocks: dict[str, list[Any]] = {
            key: [] for key in ("role", "family", "severity", "near", "rows", "label", "logits")
        }

        def block(
            role: str,
            family: str,
            severity: float,
            x: np.ndarray,
            y: np.ndarray,
            change: Chain = (),
            blocks: Any = blocks,
            run: Any = run,
        ) -> None:
            n, m = (min(size, len(y)) for size in SIZES[role])
            m *= bool(options.near)
            held, chains = texts_of("rows", x, y), [change]
            blocks["logits"].append(answered(run, copies(held, np.arange(n), chains)))
            if m:
                own = neighbourhood(options.near)
                made = copies(held, np.arange(m), [(*change, (own.transform, own.knobs()))] * NEAR)
                blocks["logits"].append(answered(run, made))
            for key, value in (
                ("role", role),
                ("family", family),
                ("severity", severity),
                ("near", m),
                ("rows", n),
                ("label", y[:n]),
            ):
                blocks[key].append(value)

        block("source", "source", 0, x[:300], y[:300])
        block("test", "clean", 0, x[300:600], y[300:600])
        orders = {
            family: random.permutation(300)
            for family in dict.fromkeys(change.family for change in TEXT_POOL)
        }
        for place, change in enumerate(TEXT_POOL):
            chain: Chain = ((change.transform, change.knobs),)
            shown = orders[change.family]
            block("pool", change.family, place % 3, x[:300][shown], y[:300][shown], chain)
            block("test", change.family, place % 3, x[300:600], y[300:600], chain)
        for domain, (other, label) in parts.items():
            block("natural", domain, 0, other, label)
        logits = np.concatenate(blocks.pop("logits"))
        right = float((logits[:300].argmax(1) == y[:300]).mean())
        told |= {
            "model": "bag-of-words",
            "domain": domains[number % 12],
            "accuracy": right,
            "discarded": right < 0.6,
        }
        told |= {"seconds": round(time.monotonic() - began, 1), "neighbourhood": options.near}
        index = {
            "label": np.concatenate(blocks.pop("label")),
            **{key: np.array(value) for key, value in blocks.items()},
        }
        np.savez_compressed(
            path.with_suffix(".part.npz"),
            logits=logits.astype(np.float16),
            about=json.dumps(told),
            **index,
        )
        path.with_suffix(".part.npz").replace(path)
        print(path.stem, told, flush=True)


def trained(x: np.ndarray, y: np.ndarray, told: dict[str, Any], seed: int) -> Any:
    """A bag of words."""
    data = texts_of("train", x, y)
    noise = told["label_noise"]
    split = cw.split(
        data,
        "label",
        [],
        None,
        test=5,
        validation=5,
        label_noise=noise,
        seed=seed,
        overlap="allowed",
    )
    knobs = resolve(
        facts("models", "bag-of-words").knobs,
        {key: told[key] for key in ("width", "words")},
        "model",
        "bag-of-words",
    )
    training = {key: told[key] for key in ("steps", "lr", "weight_decay")}
    settings = TrainingSettings.of(
        {**training, "batch": 32, "validate_every": told["steps"], "patience": None}, ""
    )
    return fit(
        load("methods", "erm")(),
        split,
        {"train": data},
        ModelSpec("bag-of-words", knobs),
        settings,
        seed=seed,
    )


def answered(run: Any, data: AttributedDataset) -> np.ndarray:
    """The logits of a network for every row, float32 [n, 2]."""
    n = data.n_base
    zeros = np.zeros(n, dtype=np.int64)
    rows = RowSet(
        data.name,
        np.arange(n),
        zeros,
        zeros,
        zeros,
        None,
        np.full(n, 1 / n),
        zeros.astype(np.int8),
        ("all",),
        (),
    )
    found, _ = run.answer({"rows": rows}, {data.name: data})
    logits: np.ndarray = found["last"]["rows"].logits
    return logits


if __name__ == "__main__":
    main()
