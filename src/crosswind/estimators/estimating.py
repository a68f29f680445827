"""From answers to an estimate with its interval, whichever estimator: what is refused, the map of a
measure, which interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, shown
from crosswind.core.knobs import Access
from crosswind.core.seeds import seed_of
from crosswind.estimators.base import (
    Answers,
    DrawnRows,
    Estimate,
    Estimator,
    Floats,
    Joint,
    Labelled,
    Measure,
)
from crosswind.estimators.intervals import (
    DrawnSource,
    Held,
    few_rows,
    mean_error,
    with_pool,
    with_rows,
)
from crosswind.estimators.label_shift import TEXT, FittedShares, fitted_shares
from crosswind.estimators.shifted_pool import likeness, shifted_sets
from crosswind.models.form import extra_missing

MOST_NUMBERS = 50_000_000
"""Rows x classes x draws of an estimator that is fitted anew for every draw; 2,000 rows of 100
classes are below it."""

FEWEST_DRAWS = 25
"""Draws at least. By 25 the standard deviation is known within 14%, by 200 within 5%."""

_PARTS = {field.name for field in fields(Answers)} | {"log_probabilities"}


def estimated(
    estimator: Estimator | Measure, source: Labelled, target: Answers, pool: Sequence[Labelled] = ()
) -> Estimate | str:
    """The estimate for `target` with its interval, or a sentence that says why there is none.

    `source`: labelled rows of the distribution that the model was trained on. `pool`: labelled sets
    of other distributions, of this model or of others; measures need it, and with it the interval
    covers errors of their size.
    """
    return PreparedEstimate(estimator, source, pool)(target)


class _Measured(NamedTuple):
    """Measure, accuracy, family and rows of sets."""

    measures: Floats
    accuracies: Floats
    families: NDArray[np.str_]
    rows: NDArray[np.int64]


class PreparedEstimate:
    """An estimator with what it learns from; it learns once, and is asked for many sets."""

    def __init__(
        self, estimator: Estimator | Measure, source: Labelled, pool: Sequence[Labelled] = ()
    ) -> None:
        self.estimator = estimator
        self.source = source
        self.pool = pool

    def __call__(self, target: Answers, without: str = "") -> Estimate | str:
        """See `estimated`. `without`: a family of the pool that is not learned from, as where the
        target is one of it."""
        check_has_no_labels(target)
        estimator = self.estimator
        source = self.source
        if isinstance(estimator, Joint):
            return (
                f"it compares what {estimator.access.models} models or more say of the same rows,"
                " and has one"
            )
        pool = [labelled for labelled in self.pool if family_of(labelled) != without]
        why = refusal(estimator, source, target, pool)
        if why:
            return why
        if isinstance(estimator, Measure):
            return self._by_map(estimator, target, without)
        estimate = self._direct(target)
        if np.isnan(estimate.accuracy):
            return "its estimate is no number"
        shifted = self.shifted(target)
        if estimator.access.source:
            few = few_rows(len(source.answers))
        else:
            few = ()
        moved = (TEXT,) if shifted is not None and not estimator.corrects_labels else ()
        warnings = (*estimate.warnings, *few, *moved)
        estimate = replace(estimate, warnings=warnings)
        if pool:
            anchor = source.accuracy if len(source.answers) else estimate.accuracy
            held_out = self._errors(shifted, without)
            return self._with_pool(estimate, anchor, held_out, len(target))
        return self._with_rows(estimate, target)

    def shifted(self, target: Answers) -> FittedShares | None:
        """The shares of the labels of a target that looks as under a shift of labels alone; None
        where it does not."""
        fitted = fitted_shares(self.source, target)
        if fitted is not None and fitted.told:
            return fitted
        return None

    def _with_pool(
        self, estimate: Estimate, anchor: float, held_out: Sequence[Held], n: int
    ) -> Estimate:
        if self.estimator.no_pool_interval:
            return replace(estimate, no_interval=self.estimator.no_pool_interval)
        n_source = len(self.source.answers)
        return with_pool(estimate, anchor, held_out, n, n_source)

    # -- direct estimators
    # ----------------------------------------------------------------------------------------------

    @cached_property
    def _fitted(self) -> Any:
        assert isinstance(self.estimator, Estimator)
        return self.estimator.fit(self.source)

    def _direct(self, target: Answers) -> Estimate:
        assert isinstance(self.estimator, Estimator)
        return _as_estimate(self.estimator.estimate(self._fitted, target))

    @cached_property
    def _shifted_pool(self) -> list[Labelled]:
        """The sets of the pool as they are, and with other shares of the labels."""
        return [*self.pool, *shifted_sets(self.source, self.pool)]

    def _sets(self, shifted: FittedShares | None) -> tuple[list[Labelled], Floats]:
        """The sets that it learns from for a target whose labels have shifted or not, and how much
        each resembles it."""
        sets = list(self.pool) if shifted is None else self._shifted_pool
        return sets, (
            np.ones(len(sets))
            if shifted is None
            else likeness(shifted, self.source, sets, len(self.pool))
        )

    def _errors(self, shifted: FittedShares | None, without: str) -> list[Held]:
        sets, like = self._sets(shifted)
        plain = self._plain_errors if shifted is None else self._shifted_errors
        chosen = zip(sets, plain, like.tolist(), strict=True)
        errors: list[Held] = []
        for labelled, held_out, weight in chosen:
            if family_of(labelled) != without:
                errors.append(replace(held_out, like=weight))
        return errors

    @cached_property
    def _plain_errors(self) -> list[Held]:
        return [self._held(labelled) for labelled in self.pool]

    @cached_property
    def _shifted_errors(self) -> list[Held]:
        return [
            *self._plain_errors,
            *(self._held(labelled) for labelled in self._shifted_pool[len(self.pool) :]),
        ]

    def _held(self, labelled: Labelled) -> Held:
        n_rows = len(labelled.label)
        return Held(
            family_of(labelled), self._direct(labelled.answers).accuracy, labelled.accuracy, n_rows
        )

    def _with_rows(self, estimate: Estimate, target: Answers) -> Estimate:
        estimator = self.estimator
        source = self.source
        assert isinstance(estimator, Estimator)
        if not estimator.resamples:
            return replace(estimate, no_interval=estimator.no_rows_interval)
        n = len(target)
        m = len(source.answers)
        resamples = _resamples(estimator, max(m, n) * max(target.classes, 1))
        draws = _draws(resamples, m if estimator.access.source else 0, n)
        values = [
            _as_estimate(value).accuracy for value in estimator.redrawn(source, target, draws)
        ]
        drawn_source = None
        if m and not refusal(estimator, source, source.answers):
            drawn_source = DrawnSource(
                source.accuracy, m, self._direct(source.answers).accuracy, estimator.access.source
            )
        return with_rows(estimate, float(np.var(values)), n, drawn_source)

    # -- measures
    # ----------------------------------------------------------------------------------------------

    @cached_property
    def _measured(self) -> _Measured:
        return self._measures_of(self.pool)

    @cached_property
    def _shifted_measured(self) -> _Measured:
        return self._measures_of(self._shifted_pool)

    def _measures_of(self, pool: Sequence[Labelled]) -> _Measured:
        """Of the source, first where it is read, and of every set of the pool."""
        assert isinstance(self.estimator, Measure)
        every = [*([self.source] if self.estimator.access.source else []), *pool]
        measures = np.array([self.estimator.measure(labelled.answers) for labelled in every])
        accuracies = np.array([labelled.accuracy for labelled in every])
        families = np.array([family_of(labelled) for labelled in every])
        rows = np.array([len(labelled.label) for labelled in every])
        return _Measured(measures, accuracies, families, rows)

    def _by_map(self, measure: Measure, target: Answers, without: str) -> Estimate | str:
        shifted = self.shifted(target)
        measured = self._known(shifted, without)
        mine = measure.measure(target)
        if not np.isfinite([*measured.measures, mine]).all():
            return "its measure is not finite for some rows"
        line = fitted_map(measured.measures, measured.accuracies)
        if line is None:
            return (
                "its measure is the same number for every set of the pool, so that it tells no"
                " accuracies apart"
            )
        warnings = []
        if not measured.measures.min() <= mine <= measured.measures.max():
            warnings.append(
                "the measure lies outside those of the pool, so that the line is extrapolated"
            )
        if line[0] < 0:
            warnings.append(
                "on the pool the measure falls where accuracy rises, against what it is for"
            )
        held_out = self._held_out(shifted, without)
        if isinstance(held_out, str):
            return held_out
        if len(self.source.answers):
            anchor = self.source.accuracy
        else:
            anchor = _on(line, mine)
        estimate = Estimate(_on(line, mine), warnings=tuple(warnings))
        return self._with_pool(estimate, anchor, held_out, len(target))

    def _known(self, shifted: FittedShares | None, without: str) -> _Measured:
        measured = self._measured if shifted is None else self._shifted_measured
        chosen = measured.families != without
        return _Measured(*(column[chosen] for column in measured))

    def _held_out(self, shifted: FittedShares | None, without: str) -> list[Held] | str:
        """Every set of the pool by a line that did not see its family; or why there is none."""
        assert isinstance(self.estimator, Measure)
        measured = self._known(shifted, without)
        first = int(self.estimator.access.source)
        sets, like = self._sets(shifted)
        weights = np.append(
            np.ones(first), like[[family_of(labelled) != without for labelled in sets]]
        )
        held_out = []
        for family in dict.fromkeys(measured.families[first:].tolist()):
            in_family = measured.families == family
            measures = measured.measures[~in_family]
            accuracies = measured.accuracies[~in_family]
            line = fitted_map(measures, accuracies)
            if line is None:
                return (
                    "its measure is the same number for every set of the pool but those of"
                    f" {family}, too few to fit a line"
                )
            columns = (
                measured.measures[in_family],
                measured.accuracies[in_family],
                measured.rows[in_family],
                weights[in_family],
            )
            for x, y, n, weight in zip(*columns, strict=True):
                held_out.append(Held(family, _on(line, x), y, n, weight))
        return held_out

    def pool_error(self, target: Answers | None = None, without: str = "") -> float | None:
        """The mean absolute error on the sets of the pool, families alike; a measure's by lines
        that did not see the family. For a `target` whose labels have shifted, on sets whose labels
        have, too. `without`: a family that is left out.

        None without a pool, or where the estimator refuses. Call it after a target was estimated.
        """
        if not self.pool:
            return None
        shifted = None if target is None else self.shifted(target)
        if isinstance(self.estimator, Measure):
            held_out = self._held_out(shifted, without)
        else:
            held_out = self._errors(shifted, without)
        if isinstance(held_out, str):
            return None
        return mean_error(held_out)


def _resamples(estimator: Estimator, numbers: int) -> int:
    """How often rows are drawn: fewer times where each fit is of many numbers, rows x classes."""
    if not estimator.refits:
        return estimator.resamples
    return min(estimator.resamples, max(FEWEST_DRAWS, MOST_NUMBERS // numbers))


def _draws(resamples: int, m: int, n: int) -> Iterator[DrawnRows]:
    """Rows drawn with replacement, m of the source (0: it is not drawn) and n of the target."""
    random = np.random.default_rng(seed_of(0, "rows of estimates"))
    for _ in range(resamples):
        source_rows = random.integers(m, size=m) if m else None
        yield source_rows, random.integers(n, size=n)


def family_of(labelled: Labelled) -> str:
    """The family of a set, its name where it has none."""
    return labelled.family or labelled.name


def _on(line: tuple[float, float], measure: float) -> float:
    return float(np.clip(line[0] * measure + line[1], 0, 1))


def check_has_no_labels(target: Answers) -> None:
    """Raise `TypeError` for anything but plain `Answers`, which have no place for the labels of the
    rows to estimate."""
    if type(target) is not Answers or vars(target).keys() - _PARTS:
        raise TypeError("the rows to estimate come as Answers, which hold no labels")


def measured(measure: Measure, target: Answers) -> float | str:
    """The measure itself, which needs neither source nor pool, or a sentence that says why there is
    none."""
    check_has_no_labels(target)
    answers = Answers(np.empty(0, np.int64))
    label = np.empty(0, np.int64)
    empty = Labelled(answers, label)
    access = replace(measure.access, source=False, pool=False)
    why = refusal(measure, empty, target, access=access)
    value = 0.0 if why else float(measure.measure(target))
    return why or (value if np.isfinite(value) else "its measure is not finite for some rows")


def told_of(
    estimator: Estimator | Measure,
    source: Labelled,
    target: Answers,
    pool: Sequence[Labelled],
    neighbourhood: str,
    name: str,
) -> tuple[dict[str, float | None], list[str]]:
    """The scores that a study keeps of the set `name`, and sentences without their subject:
    warnings, and why something is not there.

    `measure` and `entropy_rise` near the rows are those of a measure; `accuracy`, `low` and `high`
    are those of direct estimators and of a measure that has a pool.
    """
    record: dict[str, float | None] = {}
    if isinstance(estimator, Measure):
        value = measured(estimator, target)
        if isinstance(value, float):
            record = {"measure": value, "entropy_rise": target.entropy_rise(neighbourhood)}
        if not pool:
            return record, [] if record else [f"has no measure for {name}: {value}"]
    estimate = estimated(estimator, source, target, pool)
    if isinstance(estimate, str):
        return record, [f"has no estimate for {name}: {estimate}"]
    record |= {"accuracy": estimate.accuracy, "low": estimate.low, "high": estimate.high}
    return record, [f"on {name}: {text}" for text in estimate.warnings]


def refusal(
    estimator: Estimator | Measure | Joint,
    source: Labelled,
    target: Answers,
    pool: Sequence[Labelled] = (),
    access: Access | None = None,
) -> str:
    """Why the estimator cannot be asked, in a sentence; "" where it can. `access`: what is read of
    what it declares."""
    access = access or estimator.access
    extra = getattr(estimator, "extra", None)
    if extra_missing(extra):
        return f"it needs the extra: pip install 'crosswind[{extra}]'"
    if not len(target):
        return "there are no rows to estimate"
    pool_sets = [(labelled.name, labelled.answers) for labelled in pool]
    sets = [("source", source.answers)] * access.source + [("set", target)] + pool_sets
    if access.source and not len(source.answers):
        return "there are no labelled rows of the source"
    for set_name, answers in sets:
        why = _missing_of_set(access, set_name, answers, target.classes)
        if why:
            return why
    if access.source and _has_foreign_labels(source, target.classes):
        return f"the source has labels that are none of the model's {target.classes} classes"
    if access.pool and len({family_of(labelled) for labelled in pool}) < 2:
        return "it needs a pool of labelled sets of other distributions, of two families at least"
    return ""


def _missing_of_set(access: Access, set_name: str, answers: Answers, n_classes: int) -> str:
    """The input of an estimator that the answers for one set lack, in a sentence; "" for
    nothing."""
    why = _unread_logits(access, set_name, answers)
    if why:
        return why
    if answers.classes != n_classes:
        return f"the {set_name} has {answers.classes} classes and the set {n_classes}"
    if access.neighbourhood and access.neighbourhood not in answers.neighbours:
        return (
            f"the model was not asked for the neighbours ({access.neighbourhood}) of the rows"
            f" of the {set_name}"
        )
    if access.features and answers.features is None:
        return f"there are no features for the rows of the {set_name}"
    if access.weights and answers.weights is None:
        return "the weights of the network are not at hand"
    return ""


def _unread_logits(access: Access, set_name: str, answers: Answers) -> str:
    """Why the logits of one set cannot be read, in a sentence; "" where they can, or are not."""
    if access.scores == "labels":
        return ""
    if answers.logits is None:
        return f"the model gives labels without {access.scores} for the rows of the {set_name}"
    if not np.isfinite(answers.logits.max(axis=1)).all() or np.isnan(answers.logits).any():
        return f"the model gave logits that are not finite for the rows of the {set_name}"
    if access.scores == "logits" and not np.isfinite(answers.logits).all():
        return (
            f"the model gave logits of minus infinity for the rows of the {set_name}, as of"
            " probabilities that are 0"
        )
    return ""


def _has_foreign_labels(source: Labelled, n_classes: int) -> bool:
    """Whether a label is none of the classes; where their number is not known, a negative one."""
    return 0 < n_classes <= source.label.max() or source.label.min() < 0


def _as_estimate(accuracy: float | Estimate) -> Estimate:
    if isinstance(accuracy, Estimate):
        estimate = accuracy
    else:
        try:
            estimate = Estimate(float(accuracy))
        except (TypeError, ValueError):
            raise DataError(
                "an estimator must give an accuracy, as a number or an Estimate, and one gave"
                f" {shown(accuracy)}"
            ) from None
    return replace(estimate, accuracy=float(np.clip(estimate.accuracy, 0, 1)))


def fitted_map(measures: Floats, accuracies: Floats) -> tuple[float, float] | None:
    """Slope and intercept by least squares (Ng et al. 2022, section 4.3); None where all measures
    are one number."""
    if np.ptp(measures) <= 1e-12 * max(1.0, float(np.abs(measures).max())):
        return None
    centred = measures - measures.mean()
    slope = float((centred * (accuracies - accuracies.mean())).sum() / (centred**2).sum())
    return slope, float(accuracies.mean() - slope * measures.mean())


# -- several models --------------------------------------------------------------------------------


def estimated_jointly(
    estimator: Joint, sources: Sequence[Labelled], targets: Sequence[Answers]
) -> list[Estimate] | str:
    """One estimate a model with its interval of rows, or a sentence that says why there are none.

    `sources[i]` and `targets[i]` are model i's; row j of either is the same row for all. An
    estimator that reads no labelled rows takes an empty `sources`. Rows are drawn anew for all
    models at once.
    """
    access = estimator.access
    for model in targets:
        check_has_no_labels(model)
    why = _refused_jointly(estimator, sources, targets)
    if why:
        return why
    if access.scores == "labels":  # nothing else is read, and rows are drawn often
        sources = [replace(model, answers=_labels_of(model.answers)) for model in sources]
        targets = [_labels_of(model) for model in targets]
    estimates = [_as_estimate(model) for model in estimator.estimate(sources, targets)]
    if not estimator.resamples:
        return estimates
    n = len(targets[0])
    m = len(sources[0].answers) if access.source else 0
    redrawn = _redrawn_accuracies(estimator, sources, targets, n, m)
    drawn_sources: list[DrawnSource | None] = [None] * len(estimates)
    if access.source:
        drawn_sources = [DrawnSource(model.accuracy, m, model.accuracy) for model in sources]
    variances = np.var(redrawn, axis=0)
    with_intervals = []
    for estimate, variance, source in zip(estimates, variances, drawn_sources, strict=True):
        warnings = (*estimate.warnings, *few_rows(m))
        with_interval = with_rows(estimate, float(variance), n, source)
        with_intervals.append(replace(with_interval, warnings=warnings))
    return with_intervals


def _redrawn_accuracies(
    estimator: Joint, sources: Sequence[Labelled], targets: Sequence[Answers], n: int, m: int
) -> list[list[float]]:
    """The estimates of all models in [0, 1] for every draw of rows with replacement, n of the
    targets and m of the sources."""
    random = np.random.default_rng(seed_of(0, "rows of estimates"))
    accuracies = []
    for _ in range(estimator.resamples):
        again = sources
        if estimator.access.source:
            drawn = random.integers(m, size=m)
            again = [model.take(drawn) for model in sources]
        rows = random.integers(n, size=n)
        estimates = estimator.estimate(again, [model.take(rows) for model in targets])
        accuracies.append([_as_estimate(model).accuracy for model in estimates])
    return accuracies


def _labels_of(answers: Answers) -> Answers:
    return Answers(answers.answer, classes=answers.classes)


def _refused_jointly(
    estimator: Joint, sources: Sequence[Labelled], targets: Sequence[Answers]
) -> str:
    access = estimator.access
    n_models = len(targets)
    if n_models < access.models:
        return f"it needs the answers of {access.models} models at least, not of {n_models}"
    if access.source and len(sources) != n_models:
        return (
            f"{n_models} models answered for the set, and {len(sources)} for the labelled rows of"
            " the source"
        )
    answers = Answers(np.empty(0, np.int64))
    label = np.empty(0, np.int64)
    empty = Labelled(answers, label)
    for i, target in enumerate(targets):
        source = sources[i] if access.source else empty
        why = refusal(estimator, source, target)
        if why:
            return f"model {i + 1} of {n_models}: {why}"
        if len(target) != len(targets[0]):
            return (
                f"model {i + 1} of {n_models} answered for {len(target)} rows of the set, and the"
                f" first for {len(targets[0])}"
            )
        if target.classes != targets[0].classes:
            return (
                f"model {i + 1} of {n_models} has {target.classes} classes, and the first"
                f" {targets[0].classes}"
            )
        if access.source and not np.array_equal(source.label, sources[0].label):
            return (
                f"model {i + 1} of {n_models} answered for other labelled rows of the source than"
                " the first"
            )
    return ""
