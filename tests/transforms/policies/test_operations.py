"""The operations at torchvision's levels, and chains of them: torchvision's operations, one image
at a time."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from tests.transforms.pictures import bilinear, image, pictures, tensor
from torchvision.transforms import AugMix, InterpolationMode, RandAugment, TrivialAugmentWide
from torchvision.transforms.autoaugment import _apply_op

from crosswind.transforms.policies import operations as ours
from crosswind.transforms.policies.operations import (
    GEOMETRIC,
    OPERATIONS,
    SIGNED,
    Chains,
    carried_out,
    levels,
)

SPELLED = {"autocontrast": "AutoContrast", "colour": "Color"}
THEIRS = {name: SPELLED.get(name, name.title().replace("-", "")) for name in OPERATIONS}
SIZE = (33, 29)
NEAREST, BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR


def space(name: str, size: tuple[int, int]) -> tuple[dict, int]:
    if name == "augmix":
        return AugMix()._augmentation_space(10, size), 10
    if name == "trivialaugment":
        return TrivialAugmentWide()._augmentation_space(31), 31
    return RandAugment()._augmentation_space(31, size), 31


def one_by_one(
    x: torch.Tensor, chains: Chains, i: int, interpolation: InterpolationMode = NEAREST
) -> torch.Tensor:
    """Sample i by torchvision's operations, one after the other."""
    picture = image(x[i])
    for code, magnitude in zip(
        chains.operations[i].tolist(), chains.magnitudes[i].tolist(), strict=True
    ):
        name = OPERATIONS[code]
        change = partial(
            _apply_op,
            op_name=THEIRS[name],
            magnitude=magnitude,
            interpolation=interpolation,
            fill=None,
        )
        if name == "posterize" and magnitude == 0:  # Pillow refuses what torchvision's tensors do
            picture = picture.point(lambda level: 0)
        else:
            picture = (
                bilinear(picture, change)
                if name in GEOMETRIC and interpolation == BILINEAR
                else change(picture)
            )
    return tensor(picture)


@pytest.mark.parametrize("name", ["randaugment", "trivialaugment", "augmix"])
@pytest.mark.parametrize("size", [SIZE, (64, 64)])
def test_levels_are_torchvisions(name: str, size: tuple[int, int]) -> None:
    known, bins = space(name, size)
    found = levels(name, bins, size)
    for word, (magnitudes, signed) in known.items():
        operation = next(key for key, value in THEIRS.items() if value == word)
        assert (operation in SIGNED) == signed
        wanted = magnitudes.double().expand(bins).numpy()
        assert np.array_equal(found[OPERATIONS.index(operation)], wanted), operation
    assert len(known) in (13, 14)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_is_torchvisions_at_every_level(operation: str, channels: int) -> None:
    """Both signs of all levels of the three policies, 144 at most: on Pillow images, to the level
    and to the pixel."""
    code = OPERATIONS.index(operation)
    every = [
        levels(name, bins, SIZE)[code]
        for name, bins in (("randaugment", 31), ("trivialaugment", 31), ("augmix", 10))
    ]
    magnitudes = np.unique(
        np.concatenate([*every, *(-part for part in every if operation in SIGNED)])
    )
    x = pictures(channels)[torch.arange(len(magnitudes)) % 32]
    chains = Chains(np.full((len(x), 1), code), magnitudes[:, None])
    found = carried_out(x, chains)
    for i in range(len(x)):
        assert torch.equal(found[i], one_by_one(x, chains, i)), magnitudes[i]
    fewest = {"identity": 1, "autocontrast": 1, "equalize": 1, "invert": 1, "posterize": 9}.get(
        operation, 37
    )
    assert len(magnitudes) >= fewest


def random_chains(n: int, steps: int, seed: int, names: tuple[str, ...] = OPERATIONS) -> Chains:
    generator = np.random.default_rng(seed)
    codes = np.array([OPERATIONS.index(name) for name in names])[
        generator.integers(0, len(names), (n, steps))
    ]
    magnitudes = levels("randaugment", 31, SIZE)[codes, generator.integers(0, 31, (n, steps))]
    return Chains(codes, ours.signed(codes, magnitudes, generator.random((n, steps)) < 0.5))


@pytest.mark.parametrize("channels", [1, 3])
def test_chains_one_by_one_are_torchvisions(channels: int) -> None:
    x = pictures(channels)[torch.arange(128) % 32]
    chains = random_chains(128, 3, 0)
    found = carried_out(x, chains, once=False)
    for i in range(len(x)):
        assert torch.equal(found[i], one_by_one(x, chains, i)), chains.operations[i]


def test_geometric_operations_in_a_row_are_resampled_once() -> None:
    """As Pillow's transform with the product of torchvision's matrices; the others of the chain as
    they are."""
    x = pictures()[torch.arange(96) % 32]
    chains = random_chains(
        96, 4, 1, ("identity", "shear-x", "shear-y", "translate-x", "rotate", "posterize")
    )
    found = carried_out(x, chains)
    runs = 0
    for i in range(len(x)):
        picture, pending, length = image(x[i]), np.eye(3), 0
        for code, magnitude in [
            *zip(chains.operations[i].tolist(), chains.magnitudes[i].tolist(), strict=True),
            (None, 0.0),
        ]:
            name = None if code is None else OPERATIONS[code]
            if name in GEOMETRIC:
                step = np.eye(3)
                step[:2] = ours.matrix_of(name, np.array([magnitude]), SIZE)[0]
                pending, length = pending @ step, length + 1
            elif name != "identity":
                if length:
                    picture = picture.transform(picture.size, 0, tuple(pending[:2].reshape(-1)), 0)
                    runs += length > 1
                pending, length = np.eye(3), 0
                if name == "posterize":
                    picture = _apply_op(
                        picture, "Posterize", magnitude, InterpolationMode.NEAREST, None
                    )
        # The product's last bit may lie on the other side of a pixel's edge.
        assert float((found[i] != tensor(picture)).double().mean()) < 0.01, i
    assert runs > 30


def test_a_move_there_and_back_loses_nothing_when_composed() -> None:
    """Two translations of 9 and -9 pixels: the picture again where composed, a black band where
    each is resampled."""
    x = pictures()[:2].clamp(min=1)
    chains = Chains(
        np.full((2, 3), OPERATIONS.index("translate-x")) * [1, 0, 1],
        np.array([[9.0, 0.0, -9.0]] * 2),
    )
    assert torch.equal(carried_out(x, chains), x)
    apart = carried_out(x, chains, once=False)
    assert torch.equal(apart[..., :-9], x[..., :-9]) and int(apart[..., -9:].max()) == 0


@pytest.mark.parametrize("operation", ["shear-x", "shear-y", "translate-x", "rotate"])
def test_bilinear_resampling_is_pillows_in_floats_within_a_level(operation: str) -> None:
    """AugMix's levels, both signs: but for pixels whose centre comes from the very edge (within
    1/65536 pixel) of the image."""
    code = OPERATIONS.index(operation)
    magnitudes = np.concatenate([sign * levels("augmix", 10, SIZE)[code] for sign in (-1, 1)])
    x = pictures()[: len(magnitudes)]
    chains = Chains(np.full((len(x), 1), code), magnitudes[:, None])
    found = carried_out(x, chains, "bilinear")
    for i in range(len(x)):
        off = (found[i].int() - one_by_one(x, chains, i, BILINEAR).int()).abs()
        assert float((off > 1).double().mean()) < 0.01, magnitudes[i]
        assert float((off > 0).double().mean()) < 0.12, magnitudes[
            i
        ]  # shears of fifths have many halves
