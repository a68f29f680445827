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
    from crosswind.execution.scheduler import Summary
    from crosswind.storage.store import Store

FILE = ".report.json"

__all__ = [
    "add_to_text",
    "has_saved_text",
    "save_text",
    "saved_text",
    "saved_text_unplanned",
    "state_of",
]


def state_of(store: Store, study: str, summary: Summary) -> str:
    """A digest of what a study's report is made of: its specification, how each job ended, the last
    results of the store, and the code that writes reports."""
    entry = store.study(study)
    written = [entry["given"], entry["resolved"], entry["created"], store.study_names()]
    code = {
        path.name: path.stat().st_mtime_ns for path in sorted(Path(__file__).parent.rglob("*.py"))
    }
    return digest(
        [__version__, code, store.name, study, written, summary.state, store.scores_state()]
    )


def saved_text(store: Store, study: str, state: str | None) -> dict[str, Any] | None:
    """The text that `save_text` kept of the study in this state; None where there is nothing, or no
    page."""
    kept = _kept(store, study)
    return kept if kept is not None and state is not None and kept.get("state") == state else None


def has_saved_text(out: Path) -> bool:
    """Whether some text is kept in the folder of a store."""
    return (out / FILE).is_file()


def saved_text_unplanned(store: Store, study: str, fingerprint: str) -> dict[str, Any] | None:
    """The text that was kept of the study, where its plan and its store are still those of then;
    None where runs are to be done, or where that cannot be told without a plan."""
    from crosswind.execution.done_before import ended_stamp

    kept = _kept(store, study)
    if kept is None or kept.get("fingerprint") != fingerprint:
        return None
    stamp = ended_stamp(store, study)
    return kept if stamp is not None and kept.get("stamp") == stamp else None


def _kept(store: Store, study: str) -> dict[str, Any] | None:
    """The values kept of the study, in whatever state it was; None without them or without its page."""
    try:
        kept = json.loads((store.out / FILE).read_text(encoding="utf-8"))
        is_kept = isinstance(kept, dict) and (store.out / str(kept.get("page"))).is_file()
    except (OSError, ValueError, StoreError):
        return None
    # A folder that was copied or moved has the text of the one it was, whose place it names.
    is_of_here = is_kept and kept.get("store") == store.name
    return kept if is_of_here and kept.get("study") == study else None


def save_text(store: Store, study: str, state: str | None, kept: Mapping[str, Any]) -> None:
    """Keep what a study had to say in this state. A folder that cannot be written keeps nothing."""
    if state is None:
        return
    values = {"store": store.name, "study": study, "state": state, **kept}
    try:
        write_atomically(store.out / FILE, json.dumps(values).encode())
    except (OSError, StoreError):
        pass


def add_to_text(store: Store, study: str, **values: Any) -> None:
    """Add values to what is kept of a study; nothing where nothing is kept."""
    kept = _kept(store, study)
    if kept is not None and any(kept.get(name) != value for name, value in values.items()):
        save_text(store, study, kept["state"], kept | values)
