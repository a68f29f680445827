"""`crosswind submit`: the file of a job array, whose tasks share the runs of a study."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.models.test_sklearn_estimator import table_and_study
from tests.storage import test_postgresql as databases

from crosswind.cli.main import _status
from crosswind.storage.store import Store

server, url = databases.server, databases.url
SUBMIT = ["submit", "demo", "--slurm", "--print"]
STORE = ["--store", "postgresql://user@host/crosswind"]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert _status([*SUBMIT, *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_job_array_is_printed_as_slurm_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--tasks", "20", "--cpus", "8", "--gpus", "2", "--time", "4:00:00", "--memory", "16GB"]
    out = tmp_path / "my out"
    lines = printed(capsys, *STORE, *asked, "--partition", "gpu", "--out", str(out))
    assert lines[0] == "#!/bin/bash"
    options = dict(line.removeprefix("#SBATCH --").split("=", 1) for line in lines[1:-2])
    assert options == {
        "job-name": "crosswind-demo",
        "array": "1-20",
        "ntasks": "1",
        "cpus-per-task": "8",
        "gres": "gpu:2",
        "mem": "16384M",
        "time": "4:00:00",
        "partition": "gpu",
        "output": f'"{out}/slurm/%A_%a.log"',
        "signal": "B:TERM@60",
    }
    assert lines[-1].startswith("exec ") and lines[-1].endswith(
        f"run demo --out '{out}' --store postgresql://user@host/crosswind --workers-per-gpu 4"
    )
    assert not out.exists()
    single = printed(capsys, "--set", "about=a; rm -rf x", "--scale", "tiny")
    assert single[-1].endswith("--scale tiny --workers 1 --set 'about=a; rm -rf x'")
    assert "#SBATCH --array=1-1" in single and not any("gres" in line for line in single)


@pytest.mark.parametrize("name", ["my out", "100% of 'it'", 'a "b" #c', "back\\slash", "plain-1"])
def test_the_folder_of_logs_is_what_slurm_makes_of_its_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, "--out", str(tmp_path / name))
    (line,) = (line for line in lines if "--output=" in line)
    # sbatch joins what stands in quotes, takes a character after a backslash as it is, and ends at
    # a space or a #; of the name of a file it makes %% one %.
    (option,) = shlex.split(line.removeprefix("#SBATCH "), comments=True)
    shown = option.removeprefix("--output=").replace("%%", "%")
    assert shown == str(tmp_path / name / "slurm" / "%A_%a.log")


def test_a_task_has_fewer_runs_where_each_takes_several_devices(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shared = ["--set", "training.devices=2", "--set", "training.device=cpu", "--cpus"]
    assert "--workers 4 " in printed(capsys, *shared, "8")[-1]
    assert "--workers 1 " in printed(capsys, *shared, "3")[-1]
    assert _status([*SUBMIT, *shared, "1"]) == 2
    sentence = "error: --cpus: is 1, and a run of the study is shared among 2 devices"
    sentence += "; give 2 or more"
    assert capsys.readouterr().err.strip().endswith(sentence)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["demo"], "--slurm: is the batch system that there is"),
        (["demo", "--slurm", "--tasks", "2"], "name a database: postgresql://USER@HOST/NAME"),
        (["demo", "--slurm", "--tasks", "2", "--store", "out"], "name a database"),
        (["demo", "--slurm", "--time", "soon"], "'soon' is no time such as"),
        (["demo", "--slurm", "--time", "0-00:00:00"], "'0-00:00:00' is no time, which Slurm reads"),
        (["demo", "--slurm", "--memory", "0GB"], "'0GB' is less than 1MB, in which no task runs;"),
        (["demo", "--slurm", "--partition", "a b"], "'a b' is no name of Slurm's"),
        (["demo", "--slurm", "--out", "a\nb"], "--out: 'a\\nb' has a line break"),
        (["demo", "--slurm", "--memory", "much"], "is no amount of memory"),
        (
            ["demo", "--slurm", "--print", "--store", "postgresql://u:hidden@host/db"],
            "--store: postgresql://u@host/db has a password, which others can read in a job's file;"
            " a password is better left out of it: PGPASSWORD, or a line",
        ),
        (
            ["demo", "--slurm", "--print", "--store", "postgresql://u@host/db?password=hidden"],
            "--store: postgresql://u@host/db has a password",
        ),
        (["none such", "--slurm"], "unknown study 'none such'"),
        (["demo", "--slurm"], "there is no sbatch here; --print shows the file for it"),
    ],
)
def test_what_cannot_be_submitted_is_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert _status(["submit", *words]) == 2
    printed_text = capsys.readouterr()
    assert sentence in printed_text.err
    assert "hidden" not in printed_text.out + printed_text.err


def sbatch(folder: Path, body: str) -> dict[str, str]:
    """An environment whose sbatch is this program."""
    program = folder / "bin" / "sbatch"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def test_what_slurm_refuses_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    submit = ["submit", "demo", "--slurm", "--out", str(tmp_path / "out")]
    for body, reason in (
        ("echo 'invalid partition' >&2; exit 1", "invalid partition"),
        ("exit 3", "exit status 3"),
    ):
        for name, value in sbatch(tmp_path, body).items():
            monkeypatch.setenv(name, value)
        assert _status(submit) == 2
        assert f"sbatch refuses: {reason}" in capsys.readouterr().err


@pytest.mark.slow
def test_the_tasks_of_an_array_share_the_runs_of_one_store(
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: Any,
) -> None:
    # It runs each task of the array here, as Slurm would on its nodes.
    body = 'cat > "$0.sh"; for task in 1 2; do bash "$0.sh" > "$0.$task.log" 2>&1 & done; wait; echo Submitted'
    for name, value in sbatch(tmp_path, body).items():
        monkeypatch.setenv(name, value)
    file = table_and_study(tmp_path)
    study = yaml.safe_load(file.read_text(encoding="utf-8"))
    study |= {"models": ["tabular"], "methods": ["erm"], "seeds": 4, "name": "shared"}
    study["training"] = {"steps": 200, "batch": 32, "validate_every": 50}
    file.write_text(yaml.safe_dump(study), encoding="utf-8")
    out = tmp_path / "out"
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2] / "src"))
    words = ["submit", str(file), "--slurm", "--tasks", "2", "--store", url, "--out", str(out)]
    assert _status(words) == 0, subprocess.run(["cat", *tmp_path.glob("bin/*.log")], check=False)
    assert capsys.readouterr().out == "Submitted\n"
    logs = [log.read_text(encoding="utf-8") for log in sorted(tmp_path.glob("bin/*.log"))]
    done = [
        int(line.split()[0])
        for log in logs
        for line in log.splitlines()
        if re.match(r"\d+ runs? in ", line)
    ]
    assert len(done) == 2 and sum(done) == 8, logs  # each run once, by one of them
    with Store.open(url, out=out) as store:
        assert store.counts("shared")["finished"] == 8 and not store.damaged()
