"""Estimators of accuracy judged on a pool of networks, as Ng et al. 2022 do in section 4.3: claims,
tables, words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from crosswind.evaluation.compare import Difference
from crosswind.evaluation.multiplicity import ALPHA, percent
from crosswind.evaluation.points import LEAST, Point
from crosswind.evaluation.pool_claims import (
    CANNOT_TELL,
    CLAIMS,
    HOLDS,
    OPPOSITE,
    RISE,
    Decision,
    decide,
)
from crosswind.evaluation.pools import OnDomain, PoolJudgement, by_domain, comparisons, judge
from crosswind.reports.charts import Figure
from crosswind.reports.pools import estimate_figures as draw
from crosswind.reports.pools.networks import ModelPool
from crosswind.reports.tables import Cell, ReportTable, slug

ATC = ("atc-mc", "atc-ne")
"""The baselines of Ng et al. 2022, by their registered names."""
_MISSED_SHOWN = 12


@dataclass
class Judged:
    """A pool with everything that is told of it; each is computed when it is asked for, once."""

    pool: ModelPool
    _parts: dict[tuple[str, ...], dict[str, PoolJudgement]] = field(default_factory=dict)

    @cached_property
    def every(self) -> dict[str, PoolJudgement]:
        """By estimator, over the whole pool."""
        return self._of(self.pool.values, self.pool.apart)

    @property
    def held(self) -> tuple[str, ...]:
        """The lines that are shown beside the numbers: that of section 4.3 where there are several
        training domains."""
        several = any(
            judgement.fits["training"].mae.value is not None for judgement in self.every.values()
        )
        return ("training", "test") if several else ("test", "in-sample")

    def _of(
        self, values: Mapping[str, Sequence[Point]], by_architecture: bool
    ) -> dict[str, PoolJudgement]:
        direct = self.pool.direct
        return {
            name: judge(points, estimates=name in direct, by_architecture=by_architecture)
            for name, points in values.items()
            if points
        }

    @cached_property
    def by_method(self) -> dict[str, dict[str, PoolJudgement]]:
        """By training method with networks enough and estimator, all architectures as one pool."""
        counts = Counter(self.pool.methods.values())
        named = [name for name, count in counts.items() if count >= LEAST]
        if len(named) < 2:
            return {}
        methods = self.pool.methods
        return {
            name: self._of(self._points_of(lambda point: methods[point.network], name), False)
            for name in named
        }

    def _points_of(self, name_of: Callable[[Point], str], name: str) -> dict[str, list[Point]]:
        """By estimator the points of networks of one name."""
        return {
            label: [point for point in points if name_of(point) == name]
            for label, points in self.pool.values.items()
        }

    @cached_property
    def by_architecture(self) -> dict[str, dict[str, PoolJudgement]]:
        """By architecture with networks enough and estimator."""
        counts = self.pool.architectures
        if len(counts) < 2:
            return {}
        named = [name for name, count in counts.items() if count >= LEAST]
        return {
            name: self._of(self._points_of(lambda point: point.architecture, name), True)
            for name in named
        }

    @cached_property
    def on_domains(self) -> dict[str, dict[str, OnDomain]]:
        """By estimator and test domain; then by `estimator, architecture`, where there are
        several."""
        values = {label: (points, self.pool.apart) for label, points in self.pool.values.items()}
        for kind in self.by_architecture:
            for label, points in self.pool.values.items():
                values[f"{label}, {kind}"] = [p for p in points if p.architecture == kind], True
        return {
            label: by_domain(points, by_architecture=apart)
            for label, (points, apart) in values.items()
            if points
        }

    @cached_property
    def decisions(self) -> list[Decision]:
        """The claims of the paper, tested on neighbourhood invariance in the paper's form and
        ATC."""
        pool = self.pool
        invariances = {
            label: pool.values[label]
            for label, form in pool.neighbourhoods.items()
            if form == "largest"
        }
        baselines = {
            label: points for label, points in pool.values.items() if pool.names[label] in ATC
        }
        if not invariances or not pool.judged or pool.again:
            return []
        return decide(invariances, baselines, pool.rises, by_architecture=pool.apart)

    # -- tables
    # ----------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The beginning of the names of tables."""
        return slug("pool", self.pool.name)

    @cached_property
    def tables(self) -> dict[str, list[ReportTable]]:
        """The tables by what they are about: claims, all, domains, lines, parts, forms, one
        network."""
        name = self.name
        if not self.pool.judged:
            return {"one network": [self._across()]}
        measures = draw.measure_table(
            f"{name}-measures",
            f"How closely values go with accuracy, {self._networks}",
            self.every,
            self.held,
        )
        lines = draw.line_table(
            f"{name}-lines", f"Accuracies told by a line, {self._networks}", self.every
        )
        return {
            "claims": [self._claims()] if self.decisions else [],
            "all": [measures],
            "domains": self._domain_tables(),
            "lines": [lines],
            "parts": self._part_tables(),
            "forms": [*self._less_atc(), *self._forms()],
            "one network": [self._across()],
        }

    @property
    def _networks(self) -> str:
        """Which networks a table is of, for its title."""
        return f"{len(self.pool.methods)} networks on {self.pool.name}"

    def _domain_tables(self) -> list[ReportTable]:
        """Each number by test domain that has a value on some domain."""
        titles = {
            "tau": f"Kendall's tau by test domain, {self._networks}",
            "r2": f"Squared correlation by test domain, {self._networks}",
            "micro": f"Micro tau by test domain, {self._networks}",
        }
        tables: list[ReportTable] = []
        for key, title in titles.items():
            numbers = {
                label: {domain: getattr(on_domain, key) for domain, on_domain in domains.items()}
                for label, domains in self.on_domains.items()
            }
            every_number = [number for by_name in numbers.values() for number in by_name.values()]
            if any(number.value is not None for number in every_number):
                tables.append(draw.domain_table(f"{self.name}-{key}", title, numbers))
        return tables

    @property
    def tau_figure(self) -> Figure | None:
        """Tau against the test domains, where they and the measures are of a number that is
        drawn."""
        taus = {
            label: {domain: on_domain.tau for domain, on_domain in domains.items()}
            for label, domains in self.on_domains.items()
            if label in self.pool.values
        }
        title = f"Kendall's tau by test domain, {self._networks}"
        return draw.domain_figure(f"{self.name}-tau-by-domain", title, taus)

    def _part_tables(self) -> list[ReportTable]:
        """The numbers by training method and by architecture, where there are several."""
        tables: list[ReportTable] = []
        if self.by_method:
            title = f"By training method, all architectures as one pool, {self._networks}"
            name = f"{self.name}-methods"
            tables.append(draw.part_table(name, title, "method", self.by_method, self.held))
        if self.by_architecture:
            title, name = f"By architecture, {self._networks}", f"{self.name}-architectures"
            tables.append(
                draw.part_table(name, title, "architecture", self.by_architecture, self.held)
            )
        return tables

    @cached_property
    def numbers(self) -> ReportTable:
        """Every number in one tidy table: of the pool, of each architecture, and by test domain."""
        judged_parts = {"": self.every, **self.by_architecture}
        return draw.number_table(
            f"{self.name}-numbers",
            f"Every number of the pool {self.pool.name}",
            judged_parts,
            self.on_domains,
        )

    def _across(self) -> ReportTable:
        title = f"One network over many domains, on {self.pool.name}"
        return draw.across_table(
            f"{self.name}-over-domains", title, self.every, self.by_architecture
        )

    def _less_atc(self) -> list[ReportTable]:
        values = self.pool.values
        reference = next((label for label in values if self.pool.names[label] in ATC), None)
        if reference is None or len(values) < 2:
            return []
        networks_and_tests = {
            label: {(point.network, point.test) for point in points}
            for label, points in values.items()
        }
        other_points = {
            label: points
            for label, points in values.items()
            if label != reference and networks_and_tests[label] == networks_and_tests[reference]
        }
        compared = comparisons(
            values[reference], other_points, held="test", by_architecture=self.pool.apart
        )
        if not compared:
            return []
        title = f"Every estimator less {reference}, errors by lines that did not see the domain"
        name = f"{self.name}-less-{reference}"
        return [draw.comparison_table(name, title, reference, compared)]

    def _forms(self) -> list[ReportTable]:
        """The other forms of a neighbourhood's measure against the share of the commonest answer
        (appendix B.3)."""
        pool = self.pool
        forms_of: dict[str, dict[str, str]] = {}
        for label, form in pool.neighbourhoods.items():
            forms_of.setdefault(pool.names[label], {})[form] = label
        tables: list[ReportTable] = []
        for name, labels in forms_of.items():
            reference = labels.get("largest")
            other_points = {
                label: pool.values[label] for label in labels.values() if label != reference
            }
            if reference is None or not other_points:
                continue
            compared = comparisons(
                pool.values[reference], other_points, held="test", by_architecture=pool.apart
            )
            title = f"Other forms of {name} less the share of the commonest answer"
            table_name = f"{self.name}-forms-{name}"
            tables.append(draw.comparison_table(table_name, title, reference, compared))
        return tables

    def _claims(self) -> ReportTable:
        rows: list[tuple[Cell, ...]] = []
        for decision in self.decisions:
            numbers = _difference_cells(decision.found)
            about = (decision.claim, decision.verdict, decision.what)
            rows.append((*about, *numbers, _p(decision.adjusted)))
        level = percent(self.decisions[0].level)
        columns = (
            "claim",
            "verdict",
            "what is compared",
            "difference",
            f"{level} interval",
            "p",
            "p, Holm",
        )
        notes = [
            (
                f'Above 0 is as the paper says. "{HOLDS}", "{OPPOSITE}": p below {ALPHA:g} after'
                f' Holm\'s correction for all {len(rows)} tests; "{CANNOT_TELL}": it is not, which'
                " is no finding that there is no difference."
            ),
            (
                f"Intervals and p by drawing whole networks anew; {level} is the level that the"
                " correction comes to, at which an interval excludes 0 where a claim is decided."
            ),
            *dict.fromkeys(
                f"Claim {decision.claim}, {decision.what}: {decision.why}."
                for decision in self.decisions
                if decision.why
            ),
        ]
        return ReportTable(
            f"{self.name}-claims",
            "What Ng et al. 2022 claim, on these networks",
            columns,
            rows,
            notes,
        )

    # -- words
    # ----------------------------------------------------------------------------------------------

    def verdicts(self) -> list[str]:
        """A sentence for each claim that was tested."""
        out = []
        for claim, claim_decisions in groupby(self.decisions, key=lambda decision: decision.claim):
            decisions = list(claim_decisions)
            words = _verdict_words([decision.verdict for decision in decisions])
            out.append(f"Claim {claim}, that {CLAIMS[claim]}: {words}.")
        return out

    def intro(self) -> list[str]:
        """Which networks these are, and which were left out."""
        pool = self.pool
        out = [_networks_words(pool)]
        if pool.again:
            out.append(
                f"The sets {', '.join(pool.again)} are draws of one domain: the claims of Ng et al."
                " 2022 are not judged over them."
            )
        if pool.criteria or pool.losses:
            out.append(_criterion_words(pool))
        if pool.rises:
            rises = ", ".join(
                f"{label} {rise:+.2f}"
                for label, rise in pool.rises.items()
                if pool.neighbourhoods[label] == "largest"
            )
            out.append(
                "Outputs for the neighbours have more entropy than those for the rows by, in nats:"
                f" {rises}. The paper says that a measure fails above {RISE:g}."
            )
        return out


def _verdict_words(verdicts: Sequence[str]) -> str:
    """The verdicts of the tests of one claim, in words."""
    counts = Counter(verdicts)
    if len(verdicts) == 1:
        return verdicts[0]
    if len(counts) == 1:
        return f"{verdicts[0]}, in all {len(verdicts)} tests"
    counted = [
        f"{verdict} in {counts[verdict]}"
        for verdict in (HOLDS, OPPOSITE, CANNOT_TELL)
        if counts[verdict]
    ]
    words = f"of {len(verdicts)} tests it {', '.join(counted)}"
    return words.replace(f"it {CANNOT_TELL}", "it is undecided")


def _networks_words(pool: ModelPool) -> str:
    """How many networks there are, and what they were trained and are tested on."""
    architectures = ", ".join(f"{count} {name}" for name, count in pool.architectures.items())
    pairs = {(p.training, p.test) for points in pool.values.values() for p in points}
    trained = {training for training, _ in pairs}
    shifted = {test for training, test in pairs if test != training}
    in_domain = any(training == test for training, test in pairs)
    words = (
        f"{len(pool.methods)} networks ({architectures}) trained on {', '.join(sorted(trained))},"
        f" on {len(shifted)} shifted test domains"
    )
    words += " and in domain." if in_domain else "."
    if trained & shifted:
        words += " A training domain is shifted for networks trained on another."
    if pool.apart:
        return f"{words} Each architecture is judged alone."
    return f"{words} All architectures are judged as one."


def _criterion_words(pool: ModelPool) -> str:
    """When training stopped, and which networks did not get there."""
    with_criterion = pool.criteria.keys() | pool.losses.keys()
    n_with, n_without = len(with_criterion), len(pool.methods.keys() - with_criterion)
    counts = sorted(Counter(pool.criteria.values()).items(), reverse=True)
    shares = [f"{share:.0%}" for share, _ in counts]
    if len(counts) > 1:
        shares = [f"{share:.0%} (of {count} networks)" for share, count in counts]
    stops = [f"{', '.join(shares)} of the training rows were right"] if shares else []
    losses = [f"{loss:g}" for loss in sorted(set(pool.losses.values()))]
    if losses:
        stops.append(f"the mean loss on the training rows was at most {', '.join(losses)} nats")
    sentences = [f"Training stopped when {' or when '.join(stops)}."]
    if pool.missed:
        missed = pool.missed[:_MISSED_SHOWN]
        if len(pool.missed) > _MISSED_SHOWN:
            missed.append(f"and {len(pool.missed) - _MISSED_SHOWN} more")
        sentences.append(
            f"{len(pool.missed)} of {n_with} took all their steps without it, and are in none of"
            f" these numbers: {'; '.join(missed)}."
        )
    elif n_without:
        sentences.append(f"All {n_with} networks with this criterion reached it.")
    else:
        sentences.append("All networks reached it.")
    if n_without:
        sentences.append(f"The other {n_without} networks had no such criterion.")
    return " ".join(sentences)


def _difference_cells(difference: Difference | None) -> tuple[Cell, Cell, Cell]:
    """The mean of a difference, its interval and its p, each None where there is none."""
    if difference is None:
        return None, None, None
    ends = f"{difference.low:+.3f} to {difference.high:+.3f}" if difference.sd else None
    p = None if difference.p is None else _p(difference.p)
    return f"{difference.mean:+.3f}", ends, p


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "<0.001"
