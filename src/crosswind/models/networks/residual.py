"""The papers' residual networks, from scratch or from published weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from crosswind.core.knobs import Form, choose, knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.models.build import Model
from crosswind.models.networks.pretrained import Pretrained

__all__ = ["RESNET_STAGES", "ResNet18", "ResNet50", "ResNet101", "Residual"]

RESNET_STAGES = {
    "stem": ("conv1", "bn1", "relu", "maxpool"),
    **{f"layer{i}": (f"layer{i}",) for i in range(1, 5)},
}


@dataclass(frozen=True)
class Residual(Pretrained):
    """torchvision's residual network of the name that a subclass is registered by, so that
    parameter names match published weights.

    Stages stem, layer1 to layer4.
    """

    stem: str = knob(
        "imagenet",
        domain="{imagenet, small}",
        search=choose("imagenet", "small"),
        source="He et al. 2016",
        doc=(
            "imagenet: 7x7 convolution of stride 2 and max pooling; small: 3x3 of stride 1, none"
            " (their section 4.2, CIFAR)"
        ),
    )

    freeze_batch_norm: bool = knob(
        False,
        source="Gulrajani and Lopez-Paz 2021",
        doc=(
            "batch norms keep the statistics of the given weights in training; their scales and"
            " shifts still learn"
        ),
    )

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        from torchvision.models import get_model, get_model_weights

        name: str = self.registered_name  # type: ignore[attr-defined]
        channels, *_ = input.tensor_shape
        net = get_model(name, weights=None, num_classes=len(class_names))
        # Only what departs from torchvision is replaced, so that the same seed gives torchvision's
        # own weights elsewhere.
        if self.stem == "small":
            net.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
            net.maxpool = nn.Identity()
        elif channels != 3:
            net.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
            nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")
        before = self.normalise()
        children = {key: child for key, child in net.named_children() if key != "fc"}
        stem = (*before, *RESNET_STAGES["stem"])
        stages = {**RESNET_STAGES, "stem": stem}
        model = Model(
            {**children, **before, "flatten": nn.Flatten(), "fc": net.fc},
            stages=stages,
            pool=("avgpool", "flatten"),
            head="fc",
            width=net.fc.in_features,
        )
        urls = {published.name: published.url for published in get_model_weights(name)}
        return self.start(model, urls)


@register("resnet18", kind="model")
@dataclass(frozen=True)
class ResNet18(Residual):
    """The 18-layer residual network, torchvision's own, so that parameter names match published
    weights.

    Stages stem, layer1 to layer4; features of 512. 11.2 million parameters. Published weights:
    IMAGENET1K_V1. He et al. 2016, "Deep Residual Learning for Image Recognition", table 1.
    """

    built = Form(
        norm="batch", weights=("IMAGENET1K_V1",), weights_with={"stem": "imagenet"}, linear=False
    )
    family = {"wiles2022": "architecture", "jeon2025": "architecture"}


@register("resnet50", kind="model")
@dataclass(frozen=True)
class ResNet50(Residual):
    """The 50-layer residual network, torchvision's own, so that parameter names match published
    weights.

    Stages stem, layer1 to layer4; features of 2048. 23.5 million parameters. Published weights:
    IMAGENET1K_V1 and _V2. He et al. 2016, "Deep Residual Learning for Image Recognition", table 1.
    """

    built = Form(
        norm="batch",
        weights=("IMAGENET1K_V1", "IMAGENET1K_V2"),
        weights_with={"stem": "imagenet"},
        linear=False,
    )
    family = {"wiles2022": "architecture", "jeon2025": "architecture"}


@register("resnet101", kind="model")
@dataclass(frozen=True)
class ResNet101(Residual):
    """The 101-layer residual network, torchvision's own, so that parameter names match published
    weights.

    Stages stem, layer1 to layer4; features of 2048. 42.5 million parameters. Published weights:
    IMAGENET1K_V1 and _V2. He et al. 2016, "Deep Residual Learning for Image Recognition", table 1.
    """

    built = Form(
        norm="batch",
        weights=("IMAGENET1K_V1", "IMAGENET1K_V2"),
        weights_with={"stem": "imagenet"},
        linear=False,
    )
    family = {"wiles2022": "architecture", "jeon2025": "architecture"}
