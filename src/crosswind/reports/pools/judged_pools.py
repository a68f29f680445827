"""Estimators of accuracy judged on a pool of networks, as Ng et al. 2022 do in section 4.3: claims,
tables, words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

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
from crosswind.reports.pools import estimate_figures as draw
from crosswind.reports.pools.networks import ModelPool
from crosswind.reports.tables import Cell, ReportTable, slug

ATC = ("atc-mc", "atc-ne")
"""The baselines of Ng et al. 2022, by their registered names."""


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
            name: self._of(
                {
                    label: [p for p in method_points if methods[p.network] == name]
                    for label, method_points in self.pool.values.items()
                },
                False,
            )
            for name in named
        }

    @cached_property
    def by_architecture(self) -> dict[str, dict[str, PoolJudgement]]:
        """By architecture with networks enough and estimator."""
        counts, values = self.pool.architectures, self.pool.values
        named = (
            [name for name, count in counts.items() if count >= LEAST] if len(counts) > 1 else []
        )
        return {
            name: self._of(
                {
                    label: [p for p in architecture_points if p.architecture == name]
                    for label, architecture_points in values.items()
                },
                True,
            )
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
        return (
            decide(invariances, baselines, pool.rises, by_architecture=pool.apart)
            if invariances and pool.judged and not pool.again
            else []
        )

    # -- tables
    # ----------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """What names of tables begin with."""
        return slug("pool", self.pool.name)

    @cached_property
    def tables(self) -> dict[str, list[ReportTable]]:
        """The tables by what they are about: claims, all, domains, lines, parts, forms, one
        network."""
        pool, name = self.pool, self.name
        if not pool.judged:
            return {"one network": [self._across()]}
        counted_networks = f"{len(pool.methods)} networks on {pool.name}"
        titles = {
            "tau": f"Kendall's tau by test domain, {counted_networks}",
            "r2": f"Squared correlation by test domain, {counted_networks}",
            "micro": f"Micro tau by test domain, {counted_networks}",
        }
        domains = [
            draw.domain_table(
                f"{name}-{key}",
                title,
                {
                    label: {d: getattr(on_domain, key) for d, on_domain in domains_of.items()}
                    for label, domains_of in self.on_domains.items()
                },
            )
            for key, title in titles.items()
            if any(
                getattr(on_domain, key).value is not None
                for domains_of in self.on_domains.values()
                for on_domain in domains_of.values()
            )
        ]
        part_tables = []
        if self.by_method:
            title = f"By training method, all architectures as one pool, {counted_networks}"
            part_tables.append(
                draw.part_table(f"{name}-methods", title, "method", self.by_method, self.held)
            )
        if self.by_architecture:
            part_tables.append(
                draw.part_table(
                    f"{name}-architectures",
                    f"By architecture, {counted_networks}",
                    "architecture",
                    self.by_architecture,
                    self.held,
                )
            )
        return {
            "claims": [self._claims()] if self.decisions else [],
            "all": [
                draw.measure_table(
                    f"{name}-measures",
                    f"How closely values go with accuracy, {counted_networks}",
                    self.every,
                    self.held,
                )
            ],
            "domains": domains,
            "lines": [
                draw.line_table(
                    f"{name}-lines", f"Accuracies told by a line, {counted_networks}", self.every
                )
            ],
            "parts": part_tables,
            "forms": [*self._less_atc(), *self._forms()],
            "one network": [self._across()],
        }

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
        same = {(p.network, p.test) for p in values[reference]}
        other_points = {
            label: points
            for label, points in values.items()
            if label != reference and {(p.network, p.test) for p in points} == same
        }
        compared = comparisons(
            values[reference], other_points, held="test", by_architecture=self.pool.apart
        )
        title = f"Every estimator less {reference}, errors by lines that did not see the domain"
        return (
            [draw.comparison_table(f"{self.name}-less-{reference}", title, reference, compared)]
            if compared
            else []
        )

    def _forms(self) -> list[ReportTable]:
        """The other forms of a neighbourhood's measure against the share of the commonest answer
        (appendix B.3)."""
        pool, out = self.pool, []
        for name in dict.fromkeys(pool.names[label] for label in pool.neighbourhoods):
            mine = {
                form: label
                for label, form in pool.neighbourhoods.items()
                if pool.names[label] == name
            }
            if "largest" in mine and len(mine) > 1:
                other_points = {
                    label: pool.values[label] for form, label in mine.items() if form != "largest"
                }
                compared = comparisons(
                    pool.values[mine["largest"]],
                    other_points,
                    held="test",
                    by_architecture=pool.apart,
                )
                title = f"Other forms of {name} less the share of the commonest answer"
                out.append(
                    draw.comparison_table(
                        f"{self.name}-forms-{name}", title, mine["largest"], compared
                    )
                )
        return out

    def _claims(self) -> ReportTable:
        rows: list[tuple[Cell, ...]] = []
        for decision in self.decisions:
            difference = decision.found
            ends = (
                None
                if difference is None or not difference.sd
                else f"{difference.low:+.3f} to {difference.high:+.3f}"
            )
            p = None if difference is None or difference.p is None else _p(difference.p)
            rows.append(
                (
                    decision.claim,
                    decision.verdict,
                    decision.what,
                    None if difference is None else f"{difference.mean:+.3f}",
                    ends,
                    p,
                    _p(decision.adjusted),
                )
            )
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
            counts = Counter(decision.verdict for decision in decisions)
            if len(decisions) == 1:
                verdict_words = decisions[0].verdict
            elif len(counts) == 1:
                verdict_words = f"{decisions[0].verdict}, in all {len(decisions)} tests"
            else:
                verdict_words = ", ".join(
                    f"{verdict} in {counts[verdict]}"
                    for verdict in (HOLDS, OPPOSITE, CANNOT_TELL)
                    if counts[verdict]
                )
                verdict_words = f"of {len(decisions)} tests it {verdict_words}".replace(
                    f"it {CANNOT_TELL}", "it is undecided"
                )
            out.append(f"Claim {claim}, that {CLAIMS[claim]}: {verdict_words}.")
        return out

    def intro(self) -> list[str]:
        """Which networks these are, and which were left out."""
        pool = self.pool
        listed = ", ".join(f"{count} {name}" for name, count in pool.architectures.items())
        pairs = {(p.training, p.test) for points in pool.values.values() for p in points}
        trained, shifted = (
            {training for training, _ in pairs},
            {test for training, test in pairs if test != training},
        )
        out = [
            f"{len(pool.methods)} networks ({listed}) trained on {', '.join(sorted(trained))}, on"
            f" {len(shifted)} shifted "
            "test"
            f" domains{' and in domain' if any(training == test for training, test in pairs) else ''}."
            f"{' A training domain is shifted for networks trained on another.' if trained & shifted else ''}"
            f"{' Each architecture is judged alone.' if pool.apart else ' All architectures are judged as one.'}"
        ]
        if pool.again:
            out.append(
                f"The sets {', '.join(pool.again)} are draws of one domain: the claims of Ng et al."
                " 2022 are not judged over them."
            )
        if pool.criteria:
            counts = sorted(Counter(pool.criteria.values()).items(), reverse=True)
            every, free = len(pool.criteria), len(pool.methods.keys() - pool.criteria.keys())
            shares = ", ".join(
                f"{share:.0%} (of {count} networks)" if len(counts) > 1 else f"{share:.0%}"
                for share, count in counts
            )
            missed_words = "; ".join(pool.missed[:12]) + (
                f"; and {len(pool.missed) - 12} more" if len(pool.missed) > 12 else ""
            )
            missed_sentence = (
                f"{len(pool.missed)} of {every} took all their steps without it, and are in none of"
                f" these numbers: {missed_words}."
            )
            missed_sentence = (
                missed_sentence
                if pool.missed
                else (
                    f"All {'networks' if not free else f'{every} networks with this criterion'}"
                    " reached it."
                )
            )
            missed_sentence += f" The other {free} networks had no such criterion." if free else ""
            out.append(
                f"Training stopped when {shares} of the training rows were right. {missed_sentence}"
            )
        if pool.rises:
            own_rises = {
                label: rise
                for label, rise in pool.rises.items()
                if pool.neighbourhoods[label] == "largest"
            }
            missed_sentence = ", ".join(f"{label} {rise:+.2f}" for label, rise in own_rises.items())
            out.append(
                "Outputs for the neighbours have more entropy than those for the rows by, in nats:"
                f" {missed_sentence}. The paper says that a measure fails above {RISE:g}."
            )
        return out


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "<0.001"
