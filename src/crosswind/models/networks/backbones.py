"""Image classifiers trained from scratch: the papers' MLP, and two small networks for laptops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.models.build import Model
from crosswind.models.networks.pretrained import FromFile
from crosswind.models.networks.residual import RESNET_STAGES

__all__ = ["MLP", "FlattenChannelsLast", "ResNetW16", "SmallCNN"]


@register("resnet-w16", kind="model")
@dataclass(frozen=True)
class ResNetW16(FromFile):
    """A narrow 18-layer residual network of widths 16, 32, 64, 128 with a 3x3 stem, for laptops.

    torchvision's `BasicBlock`, two a layer; parameter names as in resnet18; features of 128. 0.7
    million parameters. No paper's network: the widths are ours.
    """

    stride: int = knob(2, domain="{1, 2}", doc="stride of the stem; 2 costs a quarter of 1")

    built = Form(norm="batch", linear=False)

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        channels, *_ = input.tensor_shape
        widths = (16, 32, 64, 128)
        conv1 = _conv3x3(channels, 16, self.stride)
        relu = nn.ReLU(inplace=True)
        children: dict[str, nn.Module] = {
            "conv1": conv1,
            "bn1": nn.BatchNorm2d(16),
            "relu": relu,
            "maxpool": nn.Identity(),
        }
        for i, (before, width) in enumerate(itertools.pairwise((16, *widths)), start=1):
            stride = 1 if i == 1 else 2
            children[f"layer{i}"] = _basic_layer(before, width, stride=stride)
        for child in children.values():
            for module in child.modules():
                if isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        avgpool = nn.AdaptiveAvgPool2d((1, 1))
        fc = nn.Linear(widths[-1], len(class_names))
        children |= {"avgpool": avgpool, "flatten": nn.Flatten(), "fc": fc}
        model = Model(
            children, stages=RESNET_STAGES, pool=("avgpool", "flatten"), head="fc", width=widths[-1]
        )
        return self.start(model)


@register("small-cnn", kind="model")
@dataclass(frozen=True)
class SmallCNN(FromFile):
    """Three 3x3 convolutions of 32, 64 and 128 channels, each with batch norm, ReLU and 2x2 max
    pooling, for laptops and tests.

    Stages block1 to block3; features of 128 by global average. 0.1 million parameters. Inputs of at
    least 8 pixels a side. No paper's network.
    """

    built = Form(norm="batch", least=8, linear=False)

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        channels, *_ = input.tensor_shape
        children: dict[str, nn.Module] = {}
        for i, (before, after) in enumerate(itertools.pairwise((channels, 32, 64, 128)), start=1):
            children[f"block{i}"] = nn.Sequential(
                _conv3x3(before, after),
                nn.BatchNorm2d(after),
                nn.ReLU(inplace=True),
                nn.MaxPool2d(2),
            )
        avgpool = nn.AdaptiveAvgPool2d((1, 1))
        fc = nn.Linear(128, len(class_names))
        children |= {"avgpool": avgpool, "flatten": nn.Flatten(), "fc": fc}
        stages = {f"block{i}": (f"block{i}",) for i in range(1, 4)}
        model = Model(children, stages=stages, pool=("avgpool", "flatten"), head="fc", width=128)
        return self.start(model)


@register("mlp", kind="model")
@dataclass(frozen=True)
class MLP(FromFile):
    """A perceptron of four hidden layers of 256 with ReLU on the flattened input.

    Stages layer1 to layer4; features of 256. 4 x 256 is Wiles et al. 2022's and Jeon et al. 2025's.
    """

    hidden: int = knob(
        256, domain="[1, inf)", source="Wiles et al. 2022", doc="units of each hidden layer"
    )
    layers: int = knob(
        4, domain="[1, inf)", source="Wiles et al. 2022", doc="number of hidden layers"
    )

    built = Form(norm="none", takes=("image", "features"))
    family = {"wiles2022": "architecture", "jeon2025": "architecture"}

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        size = math.prod(input.tensor_shape)
        children: dict[str, nn.Module] = {"flatten": FlattenChannelsLast()}
        for i in range(1, self.layers + 1):
            children[f"layer{i}"] = nn.Sequential(
                nn.Linear(size if i == 1 else self.hidden, self.hidden), nn.ReLU(inplace=True)
            )
        children["fc"] = nn.Linear(self.hidden, len(class_names))
        stages: dict[str, Sequence[str]] = {
            f"layer{i}": (f"layer{i}",) for i in range(1, self.layers + 1)
        }
        stages["layer1"] = ("flatten", "layer1")
        model = Model(children, stages=stages, pool=(), head="fc", width=self.hidden)
        return self.start(model)


class FlattenChannelsLast(nn.Module):
    """[n, c, h, w] -> [n, h * w * c]: a view of images in channels-last memory, where torch's own
    order would copy."""

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        if x.ndim == 4:
            return x.permute(0, 2, 3, 1).flatten(1)
        return x.flatten(1)


def _conv3x3(before: int, after: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)


def _basic_layer(before: int, after: int, stride: int) -> nn.Sequential:
    from torchvision.models.resnet import BasicBlock

    shortcut = None
    if stride != 1 or before != after:
        shortcut = nn.Sequential(
            nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after)
        )
    return nn.Sequential(BasicBlock(before, after, stride, shortcut), BasicBlock(after, after))
