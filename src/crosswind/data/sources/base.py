"""The base of sources of data, frozen sets of knobs that load an `AttributedDataset`, and what the
readers of files share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import Card, Original
from crosswind.core.errors import DataError, InputError, shown, unknown
from crosswind.core.knobs import knob, knobs_of, resolve
from crosswind.core.registry import facts, load
from crosswind.core.types import InputSpec, digest
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.contents import FileContents
from crosswind.data.dataset import AttributedDataset
from crosswind.data.prepared.originals import Reading as Reading
from crosswind.data.resizing import in_channels, of_parts

Piece = tuple[NDArray[np.integer[Any]], Callable[[], NDArray[np.uint8]]]
"""The labels [n] of some pictures, and what gives the pictures, uint8 [n, h, w, c], when one of
them is first needed."""


@dataclass(frozen=True)
class Source(ABC):
    """A place that data come from. Its fields are knobs, checked when it is made; `load` reads what
    planning needs.

    `load` gives the attribute table and reads or draws no pixel: that happens when `images` of the
    data set is called. Subclasses import nothing heavy at the top of their files.
    """

    def __post_init__(self) -> None:
        name = getattr(type(self), "registered_name", type(self).__name__)
        knobs = knobs_of(type(self))
        values = {declared.name: getattr(self, declared.name) for declared in knobs}
        for key, value in resolve(knobs, values, name, f"source {name!r}").items():
            object.__setattr__(self, key, value)

    @abstractmethod
    def load(self) -> AttributedDataset:
        """The data set. Raises `InputError` for settings that do not fit, `DataError` for files
        that cannot be used."""


@dataclass(frozen=True, kw_only=True)
class PreparedSource(Source):
    """A source whose original files are read once, by `crosswind prepare`, and from then on as a
    prepared copy.

    A subclass declares its `card` and says how the originals are read; all the rest, the total's
    check, the copy and its pixels, is the same for all. Knobs other than `root` are part of what is
    prepared, except those in `after`.
    """

    root: str | None = knob(
        None,
        doc=(
            "folder of prepared data; by default that of CROSSWIND_DATA, else"
            " ~/.cache/crosswind/data; for files of your own none, which are then read as they are"
        ),
    )

    card: ClassVar[Card]
    after: ClassVar[tuple[str, ...]] = ()
    """Knobs that `finish` uses and `read` does not: all their values share one prepared copy."""
    copy: ClassVar[str] = ""
    """The name of the prepared copy, where it is not that of the source: two sources over the same
    files share it."""
    own: ClassVar[tuple[str, ...]] = ()
    """Knobs that name files of the user's own. A source with such knobs has no originals; it reads
    those files as they are where no `root` is given, and the copy that was prepared from them where
    one is."""
    instead: ClassVar[tuple[str, ...]] = ()
    """Files and folders in the folder of originals: where one of them is there, no original is
    needed."""

    def variants(self) -> tuple[str, ...]:
        """Which variants of the card's files these settings need, beside those of none."""
        return ()

    def originals(self) -> tuple[Original, ...]:
        """The original files that these settings need."""
        return tuple(file for file in self.card.files if file.variant in ("", *self.variants()))

    def totals(self) -> Mapping[str, int]:
        """The rows of each part as published, with these settings; empty where they are not known.

        Left out are parts whose name begins with a variant that is not asked for.
        """
        left_out = {file.variant for file in self.card.files}.difference(self.variants())
        totals = {}
        for part_name, rows in self.card.totals.items():
            if part_name.split()[0] not in left_out:
                totals[part_name] = rows
        return totals

    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes of the card, all of which have their values or the number of them
        there."""
        card_attributes = self.card.attributes.items()
        return tuple(
            Attribute(
                name,
                tuple(map(str, range(card_values)))
                if isinstance(card_values, int)
                else card_values,
            )
            for name, card_values in card_attributes
        )

    def places(self, folder: Path) -> tuple[Path, ...]:
        """The files and folders that `read` reads: a preparation that was cut short goes on only
        where none of them changed."""
        if self.own:
            return tuple(Path(str(getattr(self, name))).expanduser() for name in self.own)
        paths = [_form(folder, original.name) for original in self.originals()]
        if paths and None not in paths:
            return tuple(path for path in paths if path is not None)
        return (folder,)

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """The originals that are in `folder` neither as they are nor unpacked; none where other
        files serve `instead`."""
        if any((folder / name).exists() for name in self.instead):
            return ()
        return tuple(
            original for original in self.originals() if _form(folder, original.name) is None
        )

    @abstractmethod
    def read(self, folder: Path) -> Reading:
        """The data set in the original files of `folder`, or in the user's own. Reads no pixel
        before `images` is called.

        Raises `DataError` in one sentence for a file that is missing, truncated, corrupted or not
        what its name says.
        """

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The data set that these settings make of the prepared copy, such as colours; by default
        the copy itself."""
        return dataset

    def load(self) -> AttributedDataset:
        """The data set of the prepared copy, or of own files. Raises `DataError` for what is not
        there or cannot be used."""
        if self.own and self.root is None:
            from crosswind.data.decoded_files import with_decoded_files

            return self.finish(with_decoded_files(self.read(Path()).dataset))
        from crosswind.data.prepared import open_copy

        # A copy of a user's own files has the values that they have, and nobody has said yet which
        # of them are one.
        if self.own:
            dataset = replace(open_copy(self), distinct=frozenset())
        else:
            dataset = open_copy(self)
        return self.finish(dataset)

    def trusted(self, path: Path, reader: Callable[[Path], object]) -> Path:
        """`path`, if its hash is the published one; else a child process reads it first. Raises
        `DataError` where that fails."""
        from crosswind.data.archives.checks import expect_kind, tried
        from crosswind.data.archives.fetch import verified

        expect_kind(path, ("", "gzip", "bzip2", "xz", "tar", "hdf5"), "what its name says")
        if not any(
            verified(original, path) for original in self.originals() if original.name == path.name
        ):
            tried(reader, path)
        return path


class PicturesInChannels(PreparedSource):
    """A prepared source with a knob `channels`, 1 or 3, that the prepared copy does not depend
    on: `after` names it."""

    after = ("channels",)

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy in as many channels as asked for."""
        return in_channels(dataset, self.channels)  # type: ignore[attr-defined]


def original_file(folder: Path, name: str) -> Path:
    """The file of an original in `folder`, as it is, packed (.gz, .bz2) or unpacked. Raises
    `DataError` where there is none."""
    file_path = _form(folder, name)
    if file_path is None:
        raise DataError(f"there is no file {name} in {folder}, packed or unpacked")
    return file_path


def _form(folder: Path, name: str) -> Path | None:
    stem = name.removesuffix(".gz").removesuffix(".bz2")
    forms = [folder / name, *(folder / f"{stem}{ending}" for ending in ("", ".gz", ".bz2"))]
    return next((path for path in forms if path.exists()), None)


def checked_labels(
    labels: NDArray[Any], location: Path | str, rows: int, first: int = 0, last: int = 9
) -> NDArray[np.int64]:
    """The labels int64 [n]. Raises `DataError`, naming the place, for other than one a picture and
    for one that is no label."""
    if len(labels) != rows:
        problem = f"{location} holds {len(labels):,} labels for {rows:,} pictures"
        raise DataError(problem)
    known_values = range(first, last + 1)
    check_known(labels, known_values, f"{location}: label")
    return labels.astype(np.int64)


def check_known(
    values: NDArray[Any],
    known_values: Sequence[float],
    value_words: str,
    meant: Sequence[float] | None = None,
) -> None:
    """Raises `DataError` for the first of the values [n] that is none of those known, which the
    sentence gives as those `meant`."""
    off = np.flatnonzero(~np.isin(values, known_values))
    if off.size:
        words = ", ".join(f"{value:g}" for value in meant or known_values)
        problem = (
            f"{value_words} is {values[off[0]]:g} in row {off[0] + 1:,}, which is none of {words}"
        )
        raise DataError(problem)


def in_parts(
    name: str, label: Attribute, parts: Mapping[str, Sequence[Piece]], size: int, channels: int = 3
) -> Reading:
    """Parts one after the other, resized to `size`: attributes `label`, and `split` where there is
    more than one part.

    `parts`: name -> pieces; pictures of all pieces have one shape.
    """
    counts = {
        part_name: sum(len(labels) for labels, _ in pieces) for part_name, pieces in parts.items()
    }
    pieces = [piece for part_name in parts.values() for piece in part_name]
    attributes = [label]
    codes = [np.concatenate([labels for labels, _ in pieces])]
    if len(parts) > 1:  # a study tests on all rows of a target without a column of parts
        attributes.append(Attribute("split", tuple(parts)))
        codes.append(np.repeat(np.arange(len(parts)), list(counts.values())))
    images = of_parts(
        [pictures for _, pictures in pieces], [len(labels) for labels, _ in pieces], size
    )
    table = AttributeTable(tuple(attributes), np.stack(codes))
    dataset = AttributedDataset(name, table, images, InputSpec.image(size, size, channels))
    return Reading(dataset, counts)


def from_files(
    name: str,
    table: AttributeTable,
    opened: Callable[[int], Path | bytes],
    named: Callable[[int], str],
    size: int,
    sizes: NDArray[np.int64],
    **options: Any,
) -> AttributedDataset:
    """The data set whose row i is the image in the file or bytes `opened(i)`, which errors call
    `named(i)`, at `size` x `size`.

    `sizes`: bytes of each file, int64 [n], by which equal ones are found. `options`: fields of
    `AttributedDataset`; `told`: what the fingerprint is made of beside the table and the size;
    `border`: pixels that are cut off at each side.
    """
    from crosswind.data.decoding import decoder

    fingerprint = digest({"table": table.digest(), "size": size, **options.pop("told")})
    border = options.pop("border", 0)
    images = decoder(opened, size, named, border)
    spec = InputSpec.image(size, size, 3)
    files = FileContents(sizes, opened, named, border)
    return AttributedDataset(
        name, table, images, spec, fingerprint=fingerprint, from_files=True, files=files, **options
    )


def positions(values: Iterable[Any], names: Sequence[str]) -> NDArray[np.int64]:
    """The place of each value among the names: int64 [n]."""
    code_of = {name: code for code, name in enumerate(names)}
    return np.array([code_of[value] for value in values], dtype=np.int64)


def names_chosen(
    setting: object, field: str, kind_word: str, known_names: Iterable[str] | None = None
) -> list[str]:
    """A setting that is a list of names, each once. Raises `InputError` for another value, and for
    a name that is not known."""
    choices = None if known_names is None else list(known_names)
    if (
        not isinstance(setting, list)
        or not setting
        or not all(isinstance(name, str) and name.strip() for name in setting)
    ):
        problem = f"must be a list of {kind_word}s, not {shown(setting)}"
        raise InputError(field, problem, choices)
    for position, name in enumerate(setting):
        if choices is not None and name not in choices:
            raise unknown(field, kind_word, name, choices)
        if name in setting[:position]:
            raise InputError(field, f"names {name!r} twice")
    return list(setting)


def open_source(
    name: str, settings: Mapping[str, Any] | None = None, field: str = "data"
) -> AttributedDataset:
    """The data set of a registered source with its settings; errors of name and settings name
    `field`."""
    source_facts = facts("sources", name, f"{field}.source")
    values = resolve(source_facts.knobs, settings or {}, field, f"source {name!r}")
    kind = load("sources", name)
    try:
        source = kind(**values)
        assert isinstance(source, Source)
        return source.load()
    except InputError as error:
        # A source names its settings by its own name; the user knows them by the place where they
        # were written.
        if error.field != name and not error.field.startswith(f"{name}."):
            raise
        raise InputError(
            field + error.field.removeprefix(name), error.problem, error.choices
        ) from None
