"""The files that a column of a table names, as people write paths, below a folder.

Names come from other machines: with backslashes, absolute, with other case, without an ending, or
without the folders in which the files lie. Each is found only where it can be one file alone.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, counted
from crosswind.data.decoding import IMAGE_ENDINGS

OTHER_FORMATS: Final[Mapping[str, str]] = {
    ".heic": "HEIC",
    ".heif": "HEIC",
    ".avif": "AVIF",
    ".jxl": "JPEG XL",
    ".dcm": "DICOM",
    ".svg": "SVG",
    ".cr2": "raw",
    ".nef": "raw",
    ".dng": "raw",
    ".psd": "Photoshop",
    ".mp4": "video",
    ".avi": "video",
    ".pdf": "PDF",
    ".npy": "NumPy array",
    ".nii": "NIfTI",
}
"""Endings of pictures that are not read, and what they are called."""
_SAMPLE = 20
"""Absolute paths by which it is decided which of their folders are those of another machine."""
_SHOWN = 3
_DRIVE = re.compile(r"^[A-Za-z]:")
_UPWARDS = re.compile(r"^(\.\./)+")


@dataclass(frozen=True)
class FileFolder:
    """A folder of files below which names are looked for; `shown` is what errors call it."""

    top: Path
    shown: str

    def files_of(
        self,
        names: Sequence[str],
        column: str,
        table: str,
        row_numbers: Sequence[int] | NDArray[np.int64] | None = None,
    ) -> list[str]:
        """The file of each name, relative to the folder, "/" between its parts. `row_numbers`: of
        the names in the table, from 0, where some rows are left out.

        A name is taken as it stands where that is a file. Else backslashes are slashes, and an
        absolute path is taken from the folder on. One written on another machine is taken from the
        first part on from which most such paths are files here. One that leads upwards is taken from
        where it no longer does, or as one of another machine. Then the one file below the folder
        whose path ends with the name is taken. It is taken in any case of letters, and with the ending of a picture where the name
        has none. Raises `DataError` that names rows, for names that lead out of the folder, are no
        file or several, and for pictures in a format that is not read.
        """
        elsewhere = []
        for name in names:
            components = _absolute_parts(name) or _upward_parts(name)
            if components is not None:
                elsewhere.append(components)
        stripped = self._foreign_parts(elsewhere)
        files = [self._file_of(name, stripped) for name in names]
        faults = [(row, file) for row, file in enumerate(files) if isinstance(file, _Fault)]
        if faults:
            numbers = range(len(names)) if row_numbers is None else row_numbers
            problem = self._sentence(faults, names, f"{table}, column {column!r}", numbers)
            raise DataError(problem)
        return [str(file) for file in files]

    def _file_of(self, name: str, stripped: int) -> str | _Fault:
        """The file of a name, or why there is none."""
        clean = _clean(name)
        leads_out = _leads_out(clean)
        if not leads_out and "\x00" not in name and (size := self._size_of(clean)) is not None:
            if size > 0:
                other_format = _other_format(clean)
                return other_format if other_format is not None else clean
            return _EMPTY if size == 0 else _NO_FILE
        if not leads_out and "\x00" not in name and os.path.islink(f"{self.top}/{clean}"):
            return _DEAD_LINK
        components = _absolute_parts(name)
        if components is None:
            return self._of_relative(name, stripped)
        inside = self._inside(components)
        relative = "/".join(components[stripped:] if inside is None else inside)
        return self._below(relative, leads_out=inside is None and not stripped)

    def _of_relative(self, name: str, stripped: int) -> str | _Fault:
        """The file of a relative path that is none as it stands, or why there is none."""
        relative = _clean(name.replace("\\", "/"))
        inner = _UPWARDS.sub("", relative)
        if _leads_out(inner):
            return _OUTSIDE
        upwards = inner != relative
        below = self._below(inner, leads_out=upwards)
        if upwards and stripped and isinstance(below, _Fault):
            return self._below("/".join(inner.split("/")[stripped:]), leads_out=False)
        return below

    def _below(self, relative: str, leads_out: bool) -> str | _Fault:
        """The one file whose path ends with `relative`, or why there is none."""
        name_components = _folded(relative).split("/")
        by_ending = self._by_name.get(name_components[-1], ())
        by_stem = (
            ()
            if name_components[-1].endswith(IMAGE_ENDINGS)
            else self._by_stem.get(name_components[-1], ())
        )
        matches = sorted(
            file
            for file in {*by_ending, *by_stem}
            if _folded(file).split("/")[-len(name_components) : -1] == name_components[:-1]
        )
        exact = [file for file in matches if f"/{file}".endswith(f"/{relative}")]
        matches = exact or matches
        if len(matches) > 1:
            return _Fault("several", matches)
        if not matches:
            return _OUTSIDE if leads_out else _MISSING
        other_format = _other_format(matches[0])
        if other_format is not None:
            return other_format
        if self._size_of(matches[0]) is None:
            return _DEAD_LINK
        if self._size_of(matches[0]):
            return matches[0]
        return _EMPTY

    def _foreign_parts(self, paths: Sequence[Sequence[str]]) -> int:
        """How many first components of paths elsewhere are folders of another machine; 0 where no
        number makes files of most of them."""
        foreign = [path for path in paths if self._inside(path) is None]
        if not foreign:
            return 0
        sample = foreign[:: max(1, len(foreign) // _SAMPLE)]
        most_folders = min(map(len, foreign))
        most_files, best = len(sample) // 2, 0
        for number in range(1, most_folders):
            n_files = sum(self._size_of("/".join(path[number:])) is not None for path in sample)
            if n_files > most_files:
                most_files, best = n_files, number
        return best

    def _inside(self, components: Sequence[str]) -> list[str] | None:
        """The components of an absolute path below the folder, None for a path elsewhere."""
        for top in self._tops:
            if list(components[: len(top)]) == top:
                return list(components[len(top) :])
        return None

    @cached_property
    def _tops(self) -> list[list[str]]:
        """The folder's own absolute path in components, with links and without."""
        paths = {os.path.abspath(self.top), os.path.realpath(self.top)}
        tops: list[list[str]] = []
        for path in paths:
            tops.append(
                [component for component in path.replace("\\", "/").split("/") if component]
            )
        return tops

    def _size_of(self, relative: str) -> int | None:
        """Bytes of a file below the folder; -1 for what is there and no file, None for nothing."""
        try:
            entry = os.stat(f"{self.top}/{relative}")
        except (OSError, ValueError):
            return None
        if stat.S_ISREG(entry.st_mode):
            return entry.st_size
        return -1

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        """Every file below the folder by its name, see `_folded`."""
        files: dict[str, list[str]] = defaultdict(list)
        for file in _walk(self.top):
            files[_folded(posixpath.basename(file))].append(file)
        return files

    @cached_property
    def _by_stem(self) -> dict[str, list[str]]:
        """Every picture below the folder by its name in lower case without the ending."""
        files: dict[str, list[str]] = defaultdict(list)
        for name, named in self._by_name.items():
            stem, ending = posixpath.splitext(name)
            if ending in IMAGE_ENDINGS or ending in OTHER_FORMATS:
                files[stem] += named
        return files

    def _sentence(
        self,
        faults: Sequence[tuple[int, _Fault]],
        names: Sequence[str],
        where: str,
        row_numbers: Sequence[int] | NDArray[np.int64],
    ) -> str:
        """The error for the first name that has no file, which other rows have the same fault, and
        an example of each other kind of fault."""
        first_row, fault = faults[0]
        alike = [row for row, other_fault in faults[1:] if other_fault.kind == fault.kind]
        name = names[first_row]
        row_words = f"{where}, row {row_numbers[first_row] + 1}"
        missing = f"{row_words}: there is no file {name!r} in {self.shown!r}"
        empty = (
            f"{row_words}: the file {name!r} in {self.shown!r} is empty; fetch it again, or leave the"
            " row out"
        )
        several = (
            f"{row_words}: {name!r} may be one of several files in {self.shown!r}:"
            f" {', '.join(fault.files[:_SHOWN])}; write more of its path"
        )
        outside = (
            f"{row_words}: {name!r} leads out of the folder of images; name the folder above all"
            " pictures as that of the images, and write paths from there"
        )
        sentence = {
            "outside": outside,
            "missing": missing,
            "no-file": f"{row_words}: {name!r} in {self.shown!r} is not a file",
            "empty": empty,
            "dead-link": (
                f"{row_words}: {name!r} in {self.shown!r} is a link to a file that is not there"
            ),
            "several": several,
            "format": (
                f"{row_words}: {name!r} is a picture in the format {', '.join(fault.files)}, which"
                " is not read: convert it to PNG or JPEG"
            ),
        }[fault.kind]
        if alike:
            examples = ", ".join(
                f"row {row_numbers[row] + 1}: {names[row]!r}" for row in alike[: _SHOWN - 1]
            )
            sentence = f"{sentence} ({counted(len(alike), 'more such row')}, {examples})"
        for kind in dict.fromkeys(row_fault.kind for _, row_fault in faults):
            of_kind = [row for row, row_fault in faults if row_fault.kind == kind]
            if kind != fault.kind:
                sentence += (
                    f"; {_OTHER_FAULTS[kind]} in {counted(len(of_kind), 'row')}, such as row"
                    f" {row_numbers[of_kind[0]] + 1}: {names[of_kind[0]]!r}"
                )
        return sentence


@dataclass(frozen=True)
class _Fault:
    """Why a name is no file: the kind of fault, and the files or the format that it is about."""

    kind: str
    files: Sequence[str] = ()


_OTHER_FAULTS = {
    "outside": "paths that lead out of the folder",
    "missing": "missing files",
    "no-file": "names of what is no file",
    "empty": "empty files",
    "dead-link": "links to missing files",
    "several": "names of several files",
    "format": "pictures in a format that is not read",
}
"""What further kinds of faults are called, behind the sentence about the first."""
_OUTSIDE, _MISSING = _Fault("outside"), _Fault("missing")
_NO_FILE, _EMPTY, _DEAD_LINK = _Fault("no-file"), _Fault("empty"), _Fault("dead-link")


def _other_format(file: str) -> _Fault | None:
    """The fault of a picture in a format that is not read."""
    ending = posixpath.splitext(file)[1].lower()
    if ending in OTHER_FORMATS:
        return _Fault("format", [OTHER_FORMATS[ending]])
    return None


def _folded(name: str) -> str:
    """A path in lower case, with accents as one letter each: file systems write them in two ways."""
    return unicodedata.normalize("NFC", name).lower()


def _clean(name: str) -> str:
    """A path with its dots resolved, as `/` between its components."""
    if os.sep == "\\":
        name = name.replace("\\", "/")
    marks = not name or "." in (name[0], name[-1]) or "/." in name or "//" in name
    # Most paths are clean as they are.
    if marks or name[-1] == "/":
        return posixpath.normpath(name)
    return name


def _leads_out(clean: str) -> bool:
    """Whether a clean path is absolute or begins above the folder."""
    return clean[0] == "/" or clean == ".." or clean.startswith("../") or bool(_DRIVE.match(clean))


def _absolute_parts(name: str) -> list[str] | None:
    """The components of an absolute path, of Windows too; None for a relative one and one with dots that
    lead upwards."""
    slashed = name.replace("\\", "/").removeprefix("file://")
    slashed = slashed.removeprefix("~") if slashed.startswith("~/") else slashed
    if not (slashed.startswith("/") or _DRIVE.match(slashed)):
        return None
    components = []
    for component in _DRIVE.sub("", slashed).split("/"):
        if component not in ("", "."):
            components.append(component)
    if ".." in components or not components:
        return None
    return components


def _upward_parts(name: str) -> list[str] | None:
    """The components of a relative path that leads upwards, from where it no longer does; None for
    another path."""
    relative = _clean(name.replace("\\", "/"))
    inner = _UPWARDS.sub("", relative)
    if inner == relative or _leads_out(inner):
        return None
    return inner.split("/")


def _walk(top: Path) -> Iterable[str]:
    """Every file below a folder, relative to it, `/` between the components; hidden ones left out."""
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = os.path.relpath(folder, top).replace(os.sep, "/")
        prefix = "" if below == "." else f"{below}/"
        yield from (prefix + name for name in sorted(files) if not name.startswith("."))
