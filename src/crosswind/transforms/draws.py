"""Counter-based random numbers for batches of images: integers only, so the same bits in any batch
and on any device.

Number j of a sample is a hash of its 64-bit key and j. There is no state, and no logarithm or
cosine whose last bit depends on its place in a vector register: normal numbers come from a table of
65,536 quantiles.
"""

from __future__ import annotations

from functools import cache
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.seeds import hash64
from crosswind.transforms.layout import on_device

# lowbias32 (C. Wellons, "Prospecting for hash functions", 2018) and the golden ratio, as the signed
# 32-bit integers torch knows.
_MULTIPLY_1 = 0x7FEB352D
_MULTIPLY_2_UNSIGNED = 0x846CA68B
_GOLDEN_UNSIGNED = 0x9E3779B9
_MULTIPLY_2 = _MULTIPLY_2_UNSIGNED - (1 << 32)
_GOLDEN = _GOLDEN_UNSIGNED - (1 << 32)
FEW = 4096
"""Numbers, in all rows, up to which NumPy draws them: below it a call of torch costs more than it
saves."""


def bits16(keys: NDArray[np.uint64], count: int, device: torch.device | str = "cpu") -> Tensor:
    """Uniform whole numbers in [0, 65536): int32 [n, count] on `device`, row i a function of
    `keys[i]` (uint64 [n]) alone.

    The first numbers of a row do not depend on how many are asked for.
    """
    # Hashed once more, so that keys which differ in few bits serve as well as any.
    ids = np.asarray(keys)
    halves = (
        np.ascontiguousarray(hash64(ids, 0), dtype="<u8")
        .view("<i4")
        .reshape(-1, 2)
        .astype(np.int32)
    )
    if len(halves) * count <= FEW and torch.device(device).type == "cpu":
        return torch.from_numpy(_few_bits16(halves.view(np.uint32), count))
    words = on_device(halves, device)
    counter = torch.arange((count + 1) // 2, dtype=torch.int32, device=device) * _GOLDEN
    state = counter + words[:, :1]
    # In place: a new tensor for every step would cost as much as the arithmetic.
    scratch = torch.empty_like(state)
    _shifted_in(state, scratch, 16)
    state *= _MULTIPLY_1
    state += words[
        :, 1:
    ]  # without the other half, two samples' draws would be one sequence, begun at different places
    _shifted_in(state, scratch, 15)
    state *= _MULTIPLY_2
    _shifted_in(state, scratch, 16)
    return state.view(torch.uint16)[:, :count].to(torch.int32)


def _few_bits16(words: NDArray[np.uint32], count: int) -> NDArray[np.int32]:
    """`bits16` of few numbers, for which NumPy's calls take a tenth of the time; `words` [n, 2]: the
    halves of hashed keys."""
    state = (
        np.arange((count + 1) // 2, dtype=np.uint32) * np.uint32(_GOLDEN_UNSIGNED) + words[:, :1]
    )
    state ^= state >> 16
    state *= np.uint32(_MULTIPLY_1)
    state += words[:, 1:]
    state ^= state >> 15
    state *= np.uint32(_MULTIPLY_2_UNSIGNED)
    state ^= state >> 16
    return state.astype("<u4").view("<u2")[:, :count].astype(np.int32)


def uniforms(keys: NDArray[np.uint64], count: int, device: torch.device | str = "cpu") -> Tensor:
    """Uniform numbers (i + 1/2) / 65536: float32 [n, count], exact; else as `bits16`."""
    return (bits16(keys, count, device).to(torch.float32) + 0.5) / 65536


@cache
def normal_quantiles(scale: float) -> Tensor:
    """`scale` times the quantiles of the normal distribution at (i + 1/2) / 65536, rounded: int32
    [65536].

    Symmetric about 0 exactly; the largest is 4.32 times `scale`. Made once a scale, in 20 ms.
    """
    return torch.from_numpy(np.rint(_quantiles() * scale).astype(np.int32))


@cache
def _quantiles() -> NDArray[np.float64]:
    normal = NormalDist()
    upper = np.array([normal.inv_cdf((i + 0.5) / 65536) for i in range(32768, 65536)])
    return np.concatenate([-upper[::-1], upper])


def _shifted_in(state: Tensor, scratch: Tensor, bits: int) -> None:
    # torch shifts signed integers arithmetically: the copies of the sign are masked off.
    torch.bitwise_right_shift(state, bits, out=scratch)
    scratch &= (1 << (32 - bits)) - 1
    state ^= scratch
