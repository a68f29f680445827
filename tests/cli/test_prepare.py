"""`crosswind prepare`, and what lists, cards and plans say of prepared data."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.data.prepared import toys
from tests.data.prepared.toys import ROWS, Toy, write_originals

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CROSSWIND_DATA", raising=False)
    with toys.registered():
        yield


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_originals(tmp_path_factory.mktemp("originals"))


def said(arguments: list[Any], capsys: Any) -> str:
    assert _status([str(word) for word in arguments]) == 0
    return str(capsys.readouterr().out)


def refused(arguments: list[Any], capsys: Any) -> str:
    assert _status([str(word) for word in arguments]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ") or "\nerror: " in printed.err
    assert printed.err.count("error: ") == 1 and "Traceback" not in printed.err and not printed.out
    return str(printed.err.splitlines()[-1])


def test_a_copy_is_made_found_and_checked(tmp_path: Path, originals: Path, capsys: Any) -> None:
    words = ["prepare", "toy", "--root", tmp_path, "--from", originals]
    assert _status([str(word) for word in words]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(
        f"toy is prepared: {ROWS} pictures of 32 x 32 x 3 (array, 2.0 MB) in"
        f" {tmp_path / 'toy'}, 0 s"
    )
    assert "toy: preparing, 640 of 640 rows" in printed.err and len(printed.err.splitlines()) <= 11
    assert said(words, capsys).startswith("toy is ready: ")
    assert said(
        ["prepare", "toy", "--root", tmp_path, "--check", "--workers", "2"], capsys
    ).startswith("toy is whole: ")
    report = json.loads(said(["prepare", "toy", "--root", tmp_path, "--json"], capsys))
    assert (report["was"], report["n_rows"], report["folder"]) == (
        "ready",
        ROWS,
        str(tmp_path / "toy"),
    ) and "checksums" not in report
    with (tmp_path / "toy/pixels.npy").open("r+b") as file:
        file.seek(1000)
        file.write(b"harm")
    error = refused(["prepare", "toy", "--root", tmp_path, "--check"], capsys)
    assert (
        "is damaged: rows 0 to 84 in pixels.npy are not as they were written: crosswind prepare toy"
        " --root" in error
    )
    assert said([*words, "--again"], capsys).startswith("toy is prepared: ")
    assert "is whole" in said(["prepare", "toy", "--root", tmp_path, "--check"], capsys)


def test_settings_stores_and_totals(tmp_path: Path, originals: Path, capsys: Any) -> None:
    words = ["prepare", "toy", "--root", tmp_path, "--from", originals]
    assert "toy-flip=true" in said([*words, "--set", "flip=true", "--store", "jpeg"], capsys)
    few = write_originals(tmp_path / "few", rows=70)
    assert "hold all 70 rows, where all 640 are published" in refused([*words[:-1], few], capsys)
    text = said([*words[:-1], few, "--accept-totals"], capsys)
    assert "its rows are not the published ones: all 70, not all 640" in text
    copy = cw.load("toy", root=str(tmp_path), flip=True)
    assert copy.n_rows == ROWS
    assert (
        np.abs(
            copy.inputs(np.arange(50))
            - np.load(originals / "pictures.npy")[:50, ::-1].astype(np.int64)
        ).mean()
        < 1.5
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["prepare", "toys"], "NAME: unknown source 'toys', did you mean 'toy'?"),
        (["prepare", "digits"], "NAME: 'digits' is always ready and has no prepared copy (valid: "),
        (
            ["prepare", "toy", "--set", "flap=1"],
            "flap: unknown setting of source 'toy': 'flap', did you mean 'flip'?",
        ),
        (["prepare", "toy", "--set", "flip=1"], "flip: must be true or false, not 1"),
        (["prepare", "toy", "--store", "png"], "store: unknown store 'png' (valid: array, jpeg)"),
        (["prepare", "toy", "--check", "--again"], "--check: makes nothing"),
        (["prepare", "toy", "--set", "root=x"], "--set root: is given by --root already"),
        (
            ["prepare", "toy", "--from", "no-such-folder"],
            "no-such-folder is a folder that does not exist",
        ),
        (["prepare", "toy"], "toy needs pictures.npy, labels.npy in the folder "),
        (["prepare", "toy", "--check"], "there is no prepared copy of toy in "),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], sentence: str, tmp_path: Path, capsys: Any
) -> None:
    root = tmp_path / "root"
    assert refused([*words, "--root", root], capsys).startswith(f"error: {sentence}")
    assert not root.exists() or not list(root.iterdir())


def test_an_interrupt_says_that_what_is_done_is_kept(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("crosswind.data.prepared.build.prepare", interrupted)
    assert _status(["prepare", "toy", "--root", str(tmp_path)]) == 130
    assert (
        capsys.readouterr().err.strip()
        == "interrupted; what is done is kept, the same command goes on"
    )


def test_an_interrupted_command_that_keeps_nothing_does_not_say_that_it_does(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("crosswind.storage.store.Store.open", interrupted)
    assert _status(["status", "store"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted; the same command begins anew"


def test_lists_say_what_is_ready(
    tmp_path: Path, originals: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSWIND_DATA", str(tmp_path))

    def words() -> dict[str, str]:
        lines = said(["list", "sources"], capsys).splitlines()
        return {line.split()[0]: line.split()[1] for line in lines}

    before = words()
    assert before["toy"] == "no" and before["digits"] == "always" and len(before) >= 6
    said(["prepare", "toy", "--from", originals], capsys)
    assert words() == {**before, "toy": "ready", "toy-in-red": "ready"}
    rows = {row["name"]: row for row in json.loads(said(["list", "sources", "--json"], capsys))}
    assert rows["toy"]["ready"] == "ready" and rows["toy"]["copies"][0]["folder"] == str(
        tmp_path / "toy"
    )
    assert rows["digits"]["copies"] == []
    assert re.search(
        "^toy-in-red +no +The toy's",
        said(["list", "sources", "--root", tmp_path / "other"], capsys),
        re.MULTILINE,
    )


def test_the_card_of_a_source_is_shown(
    tmp_path: Path, originals: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSWIND_DATA", str(tmp_path))
    said(["prepare", "toy", "--from", originals, "--set", "flip=true"], capsys)
    text = said(["show", "source", "toy"], capsys)
    for line in (
        "  class: cat, dog, owl",
        "  half: which half of the rows",
        "Rows: all 640",
        "Pictures: 32 x 32 x 3",
        "Files: pictures.npy, labels.npy (1.2 kB)",
        "How to get it: write pictures.npy and labels.npy",
        "Ready here: in part (flip=True)",
        "Licence: public domain",
        "Citation: Nobody, Nothing, 2020",
        "Used in: nobody2020: table 1",
        "Layout of the files: this file",
    ):
        assert line in text.splitlines(), line
    card = json.loads(said(["show", "source", "toy", "--json"], capsys))["card"]
    assert card["attributes"]["class"] == ["cat", "dog", "owl"] and card["files"][1] == {
        "name": "labels.npy",
        "size": 1234,
    }


def study(root: Path | None, **options: Any) -> dict[str, Any]:
    data = {"source": "toy", "options": options if root is None else {"root": str(root), **options}}
    return {
        "name": "toys",
        "data": {
            "toys": {
                **data,
                "label": "class",
                "attributes": ["half"],
                "roles": {"test": 10, "validation": 0.2},
            }
        },
        "shifts": {"none": []},
        "sizes": {"all": "all"},
        "models": {"mlp": {"model": "mlp", "hidden": 8, "layers": 1}},
        "methods": {"erm": {}},
        "training": {"steps": 4, "batch": 16, "validate_every": 2},
        "seeds": 1,
    }


def test_a_study_of_a_copy_that_is_missing_is_refused_at_the_plan(
    tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(study(tmp_path / "root", flip=True)), encoding="utf-8")
    sentence = (
        f"there is no prepared copy of toy in {tmp_path / 'root'}: crosswind prepare toy --root"
        f" {tmp_path / 'root'} --set flip=true"
    )
    assert _status(["plan", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == f"study {path}: 1 run, which cannot be planned here\n"
    assert printed.err == f"error: data.toys: {sentence}\n"
    assert (
        refused(["run", path, "--out", tmp_path / "out"], capsys) == f"error: data.toys: {sentence}"
    )
    assert not (tmp_path / "out").exists()


def test_where_the_copy_lies_is_not_part_of_a_run(
    tmp_path: Path, originals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cw.prepare("toy", root=str(tmp_path / "a"), originals=originals)
    assert folder == tmp_path / "a/toy"
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    keys = [make_plan(study_from(study(tmp_path / name))).runs[0].key for name in ("a", "b")]
    monkeypatch.setenv("CROSSWIND_DATA", str(tmp_path / "a"))
    keys.append(make_plan(study_from(study(None))).runs[0].key)
    monkeypatch.setenv("CROSSWIND_DATA", str(tmp_path / "b"))
    keys.append(make_plan(study_from(study(None))).runs[0].key)
    assert len(set(keys)) == 1
    # Another content in the same place, made in the same process, is other data.
    pictures = np.load(originals / "pictures.npy")
    shutil.copytree(originals, tmp_path / "other")
    np.save(tmp_path / "other/pictures.npy", pictures[::-1])
    cw.prepare("toy", root=str(tmp_path / "b"), originals=tmp_path / "other", again=True)
    assert make_plan(study_from(study(None))).runs[0].key != keys[0]
    assert make_plan(study_from(study(tmp_path / "b"))).runs[0].key != keys[0]


def test_a_study_runs_on_a_copy(tmp_path: Path, originals: Path) -> None:
    cw.prepare("toy", root=str(tmp_path / "root"), originals=originals, store="jpeg")
    study_results = cw.run_study(study(tmp_path / "root"), tmp_path / "out")
    assert study_results.summary.finished == 1


def test_prepare_in_python_refuses_what_has_no_copy(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="source: 'digits' is always ready and has no prepared copy"
    ):
        cw.prepare("digits")
    with pytest.raises(InputError, match="flap: unknown setting of source 'toy'"):
        cw.prepare("toy", root=str(tmp_path), flap=1)
    assert Toy.card.totals == {"all": ROWS}
