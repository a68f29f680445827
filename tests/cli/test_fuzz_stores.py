"""Stores that were damaged or edited: reported, or refused in one sentence; the page of one is
whole and holds words only.

Bytes of the database, values of its columns, values inside its JSON, and the files of its runs are
changed. What comes out is read as a browser would: nothing that a store holds may become an
element, an attribute or a script of the page. Ten of each kind in the default tests, 1,000 of each
in the long drills.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sqlite3
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.strange import WORDS, Answers, counts, mutated, tried

from crosswind.cli.main import _status
from crosswind.core.types import Job
from crosswind.reports import page as page_module
from crosswind.storage.artifacts import artifact_folder
from crosswind.storage.database import runs as run_table
from crosswind.storage.database import scores as score_table
from crosswind.storage.store import Store

COLUMN_VALUES = [
    None,
    "",
    "{}",
    "[]",
    "null",
    '"x"',
    "{",
    "NaN",
    b"\xff\x00",
    0,
    -1,
    2**62,
    1.5,
    float("inf"),
    1e300,
    -5.0,
    *WORDS,
]
COLUMN_VALUES += [
    "pending",
    "running",
    "finished",
    "diverged",
    "failed",
    '{"accuracy": NaN}',
    '{"groups": []}',
    "[" * 3000,
]

# -- a store to begin with -------------------------------------------------------------------------


def whole_store(
    folder: Path,
    shifts: tuple[str, ...] = ("none", "SC"),
    methods: tuple[str, ...] = ("erm", "groupdro"),
    **options: Any,
) -> Path:
    """A small store of one study: two rules, two sets, a grid of two points, one run diverged,
    failed, running and pending.

    `seeds` (3), `statuses` by number of the run, `reference` ("erm"), `claims` (none).
    """
    seeds, statuses = (
        options.get("seeds", 3),
        options.get("statuses", {1: "diverged", 2: "failed", 5: "running", 8: "pending"}),
    )
    labels = [
        {
            "data": "digits",
            "shift": shift,
            "size": "few",
            "model": "mlp",
            "method": method,
            "point": point,
            "seed": seed,
        }
        for shift in shifts
        for method in methods
        for point in (("eta=0.1", "eta=0.2") if method == "groupdro" else ("",))
        for seed in range(seeds)
    ]
    planned = [
        Job(key=f"{number:08x}", spec={"seed": run_labels["seed"]}, labels=run_labels)
        for number, run_labels in enumerate(labels)
    ]
    study_values = {"name": "alpha", "about": "A study.", "methods": list(methods)}
    data = {"digits": {"source": "digits", "label": "digit", "attributes": ["ink", "tone"]}}
    resolved = {
        **study_values,
        "data": data,
        "reference": options.get("reference", "erm"),
        "selection": ["best-id", "last"],
    }
    resolved |= {
        "shifts": {shift: [] if shift == "none" else [{}] for shift in shifts},
        "sets": {"test": {"law": "uniform"}},
    }
    resolved |= {"claims": options["claims"]} if "claims" in options else {}
    with Store.open(folder, create=True) as store:
        store.add_plan("alpha", study_values, resolved, planned)
        with store.transaction() as connection:
            for number, run in enumerate(planned):
                status = statuses.get(number, statuses.get("else", "finished"))
                row_values = {
                    "versions": '{"crosswind":"0.1.0"}',
                    "warnings": '["few rows"]',
                    "seconds": 2.5 + number,
                    "attempts": 1,
                }
                row_values["cost"] = '{"images_per_second":900.5,"peak_memory_bytes":500000000}'
                reason = "RuntimeError: no <b>luck</b>" if status == "failed" else None
                change = run_table.update().where(run_table.c.key == run.key)
                connection.execute(change.values(status=status, reason=reason, **row_values))
                if status in ("finished", "diverged"):
                    connection.execute(
                        score_table.insert(), [{"key": run.key, **row} for row in _scores(number)]
                    )
    for number, run in enumerate(planned):
        if statuses.get(number, statuses.get("else", "finished")) in ("finished", "diverged"):
            folder_of_run = artifact_folder(folder, run.key)
            folder_of_run.mkdir(parents=True)
            (folder_of_run / "split.json").write_text(json.dumps(SPLIT), encoding="utf-8")
    return folder


def _scores(number: int) -> list[dict[str, Any]]:
    rows = []
    for rule in ("best-id", "last", "best-target"):
        for name in ("validation", "target-validation", "test"):
            accuracy = 0.5 + (number * 7 % 13) / 40
            groups = {
                f"digit={i}, ink=red": {"n": 10, "accuracy": accuracy / (i + 1)} for i in range(2)
            }
            worst = {
                "worst_group": accuracy / 2,
                "worst_group_name": "digit=1, ink=red",
                "worst_group_n": 10,
            }
            metrics = {
                "n": 20,
                "accuracy": accuracy,
                "balanced_accuracy": accuracy,
                **worst,
                "groups": groups,
                "nll": 0.7,
                "ece": 0.1,
            }
            metrics |= {
                "role": "test" if name == "test" else "validation",
                "selected_step": 3,
                "ties": 1,
                "unparsed": 0,
            }
            rows.append(
                {"rule": rule, "set": name, "position": len(rows), "metrics": json.dumps(metrics)}
            )
    return rows


CELLS = {
    f"digit={digit}, ink={ink}, tone={tone}": {"planned": 2.5, "realised": 3}
    for digit in range(2)
    for ink in ("red", "blue")
    for tone in ("dark", "pale")
}
SPLIT: dict[str, Any] = {
    "sets": {
        name: {"rows": 24, "cells": CELLS, "supplements": [{"drawn": 4}], "short": {}}
        for name in ("train", "test")
    },
    "notes": ["classes are matched"],
    "warnings": ["few rows"],
}

# -- what must hold --------------------------------------------------------------------------------

_TAGS = """html head meta title link style body a header p h1 h2 h3 h4 h5 nav ul li main article dl div dt dd section details
summary span figure figcaption button table caption thead tbody tr th td pre footer script b code
svg line rect circle"""
_ATTRIBUTES = """lang charset name content http-equiv rel href class id tabindex role aria-label aria-labelledby aria-level
aria-live aria-describedby aria-hidden focusable scope data-figure data-shifts data-table data-save data-copy
type open width height x x1 x2 y y1 y2 cx cy r style"""
TAGS, ATTRIBUTES = frozenset(_TAGS.split()), frozenset(_ATTRIBUTES.split())
VOID = frozenset(("meta", "link"))


class Reader(HTMLParser):
    """A page as a browser takes it apart: elements closed in order, nothing that is not ours, the
    text of its scripts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.scripts: list[str] = []
        self.tables = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        for name, value in attrs:
            assert name in ATTRIBUTES, (tag, name)
            assert name != "style" or re.fullmatch(r"left: [\d.]+%", value or ""), value
            assert name != "href" or (value or "").startswith(("#", "data:,")), value
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.tables += tag == "table"
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data!r}")


def read_page(path: Path) -> Reader:
    """The page, read; anything in it that should not be there fails."""
    reader = Reader()
    text = path.read_bytes().decode("utf-8")
    reader.feed(text)
    reader.close()
    assert reader.open == [] and text.startswith("<!doctype html>")
    assert len(reader.scripts) == 3 and len(set(reader.ids)) == len(reader.ids)
    assert "<" not in reader.scripts[0]

    def no_number(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    figures = json.loads(reader.scripts[0], parse_constant=no_number)
    assert set(figures) == {"themes", "figures"}
    return reader


class Reports:
    """Reports of stores, and how they ended."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.answers, self.pages = Answers(capsys), 0
        self.found = {0: 0, 2: 0}

    def of(self, out: Path) -> int:
        page = out / "report.html"
        page.unlink(missing_ok=True)
        self.answers.of("status", out)
        status = self.answers.of("report", out)
        self.found[status] += 1
        if page.is_file():
            self.pages += 1
            read_page(page)
        assert page.is_file() == (status == 0)
        return status


@pytest.fixture
def reports(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Reports:
    # The drawing script is the same in every page and most of its bytes; the pages that a browser
    # opens have it.
    monkeypatch.setattr(page_module, "runtime", lambda: "var vegaEmbed;")
    return Reports(capsys)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_store(tmp_path_factory.mktemp("store") / "out")


# -- the tests -------------------------------------------------------------------------------------


def test_the_store_that_is_changed_is_good(good: Path, reports: Reports) -> None:
    assert reports.of(good) == 0
    assert read_page(good / "report.html").tables > 20


def test_the_reader_finds_what_is_put_in(good: Path, reports: Reports, tmp_path: Path) -> None:
    assert reports.of(good) == 0
    text = (good / "report.html").read_text(encoding="utf-8")
    for piece in (
        "<img src=x>",
        "</div>",
        '<b onclick="x">',
        "<!-- x -->",
        "<script>x</script>",
        '<a href="https://x.org">x</a>',
    ):
        (tmp_path / "page.html").write_text(
            text.replace("<main", f"{piece}<main", 1), encoding="utf-8"
        )
        with pytest.raises(AssertionError):
            read_page(tmp_path / "page.html")


@pytest.mark.slow
@counts(10, 1000)
def test_a_store_of_changed_bytes(count: int, good: Path, reports: Reports, tmp_path: Path) -> None:
    raw, out = (good / "store.sqlite").read_bytes(), tmp_path / "out"
    out.mkdir()
    # Most of a database is empty pages' rest: changes go where there is something.
    filled = [offset for offset in range(0, len(raw), 64) if any(raw[offset : offset + 64])]

    def check(chance: random.Random) -> None:
        changed = bytearray(raw)
        for _ in range(chance.choice([1, 1, 1, 2, 5, 20])):
            changed[chance.choice(filled) + chance.randrange(64)] = chance.randrange(256)
        if chance.random() < 0.1:
            del changed[chance.randrange(len(changed)) :]
        for path in out.iterdir():
            path.unlink()
        (out / "store.sqlite").write_bytes(changed)
        reports.of(out)

    tried(count, check)
    assert min(reports.found.values()) > 0, reports.found


@pytest.mark.slow
@counts(10, 1000)
def test_a_store_of_strange_values(
    count: int, good: Path, reports: Reports, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(good, out)
    with closing(sqlite3.connect(good / "store.sqlite")) as connection:
        listed = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
        tables = [name for (name,) in listed]
        columns = [
            (table, row[1])
            for table in tables
            for row in connection.execute(f"PRAGMA table_info({table})")
        ]
    assert len(columns) > 20

    def check(chance: random.Random) -> None:
        shutil.copyfile(good / "store.sqlite", out / "store.sqlite")
        with closing(sqlite3.connect(out / "store.sqlite", isolation_level=None)) as connection:
            for _ in range(chance.choice([1, 1, 2])):
                table, column = chance.choice(columns)
                condition = chance.choice(
                    ["1", "rowid = (SELECT min(rowid) FROM {0})", "rowid % 2 = 0"]
                ).format(table)
                value = chance.choice(COLUMN_VALUES)
                try:
                    connection.execute(
                        f"UPDATE {table} SET {column} = ? WHERE {condition}", (value,)
                    )
                except (sqlite3.Error, UnicodeEncodeError):
                    pass  # the database itself refuses the value
        reports.of(out)

    tried(count, check)
    assert reports.found[0] > 0, reports.found


@pytest.mark.slow
@counts(10, 1000)
def test_a_store_of_strange_json(count: int, good: Path, reports: Reports, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(good, out)
    holds = {"studies": ("given", "resolved"), "study_runs": ("labels",), "scores": ("metrics",)}
    holds["runs"] = ("versions", "cost", "warnings", "reason", "detail")

    def check(chance: random.Random) -> None:
        shutil.copyfile(good / "store.sqlite", out / "store.sqlite")
        with closing(sqlite3.connect(out / "store.sqlite")) as connection:
            for _ in range(chance.choice([1, 1, 2, 5])):
                table = chance.choice(list(holds))
                column = chance.choice(holds[table])
                row_ids = [row for (row,) in connection.execute(f"SELECT rowid FROM {table}")]
                chosen = row_ids if chance.random() < 0.3 else [chance.choice(row_ids)]
                (text,) = connection.execute(
                    f"SELECT {column} FROM {table} WHERE rowid = ?", (chosen[0],)
                ).fetchone()
                if column in ("reason", "detail"):
                    value: Any = chance.choice(WORDS).encode("utf-8", "replace").decode()
                else:
                    value = json.dumps(mutated(json.loads(text), chance))
                connection.executemany(
                    f"UPDATE {table} SET {column} = ? WHERE rowid = ?",
                    [(value, row) for row in chosen],
                )
            connection.commit()
        reports.of(out)

    tried(count, check)
    assert reports.found[0] > 0, reports.found


@pytest.mark.slow
@counts(10, 1000)
def test_a_store_with_damaged_files(
    count: int, good: Path, reports: Reports, tmp_path: Path
) -> None:
    out, pristine = tmp_path / "out", tmp_path / "good"
    shutil.copytree(good, out)
    shutil.copytree(good / "artifacts", pristine)

    def check(chance: random.Random) -> None:
        shutil.rmtree(out / "artifacts")
        shutil.copytree(pristine, out / "artifacts")
        paths = sorted((out / "artifacts").rglob("split.json"))
        for path in paths if chance.random() < 0.5 else [paths[0]]:
            turn = chance.random()
            if turn < 0.6:
                path.write_text(
                    json.dumps(mutated(mutated(SPLIT, chance), chance)), encoding="utf-8"
                )
            elif turn < 0.8:
                raw = bytearray(path.read_bytes())
                for _ in range(chance.choice([1, 5])):
                    raw[chance.randrange(len(raw))] = chance.randrange(256)
                path.write_bytes(
                    raw[: chance.randrange(len(raw))] if chance.random() < 0.3 else raw
                )
            elif turn < 0.9:
                path.unlink()
            else:
                path.unlink()
                path.mkdir()
        assert reports.of(out) == 0

    tried(count, check)
    assert reports.pages == reports.found[0] > 0


SHAPES: dict[str, dict[str, Any]] = {
    "nothing planned": {"shifts": ()},
    "nothing done": {"statuses": {"else": "pending"}},
    "all failed": {"statuses": {"else": "failed"}},
    "all diverged": {"statuses": {"else": "diverged"}},
    "one seed": {"seeds": 1, "statuses": {}},
    "no erm": {"methods": ("groupdro", "mixup")},
    "unknown reference": {"reference": "<i>nobody</i>"},
    "one run": {"seeds": 1, "shifts": ("none",), "methods": ("erm",), "statuses": {}},
    "only the reference failed": {
        "methods": ("mixup", "erm"),
        "seeds": 1,
        "shifts": ("none",),
        "statuses": {1: "failed"},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_an_unusual_store_has_a_page(shape: str, reports: Reports, tmp_path: Path) -> None:
    assert reports.of(whole_store(tmp_path / "out", **SHAPES[shape])) == 0
    for form in ("csv", "latex", "json"):
        assert (
            _status(
                ["report", str(tmp_path / "out"), "--format", form, "--out", str(tmp_path / form)]
            )
            == 0
        )


@pytest.mark.slow
def test_names_are_only_words(reports: Reports, tmp_path: Path) -> None:
    words = [
        word
        for word in WORDS
        if word.encode("utf-8", "replace").decode() == word and word not in ("", "erm")
    ]
    assert len(words) > 25
    for number in range(2):
        names = ("SC", *words)
        strange = {"shifts": names} if number else {"methods": ("erm", *names)}
        out = whole_store(tmp_path / str(number), seeds=2, **strange)
        assert reports.of(out) == 0
        page = (out / "report.html").read_text(encoding="utf-8")
        assert "&lt;svg/onload=window.broken=1&gt;" in page
