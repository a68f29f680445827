"""Zip archives: everything is known, and checked, when they are opened."""

from __future__ import annotations

import contextlib
import copy
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from crosswind.core.errors import DataError
from crosswind.data.archives.parts import DAMAGE, Archive, Bounds, Member, Part, Wanted, reason, within

__all__ = ["ZipArchive"]


class ZipArchive(Archive):
    """A zip archive: all is checked when it is opened, and several threads may read members at once."""

    def __enter__(self) -> ZipArchive:
        return self

    def __init__(self, path: Path, bounds: Bounds) -> None:
        super().__init__(path, bounds)
        self._open: set[IO[bytes]] = set()
        try:
            self._zip = zipfile.ZipFile(path)
        except DAMAGE as error:
            raise DataError(f"{path} is not a whole zip archive: {reason(error)}") from None
        try:
            self.members = self._checked()
        except BaseException:
            self._zip.close()
            raise

    def _checked(self) -> dict[str, zipfile.ZipInfo]:
        on_disk = self.path.stat().st_size
        found: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            # `orig_filename` is the name before zipfile made it harmless: what is wrong with it is to be seen.
            name = self._admit(info.orig_filename, info.file_size, on_disk, info.is_dir())
            mode = info.external_attr >> 16 if info.create_system == 3 else 0
            kind = stat.S_IFMT(mode)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                what = "a symbolic link" if kind == stat.S_IFLNK else "a device or a pipe"
                raise DataError(f"{self.path} is not safe to read: its member {name!r} is {what}")
            if info.flag_bits & 0x41:
                raise DataError(f"{self.path} cannot be read: its member {name!r} is encrypted")
            if not info.is_dir():
                found[name] = info
        self._check_folders()
        self._check_overlap(on_disk)
        return found

    def _check_overlap(self, on_disk: int) -> None:
        """Members that share their bytes unpack to far more than the file holds, however modest each looks."""
        end, before = 0, ""
        for info in sorted(self._zip.infolist(), key=lambda info: info.header_offset):
            if info.header_offset < end:
                raise DataError(f"{self.path} is not safe to read: its members {before!r} and {info.filename!r} overlap")
            end, before = info.header_offset + 30 + info.compress_size, info.filename
            if end > on_disk:
                raise DataError(f"{self.path} is cut short: its member {before!r} would end at byte {end:,} of {on_disk:,}")

    def walk(self, wanted: Wanted | None = None) -> Iterator[tuple[Member, Part | None]]:
        """See `Archive.walk`."""
        for name, info in self.members.items():
            member = Member(name, info.file_size)
            if wanted is not None and not wanted(name):
                yield member, None
                continue
            with self.part(name) as part:
                yield member, part

    def read(self, name: str, limit: int = 1 << 30) -> bytes:
        """See `Archive.read`. Any order of members costs the same."""
        with self.part(name) as part:
            within(part.label, part.size, limit)
            return part.all()

    @contextlib.contextmanager
    def part(self, name: str, label: str = "") -> Iterator[Part]:
        """The bytes of one member, in order; errors name it by its label, if it is given one."""
        if name not in self.members:
            raise self._missing(name, self.members)
        info = self.members[name]
        # zipfile cuts what is unpacked at the declared size: not told of it, it shows whether there is more.
        more = copy.copy(info)
        more.file_size = 1 << 62
        member = Member(name, info.file_size)
        try:
            source = self._zip.open(more)
        except DAMAGE as error:
            raise DataError(f"{label or self.label(name)} is damaged or cut short: {reason(error)}") from None
        self._open.add(source)
        try:
            with source:
                yield self._part(member, source, label)
        finally:
            self._open.discard(source)

    def info(self, name: str) -> zipfile.ZipInfo:
        """What the archive keeps of one member: checksum, sizes, place."""
        if name not in self.members:
            raise self._missing(name, self.members)
        return self.members[name]

    def stored_at(self, name: str) -> int | None:
        """Where the bytes of a member begin in the file; None for one that is packed."""
        info = self.info(name)
        if info.compress_type != zipfile.ZIP_STORED:
            return None
        with self.path.open("rb") as file:
            file.seek(info.header_offset)
            head = file.read(30)
        # The lengths of the name and of what follows it stand in the member's own header, and may differ from the directory's.
        return info.header_offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")

    def close(self) -> None:
        """See `Archive.close`."""
        for source in list(self._open):  # of a walk that was left half-way
            source.close()
        self._zip.close()
