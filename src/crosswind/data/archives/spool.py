"""Members of an archive laid one behind the other in a file without a name, so that any of them can be read at any time."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.data.archives.parts import Archive

__all__ = ["Spool", "spooled", "temporary_file"]


class Spool:
    """Members of an archive in one mapped file. Several threads may read at once; the file is gone with the object.

    `names`: the members in the order of the archive. `offsets` int64 [n + 1]: where each begins and the last ends.
    """

    def __init__(self, names: list[str], offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> None:
        self.names, self.offsets, self.data = names, offsets, data

    def __len__(self) -> int:
        return len(self.names)

    def bytes(self, index: int) -> bytes:
        """The bytes of one member, by its place in `names`."""
        return self.view(index).tobytes()

    def view(self, index: int) -> NDArray[np.uint8]:
        """The bytes of one member without a copy, not writeable."""
        return self.data[self.offsets[index] : self.offsets[index + 1]]


def spooled(archive: Archive, wanted: Callable[[str], bool], scratch: Path | None = None, room: int = 0) -> Spool:
    """The wanted members of an archive, read in one pass from its beginning to its end, which checks it as a whole.

    `scratch`: where the file is made, by default the folder of the archive where it can be written, else that of temporary files.
    `room`: bytes of disk that there must be. Raises `DataError` for what the archive refuses and for a disk that is full.
    """
    names, ends = [], [0]
    with temporary_file(scratch or archive.path.parent, room, str(archive.path)) as file:
        for member, part in archive.walk(wanted):
            if part is None:
                continue
            try:
                for block in part.blocks():
                    file.write(block)
            except OSError as error:
                raise DataError(f"{archive.path} cannot be unpacked: {error.strerror or error}") from None
            names.append(member.name)
            ends.append(ends[-1] + member.size)
        try:
            file.flush()
        except OSError as error:
            raise DataError(f"{archive.path} cannot be unpacked: {error.strerror or error}") from None
        data = np.memmap(file, np.uint8, "r", 0, (ends[-1],)) if ends[-1] else np.empty(0, np.uint8)
    return Spool(names, np.array(ends, dtype=np.int64), data)


def temporary_file(folder: Path, size: int, what: str) -> IO[bytes]:
    """A file without a name, in a folder, or where that cannot be written in that of temporary files, on a disk with `size` free.

    Raises `DataError` that names `what` is to be unpacked, where there is no room.
    """
    for place in (folder, Path(tempfile.gettempdir())):
        try:
            if shutil.disk_usage(place).free >= size:
                file: Any = tempfile.TemporaryFile(dir=place)  # noqa: SIM115  (the caller closes it)
                return file
        except OSError:
            continue
    raise DataError(
        f"{what} needs {size:,} bytes of disk to be unpacked, and neither {folder} nor {tempfile.gettempdir()} has them"
    )
