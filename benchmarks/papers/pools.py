"""Pools of networks trained on real pictures, and one of networks by others, with all that they say
under shifts.

    python -m benchmarks.papers.pools --data DIR --out DIR --pool mnist|cifar|pacs-XY|given [--networks 0:30]
        [--near ni-randaugment]

`--data` holds mnist.npz, usps_test.npz, cifar10_train10k.npz, cifar10_test.npz, pacs64.npz and
mnist_models/*.onnx. X and Y are the first letters of the two renditions of PACS that are trained
on: photo, art_painting, cartoon, sketch; the two others are natural shifts. What is written is read
by `benchmarks/papers/interval_coverage.py`:
`OUT/POOL/NUMBER.npz` says what each picture is and holds the network's logits, float16.

Every network has its own draw of rows. Pictures stand in blocks. A block has a `role`: source
(labelled rows of the training distribution), pool (some of them under a change of
`crosswind.transforms.neighbourhood.POOL`, other ones for every family), test (other rows, clean and
under 19 corruptions), natural (other collections). It has a `family`, a `severity`, its rows, and
after them `NEAR` neighbours of the first `near` rows where a neighbourhood is asked for, which
takes four times the pictures.

Networks differ in architecture, learning rate, weight decay, steps, augmentation, label noise and
seed; from number 45 on some take four times the steps. One that is right on fewer than twice as
many held-out rows as chance is discarded, and counted.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from PIL import Image

import crosswind as cw
from crosswind.data.copies import Chain, copies
from crosswind.shifts.split.rows import RowSet
from crosswind.transforms.neighbourhood import NEIGHBOURHOODS, POOL, neighbourhood

NEAR = 10
SIZES = {
    "source": (1000, 200),
    "pool": (200, 150),
    "clean": (1000, 150),
    "test": (500, 150),
    "natural": (1000, 200),
}
"""By role: rows of a block, and how many of them have neighbours; `clean` is the block of test rows
without a change."""
PACS = ("pa", "pc", "ps", "ac", "as", "cs")
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
    """Grey digits uint8 [n, h, w] that fill their frame, as MNIST has them: `box` pixels in the
    middle of `size`."""
    out = np.zeros((len(images), size, size, 1), dtype=np.uint8)
    edge = (size - box) // 2
    for place, image in enumerate(images):
        out[place, edge : edge + box, edge : edge + box, 0] = np.asarray(
            Image.fromarray(image).resize((box, box), Image.Resampling.BILINEAR)
        )
    return out


Rows: TypeAlias = "tuple[np.ndarray, np.ndarray]"
"""Pictures uint8 [n, h, w, c] and labels int64 [n]."""


def taken(rows: Rows, order: np.ndarray) -> Rows:
    """Some of the rows."""
    return rows[0][order], rows[1][order]


def read(pool: str, folder: Path) -> tuple[Rows, Rows | None, dict[str, Rows]]:
    """Rows to train on, rows to test on or None where they are of those, and natural shifts by
    name."""
    if pool == "cifar":
        train, test = (
            np.load(folder / f"cifar10_{name}.npz", allow_pickle=False)
            for name in ("train10k", "test")
        )
        votes = test["human_counts"] / test["human_counts"].sum(1, keepdims=True)
        doubt = -(votes * np.log(np.maximum(votes, 1e-9))).sum(1)
        order = np.argsort(-doubt, kind="stable")
        own = test["images"], test["label"].astype(np.int64)
        return (
            (train["images"], train["label"].astype(np.int64)),
            taken(own, order[2000:]),
            {"doubted": taken(own, order[:2000])},
        )
    if pool.startswith("pacs-"):
        with np.load(folder / "pacs64.npz", allow_pickle=False) as pacs:
            images, label, domain, names = (
                pacs[key] for key in ("images", "label", "domain", "domain_names")
            )
        images = np.stack(
            [
                np.asarray(Image.fromarray(image).resize((32, 32), Image.Resampling.BOX))
                for image in images
            ]
        )
        every, rendition = (images, label.astype(np.int64)), names[domain]
        other = {
            str(name): taken(every, rendition == name) for name in names if name[0] not in pool[5:]
        }
        return taken(every, ~np.isin(rendition, list(other))), None, other
    from sklearn.datasets import load_digits

    mnist, usps = (
        np.load(folder / name, allow_pickle=False) for name in ("mnist.npz", "usps_test.npz")
    )
    x, y, tx, ty = (
        mnist[key] for key in ("train_images", "train_label", "test_images", "test_label")
    )
    digits = load_digits()
    natural = {
        "usps": (
            scaled(usps["images"].reshape(-1, 16, 16), 20, 28),
            usps["label"].astype(np.int64),
        ),
        "digits": (
            scaled((digits.images * 255 / 16).astype(np.uint8), 20, 28),
            digits.target.astype(np.int64),
        ),
    }
    trained = x.reshape(-1, 28, 28, 1), y.astype(np.int64)
    return trained, (tx.reshape(-1, 28, 28, 1), ty.astype(np.int64)), natural


def dealt(
    pool: str, number: int, trained: Rows, tested: Rows | None, natural: dict[str, Rows]
) -> tuple[Rows, Rows, Rows, Any]:
    """Rows of network `number`: to train on, its source, its test rows, and its natural shifts.

    The networks by others have not seen MNIST's test rows, of which the source is therefore; else
    it is of the rows to train on.
    """
    random = np.random.default_rng([number, 1, *pool.encode()])
    other = {name: taken(rows, random.permutation(len(rows[1]))) for name, rows in natural.items()}
    order = random.permutation(len(trained[1]))
    n, m = SIZES["source"][0], SIZES["clean"][0]
    if tested is None:
        return (
            taken(trained, order[n + m :]),
            taken(trained, order[:n]),
            taken(trained, order[n : n + m]),
            other,
        )
    free = random.permutation(len(tested[1]))
    if pool == "cifar":
        return taken(trained, order[n:]), taken(trained, order[:n]), taken(tested, free[:m]), other
    return (
        taken(trained, order[:10000]),
        taken(tested, free[:n]),
        taken(tested, free[n : n + m]),
        other,
    )


def blocks_of(
    source: Rows, test: Rows, natural: dict[str, Rows], near: str, random: np.random.Generator
) -> list[Block]:
    """All that a network is asked. `near`: a neighbourhood or ""."""
    beside: list[Chain] = []
    if near:
        own = neighbourhood(near)
        beside = [((own.transform, own.knobs()),)] * NEAR

    def block(role: str, family: str, severity: float, data: Rows, change: Chain = ()) -> Block:
        n, m = (min(size, len(data[1])) for size in SIZES[family if family == "clean" else role])
        m *= bool(near)
        held = cw.from_frame({"label": data[1]}, data[0], name="rows")
        made = [copies(held, np.arange(n), [change])]
        made += [copies(held, np.arange(m), [(*change, *other) for other in beside])] if m else []
        pictures = [copied.inputs(np.arange(copied.n_base)) for copied in made]
        return Block(role, family, severity, data[1][:n], m, np.concatenate(pictures))

    made = [block("source", "source", 0, source), block("test", "clean", 0, test)]
    orders = {
        family: random.permutation(len(source[1]))
        for family in dict.fromkeys(change.family for change in POOL)
    }
    for place, change in enumerate(POOL):
        chain: Chain = ((change.family, change.knobs),)
        made.append(
            block(
                "pool",
                change.family,
                SEVERITIES[place % 3],
                taken(source, orders[change.family]),
                chain,
            )
        )
        if "severity" in change.knobs:
            made.append(block("test", change.family, change.knobs["severity"], test, chain))
    return [*made, *(block("natural", name, 0, data) for name, data in natural.items())]


def settings_of(pool: str, number: int) -> dict[str, Any]:
    """What network `number` is and how it is trained: every factor varies against the others."""
    random = np.random.default_rng([number, len(pool)])
    model = ("small-cnn", "mlp", "resnet-w16", "small-cnn", "mlp", "small-cnn", "mlp", "small-cnn")[
        number % 8
    ]
    steps = {"small-cnn": (60, 150, 400), "mlp": (100, 300, 1000), "resnet-w16": (60, 120, 200)}[
        model
    ]
    if number >= 45:
        steps = (*steps, 4 * steps[-1])
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
        data,
        "label",
        [],
        None,
        test=5,
        validation=5,
        label_noise=own.pop("label_noise"),
        seed=own["seed"],
        overlap="allowed",
    )
    steps = own["steps"]
    run = cw.train(
        own.pop("method"),
        split,
        data,
        model=own.pop("model"),
        seed=own.pop("seed"),
        validate_every=steps,
        patience=None,
        **own,
    )
    given = cw.from_frame({"label": np.zeros(len(every), dtype=np.int64)}, every, name="every")
    n, zeros = len(every), np.zeros(len(every), dtype=np.int64)
    rows = RowSet(
        "every",
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
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--pool",
        choices=("mnist", "cifar", *(f"pacs-{two}" for two in PACS), "given"),
        required=True,
    )
    parser.add_argument(
        "--networks", default="0:30", help="FIRST:LAST or FIRST:LAST:STEP, the last not included"
    )
    parser.add_argument(
        "--near",
        default="",
        choices=["", *NEIGHBOURHOODS],
        help="of which neighbours are asked for, too",
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    out = options.out / options.pool
    out.mkdir(parents=True, exist_ok=True)
    known = read(options.pool, options.data)
    files = sorted((options.data / "mnist_models").glob("*.onnx"))
    chosen = range(*map(int, options.networks.split(":")))
    for number in range(len(files)) if options.pool == "given" else chosen:
        path = out / f"{number:03}.npz"
        if path.exists():
            continue
        began = time.monotonic()
        (x, y), source, test, natural = dealt(options.pool, number, *known)
        blocks = blocks_of(
            source,
            test,
            natural,
            options.near,
            np.random.default_rng([number, 2, *options.pool.encode()]),
        )
        every = np.concatenate([block.pictures for block in blocks])
        told: dict[str, Any] = (
            {"model": files[number].stem}
            if options.pool == "given"
            else settings_of(options.pool, number)
        )
        logits = (
            given(files[number], every) if options.pool == "given" else trained(x, y, told, every)
        )
        right = float((logits[: len(source[1])].argmax(1) == source[1]).mean())
        told |= {
            "accuracy": right,
            "discarded": right < 2 / logits.shape[1],
            "seconds": round(time.monotonic() - began, 1),
        }
        index = {
            key: np.array([getattr(block, key) for block in blocks])
            for key in ("role", "family", "severity", "near")
        }
        index |= {
            "rows": np.array([len(block.label) for block in blocks]),
            "label": np.concatenate([b.label for b in blocks]),
        }
        about = json.dumps(told | {"neighbourhood": options.near})
        np.savez_compressed(
            path.with_suffix(".part.npz"), logits=logits.astype(np.float16), about=about, **index
        )
        path.with_suffix(".part.npz").replace(path)
        print(number, told, flush=True)


if __name__ == "__main__":
    main()
