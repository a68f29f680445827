"""A perceptron for tables of numbers and categories, which standardises by its training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.models.build import Backbone, Model

__all__ = ["Standardise", "Tabular"]


@register("tabular", kind="model")
@dataclass(frozen=True)
class Tabular(Backbone):
    """A perceptron on numbers that it standardises itself: the model of tables without pictures.

    Each number is scaled by the median and the quartiles of the training rows and drawn in
    smoothly, as in Holzmüller et al. 2024, "Better by Default" (RealMLP). A number that is missing
    (NaN) is the median, and a further input says that it was missing. Numbers that are 0 or 1 in
    all training rows, as categories are, stay as they are. Hidden layers have SiLU and dropout.
    Stages input, then layer1 to layerN; without hidden layers it is a logistic regression.
    """

    hidden: int = knob(256, domain="[1, inf)", doc="units of each hidden layer")
    layers: int = knob(2, domain="[0, inf)", doc="number of hidden layers")
    dropout: float = knob(0.1, domain="[0, 1)", doc="share of hidden units that a step leaves out")

    built = Form(norm="none", takes=("features",))

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        (n_numbers,) = input.shape
        children: dict[str, nn.Module] = {"standardise": Standardise(n_numbers)}
        stages: dict[str, Sequence[str]] = {"input": ("standardise",)}
        width = 2 * n_numbers
        for number in range(1, self.layers + 1):
            name = f"layer{number}"
            children[name] = nn.Sequential(
                nn.Linear(width, self.hidden), nn.SiLU(), nn.Dropout(self.dropout)
            )
            stages[name] = (name,)
            width = self.hidden
        children["fc"] = nn.Linear(width, len(class_names))
        return Model(children, stages=stages, pool=(), head="fc", width=width)


class Standardise(nn.Module):
    """Numbers [n, d] scaled by the training rows, and which of them were missing: [n, 2d].

    `centre` and `scale`, float32 [d], are weights of the run that training leaves as they are.
    """

    centre: Tensor
    scale: Tensor

    def __init__(self, n_numbers: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(n_numbers))
        self.register_buffer("scale", torch.ones(n_numbers))

    def fit_rows(self, rows: Tensor) -> None:
        """Take centre and scale from the training rows [n, d]; equations of section 3 of Holzmüller
        et al. 2024.

        The scale is the distance of the quartiles, else half the range where that is 0, else 1; a
        number that is 0 or 1 in every row is left as it is.
        """
        numbers = rows.detach().double().cpu().numpy()
        missing = np.isnan(numbers)
        filled = np.where(missing.all(axis=0), 0.0, numbers)
        low, centre, high = np.nanquantile(filled, [0.25, 0.5, 0.75], axis=0)
        half_range = (np.nanmax(filled, axis=0) - np.nanmin(filled, axis=0)) / 2
        scale = np.where(high > low, high - low, half_range)
        binary = ((numbers == 0) | (numbers == 1) | missing).all(axis=0)
        self.centre.copy_(torch.from_numpy(np.where(binary, 0.0, centre)))
        self.scale.copy_(torch.from_numpy(np.where(binary | (scale == 0), 1.0, scale)))

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        missing = x.isnan()
        scaled = torch.where(missing, torch.zeros_like(x), (x - self.centre) / self.scale)
        drawn_in = scaled / torch.sqrt(1 + (scaled / 3).square())
        return torch.cat([drawn_in, missing.to(x.dtype)], dim=1)
