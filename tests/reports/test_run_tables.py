"""Where the time of a study went: shares of what runs recorded, by this version and by earlier
ones, and the one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from crosswind.reports.runs.tables import costs, largest_part, time_table
from crosswind.reports.scores.figures import time_bars

SPENT = {
    "data": 1.0,
    "step": 5.0,
    "evaluation": 2.5,
    "waiting": 0.5,
    "prepare": 0.75,
    "other": 0.25,
}


def cost_of(spent: dict[str, float] | None = None, **fields: Any) -> dict[str, Any]:
    all_spent = {**SPENT, **(spent or {})}
    seconds_by_part = {f"{name}_seconds": seconds for name, seconds in all_spent.items()}
    return {
        **seconds_by_part,
        "total_seconds": sum(all_spent.values()),
        "validation_seconds": 2.0,
        **fields,
    }


def run_of(
    cost: Any, method: str = "erm", seconds: Any = 11.0, status: str = "finished", **labels: str
) -> dict[str, Any]:
    named = {"data": "digits", "model": "mlp", "method": method, **labels}
    return {"status": status, "seconds": seconds, "cost": cost, "labels": named}


def test_shares_are_of_all_seconds_of_a_method() -> None:
    runs = [
        run_of(cost_of()),
        run_of(cost_of({"step": 25.0}), status="diverged"),
        run_of(cost_of(), "groupdro"),
    ]
    runs += [run_of({}, status="failed"), run_of(None, seconds=None)]
    erm, groupdro = costs(runs)
    assert (erm.runs, erm.mean, erm.least, erm.most) == (2, 20.0, 10.0, 30.0)
    assert erm.shares == pytest.approx(
        {
            "data": 0.05,
            "step": 0.75,
            "evaluation": 0.125,
            "waiting": 0.025,
            "prepare": 0.0375,
            "other": 0.0125,
        }
    )
    assert sum(groupdro.shares.values()) == pytest.approx(1.0)
    assert erm.validation == pytest.approx(0.1)
    row = time_table([erm, groupdro]).rows[0]
    assert row[3:] == (
        2,
        "20.00",
        "10.00",
        "30.00",
        "0.011",
        "5.0",
        "75.0",
        "12.5",
        "2.5",
        "3.8",
        "1.2",
        None,
        None,
    )


def test_the_memory_of_a_run_is_told_from_that_of_a_process() -> None:
    (of_both,) = costs(
        [
            run_of(cost_of(peak_memory_bytes=2.0**30, peak_memory_of_run=0.0)),
            run_of(cost_of(peak_memory_bytes=2.0**29, peak_memory_of_run=1.0)),
        ]
    )
    assert of_both.own and of_both.memory == 2.0**29
    (process,) = costs([run_of(cost_of(peak_memory_bytes=2.0**30))])
    assert not process.own and process.memory == 2.0**30
    assert any("upper bound" in note for note in time_table([process]).notes)
    assert not any("upper bound" in note for note in time_table([of_both]).notes)


def test_runs_that_do_not_account_for_their_seconds_leave_dashes_and_no_bar() -> None:
    old = {
        "data_seconds": 1.0,
        "step_seconds": 5.0,
        "evaluation_seconds": 2.0,
        "prepare_seconds": 1.0,
        "total_seconds": 10.0,
    }
    (cost,) = costs([run_of(old)])
    assert not cost.shares and largest_part([cost]) == "" and time_bars([cost]) is None
    table = time_table([cost])
    assert table is not None and table.rows[0][4:14] == (
        "10.00",
        "10.00",
        "10.00",
        "0.003",
        *[None] * 6,
    )
    assert (
        costs([run_of(old), run_of(cost_of())])[0].shares == costs([run_of(cost_of())])[0].shares
    ), "those that tell all speak"
    assert costs([run_of({}, seconds=4.0)])[0].mean == 4.0


@pytest.mark.parametrize("value", [None, "x", -1.0, float("nan"), float("inf"), [], True])
@pytest.mark.parametrize(
    "name",
    [
        "total_seconds",
        "data_seconds",
        "images_per_second",
        "peak_memory_bytes",
        "validation_seconds",
    ],
)
def test_a_damaged_cost_is_shown_as_unknown(name: str, value: Any) -> None:
    run_costs = costs([run_of({**cost_of(), name: value})])
    assert run_costs[0].runs == 1
    table = time_table(run_costs)
    assert "nan" not in table.to_text() and "inf" not in table.to_text()


def test_the_bars_are_as_long_as_the_mean() -> None:
    run_costs = costs(
        [run_of(cost_of()), run_of(cost_of({"step": 25.0})), run_of(cost_of(), model="cnn")]
    )
    figure = time_bars(run_costs)
    assert figure is not None
    rows = figure.spec["datasets"]["rows"]
    assert sum(row["a"] for row in rows if row["m"] == "erm (digits, mlp)") == pytest.approx(
        20.0, abs=1e-5
    )
    assert sum(row["a"] for row in rows if row["m"] == "erm (digits, cnn)") == pytest.approx(
        10.0, abs=1e-5
    )
    assert time_bars([]) is None and time_table([]) is None


@pytest.mark.parametrize(
    ("spent", "validation", "sentence_start"),
    [
        ({"step": 15.0}, 2.0, "Most of the time, 75%, went on training steps"),
        ({}, 2.0, "The largest part of the time, 50%, went on training steps"),
        (
            {"evaluation": 15.0},
            12.0,
            (
                "Most of the time, 53%, went on validation: validate less often"
                " (training.validate_every)."
            ),
        ),
        (
            {"evaluation": 15.0},
            3.0,
            "Most of the time, 67%, went on evaluation, most of it of the final predictions",
        ),
        ({"data": 6.0}, 2.0, "The largest part of the time, 40%, went on making batches"),
        ({"waiting": 30.0}, 2.0, "Most of the time, 76%, went on waiting"),
        ({"prepare": 30.0}, 2.0, "Most of the time, 76%, went on start-up"),
        ({"other": 30.0}, 2.0, "Most of the time, 75%, went on other things"),
    ],
)
def test_the_sentence_names_the_largest_part(
    spent: dict[str, float], validation: float, sentence_start: str
) -> None:
    run_costs = costs([run_of(cost_of(spent, validation_seconds=validation))])
    assert largest_part(run_costs).startswith(sentence_start) and largest_part(run_costs).endswith(
        "."
    )
    assert (
        largest_part(run_costs) in time_table(run_costs).notes
        and largest_part(run_costs) not in time_table(run_costs, sentence=False).notes
    )


def test_the_sentence_weighs_methods_by_their_seconds() -> None:
    slow_runs = [run_of(cost_of({"data": 20.0}), "erm")]
    few = [run_of(cost_of({"step": 6.0}), "groupdro")]
    assert "making batches" in largest_part(costs(slow_runs + few))
    assert largest_part([]) == ""


def test_what_methods_did_is_a_row_a_measure_over_runs() -> None:
    from crosswind.reports.runs.actions import action_table
    from crosswind.reports.scores.results import arrange

    def row(method: str, seed: int, name: str, action: object) -> dict[str, Any]:
        labels = {
            "study": "s",
            "data": "d",
            "shift": "SC",
            "size": "e",
            "model": "m",
            "method": method,
            "point": "",
            "seed": seed,
        }
        metrics = {
            "n": 10,
            "accuracy": 0.5,
            "role": "test",
            **({} if action is None else {"action": action}),
        }
        return {
            **labels,
            "status": "finished",
            "rule": "last",
            "set": name,
            "metrics": metrics,
            "reason": None,
        }

    rows = [row("erm", 0, "test", None)]
    for seed, share in ((0, 0.25), (1, 0.75)):
        rows += [
            row("irm", seed, name, {"share_of_loss": share, "looks": 2.0})
            for name in ("test", "validation")
        ]
    rows += [
        row("own", 0, "test", {"pulled": 3.5, "broken": float("nan"), "odd": "x"}),
        row("bad", 0, "test", 7),
    ]
    table = action_table(arrange(rows))
    assert table is not None and table.columns[-5:] == ("measured", "runs", "mean", "least", "most")
    cells_by_measure = {(cells[4], cells[5]): cells[6:] for cells in table.rows}
    assert cells_by_measure == {
        ("irm", "own share of the loss, the largest seen, %"): (2, "50", "25", "75"),
        ("irm", "steps looked at"): (2, "2", "2", "2"),
        ("own", "pulled"): (1, "3.5", "3.5", "3.5"),
    }
    assert action_table(arrange(rows[:1])) is None
