"""Specifications that are valid Vega-Lite by Altair's copy of its schema, and the script of a page,
kept between reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import altair
import jsonschema
import pytest
import vl_convert
from tests.reports.test_run_tables import cost_of, run_of
from tests.reports.test_score_tables import _study

from crosswind.reports import charts
from crosswind.reports.gather import SetDraw, ShiftDraw
from crosswind.reports.runs.tables import costs
from crosswind.reports.scores import figures
from crosswind.reports.scores.results import arrange
from crosswind.reports.scores.tables import ranking

FOUND = arrange(_study())
PLACES = FOUND.shown()


def _drawn(most: float, *values: int) -> Any:
    tables = {
        f"attribute {count}": {
            (str(label), f"value {i}"): (most / 2, i) for label in range(3) for i in range(count)
        }
        for count in values
    }
    shown = SetDraw(9, 2, 1, tables)
    return figures.draw_map(
        ShiftDraw("d", "SC", "few", 0, "digit", shown, None, (), ()), shown, most
    )


FIGURES = {
    "panels": _drawn(10, 3, 30, 1),
    "large panels": _drawn(5000, 2),
    "change": figures.change_map(PLACES[0]),
    "worst": figures.worst_map(PLACES[0]),
    "strips": figures.seed_strips(PLACES[0]),
    "rules": figures.rule_dots(PLACES),
    "ranks": figures.rank_dots(ranking(PLACES[:1])[0]),
    "time": figures.time_bars(costs([run_of(cost_of()), run_of({}, "groupdro")])),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_valid_vega_lite(name: str) -> None:
    figure = FIGURES[name]
    assert (
        figure is not None and altair.Chart.from_dict(dict(figure.spec), validate=True) is not None
    )
    assert figure.spec["$schema"].endswith(f"/v{charts.VEGA_LITE.partition('.')[0]}.json")


def test_an_invalid_figure_is_found() -> None:
    assert FIGURES["time"] is not None
    with pytest.raises(jsonschema.ValidationError):
        altair.Chart.from_dict({**FIGURES["time"].spec, "mark": "column"}, validate=True)


def test_figures_are_of_a_version_that_can_be_drawn() -> None:
    assert charts.VEGA_LITE in vl_convert.get_vegalite_versions()


# -- the script ------------------------------------------------------------------------------------


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """How often the script was made, by versions; the folder of caches is an empty one."""
    calls: list[str] = []

    def javascript_bundle(vl_version: str) -> str:
        calls.append(vl_version)
        return "var vegaEmbed = 1; // é\n" * 100

    monkeypatch.setattr(vl_convert, "javascript_bundle", javascript_bundle)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    charts.runtime.cache_clear()
    yield calls
    charts.runtime.cache_clear()


def again() -> str:
    charts.runtime.cache_clear()
    return charts.runtime()


def test_it_is_made_once_a_version(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.metadata

    assert again() == again() == "var vegaEmbed = 1; // é\n" * 100
    assert made == [charts.VEGA_LITE]
    path = charts.cache_file()
    assert path is not None and list((tmp_path / "caches" / "crosswind").iterdir()) == [path]
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "99.0")
    assert charts.cache_file() != path and "99.0" in str(charts.cache_file())


@pytest.mark.parametrize("damage", ["bytes", "folder"])
def test_a_file_that_cannot_be_read_is_made_anew(made: list[str], damage: str) -> None:
    good, path = again(), charts.cache_file()
    assert path is not None
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(b"\xff" * 99)
    assert again() == good and len(made) == 2
    assert again() == good and len(made) == (3 if damage == "folder" else 2)


def test_a_place_that_cannot_be_written_costs_time_only(
    made: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert again() == again()
    assert len(made) == 2


def test_without_a_home_nothing_is_kept(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(*_: Any) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert charts.cache_file() is None
    assert again() == again()
    assert len(made) == 2
