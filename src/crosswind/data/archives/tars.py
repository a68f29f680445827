"""Tar archives, plain or packed: read from beginning to end, checked as they go by."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from crosswind.core.errors import DataError
from crosswind.data.archives.parts import BLOCK, DAMAGE, Archive, Bounds, Member, Part, Wanted, reason, within

__all__ = ["UNPACKERS", "TarArchive"]

UNPACKERS: dict[str, Callable[[Any], Any]] = {
    "gzip": lambda raw: gzip.GzipFile(fileobj=raw),
    "bzip2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
}
_LONGEST_READ = 1 << 24  # of a header: a name or a comment is never longer


class TarArchive(Archive):
    """A tar archive, plain or packed: read from beginning to end, each time it is walked."""

    def __init__(self, path: Path, kind: str, bounds: Bounds) -> None:
        super().__init__(path, bounds)
        self._kind = kind
        self._stack = contextlib.ExitStack()

    def walk(self, wanted: Wanted | None = None) -> Iterator[tuple[Member, Part | None]]:
        """See `Archive.walk`."""
        self._forget()
        on_disk = self.path.stat().st_size
        self.close()
        with self._stack as stack:
            try:
                raw = stack.enter_context(self.path.open("rb"))
                plain = stack.enter_context(UNPACKERS[self._kind](raw)) if self._kind in UNPACKERS else raw
                stream = _Watched(plain, lambda place: self._check_ratio(place, on_disk))
                tar = stack.enter_context(tarfile.TarFile(fileobj=stream))  # type: ignore[arg-type]
            except DAMAGE as error:
                raise DataError(f"{self.path} is not a whole tar archive: {reason(error)}") from None
            while (info := self._next(tar)) is not None:
                name = self._admit(info.name, info.size, on_disk, info.isdir())
                self._check_kind(info, name)
                if info.isdir():
                    continue
                member = Member(name, info.size)
                if wanted is not None and not wanted(name):
                    yield member, None
                    continue
                source = tar.extractfile(info)
                assert source is not None
                part = self._part(member, source)
                yield member, part
            self._check_folders()
            self._finish(stream)

    def _next(self, tar: tarfile.TarFile) -> tarfile.TarInfo | None:
        try:
            info = tar.next()
        except DataError:
            raise
        except DAMAGE as error:
            raise DataError(f"{self.path} is damaged or cut short: {reason(error)}") from None
        tar.members.clear()  # type: ignore[attr-defined]  # it keeps a kilobyte of each, of hundreds of thousands
        return info

    def _check_kind(self, info: tarfile.TarInfo, name: str) -> None:
        if info.issym() or info.islnk():
            what = "a symbolic link" if info.issym() else "a hard link"
            raise DataError(f"{self.path} is not safe to read: its member {name!r} is {what}")
        if info.issparse():
            raise DataError(f"{self.path} is not safe to read: its member {name!r} is a file with holes")
        if not (info.isreg() or info.isdir()):
            raise DataError(f"{self.path} is not safe to read: its member {name!r} is a device, a pipe or something unknown")

    def _finish(self, stream: _Watched) -> None:
        # tarfile takes a damaged header for the end: the true end is a block of zeros, and the packer's checksum comes after it.
        whole = stream.last == bytes(512)
        try:
            while stream.read(BLOCK):
                pass
        except DAMAGE as error:
            raise DataError(f"{self.path} is damaged or cut short: {reason(error)}") from None
        if not whole:
            raise DataError(f"{self.path} is damaged or cut short: what follows its member {self._count:,} is no header and no end")

    def read(self, name: str, limit: int = 1 << 30) -> bytes:
        """See `Archive.read`."""
        out = None
        for member, part in self.walk(lambda found: found == name):
            if part is not None:
                within(part.label, member.size, limit)
                out = part.all()
        if out is None:
            raise self._missing(name, self._names)
        return out

    def close(self) -> None:
        """See `Archive.close`; a walk that goes to its end closes its file itself."""
        self._stack.close()


class _Watched:
    """A stream of unpacked bytes that knows its place, refuses to be a bomb and keeps the last block that was read."""

    def __init__(self, source: Any, check: Callable[[int], None]) -> None:
        self._source, self._check = source, check
        self.last = b""

    def read(self, count: int) -> bytes:
        if not 0 <= count <= _LONGEST_READ:
            raise tarfile.ReadError("a header declares an absurd length")
        out: bytes = self._source.read(count)
        self._check(self._source.tell())
        self.last = out
        return out

    def seek(self, place: int) -> int:
        # In steps, so that a bomb is seen before all of it is unpacked.
        at = self._source.tell()
        while at < place:
            step = min(place, at + (64 << 20))
            moved = self._source.seek(step)
            self._check(moved)
            if moved < step:
                break
            at = moved
        return int(self._source.tell()) if at <= place else int(self._source.seek(place))

    def tell(self) -> int:
        return int(self._source.tell())
