"""rho beside the network that training began with: equation 1 of Omran and Schiele 2022, from the
scores of runs by environment.

A run alone knows no other network, so its score `rho` has no reference. A study may begin from
given weights. What these could do before is the accuracy of a method of no steps on the same test
rows, and is taken off here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crosswind.core.errors import StoreError, one_line, shown
from crosswind.evaluation.metrics import HEADLINE
from crosswind.evaluation.systematic import rho
from crosswind.reports.scores.notes import chance_level
from crosswind.reports.scores.results import Entry, PlaceResults

if TYPE_CHECKING:
    from crosswind.storage.store import Store

RHO_NOTE = "rho_note"
"""Beside the scores of a run, in words: the network that its rho is beside, or why there is none.
"""

BEFORE = "rho_before"
"""Beside the scores of a run: the method of no steps that its rho is beside."""

WITHOUT = (
    "rho: unseen / seen, cut to [0, 1] (Omran and Schiele 2022, equation 1, without a reference"
    " network)"
)
WITHOUT_THOUGH_GIVEN = (
    f"{WITHOUT}. Training begins from given weights, and what these could do before is NOT taken"
    " off, as the equation has it: the study has no method of no steps. One with training:"
    " {steps: 0}, as `pretrained` of omran2022/class-splits, is the reference"
)


def rho_words(entry: Entry) -> list[str]:
    """The note on what the rho of some runs is beside, or why it has no reference; nothing for
    scores that have no rho."""
    sentences = [f"{scores[RHO_NOTE]}." for scores in _with(RHO_NOTE, entry)]
    return list(dict.fromkeys(sentences))


def _with(name: str, entry: Entry) -> list[Mapping[str, Any]]:
    """The scores of the runs that have this one."""
    return [scores for scores in entry.metrics.values() if scores.get(name)]


def rho_notes(setting_results: PlaceResults) -> list[str]:
    """The same of a whole place, and of a network before that only guesses: then its head was new,
    or it knows none of these."""
    entries = setting_results.entries
    lines: dict[str, None] = {}
    for entry in entries.values():
        lines |= dict.fromkeys(rho_words(entry))
    for (shift, _), entry in entries.items():
        for scores in _with(BEFORE, entry):
            before = str(scores[BEFORE])
            if _guesses(entries.get((shift, before))):
                lines[_GUESSES.format(before)] = None
    return list(lines)


_GUESSES = (
    "{} hardly does better than guessing here, as a network does whose head was made anew for other"
    " classes: what the given weights could do is not known, and next to nothing is taken off."
)


def _guesses(entry: Entry | None) -> bool:
    """Whether a network is right on less than a tenth of what guessing leaves."""
    if entry is None:
        return False
    accuracy = entry.summary(HEADLINE.name)
    chance = chance_level(entry, HEADLINE.name)
    if accuracy is None or chance is None:
        return False
    return accuracy.mean - chance < 0.1 * (1 - chance)


def beside_words(before: str) -> str:
    """The meaning of rho beside the network of a method, as a note says it."""
    return (
        "rho: (unseen - r) / (seen - r), cut to [0, 1] (Omran and Schiele 2022, equation 1); r is"
        f" the accuracy of {before}, which took no step, on all classes of the environment."
        " Undefined where seen pairs are no better than r"
    )


MOST_WITH_GROUPS = 5_000
"""Runs of a study whose scores of single groups are read."""
_NO_GROUPS = ("groups", "environments")
_PLACE = ("data", "shift", "size", "model", "seed", "split_seed", "rule", "set")


def network_before(resolved: Mapping[str, Any]) -> str:
    """The method that takes no step, whose network is the one that the others begin with; ""
    without one. The reference first."""
    methods = resolved.get("methods")
    settings = methods if isinstance(methods, Mapping) else {}
    names: list[str] = []
    for name, method_settings in settings.items():
        training = (method_settings or {}).get("training") or {}
        if training.get("steps") == 0:
            names.append(name)
    if resolved.get("reference") in names:
        return str(resolved["reference"])
    return str(names[0]) if names else ""


def begins_from_weights(resolved: Mapping[str, Any]) -> bool:
    """Whether a model of the study has given weights: those of a file or a published name, or of a
    folder that it is read from."""
    models = resolved.get("models")
    entries = models.values() if isinstance(models, Mapping) else ()
    return any(
        isinstance(entry, Mapping) and (entry.get("weights") or entry.get("path"))
        for entry in entries
    )


def scored_results(
    store: Store,
    study: str,
    resolved: Mapping[str, Any],
    runs: Sequence[Mapping[str, Any]] | None = None,
    unscored: bool = True,
) -> Iterator[Mapping[str, Any]]:
    """`Store.result_rows` without the scores of single groups, but for studies of few runs, whose rho is
    beside the network that training began with.

    Only where it has to be computed are the scores by environment read: they are most of what a
    large study holds. Raises `StoreError`.
    """
    before = network_before(resolved)
    left_out: tuple[str, ...] = ("groups",) if before else _NO_GROUPS
    if runs is not None and len(runs) <= MOST_WITH_GROUPS:
        left_out = tuple(name for name in left_out if name != "groups")
    scored = store.result_rows(study, unscored=unscored, without=left_out, runs=runs)
    try:
        yield from beside_network_before(scored, before, begins_from_weights(resolved))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        cause = f"{type(error).__name__}: {one_line(str(error), 200)}"
        raise StoreError(
            f"{store.name} is damaged: scores by environment of the study {shown(study)}: {cause}"
        ) from error


def beside_network_before(
    scored_results: Iterable[Mapping[str, Any]], before: str, from_weights: bool = False
) -> Iterator[Mapping[str, Any]]:
    """The results, rho of each beside that of `before` with the same seed on the same set, and
    without scores by environment. They are gone through twice where there is a `before`.

    rho is None where `before` has no score there yet, and its own, of which equation 1 is
    undefined. `from_weights`: whether training begins from given weights; then it is said where
    nothing is taken off.
    """
    environments_of = _environments_by_place(scored_results, before) if before else {}
    for scored in scored_results:
        metrics = scored.get("metrics")
        if not metrics or ("environments" not in metrics and metrics.get("rho") is None):
            yield scored
            continue
        environments = metrics.get("environments")
        changed = {name: value for name, value in metrics.items() if name != "environments"}
        if before and environments:
            is_reference = scored["method"] == before
            reference = environments_of.get(_place_of(scored))
            changed["rho"] = None if is_reference else _mean_rho(environments, reference)
            changed |= {RHO_NOTE: beside_words(before), BEFORE: before}
        elif changed.get("rho") is not None:
            changed[RHO_NOTE] = WITHOUT_THOUGH_GIVEN if from_weights else WITHOUT
        yield {**scored, "metrics": changed}


def _place_of(scored: Mapping[str, Any]) -> tuple[Any, ...]:
    """The settings that a result shares with that of the network before."""
    return tuple(scored.get(name) for name in _PLACE)


def _environments_by_place(
    scored_results: Iterable[Mapping[str, Any]], before: str
) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    """The scores by environment of the method `before`, by what other results share with it."""
    environments_of: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for scored in scored_results:
        environments = (scored.get("metrics") or {}).get("environments")
        if environments and scored.get("method") == before:
            environments_of[_place_of(scored)] = environments
    return environments_of


def _mean_rho(environments: Mapping[str, Any], reference: Mapping[str, Any] | None) -> float | None:
    """The mean over environments; None where one is undefined, or the reference has no score
    there."""
    values: list[float] = []
    for name, scores in environments.items():
        base = (reference or {}).get(name)
        if base is None:
            return None
        value = rho(scores["seen"], scores["unseen"], accuracy_on_all(base))
        if value is None:
            return None
        values.append(value)
    return sum(values) / len(values) if values else None


def accuracy_on_all(environment_scores: Mapping[str, Any]) -> float:
    """The accuracy in an environment on all classes, from that on the seen and on the unseen
    ones."""
    n_seen, n_unseen = environment_scores["n_seen"], environment_scores["n_unseen"]
    right = environment_scores["seen"] * n_seen + environment_scores["unseen"] * n_unseen
    return float(right / (n_seen + n_unseen))
