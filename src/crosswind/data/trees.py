"""The files of a folder or of zip and tar archives by their names, as readers of collections of
images see them, and lists of them.

Hidden files and folders (of a name that begins with a dot) and what desktops leave behind are never
seen. A link that leads out of the folder and a link to a folder are refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from crosswind.core.errors import DataError, shown
from crosswind.data.archives.members import TarMembers, ZipMembers

LEFTOVERS = ("thumbs.db", "desktop.ini", "__macosx")  # of Windows and of macOS, case folded
MOST_OF_AN_IMAGE = 256 << 20
MOST_OF_A_LIST = 64 << 20


@dataclass(frozen=True)
class Tree:
    """Files by relative name with `/`, in the order of their names: `sizes` in bytes, and what
    `opened(name)` gives of one.

    `name`: what errors call the whole. `folders`: the names of those below, empty ones too, where
    they are known.
    """

    name: str
    sizes: Mapping[str, int]
    opened: Callable[[str], Path | bytes]
    folders: tuple[str, ...] = ()

    def read(self, name: str, limit: int = MOST_OF_A_LIST) -> bytes:
        """The bytes of a file. Raises `DataError` for more than `limit` and for what cannot be
        read."""
        if self.sizes[name] > limit:
            problem = (
                f"{self.name}: {name!r} has {self.sizes[name]:,} bytes, more than the {limit:,}"
                " that it may"
            )
            raise DataError(problem)
        stream = self.opened(name)
        if isinstance(stream, bytes):
            return stream
        try:
            return stream.read_bytes()
        except OSError as error:
            raise DataError(
                f"{self.name}: {name!r} cannot be read: {error.strerror or error}"
            ) from None


def folder_tree(folder: Path, name: str | None = None, only: Collection[str] | None = None) -> Tree:
    """The files below a folder; errors call it `name`. With `only`, those of its files that have
    one of these names, and no folder.

    Raises `DataError` for links as above and for what cannot be read.
    """
    called = str(folder) if name is None else name
    if not folder.is_dir():
        raise DataError(
            f"{called}"
            f" {'is not a folder' if folder.exists() else 'is a folder that does not exist'}"
        )
    top = os.path.realpath(folder)
    sizes: dict[str, int] = {}
    folders: list[str] = []
    waiting = [(str(folder), "")]
    while waiting:
        folder_path, prefix = waiting.pop()
        for entry in _entries(folder_path, prefix, called):
            file_name = prefix + entry.name
            if _is_hidden(entry.name) or (only is not None and entry.name not in only):
                continue
            try:
                state = entry.stat()
                if entry.is_symlink():
                    is_folder = stat.S_ISDIR(state.st_mode)
                    _check_link(entry.path, top, file_name, called, is_folder)
            except OSError as error:
                problem = f"{called}: {file_name!r} cannot be read: {error.strerror or error}"
                raise DataError(problem) from None
            if stat.S_ISDIR(state.st_mode):
                folders.append(file_name)
                waiting.append((entry.path, file_name + "/"))
            elif stat.S_ISREG(state.st_mode):
                sizes[file_name] = state.st_size
            else:
                raise DataError(f"{called}: {file_name!r} is neither a file nor a folder")
    return Tree(
        called,
        {name: sizes[name] for name in sorted(sizes)},
        lambda name: folder / name,
        tuple(sorted(folders)),
    )


def _entries(folder_path: str, prefix: str, called: str) -> list[os.DirEntry[str]]:
    """The entries of a folder, by name: whatever is wrong is said of the same file on every
    machine."""
    try:
        with os.scandir(folder_path) as listing:
            return sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        problem = (
            f"{called}: the folder {prefix or '.'!r} cannot be read: {error.strerror or error}"
        )
        raise DataError(problem) from None


def zip_tree(path: Path) -> Tree:
    """The files in a zip archive, which stays open as long as the tree lives and may be read by
    several threads."""
    archive = ZipMembers(path)
    names = sorted(
        name
        for name in archive.sizes
        if not any(_is_hidden(name_part) for name_part in name.split("/"))
    )
    sizes = {name: archive.sizes[name] for name in names}
    return Tree(path.name, sizes, lambda name: archive.read(name, MOST_OF_AN_IMAGE))


def tar_tree(path: Path) -> Tree:
    """The files in a tar archive, which stays open as long as the tree lives and may be read by
    several threads."""
    archive = TarMembers(
        path, lambda name: not any(_is_hidden(name_part) for name_part in name.split("/"))
    )
    member_of = {name: i for i, name in enumerate(archive.names)}
    sizes = dict(zip(archive.names, archive.sizes.tolist(), strict=True))
    return Tree(
        path.name,
        {name: sizes[name] for name in sorted(sizes)},
        lambda name: archive.view(member_of[name]).tobytes(),
    )


def joined(trees: Iterable[Tree], name: str) -> Tree:
    """Several trees as one. Raises `DataError` for a file that two of them have."""
    owner: dict[str, Tree] = {}
    for tree in trees:
        for file in tree.sizes:
            if file in owner:
                problem = f"{name} holds {file!r} twice: in {owner[file].name} and in {tree.name}"
                raise DataError(problem)
            owner[file] = tree
    sizes = {file: owner[file].sizes[file] for file in sorted(owner)}
    return Tree(name, sizes, lambda file: owner[file].opened(file))


def listed(tree: Tree, name: str) -> list[tuple[str, int]]:
    """A list of files in the tree, one `path number` a line: the paths, each once, and their
    numbers >= 0.

    Raises `DataError` with the line for what is no such list.
    """
    where = f"{tree.name}: {name}"
    try:
        lines = tree.read(name).decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise DataError(
            f"{where} is no text in UTF-8, and should list a file and its class a line"
        ) from None
    number_of: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        path, _, word = line.strip().rpartition(" ")
        if not path or not (word.isascii() and word.isdigit()) or len(word) > 9:
            problem = (
                f"{where}, line {number} should be a file and the number of its class, not"
                f" {shown(line.strip())}"
            )
            raise DataError(problem)
        if path in number_of:
            raise DataError(f"{where}, line {number} lists {path!r} for a second time")
        number_of[path] = int(word)
    if not number_of:
        raise DataError(f"{where} is empty")
    return list(number_of.items())


def lines_of(tree: Tree, name: str) -> list[str]:
    """The lines of a text, empty ones left out. Raises `DataError` for one that is not there, not
    in UTF-8 or empty."""
    where = f"{tree.name}: {name}"
    if name not in tree.sizes:
        raise DataError(f"{tree.name} has no file {name}")
    try:
        lines = []
        for line in tree.read(name).decode("utf-8-sig").splitlines():
            if line.strip():
                lines.append(line.strip())
    except UnicodeDecodeError:
        raise DataError(f"{where} is no text in UTF-8") from None
    if not lines:
        raise DataError(f"{where} is empty")
    return lines


def counted_lines(tree: Tree, name: str) -> tuple[list[str], list[str]]:
    """A list that begins with the number of its rows and a line of names, as CelebA and DeepFashion
    have them: names, and rows.

    Raises `DataError` for what is no such list, or has another number of rows than it says.
    """
    lines = lines_of(tree, name)
    if len(lines) < 3 or not (lines[0].isascii() and lines[0].isdigit()):
        raise DataError(
            f"{tree.name}: {name} should begin with a line that has the number of its rows, and a"
            " line of names"
        )
    if int(lines[0]) != len(lines) - 2:
        problem = (
            f"{tree.name}: {name} says that it has {int(lines[0]):,} rows, and has"
            f" {len(lines) - 2:,}: it is cut short"
        )
        raise DataError(problem)
    return lines[1].split(), lines[2:]


def in_order(values: Iterable[str]) -> list[str]:
    """Names of values, each once: in numeric order where all are whole numbers, else sorted as
    text."""
    distinct = sorted(set(values))
    if all(value.isascii() and value.isdigit() for value in distinct):
        distinct.sort(key=lambda value: (int(value), value))
    return distinct


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.casefold() in LEFTOVERS


def _check_link(path: str, top: str, file_name: str, called: str, is_folder: bool) -> None:
    real = os.path.realpath(path)
    if real != top and not real.startswith(top + os.sep):
        raise DataError(f"{called}: the link {file_name!r} leads out of the folder")
    if is_folder:
        raise DataError(
            f"{called}: {file_name!r} is a link to a folder, which would show its files twice"
        )
