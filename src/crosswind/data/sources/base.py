"""What a source of data is: a frozen set of knobs that loads an `AttributedDataset`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crosswind.core.errors import InputError
from crosswind.core.knobs import knobs_of, resolve
from crosswind.core.registry import facts, load
from crosswind.data.dataset import AttributedDataset

__all__ = ["Source", "open_source"]


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


def open_source(name: str, settings: Mapping[str, Any] | None = None, field: str = "data") -> AttributedDataset:
    """The data set of a registered source with its settings; errors of name and settings name `field`."""
    known = facts("sources", name, f"{field}.source")
    values = resolve(known.knobs, settings or {}, field, f"source {name!r}")
    source = load("sources", name)(**values)
    assert isinstance(source, Source)
    try:
        return source.load()
    except InputError as error:
        # A source names its settings by its own name; the user knows them by the place where they were written.
        if error.field != name and not error.field.startswith(f"{name}."):
            raise
        raise InputError(field + error.field.removeprefix(name), error.problem, error.choices) from None
