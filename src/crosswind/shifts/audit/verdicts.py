"""The audit of two tables: from measures and attributions to verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, shown
from crosswind.core.seeds import stream
from crosswind.shifts.association import (
    Interval,
    cramers_v,
    homogeneity,
    ratio_intervals,
    share_interval,
    v_interval,
    variation_interval,
)
from crosswind.shifts.audit import messages
from crosswind.shifts.audit.attribution import AttributePart, Explanation, explain
from crosswind.shifts.audit.contingency import Column, Pooled, Unseen, find_unseen, pooled
from crosswind.shifts.audit.findings import (
    KINDS,
    LEAST,
    LEVEL,
    SIZES,
    AttributeAudit,
    Audit,
    Value,
    Verdict,
)
from crosswind.shifts.audit.tables import frame_in_memory, read_tables, split_tables
from crosswind.shifts.split import Split

SC, LDD, UDS, LABEL = KINDS
_PART_COLUMNS = ("split", "part", "partition", "fold", "subset", "set")
"""Usual names of a column that says which of several sets a row is of."""
FEW_ROWS = 20
"""Rows of a table below which nobody is told that there is no shift."""

Counts = NDArray[np.float64]


def audit(  # noqa: PLR0913 - settings by name
    train: Any,
    target: Any,
    label: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    names: Sequence[str] = (),
    seed: int = 0,
    header: Sequence[str] | None = None,
    same: Sequence[str] = (),
    distinct: Sequence[str] = (),
) -> Audit:
    """Which shifts lie between a training table and a target table, or between the sets of a split;
    see `crosswind.audit`."""
    for name, option in (
        ("columns", columns),
        ("names", names),
        ("header", header),
        ("same", same),
        ("distinct", distinct),
    ):
        if isinstance(option, str):
            raise InputError(name, f"must be a list of columns, not {option!r}")
    if isinstance(train, Split):
        target = "test" if target is None else target
        if not isinstance(target, str):
            set_names = [*train.validation, *train.evaluation]
            raise InputError("target", "must name a set of the split", set_names)
        for name, option in (
            ("names", names),
            ("header", header),
            ("same", same),
            ("distinct", distinct),
        ):
            if option:
                problem = "is of two tables, and a split has its classes already; leave it out"
                raise InputError(name, problem)
        tables = split_tables(train, target, columns, seed)
        if label is not None and label != tables.label:
            raise InputError("label", f"the split's label is {tables.label!r}, not {label!r}")
    else:
        if not isinstance(label, str):
            raise InputError("label", "names the column of the label, and is missing")
        if target is None:
            raise _no_target(train, header)
        tables = read_tables(train, target, label, columns, names, header, same, distinct)
    audits, notes = judge(tables.columns, tables.labelled, seed)
    label_column = tables.columns[0]
    attributes = tuple(audits[1:])
    n_train_rows = len(label_column.train)
    n_target_rows = len(label_column.target)
    return Audit(
        tables.label,
        n_train_rows,
        n_target_rows,
        audits[0] if tables.labelled else None,
        attributes,
        tables.skipped,
        (*tables.notes, *notes),
    )


def _no_target(train: Any, header: Sequence[str] | None) -> InputError:
    """The error for a table without another to compare with: of one that has a column of parts, how
    they are handed over."""
    problem = "is needed: the second table, of the rows that a model is for"
    frame = frame_in_memory(train, header)
    for name in frame.columns:
        if name.lower() not in _PART_COLUMNS:
            continue
        values = [str(value) for value in frame[name].drop_nulls().unique(maintain_order=True)]
        if len(values) > 1:
            listed = ", ".join(map(shown, values[:4]))
            problem += (
                f"; {name!r} of the training table has {listed}: hand over the rows of one as train"
                " and those of another as target"
            )
            break
    return InputError("target", problem)


def judge(
    columns: Sequence[Column], labelled: bool = True, seed: int = 0
) -> tuple[list[AttributeAudit], list[str]]:
    """The audits of all columns, and notes in messages. The first column is the label; constant
    where the target has none."""
    case = _Case(columns, labelled, seed)
    audits = [_Judge(case, number).audit() for number in range(len(columns))]
    if case.pool is None:
        notes = []
    else:
        notes = list(case.pool.notes)
    return audits, notes


@dataclass(eq=False)
class _Case:
    """The state that the verdicts on all columns share."""

    columns: Sequence[Column]
    labelled: bool
    seed: int
    unseen: list[Unseen] = field(init=False)
    pool: Pooled | None = field(init=False)
    explanation: Explanation | None = field(init=False)
    log_p: dict[tuple[int, str], float] = field(init=False)

    def __post_init__(self) -> None:
        self.unseen = find_unseen(self.columns, LEVEL)
        self.pool = pooled(self.columns, self.unseen, stream(self.seed, "audit pool"))
        self.explanation = None
        if self.pool is not None:
            unseen_of_axes = [self.unseen[number] for number in self.pool.places]
            gaps = frozenset(axis for axis, unseen in enumerate(unseen_of_axes) if unseen.codes)
            least_v = LEAST[SC]
            least_tv = LEAST[LDD]
            self.explanation = explain(self.pool.pool, LEVEL, least_v, least_tv, gaps)
        self.log_p = self._adjusted()

    def part(self, number: int) -> AttributePart | None:
        """The explanation of one column; None where it is not in the pool or has one value
        there."""
        if self.pool is None or self.explanation is None or number not in self.pool.places:
            return None
        return self.explanation.parts.get(self.pool.places.index(number))

    def sources(self, explained: AttributePart) -> tuple[str, ...]:
        """The names of the columns that move one."""
        assert self.pool is not None and self.explanation is not None
        axes = self.explanation.sources(explained.axis)
        numbers = [self.pool.places[axis] for axis in axes]
        return tuple(self.columns[number].name for number in numbers)

    def _adjusted(self) -> dict[tuple[int, str], float]:
        """The logarithms of p adjusted by Holm's method over all columns and kinds that were
        tested."""
        raw: dict[tuple[int, str], float] = {}
        for number in range(len(self.columns)):
            explained = self.part(number)
            if explained is not None and number and self.labelled:
                raw[number, SC] = explained.log_p_v
            if explained is not None and (number or self.labelled):
                raw[number, LDD if number else LABEL] = explained.log_p_tv
            if self.unseen[number].codes:
                raw[number, UDS] = self.unseen[number].log_p
        out = {}
        worst = -math.inf
        by_log_p = sorted(raw.items(), key=lambda test: test[1])
        for rank, (key, value) in enumerate(by_log_p):
            worst = max(worst, min(0.0, value + math.log(len(raw) - rank)))
            out[key] = worst
        return out


@final
@dataclass(eq=False)
class _Judge:
    """The verdicts of one column, by its number; the label is number 0."""

    case: _Case
    number: int

    def __post_init__(self) -> None:
        number = self.number
        self.column = self.case.columns[number]
        self.label = self.case.columns[0]
        self.lacking = self.case.unseen[number]
        self.explained = self.case.part(number)
        self.train, self.target = self.column.counts()
        self.n = len(self.column.train)
        self.m = len(self.column.target)

    def stream(self, measure: str) -> np.random.Generator:
        """Randomness for one measure of the column, whatever other columns there are."""
        return stream(self.case.seed, "audit", self.column.name, measure)

    def p(self, kind: str) -> float:
        """The adjusted p of one kind."""
        return math.exp(self.case.log_p.get((self.number, kind), 0.0))

    @cached_property
    def tables(self) -> tuple[Counts, Counts]:
        """Rows by class and value in training and in the target."""
        column = self.column
        label = self.label
        return self._table(column.train, label.train), self._table(column.target, label.target)

    def _table(self, values: NDArray[np.int64], label: NDArray[np.int64]) -> Counts:
        shape = (len(self.label.values), len(self.column.values))
        pairs = label * shape[1] + values
        counts = np.bincount(pairs, minlength=shape[0] * shape[1])
        return counts.reshape(shape).astype(np.float64)

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """The values with their shares."""
        ratios = ratio_intervals(self.train, self.target)
        rows = zip(
            self.column.values, self.train.tolist(), self.target.tolist(), ratios, strict=True
        )
        return tuple(
            Value(name, int(a), int(b), a / self.n, b / self.m, ratio) for name, a, b, ratio in rows
        )

    def audit(self) -> AttributeAudit:
        """All of it."""
        difference = v_train = v_target = None
        if self.number and self.case.labelled:
            difference = v_interval(*self.tables, self.stream("V"))
            v_train, v_target = (float(cramers_v(table)) for table in self.tables)
        generator = self.stream("TV")
        variation = variation_interval(self.train, self.target, generator)
        if self.number:
            verdicts = [self._correlation(difference), self._drift(LDD)]
        else:
            verdicts = [self._drift(LABEL)]
        unseen_values = tuple(self.column.values[code] for code in self.lacking.codes)
        unseen_share = share_interval(self.lacking.rows, self.m)
        return AttributeAudit(
            self.column.name,
            self.values,
            variation,
            unseen_values,
            unseen_share,
            v_train,
            v_target,
            difference,
            (*map(self._of_enough_rows, verdicts), self._unseen()),
        )

    def _twin(self, sources: Sequence[str]) -> str | None:
        """The first of the columns that splits the rows exactly as this one does."""
        for column in self.case.columns[1:]:
            if column.name in sources and _split_alike(self.column, column):
                return column.name
        return None

    def _correlation(self, raw: Interval | None) -> Verdict:
        if raw is None:
            return Verdict(SC, "cannot tell", "the target has no label")
        if (self.train > 0).sum() < 2 or (self.label.counts()[0] > 0).sum() < 2:
            return Verdict(SC, "no shift", "training shows one value or one class only")
        explained = self.explained
        if explained is None:
            return self._unfitted(SC, messages.v_none(raw), raw)
        p = self.p(SC)
        least = LEAST[SC]
        low = explained.v_left - raw.value + raw.low
        high = explained.v_left + raw.high - raw.value
        left = Interval(explained.v_left, low, high)
        if p < LEVEL and left.value >= least:
            words = messages.correlated(self.label, self.column, self.tables, left)
            return Verdict(SC, "shift", words, left, p)
        if raw.low > least / 2 and left.value < raw.value / 2:
            has_other_cause = explained.low or explained.drifts or bool(self.lacking.codes)
            sources = (
                *(["its own rare or unseen values"] if has_other_cause else []),
                *self.case.sources(explained),
            ) or (self.label.name,)
            difference = f"V is {raw.value:.2f} higher in training"
            return self._follows(SC, difference, left, sources)
        is_small = p < LEVEL and abs(left.value) < least
        no_shift = messages.v_none(left, is_small)
        return self._small_or_unclear(SC, left, no_shift, "V differs by")

    def _follows(
        self, kind: str, difference: str, left: Interval, sources: tuple[str, ...]
    ) -> Verdict:
        """The verdict that other columns explain a difference."""
        twin = self._twin(sources)
        words = messages.follows(difference, left, sources, twin)
        return Verdict(kind, "follows", words, left, self.p(kind), sources)

    def _small_or_unclear(
        self, kind: str, left: Interval, no_shift: str, difference: str
    ) -> Verdict:
        """The verdict of what is no shift that can be told: too small, or too uncertain."""
        size = SIZES[kind]
        if left.high < size:
            return Verdict(kind, "no shift", no_shift, left, self.p(kind))
        words = messages.unclear(difference, left, size, self.n, self.m)
        return Verdict(kind, "cannot tell", words, left, self.p(kind))

    def _unfitted(self, kind: str, no_shift: str, raw: Interval) -> Verdict:
        """The verdict of a column that has no place in the pool, from what was measured alone."""
        if raw.high < SIZES[kind]:
            return Verdict(kind, "no shift", no_shift, raw)
        words = messages.few_rows(self.n, self.m)
        return Verdict(kind, "cannot tell", words, raw)

    def _of_enough_rows(self, verdict: Verdict) -> Verdict:
        """The verdict; that there is no shift is not said of a few rows, whose values are equal by
        chance."""
        if verdict.status != "no shift" or min(self.n, self.m) >= FEW_ROWS:
            return verdict
        words = messages.few_rows(self.n, self.m)
        return replace(verdict, status="cannot tell", words=words)

    def _drift(self, kind: str) -> Verdict:
        if not self.number and not self.case.labelled:
            return Verdict(kind, "cannot tell", "the target has no label")
        only_in_training = self.lacking.only
        n_only = self.train[only_in_training].sum()
        if n_only / self.n >= LEAST[kind] and self.lacking.only_sure:
            words = messages.only_in_training(self.values, only_in_training)
            effect = share_interval(int(n_only), self.n)
            return Verdict(kind, "shift", words, effect, 0.0)
        on_one_side = {*self.lacking.codes, *only_in_training}
        shared_codes = [code for code in range(len(self.train)) if code not in on_one_side]
        if len(shared_codes) < 2:
            return Verdict(kind, "no shift", "one value only is on both sides")
        train = self.train[shared_codes]
        target = self.target[shared_codes]
        raw = variation_interval(train, target, self.stream("TV of seen values"))
        if self.explained is None:
            return self._unfitted(kind, messages.tv_none(raw), raw)
        return self._explained_drift(kind, self.explained, shared_codes, raw)

    def _explained_drift(
        self, kind: str, explained: AttributePart, shared_codes: Sequence[int], raw: Interval
    ) -> Verdict:
        """The verdict on the shares of the values that both sides have, given the other columns;
        `raw` is their total variation."""
        p = self.p(kind)
        least = LEAST[kind]
        # Reweighting adds distance by chance; what no test finds is not more than was measured.
        if p < LEVEL:
            tv = explained.tv_left
        else:
            tv = min(explained.tv_left, raw.value)
        low = max(0.0, tv - raw.value + raw.low)
        high = tv + raw.high - raw.value
        left = Interval(tv, low, high)
        train = self.train[shared_codes]
        target = self.target[shared_codes]
        log_p_moved = homogeneity(train, target)
        has_moved = log_p_moved < math.log(LEVEL) and raw.value >= least  # whatever explains it
        if has_moved and p < LEVEL and left.value >= least:
            label_name = self.label.name if explained.with_label else None
            words = messages.drifted(self.values, shared_codes, label_name)
            return Verdict(kind, "shift", words, left, p)
        if has_moved and left.value < raw.value / 2:
            difference = f"shares differ by {raw.value:.2f}"
            return self._follows(kind, difference, left, self._drift_sources(explained))
        return self._small_or_unclear(kind, left, messages.tv_none(left), "shares differ by")

    def _drift_sources(self, explained: AttributePart) -> tuple[str, ...]:
        """The sources of the shares of the values: the label, or all attributes, where nothing is
        named."""
        sources = self.case.sources(explained)
        if explained.matched is not None and self.number:
            sources = (f"its own pairs with {self.label.name}", *sources)
        return sources or ((self.label.name,) if self.number else ("the attributes",))

    def _unseen(self) -> Verdict:
        lacking = self.lacking
        values = self.values
        share = share_interval(lacking.rows, self.m)
        p = self.p(UDS)
        if lacking.sure:
            words = messages.unseen(values, lacking.sure, lacking.codes)
            effect = share_interval(lacking.left, self.m)
            return Verdict(UDS, "shift", words, effect, p)
        if lacking.source is not None:
            source = self.case.columns[lacking.source].name
            words = messages.unseen_follows(values, lacking.codes, source)
            return Verdict(UDS, "follows", words, share, p, (source,))
        if share.high < SIZES[UDS]:
            words = messages.unseen_none(values, lacking.codes, self.n)
            return Verdict(UDS, "no shift", words, share, p)
        words = messages.unseen_unclear(values, lacking.codes, self.n, self.m, share)
        return Verdict(UDS, "cannot tell", words, share, p)


def _split_alike(column: Column, other_column: Column) -> bool:
    """Whether two columns split the rows of both tables in the same way."""
    size = len(other_column.values)
    codes = np.concatenate([column.train, column.target])
    other_codes = np.concatenate([other_column.train, other_column.target])
    n_pairs = len(np.unique(codes * size + other_codes))
    return n_pairs == len(np.unique(codes)) == len(np.unique(other_codes))
