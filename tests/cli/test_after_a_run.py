"""What is asked of a store after a run: whichever command is given, a folder that was moved, a store
without a study, and files that lie elsewhere are told in a sentence that says what to do."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.test_bad_inputs import GOOD

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import InputError, StoreError

SMALL: dict[str, Any] = {**GOOD, "name": "small", "shifts": {"none": []}, "methods": {"erm": {}}}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small.yaml and the store `out` of its runs."""
    folder = tmp_path_factory.mktemp("after")
    (folder / "small.yaml").write_text(yaml.safe_dump(SMALL), encoding="utf-8")
    assert not cw.run_study(str(folder / "small.yaml"), folder / "out").summary.failed
    return folder


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written by mistake lies in a folder of the test."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def refusal(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The sentence that refuses a command."""
    assert _status(words.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    return printed.err.strip()


@pytest.mark.slow
def test_a_store_that_was_copied_names_its_own_page(
    ended: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is kept to be printed again named the page of the folder that it was copied from."""
    first, copied = tmp_path / "first", tmp_path / "copied"
    shutil.copytree(ended / "out", first)
    run = ["run", str(ended / "small.yaml"), "--workers", "1", "--out"]
    for folder in (first, first):
        assert _status([*run, str(folder)]) == 0
        assert f"The page is {first / 'report.html'}" in capsys.readouterr().out
    shutil.copytree(first, copied)
    assert _status([*run, str(copied)]) == 0
    text = capsys.readouterr().out
    assert f"The page is {copied / 'report.html'}" in text and str(first) not in text


@pytest.mark.parametrize(
    "words",
    [
        "best {}",
        "export {} scores.csv --to csv",
        "compare {} {}",
        "advise {}",
        "report {}",
    ],
)
def test_a_store_without_a_study_is_no_choice_between_studies(
    ended: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    """A run that was killed early leaves one; "holds 0 studies; name one" asked for a name."""
    store = tmp_path / "none"
    shutil.copytree(ended / "out", store)
    with sqlite3.connect(store / "store.sqlite") as connection:
        connection.execute("delete from study_runs")
        connection.execute("delete from studies")
    assert f"{store} holds no study yet" in refusal(words.format(store, store), capsys)
    with pytest.raises(StoreError, match="holds no study yet"):
        cw.report(store)


def test_files_are_not_called_gone_where_the_folder_is_another(
    ended: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --repair every run was forgotten, since none had its files in a folder named by mistake."""
    sentence = refusal(f"check {ended / 'out'} --out {tmp_path} --repair", capsys)
    assert f"--out: {tmp_path} has no folder artifacts" in sentence
    assert _status(["check", str(ended / "out")]) == 0


def test_advice_on_runs_whose_files_are_gone_names_the_files(
    ended: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said that the study has no attribute of several values."""
    store = tmp_path / "moved"
    shutil.copytree(ended / "out", store, ignore=shutil.ignore_patterns("artifacts"))
    sentence = refusal(f"advise {store}", capsys)
    assert "left no files here" in sentence and "name the study itself" in sentence
    sentence = refusal(f"advise --shift SC --evidence {store}", capsys)
    assert f"--evidence: {store} has no results that count" in sentence


@pytest.mark.parametrize(
    ("option", "place", "problem"),
    [
        ("--page", "", "--page: must not be empty"),
        ("--page", "FOLDER", "--page: FOLDER is a folder; name a file in it, such as report.html"),
        ("--page", "FOLDER/p.pdf", "--page: 'FOLDER/p.pdf' is no FILE.html"),
        ("--page", "-", "--page: '-' is no FILE.html"),
        ("--figures", "", "--figures: must not be empty"),
        ("--figures", "FOLDER/file", "--figures: FOLDER/file is a file; name a folder"),
    ],
)
def test_a_place_that_nothing_can_be_written_to_is_refused_before_anything_is_printed(
    option: str,
    place: str,
    problem: str,
    ended: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    words = ["report", str(ended / "out"), option, place.replace("FOLDER", str(tmp_path))]
    assert _status(words) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and problem.replace("FOLDER", str(tmp_path)) in printed.err
    assert {entry.name for entry in tmp_path.iterdir()} == {"file", "here"}
    assert not list(Path().iterdir())


def test_a_file_that_is_no_page_of_a_report_is_left_as_it_is(
    ended: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    words = ["report", str(ended / "out"), "--page", str(page)]
    page.write_text("<p>mine</p>", encoding="utf-8")
    assert _status(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "page.html is there already and is no page of a report" in printed.err
    assert page.read_text(encoding="utf-8") == "<p>mine</p>"
    page.write_text("", encoding="utf-8")
    assert _status(words) == 0
    assert _status(words) == 0, "an earlier page is written anew"


@pytest.mark.parametrize(
    "words",
    [
        "report {} --study small --study other",
        "export {} a.csv --to csv --to parquet",
        "status {} --study=other --study=small",
        "run small.yaml --out a --out b",
        "advise --shift SC --rows 10 --rows 20",
    ],
)
def test_an_option_that_is_heard_once_is_given_once(
    words: str, ended: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last one was taken, and the others were not heard."""
    option = next(word for word in words.split() if words.count(f"{word.split('=')[0]}") > 1)
    sentence = refusal(words.format(ended / "out"), capsys)
    assert (
        f"{option.split('=')[0]}: is given twice, and one is heard; leave the others out"
        in sentence
    )


def test_a_flag_twice_and_an_option_for_several_are_heard(
    ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(["status", str(ended / "out"), "--json", "--json"]) == 0
    assert _status(["plan", "demo", "--set", "seeds=2", "--set", "training.steps=9"]) == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            "submit demo --slurm --print --store mysql://host/runs",
            "--store: a store is a folder or a",
        ),
        (
            "submit demo --slurm --print --store postgresql://host:port/x",
            "--store: the store's URL",
        ),
        ("submit demo --slurm --print --out FILE", "--out: FILE is a file; name a folder"),
        ("best STORE --to best.csv", "--to: 'best.csv' is no FILE.yaml, which a study is"),
        ("best STORE --to none/best.yaml", "--to: there is no folder 'none'"),
        ("advise STORE --to next", "--to: 'next' is no FILE.yaml, which a study is"),
    ],
)
def test_what_the_next_command_could_not_read_is_refused_by_the_first(
    words: str, problem: str, ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Jobs waited in a queue to be told that their store is none, and `crosswind run best.csv` took
    the study that was written there for a table."""
    file = str(ended / "small.yaml")
    typed = words.replace("STORE", str(ended / "out")).replace("FILE", file)
    assert problem.replace("--out: FILE", f"--out: {file}") in refusal(typed, capsys)


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_study_that_takes_the_place_of_another_says_so(
    ended: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quick look with --set left a report of two steps in the place of the whole study's."""
    store, file = tmp_path / "out", str(ended / "small.yaml")
    shutil.copytree(ended / "out", store)
    run = ["run", file, "--workers", "1", "--out", str(store)]
    warning = f"warning: study small was run into {store} with other settings: 1 run of then"
    assert _status([*run, "--set", "training.steps=3"]) == 0
    text = capsys.readouterr().err
    assert warning in text and "--set name=small-2 keeps both" in text
    assert warning in f"warning: {cw.run_study(file, store).warnings[-1]}"
    # More seeds have all runs of before, and a name of its own takes no other's place.
    for settings in ("seeds=2", "name=small-2"):
        assert _status([*run, "--set", settings]) == 0
        assert warning not in capsys.readouterr().err
    assert _status(["status", str(store)]) == 0
    assert capsys.readouterr().out.count("study small") == 2


@pytest.mark.usefixtures("in_this_process")
def test_a_folder_without_the_files_of_runs_that_ended_is_warned_of(
    ended: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, file = tmp_path / "out", str(ended / "small.yaml")
    store.mkdir()
    shutil.copy(ended / "out" / "store.sqlite", store)
    words = f"{store} has 1 run that ended, and {store} has none of their files"
    assert words in cw.run_study(file, store).warnings[-1]
    assert _status(["run", file, "--workers", "1", "--out", str(store)]) == 0
    assert f"warning: {words}" in capsys.readouterr().err


def test_the_study_of_an_advice_does_not_take_the_place_of_its_own(
    ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(["advise", str(ended / "small.yaml"), "--to", "next.yaml"]) == 0
    assert yaml.safe_load(Path("next.yaml").read_text(encoding="utf-8"))["name"] == "small-advised"


def test_no_folder_is_not_the_working_directory(ended: Path) -> None:
    with pytest.raises(InputError, match="out: must not be empty"):
        cw.run_study(str(ended / "small.yaml"), "")
    assert not list(Path().iterdir())


def test_a_store_is_no_model_to_take_features_from(
    ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It asked for --data, which would not have helped."""
    sentence = refusal(f"features {ended / 'out'} --out here", capsys)
    assert f"MODEL: {ended / 'out'} is a store; name a run of it" in sentence
