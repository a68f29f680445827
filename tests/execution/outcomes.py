"""The numbers and files of a store of toy runs, to be compared with another's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crosswind.storage.artifacts import artifact_folder
from crosswind.storage.store import Store


def outcome(
    where: str | Path, out: Path | None = None, names: set[str] | None = None
) -> list[tuple[Any, ...]]:
    """Every number and file of the runs of a store, of some `names` or of all, in the order of the
    plan. `where`: the store's folder, or its database beside the folder `out`."""
    folder = Path(where) if out is None else out
    with Store.open(where, out) as store:
        return [
            (
                row["key"],
                row["rule"],
                row["set"],
                row["status"],
                row["metrics"],
                (artifact_folder(folder, row["key"]) / "score.json").read_text(),
            )
            for row in store.results("toys")
            if names is None or row["method"] in names
        ]
