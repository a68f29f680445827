"""Unbiased networks from the feature maps of every depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, final

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, leaky_relu, normalize

from crosswind.core.errors import NeedsError
from crosswind.core.knobs import Base, Limit, Needs, knob, log
from crosswind.core.registry import register
from crosswind.methods.base import (
    Batch,
    Info,
    Loss,
    MakeModel,
    Method,
    Modules,
    OptimiserSpec,
    Output,
    RunContext,
    Stage,
    State,
)
from crosswind.methods.functional import frozen, row_losses
from crosswind.models.build import Model

__all__ = ["Combined", "UBNet", "likeness"]

SLOPE = 0.1  # of the leaky rectifier, the authors'


@final
@register("ubnet", kind="method")
@dataclass(frozen=True)
class UBNet(Method):
    """UBNet: the maps of every depth of a frozen ERM network, each told apart from the others,
    answer with equal say.

    Objective: with F_s [c_s, h_s, w_s] the output of stage s of S of a network trained by ERM,
        frozen and in evaluation mode, G_s = LeakyReLU(1x1 convolution to `channels` of F_s pooled
        on average to side x side)
        V_s = a 3x3 convolution of G_s of its own, times a weight of its own for every channel and
        place, averaged over the places logits = the mean over s of a linear head of V_s,
        and a step descends the mean cross-entropy of the logits + weight x (D(convolutions) +
        D(place weights)). D is the mean over all S x S pairs of stages of the squared cosine of
        their weights, one vector each, 0 for a stage with itself. So what stages read is kept
        orthogonal (their section 3.3). The frozen network learns nothing more.
    Assumes: bias is in the maps of some depths and not of others, so that a say of every depth is
        less biased than the last one alone. A network without maps, such as a perceptron, is
        refused. There are two trainings, so `erm` beside it is given the steps of both.
    Knobs: channels 64 and side 7, the authors'. weight 1: in their code D has an optimiser of its
        own, Adam at 1e-3 with betas 0.5 and 0.99, so no weight is published. Here D is idle:
        weights that are drawn in 36,864 and 3,136 dimensions are nearly at right angles, D begins
        near 1e-4, and between the weights 0 and 1 answers hardly differ. Exploring on the task of
        its effect, weights of 100 and 10,000, with which D is 1 to 77% of the loss, were worse.
        Channels 4 and side 1, with which D is 10 to 25% of it at weight 1, no other than at weight
        0. No task was found on which D helps (confirmed: with it and without it are alike); what
        UBNet gains, it gains by the maps of every depth. probabilities false: true puts a softmax
        before the cross-entropy as in their code, which so reads probabilities as logits. The first
        network is ERM for at most base_epochs 50 passes, stopped after base_patience 10 validations
        without a new best, and that of the best validation is taken: Jeon et al. 2025.
    Limits: none: what learns has its own weights, and no setting of the knobs makes it a plain
    network.
    Deviations: the stages are those of the study's model, five of a residual network with its stem
        as in the paper, fewer of a smaller one. D is descended with the cross-entropy and by its
        optimiser. In Jeon et al.'s code the frozen network stays in training mode, so that its
        batch statistics move and answers depend on the batch; here it is in evaluation mode.
        Patience counts the study's validations, not passes.
    Reference:
        @inproceedings{jeon2022conservative, title={A Conservative Approach for Unbiased Learning on
        Unknown Biases}, author={Jeon, Myeongho and Kim, Daekyung and Lee, Woochul and Kang,
        Myungjoo and Lee, Joonseok}, booktitle={CVPR}, pages={16752--16760}, year={2022}}
    Checked against: hand-worked numbers; a loop over stages in torch's own layers.
    """

    weight: float = knob(
        1.0,
        domain="[0, inf)",
        search=log(1e-2, 10.0),
        source="ours; the authors' code gives it an optimiser of its own",
        doc="weight of the likeness of the stages' weights",
    )
    channels: int = knob(
        64,
        domain="[1, inf)",
        source="Jeon et al. 2022",
        doc="channels that the maps of a stage are brought to",
    )
    side: int = knob(
        7,
        domain="[1, inf)",
        source="Jeon et al. 2022",
        doc="height and width that they are pooled to",
    )
    probabilities: bool = knob(
        False,
        source="true: the authors' code",
        doc="whether the cross-entropy reads softmax outputs as if they were logits",
    )
    base_patience: int | None = knob(
        10,
        domain="[1, inf)",
        source="Jeon et al. 2025, table 9",
        doc="validations without a new best that end the first training",
    )
    base_epochs: float | None = knob(
        50.0,
        domain="(0, inf)",
        source="Jeon et al. 2025, table 9",
        doc="passes over the rows of the first training, at most",
    )

    needs = Needs(
        base=Base(
            "erm",
            settings={"stop_at": None},
            from_knobs={"patience": "base_patience", "epochs": "base_epochs"},
        ),
        maps=True,
    )
    limit = Limit.none(
        "it learns to combine the maps of a frozen network, which no setting makes a plain network"
    )
    version = 1
    family = {"jeon2025": "de-biasing"}

    def modules(self, info: Info, make_model: MakeModel) -> Modules:
        """The first network, frozen, and what combines its maps."""
        model = frozen(make_model(base=True))
        widths = _widths(model, info.input_shape)
        return {
            "model": model,
            "combined": Combined(widths, info.n_classes, self.channels, self.side),
        }

    def state(self, info: Info) -> State:
        """`finite` bool []: whether the first network's weights are numbers."""
        return {"finite": torch.ones((), dtype=torch.bool)}

    def stage(self, index: int, context: RunContext) -> Stage | None:
        """The training of what combines the maps; the first is the base run's."""
        if index:
            return None
        weights = context.modules["model"].state_dict().values()
        are_finite = [torch.isfinite(tensor).all() for tensor in weights]
        context.state["finite"] = torch.stack(are_finite).all()
        return Stage()

    def doubts(self, state: State) -> list[str]:
        """A first network that diverged has nothing to combine."""
        if bool(state["finite"]):
            return []
        return ["the first network diverged, so its maps say nothing; lower the learning rate"]

    def optimisers(self, info: Info, modules: Modules, stage: str) -> dict[str, OptimiserSpec]:
        """The study's, over what combines the maps."""
        return {"main": OptimiserSpec(list(modules["combined"].parameters()))}

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """See the class."""
        combined = cast(Combined, modules["combined"])
        logits = _answer(modules, batch.x)
        scores = logits.softmax(1) if self.probabilities else logits
        classification = row_losses(scores, batch.y).mean()
        likeness_sum = combined.alike()
        total = classification
        if self.weight:
            total = classification + self.weight * likeness_sum
        terms = {"classification": classification.detach(), "likeness": likeness_sum.detach()}
        return Loss(total, terms)

    def predict(self, modules: Modules, x: Tensor, state: State) -> Output:
        """The mean of the stages' logits."""
        return Output(logits=_answer(modules, x))


class Combined(nn.Module):
    """Maps of several depths -> logits [n, k]; see `UBNet`.

    `widths`: channels of the maps of each depth. `reduce` and `mix` are the convolutions of G_s and
    V_s, `place` [depths x channels, side, side] the weights of channels and places.
    """

    def __init__(self, widths: Sequence[int], n_classes: int, channels: int, side: int) -> None:
        super().__init__()
        n_depths = len(widths)
        all_channels = n_depths * channels
        self.side = side
        self.reduce = nn.ModuleList(nn.Conv2d(width, channels, 1) for width in widths)
        self.mix = nn.Conv2d(all_channels, all_channels, 3, padding=1, groups=n_depths)
        self.place = nn.Parameter(torch.randn(all_channels, side, side))
        self.heads = nn.ModuleList(nn.Linear(channels, n_classes) for _ in widths)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        """Logits [n, k] of maps [n, c, h, w], one of each depth."""
        return torch.stack(self.each(maps)).mean(0)

    def each(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """The logits of every depth, [n, k] each."""
        reduced = []
        for convolution, depth_maps in zip(self.reduce, maps, strict=True):
            pooled = adaptive_avg_pool2d(depth_maps, self.side)
            reduced.append(leaky_relu(convolution(pooled), SLOPE))
        weighted = self.mix(torch.cat(reduced, 1)) * self.place
        features = weighted.mean((2, 3)).chunk(len(reduced), 1)
        return [
            head(depth_features) for head, depth_features in zip(self.heads, features, strict=True)
        ]

    def alike(self) -> Tensor:
        """How alike the depths' weights are: the sum of `likeness` for the convolutions and for the
        weights of places."""
        n_depths = len(self.heads)
        of_convolutions = likeness(self.mix.weight.reshape(n_depths, -1))
        of_places = likeness(self.place.reshape(n_depths, -1))
        return of_convolutions + of_places


def likeness(weights: Tensor) -> Tensor:
    """The mean over all pairs of rows of their squared cosine, a row with itself counted as 0;
    weights [s, d]."""
    wide = weights.to(torch.promote_types(weights.dtype, torch.float32))
    cosines = normalize(wide, dim=1) @ normalize(wide, dim=1).T
    off_diagonal = cosines - torch.diag(cosines.diagonal())
    return off_diagonal.square().mean()


def _answer(modules: Modules, x: Tensor) -> Tensor:
    """Logits [n, k] of inputs; nothing is kept for a gradient of the frozen network."""
    maps = _maps(cast(Model, modules["model"]), x)
    logits: Tensor = modules["combined"](maps)
    return logits


def _maps(model: Model, x: Tensor) -> list[Tensor]:
    """The outputs of every stage of a model, [n, c, h, w] each, without a gradient."""
    with torch.no_grad():
        taps = model.taps(x, model.stages)
    return [taps[name] for name in model.stages]


def _widths(model: Model, shape: tuple[int, ...]) -> list[int]:
    """The channels of every stage's maps. Raises `NeedsError` where an output is no map."""
    like = next(model.parameters())
    stage_maps = _maps(model, torch.zeros(1, *shape, dtype=like.dtype, device=like.device))
    for name, stage_map in zip(model.stages, stage_maps, strict=True):
        if stage_map.ndim != 4:
            raise NeedsError(
                "method 'ubnet' needs maps [channels, height, width] after every stage, and this"
                f" model's {name!r} gives none"
            )
    return [stage_map.shape[1] for stage_map in stage_maps]
