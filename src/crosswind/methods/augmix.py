"""Pictures mixed with distorted versions of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Limit, Needs, choose, knob
from crosswind.core.registry import register
from crosswind.methods.base import Method
from crosswind.transforms.base import Transform
from crosswind.transforms.policies import augmix

__all__ = ["AugMixTraining"]


@final
@register("augmix", kind="augmentation")
@dataclass(frozen=True)
class AugMixTraining(Method):
    """AugMix without its consistency loss: ERM on pictures mixed with `width` chains of operations
    of themselves.

    Objective: min over theta of 1/n sum_i -log p_theta(y_i | T_i(x_i)), T_i(x) = m x + (1 - m)
        sum_j w_j C_j(x) drawn anew at every visit of a row: `width` chains C_j of one to three
        operations, each at a level below `severity` of 10, w from a Dirichlet and m from a Beta
        distribution, all their parameters 1 (their algorithm 1). The transform "augmix" has the
        operations.
    Assumes: the label survives shears, shifts, turns and changes of brightness, colour, contrast
        and sharpness, diluted by the picture itself. Evaluation and validation see rows as they
        are.
    Knobs: severity 3 and width 3, Jeon et al. 2025's for controlled data sets and the authors'; 7
    and 5 for their real ones.
    Limits: at width 0, no chain, it is "erm".
    Deviations: the authors add a divergence between the answers to three versions of a row (JSD),
        which neither Wiles et al. 2022 nor Jeon et al. 2025 do. Operations are torchvision's,
        brightness to sharpness among them, which the authors leave out where they test on such
        corruptions. Further ones are the transform's, and are told there.
    Reference:
        @inproceedings{hendrycks2020augmix, title={{AugMix}: A Simple Data Processing Method to
        Improve Robustness and Uncertainty}, author={Hendrycks, Dan and Mu, Norman and Cubuk, Ekin
        D. and Zoph, Barret and Gilmer, Justin and Lakshminarayanan, Balaji}, booktitle={ICLR},
        year={2020}}
    Checked against: torchvision's functions on Pillow images, one by one, in the transform
    "augmix".
    """

    severity: int = knob(
        3,
        domain="[1, 10]",
        search=choose(1, 3, 5, 7, 10),
        grid={"jeon2025": [3, 7]},
        source="Jeon et al. 2025, table 9; Hendrycks et al. 2020",
        doc="levels that an operation's strength is drawn from, of 10",
    )
    width: int = knob(
        3,
        domain="[0, 16]",
        search=choose(1, 3, 5),
        grid={"jeon2025": [3, 5]},
        source="Jeon et al. 2025, table 9; Hendrycks et al. 2020",
        doc="number of chains that are mixed; 0: the picture alone",
    )

    needs = Needs(channels=(1, 3))
    limit = Limit({"width": 0}, equals="erm")
    version = 1
    family = {"wiles2022": "heuristic augmentation", "jeon2025": "heuristic augmentation"}

    def views(self) -> tuple[Transform | None, ...]:
        """The mixtures."""
        return (augmix.AugMix(severity=self.severity, width=self.width) if self.width else None,)
