"""A request for estimates: a model, rows without labels, and how they are to be made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POOL_ROWS = 200
"""Labelled rows that are shown under every change of the pool, unless asked otherwise."""

NEAR_ROWS = 300
"""Rows whose neighbours are asked for, unless asked otherwise."""


def _silent(sentence: str) -> None:
    """Says nothing."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EstimateRequest:
    """A request to `crosswind.estimate`, whose keywords these are; the options of `crosswind
    estimate` are the same.

    Either `predictions` or `model` and `data`. Which values may stand together is checked where a
    request is answered.
    """

    model: Any = None
    data: Any = None
    source: Any = None
    beside: Sequence[str] = ()
    beside_classes: Sequence[Sequence[str]] = ()
    predictions: Any = None
    label: str | None = None
    images: str | Path | None = None
    text: str | Sequence[str] | None = None
    columns: Sequence[str] | None = None
    classes: Sequence[str] | None = None
    settings: Mapping[str, Any] | None = None
    estimators: Sequence[str] | Mapping[str, Mapping[str, Any]] | None = None
    size: int | None = None
    pool_rows: int = POOL_ROWS
    near_rows: int = NEAR_ROWS
    tell: Callable[[str], object] = _silent

    @property
    def image_folder(self) -> str | None:
        """The folder of the pictures of a table, as text."""
        return None if self.images is None else str(self.images)

    @property
    def text_columns(self) -> Sequence[str] | None:
        """The columns of texts of a table."""
        return [self.text] if isinstance(self.text, str) else self.text
