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
    place = np.where(generator.random(rows) < tie, bird, generator.integers(0, 3, rows))
    sky = np.where(generator.random(rows) < 0.8, place, generator.integers(0, 3, rows))
    return {
        "bird": BIRDS[bird],
        "place": PLACES[place],
        "sky": np.array(["blue", "green", "grey"])[sky],
        "light": generator.choice(["day", "dusk", "night"], rows, p=light),
        "camera": generator.choice(list(cameras), rows),
    }


def statuses(found: Audit) -> dict[tuple[str, str], str]:
    return {
        (item.name, verdict.kind): verdict.status
        for item in found.columns
        for verdict in item.verdicts
    }


def test_three_shifts_at_once_are_named_and_nothing_else() -> None:
    found = audit(
        birds(1000, 0, tie=0.8, light=(0.7, 0.28, 0.02), cameras="abc"), birds(1000, 1), "bird"
    )
    assert sorted(found.shifts) == [("camera", UDS), ("light", LDD), ("place", SC)]
    said = statuses(found)
    assert said.pop(("sky", SC)) == "follows"
    assert set(said.values()) <= {"shift", "follows", "no shift"}
    assert len(said) == 4 * 3 + 2 - 1
    place = found.column("place")
    assert (
        place.v_train is not None and place.v_target is not None and place.v_difference is not None
    )
    assert place.v_train == pytest.approx(0.8, abs=0.06) and place.v_target < 0.1
    assert place.v_difference.value == pytest.approx(place.v_train - place.v_target)
    words = place.verdict(SC).words
    assert all(f"{bird} with {where}" in words for bird, where in zip(BIRDS, PLACES, strict=True))
    night = next(value for value in found.column("light").values if value.name == "night")
    assert (
        night.ratio.low < 0.02 / 0.25 < night.ratio.high
        and "night" in found.column("light").verdict(LDD).words
    )
    assert (
        found.column("camera").unseen == ("d",)
        and "d (2" in found.column("camera").verdict(UDS).words
    )


def test_what_follows_names_what_it_follows_from() -> None:
    """The sky is the place's four times of five: its V with the bird is about 0.8 x 0.8 in
    training, all of it the place's."""
    found = audit(birds(2000, 0, tie=0.8), birds(2000, 1), "bird").column("sky")
    verdict = found.verdict(SC)
    assert found.v_difference is not None and found.v_difference.value == pytest.approx(
        0.64, abs=0.06
    )
    assert verdict.effect is not None and abs(verdict.effect.value) < 0.06
    assert verdict.status == "follows" and verdict.follows_from == ("place",)


def test_no_shift_is_no_shift() -> None:
    found = audit(birds(1500, 0), birds(1500, 1), "bird")
    assert found.shifts == [] and set(statuses(found).values()) == {"no shift"}
    assert "no shift" in str(found) and "Shifts" not in str(found)


def test_the_same_table_twice_and_a_part_of_it() -> None:
    whole = birds(1500, 0, tie=0.5)
    twice = audit(whole, whole, "bird")
    assert set(statuses(twice).values()) == {"no shift"}
    for item in twice.columns:
        assert item.variation.value == 0 and (
            item.v_difference is None or item.v_difference.value == 0
        )
    half = audit({name: values[::2] for name, values in whole.items()}, whole, "bird")
    assert half.shifts == [] and "follows" not in statuses(half).values()


def test_twenty_rows_cannot_tell() -> None:
    found = audit(birds(20, 0, tie=0.3), birds(20, 1), "bird")
    assert found.shifts == []
    said = list(statuses(found).values())
    assert said.count("cannot tell") >= 10
    assert all(verdict.words for item in found.columns for verdict in item.verdicts)


def test_twenty_rows_of_a_perfect_tie_are_enough() -> None:
    assert ("place", SC) in audit(birds(20, 0, tie=1.0), birds(1000, 1), "bird").shifts


def test_a_target_without_labels() -> None:
    target = birds(1000, 1)
    del target["bird"]
    found = audit(birds(1000, 0, tie=0.8, light=(0.7, 0.28, 0.02), cameras="abc"), target, "bird")
    assert sorted(found.shifts) == [("camera", UDS), ("light", LDD)]
    assert found.label is None and found.column("place").v_train is None
    assert {status for (_, kind), status in statuses(found).items() if kind == SC} == {
        "cannot tell"
    }
    assert any("no label" in note for note in found.notes)


def test_rare_values_by_class_are_drift_and_no_correlation() -> None:
    """Night is a third as frequent for gulls and owls and never seen for wrens: V rises, yet no
    bird favours any light."""
    generator = np.random.default_rng(0)
    table = birds(3000, 0)
    rare = np.where(table["bird"] == "wren", 0.0, 1 / 3)
    kept = (table["light"] != "night") | (generator.random(3000) < rare)
    found = audit({name: values[kept] for name, values in table.items()}, birds(2000, 1), "bird")
    assert found.shifts == [("light", LDD)]
    light = found.column("light")
    assert light.v_difference is not None and light.v_difference.low > 0
    assert light.verdict(SC).status in ("follows", "no shift")


def test_values_unseen_in_the_same_rows_follow() -> None:
    """Camera d stands at the lake and nowhere else: without its rows the lake is unseen too, and
    only one is a cause."""
    train, target = birds(1000, 0, cameras="abc"), birds(1000, 1)
    train["site"] = np.full(1000, "hill")
    target["site"] = np.where((target["camera"] == "d") & (np.arange(1000) % 3 > 0), "lake", "hill")
    found = audit(train, target, "bird")
    assert found.shifts == [("camera", UDS)]
    assert found.column("site").verdict(UDS).follows_from == ("camera",)


def test_a_label_shift_and_what_depends_on_the_label() -> None:
    """The beak follows the bird in both tables alike; fewer wrens in training make fewer of their
    beaks."""

    def table(seed: int, shares: tuple[float, ...]) -> Table:
        generator = np.random.default_rng(seed)
        bird = generator.choice(3, 2000, p=shares)
        beak = np.where(generator.random(2000) < 0.7, bird, generator.integers(0, 3, 2000))
        return {"bird": BIRDS[bird], "beak": beak, "light": generator.integers(0, 2, 2000)}

    found = audit(table(0, (0.45, 0.45, 0.1)), table(1, (1 / 3, 1 / 3, 1 / 3)), "bird")
    assert found.shifts == [("bird", LABEL)]
    drift = found.column("beak").verdict(LDD)
    assert drift.status == "follows" and drift.follows_from == ("bird",)


def test_two_columns_that_say_the_same() -> None:
    train, target = birds(1000, 0, tie=0.9), birds(1000, 1)
    for table in (train, target):
        table["copy"] = np.array(
            [{"sea": "x", "forest": "y", "garden": "z"}[place] for place in table["place"]]
        )
    found = audit(train, target, "bird")
    assert found.shifts == [("place", SC)]
    assert "either may be the cause" in found.column("copy").verdict(SC).words


def test_a_stronger_tie_in_the_target_is_no_spurious_correlation() -> None:
    found = audit(birds(1000, 0), birds(1000, 1, tie=0.8), "bird")
    assert ("place", SC) not in found.shifts
    assert "the target ties it to the label more" in found.column("place").verdict(SC).words


def test_a_value_absent_by_chance_is_no_unseen_value() -> None:
    """5 of 1,000 target rows: with equal shares training of 1,000 rows has none of them once in 2^5
    times."""
    train, target = birds(1000, 0), birds(1000, 1)
    for table in (train, target):
        table["flag"] = np.full(1000, "plain", dtype=object)
    target["flag"][:5] = "odd"
    train["flag"][:2] = "strange"
    found = audit(train, target, "bird").column("flag")
    assert found.unseen == ("odd",) and found.unseen_share.value == 0.005
    assert {verdict.status for verdict in found.verdicts} == {"no shift"}
    assert "0.3%" in found.verdict(UDS).words


def test_values_that_only_training_has() -> None:
    train, target = birds(1000, 0, cameras="abcdz"), birds(1000, 1)
    found = audit(train, target, "bird")
    assert found.shifts == [("camera", LDD)]
    assert '"value": null' in json.dumps(found.to_json(), allow_nan=False)  # an infinite ratio
    assert "only training has z" in found.column("camera").verdict(LDD).words


def test_values_that_no_row_shares() -> None:
    found = audit(birds(500, 0, cameras="ab"), birds(500, 1, cameras="xyz"), "bird")
    assert sorted(found.shifts) == [("camera", LDD), ("camera", UDS)]
    assert (
        found.column("camera").unseen_share.value == 1.0
        and found.column("place").verdict(SC).status == "no shift"
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
    one, again, other = (audit(train, target, "bird", seed=seed) for seed in (0, 0, 1))
    assert json.dumps(one.to_json()) == json.dumps(again.to_json()) != json.dumps(other.to_json())
    assert statuses(one) == statuses(other)
    fewer = audit(train, target, "bird", columns=["place"])
    assert fewer.column("place").v_difference == one.column("place").v_difference


def test_columns_are_chosen_by_name() -> None:
    found = audit(birds(100, 0), birds(100, 1), "bird", columns=["light", "place"])
    assert [item.name for item in found.columns] == ["place", "light", "bird"]
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
    found = cw.audit(split, "test")
    assert sorted(found.shifts) == [("a", SC), ("b", UDS)]
    assert (found.train_rows, found.target_rows) == (
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
    found = audit(split, "test")
    assert ("corruption", SC) in found.shifts and len(found.columns) == 3


def test_data_sets_and_attribute_tables_are_tables() -> None:
    one, other = world((3, 3), 60), world((3, 3), np.array([[100, 5, 5], [5, 100, 5], [5, 5, 100]]))
    assert (
        cw.audit(other, one, "y").shifts
        == cw.audit(other.table, one.table, "y").shifts
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
