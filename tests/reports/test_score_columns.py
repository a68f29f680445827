"""Scores held by column read as the dictionaries did: page, tables and JSON are the same to the byte."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.speed import report_page
from benchmarks.speed.report_page import synthetic_store

from crosswind.reports.gather import gather
from crosswind.reports.page import write_page
from crosswind.storage import database, json_columns, json_processes
from crosswind.storage.json_columns import (
    ColumnRow,
    JsonColumns,
    column_batch,
    columns_of,
    names_in,
    parsed,
)
from crosswind.storage.json_processes import held_by_column
from crosswind.storage.store import DONE, Store

HUGE = 2**70  # does not fit an array


class PlainStore(Store):
    """A store whose scores and costs are one dictionary a result, read by `json`."""

    def runs(self, study: str) -> list[dict[str, Any]]:
        with self.transaction() as connection:
            rows = connection.execute(database.runs.select()).all()
        texts = {row.key: row.cost for row in rows}
        listed = super().runs(study)
        return [
            {**run, "cost": json.loads(text) if (text := texts[run["key"]]) else None}
            for run in listed
        ]

    def result_rows(  # type: ignore[override]
        self,
        study: str,
        unscored: bool = True,
        without: Sequence[str] = (),
        runs: Sequence[Mapping[str, Any]] | None = None,
    ) -> list[dict[str, Any]]:
        with self.transaction() as connection:
            rows = connection.execute(
                database.scores.select().order_by(database.scores.c.key, database.scores.c.position)
            ).all()
        scored: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            metrics = {
                name: value
                for name, value in json.loads(row.metrics).items()
                if name not in without
            }
            scored.setdefault(row.key, []).append(
                {"rule": row.rule, "set": row.set, "metrics": metrics}
            )
        out = []
        for run in self.runs(study) if runs is None else runs:
            shared = {
                name: run[name]
                for name in ("key", "kind", "status", "reason", "seconds", "attempts")
            }
            missing = [{"rule": None, "set": None, "metrics": {}}] if unscored else []
            if run["status"] in DONE:
                missing = []
            for entry in scored.get(run["key"], missing):
                out.append({"study": study, **run["labels"], **shared, **entry})
        return out


def make_odd(metrics: dict[str, Any], draw: random.Random, number: int) -> dict[str, Any]:
    """Scores as runs of many kinds give them: some names in some runs only, numbers of two types."""
    metrics |= {
        "estimate:atc": round(draw.random(), 4),
        "estimate_error:atc": draw.gauss(0, 0.1),
        "rho": draw.random() if number % 3 else None,
        "train_shared": 0.25,
        "doubts": ["the loss fell to nothing"] if number % 7 == 0 else [],
        "seen_accuracy": draw.choice([1, 0.5, None]),
        "counted": HUGE if number % 11 == 0 else number,
        "half \ud83d": "\udc80 of a pair",
    }
    if number % 2:
        metrics["action"] = {"share_of_loss": draw.random(), "looks": 3, "why": "text"}
    if number % 5 == 0:
        metrics = dict(reversed(metrics.items()))
    if number % 13 == 0:
        del metrics["ece"]
    return metrics


@pytest.fixture
def odd_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A synthetic study with every state of a run, two grids of points and odd scores."""
    for name, value in {"DATA": 2, "SHIFTS": 3, "METHODS": 4, "SEEDS": 5}.items():
        monkeypatch.setattr(report_page, name, value)
    out = synthetic_store(tmp_path / "out", 1)
    draw = random.Random(1)
    table = database.scores
    with Store.open(out, create=True) as store, store.transaction() as connection:
        for number, row in enumerate(connection.execute(table.select()).all()):
            text = json.dumps(make_odd(json.loads(row.metrics), draw, number))
            where = (table.c.key == row.key) & (table.c.position == row.position)
            connection.execute(table.update().where(where).values(metrics=text))
        states = ("failed", "pending", "diverged")
        for number, status in zip((3, 40, 57), states, strict=True):
            key = f"{number:032x}"
            if status != "diverged":
                connection.execute(table.delete().where(table.c.key == key))
            changed = {"status": status, "reason": "it <is> so", "cost": None}
            connection.execute(
                database.runs.update().where(database.runs.c.key == key).values(changed)
            )
    return out


def everything(store: Store, page: Path) -> Iterator[tuple[str, str]]:
    """What is written of a study, by what it is."""
    record = gather(store, "many")
    write_page([record], "store", page)
    yield "page", page.read_text(encoding="utf-8")
    yield "text", record.to_text()
    yield "json", json.dumps(record.to_json())
    for every in (False, True):
        for table in record.number_tables(every=every):
            yield f"csv {table.name}", table.to_csv()
    for table in record.text_tables():
        yield f"latex {table.name}", table.written("latex")


@pytest.mark.parametrize("most_shapes", [json_columns.MOST_SHAPES, 2])
def test_what_is_written_is_the_same_as_of_dictionaries(
    odd_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_shapes: int
) -> None:
    monkeypatch.setattr("time.gmtime", lambda *_: (2026, 1, 2, 3, 4, 5, 4, 2, 0))
    monkeypatch.setattr(json_columns, "MOST_SHAPES", most_shapes)
    with PlainStore.open(odd_store) as plain:
        expected = dict(everything(plain, tmp_path / "plain.html"))
    with Store.open(odd_store) as store:
        rows = list(store.result_rows("many"))
        columns = [row for row in rows if isinstance(row["metrics"], ColumnRow)]
        assert len(columns) > (0.9 if most_shapes > 2 else 0.2) * len(rows)
        assert dict(everything(store, tmp_path / "columns.html")) == expected
        assert repr(store.results("many")) == repr(PlainStore.results(store, "many"))
    assert len(expected["page"]) > 100_000 and "estimates" in expected["json"]


def test_values_keep_their_type_and_order() -> None:
    columns = JsonColumns(without=("left out",))
    objects = [
        {"a": 1, "b": 0.5, "c": None, "d": "text"},
        {"b": 0.25, "a": 2, "left out": [1]},
        {"a": 3, "b": 1, "c": True, "d": ""},
        {"a": -HUGE, "b": float("nan"), "c": [], "d": None},
        {},
        {"a": -0.0, "b": 1e-320, "c": [1], "d": "text"},
    ]
    rows = []
    for start in (0, 2, 5):  # in several batches, the last of one
        lot = [json.loads(json.dumps(entry)) for entry in objects[start:][: 3 if start else 2]]
        rows += columns.add_batch(column_batch(lot, columns.without))
    for entry in objects:
        entry.pop("left out", None)
    assert repr([dict(row) for row in rows]) == repr(objects)
    assert [row.get("c", "none") for row in rows] == [None, "none", True, [], "none", [1]]
    assert rows[0] == objects[0] and len(rows[1]) == 2 and "c" not in rows[1]
    column = columns_of(rows)
    for name in "abcd":
        assert repr(list(column(name))) == repr([entry.get(name) for entry in objects])
    assert list(columns_of(rows[:1])("a")) == [1] and list(columns_of([])("a")) == []
    assert list(columns_of([*rows[:1], {"a": 5}])("a")) == [1, 5]
    assert names_in([*rows[1:], {"e": 1}]) == ["b", "a", "c", "d", "e"]
    with pytest.raises(KeyError):
        _ = rows[4]["a"]


@pytest.mark.slow
def test_numbers_of_many_results_take_the_memory_of_an_array() -> None:
    import tracemalloc

    texts = [
        json.dumps({f"metric {number}": number / 7 + row for number in range(50)})
        for row in range(4000)
    ]
    columns = JsonColumns()
    tracemalloc.start()
    rows = columns.add_batch(column_batch(map(parsed, texts)))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 50 * 4000 * 12 and rows[3]["metric 7"] == 4.0


def test_json_is_parsed_as_by_json() -> None:
    for text in (
        '"\\ud800"',
        "NaN",
        "-0",
        "1e999",
        '{"a":1,"a":2}',
        str(HUGE),
        "[" * 300 + "]" * 300,
    ):
        assert repr(parsed(text)) == repr(json.loads(text))
    for text in ("[1,]", "01", "nul", '"\t"', '{"a":1}x', ""):
        with pytest.raises(json.JSONDecodeError):
            parsed(text)


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Texts of odd scores in many batches, of which two processes parse those after the second."""
    monkeypatch.setattr(json_processes, "BATCHES_ALONE", 2)
    monkeypatch.setattr(json_processes, "usable_cores", lambda: 3)
    draw = random.Random(2)
    texts = [
        json.dumps(make_odd({"accuracy": draw.random(), "ece": 0.5, "left out": [1]}, draw, number))
        for number in range(3000)
    ]
    return [texts[start : start + 50] for start in range(0, len(texts), 50)]


def held(batches: list[list[str]]) -> list[list[Mapping[str, Any]]]:
    return list(held_by_column(batches, JsonColumns(without=("left out",)), json.loads))


@pytest.mark.slow
@pytest.mark.parametrize("most_shapes", [json_columns.MOST_SHAPES, 2])
def test_several_processes_parse_what_one_does(
    batches: list[list[str]], monkeypatch: pytest.MonkeyPatch, most_shapes: int
) -> None:
    monkeypatch.setattr(json_columns, "MOST_SHAPES", most_shapes)
    answers = []
    ask = json_processes._Processes._ask
    monkeypatch.setattr(
        json_processes._Processes,
        "_ask",
        lambda *asked_of: answers.append(ask(*asked_of)) or answers[-1],
    )
    objects = held(batches)
    expected = [[json.loads(text) for text in texts] for texts in batches]
    for entry in (entry for entries in expected for entry in entries):
        del entry["left out"]
    assert [[repr(dict(row)) for row in rows] for rows in objects] == [
        [repr(entry) for entry in entries] for entries in expected
    ]
    assert len(answers) > 5 and None not in answers


@pytest.mark.slow
def test_processes_that_do_not_start_or_die_cost_no_value(
    batches: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [
        [repr(json.loads(text)["ece"]) for text in texts if "ece" in json.loads(text)]
        for texts in batches
    ]
    for program in ("/nowhere/python", "/bin/false"):
        monkeypatch.setattr("sys.executable", program)
        assert [
            [repr(row["ece"]) for row in rows if "ece" in row] for rows in held(batches)
        ] == expected


@pytest.mark.slow
@pytest.mark.parametrize("text", ["[1]", "{", "[" * 100_000, None, 7])
def test_what_is_no_object_is_refused_where_the_store_is_read(
    batches: list[list[str]], text: Any
) -> None:
    batches[30][3] = text
    with pytest.raises((TypeError, ValueError, RecursionError, AttributeError)):
        held(batches)
