"""Files in zip and tar archives, by name. Nothing is written under a name that an archive gives, so
no name can lead anywhere."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.data.archives.checks import PACKED, damage, expect_kind, watched

MOST = 64 << 30
"""Bytes that a tar archive may unpack to."""


class ZipMembers:
    """The files of a zip archive: `sizes` name -> bytes unpacked. It stays open; several threads
    may read at once.

    Raises `DataError` for what is no zip archive.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        expect_kind(path, ("zip",), "a zip archive")
        with damage(path):
            self._zip = zipfile.ZipFile(path)
            self.sizes = {
                info.filename: info.file_size for info in self._zip.infolist() if not info.is_dir()
            }

    def read(self, name: str, limit: int = 1 << 30) -> bytes:
        """The bytes of one file. Raises `DataError` for more than `limit`, and for damaged, missing
        and encrypted ones."""
        if self.sizes[name] > limit:
            problem = (
                f"{self.path}, member {name!r}, has {self.sizes[name]:,} bytes, more than the"
                f" {limit:,} allowed"
            )
            raise DataError(problem)
        with damage(f"{self.path}, member {name!r},"):
            return self._zip.read(name)


class TarMembers:
    """Files of a tar archive: a plain one as it lies, one that is packed laid file behind file in a
    nameless file.

    `names`: in the order of the archive; `sizes`: their bytes, int64; `len`: their number. Several
    threads may read at once. The archive is read once from its beginning to its end, where packed
    ones have a checksum. Links and devices are left out. The nameless file lies in the archive's
    folder, else in that of temporary files. Raises `DataError` for what is no whole tar archive
    (plain, gzip, bzip2 or xz), a name given twice, and a full disk.
    """

    def __init__(self, path: Path, is_wanted: Callable[[str], bool]) -> None:
        starts = []
        sizes = []
        self.names = []
        known_names = set()
        plain = expect_kind(path, ("tar", *PACKED), "a tar archive") == "tar"
        with path.open("rb") if plain else _temporary(path.parent) as file:
            for name, size, start, stream in _walk(path):
                if not is_wanted(name):
                    continue
                if name in known_names:
                    raise DataError(f"{path} has two members called {name!r}")
                starts.append(start if plain else file.tell())
                if not plain:
                    with damage(f"{path}, member {name!r},"):
                        shutil.copyfileobj(stream, file, 1 << 20)
                known_names.add(name)
                self.names.append(name)
                sizes.append(size)
            with damage(f"{path}, unpacked,"):
                file.flush()
                end = file.seek(0, 2)
            self.data: NDArray[np.uint8] = (
                np.memmap(file, np.uint8, "r", 0, (end,)) if end else np.empty(0, np.uint8)
            )
        self._starts = np.array(starts, dtype=np.int64)
        self.sizes = np.array(sizes, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.names)

    def view(self, index: int) -> NDArray[np.uint8]:
        """The bytes of one file by its place in `names`, without a copy, not writeable: uint8
        [size]."""
        return self.data[self._starts[index] : self._starts[index] + self.sizes[index]]


def walked(path: Path) -> None:
    """Go through a tar archive and keep nothing: what `tried` is given."""
    for _ in _walk(path):
        pass


def _walk(path: Path) -> Iterator[tuple[str, int, int, Any]]:
    """Name, size, place unpacked and bytes of every file in a tar archive, in its order."""
    kind = expect_kind(path, ("tar", *PACKED), "a tar archive")
    with (
        damage(path),
        watched(path, "reading") as packed,
        PACKED[kind](packed) if kind in PACKED else packed as raw,
        tarfile.open(fileobj=raw) as tar,
    ):
        size = 0
        for info in tar:
            tar.members.clear()  # type: ignore[attr-defined]  # it keeps a kilobyte of each, of hundreds of thousands
            size += info.size
            if size > MOST:
                raise DataError(f"{path} unpacks to more than {MOST:,} bytes")
            if info.isreg() and not info.issparse():
                yield (
                    info.name.removeprefix("./"),
                    info.size,
                    info.offset_data,
                    tar.extractfile(info),
                )
        if kind == "tar":  # nothing else shows that a plain archive is whole
            raw.seek(tar.offset)
            if raw.read(512) != bytes(512):
                raise DataError(
                    f"{path} is damaged or cut short: no header and no end follows its last member"
                )
        while raw.read(1 << 20):
            pass


def _temporary(folder: Path) -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError:
        return tempfile.TemporaryFile()
