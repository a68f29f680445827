"""`crosswind audit` from the command line: the table, JSON, pictures, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from crosswind.cli.main import _status


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables: training ties the place to the bird and never shows dusk."""
    folder = tmp_path_factory.mktemp("audit")
    for name, tie, seed in (("A.csv", 0.8, 0), ("B.parquet", 0.0, 1)):
        generator = np.random.default_rng(seed)
        bird = generator.integers(0, 2, 800)
        table = polars.DataFrame(
            {
                "bird": np.array(["gull", "owl"])[bird],
                "place": np.array(["sea", "forest"])[
                    np.where(generator.random(800) < tie, bird, generator.integers(0, 2, 800))
                ],
                "light": generator.choice(
                    ["day", "night"] if tie else ["day", "night", "dusk"], 800
                ),
                "age": generator.normal(3, 1, 800),
                "file": [f"{name}-{row}.jpg" for row in range(800)],
            }
        )
        (
            table.write_csv(folder / name)
            if name.endswith("csv")
            else table.write_parquet(folder / name)
        )
    (folder / "half.csv").write_text("bird,wing\ngull,left\n", encoding="utf-8")
    return folder


def run(folder: Path, *words: str) -> int:
    """The exit status of an audit of the two tables; options among `words` replace theirs."""
    usual = {
        "--train": str(folder / "A.csv"),
        "--target": str(folder / "B.parquet"),
        "--label": "bird",
    }
    options = [word for pair in usual.items() if pair[0] not in words for word in pair]
    return _status(["audit", *options, *words])


@pytest.mark.slow
def test_the_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder) == 0
    out = capsys.readouterr().out
    assert out.startswith("800 training and 800 target rows, label 'bird'\n")
    assert re.search(
        r"^place +SHIFT  V \+0\.\d\d +no shift  TV 0\.\d\d +no shift  0\.0%$", out, flags=re.M
    )
    assert re.search(r"^light +no shift .* SHIFT  3\d\.\d%$", out, flags=re.M)
    assert re.search(r"^bird +\(the label\) +no shift ", out, flags=re.M)
    assert (
        "  place, spurious correlation: training ties it to bird" in out and "gull with sea" in out
    )
    assert "  light, unseen values: training never shows dusk (3" in out
    assert "  file: an identifier: 1,600 different values in 1,600 rows" in out
    assert "  age: numbers, put into 10 classes" in out
    assert max(map(len, out.splitlines())) <= 120


KEYS: dict[str, Any] = {
    "format": int,
    "label": str,
    "rows": {"train": int, "target": int},
    "level": float,
    "effect_sizes": dict,
    "shifts": [{"column": str, "kind": str}],
    "columns": [
        {
            "name": str,
            "role": str,
            "cramers_v": {"train": float, "target": float, "difference": dict},
            "total_variation": {"value": float, "low": float, "high": float},
            "unseen": {"values": list, "share": {"value": float, "low": float, "high": float}},
            "values": [
                {
                    "name": str,
                    "train_rows": int,
                    "target_rows": int,
                    "train_share": float,
                    "target_share": float,
                    "ratio": {"value": float, "low": float, "high": float},
                }
            ],
            "verdicts": [
                {
                    "kind": str,
                    "status": str,
                    "words": str,
                    "effect": dict,
                    "p": float,
                    "follows_from": list,
                }
            ],
        }
    ],
    "skipped": [{"column": str, "reason": str}],
    "notes": [str],
}


def check(value: Any, form: Any, where: str = "") -> None:
    """`value` has exactly the names and types of `form`; null may stand for a number or an
    interval."""
    if isinstance(form, dict):
        assert list(value) == list(form), where
        for name, inner in form.items():
            check(value[name], inner, f"{where}.{name}")
    elif isinstance(form, list):
        assert isinstance(value, list) and value, where
        for member in value:
            check(member, form[0], f"{where}[]")
    else:
        assert isinstance(value, form) or (value is None and form in (float, dict)), (
            f"{where}: {value!r}"
        )


@pytest.mark.slow
def test_json_has_one_form(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A change of these names is a change of the form's number, which programs read."""
    assert run(folder, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    check(report, KEYS)
    assert report["format"] == 1
    assert [entry_json["column"] for entry_json in report["shifts"]] == ["place", "light"]
    assert [entry_json["role"] for entry_json in report["columns"]] == ["attribute"] * 3 + ["label"]
    kinds = [
        [verdict["kind"] for verdict in entry_json["verdicts"]] for entry_json in report["columns"]
    ]
    assert kinds == [["spurious correlation", "low-data drift", "unseen values"]] * 3 + [
        ["label shift", "unseen values"]
    ]
    assert report["effect_sizes"] == {
        "spurious correlation": 0.2,
        "low-data drift": 0.15,
        "unseen values": 0.02,
        "label shift": 0.15,
    }


@pytest.mark.slow
def test_columns_names_and_seed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "--columns", "light, age", "--names", "age", "--json", "--seed", "3") == 0
    report = json.loads(capsys.readouterr().out)
    assert [column["name"] for column in report["columns"]] == ["light", "bird"]
    assert report["skipped"] == [
        {"column": "age", "reason": "an identifier: 1,600 different values in 1,600 rows"}
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "head"),
    [("a.svg", b"<svg"), ("a.pdf", b"%PDF"), ("a.PNG", b"\x89PNG"), ("a.html", b"<!doctype html>")],
)
def test_pictures(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, head: bytes
) -> None:
    out = tmp_path / name
    assert run(folder, "--out", str(out)) == 0
    assert out.read_bytes().startswith(head) and [path.name for path in tmp_path.iterdir()] == [
        name
    ]
    assert f"The picture is {out}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("--label", "brid"),
            (
                "error: --label: unknown column of the training table 'brid', did you mean 'bird'?"
                " (valid: bird, place"
            ),
        ),
        (("--train", "{place}/no.csv"), "there is no file"),
        (
            ("--train", "{place}/half.csv"),
            "no attribute is left to audit (wing: only the training table has it; place: only the",
        ),
        (("--target", "{place}"), "is a folder, and a table is needed"),
        (
            ("--columns", "wings"),
            "error: --columns: unknown column of either table 'wings' (valid: bird",
        ),
        (("--names", "wings"), "error: --names: unknown column of either table 'wings'"),
        (("--out", "{place}/a.gif"), "is no picture by its name (valid: .svg, .pdf, .png, .html)"),
        (("--out", "{place}/no/a.png"), "error: --out: there is no folder"),
        (("--seed", "x"), "seed"),
        (("--out", "{place}/A.csv/a.png"), "error: --out: there is no folder"),
    ],
)
def test_refusals(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    before = sorted(folder.iterdir())
    assert run(folder, *(word.format(place=folder) for word in arguments)) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and says in printed.err, printed.err
    assert sorted(folder.iterdir()) == before


def test_missing_options_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(["audit", "--train", "a.csv"]) == 2
    assert "--target" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("role", ["attribute", "label"])
def test_a_column_without_text_is_left_out_or_refused(
    role: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A length of time is the one plain type of polars that cannot be written as text."""
    lengths = polars.Series(
        [86_400_000_000 * (row % 3) for row in range(60)], dtype=polars.Duration("us")
    )
    words = ["ab"[row // 2 % 2] for row in range(60)]
    columns = {"y": words, "c": lengths} if role == "attribute" else {"y": lengths, "c": words}
    polars.DataFrame({**columns, "d": words}).write_parquet(tmp_path / "t.parquet")
    table = str(tmp_path / "t.parquet")
    status = _status(["audit", "--train", table, "--target", table, "--label", "y"])
    printed = capsys.readouterr()
    reason = "holds duration(time_unit='us') values, which have no text to name them by"
    if role == "attribute":
        assert status == 0 and f"  c: {reason}" in printed.out
    else:
        assert (status, printed.err) == (2, f"error: the label 'y' {reason}\n")
