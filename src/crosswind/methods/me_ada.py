"""Maximum-entropy adversarial data augmentation: copies that the network finds hard and is unsure
of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Limit, Needs, knob, log
from crosswind.core.registry import register
from crosswind.methods.adversarial import Adversarial

__all__ = ["MEADA"]


@final
@register("me-ada", kind="method")
@dataclass(frozen=True)
class MEADA(Adversarial):
    """ME-ADA: as `ada`, and the copies are moved to where the network's answer has a large entropy
    too.

    Objective: that of "ada", but for the ascent, which gains eta times the entropy of the answer
    (Zhao et al. 2020, section 3):
            CE(f(x_t), y) + eta H(softmax f(x_t)) - gamma mean_j (z_j(x_t) - z_j(x))^2,   H in nats.
    Assumes: as "ada"; a network's entropy on a picture tells how far this is from what it has seen.
    Knobs: eta 1: Jeon et al. 2025, table 9. The authors' scripts for MNIST and CIFAR-10 have 10.
    The others as in "ada".
    Limits: at phases = 0 it is "erm"; at eta = 0 it is "ada".
    Deviations: those of "ada".
    Reference:
        @inproceedings{zhao2020maximum, title={Maximum-Entropy Adversarial Data Augmentation for
        Improved Generalization and Robustness}, author={Zhao, Long and Liu, Ting and Peng, Xi and
        Metaxas, Dimitris}, booktitle={NeurIPS}, year={2020}}
    Checked against: a hand-worked step; a loop over rows; "ada" at eta = 0.
    """

    eta: float = knob(
        1.0,
        domain="[0, inf)",
        search=log(0.1, 10.0),
        grid={"jeon2025": [1.0]},
        source="Jeon et al. 2025, table 9",
        doc="weight of the entropy",
    )

    needs = Needs(numbers="phases")
    limit = Limit({"phases": 0}, equals="erm")
    version = 1
    family = {"jeon2025": "single-domain generalisation"}

    def _entropy_weight(self) -> float:
        """`eta`."""
        return self.eta
