"""Several split seeds: crossed with seeds in the plan, kept by labels, and without an effect on
studies that have one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.studies.plans import of_kind

from crosswind.core.errors import InputError
from crosswind.execution.engines.inline import Inline
from crosswind.execution.scheduler import drive
from crosswind.reports.gather import gather
from crosswind.storage.store import Store
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.spec import study_from

STUDY: dict[str, Any] = {
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink", "size"],
            "roles": {"test": 2},
        }
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2},
    },
    "sizes": {"few": {"total": 100}},
    "models": ["mlp"],
    "methods": ["erm", "mixup", "jtt"],
    "training": {"steps": 20, "validate_every": 10},
    "seeds": 2,
}


def planned(**changes: Any) -> Plan:
    return make_plan(study_from({**STUDY, **changes}))


def test_every_split_seed_is_run_with_every_seed() -> None:
    plan = planned(split_seeds=[4, 7, 9], seeds=[1, 2])
    runs = [
        run
        for run in of_kind(plan, "fit")
        if run.labels["method"] == "erm" and run.labels["shift"] == "SC"
    ]
    pairs = [(run.labels["split_seed"], run.labels["seed"]) for run in runs]
    assert pairs == [(4, 1), (4, 2), (7, 1), (7, 2), (9, 1), (9, 2)]
    assert [(run.spec["split"]["split_seed"], run.spec["seed"]) for run in runs] == pairs
    assert (
        len({run.key for run in plan.runs}) == len(plan.runs) == 3 * len(planned(seeds=[1, 2]).runs)
    )
    assert len(plan.draws) == 2  # one a shift, not one a split seed
    keys = {job.key for job in plan.jobs}
    assert all(set(job.needs) <= keys for job in plan.jobs)


def test_a_run_is_the_same_whether_its_split_seed_stands_alone_or_not() -> None:
    alone = [run.key for split_seed in (0, 5) for run in planned(split_seed=split_seed).runs]
    assert sorted(alone) == sorted(run.key for run in planned(split_seeds=[0, 5]).runs)
    assert [run.key for run in planned(split_seeds=1).runs] == [run.key for run in planned().runs]


def test_sizes_are_equal_under_every_split_seed() -> None:
    """Alone the split seeds leave 438 and 437 rows; together both train on 437, so that sizes do
    not differ."""
    data = {"digits": {**STUDY["data"]["digits"], "roles": {"test": 0.2}}}
    totals = [
        planned(data=data, sizes={"equal": "equal"}, split_seed=split_seed).draws[0].train_rows
        for split_seed in (0, 1)
    ]
    assert totals == [438, 437]
    together = planned(data=data, sizes={"equal": "equal"}, split_seeds=2)
    assert {run.spec["split"]["draw"]["total"] for run in of_kind(together, "fit")} == {437}


@pytest.mark.parametrize(
    "fields,says",
    [
        (
            {"split_seed": 0, "split_seeds": 2},
            "s.yaml: split_seeds: stands beside 'split_seed'; give one of them",
        ),
        ({"split_seeds": [1, 1]}, "s.yaml: split_seeds: must name at least one seed, each once"),
        ({"split_seeds": []}, "s.yaml: split_seeds: must name at least one seed, each once"),
        ({"split_seeds": 0}, "s.yaml: split_seeds: must be at least 1"),
        ({"split_seeds": [-1]}, "s.yaml: split_seeds"),
        (
            {"split_seeds": 2, "scales": {"tiny": {"split_seed": 1}}},
            "s.yaml: scales.tiny.split_seeds: stands beside 'split_seed'",
        ),
        (
            {"multiplicity": "bonferroni"},
            "multiplicity: 'bonferroni' is not valid (valid: holm, fdr, none)",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        study_from({**STUDY, **fields}, where="s.yaml")
    assert says in str(caught.value)


def test_the_plan_says_what_two_seeds_share() -> None:
    few, every = planned().draws[0], planned(sizes={"all": "all"}).draws[0]
    assert every.train_shared == 1.0 and every.to_json()["train_shared"] == 1.0
    assert 0 < few.train_shared < 0.5


@pytest.mark.slow
def test_a_study_of_split_seeds_from_plan_to_tables(tmp_path: Path) -> None:
    claims = [{"text": "mixed images help", "better": "mixup"}]
    plan = planned(
        split_seeds=2,
        methods=["erm", "mixup"],
        shifts={"none": []},
        claims=claims,
        training={"steps": 2},
    )
    with (
        Store.open(tmp_path, create=True) as store,
        Inline("crosswind.execution.jobs:execute") as engine,
    ):
        store.add_plan("study", {}, plan.study.model_dump(), plan.jobs)
        drive(store, plan.jobs, engine)
        rows = [
            row for row in store.results("study") if row["set"] == "test" and row["method"] == "erm"
        ]
        tables = {table.name: table for table in gather(store, "study", draws=False).text_tables()}
    assert [(row["split_seed"], row["seed"]) for row in rows if row["rule"] == "best-id"] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    metrics = rows[0]["metrics"]
    assert (metrics["classes"], metrics["majority"]) == (10, pytest.approx(0.1))
    assert metrics["train_shared"] == plan.draws[0].train_shared
    claimed = tables["claims-study"]
    assert dict(zip(claimed.columns, claimed.rows[0], strict=True))["runs"] == 4
    assert any(
        "2 split seeds x 2 seeds" in note for table in tables.values() for note in table.notes
    )
