"""Members of zip and tar archives, read without trusting them.

What an archive of data never needs is refused before a byte of it is used: a name that leads out of the folder, a link, a device,
an encrypted or a doubled member, members that share their bytes, more bytes than a bound allows, a pickle. What is read is
counted against what the archive declares, so that neither side can be a lie.
"""

from __future__ import annotations

from pathlib import Path

from crosswind.data.archives.parts import Archive, Bounds, expect_kind
from crosswind.data.archives.tars import UNPACKERS, TarArchive
from crosswind.data.archives.zips import ZipArchive

__all__ = ["open_archive"]


def open_archive(path: Path, bounds: Bounds | None = None) -> Archive:
    """The archive in a file: zip, or tar, plain or packed by gzip, bzip2 or xz. Use it in a `with`.

    Raises `DataError` for a file that is missing, is no archive, or is not what its name says.
    """
    kind = expect_kind(path, ("zip", "tar", *UNPACKERS), "an archive")
    return ZipArchive(path, bounds or Bounds()) if kind == "zip" else TarArchive(path, kind, bounds or Bounds())
