"""Study files are read strictly; overlays and settings merge as documented."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from crosswind.core.errors import DataError, InputError
from crosswind.studies.plan import make_plan
from crosswind.studies.reading import (
    apply_settings,
    find_study,
    merge,
    parse,
    read_study_file,
    shipped_studies,
)
from crosswind.studies.spec import json_schema, load_study, scale_of, settings_of, study_from


def test_numbers_and_words_follow_yaml_1_2() -> None:
    read = parse(
        "a: 1e-3\nb: no\nc: 010\nd: true\ne: ~\nf: 1.5\ng: '3'\nh: .5\ni: 2024-01-02\nj: 1:30", "x"
    )
    assert read == {
        "a": 1e-3,
        "b": "no",
        "c": 10,
        "d": True,
        "e": None,
        "f": 1.5,
        "g": "3",
        "h": 0.5,
        "i": "2024-01-02",
        "j": "1:30",
    }


def test_keys_are_words() -> None:
    assert parse("1: a\ntrue: b", "x") == {"1": "a", "true": "b"}


def test_merge_replaces_lists_joins_mappings_and_drops_null() -> None:
    base = {"a": {"b": 1, "c": [1, 2]}, "d": 3}
    assert merge(base, {"a": {"c": [9]}, "d": None, "e": 4}) == {"a": {"b": 1, "c": [9]}, "e": 4}
    assert base == {"a": {"b": 1, "c": [1, 2]}, "d": 3}


def test_settings_follow_dotted_paths_and_names_with_dots() -> None:
    study = {"data": {"cifar10.1": {"roles": {"test": 2}}}, "seeds": [1, 2]}
    changed = apply_settings(
        study, ["data.cifar10.1.roles.test=5", "seeds.1=7", "training.lr=1e-2"]
    )
    assert changed == {
        "data": {"cifar10.1": {"roles": {"test": 5}}},
        "seeds": [1, 7],
        "training": {"lr": 1e-2},
    }
    assert study["seeds"] == [1, 2]
    with pytest.raises(InputError, match="position"):
        apply_settings(study, ["seeds.9=1"])
    with pytest.raises(InputError, match="nothing|no 'x'|has no"):
        apply_settings({"seeds": 3}, ["seeds.x=1"])


def test_a_list_of_methods_takes_settings_by_name() -> None:
    study = {
        "methods": ["erm", "groupdro"],
        "models": ["mlp"],
        "data": {"d": {"attributes": ["ink"]}},
    }
    changed = apply_settings(
        study, ["methods.groupdro.eta=0.5", "methods.groupdro.groups=[ink]", "models.mlp.hidden=8"]
    )
    assert changed["methods"] == {
        "erm": {},
        "groupdro": {"eta": 0.5, "groups": ["ink"]},
    } and changed["models"] == {"mlp": {"hidden": 8}}
    assert apply_settings(study, ["methods.0=irm"])["methods"] == ["irm", "groupdro"]
    assert study["methods"] == ["erm", "groupdro"], "what was given stays as it was"
    with pytest.raises(InputError, match="'ink' is not a position in a list of 1"):
        apply_settings(study, ["data.d.attributes.ink.x=1"])


@pytest.mark.parametrize("setting", ["training.steps=", " training.steps = "])
def test_a_setting_whose_value_a_shell_left_empty_is_refused(setting: str) -> None:
    with pytest.raises(InputError, match=r"^--set training\.steps: names no value; null takes"):
        apply_settings({"training": {"steps": 40}}, [setting])
    assert apply_settings({"about": "x"}, ["about=''"]) == {"about": ""}


@pytest.mark.slow
def test_shipped_studies_are_found_and_valid() -> None:
    names = shipped_studies()
    assert {"demo", "jeon2025/sizes"} <= set(names)
    for name in names:
        study = load_study(name)
        assert study.name == name
        assert study.about
        for scale in study.scales:
            load_study(name, scale)


def test_a_study_is_found_by_path_and_by_name(tmp_path: Path) -> None:
    path = shipped_studies()["jeon2025/sizes"]
    assert find_study(str(path)) == ("jeon2025/sizes", path)
    assert find_study("jeon2025/sizes")[0] == "jeon2025/sizes"
    copy = tmp_path / "mine.yaml"
    copy.write_text(path.read_text())
    assert find_study(str(copy)) == ("mine", copy)


def test_a_size_limit_holds(tmp_path: Path) -> None:
    big = tmp_path / "big.yaml"
    big.write_text("a: 1\n" + "#" * 1_100_000)
    with pytest.raises(DataError, match="bytes"):
        read_study_file(big)


def test_a_scale_is_laid_over_the_study_before_settings() -> None:
    data = {"digits": {"source": "digits", "label": "digit", "attributes": ["ink"]}}
    values = {
        "data": data,
        "shifts": {"none": []},
        "seeds": 5,
        "scales": {"tiny": {"seeds": 1, "training": {"steps": 2}}},
    }
    study = study_from(values, scale="tiny", settings=["training.batch=4"])
    assert study.seed_list == [0]
    assert study.training == {"steps": 2, "batch": 4}


def test_schema_names_every_field_and_says_what_it_is() -> None:
    schema = json_schema()
    assert {"data", "shifts", "sizes", "methods", "seeds", "scales"} <= set(schema["properties"])
    assert {
        "DataSpec",
        "SetSpec",
        "RolesSpec",
        "ClustersSpec",
        "DeriveSpec",
        "Claim",
        "Search",
    } <= set(schema["$defs"])
    for definition in schema["$defs"].values():
        assert all(
            property_schema.get("description") or "$ref" in str(property_schema)
            for property_schema in definition["properties"].values()
        ), definition["title"]
    assert set(schema["$defs"]["Claim"]["required"]) == {"text", "better"}
    assert set(schema["$defs"]["ClustersSpec"]["required"]) == {"features", "k"}


def test_a_name_of_the_user_s_is_no_field() -> None:
    """A data set called `roles` has the fields of a data set."""
    entry = {"source": "digits", "label": "digit", "attributes": ["ink"], "optoins": {}}
    with pytest.raises(
        InputError, match=r"data\.roles\.optoins: unknown field 'optoins', did you mean 'options'\?"
    ):
        study_from({"data": {"roles": entry}, "shifts": {"none": []}})
    for name in ("seeds[0]", "str"):  # these looked like parts of a type
        with pytest.raises(
            InputError, match=rf"{re.escape(name)}: unknown field '{re.escape(name)}'"
        ):
            study_from({"data": {}, "shifts": {"none": []}, name: 3})


SPREAD = {
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 4},
        }
    },
    "shifts": {"none": []},
    "models": {
        "cnn": {"model": "mlp", "each": {"layers": [1, 2], "hidden": [8, 16]}},
        "wide": {"model": "mlp", "hidden": 64},
    },
    "methods": {
        "erm": {},
        "some": {
            "method": "erm",
            "models": ["cnn"],
            "each": {"training.batch": [8, 16], "label_noise": [0.2]},
        },
    },
}


def test_each_writes_an_entry_for_every_combination() -> None:
    study = study_from(SPREAD)
    depths = [("cnn-1-8", 1, 8), ("cnn-1-16", 1, 16), ("cnn-2-8", 2, 8), ("cnn-2-16", 2, 16)]
    assert study.models == {
        **{
            name: {"model": "mlp", "layers": depth, "hidden": width}
            for name, depth, width in depths
        },
        "wide": {"model": "mlp", "hidden": 64},
    }
    expanded_entry = {"method": "erm", "models": [name for name, *_ in depths], "label_noise": 0.2}
    assert study.methods == {
        "erm": {},
        **{f"some-{b}-0.2": {**expanded_entry, "training": {"batch": b}} for b in (8, 16)},
    }
    plan = make_plan(study)
    assert len(plan.runs) == 3 * (5 + 2 * 4), (
        "three seeds; erm on five networks, the two others on four"
    )
    assert study_from({**SPREAD, "methods": ["erm"]}).methods == ["erm"]


@pytest.mark.parametrize(
    ("field", "entry", "sentence"),
    [
        (
            "models",
            {"each": {"layers": 2}},
            "study: models.x.each.layers: must be a list of values, not 2",
        ),
        (
            "models",
            {"each": [1]},
            "study: models.x.each: must map settings to lists of values, not [1]",
        ),
        (
            "methods",
            {"training": 3, "each": {"training.lr": [1]}},
            "study: methods.x.each.training.lr: 'training' holds 3, which has",
        ),
        (
            "estimators",
            {"each": {"a": [1, 1]}},
            "study: estimators.x: makes the entry 'x-1', which is there",
        ),
        (
            "estimators",
            {"each": {"a": list(range(200)), "b": list(range(200))}},
            "study: estimators.x.each: makes more than 10,000",
        ),
    ],
)
def test_an_each_that_is_none_is_refused(field: str, entry: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        study_from({**SPREAD, field: {"x": entry}})


BASE: dict[str, Any] = {
    "data": {"digits": {"source": "digits", "label": "digit", "attributes": ["ink"]}},
    "shifts": {"none": []},
}


def test_a_scale_may_lie_over_another_one() -> None:
    scales = {
        "paper": {"seeds": 5, "training": {"steps": 1000, "lr": 0.01}},
        "weights": {"over": "paper", "training": {"lr": 0.001}, "name": "from-weights"},
        "again": {"over": "weights", "seeds": 2},
    }
    study = {**BASE, "scales": scales}
    chosen = study_from(study, scale="again")
    assert (chosen.name, chosen.seeds) == ("from-weights", 2)
    assert chosen.training["steps"] == 1000 and chosen.training["lr"] == 0.001
    assert study_from(study).seeds == study_from(BASE).seeds


@pytest.mark.parametrize(
    ("scales", "sentence"),
    [
        ({"a": {"over": "b"}, "b": {"over": "a"}}, "scales.a.over|scales.b.over"),
        ({"a": {"over": "a"}}, "scales.a.over: goes in a circle: a -> a"),
        (
            {"a": {"over": "c"}, "b": {}},
            r"scales.a.over: names no scale of this study: 'c' \(valid: b\)",
        ),
        ({"a": {"over": "b"}, "b": {"sedes": 2}}, "scales.[ab].sedes"),
    ],
)
def test_a_scale_over_what_is_none_is_refused(scales: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        study_from({**BASE, "scales": scales})


@pytest.mark.slow
def test_the_scale_of_a_study_that_was_run_is_known_from_its_fields() -> None:
    """What a store holds of a study has no word for its scale, and "run more seeds" must name it."""
    n_pairs = 0
    for name, path in shipped_studies().items():
        values = read_study_file(path)
        for scale in (None, *(values.get("scales") or {})):
            study = study_from(values, name=name, scale=scale)
            written = study.model_dump(mode="json", exclude_unset=True)
            if study.name == name and (scale is None or values["scales"][scale]):
                assert scale_of(written) == scale, (name, scale)
                assert scale_of({**written, "seeds": 77, "split_seeds": 3}) == scale
                n_pairs += 1
    assert n_pairs > 100


def test_a_scale_with_another_setting_is_still_that_scale() -> None:
    study = load_study("wiles2022/unseen", "small", ["training.steps=7", "seeds=2"])
    assert scale_of(study.model_dump(mode="json", exclude_unset=True)) == "small"


@pytest.mark.parametrize(
    "settings",
    [
        ["training.lr=0.02"],
        ["training.steps=7", "seeds=2", "claims=[]"],
        ["methods={erm: {}, groupdro: {eta: 0.5}}", "reference=erm"],
        ["methods.groupdro.eta=[0.1, 1]"],
        ["data.digits.roles.test=3", "sizes={few: {total: 60}}"],
        ["about='one: two, three # four'", "training.lr=null"],
        ["split_seed=null", "split_seeds=2"],
        ["methods.jtt.fit_at=null"],
    ],
)
@pytest.mark.parametrize("scale", [None, "tiny"])
def test_the_settings_of_a_study_that_was_run_are_known_from_its_fields(
    settings: list[str], scale: str | None
) -> None:
    study = load_study("demo", scale, settings)
    written = study.model_dump(mode="json", exclude_unset=True)
    words = settings_of(written, scale)
    assert len(words) >= len(settings) or "null" in str(settings)
    assert load_study("demo", scale, words) == study
    without_seeds = settings_of(written, scale, without=["seeds"])
    assert not [word for word in without_seeds if word.startswith("seeds=")]
    changed = study.model_copy(update={"seeds": 9})
    assert load_study("demo", scale, [*without_seeds, "seeds=9"]) == changed


def test_a_study_as_its_file_has_it_was_run_with_no_settings() -> None:
    for name, scale in (("demo", None), ("demo", "tiny"), ("wiles2022/unseen", "small")):
        written = load_study(name, scale).model_dump(mode="json", exclude_unset=True)
        assert settings_of(written, scale) == []
    assert settings_of({**written, "name": "mine"}, "small") == []


def test_the_scale_of_a_study_of_ones_own_changes_nothing_when_it_is_laid_once_more() -> None:
    small = {"training": {"steps": 5}, "methods": {"irm": None}}
    scales = {"small": small, "tiny": {"over": "small", "seeds": 1, "training": {"batch": 4}}}
    values = {
        **load_study("jeon2025/sizes").model_dump(mode="json", exclude_unset=True),
        "methods": {"erm": {}, "irm": {}},
        "scales": scales,
    }
    for scale in (None, *scales):
        study = study_from(values, name="mine", scale=scale).model_copy(update={"name": "mine"})
        assert scale_of(study.model_dump(mode="json", exclude_unset=True)) == scale


def test_entries_of_each_are_what_the_name_of_the_old_one_says() -> None:
    """`erm: {each: ...}` is erm at every value, as `erm: {}` is erm; a name of one's own is none."""
    sizes = load_study("jeon2025/sizes").model_dump(mode="json", exclude_unset=True)
    values = {
        **{name: value for name, value in sizes.items() if name != "scales"},
        "models": {"mlp": {"each": {"layers": [1, 2]}}},
        "methods": {"erm": {"each": {"label_noise": [0, 0.1]}}},
        "estimators": {"ni": {"each": {"transform": ["randaugment", "translate"]}}},
        "reference": "erm-0",
    }
    study = study_from(values, name="mine")
    assert {name: entry["model"] for name, entry in study.models.items()} == {
        "mlp-1": "mlp",
        "mlp-2": "mlp",
    }
    assert [entry["method"] for entry in study.methods.values()] == ["erm", "erm"]
    assert [entry["estimator"] for entry in study.estimators.values()] == ["ni", "ni"]
    methods = {"mine": {"each": {"method": ["erm", "irm"], "label_noise": [0]}}}
    study = study_from({**values, "methods": methods, "reference": "mine-erm-0"}, name="mine")
    assert [entry["method"] for entry in study.methods.values()] == ["erm", "irm"]


NONE_OR_NOT = {
    "data": {"texts": {"source": "amazon-reviews", "options": {"rows": 10}}},
    "training": {"patience": 3, "epochs": 5},
    "methods": {"mine": {"method": "jtt", "fit_at": 0.5, "up": 3}},
    "models": {"tuned": {"model": "transformer", "weights": "a.safetensors"}},
}


@pytest.mark.parametrize(
    ("path", "is_kept"),
    [
        ("training.patience", True),  # 20 where it is left out
        ("training.epochs", False),  # none where it is left out
        ("methods.mine.fit_at", True),
        ("methods.mine.up", False),
        ("methods.mine.training.patience", True),
        ("models.tuned.weights", True),
        ("models.tuned.model", False),
        ("data.texts.options.rows", True),
    ],
)
def test_null_is_the_value_of_a_setting_that_is_something_where_it_is_left_out(
    path: str, is_kept: bool
) -> None:
    *field_names, name = path.split(".")
    overlay: Any = {name: None}
    for field_name in reversed(field_names):
        overlay = {field_name: overlay}
    for laid in (merge(NONE_OR_NOT, overlay), apply_settings(NONE_OR_NOT, [f"{path}=null"])):
        entry: Any = laid
        for field_name in field_names:
            entry = entry[field_name]
        assert (name in entry) == is_kept
        assert entry.get(name) is None


def test_no_patience_is_none_from_a_setting_and_a_scale() -> None:
    scales = {"long": {"training": {"patience": None}}}
    study = {
        "data": {"d": {"source": "digits", "label": "half", "attributes": ["ink"]}},
        "shifts": {"none": []},
        "models": ["mlp"],
        "training": {"steps": 4},
        "scales": scales,
    }
    for given in ({"settings": ["training.patience=null"]}, {"scale": "long"}):
        plan = make_plan(study_from(study, **given))
        patience_values = {
            job.spec["training"]["patience"] for job in plan.jobs if job.kind == "fit"
        }
        assert patience_values == {None}


def test_null_for_an_entry_that_is_not_there_is_refused() -> None:
    study = {"shifts": {"none": [], "SC": []}, "methods": {"erm": {}}}
    with pytest.raises(InputError) as error:
        apply_settings(study, ["shifts.SD=null"])
    says = "--set shifts.SD: unknown entry of shifts 'SD' (valid: none, SC)"
    assert str(error.value) == says
    assert apply_settings(study, ["shifts.SC=null", "training.lr=null"]) == {
        "shifts": {"none": []},
        "methods": {"erm": {}},
        "training": {},
    }


@pytest.mark.parametrize("field_name", ["methods", "models", "estimators"])
def test_a_list_of_names_takes_settings_by_name(field_name: str) -> None:
    study = {field_name: ["one", "two"]}
    assert apply_settings(study, [f"{field_name}.two=null"]) == {field_name: {"one": {}}}
    assert apply_settings(study, [f"{field_name}.two.width=4"]) == {
        field_name: {"one": {}, "two": {"width": 4}}
    }
    with pytest.raises(InputError, match="'three' is not a position in a list of 2"):
        apply_settings(study, [f"{field_name}.three.width=4"])
    assert apply_settings(study, [f"{field_name}.1=three"]) == {field_name: ["one", "three"]}


@pytest.mark.parametrize("methods", [["erm", "irm", "dann"], {"erm": {}, "irm": {}, "dann": {}}])
def test_an_entry_that_the_scale_leaves_out_may_be_left_out_again(methods: Any) -> None:
    study = {
        "data": {"d": {"source": "digits", "label": "half", "attributes": ["ink"]}},
        "shifts": {"none": []},
        "models": ["mlp"],
        "methods": methods,
        "training": {"steps": 4},
        "scales": {"tiny": {"methods": {"erm": {}, "irm": None, "dann": {}}}},
    }
    for scale in ("tiny", None):
        study_now = study_from(study, scale=scale, settings=["methods.irm=null"])
        assert set(study_now.methods) == {"erm", "dann"}
        with pytest.raises(InputError, match="unknown entry of methods 'imr'"):
            study_from(study, scale=scale, settings=["methods.imr=null"])


@pytest.mark.parametrize("room", ["shifts", "methods", "models", "data"])
def test_a_name_in_another_script_is_refused_with_its_letters_and_the_reason(room: str) -> None:
    digits = {"source": "digits", "label": "half", "attributes": ["ink"]}
    named = {"data": {"d": digits}, "shifts": {"none": []}}
    entry = {"data": digits, "shifts": []}.get(room, {})
    with pytest.raises(InputError) as caught:
        study_from({**named, room: {"größe": entry}})
    assert "'größe' holds ß, ö, and a name that a study gives is typed in commands" in str(
        caught.value
    )
