"""Two studies beside each other: pairs and means by hand, and what is no comparison."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from scipy import stats
from tests.cli.test_fuzz_stores import whole_store

from crosswind.cli.main import _status
from crosswind.evaluation.compare import Seeds, over_runs, unpaired, unpaired_runs
from crosswind.reports.comparison import _differing_fields
from crosswind.storage.store import Store


@pytest.mark.parametrize("seed", range(3))
def test_unpaired_is_welchs(seed: int) -> None:
    draw = np.random.default_rng(seed)
    first_values, second_values = (
        draw.normal(0.6, 0.02, 4).tolist(),
        draw.normal(0.63, 0.05, 7).tolist(),
    )
    welch = stats.ttest_ind(second_values, first_values, equal_var=False)
    difference, interval = unpaired(first_values, second_values), welch.confidence_interval(0.95)
    assert difference.p == pytest.approx(welch.pvalue) and difference.n == 11
    assert (difference.low, difference.high) == (
        pytest.approx(interval.low),
        pytest.approx(interval.high),
    )
    assert (
        unpaired(first_values[:1], second_values).p is None
        and unpaired([0.5, 0.5], [0.6, 0.6]).low is None
    )


def crossed_runs(draw: np.random.Generator, of_splits: float) -> dict[Seeds, float]:
    """Scores of three split seeds, which spread so far, crossed with five seeds."""
    by_split = draw.normal(0.7, of_splits, 3)
    return {Seeds(i, j): by_split[i] + draw.normal(0, 0.01) for i in range(3) for j in range(5)}


def test_runs_of_several_split_seeds_are_not_taken_as_independent() -> None:
    """Welch's test of fifteen runs a side told a difference in six of ten studies that have none."""
    draw = np.random.default_rng(0)
    told, told_by_welch = 0, 0
    for _ in range(200):
        first, second = crossed_runs(draw, 0.05), crossed_runs(draw, 0.05)
        p = unpaired_runs(first, second).p
        welch = unpaired(list(first.values()), list(second.values())).p
        assert p is not None and welch is not None
        told += p < 0.05
        told_by_welch += welch < 0.05
    assert told <= 20 and told_by_welch >= 80


def test_the_interval_between_two_crossed_means_is_of_both() -> None:
    draw = np.random.default_rng(1)
    first, second = crossed_runs(draw, 0.05), crossed_runs(draw, 0.02)
    difference, sides = unpaired_runs(first, second, 0.9), (first, second)
    halves = [over_runs(side, 0.9).half_width for side in sides]
    assert difference.half_width == pytest.approx(np.hypot(*halves))
    assert difference.mean == pytest.approx(
        np.mean(list(second.values())) - np.mean(list(first.values()))
    )
    assert difference.p is not None
    at_p = unpaired_runs(first, second, 1 - difference.p)
    assert at_p.half_width == pytest.approx(abs(difference.mean))
    # Beside runs of one split seed, which have a t-interval; and Welch's where neither is crossed.
    single = {seed: 0.6 + 0.01 * seed for seed in range(4)}
    mixed = unpaired_runs(single, second)
    halves = [over_runs(side).half_width for side in (single, second)]
    assert mixed.half_width == pytest.approx(np.hypot(*halves))
    assert unpaired_runs(single, {9: 0.7, 8: 0.8}) == unpaired(list(single.values()), [0.7, 0.8])
    assert unpaired_runs({0: 0.6}, second).p is None


def compared(a: Any, b: Any, capsys: Any, *options: str) -> dict[str, Any]:
    assert _status(["compare", str(a), str(b), "--json", *options]) == 0
    table = json.loads(capsys.readouterr().out)
    return {
        tuple(
            row[i]
            for i, name in enumerate(table["columns"])
            if name in ("selection", "rule", "shift", "method")
        ): dict(zip(table["columns"], row, strict=True))
        for row in table["rows"]
    } | {"notes": table["notes"]}


def changed(out: Path, by: float, split_seed: int | None = None) -> None:
    """Every score of a store raised, by another amount for each seed; its study dealt by another
    split seed."""
    from crosswind.storage.database import scores, studies

    with Store.open(out, create=True) as store:
        seeds = {run["key"]: run["labels"]["seed"] for run in store.runs("alpha")}
        with store.transaction() as connection:
            for key, rule, name, text in connection.execute(
                sa.select(scores.c.key, scores.c.rule, scores.c.set, scores.c.metrics)
            ).fetchall():
                metrics = {
                    **json.loads(text),
                    "accuracy": json.loads(text)["accuracy"] + by + 0.001 * seeds[key],
                }
                where = (scores.c.key == key) & (scores.c.rule == rule) & (scores.c.set == name)
                connection.execute(scores.update().where(where).values(metrics=json.dumps(metrics)))
            if split_seed is not None:
                resolved = json.loads(
                    connection.execute(sa.select(studies.c.resolved)).scalar_one()
                )
                connection.execute(
                    studies.update().values(
                        resolved=json.dumps({**resolved, "split_seed": split_seed})
                    )
                )


@pytest.mark.slow
def test_two_stores(tmp_path: Path, capsys: Any) -> None:
    done: dict[Any, Any] = {"statuses": {}}
    first_store, second_store = (
        whole_store(tmp_path / "one", **done),
        whole_store(tmp_path / "other", **done),
    )
    changed(second_store, 0.1)
    table = compared(first_store, second_store, capsys)
    notes = table.pop("notes")
    assert len(table) == 8, "two shifts, two methods, two rules"
    for row in table.values():
        assert (
            row["runs"] == "3 pairs"
            and row["B - A"]["mean"] == pytest.approx(0.101)
            and row["B - A"]["excludes_zero"]
        )
        assert row["B - A"]["half_width"] == pytest.approx(4.302653 * 0.001 / 3**0.5, rel=1e-6)
        assert (
            row["B alpha"]["mean"] - row["A alpha"]["mean"] == pytest.approx(0.101)
            and row["p, Holm"] == "<0.001"
        )
    # All eight differ, so that the last step of Holm's correction is that of one row alone.
    assert notes[0].startswith(
        "* B differs from A: p < 0.05 by Holm over 8 rows, so that the 95% interval of B - A"
        " excludes 0."
    )
    same = compared(first_store, first_store, capsys)
    assert not any(
        row["B - A"]["excludes_zero"] or row["B - A"]["mean"]
        for name, row in same.items()
        if name != "notes"
    )
    changed(second_store, 0.0, split_seed=1)
    table = compared(first_store, second_store, capsys)
    assert "no runs are paired" in table.pop("notes")[-1] and {
        row["runs"] for row in table.values()
    } == {"3 and 3"}
    assert _status(["compare", str(first_store), str(second_store)]) == 0
    assert "B - A" in capsys.readouterr().out


def test_what_cannot_be_compared_is_one_sentence(tmp_path: Path, capsys: Any) -> None:
    first_store, second_store = (
        whole_store(tmp_path / "one"),
        whole_store(tmp_path / "other", shifts=("UDS",)),
    )
    for words, says in (
        (
            ["compare", str(first_store), str(second_store)],
            (
                "error: B: has no data set, shift, size, model, method, set and rule that A has"
                " with accuracy"
            ),
        ),
        (
            ["compare", str(first_store), str(first_store), "--metric", "acuracy"],
            "error: --metric: unknown metric 'acuracy', did you mean 'accuracy'?",
        ),
        (["compare", f"{first_store}#beta", str(first_store)], "unknown study"),
        (["compare", str(tmp_path / "none"), str(first_store)], "none"),
    ):
        assert _status(words) == 2
        errors = capsys.readouterr().err
        assert says in errors and errors.count("\n") == 1


def test_other_numbers_of_test_rows_are_told(tmp_path: Path, capsys: Any) -> None:
    from crosswind.storage.database import scores

    whole_store(tmp_path / "a")
    whole_store(tmp_path / "b")
    note = "The test rows are not the same, and a difference may be one of rows: "
    notes = compared(tmp_path / "a", tmp_path / "b", capsys)["notes"]
    assert not any(text.startswith(note) for text in notes)
    with Store.open(tmp_path / "b", create=True) as store, store.transaction() as connection:
        for (text,) in connection.execute(sa.select(scores.c.metrics).distinct()).fetchall():
            metrics = json.dumps({**json.loads(text), "n": 7})
            connection.execute(
                scores.update().where(scores.c.metrics == text).values(metrics=metrics)
            )
    notes = compared(tmp_path / "a", tmp_path / "b", capsys)["notes"]
    assert any(text.startswith(note) and "and 7 in B" in text for text in notes), notes


def test_data_that_are_declared_otherwise_are_told(tmp_path: Path, capsys: Any) -> None:
    from crosswind.storage.database import studies

    first_store, second_store = whole_store(tmp_path / "a"), whole_store(tmp_path / "b")
    with Store.open(second_store, create=True) as store, store.transaction() as connection:
        resolved = json.loads(connection.execute(sa.select(studies.c.resolved)).scalar_one())
        (name,) = resolved["data"]
        options = {**(resolved["data"][name].get("options") or {}), "path": "b.csv"}
        resolved["data"][name] |= {"options": options, "keep": {}}
        connection.execute(studies.update().values(resolved=json.dumps(resolved)))
    note = compared(first_store, second_store, capsys)["notes"][-1]
    assert note.startswith("The studies do not declare these alike, so the rows may be others")
    assert re.search(rf": data\.{name} \(options(\.path)?\)\.$", note), note
    assert "do not declare" not in compared(first_store, first_store, capsys)["notes"][-1]


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ("moles.csv", "./moles.csv", True),
        ("/data/moles.csv", "/data/x/../moles.csv", True),
        ("moles.csv", "/elsewhere/moles.csv", False),  # it may be another table
        ("moles.csv", "other.csv", False),
        ("/a/moles.csv", "/b/moles.csv", False),
        ("data/moles.csv", "old/moles.csv", False),
    ],
)
def test_two_spellings_of_a_path_are_one_place(first: str, second: str, is_one: bool) -> None:
    data = [{"options": {"path": path, "size": 8}} for path in (first, second)]
    assert (_differing_fields(*data) == []) is is_one
    assert _differing_fields({"label": first}, {"label": second}) == ["label"]


def test_a_path_in_the_working_directory_is_the_absolute_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _differing_fields({"path": "moles.csv"}, {"path": str(tmp_path / "moles.csv")}) == []


def test_a_side_without_the_score_is_the_one_that_is_named(tmp_path: Path, capsys: Any) -> None:
    store = str(whole_store(tmp_path / "one"))
    assert _status(["compare", store, store, "--metric", "rho"]) == 2
    assert "error: A: study alpha has no run with rho" in capsys.readouterr().err


def test_a_table_in_which_nothing_can_be_judged_says_why(tmp_path: Path, capsys: Any) -> None:
    store = whole_store(tmp_path / "one")
    notes = compared(store, store, capsys)["notes"]
    assert notes[0].startswith("No row has a p: B - A is the same at every seed")
    fewer = whole_store(tmp_path / "fewer", seeds=2)
    assert "B - A that of the pairs alone" in compared(store, fewer, capsys)["notes"][1]
    assert "of the pairs alone" not in notes[1]
