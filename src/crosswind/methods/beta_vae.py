"""Beta-VAE: an encoder that is trained without labels, and a classifier of its codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
import torch
from torch import Tensor, nn

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
    RunContext,
    Stage,
    State,
)
from crosswind.methods.functional import levels, row_losses, wide, without_autocast
from crosswind.models.build import Model

__all__ = ["BetaVAE", "Decoder", "divergence"]

ENCODER = "encoder"
SMALLEST = 4  # side of the maps that a code is read from
WIDEST = 8  # largest number of channels, in `channels`
LAYERS, HIDDEN = 4, 256  # of the classifier, the MLP of Wiles et al. 2022
SLOPE = 0.2
ACTIVE = 0.01  # nats that a latent's divergence has at the mean where it says anything
LOOKED = 512  # training rows by which the codes are judged
SHOWN = 6  # pictures that are reconstructed, and latents that are traversed
REACH = 3.0  # standard deviations of the prior that a traversal goes to each side
VALUES = 7  # of a traversal


@final
@register("beta-vae", kind="method")
@dataclass(frozen=True)
class BetaVAE(Method):
    """Beta-VAE: pictures are coded by a variational autoencoder, then a perceptron learns the label
    from the codes.

    Objective: first, without labels, the mean over rows of
            sum_p (x_p - d(z)_p)^2 + beta KL(N(m(x), s(x)^2) || N(0, 1)),   z = m(x) + s(x) e, e normal,
        over pixels p in (-1, 1) and with d the decoder (Higgins et al. 2017, equation 4; a Gaussian
        likelihood of variance 1/2). Then the mean cross-entropy of a perceptron on the mean codes
        m(x), the encoder being held. Answers are the perceptron's.
    Assumes: what varies in pictures by itself is what codes keep apart, so that a classifier of
        codes needs few rows to tell the label from the rest. No group or environment is read. What
        is small in a picture is little of the squared error, and may be in no code.
    Knobs: beta 0.5, latents 256: Wiles et al. 2022. The share of the study's steps that the
        autoencoder is trained for is 1; the perceptron has all of them again. channels 32 of the
        first layer, doubled at every further one up to 256.
    Limits: none: the encoder learns without labels, which no setting makes it do otherwise.
    Deviations: the networks are the method's own, whatever the study's model: convolutions of
        stride 2 down to 4 pixels, and as many back. The encoder of the papers has 7 layers at 64
        pixels, without padding. The code of Jeon et al. 2025 has the mean over pixels and beta
        times latents over pixels, which is beta = 128 here; it draws codes when it predicts too.
    Reference:
        @inproceedings{higgins2017beta, title={beta-{VAE}: Learning Basic Visual Concepts with a
        Constrained Variational Framework}, author={Higgins, Irina and Matthey, Loic and Pal, Arka
        and Burgess, Christopher and Glorot, Xavier and Botvinick, Matthew and Mohamed, Shakir and
        Lerchner, Alexander}, booktitle={ICLR}, year={2017}}
    Checked against: hand-worked numbers; torch's own divergence; what each stage trains.
    """

    beta: float = knob(
        0.5,
        domain="[0, inf)",
        search=log(0.01, 10.0),
        grid={"wiles2022": [0.5]},
        source="Wiles et al. 2022",
        doc="weight of the divergence",
    )
    latents: int = knob(
        256,
        domain="[1, inf)",
        grid={"wiles2022": [256]},
        source="Wiles et al. 2022",
        doc="length of a code",
    )
    channels: int = knob(
        32, domain="[1, inf)", source="ours", doc="channels of the encoder's first layer"
    )
    share: float = knob(
        1.0,
        domain="(0, inf)",
        source="ours",
        doc="length of the autoencoder's training, in the study's steps",
    )

    needs = Needs(channels=(1, 3))
    limit = Limit.none("the encoder learns without labels, which no setting makes it do otherwise")
    version = 1
    family = {"wiles2022": "representation"}

    def modules(self, info: Info, make_model: MakeModel) -> Modules:
        """A model whose features are mean codes, and what else the autoencoder has."""
        shape = info.input_shape
        widths = _widths(shape, self.channels)
        encoder = _encoder(shape[0], widths)
        with torch.no_grad():
            deepest = encoder(torch.zeros(1, *shape))
        sizes = [self.latents, *[HIDDEN] * LAYERS]
        layers: list[nn.Module] = []
        for before, after in zip(sizes, sizes[1:], strict=False):
            layers += [nn.Linear(before, after), nn.ReLU()]
        head = nn.Sequential(*layers, nn.Linear(HIDDEN, info.n_classes))
        children = {
            "encoder": encoder,
            "flat": nn.Flatten(),
            "mean": nn.Linear(deepest[0].numel(), self.latents),
            "classifier": head,
        }
        model = Model(
            children,
            stages={"encoder": ["encoder"]},
            pool=["flat", "mean"],
            head="classifier",
            width=self.latents,
        )
        return {
            "model": model,
            "decoder": Decoder(self.latents, shape, tuple(deepest.shape[1:]), widths),
        }

    def optimisers(self, info: Info, modules: Modules, stage: str) -> dict[str, OptimiserSpec]:
        """The study's, over the autoencoder first, then over the classifier of codes."""
        model = cast(Model, modules["model"])
        head = list(model.head.parameters())
        head_ids = {id(parameter) for parameter in head}
        autoencoder_parameters = [
            parameter for parameter in model.parameters() if id(parameter) not in head_ids
        ] + list(modules["decoder"].parameters())
        return {"main": OptimiserSpec(autoencoder_parameters if stage == ENCODER else head)}

    def state(self, info: Info) -> State:
        """`divergence` [latents]: that of each latent at the mean of training rows, in nats, -1
        before it is known.

        `rebuilt` uint8 [6, 2, c, h, w]: pictures and their reconstructions. `traversed` uint8 [6,
        7, c, h, w]: of each of the six latents that say most, one picture decoded with that latent
        from -3 to 3.
        """
        shape = info.input_shape
        out = {"divergence": torch.full((self.latents,), -1.0)}
        out["rebuilt"] = torch.zeros(SHOWN, 2, *shape, dtype=torch.uint8)
        return {
            **out,
            "traversed": torch.zeros(min(SHOWN, self.latents), VALUES, *shape, dtype=torch.uint8),
        }

    def stage(self, index: int, context: RunContext) -> Stage | None:
        """The autoencoder's training, in which no classifier can be validated, and the
        classifier's."""
        if index == 0:
            return Stage(
                ENCODER, steps=round(self.share * context.info.steps), stop=False, validate=False
            )
        if index == 1:
            self._look(context)
            return Stage()
        return None

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """See the class."""
        model = cast(Model, modules["model"])
        if batch.stage != ENCODER:
            with torch.no_grad():
                codes = model.features(batch.x)
            return Loss(row_losses(model.head(codes), batch.y).mean())
        x = batch.x[
            batch.ids.argsort(stable=True)
        ]  # so that what is drawn for places is the same of a batch in another order
        mean, spread = _coded(modules, x)
        reconstruction = modules["decoder"](mean + (spread / 2.0).exp() * torch.randn_like(mean))
        with without_autocast(reconstruction):
            apart = (wide(reconstruction) - wide(x)).square().flatten(1).sum(1).mean()
            divergence_sum = divergence(wide(mean), wide(spread)).sum(1).mean()
        return Loss(
            apart + self.beta * divergence_sum,
            {"reconstruction": apart.detach(), "divergence": divergence_sum.detach()},
        )

    def doubts(self, state: State) -> list[str]:
        """Codes that say nothing."""
        divergences = state["divergence"]
        if bool((divergences < 0).all()) or bool((divergences > ACTIVE).any()):
            return []
        if not bool(torch.isfinite(divergences).all()):
            return ["the autoencoder diverged, so its codes say nothing; lower the learning rate"]
        return [
            "no latent tells pictures apart, so the classifier saw the same code everywhere; lower"
            " `beta` or train longer"
        ]

    def exhibits(self, info: Info, state: State) -> Mapping[str, Exhibit]:
        """Reconstructions, and traversals of the latents that say most."""
        divergences = state["divergence"]
        if bool((divergences < 0).all()) or not bool(torch.isfinite(divergences).all()):
            return {}
        active = int((divergences > ACTIVE).sum())
        images = {
            name: state[name].cpu().permute(0, 1, 3, 4, 2).numpy()
            for name in ("rebuilt", "traversed")
        }
        nats_in_words = [
            f"{float(nats):.1f} nats"
            for nats in divergences.sort(descending=True).values[: len(images["traversed"])]
        ]
        rebuilt = (
            f"Training pictures, and what the decoder makes of their mean codes. {active} of"
            f" {len(divergences)} latents say anything."
        )
        traversed = (
            "A row is one of the latents that say most, with the nats that it says of a picture at"
            " the mean: along it, in standard deviations of its prior, what the decoder makes of"
            " the first picture's code; last what changes, grey for nothing."
        )
        line = images["traversed"]
        change = (128 + line[:, -1:].astype(np.int32) - line[:, :1]).clip(0, 255).astype(np.uint8)
        columns = [*(f"{value:+.0f}" for value in np.linspace(-REACH, REACH, VALUES)), "diff."]
        return {
            "reconstructions": Picture.sheet(
                images["rebuilt"], rebuilt, columns=["picture", "rebuilt"]
            ),
            "traversals": Picture.sheet(
                np.concatenate([line, change], 1), traversed, columns=columns, rows=nats_in_words
            ),
        }

    def _look(self, context: RunContext) -> None:
        """Pictures that the trained autoencoder makes of training rows."""
        modules, n = context.modules, len(context.y)
        rows = torch.linspace(0, n - 1, min(n, LOOKED)).long().to(context.y.device)
        with torch.no_grad():
            x = context.inputs(rows)
            mean, spread = _coded(modules, x)
            each = divergence(wide(mean), wide(spread)).mean(0)
            context.state["divergence"] = each.float()
            reconstructions = modules["decoder"](mean[:SHOWN])
            rebuilt = context.state["rebuilt"].clone()
            for position, pictures in enumerate((x[:SHOWN], reconstructions)):
                rebuilt[: len(pictures), position] = levels(pictures)
            context.state["rebuilt"] = rebuilt
            traversed = context.state["traversed"].clone()
            for line, latent in enumerate(
                each.nan_to_num(0.0).argsort(descending=True)[: len(traversed)].tolist()
            ):
                codes = mean[:1].repeat(VALUES, 1)
                codes[:, latent] = torch.linspace(-REACH, REACH, VALUES).to(codes)
                traversed[line] = levels(modules["decoder"](codes))
            context.state["traversed"] = traversed


class Decoder(nn.Module):
    """Codes [n, latents] -> pictures like inputs, values in (-1, 1); and the layer that tells the
    spread of codes."""

    def __init__(
        self, latents: int, shape: tuple[int, ...], deepest: tuple[int, ...], widths: list[int]
    ) -> None:
        super().__init__()
        size = deepest[0] * deepest[1] * deepest[2]
        self.spread, self.begin, self.deepest, self.sides = (
            nn.Linear(size, latents),
            nn.Linear(latents, size),
            deepest,
            shape[1:],
        )
        layers: list[nn.Module] = []
        for before, after in zip(widths[::-1], widths[-2::-1], strict=False):
            layers += [
                nn.ConvTranspose2d(before, after, 4, 2, 1),
                nn.LeakyReLU(SLOPE, inplace=True),
            ]
        self.net = nn.Sequential(*layers, nn.ConvTranspose2d(widths[0], shape[0], 4, 2, 1))

    def forward(self, codes: Tensor) -> Tensor:
        """See the class."""
        pictures = self.net(
            nn.functional.leaky_relu_(self.begin(codes), SLOPE).view(-1, *self.deepest)
        )
        if (
            pictures.shape[2:] != self.sides
        ):  # a side that two does not divide loses a pixel on the way down
            pictures = nn.functional.interpolate(pictures, self.sides)
        return torch.tanh(pictures)


def divergence(mean: Tensor, spread: Tensor) -> Tensor:
    """KL(N(mean, exp(spread)) || N(0, 1)) in nats, like its arguments."""
    return 0.5 * (mean.square() + spread.exp() - 1.0 - spread)


def _coded(modules: Modules, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and log variance of codes [n, latents]."""
    model, decoder = cast(Model, modules["model"]), cast(Decoder, modules["decoder"])
    deepest = model.until(x, "encoder")
    return model.after(deepest, "encoder"), decoder.spread(deepest.flatten(1))


def _widths(shape: tuple[int, ...], channels: int) -> list[int]:
    """Channels after each layer of the encoder, as many as halve the smaller side to `SMALLEST`, at
    least one."""
    n_layers = max(1, (min(shape[1:]) // SMALLEST).bit_length() - 1)
    return [min(channels * 2**layer, channels * WIDEST) for layer in range(n_layers)]


def _encoder(channels: int, widths: list[int]) -> nn.Sequential:
    layers: list[Any] = []
    for before, after in zip([channels, *widths], widths, strict=False):
        layers += [nn.Conv2d(before, after, 4, 2, 1), nn.LeakyReLU(SLOPE, inplace=True)]
    return nn.Sequential(*layers)
