"""Convolutions by products equal torch's own, forwards, backwards and twice backwards, and are
taken where they are said to be."""

import copy
import itertools
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from crosswind.core.types import InputSpec
from crosswind.models.build import build_model, unnamed
from crosswind.models.networks import convolution
from crosswind.models.networks.convolution import (
    PaddedConv2d,
    Shape,
    SmallMapConv2d,
    overruns,
    products,
    with_small_map_convolutions,
    without_overruns,
)

# in, out, side, kernel, stride, padding
CASES = [
    (64, 64, 2, 3, 1, 1),
    (64, 128, 4, 3, 2, 1),
    (64, 128, 4, 1, 2, 0),
    (256, 256, 4, 3, 1, 1),
    (5, 7, 1, 3, 1, 1),
    (5, 7, 3, 3, 2, 1),
    (5, 7, 5, 5, 3, 2),
    (3, 4, 5, 3, 3, 1),
    (3, 4, 4, 7, 3, 3),
    (3, 4, 4, (3, 1), (2, 3), (0, 0)),
]


def pair_of(case: tuple, bias: bool = False) -> tuple[nn.Conv2d, SmallMapConv2d, torch.Tensor]:
    """torch's convolution, ours with the same weights, and an input."""
    before, after, side, kernel, stride, padding = case
    torch.manual_seed(0)
    theirs = nn.Conv2d(before, after, kernel, stride, padding, bias=bias).to(
        memory_format=torch.channels_last
    )
    ours = with_small_map_convolutions(copy.deepcopy(theirs))
    assert type(ours) is SmallMapConv2d and type(theirs) is nn.Conv2d
    return (
        theirs,
        ours,
        torch.randn(6, before, side, side + (before < 64)).to(memory_format=torch.channels_last),
    )


def passed(model: nn.Module, x: torch.Tensor, bf16: bool) -> list[torch.Tensor]:
    """Output, gradient of the input, gradients of the parameters."""
    x = x.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        out = model(x)
    errors = torch.from_numpy(np.random.default_rng(1).normal(size=tuple(out.shape))).to(out.dtype)
    out.backward(errors.contiguous(memory_format=torch.channels_last))
    return [out.detach(), x.grad, *(parameter.grad for parameter in model.parameters())]


def taken(model: nn.Module, x: torch.Tensor) -> bool:
    return type(model(x.clone().requires_grad_()).grad_fn).__name__ == "_ConvolutionBackward"


@pytest.mark.slow
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_products_give_what_torch_gives(case, bf16, bias) -> None:
    """Up to rounding: 1e-5 of the largest value in float32, a hundredth in bfloat16 (eight bits,
    two or three sums)."""
    theirs, ours, x = pair_of(case, bias)
    assert taken(ours, x)
    for a, b in zip(passed(theirs, x, bf16), passed(ours, x, bf16), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
        assert (a - b).abs().max() <= (1.5e-2 if bf16 else 1e-5) * a.abs().max()


BELOW_STRIDE = [  # a map smaller than the stride: in, out, groups, side, kernel, stride, padding
    (8, 8, 1, 1, 3, 2, 1),
    (8, 8, 8, 1, 5, 2, 2),
    (8, 12, 2, 1, 2, 2, 1),
    (6, 6, 6, 2, 3, 3, 1),
    (16, 8, 1, 2, (3, 1), 3, (1, 0)),
]


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("case", BELOW_STRIDE)
def test_a_map_below_the_stride_has_its_gradient_in_bfloat16(
    case: tuple, layout: torch.memory_format, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With bfloat16 instructions torch's own leaves a part of the weights' gradient unwritten. No
    kernel is shown such a map, whatever the processor of this test has."""
    before, after, groups, side, kernel, stride, padding = case
    torch.manual_seed(0)
    theirs = nn.Conv2d(before, after, kernel, stride, padding, groups=groups)
    ours = with_small_map_convolutions(copy.deepcopy(theirs)).to(memory_format=layout)
    x = torch.randn(4, before, side, side)
    sides: list[tuple[int, ...]] = []
    conv2d = nn.functional.conv2d
    monkeypatch.setattr(
        nn.functional,
        "conv2d",
        lambda x, *others: (sides.append(tuple(x.shape[2:])), conv2d(x, *others))[1],
    )
    values = passed(ours, x.to(memory_format=layout), bf16=True)
    assert len(sides) == 1 and min(sides[0]) >= stride
    for value, exact in zip(values, passed(theirs.double(), x.double(), False), strict=True):
        assert value.shape == exact.shape
        assert (value - exact).abs().max() <= 3e-2 * exact.abs().max()
    sides.clear()
    ours(x)
    assert sides in ([], [(side, side)]), "float32 is not padded"


def test_an_activation_may_write_into_what_is_made() -> None:
    """A convolution with no norm after it, as in VGG and squeeze-and-excitation, is followed by an
    activation in place."""
    theirs, ours, x = pair_of(CASES[0], bias=True)
    passes = [
        passed(nn.Sequential(convolution_made, nn.ReLU(inplace=True)), x, False)
        for convolution_made in (theirs, ours)
    ]
    for a, b in zip(*passes, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-5 * float(a.abs().max()))


def test_products_leave_out_the_padding() -> None:
    """A 3 x 3 kernel on a 2 x 2 map with a border of one: each of four pixels sees four, two rows
    of two: 8 products of 36 taps."""
    products_found = products(Shape(2, 2, 2, 2, (3, 3), (1, 1), (1, 1)))
    assert (
        len(products_found) == 8
        and sum(product.end - product.start for product in products_found) == 16
    )
    # Output pixel (1, 1) sees input rows 0 and 1 by kernel rows 0 and 1, columns 0 to 2 from kernel
    # column 0 on.
    assert [
        (p.of, p.tap, p.start, p.end, p.left) for p in products_found if (p.row, p.column) == (1, 1)
    ] == [
        (0, 0, 0, 2, 0),
        (1, 1, 0, 2, 0),
    ]


def test_a_large_map_and_other_kinds_stay_with_torch() -> None:
    """Bit-equal, since it is torch's own call: large maps, groups, dilation, other layouts,
    float64, padding by reflection."""
    odd = [
        (nn.Conv2d(64, 64, 3, padding=1), torch.randn(2, 64, 8, 8)),
        (nn.Conv2d(128, 128, 3, padding=1), torch.randn(2, 128, 4, 4)),  # few channels
        (nn.Conv2d(8, 8, 3, padding=1, groups=2), torch.randn(2, 8, 2, 2)),
        (nn.Conv2d(8, 8, 2, dilation=2, padding=1), torch.randn(2, 8, 2, 2)),
        (nn.Conv2d(8, 8, 3, padding="same"), torch.randn(2, 8, 2, 2)),
        (nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect"), torch.randn(2, 8, 2, 2)),
        (nn.Conv2d(8, 8, 3, padding=1).double(), torch.randn(2, 8, 2, 2).double()),
        (
            nn.Conv2d(8, 8, 1, padding=2),
            torch.randn(2, 8, 1, 1),
        ),  # pixels of the output that see nothing
    ]
    for theirs, x in odd:
        ours, x = (
            with_small_map_convolutions(copy.deepcopy(theirs)),
            x.to(memory_format=torch.channels_last),
        )
        assert not taken(ours, x), theirs
        assert torch.equal(theirs(x), ours(x))
    theirs, ours, x = pair_of(CASES[0])
    assert not taken(ours, x.contiguous())
    assert ours(x[0]).shape == theirs(x[0]).shape  # an image without a batch
    assert with_small_map_convolutions(nn.ConvTranspose2d(3, 3, 2)).__class__ is nn.ConvTranspose2d


def test_the_second_derivative_is_torch_s() -> None:
    """A penalty on the gradient of the input goes through as it does with torch's convolution."""
    derivatives = []
    for model in pair_of((6, 5, 1, 3, 1, 1))[:2]:
        x_given = (
            torch.linspace(-1, 1, 24)
            .view(2, 6, 1, 2)
            .to(memory_format=torch.channels_last)
            .requires_grad_()
        )
        assert (type(model(x_given).grad_fn).__name__ == "_ConvolutionBackward") == isinstance(
            model, SmallMapConv2d
        )
        (slope,) = torch.autograd.grad(model(x_given).square().sum(), x_given, create_graph=True)
        derivatives.append(torch.autograd.grad(slope.square().sum(), [model.weight, x_given]))
    for a, b in zip(*derivatives, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-5 * float(a.abs().max()))


def test_transforms_of_functions_get_torch_s_convolution() -> None:
    """torch.func.vmap and grad work on it."""
    theirs, ours, x = pair_of((6, 5, 2, 3, 1, 1))

    def loss(part: nn.Module, image: torch.Tensor) -> torch.Tensor:
        return part(image[None]).square().sum()

    made = [
        torch.func.vmap(torch.func.grad(lambda image, part=part: loss(part, image)))(x)
        for part in (theirs, ours)
    ]
    assert torch.allclose(*made, atol=1e-5)


def test_no_gradient_is_made_that_nobody_wants() -> None:
    theirs, ours, x = pair_of(CASES[1], bias=True)
    for gradients_wanted in itertools.product([False, True], repeat=3):
        gradients_made = []
        for model in (theirs, ours):
            model.zero_grad()
            model.weight.requires_grad_(gradients_wanted[0])
            model.bias.requires_grad_(gradients_wanted[1])
            x_given = x.clone().requires_grad_(gradients_wanted[2])
            out = model(x_given)
            assert out.requires_grad == any(gradients_wanted)
            if any(gradients_wanted):
                out.sum().backward()
            gradients_made.append([model.weight.grad, model.bias.grad, x_given.grad])
        for a, b in zip(*gradients_made, strict=True):
            assert (a is None) == (b is None)
            assert a is None or torch.allclose(a, b, rtol=1e-4, atol=1e-4 * float(a.abs().max()))


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[5]])
def test_no_gradient_is_made_that_a_descent_does_not_ask_for(case, monkeypatch) -> None:
    """Of input, weight and bias that all want one, any choice by `backward(inputs)` or `grad`: all
    one's bits, no other work."""
    made_names: list[str] = []
    for name in ("_input_gradient", "_weight_gradient"):
        plain = getattr(convolution, name)
        monkeypatch.setattr(
            convolution,
            name,
            lambda *given, plain=plain, name=name: made_names.append(name) or plain(*given),
        )
    _, ours, x = pair_of(case, bias=True)
    given = x.clone().requires_grad_()
    leaves = [given * 1.0, ours.weight, ours.bias]
    total = ours(leaves[0]).square().sum()
    all_gradients = torch.autograd.grad(total, leaves, retain_graph=True)
    for chosen in itertools.product([False, True], repeat=3):
        chosen_places = [index for index in range(3) if chosen[index]]
        if not chosen_places:
            continue
        made_names.clear()
        gradients = torch.autograd.grad(
            total, [leaves[index] for index in chosen_places], retain_graph=True
        )
        assert all(
            torch.equal(gradient, all_gradients[index])
            for gradient, index in zip(gradients, chosen_places, strict=True)
        )
        assert ("_weight_gradient" in made_names) == chosen[1] and (
            "_input_gradient" in made_names
        ) == chosen[0]
        made_names.clear()
        leaves_parts = [given, ours.weight, ours.bias]
        for leaf in leaves_parts:
            leaf.grad = None
        total.backward(inputs=[leaves_parts[index] for index in chosen_places], retain_graph=True)
        assert [leaf.grad is not None for leaf in leaves_parts] == list(chosen)
        assert all(
            torch.equal(leaves_parts[index].grad, all_gradients[index]) for index in chosen_places
        )
        assert ("_weight_gradient" in made_names) == chosen[1] and (
            "_input_gradient" in made_names
        ) == chosen[0]


@pytest.mark.parametrize(("name", "many"), [("resnet-w16", 20), ("small-cnn", 3), ("vit-tiny", 1)])
def test_models_are_built_with_it_under_the_same_names(name, many) -> None:
    model = build_model(name, {}, InputSpec.image(32, 32, 3), unnamed(3), 0)
    convolutions = [submodule for submodule in model.modules() if isinstance(submodule, nn.Conv2d)]
    assert len(convolutions) == many and all(
        type(submodule) is SmallMapConv2d for submodule in convolutions
    )
    assert copy.deepcopy(model).load_state_dict(model.state_dict())
    torch.manual_seed(0)
    x = torch.randn(4, 3, 32, 32)
    plain = model.eval()(x)
    assert torch.allclose(
        model.to(memory_format=torch.channels_last)(x.to(memory_format=torch.channels_last)),
        plain,
        atol=1e-4,
    )


class ScaledConv2d(nn.Conv2d):
    """A convolution with a forward pass of its own, as libraries of networks have them."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return nn.functional.conv2d(
            input, 2 * self.weight, self.bias, self.stride, self.padding, groups=self.groups
        )


# in, out, side, kernel, stride, padding: whether the gradient of its weights is computed out of
# bounds on some processor
BOUNDS = [
    ((4, 8, 8, 1, 2, 0), True),
    ((2, 4, 16, 1, 2, 0), True),
    ((7, 3, 9, 1, 3, 0), True),
    ((4, 8, 8, 1, (1, 2), 0), True),
    ((4, 8, 8, 1, (2, 1), "valid"), True),
    ((15, 16, 8, 1, 2, 0), True),
    ((16, 32, 8, 1, 2, 0), False),
    ((4, 8, 8, 1, 1, 0), False),
    ((4, 8, 8, 1, 2, 1), False),
    ((4, 8, 8, 3, 2, 1), False),
    ((4, 8, 8, (1, 3), 2, 0), False),
]


@pytest.mark.parametrize("kind", [nn.Conv2d, ScaledConv2d])
@pytest.mark.parametrize(("case", "unsafe"), BOUNDS)
def test_a_convolution_that_overruns_picks_its_pixels_first(case, unsafe, kind) -> None:
    before, after, side, kernel, stride, padding = case
    torch.manual_seed(0)
    theirs = kind(before, after, kernel, stride, padding)
    assert overruns(theirs) == unsafe
    ours = nn.Sequential(copy.deepcopy(theirs))
    assert (
        without_overruns(without_overruns(ours)) is ours
        and copy.deepcopy(ours).state_dict().keys() == ours.state_dict().keys()
    )
    assert (type(ours[0]) in (kind, PaddedConv2d)) != unsafe
    x = torch.randn(3, before, side, side)
    # By contiguous memory, in which no kernel is known to be wrong, and in float64.
    plain, exact = (
        passed(theirs, x, False),
        passed(copy.deepcopy(theirs).double(), x.double(), False),
    )
    for passed_through in (plain, passed(ours, x, False)):
        for ours_value, exact_value in zip(passed_through, exact, strict=True):
            assert torch.allclose(ours_value.double(), exact_value, rtol=1e-4, atol=1e-4)


CHILD = """
import sys
import torch
from torch import nn
from crosswind.core.types import InputSpec
from crosswind.models.build import build_model, unnamed
from crosswind.models.networks.convolution import without_overruns
from tests.models.test_convolution import ScaledConv2d

torch.set_num_threads(1)
made_safe = {"torch": lambda network: network, "ours": without_overruns}[sys.argv[1]]
networks = {channels: made_safe(nn.Sequential(nn.Conv2d(channels, 8, 1, 2))) for channels in (2, 4, 7, 12)}
networks |= {channels: made_safe(nn.Sequential(ScaledConv2d(channels, 8, 1, (1, 2)))) for channels in (3, 6)}
if sys.argv[1] == "ours":
    networks[1] = build_model("cifar-resnet", {"depth": 1, "width": 2}, InputSpec.image(16, 16, 1), unnamed(3), 0)
for channels, network in networks.items():
    network.to(memory_format=torch.channels_last)
    for step in range(20):
        x = torch.randn(8, channels, 16, 16).contiguous(memory_format=torch.channels_last)
        network(x).square().mean().backward()
print("trained")
"""


def trained_in_a_child(whose: str) -> subprocess.CompletedProcess[str]:
    """Narrow strided convolutions, taught by the kernels of AVX2, with the C library's watch over
    its heap where it has one."""
    environment = {
        **os.environ,
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "LD_PRELOAD": "libc_malloc_debug.so.0",
        "MALLOC_CHECK_": "3",
    }
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", CHILD, whose]
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.slow
def test_a_narrow_strided_convolution_is_taught_without_harm_to_the_heap() -> None:
    """In a child process: before it picked its pixels first, this ended in SIGABRT or SIGSEGV."""
    child = trained_in_a_child("ours")
    assert (child.returncode, child.stdout) == (0, "trained\n"), child.stderr


@pytest.mark.verify
@pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc",
    reason="a fault of kernels for x86",
)
def test_torch_s_own_still_harms_it() -> None:
    """When this fails, the locked torch has been mended, and `overruns` can go."""
    assert trained_in_a_child("torch").returncode < 0


def test_a_method_s_own_convolution_is_padded_too() -> None:
    """Its discriminator or decoder is made of torch's layers, which nothing else replaces."""
    module = nn.Sequential(nn.Conv2d(8, 8, 3, 2, 1), nn.Conv2d(8, 4, 1, 2))
    state = copy.deepcopy(module).state_dict()
    without_overruns(module)
    assert [type(layer) for layer in module] == [PaddedConv2d, SmallMapConv2d]
    assert all(torch.equal(state[name], value) for name, value in module.state_dict().items())
    x = torch.randn(2, 8, 5, 5)
    assert torch.equal(module[0](x), nn.functional.conv2d(x, *module[0].parameters(), 2, 1))
