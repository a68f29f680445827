"""One picture has one role in a study, whichever rows and data sets show it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.picture_files import encoded, written
from tests.shifts.worlds import plan, world

import crosswind
from crosswind.core.errors import DataError, InputError
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.split import Roles, SetPlan, Split, make_split, plan_counts

OFFICIAL = Roles(None, 0.25, {"column": "split", "train": "train", "test": "test"})
SETS = {
    "validation": SetPlan("validation", "train"),
    "test": SetPlan("test"),
    "elsewhere-validation": SetPlan("validation", source="other"),
    "elsewhere": SetPlan("test", source="other"),
}


def shown(datasets: dict[str, AttributedDataset], split: Split) -> dict[str, dict[str, set[Any]]]:
    """Role -> how a picture is named -> the names of all pictures of the role, looked up row by
    row."""
    shown_by_role: dict[str, dict[str, set[Any]]] = {
        role: {"origin": set(), "content": set()} for role in ("train", "validation", "test")
    }
    sets = [("train", split.train), *(("validation", rows) for rows in split.validation.values())]
    for role, rows in [*sets, *(("test", rows) for rows in split.evaluation.values())]:
        data = datasets[rows.source]
        base = rows.rows if rows.visit_law is not None else rows.rows // data.n_derived
        names = data.ids if data.originals is None else data.originals
        shown_by_role[role]["origin"] |= {(data.origin, int(names[row])) for row in base}
        if data.contents is not None:
            shown_by_role[role]["content"] |= {int(data.contents[row]) for row in base}
    return shown_by_role


def refuse_shared(datasets: dict[str, AttributedDataset], split: Split) -> None:
    shown_by_role = shown(datasets, split)
    for first_role, second_role in (
        ("train", "test"),
        ("train", "validation"),
        ("validation", "test"),
    ):
        for kind in ("origin", "content"):
            assert not shown_by_role[first_role][kind] & shown_by_role[second_role][kind], (
                f"{kind} of a picture in {first_role} and in {second_role}"
            )


def pictures(names: Any) -> np.ndarray:
    return np.asarray(names, dtype=np.uint64)


def test_a_rendition_takes_the_roles_of_what_it_shows() -> None:
    """100 rows a cell: a fifth tests, a fifth of the other 80 validates. The other data set shows
    the same under another name."""
    main = world((2, 2), 100, name="clean")
    other_dataset = replace(world((2, 2), 100, name="sheared"), origin="clean")
    datasets = {"main": main, "other": other_dataset}
    study = plan(n_attributes=1, sets=SETS)
    split = make_split(datasets, "main", study, 0)
    refuse_shared(datasets, split)
    assert np.array_equal(
        np.sort(split.evaluation["elsewhere"].rows), np.sort(split.evaluation["test"].rows)
    )
    assert (
        len(split.evaluation["elsewhere"]) == 4 * 20
        and len(split.validation["elsewhere-validation"]) == 4 * 16
    )
    assert (
        "other: 256 rows are left out, as their pictures have another role elsewhere"
        in split.warnings
    )
    counts = plan_counts(datasets, "main", study)
    assert counts.set_rows["elsewhere"] == 80 and counts.pictures is not None
    assert len(counts.warnings) == 1


def test_what_shows_nothing_twice_is_dealt_as_ever() -> None:
    """Another origin: every row of the other data set is for its sets, and nothing tells of
    pictures, so that keys stay."""
    datasets = {"main": world((2, 2), 100, name="one"), "other": world((2, 2), 100, name="two")}
    split = make_split(datasets, "main", plan(n_attributes=1, sets=SETS), 0)
    assert (
        len(split.evaluation["elsewhere"]) + len(split.validation["elsewhere-validation"]) == 400
        and split.warnings == ()
    )
    assert plan_counts(datasets, "main", plan(n_attributes=1, sets=SETS)).pictures is None


def test_rows_that_were_kept_out_of_training_are_free() -> None:
    """`keep` leaves a class out of the data that train: its pictures are all the other data set's
    to test on."""
    clean = world((3, 2), 20, name="clean")
    main = clean.keep({"y": ["y0", "y1"]})
    sheared = replace(clean, name="sheared")
    sets = {
        "test": SetPlan("test"),
        "elsewhere": SetPlan("test", source="other", labels={"y2": "y1"}),
    }
    split = make_split({"main": main, "other": sheared}, "main", plan(n_attributes=1, sets=sets), 0)
    refuse_shared({"main": main, "other": sheared}, split)
    label = clean.table.column("y")[split.evaluation["elsewhere"].rows]
    assert np.bincount(label).tolist() == [8, 8, 40]


def test_a_unit_of_another_data_set_is_left_out_whole() -> None:
    """Videos of three frames: one frame that trains takes the other two with it, also those that
    the data that train lack."""
    main = world((2, 1), 30, name="frames")
    main_kept = replace(main.keep({"y": ["y0", "y1"]}), name="main")
    units = np.arange(60) // 3
    frames = replace(world((2, 1), 30, name="frames"), units=units)
    datasets = {"main": main_kept, "other": frames}
    sets = {"test": SetPlan("test"), "elsewhere": SetPlan("test", source="other")}
    study = plan(n_attributes=1, sets=sets, roles=Roles(0.8, 1))
    split = make_split(datasets, "main", study, 0)
    tested = set(split.evaluation["test"].rows.tolist())
    expected = [row for row in range(60) if all(3 * (row // 3) + i in tested for i in range(3))]
    assert (
        sorted(split.evaluation["elsewhere"].rows.tolist()) == expected and 0 < len(expected) < 48
    )


def test_copies_of_one_picture_stay_together() -> None:
    """Rows 2i and 2i + 1 are one file, and by its content row 1 is also row 2: no role has one
    without the other."""
    names = pictures(np.arange(80) // 2)
    contents = pictures(np.arange(80) + 1000)
    contents[2] = contents[1]
    data = replace(world((2, 2), 20), originals=names, contents=contents)
    for seed in range(3):
        split = make_split({"d": data}, "d", plan(n_attributes=1, split_seed=seed), 0)
        refuse_shared({"d": data}, split)
        assert len(split.evaluation["test"]) > 8
    assert plan_counts({"d": data}, "d", plan(n_attributes=1)).pictures is not None


def test_an_official_split_that_shares_pictures_is_refused_or_allowed() -> None:
    """Three pictures stand in both parts, by content; a fourth twice in one part, which is no
    harm."""
    data = world((2, 1), 20, official=10, name="benchmark")
    contents = pictures(np.arange(40))
    contents[[10, 11, 30]] = contents[[0, 1, 20]]
    contents[5] = contents[4]
    data = replace(data, contents=contents)
    with pytest.raises(InputError) as caught:
        make_split({"d": data}, "d", plan(n_attributes=0, roles=OFFICIAL), 0)
    assert str(caught.value).startswith(
        "overlap: the official split of 'benchmark' puts 3 pictures in two parts; "
    )
    split = make_split({"d": data}, "d", plan(n_attributes=0, roles=OFFICIAL, overlap="allowed"), 0)
    assert len(split.evaluation["test"]) == 20
    assert (
        "d: 3 pictures are in two parts of the official split (overlap: allowed)" in split.warnings
    )
    sides = [4 in split.train.rows, 5 in split.train.rows]
    assert sides[0] == sides[1]


def test_official_test_rows_that_train_elsewhere_are_refused_or_allowed() -> None:
    """CINIC-10's test part holds pictures of CIFAR-10's training part: here 6 of 20."""
    main = replace(world((2, 1), 20, official=10, name="cifar"), contents=pictures(np.arange(40)))
    contents = pictures(np.arange(40) + 100)
    contents[10:16] = np.arange(6)
    other_dataset = replace(world((2, 1), 20, official=10, name="cinic"), contents=contents)
    sets = {"test": SetPlan("test"), "elsewhere": SetPlan("test", source="other")}
    datasets = {"main": main, "other": other_dataset}
    with pytest.raises(
        InputError,
        match=r"^overlap: the official split of 'cinic' tests on 6 pictures that train or",
    ):
        make_split(datasets, "main", plan(n_attributes=0, roles=OFFICIAL, sets=sets), 0)
    split = make_split(
        datasets, "main", plan(n_attributes=0, roles=OFFICIAL, sets=sets, overlap="allowed"), 0
    )
    assert len(split.evaluation["elsewhere"]) == 20
    assert split.warnings == (
        "other: 6 test rows show pictures that train or validate (overlap: allowed)",
    )


def test_leftover_rows_of_an_official_split_are_free() -> None:
    """Pictures of a part that no role takes do not train, so another data set may test on them."""
    codes_main = world((2, 1), 20, official=10, name="clean")
    sets = {"test": SetPlan("test"), "elsewhere": SetPlan("test", source="other")}
    roles = Roles(2, 0.25, {"column": "split", "train": "train", "test": "test"})
    other_dataset = AttributedDataset("other", world((2, 1), 20).table, origin="clean")
    datasets = {"main": codes_main, "other": other_dataset}
    split = make_split(datasets, "main", plan(n_attributes=0, roles=roles, sets=sets), 0)
    refuse_shared(datasets, split)
    assert len(split.evaluation["test"]) == 4 and len(split.evaluation["elsewhere"]) == 20


def test_nothing_left_says_how_many() -> None:
    main = world((2, 1), 20, name="clean")
    trained = make_split({"main": main}, "main", plan(n_attributes=0), 0).train.rows
    table = world((2, 1), 20).table
    other_dataset = AttributedDataset(
        "other", type(table)(table.attributes, table.codes[:, trained]), ids=trained, origin="clean"
    )
    sets = {"test": SetPlan("test"), "elsewhere": SetPlan("test", source="other")}
    with pytest.raises(InputError) as caught:
        make_split(
            {"main": main, "other": other_dataset}, "main", plan(n_attributes=0, sets=sets), 0
        )
    expected = (
        "data.other: leaves no test row for set 'elsewhere': all 24 show pictures that have another"
        " role elsewhere in the study"
    )
    assert str(caught.value) == expected


def test_two_data_sets_that_do_not_train_share_their_roles() -> None:
    """One validates and the other tests on pictures that nothing trains on: each picture does one
    of the two."""
    datasets = {
        "main": world((2, 1), 20, name="photos"),
        "first": world((2, 1), 20, name="drawings"),
        "other": replace(world((2, 1), 20, name="sketches"), origin="drawings"),
    }
    sets = {
        "test": SetPlan("test"),
        "ood-validation": SetPlan("validation", source="first"),
        "elsewhere": SetPlan("test", source="other"),
    }
    split = make_split(datasets, "main", plan(n_attributes=0, sets=sets), 0)
    refuse_shared(datasets, split)
    assert len(split.validation["ood-validation"]) == 8 and len(split.evaluation["elsewhere"]) == 32


def test_names_of_pictures_are_checked_and_kept() -> None:
    data = world((2, 2), 4)
    for wrong in (np.arange(16), pictures(np.arange(15))):
        with pytest.raises(DataError, match="has 16 rows and contents of"):
            replace(data, contents=wrong)
    named = replace(
        data, originals=pictures(np.arange(16) + 50), contents=pictures(np.arange(16) + 90)
    )
    subset = (
        named.keep({"y": ["y1"]})
        .with_units("a")
        .with_attribute("more", ["x"], np.zeros(8, dtype=int))
    )
    assert subset.origin == "world" and subset.originals is not None and subset.contents is not None
    assert subset.originals.tolist() == list(range(58, 66)) and subset.contents.tolist() == list(
        range(98, 106)
    )


def test_files_are_named_by_their_place(tmp_path: Path) -> None:
    """A table that lists a file twice, another table and a folder over the same files: equal names
    for equal files, no others."""
    files = {
        f"{kind}/{i}.png": encoded((10 * i, 0, 0), "a.png")
        for kind in ("cat", "dog")
        for i in range(6)
    }
    folder = written(tmp_path / "pictures", files)
    lines = [f"{name},{name[:3]}" for name in [*files, "cat/0.png", "./cat/1.png"]]
    (tmp_path / "twice.csv").write_text("\n".join(["path,class", *lines]) + "\n")
    (tmp_path / "once.csv").write_text("\n".join(["path,class", *lines[:3]]) + "\n")
    twice = crosswind.load("table", path=str(tmp_path / "twice.csv"), images=str(folder), size=8)
    once = crosswind.load(
        "table", path=str(tmp_path / "once.csv"), images=str(folder / ".." / "pictures"), size=16
    )
    folder_data = crosswind.load("image-folder", path=str(folder), size=8)
    assert twice.origin == once.origin == folder_data.origin
    assert (
        twice.originals is not None
        and once.originals is not None
        and folder_data.originals is not None
    )
    assert (
        len(set(twice.originals.tolist())) == 12
        and twice.originals[12:].tolist() == twice.originals[:2].tolist()
    )
    assert once.originals.tolist() == twice.originals[:3].tolist()
    assert set(folder_data.originals.tolist()) == set(twice.originals.tolist())


# -- any composition -------------------------------------------------------------------------------


@st.composite
def compositions(draw: st.DrawFn) -> tuple[dict[str, AttributedDataset], Any, int]:
    """Two or three data sets whose rows show pictures of one small stock by origin or by content,
    with units and official parts."""
    n = draw(st.integers(8, 60))
    generator = np.random.default_rng(draw(st.integers(0, 10_000)))
    official = draw(st.booleans())
    datasets = {}
    for name in ("main", "other", *(["third"] if draw(st.booleans()) else [])):
        world_made = world(
            (2, 2), generator.integers(2, 12, (2, 2)), 3 if official else None, name=name
        )
        stock = generator.integers(0, draw(st.sampled_from([n, 10 * n, 10_000])), world_made.n_base)
        kind = draw(st.sampled_from(["origin", "content", "both"]))
        if kind != "content":
            world_made = replace(world_made, origin="stock", originals=pictures(stock))
        if kind != "origin":
            # Contents agree with origins, and join some that differ.
            world_made = replace(
                world_made, contents=pictures(stock // draw(st.sampled_from([1, 2])))
            )
        if not official and draw(st.booleans()):
            world_made = replace(
                world_made, units=generator.integers(0, world_made.n_base, world_made.n_base)
            )
        if draw(st.integers(0, 3)) == 0:
            world_made = world_made.with_attribute(
                "z", ["only"], np.zeros(world_made.n_base, dtype=int)
            )
        datasets[name] = world_made
    roles = Roles(
        None, 0.3, {"column": "split", "train": "train", "test": "test"} if official else None
    )
    sets = {"validation": SetPlan("validation", "train"), "test": SetPlan("test")}
    for name in list(datasets)[1:]:
        for role in draw(st.sampled_from([["test"], ["validation"], ["validation", "test"]])):
            sets[f"{name}-{role}"] = SetPlan(role, source=name)
    return (
        datasets,
        plan(n_attributes=1, sets=sets, roles=roles, split_seed=draw(st.integers(0, 5))),
        draw(st.integers(0, 3)),
    )


@pytest.mark.slow
@settings(max_examples=150)
@given(compositions())
def test_no_picture_has_two_roles(study: tuple[dict[str, AttributedDataset], Any, int]) -> None:
    datasets, split_plan, seed = study
    try:
        split = make_split(datasets, "main", split_plan, seed)
    except InputError as error:
        assert error.field == "overlap" or "leave" in error.problem or "no " in error.problem, str(
            error
        )
        # What is refused for its pictures can be allowed, and is then told with a number.
        if error.field == "overlap":
            warnings = make_split(
                datasets, "main", replace(split_plan, overlap="allowed"), seed
            ).warnings
            assert any("overlap: allowed" in text for text in warnings)
        return
    refuse_shared(datasets, split)
    for rows in (split.train, *split.validation.values(), *split.evaluation.values()):
        assert len(np.unique(rows.rows)) == len(rows)
        if split_plan.roles.official is not None:
            official_part = datasets[rows.source].table.column("split")[rows.rows]
            assert (
                len(np.unique(official_part)) <= 1
                and (official_part == (rows in split.evaluation.values())).all()
            )
    again = make_split(datasets, "main", split_plan, seed)
    assert np.array_equal(again.train.rows, split.train.rows)
    units = datasets["main"].units
    if units is not None:
        tested = set(units[split.evaluation["test"].rows].tolist())
        assert not tested & set(units[split.train.rows].tolist())
