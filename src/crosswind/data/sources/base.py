"""What a source of data is: a frozen set of knobs that loads an `AttributedDataset`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from crosswind.core.cards import Card, Original
from crosswind.core.errors import InputError
from crosswind.core.knobs import knob, knobs_of, resolve
from crosswind.core.registry import facts, load
from crosswind.data.dataset import AttributedDataset

__all__ = ["PreparedSource", "Reading", "Source", "open_source"]


@dataclass(frozen=True)
class Source(ABC):
    """A place that data come from. Its fields are knobs, checked when it is made; `load` reads what planning needs.

    `load` gives the attribute table and reads or draws no pixel: that happens when `images` of the data set is called.
    Subclasses import nothing heavy at the top of their files.
    """

    def __post_init__(self) -> None:
        name = getattr(type(self), "registered_name", type(self).__name__)
        knobs = knobs_of(type(self))
        values = {item.name: getattr(self, item.name) for item in knobs}
        for key, value in resolve(knobs, values, name, f"source {name!r}").items():
            object.__setattr__(self, key, value)

    @abstractmethod
    def load(self) -> AttributedDataset:
        """The data set. Raises `InputError` for settings that do not fit, `DataError` for files that cannot be used."""


@dataclass(frozen=True)
class Reading:
    """What a source reads from its original files.

    `dataset`: the rows of all parts; its `images` decode and resize the rows asked for and may be called by several threads at
    once. `parts`: part -> rows found, in the words of the card's totals.
    """

    dataset: AttributedDataset
    parts: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class PreparedSource(Source):
    """A source whose original files are read once, by `crosswind prepare`, and from then on as a prepared copy.

    A subclass declares its `card` and says how the originals are read; all the rest, the total's check, the copy and its
    pixels, is the same for all. Knobs other than `root` are part of what is prepared, except those in `after`.
    """

    root: str | None = knob(
        None,
        doc="folder of prepared data; by default that of CROSSWIND_DATA, else ~/.cache/crosswind/data; "
        "for files of your own none, which are then read as they are",
    )

    card: ClassVar[Card]
    after: ClassVar[tuple[str, ...]] = ()
    """Knobs that `finish` uses and `read` does not: all their values share one prepared copy."""
    copy: ClassVar[str] = ""
    """The name of the prepared copy, where it is not that of the source: two sources over the same files share it."""
    own: ClassVar[tuple[str, ...]] = ()
    """Knobs that name files of the user's own. A source with such knobs has no originals; it reads those files as they are where
    no `root` is given, and the copy that was prepared from them where one is."""

    def originals(self) -> tuple[Original, ...]:
        """The original files that these settings need."""
        return self.card.files

    def totals(self) -> Mapping[str, int]:
        """The rows of each part as published, with these settings; empty where they are not known."""
        return self.card.totals

    def places(self, folder: Path) -> tuple[Path, ...]:
        """The files and folders that `read` reads: a preparation that was cut short goes on only where none of them changed."""
        if self.own:
            return tuple(Path(str(getattr(self, name))).expanduser() for name in self.own)
        names = tuple(folder / item.name for item in self.originals())
        return names if names and all(place.exists() for place in names) else (folder,)

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """The originals that are not in `folder`; a source that takes its files in other forms too says so here."""
        return tuple(item for item in self.originals() if not (folder / item.name).exists())

    @abstractmethod
    def read(self, folder: Path) -> Reading:
        """The data set in the original files of `folder`, or in the user's own. Reads no pixel before `images` is called.

        Raises `DataError` in one sentence for a file that is missing, truncated, corrupted or not what its name says.
        """

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """What these settings make of the prepared copy, such as colours; by default the copy itself."""
        return dataset

    def load(self) -> AttributedDataset:
        """The data set of the prepared copy, or of own files. Raises `DataError` for what is not there or cannot be used."""
        if self.own and self.root is None:
            return self.finish(self.read(Path()).dataset)
        from crosswind.data.prepared import open_copy

        return self.finish(open_copy(self))


def open_source(name: str, settings: Mapping[str, Any] | None = None, field: str = "data") -> AttributedDataset:
    """The data set of a registered source with its settings; errors of name and settings name `field`."""
    known = facts("sources", name, f"{field}.source")
    values = resolve(known.knobs, settings or {}, field, f"source {name!r}")
    kind = load("sources", name)
    try:
        source = kind(**values)
        assert isinstance(source, Source)
        return source.load()
    except InputError as error:
        # A source names its settings by its own name; the user knows them by the place where they were written.
        if error.field != name and not error.field.startswith(f"{name}."):
            raise
        raise InputError(field + error.field.removeprefix(name), error.problem, error.choices) from None
