"""Two pools of networks trained on real pictures, and one of networks by others, with all that they say under shifts.

    python benchmarks/pools.py --data DIR --out DIR [--pool mnist|cifar|given] [--networks 0:30] [--no-neighbours]

`--data` holds mnist.npz, usps_test.npz, cifar10_train10k.npz, cifar10_test.npz and mnist_models/*.onnx. What is written is read by
`benchmarks/coverage.py`: `OUT/POOL/index.npz` says what each picture is, `OUT/POOL/NUMBER.npz` holds a network's logits, float16.

Pictures stand in blocks. A block has a `role`: source (labelled rows of the training distribution), pool (some of them under a
change of `crosswind.transforms.neighbourhood.POOL`), test (other rows, clean and under 19 corruptions), natural (other
collections). It has a `family`, a `severity`, its rows, and after them `NEAR` neighbours (RandAugment's) of the first `near` rows.

Networks differ in architecture, learning rate, weight decay, steps, augmentation, label noise and seed. One that is right on fewer
than twice as many held-out rows as chance is discarded, and counted. An even third of the networks, by number, is for exploring.
Without neighbours a network answers for a quarter of the pictures, and neighbourhood invariance cannot be measured.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import crosswind as cw
from crosswind.data.copies import Chain, copies
from crosswind.shifts.split.rows import RowSet
from crosswind.transforms.neighbourhood import POOL, neighbourhood

NEAR = 10
SIZES = {"source": (1000, 200), "pool": (250, 150), "test": (800, 150), "natural": (1000, 200)}
"""By role: rows of a block, and how many of them have neighbours."""
SEVERITIES = (1, 3, 5)


@dataclass
class Block:
    """Pictures uint8 [n (1 + NEAR) ...], the rows first, and what they are."""

    role: str
    family: str
    severity: float
    label: np.ndarray
    near: int
    pictures: np.ndarray


def scaled(images: np.ndarray, box: int, size: int) -> np.ndarray:
    """Grey digits uint8 [n, h, w] that fill their frame, as MNIST has them: `box` pixels in the middle of `size`."""
    out = np.zeros((len(images), size, size, 1), dtype=np.uint8)
    edge = (size - box) // 2
    for place, image in enumerate(images):
        out[place, edge : edge + box, edge : edge + box, 0] = np.asarray(
            Image.fromarray(image).resize((box, box), Image.Resampling.BILINEAR)
        )
    return out


def read(pool: str, folder: Path) -> tuple[Any, ...]:
    """Training pictures and labels, source, test, and natural ones by name."""
    if pool == "cifar":
        train, test = (np.load(folder / f"cifar10_{name}.npz", allow_pickle=False) for name in ("train10k", "test"))
        x, y = train["images"], train["label"].astype(np.int64)
        tx, ty = test["images"], test["label"].astype(np.int64)
        votes = test["human_counts"] / test["human_counts"].sum(1, keepdims=True)
        doubt = -(votes * np.log(np.maximum(votes, 1e-9))).sum(1)
        rows = 1000 + np.argsort(-doubt[1000:], kind="stable")[:1000]
        return x[:8500], y[:8500], (x[8500:], y[8500:]), (tx[:1000], ty[:1000]), {"doubted by people": (tx[rows], ty[rows])}
    from sklearn.datasets import load_digits

    mnist, usps = (np.load(folder / name, allow_pickle=False) for name in ("mnist.npz", "usps_test.npz"))
    x, y, tx, ty = (mnist[key] for key in ("train_images", "train_label", "test_images", "test_label"))
    x, tx = x.reshape(-1, 28, 28, 1), tx.reshape(-1, 28, 28, 1)
    y, ty = y.astype(np.int64), ty.astype(np.int64)
    digits = load_digits()
    natural = {
        "usps": (scaled(usps["images"].reshape(-1, 16, 16), 20, 28), usps["label"].astype(np.int64)),
        "digits": (scaled((digits.images * 255 / 16).astype(np.uint8), 20, 28), digits.target.astype(np.int64)),
    }
    # The labelled source is of MNIST's test rows, which the networks by others have not seen either.
    return x[:10000], y[:10000], (tx[5000:6500], ty[5000:6500]), (tx[:1000], ty[:1000]), natural


def blocks_of(pool: str, folder: Path, neighbours: bool = True) -> tuple[np.ndarray, np.ndarray, list[Block]]:
    """Training pictures and labels, and the blocks."""
    x, y, source, test, natural = read(pool, folder)
    near = neighbourhood("ni-randaugment")
    beside: list[Chain] = [((near.transform, near.knobs()),)] * NEAR

    def block(role: str, family: str, severity: float, data: tuple[np.ndarray, np.ndarray], change: Chain = ()) -> Block:
        n, m = (min(size, len(data[1])) for size in SIZES[role])
        m *= neighbours
        held = cw.from_frame({"label": data[1]}, data[0], name="rows")
        made = [copies(held, np.arange(n), [change])]
        made += [copies(held, np.arange(m), [(*change, *other) for other in beside])] if m else []
        pictures = [copied.inputs(np.arange(copied.n_base)) for copied in made]
        return Block(role, family, severity, data[1][:n], m, np.concatenate(pictures))

    made = [block("source", "source", 0, source), block("test", "clean", 0, test)]
    for place, change in enumerate(POOL):
        own: Chain = ((change.family, change.knobs),)
        made.append(block("pool", change.family, SEVERITIES[place % 3], source, own))
        if "severity" in change.knobs:
            made.append(block("test", change.family, change.knobs["severity"], test, own))
    return x, y, [*made, *(block("natural", name, 0, data) for name, data in natural.items())]


def settings_of(pool: str, number: int) -> dict[str, Any]:
    """What network `number` is and how it is trained: every factor varies against the others."""
    random = np.random.default_rng([number, len(pool)])
    model = ("small-cnn", "mlp", "resnet-w16", "small-cnn", "mlp", "small-cnn", "mlp", "small-cnn")[number % 8]
    steps = {"small-cnn": (60, 150, 400), "mlp": (100, 300, 1000), "resnet-w16": (60, 120, 200)}[model]
    told = {
        "model": model,
        "method": ("erm", "erm", "randaugment", "augmix")[int(random.integers(4))],
        "steps": int(random.choice(steps)),
        "lr": float(random.choice([3e-4, 1e-3, 3e-3])),
        "weight_decay": float(random.choice([0.0, 1e-4, 1e-3])),
        "batch": int(random.choice([32, 64])),
        "label_noise": float(random.choice([0.0, 0.0, 0.2])),
    }
    return {**told, "seed": number}


def trained(x: np.ndarray, y: np.ndarray, told: dict[str, Any], every: np.ndarray) -> np.ndarray:
    """The logits of a network for every picture, float32 [m, k]."""
    own = dict(told)
    data = cw.from_frame({"label": y}, x, name="train")
    split = cw.split(
        data, "label", [], None, test=5, validation=5, label_noise=own.pop("label_noise"), seed=own["seed"], overlap="allowed"
    )
    steps = own["steps"]
    run = cw.train(
        own.pop("method"), split, data, model=own.pop("model"), seed=own.pop("seed"), validate_every=steps, patience=None, **own
    )
    given = cw.from_frame({"label": np.zeros(len(every), dtype=np.int64)}, every, name="every")
    n, zeros = len(every), np.zeros(len(every), dtype=np.int64)
    rows = RowSet("every", np.arange(n), zeros, zeros, zeros, None, np.full(n, 1 / n), zeros.astype(np.int8), ("all",), ())
    found, _ = run.answer({"every": rows}, {"every": given})
    logits = found["last"]["every"].logits
    assert logits is not None
    return logits


def given(path: Path, every: np.ndarray) -> np.ndarray:
    """The logits of a network in an ONNX file that takes float32 [n, c, h, w] in [0, 1]."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name, said = session.get_inputs()[0].name, []
    for start in range(0, len(every), 256):
        x = every[start : start + 256].transpose(0, 3, 1, 2).astype(np.float32) / 255
        said.append(session.run(None, {name: x})[0])
    return np.concatenate(said)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pool", choices=("mnist", "cifar", "given"), required=True)
    parser.add_argument("--networks", default="0:30", help="FIRST:LAST, the last not included")
    parser.add_argument("--no-neighbours", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    out = options.out / options.pool
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    x, y, blocks = blocks_of(options.pool, options.data, not options.no_neighbours)
    every = np.concatenate([block.pictures for block in blocks])
    index = {key: np.array([getattr(block, key) for block in blocks]) for key in ("role", "family", "severity", "near")}
    sizes = np.array([len(block.label) for block in blocks])
    np.savez_compressed(out / "index.npz", **index, rows=sizes, label=np.concatenate([block.label for block in blocks]))
    print(f"{len(blocks)} blocks, {len(every):,} pictures in {time.monotonic() - began:.0f} s", flush=True)
    files = sorted((options.data / "mnist_models").glob("*.onnx"))
    first, last = (0, len(files)) if options.pool == "given" else map(int, options.networks.split(":"))
    for number in range(first, last):
        path = out / f"{number:03}.npz"
        if path.exists():
            continue
        began = time.monotonic()
        told: dict[str, Any] = {"model": files[number].stem} if options.pool == "given" else settings_of(options.pool, number)
        logits = given(files[number], every) if options.pool == "given" else trained(x, y, told, every)
        right = float((logits[: sizes[0]].argmax(1) == blocks[0].label).mean())
        told |= {"accuracy": right, "discarded": right < 0.2, "seconds": round(time.monotonic() - began, 1)}
        np.savez_compressed(path.with_suffix(".part.npz"), logits=logits.astype(np.float16), about=json.dumps(told))
        path.with_suffix(".part.npz").replace(path)
        print(number, told, flush=True)


if __name__ == "__main__":
    main()
