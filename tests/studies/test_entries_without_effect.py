"""What a study asks for and no run would have is refused by its name, not left out without a word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crosswind as cw
from crosswind.core.errors import CrosswindError, InputError
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.spec import study_from

DIGITS = {
    "source": "digits",
    "options": {"size": 8, "one_size": True},
    "label": "half",
    "attributes": ["ink"],
    "roles": {"test": 20},
}
TWO = {"a": DIGITS, "b": {**DIGITS, "options": {**DIGITS["options"], "seed": 3}}}
SC = {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2}
GROUPDRO = {"erm": {}, "groupdro": {}}


def plan_of(**fields: Any) -> Plan:
    values = {
        "data": {"digits": DIGITS},
        "shifts": {"none": [], "SC": SC},
        "models": ["mlp"],
        "methods": ["erm"],
        "seeds": 1,
    }
    return make_plan(study_from({**values, **fields}))


def refused(**fields: Any) -> str:
    with pytest.raises(InputError) as error:
        plan_of(**fields)
    return str(error.value)


def test_a_rate_of_a_method_beside_several_rates_of_the_study_is_refused() -> None:
    noisy = {"erm": {}, "noisy": {"method": "erm", "label_noise": 0.2}}
    text = refused(methods=noisy, label_noise=[0.0, 0.4])
    assert text.startswith("methods.noisy.label_noise: is a rate of its own")
    for rate in (0.4, [0.4], 0.0):
        plan = plan_of(methods=noisy, label_noise=rate)
        rates = {job.spec["split"]["label_noise"] for job in plan.jobs if job.kind == "fit"}
        assert rates == {0.2, 0.4 if rate else 0.0}


def test_a_setting_of_switches_is_warned_of_where_no_method_has_one() -> None:
    def warned(methods: list[str], **training: Any) -> list[str]:
        plan = plan_of(
            methods=methods, training=training, environments=["ink"], shifts={"none": []}
        )
        return [text for text in plan.warnings if "select_before_switch" in text]

    (text,) = warned(["erm"], select_before_switch=True)
    assert text.startswith("training.select_before_switch: changes nothing here")
    assert not warned(["erm"]) and not warned(["erm", "irm"], select_before_switch=True)


def test_resources_are_said_to_be_of_a_cluster() -> None:
    methods = {"erm": {}, "groupdro": {"resources": {"gpus": 1}}}
    notes = plan_of(resources={"gpus": 0.5}, methods=methods).notes
    fields = [note.split(":")[0] for note in notes if "only --engine ray uses it" in note]
    assert fields == ["resources", "methods.groupdro.resources"]
    assert not any("cluster" in note for note in plan_of().notes)


@pytest.mark.parametrize("sizes", [{"few": 10, "many": 20}, {"equal": "equal", "all": "all"}])
def test_several_sizes_beside_a_number_of_rows_in_all_are_told_to_be_one(sizes: Any) -> None:
    def said(**fields: Any) -> list[str]:
        return [text for text in plan_of(**fields).warnings if "how many rows train" in text]

    (text,) = said(sizes=sizes, dataset_size=[50, 100])
    assert f"the sizes {', '.join(sizes)} draw the same" in text
    name = next(iter(sizes))
    assert not said(sizes=sizes) + said(sizes={name: sizes[name]}, dataset_size=50)


@pytest.mark.parametrize("size", ["equal", "all", 10, {"total": 80}])
def test_a_number_of_rows_in_all_takes_the_place_of_a_size(size: Any) -> None:
    plan = plan_of(sizes={"only": {"digits": {"SC": size}}}, dataset_size=[50, 100])
    assert [(draw.shift, draw.train_rows) for draw in plan.draws] == [("SC", 50), ("SC", 100)]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"sizes": {"equal": {"a": "equal"}}, "entry": {"data": ["b"]}}, "methods.groupdro: "),
        ({"sizes": {"x": {"a": {"none": 9}}}, "entry": {"shifts": ["SC"]}}, "methods.groupdro: "),
        (
            {
                "models": {"mlp": {"data": ["a"]}, "cnn": {}},
                "entry": {"data": ["b"], "models": ["mlp"]},
            },
            "methods.groupdro: ",
        ),
        (
            {"sizes": {"equal": {"a": "equal"}}, "models": {"mlp": {"data": ["b"]}, "cnn": {}}},
            "models.mlp.data: ",
        ),
    ],
)
def test_a_method_or_a_model_that_no_run_has_is_refused(fields: dict[str, Any], field: str) -> None:
    methods = {"erm": {}, "groupdro": fields.pop("entry", {})}
    assert refused(data=TWO, methods=methods, **fields).startswith(field)


def test_a_method_on_some_of_the_runs_is_planned_there() -> None:
    methods = {"erm": {}, "groupdro": {"data": ["b"], "shifts": ["SC"]}}
    labels = [job.labels for job in plan_of(data=TWO, methods=methods).runs]
    own = [label for label in labels if label["method"] == "groupdro"]
    assert [(label["data"], label["shift"]) for label in own] == [("b", "SC")]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (
            {"smapler": "balanced"},
            "smapler', did you mean 'sampler'? (valid: method, training, sampler, groups",
        ),
        ({"lr": 0.1}, "methods.erm.lr: is a setting of the training loop: training: {lr: ...}"),
        ({"learning_rate": 0.1}, "'learning_rate', did you mean training: {lr: ...}?"),
        ({"trainig": {"lr": 0.1}}, "did you mean 'training'?"),
    ],
)
def test_a_slip_in_the_entry_of_a_method_is_told_with_what_an_entry_may_have(
    entry: dict[str, Any], says: str
) -> None:
    assert says in refused(methods={"erm": entry})
    assert says.replace("erm", "groupdro").split(" (valid")[0] in refused(
        methods={"erm": {}, "groupdro": entry}
    )


def test_a_slip_in_the_entry_of_a_model_is_told_with_what_an_entry_may_have() -> None:
    says = refused(models={"mlp": {"modle": "mlp"}})
    valid = "weights, weights_sha256, hidden, layers, model, data, each"
    assert f"did you mean 'model'? (valid: {valid})" in says


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        ({"cpu": 2}, "resources.cpu: unknown resource 'cpu', did you mean 'cpus'?"),
        ({"cpus": 0}, "resources.cpus: must be a number above 0"),
        ({"cpus": float("inf")}, "resources.cpus: must be a number above 0, not inf"),
        ({"gpus": float("nan")}, "resources.gpus: must be a number of 0 or more, not nan"),
        ({"memory": "lots"}, "resources.memory: 'lots' is no amount of memory"),
        ({"memory": 0}, "resources.memory: must be above 0; left out, memory is not counted"),
        ({"memory": "0GB"}, "resources.memory: must be above 0"),
    ],
)
def test_resources_of_a_study_are_read_when_it_is_planned(
    resources: dict[str, Any], says: str
) -> None:
    assert refused(resources=resources).startswith(says)


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("Seeds", "did you mean 'seeds'?"),
        ("Training", "did you mean 'training'?"),
        ("stepz", "did you mean 'training.steps'?"),
    ],
)
def test_a_field_that_is_written_in_capitals_is_told_by_its_name(field: str, says: str) -> None:
    assert says in refused(**{field: 3})


@pytest.mark.parametrize(
    ("derive", "says"),
    [
        ({"name": "fog", "values": {}, "mode": "each"}, "data.digits.derive."),
        ([{"name": "fog", "values": 3}], "data.digits.derive.0.values: must be a mapping, not 3"),
        ({"nam": "fog"}, "data.digits.derive.nam: unknown field 'nam', did you mean 'name'?"),
    ],
)
def test_a_derived_attribute_is_told_by_the_words_of_the_study(derive: Any, says: str) -> None:
    text = refused(data={"digits": {**DIGITS, "derive": derive}})
    assert says in text
    assert "Spec" not in text


@pytest.mark.parametrize("number", ["1_0", "\u0661", "1e_1"])
def test_a_number_is_written_in_digits_alone(number: str) -> None:
    shifts = {"SC": {**SC, "counterexamples": number}}
    assert refused(shifts=shifts).startswith("shifts.SC.counterexamples: must be a number")


@pytest.mark.parametrize(
    ("unit", "roles", "says"),
    [
        (
            "ink",
            {"test": 25},
            "data.digits.roles: leave no row to train on: the 1,797 rows of digits are of 3 units",
        ),
        ("half", {"test": 25}, "are of 2 units, and all rows of a unit have one role"),
        (
            "ink",
            {"test": 0.2, "validation": 0.2},
            "has no rows: roles.validation leaves none of its 3 units",
        ),
        ("half", {"test": 0.1}, "leaves no test row for set 'test': it has 2 units"),
    ],
)
def test_units_that_leave_a_role_without_rows_are_told(
    unit: str, roles: dict[str, Any], says: str
) -> None:
    assert says in refused(data={"digits": {**DIGITS, "unit": unit, "roles": roles}})


def test_the_rules_that_a_study_could_select_by_are_told() -> None:
    says = refused(selection=["best-ood"])
    assert says.endswith(
        "'sets' has none (valid: best-id, best-id-worst-group, best-id-balanced-accuracy, last)"
    )


def test_a_cell_that_lacks_less_than_a_row_can_show_is_not_warned_of() -> None:
    plan = plan_of(
        data={"digits": {**DIGITS, "attributes": ["ink", "background"], "roles": {"test": 62}}}
    )
    lacking = [text for text in plan.warnings if "rows that were asked for" in text]
    assert lacking
    for text in lacking:
        got, asked = text.partition(" has ")[2].split(" of the ")
        assert float(got) < float(asked.split()[0])


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        (["x", "zz"], "data.t.options.numbers: unknown column of t.csv 'zz', did you mean 'z'?"),
        (["x", "kind"], "data.t: t.csv, column 'kind' cannot be read as numbers"),
    ],
)
def test_a_slip_in_the_columns_of_numbers_is_told_before_other_columns_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numbers: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{row % 2},{'ab'[row % 2]},{row + 0.5},{row / 7}" for row in range(120)]
    Path("t.csv").write_text("\n".join(["y,kind,x,z", *rows]), encoding="utf-8")
    options = {"path": "t.csv", "numbers": numbers}
    entry = {"source": "features", "options": options, "label": "y", "attributes": ["kind"]}
    with pytest.raises(CrosswindError) as error:
        plan_of(data={"t": entry}, shifts={"none": []})
    assert says in str(error.value).replace(f"{tmp_path}/", "")


def test_rows_of_a_unit_that_an_official_split_tears_are_told() -> None:
    official = {"column": "ink", "train": ["red"], "test": ["green", "blue"]}
    entry = {
        **DIGITS,
        "attributes": ["background"],
        "unit": "digit",
        "roles": {"official": official},
    }
    text = refused(data={"digits": entry}, shifts={"none": []})
    first, second = (
        int(word.replace(",", "")) - 1
        for word in re.findall(r"rows ([\d,]+) and ([\d,]+)", text)[0]
    )
    digits = cw.load("digits", **DIGITS["options"])
    digit, ink = (digits.table.column(name) for name in ("digit", "ink"))
    assert digit[first] == digit[second]
    assert (ink[first] == 0) != (ink[second] == 0)


def test_a_set_of_another_data_set_reads_the_label_of_ours_and_says_so() -> None:
    other = {**DIGITS, "label": "digit", "options": {**DIGITS["options"], "seed": 3}}
    fields = {
        "sizes": {"equal": {"a": "equal"}},
        "sets": {
            "validation": {"role": "validation", "law": "train"},
            "other": {"role": "test", "source": "b"},
        },
    }
    says = "set other reads 'half' of b, which a predicts, and not its label 'digit'"
    plan = plan_of(data={"a": DIGITS, "b": other}, **fields)
    assert [text for text in plan.warnings if says in text]
    assert not [text for text in plan_of(data=TWO, **fields).warnings if "and not its" in text]
    grid = {"kind": ["x", "y"], "ink": ["red", "green", "blue"]}
    lacking = {**DIGITS, "source": "factors", "options": {"grid": grid}, "label": "kind"}
    text = refused(data={"a": DIGITS, "b": lacking}, **fields)
    assert text.startswith("sets.other.source: 'b' has no attribute 'half', which 'a' predicts")


def test_a_pool_without_estimators_is_refused() -> None:
    assert refused(pool_rows=9).startswith("pool_rows: is 9, and the study has no estimators")
    assert plan_of(pool_rows=9, estimators=["atc-mc"]).runs


def test_a_largest_number_of_clusters_beside_their_number_is_refused() -> None:
    clusters = {"features": "pixels", "k": 3, "max_k": 5}
    entry = {**DIGITS, "attributes": ["ink", "cluster"], "clusters": clusters}
    text = refused(data={"digits": entry})
    assert text.startswith("data.digits.clusters.max_k: belongs to k: silhouette, and k is 3")


@pytest.mark.parametrize(
    "fields",
    [
        {"attributes": ["ink", "cluster"]},
        {"unit": "cluster", "roles": {"test": 0.3, "validation": 5}},
        {"keep": {"cluster": [0, 1]}},
        {"label": "cluster"},
        {"sets": {"law": {"type": "only", "attribute": "cluster", "values": [0]}}},
        {},
    ],
)
def test_clusters_that_nothing_reads_are_warned_of(fields: dict[str, Any]) -> None:
    law = fields.pop("sets", {})
    sets = {
        "validation": {"role": "validation", "law": "without-supplements"},
        "test": {"role": "test", **law},
    }
    entry = {**DIGITS, "clusters": {"features": "pixels", "k": 3}, **fields}
    plan = plan_of(data={"digits": entry}, shifts={"none": []}, sets=sets, selection=["last"])
    unread = [text for text in plan.warnings if "is computed and read by nothing" in text]
    assert len(unread) == (not fields and not law)


@pytest.mark.parametrize("source", ["features", "texts", "factors"])
def test_a_cell_without_a_value_is_told_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{row % 2},{'ab'[row % 3 % 2]},{row + 0.5},good {row},{'' if row == 6 else 1}"
        for row in range(120)
    ]
    Path("t.csv").write_text("\n".join(["y,kind,x,text,note", *rows]), encoding="utf-8")
    columns = ["y", "kind", *(["note"] if source == "factors" else [])]
    inputs = {"features": {"numbers": ["x"]}, "texts": {}, "factors": {"columns": columns}}
    options = {"path": "t.csv", **inputs[source]}
    if source == "texts":
        options["columns"] = ["y", "kind", "note"]
    entry = {"source": source, "options": options, "label": "y", "attributes": ["kind"]}
    models = ["bag-of-words"] if source == "texts" else ["mlp"]
    with pytest.raises(CrosswindError) as error:
        plan_of(data={"t": entry}, shifts={"none": []}, models=models)
    assert (
        "column 'note', row 7 has no value; fill it in, or leave the column out: 'columns'"
        in str(error.value)
    )
    entry["options"]["columns"] = ["y", "kind"]
    assert plan_of(data={"t": entry}, shifts={"none": []}, models=models).runs


def test_any_of_several_classes_that_a_label_stands_for_is_right(tmp_path: Path) -> None:
    """Ours are ten digits; theirs, of other rows, are 'low' for five of them and 'high'."""
    rows = np.random.default_rng(0).integers(0, 10, 400)
    ours = {"digit": [str(digit) for digit in rows], "site": ["a", "b"] * 200}
    theirs = {**ours, "digit": ["low" if digit < 5 else "high" for digit in rows]}
    numbers = np.random.default_rng(1).normal(size=(400, 3)) + rows[:, None]
    entry = {"label": "digit", "attributes": ["site"], "roles": {"test": 2, "validation": 2}}
    several = {
        "low": [str(digit) for digit in range(5)],
        "high": [str(digit) for digit in range(5, 10)],
    }
    study = {
        "data": {
            "ours": {
                **entry,
                "source": cw.from_frame({**ours, **_columns(numbers)}, numbers=list("xyz")),
            },
            "theirs": {
                **entry,
                "source": cw.from_frame(
                    {**theirs, **_columns(numbers + 0.01)}, numbers=list("xyz")
                ),
            },
        },
        "shifts": {"none": []},
        "sizes": {"all": {"ours": "all"}},
        "sets": {
            "validation": {"role": "validation", "law": "train", "draw": "all"},
            "merged": {"role": "test", "source": "theirs", "labels": several},
            "first": {"role": "test", "source": "theirs", "labels": {"low": "0", "high": "5"}},
        },
        "models": {"mlp": {"layers": 1, "hidden": 16}},
        "training": {"steps": 60, "validate_every": 30, "lr": 0.03},
        "seeds": 1,
    }
    results = cw.run_study(study, tmp_path / "out")
    right = {
        row["set"]: row["metrics"]["accuracy"] for row in results.rows if row["rule"] == "best-id"
    }
    assert right["merged"] > 0.75 > 0.5 > right["first"]
    answers = {
        job.spec["set"]: job.spec["item"] for job in cw.plan(study).jobs if job.kind == "predict"
    }
    assert answers["merged"]["answers"] == "all"  # another key than where only the first was right
    assert "answers" not in answers["first"]


def _columns(numbers: Any) -> dict[str, Any]:
    return dict(zip("xyz", numbers.T.tolist(), strict=True))
