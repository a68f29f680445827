"""Fine-tuned and initial weights interpolated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from crosswind.core.knobs import Base, Limit, Needs, choose, knob
from crosswind.core.registry import register
from crosswind.methods.base import Info, MakeModel, Method, Modules, RunContext, Stage

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["WiseFT"]


@final
@register("wise-ft", kind="method")
@dataclass(frozen=True)
class WiseFT(Method):
    """WiSE-FT: fine-tune as ERM, then answer with weights between those that it began with and
    those that it has.

    Objective: ERM in theta; the classifier is the one with (1 - alpha) theta_0 + alpha theta, where
        theta_0 are the initial weights (their section 3, equation 1). Fine-tuning is an ERM run of
        its own (`needs.base`), done once for all values of `alpha`; in a study that keeps weights
        it is the run of `erm`. Theta is its best network by in-distribution validation.
    Assumes: initial weights that are good across shifts, head included, and one valley of low loss
        between them and the fine-tuned ones: `clip` with `tuned`, whose head begins as its prompts,
        is what it was made for. Of random initial weights, where it only shrinks what was learnt, a
        study warns.
    Knobs: alpha 0.5, which the authors recommend where nothing tells better. A list of alphas is a
    grid, and their curve.
    Limits: alpha 1 is the best network of "erm" by validation; alpha 0 is the model as it began.
    Deviations: the authors interpolate the last fine-tuned weights; without validation sets that is
        done here. Running statistics of batch norms are interpolated as weights are; the authors'
        networks have none.
    Reference:
        @inproceedings{wortsman2022robust, title={Robust Fine-Tuning of Zero-Shot Models},
        author={Wortsman, Mitchell and Ilharco, Gabriel and Kim, Jong Wook and Li, Mike and
        Kornblith, Simon and Roelofs, Rebecca and Gontijo-Lopes, Raphael and Hajishirzi, Hannaneh
        and Farhadi, Ali and Namkoong, Hongseok and Schmidt, Ludwig}, booktitle={CVPR}, year={2022}}
    Checked against: weights by hand; ERM at alpha 1 and zero-shot CLIP at alpha 0.
    """

    alpha: float = knob(
        0.5,
        domain="[0, 1]",
        search=choose(0.0, 0.25, 0.5, 0.75, 1.0),
        source="Wortsman et al. 2022, section 4",
        doc="share of the fine-tuned weights",
    )

    needs = Needs(given=True, base=Base("erm"))
    limit = Limit.none(
        "at alpha 1 it is the network that validation chose of an ERM run, whatever the selection"
        " rule"
    )
    version = 2

    def modules(self, info: Info, make_model: MakeModel) -> Modules:
        """The initial model, moved towards that of the base run."""
        import torch

        model = make_model()
        mixed, tuned = (_tensors(model_part) for model_part in (model, make_model(base=True)))
        with torch.no_grad():
            torch._foreach_lerp_(mixed, tuned, self.alpha)
        return {"model": model}

    def stage(self, index: int, context: RunContext) -> Stage | None:
        """One of no steps; the training is the base run's."""
        return None if index else Stage("mixed", steps=0, stop=False)


def _tensors(model: nn.Module) -> list[Tensor]:
    """Weights and running statistics, shared ones once; counters of batches are nothing to be
    weighed."""
    return [value for value in (*model.parameters(), *model.buffers()) if value.is_floating_point()]
