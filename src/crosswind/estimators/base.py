"""The base of estimators of accuracy, which read a model's answers for rows that nobody labelled
and tell how much of them is right.

There are three kinds. A *direct* estimator (`Estimator`) learns from labelled rows of the source. A
*measure* (`Measure`) is a number that goes up with accuracy; labelled sets of other distributions,
the pool, say how. A *joint* estimator (`Joint`) reads what several models say of the same rows.
None can be handed a label of the rows that it estimates: `Answers` has no place for one.
`crosswind.estimators.estimating` is what everything else calls: it checks what the estimator reads,
and makes the interval.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.knobs import Access

LEVEL = 0.9
"""Of every interval."""

Floats = NDArray[np.float64]
"""An array of numbers of double precision."""

DrawnRows: TypeAlias = "tuple[NDArray[np.int64] | None, NDArray[np.int64]]"
"""Rows of the source, None for all as they are, and rows of the target; repeats allowed."""


@final
@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a model for n rows.

    `answer` int64 [n], -1 for an answer that names no class. `logits` floating [n, k], or None
    where there are labels only. `classes`: k, the number of classes. `neighbours`: by
    neighbourhood, the answers int64 [n, N + 1] for each row, first, and the N rows made near it.
    `entropies`: of the softmax of each of those, in nats, float [n, N + 1]. `features` floating [n,
    d]: what the network's head reads. `weights`: the network's tensors by name.
    """

    answer: NDArray[np.int64]
    logits: NDArray[Any] | None = None
    classes: int = 0
    neighbours: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    entropies: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    features: NDArray[Any] | None = None
    weights: Mapping[str, NDArray[Any]] | None = None

    def __post_init__(self) -> None:
        if self.logits is not None:
            object.__setattr__(self, "classes", self.logits.shape[1])

    def __len__(self) -> int:
        return len(self.answer)

    @cached_property
    def log_probabilities(self) -> Floats:
        """Logarithms of the softmax of the logits, float64 [n, k], from float64 throughout: a
        confidence of 1 in half precision still has its order among others."""
        assert self.logits is not None
        z = self.logits.astype(np.float64)
        z = z - z.max(axis=1, keepdims=True)
        logarithms: Floats = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        return logarithms

    @property
    def probabilities(self) -> Floats:
        """The softmax of the logits, float64 [n, k]."""
        return np.asarray(np.exp(self.log_probabilities))

    @property
    def confidence(self) -> Floats:
        """The largest softmax probability of each row, float64 [n] in [1/k, 1]."""
        return np.asarray(np.exp(self.log_probabilities.max(axis=1)))

    def entropy_rise(self, neighbourhood: str) -> float | None:
        """Mean entropy of the outputs for the neighbours less that for the rows, in nats (Ng et al.
        2022, section 5.4).

        None where there are no outputs for neighbours.
        """
        near_entropy = self.entropies.get(neighbourhood)
        if near_entropy is None or near_entropy.shape[1] < 2:  # the rows alone
            return None
        near = near_entropy[:, 1:].astype(np.float64).mean()
        own = near_entropy[:, 0].astype(np.float64).mean()
        return float(near - own)

    def take(self, rows: NDArray[np.int64]) -> Answers:
        """The answers for some rows, repeats allowed; `rows` int64 [m]."""
        logits = None if self.logits is None else self.logits[rows]
        neighbours = {name: votes[rows] for name, votes in self.neighbours.items()}
        entropies = {name: entropy[rows] for name, entropy in self.entropies.items()}
        answer = self.answer[rows]
        features = None if self.features is None else self.features[rows]
        return replace(
            self,
            answer=answer,
            logits=logits,
            neighbours=neighbours,
            entropies=entropies,
            features=features,
        )


def order_of_rows(logits: NDArray[Any], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order of rows by their logits [n, k], column by column, and then by `last`; int64 [n].
    Equal rows stay in the order in which they stand.

    Columns after the first are read only where it has ties.
    """
    order = np.argsort(logits[:, 0], kind="stable").astype(np.int64)
    sorted_column = logits[order, 0]
    is_as_before = sorted_column[1:] == sorted_column[:-1]
    tied = np.zeros(len(order), dtype=bool)
    tied[1:] |= is_as_before
    tied[:-1] |= is_as_before
    rows = np.sort(order[tied])
    order[tied] = rows[np.lexsort((last[rows], *logits[rows].T[::-1]))]
    return order


@final
@dataclass(frozen=True, eq=False)
class Labelled:
    """`answers` for n rows whose classes are known: `label` int64 [n].

    `name`: of the set, for messages. `family`: sets of a pool that resemble each other share it.
    """

    answers: Answers
    label: NDArray[np.int64]
    name: str = "source"
    family: str = ""

    def __post_init__(self) -> None:
        if self.label.shape != (len(self.answers),):
            problem = (
                f"{self.name} has labels of shape {self.label.shape}, and {len(self.answers)}"
                " answers"
            )
            raise ValueError(problem)

    @property
    def right(self) -> NDArray[np.bool_]:
        """Which answers are right."""
        return np.asarray(self.answers.answer == self.label)

    @property
    def accuracy(self) -> float:
        """The share that is right."""
        return float(self.right.mean())

    def take(self, rows: NDArray[np.int64]) -> Labelled:
        """Some of the rows, repeats allowed."""
        answers = self.answers.take(rows)
        label = self.label[rows]
        return replace(self, answers=answers, label=label)


@final
@dataclass(frozen=True)
class Estimate:
    """An `accuracy` in [0, 1] and the ends of its 90% interval, `low` and `high`, None where there is
    none.

    `basis`: what the interval covers. `pool`: errors as large as those on labelled sets of other
    distributions. `rows`: the chance of which rows were drawn, and nothing else. `warnings` are
    sentences for the reader. `no_interval`: why there is none, in words that go on after "since".
    """

    accuracy: float
    low: float | None = None
    high: float | None = None
    basis: str = ""
    warnings: tuple[str, ...] = ()
    no_interval: str = ""


class Estimator(ABC):
    """A registered estimator; subclasses are frozen dataclasses whose fields are knobs. Equal
    answers give equal estimates.

    `access`: what it reads. `resamples`: how often rows are drawn anew for the interval of rows;
    where 0, `no_rows_interval` says why. `no_pool_interval`: why its intervals of a pool are not
    shown, "" where those measured hold (`benchmarks/papers/interval_coverage.py`).
    `refits`: whether a draw of rows costs as much as a fit, so that there are fewer of them where
    rows and classes are many. `corrects_labels`: whether it is exact where the labels come in other
    shares.
    """

    access: ClassVar[Access] = Access()
    resamples: ClassVar[int] = 200
    refits: ClassVar[bool] = True
    no_rows_interval: ClassVar[str] = ""
    no_pool_interval: ClassVar[str] = ""
    corrects_labels: ClassVar[bool] = False

    @abstractmethod
    def fit(self, source: Labelled) -> Any:
        """The state that it learns of the labelled source; handed to `estimate`."""

    @abstractmethod
    def estimate(self, fitted: Any, target: Answers) -> float | Estimate:
        """The accuracy on the rows of `target`, of which there is one at least; an `Estimate` where
        there is a warning to give."""

    def redrawn(
        self, source: Labelled, target: Answers, draws: Iterable[DrawnRows]
    ) -> Iterator[float | Estimate]:
        """The estimate for every draw of rows. A subclass whose scores of rows do not change with
        the draw computes them once; the numbers must be equal."""
        for source_rows, target_rows in draws:
            again = source if source_rows is None else source.take(source_rows)
            yield self.estimate(self.fit(again), target.take(target_rows))


class Measure(ABC):
    """A registered measure of what a model says of rows; a map that is fitted on a pool makes an
    accuracy of it.

    `access`, `no_pool_interval`: as of an `Estimator`.
    """

    access: ClassVar[Access] = Access(pool=True)
    no_pool_interval: ClassVar[str] = ""

    @abstractmethod
    def measure(self, target: Answers) -> float:
        """The measure of these rows; the larger, the more of them are right."""


class Joint(ABC):
    """A registered estimator of the accuracies of several models on the same rows.

    `access`, `resamples`: as of an `Estimator`; `access.models` is the least number of models.
    """

    access: ClassVar[Access] = Access(models=2)
    resamples: ClassVar[int] = 0

    @abstractmethod
    def estimate(self, sources: Sequence[Labelled], targets: Sequence[Answers]) -> list[Estimate]:
        """One estimate a model. `sources[i]` and `targets[i]` are model i's; row j is the same row
        for all."""
