"""The text of a finished study, kept beside its page: a run with nothing to do prints it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosswind import __version__
from crosswind.core.errors import StoreError
from crosswind.core.files import write_atomically
from crosswind.core.types import digest

if TYPE_CHECKING:
    from crosswind.studies.scheduler import Summary
    from crosswind.studies.store import Store

FILE = ".report.json"

__all__ = ["save_text", "saved_text", "state_of"]


def state_of(store: Store, study: str, summary: Summary) -> str | None:
    """A digest of what a study's report is made of: its specification, how each job ended, the last
    result of the store, and the code that writes reports. None where the store cannot tell."""
    last_score = store.last_score()
    if last_score is None:
        return None
    entry = store.study(study)
    written = [entry["given"], entry["resolved"], entry["created"], store.study_names()]
    code = {
        path.name: path.stat().st_mtime_ns for path in sorted(Path(__file__).parent.rglob("*.py"))
    }
    return digest([__version__, code, store.name, study, written, summary.state, last_score])


def saved_text(store: Store, study: str, state: str | None) -> dict[str, Any] | None:
    """The text that `save_text` kept of the study in this state; None where there is nothing, or no
    page."""
    try:
        kept = json.loads((store.out / FILE).read_text(encoding="utf-8"))
        is_kept = isinstance(kept, dict) and (store.out / str(kept.get("page"))).is_file()
    except (OSError, ValueError, StoreError):
        return None
    if state is None or not is_kept or (kept.get("study"), kept.get("state")) != (study, state):
        return None
    return kept


def save_text(store: Store, study: str, state: str | None, kept: Mapping[str, Any]) -> None:
    """Keep what a study had to say in this state. A folder that cannot be written keeps nothing."""
    if state is None:
        return
    values = {"study": study, "state": state, **kept}
    try:
        write_atomically(store.out / FILE, json.dumps(values).encode())
    except (OSError, StoreError):
        pass
