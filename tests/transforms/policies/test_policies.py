"""What the policies draw: the right operations, as often as they should; what they do with it,
beside torchvision's."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare, kstest
from tests.transforms.pictures import pictures
from tests.transforms.policies.test_operations import BILINEAR, THEIRS, one_by_one
from torchvision.transforms import AutoAugment as TheirAutoAugment
from torchvision.transforms import AutoAugmentPolicy

from crosswind.core.errors import InputError
from crosswind.core.registry import facts
from crosswind.core.seeds import hash64
from crosswind.transforms.policies import operations as ours
from crosswind.transforms.policies.augmix import AugMix
from crosswind.transforms.policies.autoaugment import AutoAugment, policy_of
from crosswind.transforms.policies.operations import OPERATIONS, USUAL, levels
from crosswind.transforms.policies.randaugment import RandAugment, TrivialAugment

SIZE = (33, 29)
MANY = hash64(np.arange(70_000), 11)


def even(values: np.ndarray, kinds: int) -> bool:
    """Whether `values` are as often each of range(kinds), by the chi-square test; refused once in
    10,000 cases."""
    return chisquare(np.bincount(values, minlength=kinds)).pvalue > 1e-4


@pytest.mark.parametrize("position", [0, 1])
def test_randaugment_draws_every_operation_and_sign_as_often(position: int) -> None:
    chains = RandAugment().chains(MANY, SIZE)
    drawn_operations = chains.operations[:, position]
    assert set(drawn_operations.tolist()) == set(ours.codes(USUAL).tolist()) and len(USUAL) == 14
    assert even(drawn_operations, 14)
    for code in ours.codes(ours.SIGNED):
        assert even((chains.magnitudes[drawn_operations == code, position] < 0).astype(int), 2)
    # Both positions are independent.
    assert even(drawn_operations * 14 + chains.operations[:, 1 - position], 196)


def test_randaugment_has_one_magnitude_torchvisions() -> None:
    for magnitude in (0, 9, 30):
        chains = RandAugment(magnitude=magnitude).chains(MANY[:2000], SIZE)
        assert np.array_equal(
            np.abs(chains.magnitudes), levels("randaugment", 31, SIZE)[chains.operations, magnitude]
        )


def test_one_operation_alone() -> None:
    for name in USUAL:
        chains = RandAugment(operations=name, count=1).chains(MANY[:50], SIZE)
        assert {OPERATIONS[code] for code in chains.operations.ravel()} == {name}


def test_trivialaugment_draws_operation_level_and_sign() -> None:
    chains = TrivialAugment().chains(MANY, SIZE)
    operations, magnitudes = chains.operations[:, 0], chains.magnitudes[:, 0]
    assert even(operations, 14)
    table = levels("trivialaugment", 31, SIZE)
    turned = magnitudes[operations == OPERATIONS.index("rotate")]
    level_numbers = np.searchsorted(table[OPERATIONS.index("rotate")], np.abs(turned))
    assert np.array_equal(table[OPERATIONS.index("rotate")][level_numbers], np.abs(turned))
    assert even(level_numbers, 31) and even((turned[level_numbers > 0] < 0).astype(int), 2)


@pytest.mark.parametrize("name", ["cifar10", "imagenet", "svhn"])
def test_autoaugments_tables_are_torchvisions(name: str) -> None:
    their_policies = TheirAutoAugment(AutoAugmentPolicy(name)).policies
    pairs = np.stack(policy_of(name), axis=2).tolist()
    assert len(pairs) == len(their_policies) == 25
    for pair, their_pair in zip(pairs, their_policies, strict=True):
        assert [(THEIRS[OPERATIONS[int(code)]], share, level) for code, share, level in pair] == [
            (a, b, c or 0) for a, b, c in their_pair
        ]


@pytest.mark.slow
def test_autoaugment_draws_pairs_and_does_each_with_its_probability() -> None:
    chains = AutoAugment("cifar10").chains(MANY, SIZE)
    rows = chains.operations
    pair_counts = Counter(map(tuple, rows.tolist()))
    # Pair 2 (rotate 0.7, translate-x 0.3) is the only one with rotate: both 70,000 / 25 x 0.7 x 0.3
    # = 588 times, sd 24.
    rotate, move = OPERATIONS.index("rotate"), OPERATIONS.index("translate-x")
    assert abs(pair_counts[rotate, move] - 588) < 120 and abs(pair_counts[rotate, 0] - 1372) < 180
    assert OPERATIONS.index("invert") not in {
        b for a, b in pair_counts if a == OPERATIONS.index("solarize")
    }  # probability 0
    size = np.abs(chains.magnitudes[:, 0][rows[:, 0] == rotate])
    assert set(size.tolist()) == {float(levels("randaugment", 10, SIZE)[rotate, 2])}


def test_augmix_draws_depths_operations_levels_and_weights() -> None:
    """Depths of 1 to 3 as often; levels below the severity; at alpha 1 uniform shares of the image,
    flat weights."""
    policy, keys = AugMix(), MANY[:20_000]
    chains = policy.chains(keys, SIZE)
    assert chains.operations.shape == (60_000, 3)
    depth = (chains.operations > 0).sum(1)
    assert even(depth - 1, 3)
    names = ours.codes(("shear-x", "posterize", "brightness"))
    first = chains.operations[:, 0]
    assert (
        len(np.unique(first)) == 13
        and chisquare(np.unique(first, return_counts=True)[1]).pvalue > 1e-4
    )
    for code in names:
        sizes_drawn = np.unique(np.abs(chains.magnitudes[:, 0][first == code]))
        assert set(sizes_drawn) == set(levels("augmix", 10, SIZE)[code, :3])
    weights = policy.weights(keys) / 65536
    assert (
        weights.shape == (20_000, 4)
        and (weights >= 0).all()
        and np.array_equal(weights.sum(1), np.ones(20_000))
    )
    assert kstest(weights[:, 0], "uniform").pvalue > 1e-4
    share = weights[:, 1:] / np.maximum(1 - weights[:, :1], 1e-9)
    assert (
        kstest(share[weights[:, 0] < 0.99][:, 0], "beta", (1, 2)).pvalue > 1e-4
    )  # a coordinate of a flat Dirichlet of three
    peaked = AugMix(alpha=0.1).weights(keys) / 65536
    assert peaked[:, 0].std() == pytest.approx(
        np.sqrt(0.25 / 1.2), abs=0.01
    )  # Beta(a, a) has variance 1 / (4 (2a + 1))


def test_augmix_without_the_four_and_at_a_set_depth() -> None:
    chains = AugMix(all_ops=False, depth=2, width=5).chains(MANY[:500], SIZE)
    assert chains.operations.shape == (2500, 2) and (chains.operations > 0).all()
    assert not set(chains.operations.ravel()) & set(
        ours.codes(("brightness", "colour", "contrast", "sharpness", "invert"))
    )


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "policy",
    [
        RandAugment(resampling="each"),
        RandAugment(3, 20, resampling="each"),
        TrivialAugment(),
        AutoAugment("svhn", resampling="each"),
    ],
    ids=["randaugment", "three of 20", "trivialaugment", "autoaugment"],
)
def test_images_are_torchvisions_by_the_same_draws(policy: Any, channels: int) -> None:
    x, keys = pictures(channels), MANY[:32]
    augmented, chains = policy(x, keys), policy.chains(keys, SIZE)
    for i in range(32):
        assert torch.equal(augmented[i], one_by_one(x, chains, i)), chains.operations[i]


def test_augmix_is_the_mixture_of_its_chains() -> None:
    """In double precision by torchvision's operations and the same draws, cut downwards: within two
    levels, most the same.

    But for what comes from the very edge, as in bilinear resampling alone.
    """
    x, keys = pictures()[:24], MANY[:24]
    policy = AugMix(resampling="each")
    mixtures, chains, weights = (
        policy(x, keys),
        policy.chains(keys, SIZE),
        policy.weights(keys) / 65536,
    )
    copies, same, far = x.repeat_interleave(3, 0), [], []
    for i in range(24):
        chain_outputs = [one_by_one(copies, chains, 3 * i + k, BILINEAR).double() for k in range(3)]
        mixed = weights[i, 0] * x[i] + sum(weights[i, 1 + k] * chain_outputs[k] for k in range(3))
        off = (mixtures[i] - (mixed + 1e-9).floor()).abs()
        same.append(float((off == 0).double().mean()))
        far.append(float((off > 2).double().mean()))
    assert np.mean(same) > 0.9 and max(far) < 0.02 and np.mean(far) < 0.002


def test_knobs_are_refused_by_name() -> None:
    for make_policy, word in (
        (
            lambda: RandAugment(magnitude=31),
            "randaugment.magnitude: must be below bins, which is 31, not 31",
        ),
        (lambda: RandAugment(operations="color"), "colour"),
        (lambda: AutoAugment("cifar"), "cifar10"),
    ):
        with pytest.raises(InputError, match=word):
            make_policy()
    assert [knob.name for knob in facts("transforms", "trivialaugment").knobs] == ["bins"]
