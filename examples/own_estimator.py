"""Your own estimator of accuracy without labels, beside those of the package.

An estimator reads what a model answered and labelled answers of the source, never a label of the
target: there is no place for one in what it is handed.
Takes about 10 seconds.

    python examples/own_estimator.py [FOLDER [WORKERS]]
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import crosswind as cw
from crosswind.core.knobs import Access
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Estimator, Labelled


@register("atc-margin", kind="estimator")
@dataclass(frozen=True)
class MarginThreshold(Estimator):
    """Average thresholded confidence by the margin: the share of target rows whose largest
    probability exceeds the second by more than as many rows of the source do as are right.

    Reference: Garg et al. 2022, Leveraging unlabeled data to predict out-of-distribution performance,
    equation 1, with the margin as the score.
    """

    access = Access()  # probabilities of the target, labelled answers of the source
    version = 1

    def fit(self, source: Labelled) -> float:
        """The margin that the share of right source rows exceeds, in [0, 1]."""
        return float(np.quantile(margins(source.answers), 1 - source.accuracy))

    def estimate(self, fitted: float, target: Answers) -> float:
        """The share of target rows above it, in [0, 1]."""
        return float((margins(target) > fitted).mean())


def margins(answers: Answers) -> NDArray[np.float64]:
    """How far the largest probability of each row lies above the second, float64 [n] in [0, 1]."""
    ordered = np.sort(np.exp(answers.log_probabilities), axis=1)
    return ordered[:, -1] - ordered[:, -2]


STUDY = {
    "name": "margin",
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 8, "validation": 0.15},
        }
    },
    "shifts": {"SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2}},
    "sizes": {"equal": {"total": 240}},
    "models": ["mlp"],
    "methods": ["erm"],
    "estimators": ["atc-margin", "atc-mc", "average-confidence"],
    "training": {"steps": 60, "validate_every": 10},
    "seeds": 2,
}


def main(folder: Path = Path("margin-out"), workers: int = 0) -> cw.StudyResults:
    results = cw.run_study(STUDY, folder, workers=workers)
    print(results)
    return results


if __name__ == "__main__":
    words = sys.argv[1:]
    main(Path(words[0]) if words else Path("margin-out"), int(words[1]) if len(words) > 1 else 0)
