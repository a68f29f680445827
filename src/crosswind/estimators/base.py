"""What an estimator of accuracy is: it learns from labelled answers on source rows, and estimates from answers without labels.

An estimator never sees a label of the rows that it estimates: `estimated` hands it their answers alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crosswind.core.types import Predictions
from crosswind.evaluation.metrics import confidence

Z95 = 1.959964
"""Half the width of a normal 95% interval, in standard errors."""


@dataclass(frozen=True)
class Answers:
    """What a model says of n rows: `answer` int64 [n], -1 for none; `logits` float32 [n, k], or None where there are none."""

    answer: NDArray[np.int64]
    logits: NDArray[np.float32] | None = None

    @property
    def confidence(self) -> NDArray[np.float64]:
        """The largest softmax probability of each row, float64 [n] in (0, 1]."""
        assert self.logits is not None
        return confidence(self.logits)


@dataclass(frozen=True)
class Estimate:
    """An accuracy in [0, 1] and its 95% interval, None where the estimator has none. `warnings` are sentences for the reader."""

    accuracy: float
    low: float | None = None
    high: float | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def around(cls, accuracy: float, error: float, warnings: tuple[str, ...] = ()) -> Estimate:
        """The normal interval of a standard error, all cut to [0, 1]."""
        value, low, high = (float(np.clip(one, 0, 1)) for one in (accuracy, accuracy - Z95 * error, accuracy + Z95 * error))
        return cls(value, low, high, warnings)


class Estimator(ABC):
    """A registered estimator; subclasses are frozen dataclasses whose fields are knobs. Equal answers give equal estimates."""

    reads_logits: ClassVar[bool] = True
    """Whether answers alone are not enough for it."""

    @abstractmethod
    def fit(self, source: Answers, label: NDArray[np.int64]) -> Any:
        """What it keeps of the answers for source rows and their labels, int64 [m]; handed to `estimate`."""

    @abstractmethod
    def estimate(self, fitted: Any, target: Answers) -> Estimate:
        """The accuracy on the rows of `target`, of which there is one at least."""


def estimated(estimator: Estimator, source: Predictions, target: Predictions) -> Estimate | str:
    """The estimate for `target`, whose labels and groups stay here; or a sentence that says why there is none."""
    if estimator.reads_logits:
        for what, answers in (("source", source), ("set", target)):
            if answers.logits is None:
                return f"the model gives labels without logits for the rows of the {what}"
            if not np.isfinite(answers.logits.max(axis=1)).all():
                return f"the model gave logits that are not finite for the rows of the {what}"
    fitted = estimator.fit(Answers(source.answer, source.logits), source.label)
    return estimator.estimate(fitted, Answers(target.answer, target.logits))
