"""Style-agnostic networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast, final

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from crosswind.core.errors import NeedsError
from crosswind.core.knobs import Limit, Needs, knob, log
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
from crosswind.models.build import Model

__all__ = ["SagNet", "StyleNetwork", "restyled", "styles"]

EPS = 1e-5  # added to variances, the authors'
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@final
@register("sagnet", kind="method")
@dataclass(frozen=True)
class SagNet(Method):
    """SagNet: the class is learnt from contents in the styles of other rows, and kept out of what
    styles alone tell.

    Objective: with z [n, c, h, w] the output of the stage `after`, mu(z) and sigma(z) the means and
        standard deviations of each row's channels over the places of a map, and i', i'' rows of the
        batch drawn for row i (their section 3),
        SR(z)_i = sigma^ (z_i - mu(z_i)) / sigma(z_i) + mu^,     CR(z)_i = sigma(z_i) (z_i'' - mu(z_i'')) / sigma(z_i'') + mu(z_i),
        where sigma^ = a sigma(z_i') + (1 - a) sigma(z_i), mu^ likewise, a uniform in (0, 1) for
        each row:
        model     <- one step down the mean cross-entropy of its later part on SR(z)
        style     <- one step down L_s, the mean cross-entropy of the labels y_i told from CR(z)_i by a network of its own, which is
                     like the later part of the model
        adversary <- one step of weights and biases of the batch norms up to there down weight x the
        mean over rows and classes k
                     of -log p_k(CR(z)), which asks for even answers of that network; its gradient
                     is cut to a norm of `clip`
    All gradients are taken before anything moves, in one pass. The contents in CR give no gradient.
    Pictures are predicted as they are: styles are exchanged in training steps only.
    Assumes: the class is in the contents and what shifts is in the style. Where the class is a
        brightness, a colour or a texture, it is in the style, and this hides it. No environment is
        read. A model without batch norm up to the stage, a map of one place and a batch of one row
        are refused, since nothing would be exchanged or moved.
    Knobs: weight 0.1 and clip 0.1, the authors'; Jeon et al. 2025 take the same weight. after null:
        the second stage past the stem ("layer2", "block2"), where the authors have it. mixing 1,
        the largest a. adversary_lr null: the study's. Under Adam a step has the size of the
        learning rate whatever the weight, so that there adversary_lr says how strong the adversary
        is.
    Limits: at weight 0 and mixing 0 the model is "erm", and the style network looks on.
    Deviations: standard deviations are interpolated, where the authors' code interpolates
        variances. The adversary has no weight decay: the model's own step has decayed these
        parameters. The authors' code has dropout before the heads, and augments. DomainBed takes
        the final features for z, whose style is then two numbers a row, and its adversary moves the
        whole featuriser. The study's optimiser trains all three, where the paper has SGD.
    Reference:
        @inproceedings{nam2021reducing, title={Reducing Domain Gap by Reducing Style Bias},
        author={Nam, Hyeonseob and Lee, HyunJae and Park, Jongchan and Yoon, Wonjun and Yoo,
        Donggeun}, booktitle={CVPR}, year={2021}}
    Checked against: hand-worked numbers; styles and all three losses by plain loops over rows and
        channels; gradients of losses that are computed anew.
    """

    weight: float = knob(
        0.1,
        domain="[0, inf)",
        search=log(1e-2, 1.0),
        grid={"jeon2025": [0.1]},
        source="Nam et al. 2021; Jeon et al. 2025, table 9",
        doc="weight of the adversary's loss; next to nothing but 0 or not under Adam",
    )
    clip: float | None = knob(
        0.1,
        domain="(0, inf)",
        source="the authors' code",
        doc="largest norm of the adversary's gradient; null: any",
    )
    mixing: float = knob(
        1.0,
        domain="[0, 1]",
        source="Nam et al. 2021",
        doc="largest share of another row's style in that of a row; 0: all its own",
    )
    after: str | None = knob(
        None,
        source="Nam et al. 2021",
        doc="stage of the model after which styles are exchanged; null: the second past the stem",
    )
    adversary_lr: float | None = knob(
        None,
        domain="(0, inf)",
        search=log(1e-5, 1e-2),
        source="Nam et al. 2021: one rate for all; the range is ours",
        doc="the adversary's learning rate; null: the study's",
    )

    needs = Needs(norm="batch", rows=2)
    limit = Limit({"weight": 0.0, "mixing": 0.0}, equals="erm")
    version = 1
    family = {"wiles2022": "domain generalisation", "jeon2025": "single-domain generalisation"}

    def modules(self, info: Info, make_model: MakeModel) -> Modules:
        """The classifier, and the network that tells the class by styles. Raises `NeedsError` where
        there are no styles."""
        if len(info.input_shape) != 3:
            raise NeedsError(
                "method 'sagnet' needs images, whose maps have styles, not inputs of shape"
                f" {info.input_shape}"
            )
        model = make_model()
        tap = self._tap(model)
        passed = _passed(model, tap, info.input_shape)
        norms = [name for name in passed if isinstance(model.get_submodule(name), _NORMS)]
        affine = [
            f"{name}.{key}"
            for name in norms
            for key, p in model.get_submodule(name).named_parameters()
            if p.requires_grad
        ]
        if not affine:
            raise NeedsError(
                f"method 'sagnet' needs a model with batch norm up to stage {tap!r}, whose weights"
                " its adversary moves, and this one has none there"
            )
        net = make_model()
        for name in passed:
            net.get_submodule(name).requires_grad_(False)  # never used
        return {"model": model, "style": StyleNetwork(net, tap, affine)}

    def optimisers(self, info: Info, modules: Modules, stage: str) -> dict[str, OptimiserSpec]:
        """One for the model, one for the style network, one for what the adversary moves of the
        model."""
        parameters = [p for p in modules["model"].parameters() if p.requires_grad]
        main = OptimiserSpec(parameters)
        style = OptimiserSpec([p for p in modules["style"].parameters() if p.requires_grad])
        adversary = OptimiserSpec(
            _affine(modules), lr=self.adversary_lr, weight_decay=0.0, clip=self.clip
        )
        return {"main": main, "style": style, "adversary": adversary}

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """The classifier's objective: the mean cross-entropy on contents in mixed styles."""
        return Loss(self._losses(modules, batch)[0])

    def update(self, context: RunContext, batch: Batch) -> Loss:
        """One step of the model, of the style network and of the adversary, from one pass."""
        affine = _affine(context.modules)
        style_losses: list[Tensor] = []
        slopes: list[Tensor] = []

        def classified() -> Loss:
            classed, style_loss, even = self._losses(context.modules, batch)
            # Now, while the pass through the early part is still remembered: another pass would
            # cost as much again, and would move the batch statistics a second time.
            slopes.extend(torch.autograd.grad(self.weight * even, affine, retain_graph=True))
            style_losses.append(style_loss)
            terms = {"classification": classed, "style": style_loss, "even": even}
            return Loss(classed, {name: term.detach() for name, term in terms.items()})

        main_loss = context.descend("main", classified)
        context.descend("style", lambda: Loss(style_losses[0]))
        # What has these slopes: its gradient is theirs wherever the parameters are by now.
        context.descend(
            "adversary",
            lambda: Loss(with_slopes(torch.zeros_like(style_losses[0]), affine, slopes)),
        )
        return main_loss

    def _losses(self, modules: Modules, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Of the classifier, of the style network, and how far the latter's answers are from
        even."""
        model = cast(Model, modules["model"])
        style = cast(StyleNetwork, modules["style"])
        hidden = model.until(batch.x, style.tap)
        contents, mean, sd = styles(hidden)
        share, other_row, owner = _drawn(batch.ids, sd.dtype)
        share = self.mixing * share.view(-1, 1, 1, 1)
        new_mean = torch.lerp(mean, mean[other_row], share)
        new_sd = torch.lerp(sd, sd[other_row], share)
        mixed = restyled(contents, sd, new_mean, new_sd).to(hidden.dtype)
        classed = row_losses(model.head(model.after(mixed, style.tap)), batch.y).mean()
        # Styles go to contents and not contents to styles: the same pairs of both, and maps stay
        # where they are.
        pure = restyled(contents.detach(), sd.detach(), mean[owner], sd[owner]).to(hidden.dtype)
        logits = style(pure)
        style_loss = row_losses(logits, batch.y[owner]).mean()
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return classed, style_loss, -wide.log_softmax(1).mean()

    def _tap(self, model: Model) -> str:
        names = [name for name in model.stages if name != "stem"]
        if self.after is None:
            return names[min(1, len(names) - 1)]
        if self.after not in model.stages:
            raise NeedsError(
                f"method 'sagnet' reads the stage {self.after!r}, the model has"
                f" {', '.join(model.stages)}"
            )
        return self.after


class StyleNetwork(nn.Module):
    """The network that tells the class by the style: the part of the model `net` that follows the
    stage `tap`.

    `affine`: the names of the classifier's parameters that the adversary moves.
    """

    def __init__(self, net: Model, tap: str, affine: list[str]) -> None:
        super().__init__()
        self.net = net
        self.tap = tap
        self.affine = tuple(affine)

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits [n, k] from the output of the stage."""
        logits: Tensor = self.net.head(self.net.after(hidden, self.tap))
        return logits


def styles(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Every channel of maps [n, c, h, w] less its mean, like x; its mean and standard deviation,
    [n, c, 1, 1]; at least float32."""
    contents, mean, sd = _Styles.apply(x)
    return contents, mean, sd


def restyled(contents: Tensor, sd: Tensor, new_mean: Tensor, new_sd: Tensor) -> Tensor:
    """Maps [n, c, h, w] less their means, of deviations `sd`, in a new style (Huang and Belongie
    2017, equation 8, AdaIN)."""
    return torch.addcmul(new_mean, contents, new_sd / sd)


class _Styles(torch.autograd.Function):
    """By hand, since on large maps each operator is a walk through memory: autograd's own formulas
    take three times as many."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean = wide.mean((2, 3), keepdim=True)
        contents = wide - mean
        sd = (contents.square().mean((2, 3), keepdim=True) + EPS).sqrt()
        ctx.save_for_backward(contents, sd)
        ctx.set_materialize_grads(False)
        ctx.kind = x.dtype
        return contents, mean, sd

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> Tensor:
        contents, sd = ctx.saved_tensors
        by_contents, by_mean, by_sd = gradients
        n_positions = contents.shape[2] * contents.shape[3]
        if by_mean is None:
            even = torch.zeros_like(sd)
        else:
            even = by_mean / n_positions
        if by_sd is None:
            along = torch.zeros_like(sd)
        else:
            along = by_sd / (n_positions * sd)
        if by_contents is None:
            out = torch.addcmul(even, contents, along)
        else:
            out = torch.addcmul(by_contents, contents, along).add_(
                even - by_contents.mean((2, 3), keepdim=True)
            )
        return out.to(ctx.kind)


def _drawn(ids: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """For each row a number in (0, 1), and the places of two rows, each a permutation of the batch.

    They go by the order of the ids and not of the rows, so that the loss is one of a set of rows.
    """
    share, other_row, two = torch.rand(3, len(ids), device=ids.device)
    order = ids.argsort(stable=True)
    rank = order.argsort()
    own_rank = order[other_row.argsort()][rank]
    return share.to(dtype)[rank], own_rank, order[two.argsort()][rank]


def _affine(modules: Modules) -> list[nn.Parameter]:
    return [
        modules["model"].get_parameter(name) for name in cast(StyleNetwork, modules["style"]).affine
    ]


def _passed(model: Model, tap: str, shape: tuple[int, ...]) -> list[str]:
    """The names of the parts that a picture passes up to a stage, whose output must be maps; the
    model stays as it is."""
    names: list[str] = []
    hooks = [
        submodule.register_forward_pre_hook(lambda submodule, inputs, name=name: names.append(name))
        for name, submodule in model.named_modules()
        if name
    ]
    training = model.training
    like = next(model.parameters())
    with torch.no_grad():
        hidden = model.eval().until(
            torch.zeros(1, *shape, dtype=like.dtype, device=like.device), tap
        )
    model.train(training)
    for hook in hooks:
        hook.remove()
    if hidden.ndim != 4 or hidden.shape[2] * hidden.shape[3] < 2:
        side_words = "x".join(str(size) for size in hidden.shape[1:])
        raise NeedsError(
            f"method 'sagnet' needs maps of more than one place after stage {tap!r}, where it tells"
            f" styles from contents, and this model's output there is {side_words}"
        )
    return names
