"""Tables and folders as programs and people leave them are read as they are meant, or refused in one
sentence that names column or line, and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.cli.untidy_files import CASES, Case, N

import crosswind as cw
from crosswind.core.errors import CrosswindError
from crosswind.proposals.study_file import Proposal, propose
from crosswind.studies.plan import make_plan
from crosswind.studies.reading import parse
from crosswind.studies.spec import study_from


def test_there_are_sixty_and_more() -> None:
    assert len(CASES) == 65


@pytest.mark.parametrize("name", CASES)
def test_a_file_is_read_as_it_is_meant_or_refused(
    name: str, tmp_path: Path, monkeypatch: Any
) -> None:
    case = CASES[name]
    monkeypatch.chdir(tmp_path)
    path = case.write(tmp_path).relative_to(tmp_path)
    try:
        proposal = propose(str(path), label=case.label)
        plan = make_plan(study_from(parse(proposal.text, "study.yaml"), name="study"))
    except CrosswindError as error:
        assert case.refuses, error
        assert "\n" not in str(error)
        assert [word for word in case.refuses if word not in str(error)] == [], error
        return
    notes = "\n".join([*proposal.notes, *plan.notes])
    assert case.reads, notes
    assert plan.runs
    assert [word for word in case.reads if word not in notes] == [], notes
    check_columns(case, proposal)


def check_columns(case: Case, proposal: Proposal) -> None:
    """Numbers are read as they were written, and what tells nothing is neither input nor
    attribute."""
    entry = next(iter(yaml.safe_load(proposal.text)["data"].values()))
    options = entry["options"]
    numbers = options.get("numbers", [])
    used = {*numbers, *options.get("categories", []), *entry["attributes"]}
    assert not used & {*case.without}
    if case.mean is not None:
        name, mean = case.mean
        inputs = cw.load(entry["source"], **options).inputs(np.arange(N))
        assert inputs[:, numbers.index(name)].mean() == pytest.approx(mean, rel=1e-4)
