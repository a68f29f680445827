"""The studies of figure 3 of Jeon et al. 2025: what they plan, and that a killed run that is resumed gives the same tables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crosswind.reports.families import families
from crosswind.reports.gather import StudyRecord, gather
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import load_study
from crosswind.studies.store import Store

ROWS = 21
SHIFTS = ["uniform", "SC", "LDD", "UDS", "SC+LDD", "SC+UDS", "LDD+UDS", "SC+LDD+UDS"]
# Training rows of tables 6 and 10, by shift, and the lists of runs of each data set: 3 assignments of one shift, 6 of several.
TABLE_6 = {
    "dsprites": [1091, 1091, 1080, 1080, 1091, 1091, 1080, 1091],
    "shapes3d": [65, 65, 624, 192, 158, 49, 468, 119],
}
WITHOUT_NORB = [
    *(f"{field}.smallnorb{end}=null" for field in ("data", "sizes.table6") for end in ("", "-2", "-3", "-4", "-5", "-6")),
    *(f"methods.{name}-smallnorb=null" for name in ("causirl-mmd", "causirl-coral")),
    f"methods.irm-squared.data={['shapes3d', *(f'shapes3d-{i}' for i in range(2, 7))]}".replace("'", '"'),
]


@pytest.mark.parametrize("scale,points", [("figure", 10), (None, 9)])
def test_every_method_meets_every_shift_once_a_point(scale: str | None, points: int) -> None:
    plan = make_plan(load_study("jeon2025/controlled", scale))
    rows = {(run.labels["method"], run.labels["model"]) for run in plan.runs}
    assert len(rows) == ROWS and len(plan.runs) == ROWS * len(SHIFTS) * points
    assert [draw.train_rows for draw in plan.draws] == TABLE_6["dsprites"]


def test_paper_has_three_assignments_of_one_shift_and_six_of_several() -> None:
    plan = make_plan(load_study("jeon2025/controlled", "paper", WITHOUT_NORB))
    found: dict[tuple[str, str], list[int]] = {}
    for draw in plan.draws:
        found.setdefault((draw.source.partition("-")[0], draw.shift), []).append(draw.train_rows)
    assert len(found) == 16
    for (data, shift), rows in found.items():
        times = 1 if shift == "uniform" else 6 if "+" in shift else 3
        assert rows == [TABLE_6[data][SHIFTS.index(shift)]] * times, (data, shift)
    assert len(plan.runs) == ROWS * (1 + 9 + 24) * 2 * 9
    norb = load_study("jeon2025/controlled", "paper")
    assert sum(name.startswith("smallnorb") for name in norb.data) == 6 and len(norb.methods) == 17 + 2 * 2 + 1


def test_equal_sizes_are_equal_and_the_papers_are_not() -> None:
    plan = make_plan(load_study("jeon2025/equal-sizes"))
    rows = {size: [draw.train_rows for draw in plan.draws if draw.size == size] for size in ("table6", "equal")}
    assert rows == {"table6": TABLE_6["shapes3d"], "equal": [192] * 8}
    assert sum("role" not in run.labels for run in plan.runs) == ROWS * 8 * 2 * 3


def command(out: Path) -> list[str]:
    code = "from crosswind.cli.main import main; main()"
    return [sys.executable, "-c", code, "run", "jeon2025/controlled", "--scale", "tiny", "--workers", "2", "--out", str(out)]


def record_of(out: Path) -> StudyRecord:
    with Store.open(out) as store:
        return gather(store, "jeon2025/controlled", draws=False)


@pytest.mark.slow  # twice 42 runs of 8 steps and a report
def test_a_run_that_was_killed_and_resumed_gives_the_tables_of_one_that_was_not(tmp_path: Path) -> None:
    """Of all methods, bpa, ubnet, pnd, ada, me-ada and l2d with their stages among them."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(whole), capture_output=True, check=True, timeout=300)
    for least in (8, 20):
        driver = subprocess.Popen(command(killed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until, done = time.monotonic() + 200, 0
        while done < least and driver.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
            done = _finished(killed)
        os.kill(driver.pid, signal.SIGKILL)
        assert driver.wait() == -signal.SIGKILL and least <= _finished(killed) < 42
    subprocess.run(command(killed), capture_output=True, check=True, timeout=300)
    records = [record_of(out) for out in (whole, killed)]
    assert all({status for status, _ in record.found.runs.values()} == {"finished"} for record in records)
    tables = [[table.to_csv() for table in record.number_tables(every=True)] for record in records]
    assert tables[0] == tables[1] and len(tables[0][0].splitlines()) == 1 + 42 * 2
    (item,) = families(records[1].places, records[1].resolved)
    assert len(item.family) == ROWS and item.baseline == "resnet-8"


def _finished(out: Path) -> int:
    if not (out / "store.sqlite").exists():
        return 0
    with Store.open(out) as store:
        known = "jeon2025/controlled" in store.study_names()
        return sum(run["status"] == "finished" for run in store.runs("jeon2025/controlled")) if known else 0
