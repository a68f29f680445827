"""Beta-VAE: an encoder that is trained without labels, and a classifier of its codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast, final

import numpy as np
import torch
from numpy.typing import NDArray
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
LAYERS, HIDDEN = 4, 256  # hidden layers of the classifier and their width: Wiles et al. 2022's MLP
SLOPE = 0.2  # of the leaky rectifiers
ACTIVE = 0.01  # mean divergence, in nats, above which a latent says something
LOOKED = 512  # training rows by which the codes are judged
SHOWN = 6  # pictures that are reconstructed, and latents that are traversed
REACH = 3.0  # standard deviations of the prior that a traversal goes to each side
VALUES = 7  # values of a latent in a traversal


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
            deepest_maps = encoder(torch.zeros(1, *shape))[0]
        head = _classifier(self.latents, info.n_classes)
        children = {
            "encoder": encoder,
            "flat": nn.Flatten(),
            "mean": nn.Linear(deepest_maps.numel(), self.latents),
            "classifier": head,
        }
        model = Model(
            children,
            stages={"encoder": ["encoder"]},
            pool=["flat", "mean"],
            head="classifier",
            width=self.latents,
        )
        decoder = Decoder(self.latents, shape, tuple(deepest_maps.shape), widths)
        return {"model": model, "decoder": decoder}

    def optimisers(self, info: Info, modules: Modules, stage: str) -> dict[str, OptimiserSpec]:
        """The study's, over the autoencoder first, then over the classifier of codes."""
        model = cast(Model, modules["model"])
        head = list(model.head.parameters())
        if stage != ENCODER:
            return {"main": OptimiserSpec(head)}
        head_ids = {id(parameter) for parameter in head}
        encoder = [parameter for parameter in model.parameters() if id(parameter) not in head_ids]
        decoder = list(modules["decoder"].parameters())
        return {"main": OptimiserSpec(encoder + decoder)}

    def state(self, info: Info) -> State:
        """`divergence` [latents]: that of each latent at the mean of training rows, in nats, -1
        before it is known.

        `rebuilt` uint8 [6, 2, c, h, w]: pictures and their reconstructions. `traversed` uint8 [6,
        7, c, h, w]: of each of the six latents that say most, one picture decoded with that latent
        from -3 to 3.
        """
        shape = info.input_shape
        n_traversed = min(SHOWN, self.latents)
        return {
            "divergence": torch.full((self.latents,), -1.0),
            "rebuilt": torch.zeros(SHOWN, 2, *shape, dtype=torch.uint8),
            "traversed": torch.zeros(n_traversed, VALUES, *shape, dtype=torch.uint8),
        }

    def stage(self, index: int, context: RunContext) -> Stage | None:
        """The autoencoder's training, in which no classifier can be validated, and the
        classifier's."""
        if index == 0:
            steps = round(self.share * context.info.steps)
            return Stage(ENCODER, steps=steps, stop=False, validate=False)
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
        # In the order of ids, so that a row has the same draw wherever it stands in the batch.
        x = batch.x[batch.ids.argsort(stable=True)]
        mean, log_variance = _coded(modules, x)
        code = mean + (log_variance / 2.0).exp() * torch.randn_like(mean)
        reconstruction = modules["decoder"](code)
        with without_autocast(reconstruction):
            squared_errors = (wide(reconstruction) - wide(x)).square().flatten(1).sum(1)
            divergences = divergence(wide(mean), wide(log_variance)).sum(1)
            mean_error = squared_errors.mean()
            mean_divergence = divergences.mean()
        total = mean_error + self.beta * mean_divergence
        terms = {"reconstruction": mean_error.detach(), "divergence": mean_divergence.detach()}
        return Loss(total, terms)

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
        return {
            "reconstructions": _reconstruction_sheet(state),
            "traversals": _traversal_sheet(state),
        }

    def _look(self, context: RunContext) -> None:
        """Put into the state the pictures that the trained autoencoder makes of training rows, which
        are spread evenly over all."""
        n_rows = len(context.y)
        positions = torch.linspace(0, n_rows - 1, min(n_rows, LOOKED)).long()
        with torch.no_grad():
            x = context.inputs(positions.to(context.y.device))
            mean, log_variance = _coded(context.modules, x)
            divergences = divergence(wide(mean), wide(log_variance)).mean(0)
            context.state["divergence"] = divergences.float()
            decoder = context.modules["decoder"]
            pictures = x[:SHOWN]
            rebuilt = context.state["rebuilt"].clone()
            rebuilt[: len(pictures), 0] = levels(pictures)
            rebuilt[: len(pictures), 1] = levels(decoder(mean[:SHOWN]))
            context.state["rebuilt"] = rebuilt
            traversed = context.state["traversed"].clone()
            most_active = divergences.nan_to_num(0.0).argsort(descending=True)[: len(traversed)]
            for line, latent in enumerate(most_active.tolist()):
                codes = mean[:1].repeat(VALUES, 1)
                codes[:, latent] = torch.linspace(-REACH, REACH, VALUES).to(codes)
                traversed[line] = levels(decoder(codes))
            context.state["traversed"] = traversed


class Decoder(nn.Module):
    """Codes [n, latents] -> pictures like inputs, values in (-1, 1); and `spread`, the layer from
    the encoder's flattened maps to the log variances of codes.

    `shape` [c, h, w]: of inputs; `deepest` [c, h, w]: of the encoder's output; `widths`: channels
    after each of the encoder's layers.
    """

    def __init__(
        self, latents: int, shape: tuple[int, ...], deepest: tuple[int, ...], widths: list[int]
    ) -> None:
        super().__init__()
        size = deepest[0] * deepest[1] * deepest[2]
        self.spread = nn.Linear(size, latents)
        self.begin = nn.Linear(latents, size)
        self.deepest = deepest
        self.sides = shape[1:]
        layers: list[nn.Module] = []
        for width_in, width_out in zip(widths[::-1], widths[-2::-1], strict=False):
            layers += [
                nn.ConvTranspose2d(width_in, width_out, 4, 2, 1),
                nn.LeakyReLU(SLOPE, inplace=True),
            ]
        layers.append(nn.ConvTranspose2d(widths[0], shape[0], 4, 2, 1))
        self.net = nn.Sequential(*layers)

    def forward(self, codes: Tensor) -> Tensor:
        """See the class."""
        maps = nn.functional.leaky_relu_(self.begin(codes), SLOPE).view(-1, *self.deepest)
        pictures = self.net(maps)
        # A side that two does not divide loses a pixel on the way down.
        if pictures.shape[2:] != self.sides:
            pictures = nn.functional.interpolate(pictures, self.sides)
        return torch.tanh(pictures)


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, exp(log_variance)) || N(0, 1)) in nats, like its arguments."""
    return 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance)


def _reconstruction_sheet(state: State) -> Picture:
    """Training pictures beside what the decoder makes of their mean codes."""
    divergences = state["divergence"]
    n_active = int((divergences > ACTIVE).sum())
    caption = (
        f"Training pictures, and what the decoder makes of their mean codes. {n_active} of"
        f" {len(divergences)} latents say anything."
    )
    return Picture.sheet(_images(state["rebuilt"]), caption, columns=["picture", "rebuilt"])


def _traversal_sheet(state: State) -> Picture:
    """The first picture decoded along each of the latents that say most."""
    images = _images(state["traversed"])
    largest_nats = state["divergence"].sort(descending=True).values[: len(images)]
    change = 128 + images[:, -1:].astype(np.int32) - images[:, :1]
    images = np.concatenate([images, change.clip(0, 255).astype(np.uint8)], 1)
    caption = (
        "A row is one of the latents that say most, with the nats that it says of a picture at"
        " the mean: along it, in standard deviations of its prior, what the decoder makes of"
        " the first picture's code; last what changes, grey for nothing."
    )
    columns = [*(f"{value:+.0f}" for value in np.linspace(-REACH, REACH, VALUES)), "diff."]
    rows = [f"{float(nats):.1f} nats" for nats in largest_nats]
    return Picture.sheet(images, caption, columns=columns, rows=rows)


def _images(pictures: Tensor) -> NDArray[np.uint8]:
    """Pictures uint8 [rows, columns, c, h, w] as [rows, columns, h, w, c]."""
    images: NDArray[np.uint8] = pictures.cpu().permute(0, 1, 3, 4, 2).numpy()
    return images


def _coded(modules: Modules, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and log variance of the codes of inputs [n, c, h, w]: [n, latents] each."""
    model = cast(Model, modules["model"])
    decoder = cast(Decoder, modules["decoder"])
    maps = model.until(x, "encoder")
    return model.after(maps, "encoder"), decoder.spread(maps.flatten(1))


def _classifier(latents: int, n_classes: int) -> nn.Sequential:
    """The perceptron from codes [n, latents] to logits [n, n_classes]."""
    layers: list[nn.Module] = []
    for width_in in (latents, *[HIDDEN] * (LAYERS - 1)):
        layers += [nn.Linear(width_in, HIDDEN), nn.ReLU()]
    layers.append(nn.Linear(HIDDEN, n_classes))
    return nn.Sequential(*layers)


def _widths(shape: tuple[int, ...], channels: int) -> list[int]:
    """Channels after each layer of the encoder, as many as halve the smaller side to `SMALLEST`, at
    least one."""
    n_layers = max(1, (min(shape[1:]) // SMALLEST).bit_length() - 1)
    return [min(channels * 2**layer, channels * WIDEST) for layer in range(n_layers)]


def _encoder(channels: int, widths: list[int]) -> nn.Sequential:
    """Convolutions of stride 2: inputs [n, channels, h, w] -> maps with the last of `widths` as
    channels."""
    layers: list[nn.Module] = []
    for width_in, width_out in zip([channels, *widths], widths, strict=False):
        layers += [nn.Conv2d(width_in, width_out, 4, 2, 1), nn.LeakyReLU(SLOPE, inplace=True)]
    return nn.Sequential(*layers)
