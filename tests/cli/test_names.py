"""Whatever a name holds, printing never fails: folders whose names are not UTF-8, and terminals of
other encodings."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crosswind
from crosswind.cli.main import _status
from crosswind.cli.run import _print_said
from crosswind.cli.status import warn_of_damage
from crosswind.core.errors import DataError, InputError, one_line, plain
from crosswind.core.printing import foreign_name, json_text, utf8

FOREIGN = os.fsdecode(b"M\xfcnchen \xff\xfe")
"""A folder's name in Latin-1, with bytes that no encoding of texts begins with."""
ENCODINGS = ["utf-8", "ascii", "iso-8859-1", "cp1252", "shift_jis", "koi8-r"]

Printed = tuple[int, bytes, bytes]


def printed(arguments: Sequence[object], encoding: str, monkeypatch: pytest.MonkeyPatch) -> Printed:
    """The exit status, and what went to standard output and standard error of this encoding, as
    strict as Python makes them."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict") for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    status = _status([str(word) for word in arguments])
    for stream in streams:
        stream.flush()
    out, err = (stream.buffer.getvalue() for stream in streams)  # type: ignore[attr-defined]
    return status, out, err


def write_study(folder: Path, name: str = "vögel.yaml") -> Path:
    """A study of features that runs in a second, with names of many scripts."""
    folder.mkdir(exist_ok=True)
    numbers = np.random.default_rng(0).normal(size=(60, 2))
    rows = ["a,b,Möwe,zeit→"]
    for i, (a, b) in enumerate(numbers):
        rows.append(
            f"{a + i % 2:.3f},{b:.3f},{['Gänse', '日本', 'жук'][i % 3]},{['früh', 'spät'][i % 2]}"
        )
    (folder / "zahlen.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    study = {
        "data": {
            "birds": {
                "source": "features",
                "options": {
                    "path": "zahlen.csv",
                    "numbers": ["a", "b"],
                    "columns": ["Möwe", "zeit→"],
                },
                "label": "Möwe",
                "attributes": ["zeit→"],
                "roles": {"test": 2, "validation": 0.2},
            }
        },
        "shifts": {"none": []},
        "models": ["mlp"],
        "methods": ["erm"],
        "training": {"steps": 3, "batch": 8, "validate_every": 3},
        "seeds": 1,
        "keep": "all",
    }
    (folder / name).write_text(json.dumps(study, ensure_ascii=False), encoding="utf-8")
    return folder / name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a foreign name with a study, its store in a folder of a foreign name, and what
    verbs ask for."""
    top = tmp_path_factory.mktemp("names") / FOREIGN
    study = write_study(top)
    summary = crosswind.run_study(study, top / "läufe").summary
    assert summary.failed == 0
    return top


VERBS: dict[str, list[str]] = {
    "status": ["status", "STORE"],
    "status --json": ["status", "STORE", "--json"],
    "report": ["report", "STORE"],
    "report --tables all": ["report", "STORE", "--tables", "all", "--page", "FOLDER/ü.html"],
    "report --json": ["report", "STORE", "--json"],
    "report csv": ["report", "STORE", "--format", "csv"],
    "report latex": ["report", "STORE", "--format", "latex"],
    "report --out": ["report", "STORE", "--format", "csv", "--out", "FOLDER/tabellen-ü"],
    "check": ["check", "STORE"],
    "check --json": ["check", "STORE", "--json"],
    "compare": ["compare", "STORE", "STORE"],
    "compare --json": ["compare", "STORE", "STORE", "--json"],
    "plan": ["plan", "STUDY"],
    "plan --json": ["plan", "STUDY", "--json"],
    "run again": ["run", "STUDY", "--out", "STORE", "--workers", "1"],
    "run --json": ["run", "STUDY", "--out", "STORE", "--workers", "1", "--json"],
    "export csv": ["export", "STORE", "FOLDER/ä.csv", "--to", "csv"],
    "export parquet": ["export", "STORE", "FOLDER/ä.parquet", "--to", "parquet"],
    "audit": [
        "audit",
        "--train",
        "FOLDER/zahlen.csv",
        "--target",
        "FOLDER/zahlen.csv",
        "--label",
        "Möwe",
    ],
    "audit --json": [
        "audit",
        "--train",
        "FOLDER/zahlen.csv",
        "--target",
        "FOLDER/zahlen.csv",
        "--label",
        "Möwe",
        "--json",
    ],
    "audit --out": [
        *("audit", "--train", "FOLDER/zahlen.csv", "--target", "FOLDER/zahlen.csv"),
        *("--label", "Möwe", "--out", "FOLDER/a.html"),
    ],
    "show run": ["show", "run", "STORE#KEY"],
    "features": ["features", "STORE#FIT", "--rows", "validation", "--out", "FOLDER/merkmale"],
    "estimate": [
        "estimate",
        "--model",
        "STORE#FIT",
        "--data",
        "FOLDER/ohne",
        "--estimators",
        "atc-mc",
    ],
    "list": ["list", "methods"],
    "schema": ["schema", "--out", "FOLDER/schema.json"],
}
REFUSED = {"estimate"}  # a folder of pictures for a network of features


@pytest.mark.parametrize(
    ("verb", "encoding"),
    [
        *((verb, "utf-8") for verb in VERBS),
        *((f"{verb} --json", code) for verb in ("status", "check", "run") for code in ENCODINGS),
    ],
)
def test_every_verb_prints_in_a_folder_of_a_foreign_name(
    folder: Path, verb: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crosswind.storage.store import Store

    (folder / "ohne").mkdir(exist_ok=True)
    with Store.open(folder / "läufe") as store:
        key = store.runs(store.study_names()[0])[0]["key"]
        fit = next(
            key
            for key, listed in store.files().items()
            if any(name.endswith(".safetensors") for name in listed)
        )
    paths = {
        "STORE": folder / "läufe",
        "STUDY": folder / "vögel.yaml",
        "FOLDER": folder,
        "KEY": key,
        "FIT": fit,
    }
    words = VERBS[verb]
    for name, value in paths.items():
        words = [word.replace(name, str(value)) for word in words]
    status, out, err = printed(words, encoding, monkeypatch)
    assert status == (2 if verb in REFUSED else 0), err
    assert b"Traceback" not in out + err
    if "--json" in words:
        assert json.loads(out)  # also where the encoding has no "ü"


def test_json_names_the_place_so_that_it_is_found_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = list((folder / "läufe" / "artifacts").rglob("predictions.npz"))
    moved = [path.rename(path.with_suffix(".away")) for path in numbers]
    try:
        for verb in ("status", "report", "check"):
            status, out, err = printed([verb, folder / "läufe"], "ascii", monkeypatch)
            assert status == (1 if verb == "check" else 0)
            assert b"gone" in out + err
            assert b"Traceback" not in out + err
    finally:
        for path in moved:
            path.rename(path.with_suffix(".npz"))
    escaped = json_text({"folder": str(folder)}, io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert json.loads(escaped)["folder"] == str(
        folder
    )  # a half character is what Python opens the folder by


@pytest.mark.parametrize(
    "words",
    [
        ["status", "FOLDER/nichts"],
        ["report", "FOLDER/zahlen.csv"],
        ["run", "FOLDER/ü.yaml"],
        ["plan", "FOLDER/vögel.yaml", "--set", "methods=[ü→]"],
        ["run", "FOLDER/vögel.yaml", "--out", "FOLDER/zahlen.csv"],
        ["init", "FOLDER/zahlen.csv", "--out", "FOLDER/zahlen.yaml"],
        ["estimate", "--predictions", "FOLDER/fehlt.csv"],
        ["audit", "--train", "FOLDER/fehlt.csv", "--target", "FOLDER/fehlt.csv", "--label", "ü"],
        ["export", "FOLDER/läufe", "FOLDER/ü.txt", "--to", "csv"],
        ["show", "method", "ü\udcfc"],
        ["features", "FOLDER/läufe#00", "--out", "FOLDER/m"],
    ],
    ids=lambda words: " ".join(words[:2]).encode("ascii", "replace").decode(),
)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "koi8-r"])
def test_a_refusal_is_one_sentence_in_any_encoding(
    folder: Path, words: list[str], encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, err = printed(
        [word.replace("FOLDER", str(folder)) for word in words], encoding, monkeypatch
    )
    assert (status, out) == (2, b"")
    lines = err.decode(encoding).splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_names_in_a_table_are_printed_in_any_encoding(
    folder: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = folder / "zahlen.csv"
    status, out, _ = printed(
        ["audit", "--train", table, "--target", table, "--label", "Möwe"], encoding, monkeypatch
    )
    assert status == 0
    # An output of ASCII is taken for a locale that was not set: the command line then writes UTF-8.
    text = out.decode("utf-8" if encoding == "ascii" else encoding)
    assert ("Möwe" in text) == (encoding in ("utf-8", "ascii", "iso-8859-1", "cp1252"))
    assert ("zeit→" in text) == (encoding in ("utf-8", "ascii", "shift_jis"))


def test_the_page_is_utf8(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = folder / "seite.html"
    status, _, err = printed(["report", folder / "läufe", "--page", page], "utf-8", monkeypatch)
    assert status == 0, err
    text = page.read_text(encoding="utf-8")
    assert "M\\xfcnchen \\xff\\xfe" in text


@pytest.mark.slow
def test_a_process_of_an_ascii_locale_prints(folder: Path) -> None:
    locale = {
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "ascii:strict",
    }
    starting = "import sys; from crosswind.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", starting, "status", os.fsencode(folder / "läufe")]
    done = subprocess.run(command, env={**os.environ, **locale}, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert done.stdout.startswith(b"study ")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (os.fsdecode(b"M\xfcnchen"), "M\\xfcnchen"),
        (os.fsdecode("日本".encode("shift_jis")), "\\x93\\xfa\\x96{"),
        (os.fsdecode(b"\x80\xff"), "\\x80\\xff"),
        ("Möwe", "Möwe"),
        ("half \ud800", "half \ufffd"),
        ("a\x1b[2Jb", "a\ufffd[2Jb"),
    ],
)
def test_a_name_is_told_by_its_bytes(name: str, shown: str) -> None:
    assert plain(name) == one_line(name) == shown


@pytest.mark.parametrize("text", ["Möwe", "\udcfc", "\ud83d", "\udfff\udc80", "a\udcffb→"])
def test_utf8_is_never_refused(text: str) -> None:
    utf8(text).decode("utf-8")
    assert utf8("M\udcfc→") == "M\\xfc→".encode()
    assert utf8("\ud83d") == b"\\ud83d"


def test_a_picture_of_a_foreign_name_is_refused_by_what_it_is(tmp_path: Path) -> None:
    from PIL import Image

    from crosswind.unlabelled.target_rows import read_rows

    for name in (b"gull", b"M\xf6we"):
        (tmp_path / os.fsdecode(name)).mkdir()
        Image.new("RGB", (8, 8)).save(tmp_path / os.fsdecode(name) / "1.png")
    with pytest.raises(DataError, match=r"the name M\\xf6we/1.png is not UTF-8; rename it"):
        crosswind.load("image-folder", path=str(tmp_path), size=8)
    with pytest.raises(DataError, match=r"data: the name M\\xf6we/1.png is not UTF-8; rename it"):
        read_rows(str(tmp_path), "data", None, 8, None, None, None)


def test_in_a_locale_of_ascii_the_remedy_is_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ascii")
    problem = foreign_name("M\udcc3\udcbc")
    assert problem is not None
    assert "is not ascii, the encoding of this locale; set PYTHONUTF8=1" in problem
    assert foreign_name("gull") is None


def test_init_names_the_way_out_where_a_study_cannot_name_the_place(folder: Path) -> None:
    from crosswind.proposals.study_file import propose

    with pytest.raises(
        InputError,
        match=(
            r"TABLE: the path .*M\\xfcnchen.* is not UTF-8, and a study file is; run this command"
            r" from"
        ),
    ):
        propose(str(texts_table(folder)))


def texts_table(folder: Path) -> Path:
    """A table that `init` takes."""
    rows: list[str] = ["text,label,site"]
    for i in range(60):
        rows.append(
            f"this is text number {i},{'yes' if i % 2 else 'no'},{'here' if i % 3 else 'there'}"
        )
    path = folder / "texte.csv"
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def test_what_python_prints_holds_no_half_characters(folder: Path) -> None:
    report: Any = crosswind.report(folder / "läufe")
    str(report).encode()
    report._repr_html_().encode()
    str(crosswind.audit(str(folder / "zahlen.csv"), str(folder / "zahlen.csv"), "Möwe")).encode()
    repr(crosswind.plan(str(folder / "vögel.yaml"))._repr_html_()).encode()


def test_a_command_that_is_printed_is_one_that_a_shell_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "it's; 2")
    spoken = {"text": "", "studies": 2, "page sentence": ""}
    _print_said(spoken, "my study", "0 runs in 0 s.", out)
    results = capsys.readouterr().out.split("Results: ")[1].splitlines()[0]
    assert shlex.split(results) == ["crosswind", "report", out, "--study", "my study"]
    warn_of_damage("s", {"key": ["gone"]}, "postgresql://u:p@h/d?a=b&c=d", Path(out))
    command = capsys.readouterr().err.split("; ", 1)[1].partition(" reads them all")[0]
    url = "postgresql://u@h/d?a=b&c=d"
    assert shlex.split(command) == ["crosswind", "check", url, "--out", out]
    assert _status(["status", out]) == 2
    command = capsys.readouterr().err.split("`")[1]
    assert shlex.split(command) == ["crosswind", "run", "STUDY", "--out", out]
