"""Awkward tables and folders are read as they are meant, or refused in one sentence that names what
is wrong and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.awkward_tables import (
    PATHS,
    TABLES,
    write_folders,
    write_others,
    write_pictures,
)

from crosswind.core.errors import CrosswindError
from crosswind.proposals.study_file import propose
from crosswind.studies.plan import make_plan
from crosswind.studies.reading import parse
from crosswind.studies.spec import study_from


def said_of(path: Path, monkeypatch: Any) -> str:
    """The notes of the proposal and of its plan, or the refusal, which is one line."""
    monkeypatch.chdir(path.parent)
    try:
        proposal = propose(path.name)
        plan = make_plan(study_from(parse(proposal.text, "study.yaml"), name="study"))
    except CrosswindError as error:
        assert "\n" not in str(error)
        return str(error)
    assert plan.runs
    return "\n".join([*proposal.notes, *plan.notes])


def test_there_are_a_hundred() -> None:
    assert len(TABLES) + len(PATHS) + 9 + 4 >= 100


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_or_refused(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    content, words = TABLES[name]
    path = tmp_path / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert words in said_of(path, monkeypatch)


@pytest.mark.parametrize("name", PATHS)
def test_pictures_are_read_or_refused(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    file_name, words = PATHS[name]
    assert words in said_of(write_pictures(tmp_path, file_name), monkeypatch)


@pytest.mark.slow
def test_what_is_no_table_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    others = write_others(tmp_path)
    assert len(others) == 9
    for path, words in others.values():
        assert words in said_of(path, monkeypatch), path


def test_pictures_in_several_folders_are_read_or_refused(tmp_path: Path, monkeypatch: Any) -> None:
    for path, words in write_folders(tmp_path).values():
        assert words in said_of(path, monkeypatch), path
