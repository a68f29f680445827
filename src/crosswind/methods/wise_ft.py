"""Fine-tuned and initial weights interpolated."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from crosswind.core.knobs import Limit, Needs, choose, knob
from crosswind.core.registry import register
from crosswind.methods.base import Batch, Info, Loss, MakeModel, Method, Modules, OptimiserSpec, RunContext, State

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["WiseFT"]


@final
@register("wise-ft", kind="method")
@dataclass(frozen=True)
class WiseFT(Method):
    """WiSE-FT: fine-tune as ERM, and answer with weights between those that it began with and those that it has.

    Objective: ERM in theta; the classifier is the one with (1 - alpha) theta_0 + alpha theta, where theta_0 are the initial weights
        (their section 3, equation 1). It is that one which is validated, selected, tested and kept.
    Assumes: initial weights that are good across shifts, head included, and one valley of low loss between them and the fine-tuned
        ones: `clip` with `tuned`, whose head begins as its prompts, is what it was made for. Of random initial weights, where it
        only shrinks what was learnt, a study warns.
    Knobs: alpha 0.5, which the authors recommend where nothing tells better. A list of alphas is a grid, whose points train alike.
    Limits: alpha 1 is "erm"; alpha 0 is the model as it began.
    Deviations: running statistics of batch norms are interpolated as weights are; the authors' networks have none. The fine-tuned
        weights are kept beside the interpolated ones, since training goes on from them.
    Reference:
        @inproceedings{wortsman2022robust, title={Robust Fine-Tuning of Zero-Shot Models}, author={Wortsman, Mitchell and Ilharco,
        Gabriel and Kim, Jong Wook and Li, Mike and Kornblith, Simon and Roelofs, Rebecca and Gontijo-Lopes, Raphael and Hajishirzi,
        Hannaneh and Farhadi, Ali and Namkoong, Hongseok and Schmidt, Ludwig}, booktitle={CVPR}, year={2022}}
    Checked against: weights by hand; ERM at alpha 1 and zero-shot CLIP at alpha 0.
    """

    alpha: float = knob(
        0.5,
        domain="[0, 1]",
        search=choose(0.0, 0.25, 0.5, 0.75, 1.0),
        source="Wortsman et al. 2022, section 4",
        doc="share of the fine-tuned weights",
    )

    needs = Needs(given=True)
    limit = Limit({"alpha": 1.0})
    version = 1

    def modules(self, info: Info, make_model: MakeModel) -> Modules:
        """`model` interpolates `initial`, which stays as it is, and `tuned`, which is trained."""
        model = make_model()
        return {"model": model, "tuned": deepcopy(model), "initial": deepcopy(model).requires_grad_(False)}

    def optimisers(self, info: Info, modules: Modules, stage: str) -> dict[str, OptimiserSpec]:
        """One, the study's, for what is trained."""
        return {"main": OptimiserSpec([p for p in modules["tuned"].parameters() if p.requires_grad])}

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """See `Method.loss`, of the weights that are trained."""
        return super().loss({"model": modules["tuned"]}, batch, state)

    def update(self, context: RunContext, batch: Batch) -> Loss:
        """A step of fine-tuning, then the interpolation."""
        found = super().update(context, batch)
        self._interpolate(context.modules)
        return found

    def _interpolate(self, modules: Modules) -> None:
        import torch

        mixed, initial, tuned = (_tensors(modules[name]) for name in ("model", "initial", "tuned"))
        with torch.no_grad():
            made = torch._foreach_lerp(initial, tuned, self.alpha)
            torch._foreach_copy_(mixed, made)


def _tensors(model: nn.Module) -> list[Tensor]:
    """Weights and running statistics; counters of batches are nothing to be weighed."""
    return [value for value in model.state_dict().values() if value.is_floating_point()]
