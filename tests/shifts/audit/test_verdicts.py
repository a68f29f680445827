"""What an audit says of tables whose shifts are known, and of tables that can say little."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.shifts.worlds import world

import crosswind as cw
from crosswind.core.errors import DataError, InputError
from crosswind.shifts.audit import KINDS, SIZES, STATUSES, Audit, audit

SC, LDD, UDS, LABEL = KINDS
BIRDS = np.array(["gull", "owl", "wren"])
PLACES = np.array(["sea", "forest", "garden"])

Table = dict[str, Any]


def birds(
    rows: int,
    seed: int,
    tie: float = 0.0,
    light: tuple[float, ...] = (0.5, 0.25, 0.25),
    cameras: str = "abcd",
) -> Table:
    """A table of birds: `tie` is how often the place follows the bird, `light` the shares of day,
    dusk and night; the sky shows the place four times of five."""
    generator = np.random.default_rng(seed)
    bird = generator.integers(0, 3, rows)
    place_code = np.where(generator.random(rows) < tie, bird, generator.integers(0, 3, rows))
    sky = np.where(generator.random(rows) < 0.8, place_code, generator.integers(0, 3, rows))
    return {
        "bird": BIRDS[bird],
        "place": PLACES[place_code],
        "sky": np.array(["blue", "green", "grey"])[sky],
        "light": generator.choice(["day", "dusk", "night"], rows, p=light),
        "camera": generator.choice(list(cameras), rows),
    }


def statuses(report: Audit) -> dict[tuple[str, str], str]:
    return {
        (column_audit.name, verdict.kind): verdict.status
        for column_audit in report.columns
        for verdict in column_audit.verdicts
    }


def test_three_shifts_at_once_are_named_and_nothing_else() -> None:
    report = audit(
        birds(1000, 0, tie=0.8, light=(0.7, 0.28, 0.02), cameras="abc"), birds(1000, 1), "bird"
    )
    assert sorted(report.shifts) == [("camera", UDS), ("light", LDD), ("place", SC)]
    status_of = statuses(report)
    assert status_of.pop(("sky", SC)) == "follows"
    assert set(status_of.values()) <= {"shift", "follows", "no shift"}
    assert len(status_of) == 4 * 3 + 2 - 1
    place_audit = report.column("place")
    assert (
        place_audit.v_train is not None
        and place_audit.v_target is not None
        and place_audit.v_difference is not None
    )
    assert place_audit.v_train == pytest.approx(0.8, abs=0.06) and place_audit.v_target < 0.1
    assert place_audit.v_difference.value == pytest.approx(
        place_audit.v_train - place_audit.v_target
    )
    words = place_audit.verdict(SC).words
    assert all(f"{bird} with {where}" in words for bird, where in zip(BIRDS, PLACES, strict=True))
    night = next(value for value in report.column("light").values if value.name == "night")
    assert (
        night.ratio.low < 0.02 / 0.25 < night.ratio.high
        and "night" in report.column("light").verdict(LDD).words
    )
    assert (
        report.column("camera").unseen == ("d",)
        and "d (2" in report.column("camera").verdict(UDS).words
    )


def test_what_follows_names_what_it_follows_from() -> None:
    """The sky is the place's four times of five: its V with the bird is about 0.8 x 0.8 in
    training, all of it the place's."""
    sky_audit = audit(birds(2000, 0, tie=0.8), birds(2000, 1), "bird").column("sky")
    verdict = sky_audit.verdict(SC)
    assert sky_audit.v_difference is not None and sky_audit.v_difference.value == pytest.approx(
        0.64, abs=0.06
    )
    assert verdict.effect is not None and abs(verdict.effect.value) < 0.06
    assert verdict.status == "follows" and verdict.follows_from == ("place",)


def test_no_shift_is_no_shift() -> None:
    report = audit(birds(1500, 0), birds(1500, 1), "bird")
    assert report.shifts == [] and set(statuses(report).values()) == {"no shift"}
    assert "no shift" in str(report) and "Shifts" not in str(report)


def test_the_same_table_twice_and_a_part_of_it() -> None:
    all_rows = birds(1500, 0, tie=0.5)
    twice = audit(all_rows, all_rows, "bird")
    assert set(statuses(twice).values()) == {"no shift"}
    for column_audit in twice.columns:
        assert column_audit.variation.value == 0 and (
            column_audit.v_difference is None or column_audit.v_difference.value == 0
        )
    half = audit({name: values[::2] for name, values in all_rows.items()}, all_rows, "bird")
    assert half.shifts == [] and "follows" not in statuses(half).values()


def test_twenty_rows_cannot_tell() -> None:
    report = audit(birds(20, 0, tie=0.3), birds(20, 1), "bird")
    assert report.shifts == []
    status_list = list(statuses(report).values())
    assert status_list.count("cannot tell") >= 10
    assert all(
        verdict.words for column_audit in report.columns for verdict in column_audit.verdicts
    )


def test_twenty_rows_of_a_perfect_tie_are_enough() -> None:
    assert ("place", SC) in audit(birds(20, 0, tie=1.0), birds(1000, 1), "bird").shifts


def test_a_target_without_labels() -> None:
    target = birds(1000, 1)
    del target["bird"]
    report = audit(birds(1000, 0, tie=0.8, light=(0.7, 0.28, 0.02), cameras="abc"), target, "bird")
    assert sorted(report.shifts) == [("camera", UDS), ("light", LDD)]
    assert report.label is None and report.column("place").v_train is None
    assert {status for (_, kind), status in statuses(report).items() if kind == SC} == {
        "cannot tell"
    }
    assert any("no label" in note for note in report.notes)


def test_rare_values_by_class_are_drift_and_no_correlation() -> None:
    """Night is a third as frequent for gulls and owls and never seen for wrens: V rises, yet no
    bird favours any light."""
    generator = np.random.default_rng(0)
    table = birds(3000, 0)
    rare = np.where(table["bird"] == "wren", 0.0, 1 / 3)
    is_kept = (table["light"] != "night") | (generator.random(3000) < rare)
    report = audit(
        {name: values[is_kept] for name, values in table.items()}, birds(2000, 1), "bird"
    )
    assert report.shifts == [("light", LDD)]
    light = report.column("light")
    assert light.v_difference is not None and light.v_difference.low > 0
    assert light.verdict(SC).status in ("follows", "no shift")


def test_values_unseen_in_the_same_rows_follow() -> None:
    """Camera d stands at the lake and nowhere else: without its rows the lake is unseen too, and
    only one is a cause."""
    train, target = birds(1000, 0, cameras="abc"), birds(1000, 1)
    train["site"] = np.full(1000, "hill")
    target["site"] = np.where((target["camera"] == "d") & (np.arange(1000) % 3 > 0), "lake", "hill")
    report = audit(train, target, "bird")
    assert report.shifts == [("camera", UDS)]
    assert report.column("site").verdict(UDS).follows_from == ("camera",)


def test_a_label_shift_and_what_depends_on_the_label() -> None:
    """The beak follows the bird in both tables alike; fewer wrens in training make fewer of their
    beaks."""

    def table(seed: int, shares: tuple[float, ...]) -> Table:
        generator = np.random.default_rng(seed)
        bird = generator.choice(3, 2000, p=shares)
        beak = np.where(generator.random(2000) < 0.7, bird, generator.integers(0, 3, 2000))
        return {"bird": BIRDS[bird], "beak": beak, "light": generator.integers(0, 2, 2000)}

    report = audit(table(0, (0.45, 0.45, 0.1)), table(1, (1 / 3, 1 / 3, 1 / 3)), "bird")
    assert report.shifts == [("bird", LABEL)]
    drift = report.column("beak").verdict(LDD)
    assert drift.status == "follows" and drift.follows_from == ("bird",)


def test_two_columns_that_say_the_same() -> None:
    train, target = birds(1000, 0, tie=0.9), birds(1000, 1)
    for table in (train, target):
        table["copy"] = np.array(
            [
                {"sea": "x", "forest": "y", "garden": "z"}[place_name]
                for place_name in table["place"]
            ]
        )
    report = audit(train, target, "bird")
    assert report.shifts == [("place", SC)]
    assert "either may be the cause" in report.column("copy").verdict(SC).words


def test_a_stronger_tie_in_the_target_is_no_spurious_correlation() -> None:
    report = audit(birds(1000, 0), birds(1000, 1, tie=0.8), "bird")
    assert ("place", SC) not in report.shifts
    assert "the target ties it to the label more" in report.column("place").verdict(SC).words


def test_a_value_absent_by_chance_is_no_unseen_value() -> None:
    """5 of 1,000 target rows: with equal shares training of 1,000 rows has none of them once in 2^5
    times."""
    train, target = birds(1000, 0), birds(1000, 1)
    for table in (train, target):
        table["flag"] = np.full(1000, "plain", dtype=object)
    target["flag"][:5] = "odd"
    train["flag"][:2] = "strange"
    flag_audit = audit(train, target, "bird").column("flag")
    assert flag_audit.unseen == ("odd",) and flag_audit.unseen_share.value == 0.005
    assert {verdict.status for verdict in flag_audit.verdicts} == {"no shift"}
    assert "0.3%" in flag_audit.verdict(UDS).words


def test_values_that_only_training_has() -> None:
    train, target = birds(1000, 0, cameras="abcdz"), birds(1000, 1)
    report = audit(train, target, "bird")
    assert report.shifts == [("camera", LDD)]
    assert '"value": null' in json.dumps(report.to_json(), allow_nan=False)  # an infinite ratio
    assert "only training has z" in report.column("camera").verdict(LDD).words


def test_values_that_no_row_shares() -> None:
    report = audit(birds(500, 0, cameras="ab"), birds(500, 1, cameras="xyz"), "bird")
    assert sorted(report.shifts) == [("camera", LDD), ("camera", UDS)]
    assert (
        report.column("camera").unseen_share.value == 1.0
        and report.column("place").verdict(SC).status == "no shift"
    )


@pytest.mark.parametrize(("classes", "values"), [(2, 50), (100, 50), (100, 2), (10, 3)])
def test_many_classes_and_values_make_no_false_causes(classes: int, values: int) -> None:
    def table(seed: int) -> Table:
        generator = np.random.default_rng(seed)
        return {
            "y": generator.integers(0, classes, 1000),
            "a": generator.integers(0, values, 1000),
            "b": generator.integers(0, 3, 1000),
        }

    assert audit(table(0), table(1), "y").shifts == []


@pytest.mark.parametrize(("classes", "values"), [(2, 50), (100, 50), (100, 2)])
def test_many_classes_and_values_hide_no_correlation(classes: int, values: int) -> None:
    def table(seed: int, tie: float) -> Table:
        generator = np.random.default_rng(seed)
        y = generator.integers(0, classes, 1500)
        matched = (
            np.arange(max(classes, values)) % values
            if classes >= values
            else np.arange(classes) * (values // classes)
        )
        return {
            "y": y,
            "a": np.where(
                generator.random(1500) < tie, matched[y], generator.integers(0, values, 1500)
            ),
        }

    assert audit(table(0, 0.7), table(1, 0.0), "y").shifts == [("a", SC)]


def test_same_seed_same_audit_and_verdicts_do_not_depend_on_it() -> None:
    train, target = birds(600, 0, tie=0.4), birds(500, 1)
    first, again, other_seed = (audit(train, target, "bird", seed=seed) for seed in (0, 0, 1))
    assert (
        json.dumps(first.to_json())
        == json.dumps(again.to_json())
        != json.dumps(other_seed.to_json())
    )
    assert statuses(first) == statuses(other_seed)
    fewer = audit(train, target, "bird", columns=["place"])
    assert fewer.column("place").v_difference == first.column("place").v_difference


def test_columns_are_chosen_by_name() -> None:
    report = audit(birds(100, 0), birds(100, 1), "bird", columns=["light", "place"])
    assert [column_audit.name for column_audit in report.columns] == ["place", "light", "bird"]
    with pytest.raises(
        InputError, match="columns: unknown column of either table 'plac', did you mean 'place'"
    ):
        audit(birds(100, 0), birds(100, 1), "bird", columns=["plac"])


SHIFT = [
    {"type": "spurious-correlation", "attribute": "a", "counterexamples": 0.1},
    {"type": "unseen-data", "attribute": "b", "unseen": "last"},
]


def test_a_split_is_audited_between_its_sets() -> None:
    data = world((3, 3, 4), 120)
    split = cw.split(data, "y", ["a", "b"], SHIFT, test=30)
    report = cw.audit(split, "test")
    assert sorted(report.shifts) == [("a", SC), ("b", UDS)]
    assert (report.train_rows, report.target_rows) == (
        len(split.train.rows),
        len(split.evaluation["test"].rows),
    )
    assert cw.audit(split, "validation").shifts == []
    with pytest.raises(
        InputError, match="target: unknown set of the split 'tset', did you mean 'test'"
    ):
        cw.audit(split, "tset")
    with pytest.raises(InputError, match="label: the split's label is 'y', not 'a'"):
        cw.audit(split, "test", "a")
    with pytest.raises(InputError, match="columns: unknown attribute of the split 'q'"):
        cw.audit(split, "test", columns=["q"])
    with pytest.raises(InputError, match="target: must name a set of the split"):
        cw.audit(split, {"y": [1]})


@pytest.mark.parametrize("mode", ["fixed", "per-visit"])
def test_a_derived_attribute_of_a_split_is_audited(mode: str) -> None:
    from tests.shifts.test_derived import CORRELATED, noisy, study

    from crosswind.shifts.split import Roles, make_split

    split = make_split({"d": noisy(mode, 400)}, "d", study(CORRELATED, roles=Roles(100, 0.2)), 0)
    report = audit(split, "test")
    assert ("corruption", SC) in report.shifts and len(report.columns) == 3


def test_data_sets_and_attribute_tables_are_tables() -> None:
    training_world, target_world = (
        world((3, 3), 60),
        world((3, 3), np.array([[100, 5, 5], [5, 100, 5], [5, 5, 100]])),
    )
    assert (
        cw.audit(target_world, training_world, "y").shifts
        == cw.audit(target_world.table, training_world.table, "y").shifts
        == [("a", SC)]
    )


def test_effect_sizes_and_statuses_are_those_that_are_told() -> None:
    assert set(SIZES) == set(KINDS) and STATUSES == ("shift", "follows", "no shift", "cannot tell")
    with pytest.raises(KeyError):
        audit(birds(60, 0), birds(60, 1), "bird").column("wing")


def test_nothing_to_audit() -> None:
    with pytest.raises(DataError, match=r"no attribute is left to audit \(a: has one value only\)"):
        audit({"y": [0, 1] * 5, "a": [1] * 10}, {"y": [0, 1] * 5, "a": [1] * 10}, "y")
    with pytest.raises(InputError, match="label: names the column of the label, and is missing"):
        audit({"y": [0]}, {"y": [0]})
    with pytest.raises(InputError, match="columns: must be a list of columns, not 'a'"):
        audit({"y": [0]}, {"y": [0]}, "y", columns="a")


def test_two_rows_tell_nothing_and_are_not_said_to_show_no_shift() -> None:
    few = {name: values[:2] for name, values in birds(1000, 0).items()}
    for report in (audit(few, birds(1000, 1), "bird"), audit(birds(1000, 1), few, "bird")):
        verdicts = {verdict for verdict in statuses(report).items() if verdict[0][1] != UDS}
        assert len(verdicts) == 9 and {status for _, status in verdicts} == {"cannot tell"}


def test_many_rows_of_one_class_show_no_tie() -> None:
    of_one_class = birds(2000, 0)
    gulls = of_one_class["bird"] == "gull"
    one_class = {name: values[gulls] for name, values in of_one_class.items()}
    report = audit(one_class, birds(1000, 1), "bird")
    assert statuses(report)["place", SC] == "no shift"
