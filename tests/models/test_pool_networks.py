"""The networks of pools: what their knobs build, and that every setting of them learns."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from crosswind.core.errors import InputError
from crosswind.core.types import InputSpec
from crosswind.models.build import Model, build_model, unnamed


def built(name: str, side: int = 32, channels: int = 3, classes: int = 10, **knobs: Any) -> Model:
    return build_model(name, knobs, InputSpec.image(side, side, channels), unnamed(classes), 0)


def kernels(model: nn.Module) -> list[tuple[int, int, int, int]]:
    """Output channels, input channels, side and stride of every convolution."""
    convolutions = [submodule for submodule in model.modules() if isinstance(submodule, nn.Conv2d)]
    return [
        (
            submodule.out_channels,
            submodule.in_channels,
            submodule.kernel_size[0],
            submodule.stride[0],
        )
        for submodule in convolutions
    ]


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def sides(model: Model, x: torch.Tensor) -> list[tuple[int, int]]:
    """Channels and side after every stage."""
    with torch.no_grad():
        taps = model.eval().taps(x, model.stages)
    return [(taps[stage].shape[1], taps[stage].shape[3]) for stage in model.stages]


def test_nin_is_blocks_of_one_convolution_and_two_perceptrons_at_every_pixel() -> None:
    """Three blocks of width 8: 8 x 3 x 25 + 8, twice 8 x 8 + 8; 8 x 8 x 25 + 8, twice 72; 8 x 8 x 9
    + 8, once 72; head 90: 608 + 144 + 1,608 + 144 + 584 + 72 + 90 = 3,250."""
    model = built("nin", width=8)
    kernel_shape = (8, 8, 1, 1)
    assert kernels(model) == [
        (8, 3, 5, 1),
        kernel_shape,
        kernel_shape,
        (8, 8, 5, 1),
        kernel_shape,
        kernel_shape,
        (8, 8, 3, 1),
        kernel_shape,
    ]
    assert count(model) == 3_250
    x = torch.rand(2, 3, 32, 32)
    assert sides(model, x) == [(8, 16), (8, 8), (8, 8)] and model.width == 8
    # Averaging after the last layer, as in the paper, gives the same logits.
    with torch.no_grad():
        maps = nn.functional.conv2d(
            model.until(x, "block3"), model.fc.weight[:, :, None, None], model.fc.bias
        )  # type: ignore[union-attr,index,arg-type]
        assert torch.allclose(model(x), maps.mean((2, 3)), atol=1e-5)
    assert sides(built("nin", width=8, halving="stride"), x) == [(8, 16), (8, 8), (8, 4)]
    assert sides(built("nin", width=4, depth=8), x)[-1] == (4, 1)
    assert [side for *_, side, _ in kernels(built("nin", width=4, kernel=3)) if side > 1] == [
        3,
        3,
        3,
    ]


def test_vgg_doubles_its_channels_and_has_hidden_layers() -> None:
    """Width 4 on 32 pixels: convolutions 112, 148; 296, 584; 1,168, 2,320; 16 x 4 x 4 x 6 + 6 =
    1,542; 42; head 70."""
    model = built("vgg", width=4, hidden=6)
    channels = [(4, 3), (4, 4), (8, 4), (8, 8), (16, 8), (16, 16)]
    assert kernels(model) == [(*pair, 3, 1) for pair in channels]
    assert count(model) == 112 + 148 + 296 + 584 + 1_168 + 2_320 + 1_542 + 42 + 70
    assert sides(model, torch.rand(1, 3, 32, 32)) == [(4, 16), (8, 8), (16, 4)] and model.width == 6
    assert len(kernels(built("vgg", width=4, depth=3))) == 9
    # 28 pixels become 3: 8 channels of 3 x 3.
    assert built("vgg", side=28, width=2, layers=1).hidden[0].in_features == 72  # type: ignore[index]
    with pytest.raises(
        InputError, match="vgg needs images of at least 8 pixels a side, these have 7 x 7"
    ):
        built("vgg", side=7)


def test_cnn_at_its_defaults_is_small_cnn() -> None:
    ours, theirs = built("cnn").eval(), built("small-cnn").eval()
    weights = theirs.state_dict()
    assert ours.state_dict().keys() == weights.keys()
    assert all(torch.equal(value, weights[name]) for name, value in ours.state_dict().items())
    x = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(ours(x), theirs(x))
    assert sides(built("cnn", side=28, width=4, depth=4), torch.rand(1, 3, 28, 28)) == [
        (4, 14),
        (8, 7),
        (16, 4),
        (32, 2),
    ]


@pytest.mark.parametrize(("depth", "millions"), [(3, 0.27), (9, 0.85)])
def test_cifar_resnet_is_as_large_as_published(depth: int, millions: float) -> None:
    """He et al. 2016, table 6: ResNet-20 and ResNet-56. Beside 6 depth + 1 convolutions two of 1x1,
    where theirs pads."""
    model = built("cifar-resnet", depth=depth)
    assert count(model) / 1e6 == pytest.approx(millions, abs=0.01)
    assert len(kernels(model)) == 6 * depth + 1 + 2
    assert sides(model, torch.rand(1, 3, 32, 32)) == [(16, 32), (16, 32), (32, 16), (64, 8)]
    assert sides(built("cifar-resnet", depth=1, width=4, stride=2), torch.rand(1, 3, 28, 28)) == [
        (4, 14),
        (4, 14),
        (8, 7),
        (16, 4),
    ]


def test_a_block_without_norm_begins_as_what_is_beside_it() -> None:
    model = built("cifar-resnet", depth=2, width=4, norm="none").eval()
    x = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        stem = model.until(x, "stem")
        assert torch.equal(model.until(x, "layer1"), stem) and float(stem.std()) > 0


@pytest.mark.parametrize("norm", ["batch", "none"])
@pytest.mark.parametrize(
    ("name", "knobs"),
    [
        ("nin", {"width": 8, "depth": 4, "halving": "stride", "kernel": 3}),
        ("vgg", {"width": 4, "depth": 3, "hidden": 16}),
        ("cnn", {"width": 4, "depth": 4}),
        ("cifar-resnet", {"width": 4, "depth": 4, "stride": 2}),
    ],
)
def test_deep_ones_learn_with_and_without_norm_and_dropout_is_for_training(
    name: str, knobs: dict[str, Any], norm: str
) -> None:
    model = built(name, 16, 1, 2, **knobs, norm=norm, dropout=0.1)
    assert any(isinstance(submodule, nn.BatchNorm2d) for submodule in model.modules()) == (
        norm == "batch"
    )
    assert {submodule.p for submodule in model.modules() if isinstance(submodule, nn.Dropout)} == {
        0.1
    }
    y = torch.arange(16) % 2
    x = (
        torch.rand(16, 1, 16, 16, generator=torch.Generator().manual_seed(0))
        + 0.6 * y.view(-1, 1, 1, 1)
        - 0.8
    )
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)
    torch.manual_seed(0)
    for _ in range(30):
        loss = nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.3
    with torch.no_grad():
        assert not torch.equal(model(x), model(x)) and torch.equal(model.eval()(x), model(x))
