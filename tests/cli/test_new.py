"""`crosswind new`: what it writes can be installed, is listed, and passes its own test as it is."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from crosswind.cli import new
from crosswind.cli.main import _status


def installed(project: Path, site: Path) -> dict[str, str]:
    """The environment of a program with a project's wheel on its path."""
    code = "from hatchling.build import build_wheel; print(build_wheel('dist'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(project / "dist" / done.stdout.splitlines()[-1]) as wheel:
        wheel.extractall(site)
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


def output(words: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_what_is_written_is_installed_listed_and_green(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    for kind in new.KINDS:  # the first begins the package, the others join it
        assert _status(["new", kind, f"my-own-{kind}"]) == 0
    environment = installed(project, tmp_path / "site")
    for kind, room in new.KINDS.items():
        assert f"my-own-{kind} " in output(["crosswind", "list", room], tmp_path, environment)
    report = output(["pytest", "-q", "-W", "error"], project, environment)
    assert "failed" not in report and int(report.split()[-4]) >= 70, report


@pytest.mark.parametrize("kind", new.KINDS)
def test_a_begun_plug_in_is_found_by_its_name(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _status(["new", kind, "top-loss"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.removeprefix("wrote ") for line in lines[:-1]] == [
        "pyproject.toml",
        os.path.join("src", "crosswind_top_loss", "__init__.py"),
        os.path.join("src", "crosswind_top_loss", "top_loss.py"),
        os.path.join("tests", "test_top_loss.py"),
    ]
    assert "pip install -e ." in lines[-1] and f"crosswind show {kind} top-loss" in lines[-1]
    text = (tmp_path / "src" / "crosswind_top_loss" / "top_loss.py").read_text(encoding="utf-8")
    assert f'@register("top-loss", kind="{kind}")' in text and "class TopLoss(" in text
    assert "@NAME@" not in text and all(len(line) <= 100 for line in text.splitlines())


def test_nothing_is_written_over_and_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_mine.py").write_text("mine", encoding="utf-8")
    assert _status(["new", "method", "mine"]) == 2
    assert "test_mine.py is there already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["test_mine.py"]
    assert (tmp_path / "tests" / "test_mine.py").read_text(encoding="utf-8") == "mine"


def test_a_package_that_is_there_gets_a_module_and_an_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "acme"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\nname = "acme"\nversion = "1"  # ours\n', encoding="utf-8")
    assert _status(["new", "source", "leaves"]) == 0
    assert (package / "leaves.py").is_file() and (tmp_path / "tests" / "test_leaves.py").is_file()
    text = project.read_text(encoding="utf-8")
    assert text.startswith('[project]\nname = "acme"\nversion = "1"  # ours\n')
    assert text.endswith('[project.entry-points.crosswind]\nleaves = "acme.leaves"\n')
    assert _status(["new", "source", "stones"]) == 0
    assert 'stones = "acme.stones"\nleaves' in project.read_text(encoding="utf-8")
    (package / "leaves.py").unlink()
    assert _status(["new", "source", "leaves"]) == 2
    assert "has an entry point 'leaves' already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["methd", "mine"], "KIND: unknown kind 'methd', did you mean 'method'?"),
        (["metric", "mine"], "KIND: unknown kind 'metric'"),
        (["method", "Mine"], "NAME: must be small letters, digits and hyphens"),
        (["method", "../mine"], "NAME: must be small letters, digits and hyphens"),
        (["method", "class"], "NAME: 'class' is a word of Python"),
        (["method", "erm"], "NAME: there is a method 'erm' already: crosswind show method erm"),
    ],
)
def test_what_cannot_be_begun_is_one_sentence(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _status(["new", *words]) == 2
    assert sentence in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_project_without_a_package_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "acme"\n', encoding="utf-8")
    assert _status(["new", "method", "mine"]) == 2
    assert "names no package that is in src or beside it" in capsys.readouterr().err
    (tmp_path / "pyproject.toml").write_text("[project\n", encoding="utf-8")
    assert _status(["new", "method", "mine"]) == 2
    assert "cannot be read" in capsys.readouterr().err
