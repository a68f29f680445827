"""The plain convolutional network with all that pools of networks vary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.models.build import Backbone, Model
from crosswind.models.networks.layers import ReLUConvolution
from crosswind.models.networks.pretrained import load_weights

__all__ = ["CNN"]


@register("cnn", kind="model")
@dataclass(frozen=True)
class CNN(Backbone):
    """A plain convolutional network: `depth` blocks of 3x3 convolution, norm, ReLU, 2x2 max pooling
    and dropout.

    Stages block1 to block`depth`, each of twice the channels of the one before; features of the
    last by global average. Sides are rounded up. At the defaults it is `small-cnn`, the initial
    weights included, for pictures whose sides are multiples of 8. No paper's network, so no
    published weights: the knobs are those of Ng et al. 2022, table 1, whose network is not
    published.
    """

    depth: int = knob(3, domain="[1, 8]", doc="number of blocks")
    width: int = knob(32, domain="[1, inf)", doc="channels of the first block")
    dropout: float = knob(
        0.0, domain="[0, 1)", doc="share of values that are dropped after each block"
    )
    norm: str = knob("batch", domain="{batch, none}", doc="what follows every convolution")
    weights: str | None = knob(
        None,
        doc=(
            "path of a safetensors file, such as one that a run of this or of small-cnn kept; null:"
            " random"
        ),
    )
    weights_sha256: str | None = knob(None, doc="what the file of weights must hash to")

    built = Form(norm="norm", linear=False)
    family = {"ng2022": "architecture"}

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        before, *_ = input.tensor_shape
        children: dict[str, nn.Module] = {}
        for number in range(self.depth):
            after = self.width * 2**number
            layers = [
                *ReLUConvolution(before, after, norm=self.norm),
                nn.MaxPool2d(2, ceil_mode=True),
                nn.Dropout(self.dropout),
            ]
            children[f"block{number + 1}"] = nn.Sequential(*layers)
            before = after
        stages = {name: (name,) for name in children}
        avgpool = nn.AdaptiveAvgPool2d((1, 1))
        fc = nn.Linear(before, len(class_names))
        children |= {"avgpool": avgpool, "flatten": nn.Flatten(), "fc": fc}
        model = Model(children, stages=stages, pool=("avgpool", "flatten"), head="fc", width=before)
        if self.weights is not None:
            load_weights(model, self.weights, {}, self.weights_sha256)
        return model
