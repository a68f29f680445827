"""A prepared copy as a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crosswind.core.errors import DataError
from crosswind.data.dataset import AttributedDataset

if TYPE_CHECKING:
    from crosswind.data.sources.base import PreparedSource

__all__ = ["open_copy"]


def open_copy(source: PreparedSource) -> AttributedDataset:
    """The prepared copy of a source with its settings. Raises `DataError` where there is none."""
    raise DataError(f"{type(source).__name__} is not prepared")
