"""The tables of the papers' figures and claims: complete, and what is written is what the files say."""

from __future__ import annotations

from typing import Any

import pytest
from tools import make_papers


def test_every_figure_table_and_claim_has_a_study_or_a_reason() -> None:
    assert list(make_papers.problems()) == []
    claims = [len(paper["claims"]) for paper in make_papers.papers().values()]
    assert claims == [7, 6, 5, 4]


def test_the_pages_are_those_that_would_be_written() -> None:
    for name, text in make_papers.pages().items():
        assert (make_papers.FOLDER / name).read_text(encoding="utf-8") == text, name


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda paper: paper["exhibits"].pop(0), "jeon2025: figure 1 is missing"),
        (
            lambda paper: paper["exhibits"].append({"items": ["figure 3"], "is": "illustration"}),
            "jeon2025: figure 3 stands 2 times",
        ),
        (
            lambda paper: paper["exhibits"].append({"items": ["figure 41"], "is": "illustration"}),
            "jeon2025: there is no figure 41",
        ),
        (
            lambda paper: paper["exhibits"][2].update(study="jeon2025/nothing"),
            "there is no study jeon2025/nothing",
        ),
        (
            lambda paper: paper["exhibits"][2].update(scale="huge"),
            "jeon2025/controlled has no scale huge",
        ),
        (lambda paper: paper["exhibits"][2].update(record="gone"), "there is no record gone"),
        (lambda paper: paper["exhibits"][2].update(lacks="time"), "must have one of"),
        (
            lambda paper: paper["claims"][0]["judged"].update({"jeon2025/controlled": ["none"]}),
            "jeon2025/controlled has no claim none",
        ),
        (lambda paper: paper["claims"][0].update(page="gone.md"), "there is no page gone.md"),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    change: Any, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    papers = make_papers.papers()
    change(papers["jeon2025"])
    monkeypatch.setattr(make_papers, "papers", lambda: papers)
    assert any(problem in line for line in make_papers.problems())


def test_runs_of_numbers_are_written_short() -> None:
    items = ["figure 9", "figure 10", "figure 11", "table 3", "table 5", "section B.2"]
    assert make_papers._items(items) == "figures 9 to 11; tables 3, 5; section B.2"
