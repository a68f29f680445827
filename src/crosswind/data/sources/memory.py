"""Data sets that a program holds, as sources of its studies."""

from __future__ import annotations

from dataclasses import dataclass

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import Source

_HELD: dict[str, AttributedDataset] = {}


def hold(dataset: AttributedDataset) -> str:
    """Keep a data set for the studies of this program; the fingerprint by which the source finds
    it."""
    _HELD[dataset.fingerprint] = dataset
    return dataset.fingerprint


@register("memory", kind="source")
@dataclass(frozen=True)
class Memory(Source):
    """A data set in the memory of the running program, given to a study in Python as its `source`.

    Such as `{"source": cw.from_frame(frame, images), "label": "kind", "attributes": ["place"]}`.
    Another process does not have it: the study runs with `workers=0`, and pages that another
    program writes show no pictures of it.
    """

    fingerprint: str = knob(doc="what names the data set; put there by `run_study` and `plan`")

    card = card_of("memory")

    def load(self) -> AttributedDataset:
        """The data set. Raises `DataError` where this program does not hold it."""
        if self.fingerprint not in _HELD:
            raise DataError(
                "the data set is in the memory of the program that runs its study, and not in"
                " this one"
            )
        return _HELD[self.fingerprint]
