"""The question of a study with a spurious correlation, and its answer, for a reader of another
field. They say what tying an attribute to the label costs, for whom it is worst, and what helps.

Also what makes the question idle: a network that is no better than guessing without a shift, or a
class that none of them learns.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from crosswind.evaluation.metrics import HEADLINE
from crosswind.evaluation.multiplicity import effects_told
from crosswind.reports.claims.shift_words import joined
from crosswind.reports.claims.verdict_words import POWER
from crosswind.reports.claims.verdicts import COST, EFFECT_OF, Finding
from crosswind.reports.scores.notes import at_chance, chance_level, is_above_chance_on_rows
from crosswind.reports.scores.results import Entry, Place, PlaceResults

FEW_ROWS = 30
"""Test rows of a group: of fewer a sentence says how many there are."""
NEVER_LEARNT = 0.05
"""A class of which so few rows are right in every group, without a shift, is one that nobody
learns."""
UNEVEN = 1.5
"""How many times as many rows the largest group of a test set may have for it to count as even."""
LISTED_METHODS = 6
"""Methods that are named where none was told to help; of more their number is said."""
HEADING = "What tying an attribute to the label does"


class _TiedShift(NamedTuple):
    """A spurious correlation as a study states it. It has its name, the attribute and the label,
    the share of training that shows a matched value (None: not known), and what a row is."""

    shift: str
    attribute: str
    label: str
    share: float | None
    rows: str


def question_sentences(
    rule_results: Sequence[PlaceResults], findings: Sequence[Finding], resolved: Mapping[str, Any]
) -> list[str]:
    """The answers of a study, what makes them idle first, then the tie that costs most."""
    answers: list[tuple[float, str]] = []
    doubts: list[str] = []
    where = _where([at_place.place for at_place in rule_results])
    for at_place in rule_results:
        unshifted = unshifted_entry(at_place, resolved)
        uniform = _is_uniform(at_place.place.set, resolved)
        if unshifted is None or not uniform or not _is_even(unshifted):
            continue
        ties = list(_ties(at_place, resolved))
        doubt = idle_reason(at_place, unshifted) if ties else ""
        if doubt:
            doubts.append(where(at_place.place) + doubt)
            continue
        for tie in ties:
            costs = _costs_of(findings, at_place.place, tie.shift)
            entry = at_place.entries.get((tie.shift, at_place.reference))
            cost = costs.get(HEADLINE.name)
            if cost is None or entry is None:
                continue
            largest = max(
                (abs(finding.difference.mean) for finding in costs.values() if finding.told),
                default=0.0,
            )
            helps = _what_helps(at_place, findings, tie.shift)
            answers.append(
                (
                    -largest,
                    where(at_place.place) + _answer(tie, at_place.reference, entry, costs) + helps,
                )
            )
    return doubts + [sentence for _, sentence in sorted(answers, key=lambda answer: answer[0])]


def _costs_of(findings: Sequence[Finding], place: Place, shift: str) -> dict[str, Finding]:
    """The costs of a shift for the reference at a place, by metric."""
    return {
        finding.metric: finding
        for finding in findings
        if finding.kind == COST and finding.place == place and finding.shift == shift
    }


def power_words(finding: Finding) -> str:
    """The cost that a comparison would have told, as the end of a sentence; empty without a
    spread, of two guesses, and where seeds are crossed with split seeds."""
    difference = finding.difference
    if finding.guesses or not difference.sd or difference.n < 2 or difference.crossed:
        return ""
    least, largest = effects_told(difference.sd, difference.n, finding.level, POWER)
    power_text = f"would have been told with a power of {POWER:.0%}"
    if least >= 1:
        return f"no cost, however large, {power_text}"
    if largest >= 1:
        return f"at best a cost of {_points(least)} points {power_text}"
    points = sorted({_points(effect) for effect in (least, largest)}, key=float)
    return f"a cost of {' to '.join(points)} points {power_text}"


# -- what was asked --------------------------------------------------------------------------------


def unshifted_entry(at_place: PlaceResults, resolved: Mapping[str, Any]) -> Entry | None:
    """The reference without a shift at a place."""
    shifts = resolved.get("shifts", {})
    return next(
        (
            at_place.entries[shift, at_place.reference]
            for shift in at_place.shifts
            if not shifts.get(shift, True) and (shift, at_place.reference) in at_place.entries
        ),
        None,
    )


def _is_uniform(set_name: str, resolved: Mapping[str, Any]) -> bool:
    """Whether the rows of a set are drawn evenly over the cells, so that the attribute tells
    nothing there."""
    named = resolved.get("sets", {}).get(set_name, {})
    return not isinstance(named, Mapping) or named.get("law", "uniform") == "uniform"


def _is_even(entry: Entry) -> bool:
    """Whether the groups of a set have about as many rows each: a law that is uniform draws what
    there is where it is asked for all rows."""
    rows = [
        scores["n"]
        for run_scores in list(entry.metrics.values())[:1]
        for scores in (run_scores.get("groups") or {}).values()
    ]
    return not rows or max(rows) <= UNEVEN * min(rows)


def _ties(at_place: PlaceResults, resolved: Mapping[str, Any]) -> Iterator[_TiedShift]:
    """The shifts of a place that are one spurious correlation each."""
    data = resolved.get("data", {}).get(at_place.place.data)
    if not isinstance(data, Mapping):
        return
    slots = data["attributes"] if isinstance(data["attributes"], Mapping) else {}
    for shift in at_place.shifts:
        settings = resolved.get("shifts", {}).get(shift)
        settings = settings[0] if isinstance(settings, list) and len(settings) == 1 else settings
        if not isinstance(settings, Mapping) or settings.get("type") != "spurious-correlation":
            continue
        attribute = str(slots.get(settings["attribute"], settings["attribute"]))
        entry = at_place.entries.get((shift, at_place.reference))
        shape = (0, 0) if entry is None else _shape(entry, str(data["label"]), attribute)
        yield _TiedShift(
            shift,
            attribute,
            str(data["label"]),
            _matched_share(settings, attribute, shape),
            _rows(data),
        )


def _rows(data: Mapping[str, Any]) -> str:
    """The word for a row of a data set."""
    options = data.get("options") or {}
    if options.get("images") is not None or data.get("source") in ("image-folder", "digits"):
        return "pictures"
    return "texts" if options.get("text") is not None else "rows"


def _shape(entry: Entry, label: str, attribute: str) -> tuple[int, int]:
    """The numbers of classes and of values that the groups of a test set show; 0 where the groups
    are of other attributes."""
    classes, values = set(), set()
    accuracies = _group_accuracies(entry)
    columns = _columns(accuracies)
    for name in accuracies:
        value_of = dict(_values(name, columns))
        if {label, attribute} <= value_of.keys():
            classes.add(value_of[label])
            values.add(value_of[attribute])
    return len(classes), len(values)


def _matched_share(
    settings: Mapping[str, Any], attribute: str, shape: tuple[int, int]
) -> float | None:
    """The share of training that shows a value matched to its class, classes alike."""
    strengths = settings.get("strength", 1.0)
    strength = float(strengths.get(attribute, 1.0) if isinstance(strengths, Mapping) else strengths)
    n_classes, n_values = shape
    if strength < 1:
        if not n_values:
            return None
        by_chance = max(n_values / n_classes, 1.0) / n_values
        return strength + (1 - strength) * by_chance
    extra = settings.get("counterexamples", 0.01)
    if isinstance(extra, int) and extra > 0:
        return None
    return (
        1 / (1 + float(extra))
        if settings.get("counterexamples_from", "unmatched") == "unmatched"
        else None
    )


# -- the answer ------------------------------------------------------------------------------------


def _where(study_places: Sequence[Place]) -> Callable[[Place], str]:
    """A function for the words that tell a place from the others, but for the data alone: an
    attribute is named in each answer."""
    varying = [
        name
        for name in ("data", "model", "size")
        if len({getattr(setting, name) for setting in study_places}) > 1
    ]
    varying = varying if varying != ["data"] else []

    def words(setting: Place) -> str:
        names = [str(getattr(setting, name)) for name in varying]
        return f"{', '.join(names)}: " if names else ""

    return words


def idle_reason(at_place: PlaceResults, unshifted: Entry) -> str:
    """Why nothing can be told at a place, and what to change; empty where it can."""
    reference, summary = at_place.reference, unshifted.summary(HEADLINE.name)
    if summary is None:
        return ""
    if at_chance(unshifted, HEADLINE.name) and not is_above_chance_on_rows(unshifted):
        level = chance_level(unshifted, HEADLINE.name)
        assert level is not None, "what is at chance has a level of chance"
        return (
            f"{reference} learns nothing: it is right on {summary.mean:.1%} without any shift, no more"
            f" than guessing ({level:.1%}). No cost in accuracy can be told until it does: more steps, another"
            " learning rate, a larger network or more rows; or the inputs do not tell the label."
        )
    never = _never_learnt(unshifted)
    if never:
        return (
            f"nobody learns {never}: {reference} is right on less than {NEVER_LEARNT:.0%} of its rows"
            " without any shift, and the worst group says nothing. Leave the class out (keep), join"
            " it with another, or give it more rows."
        )
    return ""


def _never_learnt(entry: Entry) -> str:
    """The first class of which nearly no row is right, by its name; empty where there is none."""
    of_class: dict[str, list[float]] = defaultdict(list)
    group_accuracies = _group_accuracies(entry)
    columns = _columns(group_accuracies)
    for name, accuracy in group_accuracies.items():
        of_class["=".join(filter(None, _values(name, columns)[0]))].append(accuracy)
    learnt = {name: max(accuracies) for name, accuracies in of_class.items()}
    if len(learnt) < 2:
        return ""
    return next((name for name, best in learnt.items() if best < NEVER_LEARNT), "")


def _answer(tie: _TiedShift, reference: str, entry: Entry, costs: Mapping[str, Finding]) -> str:
    """The cost of a tie, and for whom it is worst."""
    cost = costs[HEADLINE.name]
    plain = f"plain training ({reference})" if reference == "erm" else reference
    tied = f"{tie.attribute} tied to {tie.label}"
    share = "" if tie.share is None else f" in {tie.share:.0%} of the training {tie.rows}"
    right = (
        f"With {tied}{share} ({tie.shift}), {plain} is right on {cost.value:.0%} of new {tie.rows}, in"
        f" which {tie.attribute} tells nothing"
    )
    return f"{right}, {_cost_words(cost)}{_worst_words(entry, costs.get('worst_group'))}."


def _cost_words(cost: Finding) -> str:
    """How many points fewer or more than without the tie, or that it cannot be told."""
    mean = cost.difference.mean
    points, side = _points(abs(mean)), "fewer" if mean < 0 else "more"
    unit = "point" if points == "1" else "points"
    if cost.interval is None:
        runs = "of a single run" if cost.difference.n == 1 else "the same at every seed"
        return f"{points} {unit} {side} than without the tie, {runs}, which may be chance"
    low, high = cost.interval
    if cost.told:
        ends = ", ".join(_points(end) for end in sorted((abs(low), abs(high))))
        return f"{points} {unit} [{ends}] {side} than without the tie"
    if cost.about_equal:
        signed = f"[{_points(low, '+')}, {_points(high, '+')}]"
        return f"as without the tie ({_points(mean, '+')} points {signed})"
    power = power_words(cost)
    would = f", {power}" if power else ""
    # An interval that holds 0 goes from fewer to more, and its ends say so as the number does.
    first, second = (low, high) if mean < 0 else (high, low)
    ends = f"[{_points_aside(first)} to {_points_aside(second)}]"
    return f"{points} {unit} {side} {ends} than without the tie, which may be chance{would}"


def _points_aside(difference: float) -> str:
    """A difference in points with the side that it is on, such as `7 fewer`; 0 is on none."""
    points = _points(abs(difference))
    side = "fewer" if difference < 0 else "more"
    return f"{points} {side}" if float(points) else "0"


def _points(difference: float, sign: str = "") -> str:
    """A difference in percentage points, with a decimal where it is below one; of an interval of few
    seeds no end is beyond 100."""
    points = min(100.0, max(-100.0, difference * 100))
    return f"{points:{sign}.0f}" if abs(points) >= 0.95 else f"{points:{sign}.1f}"


def _worst_words(entry: Entry, cost: Finding | None) -> str:
    """The group that is worst, by name, and what the tie costs it."""
    accuracies = _group_accuracies(entry) or _worst_groups(entry)
    rows_by_group = _rows_of_groups(entry)
    # The answer for a single row is right or wrong, and no accuracy of a group.
    several = [name for name in accuracies if rows_by_group.get(name, FEW_ROWS) > 1]
    if not several:
        return ""
    name = min(several, key=lambda group: accuracies[group])
    n_rows = rows_by_group.get(name, FEW_ROWS)
    few = f" of its {n_rows} test rows a run" if n_rows < FEW_ROWS else ""
    label, *attributes = (
        " ".join(filter(None, pair)) for pair in _values(name, _columns(accuracies))
    )
    words = " with ".join([label, *([joined(attributes)] if attributes else [])])
    lost = (
        f", where the worst group loses {abs(cost.difference.mean) * 100:.0f} points"
        if cost is not None and cost.told and cost.difference.mean < 0
        else ""
    )
    return f"; worst for {words}: {accuracies[name]:.0%}{few}{lost}"


def _what_helps(at_place: PlaceResults, findings: Sequence[Finding], shift: str) -> str:
    """Which method wins most back under a shift, or that none was told to."""
    effects = [
        finding
        for finding in findings
        if finding.kind == EFFECT_OF and finding.place == at_place.place and finding.shift == shift
    ]
    if not effects:
        return ""
    wins = [finding for finding in effects if finding.told and finding.difference.mean > 0]
    if not wins:
        tried = list(dict.fromkeys(finding.method for finding in effects))
        few = ", ".join(tried) if len(tried) <= LISTED_METHODS else f"{len(tried)} were tried"
        return f" No method was told to help ({few})."
    best = max(wins, key=lambda finding: (finding.metric == HEADLINE.name, finding.difference.mean))
    of_what = "of accuracy" if best.metric == HEADLINE.name else "in the worst group"
    interval = ""
    if best.interval is not None:  # of a gain that was told both ends are above 0
        interval = f" [{', '.join(_points(end) for end in best.interval)}]"
    return f" What helps: {best.method} wins {_points(best.difference.mean)} points {of_what}{interval}."


def _columns(names: Iterable[str]) -> list[str]:
    """The columns that the names of groups are made of, label first. A value may hold a comma and
    an equals sign, as `kind=moss, dry` and `kind=a, b=c`: columns stand in every name."""
    listed = [re.findall(r"(?:^|, )([^=,]+)=", name) for name in names]
    return [
        column
        for column in dict.fromkeys(listed[0] if listed else ())
        if all(column in columns for columns in listed)
    ]


def _values(name: str, columns: Sequence[str]) -> list[tuple[str, str]]:
    """The columns of a group with its values; its whole name and nothing where it has none."""
    starts = [
        (match.start(), match.end(), column)
        for column in columns
        if (match := re.search(rf"(?:^|, ){re.escape(column)}=", name))
    ]
    ends = [start for start, _, _ in starts[1:]] + [len(name)]
    values = [
        (column, name[first:end]) for (_, first, column), end in zip(starts, ends, strict=True)
    ]
    return values if values and starts[0][0] == 0 else [(name, "")]


def _worst_groups(entry: Entry) -> dict[str, float]:
    """The mean accuracy of the worst group, under the name of the one that is worst most often: of
    large studies the scores of single groups are not read."""
    names = [
        str(name) for scores in entry.metrics.values() if (name := scores.get("worst_group_name"))
    ]
    summary = entry.summary("worst_group")
    return {} if summary is None or not names else {max(names, key=names.count): summary.mean}


def _rows_of_groups(entry: Entry) -> dict[str, int]:
    """The fewest rows that each group has in a run."""
    rows: dict[str, int] = {}
    for run_scores in entry.metrics.values():
        groups = run_scores.get("groups")
        for name, scores in groups.items() if isinstance(groups, Mapping) else ():
            rows[name] = min(rows.get(name, scores["n"]), scores["n"])
    return rows


def _group_accuracies(entry: Entry) -> dict[str, float]:
    """The accuracy of each group over all runs of an entry, rows alike."""
    right: dict[str, float] = defaultdict(float)
    rows: dict[str, int] = defaultdict(int)
    for run_scores in entry.metrics.values():
        groups = run_scores.get("groups")
        for name, scores in groups.items() if isinstance(groups, Mapping) else ():
            right[name] += scores["n"] * scores["accuracy"]
            rows[name] += scores["n"]
    return {name: right[name] / rows[name] for name in rows if rows[name]}
