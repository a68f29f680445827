"""Neighbourhood invariance of models of numbers: votes by hand, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crosswind as cw
from crosswind.core.errors import InputError
from crosswind.data.copies import copies
from crosswind.data.sources.hypersphere import Hypersphere
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

OPTIONS = {"rows": 40, "clouds": 1, "angles": [0, 0.25, 0.5, 1], "dimensions": 3, "variance": 0.02}
SPHERE: dict[str, Any] = {
    "source": "hypersphere",
    "options": OPTIONS,
    "label": "side",
    "attributes": ["angle"],
    "roles": {
        "official": {
            "column": "split",
            "train": ["train"],
            "validation": ["validation"],
            "test": ["test"],
        }
    },
}
STUDY: dict[str, Any] = {
    "name": "vectors",
    "data": {"sphere": SPHERE},
    "shifts": {"pole": {"type": "only", "attribute": "angle", "values": [0]}},
    "sizes": {"all": "all"},
    "sets": {
        "validation": {"role": "validation", "law": "train", "draw": "all"},
        **{
            f"at-{angle}": {
                "role": "test",
                "law": {"type": "only", "attribute": "angle", "values": [angle]},
                "draw": "all",
            }
            for angle in (0.25, 0.5, 1)
        },
    },
    "models": {"mlp": {"hidden": 4, "layers": 1}},
    "methods": ["erm"],
    "estimators": {"near": {"estimator": "ni", "transform": "along-sphere", "reach": 0.3}},
    "training": {"steps": 4, "validate_every": 4, "batch": 16},
    "selection": ["last"],
    "seeds": 1,
}
DIGITS: dict[str, Any] = {"source": "digits", "label": "digit", "attributes": ["ink"]}

FUNCTION = """
import numpy as np

def by_length(x):
    return (np.linalg.norm(x, axis=1) <= 1).astype(np.int64)

def by_first(x):
    return (x[:, 1] > 0).astype(np.int64)
"""


@pytest.mark.parametrize("function", ["by_length", "by_first"])
def test_the_share_of_equal_votes_is_that_of_the_copies_themselves(
    function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model by the length of a row is as steady along its sphere as can be, and right; one by
    another number is neither, and noise moves both."""
    (tmp_path / "rules.py").write_text(FUNCTION, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    estimators = {
        **STUDY["estimators"],
        "noise": {"estimator": "ni", "transform": "jitter", "scale": 0.1, "neighbours": 5},
    }
    values = {
        **STUDY,
        "models": {"rule": {"model": "callable", "function": f"rules.py:{function}"}},
        "estimators": estimators,
    }
    rows = {row["set"]: row["metrics"] for row in cw.run_study(values, tmp_path / "out").rows}
    dataset = Hypersphere(**OPTIONS).load()
    rules: dict[str, Any] = {}
    exec(FUNCTION, rules)
    for position, angle in enumerate((0, 0.25, 0.5, 1)):
        if angle == 0:
            continue
        at_angle = dataset.table.column("angle") == position
        chosen = np.flatnonzero(at_angle)
        for label, chain, number in (
            ("near", (("along-sphere", {"reach": 0.3}),), 10),
            ("noise", (("jitter", {"scale": 0.1}),), 5),
        ):
            copied = copies(dataset, chosen, [(), *[chain] * number])
            votes = rules[function](copied.inputs(np.arange(copied.n_base)))
            ones = votes.reshape(len(chosen), number + 1).mean(axis=1)
            expected = np.maximum(ones, 1 - ones).mean()
            assert rows[f"at-{angle}"][f"measure:{label}"] == pytest.approx(expected)
        steady = rows[f"at-{angle}"]["measure:near"] == 1
        assert steady == (function == "by_length") and rows[f"at-{angle}"]["measure:noise"] < 1
        assert (rows[f"at-{angle}"]["accuracy"] == 1) == (function == "by_length")


def test_neighbours_of_other_settings_are_other_jobs() -> None:
    def key(**entry: Any) -> str:
        estimators = {"near": {"estimator": "ni", **entry}}
        plan = make_plan(study_from({**STUDY, "estimators": estimators}))
        (job, *_) = (job for job in plan.jobs if job.kind == "vary")
        return job.key

    same = key(transform="along-sphere", reach=0.01)
    assert same == key(transform="along-sphere")
    others = {
        key(transform="along-sphere", reach=0.02),
        key(transform="along-sphere", distances="even"),
        key(transform="jitter"),
        key(transform="jitter", deviations=[1, 0, 1]),
    }
    assert len(others | {same}) == 5


@pytest.mark.parametrize(
    ("entry", "data", "field", "sentence", "choices"),
    [
        (
            {"estimator": "ni", "transform": "rotate", "degrees": 20},
            SPHERE,
            "estimators.near.transform",
            "its neighbours are changed images, and data.only has features of 3 numbers; name a"
            " transform of these",
            ["along-sphere", "jitter"],
        ),
        (
            {"estimator": "ni", "transform": "eda"},
            SPHERE,
            "estimators.near.transform",
            "its neighbours are changed texts, and data.only has features of 3 numbers; name a"
            " transform of these",
            ["along-sphere", "jitter"],
        ),
        (
            {"estimator": "ni-translate"},
            SPHERE,
            "estimators.near",
            "its neighbours are changed images, and data.only has features of 3 numbers",
            ["ni: {transform: along-sphere}", "ni: {transform: jitter}"],
        ),
        (
            {"estimator": "ni", "transform": "jitter", "deviations": [1.0, 1.0]},
            SPHERE,
            "estimators.near.deviations",
            "needs a number for each of the 3 columns of a row, not 2",
            (),
        ),
        (
            {"estimator": "ni", "transform": "jitter", "reach": 0.1},
            SPHERE,
            "estimators.near.reach",
            "unknown setting of transform 'jitter': 'reach'",
            ["deviations", "scale"],
        ),
        (
            {"estimator": "ni", "transform": "along-sphere"},
            DIGITS,
            "estimators.near.transform",
            "its neighbours are changed numbers, and data.only has images of 32 x 32 x 3; name a"
            " transform of these",
            ["rotate"],
        ),
    ],
)
def test_neighbours_of_another_kind_are_refused_with_those_that_fit(
    entry: dict[str, Any], data: dict[str, Any], field: str, sentence: str, choices: list[str]
) -> None:
    of_digits: dict[str, Any] = {"shifts": {"none": []}, "sizes": {"equal": "equal"}}
    of_digits["sets"] = {
        "validation": {"role": "validation", "law": "train"},
        "test": {"role": "test"},
    }
    fields = of_digits if data is DIGITS else {}
    values = {**STUDY, **fields, "data": {"only": data}, "estimators": {"near": entry}, "seeds": 5}
    with pytest.raises(InputError, match=re.escape(sentence)) as refused:
        make_plan(study_from(values))
    assert refused.value.field == field and set(choices) <= set(refused.value.choices or ())


def test_a_measure_of_numbers_without_networks_to_rank_says_what_it_needs() -> None:
    """A pool is none of the remedies: numbers have none, and `pool_rows` is refused."""
    sets = {name: STUDY["sets"][name] for name in ("validation", "at-1")}
    with pytest.raises(
        InputError,
        match=(
            "estimators.near: is a measure, which becomes an accuracy by a pool, and numbers have"
            " none; train 5 networks or test on 3 sets, which it then ranks"
        ),
    ):
        make_plan(study_from({**STUDY, "sets": sets}))
    with pytest.raises(InputError, match="pool_rows: shows rows under changes of images or texts"):
        make_plan(study_from({**STUDY, "pool_rows": 30}))


def test_no_attribute_is_derived_by_a_transform_of_vectors() -> None:
    derive = {"name": "noise", "transform": "jitter", "values": {"none": None, "some": {}}}
    for data in (SPHERE, DIGITS):
        values = {**STUDY, "data": {"sphere": {**data, "derive": derive}}}
        with pytest.raises(
            InputError, match="derive.transform: 'jitter' makes neighbours of vectors, for the"
        ):
            make_plan(study_from(values))


def test_neighbours_between_the_values_of_a_category_are_refused(tmp_path: Path) -> None:
    """Half of north and half of south is no patient; noise on the numbers alone is one."""
    rows = [f"{'nes'[row % 3]},{row},{'yn'[row % 2]},{'ab'[row % 5 > 2]}" for row in range(120)]
    (tmp_path / "patients.csv").write_text(
        "\n".join(["site,age,ill,ward", *rows]), encoding="utf-8"
    )
    options = {"path": str(tmp_path / "patients.csv"), "numbers": ["age"], "categories": ["site"]}
    source = {"source": "table", "options": options, "label": "ill", "attributes": ["ward"]}

    def plan_by(**entry: Any) -> None:
        sets: dict[str, Any] = {"validation": {"role": "validation", "law": "train"}}
        sets |= {f"test-{number}": {"role": "test", "law": "uniform"} for number in range(3)}
        make_plan(
            study_from(
                {
                    **STUDY,
                    "data": {"patients": {**source, "roles": {"test": 5, "validation": 0.2}}},
                    "shifts": {"none": []},
                    "sizes": {"small": {"total": 30}},
                    "sets": sets,
                    "estimators": {"near": {"estimator": "ni", **entry}},
                }
            )
        )

    for entry in (
        {"transform": "along-sphere"},
        {"transform": "jitter"},
        {"transform": "jitter", "deviations": [1, 0, 0, 0.5]},
    ):
        with pytest.raises(InputError) as raised:
            plan_by(**entry)
        assert str(raised.value).startswith(
            "estimators.near.transform: its neighbours are between the values of the category"
            " 'site'; use jitter with a deviation of 0 for inputs of categories (deviations: "
            "[1, 0, 0, 0], with"
        )
    plan_by(transform="jitter", deviations=[1, 0, 0, 0])
