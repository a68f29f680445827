"""What a study asks for and no run would have is refused, not left out without a word."""

from __future__ import annotations

from typing import Any

import pytest

from crosswind.core.errors import InputError
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


@pytest.mark.parametrize("sizes", [{"few": 10, "many": 20}, {"equal": "equal", "all": "all"}])
def test_several_sizes_beside_a_number_of_rows_in_all_are_refused(sizes: Any) -> None:
    text = refused(sizes=sizes, dataset_size=[50, 100])
    assert text.startswith("dataset_size: says how many rows train")
    assert all(name in text for name in sizes)


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
