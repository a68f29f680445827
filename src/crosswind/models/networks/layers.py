"""Parts that convolutional classifiers for small pictures share."""

from __future__ import annotations

from torch import nn

__all__ = ["ReLUConvolution", "convolution", "drawn_for_relu"]


class ReLUConvolution(nn.Sequential):
    """[n, before, h, w] -> [n, after, h / stride, w / stride]: convolution, batch norm where `norm`
    is `"batch"`, ReLU.

    Sides are rounded up. Without a norm the convolution has a bias.
    """

    def __init__(
        self, before: int, after: int, kernel: int = 3, *, stride: int = 1, norm: str = "batch"
    ) -> None:
        super().__init__(
            *convolution(before, after, kernel, stride=stride, norm=norm), nn.ReLU(inplace=True)
        )


def convolution(
    before: int, after: int, kernel: int, *, stride: int, norm: str
) -> tuple[nn.Module, ...]:
    """A convolution and its norm, whose ReLU is left to the caller; `kernel` is odd."""
    layer = nn.Conv2d(
        before, after, kernel, stride=stride, padding=kernel // 2, bias=norm == "none"
    )
    if norm == "none":
        return (layer,)
    return (layer, nn.BatchNorm2d(after))


def drawn_for_relu(children: dict[str, nn.Module]) -> None:
    """Draw the weights of all convolutions and hidden layers anew, so that ReLU keeps the scale of
    what passes; biases become 0.

    He et al. 2015, equation 10. Networks without a norm do not learn from torch's own weights once
    they are deep.
    """
    for child in children.values():
        for module in child.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
