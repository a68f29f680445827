"""Options that would be ignored beside others: one sentence names the option and why it is not heard,
nothing is written, and the exit status is 2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crosswind.cli.main import _status


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a.csv and b.csv of people, their scores, and an empty folder of a store."""
    draw = np.random.default_rng(0)
    for name in ("a", "b"):
        rows = [
            f"{number:.2f},{site},{'yn'[int(number > 0)]}"
            for number, site in zip(draw.normal(size=80), draw.choice(["A", "B"], 80), strict=True)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["age,site,ill", *rows]))
    (tmp_path / "p.csv").write_text("y,n\n0.2,0.8\n0.6,0.4\n")
    (tmp_path / "s.csv").write_text("y,n,label\n0.2,0.8,n\n0.6,0.4,y\n")
    (tmp_path / "store").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


SCORES = "estimate --predictions p.csv --source s.csv"
TABLE = "advise a.csv --label ill"
OF_SHIFT = "says something of a described shift, and a.csv is taken as a table; leave it out"
CASES = [
    (
        "run demo --scale tiny --engine ray --address auto --workers 2",
        "--workers: is how many processors of this machine run; a cluster at --address has its",
    ),
    (
        "advise --shift UDS --tie 0.5",
        "--tie: is how many rows follow SC or LDD, and --shift UDS ties none; leave it out",
    ),
    (
        "advise --shift none --tie 0.95",
        "--tie: is how many rows follow SC or LDD, and --shift none ties none; leave it out",
    ),
    (
        f"{SCORES} --columns y,n",
        "--columns: means the columns of numbers that a model reads, and the",
    ),
    (
        f"{SCORES} --size 32",
        "--size: means the side of pictures, and the estimates are of tables of",
    ),
    (
        f"{SCORES} --set scale=unit",
        "--set: means the settings of a model, and the estimates are of",
    ),
    (
        f"{SCORES} --text note",
        "--text: means the columns of texts of a table, and the estimates are",
    ),
    (
        f"{SCORES} --images pics",
        "--images: means the folder of pictures that a table names, and the",
    ),
    (
        f"{SCORES} --beside-classes y,n",
        "--beside-classes: means the order of the outputs of models",
    ),
    (f"{SCORES} --pool-rows 50", "--pool-rows: is of rows that a model is asked about, and scores"),
    (f"{SCORES} --neighbour-rows 50", "--neighbour-rows: is of rows that a model is asked about"),
    (f"{TABLE} --rows 50", f"--rows: {OF_SHIFT}"),
    (f"{TABLE} --tie 0 --classes 7", f"--classes: {OF_SHIFT}"),
    (f"{TABLE} --tie 0", f"--tie: {OF_SHIFT}"),
    (f"{TABLE} --pretrained", f"--pretrained: {OF_SHIFT}"),
    (f"{TABLE} --study nope", "--study: says something of a store, and a.csv is taken as a table"),
    (f"{TABLE} --scale tiny", "--scale: says something of a study, and a.csv is taken as a table"),
    (f"{TABLE} --set training.steps=3", "--set: says something of a study, and a.csv is taken as"),
    ("advise a.csv b.csv --label ill --kind texts", f"--kind: {OF_SHIFT}"),
    (
        "advise a.csv b.csv --label ill --to adv.yaml",
        "--to: writes the study of one table, and two are named; leave out --to, or TARGET",
    ),
    (
        "advise store --label ill",
        "--label: says something of a table, and store is taken as a store",
    ),
    ("advise store --scale tiny", "--scale: says something of a study, and store is taken as a"),
    ("advise demo --attribute ink", "--attribute: says something of a table, and demo is taken as"),
    (
        "advise demo --study demo",
        "--study: says something of a store, and demo is taken as a study",
    ),
    (
        "advise --shift SC --attribute site",
        "--attribute: says something of a table, and --shift is taken as a described shift",
    ),
    ("advise --shift SC --to adv.yaml", "--to: needs a table, a study or a store: a described"),
    ("report store --json --format csv", "--json: is another form than --format csv; leave one"),
    ("report store --no-page --page p.html", "--page: names p.html for the page, and --no-page"),
    ("report store --tables two --format csv", "--tables: chooses what is printed as text;"),
    (
        "report store --tables two --out d",
        "--tables: chooses what is printed as text; another form",
    ),
    ("show method irm --size 64", "--size: goes with --image and --out, for the contact sheet"),
    (
        "show transform rotate --seed 1",
        "--seed: goes with --image and --out, for the contact sheet",
    ),
    (
        "show transform rotate --image a.png --out b.png --json",
        "--json: prints a card, and --image and --out draw a contact sheet; leave one out",
    ),
    ("list methods --root d", "--root: is where the data of sources lie: crosswind list sources"),
    ("list --root d", "--root: is where the data of sources lie"),
    ("features net.safetensors --data a.csv --out f --by site", "--by: is of the picture that"),
    ("features net.safetensors --data a.csv --out f --seed 1", "--seed: is of the picture that"),
    (
        "features net.safetensors --data a.csv --out f --rows validation",
        "--rows: names a set of a run, STORE#KEY, and net.safetensors is none",
    ),
    ("submit demo --slurm --print --store results", "--store: 'results' is no URL such as"),
    ("init a.csv --label ill --size 32", "--size: is of pictures, and of a.csv the study reads no"),
    ("init a.csv --label ill --images store", "--images: is of pictures, and of a.csv the study"),
    (
        "init a.csv --text site --size 32",
        "--size: is of pictures, and of a.csv the study reads texts;",
    ),
    ("audit a.csv b.csv --label ill --header x,y,z", "--header: names the columns of a CSV file"),
]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--engine rey", "--engine: unknown engine 'rey', did you mean 'ray'? (valid: pool, ray)"),
        ("--log csv", "--log: unknown tool 'csv' (valid: tensorboard, mlflow, wandb)"),
        ("--log mlflow=", "--log: mlflow= names no place"),
        ("--address auto", "--address: is of a Ray cluster: --engine ray"),
        ("--store mysql://host/db", "a store is a folder or a postgresql:// URL, not mysql://"),
        (
            "--store postgresql://u:hidden@127.0.0.1:1/db",
            "postgresql://u@127.0.0.1:1/db cannot be read or written: connection failed",
        ),
    ],
)
def test_what_no_study_can_be_run_with_is_refused_before_the_study_is_planned(
    tables: Path, words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tables.rglob("*"))
    assert _status(["run", "demo", *words.split(), "--set", "shifts.none=[nowhere]"]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: {sentence}") and not printed.out
    assert printed.err.count("\n") == 1
    assert sorted(tables.rglob("*")) == before


@pytest.mark.parametrize(("words", "sentence"), CASES)
def test_what_would_not_be_heard_is_refused(
    tables: Path, words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tables.rglob("*"))
    assert _status(words.split()) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: {sentence}") and not printed.out
    assert printed.err.count("\n") == 1
    assert sorted(tables.rglob("*")) == before


@pytest.mark.parametrize(
    "words",
    [
        "estimate --predictions p.csv --source s.csv --pool-rows 0 --neighbour-rows 300",
        "advise a.csv --label ill --attribute site --groups unknown",
        "advise --shift SC --rows 500 --tie 0.9 --classes 3 --values 3 --kind numbers",
        "audit a.csv b.csv --label ill --header age,site,ill",
        "list sources --root d",
    ],
)
def test_what_is_heard_is_not_refused(
    tables: Path, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(words.split()) == 0, capsys.readouterr().err
