"""A source's original files as a prepared copy needs them, and the rows that are read of them.

Copies know a source by this alone, and the base class of sources opens copies: so neither of the two
files needs the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from crosswind.core.cards import Card, Original
    from crosswind.data.dataset import AttributedDataset


@dataclass(frozen=True)
class Reading:
    """The rows that a source reads from its original files.

    `dataset`: the rows of all parts; its `images` decode and resize the rows asked for and may be
    called by several threads at once. `parts`: part -> its number of rows, in the words of the
    card's totals.
    """

    dataset: AttributedDataset
    parts: Mapping[str, int]


class OriginalFiles(Protocol):
    """A source whose original files are read once; see `PreparedSource`, which says what each of
    these is."""

    card: ClassVar[Card]
    after: ClassVar[tuple[str, ...]]
    copy: ClassVar[str]
    own: ClassVar[tuple[str, ...]]

    @property
    def root(self) -> str | None:
        """The folder of prepared data; None for the default."""

    def originals(self) -> tuple[Original, ...]:
        """See `PreparedSource.originals`."""

    def totals(self) -> Mapping[str, int]:
        """See `PreparedSource.totals`."""

    def places(self, folder: Path) -> tuple[Path, ...]:
        """See `PreparedSource.places`."""

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """See `PreparedSource.missing`."""

    def read(self, folder: Path) -> Reading:
        """See `PreparedSource.read`."""
