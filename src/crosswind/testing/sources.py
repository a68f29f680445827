"""The checks of sources of data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import CrosswindError, DataError
from crosswind.core.knobs import knobs_of
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import Source
from crosswind.testing.checks import Check, declaration_checks, require, run_checks

__all__ = ["check_source", "source_checks"]

ROWS = 24
"""How many inputs are looked at: the first, the last and some between."""


def source_checks(cls: type[Source], *, knobs: Mapping[str, Any] | None = None) -> list[Check]:
    """The checks of a source, each to be called, as by `pytest.mark.parametrize`.

    `knobs`: the settings that it cannot do without, such as the path of a small file, and `root`
    where it opens a prepared copy. At most 24 inputs are read at once.
    """
    subject = _SourceUnderTest(cls, dict(knobs or {}))
    looks: dict[str, Callable[[], None]] = {
        "loads-a-table-of-attributes": subject.loads_table,
        "codes-are-whole-numbers-of-named-values": subject.codes_are_whole_numbers,
        "inputs-are-as-they-are-declared": subject.inputs_are_as_declared,
        "an-input-depends-on-its-row-alone": subject.input_depends_on_row,
        "inputs-may-be-written-into": subject.inputs_may_be_written,
        "inputs-are-read-by-several-threads": subject.threads_read_alike,
        "loading-again-gives-the-same": subject.loading_repeats,
        "other-rows-have-another-fingerprint": subject.seed_changes_fingerprint,
        "a-wrong-setting-is-refused": subject.wrong_setting_is_refused,
    }
    return [
        *declaration_checks(cls, ("source",), Source),
        *(Check(name, subject.name, look) for name, look in looks.items()),
    ]


def check_source(
    cls: type[Source],
    *,
    skip: Mapping[str, str] | None = None,
    knobs: Mapping[str, Any] | None = None,
) -> None:
    """Check that a source holds the contract of `crosswind.data.sources.base`.

    `skip`: check -> why it cannot hold. `knobs`: see `source_checks`. Raises `CheckFailed` with a
    line for each check that does not hold.
    """
    run_checks(source_checks(cls, knobs=knobs), skip)


@dataclass(frozen=True)
class _SourceUnderTest:
    cls: type[Source]
    knobs: dict[str, Any]

    @property
    def name(self) -> str:
        return getattr(self.cls, "__name__", str(self.cls))

    def loaded(self, **changes: Any) -> AttributedDataset:
        dataset = self.cls(**{**self.knobs, **changes}).load()
        require(
            isinstance(dataset, AttributedDataset),
            f"its load gives {type(dataset).__name__}",
            "give a crosswind.data.dataset.AttributedDataset",
        )
        return dataset

    def rows_of(self, dataset: AttributedDataset) -> NDArray[np.int64]:
        n = dataset.n_base
        return np.unique(np.linspace(0, n - 1, min(n, ROWS)).astype(np.int64))

    # -- the checks --------------------------------------------------------------------------------

    def loads_table(self) -> None:
        dataset = self.loaded()
        require(dataset.n_base > 0, "its data set has no rows", "refuse that in a DataError")
        require(
            dataset.table.attributes,
            "its table has no attributes",
            "give at least the label as an Attribute",
        )

    def codes_are_whole_numbers(self) -> None:
        """The table makes any integers unsigned and refuses codes of no value; other types, which
        would be cut to whole numbers, never reach it."""
        try:
            dataset = self.loaded()
        except (DataError, TypeError, ValueError) as error:
            require(
                False,
                f"its table is refused: {error}",
                "give codes as integers [attributes, rows], each the place of a value",
            )
        for attribute in dataset.table.attributes:
            codes = dataset.table.column(attribute.name)
            require(
                codes.dtype.kind == "u" and int(codes.max()) < len(attribute),
                f"its codes of {attribute.name!r} are {codes.dtype} up to {codes.max()}",
                f"give the places of its {len(attribute)} values as integers",
            )

    def inputs_are_as_declared(self) -> None:
        dataset = self.loaded()
        if dataset.input is None:
            return
        rows = self.rows_of(dataset)
        try:
            inputs = dataset.inputs(rows)
            empty = dataset.inputs(rows[:0])
        except CrosswindError as error:
            require(
                False,
                f"its inputs are refused: {error}",
                f"give {dataset.input.dtype} of {('rows', *dataset.input.row_shape)} for any rows,"
                " also for none",
            )
        require(len(empty) == 0, "it gives inputs for no rows", "give an array of length 0")
        if dataset.input.kind == "features":
            require(
                np.isfinite(inputs).all(),
                "a number of its features is not finite",
                "fill or refuse missing numbers when the data are loaded",
            )
        if dataset.input.kind == "tokens":
            require(
                inputs.min() >= 0 and inputs.max() < dataset.input.vocabulary,
                "a token lies outside its vocabulary",
                "give tokens in [0, vocabulary)",
            )
        if dataset.input.kind == "text":
            require(
                all(isinstance(text, str) for text in inputs),
                "a text is no string",
                "give an object array of str",
            )

    def input_depends_on_row(self) -> None:
        dataset = self.loaded()
        if dataset.input is None:
            return
        rows = self.rows_of(dataset)
        together, turned = dataset.inputs(rows), dataset.inputs(rows[::-1])[::-1]
        alone = dataset.inputs(rows[-1:])
        require(
            _equal(together, turned) and _equal(together[-1:], alone),
            "it gives a row another input among other rows than alone",
            "draw by row, as np.random.default_rng([seed, row])",
        )

    def inputs_may_be_written(self) -> None:
        dataset = self.loaded()
        if dataset.input is None or dataset.input.dtype == object:
            return
        rows = self.rows_of(dataset)
        inputs = dataset.inputs(rows)
        before = inputs.copy()
        if inputs.flags.writeable:
            inputs[:] = 0
        require(
            _equal(dataset.inputs(rows), before),
            "what is written into its inputs is there when they are read again",
            "give a copy, as array[rows] with an array of rows does",
        )

    def threads_read_alike(self) -> None:
        dataset = self.loaded()
        if dataset.input is None:
            return
        rows = self.rows_of(dataset)
        expected = dataset.inputs(rows)
        with ThreadPoolExecutor(4) as pool:
            inputs = list(pool.map(lambda _: dataset.inputs(rows), range(8)))
        require(
            all(_equal(array, expected) for array in inputs),
            "threads that read at once get other inputs",
            "keep no place in a file or buffer between calls",
        )

    def loading_repeats(self) -> None:
        first, second = self.loaded(), self.loaded()
        require(
            first.table.digest() == second.table.digest()
            and np.array_equal(first.ids, second.ids)
            and first.fingerprint == second.fingerprint,
            "loading it twice gives another table, other ids or another fingerprint",
            "draw with a seed that is a knob, and sort the names of files",
        )
        if first.input is not None:
            rows = self.rows_of(first)
            require(
                _equal(first.inputs(rows), second.inputs(rows)),
                "loading it twice gives other inputs",
                "draw with a seed that is a knob",
            )

    def seed_changes_fingerprint(self) -> None:
        seed = next((knob for knob in knobs_of(self.cls) if knob.name == "seed"), None)
        if seed is None or not isinstance(seed.default, int):
            return
        first, second = self.loaded(seed=seed.default), self.loaded(seed=seed.default + 1)
        rows = self.rows_of(first)
        alike = first.table.digest() == second.table.digest() and (
            first.input is None
            or len(first.ids) == len(second.ids)
            and _equal(first.inputs(rows), second.inputs(rows))
        )
        require(
            alike or first.fingerprint != second.fingerprint,
            "other rows of another seed have the same fingerprint, so that their runs would be"
            " taken for those of before",
            "put every knob that changes rows or inputs into fingerprint",
        )

    def wrong_setting_is_refused(self) -> None:
        """`Source` checks knobs when it is made; a subclass that overrides `__post_init__` may lose
        that."""
        for knob in knobs_of(self.cls):
            if not knob.domain.startswith(("[", "(")):
                continue
            try:
                self.cls(**{**self.knobs, knob.name: "no number"})
            except CrosswindError:
                continue
            require(
                False,
                f"it takes {knob.name}='no number'",
                "call super().__post_init__() first in __post_init__",
            )


def _equal(left: NDArray[Any], right: NDArray[Any]) -> bool:
    if left.dtype != object:
        return np.array_equal(left, right)
    return len(left) == len(right) and all(
        _equal_rows(one_row, row) for one_row, row in zip(left, right, strict=True)
    )


def _equal_rows(left: Any, right: Any) -> bool:
    if isinstance(left, tuple):  # an image and a text
        return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)
