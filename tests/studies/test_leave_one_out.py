"""The study pacs/leave-one-out: each rendition in turn is the target, and no row of it is trained
on."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.data.picture_files import PACS_RENDITIONS, pacs_files, written
from tests.studies.plans import whole_specs

from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.data.prepared import prepare
from crosswind.data.sources.image_trees import Pacs
from crosswind.shifts.split import make_split
from crosswind.studies.build import build_dataset, build_split_plan
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import load_study, study_from

EACH = 8  # images a class and rendition


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {name: data for name, data in pacs_files(EACH).items() if not name.endswith(".txt")}
    source = Pacs(root=str(tmp_path), size=16, lists=False)
    prepare(source, originals=str(written(tmp_path / "files", files)), accept_totals=True)
    return tmp_path


@pytest.mark.parametrize("scale", ["tiny", "small", None])
def test_each_rendition_is_the_target_once(root: Path, scale: str | None) -> None:
    settings = [f"data.pacs.options.root={root}", "data.pacs.options.size=16"]
    plan = make_plan(load_study("pacs/leave-one-out", scale, settings))
    methods = {"tiny": 2, "small": 5, None: 7}[scale]
    assert len(plan.runs) == 4 * methods * {"tiny": 1, "small": 3, None: 5}[scale]
    assert [draw.shift for draw in plan.draws] == list(PACS_RENDITIONS)
    assert {draw.test_rows for draw in plan.draws} == {7 * 2}  # a quarter of 8 in each of 7 classes
    targets_seen = set()
    for run, spec in zip(plan.runs, whole_specs(plan), strict=True):
        data = build_dataset(spec["data"]["pacs"])
        split = make_split(
            {"pacs": data}, "pacs", build_split_plan(spec["split"]), int(spec["seed"])
        )
        rendition = np.array(PACS_RENDITIONS)[data.table.column("rendition")]
        target, known_rows = split.evaluation["target"].rows, split.evaluation["seen"].rows
        shift = run.labels["shift"]
        targets_seen.add(shift)
        assert set(rendition[target]) == {shift} and len(target) == 14
        other_renditions = set(PACS_RENDITIONS) - {shift}
        for rows in (split.train.rows, split.validation["validation"].rows, known_rows):
            assert set(rendition[rows]) == other_renditions
        together = np.concatenate(
            [split.train.rows, split.validation["validation"].rows, known_rows]
        )
        assert (
            len(np.unique(together)) == len(together) == 3 * 7 * EACH
        )  # every row of the three has its place
    assert targets_seen == set(PACS_RENDITIONS)


@pytest.mark.slow  # eight runs of four steps, and the report of them
@pytest.mark.usefixtures("in_this_process")
def test_the_tiny_study_runs(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        "--scale",
        "tiny",
        "--set",
        f"data.pacs.options.root={root}",
        "--out",
        str(root / "out"),
        "--workers",
        "1",
    ]
    assert _status(["run", "pacs/leave-one-out", *options]) == 0
    assert "Accuracy in % on target" in capsys.readouterr().out
    assert _status(["report", str(root / "out"), "--tables", "all", "--no-page"]) == 0
    output_text = capsys.readouterr().out
    for words in ("Accuracy on target", "Accuracy on seen", "photo +art_painting +cartoon +sketch"):
        assert re.search(words, output_text)


def test_a_shift_that_leaves_nothing_out_is_named() -> None:
    study = study_from(
        {
            "data": {
                "digits": {
                    "source": "digits",
                    "label": "digit",
                    "attributes": ["size"],
                    "roles": {"test": 2},
                }
            },
            "shifts": {
                "small": {"type": "unseen-data", "attribute": "size", "unseen": "small"},
                "none": [],
            },
            "sets": {
                "validation": {"role": "validation", "law": "train"},
                "target": {"role": "test", "law": "unseen"},
            },
        }
    )
    with pytest.raises(
        InputError,
        match=(
            r"sets.target.law: finds no unseen cell: training draws from all of them \(digits,"
            r" none, equal\)"
        ),
    ):
        make_plan(study)
