"""VGG for small pictures: stages of 3x3 convolutions, then hidden layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.models.build import Model
from crosswind.models.networks.layers import ReLUConvolution, drawn_for_relu
from crosswind.models.networks.pretrained import FromFile

__all__ = ["VGG"]

STAGES = 3


@register("vgg", kind="model")
@dataclass(frozen=True)
class VGG(FromFile):
    """VGG for small pictures: three stages of 3x3 convolutions, each with 2x2 max pooling, then
    hidden layers with dropout.

    Stages stage1 to stage3 of `width`, 2 and 4 times as many channels; features are those of the
    last hidden layer. Simonyan and Zisserman 2015 have five stages, which leave one pixel of 32,
    and two hidden layers of 4096 units: three stages and 512 units are ours. At the defaults 3.5
    million parameters for pictures of 32 pixels. The knobs are those of Ng et al. 2022, table 1.
    Inputs of at least 8 pixels a side.
    """

    depth: int = knob(
        2, domain="[1, 8]", source="Simonyan and Zisserman 2015", doc="convolutions a stage"
    )
    width: int = knob(
        64,
        domain="[1, inf)",
        source="Simonyan and Zisserman 2015",
        doc="channels of the first stage",
    )
    hidden: int = knob(512, domain="[1, inf)", doc="units of each hidden layer")
    layers: int = knob(
        2, domain="[1, 8]", source="Simonyan and Zisserman 2015", doc="hidden layers"
    )
    dropout: float = knob(
        0.5,
        domain="[0, 1)",
        source="Simonyan and Zisserman 2015",
        doc="share of the units of hidden layers that are dropped",
    )
    norm: str = knob(
        "none",
        domain="{none, batch}",
        source="Simonyan and Zisserman 2015",
        doc="what follows every convolution",
    )

    built = Form(norm="norm", least=8)
    family = {"ng2022": "architecture"}

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        before, height, width = input.tensor_shape
        children: dict[str, nn.Module] = {}
        for number in range(STAGES):
            layers: list[nn.Module] = []
            for _ in range(self.depth):
                layers.append(ReLUConvolution(before, self.width * 2**number, norm=self.norm))
                before = self.width * 2**number
            children[f"stage{number + 1}"] = nn.Sequential(*layers, nn.MaxPool2d(2))
        stages = {name: (name,) for name in children}
        size = before * (height // 2**STAGES) * (width // 2**STAGES)
        hidden = list[nn.Module]()
        for _ in range(self.layers):
            hidden += [
                nn.Linear(size, self.hidden),
                nn.ReLU(inplace=True),
                nn.Dropout(self.dropout),
            ]
            size = self.hidden
        children |= {"flatten": nn.Flatten(), "hidden": nn.Sequential(*hidden)}
        drawn_for_relu(children)
        children["fc"] = nn.Linear(size, len(class_names))
        model = Model(children, stages=stages, pool=("flatten", "hidden"), head="fc", width=size)
        return self.start(model)
