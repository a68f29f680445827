"""Counter-based numbers: repeatable, uniform, independent of the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crosswind.core.seeds import hash64
from crosswind.transforms.draws import bits16, normal_quantiles, uniforms


def test_a_row_depends_on_its_key_alone() -> None:
    keys = np.arange(64, dtype=np.uint64) << np.uint64(40)
    together = bits16(keys, 1001)
    for i in (0, 1, 63):
        assert torch.equal(bits16(keys[i : i + 1], 1001)[0], together[i])
    assert torch.equal(bits16(keys, 7), together[:, :7])


def test_the_numbers_of_one_key_are_fixed() -> None:
    """A slow reference in Python integers: lowbias32 of counter and key, the key's upper half
    between the multiplications."""

    def reference(key: int, count: int) -> list[int]:
        mask, wide = 2**32 - 1, 2**64 - 1
        z = key * 0x9E3779B97F4A7C15 & wide
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & wide
        z = (z ^ z >> 27) * 0x94D049BB133111EB & wide
        z ^= z >> 31
        low, high = z & mask, z >> 32
        out = []
        for j in range((count + 1) // 2):
            s = (j * 0x9E3779B9 + low) & mask
            s ^= s >> 16
            s = (s * 0x7FEB352D + high) & mask
            s ^= s >> 15
            s = s * 0x846CA68B & mask
            s ^= s >> 16
            out += [s & 0xFFFF, s >> 16]
        return out[:count]

    keys = [0, 1, 2**63 + 12345, 2**64 - 1]
    found = bits16(np.array(keys, dtype=np.uint64), 101)
    assert found.tolist() == [reference(key, 101) for key in keys]


@pytest.mark.parametrize("shift", [0, 32, 56])
def test_numbers_are_uniform_and_rows_unlike_whatever_bits_the_keys_differ_in(shift: int) -> None:
    """256 bins of 100 x 4096 numbers: chi-square with 255 degrees of freedom, mean 255, sd 22.6;
    pairs of rows: |r| sqrt(n) < 6."""
    drawn = bits16(np.arange(100, dtype=np.uint64) << np.uint64(shift), 4096).numpy()
    for part in (drawn >> 8, drawn & 255):
        counts = np.bincount(part.ravel(), minlength=256)
        expected = drawn.size / 256
        assert abs(((counts - expected) ** 2 / expected).sum() - 255) < 6 * 22.6
    correlation = np.corrcoef(drawn)[np.triu_indices(100, 1)]
    assert np.abs(correlation).max() * 64 < 6


def test_quantiles_are_symmetric_and_have_unit_variance() -> None:
    table = normal_quantiles(2.0**20).double() / 2**20
    assert torch.equal(table, -table.flip(0))
    assert abs(float(table.std()) - 1) < 3e-4  # a little low: the tails end at 4.32
    assert float(table[55138]) == pytest.approx(1.0, abs=1e-4)  # 0.841345 x 65536 - 1/2 = 55137.9
    assert float(table[-1]) == pytest.approx(4.325, abs=0.001)


def test_uniform_numbers_are_the_whole_ones_and_a_half() -> None:
    keys = hash64(np.arange(5), 7)
    drawn = uniforms(keys, 1000)
    assert drawn.dtype == torch.float32 and float(drawn.min()) > 0 and float(drawn.max()) < 1
    assert torch.equal((drawn * 65536).double(), bits16(keys, 1000).double() + 0.5)
