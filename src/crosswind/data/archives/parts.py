"""What is common to archives of all kinds: bounds, safe names, and bytes counted against what is declared."""

from __future__ import annotations

import contextlib
import lzma
import re
import struct
import tarfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from crosswind.core.errors import DataError, shown
from crosswind.core.files import check_file
from crosswind.data.archives.pickles import HEAD, PICKLED_SUFFIXES, looks_pickled

__all__ = ["BLOCK", "DAMAGE", "Archive", "Bounds", "Member", "Part", "expect_kind", "kind_of_file", "reason", "safe_name", "within"]

DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
)
"""What the readers of the standard library raise for damaged bytes; NotImplementedError is a RuntimeError."""

BLOCK = 1 << 20

Wanted = Callable[[str], bool]


@dataclass(frozen=True)
class Bounds:
    """What an archive may hold at most: `members`, `size` bytes unpacked in all, and `ratio` of these to the bytes of the file.

    The ratio counts only where more than `free` bytes are unpacked. Pictures, which are packed already, have about 1; the
    sprites of dSprites 116; a bomb has 1,000 and more.
    """

    members: int = 2_000_000
    size: int = 64 << 30
    ratio: float = 250.0
    free: int = 64 << 20


@dataclass(frozen=True)
class Member:
    """One file in an archive: its `name`, a relative path with `/`, and its `size` in bytes, unpacked."""

    name: str
    size: int


def safe_name(name: str, path: Path, folder: bool = False) -> str:
    """The name of a member as a relative path with `/`, without dots; empty for the `folder` that the archive is itself.

    Raises `DataError` for a name that leads out of the folder of the archive, in `path`.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    outside = name.startswith("/") or "\\" in name or ".." in parts or "\0" in name or re.match(r"[A-Za-z]:", name)
    if outside or not (parts or folder):
        raise DataError(f"{path} is not safe to read: its member {shown(name)} leads out of the folder")
    return "/".join(parts)


def kind_of_file(path: Path) -> str:
    """What the first bytes of a file say it is: `zip`, `gzip`, `bzip2`, `xz`, `tar`, `npy`, `hdf5`, `pickle`, `page` or nothing.

    Raises `DataError` where there is no file.
    """
    try:
        check_file(path)
        with path.open("rb") as file:
            head = file.read(512)
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    for kind, start in _STARTS:
        if head.startswith(start):
            return kind
    if head[257:262] == b"ustar":
        return "tar"
    if head.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html", b"<head")):
        return "page"
    return "pickle" if looks_pickled(head[:HEAD]) else ""


def expect_kind(path: Path, kinds: Collection[str], what: str) -> str:
    """The kind of a file that should be of one of some kinds, in words `what`.

    Raises `DataError` where it is of another kind, or of another than its name says.
    """
    kind = kind_of_file(path)
    if kind not in kinds:
        meant = _OTHERWISE.get(kind) or (f"a file of {kind}" if kind else "cut short at its beginning, damaged or something else")
        raise DataError(f"{path} is not {what}: it is {meant}")
    called = _CALLED.get(path.suffix.lower(), kind)
    if called != kind:
        raise DataError(f"{path} is not what its name says: it should be {called} and its bytes are those of {kind}")
    return kind


_OTHERWISE = {
    "page": "a web page, perhaps what a failed download left",
    "pickle": "a pickle, which could run code and is never opened",
}
_CALLED = {
    ".zip": "zip",
    ".npz": "zip",
    ".npy": "npy",
    ".tar": "tar",
    ".gz": "gzip",
    ".tgz": "gzip",
    ".bz2": "bzip2",
    ".tbz2": "bzip2",
    ".xz": "xz",
    ".txz": "xz",
}

_STARTS = (
    ("zip", b"PK\x03\x04"),
    ("zip", b"PK\x05\x06"),
    ("gzip", b"\x1f\x8b"),
    ("bzip2", b"BZh"),
    ("xz", b"\xfd7zXZ\x00"),
    ("npy", b"\x93NUMPY"),
    ("hdf5", b"\x89HDF\r\n\x1a\n"),
)


class Part:
    """The bytes of one member or file, read in order: never more than declared, and an error for fewer.

    `label` names it in errors. Raises `DataError` for damaged, missing and surplus bytes, and at once for a pickle.
    """

    def __init__(self, label: str, size: int, source: IO[bytes]) -> None:
        self.label, self.size = label, size
        self._source, self._ahead, self._left = source, b"", size
        self._ahead = self._raw(min(HEAD, size))
        if looks_pickled(self._ahead):
            raise DataError(f"{label} is a pickle, whatever its name says: pickles can run code and are never opened")

    @property
    def left(self) -> int:
        """How many bytes are still to be read."""
        return self._left

    def read(self, count: int) -> bytes:
        """The next bytes, at most `count`; nothing at the end, where the whole has been checked."""
        count = min(count, self._left)
        if count <= 0:
            return b""
        out, self._ahead = self._ahead[:count], self._ahead[count:]
        if len(out) < count:
            out += self._raw(count - len(out))
        if len(out) < count:
            raise DataError(f"{self.label} is cut short: it declares {self.size:,} bytes and lacks {self._left - len(out):,}")
        self._left -= len(out)
        if not self._left:
            self._ended()
        return out

    def all(self) -> bytes:
        """All bytes that are left."""
        if self.size == 0:
            self._ended()
        return self.read(self._left)

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """All bytes that are left, in blocks."""
        if self.size == 0:
            self._ended()
        while self._left:
            yield self.read(size)

    def _ended(self) -> None:
        # One byte more is asked for: this is where readers compare checksums, and where a bomb shows.
        if self._raw(1):
            raise DataError(f"{self.label} holds more than the {self.size:,} bytes that it declares")

    def _raw(self, count: int) -> bytes:
        blocks, missing = [], count
        try:
            # A damaged length must not take memory that no byte fills.
            while missing and (block := self._source.read(min(missing, BLOCK))):
                blocks.append(block)
                missing -= len(block)
        except DAMAGE as error:
            raise DataError(f"{self.label} is damaged or cut short: {reason(error)}") from None
        return blocks[0] if len(blocks) == 1 else b"".join(blocks)


class Archive(ABC):
    """An archive that is open. Names are checked before anything is read; use it in a `with`."""

    def __init__(self, path: Path, bounds: Bounds) -> None:
        self.path, self.bounds = path, bounds
        self._count = self._size = 0
        self._names: set[str] = set()
        self._folders: set[str] = set()

    @abstractmethod
    def walk(self, wanted: Wanted | None = None) -> Iterator[tuple[Member, Part | None]]:
        """Every member in the order of the archive, with its bytes where it is wanted (by default all are), else None.

        A part is read before the next is asked for. Going to the end checks the whole archive.
        """

    @abstractmethod
    def read(self, name: str, limit: int = 1 << 30) -> bytes:
        """The bytes of one member, at most `limit`. Reads a tar to its end."""

    @abstractmethod
    def close(self) -> None:
        """Lets the file go."""

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def unpack(self, folder: Path, wanted: Wanted | None = None) -> list[Path]:
        """Writes the wanted members into a folder, which is made where it is missing, and gives their paths.

        Raises `DataError` for what the archive refuses, and where a file is there already or cannot be written; what was written
        by then is removed.
        """
        made: list[Path] = []
        there = folder.exists()
        try:
            for member, part in self.walk(wanted):
                if part is not None:
                    self._write(folder / member.name, part, made)
        except BaseException:
            for place in made:
                place.unlink(missing_ok=True)
            inner = {above for place in made for above in place.parents if above.is_relative_to(folder)}
            for above in sorted(inner, key=lambda above: len(above.parts), reverse=True):
                if not (there and above == folder):
                    with contextlib.suppress(OSError):  # a folder with something else in it stays
                        above.rmdir()
            raise
        return made

    def _write(self, place: Path, part: Part, made: list[Path]) -> None:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                made.append(place)
                for block in part.blocks():
                    file.write(block)
        except OSError as error:
            raise DataError(f"{part.label} cannot be written to {place}: {error.strerror or error}") from None

    def label(self, name: str) -> str:
        """How errors name a member."""
        return f"{self.path}, member {name!r},"

    def _part(self, member: Member, source: IO[bytes], label: str = "") -> Part:
        label = label or self.label(member.name)
        if member.name.lower().endswith(PICKLED_SUFFIXES):
            raise DataError(f"{label} is a pickle by its name: pickles can run code and are never opened")
        return Part(label, member.size, source)

    def _missing(self, name: str, held: Collection[str]) -> DataError:
        return DataError(f"{self.path} has no member {name!r} but {_listed(held)}")

    def _forget(self) -> None:
        self._count = self._size = 0
        self._names, self._folders = set(), set()

    def _admit(self, raw: str, size: int, packed: int, folder: bool) -> str:
        """The safe name of a member, counted against the bounds. `packed`: bytes of the file that unpacking has used at most."""
        name = safe_name(raw, self.path, folder)
        self._count += 1
        self._size += size
        if self._count > self.bounds.members:
            raise DataError(f"{self.path} is not safe to read: it has more than {self.bounds.members:,} members")
        if size < 0 or self._size > self.bounds.size:
            raise DataError(f"{self.path} is not safe to read: its members take more than {self.bounds.size:,} bytes unpacked")
        self._check_ratio(self._size, packed)
        if folder:
            return name
        if name in self._names:
            raise DataError(f"{self.path} is not safe to read: it has two members called {name!r}")
        self._names.add(name)
        above = name.rpartition("/")[0]
        while above and above not in self._folders:
            self._folders.add(above)
            above = above.rpartition("/")[0]
        return name

    def _check_folders(self) -> None:
        both = self._names & self._folders
        if both:
            raise DataError(f"{self.path} is not safe to read: its member {min(both)!r} is a file and a folder")

    def _check_ratio(self, unpacked: int, packed: int) -> None:
        if unpacked > self.bounds.free and unpacked > self.bounds.ratio * packed:
            raise DataError(
                f"{self.path} is not safe to read: its {packed:,} bytes unpack to {unpacked:,} or more, "
                f"which is beyond {self.bounds.ratio:g} to 1"
            )


def within(label: str, size: int, limit: int) -> None:
    """Raises `DataError` where something takes more bytes of memory than are allowed."""
    if size > limit:
        raise DataError(f"{label} is not safe to read: it takes {size:,} bytes of memory, more than the {limit:,} allowed")


def reason(error: BaseException) -> str:
    """What a library said was wrong, or the kind of its error where it said nothing."""
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def _listed(names: Collection[str]) -> str:
    some = sorted(names)[:8]
    more = len(names) - len(some)
    return (", ".join(some) or "nothing") + (f" and {more:,} more" if more > 0 else "")
