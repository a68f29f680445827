"""Every setting of every method says what it is, where its default was found, and what the papers
searched."""

from __future__ import annotations

import re

from crosswind.core.registry import listing

PAPERS = {"wiles2022", "jeon2025", "omran2022", "ng2022"}
KNOBS = [
    (item.name, knob)
    for item in listing("methods")
    if item.module.startswith("crosswind.")
    for knob in item.knobs
]


def test_every_setting_is_explained_and_its_default_has_a_source() -> None:
    assert len(KNOBS) >= 36
    for method, knob in KNOBS:
        assert knob.doc, (method, knob.name)
        assert knob.source, (method, knob.name)


def test_values_of_jeon_et_al_are_of_the_table_of_methods() -> None:
    """Table 8 holds learning rate, batch, duration, patience and optimiser, which no method sets;
    table 9 all that methods do."""
    tables = {
        (method, knob.name, table)
        for method, knob in KNOBS
        for table in re.findall(r"2025, tables? (\d+)", knob.source or "")
    }
    assert len(tables) >= 24
    assert {table for *_, table in tables} == {"9"}


def test_published_grids_lie_where_the_papers_are_named() -> None:
    """Of `grid` the first key is the paper's; a default that a paper of ours published is in its
    grid."""
    grids = [(method, knob, paper) for method, knob in KNOBS for paper in knob.grid or {}]
    assert len(grids) >= 20 and {paper for *_, paper in grids} >= {"wiles2022", "jeon2025"}
    for method, knob, paper in grids:
        assert knob.grid is not None and knob.grid[paper], (method, knob.name, paper)
        assert paper in PAPERS or paper in {"liu2021"}, (method, knob.name, paper)


def test_families_are_the_papers_own_words() -> None:
    wiles = {
        "architecture",
        "heuristic augmentation",
        "learned augmentation",
        "domain generalisation",
        "adaptive",
        "representation",
    }
    jeon = {
        "architecture",
        "heuristic augmentation",
        "de-biasing",
        "worst case",
        "single-domain generalisation",
    }
    families_of_papers = {
        "wiles2022": wiles,
        "jeon2025": jeon | {"out-of-distribution generalisation"},
        "ng2022": {"architecture"},
    }
    foreign_families = [
        (known_facts.name, paper, family)
        for room in ("methods", "models")
        for known_facts in listing(room)
        if known_facts.family
        for paper, family in known_facts.family.items()
    ]
    assert len(foreign_families) >= 30
    for name, paper, family in foreign_families:
        assert family in families_of_papers[paper], (name, paper, family)
