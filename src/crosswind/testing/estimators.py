"""The checks of estimators of accuracy: direct ones, measures, and those of several models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.knobs import Access
from crosswind.estimators.base import Answers, Estimate, Estimator, Joint, Labelled, Measure
from crosswind.testing.checks import Check, declaration_checks, require, run_checks

__all__ = ["check_estimator", "estimator_checks"]

Estimators = type[Estimator] | type[Measure] | type[Joint]
CLASSES, MODELS, NEIGHBOURS = 4, 4, 10
ORDER = 1e-9
"""What the order of rows may change of an estimate, by rounding."""
STRENGTHS = (0.5, 1.5, 2.5, 3.5)
"""How much the right class's logit is raised: models that are right on about 40% to 85%."""


def estimator_checks(cls: Estimators, *, knobs: Mapping[str, Any] | None = None) -> list[Check]:
    """The checks of an estimator, each to be called, as by `pytest.mark.parametrize`.

    `knobs`: settings in place of its defaults. The answers that it is tried on hold what its
    `access` declares and nothing else. They are noisy logits of 4 classes, and votes near each row
    that agree more where the model is sure.
    """
    subject = _EstimatorUnderTest(cls, dict(knobs or {}))
    looks: dict[str, Callable[[], None]] = {
        "is-a-number-in-its-range": subject.is_in_range,
        "equal-answers-give-equal-estimates": subject.repeats,
        "does-not-depend-on-the-order-of-rows": subject.order_of_rows_does_not_matter,
        "leaves-the-answers-as-they-were": subject.leaves_answers,
        "rises-with-accuracy": subject.rises_with_accuracy,
        "odd-answers-end-in-a-number": subject.odd_answers_end_in_number,
    }
    return [
        *declaration_checks(cls, ("estimator",), _base_of(cls)),
        *(Check(name, subject.name, look) for name, look in looks.items()),
    ]


def check_estimator(
    cls: Estimators,
    *,
    skip: Mapping[str, str] | None = None,
    knobs: Mapping[str, Any] | None = None,
) -> None:
    """Check that an estimator holds the contract of `crosswind.estimators.base`; seconds.

    `skip`: check -> why it cannot hold. `knobs`: see `estimator_checks`. Raises `CheckFailed` with
    a line for each check that does not hold.
    """
    run_checks(estimator_checks(cls, knobs=knobs), skip)


def _base_of(cls: Any) -> type:
    kinds: tuple[type, ...] = (Estimator, Measure, Joint)
    is_class = isinstance(cls, type)
    return next((kind for kind in kinds if is_class and issubclass(cls, kind)), Estimator)


@dataclass(frozen=True)
class _EstimatorUnderTest:
    cls: Estimators
    knobs: dict[str, Any]

    @property
    def name(self) -> str:
        return getattr(self.cls, "__name__", str(self.cls))

    def made(self) -> Any:
        return self.cls(**self.knobs)

    @property
    def is_measure(self) -> bool:
        return issubclass(self.cls, Measure)

    # -- what it is tried on -----------------------------------------------------------------------

    def drawn(self, seed: int, n: int, strength: float = 2.0) -> Labelled:
        """Rows of which the model says what `access` declares that the estimator reads."""
        random = np.random.default_rng(seed)
        label = random.choice(CLASSES, size=n)
        logits = random.normal(size=(n, CLASSES)) * 1.5
        logits[np.arange(n), label] += strength
        return Labelled(_answers(logits, self.cls.access, strength, random), label)

    def values(self, sources: list[Labelled], targets: list[Answers]) -> list[float]:
        """Its estimates, or measures, of the models' answers: one for each, by a direct estimator
        model by model."""
        made = self.made()
        if isinstance(made, Joint):
            return [self._number(estimate) for estimate in made.estimate(sources, targets)]
        if isinstance(made, Measure):
            return [self._number(made.measure(target)) for target in targets]
        return [
            self._number(made.estimate(made.fit(source), target))
            for source, target in zip(sources, targets, strict=True)
        ]

    def _number(self, estimate: Any) -> float:
        if not isinstance(estimate, Estimate):
            require(
                isinstance(estimate, int | float | np.floating) and np.ndim(estimate) == 0,
                f"it gives {type(estimate).__name__}",
                "give a float, or an Estimate where there is a warning",
            )
            return float(estimate)
        low, high = estimate.low, estimate.high
        if low is not None and high is not None:
            require(
                0 <= low <= estimate.accuracy <= high <= 1,
                f"its interval [{low}, {high}] of {estimate.accuracy} is none in [0, 1] around it",
                "order and clip its ends",
            )
        return float(estimate.accuracy)

    def several(self, seed: int = 0, n: int = 120) -> tuple[list[Labelled], list[Answers]]:
        """Answers of models that are right ever more often, of the same rows."""
        sources = [self.drawn(seed, n, strength) for strength in STRENGTHS]
        targets = [self.drawn(seed + 1, n, strength).answers for strength in STRENGTHS]
        return sources, targets

    # -- the checks --------------------------------------------------------------------------------

    def is_in_range(self) -> None:
        for seed in range(3):
            for value in self.values(*self.several(seed)):
                require(
                    np.isfinite(value) if self.is_measure else 0 <= value <= 1,
                    f"it gives {value}, which is no "
                    + ("number" if self.is_measure else "accuracy in [0, 1]"),
                    "give a fraction of the rows, not per cent or a loss"
                    if not self.is_measure
                    else "look for logarithms and divisions of 0",
                )

    def repeats(self) -> None:
        sources, targets = self.several()
        first, second = self.values(sources, targets), self.values(sources, targets)
        require(
            first == second,
            f"it gives {first[0]!r} and then {second[0]!r} for the same answers",
            "draw from crosswind.core.seeds.stream with a fixed seed",
        )

    def order_of_rows_does_not_matter(self) -> None:
        sources, targets = self.several(n=90)
        random = np.random.default_rng(0)
        rows, target_rows = random.permutation(90), random.permutation(90)
        before = self.values(sources, targets)
        after = self.values(
            [source.take(rows) for source in sources],
            [target.take(target_rows) for target in targets],
        )
        require(
            np.allclose(before, after, rtol=0, atol=ORDER * max(1.0, *map(abs, before))),
            f"it gives {before[0]!r}, and {after[0]!r} for the same rows in another order",
            "let no row's place matter",
        )

    def leaves_answers(self) -> None:
        sources, targets = self.several()
        arrays = [source.label for source in sources]
        for answers in [*(source.answers for source in sources), *targets]:
            arrays += [*_arrays(answers)]
        before = [array.copy() for array in arrays]
        self.values(sources, targets)
        changed = sum(
            not np.array_equal(array, copy) for array, copy in zip(arrays, before, strict=True)
        )
        require(not changed, "it writes into the arrays that it is handed", "work on copies")

    def rises_with_accuracy(self) -> None:
        sources, targets = self.several(n=400)
        # Every model has the labelled rows of one source, so that only the target tells of it.
        if not issubclass(self.cls, Joint):
            sources = [sources[1]] * len(targets)
        values = self.values(sources, targets)
        require(
            values[0] < values[-1],
            f"it gives {values[0]:.4g} for a model that is right on two of five rows and"
            f" {values[-1]:.4g} for one that is right on six of seven",
            "read the target's answers; a measure that falls with accuracy needs its sign changed",
        )

    def odd_answers_end_in_number(self) -> None:
        """Ties, answers of one class, a class that is ruled out, confidence 1, and a few rows."""
        sources, targets = self.several(n=60)
        for words, change in _ODD.items():
            odd_sources, odd_targets = (
                [change(source.answers, self.cls.access) for source in sources],
                [change(target, self.cls.access) for target in targets],
            )
            labelled = [
                replace(source, answers=answers, label=source.label[: len(answers)])
                for source, answers in zip(sources, odd_sources, strict=True)
            ]
            try:
                values = self.values(labelled, odd_targets)
            except (ArithmeticError, IndexError, ValueError, np.linalg.LinAlgError) as error:
                require(False, f"it fails on {words} ({error})", "treat that case by itself")
            if not self.is_measure:  # a measure that is not finite is refused by its caller
                require(
                    all(np.isfinite(value) for value in values),  # of few rows it may leave [0, 1]
                    f"it gives {values} on {words}",
                    "treat that case by itself",
                )


def _answers(
    logits: NDArray[np.float64], access: Access, strength: float, random: np.random.Generator
) -> Answers:
    answer = logits.argmax(axis=1).astype(np.int64)
    n = len(answer)
    answers = Answers(answer, None if access.scores == "labels" else logits, classes=CLASSES)
    if access.neighbourhood:
        odds = np.exp(logits)
        agrees = random.random((n, NEIGHBOURS)) < (odds.max(axis=1) / odds.sum(axis=1))[:, None]
        votes = np.where(agrees, answer[:, None], random.integers(CLASSES, size=(n, NEIGHBOURS)))
        votes = np.concatenate([answer[:, None], votes], axis=1)
        entropies = random.random(votes.shape)
        name = access.neighbourhood
        answers = replace(answers, neighbours={name: votes}, entropies={name: entropies})
    if access.features:
        # Classes lie farther apart where the model is right more often.
        centres = strength * np.eye(CLASSES, 6)[answer]
        answers = replace(answers, features=centres + random.normal(size=(n, 6)))
    if access.weights:
        # A network of larger weights is the worse one here, as measures of capacity take it.
        size = np.exp(-strength / 4)
        weights = {
            "conv.weight": size * random.normal(size=(5, 3, 3, 3)),
            "head.weight": size * random.normal(size=(CLASSES, 6)),
            "head.bias": np.zeros(CLASSES),
        }
        answers = replace(answers, weights=weights)
    return answers


def _arrays(answers: Answers) -> list[NDArray[Any]]:
    named = [*answers.neighbours.values(), *answers.entropies.values()]
    named += [*(answers.weights or {}).values(), answers.answer]
    return [*named, *(array for array in (answers.logits, answers.features) if array is not None)]


def _with_logits(
    change: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> Callable[[Answers, Access], Answers]:
    def changed(answers: Answers, access: Access) -> Answers:
        if answers.logits is None:
            return answers
        logits = change(answers.logits.copy())
        return replace(answers, logits=logits, answer=logits.argmax(axis=1).astype(np.int64))

    return changed


def _ruled_out(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    logits[:, -1] = -np.inf
    return logits


def _always_first(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    logits[:, 0] += 100
    return logits


def _sure(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.eye(CLASSES)[logits.argmax(axis=1)] * 6e4


_ODD: dict[str, Callable[[Answers, Access], Answers]] = {
    "answers that are all the same class": _with_logits(_always_first),
    "probabilities that are 1 everywhere": _with_logits(_sure),
    "probabilities with ties": _with_logits(np.round),
    "a class whose probability is 0": _with_logits(_ruled_out),
    "two rows": lambda answers, access: answers.take(np.arange(2)),
    "one row": lambda answers, access: answers.take(np.arange(1)),
}
"""What is odd, and the change that makes answers so."""
