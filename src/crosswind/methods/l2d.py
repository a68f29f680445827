"""Learning to diversify: a network that restyles pictures is trained against a classifier that must
see through it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from crosswind.core.exhibits import Exhibit, Picture
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
    Output,
    RunContext,
    State,
)
from crosswind.methods.functional import levels, row_losses, wide, without_autocast
from crosswind.models.build import Model

__all__ = [
    "L2D",
    "Augmenter",
    "class_distance",
    "contrast",
    "convolved",
    "information",
    "spread_out",
]

KERNELS = (9, 13, 17, 5)  # the authors', on pictures of 224 pixels
DROPPED = 0.2  # share of the colour branch's values that a random pass leaves out, the authors'
SHOWN = 6  # pictures of the exhibit
POWERS = (-2, -1, 0, 1, 2)  # of the kernels' widths, by 2, in the distance between codes


@final
@register("l2d", kind="method")
@dataclass(frozen=True)
class L2D(Method):
    """L2D: random convolutions with trained scales restyle each picture, and the classifier learns
    from both alike.

    Objective: the augmenter T maps pictures x to x+ = mix tanh(g / 2) + (1 - mix) x, where g =
        sum_b w_b h_b / sum_b w_b over five branches: h_0 = tanh of a 1x1 convolution, h_b =
        tanh(up_b(scale_b norm(conv_b(x)) + shift_b)), norm the instance norm and up_b a transposed
        convolution. The classifier's features f become z = m + spread s e, e normal, with m =
        LeakyReLU(A f) and log s^2 = ReLU(B f); in evaluation z = m. A step descends, in the
        classifier's parameters, for the n rows and their copies
            mean CE over both + alpha1 C(z, z+) + alpha2 mean_ij [ (z+_ij - m_ij)^2 / s_ij^2 + log
            s_ij^2 ]
        with C the supervised contrast of the 2n normalised codes at `temperature` (Khosla et al.
        2020, equation 2), and convolutions and w drawn anew; then in T's (scale, shift and the
        level of the noise on its input), with convolutions of its own, w even,
            D(z, z+) + beta I(z; z+)
        D is the mean over the batch's classes of the squared maximum mean discrepancy, under five
        Gaussian kernels, of the codes of a class's rows and copies. I = 1/2 mean_i sum_j [
        (z+_p(i)j - m_ij)^2 - (z+_ij - m_ij)^2 ] / s_ij^2, p a permutation, bounds their mutual
        information from above (Wang et al. 2021; Cheng et al. 2020).
    Assumes: what tells the classes survives random textures and colours; the shift is one of these.
        No group or environment is read. It makes a distribution wider, and does nothing about which
        classes are seen with which attribute.
    Knobs: alpha1 1, alpha2 1, beta 0.1: Jeon et al. 2025, table 9, and the authors' script, which
        has augmenter_lr 0.005; the default of their program is 10. mix 0.6, spread 0.2, temperature
        0.07: their code.
    Limits: none: codes are drawn and copies stand beside the pictures at any setting.
    Deviations: the authors' code descends D - beta I in T, which brings copies nearer; the paper
        and Jeon et al. have the sum. Kernels of 5, 9, 13 and 17 pixels are for pictures of 224;
        those above half a side are the largest odd number within it. Classes that a batch lacks are
        left out of D, where that code divides by zero. Code and features have one width.
    Reference:
        @inproceedings{wang2021learning, title={Learning to Diversify for Single Domain
        Generalization}, author={Wang, Zijian and Luo, Yadan and Qiu, Ruihong and Huang, Zi and
        Baktashmotlagh, Mahsa}, booktitle={ICCV}, pages={834--843}, year={2021}}
        @inproceedings{cheng2020club, title={{CLUB}: A Contrastive Log-ratio Upper Bound of Mutual
        Information}, author={Cheng, Pengyu and Hao, Weituo and Dai, Shuyang and Liu, Jiachang and
        Gan, Zhe and Carin, Lawrence}, booktitle={ICML}, year={2020}}
    Checked against: hand-worked numbers; loops over rows and classes; torch's own layers.
    """

    alpha1: float = knob(
        1.0,
        domain="[0, inf)",
        search=log(0.1, 10.0),
        grid={"jeon2025": [1.0]},
        source="Wang et al. 2021; Jeon et al. 2025, table 9",
        doc="weight of the contrast",
    )
    alpha2: float = knob(
        1.0,
        domain="[0, inf)",
        search=log(0.1, 10.0),
        grid={"jeon2025": [1.0]},
        source="Wang et al. 2021; Jeon et al. 2025, table 9",
        doc="weight of the likelihood of the copies' codes",
    )
    beta: float = knob(
        0.1,
        domain="[0, inf)",
        search=log(1e-2, 1.0),
        grid={"jeon2025": [0.1]},
        source="Wang et al. 2021; Jeon et al. 2025, table 9",
        doc="weight of the mutual information that the augmenter lowers",
    )
    augmenter_lr: float = knob(
        0.005,
        domain="[0, inf)",
        search=log(1e-3, 10.0),
        source="the authors' script for PACS",
        doc="learning rate of the augmenter",
    )
    mix: float = knob(
        0.6,
        domain="[0, 1]",
        source="the authors' code",
        doc="share of the augmenter's output in a copy",
    )
    spread: float = knob(
        0.2,
        domain="[0, inf)",
        source="the authors' code",
        doc="factor of a code's standard deviation",
    )
    temperature: float = knob(
        0.07, domain="(0, inf)", source="Khosla et al. 2020", doc="temperature of the contrast"
    )

    needs = Needs(channels=(1, 3), rows=2)
    limit = Limit.none("codes are drawn and copies stand beside the pictures at any setting")
    # convolutions by Fourier transforms; what they and the colours are disturbed by is drawn in
    # another order
    version = 3
    family = {"jeon2025": "single-domain generalisation"}

    def modules(self, info: Info, make_model: MakeModel) -> Modules:
        """The model, whose head reads codes; the layers that make codes of features; the
        augmenter."""
        model = make_model()
        return {"model": model, "code": Code(model.width), "augmenter": Augmenter(info.input_shape)}

    def optimisers(self, info: Info, modules: Modules, stage: str) -> dict[str, OptimiserSpec]:
        """The study's for the classifier, plain descent for the augmenter."""
        classifier = []
        for name in ("model", "code"):
            for p in modules[name].parameters():
                if p.requires_grad:
                    classifier.append(p)
        parameters = list(modules["augmenter"].parameters())
        descent = OptimiserSpec(
            parameters, kind="sgd", lr=self.augmenter_lr, weight_decay=0.0, momentum=0.0
        )
        return {"main": OptimiserSpec(classifier), "augmenter": descent}

    def state(self, info: Info) -> State:
        """`shown` uint8 [6, 2, c, h, w]: pictures of the last step and their copies."""
        shown = torch.zeros(SHOWN, 2, *info.input_shape, dtype=torch.uint8)
        return {"shown": shown}

    def update(self, context: RunContext, batch: Batch) -> Loss:
        """One step of the classifier, then one of the augmenter against the classifier as it is
        now."""
        classifier_loss = context.descend(
            "main", lambda: self.loss(context.modules, batch, context.state)
        )
        augmenter_loss = context.descend(
            "augmenter", lambda: self._restyled(context.modules, batch)
        )
        return Loss(
            classifier_loss.total,
            {**classifier_loss.terms, **augmenter_loss.terms},
            classifier_loss.state,
        )

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """The classifier's."""
        x, y = _ordered(batch)
        with torch.no_grad():
            copies = self._copies(modules, x, drawn=True)
        mean, spread, codes = self._codes(modules, torch.cat([copies, x]))
        n = len(x)
        logits = cast(Model, modules["model"]).head(codes)
        classed = row_losses(logits, torch.cat([y, y])).mean()
        with without_autocast(codes):
            contrast_loss = contrast(codes, torch.cat([y, y]), self.temperature)
            apart = wide(codes[:n]) - mean[n:]
            unlike = (apart.square() / spread[n:].exp() + spread[n:]).mean()
        total = classed + self.alpha1 * contrast_loss + self.alpha2 * unlike
        shown = state["shown"].clone()
        for position, pictures in enumerate((x, copies)):
            shown[: len(x[:SHOWN]), position] = levels(pictures[:SHOWN])
        terms = {
            "classification": classed.detach(),
            "contrast": contrast_loss.detach(),
            "likelihood": unlike.detach(),
        }
        return Loss(total, terms, {"shown": shown})

    def predict(self, modules: Modules, x: Tensor, state: State) -> Output:
        """The head's answer to the mean code."""
        model = cast(Model, modules["model"])
        mean, _ = modules["code"](model.features(x))
        return Output(logits=model.head(mean))

    def exhibits(self, info: Info, state: State) -> Mapping[str, Exhibit]:
        """Pictures of the last step and what became of them."""
        if not bool(state["shown"].any()):
            return {}
        images = state["shown"].cpu().permute(0, 1, 3, 4, 2).numpy()
        caption = (
            "Pictures of the last step and their copies, by convolutions that are drawn anew at"
            " every step."
        )
        return {"restyled pictures": Picture.sheet(images, caption, columns=["picture", "copy"])}

    def _restyled(self, modules: Modules, batch: Batch) -> Loss:
        """The augmenter's objective."""
        x, y = _ordered(batch)
        mean, spread, codes = self._codes(
            modules, torch.cat([self._copies(modules, x, drawn=False), x])
        )
        n = len(x)
        with without_autocast(codes):
            wide_codes = wide(codes)
            codes_of_rows = wide_codes[n:]
            codes_of_copies = wide_codes[:n]
            apart = class_distance(codes_of_rows, codes_of_copies, y)
            shared = information(
                mean[n:], spread[n:], codes_of_copies, torch.rand(n, device=x.device).argsort()
            )
        total = apart + self.beta * shared
        terms = {"distance": apart.detach(), "information": shared.detach()}
        return Loss(total, terms)

    def _copies(self, modules: Modules, x: Tensor, drawn: bool) -> Tensor:
        copies = _tanh(cast(Augmenter, modules["augmenter"])(x, drawn) / 2.0)
        # In the pictures' order in memory before they are mixed: numbers in two orders take ten
        # times as long.
        return torch.lerp(x, torch.empty_like(x).copy_(copies), self.mix)

    def _codes(self, modules: Modules, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and log variance, at least float32, and a draw, each [n, d]."""
        mean, spread = modules["code"](cast(Model, modules["model"]).features(x))
        drawn = mean + self.spread * (spread / 2.0).exp() * torch.randn_like(mean)
        return wide(mean), wide(spread), drawn


class Code(nn.Module):
    """Features [n, d] -> mean and log variance of their codes, each [n, d]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mean, self.spread = (nn.Linear(width, width) for _ in range(2))

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Neither is bounded above, and the second is at least 0."""
        return nn.functional.leaky_relu(self.mean(features)), nn.functional.relu(
            self.spread(features)
        )


class Augmenter(nn.Module):
    """Pictures [n, c, h, w] -> others like them, values in (-1, 1) where its branches weigh alike.

    What is trained: a scale and a shift for each place of each branch's maps, and the level of
    noise on the input, at first 0.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        c, h, w = shape
        half = min(h, w) // 2
        self.kernels = tuple(min(size, max(1, half - 1 + half % 2)) for size in KERNELS)
        sizes = [(c, h - size + 1, w - size + 1) for size in self.kernels]
        self.scale = nn.ParameterList(nn.Parameter(1.0 + 0.1 * torch.randn(size)) for size in sizes)
        self.shift = nn.ParameterList(nn.Parameter(0.1 * torch.randn(size)) for size in sizes)
        self.noise = nn.Parameter(torch.zeros(()))
        self.channels = c
        for index, tensor in enumerate(self._drawn(torch.zeros(()))):
            self.register_buffer(f"fixed{index}", tensor)

    def forward(self, x: Tensor, drawn: bool) -> Tensor:
        """`drawn`: with convolutions and weights of branches drawn now, else with its own and even
        weights."""
        n_tensors = 2 + 4 * len(self.kernels)
        if drawn:
            tensors = self._drawn(x)
        else:
            tensors = [cast(Tensor, getattr(self, f"fixed{index}")) for index in range(n_tensors)]
        branches = 1 + len(self.kernels)
        if drawn:
            weights = torch.randn(branches, device=x.device)
        else:
            weights = torch.ones(branches, device=x.device)
        weights = weights / weights.sum()
        with without_autocast(x):
            x = (
                wide(x).contiguous()
            )  # in channels-last memory, numbers and transforms take several times as long
            x = x + 0.01 * self.noise * torch.randn_like(x)
            mixed = torch.matmul(tensors[0].flatten(1), x.flatten(2))
            colours = mixed.view_as(x) + tensors[1][:, None, None]
            if drawn:  # by whole numbers: a choice by place takes ten times as long
                colours = colours * ((torch.rand_like(colours) - DROPPED).ceil() / (1.0 - DROPPED))
            out = weights[0] * _tanh(colours)
            for index, maps in enumerate(convolved(x, tensors[2::4])):
                # The norm takes the convolution's own offset away.
                maps = torch.addcmul(
                    self.shift[index], self.scale[index], nn.functional.instance_norm(maps)
                )
                kernel_tensors = tensors[4 + 4 * index : 6 + 4 * index]
                out = torch.addcmul(
                    out, weights[index + 1], _tanh(spread_out(maps, *kernel_tensors))
                )
            return out

    def _drawn(self, like: Tensor) -> list[Tensor]:
        """A convolution's weights and offsets and, for each branch past the first, those of the way
        back; torch's own first law."""
        tensors = []
        for size in (1, *(kernel for kernel in self.kernels for _ in range(2))):
            bound = 1.0 / math.sqrt(self.channels * size * size)
            for shape in ((self.channels, self.channels, size, size), (self.channels,)):
                tensors.append(
                    bound * (2.0 * torch.rand(shape, device=like.device, dtype=like.dtype) - 1.0)
                )
        return tensors


# Convolutions of 3 channels by large kernels are what libraries do slowest: as products of Fourier
# transforms they take a tenth of the time. The slopes of either kind are made by the other; torch's
# own of its transforms take twice as long.


def convolved(x: Tensor, kernels: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The convolution, as by `conv2d`, of pictures [n, c, h, w] by each of several kernels [o, c,
    s, s] without padding. No slope of kernels."""
    maps_by_kernel: tuple[Tensor, ...]
    if kernels:
        maps_by_kernel = _Convolved.apply(x, *kernels)
    else:
        maps_by_kernel = ()
    return maps_by_kernel


def spread_out(maps: Tensor, kernel: Tensor, offset: Tensor) -> Tensor:
    """The transposed convolution, as by `conv_transpose2d`, of maps [n, c, h, w] by a kernel [c, o,
    s, s] and offsets [o]: [n, o, h + s - 1, w + s - 1].

    No slope of kernel and offsets.
    """
    spread_maps: Tensor = _SpreadOut.apply(maps, kernel)
    return spread_maps + offset[:, None, None]


class _Convolved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *kernels: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(*kernels)
        waves = torch.fft.rfft2(x)
        return tuple(_narrowed(waves, kernel, x.shape[2:]) for kernel in kernels)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        sides = _widened_sides(slopes[0], ctx.saved_tensors[0])
        waves = []
        for slope, kernel in zip(slopes, ctx.saved_tensors, strict=True):
            waves.append(_widened(slope, kernel, sides))
        return torch.fft.irfft2(sum(waves), s=sides), *(None for _ in waves)


class _SpreadOut(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, maps: Tensor, kernel: Tensor) -> Tensor:
        ctx.save_for_backward(kernel)
        sides = _widened_sides(maps, kernel)
        return torch.fft.irfft2(_widened(maps, kernel, sides), s=sides)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        (kernel,) = ctx.saved_tensors
        waves = torch.fft.rfft2(slope)
        sides = slope.shape[2:]
        return _narrowed(waves, kernel, sides), None


def _narrowed(waves: Tensor, kernel: Tensor, sides: Sequence[int]) -> Tensor:
    """`conv2d` of what has these transforms and sides."""
    slopes_of_waves = torch.fft.rfft2(kernel, s=sides).conj().resolve_conj()
    narrowed, (height, width) = (_mixed(waves, slopes_of_waves), sides)
    lines = torch.fft.ifft(narrowed, dim=2)[:, :, : height - kernel.shape[2] + 1]
    return torch.fft.irfft(lines, n=width)[..., : width - kernel.shape[3] + 1]


def _widened(maps: Tensor, kernel: Tensor, sides: Sequence[int]) -> Tensor:
    """The transform of what `conv_transpose2d` makes, which has these sides."""
    return _mixed(torch.fft.rfft2(maps, s=sides), torch.fft.rfft2(kernel, s=sides).transpose(0, 1))


def _widened_sides(maps: Tensor, kernel: Tensor) -> list[int]:
    return [side + kernel.shape[2] - 1 for side in maps.shape[2:]]


def _mixed(x: Tensor, by: Tensor) -> Tensor:
    """Transforms of maps [n, c, h, w] by those of kernels [o, c, h, w]: [n, o, h, w]."""
    mixed = x[:, :1] * by[:, 0]
    for channel in range(1, x.shape[1]):
        mixed += x[:, channel : channel + 1] * by[:, channel]
    return mixed


def _tanh(x: Tensor) -> Tensor:
    activated: Tensor = _Tanh.apply(x)
    return activated


class _Tanh(torch.autograd.Function):
    """By the logistic function: a quarter of the time of torch's own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = (2.0 * x).sigmoid_().mul_(2.0).sub_(1.0)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        return torch.ops.aten.tanh_backward(slope, *ctx.saved_tensors)


def contrast(codes: Tensor, y: Tensor, temperature: float) -> Tensor:
    """The supervised contrast of rows of `codes` [n, d] with labels y [n] (Khosla et al. 2020,
    equation 2), by their directions.

    A row that is alone with its label has no part in the mean.
    """
    unit = nn.functional.normalize(wide(codes))
    itself = torch.eye(len(y), dtype=torch.bool, device=y.device)
    alike = (y[:, None] == y) & ~itself
    logits = (unit @ unit.T / temperature).masked_fill(itself, -math.inf)
    log_likelihood = logits.log_softmax(1).masked_fill(~alike, 0.0).sum(1)
    counts = alike.sum(1)
    return -(log_likelihood / counts.clamp(min=1)).sum() / (counts > 0).sum().clamp(min=1)


def class_distance(first: Tensor, second: Tensor, y: Tensor) -> Tensor:
    """The mean over classes of the squared maximum mean discrepancy of a class's rows in `first`
    and
    `second` [n, d], labels y [n].

    The kernel is the sum of exp(-|a - b|^2 / (2^k w)), k = -2 to 2. w is the mean squared distance
    of two different rows of the class in either, which gives no gradient (Gretton et al. 2012; Long
    et al. 2015). All pairs count, a row with itself too.
    """
    both_codes = torch.cat([first, second])
    labels = torch.cat([y, y])
    centred = both_codes - both_codes.mean(0).detach()
    norms = centred.square().sum(1)
    squared = (norms[:, None] + norms - 2.0 * centred @ centred.T).clamp(min=0.0)
    alike = (labels[:, None] == labels).to(both_codes.dtype)
    counts = alike.sum(1)  # of both, for each row's class
    with torch.no_grad():
        width = (alike @ (squared * alike).sum(1) / (counts * (counts - 1.0))).clamp(min=1e-12)
    kernels = torch.stack([torch.exp(-squared / (width * 2.0**power)[:, None]) for power in POWERS])
    signs = torch.cat([torch.ones_like(y), -torch.ones_like(y)]).to(both_codes.dtype)
    # A class of m rows in both has m / 2 in either, and (m / 2)^2 pairs of each kind.
    each = alike * signs * signs[:, None] * (4.0 / counts.square())[:, None]
    classes = (1.0 / counts).sum()
    return (kernels.sum(0) * each).sum() / classes


def information(mean: Tensor, spread: Tensor, codes: Tensor, order: Tensor) -> Tensor:
    """The bound on the mutual information of `codes` [n, d] and of what has codes of this mean and
    log variance [n, d].

    Half the mean over rows of (codes[order] - mean)^2 - (codes - mean)^2, each over exp(spread),
    summed over d (Cheng et al. 2020). `order`: a permutation, int64 [n].
    """
    apart = (codes[order] - mean).square() - (codes - mean).square()
    return (apart / spread.exp()).sum(1).mean() / 2.0


def _ordered(batch: Batch) -> tuple[Tensor, Tensor]:
    """Inputs and labels in the order of the rows' ids, so that what is drawn for places is the same
    of a batch in another order."""
    order = batch.ids.argsort(stable=True)
    return batch.x[order], batch.y[order]
