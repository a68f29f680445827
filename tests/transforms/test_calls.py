"""Transforms that are called with something else than tensors of pictures, and those that give
something else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import crosswind as cw
from crosswind.core.errors import InputError
from crosswind.core.registry import load
from crosswind.core.seeds import hash64
from crosswind.data.derive import derive
from crosswind.transforms.base import Transform


def test_what_is_no_batch_of_tensors_is_refused_with_what_makes_one() -> None:
    """An array was an AttributeError."""
    blur = load("transforms", "gaussian-blur")()
    pictures = np.zeros((2, 8, 8, 3), np.uint8)
    keys = hash64(np.arange(2), 1)
    with pytest.raises(InputError, match="needs images as a tensor .*torch.from_numpy.*ndarray"):
        blur(pictures, keys)
    with pytest.raises(InputError, match=r"put the channels second, x\.permute\(0, 3, 1, 2\)"):
        blur(torch.from_numpy(pictures), keys)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x.float(), r"makes float32 \[2, 3, 8, 8\] of uint8 \[2, 3, 8, 8\]"),
        (lambda x: x[:, :1], r"makes uint8 \[2, 1, 8, 8\] of uint8 \[2, 3, 8, 8\]"),
    ],
)
def test_a_transform_that_gives_something_else_is_named(change: Any, words: str) -> None:
    """Floats were cut off where they were put into a data set."""

    @dataclass(frozen=True)
    class Spoiling(Transform):
        """Not a picture."""

        def apply(self, x: Tensor, keys: Any) -> Tensor:
            changed: Tensor = change(x)
            return changed

    with pytest.raises(InputError, match=words):
        Spoiling()(torch.zeros((2, 3, 8, 8), dtype=torch.uint8), hash64(np.arange(2), 1))


def test_a_derived_attribute_is_one() -> None:
    pictures = cw.from_frame({"kind": ["a", "b"]}, np.zeros((2, 8, 8, 3), np.uint8))
    with pytest.raises(InputError, match="derived: must be a DerivedAttribute.*not {'name'"):
        derive(pictures, {"name": "fog"})  # type: ignore[arg-type]
