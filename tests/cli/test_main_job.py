"""The main job from the command line, on real digits, at a scale of seconds."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from crosswind.cli.main import _status

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def store(tmp_path_factory: Any) -> Path:
    out: Path = tmp_path_factory.mktemp("main-job") / "out"
    assert (
        _status(
            [
                "run",
                "demo",
                "--scale",
                "tiny",
                "--workers",
                "2",
                "--out",
                str(out),
                "--set",
                "seeds=2",
            ]
        )
        == 0
    )
    return out


def said(arguments: list[str], capsys: Any) -> str:
    assert _status(arguments) == 0
    return str(capsys.readouterr().out)


def test_every_run_is_finished(store: Path, capsys: Any) -> None:
    (status,) = json.loads(said(["status", str(store), "--json"], capsys))
    texts = [warning["text"] for warning in status.pop("warnings")]
    # Four steps move the weights of its groups by next to nothing, and a run that does nothing of
    # its own says so.
    assert (
        len(texts) == 2
        and texts[0].startswith("groupdro: its own term stayed below 1%")
        and "asked" in texts[1]
    )
    assert [status] == [
        {
            "name": "demo",
            "pending": 0,
            "running": 0,
            "finished": 14,
            "diverged": 0,
            "failed": 0,
            "total": 14,
            "jobs_at_work": 0,
            "failures": [],
            "damaged": {},
        }
    ]


def test_the_table_names_every_method_and_shift(store: Path, capsys: Any) -> None:
    text = said(["report", str(store)], capsys)
    for word in ("erm", "groupdro", "none", "SC", "LDD", "UDS", "SC+UDS", "±"):
        assert word in text
    assert max(len(line) for line in text.splitlines()) <= 80 and len(text.splitlines()) <= 60
    headings = (
        "How much accuracy does plain training (erm) lose",
        "Findings of demo (2 seeds;",
        "What each shift costs erm",
        "Accuracy in %",
    )
    positions = [text.index(heading) for heading in headings]
    assert positions[0] == 0 and positions == sorted(positions)
    every = said(["report", str(store), "--tables", "all"], capsys)
    assert (
        every.startswith("How much accuracy does plain training (erm) lose")
        and "Where the time went" in every
        and "Where the time" not in text
    )


def test_formats_agree_number_by_number(store: Path, capsys: Any) -> None:
    rows = list(
        csv.DictReader(io.StringIO(said(["report", str(store), "--format", "csv"], capsys)))
    )
    tests = [row for row in rows if row["set"] == "test"]
    assert len(tests) == 7
    (study_json,) = json.loads(said(["report", str(store), "--json"], capsys))["studies"]
    assert len(study_json["findings"]["comparisons"]) == 12 and study_json["findings"]["sentences"]
    tables = study_json["tables"]
    accuracy = next(table for table in tables if table["title"].lower().startswith("accuracy"))
    latex = said(["report", str(store), "--format", "latex"], capsys)
    for row in tests:
        shown = f"{float(row['mean']):.3f}"
        column = accuracy["columns"].index(row["shift"])
        line = next(line for line in accuracy["rows"] if line[0].strip() == row["method"])
        assert (
            line[column]["mean"] == pytest.approx(float(row["mean"]), rel=1e-11)
            and line[column]["n"] == 2
        )
        assert shown in latex


def test_a_second_call_executes_nothing(store: Path, capsys: Any) -> None:
    text = said(["run", "demo", "--scale", "tiny", "--out", str(store), "--set", "seeds=2"], capsys)
    assert "0 runs in" in text


def test_a_run_is_shown_in_words_with_rounded_numbers(store: Path, capsys: Any) -> None:
    from crosswind.storage.store import Store

    with Store.open(store) as opened:
        key = opened.runs("demo")[0]["key"]
    text = said(["show", "run", f"{store}#{key[:10]}"], capsys)
    assert text.startswith(
        f"{key}: a row of the tables, finished\n  in the study demo: data digits,"
    )
    assert " UTC, took " in text and "Scores on test, by best-id\n  rows: 450\n" in text
    for raw in ("None", "{'", "step_seconds", "worst_group", "nll"):
        assert raw not in text
    assert not re.search(r"\d\.\d{6}", text)


def test_a_run_can_be_shown_by_a_prefix_of_its_key(store: Path, capsys: Any) -> None:
    from crosswind.storage.store import Store

    with Store.open(store) as opened:
        key = opened.runs("demo")[0]["key"]
    record = json.loads(said(["show", "run", f"{store}#{key[:10]}", "--json"], capsys))
    assert record["key"] == key
    fit, predictions = record["needs"]
    assert fit["spec"]["training"]["steps"] == 4 and predictions["spec"]["set"] == "test"
    assert record["versions"]["torch"]
    for run_row, names in (
        (fit, {"predictions.npz", "history.json"}),
        (predictions, {"predictions.npz"}),
        (record, {"split.json"}),
    ):
        assert {path.name for path in Path(run_row["artifacts"]).iterdir()} >= {"job.json", *names}


def test_an_option_is_refused_where_every_run_is_done_too(store: Path, capsys: Any) -> None:
    words = ["run", "demo", "--scale", "tiny", "--set", "seeds=2", "--out", str(store)]
    assert _status([*words, "--address", "auto"]) == 2
    assert capsys.readouterr().err.endswith("error: --address: is of a Ray cluster: --engine ray\n")


def test_predictions_can_be_read_and_scored_again(store: Path) -> None:
    from crosswind.storage.predictions_file import run_predictions
    from crosswind.storage.store import Store

    with Store.open(store) as opened:
        test_rows = [
            row
            for row in opened.results("demo")
            if row["set"] == "test" and row["rule"] == "best-id"
        ]
        predictions_read = [
            run_predictions(opened, row["key"])[row["rule"]]["test"] for row in test_rows
        ]
    assert len(test_rows) == 14
    ids = set()
    for row, predictions in zip(test_rows, predictions_read, strict=True):
        assert float((predictions.answer == predictions.label).mean()) == pytest.approx(
            row["metrics"]["accuracy"], abs=1e-12
        )
        ids.add(predictions.ids.tobytes())
    assert len(ids) == 1, "all runs of a study share their test rows"


def test_report_writes_a_file_a_table(store: Path, tmp_path: Path, capsys: Any) -> None:
    for form, suffix in (("csv", "csv"), ("latex", "tex"), ("text", "txt")):
        said(["report", str(store), "--format", form, "--out", str(tmp_path / form)], capsys)
        files = list((tmp_path / form).iterdir())
        assert files and {path.suffix for path in files} == {f".{suffix}"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["methods", "models", "sources", "shifts", "transforms", "estimators", "studies"]
)
def test_list_prints_objects_with_names(kind: str, capsys: Any) -> None:
    rows = json.loads(said(["list", kind, "--json"], capsys))
    assert isinstance(rows, list)
    assert all(row["name"] and row["summary"] for row in rows)
    names = [row["name"] for row in rows]
    assert names == sorted(names) and len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9./-]*", name) for name in names)
    for name in names:
        said(["show", kind, name], capsys)
        json.loads(said(["show", kind, name, "--json"], capsys))


@pytest.mark.slow
def test_what_must_start_at_once_imports_nothing_heavy(store: Path) -> None:
    code = (
        "import sys; from crosswind.cli.main import _status; status = _status(sys.argv[1:]);heavy ="
        " [name for name in ('torch', 'torchvision', 'sklearn', 'pandas', 'scipy.stats', 'PIL') if"
        " name in sys.modules];print(status, heavy, file=sys.stderr)"
    )
    commands = [
        ["--help"],
        ["list", "methods"],
        ["plan", "demo"],
        ["plan", "jeon2025/sizes"],
        ["status", str(store)],
        ["report", str(store)],
    ]
    commands += [["show", "method", "groupdro"], ["show", "training"], ["schema"], ["list"]]
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-c", code, *command], capture_output=True, text=True, check=False
        )
        assert done.stderr.strip().splitlines()[-1] == "0 []", (command, done.stderr)


@pytest.mark.parametrize("words", [["plan", "demo"], ["plan", "jeon2025/sizes"]])
def test_a_plan_without_a_store_loads_neither_its_library_nor_scipy(words: list[str]) -> None:
    """SQLAlchemy and SciPy were half of what planning the demo imported."""
    code = (
        "import sys; from crosswind.cli.main import _status; status = _status(sys.argv[1:]);"
        "print(status, [name for name in ('torch', 'sqlalchemy', 'scipy') if name in sys.modules],"
        " file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip().splitlines()[-1] == "0 []", done.stderr


@pytest.mark.slow
def test_the_readme_python_runs(tmp_path: Path, capsys: Any) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert block is not None
    exec(compile(block[1], "README.md", "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out.strip().splitlines()
    assert [line.split(" on ")[0] for line in printed if " on mlp (" in line] == ["erm", "groupdro"]
    accuracies = [float(line.split()[2].rstrip("%")) for line in printed if "  test " in line]
    assert len(accuracies) == 2
    assert all(15 < accuracy <= 100 for accuracy in accuracies), "better than the 10% of chance"


@pytest.mark.slow
def test_the_wheel_carries_its_studies_and_its_figures(tmp_path: Path) -> None:
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHONPATH")}
    build = "import hatchling.build, sys; print(hatchling.build.build_wheel(sys.argv[1]))"
    name = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()[-1]
    import zipfile

    with zipfile.ZipFile(tmp_path / name) as wheel:
        names = wheel.namelist()
        wheel.extractall(tmp_path / "site")
    assert {
        "crosswind/_studies/demo.yaml",
        "crosswind/_studies/jeon2025/sizes.yaml",
        "crosswind/py.typed",
    } <= set(names)
    assert {"crosswind/_records/method-cost.json", "crosswind/_records/effects/jtt.json"} <= set(
        names
    )
    site, folder = str(tmp_path / "site"), str(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {site!r}); import crosswind; assert"
        f" crosswind.__file__.startswith({folder!r});from crosswind.cli.main import main; main()"
    )
    (tmp_path / "empty").mkdir()
    env["PYTHONPATH"] = str(tmp_path / "site")
    card = subprocess.run(
        [sys.executable, "-c", code, "show", "method", "jtt"],
        cwd=tmp_path / "empty",
        env=env,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "time of a run beside ERM's: " in card and "JTT raises the worst group" in card
