"""The files that a study's jobs left, each looked at before it is believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosswind.core.errors import DataError
from crosswind.storage.artifacts import artifact_folder

if TYPE_CHECKING:
    from crosswind.storage.store import Store


_FEW = 200
"""Jobs that are asked for one by one; of more, the files of all are listed at once."""


class JobFiles:
    """Reads the files of one study's jobs."""

    def __init__(self, store: Store, study: str) -> None:
        self.store, self._study = store, study
        self._listed: dict[str, dict[str, tuple[int, str]]] = {}
        self._all_listed = False
        self.jobs = cache(self._jobs)

    def listed(self, key: str) -> dict[str, tuple[int, str]]:
        """The files that a job left, with sizes and SHA-256; none of one that is not done."""
        if key not in self._listed and not self._all_listed:
            if len(self._listed) >= _FEW:
                self._listed, self._all_listed = self.store.files(self._study), True
            else:
                self._listed[key] = self.store.files_of([key]).get(key, {})
        return self._listed.get(key, {})

    def read(self, key: str, name: str, load: Callable[[Path], Any]) -> Any:
        """The value that `load` makes of a file of a job; None where the job left none. Raises
        `DataError` for one that was changed."""
        listed = self.listed(key)
        if name not in listed:
            return None
        if faults := self.store.faults(key, {name: listed[name]}, read=True):
            raise DataError(f"{faults[0]} (job {key[:12]})")
        return load(artifact_folder(self.store.out, key) / name)

    def json(self, key: str, name: str) -> Any:
        """The value of a JSON file of a job; see `read`."""
        return self.read(key, name, lambda path: json.loads(path.read_text(encoding="utf-8")))

    def _jobs(self, key: str) -> list[tuple[str, dict[str, Any]]]:
        """The jobs that a run needs, with what each says of itself."""
        needs = (self.json(key, "job.json") or {}).get("needs", ())
        return [(need, about) for need in needs if (about := self.json(need, "job.json"))]
