"""Which runs of a study are traced, and what came of it: the first that is executed of every data
set, model and method."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from crosswind.core.types import Job


class Traces:
    """The traces of one drive: files in `folder`, named after data set, model and method; None:
    nothing is traced."""

    def __init__(self, folder: Path | None) -> None:
        self.written: list[str] = []
        self.troubles: list[str] = []
        self._folder = folder
        self._names: dict[tuple[str, ...], str] = {}
        self._chosen: dict[tuple[str, ...], str] = {}

    def path(self, run: Job) -> str | None:
        """Where a trace of the run goes, without its suffix; None where another run of its kind was
        chosen."""
        kind = _kind(run)
        if self._folder is None or self._chosen.setdefault(kind, run.key) != run.key:
            return None
        if kind not in self._names:
            plain = re.sub(r"[^A-Za-z0-9._+]+", "-", "-".join(kind)).strip("-.")[:120] or "run"
            taken = {
                name.lower() for name in self._names.values()
            }  # capitals are one letter with small ones on some disks
            names = (plain if number == 1 else f"{plain}-{number}" for number in count(1))
            self._names[kind] = next(name for name in names if name.lower() not in taken)
        return str(self._folder / self._names[kind])

    def ended(self, run: Job, outcome: Mapping[str, Any] | None) -> None:
        """The value of the run, None where it failed: then the next of its kind is traced."""
        kind = _kind(run)
        if self._chosen.get(kind) != run.key:
            return
        if outcome is None:
            del self._chosen[kind]
        elif profile := outcome.get("profile"):
            if profile["path"]:
                self.written.append(str(profile["path"]))
            else:
                self.troubles.append(f"{', '.join(kind)}: {profile['trouble']}")


def _kind(run: Job) -> tuple[str, ...]:
    # The label of a base's method says that it is one.
    return tuple(
        str(run.labels[name]) for name in ("data", "model", "method") if run.labels.get(name)
    )
