"""The residual network for small pictures, of three widths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.models.build import Model
from crosswind.models.networks.layers import ReLUConvolution, convolution, drawn_for_relu
from crosswind.models.networks.pretrained import FromFile

__all__ = ["CifarResNet"]

LAYERS = 3


@register("cifar-resnet", kind="model")
@dataclass(frozen=True)
class CifarResNet(FromFile):
    """The residual network for small pictures of He et al. 2016, section 4.2, with 6 `depth` + 2
    layers.

    Stages stem, layer1 to layer3 of `width`, 2 and 4 times as many channels; features are the
    global average of the last. At the defaults ResNet-20 with 0.27 million parameters. A block
    whose sides or channels change has a 1x1 convolution beside it, where theirs pads with zeros.
    Dropout is between the two convolutions of a block (Zagoruyko and Komodakis 2016, section 2.4).
    Without a norm the second convolution of each block begins at 0, so that deep networks learn.
    """

    depth: int = knob(
        3, domain="[1, 64]", source="He et al. 2016", doc="blocks of two convolutions a layer"
    )
    width: int = knob(
        16, domain="[1, inf)", source="He et al. 2016", doc="channels of the first layer"
    )
    dropout: float = knob(
        0.0,
        domain="[0, 1)",
        source="He et al. 2016",
        doc="share of values that are dropped inside a block",
    )
    norm: str = knob(
        "batch",
        domain="{batch, none}",
        source="He et al. 2016",
        doc="what follows every convolution",
    )
    stride: int = knob(
        1,
        domain="{1, 2}",
        source="He et al. 2016",
        doc="stride of the stem; 2 costs a quarter of 1",
    )

    built = Form(norm="norm", linear=False)
    family = {"ng2022": "architecture"}

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        channels, *_ = input.tensor_shape
        before = self.width
        stem = ReLUConvolution(channels, before, stride=self.stride, norm=self.norm)
        children: dict[str, nn.Module] = {"stem": stem}
        for number in range(LAYERS):
            after = self.width * 2**number
            blocks = list[nn.Module]()
            for block_number in range(self.depth):
                stride = 2 if number and not block_number else 1
                blocks.append(_Block(before, after, stride, self.dropout, self.norm))
                before = after
            children[f"layer{number + 1}"] = nn.Sequential(*blocks)
        drawn_for_relu(children)
        for child in children.values():
            for block in child.modules():
                if isinstance(block, _Block) and self.norm == "none":
                    nn.init.zeros_(block.begins_at_zero.weight)
        stages = {name: (name,) for name in children}
        avgpool = nn.AdaptiveAvgPool2d((1, 1))
        fc = nn.Linear(before, len(class_names))
        children |= {"avgpool": avgpool, "flatten": nn.Flatten(), "fc": fc}
        model = Model(children, stages=stages, pool=("avgpool", "flatten"), head="fc", width=before)
        return self.start(model)


class _Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int, dropout: float, norm: str) -> None:
        super().__init__()
        first = ReLUConvolution(before, after, stride=stride, norm=norm)
        self.change = nn.Sequential(
            first, nn.Dropout(dropout), *convolution(after, after, 3, stride=1, norm=norm)
        )
        same = stride == 1 and before == after
        self.beside = (
            nn.Identity()
            if same
            else nn.Sequential(*convolution(before, after, 1, stride=stride, norm=norm))
        )
        self.relu = nn.ReLU(inplace=True)

    @property
    def begins_at_zero(self) -> nn.Conv2d:
        """The second convolution."""
        second_convolution = self.change[2]
        assert isinstance(second_convolution, nn.Conv2d)
        return second_convolution

    def forward(self, x: Tensor) -> Tensor:
        """[n, before, h, w] -> [n, after, h / stride, w / stride]."""
        out: Tensor = self.relu(self.change(x) + self.beside(x))
        return out
