"""The files of a store: where they lie and how they are written so that a kill at any moment leaves
nothing half done.

Below the store's folder: `artifacts/KE/KEY/` for what a finished run left, `checkpoints/KEY/` for
what an unfinished one needs to go on, and `artifacts/.partial/DRIVER/` where runs write before they
are recorded. A folder under `artifacts` is moved there in one step, by the driver, inside the
transaction that records the run. So a finished run always has its files, and a run that is not
finished is never read. Nothing here knows what the files mean.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from crosswind.core.errors import StoreError
from crosswind.core.files import sync
from crosswind.core.types import file_hash

_KEY_LENGTHS = 4, 128
_KEY_CHARACTERS = b"0123456789abcdefghijklmnopqrstuvwxyz"
_KEY = re.compile(r"[0-9a-z]{4,128}")
FOLDER = "artifacts"
"""The folder of what finished runs left, below that of a store."""


def check_keys(keys: Sequence[str]) -> None:
    """`check_key` of many keys: of 300,000, each by itself takes a third of a second."""
    lengths = set(map(len, keys))
    characters = "".join(keys).encode(errors="replace")  # by "?", which no key has
    if (
        lengths
        and min(lengths) >= _KEY_LENGTHS[0]
        and max(lengths) <= _KEY_LENGTHS[1]
        and not characters.translate(None, _KEY_CHARACTERS)
    ):
        return
    for key in keys:
        check_key(key)


def check_key(key: str) -> str:
    """`key`, if it may name a folder: 4 to 128 lower-case letters and digits. Raises
    `StoreError`."""
    if not _KEY.fullmatch(key):
        raise StoreError(f"the run key {key!r} is not 4 to 128 lower-case letters and digits")
    return key


def artifact_folder(out: Path, key: str) -> Path:
    """Where the files of the finished run `key` lie; two levels, so that no folder has many
    thousand entries."""
    return out / FOLDER / check_key(key)[:2] / key


def keys_with_folder(out: Path) -> set[str]:
    """The keys of the runs that have a folder in `artifact_folder`'s place."""
    try:
        tops = [entry.path for entry in os.scandir(out / FOLDER) if entry.is_dir()]
    except FileNotFoundError:
        return set()
    return {name for top in tops for name in os.listdir(top)}


def checkpoint_folder(out: Path, key: str) -> Path:
    """Where the unfinished run `key` keeps what it needs to go on."""
    return out / "checkpoints" / check_key(key)


def staging_area(out: Path, driver: str) -> Path:
    """Where the runs of `driver` write; on the file system of `artifact_folder`, so that a move is
    one step."""
    return out / FOLDER / ".partial" / driver


def staging_folder(out: Path, driver: str, key: str) -> Path:
    """Where the run `key` writes its files while `driver` runs it."""
    return staging_area(out, driver) / check_key(key)


def plain_json(value: Any) -> str:
    """`value` as JSON text, as stores and messages hold it; NaN stays NaN. Raises `TypeError` for
    what is not a plain value."""
    return _ENCODER.encode(value)


class SharedTexts:
    """`plain_json` of many mappings with values in common, of which each is put into text once, and
    of mappings that are one.

    Both are known by their identity: what was given must not be let go of, or changed, as long as
    this is used.
    """

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._layouts: dict[tuple[Any, ...], str] = {}

    def of(self, values: Mapping[str, Any]) -> str:
        """The text of a mapping, byte for byte that of `plain_json`."""
        if not values:
            return "{}"
        text = self._texts.get(id(values))
        if text is None:
            text = self._texts[id(values)] = self._new(values)
        return text

    def _new(self, values: Mapping[str, Any]) -> str:
        # A mapping of another type may make its values whenever they are asked for.
        if type(values) is not dict:
            return plain_json(values)
        names = tuple(values)
        layout = self._layouts.get(names)
        if layout is None:
            if not all(type(name) is str for name in names):
                return plain_json(values)
            layout = self._layouts[names] = _layout(names)
        for value in values.values():
            if id(value) not in self._texts:
                self._texts[id(value)] = plain_json(value)
        return layout % tuple([self._texts[id(value)] for value in values.values()])


def texts_of_labels(mappings: Sequence[Mapping[str, Any]]) -> list[str]:
    """`plain_json` of each of many mappings, several times faster where their names and values are
    plain texts and whole numbers. As with `SharedTexts` they must not be let go of meanwhile."""
    types = set(map(type, chain.from_iterable(values.values() for values in mappings)))
    if types <= {str, int} and set(map(type, chain.from_iterable(mappings))) <= {str}:
        with contextlib.suppress(ValueError):  # half of a surrogate pair, or a mapping but no dict
            encoded = [to_json(values) for values in mappings]
            characters = b"".join(encoded)
            if characters.isascii() and b"\x7f" not in characters:  # others have escapes in JSON
                return list(map(bytes.decode, encoded))
    return list(map(SharedTexts().of, mappings))


def texts_of_names(lists: Sequence[Sequence[str]]) -> list[str]:
    """`plain_json` of each of many lists of names, such as keys."""
    joined = "".join(chain.from_iterable(lists))
    if joined.isascii() and joined.isalnum():  # nothing that is written otherwise than it is
        between = '","'
        return [f'["{between.join(names)}"]' if names else "[]" for names in lists]
    return [f"[{','.join(map(encode_basestring_ascii, names))}]" for names in lists]


def _layout(names: Iterable[str]) -> str:
    """The text of a mapping with these names, `%s` for each value."""
    entries = (f"{encode_basestring_ascii(name).replace('%', '%%')}:%s" for name in names)
    return f"{{{','.join(entries)}}}"


def listing(folder: Path) -> dict[str, tuple[int, str]]:
    """Size in bytes and SHA-256 of every file below `folder`, by its name with `/`."""
    paths = sorted(
        Path(directory, name) for directory, _, names in os.walk(folder) for name in names
    )
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_size, file_hash(path))
        for path in paths
    }


def faults(folder: Path, listed: Mapping[str, Any], read: bool) -> list[str]:
    """The faults of the files of a run in `folder`, which `listing` gave; each half a sentence,
    none where all is well.

    Without `read` only their sizes are looked at. A link is not what a run left, whatever it leads
    to.
    """
    prefix = f"{folder}{os.sep}"  # paths by the hundred thousand are slow
    file_faults = (
        (name, _fault(prefix + name, size, digest, read)) for name, (size, digest) in listed.items()
    )
    return [f"{name} {fault}" for name, fault in file_faults if fault]


def _fault(path: str, size: int, digest: str, read: bool) -> str:
    try:
        state = os.lstat(path)
        if not stat.S_ISREG(state.st_mode):
            return "is no file but a link" if stat.S_ISLNK(state.st_mode) else "is no file"
        if state.st_size != size:
            return f"has {state.st_size:,} bytes, not {size:,}"
        if read and file_hash(Path(path)) != digest:
            return "is not what the run wrote"
        return ""
    except (FileNotFoundError, NotADirectoryError):
        return "is gone"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"


def sync_tree(folder: Path) -> None:
    """Force every file and folder below `folder` to the disk: a move must not outlive, on a power
    cut, what it moved."""
    for directory, _, files in os.walk(folder):
        for name in files:
            sync(Path(directory, name))
        sync(Path(directory))


def publish(staged: Path, final: Path) -> None:
    """Move the folder `staged` to `final` in one step, replacing what an unrecorded earlier try
    left there."""
    final.parent.mkdir(parents=True, exist_ok=True)
    # A folder that is not empty cannot be replaced in one step; the run is not recorded yet, so
    # nobody reads the gap.
    shutil.rmtree(final, ignore_errors=True)
    os.rename(staged, final)
    sync(final.parent)


def sweep_staging(out: Path, live: Callable[[], set[str]]) -> None:
    """Remove what drivers other than the `live` ones left in the staging area.

    `live` is asked after the area was listed: a driver that enters in between is known before its
    folder is.
    """
    folder = out / FOLDER / ".partial"
    names = _names_in(folder)
    _remove(folder, set(names) - live() if names else ())


def sweep_checkpoints(out: Path, finished: Callable[[list[str]], list[str]]) -> None:
    """Remove checkpoints of runs that `finished` picks out of a list of keys (a kill came between
    record and removal)."""
    folder = out / "checkpoints"
    _remove(folder, finished(_names_in(folder)))


def rung_folder(out: Path) -> Path:
    """Where the states of paused fits lie until the next rung has read them, a file each by key."""
    return out / "rungs"


def sweep_rungs(out: Path, needed: Callable[[], set[str]]) -> None:
    """Remove the states of paused fits that no job will go on from (a kill came between the record of
    the next rung and the removal).

    `needed`, the keys of the fits that a job still needs, is asked after the folder was listed: a
    fit that pauses in between is not in the list.
    """
    folder = rung_folder(out)
    names = _names_in(folder)
    keys = needed() if names else set()
    for name in names:
        if name.partition(".")[0] not in keys:
            (folder / name).unlink(missing_ok=True)


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _remove(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        # An orphan of a killed driver may still write for a moment; what it leaves goes at the next
        # start.
        shutil.rmtree(folder / name, ignore_errors=True)


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not a plain value")


# Made once: `json.dumps` with separators makes one at every call.
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=_plain)
