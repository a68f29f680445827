"""Splits: roles disjoint, exact counts, no row twice, replay, and another run seed changes training
and validation rows only."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.shifts.worlds import cell_counts, cells_of, jeon, plan, world

from crosswind.core.errors import InputError
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import NormalForm, parse_shift
from crosswind.shifts.draw import DatasetSize, parse_draw, parse_size
from crosswind.shifts.split import (
    Roles,
    SetPlan,
    Split,
    cell_index,
    make_split,
    parse_sampler,
    plan_counts,
)
from crosswind.shifts.split.assign_roles import deal_of
from crosswind.shifts.split.cell_counts import Fields, allot
from crosswind.shifts.split.index import sorted_rows

SHIFTS = st.sampled_from(["uniform", "SC", "LDD", "UDS", "SC+LDD", "SC+UDS", "LDD+UDS"])


@st.composite
def studies(draw: st.DrawFn) -> tuple[AttributedDataset, Any, int]:
    """An uneven table, sometimes with units or an official split, and a plan over it."""
    sizes = draw(st.tuples(st.integers(2, 4), st.integers(2, 3), st.integers(2, 3)))
    seed = draw(st.integers(0, 50))
    generator = np.random.default_rng(seed)
    counts = generator.integers(draw(st.sampled_from([0, 4])), 14, sizes)
    assume(counts.sum() > 30)
    official = draw(st.sampled_from([None, None, 5]))
    data = world(
        sizes, counts, official, ids=generator.permutation(10 * counts.sum())[: counts.sum()]
    )
    roles = Roles(
        draw(st.sampled_from([2, 0.25])),
        draw(st.sampled_from([1, 0.2, 0.5])),
        None if official is None else {"column": "split", "train": "train", "test": "test"},
    )
    if official is None and draw(st.booleans()):
        units = generator.integers(
            0, max(2, data.n_base // draw(st.sampled_from([2, 6]))), data.n_base
        )
        data = AttributedDataset(data.name, data.table, ids=data.ids, units=units)
    size = draw(st.sampled_from(["all", 1, 2.5, {"total": 9}]))
    return data, plan(jeon(draw(SHIFTS)), size, 2, roles, split_seed=seed), draw(st.integers(0, 9))


def split_or_skip(data: AttributedDataset, study: Any, seed: int) -> Split:
    try:
        return make_split({"d": data}, "d", study, seed)
    except InputError:
        assume(False)
        raise


def all_rows(split: Split) -> dict[str, np.ndarray]:
    return {
        "train": split.train.rows,
        **{name: rows.rows for name, rows in {**split.validation, **split.evaluation}.items()},
    }


@pytest.mark.slow
@settings(max_examples=120)
@given(studies())
def test_roles_are_disjoint_and_no_row_comes_twice(
    study: tuple[AttributedDataset, Any, int],
) -> None:
    data, split_plan, seed = study
    rows = all_rows(split_or_skip(data, split_plan, seed))
    together = np.concatenate(list(rows.values()))
    assert len(np.unique(together)) == len(together)
    if data.units is not None:
        owners: dict[int, str] = {}
        for name, row_numbers in rows.items():
            for unit in np.unique(data.units[row_numbers]):
                assert owners.setdefault(int(unit), name) == name


@pytest.mark.slow
@settings(max_examples=80)
@given(studies())
def test_the_same_seeds_replay_and_a_new_table_index_changes_nothing(
    study: tuple[AttributedDataset, Any, int],
) -> None:
    data, split_plan, seed = study
    first = split_or_skip(data, split_plan, seed)
    fresh = AttributedDataset(
        data.name, data.table, ids=data.ids, units=data.units
    )  # nothing kept from before
    again = make_split({"d": fresh}, "d", split_plan, seed)
    for name, rows in all_rows(first).items():
        assert (rows == all_rows(again)[name]).all()
    assert first.report == again.report
    assert (first.train.label == again.train.label).all()


@pytest.mark.slow
@settings(max_examples=80)
@given(studies())
def test_another_run_seed_changes_training_and_validation_rows_alone(
    study: tuple[AttributedDataset, Any, int],
) -> None:
    data, split_plan, seed = study
    first, second = split_or_skip(data, split_plan, seed), split_or_skip(data, split_plan, seed + 1)
    assert (first.evaluation["test"].rows == second.evaluation["test"].rows).all()
    assert len(first.train) == len(second.train)
    rows_seen = set(first.train.rows) | set().union(
        *(set(rows.rows) for rows in first.validation.values())
    )
    assert not rows_seen & set(second.evaluation["test"].rows)


@pytest.mark.slow
@settings(max_examples=80)
@given(studies())
def test_the_report_counts_what_the_rows_are(study: tuple[AttributedDataset, Any, int]) -> None:
    data, split_plan, seed = study
    split = split_or_skip(data, split_plan, seed)
    report = split.report["sets"]
    for name, rows in (("train", split.train), ("test", split.evaluation["test"])):
        counts = cell_counts(data, rows, ("y", "a", "b"))
        realised = {cell: entry["realised"] for cell, entry in report[name]["cells"].items()}
        for cell, number in np.ndenumerate(counts):
            assert realised.get(f"y=y{cell[0]}, a=a{cell[1]}, b=b{cell[2]}", 0) == number
        table = data.table
        assert (rows.true_label == table.column("y")[rows.rows]).all()
        words = [f"y={table.attribute('y').values[table.column('y')[row]]}" for row in rows.rows]
        assert all(
            rows.group_names[group].startswith(word)
            for group, word in zip(rows.group, words, strict=True)
        )
    counted = plan_counts({"d": data}, "d", split_plan, seed)
    assert counted.train_rows == len(split.train)
    assert counted.test_rows == len(split.evaluation["test"])
    assert counted.validation_rows == sum(len(rows) for rows in split.validation.values())


def test_roles_do_not_depend_on_shift_run_seed_or_order_of_rows() -> None:
    data = world((2, 3), 20)
    turned = np.random.default_rng(0).permutation(data.n_base)
    shuffled = AttributedDataset("t", data.table.rows(turned), ids=data.ids[turned])
    first = make_split({"d": data}, "d", plan(None, "all", 1), 0).evaluation["test"]
    other_order = make_split({"d": shuffled}, "d", plan(jeon("SC"), "all", 1), 5).evaluation["test"]
    assert set(data.ids[first.rows]) == set(shuffled.ids[other_order.rows])
    moved = make_split({"d": data}, "d", plan(None, "all", 1, split_seed=1), 0).evaluation["test"]
    assert set(moved.rows) != set(first.rows)


def test_a_row_more_moves_at_most_one_row_of_its_cell_between_roles() -> None:
    data = world((2, 2), 20)
    roles = Roles(5, 3)
    first = make_split({"d": data}, "d", plan(None, "all", 1, roles), 0)
    fewer = make_split(
        {"d": AttributedDataset("f", data.table.rows(np.arange(1, 80)), ids=data.ids[1:])},
        "d",
        plan(None, "all", 1, roles),
        0,
    )
    before, after = (
        set(data.ids[first.evaluation["test"].rows]),
        set(data.ids[1:][fewer.evaluation["test"].rows]),
    )
    assert len(before - after) <= 1
    assert len(after - before) <= 1


@pytest.mark.slow
def test_run_seeds_choose_among_the_training_rows_evenly() -> None:
    """40 training rows a cell, 10 drawn, 400 seeds: each row 100 times, standard deviation 8.7."""
    data = world((2, 2), 60)
    study = plan(None, 10, 1, Roles(10, 10))
    times = np.zeros(240)
    for seed in range(400):
        times[make_split({"d": data}, "d", study, seed).train.rows] += 1
    drawn = times[times > 0]
    assert len(drawn) == 160
    assert drawn.min() > 60
    assert drawn.max() < 140


def test_draws_nest_as_the_training_set_grows() -> None:
    data = world((2, 2), 60)
    small = make_split({"d": data}, "d", plan(None, 5, 1), 3).train.rows
    large = make_split({"d": data}, "d", plan(None, 15, 1), 3).train.rows
    assert set(small) < set(large)


def test_a_test_share_is_spread_so_that_its_total_is_right() -> None:
    data = world((3, 3), 3)  # 27 rows, a fifth of 3 is 0.6 a cell: 5.4 in all, 5
    split = make_split({"d": data}, "d", plan(None, "all", 1, Roles(0.2, 0.2)), 0)
    counts = cell_counts(data, split.evaluation["test"], ("y", "a"))
    assert counts.sum() == 5
    assert counts.max() == 1
    assert set(counts.sum(axis=0)) | set(counts.sum(axis=1)) <= {1, 2}


def test_one_row_stays_for_training() -> None:
    data = world((2, 2), np.array([[1, 2], [3, 9]]))
    split = make_split({"d": data}, "d", plan(None, "all", 1, Roles(0, 0.9), sets={}), 0)
    assert cell_counts(data, split.train, ("y", "a")).tolist() == [[1, 1], [1, 1]]


def test_base_draw_of_a_short_cell_gives_what_it_has() -> None:
    data = world((2, 2), np.array([[3, 10], [10, 10]]))
    split = make_split({"d": data}, "d", plan(None, 8, 1, Roles(0, 0), sets={}), 0)
    assert cell_counts(data, split.train, ("y", "a")).tolist() == [[3, 8], [8, 8]]
    assert split.report["short"] == {"train": {"y=y0, a=a0": {"wanted": 8.0, "got": 3}}}
    assert split.warnings == ("train: y=y0, a=a0 has 3 of the 8 rows that were asked for",)


def test_total_draw_spreads_what_a_short_cell_lacks_in_proportion() -> None:
    """32 rows over 4 cells: 8 each; one has 2, the other three give 10 each."""
    data = world((2, 2), np.array([[2, 20], [20, 20]]))
    split = make_split({"d": data}, "d", plan(None, {"total": 32}, 1, Roles(0, 0), sets={}), 0)
    assert cell_counts(data, split.train, ("y", "a")).tolist() == [[2, 10], [10, 10]]
    assert split.report["short"]["train"] == {"y=y0, a=a0": {"wanted": 8.0, "got": 2}}


def test_weights_of_any_size_divide_a_total() -> None:
    """Only their proportions count: the smallest number there is does as well as 1."""
    data = world((2, 2), np.array([[2, 20], [20, 20]]))
    tiny = {"type": "low-data-drift", "attribute": "a", "ratio": 1, "high": 5e-324}
    split = make_split({"d": data}, "d", plan(tiny, {"total": 32}, 1, Roles(0, 0), sets={}), 0)
    assert cell_counts(data, split.train, ("y", "a")).tolist() == [[2, 10], [10, 10]]


def test_the_draw_all_takes_lighter_cells_in_proportion() -> None:
    data = world((2, 2), 30)
    split = make_split(
        {"d": data},
        "d",
        plan(
            {"type": "low-data-drift", "attribute": "a", "ratio": "1/3", "high": 3},
            "all",
            1,
            Roles(0, 0),
            sets={},
        ),
        0,
    )
    assert cell_counts(data, split.train, ("y", "a")).tolist() == [[30, 10], [30, 10]]


def test_a_total_includes_the_supplements() -> None:
    """m + ceil(m / 100): 1080 + 11 = 1091; 102 is reached by no m (100 + 1, 101 + 2): 101 + 1."""
    data = world((2, 2), 2000)
    for total, extra in ((1091, 11), (101, 1), (102, 1), (103, 2)):
        rows = make_split(
            {"d": data}, "d", plan(jeon("SC"), {"total": total}, 1, Roles(5, 0), sets={}), 0
        ).train
        assert (len(rows), int((rows.origin > 0).sum())) == (total, extra)


def test_counterexamples_run_out_by_name() -> None:
    data = world((2, 2), np.array([[50, 1], [1, 50]]))
    spec = {"type": "spurious-correlation", "attribute": "a", "counterexamples": 0.1}
    split = make_split({"d": data}, "d", plan(spec, 40, 1, Roles(0, 0), sets={}), 0)
    assert len(split.train) == 80 + 2
    assert split.warnings == (
        "train: 8 counterexamples of a are asked for, and 2 rows are left for them",
    )


def test_a_combination_that_leaves_no_counterexample_says_that_the_tie_is_perfect() -> None:
    data = world((2, 2, 2), np.array([[[50, 50], [0, 9]], [[0, 9], [50, 50]]]))
    ties = [{"type": "spurious-correlation", "attribute": "a", "counterexamples": 0.1}]
    only = {"type": "only", "attribute": "b", "values": ["b0"]}
    split = make_split({"d": data}, "d", plan([*ties, only], 40, 2, Roles(0, 0), sets={}), 0)
    assert len(split.train) == 80
    assert (
        "train: 8 counterexamples of a are asked for, and no row is left for them: a tells y in every"
        " row of this set; leave it out of this combination, or write counterexamples: 0 where that"
        " is meant"
    ) in split.warnings
    contrary = {**ties[0], "matching": {"y0": "a0", "y1": "a1"}, "counterexamples": 0}
    split = make_split({"d": data}, "d", plan([*ties, contrary], 40, 2, Roles(0, 0), sets={}), 0)
    assert any("the shifts together leave no cell for them" in text for text in split.warnings)


def test_counterexamples_from_all_cells_never_repeat_a_row() -> None:
    data = world((2, 2), 20)
    spec = {
        "type": "spurious-correlation",
        "attribute": "a",
        "counterexamples": 30,
        "counterexamples_from": "uniform",
    }
    rows = make_split({"d": data}, "d", plan(spec, 15, 1, Roles(0, 0), sets={}), 0).train
    assert len(np.unique(rows.rows)) == len(rows) == 60
    matched = rows.true_label == data.table.column("a")[rows.rows]
    assert (rows.origin[~matched] == 1).all()
    assert (matched & (rows.origin == 1)).any()


def test_sizes_are_a_condition() -> None:
    data = world((2, 2), 100)
    split = make_split({"d": data}, "d", plan(jeon("SC"), 40, 1, dataset_size=DatasetSize(50)), 0)
    assert len(split.train) == 50


def test_two_supplements_keep_apart() -> None:
    data = world((2, 2, 2), 30)
    spec = [
        {"type": "spurious-correlation", "attribute": "a", "counterexamples": 10},
        {"type": "low-data-drift", "attribute": "b", "count": 6},
    ]
    rows = make_split({"d": data}, "d", plan(spec, 10, 2, Roles(5, 0), sets={}), 0).train
    assert np.bincount(rows.origin).tolist() in ([20, 10, 6], [20, 6, 10])
    assert len(np.unique(rows.rows)) == 36


def test_named_sets_by_law() -> None:
    data = world((2, 3), 40)
    only_seen, unseen = (
        {"type": "only", "attribute": "a", "values": values} for values in (["a0", "a1"], "last")
    )
    sets = {
        "validation": SetPlan("validation", "train"),
        "ood-validation": SetPlan("validation"),
        "test": SetPlan("test"),
        "seen": SetPlan("test", parse_shift(only_seen)),
        "unseen": SetPlan("test", parse_shift(unseen), parse_draw({"total": 6})),
        "trained-on": SetPlan("train", "train"),
    }
    split = make_split(
        {"d": data},
        "d",
        plan({"type": "unseen-data", "attribute": "a"}, 10, 1, Roles(6, 0.2), sets=sets),
        4,
    )
    assert set(split.validation) == {"validation", "ood-validation"}
    assert set(split.evaluation) == {"test", "seen", "unseen", "trained-on"}
    assert cell_counts(data, split.evaluation["seen"], ("y", "a")).tolist() == [[6, 6, 0]] * 2
    assert cell_counts(data, split.evaluation["unseen"], ("y", "a")).tolist() == [[0, 0, 3]] * 2
    assert set(split.evaluation["seen"].rows) < set(split.evaluation["test"].rows)
    assert (split.evaluation["trained-on"].rows == split.train.rows).all()
    assert cell_counts(data, split.validation["validation"], ("y", "a"))[:, 2].sum() == 0
    assert cell_counts(data, split.validation["ood-validation"], ("y", "a")).min() > 0
    assert (
        split.evaluation["unseen"].group_names
        == split.train.group_names
        == tuple(f"y=y{y}, a=a{a}" for y in range(2) for a in range(3))
    )


def test_laws_may_name_attributes_that_cut_no_cells() -> None:
    data = world((2, 2, 3), 20)
    sets = {
        "b0": SetPlan("test", parse_shift({"type": "only", "attribute": "b", "values": "b0"})),
        "test": SetPlan("test"),
    }
    split = make_split({"d": data}, "d", plan(None, 4, 1, Roles(0.5, 0.2), sets=sets), 0)
    of_b0 = split.evaluation["b0"]
    assert (data.table.column("b")[of_b0.rows] == 0).all()
    all_test = split.evaluation["test"]
    assert set(of_b0.rows) == {row for row in all_test.rows if data.table.column("b")[row] == 0}
    assert of_b0.group_names == all_test.group_names


def test_another_source_is_a_target_with_a_map_of_classes() -> None:
    data = world((3, 2), 20)
    other_dataset = AttributedDataset(
        "other",
        AttributeTable(
            (Attribute("y", ("zero", "y1", "two", "nine")),), np.repeat(np.arange(4), 5)[None]
        ),
    )
    sets = {
        "test": SetPlan("test"),
        "target": SetPlan("test", source="o", labels={"zero": "y0", "two": "y2", "nine": None}),
    }
    split = make_split({"d": data, "o": other_dataset}, "d", plan(jeon("SC"), 4, 1, sets=sets), 0)
    target = split.evaluation["target"]
    assert (target.source, len(target)) == ("o", 15)
    assert target.label.tolist() == other_dataset.table.column("y")[target.rows].tolist()
    assert target.group_names == ("y=y0", "y=y1", "y=y2")
    sets = {
        "target-validation": SetPlan("validation", source="o", labels=sets["target"].labels),
        **sets,
    }
    split = make_split({"d": data, "o": other_dataset}, "d", plan(jeon("SC"), 4, 1, sets=sets), 0)
    assert len(split.validation["target-validation"]) + len(split.evaluation["target"]) == 15
    assert not set(split.validation["target-validation"].rows) & set(
        split.evaluation["target"].rows
    )
    with pytest.raises(InputError, match="sets.target.labels: says nothing of class 'zero'"):
        make_split(
            {"d": data, "o": other_dataset},
            "d",
            plan(sets={"target": SetPlan("test", source="o")}, n_attributes=1),
            0,
        )


def test_the_official_split_wins() -> None:
    data = world((2, 2), 10, official=6)
    roles = Roles(3, 0.2, {"column": "split", "train": "train", "test": "test"})
    sets = {
        "test": SetPlan("test"),
        "marked": SetPlan(
            "test", parse_shift({"type": "official", "column": "split", "values": "test"})
        ),
    }
    split = make_split({"d": data}, "d", plan(None, "all", 1, roles, sets=sets), 0)
    assert (data.table.column("split")[split.train.rows] == 0).all()
    assert len(split.train) == 4 * (6 - 2)
    assert (data.table.column("split")[split.evaluation["test"].rows] == 1).all()
    assert len(split.evaluation["test"]) == len(split.evaluation["marked"]) == 12
    official_roles = Roles(official={"column": "split", "train": "train", "test": "test"})
    assert (
        len(
            make_split({"d": data}, "d", plan(None, "all", 1, official_roles), 0).evaluation["test"]
        )
        == 16
    )
    given_roles = Roles(
        official={"column": "split", "train": "train", "test": [], "validation": "test"}
    )
    with pytest.raises(InputError, match=r"roles.official.test: names no value"):
        make_split({"d": data}, "d", plan(None, "all", 1, given_roles), 0)


def test_a_unit_in_two_parts_of_the_official_split_is_refused() -> None:
    data = world((2, 2), 10, official=6)
    mixed = AttributedDataset("m", data.table, units=np.arange(40) // 10)
    with pytest.raises(InputError, match="unit 0 of m is in two parts of the official split"):
        make_split(
            {"d": mixed},
            "d",
            plan(
                None,
                "all",
                1,
                Roles(official={"column": "split", "train": "train", "test": "test"}),
            ),
            0,
        )


def test_a_unit_may_have_rows_of_no_part_of_the_official_split() -> None:
    """Patients 0 to 3 train and have rows in a part that the study does not name, patients 4 and 5
    are of the test part."""
    patient, row = np.divmod(np.arange(60), 10)
    part_code = np.where(patient >= 4, 2, row % 2)
    attributes = (
        Attribute("y", ("y0", "y1")),
        Attribute("a", ("a0",)),
        Attribute("split", ("train", "id_val", "test")),
    )
    table = AttributeTable(attributes, np.stack([row // 2 % 2, 0 * row, part_code]))
    data = AttributedDataset("m", table, units=patient)
    named = Roles(official={"column": "split", "train": "train", "test": "test"}, validation=0.25)
    sets = {"validation": SetPlan("validation"), "test": SetPlan("test")}
    split = make_split({"d": data}, "d", plan(None, "all", 1, named, sets=sets), 0)
    validation, test = split.validation["validation"].rows, split.evaluation["test"].rows
    rows = np.concatenate([split.train.rows, validation])
    assert (
        (part_code[rows] == 0).all()
        and (part_code[test] == 2).all()
        and len(test)
        and len(validation)
    )
    assert not set(patient[split.train.rows]) & set(patient[validation])
    official_roles = Roles(
        official={"column": "split", "train": "train", "validation": "id_val", "test": "test"}
    )
    with pytest.raises(
        InputError,
        match=(
            "unit 0 of m is in two parts of the official split; a source whose option unit is none"
        ),
    ):
        make_split({"d": data}, "d", plan(None, "all", 1, official_roles, sets=sets), 0)


def test_toys_as_units_give_whole_toys() -> None:
    """10 toys a class, each under 6 angles: 5 rows a cell for testing are 5 toys a class, with all
    their angles."""
    label, toy, angle = (
        axis.ravel()
        for axis in np.meshgrid(np.arange(2), np.arange(10), np.arange(6), indexing="ij")
    )
    attributes = (Attribute("y", ("y0", "y1")), Attribute("a", tuple(f"a{i}" for i in range(6))))
    data = AttributedDataset(
        "toys", AttributeTable(attributes, np.stack([label, angle])), units=label * 10 + toy
    )
    split = make_split({"d": data}, "d", plan(None, "all", 1, Roles(5, 0.2)), 0)
    assert cell_counts(data, split.evaluation["test"], ("y", "a")).tolist() == [[5] * 6] * 2
    assert cell_counts(data, split.train, ("y", "a")).tolist() == [[4] * 6] * 2


def test_groups_and_environments_follow_the_shift() -> None:
    data = world((2, 2, 3), 20)

    def names(spec: Any, **options: Any) -> tuple[str, int]:
        train = make_split({"d": data}, "d", plan(spec, 4, 2, **options), 0).train
        return train.environment_names[0], len(train.group_names)

    assert names(jeon("SC")) == ("a=a0", 4)
    assert names(jeon("LDD+UDS")) == ("a=a0, b=b0", 12)
    assert names({"type": "unseen-data", "attribute": "a"}) == (
        "a=a0, b=b0",
        12,
    )  # a has one value left: all attributes
    assert names(jeon("SC"), groups=("b",), environments=()) == ("all", 6)
    with pytest.raises(InputError, match="groups: unknown attribute of the study 'y'"):
        names(None, groups=("y",))


def test_samplers() -> None:
    data = world((2, 2), np.array([[200, 40], [40, 200]]))
    spec = {"type": "spurious-correlation", "attribute": "a", "counterexamples": 0.2}

    def train(sampler: Any, **options: Any) -> Any:
        return make_split(
            {"d": data}, "d", plan(spec, 50, 1, Roles(10, 0), sampler=sampler, **options), 0
        ).train

    uniform, reweight, balanced, mixture = (
        train(name) for name in ("uniform", "reweight", "balanced", {"mixture": 0.5})
    )
    for rows in (uniform, reweight, balanced, mixture):
        assert rows.weight.sum() == pytest.approx(1)
    assert np.bincount(balanced.group, balanced.weight) == pytest.approx([0.25] * 4)
    assert np.bincount(reweight.group, reweight.weight) == pytest.approx([0.25] * 4)
    assert mixture.weight[mixture.origin == 1].sum() == pytest.approx(0.5)
    assert np.ptp(uniform.weight) == 0
    only = {
        "test": SetPlan("test", parse_shift({"type": "only", "attribute": "a", "values": "a0"}))
    }
    assert np.bincount(
        train("reweight", sets=only).group, train("reweight", sets=only).weight, 4
    ) == pytest.approx([0.5, 0, 0.5, 0])
    with pytest.raises(InputError, match="sampler: a mixture needs a shift with a supplement"):
        make_split({"d": data}, "d", plan(None, 5, 1, sampler={"mixture": 0.5}), 0)
    with pytest.raises(InputError, match="sampler: reweight needs a set of role test"):
        train("reweight", sets={})


ONLY_A0 = {"type": "only", "attribute": "a", "values": "a0"}
ONLY_COLOUR = {"type": "only", "attribute": "colour", "values": 1}
MANY = {"type": "spurious-correlation", "attribute": "a", "counterexamples": 99}
ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"roles": Roles(test=1000)}, "roles: leave no row to train on: test and validation take all"),
    ({"draw": {"total": 1000}}, "draw: asks for 1000 rows for the training set, of 52"),
    (
        {"draw": 40},
        "draw: asks for 240 rows for the training set, 40 of each cell, of 52 that there are",
    ),
    ({"draw": {"total": 5}, "dataset_size": parse_size(500)}, "dataset_size: asks for 500 rows"),
    (
        {"spec": [ONLY_A0, {"type": "unseen-data", "attribute": "a", "unseen": "a0"}]},
        "shift: leaves no row for the training set",
    ),
    (
        {"spec": {"type": "unseen-data", "attribute": "b"}},
        "shift.attribute: unknown attribute of the study 'b' (valid: y, a)",
    ),
    (
        {"spec": MANY, "draw": {"total": 20}},
        "shift: asks for 99 counterexamples of a, and the training set has 20 rows in all",
    ),
    (
        {"sets": {"test": SetPlan("test", draw=parse_draw({"total": 99}))}},
        "sets.test.draw: asks for 99 rows for set 'test', of 14",
    ),
    (
        {"sets": {"x": SetPlan("test", source="nowhere")}},
        "sets.x.source: unknown data set 'nowhere' (valid: d)",
    ),
    (
        {"sets": {"x": SetPlan("test", parse_shift(ONLY_COLOUR))}},
        "sets.x.law: unknown attribute of world 'colour'",
    ),
    ({"sets": {"train": SetPlan("test")}}, "sets.train: the name is that of the training set"),
    (
        {"sets": {"x": SetPlan("test", "trian")}},
        "sets.x.law: unknown law 'trian', did you mean 'train'",
    ),
    ({"sets": {"x": SetPlan("tset")}}, "sets.x.role: unknown role 'tset', did you mean 'test'"),
    ({"roles": Roles(0, 0.2)}, "roles.test: leaves no test row for set 'test'"),
]


@pytest.mark.parametrize(("changes", "message"), ERRORS, ids=[message for _, message in ERRORS])
def test_what_cannot_be_drawn_is_refused_in_one_sentence(
    changes: dict[str, Any], message: str
) -> None:
    changes = dict(changes)
    data = world((2, 3), 14, name="world")
    roles = changes.pop("roles", Roles(1 / 6, 0.2))
    for make in (make_split, plan_counts):
        with pytest.raises(InputError) as caught:
            make(
                {"d": data},
                "d",
                plan(
                    changes.get("spec"),
                    changes.get("draw", 2),
                    1,
                    roles,
                    **{key: value for key, value in changes.items() if key not in ("spec", "draw")},
                ),
                0,
            )
        assert str(caught.value).startswith(message), str(caught.value)


def _roles(spec: dict[str, Any]) -> Roles:
    return Roles(**spec)


PARSERS: list[tuple[Any, Any, str]] = [
    (parse_draw, {"base": 0}, "draw.base: must be a number above 0"),
    (parse_draw, {"total": 2.5}, "draw.total: must be a whole number of rows"),
    (parse_draw, {"rows": 2}, "draw: must be rows a cell"),
    (parse_draw, "every", "draw: must be rows a cell"),
    (parse_draw, True, "draw: must be rows a cell"),
    (parse_draw, -1, "draw: must be a number of at least 0"),
    (parse_size, 0, "dataset_size: must be a whole number"),
    (_roles, {"test": 1.5}, "roles.test: must be a number in [0, 1]"),
    (_roles, {"test": -2}, "roles.test: must be at least 0 rows a cell"),
    (_roles, {"official": {"column": "split"}}, "roles.official.train: an official split needs"),
    (_roles, {"official": {"colum": "split"}}, "roles.official.colum: unknown setting"),
    (parse_sampler, "balance", "sampler: unknown sampler 'balance', did you mean 'balanced'"),
    (parse_sampler, "mixture", "sampler: must be a sampler, a mixture with its mass"),
    (parse_sampler, {"mixture": 2}, "sampler.mixture: must be a number in [0, 1]"),
]


@pytest.mark.parametrize(
    ("parse", "spec", "message"), PARSERS, ids=[message for _, _, message in PARSERS]
)
def test_bad_plain_values_are_refused(parse: Any, spec: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(spec)
    assert str(caught.value).startswith(message), str(caught.value)


def test_test_rows_do_not_depend_on_which_run_is_the_first() -> None:
    sets = {"test": SetPlan("test", draw=parse_draw({"total": 7}))}
    study = plan(jeon("SC"), 3, 1, Roles(5, 0.2), sets=sets)
    first, second = (make_split({"d": world((2, 3), 20)}, "d", study, seed) for seed in (0, 1))
    assert (first.evaluation["test"].rows == second.evaluation["test"].rows).all()
    assert (first.train.rows != second.train.rows).any()


def test_a_supplement_takes_only_what_the_one_before_left() -> None:
    """One row in the region of both: the first has it, the second has none."""
    data = world((2, 2), np.array([[9, 1], [9, 9]]))
    twice = [
        {"type": "low-data-drift", "attribute": "a", "count": 3},
        {"type": "only", "attribute": "y", "values": "y0"},
    ]
    form = parse_shift(twice).normal_form(cells_of(2, 2))
    both = NormalForm(form.shape, form.factors, form.supplements * 2)
    pool = deal_of(
        cell_index(data, "y", ("a",)),
        data,
        Roles(0, 0),
        0,
        frozenset({"test", "validation", "train"}),
    ).pool("train")
    allotment = allot(both, pool, "rows", parse_draw(2), 0, Fields())
    assert allotment.counts.tolist() == [[2, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert allotment.warnings == [
        "3 rows of a a1 are asked for, and 1 row is left for them",
        "3 rows of a a1 are asked for, and no row is left for them: training never shows a a1",
    ]


def test_a_unit_over_several_cells_goes_where_its_lowest_cell_sends_it() -> None:
    """Four units have a row in both cells, four only in the second; one unit a home cell is tested:
    1 row and 1 + 1 rows."""
    attributes = (Attribute("y", ("y0",)), Attribute("a", ("a0", "a1")))
    codes = np.array([[0] * 12, [0] * 4 + [1] * 8])
    data = AttributedDataset(
        "units",
        AttributeTable(attributes, codes),
        units=np.array([0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7]),
    )
    dealt = plan(None, "all", 1, Roles(1, 0))
    split = make_split({"d": data}, "d", dealt, 0)
    assert not plan_counts({"d": data}, "d", dealt).fills
    assert cell_counts(data, split.evaluation["test"], ("a",)).tolist() == [1, 2]
    assert cell_counts(data, split.train, ("a",)).tolist() == [3, 6]


def test_a_cell_in_which_no_unit_is_at_home_gets_its_quota_too() -> None:
    """Ten pairs have a row in each cell, and the lower one is home; of the second cell's other rows
    there are none. A third cell lies beside the second alone."""
    attributes = (Attribute("y", ("y0",)), Attribute("a", ("a0", "a1", "a2")))
    codes = np.array([[0] * 40, [0, 1] * 10 + [0, 2] * 10])
    data = AttributedDataset("pairs", AttributeTable(attributes, codes), units=np.arange(40) // 2)
    for split_seed in range(5):
        four = dataclasses.replace(plan(None, "all", 1, Roles(4, 0)), split_seed=split_seed)
        split = make_split({"d": data}, "d", four, 0)
        assert plan_counts({"d": data}, "d", four).fills
        of_test = cell_counts(data, split.evaluation["test"], ("a",))
        assert of_test[1] >= 4 and of_test[2] >= 4 and of_test[0] == of_test[1] + of_test[2]
        tested = set((split.evaluation["test"].rows // 2).tolist())
        trained = set((split.train.rows // 2).tolist())
        assert not tested & trained and len(tested | trained) == 20


def test_rows_sort_by_cell_and_whole_hash_even_where_leading_bits_agree() -> None:
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 3, 500).astype(np.uint16)
    hashes = generator.integers(0, 1 << 8, 500).astype(np.uint64) | (
        generator.integers(0, 3, 500).astype(np.uint64) << np.uint64(60)
    )
    sorted_by_hand = sorted(range(500), key=lambda row: (codes[row], hashes[row], row))
    assert sorted_rows(codes, 3, hashes).tolist() == sorted_by_hand
    large_codes = codes.astype(np.uint64) << np.uint64(45)
    assert sorted_rows(large_codes, 1 << 47, hashes).tolist() == sorted_by_hand


@pytest.mark.parametrize("hidden", ["a0", "a1", "a2"])
def test_the_unseen_law_is_what_each_shift_leaves_out(hidden: str) -> None:
    data = world((2, 3, 2), 10)
    sets = {
        "validation": SetPlan("validation", "train"),
        "target": SetPlan("test", "unseen"),
        "known": SetPlan("test", "train"),
    }
    split_plan = plan(
        {"type": "unseen-data", "attribute": "a", "unseen": hidden}, roles=Roles(4, 0.2), sets=sets
    )
    split = make_split({"d": data}, "d", split_plan, 0)
    target, known_rows = (split.evaluation[name].rows for name in ("target", "known"))
    values = np.array(data.attribute("a").values)[data.table.column("a")]
    assert set(values[target]) == {hidden} and len(target) == 2 * 2 * 4
    assert hidden not in set(values[known_rows]) and len(known_rows) == 2 * 2 * 2 * 4
    counted = plan_counts({"d": data}, "d", split_plan)
    assert counted.set_rows == {
        "validation": len(split.validation["validation"].rows),
        "target": 16,
        "known": 32,
    }
    assert counted.test_cells.sum() == 8  # reweighting looks at rows that can be trained on


def test_counterexamples_are_not_unseen() -> None:
    data = world((2, 2), 40)
    sets = {"target": SetPlan("test", "unseen")}
    shift = {"type": "spurious-correlation", "attribute": "a", "counterexamples": 0.1}
    with pytest.raises(
        InputError, match=r"sets.target.law: finds no unseen cell: training draws from all of them"
    ):
        make_split({"d": data}, "d", plan(shift, n_attributes=1, sets=sets), 0)
    alone = make_split(
        {"d": data}, "d", plan({**shift, "counterexamples": 0}, n_attributes=1, sets=sets), 0
    )
    rows = alone.evaluation["target"].rows
    assert len(rows) and (data.table.column("y")[rows] != data.table.column("a")[rows]).all()


@pytest.mark.parametrize("size,least,most", [("all", 1.0, 1.0), (20, 0.45, 0.55), (36, 0.85, 0.95)])
def test_the_share_of_training_rows_that_two_seeds_have_in_common(
    size: Any, least: float, most: float
) -> None:
    """50 rows a cell, 2 for testing, 0.2 of 48 for validation: 38 or 39 are left. All of them are
    shared by any two seeds; 20 by 20 / 38.4 = 0.52, and 36 by 0.94, as the splits of ten seeds
    show: seeds redraw little where most rows are drawn."""
    data = world((2, 2, 2), np.full((2, 2, 2), 50))
    study = plan(parse_shift([]), size, 2, Roles(2, 0.2, None))
    shared_told = plan_counts({"d": data}, "d", study).train_shared
    assert least <= shared_told <= most
    drawn = [
        set(make_split({"d": data}, "d", study, seed).train.rows.tolist()) for seed in range(10)
    ]
    shared_found = np.mean(
        [
            len(first_rows & two) / len(first_rows)
            for i, first_rows in enumerate(drawn)
            for two in drawn[:i]
        ]
    )
    assert shared_found == pytest.approx(shared_told, abs=0.03)
    assert make_split({"d": data}, "d", study, 0).report["train_shared"] == pytest.approx(
        shared_told, abs=1e-4
    )
