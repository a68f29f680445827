"""Meta-distribution energy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import logsumexp

from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Measure


@final
@register("energy", kind="estimator")
@dataclass(frozen=True)
class Energy(Measure):
    """Meta-distribution energy: by how much the energies of the rows differ, in the logarithm.

    Measures: log(log(1/n sum_i exp E_i) - 1/n sum_i E_i), with E_i = -T log sum_k exp(z_ik / T). It
    is minus infinity where all energies are equal, as they are for one row, and is refused then.
    Assumes: rows that the model knows have far lower energies than the others.
    Reads: logits as the network gave them. A constant added to all logits changes nothing; one for
    each row does.
    Rows: the mean of exp E is carried by its largest terms. Few rows hold few of them, which makes
    the measure smaller where the energies spread over several nats.
    Deviations: the published score is the logarithm of log sum_i exp E_i - mean E, which grows with
    log log n for the same distribution. Subtracting log n makes sets of different sizes comparable.
    The temperature is one for all sets.
    Reference: Peng et al. 2024, "Energy-based Automated Model Evaluation", ICLR.
    """

    temperature: float = knob(
        1.0, domain="(0, inf)", source="Peng et al. 2024", doc="temperature of the energies"
    )
    version = 1
    access = Access(scores="logits", pool=True)

    def measure(self, target: Answers) -> float:
        """The logarithm of the difference."""
        assert target.logits is not None
        energies = -self.temperature * logsumexp(
            target.logits.astype(np.float64) / self.temperature, axis=1
        )
        energies -= energies.max()
        spread = float(np.log(np.exp(energies).mean()) - energies.mean())
        if spread > 1e-12:
            return math.log(spread)
        return -math.inf
