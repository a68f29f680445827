"""Which attributes of somebody's table a study can shift, how strongly each goes with the label
there, and which values leave enough rows in every cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import counted
from crosswind.data.table_inputs import bin_names, numbers_of
from crosswind.proposals.columns import FEW_NUMBERS, MOST_EMPTY, TableColumn
from crosswind.proposals.label import Label
from crosswind.shifts.association import cramers_v
from crosswind.shifts.ties import Tie, tie_of_counts

if TYPE_CHECKING:
    from polars import DataFrame

LEAST: Final = 6
"""Rows of the smallest cell without which nothing can be tested, validated and trained."""
ENOUGH: Final = 30
"""Rows of the smallest of four cells for which values of an attribute, or classes, are left out."""
ENOUGH_OF_MANY: Final = 12
"""The same where cells are so many that they tell together what each tells little of."""
MOST_TEST: Final = 50
"""The most rows of a cell that test."""
MOST_ATTRIBUTES: Final = 3
STRONG: Final = 0.5
"""Cramér's V above which a tie is asked about however few rows break it."""
DEFAULT_STRENGTH: Final = 0.8
"""How strongly a study ties an attribute to the label where the rows do not."""
TIE_LEFT: Final = 0.5
"""The share of Cramér's V that the classes and values that are kept must have."""
WEAKEST, STRONGEST = 0.4, 0.95
"""The strengths between which a study ties an attribute as the rows do."""

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class ShiftDesign:
    """An attribute that a study can shift.

    `values` and `classes`: those that are kept, so that each cell has `smallest` rows or more of
    `n_rows` in all; `cuts`: numbers that part its numbers into classes. `tie`: how it goes with the
    label in the kept rows. `left_out`: values and classes that have too few rows.
    """

    attribute: str
    values: tuple[str, ...]
    classes: tuple[str, ...]
    smallest: int
    n_rows: int
    tie: Tie
    cuts: tuple[float, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def is_short(self) -> bool:
        """Whether the smallest cell has so few rows that only large costs can be told."""
        n_cells = len(self.values) * len(self.classes)
        return self.smallest < enough_rows(n_cells)

    @property
    def test(self) -> int:
        """Rows of each cell that test: a third of the smallest cell."""
        return max(1, min(MOST_TEST, self.smallest // 3))

    @property
    def strength(self) -> float:
        """The `strength` of a spurious correlation that ties the attribute as the rows do, 0 to 1;
        0 where they do not."""
        if not self.tie.matching:
            return 0.0
        in_class = [len(values) / len(self.values) for values in self.tie.matching.values()]
        by_chance = sum(in_class) / len(in_class)
        return max(0.0, (self.tie.matched_share - by_chance) / (1 - by_chance))


@dataclass(frozen=True)
class Attributes:
    """The columns of a table that can be attributes beside its label.

    `designs`: attributes that can be shifted, those of enough rows first, of them the one that goes
    most with the label.
    `tied_numbers`: numbers that a model reads and that would be attributes of a strong tie.
    `aliases`: columns that are the label under other names, or tell it entirely. `reasons`: why
    each other column is no attribute.
    """

    designs: tuple[ShiftDesign, ...]
    aliases: tuple[str, ...]
    reasons: tuple[str, ...]
    tied_numbers: tuple[ShiftDesign, ...] = ()


def attributes_of(
    rows: DataFrame,
    columns: Mapping[str, TableColumn],
    label: Label,
    taken: Sequence[str],
    columns_are_inputs: bool,
) -> Attributes:
    """The attributes of a table; `taken`: columns that are something else.

    Where the columns themselves are what a model reads, its numbers are what it should lean on.
    They are attributes only where no column of words, or of few numbers, is one.
    """
    class_codes = _codes(rows, label.name, label.classes, label.cuts)
    designs = []
    aliases = []
    reasons = []
    tied_numbers: list[ShiftDesign] = []
    for name, column in columns.items():
        if name == label.name or name in taken:
            continue
        values, cuts = _values_of(rows, column)
        if not values or column.n_empty > MOST_EMPTY * rows.height:
            reasons.append(column.why_unused(rows.height))
            continue
        counts = _table(
            class_codes, _codes(rows, name, values, cuts), len(label.classes), len(values)
        )
        if _tells_label(counts):
            aliases.append(name)
            continue
        design = _design(counts, name, values, cuts, label)
        design = replace(design, left_out=(*design.left_out, *column.no_values))
        if design.smallest < LEAST:
            reasons.append(_too_few(design, label))
        else:
            designs.append(design)
    if columns_are_inputs:
        words = [
            design
            for design in designs
            if not columns[design.attribute].numeric
            or columns[design.attribute].n_values <= FEW_NUMBERS
        ]
        if words:
            tied_numbers = [
                design for design in designs if design not in words and _is_strong(design)
            ]
        designs = words or designs
    designs.sort(key=_order)
    tied_numbers.sort(key=_order)
    reasons.sort(key=lambda reason: " goes with " not in reason)
    different, same = _without_repeated(rows, columns, designs)
    return Attributes(tuple(different), tuple(aliases), (*same, *reasons), tuple(tied_numbers))


def _without_repeated(
    rows: DataFrame, columns: Mapping[str, TableColumn], designs: Sequence[ShiftDesign]
) -> tuple[list[ShiftDesign], list[str]]:
    """The attributes without those that are an earlier one under other names, and a reason for each
    of these."""
    different: list[ShiftDesign] = []
    attribute_of: dict[bytes, str] = {}
    reasons = []
    # Columns of words first: their names say more than numbers do.
    for design in sorted(designs, key=lambda design: columns[design.attribute].numeric):
        codes = _codes(rows, design.attribute, design.values, design.cuts)
        first = attribute_of.setdefault(_parts(codes), design.attribute)
        if first == design.attribute:
            different.append(design)
        else:
            reasons.append(f"{design.attribute}: the same as {first}")
    return sorted(different, key=_order), reasons


def _parts(codes: NDArray[np.int64]) -> bytes:
    """How a column of codes parts the rows, whatever its codes are: equal for two that part them
    alike. Each of hundreds of columns is looked at once, not beside each other one."""
    _, first_rows, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return first_rows[inverse].astype(np.int64).tobytes()


def _too_few(design: ShiftDesign, label: Label) -> str:
    """Why an attribute cannot be shifted that has too few rows in a cell."""
    if not design.tie.matching:
        return (
            f"{design.attribute}: {counted(design.smallest, 'row')} in the smallest cell with {label.name!r},"
            f" fewer than {LEAST}"
        )
    return (
        f"{design.attribute} goes with {label.name!r} in {design.tie.matched_share:.0%} of the rows,"
        " and what that costs cannot be told: the smallest cell against the tie has only"
        f" {counted(design.smallest, 'row')}, fewer than {LEAST}"
    )


def chosen_designs(designs: Sequence[ShiftDesign]) -> tuple[ShiftDesign, ...]:
    """The attributes that a study shifts: those that the rows tie to the label, else the first that
    could be tied.

    Beside a tie of `WEAKEST` or more, weaker ones are left out. Each is tied as strongly as the
    rows tie it, and what hardly shifts anything would take its share of the runs.
    """
    tied = [design for design in designs if design.tie.matching]
    strong = [design for design in tied if design.strength >= WEAKEST]
    return tuple((strong or tied or designs)[:MOST_ATTRIBUTES])


def strengths_of(designs: Sequence[ShiftDesign]) -> tuple[dict[str, float], bool]:
    """The strength at which a study ties each of its attributes to the label, and whether it is
    that of the rows.

    Where no tie of the rows is strong, all are tied at `DEFAULT_STRENGTH`.
    """
    strengths = {design.attribute: round(min(design.strength, STRONGEST), 2) for design in designs}
    observed = max(strengths.values()) >= WEAKEST
    if not observed:
        strengths = dict.fromkeys(strengths, DEFAULT_STRENGTH)
    return strengths, observed


def _order(design: ShiftDesign) -> tuple[bool, bool, float]:
    """The order of attributes: a tie, enough rows, then V of those that are tied and rows of the
    others. A strong tie needs no more rows than any design: it is the one to ask about."""
    tied = bool(design.tie.matching)
    rank = -(design.tie.v.value if tied else design.smallest)
    return not tied, design.is_short and not _is_strong(design), rank


def _is_strong(design: ShiftDesign) -> bool:
    """Whether the rows tie an attribute to the label strongly."""
    return bool(design.tie.matching) and design.tie.v.value >= STRONG


def _values_of(rows: DataFrame, column: TableColumn) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The values of a column as an attribute, and the cuts that make them of numbers; none for a
    column that cannot be one."""
    if column.kind == "classes":
        return column.values, ()
    if column.kind != "numbers":
        return (), ()
    numbers = numbers_of(rows, column.name, "")
    cut = float(np.nanmedian(numbers))
    if not (numbers < cut).any():
        if (numbers > cut).any():
            cut = float(np.nanmin(numbers[numbers > cut]))
    cuts = (float(f"{cut:.4g}"),)
    return tuple(bin_names(cuts)), cuts


def _codes(
    rows: DataFrame, name: str, values: Sequence[str], cuts: Sequence[float]
) -> NDArray[np.int64]:
    """The place of each row's value among the values, -1 for another value and for none."""
    if cuts:
        numbers = numbers_of(rows, name, "")
        codes = np.searchsorted(np.array(cuts), numbers, side="right")
        return np.where(np.isnan(numbers), -1, codes).astype(np.int64)
    texts = rows.get_column(name).cast(str).str.strip_chars().to_list()
    code_of = {value: code for code, value in enumerate(values)}
    return np.array([code_of.get(text, -1) for text in texts], dtype=np.int64)


def _table(
    class_codes: NDArray[np.int64], value_codes: NDArray[np.int64], n_classes: int, n_values: int
) -> Counts:
    """Rows of each class and value, int64 [classes, values]."""
    in_table = (class_codes >= 0) & (value_codes >= 0)
    cells = class_codes[in_table] * n_values + value_codes[in_table]
    return np.bincount(cells, minlength=n_classes * n_values).reshape(n_classes, n_values)


def counts_of(rows: DataFrame, label: Label, design: ShiftDesign) -> Counts:
    """Rows of each kept class and value of a design, int64 [classes, values]."""
    class_codes = _codes(rows, label.name, design.classes, label.cuts)
    value_codes = _codes(rows, design.attribute, design.values, design.cuts)
    return _table(class_codes, value_codes, len(design.classes), len(design.values))


def rows_of_classes(rows: DataFrame, label: Label) -> Counts:
    """Rows of each class of a label, int64 [classes]."""
    codes = _codes(rows, label.name, label.classes, label.cuts)
    return np.bincount(codes[codes >= 0], minlength=len(label.classes)).astype(np.int64)


def derived_design(
    attribute: str, values: tuple[str, ...], label: Label, n_of_class: Counts
) -> ShiftDesign:
    """The design of an attribute that a transform makes, so that every row may have each value."""
    counts = np.repeat(n_of_class[:, None] // len(values), len(values), axis=1)
    tie = tie_of_counts(counts, label.name, attribute, label.classes, values)
    n_rows = int(n_of_class.sum())
    return ShiftDesign(attribute, values, label.classes, int(counts.min()), n_rows, tie)


def _tells_label(counts: Counts) -> bool:
    """Whether every value of a column stands in one class alone."""
    return bool(((counts > 0).sum(axis=0) <= 1).all())


def _design(
    counts: Counts,
    name: str,
    values: Sequence[str],
    cuts: Sequence[float],
    label: Label,
) -> ShiftDesign:
    kept_classes, kept_values = largest_design(counts)
    kept_counts = counts[np.ix_(kept_classes, kept_values)]
    classes = tuple(label.classes[code] for code in kept_classes)
    attribute_values = tuple(values[code] for code in kept_values)
    left_out = [value for value in values if value not in attribute_values]
    left_out += [name_of for name_of in label.classes if name_of not in classes]
    tie = tie_of_counts(kept_counts, label.name, name, classes, attribute_values)
    smallest = int(kept_counts.min())
    n_rows = int(kept_counts.sum())
    return ShiftDesign(
        name, attribute_values, classes, smallest, n_rows, tie, tuple(cuts), tuple(left_out)
    )


def enough_rows(n_cells: int) -> int:
    """The rows of the smallest of so many cells for which nothing is left out."""
    return max(math.ceil(4 * ENOUGH / n_cells), ENOUGH_OF_MANY)


def _is_short(counts: Counts, classes: list[int], values: list[int]) -> bool:
    """Whether the smallest cell of these classes and values has too few rows."""
    n_cells = len(classes) * len(values)
    return _smallest(counts, classes, values) < enough_rows(n_cells)


def largest_design(counts: Counts) -> tuple[list[int], list[int]]:
    """The classes and values that are kept of counts [classes, values]. They are all of them, or
    what is left when the one that has the emptiest cell goes, one after the other. That ends when
    each cell has `enough_rows`; where none has, the ones of which the smallest cell has most.

    A tie stays: classes that all go with one value have large cells, and nothing to ask about.
    """
    least_tie = TIE_LEFT * _strength_of(counts, range(counts.shape[0]), range(counts.shape[1]))
    classes = list(range(counts.shape[0]))
    values = list(range(counts.shape[1]))
    tried = [(list(classes), list(values))]
    while _is_short(counts, *tried[-1]) and (len(classes) > 2 or len(values) > 2):
        smaller = []
        for gone in classes:
            if len(classes) > 2:
                smaller.append(([code for code in classes if code != gone], list(values)))
        smaller += [
            (list(classes), [code for code in values if code != gone])
            for gone in values
            if len(values) > 2
        ]
        holding = [design for design in smaller if _strength_of(counts, *design) >= least_tie]
        if not holding:
            break
        classes, values = max(
            holding,
            key=lambda design: (_smallest(counts, *design), counts[np.ix_(*design)].sum()),
        )
        tried.append((classes, values))
    smallest = [_smallest(counts, *design) for design in tried]
    if _is_short(counts, *tried[-1]):
        return tried[int(np.argmax(smallest))]
    return tried[-1]


def _strength_of(counts: Counts, classes: Sequence[int], values: Sequence[int]) -> float:
    """How strongly some values go with some classes: Cramér's V."""
    return float(cramers_v(counts[np.ix_(list(classes), list(values))].astype(np.float64)))


def _smallest(counts: Counts, classes: Sequence[int], values: Sequence[int]) -> int:
    return int(counts[np.ix_(list(classes), list(values))].min())
