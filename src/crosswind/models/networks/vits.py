"""Vision transformers: the papers' ViT-B/16, and a small one for small images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from crosswind.core.knobs import Form, choose, knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.models.build import Model
from crosswind.models.networks.pretrained import Pretrained

__all__ = ["Resize", "ViTB16", "ViTTiny", "VisionTransformer"]


@register("vit-b-16", kind="model")
@dataclass(frozen=True)
class ViTB16(Pretrained):
    """The vision transformer of 12 blocks of width 768 on patches of 16 pixels, torchvision's own;
    inputs are resized to 224.

    Stages patches, block1 to block12, each [n, 197, 768]; features of 768, the class token after
    the last norm. 85.8 million parameters. Published weights: IMAGENET1K_V1 and
    IMAGENET1K_SWAG_LINEAR_V1; those for inputs of 384 have other positions. Dosovitskiy et al.
    2021, "An Image is Worth 16x16 Words", table 1; Wiles et al. 2022 and Jeon et al. 2025.
    """

    built = Form(norm="layer", weights=("IMAGENET1K_V1", "IMAGENET1K_SWAG_LINEAR_V1"))
    family = {"wiles2022": "architecture", "jeon2025": "architecture"}

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        from torchvision.models import ViT_B_16_Weights
        from torchvision.models.vision_transformer import VisionTransformer as Theirs

        channels, *_ = input.tensor_shape
        net = Theirs(
            224,
            16,
            num_layers=12,
            num_heads=12,
            hidden_dim=768,
            mlp_dim=3072,
            num_classes=len(class_names),
        )
        model = VisionTransformer(net, channels, {"resize": Resize(224), **self.normalise()})
        return self.start(model, {name: ViT_B_16_Weights[name].url for name in self.built.weights})


@register("vit-tiny", kind="model")
@dataclass(frozen=True)
class ViTTiny(Pretrained):
    """A vision transformer of width 192 and 3 heads on patches of 4 pixels, for square images of 32
    to 64 pixels.

    Stages patches, block1 to the last; features of 192, the class token after the last norm. 5.4
    million parameters with 12 blocks. The sizes of Touvron et al. 2021, "Training Data-Efficient
    Image Transformers", table 1, DeiT-Ti; the patch is ours. No weights are published for it.
    """

    patch: int = knob(4, domain="[1, inf)", search=choose(4, 8), doc="pixels a side of a patch")
    depth: int = knob(
        12,
        domain="[1, inf)",
        search=choose(6, 12),
        source="Touvron et al. 2021",
        doc="number of blocks",
    )
    inputs: str = knob(
        "centred",
        domain="{centred, imagenet}",
        doc="scale of the inputs: (-1, 1), or by ImageNet's channels",
    )

    built = Form(norm="layer", patch="patch")

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        from torchvision.models.vision_transformer import VisionTransformer as Theirs

        channels, height, _ = input.tensor_shape
        net = Theirs(
            height,
            self.patch,
            num_layers=self.depth,
            num_heads=3,
            hidden_dim=192,
            mlp_dim=768,
            num_classes=len(class_names),
        )
        return self.start(VisionTransformer(net, channels, self.normalise()), {})


class VisionTransformer(Model):
    """torchvision's transformer in stages, under its parameter names; `before` are the modules that
    images pass first, by name.

    A stage's output is float [n, 1 + patches, d], the class token first. Where `channels` is not 3
    the convolution of the patches is a new one.
    """

    def __init__(self, net: nn.Module, channels: int, before: Mapping[str, nn.Module]) -> None:
        encoder: nn.Module = net.encoder  # type: ignore[assignment]
        stages: dict[str, tuple[str, ...]] = {"patches": (*before, "tokens")}
        blocks = encoder.layers.named_children()  # type: ignore[union-attr]
        for number, (name, _) in enumerate(blocks, start=1):
            stages[f"block{number}"] = (f"encoder.layers.{name}",)
        convolution: nn.Conv2d = net.conv_proj  # type: ignore[assignment]
        if channels != 3:
            convolution = _patch_convolution(channels, convolution)
        super().__init__(
            {**before, "conv_proj": convolution, "encoder": encoder, "heads": net.heads},  # type: ignore[dict-item]
            stages=stages,
            pool=("encoder.ln", "first"),
            head="heads.head",
            width=convolution.out_channels,
        )
        self.class_token = net.class_token

    def _run(self, module_names: tuple[str, ...], x: Tensor) -> Tensor:
        """Pass `x` through modules by name; "tokens" are those of images, "first" is the class
        token of tokens [n, 1 + patches, d]."""
        for name in module_names:
            if name == "tokens":
                x = self._tokens(x)
            elif name == "first":
                x = x[:, 0]
            else:
                x = self.get_submodule(name)(x)
        return x

    def _tokens(self, images: Tensor) -> Tensor:
        """Images [n, c, h, w] -> the class token and the patches' tokens with their positions, [n,
        1 + patches, d]."""
        patches = self.conv_proj(images).flatten(2).transpose(1, 2)  # type: ignore[operator]
        class_tokens = self.class_token.expand(len(patches), -1, -1).to(patches.dtype)  # type: ignore[operator]
        tokens = torch.cat([class_tokens, patches], dim=1)
        return self.encoder.dropout(tokens + self.encoder.pos_embedding)  # type: ignore[operator,union-attr]


def _patch_convolution(channels: int, like: nn.Conv2d) -> nn.Conv2d:
    """A convolution of the patches of images with so many channels, else like torchvision's and
    with its initial weights."""
    convolution = nn.Conv2d(channels, like.out_channels, like.kernel_size, like.stride)  # type: ignore[arg-type]
    fan_in = channels * convolution.kernel_size[0] * convolution.kernel_size[1]
    nn.init.trunc_normal_(convolution.weight, std=fan_in**-0.5)
    nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
    return convolution


class Resize(nn.Module):
    """Images [n, c, h, w] -> [n, c, side, side], bilinear, averaged where they become smaller."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        if x.shape[2:] == (self.side, self.side):
            return x
        return nn.functional.interpolate(
            x, (self.side, self.side), mode="bilinear", antialias=True, align_corners=False
        )
