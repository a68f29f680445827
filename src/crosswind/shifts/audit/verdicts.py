"""The audit of two tables: from measures and attributions to verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.seeds import stream
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
from crosswind.shifts.audit.measures import (
    Interval,
    cramers_v,
    homogeneity,
    ratio_intervals,
    share_interval,
    v_interval,
    variation_interval,
)
from crosswind.shifts.audit.tables import read_tables, split_tables
from crosswind.shifts.split import Split

SC, LDD, UDS, LABEL = KINDS

Counts = NDArray[np.float64]


def audit(
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
        if not isinstance(target, str):
            raise InputError(
                "target", "must name a set of the split", [*train.validation, *train.evaluation]
            )
        tables = split_tables(train, target, columns, seed)
        if label is not None and label != tables.label:
            raise InputError("label", f"the split's label is {tables.label!r}, not {label!r}")
    else:
        if not isinstance(label, str):
            raise InputError("label", "names the column of the label, and is missing")
        tables = read_tables(train, target, label, columns, names, header, same, distinct)
    audits, notes = judge(tables.columns, tables.labelled, seed)
    first = tables.columns[0]
    return Audit(
        tables.label,
        len(first.train),
        len(first.target),
        audits[0] if tables.labelled else None,
        tuple(audits[1:]),
        tables.skipped,
        (*tables.notes, *notes),
    )


def judge(
    columns: Sequence[Column], labelled: bool = True, seed: int = 0
) -> tuple[list[AttributeAudit], list[str]]:
    """The audits of all columns, and notes in messages. The first column is the label; constant
    where the target has none."""
    case = _Case(columns, labelled, seed)
    return [_Judge(case, number).audit() for number in range(len(columns))], list(
        case.pool.notes if case.pool else ()
    )


@dataclass(eq=False)
class _Case:
    """What all columns share."""

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
            gaps = frozenset(
                axis for axis, number in enumerate(self.pool.places) if self.unseen[number].codes
            )
            self.explanation = explain(self.pool.pool, LEVEL, LEAST[SC], LEAST[LDD], gaps)
        self.log_p = self._adjusted()

    def part(self, number: int) -> AttributePart | None:
        """What explains one column; None where it is not in the pool or has one value there."""
        if self.pool is None or self.explanation is None or number not in self.pool.places:
            return None
        return self.explanation.parts.get(self.pool.places.index(number))

    def sources(self, explained: AttributePart) -> tuple[str, ...]:
        """The names of the columns that move one."""
        assert self.pool is not None and self.explanation is not None
        return tuple(
            self.columns[self.pool.places[axis]].name
            for axis in self.explanation.sources(explained.axis)
        )

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
        out, worst = {}, -math.inf
        for rank, (key, value) in enumerate(sorted(raw.items(), key=lambda test: test[1])):
            worst = max(worst, min(0.0, value + math.log(len(raw) - rank)))
            out[key] = worst
        return out


@final
@dataclass(eq=False)
class _Judge:
    """The verdicts of one column."""

    case: _Case
    place: int

    def __post_init__(self) -> None:
        self.column, self.label = self.case.columns[self.place], self.case.columns[0]
        self.item, self.part = self.case.unseen[self.place], self.case.part(self.place)
        self.train, self.target = self.column.counts()
        self.n, self.m = len(self.column.train), len(self.column.target)

    def stream(self, measure: str) -> np.random.Generator:
        """Randomness for one measure of the column, whatever other columns there are."""
        return stream(self.case.seed, "audit", self.column.name, measure)

    def p(self, kind: str) -> float:
        """The adjusted p of one kind."""
        return math.exp(self.case.log_p.get((self.place, kind), 0.0))

    @cached_property
    def tables(self) -> tuple[Counts, Counts]:
        """Rows by class and value in training and in the target."""
        return self._table(self.column.train, self.label.train), self._table(
            self.column.target, self.label.target
        )

    def _table(self, values: NDArray[np.int64], label: NDArray[np.int64]) -> Counts:
        shape = (len(self.label.values), len(self.column.values))
        return (
            np.bincount(label * shape[1] + values, minlength=shape[0] * shape[1])
            .reshape(shape)
            .astype(np.float64)
        )

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
        if self.place and self.case.labelled:
            difference = v_interval(*self.tables, self.stream("V"))
            v_train, v_target = (float(cramers_v(table)) for table in self.tables)
        variation = variation_interval(self.train, self.target, self.stream("TV"))
        verdicts = (
            [self._correlation(difference), self._drift(LDD)]
            if self.place
            else [self._drift(LABEL)]
        )
        return AttributeAudit(
            self.column.name,
            self.values,
            variation,
            tuple(self.column.values[code] for code in self.item.codes),
            share_interval(self.item.rows, self.m),
            v_train,
            v_target,
            difference,
            (*verdicts, self._unseen()),
        )

    def _twin(self, sources: Sequence[str]) -> str | None:
        """The first of the columns that splits the rows exactly as this one does."""
        for other_column in self.case.columns[1:]:
            if other_column.name in sources:
                size = len(other_column.values)
                pairs = np.concatenate(
                    [
                        self.column.train * size + other_column.train,
                        self.column.target * size + other_column.target,
                    ]
                )
                codes_of_both = [
                    np.concatenate([column.train, column.target])
                    for column in (self.column, other_column)
                ]
                if (
                    len(np.unique(pairs))
                    == len(np.unique(codes_of_both[0]))
                    == len(np.unique(codes_of_both[1]))
                ):
                    return other_column.name
        return None

    def _correlation(self, raw: Interval | None) -> Verdict:
        if raw is None:
            return Verdict(SC, "cannot tell", "the target has no label")
        if (self.train > 0).sum() < 2 or (self.label.counts()[0] > 0).sum() < 2:
            return Verdict(SC, "no shift", "training shows one value or one class only")
        explained = self.part
        if explained is None:
            return self._unfitted(SC, messages.v_none(raw), raw)
        p, least, size = self.p(SC), LEAST[SC], SIZES[SC]
        left = Interval(
            explained.v_left,
            explained.v_left - raw.value + raw.low,
            explained.v_left + raw.high - raw.value,
        )
        if p < LEVEL and left.value >= least:
            return Verdict(
                SC,
                "shift",
                messages.correlated(self.label, self.column, self.tables, left),
                left,
                p,
            )
        if raw.low > least / 2 and left.value < raw.value / 2:
            has_other_cause = explained.low or explained.drifts or bool(self.item.codes)
            sources = (
                *(["its own rare or unseen values"] if has_other_cause else []),
                *self.case.sources(explained),
            ) or (self.label.name,)
            words = messages.follows(
                f"V is {raw.value:.2f} higher in training", left, sources, self._twin(sources)
            )
            return Verdict(SC, "follows", words, left, p, sources)
        if left.high < size:
            return Verdict(
                SC,
                "no shift",
                messages.v_none(left, p < LEVEL and abs(left.value) < least),
                left,
                p,
            )
        return Verdict(
            SC, "cannot tell", messages.unclear("V differs by", left, size, self.n, self.m), left, p
        )

    def _unfitted(self, kind: str, no_shift: str, raw: Interval) -> Verdict:
        """The verdict of a column that has no place in the pool, from what was measured alone."""
        if raw.high < SIZES[kind]:
            return Verdict(kind, "no shift", no_shift, raw)
        return Verdict(kind, "cannot tell", messages.few_rows(self.n, self.m), raw)

    def _drift(self, kind: str) -> Verdict:
        if not self.place and not self.case.labelled:
            return Verdict(kind, "cannot tell", "the target has no label")
        least, size = LEAST[kind], SIZES[kind]
        only = self.train[self.item.only].sum() / self.n
        if only >= least and self.item.only_sure:
            share = share_interval(int(self.train[self.item.only].sum()), self.n)
            return Verdict(
                kind, "shift", messages.only_in_training(self.values, self.item.only), share, 0.0
            )
        seen_codes = [
            code
            for code in range(len(self.train))
            if code not in self.item.codes and code not in self.item.only
        ]
        if len(seen_codes) < 2:
            return Verdict(kind, "no shift", "one value only is on both sides")
        raw = variation_interval(
            self.train[seen_codes], self.target[seen_codes], self.stream("TV of seen values")
        )
        explained = self.part
        if explained is None:
            return self._unfitted(kind, messages.tv_none(raw), raw)
        p = self.p(kind)
        # Reweighting adds distance by chance; what no test finds is not more than was measured.
        tv = explained.tv_left if p < LEVEL else min(explained.tv_left, raw.value)
        left = Interval(tv, max(0.0, tv - raw.value + raw.low), tv + raw.high - raw.value)
        moved = homogeneity(self.train[seen_codes], self.target[seen_codes]) < math.log(
            LEVEL
        )  # whatever explains it
        if p < LEVEL and moved and left.value >= least and raw.value >= least:
            message = messages.drifted(
                self.values, seen_codes, self.label.name if explained.with_label else None
            )
            return Verdict(kind, "shift", message, left, p)
        if moved and raw.value >= least and left.value < raw.value / 2:
            is_own = explained.matched is not None and self.place
            sources = (
                *([f"its own pairs with {self.label.name}"] if is_own else []),
                *self.case.sources(explained),
            )
            sources = sources or ((self.label.name,) if self.place else ("the attributes",))
            words = messages.follows(
                f"shares differ by {raw.value:.2f}", left, sources, self._twin(sources)
            )
            return Verdict(kind, "follows", words, left, p, sources)
        if left.high < size:
            return Verdict(kind, "no shift", messages.tv_none(left), left, p)
        return Verdict(
            kind,
            "cannot tell",
            messages.unclear("shares differ by", left, size, self.n, self.m),
            left,
            p,
        )

    def _unseen(self) -> Verdict:
        unseen_values = self.item
        share, p = share_interval(unseen_values.rows, self.m), self.p(UDS)
        if unseen_values.sure:
            return Verdict(
                UDS,
                "shift",
                messages.unseen(self.values, unseen_values.sure, unseen_values.codes),
                share_interval(unseen_values.left, self.m),
                p,
            )
        if unseen_values.source is not None:
            source = self.case.columns[unseen_values.source].name
            return Verdict(
                UDS,
                "follows",
                messages.unseen_follows(self.values, unseen_values.codes, source),
                share,
                p,
                (source,),
            )
        if share.high < SIZES[UDS]:
            return Verdict(
                UDS,
                "no shift",
                messages.unseen_none(self.values, unseen_values.codes, self.n),
                share,
                p,
            )
        return Verdict(
            UDS,
            "cannot tell",
            messages.unseen_unclear(self.values, unseen_values.codes, self.n, self.m, share),
            share,
            p,
        )
