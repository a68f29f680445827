"""The papers' residual networks, from scratch or from published weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from torch import nn

from crosswind.core.knobs import choose, knob
from crosswind.core.registry import register
from crosswind.models.build import Backbone, Model, image_shape
from crosswind.models.pretrained import Normalise, load_weights, wants_imagenet

__all__ = ["RESNET_STAGES", "ResNet18", "ResNet50", "ResNet101"]

RESNET_STAGES = {"stem": ("conv1", "bn1", "relu", "maxpool"), **{f"layer{i}": (f"layer{i}",) for i in range(1, 5)}}


@register("resnet18", kind="model")
@dataclass(frozen=True)
class ResNet18(Backbone):
    """The 18-layer residual network, torchvision's own, so that parameter names match published weights.

    Stages stem, layer1 to layer4; features of 512. 11.2 million parameters. He et al. 2016, "Deep Residual Learning for Image
    Recognition", table 1.
    """

    stem: str = knob(
        "imagenet",
        domain="{imagenet, small}",
        search=choose("imagenet", "small"),
        source="He et al. 2016",
        doc="imagenet: 7x7 convolution of stride 2 and max pooling; small: 3x3 of stride 1, none (their section 4.2, CIFAR)",
    )
    weights: str | None = knob(None, doc="torchvision's IMAGENET1K_V1, or the path of a safetensors file; null: random")
    weights_sha256: str | None = knob(None, doc="what the file of weights must hash to")
    inputs: str = knob(
        "auto",
        domain="{auto, centred, imagenet}",
        doc="scale of the inputs: centred (-1, 1), or by ImageNet's means and sds, which auto takes for torchvision's weights",
    )

    def build(self, input_shape: tuple[int, ...], n_classes: int) -> Model:
        """See `Backbone.build`."""
        return _torchvisions("resnet18", self, input_shape, n_classes)


@register("resnet50", kind="model")
@dataclass(frozen=True)
class ResNet50(Backbone):
    """The 50-layer residual network, torchvision's own, so that parameter names match published weights.

    Stages stem, layer1 to layer4; features of 2048. 23.5 million parameters. He et al. 2016, "Deep Residual Learning for Image
    Recognition", table 1.
    """

    stem: str = knob(
        "imagenet",
        domain="{imagenet, small}",
        search=choose("imagenet", "small"),
        source="He et al. 2016",
        doc="imagenet: 7x7 convolution of stride 2 and max pooling; small: 3x3 of stride 1, none (their section 4.2, CIFAR)",
    )
    weights: str | None = knob(None, doc="torchvision's IMAGENET1K_V1 or _V2, or the path of a safetensors file; null: random")
    weights_sha256: str | None = knob(None, doc="what the file of weights must hash to")
    inputs: str = knob(
        "auto",
        domain="{auto, centred, imagenet}",
        doc="scale of the inputs: centred (-1, 1), or by ImageNet's means and sds, which auto takes for torchvision's weights",
    )

    def build(self, input_shape: tuple[int, ...], n_classes: int) -> Model:
        """See `Backbone.build`."""
        return _torchvisions("resnet50", self, input_shape, n_classes)


@register("resnet101", kind="model")
@dataclass(frozen=True)
class ResNet101(Backbone):
    """The 101-layer residual network, torchvision's own, so that parameter names match published weights.

    Stages stem, layer1 to layer4; features of 2048. 42.5 million parameters. He et al. 2016, "Deep Residual Learning for Image
    Recognition", table 1.
    """

    stem: str = knob(
        "imagenet",
        domain="{imagenet, small}",
        search=choose("imagenet", "small"),
        source="He et al. 2016",
        doc="imagenet: 7x7 convolution of stride 2 and max pooling; small: 3x3 of stride 1, none (their section 4.2, CIFAR)",
    )
    weights: str | None = knob(None, doc="torchvision's IMAGENET1K_V1 or _V2, or the path of a safetensors file; null: random")
    weights_sha256: str | None = knob(None, doc="what the file of weights must hash to")
    inputs: str = knob(
        "auto",
        domain="{auto, centred, imagenet}",
        doc="scale of the inputs: centred (-1, 1), or by ImageNet's means and sds, which auto takes for torchvision's weights",
    )

    def build(self, input_shape: tuple[int, ...], n_classes: int) -> Model:
        """See `Backbone.build`."""
        return _torchvisions("resnet101", self, input_shape, n_classes)


_Residual: TypeAlias = "ResNet18 | ResNet50 | ResNet101"


def _torchvisions(name: str, chosen: _Residual, input_shape: tuple[int, ...], n_classes: int) -> Model:
    from torchvision.models import get_model, get_model_weights

    channels, *_ = image_shape(input_shape, name)
    net = get_model(name, weights=None, num_classes=n_classes)
    # Only what departs from torchvision is replaced, so that the same seed gives torchvision's own weights elsewhere.
    if chosen.stem == "small":
        net.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        net.maxpool = nn.Identity()
    elif channels != 3:
        net.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
        nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")
    parts = {key: part for key, part in net.named_children() if key != "fc"}
    stages = dict(RESNET_STAGES)
    if wants_imagenet(chosen.weights, chosen.inputs, channels, name):
        parts["normalise"] = Normalise()
        stages["stem"] = ("normalise", *stages["stem"])
    model = Model(
        {**parts, "flatten": nn.Flatten(), "fc": net.fc},
        stages=stages,
        pool=("avgpool", "flatten"),
        head="fc",
        width=net.fc.in_features,
    )
    if chosen.weights is not None:
        load_weights(model, chosen.weights, {item.name: item.url for item in get_model_weights(name)}, chosen.weights_sha256)
    return model
