"""The predictions of a job in one file, and those of a run from the folders of its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crosswind.core.types import Predictions
from crosswind.studies.artifacts import artifact_folder
from crosswind.studies.store import Store


def write_predictions(path: Path, predictions: Mapping[str, Mapping[str, Predictions]]) -> None:
    """One compressed npz with every rule and set: `RULE/SET/ids`, `.../label`, `.../group`, `.../answer`, `.../logits`."""
    arrays = {}
    for rule, sets in predictions.items():
        for name, item in sets.items():
            for part in ("ids", "label", "group", "answer", "logits"):
                array = getattr(item, part)
                if array is not None:
                    arrays[f"{rule}/{name}/{part}"] = array
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def read_predictions(path: Path) -> dict[str, dict[str, Predictions]]:
    """What `write_predictions` wrote: predictions by selection rule and set. Nothing is unpickled."""
    out: dict[str, dict[str, dict[str, Any]]] = {}
    with np.load(path, allow_pickle=False) as arrays:
        for key in arrays.files:
            rule, rest = key.split("/", 1)
            name, part = rest.rsplit("/", 1)
            out.setdefault(rule, {}).setdefault(name, {})[part] = arrays[key]
    return {rule: {name: Predictions(**parts) for name, parts in sets.items()} for rule, sets in out.items()}


def run_predictions(store: Store, key: str) -> dict[str, dict[str, Predictions]]:
    """Everything that a run of `store` predicted, by selection rule and set; `key` as `Store.results` gives it."""
    return said_in([artifact_folder(store.out, need) for need in store.run(key)["needs"]])


def said_in(folders: Sequence[Path]) -> dict[str, dict[str, Predictions]]:
    """What the jobs of these folders predicted, by selection rule and set; a folder without predictions adds none."""
    out: dict[str, dict[str, Predictions]] = {}
    for path in (folder / "predictions.npz" for folder in folders):
        for rule, sets in (read_predictions(path) if path.is_file() else {}).items():
            out.setdefault(rule, {}).update(sets)
    return out
