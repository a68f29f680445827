"""A linear classifier on features: those of the data, or those of a model that stays as it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from crosswind.models.backbones import FlattenChannelsLast
from crosswind.models.build import Backbone, Encoder, Model, build_model, make_backbone, normalised
from crosswind.models.form import inner_model
from crosswind.models.pretrained import read_weights, take_weights

__all__ = ["LinearProbe"]

AT_ONCE = 256
"""Rows whose features are computed at once: always as many, so that a row's features do not depend on the others."""


@register("linear-probe", kind="model")
@dataclass(frozen=True)
class LinearProbe(Backbone):
    """One linear layer, trained by the method, on features or on the flattened image.

    With `of` it reads the features of that model, which stays as `weights` (or, without a file, the run's seed) make it. They are
    computed once for each row before training, in float32 and in evaluation mode, so nothing that changes an image at every visit
    can be used with it. One stage, input. Alain and Bengio 2017, "Understanding Intermediate Layers Using Linear Classifier
    Probes".
    """

    of: str | None = knob(None, doc="the model whose features it reads; null: the inputs are the features")
    settings: dict[str, Any] | None = knob(None, doc="the settings of that model")
    weights: str | None = knob(
        None, doc="that model's weights: published ones by name, or the path of a safetensors file; null: random"
    )
    weights_sha256: str | None = knob(None, doc="what the file of weights must hash to")

    built = Form(norm="none", takes=("features", "image"), of="of")

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        width = math.prod(input.tensor_shape)
        parts: dict[str, nn.Module] = {"flatten": FlattenChannelsLast(), "fc": nn.Linear(width, len(class_names))}
        return Model(parts, stages={"input": ("flatten",)}, pool=(), head="fc", width=width)

    def encoder_draws(self) -> bool:
        """See `Backbone.encoder_draws`."""
        return self.weights is None

    def encoder(self, input: InputSpec, seed: int, device: str = "cpu") -> Encoder | None:
        """The features of the model `of`, float32 [n, d]."""
        if self.of is None:
            return None
        inner, settings = inner_model(vars(self), "model")
        first = make_backbone(inner.name, settings, input).encoder(input, seed, device)
        taken = input if first is None else first.input
        model = build_model(inner.name, settings, taken, ("0",), seed)
        if self.weights is not None and "weights" not in settings:
            take_weights(model, read_weights(Path(self.weights), self.weights_sha256), self.weights)
        model.to(device).eval()

        def apply(rows: NDArray[Any]) -> NDArray[Any]:
            given = rows if first is None else first.apply(rows)
            out = np.empty((len(given), model.width), dtype=np.float32)
            with torch.inference_mode(), torch.autocast(torch.device(device).type, enabled=False):
                for start in range(0, len(given), AT_ONCE):
                    part = given[start : start + AT_ONCE]
                    filled = np.concatenate([part, np.repeat(part[-1:], AT_ONCE - len(part), axis=0)])
                    x = torch.from_numpy(filled).to(device)
                    x = normalised(x.permute(0, 3, 1, 2) if x.ndim == 4 else x, torch.float32, channels_last=False)
                    out[start : start + len(part)] = model.features(x)[: len(part)].cpu().numpy()
            return out

        return Encoder(InputSpec.features(model.width), apply)
