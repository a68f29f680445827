"""The script of a page: kept between reports, made anew where what was kept cannot be read, is damaged, or cannot be written."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from crosswind.reports import bundle


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """How often the script was made, by versions; the folder of caches is an empty one."""
    import vl_convert

    calls: list[str] = []

    def javascript_bundle(vl_version: str) -> str:
        calls.append(vl_version)
        return "var vegaEmbed = 1; // é\n" * 100

    monkeypatch.setattr(vl_convert, "javascript_bundle", javascript_bundle)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    bundle.runtime.cache_clear()
    yield calls
    bundle.runtime.cache_clear()


def again() -> str:
    bundle.runtime.cache_clear()
    return bundle.runtime()


def test_it_is_made_once(made: list[str], tmp_path: Path) -> None:
    first = again()
    assert again() == first == "var vegaEmbed = 1; // é\n" * 100
    assert made == [bundle.VEGA_LITE]
    assert [path.name for path in (tmp_path / "caches" / "crosswind").iterdir()] == [bundle.cache_file().name]  # type: ignore[union-attr]


def test_another_version_has_another_file(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata

    before = bundle.cache_file()
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "99.0")
    assert bundle.cache_file() != before
    assert "99.0" in str(bundle.cache_file())


@pytest.mark.parametrize("damage", ["cut", "empty", "changed", "bytes", "folder"])
def test_a_damaged_file_is_as_good_as_none(made: list[str], damage: str) -> None:
    good, path = again(), bundle.cache_file()
    assert path is not None
    raw = path.read_bytes()
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        damaged = {"cut": raw[:-5], "empty": b"", "changed": raw.replace(b"1;", b"2;", 1), "bytes": b"\xff" * 99}
        path.write_bytes(damaged[damage])
    assert again() == good
    assert len(made) == 2
    assert again() == good
    assert len(made) == (3 if damage == "folder" else 2)


def test_a_place_that_cannot_be_written_costs_time_only(made: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    assert bundle.cache_file() is None
    assert again() == again()
    assert len(made) == 2


def test_many_writers_leave_a_whole_file(made: list[str]) -> None:
    path = bundle.cache_file()
    assert path is not None
    texts = [str(i) * 200_000 for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: bundle._keep(path, text), texts))
    assert bundle._read(path) in texts
