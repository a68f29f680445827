"""A table of texts from the first command to the last, as somebody with a CSV file goes: and what
is no text, in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
import yaml

from crosswind.cli.main import _status

PRAISE, BLAME = ("good great fine lovely fun", "bad poor awful dull broken")


def write_reviews(path: Path, rows: int = 480) -> None:
    """Texts of two domains and of two lengths, whose words tell the label for four words in five;
    the first is a long one."""
    draw = np.random.default_rng(0)
    texts, label, domain = [], np.arange(rows) % 2, np.arange(rows) // 2 % 2
    for row in range(rows):
        n_words = 90 if row == 0 else (5, 14)[row // 4 % 2]
        words = [
            str(draw.choice((PRAISE if (draw.random() < 0.8) == label[row] else BLAME).split()))
            for _ in range(n_words)
        ]
        texts.append(
            f"The {'book' if domain[row] else 'film'}, number {row}, was {', '.join(words)}."
        )
    named = {"stars": np.where(label, "high", "low"), "domain": np.where(domain, "books", "films")}
    polars.DataFrame({"text": texts, **named}).write_csv(path)


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_init_plan_run_report_audit_and_estimate(
    tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    write_reviews(Path("reviews.csv"))
    assert _status(["init", "reviews.csv", "--label", "stars"]) == 0
    assert "480 rows; texts in column 'text'." in capsys.readouterr().err
    study = yaml.safe_load(Path("reviews.yaml").read_text())
    assert study["data"]["domain"]["options"] == {
        "path": "reviews.csv",
        "text": "text",
        "columns": ["stars", "domain"],
        "empty": "leave-out",
    }
    # All kinds of shift, over a column, the length of a text and a word in it.
    study["data"]["own"] = study["data"].pop("domain")
    study["data"]["own"] |= {
        "rules": {"length": {"words": [15]}, "lovely": {"contains": "lovely"}},
        "attributes": ["domain", "length", "lovely"],
        "roles": {"test": 8, "validation": 0.15},
    }
    study["shifts"] |= {
        "LDD": {"type": "low-data-drift", "attribute": "length", "low": "0-14", "ratio": 0.1},
        "word": {"type": "spurious-correlation", "attribute": "lovely", "counterexamples": 0.2},
    }
    study["training"] |= {"steps": 40, "validate_every": 20}
    study |= {
        "seeds": 1,
        "split_seeds": 1,
        "sizes": {"equal": "equal"},
        "keep": "selected",
        "groups": ["length"],
        "estimators": ["ni-eda", "cbpe"],
        "pool_rows": 40,
    }
    Path("reviews.yaml").write_text(yaml.safe_dump(study))
    assert _status(["plan", "reviews.yaml"]) == 0
    planned = capsys.readouterr().out
    assert all(f"own     {shift}" in planned for shift in ("none", "SC", "LDD", "word"))
    assert _status(["run", "reviews.yaml", "--workers", "1", "--out", "out"]) == 0
    printed = capsys.readouterr().out
    assert "What each shift costs erm" in printed
    assert "The page is out/report.html" in printed
    assert _status(["report", "out", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows
    assert "<html" in Path("out/report.html").read_text()[:200].lower()

    table = polars.read_csv("reviews.csv")
    table.filter(polars.col("domain") == "films").write_csv("films.csv")
    table.filter(polars.col("domain") == "books").write_csv("books.csv")
    assert (
        _status(["audit", "--train", "films.csv", "--target", "books.csv", "--label", "stars"]) == 0
    )
    assert "training never shows books" in capsys.readouterr().out
    table.select("text").head(120).write_csv("new.csv")
    key = _fit_of(Path("out"))
    assert (
        _status(
            [
                "estimate",
                "--model",
                f"out#{key}",
                "--data",
                "new.csv",
                "--pool-rows",
                "40",
                "--neighbour-rows",
                "40",
            ]
        )
        == 0
    )
    output_text = capsys.readouterr().out
    assert "of these 120 answers are right (90% interval" in output_text
    assert "ni-eda" in output_text
    assert "cbpe" in output_text
    # A column of another name is asked for, not a folder of pictures, and parts are read in the
    # order given.
    table.select(polars.col("text").alias("review"), polars.col("text").alias("more")).head(
        120
    ).write_csv("renamed.csv")
    arguments = [
        "estimate",
        "--model",
        f"out#{key}",
        "--pool-rows",
        "0",
        "--neighbour-rows",
        "0",
        "--json",
        "--data",
    ]
    assert _status([*arguments, "renamed.csv"]) == 2
    printed = capsys.readouterr().err
    assert (
        "renamed.csv has no column text; name its column of texts, or those of their parts, by text"
        in printed
    )
    assert _status([*arguments, "renamed.csv", "--text", "revue"]) == 2
    assert (
        "--text: unknown column of renamed.csv 'revue', did you mean 'review'?"
        in capsys.readouterr().err
    )
    estimates = []
    for named in (
        ["new.csv"],
        ["renamed.csv", "--text", "review"],
        ["renamed.csv", "--text", "review,more"],
    ):
        assert _status([*arguments, *named]) == 0
        estimates.append(
            [
                estimate_json["accuracy"]
                for estimate_json in json.loads(capsys.readouterr().out)["estimates"]
            ]
        )
    assert estimates[0] == estimates[1] != estimates[2]


def _fit_of(store: Path) -> str:
    import sqlite3

    with sqlite3.connect(store / "store.sqlite") as database:
        return str(
            database.execute("select key from runs where kind = 'fit' order by key").fetchone()[0]
        )


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        (
            "t.csv",
            b"label,text\na,x y\nb,\n",
            "column 'text', row 2 has no text; take it out, or say blank: leave-out",
        ),
        (
            "t.csv",
            b'label,text\na," \t "\nb,x\n',
            "column 'text', row 1 has a text of white space alone; take it out",
        ),
        ("t.csv", b"label,text\na,x\nb,\xff\xfe\n", "line 3: byte 0xff is not UTF-8"),
        ("t.csv", b"label,text\na,1\nb,2.5\n", "column 'text' holds numbers, and not texts"),
        (
            "t.csv",
            b"label,text\na,x\nb," + b"y " * 500_000 + b"\n",
            "row 2 has a text of 1,000,000 characters, more than the 500,000",
        ),
        ("t.csv", b"label,words\na,x\nb,y\n", "data.d.options.text: unknown column of"),
        ("t.txt", b"label,text\na,x\n", "is no table by its name"),
        ("t.parquet", b"PAR1 no", "t.parquet"),
    ],
)
def test_what_is_no_text_ends_with_status_2_and_nothing_is_written(
    name: str, data: bytes, words: str, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(data)
    study = {
        "data": {
            "d": {"source": "texts", "options": {"path": name}, "label": "label", "attributes": []}
        },
        "shifts": {"none": []},
        "models": ["bag-of-words"],
        "methods": ["erm"],
    }
    Path("s.yaml").write_text(yaml.safe_dump(study))
    for command in (["plan", "s.yaml"], ["run", "s.yaml", "--out", "out"]):
        assert _status(command) == 2
        error_text = capsys.readouterr().err.strip()
        assert words in error_text and error_text.count("\n") == 0, error_text
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "s.yaml"])


@pytest.mark.slow
def test_init_takes_the_parts_of_a_text_and_no_official_split_for_a_shift(
    tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = np.arange(240)
    polars.DataFrame(
        {
            "split": [("train", "test")[row // 2 % 2] for row in rows],
            "genre": [("letters", "news", "talk")[row // 4 % 3] for row in rows],
            "premise": [f"it was said {row} times that day" for row in rows],
            "hypothesis": [f"nobody said number {row}" for row in rows],
            "label": [("no", "yes")[row % 2] for row in rows],
            "pair": [f"p{row // 2}" for row in rows],
        }
    ).write_parquet("pairs.parquet")
    assert _status(["init", "pairs.parquet"]) == 0
    assert (
        "'hypothesis' holds texts too: --text premise,hypothesis reads both as one text of two"
        " parts." in capsys.readouterr().err
    )
    assert _status(["init", "pairs.parquet", "--force", "--text", "premise,hypothesis"]) == 0
    assert "texts in columns 'premise', 'hypothesis'" in (error_text := capsys.readouterr().err)
    assert "holds texts too" not in error_text
    data = yaml.safe_load(Path("pairs.yaml").read_text())["data"]["genre"]
    assert data["attributes"] == ["genre"]
    assert data["options"]["text"] == ["premise", "hypothesis"]
    assert data["options"]["unit"] == "pair"
    assert _status(["init", "pairs.parquet", "--force", "--text", "premise,hypotheses"]) == 2
    assert (
        "--text: unknown column of pairs.parquet 'hypotheses', did you mean 'hypothesis'?"
        in capsys.readouterr().err
    )


@pytest.mark.slow
def test_init_says_what_it_needs(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    polars.DataFrame({"label": ["a", "b"] * 9, "kind": ["c", "d"] * 9}).write_csv("plain.csv")
    assert _status(["init", "plain.csv"]) == 2
    assert "has no column of paths of images (.jpg" in (error_text := capsys.readouterr().err)
    assert "and none of texts" in error_text
    assert _status(["init", "plain.csv", "--text", "texts"]) == 2
    assert "--text: unknown column of plain.csv 'texts'" in capsys.readouterr().err
    write_reviews(Path("reviews.csv"), 60)
    blank = polars.read_csv("reviews.csv").with_columns(
        polars.when(polars.int_range(60) % 20 == 7).then(None).otherwise("text").alias("text")
    )
    blank.write_csv("blank.csv")
    assert _status(["init", "blank.csv", "--label", "stars", "--text", "text"]) == 0
    assert "3 rows without a text left out" in capsys.readouterr().err
    text = polars.Series(
        [("\u200b", " ")[row % 2] if row < 2 else f"text {row}" for row in range(60)]
    )
    blank.with_columns(text.alias("text")).write_csv("unseen.csv")
    assert _status(["init", "unseen.csv", "--label", "stars", "--text", "text"]) == 0
    assert "2 rows without a text left out" in capsys.readouterr().err
    assert _status(["init", "reviews.csv", "--label", "text"]) == 2
    assert "--label: 'text' holds the texts that a model reads" in capsys.readouterr().err
