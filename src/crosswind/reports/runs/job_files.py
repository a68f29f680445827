"""The files that a study's jobs left, each looked at before it is believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosswind.core.errors import DataError
from crosswind.studies.artifacts import artifact_folder

if TYPE_CHECKING:
    from crosswind.studies.store import Store


class JobFiles:
    """Reads the files of one study's jobs."""

    def __init__(self, store: Store, study: str) -> None:
        self.store, self.files = store, store.files(study)
        self.jobs = cache(self._jobs)

    def read(self, key: str, name: str, load: Callable[[Path], Any]) -> Any:
        """What `load` makes of a file of a job; None where the job left none. Raises `DataError`
        for one that was changed."""
        listed = self.files.get(key, {})
        if name not in listed:
            return None
        if faults := self.store.faults(key, {name: listed[name]}, read=True):
            raise DataError(f"{faults[0]} (job {key[:12]})")
        return load(artifact_folder(self.store.out, key) / name)

    def json(self, key: str, name: str) -> Any:
        """What a JSON file of a job holds; see `read`."""
        return self.read(key, name, lambda path: json.loads(path.read_text(encoding="utf-8")))

    def _jobs(self, key: str) -> list[tuple[str, dict[str, Any]]]:
        """The jobs that a run needs, with what each says of itself."""
        needs = (self.json(key, "job.json") or {}).get("needs", ())
        return [(need, about) for need in needs if (about := self.json(need, "job.json"))]
