"""Which runs of a study are traced, and what came of it: the first that is executed of every data set, model and method."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from crosswind.core.types import Job


class Traces:
    """The traces of one drive: files in `folder`, named after data set, model and method."""

    def __init__(self, folder: Path, runs: Iterable[Job]) -> None:
        self.written: list[str] = []
        self.troubles: list[str] = []
        self._names: dict[tuple[str, ...], str] = {}
        self._chosen: dict[tuple[str, ...], str] = {}
        self._folder = folder
        for run in runs:
            kind = _kind(run)
            if kind not in self._names:
                self._names[kind] = _unlike("-".join(kind), self._names.values())

    def path(self, run: Job) -> str | None:
        """Where a trace of the run goes, without its suffix; None where another run of its kind was chosen."""
        kind = _kind(run)
        chosen = self._chosen.setdefault(kind, run.key) == run.key
        return str(self._folder / self._names[kind]) if chosen else None

    def ended(self, run: Job, result: Mapping[str, Any] | None) -> None:
        """What the run gave, None where it failed: then the next of its kind is traced."""
        kind = _kind(run)
        if self._chosen.get(kind) != run.key:
            return
        if result is None:
            del self._chosen[kind]
        elif result.get("profile"):
            told = result["profile"]
            if told["path"]:
                self.written.append(str(told["path"]))
            else:
                self.troubles.append(f"{', '.join(kind)}: {told['trouble']}")


def _kind(run: Job) -> tuple[str, ...]:
    # The label of a base's method says that it is one.
    return tuple(str(run.labels[name]) for name in ("data", "model", "method") if run.labels.get(name))


def _unlike(text: str, taken: Iterable[str]) -> str:
    """`text` as the name of a file, unlike those that are taken; capitals are one letter with small ones on some disks."""
    plain = re.sub(r"[^A-Za-z0-9._+]+", "-", text).strip("-.")[:120] or "run"
    known, name, number = {other.lower() for other in taken}, plain, 2
    while name.lower() in known:
        name, number = f"{plain}-{number}", number + 1
    return name
