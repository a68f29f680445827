"""Rounds of faults over both engines and both databases, and that a round sees what it looks for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.execution.fault_rounds import (
    DATABASES,
    ENGINES,
    FAULTS,
    Machines,
    Round,
    cells,
    one_round,
    undisturbed_outcome,
)
from tests.execution.toys import JOB, graph
from tests.storage.postgres_server import why_no_server

from crosswind.execution.engines.inline import Inline
from crosswind.execution.scheduler import drive
from crosswind.storage.database import runs
from crosswind.storage.store import Store

SLOW = [("pool", "postgresql", "server killed"), ("ray", "sqlite", "raylet killed")]
"""The cells that are not in the drills of other modules; the others are for the long drills."""


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    if problem := why_no_server():
        pytest.skip(problem)
    with contextlib.ExitStack() as stack:
        yield Machines(stack)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return undisturbed_outcome(tmp_path_factory.mktemp("undisturbed"))


def test_every_fault_has_its_rounds_with_every_engine_and_database() -> None:
    planned = cells()
    assert len(planned) == len(set(planned)) == 30
    assert {cell[2] for cell in planned} == set(FAULTS)
    assert {cell[:2] for cell in planned} == {(e, d) for e in ENGINES for d in DATABASES}


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(
            cell,
            marks=pytest.mark.slow if cell in SLOW else pytest.mark.verify,
            id=" ".join(cell),
        )
        for cell in cells()
    ],
)
def test_nothing_is_lost_or_done_twice(
    cell: tuple[str, str, str], machines: Machines, undisturbed: list[Any]
) -> None:
    record = one_round(cells().index(cell), machines, undisturbed, cell)
    assert not record["wrong"], record["trace"]
    assert record["events"]


def ended(folder: Path) -> Round:
    """A round whose runs have ended undisturbed."""
    with contextlib.ExitStack() as stack:
        drill = Round(0, "pool", "sqlite", "driver killed", folder, Machines(stack))
    jobs = graph(drill.log_file, seconds=0.0)
    with Store.open(drill.out, create=True) as store, Inline(JOB) as engine:
        store.add_plan("toys", {}, {}, jobs)
        assert drive(store, jobs, engine).finished == 14
    drill.look()
    return drill


def test_a_round_sees_a_run_that_is_lost(tmp_path: Path) -> None:
    drill = ended(tmp_path)
    with Store.open(drill.out, create=True) as store, store.transaction() as connection:
        connection.execute(runs.update().values(status="pending"))
    with pytest.raises(AssertionError, match="is lost"):
        drill.look()


@pytest.mark.slow
def test_a_round_sees_a_run_that_is_done_again(tmp_path: Path) -> None:
    drill = ended(tmp_path)
    with drill.log_file.open("a", encoding="utf-8") as log:
        log.write("start base0 1\n")
    with pytest.raises(AssertionError, match="is done again"):
        drill.look()
