"""Partners of rows: who is paired with whom, seen where, and that both members come out of the
loader as they are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.test_loader_memory import bounded
from tests.training.world import DATA, rows_of, split

from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import DerivedAttribute, derive, render, training_keys
from crosswind.methods.base import Batch, Partners
from crosswind.models.build import normalised
from crosswind.training.loader import TrainingRows
from crosswind.training.pairs import PartnerRows
from crosswind.training.settings import TrainingSettings
from crosswind.transforms.cropping import FlipCrop

NOISE = derive(
    DATA,
    DerivedAttribute(
        "noise",
        ("much", "clean", "some"),
        "gaussian-noise",
        ({"severity": 5}, None, {"severity": 2}),
        "per-visit",
    ),
)
CLEAN = 1
# Dark rows are seen clean and under both noises, bright ones clean alone: what the paper keeps
# apart.
LAW = {0: [0.2, 0.5, 0.3], 1: [0.0, 1.0, 0.0]}


def visited(n: int = 60, law: dict[int, list[float]] = LAW, **changes: Any) -> Any:
    """Rows whose environment is the noise that they are seen under."""
    base = rows_of(DATA, np.arange(n))
    shares = np.array([law[int(label)] for label in base.label])
    names = ("noise=much", "noise=clean", "noise=some")
    zeros = np.zeros(n, dtype=np.int64)
    fields = {
        "visit_law": shares,
        "visit_step": (0, 1),
        "environment": zeros,
        "environment_names": names,
        "environment_sizes": (3,),
    }
    return replace(base, **{**fields, **changes})


def loader(
    by: str,
    rows: Any = None,
    *,
    data: AttributedDataset = NOISE,
    clean: int = CLEAN,
    batch: int = 16,
    crop: Any = None,
    seed: int = 0,
) -> TrainingRows:
    rows = visited() if rows is None else rows
    return TrainingRows(
        rows, data, TrainingSettings(batch=batch), seed, "epoch", (None,), Partners(by, clean, crop)
    )


def noiseless(ids: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(DATA.inputs(ids.numpy())).permute(0, 3, 1, 2)


def pairs_of(batch: Batch) -> list[tuple[int, int, int, int]]:
    """Of each row its id and environment, and those of its partner."""
    assert batch.pair is not None and batch.environment is not None
    pair_columns = (batch.ids, batch.environment, batch.pair.ids, batch.pair.environment)
    return list(zip(*(pair_column.tolist() for pair_column in pair_columns), strict=True))


@pytest.mark.parametrize("by", ["view", "instance", "class"])
def test_one_of_each_pair_is_clean_and_no_class_is_seen_where_it_is_kept_apart(by: str) -> None:
    """Over five epochs: partners of rows with noise are clean, those of clean dark ones have noise,
    bright ones are their own."""
    pair_loader, pairs_seen = loader(by), []
    for step in range(20):
        batch = pair_loader.batch(step, 20)
        assert batch.pair is not None
        for row, row_environment, partner, partner_environment in pairs_of(batch):
            dark = row % 2 == 0
            assert partner % 2 == row % 2 and (partner == row or by == "class")
            assert (
                {row_environment, partner_environment} <= ({0, 1, 2} if dark else {CLEAN})
                and (row_environment == CLEAN) != (partner_environment == CLEAN)
                or not dark
            )
            pairs_seen.append((row_environment, partner_environment))
    assert len(pairs_seen) == 320 and {(0, 1), (2, 1), (1, 0), (1, 2), (1, 1)} == set(pairs_seen)
    # A clean row's partner is under the noises as visits are, 2 to 3: 3 sqrt(0.24 / n) is three
    # standard deviations.
    other_environments = [
        partner_environment
        for row_environment, partner_environment in pairs_seen
        if row_environment == CLEAN and partner_environment != CLEAN
    ]
    assert (
        abs(other_environments.count(0) / len(other_environments) - 0.4)
        < 3 * (0.24 / len(other_environments)) ** 0.5
    )


def test_the_first_members_are_the_batch_without_partners_to_the_bit() -> None:
    plain = TrainingRows(visited(), NOISE, TrainingSettings(batch=16), 0, "epoch")
    for by in ("view", "class"):
        pair_loader = loader(by)
        for step in range(5):
            plain_batch, two = plain.batch(step, 5), pair_loader.batch(step, 5)
            assert (
                plain_batch.pair is None
                and torch.equal(plain_batch.x, two.x)
                and torch.equal(plain_batch.y, two.y)
            )
            assert torch.equal(plain_batch.environment, two.environment) and torch.equal(
                plain_batch.group, two.group
            )  # type: ignore[arg-type]


def test_members_by_view_are_one_image_and_their_noise_is_not_the_same() -> None:
    """A partner is the image rendered under its own value with a key of its own, by row and
    visit."""
    batch = loader("view").batch(3, 9)
    assert batch.pair is not None and torch.equal(batch.pair.ids, batch.ids)
    base = noiseless(batch.ids)
    clean = normalised(base, torch.float32, True)
    for x, environment in ((batch.x, batch.environment), (batch.pair.x, batch.pair.environment)):
        assert environment is not None
        apart = (x - clean).abs().amax((1, 2, 3)) > 1e-5
        assert torch.equal(apart, environment != CLEAN) and 0 < apart.sum() < 16
    # Both members of a bright row are the clean image.
    bright = batch.ids % 2 == 1
    assert torch.equal(batch.x[bright], batch.pair.x[bright])


def test_partners_are_drawn_by_row_and_visit_and_not_by_batch_or_order() -> None:
    """The same rows at the same visits in batches of another size; and any step first."""
    for by in ("view", "instance", "class"):
        crop = FlipCrop(scale=0.5)
        large_batches, small_batches = (
            loader(by, batch=60, crop=crop),
            loader(by, batch=12, crop=crop),
        )
        small = [small_batches.batch(step, 10) for step in reversed(range(10))][::-1]
        for epoch in range(2):
            large_batch = large_batches.batch(epoch, 2)
            few_batches = small[5 * epoch : 5 * epoch + 5]
            assert large_batch.pair is not None and torch.equal(
                large_batch.ids, torch.cat([batch.ids for batch in few_batches])
            )
            for name, value in vars(large_batch.pair).items():
                assert torch.equal(
                    value, torch.cat([getattr(batch.pair, name) for batch in few_batches])
                ), name
        assert pairs_of(loader(by, seed=1).batch(0, 2)) != pairs_of(loader(by).batch(0, 2))
    first, second = (loader("class", batch=60).batch(epoch, 2) for epoch in range(2))
    assert first.pair is not None and second.pair is not None
    assert not torch.equal(
        first.pair.ids[first.ids.argsort()], second.pair.ids[second.ids.argsort()]
    )


class Keys:
    """Keeps the keys that it was given, and writes the low byte of each over its image."""

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []

    def __call__(self, x: torch.Tensor, keys: np.ndarray) -> torch.Tensor:
        assert x.dtype == torch.uint8 and len(x) == len(keys)
        self.seen.append(keys)
        return torch.zeros_like(x) + torch.from_numpy(
            (keys & np.uint64(127)).astype(np.uint8)
        ).view(-1, 1, 1, 1)


def test_crops_are_alike_by_view_and_apart_by_instance_and_come_before_the_noise() -> None:
    """By view n images are cropped, then shown twice; by instance 2 n are, each by its own key; the
    batch's crops are alike."""
    crops = {}
    for by in ("view", "instance", "class"):
        crop = Keys()
        batch = loader(by, crop=crop, batch=60).batch(0, 1)
        (keys,) = crop.seen
        assert len(set(keys.tolist())) == len(keys) == (60 if by == "view" else 120)
        crops[by] = keys[:60]
        assert batch.pair is not None and batch.environment is not None
        flat = [(x.amax((1, 2, 3)) - x.amin((1, 2, 3))) < 1e-6 for x in (batch.x, batch.pair.x)]
        # What is cropped is one grey here, so that an image which is not has been given noise
        # afterwards.
        assert torch.equal(flat[0], batch.environment == CLEAN) and torch.equal(
            flat[1], batch.pair.environment == CLEAN
        )
        both_flat = flat[0] & flat[1]
        assert torch.equal(batch.x[both_flat], batch.pair.x[both_flat]) == (by == "view")
    assert np.array_equal(crops["view"], crops["instance"]) and np.array_equal(
        crops["view"], crops["class"]
    )


def test_partners_by_class_are_drawn_evenly_and_are_other_rows() -> None:
    """Thirty dark rows: each of 29 others is as likely. 6,000 draws give each 200 of all, with a
    standard deviation of 14."""
    pair_loader = loader("class", batch=6000)
    batch = pair_loader.batch(0, 1)
    assert batch.pair is not None
    dark = batch.ids % 2 == 0
    assert not (batch.ids == batch.pair.ids)[dark].any()
    count = np.bincount(batch.pair.ids[dark].numpy(), minlength=60)[::2]
    assert (
        count.sum() == int(dark.sum()) and abs(count - count.mean()).max() < 5 * count.mean() ** 0.5
    )


def slow(rows: Any, row: int, value: int) -> list[tuple[int, int]]:
    """Every (row, value) that may be the partner by class of a row under a value, by a loop over
    all of both."""
    side = value == CLEAN
    partners_found = [
        (other_row, partner_environment)
        for other_row in range(len(rows.rows))
        for partner_environment in range(3)
        if rows.label[other_row] == rows.label[row]
        and rows.visit_law[other_row, partner_environment] > 0
        and (partner_environment == CLEAN) != side
    ]
    return [pair for pair in partners_found if pair[0] != row] or partners_found or [(row, value)]


def test_partners_are_those_of_a_slow_loop_and_all_of_them() -> None:
    random = np.random.default_rng(0)
    law = (0.5 + random.random((14, 3))) * (random.random((14, 3)) < 0.5)
    law[law.sum(1) == 0, 2] = 1.0
    rows = visited(14, visit_law=law)
    pair_loader = PartnerRows(rows, law, np.arange(14), Partners("class", CLEAN))
    cases = [(row, value) for row in range(14) for value in np.flatnonzero(law[row])]
    assert len(cases) > 20
    for row, value in cases:
        n_draws = 300
        partner, partner_environment = pair_loader.of(
            np.full(n_draws, row), np.full(n_draws, value), np.arange(n_draws), 5
        )
        expected = slow(rows, row, int(value))
        assert set(zip(partner.tolist(), partner_environment.tolist(), strict=True)) == set(
            expected
        )
        if (
            len({drawn_partner for drawn_partner, _ in expected}) > 1
        ):  # the seed decides, and the visit
            drawn_partner = pair_loader.of(
                np.full(n_draws, row), np.full(n_draws, value), np.arange(n_draws), 6
            )[0]
            assert (drawn_partner != partner).mean() > 0.2 and len(set(partner[:40].tolist())) > 1


def test_a_class_of_one_row_is_paired_with_itself_where_it_can_be_seen_elsewhere() -> None:
    """Row 0 alone is dark: by class its partner is itself, under the other side. A bright one has
    no noise and is its own."""
    rows = visited(60)
    rows = replace(
        rows,
        label=np.where(np.arange(60) == 0, 0, 1),
        visit_law=np.array([LAW[int(i > 0)] for i in range(60)]),
    )
    batch = loader("class", rows, batch=60).batch(0, 1)
    position = int(torch.where(batch.ids == 0)[0])
    row, row_environment, partner, partner_environment = pairs_of(batch)[position]
    assert row == partner == 0 and (row_environment == CLEAN) != (partner_environment == CLEAN)
    assert all(
        row_environment == partner_environment == CLEAN and row == partner
        for row, row_environment, partner, partner_environment in pairs_of(batch)
        if row
    )


def test_rows_of_environments_in_the_table_are_paired_by_class_with_each_other() -> None:
    """Red is clean. A class without red rows has no pairs; a row that the sampler never draws is
    nobody's partner."""
    rows = rows_of(DATA, np.arange(60))
    rows = replace(rows, environment=np.where(rows.label == 1, 1, rows.environment))
    weight = np.where(np.arange(60) < 8, 0.0, 1.0) / 52
    batch = loader("class", replace(rows, weight=weight), data=DATA, clean=0, batch=400).batch(0, 1)
    assert batch.pair is not None
    for row, row_environment, partner, partner_environment in pairs_of(batch):
        assert partner >= 8 and partner % 2 == row % 2
        assert (
            {row_environment, partner_environment} == {0, 1}
            if row % 2 == 0
            else (partner, partner_environment) == (row, row_environment)
        )
        assert partner_environment == rows.environment[partner]
    x = noiseless(batch.pair.ids)
    assert torch.equal(batch.pair.x, normalised(x, torch.float32, True))


def test_a_value_that_makes_no_environment_is_drawn_for_the_partner_too() -> None:
    """The tint makes environments and the noise does not: a partner is under a noise that its own
    row is seen under."""
    base = rows_of(DATA, np.arange(60))
    rows = visited(
        60, visit_step=(0, 0), environment=base.environment, environment_names=("red", "blue")
    )
    batch = loader("class", rows, clean=0, batch=240).batch(0, 1)
    assert batch.pair is not None
    clean = normalised(noiseless(batch.pair.ids), torch.float32, True)
    noisy = (batch.pair.x - clean).abs().amax((1, 2, 3)) > 1e-5
    dark = batch.pair.ids % 2 == 0
    assert (
        not noisy[~dark].any() and 0.3 < noisy[dark].double().mean() < 0.7
    )  # half of the dark ones' visits
    assert all(
        row_environment != partner_environment
        for _, row_environment, _, partner_environment in pairs_of(batch)
    )


def test_partners_of_fixed_values_have_their_own() -> None:
    base = np.arange(60)
    data = replace(NOISE, derived=replace(NOISE.derived, mode="fixed"))  # type: ignore[type-var]
    rows = replace(
        split().train,
        rows=base * 3 + base // 4 % 3,
        environment=base // 4 % 3,
        environment_names=("m", "c", "s"),
    )
    batch = loader("class", rows, data=data, batch=60).batch(0, 1)
    assert batch.pair is not None
    values = batch.pair.ids.numpy() // 4 % 3
    assert np.array_equal(values, batch.pair.environment) and not np.array_equal(
        values, batch.environment
    )
    apart = (batch.pair.x - normalised(noiseless(batch.pair.ids), torch.float32, True)).abs().amax(
        (1, 2, 3)
    ) > 1e-5
    assert np.array_equal(apart.numpy(), values != CLEAN)


@pytest.mark.parametrize(("by", "many"), [("view", 16), ("instance", 16), ("class", 32)])
def test_a_batch_with_its_partners_is_one_gather(by: str, many: int) -> None:
    """Where nothing is held in memory: one call reads a batch, by class both members' rows, by view
    each image once."""
    gathers = []

    def read(rows: np.ndarray) -> np.ndarray:
        gathers.append(len(rows))
        return DATA.inputs(rows)

    held_loader = loader(by)
    with bounded(0):
        pair_loader = loader(by, data=replace(NOISE, read=read))
        for step in range(4):
            read_batch, two = pair_loader.batch(step, 4), held_loader.batch(step, 4)
            assert read_batch.pair is not None and two.pair is not None
            assert torch.equal(read_batch.x, two.x) and torch.equal(read_batch.pair.x, two.pair.x)
    assert gathers == [many] * 4


def test_noise_of_a_partner_is_that_of_its_own_key() -> None:
    """By hand: what `render` makes of the image, with the key of the row at its first visit under
    the seed of partners."""
    from crosswind.core.seeds import seed_of

    batch = loader("view", batch=60).batch(0, 1)
    assert batch.pair is not None
    seed = seed_of(seed_of(0, "visits", "main"), "partner")
    ids = batch.ids.numpy()
    expected = render(
        NOISE, noiseless(batch.ids), batch.pair.environment.numpy(), training_keys(ids, 0, seed)
    )
    assert torch.equal(batch.pair.x, normalised(expected, torch.float32, True))
