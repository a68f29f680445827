"""Networks of a study as a pool on its page: which are in it, what is in domain, whose numbers are
shown, and the words."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from crosswind.evaluation.metrics import estimate_metrics
from crosswind.evaluation.pools import judge
from crosswind.reports.gather import StudyRecord
from crosswind.reports.page import study_page
from crosswind.reports.pools.estimate_sections import estimates, pools
from crosswind.reports.pools.networks import pools_of
from crosswind.reports.scores.results import arrange

CLEAN = {"type": "only", "attribute": "severity", "values": ["clean"]}
SETS = {
    "test": {"role": "test", "law": CLEAN},
    "noise": {"role": "test", "law": {**CLEAN, "values": [1, 3]}},
    "usps": {"role": "test", "law": "uniform", "source": "usps"},
    "fog": {"role": "test", "law": "uniform", "source": "foggy"},
}
RESOLVED: dict[str, Any] = {
    "shifts": {"none": CLEAN},
    "sets": SETS,
    "models": {"small": {"model": "cnn"}, "large": {"model": "cnn"}, "deep": {"model": "nin"}},
    "methods": {"erm": {}, "flip-crop": {"method": "imagenet"}},
    "estimators": {
        "ni-randaugment": {},
        "ne-randaugment": {"estimator": "ni-randaugment", "form": "entropy"},
        "ni-erase": None,
        "atc-mc": {},
    },
    "training": {"fit_at": 0.99},
    "selection": ["last"],
    "reference": "erm",
}


def results(
    resolved: dict[str, Any] = RESOLVED,
    seeds: int = 2,
    missed: tuple[str, ...] = ("deep, erm, seed 1",),
) -> list[dict[str, Any]]:
    """Every network on every set: measures rise with accuracy, by neighbourhood more or less; ATC
    falls."""
    random, rows = np.random.default_rng(0), []
    for model, method, seed in (
        (m, k, s) for m in resolved["models"] for k in resolved["methods"] for s in range(seeds)
    ):
        skill = random.uniform(0, 0.3)
        for set_number, name in enumerate(resolved["sets"]):
            accuracy = 0.6 + skill - 0.1 * set_number
            metrics: dict[str, Any] = {"role": "test", "accuracy": accuracy, "n": 100}
            metrics["fitted"] = f"{model}, {method}, seed {seed}" not in missed
            for label, noise in (
                ("ni-randaugment", 0.001),
                ("ne-randaugment", 0.05),
                ("ni-erase", 0.3),
            ):
                measure = {"measure": accuracy + random.normal(0, noise)}
                measure["entropy_rise"] = 0.02 + 0.2 * (label == "ni-erase") + 0.01 * set_number
                metrics |= estimate_metrics(label, measure, accuracy)
            estimate = float(np.clip(0.9 - accuracy / 2 + random.normal(0, 0.01), 0, 1))
            metrics |= estimate_metrics(
                "atc-mc",
                {"accuracy": estimate, "low": estimate - 0.1, "high": estimate + 0.1},
                accuracy,
            )
            run = {
                "study": "s",
                "data": "mnist",
                "shift": "none",
                "size": "all",
                "model": model,
                "method": method,
                "point": "",
            }
            rows.append(
                {
                    **run,
                    "seed": seed,
                    "rule": "last",
                    "set": name,
                    "status": "finished",
                    "reason": "",
                    "metrics": metrics,
                }
            )
    return rows


def record(rows: list[dict[str, Any]], resolved: dict[str, Any] = RESOLVED) -> StudyRecord:
    return StudyRecord("store", "s", {}, resolved, 0.0, arrange(rows), [], [], [], 0, {})


def test_a_pool_is_made_of_the_networks_that_reached_the_criterion() -> None:
    (pool,) = pools_of(record(results()).places, RESOLVED)
    assert pool.missed == ["deep, erm, seed 1"]
    assert len(pool.methods) == 11
    assert list(pool.criteria.values()) == [0.99] * 12
    assert set(pool.missed) < pool.criteria.keys()
    assert pool.architectures == {"cnn": 8, "nin": 3}
    assert pool.apart
    assert pool.direct == {"atc-mc"}


def test_a_pool_has_the_values_of_every_network_on_every_set() -> None:
    (pool,) = pools_of(record(results()).places, RESOLVED)
    points = pool.values["ni-randaugment"]
    assert len(points) == 11 * 4
    assert {point.training for point in points} == {"mnist"}
    assert {point.test for point in points} == {
        "mnist",
        "noise",
        "usps",
        "fog",
    }, "the test set is in domain"
    assert pool.neighbourhoods == {
        "ni-randaugment": "largest",
        "ne-randaugment": "entropy",
        "ni-erase": "largest",
    }
    assert pool.rises == pytest.approx(
        {"ni-randaugment": 0.04, "ne-randaugment": 0.04, "ni-erase": 0.24}
    ), "places 1, 2 and 3"
    assert {pool.methods[name] for name in pool.methods} == {"erm", "flip-crop"}
    estimate = {(p.network, p.test): p for p in pool.values["atc-mc"]}["small, erm, seed 0", "usps"]
    assert estimate.low == pytest.approx(estimate.value - 0.1)
    assert estimate.high == pytest.approx(estimate.value + 0.1)
    shown = pool.shown()
    assert len(shown["atc-mc"]) == 44 and len(shown["ni-randaugment"]) == 33, (
        "no line tells the domain of training"
    )
    assert max(abs(p.value - p.accuracy) for p in shown["ni-randaugment"]) < 0.02


@pytest.mark.slow
def test_two_shifts_are_two_training_domains_and_each_the_others_test() -> None:
    dark = {"type": "only", "attribute": "severity", "values": ["dark"]}
    sets = {
        "clean": {"role": "test", "law": CLEAN},
        "dark": {"role": "test", "law": dark},
        "usps": SETS["usps"],
    }
    resolved = {**RESOLVED, "shifts": {"none": CLEAN, "dark": dark}, "sets": sets}
    rows = [
        {**row, "shift": shift}
        for shift in ("none", "dark")
        for row in results(resolved, missed=())
    ]
    (pool,) = pools_of(record(rows, resolved).places, resolved)
    pairs = {(p.training, p.test) for p in pool.values["ni-randaugment"]}
    names = ("mnist under none", "mnist under dark")
    assert pairs == {(a, b) for a in names for b in (*names, "usps")}
    assert len(pool.methods) == 24
    assert (
        "on 3 shifted test domains and in domain. A training domain is shifted"
        in record(rows, resolved).pools[0].intro()[0]
    )
    tables = record(rows, resolved).pools[0].tables
    (measures,) = tables["all"]
    assert "1 - SSE/SST, training" in measures.columns
    assert "micro tau" in measures.columns


def test_over_draws_of_one_domain_no_claim_is_judged() -> None:
    law = {**CLEAN, "values": [1, 3]}
    sets = {
        name: {"role": "test", "law": law, "draw": {"total": total}}
        for name, total in (("ten", 10), ("many", 900))
    }
    resolved = {**RESOLVED, "sets": {"test": SETS["test"], **sets}}
    (judged_pool,) = record(results(resolved), resolved).pools
    assert judged_pool.pool.again == ["ten", "many"]
    assert judged_pool.decisions == []
    assert judged_pool.tables["claims"] == []
    assert any("The sets ten, many are draws of one domain" in text for text in judged_pool.intro())
    assert record(results()).pools[0].pool.again == []
    assert record(results()).pools[0].decisions


def test_few_networks_are_no_pool_and_one_is_judged_over_domains() -> None:
    small_study = {**RESOLVED, "models": {"small": {"model": "cnn"}}, "methods": {"erm": {}}}
    study = record(results(small_study, seeds=1), small_study)
    (judged_pool,) = study.pools
    assert not judged_pool.pool.judged
    assert list(judged_pool.tables) == ["one network"]
    (table,) = judged_pool.tables["one network"]
    assert table.rows[0][0] == "ni-randaugment"
    assert table.rows[0][1:] == ("1.000", 1)
    assert "no interval from 1 networks." in table.notes
    two_domains = {**small_study, "sets": {name: SETS[name] for name in ("test", "noise")}}
    assert record(results(two_domains), two_domains).pools == []
    none = {**RESOLVED, "estimators": {}}
    assert record(results(none), none).pools == []


@pytest.fixture(scope="module")
def study() -> StudyRecord:
    return record(results())


def test_the_page_begins_with_the_pool_and_who_was_left_out(study: StudyRecord) -> None:
    section = pools(study)
    assert [group.title for group in section.groups] == [
        "the pool",
        "estimated against true accuracy",
        "by test domain",
        "by what a line is fitted on",
        "by training method and architecture",
        "estimators and forms compared",
        "one network over many domains",
    ]
    first = section.groups[0]
    assert (
        "11 networks (8 cnn, 3 nin) trained on mnist, on 3 shifted test domains and in domain."
        in first.intro[0]
    )
    assert first.intro[1].endswith(
        "1 of 12 took all their steps without it, and are in none of these numbers: deep, erm,"
        " seed 1."
    )
    assert "ni-erase +0.24" in first.intro[2]
    assert "fails above 0.1" in first.intro[2]
    assert "ne-" not in first.intro[2]


def test_the_page_has_the_claims_and_the_numbers_of_direct_estimators(study: StudyRecord) -> None:
    (judged_pool,) = study.pools
    first = pools(study).groups[0]
    claims, measures = first.tables
    tested = [(row[0], row[1], row[2]) for row in claims.rows]
    assert [row[0] for row in tested] == [
        1,
        1,
        2,
        2,
        3,
        3,
        4,
    ], "two neighbourhoods in the paper's form, one ATC"
    assert tested[0][1] == "holds"
    assert "ni-randaugment less that of atc-mc" in tested[0][2]
    (words,) = first.lists
    assert [sentence.split(",")[0] for sentence in words[1]] == [f"Claim {i}" for i in (1, 2, 3, 4)]
    direct = judge(judged_pool.pool.values["atc-mc"], estimates=True)
    row = next(row for row in measures.rows if row[0] == "atc-mc")
    assert str(row[1]).startswith(f"{direct.fits['test'].r2.value:.3f} [")


def test_the_page_has_a_table_for_each_part_of_the_pool(study: StudyRecord) -> None:
    section = pools(study)
    tables = {table.name: table for group in section.groups for table in group.tables}
    lines = tables["pool-mnist-lines"]
    uses = {row[1]: row[2] for row in lines.rows}
    assert uses == {
        "test": "no",
        "in-sample": "yes",
        "architecture": "yes",
        "architecture and test": "no",
        "estimate": "no",
    }
    assert tables["pool-mnist-tau"].columns == ("measure", "mnist", "noise", "usps", "fog")
    assert [row[0] for row in tables["pool-mnist-methods"].rows] == ["erm"] * 4 + ["flip-crop"] * 4
    assert [row[0] for row in tables["pool-mnist-architectures"].rows] == ["cnn"] * 4 + ["nin"] * 4


def test_tables_of_a_part_have_the_tau_of_its_networks_alone(study: StudyRecord) -> None:
    (judged_pool,) = study.pools
    section = pools(study)
    tables = {table.name: table for group in section.groups for table in group.tables}
    points = judged_pool.pool.values["ni-erase"]
    for name, column, mine, apart in (
        ("architectures", "nin", [p for p in points if p.architecture == "nin"], True),
        (
            "methods",
            "flip-crop",
            [p for p in points if judged_pool.pool.methods[p.network] == "flip-crop"],
            False,
        ),
    ):
        alone = judge(mine, by_architecture=apart).macro_tau
        (printed_row,) = (
            row for row in tables[f"pool-mnist-{name}"].rows if row[:2] == (column, "ni-erase")
        )
        assert any(
            str(cell).startswith(f"{alone.value:.3f} ") or cell == f"{alone.value:.3f}"
            for cell in printed_row[6:8]
        ), name


def test_forms_and_other_estimators_are_compared_in_tables(study: StudyRecord) -> None:
    section = pools(study)
    tables = {table.name: table for group in section.groups for table in group.tables}
    (form,) = (table for name, table in tables.items() if "forms" in name)
    assert [row[0] for row in form.rows] == ["ne-randaugment"]
    assert "pool-mnist-less-atc-mc" in tables
    assert len(tables) == 10


def test_the_page_and_the_tables_of_numbers_have_the_pool_once(study: StudyRecord) -> None:
    assert not estimates(study).groups, "one figure for all networks, not one for each"
    page = study_page([study], "store")
    for text in (
        "What Ng et al. 2022 claim",
        "of 12 took all their steps",
        "nobody has in practice",
        "One network over many domains",
    ):
        assert text in page
    tested, numbers = study.number_tables(every=True)[-2:]
    assert tested.name == "pool-mnist-claims"
    assert [number_table.name for number_table in study.number_tables(every=False)] == ["numbers"]
    assert numbers.name == "pool-mnist-numbers"
    assert len(numbers.rows) == 3 * (3 * (5 + 4 * 5) + 5 + 4 * 6) + 12 * 4 * 3
    assert json.dumps([table.to_json() for table in study.text_tables()])


def test_networks_that_all_reached_it_are_said_so_and_without_a_criterion_nothing_is() -> None:
    assert "All networks reached it." in record(results(missed=())).pools[0].intro()[1]
    free = {**RESOLVED, "training": {}}
    free_record = record(
        [
            {**row, "metrics": {k: v for k, v in row["metrics"].items() if k != "fitted"}}
            for row in results(free)
        ],
        free,
    )
    assert len(free_record.pools[0].pool.methods) == 12
    assert "Training stopped" not in " ".join(free_record.pools[0].intro())


def test_methods_with_a_criterion_of_their_own_or_none_are_told_apart() -> None:
    own_criterion: dict[str, Any] = {
        **RESOLVED,
        "methods": {"erm": {}, "flip-crop": {"method": "imagenet", "training": {"fit_at": 0.8}}},
    }
    assert (
        "when 99% (of 6 networks), 80% (of 6 networks) of the training rows"
        in record(results(own_criterion, missed=()), own_criterion).pools[0].intro()[1]
    )
    free = {
        **own_criterion,
        "methods": {"erm": {}, "flip-crop": {"method": "imagenet", "training": {"fit_at": None}}},
    }
    for missed, words in (
        ((), "All 6 networks with this criterion reached it."),
        (("deep, erm, seed 1",), "1 of 6 took all their"),
    ):
        rows = results(free, missed=missed)
        for row in rows:
            if row["method"] == "flip-crop":
                del row["metrics"]["fitted"]
        intro = record(rows, free).pools[0].intro()[1]
        assert words in intro
        assert intro.endswith("The other 6 networks had no such criterion.")
        assert intro.startswith("Training stopped when 99% of the training rows")
