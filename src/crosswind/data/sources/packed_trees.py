"""Sources whose originals are archives of pictures, or the folders that these unpack to; and data
sets of the files in trees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import Original
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.types import digest, digest_arrays
from crosswind.data.attributes import AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import PreparedSource, from_files
from crosswind.data.trees import Tree, folder_tree, joined, tar_tree, zip_tree

File = tuple[Tree, str]
_PACKED = (".zip", ".tar", ".tar.gz")


@dataclass(frozen=True, kw_only=True)
class Packed(PreparedSource):
    """A prepared source of files in archives, which may lie unpacked in the folder of originals or
    below it.

    An archive counts where it is there; else the folder is searched, at any depth, for the names
    that the archive has. A subclass with a knob `unit` that is `none` has no units; its copy keeps
    them.
    """

    after = ("unit",)

    def place(self, folder: Path, name: str) -> Path | None:
        """Where an original lies: in the folder, or in a folder of it, as the site of CelebA has
        them."""
        if not folder.is_dir():
            return None
        folders = [
            folder,
            *sorted(
                entry_path
                for entry_path in folder.iterdir()
                if entry_path.is_dir() and not entry_path.name.startswith(".")
            ),
        ]
        for entry_path in folders:
            if (entry_path / name).is_file():
                return entry_path / name
        return None

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """Originals that are not there; for an archive a folder serves."""
        if any((folder / name).exists() for name in self.instead):
            return ()
        unpacked = folder.is_dir() and any(
            entry_path.is_dir() and not entry_path.name.startswith(".")
            for entry_path in folder.iterdir()
        )
        gone = (
            original for original in self.originals() if self.place(folder, original.name) is None
        )
        return tuple(
            original for original in gone if not (unpacked and original.name.endswith(_PACKED))
        )

    def places(self, folder: Path) -> tuple[Path, ...]:
        """The originals, or all of the folder where one of them is not there as it was
        published."""
        paths = [self.place(folder, original.name) for original in self.originals()]
        if paths and None not in paths:
            return tuple(path for path in paths if path is not None)
        return (folder,)

    def tree(self, folder: Path) -> Tree:
        """The files of the archives that are there, and those of the folder where one is not.
        Raises `DataError`."""
        from crosswind.data.archives.fetch import verified
        from crosswind.data.archives.members import walked

        trees = []
        all_packed = bool(self.originals())
        for original in self.originals():
            if not original.name.endswith(_PACKED):
                continue
            path = self.place(folder, original.name)
            all_packed = all_packed and path is not None
            if path is not None and original.name.endswith(".zip"):
                verified(original, path)
                trees.append(zip_tree(path))
            elif path is not None:
                trees.append(tar_tree(self.trusted(path, walked)))
        if not all_packed:
            trees.append(folder_tree(folder))
        if len(trees) == 1:
            return trees[0]
        return joined(trees, str(folder))

    def lists(self, folder: Path, tree: Tree, names: Iterable[str]) -> dict[str, File]:
        """Each of the lists by its name, in the folder, else in the tree. Raises `DataError` for
        one that is nowhere."""
        list_files: dict[str, File] = {}
        for name in names:
            path = self.place(folder, name)
            inside = [inner for inner in tree.sizes if inner == name or inner.endswith("/" + name)]
            if path is not None:
                list_files[name] = folder_tree(path.parent, only=[name]), name
            elif len(inside) == 1:
                list_files[name] = tree, inside[0]
            else:
                problem = (
                    f"{tree.name} has {'more than one' if inside else 'no'} file {name}"
                    f" ({self.card.get})"
                )
                raise DataError(problem)
        return list_files

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy, without its units where the knob `unit` is none."""
        if dataset.units is None or getattr(self, "unit", "") != "none":
            return dataset
        fingerprint = digest({"of": dataset.fingerprint, "units": None})
        return replace(dataset, units=None, fingerprint=fingerprint)


@dataclass(frozen=True, kw_only=True)
class PackedTrees(Packed):
    """A packed source of picture files."""

    size: int = knob(
        224, domain="[4, 1024]", doc="side of the pictures in pixels; proportions are not kept"
    )

    over: ClassVar[tuple[str, ...]] = ()
    """Folders that may lie above some of the pictures and not above others: those of several
    archives."""

    def pictures(self, tree: Tree, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        """The files that are pictures by their place: `pattern` has a group `before`, which is the
        same for all of them.

        Raises `DataError` where there are none, where they lie in two places, and for an empty one.
        """
        matches = [match for match in map(pattern.fullmatch, tree.sizes) if match]
        name = type(self).registered_name  # type: ignore[attr-defined]
        if not matches:
            raise DataError(f"{tree.name} holds no picture of {name} ({self.card.get})")
        above = None
        if self.over:
            above = re.compile(f"(?:{'|'.join(self.over)})/$")
        before = sorted(
            {above.sub("", match["before"]) if above else match["before"] for match in matches}
        )
        if len(before) > 1:
            problem = (
                f"{tree.name} holds pictures of {name} in two places: in {before[0] or '.'!r} and"
                f" in {before[1]!r}"
            )
            raise DataError(problem)
        if empty := next((match[0] for match in matches if not tree.sizes[match[0]]), None):
            raise DataError(f"{tree.name}: {empty!r} is empty")
        return matches

    def of_files(
        self,
        table: AttributeTable,
        tree: Tree,
        files: Sequence[str],
        units: NDArray[Any] | None = None,
        **options: Any,
    ) -> AttributedDataset:
        """The data set whose row i is the i-th of the files."""
        name = type(self).registered_name  # type: ignore[attr-defined]
        sizes = map(tree.sizes.__getitem__, files)
        units_digest = None if units is None else digest_arrays({"units": units})
        identity = {"source": name, "bytes": sizes_digest(sizes), "units": units_digest}
        return of_tree(
            name,
            table,
            [(tree, file) for file in files],
            self.size,
            identity,
            units=units,
            **options,
        )


def listed_files(tree: Tree, files: Iterable[str], where: str) -> list[str]:
    """Files that a list names, all of which the tree has. Raises `DataError` for the first that it
    has not, or that is empty."""
    file_names = list(files)
    for row, name in enumerate(file_names, 1):
        if not tree.sizes.get(name):
            problem = (
                f"{where}, row {row:,} names {name!r}, which {tree.name} does not hold, or which is"
                " empty"
            )
            raise DataError(problem)
    return file_names


def of_tree(
    name: str,
    table: AttributeTable,
    files: Sequence[File],
    size: int,
    told: Mapping[str, object],
    **options: Any,
) -> AttributedDataset:
    """The data set whose row i is the i-th of the files; `told` and `options` as for
    `from_files`."""

    def opened(row: int) -> Path | bytes:
        tree, file = files[row]
        return tree.opened(file)

    sizes = np.array([tree.sizes[file] for tree, file in files], dtype=np.int64)
    return from_files(
        name,
        table,
        opened,
        lambda row: f"{files[row][0].name}: {files[row][1]!r}",
        size,
        sizes,
        told=told,
        **options,
    )


def sizes_digest(sizes: Iterable[int], **other_arrays: NDArray[Any]) -> str:
    """A digest of the bytes of files, and of other arrays."""
    return digest_arrays({**other_arrays, "bytes": np.array(list(sizes))})
