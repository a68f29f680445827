"""Domain-adversarial training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast, final

import torch
from torch import Tensor, nn

from crosswind.core.knobs import Limit, Needs, choose, knob, log
from crosswind.core.registry import register
from crosswind.methods.base import (
    Batch,
    Info,
    Loss,
    MakeModel,
    Method,
    Modules,
    OptimiserSpec,
    RunContext,
    State,
)
from crosswind.methods.functional import row_losses, with_slopes

if TYPE_CHECKING:
    from crosswind.models.build import Model

__all__ = ["DANN"]


@final
@register("dann", kind="method")
@dataclass(frozen=True)
class DANN(Method):
    """DANN: features from which a discriminator cannot tell the environment.

    Objective: with L_y the mean cross-entropy of the labels and L_d that of the environments, which
    a perceptron predicts from the features (the head's input), a saddle point (their section 4.2):
        theta <- one step down L_y - weight r L_d       theta: the model's, features and head
        phi   <- one step down L_d                      phi: the discriminator's
    Both gradients are taken before either moves, so one step is that of a gradient reversal layer,
    with an optimiser for each. r is 2 / (1 + exp(-10 p)) - 1, p the share of training that is over
    (their section 5.2.2), or 1. With `discriminator_steps` above 1 the discriminator takes further
    steps on the same features. gradient_penalty x the mean squared norm of the gradient of a row's
    L_d by its features is added for the discriminator only. The model, its classifier included,
    moves on every step.
    Assumes: at least two environments with training rows; refused otherwise, since one leaves
        nothing to tell apart and so ERM. Each batch holds equal shares of them (`needs.sampler`),
        as source and target have in the paper and all in DomainBed.
    Knobs: weight 1, and schedule "ramp" from 0 to it, the paper's; DomainBed holds it at 1. Wiles
        et al. 2022 searched weights from 0.01 to 10. discriminator_steps 1, gradient_penalty 0,
        width 256 and two hidden layers: DomainBed's defaults (the paper has one of 100, or two of
        1024, by data set). discriminator_lr null: the study's.
    Limits: at weight = 0 the model is ERM's on the same batches, and the discriminator looks on.
    Deviations: all environments are labelled and told apart, not one source and one target.
        DomainBed's code trains the discriminator on one step and the model on the next, so at its
        defaults the classifier misses every other batch. Its model also descends minus the gradient
        penalty; here neither is so. The study's optimiser trains both, where the paper has SGD with
        a decaying rate and DomainBed Adam with a beta1 of 0.5.
    Reference:
        @article{ganin2016domain, title={Domain-Adversarial Training of Neural Networks},
        author={Ganin, Yaroslav and Ustinova, Evgeniya and Ajakan, Hana and Germain, Pascal and
        Larochelle, Hugo and Laviolette, Fran{\\c{c}}ois and Marchand, Mario and Lempitsky, Victor},
        journal={Journal of Machine Learning Research}, volume={17}, number={59}, pages={1--35},
        year={2016}}
    Checked against: hand-worked numbers; a gradient reversal layer under one optimiser.
    """

    weight: float = knob(
        1.0,
        domain="[0, inf)",
        search=log(1e-2, 10.0),
        grid={"wiles2022": [0.01, 0.1, 1.0, 10.0]},
        source="Ganin et al. 2016, section 5.2.2; DomainBed",
        doc="weight of the discriminator's loss in the model's",
    )
    schedule: str = knob(
        "ramp",
        domain="{ramp, constant}",
        source="Ganin et al. 2016, section 5.2.2; constant: DomainBed",
        doc="whether the weight grows from 0 over training or is the same throughout",
    )
    discriminator_steps: int = knob(
        1,
        domain="[1, inf)",
        search=choose(1, 2, 4, 8),
        source="DomainBed",
        doc="steps of the discriminator for each of the model",
    )
    gradient_penalty: float = knob(
        0.0,
        domain="[0, inf)",
        search=choose(0.0, 0.01, 0.1, 1.0, 10.0),
        source="DomainBed",
        doc="weight of the discriminator's squared gradient by the features",
    )
    width: int = knob(
        256,
        domain="[1, inf)",
        search=choose(64, 256, 1024),
        source="DomainBed",
        doc="the discriminator's hidden units",
    )
    layers: int = knob(
        2,
        domain="[0, inf)",
        search=choose(2, 3, 4),
        source="DomainBed",
        doc="the discriminator's hidden layers",
    )
    discriminator_lr: float | None = knob(
        None,
        domain="(0, inf)",
        source="Ganin et al. 2016: one rate for both; a rate of its own: DomainBed",
        doc="the discriminator's learning rate; null: the study's",
    )

    needs = Needs(environments=True, sampler="per-environment")
    limit = Limit({"weight": 0.0}, equals="erm")
    version = 1
    family = {"wiles2022": "domain generalisation"}

    def state(self, info: Info) -> State:
        """`steps` int64 []: of the run, at most."""
        return {"steps": torch.tensor(info.steps)}

    def doubts(self, state: State) -> list[str]:
        """The ramp begins at 0, so that a single step has nothing of it."""
        if self.schedule == "constant" or int(state["steps"]) > 1:
            return []
        return [
            "the run has one step, at which the ramp is 0, so nothing was asked of the features"
        ]

    def modules(self, info: Info, make_model: MakeModel) -> Modules:
        """The model, and a perceptron from its features to logits of environments, one for each
        name."""
        model = make_model()
        sizes = [model.width, *[self.width] * self.layers]
        layers: list[nn.Module] = []
        for width_in, width_out in zip(sizes, sizes[1:], strict=False):
            layers += [nn.Linear(width_in, width_out), nn.ReLU()]
        layers.append(nn.Linear(sizes[-1], len(info.environment_counts)))
        return {"model": model, "discriminator": nn.Sequential(*layers)}

    def optimisers(self, info: Info, modules: Modules, stage: str) -> dict[str, OptimiserSpec]:
        """One for the model and one for the discriminator."""
        return {
            "main": OptimiserSpec([p for p in modules["model"].parameters() if p.requires_grad]),
            "discriminator": OptimiserSpec(
                list(modules["discriminator"].parameters()), lr=self.discriminator_lr
            ),
        }

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """The model's objective, L_y - weight r L_d."""
        features = cast("Model", modules["model"]).features(batch.x)
        domain_loss = self._domain_losses(modules, features, batch).mean()
        return self._objective(modules, features, domain_loss, batch)

    def update(self, context: RunContext, batch: Batch) -> Loss:
        """One step of the model, then those of the discriminator on the features that the model had
        before it."""
        model = cast("Model", context.modules["model"])
        discriminator_weights = list(context.modules["discriminator"].parameters())
        step_features: list[Tensor] = []
        first_losses: list[Tensor] = []

        def model_objective() -> Loss:
            features = model.features(batch.x)
            # One pass a step: a second would move the batch statistics twice.
            features_in = features.detach().requires_grad_()
            domain_loss = self._domain_losses(context.modules, features_in, batch).mean()
            # One way there and back through the discriminator serves its own first step and the
            # model's.
            feature_slope, *weight_slopes = torch.autograd.grad(
                domain_loss, [features_in, *discriminator_weights]
            )
            domain_loss = domain_loss.detach()
            step_features.append(features_in.detach())
            first_losses.append(with_slopes(domain_loss, discriminator_weights, weight_slopes))
            loss_of_features = with_slopes(domain_loss, [features], [feature_slope])
            return self._objective(context.modules, features, loss_of_features, batch)

        def discriminator_objective() -> Loss:
            return Loss(self._discriminator_loss(context.modules, step_features[0], batch))

        main_loss = context.descend("main", model_objective)
        for number in range(self.discriminator_steps):
            if number == 0 and self.gradient_penalty == 0:
                context.descend("discriminator", lambda: Loss(first_losses[0]))
            else:
                context.descend("discriminator", discriminator_objective)
        return main_loss

    def _objective(
        self, modules: Modules, features: Tensor, domain_loss: Tensor, batch: Batch
    ) -> Loss:
        """L_y - weight r L_d, of features [n, d] and L_d, a scalar."""
        logits = cast("Model", modules["model"]).head(features)
        classification = row_losses(logits, batch.y).mean()
        weight = self.weight
        if self.schedule == "ramp":
            weight *= 2.0 / (1.0 + math.exp(-10.0 * batch.progress)) - 1.0
        total = classification - weight * domain_loss
        terms = {"classification": classification.detach(), "discriminator": domain_loss.detach()}
        return Loss(total, terms)

    def _domain_losses(self, modules: Modules, features: Tensor, batch: Batch) -> Tensor:
        """The discriminator's loss of every row, [n], of features [n, d]."""
        assert batch.environment is not None
        return row_losses(modules["discriminator"](features), batch.environment)

    def _discriminator_loss(self, modules: Modules, features: Tensor, batch: Batch) -> Tensor:
        """L_d with its gradient penalty, which the discriminator descends; `features` [n, d] are
        without gradient."""
        features = features.detach().requires_grad_(self.gradient_penalty > 0)
        domain_losses = self._domain_losses(modules, features, batch)
        total = domain_losses.mean()
        if self.gradient_penalty > 0:
            (slopes,) = torch.autograd.grad(domain_losses.sum(), features, create_graph=True)
            squared_norms = slopes.float().square().sum(1)
            total = total + self.gradient_penalty * squared_norms.mean()
        return total
