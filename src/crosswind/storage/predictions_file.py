"""The predictions of a job in one file, and those of a run from the folders of its jobs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crosswind.core.errors import escaped, one_line
from crosswind.core.exhibits import Exhibit, Grid
from crosswind.core.types import Predictions
from crosswind.storage.artifacts import artifact_folder

if TYPE_CHECKING:
    from crosswind.storage.store import Store  # with it SQLAlchemy, which planning can do without

TEXTS = "answers.jsonl"
"""The file that keeps answers in words, beside the predictions: id, text and label of a row a line;
null: no label was read."""
SHOWN_TEXTS = 8
"""Answers without a label that a report shows of a set."""


def write_texts(
    folder: Path, predictions: Mapping[str, Mapping[str, Predictions]], class_names: Sequence[str]
) -> dict[str, Exhibit]:
    """Keep the answers in words that predictions have; returns what a report shows of those that
    are no label."""
    shown: dict[str, Exhibit] = {}
    for name, set_predictions in (
        (name, set_predictions)
        for sets in predictions.values()
        for name, set_predictions in sets.items()
    ):
        if set_predictions.texts is None:
            continue
        with (folder / TEXTS).open("w", encoding="utf-8") as file:
            for row, text, code in zip(
                set_predictions.ids.tolist(),
                set_predictions.texts,
                set_predictions.answer.tolist(),
                strict=True,
            ):
                label = None if code < 0 else class_names[code]
                line = json.dumps({"id": row, "text": text, "label": label}, ensure_ascii=False)
                file.write(escaped(line) + "\n")  # what steers a terminal is kept, and steers none
        lost = np.flatnonzero(set_predictions.answer < 0).tolist()
        counts = Counter(set_predictions.texts[index] for index in lost)
        first = {}
        for index in lost[::-1]:
            first[set_predictions.texts[index]] = int(set_predictions.ids[index])
        lost_share = len(lost) / max(len(set_predictions), 1)
        caption = (
            f"{len(lost):,} of {len(set_predictions):,} answers ({lost_share:.1%}) could"
            " not be read as a label"
        )
        rows = [
            (count, one_line(text, 200), first[text])
            for text, count in counts.most_common(SHOWN_TEXTS)
        ]
        shown[f"unread answers, {name}"] = Grid(
            ("rows", "answer", "id of the first"), rows, caption
        )
    return shown


def read_texts(folder: Path) -> Iterator[dict[str, Any]]:
    """The answers in words that a job kept: `id`, `text`, `label`; none where it kept none."""
    if (folder / TEXTS).is_file():
        with (folder / TEXTS).open(encoding="utf-8") as file:
            yield from map(json.loads, file)


def write_predictions(path: Path, predictions: Mapping[str, Mapping[str, Predictions]]) -> None:
    """One compressed npz with every rule and set: `RULE/SET/ids`, `.../label`, `.../group`,
    `.../answer`, `.../logits`."""
    arrays = {}
    for rule, sets in predictions.items():
        for name, set_predictions in sets.items():
            for array_name in ("ids", "label", "group", "answer", "logits"):
                array = getattr(set_predictions, array_name)
                if array is not None:
                    arrays[f"{rule}/{name}/{array_name}"] = array
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def read_predictions(path: Path) -> dict[str, dict[str, Predictions]]:
    """The predictions that `write_predictions` wrote, by selection rule and set. Nothing is
    unpickled."""
    out: dict[str, dict[str, dict[str, Any]]] = {}
    with np.load(path, allow_pickle=False) as arrays:
        for key in arrays.files:
            rule, set_path = key.split("/", 1)
            name, array_name = set_path.rsplit("/", 1)
            out.setdefault(rule, {}).setdefault(name, {})[array_name] = arrays[key]
    return {
        rule: {name: Predictions(**by_name) for name, by_name in sets.items()}
        for rule, sets in out.items()
    }


def run_predictions(store: Store, key: str) -> dict[str, dict[str, Predictions]]:
    """Everything that a run of `store` predicted, by selection rule and set; `key` as
    `Store.results` gives it."""
    folders = [artifact_folder(store.out, need) for need in store.run(key)["needs"]]
    return predictions_in(folders)


def predictions_in(folders: Sequence[Path]) -> dict[str, dict[str, Predictions]]:
    """The predictions of the jobs of these folders, by selection rule and set; a folder without
    predictions adds none."""
    out: dict[str, dict[str, Predictions]] = {}
    for path in (folder / "predictions.npz" for folder in folders):
        for rule, sets in (read_predictions(path) if path.is_file() else {}).items():
            out.setdefault(rule, {}).update(sets)
    return out
