"""Convolutions that the CPU's own kernels compute out of bounds, from memory that nobody has
written, or several times as slowly as matrix products.

**Out of bounds.** A 1 x 1 convolution with a stride uses few of its pixels. The gradient of its
weights in channels-last memory is at fault in the kernels of torch's CPU backend (oneDNN 3.12).
They copy the weights into a workspace that has a value for each input channel, yet step through it
by whole vectors. With fewer channels than a vector holds, 8 with AVX2 and 16 with AVX-512, they
write past its end and corrupt the heap (https://github.com/uxlfoundation/oneDNN/issues/6035). Such
a convolution picks its pixels first and is computed without a stride: the same sums, safe in every
layout and on every processor.

**From unwritten memory.** On a processor with bfloat16 instructions (AVX-512 BF16) the same kernels
leave a part of the gradient of the weights unwritten where a map is smaller than the stride, such
as one pixel under a stride of 2, grouped and depthwise convolutions included. What stood in that
memory before is then the gradient, NaN or worse: a plausible number. Such a map is padded by zeros
here, which gives the same sums.

**Slow.** The last layers of a residual network see maps of 2 x 2 or 4 x 4 pixels. The same kernels
spend most of their time on the padding there. A 3 x 3 convolution of 512 channels on a 2 x 2 map
takes seven times as long as the products that it consists of, its bfloat16 weight gradient twenty
times. `benchmarks/speed/convolution.py` has the figures that the limits below come from. Same sums,
other order: results differ by rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

__all__ = [
    "PaddedConv2d",
    "Product",
    "Shape",
    "SmallMapConv2d",
    "overruns",
    "products",
    "with_small_map_convolutions",
    "without_overruns",
]

Module = TypeVar("Module", bound=nn.Module)

FEW, SOME = 4, 16
"""Pixels of the written map up to which products win always, and where channels are many."""
MANY_CHANNELS = 32_768
"""Input times output channels."""
WIDEST_VECTOR = 16
"""Values of float32 in the widest vector of a processor."""


class Shape(NamedTuple):
    """Side lengths of a convolution: input, output, kernel, stride and padding, height first."""

    height: int
    width: int
    out_height: int
    out_width: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]

    @property
    def pixels(self) -> int:
        """Of the output."""
        return self.out_height * self.out_width


class Product(NamedTuple):
    """One row of an input window and what it is multiplied with.

    Output pixel (`row`, `column`) takes input pixels (`of`, `start` to `end`) times kernel row
    `tap` from column `left` on; `first` of its window.
    """

    row: int
    column: int
    of: int
    start: int
    end: int
    tap: int
    left: int
    first: bool


class PaddedConv2d(nn.Conv2d):
    """torch's convolution, of a padded map where bfloat16 kernels would leave a gradient unwritten:
    see the head of this file."""

    def forward(self, input: Tensor) -> Tensor:
        """[n, c, h, w] -> [n, k, h', w']."""
        return self.of_padded(input) if self.leaves_unwritten(input) else super().forward(input)

    def leaves_unwritten(self, x: Tensor) -> bool:
        """Whether kernels of bfloat16 leave a part of the weights' gradient unwritten: see the head
        of this file."""
        if x.device.type != "cpu" or max(self.kernel_size) == 1:
            return False
        smaller = x.shape[-2] < self.stride[0] or x.shape[-1] < self.stride[1]
        return smaller and (torch.is_autocast_enabled("cpu") or x.dtype == torch.bfloat16)

    def of_padded(self, x: Tensor) -> Tensor:
        """The convolution of a map that is padded to the stride at least, by pixels that no window
        sees."""
        mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
        padded = nn.functional.pad(x, self._reversed_padding_repeated_twice, mode=mode)
        below = max(0, self.stride[0] - padded.shape[-2])
        right = max(0, self.stride[1] - padded.shape[-1])
        padded = nn.functional.pad(padded, (0, right, 0, below))
        return nn.functional.conv2d(
            padded, self.weight, self.bias, self.stride, 0, self.dilation, self.groups
        )


class SmallMapConv2d(PaddedConv2d):
    """torch's convolution, by matrix products where the map is small, the input is on the CPU and
    in channels-last memory.

    One that `overruns` is torch's too, of the pixels that its stride picks.
    """

    def forward(self, input: Tensor) -> Tensor:
        """[n, c, h, w] -> [n, k, h', w']."""
        if input.device.type == "cpu" and overruns(self):
            return nn.functional.conv2d(
                _picked(input, self.stride), self.weight, self.bias, groups=self.groups
            )
        if self.leaves_unwritten(input):
            return self.of_padded(input)
        # torch.func's transforms want a rule of their own for every hand-written backward pass.
        shape = None if torch._C._are_functorch_transforms_active() else self._shape_of(input)
        if shape is None:
            return super().forward(input)
        x = input
        weight = self.weight
        bias = self.bias
        if torch.is_autocast_enabled("cpu"):
            kind = torch.get_autocast_dtype("cpu")
            x = x.to(kind)
            weight = weight.to(kind)
            bias = None if bias is None else bias.to(kind)
        if not _pays(shape, x, weight):
            return super().forward(input)
        out: Tensor = _Convolution.apply(x, weight, bias, shape)
        return out

    def _shape_of(self, x: Tensor) -> Shape | None:
        """The sides, None for a convolution or an input of another kind."""
        plain = (
            self.groups == 1
            and self.dilation == (1, 1)
            and self.padding_mode == "zeros"
            and not isinstance(self.padding, str)
        )
        if (
            not plain
            or x.ndim != 4
            or x.device.type != "cpu"
            or not x.is_contiguous(memory_format=torch.channels_last)
        ):
            return None
        kernel = _pair(self.kernel_size)
        stride = _pair(self.stride)
        padding = _pair(self.padding)
        if padding[0] >= kernel[0] or padding[1] >= kernel[1]:
            return None  # pixels of the output may see no input
        high, wide = (
            (x.shape[2 + axis] + 2 * padding[axis] - kernel[axis]) // stride[axis] + 1
            for axis in (0, 1)
        )
        if min(high, wide) < 1 or high * wide > SOME:
            return None
        return Shape(x.shape[2], x.shape[3], high, wide, kernel, stride, padding)


def with_small_map_convolutions(model: Module) -> Module:
    """`model` itself, its plain convolutions made `SmallMapConv2d`: parameters, names and initial
    weights stay as they are."""
    for submodule in model.modules():
        if type(submodule) is nn.Conv2d:
            # In place of a new module in every parent: a convolution may stand in two, and in lists
            # that hold it by identity.
            submodule.__class__ = SmallMapConv2d
    return without_overruns(model)


def overruns(layer: nn.Module) -> bool:
    """Whether kernels of the CPU write out of bounds for the gradient of this layer's weights: see
    the head of this file."""
    if (
        not isinstance(layer, nn.Conv2d)
        or set(layer.kernel_size) != {1}
        or set(layer.stride) == {1}
    ):
        return False
    return (
        layer.padding in ("valid", (0, 0)) and 0 < layer.in_channels // layer.groups < WIDEST_VECTOR
    )


def without_overruns(module: Module) -> Module:
    """`module` itself, each convolution in it that `overruns` made one that picks its pixels first,
    torch's others `PaddedConv2d`: nothing else changes.

    A convolution that is called as a function, without a layer, is not seen.
    """
    for submodule in module.modules():
        if type(submodule) is nn.Conv2d and not overruns(submodule):
            submodule.__class__ = PaddedConv2d
        if not overruns(submodule) or type(submodule) is SmallMapConv2d:
            continue
        assert isinstance(submodule, nn.Conv2d)
        if type(submodule) is nn.Conv2d:
            submodule.__class__ = SmallMapConv2d
        else:
            submodule.__class__ = _picking(type(submodule))  # type: ignore[arg-type]  # which takes the hash of an instance for its class's
            submodule.picked_stride = submodule.stride  # type: ignore[assignment]
            submodule.stride = (1, 1)
    return module


@cache
def _picking(kind: type[nn.Conv2d]) -> type[nn.Conv2d]:
    """`kind`, some library's convolution with a forward pass of its own, of the pixels that
    `picked_stride` picks."""

    class PickingConv2d(kind):  # type: ignore[misc, valid-type]
        def forward(self, input: Tensor) -> Tensor:
            out: Tensor = super().forward(_picked(input, self.picked_stride))
            return out

    return PickingConv2d


def _picked(x: Tensor, stride: tuple[int, ...]) -> Tensor:
    """The pixels that a 1 x 1 convolution with this stride reads: [..., h, w] -> [..., h', w']."""
    return x[..., :: stride[0], :: stride[1]]


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, shape: Shape) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.shape = shape
        if not _by_rows(shape, x, weight):
            return torch.conv2d(x, weight, bias, shape.stride, shape.padding)
        pixels = x.permute(0, 2, 3, 1)
        taps = weight.permute(0, 2, 3, 1)
        # Made as the maps that it is: what a function gives as a view of its own may not be written
        # to, as activations do.
        sides = (len(x), len(weight), shape.out_height, shape.out_width)
        out = torch.empty(sides, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
        written = out.permute(0, 2, 3, 1)
        for product in products(shape):
            window = pixels[:, product.of, product.start : product.end].flatten(1)
            kernel = (
                taps[:, product.tap, product.left : product.left + product.end - product.start]
                .flatten(1)
                .t()
            )
            into = written[:, product.row, product.column]
            if not product.first:
                into.addmm_(window, kernel)
            elif bias is None:
                torch.mm(window, kernel, out=into)
            else:
                torch.addmm(bias, window, kernel, out=into)
        return out

    @staticmethod
    def backward(
        ctx: Any, *gradients: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        shape = ctx.shape
        gradients_asked = [_asked(node) for node, _ in ctx.next_functions]
        gradients_asked += [False] * (
            3 - len(gradients_asked)
        )  # without a bias: there are nodes of tensors only
        # A second derivative goes through torch's own formulas.
        own_backward = not torch.is_grad_enabled()
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        by_rows = own_backward and _by_rows(shape, x, weight)
        into_input = None
        if by_rows and gradients_asked[0]:
            into_input = _input_gradient(gradient, x, weight, shape)
        into_weight = None
        if own_backward and gradients_asked[1]:
            into_weight = _weight_gradient(gradient, x, weight, shape)
        missing = [
            gradients_asked[0] and into_input is None,
            gradients_asked[1] and into_weight is None,
            gradients_asked[2],
        ]
        other_gradients: list[Tensor | None] = [None, None, None]
        if any(missing):
            sizes = [len(weight)] if gradients_asked[2] else None
            other_gradients = list(
                torch.ops.aten.convolution_backward(
                    gradient,
                    x,
                    weight,
                    sizes,
                    shape.stride,
                    shape.padding,
                    (1, 1),
                    False,
                    (0, 0),
                    1,
                    missing,
                )
            )
        return (
            other_gradients[0] if into_input is None else into_input,
            other_gradients[1] if into_weight is None else into_weight,
            other_gradients[2],
            None,
        )


def _asked(node: Any) -> bool:
    """Whether the pass that is under way goes on to this node; None: an input without gradient.

    `needs_input_grad` is about `requires_grad` alone: a descent on some parameters would make
    gradients of all.
    """
    if node is None:
        return False
    try:
        return bool(torch._C._will_engine_execute_node(node))
    except (AttributeError, RuntimeError):
        # torch's own words for a leaf that `torch.autograd.grad` was asked for; making one too many
        # is never wrong.
        return True


def _input_gradient(gradient: Tensor, x: Tensor, weight: Tensor, shape: Shape) -> Tensor:
    taps = weight.permute(0, 2, 3, 1)
    errors = gradient.permute(0, 2, 3, 1)
    out = torch.zeros_like(x).permute(0, 2, 3, 1)
    for product in products(shape):
        kernel = taps[
            :, product.tap, product.left : product.left + product.end - product.start
        ].flatten(1)
        of_product = out[:, product.of, product.start : product.end].view(len(x), -1)
        of_product.addmm_(errors[:, product.row, product.column], kernel)
    return out.permute(0, 3, 1, 2)


def _weight_gradient(gradient: Tensor, x: Tensor, weight: Tensor, shape: Shape) -> Tensor:
    pixels = x.permute(0, 2, 3, 1)
    errors = gradient.permute(0, 2, 3, 1)
    if x.dtype != torch.float32:
        # In one product, because each sum into a bfloat16 tensor would round once more.
        windows = _windows(pixels, shape)
        weight_product = errors.flatten(0, 2).t() @ windows
        return weight_product.view(len(weight), *shape.kernel, x.shape[1]).permute(0, 3, 1, 2)
    out = x.new_zeros(len(weight), *shape.kernel, x.shape[1])
    for product in products(shape):
        into = out[:, product.tap, product.left : product.left + product.end - product.start].view(
            len(weight), -1
        )
        error = errors[:, product.row, product.column].t()
        into.addmm_(error, pixels[:, product.of, product.start : product.end].flatten(1))
    return out.permute(0, 3, 1, 2)


def _windows(pixels: Tensor, shape: Shape) -> Tensor:
    """The window of every output pixel, zeros where it leaves the map: [n, h, w, c] -> [n h' w',
    kernel c]."""
    margins = (0, 0, shape.padding[1], shape.padding[1], shape.padding[0], shape.padding[0])
    padded = nn.functional.pad(pixels, margins)
    n, row, column, channel = padded.stride()
    sides = (len(pixels), shape.out_height, shape.out_width, *shape.kernel, pixels.shape[3])
    strides = (n, row * shape.stride[0], column * shape.stride[1], row, column, channel)
    return padded.as_strided(sides, strides).reshape(len(pixels) * shape.pixels, -1)


@cache
def products(shape: Shape) -> tuple[Product, ...]:
    """The products that a convolution consists of, those with padding left out, by output pixel."""
    out = []
    kernel = shape.kernel[1]
    stride = shape.stride[1]
    padding = shape.padding[1]
    across = list(_windows_along(shape.width, shape.out_width, kernel, stride, padding))
    down = _windows_along(
        shape.height, shape.out_height, shape.kernel[0], shape.stride[0], shape.padding[0]
    )
    for (row, top, bottom, tap), (column, start, end, left) in itertools.product(down, across):
        for input_row in range(top, bottom):
            out.append(
                Product(
                    row,
                    column,
                    input_row,
                    start,
                    end,
                    tap + input_row - top,
                    left,
                    input_row == top,
                )
            )
    return tuple(out)


def _windows_along(
    side: int, out: int, kernel: int, stride: int, padding: int
) -> Iterator[tuple[int, int, int, int]]:
    """For each place of the output: it, the first and the last + 1 input place that it sees, and
    the first kernel place used."""
    for output_place in range(out):
        begin = output_place * stride - padding
        yield output_place, max(0, begin), min(side, begin + kernel), max(0, -begin)


def _by_rows(shape: Shape, x: Tensor, weight: Tensor) -> bool:
    """Whether output and input gradient are made by products."""
    return shape.pixels <= FEW or (
        x.dtype == torch.float32 and weight.shape[0] * weight.shape[1] >= MANY_CHANNELS
    )


def _pays(shape: Shape, x: Tensor, weight: Tensor) -> bool:
    if x.dtype == torch.bfloat16 == weight.dtype:
        # The weight gradient at least; without one, only what products do better.
        return _by_rows(shape, x, weight) or (torch.is_grad_enabled() and weight.requires_grad)
    return x.dtype == torch.float32 == weight.dtype and _by_rows(shape, x, weight)


def _pair(value: Any) -> tuple[int, int]:
    return (int(value[0]), int(value[1]))
