"""The original files of a source: where they are, which are missing, and whether they changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from crosswind.core.errors import DataError, InputError
from crosswind.core.types import digest
from crosswind.data.prepared.places import originals_folder, owner

if TYPE_CHECKING:
    from crosswind.data.sources.base import PreparedSource

__all__ = ["gathered", "stamp"]

Progress = Callable[[str, int, int], None]


def gathered(source: PreparedSource, root: str | None, given: str | None, on_progress: Progress | None) -> Path:
    """The folder with the originals; files that are not there are fetched where the card says from where and with which hash.

    Nothing is fetched into a folder that the user named (`given`). Raises `DataError`: what to get, and where to put it.
    """
    if source.own and given is not None:
        named = " and ".join(repr(name) for name in source.own)
        raise InputError("--from", f"{owner(source)} reads what its setting {named} names, not a folder of originals")
    folder = originals_folder(source, root) if given is None else Path(os.path.abspath(Path(given).expanduser()))
    if given is not None and not folder.is_dir():
        raise DataError(f"{given} {'is not a folder' if folder.exists() else 'is a folder that does not exist'}")
    missing = source.missing(folder)
    barred = [item for item in missing if not item.url or not (item.sha256 or item.md5)]
    if barred or (missing and given is not None):
        names = ", ".join(item.name for item in barred or missing)
        get = f": {source.card.get}" if source.card.get else "" if barred else "; without --from they are fetched"
        raise DataError(f"{owner(source)} needs {names} in the folder {folder}{get}")
    if missing:
        from crosswind.data.archives.fetch import fetch

        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"cannot make the folder {folder}: {error.strerror}") from None
        for item in missing:
            fetch(item, folder, None if on_progress is None else _told(on_progress, f"fetching {item.name}"))
    if source.originals():
        from crosswind.data.archives.fetch import verified

        for item in source.originals():
            if (folder / item.name).is_file():
                verified(item, folder / item.name)  # hashed once, before anything is read
    for place in source.places(folder):
        if place.exists() and not (place.is_file() or place.is_dir()):  # a pipe would be waited for
            raise DataError(f"{place} is neither a file nor a folder")
    return folder


def stamp(source: PreparedSource, folder: Path) -> str:
    """A digest of name, size and time of change of every file that the source reads. Raises `OSError`."""
    found: list[tuple[str, int, int]] = []
    for place in source.places(folder):
        files = [Path(parent, name) for parent, _, names in os.walk(place, followlinks=True) for name in names]
        for path in files or [place]:
            if path.exists():  # a link to nothing is no file
                state = path.stat()
                found.append((os.path.relpath(path, folder), state.st_size, state.st_mtime_ns))
    return digest(sorted(found))


def _told(on_progress: Progress, stage: str) -> Callable[[int, int], None]:
    return lambda done, total: on_progress(stage, done, total)
