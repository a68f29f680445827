"""Methods and architectures of a study in one view, by family: change against the baseline, ranks,
and whether shifts agree.

A row is a method on the main model, the one that most methods run on, or the reference on another
model. The baseline is the reference on the main model. Data sets are averaged; sizes, test sets and
selection rules stay apart. Jeon et al. 2025, figure 3.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

from crosswind.core.errors import InputError
from crosswind.core.registry import facts
from crosswind.evaluation.compare import Difference, holm, mean_ranks, paired
from crosswind.evaluation.metrics import HEADLINE
from crosswind.evaluation.multiplicity import ADJUST, judged_together, percent
from crosswind.evaluation.multiplicity import Family as MultipleTests
from crosswind.reports.charts import Figure, chart, text
from crosswind.reports.scores.figures import method_map
from crosswind.reports.scores.notes import (
    doubt_notes,
    interval_note,
    oracle_notes,
    points_tried,
    with_mark,
)
from crosswind.reports.scores.results import LEVEL, Entry, Place, PlaceResults
from crosswind.reports.tables import Cell, Score, Table, slug
from crosswind.studies.claims import unshifted

LEAST = 3
"""Families that a study must have for this view."""

OTHER = "other"
"""The family of methods that no paper places."""

Values = dict[Any, float]


@dataclass(frozen=True)
class Families:
    """Rows of one size, test set and selection rule. `places` are the data sets, each with the rows
    of all models.

    `family` names the family of every row, families together; the baseline is the first row.
    `plain`: the shift without a part. `multiplicity`: what its changes are corrected by; they are
    one family of tests.
    """

    places: Sequence[PlaceResults]
    family: Mapping[str, str]
    plain: str | None
    multiplicity: str = "holm"

    @property
    def place(self) -> Place:
        """What the rows share."""
        return self.places[0].place._replace(data="", model="")

    @property
    def baseline(self) -> str:
        """The row that others are compared with."""
        return self.places[0].reference

    @property
    def shifts(self) -> list[str]:
        """The shifts of all data sets."""
        return list(dict.fromkeys(shift for at in self.places for shift in at.shifts))

    @property
    def shifted(self) -> list[str]:
        """The shifts but the one without a part."""
        return [shift for shift in self.shifts if shift != self.plain]

    @property
    def methods(self) -> list[str]:
        """The rows of methods on the main model, without the baseline."""
        models = {
            name for name, family in self.family.items() if family == self.family[self.baseline]
        }
        return [row for row in self.family if row not in models]

    def entries(self, shift: str, row: str) -> list[Entry]:
        """The results of a row under a shift, of each data set."""
        return [at.entries[shift, row] for at in self.places if (shift, row) in at.entries]

    def accuracy(self, rows: Sequence[str], shifts: Sequence[str]) -> Values:
        """Mean accuracy of several rows under several shifts by seed, all equally heavy; seeds that
        lack a score are left out."""
        return _mean(
            [self._over_data(shift, row, percent=False) for row in rows for shift in shifts]
        )

    def change(
        self, rows: Sequence[str], shifts: Sequence[str], level: float = LEVEL
    ) -> Difference | None:
        """Mean change against the baseline in percent of its accuracy, paired by seed, of several
        rows under several shifts."""
        values = self.changes(rows, shifts)
        return paired(dict.fromkeys(values, 0.0), values, level)

    @property
    def columns(self) -> list[list[str]]:
        """The shifts of every column of the table of changes: each alone, and all that have a
        part."""
        return [[shift] for shift in self.shifts] + [self.shifted] * (len(self.shifted) > 1)

    @cached_property
    def verdicts(self) -> MultipleTests[tuple[str, int]]:
        """The changes by row and number of the column, judged together."""
        changes = {
            (row, place): self.change([row], shifts)
            for row in self.family
            if row != self.baseline
            for place, shifts in enumerate(self.columns)
        }
        known = {
            name: item.p
            for name, item in changes.items()
            if item is not None and item.p is not None
        }
        return judged_together(known, self.multiplicity)

    def changes(self, rows: Sequence[str], shifts: Sequence[str]) -> Values:
        """The same by seed."""
        return _mean(
            [self._over_data(shift, row, percent=True) for row in rows for shift in shifts]
        )

    def _over_data(self, shift: str, row: str, percent: bool) -> Values:
        parts: list[Values] = []
        for at in self.places:
            if shift not in at.shifts or row not in at.methods:
                continue
            own, base = (
                at.entries.get((shift, name), Entry()).values(HEADLINE.name)
                for name in (row, self.baseline)
            )
            parts.append(
                {k: 100 * (v / base[k] - 1) for k, v in own.items() if base.get(k)}
                if percent
                else own
            )
        return _mean(parts)

    def agreement(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Rank correlation and two-sided p of the methods' mean accuracies by pair of shifts; of at
        least four methods."""
        found = {}
        means = {
            (shift, row): self.accuracy([row], [shift])
            for shift in self.shifts
            for row in self.methods
        }
        for one, other in combinations(self.shifts, 2):
            rows = [row for row in self.methods if means[one, row] and means[other, row]]
            pairs = [
                [
                    sum(values.values()) / len(values)
                    for values in (means[one, row], means[other, row])
                ]
                for row in rows
            ]
            if len(pairs) >= 4 and (rho := rank_correlation(*zip(*pairs, strict=True))) is not None:
                found[one, other] = rho
        return found


def _mean(parts: Sequence[Values]) -> Values:
    shared = [key for key in parts[0] if all(key in part for part in parts)] if parts else []
    return {key: math.fsum(part[key] for part in parts) / len(parts) for key in shared}


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> tuple[float, float] | None:
    """Spearman's rank correlation and its two-sided p by the t distribution; None where one side is
    constant."""
    from scipy.special import stdtr

    ranks = [
        list(mean_ranks([{str(i): value for i, value in enumerate(side)}]).mean.values())
        for side in (one, other)
    ]
    middle, n = (len(one) + 1) / 2, len(one)
    dots = [
        math.fsum((a - middle) * (b - middle) for a, b in zip(x, y, strict=True))
        for x in ranks
        for y in ranks
    ]
    if not dots[0] or not dots[3]:
        return None
    rho = max(-1.0, min(1.0, dots[1] / math.sqrt(dots[0] * dots[3])))
    return rho, (
        0.0
        if abs(rho) > 1 - 1e-12
        else float(2 * stdtr(n - 2, -abs(rho) * math.sqrt((n - 2) / (1 - rho * rho))))
    )


def families(places: Sequence[PlaceResults], resolved: Mapping[str, Any]) -> list[Families]:
    """The view of every size, test set and rule of a study; empty where its rows are of fewer than
    `LEAST` families."""
    if not places:
        return []
    reference = places[0].reference
    runs = dict.fromkeys((at.place.model, method) for at in places for method in at.methods)
    many = Counter(model for model, _ in runs)
    main = max(many, key=lambda model: many[model])
    if (main, reference) not in runs:  # nothing to be compared with
        return []
    of, family = _named(places, resolved), _families(places, resolved, reference)

    def row(model: str, method: str) -> str:
        if method == reference and len(many) > 1:
            return model
        return of[method] if model == main else f"{of[method]} on {model}"

    order = sorted(runs, key=lambda key: (key != (main, reference), list(family).index(key[1])))
    groups = dict.fromkeys(family[method] for _, method in order)
    rows = {row(*key): name for name in groups for key in order if family[key[1]] == name}
    found: dict[Place, dict[str, PlaceResults]] = {}
    for at in places:
        merged = found.setdefault(at.place._replace(data="", model=""), {})
        data, base = at.place.data, row(main, reference)
        old = merged.get(data) or PlaceResults(at.place._replace(model=""), base, at.shifts, [], {})
        named = {method: row(at.place.model, method) for method in at.methods}
        methods = [name for name in rows if name in {*old.methods, *named.values()}]
        entries = {(shift, named[method]): entry for (shift, method), entry in at.entries.items()}
        merged[data] = replace(old, methods=methods, entries={**old.entries, **entries})
    several = len(groups) >= LEAST
    plain = unshifted(resolved.get("shifts", {}))
    multiplicity = str(resolved.get("multiplicity", "holm"))
    return (
        [Families(list(merged.values()), rows, plain, multiplicity) for merged in found.values()]
        if several
        else []
    )


def _named(places: Sequence[PlaceResults], resolved: Mapping[str, Any]) -> dict[str, str]:
    """What a method's label is called: the method, where no other label of it runs on the same
    data, else the label."""
    methods = {label: _registered(label, resolved) for at in places for label in at.methods}
    taken = Counter(
        (data, methods[label])
        for data, label in {(at.place.data, label): None for at in places for label in at.methods}
    )
    double = {method for (_, method), count in taken.items() if count > 1}
    return {label: label if method in double else method for label, method in methods.items()}


def _families(
    places: Sequence[PlaceResults], resolved: Mapping[str, Any], reference: str
) -> dict[str, str]:
    """The family of every label, families together, that of the reference first; by the paper that
    places most of them."""
    known: dict[str, Mapping[str, str]] = {}
    for label in dict.fromkeys(label for at in places for label in at.methods):
        try:
            known[label] = facts("methods", _registered(label, resolved)).family or {}
        except InputError:  # a method of a package that is not here
            known[label] = {}
    papers = Counter(paper for families in known.values() for paper in families)
    paper = max(papers, key=lambda name: papers[name], default="")
    found = {label: str(families.get(paper, OTHER)) for label, families in known.items()}
    order = list(dict.fromkeys(found.values()))
    first = found.get(reference, OTHER)
    return dict(
        sorted(
            found.items(),
            key=lambda item: (item[1] != first, item[1] == OTHER, order.index(item[1])),
        )
    )


def _registered(label: str, resolved: Mapping[str, Any]) -> str:
    given = resolved.get("methods")
    settings = given.get(label) if isinstance(given, Mapping) else None
    return str((settings or {}).get("method", label))


# -- tables and figure
# --------------------------------------------------------------------------------------------------


def change_table(item: Families) -> Table:
    """Change against the baseline in percent of its accuracy: a row a method or architecture, a
    column a shift and their mean."""
    layouts = set()
    rows: list[list[Cell]] = []
    for row, family in item.family.items():
        if row == item.baseline:
            continue
        cells: list[Cell] = []
        for place, shifts in enumerate(item.columns):
            found = item.change([row], shifts, item.verdicts.level)
            entries = [entry for shift in shifts for entry in item.entries(shift, row)]
            if found is not None:
                layouts.add((found.splits, found.n))
            star = (
                ""
                if found is None
                else with_mark(" *" if item.verdicts.tells((row, place)) else "", *entries)
            )
            cells.append(
                None
                if found is None
                else Score(found.mean, found.half_width, found.n, "percent", star, signed=True)
            )
        rows.append([family, row, *cells])
    several = f"the mean over {len(item.places)} data sets, then " if len(item.places) > 1 else ""
    notes = [
        (
            f"100 x (accuracy / accuracy of {item.baseline} at the same seed - 1), {several}the"
            " mean over seeds. The last column is the mean over the shifts that have a part."
        ),
        interval_note(layouts, item.verdicts.level),
        f"* {_star_words(item)}.",
    ]
    return _table(
        "families",
        f"Change of accuracy in % of that of {item.baseline}",
        item,
        ["family", "row", *item.shifts],
        rows,
        notes,
    )


def rank_by_seed_table(item: Families) -> Table | None:
    """Mean rank over the shifts: a row a method or architecture, a column a data set and seed. None
    where no block is whole."""
    columns: dict[str, Mapping[str, float]] = {}
    for at in item.places:
        seeds = dict.fromkeys(
            seed for entry in at.entries.values() for seed in entry.values(HEADLINE.name)
        )
        for seed in seeds:
            blocks = [
                {
                    row: value
                    for row in at.methods
                    if (value := _score(at, shift, row, seed)) is not None
                }
                for shift in at.shifts
            ]
            if all(len(block) == len(at.methods) for block in blocks):
                columns[f"{at.place.data} seed {seed}"] = mean_ranks(blocks).mean
    if not columns:
        return None
    means = {row: [ranks.get(row) for ranks in columns.values()] for row in item.family}
    rows: list[list[Cell]] = [[item.family[row], row, *cells] for row, cells in means.items()]
    notes = [
        f"Mean over {', '.join(item.shifts)} of the rank by accuracy among the rows; 1 is best,"
        " equal accuracies share a rank."
    ]
    return _table(
        "ranks by seed",
        "Mean rank by data set and seed",
        item,
        ["family", "row", *columns],
        rows,
        notes,
    )


def _score(at: PlaceResults, shift: str, row: str, seed: Any) -> float | None:
    entry = at.entries.get((shift, row))
    return None if entry is None else entry.values(HEADLINE.name).get(seed)


def agreement_table(item: Families) -> Table | None:
    """Whether the order of methods is the same under two shifts: their rank correlation by pair of
    shifts. None without a pair."""
    found = item.agreement()
    if not found:
        return None
    adjusted = holm({pair: p for pair, (_, p) in found.items()})
    shifts = item.shifts
    rows: list[list[Cell]] = []
    for one in shifts[:-1]:
        cells: list[Cell] = []
        for other in shifts[1:]:
            told = found.get((one, other))
            cells.append(
                None
                if told is None
                else f"{told[0]:+.2f}{' *' if adjusted[one, other] < 1 - LEVEL else ''}"
            )
        rows.append([one, *cells])
    notes = [
        (
            f"Spearman's rank correlation of the mean accuracies of the {len(item.methods)} rows"
            " that are no architecture, between two shifts. +1: the same order. Methods are taken"
            " as draws from such methods."
        ),
        f"* p < 0.05 by Holm over {len(found)} pairs.",
    ]
    return _table(
        "agreement", "Do shifts agree on methods", item, ["shift", *shifts[1:]], rows, notes, keys=1
    )


def _table(
    what: str,
    title: str,
    item: Families,
    columns: list[str],
    rows: list[list[Cell]],
    notes: list[str],
    keys: int = 2,
) -> Table:
    if what == "families" and len(item.shifted) > 1:
        columns = [*columns, "mean of shifts"]
    place = item.place
    about = ", ".join(
        filter(None, (place.study, place.size and f"size {place.size}", f"selection {place.rule}"))
    )
    told = (
        [line for at in item.places for line in (*points_tried(at)[1], *doubt_notes(at))]
        if what == "families"
        else []
    )
    notes = [*notes, *oracle_notes(place), *dict.fromkeys(told)]
    return Table(
        slug(what, *place), f"{title} on {place.set} ({about})", tuple(columns), rows, notes, keys
    )


def _star_words(item: Families) -> str:
    """What a star or frame says: the changes of this view are a family of their own beside the
    comparisons of the findings."""
    verdicts = item.verdicts
    by = "each alone"
    if verdicts.multiplicity in ADJUST:
        by = (
            f"by {ADJUST[verdicts.multiplicity][0]} over the {len(verdicts.adjusted)} changes of"
            " this view"
        )
    return f"p < 0.05 {by}, so that the {percent(verdicts.level)} interval excludes 0"


def family_map(item: Families) -> Figure | None:
    """Row x shift: change in percent of the baseline's accuracy, a panel a family; a frame where
    the interval excludes 0."""
    data: list[dict[str, Any]] = []
    for row, family in item.family.items():
        for column, shift in enumerate(item.shifts if row != item.baseline else ()):
            found = item.change([row], [shift], item.verdicts.level)
            if found is None:
                continue
            differs = item.verdicts.tells((row, column))
            bounds = (
                f"{found.low:+.1f} to {found.high:+.1f}"
                if found.sd
                else "one run or equal runs, no interval"
            )
            star = with_mark(
                f"{found.mean:+.1f}{' *' if differs else ''}", *item.entries(shift, row)
            )
            told = {"d": round(found.mean, 6), "i": bounds, "n": found.n, "t": star, "x": differs}
            data.append({"f": family, "m": row, "s": shift, **told})
    if not data:
        return None
    rows, groups = (
        [row for row in item.family if row != item.baseline],
        list(dict.fromkeys(item.family.values())),
    )
    tooltip = [
        ("d", "change in %", "+.1f"),
        ("i", f"{percent(item.verdicts.level)} interval"),
        ("n", "runs"),
    ]
    view = method_map(item.shifts, rows, tooltip, diverging=True)
    del view["data"]
    header = {"labelOrient": "top", "labelAnchor": "start", "labelPadding": 2}
    facet = {"row": text("f", title=None, sort=groups, header=header)}
    spec = {
        "data": {"name": "rows"},
        "facet": facet,
        "spec": view,
        "spacing": 8,
        "resolve": {"scale": {"y": "independent"}},
    }
    # Names of rows are not counted into the width of panels one above the other.
    spec["padding"] = {
        "left": 5 + 7 * max(0, max(map(len, rows)) - 9),
        "right": 5,
        "top": 5,
        "bottom": 5,
    }
    place, exclude = item.place, sum(row["x"] for row in data)
    return Figure(
        slug("families", *place),
        f"Change of {HEADLINE.words} in % of that of {item.baseline} on {place.set}, by family",
        f"Blue is above {item.baseline}, orange below, paired by seed. Of a framed cell (*)"
        f" {_star_words(item)}; a pale cell has an interval that holds 0, or none: the seeds do not"
        " settle the direction.",
        f"Heat map of {len(rows)} methods and architectures in {len(groups)} families and"
        f" {len(item.shifts)} shifts: mean change between {min(row['d'] for row in data):+.1f} and"
        f" {max(row['d'] for row in data):+.1f} %; {exclude} of {len(data)} intervals exclude 0.",
        chart(spec, {"rows": data}, most=max(5.0, *(abs(row["d"]) for row in data))),
        "step",
    )
