"""What a report of a fault holds: `crosswind doctor`, `python -m crosswind`, `--debug`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from crosswind.cli import doctor
from crosswind.cli.main import _status, main
from crosswind.core import extras
from crosswind.core.errors import InternalError

ROOT = Path(__file__).resolve().parents[2]


def doctor_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert _status(["doctor"]) == 0
    return capsys.readouterr().out.splitlines()


def test_each_fact_has_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    import numpy
    import torch

    lines = doctor_lines(capsys)
    assert lines[0] == f"crosswind 0.1.0, Python {sys.version.split()[0]}"
    torch_version = torch.__version__.partition("+")[0]
    assert f"torch {torch_version}" in lines[1] and f"numpy {numpy.__version__}" in lines[1]
    for begin in ("platform: ", "processor: ", "memory: ", "device of `auto`: ", "prepared data: "):
        assert sum(line.startswith(begin) for line in lines) == 1, begin
    assert lines[-1].startswith("variables: ")


def test_a_missing_extra_is_named_with_what_for_and_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known_version = extras.installed_version
    monkeypatch.setattr(
        extras, "installed_version", lambda name: None if name == "timm" else known_version(name)
    )
    assert (
        "not installed: timm, for networks of timm (pip install 'crosswind[timm]')"
        in doctor_lines(capsys)
    )
    assert _status(["doctor", "--json"]) == 0
    missing = json.loads(capsys.readouterr().out)["missing_extras"]
    assert missing["timm"]["packages"] == ["timm"]


def test_every_extra_of_the_project_is_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {
        name: tuple(requirement.partition(">")[0].partition("[")[0] for requirement in requirements)
        for name, requirements in project["optional-dependencies"].items()
    }
    assert declared == {name: extra.distributions for name, extra in extras.EXTRAS.items()}


def test_the_home_folder_and_secrets_are_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "ada.lovelace"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("CROSSWIND_DATA", str(tmp_path / "ada.lovelace" / "data"))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    lines = doctor_lines(capsys)
    assert f"prepared data: {os.path.join('~', 'data')} (not there yet)" in lines
    assert "OMP_NUM_THREADS=3" in lines[-1]
    assert not any("sk-secret" in line or "lovelace" in line for line in lines)


def test_a_folder_whose_name_begins_as_the_home_folder_is_shown_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home-of/ada")
    assert doctor._homeless("/home-of/adam/x /home-of/ada/y") == "/home-of/adam/x ~/y"


def test_a_library_that_does_not_start_is_said_and_nothing_else_is_lost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    lines = doctor_lines(capsys)
    assert any(line.startswith("torch: cannot be looked at, ModuleNotFoundError") for line in lines)
    assert lines[-1].startswith("variables: ")


def test_the_package_is_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "crosswind", "--version"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "crosswind 0.1.0\n", "")


def test_a_trace_is_shown_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(["show", "method", "no-such-method"]) == 2
    without = capsys.readouterr().err
    assert "Traceback" not in without
    for words in (["--debug", "show"], ["show", "--debug"]):
        assert _status([*words, "method", "no-such-method"]) == 2
        shown = capsys.readouterr().err
        assert "Traceback" in shown and "InputError" in shown and shown.endswith(without)


def test_an_exception_that_nobody_foresaw_ends_with_its_trace_and_what_to_send(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "installation", lambda root: [][1])
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    lines = capsys.readouterr().err.splitlines()
    assert ended.value.code == 1 and lines[0].startswith("Traceback")
    assert lines[-1].startswith("error: list index out of range; this is a fault of Crosswind:")


def test_a_fault_says_what_to_send_once_however_often_it_is_raised_again() -> None:
    sentence = str(InternalError("a row is in two roles"))
    assert sentence.startswith("a row is in two roles; this is a fault of Crosswind: report it")
    assert "`crosswind doctor`" in sentence and "--debug" in sentence
    assert str(InternalError(sentence)) == sentence
    long = str(InternalError("xx " * 1000))
    assert len(long) == 1000 and long.endswith("--debug")


def test_the_guide_lists_every_extra_as_doctor_does() -> None:
    page = (ROOT / "docs" / "guides" / "install.md").read_text(encoding="utf-8")
    for name, extra in extras.EXTRAS.items():
        assert f"| `crosswind[{name}]` | {extra.purpose} |" in page
