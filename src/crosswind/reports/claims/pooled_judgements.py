"""Claims over several cases, judged by the results of a study. They are a mean, a share of cases,
an order, an agreement, whether one row is best everywhere, whether rows differ in rank.

A case is a data set, shift and size, and a row there: a method on a model. They are judged in one
family with the claims of single places.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosswind.core.errors import counted
from crosswind.evaluation.multiplicity import ALPHA, hardest_level
from crosswind.evaluation.pooled_tests import (
    AGREEMENT,
    BEST,
    MEAN,
    ORDER,
    SHARE,
    AgreementTest,
    MeanTest,
    NobodyBestTest,
    OrderTest,
    PooledTest,
    RanksTest,
    ShareTest,
    mean_by_run,
)
from crosswind.reports.claims.verdict_words import CANNOT_TELL, HOLDS, NOT_RUN, OPPOSITE, POWER
from crosswind.reports.scores.results import LEVEL, Entry, Place, Results
from crosswind.studies.claims import rule_of
from crosswind.studies.pooled_claims import (
    CONDITIONS,
    PlannedCell,
    PlannedCells,
    Row,
    along_of,
    minus_of,
    planned_cells,
    side_of,
)

Values = Mapping[Any, float]
"""A score by seed."""
Condition = tuple[str, ...]
"""The data set, shift and size of a case, or those of them in which two sides agree."""


@dataclass(frozen=True)
class PooledJudgement:
    """A claim over several cases. `number` counts the study's claims from 1. `claim`: its values
    with every default. `only`: the data set, shift or size that it is judged at, where they are
    judged one by one.

    `better`, `than`: the sides in words; `cases` of them are compared; `waiting`, `failed`: runs
    without a score. `tested` is None where nothing can be
    compared. `adjusted`: the p-value among the `family` judgements of the study by its
    `multiplicity`; `level`: of the interval that excludes 0 where the verdict says so.
    """

    number: int
    claim: Mapping[str, Any]
    only: Mapping[str, str]
    better: str
    than: str
    rule: str
    cases: int
    waiting: int
    failed: int
    tested: PooledTest | None
    doubted: int = 0
    multiplicity: str = "holm"
    family: int = 1
    adjusted: float | None = None
    level: float = LEVEL

    @property
    def text(self) -> str:
        """The claim in words."""
        return str(self.claim["text"])

    @property
    def test(self) -> str:
        """The name of the test."""
        return str(self.claim["test"])

    @property
    def along(self) -> Sequence[str]:
        """The conditions in order; empty where the test has none."""
        _, conditions = along_of(self.claim)
        return conditions

    @property
    def set(self) -> str:
        """The set that is scored where a side names none."""
        return str(self.claim["set"])

    @property
    def metric(self) -> str:
        """The score."""
        return str(self.claim["metric"])

    @property
    def relative(self) -> bool:
        """Whether scores are changes in percent of the reference."""
        return bool(self.claim["relative"])

    @property
    def by(self) -> float:
        """By how much the better side is claimed to be above the other."""
        return float(self.claim["by"] or 0.0)

    @property
    def share(self) -> float:
        """The share of cases that is claimed to be exceeded."""
        return float(self.claim["share"] or 0.5)

    @property
    def waits(self) -> bool:
        """Whether a run has not ended: nothing is looked at before."""
        return bool(self.waiting)

    @property
    def p(self) -> float | None:
        """The p-value of this claim alone; None where it waits or has none."""
        return None if self.waits or self.tested is None else self.tested.p

    @property
    def value(self) -> float | None:
        """The number that is above 0 where the claim is right; None where there is none, or it
        waits."""
        if self.waits or self.tested is None or math.isnan(self.tested.value):
            return None
        return self.tested.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the value at `level`."""
        return None if self.value is None or not self.tested else self.tested.interval(self.level)

    @property
    def detectable(self) -> tuple[float, float] | None:
        """The true values that would have been told with a power of 80%, whatever the other claims
        show."""
        if self.value is None or self.tested is None:
            return None
        return self.tested.detectable(hardest_level(self.multiplicity, self.family), POWER)

    @property
    def verdict(self) -> str:
        """`HOLDS`, `OPPOSITE`, `CANNOT_TELL`, or `NOT_RUN` until all runs have ended."""
        if self.waits:
            return NOT_RUN
        if self.value is None or self.adjusted is None or self.adjusted >= ALPHA:
            return CANNOT_TELL
        if isinstance(self.tested, NobodyBestTest):
            return OPPOSITE if self.tested.is_opposite else HOLDS
        return HOLDS if self.value > 0 else OPPOSITE

    @property
    def hypothesis(self) -> str:
        """The null hypothesis in words: that what the claim says is not so."""
        beyond = f" by no more than {self._amount(self.by)}" if self.by else ""
        if self.test == MEAN:
            return f"the mean of {self.better} is not above that of {self.than}{beyond}"
        if self.test == SHARE:
            return f"in {self.share:.0%} of such cases {self.better} is above {self.than}{beyond}"
        if self.test == ORDER:
            less = f" less {self.than}" if self.than else ""
            return f"{self.better}{less} has no order along {', '.join(self.along)}"
        if self.test == AGREEMENT:
            return f"the order of {self.better} under {self.along[0]} says nothing of that under {self.along[1]}"
        if self.test == BEST:
            return f"one of {self.better} is as good as every other in every case"
        return f"{self.better} have the same mean rank"

    def _amount(self, number: float) -> str:
        if self.relative:
            return f"{number:g}%"
        points = f"{100 * number:g}"
        return f"{points} point{'' if points == '1' else 's'}"


# -- judging ---------------------------------------------------------------------------------------


class CellScores:
    """The scores and the states of a study's planned cells."""

    def __init__(self, arranged: Results, resolved: Mapping[str, Any]) -> None:
        self._places = arranged.places
        self._states: dict[PlannedCell, list[int]] = {}
        self.study = ""
        for run, (status, _) in arranged.runs.items():
            self.study = run.study
            cell = PlannedCell(run.data, run.shift, run.size, run.model, run.method)
            waiting_failed = self._states.setdefault(cell, [0, 0])
            waiting_failed[0] += status in ("pending", "running")
            waiting_failed[1] += status == "failed"
        self.planned: PlannedCells = planned_cells(
            self._states, set(resolved.get("methods") or {}), resolved
        )

    def entry(self, cell: PlannedCell, set_name: str, rule: str) -> Entry:
        """The scores of a cell; empty where no run has one."""
        place = Place(self.study, cell.data, cell.size, cell.model, set_name, rule)
        of_place = self._places.get(place)
        entry = of_place.entries.get((cell.shift, cell.method)) if of_place else None
        return entry or Entry()

    def states(self, cells: Iterable[PlannedCell]) -> tuple[int, int]:
        """The runs of some cells that have not ended, and those that failed."""
        states = [self._states[cell] for cell in dict.fromkeys(cells)]
        return sum(waiting for waiting, _ in states), sum(failed for _, failed in states)


def judge_pooled(
    number: int, claim: Mapping[str, Any], scores: CellScores, resolved: Mapping[str, Any]
) -> list[PooledJudgement]:
    """A claim over cases at everything that it is to be judged at one by one, before it is judged
    beside the others; `resolved`: the study with every default."""
    rule = rule_of(claim, resolved["selection"])
    judge = _PooledJudge(number, claim, scores, rule)
    return [judge.judgement(dict(zip(claim["each"], names, strict=True))) for names in judge.each()]


class _PooledJudge:
    """One claim over cases and the cells that it is about."""

    def __init__(
        self, number: int, claim: Mapping[str, Any], scores: CellScores, rule: str
    ) -> None:
        self._number = number
        self._claim = claim
        self._scores = scores
        self._rule = rule
        self._better = side_of(claim["better"] or claim["rows"])
        self._than = side_of(claim["than"])
        if claim["than"] is None and claim["test"] in (MEAN, SHARE):
            self._than = dict(zip(("methods", "model"), scores.planned.baseline, strict=True))
        self._minus = [minus_of(side) for side in (self._better, self._than)]
        self._axis, self._along = along_of(claim)
        self._row_of = scores.planned.row_of
        self._known: dict[tuple[PlannedCell, str], Values] = {}

    def each(self) -> list[tuple[str, ...]]:
        """The cases that are judged one by one: the values of the fields of `each` that are
        planned."""
        cells = self._scores.planned.of_side(self._better, self._claim)
        fields = self._claim["each"]
        return list(dict.fromkeys(tuple(getattr(cell, name) for name in fields) for cell in cells))

    def judgement(self, only: Mapping[str, str]) -> PooledJudgement:
        """The claim, or the claim at `only`."""
        claim = self._claim
        better, than, *minus = self._sides(only)
        cells = [*better, *than, *minus[0], *minus[1]]
        waiting, failed = self._scores.states([*cells, *self._baselines(cells)])
        n_cases, tested = (len(better), None) if waiting else self._tested(better, than, minus)
        doubted = sum(
            self._scores.entry(cell, self._set_of(self._better), self._rule).doubted
            for cell in better
        )
        than_words = self._words(self._than) if self._than else ""
        return PooledJudgement(
            number=self._number,
            claim=claim,
            only=only,
            better=self._words(self._better),
            than=than_words,
            rule=self._rule,
            cases=n_cases,
            waiting=waiting,
            failed=failed,
            tested=tested,
            doubted=doubted,
        )

    def _sides(self, only: Mapping[str, str]) -> list[list[PlannedCell]]:
        """The cells of both sides, and of what each is less of, empty where it is no gap; of what
        none of them names, those that all have."""
        planned = self._scores.planned
        sides: list[list[PlannedCell]] = []
        for side in (self._better, self._than, *self._minus):
            cells = planned.of_side(side, self._claim) if side or not sides else []
            wanted = {name: value for name, value in only.items() if not side.get(name)}
            sides.append([cell for cell in cells if _is_at(cell, wanted)])
        if self._axis:
            sides = [
                [cell for cell in cells if getattr(cell, self._axis) in self._along]
                for cells in sides
            ]
        if not sides[1]:
            return sides
        shared = self._shared_fields()
        compared = [cells for cells, is_named in zip(sides, self._named(), strict=True) if is_named]
        common = set.intersection(
            *({_condition(cell, shared) for cell in cells} for cells in compared)
        )
        return [[cell for cell in cells if _condition(cell, shared) in common] for cells in sides]

    def _named(self) -> list[bool]:
        """Which of the two sides and of the two that they are less of the claim has."""
        return [True, bool(self._than), *map(bool, self._minus)]

    def _shared_fields(self) -> list[str]:
        """The fields that no side names by itself, so that a case of one side is beside that of the
        other."""
        sides = (self._better, self._than, *self._minus)
        return [name for name in CONDITIONS if not any(side.get(name) for side in sides)]

    def _baselines(self, cells: Sequence[PlannedCell]) -> list[PlannedCell]:
        """The cells that changes in percent are beside; none without them."""
        if not self._claim["relative"]:
            return []
        method, model = self._scores.planned.baseline
        baselines = dict.fromkeys(cell._replace(method=method, model=model) for cell in cells)
        planned = set(self._scores.planned.cells)
        return [cell for cell in baselines if cell in planned]

    def _set_of(self, side: Mapping[str, Any]) -> str:
        return str(side.get("set") or self._claim["set"])

    # -- scores ------------------------------------------------------------------------------------

    def _values(self, cell: PlannedCell, side: Mapping[str, Any]) -> Values:
        """The score of a cell by seed, or its change in percent of the reference."""
        set_name = self._set_of(side)
        if (cell, set_name) not in self._known:
            self._known[cell, set_name] = self._read(cell, set_name)
        return self._known[cell, set_name]

    def _read(self, cell: PlannedCell, set_name: str) -> Values:
        metric = str(self._claim["metric"])
        values = self._scores.entry(cell, set_name, self._rule).values(metric)
        if not self._claim["relative"]:
            return values
        method, model = self._scores.planned.baseline
        baseline = cell._replace(method=method, model=model)
        base = self._scores.entry(baseline, set_name, self._rule).values(metric)
        return {
            seed: 100 * (value / base[seed] - 1) for seed, value in values.items() if base.get(seed)
        }

    def _mean(self, cells: Sequence[PlannedCell], side: Mapping[str, Any]) -> Values:
        """The mean over cells by seed, data sets and sizes equally heavy; seeds that lack a score are
        left out."""
        units: dict[Condition, list[Values]] = defaultdict(list)
        for cell in cells:
            units[cell.data, cell.size].append(self._values(cell, side))
        return mean_by_run([mean_by_run(values) for values in units.values()])

    def _gap(
        self,
        cells: Sequence[PlannedCell],
        side: Mapping[str, Any],
        less_cells: Sequence[PlannedCell],
        less: Mapping[str, Any],
    ) -> Values:
        """The mean of a side by seed, less that of the rows `less` where it is a gap."""
        means = self._mean(cells, side)
        if not less:
            return means
        subtracted = self._mean(less_cells, less)
        return {
            seed: value - subtracted[seed] for seed, value in means.items() if seed in subtracted
        }

    # -- tests -------------------------------------------------------------------------------------

    def _tested(
        self,
        better: Sequence[PlannedCell],
        than: Sequence[PlannedCell],
        minus: Sequence[Sequence[PlannedCell]],
    ) -> tuple[int, PooledTest | None]:
        """The number of cases, and the test; None where nothing can be compared."""
        if self._claim["test"] == MEAN:
            return self._mean_test(better, than, minus)
        tests = {
            SHARE: self._share_test,
            ORDER: self._order_test,
            AGREEMENT: self._agreement_test,
            BEST: self._best_test,
        }
        make = tests.get(str(self._claim["test"]), self._ranks_test)
        return make(better, than)

    def _mean_test(
        self,
        better: Sequence[PlannedCell],
        than: Sequence[PlannedCell],
        minus: Sequence[Sequence[PlannedCell]],
    ) -> tuple[int, PooledTest | None]:
        first, second = (
            self._gap(cells, side, less_cells, less)
            for cells, side, less_cells, less in zip(
                (better, than), (self._better, self._than), minus, self._minus, strict=True
            )
        )
        differences = {
            seed: value - second[seed] for seed, value in first.items() if seed in second
        }
        if not differences:
            return 0, None
        return len(better), MeanTest(differences, float(self._claim["by"] or 0.0))

    def _share_test(
        self, better: Sequence[PlannedCell], than: Sequence[PlannedCell]
    ) -> tuple[int, PooledTest | None]:
        rows = [{self._row_of(cell) for cell in cells} for cells in (better, than)]
        by_row = rows[0] == rows[1]
        beside: dict[Condition, list[PlannedCell]] = defaultdict(list)
        for cell in than:
            beside[self._beside(cell, by_row)].append(cell)
        means: list[float] = []
        for cell in better:
            values = self._values(cell, self._better)
            others = self._mean(beside[self._beside(cell, by_row)], self._than)
            differences = [value - others[seed] for seed, value in values.items() if seed in others]
            if differences:
                means.append(math.fsum(differences) / len(differences))
        beyond = float(self._claim["by"] or 0.0)
        # Equal sides speak neither way.
        apart = [mean - beyond for mean in means if abs(mean - beyond) > 1e-12]
        if not apart:
            return 0, None
        positive = sum(mean > 0 for mean in apart)
        return len(apart), ShareTest(positive, len(apart), float(self._claim["share"] or 0.5))

    def _beside(self, cell: PlannedCell, by_row: bool) -> Condition:
        """The key that a cell shares with those of the other side that it is compared with; their
        row too where both sides have the same rows."""
        condition = _condition(cell, self._shared_fields())
        return (*condition, *self._row_of(cell)) if by_row else condition

    def _order_test(
        self, better: Sequence[PlannedCell], than: Sequence[PlannedCell]
    ) -> tuple[int, PooledTest | None]:
        blocks: list[list[float]] = []
        units = dict.fromkeys(_condition(cell, self._unit_fields()) for cell in better)
        for unit in units:
            by_condition = [self._at_condition(better, than, unit, name) for name in self._along]
            for seed in by_condition[0]:
                if all(seed in values for values in by_condition):
                    blocks.append([values[seed] for values in by_condition])
        return (len(better), OrderTest(np.array(blocks))) if blocks else (0, None)

    def _unit_fields(self) -> list[str]:
        """The fields that tell the blocks of an order apart, beside the seed."""
        return [name for name in CONDITIONS if name != self._axis]

    def _at_condition(
        self,
        better: Sequence[PlannedCell],
        than: Sequence[PlannedCell],
        unit: Condition,
        condition: str,
    ) -> Values:
        """The mean score of a unit under one of the conditions by seed, less the other side's."""
        wanted = {**dict(zip(self._unit_fields(), unit, strict=True)), self._axis: condition}
        first = self._mean([cell for cell in better if _is_at(cell, wanted)], self._better)
        if not self._than:
            return first
        second = self._mean([cell for cell in than if _is_at(cell, wanted)], self._than)
        return {seed: value - second[seed] for seed, value in first.items() if seed in second}

    def _agreement_test(
        self, better: Sequence[PlannedCell], than: Sequence[PlannedCell]
    ) -> tuple[int, PooledTest | None]:
        sides: list[dict[Row, float]] = []
        units: list[set[tuple[Row, Condition]]] = []
        for condition in self._along:
            cells = [cell for cell in better if getattr(cell, self._axis) == condition]
            units.append(
                {(self._row_of(cell), _condition(cell, self._unit_fields())) for cell in cells}
            )
        common = units[0] & units[1]
        for condition in self._along:
            by_row: dict[Row, list[PlannedCell]] = defaultdict(list)
            for cell in better:
                is_common = (self._row_of(cell), _condition(cell, self._unit_fields())) in common
                if getattr(cell, self._axis) == condition and is_common:
                    by_row[self._row_of(cell)].append(cell)
            sides.append(self._row_means(by_row))
        rows = [row for row in sides[0] if row in sides[1]]
        if len(rows) < 3:
            return 0, None
        return len(rows), AgreementTest(*([side[row] for row in rows] for side in sides))

    def _row_means(self, cells_by_row: Mapping[Row, Sequence[PlannedCell]]) -> dict[Row, float]:
        """The mean over cells and seeds of each row that has one."""
        means: dict[Row, float] = {}
        for row, cells in cells_by_row.items():
            values = self._mean(cells, self._better)
            if values:
                means[row] = math.fsum(values.values()) / len(values)
        return means

    def _cases(self, better: Sequence[PlannedCell]) -> list[dict[str, Values]]:
        """The scores of every case by row; cases that lack a planned row are left out."""
        rows = dict.fromkeys(self._row_of(cell) for cell in better)
        by_condition: dict[Condition, dict[str, Values]] = defaultdict(dict)
        for cell in better:
            values = self._values(cell, self._better)
            if values:
                by_condition[_condition(cell, CONDITIONS)][" on ".join(self._row_of(cell))] = values
        return [case for case in by_condition.values() if len(case) == len(rows)]

    def _best_test(
        self, better: Sequence[PlannedCell], than: Sequence[PlannedCell]
    ) -> tuple[int, PooledTest | None]:
        cases = self._cases(better)
        return (len(cases), NobodyBestTest(cases)) if cases else (0, None)

    def _ranks_test(
        self, better: Sequence[PlannedCell], than: Sequence[PlannedCell]
    ) -> tuple[int, PooledTest | None]:
        blocks: list[list[float]] = []
        cases = self._cases(better)
        for case in cases:
            rows = list(case.values())
            for seed in rows[0]:
                if all(seed in values for values in rows):
                    blocks.append([values[seed] for values in rows])
        return (len(cases), RanksTest(np.array(blocks))) if blocks else (0, None)

    # -- words -------------------------------------------------------------------------------------

    def _words(self, side: Mapping[str, Any]) -> str:
        """A side for tables and sentences."""
        rows = self._scores.planned.rows_of(side)
        methods = side.get("methods")
        if side.get("family"):
            words = f"{_joined(side['family'])} ({counted(len(rows), 'row')})"
        elif methods is None or methods == "all":
            words = f"all {len(rows)} rows"
        else:
            words = _joined(methods)
        if side.get("model"):
            words += f" on {_joined(side['model'])}"
        for name, template in (
            ("shift", "under"),
            ("data", "on"),
            ("size", "at size"),
            ("set", "on set"),
        ):
            if side.get(name):
                words += f" {template} {_joined(side[name])}"
        less = minus_of(side)
        return f"{words} less {self._words(less)}" if less else words


def _is_at(cell: PlannedCell, wanted: Mapping[str, str]) -> bool:
    return all(getattr(cell, name) == value for name, value in wanted.items())


def _condition(cell: PlannedCell, fields: Iterable[str]) -> Condition:
    return tuple(getattr(cell, name) for name in fields)


def _joined(names: Any) -> str:
    return names if isinstance(names, str) else ", ".join(names)
