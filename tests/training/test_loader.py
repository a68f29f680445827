from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.training.world import DATA, rows_of, run, split, with_train

from crosswind.core.errors import DataError, NeedsError
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import DerivedAttribute, derive
from crosswind.methods.base import Batch, Examples, Stage
from crosswind.methods.deepcoral import DeepCORAL
from crosswind.methods.erm import ERM
from crosswind.methods.groupdro import GroupDRO
from crosswind.models.build import normalised
from crosswind.training.identity import info_of
from crosswind.training.loader import TrainingRows
from crosswind.training.samplers import Order, even_groups, row_weights
from crosswind.training.settings import TrainingSettings


def loader(
    rows: object = None, sampler: str = "epoch", seed: int = 0, **settings: object
) -> TrainingRows:
    chosen = TrainingSettings.of({"batch": 16, **settings})
    return TrainingRows(split().train if rows is None else rows, DATA, chosen, seed, sampler)  # type: ignore[arg-type]


def test_small_set_runs_on_over_epochs() -> None:
    """49 rows, batches of 128: three batches hold 384 rows, seven epochs of 49 and 41 more."""
    rows = loader(rows_of(DATA, np.arange(49)), batch=128)
    batches = [rows.batch(step, 3) for step in range(3)]
    ids = torch.cat([batch.ids for batch in batches]).numpy()
    for epoch in range(7):
        assert sorted(ids[epoch * 49 : epoch * 49 + 49]) == list(range(49))
    assert len(set(ids[343:])) == 41
    assert [batch.epoch for batch in batches] == [0, 2, 5]  # 0, 128 // 49, 256 // 49
    assert not np.array_equal(ids[:49], ids[49:98])
    visits = np.concatenate([rows.rows_of(step)[1] for step in range(3)])
    assert np.array_equal(visits, np.arange(384) // 49)


def test_batch_is_a_function_of_seed_stage_and_step() -> None:
    first, two = loader(), loader()
    forward = [first.batch(step, 9).ids.tolist() for step in range(9)]
    assert [two.batch(step, 9).ids.tolist() for step in reversed(range(9))] == forward[::-1]
    assert loader(seed=1).batch(0, 9).ids.tolist() != forward[0]
    two.begin(Stage("other"))
    assert two.batch(0, 9).ids.tolist() != forward[0]


def test_batch_holds_the_pixels_and_labels_of_its_rows() -> None:
    batch = loader().batch(2, 9)
    ids = batch.ids.numpy()
    assert torch.allclose(
        batch.x, torch.from_numpy(DATA.inputs(ids)).permute(0, 3, 1, 2) / 127.5 - 1, atol=1e-6
    )
    assert batch.x.is_contiguous(memory_format=torch.channels_last)
    assert batch.y.tolist() == (ids % 2).tolist()
    assert batch.environment is not None and batch.environment.tolist() == (ids // 2 % 2).tolist()
    assert batch.progress == 2 / 9


def test_labels_are_those_of_the_row_set_noise_included() -> None:
    sets = split()
    noisy = with_train(sets, label=1 - sets.train.label).train
    batch = loader(noisy).batch(0, 1)
    assert batch.y.tolist() == (1 - batch.ids % 2).tolist()


def test_weights_draw_rows_in_proportion() -> None:
    weight = np.r_[np.full(30, 3.0), np.full(30, 1.0)] / 120
    rows = loader(with_train(split(), weight=weight).train, batch=1000)
    drawn = np.bincount(
        np.concatenate([rows.batch(step, 20).ids for step in range(20)]), minlength=60
    )
    assert 0.73 < drawn[:30].sum() / 20_000 < 0.77
    assert drawn.min() > 0


def test_weight_zero_is_never_drawn() -> None:
    weight = np.r_[np.zeros(59), 1.0]
    assert set(loader(with_train(split(), weight=weight).train).batch(0, 1).ids.tolist()) == {59}
    with pytest.raises(DataError, match="^every training row has weight 0 by"):
        loader(with_train(split(), weight=np.zeros(60)).train)


def test_an_environment_that_the_sampler_never_draws_is_named_and_a_group_is_not_shown() -> None:
    """Blue rows with weight 0: equal shares of red and blue cannot be drawn, two of four groups
    have nothing to be weighed by."""
    sets = split()
    sets = with_train(
        sets, weight=np.where(sets.train.environment == 1, 0.0, 1 / 30), sampler="reweight"
    )
    with pytest.raises(
        DataError, match="^every training row of environment 'blue' has weight 0 by"
    ):
        loader(sets.train, "per-environment")
    with pytest.raises(
        NeedsError,
        match=(
            "the sampler reweight never draws a row of environment 'blue'; choose another 'sampler'"
        ),
    ):
        run(DeepCORAL(), sets, steps=1)
    found = run(GroupDRO(), sets, steps=2)
    assert found.weights("last")["state/log_q"].exp()[[1, 3]].tolist() == [0, 0]
    assert any("never draws a row: 'dark, blue' and 1 more" in text for text in found.warnings)
    assert not any("training does not show" in text for text in found.warnings)


def test_balanced_gives_groups_equal_mass_and_keeps_the_proportions_inside() -> None:
    group = np.array([0, 0, 0, 1])
    assert row_weights(np.full(4, 0.25), group, "balanced") == pytest.approx(
        [1 / 6, 1 / 6, 1 / 6, 1 / 2]
    )
    assert row_weights(np.array([0.2, 0.1, 0.1, 0.6]), group, "balanced") == pytest.approx(
        [1 / 4, 1 / 8, 1 / 8, 1 / 2]
    )
    assert row_weights(np.full(4, 0.25), group, "epoch") is None
    assert (
        row_weights(np.full(4, 0.25), np.array([0, 0, 3, 3]), "balanced") is None
    )  # even already: permutations
    # A group that the study's sampler leaves out (reweight, outside the test law) stays out.
    assert row_weights(
        np.array([0.5, 0.5, 0.0, 0.0]), np.array([0, 1, 2, 2]), "balanced"
    ) == pytest.approx([0.5, 0.5, 0, 0])


def test_copies_stand_in_every_epoch() -> None:
    rows = loader(batch=63)
    rows.begin(Stage(copies=torch.cat([torch.tensor([4]), torch.ones(59, dtype=torch.int64)])))
    counts = [np.bincount(rows.batch(step, 5).ids, minlength=60) for step in range(5)]
    assert all(count[0] == 4 and (count[1:] == 1).all() for count in counts)


def test_stage_weights_multiply_the_sampler() -> None:
    rows = loader(with_train(split(), weight=np.r_[np.zeros(30), np.full(30, 1 / 30)]).train)
    rows.begin(Stage(weights=torch.cat([torch.ones(59), torch.zeros(1)])))
    assert set(np.concatenate([rows.batch(step, 9).ids for step in range(9)])) <= set(range(30, 59))


def test_base_rows_are_held_once() -> None:
    rows = replace(split().train, rows=np.repeat(np.arange(30), 2))
    base_loader = loader(rows)
    assert len(base_loader._inputs._rows.rows) == 30
    batch = base_loader.batch(0, 1)
    assert torch.allclose(
        batch.x,
        torch.from_numpy(DATA.inputs(batch.ids.numpy() // 2)).permute(0, 3, 1, 2) / 127.5 - 1,
        atol=1e-6,
    )


def test_order_of_draws_is_with_replacement_and_of_permutations_not() -> None:
    members = np.arange(100)
    draws = Order(members, np.full(100, 0.01), 0, "x").take(0, 100)
    assert 50 < len(set(draws)) < 80  # 1 - 1/e of 100
    assert len(set(Order(members, None, 0, "x").take(0, 100))) == 100
    assert np.array_equal(
        Order(members, None, 0, "x").take(30, 50), Order(members, None, 0, "x").take(0, 100)[30:80]
    )


def test_empty_training_set_is_refused() -> None:
    with pytest.raises(DataError, match="no rows"):
        loader(rows_of(DATA, np.arange(0)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pixels_become_numbers_between_minus_one_and_one(dtype: torch.dtype) -> None:
    x = normalised(torch.tensor([0, 51, 255], dtype=torch.uint8).reshape(3, 1, 1, 1), dtype, True)
    assert x.dtype == dtype
    assert x.flatten().tolist() == pytest.approx([-1, -0.6, 1], abs=1e-6)
    tokens = torch.tensor([[3, 4]])
    assert normalised(tokens, dtype, True) is tokens


def noisy(mode: str) -> AttributedDataset:
    settings = (None, {"severity": 1}, {"severity": 5})
    return derive(
        DATA, DerivedAttribute("noise", ("clean", "some", "much"), "gaussian-noise", settings, mode)
    )


def test_fixed_values_render_their_rows_anew_at_each_visit() -> None:
    data = noisy("fixed")
    base = np.arange(60)
    rows = replace(split().train, rows=base * 3 + base % 3)
    training_rows = TrainingRows(rows, data, TrainingSettings(batch=60), 0, "epoch")  # type: ignore[arg-type]
    first, second = (_by_row(training_rows.batch(step, 2)) for step in range(2))
    clean = torch.from_numpy(DATA.inputs(base)).permute(0, 3, 1, 2) / 127.5 - 1
    apart = [
        (first[base % 3 == value] - clean[base % 3 == value]).std().item() for value in range(3)
    ]
    assert apart[0] < 1e-6 and 0.02 < apart[1] < apart[2]
    assert torch.equal(first[::3], second[::3]) and not torch.equal(first[1::3], second[1::3])
    small = TrainingRows(rows, data, TrainingSettings(batch=12), 0, "epoch")  # type: ignore[arg-type]
    batches_read = [small.batch(step, 5) for step in range(5)]
    joined = torch.cat([batch_read.x for batch_read in batches_read])[
        torch.cat([batch_read.ids for batch_read in batches_read]).argsort()
    ]
    assert torch.equal(joined, first)  # a row's noise does not depend on its batch


def test_values_drawn_at_visits_move_the_group() -> None:
    data = noisy("per-visit")
    law = np.tile([0.5, 0.0, 0.5], (60, 1))
    sets = split()
    names = tuple(str(code) for code in range(12))
    rows = replace(
        sets.train, visit_law=law, visit_step=(1, 0), group=sets.train.group * 3, group_names=names
    )
    training_rows = TrainingRows(rows, data, TrainingSettings(batch=60), 0, "epoch")  # type: ignore[arg-type]
    drawn = []
    for step in range(20):
        batch = training_rows.batch(step, 20)
        value = batch.group % 3
        clean = torch.from_numpy(DATA.inputs(batch.ids.numpy())).permute(0, 3, 1, 2) / 127.5 - 1
        apart = (batch.x - clean).abs().amax((1, 2, 3))
        assert torch.equal(apart > 1e-5, value == 2)
        assert torch.equal(batch.group // 3, torch.from_numpy(sets.train.group)[batch.ids])
        drawn.append(value)
    assert set(torch.cat(drawn).tolist()) == {0, 2}
    assert abs((torch.cat(drawn) == 2).double().mean().item() - 0.5) < 0.06
    counts = info_of(replace(sets, train=rows), {"tiny": data}, TrainingSettings()).group_counts  # type: ignore[arg-type]
    assert [count > 0 for count in counts] == [True, False, True] * 4
    run_found = run(
        ERM(), replace(sets, train=rows, evaluation={}, validation={}), data=data, steps=2
    )
    assert run_found.status == "finished"


def visited(
    sampler: str, batch: int, *, dark: float = 0.0, weight: np.ndarray | None = None, seed: int = 0
) -> TrainingRows:
    """60 rows, clean at nine visits in ten and else much, the dark ones much at `dark` more;
    environments are of tint and noise."""
    base = split().train
    much = 0.1 + dark * (base.label == 0)
    rows = replace(
        base,
        visit_law=np.stack([1 - much, 0 * much, much], 1),
        visit_step=(1, 1),
        group=base.group * 3,
        environment=base.environment * 3,
        weight=base.weight if weight is None else weight,
        group_names=tuple(map(str, range(12))),
        environment_names=tuple(map(str, range(6))),
    )
    return TrainingRows(rows, noisy("per-visit"), TrainingSettings(batch=batch), seed, sampler)  # type: ignore[arg-type]


def shown(batch: Batch) -> torch.Tensor:
    """Which rows of a batch have noise in their pixels."""
    clean = torch.from_numpy(DATA.inputs(batch.ids.numpy())).permute(0, 3, 1, 2) / 127.5 - 1
    return (batch.x - clean).abs().amax((1, 2, 3)) > 1e-5


@pytest.mark.parametrize(
    ("batch", "shares"), [(16, [4, 4, 4, 4]), (18, [5, 5, 4, 4]), (4, [1, 1, 1, 1])]
)
def test_every_batch_holds_equal_shares_of_the_environments_that_values_make(
    batch: int, shares: list[int]
) -> None:
    """Two tints, each clean (code 0) or much (2); the middle value is never drawn. Nine rows in ten
    would be clean."""
    training_rows = visited("per-environment", batch)
    for step in range(12):
        batch_found = training_rows.batch(step, 12)
        assert batch_found.environment is not None
        assert np.bincount(batch_found.environment, minlength=6).tolist() == [
            shares[0],
            0,
            shares[1],
            shares[2],
            0,
            shares[3],
        ]
        assert torch.equal(batch_found.environment // 3, batch_found.ids // 2 % 2) and torch.equal(
            batch_found.environment % 3, batch_found.group % 3
        )
        assert torch.equal(shown(batch_found), batch_found.environment % 3 == 2)


def test_an_environment_is_drawn_by_how_likely_its_value_is_for_each_row() -> None:
    """Dark rows are much at 3 visits in 10 and bright ones at 1: three in four of the much are
    dark, 7 in 16 of the clean.

    4,000 rows of each tint and value: three standard deviations are 3 sqrt(1/4 / 4000) = 0.024 at
    most.
    """
    batch = visited("per-environment", 16_000, dark=0.2).batch(0, 1)
    assert batch.environment is not None
    for code, share in {0: 7 / 16, 2: 3 / 4, 3: 7 / 16, 5: 3 / 4}.items():
        assert abs((batch.y[batch.environment == code] == 0).double().mean().item() - share) < 0.024


def test_groups_that_values_make_are_drawn_evenly() -> None:
    """Eight groups of class, tint and noise; without the values four of them would be nine tenths
    of what is seen."""
    for dark in (0.0, 0.2):
        batch = visited("balanced", 16_000, dark=dark).batch(0, 1)
        share = torch.bincount(batch.group, minlength=12).view(4, 3).double() / 16_000
        assert (share[:, [0, 2]] - 1 / 8).abs().max() < 0.01 and share[
            :, 1
        ].sum() == 0  # 3 sqrt(1/8 7/8 / 16000) = 0.008
        assert torch.equal(
            shown(replace(batch, x=batch.x[:60], ids=batch.ids[:60])), batch.group[:60] % 3 == 2
        )


def test_even_groups_of_rows_and_values_by_hand() -> None:
    """Groups 0 and 1 by value: of masses 3/4 and 1/4; a row's weight is what both take of it, its
    law how they share it."""
    weight, law = even_groups(
        np.array([0.5, 0.5]), np.array([0, 0]), np.array([[1.0, 0.0], [0.5, 0.5]]), 1
    )
    assert weight == pytest.approx([2 / 3, 4 / 3]) and law == pytest.approx(
        np.array([[1, 0], [1 / 4, 3 / 4]])
    )
    weight, law = even_groups(
        np.array([1.0, 0.0]), np.array([0, 2]), np.array([[0.2, 0.8], [0.7, 0.3]]), 1
    )
    assert weight == pytest.approx([2, 0]) and law == pytest.approx(
        np.array([[0.5, 0.5], [0.7, 0.3]])
    )


def test_the_weights_of_the_study_hold_within_each_environment_and_group() -> None:
    """Some rows never come, and some twice as often as the others: so it stays under every
    value."""
    weight = np.select([np.arange(60) < 32, np.arange(60) < 44], [0.0, 1.0], 2.0)
    for sampler in ("per-environment", "balanced"):
        batch = visited(sampler, 8_000, weight=weight / weight.sum()).batch(0, 1)
        assert int(batch.ids.min()) == 32
        for value in (0, 2):
            share = (batch.ids[batch.group % 3 == value] >= 44).double().mean().item()
            assert (
                abs(share - 32 / 44) < 0.03
            )  # 12 rows once, 16 twice; 3 sqrt(0.73 0.27 / 4000) = 0.021


def test_environments_that_values_make_are_the_same_from_any_step_and_no_visit_repeats() -> None:
    one, two = visited("per-environment", 16, dark=0.2), visited("per-environment", 16, dark=0.2)
    forward = [one.batch(step, 40) for step in range(40)]
    for batch in forward[::-1][:5]:
        again = two.batch(batch.step, 40)
        assert (
            torch.equal(again.x, batch.x)
            and torch.equal(again.ids, batch.ids)
            and torch.equal(again.group, batch.group)
        )
    assert forward[30].epoch == 30 * 16 // 60  # a row in two orders is one row
    # Orders that are permutations give each row to both of its environments at their first visits:
    # its noise is another one.
    stamp, even = Stamp(), visited("per-environment", 16)
    even._views = (stamp,)
    ids = torch.cat([even.batch(step, 40).ids for step in range(20)])
    keys = np.concatenate([keys_seen for _, keys_seen in stamp.seen])
    assert len(set(keys)) == len(keys) == 320 and len(set(ids.tolist())) == 60


def _by_row(batch: Batch) -> torch.Tensor:
    return batch.x[batch.ids.argsort()]


class Stamp:
    """Writes the low byte of its key into every pixel, and keeps what it was given."""

    def __init__(self) -> None:
        self.seen: list[tuple[torch.Tensor, np.ndarray]] = []

    def __call__(self, x: torch.Tensor, keys: np.ndarray) -> torch.Tensor:
        assert x.dtype == torch.uint8 and keys.dtype == np.uint64 and len(keys) == len(x)
        self.seen.append((x.clone(), keys))
        return torch.zeros_like(x) + torch.from_numpy(
            (keys & np.uint64(255)).astype(np.uint8)
        ).view(-1, 1, 1, 1)


def test_views_are_drawn_by_row_visit_and_view() -> None:
    first, second = Stamp(), Stamp()
    rows = rows_of(DATA, np.arange(6))

    def training_rows(seed: int = 0) -> TrainingRows:
        return TrainingRows(
            rows, DATA, TrainingSettings(batch=12), seed, "epoch", (first, None, second)
        )  # type: ignore[arg-type]

    batch = training_rows().batch(0, 5)
    assert len(batch.views) == 2
    (view_seen, keys), (_, other_keys) = first.seen[0], second.seen[0]
    assert np.array_equal(view_seen.permute(0, 2, 3, 1).numpy(), DATA.inputs(batch.ids.numpy()))
    assert torch.allclose(
        batch.x[:, 0, 0, 0],
        torch.from_numpy((keys & np.uint64(255)).astype(np.float32)) / 127.5 - 1,
        atol=1e-6,
    )
    assert torch.equal(batch.views[0], training_rows().batch(0, 5).views[0])
    assert torch.allclose(
        batch.views[0],
        torch.from_numpy(DATA.inputs(batch.ids.numpy())).permute(0, 3, 1, 2) / 127.5 - 1,
        atol=1e-6,
    )
    assert batch.views[1].is_contiguous(memory_format=torch.channels_last)
    # Six rows, a batch of twelve: two visits of each, and two random views of each visit.
    assert len(set(keys) | set(other_keys)) == 24
    loader_of_more = TrainingRows(rows, DATA, TrainingSettings(batch=4), 0, "epoch", (first,))  # type: ignore[arg-type]
    first.seen.clear()
    batches_read = [loader_of_more.batch(step, 5).ids.numpy() for step in range(3)]
    again = dict(
        zip(
            zip(np.concatenate(batches_read), np.repeat([0, 1], 6), strict=True),
            np.concatenate([k for _, k in first.seen]),
            strict=True,
        )
    )
    for row, visit, key in zip(batch.ids.numpy(), np.repeat([0, 1], 6), keys, strict=True):
        assert again[row, visit] == key  # the batch that a visit falls into does not count
    first.seen.clear()
    training_rows(seed=1).batch(0, 5)
    assert not set(first.seen[0][1]) & set(keys)


def test_views_leave_added_examples_alone() -> None:
    stamp = Stamp()
    rows = TrainingRows(
        rows_of(DATA, np.arange(6)), DATA, TrainingSettings(batch=8), 0, "epoch", (stamp, None)
    )  # type: ignore[arg-type]
    extra = Examples(torch.full((2, 3, 8, 8), 0.5), torch.tensor([0, 1]), torch.tensor([0, 1]))
    rows.begin(Stage(extra=extra))
    batch = rows.batch(0, 5)
    added = (batch.x == 0.5).flatten(1).all(1)
    assert int(added.sum()) == 2 and torch.equal(added, (batch.views[0] == 0.5).flatten(1).all(1))
