"""A study over CIFAR-10 and the sets made after it: one model, tested on all of them by the names
of their classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.cifar_files import CLASSES, binary_files, png, tar_gz

import crosswind
from crosswind.data.prepared import prepare
from crosswind.data.sources.cifar import Cifar10, Cifar101, Cifar102, Cinic10

Part = tuple[np.ndarray, np.ndarray]


def told_apart(n: int, seed: int) -> Part:
    """Pictures of ten classes, each a bar at its own place in noise: who knows the classes of one
    set knows them all."""
    draw = np.random.default_rng(seed)
    labels = draw.permutation(np.arange(n) % 10)
    images = draw.integers(0, 60, (n, 32, 32, 3), dtype=np.uint8)
    for i, label in enumerate(labels):
        images[i, 3 * label + 1 : 3 * label + 4] += 150
    return images, labels


@pytest.mark.slow
def test_one_model_is_tested_on_the_whole_family(tmp_path: Path) -> None:
    folders = {
        name: tmp_path / "originals" / name
        for name in ("cifar10", "cifar10.1", "cifar10.2", "cinic10")
    }
    for folder in folders.values():
        folder.mkdir(parents=True)
    files = binary_files([told_apart(100, i) for i in range(6)])
    tar_gz(folders["cifar10"] / "cifar-10-binary.tar.gz", files, "cifar-10-batches-bin")
    images, labels = told_apart(60, 7)
    np.save(folders["cifar10.1"] / "cifar10.1_v6_data.npy", images)
    np.save(folders["cifar10.1"] / "cifar10.1_v6_labels.npy", labels.astype(np.int32))
    for part_name, seed in (("train", 8), ("test", 9)):
        images, labels = told_apart(50, seed)
        np.savez(
            folders["cifar10.2"] / f"cifar102_{part_name}.npz",
            images=images,
            labels=labels,
            label_names=np.array(CLASSES),
        )
    pictures = {}
    for split, seed in (("train", 10), ("valid", 11), ("test", 12)):
        for i, (image, label) in enumerate(zip(*told_apart(60, seed), strict=True)):
            name = (
                f"n02690373_{i}.png"
                if i % 2
                else f"cifar10-{'test' if split == 'test' else 'train'}-{i}.png"
            )
            pictures[f"{split}/{CLASSES[label]}/{name}"] = png(image)
    tar_gz(folders["cinic10"] / "CINIC-10.tar.gz", pictures, ".")
    root = str(tmp_path)
    for source in (
        Cifar10(root=root),
        Cifar101(root=root),
        Cifar102(root=root),
        Cinic10(root=root),
    ):
        prepare(source, accept_totals=True)

    def entry(name: str, **options: Any) -> dict[str, Any]:
        return {
            "source": name,
            "options": {"root": root},
            "label": "class",
            "attributes": [],
            **options,
        }

    official = {"official": {"column": "split", "train": ["train"], "test": ["test"]}}
    study_results = crosswind.run_study(
        {
            "name": "family",
            "data": {
                "cifar10": entry("cifar10", roles=official),
                "later": entry("cifar10.1"),
                "again": entry("cifar10.2"),
                "cinic": entry("cinic10", keep={"origin": ["imagenet"]}),
            },
            "shifts": {"none": []},
            "sizes": {"all": {"cifar10": "all"}},
            "sets": {
                "validation": {"role": "validation", "law": "train"},
                "test": {"role": "test"},
                "later": {"role": "test", "source": "later"},
                "again": {"role": "test", "source": "again"},
                "cinic": {"role": "test", "source": "cinic"},
            },
            "models": ["mlp"],
            "training": {"steps": 60, "batch": 50, "validate_every": 30},
            "seeds": 1,
        },
        tmp_path / "out",
    )
    assert [row["reason"] for row in study_results.rows if row["status"] != "finished"] == []
    metrics_by_set = {
        row["set"]: row["metrics"] for row in study_results.rows if row["rule"] == "best-id"
    }
    # All of what has no parts, the test part of what has, and of CINIC-10's only what CIFAR-10 has
    # not.
    assert {name: metrics["n"] for name, metrics in metrics_by_set.items()} == {
        "validation": 100,
        "test": 100,
        "later": 60,
        "again": 50,
        "cinic": 30,
    }
    assert min(metrics["accuracy"] for metrics in metrics_by_set.values()) > 0.8
