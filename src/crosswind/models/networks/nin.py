"""Network in Network: convolutions followed by small perceptrons at every pixel."""

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

__all__ = ["NiN"]


@register("nin", kind="model")
@dataclass(frozen=True)
class NiN(FromFile):
    """Network in Network for small pictures: blocks of a convolution and two 1x1 convolutions, then
    the average over all pixels.

    Stages block1 to block`depth`; features of `width`. Between blocks the map is halved, and
    dropout follows. The defaults are the network of Lin et al. 2013 for CIFAR-10, but that all
    layers have one width, where theirs have 192, 160, 96 and 192 channels. Its last 1x1 convolution
    gives a map for each class, which is averaged; here the average comes first and the head is that
    layer, which is the same. 1.5 million parameters. The knobs are those of Ng et al. 2022, table
    1.
    """

    depth: int = knob(3, domain="[1, 16]", source="Lin et al. 2013", doc="number of blocks")
    width: int = knob(
        192, domain="[1, inf)", source="Lin et al. 2013", doc="channels of every layer"
    )
    kernel: int = knob(
        5,
        domain="{3, 5}",
        source="Lin et al. 2013",
        doc="side of the first convolution of a block; 3 in the last",
    )
    halving: str = knob(
        "pool",
        domain="{pool, stride}",
        source="Lin et al. 2013",
        doc=(
            "pool: 3x3 max pooling of stride 2 between blocks; stride: the first convolution of"
            " each block has stride 2, faster"
        ),
    )
    dropout: float = knob(
        0.5,
        domain="[0, 1)",
        source="Lin et al. 2013",
        doc="share of values that are dropped between blocks",
    )
    norm: str = knob(
        "none",
        domain="{none, batch}",
        source="Lin et al. 2013",
        doc="what follows every convolution",
    )

    built = Form(norm="norm", linear=False)
    family = {"ng2022": "architecture"}

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        before, *_ = input.tensor_shape
        pooled = self.halving == "pool"
        children = dict[str, nn.Module]()
        for number in range(1, self.depth + 1):
            last = number == self.depth
            width = self.width
            kernel = 3 if last else self.kernel
            layers = [
                ReLUConvolution(before, width, kernel, stride=1 if pooled else 2, norm=self.norm),
                ReLUConvolution(width, width, 1, norm=self.norm),
                *([] if last else [ReLUConvolution(width, width, 1, norm=self.norm)]),
            ]
            if last:
                between = []
            else:
                between = [nn.MaxPool2d(3, 2, padding=1)] * pooled + [nn.Dropout(self.dropout)]
            children[f"block{number}"] = nn.Sequential(*layers, *between)
            before = width
        drawn_for_relu(children)
        stages = {name: (name,) for name in children}
        avgpool = nn.AdaptiveAvgPool2d((1, 1))
        fc = nn.Linear(before, len(class_names))
        children |= {"avgpool": avgpool, "flatten": nn.Flatten(), "fc": fc}
        model = Model(children, stages=stages, pool=("avgpool", "flatten"), head="fc", width=before)
        return self.start(model)
