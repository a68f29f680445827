"""Commands as people type them first: two tables without options, a name without its kind, a table
in the place of a study, a study in a folder that is not there yet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crosswind.cli.main import _status


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with train.csv, whose sexes go with the label, and new.csv, where they do not."""
    for name, tie, seed in (("train", 0.9, 0), ("new", 0.5, 1)):
        draw = np.random.default_rng(seed)
        sick = draw.integers(0, 2, 600)
        sex = np.where(draw.random(600) < tie, sick, 1 - sick)
        age = np.round(draw.normal(50, 10, 600) + 5 * sick, 1)
        lines = [
            f"{a},{'mf'[s]},{('no', 'yes')[y]}" for a, s, y in zip(age, sex, sick, strict=True)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["age,sex,sick", *lines]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


AUDITS = [
    "train.csv new.csv",
    "--train train.csv --target new.csv",
    "train.csv --target new.csv",
    "new.csv --train train.csv",
]


@pytest.mark.parametrize("words", AUDITS)
def test_an_audit_takes_its_tables_by_place_or_by_option(
    tables: Path, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(["audit", *words.split(), "--label", "sick"]) == 0
    out = capsys.readouterr().out
    assert "sex, spurious correlation: training ties it to sick" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("audit --label sick", "error: --train: is missing: crosswind audit TRAIN TARGET"),
        ("audit train.csv --label sick", "error: --target: is missing: the table of the rows"),
        ("audit train.csv new.csv", "error: --label: names the column of the label"),
        ("audit a.csv b.csv c.csv --label x", "error: TABLE: an audit is of two tables, and these"),
        ("audit train.csv new.csv --train new.csv --label x", "error: TABLE: an audit is of two"),
        (
            "advise train.csv --shift SC",
            "error: --shift: describes a shift where nothing is named",
        ),
        ("advise", "error: TABLE: name a table, a study or a store, or describe one by --shift"),
        ("plan train.csv", "error: train.csv is a table, and a study is needed; crosswind init"),
        ("run train.csv", "error: train.csv is a table, and a study is needed; crosswind init"),
        ("init train.csv --out .", "error: --out: . is a folder; name a file in it, such as study"),
        ("show nothing-such", "error: NAME: unknown name 'nothing-such'"),
        ("show method", "error: NAME: is missing; crosswind list methods tells the names"),
        ("show run", "error: NAME: is missing; write STORE#KEYPREFIX"),
    ],
)
def test_what_is_missing_or_too_much_is_named(
    tables: Path, words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tables.iterdir())
    assert _status(words.split()) == 2
    assert capsys.readouterr().err.startswith(sentence)
    assert sorted(tables.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("groupdro", "groupdro  (method)"),
        ("mlp", "mlp  (architecture)"),
        ("digits", "digits  (source)"),
        ("rotate", "rotate  (transform)"),
        ("spurious-correlation", "spurious-correlation  (shift)"),
        ("atc-ne", "atc-ne  (estimator)"),
        ("demo", "# Real handwritten digits"),
    ],
)
def test_a_name_is_shown_without_its_kind(
    name: str, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(["show", name]) == 0
    assert capsys.readouterr().out.startswith(first)


@pytest.mark.slow
def test_a_study_goes_into_a_folder_that_is_made_for_it(tables: Path) -> None:
    words = ["init", "train.csv", "--label", "sick", "--out", "studies/new/sick.yaml"]
    assert _status(words) == 0
    assert _status(["plan", "studies/new/sick.yaml"]) == 0
    assert _status(["init", "train.csv", "--label", "no", "--out", "other/sick.yaml"]) == 2
    assert not (tables / "other").exists()


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        ("net.pt", "a .pt file may hold code that runs when it is opened, so it is not; export"),
        ("net.pth", "or name FILE.py:FUNCTION, a function of a batch of inputs that loads it"),
        ("m.joblib", "by skops.io.dump"),
        ("net.keras", "a .keras file is TensorFlow's; export it as ONNX (tf2onnx)"),
        ("fn.py", "of a program the function is named too, fn.py:FUNCTION"),
        ("https://example.com/net.onnx", "it is an address, from which nothing is fetched"),
        ("resnet18", "it is a network without weights; name a run that trained it, STORE#KEY"),
        (".", "it is a folder; of a store a run is named STORE#KEY"),
        ("fn.py:shares", "of a probability p of the second class give both: np.stack([1 - p, p]"),
        ("fn.py:column", "of a probability p of the second class give both: np.stack([1 - p, p]"),
    ],
)
def test_a_model_in_another_form_is_told_the_way(
    tables: Path, model: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tables / "fn.py").write_text(
        "import numpy as np\n"
        "def shares(x):\n    return 1 / (1 + np.exp(52 - x[:, 0]))\n"
        "def column(x):\n    return shares(x)[:, None]\n"
    )
    words = ["--data", "new.csv", "--source", "train.csv", "--label", "sick", "--columns", "age"]
    assert _status(["estimate", "--model", model, *words]) == 2
    assert advice in capsys.readouterr().err
