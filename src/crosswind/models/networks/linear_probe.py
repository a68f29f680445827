"""A linear classifier on features: those of the data, or those of a model that stays as it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.models.build import Backbone, Encoder, Model, build_model, make_backbone, normalised
from crosswind.models.form import inner_model
from crosswind.models.networks.backbones import FlattenChannelsLast
from crosswind.models.networks.pretrained import read_weights, take_weights
from crosswind.models.networks.tokens import rounded_lengths, text_lengths

__all__ = ["LinearProbe"]

AT_ONCE, TEXTS_AT_ONCE = 256, 32
"""Rows whose features are computed at once: always as many, so that a row's features do not depend
on the others."""


@register("linear-probe", kind="model")
@dataclass(frozen=True)
class LinearProbe(Backbone):
    """One linear layer, trained by the method, on features or on the flattened image.

    With `of` it reads the features of that model, which stays as `weights` (or, without a file, the
    run's seed) make it. They are computed once for each row before training, in float32 and in
    evaluation mode, so nothing that changes an image at every visit can be used with it. One stage,
    input. Alain and Bengio 2017, "Understanding Intermediate Layers Using Linear Classifier
    Probes".
    """

    of: str | None = knob(
        None, doc="the model whose features it reads; null: the inputs are the features"
    )
    settings: dict[str, Any] | None = knob(None, doc="the settings of that model")
    weights: str | None = knob(
        None,
        doc=(
            "that model's weights: published ones by name, or the path of a safetensors file; null:"
            " random"
        ),
    )
    weights_sha256: str | None = knob(None, doc="what the file of weights must hash to")

    built = Form(norm="none", takes=("features", "image"), of="of", linear=False)

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        width = math.prod(input.tensor_shape)
        fc = nn.Linear(width, len(class_names))
        children: dict[str, nn.Module] = {"flatten": FlattenChannelsLast(), "fc": fc}
        return Model(children, stages={"input": ("flatten",)}, pool=(), head="fc", width=width)

    def encoder_draws(self) -> bool:
        """See `Backbone.encoder_draws`."""
        return self.weights is None

    def encoder(self, input: InputSpec, seed: int, device: str = "cpu") -> Encoder | None:
        """The features of the model `of`, float32 [n, d]."""
        if self.of is None:
            return None
        inner, settings = inner_model(vars(self), "model")
        backbone = make_backbone(inner.name, settings, input)
        frozen_features = None
        if self.weights is None:
            frozen_features = backbone.frozen_features(input, device)
        if frozen_features is not None:
            return frozen_features
        first = backbone.encoder(input, seed, device)
        taken = input if first is None else first.input
        model = build_model(inner.name, settings, taken, ("0",), seed)
        if self.weights is not None and "weights" not in settings:
            tensors = read_weights(Path(self.weights), self.weights_sha256)
            take_weights(model, tensors, self.weights)
        model.to(device).eval()

        def apply(rows: NDArray[Any]) -> NDArray[Any]:
            inputs_read = rows if first is None else first.apply(rows)
            out = np.empty((len(inputs_read), model.width), dtype=np.float32)
            with torch.inference_mode(), torch.autocast(torch.device(device).type, enabled=False):
                for positions, size, length in _batches(inputs_read):
                    x = torch.from_numpy(inputs_read[np.resize(positions, size)][:, :length]).to(
                        device
                    )
                    x = normalised(
                        x.permute(0, 3, 1, 2) if x.ndim == 4 else x,
                        torch.float32,
                        channels_last=False,
                    )
                    out[positions] = model.features(x)[: len(positions)].cpu().numpy()
            return out

        return Encoder(InputSpec.features(model.width), apply)


def _batches(inputs_read: NDArray[Any]) -> Iterator[tuple[NDArray[np.int64], int, int | None]]:
    """The places of the rows of each batch, how many it is filled up to, and the length that texts
    in it are cut to.

    Rows of tokens stand with those of about their length, and each batch has a shape that a row's
    own length decides.
    """
    if inputs_read.dtype != np.int64:
        yield from (
            (positions, AT_ONCE, None) for positions in _parts(np.arange(len(inputs_read)), AT_ONCE)
        )
        return
    lengths = rounded_lengths(text_lengths(inputs_read), inputs_read.shape[1])
    for length in np.unique(lengths).tolist():
        yield from (
            (positions, TEXTS_AT_ONCE, length)
            for positions in _parts(np.flatnonzero(lengths == length), TEXTS_AT_ONCE)
        )


def _parts(positions: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    return [positions[start : start + size] for start in range(0, len(positions), size)]
